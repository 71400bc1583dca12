//! `plumb lab`: the experiments of the papers, in virtual time; control structures in real time too.

mod control;
mod tables;

use crate::exit::{self, Failure};
use clap::ValueEnum;
use simulator::Stuck;
use std::io::Write;
use tables::Experiment;

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
    /// A host-IMP interface made faster, and what file transfers gained by it (RFC 594).
    Rfc594,
    /// Procedures, tasks and futures as control structures: on this machine, and with the costs of
    /// 1982 (TM-233, chapter 4).
    Control,
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
    let Some(experiment) = experiment(arguments.scenario) else {
        return control::run(arguments.json);
    };
    let experiment = experiment.map_err(|stuck| {
        exit::complain(&anyhow::Error::new(stuck).context("the experiment came to a stop"));
        Failure::NothingMeasured
    })?;
    let text = if arguments.json {
        tables::json(&experiment)
    } else {
        tables::text(&experiment, exit::stdout_columns())
    };
    // A closed pipe has read what it wanted.
    _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

/// Returns the tables of a paper; None for what is measured on this machine too.
fn experiment(scenario: Scenario) -> Option<Result<Experiment, Stuck>> {
    Some(match scenario {
        Scenario::Tm233 => simulator::tm233::tables().map(|tables| Experiment {
            scenario: "tm233",
            year: 1982,
            head: TM233,
            tables,
        }),
        Scenario::Rfc594 => Ok(Experiment {
            scenario: "rfc594",
            year: 1973,
            head: RFC594,
            tables: simulator::rfc594::tables(),
        }),
        Scenario::Control => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(scenario: Scenario, width: usize) -> String {
        tables::text(&experiment(scenario).unwrap().unwrap(), width)
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
