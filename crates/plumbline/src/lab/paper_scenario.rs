//! Scenarios: the assumptions of each experiment, as a TOML file.

use super::comparison_tables::Experiment;
use super::transfers;
use anyhow::{Result, anyhow};
use laboratory::{multics, rfc573, rfc594, tm233};
use serde::de::DeserializeOwned;
use std::io;
use std::path::Path;

const TM233: &str = "Personal computers on serial lines are simulated in virtual time. They run \
                     plumbline's protocol layers, and each layer is charged the cost of 1982 from \
                     table 6-1 of TM-233. The cost of a carriage return is derived from a screenful \
                     (see table 6-3). Any other fitted parameter is named below its table.";
const RFC594: &str = "Files of a megabit are sent between two hosts of the ARPANET. The cables have \
                      a handshake for each bit, an IMP needs 1 ms per packet, the lines run at 50 \
                      kbit/s, and one message of 8,063 bits is in transit at a time. The subnet is \
                      a timing model without protocols. The processor times are those of the RFC. \
                      No parameter is fitted to the rates of the RFC.";

const RFC573: &str = "Hosts fail and recover for a year, as often and for as long as table I of RFC \
                      573 states. A survey tries each host every twenty minutes by the paper's \
                      rules. Then the paper's transfers are repeated with plumbline's FTP and TCP \
                      between hosts of 1973. Their bits and CPU time per bit are those of the paper \
                      or of the strata of the scenario. Two parameters are fitted: the time that a \
                      program waits for the processor, and the time that SRI-ARC takes to convert a \
                      bit of a document.";
const MULTICS: &str = "Two simulated stations exchange the messages of sessions in virtual time. \
                       Each message costs time of the Network Daemon and of the server processes; \
                       the costs are those of the Multics memo. Each proposal of the memo is a \
                       switch. Only the accounting of the NCP is modeled, not its protocol.";

/// A paper whose tables are computed from a scenario.
#[derive(Clone, Copy, Debug)]
pub(super) enum Paper {
    Tm233,
    Rfc573,
    Rfc594,
    Multics,
}

/// Assumptions of one experiment.
#[derive(Debug)]
pub(super) enum Scenario {
    Tm233(Box<tm233::Scenario>),
    Rfc573(Box<rfc573::Scenario>),
    Rfc594(rfc594::Scenario),
    Multics(multics::Scenario),
}

/// Returns the text of the scenario in `file`, by default the built-in one.
pub(super) fn text(paper: Paper, file: Option<&Path>) -> io::Result<String> {
    file.map_or_else(|| Ok(built_in(paper).to_owned()), std::fs::read_to_string)
}

/// Returns the scenario that is part of the program.
pub(super) const fn built_in(paper: Paper) -> &'static str {
    match paper {
        Paper::Tm233 => tm233::Scenario::BUILT_IN,
        Paper::Rfc573 => rfc573::Scenario::BUILT_IN,
        Paper::Rfc594 => rfc594::Scenario::BUILT_IN,
        Paper::Multics => multics::Scenario::BUILT_IN,
    }
}

impl Scenario {
    /// Parses the scenario and checks that an experiment can run with it.
    pub(super) fn read(paper: Paper, text: &str) -> Result<Self> {
        let scenario = match paper {
            Paper::Tm233 => Self::Tm233(parse_toml(text)?),
            Paper::Rfc573 => Self::Rfc573(parse_toml(text)?),
            Paper::Rfc594 => Self::Rfc594(parse_toml(text)?),
            Paper::Multics => Self::Multics(parse_toml(text)?),
        };
        match &scenario {
            Self::Tm233(scenario) => scenario.check()?,
            Self::Rfc573(scenario) => {
                scenario.check()?;
                transfers::check(scenario)?;
            }
            Self::Rfc594(scenario) => scenario.check()?,
            Self::Multics(scenario) => scenario.check()?,
        }
        Ok(scenario)
    }

    /// Runs the experiment.
    pub(super) fn run(&self) -> Result<Experiment> {
        Ok(match self {
            Self::Tm233(scenario) => {
                let tm233::Results { tables, pictures } = tm233::results(scenario)?;
                Experiment {
                    scenario: "tm233",
                    source: "1982",
                    introduction: TM233,
                    tables,
                    pictures,
                }
            }
            Self::Rfc573(scenario) => {
                let mut tables = rfc573::tables(scenario);
                tables.extend(transfers::tables(scenario)?);
                Experiment {
                    scenario: "rfc573",
                    source: "1973",
                    introduction: RFC573,
                    tables,
                    pictures: Vec::new(),
                }
            }
            Self::Rfc594(scenario) => Experiment {
                scenario: "rfc594",
                source: "1973",
                introduction: RFC594,
                tables: rfc594::tables(scenario),
                pictures: Vec::new(),
            },
            Self::Multics(scenario) => Experiment {
                scenario: "multics",
                source: "memo",
                introduction: MULTICS,
                tables: multics::tables(scenario),
                pictures: Vec::new(),
            },
        })
    }
}

/// Parses TOML; an error message is one sentence with the line number.
fn parse_toml<S: DeserializeOwned>(text: &str) -> Result<S> {
    toml::from_str(text).map_err(|error| {
        let message = error.message().replace('\n', "; ");
        let text_before = error.span().and_then(|span| text.get(..span.start));
        match text_before {
            Some(text_before) => {
                anyhow!("line {}: {message}", text_before.matches('\n').count() + 1)
            }
            None => anyhow!("{message}"),
        }
    })
}
