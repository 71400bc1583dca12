//! `plumb lab`: the experiments of the papers, in virtual time.

mod tm233;

use crate::exit::{self, Failure};
use clap::ValueEnum;
use std::io::Write;

/// Arguments of `plumb lab`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which experiment.
    #[arg(value_enum)]
    scenario: Scenario,
    /// Prints the figures as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scenario {
    /// Two personal computers on a serial line, with the costs of 1982 (TM-233, chapter 6).
    Tm233,
}

/// Runs the experiment and prints its tables.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    let Scenario::Tm233 = arguments.scenario;
    let tables = simulator::tm233::tables().map_err(|stuck| {
        exit::complain(&anyhow::Error::new(stuck).context("the experiment came to a stop"));
        Failure::NothingMeasured
    })?;
    let text = if arguments.json {
        tm233::json(&tables)
    } else {
        tm233::text(&tables, exit::stdout_columns())
    };
    // A closed pipe has read what it wanted.
    _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}
