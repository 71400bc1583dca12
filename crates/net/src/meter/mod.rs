//! The meter: counts, distributions, and accounts of CPU time that add up to the total exactly.
//!
//! Engines call [`Meter::count`] and [`Meter::record`] for countable events and measured
//! quantities. CPU time is charged only where a layer is entered, by [`Meter::enter`]: a single
//! reading of the clock ends the previous account and starts the new one, so no time is lost or
//! counted twice. A thread that waits has entered [`Account::Outside`].
//!
//! With virtual time there is no clock to read: [`Meter::work`] reports the work of a layer, and a
//! table of [`Costs`] gives its cost on the simulated machine. With a real clock the same call
//! counts the units, so that a cost per unit can be computed afterwards.
//!
//! The values are stored in a [`CounterBlock`] that other threads may read at any time.

mod counters;
mod distribution;
mod shared_counters;
mod shared_value;
mod snapshot;

pub use counters::{Account, Counter, Quantity, Work};
pub use distribution::Distribution;
pub use shared_counters::CounterBlock;
pub use snapshot::{RecentWindow, Snapshot};

use crate::mutants::{Mutant, is_enabled};
use crate::time::{Duration, Instant};
use alloc::sync::Arc;

/// The source of CPU time.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// No clock: nothing is charged.
    None,
    /// A monotonic tick counter provided by the driver. The unit of the accounts is its tick.
    Counter(fn() -> u64),
    /// No real clock: work is charged at the cost given in the table. The unit of the accounts is
    /// the nanosecond.
    Virtual(Costs),
}

/// Cost of one unit of each kind of work on a simulated machine, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    unit_ns: [u64; Work::COUNT],
}

impl Costs {
    /// Returns the table with the cost of a unit of `work` set.
    #[must_use]
    pub fn with(mut self, work: Work, unit_ns: u64) -> Self {
        if let Some(cost) = self.unit_ns.get_mut(work as usize) {
            *cost = unit_ns;
        }
        self
    }

    /// Returns the cost of a unit of `work`, in nanoseconds.
    #[must_use]
    pub fn unit_ns(&self, work: Work) -> u64 {
        self.unit_ns.get(work as usize).copied().unwrap_or(0)
    }
}

/// Number of transactions after which their totals are recorded as one recent window.
const WINDOW_TRANSACTIONS: u64 = 100;

/// Counts, distributions and accounts of one station or one session.
#[derive(Debug)]
pub struct Meter {
    clock: Clock,
    is_on: bool,
    current: Account,
    /// Clock reading up to which all time has been charged; with a virtual clock, the total time so
    /// far.
    charged_until: u64,
    /// Clock reading at which the current account was entered.
    entered_at: u64,
    counter_block: Arc<CounterBlock>,
}

impl Clone for Meter {
    fn clone(&self) -> Self {
        // The clone counts independently of the original.
        Self { counter_block: Arc::new(CounterBlock::clone(&self.counter_block)), ..*self }
    }
}

