//! What the peer sent and the user has not yet read, with what came out of order.
//!
//! One ring holds both: a byte has its place by its sequence number, as in the two arrays of
//! TM-233 §5.6, so that data which comes early is already where it belongs. Which parts are
//! there is kept as a short list of ranges instead of a sequence number beside each byte.

use crate::meter::{Counter, Meter};
use alloc::vec::Vec;

/// How many separate pieces may wait for what is missing before them.
const MAX_PIECES: usize = 64;

/// A range of offsets from the next byte expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    start: usize,
    end: usize,
}

/// The ring. Offsets count from the next byte expected in order.
#[derive(Debug)]
pub(super) struct ReceiveBuffer {
    ring: Vec<u8>,
    capacity: usize,
    /// Where in the ring the first readable byte lies.
    head: usize,
    readable: usize,
    /// Pieces that came early, in order and apart from each other.
    early: Vec<Piece>,
}

impl ReceiveBuffer {
    pub(super) fn new(capacity: usize) -> Self {
        Self { ring: Vec::new(), capacity, head: 0, readable: 0, early: Vec::new() }
    }

    /// Returns how many bytes can be read.
    pub(super) fn readable(&self) -> usize {
        self.readable
    }

    /// Returns how many bytes beyond the next one expected have a place.
    pub(super) fn room(&self) -> usize {
        self.capacity - self.readable
    }

    /// Returns whether something waits for what is missing before it.
    pub(super) fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Returns what can be read, up to where the ring turns.
    pub(super) fn data(&self) -> &[u8] {
        let end = (self.head + self.readable).min(self.capacity);
        self.ring.get(self.head..end).unwrap_or_default()
    }

    /// Drops what was read.
    pub(super) fn consume(&mut self, count: usize) {
        let count = count.min(self.readable);
        self.readable -= count;
        self.head = if self.readable == 0 && self.early.is_empty() {
            0
        } else {
            (self.head + count) % self.capacity
        };
    }

    /// Puts `data` at `offset`, and returns how many bytes became readable.
    ///
    /// What has no place is dropped; the peer will send it again.
    pub(super) fn put(&mut self, offset: usize, data: &[u8], meter: &mut Meter) -> usize {
        let data = data.get(..self.room().saturating_sub(offset).min(data.len()));
        let Some(data) = data.filter(|data| !data.is_empty()) else { return 0 };
        let piece = Piece { start: offset, end: offset + data.len() };
        if offset > 0 && !self.keep_early(piece) {
            meter.count(Counter::TcpOutOfOrderDropped);
            return 0;
        }
        self.write(self.readable + offset, data);
        if offset > 0 { 0 } else { self.advance(piece.end) }
    }

    /// Makes the first `end` bytes readable, with all early pieces that now join them.
    fn advance(&mut self, end: usize) -> usize {
        let joined = self.early.iter().take_while(|piece| piece.start <= end).count();
        let end = self.early.drain(..joined).fold(end, |end, piece| end.max(piece.end));
        for piece in &mut self.early {
            piece.start -= end;
            piece.end -= end;
        }
        self.readable += end;
        end
    }

    /// Notes an early piece, joined with those it touches; false if there are too many.
    fn keep_early(&mut self, piece: Piece) -> bool {
        let first = self.early.partition_point(|other| other.end < piece.start);
        let last = self.early.partition_point(|other| other.start <= piece.end);
        if first == last {
            if self.early.len() == MAX_PIECES {
                return false;
            }
            self.early.insert(first, piece);
            return true;
        }
        let joined = self.early.drain(first..last).fold(piece, |joined, other| Piece {
            start: joined.start.min(other.start),
            end: joined.end.max(other.end),
        });
        self.early.insert(first, joined);
        true
    }

    /// Writes at `place` behind the head, around the turn of the ring.
    fn write(&mut self, place: usize, data: &[u8]) {
        // No memory until the first data comes.
        if self.ring.is_empty() {
            self.ring.resize(self.capacity, 0);
        }
        let start = (self.head + place) % self.capacity;
        let (first, rest) = data.split_at(data.len().min(self.capacity - start));
        if let Some(room) = self.ring.get_mut(start..start + first.len()) {
            room.copy_from_slice(first);
        }
        if let Some(room) = self.ring.get_mut(..rest.len()) {
            room.copy_from_slice(rest);
        }
    }
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
            buffer.consume(count);
        }
        all
    }

    proptest! {
        #[test]
        fn segments_in_any_order_and_overlap_give_the_stream_once(
            segments in prop::collection::vec((0..180_usize, 1..60_usize), 1..80),
            turn in 0..200_usize
        ) {
            let (mut buffer, mut lab) = (ReceiveBuffer::new(200), Lab::default());
            buffer.put(0, &[9; 200], &mut lab.meter);
            buffer.consume(turn);
            buffer.consume(200);
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
        let (mut buffer, mut lab) = (ReceiveBuffer::new(100), Lab::default());
        assert_eq!(buffer.put(3, b"def", &mut lab.meter), 0);
        assert!(buffer.has_early());
        assert_eq!(buffer.put(0, b"abc", &mut lab.meter), 6);
        assert_eq!(read_all(&mut buffer), b"abcdef");
    }

    #[test]
    fn data_beyond_the_room_is_cut_off() {
        let (mut buffer, mut lab) = (ReceiveBuffer::new(4), Lab::default());
        assert_eq!(buffer.put(0, b"abcdef", &mut lab.meter), 4);
        assert_eq!(buffer.put(0, b"gh", &mut lab.meter), 0);
        assert_eq!(read_all(&mut buffer), b"abcd");
    }

    #[test]
    fn more_pieces_than_the_limit_are_dropped_and_counted() {
        let (mut buffer, mut lab) = (ReceiveBuffer::new(10_000), Lab::default());
        for i in 1..=MAX_PIECES + 5 {
            buffer.put(i * 2, b"x", &mut lab.meter);
        }
        assert_eq!(lab.counted(Counter::TcpOutOfOrderDropped), 5);
    }
}
