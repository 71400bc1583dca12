//! Interleaved measurement of pairs of server and client with the same job, and the resulting
//! table.

use super::ftp_servers::ServerProgram;
use super::job::{FtpClientProgram, Job, Load};
use super::run_client::{ClientRunner, Measured, TimedOut};
use crate::benchmark_report::{Report, Section};
use crate::rounds::seconds;
use anyhow::Result;
use records::format::{UNKNOWN, count};
use records::statistics::median;
use report::table::Table;
use serde_json::{Value, json};

/// Number of third-party pairs of server and client that are measured in all rounds.
const THIRD_PARTY_PAIRS: usize = 3;

/// A server and a client with their job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) server_program: ServerProgram,
    pub(super) user: FtpClientProgram,
    pub(super) job: Job,
    /// Label of the pair in a comparison of variants of plumb.
    pub(super) variant: Option<&'static str>,
}

impl Pair {
    pub(super) fn new(server_program: ServerProgram, user: FtpClientProgram, job: Job) -> Self {
        Self { server_program, user, job, variant: None }
    }

    pub(super) fn label(&self) -> String {
        match self.variant {
            Some(variant) => variant.to_owned(),
            None => format!("{}, {}", self.server_program.name(), self.user.name()),
        }
    }

    fn is_third_party(&self) -> bool {
        self.server_program != ServerProgram::Plumb && self.user != FtpClientProgram::Plumb
    }

    /// Returns whether a third-party client transfers small files over one connection.
    fn uses_one_connection(&self) -> bool {
        let has_one_connection = matches!(self.job.load, Load::Small { connections: 1, .. });
        has_one_connection && self.user != FtpClientProgram::Plumb
    }

    fn is_plumb(&self) -> bool {
        self.variant.is_some()
            || (self.server_program == ServerProgram::Plumb && self.user == FtpClientProgram::Plumb)
    }
}

/// Amount transferred by a job, by which the table divides rates and processor times.
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
            Self::Bytes(_) => ("MB/s", "client CPU (s/GB)", "server CPU (s/GB)"),
            Self::Files(_) => ("files/s", "client CPU (ms/file)", "server CPU (ms/file)"),
        }
    }
}

/// The pairs of server and client in one row of the report.
pub(super) struct Contest {
    pub(super) name: &'static str,
    pub(super) heading: String,
    pub(super) pairs: Vec<Pair>,
}

impl Contest {
    /// Returns the amount transferred by each job.
    pub(super) fn unit(&self) -> Unit {
        match self.pairs.first().map(|pair| pair.job.load) {
            Some(Load::Large(mebibytes) | Load::Saved(mebibytes)) => Unit::Bytes(mebibytes << 20),
            Some(Load::Small { files, .. }) => Unit::Files(files),
            None => Unit::Files(1),
        }
    }

    /// Returns whether all pairs are variants of plumb.
    fn is_of_variants(&self) -> bool {
        self.pairs.iter().all(|pair| pair.variant.is_some())
    }

    /// Runs the job of every pair in the first round and of the selected pairs in the later rounds,
    /// and adds the table to the report.
    pub(super) fn run(
        &self,
        runner: &mut ClientRunner<'_>,
        rounds: usize,
        report: &mut Report,
    ) -> Result<Vec<Vec<Measured>>> {
        let mut results: Vec<Vec<Measured>> = vec![Vec::new(); self.pairs.len()];
        let mut is_selected = vec![true; self.pairs.len()];
        let mut too_slow = Vec::new();
        for round in 0..rounds {
            for ((pair, results), is_selected) in
                self.pairs.iter().zip(&mut results).zip(&mut is_selected)
            {
                if !*is_selected || too_slow.contains(&pair.user) {
                    continue;
                }
                match runner.measure(pair.server_program, pair.user, pair.job) {
                    Ok(measured) => results.push(measured),
                    Err(error) => {
                        *is_selected = false;
                        // Over one connection, curl is slow with every server, because it waits for
                        // its own timers.
                        if pair.uses_one_connection() && error.is::<TimedOut>() {
                            too_slow.push(pair.user);
                        }
                        let label = pair.label();
                        let note = format!("{}: left out: {label}: {error:#}.", self.name);
                        report.notes.push(note);
                        runner.restart(pair.server_program)?;
                    }
                }
            }
            if round == 0 {
                self.select_pairs(&results, &mut is_selected);
            }
        }
        report.sections.push(self.section(&results));
        Ok(results)
    }

    /// Keeps only the pairs that the verdicts need.
    fn select_pairs(&self, results: &[Vec<Measured>], is_selected: &mut [bool]) {
        let first = |at: usize| results.get(at).and_then(|results| results.first());
        let mut others: Vec<(u64, usize)> = (self.pairs.iter().enumerate())
            .filter(|(_, pair)| pair.is_third_party())
            .filter_map(|(at, _)| Some((first(at)?.wall_ns, at)))
            .collect();
        others.sort_unstable();
        others.truncate(THIRD_PARTY_PAIRS);
        for ((at, pair), is_selected) in self.pairs.iter().enumerate().zip(is_selected) {
            let is_needed = pair.is_plumb()
                || (pair.server_program == ServerProgram::Vsftpd
                    && pair.user == FtpClientProgram::Plumb)
                || others.iter().any(|(_, other)| *other == at);
            *is_selected &= is_needed;
        }
    }

