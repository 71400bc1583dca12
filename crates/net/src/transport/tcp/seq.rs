//! Sequence numbers (RFC 9293 §3.4): 32 bits that wrap, compared within half their range.

use core::ops::{Add, Sub};

/// A sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seq(pub u32);

impl Seq {
    /// Returns whether this number comes before `other`.
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() < 0
    }

    /// Returns whether this number comes after `other`.
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        other.is_before(self)
    }

    /// Returns the distance from `earlier` to this number, modulo 2^32.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Returns the later of two sequence numbers.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// Returns the earlier of two sequence numbers.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if self.is_before(other) { self } else { other }
    }

    /// Returns whether this number lies in the window of `len` sequence numbers that begins at
    /// `start`.
    #[must_use]
    pub const fn is_in_window(self, start: Self, len: u32) -> bool {
        self.since(start) < len
    }
}

impl Add<u32> for Seq {
    type Output = Self;

    fn add(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }
}

impl Sub<u32> for Seq {
    type Output = Self;

    fn sub(self, count: u32) -> Self {
        Self(self.0.wrapping_sub(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_holds_across_the_wrap() {
        let before = Seq(0xFFFF_FFF0);
        let after = Seq(0x10);
        assert!(before.is_before(after) && after.is_after(before));
        assert_eq!(after.since(before), 0x20);
        assert_eq!((before.max(after), before.min(after)), (after, before));
    }

    #[test]
    fn an_empty_window_holds_nothing() {
        assert!(!Seq(5).is_in_window(Seq(5), 0));
        assert!(Seq(5).is_in_window(Seq(5), 1));
    }
}
