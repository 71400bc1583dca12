//! One block: its encoding, and the parser of a sender's output.

use super::{LONG_BLOCK_LEN, SHORT_BLOCK_LEN};
use crate::modem::{BACKSPACE, CAN, CANCEL_COUNT as BLOCK_CANCEL_COUNT, UnitParser, crc16_of};
use alloc::vec::Vec;

pub(super) const SOH: u8 = 0x01;
pub(super) const STX: u8 = 0x02;
pub(super) const EOT: u8 = 0x04;
pub(super) const ACK: u8 = 0x06;
pub(super) const NAK: u8 = 0x15;
/// Request for the first block with a CRC.
pub(super) const CRC_REQUEST: u8 = b'C';
/// Padding of the last block.
const SUB: u8 = 0x1a;

/// Number of consecutive CAN characters between blocks that cancel a transfer.
pub(super) const CANCEL_COUNT: u8 = 2;

/// Error check of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Sum of all data bytes modulo 256.
    Sum,
    /// CRC of 16 bits.
    Crc,
}

impl Check {
    /// Appends the check of `data`.
    fn put(self, data: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Sum => out.push(data.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte))),
            Self::Crc => out.extend_from_slice(&crc16_of(data).to_be_bytes()),
        }
    }

    const fn len(self) -> usize {
        match self {
            Self::Sum => 1,
            Self::Crc => 2,
        }
    }
}

/// Appends a block of at most [`LONG_BLOCK_LEN`] bytes, padded with `padding`.
pub(super) fn put_block(out: &mut Vec<u8>, number: u8, data: &[u8], padding: u8, check: Check) {
    let is_short = data.len() <= SHORT_BLOCK_LEN;
    out.extend_from_slice(&[if is_short { SOH } else { STX }, number, !number]);
    let mut padded = data.to_vec();
    padded.resize(if is_short { SHORT_BLOCK_LEN } else { LONG_BLOCK_LEN }, padding);
    out.extend_from_slice(&padded);
    check.put(&padded, out);
}

/// Returns the padding of data blocks or, for a header of YMODEM, of headers.
pub(super) const fn padding(is_header: bool) -> u8 {
    if is_header { 0 } else { SUB }
}

/// Unit of a sender's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A valid block with this number; its data is in the parser.
    Block(u8),
    /// A block with an error.
    Damaged,
    /// A byte that starts no block.
    Unexpected,
    /// The end of the file.
    EndOfTransmission,
    /// The sender cancels the transfer.
    Cancelled,
}

/// Parser of a sender's output.
#[derive(Clone, Debug)]
pub(super) struct BlockParser {
    /// The block so far, without its first byte.
    buffer: Vec<u8>,
    /// Length of the data of the current block; 0 between blocks.
    data_len: usize,
    /// Number of CAN characters at the end of the input.
    cans: u8,
    /// Whether the current or last block contains a sequence that cancels a transfer.
    has_cancel_sequence: bool,
}

impl UnitParser for BlockParser {
    type Unit = Parsed;

    fn is_in_unit(&self) -> bool {
        self.is_in_block()
    }

    fn is_valid(unit: &Parsed) -> bool {
        matches!(unit, Parsed::Block(_))
    }
}

impl BlockParser {
    pub(super) const fn new() -> Self {
        Self { buffer: Vec::new(), data_len: 0, cans: 0, has_cancel_sequence: false }
    }

    /// Returns whether a block is incomplete.
    pub(super) const fn is_in_block(&self) -> bool {
        self.data_len != 0
    }

    /// Returns whether the current or last block starts with this number and its complement.
    pub(super) fn has_number(&self, number: u8) -> bool {
        self.buffer.starts_with(&[number, !number])
    }

    /// Returns the number of CAN characters at the end of the input.
    pub(super) const fn cans(&self) -> u8 {
        self.cans
    }

    /// Returns whether a block that is damaged or incomplete was cancelled by its sender.
    ///
    /// A program that is terminated writes its cancel sequence at any place, and then the rest of
    /// its buffer.
    pub(super) const fn is_cancelled(&self) -> bool {
        self.has_cancel_sequence || self.cans >= BLOCK_CANCEL_COUNT
    }

