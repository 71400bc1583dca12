//! Received data that the user has not read yet, including data received out of order.
//!
//! Readable data is a queue of pieces. A long segment received in order stays in its packet and is
//! read there. Short segments are copied together into one piece. Only data that waits to be read
//! uses memory.
//!
//! *Early* data is data received out of order. It is stored in a ring at the position of its
//! sequence number, as in the two arrays of TM-233 §5.6, and copied to the queue once no earlier
//! data is missing. The filled parts of the ring are a short list of ranges instead of a sequence
//! number for each byte.

use crate::meter::{Counter, Meter};
use crate::mutants::{Mutant, is_enabled};
use crate::packet::Packet;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use range::Range;

/// Minimum value of the limit on separate early ranges.
const MAX_RANGES: usize = 64;
/// In a large window, one early range is allowed per this number of bytes. After a queue overflow
/// every other outstanding segment may be missing.
const BYTES_PER_RANGE: usize = 8192;
/// Minimum length of data that is kept in its packet. Shorter data is copied, so that a packet is
/// never more than four times as long as its data.
const KEPT_LEN_MIN: usize = 16_384;
/// Maximum size of a piece that gathers short segments, in bytes.
const GATHERED_LEN: usize = 65_536;
/// Maximum size of such a piece in windows, so that it is never more than four times as long as the
/// data that the window permits.
const PIECE_WINDOWS: usize = 4;
/// Minimum length of a segment that belongs to bulk data. Shorter segments are typed input.
const BULK_LEN: usize = 512;
/// Capacity that an empty buffer keeps, in bytes, so that typed input causes no allocation.
const IDLE_CAPACITY: usize = 64;

/// The largest window that the window field can express (RFC 7323 §2.3).
const WINDOW_MAX: u32 = 1 << 30;
/// Divisor of the window. The quotient is reserved for rounding.
const SLACK_DIVISOR: u32 = 8;
/// Initial size of the ring, in bytes.
const RING_LEN_MIN: usize = 4096;

mod range {
    use crate::probes;

    /// A range of offsets from the next expected byte. Each comparison counts as a probe.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Range {
        start: usize,
        end: usize,
    }

    impl Range {
        pub(super) const fn new(start: usize, end: usize) -> Self {
            Self { start, end }
        }

        pub(super) fn start(&self) -> usize {
            probes::count_probe();
            self.start
        }

        pub(super) fn end(&self) -> usize {
            probes::count_probe();
            self.end
        }
    }
}

/// A part of the readable data.
#[derive(Debug)]
enum Piece {
    /// The packet in which the data arrived.
    Kept(Packet),
    /// Copies of short segments, and the number of bytes already read from them.
    Gathered(Vec<u8>, usize),
}

impl Piece {
    fn data(&self) -> &[u8] {
        match self {
            Self::Kept(packet) => packet.data(),
            Self::Gathered(bytes, read) => bytes.get(*read..).unwrap_or_default(),
        }
    }
}

/// The queue and the ring. Offsets count from the next expected byte.
#[derive(Debug)]
pub(super) struct ReceiveBuffer {
    /// Typed input. It is read before all other data.
    typed: Vec<u8>,
    /// Number of bytes of `typed` that were already read.
    typed_read: u16,
    readable: u32,
    /// Size of the largest window to advertise, in bytes.
    window: u32,
    /// Number of bytes that are accepted beyond that window.
    slack: u32,
    /// State that only a busy connection needs.
    rest: Option<Box<Rest>>,
}

/// The state of a busy connection: bulk data, and early data (received out of order).
#[derive(Debug, Default)]
struct Rest {
    pieces: VecDeque<Piece>,
    /// The ring of early data. It is as long as the data needs, and never longer than the window.
    ring: Vec<u8>,
    /// Index of the next expected byte in the ring.
    head: usize,
    /// Ranges of early data, sorted and disjoint.
    early: Vec<Range>,
}

