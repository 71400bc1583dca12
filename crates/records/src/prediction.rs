//! Prediction from a short probe: the duration of a screenful, an echo during other data, and a
//! transfer.
//!
//! The model has six parameters: the round-trip time, the fixed latency of every flow, the rate at
//! which data arrives, the window, the maximum segment size, and the queueing delay of a keystroke
//! under load. A flow begins with ten segments (RFC 6928). The number of segments doubles in each
//! round trip until the window or the link is full. From then on the rate of the flow is the lower
//! of two rates: the rate of the link, and one window per round trip:
//!
//! ```text
//! time(n) = latency + trip * waits(n) + 8 n' / rate
//! ```
//!
//! where `waits(n)` is the number of round trips in which the link is idle, and `n'` is the number
//! of bytes left after these round trips. TFTP has no slow start: it waits after each of its
//! windows, so its time is linear in the size ([`Model::in_lock_step`]).
//!
//! The time of a file is predicted from the largest file transferred before it ([`FileModel`]). If
//! that transfer is too short, this model is used instead.
//!
//! A prediction must not depend on the value that it predicts: [`Model::of`] takes an observation
//! that ended before the predicted operation. Only the later measurement turns a [`Forecast`] into
//! a [`Prediction`].
//!
//! The model does not cover loss, a token bucket that is still not empty when the probe ends, or a
//! changing rate. In these cases it is wrong by an unknown amount.

mod file;
mod outcome;
mod periods;
mod rate;

pub use file::{Estimate, FileModel};
pub use outcome::{Forecast, Prediction, Quantity};

use crate::statistics::{median, percentile};
use crate::verdict::{Echoes, Flow, Observation, serial_ns};

/// Model of a path and the remote host, from a probe: a measurement of short outputs and transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Round-trip time of the network, ns.
    pub trip_ns: u64,
    /// Echo time of a keystroke without other traffic, ns.
    pub echo_ns: Option<u64>,
    /// Fixed time of every flow, without its round-trip waits and its time on the link, ns.
    pub latency_ns: u64,
    /// Rate of data once it arrives, bit/s; `None` if it is too fast to measure.
    pub rate_bps: Option<u64>,
    /// Maximum bytes in flight; `None` if no limit is known.
    pub window_bytes: Option<u64>,
    /// Maximum segment size, data bytes.
    pub mss_bytes: u64,
    /// Time for which the remote host delays the last segment of an output (Nagle's algorithm), ns.
    /// It applies if that segment is short and the output has several segments.
    pub last_wait_ns: u64,
    /// Echo time of a keystroke during the probe's short flow, once this flow has filled the queue,
    /// ns.
    pub loaded_echo_ns: Option<u64>,
}

/// Segment size that every host accepts, used if it is unknown.
const DEFAULT_MSS: u64 = 536;
/// Maximum window that counts as a limit of the flow if the window of this host is unknown, bytes.
/// A kernel with auto-tuning first offers 64 KiB, less overhead, and increases such a window soon.
const INITIAL_WINDOW: u64 = 50_000;

