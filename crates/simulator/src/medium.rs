//! The trait of networks between two hosts that a line cannot model.

use crate::side::Side;
use net::rng::Rng;
use net::time::Instant;
use std::fmt;

/// Data that arrives at a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Receiving host.
    pub to: Side,
    /// Arrival time; not earlier than the time of sending.
    pub at: Instant,
    /// The bytes that arrive.
    pub bytes: Vec<u8>,
}

/// A network between two hosts, which determines the arrival of sent data.
pub trait Medium: fmt::Debug {
    /// Receives data that `from` has sent; its last bit was sent at `sent_at`. Returns the
    /// resulting arrivals at both hosts.
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
