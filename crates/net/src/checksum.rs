//! The Internet checksum (RFC 1071): the one's complement of the one's complement sum.

/// The two loops over packet data that compute checksums. A driver may replace them by faster
/// implementations for its processor.
///
/// Both return the sum of the big-endian 16-bit words, folded to 16 bits. An odd last byte is
/// padded with zero.
#[derive(Clone, Copy, Debug)]
pub struct Routines {
    /// Returns the folded sum of the bytes.
    pub sum: fn(&[u8]) -> u16,
    /// Copies the second slice to the first, which has the same length, and returns the sum of the
    /// data.
    pub copy_and_sum: fn(&mut [u8], &[u8]) -> u16,
}

impl Routines {
    /// Portable implementations of both loops.
    pub const PORTABLE: Self = Self { sum, copy_and_sum };
}

impl Default for Routines {
    fn default() -> Self {
        Self::PORTABLE
    }
}

/// Number of partial sums computed in parallel, so that an addition does not wait for the previous
/// one.
const LANES: usize = 4;
const WORD_LEN: usize = size_of::<u64>();

fn sum(bytes: &[u8]) -> u16 {
    // A one's complement sum may be taken over words of any width and in any byte order, and
    // folded and byte-swapped at the end (RFC 1071 §2 B and C). These words are the machine's
    // native 64-bit words, and every carry is added back.
    let (blocks, rest) = bytes.as_chunks::<{ LANES * WORD_LEN }>();
    let mut sum = 0;
    if !blocks.is_empty() {
        let lanes = blocks.iter().fold([0; LANES], add_block);
        sum = lanes.into_iter().fold(0, add_with_carry);
    }
    let (words, tail) = rest.as_chunks::<WORD_LEN>();
    for word in words {
        sum = add_with_carry(sum, u64::from_ne_bytes(*word));
    }
    u16::from_be(fold(add_with_carry(sum, tail_sum(tail))))
}

fn add_block(mut lanes: [u64; LANES], block: &[u8; LANES * WORD_LEN]) -> [u64; LANES] {
    for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<WORD_LEN>().0) {
        *lane = add_with_carry(*lane, u64::from_ne_bytes(*word));
    }
    lanes
}

fn add_with_carry(sum: u64, word: u64) -> u64 {
    let (sum, has_carry) = sum.overflowing_add(word);
    sum + u64::from(has_carry)
}

/// Returns the sum of the last bytes, which are fewer than the eight bytes of a machine word.
fn tail_sum(tail: &[u8]) -> u64 {
    let (halves, tail) = tail.as_chunks::<4>();
    let (pairs, tail) = tail.as_chunks::<2>();
    let half = halves.first().map_or(0, |half| u64::from(u32::from_ne_bytes(*half)));
    let pair = pairs.first().map_or(0, |pair| u64::from(u16::from_ne_bytes(*pair)));
    let last = tail.first().map_or(0, |last| u64::from(u16::from_ne_bytes([*last, 0])));
    half + pair + last
}

fn copy_and_sum(to: &mut [u8], from: &[u8]) -> u16 {
    to.copy_from_slice(from);
    sum(from)
}

/// A running one's complement sum of 16-bit words.
///
/// Only the last byte slice added may have an odd length, because its last byte is padded with
/// zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum over the data and the checksum field of an undamaged packet: all ones.
    pub const ALL_ONES: Self = Self(0xFFFF);

    /// Adds `bytes` as big-endian words.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.word(sum(bytes))
    }

    /// Adds an IPv4 header without options, which is too short for the parallel sums to be faster.
    #[must_use]
    pub fn header(self, bytes: &[u8; 20]) -> Self {
        let (words, _) = bytes.as_chunks::<4>();
        let native_sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
        self.word(u16::from_be(fold(native_sum)))
    }

    /// Adds one word, or a sum returned by one of the [`Routines`].
    #[must_use]
    pub fn word(self, word: u16) -> Self {
        Self(self.0 + u64::from(word))
    }

    /// Returns the folded sum without complementing it: the initial content of a checksum field
    /// that the network device completes.
    #[must_use]
    pub fn unfinished(self) -> u16 {
        fold(self.0)
    }

    /// Returns the checksum to put into a header whose checksum field is zero.
    #[must_use]
    pub fn finish(self) -> u16 {
        !fold(self.0)
    }

    /// Returns whether the sum over the data and the checksum field is that of an undamaged packet.
    #[must_use]
    pub fn is_good(self) -> bool {
        self.finish() == 0
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the folded sum has 16 bits")]
fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xFFFF_FFFF);
    let sum = (sum >> 32) + ((sum >> 16) & 0xFFFF) + (sum & 0xFFFF);
    let sum = (sum >> 16) + (sum & 0xFFFF);
    let sum = (sum >> 16) + (sum & 0xFFFF);
    sum as u16
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
        fn the_sum_of_a_header_is_that_of_its_bytes(bytes: [u8; 20]) {
            let expected = Sum::default().bytes(&bytes).finish();
            prop_assert_eq!(Sum::default().header(&bytes).finish(), expected);
        }

        #[test]
        fn the_fast_sum_equals_the_sum_of_byte_pairs(bytes: Vec<u8>) {
            let mut reference_sum: u32 = bytes
                .chunks(2)
                .map(|p| u32::from(p[0]) << 8 | u32::from(p.get(1).copied().unwrap_or(0)))
                .sum();
            while reference_sum > 0xFFFF {
                reference_sum = (reference_sum & 0xFFFF) + (reference_sum >> 16);
            }
            prop_assert_eq!(Sum::default().bytes(&bytes).finish(), !u16::try_from(reference_sum).unwrap());
        }
    }
}
