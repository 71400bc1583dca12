//! SLIP (RFC 1055): an escaped datagram between two END bytes.
//!
//! Theory of operation. END (192) ends a packet. A data byte END is sent as ESC ESC_END, and a data
//! byte ESC as ESC ESC_ESC. As the RFC advises, a packet also begins with END, which ends any noise
//! received from the line, and an empty packet is ignored. There is no handshake, no header and no
//! checksum. The protocol has no timers, so there is no deadline.
//!
//! A buffer is allocated from the pool at the first byte of a packet. If no buffer is free or the
//! used queue is full, the packet is counted and skipped up to its END.
//!
//! If an invalid byte follows ESC, the RFC's sample code keeps it in the packet. Here the packet is
//! counted and dropped instead: it is known to be damaged, and a UDP datagram without a checksum
//! would deliver the damage to a user. An END always ends the packet, even after ESC, so that two
//! packets are never merged. The RFC's sample code truncates a packet that is too long; here such a
//! packet is dropped, too.
//!
//! With header compression (CSLIP) the first byte of a packet identifies its kind (RFC 1144
//! §3.2.3). The upper half of this byte is the IP version, 4 or 6, in an ordinary datagram. It is 7
//! in a TCP segment with uncompressed headers, whose headers the peer stores in a slot. In a
//! compressed segment the uppermost bit of the byte is set. Both ends must be configured for header
//! compression, because SLIP has no negotiation.

use super::queue::{OutputQueue, UsedQueue};
use super::stuffing::{Code, Stuffing};
use super::vj::{Compressor, Decompressor, Kind, SLOTS_MAX};
use super::{Event, QUEUE_LIMIT, charged};
use crate::cx::Cx;
use crate::meter::Counter;
use crate::packet::{Packet, Pool};
use crate::time::Instant;
use alloc::vec::Vec;

/// Marks the end of a packet, and also its beginning.
pub const END: u8 = 192;
/// Precedes [`ESC_END`] or [`ESC_ESC`].
pub const ESC: u8 = 219;
/// After ESC, represents the data byte END.
pub const ESC_END: u8 = 220;
/// After ESC, represents the data byte ESC.
pub const ESC_ESC: u8 = 221;

/// Bit in the first byte of a packet: TCP with compressed headers.
const COMPRESSED_TCP: u8 = 0x80;
/// Value of the first byte's upper half in a TCP segment with uncompressed headers. The protocol
/// field of that segment contains a slot number.
const UNCOMPRESSED_TCP: u8 = 0x70;
/// Mask that changes the upper half of the first byte from 7 ([`UNCOMPRESSED_TCP`]) to IP version
/// 4.
const VERSION_4: u8 = 0x4F;

const CODE: Code = Code { ordinary_run, escape };

/// One end of a serial line with SLIP.
#[derive(Debug)]
pub struct Slip {
    incoming: Incoming,
    outgoing: Option<Outgoing>,
    used: UsedQueue,
    output: OutputQueue,
    compression: Option<Compression>,
}

/// State of the header compression in both directions.
#[derive(Debug)]
struct Compression {
    compressor: Compressor,
    decompressor: Decompressor,
}

impl Default for Compression {
    fn default() -> Self {
        Self {
            compressor: Compressor::new(SLOTS_MAX, true),
            decompressor: Decompressor::new(SLOTS_MAX),
        }
    }
}

/// The state of the input.
#[derive(Debug, Default)]
enum Incoming {
    /// No bytes since the last END.
    #[default]
    Empty,
    Packet {
        packet: Packet,
        /// Whether the last byte was ESC.
        is_escaped: bool,
    },
    /// A packet was dropped, and its END has not arrived.
    Skipping,
}

#[derive(Debug)]
struct Outgoing {
    packet: Packet,
    stuffing: Stuffing,
}

impl Slip {
    /// Returns a link for datagrams of at most `mtu` bytes, with queues of [`QUEUE_LIMIT`] packets.
    #[must_use]
    pub fn new(mtu: usize) -> Self {
        Self::with_queue_limit(mtu, QUEUE_LIMIT)
    }

