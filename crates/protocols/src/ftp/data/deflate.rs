//! MODE Z: the bytes of stream mode as one zlib stream (RFC 1950), whose end is the end of the
//! file.

use super::data_error::DataError;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use miniz_oxide::deflate::core::{CompressorOxide, TDEFLFlush, TDEFLStatus, compress};
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

/// Size of the output buffer in bytes.
const PIECE_BYTES: usize = 16 * 1024;

/// Default compression level: 6, as in zlib.
const LEVEL: u8 = 6;

pub(super) struct Deflater {
    compressor: Box<CompressorOxide>,
    piece: Vec<u8>,
}

impl fmt::Debug for Deflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deflater")
    }
}

impl Deflater {
    pub(super) fn new(level: Option<u8>) -> Self {
        let mut compressor = Box::<CompressorOxide>::default();
        compressor.set_format_and_level(DataFormat::Zlib, level.unwrap_or(LEVEL).clamp(1, 9));
        Self { compressor, piece: alloc::vec![0; PIECE_BYTES] }
    }

    pub(super) fn put(&mut self, data: &[u8], out: &mut Vec<u8>) {
        self.compress_pieces(data, TDEFLFlush::None, out);
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.compress_pieces(&[], TDEFLFlush::Finish, out);
    }

    fn compress_pieces(&mut self, mut data: &[u8], flush: TDEFLFlush, out: &mut Vec<u8>) {
        loop {
            let (status, consumed_bytes, produced_bytes) =
                compress(&mut self.compressor, data, &mut self.piece, flush);
            out.extend_from_slice(self.piece.get(..produced_bytes).unwrap_or_default());
            data = data.get(consumed_bytes..).unwrap_or_default();
            // zlib may emit the end of the stream in pieces that are not full, so only an empty
            // piece ends the loop.
            let is_over = match flush {
                TDEFLFlush::Finish => produced_bytes == 0,
                _ => data.is_empty() && produced_bytes < self.piece.len(),
            };
            if status != TDEFLStatus::Okay || is_over {
                return;
            }
        }
    }
}

pub(super) struct Inflater {
    state: Box<InflateState>,
    piece: Vec<u8>,
    is_over: bool,
    /// Whether the last piece was full, so that more output may follow without input.
    has_more: bool,
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

impl Inflater {
    pub(super) fn new() -> Self {
        Self {
            state: InflateState::new_boxed(DataFormat::Zlib),
            piece: alloc::vec![0; PIECE_BYTES],
            is_over: false,
            has_more: false,
        }
    }

    /// Returns whether a call without input could produce output.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Inflates one piece and advances `input` past the consumed bytes.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Result<&[u8], DataError> {
        if self.is_over {
            self.has_more = false;
            return if input.is_empty() { Ok(&[]) } else { Err(DataError::Malformed) };
        }
        let result = inflate(&mut self.state, input, &mut self.piece, MZFlush::None);
        *input = input.get(result.bytes_consumed..).unwrap_or_default();
        self.has_more = result.bytes_written == self.piece.len();
        match result.status {
            Ok(MZStatus::StreamEnd) => (self.is_over, self.has_more) = (true, false),
            // `Buf` only means that the input has been consumed.
            Ok(_) | Err(MZError::Buf) => {}
            Err(_) => return Err(DataError::Malformed),
        }
        Ok(self.piece.get(..result.bytes_written).unwrap_or_default())
    }

    pub(super) fn finish(&self) -> Result<(), DataError> {
        if self.is_over { Ok(()) } else { Err(DataError::Truncated) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns incompressible bytes.
    fn incompressible_bytes(len: usize) -> Vec<u8> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn a_stream_of_any_length_is_ended_correctly() {
        let file = incompressible_bytes(200_000);
        // For some of these file lengths, the compressor emits a piece that is not full before the
        // last piece.
        for len in [0, 1, 100_000, 158_725, 158_850, 158_981, 200_000] {
            let mut deflater = Deflater::new(None);
            let mut wire = Vec::new();
            for piece in file[..len].chunks(50_000) {
                deflater.put(piece, &mut wire);
            }
            deflater.finish(&mut wire);
            let mut inflater = Inflater::new();
            let mut rest = &wire[..];
            let mut inflated = Vec::new();
            while !rest.is_empty() || inflater.has_more() {
                inflated.extend_from_slice(inflater.next(&mut rest).unwrap());
            }
            assert_eq!((inflater.finish(), inflated.len()), (Ok(()), len));
        }
    }

    #[test]
    fn nothing_may_follow_the_end_of_a_stream() {
        let mut deflater = Deflater::new(None);
        let mut wire = Vec::new();
        deflater.put(b"text", &mut wire);
        deflater.finish(&mut wire);
        let mut inflater = Inflater::new();
        assert_eq!(inflater.next(&mut &wire[..]), Ok(&b"text"[..]));
        while inflater.has_more() {
            inflater.next(&mut &b""[..]).unwrap();
        }
        assert_eq!(inflater.next(&mut &b""[..]), Ok(&b""[..]));
        assert_eq!(inflater.next(&mut &b"x"[..]), Err(DataError::Malformed));
    }

    #[test]
    fn a_level_above_9_means_9() {
        // So many repetitions begin with the same bytes that no level tries all of them.
        let data: Vec<u8> = incompressible_bytes(40_000).iter().map(|byte| byte >> 7).collect();
        let deflated_at = |level| {
            let mut deflater = Deflater::new(Some(level));
            let mut out = Vec::new();
            deflater.put(&data, &mut out);
            deflater.finish(&mut out);
            out
        };
        assert_eq!(deflated_at(10), deflated_at(9));
        assert_ne!(deflated_at(9), deflated_at(1));
    }
}
