//! Super-datagrams: datagrams of one size that are passed to or from a device as one packet.
//!
//! A super-datagram has one IP and one UDP header in front of the data of several datagrams. All
//! datagrams have the segment size, except the last, which may be shorter. The length fields
//! contain the length of the whole super-datagram, and the checksum field contains the sum of the
//! pseudo header. The device that splits the super-datagram writes both fields into each datagram.
//! A super-datagram is never on a wire. It is passed to a device that splits it, or comes from a
//! device that has merged received datagrams (on Linux `UDP_SEGMENT` and `UDP_GRO` of a socket, and
//! `VIRTIO_NET_HDR_GSO_UDP_L4` of an interface).
//!
//! If a socket has enabled super-datagrams ([`Udp::set_accepts_super_datagrams`]), it receives them
//! in one piece. For any other socket they are divided on arrival, which costs a copy. A
//! super-datagram is dropped if the device has not verified its checksum, because it contains only
//! the checksum of its first datagram. Datagrams without a checksum are therefore never part of a
//! super-datagram.
//!
//! A sent super-datagram must fit the path MTU. If its datagrams are too long for the path, each is
//! sent separately and in fragments.

use super::datagram_sizes::{HEADER_LEN, clear_size_of_single, count_of, ip_header_len};
use super::{Ends, Limits, Socket, SocketId, Udp};
use crate::cx::Cx;
use crate::internet::{Internet, ipv4};
use crate::meter::Counter;
use crate::packet::{Packet, Pool};
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU16;

/// Maximum number of datagrams sent in one packet, as in Linux (`UDP_MAX_SEGMENTS`, until 2024).
const SEGMENTS_MAX: usize = 64;
/// Maximum number of data bytes in an IPv4 datagram. An IPv6 datagram could carry 20 more.
const DATA_MAX: usize = 65_535 - ipv4::HEADER_LEN - HEADER_LEN;

/// A view of the first entry in the queue of a socket. The entry stays in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting<'a> {
    /// The remote source.
    pub source: SocketAddr,
    /// Destination address of the datagram, a local or a multicast address.
    pub destination: IpAddr,
    /// The data of one datagram, or of several datagrams that arrived in one packet.
    pub data: &'a [u8],
    /// Length in bytes of each of several datagrams except the last; 0 for a single datagram.
    pub segment_size: u16,
}

impl<'a> Waiting<'a> {
    /// Returns the data of the first datagram.
    #[must_use]
    pub fn first(&self) -> &'a [u8] {
        self.data
            .get(..self.segment_size.into())
            .filter(|first| !first.is_empty())
            .unwrap_or(self.data)
    }
}

impl Udp {
    /// Sets whether a socket accepts super-datagrams. By default it does not.
    ///
    /// [`Udp::receive_from`] may then return several datagrams in one packet:
    /// `offload.segment_size` of the packet is the length of all but the last, or 0 for a single
    /// datagram.
    pub fn set_accepts_super_datagrams(&mut self, socket: SocketId, accepts_super_datagrams: bool) {
        if let Some(socket) = self.sockets.iter_mut().find(|s| s.id == socket) {
            socket.accepts_super_datagrams = accepts_super_datagrams;
        }
    }

    /// Returns the first entry in the queue of a socket without removing it. [`Self::drop_first`]
    /// removes it.
    #[must_use]
    pub fn waiting(&self, socket: SocketId) -> Option<Waiting<'_>> {
        let socket = self.sockets.iter().find(|s| s.id == socket)?;
        let (Ends { source, destination }, packet) = socket.waiting.front()?;
        let source = *source;
        let destination = *destination;
        let segment_size = packet.offload.segment_size;
        Some(Waiting { source, destination, data: packet.data(), segment_size })
    }

    /// Drops the first `count` datagrams of the first entry in the queue of a socket. After its
    /// last datagram, the packet of the entry is returned to `pool`.
    pub fn drop_first(&mut self, socket: SocketId, count: usize, pool: &mut Pool) {
        let Some(socket) = self.sockets.iter_mut().find(|s| s.id == socket) else { return };
        let Some((_, packet)) = socket.waiting.front_mut() else { return };
        let size = usize::from(packet.offload.segment_size);
        let len = size.saturating_mul(count);
        if size > 0 && len < packet.len() {
            packet.pull(len);
            socket.waiting_bytes -= len;
            return clear_size_of_single(packet);
        }
        if count > 0
            && let Some((_, packet)) = socket.waiting.pop_front()
        {
            socket.waiting_bytes -= packet.len();
            pool.put(packet);
        }
    }

    /// Returns the maximum number of bytes that can be sent to `destination` as one packet, in
    /// datagrams of `size` bytes. Returns 0 if the device does not split super-datagrams, or if a
    /// datagram is too long for the path.
    pub(crate) fn super_datagram_max(
        &self,
        size: NonZeroU16,
        destination: IpAddr,
        internet: &Internet,
        cx: &Cx<'_>,
    ) -> usize {
        let size = usize::from(size.get());
        let datagram_len = size + HEADER_LEN + ip_header_len(destination);
        let has_room = datagram_len <= usize::from(internet.mtu_to(destination, cx.now));
        if !self.lower.uso || !has_room {
            return 0;
        }
        size * SEGMENTS_MAX.min(DATA_MAX / size)
    }
}

impl Socket {
    /// Queues the datagrams of `packet` separately. Those without space in the queue are dropped.
    pub(super) fn split_and_queue(
        &mut self,
        ends: Ends,
        mut packet: Packet,
        limits: &Limits,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) {
        let size = usize::from(packet.offload.segment_size);
        let mut left = count_of(&packet);
        while left > 0 {
            let len = size.min(packet.len());
            let is_full = self.waiting.len() >= limits.datagrams;
            if is_full || self.waiting_bytes + len > limits.bytes || pool.is_queue_share_used_up() {
                break;
            }
            let Some(mut single) = pool.take(cx.meter) else { break };
            single.extend(packet.data().get(..len).unwrap_or_default());
            packet.pull(len);
            self.waiting_bytes += len;
            self.waiting.push_back((ends, single));
            cx.meter.count(Counter::UdpIn);
            left -= 1;
        }
        cx.meter.add(Counter::UdpQueueFull, left);
        pool.put(packet);
    }
}

#[cfg(test)]
#[path = "segments_tests.rs"]
mod tests;
