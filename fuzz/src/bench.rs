//! Provides engines with a manually advanced clock, a random number generator with a fixed seed,
//! and a meter.

use protocols::chance::Chance;
use protocols::meter::{Clock, Meter};
use protocols::time::Duration;
use protocols::{Cx, Instant};

/// Owner of the values that a [`Cx`] borrows.
pub struct Bench {
    /// Time passed to the next call.
    pub now: Instant,
    /// Meter that the engines charge.
    pub meter: Meter,
    chance: Chance,
}

impl Default for Bench {
    fn default() -> Self {
        let (meter, chance) = (Meter::new(Clock::None), Chance::from_seed(1));
        Self { now: Instant::ZERO, meter, chance }
    }
}

impl Bench {
    /// Returns a [`Cx`] that borrows this bench.
    pub fn cx(&mut self) -> Cx<'_> {
        Cx { now: self.now, chance: &mut self.chance, meter: &mut self.meter }
    }

    /// Advances the time by `millis`.
    pub fn advance_millis(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
    }

    /// Advances the time to `deadline` unless that is past.
    pub fn advance_to(&mut self, deadline: Option<Instant>) {
        self.now = self.now.max(deadline.unwrap_or(self.now));
    }
}
