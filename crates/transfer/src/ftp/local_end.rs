//! Local end of a transfer: a file, memory, or a listing that is parsed as it arrives.

use super::error::{TransferError, limit_exceeded, local_error};
use crate::ftp_data::{FileSource, Sink, SplicePipe};
use protocols::ftp::data::Encoder;
use protocols::ftp::listing::Collector;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;

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

/// Returns the source of an upload that begins at the current position of `file`.
pub(super) fn source(file: File, encoder: Option<Encoder>) -> FileSource {
    let metadata = file.metadata().ok().filter(fs::Metadata::is_file);
    let position = rustix::fs::tell(&file).ok();
    let expected_bytes =
        metadata.zip(position).map(|(metadata, at)| metadata.len().saturating_sub(at));
    FileSource { file, offset: None, expected_bytes, skipped_bytes: 0, encoder }
}

/// Local end of a download, and the number of bytes that it has received.
#[derive(Debug)]
pub(super) struct LocalSink {
    pub(super) local_end: LocalEnd,
    file_bytes: u64,
    has_enough: bool,
}

impl LocalSink {
    pub(super) const fn new(local_end: LocalEnd) -> Self {
        Self { local_end, file_bytes: 0, has_enough: false }
    }
}

impl Sink for LocalSink {
    type Error = TransferError;
    const DROPS_EXCESS: bool = true;

    fn write(&mut self, bytes: &[u8]) -> Result<(), TransferError> {
        let mut bytes = bytes;
        match &mut self.local_end {
            LocalEnd::WriteTo { file, at, stop_after, max_bytes } => {
                if stop_after.is_none() {
                    check_limit(*max_bytes, self.file_bytes, bytes.len())?;
                }
                if let Some(stop_after) = *stop_after {
                    let remaining_bytes =
                        usize::try_from(stop_after - self.file_bytes).unwrap_or(usize::MAX);
                    bytes = bytes.get(..remaining_bytes).unwrap_or(bytes);
                    self.has_enough = bytes.len() == remaining_bytes;
                }
                match at {
                    Some(at) => file.write_all_at(bytes, *at + self.file_bytes),
                    None => file.write_all(bytes),
                }
                .map_err(local_error)?;
            }
            LocalEnd::Memory(memory) if memory.len() + bytes.len() <= MEMORY_MAX_BYTES => {
                memory.extend_from_slice(bytes);
            }
            LocalEnd::Memory(_) => {
                let limit_mib = MEMORY_MAX_BYTES >> 20;
                return Err(limit_exceeded(format!(
                    "more than {limit_mib} MiB, the limit for a file received into memory"
                )));
            }
            LocalEnd::Listing(listing) => {
                listing.push(bytes).map_err(|error| limit_exceeded(error.to_string()))?;
            }
            LocalEnd::ReadFrom(_) => {}
        }
        self.file_bytes += bytes.len() as u64;
        Ok(())
    }

    fn takes_pipe(&self) -> bool {
        matches!(self.local_end, LocalEnd::WriteTo { stop_after: None, .. })
    }

    fn write_pipe(&mut self, pipe: &mut SplicePipe) -> Result<bool, TransferError> {
        let LocalEnd::WriteTo { file, at, max_bytes, .. } = &self.local_end else {
            return Ok(false);
        };
        check_limit(*max_bytes, self.file_bytes, pipe.buffered_bytes())?;
        while pipe.buffered_bytes() > 0 {
            match pipe.write_to(file, at.map(|at| at + self.file_bytes)) {
                Ok(0) => return Err(local_error(ErrorKind::WriteZero.into())),
                Ok(moved) => self.file_bytes += moved as u64,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The file system does not support `splice`.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    let bytes = pipe.take_bytes().map_err(local_error)?;
                    self.write(&bytes)?;
                    return Ok(false);
                }
                Err(error) => return Err(local_error(error)),
            }
        }
        Ok(true)
    }

    fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    fn has_enough(&self) -> bool {
        self.has_enough
    }
}

/// Returns an error if `before + count` bytes exceed `max_bytes`.
fn check_limit(max_bytes: Option<u64>, before: u64, count: usize) -> Result<(), TransferError> {
    match max_bytes {
        Some(max_bytes) if before.saturating_add(count as u64) > max_bytes => {
            Err(limit_exceeded(format!("more than the {max_bytes} bytes that the server reports")))
        }
        _ => Ok(()),
    }
}
