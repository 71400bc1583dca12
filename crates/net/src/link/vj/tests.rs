//! Tests of a compressor and a decompressor, with and without lost segments.

use super::*;
use crate::cx::OwnedCx;
use proptest::prelude::*;
use std::vec;

/// Source and destination address in the order of the IPv4 header.
const ADDRESSES: [u8; 8] = [10, 0, 0, 1, 10, 0, 0, 2];

/// The fields of a segment.
#[derive(Clone, Debug)]
struct Segment {
    port: u16,
    sequence: u32,
    acknowledgment: u32,
    flags: u8,
    window: u16,
    urgent: u16,
    identification: u16,
    options: Vec<u8>,
    data: Vec<u8>,
}

impl Default for Segment {
    fn default() -> Self {
        Self {
            port: 1024,
            sequence: 1_000,
            acknowledgment: 5_000,
            flags: ACK,
            window: 2_000,
            urgent: 0,
            identification: 1,
            options: Vec::new(),
            data: Vec::new(),
        }
    }
}

impl Segment {
    fn datagram(&self) -> Vec<u8> {
        let offset = u8::try_from(5 + self.options.len() / 4).unwrap() << 4;
        let mut tcp = [
            &self.port.to_be_bytes()[..],
            &23_u16.to_be_bytes(),
            &self.sequence.to_be_bytes(),
            &self.acknowledgment.to_be_bytes(),
            &[offset, self.flags],
            &self.window.to_be_bytes(),
            &[0, 0],
            &self.urgent.to_be_bytes(),
            &self.options,
            &self.data,
        ]
        .concat();
        let checksum = pseudo_header(&tcp).bytes(&tcp).finish();
        tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
        let [len, identification] =
            [u16::try_from(20 + tcp.len()).unwrap(), self.identification].map(u16::to_be_bytes);
        let mut ip = [
            &[0x45, 0, len[0], len[1], identification[0], identification[1]],
            &[0, 0, 64, PROTOCOL_TCP, 0, 0][..],
            &ADDRESSES,
        ]
        .concat();
        let checksum = Sum::default().bytes(&ip).finish();
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        [ip, tcp].concat()
    }
}

fn pseudo_header(segment: &[u8]) -> Sum {
    let len = u16::try_from(segment.len()).unwrap();
    Sum::default().bytes(&ADDRESSES).word(PROTOCOL_TCP.into()).word(len)
}

fn has_good_checksum(datagram: &[u8]) -> bool {
    let segment = &datagram[20..];
    Headers::read(datagram).is_some() && pseudo_header(segment).bytes(segment).is_good()
}

/// Both ends of a line.
struct Ends {
    compressor: Compressor,
    decompressor: Decompressor,
    context: OwnedCx,
}

impl Default for Ends {
    fn default() -> Self {
        Self {
            compressor: Compressor::new(SLOTS_MAX, true),
            decompressor: Decompressor::new(SLOTS_MAX),
            context: OwnedCx::default(),
        }
    }
}

impl Ends {
    fn compress(&mut self, datagram: &[u8]) -> (Kind, Vec<u8>) {
        let mut packet = Packet::from_slice(datagram);
        let kind = self.compressor.compress(&mut packet, &mut self.context.meter);
        (kind, packet.data().to_vec())
    }

    fn decompress(&mut self, kind: Kind, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let mut packet = Packet::from_slice(bytes);
        self.decompressor.decompress(kind, &mut packet, &mut self.context.meter)?;
        Ok(packet.data().to_vec())
    }

    /// Compresses and decompresses a segment, and checks that the result is unchanged. Returns the
    /// kind and the bytes sent on the line.
    fn transfer(&mut self, segment: &Segment) -> (Kind, Vec<u8>) {
        let datagram = segment.datagram();
        let (kind, bytes) = self.compress(&datagram);
        assert_eq!(self.decompress(kind, &bytes).unwrap(), datagram, "{segment:?} as {kind:?}");
        (kind, bytes)
    }
}

/// Returns a segment with a typed character, the next segment after the echo of that character, and
/// a segment of bulk data.
fn typing_segments() -> [Segment; 3] {
    let key = Segment { data: vec![b'x'], flags: ACK | PSH, ..Segment::default() };
    let next = Segment { sequence: 1_001, acknowledgment: 5_001, identification: 2, ..key.clone() };
    let bulk = Segment { sequence: 1_002, identification: 3, ..next.clone() };
    [key, next, bulk]
}

