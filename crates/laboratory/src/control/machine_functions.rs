//! Functions of the machine on which the experiments in real time run.

use net::checksum::Routines;
use net::time::Instant;

/// Clocks of the machine, and its checksum routines.
#[derive(Clone, Copy)]
pub struct MachineFunctions<'a> {
    /// Returns the time since the start of the run.
    pub now: &'a dyn Fn() -> Instant,
    /// Returns the reading of a counter that runs all the time, in ticks.
    pub counter: fn() -> u64,
    /// Returns the duration of a number of ticks, in nanoseconds.
    pub nanos_of: &'a dyn Fn(u64) -> u64,
    /// Checksum routines for the processor.
    pub routines: Routines,
}
