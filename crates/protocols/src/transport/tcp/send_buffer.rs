//! What the user gave and the peer has not yet acknowledged, in one ring.

use alloc::collections::VecDeque;

/// Bytes of memory that an empty buffer keeps, so that a person's typing allocates nothing.
const IDLE_CAPACITY: usize = 64;

/// Bytes from the first unacknowledged one on, up to a limit.
#[derive(Debug)]
pub(super) struct SendBuffer {
    bytes: VecDeque<u8>,
    limit: usize,
}

impl SendBuffer {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: VecDeque::new(), limit }
    }

    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns how many bytes are held.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap_or(u32::MAX)
    }

    /// Returns how many bytes the user may still give.
    pub(super) fn room(&self) -> usize {
        self.limit.saturating_sub(self.bytes.len())
    }

    /// Takes as much of `data` as there is room for and returns how much that was.
    pub(super) fn put(&mut self, data: &[u8]) -> usize {
        let taken = data.len().min(self.room());
        self.bytes.extend(data.get(..taken).unwrap_or_default());
        taken
    }

    /// Drops what was acknowledged.
    pub(super) fn acknowledge(&mut self, count: u32) {
        let count = self.bytes.len().min(count as usize);
        self.bytes.drain(..count);
        // An idle connection holds no memory that only a busy one needs.
        if self.bytes.is_empty() && self.bytes.capacity() > IDLE_CAPACITY {
            self.bytes = VecDeque::new();
        }
    }

    /// Returns `len` bytes from `offset` on, in the two parts of the ring.
    pub(super) fn range(&self, offset: u32, len: u32) -> [&[u8]; 2] {
        let (front, back) = self.bytes.as_slices();
        let (start, end) = (offset as usize, offset as usize + len as usize);
        let part = |slice: &'_ [u8], from: usize| -> (usize, usize) {
            let clip = |at: usize| at.saturating_sub(from).min(slice.len());
            (clip(start), clip(end))
        };
        let (front_start, front_end) = part(front, 0);
        let (back_start, back_end) = part(back, front.len());
        [
            front.get(front_start..front_end).unwrap_or_default(),
            back.get(back_start..back_end).unwrap_or_default(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn any_range_of_any_ring_is_what_was_put_there(
            turns in 0..200_usize, offset in 0..50_u32, len in 0..60_u32
        ) {
            let mut buffer = SendBuffer::new(100);
            // Turn the ring, so that the data wraps somewhere.
            buffer.put(&[0; 60]);
            (0..turns).for_each(|_| { buffer.put(&[0]); buffer.acknowledge(1); });
            buffer.acknowledge(60);
            let data: Vec<u8> = (0..100).collect();
            prop_assert_eq!(buffer.put(&data), 100);
            let parts = buffer.range(offset, len);
            let end = (offset + len).min(100) as usize;
            prop_assert_eq!(parts.concat(), &data[offset as usize..end]);
        }
    }

    #[test]
    fn the_limit_is_kept_and_acknowledged_bytes_make_room() {
        let mut buffer = SendBuffer::new(4);
        assert_eq!(buffer.put(b"abcdef"), 4);
        buffer.acknowledge(3);
        assert_eq!((buffer.len(), buffer.room()), (1, 3));
    }
}
