//! When each event of a recording is due.

use protocols::time::{Duration, Instant};

/// The slowest and the fastest.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.01..=1000.0;

/// The longest wait that can be asked for: a day.
const SECONDS_MAX: f64 = 86_400.0;

/// The pace of a replay.
#[derive(Debug)]
pub(super) struct Pace {
    speed: f64,
    idle_limit_s: Option<f64>,
    /// The recording's time of the last event, in seconds.
    last_s: f64,
    /// How much of the recording's time is left until the next one.
    left_s: f64,
    /// Since when that is waited for.
    since: Instant,
    is_paused: bool,
}

impl Pace {
    pub(super) fn new(speed: f64, idle_limit_s: Option<f64>) -> Self {
        let (last_s, left_s, since) = (0.0, 0.0, Instant::ZERO);
        Self { speed, idle_limit_s, last_s, left_s, since, is_paused: false }
    }

    /// Begins to wait for an event at `at_s` of the recording.
    pub(super) fn expect(&mut self, at_s: f64, now: Instant) {
        let wait_s = (at_s - self.last_s).max(0.0);
        self.left_s = self.idle_limit_s.map_or(wait_s, |limit| wait_s.min(limit));
        self.last_s = at_s.max(self.last_s);
        self.since = now;
    }

    /// Returns when it is due, or `None` while it stands still.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.is_paused).then(|| self.since + seconds(self.left_s / self.speed))
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(super) fn toggle_pause(&mut self, now: Instant) {
        self.take_time(now);
        self.is_paused = !self.is_paused;
    }

    pub(super) fn change_speed(&mut self, factor: f64, now: Instant) {
        self.take_time(now);
        self.speed = (self.speed * factor).clamp(*SPEEDS.start(), *SPEEDS.end());
    }

    /// Shows the next event, whenever it would be due.
    pub(super) fn step(&mut self) {
        self.left_s = 0.0;
    }

    /// Takes off what has been waited.
    fn take_time(&mut self, now: Instant) {
        if !self.is_paused {
            self.left_s = (self.left_s - (now - self.since).as_secs_f64() * self.speed).max(0.0);
        }
        self.since = now;
    }
}

fn seconds(seconds: f64) -> Duration {
    // A year is as good as for ever.
    Duration::from_secs_f64(seconds.clamp(0.0, 365.0 * SECONDS_MAX))
}

/// Reads a speed.
///
/// # Errors
///
/// If it is none from 0.01 to 1000.
pub(super) fn parse_speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed| SPEEDS.contains(speed));
    speed.ok_or_else(|| "it must be a number from 0.01 to 1000".to_owned())
}

/// Reads a number of seconds.
///
/// # Errors
///
/// If it is none from 0 to a day.
pub(super) fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
    seconds.ok_or_else(|| "it must be a number from 0 to 86400".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn twice_as_fast_is_half_the_wait_and_no_wait_is_longer_than_the_limit() {
        let mut pace = Pace::new(2.0, Some(3.0));
        pace.expect(1.0, at(0));
        assert_eq!(pace.due(), Some(at(500)));
        pace.expect(100.0, at(500));
        assert_eq!(pace.due(), Some(at(2_000)));
    }

    #[test]
    fn what_stands_still_is_not_due_and_goes_on_where_it_was() {
        let mut pace = Pace::new(1.0, None);
        pace.expect(1.0, at(0));
        pace.toggle_pause(at(400));
        assert_eq!(pace.due(), None);
        pace.toggle_pause(at(5_000));
        assert_eq!(pace.due(), Some(at(5_600)));
    }

    #[test]
    fn a_change_of_speed_changes_what_is_left_of_the_wait() {
        let mut pace = Pace::new(1.0, None);
        pace.expect(1.0, at(0));
        pace.change_speed(2.0, at(500));
        assert_eq!(pace.due(), Some(at(750)));
    }

    #[test]
    fn an_event_that_lies_before_the_last_one_is_due_at_once() {
        let mut pace = Pace::new(1.0, None);
        pace.expect(5.0, at(0));
        pace.expect(1.0, at(10));
        assert_eq!(pace.due(), Some(at(10)));
    }

    #[test]
    fn what_is_no_speed_is_refused() {
        for text in ["0", "-1", "inf", "NaN", "fast", "1e9"] {
            assert!(parse_speed(text).is_err(), "{text}");
        }
        assert!(parse_seconds("-1").is_err() && parse_seconds("NaN").is_err());
    }
}
