//! The shape of the data of one transfer: its rate and its pauses.
//!
//! A full link delivers packet after packet, each after its transmission time. If several packets
//! arrive at once after a silence, the link did not delay them: the cause is the program, a window
//! or the sender's congestion control. Such a gap is a pause, and shows no rate.
//!
//! With segmentation offload a link also delivers several segments at once, but each burst after
//! the transmission time of its own bytes.

use super::lost_segments::has_losses;
use super::observed::FileTransfer;
use crate::prediction::Model;
use crate::statistics;
use crate::verdict::traffic::{burst_rate_bps, gaps, rate_bps, serial_ns, span_ns};
use crate::verdict::{Arrival, Direction};

/// Minimum silence before several packets that counts as a pause, ns. During a shorter silence the
/// reader may have waited for a processor.
const MIN_JUMP_NS: u64 = 5_000_000;
/// Minimum silence before several acknowledgments that counts as a pause, ns. Acknowledgments are
/// sampled every few milliseconds.
const MIN_SAMPLED_JUMP_NS: u64 = 12_000_000;
/// Minimum number of segments that arrive at once after a pause; a full link delivers fewer at
/// once.
const JUMP_SEGMENTS: u64 = 3;
/// Minimum number of bytes that arrive at once after a pause, if segments are small.
const JUMP_BYTES: u64 = 3_000;
/// Minimum length of a pause beyond the transmission time, ns.
const MIN_PAUSE_NS: u64 = 4_000_000;
/// Segment size that every host accepts, used if it is unknown.
const DEFAULT_MSS: u64 = 536;

/// A link is full if its packets take at least this percentage of the data's time.
pub(super) const FULL_PERCENT: u64 = 60;

/// A silence in the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    /// Start time, ns since the first arrival.
    pub(super) at_ns: u64,
    /// Length, ns.
    pub(super) ns: u64,
    /// Bytes received since the previous pause.
    pub(super) bytes: u64,
}

/// Shape of the data of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TransferShape {
    /// Time from the first to the last arrival, ns.
    pub(super) span_ns: u64,
    /// Bytes after the first arrival.
    pub(super) bytes: u64,
    /// Data bytes per segment.
    pub(super) mss: u64,
    /// Rate at which packets follow each other, bit/s; `None` if it is too fast to measure.
    pub(super) line_bps: Option<u64>,
    /// Silences in the data.
    pub(super) pauses: Vec<Pause>,
}

impl TransferShape {
    /// Computes the shape of `transfer` over a path of `trip_ns`.
    pub(super) fn of(transfer: &FileTransfer, trip_ns: u64) -> Self {
        let arrivals = &transfer.arrivals;
        let is_incoming = transfer.direction == Direction::Incoming;
        let mss = if is_incoming { transfer.tcp.rcv_mss } else { transfer.tcp.snd_mss };
        let mss = mss.filter(|mss| *mss > 0).unwrap_or(DEFAULT_MSS);
        let min_jump_ns = if is_incoming { MIN_JUMP_NS } else { MIN_SAMPLED_JUMP_NS };
        let jump_bytes = mss.saturating_mul(JUMP_SEGMENTS).max(JUMP_BYTES);
        let is_jump = |gap: u64, bytes: u64| gap >= min_jump_ns && bytes >= jump_bytes;
        let bytes = gaps(arrivals).fold(0_u64, |sum, (.., bytes)| sum.saturating_add(bytes));
        let offload_bursts =
            Some(bursts(arrivals)).filter(|bursts| is_incoming && show_link_rate(bursts));
        let is_jump = |gap: u64, bytes: u64| offload_bursts.is_none() && is_jump(gap, bytes);
        let steady = gaps(arrivals).map(|(_, gap, bytes)| (gap, bytes));
        let steady = steady.filter(|(gap, bytes)| !is_jump(*gap, *bytes));
        let steady = offload_bursts.clone().unwrap_or_else(|| steady.collect());
        let line_bps = match has_losses(transfer) {
            true => full_link_bps(transfer, mss, trip_ns)
                .or_else(|| spaced_bps(transfer, mss))
                .or_else(|| rate_with_holes_bps(arrivals, &steady, mss, is_incoming)),
            false => steady_rate_bps(steady, bytes),
        };
        let min_ns = MIN_PAUSE_NS.max(trip_ns / 4);
        let pauses = pauses(arrivals, |gap, bytes| {
            let line_ns = line_bps.map_or(0, |rate| serial_ns(bytes, rate));
            let ns = if is_jump(gap, bytes) { gap } else { gap.saturating_sub(line_ns) };
            (ns >= min_ns).then_some(ns)
        });
        Self { span_ns: span_ns(arrivals).unwrap_or(0), bytes, mss, line_bps, pauses }
    }

