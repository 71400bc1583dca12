//! Datagrams that the segment processes itself: DHCP and Neighbor Discovery.
//!
//! Every length is checked against the datagram, and a datagram shorter than its headers claim is
//! not processed (rows 101 and 102 of the attack table).

use net::application::dhcp::{CLIENT_PORT, SERVER_PORT};
use net::internet::ipv4::{self, Protocol};
use net::internet::ipv6;
use net::internet::nd::{HOP_LIMIT, ICMPV6, Message};
use net::internet::pseudo_header;
use net::packet::{ChecksumState, Packet};
use net::transport::udp;
use std::net::{Ipv4Addr, Ipv6Addr};

const TIME_TO_LIVE: u8 = 64;

/// Returns whether an IPv4 datagram is a UDP message to a DHCP server. The message may be malformed.
pub(super) fn is_to_dhcp_server(datagram: &[u8], parsed: &ipv4::Parsed) -> bool {
    let port = datagram.get(parsed.header_len + 2..parsed.header_len + 4);
    parsed.header.protocol == Protocol::Udp
        && !parsed.is_fragment
        && port == Some(&SERVER_PORT.to_be_bytes())
}

/// Returns the DHCP message of a client in a UDP datagram, or `None` if the datagram is damaged.
///
/// The checksum is not checked if the device leaves it incomplete or has verified it.
pub(super) fn dhcp_message<'a>(
    datagram: &'a [u8],
    parsed: &ipv4::Parsed,
    state: ChecksumState,
) -> Option<&'a [u8]> {
    let payload = datagram.get(parsed.header_len..parsed.total_len)?;
    let [s0, s1, _, _, l0, l1, c0, c1] = *payload.first_chunk()?;
    if u16::from_be_bytes([s0, s1]) != CLIENT_PORT {
        return None;
    }
    let ipv4::Header { source, destination, .. } = parsed.header;
    let len = u16::from_be_bytes([l0, l1]);
    let checksummed = payload.get(..usize::from(len))?;
    let sum = pseudo_header(source.into(), destination.into(), Protocol::Udp, len);
    let has_no_sum = state != ChecksumState::InPacket || [c0, c1] == [0, 0];
    let is_good = has_no_sum || sum.bytes(checksummed).is_good();
    is_good.then(|| checksummed.get(udp::HEADER_LEN..))?
}

/// Prepends the UDP and IPv4 headers of a DHCP server to the message in `packet`.
pub(super) fn push_dhcp(packet: &mut Packet, source: Ipv4Addr, destination: Ipv4Addr) {
    let len = u16::try_from(packet.len() + udp::HEADER_LEN).unwrap_or(u16::MAX);
    let [s0, s1] = SERVER_PORT.to_be_bytes();
    let [d0, d1] = CLIENT_PORT.to_be_bytes();
    let [l0, l1] = len.to_be_bytes();
    let sum = pseudo_header(source.into(), destination.into(), Protocol::Udp, len);
    let sum = sum.bytes(&[s0, s1, d0, d1, l0, l1]).bytes(packet.data());
    // RFC 768: zero means that there is no checksum. All ones represent the same sum.
    let [c0, c1] = match sum.finish() {
        0 => [0xFF, 0xFF],
        checksum => checksum.to_be_bytes(),
    };
    packet.push(&[s0, s1, d0, d1, l0, l1, c0, c1]);
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
    let header =
        ipv6::Header { source, destination, hop_limit: HOP_LIMIT, dscp_ecn: 0, flow_label: 0 };
    let len = u16::try_from(packet.len()).unwrap_or(u16::MAX);
    packet.push(&header.emit(ICMPV6, len));
}
