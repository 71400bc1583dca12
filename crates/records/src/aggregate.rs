//! Totals of a set of transfers: the columns of RFC 573's table II, and the distributions.
//!
//! All values are integers, so merging the aggregates of subsets in any order gives exactly the
//! aggregate of the set. A rate is a sum of bits divided by a sum of real times, as in the paper;
//! both sums are over the transfers with known bits and real time. A cost is a sum of CPU times
//! divided by a sum of bits, over the transfers with known bits and CPU time.

use crate::histogram::Histogram;
use crate::transfer::compact::{push_varint, take_varint};
use crate::transfer::{TransferLimit, derived};

/// Minimum real time of a transfer that counts as fastest, ns. A shorter transfer only copied data
/// between the process and the kernel's buffers, so its time on the network is unknown.
pub const MIN_FASTEST_NS: u64 = 1_000_000;

/// Values of one transfer that are added to an aggregate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// Bits of the file.
    pub bits: Option<u64>,
    /// Real time, ns.
    pub real_ns: Option<u64>,
    /// CPU time, ns.
    pub cpu_ns: Option<u64>,
    /// Limiting factor.
    pub limit: Option<TransferLimit>,
}

/// Sums over those transfers for which all summed values are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of transfers.
    pub files: u64,
    /// Total bits.
    pub bits: u128,
    /// Total time, ns; 0 if the sum is of bits alone.
    pub ns: u128,
}

/// A maximum or minimum, and the transfer with that value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extreme {
    /// The value.
    pub value: u64,
    /// Number of the transfer in the store; the lowest number if several transfers have the value.
    pub id: u64,
}

/// Totals of a set of transfers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// Number of transfers.
    pub files: u64,
    /// Sum over transfers with known bits.
    pub size: Sum,
    /// Sum over transfers with known bits and real time.
    pub rate: Sum,
    /// Sum over transfers with known bits and CPU time.
    pub cost: Sum,
    /// Number of transfers limited by each of [`TransferLimit::ALL`].
    pub limited: [u64; TransferLimit::ALL.len()],
    /// Largest transfer, bits.
    pub largest: Option<Extreme>,
    /// Smallest transfer, bits.
    pub smallest: Option<Extreme>,
    /// Highest rate, bit/s, among transfers of at least [`MIN_FASTEST_NS`].
    pub fastest: Option<Extreme>,
    /// Lowest rate, bit/s.
    pub slowest: Option<Extreme>,
    /// Histogram of the real (elapsed) times of the transfers, ns.
    pub real_ns: Histogram,
    /// Histogram of the rates of the transfers, bit/s.
    pub rate_bps: Histogram,
    /// Histogram of the CPU time per bit of the transfers, fs.
    pub cpu_fs_per_bit: Histogram,
}

impl Sum {
    fn add(&mut self, bits: u64, ns: u64) {
        self.files += 1;
        self.bits += u128::from(bits);
        self.ns += u128::from(ns);
    }

    fn merge(&mut self, other: &Self) {
        self.files = self.files.saturating_add(other.files);
        self.bits = self.bits.saturating_add(other.bits);
        self.ns = self.ns.saturating_add(other.ns);
    }

    /// Returns the rate, bit/s; `None` if the time is 0.
    #[must_use]
    pub fn bits_per_s(&self) -> Option<f64> {
        (self.ns > 0).then(|| self.bits as f64 * 1e9 / self.ns as f64)
    }

    /// Returns the cost in seconds per megabit, which equals microseconds per bit.
    #[must_use]
    pub fn s_per_megabit(&self) -> Option<f64> {
        (self.files > 0 && self.bits > 0).then(|| self.ns as f64 / 1e3 / self.bits as f64)
    }
}

