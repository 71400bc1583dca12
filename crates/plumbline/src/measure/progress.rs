//! One line on stderr that says what is being done, where stderr is a terminal.

use std::io::{IsTerminal, Write};

/// The line. What it says is painted later, so that it takes no time from what is measured.
#[derive(Debug, Default)]
pub(crate) struct ProgressLine {
    is_on: bool,
    text: String,
    painted: String,
}

/// Between two counts that are shown.
const COUNT_STEP: usize = 20;

impl ProgressLine {
    /// Makes a line on stderr, if that is a terminal.
    pub(crate) fn on_stderr() -> Self {
        Self { is_on: std::io::stderr().is_terminal(), ..Self::default() }
    }

    /// Says what is being done.
    pub(crate) fn show(&mut self, text: &str) {
        if self.is_on {
            text.clone_into(&mut self.text);
        }
    }

    /// Says how much of it is done, in steps.
    pub(crate) fn show_count(&mut self, what: &str, done: usize, all: usize) {
        if self.is_on && done.is_multiple_of(COUNT_STEP) {
            self.text = format!("{what} {done} of {all}");
        }
    }

    /// Paints what is new.
    pub(crate) fn paint(&mut self) {
        if self.text != self.painted {
            self.text.clone_into(&mut self.painted);
            write(&format!("\r\x1b[K{}", records::escape::terminal(&self.text)));
        }
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if !self.painted.is_empty() {
            self.painted.clear();
            self.text.clear();
            write("\r\x1b[K");
        }
    }
}

fn write(text: &str) {
    let mut stderr = std::io::stderr();
    // Where stderr has gone there is nobody to tell.
    _ = stderr.write_all(text.as_bytes());
    _ = stderr.flush();
}
