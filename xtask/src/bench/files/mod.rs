//! `bench files`: whole files, both ends, of ours and of others.
//!
//! Every row moves the same files by every server with every user program, by turns. A time is from
//! the start of the user's program to its end; all lies in memory, so that no disk is measured.
//!
//! All run as ordinary programs. In real time a process that waits for its child may spin for ever:
//! the kernel removes what `/proc` has of the child, and waits for whoever reads that just then,
//! whom the spinning process keeps from the processor.

mod account;
mod ftp;
mod tftp;

use super::conditions::{Cast, Conditions};
use super::{Report, USAGE};
use anyhow::{Result, bail};

/// How much is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) rounds: usize,
    /// The size of the large file, in MiB.
    pub(super) size_mib: u64,
    /// How many small files go over many connections.
    pub(super) files: u32,
    /// How many idle logins.
    pub(super) logins: usize,
    /// Which rows, if not all.
    pub(super) rows: Vec<String>,
}

impl Default for Amount {
    /// All of it in a quarter of an hour, on a machine that does nothing else.
    fn default() -> Self {
        Self { rounds: 5, size_mib: 1024, files: 4_000, logins: 10_000, rows: Vec::new() }
    }
}

impl Amount {
    /// Returns whether a row is wanted.
    fn wants(&self, row: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|name| name == row)
    }
}

/// The row of TFTP.
const TFTP: &str = "tftp";

/// Measures.
pub(super) fn run(conditions: &Conditions, amount: &Amount) -> Result<Report> {
    for row in &amount.rows {
        let known: Vec<_> = ftp::names().chain([TFTP]).collect();
        if !known.contains(&row.as_str()) {
            let known = known.join(", ");
            bail!("there is no row '{}', but {known}\n{USAGE}", row.escape_debug());
        }
    }
    conditions.run_as_ordinary()?;
    let mut report = Report {
        cast: Cast::Files,
        title: "bench files: files by FTP and TFTP, ours and others".to_owned(),
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
    fn without_a_name_every_row_is_wanted() {
        let some = Amount { rows: vec!["retr".to_owned()], ..Amount::default() };
        assert!(Amount::default().wants("stor") && some.wants("retr") && !some.wants("stor"));
    }
}
