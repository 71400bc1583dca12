//! Progress of a measurement, as one line of text.

use net::time::Duration;

/// The progress line. Its text is set during the measurement and displayed later, so that the
/// output does not disturb the measurement.
#[derive(Debug, Default)]
pub struct ProgressLine {
    /// Displays the text instead of the previous one; an empty text erases the line.
    display: Option<fn(&str)>,
    text: String,
    painted_text: String,
    /// Remaining time when the latest count was displayed.
    shown_remaining: Option<Duration>,
    /// Receives a long wait, if there is no display.
    report: Option<fn(&str)>,
}

/// A wait is reported after this time, if there is no display.
const WAIT_REPORTED_AFTER: Duration = Duration::from_secs(3);
/// Interval at which the remaining time of a wait is displayed.
const WAIT_STEP: Duration = Duration::from_secs(1);

/// A remaining time is displayed from this time on.
const REMAINING_MIN: Duration = Duration::from_secs(2);
/// A count is also displayed when the remaining time has decreased by this time.
const REMAINING_STEP: Duration = Duration::from_secs(1);
/// A count is displayed at each multiple of this number.
const COUNT_STEP: usize = 20;

impl ProgressLine {
    /// Creates a line whose text is displayed by `display`, where an empty text erases the line.
    /// `None` disables the line.
    pub fn new(display: Option<fn(&str)>) -> Self {
        Self { display, ..Self::default() }
    }

    /// Makes a line without a display pass a long wait to `report`, once.
    #[must_use]
    pub(crate) fn with_report(self, report: Option<fn(&str)>) -> Self {
        Self { report: report.filter(|_| self.display.is_none()), ..self }
    }

    /// Displays a wait that has taken `elapsed` of `limit`. Returns the time until the next call, or
    /// `None` if no further call is needed.
    pub(crate) fn show_wait(
        &mut self,
        what: &str,
        elapsed: Duration,
        limit: Duration,
    ) -> Option<Duration> {
        let remaining = limit.saturating_sub(elapsed);
        let text = || format!("{what}, {} left", rounded(remaining));
        if self.display.is_some() {
            self.text = text();
            return Some(WAIT_STEP).filter(|step| remaining > *step);
        }
        let report = self.report?;
        if elapsed < WAIT_REPORTED_AFTER {
            return Some(WAIT_REPORTED_AFTER - elapsed).filter(|wait| *wait < remaining);
        }
        self.report = None;
        report(&text());
        None
    }

    /// Sets the text of the line.
    pub fn show(&mut self, text: &str) {
        if self.display.is_some() {
            text.clone_into(&mut self.text);
        }
    }

    /// Displays a text at once. A timed part of a measurement must not be in progress.
    pub(crate) fn announce(&mut self, text: &str) {
        self.show(text);
        self.paint();
    }

    /// Sets the text to a count with the `remaining` time, if `done` is a multiple of
    /// [`COUNT_STEP`] or the remaining time has decreased.
    pub(crate) fn show_count(
        &mut self,
        what: &str,
        [done, all]: [usize; 2],
        remaining: Option<Duration>,
    ) {
        let is_later = match (self.shown_remaining, remaining) {
            (Some(shown), Some(now)) => now + REMAINING_STEP <= shown,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        if self.display.is_none() || !(done.is_multiple_of(COUNT_STEP) || is_later) {
            return;
        }
        self.shown_remaining = remaining;
        let left = remaining.filter(|left| *left >= REMAINING_MIN);
        let left = left.map_or_else(String::new, |left| format!(", about {} left", rounded(left)));
        self.text = format!("{what} {done} of {all}{left}");
    }

    /// Displays the text if it has changed.
    pub fn paint(&mut self) {
        if self.text != self.painted_text {
            self.text.clone_into(&mut self.painted_text);
            self.display_painted_text();
        }
    }

    /// Erases the line.
    pub fn clear(&mut self) {
        if !self.painted_text.is_empty() {
            self.painted_text.clear();
            self.text.clear();
            self.display_painted_text();
        }
    }

    fn display_painted_text(&self) {
        if let Some(display) = self.display {
            display(&self.painted_text);
        }
    }
}

/// Returns a time in whole seconds.
fn rounded(time: Duration) -> String {
    let seconds = time.as_millis().div_ceil(1_000);
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds:02} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    thread_local! {
        static DISPLAYED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    fn display(text: &str) {
        DISPLAYED.with_borrow_mut(|texts| texts.push(text.to_owned()));
    }

    fn displayed() -> Vec<String> {
        DISPLAYED.take()
    }

    #[test]
    fn a_text_is_displayed_when_the_line_is_painted_and_only_once() {
        let mut line = ProgressLine::new(Some(display));
        line.show("logging in");
        assert!(displayed().is_empty());
        line.paint();
        line.paint();
        assert_eq!(displayed(), ["logging in"]);
    }

    #[test]
    fn the_remaining_time_of_a_wait_is_displayed_every_second() {
        let mut line = ProgressLine::new(Some(display));
        let [second, limit] = [1, 3].map(Duration::from_secs);
        for elapsed in 0..3 {
            let next = line.show_wait("waiting", Duration::from_secs(elapsed), limit);
            assert_eq!(next, (elapsed < 2).then_some(second));
            line.paint();
        }
        assert_eq!(displayed(), ["waiting, 3 s left", "waiting, 2 s left", "waiting, 1 s left"]);
    }

    #[test]
    fn without_a_display_a_long_wait_is_reported_once() {
        let mut line = ProgressLine::new(None).with_report(Some(display));
        let [second, limit] = [1, 30].map(Duration::from_secs);
        assert_eq!(line.show_wait("waiting", second, limit), Some(2 * second));
        assert!(displayed().is_empty());
        assert_eq!(line.show_wait("waiting", 3 * second, limit), None);
        assert_eq!(line.show_wait("waiting", 4 * second, limit), None);
        assert_eq!(displayed(), ["waiting, 27 s left"]);
        let mut short = ProgressLine::new(None).with_report(Some(display));
        assert_eq!(short.show_wait("waiting", second, 2 * second), None);
    }

    #[test]
    fn a_cleared_line_is_displayed_as_an_empty_text() {
        let mut line = ProgressLine::new(Some(display));
        line.show("logging in");
        line.paint();
        line.clear();
        line.clear();
        assert_eq!(displayed(), ["logging in", ""]);
    }

    #[test]
    fn a_count_is_displayed_at_each_twentieth() {
        let mut line = ProgressLine::new(Some(display));
        for done in 1..=40 {
            line.show_count("echo", [done, 40], None);
            line.paint();
        }
        assert_eq!(displayed(), ["echo 20 of 40", "echo 40 of 40"]);
    }

    #[test]
    fn on_a_slow_path_the_remaining_time_is_displayed_every_second() {
        let mut line = ProgressLine::new(Some(display));
        for (done, left_ms) in [(1, 78_000), (2, 77_500), (3, 76_900), (4, 1_500)] {
            line.show_count("echo", [done, 200], Some(Duration::from_millis(left_ms)));
            line.paint();
        }
        let expected =
            ["echo 1 of 200, about 1 min 18 s left", "echo 3 of 200, about 1 min 17 s left"];
        assert_eq!(displayed(), [&expected[..], &["echo 4 of 200"]].concat());
    }
}
