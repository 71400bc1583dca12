//! What the arrivals of a flow say: at which rate they come, and where they stand still.
//!
//! Bytes that follow each other come as far apart as the slowest place of their way sends them, so
//! the rate at which half of the bytes come is that of the line. What an arrival comes later than
//! that is a *stall*. A stall of about a round trip is a wait for a window (our own, or the one of
//! congestion); a longer one has another reason.

use super::observation::{Arrival, Flow, Path};
use crate::statistics;

/// A wait between two arrivals beyond what the line took for the later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stall {
    /// Its place among the arrivals.
    pub(super) index: usize,
    /// How long, ns.
    pub(super) ns: u64,
    /// Bytes that ended it.
    pub(super) bytes: u64,
}

/// Bits that a payload byte is.
const BITS_PER_BYTE: u64 = 8;

/// Returns how long `bytes` take at `rate_bps`, ns.
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

/// Returns arrivals with the time since the one before it.
pub(super) fn gaps(arrivals: &[Arrival]) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
    let pairs = arrivals.iter().zip(arrivals.iter().skip(1));
    let gap =
        |(before, at): (&Arrival, &Arrival)| (at.at_ns.saturating_sub(before.at_ns), at.bytes);
    pairs.map(gap).enumerate().map(|(index, (gap, bytes))| (index + 1, gap, bytes))
}

/// The fewest gaps that say something about a rate.
const FEWEST_GAPS: usize = 1;

/// Returns the data rate at which half of the bytes come or faster, bit/s; `None` where that is too
/// fast to tell, or nothing is known.
pub(super) fn burst_rate_bps(arrivals: &[Arrival]) -> Option<u64> {
    half_rate_bps(gaps(arrivals).map(|(_, gap, bytes)| (gap, bytes)).collect())
}

/// Returns the rate at which half of the bytes of `pairs` of gap and bytes come or faster, bit/s.
fn half_rate_bps(mut pairs: Vec<(u64, u64)>) -> Option<u64> {
    if pairs.len() < FEWEST_GAPS {
        return None;
    }
    let all = pairs.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    // By time for a byte, the least first.
    pairs.sort_by(|(gap, bytes), (other_gap, other)| {
        let [ours, others] = [(gap, other), (other_gap, bytes)]
            .map(|(gap, bytes)| u128::from(*gap) * u128::from(*bytes));
        ours.cmp(&others)
    });
    let mut so_far = 0_u64;
    for (gap, bytes) in pairs {
        so_far = so_far.saturating_add(bytes);
        if so_far.saturating_mul(2) >= all {
            return rate_bps(bytes, gap);
        }
    }
    None
}

/// An arrival that is so many times faster than its flow was there already, behind a hole.
const RUSH_FACTOR: u64 = 4;
/// Of the bytes, so many parts of a hundred must come at one rate.
const ALIKE_PERCENT: u64 = 60;
/// With fewer pieces nothing is said.
const FEWEST_PIECES: usize = 10;

