//! The layers of a station above its link, as an application sees them.

use super::ethernet::{self, Ethernet};
use crate::cx::Cx;
use crate::internet::icmp::{EchoReply, ErrorKind, IcmpError, Unreachable};
use crate::internet::ipv4::{self, Protocol};
use crate::internet::{self, Datagram, Internet};
use crate::meter::Counter;
use crate::packet::{Packet, Pool};
use crate::time::Instant;
use crate::transport::tcp::{Tail, Tcp};
use crate::transport::udp::{self, SocketId, Udp};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Datagrams of applications that may wait for the link.
const OUTGOING_MAX: usize = 64;

/// The layers of one host, and its packets.
#[derive(Debug)]
pub struct Layers {
    /// The packets.
    pub pool: Pool,
    /// The Internet layer.
    pub internet: Internet,
    /// TCP.
    pub tcp: Tcp,
    /// UDP.
    pub udp: Udp,
    /// The last answer to an echo request of ours that nobody has taken.
    pub(super) echo_reply: Option<EchoReply>,
    /// Where the station is on an Ethernet segment, if it is on one.
    pub(super) ethernet: Option<Box<Ethernet>>,
    /// Datagrams of UDP and echo requests for the link.
    pub(super) outgoing: VecDeque<Packet>,
    pub(super) has_news: bool,
}

/// Why a datagram was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// As many wait for the link as may, or no packet is free: try again after the next output.
    WouldBlock,
    /// UDP or the layer below refuses.
    Refused(udp::SendError),
}

impl Layers {
    /// Sends `data` from a UDP socket to `destination`.
    ///
    /// # Errors
    ///
    /// See [`SendError`].
    pub fn send_to(
        &mut self,
        socket: SocketId,
        data: &[u8],
        destination: SocketAddr,
        cx: &mut Cx<'_>,
    ) -> Result<(), SendError> {
        let mut packet = self.outgoing_packet(cx)?;
        packet.extend(data);
        let Self { udp, internet, pool, .. } = self;
        let sent = udp.send(socket, packet, destination, internet, pool, cx);
        self.outgoing.push_back(sent.map_err(SendError::Refused)?);
        Ok(())
    }

    /// Sends an echo request; see [`Internet::make_echo_request`].
    ///
    /// # Errors
    ///
    /// See [`SendError`].
    pub fn ping(
        &mut self,
        destination: IpAddr,
        (identifier, sequence): (u16, u16),
        payload_len: u16,
        cx: &mut Cx<'_>,
    ) -> Result<(), SendError> {
        let packet = self.outgoing_packet(cx)?;
        self.pool.put(packet);
        let (internet, pool) = (&mut self.internet, &mut self.pool);
        let made =
            internet.make_echo_request(destination, identifier, sequence, payload_len, pool, cx);
        let made = made.map_err(|error| SendError::Refused(udp::SendError::Internet(error)))?;
        self.outgoing.push_back(made);
        Ok(())
    }

    /// Returns the last answer to an echo request of ours, once.
    pub fn take_echo_reply(&mut self) -> Option<EchoReply> {
        self.echo_reply.take()
    }

    fn outgoing_packet(&mut self, cx: &mut Cx<'_>) -> Result<Packet, SendError> {
        if self.outgoing.len() >= OUTGOING_MAX {
            cx.meter.count(Counter::IpOutputDropped);
            return Err(SendError::WouldBlock);
        }
        self.pool.take(cx.meter).ok_or(SendError::WouldBlock)
    }

    /// Returns the station's place on an Ethernet segment, if it is on one.
    #[must_use]
    pub fn ethernet(&self) -> Option<&Ethernet> {
        self.ethernet.as_deref()
    }

    /// Returns the station's place on an Ethernet segment, if it is on one.
    pub fn ethernet_mut(&mut self) -> Option<&mut Ethernet> {
        self.ethernet.as_deref_mut()
    }

    /// Carries what has come from the link up to its transport.
    pub(super) fn receive(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        let Some(ethernet) = &mut self.ethernet else { return self.receive_datagram(packet, cx) };
        match ethernet.receive(packet, &mut self.pool, cx) {
            Some(datagram) => self.receive_datagram(datagram, cx),
            None => self.take_ethernet_news(cx),
        }
    }

    fn receive_datagram(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        let Some(datagram) = self.internet.receive(packet, &mut self.pool, cx) else {
            return self.take_internet_news(cx);
        };
        self.has_news = true;
        match datagram.header.protocol {
            Protocol::Tcp => {
                let Datagram { header, packet, .. } = datagram;
                let may_keep = self.pool.is_ample();
                if let Some(packet) = self.tcp.receive(&header, packet, may_keep, cx) {
                    self.pool.put(packet);
                }
            }
            Protocol::Udp => {
                if let Some(datagram) = self.udp.receive(datagram, &mut self.pool, cx) {
                    self.internet.report(datagram, Unreachable::Port, &mut self.pool, cx);
                }
            }
            Protocol::Icmp | Protocol::Other(_) => self.pool.put(datagram.packet),
        }
    }

    fn take_internet_news(&mut self, cx: &mut Cx<'_>) {
        while let Some(event) = self.internet.event() {
            self.has_news = true;
            match event {
                internet::Event::Error(error) => {
                    self.udp.receive_error(&error);
                    self.tcp.icmp_error(&error, cx);
                }
                internet::Event::EchoReply(reply) => self.echo_reply = Some(reply),
            }
        }
    }

