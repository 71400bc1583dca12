//! The link layer: conversion between the bytes or frames of a wire and whole datagrams.
//!
//! [`Link`] is one of five link types with the same interface. [`Link::receive`] processes bytes
//! from the wire, in chunks of any size. [`Link::transmit_into`] appends output to a buffer of the
//! driver, up to the number of bytes that the driver requests. A driver that models a slow line
//! requests one byte at a time, so that an acknowledgment can be inserted between two bytes of a
//! packet. A driver of a serial port requests a larger chunk.
//!
//! A packet has one owner at a time. [`Link::send`] takes ownership. [`Event::Sent`] or
//! [`Event::Failed`] returns the packet to its previous owner, which returns it to the [`Pool`].
//! For input the link allocates packets from the pool, and passes them up with [`Event::Received`].

pub mod datagram;
pub mod ethernet;
pub mod llp;
pub mod ppp;
mod queue;
pub mod slip;
mod stuffing;
pub mod vj;

pub use datagram::Datagram;
pub use ethernet::Ethernet;
pub use llp::Llp;
pub use ppp::Ppp;
pub use slip::Slip;

use crate::cx::Cx;
use crate::meter::Account;
use crate::packet::{Packet, Pool};
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Default maximum number of packets queued in each direction: the number of buffers of TM-233
/// §5.4.
pub const QUEUE_LIMIT: usize = Pool::DEFAULT_LIMIT;

/// An event of a link for the layer above.
#[derive(Debug)]
pub enum Event {
    /// A complete datagram was received.
    Received(Packet),
    /// A datagram was completely sent. The event returns its packet.
    Sent(Packet),
    /// A datagram could not be sent. The event returns its packet.
    Failed(Packet),
    /// The peer has reported the local Internet address.
    Address([u8; 4]),
    /// The link has negotiated the local IPv6 interface identifier with the peer.
    InterfaceIdentifier([u8; 8]),
    /// IPv4 datagrams can be exchanged from now on.
    NetworkUp,
    /// IPv4 datagrams can no longer be exchanged.
    NetworkDown,
}

impl Event {
    /// Returns the packet, if the event carries one.
    #[must_use]
    pub fn into_packet(self) -> Option<Packet> {
        match self {
            Self::Received(packet) | Self::Sent(packet) | Self::Failed(packet) => Some(packet),
            Self::Address(_)
            | Self::InterfaceIdentifier(_)
            | Self::NetworkUp
            | Self::NetworkDown => None,
        }
    }
}

/// A link: a device or serial line, and the protocol on it.
#[derive(Debug)]
pub enum Link {
    /// A device that carries whole datagrams, such as a TUN.
    Datagram(Datagram),
    /// A device that carries whole Ethernet frames, such as a TAP.
    Ethernet(Ethernet),
    /// A serial line with the low level protocol of TM-233 §5.3.
    Llp(Llp),
    /// A serial line with PPP (RFC 1661).
    Ppp(Box<Ppp>),
    /// A serial line with SLIP (RFC 1055).
    Slip(Slip),
}

impl Link {
    /// Processes bytes from the wire, in chunks of any size. For [`Link::Datagram`], `bytes` is one
    /// whole datagram, and for [`Link::Ethernet`] one frame.
    pub fn receive(&mut self, bytes: &[u8], pool: &mut Pool, cx: &mut Cx<'_>) {
        match self {
            Self::Datagram(link) | Self::Ethernet(Ethernet { frames: link }) => {
                link.receive(bytes, pool, cx);
            }
            Self::Llp(link) => link.receive(bytes, pool, cx),
            Self::Ppp(link) => link.receive(bytes, pool, cx),
            Self::Slip(link) => link.receive(bytes, pool, cx),
        }
    }

