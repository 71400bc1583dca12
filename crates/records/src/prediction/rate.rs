//! The rate of the link and the window, derived from the arrivals of one flow.
//!
//! The data in flight at one time arrives as a train: its bytes follow each other at the rate of
//! the slowest link. Between two trains the link is idle for the rest of a round trip.
//!
//! A process may read several packets at once, or read one packet late. Single gaps are therefore
//! unreliable, but the longest train as a whole is reliable. The first half of the train is
//! omitted: a token bucket may have let it pass at once, and slow start does not fill the link at
//! the beginning. If the link is nearly full, idle times are as short as the delays of a busy host.
//! Therefore only the densest half of the second half counts.
//!
//! A limit on the bytes in flight is assumed if the last round trips brought equal amounts of data.
//! These amounts must be less than the capacity of the link, and less than slow start would have
//! sent by then.

use crate::verdict::Arrival;

/// Maximum rate that can be measured, bit/s.
pub(super) const MAX_MEASURABLE_BPS: u64 = 1 << 40;

/// Rate and window derived from the trains of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Train {
    /// Rate within the longest train, bit/s.
    pub(super) rate_bps: u64,
    /// Bytes per round trip, if the last round trips brought equal amounts: a window limits the
    /// flow.
    pub(super) window_bytes: Option<u64>,
}

/// Minimum number of arrivals of a train.
const MIN_ARRIVALS: usize = 4;
/// Minimum ratio of the gap between two trains to the usual gap.
const TRAIN_GAP_FACTOR: u64 = 4;
/// Initial congestion window in segments (RFC 6928).
pub(super) const INITIAL_SEGMENTS: u64 = 10;
/// Minimum number of round trips with equal amounts that excludes slow start.
const MIN_ALIKE_ROUND_TRIPS: u64 = 3;

/// Analyzes `arrivals` over a network of `trip_ns`, in segments of at most `mss_bytes`; `None` if
/// they contain no train.
pub(super) fn train(arrivals: &[Arrival], trip_ns: u64, mss_bytes: u64) -> Option<Train> {
    let gap = |pair: &[Arrival]| match pair {
        [before, after] => after.at_ns.saturating_sub(before.at_ns),
        _ => 0,
    };
    let gaps: Vec<u64> = arrivals.windows(2).map(gap).collect();
    // Weight the gaps by bytes, so that many small arrivals do not determine the usual gap.
    let usual_ns = weighted_median_gap_ns(&gaps, arrivals)?;
    let between_ns = (trip_ns / 4).max(usual_ns.saturating_mul(TRAIN_GAP_FACTOR)).max(1);
    let trains = arrivals
        .chunk_by(|before, after| after.at_ns.saturating_sub(before.at_ns) < between_ns)
        .filter(|train| train.len() >= MIN_ARRIVALS);
    let longest = trains.max_by_key(|train| bytes_of(train))?;
    let rate_bps = rate_bps(longest)?;
    let step_ns = trip_ns.max(usual_ns.saturating_mul(TRAIN_GAP_FACTOR));
    let steady_bps = steady_bps(arrivals, step_ns, mss_bytes);
    // A rate slightly below the rate of the link is the rate of a nearly full link, reduced by its
    // idle time.
    let window_bps = steady_bps.filter(|steady| *steady < rate_bps - rate_bps / 5);
    let window = |steady: u64| {
        let bytes = u128::from(steady) * u128::from(trip_ns) / 8_000_000_000;
        u64::try_from(bytes).ok().filter(|bytes| *bytes > 0)
    };
    Some(Train { rate_bps, window_bytes: window_bps.and_then(window) })
}

/// Returns the rate of the slowest link, bit/s, if the packets are spaced as densely at the
/// beginning as later.
pub(super) fn line_bps(arrivals: &[Arrival], trip_ns: u64) -> Option<u64> {
    let rate_within =
        |arrivals: &[Arrival]| train(arrivals, trip_ns, 1).map(|train| train.rate_bps);
    let max = rate_within(arrivals)?;
    let first = arrivals.first()?;
    let last = arrivals.last()?;
    let two_thirds_ns = first.at_ns.saturating_add(last.at_ns.saturating_sub(first.at_ns) / 3 * 2);
    let count = arrivals.iter().take_while(|one| one.at_ns <= two_thirds_ns).count();
    let early = rate_within(arrivals.get(..count)?)?;
    (early > max / 10 * 7).then_some(max)
}

