//! ATASCII: the character set of the Atari 8-bit computers. The high bit selects inverse video, the
//! control characters have glyphs, and 0x9b ends a line. ESC displays the next control character as
//! a glyph.

use super::character_table::{find, put};
use super::special_key::SpecialKey;
use alloc::vec::Vec;

/// Glyphs of 0x00 to 0x1a.
const GLYPHS: &str = "♥├🮇┘┤┐╱╲◢▗◣▝▘🮂▂▖♣┌─┼●▄▎┬┴▌└";
/// Glyphs of the controls 0x1b to 0x1f after ESC.
const CONTROL_GLYPHS: &str = "␛↑↓←→";

const ESC: u8 = 0x1b;
const END_OF_LINE: u8 = 0x9b;

/// State of the screen.
#[derive(Clone, Debug, Default)]
pub(super) struct Screen {
    is_inverse: bool,
    is_escaped: bool,
}

impl Screen {
    pub(super) fn decode(&mut self, byte: u8, text: &mut Vec<u8>) {
        if core::mem::take(&mut self.is_escaped) && byte != END_OF_LINE {
            let glyph = escaped(byte & 0x7f).or_else(|| character(byte & 0x7f));
            if let Some(glyph) = glyph {
                self.show(glyph, byte >= 0x80, text);
            }
            return;
        }
        let sequence: &[u8] = match byte {
            ESC => {
                self.is_escaped = true;
                return;
            }
            0x1c => b"\x1b[A",
            0x1d => b"\x1b[B",
            0x1e => b"\x1b[D",
            0x1f => b"\x1b[C",
            0x7d => b"\x1b[H\x1b[2J",
            0x7e => b"\x08 \x08",
            0x7f => b"\t",
            END_OF_LINE => b"\r\n",
            0x9c => b"\x1b[M",
            0x9d => b"\x1b[L",
            0x9e => b"\x1b[g",
            0x9f => b"\x1bH",
            0xfd => b"\x07",
            0xfe => b"\x1b[P",
            0xff => b"\x1b[@",
            _ => {
                if let Some(glyph) = character(byte & 0x7f) {
                    self.show(glyph, byte >= 0x80, text);
                }
                return;
            }
        };
        self.set_inverse(false, text);
        text.extend_from_slice(sequence);
    }

    fn show(&mut self, glyph: char, is_inverse: bool, text: &mut Vec<u8>) {
        self.set_inverse(is_inverse, text);
        put(glyph, text);
    }

    fn set_inverse(&mut self, is_inverse: bool, text: &mut Vec<u8>) {
        if self.is_inverse != is_inverse {
            self.is_inverse = is_inverse;
            text.extend_from_slice(if is_inverse { b"\x1b[7m" } else { b"\x1b[27m" });
        }
    }
}

/// Returns the character of a byte below 0x80 that is not a control.
pub(super) fn character(byte: u8) -> Option<char> {
    match byte {
        0x00..=0x1a => GLYPHS.chars().nth(usize::from(byte)),
        0x60 => Some('♦'),
        0x7b => Some('♠'),
        b' '..=0x7c => Some(char::from(byte)),
        _ => None,
    }
}

/// Returns the glyph of a control character after ESC.
fn escaped(byte: u8) -> Option<char> {
    match byte {
        0x1b..=0x1f => CONTROL_GLYPHS.chars().nth(usize::from(byte - 0x1b)),
        0x7d => Some('↰'),
        0x7e => Some('◀'),
        0x7f => Some('▶'),
        _ => None,
    }
}

/// Returns the byte for a character. ASCII control characters are unchanged.
pub(super) fn byte(character: char) -> Option<u8> {
    match character {
        '♦' => Some(0x60),
        '♠' => Some(0x7b),
        '`' | '{' | '}' | '~' => None,
        _ if character.is_ascii() => u8::try_from(u32::from(character)).ok(),
        _ => find(character, GLYPHS, 0),
    }
}

/// Returns the code of a key.
pub(super) fn key(key: SpecialKey) -> u8 {
    match key {
        SpecialKey::Up => 0x1c,
        SpecialKey::Down => 0x1d,
        SpecialKey::Left => 0x1e,
        SpecialKey::Right => 0x1f,
        SpecialKey::Home => 0x7d,
        SpecialKey::Return => END_OF_LINE,
        SpecialKey::Rubout => 0x7e,
        SpecialKey::Tab => 0x7f,
    }
}
