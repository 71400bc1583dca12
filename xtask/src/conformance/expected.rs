//! The list of scripts with the expected result of each: `crates/conformance/expected.txt`.
//!
//! A line names a suite in brackets, or a script by its path in the suite: `pass PATH`, or
//! `fail PATH: why`. Empty lines and lines that begin with `#` are ignored.

use anyhow::{Context, Result, bail, ensure};

/// A suite of scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suite {
    /// The scripts that come with google/packetdrill.
    Packetdrill,
    /// freebsd-net/tcp-testsuite.
    TcpTestsuite,
}

impl Suite {
    pub(super) const ALL: [Self; 2] = [Self::Packetdrill, Self::TcpTestsuite];

    /// Returns the suite's name in the list.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Packetdrill => "packetdrill",
            Self::TcpTestsuite => "tcp-testsuite",
        }
    }

    /// Returns the environment variable with the suite's directory.
    pub(super) const fn variable(self) -> &'static str {
        match self {
            Self::Packetdrill => "PLUMB_PACKETDRILL_SCRIPTS",
            Self::TcpTestsuite => "PLUMB_TCP_TESTSUITE",
        }
    }

    /// Returns the TCP dialect that the suite's scripts expect, as named by the library's flags.
    pub(super) const fn target_os(self) -> &'static str {
        match self {
            Self::Packetdrill => "linux",
            Self::TcpTestsuite => "freebsd",
        }
    }
}

/// TCP policies with which the scripts run. The list of expected results is for
/// [`Policies::Tuned`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policies {
    /// Policies of the system for which the scripts were written, with an adapter that changes
    /// outgoing segments to the format of that system.
    Tuned,
    /// Default policies of the library for a program that embeds it.
    Library,
    /// Policies of `plumb get`, `put` and the file servers.
    Files,
    /// Policies of the login server.
    Logins,
}

impl Policies {
    pub(super) const ALL: [Self; 4] = [Self::Tuned, Self::Library, Self::Files, Self::Logins];

    /// Returns the policies' name in the library's flags.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tuned => "tuned",
            Self::Library => "library",
            Self::Files => "files",
            Self::Logins => "logins",
        }
    }
}

/// Extent of the comparison of outgoing segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// Everything that the script specifies.
    Strict,
    /// Everything except the options of SYNs and the windows, which RFC 9293 leaves to each system.
    Relaxed,
}

/// Expected result of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    Passes,
    /// The script fails, for this reason.
    Fails(String),
}

/// The scripts of both suites with their expected results.
#[derive(Debug, Default)]
pub(super) struct Expected(Vec<(Suite, String, Expectation)>);

impl Expected {
    /// Parses the list.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut suite = None;
        let mut list = Vec::new();
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                suite = Suite::ALL.into_iter().find(|suite| suite.name() == name);
                ensure!(suite.is_some(), "line {number}: there is no suite {name}");
                continue;
            }
            let suite =
                suite.with_context(|| format!("line {number} is before the first [SUITE] line"))?;
            let (path, expectation) = parse_script(line)
                .with_context(|| format!("line {number}: not 'pass PATH' or 'fail PATH: why'"))?;
            if list.iter().any(|(s, p, _)| *s == suite && *p == path) {
                bail!("line {number}: {path} is listed twice");
            }
            list.push((suite, path, expectation));
        }
        Ok(Self(list))
    }

    /// Returns the scripts of one suite.
    pub(super) fn scripts_of(&self, suite: Suite) -> impl Iterator<Item = (&String, &Expectation)> {
        let of_suite = self.0.iter().filter(move |(of, _, _)| *of == suite);
        of_suite.map(|(_, path, expectation)| (path, expectation))
    }
}

fn parse_script(line: &str) -> Option<(String, Expectation)> {
    let (verdict, rest) = line.split_once(' ')?;
    match verdict {
        "pass" => Some((rest.to_owned(), Expectation::Passes)),
        "fail" => {
            let (path, why) = rest.split_once(": ")?;
            Some((path.to_owned(), Expectation::Fails(why.to_owned())))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = include_str!("../../../crates/conformance/expected.txt");

    #[test]
    fn a_script_has_a_verdict_and_a_reason_where_it_fails() {
        let list = Expected::parse("# why\n[packetdrill]\npass a/b.pkt\nfail c.pkt: no urge\n");
        let list = list.unwrap();
        let found: Vec<_> = list.scripts_of(Suite::Packetdrill).collect();
        assert_eq!(found[0], (&"a/b.pkt".to_owned(), &Expectation::Passes));
        assert_eq!(found[1].1, &Expectation::Fails("no urge".to_owned()));
        assert_eq!(list.scripts_of(Suite::TcpTestsuite).count(), 0);
    }

    #[test]
    fn a_failure_without_a_reason_is_refused() {
        let error = Expected::parse("[packetdrill]\nfail c.pkt\n").unwrap_err().to_string();
        assert_eq!(error, "line 2: not 'pass PATH' or 'fail PATH: why'");
    }

    #[test]
    fn a_duplicate_script_is_rejected() {
        let error = Expected::parse("[packetdrill]\npass c.pkt\npass c.pkt\n").unwrap_err();
        assert_eq!(error.to_string(), "line 3: c.pkt is listed twice");
    }

    #[test]
    fn the_list_names_all_scripts_of_the_two_lists() {
        let list = Expected::parse(LIST).unwrap();
        assert_eq!(list.scripts_of(Suite::Packetdrill).count(), 31);
        assert_eq!(list.scripts_of(Suite::TcpTestsuite).count(), 111);
    }
}
