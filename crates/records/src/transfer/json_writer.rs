//! A record in JSON (RFC 8259), written byte by byte.
//!
//! A line is formatted once per transfer, usually right after a system call, when the instruction
//! cache is cold. Therefore the code is kept small. One function serves all fields, and common
//! values are written without `core::fmt`: numbers, enumerations, IPv4 addresses, and text that
//! needs no escape. Other values take slower, generic code.

use super::SCHEMA;
use super::schema::Transfer;
use super::value::{Field, Value, escaped};
use std::io::Write;
use std::net::SocketAddr;

/// Maximum decimal digits of a 64-bit number.
const DIGITS_MAX: usize = 20;

/// Appends `transfer` to `lines` as one line, with its newline.
pub(super) fn push(transfer: &Transfer, lines: &mut Vec<u8>) {
    lines.extend_from_slice(b"{\"schema\":");
    push_number(lines, SCHEMA);
    lines.extend_from_slice(b",\"record_id\":");
    push_value(lines, transfer.record_id.value());
    transfer.visit(|_, name, value| push_field(lines, name, value));
    lines.extend_from_slice(b"}\n");
}

#[inline(never)]
fn push_field(lines: &mut Vec<u8>, name: &str, value: Value<'_>) {
    lines.extend_from_slice(b",\"");
    lines.extend_from_slice(name.as_bytes());
    lines.extend_from_slice(b"\":");
    push_value(lines, value);
}

fn push_value(lines: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Number(number) => push_number(lines, number),
        Value::Flag(true) => lines.extend_from_slice(b"true"),
        Value::Flag(false) => lines.extend_from_slice(b"false"),
        Value::Enum(word, _) => push_plain(lines, word.as_bytes()),
        Value::Text(bytes) if bytes.iter().all(|byte| is_plain(*byte)) => push_plain(lines, bytes),
        // Escaped text is always valid JSON, and writing to a Vec cannot fail.
        Value::Text(bytes) => _ = serde_json::to_writer(lines, &*escaped(bytes)),
        Value::Identifier(bits) => push_bits(lines, bits),
        Value::Address(SocketAddr::V4(address)) => {
            lines.push(b'"');
            let [first, rest @ ..] = address.ip().octets();
            push_number(lines, first.into());
            for octet in rest {
                lines.push(b'.');
                push_number(lines, octet.into());
            }
            lines.push(b':');
            push_number(lines, address.port().into());
            lines.push(b'"');
        }
        Value::Address(address) => _ = write!(lines, "\"{address}\""),
    }
}

/// Returns whether `byte` is special neither to a terminal nor in JSON.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'\\' && byte != b'"'
}

fn push_plain(lines: &mut Vec<u8>, text: &[u8]) {
    lines.push(b'"');
    lines.extend_from_slice(text);
    lines.push(b'"');
}

fn push_number(lines: &mut Vec<u8>, number: u64) {
    let mut digits = [0; DIGITS_MAX];
    let mut remaining_digits = number;
    let mut len = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(remaining_digits % 10).unwrap_or(0);
        remaining_digits /= 10;
        len += 1;
        if remaining_digits == 0 {
            break;
        }
    }
    lines.extend_from_slice(digits.get(DIGITS_MAX - len..).unwrap_or_default());
}

fn push_bits(lines: &mut Vec<u8>, bits: u128) {
    let mut text = [b'"'; 2 + 32];
    for (at, digit) in text.iter_mut().skip(1).take(32).enumerate() {
        let nibble = u8::try_from((bits >> (124 - 4 * at)) & 0xf).unwrap_or(0);
        *digit = if nibble < 10 { b'0' + nibble } else { b'a' - 10 + nibble };
    }
    lines.extend_from_slice(&text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::tests::any_transfer;
    use proptest::prelude::*;

    fn text(value: Value<'_>) -> String {
        let mut line = Vec::new();
        push_value(&mut line, value);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn an_address_with_a_scope_is_formatted_by_display() {
        let address = "[fe80::1%3]:21".parse().unwrap();
        assert_eq!(text(Value::Address(address)), "\"[fe80::1%3]:21\"");
    }

    #[test]
    fn zero_is_one_digit() {
        assert_eq!(text(Value::Number(0)), "0");
    }

    proptest! {
        #[test]
        fn any_record_is_an_object_with_the_displayed_values(
            transfer in any_transfer(),
        ) {
            let mut line = Vec::new();
            push(&transfer, &mut line);
            let object: serde_json::Value = serde_json::from_slice(&line).unwrap();
            let mut fields = 2;
            transfer.visit(|_, name, value| {
                fields += 1;
                let member = &object[name];
                let member = member.as_str().map_or_else(|| member.to_string(), str::to_owned);
                assert_eq!(member, value.to_string());
            });
            prop_assert_eq!(object.as_object().unwrap().len(), fields);
        }

        #[test]
        fn any_number_is_written_as_it_is_displayed(number in any::<u64>()) {
            prop_assert_eq!(text(Value::Number(number)), number.to_string());
        }
    }
}
