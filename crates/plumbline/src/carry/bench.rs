//! What a driver lends to the engines: clock, chance and meter.

use crate::meters::{Board, Shown};
use anyhow::Result;
use os::clock::Monotonic;
use protocols::Cx;
use protocols::chance::Chance;
use protocols::meter::{Account, Clock, Meter};
use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// What the driver lends to the engines of a session.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The clock of the run.
    pub clock: Monotonic,
    /// The meter of the session.
    pub meter: Meter,
    /// Chance, seeded by the operating system.
    pub chance: Chance,
    /// The place of the meter on a board.
    shown: Option<Shown>,
}

impl Bench {
    /// Makes a bench whose meter runs, unless `is_metered` says otherwise.
    ///
    /// # Errors
    ///
    /// If the operating system gives no entropy.
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

    /// Does the same, and shows the meter on `board` under `name` for as long as it is there.
    ///
    /// # Errors
    ///
    /// If the operating system gives no entropy.
    pub(crate) fn shown_on(board: &Arc<Board>, name: &'static str) -> Result<Self> {
        let mut bench = Self::new(is_metered())?;
        bench.shown = Some(board.show(name, &bench.meter));
        Ok(bench)
    }

    /// Lends now, chance and the meter.
    pub(crate) fn cx(&mut self) -> Cx<'_> {
        Cx { now: self.clock.now(), chance: &mut self.chance, meter: &mut self.meter }
    }
}

/// A bench that many use by turns. While one does, the time is the application's, but for what the
/// layers charge to themselves.
#[derive(Debug)]
pub(crate) struct Lent<'a> {
    bench: RefMut<'a, Bench>,
    left: Account,
}

impl<'a> Lent<'a> {
    /// Takes the bench out of its cell.
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

/// Returns whether a session is metered: always, but for the benchmark of the meter itself.
#[must_use]
fn is_metered() -> bool {
    std::env::var_os("PLUMB_METER").is_none_or(|value| value != "off")
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::clock::ticks;

    /// Works for so long, and returns the ticks of it.
    fn work(nanos: u64) -> u64 {
        let (clock, from) = (Monotonic::start(), ticks());
        while clock.now().as_nanos() < nanos {}
        ticks() - from
    }

    /// Returns by what part of a delay the charges are not what they have to be.
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
            // An interrupt in between belongs to whom it hits: the best of some is what the meter
            // does.
            let best = (0..40).map(|_| error_of(nanos)).min_by(f64::total_cmp).unwrap();
            assert!(best <= 0.05, "{nanos} ns: {best}");
        }
    }
}
