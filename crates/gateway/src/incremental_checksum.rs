//! Incremental update of an Internet checksum (RFC 1624, equation 3).

use net::checksum::Sum;

/// Returns the checksum after one summed word has changed from `old` to `new`.
#[must_use]
pub(crate) fn after_change(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::default().word(!checksum).word(!old).word(new).finish()
}

/// Replaces the big-endian word at offset `at`, and updates the checksum at offset `checksum_at`.
/// Changes nothing and returns `None` if `bytes` are too short.
pub(crate) fn replace_word(
    bytes: &mut [u8],
    at: usize,
    new: u16,
    checksum_at: usize,
) -> Option<()> {
    let old = word_at(bytes, at)?;
    let checksum = after_change(word_at(bytes, checksum_at)?, old, new);
    set_word(bytes, at, new)?;
    set_word(bytes, checksum_at, checksum)
}

/// Returns the big-endian word at offset `at`.
pub(crate) fn word_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

/// Writes a big-endian word at offset `at`.
pub(crate) fn set_word(bytes: &mut [u8], at: usize, word: u16) -> Option<()> {
    *bytes.get_mut(at..)?.first_chunk_mut()? = word.to_be_bytes();
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_updated_checksum_is_as_good_as_a_new_one(
            mut words in prop::collection::vec(any::<u16>(), 2..40),
            at in 1..40_usize,
            new: u16,
        ) {
            let at = 1 + at % (words.len() - 1);
            words[0] = 0;
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            let checksum = Sum::default().bytes(&bytes).finish();
            set_word(&mut bytes, 0, checksum).unwrap();
            replace_word(&mut bytes, at * 2, new, 0).unwrap();
            prop_assert!(Sum::default().bytes(&bytes).is_good());
            prop_assert_eq!(word_at(&bytes, at * 2), Some(new));
        }
    }

    #[test]
    fn bytes_that_are_too_short_stay_unchanged() {
        let mut bytes = [1, 2, 3];
        assert_eq!(replace_word(&mut bytes, 0, 9, 2), None);
        assert_eq!(bytes, [1, 2, 3]);
    }
}
