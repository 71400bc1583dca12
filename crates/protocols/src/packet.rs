//! Packet buffers: one allocation with room in front for the headers, and a limit on how many.
//!
//! A packet climbs and descends the layers in the same buffer: a layer that receives it moves the
//! start past its own header, and a layer that sends it writes its header in front. Nothing is
//! copied across a layer boundary. TM-233 §5.4 had 32 buffers in a free queue and a used queue;
//! here the free queue is the [`Pool`] and every used queue counts against its limit.

use crate::meter::{Counter, Meter};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

/// Room in front of the data for link, Internet and transport headers with all their options.
pub const HEADROOM: usize = 128;

/// A buffer that holds one packet, with room to grow at both ends.
///
/// All of the buffer is initialised once, when it is made, so that a device can read into it. The
/// packet itself is a pointer, because it is handed on at every step of its way.
#[derive(Debug)]
pub struct Packet {
    buffer: Box<Buffer>,
}

/// What a [`Packet`] points to.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// What is left for the device to do, or what it has done.
    pub offload: Offload,
    /// Bytes that follow this packet's own and are kept elsewhere until the device gathers them.
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

/// What a device does for a packet in place of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Data bytes of each segment of a super-segment; 0 for a packet that is one segment.
    pub segment_size: u16,
    /// Who has to do with the transport's checksum.
    pub checksum: ChecksumState,
}

/// What is known of a transport's checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumState {
    /// It stands in the packet, and the receiver has to verify it.
    #[default]
    InPacket,
    /// The device has verified it.
    Verified,
    /// Its field holds the sum of the pseudo header only. The device finishes it, and one that
    /// came so was never on a wire.
    Partial {
        /// Where the sum begins, counted from the start of the buffer.
        start: usize,
        /// Where the field lies, counted from there.
        field: usize,
    },
}

impl Packet {
    /// Makes an empty packet that can hold `capacity` bytes behind [`HEADROOM`].
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let bytes = vec![0; HEADROOM + capacity];
        let (start, end, offload) = (HEADROOM, HEADROOM, Offload::default());
        Self { buffer: Box::new(Buffer { bytes, start, end, offload, tail_len: 0 }) }
    }

    /// Makes a packet that holds a copy of `data`.
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

    /// Returns whether the packet holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of bytes in the packet and in the tail that is kept elsewhere.
    #[must_use]
    pub fn total_len(&self) -> usize {
        self.len() + self.buffer.tail_len
    }

    /// Returns how many bytes can be put behind the data without growing the buffer.
    #[must_use]
    pub fn room(&self) -> usize {
        self.buffer.bytes.len() - self.buffer.end
    }

    /// Returns the room behind the data, for a device to read into; [`Self::take_in`] follows.
    pub fn spare_mut(&mut self) -> &mut [u8] {
        self.buffer.bytes.get_mut(self.buffer.end..).unwrap_or_default()
    }

    /// Puts `bytes` behind the data.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.append(bytes.len()).copy_from_slice(bytes);
    }

    /// Puts the tail that was kept elsewhere behind the data.
    pub fn gather(&mut self, tail: [&[u8]; 2]) {
        tail.iter().for_each(|part| self.extend(part));
        self.buffer.tail_len = 0;
    }

    /// Makes the data `count` bytes longer, and returns those bytes, which may hold anything.
    pub fn append(&mut self, count: usize) -> &mut [u8] {
        let start = self.buffer.end;
        self.buffer.end += count;
        if self.buffer.end > self.buffer.bytes.len() {
            self.buffer.bytes.resize(self.buffer.end, 0);
        }
        self.buffer.bytes.get_mut(start..self.buffer.end).unwrap_or_default()
    }

    /// Sets the data to `len` bytes, with zeros where it grows.
    pub fn resize(&mut self, len: usize) {
        let old = self.len();
        if len > old {
            self.append(len - old).fill(0);
        } else {
            self.buffer.end = self.buffer.start + len;
        }
    }

    /// Makes data of the first `count` bytes of [`Self::spare_mut`], which a device has read into.
    pub fn take_in(&mut self, count: usize) {
        self.buffer.end = self.buffer.bytes.len().min(self.buffer.end + count);
    }

    /// Removes `count` bytes, or all there are, from the front: a header that has been read.
    pub fn pull(&mut self, count: usize) {
        self.buffer.start = self.buffer.end.min(self.buffer.start.saturating_add(count));
    }

    /// Takes back the last `count` bytes, or all there are, that [`Packet::pull`] removed and
    /// nothing has overwritten since: an ICMP error quotes the header it is about.
    pub fn unpull(&mut self, count: usize) {
        self.buffer.start = self.buffer.start.saturating_sub(count);
    }

    /// Puts `header` in front of the data.
    ///
    /// # Panics
    ///
    /// If the headers of all layers together exceed [`HEADROOM`], which is our mistake.
    pub fn push(&mut self, header: &[u8]) {
        assert!(self.buffer.start >= header.len(), "the headers fit into the headroom");
        let end = self.buffer.start;
        self.buffer.start -= header.len();
        if let Some(room) = self.buffer.bytes.get_mut(self.buffer.start..end) {
            room.copy_from_slice(header);
        }
    }

    /// Leaves the checksum of the transport whose header is at the front now to the device: the
    /// field is `field` bytes behind the front.
    pub fn leave_checksum_at(&mut self, field: usize) {
        self.buffer.offload.checksum = ChecksumState::Partial { start: self.buffer.start, field };
    }

    /// Returns where the sum begins that the device has to finish, counted from the front of the
    /// data, and where its field lies, counted from there.
    #[must_use]
    pub fn checksum_left(&self) -> Option<(usize, usize)> {
        match self.buffer.offload.checksum {
            ChecksumState::Partial { start, field } => {
                Some((start.saturating_sub(self.buffer.start), field))
            }
            ChecksumState::InPacket | ChecksumState::Verified => None,
        }
    }

    /// Empties the packet and gives the headroom back.
    pub fn clear(&mut self) {
        (self.buffer.start, self.buffer.end) = (HEADROOM, HEADROOM);
        self.buffer.offload = Offload::default();
        self.buffer.tail_len = 0;
    }
}

