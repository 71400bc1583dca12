//! The keyboard: the bytes of each key in each mode.
//!
//! Heath mode sends ESC and a letter. ANSI mode inserts `[` before the letters up to O, and `O`
//! before the other letters. The keypad is shifted if either SHIFT is pressed or keypad-shifted
//! mode is on, but not both. In alternate keypad mode the unshifted keypad sends a different
//! prefix.
//!
//! CTRL with a function or editing key executes the key locally: the terminal processes the bytes
//! itself instead of sending them to the serial line.
//!
//! CAPS LOCK, REPEAT, BREAK and OFF LINE produce no bytes; the code that reads the physical
//! keyboard handles them.

/// A key, named by its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A key that sends one character from 0x00 to 0x7F, after SHIFT is applied.
    Character(u8),
    /// Function key f1.
    F1,
    /// Function key f2.
    F2,
    /// Function key f3.
    F3,
    /// Function key f4.
    F4,
    /// Function key f5.
    F5,
    /// The blue function key.
    Blue,
    /// The red function key.
    Red,
    /// The gray or white function key.
    Gray,
    /// The ERASE key.
    Erase,
    /// The SCROLL key: lets a held screen scroll by one line, or with SHIFT by 24 lines.
    Scroll,
    /// A digit of the keypad, from 0 to 9; other values produce no bytes.
    Pad(u8),
    /// The decimal point of the keypad.
    PadPoint,
    /// The ENTER key of the keypad.
    PadEnter,
}

/// Modifier keys that are pressed together with another key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modifiers {
    /// Whether SHIFT is pressed.
    pub shift: bool,
    /// Whether CTRL is pressed.
    pub control: bool,
}

/// The modes that determine the bytes of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyModes {
    /// Whether the terminal is in ANSI mode; otherwise it is in Heath mode.
    pub is_ansi: bool,
    /// Whether insert-character mode is on. The insert-character key then sends the sequence that
    /// ends the mode.
    pub inserts: bool,
    /// Whether keypad-shifted mode is on.
    pub is_keypad_shifted: bool,
    /// Whether alternate keypad mode is on.
    pub is_keypad_alternate: bool,
}

/// The bytes that a key produces, and their destination.
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

    /// Returns whether the terminal executes the bytes itself instead of sending them to the serial
    /// line.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        self.is_local
    }
}

const ESC: u8 = 0x1b;
const CR: u8 = b'\r';

impl Key {
    /// Returns the bytes that the key produces with `modifiers` in `modes`.
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

/// Returns ESC and a letter, with the prefix of ANSI mode if that mode is on.
fn escape(letter: u8, modifiers: Modifiers, modes: KeyModes) -> KeyCode {
    match modes.is_ansi {
        false => KeyCode::new(&[ESC, letter], modifiers.control),
        true if letter < b'P' => KeyCode::new(&[ESC, b'[', letter], modifiers.control),
        true => KeyCode::new(&[ESC, b'O', letter], modifiers.control),
    }
}

/// Returns the bytes of a keypad key in alternate keypad mode, which are always sent to the serial
/// line.
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
        // Delete Character is an exception: other letters from P on have the prefix `O`.
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
