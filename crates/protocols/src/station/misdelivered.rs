//! Misdelivered packets: packets that arrive at the wrong one of several stations of one host.
//!
//! An interface with several queues can have one station per queue, all with the same addresses.
//! Remote hosts see a single host. The interface distributes received packets by a hash, which
//! keeps a connection together but ignores which station opened it, so packets of a connection may
//! arrive at another station. That station must not answer with a reset. Instead it hands over
//! every packet that matches none of its own connections and ports, and the next station examines
//! the packet in turn. Only the last station answers that the port is closed.
//!
//! Each station opens connections from its own range of local ports ([`Tcp::share_ports`]), so that
//! no two stations open the same connection. A listening port is looked up in one station only. All
//! stations should therefore listen on the port, because a SYN may arrive at any station.
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

/// Maximum number of misdelivered packets queued for hand-over.
const QUEUE_MAX: usize = 64;

/// A packet or error that arrived at the wrong station.
#[derive(Debug)]
pub struct Misdelivered {
    content: Content,
    /// Number of stations that have examined the packet.
    examined_by: usize,
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

/// The other stations on the queues of the same interface, and the packets for them.
#[derive(Debug)]
pub(super) struct Multiqueue {
    /// Number of stations.
    count: usize,
    queue: VecDeque<Misdelivered>,
}

impl Station {
    /// Makes the station number `number` of `count` stations of one host, each on a queue of the
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
            Content::Datagram { header, header_len, bytes, segment_size, is_verified } => {
                let Some(mut packet) = self.lend(cx) else { return };
                packet.extend(&bytes);
                packet.pull(header_len);
                let checksum =
                    if is_verified { ChecksumState::Verified } else { ChecksumState::InPacket };
                packet.offload = Offload { segment_size, checksum };
                self.deliver(Datagram { header, header_len, packet }, examined_by, cx);
            }
        }
    }

    /// Queues `datagram` for hand-over if another station may have a use for it. Otherwise returns
    /// the datagram: it is for this station, or all other stations have examined it and have no use
    /// for it. `examined_by` is the number of stations that have examined it.
    pub(super) fn redirect(
        &mut self,
        datagram: Datagram,
        examined_by: usize,
        cx: &mut Cx<'_>,
    ) -> Option<Datagram> {
        if self.multiqueue.is_none() || self.is_wanted(&datagram) || self.is_last(examined_by) {
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
        self.hand_over(Misdelivered { content, examined_by: examined_by + 1 }, cx);
        None
    }

    /// Queues an ICMP error about a datagram of another station for hand-over, if another station
    /// may have sent that datagram.
    pub(super) fn redirect_error(&mut self, error: IcmpError, examined_by: usize, cx: &mut Cx<'_>) {
        if self.multiqueue.is_some() && !self.is_last(examined_by) {
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

    fn is_last(&self, examined_by: usize) -> bool {
        self.multiqueue.as_ref().is_none_or(|multiqueue| examined_by + 1 >= multiqueue.count)
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
#[path = "misdelivered_tests.rs"]
mod tests;