/// The limit on packet buffers of one station, and those that are free.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Packet>,
    lent: usize,
    limit: usize,
    capacity: usize,
}

impl Pool {
    /// The number of packet buffers of TM-233 §5.4.
    pub const DEFAULT_LIMIT: usize = 32;

    /// Makes a pool that lends at most `limit` buffers of `capacity` bytes at a time.
    #[must_use]
    pub fn new(limit: usize, capacity: usize) -> Self {
        Self { free: Vec::new(), lent: 0, limit, capacity }
    }

    /// Lends an empty packet, or counts a refusal when all are lent.
    pub fn take(&mut self, meter: &mut Meter) -> Option<Packet> {
        if self.is_exhausted() {
            meter.count(Counter::PacketsRefused);
            return None;
        }
        self.lent += 1;
        Some(self.free.pop().unwrap_or_else(|| Packet::with_capacity(self.capacity)))
    }

    /// Takes back a packet that this pool lent. One that has grown, because a datagram came or
    /// went in fragments, is let go.
    pub fn put(&mut self, mut packet: Packet) {
        self.lent = self.lent.saturating_sub(1);
        if packet.bytes.len() <= HEADROOM + self.capacity {
            packet.clear();
            self.free.push(packet);
        }
    }

    /// Returns whether the next packet would be refused.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.lent >= self.limit
    }

    /// Returns whether those that are left are for what arrives. What we send ourselves must not
    /// take the last: two ends of a line that both wait for the other to take a packet, and have
    /// no buffer for the other's, would wait for ever.
    #[must_use]
    pub fn is_scarce(&self) -> bool {
        let kept = (self.limit / 8).max(1);
        self.lent >= self.limit.saturating_sub(kept).max(1)
    }

    /// Returns whether what waits for an application has its share: with a quarter left, neither what
    /// arrives for others nor what we send ourselves is held up by one who does not read.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.lent > self.limit - self.limit / 4
    }

    /// Returns whether so few are lent that data may stay in some of them for a while.
    #[must_use]
    pub fn is_ample(&self) -> bool {
        self.lent <= self.limit / 2
    }

    /// Returns how many packets are lent now.
    #[must_use]
    pub fn lent(&self) -> usize {
        self.lent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::testing::Lab;

    #[test]
    fn the_last_packets_are_for_what_arrives() {
        let mut lab = Lab::default();
        let mut pool = Pool::new(16, 10);
        let lent: Vec<_> =
            core::iter::from_fn(|| (!pool.is_scarce()).then(|| pool.take(&mut lab.meter)))
                .collect();
        assert_eq!((lent.len(), pool.is_exhausted()), (14, false));
    }

    #[test]
    fn who_does_not_read_leaves_packets_to_send_and_to_receive() {
        let mut lab = Lab::default();
        let mut pool = Pool::new(16, 10);
        let lent: Vec<_> = (0..12).map(|_| pool.take(&mut lab.meter)).collect();
        assert!(!pool.is_crowded());
        assert!(pool.take(&mut lab.meter).is_some());
        assert_eq!((lent.len(), pool.is_crowded(), pool.is_scarce()), (12, true, false));
    }

    #[test]
    fn the_only_packet_of_a_pool_may_go_out() {
        assert!(!Pool::new(1, 10).is_scarce());
    }

    #[test]
    fn headers_are_pushed_and_pulled_without_moving_the_data() {
        let mut packet = Packet::from_slice(b"data");
        let place = packet.data().as_ptr();
        packet.push(b"tcp.");
        packet.push(b"ip..");
        assert_eq!(packet.data(), b"ip..tcp.data");
        packet.pull(8);
        assert_eq!(packet.data(), b"data");
        assert_eq!(packet.data().as_ptr(), place);
    }

    #[test]
    fn a_header_that_was_pulled_can_be_taken_back() {
        let mut packet = Packet::from_slice(b"ip..data");
        packet.pull(4);
        packet.unpull(4);
        assert_eq!(packet.data(), b"ip..data");
    }

    #[test]
    fn a_packet_that_has_grown_is_let_go() {
        let (mut pool, mut lab) = (Pool::new(2, 100), Lab::default());
        let mut packet = pool.take(&mut lab.meter).unwrap();
        packet.resize(101);
        pool.put(packet);
        assert_eq!((pool.free.len(), pool.lent()), (0, 0));
    }

    #[test]
    fn the_pool_refuses_and_counts_what_is_over_its_limit() {
        let (mut pool, mut lab) = (Pool::new(2, 100), Lab::default());
        let first = pool.take(&mut lab.meter).unwrap();
        let _second = pool.take(&mut lab.meter).unwrap();
        assert!(pool.take(&mut lab.meter).is_none());
        assert_eq!(lab.counted(Counter::PacketsRefused), 1);
        pool.put(first);
        assert!(pool.take(&mut lab.meter).is_some());
    }
}
