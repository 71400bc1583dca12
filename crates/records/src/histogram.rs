//! A histogram with exact counts, whose bucket width grows with the value.
//!
//! Below 128 every value has its own bucket. Above, every power of two has 128 buckets, so that a
//! bucket is less than 0.8% wide. Counts are integers: merging histograms of parts in any order
//! gives the histogram of the whole.

use crate::transfer::compact::{push_varint, take_varint};

/// Number of bits after the highest bit of a value that select its bucket.
const BUCKET_BITS: u32 = 7;

/// Number of values in each bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Nonempty buckets in order, with their counts.
    counts: Vec<(u16, u64)>,
}

impl Histogram {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        self.add_many(bucket(value), 1);
    }

    /// Adds the counts of another histogram.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.counts {
            self.add_many(*bucket, *count);
        }
    }

    /// Returns the number of values counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Returns the middle of the bucket that contains the nearest-rank percentile.
    #[must_use]
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        let count = u128::from(self.count());
        let rank = (count * u128::from(percent.min(100))).div_ceil(100).max(1);
        let mut cumulative_count = 0_u128;
        for (at, count) in &self.counts {
            cumulative_count += u128::from(*count);
            if cumulative_count >= rank {
                return Some(middle(*at));
            }
        }
        None
    }

    /// Appends a compact encoding of the histogram to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        push_varint(out, u64::try_from(self.counts.len()).unwrap_or(u64::MAX));
        let mut before = 0;
        for (bucket, count) in &self.counts {
            push_varint(out, u64::from(bucket.saturating_sub(before)));
            push_varint(out, *count);
            before = *bucket;
        }
    }

    /// Decodes one histogram of [`Self::encode`] from the front of `bytes` and merges it.
    pub(crate) fn merge_encoded(&mut self, bytes: &mut &[u8]) -> Option<()> {
        let mut bucket = 0_u16;
        for _ in 0..take_varint(bytes)? {
            bucket = bucket.checked_add(u16::try_from(take_varint(bytes)?).ok()?)?;
            self.add_many(bucket, take_varint(bytes)?);
        }
        Some(())
    }

    fn add_many(&mut self, bucket: u16, more: u64) {
        match self.counts.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => {
                if let Some((_, count)) = self.counts.get_mut(at) {
                    *count = count.saturating_add(more);
                }
            }
            Err(at) => self.counts.insert(at, (bucket, more)),
        }
    }
}

/// Returns the bucket of `value`.
#[must_use]
pub fn bucket(value: u64) -> u16 {
    let highest = 63_u32.saturating_sub(value.leading_zeros());
    let shift = highest.saturating_sub(BUCKET_BITS);
    // The shifted value has the highest bit and seven more.
    let bucket = u64::from(shift) * (1 << BUCKET_BITS) + (value >> shift);
    u16::try_from(bucket).unwrap_or(u16::MAX)
}

/// Returns the value in the middle of a bucket.
#[must_use]
pub fn middle(bucket: u16) -> u64 {
    let shift = u32::from(bucket) >> BUCKET_BITS;
    let rest = u64::from(bucket) & ((1 << BUCKET_BITS) - 1);
    match shift {
        0 | 1 => bucket.into(),
        _ => {
            let shift = shift - 1;
            let lowest = ((1 << BUCKET_BITS) | rest).checked_shl(shift).unwrap_or(u64::MAX);
            lowest.saturating_add((1_u64 << shift.min(63)) / 2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics;
    use proptest::prelude::*;

    #[test]
    fn small_values_have_a_bucket_each() {
        assert!((0..256).all(|value| middle(bucket(value)) == value));
    }

    #[test]
    fn no_samples_have_no_percentile() {
        assert_eq!(Histogram::default().percentile(50), None);
    }

    #[test]
    fn the_largest_value_has_a_bucket() {
        assert_eq!(bucket(middle(bucket(u64::MAX))), bucket(u64::MAX));
    }

    #[test]
    fn a_bucket_has_a_128th_of_a_power_of_two() {
        let buckets = [0, 127, 128, 255, 256, 257, 258, 510, 511, 512, 1_023, 1_024, u64::MAX];
        let expected = [0, 127, 128, 255, 256, 256, 257, 383, 383, 384, 511, 512, 7_423];
        assert_eq!(buckets.map(bucket), expected);
        let middles = [0, 255, 256, 257, 383, 384, 511, 512].map(middle);
        assert_eq!(middles, [0, 255, 257, 259, 511, 514, 1_022, 1_028]);
    }

    #[test]
    fn a_percentile_is_the_nearest_rank() {
        let mut histogram = Histogram::default();
        (1..=100).for_each(|value| histogram.add(value));
        let percentiles = [0, 1, 50, 99, 100, 255].map(|percent| histogram.percentile(percent));
        assert_eq!(percentiles, [1, 1, 50, 99, 100, 100].map(Some));
        assert_eq!(histogram.count(), 100);
        histogram.merge(&histogram.clone());
        assert_eq!((histogram.count(), histogram.percentile(50)), (200, Some(50)));
    }

    proptest! {
        #[test]
        fn the_middle_of_a_bucket_is_within_4_per_mille_of_its_values(value in any::<u64>()) {
            let middle = middle(bucket(value));
            prop_assert_eq!(bucket(middle), bucket(value));
            prop_assert!(middle.abs_diff(value) <= value / 250);
        }

        #[test]
        fn a_larger_value_is_never_in_a_lower_bucket(one in any::<u64>(), other in any::<u64>()) {
            prop_assert_eq!(bucket(one.min(other)), bucket(one).min(bucket(other)));
        }

        #[test]
        fn a_percentile_is_in_the_bucket_of_the_exact_one(
            samples in proptest::collection::vec(0..1_000_000_u64, 1..200), percent in 0..=100_u8,
        ) {
            let mut histogram = Histogram::default();
            samples.iter().for_each(|sample| histogram.add(*sample));
            let exact = statistics::percentile(&samples, percent).unwrap();
            prop_assert_eq!(histogram.percentile(percent), Some(middle(bucket(exact))));
        }

        #[test]
        fn merged_parts_equal_the_total_and_decode_to_it(
            parts in proptest::collection::vec(
                proptest::collection::vec(any::<u64>(), 0..20), 0..6),
        ) {
            let mut whole = Histogram::default();
            let mut sum = Histogram::default();
            for part in &parts {
                let mut histogram = Histogram::default();
                for value in part {
                    histogram.add(*value);
                    whole.add(*value);
                }
                let mut bytes = Vec::new();
                histogram.encode(&mut bytes);
                sum.merge_encoded(&mut bytes.as_slice()).unwrap();
            }
            prop_assert_eq!(sum, whole);
        }
    }
}
