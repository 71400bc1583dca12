//! Escapes and subpackets of data.
//!
//! The end of a subpacket is ZDLE, one of four characters, and the CRC of the data and of that
//! character.
//!
//! The protocol reference requires escapes for ZDLE and the characters of flow control, and permits
//! them for every control character (section 7.2). This sender escapes all control characters, 0x01 to
//! 0x1f and 0x81 to 0x9f, in data, headers and checks. If the receiver is killed, a shell reads the data
//! in flight. The terminal driver and the line editor of a shell act on control characters: CR, LF and
//! ^O execute a line, ^C, ^D, ^Z and ^\ end or stop a program, and TAB and ESC start commands of the
//! editor. Terminals that strip the eighth bit, and editors that read it as the meta key, act on the
//! second range. NUL and 0x80 have no effect there and are frequent in binary files; they are escaped if
//! the receiver or Telnet without BINARY requires it.
//!
//! The escapes add 24% to random bytes, of which the characters that the reference requires are 3%, and
//! 2% to 5% to text.

use super::ZDLE;
use crate::modem::{Crc32, crc16, crc16_of};
use alloc::vec::Vec;

/// Error check of binary headers and subpackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    Crc16,
    Crc32,
}

impl Check {
    /// Length of the check in bytes.
    pub(super) const fn len(self) -> usize {
        match self {
            Self::Crc16 => 2,
            Self::Crc32 => 4,
        }
    }

    /// Returns the check of `data` and the character after it, as it is transmitted.
    fn value(self, data: &[u8], end: Option<u8>) -> ([u8; 4], usize) {
        let end = end.as_slice();
        match self {
            Self::Crc16 => {
                let [high, low] = crc16(crc16_of(data), end).to_be_bytes();
                ([high, low, 0, 0], self.len())
            }
            Self::Crc32 => {
                let mut crc = Crc32::default();
                crc.update(data);
                crc.update(end);
                (crc.value().to_le_bytes(), self.len())
            }
        }
    }

    /// Returns whether `received` is the check of `data` and the character after it.
    pub(super) fn is_valid(self, data: &[u8], end: Option<u8>, received: &[u8]) -> bool {
        let (value, len) = self.value(data, end);
        value.get(..len) == Some(received)
    }

    /// Appends the check of `data` and the character after it.
    pub(super) fn put(self, data: &[u8], end: Option<u8>, escaping: Escaping, out: &mut Vec<u8>) {
        let (value, len) = self.value(data, end);
        put_escaped(value.get(..len).unwrap_or_default(), escaping, out);
    }
}

/// End of a subpacket, with the names of the protocol reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubpacketEnd {
    /// The frame ends; a header follows.
    Zcrce,
    /// Another subpacket follows.
    Zcrcg,
    /// Another subpacket follows; the receiver sends ZACK.
    Zcrcq,
    /// The frame ends; the receiver sends ZACK, and the sender waits for it.
    Zcrcw,
}

impl SubpacketEnd {
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Zcrce => b'h',
            Self::Zcrcg => b'i',
            Self::Zcrcq => b'j',
            Self::Zcrcw => b'k',
        }
    }

    pub(super) const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            b'h' => Self::Zcrce,
            b'i' => Self::Zcrcg,
            b'j' => Self::Zcrcq,
            b'k' => Self::Zcrcw,
            _ => return None,
        })
    }

    /// Returns whether the frame ends.
    pub(super) const fn ends_frame(self) -> bool {
        matches!(self, Self::Zcrce | Self::Zcrcw)
    }
}

/// Rules of the escaping of output.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Escaping {
    /// Whether the receiver requires that NUL is also escaped, with and without parity.
    pub(super) escapes_all_controls: bool,
    /// Whether Telnet without BINARY carries the output, which changes NUL.
    pub(super) is_nvt: bool,
}

impl Escaping {
    /// Returns whether `byte` is escaped.
    const fn is_needed(self, byte: u8) -> bool {
        match byte {
            0 => self.escapes_all_controls || self.is_nvt,
            0x80 => self.escapes_all_controls,
            _ => byte & 0x60 == 0,
        }
    }
}

/// Appends bytes with their escapes.
pub(super) fn put_escaped(bytes: &[u8], escaping: Escaping, out: &mut Vec<u8>) {
    for &byte in bytes {
        if escaping.is_needed(byte) {
            out.extend_from_slice(&[ZDLE, byte ^ 0x40]);
        } else {
            out.push(byte);
        }
    }
}

/// Appends a subpacket.
pub(super) fn put_subpacket(
    data: &[u8],
    end: SubpacketEnd,
    check: Check,
    escaping: Escaping,
    out: &mut Vec<u8>,
) {
    put_escaped(data, escaping, out);
    out.extend_from_slice(&[ZDLE, end.code()]);
    check.put(data, Some(end.code()), escaping, out);
    if end == SubpacketEnd::Zcrcw {
        out.push(0x11);
    }
}
