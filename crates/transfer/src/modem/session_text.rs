//! Text of the session that arrives during a download, because the remote program has ended.
//!
//! A program of lrzsz that is terminated discards the output that its terminal has not sent, and
//! with it its cancel sequence. Only its message arrives, and the prompt of the shell. If a program is
//! killed, the terminal echoes the next header of the receiver.

use super::discarding::is_text;
use net::time::{Duration, Instant};

/// Texts that show that the remote program has ended: the message of lrzsz, and the beginning of a
/// header in hexadecimal digits in the form in which a terminal echoes control characters.
const END_TEXTS: [&[u8]; 2] = [b": caught signal ", b"**^XB0"];
/// Silence after such a text. Our choice: a file that contains the text is followed by more data.
const END_SILENCE: Duration = Duration::from_millis(500);
/// Maximum number of bytes of text. Our choice: a few lines.
const TEXT_MAX_BYTES: usize = 1024;

/// Text since the last byte that is not text.
#[derive(Debug, Default)]
pub(super) struct SessionText {
    text: Vec<u8>,
    ends_at: Option<Instant>,
}

impl SessionText {
    /// Records received bytes.
    pub(super) fn put(&mut self, bytes: &[u8], now: Instant) {
        let start = bytes.iter().rposition(|byte| !is_text(*byte)).map_or(0, |at| at + 1);
        if start > 0 {
            self.text.clear();
        }
        self.text.extend_from_slice(bytes.get(start..).unwrap_or_default());
        self.text.drain(..self.text.len().saturating_sub(TEXT_MAX_BYTES));
        let contains = |wanted: &&[u8]| self.text.windows(wanted.len()).any(|part| part == *wanted);
        self.ends_at = END_TEXTS.iter().any(contains).then(|| now + END_SILENCE);
    }

    /// Returns when the remote program is considered to have ended.
    pub(super) const fn ends_at(&self) -> Option<Instant> {
        self.ends_at
    }

    /// Returns and removes the text.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.ends_at = None;
        std::mem::take(&mut self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_lrzsz_ends_a_download_after_silence() {
        let mut text = SessionText::default();
        text.put(b"\x18\xd0data\xc0sz: caught sig", Instant::ZERO);
        assert_eq!(text.ends_at(), None);
        text.put(b"nal 15; exiting\r\nready:", Instant::ZERO);
        assert_eq!(text.ends_at(), Some(Instant::ZERO + END_SILENCE));
        text.put(b"more text", Instant::ZERO + END_SILENCE);
        assert_eq!(text.ends_at(), Some(Instant::ZERO + END_SILENCE + END_SILENCE));
        text.put(b"\x18j\x93", Instant::ZERO);
        assert_eq!((text.ends_at(), text.take()), (None, vec![]));
    }

    #[test]
    fn the_echo_of_a_header_ends_a_download_and_the_last_text_is_kept() {
        let mut text = SessionText::default();
        text.put(&[b'a'; 5000], Instant::ZERO);
        text.put(b"**^XB0900000000a87c\r\n", Instant::ZERO);
        assert!(text.ends_at().is_some());
        let kept = text.take();
        assert_eq!(kept.len(), TEXT_MAX_BYTES);
        assert!(kept.ends_with(b"a**^XB0900000000a87c\r\n"));
    }
}