impl Meter {
    /// Creates a meter whose current account is [`Account::Outside`].
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        let started = match clock {
            Clock::Counter(read) => read(),
            Clock::None | Clock::Virtual(_) => 0,
        };
        let has_clock = matches!(clock, Clock::Counter(_));
        Self {
            clock,
            is_on: true,
            current: Account::Outside,
            charged_until: started,
            entered_at: started,
            counter_block: Arc::new(CounterBlock::new(started, has_clock)),
        }
    }

    /// Creates a meter whose calls all do nothing, to measure the cost of a run without a meter.
    #[must_use]
    pub fn off() -> Self {
        Self { is_on: false, ..Self::new(Clock::None) }
    }

    /// Returns the values of this meter, for other threads to read while the meter runs.
    #[must_use]
    pub fn counter_block(&self) -> Arc<CounterBlock> {
        Arc::clone(&self.counter_block)
    }

    /// Counts one occurrence.
    pub fn count(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Counts `occurrences` at once.
    pub fn add(&mut self, counter: Counter, occurrences: u64) {
        if self.is_on
            && let Some(total) = self.counter_block.counters.get(counter as usize)
        {
            total.add(occurrences);
        }
    }

    /// Counts a completed transaction. After every hundred transactions, the current totals are
    /// recorded (see [`Snapshot::recent_window`]).
    pub fn transaction(&mut self) {
        self.count(Counter::Transactions);
        let transactions = self.counted(Counter::Transactions);
        if self.is_on && transactions.is_multiple_of(WINDOW_TRANSACTIONS) {
            self.settle();
            let total = self.total();
            self.counter_block.record_recent_window(&RecentWindow {
                transactions,
                wakeups: self.counted(Counter::Wakeups),
                busy: total.saturating_sub(self.charged(Account::Outside)),
                total,
            });
        }
    }

    /// Records one value of a quantity that is a time.
    pub fn record(&mut self, quantity: Quantity, time: Duration) {
        self.record_value(quantity, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Records one value of a quantity in its own unit.
    pub fn record_value(&mut self, quantity: Quantity, value: u64) {
        if self.is_on
            && let Some(distribution) = self.counter_block.distributions.get(quantity as usize)
        {
            distribution.record(value);
        }
    }

    /// Charges the time since the last charge to the current account, and enters `account`. Returns
    /// the previous account, so that the caller can enter it again.
    pub fn enter(&mut self, account: Account) -> Account {
        let previous_account = self.current;
        if !self.is_on {
            return previous_account;
        }
        if account == previous_account {
            self.settle();
            return previous_account;
        }
        if let Clock::Counter(read) = self.clock {
            let (elapsed, visit) = self.advance_clock(read());
            self.counter_block.leave(previous_account, elapsed, self.charged_until, visit, account);
            self.entered_at = self.charged_until;
        }
        self.current = account;
        previous_account
    }

    /// Advances to the clock reading `now`, up to which time is charged. Returns the time since the
    /// previous reading, and the time since the current account was entered.
    fn advance_clock(&mut self, now: u64) -> (u64, u64) {
        let elapsed = now.saturating_sub(self.charged_until);
        self.charged_until = self.charged_until.max(now);
        (elapsed, self.charged_until.saturating_sub(self.entered_at))
    }

    /// Counts `units` of `work`, and with a virtual clock charges their cost.
    pub fn work(&mut self, work: Work, units: usize) {
        if !self.is_on {
            return;
        }
        let units = units as u64;
        if let Some(total) = self.counter_block.units.get(work as usize) {
            total.add(units);
        }
        if let Clock::Virtual(costs) = &self.clock {
            let cost = costs.unit_ns(work).saturating_mul(units);
            self.charge(work.account(), cost);
        }
    }

    /// With a virtual clock, charges the time until `now` to [`Account::Outside`].
    ///
    /// Does nothing if the machine is still busy at `now`.
    pub fn wait_until(&mut self, now: Instant) {
        if matches!(self.clock, Clock::Virtual(_)) {
            self.charge(Account::Outside, now.as_nanos().saturating_sub(self.charged_until));
        }
    }

    /// Returns the time until which the virtual machine is busy.
    #[must_use]
    pub fn busy_until(&self) -> Instant {
        Instant::from_nanos(self.charged_until)
    }

    /// Charges the time since the last charge to the current account, which brings the accounts up
    /// to date.
    pub fn settle(&mut self) {
        if let Clock::Counter(read) = self.clock {
            let (elapsed, _) = self.advance_clock(read());
            self.counter_block.charge(self.current, elapsed, self.charged_until);
        }
    }

    fn charge(&mut self, account: Account, nanos: u64) {
        self.charged_until += nanos;
        let charged = if is_enabled(Mutant::LosesCpuTime) { nanos & !1 } else { nanos };
        self.counter_block.charge(account, charged, self.charged_until);
    }

    /// Returns the time charged to `account`, in ticks of the clock, up to the last
    /// [`Self::settle`].
    #[must_use]
    pub fn charged(&self, account: Account) -> u64 {
        self.counter_block.charged(account)
    }

    /// Returns the time charged to each account, in the order of [`Account::ALL`].
    #[must_use]
    pub fn accounts(&self) -> [u64; Account::COUNT] {
        let mut accounts = [0; Account::COUNT];
        for (charged, account) in accounts.iter_mut().zip(Account::ALL) {
            *charged = self.charged(*account);
        }
        accounts
    }

    /// Returns the time since the meter was created, in ticks, up to the last [`Self::settle`].
    ///
    /// The total is read from the clock, not added up from the accounts. It always equals the sum
    /// of the accounts.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.charged_until - self.counter_block.started()
    }

    /// Returns the number of units of `work` that were counted.
    #[must_use]
    pub fn units(&self, work: Work) -> u64 {
        self.counter_block.units.get(work as usize).map_or(0, |units| units.get())
    }

    /// Returns the number of occurrences of `counter`.
    #[must_use]
    pub fn counted(&self, counter: Counter) -> u64 {
        self.counter_block.counters.get(counter as usize).map_or(0, |count| count.get())
    }

    /// Returns the distribution of the values of `quantity`.
    ///
    /// # Panics
    ///
    /// Never: there is a distribution for every quantity.
    #[must_use]
    pub fn distribution(&self, quantity: Quantity) -> &Distribution {
        let Some(distribution) = self.counter_block.distributions.get(quantity as usize) else {
            unreachable!("a distribution for every quantity")
        };
        distribution
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU64, Ordering};
    use proptest::prelude::*;

    static TICKS: AtomicU64 = AtomicU64::new(0);

    fn uneven_clock() -> u64 {
        TICKS.fetch_add(17, Ordering::Relaxed) + 17
    }

    proptest! {
        #[test]
        fn the_accounts_add_up_to_the_total_exactly(
            visits in prop::collection::vec(0..Account::COUNT, 0..200)
        ) {
            let mut meter = Meter::new(Clock::Counter(uneven_clock));
            for visit in visits {
                meter.enter(Account::ALL[visit]);
            }
            meter.settle();
            prop_assert_eq!(meter.accounts().iter().sum::<u64>(), meter.total());
        }

        #[test]
        fn virtual_accounts_add_up_to_the_total_exactly(
            steps in prop::collection::vec((0..Work::COUNT, 0..2000_usize, 0..1_000_000_u64), 0..100)
        ) {
            let costs = Work::ALL.iter().fold(Costs::default(), |c, w| c.with(*w, 231));
            let mut meter = Meter::new(Clock::Virtual(costs));
            for (work, units, now) in steps {
                meter.wait_until(Instant::from_nanos(now));
                meter.work(Work::ALL[work], units);
            }
            prop_assert_eq!(meter.accounts().iter().sum::<u64>(), meter.total());
        }
    }

    #[test]
    fn entering_charges_the_previous_account() {
        static CLOCK: AtomicU64 = AtomicU64::new(0);
        let mut meter = Meter::new(Clock::Counter(|| CLOCK.load(Ordering::Relaxed)));
        let before = meter.enter(Account::Telnet);
        assert_eq!(before, Account::Outside);
        CLOCK.store(50, Ordering::Relaxed);
        assert_eq!(meter.enter(Account::Terminal), Account::Telnet);
        CLOCK.store(51, Ordering::Relaxed);
        meter.settle();
        assert_eq!((meter.charged(Account::Telnet), meter.charged(Account::Terminal)), (50, 1));
    }

    #[test]
    fn a_meter_that_is_off_counts_nothing() {
        let mut meter = Meter::off();
        meter.count(Counter::PacketsRefused);
        meter.work(Work::Segment, 3);
        assert_eq!((meter.counted(Counter::PacketsRefused), meter.units(Work::Segment)), (0, 0));
    }
}
