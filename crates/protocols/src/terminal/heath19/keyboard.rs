//! The keyboard: the bytes of each key in each mode.
//!
//! Heath mode sends ESC and a letter. ANSI mode inserts `[` before letters up to O, and `O` before
//! the others. The keypad is shifted if exactly one of SHIFT and keypad-shifted mode is on; in
//! alternate keypad mode its unshifted keys send a prefix of their own.
//!
//! CTRL with a function or editing key is executed by the terminal itself: its bytes go to the
//! screen and not to the serial line.
//!
//! CAPS LOCK, REPEAT, BREAK and OFF LINE produce no bytes; the code that reads the physical
//! keyboard handles them.

/// A key, named by its cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A key with a single code, from 00 to 7F: the code of the key alone or with SHIFT.
    Character(u8),
    /// f1.
    F1,
    /// f2.
    F2,
    /// f3.
    F3,
    /// f4.
    F4,
    /// f5.
    F5,
    /// The blue key.
    Blue,
    /// The red key.
    Red,
    /// The gray or white key.
    Gray,
    /// ERASE.
    Erase,
    /// SCROLL: releases a held screen, by one line or with SHIFT by 24.
    Scroll,
    /// A digit of the keypad, from 0 to 9; other numbers produce nothing.
    Pad(u8),
    /// The decimal point of the keypad.
    PadPoint,
    /// ENTER of the keypad.
    PadEnter,
}

/// Modifier keys held down with another key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modifiers {
    /// SHIFT.
    pub shift: bool,
    /// CTRL.
    pub control: bool,
}

/// The modes that determine the bytes of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyModes {
    /// ANSI mode; otherwise Heath mode.
    pub is_ansi: bool,
    /// Insert-character mode, in which the key of that mode sends the sequence that ends it.
    pub inserts: bool,
    /// Keypad-shifted mode.
    pub is_keypad_shifted: bool,
    /// Alternate keypad mode.
    pub is_keypad_alternate: bool,
}

/// The bytes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyCode {
    bytes: [u8; 4],
    length: usize,
    is_local: bool,
}

impl KeyCode {
    fn new(code: &[u8], is_local: bool) -> Self {
        let mut bytes = [0; 4];
        bytes.iter_mut().zip(code).for_each(|(byte, new)| *byte = *new);
        Self { bytes, length: code.len().min(4), is_local }
    }

    /// Returns the bytes; empty for keys that have no code.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Returns whether the bytes go to the screen and not to the serial line.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        self.is_local
    }
}

const ESC: u8 = 0x1b;
const CR: u8 = b'\r';

impl Key {
    /// Returns the bytes of the key.
    #[must_use]
    pub fn code(self, modifiers: Modifiers, modes: KeyModes) -> KeyCode {
        let letter = match self {
            Self::Character(byte) => return character(byte, modifiers.control),
            Self::Scroll => return KeyCode::new(&[], true),
            Self::Pad(digit) => return pad(digit, modifiers, modes),
            Self::PadPoint if modes.is_keypad_alternate => return alternate(b'n', modes),
            Self::PadPoint => return KeyCode::new(b".", modifiers.control),
            Self::PadEnter if modes.is_keypad_alternate => return alternate(b'M', modes),
            Self::PadEnter => return KeyCode::new(&[CR], modifiers.control),
            Self::Erase if modifiers.shift && modes.is_ansi => {
                return KeyCode::new(b"\x1b[2J", modifiers.control);
            }
            Self::Erase if modifiers.shift => b'E',
            Self::Erase => b'J',
            Self::F1 => b'S',
            Self::F2 => b'T',
            Self::F3 => b'U',
            Self::F4 => b'V',
            Self::F5 => b'W',
            Self::Blue => b'P',
            Self::Red => b'Q',
            Self::Gray => b'R',
        };
        escape(letter, modifiers, modes)
    }
}

fn character(byte: u8, control: bool) -> KeyCode {
    match byte & 0x7f {
        ESC => KeyCode::new(&[ESC], control),
        code @ 0x40..=0x7a if control => KeyCode::new(&[code & 0x1f], false),
        code => KeyCode::new(&[code], false),
    }
}

/// Returns ESC and a letter, in the format of the mode.
fn escape(letter: u8, modifiers: Modifiers, modes: KeyModes) -> KeyCode {
    match modes.is_ansi {
        false => KeyCode::new(&[ESC, letter], modifiers.control),
        true if letter < b'P' => KeyCode::new(&[ESC, b'[', letter], modifiers.control),
        true => KeyCode::new(&[ESC, b'O', letter], modifiers.control),
    }
}

/// Returns the code of a key of the alternate keypad, which is never executed locally.
fn alternate(letter: u8, modes: KeyModes) -> KeyCode {
    KeyCode::new(&[ESC, if modes.is_ansi { b'O' } else { b'?' }, letter], false)
}

fn pad(digit: u8, modifiers: Modifiers, modes: KeyModes) -> KeyCode {
    if digit > 9 {
        return KeyCode::new(&[], false);
    }
    let is_shifted = modifiers.shift != modes.is_keypad_shifted;
    let function = match digit {
        _ if !is_shifted => None,
        1 => Some(b'L'),
        2 => Some(b'B'),
        3 => Some(b'M'),
        4 => Some(b'D'),
        5 => Some(b'H'),
        6 => Some(b'C'),
        7 => return insert_character(modifiers, modes),
        8 => Some(b'A'),
        9 if modes.is_ansi => Some(b'P'),
        9 => Some(b'N'),
        _ => None,
    };
    match function {
        // In general P would get the prefix `O`, but here it is Delete Character.
        Some(b'P') => KeyCode::new(b"\x1b[P", modifiers.control),
        Some(letter) => escape(letter, modifiers, modes),
        None if modes.is_keypad_alternate => alternate(b'p' + digit, modes),
        None => KeyCode::new(&[b'0' + digit], modifiers.control),
    }
}

fn insert_character(modifiers: Modifiers, modes: KeyModes) -> KeyCode {
    let code: &[u8] = match (modes.is_ansi, modes.inserts) {
        (false, false) => b"\x1b@",
        (false, true) => b"\x1bO",
        (true, false) => b"\x1b[4h",
        (true, true) => b"\x1b[4l",
    };
    KeyCode::new(code, modifiers.control)
}
