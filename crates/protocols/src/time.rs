//! The engines' time: nanoseconds since the run began.
//!
//! `std::time::Instant` cannot be made from a number, so a test would need a base to count from;
//! this one can, and a driver converts at the edge.

use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, Sub};
pub use core::time::Duration;

/// A moment, in nanoseconds since the start of the run.
///
/// It is kept as one more than that: so `Option<Instant>`, of which a connection has many, is no
/// larger than a moment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(NonZeroU64);

impl Instant {
    /// The start of the run.
    pub const ZERO: Self = Self(NonZeroU64::MIN);

    /// Returns the moment `nanos` after the start of the run, at most 584 years.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    /// Returns the nanoseconds since the start of the run.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// Returns the time from `earlier` to this moment, or zero if it is the later one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(later.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl Default for Instant {
    fn default() -> Self {
        Self::ZERO
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Instant").field(&self.as_nanos()).finish()
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.as_nanos();
        write!(f, "{}.{:09} s", nanos / 1_000_000_000, nanos % 1_000_000_000)
    }
}
