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
mod amount;
mod ftp;
mod tftp;

pub(super) use amount::Amount;

use super::benchmark_report::Report;
use super::conditions::{Conditions, ProgramSet};
use super::usage::USAGE;
use anyhow::{Result, bail};

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
