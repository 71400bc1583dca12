//! Conversion of pairs of 36-bit words. A pair occupies nine octets on the wire, and sixteen or ten
//! octets in a file.
//!
//! A pair is the smallest number of words that begins and ends at an octet boundary on the wire.
//! The formats that store each word in whole octets use this fast path ([`WordFormat::Data8`],
//! [`WordFormat::C36`], [`WordFormat::A36`]). Data before the first whole pair and after the last
//! one is converted word by word.

use super::data_error::DataError;
use crate::ftp::representation::WordFormat;
use alloc::vec::Vec;

/// Length of a pair on the wire in octets.
pub(super) const WIRE_LEN: usize = 9;

/// Converts pairs to their file format and appends them to `out`. Returns whether the format stores
/// words in whole octets.
pub(super) fn words_to_file(
    format: WordFormat,
    wire: &[[u8; WIRE_LEN]],
    out: &mut Vec<u8>,
) -> bool {
    match format {
        WordFormat::Data8 => convert(wire, out, |pair| {
            let [first, second] = words_from_wire(pair);
            let pair_bits = u128::from(second) << 64 | u128::from(first);
            pair_bits.to_le_bytes()
        }),
        WordFormat::C36 => {
            convert(wire, out, |pair| units_to_octets(words_from_wire(pair).map(to_c36)));
        }
        WordFormat::A36 => {
            convert(wire, out, |pair| units_to_octets(words_from_wire(pair).map(to_a36)));
        }
        _ => return false,
    }
    true
}

/// Converts all whole pairs at the start of a file to wire format, appends them to `out`, and
/// returns the rest of the file.
pub(super) fn words_from_file<'a>(
    format: WordFormat,
    file: &'a [u8],
    out: &mut Vec<u8>,
) -> Result<&'a [u8], DataError> {
    let mut unused_bits = 0;
    let rest = match format {
        WordFormat::Data8 => {
            let (pairs, rest) = file.as_chunks();
            convert(pairs, out, |pair: &[u8; 16]| {
                let (first, second) = split_in_halves(u128::from_le_bytes(*pair));
                unused_bits |= (first | second) >> 36;
                words_to_wire([second, first])
            });
            rest
        }
        WordFormat::C36 => {
            let (pairs, rest) = file.as_chunks();
            convert(pairs, out, |pair| {
                let units = units_from_octets(pair);
                unused_bits |=
                    units.iter().fold(0, |unused_bits, unit| unused_bits | unit & C36_EMPTY);
                words_to_wire(units.map(from_c36))
            });
            rest
        }
        WordFormat::A36 => {
            let (pairs, rest) = file.as_chunks();
            convert(pairs, out, |pair| {
                let units = units_from_octets(pair);
                unused_bits |=
                    units.iter().fold(0, |unused_bits, unit| unused_bits | unit & A36_EMPTY);
                words_to_wire(units.map(from_a36))
            });
            rest
        }
        _ => file,
    };
    if unused_bits == 0 { Ok(rest) } else { Err(DataError::Malformed) }
}

/// Converts each group of `M` octets to `N` octets.
fn convert<const M: usize, const N: usize>(
    groups: &[[u8; M]],
    out: &mut Vec<u8>,
    mut convert_group: impl FnMut(&[u8; M]) -> [u8; N],
) {
    let start = out.len();
    out.resize(start + groups.len() * N, 0);
    let (output_groups, _) = out.get_mut(start..).unwrap_or_default().as_chunks_mut::<N>();
    for (output_group, group) in output_groups.iter_mut().zip(groups) {
        *output_group = convert_group(group);
    }
}

fn words_from_wire(&[a, b, c, d, e, f, g, h, last]: &[u8; WIRE_LEN]) -> [u64; 2] {
    let first = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    [first >> 28, (first & 0x0FFF_FFFF) << 8 | u64::from(last)]
}

fn words_to_wire([first, second]: [u64; 2]) -> [u8; WIRE_LEN] {
    let mut wire = [0; WIRE_LEN];
    let [.., last] = second.to_be_bytes();
    // One eight-octet store is faster than eight single ones.
    if let Some((head, tail)) = wire.split_first_chunk_mut() {
        *head = (first << 28 | second >> 8).to_be_bytes();
        tail.fill(last);
    }
    wire
}

/// Returns the octets of two units. Each unit is stored in the five low octets of a number.
fn units_to_octets([first, second]: [u64; 2]) -> [u8; 10] {
    let mut units = [0; 10];
    let [.., y, z] = second.to_be_bytes();
    if let Some((head, tail)) = units.split_first_chunk_mut() {
        *head = (first << 24 | second >> 16).to_be_bytes();
        tail.copy_from_slice(&[y, z]);
    }
    units
}

fn units_from_octets(&[a, b, c, d, e, f, g, h, y, z]: &[u8; 10]) -> [u64; 2] {
    let first = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    [first >> 24, (first & 0xFF_FFFF) << 16 | u64::from(u16::from_be_bytes([y, z]))]
}

/// Returns the upper and the lower 64 bits.
fn split_in_halves(number: u128) -> (u64, u64) {
    let [a, b, c, d, e, f, g, h, lower @ ..] = number.to_be_bytes();
    (u64::from_be_bytes([a, b, c, d, e, f, g, h]), u64::from_be_bytes(lower))
}

/// The bits of a c36 unit that are not used.
const C36_EMPTY: u64 = 0xF0;

/// Returns a word in c36 format: its 36 bits in four and a half octets.
fn to_c36(word: u64) -> u64 {
    (word & 0xF_FFFF_FFF0) << 4 | word & 0xF
}

fn from_c36(unit: u64) -> u64 {
    unit >> 4 & 0xF_FFFF_FFF0 | unit & 0xF
}

/// The bits of an a36 unit that are not used.
const A36_EMPTY: u64 = 0x80_8080_8000;

/// Returns a word in a36 format: five 7-bit characters, with bit B35 in the top bit of the last
/// octet.
fn to_a36(word: u64) -> u64 {
    (word << 3 & 0x7F << 32)
        | (word << 2 & 0x7F << 24)
        | (word << 1 & 0x7F << 16)
        | (word & 0x7F << 8)
        | (word >> 1 & 0x7F)
        | (word & 1) << 7
}

fn from_a36(unit: u64) -> u64 {
    (unit >> 3 & 0x7F << 29)
        | (unit >> 2 & 0x7F << 22)
        | (unit >> 1 & 0x7F << 15)
        | (unit & 0x7F << 8)
        | (unit & 0x7F) << 1
        | unit >> 7 & 1
}
