//! Exact statistics of complete sample sets, and the split of a time among the layers.

use crate::layer::{Layer, LayerTime};

/// Returns the nearest-rank percentile of `samples_ns` (in any order), or `None` without samples.
///
/// The percentile is the smallest sample that at least `percent` % of the samples do not exceed;
/// values above 100 count as 100.
#[must_use]
pub fn percentile(samples_ns: &[u64], percent: u8) -> Option<u64> {
    let mut sorted = samples_ns.to_vec();
    sorted.sort_unstable();
    nearest_rank(&sorted, percent).copied()
}

/// Returns the median of `samples_ns`, nearest rank: always one of the samples.
#[must_use]
pub fn median(samples_ns: &[u64]) -> Option<u64> {
    percentile(samples_ns, 50)
}

/// Returns the element of `sorted` at the nearest rank of `percent`.
#[must_use]
pub fn nearest_rank<T>(sorted: &[T], percent: u8) -> Option<&T> {
    let hundreds = sorted.len() / 100;
    let rest = sorted.len() % 100;
    let percent = usize::from(percent.min(100));
    // The length times `percent` may overflow, so multiples of 100 and the remainder are multiplied
    // separately.
    let rank = hundreds * percent + (rest * percent).div_ceil(100);
    sorted.get(rank.max(1) - 1)
}

/// Splits `total_ns` among the layers of `parts`, with the remainder as
/// [`Layer::RemoteHostAndNetwork`].
///
/// The result adds up to the total exactly. Each layer of `parts` appears once, in the order of
/// [`Layer::ALL`]. Parts may overlap in time, for example if a line is busy while the processor
/// works; if they exceed the total, they are scaled down in proportion. The remainder is computed:
/// [`Layer::RemoteHostAndNetwork`] among `parts` is ignored.
#[must_use]
pub fn split(total_ns: u64, parts: &[LayerTime]) -> Vec<LayerTime> {
    let parts_of = |layer| parts.iter().filter(move |part| part.layer == layer);
    let mut parts_of_total: Vec<LayerTime> = Vec::new();
    let local_layers =
        || Layer::ALL.into_iter().filter(|layer| *layer != Layer::RemoteHostAndNetwork);
    let sum: u128 = local_layers().flat_map(parts_of).map(|part| u128::from(part.ns)).sum();
    let mut remainder_ns = total_ns;
    for layer in local_layers().filter(|layer| parts_of(*layer).next().is_some()) {
        let measured: u128 = parts_of(layer).map(|part| u128::from(part.ns)).sum();
        let ns = if sum > u128::from(total_ns) {
            proportion(measured, total_ns, sum)
        } else {
            u64::try_from(measured).unwrap_or(remainder_ns)
        };
        remainder_ns = remainder_ns.saturating_sub(ns);
        parts_of_total.push(LayerTime { layer, ns });
    }
    parts_of_total.push(LayerTime { layer: Layer::RemoteHostAndNetwork, ns: remainder_ns });
    parts_of_total
}

/// Returns `total * part / sum`, rounded down; `sum` must not be 0 and not be less than `part`.
fn proportion(part: u128, total: u64, sum: u128) -> u64 {
    // Shift `part` and `sum` right until `sum` has at most 64 bits, so that the product cannot
    // overflow.
    let shift = 128_u32.saturating_sub(sum.leading_zeros()).saturating_sub(64);
    let product = u128::from(total) * (part >> shift);
    let divisor = ((sum >> shift) + u128::from(shift > 0)).max(1);
    u64::try_from(product / divisor).unwrap_or(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(layer: Layer, ns: u64) -> LayerTime {
        LayerTime { layer, ns }
    }

    fn any_part() -> impl Strategy<Value = LayerTime> {
        let ns = prop_oneof![0..1_000_u64, any::<u64>()];
        (0..Layer::ALL.len(), ns).prop_map(|(at, ns)| part(Layer::ALL[at], ns))
    }

    #[test]
    fn nearest_rank_of_the_textbook_example() {
        let samples = [50, 15, 40, 20, 35];
        let percentiles =
            [5, 30, 40, 50, 100].map(|percent| percentile(&samples, percent).unwrap());
        assert_eq!(percentiles, [15, 20, 20, 35, 50]);
    }

    #[test]
    fn ninety_ninth_of_two_hundred_is_the_third_largest() {
        let samples: Vec<u64> = (1..=200).collect();
        assert_eq!(percentile(&samples, 99), Some(198));
    }

    #[test]
    fn median_of_an_even_count_is_one_of_the_samples() {
        assert_eq!(median(&[10, 40, 30, 20]), Some(20));
    }

    #[test]
    fn no_samples_have_no_percentile() {
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn the_remainder_is_the_remote_host() {
        let parts = [part(Layer::Telnet, 30), part(Layer::Line, 20), part(Layer::Telnet, 1)];
        let expected =
            [part(Layer::Line, 20), part(Layer::Telnet, 31), part(Layer::RemoteHostAndNetwork, 49)];
        assert_eq!(split(100, &parts), expected);
    }

    #[test]
    fn parts_that_exceed_the_total_are_reduced_in_proportion() {
        let parts = [part(Layer::Line, 300), part(Layer::Terminal, 100)];
        let expected = [
            part(Layer::Line, 75),
            part(Layer::Terminal, 25),
            part(Layer::RemoteHostAndNetwork, 0),
        ];
        assert_eq!(split(100, &parts), expected);
    }

    #[test]
    fn a_measured_remote_host_is_replaced_by_the_remainder() {
        let parts = [part(Layer::RemoteHostAndNetwork, 7)];
        assert_eq!(split(100, &parts), [part(Layer::RemoteHostAndNetwork, 100)]);
    }

    #[test]
    fn a_part_of_a_sum_above_64_bits_is_rounded_down() {
        assert_eq!(proportion(1, 10, 3), 3);
        assert_eq!(proportion(u128::from(u64::MAX), u64::MAX, u128::from(u64::MAX)), u64::MAX);
        let sum = 3_u128 << 64;
        assert_eq!(proportion(1 << 64, 1_000, sum), 333);
        assert_eq!(proportion(sum, 1_000, sum), 999);
        assert_eq!(proportion(1 << 100, 1 << 20, 1 << 101), (1 << 19) - 1);
    }

    #[test]
    fn the_nearest_rank_of_many_samples_is_exact() {
        let samples: Vec<u64> = (1..=250).collect();
        let percentiles = [0, 1, 10, 50, 99, 100, 200].map(|percent| percentile(&samples, percent));
        assert_eq!(percentiles, [1, 3, 25, 125, 248, 250, 250].map(Some));
    }

    proptest! {
        #[test]
        fn a_split_adds_up_to_its_total_exactly(
            total in any::<u64>(),
            parts in proptest::collection::vec(any_part(), 0..40),
        ) {
            let parts_of_total = split(total, &parts);
            let sum: u128 = parts_of_total.iter().map(|part| u128::from(part.ns)).sum();
            prop_assert_eq!(sum, u128::from(total));
            prop_assert!(parts_of_total.is_sorted_by(|a, b| a.layer < b.layer));
        }

        #[test]
        fn a_percentile_is_a_sample_that_enough_samples_do_not_exceed(
            samples in proptest::collection::vec(any::<u64>(), 1..300),
            percent in 0..=100_u8,
        ) {
            let value = percentile(&samples, percent).unwrap();
            let below = samples.iter().filter(|sample| **sample <= value).count();
            prop_assert!(samples.contains(&value));
            prop_assert!(below * 100 >= samples.len() * usize::from(percent));
        }
    }
}
