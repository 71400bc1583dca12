//! Conversion between a file and its representation on the data connection, in steps.
//!
//! Deflated data may expand to a thousand times its size, and a file of zeros is read for a long
//! time before any output is sent. A driver that runs many transfers in one thread therefore runs
//! the steps of a large conversion elsewhere ([`Steps`]).

use super::environment::{EncodedPiece, FileSink, Steps, TransferFailure};
use protocols::ftp::data::{Counts, Decoded, Decoder, Encoder};
use protocols::ftp::{Mode, Representation};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};

/// Maximum number of file or wire bytes whose conversion is short.
const SHORT_BYTES: usize = 16 * 1024;
/// Maximum number of deflated wire bytes whose conversion is short.
const SHORT_DEFLATED_BYTES: usize = 512;
/// Approximate maximum number of file bytes that one step reads or writes.
const STEP_BYTES: usize = 4 << 20;

/// File that is encoded from its current position.
pub(super) struct FileEncoding {
    file: File,
    encoder: Encoder,
    read_bytes: usize,
    /// A step ends with this number of wire bytes.
    wire_min_bytes: usize,
    /// Buffers of the last step, if they are kept. Thousands of transfers that wait for the network
    /// must not keep theirs.
    buffers: Option<(Vec<u8>, Vec<u8>)>,
}

impl FileEncoding {
    /// Encodes `file` in steps of about `piece_bytes` wire bytes.
    pub(super) const fn in_pieces(file: File, encoder: Encoder, piece_bytes: usize) -> Self {
        let wire_min_bytes = piece_bytes;
        Self { file, encoder, read_bytes: piece_bytes, wire_min_bytes, buffers: None }
    }

    /// Encodes `file` in steps of one read each, and keeps the buffers. The file may be a pipe,
    /// whose bytes are sent as soon as they arrive.
    pub(super) const fn by_reads(file: File, encoder: Encoder, read_bytes: usize) -> Self {
        let buffers = Some((Vec::new(), Vec::new()));
        Self { file, encoder, read_bytes, wire_min_bytes: 0, buffers }
    }

    /// Returns whether encoding a file of `file_bytes` bytes takes a fraction of a millisecond.
    pub(super) fn is_short(file_bytes: u64) -> bool {
        file_bytes <= SHORT_BYTES as u64
    }

    /// Returns the wire buffer of a piece that has been sent.
    pub(super) fn recycle(&mut self, wire: Vec<u8>) {
        if let Some((_, kept)) = &mut self.buffers {
            *kept = wire;
            kept.clear();
        }
    }

    fn encode(&mut self) -> Result<EncodedPiece, EncodingFailure> {
        let (mut room, wire) = self.buffers.as_mut().map(std::mem::take).unwrap_or_default();
        room.resize(self.read_bytes, 0);
        let mut piece = EncodedPiece {
            wire,
            file_bytes: 0,
            is_over: false,
            counts: Counts::default(),
            read_time: Duration::ZERO,
            conversion_time: Duration::ZERO,
        };
        loop {
            let began_at = Instant::now();
            let count = read(&mut self.file, &mut room).map_err(EncodingFailure::Read)?;
            let read_at = Instant::now();
            let encoded = match room.get(..count).unwrap_or_default() {
                [] => self.encoder.finish(&mut piece.wire),
                read => self.encoder.encode(read, &mut piece.wire),
            };
            encoded.map_err(|error| EncodingFailure::Format(format!("{error:?}")))?;
            piece.read_time += read_at - began_at;
            piece.conversion_time += read_at.elapsed();
            piece.file_bytes += count;
            piece.is_over = count == 0;
            let is_enough = piece.wire.len() >= self.wire_min_bytes;
            if piece.is_over || is_enough || piece.file_bytes >= STEP_BYTES {
                break;
            }
        }
        if let Some((kept, _)) = &mut self.buffers {
            *kept = room;
        }
        piece.counts = self.encoder.counts();
        Ok(piece)
    }
}