impl Model {
    /// Builds the model from `probe`, whose screenful and transfers must be short and all have the
    /// same direction.
    ///
    /// Returns `None` if no round-trip time is known, or if `probe` has no flow.
    #[must_use]
    pub fn of(probe: &Observation) -> Option<Self> {
        let path = &probe.path;
        let trips = [path.min_rtt_ns, path.rtt_ns, probe.steps.connect_ns];
        let trip_ns = trips.into_iter().flatten().min()?;
        let flows: Vec<&Flow> = probe.screenful.iter().chain(&probe.transfers).collect();
        // Among flows of the same size, prefer one with known arrivals.
        let longest_flow = flows.iter().max_by_key(|flow| (flow.bytes, flow.arrivals.len()))?;
        let flows_of_that_size = flows.iter().filter(|flow| flow.bytes == longest_flow.bytes);
        let min_elapsed_ns =
            flows_of_that_size.map(|flow| flow.elapsed_ns).filter(|ns| *ns > 0).min();
        let mut model = Self {
            echo_ns: probe.echo.as_ref().and_then(|echo| median(&echo.samples_ns)),
            window_bytes: longest_flow.counts.window_bytes,
            loaded_echo_ns: probe.echo_under_load.as_ref().and_then(Echoes::settled_ns),
            ..Self::slow_start_only(trip_ns, path.mss_bytes.unwrap_or(DEFAULT_MSS).max(1))
        };
        let train = rate::train(&longest_flow.arrivals, trip_ns, model.mss_bytes);
        if let Some(train) = train {
            model.rate_bps = Some(train.rate_bps);
            let max = model.window_bytes.unwrap_or(INITIAL_WINDOW);
            let observed_window = train.window_bytes.filter(|window| *window < max);
            model.window_bytes = observed_window.or(model.window_bytes);
            model.latency_ns = model.latency_of(&flows)?;
        } else {
            model.fit_times(&flows)?;
        }
        // The quickest flow proves that its rate is possible. A busy host may have delayed the
        // other flows.
        let is_too_slow = |model: &Self| {
            let latency_ns = model.latencies(&flows).into_iter().min().unwrap_or(0);
            let predicted_ns = Self { latency_ns, ..*model }.flow_ns(longest_flow.bytes);
            min_elapsed_ns.is_some_and(|quickest| predicted_ns / 21 > quickest / 20)
        };
        if train.is_some() && is_too_slow(&model) {
            model.window_bytes = longest_flow.counts.window_bytes;
        }
        if train.is_some()
            && is_too_slow(&model)
            && let Some(rate_bps) = model.rate_of_times(&flows)
        {
            model = Self { rate_bps: Some(rate_bps), ..model };
            model.latency_ns = model.latency_of(&flows)?;
        }
        Some(model)
    }

    /// Builds the model of a protocol that waits for an acknowledgment after each of its windows.
    /// `short` and `long` are the bytes and the time of two flows, or of two beginnings of one
    /// flow.
    ///
    /// Returns `None` if the longer flow did not take more time than the shorter one.
    #[must_use]
    pub fn in_lock_step(short: (u64, u64), long: (u64, u64)) -> Option<Self> {
        let (bytes, ns) = short;
        let (more, longer_ns) = long;
        let bits = u128::from(more.checked_sub(bytes)?) * 8_000_000_000;
        let additional_ns = longer_ns.checked_sub(ns).filter(|ns| *ns > 0)?;
        let rate_bps =
            u64::try_from(bits / u128::from(additional_ns)).ok().filter(|rate| *rate > 0)?;
        Some(Self {
            latency_ns: ns.saturating_sub(serial_ns(bytes, rate_bps)),
            rate_bps: Some(rate_bps),
            // The rate includes the waits for acknowledgments.
            ..Self::slow_start_only(0, DEFAULT_MSS)
        })
    }

    /// Returns the model of a path on which only slow start takes time.
    #[must_use]
    pub(crate) const fn slow_start_only(trip_ns: u64, mss_bytes: u64) -> Self {
        Self {
            trip_ns,
            echo_ns: None,
            latency_ns: 0,
            rate_bps: None,
            window_bytes: None,
            mss_bytes,
            last_wait_ns: 0,
            loaded_echo_ns: None,
        }
    }

    /// Returns the time from the request to the last of `bytes` bytes, ns.
    #[must_use]
    pub fn flow_ns(&self, bytes: u64) -> u64 {
        let is_last_segment_delayed =
            bytes > self.mss_bytes && !bytes.is_multiple_of(self.mss_bytes);
        let last_ns = if is_last_segment_delayed { self.last_wait_ns } else { 0 };
        self.latency_ns.saturating_add(self.transit_ns(bytes)).saturating_add(last_ns)
    }

    /// Returns the expected range of the time of a flow of `bytes`, ns. `flows` are the flows from
    /// which this model was made; the errors of the model for these flows determine the range.
    /// Returns `None` without flows.
    #[must_use]
    pub fn range_ns(&self, flows: &[Flow], bytes: u64) -> Option<[u64; 2]> {
        let predicted_ns = self.flow_ns(bytes);
        let deviations = |flow: &Flow| {
            let flow_prediction_ns = self.flow_ns(flow.bytes).max(1);
            let elapsed_ns = u128::from(flow.elapsed_ns);
            let flow_prediction = u128::from(flow_prediction_ns);
            let scaled_ns = u128::from(predicted_ns) * elapsed_ns / flow_prediction;
            let shifted_ns =
                (u128::from(predicted_ns) + elapsed_ns).saturating_sub(flow_prediction);
            [scaled_ns, shifted_ns].map(|ns| u64::try_from(ns).unwrap_or(u64::MAX))
        };
        let all: Vec<u64> = flows.iter().flat_map(deviations).chain([predicted_ns]).collect();
        let [min, max] = [all.iter().min()?, all.iter().max()?];
        let margin = predicted_ns / MARGIN_DIVISOR + MARGIN_NS;
        (!flows.is_empty()).then(|| [min.saturating_sub(margin), max.saturating_add(margin)])
    }

