//! Filter between a remote host and the terminal of the user.
//!
//! A terminal executes what it displays. Some sequences write its clipboard, print its screen, or
//! make it answer with text that the remote host has chosen, as if the user had typed it. The
//! filter removes these, and passes every other byte unchanged (`policy` has the list).
//!
//! The filter parses as ECMA-48 does. A sequence is held until it is whole, is then passed or
//! removed as one, and an unfinished sequence that another one interrupts is removed: between two
//! calls the terminal is never inside a sequence, and nothing that is removed can join what stood
//! before and behind it into another sequence. The exception is a sixel picture, whose data pass
//! as they come.
//!
//! In UTF-8, a control of the C1 set (U+0080 to U+009F) and a byte of that range that belongs to no
//! character are removed: programs write ESC and a letter instead, and terminals differ in what
//! they make of them. Where the terminal is not one of UTF-8, C1 bytes begin sequences.
//!
//! The filter also knows which modes the remote host has set, so that the terminal can be put back
//! when the session ends (`modes`).

mod modes;
mod policy;
#[cfg(test)]
mod tests;

pub use policy::Policy;

use crate::time::Instant;
use alloc::vec::Vec;
use modes::Modes;
use policy::{TitleLimit, Verdict};
use unicode_width::UnicodeWidthChar;

/// The longest control sequence that passes, in bytes; ours. Each SGR of a program is shorter.
const SEQUENCE_MAX: usize = 256;
/// The longest string that passes, in bytes; ours: a palette of 256 colours.
const STRING_MAX: usize = 8 * 1024;
/// The same for the clipboard, where it is allowed: what xterm takes, in base64.
const CLIPBOARD_MAX: usize = 128 * 1024;
/// The most combining marks that pass behind one character; ours: more than any script stacks.
const MARKS_MAX: usize = 32;

const ENQ: u8 = 0x05;
const BEL: u8 = 0x07;
const SO: u8 = 0x0e;
const SI: u8 = 0x0f;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const ESC: u8 = 0x1b;
const DEL: u8 = 0x7f;
/// String Terminator.
const ST: &[u8] = b"\x1b\\";

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// ESC and its intermediate bytes.
    Escape,
    /// A control sequence.
    Csi,
    /// The parameters of a device control string.
    DcsHeader,
    /// A string that is held until its end.
    Text(Kind),
    /// A string that is removed up to its end.
    Removed(Kind),
    /// The data of a sixel picture, which pass.
    Sixel,
}

/// Which string it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// An operating system command: BEL ends it too.
    Osc,
    /// A device control string, or a title of GNU screen.
    Other,
}

/// The filter of one session.
#[derive(Debug)]
pub struct Filter {
    policy: Policy,
    state: State,
    /// The sequence so far.
    pending: Vec<u8>,
    /// ESC has come inside a string, and may begin its terminator.
    has_string_escape: bool,
    /// The bytes of an unfinished character.
    character: Vec<u8>,
    /// Combining marks behind the last character.
    marks: usize,
    titles: TitleLimit,
    modes: Modes,
    /// The modes at the last call of [`Self::changed_reset`].
    reported_modes: Modes,
    output: Vec<u8>,
    removed: u64,
}

impl Filter {
    /// Makes a filter in front of a terminal that displays text and sets no mode.
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

    /// Returns the part of `bytes`, and of what was held, that the terminal may have.
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

    /// Returns how many sequences, controls and characters were removed.
    #[must_use]
    pub fn removed(&self) -> u64 {
        if self.policy.passes_all { 0 } else { self.removed }
    }

    /// Returns the bytes that reset the modes which the remote host has set, if those have changed
    /// since the last call.
    pub fn changed_reset(&mut self) -> Option<Vec<u8>> {
        if self.modes == self.reported_modes {
            return None;
        }
        self.reported_modes.clone_from(&self.modes);
        let mut bytes = Vec::new();
        self.modes.reset(&mut bytes);
        Some(bytes)
    }

