//! Lines of a control connection, extracted from a Telnet stream (RFC 959 §5.3, RFC 1123
//! §4.1.2.12).
//!
//! CR LF ends a line; a bare LF is accepted too, since many implementations send it. Telnet
//! commands are removed: an option is refused, a subnegotiation skipped, IAC IAC is the byte 255,
//! and DM discards the incomplete line before it, as Synch requires. Most implementations send the
//! DM of a Synch as urgent data, and the transport may then remove the IAC before it from the
//! stream. A DM alone at the start of a line is therefore treated as a Synch.
//!
//! The length of a line is limited. The excess bytes of a line are skipped, and reported once, at
//! the end of the line.

use alloc::vec::Vec;
use memchr::memchr2;
use net::cx::Cx;
use net::meter::Counter;

pub(super) const IAC: u8 = 255;
const DONT: u8 = 254;
const DO: u8 = 253;
const WONT: u8 = 252;
const WILL: u8 = 251;
const SB: u8 = 250;
/// Interrupt Process.
pub(super) const IP: u8 = 244;
/// Data Mark.
pub(super) const DM: u8 = 242;
const SE: u8 = 240;

/// Maximum number of queued bytes of option refusals (our choice).
const ANSWERS_MAX_BYTES: usize = 300;

/// One line without its line end, or a report that a line was too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    TooLong,
}

