//! The arrivals of a flow, counted in periods of equal length: the growth of the periods, the final
//! part in which they are alike, and the statistical error of their mean.

use crate::verdict::Arrival;

/// Maximum number of periods; to avoid more, periods become longer than a round trip.
const PERIODS_MAX: u64 = 48;
/// Minimum size of the final part in which periods are alike: the bytes of the flow divided by this
/// number, or [`MIN_TAIL_BYTES`] if that is less.
const MIN_TAIL_DIVISOR: u64 = 4;
/// Size of a final part that is enough for a flow of any length, bytes.
const MIN_TAIL_BYTES: u64 = 12_000;
/// Relative rate difference up to which two parts of a flow are alike, regardless of the spread of
/// the periods.
const ALIKE_TOLERANCE: f64 = 0.125;

/// Bytes that arrived in each of several equally long periods. The first period begins at the first
/// arrival.
#[derive(Clone, Debug)]
pub(super) struct Periods {
    first_ns: u64,
    /// Length of a period, ns.
    ns: u64,
    /// Bytes of each period that is over when the last byte arrives.
    complete_periods: Vec<u64>,
    /// Bytes of the period in which the last byte arrives.
    last: u64,
    span_ns: u64,
}

/// The part of a flow in which the periods are alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settled {
    pub(super) bytes: u64,
    pub(super) ns: u64,
    /// Relative error of the rate, compared with another part of the flow, at 90 % confidence.
    pub(super) error: f64,
}

impl Periods {
    /// Divides `arrivals` over a path of `trip_ns` into periods; `None` if there are fewer than
    /// two.
    pub(super) fn of(arrivals: &[Arrival], trip_ns: u64) -> Option<Self> {
        let first = arrivals.first()?;
        let last = arrivals.last()?;
        let span_ns = last.at_ns.checked_sub(first.at_ns)?;
        let ns = trip_ns.max(span_ns / PERIODS_MAX).max(1);
        let count = usize::try_from(span_ns / ns).ok().filter(|count| *count >= 2)?;
        let mut complete_periods = vec![0_u64; count + 1];
        for arrival in arrivals {
            let index = arrival.at_ns.saturating_sub(first.at_ns) / ns;
            let index = usize::try_from(index).unwrap_or(count);
            if let Some(bytes) = complete_periods.get_mut(index.min(count)) {
                *bytes = bytes.saturating_add(arrival.bytes);
            }
        }
        let last = complete_periods.pop()?;
        Some(Self { first_ns: first.at_ns, ns, complete_periods, last, span_ns })
    }

    /// Returns the time from the first arrival to the last, ns.
    pub(super) const fn span_ns(&self) -> u64 {
        self.span_ns
    }

    /// Returns the bytes and the time of the final part in which periods are alike: from the
    /// beginning of one burst to the beginning of the last burst. The last burst is excluded,
    /// because the end of the file may have truncated it.
    pub(super) fn settled(&self, arrivals: &[Arrival], has_holes: bool) -> Option<Settled> {
        let last_ns = arrivals.last()?.at_ns;
        let from_ns = self.settled_ns();
        let half = self.ns / 2;
        let search_range = [from_ns.saturating_sub(half), from_ns.saturating_add(half)];
        let first_after = || arrivals.iter().position(|one| one.at_ns >= from_ns);
        let start = burst(arrivals, search_range).or_else(first_after).unwrap_or(0);
        let end = burst(arrivals, [last_ns.saturating_sub(self.ns), last_ns])?;
        let burst = arrivals.get(start..=end)?;
        let first = burst.first()?;
        let last = burst.last()?;
        let bytes = bytes_of(burst).saturating_sub(last.bytes);
        let ns = last.at_ns.checked_sub(first.at_ns).filter(|ns| *ns > 0)?;
        let error = error_of_mean(burst, has_holes);
        (bytes > 0).then_some(Settled { bytes, ns, error })
    }