impl ReceiveBuffer {
    /// Returns a buffer for a window of `window` bytes. The window field has the unit 1 << `shift`.
    pub(super) fn new(window: usize, shift: u8) -> Self {
        let typed = Vec::new();
        let typed_read = 0;
        let readable = 0;
        let rest = None;
        let mut buffer = Self { typed, typed_read, readable, window: 0, slack: 0, rest };
        buffer.set_window(window, shift);
        buffer
    }

    /// Returns the size of the largest window to advertise, in bytes.
    pub(super) fn window(&self) -> usize {
        self.window as usize
    }

    /// Sets the largest window to advertise. It must not decrease before TIME-WAIT.
    pub(super) fn set_window(&mut self, window: usize, shift: u8) {
        let window = u32::try_from(window).unwrap_or(u32::MAX).min(WINDOW_MAX);
        // A window is rounded up to a multiple of the unit, so that its right edge does not move
        // left. The rounding errors of many segments add up, and need additional space.
        let unit = 1 << shift;
        self.slack = if shift == 0 { unit } else { unit.max(window / SLACK_DIVISOR) };
        self.window = window;
    }

    fn capacity(&self) -> usize {
        (self.window + self.slack) as usize
    }

    fn early(&self) -> &[Range] {
        self.rest.as_ref().map_or(&[], |rest| &rest.early)
    }

    /// Returns the number of readable bytes.
    pub(super) fn readable(&self) -> usize {
        self.readable as usize
    }

    /// Returns the number of bytes of free space after the readable data.
    pub(super) fn free_space(&self) -> usize {
        self.capacity().saturating_sub(self.readable())
    }

    /// Returns whether early data is waiting for missing data.
    pub(super) fn has_early(&self) -> bool {
        !self.early().is_empty()
    }

    /// Returns the range of early data that contains `offset`, as its first offset and its end.
    pub(super) fn early_around(&self, offset: usize) -> Option<(usize, usize)> {
        let index = self.early().partition_point(|range| range.end() <= offset);
        let range = self.early().get(index).filter(|range| range.start() <= offset)?;
        Some((range.start(), range.end()))
    }

    /// Returns the first part of the `len` bytes at `offset` that was already received.
    pub(super) fn early_within(&self, offset: usize, len: usize) -> Option<(usize, usize)> {
        let index = self.early().partition_point(|range| range.end() <= offset);
        let range = self.early().get(index).filter(|range| range.start() < offset + len)?;
        Some((range.start().max(offset), range.end().min(offset + len)))
    }

    /// Returns the first contiguous piece of readable data.
    pub(super) fn data(&self) -> &[u8] {
        match self.typed.get(self.typed_read.into()..) {
            Some(typed) if !typed.is_empty() => typed,
            _ => self.rest.as_ref().and_then(|rest| rest.pieces.front()).map_or(&[], Piece::data),
        }
    }

