//! A distribution of values: count, sum, extremes, and bins that are fine enough for percentiles.

use super::shared_value::SharedValue;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};

/// Number of bins per doubling of the value. A computed percentile is at most one eighth too high.
const BINS_PER_DOUBLING: usize = 8;
const BINS: usize = 64 * BINS_PER_DOUBLING;

/// Values of one quantity, counted in logarithmic bins. All bins together occupy 2 KB. One thread
/// records values, and any thread may read them.
#[derive(Debug)]
pub struct Distribution {
    count: SharedValue,
    sum: SharedValue,
    min: SharedValue,
    max: SharedValue,
    bins: Box<[AtomicU32; BINS]>,
}

impl Default for Distribution {
    fn default() -> Self {
        let min = SharedValue::default();
        min.set(u64::MAX);
        let bins = Box::new([const { AtomicU32::new(0) }; BINS]);
        Self {
            count: SharedValue::default(),
            sum: SharedValue::default(),
            min,
            max: SharedValue::default(),
            bins,
        }
    }
}

impl Clone for Distribution {
    fn clone(&self) -> Self {
        let copy = Self::default();
        copy.absorb(self);
        copy
    }
}

impl Distribution {
    /// Adds one value. Only one thread may call this.
    #[inline]
    pub fn record(&self, value: u64) {
        self.count.add(1);
        self.sum.set(self.sum.get().saturating_add(value));
        if value < self.min.get() {
            self.min.set(value);
        }
        if value > self.max.get() {
            self.max.set(value);
        }
        if let Some(bin) = self.bins.get(bin_of(value)) {
            bin.store(bin.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Adds all values of `other`. Only one thread may call this.
    pub fn absorb(&self, other: &Self) {
        if other.count() == 0 {
            return;
        }
        self.count.add(other.count.get());
        self.sum.set(self.sum.get().saturating_add(other.sum.get()));
        self.min.set(self.min.get().min(other.min.get()));
        self.max.set(self.max.get().max(other.max.get()));
        for (sum, added) in self.bins.iter().zip(other.bins.iter()) {
            let added = added.load(Ordering::Relaxed);
            if added > 0 {
                let sum_of_both = sum.load(Ordering::Relaxed).saturating_add(added);
                sum.store(sum_of_both, Ordering::Relaxed);
            }
        }
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// Returns the sum of all values.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum.get()
    }

    /// Returns the smallest value.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.min.get())
    }

    /// Returns the largest value.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max.get())
    }

    /// Returns the average of all values.
    #[must_use]
    pub fn mean(&self) -> Option<u64> {
        self.sum().checked_div(self.count())
    }

    /// Returns the `percent`th percentile of the values, at most one eighth too high.
    #[must_use]
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        let count = self.count();
        let min = self.min.get();
        let max = self.max.get();
        if count == 0 {
            return None;
        }
        let wanted_count = (count * u64::from(percent)).div_ceil(100).max(1);
        let mut counted_values = 0;
        for (bin, bin_count) in self.bins.iter().enumerate() {
            counted_values += u64::from(bin_count.load(Ordering::Relaxed));
            if counted_values >= wanted_count {
                // While the first value is being stored, minimum and maximum may be inconsistent.
                return Some(top_of(bin).max(min).min(max));
            }
        }
        Some(max)
    }
}

/// Returns the index of the bin that contains `value`.
///
/// Each small value has its own bin. Larger values with the same leading four bits share a bin.
#[expect(clippy::cast_possible_truncation, reason = "only three bits are kept")]
fn bin_of(value: u64) -> usize {
    let Some(doubling) = value.checked_ilog2() else { return 0 };
    if doubling < 3 {
        return value as usize & (BINS_PER_DOUBLING - 1);
    }
    let leading_bits = (value >> (doubling - 3)) as usize & (BINS_PER_DOUBLING - 1);
    (doubling as usize - 2) * BINS_PER_DOUBLING + leading_bits
}

fn top_of(bin: usize) -> u64 {
    if bin < BINS_PER_DOUBLING {
        return bin as u64;
    }
    let shift = bin / BINS_PER_DOUBLING - 1;
    let leading_bits = (BINS_PER_DOUBLING + bin % BINS_PER_DOUBLING) as u64;
    // All bits below the leading bits are set. The top bin ends at `u64::MAX`.
    (leading_bits << shift) | ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_lies_in_its_bin_and_the_bin_is_narrow(bits: u64, shift in 0..64) {
            let value = bits >> shift;
            let top = top_of(bin_of(value));
            prop_assert!(value <= top);
            prop_assert!(top - value <= value / 8);
        }
    }

    #[test]
    fn percentiles_of_one_to_a_hundred_are_found_within_an_eighth() {
        let distribution = Distribution::default();
        (1..=100).for_each(|value| distribution.record(value));
        assert!((50..=56).contains(&distribution.percentile(50).unwrap()));
        assert_eq!(distribution.percentile(100), Some(100));
        assert_eq!(distribution.mean(), Some(50));
    }

    #[test]
    fn the_smallest_and_the_largest_value_have_a_bin() {
        let distribution = Distribution::default();
        distribution.record(0);
        distribution.record(u64::MAX);
        assert_eq!((distribution.percentile(50), distribution.max()), (Some(0), Some(u64::MAX)));
        assert_eq!(distribution.percentile(100), Some(u64::MAX));
    }

    #[test]
    fn an_empty_distribution_has_no_statistics() {
        let empty = Distribution::default();
        assert_eq!((empty.min(), empty.max(), empty.percentile(50)), (None, None, None));
    }
}
