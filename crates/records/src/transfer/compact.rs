//! Compact binary encoding of a record, as kept in the store.
//!
//! A field starts with a key: twice its field number, plus one if the value is a byte string, as a
//! variable-length integer of seven bits per byte. A number follows as another such integer, a byte
//! string as its length and its bytes. Unknown fields take no space. A reader skips field numbers
//! that it does not know, so older and newer programs can share a store.

use super::schema::Transfer;
use super::value::{Identifier, Value};
use std::io::Write;

/// Field number of `record_id`, which every record has.
const RECORD_ID: u64 = 0;

/// Returns the compact encoding of `transfer`.
#[must_use]
pub fn encode(transfer: &Transfer) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    push_bytes(&mut out, RECORD_ID, &transfer.record_id.0.to_be_bytes());
    transfer.visit(|at, _, value| {
        let at = u64::from(at);
        match value {
            Value::Number(number) => push_number(&mut out, at, number),
            Value::Flag(flag) => push_number(&mut out, at, flag.into()),
            Value::Enum(_, code) => push_number(&mut out, at, code.into()),
            Value::Identifier(bits) => push_bytes(&mut out, at, &bits.to_be_bytes()),
            Value::Text(bytes) => push_bytes(&mut out, at, bytes),
            Value::Address(address) => {
                let mut text = Vec::with_capacity(48);
                // Writing to a Vec cannot fail.
                let _ = write!(text, "{address}");
                push_bytes(&mut out, at, &text);
            }
        }
    });
    out
}

/// Decodes a record encoded by [`encode`]; `None` if the bytes are malformed.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<Transfer> {
    let mut transfer = Transfer::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        let head = take_varint(&mut rest)?;
        let at = head >> 1;
        let value = take_varint(&mut rest)?;
        if head & 1 == 0 {
            transfer.put_number(at, value);
            continue;
        }
        let (field, after) = rest.split_at_checked(usize::try_from(value).ok()?)?;
        rest = after;
        match at {
            RECORD_ID => {
                transfer.record_id = Identifier(u128::from_be_bytes(field.try_into().ok()?));
            }
            _ => transfer.put_bytes(at, field),
        }
    }
    Some(transfer)
}

fn push_number(out: &mut Vec<u8>, at: u64, number: u64) {
    push_varint(out, at << 1);
    push_varint(out, number);
}

fn push_bytes(out: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    push_varint(out, at << 1 | 1);
    push_varint(out, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(bytes);
}

/// Appends `number` as a varint: seven bits per byte, low bits first.
pub(crate) fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        let [low, ..] = number.to_le_bytes();
        out.push(low | 0x80);
        number >>= 7;
    }
    let [low, ..] = number.to_le_bytes();
    out.push(low);
}

/// Decodes one integer of [`push_varint`] from the front of `bytes`.
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let low_bits = u64::from(byte & 0x7f);
        number |= low_bits.checked_shl(shift).filter(|moved| moved >> shift == low_bits)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::tests::{SCHEMA_2_LINES, schema_1_store_records};
    use proptest::prelude::*;

    #[test]
    fn a_varint_has_seven_bits_per_byte() {
        let bytes = |number| {
            let mut out = Vec::new();
            push_varint(&mut out, number);
            assert_eq!(take_varint(&mut out.as_slice()), Some(number));
            out
        };
        assert_eq!(bytes(0x7f), [0x7f]);
        assert_eq!(bytes(0x80), [0x80, 0x01]);
        assert_eq!(bytes(0x3fff), [0xff, 0x7f]);
        assert_eq!(bytes(0x4000), [0x80, 0x80, 0x01]);
        assert_eq!(bytes(u64::MAX).len(), 10);
        assert_eq!(take_varint(&mut [0x80].as_slice()), None);
        // The tenth byte has a single bit.
        let mut tenth = [[0x80; 9].as_slice(), &[0x02]].concat();
        assert_eq!(take_varint(&mut tenth.as_slice()), None);
        tenth[9] = 0x01;
        assert_eq!(take_varint(&mut tenth.as_slice()), Some(1 << 63));
    }

    proptest! {
        #[test]
        fn a_varint_is_decoded_to_its_number(number in any::<u64>()) {
            let mut out = Vec::new();
            push_varint(&mut out, number);
            prop_assert_eq!(take_varint(&mut out.as_slice()), Some(number));
        }
    }

    #[test]
    fn store_records_of_schema_1_are_unchanged_in_schema_2() {
        for (bytes, line) in schema_1_store_records().iter().zip(SCHEMA_2_LINES.lines()) {
            let transfer = Transfer::from_line(line).unwrap();
            assert_eq!(decode(bytes).as_ref(), Some(&transfer));
            assert_eq!(&encode(&transfer), bytes);
        }
    }

    #[test]
    fn a_varint_of_more_than_64_bits_is_malformed() {
        assert_eq!(take_varint(&mut [0xff; 10].as_slice()), None);
    }

    #[test]
    fn an_unknown_field_is_skipped() {
        let mut bytes = encode(&Transfer::new(Identifier(9)));
        push_number(&mut bytes, 9_999, 5);
        push_bytes(&mut bytes, 9_998, b"later");
        assert_eq!(decode(&bytes), Some(Transfer::new(Identifier(9))));
    }
}
