//! Interleaved measurement of pairs of server and client with the same job, and the resulting
//! table.

use super::desk::{Desk, Measured, NotDone};
use super::job::{Job, Load, User};
use super::servers::Maker;
use crate::bench::rounds::seconds;
use crate::bench::{Report, Section};
use anyhow::Result;
use records::figures::{UNKNOWN, count};
use records::statistics::median;
use records::table::Table;
use serde_json::{Value, json};

/// Number of third-party pairs that take part in all rounds.
const OTHERS: usize = 3;

/// A server and a client with their job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) maker: Maker,
    pub(super) user: User,
    pub(super) job: Job,
    /// Label of the pair in a comparison of variants of plumb.
    pub(super) variant: Option<&'static str>,
}

impl Pair {
    pub(super) fn new(maker: Maker, user: User, job: Job) -> Self {
        Self { maker, user, job, variant: None }
    }

    pub(super) fn label(&self) -> String {
        match self.variant {
            Some(variant) => variant.to_owned(),
            None => format!("{}, {}", self.maker.name(), self.user.name()),
        }
    }

    fn is_of_others(&self) -> bool {
        self.maker != Maker::Plumb && self.user != User::Plumb
    }

    /// Returns whether a third-party client transfers small files over one connection.
    fn is_over_one_connection(&self) -> bool {
        let is_one = matches!(self.job.load, Load::Small { connections: 1, .. });
        is_one && self.user != User::Plumb
    }

    fn is_ours(&self) -> bool {
        self.variant.is_some() || (self.maker == Maker::Plumb && self.user == User::Plumb)
    }
}

/// Divisor of the figures in a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    Bytes(u64),
    Files(u32),
}

impl Unit {
    /// Returns a processor time in seconds per GB, or in milliseconds per file.
    pub(super) fn cpu(self, ns: u64) -> f64 {
        match self {
            Self::Bytes(bytes) => ns as f64 / bytes as f64,
            Self::Files(files) => ns as f64 / 1e6 / f64::from(files),
        }
    }

    fn rate(self, ns: u64) -> u64 {
        let ns = u128::from(ns.max(1));
        let rate = match self {
            Self::Bytes(bytes) => u128::from(bytes) * 1000 / ns,
            Self::Files(files) => u128::from(files) * 1_000_000_000 / ns,
        };
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Bytes(_) => ("MB/s", "user CPU (s/GB)", "server CPU (s/GB)"),
            Self::Files(_) => ("files/s", "user CPU (ms/file)", "server CPU (ms/file)"),
        }
    }
}

/// The pairs of a row of the report.
pub(super) struct Contest {
    pub(super) name: &'static str,
    pub(super) heading: String,
    pub(super) pairs: Vec<Pair>,
}

impl Contest {
    /// Returns the divisor of the figures.
    pub(super) fn unit(&self) -> Unit {
        match self.pairs.first().map(|pair| pair.job.load) {
            Some(Load::Large(mebibytes) | Load::Kept(mebibytes)) => Unit::Bytes(mebibytes << 20),
            Some(Load::Small { files, .. }) => Unit::Files(files),
            None => Unit::Files(1),
        }
    }

    /// Returns whether all pairs are variants of plumb.
    fn is_of_variants(&self) -> bool {
        self.pairs.iter().all(|pair| pair.variant.is_some())
    }

    /// Runs the job of every pair in the first round and of the selected pairs in the others, and
    /// adds the table to the report.
    pub(super) fn run(
        &self,
        desk: &mut Desk<'_>,
        rounds: usize,
        report: &mut Report,
    ) -> Result<Vec<Vec<Measured>>> {
        let mut found: Vec<Vec<Measured>> = vec![Vec::new(); self.pairs.len()];
        let mut takes_part = vec![true; self.pairs.len()];
        let mut too_slow = Vec::new();
        for round in 0..rounds {
            for ((pair, found), takes_part) in
                self.pairs.iter().zip(&mut found).zip(&mut takes_part)
            {
                if !*takes_part || too_slow.contains(&pair.user) {
                    continue;
                }
                match desk.measure(pair.maker, pair.user, pair.job) {
                    Ok(measured) => found.push(measured),
                    Err(error) => {
                        *takes_part = false;
                        // Over one connection curl waits for its own timers, with any server.
                        if pair.is_over_one_connection() && error.is::<NotDone>() {
                            too_slow.push(pair.user);
                        }
                        let label = pair.label();
                        let note = format!("{}: left out: {label}: {error:#}.", self.name);
                        report.notes.push(note);
                        desk.restart(pair.maker)?;
                    }
                }
            }
            if round == 0 {
                self.choose(&found, &mut takes_part);
            }
        }
        report.sections.push(self.section(&found));
        Ok(found)
    }

    /// Keeps only the pairs that the verdicts need.
    fn choose(&self, found: &[Vec<Measured>], takes_part: &mut [bool]) {
        let first = |at: usize| found.get(at).and_then(|found| found.first());
        let mut others: Vec<(u64, usize)> = (self.pairs.iter().enumerate())
            .filter(|(_, pair)| pair.is_of_others())
            .filter_map(|(at, _)| Some((first(at)?.wall_ns, at)))
            .collect();
        others.sort_unstable();
        others.truncate(OTHERS);
        for ((at, pair), takes_part) in self.pairs.iter().enumerate().zip(takes_part) {
            let is_needed = pair.is_ours()
                || (pair.maker == Maker::Vsftpd && pair.user == User::Plumb)
                || others.iter().any(|(_, other)| *other == at);
            *takes_part &= is_needed;
        }
    }

