//! Prediction of the time of a file from smaller files transferred over the same path before.
//!
//! The model extends the largest of these files beyond its end:
//!
//! ```text
//! time(n) = time(largest) + time of (n - largest) more bytes
//! ```
//!
//! so that the start of the flow is measured rather than modeled. The time of a transfer before its
//! first byte and after its last one is the median over all transfers. The arrivals of the largest
//! transfer show how it continues:
//!
//! * *Settled*: the last periods of a round trip or more are alike. The remaining bytes arrive at
//!   the mean rate of these periods, which includes all recurring effects: windows, losses,
//!   timeouts, the pauses of a slow disk.
//! * *Growing*: the transfer took no longer than slow start does, or each third of its time brought
//!   far more bytes than the previous one, as in the startup of BBR. Round trips continue to
//!   double. The limit is the rate of the slowest link, if packets show that rate, or else the
//!   usual limits of hosts.
//! * *Short*: the transfer arrived within two round trips. The initial window (RFC 6928) and the
//!   doubling of slow start ([`Model`]) explain a part of the difference between larger and smaller
//!   transfers. The rate explains the remaining part. Without such a part, there is no rate and no
//!   prediction.
//!
//! The range of a settled flow follows from the deviation of its arrivals from a straight line. The
//! range of a growing flow extends from faster growth to no growth: the lowest rate is the mean of
//! the second half of its time. No range covers a token bucket that is still not empty when the
//! largest transfer ends, or losses that the largest transfer did not have.

use super::periods::{self, Periods, Settled};
use super::{Model, rate};
use crate::statistics::{median, percentile};
use crate::verdict::{Arrival, Direction, Flow, Observation};

/// A predicted time and its expected range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Predicted time, ns.
    pub ns: u64,
    /// Minimum and maximum expected time, ns.
    pub range_ns: [u64; 2],
}

/// Model of the time of files over one path, in one direction.
#[derive(Clone, Debug)]
pub struct FileModel {
    /// Size of the largest transfer.
    bytes: u64,
    ns: u64,
    trip_ns: u64,
    /// Time of the first bytes of the largest transfer, ns.
    first_ns: u64,
    /// Possible deviations of the size-independent time: towards a shorter and towards a longer
    /// time, ns.
    fixed_ns: [u64; 2],
    final_phase: FinalPhase,
}

/// Behavior of the largest transfer at its end.
#[derive(Clone, Debug)]
enum FinalPhase {
    Settled(Settled),
    Growing(Growing),
    Short(Box<(Model, Vec<Flow>)>),
}

/// A flow whose round trips bring increasing amounts.
#[derive(Clone, Copy, Debug)]
struct Growing {
    /// Bytes of the first round trip.
    first_bytes: u64,
    /// Rate of the slowest link, if packets show it, bit/s.
    max_bps: Option<u64>,
    /// Time per byte in the second half of the transfer, ns.
    late_cost: f64,
    /// Maximum time per byte, if the flow stops growing, ns.
    max_cost: f64,
}

/// A flow is still in slow start if its time is at most this many times the time of slow start.
const SLOW_START_FACTOR: f64 = 1.3;
/// Maximum bytes in flight with the default limits of Linux: the send buffer grows to 4 MiB, and
/// holds twice the congestion window.
const MAX_BYTES_IN_FLIGHT: u64 = 2 << 20;
/// Assumed rate of the link if packets show none, bit/s.
const ASSUMED_LINK_BPS: f64 = 1e9;
/// Factor for the error of a flow with losses: consecutive losses end in timeouts, of which a short
/// flow has too few to show their cost.
const LOSS_ERROR_FACTOR: f64 = 1.5;
/// Fraction of the last round trip over which its packets are assumed to be spread.
const SPREAD_FRACTION: f64 = 0.9;
/// Minimum number of segments that show a rate.
const MIN_SEGMENTS: u64 = 8;
/// Sampling interval of acknowledged bytes, ns.
const SAMPLING_INTERVAL_NS: u64 = 6_000_000;
/// Segment size that every host accepts, used if it is unknown.
const DEFAULT_MSS: u64 = 536;

/// Margin for scheduling delays on both hosts, and for the difference between transfers a minute
/// apart: this fraction of the time, plus [`MARGIN_NS`].
const MARGIN_FRACTION: f64 = 0.03;
const MARGIN_NS: f64 = 2e6;

