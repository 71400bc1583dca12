//! The Internet checksum (RFC 1071): the one's complement of the one's complement sum.

/// A running one's complement sum of 16-bit words.
///
/// Only the last piece added may have an odd length, because its last byte is padded with zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds `bytes`, taken as big-endian words.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        // Four bytes at a time: a one's complement sum may be taken over words of any width and
        // folded at the end (RFC 1071 §2 C).
        let mut sum = self.0;
        let mut words = bytes.chunks_exact(4);
        for word in &mut words {
            if let Ok(word) = <[u8; 4]>::try_from(word) {
                sum += u64::from(u32::from_be_bytes(word));
            }
        }
        let mut tail = [0; 4];
        for (to, from) in tail.iter_mut().zip(words.remainder()) {
            *to = *from;
        }
        Self(u64::from(fold(sum)) + u64::from(fold(u64::from(u32::from_be_bytes(tail)))))
    }

    /// Adds one word.
    #[must_use]
    pub fn word(self, word: u16) -> Self {
        Self(self.0 + u64::from(word))
    }

    /// Returns the checksum to put into a header whose checksum field is zero.
    #[must_use]
    pub fn finish(self) -> u16 {
        !fold(self.0)
    }

    /// Returns whether the sum over data and checksum is that of an undamaged packet.
    #[must_use]
    pub fn is_good(self) -> bool {
        self.finish() == 0
    }
}

fn fold(mut sum: u64) -> u16 {
    loop {
        match u16::try_from(sum) {
            Ok(sum) => return sum,
            Err(_) => sum = (sum & 0xFFFF) + (sum >> 16),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn the_example_of_rfc_1071_section_3_gives_its_sum() {
        let sum = Sum::default().bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.finish(), !0xddf2);
    }

    proptest! {
        #[test]
        fn the_fast_sum_equals_the_sum_of_byte_pairs(bytes: Vec<u8>) {
            let mut slow: u32 = bytes
                .chunks(2)
                .map(|p| u32::from(p[0]) << 8 | u32::from(p.get(1).copied().unwrap_or(0)))
                .sum();
            while slow > 0xFFFF {
                slow = (slow & 0xFFFF) + (slow >> 16);
            }
            prop_assert_eq!(Sum::default().bytes(&bytes).finish(), !u16::try_from(slow).unwrap());
        }
    }
}
