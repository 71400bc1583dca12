//! The sending direction of LLP: REQ, the peer's ACK, escaped bytes, END.

use super::codes::{
    ACK_TIMEOUT, ADDRESS_HEADER, ADDRESS_TIMEOUT, COMPRESSED_TCP, END, ESC, IP_HEADER,
    PACKET_TIMEOUT, REQ, RETRIES, UNCOMPRESSED_TCP_HEADER, ordinary_run,
};
use crate::cx::Cx;
use crate::link::Event;
use crate::link::queue::OutputQueue;
use crate::link::stuffing::{Code, Stuffing};
use crate::link::vj::{Compressor, Kind};
use crate::meter::{Counter, Quantity};
use crate::packet::{Packet, Pool};
use crate::time::Instant;
use alloc::vec::Vec;

const CODE: Code = Code { ordinary_run, escape };

fn escape(byte: u8) -> [u8; 2] {
    [ESC, byte.wrapping_sub(ESC)]
}

/// The state of the sending direction, between packets or inside one.
#[derive(Debug, Default)]
pub(super) struct Sender {
    outgoing: Option<Outgoing>,
    address_request: AddressRequestState,
    /// The address to report to the peer. Its transmission has not started.
    reply: Option<[u8; 4]>,
    /// Compresses headers, if both ends are configured for header compression.
    pub(super) compressor: Option<Compressor>,
}

/// A packet from its REQ to its END.
#[derive(Debug)]
struct Outgoing {
    content: Content,
    phase: Phase,
}

#[derive(Debug)]
enum Content {
    /// A datagram. `packet` begins with the local header of `header_len` bytes.
    Datagram {
        packet: Packet,
        header_len: usize,
    },
    AddressRequest,
    AddressReply([u8; 8]),
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The next REQ has not been sent yet. `tries` earlier ones were not answered.
    Requesting { tries: u32, first_at: Option<Instant> },
    /// A REQ was sent at `sent_at` and waits for its ACK.
    AwaitingAck { tries: u32, first_at: Instant, sent_at: Instant },
    /// The ACK arrived at `started_at`.
    Sending { stuffing: Stuffing, started_at: Instant },
}

/// The state of the request for the local address.
#[derive(Clone, Copy, Debug, Default)]
enum AddressRequestState {
    #[default]
    No,
    /// The transmission of the request has not started.
    Pending,
    /// The request is the outgoing packet.
    Outgoing,
    /// The request was completely sent at `sent_at`.
    AwaitingReply { sent_at: Instant },
}

impl Sender {
    /// Requests the local address, unless a request is pending.
    pub(super) fn request_address(&mut self) {
        if let AddressRequestState::No = self.address_request {
            self.address_request = AddressRequestState::Pending;
        }
    }

    /// Returns whether an address request is pending: neither answered nor given up.
    pub(super) fn is_address_request_pending(&self) -> bool {
        !matches!(self.address_request, AddressRequestState::No)
    }

    /// Processes the arrival of the local address, and returns whether it was requested.
    pub(super) fn address_arrived(&mut self) -> bool {
        let was_requested = self.is_address_request_pending();
        self.address_request = AddressRequestState::No;
        was_requested
    }

    /// Queues the answer to an address request. It is sent as the next packet.
    pub(super) fn queue_reply(&mut self, address: [u8; 4]) {
        self.reply = Some(address);
    }

