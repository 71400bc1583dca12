//! `plumb lab`: the experiments of the papers, in virtual time; control structures in real time too.

mod code;
mod control;
mod pictures;
mod scenario;
pub(crate) mod strata;
mod tables;
mod today;
mod transfers;

use crate::exit::{self, Failure};
use crate::measure::ProgressLine;
use crate::stats::records_folder;
use anyhow::{Result, anyhow};
use clap::ValueEnum;
use scenario::Paper;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use tables::Experiment;
use today::Today;

const EXAMPLES: &str = "\
Examples:
  plumb lab tm233
  plumb lab tm233 --print-scenario > mine.toml
  plumb lab tm233 --scenario mine.toml --json
  plumb lab rfc573 --print-scenario | grep -A 3 strata

Exit codes: 0 done; 2 the arguments or the scenario are wrong; 3 an experiment came to a stop; 4 the
scenario may not be read.";

/// Arguments of `plumb lab`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Which experiment.
    #[arg(value_enum)]
    name: Name,
    /// Takes what is assumed from this file of TOML, and not from the one that is built in. The
    /// columns of the papers do not change with it
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Prints the scenario and runs nothing
    #[arg(long, conflicts_with = "json")]
    print_scenario: bool,
    /// Prints the figures as JSON.
    #[arg(long)]
    json: bool,
    /// RFC 594: makes the same transfers on this machine first, over loopback, and keeps no record
    #[arg(long)]
    today: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// Two personal computers on a serial line, and foreign hosts, with the costs of 1982 (TM-233,
    /// chapter 6).
    Tm233,
    /// A survey of hosts for a year, and 304 transfers of 1973, whose number, bits and CPU time by
    /// program and type are in the scenario (RFC 573).
    Rfc573,
    /// A host-IMP interface made faster, and what file transfers gained by it (RFC 594).
    Rfc594,
    /// What a message costs the Network Daemon of Multics, and what each proposal would save.
    Multics,
    /// Procedures, tasks and futures as control structures: on this machine, and with the costs of
    /// 1982 (TM-233, chapter 4).
    Control,
}

impl Name {
    /// Returns the paper whose tables come out; None for what is measured on this machine.
    const fn paper(self) -> Option<Paper> {
        Some(match self {
            Self::Tm233 => Paper::Tm233,
            Self::Rfc573 => Paper::Rfc573,
            Self::Rfc594 => Paper::Rfc594,
            Self::Multics => Paper::Multics,
            Self::Control => return None,
        })
    }
}

/// Runs the experiment and prints its tables.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    let Some(paper) = arguments.name.paper() else {
        if arguments.scenario.is_some() || arguments.print_scenario {
            exit::complain(&anyhow!("control is measured on this machine and has no scenario"));
            return Err(Failure::WrongArguments);
        }
        return control::run(arguments.json);
    };
    if arguments.today && !matches!(paper, Paper::Rfc594) {
        exit::complain(&anyhow!("only the transfers of rfc594 can be made today"));
        return Err(Failure::WrongArguments);
    }
    let text = scenario_text(paper, arguments.scenario.as_deref())?;
    if arguments.print_scenario {
        print(&text);
        return Ok(());
    }
    let mut experiment = experiment(paper, arguments, &text)?;
    if matches!(paper, Paper::Tm233) {
        experiment.tables.push(code::data_table());
        // A program without symbols has the other tables.
        experiment.tables.extend(code::table());
    }
    let today = today(paper, arguments).map_err(|error| {
        exit::complain(&error);
        Failure::ThisMachine
    })?;
    print(&if arguments.json {
        tables::json(&experiment, today.as_ref())
    } else {
        let width = exit::stdout_columns();
        let today = today.map(|today| format!("\n{}", today.text(width)));
        tables::text(&experiment, width) + &today.unwrap_or_default()
    });
    Ok(())
}

fn scenario_text(paper: Paper, file: Option<&Path>) -> Result<String, Failure> {
    scenario::text(paper, file).map_err(|error| {
        let shown = file.unwrap_or(Path::new("")).display().to_string();
        let is_forbidden = error.kind() == ErrorKind::PermissionDenied;
        exit::complain(&anyhow!(error).context(format!("the scenario {shown} cannot be read")));
        if is_forbidden { Failure::ThisMachine } else { Failure::WrongArguments }
    })
}

/// Returns RFC 594's transfers of today: those that are made now, or those of the store, if any.
fn today(paper: Paper, arguments: &Arguments) -> Result<Option<Today>> {
    match (paper, arguments.today) {
        (Paper::Rfc594, true) => Today::made_now().map(Some),
        // Where there are no records there is nothing to show beside the paper.
        (Paper::Rfc594, false) => Ok(Today::of_store(&records_folder()).ok().flatten()),
        _ => Ok(None),
    }
}

fn print(text: &str) {
    // A closed pipe has read what it wanted.
    _ = std::io::stdout().write_all(text.as_bytes());
}

fn experiment(paper: Paper, arguments: &Arguments, text: &str) -> Result<Experiment, Failure> {
    let read = scenario::Scenario::read(paper, text);
    let file =
        || arguments.scenario.as_ref().map_or("built-in".into(), |path| path.display().to_string());
    let scenario = read.map_err(|why| {
        exit::complain(&why.context(format!("the scenario {} is wrong", file())));
        Failure::WrongArguments
    })?;
    let mut progress = ProgressLine::on_stderr();
    progress.show("years and sessions in virtual time");
    progress.paint();
    let run = scenario.run();
    progress.clear();
    run.map_err(|error| {
        exit::complain(&error.context("the experiment came to a stop"));
        Failure::NothingMeasured
    })
}

#[cfg(test)]
mod tests;
