//! Data of the user that the peer has not acknowledged yet.
//!
//! Usually the data is copied into a ring. A user that provides large pieces and does not change
//! them may share them instead. They are then sent from the user's memory without a copy. While
//! there are shared pieces, a list stores the order of shared pieces and bytes of the ring.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;

/// Capacity that an empty buffer keeps, in bytes, so that typed input causes no allocation.
const IDLE_CAPACITY: usize = 64;
/// Minimum length of a shared piece. Shorter pieces are copied, because gathering data from many
/// memory regions makes sending slower.
const SHARED_MIN: usize = 16 * 1024;

/// A buffer of limited size for the data from the first unacknowledged byte on.
#[derive(Debug)]
pub(super) struct SendBuffer {
    /// The copied bytes.
    bytes: VecDeque<u8>,
    limit: usize,
    /// Allocated when the first piece is shared, and freed with the last shared piece.
    order: Option<Box<Order>>,
}

/// The order of copied bytes and shared pieces.
#[derive(Debug, Default)]
struct Order {
    pieces: VecDeque<Piece>,
    shared_len: usize,
    shared_pieces: usize,
}

#[derive(Debug)]
enum Piece {
    /// A number of consecutive bytes of the ring.
    Copied(usize),
    /// Bytes shared with the user.
    Shared { bytes: Arc<[u8]>, start: usize, end: usize },
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Copied(len) => *len,
            Self::Shared { start, end, .. } => end - start,
        }
    }
}

impl SendBuffer {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: VecDeque::new(), limit, order: None }
    }

    /// Returns the maximum number of bytes in the buffer.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    fn stored_len(&self) -> usize {
        self.bytes.len() + self.order.as_ref().map_or(0, |order| order.shared_len)
    }

    /// Returns the number of bytes in the buffer.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.stored_len()).unwrap_or(u32::MAX)
    }

    /// Returns the number of bytes that the user may still add.
    pub(super) fn free_space(&self) -> usize {
        self.limit.saturating_sub(self.stored_len())
    }

    /// Adds as much of `data` as there is space for, and returns the number of added bytes.
    pub(super) fn put(&mut self, data: &[u8]) -> usize {
        let copied_len = data.len().min(self.free_space());
        self.bytes.extend(data.get(..copied_len).unwrap_or_default());
        if let Some(order) = &mut self.order {
            match order.pieces.back_mut() {
                Some(Piece::Copied(len)) => *len += copied_len,
                _ => order.pieces.push_back(Piece::Copied(copied_len)),
            }
        }
        copied_len
    }

    /// Adds as many bytes of `data` from `start` on as there is space for, and returns the number
    /// of added bytes. Long data is not copied.
    pub(super) fn share(&mut self, data: &Arc<[u8]>, start: usize) -> usize {
        let rest = data.get(start..).unwrap_or_default();
        let copied_len = rest.len().min(self.free_space());
        if copied_len < SHARED_MIN {
            return self.put(rest);
        }
        let copied = self.bytes.len();
        let order = self.order.get_or_insert_with(|| {
            let pieces = (copied > 0).then_some(Piece::Copied(copied)).into_iter().collect();
            Box::new(Order { pieces, ..Order::default() })
        });
        order.shared_len += copied_len;
        order.shared_pieces += 1;
        order.pieces.push_back(Piece::Shared {
            bytes: Arc::clone(data),
            start,
            end: start + copied_len,
        });
        copied_len
    }

    /// Removes `count` acknowledged bytes.
    pub(super) fn acknowledge(&mut self, count: u32) {
        let count = self.stored_len().min(count as usize);
        let copied = self.order.as_mut().map_or(count, |order| order.acknowledge(count));
        if copied == self.bytes.len() {
            self.bytes.clear();
        } else {
            self.bytes.drain(..copied);
        }
        self.order.take_if(|order| order.shared_pieces == 0);
        // This memory is only needed by a busy connection.
        if self.bytes.is_empty() && self.bytes.capacity() > IDLE_CAPACITY {
            self.bytes = VecDeque::new();
        }
    }

    /// Frees the memory of an empty buffer.
    pub(super) fn shrink(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = VecDeque::new();
        }
    }

    /// Returns how many of the `len` bytes from `offset` on [`Self::range`] can return.
    pub(super) fn contiguous_len(&self, offset: u32, len: u32) -> u32 {
        if self.order.is_none() {
            return len;
        }
        let [front, back] = self.range(offset, len);
        u32::try_from(front.len() + back.len()).unwrap_or(u32::MAX)
    }

    /// Returns `len` bytes from `offset` on, in at most two slices. Returns fewer bytes if they are
    /// in more than two regions of memory.
    pub(super) fn range(&self, offset: u32, len: u32) -> [&[u8]; 2] {
        let offset = offset as usize;
        let len = len as usize;
        match &self.order {
            None => range_of_ring(&self.bytes, offset, len),
            Some(order) => order.range(&self.bytes, offset, len),
        }
    }
}

