//! MCCP2 and MCCP3 (options 86 and 87): compression of one direction of the stream.
//!
//! The server performs both options. With COMPRESS2 it compresses its own output, with COMPRESS3 it
//! lets the user compress. The compressing side sends IAC SB, the option, IAC SE, and the very next
//! byte is the first of the compressed stream. The specification requires a zlib stream (RFC 1950);
//! gzip (RFC 1952) and raw deflate (RFC 1951) occur in practice and are recognized by their first
//! bytes. After the end of the stream the data is uncompressed again.
//!
//! Compression is not part of [`Telnet`](crate::telnet::Telnet). The caller
//! decompresses the input before the Telnet engine processes it, and compresses the output of the
//! engine.
//!
//! ```text
//! in:   while input is not empty
//!           if the decompressor is on: inflate a piece of input, and pass the result to Telnet
//!           else: pass input to Telnet; at CompressionStarted start the decompressor
//! out:  send the output before Telnet::compression_boundary: through the compressor if
//!           Telnet::output_is_compressed, otherwise unchanged
//! ```
//!
//! A megabyte of zeros compresses to a kilobyte. Output is returned in pieces of the caller's size,
//! so expansion costs time but no memory. A peer whose data expands to more than [`EXPANSION_MAX`]
//! times its compressed size, beyond the first [`EXPANSION_FREE_BYTES`], is rejected.

use crate::telnet::command::{OptionCode, Side};
use crate::telnet::option::definition::{Definition, Role};
use crate::telnet::option::handler::{Context, Handler, Invalid, Received};
use crate::telnet::settings_and_events::{Event, Settings};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use miniz_oxide::deflate::core::{CompressorOxide, TDEFLFlush, TDEFLStatus, compress};
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};
use net::Cx;
use net::meter::Counter;

impl OptionCode {
    /// MCCP2: the server compresses its output.
    pub const COMPRESS2: Self = Self(86);
    /// MCCP3: the user compresses its output.
    pub const COMPRESS3: Self = Self(87);
}

pub(super) const COMPRESS2_DEFINITION: Definition = definition(OptionCode::COMPRESS2);
pub(super) const COMPRESS3_DEFINITION: Definition = definition(OptionCode::COMPRESS3);

const fn definition(option: OptionCode) -> Definition {
    Definition {
        describe: |content| content.is_empty().then(|| String::from("start of compression")),
        ..Definition::new(option, Role::Server)
    }
}

/// State of MCCP2 and MCCP3.
#[derive(Debug)]
pub(in crate::telnet) struct Compression {
    is_user: bool,
    /// The option with which the local end compresses its output.
    output_option: Option<OptionCode>,
    /// Whether the peer has announced the start of compression under the present agreement.
    peer_has_started: bool,
}

impl Compression {
    /// Returns whether the local end compresses if `side` performs the option. The server
    /// compresses its output with COMPRESS2, and the user with COMPRESS3.
    fn is_for_output(option: OptionCode, side: Side) -> bool {
        (option == OptionCode::COMPRESS2) == (side == Side::Local)
    }
}

impl Handler for Compression {
    fn from_settings(settings: Settings<'_>) -> Self {
        Self { is_user: settings.is_user(), output_option: None, peer_has_started: false }
    }

    fn on_enabled(&mut self, side: Side, context: &mut Context<'_, '_>) {
        let option = context.row.option;
        // The output can be compressed only once. The announcement of the start has no content.
        if Self::is_for_output(option, side)
            && !context.output.will_be_compressed()
            && context.send(&[])
            && context.output.put_compression_boundary()
        {
            self.output_option = Some(option);
        }
    }

    fn on_disabled(&mut self, side: Side, context: &mut Context<'_, '_>) {
        let option = context.row.option;
        if !Self::is_for_output(option, side) {
            self.peer_has_started = false;
        } else if self.output_option == Some(option) {
            self.output_option = None;
            if !context.output.put_compression_boundary() {
                context.cx.meter.count(Counter::TelnetOutputRefused);
            }
        }
    }

