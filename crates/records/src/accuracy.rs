//! RFC 573's sixth measure: the error rate of transferred data, by bits, bytes, blocks and files.
//!
//! Both ends of a measurement know the transferred pattern. The value of each byte depends only on
//! its offset, so the receiver compares data as it arrives. If a byte is lost or duplicated, nearly
//! all following bytes differ. Missing and surplus data counts as wrong. A block has 512 bytes, as
//! in TFTP (RFC 1350).

use serde::{Deserialize, Serialize};

/// Bytes per block; the last block of a file may be shorter.
const BLOCK_BYTES: u64 = 512;

/// Numbers of expected and of wrong bits, bytes, blocks and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Bits expected.
    pub bits: u64,
    /// Bits that were wrong or missing, plus surplus bits.
    pub bits_wrong: u64,
    /// Bytes expected.
    pub bytes: u64,
    /// Bytes with a wrong bit.
    pub bytes_wrong: u64,
    /// Blocks expected.
    pub blocks: u64,
    /// Blocks with a wrong bit.
    pub blocks_wrong: u64,
    /// Files expected. In a login, each typed line counts as a file.
    pub files: u64,
    /// Files with a wrong bit, counted like `files`.
    pub files_wrong: u64,
}

/// Returns the pattern byte at offset `at` of a file.
#[must_use]
pub fn pattern(at: u64) -> u8 {
    let [first, ..] = (mix(at / 8) >> (at % 8 * 8)).to_le_bytes();
    first
}

/// Returns the pattern character at offset `at` of a typed line: a lowercase letter or a digit. A
/// shell does not interpret these characters.
#[must_use]
pub fn printable_pattern(at: u64) -> u8 {
    const CHARACTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let index = usize::try_from(mix(at) % 36).unwrap_or(0);
    CHARACTERS.get(index).copied().unwrap_or(b'x')
}

/// Mixes the bits of `number` (the finalizer of `SplitMix64`).
const fn mix(number: u64) -> u64 {
    let mut state = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// Comparison of one arriving file with the expected bytes.
#[derive(Clone, Debug)]
pub struct Comparison {
    expected: fn(u64) -> u8,
    length: u64,
    received_bytes: u64,
    accuracy: Accuracy,
    is_block_wrong: bool,
}

impl Comparison {
    /// Starts the comparison of a file of `length` bytes; `expected` maps an offset to its byte.
    #[must_use]
    pub fn new(expected: fn(u64) -> u8, length: u64) -> Self {
        let accuracy = Accuracy {
            bits: length.saturating_mul(8),
            bytes: length,
            blocks: length.div_ceil(BLOCK_BYTES),
            files: 1,
            ..Accuracy::default()
        };
        Self { expected, length, received_bytes: 0, accuracy, is_block_wrong: false }
    }

    /// Compares the next received bytes.
    pub fn compare(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let is_expected = self.received_bytes < self.length;
            let wrong =
                if is_expected { *byte ^ (self.expected)(self.received_bytes) } else { u8::MAX };
            self.compare_byte(wrong);
        }
    }

    /// Ends the comparison and counts bytes not received as wrong.
    #[must_use]
    pub fn finish(mut self) -> Accuracy {
        while self.received_bytes < self.length {
            self.compare_byte(u8::MAX);
        }
        self.end_block();
        self.accuracy.files_wrong = u64::from(self.accuracy.bits_wrong > 0);
        self.accuracy
    }

    fn compare_byte(&mut self, wrong: u8) {
        if self.received_bytes.is_multiple_of(BLOCK_BYTES) {
            self.end_block();
        }
        self.received_bytes += 1;
        self.accuracy.bits_wrong += u64::from(wrong.count_ones());
        self.accuracy.bytes_wrong += u64::from(wrong != 0);
        self.is_block_wrong |= wrong != 0;
    }

    fn end_block(&mut self) {
        self.accuracy.blocks_wrong += u64::from(std::mem::take(&mut self.is_block_wrong));
    }
}

