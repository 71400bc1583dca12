//! Scenarios: the assumptions of each experiment, as a TOML file.

use crate::experiment::Experiment;
use crate::limits::OutOfRange;
use crate::rfc573::{stratum_transfers, survey_tables, transfer_tables};
use crate::{multics, rfc573, rfc594, tm233};
use serde::de::DeserializeOwned;
use simulator::Stuck;
use std::{error, fmt};

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
pub enum Paper {
    /// TM-233, chapter 6.
    Tm233,
    /// RFC 573.
    Rfc573,
    /// RFC 594.
    Rfc594,
    /// The memo on the Network Daemon of Multics.
    Multics,
}

/// Assumptions of one experiment.
#[derive(Debug)]
pub enum Scenario {
    /// Assumptions for TM-233.
    Tm233(Box<tm233::Scenario>),
    /// Assumptions for RFC 573.
    Rfc573(Box<rfc573::Scenario>),
    /// Assumptions for RFC 594.
    Rfc594(rfc594::Scenario),
    /// Assumptions for the memo on Multics.
    Multics(multics::Scenario),
}

/// Reason why a scenario cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScenarioError {
    /// The text is not TOML, or its keys or types are not those of the scenario.
    Toml {
        /// Number of the line, if it is known.
        line: Option<usize>,
        /// Description of the error, in one line.
        message: String,
    },
    /// A value is outside its permitted range.
    OutOfRange(OutOfRange),
    /// A transfer of RFC 573 has a host that the scenario does not have.
    Transfer(rfc573::Failure),
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Toml { line: Some(line), message } => write!(f, "line {line}: {message}"),
            Self::Toml { line: None, message } => f.write_str(message),
            Self::OutOfRange(error) => error.fmt(f),
            Self::Transfer(failure) => failure.fmt(f),
        }
    }
}

impl error::Error for ScenarioError {}

impl From<OutOfRange> for ScenarioError {
    fn from(error: OutOfRange) -> Self {
        Self::OutOfRange(error)
    }
}

impl From<rfc573::Failure> for ScenarioError {
    fn from(failure: rfc573::Failure) -> Self {
        Self::Transfer(failure)
    }
}

/// Reason why an experiment has no results.
#[derive(Debug)]
pub enum ExperimentError {
    /// No event was left before the end of a run.
    Stuck(Stuck),
    /// The tables of the transfers of RFC 573 cannot be computed.
    Transfers(rfc573::TransferTableError),
}

impl fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stuck(stuck) => stuck.fmt(f),
            Self::Transfers(error) => error.fmt(f),
        }
    }
}

impl error::Error for ExperimentError {}

impl From<Stuck> for ExperimentError {
    fn from(stuck: Stuck) -> Self {
        Self::Stuck(stuck)
    }
}

impl From<rfc573::TransferTableError> for ExperimentError {
    fn from(error: rfc573::TransferTableError) -> Self {
        Self::Transfers(error)
    }
}

/// Returns the scenario that is part of the program.
#[must_use]
pub const fn built_in(paper: Paper) -> &'static str {
    match paper {
        Paper::Tm233 => tm233::Scenario::BUILT_IN,
        Paper::Rfc573 => rfc573::Scenario::BUILT_IN,
        Paper::Rfc594 => rfc594::Scenario::BUILT_IN,
        Paper::Multics => multics::Scenario::BUILT_IN,
    }
}

impl Scenario {
    /// Parses the scenario and checks that an experiment can run with it.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a scenario of the paper, or if a value is outside its
    /// permitted range.
    pub fn read(paper: Paper, text: &str) -> Result<Self, ScenarioError> {
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
                stratum_transfers::check(&scenario.strata)?;
                transfer_tables::check_hosts(scenario)?;
            }
            Self::Rfc594(scenario) => scenario.check()?,
            Self::Multics(scenario) => scenario.check()?,
        }
        Ok(scenario)
    }

    /// Runs the experiment.
    ///
    /// # Errors
    ///
    /// Returns an error if a run stops making progress, or if the transfers of RFC 573 fail.
    pub fn run(&self) -> Result<Experiment, ExperimentError> {
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
                let mut tables = survey_tables::tables(scenario);
                tables.extend(transfer_tables::tables(scenario)?);
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
fn parse_toml<S: DeserializeOwned>(text: &str) -> Result<S, ScenarioError> {
    toml::from_str(text).map_err(|error| {
        let message = error.message().replace('\n', "; ");
        let text_before = error.span().and_then(|span| text.get(..span.start));
        let line = text_before.map(|text_before| text_before.matches('\n').count() + 1);
        ScenarioError::Toml { line, message }
    })
}
