//! Router functions: ECN marks, fragmentation and ICMP errors, including forged ones.

use net::checksum::Sum;
use net::internet::icmpv6;
use std::net::Ipv6Addr;

const ROUTER_V4: [u8; 4] = [10, 0, 0, 254];
const ROUTER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 0xFE);
/// Maximum number of bytes that an ICMP error quotes, so that it fits into the minimum MTU: 68
/// bytes for IPv4 (RFC 791 §3.2), 1,280 for IPv6 (RFC 4443 §2.4 (c)).
const QUOTED_MAX_V4: usize = 68 - HEADER_LEN_V4 - 8;
const QUOTED_MAX_V6: usize = 1_280 - 40 - 8;
const HEADER_LEN_V4: usize = 20;
const SYN: u8 = 0x02;

/// The version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V4,
    V6,
}

fn version(datagram: &[u8]) -> Option<Version> {
    match datagram.first()? >> 4 {
        4 => Some(Version::V4),
        6 => Some(Version::V6),
        _ => None,
    }
}

/// Returns the offset of the TCP header; `None` if the datagram contains no TCP header.
fn tcp_at(datagram: &[u8]) -> Option<usize> {
    let (protocol_at, header_len) = match version(datagram)? {
        Version::V4 => (9, 20),
        Version::V6 => (6, 40),
    };
    (*datagram.get(protocol_at)? == 6).then_some(header_len)
}

/// Returns the initial sequence number, if the datagram is a SYN.
pub(super) fn isn(datagram: &[u8]) -> Option<u32> {
    let tcp = datagram.get(tcp_at(datagram)?..)?;
    let seq = tcp.get(4..8)?.first_chunk::<4>()?;
    (tcp.get(13)? & SYN != 0).then_some(u32::from_be_bytes(*seq))
}

/// Sets the CE mark if the datagram is ECN-capable (RFC 3168 §5); otherwise returns false.
pub(super) fn mark(datagram: &mut [u8]) -> bool {
    let Some(version) = version(datagram) else { return false };
    let Some(class) = datagram.get_mut(1) else { return false };
    let shift = if version == Version::V4 { 0 } else { 4 };
    if *class >> shift & 3 == 0 {
        return false;
    }
    *class |= 3 << shift;
    if version == Version::V4 {
        seal_v4(datagram);
    }
    true
}

fn seal_v4(datagram: &mut [u8]) {
    let Some(header) = datagram.get_mut(..20) else { return };
    put(header, 10, &[0, 0]);
    let sum = Sum::default().bytes(header).finish();
    put(header, 10, &sum.to_be_bytes());
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + what.len()) {
        place.copy_from_slice(what);
    }
}

/// Fragments an IPv4 datagram for links of `mtu` bytes (RFC 791 §3.2). Returns `None` if the DF
/// flag is set or the datagram is itself a fragment.
pub(super) fn split_into_fragments(datagram: &[u8], mtu: u16) -> Option<Vec<Vec<u8>>> {
    let (header, data) = datagram.split_at_checked(HEADER_LEN_V4)?;
    let is_unfragmented = header.get(6..8)? == [0, 0];
    if version(datagram)? != Version::V4 || !is_unfragmented {
        return None;
    }
    let piece_len = usize::from(mtu).checked_sub(HEADER_LEN_V4)? & !7;
    let last_at = data.len().checked_sub(1)? / piece_len.max(8) * piece_len.max(8);
    let pieces = data.chunks(piece_len.max(8)).zip((0..).step_by(piece_len.max(8)));
    pieces
        .map(|(piece, offset)| {
            let mut fragment = [header, piece].concat();
            let total_len = u16::try_from(fragment.len()).ok()?;
            put(&mut fragment, 2, &total_len.to_be_bytes());
            let more_fragments = if offset < last_at { 0x2000 } else { 0 };
            put(
                &mut fragment,
                6,
                &(u16::try_from(offset / 8).ok()? | more_fragments).to_be_bytes(),
            );
            seal_v4(&mut fragment);
            Some(fragment)
        })
        .collect()
}

/// A kind of ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IcmpError {
    /// The datagram exceeds this MTU, in bytes.
    TooBig(u16),
    /// Network unreachable.
    NoRoute,
    /// Port unreachable.
    NoPort,
}