impl Accuracy {
    /// Returns the sums of `self` and `other`.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            bits: self.bits.saturating_add(other.bits),
            bits_wrong: self.bits_wrong.saturating_add(other.bits_wrong),
            bytes: self.bytes.saturating_add(other.bytes),
            bytes_wrong: self.bytes_wrong.saturating_add(other.bytes_wrong),
            blocks: self.blocks.saturating_add(other.blocks),
            blocks_wrong: self.blocks_wrong.saturating_add(other.blocks_wrong),
            files: self.files.saturating_add(other.files),
            files_wrong: self.files_wrong.saturating_add(other.files_wrong),
        }
    }

    /// Returns for each unit its name, the number expected and the number wrong.
    #[must_use]
    pub const fn units(&self) -> [(&'static str, u64, u64); 4] {
        [
            ("bits", self.bits, self.bits_wrong),
            ("bytes", self.bytes, self.bytes_wrong),
            ("blocks", self.blocks, self.blocks_wrong),
            ("files", self.files, self.files_wrong),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expected_file(length: u64) -> Vec<u8> {
        (0..length).map(pattern).collect()
    }

    fn accuracy_of(bytes: &[u8], length: u64) -> Accuracy {
        let mut comparison = Comparison::new(pattern, length);
        comparison.compare(bytes);
        comparison.finish()
    }

    #[test]
    fn a_correctly_received_file_has_no_error() {
        let accuracy = accuracy_of(&expected_file(1_300), 1_300);
        assert_eq!(
            (accuracy.bits, accuracy.bytes, accuracy.blocks, accuracy.files),
            (10_400, 1_300, 3, 1)
        );
        assert!(accuracy.units().iter().all(|(_, _, wrong)| *wrong == 0));
    }

    #[test]
    fn a_flipped_bit_counts_as_one_wrong_bit_byte_block_and_file() {
        let mut bytes = expected_file(1_300);
        bytes[700] ^= 0x10;
        let accuracy = accuracy_of(&bytes, 1_300);
        assert_eq!((accuracy.bits_wrong, accuracy.bytes_wrong), (1, 1));
        assert_eq!((accuracy.blocks_wrong, accuracy.files_wrong), (1, 1));
    }

    #[test]
    fn missing_bytes_are_wrong() {
        let accuracy = accuracy_of(&expected_file(512), 1_300);
        assert_eq!((accuracy.bytes_wrong, accuracy.blocks_wrong), (788, 2));
    }

    #[test]
    fn surplus_bytes_are_wrong() {
        let accuracy = accuracy_of(&expected_file(513), 512);
        assert_eq!((accuracy.bytes_wrong, accuracy.blocks_wrong, accuracy.files_wrong), (1, 1, 1));
    }

    #[test]
    fn an_empty_file_has_no_error() {
        assert_eq!(accuracy_of(&[], 0).files_wrong, 0);
    }

    #[test]
    fn a_lost_byte_makes_all_later_bytes_wrong() {
        let mut bytes = expected_file(10_000);
        bytes.remove(5_000);
        assert!(accuracy_of(&bytes, 10_000).bytes_wrong > 4_900);
    }

    #[test]
    fn the_printable_pattern_has_only_letters_and_digits() {
        let mut typed_line = (0..10_000).map(printable_pattern);
        assert!(typed_line.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
    }

    proptest! {
        #[test]
        fn errors_never_exceed_received_and_expected_data(
            bytes in proptest::collection::vec(any::<u8>(), 0..3_000),
            length in 0..3_000_u64,
        ) {
            let accuracy = accuracy_of(&bytes, length);
            let max = length.max(bytes.len() as u64);
            prop_assert!(accuracy.bytes_wrong <= max);
            prop_assert!(accuracy.bits_wrong <= 8 * max);
            prop_assert!(accuracy.blocks_wrong <= max.div_ceil(BLOCK_BYTES));
            prop_assert!(accuracy.bytes_wrong <= accuracy.bits_wrong);
        }

        #[test]
        fn errors_do_not_depend_on_how_data_is_divided(
            bytes in proptest::collection::vec(any::<u8>(), 0..2_000),
            cut in 0..2_000_usize,
        ) {
            let (one, other) = bytes.split_at(cut.min(bytes.len()));
            let mut comparison = Comparison::new(pattern, 1_000);
            comparison.compare(one);
            comparison.compare(other);
            prop_assert_eq!(comparison.finish(), accuracy_of(&bytes, 1_000));
        }
    }
}