    /// Returns the start of the longest final part whose periods are alike, ns. Without such a
    /// part, returns the start of the last half.
    fn settled_ns(&self) -> u64 {
        let count = self.complete_periods.len();
        let sum = |from: usize| {
            let later_periods = self.complete_periods.get(from..).unwrap_or_default();
            later_periods.iter().fold(self.last, |sum, one| sum.saturating_add(*one))
        };
        let has_enough_bytes =
            |from: &usize| sum(*from) >= (sum(0) / MIN_TAIL_DIVISOR).min(MIN_TAIL_BYTES);
        // If the final part follows a faster part, it takes most of the time, so it begins in the
        // first half. A later start is not tried, because a congestion window varies periodically.
        let latest_start = count / 2;
        let is_steady = |from: &usize| self.complete_periods.get(*from..).is_some_and(is_steady);
        let steady_start = (0..=latest_start).take_while(has_enough_bytes).find(is_steady);
        let from =
            steady_start.or_else(|| (0..=latest_start).rev().find(has_enough_bytes)).unwrap_or(0);
        let from = u64::try_from(from).unwrap_or(u64::MAX);
        self.first_ns.saturating_add(from.saturating_mul(self.ns))
    }
}

fn bytes_of(arrivals: &[Arrival]) -> u64 {
    arrivals.iter().fold(0, |sum, one| sum.saturating_add(one.bytes))
}

/// Returns the relative error of the time of `arrivals`, at 90 % confidence, if it is used to
/// predict the time of as many other bytes of the same flow.
///
/// If the times between bursts were independent, the arrivals would deviate from the straight line
/// between the first and the last like a Brownian bridge. The mean square of a Brownian bridge is
/// one sixth of the variance that an unconstrained Brownian motion has at its end. If the data has
/// holes, a silence ends with the arrival of all delayed data, and the rate is unchanged. Therefore
/// each burst then counts with the smaller of its deviations before and after it.
pub(super) fn error_of_mean(arrivals: &[Arrival], has_holes: bool) -> f64 {
    let Some((first, last)) = arrivals.first().zip(arrivals.last()) else { return UNKNOWN_ERROR };
    let span_ns = last.at_ns.saturating_sub(first.at_ns).max(1);
    let all = bytes_of(arrivals).saturating_sub(last.bytes).max(1);
    let part_of =
        |one: &Arrival| one.at_ns.saturating_sub(first.at_ns) / (span_ns / BURST_PARTS).max(1);
    let mut sum = 0_u64;
    let mut count = 0_u64;
    let mut squares = 0.0;
    let mut weight = 0.0;
    for burst in arrivals.chunk_by(|one, next| part_of(one) == part_of(next)) {
        let Some(begin) = burst.first() else { continue };
        let bytes = bytes_of(burst);
        let elapsed = begin.at_ns.saturating_sub(first.at_ns) as f64 / span_ns as f64;
        let received = [sum, sum.saturating_add(bytes)].map(|sum| sum as f64 / all as f64);
        let [begin, end] = received.map(|received| (elapsed - received).powi(2));
        squares += if has_holes { f64::min(begin, end) } else { begin } * bytes as f64;
        weight += bytes as f64;
        count += 1;
        sum = sum.saturating_add(bytes);
    }
    let standard_deviation = (6.0 * squares / f64::max(weight, 1.0)).sqrt();
    NORMAL_QUANTILE * standard_deviation
        + SINGLE_BURST_ERROR / count.saturating_sub(1).max(1) as f64
}

/// Number of equal parts into which the time of a flow is divided; the arrivals of one part form
/// one burst.
const BURST_PARTS: u64 = 64;
/// The two-sided 90 % quantile of the normal distribution.
const NORMAL_QUANTILE: f64 = 1.645;
/// Relative error of the mean of a single burst.
const SINGLE_BURST_ERROR: f64 = 0.3;
/// Relative error if there is no burst.
const UNKNOWN_ERROR: f64 = 0.5;

/// Returns the time per byte in the second half of the time of `arrivals`, ns.
pub(super) fn late_cost(arrivals: &[Arrival]) -> Option<f64> {
    let first = arrivals.first()?;
    let last = arrivals.last()?;
    let half_ns = last.at_ns.checked_sub(first.at_ns)? / 2;
    let later_arrivals = arrivals.iter().filter(|one| one.at_ns > first.at_ns + half_ns);
    let bytes = later_arrivals.fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
    (bytes > 0).then(|| half_ns as f64 / bytes as f64)
}

