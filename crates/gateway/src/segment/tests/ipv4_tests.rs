//! Tests of ARP, DHCP and the lease check of IPv4.

use super::*;
use net::application::dhcp::{self, Client};

/// Returns the ARP reply in a frame, as another library parses it.
fn arp_reply(frame: &[u8]) -> (etherparse::ArpEthIpv4Packet, Header) {
    let parsed = Header::parse(frame).unwrap();
    let packet = etherparse::ArpPacketSlice::from_slice(&frame[parsed.header_len..]).unwrap();
    (packet.to_packet().try_eth_ipv4().unwrap(), parsed.header)
}

#[test]
fn a_request_for_the_gateway_is_answered_with_its_address() {
    let mut fixture = Fixture::default();
    let frames = fixture.answers(&arp_frame(Operation::Request, LEASE, DNS));
    let [frame] = &frames[..] else { panic!("one reply") };
    let (reply, header) = arp_reply(frame);
    assert_eq!((header.destination, header.source), (GUEST_MAC, GATEWAY_MAC));
    assert_eq!(reply.operation, etherparse::ArpOperation::REPLY);
    assert_eq!((reply.sender_mac, reply.sender_ipv4), (GATEWAY_MAC.octets(), DNS.octets()));
    assert_eq!((reply.target_mac, reply.target_ipv4), (GUEST_MAC.octets(), LEASE.octets()));
    assert_eq!(frame.len(), 60);
}

/// Returns the targets of 10.0.2.0/24 for which a request of this sender is answered.
fn answered(settings: Settings, sender: Ipv4Addr) -> Vec<u8> {
    let mut fixture = Fixture::new(settings);
    let request = |last| arp_frame(Operation::Request, sender, Ipv4Addr::new(10, 0, 2, last));
    (0..=255).filter(|last| !fixture.answers(&request(*last)).is_empty()).collect()
}

#[test]
fn in_the_mode_of_slirp4netns_only_the_gateway_answers() {
    assert_eq!(answered(settings(), LEASE), [2, 3]);
}

#[test]
fn in_the_mode_of_pasta_every_address_but_the_lease_answers() {
    let expected: Vec<u8> = (0..=255).filter(|last| *last != 100).collect();
    assert_eq!(answered(settings_of_every_other_address(), LEASE), expected);
}

#[test]
fn a_probe_for_the_lease_is_never_answered() {
    for settings in [settings(), settings_of_every_other_address()] {
        assert!(!answered(settings, Ipv4Addr::UNSPECIFIED).contains(&100));
    }
}

#[test]
fn a_probe_for_the_address_of_the_gateway_is_answered() {
    assert_eq!(answered(settings(), Ipv4Addr::UNSPECIFIED), [2, 3]);
}

#[test]
fn replies_and_announcements_are_ignored() {
    let mut fixture = Fixture::default();
    assert!(fixture.answers(&arp_frame(Operation::Request, LEASE, LEASE)).is_empty());
    assert!(fixture.answers(&arp_frame(Operation::Reply, LEASE, GATEWAY)).is_empty());
    assert_eq!(fixture.segment.counters().arp_ignored, 2);
}

// attack row 105
#[test]
fn row_105_arp_packets_of_another_sender_are_dropped() {
    let mut fixture = Fixture::default();
    let other = Ipv4Addr::new(10, 0, 2, 101);
    assert!(fixture.answers(&arp_frame(Operation::Request, other, GATEWAY)).is_empty());
    let mut frame = arp_frame(Operation::Request, LEASE, GATEWAY);
    // The hardware address of the sender in the ARP packet.
    frame[22..28].copy_from_slice(&OTHER_MAC.octets());
    assert!(fixture.answers(&frame).is_empty());
    assert_eq!(fixture.segment.counters().spoofed_arp, 2);
}

// attack row 105
#[test]
fn row_105_only_datagrams_from_the_lease_are_forwarded() {
    let mut fixture = Fixture::default();
    let forwarded: Vec<u8> = (0..=255)
        .filter(|last| {
            let source = Ipv4Addr::new(10, 0, 2, *last);
            fixture.receive(&udp_frame(source, SERVER, (1, 2), b"")).is_some_and(|packet| {
                fixture.pool.put(packet);
                true
            })
        })
        .collect();
    assert_eq!(forwarded, [100]);
    let sources = [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST, GATEWAY, SERVER];
    for source in sources {
        assert!(fixture.receive(&udp_frame(source, SERVER, (1, 2), b"")).is_none());
    }
    assert_eq!(fixture.segment.counters().spoofed_ipv4, 255 + 4);
}

// attack row 105
#[test]
fn row_105_frames_from_another_hardware_address_are_dropped() {
    let mut fixture = Fixture::new(Settings { guest_mac: Some(GUEST_MAC), ..settings() });
    for mac in [OTHER_MAC, GATEWAY_MAC] {
        let mut frame = udp_frame(LEASE, SERVER, (1, 2), b"");
        frame[6..12].copy_from_slice(&mac.octets());
        assert!(fixture.receive(&frame).is_none());
    }
    assert_eq!(fixture.segment.counters().spoofed_frames, 2);
    assert!(fixture.receive(&udp_frame(LEASE, SERVER, (1, 2), b"")).is_some());
}

