//! Lends engines time that is moved by hand, chance from a fixed seed, and a meter.

use protocols::chance::Chance;
use protocols::meter::{Clock, Meter};
use protocols::time::Duration;
use protocols::{Cx, Instant};

/// Owns what a [`Cx`] lends.
pub struct Bench {
    /// The time of the next call.
    pub now: Instant,
    /// The meter.
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
    /// Lends it.
    pub fn cx(&mut self) -> Cx<'_> {
        Cx { now: self.now, chance: &mut self.chance, meter: &mut self.meter }
    }

    /// Moves time on by `millis`.
    pub fn advance_millis(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
    }

    /// Moves time on to `deadline`, if it is not past.
    pub fn advance_to(&mut self, deadline: Option<Instant>) {
        self.now = self.now.max(deadline.unwrap_or(self.now));
    }
}