    /// Returns the measurements of a pair.
    pub(super) fn results<'a>(
        &self,
        results: &'a [Vec<Measured>],
        server_program: ServerProgram,
        user: FtpClientProgram,
    ) -> &'a [Measured] {
        let mut pairs = self.pairs.iter().zip(results);
        let pair =
            pairs.find(|(pair, _)| pair.server_program == server_program && pair.user == user);
        pair.map_or(&[], |(_, results)| results.as_slice())
    }

    /// Returns the fastest third-party pair that was measured in all rounds.
    pub(super) fn best_third_party<'a>(
        &self,
        results: &'a [Vec<Measured>],
    ) -> Option<(&Pair, &'a [Measured])> {
        let max_rounds = results.iter().map(Vec::len).max()?;
        let pairs = self.pairs.iter().zip(results);
        let pairs =
            pairs.filter(|(pair, results)| pair.is_third_party() && results.len() == max_rounds);
        let best = pairs.min_by_key(|(_, results)| median_figure(results, |one| one.wall_ns));
        best.filter(|(_, results)| !results.is_empty())
            .map(|(pair, results)| (pair, results.as_slice()))
    }

    fn section(&self, results: &[Vec<Measured>]) -> Section {
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
        for (pair, results) in self.pairs.iter().zip(results) {
            let wall = median_figure(results, |one| one.wall_ns);
            let cpu = |of: fn(&Measured) -> u64| {
                let median_figure =
                    median_figure(results, of).map(|ns| format!("{:.3}", unit.cpu(ns)));
                median_figure.unwrap_or_else(|| UNKNOWN.to_owned())
            };
            table.row([
                pair.label(),
                seconds(wall),
                wall.map_or_else(|| UNKNOWN.to_owned(), |ns| count(unit.rate(ns))),
                cpu(|one| one.user_ns),
                cpu(|one| one.server_ns),
                results.len().to_string(),
            ]);
            let all: Vec<Value> = results.iter().map(Measured::json).collect();
            data.push(json!({ "pair": pair.label(), "rounds": all }));
        }
        let data = json!({ "row": self.name, "pairs": data });
        Section { heading: self.heading.clone(), table, data }
    }
}

/// Returns the median of a figure.
pub(super) fn median_figure(
    results: &[Measured],
    figure: impl Fn(&Measured) -> u64,
) -> Option<u64> {
    median(&results.iter().map(figure).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::job::Words;
    use super::*;

    fn contest(pairs: &[(ServerProgram, FtpClientProgram)]) -> Contest {
        let load = Load::Small { files: 1000, connections: 8 };
        let job = Job { is_upload: false, in_tls: false, load, words: Words::Image, on_tun: false };
        let pairs = pairs
            .iter()
            .map(|(server_program, user)| Pair::new(*server_program, *user, job))
            .collect();
        Contest { name: "row", heading: String::new(), pairs }
    }

    fn measured_in(wall_ns: u64) -> Vec<Measured> {
        vec![Measured { wall_ns, user_ns: 1, server_ns: 2 }]
    }

    #[test]
    fn later_rounds_have_plumb_and_the_fastest_three_third_party_pairs() {
        let contest = contest(&[
            (ServerProgram::Plumb, FtpClientProgram::Plumb),
            (ServerProgram::Vsftpd, FtpClientProgram::Plumb),
            (ServerProgram::Proftpd, FtpClientProgram::Plumb),
            (ServerProgram::Vsftpd, FtpClientProgram::Curl),
            (ServerProgram::Vsftpd, FtpClientProgram::Lftp),
            (ServerProgram::Proftpd, FtpClientProgram::Curl),
            (ServerProgram::Proftpd, FtpClientProgram::Lftp),
        ]);
        let results = [9, 9, 1, 4, 5, 6, 7].map(measured_in);
        let mut is_selected = vec![true; 7];
        contest.select_pairs(&results, &mut is_selected);
        assert_eq!(is_selected, [true, true, false, true, true, true, false]);
        let best = contest.best_third_party(&results).unwrap().0.label();
        assert_eq!(best, "vsftpd, curl");
    }

    #[test]
    fn a_pair_that_failed_is_not_the_best() {
        let contest = contest(&[
            (ServerProgram::Vsftpd, FtpClientProgram::Curl),
            (ServerProgram::Vsftpd, FtpClientProgram::Lftp),
        ]);
        assert!(contest.best_third_party(&[Vec::new(), Vec::new()]).is_none());
        let results = [Vec::new(), measured_in(5)];
        assert_eq!(contest.best_third_party(&results).unwrap().0.label(), "vsftpd, lftp");
    }

    #[test]
    fn processor_time_is_per_gigabyte_or_per_file() {
        assert_eq!(Unit::Bytes(2_000_000_000).cpu(1_000_000_000), 0.5);
        assert_eq!(Unit::Files(1000).cpu(350_000_000), 0.35);
        assert_eq!(Unit::Files(1000).rate(500_000_000), 2000);
    }
}
