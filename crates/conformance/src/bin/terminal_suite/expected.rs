//! The lists of tests with the expected result of each: `libvterm.txt` and `esctest.txt`.
//!
//! A line is `pass NAME`, or `fail NAME: why`. A name that ends in `*` stands for all tests with
//! that prefix that have no line of their own. Empty lines and lines that begin with `#` are
//! ignored. A test without a line is expected to pass.

use anyhow::{Context, Result, ensure};

/// Expected result of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Expectation {
    Passes,
    Fails,
}

/// A list of tests.
#[derive(Debug, Default)]
pub(super) struct Expected(Vec<(String, Expectation)>);

impl Expected {
    /// Parses the list.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut list: Vec<(String, Expectation)> = Vec::new();
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, expectation) = parse_line(line)
                .with_context(|| format!("line {number}: not 'pass NAME' or 'fail NAME: why'"))?;
            let is_new = list.iter().all(|(listed, _)| *listed != name);
            ensure!(is_new, "line {number}: {name} is listed twice");
            list.push((name, expectation));
        }
        Ok(Self(list))
    }

    /// Returns whether a test is expected to pass.
    pub(super) fn passes(&self, name: &str) -> bool {
        let own_line = self.0.iter().find(|(listed, _)| listed == name);
        let all = || {
            self.0.iter().find(|(listed, _)| {
                listed.strip_suffix('*').is_some_and(|start| name.starts_with(start))
            })
        };
        own_line.or_else(all).is_none_or(|(_, expectation)| *expectation == Expectation::Passes)
    }
}

fn parse_line(line: &str) -> Option<(String, Expectation)> {
    match line.split_once(' ')? {
        ("pass", name) => Some((name.to_owned(), Expectation::Passes)),
        ("fail", rest) => Some((rest.split_once(": ")?.0.to_owned(), Expectation::Fails)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_passes_unless_its_line_or_a_line_for_its_prefix_says_otherwise() {
        let list = Expected::parse("# why\nfail A.*: no\npass A.b\nfail c: no: never\n").unwrap();
        let passes = ["A.a", "A.b", "c", "d"].map(|name| list.passes(name));
        assert_eq!(passes, [false, true, false, true]);
    }

    #[test]
    fn a_failure_without_a_reason_is_refused() {
        let error = |text| Expected::parse(text).unwrap_err().to_string();
        assert_eq!(error("fail c\n"), "line 1: not 'pass NAME' or 'fail NAME: why'");
        assert_eq!(error("pass c\npass c\n"), "line 2: c is listed twice");
    }
}
