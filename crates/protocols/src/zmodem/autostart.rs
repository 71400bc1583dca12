//! Recognition of the first header of a transfer in the output of a terminal session.

use super::ZDLE;
use super::header::{FrameType, ZHEX};
use super::parser::{Parsed, Parser};

/// Request of a program on the remote host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A sender wants to send files.
    Send,
    /// A receiver waits for files.
    Receive,
}

/// A request in the output of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detection {
    /// Number of bytes before the header.
    pub start: usize,
    /// Number of bytes up to the end of the header.
    pub end: usize,
    /// The request.
    pub request: Request,
}

/// Finds requests in the output of a session. Only complete headers with a valid CRC count.
#[derive(Debug, Default)]
pub struct Autostart {
    parser: Parser,
    /// Maximum number of bytes of the line end of the last header that may still arrive.
    line_end_rest: usize,
}

/// Maximum length of the line end of a header: CR, LF and XON.
const LINE_END_MAX_LEN: usize = 3;

impl Autostart {
    /// Returns the number of bytes at the start of `data` that end the header that was found last.
    /// On a slow line, they arrive after the header.
    pub fn line_end_len(&mut self, data: &[u8]) -> usize {
        let len = line_end_len(data, self.line_end_rest);
        self.line_end_rest = if len == data.len() { self.line_end_rest - len } else { 0 };
        len
    }

    /// Forgets the line end of the last header, because another program reads it.
    pub fn forget_line_end(&mut self) {
        self.line_end_rest = 0;
    }

    /// Returns the first request in `data`, which may have begun in earlier data.
    pub fn find(&mut self, data: &[u8]) -> Option<Detection> {
        // Almost all output contains no header.
        if self.parser.is_hunting()
            && memchr::memchr(ZDLE, data).is_none()
            && data.last() != Some(&b'*')
        {
            return None;
        }
        for (at, byte) in data.iter().enumerate() {
            let Some(Parsed::Header(header)) = self.parser.push(*byte) else { continue };
            let request = match header.frame_type {
                FrameType::Zrqinit => Request::Send,
                FrameType::Zrinit => Request::Receive,
                _ => continue,
            };
            let (before, after) = data.split_at_checked(at + 1).unwrap_or_default();
            self.line_end_rest = LINE_END_MAX_LEN;
            let end = before.len() + self.line_end_len(after);
            let start = memchr::memmem::rfind(before, &[b'*', b'*', ZDLE, ZHEX]).unwrap_or(0);
            return Some(Detection { start, end, request });
        }
        None
    }
}

/// Returns the length of the part of a line end at the start of `data`, up to `max_len`.
fn line_end_len(data: &[u8], max_len: usize) -> usize {
    let is_line_end = |byte: &&u8| matches!(**byte, b'\r' | b'\n' | 0x8d | 0x8a | 0x11);
    data.iter().take(max_len).take_while(is_line_end).count()
}
