//! Conversion between a file and its representation on the data connection, in steps.
//!
//! Deflated data may expand to a thousand times its size, and a file of zeros is read for a long
//! time before any output is sent. The session thread, which runs all sessions, therefore converts
//! only amounts that take a fraction of a millisecond. Larger conversions run as long work
//! ([`Steps`]): one step at a time on the pool of blocking threads, with a permit of a queue that
//! is fair between sources.

use super::long_work::Steps;
use super::upload::Upload;
use os::clock::thread_cpu_time;
use protocols::ftp::Mode;
use protocols::ftp::Representation;
use protocols::ftp::data::{Counts, Decoded, Encoder};
use protocols::ftp::server::{FileError, TransferError};
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};
use transfer::ftp_data::{FileDecoder, PieceSizes, encode_read};

/// Maximum number of file or wire bytes converted in the session thread.
const INLINE_BYTES: usize = 16 * 1024;
/// Maximum number of deflated wire bytes converted in the session thread.
const INLINE_DEFLATED_BYTES: usize = 512;
/// Approximate maximum number of file bytes that one step reads or writes.
const STEP_BYTES: usize = 4 << 20;
/// Read size, and number of wire bytes produced by one step.
const PIECE_BYTES: usize = PieceSizes::SERVER.converted;

/// File being sent.
pub(super) struct Outgoing {
    file: File,
    encoder: Encoder,
    piece_bytes: usize,
}

/// Result of one encoding step.
pub(super) struct Encoded {
    pub(super) wire: Vec<u8>,
    /// Number of bytes read from the file.
    pub(super) file_bytes: usize,
    pub(super) is_over: bool,
    pub(super) counts: Counts,
    pub(super) cpu: Duration,
}

impl Outgoing {
    /// Creates a converter of `file` from its current position, which produces about `piece_bytes`
    /// wire bytes per step.
    pub(super) fn new(file: File, encoder: Encoder, piece_bytes: usize) -> Self {
        Self { file, encoder, piece_bytes: piece_bytes.min(PIECE_BYTES) }
    }

    /// Returns whether a file of `len` bytes is converted in the session thread.
    pub(super) fn is_inline(len: u64) -> bool {
        len <= INLINE_BYTES as u64
    }

    /// Converts the next piece.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or if its content does not match the word
    /// format.
    pub(super) fn encode(&mut self) -> Result<Encoded, FileError> {
        let cpu = thread_cpu_time();
        // The buffer is not kept between steps, because thousands of transfers may be waiting.
        let mut piece = vec![0; self.piece_bytes];
        let mut wire = Vec::new();
        let mut file_bytes = 0;
        let is_over = loop {
            let count = self.file.read(&mut piece).map_err(|_| FileError::Local)?;
            let read = piece.get(..count).unwrap_or_default();
            encode_read(&mut self.encoder, read, &mut wire).map_err(|_| FileError::Local)?;
            file_bytes += count;
            if count == 0 || wire.len() >= self.piece_bytes || file_bytes >= STEP_BYTES {
                break count == 0;
            }
        };
        let cpu = thread_cpu_time().saturating_sub(cpu);
        Ok(Encoded { wire, file_bytes, is_over, counts: self.encoder.counts(), cpu })
    }
}

/// Long work that encodes the next piece of a file being sent.
pub(super) struct EncodeStep(pub(super) Option<Outgoing>);

impl Steps for EncodeStep {
    type Output = Result<(Outgoing, Encoded), FileError>;

    fn step(&mut self) -> Option<Self::Output> {
        let mut outgoing = self.0.take()?;
        Some(outgoing.encode().map(|encoded| (outgoing, encoded)))
    }
}

/// File being received.
pub(super) struct Incoming {
    decoder: FileDecoder,
    pub(super) upload: Upload,
    /// Received bytes, of which the first `converted` are converted.
    pub(super) wire: Vec<u8>,
    converted: usize,
    inline_max: usize,
    /// Restart markers, each with the length of the file at the marker.
    pub(super) markers: Vec<(Vec<u8>, u64)>,
    /// Elapsed time and CPU time of all decoding steps.
    pub(super) decode_times: (Duration, Duration),
}

impl Incoming {
    /// Creates a converter that writes into `upload`.
    ///
    /// # Errors
    ///
    /// Returns an error if the representation cannot be received.
    pub(super) fn new(
        representation: &Representation,
        upload: Upload,
    ) -> Result<Self, TransferError> {
        let decoder = FileDecoder::new(representation).map_err(|_| TransferError::Malformed)?;
        let is_deflated = representation.mode == Mode::Deflate;
        Ok(Self {
            decoder,
            upload,
            wire: Vec::new(),
            converted: 0,
            inline_max: if is_deflated { INLINE_DEFLATED_BYTES } else { INLINE_BYTES },
            markers: Vec::new(),
            decode_times: (Duration::ZERO, Duration::ZERO),
        })
    }