impl Aggregate {
    /// Adds the transfer with number `id` in the store.
    pub fn add(&mut self, id: u64, measures: &Measures) {
        self.files += 1;
        if let Some(limit) = measures.limit
            && let Some(count) = self.limited.get_mut(usize::from(limit.code()) - 1)
        {
            *count += 1;
        }
        if let Some(real_ns) = measures.real_ns {
            self.real_ns.add(real_ns);
        }
        let Some(bits) = measures.bits else { return };
        self.size.add(bits, 0);
        let at = |value| Some(Extreme { value, id });
        self.largest = greater_extreme(self.largest, at(bits));
        self.smallest = smaller_extreme(self.smallest, at(bits));
        if let Some(real_ns) = measures.real_ns
            && let Some(rate) = derived::rate_bps(bits, real_ns)
        {
            self.rate.add(bits, real_ns);
            self.rate_bps.add(rate);
            if real_ns >= MIN_FASTEST_NS {
                self.fastest = greater_extreme(self.fastest, at(rate));
            }
            self.slowest = smaller_extreme(self.slowest, at(rate));
        }
        if let Some(cpu_ns) = measures.cpu_ns
            && let Some(cost) = derived::cpu_fs_per_bit(cpu_ns, bits)
        {
            self.cost.add(bits, cpu_ns);
            self.cpu_fs_per_bit.add(cost);
        }
    }

    /// Adds the totals of another aggregate.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.files = self.files.saturating_add(other.files);
        self.size.merge(&other.size);
        self.rate.merge(&other.rate);
        self.cost.merge(&other.cost);
        for (count, more) in self.limited.iter_mut().zip(other.limited) {
            *count = count.saturating_add(more);
        }
        self.largest = greater_extreme(self.largest, other.largest);
        self.smallest = smaller_extreme(self.smallest, other.smallest);
        self.fastest = greater_extreme(self.fastest, other.fastest);
        self.slowest = smaller_extreme(self.slowest, other.slowest);
        self.real_ns.merge(&other.real_ns);
        self.rate_bps.merge(&other.rate_bps);
        self.cpu_fs_per_bit.merge(&other.cpu_fs_per_bit);
    }

    /// Returns a compact encoding of the aggregate.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        push_varint(&mut out, self.files);
        for sum in [&self.size, &self.rate, &self.cost] {
            push_varint(&mut out, sum.files);
            push_wide(&mut out, sum.bits);
            push_wide(&mut out, sum.ns);
        }
        self.limited.iter().for_each(|count| push_varint(&mut out, *count));
        for extreme in [self.largest, self.smallest, self.fastest, self.slowest] {
            push_varint(&mut out, extreme.is_some().into());
            if let Some(Extreme { value, id }) = extreme {
                push_varint(&mut out, value);
                push_varint(&mut out, id);
            }
        }
        for histogram in [&self.real_ns, &self.rate_bps, &self.cpu_fs_per_bit] {
            histogram.encode(&mut out);
        }
        out
    }

    /// Merges an aggregate encoded by [`Self::encode`]; returns `None` if it is malformed.
    #[must_use]
    pub(crate) fn merge_encoded(&mut self, mut bytes: &[u8]) -> Option<()> {
        let bytes = &mut bytes;
        let mut other = Self { files: take_varint(bytes)?, ..Self::default() };
        for sum in [&mut other.size, &mut other.rate, &mut other.cost] {
            sum.files = take_varint(bytes)?;
            sum.bits = take_wide(bytes)?;
            sum.ns = take_wide(bytes)?;
        }
        for count in &mut other.limited {
            *count = take_varint(bytes)?;
        }
        let Self { largest, smallest, fastest, slowest, .. } = &mut other;
        for extreme in [largest, smallest, fastest, slowest] {
            if take_varint(bytes)? == 1 {
                *extreme = Some(Extreme { value: take_varint(bytes)?, id: take_varint(bytes)? });
            }
        }
        self.merge(&other);
        self.real_ns.merge_encoded(bytes)?;
        self.rate_bps.merge_encoded(bytes)?;
        self.cpu_fs_per_bit.merge_encoded(bytes)
    }
}

fn greater_extreme(current: Option<Extreme>, other: Option<Extreme>) -> Option<Extreme> {
    better_extreme(current, other, |current, other| current > other)
}

fn smaller_extreme(current: Option<Extreme>, other: Option<Extreme>) -> Option<Extreme> {
    better_extreme(current, other, |current, other| current < other)
}

/// Returns the better of two extremes; if they are equal, the extreme with the lower transfer
/// number.
fn better_extreme(
    current: Option<Extreme>,
    other: Option<Extreme>,
    is_better: fn(u64, u64) -> bool,
) -> Option<Extreme> {
    let (Some(a), Some(b)) = (current, other) else { return current.or(other) };
    let is_replaced = is_better(b.value, a.value) || (a.value == b.value && b.id < a.id);
    if is_replaced { other } else { current }
}

