//! Provides engines with a manually advanced clock, a random number generator with a fixed seed,
//! and a meter.

use net::meter::{Clock, Meter};
use net::rng::Rng;
use net::time::Duration;
use net::{Cx, Instant};

/// Owner of the values that a [`Cx`] borrows.
pub struct Bench {
    /// Time passed to the next call.
    pub now: Instant,
    /// Meter that the engines charge.
    pub meter: Meter,
    rng: Rng,
}

impl Default for Bench {
    fn default() -> Self {
        let meter = Meter::new(Clock::None);
        let rng = Rng::from_seed(1);
        Self { now: Instant::ZERO, meter, rng }
    }
}

impl Bench {
    /// Returns a [`Cx`] that borrows this bench.
    pub fn cx(&mut self) -> Cx<'_> {
        Cx { now: self.now, rng: &mut self.rng, meter: &mut self.meter }
    }

    /// Advances the time by `millis`.
    pub fn advance_millis(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
    }

    /// Advances the time to `deadline`; a `deadline` in the past changes nothing.
    pub fn advance_to(&mut self, deadline: Option<Instant>) {
        self.now = self.now.max(deadline.unwrap_or(self.now));
    }
}