    /// Returns the transmission time of the data at the rate at which packets follow each other,
    /// ns.
    pub(super) fn line_ns(&self) -> u64 {
        self.line_bps.map_or(0, |rate| serial_ns(self.bytes, rate))
    }

    /// Returns the total length of all pauses, ns.
    pub(super) fn pauses_ns(&self) -> u64 {
        self.pauses.iter().fold(0, |sum, pause| sum.saturating_add(pause.ns))
    }

    /// Returns the minimum time of the data with slow start and the link, ns.
    pub(super) fn min_ns(&self, trip_ns: u64) -> u64 {
        let model = Model { rate_bps: self.line_bps, ..Model::slow_start_only(trip_ns, self.mss) };
        model.flow_ns(self.bytes).max(self.line_ns())
    }
}

/// Bytes closer together than this belong to one burst, ns: a reader may be late by that time.
const BURST_GAP_NS: u64 = 300_000;
/// Minimum number of bursts that show a rate.
const MIN_BURSTS: usize = 20;
/// Minimum percentage of bursts that differ in size: a program that pauses, or a window that opens,
/// sends bursts of equal size.
const MIN_UNLIKE_PERCENT: usize = 30;

/// Returns the silences, ns, each with the bytes of the burst at its end.
fn bursts(arrivals: &[Arrival]) -> Vec<(u64, u64)> {
    let mut silences: Vec<(u64, u64)> = Vec::new();
    for (_, gap, bytes) in gaps(arrivals) {
        match silences.last_mut() {
            Some((_, sum)) if gap < BURST_GAP_NS => *sum = sum.saturating_add(bytes),
            _ => silences.push((gap, bytes)),
        }
    }
    silences
}

/// Returns whether bursts of different sizes arrive at one rate, each after its transmission time.
fn show_link_rate(bursts: &[(u64, u64)]) -> bool {
    let rates: Vec<u64> = bursts.iter().filter_map(|(gap, bytes)| rate_bps(*bytes, *gap)).collect();
    let sizes: Vec<u64> = bursts.iter().map(|(_, bytes)| *bytes).collect();
    let Some((rate, size)) = statistics::median(&rates).zip(statistics::median(&sizes)) else {
        return false;
    };
    let is_near =
        |value: u64, median: u64| value.abs_diff(median) <= median / RATE_TOLERANCE_DIVISOR;
    let similar_rate_count = rates.iter().filter(|one| is_near(**one, rate)).count();
    let unlike_size_count = sizes.iter().filter(|one| !is_near(**one, size)).count();
    bursts.len() >= MIN_BURSTS
        && similar_rate_count * 100 >= bursts.len() * usize::try_from(ALIKE_PERCENT).unwrap_or(100)
        && unlike_size_count * 100 >= bursts.len() * MIN_UNLIKE_PERCENT
}

/// Minimum amount of data without pauses that shows a rate: all bytes divided by this number.
const MIN_STEADY_DIVISOR: u64 = 4;

/// Minimum percentage of parts that must bring about the same number of bytes if the data has
/// holes.
const ALIKE_PERCENT: u64 = 60;
/// Tolerance of the rate of segments that follow each other on a link: the rate divided by this
/// number.
const RATE_TOLERANCE_DIVISOR: u64 = 6;
/// Number of parts into which the time of data with holes is divided.
const PARTS: u64 = 12;
/// Percentile of the rates of the parts that is used as the rate of a full link.
const FAST_PERCENTILE: u8 = 90;

