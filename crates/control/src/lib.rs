//! Control structures: three ways to schedule the steps that have something to do.
//!
//! The steps are those of a station of [`net`]. Devices, clocks and the wait for readiness come
//! from [`os`]; a program passes them to [`Signals`].
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
//!
//! # Unsafe code
//!
//! Control passes from one position to another in the middle of a call, which the borrow checker
//! cannot follow. Two things are therefore unsafe, and nothing else in this crate:
//!
//! - *The switch of stacks* (`swap`, `direct`): processor registers are saved on the stack that is
//!   left and loaded from the stack that is entered. A context is entered once, and its stack exists
//!   until its task has ended.
//! - *The shared value across a switch* (`tasks`, `futures`, `station`): a position reaches the
//!   value through a pointer, because no borrow lasts across a switch. The pointer is made from the
//!   exclusive borrow of the caller of [`Ring::run`], and exists only until control returns there.

#![deny(unsafe_code)]

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "tasks that switch to each other's stacks")]
mod direct;
mod flags;
#[expect(unsafe_code, reason = "a polled future reaches the value that the caller shares")]
mod futures;
mod procedures;
mod ring;
mod signals;
mod stack;
#[expect(unsafe_code, reason = "steps reach the station that the caller shares")]
mod station;
#[cfg(test)]
mod station_tests;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the switch from one stack to another")]
mod swap;
#[expect(unsafe_code, reason = "a running task reaches the value that the caller shares")]
mod tasks;
#[cfg(test)]
mod tests;

pub use flags::{Flags, POSITIONS_MAX, Wake};
pub use futures::{FutureHandle, Futures, SharedFlags};
pub use procedures::{Procedure, Procedures};
pub use ring::{Ring, SpawnError};
pub use signals::Signals;
pub use stack::STACK_LEN;
pub use station::{Kind, StationControl, Structure};
pub use tasks::{Switch, Task, Tasks};
