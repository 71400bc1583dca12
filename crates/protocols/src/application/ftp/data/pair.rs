//! Words of 36 bits, two at a time: nine octets on the wire, sixteen or ten in a file.
//!
//! A pair is the least that begins and ends with an octet on the wire. The formats that have a unit
//! of whole octets for each word go this way ([`WordFormat::Data8`], [`WordFormat::C36`],
//! [`WordFormat::A36`]); what does not begin with a pair, and what is left behind the last one, goes
//! word by word.

use super::DataError;
use crate::application::ftp::representation::WordFormat;
use alloc::vec::Vec;

/// What a pair has on the wire.
pub(super) const WIRE_LEN: usize = 9;

/// Lays pairs down behind `out`. Returns whether the format is one of those that have units.
pub(super) fn lay_down(format: WordFormat, wire: &[[u8; WIRE_LEN]], out: &mut Vec<u8>) -> bool {
    match format {
        WordFormat::Data8 => convert(wire, out, |pair| {
            let [first, second] = words(pair);
            let both = u128::from(second) << 64 | u128::from(first);
            both.to_le_bytes()
        }),
        WordFormat::C36 => convert(wire, out, |pair| units(words(pair).map(to_c36))),
        WordFormat::A36 => convert(wire, out, |pair| units(words(pair).map(to_a36))),
        _ => return false,
    }
    true
}

/// Puts all whole pairs at the start of a file on the wire, behind `out`, and returns the rest.
pub(super) fn take_up<'a>(
    format: WordFormat,
    file: &'a [u8],
    out: &mut Vec<u8>,
) -> Result<&'a [u8], DataError> {
    let mut odd = 0;
    let rest = match format {
        WordFormat::Data8 => {
            let (pairs, rest) = file.as_chunks();
            convert(pairs, out, |pair: &[u8; 16]| {
                let (first, second) = halves(u128::from_le_bytes(*pair));
                odd |= (first | second) >> 36;
                on_wire([second, first])
            });
            rest
        }
        WordFormat::C36 => {
            let (pairs, rest) = file.as_chunks();
            convert(pairs, out, |pair| {
                let units = parts(pair);
                odd |= units.iter().fold(0, |odd, unit| odd | unit & C36_EMPTY);
                on_wire(units.map(of_c36))
            });
            rest
        }
        WordFormat::A36 => {
            let (pairs, rest) = file.as_chunks();
            convert(pairs, out, |pair| {
                let units = parts(pair);
                odd |= units.iter().fold(0, |odd, unit| odd | unit & A36_EMPTY);
                on_wire(units.map(of_a36))
            });
            rest
        }
        _ => file,
    };
    if odd == 0 { Ok(rest) } else { Err(DataError::Malformed) }
}

/// Makes N octets of each M.
fn convert<const M: usize, const N: usize>(
    from: &[[u8; M]],
    out: &mut Vec<u8>,
    mut each: impl FnMut(&[u8; M]) -> [u8; N],
) {
    let start = out.len();
    out.resize(start + from.len() * N, 0);
    let (places, _) = out.get_mut(start..).unwrap_or_default().as_chunks_mut::<N>();
    for (place, pair) in places.iter_mut().zip(from) {
        *place = each(pair);
    }
}

fn words(&[a, b, c, d, e, f, g, h, last]: &[u8; WIRE_LEN]) -> [u64; 2] {
    let first = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    [first >> 28, (first & 0x0FFF_FFFF) << 8 | u64::from(last)]
}

fn on_wire([first, second]: [u64; 2]) -> [u8; WIRE_LEN] {
    let mut wire = [0; WIRE_LEN];
    let [.., last] = second.to_be_bytes();
    // Eight octets in one piece are stored by one instruction.
    if let Some((head, tail)) = wire.split_first_chunk_mut() {
        *head = (first << 28 | second >> 8).to_be_bytes();
        tail.fill(last);
    }
    wire
}

/// Two units of five octets, each as a number.
fn units([first, second]: [u64; 2]) -> [u8; 10] {
    let mut units = [0; 10];
    let [.., y, z] = second.to_be_bytes();
    if let Some((head, tail)) = units.split_first_chunk_mut() {
        *head = (first << 24 | second >> 16).to_be_bytes();
        tail.copy_from_slice(&[y, z]);
    }
    units
}

fn parts(&[a, b, c, d, e, f, g, h, y, z]: &[u8; 10]) -> [u64; 2] {
    let first = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    [first >> 24, (first & 0xFF_FFFF) << 16 | u64::from(u16::from_be_bytes([y, z]))]
}

/// The upper and the lower half.
fn halves(both: u128) -> (u64, u64) {
    let [a, b, c, d, e, f, g, h, lower @ ..] = both.to_be_bytes();
    (u64::from_be_bytes([a, b, c, d, e, f, g, h]), u64::from_be_bytes(lower))
}

/// The bits of a unit of c36 that belong to no word.
const C36_EMPTY: u64 = 0xF0;

/// Four octets and a half one.
fn to_c36(word: u64) -> u64 {
    (word & 0xF_FFFF_FFF0) << 4 | word & 0xF
}

fn of_c36(unit: u64) -> u64 {
    unit >> 4 & 0xF_FFFF_FFF0 | unit & 0xF
}

/// The bits of a unit of a36 that belong to no word.
const A36_EMPTY: u64 = 0x80_8080_8000;

/// Five characters of seven bits, and B35 above the last of them.
fn to_a36(word: u64) -> u64 {
    (word << 3 & 0x7F << 32)
        | (word << 2 & 0x7F << 24)
        | (word << 1 & 0x7F << 16)
        | (word & 0x7F << 8)
        | (word >> 1 & 0x7F)
        | (word & 1) << 7
}

fn of_a36(unit: u64) -> u64 {
    (unit >> 3 & 0x7F << 29)
        | (unit >> 2 & 0x7F << 22)
        | (unit >> 1 & 0x7F << 15)
        | (unit & 0x7F << 8)
        | (unit & 0x7F) << 1
        | unit >> 7 & 1
}