impl Line {
    /// Returns the length of the line in bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Whole(line) => line.len(),
            Self::TooLong => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
enum TelnetState {
    #[default]
    Data,
    Command,
    Option(u8),
    Subnegotiation,
    SubnegotiationCommand,
}

/// Incremental line reader; the input may be split at any position.
#[derive(Debug)]
pub(super) struct LineReader {
    line: Vec<u8>,
    is_too_long: bool,
    telnet: TelnetState,
    limit_bytes: usize,
    answers: Vec<u8>,
}

impl LineReader {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            line: Vec::new(),
            is_too_long: false,
            telnet: TelnetState::Data,
            limit_bytes,
            answers: Vec::new(),
        }
    }

    /// Returns the next line and advances `input` past it; `None` once all input is consumed.
    pub(super) fn next(&mut self, input: &mut &[u8], cx: &mut Cx<'_>) -> Option<Line> {
        while !input.is_empty() {
            if matches!(self.telnet, TelnetState::Data) {
                let special_position = memchr2(b'\n', IAC, input).unwrap_or(input.len());
                let (run, rest) = input.split_at_checked(special_position).unwrap_or((input, &[]));
                self.append_data(run);
                *input = rest;
            }
            let Some((&byte, rest)) = input.split_first() else { break };
            *input = rest;
            if matches!(self.telnet, TelnetState::Data) && byte == b'\n' {
                return Some(self.end_line(cx));
            }
            self.command(byte, cx);
        }
        None
    }

    fn append_data(&mut self, mut run: &[u8]) {
        if self.line.is_empty() && !self.is_too_long {
            while let Some((&DM, rest)) = run.split_first() {
                run = rest;
            }
        }
        if self.is_too_long || self.line.len() + run.len() > self.limit_bytes + 1 {
            self.is_too_long = true;
            self.line.clear();
        } else {
            self.line.extend_from_slice(run);
        }
    }

    fn command(&mut self, byte: u8, cx: &mut Cx<'_>) {
        self.telnet = match (self.telnet, byte) {
            (TelnetState::Data, _) => TelnetState::Command,
            (TelnetState::Command, IAC) => {
                self.append_data(&[IAC]);
                TelnetState::Data
            }
            (TelnetState::Command, WILL | WONT | DO | DONT) => TelnetState::Option(byte),
            (TelnetState::Command, SB) => TelnetState::Subnegotiation,
            (TelnetState::Command, DM) => {
                self.discard_incomplete();
                TelnetState::Data
            }
            // IP is sent only before ABOR, which does not depend on it. Other Telnet commands have
            // no effect on FTP.
            (TelnetState::Command, _) => TelnetState::Data,
            (TelnetState::Option(verb), option) => {
                self.refuse(verb, option, cx);
                TelnetState::Data
            }
            (TelnetState::Subnegotiation, IAC) => TelnetState::SubnegotiationCommand,
            (TelnetState::SubnegotiationCommand, SE) => TelnetState::Data,
            (TelnetState::Subnegotiation | TelnetState::SubnegotiationCommand, _) => {
                TelnetState::Subnegotiation
            }
        };
    }

    /// Queues the refusal of an option: RFC 1123 §4.1.2.12 requires a server to be able to refuse
    /// any option.
    fn refuse(&mut self, verb: u8, option: u8, cx: &mut Cx<'_>) {
        let answer = match verb {
            WILL => DONT,
            DO => WONT,
            _ => return,
        };
        cx.meter.count(Counter::FtpOptionsRefused);
        if self.answers.len() + 3 <= ANSWERS_MAX_BYTES {
            self.answers.extend([IAC, answer, option]);
        }
    }

    fn end_line(&mut self, cx: &mut Cx<'_>) -> Line {
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        if core::mem::take(&mut self.is_too_long) || self.line.len() > self.limit_bytes {
            self.line.clear();
            cx.meter.count(Counter::FtpLinesTooLong);
            return Line::TooLong;
        }
        Line::Whole(core::mem::take(&mut self.line))
    }

    /// Discards the incomplete line. Returns the number of discarded bytes.
    pub(super) fn discard_incomplete(&mut self) -> usize {
        let len = self.line.len();
        self.line.clear();
        self.is_too_long = false;
        self.telnet = TelnetState::Data;
        len
    }

    /// Returns the length of the incomplete line in bytes.
    pub(super) fn unfinished_len(&self) -> usize {
        self.line.len() + usize::from(self.is_too_long)
    }

    /// Removes and returns the queued option refusals.
    pub(super) fn take_answers(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::cx::OwnedCx;
    use proptest::prelude::*;

    fn lines(reader: &mut LineReader, bytes: &[u8], cut: usize) -> Vec<Line> {
        let mut context = OwnedCx::default();
        let mut lines = Vec::new();
        for mut piece in bytes.chunks(cut) {
            while let Some(line) = reader.next(&mut piece, &mut context.cx()) {
                lines.push(line);
            }
        }
        lines
    }

    fn complete_line(text: &[u8]) -> Line {
        Line::Whole(text.to_vec())
    }

    // req RFC1123:4.1.2.12-MUST-2
    #[test]
    fn options_are_refused_and_do_not_disturb_the_command() {
        let mut reader = LineReader::new(100);
        let bytes = b"\xff\xfd\x18NO\xff\xfb\x01OP\xff\xfa\x18\x01\xff\xff\xff\xf0\r\n\xff\xfe\x01";
        assert_eq!(lines(&mut reader, bytes, 1), [complete_line(b"NOOP")]);
        assert_eq!(reader.take_answers(), [IAC, WONT, 0x18, IAC, DONT, 1]);
    }

    #[test]
    fn a_synch_discards_the_incomplete_line_for_every_form_of_the_mark() {
        for synch in [&b"\xff\xf4\xff\xf2"[..], b"\xff\xf4\xf2", b"\xff\xf2", b"\xf2"] {
            let bytes = [b"NOOP\r\n", synch, b"ABOR\r\n"].concat();
            let mut reader = LineReader::new(100);
            assert_eq!(
                lines(&mut reader, &bytes, 3),
                [complete_line(b"NOOP"), complete_line(b"ABOR")]
            );
        }
        let mut reader = LineReader::new(100);
        assert_eq!(lines(&mut reader, b"STOR x\xff\xf2ABOR\n", 9), [complete_line(b"ABOR")]);
    }

    // attack row 88
    #[test]
    fn row_88_an_endless_line_uses_no_memory_and_is_reported_once() {
        let mut reader = LineReader::new(4096);
        let piece = [b'A'; 65_536];
        for _ in 0..1024 {
            assert!(lines(&mut reader, &piece, piece.len()).is_empty());
            assert!(reader.line.capacity() <= 8192);
        }
        assert_eq!(lines(&mut reader, b"\r\nNOOP\r\n", 8), [Line::TooLong, complete_line(b"NOOP")]);
    }

    proptest! {
        // attack row 86
        #[test]
        fn row_86_any_bytes_with_iac_are_parsed_the_same_at_any_split(
            bytes in prop::collection::vec(
                prop_oneof![Just(255_u8), 240..=255_u8, Just(b'\n'), Just(b'\r'), any::<u8>()],
                0..300
            ),
            cut in 1..40_usize,
        ) {
            let mut unsplit_reader = LineReader::new(40);
            let mut split_reader = LineReader::new(40);
            // A DM without its IAC is recognized by its position, and splitting the input does not
            // change the position.
            prop_assert_eq!(
                lines(&mut unsplit_reader, &bytes, 300),
                lines(&mut split_reader, &bytes, cut)
            );
            prop_assert_eq!(unsplit_reader.take_answers(), split_reader.take_answers());
        }
    }

    #[test]
    fn a_line_of_the_maximum_length_is_complete_and_a_longer_one_too_long() {
        for end in ["\r\n", "\n"] {
            let mut reader = LineReader::new(4);
            let text = std::format!("NOOP{end}NOOPS!{end}");
            let expected = [complete_line(b"NOOP"), Line::TooLong];
            assert_eq!(lines(&mut reader, text.as_bytes(), 100), expected);
        }
    }

    #[test]
    fn each_refused_option_is_counted() {
        let mut context = OwnedCx::default();
        let mut reader = LineReader::new(100);
        let mut input = &[IAC, WILL, 1, IAC, DO, 6, IAC, DONT, 7][..];
        assert_eq!(reader.next(&mut input, &mut context.cx()), None);
        assert_eq!(reader.answers, [IAC, DONT, 1, IAC, WONT, 6]);
        assert_eq!(context.counted(Counter::FtpOptionsRefused), 2);
    }
}
