//! Fragmentation of IPv4 datagrams (RFC 791 §3.2, RFC 1812 §4.2.2.7).

use crate::incremental_checksum::{set_word, word_at};
use net::checksum::Sum;
use net::internet::ipv4::{HEADER_LEN, Parsed};

const FLAGS_AT: usize = 6;
const TOTAL_LEN_AT: usize = 2;
const CHECKSUM_AT: usize = 10;
const MORE_FRAGMENTS: u16 = 0x2000;
/// The longest offset, in units.
const OFFSET_MAX: u16 = 0x1FFF;
/// Fragment offsets are in units of eight bytes.
const UNIT: usize = 8;
/// An option with this bit is copied into every fragment (RFC 791 §3.1).
const COPIED: u8 = 0x80;
const OPTION_END: u8 = 0;
const OPTION_NO_OPERATION: u8 = 1;

/// Returns the headers of the fragments of `datagram` that are at most `mtu` bytes long, each with
/// the range of its data in `datagram`. Returns `None` if the MTU is too short for a fragment.
pub(super) fn split(
    datagram: &[u8],
    parsed: &Parsed,
    mtu: usize,
) -> Option<Vec<(Vec<u8>, std::ops::Range<usize>)>> {
    let first_header = datagram.get(..parsed.header_len)?;
    let later_header = later_header(first_header);
    let mut fragments = Vec::new();
    let mut at = parsed.header_len;
    while at < datagram.len() {
        let is_first = fragments.is_empty();
        let mut header = if is_first { first_header.to_vec() } else { later_header.clone() };
        let room = mtu.checked_sub(header.len())? / UNIT * UNIT;
        if room == 0 {
            return None;
        }
        let rest = datagram.len() - at;
        // The last fragment need not be a multiple of the unit.
        let len = if rest + header.len() <= mtu { rest } else { room };
        let offset = parsed.fragment_offset + (at - parsed.header_len);
        let more = len < rest || parsed.more_fragments;
        seal(&mut header, len, offset, more)?;
        fragments.push((header, at..at + len));
        at += len;
    }
    Some(fragments)
}

/// Returns the header of every fragment except the first: only options to be copied remain.
fn later_header(header: &[u8]) -> Vec<u8> {
    let (fixed, mut options) = header.split_at_checked(HEADER_LEN).unwrap_or((header, &[]));
    let mut result = fixed.to_vec();
    while let Some((kind, after)) = options.split_first() {
        let len = match (*kind, after.first()) {
            (OPTION_END, _) => break,
            (OPTION_NO_OPERATION, _) => 1,
            (_, Some(len)) => usize::from(*len),
            (_, None) => break,
        };
        let Some((option, rest)) = options.split_at_checked(len).filter(|_| len > 0) else { break };
        if kind & COPIED != 0 {
            result.extend_from_slice(option);
        }
        options = rest;
    }
    result.resize(result.len().next_multiple_of(4), OPTION_END);
    let words = u8::try_from(result.len() / 4).unwrap_or(5);
    if let Some(first) = result.first_mut() {
        *first = 0x40 | words;
    }
    result
}

/// Writes the lengths, the offset and the checksum of a fragment into its header.
fn seal(header: &mut [u8], data_len: usize, offset: usize, more: bool) -> Option<()> {
    let total_len = u16::try_from(header.len() + data_len).ok()?;
    let units = u16::try_from(offset / UNIT).ok().filter(|units| *units <= OFFSET_MAX)?;
    let flags = if more { MORE_FRAGMENTS } else { 0 };
    set_word(header, TOTAL_LEN_AT, total_len)?;
    set_word(header, FLAGS_AT, flags | units)?;
    set_word(header, CHECKSUM_AT, 0)?;
    let checksum = Sum::default().bytes(header).finish();
    set_word(header, CHECKSUM_AT, checksum)?;
    word_at(header, CHECKSUM_AT).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::testing::udp4;
    use net::internet::ipv4::Header;
    use proptest::prelude::*;

    fn assembled(fragments: &[(Vec<u8>, std::ops::Range<usize>)], datagram: &[u8]) -> Vec<u8> {
        let mut data = vec![0; datagram.len()];
        for (header, range) in fragments {
            let whole = [header.as_slice(), &datagram[range.clone()]].concat();
            let parsed = Header::parse(&whole).unwrap();
            let to = parsed.fragment_offset;
            let payload = &whole[parsed.header_len..];
            data[to..to + payload.len()].copy_from_slice(payload);
        }
        data
    }

    proptest! {
        #[test]
        fn fragments_fit_the_mtu_and_reassemble_to_the_datagram(
            len in 8..3_000_usize,
            mtu in 28..1_500_usize,
        ) {
            let datagram = udp4(1, 2, 3, len);
            let parsed = Header::parse(&datagram).unwrap();
            let fragments = split(&datagram, &parsed, mtu).unwrap();
            for (header, range) in &fragments {
                prop_assert!(header.len() + range.len() <= mtu);
            }
            let data = assembled(&fragments, &datagram);
            prop_assert_eq!(&data[..datagram.len() - 20], &datagram[20..]);
            let last = &fragments.last().unwrap().0;
            prop_assert_eq!(word_at(last, FLAGS_AT).unwrap() & MORE_FRAGMENTS, 0);
        }
    }

    #[test]
    fn a_fragment_of_a_fragment_keeps_its_offset_and_its_flag() {
        let mut datagram = udp4(1, 2, 3, 100);
        set_word(&mut datagram, FLAGS_AT, MORE_FRAGMENTS | 10).unwrap();
        set_word(&mut datagram, CHECKSUM_AT, 0).unwrap();
        let checksum = Sum::default().bytes(&datagram[..20]).finish();
        set_word(&mut datagram, CHECKSUM_AT, checksum).unwrap();
        let parsed = Header::parse(&datagram).unwrap();
        let fragments = split(&datagram, &parsed, 84).unwrap();
        let flags: Vec<_> =
            fragments.iter().map(|(header, _)| word_at(header, FLAGS_AT).unwrap()).collect();
        assert_eq!(flags, [MORE_FRAGMENTS | 10, MORE_FRAGMENTS | 18]);
    }

    #[test]
    fn only_options_with_the_copied_flag_are_in_later_fragments() {
        let mut datagram = udp4(1, 2, 3, 100);
        // Record route (7) is not copied; the router alert (148) is.
        datagram.splice(20..20, [7, 3, 4, 1, 148, 4, 0, 0]);
        datagram[0] = 0x47;
        let total_len = u16::try_from(datagram.len()).unwrap();
        set_word(&mut datagram, TOTAL_LEN_AT, total_len).unwrap();
        set_word(&mut datagram, CHECKSUM_AT, 0).unwrap();
        let checksum = Sum::default().bytes(&datagram[..28]).finish();
        set_word(&mut datagram, CHECKSUM_AT, checksum).unwrap();
        let parsed = Header::parse(&datagram).unwrap();
        let fragments = split(&datagram, &parsed, 76).unwrap();
        assert_eq!((fragments[0].0.len(), fragments[0].1.clone()), (28, 28..76));
        assert_eq!(&fragments[1].0[20..], [148, 4, 0, 0]);
        let whole = [fragments[1].0.as_slice(), &datagram[fragments[1].1.clone()]].concat();
        assert!(Header::parse(&whole).is_ok());
    }
}
