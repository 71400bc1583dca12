//! Search for the first of one or two byte values. Most inputs are one typed character or its echo.
//! For such short inputs a search byte by byte takes less time than the preparation of a vectorized
//! search.

use memchr::{memchr, memchr2};

/// Maximum input length in bytes that is searched byte by byte (our choice).
const SHORT_LEN: usize = 8;

/// Returns the first position of `byte`.
pub(super) fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    if bytes.len() <= SHORT_LEN {
        return bytes.iter().position(|other| *other == byte);
    }
    memchr(byte, bytes)
}

/// Returns the first position of `one` or `other`.
pub(super) fn find_either(one: u8, other: u8, bytes: &[u8]) -> Option<usize> {
    if bytes.len() <= SHORT_LEN {
        return bytes.iter().position(|byte| *byte == one || *byte == other);
    }
    memchr2(one, other, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn short_and_long_inputs_have_the_same_search_results(
            bytes in proptest::collection::vec(0_u8..4, 0..20),
        ) {
            let padded: Vec<u8> = bytes.iter().copied().chain([9; 20]).collect();
            prop_assert_eq!(find(1, &bytes), find(1, &padded));
            prop_assert_eq!(find_either(1, 2, &bytes), find_either(1, 2, &padded));
        }
    }
}
