//! Counts the key comparisons of search structures. Tests bound the cost of an operation by its
//! number of comparisons, which is exact, instead of its time. Outside of tests nothing is counted.

use core::cmp::Ordering;

/// A key of a search tree: each comparison is one probe.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Probed<T>(pub(crate) T);

impl<T: Ord> Ord for Probed<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        count_probe();
        self.0.cmp(&other.0)
    }
}

impl<T: Ord> PartialOrd for Probed<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> PartialEq for Probed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T: Ord> Eq for Probed<T> {}

/// Counts one probe.
#[cfg(not(test))]
pub(crate) const fn count_probe() {}

#[cfg(test)]
pub(crate) use counting::{count_probe, count_probes_during};

#[cfg(test)]
mod counting {
    use core::cell::Cell;

    std::thread_local! {
        static PROBES: Cell<u64> = const { Cell::new(0) };
    }

    /// Counts one probe.
    pub(crate) fn count_probe() {
        PROBES.set(PROBES.get() + 1);
    }

    /// Runs `work` and returns the number of probes during the call, with the result of `work`.
    pub(crate) fn count_probes_during<R>(work: impl FnOnce() -> R) -> (u64, R) {
        let probes_before = PROBES.get();
        let result = work();
        (PROBES.get() - probes_before, result)
    }
}
