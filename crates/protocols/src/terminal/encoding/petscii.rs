//! PETSCII, the character encoding of the Commodore 64. It has two character sets, and one of them
//! is active at a time. The first set has lower case and upper case letters; bulletin boards begin
//! with this set. The second set has upper case letters and graphics.
//!
//! Color codes, reverse video and cursor movements are converted to those of a modern terminal. A
//! return ends reverse video, as on the Commodore 64.

use super::character_table::{find, put};
use super::special_key::SpecialKey;
use alloc::format;
use alloc::vec::Vec;

/// Characters of 0xa0 to 0xbf in the set with graphics. In the other set, two of these characters
/// differ.
const GRAPHICS_A0: &str = "\u{a0}▌▄▔▁▏▒▕🮏◤🮇├▗└┐▂┌┴┬┤▎▍🮈🮂🮃▃🭿▖▝┘▘▚";
/// Characters of 0xc0 to 0xdf in the set with graphics.
const GRAPHICS_C0: &str = "─♠🭲🭸🭷🭶🭺🭱🭴╮╰╯🭼╲╱🭽🭾●🭻♥🭰╭╳○♣🭵♦┼🮌│π◥";

/// Color codes, each with the SGR parameters for a modern terminal.
const COLORS: [(u8, &str); 16] = [
    (0x05, "97"),
    (0x1c, "31"),
    (0x1e, "32"),
    (0x1f, "34"),
    (0x81, "38;5;208"),
    (0x90, "30"),
    (0x95, "38;5;94"),
    (0x96, "91"),
    (0x97, "38;5;238"),
    (0x98, "38;5;244"),
    (0x99, "92"),
    (0x9a, "94"),
    (0x9b, "38;5;250"),
    (0x9c, "35"),
    (0x9e, "93"),
    (0x9f, "36"),
];

/// State of the screen.
#[derive(Clone, Debug, Default)]
pub(super) struct Screen {
    /// Whether the set with upper case letters and graphics is active.
    shows_graphics: bool,
}

impl Screen {
    pub(super) fn decode(&mut self, byte: u8, text: &mut Vec<u8>) {
        if let Some(character) = character(byte, self.shows_graphics) {
            return put(character, text);
        }
        if let Some((_, color)) = COLORS.iter().find(|(code, _)| *code == byte) {
            return text.extend_from_slice(format!("\x1b[{color}m").as_bytes());
        }
        let sequence: &[u8] = match byte {
            0x07 => b"\x07",
            0x0d | 0x8d => b"\x1b[27m\r\n",
            0x0e => {
                self.shows_graphics = false;
                b""
            }
            0x8e => {
                self.shows_graphics = true;
                b""
            }
            0x11 => b"\n",
            0x12 => b"\x1b[7m",
            0x13 => b"\x1b[H",
            0x14 => b"\x08 \x08",
            0x1d => b"\x1b[C",
            0x91 => b"\x1b[A",
            0x92 => b"\x1b[27m",
            0x93 => b"\x1b[H\x1b[2J",
            0x94 => b"\x1b[@",
            0x9d => b"\x08",
            _ => b"",
        };
        text.extend_from_slice(sequence);
    }
}

/// Returns the character of a byte that is not a control.
pub(super) fn character(byte: u8, shows_graphics: bool) -> Option<char> {
    let canonical = match byte {
        0x60..=0x7f => byte + 0x60,
        0xe0..=0xfe => byte - 0x40,
        0xff => 0xde,
        _ => byte,
    };
    let table = |table: &str, first: u8| table.chars().nth(usize::from(canonical - first));
    match canonical {
        0x20..=0x40 | 0x5b | 0x5d => Some(char::from(canonical)),
        0x41..=0x5a if shows_graphics => Some(char::from(canonical)),
        0x41..=0x5a => Some(char::from(canonical).to_ascii_lowercase()),
        0x5c => Some('£'),
        0x5e => Some('↑'),
        0x5f => Some('←'),
        0xc1..=0xda if !shows_graphics => Some(char::from(canonical - 0x80)),
        0xa9 if !shows_graphics => Some('🮙'),
        0xba if !shows_graphics => Some('✓'),
        0xde if !shows_graphics => Some('🮖'),
        0xdf if !shows_graphics => Some('🮘'),
        0xa0..=0xbf => table(GRAPHICS_A0, 0xa0),
        0xc0..=0xdf => table(GRAPHICS_C0, 0xc0),
        _ => None,
    }
}

/// Returns the byte for a character. Letters have the codes that the keyboard of the Commodore 64
/// sends.
pub(super) fn byte(character: char) -> Option<u8> {
    let ascii = u8::try_from(u32::from(character)).ok();
    match (character, ascii) {
        ('a'..='z', Some(ascii)) => Some(ascii - 0x20),
        ('A'..='Z', Some(ascii)) => Some(ascii + 0x80),
        ('£', _) => Some(0x5c),
        ('↑' | '^', _) => Some(0x5e),
        ('←', _) => Some(0x5f),
        ('🮙', _) => Some(0xa9),
        ('✓', _) => Some(0xba),
        ('🮖', _) => Some(0xde),
        ('🮘', _) => Some(0xdf),
        ('_', _) => Some(0xa4),
        ('\\', _) => Some(0xcd),
        ('|', _) => Some(0xdd),
        (' '..='@' | '[' | ']' | '\0'..='\x1f', ascii) => ascii,
        _ => find(character, GRAPHICS_A0, 0xa0).or_else(|| find(character, GRAPHICS_C0, 0xc0)),
    }
}

/// Returns the code of a key.
pub(super) fn key(key: SpecialKey) -> u8 {
    match key {
        SpecialKey::Up => 0x91,
        SpecialKey::Down => 0x11,
        SpecialKey::Right => 0x1d,
        SpecialKey::Left => 0x9d,
        SpecialKey::Home => 0x13,
        SpecialKey::Return => 0x0d,
        SpecialKey::Rubout => 0x14,
        SpecialKey::Tab => b' ',
    }
}
