//! The transmission modes: how they mark the ends of records and files, and restart markers
//! (RFC 959 §3.4).
//!
//! | mode | data | marks |
//! |---|---|---|
//! | stream, file | as it is | the end of the connection ends the file |
//! | stream, records | 255 twice | 255 1 ends a record, 255 2 the file, 255 3 both |
//! | block | a header of descriptor and count, then the data | bits of the descriptor |
//! | compressed | 0nnnnnnn and n bytes; 10nnnnnn and a byte; 11nnnnnn, filler | 0 and a descriptor |
//!
//! In compressed mode a descriptor applies to the string that follows it. Descriptors that the
//! local end sends are followed by an empty string.

use super::data_error::DataError;
use alloc::vec::Vec;

/// Descriptor bits: the record (EOR) or the file (EOF) ends with this block.
const EOR: u8 = 128;
const EOF: u8 = 64;
/// Descriptor bit: the sender suspects errors in the block.
const SUSPECT: u8 = 32;
/// Descriptor bit: the data is a restart marker.
const MARKER: u8 = 16;

const STREAM_ESCAPE: u8 = 255;

/// Maximum length of an incoming marker in bytes. Markers of the local end are decimal numbers.
const MARKER_MAX_BYTES: usize = 64;

/// Framing of a file by mode and structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Stream,
    StreamRecords,
    Block,
    /// Compressed mode; the filler is a space for text and zero for other types (RFC 959 §3.4.3).
    Compressed {
        filler: u8,
    },
}

/// Marks after the data passed to [`Framing::put`]: whether a record ends there, and whether the
/// file ends there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) end_of_record: bool,
    pub(super) end_of_file: bool,
}

impl Marks {
    pub(super) const NONE: Self = Self { end_of_record: false, end_of_file: false };
    pub(super) const RECORD: Self = Self { end_of_record: true, end_of_file: false };
    pub(super) const FILE: Self = Self { end_of_record: false, end_of_file: true };

    const fn descriptor(self) -> u8 {
        (if self.end_of_record { EOR } else { 0 }) | (if self.end_of_file { EOF } else { 0 })
    }
}

impl Framing {
    /// Appends the framed `data` and its marks to `out`.
    pub(super) fn put(self, data: &[u8], marks: Marks, out: &mut Vec<u8>) {
        match self {
            Self::Stream => out.extend_from_slice(data),
            Self::StreamRecords => {
                for &byte in data {
                    out.push(byte);
                    if byte == STREAM_ESCAPE {
                        out.push(byte);
                    }
                }
                let code = u8::from(marks.end_of_record) | u8::from(marks.end_of_file) << 1;
                if code != 0 {
                    out.extend([STREAM_ESCAPE, code]);
                }
            }
            Self::Block => put_blocks(data, marks.descriptor(), out),
            Self::Compressed { filler } => {
                compress(data, filler, out);
                if marks != Marks::NONE {
                    out.extend([0, marks.descriptor(), 0x80, 0]);
                }
            }
        }
    }

    /// Appends a restart marker to `out`. Returns whether the mode has markers.
    pub(super) fn put_marker(self, marker: &[u8], out: &mut Vec<u8>) -> bool {
        match self {
            Self::Block => put_blocks(marker, MARKER, out),
            Self::Compressed { .. } => {
                out.extend([0, MARKER]);
                let marker = marker.get(..MARKER_MAX_BYTES).unwrap_or(marker);
                out.push(u8::try_from(marker.len()).unwrap_or(0));
                out.extend_from_slice(marker);
            }
            Self::Stream | Self::StreamRecords => return false,
        }
        true
    }
}

fn put_blocks(mut data: &[u8], last: u8, out: &mut Vec<u8>) {
    while data.len() > usize::from(u16::MAX) {
        let (block, rest) = data.split_at_checked(usize::from(u16::MAX)).unwrap_or((data, &[]));
        put_block(block, 0, out);
        data = rest;
    }
    if !data.is_empty() || last != 0 {
        put_block(data, last, out);
    }
}

fn put_block(data: &[u8], descriptor: u8, out: &mut Vec<u8>) {
    let count = u16::try_from(data.len()).unwrap_or(u16::MAX);
    out.push(descriptor);
    out.extend(count.to_be_bytes());
    out.extend_from_slice(data);
}

