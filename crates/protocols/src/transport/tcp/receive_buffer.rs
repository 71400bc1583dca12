//! What the peer sent and the user has not yet read, with what came out of order.
//!
//! What can be read is a queue of pieces. A long segment that comes in order stays in the packet
//! in which it came, and is read there; short ones are gathered. Memory is held only for what
//! waits to be read.
//!
//! What comes early has its place in a ring by its sequence number, as in the two arrays of TM-233
//! §5.6, and is copied to the queue once nothing is missing before it. Which parts of the ring are
//! there is kept as a short list of ranges instead of a sequence number beside each byte.

use crate::meter::{Counter, Meter};
use crate::packet::Packet;
use crate::planted::{Bug, is_planted};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use range::Range;

/// How many separate ranges may wait for what is missing before them, at least.
const MAX_RANGES: usize = 64;
/// And in a large window, one for so many bytes: where a queue overflows every other segment is
/// missing of what is out.
const BYTES_OF_RANGE: usize = 8192;
/// Shorter data is copied, so that what waits never holds more than four times its memory.
const KEPT_LEN_MIN: usize = 16_384;
/// Bytes of a piece that gathers short segments.
const GATHERED_LEN: usize = 65_536;
/// From this length on a segment is one of many, and not what a person types.
const BULK_LEN: usize = 512;
/// Bytes of memory that an empty buffer keeps, so that a person's typing allocates nothing.
const IDLE_CAPACITY: usize = 64;

/// The largest window that a window field can say (RFC 7323 §2.3).
const WINDOW_MAX: u32 = 1 << 30;
/// The part of a window that rounding may add to it.
const SLACK_DIVISOR: u32 = 8;
/// Bytes of the first ring.
const RING_LEN_MIN: usize = 4096;

mod range {
    use crate::probes;

    /// A range of offsets from the next byte expected. Each look at one is a probe.
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
            probes::note();
            self.start
        }

        pub(super) fn end(&self) -> usize {
            probes::note();
            self.end
        }
    }
}

/// A part of what can be read.
#[derive(Debug)]
enum Piece {
    /// The packet in which it came.
    Kept(Packet),
    /// Copies of short segments, and how many of these bytes were read.
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

/// The queue and the ring. Offsets count from the next byte expected in order.
#[derive(Debug)]
pub(super) struct ReceiveBuffer {
    /// What a person types, which is read before the rest, and how many of its bytes were read.
    typed: Vec<u8>,
    typed_read: u16,
    readable: u32,
    /// Bytes of the largest window to offer, and those beyond it that may come all the same.
    window: u32,
    slack: u32,
    /// What only a busy connection needs.
    rest: Option<Box<Rest>>,
}

/// What was not typed, and what came early.
#[derive(Debug, Default)]
struct Rest {
    pieces: VecDeque<Piece>,
    /// As large as what came early needs, and never larger than the window.
    ring: Vec<u8>,
    /// Where in the ring the next byte expected has its place.
    head: usize,
    /// Ranges that came early, in order and apart from each other.
    early: Vec<Range>,
}

impl ReceiveBuffer {
    /// Has room for `window` bytes, which is told in units of 1 << `shift`.
    pub(super) fn new(window: usize, shift: u8) -> Self {
        let (typed, typed_read, readable, rest) = (Vec::new(), 0, 0, None);
        let mut buffer = Self { typed, typed_read, readable, window: 0, slack: 0, rest };
        buffer.set_window(window, shift);
        buffer
    }

    /// Returns the bytes of the largest window to offer.
    pub(super) fn window(&self) -> usize {
        self.window as usize
    }