    fn receive(&mut self, content: &[u8], context: &mut Context<'_, '_>) -> Received {
        let row = context.row;
        // The peer may start a compressed stream, which it has agreed to, after the local end has
        // requested the end of compression.
        let is_enabled = row.is_enabled(Side::Remote) || row.is_enabled(Side::Local);
        let is_peers_option = (row.option == OptionCode::COMPRESS2) == self.is_user;
        let is_valid = content.is_empty() && is_enabled && is_peers_option;
        if !is_valid || core::mem::replace(&mut self.peer_has_started, true) {
            return Err(Invalid);
        }
        Ok(Some(Event::CompressionStarted))
    }
}

/// Maximum expansion factor (our choice). The text of a session has a factor of about 5.
const EXPANSION_MAX: u64 = 100;

/// Number of output bytes allowed at any expansion factor (our choice), for blank screens at the
/// start.
const EXPANSION_FREE_BYTES: u64 = 1 << 20;

/// Maximum length of a gzip header in bytes (our choice).
const GZIP_HEADER_MAX_BYTES: usize = 1024;

/// Length of the gzip trailer in bytes: checksum and length, which are ignored.
const GZIP_TRAILER_BYTES: usize = 8;

/// Size of the compressor's output buffer in bytes.
const OUTPUT_BUFFER_BYTES: usize = 4096;

/// Reason why a compressed stream was rejected. No more input of the connection can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecompressError {
    /// The stream is not compressed, or corrupt.
    Corrupt,
    /// The expansion factor exceeds the limit.
    Expands,
}

/// Decompresses one direction of a connection.
#[derive(Default)]
pub struct Decompressor {
    state: State,
    bytes_in: u64,
    bytes_out: u64,
}

#[derive(Default)]
enum State {
    #[default]
    Plain,
    /// The first bytes, stored until they determine the format of the stream.
    DetectingFormat(Vec<u8>),
    Inflating {
        inflate: Box<InflateState>,
        trailer_bytes: usize,
    },
    /// The compressed stream has ended; this many bytes of its trailer are still to be skipped.
    SkippingTrailer(usize),
    Refused(DecompressError),
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Plain => "plain",
            State::DetectingFormat(_) => "beginning",
            State::Inflating { .. } => "inflating",
            State::SkippingTrailer(_) => "ending",
            State::Refused(_) => "refused",
        };
        f.debug_struct("Decompressor").field("state", &state).finish_non_exhaustive()
    }
}

impl Decompressor {
    /// Starts decompression with the next byte of the input.
    pub fn start(&mut self) {
        *self = Self { state: State::DetectingFormat(Vec::new()), ..Self::default() };
    }