/// Returns the data rate of the slowest link, bit/s, if it was full with the flow for nearly all the
/// time, whatever was lost: a hole is late, but with all that waited behind it just as much has come
/// as if there were none. Where losses make a flow slow on a faster link, no two pieces come alike.
pub(super) fn full_rate_bps(arrivals: &[Arrival]) -> Option<u64> {
    let all: u64 = arrivals.iter().skip(1).map(|arrival| arrival.bytes).sum();
    let overall = rate_bps(all, span_ns(arrivals)?)?;
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    for (_, gap, bytes) in gaps(arrivals) {
        let rate = rate_bps(bytes, gap).unwrap_or(u64::MAX);
        match pieces.last_mut() {
            Some((whole, sum)) if rate > overall.saturating_mul(RUSH_FACTOR) => {
                (*whole, *sum) = (whole.saturating_add(gap), sum.saturating_add(bytes));
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
    (count >= FEWEST_PIECES && is_even && is_busy).then_some(rate)
}

/// Returns the bytes of the largest arrival that is no more than one segment, if that is known.
pub(super) fn largest_arrival(arrivals: &[Arrival]) -> u64 {
    arrivals.iter().map(|arrival| arrival.bytes).max().unwrap_or(0)
}

/// Returns the stalls of `flow`, of which the way carries `rate_bps` if that can be told. A stall
/// is at least as long as `least_ns`.
pub(super) fn stalls(flow: &Flow, rate_bps: Option<u64>, least_ns: u64) -> Vec<Stall> {
    let beyond = |(index, gap, bytes)| {
        let line_ns = rate_bps.map_or(0, |rate| serial_ns(bytes, rate));
        Stall { index, ns: u64::saturating_sub(gap, line_ns), bytes }
    };
    gaps(&flow.arrivals).map(beyond).filter(|stall| stall.ns >= least_ns.max(1)).collect()
}

/// Returns the time from the first arrival to the last.
pub(super) fn span_ns(arrivals: &[Arrival]) -> Option<u64> {
    let (first, last) = (arrivals.first()?, arrivals.last()?);
    Some(last.at_ns.saturating_sub(first.at_ns))
}

/// Returns packets with data of `flow`, as counted, or as many as its arrivals where none of them
/// is longer than a segment.
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

/// With fewer windows nothing is said.
const FEWEST_WINDOWS: usize = 4;
/// So many parts of a hundred of the windows follow each other after a round trip.
const PERIODIC_PERCENT: usize = 75;

/// Returns the bytes of a window if the flow comes in windows: about as many bytes each time, and then
/// nothing until a round trip after the first of them, or after the last one where the sender paces them.
///
/// A link that takes as long for a packet as a round trip looks alike, but delays the first one as well.
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
    let of_a_trip = |ns: u64| (trip_ns - trip_ns / 8..=trip_ns + trip_ns / 4).contains(&ns);
    let is_next = |from: &Window, to: &Window| {
        let since = |ns: u64| to.begin_ns.saturating_sub(ns);
        of_a_trip(since(from.begin_ns)) || of_a_trip(since(from.end_ns))
    };
    let periodic = starts.filter(|(from, to)| is_next(from, to)).count();
    let is_periodic = percent(periodic, windows.len().saturating_sub(1));
    // The last window is what is left.
    let sizes: Vec<u64> = windows.iter().rev().skip(1).map(|window| window.bytes).collect();
    let typical = statistics::median(&sizes)?;
    let alike = sizes.iter().filter(|bytes| bytes.abs_diff(typical) <= typical / 4).count();
    let is_alike = percent(alike, sizes.len());
    (windows.len() >= FEWEST_WINDOWS && is_periodic && is_alike).then_some(typical)
}

/// A flow that is fast at first and slow from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Knee {
    /// Bytes before it slowed down.
    pub(super) bytes: u64,
    /// Rate until then, bit/s; `None` where it is too high to tell.
    pub(super) before_bps: Option<u64>,
    /// Rate from then on, bit/s.
    pub(super) after_bps: u64,
}

/// The rate behind a knee is at most one of so many parts of the one before it.
const KNEE_FACTOR: u64 = 2;
/// Of the bytes, one in so many must lie on either side of a knee, or it may be chance.
const KNEE_SIDE: u64 = 16;

/// Returns where the flow slows down for good, if it does: a bucket that was full at first and is
/// empty from then on. The place is the one that lies farthest above the straight line from the
/// first byte to the last, in a diagram of bytes over time.
pub(super) fn knee(arrivals: &[Arrival]) -> Option<Knee> {
    let (first, last) = (arrivals.first()?, arrivals.last()?);
    let span = u128::from(span_ns(arrivals)?);
    let all: u64 = arrivals.iter().skip(1).map(|arrival| arrival.bytes).sum();
    let mut so_far = 0_u64;
    let mut best: Option<(u128, u64, u64)> = None;
    for arrival in arrivals.iter().skip(1) {
        so_far += arrival.bytes;
        let since = u128::from(arrival.at_ns.saturating_sub(first.at_ns));
        let height = (u128::from(so_far) * span).saturating_sub(u128::from(all) * since);
        if best.is_none_or(|(highest, ..)| height > highest) {
            best = Some((height, so_far, arrival.at_ns));
        }
    }
    let (_, bytes, at_ns) = best?;
    let rest = all.checked_sub(bytes)?;
    let least = all / KNEE_SIDE;
    if bytes < least || rest < least {
        return None;
    }
    let after_bps = rate_bps(rest, last.at_ns.checked_sub(at_ns)?)?;
    let before_bps = rate_bps(bytes, at_ns.checked_sub(first.at_ns)?);
    let is_knee = before_bps.is_none_or(|before| before >= after_bps.saturating_mul(KNEE_FACTOR));
    is_knee.then_some(Knee { bytes, before_bps, after_bps })
}

/// Returns how uneven the arrivals behind the first `bytes` are: the rate of their slower half to
/// that of all, as parts of a hundred. 100 is perfectly even.
pub(super) fn evenness_percent(arrivals: &[Arrival], bytes: u64) -> Option<u64> {
    let mut so_far = 0_u64;
    let behind: Vec<Arrival> = arrivals
        .iter()
        .skip_while(|arrival| {
            so_far += arrival.bytes;
            so_far < bytes
        })
        .copied()
        .collect();
    let rates: Vec<u64> = behind
        .chunks(behind.len().div_ceil(EVENNESS_PARTS).max(2))
        .filter_map(|part| {
            let bytes = part.iter().skip(1).map(|arrival| arrival.bytes).sum();
            rate_bps(bytes, span_ns(part)?)
        })
        .collect();
    let median = statistics::median(&rates)?;
    let low = statistics::percentile(&rates, 20)?;
    (rates.len() >= EVENNESS_PARTS / 2).then(|| low.saturating_mul(100) / median.max(1))
}

/// Into how many parts a flow is cut to see whether it is even.
const EVENNESS_PARTS: usize = 8;