impl FileModel {
    /// Builds the model of transfers that all had the same direction. Returns `None` if no
    /// round-trip time is known, or if there is no transfer.
    #[must_use]
    pub fn of(probe: &Observation) -> Option<Self> {
        let path = &probe.path;
        let trips = [path.min_rtt_ns, path.rtt_ns, probe.steps.connect_ns];
        let trip_ns = trips.into_iter().flatten().min()?.max(1);
        let flows = &probe.transfers;
        let largest = flows.iter().max_by_key(|flow| (flow.bytes, flow.arrivals.len()))?;
        let largest_flows = flows.iter().filter(|flow| flow.bytes == largest.bytes);
        let ns = median(&largest_flows.map(|flow| flow.elapsed_ns).collect::<Vec<_>>())?;
        let final_phase = Self::final_phase(probe, largest, trip_ns);
        let final_phase = match final_phase {
            Some(final_phase) => final_phase,
            None => {
                let model = Model::of(probe).filter(|model| model.rate_bps.is_some())?;
                FinalPhase::Short(Box::new((model, probe.transfers.clone())))
            }
        };
        let first_ns = largest.arrivals.first().map_or(ns, |first| first.at_ns);
        let fixed = fixed_ns(flows);
        let largest_fixed_ns = fixed_time_ns(largest);
        let [min, middle, max] =
            [0, 50, 100].map(|percent| percentile(&fixed, percent).unwrap_or(largest_fixed_ns));
        // The time of an upload after its last acknowledgment may grow with its size.
        let is_sent = largest.direction == Direction::Outgoing;
        let ns =
            if is_sent { ns } else { ns.saturating_add(middle).saturating_sub(largest_fixed_ns) };
        let largest_fixed_ns = if is_sent { largest_fixed_ns } else { middle };
        let fixed_ns = [largest_fixed_ns.saturating_sub(min), max.saturating_sub(largest_fixed_ns)];
        Some(Self { bytes: largest.bytes, ns, trip_ns, first_ns, fixed_ns, final_phase })
    }

    /// Builds the model from the beginning of a file, for a protocol without slow start that waits
    /// for an acknowledgment after each of its windows. Returns `None` for less than two windows of
    /// `window_bytes`.
    #[must_use]
    pub fn in_lock_step(arrivals: &[Arrival], window_bytes: u64) -> Option<Self> {
        let mut windows: Vec<Arrival> = Vec::new();
        let mut bytes = 0_u64;
        let mut window_start = 0_u64;
        for one in arrivals {
            bytes = bytes.saturating_add(one.bytes);
            if bytes.saturating_sub(window_start) >= window_bytes {
                windows
                    .push(Arrival { at_ns: one.at_ns, bytes: bytes.saturating_sub(window_start) });
                window_start = bytes;
            }
        }
        let first = windows.first()?;
        let last = windows.last()?;
        let first_ns = first.at_ns;
        let ns = last.at_ns;
        let settled = Settled {
            bytes: window_start.checked_sub(first.bytes).filter(|bytes| *bytes > 0)?,
            ns: ns.saturating_sub(first_ns),
            error: periods::error_of_mean(&windows, false),
        };
        let bytes = window_start;
        Some(Self {
            bytes,
            ns,
            trip_ns: 0,
            first_ns,
            fixed_ns: [0; 2],
            final_phase: FinalPhase::Settled(settled),
        })
    }

    fn final_phase(probe: &Observation, largest: &Flow, trip_ns: u64) -> Option<FinalPhase> {
        let mss_bytes = probe.path.mss_bytes.unwrap_or(DEFAULT_MSS).max(1);
        let first_bytes = mss_bytes.saturating_mul(rate::INITIAL_SEGMENTS);
        let arrivals = match largest.arrivals.as_slice() {
            // A large first arrival waited in the receive buffer until the local process read it,
            // so its time shows no rate.
            [first, rest @ ..] if first.bytes > first_bytes && first.bytes > largest.bytes / 4 => {
                rest
            }
            all => all,
        };
        let is_sent = largest.direction == Direction::Outgoing;
        let min_ns = if is_sent { SAMPLING_INTERVAL_NS } else { 0 };
        let periods = Periods::of(arrivals, trip_ns.max(min_ns))?;
        let rounds = rounds(largest.bytes, first_bytes);
        let trip = trip_ns as f64;
        let span = periods.span_ns() as f64;
        let slow_start_ns = (rounds.ceil() - 1.0 + SPREAD_FRACTION) * trip;
        let paced_ns = (rounds - 1.0) * trip * SLOW_START_FACTOR;
        let is_growing = span <= slow_start_ns.max(paced_ns) + min_ns as f64
            || (span <= paced_ns * 2.0 && rounds >= 3.0 && periods::is_growing_by_thirds(arrivals));
        let counts = &largest.counts;
        let loss_count = counts.retransmissions.max(counts.out_of_order_in);
        let is_lossy = loss_count.is_some_and(|count| count > 0);
        if is_sent
            && !is_lossy
            && let Some(settled) = late_store_rate(probe, largest, trip_ns)
        {
            return Some(FinalPhase::Settled(settled));
        }
        if is_growing {
            // Samples of acknowledged bytes do not show packets.
            let max_bps = rate::line_bps(arrivals, trip_ns).filter(|_| !is_sent);
            let late_cost = periods::late_cost(arrivals)?;
            let max_cost =
                late_cost.max(if is_sent { cost_by_totals(probe, largest) } else { 0.0 });
            let growing = Growing { first_bytes, max_bps, late_cost, max_cost };
            return Some(FinalPhase::Growing(growing));
        }
        let Settled { bytes, mut ns, mut error } = periods.settled(arrivals, is_lossy)?;
        // With losses, few bytes are not enough for a rate: a lost packet may have stopped the
        // rest.
        let min = largest.bytes / 4;
        if bytes < if is_lossy { min } else { min.min(MIN_SEGMENTS * mss_bytes) } {
            return None;
        }
        if is_lossy {
            let random_error = (trip / ns as f64).sqrt();
            error = (error * LOSS_ERROR_FACTOR).hypot(random_error);
        } else if is_sent {
            ns = ns.max(to_integer(cost_by_totals(probe, largest) * bytes as f64));
        }
        Some(FinalPhase::Settled(Settled { bytes, ns, error }))
    }

