//! Incremental parser of headers and subpackets.

use super::ZDLE;
use super::header::{Header, ZBIN, ZBIN32, ZHEX, ZPAD};
use super::subpacket::{Check, SubpacketEnd};
use crate::modem::{CAN, CANCEL_COUNT, UnitParser, crc16_of};
use alloc::vec::Vec;

/// Maximum length of the data of a subpacket. The protocol reference allows 1024 bytes; lrzsz sends
/// up to 8192.
const SUBPACKET_MAX_LEN: usize = 8192;

/// Type byte and four bytes of a header.
const HEADER_LEN: usize = 5;

/// Unit of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A valid header.
    Header(Header),
    /// A valid subpacket; its data is in the parser.
    Subpacket(SubpacketEnd),
    /// A header with an error.
    DamagedHeader,
    /// A subpacket with an error, or one that is too long.
    DamagedSubpacket,
    /// The peer cancels the transfer.
    Cancelled,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Skips input up to ZPAD.
    #[default]
    Hunting,
    /// After ZPAD.
    Padding,
    /// After ZPAD ZDLE.
    Format,
    /// In a header in hexadecimal digits; the high digit of the next byte, if it has arrived.
    Hex(Option<u8>),
    /// In a binary header.
    Binary,
    /// In the data of a subpacket.
    Data,
    /// In the check after the data of a subpacket.
    DataCheck(SubpacketEnd),
}

/// Parser of the peer's output.
#[derive(Clone, Debug, Default)]
pub(super) struct Parser {
    state: State,
    /// Whether subpackets have a CRC of 32 bits, as the header before them.
    has_crc32: bool,
    /// Header bytes, or data of a subpacket.
    buffer: Vec<u8>,
    received_check: Vec<u8>,
    /// Whether the last byte was the ZDLE of an escape.
    is_escaped: bool,
    /// Whether the line end of a header in hexadecimal digits may precede the data.
    may_have_line_end: bool,
    cans: u8,
}

impl UnitParser for Parser {
    type Unit = Parsed;

    fn is_in_unit(&self) -> bool {
        matches!(self.state, State::Binary | State::Data | State::DataCheck(_))
    }

    fn is_valid(unit: &Parsed) -> bool {
        matches!(unit, Parsed::Header(_) | Parsed::Subpacket(_))
    }
}

impl Parser {
    /// Expects a subpacket instead of a header.
    pub(super) fn expect_subpacket(&mut self) {
        self.state = State::Data;
        self.buffer.clear();
        self.is_escaped = false;
    }

    /// Discards an incomplete frame, and expects a header.
    pub(super) fn expect_header(&mut self) {
        self.state = State::Hunting;
    }

    /// Returns the data of the last subpacket.
    pub(super) fn data(&self) -> &[u8] {
        &self.buffer
    }

    /// Returns whether the next byte may belong to a header.
    pub(super) fn is_hunting(&self) -> bool {
        self.state == State::Hunting
    }

    /// Processes one byte.
    pub(super) fn push(&mut self, byte: u8) -> Option<Parsed> {
        self.cans = if byte == CAN { self.cans.saturating_add(1) } else { 0 };
        if self.cans >= CANCEL_COUNT {
            self.expect_header();
            return Some(Parsed::Cancelled);
        }
        match self.state {
            State::Hunting if byte == ZPAD => self.state = State::Padding,
            State::Hunting => {}
            State::Padding => match byte {
                ZPAD => {}
                ZDLE => self.state = State::Format,
                _ => self.state = State::Hunting,
            },
            State::Format => self.begin_header(byte),
            State::Hex(high) => return self.push_hex(high, byte),
            State::Binary | State::Data | State::DataCheck(_) => return self.push_binary(byte),
        }
        None
    }

    fn begin_header(&mut self, format: u8) {
        self.buffer.clear();
        self.is_escaped = false;
        self.has_crc32 = format == ZBIN32;
        self.may_have_line_end = format == ZHEX;
        self.state = match format {
            ZHEX => State::Hex(None),
            ZBIN | ZBIN32 => State::Binary,
            ZPAD => State::Padding,
            _ => State::Hunting,
        };
    }

    fn push_hex(&mut self, high: Option<u8>, byte: u8) -> Option<Parsed> {
        // Some lines add parity to text.
        let digit = char::from(byte & 0x7f).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let Some(digit) = digit else {
            self.state = State::Hunting;
            return Some(Parsed::DamagedHeader);
        };
        let Some(high) = high else {
            self.state = State::Hex(Some(digit));
            return None;
        };
        self.buffer.push(high << 4 | digit);
        self.state = State::Hex(None);
        if self.buffer.len() < HEADER_LEN + 2 {
            return None;
        }
        self.state = State::Hunting;
        let (bytes, received) = self.buffer.split_at_checked(HEADER_LEN)?;
        let header = Header::parse(bytes).filter(|_| received == crc16_of(bytes).to_be_bytes());
        Some(header.map_or(Parsed::DamagedHeader, Parsed::Header))
    }

    const fn check(&self) -> Check {
        if self.has_crc32 { Check::Crc32 } else { Check::Crc16 }
    }

    /// Processes a byte of a binary header, of data or of a check.
    fn push_binary(&mut self, byte: u8) -> Option<Parsed> {
        match byte {
            ZDLE => {
                self.is_escaped = true;
                None
            }
            // Flow control is not part of the data.
            0x11 | 0x13 | 0x91 | 0x93 => None,
            b'\r' | b'\n' | 0x8d | 0x8a if self.may_have_line_end && self.buffer.is_empty() => None,
            _ if core::mem::take(&mut self.is_escaped) => match (self.state, byte) {
                (State::Data, b'h'..=b'k') => {
                    let end = SubpacketEnd::from_code(byte)?;
                    self.received_check.clear();
                    self.state = State::DataCheck(end);
                    None
                }
                (_, b'l') => self.push_unescaped(0x7f),
                (_, b'm') => self.push_unescaped(0xff),
                _ if byte & 0x60 == 0x40 => self.push_unescaped(byte ^ 0x40),
                _ => self.damaged(),
            },
            _ => self.push_unescaped(byte),
        }
    }

    fn damaged(&mut self) -> Option<Parsed> {
        let was_header = self.state == State::Binary;
        self.state = State::Hunting;
        Some(if was_header { Parsed::DamagedHeader } else { Parsed::DamagedSubpacket })
    }

    fn push_unescaped(&mut self, byte: u8) -> Option<Parsed> {
        let check = self.check();
        match self.state {
            State::Binary => {
                self.buffer.push(byte);
                if self.buffer.len() < HEADER_LEN + check.len() {
                    return None;
                }
                self.state = State::Hunting;
                let (bytes, received) = self.buffer.split_at_checked(HEADER_LEN)?;
                let is_valid = check.is_valid(bytes, None, received);
                let header = Header::parse(bytes).filter(|_| is_valid);
                Some(header.map_or(Parsed::DamagedHeader, Parsed::Header))
            }
            State::Data if self.buffer.len() < SUBPACKET_MAX_LEN => {
                self.buffer.push(byte);
                None
            }
            State::Data => self.damaged(),
            State::DataCheck(end) => {
                self.received_check.push(byte);
                if self.received_check.len() < check.len() {
                    return None;
                }
                if !check.is_valid(&self.buffer, Some(end.code()), &self.received_check) {
                    return self.damaged();
                }
                self.state = State::Hunting;
                Some(Parsed::Subpacket(end))
            }
            State::Hunting | State::Padding | State::Format | State::Hex(_) => None,
        }
    }
}
