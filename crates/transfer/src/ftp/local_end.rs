//! Local end of a transfer: a file, memory, or a listing that is parsed as it arrives.

use super::transfer_result::{
    TransferError, TransferResult, limit_exceeded, local_error, malformed,
};
use crate::ftp_data::{FileDecoder, add_since};
use protocols::ftp::data::Decoded;
use protocols::ftp::listing::Collector;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Local end of a transfer.
#[derive(Debug)]
pub enum LocalEnd {
    /// Writes to a file from offset `at` on, or to a stream without offsets. The transfer ends
    /// after `stop_after` bytes, if given. More than `max_bytes` bytes are an error and are not
    /// written.
    WriteTo {
        /// The file.
        file: File,
        /// Offset of the first byte; by default the position of the file.
        at: Option<u64>,
        /// Number of bytes after which the transfer ends.
        stop_after: Option<u64>,
        /// Maximum number of bytes; more is an error.
        max_bytes: Option<u64>,
    },
    /// Reads from a file or a stream.
    ReadFrom(File),
    /// Appends to memory.
    Memory(Vec<u8>),
    /// Parses the entries of a listing as they arrive.
    Listing(Box<Collector>),
}

/// Maximum number of bytes of a file received into memory.
const MEMORY_MAX_BYTES: usize = 256 << 20;

impl LocalEnd {
    /// Returns the number of bytes between the position and the end of a regular file.
    pub(super) fn remaining_bytes(&self) -> Option<u64> {
        let Self::ReadFrom(file) = self else { return None };
        let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
        Some(metadata.len().saturating_sub(rustix::fs::tell(file).ok()?))
    }

    /// Processes bytes from the data connection.
    pub(super) fn process_wire_bytes(
        &mut self,
        wire: &[u8],
        decoder: Option<&mut FileDecoder>,
        ended: &mut TransferResult,
    ) -> Result<(), TransferError> {
        ended.stats.first_byte_at.get_or_insert_with(Instant::now);
        let Some(decoder) = decoder else { return self.write_file_bytes(wire, ended) };
        let mut wire = wire;
        while self.decode(decoder, &mut wire, ended)? {}
        Ok(())
    }

    /// Runs one step of the decoder. Returns whether the same input needs another step.
    fn decode(
        &mut self,
        decoder: &mut FileDecoder,
        wire: &mut &[u8],
        ended: &mut TransferResult,
    ) -> Result<bool, TransferError> {
        let began = Instant::now();
        let decoded = decoder.step(wire);
        add_since(&mut ended.stats.conversion_time, began);
        ended.stats.counts = decoder.counts();
        let decoded = decoded.map_err(|error| malformed(&format!("{error:?}")))?;
        self.write_file_bytes(decoder.content(), ended)?;
        // Bytes after the end of the file are ignored.
        Ok(!matches!(decoded, Decoded::NeedsInput | Decoded::EndOfFile))
    }

    /// Moves data received into memory, or a received listing, into the result.
    pub(super) fn store_content(self, ended: &mut TransferResult) {
        match self {
            Self::Memory(memory) => ended.memory = memory,
            Self::Listing(listing) => ended.listing = Some(listing),
            Self::WriteTo { .. } | Self::ReadFrom(_) => {}
        }
    }

    /// Writes the next bytes of the file.
    pub(crate) fn write_file_bytes(
        &mut self,
        bytes: &[u8],
        ended: &mut TransferResult,
    ) -> Result<(), TransferError> {
        let mut bytes = bytes;
        match self {
            Self::WriteTo { file, at, stop_after, max_bytes } => {
                if stop_after.is_none() {
                    check_limit(*max_bytes, ended.file_bytes, bytes.len())?;
                }
                if let Some(stop_after) = *stop_after {
                    let remaining_bytes =
                        usize::try_from(stop_after - ended.file_bytes).unwrap_or(usize::MAX);
                    bytes = bytes.get(..remaining_bytes).unwrap_or(bytes);
                    ended.has_enough = bytes.len() == remaining_bytes;
                }
                let began = Instant::now();
                match at {
                    Some(at) => file.write_all_at(bytes, *at + ended.file_bytes),
                    None => file.write_all(bytes),
                }
                .map_err(local_error)?;
                ended.stats.count_call();
                add_since(&mut ended.stats.write_time, began);
            }
            Self::Memory(memory) if memory.len() + bytes.len() <= MEMORY_MAX_BYTES => {
                memory.extend_from_slice(bytes);
            }
            Self::Memory(_) => {
                let limit_mib = MEMORY_MAX_BYTES >> 20;
                return Err(limit_exceeded(format!(
                    "more than {limit_mib} MiB, the limit for a file received into memory"
                )));
            }
            Self::Listing(listing) => {
                listing.push(bytes).map_err(|error| limit_exceeded(error.to_string()))?;
            }
            Self::ReadFrom(_) => {}
        }
        ended.file_bytes += u64::try_from(bytes.len()).unwrap_or(0);
        Ok(())
    }
}

/// Returns an error if `before + count` bytes exceed `max_bytes`.
pub(super) fn check_limit(
    max_bytes: Option<u64>,
    before: u64,
    count: usize,
) -> Result<(), TransferError> {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    match max_bytes {
        Some(max_bytes) if before.saturating_add(count) > max_bytes => {
            Err(limit_exceeded(format!("more than the {max_bytes} bytes that the server reports")))
        }
        _ => Ok(()),
    }
}