#[test]
fn the_first_segment_is_sent_uncompressed_with_its_slot_number() {
    let mut ends = Ends::default();
    let [key, ..] = typing_segments();
    let (kind, bytes) = ends.transfer(&key);
    assert_eq!((kind, bytes.len(), bytes[9]), (Kind::UncompressedTcp, 41, 0));
    let other = Segment { port: 1025, ..key };
    assert_eq!(ends.transfer(&other).1[9], 1);
}

#[test]
fn a_typed_character_and_its_echo_take_three_bytes_of_header() {
    let mut ends = Ends::default();
    let [key, next, bulk] = typing_segments();
    ends.transfer(&key);
    let (kind, bytes) = ends.transfer(&next);
    assert_eq!((kind, bytes.len(), bytes[0]), (Kind::CompressedTcp, 4, mask::ECHO | mask::PUSH));
    let (_, bytes) = ends.transfer(&bulk);
    assert_eq!((bytes.len(), bytes[0]), (4, mask::BULK | mask::PUSH));
}

#[test]
fn a_bare_acknowledgment_takes_its_mask_checksum_and_difference() {
    let mut ends = Ends::default();
    ends.transfer(&Segment::default());
    let ack = Segment { acknowledgment: 5_200, identification: 2, ..Segment::default() };
    assert_eq!(ends.transfer(&ack).1.len(), 4);
    let large_step =
        Segment { acknowledgment: 5_200 + 0x1234, identification: 3, ..Segment::default() };
    let (_, bytes) = ends.transfer(&large_step);
    assert_eq!((bytes[0], &bytes[3..]), (mask::ACKNOWLEDGMENT, &[0, 0x12, 0x34][..]));
}

#[test]
fn the_slot_number_is_sent_after_a_segment_of_another_connection() {
    let mut ends = Ends::default();
    let [key, next, bulk] = typing_segments();
    ends.transfer(&key);
    ends.transfer(&Segment { port: 7, ..Segment::default() });
    let (_, bytes) = ends.transfer(&next);
    assert_eq!(bytes[..2], [mask::CONNECTION | mask::ECHO | mask::PUSH, 0]);
    assert_eq!(ends.transfer(&bulk).1.len(), 4);
}

#[test]
fn every_segment_has_its_slot_number_if_it_may_not_be_omitted() {
    let mut ends = Ends { compressor: Compressor::new(4, false), ..Ends::default() };
    let [key, next, bulk] = typing_segments();
    ends.transfer(&key);
    assert_eq!(ends.transfer(&next).1.len(), 5);
    assert_eq!(ends.transfer(&bulk).1.len(), 5);
}

#[test]
fn syn_fin_fragments_and_other_protocols_are_sent_unchanged() {
    let mut ends = Ends::default();
    for flags in [2, 2 | ACK, 1 | ACK, 4, 4 | ACK, 0] {
        let datagram = Segment { flags, ..Segment::default() }.datagram();
        assert_eq!(ends.compress(&datagram), (Kind::Ip, datagram));
    }
    let mut fragment = Segment::default().datagram();
    fragment[6] = 0x20;
    assert_eq!(ends.compress(&fragment).0, Kind::Ip);
    assert_eq!(ends.compress(&[0x45; 12]).0, Kind::Ip);
}

#[test]
fn a_retransmission_is_sent_uncompressed() {
    let mut ends = Ends::default();
    let [key, next, _] = typing_segments();
    ends.transfer(&key);
    ends.transfer(&next);
    let retransmission = Segment { identification: 3, ..next };
    assert_eq!(ends.transfer(&retransmission).0, Kind::UncompressedTcp);
    let earlier_segment = Segment { identification: 4, ..key };
    assert_eq!(ends.transfer(&earlier_segment).0, Kind::UncompressedTcp);
}

#[test]
fn a_change_without_a_field_is_sent_uncompressed() {
    let mut ends = Ends::default();
    let [key, next, bulk] = typing_segments();
    ends.transfer(&key);
    let congested = Segment { flags: next.flags | 0x40, ..next };
    assert_eq!(ends.transfer(&congested).0, Kind::UncompressedTcp);
    let with_options = Segment { options: vec![1, 1, 1, 1], flags: congested.flags, ..bulk };
    assert_eq!(ends.transfer(&with_options).0, Kind::UncompressedTcp);
    let other = Segment { options: vec![1, 1, 1, 0], sequence: 1_003, ..with_options };
    assert_eq!(ends.transfer(&other).0, Kind::UncompressedTcp);
}

