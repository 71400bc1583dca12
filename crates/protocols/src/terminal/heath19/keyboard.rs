//! The keyboard: which bytes a key makes in each mode.
//!
//! Heath mode sends ESC and a letter. ANSI mode puts `[` between them for letters before P, and
//! `O` for the others. The keypad is shifted if exactly one of shift key and keypad-shifted mode
//! is on, and in the alternate mode its keys that are not shifted send a prefix of their own.
//!
//! CTRL and a function or editing key is performed by the terminal itself: its bytes go to the
//! screen and not to the line.
//!
//! CAPS LOCK, REPEAT, BREAK and OFF LINE make no bytes, and are left to who reads real keys.

/// A key, as its cap says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A key of one code, from 00 to 7F: what it makes alone or with SHIFT.
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
    /// SCROLL: lets a held screen go on, by a line or with SHIFT by 24.
    Scroll,
    /// A digit of the keypad, from 0 to 9; any other number makes nothing.
    Pad(u8),
    /// The point of the keypad.
    PadPoint,
    /// ENTER of the keypad.
    PadEnter,
}

/// The keys that are held down with another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modifiers {
    /// SHIFT.
    pub shift: bool,
    /// CTRL.
    pub control: bool,
}

/// The modes on which the bytes of a key depend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyModes {
    /// ANSI mode, and not Heath mode.
    pub is_ansi: bool,
    /// Insert-character mode: its key ends it.
    pub inserts: bool,
    /// Keypad-shifted mode.
    pub is_keypad_shifted: bool,
    /// Alternate keypad mode.
    pub is_keypad_alternate: bool,
}

/// What a key makes.
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

    /// Returns the bytes: none for what only the terminal itself knows.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Returns whether they go to the screen and not to the line.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        self.is_local
    }
}

const ESC: u8 = 0x1b;
const CR: u8 = b'\r';

impl Key {
    /// Returns what the key makes.
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

/// Makes ESC and a letter, as the mode has them.
fn escape(letter: u8, modifiers: Modifiers, modes: KeyModes) -> KeyCode {
    match modes.is_ansi {
        false => KeyCode::new(&[ESC, letter], modifiers.control),
        true if letter < b'P' => KeyCode::new(&[ESC, b'[', letter], modifiers.control),
        true => KeyCode::new(&[ESC, b'O', letter], modifiers.control),
    }
}

/// Makes what a key of the alternate keypad sends, which is never performed locally.
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
        // As a letter P would get an `O`, but this one is Delete Character.
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
