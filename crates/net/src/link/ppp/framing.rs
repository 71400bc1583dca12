//! PPP frames on an asynchronous line (RFC 1662).
//!
//! A frame consists of `FF 03`, the protocol in two bytes, the information, and a check sequence of
//! 16 bits over all of these. It is enclosed in two flags. One flag may both end a frame and begin
//! the next. A flag or an escape byte inside a frame is sent as an escape followed by the byte with
//! one bit flipped. The same applies to every control character in the receiver's map (ACCM),
//! because a device on the line might interpret it. If a control character of the map arrives
//! without an escape, the line has inserted it, and it is dropped. If both ends have agreed to it,
//! `FF 03` is omitted, and so is the first byte of the protocol if it is zero.

use crate::cx::Cx;
use crate::meter::Counter;
use crate::packet::{Packet, Pool};
use alloc::vec::Vec;

/// Begins and ends a frame.
pub const FLAG: u8 = 0x7E;
/// Precedes a byte in which the bit [`FLIPPED`] is flipped.
pub const ESCAPE: u8 = 0x7D;
/// The bit that an escape flips.
pub const FLIPPED: u8 = 0x20;
/// The default map of control characters to escape: all 32.
pub const ACCM_DEFAULT: u32 = u32::MAX;

const ADDRESS_AND_CONTROL: [u8; 2] = [0xFF, 0x03];
const FCS_LEN: usize = 2;
/// Maximum overhead of a frame in bytes: address, control, protocol and check sequence.
const OVERHEAD: usize = ADDRESS_AND_CONTROL.len() + 2 + FCS_LEN;

const FCS_INITIAL: u16 = 0xFFFF;
/// The check sequence of a valid frame, computed over the frame including its check sequence field.
const FCS_GOOD: u16 = 0xF0B8;

const FCS_TABLE: [u16; 256] = fcs_table();

#[expect(clippy::cast_possible_truncation, clippy::indexing_slicing, reason = "256 entries")]
const fn fcs_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u16;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0x8408 } else { value >> 1 };
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
}

/// Returns the check sequence (RFC 1662 appendix C) of `bytes`, continuing from `fcs`.
fn fcs(fcs: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(fcs, |fcs, byte| {
        let [low, high] = fcs.to_le_bytes();
        let entry = FCS_TABLE.get(usize::from(low ^ byte)).copied().unwrap_or(0);
        u16::from(high) ^ entry
    })
}

/// The negotiated frame format of one direction: omitted fields and escaped characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    /// The control characters to escape.
    pub(super) accm: u32,
    /// Whether address and control are omitted (RFC 1661 §6.6).
    pub(super) omits_address: bool,
    /// Whether the first byte of the protocol is omitted if it is zero (RFC 1661 §6.5).
    pub(super) omits_zero: bool,
}

impl Default for Format {
    fn default() -> Self {
        Self { accm: ACCM_DEFAULT, omits_address: false, omits_zero: false }
    }
}

impl Format {
    /// Appends a frame and its closing flag to `line`, and returns the number of escapes.
    pub(super) fn encode(&self, protocol: u16, information: &[u8], line: &mut Vec<u8>) -> u64 {
        let [high, low] = protocol.to_be_bytes();
        let [address, control] = ADDRESS_AND_CONTROL;
        let header = [address, control, high, low];
        let skipped = if self.omits_address { 2 } else { 0 };
        let without_zero = [address, control, low];
        let header = if self.omits_zero && high == 0 { &without_zero[..] } else { &header };
        let header = header.get(skipped..).unwrap_or_default();
        let check = (!fcs(fcs(FCS_INITIAL, header), information)).to_le_bytes();
        let mut escapes = 0;
        for byte in header.iter().chain(information).chain(&check) {
            if self.must_escape(*byte) {
                line.extend([ESCAPE, byte ^ FLIPPED]);
                escapes += 1;
            } else {
                line.push(*byte);
            }
        }
        line.push(FLAG);
        escapes
    }

    fn must_escape(&self, byte: u8) -> bool {
        matches!(byte, FLAG | ESCAPE) || is_mapped(byte, self.accm)
    }
}

fn is_mapped(byte: u8, accm: u32) -> bool {
    1_u32.checked_shl(u32::from(byte)).is_some_and(|bit| accm & bit != 0)
}

/// The parser of received frames.
#[derive(Debug, Default)]
pub(super) struct Deframer {
    incoming: Incoming,
}

#[derive(Debug, Default)]
enum Incoming {
    /// No bytes since the last flag.
    #[default]
    Empty,
    Frame {
        packet: Packet,
        /// Whether the last byte was an escape.
        is_escaped: bool,
    },
    /// A frame was dropped, and the flag at its end has not arrived.
    Skipping,
}

