//! From a short probe: how long a screenful, an echo beside other data, and a transfer will take.
//!
//! The model has five numbers: the round trip, the latency of a first byte, the rate at which bytes
//! come once they do, the window, and what stands in the queue under load. A flow begins with ten
//! segments (RFC 6928) and doubles each round trip until the window or the line is full; from then
//! on it is as fast as the slower of the two.
//!
//! What the model does not know: loss, a token bucket that is still full when the probe ends, a
//! rate that changes. There it misses, and by how much nobody can say before.

use crate::statistics::median;
use crate::verdict::{Flow, Observation};

/// What a short probe has shown of a way and of the host at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Round trip of the network, ns.
    pub trip_ns: u64,
    /// The echo of a key where nothing else comes, ns.
    pub echo_ns: Option<u64>,
    /// From what asks for bytes to the first of them, without its time on the line, ns.
    pub latency_ns: u64,
    /// The rate of data bytes once they come, bit/s; `None` where that is too fast to tell.
    pub rate_bps: Option<u64>,
    /// What may be on its way at once, bytes; `None` where nothing limits it as far as is known.
    pub window_bytes: Option<u64>,
    /// Largest segment, data bytes.
    pub mss_bytes: u64,
    /// The echo of a key in the short loaded flow, when that had filled the queue, ns.
    pub loaded_echo_ns: Option<u64>,
}

/// The least segment that every host takes, where nothing is known.
const DEFAULT_MSS: u64 = 536;
/// RFC 6928.
const INITIAL_SEGMENTS: u64 = 10;

impl Model {
    /// Returns the model of what `probe` has seen: its screenful and its transfers are short ones.
    ///
    /// `None` without a round trip, or without any flow.
    #[must_use]
    pub fn of(probe: &Observation) -> Option<Self> {
        let path = &probe.path;
        let trips = [path.min_rtt_ns, path.rtt_ns, probe.steps.connect_ns];
        let trip_ns = trips.into_iter().flatten().min()?;
        let flows: Vec<&Flow> = probe.screenful.iter().chain(&probe.transfers).collect();
        let longest = flows.iter().max_by_key(|flow| flow.bytes)?;
        let rate_bps = crate::verdict::burst_rate_bps(&longest.arrivals);
        let latencies: Vec<u64> = flows
            .iter()
            .filter_map(|flow| flow.arrivals.first())
            .map(|first| {
                // The first bytes were on the line, too.
                let line_ns =
                    rate_bps.map_or(0, |rate| crate::verdict::serial_ns(first.bytes, rate));
                first.at_ns.saturating_sub(line_ns)
            })
            .collect();
        let latency_ns = median(&latencies)?;
        let loaded_echo_ns = probe.echo_under_load.as_ref().and_then(|echo| {
            // The first keys come before the queue has filled.
            let settled = echo.samples_ns.get(echo.samples_ns.len() / 2..)?;
            median(settled)
        });
        Some(Self {
            trip_ns,
            echo_ns: probe.echo.as_ref().and_then(|echo| median(&echo.samples_ns)),
            latency_ns,
            rate_bps,
            window_bytes: longest.counts.window_bytes,
            mss_bytes: path.mss_bytes.unwrap_or(DEFAULT_MSS).max(1),
            loaded_echo_ns,
        })
    }

    /// Returns how long `bytes` will take from what asks for them to the last one, ns.
    #[must_use]
    pub fn flow_ns(&self, bytes: u64) -> u64 {
        let serial = |count| self.rate_bps.map_or(0, |rate| crate::verdict::serial_ns(count, rate));
        let window = self.window_bytes.unwrap_or(u64::MAX).max(1);
        let mut congestion = self.mss_bytes.saturating_mul(INITIAL_SEGMENTS);
        let (mut left, mut ns) = (bytes, self.latency_ns);
        loop {
            let round = congestion.min(window);
            if left <= round {
                return ns.saturating_add(serial(left));
            }
            let round_ns = serial(round);
            if round_ns >= self.trip_ns {
                // The line is full from now on.
                return ns.saturating_add(serial(left));
            }
            if congestion >= window {
                let rounds = left.div_ceil(window) - 1;
                let last = left - rounds.saturating_mul(window);
                let waits = self.trip_ns.saturating_mul(rounds);
                return ns.saturating_add(waits).saturating_add(serial(last));
            }
            left -= round;
            ns = ns.saturating_add(self.trip_ns);
            congestion = congestion.saturating_mul(2);
        }
    }

    /// Returns how long the echo of a key will take beside a flow that fills the way, ns: as long as
    /// it took in the short one, or else as long as a whole window needs on the line in front of it.
    #[must_use]
    pub fn echo_under_load_ns(&self) -> Option<u64> {
        self.loaded_echo_ns.or_else(|| {
            let ahead = crate::verdict::serial_ns(self.window_bytes?, self.rate_bps?);
            Some(self.echo_ns?.max(ahead))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn model() -> Model {
        Model {
            trip_ns: 100 * MS,
            echo_ns: Some(101 * MS),
            latency_ns: 100 * MS,
            rate_bps: Some(8_000_000),
            window_bytes: Some(64_000),
            mss_bytes: 1_000,
            loaded_echo_ns: None,
        }
    }

    #[test]
    fn what_fits_into_the_first_window_takes_its_time_on_the_line() {
        assert_eq!(model().flow_ns(10_000), 110 * MS);
    }

    #[test]
    fn a_window_that_is_small_for_the_way_costs_a_round_trip_each_time() {
        // 10, 20 and 40 thousand bytes of slow start, then 64,000 each round trip.
        assert_eq!(model().flow_ns(70_000 + 640_000), (100 + 300 + 900 + 64) * MS);
    }

    #[test]
    fn a_line_that_is_full_is_all_that_counts() {
        let model = Model { rate_bps: Some(80_000), ..model() };
        assert_eq!(model.flow_ns(100_000), 10_100 * MS);
    }

    #[test]
    fn a_window_that_fills_the_queue_is_in_front_of_a_key() {
        let model = Model { rate_bps: Some(80_000), window_bytes: Some(2_500), ..model() };
        assert_eq!(model.echo_under_load_ns(), Some(250 * MS));
    }

    #[test]
    fn what_is_not_known_is_not_predicted() {
        let model = Model { window_bytes: None, ..model() };
        assert_eq!(model.echo_under_load_ns(), None);
        assert_eq!(Model::of(&Observation::default()), None);
    }
}