/// Returns the DHCP message in a frame of the server, as the client accepts it.
fn dhcp_payload(frame: &[u8]) -> Vec<u8> {
    let packet = etherparse::PacketHeaders::from_ethernet_slice(frame).unwrap();
    let Some(etherparse::NetHeaders::Ipv4(ip, _)) = packet.net else { panic!("IPv4") };
    let Some(etherparse::TransportHeader::Udp(udp)) = packet.transport else { panic!("UDP") };
    assert_eq!((udp.source_port, udp.destination_port), (67, 68));
    let payload = packet.payload.slice();
    assert_eq!(Ok(udp.checksum), udp.calc_checksum_ipv4(&ip, payload));
    assert_eq!(ip.header_checksum, ip.calc_header_checksum());
    payload.to_vec()
}

fn client_frame(outgoing: &dhcp::Outgoing) -> Vec<u8> {
    udp_frame(outgoing.source, outgoing.destination, (68, 67), &outgoing.payload)
}

#[test]
fn a_client_of_dhcp_obtains_the_lease_through_the_segment() {
    let mut fixture = Fixture::default();
    let settings = dhcp::Settings { mac: GUEST_MAC, host_name: Vec::new() };
    let mut client = Client::new(settings);
    client.start(&mut fixture.context.cx());
    let mut bound = None;
    for _ in 0..10 {
        if let Some(at) = client.deadline() {
            fixture.context.now = fixture.context.now.max(at);
        }
        client.timeout(&mut fixture.context.cx());
        while let Some(outgoing) = client.transmit(&mut fixture.context.cx()) {
            for frame in fixture.answers(&client_frame(&outgoing)) {
                client.receive(&dhcp_payload(&frame), &mut fixture.context.cx());
            }
        }
        match client.event() {
            Some(dhcp::Event::Check(address)) => {
                assert!(
                    fixture
                        .answers(&arp_frame(Operation::Request, Ipv4Addr::UNSPECIFIED, address))
                        .is_empty()
                );
                client.accept(address, &mut fixture.context.cx());
            }
            Some(dhcp::Event::Bound(lease)) => bound = Some(lease),
            _ => {}
        }
        if bound.is_some() {
            break;
        }
    }
    let lease = bound.or_else(|| match client.event() {
        Some(dhcp::Event::Bound(lease)) => Some(lease),
        _ => None,
    });
    let lease = lease.unwrap();
    assert_eq!((lease.address, lease.prefix_len, lease.mtu), (LEASE, 24, Some(1500)));
    assert_eq!((lease.routers, lease.dns_servers), (vec![GATEWAY], vec![DNS]));
    assert_eq!((lease.server, lease.expires_at), (GATEWAY, None));
    assert_eq!(fixture.segment.event(), Some(Event::Learnt(GUEST_MAC)));
    assert_eq!(fixture.segment.event(), Some(Event::Dhcp(dhcp_server::Event::Bound)));
}

fn discover() -> Vec<u8> {
    let message = dhcp::Message {
        op: dhcp::Op::Request,
        kind: dhcp::Kind::Discover,
        transaction: 7,
        elapsed_s: 0,
        is_broadcast: false,
        client: Ipv4Addr::UNSPECIFIED,
        your_address: Ipv4Addr::UNSPECIFIED,
        relay: Ipv4Addr::UNSPECIFIED,
        mac: GUEST_MAC,
        options: dhcp::Options::default(),
    };
    message.emit()
}

#[test]
fn an_offer_is_sent_to_the_guest_before_it_has_the_address() {
    let mut fixture = Fixture::default();
    let frame = udp_frame(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, (68, 67), &discover());
    let frames = fixture.answers(&frame);
    assert_eq!(frames[0][..6], GUEST_MAC.octets());
    assert_eq!(frames[0][30..34], LEASE.octets());
    let offer = dhcp::Message::parse(&dhcp_payload(&frames[0])).unwrap();
    assert_eq!((offer.kind, offer.your_address), (dhcp::Kind::Offer, LEASE));
}

#[test]
fn a_checksum_that_the_device_completes_is_not_checked() {
    let mut fixture = Fixture::default();
    let mut frame = udp_frame(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, (68, 67), &discover());
    frame[40..42].copy_from_slice(&[0x12, 0x34]);
    assert!(fixture.answers(&frame).is_empty());
    assert_eq!(fixture.segment.counters().malformed_dhcp, 1);
    let mut packet = fixture.pool.take(&mut fixture.context.meter).unwrap();
    packet.extend(&frame);
    packet.offload.checksum = ChecksumState::Partial { start: 162, field: 6 };
    let mut cx = fixture.context.cx();
    assert!(fixture.segment.receive(packet, &mut fixture.pool, &mut cx).is_none());
    assert_eq!(fixture.sent().len(), 1);
}

#[test]
fn without_a_server_a_dhcp_message_is_a_broadcast_of_no_lease() {
    let mut fixture = Fixture::new(Settings { dhcp: None, ..settings() });
    let frame = udp_frame(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, (68, 67), &discover());
    assert!(fixture.answers(&frame).is_empty());
    assert_eq!(fixture.segment.counters().spoofed_ipv4, 1);
}