/// The result when a flag has ended a frame.
#[derive(Debug)]
pub(super) enum FrameResult {
    /// The protocol and the information of a frame with a valid check sequence.
    Frame(u16, Packet),
    /// A frame was lost. It is already counted.
    Lost,
}

impl Deframer {
    /// Processes bytes from the front of `input` until a frame has ended. Returns `None` when all
    /// bytes are processed.
    ///
    /// `mtu` is the maximum length of the information. `accm` is the map of control characters that
    /// this end has sent to the peer.
    pub(super) fn receive(
        &mut self,
        input: &mut &[u8],
        mtu: usize,
        accm: u32,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<FrameResult> {
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            if byte == FLAG {
                if let Some(arrived) = self.end(pool, cx) {
                    return Some(arrived);
                }
            } else if !is_mapped(byte, accm) {
                self.add(byte, mtu, pool, cx);
            }
        }
        None
    }

    fn add(&mut self, byte: u8, mtu: usize, pool: &mut Pool, cx: &mut Cx<'_>) {
        if let Incoming::Empty = self.incoming {
            self.incoming = match pool.take(cx.meter) {
                Some(packet) => Incoming::Frame { packet: open(packet), is_escaped: false },
                None => Incoming::Skipping,
            };
        }
        let Incoming::Frame { packet, is_escaped } = &mut self.incoming else { return };
        if byte == ESCAPE && !*is_escaped {
            *is_escaped = true;
            return;
        }
        if packet.room() == 0 || packet.len() >= mtu.saturating_add(OVERHEAD) {
            cx.meter.count(Counter::LinkPacketsTooLong);
            return self.skip(pool);
        }
        if core::mem::take(is_escaped) {
            cx.meter.count(Counter::LinkEscapesIn);
            packet.extend(&[byte ^ FLIPPED]);
        } else {
            packet.extend(&[byte]);
        }
    }

    fn skip(&mut self, pool: &mut Pool) {
        if let Incoming::Frame { packet, .. } =
            core::mem::replace(&mut self.incoming, Incoming::Skipping)
        {
            pool.put(packet);
        }
    }

