//! Datagrams that the segment processes itself: DHCP and Neighbor Discovery.
//!
//! Every length is checked against the datagram, and a datagram shorter than its headers claim is
//! not processed (rows 101 and 102 of the attack table).

use crate::dhcpv6_server;
use net::application::dhcp::{CLIENT_PORT, SERVER_PORT};
use net::internet::ipv4::{self, Protocol};
use net::internet::ipv6;
use net::internet::nd::{HOP_LIMIT, ICMPV6, Message, is_link_local};
use net::internet::pseudo_header;
use net::packet::{ChecksumState, Packet};
use net::transport::udp;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const TIME_TO_LIVE: u8 = 64;

/// Returns whether an IPv4 datagram is a UDP message to a DHCP server. The message may be malformed.
pub(super) fn is_to_dhcp_server(datagram: &[u8], parsed: &ipv4::Parsed) -> bool {
    let port = datagram.get(parsed.header_len + 2..parsed.header_len + 4);
    parsed.header.protocol == Protocol::Udp
        && !parsed.is_fragment
        && port == Some(&SERVER_PORT.to_be_bytes())
}

/// Returns the DHCP message of a client in an IPv4 datagram, or `None` if the datagram is damaged.
pub(super) fn dhcp_message<'a>(
    datagram: &'a [u8],
    parsed: &ipv4::Parsed,
    state: ChecksumState,
) -> Option<&'a [u8]> {
    let udp = datagram.get(parsed.header_len..parsed.total_len)?;
    let ipv4::Header { source, destination, .. } = parsed.header;
    let has_sum = udp.get(6..8)? != [0, 0];
    let state = if has_sum { state } else { ChecksumState::Verified };
    udp_payload(udp, CLIENT_PORT, (source.into(), destination.into()), state)
}

/// Returns whether an IPv6 packet is a UDP message of a host to the DHCPv6 servers of the link. The
/// message may be malformed.
pub(super) fn is_to_dhcpv6_server(datagram: &[u8], parsed: &ipv6::Parsed) -> bool {
    let port = datagram.get(ipv6::HEADER_LEN + 2..ipv6::HEADER_LEN + 4);
    parsed.header.destination == dhcpv6_server::SERVERS
        && is_link_local(parsed.header.source)
        && Protocol::from(parsed.next_header) == Protocol::Udp
        && port == Some(&dhcpv6_server::SERVER_PORT.to_be_bytes())
}

/// Returns the DHCPv6 message of a client in an IPv6 packet, or `None` if the packet is damaged.
pub(super) fn dhcpv6_message<'a>(
    datagram: &'a [u8],
    parsed: &ipv6::Parsed,
    state: ChecksumState,
) -> Option<&'a [u8]> {
    let udp = datagram.get(ipv6::HEADER_LEN..parsed.total_len)?;
    let ipv6::Header { source, destination, .. } = parsed.header;
    let ends = (source.into(), destination.into());
    udp_payload(udp, dhcpv6_server::CLIENT_PORT, ends, state)
}

/// Returns the data of a UDP datagram from this port, or `None` if the datagram is damaged.
///
/// The checksum is not checked if the device leaves it incomplete or has verified it.
fn udp_payload(
    udp: &[u8],
    source_port: u16,
    (source, destination): (IpAddr, IpAddr),
    state: ChecksumState,
) -> Option<&[u8]> {
    let [s0, s1, _, _, l0, l1, _, _] = *udp.first_chunk()?;
    let len = u16::from_be_bytes([l0, l1]);
    let checksummed = udp.get(..usize::from(len))?;
    let sum = pseudo_header(source, destination, Protocol::Udp, len);
    let is_good = state != ChecksumState::InPacket || sum.bytes(checksummed).is_good();
    let is_valid = is_good && u16::from_be_bytes([s0, s1]) == source_port;
    is_valid.then(|| checksummed.get(udp::HEADER_LEN..))?
}

