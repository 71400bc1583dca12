//! Progress of a transfer: a bar if stderr is a terminal, and otherwise a line at intervals.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use records::format::{count, duration};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Interval between two progress lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Minimum width of a terminal for a bar.
const BAR_MIN_COLUMNS: u16 = 60;

/// Progress display.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    display: Display,
    began: Instant,
}

#[derive(Clone, Debug)]
enum Display {
    Quiet,
    Bar(ProgressBar),
    Lines { next: Instant },
}

impl Progress {
    /// Creates a display. A display with `is_quiet` shows nothing.
    pub(super) fn new(is_quiet: bool) -> Self {
        let began = Instant::now();
        let display = match std::io::stderr().is_terminal() {
            _ if is_quiet => Display::Quiet,
            true => Display::Bar(bar()),
            false => Display::Lines { next: began + LINE_INTERVAL },
        };
        Self { display, began }
    }

    /// Displays the number of transferred bytes and, if known, the total size.
    pub(super) fn show(&mut self, bytes: u64, size: Option<u64>) {
        match &mut self.display {
            Display::Quiet => {}
            Display::Bar(bar) => {
                if let (None, Some(size)) = (bar.length(), size) {
                    bar.set_length(size);
                    bar.set_style(style(true));
                }
                bar.set_position(bytes);
            }
            Display::Lines { next } => {
                let now = Instant::now();
                // Before the first byte, other messages report the state of the connection.
                if now >= *next && bytes > 0 {
                    *next = now + LINE_INTERVAL;
                    print_message(&line(bytes, size, now - self.began));
                }
            }
        }
    }

    /// Removes the bar.
    pub(super) fn end(&self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.with_style(style(false))
}

/// Returns the style of a bar for the width of the terminal, with or without a known file size.
fn style(is_size_known: bool) -> ProgressStyle {
    let columns = os::tty::WindowSize::of(std::io::stderr()).map_or(80, |size| size.columns);
    let template = match (is_size_known, columns >= BAR_MIN_COLUMNS) {
        (true, true) => {
            "{percent:>3}% [{wide_bar}] {decimal_bytes} of {decimal_total_bytes}, \
             {decimal_bytes_per_sec}, {eta} left"
        }
        (true, false) => "{percent:>3}% {decimal_bytes_per_sec}, {eta} left",
        (false, true) => "{spinner} {decimal_bytes}, {decimal_bytes_per_sec}, {elapsed}",
        (false, false) => "{spinner} {decimal_bytes}, {decimal_bytes_per_sec}",
    };
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

fn line(bytes: u64, size: Option<u64>, elapsed: Duration) -> String {
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = bytes.saturating_mul(1000) / millis;
    let total_text = size.map(|size| format!(" of {}", count(size))).unwrap_or_default();
    let remaining_bytes = size.map(|size| size.saturating_sub(bytes)).filter(|_| rate > 0);
    let remaining_text = remaining_bytes.map(|bytes| {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        format!(", {} left", duration(u64::try_from(nanos).unwrap_or(u64::MAX)))
    });
    format!(
        "{}{total_text} bytes, {} bytes/s{}",
        count(bytes),
        count(rate),
        remaining_text.unwrap_or_default()
    )
}

/// Prints a message to stderr.
pub(crate) fn print_message(sentence: &str) {
    // A closed stderr is ignored.
    let sentence = records::escape::message(sentence);
    _ = writeln!(std::io::stderr(), "plumb: {sentence}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_progress_rate_and_remaining_time() {
        let text = line(2_000_000, Some(10_000_000), Duration::from_secs(2));
        assert_eq!(text, "2,000,000 of 10,000,000 bytes, 1,000,000 bytes/s, 8.00 s left");
        let text = line(2_000, None, Duration::from_secs(2));
        assert_eq!(text, "2,000 bytes, 1,000 bytes/s");
    }
}
