//! The environment of an engine call: the current time, the random number generator and the meter.

use crate::meter::Meter;
use crate::rng::Rng;
use crate::time::Instant;

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

/// A test context that owns the time, the random number generator and the meter of a [`Cx`]. Tests
/// advance its time explicitly.
#[cfg(test)]
#[allow(dead_code, reason = "no layer's tests use all of these functions")]
pub(crate) mod testing {
    use super::*;
    use crate::meter::{Clock, Counter, Quantity};
    use crate::time::Duration;

    #[derive(Debug)]
    pub(crate) struct TestContext {
        pub(crate) now: Instant,
        pub(crate) rng: Rng,
        pub(crate) meter: Meter,
    }

    impl Default for TestContext {
        fn default() -> Self {
            Self::with_seed(1)
        }
    }

    impl TestContext {
        pub(crate) fn with_seed(seed: u64) -> Self {
            let rng = Rng::from_seed(seed);
            Self { now: Instant::ZERO, rng, meter: Meter::new(Clock::None) }
        }

        pub(crate) fn cx(&mut self) -> Cx<'_> {
            Cx { now: self.now, rng: &mut self.rng, meter: &mut self.meter }
        }

        pub(crate) fn advance(&mut self, time: Duration) {
            self.now = self.now + time;
        }

        pub(crate) fn advance_millis(&mut self, millis: u64) {
            self.advance(Duration::from_millis(millis));
        }

        pub(crate) fn counted(&self, counter: Counter) -> u64 {
            self.meter.counted(counter)
        }

        pub(crate) fn recorded(&self, quantity: Quantity) -> u64 {
            self.meter.distribution(quantity).count()
        }
    }
}
