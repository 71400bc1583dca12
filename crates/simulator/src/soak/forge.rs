//! What routers do to datagrams and say of them, and what others pretend that they say.

use protocols::checksum::Sum;
use protocols::internet::icmpv6;
use std::net::Ipv6Addr;

const ROUTER_V4: [u8; 4] = [10, 0, 0, 254];
const ROUTER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 0xFE);
/// RFC 4443 §2.4 (c): an error fits into the least MTU.
const QUOTED_MAX: usize = 1_200;
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

/// Returns where the TCP header begins, if there is one.
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

/// Marks a datagram whose sender permits it (RFC 3168 §5); false if it does not.
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

/// A kind of ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saying {
    /// The datagram is longer than this.
    TooBig(u16),
    /// There is no way to the network.
    NoRoute,
    /// Nobody has the port.
    NoPort,
}

/// Returns the error that a router would send about `datagram`; one that `is_blind` is of
/// somebody who has not seen the sequence number.
pub(super) fn error(datagram: &[u8], saying: Saying, is_blind: bool) -> Option<Vec<u8>> {
    let tcp_at = tcp_at(datagram)?;
    let mut quoted = datagram.get(..datagram.len().min(QUOTED_MAX))?.to_vec();
    if is_blind {
        let seq = quoted.get_mut(tcp_at + 4)?;
        *seq ^= 0x40;
    }
    match version(datagram)? {
        Version::V4 => error_v4(&quoted, saying),
        Version::V6 => error_v6(&quoted, saying),
    }
}

fn error_v4(quoted: &[u8], saying: Saying) -> Option<Vec<u8>> {
    let (code, mtu) = match saying {
        Saying::TooBig(mtu) => (4, mtu),
        Saying::NoRoute => (0, 0),
        Saying::NoPort => (3, 0),
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

fn error_v6(quoted: &[u8], saying: Saying) -> Option<Vec<u8>> {
    let (kind, code, mtu) = match saying {
        Saying::TooBig(mtu) => (2, 0, mtu),
        Saying::NoRoute => (1, 0, 0),
        Saying::NoPort => (1, 4, 0),
    };
    let [high, low] = mtu.to_be_bytes();
    let destination = *quoted.get(8..24)?.first_chunk::<16>()?;
    let mut message = [&[kind, code, 0, 0, 0, 0, high, low], quoted].concat();
    icmpv6::seal(ROUTER_V6, destination.into(), &mut message);
    let [high, low] = u16::try_from(message.len()).ok()?.to_be_bytes();
    let fixed = [0x60, 0, 0, 0, high, low, 58, 64];
    Some([&fixed[..], &ROUTER_V6.octets(), &destination, &message].concat())
}