    /// Sets the largest window to offer; it must not become smaller.
    pub(super) fn set_window(&mut self, window: usize, shift: u8) {
        let window = u32::try_from(window).unwrap_or(u32::MAX).min(WINDOW_MAX);
        // A window is rounded up to what the shift can say, so that its right edge does not move
        // left. With each of many segments that adds up, and must have a place.
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

    /// Returns how many bytes can be read.
    pub(super) fn readable(&self) -> usize {
        self.readable as usize
    }

    /// Returns how many bytes beyond the next one expected have a place.
    pub(super) fn room(&self) -> usize {
        self.capacity().saturating_sub(self.readable())
    }

    /// Returns whether something waits for what is missing before it.
    pub(super) fn has_early(&self) -> bool {
        !self.early().is_empty()
    }

    /// Returns the early range around `offset`, of all that came early.
    pub(super) fn early_around(&self, offset: usize) -> Option<(usize, usize)> {
        let index = self.early().partition_point(|range| range.end() <= offset);
        let range = self.early().get(index).filter(|range| range.start() <= offset)?;
        Some((range.start(), range.end()))
    }

    /// Returns the first part of `len` bytes at `offset` that came before.
    pub(super) fn early_within(&self, offset: usize, len: usize) -> Option<(usize, usize)> {
        let index = self.early().partition_point(|range| range.end() <= offset);
        let range = self.early().get(index).filter(|range| range.start() < offset + len)?;
        Some((range.start().max(offset), range.end().min(offset + len)))
    }

    /// Returns what can be read in one piece.
    pub(super) fn data(&self) -> &[u8] {
        match self.typed.get(self.typed_read.into()..) {
            Some(typed) if !typed.is_empty() => typed,
            _ => self.rest.as_ref().and_then(|rest| rest.pieces.front()).map_or(&[], Piece::data),
        }
    }

    /// Returns what can be read in one piece from `offset` bytes behind the next one on.
    pub(super) fn data_from(&self, mut offset: usize) -> &[u8] {
        let typed = self.typed.get(self.typed_read.into()..).unwrap_or_default();
        let pieces = self.rest.iter().flat_map(|rest| rest.pieces.iter().map(Piece::data));
        for piece in core::iter::once(typed).chain(pieces) {
            match piece.get(offset..) {
                Some(rest) if !rest.is_empty() => return rest,
                _ => offset = offset.saturating_sub(piece.len()),
            }
        }
        &[]
    }

    /// Holds no memory for what was typed if all of that was read.
    pub(super) fn shrink(&mut self) {
        if self.typed.is_empty() {
            self.typed = Vec::new();
        }
    }

    /// Drops what was read, and gives the packets in which it came to `spent`.
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
        // An idle connection holds no memory that only a busy one needs.
        if self.readable == 0 && rest.early.is_empty() {
            self.rest = None;
        }
    }

    /// Gives the packets of what will not be read to `spent`.
    pub(super) fn clear(&mut self, spent: &mut Vec<Packet>) {
        self.consume(usize::MAX, spent);
    }

    /// Returns whether `len` bytes at `offset` would stay in their packet: [`Self::keep`] follows.
    pub(super) fn keeps(&self, offset: usize, len: usize) -> bool {
        offset == 0 && len >= KEPT_LEN_MIN && len <= self.room() && !self.has_early()
    }

    /// Takes a packet that holds the next bytes in order.
    pub(super) fn keep(&mut self, packet: Packet) {
        let rest = self.rest.get_or_insert_default();
        self.readable += u32::try_from(packet.len()).unwrap_or(0);
        rest.pieces.push_back(Piece::Kept(packet));
    }

    /// Puts `data` at `offset`, and returns how many bytes became readable.
    ///
    /// What has no place is dropped; the peer will send it again.
    pub(super) fn put(&mut self, offset: usize, data: &[u8], meter: &mut Meter) -> usize {
        let data = data.get(..self.room().saturating_sub(offset).min(data.len()));
        let Some(data) = data.filter(|data| !data.is_empty()) else { return 0 };
        let end = offset + data.len();
        if offset == 0 {
            self.gather(data);
            return self.advance(end);
        }
        let capacity = self.capacity();
        let rest = self.rest.get_or_insert_default();
        if rest.keep_early(Range::new(offset, end), MAX_RANGES.max(capacity / BYTES_OF_RANGE)) {
            rest.write(offset, data, capacity);
        } else {
            meter.count(Counter::TcpOutOfOrderDropped);
        }
        0
    }

    /// Puts a copy of `data` behind all that can be read.
    fn gather(&mut self, data: &[u8]) {
        let has_pieces = self.rest.as_ref().is_some_and(|rest| !rest.pieces.is_empty());
        if !has_pieces && self.typed.len() + data.len() < BULK_LEN {
            return self.typed.extend_from_slice(data);
        }
        gather(&mut self.rest.get_or_insert_default().pieces, data);
    }

    /// Makes the first `end` bytes readable, with all early ones that now join them.
    fn advance(&mut self, end: usize) -> usize {
        let all = self.rest.as_mut().map_or(end, |rest| rest.advance(end));
        self.readable += u32::try_from(all).unwrap_or(0);
        all
    }
}

impl Rest {
    fn consume(&mut self, count: usize, spent: &mut Vec<Packet>) {
        let mut left = count;
        while left > 0 {
            let Some(front) = self.pieces.front_mut() else { return };
            let taken = left.min(front.data().len());
            left -= taken;
            match front {
                Piece::Kept(packet) => packet.pull(taken),
                Piece::Gathered(_, read) => *read += taken,
            }
            if front.data().is_empty()
                && let Some(Piece::Kept(packet)) = self.pieces.pop_front()
            {
                spent.push(packet);
            }
        }
    }

