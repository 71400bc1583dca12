//! Resets of segments that belong to no connection, and of aborted connections (RFC 9293 §3.5.2).

use super::Tcp;
use super::arrives::Arrival;
use super::header::{Flags, Header, Options};
use super::lower_level::{LowerLevel, Segment};
use super::seq::Seq;
use super::table::AddressPair;
use super::transmit::Outgoing;
use crate::cx::Cx;
use crate::meter::Counter;
use crate::packet::Packet;
use core::net::SocketAddr;

/// Maximum number of resets queued for output.
pub(super) const MAX_PENDING_RESETS: usize = 16;

/// A queued reset that belongs to no connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reset {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) seq: Seq,
    /// Acknowledgment number; `None` if the answered segment had one itself.
    pub(super) ack: Option<Seq>,
    /// The options of the reset connection. RFC 7323 §3.2 allows them.
    pub(super) options: Options,
}

impl Tcp {
    /// Answers a segment without a connection (RFC 9293 §3.5.2, group 1). A reset is never answered
    /// by a reset (row 46 of the attack table).
    pub(super) fn refuse(
        &mut self,
        (local, remote): AddressPair,
        arrival: &Arrival<'_>,
        cx: &mut Cx<'_>,
    ) {
        let header = arrival.header;
        if header.flags.has(Flags::RST) {
            return;
        }
        let data = u32::try_from(arrival.data.len()).unwrap_or(u32::MAX);
        let controls = [Flags::SYN, Flags::FIN].iter().filter(|f| header.flags.has(**f)).count();
        let seg_len = data + u32::try_from(controls).unwrap_or(0);
        let (seq, ack) = if header.flags.has(Flags::ACK) {
            (header.ack, None)
        } else {
            (Seq(0), Some(header.seq + seg_len))
        };
        self.queue_reset(Reset { local, remote, seq, ack, options: Options::default() }, cx);
    }

    pub(super) fn queue_reset(&mut self, reset: Reset, cx: &mut Cx<'_>) {
        if self.resets.len() < MAX_PENDING_RESETS {
            self.resets.push_back(reset);
        } else {
            cx.meter.count(Counter::TcpResetsSuppressed);
        }
    }
}

impl Reset {
    pub(super) fn into_segment(self, packet: Packet, lower: &LowerLevel) -> Segment {
        let flags = if self.ack.is_some() { Flags::RST.with(Flags::ACK) } else { Flags::RST };
        let header = Header {
            source_port: self.local.port(),
            destination_port: self.remote.port(),
            seq: self.seq,
            ack: self.ack.unwrap_or(Seq(0)),
            flags,
            options: self.options,
            ..Header::default()
        };
        let outgoing = Outgoing { header, offset: 0, len: 0, segment_size: 0, ecn: 0 };
        lower.segment(&outgoing, (self.local.ip(), self.remote.ip()), packet)
    }
}