    /// Returns the predicted time of `bytes`, from the command to the last reply; `None` if `bytes`
    /// is less than the size of the largest transfer.
    #[must_use]
    pub fn estimate(&self, bytes: u64) -> Option<Estimate> {
        let more_bytes = bytes.checked_sub(self.bytes)?;
        let [ns, min, max] = match &self.final_phase {
            FinalPhase::Settled(settled) => self.settled(settled, more_bytes),
            FinalPhase::Growing(growing) => self.growing(growing, more_bytes),
            FinalPhase::Short(model) => self.short(model, bytes),
        };
        let margin = ns * MARGIN_FRACTION + MARGIN_NS;
        // Add a round trip, because the transfer of the file may wait for one more reply than the
        // probe.
        let [shorter, longer] = self.fixed_ns.map(|ns| ns as f64);
        let max = max + margin + longer.max(self.trip_ns as f64);
        let min = (min - margin - shorter).max(self.ns as f64 / 2.0);
        Some(Estimate {
            ns: to_integer(ns),
            range_ns: [to_integer(min.min(ns)), to_integer(max.max(ns))],
        })
    }

    fn settled(&self, settled: &Settled, more_bytes: u64) -> [f64; 3] {
        let cost = settled.ns as f64 / settled.bytes.max(1) as f64;
        let base = self.ns as f64;
        let ns = base + more_bytes as f64 * cost;
        let data_ns = ns - self.first_ns as f64;
        let share = settled.ns as f64 / data_ns.max(1.0);
        let spread = data_ns * settled.error * (1.0 + share).sqrt();
        // A token bucket that was full at the start of the largest transfer may be empty at the
        // start of the next.
        let even_ns = self.first_ns as f64 + (self.bytes + more_bytes) as f64 * cost;
        [ns, ns - spread, ns.max(even_ns) + spread]
    }

    fn growing(&self, growing: &Growing, more_bytes: u64) -> [f64; 3] {
        let base = self.ns as f64;
        let trip = self.trip_ns as f64;
        let all = self.bytes + more_bytes;
        let rounds = |bytes| rounds(bytes, growing.first_bytes);
        let doubled = (rounds(all) - rounds(self.bytes)) * trip;
        let window = MAX_BYTES_IN_FLIGHT as f64 / trip * 8e9;
        let max_bps = growing.max_bps.map_or(f64::MAX, |rate| rate as f64).min(window);
        let max_bps = max_bps.min(ASSUMED_LINK_BPS.max(8e9 / growing.late_cost));
        let late_rate_ns = more_bytes as f64 * growing.late_cost;
        let ns = doubled.max(more_bytes as f64 * 8e9 / max_bps).max(late_rate_ns / 8.0);
        // The lower limit takes half of the doubled round trips, because a round trip may bring
        // more than twice as much as the previous one.
        let max_ns = (more_bytes as f64 * growing.max_cost).max(ns * 1.1);
        [base + ns, base + doubled / 2.0, base + max_ns]
    }

    fn short(&self, (model, range): &(Model, Vec<Flow>), bytes: u64) -> [f64; 3] {
        let ns = model.flow_ns(bytes);
        let [min, max] = model.range_ns(range, bytes).unwrap_or([ns; 2]);
        let slow_start_only = Model { rate_bps: None, window_bytes: None, ..*model }.flow_ns(bytes);
        [ns, min.min(slow_start_only), max].map(|ns| ns as f64)
    }
}