/// Returns whether each third of the time of `arrivals` brings far more bytes than the previous
/// one.
pub(super) fn is_growing_by_thirds(arrivals: &[Arrival]) -> bool {
    let Some((first, last)) = arrivals.first().zip(arrivals.last()) else { return false };
    let third = (last.at_ns.saturating_sub(first.at_ns) / 3).max(1);
    let mut bytes = [0_u64; 3];
    for one in arrivals {
        let at = (one.at_ns.saturating_sub(first.at_ns) / third).min(2);
        if let Some(sum) = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at)) {
            *sum = sum.saturating_add(one.bytes);
        }
    }
    let [early, middle, late] = bytes;
    late / 3 >= middle / 2 && middle >= early
}

/// Returns the index of the arrival that follows the longest silence between two times.
fn burst(arrivals: &[Arrival], [from_ns, to_ns]: [u64; 2]) -> Option<usize> {
    let before = std::iter::once(None).chain(arrivals.iter().map(Some));
    let silence = |(before, one): (Option<&Arrival>, &Arrival)| {
        before.map_or(u64::MAX, |before| one.at_ns.saturating_sub(before.at_ns))
    };
    let all = before.zip(arrivals).enumerate();
    let candidates = all.filter(|(_, (_, one))| (from_ns..=to_ns).contains(&one.at_ns));
    candidates.max_by_key(|(at, pair)| (silence(*pair), std::cmp::Reverse(*at))).map(|(at, _)| at)
}

fn mean(values: &[u64]) -> f64 {
    values.iter().map(|value| *value as f64).sum::<f64>() / values.len().max(1) as f64
}

/// Returns the sample variance of `values`.
fn variance(values: &[u64]) -> f64 {
    let mean = mean(values);
    let sum: f64 = values.iter().map(|value| (*value as f64 - mean).powi(2)).sum();
    sum / values.len().saturating_sub(1).max(1) as f64
}