    /// Does what the segment decides about our addresses.
    pub(super) fn take_ethernet_news(&mut self, cx: &mut Cx<'_>) {
        while let Some(event) = self.ethernet.as_mut().and_then(|ethernet| ethernet.event()) {
            self.has_news = true;
            match event {
                ethernet::Event::Assigned { address: IpAddr::V4(address), prefix_len } => {
                    self.internet.set_address(address, prefix_len);
                }
                ethernet::Event::Removed(IpAddr::V4(_)) => {
                    self.internet.set_address(Ipv4Addr::UNSPECIFIED, 0);
                }
                ethernet::Event::Unreachable(packet) => {
                    if let Some(error) = unreachable(&packet) {
                        self.udp.receive_error(&error);
                        self.tcp.icmp_error(&error, cx);
                    }
                    self.pool.put(packet);
                }
                _ => {}
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let ethernet = self.ethernet.as_ref().and_then(|ethernet| ethernet.deadline());
        [self.tcp.deadline(), ethernet].into_iter().flatten().min()
    }

    pub(super) fn timer(&mut self, cx: &mut Cx<'_>) {
        if let Some(ethernet) = &mut self.ethernet {
            ethernet.timeout(cx);
            self.take_ethernet_news(cx);
        }
        self.has_news |= self.tcp.timeout(cx);
    }

    /// Returns whether something may be owed to the link, and there is a packet for it.
    pub(super) fn has_output(&self) -> bool {
        let has_segments = self.tcp.has_output() && !self.pool.is_exhausted();
        let ethernet = self.ethernet.as_ref();
        let has_frames = ethernet.is_some_and(|ethernet| ethernet.has_output(&self.pool));
        has_segments || has_frames || self.internet.has_output() || !self.outgoing.is_empty()
    }

    /// Returns the next datagram or frame for the link, whole.
    pub(super) fn transmit(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            let Some(ethernet) = &mut self.ethernet else { return self.transmit_datagram(cx) };
            if let Some(frame) = ethernet.transmit(&mut self.pool, cx) {
                return Some(frame);
            }
            self.take_ethernet_news(cx);
            let datagram = self.transmit_datagram(cx)?;
            let sent = self.ethernet.as_mut()?.send(datagram, &mut self.pool, cx);
            if sent.is_some() {
                return sent;
            }
        }
    }

    /// Returns the next datagram or frame for a device that gathers it, with the place of its
    /// data.
    pub(super) fn transmit_in_parts(&mut self, cx: &mut Cx<'_>) -> Option<(Packet, Option<Tail>)> {
        loop {
            let Some(ethernet) = &mut self.ethernet else {
                return self.transmit_datagram_in_parts(cx);
            };
            if let Some(frame) = ethernet.transmit(&mut self.pool, cx) {
                return Some((frame, None));
            }
            self.take_ethernet_news(cx);
            let (mut datagram, mut tail) = self.transmit_datagram_in_parts(cx)?;
            let ethernet = self.ethernet.as_mut()?;
            if !ethernet.is_resolved(&datagram)
                && let Some(tail) = tail.take()
            {
                // It waits, and its data must not go away meanwhile.
                datagram.gather(self.tcp.tail(&tail));
            }
            if let Some(frame) = ethernet.send(datagram, &mut self.pool, cx) {
                return Some((frame, tail));
            }
        }
    }

    fn transmit_datagram(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        if let Some(packet) = self.next_datagram(cx) {
            return Some(packet);
        }
        loop {
            let segment = self.tcp.transmit(&mut self.pool, cx)?;
            match self.internet.send(segment.packet, segment.lower, &mut self.pool, cx) {
                Ok(packet) => return Some(packet),
                // TCP sends it again when its timer runs out.
                Err(_) => cx.meter.count(Counter::IpOutputDropped),
            }
        }
    }

    fn transmit_datagram_in_parts(&mut self, cx: &mut Cx<'_>) -> Option<(Packet, Option<Tail>)> {
        if !self.tcp.leaves_data_in_place() {
            return self.transmit_datagram(cx).map(|packet| (packet, None));
        }
        if let Some(packet) = self.next_datagram(cx) {
            return Some((packet, None));
        }
        loop {
            let (segment, tail) = self.tcp.transmit_in_parts(&mut self.pool, cx)?;
            match self.internet.send(segment.packet, segment.lower, &mut self.pool, cx) {
                Ok(packet) => return Some((packet, tail)),
                Err(_) => cx.meter.count(Counter::IpOutputDropped),
            }
        }
    }

    fn next_datagram(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        self.internet.transmit(cx).or_else(|| self.outgoing.pop_front())
    }
}

/// Returns the error about a datagram of ours whose next hop does not answer (RFC 1122 §3.3.1.4).
fn unreachable(packet: &Packet) -> Option<IcmpError> {
    let parsed = ipv4::Header::parse_quoted(packet.data()).ok()?;
    let first_bytes = *packet.data().get(parsed.header_len..)?.first_chunk()?;
    let ipv4::Header { source, destination, protocol, .. } = parsed.header;
    Some(IcmpError {
        kind: ErrorKind::Unreachable(Unreachable::Host),
        reporter: source.into(),
        protocol,
        source: source.into(),
        destination: destination.into(),
        first_bytes,
    })
}