    /// Returns the bytes that reset each mode that the remote host has set and not reset, and
    /// forgets an unfinished sequence.
    pub fn restore(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let is_in_string = self.policy.passes_all && self.state != State::Ground;
        if self.state == State::Sixel || is_in_string {
            bytes.extend_from_slice(ST);
        }
        core::mem::take(&mut self.modes).reset(&mut bytes);
        (self.state, self.has_string_escape) = (State::Ground, false);
        self.pending.clear();
        self.character.clear();
        bytes
    }

    // Characters.

    fn byte(&mut self, byte: u8, now: Instant) {
        if !self.policy.is_utf8 {
            return self.eight_bits(byte, now);
        }
        if byte < 0x80 {
            self.malformed();
            return self.code(byte, now);
        }
        self.character.push(byte);
        match core::str::from_utf8(&self.character) {
            Ok(text) => {
                let character = text.chars().next();
                let bytes = core::mem::take(&mut self.character);
                if let Some(character) = character {
                    self.wide(character, &bytes);
                }
            }
            // Not whole yet.
            Err(error) if error.error_len().is_none() => {}
            Err(_) => {
                // The last byte may begin another character.
                self.character.pop();
                let is_alone = self.character.is_empty();
                self.malformed();
                if is_alone || !(0xc2..=0xf4).contains(&byte) {
                    self.stray(byte);
                } else {
                    self.character.push(byte);
                }
            }
        }
    }

    /// Passes the bytes of an unfinished character, but for those that are controls elsewhere.
    fn malformed(&mut self) {
        for byte in core::mem::take(&mut self.character) {
            self.stray(byte);
        }
    }

    /// Takes a byte that belongs to no character.
    fn stray(&mut self, byte: u8) {
        self.settle_string_escape();
        self.abandon();
        if byte < 0xa0 {
            return self.remove();
        }
        if self.state == State::Ground {
            self.output.push(byte);
        }
    }

    /// Takes a character beyond ASCII.
    fn wide(&mut self, character: char, bytes: &[u8]) {
        self.settle_string_escape();
        if character.is_control() {
            self.abandon();
            return self.remove();
        }
        match self.state {
            State::Text(_) => return self.hold(bytes),
            State::Removed(_) | State::Sixel => return,
            State::Ground => {}
            State::Escape | State::Csi | State::DcsHeader => self.abandon(),
        }
        self.marks = if character.width() == Some(0) { self.marks + 1 } else { 0 };
        if self.marks > MARKS_MAX {
            return self.remove();
        }
        self.output.extend_from_slice(bytes);
    }

    /// Takes a byte of a terminal without UTF-8, where each is a character or a control.
    fn eight_bits(&mut self, byte: u8, now: Instant) {
        match byte {
            0x00..0x80 => self.code(byte, now),
            // CSI, ST and the others are what ESC and a letter are, and are passed on so.
            0x80..0xa0 => {
                self.code(ESC, now);
                self.code(byte - 0x40, now);
            }
            0xa0.. => {
                self.settle_string_escape();
                self.abandon();
                match self.state {
                    State::Text(_) => self.hold(&[byte]),
                    State::Removed(_) | State::Sixel => {}
                    _ => self.output.push(byte),
                }
            }
        }
    }

    // Sequences.

