//! Counts the key comparisons of search structures, so that tests bound the cost of an operation by
//! counting steps instead of measuring time. Outside of tests nothing is counted.

use core::cmp::Ordering;

/// A key of a search tree: each comparison is one probe.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Probed<T>(pub(crate) T);

impl<T: Ord> Ord for Probed<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        note();
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
pub(crate) const fn note() {}

#[cfg(test)]
pub(crate) use counting::{note, taken};

#[cfg(test)]
mod counting {
    use core::cell::Cell;

    std::thread_local! {
        static PROBES: Cell<u64> = const { Cell::new(0) };
    }

    /// Counts one probe.
    pub(crate) fn note() {
        PROBES.set(PROBES.get() + 1);
    }

    /// Runs `work` and returns the number of probes it took, with its result.
    pub(crate) fn taken<R>(work: impl FnOnce() -> R) -> (u64, R) {
        let before = PROBES.get();
        let result = work();
        (PROBES.get() - before, result)
    }
}