    /// Returns the part of [`Self::flow_ns`] spent in round-trip waits and on the link, ns.
    fn transit_ns(&self, bytes: u64) -> u64 {
        let transmission_ns = |count| self.rate_bps.map_or(0, |rate| serial_ns(count, rate));
        let window = self.window_bytes.unwrap_or(u64::MAX).max(1);
        // A congestion window of 0 bytes would never grow.
        let mut congestion = self.mss_bytes.max(1).saturating_mul(rate::INITIAL_SEGMENTS);
        let mut remaining_bytes = bytes;
        let mut ns = 0_u64;
        loop {
            let round = congestion.min(window);
            if remaining_bytes <= round {
                return ns.saturating_add(transmission_ns(remaining_bytes));
            }
            let round_ns = transmission_ns(round);
            if round_ns >= self.trip_ns {
                // The link is full from now on.
                return ns.saturating_add(transmission_ns(remaining_bytes));
            }
            if congestion >= window {
                let rounds = remaining_bytes.div_ceil(window) - 1;
                let last = remaining_bytes - rounds.saturating_mul(window);
                let waits = self.trip_ns.saturating_mul(rounds);
                return ns.saturating_add(waits).saturating_add(transmission_ns(last));
            }
            remaining_bytes -= round;
            ns = ns.saturating_add(self.trip_ns);
            congestion = congestion.saturating_mul(2);
        }
    }

    /// Returns the echo time of a keystroke during a flow that fills the path, ns.
    ///
    /// This is the echo time during the probe's short flow, if known. Otherwise a full window is
    /// queued before the key: the result is the transmission time of a window, or the echo time
    /// without other traffic if that is longer.
    #[must_use]
    pub fn echo_under_load_ns(&self) -> Option<u64> {
        self.loaded_echo_ns.or_else(|| {
            let window_ns = serial_ns(self.window_bytes?, self.rate_bps?);
            Some(self.echo_ns?.max(window_ns))
        })
    }

    /// Derives rate and latency from the times of `flows` alone.
    ///
    /// A remote host may delay a short last segment until the previous segment is acknowledged. The
    /// flows show this if the short ones fit into one segment and all longer ones into two
    /// segments.
    fn fit_times(&mut self, flows: &[&Flow]) -> Option<()> {
        let fits_one_segment = |flow: &&Flow| flow.bytes <= self.mss_bytes;
        let (single, longer): (Vec<&Flow>, Vec<&Flow>) =
            flows.iter().copied().partition(fits_one_segment);
        let has_several_sizes =
            single.iter().any(|flow| Some(flow.bytes) != single.first().map(|one| one.bytes));
        let fit_two_segments = longer.iter().all(|flow| flow.bytes / 2 <= self.mss_bytes);
        if has_several_sizes
            && fit_two_segments
            && let Some(long) = longer.iter().min_by_key(|flow| flow.elapsed_ns)
        {
            self.rate_bps = self.rate_of_times(&single);
            self.latency_ns = self.latency_of(&single)?;
            let waited_ns = long.elapsed_ns.saturating_sub(self.flow_ns(long.bytes));
            if self.trip_ns > 0 && waited_ns > self.trip_ns / 2 {
                self.last_wait_ns = self.trip_ns;
                return Some(());
            }
        }
        self.rate_bps = self.rate_of_times(flows);
        self.latency_ns = self.latency_of(flows)?;
        Some(())
    }

