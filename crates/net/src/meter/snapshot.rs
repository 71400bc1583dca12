//! The values of a meter at one time, and the sum of several meters.

use super::distribution::Distribution;
use super::{Account, Counter, Quantity, Work};

/// Totals recorded after a multiple of a hundred transactions, or the difference of two totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecentWindow {
    /// Number of transactions.
    pub transactions: u64,
    /// Number of returns from a wait.
    pub wakeups: u64,
    /// Ticks charged to all accounts except [`Account::Outside`].
    pub busy: u64,
    /// Ticks elapsed in total.
    pub total: u64,
}

impl RecentWindow {
    pub(super) const LEN: usize = 4;

    pub(super) fn to_array(self) -> [u64; Self::LEN] {
        [self.transactions, self.wakeups, self.busy, self.total]
    }

    /// Returns the difference of the two totals, or `None` if there was no transaction between
    /// them.
    pub(super) fn difference([last, before]: [[u64; Self::LEN]; 2]) -> Option<Self> {
        let [transactions, wakeups, busy, total] =
            core::array::from_fn(|i| match (last.get(i), before.get(i)) {
                (Some(last), Some(before)) => last.saturating_sub(*before),
                _ => 0,
            });
        (transactions > 0).then_some(Self { transactions, wakeups, busy, total })
    }
}

/// All values of a meter at one time, or the sum of several meters.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Time charged to each account, in ticks, in the order of [`Account::ALL`].
    pub accounts: [u64; Account::COUNT],
    /// Time since the meter was created, in ticks.
    pub total: u64,
    /// Totals over the last hundred completed transactions.
    pub recent_window: Option<RecentWindow>,
    pub(super) visits: [Distribution; Account::COUNT],
    pub(super) units: [u64; Work::COUNT],
    pub(super) counters: [u64; Counter::COUNT],
    pub(super) quantities: [Distribution; Quantity::COUNT],
}

impl Default for Snapshot {
    fn default() -> Self {
        Self {
            accounts: [0; Account::COUNT],
            total: 0,
            recent_window: None,
            visits: core::array::from_fn(|_| Distribution::default()),
            units: [0; Work::COUNT],
            counters: [0; Counter::COUNT],
            quantities: core::array::from_fn(|_| Distribution::default()),
        }
    }
}

impl Snapshot {
    /// Returns the time charged to `account`, in ticks.
    #[must_use]
    pub fn charged(&self, account: Account) -> u64 {
        self.accounts.get(account as usize).copied().unwrap_or(0)
    }

    /// Returns the time charged to all accounts but [`Account::Outside`], in ticks.
    #[must_use]
    pub fn busy(&self) -> u64 {
        self.accounts.iter().sum::<u64>().saturating_sub(self.charged(Account::Outside))
    }

    /// Returns the durations of the completed visits of `account`, in ticks; empty without a real
    /// clock.
    ///
    /// A visit ends when another account is entered. A layer that calls another one and continues
    /// afterwards is visited twice.
    ///
    /// # Panics
    ///
    /// Never: there is a distribution for every account.
    #[must_use]
    pub fn visits(&self, account: Account) -> &Distribution {
        let Some(visits) = self.visits.get(account as usize) else {
            unreachable!("a distribution for every account")
        };
        visits
    }

    /// Returns the number of units of `work` that were counted.
    #[must_use]
    pub fn units(&self, work: Work) -> u64 {
        self.units.get(work as usize).copied().unwrap_or(0)
    }

    /// Returns the number of occurrences of `counter`.
    #[must_use]
    pub fn counted(&self, counter: Counter) -> u64 {
        self.counters.get(counter as usize).copied().unwrap_or(0)
    }

    /// Returns the distribution of `quantity`.
    ///
    /// # Panics
    ///
    /// Never: there is a distribution for every quantity.
    #[must_use]
    pub fn quantity(&self, quantity: Quantity) -> &Distribution {
        let Some(distribution) = self.quantities.get(quantity as usize) else {
            unreachable!("a distribution for every quantity")
        };
        distribution
    }

    /// Adds the values of another snapshot, including its recent window.
    pub fn add(&mut self, other: &Self) {
        let pairs = self.accounts.iter_mut().zip(&other.accounts);
        let pairs = pairs.chain(self.units.iter_mut().zip(&other.units));
        for (sum, more) in pairs.chain(self.counters.iter_mut().zip(&other.counters)) {
            *sum = sum.saturating_add(*more);
        }
        self.total = self.total.saturating_add(other.total);
        let pairs = self.visits.iter().zip(&other.visits);
        for (sum, more) in pairs.chain(self.quantities.iter().zip(&other.quantities)) {
            sum.absorb(more);
        }
        self.add_recent_window(other.recent_window);
    }

    pub(super) fn add_recent_window(&mut self, more: Option<RecentWindow>) {
        let Some(more) = more else { return };
        let sum = self.recent_window.get_or_insert_default();
        sum.transactions += more.transactions;
        sum.wakeups += more.wakeups;
        sum.busy += more.busy;
        sum.total += more.total;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Clock, Meter};
    use super::*;

    #[test]
    fn the_sum_of_two_meters_contains_the_values_of_both() {
        let mut meters = [Meter::new(Clock::None), Meter::new(Clock::None)];
        for (meter, round_trips) in meters.iter_mut().zip([[10, 20], [30, 40]]) {
            meter.count(Counter::Wakeups);
            meter.work(Work::Segment, 3);
            for value in round_trips {
                meter.record_value(Quantity::RoundTrip, value);
            }
        }
        let mut sum = Snapshot::default();
        for meter in &meters {
            sum.add(&meter.counter_block().snapshot(0));
        }
        assert_eq!((sum.counted(Counter::Wakeups), sum.units(Work::Segment)), (2, 6));
        let round_trips = sum.quantity(Quantity::RoundTrip);
        let extremes = (round_trips.min(), round_trips.max());
        assert_eq!((round_trips.count(), round_trips.mean()), (4, Some(25)));
        assert_eq!(extremes, (Some(10), Some(40)));
    }
}