    /// Returns how many bytes can be read once `end` of them are there.
    fn advance(&mut self, end: usize) -> usize {
        let joined = self.early.iter().take_while(|range| range.start() <= end).count();
        let all = self.early.drain(..joined).fold(end, |all, range| all.max(range.end()));
        for range in &mut self.early {
            *range = Range::new(range.start() - all, range.end() - all);
        }
        let ring_len = self.ring.len().max(1);
        if all > end {
            let start = (self.head + end) % ring_len;
            let first = (all - end).min(ring_len - start);
            let [front, back] = [start..start + first, 0..all - end - first];
            for part in [front, back] {
                gather(&mut self.pieces, self.ring.get(part).unwrap_or_default());
            }
        }
        if self.early.is_empty() {
            self.ring = Vec::new();
        }
        self.head = (self.head + all) % ring_len;
        all
    }

    /// Notes an early range, joined with those it touches; false if there are too many.
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

    /// Makes a ring of `len` bytes, with all that is in the old one from its beginning on.
    fn enlarge(&mut self, len: usize) {
        let first = self.head.min(self.ring.len());
        self.ring.rotate_left(first);
        self.ring.resize(len, 0);
        self.head = 0;
    }

    /// Writes early data to its place, around the turn of the ring.
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
        let rest = if is_planted(Bug::LosesRingTurn) { &[] } else { rest };
        if let Some(room) = self.ring.get_mut(..rest.len()) {
            room.copy_from_slice(rest);
        }
    }
}

/// Puts a copy of `data` behind the pieces.
fn gather(pieces: &mut VecDeque<Piece>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    if let Some(Piece::Gathered(bytes, _)) = pieces.back_mut()
        && bytes.len() + data.len() <= bytes.capacity().max(BULK_LEN)
    {
        return bytes.extend_from_slice(data);
    }
    let capacity = if data.len() < BULK_LEN { data.len() } else { GATHERED_LEN.max(data.len()) };
    let mut bytes = Vec::with_capacity(capacity);
    bytes.extend_from_slice(data);
    pieces.push_back(Piece::Gathered(bytes, 0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::testing::Lab;
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
        fn segments_in_any_order_and_overlap_give_the_stream_once(
            segments in prop::collection::vec((0..180_usize, 1..60_usize), 1..80),
            turn in 0..200_usize
        ) {
            let (mut buffer, mut lab) = (ReceiveBuffer::new(199, 0), Lab::default());
            buffer.put(0, &[9; 200], &mut lab.meter);
            buffer.consume(turn, &mut Vec::new());
            buffer.consume(200, &mut Vec::new());
            let stream: Vec<u8> = (0..200).collect();
            let mut next = 0;
            let all_in_order = [(0, 70), (60, 70), (120, 80)];
            for (start, len) in segments.into_iter().chain(all_in_order) {
                let end = (start + len).min(200);
                // The caller cuts off what was received before.
                let start = start.max(next);
                if start < end {
                    next += buffer.put(start - next, &stream[start..end], &mut lab.meter);
                }
            }
            prop_assert_eq!(next, 200);
            prop_assert!(!buffer.has_early());
            prop_assert_eq!(read_all(&mut buffer), stream);
        }
    }

    #[test]
    fn early_data_waits_for_what_is_missing() {
        let (mut buffer, mut lab) = (ReceiveBuffer::new(99, 0), Lab::default());
        assert_eq!(buffer.put(3, b"def", &mut lab.meter), 0);
        assert!(buffer.has_early());
        assert_eq!(buffer.put(0, b"abc", &mut lab.meter), 6);
        assert_eq!(read_all(&mut buffer), b"abcdef");
    }

    #[test]
    fn data_beyond_the_room_is_cut_off() {
        let (mut buffer, mut lab) = (ReceiveBuffer::new(3, 0), Lab::default());
        assert_eq!(buffer.put(0, b"abcdef", &mut lab.meter), 4);
        assert_eq!(buffer.put(0, b"gh", &mut lab.meter), 0);
        assert_eq!(read_all(&mut buffer), b"abcd");
    }

    #[test]
    fn more_ranges_than_the_limit_are_dropped_and_counted() {
        let (mut buffer, mut lab) = (ReceiveBuffer::new(9_999, 0), Lab::default());
        for i in 1..=MAX_RANGES + 5 {
            buffer.put(i * 2, b"x", &mut lab.meter);
        }
        assert_eq!(lab.counted(Counter::TcpOutOfOrderDropped), 5);
    }
}
