//! What came when: the gaps in it, and the rate of the slowest line on its way.
//!
//! Bytes that were sent in one piece come apart on the slowest line of their way, by the time that
//! each takes on it. So the time between two arrivals that followed each other without a rest tells
//! that line's rate (packet pair). Of many such pairs the median is taken, weighted by bytes: a rest
//! of the far host makes a pair slower, a wait of ours makes one slower and the next one faster.

use serde::{Deserialize, Serialize};

/// Something that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// When, in ns since the beginning of what is looked at.
    pub at_ns: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// The rate of a line by packet pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRate {
    /// Bits of each byte on the line: with start and stop bit 10, in a network 8.
    pub bits_per_byte: u64,
    /// The median of the pairs, bit/s.
    pub median_bps: u64,
    /// How many pairs there were.
    pub pairs: u64,
    /// The rate that the line was set to, bit/s, if it is one of ours.
    pub nominal_bps: Option<u64>,
}

/// From fewer pairs nothing follows.
pub const FEWEST_PAIRS: usize = 3;

/// Arrivals that are noted while they come, in bounded room: when it is full, neighbours become one,
/// and what comes within the time that two of them now stand for becomes one too.
#[derive(Clone, Debug)]
pub struct Log {
    arrivals: Vec<Arrival>,
    bytes: u64,
    spacing_ns: u64,
    most: usize,
}

impl Log {
    /// Makes a log of at most `most` arrivals, which is two or more.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { arrivals: Vec::new(), bytes: 0, spacing_ns: 0, most: most.max(2) }
    }

    /// Notes that so many bytes had come by then, in all.
    pub fn note(&mut self, at_ns: u64, bytes_so_far: u64) {
        let bytes = bytes_so_far.saturating_sub(self.bytes);
        if bytes == 0 {
            return;
        }
        self.bytes = bytes_so_far;
        if self.arrivals.len() >= self.most {
            self.halve();
        }
        // What came with the first of a spacing is counted when the last of it has come.
        match self.arrivals.last_mut() {
            Some(last) if at_ns.saturating_sub(last.at_ns) < self.spacing_ns => {
                *last = Arrival { at_ns: last.at_ns, bytes: last.bytes.saturating_add(bytes) };
            }
            _ => self.arrivals.push(Arrival { at_ns, bytes }),
        }
    }

    fn halve(&mut self) {
        let span = self.arrivals.first().zip(self.arrivals.last());
        let span = span.map_or(0, |(first, last)| last.at_ns.saturating_sub(first.at_ns));
        let half = u64::try_from(self.most / 2).unwrap_or(1).max(1);
        self.spacing_ns = self.spacing_ns.max(span / half);
        let mut merged = Vec::with_capacity(self.most);
        for pair in self.arrivals.chunks(2) {
            let bytes = pair.iter().fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
            merged.extend(pair.last().map(|last| Arrival { at_ns: last.at_ns, bytes }));
        }
        self.arrivals = merged;
    }

    /// Returns when the first `bytes` were there, ns.
    #[must_use]
    pub fn reached_ns(&self, bytes: u64) -> Option<u64> {
        let mut sum = 0_u64;
        let reached = self.arrivals.iter().find(|arrival| {
            sum = sum.saturating_add(arrival.bytes);
            sum >= bytes
        });
        reached.map(|arrival| arrival.at_ns)
    }

    /// Returns what was noted.
    #[must_use]
    pub fn into_arrivals(self) -> Vec<Arrival> {
        self.arrivals
    }
}

/// Returns the times between arrivals, ns.
#[must_use]
pub fn gaps_ns(arrivals: &[Arrival]) -> Vec<u64> {
    let pairs = arrivals.iter().zip(arrivals.iter().skip(1));
    pairs.map(|(before, after)| after.at_ns.saturating_sub(before.at_ns)).collect()
}

/// Returns how much had come when, from nothing on: the line of a time-sequence graph.
#[must_use]
pub fn sequence(arrivals: &[Arrival]) -> Vec<(u64, u64)> {
    let mut sum = 0_u64;
    let steps = arrivals.iter().map(|arrival| {
        sum = sum.saturating_add(arrival.bytes);
        (arrival.at_ns, sum)
    });
    std::iter::once((0, 0)).chain(steps).collect()
}

