//! The Internet checksum (RFC 1071) as fast as the processor can: sums, and copies that sum.
//!
//! A one's complement sum may be taken over words of any width and in either order of bytes, and
//! be folded and turned at the end (RFC 1071 §2 B and C). So all routines here add words as the
//! machine reads them. Which one runs is found out once, when [`routines`] is called:
//!
//! - AVX2: 64 bytes a round, their 16-bit halves into four vectors of 32-bit sums;
//! - elsewhere: 64-bit words with the carry added back, four sums side by side.

/// Returns the one's complement sum of big-endian words, with zero behind an odd last byte.
pub type Sum = fn(&[u8]) -> u16;

/// Copies the second to the first, as much as both hold, and returns the [`Sum`] of it.
pub type CopyAndSum = fn(&mut [u8], &[u8]) -> u16;

/// What is used to take a sum.
#[derive(Clone, Copy, Debug)]
pub struct Routines {
    /// The sum of bytes.
    pub sum: Sum,
    /// A copy with its sum.
    pub copy_and_sum: CopyAndSum,
    /// What the processor is asked for, for the head of a report.
    pub name: &'static str,
}

/// Returns the fastest routines that this processor has.
#[must_use]
pub fn routines() -> Routines {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        return Routines { sum: avx2::sum, copy_and_sum: avx2::copy_and_sum, name: "avx2" };
    }
    WORDS
}

/// The routines for a processor about which nothing is known.
pub const WORDS: Routines = Routines { sum, copy_and_sum, name: "64-bit words" };

fn sum(bytes: &[u8]) -> u16 {
    finish(add_words(0, bytes))
}

fn copy_and_sum(to: &mut [u8], from: &[u8]) -> u16 {
    finish(copy_words(0, to, from))
}

/// Adds `bytes` to the sum of words as the machine reads them.
fn add_words(sum: u64, bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<{ WORD_LEN * LANES }>();
    let sum = if blocks.is_empty() {
        sum
    } else {
        let lanes = blocks.iter().fold([sum, 0, 0, 0], add_block);
        lanes.into_iter().fold(0, add_with_carry)
    };
    let (words, tail) = rest.as_chunks::<WORD_LEN>();
    let sum = words.iter().fold(sum, |sum, word| add_with_carry(sum, u64::from_ne_bytes(*word)));
    add_with_carry(sum, last_word(tail))
}

fn copy_words(sum: u64, to: &mut [u8], from: &[u8]) -> u64 {
    let len = to.len().min(from.len());
    let (to, from) = (to.split_at_mut(len).0, from.split_at(len).0);
    let (to_blocks, to_rest) = to.as_chunks_mut::<{ WORD_LEN * LANES }>();
    let (from_blocks, from_rest) = from.as_chunks::<{ WORD_LEN * LANES }>();
    let mut lanes = [sum, 0, 0, 0];
    for (to, from) in to_blocks.iter_mut().zip(from_blocks) {
        *to = *from;
        lanes = add_block(lanes, from);
    }
    let sum = lanes.into_iter().fold(0, add_with_carry);
    let (to_words, to_tail) = to_rest.as_chunks_mut::<WORD_LEN>();
    let (from_words, from_tail) = from_rest.as_chunks::<WORD_LEN>();
    to_words.copy_from_slice(from_words);
    for (to, from) in to_tail.iter_mut().zip(from_tail) {
        *to = *from;
    }
    add_words(sum, from_rest)
}

#[inline]
fn add_block(lanes: [u64; LANES], block: &[u8; WORD_LEN * LANES]) -> [u64; LANES] {
    let mut added = lanes;
    for (lane, word) in added.iter_mut().zip(block.as_chunks::<WORD_LEN>().0) {
        *lane = add_with_carry(*lane, u64::from_ne_bytes(*word));
    }
    added
}

#[inline]
fn add_with_carry(sum: u64, word: u64) -> u64 {
    let (sum, has_carry) = sum.overflowing_add(word);
    sum + u64::from(has_carry)
}

