//! Text of the session that arrives during a download, because the remote program has ended.
//!
//! A program of lrzsz that is terminated discards the output that its terminal has not sent, and
//! with it its cancel sequence. Only its message arrives, and the prompt of the shell. If a program is
//! killed, only the prompt arrives, and the terminal or the shell answers the next header of the
//! receiver with text.

use super::discarding::is_text;
use net::time::{Duration, Instant};

/// Texts that show that the remote program has ended: the message of lrzsz, and the beginning of a
/// header in hexadecimal digits in the form in which a terminal echoes control characters.
const END_TEXTS: [&[u8]; 2] = [b": caught signal ", b"**^XB0"];
/// Silence after such a text, or after an answer of text to a request. Our choice: a file that
/// contains the text is followed by more data.
const END_SILENCE: Duration = Duration::from_millis(500);
/// Silence after text that may end with the prompt of a shell. Our choice: longer than most pauses of
/// a network, because such text may be in a file.
const PROMPT_SILENCE: Duration = Duration::from_secs(3);
/// Silence after such text if the program does not answer requests for blocks, which were repeated by
/// then. Our choice.
const BLOCK_PROMPT_SILENCE: Duration = Duration::from_secs(6);
/// Last visible characters of prompts.
const PROMPT_ENDS: &[u8] = b"$#>%:";
/// Maximum number of bytes of text. Our choice: a few lines.
const TEXT_MAX_BYTES: usize = 1024;

/// Result of [`SessionText::timeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextStep {
    /// No deadline has passed.
    Wait,
    /// The text may be in the file: the engine repeats its request, which a shell answers with text.
    Probe,
    /// The remote program has ended.
    End,
}

/// Text since the last byte that is not text.
#[derive(Debug)]
pub(super) struct SessionText {
    text: Vec<u8>,
    /// Whether a request for blocks, which is a control character, gets no answer of text.
    has_blocks: bool,
    due: Option<(Instant, TextStep)>,
    /// Whether a request was repeated after the last byte that is not text.
    is_probed: bool,
}

impl SessionText {
    pub(super) const fn new(has_blocks: bool) -> Self {
        Self { text: Vec::new(), has_blocks, due: None, is_probed: false }
    }

    /// Records received bytes.
    pub(super) fn put(&mut self, bytes: &[u8], now: Instant) {
        let start = bytes.iter().rposition(|byte| !is_text(*byte)).map_or(0, |at| at + 1);
        if start > 0 {
            self.text.clear();
            self.is_probed = false;
        }
        self.text.extend_from_slice(bytes.get(start..).unwrap_or_default());
        self.text.drain(..self.text.len().saturating_sub(TEXT_MAX_BYTES));
        let contains = |wanted: &&[u8]| self.text.windows(wanted.len()).any(|part| part == *wanted);
        self.due = if self.is_probed || END_TEXTS.iter().any(contains) {
            Some((now + END_SILENCE, TextStep::End))
        } else if !ends_with_prompt(&self.text) {
            None
        } else if self.has_blocks {
            Some((now + BLOCK_PROMPT_SILENCE, TextStep::End))
        } else {
            Some((now + PROMPT_SILENCE, TextStep::Probe))
        };
    }

    /// Returns when [`Self::timeout`] is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.due.map(|(at, _)| at)
    }

    /// Processes the time that has passed.
    pub(super) fn timeout(&mut self, now: Instant) -> TextStep {
        match self.due {
            Some((at, step)) if at <= now => {
                self.due = None;
                self.is_probed |= step == TextStep::Probe;
                step
            }
            _ => TextStep::Wait,
        }
    }

    /// Returns and removes the text.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.due = None;
        std::mem::take(&mut self.text)
    }
}

/// Returns whether the last of several lines may be a prompt.
fn ends_with_prompt(text: &[u8]) -> bool {
    let last_line = text.iter().rposition(|byte| *byte == b'\n').and_then(|at| text.get(at + 1..));
    let last_line = last_line.map(|line| line.strip_suffix(b" ").unwrap_or(line));
    last_line.and_then(<[u8]>::last).is_some_and(|last| PROMPT_ENDS.contains(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_lrzsz_ends_a_download_after_silence() {
        let mut text = SessionText::new(false);
        text.put(b"\x18\xd0data\xc0sz: caught sig", Instant::ZERO);
        assert_eq!(text.deadline(), None);
        text.put(b"nal 15; exiting\r\nready:", Instant::ZERO);
        assert_eq!(text.deadline(), Some(Instant::ZERO + END_SILENCE));
        text.put(b"more text", Instant::ZERO + END_SILENCE);
        let deadline = Instant::ZERO + END_SILENCE + END_SILENCE;
        assert_eq!(text.deadline(), Some(deadline));
        assert_eq!(text.timeout(Instant::ZERO + END_SILENCE), TextStep::Wait);
        assert_eq!(text.timeout(deadline), TextStep::End);
        text.put(b"\x18j\x93", Instant::ZERO);
        assert_eq!((text.deadline(), text.take()), (None, vec![]));
    }

    #[test]
    fn the_echo_of_a_header_ends_a_download_and_the_last_text_is_kept() {
        let mut text = SessionText::new(false);
        text.put(&[b'a'; 5000], Instant::ZERO);
        text.put(b"**^XB0900000000a87c\r\n", Instant::ZERO);
        assert!(text.deadline().is_some());
        let kept = text.take();
        assert_eq!(kept.len(), TEXT_MAX_BYTES);
        assert!(kept.ends_with(b"a**^XB0900000000a87c\r\n"));
    }

    #[test]
    fn after_a_prompt_an_answer_of_text_to_a_request_ends_a_download() {
        let mut text = SessionText::new(false);
        text.put(b"\xd0data\xc0Killed\r\nann@host:~$ ", Instant::ZERO);
        let probe = Instant::ZERO + PROMPT_SILENCE;
        assert_eq!(text.timeout(probe), TextStep::Probe);
        assert_eq!(text.deadline(), None, "a program that does not answer may still send data");
        text.put(b"sh: **B09: not found\r\n", probe);
        assert_eq!(text.timeout(probe + END_SILENCE), TextStep::End);
        // A program answers with a header.
        text.put(b"\xff\nready: ", Instant::ZERO);
        assert_eq!(text.timeout(probe), TextStep::Probe);
        text.put(b"**\x18C\x04\0\0\0\0", probe);
        assert_eq!(text.deadline(), None);
        text.put(b"text of a file", probe);
        assert_eq!(text.deadline(), None);
    }

    #[test]
    fn silence_after_a_prompt_ends_a_download_of_blocks() {
        let mut text = SessionText::new(true);
        text.put(b"\xff\x01Killed\r\n# ", Instant::ZERO);
        assert_eq!(text.timeout(Instant::ZERO + PROMPT_SILENCE), TextStep::Wait);
        assert_eq!(text.timeout(Instant::ZERO + BLOCK_PROMPT_SILENCE), TextStep::End);
    }

    #[test]
    fn a_prompt_is_the_last_of_several_lines() {
        for text in [&b"Killed\r\n$ "[..], b"\n# ", b"\n\x1b]0;host\x07host>", b"a\nready:"] {
            assert!(ends_with_prompt(text), "{}", text.escape_ascii());
        }
        for text in [&b""[..], b"$ ", b"a\n", b"a\n ", b"\n$  ", b"# a\ntext"] {
            assert!(!ends_with_prompt(text), "{}", text.escape_ascii());
        }
    }
}
