//! Filter between a remote host and the terminal of the user.
//!
//! A terminal executes the control sequences it receives. Some sequences write its clipboard, print
//! its screen, or make it answer with text that the remote host has chosen, as if the user had
//! typed it. The filter removes such sequences and passes every other byte unchanged (`policy` has
//! the list).
//!
//! The filter parses according to ECMA-48. A sequence is buffered until it is complete and is then
//! passed or removed as a whole; an incomplete sequence that another one interrupts is removed. The
//! terminal is therefore never inside a sequence between two calls, and a removal cannot join the
//! bytes before and after it into another sequence. The exception is a sixel picture: its data is
//! passed without buffering.
//!
//! In UTF-8, C1 controls (U+0080 to U+009F) and bytes of that range outside of a valid character
//! are removed: programs write ESC and a letter instead, and terminals differ in how they interpret
//! C1 controls. If the terminal does not use UTF-8, C1 bytes begin sequences.
//!
//! The filter also tracks the modes that the remote host has set, so that the terminal can be reset
//! when the session ends (`modes`).

mod modes;
mod policy;
#[cfg(test)]
mod tests;

pub use policy::Policy;

use alloc::vec::Vec;
use modes::Modes;
use net::time::Instant;
use policy::{TitleLimit, Verdict};
use unicode_width::UnicodeWidthChar;

/// Maximum length in bytes of a control sequence; longer ones are removed (our choice). Every SGR
/// in practice is shorter.
const SEQUENCE_MAX: usize = 256;
/// Maximum length in bytes of a control string; longer ones are removed (our choice: enough to set
/// a palette of 256 colors).
const STRING_MAX: usize = 8 * 1024;
/// Maximum length in bytes of an OSC 52 string in base64, if the policy allows clipboard access:
/// the limit of xterm.
const CLIPBOARD_MAX: usize = 128 * 1024;
/// Maximum number of combining marks after one character; further marks are removed (our choice).
/// No script needs so many marks.
const MARKS_MAX: usize = 32;

const ENQ: u8 = 0x05;
const BEL: u8 = 0x07;
const SO: u8 = 0x0e;
const SI: u8 = 0x0f;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const ESC: u8 = 0x1b;
const DEL: u8 = 0x7f;
/// String Terminator (ST) in its 7-bit form.
const ST: &[u8] = b"\x1b\\";

/// State of the parser before the next byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// After ESC and any intermediate bytes.
    Escape,
    /// Inside a control sequence (CSI).
    Csi,
    /// Inside the parameters of a device control string (DCS).
    DcsHeader,
    /// Inside a string that is buffered up to its end.
    Text(Kind),
    /// Inside a string that is removed up to its end.
    Removed(Kind),
    /// Inside the data of a sixel picture, which is passed without buffering.
    Sixel,
}

/// Kind of a control string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// An operating system command, which ends with ST or BEL.
    Osc,
    /// A device control string, or a title of GNU screen (`ESC k`); both end with ST only.
    Other,
}

/// Removes dangerous control sequences from the output of one remote session.
#[derive(Debug)]
pub struct Filter {
    policy: Policy,
    state: State,
    /// The bytes of the incomplete sequence.
    pending: Vec<u8>,
    /// Whether the last byte was an ESC inside a string, which may begin the string terminator.
    has_string_escape: bool,
    /// The bytes of an incomplete UTF-8 character.
    character: Vec<u8>,
    /// Number of combining marks after the last character.
    marks: usize,
    titles: TitleLimit,
    modes: Modes,
    /// The modes as of the last call of [`Self::changed_reset`].
    reported_modes: Modes,
    output: Vec<u8>,
    removed: u64,
}

