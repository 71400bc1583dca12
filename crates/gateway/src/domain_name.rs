//! Domain names: search domains in wire format, and names in received messages (RFC 1035 §3.1,
//! §4.1.4).
//!
//! A name in a message may end in a pointer to an earlier name. Parsers of other hosts followed
//! pointers in a loop, beyond the message, or into the header (row 107 of the attack table). Here a
//! pointer leads strictly backwards, to a name after the header, and a name has at most 127 labels
//! and 255 bytes when it is expanded. The work for one name is therefore bounded.

use std::fmt;
use std::str::FromStr;

/// Length of the header of a message, to which no pointer leads, in bytes.
pub const HEADER_LEN: usize = 12;
/// Maximum length of a name in wire format, with the length bytes and the root label.
pub const NAME_MAX_LEN: usize = 255;
/// Maximum number of labels of a name, without the root label.
pub const LABELS_MAX: usize = 127;
/// Maximum length of a label, in bytes.
const LABEL_MAX_LEN: usize = 63;
/// The two highest bits of a length byte that begins a pointer.
const POINTER: u8 = 0xC0;

/// A name in wire format without pointers: labels, each after its length, and the root label.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DomainName {
    wire: Vec<u8>,
}

/// Reasons why a name is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The name extends beyond the message.
    Truncated,
    /// The name exceeds 255 bytes or 127 labels.
    TooLong,
    /// A label is empty, longer than 63 bytes or of an unknown type.
    Label,
    /// A pointer does not lead backwards, leads into the header, or is not allowed here.
    Pointer,
}

impl DomainName {
    /// Returns the name in wire format.
    #[must_use]
    pub fn wire(&self) -> &[u8] {
        &self.wire
    }
}

impl FromStr for DomainName {
    type Err = NameError;

    /// Parses labels separated by dots. A final dot is optional; escapes are not supported.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let mut wire = Vec::with_capacity(text.len() + 2);
        for label in text.strip_suffix('.').unwrap_or(text).split('.') {
            if label.is_empty() || label.len() > LABEL_MAX_LEN {
                return Err(NameError::Label);
            }
            wire.push(u8::try_from(label.len()).map_err(|_| NameError::Label)?);
            wire.extend(label.as_bytes());
        }
        wire.push(0);
        // 127 labels of one byte and the root label have 255 bytes.
        if wire.len() > NAME_MAX_LEN { Err(NameError::TooLong) } else { Ok(Self { wire }) }
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.wire.as_slice();
        while let Some((len, labels)) = rest.split_first().filter(|(len, _)| **len > 0) {
            let (label, after) = labels.split_at_checked(usize::from(*len)).unwrap_or_default();
            write!(f, "{}.", label.escape_ascii())?;
            rest = after;
        }
        Ok(())
    }
}

impl fmt::Debug for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DomainName({self})")
    }
}

/// Checks the name at offset `at` of a message, with its pointers, and returns the offset after the
/// name.
///
/// # Errors
///
/// Returns an error if the name is invalid.
pub fn skip_name(message: &[u8], at: usize) -> Result<usize, NameError> {
    walk(message, at, true)
}

/// As [`skip_name`], for a name that must not contain a pointer, such as the first one of a message.
///
/// # Errors
///
/// Returns an error if the name is invalid.
pub fn skip_plain_name(message: &[u8], at: usize) -> Result<usize, NameError> {
    walk(message, at, false)
}