    /// Returns all readable data, in contiguous pieces.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let typed = self.typed.get(self.typed_read.into()..).unwrap_or_default();
        let pieces = self.rest.iter().flat_map(|rest| rest.pieces.iter().map(Piece::data));
        core::iter::once(typed).chain(pieces).filter(|piece| !piece.is_empty())
    }

    /// Returns the contiguous readable data that begins `offset` bytes after the next unread byte.
    pub(super) fn data_from(&self, mut offset: usize) -> &[u8] {
        for piece in self.pieces() {
            match piece.get(offset..) {
                Some(rest) if !rest.is_empty() => return rest,
                _ => offset = offset.saturating_sub(piece.len()),
            }
        }
        &[]
    }

    /// Frees the memory of typed input if all of it was read.
    pub(super) fn shrink(&mut self) {
        if self.typed.is_empty() {
            self.typed = Vec::new();
        }
    }

    /// Removes `count` bytes that were read, and moves their packets to `spent`.
    pub(super) fn consume(&mut self, count: usize, spent: &mut Vec<Packet>) {
        let count = count.min(self.readable());
        self.readable -= u32::try_from(count).unwrap_or(self.readable);
        let typed = count.min(self.typed.len() - usize::from(self.typed_read));
        self.typed_read += u16::try_from(typed).unwrap_or(u16::MAX);
        if usize::from(self.typed_read) == self.typed.len() {
            self.typed_read = 0;
            self.typed.clear();
            if self.typed.capacity() > IDLE_CAPACITY {
                self.typed = Vec::new();
            }
        }
        let Some(rest) = &mut self.rest else { return };
        rest.consume(count - typed, spent);
        // This memory is only needed by a busy connection.
        if self.readable == 0 && rest.early.is_empty() {
            self.rest = None;
        }
    }

    /// Drops all data, and moves its packets to `spent`.
    pub(super) fn clear(&mut self, spent: &mut Vec<Packet>) {
        self.consume(usize::MAX, spent);
    }

    /// Returns whether the packet of `len` bytes at `offset` should be kept. If so, [`Self::keep`]
    /// stores the packet.
    pub(super) fn would_keep(&self, offset: usize, len: usize) -> bool {
        offset == 0 && len >= KEPT_LEN_MIN && len <= self.free_space() && !self.has_early()
    }

    /// Stores a packet that holds the next bytes in order.
    pub(super) fn keep(&mut self, packet: Packet) {
        let rest = self.rest.get_or_insert_default();
        self.readable += u32::try_from(packet.len()).unwrap_or(0);
        rest.pieces.push_back(Piece::Kept(packet));
    }

    /// Stores `data` at `offset`, and returns the number of bytes that became readable.
    ///
    /// Data beyond the free space is dropped; the peer will retransmit it.
    pub(super) fn put(&mut self, offset: usize, data: &[u8], meter: &mut Meter) -> usize {
        let data = data.get(..self.free_space().saturating_sub(offset).min(data.len()));
        let Some(data) = data.filter(|data| !data.is_empty()) else { return 0 };
        let end = offset + data.len();
        if offset == 0 {
            self.gather(data);
            return self.advance(end);
        }
        let capacity = self.capacity();
        let rest = self.rest.get_or_insert_default();
        if rest.keep_early(Range::new(offset, end), MAX_RANGES.max(capacity / BYTES_PER_RANGE)) {
            rest.write(offset, data, capacity);
        } else {
            meter.count(Counter::TcpOutOfOrderDropped);
        }
        0
    }

    /// Appends a copy of `data` to the readable data.
    fn gather(&mut self, data: &[u8]) {
        let has_pieces = self.rest.as_ref().is_some_and(|rest| !rest.pieces.is_empty());
        if !has_pieces && self.typed.len() + data.len() < BULK_LEN {
            return self.typed.extend_from_slice(data);
        }
        let piece_len = self.piece_len();
        gather(&mut self.rest.get_or_insert_default().pieces, data, piece_len);
    }

    /// Returns the size of a piece that gathers short segments, in bytes.
    fn piece_len(&self) -> usize {
        GATHERED_LEN.min(self.capacity().saturating_mul(PIECE_WINDOWS))
    }

    /// Makes the first `end` bytes readable, and also the early ranges that directly follow them.
    /// Returns the number of bytes made readable.
    fn advance(&mut self, end: usize) -> usize {
        let piece_len = self.piece_len();
        let readable_len = self.rest.as_mut().map_or(end, |rest| rest.advance(end, piece_len));
        self.readable += u32::try_from(readable_len).unwrap_or(0);
        readable_len
    }
}

impl Rest {
    fn consume(&mut self, count: usize, spent: &mut Vec<Packet>) {
        let mut left = count;
        while left > 0 {
            let Some(front) = self.pieces.front_mut() else { return };
            let consumed = left.min(front.data().len());
            left -= consumed;
            match front {
                Piece::Kept(packet) => packet.pull(consumed),
                Piece::Gathered(_, read) => *read += consumed,
            }
            if front.data().is_empty()
                && let Some(Piece::Kept(packet)) = self.pieces.pop_front()
            {
                spent.push(packet);
            }
        }
    }

