//! The receiving direction of LLP: REQ, the ACK of this end, escaped bytes, END.

use super::codes::{
    ADDRESS_HEADER, COMPRESSED_TCP, ESC, IP_HEADER, PACKET_TIMEOUT, UNCOMPRESSED_TCP_HEADER,
};
use crate::cx::Cx;
use crate::link::queue::UsedQueue;
use crate::link::vj::{Decompressor, Kind, SLOTS_MAX};
use crate::meter::Counter;
use crate::packet::{Packet, Pool};
use crate::time::Instant;

/// The state of the receiving direction, between packets or inside one.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    incoming: Option<Incoming>,
    /// The buffer of a packet that timed out. It is returned to the pool, or used for the next REQ.
    spare: Option<Packet>,
    /// Decompresses headers, if both ends are configured for header compression.
    pub(super) decompressor: Option<Decompressor>,
}

/// A packet from its REQ to its END.
#[derive(Debug)]
struct Incoming {
    packet: Packet,
    started_at: Instant,
    /// Whether the last byte was ESC.
    is_escaped: bool,
    /// Whether the ACK has not been sent yet.
    must_acknowledge: bool,
}

/// A received packet that the link itself processes: an address request or its answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Local {
    /// The peer requests its address.
    Request,
    /// The peer reports the local address.
    Reply([u8; 4]),
}