/// Returns the ICMP error that a router would send about `datagram`. If `is_blind`, the quoted
/// sequence number is wrong, as in an error forged by an off-path attacker.
pub(super) fn error(datagram: &[u8], icmp_error: IcmpError, is_blind: bool) -> Option<Vec<u8>> {
    let tcp_at = tcp_at(datagram)?;
    let quoted_max = match version(datagram)? {
        Version::V4 => QUOTED_MAX_V4,
        Version::V6 => QUOTED_MAX_V6,
    };
    let mut quoted = datagram.get(..datagram.len().min(quoted_max))?.to_vec();
    if is_blind {
        let seq = quoted.get_mut(tcp_at + 4)?;
        *seq ^= 0x40;
    }
    match version(datagram)? {
        Version::V4 => error_v4(&quoted, icmp_error),
        Version::V6 => error_v6(&quoted, icmp_error),
    }
}

fn error_v4(quoted: &[u8], icmp_error: IcmpError) -> Option<Vec<u8>> {
    let (code, mtu) = match icmp_error {
        IcmpError::TooBig(mtu) => (4, mtu),
        IcmpError::NoRoute => (0, 0),
        IcmpError::NoPort => (3, 0),
    };
    let [high, low] = mtu.to_be_bytes();
    let mut message = [&[3, code, 0, 0, 0, 0, high, low], quoted].concat();
    let sum = Sum::default().bytes(&message).finish();
    put(&mut message, 2, &sum.to_be_bytes());
    let [high, low] = u16::try_from(message.len() + 20).ok()?.to_be_bytes();
    let fixed = [0x45, 0, high, low, 0, 0, 0, 0, 64, 1, 0, 0];
    let mut datagram = [&fixed[..], &ROUTER_V4, quoted.get(12..16)?, &message].concat();
    seal_v4(&mut datagram);
    Some(datagram)
}

fn error_v6(quoted: &[u8], icmp_error: IcmpError) -> Option<Vec<u8>> {
    let (kind, code, mtu) = match icmp_error {
        IcmpError::TooBig(mtu) => (2, 0, mtu),
        IcmpError::NoRoute => (1, 0, 0),
        IcmpError::NoPort => (1, 4, 0),
    };
    let [high, low] = mtu.to_be_bytes();
    let destination = *quoted.get(8..24)?.first_chunk::<16>()?;
    let mut message = [&[kind, code, 0, 0, 0, 0, high, low], quoted].concat();
    icmpv6::seal(ROUTER_V6, destination.into(), &mut message);
    let [high, low] = u16::try_from(message.len()).ok()?.to_be_bytes();
    let fixed = [0x60, 0, 0, 0, high, low, 58, 64];
    Some([&fixed[..], &ROUTER_V6.octets(), &destination, &message].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::internet::ipv4;

    fn datagram(len: u16) -> Vec<u8> {
        let header = ipv4::Header {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            protocol: ipv4::Protocol::Tcp,
            time_to_live: 64,
            identification: 7,
            dscp_ecn: 2,
            dont_fragment: false,
        };
        let data: Vec<u8> = (0..len).map(|at| at.to_le_bytes()[0]).collect();
        [&header.emit(len + 20)[..], &data].concat()
    }

    #[test]
    fn the_concatenated_fragments_contain_the_data_of_the_datagram() {
        let whole = datagram(1_000);
        let pieces = split_into_fragments(&whole, 68).unwrap();
        assert_eq!(pieces.len(), 21);
        let data: Vec<u8> = pieces.iter().flat_map(|piece| piece[20..].to_vec()).collect();
        assert_eq!(data, whole[20..]);
        assert_eq!(pieces[1][6..8], [0x20, 6]);
        assert_eq!(pieces[20][6..8], [0, 120]);
    }

    #[test]
    fn a_datagram_with_dont_fragment_is_not_fragmented() {
        let mut whole = datagram(1_000);
        whole[6] = 0x40;
        assert_eq!(split_into_fragments(&whole, 68), None);
    }

    #[test]
    fn a_marked_header_has_a_correct_checksum() {
        let mut whole = datagram(10);
        assert!(mark(&mut whole));
        assert_eq!(ipv4::Header::parse(&whole).unwrap().header.dscp_ecn, 3);
    }
}