    /// Advances past the first `end` bytes, and past the early ranges that directly follow them.
    /// Returns the number of bytes. `piece_len` is the size of a new piece.
    fn advance(&mut self, end: usize, piece_len: usize) -> usize {
        let joined = self.early.iter().take_while(|range| range.start() <= end).count();
        let joined_end =
            self.early.drain(..joined).fold(end, |joined_end, range| joined_end.max(range.end()));
        for range in &mut self.early {
            *range = Range::new(range.start() - joined_end, range.end() - joined_end);
        }
        let ring_len = self.ring.len().max(1);
        if joined_end > end {
            let start = (self.head + end) % ring_len;
            let first = (joined_end - end).min(ring_len - start);
            let [front, back] = [start..start + first, 0..joined_end - end - first];
            for part in [front, back] {
                gather(&mut self.pieces, self.ring.get(part).unwrap_or_default(), piece_len);
            }
        }
        if self.early.is_empty() {
            self.ring = Vec::new();
        }
        self.head = (self.head + joined_end) % ring_len;
        joined_end
    }

    /// Adds an early range, merged with the ranges that it touches. Returns false if there are
    /// `max` ranges already.
    fn keep_early(&mut self, range: Range, max: usize) -> bool {
        let first = self.early.partition_point(|other| other.end() < range.start());
        let last = self.early.partition_point(|other| other.start() <= range.end());
        if first == last {
            if self.early.len() >= max {
                return false;
            }
            self.early.insert(first, range);
            return true;
        }
        let joined = self.early.drain(first..last).fold(range, |joined, other| {
            Range::new(joined.start().min(other.start()), joined.end().max(other.end()))
        });
        self.early.insert(first, joined);
        true
    }

    /// Replaces the ring by a longer one of `len` bytes, and copies the content to its start.
    fn enlarge(&mut self, len: usize) {
        let first = self.head.min(self.ring.len());
        self.ring.rotate_left(first);
        self.ring.resize(len, 0);
        self.head = 0;
    }

    /// Writes early data to its position, wrapping around the end of the ring.
    fn write(&mut self, offset: usize, data: &[u8], capacity: usize) {
        let needed = offset + data.len();
        if needed > self.ring.len() {
            self.enlarge(needed.next_power_of_two().max(RING_LEN_MIN).min(capacity));
        }
        let start = (self.head + offset) % self.ring.len().max(1);
        let (first, rest) = data.split_at(data.len().min(self.ring.len() - start));
        if let Some(room) = self.ring.get_mut(start..start + first.len()) {
            room.copy_from_slice(first);
        }
        let rest = if is_enabled(Mutant::LosesBytesAfterRingWrap) { &[] } else { rest };
        if let Some(room) = self.ring.get_mut(..rest.len()) {
            room.copy_from_slice(rest);
        }
    }
}