fn walk(message: &[u8], at: usize, allows_pointers: bool) -> Result<usize, NameError> {
    let mut at = at;
    // Start of the labels being read; a pointer leads to a lower offset.
    let mut labels_start = at;
    let mut end = None;
    // The root label is part of every name.
    let mut name_len = 1;
    let mut labels = 0;
    loop {
        let length = *message.get(at).ok_or(NameError::Truncated)?;
        match length & POINTER {
            0 if length == 0 => return Ok(end.unwrap_or(at + 1)),
            0 => {
                name_len += usize::from(length) + 1;
                labels += 1;
                at += usize::from(length) + 1;
                if name_len > NAME_MAX_LEN || labels > LABELS_MAX {
                    return Err(NameError::TooLong);
                }
            }
            POINTER if allows_pointers => {
                let low = *message.get(at + 1).ok_or(NameError::Truncated)?;
                let target = usize::from(u16::from_be_bytes([length & !POINTER, low]));
                if !(HEADER_LEN..labels_start).contains(&target) {
                    return Err(NameError::Pointer);
                }
                end = end.or(Some(at + 2));
                labels_start = target;
                at = target;
            }
            POINTER => return Err(NameError::Pointer),
            // 0x40 and 0x80 are reserved; RFC 6891 §5 withdrew the extended labels.
            _ => return Err(NameError::Label),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after_header(bytes: &[u8]) -> Vec<u8> {
        [&[0; HEADER_LEN], bytes].concat()
    }

    #[test]
    fn a_name_is_converted_to_wire_format_and_back() {
        let name: DomainName = "a.example".parse().unwrap();
        assert_eq!(name.wire(), b"\x01a\x07example\0");
        assert_eq!(name.to_string(), "a.example.");
        assert_eq!("a.example.".parse(), Ok(name));
    }

    #[test]
    fn an_invalid_name_is_rejected() {
        let labels = |count: usize| vec!["a"; count].join(".");
        assert!(labels(127).parse::<DomainName>().is_ok());
        assert_eq!(labels(128).parse::<DomainName>(), Err(NameError::TooLong));
        let invalid = ["", ".", "a..b", ".a", &"a".repeat(64)];
        assert!(invalid.iter().all(|text| text.parse::<DomainName>() == Err(NameError::Label)));
    }

    // attack row 107
    #[test]
    fn row_107_a_pointer_leads_backwards_only() {
        // "a" at 12, then at 15 "b" and a pointer to 12.
        let good = after_header(b"\x01a\0\x01b\xC0\x0C");
        assert_eq!(skip_name(&good, 15), Ok(19));
        let to = |target: u8| skip_name(&after_header(&[1, b'a', 0, 1, b'b', 0xC0, target]), 15);
        // Into the header, to the start of the same name, to itself, forwards, and beyond the end.
        let targets = [0, 11, 15, 17, 18, 200];
        assert!(targets.into_iter().all(|target| to(target) == Err(NameError::Pointer)));
    }

    // attack row 107
    #[test]
    fn row_107_pointers_that_refer_to_each_other_end() {
        // At 12 a pointer to 14, at 14 a pointer to 12.
        let message = after_header(&[0xC0, 14, 0xC0, 12]);
        assert_eq!(skip_name(&message, 14), Err(NameError::Pointer));
        assert_eq!(skip_name(&message, 12), Err(NameError::Pointer));
    }

    // attack row 107
    #[test]
    fn row_107_a_chain_of_pointers_is_limited_by_the_expanded_name() {
        // Each name is one label and a pointer to the previous name.
        let mut message = after_header(&[1, b'a', 0]);
        let mut previous = HEADER_LEN;
        let mut result = Ok(0);
        for labels in 2..=128 {
            let at = message.len();
            let [high, low] = u16::try_from(previous).unwrap().to_be_bytes();
            message.extend([1, b'a', 0xC0 | high, low]);
            previous = at;
            result = skip_name(&message, at);
            assert_eq!(result.is_ok(), labels <= 127, "{labels}");
        }
        assert_eq!(result, Err(NameError::TooLong));
    }

    #[test]
    fn a_name_has_at_most_255_bytes() {
        let label = |len: usize| [&[len.to_le_bytes()[0]][..], &vec![b'a'; len]].concat();
        let message = |last| {
            let labels = [63, 63, 63, last].map(label).concat();
            after_header(&[&labels[..], &[0]].concat())
        };
        assert_eq!(skip_name(&message(61), HEADER_LEN), Ok(HEADER_LEN + 255));
        assert_eq!(skip_name(&message(62), HEADER_LEN), Err(NameError::TooLong));
    }

    #[test]
    fn a_label_of_an_unknown_type_is_rejected() {
        let results = [0x40, 0x80].map(|kind| skip_name(&after_header(&[kind, 0]), HEADER_LEN));
        assert_eq!(results, [Err(NameError::Label); 2]);
    }

    #[test]
    fn a_plain_name_has_no_pointer() {
        let message = after_header(b"\x01a\0\xC0\x0C");
        assert_eq!(skip_name(&message, 15), Ok(17));
        assert_eq!(skip_plain_name(&message, 15), Err(NameError::Pointer));
    }

    proptest! {
        // attack row 107
        #[test]
        fn row_107_a_valid_name_ends_inside_the_message(
            bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0_usize..320,
        ) {
            if let Ok(end) = skip_name(&bytes, at) {
                prop_assert!(at < end && end <= bytes.len());
            }
        }

        #[test]
        fn a_name_from_text_is_skipped_as_a_whole(
            labels in prop::collection::vec("[a-zA-Z0-9-]{1,63}", 1..6),
        ) {
            if let Ok(name) = labels.join(".").parse::<DomainName>() {
                let message = after_header(name.wire());
                prop_assert_eq!(skip_plain_name(&message, HEADER_LEN), Ok(message.len()));
                for len in HEADER_LEN..message.len() {
                    let cut = skip_name(&message[..len], HEADER_LEN);
                    prop_assert_eq!(cut, Err(NameError::Truncated));
                }
            }
        }
    }
}
