//! Sets of positions in the send stream, stored as ranges that neither overlap nor touch.
//!
//! A position is a 64-bit count of sequence numbers since the connection began, so it never wraps.
//! The cost of every operation is logarithmic in the number of ranges, for the operation itself and
//! for each range that it removes. A peer must send a segment for every range that it creates.

use alloc::collections::BTreeMap;

/// The positions from `start` up to, but excluding, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Range {
    pub(super) const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    pub(super) const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    pub(super) const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Returns the intersection of both ranges.
    pub(super) fn intersection(self, other: Self) -> Self {
        Self { start: self.start.max(other.start), end: self.end.min(other.end) }
    }
}

/// A set of positions.
#[derive(Clone, Debug, Default)]
pub(super) struct RangeSet {
    /// The end of each range by its start.
    ranges: BTreeMap<u64, u64>,
    position_count: u64,
}

impl RangeSet {
    /// Returns the number of positions in the set.
    pub(super) fn position_count(&self) -> u64 {
        self.position_count
    }

    /// Returns the number of ranges in the set.
    pub(super) fn ranges(&self) -> usize {
        self.ranges.len()
    }

    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.position_count = 0;
    }

    /// Returns the first range.
    pub(super) fn first(&self) -> Option<Range> {
        self.ranges.first_key_value().map(|(start, end)| Range::new(*start, *end))
    }

    /// Returns the last range.
    pub(super) fn last(&self) -> Option<Range> {
        self.ranges.last_key_value().map(|(start, end)| Range::new(*start, *end))
    }

    /// Returns the first range that ends after `position`.
    pub(super) fn next_after(&self, position: u64) -> Option<Range> {
        if self.ranges.is_empty() {
            return None;
        }
        let range = |(start, end): (&u64, &u64)| Range::new(*start, *end);
        let before = self.ranges.range(..=position).next_back().map(range);
        before
            .filter(|before| before.end > position)
            .or_else(|| self.ranges.range(position..).next().map(range))
    }

    /// Returns whether `position` is in the set.
    pub(super) fn contains(&self, position: u64) -> bool {
        self.next_after(position).is_some_and(|range| range.start <= position)
    }

    /// Returns whether all of `range` is in the set.
    pub(super) fn covers(&self, range: Range) -> bool {
        range.is_empty()
            || self
                .next_after(range.start)
                .is_some_and(|found| found.start <= range.start && range.end <= found.end)
    }

    /// Returns whether any of `range` is in the set.
    pub(super) fn overlaps(&self, range: Range) -> bool {
        self.next_after(range.start).is_some_and(|found| found.start < range.end)
    }

    /// Returns the first part of `range` that is not in the set.
    pub(super) fn first_gap(&self, range: Range) -> Option<Range> {
        let mut gap = range;
        if let Some(found) = self.next_after(range.start) {
            if found.start > range.start {
                gap.end = range.end.min(found.start);
            } else {
                gap.start = found.end;
                let next = self.next_after(found.end);
                gap.end = next.map_or(range.end, |next| range.end.min(next.start));
            }
        }
        (!gap.is_empty()).then_some(gap)
    }

    /// Adds `range` to the set.
    pub(super) fn insert(&mut self, range: Range) {
        if range.is_empty() || self.covers(range) {
            return;
        }
        let mut joined = range;
        // Overlapping and adjacent ranges become part of the new range.
        while let Some((start, end)) = self.ranges.range(..=joined.end).next_back() {
            let existing = Range::new(*start, *end);
            if existing.end < joined.start {
                break;
            }
            self.ranges.remove(&existing.start);
            self.position_count -= existing.len();
            joined = Range::new(joined.start.min(existing.start), joined.end.max(existing.end));
        }
        self.ranges.insert(joined.start, joined.end);
        self.position_count += joined.len();
    }

    /// Removes `range` from the set and returns how many of its positions were in it.
    pub(super) fn remove(&mut self, range: Range) -> u64 {
        let before = self.position_count;
        if range.is_empty() || self.ranges.is_empty() {
            return 0;
        }
        while let Some((start, end)) = self.ranges.range(..range.end).next_back() {
            let existing = Range::new(*start, *end);
            if existing.end <= range.start {
                break;
            }
            self.ranges.remove(&existing.start);
            self.position_count -= existing.len();
            for rest in
                [Range::new(existing.start, range.start), Range::new(range.end, existing.end)]
            {
                if !rest.is_empty() {
                    self.ranges.insert(rest.start, rest.end);
                    self.position_count += rest.len();
                }
            }
        }
        before - self.position_count
    }

    /// Removes all positions below `position` from the set.
    pub(super) fn remove_below(&mut self, position: u64) {
        while let Some(first) = self.first().filter(|first| first.start < position) {
            self.ranges.pop_first();
            self.position_count -= first.len();
            if first.end > position {
                self.ranges.insert(position, first.end);
                self.position_count += first.end - position;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACES: usize = 64;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64, u64),
        Remove(u64, u64),
        RemoveBelow(u64),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let position = 0..PLACES as u64;
        prop_oneof![
            4 => (position.clone(), 0..20_u64).prop_map(|(at, len)| Step::Insert(at, len)),
            2 => (position.clone(), 0..20_u64).prop_map(|(at, len)| Step::Remove(at, len)),
            1 => position.prop_map(Step::RemoveBelow),
        ]
    }

    fn index(position: u64) -> usize {
        usize::try_from(position).unwrap()
    }

    fn set(bits: &mut [bool; PLACES], start: u64, end: u64, value: bool) {
        let start = start.min(PLACES as u64);
        let end = end.min(PLACES as u64);
        bits[index(start)..index(end).max(index(start))].fill(value);
    }

    proptest! {
        #[test]
        fn a_set_of_ranges_equals_a_set_of_positions(
            steps in prop::collection::vec(any_step(), 1..60), probe in 0..PLACES as u64,
            len in 1..20_u64
        ) {
            let mut ranges = RangeSet::default();
            let mut bits = [false; PLACES];
            for step in steps {
                match step {
                    Step::Insert(at, len) => {
                        let end = (at + len).min(PLACES as u64);
                        ranges.insert(Range::new(at, end));
                        set(&mut bits, at, end, true);
                    }
                    Step::Remove(at, len) => {
                        let before = bits.iter().filter(|bit| **bit).count() as u64;
                        set(&mut bits, at, at + len, false);
                        let after = bits.iter().filter(|bit| **bit).count() as u64;
                        prop_assert_eq!(ranges.remove(Range::new(at, at + len)), before - after);
                    }
                    Step::RemoveBelow(at) => {
                        ranges.remove_below(at);
                        set(&mut bits, 0, at, false);
                    }
                }
            }
            prop_assert_eq!(ranges.position_count(), bits.iter().filter(|bit| **bit).count() as u64);
            let starts = (0..PLACES).filter(|at| bits[*at] && (*at == 0 || !bits[at - 1]));
            prop_assert_eq!(ranges.ranges(), starts.count());
            prop_assert!((0..PLACES).all(|at| ranges.contains(at as u64) == bits[at]));
            let probe_range = Range::new(probe, (probe + len).min(PLACES as u64));
            let within = &bits[index(probe_range.start)..index(probe_range.end)];
            prop_assert_eq!(ranges.covers(probe_range), within.iter().all(|bit| *bit));
            prop_assert_eq!(ranges.overlaps(probe_range), within.iter().any(|bit| *bit));
            let gap = within.iter().position(|bit| !bit).map(|at| probe_range.start + at as u64);
            prop_assert_eq!(ranges.first_gap(probe_range).map(|gap| gap.start), gap);
        }
    }
}
