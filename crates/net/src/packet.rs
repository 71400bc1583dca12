//! Packet buffers: one allocation with headroom for the headers, and a limit on their number.
//!
//! A packet passes up and down through the layers in the same buffer: a layer that receives it
//! moves the start past its own header, and a layer that sends it writes its header in front.
//! Nothing is copied across a layer boundary. TM-233 §5.4 had 32 buffers in a free queue and a used
//! queue; here the free queue is the [`Pool`] and every used queue counts against the limit of the
//! pool.

use crate::meter::{Counter, Meter};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

/// Headroom in bytes in front of the data, for link, Internet and transport headers with all their
/// options.
pub const HEADROOM: usize = 128;

/// A buffer that holds one packet and can grow at both ends.
///
/// The whole buffer is initialized once, when it is allocated, so that a device can read into it. A
/// packet is a pointer to its buffer, so that passing it from layer to layer moves only the
/// pointer.
#[derive(Debug)]
pub struct Packet {
    buffer: Box<Buffer>,
}

/// The content of a [`Packet`].
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Segmentation and checksum work that is left to the device, or that the device has done.
    pub offload: Offload,
    /// Number of further bytes of the packet that are stored outside this buffer until the device
    /// gathers them.
    pub tail_len: usize,
}

impl Deref for Packet {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

impl DerefMut for Packet {
    fn deref_mut(&mut self) -> &mut Buffer {
        &mut self.buffer
    }
}

/// Segmentation and checksum work that the network device does for a packet in place of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Data bytes of each segment of a super-segment; 0 for a packet that is one segment.
    pub segment_size: u16,
    /// The state of the transport checksum.
    pub checksum: ChecksumState,
}

/// The state of a transport checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumState {
    /// The checksum is in the packet, and the receiver has to verify it.
    #[default]
    InPacket,
    /// The device has verified the checksum.
    Verified,
    /// The checksum field holds the sum of the pseudo header only, and the device finishes the
    /// checksum. A received packet in this state has never been on a wire.
    Partial {
        /// Offset of the first summed byte from the start of the buffer.
        start: usize,
        /// Offset of the checksum field from `start`.
        field: usize,
    },
}

