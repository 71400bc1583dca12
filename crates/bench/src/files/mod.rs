//! `bench files`: transfers of whole files with plumb and third-party programs at both ends.
//!
//! For each row of the report, every client program transfers the same files with every server,
//! interleaved. Each measured time runs from the start of the client to its end. All files are in
//! memory, so no disk is measured.
//!
//! All programs run with ordinary scheduling. A process with real-time priority that waits for its
//! child may spin forever: the kernel removes the child's `/proc` entry, and waits for a process
//! that is reading this entry. The spinning process prevents the reading process from running.

mod account;
mod ftp;
mod tftp;

use super::benchmark_report::Report;
use super::conditions::{Conditions, ProgramSet};
use super::usage::USAGE;
use anyhow::{Result, bail};

/// Number and size of the measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) rounds: usize,
    /// Size of the large file, in MiB.
    pub(super) size_mib: u64,
    /// Number of small files over several connections.
    pub(super) files: u32,
    /// Number of idle logins.
    pub(super) logins: usize,
    /// Names of the selected rows of the report; all rows if empty.
    pub(super) rows: Vec<String>,
}

impl Default for Amount {
    /// Returns the amount of a complete run: a quarter of an hour on an idle machine.
    fn default() -> Self {
        Self { rounds: 5, size_mib: 1024, files: 4_000, logins: 10_000, rows: Vec::new() }
    }
}

impl Amount {
    /// Returns whether this row of the report is selected.
    fn wants(&self, row: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|name| name == row)
    }
}

/// Name of the row of the report with the TFTP transfers.
const TFTP: &str = "tftp";

pub(super) fn run(conditions: &Conditions, amount: &Amount) -> Result<Report> {
    for row in &amount.rows {
        let known: Vec<_> = ftp::names().chain([TFTP]).collect();
        if !known.contains(&row.as_str()) {
            let known = known.join(", ");
            bail!("unknown row '{}'; rows: {known}\n{USAGE}", row.escape_debug());
        }
    }
    conditions.run_as_ordinary()?;
    let mut report = Report {
        program_set: ProgramSet::Files,
        title: "bench files: FTP and TFTP with plumb and other programs".to_owned(),
        sections: Vec::new(),
        verdicts: Vec::new(),
        congestion: String::new(),
        notes: Vec::new(),
    };
    if ftp::names().any(|row| amount.wants(row)) {
        ftp::run(conditions, amount, &mut report)?;
    }
    if amount.wants(TFTP) {
        tftp::run(conditions, amount.rounds, &mut report)?;
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_name_every_row_is_selected() {
        let some = Amount { rows: vec!["retr".to_owned()], ..Amount::default() };
        assert!(Amount::default().wants("stor") && some.wants("retr") && !some.wants("stor"));
    }
}