fn compress(data: &[u8], filler: u8, out: &mut Vec<u8>) {
    let mut rest = data;
    let mut plain_start = 0;
    let mut position = 0;
    let put_plain = |from: usize, to: usize, out: &mut Vec<u8>| {
        for run in data.get(from..to).unwrap_or_default().chunks(127) {
            out.push(u8::try_from(run.len()).unwrap_or(0));
            out.extend_from_slice(run);
        }
    };
    while let Some(&byte) = rest.first() {
        let run_len = rest.iter().take(63).take_while(|other| **other == byte).count();
        // Two filler bytes compress to one byte. A run of another byte compresses to two bytes, so
        // it must be at least three bytes long.
        let run_min_len = if byte == filler { 2 } else { 3 };
        if run_len >= run_min_len {
            put_plain(plain_start, position, out);
            let count = u8::try_from(run_len).unwrap_or(0);
            if byte == filler {
                out.push(0xC0 | count);
            } else {
                out.extend([0x80 | count, byte]);
            }
            plain_start = position + run_len;
        }
        position += run_len;
        rest = rest.get(run_len..).unwrap_or_default();
    }
    put_plain(plain_start, position, out);
}

/// One item of framed data.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    Data(&'a [u8]),
    /// A repeated byte and its count.
    Run(u8, usize),
    Marker(Vec<u8>),
    EndOfRecord,
    EndOfFile,
}

/// Incremental parser for framed data; the input may be split at any position.
#[derive(Debug)]
pub(super) struct Unframer {
    framing: Framing,
    state: State,
    /// The descriptor of the current frame. Its EOR and EOF bits take effect after the data.
    descriptor: u8,
    marker: Vec<u8>,
    is_over: bool,
    suspect_blocks: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// At the start of a frame.
    Start,
    /// After the escape byte of a stream of records, or the zero byte of compressed mode.
    Escape,
    /// After the descriptor of a block, with the first byte of the count if it has arrived.
    Count(Option<u8>),
    /// Within data; the number of data bytes that are still to be read.
    Data(usize),
    /// Before the byte that is repeated, with the number of repetitions.
    Repeated(u8),
    /// The data is complete. The EOR and EOF bits of its descriptor take effect next.
    Due,
}

impl Unframer {
    pub(super) fn new(framing: Framing) -> Self {
        Self {
            framing,
            state: State::Start,
            descriptor: 0,
            marker: Vec::new(),
            is_over: false,
            suspect_blocks: 0,
        }
    }

    /// Returns the number of blocks that the sender marked as suspect.
    pub(super) fn suspect_blocks(&self) -> u64 {
        self.suspect_blocks
    }