/// Returns the time of a transfer before its first byte and after its last one, ns.
fn fixed_time_ns(flow: &Flow) -> u64 {
    let ends = flow.arrivals.first().zip(flow.arrivals.last());
    let span_ns = ends.map_or(0, |(first, last)| last.at_ns.saturating_sub(first.at_ns));
    flow.elapsed_ns.saturating_sub(span_ns)
}

/// Returns [`fixed_time_ns`] for each of `flows` whose arrivals are known.
fn fixed_ns(flows: &[Flow]) -> Vec<u64> {
    flows.iter().filter(|flow| !flow.arrivals.is_empty()).map(fixed_time_ns).collect()
}

/// Returns the rate of a server that stores data long after its TCP has acknowledged it. Two
/// symptoms identify such a server: most of the additional time of a larger file is after the last
/// acknowledgment, and the delay after the last acknowledgment also grows between two smaller
/// files.
fn late_store_rate(probe: &Observation, largest: &Flow, trip_ns: u64) -> Option<Settled> {
    let smaller = half_size_transfer(probe, largest.bytes)?;
    let smallest = half_size_transfer(probe, smaller.bytes)?;
    let ns = largest.elapsed_ns.saturating_sub(smaller.elapsed_ns);
    let later_ns = fixed_time_ns(largest).saturating_sub(fixed_time_ns(smaller));
    let earlier_ns = fixed_time_ns(smaller).saturating_sub(fixed_time_ns(smallest));
    let is_stored_late = later_ns > ns / 2
        && later_ns > trip_ns
        && earlier_ns > later_ns / MIN_STEADY_GROWTH_DIVISOR;
    let bytes = largest.bytes - smaller.bytes;
    is_stored_late.then_some(Settled { bytes, ns, error: LATE_STORE_RATE_ERROR })
}

/// Between the two smaller files, the delay after the last acknowledgment must grow by more than
/// its growth between the two larger files, divided by this number.
const MIN_STEADY_GROWTH_DIVISOR: u64 = 8;
/// Relative error of the rate of a server that stores data late: the rate is derived from only two
/// times.
const LATE_STORE_RATE_ERROR: f64 = 0.25;

/// Returns the time per byte from the total times of the largest file and a smaller one, ns; 0 if
/// unknown. A server may store data long after its TCP has acknowledged it.
fn cost_by_totals(probe: &Observation, largest: &Flow) -> f64 {
    half_size_transfer(probe, largest.bytes).map_or(0.0, |smaller| {
        let ns = largest.elapsed_ns.saturating_sub(smaller.elapsed_ns);
        ns as f64 / (largest.bytes - smaller.bytes).max(1) as f64
    })
}

/// Returns the largest transfer of at most half of `bytes` whose arrivals are known.
fn half_size_transfer(probe: &Observation, bytes: u64) -> Option<&Flow> {
    let smaller = probe.transfers.iter().filter(|flow| flow.bytes <= bytes / 2);
    smaller.filter(|flow| !flow.arrivals.is_empty()).max_by_key(|flow| flow.bytes)
}

/// Returns the number of round trips that slow start takes for `bytes` if the first round trip
/// transfers `first` bytes.
fn rounds(bytes: u64, first: u64) -> f64 {
    (1.0 + bytes as f64 / first.max(1) as f64).log2()
}