    /// Processes an ACK.
    pub(super) fn acknowledged(&mut self, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::LlpAcksIn);
        let Some(outgoing) = &mut self.outgoing else {
            return cx.meter.count(Counter::LlpAcksUnexpected);
        };
        let first_at = match outgoing.phase {
            Phase::AwaitingAck { first_at, .. } => first_at,
            // This ACK answers an earlier REQ, so the peer has allocated its buffer.
            Phase::Requesting { first_at: Some(first_at), .. } => first_at,
            Phase::Requesting { first_at: None, .. } | Phase::Sending { .. } => {
                return cx.meter.count(Counter::LlpAcksUnexpected);
            }
        };
        cx.meter.record(Quantity::LlpAckWait, cx.now - first_at);
        outgoing.phase = Phase::Sending { stuffing: Stuffing::default(), started_at: cx.now };
    }

    /// Appends the second byte of an escape, if its first byte was the last one sent.
    pub(super) fn finish_escape(&mut self, wire: &mut Vec<u8>) {
        if let Some(Outgoing { phase: Phase::Sending { stuffing, .. }, .. }) = &mut self.outgoing {
            stuffing.finish_escape(wire);
        }
    }

    /// Appends at most `max_bytes` bytes of one packet for the line.
    pub(super) fn transmit(
        &mut self,
        output: &mut OutputQueue,
        wire: &mut Vec<u8>,
        max_bytes: usize,
        cx: &mut Cx<'_>,
    ) {
        if self.outgoing.is_none() {
            self.outgoing = self.next(output, cx);
        }
        let Some(Outgoing { content, phase }) = &mut self.outgoing else { return };
        match phase {
            Phase::Requesting { tries, first_at } => {
                let first_at = first_at.unwrap_or(cx.now);
                *phase = Phase::AwaitingAck { tries: *tries, first_at, sent_at: cx.now };
                wire.push(REQ);
                cx.meter.count(Counter::LlpRequestsOut);
            }
            Phase::AwaitingAck { .. } => {}
            Phase::Sending { stuffing, .. } => {
                let end = wire.len().saturating_add(max_bytes);
                let escapes = stuffing.fill(content.bytes(), &CODE, wire, max_bytes);
                cx.meter.add(Counter::LinkEscapesOut, escapes);
                if wire.len() < end {
                    wire.push(END);
                    self.sent(output, cx);
                }
            }
        }
    }

    /// Returns the next packet: a pending answer, an address request, or a datagram.
    fn next(&mut self, output: &mut OutputQueue, cx: &mut Cx<'_>) -> Option<Outgoing> {
        let content = if let Some([a, b, c, d]) = self.reply.take() {
            cx.meter.count(Counter::LlpAddressRequestsIn);
            let [h0, h1, h2, h3] = ADDRESS_HEADER;
            Content::AddressReply([h0, h1, h2, h3, a, b, c, d])
        } else if let AddressRequestState::Pending = self.address_request {
            cx.meter.count(Counter::LlpAddressRequestsOut);
            self.address_request = AddressRequestState::Outgoing;
            Content::AddressRequest
        } else {
            let mut packet = output.next()?;
            let compressor = self.compressor.as_mut();
            let kind = compressor.map(|vj| vj.compress(&mut packet, cx.meter));
            let header_len = push_header(kind.unwrap_or(Kind::Ip), &mut packet);
            Content::Datagram { packet, header_len }
        };
        Some(Outgoing { content, phase: Phase::Requesting { tries: 0, first_at: None } })
    }

    fn sent(&mut self, output: &mut OutputQueue, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::LinkPacketsOut);
        let Some(Outgoing { content, .. }) = self.outgoing.take() else { return };
        match content {
            Content::Datagram { mut packet, header_len } => {
                packet.pull(header_len);
                output.finish(Event::Sent(packet));
            }
            Content::AddressRequest => {
                // If the answer to an earlier request has arrived in the meantime, this request
                // needs no answer.
                if let AddressRequestState::Outgoing = self.address_request {
                    self.address_request = AddressRequestState::AwaitingReply { sent_at: cx.now };
                }
            }
            Content::AddressReply(_) => {}
        }
    }

    fn failed(&mut self, output: &mut OutputQueue) {
        let Some(Outgoing { content, .. }) = self.outgoing.take() else { return };
        match content {
            Content::Datagram { mut packet, header_len } => {
                packet.pull(header_len);
                output.finish(Event::Failed(packet));
                // The compressor has stored headers in its slots that the peer did not receive.
                self.compressor.iter_mut().for_each(Compressor::clear_slots);
            }
            Content::AddressRequest => self.address_request = AddressRequestState::No,
            // A peer that did not receive the answer repeats its request.
            Content::AddressReply(_) => {}
        }
    }

    /// Returns whether there is something to transmit now.
    pub(super) fn has_output(&self, output: &OutputQueue) -> bool {
        match &self.outgoing {
            Some(outgoing) => !matches!(outgoing.phase, Phase::AwaitingAck { .. }),
            None => {
                self.reply.is_some()
                    || matches!(self.address_request, AddressRequestState::Pending)
                    || output.is_waiting()
            }
        }
    }

    /// Returns the earliest deadline: of the ACK, of the END, or of the answer to the address
    /// request.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.packet_deadline().into_iter().chain(self.reply_deadline()).min()
    }

    fn packet_deadline(&self) -> Option<Instant> {
        match self.outgoing.as_ref()?.phase {
            Phase::Requesting { .. } => None,
            Phase::AwaitingAck { sent_at, .. } => Some(sent_at + ACK_TIMEOUT),
            Phase::Sending { started_at, .. } => Some(started_at + PACKET_TIMEOUT),
        }
    }

    fn reply_deadline(&self) -> Option<Instant> {
        let AddressRequestState::AwaitingReply { sent_at } = self.address_request else {
            return None;
        };
        Some(sent_at + ADDRESS_TIMEOUT)
    }

    /// Repeats a REQ, or gives up a packet or request that timed out.
    pub(super) fn timeout(&mut self, output: &mut OutputQueue, cx: &mut Cx<'_>) {
        if self.reply_deadline().is_some_and(|deadline| cx.now >= deadline) {
            cx.meter.count(Counter::LlpAddressTimeouts);
            self.address_request = AddressRequestState::No;
        }
        if self.packet_deadline().is_none_or(|deadline| cx.now < deadline) {
            return;
        }
        let Some(outgoing) = &mut self.outgoing else { return };
        if let Phase::AwaitingAck { tries, first_at, .. } = outgoing.phase {
            cx.meter.count(Counter::LlpAckTimeouts);
            if tries < RETRIES {
                let first_at = Some(first_at);
                outgoing.phase = Phase::Requesting { tries: tries + 1, first_at };
                return;
            }
            cx.meter.count(Counter::LlpPacketsGivenUp);
        } else {
            cx.meter.count(Counter::LlpPacketTimeouts);
        }
        self.failed(output);
    }

    /// Drops everything in progress and returns the current buffer to the pool.
    pub(super) fn reset(&mut self, pool: &mut Pool) {
        let outgoing = self.outgoing.take();
        if let Some(Outgoing { content: Content::Datagram { packet, .. }, .. }) = outgoing {
            pool.put(packet);
        }
        let mut compressor = self.compressor.take();
        compressor.iter_mut().for_each(Compressor::clear_slots);
        *self = Self { compressor, ..Self::default() };
    }
}

impl Content {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Datagram { packet, .. } => packet.data(),
            Self::AddressRequest => &ADDRESS_HEADER,
            Self::AddressReply(bytes) => bytes,
        }
    }
}

/// Prepends the local header for a kind of packet, and returns its length.
fn push_header(kind: Kind, packet: &mut Packet) -> usize {
    let header = match kind {
        Kind::Ip => IP_HEADER,
        Kind::UncompressedTcp => UNCOMPRESSED_TCP_HEADER,
        Kind::CompressedTcp => {
            if let Some(mask) = packet.data_mut().first_mut() {
                *mask |= COMPRESSED_TCP;
            }
            return 0;
        }
    };
    packet.push(&header);
    header.len()
}
