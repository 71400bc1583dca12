//! A record in JSON (RFC 8259), written byte by byte.
//!
//! A line is made once for each transfer, most often right behind a call of the kernel, where no code
//! is in a cache: the less of it there is, the better. So there is one function for all fields, and
//! what is common is written without the machinery of formats: numbers, words, addresses of IPv4,
//! and text that needs no escape. All else goes the long way.
//!
//! The lines are kept longer than they are while one is made, so that what is put down needs no look
//! at their room but one, and the names of fields go as blocks of one length, which no call copies.

use super::SCHEMA;
use super::schema::Transfer;
use super::value::{Field, Value, escaped};
use std::net::SocketAddr;

/// The block of a name: as much as two stores of a processor.
const KEY_BYTES: usize = 32;
/// By so much the lines are made longer; most records are shorter.
const ROOM_BYTES: usize = 1536;

/// The name of a member, with what stands before and behind it.
#[derive(Debug)]
pub(super) struct Key {
    block: [u8; KEY_BYTES],
    len: usize,
}

impl Key {
    /// Makes the key of `name`, which has no escapes. One that is too long does not compile.
    #[expect(clippy::indexing_slicing, reason = "made while it is compiled")]
    pub(super) const fn new(name: &str) -> Self {
        let (name, mut block) = (name.as_bytes(), [0; KEY_BYTES]);
        (block[0], block[1]) = (b',', b'"');
        let mut at = 0;
        while at < name.len() {
            block[2 + at] = name[at];
            at += 1;
        }
        (block[2 + at], block[3 + at]) = (b'"', b':');
        Self { block, len: 4 + at }
    }
}

/// Adds `transfer` to `lines`, with its end.
pub(super) fn push(transfer: &Transfer, lines: &mut Vec<u8>) {
    let at = lines.len();
    let mut writer = Writer { lines, at };
    writer.put(b"{\"schema\":");
    writer.number(SCHEMA);
    const KEY: Key = Key::new("record_id");
    writer.member(&KEY, transfer.record_id.value());
    transfer.visit_members(|key, value| writer.member(key, value));
    writer.put(b"}\n");
    let end = writer.at;
    lines.truncate(end);
}

/// Lines that end at `at`, and are longer.
struct Writer<'a> {
    lines: &'a mut Vec<u8>,
    at: usize,
}

impl Writer<'_> {
    /// Returns the next `len` bytes, which are put down.
    fn room(&mut self, len: usize) -> &mut [u8] {
        let end = self.at + len;
        if self.lines.len() < end {
            self.lines.resize(end + ROOM_BYTES, 0);
        }
        let room = self.lines.get_mut(self.at..end).unwrap_or_default();
        self.at = end;
        room
    }

    fn put(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
    }

    #[inline(never)]
    fn member(&mut self, key: &'static Key, value: Value<'_>) {
        if let Some(place) = self.room(KEY_BYTES).first_chunk_mut() {
            *place = key.block;
        }
        self.at -= KEY_BYTES - key.len;
        match value {
            Value::Number(number) => self.number(number),
            Value::Flag(true) => self.put(b"true"),
            Value::Flag(false) => self.put(b"false"),
            Value::Word(word, _) => self.plain(word.as_bytes()),
            Value::Text(bytes) if is_plain(bytes) => self.plain(bytes),
            Value::Text(bytes) => self.escaped(bytes),
            Value::Identifier(bits) => self.bits(bits),
            Value::Address(address) => self.address(address),
        }
    }

    fn plain(&mut self, text: &[u8]) {
        if let [first, middle @ .., last] = self.room(text.len() + 2) {
            (*first, *last) = (b'"', b'"');
            middle.copy_from_slice(text);
        }
    }

    #[cold]
    fn escaped(&mut self, bytes: &[u8]) {
        // Text is always JSON.
        self.put(&serde_json::to_vec(&*escaped(bytes)).unwrap_or_default());
    }

    fn number(&mut self, number: u64) {
        let len = number.checked_ilog10().map_or(1, |log| log as usize + 1);
        let mut left = number;
        for place in self.room(len).rchunks_mut(2) {
            let [ten, one] = PAIRS.get((left % 100) as usize).copied().unwrap_or_default();
            left /= 100;
            match place {
                [first, second] => (*first, *second) = (ten, one),
                [only] => *only = one,
                _ => {}
            }
        }
    }

    fn bits(&mut self, bits: u128) {
        let mut text = [b'"'; 2 + 32];
        for (octet, place) in bits.to_be_bytes().iter().zip(text[1..33].as_chunks_mut::<2>().0) {
            *place = [octet >> 4, octet & 0xf].map(hexadecimal);
        }
        self.put(&text);
    }

    fn address(&mut self, address: SocketAddr) {
        let SocketAddr::V4(address) = address else {
            return self.put(format!("\"{address}\"").as_bytes());
        };
        self.put(b"\"");
        let [first, rest @ ..] = address.ip().octets();
        self.number(first.into());
        for octet in rest {
            self.put(b".");
            self.number(octet.into());
        }
        self.put(b":");
        self.number(address.port().into());
        self.put(b"\"");
    }
}

/// Two digits of each number below a hundred.
#[expect(clippy::indexing_slicing, reason = "made while it is compiled")]
const PAIRS: [[u8; 2]; 100] = {
    let (mut pairs, mut number) = ([[b'0'; 2]; 100], 0_u8);
    while number < 100 {
        pairs[number as usize] = [b'0' + number / 10, b'0' + number % 10];
        number += 1;
    }
    pairs
};

const fn hexadecimal(nibble: u8) -> u8 {
    if nibble < 10 { b'0' + nibble } else { b'a' - 10 + nibble }
}

/// Returns whether neither a terminal nor JSON has another meaning for any of `bytes`.
fn is_plain(bytes: &[u8]) -> bool {
    // All are looked at, so that many are looked at together.
    !bytes.iter().fold(false, |is_odd, byte| {
        is_odd | !matches!(byte, b' '..=b'~') | (*byte == b'\\') | (*byte == b'"')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::tests::any_transfer;
    use proptest::prelude::*;

    fn text(value: Value<'_>) -> String {
        let mut lines = Vec::new();
        let mut writer = Writer { lines: &mut lines, at: 0 };
        const KEY: Key = Key::new("x");
        writer.member(&KEY, value);
        let end = writer.at;
        lines.truncate(end);
        String::from_utf8(lines).unwrap().strip_prefix(",\"x\":").unwrap().to_owned()
    }

    #[test]
    fn an_address_with_a_scope_goes_the_long_way() {
        let address = "[fe80::1%3]:21".parse().unwrap();
        assert_eq!(text(Value::Address(address)), "\"[fe80::1%3]:21\"");
    }

    #[test]
    fn nothing_is_a_digit() {
        assert_eq!(text(Value::Number(0)), "0");
    }

    proptest! {
        #[test]
        fn any_record_is_an_object_whose_fields_say_what_is_displayed(
            transfer in any_transfer(),
        ) {
            let mut line = Vec::new();
            push(&transfer, &mut line);
            let object: serde_json::Value = serde_json::from_slice(&line).unwrap();
            let mut fields = 2;
            transfer.visit(|_, name, value| {
                fields += 1;
                let found = &object[name];
                let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
                assert_eq!(found, value.to_string());
            });
            prop_assert_eq!(object.as_object().unwrap().len(), fields);
        }

        #[test]
        fn any_number_is_written_as_it_is_displayed(number in any::<u64>()) {
            prop_assert_eq!(text(Value::Number(number)), number.to_string());
        }
    }
}
