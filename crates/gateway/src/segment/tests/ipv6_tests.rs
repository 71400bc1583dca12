//! Tests of Neighbor Discovery, router advertisements and the lease check of IPv6.

use super::*;
use net::internet::nd::Parsed;

/// Returns the message of Neighbor Discovery in a frame, with its addresses. Another library checks
/// its checksum.
fn discovery_of(frame: &[u8]) -> (Message, Ipv6Addr, Ipv6Addr) {
    let packet = etherparse::PacketHeaders::from_ethernet_slice(frame).unwrap();
    let Some(etherparse::NetHeaders::Ipv6(ip, _)) = packet.net else { panic!("IPv6") };
    let Some(etherparse::TransportHeader::Icmpv6(icmp)) = packet.transport else {
        panic!("ICMPv6")
    };
    let checksum = icmp.icmp_type.calc_checksum(ip.source, ip.destination, packet.payload.slice());
    assert_eq!(Ok(icmp.checksum), checksum);
    let source = ip.source.into();
    let destination = ip.destination.into();
    let message = &frame[54..54 + usize::from(ip.payload_length)];
    let Parsed { message, options_skipped } =
        Message::parse(message, source, destination, ip.hop_limit).unwrap();
    assert_eq!(options_skipped, 0);
    (message, source, destination)
}

