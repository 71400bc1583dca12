//! Pluggable media between two hosts, for behavior beyond that of a line.

use crate::world::Side;
use protocols::chance::Chance;
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
        chance: &mut Chance,
    ) -> Vec<Arrival>;

    /// Returns the time of its next own event, if it has one.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Processes due events, and returns the resulting arrivals.
    fn timeout(&mut self, _now: Instant, _chance: &mut Chance) -> Vec<Arrival> {
        Vec::new()
    }
}
