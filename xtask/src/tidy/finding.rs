//! The result of a rule: a place and a message.

use std::fmt;

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) sentence: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.sentence)
    }
}

/// A finding of a rule in one file: the line, counted from 1, and a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) line: usize,
    pub(super) sentence: String,
}

impl Finding {
    /// Creates a finding.
    pub(super) fn new(line: usize, sentence: impl Into<String>) -> Self {
        Self { line, sentence: sentence.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_reads_as_path_line_and_sentence() {
        let violation = Violation { path: "a/b.rs".into(), line: 7, sentence: "it is odd".into() };
        assert_eq!(violation.to_string(), "a/b.rs:7: it is odd");
    }
}