    /// Returns the measurements of a pair.
    pub(super) fn found<'a>(
        &self,
        found: &'a [Vec<Measured>],
        maker: Maker,
        user: User,
    ) -> &'a [Measured] {
        let mut pairs = self.pairs.iter().zip(found);
        let pair = pairs.find(|(pair, _)| pair.maker == maker && pair.user == user);
        pair.map_or(&[], |(_, found)| found.as_slice())
    }

    /// Returns the fastest third-party pair among those that took part in all rounds.
    pub(super) fn best_of_others<'a>(
        &self,
        found: &'a [Vec<Measured>],
    ) -> Option<(&Pair, &'a [Measured])> {
        let most = found.iter().map(Vec::len).max()?;
        let pairs = self.pairs.iter().zip(found);
        let pairs = pairs.filter(|(pair, found)| pair.is_of_others() && found.len() == most);
        let best = pairs.min_by_key(|(_, found)| middle(found, |one| one.wall_ns));
        best.filter(|(_, found)| !found.is_empty()).map(|(pair, found)| (pair, found.as_slice()))
    }

    fn section(&self, found: &[Vec<Measured>]) -> Section {
        let unit = self.unit();
        let (rate, user, server) = unit.names();
        let mut table = Table::new()
            .text(if self.is_of_variants() { "how" } else { "server, user" })
            .number("time (s)")
            .number(rate)
            .number(user)
            .number(server)
            .number("rounds");
        let mut data = Vec::new();
        for (pair, found) in self.pairs.iter().zip(found) {
            let wall = middle(found, |one| one.wall_ns);
            let cpu = |of: fn(&Measured) -> u64| {
                let middle = middle(found, of).map(|ns| format!("{:.3}", unit.cpu(ns)));
                middle.unwrap_or_else(|| UNKNOWN.to_owned())
            };
            table.row([
                pair.label(),
                seconds(wall),
                wall.map_or_else(|| UNKNOWN.to_owned(), |ns| count(unit.rate(ns))),
                cpu(|one| one.user_ns),
                cpu(|one| one.server_ns),
                found.len().to_string(),
            ]);
            let all: Vec<Value> = found.iter().map(Measured::json).collect();
            data.push(json!({ "pair": pair.label(), "rounds": all }));
        }
        let data = json!({ "row": self.name, "pairs": data });
        Section { heading: self.heading.clone(), table, data }
    }
}

/// Returns the median of a figure.
pub(super) fn middle(found: &[Measured], figure: impl Fn(&Measured) -> u64) -> Option<u64> {
    median(&found.iter().map(figure).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::job::Words;
    use super::*;

    fn contest(pairs: &[(Maker, User)]) -> Contest {
        let load = Load::Small { files: 1000, connections: 8 };
        let job = Job { is_upload: false, in_tls: false, load, words: Words::Image, on_tun: false };
        let pairs = pairs.iter().map(|(maker, user)| Pair::new(*maker, *user, job)).collect();
        Contest { name: "row", heading: String::new(), pairs }
    }

    fn took(wall_ns: u64) -> Vec<Measured> {
        vec![Measured { wall_ns, user_ns: 1, server_ns: 2 }]
    }

    #[test]
    fn later_rounds_have_ours_and_the_quickest_three_of_others() {
        let contest = contest(&[
            (Maker::Plumb, User::Plumb),
            (Maker::Vsftpd, User::Plumb),
            (Maker::Proftpd, User::Plumb),
            (Maker::Vsftpd, User::Curl),
            (Maker::Vsftpd, User::Lftp),
            (Maker::Proftpd, User::Curl),
            (Maker::Proftpd, User::Lftp),
        ]);
        let found = [9, 9, 1, 4, 5, 6, 7].map(took);
        let mut takes_part = vec![true; 7];
        contest.choose(&found, &mut takes_part);
        assert_eq!(takes_part, [true, true, false, true, true, true, false]);
        let best = contest.best_of_others(&found).unwrap().0.label();
        assert_eq!(best, "vsftpd, curl");
    }

    #[test]
    fn a_pair_that_failed_is_not_the_best() {
        let contest = contest(&[(Maker::Vsftpd, User::Curl), (Maker::Vsftpd, User::Lftp)]);
        assert!(contest.best_of_others(&[Vec::new(), Vec::new()]).is_none());
        let found = [Vec::new(), took(5)];
        assert_eq!(contest.best_of_others(&found).unwrap().0.label(), "vsftpd, lftp");
    }

    #[test]
    fn processor_time_stands_for_a_gigabyte_or_a_file() {
        assert_eq!(Unit::Bytes(2_000_000_000).cpu(1_000_000_000), 0.5);
        assert_eq!(Unit::Files(1000).cpu(350_000_000), 0.35);
        assert_eq!(Unit::Files(1000).rate(500_000_000), 2000);
    }
}
