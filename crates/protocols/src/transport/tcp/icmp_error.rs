//! ICMP errors about our segments (RFC 9293 §3.9.2.2, RFC 5927).
//!
//! Anyone can make one up. It is believed only if the sequence number that it quotes is in flight
//! (attack row 20), it ends a connection only while nothing else is known of the peer, and it
//! lowers the segment size only to what every link of today takes. All else is a soft error
//! (MUST-56): it is remembered, and named as the cause if the connection is given up later.

use super::Tcp;
use super::connection::{Connection, State};
use super::seq::Seq;
use super::status::Ending;
use crate::cx::Cx;
use crate::internet::icmp::{ErrorKind, IcmpError, Unreachable};
use crate::internet::ipv4::Protocol;
use crate::meter::Counter;
use crate::planted::{Bug, is_planted};
use core::net::{IpAddr, SocketAddr};

/// No link of today takes less; a router that says so is not believed (RFC 5927 §7.2).
const MIN_MTU: u16 = 552;
/// What is taken of a router that does not know RFC 1191: every host takes such datagrams.
const MTU_OF_OLD_ROUTER: u16 = 576;
/// The least that every link takes that carries IPv6 (RFC 8200 §5).
const MIN_MTU_V6: u16 = 1280;
/// The headers of IP and TCP without options.
const FIXED_HEADERS_LEN: u16 = 40;
const FIXED_HEADERS_V6_LEN: u16 = 60;

impl Tcp {
    /// Takes an ICMP error about a segment of ours, and returns whether it is believed.
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
        self.touch(id);
        true
    }
}

impl Connection {
    fn is_in_flight(&self, seq: Seq) -> bool {
        is_planted(Bug::BelievesStrangers)
            || seq.is_in_window(self.snd_una, self.snd_max.since(self.snd_una))
    }

    fn icmp_error(&mut self, kind: ErrorKind, cx: &Cx<'_>) {
        match kind {
            ErrorKind::FragmentationNeeded { next_hop_mtu } if self.state.emits_data() => {
                self.lower_mss(next_hop_mtu.unwrap_or(MTU_OF_OLD_ROUTER), cx);
            }
            ErrorKind::Unreachable(why) if self.state == State::SynSent => match why {
                Unreachable::Protocol | Unreachable::Port => self.end(Ending::Refused),
                Unreachable::Prohibited => self.end(Ending::Unreachable),
                _ => self.soft_error = Some(kind),
            },
            _ => self.soft_error = Some(kind),
        }
    }

    /// Path MTU discovery (RFC 1191): what was sent is sent again at once in smaller segments,
    /// which is no sign of congestion.
    fn lower_mss(&mut self, mtu: u16, cx: &Cx<'_>) {
        let options = u32::try_from(self.options(cx.now).len()).unwrap_or(0);
        let mtu_without_headers = match self.ends.remote.ip() {
            IpAddr::V4(_) => mtu.max(MIN_MTU) - FIXED_HEADERS_LEN,
            IpAddr::V6(_) => mtu.max(MIN_MTU_V6) - FIXED_HEADERS_V6_LEN,
        };
        let mss = u32::from(mtu_without_headers) - options;
        if mss >= self.snd_mss || is_planted(Bug::IgnoresTooBig) {
            return;
        }
        self.snd_mss = mss;
        if let Some(recovery) = &mut self.recovery {
            recovery.window.set_mss(mss);
            recovery.flight.lose_all();
        }
    }
}
