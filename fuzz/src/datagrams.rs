//! Well-formed datagrams for a host at [`US`], and repair of fuzzed datagrams: without the repair,
//! almost every input would fail the first checksum check.

use net::checksum::Sum;
use net::internet::icmp;
use net::internet::ipv4::{self, Header, Protocol};
use net::internet::ipv6;
use net::internet::pseudo_header;
use net::packet::Packet;
use std::net::{Ipv4Addr, Ipv6Addr};

/// IPv4 address of the host under test.
pub const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// IPv4 address of the peer.
pub const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// IPv6 address of the host under test.
pub const US_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);
/// IPv6 address of the peer.
pub const PEER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 2);

/// Returns an IPv6 header of a datagram from the peer to the host under test.
pub fn header_v6() -> ipv6::Header {
    ipv6::Header { source: PEER_V6, destination: US_V6, hop_limit: 255, dscp_ecn: 0, flow_label: 0 }
}

/// Sets the payload length of an IPv6 datagram to the number of bytes after the header.
pub fn repair_payload_length(datagram: &mut [u8]) {
    let payload_len = datagram.len().saturating_sub(ipv6::HEADER_LEN);
    let payload_len = u16::try_from(payload_len).unwrap_or(u16::MAX);
    if let Some(field) = datagram.get_mut(4..6) {
        field.copy_from_slice(&payload_len.to_be_bytes());
    }
}

/// Returns an IPv4 datagram from the peer to the host under test.
pub fn datagram(protocol: Protocol, content: &[u8]) -> Vec<u8> {
    let header = Header {
        source: PEER,
        destination: US,
        protocol,
        time_to_live: 64,
        identification: 7,
        dscp_ecn: 0,
        dont_fragment: true,
    };
    let total_len = u16::try_from(ipv4::HEADER_LEN + content.len()).expect("a short datagram");
    [&header.emit(total_len), content].concat()
}

/// Returns an ICMP echo request or reply, according to `message_type`.
pub fn echo(message_type: u8, data: &[u8]) -> Vec<u8> {
    let mut message = [&[message_type, 0, 0, 0, 0, 1, 0, 2], data].concat();
    repair_icmp(&mut message);
    message
}

/// Returns an ICMP error of `message_type` and `code` that quotes `quoted`.
pub fn error(message_type: u8, code: u8, quoted: &[u8]) -> Vec<u8> {
    let mut message = [&[message_type, code, 0, 0, 0, 0, 2, 0], quoted].concat();
    repair_icmp(&mut message);
    message
}

/// Returns the beginning of a UDP datagram that the host under test sent, as an ICMP error quotes
/// it.
pub fn quote(source_port: u16) -> Vec<u8> {
    let header = Header {
        source: US,
        destination: PEER,
        protocol: Protocol::Udp,
        time_to_live: 60,
        identification: 0,
        dscp_ecn: 0,
        dont_fragment: true,
    };
    let [p0, p1] = source_port.to_be_bytes();
    [&header.emit(60)[..], &[p0, p1, 0, 69, 0, 40, 0, 0]].concat()
}

/// Returns a UDP datagram from the peer to `port`, without the IPv4 header.
pub fn udp(port: u16, data: &[u8]) -> Vec<u8> {
    let [d0, d1] = port.to_be_bytes();
    let [l0, l1] = u16::try_from(8 + data.len()).expect("a short datagram").to_be_bytes();
    let mut bytes = [&[4, 210, d0, d1, l0, l1, 0, 0], data].concat();
    repair_transport(Protocol::Udp, PEER, US, &mut bytes);
    bytes
}

/// Returns one of each kind of datagram.
pub fn one_of_each() -> Vec<Vec<u8>> {
    let with_options = {
        let mut bytes =
            datagram(Protocol::Udp, &[&[7, 7, 4, 10, 0, 0, 9, 0][..], &udp(7, b"x")].concat());
        bytes[0] = 0x47;
        repair_header(&mut bytes);
        bytes
    };
    vec![
        datagram(Protocol::Icmp, &echo(8, b"abcdefgh")),
        datagram(Protocol::Icmp, &echo(0, &[0, 1, 2, 3])),
        datagram(Protocol::Icmp, &error(3, 3, &quote(53))),
        datagram(Protocol::Icmp, &error(3, 4, &quote(53))),
        datagram(Protocol::Icmp, &error(11, 0, &quote(53))),
        datagram(Protocol::Udp, &udp(53, b"data")),
        datagram(Protocol::Other(89), b"not here"),
        with_options,
    ]
}

/// Repairs the checksum of an IPv4 header; input that is too short stays unchanged.
pub fn repair_header(datagram: &mut [u8]) {
    let len = header_len(datagram);
    repair(datagram.get_mut(..len).unwrap_or_default(), 10, Sum::default());
}

/// Repairs the checksums of an IPv4 header and of its payload.
pub fn repair_all(datagram: &mut [u8]) {
    repair_header(datagram);
    let Ok(parsed) = Header::parse(datagram) else { return };
    let Header { protocol, source, destination, .. } = parsed.header;
    let content = datagram.get_mut(parsed.header_len..parsed.total_len).unwrap_or_default();
    repair_transport(protocol, source, destination, content);
}

/// Repairs the checksum of a datagram's payload.
pub fn repair_transport(protocol: Protocol, from: Ipv4Addr, to: Ipv4Addr, content: &mut [u8]) {
    let len = u16::try_from(content.len()).unwrap_or(u16::MAX);
    let pseudo = pseudo_header(from.into(), to.into(), protocol, len);
    match protocol {
        Protocol::Icmp => repair_icmp(content),
        Protocol::Tcp => repair(content, 16, pseudo),
        Protocol::Udp => repair(content, 6, pseudo),
        Protocol::Other(_) => {}
    }
}

/// Repairs the checksum of an ICMP message.
pub fn repair_icmp(message: &mut [u8]) {
    if message.len() >= icmp::HEADER_LEN {
        repair(message, 2, Sum::default());
    }
}

/// Copies `bytes` into a packet from a pool.
pub fn fill(mut packet: Packet, bytes: &[u8]) -> Packet {
    packet.extend(bytes);
    packet
}

fn repair(bytes: &mut [u8], at: usize, start: Sum) {
    let Some(field) = bytes.get_mut(at..at + 2) else { return };
    field.fill(0);
    let checksum = start.bytes(bytes).finish().to_be_bytes();
    bytes[at..at + 2].copy_from_slice(&checksum);
}

fn header_len(datagram: &[u8]) -> usize {
    datagram.first().map_or(0, |first| usize::from(first & 0x0F) * 4)
}
