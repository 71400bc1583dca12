//! How long an echo takes, and what follows from that.

use crate::time::{Duration, Instant};

/// The round trip assumed before one is known (RFC 6298 §2.1).
const INITIAL: Duration = Duration::from_secs(1);
/// Ours: what the far side itself may take for an echo.
const GRACE_MIN: Duration = Duration::from_millis(50);

/// Above this, and until it is down to the second, predictions are shown; as in mosh.
const SHOWN: (Duration, Duration) = (Duration::from_millis(30), Duration::from_millis(20));
/// The same for the underlining of what is not confirmed.
const MARKED: (Duration, Duration) = (Duration::from_millis(80), Duration::from_millis(50));

/// The smoothed time from a key to its echo.
#[derive(Debug, Default)]
pub(super) struct RoundTrip {
    smoothed: Option<Duration>,
    variation: Duration,
    /// The last echo came in less than half the usual time.
    was_early: bool,
    /// It is worth showing predictions.
    pub(super) is_long: bool,
    /// It is worth telling them from what is confirmed.
    pub(super) is_very_long: bool,
}

impl RoundTrip {
    /// Takes note of an echo in less than half the usual time. Returns whether it is the second one
    /// in a row: the path has changed, and the next measurement is the first of another one.
    pub(super) fn is_early_again(&mut self) -> bool {
        let is_again = core::mem::replace(&mut self.was_early, true);
        if is_again {
            self.smoothed = None;
        }
        is_again
    }

    /// Takes one measurement (RFC 6298 §2).
    pub(super) fn sample(&mut self, sample: Duration) {
        self.was_early = false;
        let smoothed = match self.smoothed {
            None => {
                // Ours, less than there: an echo is late by SRTT and 50 ms at 100 ms.
                self.variation = sample / 8;
                sample
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(sample)) / 4;
                (smoothed * 7 + sample) / 8
            }
        };
        self.smoothed = Some(smoothed);
        self.is_long = passes(self.is_long, smoothed, SHOWN);
        self.is_very_long = passes(self.is_very_long, smoothed, MARKED);
    }

    /// Returns the smoothed round trip, if there is one.
    pub(super) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Returns whether an echo may have come by `now`: none comes in half the usual time.
    pub(super) fn may_have_come(&self, typed_at: Instant, now: Instant) -> bool {
        self.smoothed.is_none_or(|smoothed| now - typed_at >= smoothed / 2)
    }

    /// Returns when the echo of a key is expected.
    pub(super) fn due(&self, typed_at: Instant) -> Instant {
        typed_at + self.smoothed.unwrap_or(INITIAL)
    }

    /// Returns when it is late: what is usual and 50 ms, or more where the time varies by more.
    pub(super) fn overdue(&self, typed_at: Instant) -> Instant {
        self.due(typed_at) + GRACE_MIN.max(self.variation * 4)
    }
}

fn passes(has_passed: bool, value: Duration, (above, below): (Duration, Duration)) -> bool {
    if has_passed { value > below } else { value > above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_are_worth_it_above_30_ms_and_until_20() {
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
    fn an_echo_is_late_50_ms_after_the_usual_time() {
        let mut round_trip = RoundTrip::default();
        (0..100).for_each(|_| round_trip.sample(Duration::from_millis(100)));
        let late = round_trip.overdue(Instant::ZERO) - Instant::ZERO;
        assert_eq!(late.as_millis(), 150);
    }
}