/// Number of parts into which a round trip is divided to check that segments arrive in all of it.
const TRIP_PARTS: u64 = 4;
/// Minimum number of segments per part; with fewer, equal numbers may be coincidence.
const MIN_SEGMENTS_PER_PART: u64 = 5;

/// Returns the rate of a link that is full although segments are lost. On such a link, each part of
/// a round trip brings an equal number of segments. If losses keep the congestion window small,
/// segments arrive in bursts instead.
fn full_link_bps(transfer: &FileTransfer, mss: u64, trip_ns: u64) -> Option<u64> {
    let part_ns = trip_ns / TRIP_PARTS;
    let (segments, alike) = alike_percent(&bytes_per_period(&transfer.segments, part_ns))?;
    let is_full = segments >= MIN_SEGMENTS_PER_PART && alike >= ALIKE_PERCENT;
    rate_bps(segments.saturating_mul(mss), part_ns).filter(|_| is_full)
}

/// Minimum number of segments before the first loss that show a rate.
const MIN_SPACED_SEGMENTS: u64 = 20;

/// Returns the rate at which the segments of a download follow each other before its first loss, if
/// a queue spaces them. If they arrive in bursts that are read at once, the gaps within a burst are
/// unknown.
pub(super) fn spaced_bps(transfer: &FileTransfer, mss: u64) -> Option<u64> {
    let position =
        transfer.first_loss_bytes.filter(|_| transfer.direction == Direction::Incoming)?;
    let mut cumulative_bytes = 0_u64;
    let before = transfer.arrivals.iter().take_while(|one| {
        cumulative_bytes = cumulative_bytes.saturating_add(one.bytes);
        cumulative_bytes <= position
    });
    let before: Vec<Arrival> = before.copied().collect();
    let sizes: Vec<u64> = before.iter().map(|one| one.bytes).collect();
    let are_reads_separate = statistics::median(&sizes)? <= mss.saturating_mul(2);
    let has_enough_segments = position >= mss.saturating_mul(MIN_SPACED_SEGMENTS);
    burst_rate_bps(&before).filter(|_| has_enough_segments && are_reads_separate)
}

/// Returns the rate of the link if the data has holes. A small congestion window may also make such
/// data slow. Therefore at least one of two conditions must hold: single segments are evenly
/// spaced, or all parts of the time bring equal amounts.
fn rate_with_holes_bps(
    arrivals: &[Arrival],
    steady: &[(u64, u64)],
    mss: u64,
    is_incoming: bool,
) -> Option<u64> {
    let bytes = gaps(arrivals).fold(0_u64, |sum, (.., bytes)| sum.saturating_add(bytes));
    let single_segments: Vec<(u64, u64)> =
        steady.iter().copied().filter(|pair| pair.1 <= mss).collect();
    if let Some(rate) = steady_rate_bps(single_segments.clone(), bytes) {
        let is_alike = |pair: &&(u64, u64)| {
            rate_bps(pair.1, pair.0)
                .is_some_and(|one| one.abs_diff(rate) <= rate / RATE_TOLERANCE_DIVISOR)
        };
        let alike = single_segments.iter().filter(is_alike).count();
        if alike * 100 >= single_segments.len() * usize::try_from(ALIKE_PERCENT).unwrap_or(100) {
            return Some(rate);
        }
    }
    let part_ns = span_ns(arrivals)? / PARTS;
    let parts = bytes_per_period(arrivals, part_ns);
    let (_, alike) = alike_percent(&parts)?;
    if is_incoming {
        return steady_rate_bps(steady.to_vec(), bytes).filter(|_| alike >= ALIKE_PERCENT);
    }
    // Samples are too coarse to show packets: the link is at least as fast as the fastest parts.
    rate_bps(statistics::percentile(&parts, FAST_PERCENTILE)?, part_ns)
}

