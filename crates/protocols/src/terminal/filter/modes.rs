//! The terminal modes that a remote host has set, and the bytes that reset them.

use super::policy::{Csi, split_code};
use alloc::format;
use alloc::vec::Vec;

/// Numbers of the known private modes, and whether each mode is set initially.
const PRIVATE: [(u32, bool); 29] = [
    (2026, false),
    (1, false),
    (5, false),
    (7, true),
    (9, false),
    (25, true),
    (45, false),
    (66, false),
    (69, false),
    (1000, false),
    (1001, false),
    (1002, false),
    (1003, false),
    (1004, false),
    (1005, false),
    (1006, false),
    (1015, false),
    (1016, false),
    (2004, false),
    (2027, false),
    (2031, false),
    (2048, false),
    (9001, false),
    (1035, true),
    (1036, true),
    // These modes move the cursor, so they come last.
    (6, false),
    (47, false),
    (1047, false),
    (1049, false),
];
/// Numbers of the known ECMA-48 modes, and whether each mode is set initially: keyboard lock (2),
/// insertion (4), no local echo (12), newline (20).
const ANSI: [(u32, bool); 4] = [(2, false), (4, false), (12, true), (20, false)];
/// Number of the private origin mode (DECOM).
const ORIGIN: u32 = 6;
/// Numbers of the private modes that select the alternate screen.
const ALTERNATE: [u32; 3] = [47, 1047, 1049];

/// Differences between the current state of a terminal and its initial state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Modes {
    /// Bit n is set if the mode `PRIVATE[n]` differs from its initial value.
    private_modes: u32,
    /// Bit n is set if the mode `ANSI[n]` differs from its initial value.
    ansi_modes: u32,
    has_margins: bool,
    has_style: bool,
    /// Whether the host has assigned a character set other than ASCII to G0.
    has_charset: bool,
    is_shifted: bool,
    has_keypad: bool,
    has_cursor_shape: bool,
    has_link: bool,
    /// Whether the host has set the text color (OSC 10), the background color (OSC 11) or the
    /// cursor color (OSC 12).
    colors: [bool; 3],
    has_palette: bool,
    modifies_keys: bool,
    sets_keys: bool,
    /// Number of keyboard flag sets that the host has pushed to the stack (kitty keyboard
    /// protocol).
    pushed_keys: u32,
}

impl Modes {
    pub(super) fn shift(&mut self, is_shifted: bool) {
        self.is_shifted = is_shifted;
    }

    /// Records the mode changes of an escape sequence, given without its ESC.
    pub(super) fn escape(&mut self, sequence: &[u8]) {
        match sequence {
            b"=" => self.has_keypad = true,
            b">" => self.has_keypad = false,
            b"c" => *self = Self::default(),
            b"(B" => self.has_charset = false,
            [b'(', ..] => self.has_charset = true,
            b"n" | b"o" => self.is_shifted = true,
            _ => {}
        }
    }

    /// Records the mode changes of a control sequence, given without its CSI.
    pub(super) fn csi(&mut self, sequence: &[u8]) {
        let Some(csi) = Csi::parse(sequence) else { return };
        let first = csi.numbers().next().unwrap_or(0);
        match (csi.private, csi.intermediates, csi.last) {
            (Some(b'?'), b"", b'h' | b'l') => {
                csi.numbers().for_each(|mode| {
                    record_mode(&mut self.private_modes, &PRIVATE, mode, csi.last);
                });
            }
            (None, b"", b'h' | b'l') => {
                csi.numbers()
                    .for_each(|mode| record_mode(&mut self.ansi_modes, &ANSI, mode, csi.last));
            }
            (None, b"", b'r') => self.has_margins = csi.numbers().any(|side| side != 0),
            (None, b"", b'm') => self.has_style = csi.numbers().last() != Some(0),
            (None, b" ", b'q') => self.has_cursor_shape = first != 0,
            (None, b"!", b'p') => self.soft_reset(),
            (Some(b'>'), b"", b'm') if first == 4 => {
                self.modifies_keys = csi.numbers().nth(1).unwrap_or(0) != 0;
            }
            (Some(b'>'), b"", b'u') => self.pushed_keys = self.pushed_keys.saturating_add(1),
            (Some(b'<'), b"", b'u') => {
                self.pushed_keys = self.pushed_keys.saturating_sub(first.max(1));
            }
            (Some(b'='), b"", b'u') => self.sets_keys = first != 0,
            _ => {}
        }
    }