    /// Takes a byte of ASCII.
    fn code(&mut self, byte: u8, now: Instant) {
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
                self.abandon();
                self.begin_escape();
            }
            (_, CAN | SUB) => {
                self.interrupt_string();
                self.abandon();
                self.output.push(byte);
            }
            (State::Ground, _) => self.ground(byte),
            (State::Text(Kind::Osc) | State::Removed(Kind::Osc), BEL) => {
                self.pending.push(BEL);
                self.end_string(now);
            }
            (State::Text(_), b' '..DEL) => self.hold(&[byte]),
            (State::Sixel, b' '..DEL | b'\r' | b'\n') => self.output.push(byte),
            // Other controls have no effect inside of a string.
            (
                State::Text(_) | State::Removed(_) | State::Sixel | State::DcsHeader,
                ..b' ' | DEL,
            )
            | (State::Removed(_), _) => {}
            // Inside of a sequence they act at once.
            (State::Escape | State::Csi, ..b' ') => self.ground(byte),
            (State::Escape | State::Csi, DEL) => {}
            (State::Escape, _) => self.escape(byte),
            (State::Csi, _) => self.csi(byte),
            (State::DcsHeader, _) => self.dcs(byte),
            (State::Text(_) | State::Sixel, _) => {}
        }
    }

    fn ground(&mut self, byte: u8) {
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

    fn escape(&mut self, byte: u8) {
        self.pending.push(byte);
        if let b' '..=b'/' = byte {
            if self.pending.len() > SEQUENCE_MAX {
                self.abandon();
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
                self.finish(verdict);
                State::Ground
            }
        };
    }

    fn csi(&mut self, byte: u8) {
        self.pending.push(byte);
        if self.pending.len() > SEQUENCE_MAX {
            return self.abandon();
        }
        if let b'@'.. = byte {
            let sequence = self.pending.get(2..).unwrap_or_default();
            let verdict = policy::csi(sequence);
            if verdict == Verdict::Pass {
                self.modes.csi(sequence);
            }
            self.finish(verdict);
            self.state = State::Ground;
        }
    }

    fn dcs(&mut self, byte: u8) {
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

    /// Holds more of a string, as long as there is room.
    fn hold(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        let content = self.pending.get(2..).unwrap_or_default();
        let has_clipboard = self.policy.allows_clipboard && content.starts_with(b"52;");
        if self.pending.len() > if has_clipboard { CLIPBOARD_MAX } else { STRING_MAX } {
            self.remove();
            self.pending.clear();
            let State::Text(kind) = self.state else { return };
            self.state = State::Removed(kind);
        } else if self.state == State::Text(Kind::Osc) && policy::is_linux_palette(content) {
            self.finish(policy::pass_if(self.policy.is_linux_console));
            self.state = State::Ground;
        }
    }

    /// Takes the end of a string: BEL, which is held, or ST.
    fn end_string(&mut self, now: Instant) {
        match self.state {
            State::Sixel => self.output.extend_from_slice(ST),
            State::Text(kind) => {
                let has_bell = self.pending.pop_if(|last| *last == BEL).is_some();
                let content = self.pending.get(2..).unwrap_or_default();
                let verdict = match kind {
                    Kind::Osc => policy::osc(content, &self.policy, &mut self.titles, now),
                    // A title of GNU screen, or a string whose header has passed.
                    Kind::Other if self.pending.get(1) == Some(&b'k') => self.titles.allow(now),
                    Kind::Other => Verdict::Pass,
                };
                if verdict == Verdict::Pass && kind == Kind::Osc {
                    self.modes.osc(content);
                }
                self.pending.extend_from_slice(if has_bell { &[BEL] } else { ST });
                self.finish(verdict);
            }
            _ => self.pending.clear(),
        }
        self.state = State::Ground;
    }

    /// Ends a string that something else interrupts.
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

    /// Passes or removes the sequence that is held.
    fn finish(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Pass => self.output.append(&mut self.pending),
            Verdict::Remove => {
                self.remove();
                self.pending.clear();
            }
        }
    }

    /// Removes an unfinished sequence; a string goes on.
    fn abandon(&mut self) {
        if let State::Escape | State::Csi | State::DcsHeader = self.state {
            self.remove();
            self.pending.clear();
            self.state = State::Ground;
        }
    }

    /// Ends a string behind whose ESC something comes that is no terminator.
    fn settle_string_escape(&mut self) {
        if core::mem::take(&mut self.has_string_escape) {
            self.interrupt_string();
        }
    }

    fn remove(&mut self) {
        self.removed += 1;
    }
}

/// Returns how many bytes at the front are text of ASCII and controls without a state.
fn harmless_run(bytes: &[u8]) -> usize {
    // Sixteen at a time without a branch among them, which the compiler makes one comparison of.
    let (blocks, _) = bytes.as_chunks::<16>();
    let whole = blocks.iter().take_while(|block| {
        block.iter().fold(true, |are_harmless, byte| are_harmless & is_harmless(*byte))
    });
    let start = whole.count() * 16;
    let rest = bytes.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|byte| is_harmless(**byte)).count()
}

const fn is_harmless(byte: u8) -> bool {
    (byte >= b' ' && byte < 0x80) | (byte >= BEL && byte < SO)
}
