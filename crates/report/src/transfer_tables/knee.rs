//! The knee: the file size beyond which the size makes little difference to the rate.
//!
//! RFC 573 observed that small files had a lower rate than large ones, and that beyond 40 kbit the
//! size made little difference. Here the knee is the smallest size class with this property: this
//! class and each larger class have at least four fifths of the combined rate of these classes. A
//! class with fewer than three transfers is ignored.

use super::size_class::size_text;
use super::units::Units;
use crate::table::figure_text;
use records::aggregate::Sum;
use records::store::{Key, Subset};

/// Minimum number of transfers of a class.
const FILES_MIN: u64 = 3;

/// Returns a sentence that states the knee: the file size above which the rate hardly depends on
/// the size.
pub(super) fn knee_sentence(subsets: &[Subset], units: Units) -> String {
    let rate_text = |sum: &Sum| figure_text(sum.bits_per_s().unwrap_or(0.0), units.rates);
    let classes: Vec<(u32, Sum)> = subsets
        .iter()
        .filter_map(|subset| match subset.key {
            Key::Size(Some(digits)) => Some((digits, subset.aggregate.rate)),
            _ => None,
        })
        .filter(|(_, rate)| rate.files >= FILES_MIN && rate.ns > 0)
        .collect();
    let Some(at) = (0..classes.len()).find(|at| is_level(classes.get(*at..).unwrap_or_default()))
    else {
        return "Too few transfers to determine the size below which the rate falls.".to_owned();
    };
    let (below, beyond) = classes.split_at_checked(at).unwrap_or_default();
    let Some((digits, _)) = beyond.first() else { return String::new() };
    let rate = rate_text(&total_of(beyond));
    if below.is_empty() {
        return format!(
            "No knee: from {} on, the size makes little difference. The overall rate is {rate}.",
            size_text(*digits)
        );
    }
    let slowest_class = below.iter().min_by(|(_, one), (_, other)| {
        one.bits_per_s().unwrap_or(0.0).total_cmp(&other.bits_per_s().unwrap_or(0.0))
    });
    let slowest_rate = slowest_class.map(|(_, sum)| rate_text(sum)).unwrap_or_default();
    let bits = (1_u64 << digits.saturating_sub(1).min(63)) as f64;
    format!(
        "The knee is at {} ({}). Larger files have a rate of {rate}, nearly independent of \
         their size. The rate of smaller files falls to {slowest_rate}. RFC 573 found the knee at \
         40 kbit.",
        figure_text(bits, units.sizes),
        size_text(*digits)
    )
}

fn total_of(classes: &[(u32, Sum)]) -> Sum {
    let mut total = Sum::default();
    for (_, sum) in classes {
        total.files += sum.files;
        total.bits += sum.bits;
        total.ns += sum.ns;
    }
    total
}

/// Returns whether each of `classes` has at least four fifths of their combined rate.
fn is_level(classes: &[(u32, Sum)]) -> bool {
    let Some(all) = total_of(classes).bits_per_s() else { return false };
    classes.iter().all(|(_, sum)| sum.bits_per_s().is_some_and(|rate| rate >= 0.8 * all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::aggregate::{Aggregate, Measures};

    /// Returns a class of three transfers of `bits` bits at a rate of `rate_bps`.
    fn class(bits: u64, rate_bps: u64) -> Subset {
        let mut aggregate = Aggregate::default();
        let real_ns = Some(bits * 1_000_000_000 / rate_bps);
        for id in 1..=3 {
            aggregate.add(id, &Measures { bits: Some(bits), real_ns, ..Measures::default() });
        }
        Subset { key: Key::Size(Some(u64::BITS - bits.leading_zeros())), aggregate }
    }

    #[test]
    fn the_knee_is_where_larger_files_are_no_faster() {
        let classes =
            [class(600, 100), class(9_000, 2_000), class(40_000, 9_000), class(900_000, 10_000)];
        let sentence = knee_sentence(&classes, Units::BITS);
        assert!(sentence.starts_with("The knee is at 32.8 kbit (4 to 8 KiB)"), "{sentence}");
        assert!(sentence.contains("falls to 100 bit/s."), "{sentence}");
    }

    #[test]
    fn a_constant_rate_has_no_knee() {
        assert!(
            knee_sentence(&[class(600, 100), class(9_000, 100)], Units::BYTES)
                .starts_with("No knee")
        );
    }

    #[test]
    fn without_transfers_there_is_no_knee() {
        assert!(knee_sentence(&[], Units::BYTES).starts_with("Too few transfers"));
    }
}
