//! Discrete-event simulation in virtual time: lines with rate, delay and faults, hosts with
//! processing time, and the scenarios of four papers (TM-233, RFC 573, RFC 594, and a memo on
//! Multics). This crate uses only the public API of `protocols`.
//!
//! A [`World`] has two hosts and the line between them. It processes events in order of time. Runs
//! with the same seed are identical to the nanosecond.

pub mod clock;
pub mod concentrator;
pub mod dumbbell;
pub mod faults;
pub mod goodput;
mod host;
mod limits;
pub mod medium;
pub mod multics;
pub mod picture;
pub mod rfc573;
pub mod rfc594;
mod sample;
mod side;
pub mod soak;
pub mod table;
pub mod tm233;
pub mod transmission_line;
mod world;

pub use host::Host;
pub use limits::OutOfRange;
pub use side::Side;
pub use world::{Stuck, World};
