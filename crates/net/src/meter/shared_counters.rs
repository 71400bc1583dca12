//! The values of a meter, which other threads may read while they change.
//!
//! A meter has one writer and any number of readers. The writer adds to a value by a load and a
//! store, which on a common processor costs the same as adding to a plain number. Readers never
//! interrupt the writer: a meter without readers has no extra cost, and the meter of a waiting
//! thread can be read like that of a running thread. Each value is read atomically. The accounts
//! are read together under a sequence lock, so they belong to one moment and add up to the total
//! exactly. A reader that meets a change at each of its attempts takes the total from the accounts
//! that it has read: they still add up, but visits may be missing from their accounts and be charged
//! to the current one.

use super::distribution::Distribution;
use super::shared_value::SharedValue;
use super::snapshot::{RecentWindow, Snapshot};
use super::{Account, Counter, Quantity, Work};
use alloc::boxed::Box;
use core::array::from_fn;
use core::sync::atomic::{Ordering, fence};

/// Maximum number of attempts of a reader to read the accounts without a concurrent change.
const READ_ATTEMPTS_MAX: usize = 1_000;

/// The values of one meter, readable by other threads.
#[derive(Clone, Debug)]
pub struct CounterBlock {
    started: u64,
    /// Sequence number of the lock: odd while the accounts change.
    sequence: SharedValue,
    current: SharedValue,
    /// Clock reading up to which all time has been charged.
    charged_until: SharedValue,
    accounts: [SharedValue; Account::COUNT],
    recent_windows: [[SharedValue; RecentWindow::LEN]; 2],
    /// Durations of the visits of each account; `None` without a real clock. A visit lasts from
    /// entering an account to leaving it.
    visits: Option<Box<[Distribution; Account::COUNT]>>,
    pub(super) units: [SharedValue; Work::COUNT],
    pub(super) counters: [SharedValue; Counter::COUNT],
    pub(super) distributions: [Distribution; Quantity::COUNT],
}

impl CounterBlock {
    pub(super) fn new(started: u64, has_clock: bool) -> Self {
        let charged_until = SharedValue::default();
        charged_until.set(started);
        Self {
            started,
            sequence: SharedValue::default(),
            current: SharedValue::default(),
            charged_until,
            accounts: from_fn(|_| SharedValue::default()),
            recent_windows: from_fn(|_| from_fn(|_| SharedValue::default())),
            visits: has_clock.then(|| Box::new(from_fn(|_| Distribution::default()))),
            units: from_fn(|_| SharedValue::default()),
            counters: from_fn(|_| SharedValue::default()),
            distributions: from_fn(|_| Distribution::default()),
        }
    }

    pub(super) fn started(&self) -> u64 {
        self.started
    }

    pub(super) fn charged(&self, account: Account) -> u64 {
        self.accounts.get(account as usize).map_or(0, SharedValue::get)
    }

    /// Charges the time `elapsed` to `account`. Afterwards, all time up to the clock reading
    /// `charged_until` has been charged.
    #[inline]
    pub(super) fn charge(&self, account: Account, elapsed: u64, charged_until: u64) {
        self.change(|| {
            if let Some(total) = self.accounts.get(account as usize) {
                total.add(elapsed);
            }
            self.charged_until.set(charged_until);
        });
    }

    /// Like [`Self::charge`], and records a visit of `account` with duration `visit`. `next`
    /// becomes the current account.
    #[inline]
    pub(super) fn leave(
        &self,
        account: Account,
        elapsed: u64,
        charged_until: u64,
        visit: u64,
        next: Account,
    ) {
        self.change(|| {
            if let Some(total) = self.accounts.get(account as usize) {
                total.add(elapsed);
            }
            self.charged_until.set(charged_until);
            self.current.set(next as u64);
        });
        if let Some(visits) = self.visits.as_ref().and_then(|all| all.get(account as usize)) {
            visits.record(visit);
        }
    }

    /// Records the current totals; called after every hundred transactions.
    pub(super) fn record_recent_window(&self, recent: &RecentWindow) {
        self.change(|| {
            let [last, before] = &self.recent_windows;
            for ((before, last), now) in before.iter().zip(last).zip(recent.to_array()) {
                before.set(last.get());
                last.set(now);
            }
        });
    }

