//! Discrete-event simulation in virtual time: lines with rate, delay and faults, and hosts with
//! processing time. This crate uses only the public API of `net`.
//!
//! A [`World`] has two hosts and the line between them. It processes events in order of time. Runs
//! with the same seed are identical to the nanosecond.

pub mod clock;
pub mod dumbbell;
pub mod faults;
pub mod goodput;
mod host;
pub mod medium;
mod side;
pub mod soak;
pub mod star;
pub mod transmission_line;
mod world;

pub use host::{Host, seed_of};
pub use side::Side;
pub use world::{Stuck, World};