    /// Records the color changes of an operating system command.
    pub(super) fn osc(&mut self, content: &[u8]) {
        let (code, rest) = split_code(content);
        match code {
            b"8" => self.has_link = rest.splitn(2, |byte| *byte == b';').nth(1) != Some(b""),
            b"4" => self.has_palette = true,
            b"104" => self.has_palette = false,
            b"10" | b"11" | b"12" | b"110" | b"111" | b"112" => {
                let at = code.last().map_or(0, |digit| usize::from(digit - b'0'));
                if let Some(is_set) = self.colors.get_mut(at) {
                    *is_set = code.len() == 2;
                }
            }
            _ => {}
        }
    }

    /// Records a soft reset (DECSTR), which resets some of the modes.
    fn soft_reset(&mut self) {
        self.ansi_modes = 0;
        for (index, (mode, _)) in PRIVATE.iter().enumerate() {
            if matches!(mode, 1 | 6 | 7 | 25 | 66) {
                self.private_modes &= !(1 << index);
            }
        }
        self.has_margins = false;
        self.has_style = false;
        self.has_charset = false;
        self.is_shifted = false;
        self.has_keypad = false;
    }

    /// Appends the bytes that return the terminal to its initial state.
    pub(super) fn reset(&self, bytes: &mut Vec<u8>) {
        let is_set = |mode: u32| {
            let index = PRIVATE.iter().position(|(known, _)| *known == mode);
            index.is_some_and(|index| self.private_modes & 1 << index != 0)
        };
        let is_alternate = ALTERNATE.iter().any(|mode| is_set(*mode));
        if self.has_link {
            bytes.extend_from_slice(b"\x1b]8;;\x1b\\");
        }
        let flags = [
            (self.has_style, &b"\x1b[m"[..]),
            (self.has_charset, b"\x1b(B"),
            (self.is_shifted, b"\x0f"),
            (self.has_keypad, b"\x1b>"),
            (self.has_cursor_shape, b"\x1b[0 q"),
            // Resetting the margins moves the cursor home.
            (self.has_margins && is_alternate, b"\x1b[r"),
            (self.has_margins && !is_alternate, b"\x1b7\x1b[r\x1b8"),
            (self.modifies_keys, b"\x1b[>4;0m"),
            (self.sets_keys, b"\x1b[=0u"),
            (self.has_palette, b"\x1b]104\x1b\\"),
        ];
        for (_, reset) in flags.iter().filter(|(is_set, _)| *is_set) {
            bytes.extend_from_slice(reset);
        }
        if self.pushed_keys > 0 {
            bytes.extend_from_slice(format!("\x1b[<{}u", self.pushed_keys).as_bytes());
        }
        for (at, _) in self.colors.iter().enumerate().filter(|(_, is_set)| **is_set) {
            bytes.extend_from_slice(format!("\x1b]11{at}\x1b\\").as_bytes());
        }
        append_resets(bytes, self.ansi_modes, &ANSI, "");
        append_resets(bytes, self.private_modes, &PRIVATE, "?");
        if is_set(ORIGIN) && !is_alternate {
            // Resetting origin mode moves the cursor home, above the displayed text.
            bytes.extend_from_slice(b"\x1b[999;1H");
        }
    }
}

/// Records whether a mode differs from its initial value.
fn record_mode(bits: &mut u32, known: &[(u32, bool)], mode: u32, last: u8) {
    let Some(index) = known.iter().position(|(number, _)| *number == mode) else { return };
    let is_initial = known.get(index).is_some_and(|(_, is_on)| *is_on == (last == b'h'));
    *bits = if is_initial { *bits & !(1 << index) } else { *bits | 1 << index };
}

/// Appends the sequences that return each mode in `bits` to its initial value.
fn append_resets(bytes: &mut Vec<u8>, bits: u32, known: &[(u32, bool)], prefix: &str) {
    for (index, (mode, is_on)) in known.iter().enumerate() {
        if bits & 1 << index != 0 {
            let last = if *is_on { 'h' } else { 'l' };
            bytes.extend_from_slice(format!("\x1b[{prefix}{mode}{last}").as_bytes());
        }
    }
}
