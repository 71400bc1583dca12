//! Character sets of remote hosts that do not use UTF-8, converted in both directions by tables.
//!
//! Few hosts support the negotiation of a character set (RFC 2066), so the user specifies it.
//! Received bytes are converted to UTF-8 with the control sequences of a modern terminal; typed
//! text is converted to the bytes of the remote host. A character that the remote set lacks becomes
//! `?`.
//!
//! Latin-1 is ISO 8859-1; its control characters are unchanged. CP437 is the set of the IBM PC; its
//! lower control characters are glyphs, except for those that bulletin boards use as controls.
//! PETSCII is the set of Commodore computers and ATASCII that of Atari computers: both move the
//! cursor and set colors or inverse video with codes of their own (`petscii`, `atascii`).

mod atascii;
mod character_table;
mod cp437;
mod petscii;
mod special_key;
#[cfg(test)]
mod tests;

use character_table::put;
use special_key::SpecialKey;

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// Character set of a remote host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8.
    #[default]
    Utf8,
    /// ISO 8859-1.
    Latin1,
    /// CP437 of the IBM PC, as used by bulletin boards.
    Cp437,
    /// PETSCII of the Commodore 64.
    Petscii,
    /// ATASCII of the Atari 8-bit computers.
    Atascii,
}

impl Encoding {
    /// All character sets, each with its name in arguments and settings.
    pub const NAMED: [(&str, Self); 5] = [
        ("utf-8", Self::Utf8),
        ("latin1", Self::Latin1),
        ("cp437", Self::Cp437),
        ("petscii", Self::Petscii),
        ("atascii", Self::Atascii),
    ];

    /// Returns the character set with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|(known, _)| *known == name).map(|(_, encoding)| encoding)
    }

    /// Returns the names of this character set for Telnet CHARSET; empty if it has none.
    #[must_use]
    pub fn charsets(self) -> Vec<String> {
        let names: &[&str] = match self {
            Self::Utf8 => &["UTF-8", "US-ASCII"],
            Self::Latin1 => &["ISO-8859-1", "US-ASCII"],
            Self::Cp437 => &["IBM437", "CP437"],
            Self::Petscii | Self::Atascii => &[],
        };
        names.iter().map(|name| (*name).to_owned()).collect()
    }
}

/// Converts received bytes to UTF-8.
#[derive(Clone, Debug)]
pub struct Decoder {
    encoding: Encoding,
    petscii: petscii::Screen,
    atascii: atascii::Screen,
}

impl Decoder {
    /// Creates a decoder for a new session.
    #[must_use]
    pub fn new(encoding: Encoding) -> Self {
        Self { encoding, petscii: Default::default(), atascii: Default::default() }
    }

    /// Returns whether the bytes are UTF-8 already.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.encoding == Encoding::Utf8
    }

    /// Appends the converted `bytes` to `text`.
    pub fn decode(&mut self, bytes: &[u8], text: &mut Vec<u8>) {
        for &byte in bytes {
            match self.encoding {
                Encoding::Utf8 => text.push(byte),
                Encoding::Latin1 => put(char::from(byte), text),
                Encoding::Cp437 => put(cp437::character(byte), text),
                Encoding::Petscii => self.petscii.decode(byte, text),
                Encoding::Atascii => self.atascii.decode(byte, text),
            }
        }
    }
}

/// Converts typed text to the bytes of the remote host.
#[derive(Clone, Debug)]
pub struct Encoder {
    encoding: Encoding,
    /// An incomplete character or key sequence.
    pending: Vec<u8>,
    has_cr: bool,
}

impl Encoder {
    /// Creates an encoder for a new session.
    #[must_use]
    pub fn new(encoding: Encoding) -> Self {
        Self { encoding, pending: Vec::new(), has_cr: false }
    }