    /// Returns whether the input is compressed.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !matches!(self.state, State::Plain)
    }

    /// Inflates the next piece of `input` into `output`, and advances `input` past the consumed
    /// bytes.
    ///
    /// Returns how many bytes were written. Call it while `input` is not empty and
    /// [`Decompressor::is_on`], and again after `output` was completely filled.
    ///
    /// # Errors
    ///
    /// Returns [`DecompressError`] if the stream is corrupt or expands beyond the limit; then
    /// nothing more can be read.
    pub fn inflate(
        &mut self,
        input: &mut &[u8],
        output: &mut [u8],
        cx: &mut Cx<'_>,
    ) -> Result<usize, DecompressError> {
        self.advance(input, output).inspect_err(|error| {
            if !matches!(self.state, State::Refused(_)) {
                cx.meter.count(Counter::TelnetCompressedRefused);
                self.state = State::Refused(*error);
            }
        })
    }

    fn advance(&mut self, input: &mut &[u8], output: &mut [u8]) -> Result<usize, DecompressError> {
        loop {
            match &mut self.state {
                State::Plain => return Ok(0),
                State::Refused(error) => return Err(*error),
                State::DetectingFormat(_) => {
                    if !self.detect_format(input)? {
                        return Ok(0);
                    }
                }
                State::SkippingTrailer(left) => {
                    let skipped = (*left).min(input.len());
                    *input = input.get(skipped..).unwrap_or_default();
                    *left -= skipped;
                    if *left == 0 {
                        self.state = State::Plain;
                    }
                    return Ok(0);
                }
                State::Inflating { .. } => return self.inflate_stream(input, output),
            }
        }
    }

    /// Collects bytes until the format of the stream is known. Returns whether the format is known.
    fn detect_format(&mut self, input: &mut &[u8]) -> Result<bool, DecompressError> {
        let State::DetectingFormat(head) = &mut self.state else { return Ok(true) };
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            self.bytes_in += 1;
            head.push(byte);
            let Some((format, trailer_bytes)) = stream_format(head)? else { continue };
            let mut inflater = InflateState::new_boxed(format);
            // The header of gzip is not part of the compressed stream. In the other formats the
            // first bytes are part of it, and too few to produce output.
            if trailer_bytes == 0 {
                let result = inflate(&mut inflater, head, &mut [], MZFlush::None);
                if result.bytes_consumed != head.len() {
                    return Err(DecompressError::Corrupt);
                }
            }
            self.state = State::Inflating { inflate: inflater, trailer_bytes };
            return Ok(true);
        }
        Ok(false)
    }

    fn inflate_stream(
        &mut self,
        input: &mut &[u8],
        output: &mut [u8],
    ) -> Result<usize, DecompressError> {
        let State::Inflating { inflate: inflater, trailer_bytes } = &mut self.state else {
            return Ok(0);
        };
        let result = inflate(inflater, input, output, MZFlush::None);
        *input = input.get(result.bytes_consumed..).unwrap_or_default();
        self.bytes_in += result.bytes_consumed as u64;
        self.bytes_out += result.bytes_written as u64;
        match result.status {
            Ok(MZStatus::StreamEnd) => self.state = State::SkippingTrailer(*trailer_bytes),
            // `Buf` only means that the input has been consumed.
            Ok(_) | Err(MZError::Buf) => {}
            Err(_) => return Err(DecompressError::Corrupt),
        }
        let bytes_out_max = self.bytes_in.saturating_mul(EXPANSION_MAX) + EXPANSION_FREE_BYTES;
        if self.bytes_out > bytes_out_max {
            Err(DecompressError::Expands)
        } else {
            Ok(result.bytes_written)
        }
    }
}

/// Returns the format of the compressed stream that begins with `head` and the length of its
/// trailer in bytes, or `None` if more bytes are needed.
fn stream_format(head: &[u8]) -> Result<Option<(DataFormat, usize)>, DecompressError> {
    match *head {
        // RFC 1952: no valid deflate stream begins with 0x1f, whose block type is reserved.
        [0x1f] => Ok(None),
        [0x1f, 0x8b, ..] => match gzip_header_len(head) {
            Some(len) if len == head.len() => Ok(Some((DataFormat::Raw, GZIP_TRAILER_BYTES))),
            _ if head.len() < GZIP_HEADER_MAX_BYTES => Ok(None),
            _ => Err(DecompressError::Corrupt),
        },
        // RFC 1950: the method is 8, the window at most 32 KiB, and the first two bytes are a
        // multiple of 31.
        [first] if first & 0x0f == 8 && first >> 4 <= 7 => Ok(None),
        [first, second] if first & 0x0f == 8 && u16::from_be_bytes([first, second]) % 31 == 0 => {
            Ok(Some((DataFormat::Zlib, 0)))
        }
        _ => Ok(Some((DataFormat::Raw, 0))),
    }
}

/// Returns the length of the gzip header at the start of `head`, if it is complete (RFC 1952 §2.3).
fn gzip_header_len(head: &[u8]) -> Option<usize> {
    let (fixed_header, mut rest) = head.split_at_checked(10)?;
    let flags = *fixed_header.get(3)?;
    if flags & 4 != 0 {
        let (len, after) = rest.split_first_chunk()?;
        rest = after.get(usize::from(u16::from_le_bytes(*len))..)?;
    }
    // The optional file name and comment, each terminated by NUL.
    for flag in [8, 16] {
        if flags & flag != 0 {
            let end = rest.iter().position(|&byte| byte == 0)?;
            rest = rest.get(end + 1..)?;
        }
    }
    if flags & 2 != 0 {
        rest = rest.get(2..)?;
    }
    Some(head.len() - rest.len())
}

