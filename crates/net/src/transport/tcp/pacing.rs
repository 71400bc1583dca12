//! Pacing: data is not sent in bursts, but evenly at a rate of about one window per round trip.
//!
//! In slow start the rate is two windows per round trip, so that the window can double. Afterwards
//! it is 1.2 windows per round trip, so that pacing does not limit the sender more than the window
//! does. Short paths are not paced: the timer would cost more than the burst.

use crate::time::{Duration, Instant};

/// Minimum round-trip time of a path on which data is paced.
pub(super) const MIN_RTT: Duration = Duration::from_millis(1);
/// Duration of the data that is sent together, at the pacing rate.
const QUANTUM: Duration = Duration::from_millis(1);
/// Maximum number of bytes that are sent together: the length of a super-segment.
const QUANTUM_MAX_BYTES: u64 = 65_536;

/// The pacing state of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacing {
    bytes_per_s: Option<u64>,
    /// Time at which a continuous transmission at the pacing rate would have sent all data so far.
    free_at: Instant,
}

impl Pacing {
    /// Sets the rate for a window of `cwnd` bytes per round trip.
    pub(super) fn set_from_window(
        &mut self,
        cwnd: u32,
        srtt: Option<Duration>,
        is_slow_start: bool,
    ) {
        let Some(srtt) = srtt.filter(|srtt| *srtt >= MIN_RTT) else {
            self.bytes_per_s = None;
            return;
        };
        let tenths = if is_slow_start { 20 } else { 12 };
        let micros = u64::try_from(srtt.as_micros()).unwrap_or(u64::MAX);
        self.set(u64::from(cwnd) * tenths * 100_000 / micros);
    }

    /// Sets the rate.
    pub(super) fn set(&mut self, bytes_per_s: u64) {
        self.bytes_per_s = Some(bytes_per_s.max(1));
    }

    /// Returns the rate, if there is one.
    pub(super) fn rate(&self) -> Option<u64> {
        self.bytes_per_s
    }

    /// Returns when the next data may be sent, or `None` if it may be sent now.
    pub(super) fn next_at(&self, now: Instant) -> Option<Instant> {
        self.bytes_per_s.map(|_| self.free_at).filter(|at| *at > now)
    }

    /// Returns the number of bytes that may be sent together: at least two segments.
    pub(super) fn quantum(&self, mss: u32) -> u64 {
        let Some(rate) = self.bytes_per_s else { return u64::MAX };
        let bytes = rate / 1000 * u64::try_from(QUANTUM.as_millis()).unwrap_or(1);
        bytes.min(QUANTUM_MAX_BYTES).max(2 * u64::from(mss))
    }

    /// Records that `len` bytes were sent.
    pub(super) fn sent(&mut self, len: u32, mss: u32, now: Instant) {
        let Some(rate) = self.bytes_per_s else { return };
        let time =
            |bytes: u64| Duration::from_nanos(bytes.saturating_mul(1_000_000_000).div_ceil(rate));
        // Unused sending time is kept, up to the time of one quantum.
        let credit = time(self.quantum(mss));
        let earliest = Instant::from_nanos(
            now.as_nanos().saturating_sub(u64::try_from(credit.as_nanos()).unwrap_or(0)),
        );
        self.free_at = self.free_at.max(earliest) + time(u64::from(len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u32 = 1000;
    const RTT: Duration = Duration::from_millis(100);

    /// Sends segments whenever pacing allows, and returns the number of bytes sent in `time`.
    fn run(pacing: &mut Pacing, time: Duration) -> u64 {
        let start = Instant::from_nanos(5_000_000_000);
        let mut now = start;
        let mut bytes = 0;
        while now < start + time {
            pacing.sent(MSS, MSS, now);
            bytes += u64::from(MSS);
            now = pacing.next_at(now).unwrap_or(now);
        }
        bytes
    }

    #[test]
    fn a_window_leaves_in_half_a_round_trip_in_slow_start_and_in_five_sixths_after_it() {
        for (is_slow_start, rate) in [(true, 2_000_000), (false, 1_200_000)] {
            let mut pacing = Pacing::default();
            pacing.set_from_window(100_000, Some(RTT), is_slow_start);
            assert_eq!(pacing.rate(), Some(rate));
        }
    }

    #[test]
    fn short_paths_and_paths_not_yet_measured_are_not_paced() {
        let mut pacing = Pacing::default();
        pacing.set_from_window(100_000, Some(Duration::from_micros(999)), true);
        assert_eq!((pacing.rate(), pacing.quantum(MSS)), (None, u64::MAX));
        pacing.set_from_window(100_000, None, true);
        pacing.sent(60_000, MSS, Instant::ZERO);
        assert_eq!(pacing.next_at(Instant::ZERO), None);
    }

    proptest! {
        #[test]
        fn the_output_is_the_rate_and_one_quantum(rate in 10_000..1_000_000_000_u64) {
            let mut pacing = Pacing::default();
            pacing.set(rate);
            let sent = run(&mut pacing, Duration::from_millis(500));
            let quantum = pacing.quantum(MSS);
            prop_assert!(sent + rate / 100 + u64::from(MSS) >= rate / 2, "{sent}");
            prop_assert!(sent <= rate / 2 + quantum + 2 * u64::from(MSS), "{sent}");
        }
    }

    #[test]
    fn a_quantum_is_the_data_of_a_millisecond_within_its_limits() {
        let quantum = |rate| {
            let pacing = Pacing { bytes_per_s: Some(rate), free_at: Instant::ZERO };
            pacing.quantum(MSS)
        };
        let quanta = [1000, 10_000_000, 1_000_000_000].map(quantum);
        assert_eq!(quanta, [2 * u64::from(MSS), 10_000, QUANTUM_MAX_BYTES]);
    }
}
