//! Frames from an unknown hardware address that show that the guest has changed its own.
//!
//! All frames of a segment are from its one guest, so the change of the hardware address gives the
//! guest nothing: the lease check (row 105 of the attack table) applies to each frame before and
//! after it. Only messages that bind the hardware address to an address of the guest count, as in a
//! neighbor cache (RFC 826, RFC 4861 §7.2): another station behind the device of the guest, such as
//! a nested bridge, does not divert the frames to the guest by any other frame.

use super::local_messages;
use net::application::dhcp;
use net::internet::arp::ArpPacket;
use net::internet::nd::Message;
use net::internet::{ipv4, ipv6};
use net::link::ethernet::MacAddress;
use net::packet::Packet;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Returns whether a frame from `mac` has an ARP request, reply or announcement of the lease.
pub(super) fn is_arp_of(content: &[u8], mac: MacAddress, lease: Ipv4Addr) -> bool {
    let packet = ArpPacket::parse(content);
    packet.is_ok_and(|packet| packet.sender_mac == mac && packet.sender == lease)
}

/// Returns whether a frame from `mac` has a message of a DHCP client with this hardware address.
/// `is_to_server` tells whether a datagram is for the DHCP server of the gateway.
pub(super) fn is_dhcp_of(
    packet: &Packet,
    mac: MacAddress,
    is_to_server: impl Fn(&[u8], &ipv4::Parsed) -> bool,
) -> bool {
    let datagram = packet.data();
    let Ok(parsed) = ipv4::Header::parse(datagram) else { return false };
    let message = is_to_server(datagram, &parsed)
        .then(|| local_messages::dhcp_message(datagram, &parsed, packet.offload.checksum))
        .flatten();
    let message = message.and_then(|message| dhcp::Message::parse(message).ok());
    message.is_some_and(|message| message.mac == mac)
}

/// Returns whether a frame from `mac` has a message of Neighbor Discovery from an address of the
/// guest, with this hardware address in its option.
pub(super) fn is_discovery_of(
    packet: &Packet,
    mac: MacAddress,
    is_guest: impl Fn(Ipv6Addr) -> bool,
) -> bool {
    let datagram = packet.data();
    let Ok(parsed) = ipv6::Header::parse(datagram) else { return false };
    if !is_guest(parsed.header.source) || !local_messages::is_discovery(datagram) {
        return false;
    }
    let message = local_messages::discovery(datagram, &parsed, packet.offload.checksum);
    let option = match message {
        Some(
            Message::NeighborSolicitation { source_mac, .. }
            | Message::RouterSolicitation { source_mac },
        ) => source_mac,
        Some(Message::NeighborAdvertisement { target_mac, .. }) => target_mac,
        _ => None,
    };
    option == Some(mac)
}
