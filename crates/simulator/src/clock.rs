//! The clock of one host, which may run fast or slow and may jump ahead.

use net::time::{Duration, Instant};

const MILLION: i128 = 1_000_000;

/// A reading of a host's clock. It is a different type than the virtual time of the world, so that
/// the two cannot be subtracted or compared by mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading(pub Instant);

impl Reading {
    /// Returns the time elapsed since an earlier reading of the same clock.
    #[must_use]
    pub const fn since(self, Self(earlier): Self) -> Duration {
        self.0.since(earlier)
    }
}

/// Deviation of a host's clock from the virtual time of the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalClock {
    /// Rate error in parts per million; negative for a slow clock.
    pub gain_ppm: i32,
    /// Time at which the clock jumps ahead, like the clock of a machine that was suspended.
    pub jumps_at: Instant,
    /// Time by which the clock jumps ahead.
    pub jump: Duration,
}

impl LocalClock {
    /// Returns the reading of this clock at the virtual time `at`.
    #[must_use]
    pub fn reading(&self, at: Instant) -> Reading {
        let jump = if at >= self.jumps_at { self.jump } else { Duration::ZERO };
        Reading(self.without_jump(at) + jump)
    }

    /// Returns the first virtual time at which this clock reads at least `reading`.
    #[must_use]
    pub fn time_of(&self, Reading(reading): Reading) -> Instant {
        if *self == Self::default() {
            return reading;
        }
        let time_before_jump = self.time_without_jump(reading);
        if time_before_jump < self.jumps_at {
            return time_before_jump;
        }
        let reading_without_jump = reading.since(Instant::ZERO).saturating_sub(self.jump);
        self.jumps_at.max(self.time_without_jump(Instant::ZERO + reading_without_jump))
    }

    fn without_jump(&self, at: Instant) -> Instant {
        let nanos = i128::from(at.as_nanos()) * (MILLION + i128::from(self.gain_ppm)) / MILLION;
        Instant::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }

    /// Returns the virtual time at which the clock reads `reading`, ignoring the jump.
    fn time_without_jump(&self, reading: Instant) -> Instant {
        let rate = (MILLION + i128::from(self.gain_ppm)).max(1);
        // Rounded up: a timer that fires a nanosecond early would be set again for the same time.
        let nanos = (i128::from(reading.as_nanos()) * MILLION + rate - 1) / rate;
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_deadline_is_met_when_the_clock_first_reads_it(
            gain_ppm in -10_000..10_000_i32,
            jumps_at in 0..1_000_000_000_000_u64,
            jump in 0..100_000_000_000_u64,
            reading in 0..2_000_000_000_000_u64,
        ) {
            let jumps_at = Instant::from_nanos(jumps_at);
            let clock = LocalClock { gain_ppm, jumps_at, jump: Duration::from_nanos(jump) };
            let reading = Reading(Instant::from_nanos(reading));
            let at = clock.time_of(reading);
            prop_assert!(clock.reading(at) >= reading);
            if let Some(before) = at.as_nanos().checked_sub(1) {
                prop_assert!(clock.reading(Instant::from_nanos(before)) < reading);
            }
        }
    }
}
