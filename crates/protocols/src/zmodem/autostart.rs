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
}

impl Autostart {
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
            // The line end of the header, and XON.
            let is_trailer = |byte: &&u8| matches!(**byte, b'\r' | b'\n' | 0x8d | 0x8a | 0x11);
            let end = before.len() + after.iter().take(3).take_while(is_trailer).count();
            let start = memchr::memmem::rfind(before, &[b'*', b'*', ZDLE, ZHEX]).unwrap_or(0);
            return Some(Detection { start, end, request });
        }
        None
    }
}
