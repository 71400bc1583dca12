//! The SACK blocks of an acknowledgment (RFC 2018 §4), including duplicates (RFC 2883 §4).
//!
//! The receive buffer stores the received ranges. This list stores the order in which they are
//! reported: first the block that contains the last segment, then the blocks that were most
//! recently reported. A duplicate is reported only once. It precedes all others, and the block that
//! contains it follows.

use super::seq::Seq;

/// The number of blocks that fit into a header without timestamps.
pub(super) const MAX_BLOCKS: usize = 4;

/// Received sequence numbers: the first number, and the number after the last one.
pub type Block = (Seq, Seq);

/// The blocks of one acknowledgment, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    blocks: [(Seq, Seq); MAX_BLOCKS],
    count: usize,
}

impl Blocks {
    /// No blocks.
    pub const NONE: Self = Self { blocks: [(Seq(0), Seq(0)); MAX_BLOCKS], count: 0 };

    /// Returns the blocks.
    #[must_use]
    pub fn as_slice(&self) -> &[Block] {
        self.blocks.get(..self.count).unwrap_or_default()
    }

    /// Returns whether there are no blocks.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends a block, unless there are four.
    pub fn push(&mut self, block: Block) {
        if let Some(place) = self.blocks.get_mut(self.count) {
            *place = block;
            self.count += 1;
        }
    }
}

/// The receiver's list of blocks to report, the most recently changed block first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SackList {
    /// The blocks. The block of the latest segment is first.
    recent: Blocks,
    duplicate: Option<Block>,
}

impl SackList {
    /// Records that an early segment has arrived. It is now part of `block`.
    pub(super) fn arrived(&mut self, block: Block) {
        let mut recent = Blocks::default();
        recent.push(block);
        let others = self.recent.as_slice().iter();
        // Blocks that are now part of `block` are not reported separately.
        for other in others.filter(|other| is_apart(**other, block)) {
            recent.push(*other);
        }
        self.recent = recent;
    }

    /// Records that the sequence numbers of `block` were received before.
    pub(super) fn repeated(&mut self, block: Block) {
        self.duplicate = Some(block);
    }

    /// Removes the blocks whose data is now in order.
    pub(super) fn advance(&mut self, rcv_nxt: Seq) {
        let mut recent = Blocks::default();
        for block in self.recent.as_slice().iter().filter(|block| block.1.is_after(rcv_nxt)) {
            recent.push(*block);
        }
        self.recent = recent;
    }

    /// Returns the number of blocks in the next acknowledgment, at most `max`.
    pub(super) fn len(&self, max: usize) -> usize {
        let duplicate = usize::from(self.duplicate.is_some());
        max.min(MAX_BLOCKS).min(self.recent.as_slice().len() + duplicate)
    }

    /// Returns the blocks of the next acknowledgment, at most `max` of them.
    pub(super) fn take(&mut self, max: usize) -> Blocks {
        let mut blocks = Blocks::default();
        let duplicate = self.duplicate.take();
        let recent = self.recent.as_slice();
        // RFC 2883 §4.2: a duplicate block is followed by the block that contains it.
        let around =
            duplicate.and_then(|part| recent.iter().find(|block| !is_apart(part, **block)));
        let rest = recent.iter().filter(|block| Some(*block) != around);
        let all = duplicate.iter().chain(around).chain(rest);
        all.take(max).for_each(|block| blocks.push(*block));
        blocks
    }
}

