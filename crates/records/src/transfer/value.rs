//! What a field of a record can hold, and how it goes to a word, a number or bytes and back.
//!
//! Every field type says its value as a [`Value`], and can be made from text, as JSON has it, or
//! from a number or bytes, as the store has it. What cannot be read is unknown and no error: a
//! later schema may know words that this one does not.

use crate::escape;
use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;

/// Of which kind a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Number,
    /// Yes or no.
    Flag,
    /// One of a few words.
    Word,
    /// 128 bits, in hexadecimal.
    Identifier,
    /// An address with its port.
    Address,
    /// Bytes of somebody else.
    Text,
}

/// What stands in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A whole number.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// One of a few words, with the code that the store has for it.
    Word(&'static str, u8),
    /// 128 bits.
    Identifier(u128),
    /// An address with its port.
    Address(SocketAddr),
    /// Bytes of somebody else, as they came.
    Text(&'a [u8]),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
            Self::Word(word, _) => f.write_str(word),
            Self::Identifier(bits) => write!(f, "{bits:032x}"),
            Self::Address(address) => address.fmt(f),
            Self::Text(bytes) => f.write_str(&escaped(bytes)),
        }
    }
}

/// A type that a field of a record can have.
pub trait Field: Sized {
    /// Of which kind the field is.
    const KIND: Kind;

    /// Returns what stands in the field.
    fn value(&self) -> Value<'_>;

    /// Returns the field from how [`Value`] is displayed.
    fn from_text(_text: &str) -> Option<Self> {
        None
    }

    /// Returns the field from its number or its code; a flag is 0 or 1.
    fn from_number(_number: u64) -> Option<Self> {
        None
    }

    /// Returns the field from its bytes, the highest first.
    fn from_bytes(_bytes: &[u8]) -> Option<Self> {
        None
    }
}

impl Field for u64 {
    const KIND: Kind = Kind::Number;

    fn value(&self) -> Value<'_> {
        Value::Number(*self)
    }

    fn from_number(number: u64) -> Option<Self> {
        Some(number)
    }
}

impl Field for bool {
    const KIND: Kind = Kind::Flag;

    fn value(&self) -> Value<'_> {
        Value::Flag(*self)
    }

    fn from_number(number: u64) -> Option<Self> {
        (number < 2).then_some(number == 1)
    }
}

/// 128 bits that name a record or a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identifier(pub u128);

impl Identifier {
    /// Returns a name that nobody else has, if `chance` is 64 bits of chance.
    ///
    /// Names that were made later are greater, which keeps the index of a store in its order.
    #[must_use]
    pub const fn new(unix_ns: u64, chance: u64) -> Self {
        Self(((unix_ns as u128) << 64) | chance as u128)
    }
}

impl Field for Identifier {
    const KIND: Kind = Kind::Identifier;

    fn value(&self) -> Value<'_> {
        Value::Identifier(self.0)
    }

    fn from_text(text: &str) -> Option<Self> {
        let is_plain = text.len() <= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u128::from_str_radix(text, 16).ok().filter(|_| is_plain).map(Self)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(u128::from_be_bytes(bytes.try_into().ok()?)))
    }
}

impl Field for SocketAddr {
    const KIND: Kind = Kind::Address;

    fn value(&self) -> Value<'_> {
        Value::Address(*self)
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok()?.parse().ok()
    }
}

/// Bytes that somebody else chose: a name, a path, an error.
///
/// In JSON, CSV and on a terminal they are escaped by [`escape::terminal`], which loses nothing.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Box<[u8]>);

impl Text {
    /// Returns the bytes as they came.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<Bytes: AsRef<[u8]> + ?Sized> From<&Bytes> for Text {
    fn from(bytes: &Bytes) -> Self {
        Self(bytes.as_ref().into())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", escaped(&self.0))
    }
}

impl Field for Text {
    const KIND: Kind = Kind::Text;

    fn value(&self) -> Value<'_> {
        Value::Text(&self.0)
    }

    fn from_text(text: &str) -> Option<Self> {
        Some(Self(unescaped(text).into()))
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.into()))
    }
}

/// Returns `bytes` as text without controls, which [`unescaped`] takes back.
pub(crate) fn escaped(bytes: &[u8]) -> Cow<'_, str> {
    let is_plain = bytes.iter().all(|byte| (b' '..=b'~').contains(byte) && *byte != b'\\');
    match std::str::from_utf8(bytes) {
        Ok(text) if is_plain => Cow::Borrowed(text),
        _ => Cow::Owned(escape::terminal(bytes)),
    }
}

/// Returns the bytes that [`escaped`] was given; what is no escape stands for itself.
pub(crate) fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        rest = match unescape(after) {
            Some((Escape::Byte(byte), rest)) => {
                bytes.push(byte);
                rest
            }
            Some((Escape::Character(character), rest)) => {
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest
            }
            None => {
                bytes.push(b'\\');
                after
            }
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

enum Escape {
    Byte(u8),
    Character(char),
}

/// Reads what follows a backslash, and returns what is left after it.
fn unescape(after: &str) -> Option<(Escape, &str)> {
    if let Some(rest) = after.strip_prefix('\\') {
        return Some((Escape::Byte(b'\\'), rest));
    }
    if let Some(rest) = after.strip_prefix('x') {
        let (digits, rest) = rest.split_at_checked(2)?;
        return Some((Escape::Byte(u8::from_str_radix(digits, 16).ok()?), rest));
    }
    let (digits, rest) = after.strip_prefix("u{")?.split_once('}')?;
    let character = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
    Some((Escape::Character(character), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_were_made_later_are_greater() {
        assert!(Identifier::new(1, u64::MAX) < Identifier::new(2, 0));
    }

    #[test]
    fn a_backslash_that_begins_no_escape_stands_for_itself() {
        assert_eq!(unescaped(r"a\qb\x4"), br"a\qb\x4");
    }

    proptest! {
        #[test]
        fn what_was_escaped_comes_back_byte_by_byte(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            prop_assert_eq!(unescaped(&escaped(&bytes)), bytes);
        }

        #[test]
        fn any_text_comes_back_from_its_escape(text in any::<String>()) {
            prop_assert_eq!(unescaped(&escaped(text.as_bytes())), text.as_bytes());
        }

        #[test]
        fn attack_row_75_no_bytes_leave_a_control_in_the_text(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            prop_assert!(!escaped(&bytes).chars().any(char::is_control));
        }

        #[test]
        fn any_text_is_unescaped_without_a_panic(text in any::<String>()) {
            unescaped(&text);
        }

        #[test]
        fn an_identifier_comes_back_from_its_text(bits in any::<u128>()) {
            let text = Value::Identifier(bits).to_string();
            prop_assert_eq!(Identifier::from_text(&text), Some(Identifier(bits)));
        }
    }
}