/// Appends 128 bits as two varints, low half first.
fn push_wide(out: &mut Vec<u8>, number: u128) {
    let high = number >> 64;
    let low = number & u128::from(u64::MAX);
    push_varint(out, u64::try_from(low).unwrap_or(u64::MAX));
    push_varint(out, u64::try_from(high).unwrap_or(u64::MAX));
}

fn take_wide(bytes: &mut &[u8]) -> Option<u128> {
    let low = u128::from(take_varint(bytes)?);
    Some(u128::from(take_varint(bytes)?) << 64 | low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn any_measures() -> impl Strategy<Value = Measures> {
        let number = || proptest::option::of(prop_oneof![0..9_u64, 0..1_u64 << 40, any::<u64>()]);
        (number(), number(), number(), 0..9_u8).prop_map(|(bits, real_ns, cpu_ns, limit)| {
            Measures { bits, real_ns, cpu_ns, limit: TransferLimit::from_code(limit) }
        })
    }

    #[test]
    fn an_extreme_is_kept_until_a_better_value_or_an_equal_one_of_an_earlier_transfer() {
        let [one, two] = [1, 2].map(|value| Some(Extreme { value, id: 5 }));
        let earlier = Some(Extreme { value: 1, id: 4 });
        for (a, b) in [(one, two), (two, one)] {
            assert_eq!((smaller_extreme(a, b), greater_extreme(a, b)), (one, two));
        }
        for (a, b) in [(one, earlier), (earlier, one)] {
            assert_eq!((smaller_extreme(a, b), greater_extreme(a, b)), (earlier, earlier));
        }
        for (a, b) in [(one, None), (None, one)] {
            assert_eq!((smaller_extreme(a, b), greater_extreme(a, b)), (one, one));
        }
    }

    #[test]
    fn unknown_values_do_not_count_as_zero_in_a_rate() {
        let mut aggregate = Aggregate::default();
        let known =
            Measures { bits: Some(50_000), real_ns: Some(5_000_000_000), ..Measures::default() };
        aggregate.add(1, &known);
        aggregate.add(2, &Measures { bits: Some(1_000_000), ..Measures::default() });
        aggregate.add(3, &Measures::default());
        assert_eq!((aggregate.files, aggregate.size.files, aggregate.rate.files), (3, 2, 1));
        assert_eq!(aggregate.rate.bits_per_s(), Some(10_000.0));
        assert_eq!(aggregate.cost.s_per_megabit(), None);
    }

    #[test]
    fn the_first_of_equal_values_is_the_extreme() {
        let mut aggregate = Aggregate::default();
        for id in [7, 3, 5] {
            aggregate.add(id, &Measures { bits: Some(80), ..Measures::default() });
        }
        assert_eq!(aggregate.largest, Some(Extreme { value: 80, id: 3 }));
    }

    proptest! {
        #[test]
        fn aggregates_of_parts_merge_to_that_of_the_total_in_any_order(
            measures in proptest::collection::vec((any_measures(), 0..4_usize), 0..60),
        ) {
            let mut whole = Aggregate::default();
            let mut parts = vec![Aggregate::default(); 4];
            for (id, (measures, part)) in (1..).zip(&measures) {
                whole.add(id, measures);
                parts[*part].add(id, measures);
            }
            let mut merged = Aggregate::default();
            let mut decoded = Aggregate::default();
            for part in parts.iter().rev() {
                merged.merge(part);
                decoded.merge_encoded(&part.encode()).unwrap();
            }
            prop_assert_eq!(&merged, &whole);
            prop_assert_eq!(&decoded, &whole);
        }

        #[test]
        fn a_damaged_encoding_that_is_still_read_survives_a_round_trip(
            measures in proptest::collection::vec(any_measures(), 0..20),
            at in any::<proptest::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut aggregate = Aggregate::default();
            (1..).zip(&measures).for_each(|(id, measures)| aggregate.add(id, measures));
            let mut bytes = aggregate.encode();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let mut damaged = Aggregate::default();
            if damaged.merge_encoded(&bytes).is_some() {
                let mut decoded = Aggregate::default();
                prop_assert_eq!(decoded.merge_encoded(&damaged.encode()), Some(()));
                prop_assert_eq!(decoded, damaged);
            }
        }
    }
}