/// Reads from a file, and repeats a read that a signal interrupts.
pub(super) fn read(file: &mut File, room: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(room) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Failure of [`EncodeStep`].
pub(super) enum EncodingFailure {
    Read(io::Error),
    Format(String),
}

/// Encodes the next piece of a file.
pub(super) struct EncodeStep(pub(super) Option<Box<FileEncoding>>);

impl Steps for EncodeStep {
    type Output = Result<(Box<FileEncoding>, EncodedPiece), EncodingFailure>;

    fn step(&mut self) -> Option<Self::Output> {
        let mut encoding = self.0.take()?;
        Some(encoding.encode().map(|piece| (encoding, piece)))
    }
}

/// Decoder of received bytes, and the local end that receives the bytes of the file.
pub(super) struct FileDecoding<L> {
    decoder: Decoder,
    pub(super) sink: L,
    content: Vec<u8>,
    /// Received bytes, of which the first `converted` are converted.
    wire: Vec<u8>,
    converted: usize,
    short_max: usize,
    /// Restart markers, each with the length of the file at the marker.
    pub(super) markers: Vec<(Vec<u8>, u64)>,
    pub(super) conversion_time: Duration,
    pub(super) write_time: Duration,
    /// Number of writes to the file.
    pub(super) writes: u64,
}

impl<L: FileSink> FileDecoding<L> {
    pub(super) fn new(
        representation: &Representation,
        sink: L,
    ) -> Result<Self, TransferFailure<L::Error>> {
        let decoder = Decoder::new(representation).map_err(|_| TransferFailure::NotSupported)?;
        let is_deflated = representation.mode == Mode::Deflate;
        Ok(Self {
            decoder,
            sink,
            content: Vec::new(),
            wire: Vec::new(),
            converted: 0,
            short_max: if is_deflated { SHORT_DEFLATED_BYTES } else { SHORT_BYTES },
            markers: Vec::new(),
            conversion_time: Duration::ZERO,
            write_time: Duration::ZERO,
            writes: 0,
        })
    }

    /// Keeps received bytes for [`DecodeSteps`].
    pub(super) fn push(&mut self, wire: &[u8]) {
        self.wire.extend_from_slice(wire);
    }

    /// Returns whether decoding the kept bytes takes a fraction of a millisecond.
    pub(super) const fn is_short(&self) -> bool {
        self.wire.len() <= self.short_max
    }

    pub(super) fn counts(&self) -> Counts {
        self.decoder.counts()
    }

    /// Decodes `wire` and writes the file. Returns false after [`STEP_BYTES`] of the file; the rest
    /// of `wire` then needs another call.
    pub(super) fn decode(&mut self, wire: &mut &[u8]) -> Result<bool, TransferFailure<L::Error>> {
        let mut file_bytes = 0;
        loop {
            let began_at = Instant::now();
            self.content.clear();
            let decoded = self.decoder.decode(wire, &mut self.content);
            self.conversion_time += began_at.elapsed();
            let decoded = decoded.map_err(|error| {
                self.sink.discard();
                TransferFailure::Malformed(format!("{error:?}"))
            })?;
            self.write_content()?;
            file_bytes += self.content.len();
            match decoded {
                Decoded::OutputFull if file_bytes >= STEP_BYTES => return Ok(false),
                Decoded::OutputFull => {}
                Decoded::Marker(marker) => self.markers.push((marker, self.sink.len_bytes())),
                Decoded::EndOfFile if !L::DROPS_EXCESS && !wire.is_empty() => {
                    let why = "data after the end of the file".to_owned();
                    return Err(TransferFailure::Malformed(why));
                }
                Decoded::EndOfFile | Decoded::NeedsInput => return Ok(true),
            }
        }
    }

    fn write_content(&mut self) -> Result<(), TransferFailure<L::Error>> {
        let began_at = Instant::now();
        let result = self.sink.write(&self.content);
        self.write_time += began_at.elapsed();
        self.writes += u64::from(self.sink.is_file());
        result.map_err(TransferFailure::Local)
    }

    /// Decodes kept bytes.
    fn decode_kept(&mut self) -> Result<bool, TransferFailure<L::Error>> {
        let mut wire = std::mem::take(&mut self.wire);
        let mut rest = wire.get(self.converted..).unwrap_or_default();
        let result = self.decode(&mut rest);
        self.converted = wire.len() - rest.len();
        if matches!(result, Ok(true)) {
            wire.clear();
            self.converted = 0;
        }
        self.wire = wire;
        result
    }

    /// Ends the conversion after the orderly end of the connection.
    pub(super) fn finish(&mut self) -> Result<(), TransferFailure<L::Error>> {
        self.content.clear();
        let result = self.decoder.finish(&mut self.content);
        result.map_err(|error| TransferFailure::Malformed(format!("{error:?}")))?;
        if self.decoder.has_lost() && !L::DROPS_EXCESS {
            self.sink.discard();
            // Retrieving the file would return different data.
            let why = "the file cannot contain all of the received data".to_owned();
            return Err(TransferFailure::Malformed(why));
        }
        self.write_content()
    }
}

/// Decodes the kept bytes of a file.
pub(super) struct DecodeSteps<L>(pub(super) Option<Box<FileDecoding<L>>>);

impl<L: FileSink> Steps for DecodeSteps<L> {
    type Output = Result<Box<FileDecoding<L>>, TransferFailure<L::Error>>;

    fn step(&mut self) -> Option<Self::Output> {
        match self.0.as_mut()?.decode_kept() {
            Ok(false) => None,
            Ok(true) => self.0.take().map(Ok),
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::splice_pipe::SplicePipe;
    use super::*;
    use protocols::ftp::Type;
    use std::convert::Infallible;
    use std::io::{Seek, Write};

    #[derive(Default)]
    struct Memory(Vec<u8>);

    impl FileSink for Memory {
        type Error = Infallible;

        fn write(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
            self.0.extend_from_slice(bytes);
            Ok(())
        }

        fn write_pipe(&mut self, _: &mut SplicePipe) -> Result<bool, Infallible> {
            Ok(false)
        }

        fn file_bytes(&self) -> u64 {
            self.0.len() as u64
        }
    }

    fn memory_file(content: &[u8]) -> File {
        let fd = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = File::from(fd);
        file.write_all(content).unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn a_text_is_the_same_after_encoding_and_decoding_in_pieces() {
        let text = Representation::default();
        let file = memory_file(b"one\ntwo\n");
        let encoder = Encoder::new(&text, None).unwrap();
        let mut encoding = FileEncoding::by_reads(file, encoder, 4);
        let mut decoding = FileDecoding::new(&text, Memory::default()).unwrap();
        for (wire, content) in [(&b"one\r\n"[..], &b"one\n"[..]), (b"two\r\n", b"one\ntwo\n")] {
            let piece = encoding.encode().unwrap_or_else(|_| unreachable!());
            assert_eq!((piece.wire.as_slice(), piece.file_bytes, piece.is_over), (wire, 4, false));
            assert!(matches!(decoding.decode(&mut piece.wire.as_slice()), Ok(true)));
            assert_eq!(decoding.sink.0, content);
            encoding.recycle(piece.wire);
        }
        assert!(encoding.encode().is_ok_and(|piece| piece.is_over && piece.wire.is_empty()));
        assert!(decoding.finish().is_ok());
        assert_eq!(decoding.counts().line_ends, Some(2));
    }

    // attack row 149
    #[test]
    fn a_deflated_upload_is_converted_in_steps_outside_the_session_thread() {
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
        assert!(wire.len() < 64 * 1024, "one piece of the wire: {}", wire.len());
        let mut decoding = FileDecoding::new(&representation, Memory::default()).unwrap();
        decoding.push(&wire);
        assert!(!decoding.is_short());
        let mut steps = 1;
        while !decoding.decode_kept().unwrap_or_else(|_| unreachable!()) {
            // One call of the decoder produces a small part of a step.
            let max_bytes = steps * STEP_BYTES * 5 / 4;
            let len = decoding.sink.0.len();
            assert!(len <= max_bytes, "{len} in {steps}");
            steps += 1;
        }
        assert!(steps >= 4, "{steps}");
        assert_eq!(decoding.sink.0.len(), zeros.len());
    }
}
