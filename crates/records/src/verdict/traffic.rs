//! Rates and stalls of a flow, derived from its arrivals.
//!
//! The slowest link of a path determines the spacing of consecutive bytes, so the rate that half of
//! the bytes reach or exceed is that of the link. The delay of an arrival beyond this spacing is a
//! *stall*. A stall of about a round trip is a wait for a window (the local receive window or the
//! congestion window); a longer stall has another cause.

use super::flow::{Arrival, Flow};
use super::observation::Path;
use crate::statistics;

/// A wait between two arrivals beyond the transmission time of the later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stall {
    /// Index of the arrival that ended the stall.
    pub(super) index: usize,
    /// Length of the stall, ns.
    pub(super) ns: u64,
    /// Bytes of the arrival that ended the stall.
    pub(super) bytes: u64,
}

/// Bits per payload byte.
const BITS_PER_BYTE: u64 = 8;

/// Returns the transmission time of `bytes` at `rate_bps`, ns.
pub(crate) fn serial_ns(bytes: u64, rate_bps: u64) -> u64 {
    let bits = u128::from(bytes) * u128::from(BITS_PER_BYTE);
    let ns = bits * 1_000_000_000 / u128::from(rate_bps.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Returns the rate of `bytes` in `ns`, bit/s; `None` if no time has passed.
pub(super) fn rate_bps(bytes: u64, ns: u64) -> Option<u64> {
    let bits = u128::from(bytes) * u128::from(BITS_PER_BYTE) * 1_000_000_000;
    u64::try_from(bits.checked_div(u128::from(ns))?).ok()
}

/// Returns the arrivals except the first: index, time since the previous arrival (ns), and bytes.
pub(super) fn gaps(arrivals: &[Arrival]) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
    let pairs = arrivals.iter().zip(arrivals.iter().skip(1));
    let gap =
        |(before, at): (&Arrival, &Arrival)| (at.at_ns.saturating_sub(before.at_ns), at.bytes);
    pairs.map(gap).enumerate().map(|(index, (gap, bytes))| (index + 1, gap, bytes))
}

/// Minimum number of gaps that show a rate.
const MIN_GAPS: usize = 1;

/// Returns the data rate that half of the bytes reach or exceed, bit/s; `None` if it is too fast to
/// measure, or unknown.
pub(super) fn burst_rate_bps(arrivals: &[Arrival]) -> Option<u64> {
    half_rate_bps(gaps(arrivals).map(|(_, gap, bytes)| (gap, bytes)).collect())
}

/// Returns the rate that half of the bytes of `pairs` (gap, bytes) reach or exceed, bit/s.
fn half_rate_bps(mut pairs: Vec<(u64, u64)>) -> Option<u64> {
    if pairs.len() < MIN_GAPS {
        return None;
    }
    let all = pairs.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    // Sort by time per byte, ascending.
    pairs.sort_by(|(gap, bytes), (other_gap, other)| {
        let [ours, others] = [(gap, other), (other_gap, bytes)]
            .map(|(gap, bytes)| u128::from(*gap) * u128::from(*bytes));
        ours.cmp(&others)
    });
    let mut cumulative_bytes = 0_u64;
    for (gap, bytes) in pairs {
        cumulative_bytes = cumulative_bytes.saturating_add(bytes);
        if cumulative_bytes.saturating_mul(2) >= all {
            return rate_bps(bytes, gap);
        }
    }
    None
}

/// Minimum ratio of the rate of an arrival to the mean rate of its flow that shows that the data
/// had been waiting behind a hole.
const BURST_AFTER_HOLE_FACTOR: u64 = 4;
/// Minimum percentage of the bytes that must arrive at one rate.
const ALIKE_PERCENT: u64 = 60;
/// Minimum number of pieces of a flow that show the rate of a full link.
const MIN_PIECES: usize = 10;

/// Returns the data rate of the slowest link, bit/s, if the flow filled it nearly all the time
/// despite losses. A late segment that fills a hole and the data that waited behind the hole count
/// as one piece, which has the rate of the link despite the loss. If losses slow a flow down on a
/// faster link, the rates of the pieces differ.
pub(super) fn full_rate_bps(arrivals: &[Arrival]) -> Option<u64> {
    let all: u64 = arrivals.iter().skip(1).map(|arrival| arrival.bytes).sum();
    let overall = rate_bps(all, span_ns(arrivals)?)?;
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    for (_, gap, bytes) in gaps(arrivals) {
        let rate = rate_bps(bytes, gap).unwrap_or(u64::MAX);
        match pieces.last_mut() {
            Some((whole, sum)) if rate > overall.saturating_mul(BURST_AFTER_HOLE_FACTOR) => {
                *whole = whole.saturating_add(gap);
                *sum = sum.saturating_add(bytes);
            }
            _ => pieces.push((gap, bytes)),
        }
    }
    let count = pieces.len();
    let alike = |rate: u64| {
        let is_alike = |(gap, bytes): &&(u64, u64)| {
            rate_bps(*bytes, *gap).is_some_and(|other| other.abs_diff(rate) <= rate / 8)
        };
        pieces.iter().filter(is_alike).map(|(_, bytes)| bytes).sum::<u64>()
    };
    let rate = half_rate_bps(pieces.clone())?;
    let is_even = alike(rate).saturating_mul(100) >= all.saturating_mul(ALIKE_PERCENT);
    let is_busy = overall.saturating_mul(100) >= rate.saturating_mul(ALIKE_PERCENT);
    (count >= MIN_PIECES && is_even && is_busy).then_some(rate)
}

/// Returns the bytes of the largest arrival; 0 without arrivals.
pub(super) fn largest_arrival(arrivals: &[Arrival]) -> u64 {
    arrivals.iter().map(|arrival| arrival.bytes).max().unwrap_or(0)
}

/// Returns the stalls of `flow` of at least `min_ns`. `rate_bps` is the rate of the path, if
/// known.
pub(super) fn stalls(flow: &Flow, rate_bps: Option<u64>, min_ns: u64) -> Vec<Stall> {
    let to_stall = |(index, gap, bytes)| {
        let line_ns = rate_bps.map_or(0, |rate| serial_ns(bytes, rate));
        Stall { index, ns: u64::saturating_sub(gap, line_ns), bytes }
    };
    gaps(&flow.arrivals).map(to_stall).filter(|stall| stall.ns >= min_ns.max(1)).collect()
}

/// Returns the total length of `stalls`, ns.
pub(super) fn sum_ns(stalls: &[Stall]) -> u64 {
    stalls.iter().fold(0, |sum, stall| sum.saturating_add(stall.ns))
}

/// Returns the time from the first arrival to the last, ns.
pub(super) fn span_ns(arrivals: &[Arrival]) -> Option<u64> {
    let first = arrivals.first()?;
    let last = arrivals.last()?;
    Some(last.at_ns.saturating_sub(first.at_ns))
}

/// Returns the number of data packets of `flow`: as counted or, if no arrival is longer than a
/// segment, the number of arrivals.
pub(super) fn data_packets(flow: &Flow, path: &Path) -> Option<u64> {
    flow.data_packets.or_else(|| {
        let mss = path.mss_bytes?;
        let arrivals = u64::try_from(flow.arrivals.len()).ok()?;
        (arrivals > 0 && largest_arrival(&flow.arrivals) <= mss).then_some(arrivals)
    })
}

/// Data that arrives without a silence of half a round trip.
#[derive(Clone, Copy, Debug)]
struct Window {
    begin_ns: u64,
    end_ns: u64,
    bytes: u64,
}

/// Minimum number of windows.
const MIN_WINDOWS: usize = 4;
/// Minimum percentage of windows that begin one round trip after the previous one.
const PERIODIC_PERCENT: usize = 75;

/// Returns the bytes of a window if the flow arrives in windows: each window has about as many
/// bytes as the others, and is followed by silence until a round trip after its first byte or, if
/// the sender paces its packets, after its last byte.
///
/// A link on which the transmission of a packet takes a round trip produces the same pattern, but
/// also delays the first packet.
pub(super) fn window_bytes(arrivals: &[Arrival], trip_ns: u64) -> Option<u64> {
    let first = arrivals.first()?;
    if trip_ns == 0 || first.at_ns > trip_ns.saturating_add(trip_ns / 2) {
        return None;
    }
    let mut windows: Vec<Window> = Vec::new();
    for arrival in arrivals {
        let Arrival { at_ns, bytes } = *arrival;
        match windows.last_mut() {
            Some(last) if at_ns.saturating_sub(last.end_ns) < trip_ns / 2 => {
                last.bytes = last.bytes.saturating_add(bytes);
                last.end_ns = at_ns;
            }
            _ => windows.push(Window { begin_ns: at_ns, end_ns: at_ns, bytes }),
        }
    }
    let percent = |count: usize, of: usize| count * 100 >= of * PERIODIC_PERCENT;
    let starts = windows.iter().zip(windows.iter().skip(1));
    let is_round_trip = |ns: u64| (trip_ns - trip_ns / 8..=trip_ns + trip_ns / 4).contains(&ns);
    let is_one_trip_later = |from: &Window, to: &Window| {
        let time_since = |ns: u64| to.begin_ns.saturating_sub(ns);
        is_round_trip(time_since(from.begin_ns)) || is_round_trip(time_since(from.end_ns))
    };
    let periodic_count = starts.filter(|(from, to)| is_one_trip_later(from, to)).count();
    let is_periodic = percent(periodic_count, windows.len().saturating_sub(1));
    // The last window is a remainder.
    let sizes: Vec<u64> = windows.iter().rev().skip(1).map(|window| window.bytes).collect();
    let typical = statistics::median(&sizes)?;
    let similar_count = sizes.iter().filter(|bytes| bytes.abs_diff(typical) <= typical / 4).count();
    let are_sizes_alike = percent(similar_count, sizes.len());
    (windows.len() >= MIN_WINDOWS && is_periodic && are_sizes_alike).then_some(typical)
}

/// A flow that is fast at first and slow from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Knee {
    /// Bytes before the slowdown.
    pub(super) bytes: u64,
    /// Rate before the slowdown, bit/s; `None` if it is too fast to measure.
    pub(super) before_bps: Option<u64>,
    /// Rate after the slowdown, bit/s.
    pub(super) after_bps: u64,
}