impl Filter {
    /// Creates a filter for a terminal in ground state with no modes set.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            state: State::Ground,
            pending: Vec::new(),
            has_string_escape: false,
            character: Vec::new(),
            marks: 0,
            titles: TitleLimit::default(),
            modes: Modes::default(),
            reported_modes: Modes::default(),
            output: Vec::new(),
            removed: 0,
        }
    }

    /// Filters `bytes` from the remote host. Returns the bytes to send to the terminal, which may
    /// include bytes buffered in earlier calls.
    pub fn pass<'a>(&'a mut self, bytes: &'a [u8], now: Instant) -> &'a [u8] {
        self.output.clear();
        let is_idle = self.state == State::Ground && self.character.is_empty();
        if is_idle && harmless_run(bytes) == bytes.len() {
            self.marks = 0;
            return bytes;
        }
        let mut rest = bytes;
        while let Some((first, others)) = rest.split_first() {
            let run = match self.state {
                State::Ground if self.character.is_empty() => harmless_run(rest),
                _ => 0,
            };
            if let Some((text, later)) = rest.split_at_checked(run).filter(|_| run > 0) {
                self.marks = 0;
                self.output.extend_from_slice(text);
                rest = later;
            } else {
                self.byte(*first, now);
                rest = others;
            }
        }
        if self.policy.passes_all { bytes } else { &self.output }
    }

    /// Returns the number of sequences, controls and characters that were removed.
    #[must_use]
    pub fn removed(&self) -> u64 {
        if self.policy.passes_all { 0 } else { self.removed }
    }

    /// Returns the bytes that reset all modes set by the remote host, or `None` if the modes have
    /// not changed since the last call.
    pub fn changed_reset(&mut self) -> Option<Vec<u8>> {
        if self.modes == self.reported_modes {
            return None;
        }
        self.reported_modes.clone_from(&self.modes);
        let mut bytes = Vec::new();
        self.modes.reset(&mut bytes);
        Some(bytes)
    }

    /// Returns the bytes that reset all modes set by the remote host, and discards an incomplete
    /// sequence.
    pub fn restore(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let is_in_string = self.policy.passes_all && self.state != State::Ground;
        if self.state == State::Sixel || is_in_string {
            bytes.extend_from_slice(ST);
        }
        core::mem::take(&mut self.modes).reset(&mut bytes);
        self.state = State::Ground;
        self.has_string_escape = false;
        self.pending.clear();
        self.character.clear();
        bytes
    }

    // Characters.

    fn byte(&mut self, byte: u8, now: Instant) {
        if !self.policy.is_utf8 {
            return self.process_without_utf8(byte, now);
        }
        if byte < 0x80 {
            self.process_malformed();
            return self.process_ascii(byte, now);
        }
        self.character.push(byte);
        match core::str::from_utf8(&self.character) {
            Ok(text) => {
                let character = text.chars().next();
                let bytes = core::mem::take(&mut self.character);
                if let Some(character) = character {
                    self.process_non_ascii(character, &bytes);
                }
            }
            // The character is incomplete.
            Err(error) if error.error_len().is_none() => {}
            Err(_) => {
                // The last byte may begin another character.
                self.character.pop();
                let is_alone = self.character.is_empty();
                self.process_malformed();
                if is_alone || !(0xc2..=0xf4).contains(&byte) {
                    self.discard(byte);
                } else {
                    self.character.push(byte);
                }
            }
        }
    }

    /// Processes the bytes of a malformed UTF-8 character individually. Bytes that are C1 controls
    /// in other encodings are removed.
    fn process_malformed(&mut self) {
        for byte in core::mem::take(&mut self.character) {
            self.discard(byte);
        }
    }

    /// Processes a byte that is not part of a valid UTF-8 character.
    fn discard(&mut self, byte: u8) {
        self.end_escaped_string();
        self.remove_incomplete_sequence();
        if byte < 0xa0 {
            return self.remove();
        }
        if self.state == State::Ground {
            self.output.push(byte);
        }
    }

    /// Processes a non-ASCII character.
    fn process_non_ascii(&mut self, character: char, bytes: &[u8]) {
        self.end_escaped_string();
        if character.is_control() {
            self.remove_incomplete_sequence();
            return self.remove();
        }
        match self.state {
            State::Text(_) => return self.buffer_string_bytes(bytes),
            State::Removed(_) | State::Sixel => return,
            State::Ground => {}
            State::Escape | State::Csi | State::DcsHeader => self.remove_incomplete_sequence(),
        }
        self.marks = if character.width() == Some(0) { self.marks + 1 } else { 0 };
        if self.marks > MARKS_MAX {
            return self.remove();
        }
        self.output.extend_from_slice(bytes);
    }

    /// Processes one byte if the terminal does not use UTF-8: each byte is a character or a
    /// control.
    fn process_without_utf8(&mut self, byte: u8, now: Instant) {
        match byte {
            0x00..0x80 => self.process_ascii(byte, now),
            // CSI, ST and the other C1 bytes are converted to ESC and a letter.
            0x80..0xa0 => {
                self.process_ascii(ESC, now);
                self.process_ascii(byte - 0x40, now);
            }
            0xa0.. => {
                self.end_escaped_string();
                self.remove_incomplete_sequence();
                match self.state {
                    State::Text(_) => self.buffer_string_bytes(&[byte]),
                    State::Removed(_) | State::Sixel => {}
                    _ => self.output.push(byte),
                }
            }
        }
    }

    // Sequences.

    /// Processes an ASCII byte.
    fn process_ascii(&mut self, byte: u8, now: Instant) {
        if core::mem::take(&mut self.has_string_escape) {
            if byte == b'\\' {
                return self.end_string(now);
            }
            self.interrupt_string();
            self.begin_escape();
        }
        match (self.state, byte) {
            (_, ENQ) => self.remove(),
            (State::Text(_) | State::Removed(_) | State::Sixel, ESC) => {
                self.has_string_escape = true;
            }
            (_, ESC) => {
                self.remove_incomplete_sequence();
                self.begin_escape();
            }
            (_, CAN | SUB) => {
                self.interrupt_string();
                self.remove_incomplete_sequence();
                self.output.push(byte);
            }
            (State::Ground, _) => self.process_in_ground_state(byte),
            (State::Text(Kind::Osc) | State::Removed(Kind::Osc), BEL) => {
                self.pending.push(BEL);
                self.end_string(now);
            }
            (State::Text(_), b' '..DEL) => self.buffer_string_bytes(&[byte]),
            (State::Sixel, b' '..DEL | b'\r' | b'\n') => self.output.push(byte),
            // Other controls have no effect inside a string.
            (
                State::Text(_) | State::Removed(_) | State::Sixel | State::DcsHeader,
                ..b' ' | DEL,
            )
            | (State::Removed(_), _) => {}
            // Inside a sequence they take effect at once.
            (State::Escape | State::Csi, ..b' ') => self.process_in_ground_state(byte),
            (State::Escape | State::Csi, DEL) => {}
            (State::Escape, _) => self.process_escape(byte),
            (State::Csi, _) => self.process_csi(byte),
            (State::DcsHeader, _) => self.process_dcs(byte),
            (State::Text(_) | State::Sixel, _) => {}
        }
    }

    fn process_in_ground_state(&mut self, byte: u8) {
        self.marks = 0;
        match byte {
            SO => self.modes.shift(true),
            SI => self.modes.shift(false),
            _ => {}
        }
        self.output.push(byte);
    }

    fn begin_escape(&mut self) {
        self.pending.clear();
        self.pending.push(ESC);
        self.state = State::Escape;
    }

    fn process_escape(&mut self, byte: u8) {
        self.pending.push(byte);
        if let b' '..=b'/' = byte {
            if self.pending.len() > SEQUENCE_MAX {
                self.remove_incomplete_sequence();
            }
            return;
        }
        self.marks = 0;
        self.state = match (self.pending.get(1..).unwrap_or_default(), byte) {
            (b"[", _) => State::Csi,
            (b"]", _) => State::Text(Kind::Osc),
            (b"P", _) => State::DcsHeader,
            (b"k", _) => State::Text(Kind::Other),
            // Start of string, privacy message, application program command.
            (b"X" | b"^" | b"_", _) => {
                self.remove();
                State::Removed(Kind::Other)
            }
            (sequence, _) => {
                let verdict = policy::escape(sequence, &self.policy);
                if verdict == Verdict::Pass {
                    self.modes.escape(sequence);
                }
                self.finish_sequence(verdict);
                State::Ground
            }
        };
    }

    fn process_csi(&mut self, byte: u8) {
        self.pending.push(byte);
        if self.pending.len() > SEQUENCE_MAX {
            return self.remove_incomplete_sequence();
        }
        if let b'@'.. = byte {
            let sequence = self.pending.get(2..).unwrap_or_default();
            let verdict = policy::csi(sequence);
            if verdict == Verdict::Pass {
                self.modes.csi(sequence);
            }
            self.finish_sequence(verdict);
            self.state = State::Ground;
        }
    }

    fn process_dcs(&mut self, byte: u8) {
        self.pending.push(byte);
        if self.pending.len() > SEQUENCE_MAX {
            self.remove();
            self.state = State::Removed(Kind::Other);
        } else if let b'@'.. = byte {
            self.state = match policy::dcs(self.pending.get(2..).unwrap_or_default()) {
                policy::Dcs::Picture => {
                    self.output.append(&mut self.pending);
                    State::Sixel
                }
                policy::Dcs::Pass => State::Text(Kind::Other),
                policy::Dcs::Remove => {
                    self.remove();
                    State::Removed(Kind::Other)
                }
            };
        }
    }

    /// Appends to the buffered string; removes the string if it exceeds its limit.
    fn buffer_string_bytes(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        let content = self.pending.get(2..).unwrap_or_default();
        let has_clipboard = self.policy.allows_clipboard && content.starts_with(b"52;");
        if self.pending.len() > if has_clipboard { CLIPBOARD_MAX } else { STRING_MAX } {
            self.remove();
            self.pending.clear();
            let State::Text(kind) = self.state else { return };
            self.state = State::Removed(kind);
        } else if self.state == State::Text(Kind::Osc) && policy::is_linux_palette(content) {
            self.finish_sequence(policy::pass_if(self.policy.is_linux_console));
            self.state = State::Ground;
        }
    }

    /// Passes or removes the buffered string, whose terminator has arrived: ST, or BEL at the end
    /// of `pending`.
    fn end_string(&mut self, now: Instant) {
        match self.state {
            State::Sixel => self.output.extend_from_slice(ST),
            State::Text(kind) => {
                let has_bell = self.pending.pop_if(|last| *last == BEL).is_some();
                let content = self.pending.get(2..).unwrap_or_default();
                let verdict = match kind {
                    Kind::Osc => policy::osc(content, &self.policy, &mut self.titles, now),
                    // A title of GNU screen, or a string whose header was accepted.
                    Kind::Other if self.pending.get(1) == Some(&b'k') => self.titles.allow(now),
                    Kind::Other => Verdict::Pass,
                };
                if verdict == Verdict::Pass && kind == Kind::Osc {
                    self.modes.osc(content);
                }
                self.pending.extend_from_slice(if has_bell { &[BEL] } else { ST });
                self.finish_sequence(verdict);
            }
            _ => self.pending.clear(),
        }
        self.state = State::Ground;
    }

    /// Ends an unterminated string because another sequence begins.
    fn interrupt_string(&mut self) {
        match self.state {
            State::Sixel => self.output.extend_from_slice(ST),
            State::Text(_) => self.remove(),
            State::Removed(_) => {}
            _ => return,
        }
        self.pending.clear();
        self.state = State::Ground;
    }

    /// Passes or removes the buffered sequence.
    fn finish_sequence(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Pass => self.output.append(&mut self.pending),
            Verdict::Remove => {
                self.remove();
                self.pending.clear();
            }
        }
    }

    /// Removes an incomplete sequence that is not a string.
    fn remove_incomplete_sequence(&mut self) {
        if let State::Escape | State::Csi | State::DcsHeader = self.state {
            self.remove();
            self.pending.clear();
            self.state = State::Ground;
        }
    }

    /// Ends a string that is followed by an ESC, if this ESC did not begin a string terminator.
    fn end_escaped_string(&mut self) {
        if core::mem::take(&mut self.has_string_escape) {
            self.interrupt_string();
        }
    }

    fn remove(&mut self) {
        self.removed += 1;
    }
}

/// Returns the number of bytes at the front that always pass: ASCII text, and controls that do not
/// change the state of the parser.
fn harmless_run(bytes: &[u8]) -> usize {
    // A block of sixteen bytes is compared without branches, so that the compiler generates one
    // vector comparison per block.
    let (blocks, _) = bytes.as_chunks::<16>();
    let harmless_blocks = blocks.iter().take_while(|block| {
        block.iter().fold(true, |are_harmless, byte| are_harmless & is_harmless(*byte))
    });
    let start = harmless_blocks.count() * 16;
    let rest = bytes.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|byte| is_harmless(**byte)).count()
}

const fn is_harmless(byte: u8) -> bool {
    (byte >= b' ' && byte < 0x80) | (byte >= BEL && byte < SO)
}