/// Appends a copy of `data` to the pieces. A new piece of bulk data has space for `piece_len` bytes.
fn gather(pieces: &mut VecDeque<Piece>, data: &[u8], piece_len: usize) {
    if data.is_empty() {
        return;
    }
    if let Some(Piece::Gathered(bytes, _)) = pieces.back_mut()
        && bytes.len() + data.len() <= bytes.capacity().max(BULK_LEN)
    {
        return bytes.extend_from_slice(data);
    }
    let capacity = if data.len() < BULK_LEN { data.len() } else { piece_len.max(data.len()) };
    let mut bytes = Vec::with_capacity(capacity);
    bytes.extend_from_slice(data);
    pieces.push_back(Piece::Gathered(bytes, 0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::OwnedCx;
    use proptest::prelude::*;

    fn read_all(buffer: &mut ReceiveBuffer) -> Vec<u8> {
        let mut all = Vec::new();
        while buffer.readable() > 0 {
            let count = buffer.data().len();
            all.extend_from_slice(buffer.data());
            buffer.consume(count, &mut Vec::new());
        }
        all
    }

    proptest! {
        #[test]
        fn segments_in_any_order_and_overlap_produce_the_stream_once(
            segments in prop::collection::vec((0..180_usize, 1..60_usize), 1..80),
            turn in 0..200_usize
        ) {
            let mut buffer = ReceiveBuffer::new(199, 0);
            let mut context = OwnedCx::default();
            buffer.put(0, &[9; 200], &mut context.meter);
            buffer.consume(turn, &mut Vec::new());
            buffer.consume(200, &mut Vec::new());
            let stream: Vec<u8> = (0..200).collect();
            let mut next = 0;
            let all_in_order = [(0, 70), (60, 70), (120, 80)];
            for (start, len) in segments.into_iter().chain(all_in_order) {
                let end = (start + len).min(200);
                // The caller has already removed data that was received before.
                let start = start.max(next);
                if start < end {
                    next += buffer.put(start - next, &stream[start..end], &mut context.meter);
                }
            }
            prop_assert_eq!(next, 200);
            prop_assert!(!buffer.has_early());
            prop_assert_eq!(read_all(&mut buffer), stream);
        }
    }

    #[test]
    fn early_data_waits_for_what_is_missing() {
        let mut buffer = ReceiveBuffer::new(99, 0);
        let mut context = OwnedCx::default();
        assert_eq!(buffer.put(3, b"def", &mut context.meter), 0);
        assert!(buffer.has_early());
        assert_eq!(buffer.put(0, b"abc", &mut context.meter), 6);
        assert_eq!(read_all(&mut buffer), b"abcdef");
    }

    #[test]
    fn data_beyond_the_free_space_is_cut_off() {
        let mut buffer = ReceiveBuffer::new(3, 0);
        let mut context = OwnedCx::default();
        assert_eq!(buffer.put(0, b"abcdef", &mut context.meter), 4);
        assert_eq!(buffer.put(0, b"gh", &mut context.meter), 0);
        assert_eq!(read_all(&mut buffer), b"abcd");
    }

    #[test]
    fn more_ranges_than_the_limit_are_dropped_and_counted() {
        let mut buffer = ReceiveBuffer::new(9_999, 0);
        let mut context = OwnedCx::default();
        for i in 1..=MAX_RANGES + 5 {
            buffer.put(i * 2, b"x", &mut context.meter);
        }
        assert_eq!(context.counted(Counter::TcpOutOfOrderDropped), 5);
    }

    #[test]
    fn a_piece_that_gathers_segments_is_not_longer_than_four_small_windows() {
        let mut context = OwnedCx::default();
        let capacities = [8192, 1 << 18].map(|window| {
            let mut buffer = ReceiveBuffer::new(window, 0);
            buffer.put(0, &[b'x'; BULK_LEN], &mut context.meter);
            buffer.put(2 * BULK_LEN, &[b'x'; BULK_LEN], &mut context.meter);
            buffer.put(BULK_LEN, &[b'x'; BULK_LEN], &mut context.meter);
            let pieces = &buffer.rest.as_ref().unwrap().pieces;
            let capacities = pieces.iter().map(|piece| match piece {
                Piece::Kept(_) => 0,
                Piece::Gathered(bytes, _) => bytes.capacity(),
            });
            capacities.sum::<usize>()
        });
        assert_eq!(capacities, [4 * 8193, GATHERED_LEN]);
    }

    #[test]
    fn a_read_may_begin_within_typed_input_and_end_in_the_data_after_it() {
        let mut buffer = ReceiveBuffer::new(10_000, 0);
        let mut context = OwnedCx::default();
        let bulk = [b'x'; BULK_LEN];
        assert_eq!(buffer.put(0, b"abc", &mut context.meter), 3);
        buffer.put(0, &bulk, &mut context.meter);
        buffer.consume(1, &mut Vec::new());
        buffer.consume(3, &mut Vec::new());
        assert_eq!((buffer.readable(), buffer.data()), (BULK_LEN - 1, &bulk[1..]));
    }
}
