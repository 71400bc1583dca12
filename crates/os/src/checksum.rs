//! Internet checksum (RFC 1071) with the fastest routines for this processor. One routine sums
//! bytes; the other copies and sums them in one pass.
//!
//! The AVX2 routines process 64 bytes per round. They add the 16-bit words to four vectors of
//! 32-bit sums, in the machine's own byte order (RFC 1071 §2 B). The remainder, and all data on
//! processors without AVX2, goes to [`Routines::PORTABLE`], which adds 64-bit words.

pub use net::checksum::Routines;

/// Returns the fastest routines that this processor supports.
#[must_use]
pub fn routines() -> Routines {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        return Routines { sum: avx2::sum, copy_and_sum: avx2::copy_and_sum };
    }
    Routines::PORTABLE
}

/// Returns the name of the selected routines, for the header of a report.
#[must_use]
pub fn name() -> &'static str {
    if has_avx2() { "AVX2" } else { "64-bit words" }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    std::is_x86_feature_detected!("avx2")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::Routines;
    use core::arch::x86_64::{
        __m256i, _mm256_add_epi32, _mm256_add_epi64, _mm256_and_si256, _mm256_loadu_si256,
        _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_srli_epi32,
        _mm256_srli_epi64, _mm256_storeu_si256,
    };
    use net::checksum::Sum;

    pub(super) fn sum(bytes: &[u8]) -> u16 {
        if bytes.len() < AVX2_MIN_LEN {
            return (Routines::PORTABLE.sum)(bytes);
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK_LEN>();
        // SAFETY: `routines` returns this function only where the processor has AVX2.
        let sum = unsafe { sum_blocks(blocks) };
        finish(sum, (Routines::PORTABLE.sum)(rest))
    }

    pub(super) fn copy_and_sum(to: &mut [u8], from: &[u8]) -> u16 {
        if from.len() < AVX2_MIN_LEN {
            return (Routines::PORTABLE.copy_and_sum)(to, from);
        }
        let (to_blocks, to_rest) = to.as_chunks_mut::<BLOCK_LEN>();
        let (from_blocks, from_rest) = from.as_chunks::<BLOCK_LEN>();
        // SAFETY: `routines` returns this function only where the processor has AVX2.
        let sum = unsafe { copy_blocks(to_blocks, from_blocks) };
        finish(sum, (Routines::PORTABLE.copy_and_sum)(to_rest, from_rest))
    }

    /// Folds the sum of the blocks, converts it to big-endian words, and adds the sum of the bytes
    /// after the last block.
    fn finish(blocks: u64, rest: u16) -> u16 {
        let words = blocks.to_le_bytes();
        let (words, _) = words.as_chunks::<2>();
        let sum =
            words.iter().fold(Sum::default(), |sum, word| sum.word(u16::from_le_bytes(*word)));
        Sum::default().word(u16::from_be(sum.unfinished())).word(rest).unfinished()
    }

    #[target_feature(enable = "avx2")]
    fn sum_blocks(blocks: &[[u8; BLOCK_LEN]]) -> u64 {
        let mut sum = 0;
        for run in blocks.chunks(SUM_BLOCKS_MAX) {
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
        for (to, from) in to.chunks_mut(SUM_BLOCKS_MAX).zip(from.chunks(SUM_BLOCKS_MAX)) {
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

    /// 32-bit sums of 16-bit words. Words at even positions and words at odd positions are added
    /// separately, for each of the two halves of a block.
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
            let low_mask = _mm256_set1_epi32(0xFFFF);
            let [even_a, even_b] = self.even;
            let [odd_a, odd_b] = self.odd;
            self.even = [
                _mm256_add_epi32(even_a, _mm256_and_si256(first, low_mask)),
                _mm256_add_epi32(even_b, _mm256_and_si256(second, low_mask)),
            ];
            self.odd = [
                _mm256_add_epi32(odd_a, _mm256_srli_epi32::<16>(first)),
                _mm256_add_epi32(odd_b, _mm256_srli_epi32::<16>(second)),
            ];
        }

        /// Returns the total of all lanes, which is less than 2^48.
        #[target_feature(enable = "avx2")]
        #[inline]
        fn total(&self) -> u64 {
            let low_mask = _mm256_set1_epi64x(0xFFFF_FFFF);
            let all = self.even.iter().chain(&self.odd);
            let wide_sums = all.fold(_mm256_setzero_si256(), |sum, lane| {
                let even = _mm256_and_si256(*lane, low_mask);
                let odd = _mm256_srli_epi64::<32>(*lane);
                _mm256_add_epi64(sum, _mm256_add_epi64(even, odd))
            });
            // SAFETY: both types are 32 bytes of plain integers.
            let words: [u64; 4] = unsafe { core::mem::transmute(wide_sums) };
            words.iter().sum()
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn load(block: &[u8; BLOCK_LEN]) -> [__m256i; 2] {
        let place: *const __m256i = block.as_ptr().cast();
        // SAFETY: a block holds two vectors, and the loads need no alignment.
        unsafe { [_mm256_loadu_si256(place), _mm256_loadu_si256(place.add(1))] }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn store(block: &mut [u8; BLOCK_LEN], [first, second]: [__m256i; 2]) {
        let place: *mut __m256i = block.as_mut_ptr().cast();
        // SAFETY: a block holds two vectors, and the stores need no alignment.
        unsafe {
            _mm256_storeu_si256(place, first);
            _mm256_storeu_si256(place.add(1), second);
        }
    }

    const BLOCK_LEN: usize = 64;
    /// Minimum length in bytes for the AVX2 routines. Shorter data goes to the portable routines:
    /// folding the vectors costs more time than the vectors save.
    const AVX2_MIN_LEN: usize = 160;
    /// Maximum number of blocks that can be added to a 32-bit sum without overflow. Each block adds
    /// less than 2^16.
    const SUM_BLOCKS_MAX: usize = 1 << 15;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reference implementation of RFC 1071 §1: adds one pair of bytes at a time.
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
        for routines in [Routines::PORTABLE, routines()] {
            assert_eq!((routines.sum)(bytes), expected, "{} bytes", bytes.len());
            let mut copy = vec![0; bytes.len()];
            assert_eq!((routines.copy_and_sum)(&mut copy, bytes), expected);
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
    fn all_ones_do_not_overflow_in_more_bytes_than_a_packet() {
        assert_all_agree(&vec![0xFF; (5 << 20) + 3]);
    }

    #[test]
    fn a_sum_of_zero_and_a_sum_of_all_ones_are_distinguished() {
        assert_eq!((routines().sum)(&[0; 128]), 0);
        assert_eq!((routines().sum)(&[0xFF; 128]), 0xFFFF);
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
