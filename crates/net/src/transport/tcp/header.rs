//! The TCP header (RFC 9293 §3.1, §3.2): parsing into a type that is always valid, and
//! construction.
//!
//! An option with an invalid length ends the parsing of options and is counted; the segment itself
//! is accepted (MUST-7). Options are written in the layout of Linux, because middleboxes and the
//! fast paths of peers expect this layout. The maximum segment size is first. No-operations in
//! front of the other options pad them to a multiple of four bytes.

use super::fast_open::{Cookie, FastOpen};
use super::sack::Blocks;
use super::seq::Seq;
use crate::checksum::Sum;
use crate::meter::{Counter, Meter};
use crate::mutants::{Mutant, is_enabled};
use crate::time::{LocalClock, RemoteClock, Stamp};

/// The length of a header without options.
pub const HEADER_LEN: usize = 20;
/// The maximum length of a header with options.
pub const MAX_HEADER_LEN: usize = 60;

/// Byte range of the checksum field.
pub(super) const CHECKSUM: core::ops::Range<usize> = 16..18;

/// The control bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push function.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment field is significant.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer field is significant.
    pub const URG: Self = Self(0x20);
    /// Congestion experienced, echoed (RFC 3168 §6.1).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168 §6.1).
    pub const CWR: Self = Self(0x80);

    /// Returns whether all bits of `flags` are set.
    #[must_use]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns these bits and those of `flags`.
    #[must_use]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// Returns these bits without those of `flags`.
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }
}

/// The supported options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size, in bytes (RFC 9293 §3.7.1).
    pub mss: Option<u16>,
    /// Window scale, in bits (RFC 7323 §2).
    pub window_scale: Option<u8>,
    /// Whether selective acknowledgments may be sent (RFC 2018 §2).
    pub sack_permitted: bool,
    /// Timestamp value and echo reply (RFC 7323 §3). The value is from the clock of the segment's
    /// sender; see [`Self::with_timestamps`] and [`Self::peer_timestamps`].
    pub timestamps: Option<(u32, u32)>,
    /// User timeout, with the granularity bit for minutes (RFC 5482 §2).
    pub user_timeout: Option<u16>,
    /// Fast Open (RFC 7413 §4.1.1).
    pub fast_open: Option<FastOpen>,
    /// Blocks received after the acknowledgment number (RFC 2018 §3).
    pub sack: Blocks,
}

/// A parsed header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The port of the sender.
    pub source_port: u16,
    /// The port of the receiver.
    pub destination_port: u16,
    /// Sequence number of the first data byte, or of the SYN.
    pub seq: Seq,
    /// Next sequence number that the sender expects, if the ACK bit is set.
    pub ack: Seq,
    /// The control bits.
    pub flags: Flags,
    /// The window field, not scaled.
    pub window: u16,
    /// The urgent pointer: the offset of the byte after the urgent data.
    pub urgent: u16,
    /// The options.
    pub options: Options,
}

/// Reasons why a segment cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The segment is shorter than its data offset, or than the shortest header.
    Truncated,
    /// The data offset is below five words.
    DataOffset,
    /// The checksum is wrong.
    Checksum,
}

impl Header {
    /// Parses a header, and returns it with its length in bytes.
    ///
    /// `sum` is the sum over the pseudo header and the whole segment.
    ///
    /// # Errors
    ///
    /// Returns an error if the header is invalid. None of its fields can be trusted then.
    pub fn parse(
        segment: &[u8],
        sum: Sum,
        meter: &mut Meter,
    ) -> Result<(Self, usize), HeaderError> {
        let Some((fixed, rest)) = segment.split_first_chunk::<HEADER_LEN>() else {
            return Err(HeaderError::Truncated);
        };
        let [sp0, sp1, dp0, dp1, s0, s1, s2, s3, a0, a1, a2, a3, off, bits, w0, w1, _, _, u0, u1] =
            *fixed;
        let len = usize::from(off >> 4) * 4;
        let options_len = len.checked_sub(HEADER_LEN).ok_or(HeaderError::DataOffset)?;
        let options = rest.get(..options_len).ok_or(HeaderError::Truncated)?;
        if !sum.is_good() && !is_enabled(Mutant::SkipsChecksum) {
            return Err(HeaderError::Checksum);
        }
        let header = Self {
            source_port: u16::from_be_bytes([sp0, sp1]),
            destination_port: u16::from_be_bytes([dp0, dp1]),
            seq: Seq(u32::from_be_bytes([s0, s1, s2, s3])),
            ack: Seq(u32::from_be_bytes([a0, a1, a2, a3])),
            flags: Flags(bits),
            window: u16::from_be_bytes([w0, w1]),
            urgent: u16::from_be_bytes([u0, u1]),
            options: Options::parse(options, meter),
        };
        Ok((header, len))
    }

