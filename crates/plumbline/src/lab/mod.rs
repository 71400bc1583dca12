//! `plumb lab`: the experiments of the papers, in virtual time.

mod tables;
mod today;

use crate::exit::{self, Failure};
use crate::stats::records_folder;
use clap::ValueEnum;
use simulator::Stuck;
use std::io::Write;
use tables::Experiment;
use today::Today;

/// Arguments of `plumb lab`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which experiment.
    #[arg(value_enum)]
    scenario: Scenario,
    /// Prints the figures as JSON.
    #[arg(long)]
    json: bool,
    /// RFC 594: makes the same transfers on this machine first, over loopback, and keeps no record
    #[arg(long)]
    today: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scenario {
    /// Two personal computers on a serial line, with the costs of 1982 (TM-233, chapter 6).
    Tm233,
    /// A host-IMP interface made faster, and what file transfers gained by it (RFC 594).
    Rfc594,
}

const TM233: &str = "Two personal computers on a serial line in virtual time: our own engines, each \
                     layer charged with what table 6-1 of TM-233 says it cost in 1982. The price of \
                     a carriage return is that of a screenful, see table 6-3; nothing else is fitted.";
const RFC594: &str = "Files of a megabit between two hosts of the ARPANET: cables with a handshake \
                      for each bit, an IMP that needs 1 ms a packet, lines of 50 kbit/s, one message \
                      of 8,063 bits at a time. The subnet is a model of timing, no protocol. The \
                      processors' time is the RFC's own; nothing is fitted to its rates.";

/// Runs the experiment and prints its tables.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    let experiment = experiment(arguments.scenario).map_err(|stuck| {
        exit::complain(&anyhow::Error::new(stuck).context("the experiment came to a stop"));
        Failure::NothingMeasured
    })?;
    let today = today(arguments).map_err(|error| {
        exit::complain(&error);
        Failure::ThisMachine
    })?;
    let text = if arguments.json {
        tables::json(&experiment, today.as_ref())
    } else {
        let width = exit::stdout_columns();
        let text = tables::text(&experiment, width);
        today.map_or(text.clone(), |today| format!("{text}\n{}", today.text(width)))
    };
    // A closed pipe has read what it wanted.
    _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

/// Returns RFC 594's transfers of today: those that are made now, or those of the store, if any.
fn today(arguments: &Arguments) -> anyhow::Result<Option<Today>> {
    match (arguments.scenario, arguments.today) {
        (Scenario::Tm233, true) => anyhow::bail!("only the transfers of rfc594 can be made today"),
        (Scenario::Tm233, false) => Ok(None),
        (Scenario::Rfc594, true) => Today::made_now().map(Some),
        // Where there are no records there is nothing to show beside the paper.
        (Scenario::Rfc594, false) => Ok(Today::of_store(&records_folder()).ok().flatten()),
    }
}

fn experiment(scenario: Scenario) -> Result<Experiment, Stuck> {
    Ok(match scenario {
        Scenario::Tm233 => Experiment {
            scenario: "tm233",
            year: 1982,
            head: TM233,
            tables: simulator::tm233::tables()?,
        },
        Scenario::Rfc594 => Experiment {
            scenario: "rfc594",
            year: 1973,
            head: RFC594,
            tables: simulator::rfc594::tables(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(scenario: Scenario, width: usize) -> String {
        tables::text(&experiment(scenario).unwrap(), width)
    }

    #[test]
    fn the_tables_of_the_thesis_come_out_of_our_own_engines() {
        insta::assert_snapshot!(text(Scenario::Tm233, 100));
    }

    #[test]
    fn the_table_of_rfc_594_comes_out_of_cables_an_imp_and_two_processors() {
        insta::assert_snapshot!(text(Scenario::Rfc594, 100));
    }

    #[test]
    fn the_tables_fit_into_forty_columns() {
        for scenario in [Scenario::Tm233, Scenario::Rfc594] {
            let text = text(scenario, 40);
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest.is_some_and(|widest| widest <= 40), "{text}");
        }
    }
}
