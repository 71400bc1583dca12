//! Tests of a guest that changes its hardware address.

use super::*;

/// Returns the frame with another source and, in place of the guest's address, another one in its
/// content.
fn of_other_mac(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    for at in 6..frame.len().saturating_sub(5) {
        if frame[at..at + 6] == GUEST_MAC.octets() {
            frame[at..at + 6].copy_from_slice(&OTHER_MAC.octets());
        }
    }
    frame
}

/// Returns a message of Neighbor Discovery from a guest with another hardware address.
fn discovery_of_other_mac(message: &Message, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    let mut frame = discovery_frame(message, source, destination);
    frame[6..12].copy_from_slice(&OTHER_MAC.octets());
    frame
}

/// Returns a segment that has learnt the address of the guest.
fn learnt() -> Fixture {
    let mut fixture = Fixture::default();
    assert!(fixture.receive(&udp_frame(LEASE, SERVER, (1, 2), b"")).is_some());
    assert_eq!(fixture.segment.event(), Some(Event::Learnt(GUEST_MAC)));
    fixture
}

/// Passes a frame from the other hardware address, and returns whether the segment has learnt it.
fn is_followed(fixture: &mut Fixture, frame: &[u8]) -> bool {
    fixture.receive(frame);
    let is_followed = fixture.segment.guest_mac() == Some(OTHER_MAC);
    assert_eq!(fixture.segment.counters().address_changes, u64::from(is_followed));
    assert_eq!(fixture.segment.counters().spoofed_frames, u64::from(!is_followed));
    is_followed
}

#[test]
fn a_guest_that_asks_for_the_gateway_from_another_hardware_address_is_followed() {
    let mut fixture = learnt();
    let request = of_other_mac(&arp_frame(Operation::Request, LEASE, GATEWAY));
    let frames = fixture.answers(&request);
    assert_eq!(frames[0][..6], OTHER_MAC.octets());
    assert_eq!(fixture.segment.event(), Some(Event::Learnt(OTHER_MAC)));
    let datagram = of_other_mac(&udp_frame(LEASE, SERVER, (1, 2), b""));
    assert!(fixture.receive(&datagram).is_some());
    let mut packet = Packet::with_capacity(100);
    packet.extend(&datagram[14..]);
    fixture.segment.frame(&mut packet);
    assert_eq!(packet.data()[..6], OTHER_MAC.octets());
    assert!(fixture.receive(&udp_frame(LEASE, SERVER, (1, 2), b"")).is_none());
    let counters = fixture.segment.counters();
    assert_eq!((counters.address_changes, counters.spoofed_frames), (1, 1));
}

#[test]
fn an_announcement_or_a_reply_of_the_lease_is_followed() {
    for (operation, target) in [(Operation::Request, LEASE), (Operation::Reply, GATEWAY)] {
        let frame = of_other_mac(&arp_frame(operation, LEASE, target));
        assert!(is_followed(&mut learnt(), &frame));
    }
}

#[test]
fn neighbor_discovery_of_an_address_of_the_guest_is_followed() {
    let source_mac = Some(OTHER_MAC);
    let target = GATEWAY_V6;
    let solicitation = Message::NeighborSolicitation { target, source_mac, nonce: None };
    let advertisement = Message::NeighborAdvertisement {
        target: GUEST_V6,
        is_router: false,
        is_solicited: false,
        is_override: true,
        target_mac: Some(OTHER_MAC),
    };
    let router_solicitation = Message::RouterSolicitation { source_mac };
    let frames = [
        discovery_of_other_mac(&solicitation, GUEST_V6, solicited_node(target)),
        discovery_of_other_mac(&advertisement, GUEST_V6, ALL_NODES),
        discovery_of_other_mac(&router_solicitation, GUEST_LOCAL, ALL_ROUTERS),
    ];
    for frame in frames {
        assert!(is_followed(&mut learnt(), &frame));
    }
}

#[test]
fn a_client_of_dhcp_is_followed() {
    let frame = hostile_frames::dhcp_frame();
    let mut other = of_other_mac(&frame);
    // The UDP checksum is optional.
    other[40..42].fill(0);
    assert!(is_followed(&mut learnt(), &other));
    let mut of_another_client = frame;
    of_another_client[6..12].copy_from_slice(&OTHER_MAC.octets());
    assert!(!is_followed(&mut learnt(), &of_another_client));
}

// attack row 105
#[test]
fn row_105_no_other_frame_from_another_hardware_address_is_followed() {
    let source_mac = Some(OTHER_MAC);
    let target = GATEWAY_V6;
    let solicitation = Message::NeighborSolicitation { target, source_mac, nonce: None };
    let other_prefix = Ipv6Addr::new(0xFD00, 0, 0, 1, 0, 0, 0, 1);
    // The option has the former address.
    let mut with_former_option = super::solicitation(GATEWAY_V6, GUEST_V6);
    with_former_option[6..12].copy_from_slice(&OTHER_MAC.octets());
    let mut for_another = arp_frame(Operation::Request, LEASE, GATEWAY);
    for_another[6..12].copy_from_slice(&OTHER_MAC.octets());
    let mut of_gateway = arp_frame(Operation::Request, LEASE, GATEWAY);
    of_gateway[6..12].copy_from_slice(&GATEWAY_MAC.octets());
    of_gateway[22..28].copy_from_slice(&GATEWAY_MAC.octets());
    let frames = [
        of_other_mac(&arp_frame(Operation::Request, Ipv4Addr::new(10, 0, 2, 101), GATEWAY)),
        of_other_mac(&arp_frame(Operation::Request, Ipv4Addr::UNSPECIFIED, LEASE)),
        for_another,
        of_gateway,
        of_other_mac(&udp_frame(LEASE, SERVER, (1, 2), b"")),
        of_other_mac(&udp_frame(LEASE, GATEWAY, (68, 67), b"")),
        of_other_mac(&udp_frame_v6(GUEST_V6, SERVER_V6)),
        discovery_of_other_mac(&solicitation, other_prefix, solicited_node(target)),
        with_former_option,
    ];
    for frame in frames {
        assert!(!is_followed(&mut learnt(), &frame), "{frame:x?}");
    }
}

// attack row 105
#[test]
fn row_105_a_hardware_address_in_the_settings_does_not_change() {
    let mut fixture = Fixture::new(Settings { guest_mac: Some(GUEST_MAC), ..settings() });
    let request = of_other_mac(&arp_frame(Operation::Request, LEASE, GATEWAY));
    assert!(!is_followed(&mut fixture, &request));
}
