//! The interface common to all rings, and the error of adding a position.

use crate::flags::{POSITIONS_MAX, Wake};
use std::{error, fmt, io};

/// Interface common to all three rings.
pub trait Ring<T>: Wake {
    /// Gives a turn to the next position whose event flag is set, and returns that position; `None`
    /// if no flag is set. Flags of empty positions and of ended tasks are ignored.
    fn run_one(&mut self, value: &mut T) -> Option<usize>;

    /// Gives turns until no event flag is set.
    fn run(&mut self, value: &mut T) {
        while self.run_one(value).is_some() {}
    }
}

/// Reason for which a position could not be added.
#[derive(Debug)]
pub enum SpawnError {
    /// The ring already has [`POSITIONS_MAX`] positions.
    Full,
    /// The system has no memory for a stack.
    NoStack(io::Error),
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => write!(f, "a ring has at most {POSITIONS_MAX} positions"),
            Self::NoStack(error) => write!(f, "no memory for the stack of a task: {error}"),
        }
    }
}

impl error::Error for SpawnError {}