#[test]
fn changes_with_a_special_mask_are_sent_uncompressed() {
    let mut ends = Ends::default();
    let [key, next, _] = typing_segments();
    ends.transfer(&key);
    let like_echo =
        Segment { flags: ACK | URG, urgent: 3, window: 1_999, acknowledgment: 5_000, ..next };
    assert_eq!(ends.transfer(&like_echo).0, Kind::UncompressedTcp);
}

#[test]
fn after_an_urgent_segment_no_special_case_is_used() {
    let mut ends = Ends::default();
    let [key, next, bulk] = typing_segments();
    ends.transfer(&Segment { flags: ACK | URG, urgent: 1, ..key });
    let (_, bytes) = ends.transfer(&Segment { urgent: 1, ..next });
    assert_eq!(bytes[0] & mask::SPECIALS, mask::SEQUENCE | mask::ACKNOWLEDGMENT);
    let (_, bytes) = ends.transfer(&Segment { urgent: 1, ..bulk });
    assert_eq!(bytes[0] & mask::SPECIALS, mask::BULK);
}

#[test]
fn a_new_connection_gets_the_least_recently_used_slot() {
    let mut ends = Ends { compressor: Compressor::new(2, true), ..Ends::default() };
    let segment_of = |port, sequence| Segment { port, sequence, ..Segment::default() };
    ends.transfer(&segment_of(1, 0));
    ends.transfer(&segment_of(2, 0));
    assert_eq!(ends.transfer(&segment_of(1, 1)).0, Kind::CompressedTcp);
    assert_eq!(ends.transfer(&segment_of(3, 0)).1[9], 1);
    assert_eq!(ends.transfer(&segment_of(1, 2)).0, Kind::CompressedTcp);
    assert_eq!(ends.transfer(&segment_of(2, 1)).0, Kind::UncompressedTcp);
}

#[test]
fn after_an_error_segments_are_tossed_until_one_has_its_slot_number() {
    let mut ends = Ends::default();
    let [key, next, bulk] = typing_segments();
    ends.transfer(&key);
    ends.decompressor.packet_lost();
    let (kind, bytes) = ends.compress(&next.datagram());
    assert_eq!(ends.decompress(kind, &bytes), Err(Error::Tossed));
    ends.transfer(&Segment { port: 7, ..Segment::default() });
    let (kind, bytes) = ends.compress(&bulk.datagram());
    // The tossed segment left the slot outdated, so the TCP checksum of the result is wrong.
    let decompressed = ends.decompress(kind, &bytes).unwrap();
    assert!(!has_good_checksum(&decompressed));
    assert_eq!(ends.context.counted(Counter::VjTossed), 1);
    ends.transfer(&Segment { identification: 9, ..next });
}

#[test]
fn a_malformed_packet_is_an_error_and_starts_tossing() {
    let mut ends = Ends::default();
    for bytes in [&[][..], &[mask::CONNECTION, 200, 1, 1], &[mask::CONNECTION, 3, 1, 1]] {
        assert_eq!(ends.decompress(Kind::CompressedTcp, bytes), Err(Error::Damaged));
    }
    assert_eq!(ends.decompress(Kind::CompressedTcp, &[0, 1, 1]), Err(Error::Tossed));
    let mut datagram = Segment::default().datagram();
    datagram[9] = 16;
    assert_eq!(ends.decompress(Kind::UncompressedTcp, &datagram), Err(Error::Damaged));
    datagram[9] = 15;
    assert!(ends.decompress(Kind::UncompressedTcp, &datagram).is_ok());
    assert_eq!(ends.context.counted(Counter::VjErrorsIn), 4);
}

#[test]
fn clearing_the_slots_sends_the_whole_headers_again() {
    let mut ends = Ends::default();
    let [key, next, _] = typing_segments();
    ends.transfer(&key);
    ends.compressor.clear_slots();
    assert_eq!(ends.transfer(&next).0, Kind::UncompressedTcp);
}

