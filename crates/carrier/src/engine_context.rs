//! Context that a driver passes to the engines: clock, random number generator and meter.

use crate::meters::{MeterRegistry, Registration};
use anyhow::Result;
use net::Cx;
use net::meter::{Account, Clock, Meter};
use net::rng::Rng;
use os::clock::Monotonic;
use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Context that the driver of a session passes to its engines.
#[derive(Debug)]
pub struct EngineContext {
    /// Monotonic clock, started with the session.
    pub clock: Monotonic,
    /// Meter of the session.
    pub meter: Meter,
    /// Random number generator, seeded by the operating system.
    pub rng: Rng,
    /// Registration of the meter on a [`MeterRegistry`], if it is published.
    registration: Option<Registration>,
}

impl EngineContext {
    /// Creates a context. The meter runs only if `is_metered`.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system provides no entropy.
    pub fn new(is_metered: bool) -> Result<Self> {
        let meter = if is_metered {
            Meter::new(Clock::Counter(os::clock::counter()))
        } else {
            Meter::off()
        };
        Ok(Self {
            clock: Monotonic::start(),
            meter,
            rng: Rng::from_seed(os::entropy::seed()?),
            registration: None,
        })
    }

    /// Creates a context whose meter is published on `registry` under `name` until the context is
    /// dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system provides no entropy.
    pub fn published(registry: &Arc<MeterRegistry>, name: &'static str) -> Result<Self> {
        let mut context = Self::new(is_metered())?;
        context.registration = Some(registry.register(name, &context.meter));
        Ok(context)
    }

    /// Returns a [`Cx`] with the current time, the random number generator and the meter.
    pub fn cx(&mut self) -> Cx<'_> {
        Cx { now: self.clock.now(), rng: &mut self.rng, meter: &mut self.meter }
    }
}

/// An [`EngineContext`] borrowed from a shared cell. While the context is borrowed, the meter
/// charges time to the application; the protocol layers still charge their own time to their own
/// accounts.
#[derive(Debug)]
pub struct BorrowedContext<'a> {
    context: RefMut<'a, EngineContext>,
    previous_account: Account,
}

impl<'a> BorrowedContext<'a> {
    /// Borrows the context from `cell`. From now on the meter charges time to the application.
    pub fn from(cell: &'a RefCell<EngineContext>) -> Self {
        let mut context = cell.borrow_mut();
        let previous_account = context.meter.enter(Account::Application);
        Self { context, previous_account }
    }
}

impl Deref for BorrowedContext<'_> {
    type Target = EngineContext;

    fn deref(&self) -> &EngineContext {
        &self.context
    }
}

impl DerefMut for BorrowedContext<'_> {
    fn deref_mut(&mut self) -> &mut EngineContext {
        &mut self.context
    }
}

impl Drop for BorrowedContext<'_> {
    fn drop(&mut self) {
        self.context.meter.enter(self.previous_account);
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
        let clock = Monotonic::start();
        let from = ticks();
        while clock.now().as_nanos() < nanos {}
        ticks() - from
    }

    /// Returns the relative error of the time that the meter charges for a delay of `nanos`
    /// nanoseconds.
    fn error_of(nanos: u64) -> f64 {
        let cell = RefCell::new(EngineContext::new(true).unwrap());
        let borrowed = BorrowedContext::from(&cell);
        let work_ticks = work(nanos);
        drop(borrowed);
        let charged_ticks = cell.borrow().meter.charged(Account::Application);
        charged_ticks.abs_diff(work_ticks) as f64 / work_ticks as f64
    }

    #[test]
    fn a_delay_while_the_context_is_borrowed_is_charged_to_the_application() {
        for nanos in [100_000, 1_000_000] {
            // The meter charges the time of an interrupt to the account that is active at that
            // moment. The smallest error of several runs is therefore the error of the meter.
            let best = (0..40).map(|_| error_of(nanos)).min_by(f64::total_cmp).unwrap();
            assert!(best <= 0.05, "{nanos} ns: {best}");
        }
    }
}
