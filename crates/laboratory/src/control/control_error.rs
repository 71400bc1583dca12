//! Reasons why the experiments with control structures have no results.

use control::SpawnError;
use simulator::Stuck;
use std::{error, fmt};

/// Reason why an experiment has no result.
#[derive(Debug)]
pub enum ControlError {
    /// A control structure could not be created.
    Spawn(SpawnError),
    /// No event was left before the end of a run in virtual time.
    Stuck(Stuck),
    /// The two hosts in one process cannot connect to each other with the named control structure.
    NotConnected(&'static str),
    /// The answer to a key has not arrived, or not as it was sent.
    WrongAnswer {
        /// Number of bytes that arrived.
        received_bytes: usize,
        /// Number of bytes that the server sends.
        expected_bytes: usize,
    },
    /// There are no rounds to compute a median from.
    NoRound,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spawn(error) => error.fmt(f),
            Self::Stuck(stuck) => stuck.fmt(f),
            Self::NotConnected(structure) => {
                write!(f, "the two hosts do not connect: {structure}")
            }
            Self::WrongAnswer { received_bytes, expected_bytes } => {
                write!(f, "received {received_bytes} of {expected_bytes} bytes")
            }
            Self::NoRound => f.write_str("no round was measured"),
        }
    }
}

impl error::Error for ControlError {}

impl From<SpawnError> for ControlError {
    fn from(error: SpawnError) -> Self {
        Self::Spawn(error)
    }
}

impl From<Stuck> for ControlError {
    fn from(stuck: Stuck) -> Self {
        Self::Stuck(stuck)
    }
}
