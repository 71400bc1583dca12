//! Progress line on stderr, if stderr is a terminal.

use std::io::{IsTerminal, Write};

/// The progress line. Its text is set during the measurement and written to stderr later, so that
/// the output does not disturb the measurement.
#[derive(Debug, Default)]
pub(crate) struct ProgressLine {
    is_enabled: bool,
    text: String,
    painted_text: String,
}

/// A count is displayed at each multiple of this number.
const COUNT_STEP: usize = 20;

impl ProgressLine {
    /// Creates a line on stderr; it is disabled if stderr is not a terminal.
    pub(crate) fn on_stderr() -> Self {
        Self { is_enabled: std::io::stderr().is_terminal(), ..Self::default() }
    }

    /// Sets the text of the line.
    pub(crate) fn show(&mut self, text: &str) {
        if self.is_enabled {
            text.clone_into(&mut self.text);
        }
    }

    /// Sets the text to a count, if `done` is a multiple of [`COUNT_STEP`].
    pub(crate) fn show_count(&mut self, what: &str, done: usize, all: usize) {
        if self.is_enabled && done.is_multiple_of(COUNT_STEP) {
            self.text = format!("{what} {done} of {all}");
        }
    }

    /// Paints the line if its text has changed.
    pub(crate) fn paint(&mut self) {
        if self.text != self.painted_text {
            self.text.clone_into(&mut self.painted_text);
            write(&format!("\r\x1b[K{}", records::escape::terminal(&self.text)));
        }
    }

    /// Erases the line.
    pub(crate) fn clear(&mut self) {
        if !self.painted_text.is_empty() {
            self.painted_text.clear();
            self.text.clear();
            write("\r\x1b[K");
        }
    }
}

fn write(text: &str) {
    let mut stderr = std::io::stderr();
    // Ignored: stderr may be closed.
    _ = stderr.write_all(text.as_bytes());
    _ = stderr.flush();
}