/// Compresses one direction of a connection.
pub struct Compressor(Box<CompressorOxide>);

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compressor")
    }
}

impl Default for Compressor {
    fn default() -> Self {
        let mut compressor = Box::<CompressorOxide>::default();
        // Level 6 is the default of zlib.
        compressor.set_format_and_level(DataFormat::Zlib, 6);
        Self(compressor)
    }
}

impl Compressor {
    /// Compresses `input` and appends the result to `output`, flushed so that the peer can decode
    /// all of it now.
    pub fn compress(&mut self, input: &[u8], output: &mut Vec<u8>) {
        self.put(input, output, TDEFLFlush::Sync);
    }

    /// Ends the compressed stream and appends its last bytes to `output`. Later data is
    /// uncompressed; the next stream needs a new compressor.
    pub fn finish(mut self, output: &mut Vec<u8>) {
        self.put(&[], output, TDEFLFlush::Finish);
    }

    fn put(&mut self, mut input: &[u8], output: &mut Vec<u8>, flush: TDEFLFlush) {
        let mut piece = [0; OUTPUT_BUFFER_BYTES];
        loop {
            let (status, consumed_len, written_len) =
                compress(&mut self.0, input, &mut piece, flush);
            output.extend_from_slice(piece.get(..written_len).unwrap_or_default());
            input = input.get(consumed_len..).unwrap_or_default();
            let is_piece_full = written_len == piece.len();
            if status != TDEFLStatus::Okay || (input.is_empty() && !is_piece_full) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};
    use net::cx::OwnedCx;
    use proptest::prelude::*;
    use std::vec;

    /// Inflates `pieces` and returns the output and the uncompressed bytes after the stream.
    fn inflated<'a>(
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(Vec<u8>, Vec<u8>), DecompressError> {
        let mut context = OwnedCx::default();
        let mut decompressor = Decompressor::default();
        let mut out = Vec::new();
        let mut plain = Vec::new();
        let mut buffer = [0; 64];
        decompressor.start();
        for mut piece in pieces {
            while decompressor.is_on() {
                let written = decompressor.inflate(&mut piece, &mut buffer, &mut context.cx())?;
                out.extend_from_slice(&buffer[..written]);
                if piece.is_empty() && written < buffer.len() {
                    break;
                }
            }
            plain.extend_from_slice(piece);
        }
        Ok((out, plain))
    }

    fn gzip(flags: u8, header: &[u8], text: &[u8]) -> Vec<u8> {
        let fixed_header = [0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 3];
        [&fixed_header[..], header, &compress_to_vec(text, 6), &[7; GZIP_TRAILER_BYTES]].concat()
    }

    proptest! {
        #[test]
        fn data_compressed_in_pieces_is_inflated_at_any_split(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..9),
            cut in 1..40_usize
        ) {
            let mut compressor = Compressor::default();
            let mut wire = Vec::new();
            for piece in &pieces {
                compressor.compress(piece, &mut wire);
            }
            compressor.finish(&mut wire);
            wire.extend_from_slice(b"plain");
            prop_assert_eq!(inflated(wire.chunks(cut)), Ok((pieces.concat(), b"plain".to_vec())));
        }

        #[test]
        fn all_three_formats_are_recognized_at_any_split(text in "[ -~]{0,200}", cut in 1..20_usize) {
            let text = text.as_bytes();
            let streams = [
                compress_to_vec_zlib(text, 6),
                compress_to_vec(text, 6),
                gzip(0, b"", text),
                gzip(2 | 4 | 8 | 16, b"\x03\0abcname\0comment\0\x07\x07", text),
            ];
            for stream in streams {
                let stream = [&stream[..], b"plain"].concat();
                prop_assert_eq!(inflated(stream.chunks(cut)), Ok((text.to_vec(), b"plain".to_vec())));
            }
        }
    }