    /// Returns a link for datagrams of at most `mtu` bytes, with queues of `limit` packets.
    #[must_use]
    pub fn with_queue_limit(mtu: usize, limit: usize) -> Self {
        Self {
            incoming: Incoming::Empty,
            outgoing: None,
            used: UsedQueue::new(limit),
            output: OutputQueue::new(mtu, limit),
            compression: None,
        }
    }

    /// Enables the compression of TCP headers (RFC 1144). The peer must enable it too.
    #[must_use]
    pub fn with_header_compression(self) -> Self {
        Self { compression: Some(Compression::default()), ..self }
    }

    /// Processes bytes from the line, split anywhere.
    pub fn receive(&mut self, bytes: &[u8], pool: &mut Pool, cx: &mut Cx<'_>) {
        charged(cx, |cx| self.take_apart(bytes, pool, cx));
    }

    fn take_apart(&mut self, bytes: &[u8], pool: &mut Pool, cx: &mut Cx<'_>) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let run = match self.incoming {
                Incoming::Skipping => memchr::memchr(END, rest).unwrap_or(rest.len()),
                Incoming::Empty | Incoming::Packet { .. } => ordinary_run(rest),
            };
            let (run, tail) = rest.split_at(run);
            if !run.is_empty() {
                self.add(run, pool, cx);
            }
            match tail.split_first() {
                Some((&END, after)) => {
                    self.end(pool, cx);
                    rest = after;
                }
                Some((_, after)) => {
                    self.escape(pool, cx);
                    rest = after;
                }
                None => return,
            }
        }
    }

    /// Processes consecutive bytes without END and ESC.
    fn add(&mut self, run: &[u8], pool: &mut Pool, cx: &mut Cx<'_>) {
        self.begin(pool, cx);
        let Incoming::Packet { packet, is_escaped } = &mut self.incoming else { return };
        let mut run = run;
        let room = packet.room().min(self.output.mtu().saturating_sub(packet.len()));
        if run.len() > room {
            return self.drop_packet(Counter::LinkPacketsTooLong, pool, cx);
        }
        if *is_escaped && let Some((second, rest)) = run.split_first() {
            let byte = match *second {
                ESC_END => END,
                ESC_ESC => ESC,
                _ => return self.drop_packet(Counter::LinkEscapesWrong, pool, cx),
            };
            cx.meter.count(Counter::LinkEscapesIn);
            packet.extend(&[byte]);
            *is_escaped = false;
            run = rest;
        }
        packet.extend(run);
    }

    fn escape(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) {
        self.begin(pool, cx);
        let Incoming::Packet { is_escaped, .. } = &mut self.incoming else { return };
        if *is_escaped {
            return self.drop_packet(Counter::LinkEscapesWrong, pool, cx);
        }
        *is_escaped = true;
    }

    /// Allocates a buffer at the first byte of a packet. If no buffer is free, skips the packet.
    fn begin(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) {
        let Incoming::Empty = self.incoming else { return };
        let packet = if self.used.is_full() {
            cx.meter.count(Counter::LinkPacketsRefused);
            None
        } else {
            pool.take(cx.meter)
        };
        self.incoming = match packet {
            Some(packet) => Incoming::Packet { packet, is_escaped: false },
            None => Incoming::Skipping,
        };
        if let Incoming::Skipping = self.incoming {
            self.packet_lost();
        }
    }

    fn end(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) {
        let Incoming::Packet { mut packet, is_escaped } = core::mem::take(&mut self.incoming)
        else {
            return;
        };
        if is_escaped {
            cx.meter.count(Counter::LinkEscapesWrong);
            self.packet_lost();
            return pool.put(packet);
        }
        cx.meter.count(Counter::LinkPacketsIn);
        if !self.decompress(&mut packet, cx) {
            return pool.put(packet);
        }
        self.used.push(packet);
    }

    /// Converts a received packet into a datagram. Returns false if that is impossible.
    fn decompress(&mut self, packet: &mut Packet, cx: &mut Cx<'_>) -> bool {
        let Some(Compression { decompressor, .. }) = &mut self.compression else { return true };
        let Some(first) = packet.data_mut().first_mut() else { return true };
        let kind = if *first & COMPRESSED_TCP != 0 {
            Kind::CompressedTcp
        } else if *first & 0xF0 == UNCOMPRESSED_TCP {
            *first &= VERSION_4;
            Kind::UncompressedTcp
        } else {
            return true;
        };
        if decompressor.decompress(kind, packet, cx.meter).is_err() {
            return false;
        }
        let fits = packet.len() <= self.output.mtu();
        if !fits {
            cx.meter.count(Counter::LinkPacketsTooLong);
        }
        fits
    }

    /// Notifies the decompressor of a lost packet.
    fn packet_lost(&mut self) {
        if let Some(Compression { decompressor, .. }) = &mut self.compression {
            decompressor.packet_lost();
        }
    }

    fn drop_packet(&mut self, fault: Counter, pool: &mut Pool, cx: &mut Cx<'_>) {
        cx.meter.count(fault);
        self.packet_lost();
        let dropped = core::mem::replace(&mut self.incoming, Incoming::Skipping);
        if let Incoming::Packet { packet, .. } = dropped {
            pool.put(packet);
        }
    }

    /// Queues a datagram for output.
    ///
    /// # Errors
    ///
    /// Returns the packet, and counts it, if it is longer than the MTU or the queue is full.
    pub fn send(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Result<(), Packet> {
        charged(cx, |cx| self.output.accept(packet, cx))
    }

    /// Appends at most `limit` bytes for the line, and returns their number.
    pub fn transmit_into(&mut self, wire: &mut Vec<u8>, limit: usize, cx: &mut Cx<'_>) -> usize {
        charged(cx, |cx| {
            let start = wire.len();
            let end = start.saturating_add(limit);
            while wire.len() < end {
                let before = wire.len();
                self.fill(wire, end - before, cx);
                if wire.len() == before {
                    break;
                }
            }
            wire.len() - start
        })
    }

    /// Appends at most `max_bytes` bytes of one packet.
    fn fill(&mut self, wire: &mut Vec<u8>, max_bytes: usize, cx: &mut Cx<'_>) {
        let Some(Outgoing { packet, stuffing }) = &mut self.outgoing else {
            let Some(mut packet) = self.output.next() else { return };
            self.compress(&mut packet, cx);
            self.outgoing = Some(Outgoing { packet, stuffing: Stuffing::default() });
            return wire.push(END);
        };
        let end = wire.len().saturating_add(max_bytes);
        let escapes = stuffing.fill(packet.data(), &CODE, wire, max_bytes);
        cx.meter.add(Counter::LinkEscapesOut, escapes);
        if wire.len() == end {
            return;
        }
        wire.push(END);
        cx.meter.count(Counter::LinkPacketsOut);
        if let Some(Outgoing { packet, .. }) = self.outgoing.take() {
            self.output.finish(Event::Sent(packet));
        }
    }

    /// Compresses the headers, and marks the kind of the packet in its first byte.
    fn compress(&mut self, packet: &mut Packet, cx: &mut Cx<'_>) {
        let Some(Compression { compressor, .. }) = &mut self.compression else { return };
        let mark = match compressor.compress(packet, cx.meter) {
            Kind::Ip => return,
            Kind::UncompressedTcp => UNCOMPRESSED_TCP,
            Kind::CompressedTcp => COMPRESSED_TCP,
        };
        if let Some(first) = packet.data_mut().first_mut() {
            *first |= mark;
        }
    }

    /// Returns whether the output queue is full, so that [`Self::send`] would reject a packet.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.output.is_full()
    }

    /// Returns the next event; call until there is none.
    pub fn event(&mut self) -> Option<Event> {
        self.output.event().or_else(|| self.used.event())
    }

    /// Returns `None`: SLIP has no timers.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Does nothing.
    pub fn timeout(&mut self, _cx: &mut Cx<'_>) {}

    /// Returns the length of the longest datagram, in bytes.
    #[must_use]
    pub fn mtu(&self) -> usize {
        self.output.mtu()
    }

    /// Returns whether a received datagram is queued among the events.
    #[must_use]
    pub fn has_received(&self) -> bool {
        !self.used.is_empty()
    }

    /// Returns whether there is something to transmit now.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.outgoing.is_some() || self.output.is_waiting()
    }

    /// Drops everything in progress and returns every buffer to the pool, because the line hung up.
    pub fn reset(&mut self, pool: &mut Pool) {
        if let Incoming::Packet { packet, .. } = core::mem::take(&mut self.incoming) {
            pool.put(packet);
        }
        if let Some(outgoing) = self.outgoing.take() {
            pool.put(outgoing.packet);
        }
        self.used.reset(pool);
        self.output.reset(pool);
        if let Some(compression) = &mut self.compression {
            *compression = Compression::default();
        }
    }
}

