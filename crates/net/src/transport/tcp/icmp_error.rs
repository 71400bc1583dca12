//! ICMP errors about sent segments (RFC 9293 §3.9.2.2, RFC 5927).
//!
//! Such errors are easily forged. An error is accepted only if the sequence number that it quotes
//! is in flight (row 20 of the attack table). It ends a connection only in SYN-SENT. It lowers the
//! segment size only to a value that every link today supports. All other errors are soft
//! (MUST-56): the error is recorded, and reported as the cause if the connection is given up later.

use super::Tcp;
use super::connection::Connection;
use super::connection_id::ConnectionId;
use super::lifecycle::State;
use super::seq::Seq;
use super::status::CloseReason;
use crate::cx::Cx;
use crate::internet::icmp::{ErrorKind, IcmpError, Unreachable};
use crate::internet::ipv4::Protocol;
use crate::internet::ipv6;
use crate::internet::path_mtu::IPV4_FLOOR;
use crate::meter::Counter;
use crate::mutants::{Mutant, is_enabled};
use core::net::SocketAddr;

/// MTU assumed if the error of a router contains no MTU, because the router does not implement RFC
/// 1191. Every host accepts datagrams of this length.
const ASSUMED_ROUTER_MTU: u16 = 576;

impl Tcp {
    /// Processes an ICMP error about a sent segment, and returns whether it is accepted.
    pub fn icmp_error(&mut self, error: &IcmpError, cx: &mut Cx<'_>) -> bool {
        if error.protocol != Protocol::Tcp {
            return false;
        }
        let [s0, s1, d0, d1, seq @ ..] = error.first_bytes;
        let local = SocketAddr::new(error.source, u16::from_be_bytes([s0, s1]));
        let remote = SocketAddr::new(error.destination, u16::from_be_bytes([d0, d1]));
        let Some((id, connection)) = self.table.find((local, remote)) else {
            cx.meter.count(Counter::TcpIcmpErrorsIgnored);
            return false;
        };
        if !connection.is_in_flight(Seq(u32::from_be_bytes(seq))) {
            cx.meter.count(Counter::TcpIcmpErrorsIgnored);
            return false;
        }
        cx.meter.count(Counter::TcpIcmpErrors);
        connection.icmp_error(error.kind, cx);
        self.reschedule(id);
        true
    }

    /// Records that the layer below has no route to the peer of a connection. The connection
    /// continues, because a route may appear. If it is given up later, the missing route is
    /// reported as the cause.
    pub fn record_no_route(&mut self, id: ConnectionId) {
        if let Ok(connection) = self.table.get_mut(id) {
            let kind = ErrorKind::Unreachable(Unreachable::Network);
            connection.reports.record_soft_error(kind);
        }
    }
}

impl Connection {
    fn is_in_flight(&self, seq: Seq) -> bool {
        is_enabled(Mutant::AcceptsUnrelatedIcmpErrors) || self.snd.is_in_flight(seq)
    }

    fn icmp_error(&mut self, kind: ErrorKind, cx: &Cx<'_>) {
        match kind {
            ErrorKind::FragmentationNeeded { next_hop_mtu } if self.state().emits_data() => {
                let mtu = next_hop_mtu.unwrap_or(ASSUMED_ROUTER_MTU);
                // RFC 5927 §7.2: a value below the MTU of any link today is rejected.
                let min_mtu = if self.ends.remote().is_ipv4() { IPV4_FLOOR } else { ipv6::MTU_MIN };
                self.packet_too_big(mtu.max(min_mtu), cx.now);
            }
            ErrorKind::Unreachable(why) if self.state() == State::SynSent => match why {
                Unreachable::Protocol | Unreachable::Port => self.end(CloseReason::Refused),
                Unreachable::Prohibited => self.end(CloseReason::Unreachable),
                _ => self.reports.record_soft_error(kind),
            },
            _ => self.reports.record_soft_error(kind),
        }
    }
}
