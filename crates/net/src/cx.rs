//! The environment of an engine call: the current time, the random number generator and the meter.

use crate::meter::{Clock, Counter, Meter, Quantity};
use crate::rng::Rng;
use crate::time::{Duration, Instant};

/// Lends an engine the time, the random number generator and the meter for the duration of one
/// call.
#[derive(Debug)]
pub struct Cx<'a> {
    /// The time of this call. It is constant during the call.
    pub now: Instant,
    /// The random number generator.
    pub rng: &'a mut Rng,
    /// The meter in which the call counts and records its work.
    pub meter: &'a mut Meter,
}

/// Owns what a [`Cx`] lends. The time advances only when the owner advances it, which is what a test
/// or a simulation needs; a driver sets `now` from its clock before each call.
#[derive(Debug)]
pub struct OwnedCx {
    /// The time of the next call.
    pub now: Instant,
    /// The random number generator.
    pub rng: Rng,
    /// The meter.
    pub meter: Meter,
}

impl Default for OwnedCx {
    fn default() -> Self {
        Self::with_seed(1)
    }
}

impl OwnedCx {
    /// Creates a context at time zero with a random number generator of this seed, and a meter that
    /// counts but measures no time.
    #[must_use]
    pub fn with_seed(seed: u64) -> Self {
        let rng = Rng::from_seed(seed);
        Self { now: Instant::ZERO, rng, meter: Meter::new(Clock::None) }
    }

    /// Lends the context for one call.
    pub fn cx(&mut self) -> Cx<'_> {
        Cx { now: self.now, rng: &mut self.rng, meter: &mut self.meter }
    }

    /// Advances the time.
    pub fn advance(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    /// Advances the time by milliseconds.
    pub fn advance_millis(&mut self, millis: u64) {
        self.advance(Duration::from_millis(millis));
    }

    /// Returns the value of a counter of the meter.
    #[must_use]
    pub fn counted(&self, counter: Counter) -> u64 {
        self.meter.counted(counter)
    }

    /// Returns how often a quantity was recorded in the meter.
    #[must_use]
    pub fn recorded(&self, quantity: Quantity) -> u64 {
        self.meter.distribution(quantity).count()
    }
}