    fn end(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<FrameResult> {
        let (mut packet, is_escaped) = match core::mem::take(&mut self.incoming) {
            Incoming::Empty => return None,
            Incoming::Skipping => return Some(FrameResult::Lost),
            Incoming::Frame { packet, is_escaped } => (packet, is_escaped),
        };
        // RFC 1662 §4.3: an escape before the flag aborts the frame.
        let fault = if is_escaped || packet.len() <= FCS_LEN {
            Some(Counter::PppFramesShort)
        } else if fcs(FCS_INITIAL, packet.data()) != FCS_GOOD {
            Some(Counter::PppCheckErrors)
        } else {
            packet.resize(packet.len() - FCS_LEN);
            match remove_protocol(&mut packet) {
                Some(protocol) => {
                    cx.meter.count(Counter::LinkPacketsIn);
                    return Some(FrameResult::Frame(protocol, packet));
                }
                None => Some(Counter::PppFramesShort),
            }
        };
        fault.into_iter().for_each(|fault| cx.meter.count(fault));
        pool.put(packet);
        Some(FrameResult::Lost)
    }

    /// Returns the current buffer to the pool.
    pub(super) fn reset(&mut self, pool: &mut Pool) {
        self.skip(pool);
        self.incoming = Incoming::Empty;
    }
}

/// Starts the frame in the headroom of the packet, so that the header and the check sequence take
/// no space from the information.
fn open(mut packet: Packet) -> Packet {
    packet.clear();
    packet.push(&[0; OVERHEAD]);
    packet.resize(0);
    packet
}

/// Removes address and control, if present, and the protocol from the front of a frame. Returns the
/// protocol.
fn remove_protocol(packet: &mut Packet) -> Option<u16> {
    if packet.data().starts_with(&ADDRESS_AND_CONTROL) {
        packet.pull(ADDRESS_AND_CONTROL.len());
    }
    // RFC 1661 §2: the last byte of a protocol number is odd, and the first is even.
    match *packet.data() {
        [low, ..] if low & 1 == 1 => {
            packet.pull(1);
            Some(u16::from(low))
        }
        [high, low, ..] if low & 1 == 1 => {
            packet.pull(2);
            Some(u16::from_be_bytes([high, low]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::OwnedCx;
    use proptest::prelude::*;

    const MTU: usize = 60;

    /// Passes `line` to a deframer and returns the frames, and the number of lost ones.
    fn frames(line: &[u8], accm: u32, context: &mut OwnedCx) -> (Vec<(u16, Vec<u8>)>, usize) {
        let mut deframer = Deframer::default();
        let mut pool = Pool::new(1, MTU);
        let mut input = line;
        let mut frames = Vec::new();
        let mut lost = 0;
        while let Some(arrived) =
            deframer.receive(&mut input, MTU, accm, &mut pool, &mut context.cx())
        {
            match arrived {
                FrameResult::Frame(protocol, packet) => {
                    frames.push((protocol, packet.data().to_vec()));
                    pool.put(packet);
                }
                FrameResult::Lost => lost += 1,
            }
        }
        deframer.reset(&mut pool);
        assert_eq!(pool.lent(), 0);
        (frames, lost)
    }

    #[test]
    fn the_check_sequence_of_the_standard_test_string_is_correct() {
        assert_eq!(!fcs(FCS_INITIAL, b"123456789"), 0x906E);
    }

    #[test]
    fn a_frame_has_address_control_protocol_and_escapes_mapped_characters() {
        let mut line = Vec::new();
        let escapes = Format::default().encode(0xC021, &[1, 0x7E, 0x41], &mut line);
        let body = [0xFF, 0x7D, 0x23, 0xC0, 0x21, 0x7D, 0x21, 0x7D, 0x5E, 0x41];
        assert_eq!(line[..body.len()], body);
        assert!(escapes >= 3 && line.ends_with(&[FLAG]));
    }

    #[test]
    fn agreed_fields_are_omitted() {
        let format = Format { accm: 0, omits_address: true, omits_zero: true };
        let mut line = Vec::new();
        format.encode(0x21, &[0x45, 1], &mut line);
        assert_eq!((line.len(), &line[..3]), (6, &[0x21, 0x45, 1][..]));
        line.clear();
        format.encode(0xC021, &[1], &mut line);
        assert_eq!(line[..3], [0xC0, 0x21, 1]);
    }

    #[test]
    fn unescaped_control_characters_of_the_map_are_dropped() {
        let mut line = Vec::new();
        let mut context = OwnedCx::default();
        Format::default().encode(0x21, b"data", &mut line);
        let noisy_line: Vec<u8> = line.iter().flat_map(|byte| [0x11, *byte]).collect();
        let expected = (Vec::from([(0x21, b"data".to_vec())]), 0);
        assert_eq!(frames(&noisy_line, ACCM_DEFAULT, &mut context), expected);
        assert_eq!(frames(&noisy_line, 0, &mut context).1, 1);
    }

    #[test]
    fn each_kind_of_invalid_frame_has_its_counter() {
        let mut line = Vec::new();
        let mut context = OwnedCx::default();
        Format::default().encode(0x21, b"data", &mut line);
        line[2] ^= 4;
        line.extend([0xFF, 0x03, FLAG]);
        line.extend([0xFF, ESCAPE, FLAG]);
        line.extend([b'x'; MTU + OVERHEAD + 1]);
        line.extend([FLAG, FLAG]);
        assert_eq!(frames(&line, 0, &mut context), (Vec::new(), 4));
        assert_eq!(context.counted(Counter::PppCheckErrors), 1);
        assert_eq!(context.counted(Counter::PppFramesShort), 2);
        assert_eq!(context.counted(Counter::LinkPacketsTooLong), 1);
    }

    #[test]
    fn without_a_buffer_a_frame_is_lost_up_to_its_flag() {
        let mut line = Vec::new();
        let mut context = OwnedCx::default();
        Format::default().encode(0x21, b"data", &mut line);
        let mut deframer = Deframer::default();
        let mut pool = Pool::new(0, MTU);
        let mut input = &line[..];
        let arrived = deframer.receive(&mut input, MTU, 0, &mut pool, &mut context.cx());
        assert!(matches!(arrived, Some(FrameResult::Lost)) && input.is_empty());
    }

    proptest! {
        #[test]
        fn any_frames_are_parsed_back(
            sent in prop::collection::vec(
                (any::<u16>().prop_map(|p| p & 0xFEFF | 1),
                 prop::collection::vec(any::<u8>(), 0..MTU)), 0..8),
            accm: u32,
            omits: (bool, bool),
        ) {
            let format = Format { accm, omits_address: omits.0, omits_zero: omits.1 };
            let mut line = Vec::new();
            let mut context = OwnedCx::default();
            for (protocol, information) in &sent {
                format.encode(*protocol, information, &mut line);
            }
            prop_assert!(!line.iter().any(|byte| is_mapped(*byte, accm)));
            prop_assert_eq!(frames(&line, accm, &mut context), (sent, 0));
        }

        #[test]
        fn after_any_noise_a_flag_resynchronizes(
            noise in prop::collection::vec(
                prop_oneof![any::<u8>(), Just(FLAG), Just(ESCAPE)], 0..300),
        ) {
            let mut line = noise;
            let mut context = OwnedCx::default();
            line.push(FLAG);
            Format::default().encode(0x21, b"clean", &mut line);
            let (frames, _) = frames(&line, 0, &mut context);
            prop_assert_eq!(frames.last().unwrap(), &(0x21, b"clean".to_vec()));
        }
    }
}