fn is_apart(one: Block, other: Block) -> bool {
    one.1.is_before(other.0) || other.1.is_before(one.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const START: Seq = Seq(0xFFFF_FF80);
    const LEN: u32 = 100;

    /// A receiver that counts segments instead of bytes, and has no limit.
    #[derive(Debug, Default)]
    struct Receiver {
        list: SackList,
        has: [bool; 16],
        next: usize,
    }

    fn seq(segment: usize) -> Seq {
        START + LEN * u32::try_from(segment).unwrap()
    }

    fn block(first: usize, end: usize) -> Block {
        (seq(first), seq(end))
    }

    impl Receiver {
        /// Returns the consecutive received segments that contain `segment`.
        fn run(&self, segment: usize) -> Block {
            let first = (0..=segment).rev().take_while(|at| self.has[*at]).last().unwrap();
            let end = (segment..16).take_while(|at| self.has[*at]).last().unwrap() + 1;
            block(first, end)
        }

        fn segment(&mut self, segment: usize, max: usize) -> Vec<Block> {
            if self.has[segment] {
                self.list.repeated(block(segment, segment + 1));
            }
            self.has[segment] = true;
            while self.has[self.next] {
                self.next += 1;
            }
            if segment >= self.next {
                self.list.arrived(self.run(segment));
            }
            self.list.advance(seq(self.next));
            self.list.take(max).as_slice().to_vec()
        }
    }

    /// Returns the blocks that RFC 2018 §4 and RFC 2883 §4 require after the segments `arrived`. A
    /// block is a sequence of consecutive received segments after the first hole. The block that
    /// was changed or repeated last is first.
    fn expected(arrived: &[usize], max: usize) -> Vec<Block> {
        let (last, before) = arrived.split_last().unwrap();
        let has = |segment: usize| arrived.contains(&segment);
        let next = (0..).find(|segment| !has(*segment)).unwrap();
        let mut runs = Vec::new();
        let mut at = next;
        while at < 16 {
            let end = (at..16).find(|segment| !has(*segment)).unwrap_or(16);
            if end > at {
                runs.push((at, end));
            }
            at = end + 1;
        }
        let latest = |run: &(usize, usize)| {
            arrived.iter().rposition(|segment| (run.0..run.1).contains(segment))
        };
        runs.sort_by_key(latest);
        let blocks = runs.iter().rev().map(|run| block(run.0, run.1));
        let duplicate = before.contains(last).then(|| block(*last, *last + 1));
        duplicate.into_iter().chain(blocks).take(max).collect()
    }

    /// Returns all permutations of the first `count` numbers.
    fn orders(count: usize) -> Vec<Vec<usize>> {
        if count == 0 {
            return [Vec::new()].to_vec();
        }
        let shorter = orders(count - 1);
        let insert = |order: &Vec<usize>, at| {
            let mut longer = order.clone();
            longer.insert(at, count - 1);
            longer
        };
        shorter.iter().flat_map(|order| (0..count).map(move |at| insert(order, at))).collect()
    }

    #[test]
    fn all_orders_of_five_segments_are_reported_as_the_rfc_says() {
        let all = orders(5);
        assert_eq!(all.len(), 120);
        for order in all {
            let mut receiver = Receiver::default();
            for count in 1..=5 {
                let blocks = receiver.segment(order[count - 1], 3);
                assert_eq!(blocks, expected(&order[..count], 3), "{order:?} after {count}");
            }
        }
    }

    proptest! {
        #[test]
        fn duplicate_data_is_the_first_block(
            arrivals in prop::collection::vec(0..8_usize, 1..20), max in 3..=4_usize
        ) {
            let mut receiver = Receiver::default();
            for count in 1..=arrivals.len() {
                let blocks = receiver.segment(arrivals[count - 1], max);
                prop_assert_eq!(blocks, expected(&arrivals[..count], max));
            }
        }
    }

    #[test]
    fn duplicate_data_is_reported_once() {
        let mut list = SackList::default();
        list.repeated(block(0, 1));
        assert_eq!(list.take(3).as_slice(), [block(0, 1)]);
        assert_eq!(list.len(3), 0);
    }

    #[test]
    fn the_number_of_reported_blocks_is_limited() {
        let mut list = SackList::default();
        (1..8).for_each(|at| list.arrived(block(2 * at, 2 * at + 1)));
        assert_eq!(list.take(3).as_slice(), [block(14, 15), block(12, 13), block(10, 11)]);
        assert_eq!(list.take(9).as_slice().len(), MAX_BLOCKS);
    }
}