/// Minimum ratio of the rates before and after a knee.
const KNEE_FACTOR: u64 = 2;
/// Minimum size of the parts before and after a knee: the bytes of the flow divided by this number;
/// a smaller part may be coincidence.
const MIN_KNEE_SIDE_DIVISOR: u64 = 16;

/// Returns the point at which the flow slows down permanently, if there is one: a token bucket that
/// was full at first is empty from this point on. The point is the one farthest above the straight
/// line from the first byte to the last, in a diagram of bytes over time.
pub(super) fn knee(arrivals: &[Arrival]) -> Option<Knee> {
    let first = arrivals.first()?;
    let last = arrivals.last()?;
    let span = u128::from(span_ns(arrivals)?);
    let all: u64 = arrivals.iter().skip(1).map(|arrival| arrival.bytes).sum();
    let mut cumulative_bytes = 0_u64;
    let mut highest_point: Option<(u128, u64, u64)> = None;
    for arrival in arrivals.iter().skip(1) {
        cumulative_bytes += arrival.bytes;
        let elapsed_ns = u128::from(arrival.at_ns.saturating_sub(first.at_ns));
        let height =
            (u128::from(cumulative_bytes) * span).saturating_sub(u128::from(all) * elapsed_ns);
        if highest_point.is_none_or(|(highest, ..)| height > highest) {
            highest_point = Some((height, cumulative_bytes, arrival.at_ns));
        }
    }
    let (_, bytes, at_ns) = highest_point?;
    let rest = all.checked_sub(bytes)?;
    let min = all / MIN_KNEE_SIDE_DIVISOR;
    if bytes < min || rest < min {
        return None;
    }
    let after_bps = rate_bps(rest, last.at_ns.checked_sub(at_ns)?)?;
    let before_bps = rate_bps(bytes, at_ns.checked_sub(first.at_ns)?);
    let is_knee = before_bps.is_none_or(|before| before >= after_bps.saturating_mul(KNEE_FACTOR));
    is_knee.then_some(Knee { bytes, before_bps, after_bps })
}

/// Returns the evenness of the arrivals after the first `bytes`: the 20th percentile of the rates
/// of their parts as a percentage of the median. 100 is perfectly even.
pub(super) fn evenness_percent(arrivals: &[Arrival], bytes: u64) -> Option<u64> {
    let mut cumulative_bytes = 0_u64;
    let later_arrivals: Vec<Arrival> = arrivals
        .iter()
        .skip_while(|arrival| {
            cumulative_bytes += arrival.bytes;
            cumulative_bytes < bytes
        })
        .copied()
        .collect();
    let rates: Vec<u64> = later_arrivals
        .chunks(later_arrivals.len().div_ceil(EVENNESS_PARTS).max(2))
        .filter_map(|part| {
            let bytes = part.iter().skip(1).map(|arrival| arrival.bytes).sum();
            rate_bps(bytes, span_ns(part)?)
        })
        .collect();
    let median = statistics::median(&rates)?;
    let low_bps = statistics::percentile(&rates, 20)?;
    (rates.len() >= EVENNESS_PARTS / 2).then(|| low_bps.saturating_mul(100) / median.max(1))
}

/// Number of parts into which a flow is divided to test its evenness.
const EVENNESS_PARTS: usize = 8;