#[test]
fn an_atomic_datagram_uses_no_byte_for_its_identification() {
    let mut ends = Ends::default();
    for segment in typing_segments() {
        let mut datagram = Segment { identification: 0, ..segment }.datagram();
        datagram[6] = 0x40;
        datagram[10..12].fill(0);
        let checksum = Sum::default().bytes(&datagram[..20]).finish();
        datagram[10..12].copy_from_slice(&checksum.to_be_bytes());
        let (kind, bytes) = ends.compress(&datagram);
        assert!(kind == Kind::UncompressedTcp || bytes.len() == 4, "{bytes:?}");
        let decompressed = ends.decompress(kind, &bytes).unwrap();
        assert!(has_good_checksum(&decompressed) && decompressed[20..] == datagram[20..]);
    }
}

/// Returns segments of a few connections. Their fields have both common and rare changes.
fn segments() -> impl Strategy<Value = Vec<Segment>> {
    let delta = || prop_oneof![Just(0_u32), 1..4_u32, 200..300_u32, any::<u32>()];
    let word = || prop_oneof![Just(0_u16), 1..3_u16, any::<u16>()];
    let data = prop_oneof![Just(0_usize), 1..4_usize, 0..300_usize];
    let flags =
        prop_oneof![4 => Just(ACK), 4 => Just(ACK | PSH), 1 => Just(ACK | URG), 1 => any::<u8>()];
    let options = prop_oneof![4 => Just(Vec::new()), 1 => Just(vec![1; 4]), 1 => Just(vec![1; 12])];
    let segment_steps =
        (0..5_u16, delta(), delta(), (word(), word(), word()), flags, options, data);
    prop::collection::vec(segment_steps, 1..60).prop_map(|segment_steps| {
        let mut connections: Vec<Segment> =
            (0..5).map(|port| Segment { port, ..Segment::default() }).collect();
        let mut sent = Vec::new();
        for (port, s, a, (window, urgent, identification), flags, options, data) in segment_steps {
            let next = &mut connections[usize::from(port)];
            // A generated difference of 3 represents the length of the previous segment's data.
            let data_len = u32::try_from(next.data.len()).unwrap();
            next.sequence = next.sequence.wrapping_add(if s == 3 { data_len } else { s });
            next.acknowledgment =
                next.acknowledgment.wrapping_add(if a == 3 { data_len } else { a });
            next.window = next.window.wrapping_add(window);
            next.urgent = urgent;
            next.identification = next.identification.wrapping_add(identification);
            next.flags = flags;
            next.options = options;
            next.data = vec![b'd'; data];
            sent.push(next.clone());
        }
        sent
    })
}

/// The fate of a segment on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    UnnoticedLoss,
    NoticedLoss,
    Delivered,
}

/// A segment to send: its connection, the increments of its acknowledgment and its window, and its
/// fate on the line.
type SegmentStep = (u16, u32, u16, Fate);

fn segment_steps(fate: impl Strategy<Value = Fate>) -> impl Strategy<Value = Vec<SegmentStep>> {
    prop::collection::vec((0..3_u16, 0..300_u32, 0..300_u16, fate), 1..60)
}

/// Sends segments with `piece` bytes of data on three connections. The other fields grow by less
/// than 65,535 in total, so that every lost change alters the checksum. Returns the decompressed
/// segments that have a correct checksum but were never sent.
fn undetected_errors(mut ends: Ends, piece: u16, segment_steps: &[SegmentStep]) -> Vec<Vec<u8>> {
    let data = vec![b'd'; usize::from(piece)];
    let mut connections: Vec<Segment> =
        (0..3).map(|port| Segment { port, data: data.clone(), ..Segment::default() }).collect();
    let mut sent = Vec::new();
    let mut undetected_errors = Vec::new();
    for (port, acknowledgment, window, fate) in segment_steps {
        let next = &mut connections[usize::from(*port)];
        next.sequence += u32::from(piece);
        next.acknowledgment += acknowledgment;
        next.window += window;
        next.identification += 1;
        let datagram = next.datagram();
        // The IP headers are not compared, because no transmitted checksum covers the IP
        // identification.
        sent.push(datagram[20..].to_vec());
        let (kind, bytes) = ends.compress(&datagram);
        match fate {
            Fate::UnnoticedLoss => {}
            Fate::NoticedLoss => ends.decompressor.packet_lost(),
            Fate::Delivered => {
                let decompressed = ends.decompress(kind, &bytes);
                let good = decompressed.ok().filter(|decompressed| has_good_checksum(decompressed));
                let segment = good.map(|decompressed| decompressed[20..].to_vec());
                undetected_errors.extend(segment.filter(|segment| !sent.contains(segment)));
            }
        }
    }
    undetected_errors
}