    #[inline]
    fn change(&self, change: impl FnOnce()) {
        let sequence = self.sequence.get();
        self.sequence.set(sequence.wrapping_add(1));
        fence(Ordering::Release);
        change();
        self.sequence.0.store(sequence.wrapping_add(2), Ordering::Release);
    }

    /// Returns all values at the clock reading `now`. The time up to `now` is charged to the
    /// current account.
    #[must_use]
    pub fn snapshot(&self, now: u64) -> Snapshot {
        let mut snapshot = Snapshot::default();
        self.add_to(&mut snapshot, now);
        snapshot
    }

    pub(super) fn add_to(&self, sum: &mut Snapshot, now: u64) {
        let Reading { mut accounts, charged_until, current, recent_window } =
            self.read_consistently();
        let elapsed = if self.visits.is_some() { now.saturating_sub(charged_until) } else { 0 };
        let current = usize::try_from(current).ok().and_then(|index| accounts.get_mut(index));
        if let Some(account) = current {
            *account += elapsed;
        }
        let add = |sums: &mut [u64], more: &[SharedValue]| {
            for (sum, more) in sums.iter_mut().zip(more) {
                *sum = sum.saturating_add(more.get());
            }
        };
        for (sum, more) in sum.accounts.iter_mut().zip(accounts) {
            *sum = sum.saturating_add(more);
        }
        sum.total = sum.total.saturating_add(charged_until.saturating_sub(self.started) + elapsed);
        sum.add_recent_window(recent_window);
        add(&mut sum.units, &self.units);
        add(&mut sum.counters, &self.counters);
        let visits = self.visits.iter().flat_map(|visits| visits.iter());
        let visits = sum.visits.iter().zip(visits);
        for (sum, more) in visits.chain(sum.quantities.iter().zip(&self.distributions)) {
            sum.absorb(more);
        }
    }

    /// Reads the accounts and their related values consistently, under the sequence lock.
    ///
    /// After [`READ_ATTEMPTS_MAX`] attempts, for example if the writer was preempted in the middle
    /// of a change, the accounts may belong to different moments. All time since the start is
    /// charged to an account, so the sum of the accounts determines `charged_until`. The recent
    /// window could mix two windows and is left out.
    fn read_consistently(&self) -> Reading {
        for _ in 0..READ_ATTEMPTS_MAX {
            let sequence = self.sequence.0.load(Ordering::Acquire);
            if sequence.is_multiple_of(2) {
                let reading = self.read();
                fence(Ordering::Acquire);
                if self.sequence.get() == sequence {
                    return reading;
                }
            }
            core::hint::spin_loop();
        }
        let reading = self.read();
        let charged = reading.accounts.iter().sum::<u64>();
        Reading {
            charged_until: self.started.saturating_add(charged),
            recent_window: None,
            ..reading
        }
    }

    fn read(&self) -> Reading {
        let recent_windows =
            self.recent_windows.each_ref().map(|one| one.each_ref().map(SharedValue::get));
        Reading {
            accounts: self.accounts.each_ref().map(SharedValue::get),
            charged_until: self.charged_until.get(),
            current: self.current.get(),
            recent_window: RecentWindow::difference(recent_windows),
        }
    }
}

/// The values under the sequence lock.
struct Reading {
    accounts: [u64; Account::COUNT],
    charged_until: u64,
    current: u64,
    recent_window: Option<RecentWindow>,
}

impl Snapshot {
    /// Adds the values of a meter at its clock reading `now`, including its recent window. The time
    /// up to `now` is charged to the current account.
    pub fn add_block(&mut self, counter_block: &CounterBlock, now: u64) {
        counter_block.add_to(self, now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Clock, Meter};
    use super::*;
    extern crate std;
    use core::cell::Cell;
    use core::sync::atomic::AtomicU64;

    std::thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
    }

    fn clock() -> u64 {
        NOW.get()
    }

    fn metered() -> Meter {
        NOW.set(1_000);
        Meter::new(Clock::Counter(clock))
    }

    fn enter_at(meter: &mut Meter, now: u64, account: Account) {
        NOW.set(now);
        meter.enter(account);
    }

    #[test]
    fn the_current_visit_is_charged_until_the_snapshot() {
        let mut meter = metered();
        enter_at(&mut meter, 1_100, Account::Telnet);
        let snapshot = meter.counter_block().snapshot(1_130);
        let charged = [Account::Outside, Account::Telnet].map(|account| snapshot.charged(account));
        assert_eq!((charged, snapshot.total), ([100, 30], 130));
        assert_eq!(meter.charged(Account::Telnet), 0, "the meter itself is as it was");
    }