/// Returns fewer bytes than a word has as a number with the same sum of 16-bit words.
#[inline]
fn last_word(tail: &[u8]) -> u64 {
    let (halves, tail) = tail.as_chunks::<4>();
    let (pairs, tail) = tail.as_chunks::<2>();
    let half = halves.first().map_or(0, |half| u64::from(u32::from_ne_bytes(*half)));
    let pair = pairs.first().map_or(0, |pair| u64::from(u16::from_ne_bytes(*pair)));
    let last = tail.first().map_or(0, |last| u64::from(u16::from_ne_bytes([*last, 0])));
    half + pair + last
}

/// Folds the sum to 16 bits and turns it to big-endian words.
#[expect(clippy::cast_possible_truncation, reason = "after two folds a sum has 16 bits")]
fn finish(sum: u64) -> u16 {
    let sum = (sum & 0xFFFF_FFFF) + (sum >> 32);
    let sum = (sum & 0xFFFF) + ((sum >> 16) & 0xFFFF) + (sum >> 32);
    let sum = (sum & 0xFFFF) + (sum >> 16);
    let sum = (sum & 0xFFFF) + (sum >> 16);
    (sum as u16).to_be()
}

const WORD_LEN: usize = size_of::<u64>();
/// Sums side by side, so that none waits for the one before.
const LANES: usize = 4;

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{add_words, copy_words, finish};
    use core::arch::x86_64::{
        __m256i, _mm256_add_epi32, _mm256_add_epi64, _mm256_and_si256, _mm256_loadu_si256,
        _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_srli_epi32,
        _mm256_srli_epi64, _mm256_storeu_si256,
    };

    pub(super) fn sum(bytes: &[u8]) -> u16 {
        let (blocks, rest) = bytes.as_chunks::<BLOCK_LEN>();
        // SAFETY: `routines` gives this out only where the processor has AVX2.
        let sum = unsafe { sum_blocks(blocks) };
        finish(add_words(sum, rest))
    }

    pub(super) fn copy_and_sum(to: &mut [u8], from: &[u8]) -> u16 {
        let len = to.len().min(from.len());
        let (to, from) = (to.split_at_mut(len).0, from.split_at(len).0);
        let (to_blocks, to_rest) = to.as_chunks_mut::<BLOCK_LEN>();
        let (from_blocks, from_rest) = from.as_chunks::<BLOCK_LEN>();
        // SAFETY: `routines` gives this out only where the processor has AVX2.
        let sum = unsafe { copy_blocks(to_blocks, from_blocks) };
        finish(copy_words(sum, to_rest, from_rest))
    }

    #[target_feature(enable = "avx2")]
    fn sum_blocks(blocks: &[[u8; BLOCK_LEN]]) -> u64 {
        let mut sum = 0;
        for run in blocks.chunks(RUN_BLOCKS) {
            let mut lanes = Lanes::zero();
            for block in run {
                lanes.add(load(block));
            }
            sum += lanes.total();
        }
        sum
    }

    #[target_feature(enable = "avx2")]
    fn copy_blocks(to: &mut [[u8; BLOCK_LEN]], from: &[[u8; BLOCK_LEN]]) -> u64 {
        let mut sum = 0;
        for (to, from) in to.chunks_mut(RUN_BLOCKS).zip(from.chunks(RUN_BLOCKS)) {
            let mut lanes = Lanes::zero();
            for (to, from) in to.iter_mut().zip(from) {
                let block = load(from);
                store(to, block);
                lanes.add(block);
            }
            sum += lanes.total();
        }
        sum
    }

    /// Sums of 16-bit words in 32 bits: the words at even places and at odd places, of the two
    /// halves of a block.
    struct Lanes {
        even: [__m256i; 2],
        odd: [__m256i; 2],
    }

    impl Lanes {
        #[target_feature(enable = "avx2")]
        #[inline]
        fn zero() -> Self {
            let zero = _mm256_setzero_si256();
            Self { even: [zero; 2], odd: [zero; 2] }
        }

        #[target_feature(enable = "avx2")]
        #[inline]
        fn add(&mut self, [first, second]: [__m256i; 2]) {
            let low = _mm256_set1_epi32(0xFFFF);
            let ([even_a, even_b], [odd_a, odd_b]) = (self.even, self.odd);
            self.even = [
                _mm256_add_epi32(even_a, _mm256_and_si256(first, low)),
                _mm256_add_epi32(even_b, _mm256_and_si256(second, low)),
            ];
            self.odd = [
                _mm256_add_epi32(odd_a, _mm256_srli_epi32::<16>(first)),
                _mm256_add_epi32(odd_b, _mm256_srli_epi32::<16>(second)),
            ];
        }

        /// Returns the sum of all; it has less than 48 bits.
        #[target_feature(enable = "avx2")]
        #[inline]
        fn total(&self) -> u64 {
            let low = _mm256_set1_epi64x(0xFFFF_FFFF);
            let all = self.even.iter().chain(&self.odd);
            let wide = all.fold(_mm256_setzero_si256(), |sum, lane| {
                let (even, odd) = (_mm256_and_si256(*lane, low), _mm256_srli_epi64::<32>(*lane));
                _mm256_add_epi64(sum, _mm256_add_epi64(even, odd))
            });
            // SAFETY: both are 32 bytes of plain numbers.
            let words: [u64; 4] = unsafe { core::mem::transmute(wide) };
            words.iter().sum()
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn load(block: &[u8; BLOCK_LEN]) -> [__m256i; 2] {
        let place: *const __m256i = block.as_ptr().cast();
        // SAFETY: a block has room for two vectors, and the loads need no alignment.
        unsafe { [_mm256_loadu_si256(place), _mm256_loadu_si256(place.add(1))] }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn store(block: &mut [u8; BLOCK_LEN], [first, second]: [__m256i; 2]) {
        let place: *mut __m256i = block.as_mut_ptr().cast();
        // SAFETY: a block has room for two vectors, and the stores need no alignment.
        unsafe {
            _mm256_storeu_si256(place, first);
            _mm256_storeu_si256(place.add(1), second);
        }
    }

    const BLOCK_LEN: usize = 64;
    /// A block adds less than 2^16 to a sum of 32 bits: so many may be added before it is full.
    const RUN_BLOCKS: usize = 1 << 15;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 §1, pair by pair.
    fn sum_of_pairs(bytes: &[u8]) -> u16 {
        let mut sum: u64 = bytes
            .chunks(2)
            .map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)))
            .sum();
        while sum > 0xFFFF {
            sum = (sum & 0xFFFF) + (sum >> 16);
        }
        u16::try_from(sum).unwrap()
    }

    fn assert_all_agree(bytes: &[u8]) {
        let expected = sum_of_pairs(bytes);
        for routines in [WORDS, routines()] {
            assert_eq!((routines.sum)(bytes), expected, "{}, {}", routines.name, bytes.len());
            let mut copy = vec![0; bytes.len()];
            assert_eq!((routines.copy_and_sum)(&mut copy, bytes), expected, "{}", routines.name);
            assert_eq!(copy, bytes);
        }
    }

    #[test]
    fn every_length_up_to_300_at_every_alignment_has_the_sum_of_its_pairs() {
        let bytes: Vec<u8> = (0..400_u32).map(|n| (n * 167 + 13).to_le_bytes()[0]).collect();
        for start in 0..64 {
            for len in 0..300 {
                assert_all_agree(&bytes[start..start + len]);
            }
        }
    }

    #[test]
    fn all_ones_do_not_overflow_in_more_bytes_than_any_packet_has() {
        assert_all_agree(&vec![0xFF; (5 << 20) + 3]);
    }

    #[test]
    fn a_sum_of_zero_and_a_sum_of_all_ones_are_told_apart() {
        assert_eq!((routines().sum)(&[0; 128]), 0);
        assert_eq!((routines().sum)(&[0xFF; 128]), 0xFFFF);
    }

    #[test]
    fn a_copy_ends_with_the_shorter_of_the_two() {
        let (mut short, long) = ([0; 70], [7; 200]);
        assert_eq!((routines().copy_and_sum)(&mut short, &long), sum_of_pairs(&[7; 70]));
        let mut long = [0; 200];
        assert_eq!((WORDS.copy_and_sum)(&mut long, &short), sum_of_pairs(&[7; 70]));
        assert_eq!((&long[..70], &long[70..]), (&short[..], &[0; 130][..]));
    }

    proptest! {
        #[test]
        fn any_bytes_have_the_sum_of_their_pairs(
            bytes in prop::collection::vec(any::<u8>(), 0..70_000), start in 0..64_usize
        ) {
            assert_all_agree(bytes.get(start..).unwrap_or_default());
        }
    }
}