fn advertisement_of(frame: &[u8]) -> RouterAdvertisement {
    match discovery_of(frame) {
        (Message::RouterAdvertisement(advertisement), source, _) => {
            assert_eq!(source, GATEWAY_LOCAL);
            advertisement
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_solicitation_for_the_gateway_is_answered_with_its_address() {
    for target in [GATEWAY_V6, GATEWAY_LOCAL] {
        let mut fixture = Fixture::default();
        let frames = fixture.answers(&solicitation(target, GUEST_LOCAL));
        let [frame] = &frames[..] else { panic!("one answer") };
        assert_eq!(frame[..6], GUEST_MAC.octets());
        let expected = Message::NeighborAdvertisement {
            target,
            is_router: true,
            is_solicited: true,
            is_override: true,
            target_mac: Some(GATEWAY_MAC),
        };
        assert_eq!(discovery_of(frame), (expected, target, GUEST_LOCAL));
        assert_eq!(fixture.segment.counters().neighbor_answers, 1);
    }
}

#[test]
fn in_the_mode_of_slirp4netns_no_other_address_is_answered() {
    let mut fixture = Fixture::default();
    for target in [GUEST_V6, SERVER_V6, GUEST_LOCAL] {
        assert!(fixture.answers(&solicitation(target, GUEST_V6)).is_empty());
    }
    assert_eq!(fixture.segment.counters().discovery_ignored, 3);
}

#[test]
fn in_the_mode_of_pasta_every_address_but_the_guests_is_answered() {
    let mut fixture = Fixture::new(settings_of_every_other_address());
    let other = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 0x101);
    for target in [other, SERVER_V6, GATEWAY_LOCAL] {
        assert_eq!(fixture.answers(&solicitation(target, GUEST_V6)).len(), 1);
    }
    for target in [GUEST_V6, Ipv6Addr::UNSPECIFIED] {
        assert!(fixture.answers(&solicitation(target, GUEST_V6)).is_empty());
    }
}

#[test]
fn a_check_whether_an_address_is_free_is_not_answered() {
    for settings in [settings(), settings_of_every_other_address()] {
        let mut fixture = Fixture::new(settings);
        for target in [GUEST_V6, GUEST_LOCAL, SERVER_V6] {
            assert!(fixture.answers(&solicitation(target, Ipv6Addr::UNSPECIFIED)).is_empty());
        }
        assert_eq!(fixture.segment.counters().discovery_ignored, 3);
    }
}

#[test]
fn a_router_solicitation_is_answered_at_once_with_the_whole_configuration() {
    let mut fixture = Fixture::default();
    let frames = fixture.answers(&router_solicitation(GUEST_LOCAL));
    let [frame] = &frames[..] else { panic!("one answer") };
    let advertisement = advertisement_of(frame);
    assert_eq!(discovery_of(frame).2, GUEST_LOCAL);
    assert_eq!(advertisement.lifetime_s, 1800);
    assert_eq!((advertisement.mtu, advertisement.source_mac), (Some(1500), Some(GATEWAY_MAC)));
    assert_eq!(advertisement.dns_servers, [(GATEWAY_V6, 1800)]);
    let [prefix] = &advertisement.prefixes[..] else { panic!("one prefix") };
    assert_eq!((prefix.prefix, prefix.len), (PREFIX, 64));
    assert!(prefix.is_on_link && prefix.is_autonomous);
    assert_eq!((prefix.preferred_s, prefix.valid_s), (2700, 5400));
    assert!(!advertisement.is_managed && !advertisement.has_other);
    // RFC 8106 §5.2: type 31, length 3, lifetime, and the name with padding.
    let search_list = b"\x1F\x03\0\0\0\0\x07\x08\x01a\x07example\0\0\0\0\0\0";
    assert!(frame.ends_with(search_list), "{frame:x?}");
}

#[test]
fn a_solicitation_without_a_source_is_answered_to_all_nodes_at_most_every_three_seconds() {
    let mut fixture = Fixture::default();
    let frames = fixture.answers(&router_solicitation(Ipv6Addr::UNSPECIFIED));
    assert_eq!(discovery_of(&frames[0]).2, ALL_NODES);
    assert_eq!(frames[0][..6], MacAddress::of_group_v6(ALL_NODES).octets());
    fixture.context.advance_millis(1000);
    assert!(fixture.answers(&router_solicitation(Ipv6Addr::UNSPECIFIED)).is_empty());
    let at = fixture.segment.deadline().unwrap();
    assert_eq!(at, Instant::ZERO + Duration::from_secs(3));
    assert_eq!(fixture.sent_at_deadline().len(), 1);
}

#[test]
fn the_first_advertisements_are_frequent_and_the_others_are_randomly_spaced() {
    let mut spans = Vec::new();
    for seed in 0..50 {
        let mut fixture = Fixture { context: OwnedCx::with_seed(seed), ..Fixture::default() };
        assert_eq!(fixture.segment.deadline(), Some(Instant::ZERO));
        let mut times = Vec::new();
        for _ in 0..6 {
            assert_eq!(fixture.sent_at_deadline().len(), 1);
            times.push(fixture.context.now);
        }
        let intervals: Vec<u64> =
            times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
        assert_eq!(intervals[..3], [16, 16, 16]);
        assert!(intervals[3..].iter().all(|interval| (200..600).contains(interval)));
        spans.push(intervals[3]);
    }
    // The intervals of 50 seeds are spread over the whole range.
    assert!(spans.iter().any(|interval| *interval < 250));
    assert!(spans.iter().any(|interval| *interval > 550));
}

#[test]
fn the_last_advertisement_withdraws_the_router() {
    let mut fixture = Fixture::default();
    fixture.segment.withdraw();
    let frames = fixture.sent();
    let advertisement = advertisement_of(&frames[0]);
    assert_eq!((frames.len(), advertisement.lifetime_s), (1, 0));
    assert_eq!(advertisement.prefixes[0].preferred_s, 0);
    assert_eq!(advertisement.dns_servers, [(GATEWAY_V6, 0)]);
    assert_eq!(fixture.segment.deadline(), None);
}

// attack row 105
#[test]
fn row_105_only_packets_from_the_guests_prefix_or_link_are_forwarded() {
    let mut fixture = Fixture::default();
    assert!(fixture.receive(&udp_frame_v6(GUEST_V6, SERVER_V6)).is_some());
    assert!(fixture.receive(&udp_frame_v6(GUEST_LOCAL, GATEWAY_LOCAL)).is_some());
    let other_prefix = Ipv6Addr::new(0xFD00, 0, 0, 1, 0, 0, 0, 1);
    let sources = [other_prefix, SERVER_V6, Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED, ALL_NODES];
    for source in sources {
        assert!(fixture.receive(&udp_frame_v6(source, SERVER_V6)).is_none());
    }
    assert!(fixture.answers(&solicitation(GATEWAY_V6, other_prefix)).is_empty());
    assert_eq!(fixture.segment.counters().spoofed_ipv6, 6);
}

#[test]
fn a_packet_from_a_link_local_address_reaches_only_the_gateway() {
    let mut fixture = Fixture::default();
    for destination in [GATEWAY_LOCAL, GATEWAY_V6] {
        assert!(fixture.receive(&udp_frame_v6(GUEST_LOCAL, destination)).is_some());
    }
    for destination in [SERVER_V6, Ipv6Addr::new(0xFD00, 0, 0, 1, 0, 0, 0, 1)] {
        assert!(fixture.receive(&udp_frame_v6(GUEST_LOCAL, destination)).is_none());
    }
    assert_eq!(fixture.segment.counters().beyond_scope, 2);
}

#[test]
fn the_anycast_address_of_the_routers_is_no_source() {
    let mut fixture = Fixture::default();
    for source in [PREFIX, Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 0)] {
        assert!(fixture.receive(&udp_frame_v6(source, GATEWAY_LOCAL)).is_none());
        assert!(fixture.answers(&solicitation(GATEWAY_V6, source)).is_empty());
    }
    assert_eq!(fixture.segment.counters().spoofed_ipv6, 4);
    let mut settings = settings_of_every_other_address();
    settings.ipv6.as_mut().unwrap().lease = Some(PREFIX);
    assert!(Fixture::new(settings).receive(&udp_frame_v6(PREFIX, SERVER_V6)).is_some());
}

#[test]
fn advertisements_of_a_guest_are_not_processed() {
    let mut fixture = Fixture::default();
    let advertisement = Message::RouterAdvertisement(RouterAdvertisement::default());
    assert!(fixture.answers(&discovery_frame(&advertisement, GUEST_LOCAL, ALL_NODES)).is_empty());
    assert_eq!(fixture.segment.counters().malformed_discovery, 1);
}

#[test]
fn a_message_that_may_have_been_forwarded_is_not_processed() {
    let mut fixture = Fixture::default();
    let mut frame = solicitation(GATEWAY_V6, GUEST_V6);
    assert_eq!(frame[21], HOP_LIMIT);
    frame[21] = 254;
    assert!(fixture.answers(&frame).is_empty());
    assert_eq!(fixture.segment.counters().malformed_discovery, 1);
}

#[test]
fn a_message_with_a_wrong_checksum_is_not_processed() {
    let mut fixture = Fixture::default();
    let mut frame = solicitation(GATEWAY_V6, GUEST_V6);
    frame[56] ^= 1;
    assert!(fixture.answers(&frame).is_empty());
    assert_eq!(fixture.segment.counters().malformed_discovery, 1);
}

#[test]
fn an_echo_to_the_gateway_is_forwarded_to_the_station() {
    let mut fixture = Fixture::default();
    let mut message = vec![128, 0, 0, 0, 0, 1, 0, 2];
    icmpv6::seal(GUEST_V6, GATEWAY_V6, &mut message);
    let mut packet = Packet::from_slice(&message);
    local_messages::push_discovery(&mut packet, GUEST_V6, GATEWAY_V6);
    assert!(fixture.receive(&from_guest(0x86DD, packet.data())).is_some());
}

const DHCPV6: dhcpv6_server::Settings = dhcpv6_server::Settings {
    mac: GATEWAY_MAC,
    address: GUEST_V6,
    dns_servers: Vec::new(),
    search_domains: Vec::new(),
    lifetime: None,
};

/// Returns a frame with an Information-request of a guest at `source`, built by another library.
fn information_request(source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    let addresses = (source.octets(), destination.octets());
    let builder = etherparse::PacketBuilder::ethernet2(GUEST_MAC.octets(), GATEWAY_MAC.octets())
        .ipv6(addresses.0, addresses.1, 64)
        .udp(546, 547);
    let mut frame = Vec::new();
    builder.write(&mut frame, &[11, 1, 2, 3]).unwrap();
    frame
}

#[test]
fn a_dhcpv6_message_is_answered_to_the_guests_link_local_address() {
    let segment = Segment::new(Settings { dhcpv6: Some(DHCPV6), ..settings() });
    let mut fixture = Fixture { segment, ..Fixture::default() };
    let frames = fixture.answers(&information_request(GUEST_LOCAL, dhcpv6_server::SERVERS));
    let packet = etherparse::PacketHeaders::from_ethernet_slice(&frames[0]).unwrap();
    let Some(etherparse::NetHeaders::Ipv6(ip, _)) = packet.net else { panic!("IPv6") };
    let Some(etherparse::TransportHeader::Udp(udp)) = packet.transport else { panic!("UDP") };
    assert_eq!((ip.source, ip.destination), (GATEWAY_LOCAL.octets(), GUEST_LOCAL.octets()));
    assert_eq!((udp.source_port, udp.destination_port), (547, 546));
    let payload = packet.payload.slice();
    assert_eq!(Ok(udp.checksum), udp.calc_checksum_ipv6(&ip, payload));
    assert_eq!(payload, [7, 1, 2, 3, 0, 2, 0, 10, 0, 3, 0, 1, 2, 0, 0, 0, 0, 1]);
    assert_eq!(fixture.segment.dhcpv6_counters().unwrap().replies, 1);
}

#[test]
fn a_dhcpv6_message_by_unicast_or_with_a_wrong_checksum_is_not_answered() {
    let segment = Segment::new(Settings { dhcpv6: Some(DHCPV6), ..settings() });
    let mut fixture = Fixture { segment, ..Fixture::default() };
    assert!(fixture.receive(&information_request(GUEST_V6, GATEWAY_V6)).is_some());
    assert!(fixture.answers(&information_request(GUEST_V6, dhcpv6_server::SERVERS)).is_empty());
    let mut damaged = information_request(GUEST_LOCAL, dhcpv6_server::SERVERS);
    damaged[65] ^= 1;
    assert!(fixture.answers(&damaged).is_empty());
    let counters = fixture.segment.counters();
    assert_eq!((counters.group_datagrams, counters.malformed_dhcp), (1, 1));
}

#[test]
fn an_advertisement_announces_the_dhcpv6_server() {
    let segment = Segment::new(Settings { dhcpv6: Some(DHCPV6), ..settings() });
    let mut fixture = Fixture { segment, ..Fixture::default() };
    let frames = fixture.answers(&router_solicitation(GUEST_LOCAL));
    assert!(advertisement_of(&frames[0]).is_managed);
}
