//! Control structures: three ways to bring the processor to whoever has something to do.
//!
//! # Theory of operation
//!
//! Chapter 4 of TM-233 weighs two of them. Both have a ring: each place in it has an event flag,
//! which is set by whoever has something for it, and is cleared when its turn comes. The ring is
//! walked round robin. What differs is what lies at a place:
//!
//! | | at a place | a turn | ends when | may stop in the middle |
//! |---|---|---|---|---|
//! | [`Procedures`] | a procedure | it is called | it returns | no |
//! | [`Tasks`] | a stack | it is switched to | it blocks | anywhere |
//! | [`Futures`] | a state | it is polled | it is pending | at an `await` |
//!
//! The first two are the thesis's (§4.2.2, §4.2.3), the third is how it is done in Rust today.
//! [`StationControl`] runs the steps of a station by any of them, and [`Signals`] sets event flags
//! when descriptors are ready or a time has come.
//!
//! # What is lent
//!
//! All that runs in a ring works on one thing of type `T`, which [`Ring::run`] lends it for as long
//! as the call lasts. Only one runs at a time, so it has it for itself. A task cannot keep it: it
//! borrows it from its [`Task`], which it needs to block.
//!
//! # The two improvements of §7.1
//!
//! - *A switch in one call* is [`Switch::Direct`]: the routine that blocks finds the next task and
//!   goes to its stack at once. With [`Switch::ByRing`] it goes back to the ring, and the ring to
//!   the next task. The first is ours, for x86_64; the second is corosensei's.
//! - *Sending as a procedure in the user task* is [`Structure::sends_in_user`].
//!
//! # Limits
//!
//! A ring has [`PLACES_MAX`] places. A stack has a page below it that nobody may touch, so a task
//! that overflows its stack ends the process and damages nothing. What a task panics with comes out
//! of [`Ring::run`], and that task has ended. A ring that is dropped unwinds the stacks of its
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

pub use flags::{Flags, PLACES_MAX, Wake};
pub use futures::{Futures, Loan, SharedFlags};
pub use procedures::{Procedure, Procedures};
pub use signals::Signals;
pub use station::{Kind, StationControl, Structure};
pub use tasks::{STACK_LEN, Switch, Task, Tasks};

use std::{error, fmt, io};

/// What all three have in common.
pub trait Ring<T>: Wake {
    /// Gives the next place whose event flag is set its turn, and returns it; None if there is
    /// none. Flags of places where nothing is, or whose task has ended, are nobody's.
    fn run_one(&mut self, lent: &mut T) -> Option<usize>;

    /// Gives turns until no event flag is set.
    fn run(&mut self, lent: &mut T) {
        while self.run_one(lent).is_some() {}
    }
}

/// Why there is no further place.
#[derive(Debug)]
pub enum SpawnError {
    /// The ring has [`PLACES_MAX`] already.
    Full,
    /// The system has no memory for a stack.
    NoStack(io::Error),
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => write!(f, "a ring has no more than {PLACES_MAX} places"),
            Self::NoStack(error) => write!(f, "no memory for the stack of a task: {error}"),
        }
    }
}

impl error::Error for SpawnError {}