    /// Discards an incomplete block.
    pub(super) fn reset(&mut self) {
        self.data_len = 0;
        self.cans = 0;
    }

    /// Returns the data of the last valid block.
    pub(super) fn data(&self) -> &[u8] {
        let end = if self.buffer.len() > LONG_BLOCK_LEN { LONG_BLOCK_LEN } else { SHORT_BLOCK_LEN };
        self.buffer.get(2..2 + end).unwrap_or_default()
    }

    /// Processes one byte.
    pub(super) fn push(&mut self, byte: u8, check: Check) -> Option<Parsed> {
        if !self.is_in_block() {
            return self.begin(byte);
        }
        // The backspaces distinguish the sequence from most data.
        self.has_cancel_sequence |= byte == BACKSPACE && self.cans >= BLOCK_CANCEL_COUNT;
        self.cans = if byte == CAN { self.cans.saturating_add(1) } else { 0 };
        self.buffer.push(byte);
        if self.buffer.len() < 2 + self.data_len + check.len() {
            return None;
        }
        self.data_len = 0;
        let &[number, complement, ..] = self.buffer.as_slice() else { return None };
        let mut expected_check = Vec::with_capacity(2);
        check.put(self.data(), &mut expected_check);
        let is_valid = number == !complement && self.buffer.ends_with(&expected_check);
        if is_valid {
            // CAN characters at the end of the data do not cancel.
            self.cans = 0;
            return Some(Parsed::Block(number));
        }
        Some(if self.is_cancelled() { Parsed::Cancelled } else { Parsed::Damaged })
    }

    fn begin(&mut self, byte: u8) -> Option<Parsed> {
        self.cans = if byte == CAN { self.cans.saturating_add(1) } else { 0 };
        self.data_len = match byte {
            SOH => SHORT_BLOCK_LEN,
            STX => LONG_BLOCK_LEN,
            EOT => return Some(Parsed::EndOfTransmission),
            CAN if self.cans < CANCEL_COUNT => return None,
            CAN => return Some(Parsed::Cancelled),
            _ => return Some(Parsed::Unexpected),
        };
        self.has_cancel_sequence = false;
        self.buffer.clear();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(bytes: &[u8], check: Check) -> (Vec<Parsed>, Vec<u8>) {
        let mut parser = BlockParser::new();
        let parsed = bytes.iter().filter_map(|byte| parser.push(*byte, check)).collect();
        (parsed, parser.data().to_vec())
    }

    #[test]
    fn a_short_block_with_checksum_has_132_bytes() {
        let mut out = Vec::new();
        put_block(&mut out, 1, b"AB", SUB, Check::Sum);
        assert_eq!(out.len(), 132);
        assert_eq!(out[..6], [SOH, 1, 0xfe, b'A', b'B', SUB]);
        // 0x41 + 0x42 + 126 * 0x1a = 3407 = 13 * 256 + 79
        assert_eq!(out[131], 79);
    }

    #[test]
    fn one_can_does_not_cancel() {
        assert_eq!(parse(&[CAN, EOT, CAN], Check::Crc).0, [Parsed::EndOfTransmission]);
        assert_eq!(parse(&[CAN, CAN], Check::Crc).0, [Parsed::Cancelled]);
    }

    proptest! {
        #[test]
        fn a_block_is_parsed_to_itself(
            number: u8, data in prop::collection::vec(any::<u8>(), 0..1024), has_crc: bool,
        ) {
            let check = if has_crc { Check::Crc } else { Check::Sum };
            let mut out = Vec::new();
            put_block(&mut out, number, &data, SUB, check);
            let (parsed, received) = parse(&out, check);
            prop_assert_eq!(parsed, [Parsed::Block(number)]);
            prop_assert_eq!(&received[..data.len()], &data);
            prop_assert!(received[data.len()..].iter().all(|byte| *byte == SUB));
        }

        #[test]
        fn a_block_with_one_changed_byte_is_damaged(at in 1_usize..133, change in 1_u8..) {
            let mut out = Vec::new();
            put_block(&mut out, 7, b"text", SUB, Check::Crc);
            out[at] ^= change;
            prop_assert_eq!(parse(&out, Check::Crc).0, [Parsed::Damaged]);
        }
    }
}