/// Returns segments of three connections. The segments that contain the slot numbers of connections
/// 0 and 1 have the fate `loss`.
fn with_lost_slot_numbers(loss: Fate) -> [SegmentStep; 14] {
    let arrives = Fate::Delivered;
    [
        (2, 185, 25, arrives),
        (2, 101, 8, arrives),
        (2, 206, 88, arrives),
        (1, 60, 245, loss),
        (1, 97, 63, loss),
        (1, 105, 114, loss),
        (2, 0, 0, arrives),
        (1, 205, 111, loss),
        (1, 147, 44, loss),
        (2, 98, 55, arrives),
        (0, 0, 0, loss),
        (0, 237, 294, arrives),
        (1, 85, 22, loss),
        (1, 0, 1, arrives),
    ]
}

#[test]
fn detected_losses_cause_no_undetected_error() {
    let segment_steps = with_lost_slot_numbers(Fate::NoticedLoss);
    assert_eq!(undetected_errors(Ends::default(), 0, &segment_steps), [[0; 0]; 0]);
}

#[test]
fn explicit_slot_numbers_prevent_undetected_errors() {
    let ends = Ends { compressor: Compressor::new(SLOTS_MAX, false), ..Ends::default() };
    let segment_steps = with_lost_slot_numbers(Fate::UnnoticedLoss);
    assert_eq!(undetected_errors(ends, 0, &segment_steps), [[0; 0]; 0]);
}

// RFC 1332 §4: the slot number must not be omitted if the link does not report errors.
#[test]
fn an_undetected_loss_of_a_slot_number_may_produce_a_valid_checksum() {
    let segment_steps = with_lost_slot_numbers(Fate::UnnoticedLoss);
    let undetected_errors = undetected_errors(Ends::default(), 0, &segment_steps);
    let ports: Vec<_> = undetected_errors.iter().map(|segment| [segment[0], segment[1]]).collect();
    assert_eq!(ports, [[0, 2]], "the changes of another connection, applied to connection 2");
}

proptest! {
    #[test]
    fn any_sequence_of_segments_is_decompressed_unchanged(
        segments in segments(),
        slots in 1..=SLOTS_MAX,
        may_omit_slot: bool,
    ) {
        let compressor = Compressor::new(slots, may_omit_slot);
        let decompressor = Decompressor::new(slots);
        let mut ends = Ends { compressor, decompressor, context: OwnedCx::default() };
        for segment in &segments {
            ends.transfer(segment);
        }
    }

    // After a detected loss the decompressor tosses segments that do not contain their slot number.
    // The only remaining error is an outdated slot.
    #[test]
    fn detected_losses_never_produce_a_valid_segment_that_was_not_sent(
        segment_steps in segment_steps(prop_oneof![Just(Fate::NoticedLoss), Just(Fate::Delivered)]),
        piece in 0..300_u16,
    ) {
        prop_assert_eq!(undetected_errors(Ends::default(), piece, &segment_steps), [[0; 0]; 0]);
    }

    #[test]
    fn with_explicit_slots_no_loss_produces_a_valid_segment_that_was_not_sent(
        segment_steps in segment_steps(prop_oneof![
            Just(Fate::UnnoticedLoss), Just(Fate::NoticedLoss), Just(Fate::Delivered),
        ]),
        piece in 0..300_u16,
    ) {
        let ends = Ends { compressor: Compressor::new(SLOTS_MAX, false), ..Ends::default() };
        prop_assert_eq!(undetected_errors(ends, piece, &segment_steps), [[0; 0]; 0]);
    }

    #[test]
    fn any_bytes_are_decompressed_or_rejected(
        pieces in prop::collection::vec(
            (0..3_u8, prop::collection::vec(any::<u8>(), 0..100)), 0..30),
    ) {
        let mut ends = Ends::default();
        ends.transfer(&Segment::default());
        for (kind, bytes) in pieces {
            let kind = [Kind::Ip, Kind::UncompressedTcp, Kind::CompressedTcp][usize::from(kind)];
            _ = ends.compress(&bytes);
            if let Ok(decompressed) = ends.decompress(kind, &bytes) && kind != Kind::Ip {
                prop_assert!(Headers::read(&decompressed).is_some());
            }
        }
    }
}