impl Packet {
    /// Returns an empty packet that can hold `capacity` bytes after [`HEADROOM`].
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let bytes = vec![0; HEADROOM + capacity];
        let start = HEADROOM;
        let end = HEADROOM;
        let offload = Offload::default();
        Self { buffer: Box::new(Buffer { bytes, start, end, offload, tail_len: 0 }) }
    }

    /// Returns a packet that holds a copy of `data`.
    #[must_use]
    pub fn from_slice(data: &[u8]) -> Self {
        let mut packet = Self::with_capacity(data.len());
        packet.extend(data);
        packet
    }

    /// Returns the bytes of the packet.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        let Buffer { bytes, start, end, .. } = &*self.buffer;
        bytes.get(*start..*end).unwrap_or_default()
    }

    /// Returns the bytes of the packet for writing.
    pub fn data_mut(&mut self) -> &mut [u8] {
        let Buffer { bytes, start, end, .. } = &mut *self.buffer;
        bytes.get_mut(*start..*end).unwrap_or_default()
    }

    /// Returns the number of bytes in the packet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.end - self.buffer.start
    }

    /// Returns whether the packet is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of bytes in the packet and in the tail that is stored elsewhere.
    #[must_use]
    pub fn total_len(&self) -> usize {
        self.len() + self.buffer.tail_len
    }

    /// Returns the number of bytes that can be appended without growing the buffer.
    #[must_use]
    pub fn room(&self) -> usize {
        self.buffer.bytes.len() - self.buffer.end
    }

    /// Returns the free space after the data, for a device to read into. The caller then calls
    /// [`Self::extend_from_spare`] with the number of bytes read.
    pub fn spare_mut(&mut self) -> &mut [u8] {
        self.buffer.bytes.get_mut(self.buffer.end..).unwrap_or_default()
    }

    /// Appends `bytes` to the data.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.append(bytes.len()).copy_from_slice(bytes);
    }

    /// Appends the tail that was stored elsewhere to the data.
    pub fn gather(&mut self, tail: [&[u8]; 2]) {
        tail.iter().for_each(|part| self.extend(part));
        self.buffer.tail_len = 0;
    }

    /// Extends the data by `count` bytes and returns them. Their content is unspecified.
    pub fn append(&mut self, count: usize) -> &mut [u8] {
        let start = self.buffer.end;
        self.buffer.end += count;
        if self.buffer.end > self.buffer.bytes.len() {
            self.buffer.bytes.resize(self.buffer.end, 0);
        }
        self.buffer.bytes.get_mut(start..self.buffer.end).unwrap_or_default()
    }

    /// Resizes the data to `len` bytes. Added bytes are zero.
    pub fn resize(&mut self, len: usize) {
        let old_len = self.len();
        if len > old_len {
            self.append(len - old_len).fill(0);
        } else {
            self.buffer.end = self.buffer.start + len;
        }
    }

    /// Extends the data by the first `count` bytes of [`Self::spare_mut`], which a device has
    /// filled.
    pub fn extend_from_spare(&mut self, count: usize) {
        self.buffer.end = self.buffer.bytes.len().min(self.buffer.end + count);
    }

    /// Removes up to `count` bytes from the front, such as a parsed header.
    pub fn pull(&mut self, count: usize) {
        self.buffer.start = self.buffer.end.min(self.buffer.start.saturating_add(count));
    }

    /// Restores up to `count` of the last bytes that [`Packet::pull`] removed and that were not
    /// overwritten since. An ICMP error uses this to quote the removed headers.
    pub fn unpull(&mut self, count: usize) {
        self.buffer.start = self.buffer.start.saturating_sub(count);
    }

    /// Prepends `header` to the data.
    ///
    /// # Panics
    ///
    /// Panics if the headers of all layers together exceed [`HEADROOM`], which is a bug in this
    /// crate.
    pub fn push(&mut self, header: &[u8]) {
        assert!(self.buffer.start >= header.len(), "the headers fit into the headroom");
        let end = self.buffer.start;
        self.buffer.start -= header.len();
        if let Some(room) = self.buffer.bytes.get_mut(self.buffer.start..end) {
            room.copy_from_slice(header);
        }
    }

    /// Leaves the transport checksum to the device. The transport header must be at the front of
    /// the packet now; `field` is the offset of its checksum field.
    pub fn offload_checksum(&mut self, field: usize) {
        self.buffer.offload.checksum = ChecksumState::Partial { start: self.buffer.start, field };
    }

    /// Returns the two offsets that a device needs to compute the checksum, or `None` if the
    /// checksum is not left to the device: the offset of the first summed byte from the front of
    /// the data, and the offset of the checksum field from that byte.
    #[must_use]
    pub fn offloaded_checksum(&self) -> Option<(usize, usize)> {
        match self.buffer.offload.checksum {
            ChecksumState::Partial { start, field } => {
                Some((start.saturating_sub(self.buffer.start), field))
            }
            ChecksumState::InPacket | ChecksumState::Verified => None,
        }
    }

    /// Empties the packet and restores the headroom.
    pub fn clear(&mut self) {
        self.buffer.start = HEADROOM;
        self.buffer.end = HEADROOM;
        self.buffer.offload = Offload::default();
        self.buffer.tail_len = 0;
    }
}

/// The free packet buffers of one station, and the limit on the number of its buffers.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Packet>,
    lent: usize,
    limit: usize,
    capacity: usize,
}

impl Pool {
    /// Default number of packet buffers (TM-233 §5.4).
    pub const DEFAULT_LIMIT: usize = 32;

    /// Returns a pool that lends at most `limit` buffers of `capacity` bytes at a time.
    #[must_use]
    pub fn new(limit: usize, capacity: usize) -> Self {
        Self { free: Vec::new(), lent: 0, limit, capacity }
    }

    /// Lends an empty packet. Counts a refusal and returns `None` if all buffers are lent.
    pub fn take(&mut self, meter: &mut Meter) -> Option<Packet> {
        if self.is_exhausted() {
            meter.count(Counter::PacketsRefused);
            return None;
        }
        self.lent += 1;
        Some(self.free.pop().unwrap_or_else(|| Packet::with_capacity(self.capacity)))
    }

