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
        let meter =
            if is_metered { Meter::new(Clock::Counter(os::clock::ticks)) } else { Meter::off() };
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