impl Order {
    /// Removes the first `count` bytes, and returns how many of them were in the ring.
    fn acknowledge(&mut self, count: usize) -> usize {
        let mut left = count;
        let mut copied = 0;
        while left > 0 {
            let Some(piece) = self.pieces.front_mut() else { break };
            let dropped = left.min(piece.len());
            left -= dropped;
            let is_whole = dropped == piece.len();
            match piece {
                Piece::Copied(len) => {
                    *len -= dropped;
                    copied += dropped;
                }
                Piece::Shared { start, .. } => {
                    *start += dropped;
                    self.shared_len -= dropped;
                    self.shared_pieces -= usize::from(is_whole);
                }
            }
            if is_whole {
                self.pieces.pop_front();
            }
        }
        copied
    }

    fn range<'a>(&'a self, ring: &'a VecDeque<u8>, offset: usize, len: usize) -> [&'a [u8]; 2] {
        let mut skip = offset;
        let mut left = len;
        let mut in_ring = 0;
        let mut parts = [[].as_slice(); 2];
        let mut free = parts.iter_mut();
        for piece in &self.pieces {
            let part_len = left.min(piece.len().saturating_sub(skip));
            let slice = match piece {
                _ if part_len == 0 => [&[][..], &[][..]],
                Piece::Copied(_) => range_of_ring(ring, in_ring + skip, part_len),
                Piece::Shared { bytes, start, .. } => {
                    let part_start = start + skip;
                    [bytes.get(part_start..part_start + part_len).unwrap_or_default(), &[]]
                }
            };
            for slice in slice.into_iter().filter(|slice| !slice.is_empty()) {
                let Some(part) = free.next() else { return parts };
                *part = slice;
            }
            left -= part_len;
            if left == 0 {
                break;
            }
            skip = skip.saturating_sub(piece.len());
            in_ring += if let Piece::Copied(len) = piece { *len } else { 0 };
        }
        parts
    }
}

/// Returns `len` bytes from `offset` on, as the two slices of a ring.
fn range_of_ring(ring: &VecDeque<u8>, offset: usize, len: usize) -> [&[u8]; 2] {
    let (front, back) = ring.as_slices();
    let start = offset;
    let end = offset + len;
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn any_range_of_any_ring_equals_the_stored_bytes(
            turns in 0..200_usize, offset in 0..50_u32, len in 0..60_u32
        ) {
            let mut buffer = SendBuffer::new(100);
            // Fills and empties a part of the ring, so that the data wraps around its end.
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
        assert_eq!((buffer.len(), buffer.free_space()), (1, 3));
    }

    /// An operation on a buffer, by the user or by an acknowledgment.
    #[derive(Clone, Copy, Debug)]
    enum Call {
        Put(usize),
        Share(usize),
        Acknowledge(u32),
    }

    fn calls() -> impl Strategy<Value = Vec<Call>> {
        let call = prop_oneof![
            (0..40_000_usize).prop_map(Call::Put),
            (0..60_000_usize).prop_map(Call::Share),
            (0..90_000_u32).prop_map(Call::Acknowledge),
        ];
        prop::collection::vec(call, 0..20)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn shared_and_copied_bytes_keep_their_order(
            calls in calls(), offset in 0..150_000_u32, len in 0..70_000_u32
        ) {
            let data: Arc<[u8]> =
                (0..100_000_u32).map(|i| u8::try_from(i * 7 % 251).unwrap()).collect();
            let mut buffer = SendBuffer::new(150_000);
            let mut model = VecDeque::new();
            for call in calls {
                match call {
                    Call::Put(len) => {
                        let copied_len = buffer.put(&data[..len]);
                        model.extend(&data[..copied_len]);
                    }
                    Call::Share(start) => {
                        let copied_len = buffer.share(&data, start);
                        model.extend(&data[start..start + copied_len]);
                    }
                    Call::Acknowledge(count) => {
                        buffer.acknowledge(count);
                        model.drain(..model.len().min(count as usize));
                    }
                }
                prop_assert_eq!(buffer.len() as usize, model.len());
            }
            let expected = model.make_contiguous();
            let start = expected.len().min(offset as usize);
            let contents = buffer.range(offset, len).concat();
            prop_assert!(expected[start..].starts_with(&contents));
            prop_assert_eq!(contents.is_empty(), expected.len() == start || len == 0);
            prop_assert!(contents.len() <= len as usize);
            if buffer.order.is_some() {
                prop_assert_eq!(buffer.contiguous_len(offset, len) as usize, contents.len());
            }
        }
    }

    #[test]
    fn a_shared_piece_is_released_once_acknowledged() {
        let mut buffer = SendBuffer::new(100_000);
        let data: Arc<[u8]> = Arc::new([1; 50_000]);
        assert_eq!(buffer.share(&data, 10_000), 40_000);
        assert_eq!(buffer.range(0, 10)[0].as_ptr(), data[10_000..].as_ptr());
        buffer.acknowledge(39_999);
        assert_eq!(Arc::strong_count(&data), 2);
        buffer.acknowledge(1);
        assert_eq!((Arc::strong_count(&data), buffer.order.is_none()), (1, true));
    }

    #[test]
    fn a_single_copied_byte_precedes_shared_data() {
        let mut buffer = SendBuffer::new(100_000);
        let data: Arc<[u8]> = Arc::new([1; 50_000]);
        assert_eq!((buffer.put(b"a"), buffer.share(&data, 0)), (1, 50_000));
        let contents = buffer.range(0, 3).concat();
        assert_eq!((contents.as_slice(), buffer.len()), (&b"a\x01\x01"[..], 50_001));
    }
}
