//! Datagrams that an Ethernet station sends and receives directly, bypassing its Internet layer.
//!
//! DHCP sends messages before the station has a source address, and Neighbor Discovery sends
//! messages about addresses that are not yet assigned. The Internet layer would reject these
//! datagrams.

use crate::application::dhcp::{CLIENT_PORT, SERVER_PORT};
use crate::internet::ipv4::{self, Protocol};
use crate::internet::nd::{self, HOP_LIMIT, ICMPV6};
use crate::internet::pseudo_header;
use crate::packet::{ChecksumState, Packet};
use crate::transport::udp;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of an IPv6 header, in bytes.
const IPV6_HEADER_LEN: usize = 40;
const TIME_TO_LIVE: u8 = 64;

/// A Neighbor Discovery message in a received packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Discovered<'a> {
    pub(super) source: Ipv6Addr,
    pub(super) destination: Ipv6Addr,
    pub(super) message: &'a [u8],
}

/// Prepends an IPv6 header to the Neighbor Discovery message in `packet`.
pub(super) fn push_ipv6(packet: &mut Packet, source: Ipv6Addr, destination: Ipv6Addr) {
    let [l0, l1] = u16::try_from(packet.len()).unwrap_or(u16::MAX).to_be_bytes();
    packet.push(&destination.octets());
    packet.push(&source.octets());
    packet.push(&[0x60, 0, 0, 0, l0, l1, ICMPV6, HOP_LIMIT]);
}

/// Prepends UDP and IPv4 headers to the DHCP message in `packet`.
pub(super) fn push_dhcp(packet: &mut Packet, source: Ipv4Addr, destination: Ipv4Addr) {
    let len = u16::try_from(packet.len() + udp::HEADER_LEN).unwrap_or(u16::MAX);
    let [s0, s1] = CLIENT_PORT.to_be_bytes();
    let [d0, d1] = SERVER_PORT.to_be_bytes();
    let [l0, l1] = len.to_be_bytes();
    let header = [s0, s1, d0, d1, l0, l1, 0, 0];
    let sum = pseudo_header(source.into(), destination.into(), Protocol::Udp, len);
    let [c0, c1] = match sum.bytes(&header).bytes(packet.data()).finish() {
        // A checksum field of zero means that there is no checksum. All ones represent the same sum
        // (RFC 768).
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
    let total_len = len.saturating_add(20);
    packet.push(&header.emit(total_len));
}

/// Returns the DHCP message for a client in an IPv4 datagram, or `None` if there is none.
///
/// The UDP checksum is not checked if the device has verified it, because the field may then be
/// incomplete.
pub(super) fn dhcp_message(datagram: &[u8], state: ChecksumState) -> Option<&[u8]> {
    let parsed = ipv4::Header::parse(datagram).ok()?;
    let ipv4::Parsed { header, header_len, total_len, is_fragment, .. } = parsed;
    if header.protocol != Protocol::Udp || is_fragment {
        return None;
    }
    let (head, _) = datagram.get(header_len..total_len)?.split_first_chunk()?;
    let [s0, s1, d0, d1, l0, l1, c0, c1] = *head;
    let ports = (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
    if ports != (SERVER_PORT, CLIENT_PORT) {
        return None;
    }
    let len = u16::from_be_bytes([l0, l1]);
    let checksummed = datagram.get(header_len..total_len)?.get(..usize::from(len))?;
    let sum = pseudo_header(header.source.into(), header.destination.into(), Protocol::Udp, len);
    let is_verified_by_device = state != ChecksumState::InPacket;
    let is_good = is_verified_by_device || [c0, c1] == [0, 0] || sum.bytes(checksummed).is_good();
    is_good.then(|| checksummed.get(udp::HEADER_LEN..))?
}

/// Returns the Neighbor Discovery message in an IPv6 packet, or `None` if there is none with a
/// correct checksum.
///
/// Messages after extension headers are ignored: RFC 6980 forbids fragments, and no host sends
/// other extension headers with these messages.
pub(super) fn nd_message(packet: &[u8]) -> Option<Discovered<'_>> {
    let (head, rest) = packet.split_first_chunk::<IPV6_HEADER_LEN>()?;
    let [v, _, _, _, l0, l1, ICMPV6, HOP_LIMIT, addresses @ ..] = head else { return None };
    let source = Ipv6Addr::from(*addresses.first_chunk::<16>()?);
    let destination = Ipv6Addr::from(*addresses.last_chunk::<16>()?);
    let len = u16::from_be_bytes([*l0, *l1]);
    let message = rest.get(..usize::from(len))?;
    if v >> 4 != 6 || !nd::Message::is_type(*message.first()?) {
        return None;
    }
    let protocol = Protocol::from(ICMPV6);
    let sum = pseudo_header(source.into(), destination.into(), protocol, len);
    sum.bytes(message).is_good().then_some(Discovered { source, destination, message })
}

/// Returns the destination address in the header of an outgoing datagram.
pub(super) fn destination_of(datagram: &[u8]) -> Option<IpAddr> {
    match datagram.first()? >> 4 {
        4 => Some(Ipv4Addr::from(*datagram.get(16..20)?.first_chunk::<4>()?).into()),
        6 => Some(Ipv6Addr::from(*datagram.get(24..40)?.first_chunk::<16>()?).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Returns a DHCP offer with this UDP checksum.
    fn offer(checksum: [u8; 2]) -> Vec<u8> {
        let server = Ipv4Addr::new(192, 0, 2, 1);
        let mut packet = Packet::with_capacity(100);
        packet.extend(b"message");
        packet.push(&[0, 67, 0, 68, 0, 15, checksum[0], checksum[1]]);
        let header = ipv4::Header {
            source: server,
            destination: Ipv4Addr::BROADCAST,
            protocol: Protocol::Udp,
            time_to_live: 64,
            identification: 0,
            dscp_ecn: 0,
            dont_fragment: false,
        };
        packet.push(&header.emit(35));
        packet.data().to_vec()
    }

    #[test]
    fn an_offer_verified_by_the_device_may_have_an_incomplete_checksum() {
        let unfinished = offer([0x12, 0x34]);
        let partial = ChecksumState::Partial { start: 20, field: 6 };
        for state in [partial, ChecksumState::Verified] {
            assert_eq!(dhcp_message(&unfinished, state), Some(&b"message"[..]));
        }
        assert_eq!(dhcp_message(&unfinished, ChecksumState::InPacket), None);
    }

    #[test]
    fn an_offer_without_a_checksum_is_accepted() {
        let message = offer([0, 0]);
        assert_eq!(dhcp_message(&message, ChecksumState::InPacket), Some(&b"message"[..]));
    }
}