    /// Returns whether the received bytes are converted in the session thread.
    pub(super) fn is_inline(&self) -> bool {
        self.wire.len() <= self.inline_max
    }

    pub(super) fn counts(&self) -> Counts {
        self.decoder.counts()
    }

    /// Converts the received bytes, up to [`STEP_BYTES`] of the file. Returns whether all received
    /// bytes are converted.
    ///
    /// # Errors
    ///
    /// Returns an error if the data is malformed, or if the file accepts no more data.
    pub(super) fn decode(&mut self) -> Result<bool, TransferError> {
        let started_at = Instant::now();
        let cpu = thread_cpu_time();
        let result = self.decode_step();
        self.decode_times.0 += started_at.elapsed();
        self.decode_times.1 += thread_cpu_time().saturating_sub(cpu);
        if result == Ok(true) {
            self.wire.clear();
            self.converted = 0;
        }
        result
    }

    fn decode_step(&mut self) -> Result<bool, TransferError> {
        let mut file_bytes = 0;
        loop {
            let mut rest = self.wire.get(self.converted..).unwrap_or_default();
            let Ok(decoded) = self.decoder.step(&mut rest) else {
                self.upload.mark_unusable();
                return Err(TransferError::Malformed);
            };
            let is_rest_empty = rest.is_empty();
            self.converted = self.wire.len() - rest.len();
            self.upload.write(self.decoder.content()).map_err(TransferError::File)?;
            file_bytes += self.decoder.content().len();
            match decoded {
                Decoded::OutputFull if file_bytes >= STEP_BYTES => return Ok(false),
                Decoded::OutputFull => {}
                Decoded::Marker(marker) => self.markers.push((marker, self.upload.len_bytes())),
                Decoded::EndOfFile if !is_rest_empty => return Err(TransferError::Malformed),
                Decoded::EndOfFile | Decoded::NeedsInput => return Ok(true),
            }
        }
    }

    /// Returns the upload after the orderly end of the connection.
    ///
    /// # Errors
    ///
    /// Returns an error if the data is incomplete, or if retrieving the file would return different
    /// data.
    pub(super) fn finish(mut self) -> Result<Upload, TransferError> {
        self.decoder.finish().map_err(|_| TransferError::Malformed)?;
        if self.decoder.has_lost() {
            self.upload.mark_unusable();
            // Retrieving the file would return different data.
            return Err(TransferError::Malformed);
        }
        self.upload.write(self.decoder.content()).map_err(TransferError::File)?;
        Ok(self.upload)
    }
}

/// Long work that decodes the received bytes of a file.
pub(super) struct DecodeSteps(pub(super) Option<Incoming>);

impl Steps for DecodeSteps {
    type Output = Result<Incoming, TransferError>;

    fn step(&mut self) -> Option<Self::Output> {
        match self.0.as_mut()?.decode() {
            Ok(false) => None,
            Ok(true) => self.0.take().map(Ok),
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::beneath::{Existing, RootDir};
    use protocols::ftp::Type;

    // attack row 149
    #[test]
    fn a_deflated_upload_is_converted_in_steps_outside_the_session_thread() {
        let name = format!("plumb-conversion-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        let root_dir = RootDir::open(&path).unwrap();
        let representation = Representation {
            data_type: Type::Image,
            mode: Mode::Deflate,
            ..Representation::default()
        };
        let mut encoder = Encoder::new(&representation, None).unwrap();
        let mut wire = Vec::new();
        let zeros = vec![0; 4 * STEP_BYTES];
        encoder.encode(&zeros, &mut wire).unwrap();
        encoder.finish(&mut wire).unwrap();
        assert!(wire.len() < PIECE_BYTES, "one piece of the wire: {}", wire.len());
        let atomic_file = root_dir.create(b"zeros", Existing::Keep).unwrap();
        let upload = Upload::new(atomic_file, None, u64::MAX);
        let mut incoming = Incoming::new(&representation, upload).unwrap();
        incoming.wire = wire;
        assert!(!incoming.is_inline());
        let mut steps = 1;
        while !incoming.decode().unwrap() {
            // One call of the decoder produces a small part of a step.
            let max_bytes = u64::try_from(steps * STEP_BYTES * 5 / 4).unwrap();
            assert!(
                incoming.upload.len_bytes() <= max_bytes,
                "{} in {steps}",
                incoming.upload.len_bytes()
            );
            steps += 1;
        }
        assert!(steps >= 4, "{steps}");
        assert_eq!(incoming.upload.len_bytes(), zeros.len() as u64);
        std::fs::remove_dir_all(&path).unwrap();
    }
}
