//! Arrival times of data, the gaps between arrivals, and the rate of the slowest link on the path.
//!
//! The slowest link of a path spaces the bytes of one burst by the transmission time of each byte
//! on that link. The time between two back-to-back arrivals therefore gives the rate of that link
//! (packet pair). A pause of the remote host makes one pair slower. A delay of the local host makes
//! one pair slower and the next one faster. Therefore the estimate is the median of many pairs,
//! weighted by bytes.

use serde::{Deserialize, Serialize};

/// Data that arrived at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Arrival time, ns since the start of the observation.
    pub at_ns: u64,
    /// Bytes that arrived.
    pub bytes: u64,
}

/// Rate of the slowest link on a path, estimated from packet pairs (see the module documentation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRate {
    /// Bits that each byte takes on the link: 10 with start and stop bit, 8 on a network.
    pub bits_per_byte: u64,
    /// Median rate of the pairs, bit/s.
    pub median_bps: u64,
    /// Number of pairs.
    pub pairs: u64,
    /// Configured rate of a local serial line, bit/s; `None` for any other link.
    pub nominal_bps: Option<u64>,
}

/// Minimum number of pairs for an estimate.
pub(crate) const MIN_PAIRS: usize = 3;

/// A log of arrivals in bounded memory. When the log is full, neighboring arrivals are merged in
/// pairs, which reduces the time resolution. Later arrivals are merged to the same resolution.
#[derive(Clone, Debug)]
pub struct ArrivalSeries {
    arrivals: Vec<Arrival>,
    bytes: u64,
    spacing_ns: u64,
    capacity: usize,
}

impl ArrivalSeries {
    /// Makes a log of at most `capacity` arrivals; values below 2 count as 2.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { arrivals: Vec::new(), bytes: 0, spacing_ns: 0, capacity: capacity.max(2) }
    }

    /// Records that the total number of bytes received was `total_bytes` at the time `at_ns`.
    pub fn record(&mut self, at_ns: u64, total_bytes: u64) {
        let bytes = total_bytes.saturating_sub(self.bytes);
        if bytes == 0 {
            return;
        }
        self.bytes = total_bytes;
        if self.arrivals.len() >= self.capacity {
            self.halve();
        }
        // Bytes that arrive within `spacing_ns` of the last entry are added to it and get its time.
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
        let half = u64::try_from(self.capacity / 2).unwrap_or(1).max(1);
        self.spacing_ns = self.spacing_ns.max(span / half);
        let mut merged = Vec::with_capacity(self.capacity);
        for pair in self.arrivals.chunks(2) {
            let bytes = pair.iter().fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
            merged.extend(pair.last().map(|last| Arrival { at_ns: last.at_ns, bytes }));
        }
        self.arrivals = merged;
    }

    /// Returns the logged arrivals.
    #[must_use]
    pub fn into_arrivals(self) -> Vec<Arrival> {
        self.arrivals
    }
}

/// Returns the times between consecutive arrivals, ns.
#[must_use]
pub fn gaps_ns(arrivals: &[Arrival]) -> Vec<u64> {
    let pairs = arrivals.iter().zip(arrivals.iter().skip(1));
    pairs.map(|(before, after)| after.at_ns.saturating_sub(before.at_ns)).collect()
}

/// Returns the cumulative bytes at each arrival time, starting at 0: the curve of a time-sequence
/// graph.
#[must_use]
pub fn sequence(arrivals: &[Arrival]) -> Vec<(u64, u64)> {
    let mut sum = 0_u64;
    let steps = arrivals.iter().map(|arrival| {
        sum = sum.saturating_add(arrival.bytes);
        (arrival.at_ns, sum)
    });
    std::iter::once((0, 0)).chain(steps).collect()
}