/// Converts `ns` to an integer; values out of range saturate.
#[expect(clippy::cast_possible_truncation, reason = "the conversion saturates")]
const fn to_integer(ns: f64) -> u64 {
    ns as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const TRIP_NS: u64 = 20 * MS;

    /// Returns an observation of one transfer whose bytes arrive at these times (ms), and whose
    /// last reply arrives 10 ms later.
    fn probe(arrivals: impl IntoIterator<Item = (u64, u64)>) -> Observation {
        let arrivals: Vec<Arrival> =
            arrivals.into_iter().map(|(ms, bytes)| Arrival { at_ns: ms * MS, bytes }).collect();
        let last_ns = arrivals.last().map_or(0, |last| last.at_ns);
        let bytes = arrivals.iter().map(|one| one.bytes).sum();
        let mut probe = Observation {
            transfers: vec![Flow {
                bytes,
                elapsed_ns: last_ns + 10 * MS,
                arrivals,
                ..Flow::default()
            }],
            ..Observation::default()
        };
        probe.path.min_rtt_ns = Some(TRIP_NS);
        probe.path.mss_bytes = Some(1_000);
        probe
    }

    fn estimate(probe: &Observation, bytes: u64) -> Estimate {
        FileModel::of(probe).unwrap().estimate(bytes).unwrap()
    }

    #[test]
    fn a_steady_flow_continues_at_its_rate() {
        let forecast = estimate(&probe((0..400).map(|at| (60 + at, 1_000))), 1_600_000);
        assert_eq!(forecast.ns / MS, 60 + 1_599 + 10);
        let [min, max] = forecast.range_ns.map(|ns| ns / MS);
        assert!((1_500..1_669).contains(&min) && (1_670..1_800).contains(&max), "{forecast:?}");
    }

    #[test]
    fn the_pauses_of_a_slow_disk_are_included_in_the_rate() {
        let packets = |block: u64| (0..16).map(move |at| (60 + block * 50 + at / 8, 1_000));
        let forecast = estimate(&probe((0..16).flat_map(packets)), 4 * 256_000);
        let expected = 60 + 63 * 50 + 1 + 10;
        assert!((forecast.ns / MS).abs_diff(expected) < 40, "{forecast:?} {expected}");
    }

    #[test]
    fn a_full_token_bucket_counts_once_and_an_empty_one_widens_the_range() {
        let fast = (0..100).map(|at| (60 + at / 10, 1_000));
        let slow = (0..100).map(|at| (80 + at * 10, 1_000));
        let forecast = estimate(&probe(fast.chain(slow)), 800_000);
        assert!((forecast.ns / MS).abs_diff(80 + 699 * 10 + 10) < 70, "{forecast:?}");
        assert!(forecast.range_ns[1] / MS > 8_000, "{forecast:?}");
    }

    #[test]
    fn round_trips_continue_to_double_and_the_range_allows_no_growth() {
        // 10, 20, 40 and 80 packets at the beginnings of round trips.
        let flight = |round: u64| (0..10 << round).map(move |_| (60 + round * 20, 1_000));
        let forecast = estimate(&probe((0..4).flat_map(flight)), 150_000 + 160_000);
        assert!((forecast.ns / MS).abs_diff(60 + 80 + 10) <= 20, "{forecast:?}");
        assert!(forecast.range_ns[1] / MS >= 60 + 60 + 40 + 10, "{forecast:?}");
    }

    #[test]
    fn a_flow_with_random_stalls_has_a_wider_range_than_an_even_one() {
        let even = estimate(&probe((0..200).map(|at| (60 + at * 10, 1_000))), 800_000);
        let stalls =
            |at: u64| 400 * (u64::from(at > 20) + u64::from(at > 110) + u64::from(at > 130));
        let lossy = probe((0..200).map(|at| (60 + at * 4 + stalls(at), 1_000)));
        let lossy = estimate(&lossy, 800_000);
        let width =
            |forecast: &Estimate| (forecast.range_ns[1] - forecast.range_ns[0]) * 100 / forecast.ns;
        assert!(width(&lossy) > 2 * width(&even), "{lossy:?} {even:?}");
    }

    #[test]
    fn a_slow_start_of_one_transfer_affects_only_the_range() {
        let transfer_from =
            |ms: u64, packets: u64| probe((0..packets).map(move |at| (ms + at, 1_000)));
        for (largest_ms, small_ms) in [(560, 60), (60, 560)] {
            let mut observed = transfer_from(largest_ms, 400);
            for (ms, packets) in [(small_ms, 1), (60, 4), (60, 16)] {
                observed.transfers.push(transfer_from(ms, packets).transfers[0].clone());
            }
            let forecast = estimate(&observed, 1_600_000);
            assert_eq!(forecast.ns / MS, 60 + 1_599 + 10);
            assert!(forecast.range_ns[1] / MS >= 60 + 1_599 + 10 + 500, "{forecast:?}");
        }
        let mut observed = transfer_from(560, 400);
        for (ms, packets) in [(60, 1), (560, 4), (560, 16)] {
            observed.transfers.push(transfer_from(ms, packets).transfers[0].clone());
        }
        let forecast = estimate(&observed, 1_600_000);
        assert!(forecast.range_ns[0] / MS < 60 + 1_599 + 10, "{forecast:?}");
    }

    /// Returns a flow whose round trips of `round_ms` bring 10, 20, 40 and so on packets, evenly
    /// spread.
    fn paced_flow(rounds: u64, round_ms: u64) -> Observation {
        let round = |round: u64| {
            let packets = 10_u64 << round;
            (0..packets).map(move |at| (60 + round * round_ms + at * round_ms / packets, 1_000))
        };
        probe((0..rounds).flat_map(round))
    }

    #[test]
    fn the_pace_of_a_growing_flow_is_not_used_as_the_link_rate() {
        let forecast = estimate(&paced_flow(4, 20), 1_150_000);
        // From 150,000 to 1,150,000 bytes slow start takes 2.9 round trips.
        assert_eq!(forecast.ns / MS, 60 + 79 + 10 + 57);
    }

    #[test]
    fn a_flow_that_grows_more_slowly_than_slow_start_is_not_settled() {
        let final_phase = |observed| FileModel::of(&observed).unwrap().final_phase;
        assert!(matches!(final_phase(paced_flow(4, 28)), FinalPhase::Growing(_)));
        assert!(matches!(
            final_phase(probe((0..150).map(|at| (60 + at, 1_000)))),
            FinalPhase::Settled(_)
        ));
    }

    #[test]
    fn a_growing_flow_is_limited_by_the_send_buffer_and_the_assumed_link_rate() {
        let more_ms = |probe: &Observation| {
            let flow = &probe.transfers[0];
            (estimate(probe, flow.bytes + 20_000_000).ns - flow.elapsed_ns) / MS
        };
        // 2 MiB in each round trip of 20 ms.
        assert_eq!(more_ms(&paced_flow(8, 20)), 20_000_000 * 20 / (2 << 20));
        let mut near_flow = paced_flow(5, 2);
        near_flow.path.min_rtt_ns = Some(2 * MS);
        assert_eq!(more_ms(&near_flow), 160);
    }

    /// Returns uploads of `sizes` packets, acknowledged every `ack_us`, which take 70 ms plus 4 ms
    /// per packet.
    fn late_uploads<const COUNT: usize>(sizes: [u64; COUNT], ack_us: u64) -> Observation {
        let mut all = probe([]);
        all.transfers = sizes
            .map(|packets| {
                let arrival = |at| Arrival { at_ns: 60 * MS + at * ack_us * 1_000, bytes: 1_000 };
                Flow {
                    direction: Direction::Outgoing,
                    bytes: packets * 1_000,
                    elapsed_ns: (70 + packets * 4) * MS,
                    arrivals: (0..packets).map(arrival).collect(),
                    ..Flow::default()
                }
            })
            .to_vec();
        all
    }

    #[test]
    fn a_server_that_stores_acknowledged_data_late_has_the_rate_of_its_last_replies() {
        // All data is acknowledged within 3 round trips.
        assert_eq!(estimate(&late_uploads([4, 16, 64], 780), 256_000).ns / MS, 70 + 256 * 4);
        // Two sizes are not enough to recognize the delay, but the range includes it.
        assert!(estimate(&late_uploads([16, 64], 780), 256_000).range_ns[1] / MS >= 70 + 256 * 4);
        // Two sizes are enough if data is acknowledged more slowly than by slow start.
        assert_eq!(estimate(&late_uploads([16, 64], 2_500), 256_000).ns / MS, 70 + 256 * 4);
    }

    #[test]
    fn data_that_waited_in_the_receive_buffer_does_not_count_for_the_rate() {
        let packets = (0..9).map(|at| (510 + at * 10, 1_000));
        let forecast = estimate(&probe([(500, 40_000)].into_iter().chain(packets)), 149_000);
        assert!((forecast.ns / MS).abs_diff(510 + 80 + 10 + 1_000) < 60, "{forecast:?}");
    }

    #[test]
    fn losses_make_a_range_wider() {
        let mut observed = probe((0..100).map(|at| (60 + at * 10, 1_000)));
        let even = estimate(&observed, 400_000);
        observed.transfers[0].counts.out_of_order_in = Some(3);
        let lossy = estimate(&observed, 400_000);
        assert!(lossy.range_ns[0] < even.range_ns[0] && lossy.range_ns[1] > even.range_ns[1]);
    }

    #[test]
    fn a_few_packets_behind_a_loss_show_no_rate() {
        // 50 packets at once, and 14 more after a timeout.
        let packets =
            (0..50).map(|_| (60, 1_000)).chain((0..14).map(|at| (1_000 + at * 20, 1_000)));
        let mut observed = probe(packets);
        let is_settled = |observed: &Observation| {
            let final_phase = FileModel::of(observed).map(|model| model.final_phase);
            matches!(final_phase, Some(FinalPhase::Settled(_)))
        };
        assert!(is_settled(&observed));
        observed.transfers[0].counts.out_of_order_in = Some(1);
        assert!(!is_settled(&observed));
    }

    #[test]
    fn a_growing_flow_does_not_exceed_the_observed_rate_of_the_link() {
        // Each round trip of 20 ms brings its packets 0.25 ms apart: 32 Mbit/s.
        let flight = |round: u64| (0..10_u64 << round).map(move |at| (round, at));
        let mut observed = probe([]);
        let arrivals = (0..4).flat_map(flight).map(|(round, at)| Arrival {
            at_ns: (60 + round * 20) * MS + at * MS / 4,
            bytes: 1_000,
        });
        let arrivals: Vec<Arrival> = arrivals.collect();
        let elapsed_ns = arrivals.last().unwrap().at_ns;
        observed.transfers = vec![Flow { bytes: 150_000, elapsed_ns, arrivals, ..Flow::default() }];
        let forecast = estimate(&observed, 1_150_000);
        assert_eq!((forecast.ns - elapsed_ns) / MS, 250);
    }

    #[test]
    fn a_file_that_is_smaller_than_the_largest_transfer_is_not_predicted() {
        let model = FileModel::of(&probe((0..400).map(|at| (60 + at, 1_000)))).unwrap();
        assert_eq!(model.estimate(399_999), None);
        assert!(FileModel::of(&Observation::default()).is_none());
    }

    #[test]
    fn two_windows_of_a_protocol_in_lock_step_show_its_rate() {
        let arrivals = |count: u64| {
            (1..=count).map(|at| Arrival { at_ns: at * 10 * MS, bytes: 500 }).collect::<Vec<_>>()
        };
        let model = |count: u64| FileModel::in_lock_step(&arrivals(count), 1_000);
        assert!(model(3).is_none());
        let estimate = |count: u64, bytes: u64| model(count).unwrap().estimate(bytes);
        assert_eq!(estimate(4, 10_000).unwrap().ns, 200 * MS);
        // A fifth block belongs to an incomplete window.
        assert_eq!(estimate(5, 2_000).unwrap().ns, 40 * MS);
        assert_eq!(estimate(5, 1_999), None);
        let Estimate { ns, range_ns } = estimate(8, 4_000).unwrap();
        assert_eq!(ns, 80 * MS);
        insta::assert_snapshot!(format!("{range_ns:?} {:?}", estimate(8, 40_000).unwrap()), @"
        [67114718, 112885281] Estimate { ns: 800000000, range_ns: [693055574, 926944425] }
        ");
    }

    #[test]
    fn estimates_of_each_final_phase_never_change() {
        let flight = |round: u64| (0..10 << round).map(move |_| (60 + round * 20, 1_000));
        let mut lossy = probe((0..100).map(|at| (60 + at * 10, 1_000)));
        lossy.transfers[0].counts.out_of_order_in = Some(3);
        let mut upload = probe((0..400).map(|at| (60 + at, 1_000)));
        upload.transfers[0].direction = Direction::Outgoing;
        let short = {
            let mut all = probe([(60, 1_000)]);
            all.transfers.push(probe([(60, 1_000), (70, 9_000)]).transfers[0].clone());
            all
        };
        let all = [
            ("settled", probe((0..400).map(|at| (60 + at, 1_000)))),
            ("bursts", probe((0..256).map(|at| (60 + at / 16 * 50 + at % 16 / 8, 1_000)))),
            ("growing", probe((0..4).flat_map(flight))),
            ("paced", paced_flow(4, 28)),
            ("lossy", lossy),
            ("upload", upload),
            ("late store", late_uploads([4, 16, 64], 780)),
            ("two late uploads", late_uploads([16, 64], 780)),
            ("slow uploads", late_uploads([16, 64], 2_500)),
            ("short", short),
        ];
        let text = |(name, probe): &(&str, Observation)| {
            let model = FileModel::of(probe).map(|model| model.estimate(1_600_000));
            match model {
                Some(Some(Estimate { ns, range_ns: [min, max] })) => {
                    format!("{name}: {ns}, {min} to {max}")
                }
                other => format!("{name}: {other:?}"),
            }
        };
        insta::assert_snapshot!(all.iter().map(text).collect::<Vec<_>>().join("\n"), @"
        settled: 1669000000, 1608546458 to 1749453541
        bursts: 5021000000, 4643521700 to 5457478299
        growing: 196618337, 155410618 to 520398550
        paced: 264828125, 204364325 to 881569843
        lossy: 16060000000, 13207281670 to 18932718329
        upload: 1669000000, 1608546458 to 1749453541
        late store: 6470000000, 4454377076 to 8312422923
        two late uploads: 473420000, 199671316 to 6506202600
        slow uploads: 6470000000, 6166341425 to 6721658574
        short: 1855367250, 151227990 to 1971160335
        ");
    }

    #[test]
    fn a_server_stores_late_if_most_of_the_additional_time_follows_the_acknowledgments() {
        let rate = |smaller_ms: u64, smallest_ms: u64, trip_ms: u64| {
            let mut all = late_uploads([4, 16, 64], 1);
            all.transfers[1].elapsed_ns = smaller_ms * MS + all.transfers[1].arrivals[15].at_ns;
            all.transfers[0].elapsed_ns = smallest_ms * MS + all.transfers[0].arrivals[3].at_ns;
            all.transfers[2].elapsed_ns = 200 * MS + all.transfers[2].arrivals[63].at_ns;
            late_store_rate(&all, &all.transfers[2], trip_ms * MS).map(|settled| settled.bytes)
        };
        let late = Some(48_000);
        // 80 ms more between the larger two, of which an eighth between the smaller two.
        assert_eq!(rate(120, 100, 20), late);
        assert_eq!(rate(120, 110, 20), None);
        assert_eq!(rate(120, 109, 20), late);
        assert_eq!(rate(120, 100, 80), None);
        assert_eq!(rate(120, 100, 79), late);
    }

    #[test]
    fn slow_start_doubles_the_bytes_of_each_round_trip() {
        let counts = [0, 10, 30, 70].map(|bytes| rounds(bytes, 10));
        assert!(
            counts.iter().zip([0.0, 1.0, 2.0, 3.0]).all(|(one, other)| (one - other).abs() < 1e-9)
        );
        assert!((rounds(1, 0) - 1.0).abs() < 1e-9);
    }

    /// Returns a flow of 150 packets, `spacing_ns` apart. Slow start takes four round trips.
    fn evenly_spaced(spacing_ns: u64, direction: Direction) -> Observation {
        let mut observed = probe((0..150).map(|_| (60, 1_000)));
        let flow = &mut observed.transfers[0];
        for (arrival, at) in flow.arrivals.iter_mut().zip(0..) {
            arrival.at_ns += at * spacing_ns;
        }
        flow.elapsed_ns += 149 * spacing_ns;
        flow.direction = direction;
        observed
    }

    #[test]
    fn a_flow_as_quick_as_slow_start_is_growing() {
        let is_growing = |span_ns: u64, direction| {
            let observed = evenly_spaced(span_ns / 149, direction);
            matches!(FileModel::of(&observed).unwrap().final_phase, FinalPhase::Growing(_))
        };
        // Three round trips of 20 ms, with a tolerance of 1.3.
        let received = [77_999_999, 78_000_200].map(|ns| is_growing(ns, Direction::Incoming));
        assert_eq!(received, [true, false]);
        // Acknowledged bytes are sampled every 6 ms.
        let sent = [83_999_999, 84_000_200].map(|ns| is_growing(ns, Direction::Outgoing));
        assert_eq!(sent, [true, false]);
    }

    #[test]
    fn a_smaller_download_does_not_change_the_cost_of_a_growing_one() {
        let mut observed = paced_flow(4, 28);
        let alone = estimate(&observed, 1_150_000);
        observed.transfers.push(probe([(60, 70_000)]).transfers[0].clone());
        assert_eq!(estimate(&observed, 1_150_000), alone);
        for transfer in &mut observed.transfers {
            transfer.direction = Direction::Outgoing;
        }
        assert!(estimate(&observed, 1_150_000).range_ns[1] > alone.range_ns[1]);
    }

    #[test]
    fn the_median_of_the_times_without_data_counts_for_a_download() {
        let late = |ms: u64| probe((0..400).map(move |at| (ms + at, 1_000)));
        let alone = estimate(&late(60), 1_600_000);
        let mut observed = late(60);
        for packets in [1, 4, 16] {
            let other = probe((0..packets).map(|at| (260 + at, 1_000)));
            observed.transfers.push(other.transfers[0].clone());
        }
        let others = estimate(&observed, 1_600_000);
        assert_eq!(others.ns - alone.ns, 200 * MS);
        // 200 ms later, with a margin of 3 %; no transfer was later than the median.
        let later_ms = (others.range_ns[1] - alone.range_ns[1]) / MS;
        assert!((204..=210).contains(&later_ms), "{later_ms}");
    }

    proptest! {
        #[test]
        fn no_transfers_cause_a_panic(
            raw in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..60),
            bytes: u64,
            elapsed_ns: u64,
            trip_ns: u64,
            file_bytes: u64,
        ) {
            let mut all = probe([]);
            all.path.min_rtt_ns = Some(trip_ns);
            let of = |(at_ns, bytes): (u64, u64)| Arrival { at_ns, bytes };
            let arrivals: Vec<Arrival> = raw.into_iter().map(of).collect();
            all.transfers = vec![Flow { bytes, elapsed_ns, arrivals: arrivals.clone(), ..Flow::default() }];
            for model in [FileModel::of(&all), FileModel::in_lock_step(&arrivals, 512)].iter().flatten() {
                if let Some(forecast) = model.estimate(file_bytes) {
                    let [min, max] = forecast.range_ns;
                    prop_assert!(min <= forecast.ns && forecast.ns <= max, "{forecast:?}");
                }
            }
        }
    }
}
