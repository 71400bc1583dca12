//! Pluggable media between two hosts, for behavior beyond that of a line.

use crate::world::Side;
use protocols::rng::Rng;
use protocols::time::Instant;
use std::fmt;

/// Data that arrives at a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Receiving host.
    pub to: Side,
    /// Arrival time, not before the data was sent.
    pub at: Instant,
    /// Data.
    pub bytes: Vec<u8>,
}

/// Determines the delivery of data sent by either host.
pub trait Medium: fmt::Debug {
    /// Takes data that `from` sent, whose last bit left at `sent_at`, and returns the resulting
    /// arrivals at either host.
    fn carry(
        &mut self,
        from: Side,
        sent_at: Instant,
        bytes: Vec<u8>,
        rng: &mut Rng,
    ) -> Vec<Arrival>;

    /// Returns the time of the next event of the medium itself, if one is scheduled.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Processes due events, and returns the resulting arrivals.
    fn timeout(&mut self, _now: Instant, _rng: &mut Rng) -> Vec<Arrival> {
        Vec::new()
    }
}