/// Estimates the rate of the slowest link from `arrivals`; `None` if there are too few pairs.
#[must_use]
pub fn line_rate(arrivals: &[Arrival], bits_per_byte: u64) -> Option<LineRate> {
    let mut pairs: Vec<(u64, u64)> = gaps_ns(arrivals)
        .into_iter()
        .zip(arrivals.iter().skip(1))
        .filter(|(gap_ns, after)| *gap_ns > 0 && after.bytes > 0)
        .map(|(gap_ns, after)| (rate_bps(after.bytes, bits_per_byte, gap_ns), after.bytes))
        .collect();
    if pairs.len() < MIN_PAIRS {
        return None;
    }
    pairs.sort_unstable();
    let all: u64 = pairs.iter().map(|(_, bytes)| bytes).sum();
    let mut cumulative_bytes = 0;
    let (median_bps, _) = pairs.iter().find(|(_, bytes)| {
        cumulative_bytes += bytes;
        cumulative_bytes >= all.div_ceil(2)
    })?;
    let median_bps = *median_bps;
    let pairs = u64::try_from(pairs.len()).unwrap_or(u64::MAX);
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
    fn back_to_back_bytes_at_9600_bit_s_give_that_rate() {
        let arrivals: Vec<_> = (1..=50).map(|at| arrival(at * 10_416_667, 10)).collect();
        let rate = line_rate(&arrivals, 10).unwrap();
        assert_eq!((rate.median_bps, rate.pairs), (9_599, 49));
    }

    #[test]
    fn a_pause_of_the_remote_host_does_not_change_the_line_rate() {
        let mut arrivals: Vec<_> = (1..=50).map(|at| arrival(at * 1_000_000, 10)).collect();
        arrivals.extend((51..=60).map(|at| arrival(at * 1_000_000 + 500_000_000, 10)));
        assert_eq!(line_rate(&arrivals, 10).unwrap().median_bps, 100_000);
    }

    #[test]
    fn two_pairs_give_no_rate() {
        assert_eq!(line_rate(&[arrival(1, 1), arrival(2, 1), arrival(3, 1)], 10), None);
    }

    #[test]
    fn a_sequence_begins_with_zero_bytes() {
        assert_eq!(sequence(&[arrival(5, 2), arrival(9, 3)]), [(0, 0), (5, 2), (9, 5)]);
    }

    #[test]
    fn a_series_logs_only_reads_that_brought_bytes() {
        let mut log = ArrivalSeries::new(100);
        for (at, bytes) in [(10, 100), (20, 100), (30, 300)] {
            log.record(at, bytes);
        }
        assert_eq!(log.into_arrivals(), [arrival(10, 100), arrival(30, 200)]);
    }

    #[test]
    fn a_full_series_is_merged_in_pairs_and_later_arrivals_are_as_coarse() {
        let mut log = ArrivalSeries::new(4);
        for (at, total) in [(0, 1), (10, 2), (20, 4), (30, 8), (31, 16), (44, 32), (45, 64)] {
            log.record(at, total);
        }
        // Two pairs over 30 ns give a spacing of 15 ns.
        let expected = [arrival(10, 2), arrival(30, 30), arrival(45, 32)];
        assert_eq!(log.into_arrivals(), expected);
        let mut smallest = ArrivalSeries::new(0);
        for at in 1..=5 {
            smallest.record(at * 10, at);
        }
        assert_eq!(smallest.into_arrivals().len(), 2);
    }

    #[test]
    fn half_of_the_bytes_have_the_median_rate() {
        // 1,000 bytes in 1 µs, 2,000 in 1 µs and 3,000 in 1 µs.
        let arrivals =
            [arrival(0, 9), arrival(1_000, 1_000), arrival(2_000, 2_000), arrival(3_000, 3_000)];
        let rate = line_rate(&arrivals, 8).unwrap();
        assert_eq!((rate.median_bps, rate.pairs, rate.bits_per_byte), (16_000_000_000, 3, 8));
        let simultaneous = [arrivals[0], arrivals[1], arrival(1_000, 5), arrivals[2], arrivals[3]];
        assert_eq!(line_rate(&simultaneous, 8).unwrap().pairs, 3);
        let empty = [arrivals[0], arrivals[1], arrival(1_500, 0), arrivals[2], arrivals[3]];
        assert_eq!(line_rate(&empty, 8).unwrap().pairs, 3);
    }

    proptest! {
        #[test]
        fn a_series_keeps_its_limit_and_every_byte(
            steps in proptest::collection::vec((0..1_000_u64, 0..1_000_u64), 0..400),
        ) {
            let mut log = ArrivalSeries::new(16);
            let mut at = 0;
            let mut bytes = 0;
            for (time, more) in steps {
                at += time;
                bytes += more;
                log.record(at, bytes);
            }
            let arrivals = log.into_arrivals();
            prop_assert!(arrivals.len() <= 16);
            prop_assert_eq!(arrivals.iter().map(|one| one.bytes).sum::<u64>(), bytes);
            prop_assert!(arrivals.is_sorted_by_key(|one| one.at_ns));
        }

        #[test]
        fn any_arrivals_have_a_sequence_that_ends_with_all_bytes(
            raw in proptest::collection::vec((any::<u64>(), 0..1_u64 << 40), 0..40),
        ) {
            let arrivals: Vec<_> = raw.iter().map(|(at, bytes)| arrival(*at, *bytes)).collect();
            let sequence = sequence(&arrivals);
            let bytes: u64 = arrivals.iter().map(|arrival| arrival.bytes).sum();
            prop_assert_eq!(sequence.len(), arrivals.len() + 1);
            prop_assert_eq!(sequence.last().map(|(_, bytes)| *bytes), Some(bytes));
            let gaps = gaps_ns(&arrivals);
            prop_assert_eq!(gaps.len(), arrivals.len().saturating_sub(1));
            let pairs = line_rate(&arrivals, 10).map_or(0, |rate| rate.pairs);
            prop_assert!(usize::try_from(pairs).unwrap() <= gaps.len());
        }
    }
}