fn bytes_of(train: &[Arrival]) -> u64 {
    train.iter().fold(0, |sum, arrival| sum.saturating_add(arrival.bytes))
}

/// Returns the median of the gaps, weighted by the bytes that follow them, ns.
fn weighted_median_gap_ns(gaps: &[u64], arrivals: &[Arrival]) -> Option<u64> {
    let mut pairs: Vec<(u64, u64)> =
        gaps.iter().copied().zip(arrivals.iter().skip(1).map(|arrival| arrival.bytes)).collect();
    pairs.sort_unstable();
    let all = pairs.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let mut cumulative_bytes = 0_u64;
    let middle = pairs.iter().find(|(_, bytes)| {
        cumulative_bytes = cumulative_bytes.saturating_add(*bytes);
        cumulative_bytes >= all.div_ceil(2)
    });
    middle.map(|(gap, _)| *gap)
}

/// Returns the rate of the densest half of the second half of a train. For a short train, returns
/// the rate of all arrivals except the first.
fn rate_bps(train: &[Arrival]) -> Option<u64> {
    let rate = if train.len() >= 4 * MIN_ARRIVALS {
        densest_bps(train.get(train.len() / 2..)?)?
    } else {
        let (first, rest) = train.split_first()?;
        rate_between(first, rest.last()?, bytes_of(rest))?
    };
    (1..MAX_MEASURABLE_BPS).contains(&rate).then_some(rate)
}

fn rate_between(first: &Arrival, last: &Arrival, bytes: u64) -> Option<u64> {
    let ns = last.at_ns.saturating_sub(first.at_ns);
    let bits = u128::from(bytes) * 8_000_000_000;
    u64::try_from(bits.checked_div(u128::from(ns))?).ok()
}

/// Returns the highest rate at which half of the bytes of `train` follow each other.
fn densest_bps(train: &[Arrival]) -> Option<u64> {
    let half = bytes_of(train.get(1..)?) / 2;
    let mut end = train.iter();
    let mut bytes = 0_u64;
    let mut best = None;
    let mut last = end.next()?;
    for (first, next) in train.iter().zip(train.iter().skip(1)) {
        while bytes < half {
            let Some(more) = end.next() else { return best };
            last = more;
            bytes = bytes.saturating_add(more.bytes);
        }
        best = best.max(rate_between(first, last, bytes));
        bytes = bytes.saturating_sub(next.bytes);
    }
    best
}