/// Returns the number of bytes before the first END or ESC.
fn ordinary_run(bytes: &[u8]) -> usize {
    memchr::memchr2(END, ESC, bytes).unwrap_or(bytes.len())
}

fn escape(byte: u8) -> [u8; 2] {
    [ESC, if byte == END { ESC_END } else { ESC_ESC }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::OwnedCx;
    use crate::link::vj::testing::segment_with_byte;
    use proptest::prelude::*;

    const MTU: usize = 60;

    /// Passes `bytes` to the link, and returns the received packets.
    fn received(
        slip: &mut Slip,
        bytes: &[u8],
        pool: &mut Pool,
        context: &mut OwnedCx,
    ) -> Vec<Vec<u8>> {
        slip.receive(bytes, pool, &mut context.cx());
        let packets: Vec<Packet> =
            core::iter::from_fn(|| slip.event()).filter_map(Event::into_packet).collect();
        packets
            .into_iter()
            .map(|packet| {
                let data = packet.data().to_vec();
                pool.put(packet);
                data
            })
            .collect()
    }

    #[test]
    fn a_packet_with_both_special_bytes_is_escaped_as_in_the_rfc() {
        let mut slip = Slip::new(MTU);
        let mut context = OwnedCx::default();
        slip.send(Packet::from_slice(&[1, 192, 2, 219, 220, 221]), &mut context.cx()).unwrap();
        let mut wire = Vec::new();
        slip.transmit_into(&mut wire, 100, &mut context.cx());
        assert_eq!(wire, [192, 1, 219, 220, 2, 219, 221, 220, 221, 192]);
        assert_eq!(context.counted(Counter::LinkEscapesOut), 2);
        assert!(matches!(slip.event(), Some(Event::Sent(_))));
    }

    #[test]
    fn an_escape_with_an_invalid_second_byte_drops_only_its_packet() {
        let mut slip = Slip::new(MTU);
        let mut context = OwnedCx::default();
        let mut pool = Pool::new(4, MTU);
        let wire = [192, 1, 219, 9, 2, 219, 220, 192, 192, 7, 192];
        assert_eq!(received(&mut slip, &wire, &mut pool, &mut context), [[7]]);
        assert_eq!((pool.lent(), context.counted(Counter::LinkEscapesWrong)), (0, 1));
    }

    #[test]
    fn an_end_after_esc_ends_the_packet_and_drops_it() {
        let mut slip = Slip::new(MTU);
        let mut context = OwnedCx::default();
        let mut pool = Pool::new(4, MTU);
        assert_eq!(received(&mut slip, &[1, 219, 192, 7, 192], &mut pool, &mut context), [[7]]);
        assert_eq!((pool.lent(), context.counted(Counter::LinkEscapesWrong)), (0, 1));
    }

    #[test]
    fn an_escape_after_an_escape_drops_the_packet() {
        let mut slip = Slip::new(MTU);
        let mut context = OwnedCx::default();
        let mut pool = Pool::new(4, MTU);
        assert_eq!(
            received(&mut slip, &[1, 219, 219, 221, 192, 7, 192], &mut pool, &mut context),
            [[7]]
        );
        assert_eq!((pool.lent(), context.counted(Counter::LinkEscapesWrong)), (0, 1));
    }

    #[test]
    fn a_packet_longer_than_the_mtu_is_dropped_and_the_next_one_is_received() {
        let mut slip = Slip::new(3);
        let mut context = OwnedCx::default();
        let mut pool = Pool::new(4, MTU);
        let wire = [1, 2, 3, 4, 219, 220, 5, 192, 1, 2, 219, 221, 192];
        assert_eq!(received(&mut slip, &wire, &mut pool, &mut context), [[1, 2, 219]]);
        assert_eq!((pool.lent(), context.counted(Counter::LinkPacketsTooLong)), (0, 1));
    }

    #[test]
    fn a_packet_one_byte_longer_than_the_mtu_is_too_long() {
        let mut slip = Slip::new(3);
        let mut context = OwnedCx::default();
        let mut pool = Pool::new(4, MTU);
        let wire = [1, 2, 3, 4, 192, 1, 2, 3, 192];
        assert_eq!(received(&mut slip, &wire, &mut pool, &mut context), [[1, 2, 3]]);
        assert_eq!((pool.lent(), context.counted(Counter::LinkPacketsTooLong)), (0, 1));
    }

    #[test]
    fn empty_packets_are_ignored_and_use_no_buffer() {
        let mut slip = Slip::new(MTU);
        let mut context = OwnedCx::default();
        let mut pool = Pool::new(0, MTU);
        assert!(received(&mut slip, &[192; 20], &mut pool, &mut context).is_empty());
        assert_eq!(context.counted(Counter::PacketsRefused), 0);
    }

    #[test]
    fn a_packet_without_a_buffer_is_skipped_whole_and_counted_once() {
        let mut slip = Slip::new(MTU);
        let mut context = OwnedCx::default();
        let mut pool = Pool::new(0, MTU);
        assert!(received(&mut slip, &[1, 219, 220, 3, 192], &mut pool, &mut context).is_empty());
        assert_eq!(context.counted(Counter::PacketsRefused), 1);
    }

    #[test]
    fn a_full_used_queue_skips_the_packet_and_counts_it() {
        let mut slip = Slip::with_queue_limit(MTU, 1);
        let mut context = OwnedCx::default();
        let mut pool = Pool::new(4, MTU);
        assert_eq!(received(&mut slip, &[1, 192, 2, 192], &mut pool, &mut context), [[1]]);
        assert_eq!((pool.lent(), context.counted(Counter::LinkPacketsRefused)), (0, 1));
    }

    #[test]
    fn a_full_output_queue_rejects_packets_until_one_is_collected() {
        let mut slip = Slip::with_queue_limit(MTU, 1);
        let mut context = OwnedCx::default();
        slip.send(Packet::from_slice(b"a"), &mut context.cx()).unwrap();
        slip.transmit_into(&mut Vec::new(), 100, &mut context.cx());
        let refused = slip.send(Packet::from_slice(b"b"), &mut context.cx()).unwrap_err();
        assert_eq!(context.counted(Counter::LinkPacketsDropped), 1);
        slip.event().unwrap();
        slip.send(refused, &mut context.cx()).unwrap();
    }

    #[test]
    fn reset_returns_every_buffer() {
        let mut slip = Slip::new(MTU);
        let mut context = OwnedCx::default();
        let mut pool = Pool::new(8, MTU);
        slip.receive(&[1, 192, 2], &mut pool, &mut context.cx());
        slip.send(pool.take(&mut context.meter).unwrap(), &mut context.cx()).unwrap();
        slip.send(pool.take(&mut context.meter).unwrap(), &mut context.cx()).unwrap();
        slip.transmit_into(&mut Vec::new(), 1, &mut context.cx());
        assert_eq!(pool.lent(), 4);
        slip.reset(&mut pool);
        assert_eq!(pool.lent(), 0);
        assert!(!slip.has_output());
    }

    #[test]
    fn the_first_byte_identifies_the_kind_of_a_compressed_packet() {
        let mut context = OwnedCx::default();
        let mut pool = Pool::new(4, MTU);
        let [mut a, mut b] = [0, 1].map(|_| Slip::new(MTU).with_header_compression());
        let mut first_bytes = Vec::new();
        for identification in 0..3 {
            let segment = segment_with_byte(identification);
            a.send(Packet::from_slice(&segment), &mut context.cx()).unwrap();
            let mut wire = Vec::new();
            a.transmit_into(&mut wire, 100, &mut context.cx());
            first_bytes.push((wire[1], wire.len()));
            assert_eq!(received(&mut b, &wire, &mut pool, &mut context), [segment]);
        }
        assert_eq!(first_bytes, [(0x75, 43), (0x8B, 6), (0x8B, 6)]);
    }

    #[test]
    fn compressed_packets_are_tossed_after_damage_until_an_uncompressed_one() {
        let mut context = OwnedCx::default();
        let mut pool = Pool::new(4, MTU);
        let mut slip = Slip::new(MTU).with_header_compression();
        received(&mut slip, &[ESC, 0, END, 0x8B, 1, 2, b'x', END], &mut pool, &mut context);
        assert_eq!((context.counted(Counter::VjTossed), pool.lent()), (1, 0));
    }

    proptest! {
        #[test]
        fn any_noise_on_a_line_with_header_compression_loses_no_buffer(
            noise in prop::collection::vec(
                prop_oneof![any::<u8>(), Just(END), Just(0x75), Just(0xCB)], 0..300),
        ) {
            let mut context = OwnedCx::default();
            let mut pool = Pool::new(2, MTU);
            let mut slip = Slip::new(MTU).with_header_compression();
            let wire = [END, 0x75, END].into_iter().chain(noise).chain([END]);
            for packet in received(&mut slip, &wire.collect::<Vec<_>>(), &mut pool, &mut context) {
                prop_assert!((1..=MTU).contains(&packet.len()));
            }
            prop_assert_eq!(pool.lent(), 0);
        }

        #[test]
        fn packets_arrive_complete_and_in_order_for_any_split(
            packets in prop::collection::vec(
                prop::collection::vec(prop_oneof![any::<u8>(), Just(END), Just(ESC)], 1..MTU),
                0..6,
            ),
            limits in prop::collection::vec(1..20_usize, 1..30),
        ) {
            let mut a = Slip::new(MTU);
            let mut b = Slip::new(MTU);
            let mut context = OwnedCx::default();
            let mut pool = Pool::new(4, MTU);
            for packet in &packets {
                a.send(Packet::from_slice(packet), &mut context.cx()).unwrap();
            }
            let mut delivered = Vec::new();
            let mut limits = limits.iter().cycle();
            while a.has_output() {
                let mut wire = Vec::new();
                let limit = *limits.next().unwrap();
                let sent = a.transmit_into(&mut wire, limit, &mut context.cx());
                prop_assert!((1..=limit).contains(&sent) && sent == wire.len());
                delivered.extend(received(&mut b, &wire, &mut pool, &mut context));
            }
            prop_assert_eq!(delivered, packets);
            prop_assert_eq!(pool.lent(), 0);
        }

        #[test]
        fn after_any_noise_an_end_byte_resynchronizes_and_no_buffer_is_lost(
            noise in prop::collection::vec(
                prop_oneof![any::<u8>(), Just(END), Just(ESC), ESC_END..=ESC_ESC],
                0..300,
            ),
            pieces in 1..50_usize,
        ) {
            let mut slip = Slip::new(MTU);
            let mut context = OwnedCx::default();
            let mut pool = Pool::new(2, MTU);
            for piece in noise.chunks(pieces) {
                received(&mut slip, piece, &mut pool, &mut context);
            }
            received(&mut slip, &[END], &mut pool, &mut context);
            prop_assert_eq!(pool.lent(), 0);
            let packets = received(&mut slip, &[END, 5, 6, END], &mut pool, &mut context);
            prop_assert_eq!(packets, [[5, 6]]);
        }
    }
}
