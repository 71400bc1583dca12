//! The smoothed echo time, and the thresholds derived from it.

use net::time::{Duration, Instant};

/// The round trip assumed before the first measurement (RFC 6298 §2.1).
const INITIAL_ROUND_TRIP: Duration = Duration::from_secs(1);
/// Minimum grace period after the expected echo time, for the processing time on the host (our
/// choice).
const GRACE_MIN: Duration = Duration::from_millis(50);

/// Predictions are displayed once the echo time exceeds the first value, until it falls to the
/// second value; as in mosh.
const DISPLAY_THRESHOLDS: (Duration, Duration) =
    (Duration::from_millis(30), Duration::from_millis(20));
/// Unconfirmed predictions are underlined once the echo time exceeds the first value, until it
/// falls to the second value.
const UNDERLINE_THRESHOLDS: (Duration, Duration) =
    (Duration::from_millis(80), Duration::from_millis(50));

/// The smoothed time from a key to its echo.
#[derive(Debug, Default)]
pub(super) struct RoundTrip {
    smoothed: Option<Duration>,
    variation: Duration,
    /// Whether the last echo arrived in less than half the smoothed time.
    was_early: bool,
    /// Whether the echo time is long enough to display predictions.
    pub(super) is_long: bool,
    /// Whether the echo time is long enough to underline unconfirmed predictions.
    pub(super) is_very_long: bool,
}

impl RoundTrip {
    /// Records an echo that arrived in less than half the smoothed time. Returns whether the echo
    /// before it was early too: the path has then become faster, and the next measurement restarts
    /// the estimate.
    pub(super) fn record_early_echo(&mut self) -> bool {
        let was_early = core::mem::replace(&mut self.was_early, true);
        if was_early {
            self.smoothed = None;
        }
        was_early
    }

    /// Adds one measured echo time to the estimate (RFC 6298 §2).
    pub(super) fn sample(&mut self, sample: Duration) {
        self.was_early = false;
        let smoothed = match self.smoothed {
            None => {
                // Smaller than in RFC 6298 (our choice): if the first echo takes 100 ms, an echo is
                // late 50 ms after its expected time.
                self.variation = sample / 8;
                sample
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(sample)) / 4;
                (smoothed * 7 + sample) / 8
            }
        };
        self.smoothed = Some(smoothed);
        self.is_long = exceeds(self.is_long, smoothed, DISPLAY_THRESHOLDS);
        self.is_very_long = exceeds(self.is_very_long, smoothed, UNDERLINE_THRESHOLDS);
    }

    /// Returns the smoothed echo time, or `None` before the first measurement.
    pub(super) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Returns whether an echo by `now` is plausible: at least half the smoothed time has elapsed.
    pub(super) fn may_have_arrived(&self, typed_at: Instant, now: Instant) -> bool {
        self.smoothed.is_none_or(|smoothed| now - typed_at >= smoothed / 2)
    }

    /// Returns the expected time of the echo of a key.
    pub(super) fn expected_at(&self, typed_at: Instant) -> Instant {
        typed_at + self.smoothed.unwrap_or(INITIAL_ROUND_TRIP)
    }

    /// Returns the time after which the echo is late: the expected time plus a grace period of 50
    /// ms or four times the variation, whichever is longer.
    pub(super) fn late_at(&self, typed_at: Instant) -> Instant {
        self.expected_at(typed_at) + GRACE_MIN.max(self.variation * 4)
    }
}

fn exceeds(has_passed: bool, value: Duration, (above, below): (Duration, Duration)) -> bool {
    if has_passed { value > below } else { value > above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_are_displayed_above_30_ms_until_20() {
        let mut round_trip = RoundTrip::default();
        round_trip.sample(Duration::from_millis(29));
        assert!(!round_trip.is_long);
        (0..40).for_each(|_| round_trip.sample(Duration::from_millis(32)));
        assert!(round_trip.is_long && !round_trip.is_very_long);
        (0..40).for_each(|_| round_trip.sample(Duration::from_millis(22)));
        assert!(round_trip.is_long);
        (0..40).for_each(|_| round_trip.sample(Duration::from_millis(19)));
        assert!(!round_trip.is_long);
    }

    #[test]
    fn the_variation_moves_by_a_quarter_of_the_deviation() {
        let mut round_trip = RoundTrip::default();
        round_trip.sample(Duration::from_millis(80));
        round_trip.sample(Duration::from_millis(160));
        // The variation is (10 ms * 3 + 80 ms) / 4, and the smoothed time 90 ms.
        let delay_until_late = round_trip.late_at(Instant::ZERO) - Instant::ZERO;
        assert_eq!(delay_until_late, Duration::from_micros(90_000 + 4 * 27_500));
    }

    #[test]
    fn an_echo_is_late_50_ms_after_the_usual_time() {
        let mut round_trip = RoundTrip::default();
        (0..100).for_each(|_| round_trip.sample(Duration::from_millis(100)));
        let delay_until_late = round_trip.late_at(Instant::ZERO) - Instant::ZERO;
        assert_eq!(delay_until_late.as_millis(), 150);
    }
}
