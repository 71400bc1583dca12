//! Due times of the events of a recording.

use net::time::{Duration, Instant};

/// Minimum and maximum speed.
const SPEED_RANGE: std::ops::RangeInclusive<f64> = 0.01..=1000.0;

/// Maximum idle limit that the user can specify, in seconds: a day.
const IDLE_LIMIT_MAX_S: f64 = 86_400.0;

/// Timing of a replay.
#[derive(Debug)]
pub(super) struct ReplayTiming {
    speed: f64,
    idle_limit_s: Option<f64>,
    /// Recorded time of the last event, in seconds.
    last_s: f64,
    /// Recorded time left until the next event, in seconds.
    remaining_s: f64,
    /// Time of the last update of `remaining_s`.
    updated_at: Instant,
    is_paused: bool,
}

impl ReplayTiming {
    pub(super) fn new(speed: f64, idle_limit_s: Option<f64>) -> Self {
        let last_s = 0.0;
        let remaining_s = 0.0;
        let updated_at = Instant::ZERO;
        Self { speed, idle_limit_s, last_s, remaining_s, updated_at, is_paused: false }
    }

    /// Starts to wait for the event recorded `at_s` seconds after the start.
    pub(super) fn set_next_event(&mut self, at_s: f64, now: Instant) {
        let wait_s = (at_s - self.last_s).max(0.0);
        self.remaining_s = self.idle_limit_s.map_or(wait_s, |limit| wait_s.min(limit));
        self.last_s = at_s.max(self.last_s);
        self.updated_at = now;
    }

    /// Returns the due time of the event, or `None` during a pause.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.is_paused).then(|| self.updated_at + seconds(self.remaining_s / self.speed))
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(super) fn toggle_pause(&mut self, now: Instant) {
        self.subtract_elapsed(now);
        self.is_paused = !self.is_paused;
    }

    pub(super) fn change_speed(&mut self, factor: f64, now: Instant) {
        self.subtract_elapsed(now);
        self.speed = (self.speed * factor).clamp(*SPEED_RANGE.start(), *SPEED_RANGE.end());
    }

    /// Makes the next event due at once.
    pub(super) fn step(&mut self) {
        self.remaining_s = 0.0;
    }

    /// Subtracts the time that has elapsed since the last update.
    fn subtract_elapsed(&mut self, now: Instant) {
        if !self.is_paused {
            self.remaining_s =
                (self.remaining_s - (now - self.updated_at).as_secs_f64() * self.speed).max(0.0);
        }
        self.updated_at = now;
    }
}

fn seconds(seconds: f64) -> Duration {
    // Longer waits are limited to a year, so that the conversion cannot panic.
    Duration::from_secs_f64(seconds.clamp(0.0, 365.0 * IDLE_LIMIT_MAX_S))
}

/// Parses a speed.
///
/// # Errors
///
/// Returns an error if `text` is not a number from 0.01 to 1000.
pub(super) fn parse_speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed| SPEED_RANGE.contains(speed));
    speed.ok_or_else(|| "use a number from 0.01 to 1000".to_owned())
}

/// Parses a number of seconds.
///
/// # Errors
///
/// Returns an error if `text` is not a number from 0 to 86400, a day.
pub(super) fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=IDLE_LIMIT_MAX_S).contains(seconds));
    seconds.ok_or_else(|| "use a number from 0 to 86400".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn twice_the_speed_halves_the_wait_and_the_idle_limit_bounds_it() {
        let mut pace = ReplayTiming::new(2.0, Some(3.0));
        pace.set_next_event(1.0, at(0));
        assert_eq!(pace.due(), Some(at(500)));
        pace.set_next_event(100.0, at(500));
        assert_eq!(pace.due(), Some(at(2_000)));
    }

    #[test]
    fn a_paused_event_is_not_due_and_resumes_with_the_remaining_wait() {
        let mut pace = ReplayTiming::new(1.0, None);
        pace.set_next_event(1.0, at(0));
        pace.toggle_pause(at(400));
        assert_eq!(pace.due(), None);
        pace.toggle_pause(at(5_000));
        assert_eq!(pace.due(), Some(at(5_600)));
    }

    #[test]
    fn a_change_of_speed_scales_the_remaining_wait() {
        let mut pace = ReplayTiming::new(1.0, None);
        pace.set_next_event(1.0, at(0));
        pace.change_speed(2.0, at(500));
        assert_eq!(pace.due(), Some(at(750)));
    }

    #[test]
    fn an_event_before_the_previous_one_is_due_at_once() {
        let mut pace = ReplayTiming::new(1.0, None);
        pace.set_next_event(5.0, at(0));
        pace.set_next_event(1.0, at(10));
        assert_eq!(pace.due(), Some(at(10)));
    }

    #[test]
    fn an_invalid_speed_is_rejected() {
        for text in ["0", "-1", "inf", "NaN", "fast", "1e9"] {
            assert!(parse_speed(text).is_err(), "{text}");
        }
        assert!(parse_seconds("-1").is_err() && parse_seconds("NaN").is_err());
    }
}