    /// Writes the header into `bytes`, with a checksum of zero, and returns its length.
    pub fn emit(&self, bytes: &mut [u8; MAX_HEADER_LEN]) -> usize {
        let mut out = Writer { bytes, len: 0 };
        let [sp0, sp1] = self.source_port.to_be_bytes();
        let [dp0, dp1] = self.destination_port.to_be_bytes();
        let [s0, s1, s2, s3] = self.seq.0.to_be_bytes();
        let [a0, a1, a2, a3] = self.ack.0.to_be_bytes();
        let [w0, w1] = self.window.to_be_bytes();
        let [u0, u1] = self.urgent.to_be_bytes();
        let bits = self.flags.0;
        out.put(&[
            sp0, sp1, dp0, dp1, s0, s1, s2, s3, a0, a1, a2, a3, 0, bits, w0, w1, 0, 0, u0, u1,
        ]);
        self.options.emit(&mut out);
        let len = out.len;
        if let Some(offset) = bytes.get_mut(12) {
            *offset = u8::try_from(len / 4).unwrap_or(0) << 4;
        }
        len
    }
}

struct Writer<'a> {
    bytes: &'a mut [u8; MAX_HEADER_LEN],
    len: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            room.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }
}

const NO_OPERATIONS: [u8; 3] = [NO_OPERATION; 3];
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const USER_TIMEOUT: u8 = 28;
const FAST_OPEN: u8 = 34;
/// Length of one block, in bytes.
const SACK_BLOCK_LEN: usize = 8;
/// Maximum window scale. A larger one counts as this value (RFC 7323 §2.3).
const MAX_WINDOW_SCALE: u8 = 14;

impl Options {
    /// Returns options that contain only the local timestamp and the echo of the peer's timestamp.
    #[must_use]
    pub fn with_timestamps(ours: Stamp<LocalClock>, theirs: Stamp<RemoteClock>) -> Self {
        Self { timestamps: Some((ours.ticks(), theirs.ticks())), ..Self::default() }
    }

    /// Returns the peer's timestamp and its echo of the local one, from options sent by the peer.
    #[must_use]
    pub fn peer_timestamps(&self) -> Option<(Stamp<RemoteClock>, Stamp<LocalClock>)> {
        self.timestamps.map(|(value, echo)| (Stamp::new(value), Stamp::new(echo)))
    }

    /// No options.
    pub const NONE: Self = Self {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        user_timeout: None,
        fast_open: None,
        sack: Blocks::NONE,
    };

    fn parse(mut bytes: &[u8], meter: &mut Meter) -> Self {
        let mut options = Self::default();
        // RFC 7323 appendix A: nearly every segment has exactly these option bytes.
        if let &[NO_OPERATION, NO_OPERATION, TIMESTAMPS, 10, ref value @ ..] = bytes
            && value.len() == 8
        {
            options.parse_option(TIMESTAMPS, value, meter);
            return options;
        }
        while let Some((kind, rest)) = bytes.split_first() {
            match *kind {
                END => break,
                NO_OPERATION => bytes = rest,
                kind => {
                    let len = rest.first().copied().map_or(0, usize::from);
                    let (Some(value), Some(after)) = (bytes.get(2..len), bytes.get(len..)) else {
                        meter.count(Counter::TcpOptionErrors);
                        break;
                    };
                    options.parse_option(kind, value, meter);
                    bytes = after;
                }
            }
        }
        options
    }

