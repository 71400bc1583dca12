//! Datagrams for tests: hosts of 10.0.0.0/24 and 2001:db8::/64.

use net::checksum::Sum;
use net::internet::{ipv4, ipv6};
use std::net::{Ipv4Addr, Ipv6Addr};

fn v4(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host)
}

fn v6(host: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, u16::from(host))
}

fn ports(port: u16, len: usize) -> Vec<u8> {
    let mut payload = vec![0; len.max(8)];
    payload[..2].copy_from_slice(&port.to_be_bytes());
    payload[2..4].copy_from_slice(&23_u16.to_be_bytes());
    payload
}

/// Returns an IPv4 datagram with `len` bytes of payload, at least eight.
pub(crate) fn ipv4_with(source: u8, destination: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let protocol = match protocol {
        1 => ipv4::Protocol::Icmp,
        6 => ipv4::Protocol::Tcp,
        17 => ipv4::Protocol::Udp,
        other => ipv4::Protocol::Other(other),
    };
    let header = ipv4::Header {
        source: v4(source),
        destination: v4(destination),
        protocol,
        time_to_live: 64,
        identification: 7,
        dscp_ecn: 0,
        dont_fragment: false,
    };
    let total_len = u16::try_from(20 + payload.len()).unwrap();
    [header.emit(total_len).as_slice(), payload].concat()
}

/// Returns an IPv4 datagram with a UDP header of source port `port`, and without a checksum.
pub(crate) fn udp4(source: u8, destination: u8, port: u16, len: usize) -> Vec<u8> {
    let mut payload = ports(port, len);
    let udp_len = u16::try_from(payload.len()).unwrap();
    payload[4..6].copy_from_slice(&udp_len.to_be_bytes());
    ipv4_with(source, destination, 17, &payload)
}

/// Returns an IPv4 datagram with a TCP header of source port `port`.
pub(crate) fn tcp4(source: u8, destination: u8, port: u16, len: usize) -> Vec<u8> {
    ipv4_with(source, destination, 6, &ports(port, len.max(20)))
}

/// Returns an IPv6 datagram with a UDP header of source port `port`.
pub(crate) fn udp6(source: u8, destination: u8, port: u16, len: usize) -> Vec<u8> {
    let mut payload = ports(port, len);
    let udp_len = u16::try_from(payload.len()).unwrap();
    payload[4..6].copy_from_slice(&udp_len.to_be_bytes());
    let header = ipv6::Header {
        source: v6(source),
        destination: v6(destination),
        hop_limit: 64,
        dscp_ecn: 0,
        flow_label: 0,
    };
    let sum = ipv6::pseudo_header(v6(source), v6(destination), ipv4::Protocol::Udp, udp_len);
    let checksum = Sum::word(sum.bytes(&payload), 0).finish();
    payload[6..8].copy_from_slice(&checksum.to_be_bytes());
    [header.emit(17, udp_len).as_slice(), &payload].concat()
}
