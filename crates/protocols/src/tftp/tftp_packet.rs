//! Packets other than the request: DATA, ACK, ERROR and OACK (RFC 1350 §5, RFC 2347).

use super::options::Options;
use alloc::vec::Vec;

/// Length of a DATA header, and of a whole ACK, in bytes.
pub const HEADER_LEN: usize = 4;

pub(super) const OP_READ: u16 = 1;
pub(super) const OP_WRITE: u16 = 2;
const OP_DATA: u16 = 3;
const OP_ACK: u16 = 4;
const OP_ERROR: u16 = 5;
const OP_OPTION_ACK: u16 = 6;

/// Code of an ERROR packet (RFC 1350, appendix; code 8 from RFC 2347).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// 0: not defined; the text gives the reason.
    NotDefined,
    /// 1: the file does not exist.
    FileNotFound,
    /// 2: access is denied.
    AccessViolation,
    /// 3: the disk is full, or the allocation is exceeded.
    DiskFull,
    /// 4: the packet is not allowed now.
    IllegalOperation,
    /// 5: the port belongs to no transfer.
    UnknownTransferId,
    /// 6: the file already exists.
    FileExists,
    /// 7: the user does not exist.
    NoSuchUser,
    /// 8: the peer's answer has options that were not requested.
    OptionsRefused,
    /// A code that no RFC defines.
    Other(u16),
}

impl ErrorCode {
    const fn from_wire(code: u16) -> Self {
        match code {
            0 => Self::NotDefined,
            1 => Self::FileNotFound,
            2 => Self::AccessViolation,
            3 => Self::DiskFull,
            4 => Self::IllegalOperation,
            5 => Self::UnknownTransferId,
            6 => Self::FileExists,
            7 => Self::NoSuchUser,
            8 => Self::OptionsRefused,
            other => Self::Other(other),
        }
    }

    /// Returns the code on the wire.
    #[must_use]
    pub const fn to_wire(self) -> u16 {
        match self {
            Self::NotDefined => 0,
            Self::FileNotFound => 1,
            Self::AccessViolation => 2,
            Self::DiskFull => 3,
            Self::IllegalOperation => 4,
            Self::UnknownTransferId => 5,
            Self::FileExists => 6,
            Self::NoSuchUser => 7,
            Self::OptionsRefused => 8,
            Self::Other(code) => code,
        }
    }
}

/// An ERROR that the local end sends: a code and a message for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Error code.
    pub code: ErrorCode,
    /// Message in ASCII.
    pub text: &'static str,
}

impl Fault {
    /// Returns the ERROR packet.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut packet = Vec::with_capacity(HEADER_LEN + self.text.len() + 1);
        packet.extend_from_slice(&OP_ERROR.to_be_bytes());
        packet.extend_from_slice(&self.code.to_wire().to_be_bytes());
        packet.extend_from_slice(self.text.as_bytes());
        packet.push(0);
        packet
    }
}

/// Any packet but a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    Data { block: u16, data: &'a [u8] },
    Ack(u16),
    Error { code: ErrorCode, text: &'a [u8] },
    OptionAck(Options),
}

impl<'a> Packet<'a> {
    /// Parses a datagram. Returns `None` for a request, an unknown packet or a truncated packet.
    pub(super) fn parse(datagram: &'a [u8]) -> Option<Self> {
        let (op, rest) = take_u16(datagram)?;
        if op == OP_OPTION_ACK {
            return Options::parse(rest).map(Self::OptionAck).ok();
        }
        let (number, data) = take_u16(rest)?;
        match op {
            OP_DATA => Some(Self::Data { block: number, data }),
            OP_ACK => Some(Self::Ack(number)),
            OP_ERROR => {
                let text = data.split(|&byte| byte == 0).next().unwrap_or_default();
                Some(Self::Error { code: ErrorCode::from_wire(number), text })
            }
            _ => None,
        }
    }
}

/// Splits a big-endian 16-bit number off the front.
pub(super) fn take_u16(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u16::from_be_bytes(*number), rest))
}

/// Appends the header of a DATA packet.
pub(super) fn put_data_header(out: &mut Vec<u8>, block: u16) {
    out.extend_from_slice(&OP_DATA.to_be_bytes());
    out.extend_from_slice(&block.to_be_bytes());
}

/// Returns an ACK packet.
pub(super) fn ack(block: u16) -> [u8; HEADER_LEN] {
    let [a, b] = OP_ACK.to_be_bytes();
    let [c, d] = block.to_be_bytes();
    [a, b, c, d]
}

/// Returns an OACK packet.
pub(super) fn option_ack(options: &Options) -> Vec<u8> {
    let mut packet = OP_OPTION_ACK.to_be_bytes().to_vec();
    options.emit(&mut packet);
    packet
}