    #[test]
    fn a_visit_is_counted_when_it_ends() {
        let mut meter = metered();
        enter_at(&mut meter, 1_100, Account::Telnet);
        enter_at(&mut meter, 1_140, Account::Terminal);
        enter_at(&mut meter, 1_150, Account::Telnet);
        let snapshot = meter.counter_block().snapshot(1_150);
        let visits = [Account::Telnet, Account::Terminal].map(|account| {
            let visits = snapshot.visits(account);
            (visits.count(), visits.max())
        });
        assert_eq!(visits, [(1, Some(40)), (1, Some(10))]);
    }

    #[test]
    fn settling_does_not_split_a_visit() {
        let mut meter = metered();
        enter_at(&mut meter, 1_000, Account::Telnet);
        NOW.set(1_010);
        meter.settle();
        enter_at(&mut meter, 1_025, Account::Telnet);
        enter_at(&mut meter, 1_030, Account::Outside);
        let snapshot = meter.counter_block().snapshot(1_030);
        let visits = snapshot.visits(Account::Telnet);
        assert_eq!(
            (visits.count(), visits.max(), snapshot.charged(Account::Telnet)),
            (1, Some(30), 30)
        );
    }

    #[test]
    fn the_last_hundred_transactions_are_reported_in_addition_to_the_total() {
        let mut meter = metered();
        for number in 1..=250_u64 {
            enter_at(&mut meter, 1_000 + 10 * number, Account::Telnet);
            meter.count(Counter::Wakeups);
            if number > 100 {
                meter.count(Counter::Wakeups);
            }
            enter_at(&mut meter, 1_004 + 10 * number, Account::Outside);
            meter.transaction();
        }
        let snapshot = meter.counter_block().snapshot(4_000);
        let recent = snapshot.recent_window.unwrap();
        assert_eq!(snapshot.counted(Counter::Transactions), 250);
        assert_eq!((recent.transactions, recent.wakeups), (100, 200));
        assert_eq!((recent.busy, recent.total), (400, 1_000));
    }

    #[test]
    fn ninety_nine_transactions_record_no_window() {
        let mut meter = metered();
        (0..99).for_each(|_| meter.transaction());
        assert_eq!(meter.counter_block().snapshot(1_000).recent_window, None);
    }

    #[test]
    fn accounts_read_in_the_middle_of_a_change_add_up_to_the_total() {
        let mut meter = metered();
        for _ in 0..100 {
            meter.transaction();
        }
        enter_at(&mut meter, 1_100, Account::Telnet);
        enter_at(&mut meter, 1_140, Account::Terminal);
        let counter_block = meter.counter_block();
        assert!(counter_block.snapshot(1_150).recent_window.is_some());
        counter_block.change(|| {
            counter_block.accounts[Account::Terminal as usize].add(5);
            let snapshot = counter_block.snapshot(1_150);
            assert_eq!((snapshot.accounts.iter().sum::<u64>(), snapshot.total), (150, 150));
            assert_eq!(snapshot.charged(Account::Terminal), 10);
            assert_eq!(snapshot.recent_window, None);
            counter_block.charged_until.set(1_145);
        });
        let snapshot = counter_block.snapshot(1_150);
        assert_eq!((snapshot.accounts.iter().sum::<u64>(), snapshot.total), (150, 150));
        assert!(snapshot.recent_window.is_some());
    }

    #[test]
    fn a_reader_in_another_thread_never_sees_accounts_that_do_not_add_up() {
        static TICKS: AtomicU64 = AtomicU64::new(0);
        let mut meter = Meter::new(Clock::Counter(|| TICKS.fetch_add(7, Ordering::Relaxed)));
        let counter_block = meter.counter_block();
        let reader = std::thread::spawn(move || {
            for _ in 0..2_000 {
                let snapshot = counter_block.snapshot(0);
                assert_eq!(snapshot.accounts.iter().sum::<u64>(), snapshot.total);
            }
        });
        while !reader.is_finished() {
            for account in Account::ALL {
                meter.enter(*account);
            }
        }
        reader.join().unwrap();
    }
}
