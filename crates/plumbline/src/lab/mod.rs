//! `plumb lab`: the experiments of the papers, in virtual time.

mod scenario;
mod tables;
mod transfers;

use crate::exit::{self, Failure};
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::io::Write;
use std::path::PathBuf;
use tables::Experiment;

const EXAMPLES: &str = "Examples:
  plumb lab tm233
  plumb lab tm233 --print-scenario > \
                        mine.toml
  plumb lab tm233 --scenario mine.toml --json

Exit codes: 0 \
                        done; 2 the arguments or the scenario are wrong; 3 an experiment came to a \
                        stop.";

/// Arguments of `plumb lab`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Which experiment.
    #[arg(value_enum)]
    name: Name,
    /// Takes what is assumed from this file of TOML, and not from the one that is built in
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Prints the scenario and runs nothing
    #[arg(long, conflicts_with = "json")]
    print_scenario: bool,
    /// Prints the figures as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// Two personal computers on a serial line, and foreign hosts, with the costs of 1982 (TM-233,
    /// chapter 6).
    Tm233,
    /// A survey of hosts for a year, and 304 transfers of 1973 (RFC 573).
    Rfc573,
    /// A host-IMP interface made faster, and what file transfers gained by it (RFC 594).
    Rfc594,
    /// What a message costs the Network Daemon of Multics, and what each proposal would save.
    Multics,
}

/// Runs the experiment and prints its tables.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    let text = scenario::text(arguments.name, arguments.scenario.as_deref()).map_err(|error| {
        exit::complain(&error);
        Failure::WrongArguments
    })?;
    if arguments.print_scenario {
        print(&text);
        return Ok(());
    }
    let experiment = experiment(arguments, &text)?;
    print(&if arguments.json {
        tables::json(&experiment)
    } else {
        tables::text(&experiment, exit::stdout_columns())
    });
    Ok(())
}

fn print(text: &str) {
    // A closed pipe has read what it wanted.
    _ = std::io::stdout().write_all(text.as_bytes());
}

fn experiment(arguments: &Arguments, text: &str) -> Result<Experiment, Failure> {
    let read = scenario::Scenario::read(arguments.name, text);
    let file =
        || arguments.scenario.as_ref().map_or("built-in".into(), |path| path.display().to_string());
    let scenario =
        read.with_context(|| format!("the scenario is wrong ({})", file())).map_err(|error| {
            exit::complain(&error);
            Failure::WrongArguments
        })?;
    scenario.run().map_err(|error| {
        exit::complain(&error.context("the experiment came to a stop"));
        Failure::NothingMeasured
    })
}

#[cfg(test)]
mod tests;