    /// Queues a datagram for output.
    ///
    /// # Errors
    ///
    /// Returns the packet, and counts it, if it is longer than the MTU or the queue is full.
    pub fn send(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Result<(), Packet> {
        match self {
            Self::Datagram(link) | Self::Ethernet(Ethernet { frames: link }) => {
                link.send(packet, cx)
            }
            Self::Llp(link) => link.send(packet, cx),
            Self::Ppp(link) => link.send(packet, cx),
            Self::Slip(link) => link.send(packet, cx),
        }
    }

    /// Returns whether the output queue is full, so that [`Link::send`] would reject a packet.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Datagram(link) | Self::Ethernet(Ethernet { frames: link }) => link.is_full(),
            Self::Llp(link) => link.is_full(),
            Self::Ppp(link) => link.is_full(),
            Self::Slip(link) => link.is_full(),
        }
    }

    /// Appends at most `limit` bytes for the wire, and returns their number. [`Link::Datagram`] and
    /// [`Link::Ethernet`] append one whole datagram or frame, regardless of the limit.
    pub fn transmit_into(&mut self, wire: &mut Vec<u8>, limit: usize, cx: &mut Cx<'_>) -> usize {
        match self {
            Self::Datagram(link) | Self::Ethernet(Ethernet { frames: link }) => {
                link.transmit_into(wire, limit, cx)
            }
            Self::Llp(link) => link.transmit_into(wire, limit, cx),
            Self::Ppp(link) => link.transmit_into(wire, limit, cx),
            Self::Slip(link) => link.transmit_into(wire, limit, cx),
        }
    }

    /// Returns the next event; call until there is none.
    pub fn event(&mut self) -> Option<Event> {
        match self {
            Self::Datagram(link) | Self::Ethernet(Ethernet { frames: link }) => link.event(),
            Self::Llp(link) => link.event(),
            Self::Ppp(link) => link.event(),
            Self::Slip(link) => link.event(),
        }
    }

    /// Returns when to call [`Self::timeout`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Datagram(link) | Self::Ethernet(Ethernet { frames: link }) => link.deadline(),
            Self::Llp(link) => link.deadline(),
            Self::Ppp(link) => link.deadline(),
            Self::Slip(link) => link.deadline(),
        }
    }

    /// Processes the timers that are due.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        match self {
            Self::Datagram(link) | Self::Ethernet(Ethernet { frames: link }) => link.timeout(cx),
            Self::Llp(link) => link.timeout(cx),
            Self::Ppp(link) => link.timeout(cx),
            Self::Slip(link) => link.timeout(cx),
        }
    }

    /// Returns the length of the longest datagram that can be sent, in bytes.
    #[must_use]
    pub fn mtu(&self) -> usize {
        match self {
            Self::Datagram(link) => link.mtu(),
            Self::Ethernet(link) => link.mtu(),
            Self::Llp(link) => link.mtu(),
            Self::Ppp(link) => link.mtu(),
            Self::Slip(link) => link.mtu(),
        }
    }

    /// Returns the required length of a packet buffer for input from the wire, in bytes.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        match self {
            Self::Ethernet(link) => link.frames.mtu(),
            Self::Datagram(_) | Self::Llp(_) | Self::Ppp(_) | Self::Slip(_) => self.mtu(),
        }
    }

    /// Returns whether a received datagram is queued among the events.
    #[must_use]
    pub fn has_received(&self) -> bool {
        match self {
            Self::Datagram(link) | Self::Ethernet(Ethernet { frames: link }) => link.has_received(),
            Self::Llp(link) => link.has_received(),
            Self::Ppp(link) => link.has_received(),
            Self::Slip(link) => link.has_received(),
        }
    }

    /// Returns whether there is something to transmit now.
    #[must_use]
    pub fn has_output(&self) -> bool {
        match self {
            Self::Datagram(link) | Self::Ethernet(Ethernet { frames: link }) => link.has_output(),
            Self::Llp(link) => link.has_output(),
            Self::Ppp(link) => link.has_output(),
            Self::Slip(link) => link.has_output(),
        }
    }

    /// Drops everything in progress and returns every buffer to the pool, because the line hung up.
    pub fn reset(&mut self, pool: &mut Pool) {
        match self {
            Self::Datagram(link) | Self::Ethernet(Ethernet { frames: link }) => link.reset(pool),
            Self::Llp(link) => link.reset(pool),
            Self::Ppp(link) => link.reset(pool),
            Self::Slip(link) => link.reset(pool),
        }
    }
}

/// Charges the time of `step` to the link's account, and then switches back to the previous
/// account.
fn charged<'m, R>(cx: &mut Cx<'m>, step: impl FnOnce(&mut Cx<'m>) -> R) -> R {
    let before = cx.meter.enter(Account::Link);
    let result = step(cx);
    cx.meter.enter(before);
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::OwnedCx;
    use core::net::Ipv4Addr;
    use proptest::prelude::*;

    fn both_ends(kind: usize) -> [Link; 2] {
        let end = || match kind {
            0 => Link::Datagram(Datagram::new(50)),
            3 => Link::Ethernet(Ethernet::new(50)),
            1 => Link::Llp(Llp::new(50)),
            2 => Link::Ppp(Box::new(Ppp::new(
                50,
                ppp::Settings {
                    address: Some(Ipv4Addr::new(10, 0, 0, 1)),
                    echo_interval: None,
                    ..ppp::Settings::default()
                },
            ))),
            _ => Link::Slip(Slip::new(50)),
        };
        [end(), end()]
    }

    fn carry(from: &mut Link, to: &mut Link, pool: &mut Pool, context: &mut OwnedCx) {
        let mut wire = Vec::new();
        from.transmit_into(&mut wire, 7, &mut context.cx());
        to.receive(&wire, pool, &mut context.cx());
    }

    /// Opens both ends of a PPP line, and discards the resulting events. Does nothing for other
    /// links.
    fn open([a, b]: &mut [Link; 2], pool: &mut Pool, context: &mut OwnedCx) {
        for end in [&mut *a, &mut *b] {
            if let Link::Ppp(ppp) = end {
                ppp.open(&mut context.cx());
            }
        }
        while a.has_output() || b.has_output() {
            carry(a, b, pool, context);
            carry(b, a, pool, context);
        }
        for end in [a, b] {
            while end.event().is_some() {}
        }
    }

    proptest! {
        #[test]
        fn every_kind_of_link_carries_datagrams_and_returns_each_buffer(
            kind in 0..4_usize,
            datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..8),
        ) {
            let mut ends = both_ends(kind);
            let mut context = OwnedCx::default();
            let mut pool = Pool::new(16, 50);
            open(&mut ends, &mut pool, &mut context);
            let [mut a, mut b] = ends;
            for datagram in &datagrams {
                let mut packet = pool.take(&mut context.meter).unwrap();
                packet.extend(datagram);
                a.send(packet, &mut context.cx()).unwrap();
            }
            while a.has_output() || b.has_output() {
                carry(&mut a, &mut b, &mut pool, &mut context);
                carry(&mut b, &mut a, &mut pool, &mut context);
            }
            let mut received = Vec::new();
            while let Some(Event::Received(packet)) = b.event() {
                received.push(packet.data().to_vec());
                pool.put(packet);
            }
            while let Some(Event::Sent(packet)) = a.event() {
                pool.put(packet);
            }
            prop_assert_eq!(received, datagrams);
            prop_assert_eq!((pool.lent(), a.deadline(), b.deadline()), (0, None, None));
        }
    }
}