/// Returns the rate of the line that brought `arrivals`, if there were enough of them.
#[must_use]
pub fn line_rate(arrivals: &[Arrival], bits_per_byte: u64) -> Option<LineRate> {
    let mut pairs: Vec<(u64, u64)> = gaps_ns(arrivals)
        .into_iter()
        .zip(arrivals.iter().skip(1))
        .filter(|(gap_ns, after)| *gap_ns > 0 && after.bytes > 0)
        .map(|(gap_ns, after)| (rate_bps(after.bytes, bits_per_byte, gap_ns), after.bytes))
        .collect();
    if pairs.len() < FEWEST_PAIRS {
        return None;
    }
    pairs.sort_unstable();
    let all: u64 = pairs.iter().map(|(_, bytes)| bytes).sum();
    let mut passed = 0;
    let (median_bps, _) = pairs.iter().find(|(_, bytes)| {
        passed += bytes;
        passed >= all.div_ceil(2)
    })?;
    let (median_bps, pairs) = (*median_bps, u64::try_from(pairs.len()).unwrap_or(u64::MAX));
    Some(LineRate { bits_per_byte, median_bps, pairs, nominal_bps: None })
}

fn rate_bps(bytes: u64, bits_per_byte: u64, ns: u64) -> u64 {
    let bits = u128::from(bytes) * u128::from(bits_per_byte);
    u64::try_from(bits * 1_000_000_000 / u128::from(ns.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrival(at_ns: u64, bytes: u64) -> Arrival {
        Arrival { at_ns, bytes }
    }

    #[test]
    fn bytes_that_follow_each_other_at_9600_bit_a_second_say_so() {
        let arrivals: Vec<_> = (1..=50).map(|at| arrival(at * 10_416_667, 10)).collect();
        let rate = line_rate(&arrivals, 10).unwrap();
        assert_eq!((rate.median_bps, rate.pairs), (9_599, 49));
    }

    #[test]
    fn a_rest_of_the_far_host_is_not_taken_for_the_line() {
        let mut arrivals: Vec<_> = (1..=50).map(|at| arrival(at * 1_000_000, 10)).collect();
        arrivals.extend((51..=60).map(|at| arrival(at * 1_000_000 + 500_000_000, 10)));
        assert_eq!(line_rate(&arrivals, 10).unwrap().median_bps, 100_000);
    }

    #[test]
    fn from_two_pairs_nothing_follows() {
        assert_eq!(line_rate(&[arrival(1, 1), arrival(2, 1), arrival(3, 1)], 10), None);
    }

    #[test]
    fn a_sequence_begins_with_nothing() {
        assert_eq!(sequence(&[arrival(5, 2), arrival(9, 3)]), [(0, 0), (5, 2), (9, 5)]);
    }

    #[test]
    fn a_log_says_when_the_first_bytes_were_there() {
        let mut log = Log::new(100);
        for (at, bytes) in [(10, 100), (20, 100), (30, 300)] {
            log.note(at, bytes);
        }
        let reached = [1, 100, 101, 300, 301].map(|bytes| log.reached_ns(bytes));
        assert_eq!(reached, [Some(10), Some(10), Some(30), Some(30), None]);
    }

    proptest! {
        #[test]
        fn a_log_keeps_its_limit_and_every_byte(
            steps in proptest::collection::vec((0..1_000_u64, 0..1_000_u64), 0..400),
        ) {
            let (mut log, mut at, mut bytes) = (Log::new(16), 0, 0);
            for (time, more) in steps {
                (at, bytes) = (at + time, bytes + more);
                log.note(at, bytes);
            }
            let arrivals = log.into_arrivals();
            prop_assert!(arrivals.len() <= 16);
            prop_assert_eq!(arrivals.iter().map(|one| one.bytes).sum::<u64>(), bytes);
            prop_assert!(arrivals.is_sorted_by_key(|one| one.at_ns));
        }

        #[test]
        fn no_arrivals_break_it(
            raw in proptest::collection::vec((any::<u64>(), 0..1_u64 << 40), 0..40),
        ) {
            let arrivals: Vec<_> = raw.iter().map(|(at, bytes)| arrival(*at, *bytes)).collect();
            _ = line_rate(&arrivals, 10);
            _ = sequence(&arrivals);
            _ = gaps_ns(&arrivals);
        }
    }
}
