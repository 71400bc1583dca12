//! The event flags of a ring, and whose turn it is.

use std::cell::Cell;
use std::rc::Rc;

/// How many places a ring has at most.
pub const PLACES_MAX: usize = u64::BITS as usize;

/// Sets event flags.
pub trait Wake {
    /// Sets the event flag of the place `place`: it gets its turn, also if that is the caller's
    /// own. A flag that is set already stays so.
    fn wake(&self, place: usize);
}

/// The event flags of a ring of one thread.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    bits: Rc<Cell<u64>>,
}

impl Flags {
    /// Returns the first place behind `after` whose flag is set, round the ring, and clears it.
    pub(super) fn take_next(&self, after: usize) -> Option<usize> {
        let bits = self.bits.get();
        let place = next(bits, after)?;
        self.bits.set(bits & !bit(place));
        Some(place)
    }
}

impl Wake for Flags {
    #[inline]
    fn wake(&self, place: usize) {
        self.bits.set(self.bits.get() | bit(place));
    }
}

/// Returns the first place behind `after` that has a bit, round the ring.
#[inline]
pub(super) fn next(bits: u64, after: usize) -> Option<usize> {
    if bits == 0 {
        return None;
    }
    let behind = bits & !upto(after);
    let candidates = if behind == 0 { bits } else { behind };
    Some(candidates.trailing_zeros() as usize)
}

/// Returns the bit of a place; none for a place that no ring has.
#[inline]
pub(super) const fn bit(place: usize) -> u64 {
    if place < PLACES_MAX { 1 << place } else { 0 }
}

/// Returns the bits of all places up to `last`.
#[inline]
const fn upto(last: usize) -> u64 {
    let bit = bit(last);
    bit | bit.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The thesis's way: look at one place behind the other.
    fn by_looking(bits: u64, after: usize) -> Option<usize> {
        (1..=PLACES_MAX)
            .map(|step| (after + step) % PLACES_MAX)
            .find(|place| bits & (1 << place) != 0)
    }

    proptest! {
        #[test]
        fn the_next_place_is_the_one_that_looking_at_each_in_turn_finds(
            bits in any::<u64>(),
            sparse in any::<u64>(),
            after in 0..PLACES_MAX,
        ) {
            for bits in [bits, bits & sparse, 1 << after, 0] {
                prop_assert_eq!(next(bits, after), by_looking(bits, after));
            }
        }
    }

    #[test]
    fn a_place_that_no_ring_has_cannot_be_woken() {
        let flags = Flags::default();
        flags.wake(PLACES_MAX);
        assert_eq!(flags.take_next(0), None);
    }
}
