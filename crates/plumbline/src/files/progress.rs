//! Progress of a transfer: a bar if stderr is a terminal, and otherwise a line at intervals.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use records::format::{byte_rate, duration, size};
use records::severity::Severity;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Interval between two progress lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Minimum width of a terminal for a bar.
const BAR_MIN_COLUMNS: u16 = 60;

/// Maximum length of file names in a line.
const NAMES_MAX: usize = 60;

/// Progress display.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    display: Display,
    began: Instant,
    /// Whether the bar has a line with file names.
    is_batch: bool,
}

#[derive(Clone, Debug)]
enum Display {
    Quiet,
    Bar(ProgressBar),
    Lines { next: Instant },
}

impl Progress {
    /// Creates a display. A display with `is_quiet` shows nothing. The bar of several files has a
    /// line with the names of those in transfer.
    pub(super) fn new(is_quiet: bool, is_batch: bool) -> Self {
        let began = Instant::now();
        let display = match std::io::stderr().is_terminal() {
            _ if is_quiet => Display::Quiet,
            true => Display::Bar(bar(is_batch)),
            false => Display::Lines { next: began + LINE_INTERVAL },
        };
        Self { display, began, is_batch }
    }

    /// Displays the number of transferred bytes and, if known, the total size. `names` returns the
    /// files in transfer as a text of at most so many characters.
    pub(super) fn show(&mut self, bytes: u64, size: Option<u64>, names: impl Fn(usize) -> String) {
        match &mut self.display {
            Display::Quiet => {}
            Display::Bar(bar) => {
                if let (None, Some(size)) = (bar.length(), size) {
                    bar.set_length(size);
                    bar.set_style(style(true, self.is_batch));
                }
                if self.is_batch {
                    bar.set_message(names(columns().saturating_sub(1).into()));
                }
                bar.set_position(bytes);
            }
            Display::Lines { next } => {
                let now = Instant::now();
                // Before the first byte, other messages report the state of the connection.
                if now >= *next && bytes > 0 {
                    *next = now + LINE_INTERVAL;
                    print_message(&line(&names(NAMES_MAX), bytes, size, now - self.began));
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

fn bar(is_batch: bool) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.with_style(style(false, is_batch))
}

/// Returns the width of the terminal at stderr.
fn columns() -> u16 {
    os::tty::WindowSize::of(std::io::stderr()).map_or(80, |size| size.columns)
}

/// Returns the style of a bar for the width of the terminal, with or without a known file size.
fn style(is_size_known: bool, is_batch: bool) -> ProgressStyle {
    let template = match (is_size_known, columns() >= BAR_MIN_COLUMNS) {
        (true, true) => {
            "{percent:>3}% [{wide_bar}] {decimal_bytes} of {decimal_total_bytes}, \
             {decimal_bytes_per_sec}, {eta} left"
        }
        (true, false) => "{percent:>3}% {decimal_bytes_per_sec}, {eta} left",
        (false, true) => "{spinner} {decimal_bytes}, {decimal_bytes_per_sec}, {elapsed}",
        (false, false) => "{spinner} {decimal_bytes}, {decimal_bytes_per_sec}",
    };
    let names = if is_batch { "{msg}\n" } else { "" };
    let style = ProgressStyle::with_template(&format!("{names}{template}"));
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

fn line(names: &str, bytes: u64, total: Option<u64>, elapsed: Duration) -> String {
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = bytes.saturating_mul(1000) / millis;
    let total_text = total.map(|total| format!(" of {}", size(total))).unwrap_or_default();
    let remaining_bytes = total.map(|total| total.saturating_sub(bytes)).filter(|_| rate > 0);
    let remaining_text = remaining_bytes.map(|bytes| {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        format!(", {} left", duration(u64::try_from(nanos).unwrap_or(u64::MAX)))
    });
    let names = if names.is_empty() { String::new() } else { format!("{names}: ") };
    format!(
        "{names}{}{total_text}, {}{}",
        size(bytes),
        byte_rate(rate.saturating_mul(8)),
        remaining_text.unwrap_or_default()
    )
}

/// Prints a result or a step of a command to stderr.
pub(crate) fn print_message(sentence: &str) {
    crate::exit::print_diagnostic(Severity::Info, sentence);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_progress_rate_and_remaining_time() {
        let text = line("a.bin", 2_000_000, Some(10_000_000), Duration::from_secs(2));
        assert_eq!(text, "a.bin: 2.00 MB of 10.0 MB, 1.00 MB/s, 8.00 s left");
        let text = line("", 2_000, None, Duration::from_secs(2));
        assert_eq!(text, "2.00 kB, 1.00 kB/s");
    }
}