/// Prepends the UDP and IPv4 headers of a DHCP server to the message in `packet`.
pub(super) fn push_dhcp(packet: &mut Packet, source: Ipv4Addr, destination: Ipv4Addr) {
    push_udp(packet, (SERVER_PORT, CLIENT_PORT), (source.into(), destination.into()));
    let header = ipv4::Header {
        source,
        destination,
        protocol: Protocol::Udp,
        time_to_live: TIME_TO_LIVE,
        identification: 0,
        dscp_ecn: 0,
        dont_fragment: true,
    };
    packet.push(&header.emit(u16::try_from(packet.len() + ipv4::HEADER_LEN).unwrap_or(u16::MAX)));
}

/// Prepends the UDP and IPv6 headers of a DHCPv6 server to the message in `packet`.
pub(super) fn push_dhcpv6(packet: &mut Packet, source: Ipv6Addr, destination: Ipv6Addr) {
    let ports = (dhcpv6_server::SERVER_PORT, dhcpv6_server::CLIENT_PORT);
    push_udp(packet, ports, (source.into(), destination.into()));
    push_ipv6(packet, source, destination, Protocol::Udp.into());
}

fn push_udp(packet: &mut Packet, ports: (u16, u16), (source, destination): (IpAddr, IpAddr)) {
    let len = u16::try_from(packet.len() + udp::HEADER_LEN).unwrap_or(u16::MAX);
    let [s0, s1] = ports.0.to_be_bytes();
    let [d0, d1] = ports.1.to_be_bytes();
    let [l0, l1] = len.to_be_bytes();
    let sum = pseudo_header(source, destination, Protocol::Udp, len);
    let sum = sum.bytes(&[s0, s1, d0, d1, l0, l1]).bytes(packet.data());
    // RFC 768: zero means that there is no checksum. All ones represent the same sum.
    let [c0, c1] = match sum.finish() {
        0 => [0xFF, 0xFF],
        checksum => checksum.to_be_bytes(),
    };
    packet.push(&[s0, s1, d0, d1, l0, l1, c0, c1]);
}

/// Returns whether an IPv6 packet carries a message of Neighbor Discovery directly after its header.
///
/// Messages after extension headers are not recognized: RFC 6980 forbids fragments, and no host
/// sends other extension headers with these messages.
pub(super) fn is_discovery(packet: &[u8]) -> bool {
    packet.get(ipv6::NEXT_HEADER_AT) == Some(&ICMPV6)
        && packet.get(ipv6::HEADER_LEN).is_some_and(|kind| Message::is_type(*kind))
}

/// Returns the message of Neighbor Discovery in an IPv6 packet, or `None` if it is not valid.
pub(super) fn discovery(
    packet: &[u8],
    parsed: &ipv6::Parsed,
    state: ChecksumState,
) -> Option<Message> {
    let ipv6::Header { source, destination, hop_limit, .. } = parsed.header;
    let message = packet.get(ipv6::HEADER_LEN..parsed.total_len)?;
    let len = u16::try_from(message.len()).ok()?;
    let sum = ipv6::pseudo_header(source, destination, Protocol::ICMPV6, len);
    if state == ChecksumState::InPacket && !sum.bytes(message).is_good() {
        return None;
    }
    Some(Message::parse(message, source, destination, hop_limit).ok()?.message)
}

/// Prepends the IPv6 header to the message of Neighbor Discovery in `packet`.
pub(super) fn push_discovery(packet: &mut Packet, source: Ipv6Addr, destination: Ipv6Addr) {
    push_ipv6(packet, source, destination, ICMPV6);
}

/// Prepends an IPv6 header with the hop limit that Neighbor Discovery requires.
fn push_ipv6(packet: &mut Packet, source: Ipv6Addr, destination: Ipv6Addr, next_header: u8) {
    let header =
        ipv6::Header { source, destination, hop_limit: HOP_LIMIT, dscp_ecn: 0, flow_label: 0 };
    let len = u16::try_from(packet.len()).unwrap_or(u16::MAX);
    packet.push(&header.emit(next_header, len));
}