    /// Returns the rate that explains the time difference between the shortest and the longest of
    /// `flows`, bit/s; `None` if the round-trip waits alone explain the difference, or if all flows
    /// have one size.
    fn rate_of_times(&self, flows: &[&Flow]) -> Option<u64> {
        let sizes = flows.iter().map(|flow| flow.bytes);
        let (min, max) = sizes.clone().min().zip(sizes.max())?;
        // Use the minimum time for each size: a busy host only makes flows longer.
        let of = |bytes: u64| {
            let flows_of_size = flows.iter().filter(|flow| flow.bytes == bytes);
            flows_of_size.map(|flow| flow.elapsed_ns).min()
        };
        let difference = of(max)?.saturating_sub(of(min)?);
        let difference_with = |rate_bps: Option<u64>| {
            let model = Self { rate_bps, ..*self };
            model.transit_ns(max).saturating_sub(model.transit_ns(min))
        };
        if max == min || difference_with(None) >= difference {
            return None;
        }
        // Bisect, because the time falls as the rate rises. The rate at most doubles per step,
        // because the upper limit is far away at first.
        let mut low = 1_u64;
        let mut high = rate::MAX_MEASURABLE_BPS;
        while high - low > low / 1_000 + 1 {
            let middle = low + (high - low) / 2;
            let middle = middle.min(low.saturating_mul(2));
            if difference_with(Some(middle)) > difference { low = middle } else { high = middle }
        }
        (high < rate::MAX_MEASURABLE_BPS).then_some(high)
    }

    /// Returns the fixed time of flows, without round-trip waits and time on the link, ns.
    ///
    /// Flows that fit into the first flight have no waits, so the result is the median of their
    /// times. Without such flows, the result is the median time of the first bytes of all flows.
    fn latency_of(&self, flows: &[&Flow]) -> Option<u64> {
        let transmission_ns = |bytes| self.rate_bps.map_or(0, |rate| serial_ns(bytes, rate));
        median(&self.latencies(flows)).or_else(|| {
            let first = flows.iter().filter_map(|flow| flow.arrivals.first());
            // Subtract the time of the first bytes on the link.
            let first = first.map(|first| first.at_ns.saturating_sub(transmission_ns(first.bytes)));
            median(&first.collect::<Vec<_>>())
        })
    }

    /// Returns the fixed time of each of `flows` that fits into the first flight, ns.
    fn latencies(&self, flows: &[&Flow]) -> Vec<u64> {
        let transmission_ns = |bytes| self.rate_bps.map_or(0, |rate| serial_ns(bytes, rate));
        let flight_bytes = self.mss_bytes.saturating_mul(rate::INITIAL_SEGMENTS);
        let flight_bytes = flight_bytes.min(self.window_bytes.unwrap_or(u64::MAX));
        let short_flows =
            flows.iter().filter(|flow| flow.bytes <= flight_bytes && flow.elapsed_ns > 0);
        short_flows
            .map(|flow| flow.elapsed_ns.saturating_sub(transmission_ns(flow.bytes)))
            .collect()
    }
}

/// Divisor for the margin for scheduling delays on both hosts: the margin is the time divided by
/// this number, plus [`MARGIN_NS`].
const MARGIN_DIVISOR: u64 = 50;
const MARGIN_NS: u64 = 1_000_000;

