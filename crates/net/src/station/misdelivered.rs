//! Misdelivered packets: packets that arrive at the wrong station of a host with several stations.
//!
//! An interface with several queues can have one station per queue, all with the same addresses.
//! Remote hosts see a single host. The interface distributes received packets by a hash. All
//! packets of a connection have the same hash, but the hash may select another station than the one
//! that opened the connection. The selected station must not answer with a reset. Instead it hands
//! over every packet that matches none of its own connections and ports, and the next station
//! examines the packet. Only the last station answers that the port is closed.
//!
//! Each station opens connections from its own range of local ports ([`Tcp::share_ports`]), so that
//! no two stations open the same connection. All stations should listen on the same ports, because
//! a SYN may arrive at any station and would otherwise be handed over.
//!
//! Not supported: stations on an Ethernet segment, where the answers of neighbors concern all
//! stations, and replies to echo requests.
//!
//! [`Tcp::share_ports`]: crate::transport::tcp::Tcp::share_ports

use super::multiqueue::{Content, Misdelivered, Multiqueue};
use super::{Layers, Station};
use crate::cx::Cx;
use crate::internet;
use crate::internet::icmp::IcmpError;
use crate::internet::ipv4::Protocol;
use crate::meter::Counter;
use crate::packet::{ChecksumState, Offload};
use alloc::collections::VecDeque;
use core::net::SocketAddr;

/// Maximum number of misdelivered packets queued for hand-over.
const QUEUE_MAX: usize = 64;

impl Station {
    /// Makes this station number `number` of `count` stations of one host, one per queue of the
    /// same interface. From now on packets that are not for this station are queued for hand-over.
    pub fn join_multiqueue(&mut self, number: u16, count: u16) {
        self.layers.tcp.share_ports(number, count);
        let multiqueue = Multiqueue { count: count.into(), queue: VecDeque::new() };
        self.layers.multiqueue = (count > 1).then_some(multiqueue);
    }

    /// Returns the next misdelivered packet, to be passed to the next station.
    pub fn take_misdelivered(&mut self) -> Option<Misdelivered> {
        self.layers.multiqueue.as_mut()?.queue.pop_front()
    }

    /// Processes a packet that arrived at another station.
    pub fn receive_misdelivered(&mut self, misdelivered: Misdelivered, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::MisdeliveredIn);
        self.layers.receive_misdelivered(misdelivered, cx);
    }
}

impl Layers {
    fn receive_misdelivered(&mut self, misdelivered: Misdelivered, cx: &mut Cx<'_>) {
        let Misdelivered { content, examined_by } = misdelivered;
        match content {
            Content::Error(error) => self.process_error(error, examined_by, cx),
            Content::Datagram {
                header,
                header_len,
                is_reassembled,
                bytes,
                segment_size,
                is_verified,
            } => {
                let Some(mut packet) = self.lend(cx) else { return };
                packet.extend(&bytes);
                packet.pull(header_len);
                let checksum =
                    if is_verified { ChecksumState::Verified } else { ChecksumState::InPacket };
                packet.offload = Offload { segment_size, checksum };
                let datagram = internet::Datagram { header, header_len, is_reassembled, packet };
                self.deliver(datagram, examined_by, cx);
            }
        }
    }

    /// Queues `datagram` for hand-over if it may belong to another station. Otherwise returns the
    /// datagram: it belongs to this station, or to none of the stations. `examined_by` is the
    /// number of stations that have examined it.
    pub(super) fn redirect(
        &mut self,
        datagram: internet::Datagram,
        examined_by: usize,
        cx: &mut Cx<'_>,
    ) -> Option<internet::Datagram> {
        if self.multiqueue.is_none()
            || self.is_wanted(&datagram)
            || self.is_last_station(examined_by)
        {
            return Some(datagram);
        }
        let internet::Datagram { header, header_len, is_reassembled, mut packet } = datagram;
        let Offload { segment_size, checksum } = packet.offload;
        packet.unpull(header_len);
        let content = Content::Datagram {
            header,
            header_len,
            is_reassembled,
            bytes: packet.data().to_vec(),
            segment_size,
            is_verified: checksum != ChecksumState::InPacket,
        };
        self.pool.put(packet);
        self.hand_over(Misdelivered { content, examined_by: examined_by + 1 }, cx);
        None
    }

    /// Queues an ICMP error about a datagram of another station for hand-over, if another station
    /// may have sent that datagram.
    pub(super) fn redirect_error(&mut self, error: IcmpError, examined_by: usize, cx: &mut Cx<'_>) {
        if self.multiqueue.is_some() && !self.is_last_station(examined_by) {
            let content = Content::Error(error);
            self.hand_over(Misdelivered { content, examined_by: examined_by + 1 }, cx);
        }
    }

    fn hand_over(&mut self, misdelivered: Misdelivered, cx: &mut Cx<'_>) {
        let Some(multiqueue) = &mut self.multiqueue else { return };
        if multiqueue.queue.len() >= QUEUE_MAX {
            return cx.meter.count(Counter::MisdeliveredDropped);
        }
        cx.meter.count(Counter::MisdeliveredOut);
        multiqueue.queue.push_back(misdelivered);
    }

    fn is_last_station(&self, examined_by: usize) -> bool {
        self.multiqueue.as_ref().is_none_or(|multiqueue| examined_by + 1 >= multiqueue.count)
    }

    /// Returns whether this station must process `datagram` itself, because it belongs to this
    /// station or cannot be handed over.
    fn is_wanted(&self, datagram: &internet::Datagram) -> bool {
        let internet::Header { source, destination, protocol, .. } = datagram.header;
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
#[path = "misdelivered_tests.rs"]
mod tests;