/// Returns the rate that half of the bytes of `steady` reach or exceed; its elements are pairs of
/// gap and bytes. `None` if `steady` has too few of the `all` bytes.
fn steady_rate_bps(mut steady: Vec<(u64, u64)>, all: u64) -> Option<u64> {
    let sum = steady.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    if sum < all / MIN_STEADY_DIVISOR {
        return None;
    }
    steady.sort_by_key(|(gap, bytes)| u128::from(*gap) * 1_000_000 / u128::from((*bytes).max(1)));
    let mut cumulative_bytes = 0_u64;
    for (gap, bytes) in steady {
        cumulative_bytes = cumulative_bytes.saturating_add(bytes);
        if cumulative_bytes >= sum.div_ceil(2) {
            return rate_bps(bytes, gap);
        }
    }
    None
}

/// Returns the gaps for which `length_ns` returns the length of a pause.
fn pauses(arrivals: &[Arrival], length_ns: impl Fn(u64, u64) -> Option<u64>) -> Vec<Pause> {
    let first_ns = arrivals.first().map_or(0, |first| first.at_ns);
    let mut bytes_since_pause = arrivals.first().map_or(0, |first| first.bytes);
    let mut all_pauses = Vec::new();
    for (index, gap, bytes) in gaps(arrivals) {
        if let Some(ns) = length_ns(gap, bytes) {
            let before = index.checked_sub(1).and_then(|index| arrivals.get(index));
            let at_ns = before.map_or(0, |before| before.at_ns.saturating_sub(first_ns));
            all_pauses.push(Pause { at_ns, ns, bytes: bytes_since_pause });
            bytes_since_pause = 0;
        }
        bytes_since_pause = bytes_since_pause.saturating_add(bytes);
    }
    all_pauses
}

/// Returns the bytes of each `period_ns` of the data, from its first arrival on, without the last
/// period, which is incomplete.
pub(super) fn bytes_per_period(arrivals: &[Arrival], period_ns: u64) -> Vec<u64> {
    let Some((first, period_ns)) = arrivals.first().zip((period_ns > 0).then_some(period_ns))
    else {
        return Vec::new();
    };
    // If there are far more periods than arrivals, the periods show no shape.
    let max = arrivals.len().saturating_mul(64);
    let mut periods: Vec<u64> = Vec::new();
    for arrival in arrivals {
        let index = arrival.at_ns.saturating_sub(first.at_ns) / period_ns;
        let Ok(index) = usize::try_from(index) else { return Vec::new() };
        if index >= max {
            return Vec::new();
        }
        if index >= periods.len() {
            periods.resize(index + 1, 0);
        }
        if let Some(bytes) = periods.get_mut(index) {
            *bytes = bytes.saturating_add(arrival.bytes);
        }
    }
    periods.pop();
    periods
}