    /// Returns whether UTF-8 is sent unchanged.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.encoding == Encoding::Utf8
    }

    /// Appends the bytes for `text` to `bytes`. Invalid UTF-8 is sent unchanged.
    pub fn encode(&mut self, text: &[u8], bytes: &mut Vec<u8>) {
        if self.is_plain() {
            return bytes.extend_from_slice(text);
        }
        let mut joined = core::mem::take(&mut self.pending);
        joined.extend_from_slice(text);
        let mut rest = joined.as_slice();
        while !rest.is_empty() {
            if let Some((key, length)) = self.key(rest) {
                self.put_key(key, bytes);
                rest = rest.get(length..).unwrap_or_default();
                continue;
            }
            self.has_cr = false;
            match first_character(rest) {
                FirstElement::Character(character) => {
                    self.put_character(character, bytes);
                    rest = rest.get(character.len_utf8()..).unwrap_or_default();
                }
                FirstElement::Incomplete => {
                    self.pending = rest.to_vec();
                    return;
                }
                FirstElement::Invalid(byte) => {
                    bytes.push(byte);
                    rest = rest.get(1..).unwrap_or_default();
                }
            }
        }
    }

    /// Returns the key at the start of `text` and its length, if the character set has its own code
    /// for the key.
    fn key(&self, text: &[u8]) -> Option<(SpecialKey, usize)> {
        if matches!(self.encoding, Encoding::Latin1 | Encoding::Cp437 | Encoding::Utf8) {
            return None;
        }
        Some(match text {
            [0x1b, b'[' | b'O', b'A', ..] => (SpecialKey::Up, 3),
            [0x1b, b'[' | b'O', b'B', ..] => (SpecialKey::Down, 3),
            [0x1b, b'[' | b'O', b'C', ..] => (SpecialKey::Right, 3),
            [0x1b, b'[' | b'O', b'D', ..] => (SpecialKey::Left, 3),
            [0x1b, b'[' | b'O', b'H', ..] => (SpecialKey::Home, 3),
            [b'\r', b'\n', ..] => (SpecialKey::Return, 2),
            [b'\r' | b'\n', ..] => (SpecialKey::Return, 1),
            [0x08 | 0x7f, ..] => (SpecialKey::Rubout, 1),
            [b'\t', ..] => (SpecialKey::Tab, 1),
            _ => return None,
        })
    }

    fn put_key(&mut self, key: SpecialKey, bytes: &mut Vec<u8>) {
        let code = match self.encoding {
            Encoding::Petscii => petscii::key(key),
            _ => atascii::key(key),
        };
        // The CR and the LF of a line end may be passed in different calls.
        let is_lf_after_cr =
            key == SpecialKey::Return && core::mem::replace(&mut self.has_cr, false);
        if !is_lf_after_cr {
            bytes.push(code);
        }
    }

    fn put_character(&self, character: char, bytes: &mut Vec<u8>) {
        let byte = match self.encoding {
            Encoding::Utf8 | Encoding::Latin1 => u8::try_from(u32::from(character)).ok(),
            Encoding::Cp437 => cp437::byte(character),
            Encoding::Petscii => petscii::byte(character),
            Encoding::Atascii => atascii::byte(character),
        };
        bytes.push(byte.unwrap_or(b'?'));
    }
}

/// First element of a text.
enum FirstElement {
    Character(char),
    /// An incomplete character.
    Incomplete,
    /// A byte that is not valid UTF-8.
    Invalid(u8),
}

fn first_character(text: &[u8]) -> FirstElement {
    let first_bytes = text.get(..4).unwrap_or(text);
    let valid = match core::str::from_utf8(first_bytes) {
        Ok(valid) => valid,
        Err(error) if error.valid_up_to() > 0 => {
            let valid = first_bytes.get(..error.valid_up_to()).unwrap_or_default();
            core::str::from_utf8(valid).unwrap_or_default()
        }
        Err(error) if error.error_len().is_none() => return FirstElement::Incomplete,
        Err(_) => "",
    };
    match (valid.chars().next(), text.first()) {
        (Some(character), _) => FirstElement::Character(character),
        (None, Some(byte)) => FirstElement::Invalid(*byte),
        (None, None) => FirstElement::Incomplete,
    }
}
