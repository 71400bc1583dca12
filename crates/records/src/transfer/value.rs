//! Values of a record's fields, and their conversion to and from text, numbers and bytes.
//!
//! Every field type converts to a [`Value`], and can be made from text, as in JSON, or from a
//! number or bytes, as in the store. An unreadable value becomes unknown and is not an error: a
//! later schema may have values that this one lacks.

use crate::escape;
use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;

/// Kind of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// An unsigned integer.
    Number,
    /// A boolean.
    Flag,
    /// An enumerated value.
    Enum,
    /// 128 bits, in hexadecimal.
    Identifier,
    /// An address with its port.
    Address,
    /// Untrusted bytes.
    Text,
}

/// Value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An unsigned integer.
    Number(u64),
    /// A boolean.
    Flag(bool),
    /// An enumerated value, with its code in the store.
    Enum(&'static str, u8),
    /// 128 bits.
    Identifier(u128),
    /// An address with its port.
    Address(SocketAddr),
    /// Untrusted bytes, unchanged.
    Text(&'a [u8]),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
            Self::Enum(word, _) => f.write_str(word),
            Self::Identifier(bits) => write!(f, "{bits:032x}"),
            Self::Address(address) => address.fmt(f),
            Self::Text(bytes) => f.write_str(&escaped(bytes)),
        }
    }
}

/// A type that a field of a record can have.
pub trait Field: Sized {
    /// Kind of the field.
    const KIND: FieldKind;

    /// Returns the value of the field.
    fn value(&self) -> Value<'_>;

    /// Parses the field from the text that [`Value`] displays.
    fn from_text(_text: &str) -> Option<Self> {
        None
    }

    /// Makes the field from its number or its code; a flag is 0 or 1.
    fn from_number(_number: u64) -> Option<Self> {
        None
    }

    /// Makes the field from its bytes, big-endian.
    fn from_bytes(_bytes: &[u8]) -> Option<Self> {
        None
    }
}

impl Field for u64 {
    const KIND: FieldKind = FieldKind::Number;

    fn value(&self) -> Value<'_> {
        Value::Number(*self)
    }

    fn from_number(number: u64) -> Option<Self> {
        Some(number)
    }
}

impl Field for bool {
    const KIND: FieldKind = FieldKind::Flag;

    fn value(&self) -> Value<'_> {
        Value::Flag(*self)
    }

    fn from_number(number: u64) -> Option<Self> {
        (number < 2).then_some(number == 1)
    }
}

/// 128 bits that identify a record or a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identifier(pub u128);

impl Identifier {
    /// Makes a unique identifier, if `random` is 64 random bits.
    ///
    /// Later identifiers are greater, which keeps index insertions in the store sequential.
    #[must_use]
    pub const fn new(unix_ns: u64, random: u64) -> Self {
        Self(((unix_ns as u128) << 64) | random as u128)
    }
}

impl Field for Identifier {
    const KIND: FieldKind = FieldKind::Identifier;

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
    const KIND: FieldKind = FieldKind::Address;

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

/// Untrusted bytes: a name, a path, an error.
///
/// In JSON, CSV and on a terminal they are escaped by [`escape::terminal`], which is lossless.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Box<[u8]>);

impl Text {
    /// Returns the original bytes.
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
    const KIND: FieldKind = FieldKind::Text;

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

/// Returns `bytes` as text without controls; [`unescaped`] reverses it.
pub(crate) fn escaped(bytes: &[u8]) -> Cow<'_, str> {
    let is_plain = bytes.iter().all(|byte| (b' '..=b'~').contains(byte) && *byte != b'\\');
    match std::str::from_utf8(bytes) {
        Ok(text) if is_plain => Cow::Borrowed(text),
        _ => Cow::Owned(escape::terminal(bytes)),
    }
}

/// Returns the bytes that were passed to [`escaped`]; invalid escapes are kept literally.
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

/// Parses the escape after a backslash, and returns the rest of the text.
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
    fn later_identifiers_are_greater() {
        assert!(Identifier::new(1, u64::MAX) < Identifier::new(2, 0));
    }

    #[test]
    fn a_backslash_without_an_escape_is_literal() {
        assert_eq!(unescaped(r"a\qb\x4"), br"a\qb\x4");
    }

    #[test]
    fn an_identifier_has_at_most_32_hexadecimal_digits() {
        let parsed = |text: &str| Identifier::from_text(text).map(|identifier| identifier.0);
        assert_eq!(parsed("1f"), Some(31));
        assert_eq!(parsed(&"f".repeat(32)), Some(u128::MAX));
        assert_eq!(parsed(&format!("0{}", "f".repeat(32))), None);
        assert_eq!([parsed("+1"), parsed(""), parsed("g")], [None; 3]);
    }

    #[test]
    fn flags_and_addresses_are_parsed_from_their_numbers_and_texts() {
        assert_eq!([0, 1, 2].map(bool::from_number), [Some(false), Some(true), None]);
        assert_eq!(u64::from_number(9), Some(9));
        let address: SocketAddr = "10.0.0.1:21".parse().unwrap();
        assert_eq!(SocketAddr::from_text("10.0.0.1:21"), Some(address));
        assert_eq!(SocketAddr::from_bytes(b"10.0.0.1:21"), Some(address));
        assert_eq!(SocketAddr::from_bytes(b"\xff"), None);
        assert_eq!(
            Text::from_text(r"a\x41\u{e9}\\").map(|text| text.as_bytes().to_vec()),
            Some("aAé\\".as_bytes().to_vec())
        );
        assert_eq!(Text::from_bytes(b"b"), Some(Text::from("b")));
        assert_eq!(u64::from_text("9"), None);
    }

    proptest! {
        #[test]
        fn escaped_bytes_are_restored(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            prop_assert_eq!(unescaped(&escaped(&bytes)), bytes);
        }

        #[test]
        fn escaped_text_is_restored(text in any::<String>()) {
            prop_assert_eq!(unescaped(&escaped(text.as_bytes())), text.as_bytes());
        }

        #[test]
        fn attack_row_75_no_bytes_leave_a_control_in_the_text(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            prop_assert!(!escaped(&bytes).chars().any(char::is_control));
        }

        #[test]
        fn pieces_of_escapes_are_unescaped_to_bytes_that_are_restored(
            text in r"(\\|\\x|\\u\{|\}|[0-9a-f]{1,6}|.){0,20}",
        ) {
            let bytes = unescaped(&text);
            prop_assert!(bytes.len() <= text.len());
            prop_assert_eq!(unescaped(&escaped(&bytes)), bytes);
        }

        #[test]
        fn an_identifier_is_parsed_from_its_text(bits in any::<u128>()) {
            let text = Value::Identifier(bits).to_string();
            prop_assert_eq!(Identifier::from_text(&text), Some(Identifier(bits)));
        }
    }
}