/// Returns the median of `values`, and the percentage that differ from it by at most a third.
pub(super) fn alike_percent(values: &[u64]) -> Option<(u64, u64)> {
    let median = statistics::median(values)?;
    let alike = values.iter().filter(|value| value.abs_diff(median) <= median / 3).count();
    let alike = u64::try_from(alike * 100 / values.len().max(1)).unwrap_or(0);
    Some((median, alike))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::files::DataTcp;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn transfer(arrivals: Vec<Arrival>) -> FileTransfer {
        let tcp = DataTcp { rcv_mss: Some(1_448), ..DataTcp::default() };
        FileTransfer { arrivals, tcp, ..FileTransfer::default() }
    }

    #[test]
    fn evenly_spaced_packets_show_a_link_without_pauses() {
        let arrivals = (0..100).map(|at| Arrival { at_ns: at * 12 * MS, bytes: 1_448 }).collect();
        let shape = TransferShape::of(&transfer(arrivals), 20 * MS);
        assert!(shape.line_bps.unwrap().abs_diff(965_333) < 10, "{shape:?}");
        assert!(shape.pauses.is_empty());
        assert_eq!(shape.line_ns() / MS, shape.span_ns / MS);
    }

    #[test]
    fn blocks_after_silences_show_pauses_and_no_link_rate() {
        let arrivals = (0..20).map(|at| Arrival { at_ns: at * 71 * MS, bytes: 16_384 }).collect();
        let shape = TransferShape::of(&transfer(arrivals), 20 * MS);
        assert_eq!((shape.line_bps, shape.pauses.len()), (None, 19));
        assert_eq!(shape.pauses_ns(), 19 * 71 * MS);
        assert!(shape.pauses.iter().all(|pause| pause.bytes == 16_384));
    }

    #[test]
    fn only_bursts_with_the_transmission_time_of_their_bytes_show_a_link() {
        let sizes = [24_u64, 15, 32, 7, 28].map(|segments| segments * 1_448);
        let bursts = |gap_ns: fn(u64) -> u64, sizes: &[u64]| {
            let mut at_ns = 0;
            let mut arrival = |bytes: &u64| {
                at_ns += gap_ns(*bytes);
                Arrival { at_ns, bytes: *bytes }
            };
            TransferShape::of(
                &transfer(sizes.iter().cycle().take(60).map(&mut arrival).collect()),
                MS / 10,
            )
        };
        let shape = bursts(|bytes| serial_ns(bytes, 50_000_000), &sizes);
        assert!(shape.line_bps.unwrap().abs_diff(50_000_000) < 10, "{shape:?}");
        assert!(shape.pauses.is_empty());
        let shape = bursts(|_| 6 * MS, &sizes);
        assert_eq!((shape.line_bps, shape.pauses.len()), (None, 59));
        let shape = bursts(|bytes| serial_ns(bytes, 40_000_000), &[32_768]);
        assert_eq!((shape.line_bps, shape.pauses.len()), (None, 59));
    }

    #[test]
    fn a_link_with_losses_is_full_if_segments_arrive_in_all_parts_of_a_round_trip() {
        let lossy = |segments: fn(u64) -> u64| {
            let mut lossy = transfer(vec![
                Arrival { at_ns: 0, bytes: 1_448 },
                Arrival { at_ns: 1_000 * MS, bytes: 2_000_000 },
            ]);
            lossy.tcp.rcv_ooopack = Some(300);
            let sample = |at: u64| Arrival { at_ns: at * 5 * MS, bytes: segments(at) };
            lossy.segments = (0..200).map(sample).collect();
            TransferShape::of(&lossy, 80 * MS).line_bps
        };
        let full = lossy(|_| 15).unwrap();
        assert!(full.abs_diff(34_752_000) < 10, "{full}");
        let bursts = lossy(|at| if at.is_multiple_of(16) { 240 } else { 0 });
        assert_ne!(bursts, Some(full));
    }

    #[test]
    fn bytes_are_counted_by_period() {
        let arrivals: Vec<Arrival> =
            (0..8).map(|at| Arrival { at_ns: at * 50 * MS, bytes: 1_000 }).collect();
        assert_eq!(bytes_per_period(&arrivals, 100 * MS), [2_000, 2_000, 2_000]);
        assert!(bytes_per_period(&arrivals, 0).is_empty());
        assert_eq!(alike_percent(&[2_000, 2_000, 9_000, 2_000]), Some((2_000, 75)));
    }

    proptest! {
        #[test]
        fn the_minimum_time_of_any_data_includes_its_time_on_the_link(raw: Vec<(u64, u64)>, trip: u64, mss: Option<u64>) {
            let arrivals = raw.into_iter().map(|(at_ns, bytes)| Arrival { at_ns, bytes }).collect();
            let mut transfer = transfer(arrivals);
            transfer.tcp.rcv_mss = mss;
            let shape = TransferShape::of(&transfer, trip);
            prop_assert!(shape.min_ns(trip) >= shape.line_ns());
            let periods = bytes_per_period(&transfer.arrivals, trip);
            let of_periods: u128 = periods.into_iter().map(u128::from).sum();
            let all: u128 = transfer.arrivals.iter().map(|one| u128::from(one.bytes)).sum();
            prop_assert!(of_periods <= all);
            _ = shape.pauses_ns();
        }
    }
}