/// Returns the expected range of the median echo during other output, ns: the range of the probe's
/// echoes once the queue has filled. The range of a small number of echoes is widened, because they
/// do not show the spread.
#[must_use]
pub fn echo_range_ns(echoes: &Echoes) -> Option<[u64; 2]> {
    let samples = &echoes.samples_ns;
    let has_few_samples = samples.len() < Echoes::MIN_SETTLING_ECHOES;
    let full_queue_samples =
        if has_few_samples { samples } else { samples.get(samples.len() / 2..)? };
    let min = percentile(full_queue_samples, 10)?;
    let max = percentile(full_queue_samples, 90)?;
    let [min, max] = if has_few_samples { [min / 4 * 3, max / 2 * 3] } else { [min, max] };
    let margin = |ns: u64| ns / MARGIN_DIVISOR + MARGIN_NS;
    Some([min.saturating_sub(margin(min)), max.saturating_add(margin(max))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Arrival;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_path_with_a_zero_segment_size_terminates() {
        assert!(Model::slow_start_only(MS, 0).flow_ns(1 << 40) > 0);
    }

    fn model() -> Model {
        Model {
            trip_ns: 100 * MS,
            echo_ns: Some(101 * MS),
            latency_ns: 100 * MS,
            rate_bps: Some(8_000_000),
            window_bytes: Some(64_000),
            mss_bytes: 1_000,
            last_wait_ns: 0,
            loaded_echo_ns: None,
        }
    }

    /// Returns a probe with a round trip of 100 ms and flows of which only size and time are known.
    fn probe(flows: &[(u64, u64)]) -> Observation {
        let flow = |(bytes, elapsed_ns): &(u64, u64)| Flow {
            bytes: *bytes,
            elapsed_ns: *elapsed_ns,
            ..Flow::default()
        };
        let mut probe = Observation::default();
        probe.path.min_rtt_ns = Some(100 * MS);
        probe.path.mss_bytes = Some(1_000);
        probe.transfers = flows.iter().map(flow).collect();
        probe
    }

    #[test]
    fn a_flow_within_the_first_window_takes_its_time_on_the_link() {
        assert_eq!(model().flow_ns(10_000), 110 * MS);
    }

    #[test]
    fn a_window_below_the_bandwidth_delay_product_costs_round_trips() {
        // 10, 20 and 40 thousand bytes of slow start, then 64,000 bytes per round trip.
        assert_eq!(model().flow_ns(70_000 + 640_000), (100 + 300 + 900 + 64) * MS);
    }

    #[test]
    fn a_full_link_alone_determines_the_time() {
        let model = Model { rate_bps: Some(80_000), ..model() };
        assert_eq!(model.flow_ns(100_000), 10_100 * MS);
    }

    #[test]
    fn a_window_that_fills_the_queue_delays_a_key() {
        let model = Model { rate_bps: Some(80_000), window_bytes: Some(2_500), ..model() };
        assert_eq!(model.echo_under_load_ns(), Some(250 * MS));
    }

    #[test]
    fn the_range_of_a_flow_follows_from_the_prediction_errors_of_the_probe() {
        let flows = [(10_000, 100 * MS), (10_000, 132 * MS)];
        let range = model().range_ns(&probe(&flows).transfers, 10_000).unwrap();
        // The prediction is 110 ms; the margin is 2 % and 1 ms.
        assert_eq!(range.map(|ns| ns / 100_000), [968, 1_352]);
        assert_eq!(model().range_ns(&[], 10_000), None);
    }

    #[test]
    fn the_range_of_few_echoes_is_widened() {
        let echoes = |samples_ns| Echoes { samples_ns, ..Echoes::default() };
        let many = (0..20).map(|at| if at < 10 { 10 * MS } else { (90 + at) * MS });
        let range = echo_range_ns(&echoes(many.collect())).unwrap();
        assert_eq!(range.map(|ns| ns / MS), [97, 111]);
        let range = echo_range_ns(&echoes(vec![40 * MS, 80 * MS])).unwrap();
        assert_eq!(range.map(|ns| ns / MS), [28, 123]);
        assert_eq!(echo_range_ns(&echoes(Vec::new())), None);
    }

    #[test]
    fn unknown_values_are_not_predicted() {
        let model = Model { window_bytes: None, ..model() };
        assert_eq!(model.echo_under_load_ns(), None);
        assert_eq!(Model::of(&Observation::default()), None);
    }

    #[test]
    fn two_short_texts_predict_a_longer_one() {
        // 200 ms fixed, and 10 ms per 100 bytes.
        let pieces = [(100, 210 * MS), (500, 250 * MS), (100, 210 * MS), (500, 250 * MS)];
        let predicted_ns = Model::of(&probe(&pieces)).unwrap().flow_ns(2_000);
        assert!(predicted_ns.abs_diff(400 * MS) < MS, "{predicted_ns}");
    }

    #[test]
    fn arrivals_are_taken_from_the_flow_with_known_arrivals() {
        // 50,000 bytes, the last 20,000 of them in one train at 8 Mbit/s; then the same size
        // without arrivals.
        let arrival = |at: u64, ms: u64| Arrival { at_ns: (ms + at) * MS, bytes: 1_000 };
        let trains = [(100, 10), (200, 20), (300, 20)];
        let arrivals = trains.iter().flat_map(|(ms, count)| (0..*count).map(|at| arrival(at, *ms)));
        let mut observation = probe(&[(1_000, 101 * MS), (50_000, 320 * MS), (50_000, 450 * MS)]);
        observation.transfers[1].arrivals = arrivals.collect();
        assert_eq!(Model::of(&observation).unwrap().rate_bps, Some(8_000_000));
    }

    #[test]
    fn a_server_that_delays_a_short_last_segment_is_detected() {
        // 1,500 bytes take one round trip more than their time on the link.
        let pieces = [(100, 201 * MS), (500, 205 * MS), (1_500, 315 * MS)];
        let model = Model::of(&probe(&pieces)).unwrap();
        let predicted_ns = model.flow_ns(1_900);
        assert!(predicted_ns.abs_diff(319 * MS) < MS, "{predicted_ns}");
        let pieces = [(100, 201 * MS), (500, 205 * MS), (1_500, 216 * MS)];
        assert_eq!(Model::of(&probe(&pieces)).unwrap().last_wait_ns, 0);
    }

    #[test]
    fn transfer_times_give_the_rate_without_slow_start_waits() {
        let actual_model = Model { window_bytes: None, ..model() };
        let times =
            [1_000, 4_000, 16_000, 64_000].map(|bytes| (bytes, actual_model.flow_ns(bytes)));
        let fitted_model = Model::of(&probe(&times)).unwrap();
        let predicted_ns = fitted_model.flow_ns(4_000_000);
        let expected = actual_model.flow_ns(4_000_000);
        assert!(predicted_ns.abs_diff(expected) < expected / 100, "{predicted_ns} {expected}");
    }

    #[test]
    fn no_rate_is_derived_if_round_trips_explain_all_of_the_time() {
        let probe = probe(&[(1_000, 200 * MS), (64_000, 400 * MS)]);
        assert_eq!(Model::of(&probe).unwrap().rate_bps, None);
    }

    #[test]
    fn lock_step_time_is_proportional_to_the_size() {
        let model = Model::in_lock_step((1_000, 30 * MS), (11_000, 130 * MS)).unwrap();
        assert_eq!((model.latency_ns, model.flow_ns(101_000)), (20 * MS, 1_030 * MS));
        assert_eq!(Model::in_lock_step((1_000, 30), (11_000, 30)), None);
    }

    #[test]
    fn the_last_segment_of_a_longer_flow_waits_only_if_it_is_short() {
        let model = Model { last_wait_ns: 50 * MS, rate_bps: None, latency_ns: 0, ..model() };
        let times = [999, 1_000, 1_001, 2_000, 2_001].map(|bytes| model.flow_ns(bytes) / MS);
        assert_eq!(times, [0, 0, 50, 0, 50]);
    }

    #[test]
    fn slow_start_ends_at_the_window_or_at_the_rate_of_the_link() {
        let slow_start = Model { rate_bps: None, window_bytes: None, latency_ns: 0, ..model() };
        let waits = |model: &Model, bytes: u64| model.flow_ns(bytes) / (100 * MS);
        let bytes = [10_000, 10_001, 30_000, 30_001, 70_000, 70_001, 150_000, 150_001];
        assert_eq!(bytes.map(|bytes| waits(&slow_start, bytes)), [0, 1, 1, 2, 2, 3, 3, 4]);
        let windows = Model { window_bytes: Some(20_000), ..slow_start };
        let bytes = [10_000, 30_000, 30_001, 50_000, 50_001, 70_001];
        assert_eq!(bytes.map(|bytes| waits(&windows, bytes)), [0, 1, 2, 2, 3, 4]);
        // A window of 10,000 bytes takes a round trip on the link, so no round trip is lost.
        let on_link = |rate_bps| Model { rate_bps: Some(rate_bps), ..slow_start };
        assert_eq!(on_link(800_000).flow_ns(100_000), 1_000 * MS);
        assert_eq!(on_link(800_001).flow_ns(10_000), 99_999_875);
        assert_eq!(on_link(800_001).flow_ns(100_000), 100 * MS + 899_998_875);
    }

    #[test]
    fn an_echo_during_output_takes_a_window_on_the_link_or_the_idle_time() {
        let with = |window: u64| {
            let model = Model { window_bytes: Some(window), rate_bps: Some(800_000), ..model() };
            model.echo_under_load_ns()
        };
        assert_eq!([10_000, 20_000].map(with), [Some(101 * MS), Some(200 * MS)]);
        let measured = Model { loaded_echo_ns: Some(7), ..model() };
        assert_eq!(measured.echo_under_load_ns(), Some(7));
    }

    #[test]
    fn the_range_of_a_flow_includes_its_margin() {
        let range = |elapsed_ns: u64| {
            let flows = probe(&[(20_000, elapsed_ns)]).transfers;
            model().range_ns(&flows, 10_000).unwrap()
        };
        // Predicted: 110 ms, and 210 ms for the flow of the probe; the margin is 3.2 ms.
        assert_eq!(model().flow_ns(20_000), 210 * MS);
        assert_eq!(range(210 * MS), [106_800_000, 113_200_000]);
        assert_eq!(range(252 * MS), [106_800_000, 155_200_000]);
        assert_eq!(range(105 * MS), [1_800_000, 113_200_000]);
        assert_eq!(range(0), [0, 113_200_000]);
        // A flow whose predicted time is 0 counts as one of a nanosecond.
        let instant = Model { latency_ns: 0, rate_bps: None, ..model() };
        let flows = probe(&[(10_000, 50 * MS)]).transfers;
        assert_eq!(instant.range_ns(&flows, 10_000), Some([0, 51 * MS - 1]));
    }

    #[test]
    fn the_range_of_echoes_has_the_deciles_of_the_full_queue() {
        let range =
            |samples_ns: Vec<u64>| echo_range_ns(&Echoes { samples_ns, ..Echoes::default() });
        let ms = |ms: std::ops::RangeInclusive<u64>| ms.map(|ms| ms * MS).collect::<Vec<_>>();
        // The second half of 20 is 11 to 20 ms; the margin is 2 % and 1 ms.
        assert_eq!(range(ms(1..=20)), Some([9_780_000, 20_380_000]));
        assert_eq!(range(ms(1..=8)), Some([3_900_000, 9_160_000]));
        assert_eq!(range(vec![40 * MS; 7]), Some([30 * MS - 1_600_000, 60 * MS + 2_200_000]));
    }

    #[test]
    fn a_flow_of_unknown_time_does_not_exclude_a_window() {
        // Windows of 20 packets in each round trip of 100 ms, at 8 Mbit/s.
        let window = |elapsed_ns: u64| {
            let arrival =
                |at: u64| Arrival { at_ns: (100 + at / 20 * 100 + at % 20) * MS, bytes: 1_000 };
            let mut observed = probe(&[(120_000, elapsed_ns)]);
            observed.transfers[0].arrivals = (0..120).map(arrival).collect();
            Model::of(&observed).unwrap().window_bytes
        };
        assert_eq!([0, 619 * MS].map(window), [Some(20_000); 2]);
        // A flow of a nanosecond proves that there is no such window.
        assert_eq!(window(1), None);
    }

    #[test]
    fn in_lock_step_both_size_and_time_grow() {
        let model = |short, long| Model::in_lock_step(short, long).map(|one| one.rate_bps);
        assert_eq!(model((1_000, 10 * MS), (2_000, 11 * MS)), Some(Some(8_000_000)));
        assert_eq!(model((0, 0), (1_000_000_000, 1)), Some(Some(8_000_000_000_000_000_000)));
        assert_eq!(model((1_000, 10 * MS), (1_000, 11 * MS)), None);
        assert_eq!(model((2_000, 10 * MS), (1_000, 11 * MS)), None);
        assert_eq!(model((1_000, 11 * MS), (2_000, 10 * MS)), None);
        assert_eq!(Model::of(&probe(&[(1_000, 100 * MS)])).unwrap().rate_bps, None);
    }

    #[test]
    fn the_latency_is_that_of_flows_within_the_first_flight() {
        let flows = probe(&[(10_000, 130 * MS), (10_001, 900 * MS), (5_000, 0)]).transfers;
        let flows: Vec<&Flow> = flows.iter().collect();
        // 10,000 bytes take 10 ms on the link.
        assert_eq!(model().latencies(&flows), [120 * MS]);
        let small_window = Model { window_bytes: Some(9_999), ..model() };
        assert_eq!(small_window.latencies(&flows), [0; 0]);
        assert_eq!(small_window.latency_of(&flows), None);
    }

    proptest! {
        #[test]
        fn no_probe_causes_a_panic(
            flows in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..8),
            bytes: u64,
            trip_ns: u64,
        ) {
            let mut probe = probe(&flows);
            probe.path.min_rtt_ns = Some(trip_ns);
            if let Some(model) = Model::of(&probe) {
                _ = (model.flow_ns(bytes), model.echo_under_load_ns());
            }
        }

        #[test]
        fn more_bytes_never_take_less_time(
            one in 0..1_u64 << 40, other in 0..1_u64 << 40, trip_ms in 0..1_000_u64,
            rate_bps in 300..1_u64 << 40, window in 500..1_u64 << 24,
        ) {
            let trip_ns = trip_ms * MS;
            let window_bytes = Some(window);
            let model = Model { trip_ns, rate_bps: Some(rate_bps), window_bytes, ..model() };
            prop_assert!(model.flow_ns(one.min(other)) <= model.flow_ns(one.max(other)));
        }
    }
}
