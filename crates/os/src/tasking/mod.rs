//! Control structures: three ways to schedule the steps that have something to do.
//!
//! # Theory of operation
//!
//! Chapter 4 of TM-233 compares two control structures. Both have a ring in which each position has
//! an event flag. The flag is set when the position has work, and cleared when its turn comes. The
//! ring is served round robin. The structures differ in the contents of a position:
//!
//! | | at a position | a turn begins when | the turn ends when | may stop in the middle |
//! |---|---|---|---|---|
//! | [`Procedures`] | a procedure | it is called | it returns | no |
//! | [`Tasks`] | a stack | it is switched to | it blocks | anywhere |
//! | [`Futures`] | a state | it is polled | it is pending | at an `await` |
//!
//! The first two are those of the thesis (§4.2.2, §4.2.3), the third is the usual one in Rust.
//! [`StationControl`] runs the steps of a station with any of them, and [`Signals`] sets event
//! flags when descriptors are ready or timers expire.
//!
//! # The shared value
//!
//! All procedures, tasks or futures of a ring work on one value of type `T`, which [`Ring::run`]
//! shares for the duration of the call. Only one position runs at a time, so its access is
//! exclusive. A task cannot keep the value: it borrows the value from its [`Task`], which it needs
//! to block.
//!
//! # The two improvements of §7.1
//!
//! - *A switch in one call* is [`Switch::Direct`]: the routine that blocks selects the next task
//!   and switches to its stack directly. With [`Switch::ByRing`] it switches back to the ring, and
//!   the ring to the next task. The direct switch is implemented here, for x86_64; the other one
//!   uses corosensei.
//! - *Sending as a procedure in the user task* is [`Structure::sends_in_user`].
//!
//! # Limits
//!
//! A ring has [`POSITIONS_MAX`] positions. A stack has an inaccessible guard page below it, so a
//! task that overflows its stack terminates the process and corrupts nothing. A panic of a task
//! resumes in [`Ring::run`], and the task has then ended. Dropping a ring unwinds the stacks of its
//! tasks.

mod flags;
mod futures;
mod procedures;
mod signals;
mod station;
#[cfg(test)]
mod station_tests;
#[cfg(target_arch = "x86_64")]
mod swap;
mod tasks;
#[cfg(test)]
mod tests;

pub use flags::{Flags, POSITIONS_MAX, Wake};
pub use futures::{FutureHandle, Futures, SharedFlags};
pub use procedures::{Procedure, Procedures};
pub use signals::Signals;
pub use station::{Kind, StationControl, Structure};
pub use tasks::{STACK_LEN, Switch, Task, Tasks};

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
