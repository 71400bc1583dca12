//! Display of the progress of a command on stderr, if stderr is a terminal.

use std::io::{IsTerminal, Write};

/// Returns the function that displays a text on the current line of stderr, or `None` if stderr is
/// not a terminal. An empty text erases the line.
pub(crate) fn status_display() -> Option<fn(&str)> {
    std::io::stderr().is_terminal().then_some(display)
}

fn display(text: &str) {
    let mut stderr = std::io::stderr();
    // Ignored: stderr may be closed.
    _ = stderr.write_all(format!("\r\x1b[K{}", records::escape::terminal(text)).as_bytes());
    _ = stderr.flush();
}
