//! Text of the session that arrives during a download, because the remote program has ended.
//!
//! A program of lrzsz that is terminated discards the output that its terminal has not sent, and
//! with it its cancel sequence. Only its message arrives, and the prompt of the shell. If a program is
//! killed, only the prompt arrives, often within a block. Silence after a prompt ends the transfer, and
//! nothing is sent before: the line end of a header would execute the header as a command, or be the
//! choice of a menu. After text without a prompt, which may be in a file, the next header has no line
//! end, and is erased with ^U. The terminal or the shell echoes it.

use super::discarding::{BACKSPACE, is_text};
use net::time::{Duration, Instant};

/// Texts that show that the remote program has ended: the message of lrzsz, and the beginning of a
/// header in hexadecimal digits in the form in which a terminal echoes control characters.
const END_TEXTS: [&[u8]; 2] = [SIGNAL_MESSAGE, b"**^XB0"];
/// Part of the message of lrzsz that a signal has ended it. lrzsz writes the name of the program
/// before it separately, so that the echo of a reply may arrive in between.
const SIGNAL_MESSAGE: &[u8] = b"caught signal ";
/// Silence after such a text, or after an answer of text to a request. Our choice: a file that
/// contains the text is followed by more data.
const END_SILENCE: Duration = Duration::from_millis(500);
/// Silence after which a request is repeated that a program without a recognized prompt may echo. Our
/// choice: the time after which the progress reports a stall.
const STALL: Duration = Duration::from_secs(5);
/// Silence after text that ends with the prompt of a shell. Our choice: longer than most pauses of a
/// network, because such text may be in a file, and less than the timeout of the protocols.
const PROMPT_SILENCE: Duration = Duration::from_secs(8);
/// Minimum length of text that may come from a shell. Our choice: shorter text is the end of a block.
const SHELL_TEXT_MIN_LEN: usize = 6;
/// Start of a header in hexadecimal digits, after its padding.
const HEX_HEADER: &[u8] = b"\x18B";
/// Number of hexadecimal digits of a header, which no other text contains by chance.
const HEADER_DIGITS: usize = 14;
/// Bytes at the end of a header in hexadecimal digits: LF with parity, and XON. Readers of command
/// lines echo them with the digits.
const HEADER_END: [u8; 2] = [0x8a, 0x11];
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
    /// The text may be in the file: the engine repeats its request, which a shell echoes.
    Probe,
    /// The remote program has ended.
    End,
    /// A prompt arrived, and nothing after it.
    Silence,
}

/// Text since the last byte that is not text.
#[derive(Debug)]
pub(super) struct SessionText {
    text: Vec<u8>,
    /// Whether a request for blocks, which is a control character, gets no answer of text.
    has_blocks: bool,
    due: Option<(Instant, TextStep)>,
    /// Whether the text has shown the end, and the terminal has erased it since.
    has_ended: bool,
    /// Digits of the repeated request.
    request_digits: Vec<u8>,
}

impl SessionText {
    pub(super) const fn new(has_blocks: bool) -> Self {
        let text = Vec::new();
        let request_digits = Vec::new();
        Self { text, has_blocks, due: None, has_ended: false, request_digits }
    }

    /// Records received bytes. `has_data` is whether data of a file has arrived.
    pub(super) fn put(&mut self, bytes: &[u8], has_data: bool, now: Instant) {
        let is_other =
            |byte: &u8| !is_text(*byte) && !HEADER_END.contains(byte) && *byte != BACKSPACE;
        let start = bytes.iter().rposition(is_other).map_or(0, |at| at + 1);
        if start > 0 {
            self.text.clear();
            self.has_ended = false;
        }
        let rest = bytes.get(start..).unwrap_or_default();
        for &byte in rest.iter().filter(|byte| !HEADER_END.contains(byte)) {
            if byte == BACKSPACE {
                // The terminal erases the echo of a reply, because NAK erases its line.
                self.has_ended = self.has_ended || self.has_end_text();
                self.text.pop();
            } else {
                self.text.push(byte);
            }
        }
        self.text.drain(..self.text.len().saturating_sub(TEXT_MAX_BYTES));
        self.has_ended = self.has_ended || self.has_end_text();
        self.due = if self.has_ended {
            Some((now + END_SILENCE, TextStep::End))
        } else if self.has_blocks {
            let is_prompt = ends_with_prompt(&self.text);
            is_prompt.then(|| (now + BLOCK_PROMPT_SILENCE, TextStep::End))
        } else if ends_with_prompt(&self.text) {
            Some((now + PROMPT_SILENCE, TextStep::Silence))
        } else {
            has_data.then(|| (now + STALL, TextStep::Probe))
        };
    }