/// Returns whether the first half, the first quarter and the first eighth of `periods` differ from
/// the periods after them by no more than the spread of these later periods explains.
fn is_steady(periods: &[u64]) -> bool {
    [2, 4, 8].iter().all(|part| {
        let (early, late) = periods.split_at((periods.len() / part).max(1).min(periods.len()));
        if late.is_empty() {
            return true;
        }
        let spread = (variance(late) * (1.0 / early.len() as f64 + 1.0 / late.len() as f64)).sqrt();
        let one = mean(early);
        let other = mean(late);
        (one - other).abs() <= (2.0 * spread).max(ALIKE_TOLERANCE * other)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn arrivals(of: impl Iterator<Item = (u64, u64)>) -> Vec<Arrival> {
        of.map(|(ms, bytes)| Arrival { at_ns: ms * MS, bytes }).collect()
    }

    #[test]
    fn the_error_of_even_arrivals_depends_only_on_their_number() {
        let few = arrivals((0..5).map(|at| (at * 10, 1_000)));
        assert!((error_of_mean(&few, false) - SINGLE_BURST_ERROR / 4.0).abs() < 1e-9);
        let many = arrivals((0..50).map(|at| (at * 10, 1_000)));
        assert!((error_of_mean(&many, false) - SINGLE_BURST_ERROR / 49.0).abs() < 1e-9);
    }

    #[test]
    fn a_burst_after_a_hole_compensates_for_the_silence_before_it() {
        // Packets every 10 ms, of which a third waits for a lost one.
        let arrival_ms = |at: u64| if (20..40).contains(&at) { 400 } else { at * 10 };
        let observed_arrivals = arrivals((0..60).map(|at| (arrival_ms(at), 1_000)));
        assert!(
            error_of_mean(&observed_arrivals, true)
                < error_of_mean(&observed_arrivals, false) / 2.0
        );
    }

    #[test]
    fn the_settled_part_begins_after_the_faster_part_and_ends_with_a_complete_burst() {
        // 30 packets at once, then 5 every 50 ms, and one more.
        let bursts = (1..20).flat_map(|burst| (0..5).map(move |_| (burst * 50, 1_000)));
        let observed_arrivals =
            arrivals((0..30).map(|_| (0, 1_000)).chain(bursts).chain([(1_000, 1_000)]));
        let settled = Periods::of(&observed_arrivals, 50 * MS)
            .unwrap()
            .settled(&observed_arrivals, false)
            .unwrap();
        assert_eq!(settled.bytes * 50 * MS, settled.ns * 5_000);
    }

    #[test]
    fn the_bytes_of_each_period_are_counted_without_the_last() {
        let ten = arrivals((0..10).map(|at| (5 + at * 10, 100 + at)));
        let periods = Periods::of(&ten, 30 * MS).unwrap();
        assert_eq!((periods.first_ns, periods.ns, periods.span_ns()), (5 * MS, 30 * MS, 90 * MS));
        assert_eq!(periods.complete_periods, [303, 312, 321]);
        assert_eq!(periods.last, 109);
        // There are at least two periods, and at most 48.
        assert!(Periods::of(&ten, 45 * MS).is_some() && Periods::of(&ten, 45 * MS + 1).is_none());
        let periods = Periods::of(&ten, 1).unwrap();
        assert_eq!((periods.ns, periods.complete_periods.len()), (1_875_000, 48));
    }

    #[test]
    fn growth_by_thirds_is_by_half_at_least() {
        let thirds = |early: u64, middle: u64, late: u64| {
            is_growing_by_thirds(&arrivals(
                [(0, early), (40, middle), (80, late), (90, 0)].into_iter(),
            ))
        };
        assert!(thirds(100, 100, 150) && !thirds(100, 100, 149));
        assert!(thirds(100, 200, 300) && !thirds(101, 100, 900));
        assert!(!is_growing_by_thirds(&[]));
    }

    #[test]
    fn the_cost_of_the_second_half_is_per_byte() {
        let all = arrivals([(0, 7), (50, 1_000), (51, 500), (100, 1_500)].into_iter());
        assert_eq!(late_cost(&all), Some(50e6 / 2_000.0));
        assert_eq!(late_cost(&all[..1]), None);
    }

    #[test]
    fn a_burst_follows_the_longest_silence_and_the_first_of_equal_ones() {
        let all = arrivals([(0, 1), (10, 1), (20, 1), (21, 1), (40, 1), (50, 1)].into_iter());
        let burst = |from: u64, to: u64| burst(&all, [from * MS, to * MS]);
        assert_eq!(
            [burst(0, 50), burst(5, 21), burst(5, 50), burst(41, 49)],
            [Some(0), Some(1), Some(4), None]
        );
        assert_eq!(burst(10, 20), Some(1));
    }

    #[test]
    fn periods_are_steady_if_their_early_parts_do_not_differ() {
        assert!(is_steady(&[100; 16]) && is_steady(&[]) && is_steady(&[5]));
        // Without a spread, the early part differs by at most an eighth.
        let first_half = |early: u64| is_steady(&[vec![early; 8], vec![800; 8]].concat());
        assert_eq!([699, 700, 900, 901].map(first_half), [false, true, true, false]);
        assert!((variance(&[1, 2, 3, 4]) - 5.0 / 3.0).abs() < 1e-9);
        assert!((mean(&[1, 2, 6]) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn the_last_part_has_12_000_bytes_or_a_quarter_of_all() {
        let settled_ms = |last: u64| {
            let bytes = |at: u64| if at < 3 { 90_000 << (3 - at) } else { last };
            let all = arrivals((0..9).map(|at| (at * 100, bytes(at))));
            Periods::of(&all, 100 * MS).unwrap().settled_ns() / MS
        };
        // The last six arrivals are alike.
        assert_eq!([1_999, 2_000].map(settled_ms), [200, 300]);
    }

    #[test]
    fn the_error_of_two_bursts_is_that_of_a_single_one() {
        let two = arrivals([(0, 1_000), (10, 1_000)].into_iter());
        assert!((error_of_mean(&two, false) - SINGLE_BURST_ERROR).abs() < 1e-9);
        assert!((error_of_mean(&[], false) - UNKNOWN_ERROR).abs() < 1e-9);
    }
}
