//! Text that a sender receives instead of an answer, because the remote program has ended.
//!
//! A program that is killed sends no cancel sequence. The next bytes are the output of a shell or a
//! menu: its prompt, and the echo of the data in flight. Noise of a serial line is short, and most of
//! its bytes are not text.

use alloc::vec::Vec;
use net::time::{Duration, Instant};

/// Number of consecutive text characters that are not noise. Our choice: 6 bytes of noise are text once
/// in 300 times.
const TEXT_MIN_LEN: usize = 6;
/// Ends of prompts. Shorter text that ends with one of them is also not noise.
const PROMPT_ENDS: &[u8] = b"$#>%:";
/// Maximum number of bytes that are kept. Our choice: a few lines, before the echo of the data.
const TEXT_MAX_BYTES: usize = 1024;

/// Text since the last answer.
#[derive(Debug, Default)]
pub(crate) struct UnexpectedText {
    text: Vec<u8>,
    /// Number of consecutive text characters at the end, and the last one.
    run: usize,
    last: u8,
    /// Time at which enough text had arrived.
    since: Option<Instant>,
}

impl UnexpectedText {
    /// Records a byte that does not belong to an answer.
    pub(crate) fn push(&mut self, byte: u8, now: Instant) {
        // A line end may belong to the last answer.
        let is_line_end = self.text.is_empty() && matches!(byte, b'\r' | b'\n');
        if !is_text(byte) || is_line_end {
            self.run = 0;
            return;
        }
        if self.text.len() < TEXT_MAX_BYTES {
            self.text.push(byte);
        }
        self.run += 1;
        let previous = core::mem::replace(&mut self.last, byte);
        let is_prompt = self.run > 1 && byte == b' ' && PROMPT_ENDS.contains(&previous);
        if self.run >= TEXT_MIN_LEN || is_prompt {
            self.since.get_or_insert(now);
        }
    }

    /// Forgets the text, because an answer has arrived.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.run = 0;
        self.since = None;
    }

    /// Returns the time since the session has text instead of an answer; `None` without such text.
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        self.since.map(|since| now - since)
    }

    /// Returns when [`Self::age`] will be `age`.
    pub(crate) fn reaches(&self, age: Duration) -> Option<Instant> {
        self.since.map(|since| since + age)
    }

    /// Returns whether the last byte was text.
    pub(crate) const fn is_running(&self) -> bool {
        self.run > 0
    }

    /// Returns and removes the first text since the last answer.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let text = core::mem::take(&mut self.text);
        self.clear();
        text
    }
}

/// Returns whether the output of a shell or a menu can contain `byte`.
const fn is_text(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\r' | b'\n' | b'\t' | 0x07 | 0x1b)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records bytes; returns whether they are text of a session.
    fn is_session_text(bytes: &[u8]) -> bool {
        let mut text = UnexpectedText::default();
        bytes.iter().for_each(|byte| text.push(*byte, Instant::ZERO));
        text.age(Instant::ZERO).is_some()
    }

    #[test]
    fn a_message_or_a_prompt_is_text_of_a_session_and_noise_is_not() {
        for text in [&b"Killed"[..], b"$ ", b"\xff\xfe# ", b"\x80\x81menu> \x90"] {
            assert!(is_session_text(text), "{}", text.escape_ascii());
        }
        for noise in [&b"x"[..], b"{~}a", b"ab\x80cd\x81ef", b"\x80$\x80 ", b" ", b"\x8d\x8a"] {
            assert!(!is_session_text(noise), "{}", noise.escape_ascii());
        }
    }

    #[test]
    fn the_first_text_is_kept_until_an_answer_arrives() {
        let mut text = UnexpectedText::default();
        let at = Instant::ZERO + Duration::from_secs(1);
        b"Killed\r\n$ ".iter().for_each(|byte| text.push(*byte, at));
        (0..2 * TEXT_MAX_BYTES).for_each(|_| text.push(b'a', at));
        assert_eq!(text.reaches(Duration::from_secs(2)), Some(at + Duration::from_secs(2)));
        let kept = text.take();
        assert!(kept.len() == TEXT_MAX_BYTES && kept.starts_with(b"Killed\r\n$ a"));
        assert_eq!((text.age(at), text.take()), (None, Vec::new()));
        b"Killed".iter().for_each(|byte| text.push(*byte, at));
        text.clear();
        assert_eq!((text.age(at), text.take()), (None, Vec::new()));
    }
}
