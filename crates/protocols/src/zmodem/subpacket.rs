//! Escapes and subpackets of data.
//!
//! The end of a subpacket is ZDLE, one of four characters, and the CRC of the data and of that
//! character.

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
    pub(super) fn put(
        self,
        data: &[u8],
        end: Option<u8>,
        escaping: &mut Escaping,
        out: &mut Vec<u8>,
    ) {
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

/// State of the escaping of output.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Escaping {
    /// Whether all control characters are escaped.
    pub(super) escapes_controls: bool,
    /// Whether NUL and CR are escaped, which Telnet without BINARY changes.
    pub(super) escapes_nul_and_cr: bool,
    last: u8,
}

impl Escaping {
    /// Returns whether `byte` is escaped after the byte that was escaped last.
    fn is_needed(self, byte: u8) -> bool {
        match byte & 0x7f {
            // DLE and flow control, with and without parity.
            0x10 | 0x11 | 0x13 => true,
            _ if byte == ZDLE => true,
            0 | b'\r' if self.escapes_nul_and_cr => true,
            // CR after @: a Telenet network would switch to its command mode.
            b'\r' => self.escapes_controls || self.last & 0x7f == b'@',
            0..=0x1f => self.escapes_controls,
            _ => false,
        }
    }
}

/// Appends bytes with their escapes.
pub(super) fn put_escaped(bytes: &[u8], escaping: &mut Escaping, out: &mut Vec<u8>) {
    for &byte in bytes {
        if escaping.is_needed(byte) {
            out.extend_from_slice(&[ZDLE, byte ^ 0x40]);
        } else {
            out.push(byte);
        }
        escaping.last = byte;
    }
}

/// Appends a subpacket.
pub(super) fn put_subpacket(
    data: &[u8],
    end: SubpacketEnd,
    check: Check,
    escaping: &mut Escaping,
    out: &mut Vec<u8>,
) {
    put_escaped(data, escaping, out);
    out.extend_from_slice(&[ZDLE, end.code()]);
    escaping.last = end.code();
    check.put(data, Some(end.code()), escaping, out);
    if end == SubpacketEnd::Zcrcw {
        out.push(0x11);
    }
}
