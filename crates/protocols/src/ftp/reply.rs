//! Replies (RFC 959 §4.2): a code of three digits and a text of one or several lines.
//!
//! A multiline reply begins with the code and a hyphen and ends with a line that begins with the
//! same code and a space. The lines between may begin with anything (RFC 959 §4.2): nothing, the
//! code and a hyphen, or the digits of another code. All of these occur in practice, as does a last
//! line that consists of the code alone. The text of a server is displayed unchanged except for
//! control characters. Replies that this module writes never have a CR, an LF or a NUL within a
//! line, so that no name and no text can forge another reply.

use super::line::{IAC, Line, LineReader};
use alloc::vec::Vec;
use core::fmt;
use net::cx::Cx;
use net::meter::Counter;

/// Maximum length of a line of a reply in bytes (our choice).
pub const REPLY_LINE_MAX_BYTES: usize = 8192;
/// Maximum total length of a reply in bytes (our choice). The reply to STAT of a directory may be
/// long.
pub const REPLY_MAX_BYTES: usize = 1 << 20;
/// Maximum number of lines of a reply (our choice).
pub const REPLY_LINES_MAX: usize = 20_000;

/// Maximum number of bytes quoted from a line that is not a reply (our choice).
const REJECTED_MAX_BYTES: usize = 80;

/// The code of a reply: three digits, of which the first is 1 to 6.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(u16);

/// Meaning of the first digit of a code. A user needs no other digit (RFC 1123 §4.1.2.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// 1: the action has begun; another reply follows.
    Preliminary,
    /// 2: the action is complete.
    Completion,
    /// 3: more information is needed.
    Intermediate,
    /// 4: the action failed; a later attempt may succeed.
    TransientNegative,
    /// 5: the action failed permanently.
    PermanentNegative,
    /// 6: a protected reply (RFC 2228).
    Protected,
}

impl Code {
    /// Returns the code with this number, or `None` if it is not 100 to 699.
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        match number {
            100..=699 => Some(Self(number)),
            _ => None,
        }
    }

    /// Returns the number of the code.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Returns the meaning of the first digit.
    #[must_use]
    pub const fn severity(self) -> Severity {
        match self.0 / 100 {
            1 => Severity::Preliminary,
            2 => Severity::Completion,
            3 => Severity::Intermediate,
            4 => Severity::TransientNegative,
            5 => Severity::PermanentNegative,
            _ => Severity::Protected,
        }
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let [a, b, c] = line.get(..3)? else { return None };
        if ![a, b, c].iter().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let digit = |digit: &u8| u16::from(digit - b'0');
        Self::new(digit(a) * 100 + digit(b) * 10 + digit(c))
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One reply.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// Three-digit code of the reply.
    pub code: Code,
    /// The text of each line, without codes; at least one line.
    pub lines: Vec<Vec<u8>>,
}

impl Reply {
    /// Returns the text of the last line.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        self.lines.last().map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the meaning of the code's first digit.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        self.code.severity()
    }

    /// Returns the name quoted in a 257 reply. A doubled quote in it stands for one quote (RFC 959
    /// App. II).
    #[must_use]
    pub fn quoted_name(&self) -> Option<Vec<u8>> {
        let text = self.lines.iter().find(|line| line.contains(&b'"'))?;
        let (_, mut rest) =
            text.split_at_checked(text.iter().position(|&byte| byte == b'"')? + 1)?;
        let mut name = Vec::new();
        loop {
            let end = rest.iter().position(|&byte| byte == b'"')?;
            let (run, after) = rest.split_at_checked(end)?;
            name.extend_from_slice(run);
            match after {
                [b'"', b'"', more @ ..] => {
                    name.push(b'"');
                    rest = more;
                }
                _ => return Some(name),
            }
        }
    }

    /// Returns the file size that many servers include in the text of a 150 reply: `(12345 bytes)`.
    #[must_use]
    pub fn size_in_parentheses(&self) -> Option<u64> {
        let text = core::str::from_utf8(self.text()).ok()?;
        let (_, after_parenthesis) = text.rsplit_once('(')?;
        let mut words = after_parenthesis.split_ascii_whitespace();
        let size = words.next()?.parse().ok()?;
        words.next()?.starts_with("byte").then_some(size)
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.text().escape_ascii())
    }
}

