//! The outcome of each pair of client and server in each transfer mode.

use std::fmt::{self, Write as _};
use std::io::Write as _;

/// Transfer mode that a cell of the matrix tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransferMode {
    pub(crate) in_tls: bool,
    pub(crate) is_active: bool,
    pub(crate) is_v6: bool,
}

impl TransferMode {
    pub(crate) const ALL: [Self; 8] = [
        Self { in_tls: false, is_active: false, is_v6: false },
        Self { in_tls: false, is_active: true, is_v6: false },
        Self { in_tls: false, is_active: false, is_v6: true },
        Self { in_tls: false, is_active: true, is_v6: true },
        Self { in_tls: true, is_active: false, is_v6: false },
        Self { in_tls: true, is_active: true, is_v6: false },
        Self { in_tls: true, is_active: false, is_v6: true },
        Self { in_tls: true, is_active: true, is_v6: true },
    ];
}

impl fmt::Display for TransferMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.in_tls { "tls-" } else { "clear-" })?;
        f.write_str(if self.is_active { "act-" } else { "pasv-" })?;
        f.write_str(if self.is_v6 { "v6" } else { "v4" })
    }
}

/// Outcome of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// The peer does not support this transfer mode.
    Unsupported,
    /// Only root of the machine can start the peer.
    NoRoot,
    Failed(String),
}

/// A table of outcomes.
pub(crate) struct Matrix {
    title: &'static str,
    rows: Vec<(&'static str, Vec<(TransferMode, Outcome)>)>,
}

impl Matrix {
    pub(crate) fn new(title: &'static str) -> Self {
        Self { title, rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, name: &'static str, row: Vec<(TransferMode, Outcome)>) {
        self.rows.push((name, row));
    }

    /// Writes the table to stderr, and fails the test if any cell failed.
    pub(crate) fn conclude(self) {
        let mut text = format!("\n{}\n{:<12}", self.title, "");
        for case in TransferMode::ALL {
            _ = write!(text, "  {:<13}", case.to_string());
        }
        let mut failures = Vec::new();
        for (name, row) in &self.rows {
            _ = write!(text, "\n{name:<12}");
            for (case, outcome) in row {
                let cell = match outcome {
                    Outcome::Done => "ok",
                    Outcome::Unsupported => "-",
                    Outcome::NoRoot => "no root",
                    Outcome::Failed(reason) => {
                        failures.push(format!("{name}, {case}: {reason}"));
                        "FAILED"
                    }
                };
                _ = write!(text, "  {cell:<13}");
            }
        }
        text.push('\n');
        // Written straight to stderr: the test harness captures the output of the macros unless a
        // test fails.
        _ = std::io::stderr().write_all(text.as_bytes());
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}