    #[test]
    fn each_piece_can_be_read_before_the_next_is_sent() {
        let mut compressor = Compressor::default();
        let mut wire = Vec::new();
        compressor.compress(b"login: ", &mut wire);
        assert_eq!(inflated([&wire[..]]), Ok((b"login: ".to_vec(), vec![])));
    }

    #[test]
    fn a_stream_that_expands_a_thousandfold_is_refused() {
        let bomb = compress_to_vec_zlib(&vec![0; 8 << 20], 9);
        assert_eq!(inflated([&bomb[..]]), Err(DecompressError::Expands));
        let blank_page = compress_to_vec_zlib(&vec![b' '; 1 << 20], 9);
        assert_eq!(inflated([&blank_page[..]]).map(|(out, _)| out.len()), Ok(1 << 20));
    }

    #[test]
    fn a_corrupt_stream_is_refused_and_nothing_more_is_read() {
        let mut context = OwnedCx::default();
        let mut decompressor = Decompressor::default();
        decompressor.start();
        for _ in 0..2 {
            let mut input = &b"\x78\x9c\xff\xff\xff\xff"[..];
            let result = decompressor.inflate(&mut input, &mut [0; 64], &mut context.cx());
            assert_eq!(result, Err(DecompressError::Corrupt));
        }
        assert_eq!(context.counted(Counter::TelnetCompressedRefused), 1);
    }

    #[test]
    fn the_optional_fields_of_a_gzip_header_are_skipped() {
        let fixed = [0x1f, 0x8b, 8, 2, 0, 0, 0, 0, 0, 3];
        assert_eq!(gzip_header_len(&[&fixed[..], &[1, 2]].concat()), Some(12));
        assert_eq!(gzip_header_len(&[&fixed[..], &[1]].concat()), None);
        let text = b"text";
        let stream = gzip(2, &[1, 2], text);
        assert_eq!(inflated([&stream[..]]).unwrap().0, text);
    }

    #[test]
    fn a_gzip_header_without_an_end_is_corrupt() {
        let mut head = vec![0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3];
        head.resize(GZIP_HEADER_MAX_BYTES - 1, b'a');
        assert!(matches!(stream_format(&head), Ok(None)));
        head.push(b'a');
        assert!(matches!(stream_format(&head), Err(DecompressError::Corrupt)));
    }

    #[test]
    fn a_window_of_more_than_32_kib_is_not_zlib() {
        assert!(matches!(stream_format(&[0x78]), Ok(None)));
        assert!(matches!(stream_format(&[0x88]), Ok(Some((DataFormat::Raw, 0)))));
    }

    #[test]
    fn output_longer_than_the_buffer_is_complete_after_one_call() {
        // Incompressible bytes, so that the output is as long as the input.
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            state.to_be_bytes()[0]
        };
        let input: Vec<u8> = (0..100_000).map(|_| next()).collect();
        let mut wire = Vec::new();
        Compressor::default().compress(&input, &mut wire);
        assert_eq!(inflated([&wire[..]]), Ok((input, vec![])));
    }

    #[test]
    fn a_gzip_header_has_a_checksum_only_if_its_flag_is_set() {
        for (flags, header) in [(0, &b""[..]), (1, b""), (2, b"\x07\x07"), (3, b"\x07\x07")] {
            let stream = gzip(flags, header, b"text");
            assert_eq!(inflated([&stream[..]]), Ok((b"text".to_vec(), vec![])), "{flags}");
        }
    }

    #[test]
    fn two_bytes_are_a_zlib_header_only_if_they_are_a_multiple_of_31() {
        assert!(matches!(stream_format(&[0x78, 0x9c]), Ok(Some((DataFormat::Zlib, 0)))));
        assert!(matches!(stream_format(&[0x78, 0x9d]), Ok(Some((DataFormat::Raw, 0)))));
    }
}