impl fmt::Display for Reply {
    /// Formats the code and the last line, with control characters escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.code)?;
        for c in alloc::string::String::from_utf8_lossy(self.text()).chars() {
            match c {
                c if c.is_control() => write!(f, "{}", c.escape_default())?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// Appends a reply to `out`. Control characters become `?`, and IAC is doubled.
pub(super) fn write(code: u16, lines: &[&[u8]], out: &mut Vec<u8>) {
    let digits = [b'0' + digit_of(code / 100), b'0' + digit_of(code / 10), b'0' + digit_of(code)];
    for (number, line) in (1..).zip(lines) {
        // Lines between the first and the last begin with a space, so that none begins with a code.
        let is_first = number == 1;
        let is_last = number == lines.len();
        if is_first || is_last {
            out.extend_from_slice(&digits);
            out.push(if is_last { b' ' } else { b'-' });
        } else {
            out.push(b' ');
        }
        for &byte in *line {
            match byte {
                0..=8 | 10..=31 | 127 => out.push(b'?'),
                IAC => out.extend([IAC, IAC]),
                _ => out.push(byte),
            }
        }
        out.extend_from_slice(b"\r\n");
    }
}

fn digit_of(number: u16) -> u8 {
    u8::try_from(number % 10).unwrap_or(0)
}

/// Quotes `name` as in the text of a 257 reply.
pub(super) fn quote(name: &[u8]) -> Vec<u8> {
    let mut quoted_name = b"\"".to_vec();
    for &byte in name {
        if byte == b'"' {
            quoted_name.push(b'"');
        }
        quoted_name.push(byte);
    }
    quoted_name.push(b'"');
    quoted_name
}

/// Reason why the input cannot be parsed as a reply. The control connection is no longer usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// A line does not begin with a code where one is required.
    Malformed,
    /// A line or the whole reply exceeds its limit.
    TooLong,
}

/// Incremental reply parser; the input may be split at any position.
#[derive(Debug)]
pub struct ReplyReader {
    lines: LineReader,
    reply: Option<Reply>,
    len_bytes: usize,
    /// The beginning of the line that is not a reply.
    rejected: Vec<u8>,
}

impl Default for ReplyReader {
    fn default() -> Self {
        Self {
            lines: LineReader::new(REPLY_LINE_MAX_BYTES),
            reply: None,
            len_bytes: 0,
            rejected: Vec::new(),
        }
    }
}

impl ReplyReader {
    /// Returns the next reply and advances `input` past it; `None` once all input is consumed.
    ///
    /// # Errors
    ///
    /// Returns [`ReplyError`] if a line is not a reply, or the reply is too long.
    pub fn next(
        &mut self,
        input: &mut &[u8],
        cx: &mut Cx<'_>,
    ) -> Result<Option<Reply>, ReplyError> {
        while let Some(line) = self.lines.next(input, cx) {
            let next_state = match line {
                Line::Whole(line) => self.process_line(line),
                Line::TooLong => Err(ReplyError::TooLong),
            };
            match next_state {
                Ok(None) => {}
                Ok(Some(reply)) => {
                    cx.meter.count(Counter::FtpRepliesIn);
                    return Ok(Some(reply));
                }
                Err(error) => {
                    cx.meter.count(Counter::FtpRepliesWrong);
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    fn process_line(&mut self, line: Vec<u8>) -> Result<Option<Reply>, ReplyError> {
        let code = Code::parse(&line);
        let separator = line.get(3).copied();
        self.len_bytes += line.len();
        let text = || line.get(4..).unwrap_or_default().to_vec();
        let Some(mut reply) = self.reply.take() else {
            return match (code, separator) {
                // Empty lines between replies are ignored.
                (None, _) if line.iter().all(u8::is_ascii_whitespace) => {
                    self.len_bytes = 0;
                    Ok(None)
                }
                (Some(code), Some(b'-')) => {
                    self.reply = Some(Reply { code, lines: alloc::vec![text()] });
                    Ok(None)
                }
                (Some(code), None | Some(b' ')) => {
                    self.len_bytes = 0;
                    Ok(Some(Reply { code, lines: alloc::vec![text()] }))
                }
                _ => {
                    self.rejected = line.get(..REJECTED_MAX_BYTES).unwrap_or(&line).to_vec();
                    Err(ReplyError::Malformed)
                }
            };
        };
        let is_last = code == Some(reply.code) && matches!(separator, None | Some(b' '));
        let repeats_code = code == Some(reply.code) && separator == Some(b'-');
        reply.lines.push(if is_last || repeats_code { text() } else { line });
        if is_last {
            self.len_bytes = 0;
            return Ok(Some(reply));
        }
        if self.len_bytes > REPLY_MAX_BYTES || reply.lines.len() > REPLY_LINES_MAX {
            return Err(ReplyError::TooLong);
        }
        self.reply = Some(reply);
        Ok(None)
    }

    /// Returns whether the last line of an incomplete multiline reply looks like the end of a
    /// reply, but with another code than the first line.
    pub(super) fn ends_with_other_code(&self) -> bool {
        let last_line = self.reply.as_ref().and_then(|reply| reply.lines.last());
        let is_end = |line: &Vec<u8>| Code::parse(line).is_some() && line.get(3) == Some(&b' ');
        last_line.is_some_and(is_end) && self.lines.unfinished_len() == 0
    }

    /// Removes the lines of an incomplete multiline reply, and returns them as a reply with the
    /// code of the first line.
    pub(super) fn take_with_other_code(&mut self) -> Option<Reply> {
        self.len_bytes = 0;
        self.reply.take()
    }

    /// Discards an incomplete reply. Returns the number of discarded bytes.
    pub(super) fn discard_incomplete(&mut self) -> usize {
        self.reply = None;
        core::mem::take(&mut self.len_bytes) + self.lines.discard_incomplete()
    }

    /// Removes and returns the beginning of the line that caused [`ReplyError::Malformed`].
    pub(super) fn take_rejected(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.rejected)
    }

    /// Removes and returns the queued Telnet option refusals.
    pub(super) fn take_answers(&mut self) -> Vec<u8> {
        self.lines.take_answers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::cx::OwnedCx;
    use proptest::prelude::*;

    fn read_replies(bytes: &[u8], cut: usize) -> Result<Vec<Reply>, ReplyError> {
        let mut context = OwnedCx::default();
        let mut reader = ReplyReader::default();
        let mut replies = Vec::new();
        for mut piece in bytes.chunks(cut) {
            while let Some(reply) = reader.next(&mut piece, &mut context.cx())? {
                replies.push(reply);
            }
        }
        Ok(replies)
    }

    fn codes(bytes: &[u8]) -> Vec<(u16, usize)> {
        read_replies(bytes, 7).unwrap().iter().map(|r| (r.code.number(), r.lines.len())).collect()
    }

    // req RFC1123:4.1.2.11-MUST-2
    #[test]
    fn every_known_form_of_a_multiline_reply_is_parsed() {
        for lines in [
            &b"230-one\r\n230-two\r\n230 three\r\n"[..],
            b"230-one\r\n two\r\n230 three\r\n",
            b"230-one\r\n226 two\r\n230 three\r\n",
            b"230-one\ntwo\n230\n",
            b"230-\r\n\r\n230 \r\n",
            b"230-one\r\n230two\r\n230 three\r\n",
        ] {
            let bytes = [lines, b"200 ok\r\n"].concat();
            assert_eq!(codes(&bytes), [(230, 3), (200, 1)], "{}", lines.escape_ascii());
        }
    }

    #[test]
    fn a_line_that_is_not_a_reply_is_refused() {
        for bytes in [&b"hello\r\n"[..], b"099 x\r\n", b"700 x\r\n", b"22\r\n", b"220x\r\n"] {
            assert_eq!(read_replies(bytes, 9), Err(ReplyError::Malformed));
        }
        let endless_reply = [b"220-\r\n", &b"x\r\n".repeat(REPLY_LINES_MAX)[..]].concat();
        assert_eq!(read_replies(&endless_reply, 4096), Err(ReplyError::TooLong));
        assert_eq!(read_replies(&[b'2'; REPLY_LINE_MAX_BYTES + 3], 999), Ok(Vec::new()));
        let long_line = [&[b'2'; REPLY_LINE_MAX_BYTES + 1][..], b"\n"].concat();
        assert_eq!(read_replies(&long_line, 999), Err(ReplyError::TooLong));
    }

    // attack row 92
    #[test]
    fn row_92_a_name_with_a_line_end_forges_no_reply() {
        let mut out = Vec::new();
        write(257, &[&quote(b"a\r\n230 logged in\r\n\"\0\x1b\xff")], &mut out);
        let replies = read_replies(&out, 3).unwrap();
        assert_eq!(replies.len(), 1);
        assert_eq!(replies[0].quoted_name().unwrap(), b"a??230 logged in??\"??\xff");
    }

    #[test]
    fn quoted_names_are_extracted() {
        for (text, name) in [
            (&b"257 \"/a\"\"b\" is current"[..], Some(&b"/a\"b"[..])),
            (b"257 is \"/\"", Some(b"/")),
            (b"257 \"/a\"\"", None),
            (b"257 \"/a", None),
            (b"257 /a", None),
        ] {
            let reply = read_replies(&[text, b"\n"].concat(), 9).unwrap().remove(0);
            assert_eq!(reply.quoted_name().as_deref(), name);
        }
        let reply = |text: &[u8]| Reply { code: Code(150), lines: [text.to_vec()].into() };
        assert_eq!(reply(b"Opening x (y) (123 bytes).").size_in_parentheses(), Some(123));
        assert_eq!(reply(b"Opening (123").size_in_parentheses(), None);
    }

    proptest! {
        // req RFC1123:4.1.2.11-MUST-1
        #[test]
        fn written_values_are_parsed_back(
            replies in prop::collection::vec(
                (100..700_u16, prop::collection::vec("[ -~é]{0,60}", 1..9)), 1..5
            ),
            cut in 1..50_usize,
        ) {
            let mut out = Vec::new();
            for (code, lines) in &replies {
                let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
                write(*code, &lines, &mut out);
            }
            let parsed_replies = read_replies(&out, cut).unwrap();
            prop_assert_eq!(parsed_replies.len(), replies.len());
            for (reply, (code, lines)) in parsed_replies.iter().zip(&replies) {
                prop_assert_eq!(reply.code.number(), *code);
                let expected = lines.last().unwrap().as_bytes();
                prop_assert_eq!((reply.text(), reply.lines.len()), (expected, lines.len()));
            }
        }

        // attack row 94
        #[test]
        fn row_94_any_bytes_are_parsed_or_refused(
            bytes in prop::collection::vec(prop_oneof![
                Just(b'2'), Just(b'"'), Just(b'\n'), Just(b'-'), Just(b' '), Just(b'('), any::<u8>()
            ], 0..300),
            cut in 1..50_usize,
        ) {
            let unsplit_result = read_replies(&bytes, 300);
            if let Ok(replies) = &unsplit_result {
                for reply in replies {
                    _ = (reply.quoted_name(), reply.size_in_parentheses());
                    let formatted = std::format!("{reply} {reply:?}");
                    prop_assert!(!formatted.chars().any(char::is_control));
                }
            }
            prop_assert_eq!(read_replies(&bytes, cut), unsplit_result);
        }
    }

    #[test]
    fn the_code_is_on_the_first_and_the_last_line_only() {
        let mut out = Vec::new();
        write(211, &[b"one", b"two", b"three"], &mut out);
        assert_eq!(out, b"211-one\r\n two\r\n211 three\r\n");
    }
}
