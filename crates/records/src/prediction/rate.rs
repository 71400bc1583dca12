//! The rate of the line, and the window, as the arrivals of one flow show them.
//!
//! What is in flight at once comes as a train: its bytes follow each other at the rate of the
//! slowest link. Between two trains the line stands still, for the rest of a round trip. A program
//! reads several packets at once, or one a little late, so single gaps lie; the longest train as a
//! whole does not. Its first half is left out: a token bucket may have let it pass at once, and at
//! the beginning slow start has not filled the line.

use crate::statistics::median;
use crate::verdict::{Arrival, serial_ns};

/// Nothing is faster than can be told here.
pub(super) const FASTEST_BPS: u64 = 1 << 40;

/// What the trains of a flow say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Train {
    /// The rate within the longest one, bit/s.
    pub(super) rate_bps: u64,
    /// The bytes of each, if the last ones are alike: something limits them.
    pub(super) window_bytes: Option<u64>,
}

/// A train has so many arrivals at least.
const FEWEST_ARRIVALS: usize = 4;
/// A gap that is so many times as long as the usual one is between trains.
const LONG_GAPS: u64 = 4;
/// So many trains of one size are no slow start.
const ALIKE: usize = 3;

/// Returns what `arrivals` say over a network of `trip_ns`; `None` if there is no train in them.
pub(super) fn train(arrivals: &[Arrival], trip_ns: u64) -> Option<Train> {
    let gap = |pair: &[Arrival]| match pair {
        [before, after] => after.at_ns.saturating_sub(before.at_ns),
        _ => 0,
    };
    let gaps: Vec<u64> = arrivals.windows(2).map(gap).collect();
    // By bytes, so that many small arrivals in a row are not the usual ones.
    let usual_ns = usual(&gaps, arrivals)?;
    let between_ns = (trip_ns / 4).max(usual_ns.saturating_mul(LONG_GAPS)).max(1);
    let trains: Vec<&[Arrival]> = arrivals
        .chunk_by(|before, after| after.at_ns.saturating_sub(before.at_ns) < between_ns)
        .collect();
    let longest = trains.iter().max_by_key(|train| bytes_of(train))?;
    let rate_bps = rate_bps(longest)?;
    Some(Train { rate_bps, window_bytes: window(&trains, rate_bps, trip_ns) })
}

fn bytes_of(train: &[Arrival]) -> u64 {
    train.iter().fold(0, |sum, arrival| sum.saturating_add(arrival.bytes))
}

/// Returns the gap before which half of the bytes have come that follow a gap, ns.
fn usual(gaps: &[u64], arrivals: &[Arrival]) -> Option<u64> {
    let mut pairs: Vec<(u64, u64)> =
        gaps.iter().copied().zip(arrivals.iter().skip(1).map(|arrival| arrival.bytes)).collect();
    pairs.sort_unstable();
    let all = pairs.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let mut so_far = 0_u64;
    let middle = pairs.iter().find(|(_, bytes)| {
        so_far = so_far.saturating_add(*bytes);
        so_far >= all.div_ceil(2)
    });
    middle.map(|(gap, _)| *gap)
}

/// Returns the rate of the second half of a train, or of all of it but the first arrival if it is
/// short.
fn rate_bps(train: &[Arrival]) -> Option<u64> {
    if train.len() < FEWEST_ARRIVALS {
        return None;
    }
    let half = if train.len() >= 4 * FEWEST_ARRIVALS { train.len() / 2 } else { 0 };
    let (first, rest) = train.get(half..)?.split_first()?;
    let ns = rest.last()?.at_ns.saturating_sub(first.at_ns);
    let bits = u128::from(bytes_of(rest)) * 8_000_000_000;
    let rate = u64::try_from(bits.checked_div(u128::from(ns))?).ok()?;
    (1..FASTEST_BPS).contains(&rate).then_some(rate)
}

/// Returns the bytes of the last trains, if they are alike, and a round trip from one to the next is
/// not filled by them.
fn window(trains: &[&[Arrival]], rate_bps: u64, trip_ns: u64) -> Option<u64> {
    // The last one ends with the flow.
    let (_, whole) = trains.split_last()?;
    let last = whole.get(whole.len().checked_sub(ALIKE)?..)?;
    let sizes: Vec<u64> = last.iter().map(|train| bytes_of(train)).collect();
    let (least, most) = sizes.iter().min().zip(sizes.iter().max())?;
    let is_alike = most - least <= most / 4;
    let window = median(&sizes)?;
    (is_alike && serial_ns(window, rate_bps) < trip_ns).then_some(window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    /// Returns trains that begin at `starts` (ms), each of so many arrivals of 1,000 bytes, 1 ms apart.
    fn trains(starts: &[(u64, u64)]) -> Vec<Arrival> {
        let train = |(start, count): &(u64, u64)| {
            let start = *start;
            (0..*count).map(move |at| Arrival { at_ns: (start + at) * MS, bytes: 1_000 })
        };
        starts.iter().flat_map(train).collect()
    }

    #[test]
    fn the_rate_is_that_of_the_longest_train() {
        let found = train(&trains(&[(0, 10), (100, 20), (200, 40)]), 100 * MS).unwrap();
        assert_eq!(found, Train { rate_bps: 8_000_000, window_bytes: None });
    }

    #[test]
    fn trains_of_one_size_are_a_window() {
        let starts = [(0, 10), (100, 20), (200, 20), (300, 20), (400, 20), (500, 3)];
        let found = train(&trains(&starts), 100 * MS).unwrap();
        assert_eq!(found, Train { rate_bps: 8_000_000, window_bytes: Some(20_000) });
    }

    #[test]
    fn a_line_on_which_a_packet_takes_longer_than_a_round_trip_is_one_train() {
        let found = train(&trains(&[(0, 40)]), MS / 10).unwrap();
        assert_eq!(found, Train { rate_bps: 8_000_000, window_bytes: None });
    }

    #[test]
    fn what_a_bucket_lets_pass_at_once_is_not_the_rate() {
        let mut arrivals: Vec<_> = (0..20).map(|_| Arrival { at_ns: 0, bytes: 1_000 }).collect();
        arrivals.extend(trains(&[(1, 40)]));
        assert_eq!(train(&arrivals, 10 * MS).unwrap().rate_bps, 8_000_000);
    }

    #[test]
    fn a_few_arrivals_are_no_train() {
        assert_eq!(train(&trains(&[(0, 3)]), 100 * MS), None);
        assert_eq!(train(&[], 100 * MS), None);
    }

    proptest! {
        #[test]
        fn no_arrivals_break_it(
            raw in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..40), trip_ns: u64,
        ) {
            let arrivals: Vec<_> =
                raw.iter().map(|(at_ns, bytes)| Arrival { at_ns: *at_ns, bytes: *bytes }).collect();
            _ = train(&arrivals, trip_ns);
        }
    }
}