    /// Returns whether the text shows that the remote program has ended.
    fn has_end_text(&self) -> bool {
        let is_echo =
            self.request_digits.len() == HEADER_DIGITS && self.contains(&self.request_digits);
        is_echo || END_TEXTS.into_iter().any(|text| self.contains(text))
    }

    fn contains(&self, wanted: &[u8]) -> bool {
        self.text.windows(wanted.len()).any(|part| part == wanted)
    }

    /// Returns whether the text may come from a shell.
    pub(super) fn may_be_shell(&self) -> bool {
        self.text.len() >= SHELL_TEXT_MIN_LEN
    }

    /// Returns whether the last line end has no CR, as in the raw mode of a terminal.
    pub(super) fn has_raw_line_end(&self) -> bool {
        let mut before = self.text.rsplitn(2, |byte| *byte == b'\n').skip(1);
        before.next().is_some_and(|line| line.last() != Some(&b'\r'))
    }

    /// Returns whether the shell has read a reply that the remote program has not read. A program of
    /// lrzsz that a signal ends discards the requests of a ZMODEM receiver.
    pub(super) fn may_follow_reply(&self) -> bool {
        self.has_blocks || !self.contains(SIGNAL_MESSAGE)
    }

    /// Records `output` with the repeated request, whose echo shows that the remote program has ended.
    pub(super) fn expect_echo(&mut self, output: &[u8]) {
        let at = output.windows(2).rposition(|pair| pair == HEX_HEADER);
        let digits = at.and_then(|at| output.get(at + 2..at + 2 + HEADER_DIGITS));
        self.request_digits = digits.unwrap_or_default().to_vec();
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
    fn the_echo_of_a_reply_within_the_message_of_lrzsz_is_ignored() {
        let mut text = SessionText::new(true);
        text.put(b"\x80sx: ^Fcaught signal 15; exiting\r\nready:", true, Instant::ZERO);
        assert_eq!(text.deadline(), Some(Instant::ZERO + END_SILENCE));
        assert_eq!(text.timeout(Instant::ZERO + END_SILENCE), TextStep::End);
    }

    #[test]
    fn the_erasure_of_an_echo_after_a_prompt_keeps_the_prompt() {
        let mut text = SessionText::new(true);
        text.put(b"\x80Killed\r\nready:^F", true, Instant::ZERO);
        assert_eq!(text.deadline(), None);
        text.put(b"\x08 \x08\x08 \x08", true, Instant::ZERO);
        assert_eq!(text.timeout(Instant::ZERO + BLOCK_PROMPT_SILENCE), TextStep::End);
        assert_eq!(text.take(), b"Killed\r\nready:");
    }

    #[test]
    fn a_message_of_lrzsz_ends_a_download_after_silence() {
        let mut text = SessionText::new(false);
        text.put(b"\x18\xd0data\xc0sz: caught sig", true, Instant::ZERO);
        assert_eq!(text.deadline(), Some(Instant::ZERO + STALL));
        text.put(b"nal 15; exiting\r\nready:", true, Instant::ZERO);
        assert_eq!(text.deadline(), Some(Instant::ZERO + END_SILENCE));
        text.put(b"more text", true, Instant::ZERO + END_SILENCE);
        let deadline = Instant::ZERO + END_SILENCE + END_SILENCE;
        assert_eq!(text.deadline(), Some(deadline));
        assert_eq!(text.timeout(Instant::ZERO + END_SILENCE), TextStep::Wait);
        assert_eq!(text.timeout(deadline), TextStep::End);
        text.put(b"\x18j\x93", true, Instant::ZERO);
        let stall = Some(Instant::ZERO + STALL);
        assert_eq!((text.deadline(), text.take()), (stall, vec![]));
    }

    #[test]
    fn the_echo_of_a_header_ends_a_download_and_the_last_text_is_kept() {
        let mut text = SessionText::new(false);
        text.put(&[b'a'; 5000], true, Instant::ZERO);
        text.put(b"**^XB0900000000a87c\r\n", true, Instant::ZERO);
        assert!(text.deadline().is_some());
        let kept = text.take();
        assert_eq!(kept.len(), TEXT_MAX_BYTES);
        assert!(kept.ends_with(b"a**^XB0900000000a87c\r\n"));
    }

    #[test]
    fn a_prompt_and_silence_end_a_download_without_a_request() {
        let mut text = SessionText::new(false);
        text.put(b"\xd0data\xc0Killed\r\nann@host:~$ ", true, Instant::ZERO);
        let end = Instant::ZERO + PROMPT_SILENCE;
        assert_eq!(text.timeout(Instant::ZERO + STALL), TextStep::Wait);
        for more in [&b"**\x18C\x04\0\0\0\0"[..], b"text of a file"] {
            let mut text = SessionText::new(false);
            text.put(b"\xff\nready: ", true, Instant::ZERO);
            text.put(more, true, Instant::ZERO + STALL);
            assert_eq!(text.timeout(end), TextStep::Wait, "a program sends data");
        }
        assert_eq!((text.timeout(end), text.has_raw_line_end()), (TextStep::Silence, false));
        text.put(b"\xffKilled\n# ", true, end);
        assert!(text.has_raw_line_end());
    }

    #[test]
    fn an_echo_that_the_terminal_erases_at_once_ends_a_download() {
        let mut text = SessionText::new(false);
        text.put(b"\xff[D]own [Q]uit\r\nYour choice? ", true, Instant::ZERO);
        assert!(text.may_be_shell());
        assert_eq!(text.timeout(Instant::ZERO + STALL), TextStep::Probe);
        let echo = [b"**^XB09000000014d3e".as_slice(), &b"\x08 \x08".repeat(19)].concat();
        text.put(&echo, true, Instant::ZERO + STALL);
        assert_eq!(text.due, Some((Instant::ZERO + STALL + END_SILENCE, TextStep::End)));
        assert!(text.take().ends_with(b"Your choice? "));
    }

    #[test]
    fn the_echo_of_the_repeated_request_ends_a_download_without_a_prompt() {
        let mut text = SessionText::new(false);
        text.put(b"\xd0data\nYour choice? ", false, Instant::ZERO);
        assert_eq!(text.deadline(), None, "a program that prepares a file is not disturbed");
        text.put(b"\xd0data\nYour choice? ", true, Instant::ZERO);
        let probe = Instant::ZERO + STALL;
        assert_eq!(text.timeout(probe), TextStep::Probe);
        assert_eq!(text.deadline(), None, "a program that does not answer may still send data");
        text.expect_echo(b"**\x18B09000000014d3e\r\x8a\x11");
        text.put(b"text of a file: 09000000014d3f\r\n", true, probe);
        assert_eq!(text.due, Some((probe + STALL, TextStep::Probe)));
        text.put(b"**\x0709000000014d3e\r\n\x8a\x11", true, probe);
        assert_eq!(text.due, Some((probe + END_SILENCE, TextStep::End)));
        assert!(text.take().ends_with(b"**\x0709000000014d3e\r\n"));
    }

    #[test]
    fn silence_after_a_prompt_ends_a_download_of_blocks() {
        let mut text = SessionText::new(true);
        text.put(b"\xff\x01Killed\r\n# ", true, Instant::ZERO);
        assert_eq!(text.timeout(Instant::ZERO + END_SILENCE), TextStep::Wait);
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