    fn parse_option(&mut self, kind: u8, value: &[u8], meter: &mut Meter) {
        match (kind, value) {
            (MSS, &[high, low]) => self.mss = Some(u16::from_be_bytes([high, low])),
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift.min(MAX_WINDOW_SCALE)),
            (TIMESTAMPS, &[v0, v1, v2, v3, e0, e1, e2, e3]) => {
                let value = u32::from_be_bytes([v0, v1, v2, v3]);
                let echo = u32::from_be_bytes([e0, e1, e2, e3]);
                self.timestamps = Some((value, echo));
            }
            (USER_TIMEOUT, &[high, low]) => {
                self.user_timeout = Some(u16::from_be_bytes([high, low]));
            }
            (FAST_OPEN, &[]) => self.fast_open = Some(FastOpen::Request),
            (FAST_OPEN, bytes) => match Cookie::new(bytes) {
                Some(cookie) => self.fast_open = Some(FastOpen::Cookie(cookie)),
                None => meter.count(Counter::TcpOptionErrors),
            },
            (SACK_PERMITTED, &[]) => self.sack_permitted = true,
            (SACK, blocks) if !blocks.is_empty() && blocks.len() % SACK_BLOCK_LEN == 0 => {
                let (blocks, _) = blocks.as_chunks::<SACK_BLOCK_LEN>();
                for [s0, s1, s2, s3, e0, e1, e2, e3] in blocks {
                    let start = Seq(u32::from_be_bytes([*s0, *s1, *s2, *s3]));
                    let end = Seq(u32::from_be_bytes([*e0, *e1, *e2, *e3]));
                    self.sack.push((start, end));
                }
            }
            (MSS | WINDOW_SCALE | SACK_PERMITTED | SACK | TIMESTAMPS | USER_TIMEOUT, _) => {
                meter.count(Counter::TcpOptionErrors);
            }
            _ => {}
        }
    }

    fn emit(&self, out: &mut Writer<'_>) {
        if let Some(mss) = self.mss {
            out.put(&[MSS, 4]);
            out.put(&mss.to_be_bytes());
        }
        // The SACK-permitted option replaces the no-operations before the timestamps, if there are
        // any.
        let sack_option = if self.sack_permitted { [SACK_PERMITTED, 2] } else { [NO_OPERATION; 2] };
        if let Some((value, echo)) = self.timestamps {
            let [l0, l1] = sack_option;
            let [v0, v1, v2, v3] = value.to_be_bytes();
            let [e0, e1, e2, e3] = echo.to_be_bytes();
            out.put(&[l0, l1, TIMESTAMPS, 10, v0, v1, v2, v3, e0, e1, e2, e3]);
        } else if self.sack_permitted {
            out.put(&[NO_OPERATION; 2]);
            out.put(&sack_option);
        }
        if let Some(shift) = self.window_scale {
            out.put(&[NO_OPERATION, WINDOW_SCALE, 3, shift]);
        }
        if let Some(value) = self.user_timeout {
            out.put(&[USER_TIMEOUT, 4]);
            out.put(&value.to_be_bytes());
        }
        if let Some(fast_open) = &self.fast_open {
            let cookie = fast_open.cookie_bytes();
            // The padding is in front of the option, so that the header ends with the option.
            out.put(NO_OPERATIONS.get(..fast_open.padding()).unwrap_or_default());
            out.put(&[FAST_OPEN, u8::try_from(2 + cookie.len()).unwrap_or(0)]);
            out.put(cookie);
        }
        let blocks = self.sack.as_slice();
        if !blocks.is_empty() {
            let len = u8::try_from(2 + blocks.len() * SACK_BLOCK_LEN).unwrap_or(0);
            out.put(&[NO_OPERATION, NO_OPERATION, SACK, len]);
            for (start, end) in blocks {
                out.put(&start.0.to_be_bytes());
                out.put(&end.0.to_be_bytes());
            }
        }
    }

    /// Returns the length of these options in the header, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let timestamps = if self.timestamps.is_some() { 12 } else { 0 };
        let window_scale = if self.window_scale.is_some() { 4 } else { 0 };
        let user_timeout = if self.user_timeout.is_some() { 4 } else { 0 };
        let fast_open =
            self.fast_open.map_or(0, |option| option.padding() + 2 + option.cookie_bytes().len());
        let is_sack_permitted_alone = self.sack_permitted && self.timestamps.is_none();
        let sack_permitted = if is_sack_permitted_alone { 4 } else { 0 };
        let sack = Self::sack_len(self.sack.as_slice().len());
        mss + timestamps + window_scale + sack_permitted + user_timeout + fast_open + sack
    }

    /// Returns the length of `blocks` blocks in the header, in bytes.
    #[must_use]
    pub const fn sack_len(blocks: usize) -> usize {
        if blocks == 0 { 0 } else { 4 + blocks * SACK_BLOCK_LEN }
    }

    /// Returns whether the set of options is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::OwnedCx;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn with_checksum(header: &Header, data: &[u8]) -> Vec<u8> {
        let mut bytes = [0; MAX_HEADER_LEN];
        let len = header.emit(&mut bytes);
        let mut segment = bytes[..len].to_vec();
        segment.extend_from_slice(data);
        let sum = Sum::default().bytes(&segment).finish();
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        segment
    }

    fn sack(blocks: &[(u32, u32)]) -> Blocks {
        let mut all = Blocks::default();
        blocks.iter().for_each(|(start, end)| all.push((Seq(*start), Seq(*end))));
        all
    }

    prop_compose! {
        fn any_header()(
            ports: (u16, u16), seq: u32, ack: u32, bits: u8, window: u16, urgent: u16,
            mss: Option<u16>, window_scale in prop::option::of(0..=14_u8), sack_permitted: bool,
            timestamps: Option<(u32, u32)>, user_timeout: Option<u16>,
            cookie in prop::option::of(any::<[u8; 8]>()), asks: bool,
            blocks in prop::collection::vec(any::<(u32, u32)>(), 0..=4_usize),
        ) -> Header {
            let fast_open = match cookie {
                Some(bytes) => Cookie::new(&bytes).map(FastOpen::Cookie),
                None => asks.then_some(FastOpen::Request),
            };
            Header {
                source_port: ports.0, destination_port: ports.1, seq: Seq(seq), ack: Seq(ack),
                flags: Flags(bits), window, urgent,
                options: if blocks.is_empty() {
                    let sack = Blocks::NONE;
                    Options {
                        mss, window_scale, sack_permitted, timestamps, sack, user_timeout, fast_open,
                    }
                } else if blocks.len() > 2 {
                    // Many blocks leave no space for the options of a SYN.
                    Options { timestamps: None, sack: sack(&blocks), ..Options::default() }
                } else {
                    let sack = sack(&blocks);
                    Options { mss, window_scale, sack_permitted, timestamps, sack, ..Options::NONE }
                },
            }
        }
    }

    proptest! {
        #[test]
        fn written_values_are_parsed_back(header in any_header(), data: Vec<u8>) {
            let segment = with_checksum(&header, &data);
            let (read, len) =
                Header::parse(&segment, Sum::default().bytes(&segment), &mut OwnedCx::default().meter).unwrap();
            prop_assert_eq!(read, header);
            prop_assert_eq!(&segment[len..], &data[..]);
            prop_assert_eq!(len, HEADER_LEN + header.options.len());
        }

        // req RFC9293:MUST-3
        #[test]
        fn one_changed_bit_is_detected(header in any_header(), data: Vec<u8>, at: usize, bit in 0..8) {
            let mut segment = with_checksum(&header, &data);
            let at = at % segment.len();
            prop_assume!(at != 12);
            segment[at] ^= 1_u8 << bit;
            let result = Header::parse(&segment, Sum::default().bytes(&segment), &mut OwnedCx::default().meter);
            prop_assert_eq!(result, Err(HeaderError::Checksum));
        }
    }

    // req RFC9293:MUST-4, RFC9293:MUST-68
    #[test]
    fn a_syn_has_the_option_layout_of_linux() {
        let all_options = Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some((0x0102_0304, 0)),
            ..Options::default()
        };
        let expected = [2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7];
        assert_eq!(emitted(all_options), expected);
        let without_timestamps = Options { timestamps: None, ..all_options };
        assert_eq!(emitted(without_timestamps), [2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 7]);
    }

    #[test]
    fn three_blocks_behind_timestamps_fill_the_header() {
        let timestamps = Some((0, 0));
        let blocks = sack(&[(1, 2), (3, 4), (5, 6)]);
        let bytes = emitted(Options { timestamps, sack: blocks, ..Options::default() });
        assert_eq!(bytes.len(), MAX_HEADER_LEN - HEADER_LEN);
        assert_eq!(bytes[12..24], [1, 1, 5, 26, 0, 0, 0, 1, 0, 0, 0, 2]);
    }

    fn emitted(options: Options) -> Vec<u8> {
        let header = Header { options, ..Header::default() };
        let mut bytes = [0; MAX_HEADER_LEN];
        let len = header.emit(&mut bytes);
        assert_eq!(len, HEADER_LEN + options.len());
        bytes[HEADER_LEN..len].to_vec()
    }

    // req RFC9293:MUST-6, RFC9293:MUST-7
    // attack row 37
    #[test]
    fn no_option_causes_a_panic_and_invalid_ones_are_counted() {
        let mut context = OwnedCx::default();
        for kind in 2..=255 {
            for len in 0..=40 {
                let mut bytes = [1; 40];
                bytes[0] = kind;
                bytes[1] = len;
                Options::parse(&bytes, &mut context.meter);
            }
        }
        // 254 kinds have the invalid lengths 0 and 1. Five known kinds have one valid length,
        // blocks have four, and Fast Open has eight; all other lengths are invalid.
        let invalid_count = 254 * 2 + 5 * (41 - 2 - 1) + (41 - 2 - 4) + (41 - 2 - 8);
        assert_eq!(context.counted(Counter::TcpOptionErrors), invalid_count);
    }

    #[test]
    fn only_a_set_without_an_option_is_empty() {
        assert!(Options::NONE.is_empty());
        assert!(!Options { mss: Some(1000), ..Options::NONE }.is_empty());
    }
}
