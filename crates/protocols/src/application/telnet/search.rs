//! Where one of a few bytes stands next. Most inputs are one key or its echo, for which the wide
//! search of a long text is more code than it is work.

use memchr::{memchr, memchr2};

/// Up to so many bytes are looked at one by one; ours.
const SHORT_LEN: usize = 8;

/// Returns where `byte` stands first.
pub(super) fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    if bytes.len() <= SHORT_LEN {
        return bytes.iter().position(|other| *other == byte);
    }
    memchr(byte, bytes)
}

/// Returns where `one` or `other` stands first.
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
        fn short_and_long_inputs_are_searched_alike(
            bytes in proptest::collection::vec(0_u8..4, 0..20),
        ) {
            let padded: Vec<u8> = bytes.iter().copied().chain([9; 20]).collect();
            prop_assert_eq!(find(1, &bytes), find(1, &padded));
            prop_assert_eq!(find_either(1, 2, &bytes), find_either(1, 2, &padded));
        }
    }
}
