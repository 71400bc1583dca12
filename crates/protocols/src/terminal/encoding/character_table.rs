//! Look-up of a character in the table of a character set, and output of a character as UTF-8.

use alloc::vec::Vec;

/// Appends a character to a UTF-8 text.
pub(super) fn put(character: char, text: &mut Vec<u8>) {
    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Returns the byte of a character: its position in `table` plus `first`.
pub(super) fn find(character: char, table: &str, first: u8) -> Option<u8> {
    let index = table.chars().position(|other| other == character)?;
    first.checked_add(u8::try_from(index).ok()?)
}