impl Receiver {
    /// Processes a REQ: starts the reception of a packet, or restarts it.
    pub(super) fn request(&mut self, used: &UsedQueue, pool: &mut Pool, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::LlpRequestsIn);
        if let Some(incoming) = self.incoming.take() {
            // A REQ that is repeated before the first byte of the packet only means that the ACK
            // was late or lost.
            if incoming.is_escaped || !incoming.packet.is_empty() {
                cx.meter.count(Counter::LlpRequestsInPacket);
                self.packet_lost();
            }
            self.incoming = Some(Incoming::new(incoming.packet, cx.now));
            return;
        }
        if used.is_full() {
            return cx.meter.count(Counter::LlpRequestsRefused);
        }
        let Some(packet) = self.spare.take().or_else(|| pool.take(cx.meter)) else {
            return cx.meter.count(Counter::LlpRequestsRefused);
        };
        self.incoming = Some(Incoming::new(packet, cx.now));
    }

    /// Processes consecutive ordinary bytes of a packet. `mtu` is the maximum length of its data.
    pub(super) fn data(&mut self, run: &[u8], mtu: usize, pool: &mut Pool, cx: &mut Cx<'_>) {
        let Some(incoming) = &mut self.incoming else {
            return cx.meter.add(Counter::LinkBytesUnexpected, run.len() as u64);
        };
        if let Err(fault) = incoming.add(run, mtu, cx) {
            self.drop_packet(fault, pool, cx);
        }
    }

    /// Processes an ESC.
    pub(super) fn escape(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) {
        let Some(incoming) = &mut self.incoming else {
            return cx.meter.count(Counter::LinkBytesUnexpected);
        };
        if incoming.is_escaped {
            return self.drop_packet(Counter::LinkEscapesWrong, pool, cx);
        }
        incoming.is_escaped = true;
    }

    /// Counts an ACK that follows an ESC, which violates the protocol. The caller gives every ACK
    /// to the sender.
    ///
    /// The ACK does not change the packet: the next byte is still the second byte of the escape.
    pub(super) fn check_acknowledgment(&self, cx: &mut Cx<'_>) {
        if self.incoming.as_ref().is_some_and(|incoming| incoming.is_escaped) {
            cx.meter.count(Counter::LinkEscapesWrong);
        }
    }

    /// Processes an END: queues a received datagram in `used`, or returns a packet that the link
    /// itself processes.
    pub(super) fn end(
        &mut self,
        used: &mut UsedQueue,
        mtu: usize,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Local> {
        let Some(Incoming { mut packet, is_escaped, .. }) = self.incoming.take() else {
            cx.meter.count(Counter::LinkBytesUnexpected);
            return None;
        };
        if is_escaped {
            cx.meter.count(Counter::LinkEscapesWrong);
            self.packet_lost();
            pool.put(packet);
            return None;
        }
        cx.meter.count(Counter::LinkPacketsIn);
        if let Some(kind) = self.compressed_kind(packet.data()) {
            if kind == Kind::UncompressedTcp {
                packet.pull(UNCOMPRESSED_TCP_HEADER.len());
            }
            self.decompress(kind, packet, mtu, used, pool, cx);
            return None;
        }
        let local = match packet.data().split_first_chunk() {
            Some((&IP_HEADER, _)) => {
                packet.pull(IP_HEADER.len());
                used.push(packet);
                return None;
            }
            Some((&ADDRESS_HEADER, [])) => Some(Local::Request),
            Some((&ADDRESS_HEADER, &[a, b, c, d])) => Some(Local::Reply([a, b, c, d])),
            _ => {
                cx.meter.count(Counter::LinkHeadersUnknown);
                None
            }
        };
        pool.put(packet);
        local
    }

    /// Returns the kind of compressed headers in a packet, or `None` if the headers are unchanged.
    fn compressed_kind(&self, packet: &[u8]) -> Option<Kind> {
        self.decompressor.as_ref()?;
        if packet.first()? & COMPRESSED_TCP != 0 {
            return Some(Kind::CompressedTcp);
        }
        packet.starts_with(&UNCOMPRESSED_TCP_HEADER).then_some(Kind::UncompressedTcp)
    }

    fn decompress(
        &mut self,
        kind: Kind,
        packet: Packet,
        mtu: usize,
        used: &mut UsedQueue,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) {
        let mut packet = packet;
        let decompressor = self.decompressor.as_mut();
        let decompressed = decompressor.map(|vj| vj.decompress(kind, &mut packet, cx.meter));
        if !matches!(decompressed, Some(Ok(()))) {
            return pool.put(packet);
        }
        if packet.len() > mtu {
            cx.meter.count(Counter::LinkPacketsTooLong);
            return pool.put(packet);
        }
        used.push(packet);
    }

    /// Notifies the decompressor of a lost packet.
    fn packet_lost(&mut self) {
        if let Some(decompressor) = &mut self.decompressor {
            decompressor.packet_lost();
        }
    }

    fn drop_packet(&mut self, fault: Counter, pool: &mut Pool, cx: &mut Cx<'_>) {
        cx.meter.count(fault);
        self.packet_lost();
        if let Some(incoming) = self.incoming.take() {
            pool.put(incoming.packet);
        }
    }

    /// Returns whether an ACK is pending.
    pub(super) fn must_acknowledge(&self) -> bool {
        self.incoming.as_ref().is_some_and(|incoming| incoming.must_acknowledge)
    }

    /// Returns whether an ACK is pending, and marks it as sent.
    pub(super) fn take_pending_acknowledgment(&mut self) -> bool {
        let Some(incoming) = &mut self.incoming else { return false };
        core::mem::take(&mut incoming.must_acknowledge)
    }

    /// Returns when the packet must be complete.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.incoming.as_ref().map(|incoming| incoming.started_at + PACKET_TIMEOUT)
    }

    /// Drops a packet that timed out.
    pub(super) fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.deadline().is_none_or(|deadline| cx.now < deadline) {
            return;
        }
        cx.meter.count(Counter::LlpPacketTimeouts);
        self.packet_lost();
        self.spare = self.incoming.take().map(|incoming| incoming.packet);
    }

    /// Returns the buffer of a packet that timed out to the pool.
    pub(super) fn return_spare(&mut self, pool: &mut Pool) {
        if let Some(packet) = self.spare.take() {
            pool.put(packet);
        }
    }

    /// Returns every buffer to the pool.
    pub(super) fn reset(&mut self, pool: &mut Pool) {
        self.return_spare(pool);
        if let Some(incoming) = self.incoming.take() {
            pool.put(incoming.packet);
        }
        if let Some(decompressor) = &mut self.decompressor {
            *decompressor = Decompressor::new(SLOTS_MAX);
        }
    }
}

impl Incoming {
    fn new(mut packet: Packet, now: Instant) -> Self {
        // The local header is stored in the headroom, so that it takes no space from the datagram.
        packet.clear();
        packet.push(&IP_HEADER);
        packet.resize(0);
        Self { packet, started_at: now, is_escaped: false, must_acknowledge: true }
    }

    /// Appends `run` to the data. If the packet is invalid, returns the counter of the error.
    fn add(&mut self, run: &[u8], mtu: usize, cx: &mut Cx<'_>) -> Result<(), Counter> {
        let mut run = run;
        let room = self
            .packet
            .room()
            .min(mtu.saturating_add(IP_HEADER.len()).saturating_sub(self.packet.len()));
        if run.len() > room {
            return Err(Counter::LinkPacketsTooLong);
        }
        if self.is_escaped
            && let Some((second, rest)) = run.split_first()
        {
            let (0..=3) = *second else { return Err(Counter::LinkEscapesWrong) };
            cx.meter.count(Counter::LinkEscapesIn);
            self.packet.extend(&[ESC + second]);
            self.is_escaped = false;
            run = rest;
        }
        self.packet.extend(run);
        Ok(())
    }
}