    /// Returns the next frame, or a part of one, and advances `input` past it.
    pub(super) fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> Result<Option<Frame<'a>>, DataError> {
        loop {
            if matches!(self.state, State::Due)
                && let Some(frame) = self.take_due_mark()
            {
                return Ok(Some(frame));
            }
            if let State::Data(unread_bytes @ 1..) = self.state {
                let (data, rest) = input.split_at_checked(unread_bytes).unwrap_or((input, &[]));
                *input = rest;
                if data.is_empty() {
                    return Ok(None);
                }
                let unread_bytes = unread_bytes - data.len();
                self.state = if unread_bytes == 0 { State::Due } else { State::Data(unread_bytes) };
                if self.descriptor & MARKER == 0 {
                    return Ok(Some(Frame::Data(data)));
                }
                self.marker.extend_from_slice(data);
                if self.marker.len() > MARKER_MAX_BYTES {
                    return Err(DataError::Malformed);
                }
                continue;
            }
            if self.framing == Framing::Stream {
                let data = core::mem::take(input);
                return Ok((!data.is_empty()).then_some(Frame::Data(data)));
            }
            if matches!((self.framing, self.state), (Framing::StreamRecords, State::Start)) {
                let end = memchr::memchr(STREAM_ESCAPE, input).unwrap_or(input.len());
                if end > 0 {
                    let (data, rest) = input.split_at_checked(end).unwrap_or((input, &[]));
                    *input = rest;
                    return self.reject_after_end(Frame::Data(data)).map(Some);
                }
            }
            let Some((&byte, rest)) = input.split_first() else { return Ok(None) };
            let input_from_byte = *input;
            *input = rest;
            if let Some(frame) = self.byte(byte, input_from_byte)? {
                return Ok(Some(frame));
            }
        }
    }

    fn reject_after_end<'a>(&self, frame: Frame<'a>) -> Result<Frame<'a>, DataError> {
        if self.is_over { Err(DataError::Malformed) } else { Ok(frame) }
    }

    /// Processes one byte outside the data; `input` begins with it.
    fn byte<'a>(&mut self, byte: u8, input: &'a [u8]) -> Result<Option<Frame<'a>>, DataError> {
        if self.is_over {
            return Err(DataError::Malformed);
        }
        match (self.framing, self.state) {
            (Framing::StreamRecords, State::Escape) => {
                self.state = State::Due;
                match byte {
                    STREAM_ESCAPE => {
                        self.state = State::Start;
                        return Ok(Some(Frame::Data(input.get(..1).unwrap_or_default())));
                    }
                    1 => self.descriptor = EOR,
                    2 => self.descriptor = EOF,
                    3 => self.descriptor = EOR | EOF,
                    _ => return Err(DataError::Malformed),
                }
            }
            (Framing::StreamRecords, _) => self.state = State::Escape,
            (Framing::Block, State::Count(None)) => self.state = State::Count(Some(byte)),
            (Framing::Block, State::Count(Some(high))) => {
                let count = usize::from(u16::from_be_bytes([high, byte]));
                self.state = if count == 0 { State::Due } else { State::Data(count) };
            }
            (Framing::Block, _) => {
                self.begin_block(byte)?;
                self.state = State::Count(None);
            }
            (Framing::Compressed { .. }, State::Escape) => {
                self.begin_block(byte)?;
                self.state = State::Start;
            }
            (Framing::Compressed { .. }, State::Repeated(count)) => {
                self.state = State::Due;
                return Ok(Some(Frame::Run(byte, usize::from(count))));
            }
            (Framing::Compressed { filler }, _) => match byte {
                0 => self.state = State::Escape,
                1..=0x7F => self.state = State::Data(usize::from(byte)),
                // A restart marker must be sent as a string that is not compressed.
                _ if self.descriptor & MARKER != 0 => return Err(DataError::Malformed),
                0x80..=0xBF => self.state = State::Repeated(byte & 0x3F),
                _ => {
                    self.state = State::Due;
                    return Ok(Some(Frame::Run(filler, usize::from(byte & 0x3F))));
                }
            },
            (Framing::Stream, _) => {}
        }
        Ok(None)
    }

    fn begin_block(&mut self, descriptor: u8) -> Result<(), DataError> {
        if descriptor & !(EOR | EOF | SUSPECT | MARKER) != 0 {
            return Err(DataError::Malformed);
        }
        self.suspect_blocks += u64::from(descriptor & SUSPECT != 0);
        self.descriptor = descriptor;
        self.marker.clear();
        Ok(())
    }

    fn take_due_mark<'a>(&mut self) -> Option<Frame<'a>> {
        if self.descriptor & MARKER != 0 {
            self.descriptor &= !MARKER;
            return Some(Frame::Marker(core::mem::take(&mut self.marker)));
        }
        if self.descriptor & EOR != 0 {
            self.descriptor &= !EOR;
            return Some(Frame::EndOfRecord);
        }
        if self.descriptor & EOF != 0 {
            self.descriptor = 0;
            self.is_over = true;
            self.state = State::Start;
            return Some(Frame::EndOfFile);
        }
        self.descriptor = 0;
        self.state = State::Start;
        None
    }

    /// Checks whether the file is complete at the end of the connection. In stream mode with file
    /// structure, this end is the only end mark.
    pub(super) fn finish(&self) -> Result<(), DataError> {
        // In compressed mode an end-of-file descriptor is enough, even without a string after it.
        let is_described = self.descriptor & EOF != 0 && matches!(self.state, State::Start);
        let is_ended = self.is_over || is_described;
        if self.framing == Framing::Stream || is_ended { Ok(()) } else { Err(DataError::Truncated) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_block_has_65535_bytes() {
        let headers_len = |len| {
            let mut out = Vec::new();
            put_blocks(&alloc::vec![0; len], EOF, &mut out);
            out.len() - len
        };
        assert_eq!([65_534, 65_535, 65_536].map(headers_len), [3, 3, 6]);
    }
}
