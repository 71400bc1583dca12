//! The engines' time: nanoseconds since the start of the run.
//!
//! `std::time::Instant` cannot be constructed from a number, so every test would need a start time
//! to count from. [`Instant`] can be constructed from a number; a driver converts between the two.

use core::fmt;
use core::marker::PhantomData;
use core::num::NonZeroU64;
use core::ops::{Add, Sub};
pub use core::time::Duration;

/// A moment, in nanoseconds since the start of the run.
///
/// The stored number is one higher, so that it is never zero, and an `Option<Instant>` is no larger
/// than an `Instant`. A connection has many such options.
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

    /// Returns the time from `earlier` to this moment, or zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

/// The local clock, as the source of a [`Stamp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalClock {}

/// The remote host's clock, as the source of a [`Stamp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteClock {}

/// A reading of one machine's 32-bit clock as it travels between machines (RFC 7323 §5.4). The
/// clock starts at any value and wraps around.
///
/// Readings of two machines' clocks must not be subtracted or compared. The type parameter makes
/// the compiler reject such code.
///
/// ```
/// use plumbline_net::time::{RemoteClock, LocalClock, Stamp};
///
/// let (sent, echoed) = (Stamp::<LocalClock>::new(7), Stamp::<LocalClock>::new(u32::MAX));
/// assert_eq!(sent.since(echoed), 8);
/// assert!(Stamp::<RemoteClock>::new(1).is_before(Stamp::new(2)));
/// ```
///
/// ```compile_fail,E0308
/// use plumbline_net::time::{RemoteClock, LocalClock, Stamp};
///
/// let (ours, theirs) = (Stamp::<LocalClock>::new(7), Stamp::<RemoteClock>::new(5));
/// ours.since(theirs);
/// ```
///
/// ```compile_fail,E0308
/// use plumbline_net::time::{RemoteClock, LocalClock, Stamp};
///
/// let (ours, theirs) = (Stamp::<LocalClock>::new(7), Stamp::<RemoteClock>::new(5));
/// theirs.is_before(ours);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp<Of> {
    ticks: u32,
    of: PhantomData<Of>,
}

impl<Of: Copy> Stamp<Of> {
    /// Creates a reading from the clock's value in ticks.
    #[must_use]
    pub const fn new(ticks: u32) -> Self {
        Self { ticks, of: PhantomData }
    }

    /// Returns the value in ticks, as sent on the wire.
    #[must_use]
    pub const fn ticks(self) -> u32 {
        self.ticks
    }

    /// Returns the ticks from `earlier` to this reading, modulo 2^32.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.ticks.wrapping_sub(earlier.ticks)
    }

    /// Returns whether this reading is earlier than `other`. The comparison is modulo 2^32, so the
    /// readings must be less than 2^31 ticks apart.
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.since(other).cast_signed() < 0
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