    /// Returns a lent packet to the pool. A buffer that has grown, because a datagram was received
    /// or sent in fragments, is freed and not reused.
    pub fn put(&mut self, mut packet: Packet) {
        self.lent = self.lent.saturating_sub(1);
        if packet.bytes.len() <= HEADROOM + self.capacity {
            packet.clear();
            self.free.push(packet);
        }
    }

    /// Returns whether [`Self::take`] would refuse the next packet.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.lent >= self.limit
    }

    /// Returns whether the remaining buffers are reserved for received packets. Packets that the
    /// host sends must not use the last buffers: the two ends of a link would deadlock if each
    /// waited for the other to accept a packet and had no buffer for the other's packet.
    #[must_use]
    pub fn is_only_reserve_left(&self) -> bool {
        let reserve = (self.limit / 8).max(1);
        self.lent >= self.limit.saturating_sub(reserve).max(1)
    }

    /// Returns whether more than three quarters of the buffers are lent, so that no further packet
    /// may be queued for an application. The last quarter ensures that an application that does not
    /// read delays neither the packets of other applications nor the packets that the host sends.
    #[must_use]
    pub fn is_queue_share_used_up(&self) -> bool {
        self.lent > self.limit - self.limit / 4
    }

    /// Returns whether at most half of the buffers are lent, so that received data may stay in its
    /// packet buffer until it is read.
    #[must_use]
    pub fn is_mostly_free(&self) -> bool {
        self.lent <= self.limit / 2
    }

    /// Returns the number of packets lent now.
    #[must_use]
    pub fn lent(&self) -> usize {
        self.lent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::OwnedCx;

    #[test]
    fn the_last_packets_are_reserved_for_received_data() {
        let mut context = OwnedCx::default();
        let mut pool = Pool::new(16, 10);
        let lent: Vec<_> = core::iter::from_fn(|| {
            (!pool.is_only_reserve_left()).then(|| pool.take(&mut context.meter))
        })
        .collect();
        assert_eq!((lent.len(), pool.is_exhausted()), (14, false));
    }

    #[test]
    fn an_application_that_does_not_read_leaves_packets_for_sending_and_receiving() {
        let mut context = OwnedCx::default();
        let mut pool = Pool::new(16, 10);
        let lent: Vec<_> = (0..12).map(|_| pool.take(&mut context.meter)).collect();
        assert!(!pool.is_queue_share_used_up());
        assert!(pool.take(&mut context.meter).is_some());
        assert_eq!(
            (lent.len(), pool.is_queue_share_used_up(), pool.is_only_reserve_left()),
            (12, true, false)
        );
    }

    #[test]
    fn the_only_packet_of_a_pool_may_be_sent() {
        assert!(!Pool::new(1, 10).is_only_reserve_left());
    }

    #[test]
    fn headers_are_pushed_and_pulled_without_moving_the_data() {
        let mut packet = Packet::from_slice(b"data");
        let address = packet.data().as_ptr();
        packet.push(b"tcp.");
        packet.push(b"ip..");
        assert_eq!(packet.data(), b"ip..tcp.data");
        packet.pull(8);
        assert_eq!(packet.data(), b"data");
        assert_eq!(packet.data().as_ptr(), address);
    }

    #[test]
    fn a_pulled_header_can_be_restored() {
        let mut packet = Packet::from_slice(b"ip..data");
        packet.pull(4);
        packet.unpull(4);
        assert_eq!(packet.data(), b"ip..data");
    }

    #[test]
    fn a_packet_that_has_grown_is_freed() {
        let mut pool = Pool::new(2, 100);
        let mut context = OwnedCx::default();
        let mut packet = pool.take(&mut context.meter).unwrap();
        packet.resize(101);
        pool.put(packet);
        assert_eq!((pool.free.len(), pool.lent()), (0, 0));
    }

    #[test]
    fn the_pool_refuses_and_counts_packets_over_its_limit() {
        let mut pool = Pool::new(2, 100);
        let mut context = OwnedCx::default();
        let first = pool.take(&mut context.meter).unwrap();
        let _second = pool.take(&mut context.meter).unwrap();
        assert!(pool.take(&mut context.meter).is_none());
        assert_eq!(context.counted(Counter::PacketsRefused), 1);
        pool.put(first);
        assert!(pool.take(&mut context.meter).is_some());
    }
}
