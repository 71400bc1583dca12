//! Strays: what has come to the wrong one of several stations that are one host together.
//!
//! An interface with several queues can have a station for each, with the same addresses. Who
//! sends to the host does not know of them, and the interface deals out what comes by a hash, which
//! keeps a connection together but does not ask whose it is: of a connection that a station has
//! opened, packets may come to another one. That one must not answer with a reset. It hands over
//! what is for none of its own connections and ports, and the next station looks in turn. Only the
//! last one answers that nobody is there.
//!
//! So that no two stations open the same connection, each has local ports of its own for those that
//! it opens ([`Tcp::share_ports`]). A port on which a station listens is looked up in that station
//! alone: all of them should listen there, because a SYN comes to any.
//!
//! Left out: a station on an Ethernet segment, whose neighbours' answers belong to all, and answers
//! to echo requests.
//!
//! [`Tcp::share_ports`]: crate::transport::tcp::Tcp::share_ports

use super::{Layers, Station};
use crate::cx::Cx;
use crate::internet::icmp::IcmpError;
use crate::internet::ipv4::Protocol;
use crate::internet::{Datagram, Header};
use crate::meter::Counter;
use crate::packet::{ChecksumState, Offload};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Strays that may wait to be handed over.
const STRAYS_MAX: usize = 64;

/// What has come to the wrong station.
#[derive(Debug)]
pub struct Stray {
    content: Content,
    /// How many stations have looked at it.
    looks: usize,
}

#[derive(Debug)]
enum Content {
    Datagram {
        header: Header,
        header_len: usize,
        /// The datagram with its headers: it leaves the packet buffers of its station.
        bytes: Vec<u8>,
        segment_size: u16,
        is_verified: bool,
    },
    Error(IcmpError),
}

/// What a station knows of those beside it.
#[derive(Debug)]
pub(super) struct Siblings {
    /// How many stations there are.
    count: usize,
    strays: VecDeque<Stray>,
}

impl Station {
    /// Makes the station the `number`th of `count` that are one host together, each on a queue of
    /// the same interface. What comes to it and is not for it waits to be handed over from now on.
    pub fn join_siblings(&mut self, number: u16, count: u16) {
        self.layers.tcp.share_ports(number, count);
        let siblings = Siblings { count: count.into(), strays: VecDeque::new() };
        self.layers.siblings = (count > 1).then_some(siblings);
    }

    /// Returns the next stray, for the next station.
    pub fn take_stray(&mut self) -> Option<Stray> {
        self.layers.siblings.as_mut()?.strays.pop_front()
    }

    /// Takes what another station has handed over.
    pub fn receive_stray(&mut self, stray: Stray, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::StraysIn);
        self.layers.receive_stray(stray, cx);
    }
}

impl Layers {
    fn receive_stray(&mut self, stray: Stray, cx: &mut Cx<'_>) {
        let Stray { content, looks } = stray;
        match content {
            Content::Error(error) => self.take_error(error, looks, cx),
            Content::Datagram { header, header_len, bytes, segment_size, is_verified } => {
                let Some(mut packet) = self.lend(cx) else { return };
                packet.extend(&bytes);
                packet.pull(header_len);
                let checksum =
                    if is_verified { ChecksumState::Verified } else { ChecksumState::InPacket };
                packet.offload = Offload { segment_size, checksum };
                self.deliver(Datagram { header, header_len, packet }, looks, cx);
            }
        }
    }

    /// Hands `datagram` over if another station may want it, or gives it back: it is for us, or
    /// the others, of whom `looks` have looked at it, do not want it either.
    pub(super) fn sift(
        &mut self,
        datagram: Datagram,
        looks: usize,
        cx: &mut Cx<'_>,
    ) -> Option<Datagram> {
        if self.siblings.is_none() || self.is_wanted(&datagram) || self.is_last(looks) {
            return Some(datagram);
        }
        let Datagram { header, header_len, mut packet } = datagram;
        let Offload { segment_size, checksum } = packet.offload;
        packet.unpull(header_len);
        let content = Content::Datagram {
            header,
            header_len,
            bytes: packet.data().to_vec(),
            segment_size,
            is_verified: checksum != ChecksumState::InPacket,
        };
        self.pool.put(packet);
        self.hand_over(Stray { content, looks: looks + 1 }, cx);
        None
    }

    /// Hands over what an ICMP message says about a datagram that was not ours, if another station
    /// may have sent it.
    pub(super) fn sift_error(&mut self, error: IcmpError, looks: usize, cx: &mut Cx<'_>) {
        if self.siblings.is_some() && !self.is_last(looks) {
            self.hand_over(Stray { content: Content::Error(error), looks: looks + 1 }, cx);
        }
    }

    fn hand_over(&mut self, stray: Stray, cx: &mut Cx<'_>) {
        let Some(siblings) = &mut self.siblings else { return };
        if siblings.strays.len() >= STRAYS_MAX {
            return cx.meter.count(Counter::StraysDropped);
        }
        cx.meter.count(Counter::StraysOut);
        siblings.strays.push_back(stray);
    }

    fn is_last(&self, looks: usize) -> bool {
        self.siblings.as_ref().is_none_or(|siblings| looks + 1 >= siblings.count)
    }

    /// Returns whether one of our own has a use for `datagram`, or nobody has.
    fn is_wanted(&self, datagram: &Datagram) -> bool {
        let Header { source, destination, protocol, .. } = datagram.header;
        let Some((&[s0, s1, d0, d1], _)) = datagram.packet.data().split_first_chunk() else {
            return true;
        };
        let local = SocketAddr::new(destination, u16::from_be_bytes([d0, d1]));
        let remote = SocketAddr::new(source, u16::from_be_bytes([s0, s1]));
        match protocol {
            Protocol::Tcp => self.tcp.wants(local, remote),
            Protocol::Udp => self.udp.has_port(local.port()),
            Protocol::Icmp | Protocol::ICMPV6 | Protocol::Other(_) => true,
        }
    }
}

#[cfg(test)]
#[path = "strays_tests.rs"]
mod tests;
