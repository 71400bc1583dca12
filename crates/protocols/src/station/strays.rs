//! Misdelivered packets ("strays"): packets that arrive at the wrong one of several stations of one
//! host.
//!
//! An interface with several queues can have one station per queue, all with the same addresses.
//! Remote hosts do not know of them. The interface distributes received packets by a hash, which
//! keeps a connection together but ignores which station opened it, so packets of a connection may
//! arrive at another station. That station must not answer with a reset. It hands over every packet
//! that matches none of its own connections and ports, and the next station examines it in turn.
//! Only the last one answers that the port is closed.
//!
//! Each station opens connections from its own range of local ports ([`Tcp::share_ports`]), so that
//! no two stations open the same connection. A listening port is looked up in one station only: all
//! of them should listen on it, because a SYN may arrive at any of them.
//!
//! Not supported: stations on an Ethernet segment, where the answers of neighbors concern all
//! stations, and answers to echo requests.
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

/// Maximum number of strays queued for hand-over.
const STRAYS_MAX: usize = 64;

/// A packet or error that arrived at the wrong station.
#[derive(Debug)]
pub struct Stray {
    content: Content,
    /// Number of stations that have examined it.
    looks: usize,
}

#[derive(Debug)]
enum Content {
    Datagram {
        header: Header,
        header_len: usize,
        /// The datagram with its headers, copied out of the packet buffers of its station.
        bytes: Vec<u8>,
        segment_size: u16,
        is_verified: bool,
    },
    Error(IcmpError),
}

/// The state that a station has about its siblings.
#[derive(Debug)]
pub(super) struct Siblings {
    /// Number of stations.
    count: usize,
    strays: VecDeque<Stray>,
}

impl Station {
    /// Makes the station number `number` of `count` stations of one host, each on a queue of the
    /// same interface. From now on packets that are not for this station are queued for hand-over.
    pub fn join_siblings(&mut self, number: u16, count: u16) {
        self.layers.tcp.share_ports(number, count);
        let siblings = Siblings { count: count.into(), strays: VecDeque::new() };
        self.layers.siblings = (count > 1).then_some(siblings);
    }

    /// Returns the next stray, to be passed to the next station.
    pub fn take_stray(&mut self) -> Option<Stray> {
        self.layers.siblings.as_mut()?.strays.pop_front()
    }

    /// Processes a stray from another station.
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

    /// Queues `datagram` for hand-over if another station may have a use for it. Otherwise returns
    /// it: it is for this station, or the `looks` other stations that have examined it have no use
    /// for it.
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

    /// Queues an ICMP error about a datagram of another station for hand-over, if another station
    /// may have sent that datagram.
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

    /// Returns whether this station has a use for `datagram`, or cannot hand it over.
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
