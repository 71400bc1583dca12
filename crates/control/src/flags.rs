//! Event flags of a ring, and the selection of the position that has the next turn.

use std::cell::Cell;
use std::rc::Rc;

/// Maximum number of positions of a ring.
pub const POSITIONS_MAX: usize = u64::BITS as usize;

/// Sets event flags.
pub trait Wake {
    /// Sets the event flag of a ring position, which schedules a turn for that position. A position
    /// may also wake itself. Setting a flag that is already set has no effect.
    fn wake(&self, position: usize);
}

/// Event flags of a single-threaded ring.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    bits: Rc<Cell<u64>>,
}

impl Flags {
    /// Returns the first position after `after`, in ring order, whose flag is set, and clears the
    /// flag.
    pub(super) fn take_next(&self, after: usize) -> Option<usize> {
        let bits = self.bits.get();
        let position = next(bits, after)?;
        self.bits.set(bits & !bit(position));
        Some(position)
    }
}

impl Wake for Flags {
    #[inline]
    fn wake(&self, position: usize) {
        self.bits.set(self.bits.get() | bit(position));
    }
}

/// Returns the first position after `after`, in ring order, whose bit is set.
#[inline]
pub(super) fn next(bits: u64, after: usize) -> Option<usize> {
    if bits == 0 {
        return None;
    }
    let later_bits = bits & !bits_up_to(after);
    let candidates = if later_bits == 0 { bits } else { later_bits };
    Some(candidates.trailing_zeros() as usize)
}

/// Returns the bit of a position, or 0 for a position outside the ring.
#[inline]
pub(super) const fn bit(position: usize) -> u64 {
    if position < POSITIONS_MAX { 1 << position } else { 0 }
}

/// Returns the bits of all positions up to `last`.
#[inline]
const fn bits_up_to(last: usize) -> u64 {
    let bit = bit(last);
    bit | bit.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reference implementation by the algorithm of TM-233: examines one position after another.
    fn next_by_scan(bits: u64, after: usize) -> Option<usize> {
        (1..=POSITIONS_MAX)
            .map(|step| (after + step) % POSITIONS_MAX)
            .find(|position| bits & (1 << position) != 0)
    }

    proptest! {
        #[test]
        fn the_next_position_is_found_as_by_a_linear_search(
            bits in any::<u64>(),
            sparse in any::<u64>(),
            after in 0..POSITIONS_MAX,
        ) {
            for bits in [bits, bits & sparse, 1 << after, 0] {
                prop_assert_eq!(next(bits, after), next_by_scan(bits, after));
            }
        }
    }

    #[test]
    fn a_position_outside_the_ring_cannot_be_woken() {
        let flags = Flags::default();
        flags.wake(POSITIONS_MAX);
        assert_eq!(flags.take_next(0), None);
    }
}
