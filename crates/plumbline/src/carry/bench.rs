//! Context that a driver passes to the engines: clock, random number generator and meter.

use crate::meters::{Registry, Shown};
use anyhow::Result;
use os::clock::Monotonic;
use protocols::Cx;
use protocols::chance::Chance;
use protocols::meter::{Account, Clock, Meter};
use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Context that the driver of a session passes to its engines.
#[derive(Debug)]
pub(crate) struct Bench {
    /// Monotonic clock, started with the session.
    pub clock: Monotonic,
    /// Meter of the session.
    pub meter: Meter,
    /// Random number generator, seeded by the operating system.
    pub chance: Chance,
    /// Registration of the meter on a [`Registry`], if it is published.
    shown: Option<Shown>,
}

impl Bench {
    /// Creates a context. The meter runs only if `is_metered`.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system provides no entropy.
    pub(crate) fn new(is_metered: bool) -> Result<Self> {
        let meter = if is_metered {
            Meter::new(Clock::Counter(os::clock::counter()))
        } else {
            Meter::off()
        };
        Ok(Self {
            clock: Monotonic::start(),
            meter,
            chance: Chance::from_seed(os::entropy::seed()?),
            shown: None,
        })
    }

    /// Creates a context whose meter is published on `board` under `name` until the context is
    /// dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system provides no entropy.
    pub(crate) fn shown_on(board: &Arc<Registry>, name: &'static str) -> Result<Self> {
        let mut bench = Self::new(is_metered())?;
        bench.shown = Some(board.show(name, &bench.meter));
        Ok(bench)
    }

    /// Returns a [`Cx`] with the current time, the random number generator and the meter.
    pub(crate) fn cx(&mut self) -> Cx<'_> {
        Cx { now: self.clock.now(), chance: &mut self.chance, meter: &mut self.meter }
    }
}

/// A [`Bench`] borrowed by one of several users. Until it is returned, time is charged to the
/// application, except for what the layers charge to their own accounts.
#[derive(Debug)]
pub(crate) struct Lent<'a> {
    bench: RefMut<'a, Bench>,
    left: Account,
}

impl<'a> Lent<'a> {
    /// Borrows the context from its cell and starts to charge the application.
    pub(crate) fn from(cell: &'a RefCell<Bench>) -> Self {
        let mut bench = cell.borrow_mut();
        let left = bench.meter.enter(Account::Application);
        Self { bench, left }
    }
}

impl Deref for Lent<'_> {
    type Target = Bench;

    fn deref(&self) -> &Bench {
        &self.bench
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Bench {
        &mut self.bench
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.bench.meter.enter(self.left);
    }
}

/// Returns whether sessions are metered. The environment variable `PLUMB_METER=off` disables the
/// meter, for the benchmark of the meter itself.
#[must_use]
fn is_metered() -> bool {
    std::env::var_os("PLUMB_METER").is_none_or(|value| value != "off")
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::clock::ticks;

    /// Busy-waits for `nanos` nanoseconds and returns the ticks that passed.
    fn work(nanos: u64) -> u64 {
        let (clock, from) = (Monotonic::start(), ticks());
        while clock.now().as_nanos() < nanos {}
        ticks() - from
    }

    /// Returns the relative error of the charge for a delay of `nanos` nanoseconds.
    fn error_of(nanos: u64) -> f64 {
        let cell = RefCell::new(Bench::new(true).unwrap());
        let lent = Lent::from(&cell);
        let spent = work(nanos);
        drop(lent);
        let charged = cell.borrow().meter.charged(Account::Application);
        charged.abs_diff(spent) as f64 / spent as f64
    }

    #[test]
    fn a_delay_while_the_bench_is_lent_is_charged_to_the_application() {
        for nanos in [100_000, 1_000_000] {
            // An interrupt is charged to the account that it interrupts. The smallest error of
            // several runs is therefore the error of the meter.
            let best = (0..40).map(|_| error_of(nanos)).min_by(f64::total_cmp).unwrap();
            assert!(best <= 0.05, "{nanos} ns: {best}");
        }
    }
}
