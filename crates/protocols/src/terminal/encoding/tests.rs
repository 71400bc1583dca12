//! Tests of the conversion tables: a character decoded from a byte is encoded as that byte.

use super::*;
use alloc::vec;
use proptest::prelude::*;

fn decoded(encoding: Encoding, bytes: &[u8]) -> String {
    let mut text = Vec::new();
    Decoder::new(encoding).decode(bytes, &mut text);
    String::from_utf8(text).unwrap()
}

fn encoded(encoding: Encoding, text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    Encoder::new(encoding).encode(text.as_bytes(), &mut bytes);
    bytes
}

/// Returns the bytes whose character is encoded as a different byte.
fn irreversible_bytes(
    character: impl Fn(u8) -> Option<char>,
    byte: impl Fn(char) -> Option<u8>,
) -> Vec<u8> {
    (0..=255).filter(|b| character(*b).is_some_and(|shown| byte(shown) != Some(*b))).collect()
}

#[test]
fn each_byte_of_cp437_has_a_character_of_its_own() {
    assert_eq!(irreversible_bytes(|byte| Some(cp437::character(byte)), cp437::byte), b"");
    assert_eq!(decoded(Encoding::Cp437, b"\xc9\xcd\xbb \x01\x1b[0m"), "╔═╗ ☺\x1b[0m");
    assert_eq!(encoded(Encoding::Cp437, "naïve €"), b"na\x8bve ?");
}

#[test]
fn duplicate_codes_of_petscii_are_encoded_as_one_byte() {
    let irreversible_bytes =
        irreversible_bytes(|byte| petscii::character(byte, false), petscii::byte);
    assert_eq!(irreversible_bytes, (0x60..=0x7f).chain(0xe0..=0xff).collect::<Vec<_>>());
    let graphics = |byte| (0xa0..=0xdf).contains(&byte).then(|| petscii::character(byte, true));
    assert_eq!(self::irreversible_bytes(|byte| graphics(byte).flatten(), petscii::byte), b"");
}

#[test]
fn petscii_swaps_the_cases_and_moves_the_cursor() {
    assert_eq!(decoded(Encoding::Petscii, b"\x93hELLO\r"), "\x1b[H\x1b[2JHello\x1b[27m\r\n");
    assert_eq!(decoded(Encoding::Petscii, b"\xc8ELLO\x8e\xd3"), "Hello♥");
    assert_eq!(encoded(Encoding::Petscii, "Hi\r\n\x7f\x1b[A"), b"\xc8I\x0d\x14\x91");
}

#[test]
fn each_glyph_of_atascii_has_a_byte_of_its_own() {
    let glyph = |byte| (byte < 0x80).then(|| atascii::character(byte)).flatten();
    assert_eq!(irreversible_bytes(glyph, atascii::byte), b"");
}

#[test]
fn atascii_has_inverse_video_in_the_high_bit_and_an_end_of_line_of_its_own() {
    assert_eq!(decoded(Encoding::Atascii, b"a\xc1\xc2b\x9b"), "a\x1b[7mAB\x1b[27mb\r\n");
    assert_eq!(decoded(Encoding::Atascii, b"\x1b\x1c\x7d"), "↑\x1b[H\x1b[2J");
    assert_eq!(encoded(Encoding::Atascii, "dir\r\n\x1b[D"), b"dir\x9b\x1e");
}

#[test]
fn a_character_split_between_two_calls_is_joined() {
    let mut encoder = Encoder::new(Encoding::Latin1);
    let mut bytes = Vec::new();
    encoder.encode(b"caf\xc3", &mut bytes);
    encoder.encode(b"\xa9 \xff", &mut bytes);
    assert_eq!(bytes, b"caf\xe9 \xff");
}

proptest! {
    #[test]
    fn latin_1_survives_a_round_trip(bytes: Vec<u8>) {
        let text = decoded(Encoding::Latin1, &bytes);
        prop_assert_eq!(encoded(Encoding::Latin1, &text), bytes);
    }

    #[test]
    fn cp437_survives_a_round_trip(bytes: Vec<u8>) {
        let text = decoded(Encoding::Cp437, &bytes);
        prop_assert_eq!(encoded(Encoding::Cp437, &text), bytes);
    }

    #[test]
    fn any_split_of_the_bytes_decodes_to_the_same_text(
        bytes: Vec<u8>,
        at: prop::sample::Index,
        encoding in prop::sample::select(vec![
            Encoding::Latin1, Encoding::Cp437, Encoding::Petscii, Encoding::Atascii,
        ])
    ) {
        let unsplit_text = decoded(encoding, &bytes);
        let (head, tail) = bytes.split_at(at.index(bytes.len() + 1));
        let mut decoder = Decoder::new(encoding);
        let mut text = Vec::new();
        decoder.decode(head, &mut text);
        decoder.decode(tail, &mut text);
        prop_assert_eq!(String::from_utf8(text).unwrap(), unsplit_text);
    }

    #[test]
    fn arbitrary_keys_are_encoded_in_any_split(
        keys: Vec<u8>,
        encoding in prop::sample::select(vec![
            Encoding::Latin1, Encoding::Cp437, Encoding::Petscii, Encoding::Atascii,
        ])
    ) {
        let mut encoder = Encoder::new(encoding);
        let mut bytes = Vec::new();
        keys.iter().for_each(|key| encoder.encode(&[*key], &mut bytes));
        prop_assert!(bytes.len() <= keys.len());
    }
}
