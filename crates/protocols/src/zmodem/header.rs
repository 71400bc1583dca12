//! Headers: a type and four bytes that are a position or flags.

use super::ZDLE;
use super::subpacket::{Check, Escaping, put_escaped};
use crate::modem::crc16_of;
use alloc::vec::Vec;

pub(super) const ZPAD: u8 = b'*';
/// Format of a binary header with a CRC of 16 bits.
pub(super) const ZBIN: u8 = b'A';
/// Format of a header in hexadecimal digits.
pub(super) const ZHEX: u8 = b'B';
/// Format of a binary header with a CRC of 32 bits.
pub(super) const ZBIN32: u8 = b'C';

const XON: u8 = 0x11;
const LF_WITH_PARITY: u8 = 0x8a;
/// ^U, which erases a line in a terminal driver or a line editor.
const ERASE_LINE: u8 = 0x15;

/// Type of a header, with the names of the protocol reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameType {
    /// The sender requests ZRINIT.
    Zrqinit,
    /// The receiver is ready for a file, and lists its capabilities.
    Zrinit,
    /// Attention sequence and requirements of the sender.
    Zsinit,
    /// Acknowledgment of data up to a position.
    Zack,
    /// The sender offers a file.
    Zfile,
    /// The receiver does not want the file.
    Zskip,
    /// The last header was damaged.
    Znak,
    /// The batch is aborted.
    Zabort,
    /// The session ends.
    Zfin,
    /// The receiver requests data from a position.
    Zrpos,
    /// Data from a position follows.
    Zdata,
    /// The file ends at a position.
    Zeof,
    /// The peer cannot read or write the file.
    Zferr,
    /// Request for the CRC of the file, and its answer.
    Zcrc,
    /// Request to return a number.
    Zchallenge,
    /// The command is complete.
    Zcompl,
    /// The peer was cancelled.
    Zcan,
    /// Request for the free disk space.
    Zfreecnt,
    /// Command for the receiver.
    Zcommand,
    /// Data for the standard error output.
    Zstderr,
}

/// All types in the order of their codes.
const FRAME_TYPES: [FrameType; 20] = [
    FrameType::Zrqinit,
    FrameType::Zrinit,
    FrameType::Zsinit,
    FrameType::Zack,
    FrameType::Zfile,
    FrameType::Zskip,
    FrameType::Znak,
    FrameType::Zabort,
    FrameType::Zfin,
    FrameType::Zrpos,
    FrameType::Zdata,
    FrameType::Zeof,
    FrameType::Zferr,
    FrameType::Zcrc,
    FrameType::Zchallenge,
    FrameType::Zcompl,
    FrameType::Zcan,
    FrameType::Zfreecnt,
    FrameType::Zcommand,
    FrameType::Zstderr,
];

impl FrameType {
    fn from_code(code: u8) -> Option<Self> {
        FRAME_TYPES.get(usize::from(code)).copied()
    }

    fn code(self) -> u8 {
        let index = FRAME_TYPES.iter().position(|frame_type| *frame_type == self);
        index.and_then(|index| u8::try_from(index).ok()).unwrap_or(u8::MAX)
    }
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) frame_type: FrameType,
    /// The four bytes as a position.
    pub(super) position: u32,
}

/// Flags of ZRINIT in its last byte (ZF0).
const CAN_FULL_DUPLEX: u8 = 0x01;
const CAN_OVERLAP_IO: u8 = 0x02;
const CAN_CRC32: u8 = 0x20;
const ESCAPE_CONTROLS: u8 = 0x40;

/// Flag of ZFILE in its last byte (ZF0): transfer without conversion.
const ZCBIN: u8 = 1;

/// Capabilities of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Capabilities {
    pub(super) is_full_duplex: bool,
    pub(super) overlaps_io: bool,
    pub(super) has_crc32: bool,
    pub(super) escapes_controls: bool,
    /// Length of the receive buffer in bytes; 0 is unlimited.
    pub(super) buffer_len: u16,
}

impl Header {
    pub(super) const fn new(frame_type: FrameType, position: u32) -> Self {
        Self { frame_type, position }
    }

    const fn with_flags(frame_type: FrameType, flags: [u8; 4]) -> Self {
        Self::new(frame_type, u32::from_le_bytes(flags))
    }

    /// Creates a ZRINIT.
    pub(super) fn zrinit(capabilities: Capabilities) -> Self {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(capabilities.is_full_duplex, CAN_FULL_DUPLEX)
            | flag(capabilities.overlaps_io, CAN_OVERLAP_IO)
            | flag(capabilities.has_crc32, CAN_CRC32)
            | flag(capabilities.escapes_controls, ESCAPE_CONTROLS);
        let [low, high] = capabilities.buffer_len.to_le_bytes();
        Self::with_flags(FrameType::Zrinit, [low, high, 0, flags])
    }

    /// Creates a ZFILE of a file that is transferred without conversion.
    pub(super) const fn zfile() -> Self {
        Self::with_flags(FrameType::Zfile, [0, 0, 0, ZCBIN])
    }

    /// Returns the capabilities in a ZRINIT.
    pub(super) const fn capabilities(self) -> Capabilities {
        let [low, high, _, flags] = self.position.to_le_bytes();
        Capabilities {
            is_full_duplex: flags & CAN_FULL_DUPLEX != 0,
            overlaps_io: flags & CAN_OVERLAP_IO != 0,
            has_crc32: flags & CAN_CRC32 != 0,
            escapes_controls: flags & ESCAPE_CONTROLS != 0,
            buffer_len: u16::from_le_bytes([low, high]),
        }
    }

    fn bytes(self) -> [u8; 5] {
        let [p0, p1, p2, p3] = self.position.to_le_bytes();
        [self.frame_type.code(), p0, p1, p2, p3]
    }

    /// Parses the type and the four bytes; `None` if the type is unknown.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let &[code, p0, p1, p2, p3] = bytes else { return None };
        let position = u32::from_le_bytes([p0, p1, p2, p3]);
        Some(Self::new(FrameType::from_code(code)?, position))
    }

    /// Appends the header in hexadecimal digits, with its line end.
    pub(super) fn put_hex(self, out: &mut Vec<u8>) {
        self.put_hex_digits(out);
        out.extend_from_slice(&[b'\r', LF_WITH_PARITY]);
        // XON releases a sender that noise has stopped. After these two, the peer sends nothing.
        if !matches!(self.frame_type, FrameType::Zfin | FrameType::Zack) {
            out.push(XON);
        }
    }

    /// Appends the header in hexadecimal digits, and the character that erases it from the command
    /// line of a shell. A sender skips that character.
    pub(super) fn put_erased_hex(self, out: &mut Vec<u8>) {
        self.put_hex_digits(out);
        out.push(ERASE_LINE);
    }

    fn put_hex_digits(self, out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
        out.extend_from_slice(&[ZPAD, ZPAD, ZDLE, ZHEX]);
        let bytes = self.bytes();
        for byte in bytes.into_iter().chain(crc16_of(&bytes).to_be_bytes()) {
            out.extend_from_slice(&[digit(byte >> 4), digit(byte & 0x0f)]);
        }
    }

    /// Appends the header in binary.
    pub(super) fn put_binary(self, check: Check, escaping: Escaping, out: &mut Vec<u8>) {
        out.extend_from_slice(&[ZPAD, ZDLE, if check == Check::Crc32 { ZBIN32 } else { ZBIN }]);
        let bytes = self.bytes();
        put_escaped(&bytes, escaping, out);
        check.put(&bytes, None, escaping, out);
    }
}