/// Returns the rate over the last intervals of `step_ns`, including idle time, bit/s. Returns
/// `None` if the intervals brought different amounts, or as much as slow start permits.
fn steady_bps(arrivals: &[Arrival], step_ns: u64, mss_bytes: u64) -> Option<u64> {
    let first = arrivals.first()?;
    let last = arrivals.last()?;
    let span = step_ns.checked_mul(MIN_ALIKE_ROUND_TRIPS).filter(|span| *span > 0)?;
    let from = last.at_ns.checked_sub(span).filter(|from| *from >= first.at_ns)?;
    let within = |step: u64| {
        let begin = from.saturating_add(step * step_ns);
        let end = begin.saturating_add(step_ns);
        let received_bytes =
            arrivals.iter().filter(|arrival| arrival.at_ns > begin && arrival.at_ns <= end);
        received_bytes.fold(0_u64, |sum, arrival| sum.saturating_add(arrival.bytes))
    };
    let steps: Vec<u64> = (0..MIN_ALIKE_ROUND_TRIPS).map(within).collect();
    let (min, max) = steps.iter().min().zip(steps.iter().max())?;
    let sum = steps.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
    let bits = u128::from(sum) * 8_000_000_000;
    let rate = u64::try_from(bits / u128::from(span)).ok()?;
    // In slow start each acknowledged byte permits one more in flight (RFC 5681 §3.1).
    let before = arrivals.iter().filter(|arrival| arrival.at_ns <= from);
    let acknowledged_bytes = before.fold(0_u64, |sum, arrival| sum.saturating_add(arrival.bytes));
    let initial_bytes = mss_bytes.saturating_mul(INITIAL_SEGMENTS);
    let allowed_bytes = initial_bytes.saturating_add(acknowledged_bytes);
    let is_below_slow_start = sum / MIN_ALIKE_ROUND_TRIPS < allowed_bytes - allowed_bytes / 4;
    (*min > 0 && max - min <= max / 4 && is_below_slow_start).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    /// Returns trains at `starts`, each (ms, number of arrivals), of arrivals of 1,000 bytes 1 ms
    /// apart.
    fn trains(starts: &[(u64, u64)]) -> Vec<Arrival> {
        let train = |(start, count): &(u64, u64)| {
            let start = *start;
            (0..*count).map(move |at| Arrival { at_ns: (start + at) * MS, bytes: 1_000 })
        };
        starts.iter().flat_map(train).collect()
    }

    #[test]
    fn the_rate_is_that_of_the_longest_train() {
        let train_result =
            train(&trains(&[(0, 10), (100, 20), (200, 40)]), 100 * MS, 1_000).unwrap();
        assert_eq!(train_result, Train { rate_bps: 8_000_000, window_bytes: None });
    }

    #[test]
    fn trains_of_equal_size_show_a_window() {
        let starts = [(0, 10), (100, 20), (200, 20), (300, 20), (400, 20), (500, 5)];
        let train_result = train(&trains(&starts), 100 * MS, 1_000).unwrap();
        assert_eq!(train_result, Train { rate_bps: 8_000_000, window_bytes: Some(20_000) });
    }

    #[test]
    fn trains_explained_by_slow_start_show_no_window() {
        // Half of the last train has arrived; a busy host has stretched the previous ones.
        let mut arrivals = trains(&[(0, 10), (100, 20), (200, 40), (300, 40), (400, 40)]);
        let slow = train(&arrivals, 100 * MS, 1_000).unwrap();
        assert_eq!(slow.window_bytes, None);
        arrivals.extend(trains(&[(500, 40)]));
        let limited_train = train(&arrivals, 100 * MS, 1_000).unwrap();
        assert_eq!(limited_train.window_bytes, Some(40_000));
    }

    #[test]
    fn a_short_idle_time_between_two_trains_does_not_reduce_the_rate() {
        // The link is nearly full: 80 of 100 ms in each round trip.
        let train_result = train(&trains(&[(0, 80), (100, 80)]), 100 * MS, 1_000).unwrap();
        assert_eq!(train_result.rate_bps, 8_000_000);
    }

    #[test]
    fn a_line_on_which_a_packet_takes_longer_than_a_round_trip_is_one_train() {
        let train_result = train(&trains(&[(0, 40)]), MS / 10, 1_000).unwrap();
        assert_eq!(train_result, Train { rate_bps: 8_000_000, window_bytes: None });
    }

    #[test]
    fn a_token_bucket_burst_is_not_the_rate() {
        let mut arrivals: Vec<_> = (0..20).map(|_| Arrival { at_ns: 0, bytes: 1_000 }).collect();
        arrivals.extend(trains(&[(1, 40)]));
        assert_eq!(train(&arrivals, 10 * MS, 1_000).unwrap().rate_bps, 8_000_000);
    }

    #[test]
    fn few_arrivals_are_not_a_train() {
        assert_eq!(train(&trains(&[(0, 3)]), 100 * MS, 1_000), None);
        assert_eq!(train(&[], 100 * MS, 1_000), None);
    }

    #[test]
    fn a_train_has_four_arrivals_and_ends_at_a_quarter_of_a_round_trip() {
        let rate = |starts: &[(u64, u64)], trip: u64| {
            train(&trains(starts), trip * MS, 1_000).map(|train| train.rate_bps)
        };
        assert_eq!(rate(&[(0, 4)], 100), Some(8_000_000));
        assert_eq!(rate(&[(0, 3), (100, 3)], 100), None);
        // Two trains whose gap is 24 ms are one, and with a gap of 25 ms they are two.
        assert_eq!(rate(&[(0, 4), (27, 4)], 100), Some(7 * 8_000_000 / 30));
        assert_eq!(rate(&[(0, 4), (28, 4)], 100), Some(8_000_000));
        // The gap is also less than four usual gaps.
        assert_eq!(rate(&[(0, 4), (6, 4)], 1), Some(7 * 8_000_000 / 9));
        assert_eq!(rate(&[(0, 4), (7, 4)], 1), Some(8_000_000));
    }

    #[test]
    fn a_short_train_counts_as_a_whole_and_a_longer_one_by_its_densest_part() {
        let rate = |fast_ms: u64, count: u64| {
            let at_ns = |at: u64| (at + at.saturating_sub(count - 4) * (fast_ms - 1)) * MS;
            let arrivals: Vec<Arrival> =
                (0..count).map(|at| Arrival { at_ns: at_ns(at), bytes: 1_000 }).collect();
            train(&arrivals, 100 * MS, 1_000).unwrap().rate_bps
        };
        // 15 arrivals, of which the last three gaps take 2 ms each.
        assert_eq!(rate(2, 15), 6_588_235);
        assert_eq!(rate(2, 16), 8_000_000);
    }

    #[test]
    fn a_window_is_less_than_four_fifths_of_the_link() {
        let window = |packets: u64| {
            let starts: Vec<_> = (0..8).map(|at| (at * 100, packets)).collect();
            train(&trains(&starts), 100 * MS, 1_000).unwrap().window_bytes
        };
        assert_eq!([20, 70].map(window), [Some(20_000), Some(70_000)]);
        assert_eq!(window(85), None);
    }

    #[test]
    fn the_last_three_round_trips_of_a_window_differ_by_at_most_a_quarter() {
        let window = |last: [u64; 3]| {
            let [one, two, three] = last;
            let starts =
                [(0, 30), (100, 30), (200, 30), (300, 30), (401, one), (501, two), (601, three)];
            train(&trains(&starts), 100 * MS, 1_000).unwrap().window_bytes
        };
        // The last interval ends with the last arrival.
        assert_eq!(window([30, 30, 30]), Some(30_000));
        assert!(window([24, 32, 32]).is_some() && window([23, 32, 32]).is_none());
        assert_eq!(window([0, 30, 30]), None);
    }

    #[test]
    fn packets_spaced_as_densely_at_the_beginning_show_the_line() {
        let rate = |early_us: u64| {
            let early = (0..10).map(|at| at * early_us * 1_000);
            let late = (0..20).map(|at| 100 * MS + at * MS);
            let arrivals: Vec<Arrival> =
                early.chain(late).map(|at_ns| Arrival { at_ns, bytes: 1_000 }).collect();
            line_bps(&arrivals, 100 * MS)
        };
        assert_eq!([1_000, 1_428].map(rate), [Some(8_000_000); 2]);
        assert_eq!([1_429, 2_000].map(rate), [None; 2]);
        // Exactly seven tenths of the rate are not enough.
        let early = (0..10).map(|at| at * 1_428_571 + at / 9 * 3);
        let late = (0..20).map(|at| 100 * MS + at * MS);
        let arrivals: Vec<Arrival> =
            early.chain(late).map(|at_ns| Arrival { at_ns, bytes: 1_000 }).collect();
        assert_eq!(line_bps(&arrivals, 100 * MS), None);
    }

    proptest! {
        #[test]
        fn arbitrary_arrivals_do_not_panic(
            raw in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..40),
            trip_ns: u64,
            mss_bytes: u64,
        ) {
            let arrivals: Vec<_> =
                raw.iter().map(|(at_ns, bytes)| Arrival { at_ns: *at_ns, bytes: *bytes }).collect();
            _ = train(&arrivals, trip_ns, mss_bytes);
        }
    }
}
