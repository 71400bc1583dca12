//! Datagrams of a transparent host, which acts for other hosts
//! ([`Internet::set_transparent`]).
//!
//! Such a host has no sockets for these datagrams. Its application parses a received datagram by
//! [`Udp::parse_relayed`], and sends datagrams from any address and port by [`Udp::send_between`].

use super::{SendError, Udp, datagram_sizes, strip_header};
use crate::cx::Cx;
use crate::internet::{self, Internet};
use crate::meter::{Account, Counter};
use crate::packet::{Packet, Pool};
use core::net::SocketAddr;

/// A received datagram, or several datagrams of one size.
#[derive(Debug)]
pub struct Relayed {
    /// The sender.
    pub source: SocketAddr,
    /// The destination.
    pub destination: SocketAddr,
    /// The data. [`Packet::offload`] contains the size of each datagram if there are several.
    pub packet: Packet,
}

impl Udp {
    /// Parses and validates a datagram that the Internet layer has delivered. A damaged datagram is
    /// counted, and its packet is returned to `pool`.
    pub fn parse_relayed(
        &self,
        datagram: internet::Datagram,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Relayed> {
        let Some(parsed) = self.parse(&datagram.header, &datagram.packet) else {
            cx.meter.count(Counter::UdpErrors);
            pool.put(datagram.packet);
            return None;
        };
        let internet::Datagram { header, mut packet, .. } = datagram;
        strip_header(&mut packet, &parsed);
        let count = datagram_sizes::count_of(&packet);
        cx.meter.add(Counter::UdpIn, count);
        cx.meter.add(Counter::UdpSuperIn, u64::from(count > 1));
        let source = SocketAddr::new(header.source, parsed.source_port);
        let destination = SocketAddr::new(header.destination, parsed.destination_port);
        Some(Relayed { source, destination, packet })
    }

    /// Sends the data in `packet` from `source`, as [`Self::send`] does from a socket. The packet
    /// may hold several datagrams of the size in [`Packet::offload`], if the device splits them.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::send`] except those of the socket.
    pub fn send_between(
        &self,
        (source, destination): (SocketAddr, SocketAddr),
        packet: Packet,
        internet: &mut Internet,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Packet>, SendError> {
        let caller = cx.meter.enter(Account::Internet);
        let count = datagram_sizes::count_of(&packet);
        let sent = self.make_between((source, destination), packet, internet, pool, cx);
        if sent.is_ok() {
            cx.meter.add(Counter::UdpOut, count);
            cx.meter.add(Counter::UdpSuperOut, u64::from(count > 1));
        }
        cx.meter.enter(caller);
        sent
    }
}
