//! What is between two hosts beyond a line: anything that may happen to what one of them sends.

use crate::world::Side;
use protocols::chance::Chance;
use protocols::time::Instant;
use std::fmt;

/// Something that reaches a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Whom.
    pub to: Side,
    /// When; not before it was sent.
    pub at: Instant,
    /// What.
    pub bytes: Vec<u8>,
}

/// Decides what becomes of what is sent.
pub trait Medium: fmt::Debug {
    /// Takes what `from` has sent, whose last bit left at `sent_at`, and returns what arrives,
    /// at either host.
    fn carry(
        &mut self,
        from: Side,
        sent_at: Instant,
        bytes: Vec<u8>,
        chance: &mut Chance,
    ) -> Vec<Arrival>;

    /// Returns when it has something to do next by itself, if it ever has.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Does what is due, and returns what arrives.
    fn timeout(&mut self, _now: Instant, _chance: &mut Chance) -> Vec<Arrival> {
        Vec::new()
    }
}
