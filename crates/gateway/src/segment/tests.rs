//! Tests of a segment. etherparse builds the datagrams of the guest, and parses the answers.

use super::*;
use crate::domain_name::DomainName;
use net::OwnedCx;
use net::internet::icmpv6;
use net::internet::nd::{ALL_NODES, ALL_ROUTERS, HOP_LIMIT, RouterAdvertisement, solicited_node};
use net::packet::{ChecksumState, Offload};
use net::time::Duration;
use proptest::prelude::*;

mod address_changes;
mod hostile_frames;
mod ipv4_tests;
mod ipv6_tests;

const GATEWAY_MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const GUEST_MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 2]);
const OTHER_MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 3]);
const LEASE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const DNS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);
const SERVER: Ipv4Addr = Ipv4Addr::new(1, 1, 1, 1);
const PREFIX: Ipv6Addr = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 0);
const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 2);
const GATEWAY_LOCAL: Ipv6Addr = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 2);
const GUEST_V6: Ipv6Addr = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 0x100);
const GUEST_LOCAL: Ipv6Addr = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 0x100);
const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0x2606, 0x4700, 0, 0, 0, 0, 0, 0x1111);

fn settings() -> Settings {
    let search_domains: Vec<DomainName> = vec!["a.example".parse().unwrap()];
    Settings {
        mac: GATEWAY_MAC,
        guest_mac: None,
        represented: Represented::Gateway,
        ipv4: Some(Ipv4Network { lease: LEASE, prefix_len: 24, gateways: vec![GATEWAY, DNS] }),
        ipv6: Some(Ipv6Network {
            prefix: PREFIX,
            lease: None,
            link_local: GATEWAY_LOCAL,
            gateways: vec![GATEWAY_V6],
            advertisement: Some(Advertisement {
                prefix: PREFIX,
                mtu: 1500,
                dns_servers: vec![GATEWAY_V6],
                search_domains: search_domains.clone(),
            }),
        }),
        dhcp: Some(dhcp_server::Settings {
            server: GATEWAY,
            address: LEASE,
            prefix_len: 24,
            router: Some(GATEWAY),
            dns_servers: vec![DNS],
            search_domains,
            mtu: Some(1500),
            lease_time: None,
        }),
        dhcpv6: None,
    }
}

/// Settings like those of pasta: the guest has the address of the host.
fn settings_of_every_other_address() -> Settings {
    let mut settings = settings();
    settings.represented = Represented::EveryOther;
    settings.ipv6.as_mut().unwrap().lease = Some(GUEST_V6);
    settings
}

struct Fixture {
    segment: Segment,
    pool: Pool,
    context: OwnedCx,
}

impl Default for Fixture {
    fn default() -> Self {
        Self::new(settings())
    }
}

impl Fixture {
    fn new(settings: Settings) -> Self {
        let segment = Segment::new(settings);
        Self { segment, pool: Pool::new(32, 2048), context: OwnedCx::default() }
    }

    /// Passes a frame to the segment, and returns the datagram that is to be forwarded.
    fn receive(&mut self, frame: &[u8]) -> Option<Packet> {
        let mut packet = self.pool.take(&mut self.context.meter).unwrap();
        packet.extend(frame);
        self.segment.receive(packet, &mut self.pool, &mut self.context.cx())
    }

    /// Passes a frame of which no datagram is to be forwarded, and returns the frames sent.
    fn answers(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        assert!(self.receive(frame).is_none());
        self.sent()
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some(packet) = self.segment.transmit(&mut self.pool, &mut self.context.cx()) {
            frames.push(packet.data().to_vec());
            self.pool.put(packet);
        }
        frames
    }

    fn timeout(&mut self) {
        self.segment.timeout(&mut self.context.cx());
    }

    /// Advances the time to the deadline of the segment, and returns the frames that it sends then.
    fn sent_at_deadline(&mut self) -> Vec<Vec<u8>> {
        self.context.now = self.segment.deadline().unwrap();
        self.timeout();
        self.sent()
    }
}

fn frame_of(source: MacAddress, destination: MacAddress, kind: u16, payload: &[u8]) -> Vec<u8> {
    let ether_type = EtherType::from(kind);
    [&Header { destination, source, ether_type }.emit()[..], payload].concat()
}

fn from_guest(kind: u16, payload: &[u8]) -> Vec<u8> {
    frame_of(GUEST_MAC, GATEWAY_MAC, kind, payload)
}

/// Returns a frame of the guest with a UDP datagram, built by another library.
fn udp_frame(source: Ipv4Addr, destination: Ipv4Addr, ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let addresses = (source.octets(), destination.octets());
    let builder = etherparse::PacketBuilder::ethernet2(GUEST_MAC.octets(), GATEWAY_MAC.octets())
        .ipv4(addresses.0, addresses.1, 64)
        .udp(ports.0, ports.1);
    let mut frame = Vec::new();
    builder.write(&mut frame, data).unwrap();
    frame
}

fn udp_frame_v6(source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    let addresses = (source.octets(), destination.octets());
    let builder = etherparse::PacketBuilder::ethernet2(GUEST_MAC.octets(), GATEWAY_MAC.octets())
        .ipv6(addresses.0, addresses.1, 64)
        .udp(1, 2);
    let mut frame = Vec::new();
    builder.write(&mut frame, b"data").unwrap();
    frame
}

fn arp_frame(operation: Operation, sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let target_mac = MacAddress::UNSPECIFIED;
    let packet = ArpPacket { operation, sender_mac: GUEST_MAC, sender, target_mac, target };
    frame_of(GUEST_MAC, MacAddress::BROADCAST, 0x0806, &packet.emit())
}

/// Returns a frame of the guest with a message of Neighbor Discovery.
fn discovery_frame(message: &Message, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    let mut packet = Packet::with_capacity(200);
    packet.extend(&message.emit(source, destination));
    local_messages::push_discovery(&mut packet, source, destination);
    let to =
        if destination.is_multicast() { MacAddress::of_group_v6(destination) } else { GATEWAY_MAC };
    frame_of(GUEST_MAC, to, 0x86DD, packet.data())
}

fn solicitation(target: Ipv6Addr, source: Ipv6Addr) -> Vec<u8> {
    let source_mac = (!source.is_unspecified()).then_some(GUEST_MAC);
    let message = Message::NeighborSolicitation { target, source_mac, nonce: None };
    discovery_frame(&message, source, solicited_node(target))
}

fn router_solicitation(source: Ipv6Addr) -> Vec<u8> {
    let source_mac = (!source.is_unspecified()).then_some(GUEST_MAC);
    discovery_frame(&Message::RouterSolicitation { source_mac }, source, ALL_ROUTERS)
}

#[test]
fn a_datagram_is_returned_without_its_frame_header() {
    let mut fixture = Fixture::default();
    let frame = udp_frame(LEASE, SERVER, (1, 2), b"data");
    let datagram = fixture.receive(&frame).unwrap();
    assert_eq!(datagram.data(), &frame[14..]);
    let counters = fixture.segment.counters();
    assert_eq!((counters.frames_in, counters.datagrams_in), (1, 1));
}

#[test]
fn the_offloads_of_a_packet_are_unchanged() {
    let mut fixture = Fixture::default();
    let mut packet = fixture.pool.take(&mut fixture.context.meter).unwrap();
    packet.extend(&udp_frame(LEASE, SERVER, (1, 2), b"data"));
    packet.pull(34);
    packet.offload_checksum(6);
    packet.unpull(34);
    packet.offload.segment_size = 1400;
    let Offload { segment_size, checksum } = packet.offload;
    let mut cx = fixture.context.cx();
    let datagram = fixture.segment.receive(packet, &mut fixture.pool, &mut cx).unwrap();
    assert_eq!(datagram.offload, Offload { segment_size, checksum });
    // The UDP header begins after the 20 bytes of the IPv4 header.
    assert_eq!(datagram.offloaded_checksum(), Some((20, 6)));
}

#[test]
fn the_first_frame_determines_the_guests_address() {
    let mut fixture = Fixture::default();
    let mut before = Packet::from_slice(&[0x45; 20]);
    fixture.segment.frame(&mut before);
    assert_eq!(before.data()[..6], MacAddress::BROADCAST.octets());
    fixture.receive(&udp_frame(LEASE, SERVER, (1, 2), b""));
    assert_eq!(fixture.segment.event(), Some(Event::Learnt(GUEST_MAC)));
    let mut after = Packet::from_slice(&[0x60; 40]);
    fixture.segment.frame(&mut after);
    let expected =
        Header { destination: GUEST_MAC, source: GATEWAY_MAC, ether_type: EtherType::Ipv6 };
    assert_eq!(Header::parse(after.data()).unwrap().header, expected);
    assert_eq!(after.len(), 60);
}

#[test]
fn a_frame_whose_tail_the_device_gathers_is_not_padded() {
    let mut packet = Packet::from_slice(&[0x45; 20]);
    packet.tail_len = 1000;
    Fixture::default().segment.frame(&mut packet);
    assert_eq!(packet.len(), 34);
}

#[test]
fn after_a_reset_another_guest_is_learnt() {
    let mut fixture = Fixture::default();
    fixture.receive(&udp_frame(LEASE, SERVER, (1, 2), b""));
    let mut other = udp_frame(LEASE, SERVER, (1, 2), b"");
    other[6..12].copy_from_slice(&OTHER_MAC.octets());
    assert!(fixture.receive(&other).is_none());
    fixture.segment.reset(&mut fixture.context.cx());
    assert!(fixture.receive(&other).is_some());
    assert_eq!(fixture.segment.guest_mac(), Some(OTHER_MAC));
}

#[test]
fn frames_of_vlans_llc_other_protocols_and_other_hosts_are_counted() {
    let mut fixture = Fixture::default();
    let datagram = udp_frame(LEASE, SERVER, (1, 2), b"")[14..].to_vec();
    fixture.answers(&from_guest(0x8100, &[&[0, 7, 8, 0], &datagram[..]].concat()));
    fixture.answers(&from_guest(0x0026, &[0x42; 38]));
    fixture.answers(&from_guest(0x88CC, &[0; 46]));
    fixture.answers(&frame_of(GUEST_MAC, OTHER_MAC, 0x0800, &datagram));
    let counters = fixture.segment.counters();
    assert_eq!((counters.vlan_frames, counters.llc_frames), (1, 1));
    assert_eq!((counters.unknown_types, counters.misdirected_frames), (1, 1));
    assert_eq!(counters.datagrams_in, 0);
}

#[test]
fn a_version_of_ip_that_is_off_is_an_unknown_type() {
    let mut fixture = Fixture::new(Settings { ipv6: None, dhcp: None, ..settings() });
    assert!(fixture.receive(&udp_frame_v6(GUEST_V6, SERVER_V6)).is_none());
    assert!(fixture.answers(&solicitation(GATEWAY_V6, GUEST_V6)).is_empty());
    assert_eq!(fixture.segment.counters().unknown_types, 2);
    assert_eq!(fixture.segment.deadline(), None);
    let mut fixture = Fixture::new(Settings { ipv4: None, dhcp: None, ..settings() });
    assert!(fixture.receive(&udp_frame(LEASE, SERVER, (1, 2), b"")).is_none());
    assert!(fixture.answers(&arp_frame(Operation::Request, LEASE, GATEWAY)).is_empty());
    assert_eq!(fixture.segment.counters().unknown_types, 2);
}

#[test]
fn a_priority_tag_is_removed_with_the_header() {
    let mut fixture = Fixture::default();
    let datagram = udp_frame(LEASE, SERVER, (1, 2), b"data")[14..].to_vec();
    let frame = from_guest(0x8100, &[&[0xE0, 0, 8, 0], &datagram[..]].concat());
    assert_eq!(fixture.receive(&frame).unwrap().data(), datagram);
}

#[test]
fn datagrams_to_groups_and_broadcasts_are_not_forwarded() {
    let mut fixture = Fixture::default();
    let groups = [Ipv4Addr::new(224, 0, 0, 251), Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 0, 2, 255)];
    for group in groups {
        assert!(fixture.receive(&udp_frame(LEASE, group, (5353, 5353), b"")).is_none());
    }
    assert!(fixture.receive(&udp_frame_v6(GUEST_LOCAL, ALL_ROUTERS)).is_none());
    assert_eq!(fixture.segment.counters().group_datagrams, 4);
}

#[test]
fn a_datagram_to_one_host_in_a_frame_to_a_group_is_not_forwarded() {
    let mut fixture = Fixture::default();
    let groups = [MacAddress::BROADCAST, MacAddress::of_group_v6(ALL_NODES)];
    for group in groups {
        for mut frame in [udp_frame(LEASE, SERVER, (1, 2), b""), udp_frame_v6(GUEST_V6, SERVER_V6)]
        {
            frame[..6].copy_from_slice(&group.octets());
            assert!(fixture.receive(&frame).is_none());
        }
    }
    let counters = fixture.segment.counters();
    assert_eq!((counters.group_frames, counters.datagrams_in), (4, 0));
}

#[test]
fn answers_beyond_the_limit_are_dropped_and_counted() {
    let mut fixture = Fixture::default();
    for _ in 0..ANSWERS_LIMIT + 2 {
        fixture.receive(&arp_frame(Operation::Request, LEASE, GATEWAY));
    }
    let counters = fixture.segment.counters();
    assert_eq!((counters.arp_answers, counters.answers_dropped), (16, 2));
    // The router advertisement of the start is not due before the first timeout.
    assert_eq!(fixture.sent().len(), ANSWERS_LIMIT);
}

#[test]
fn an_answer_remains_queued_while_the_pool_is_exhausted() {
    let mut fixture = Fixture::default();
    fixture.receive(&arp_frame(Operation::Request, LEASE, GATEWAY));
    let lent: Vec<Packet> =
        std::iter::from_fn(|| fixture.pool.take(&mut fixture.context.meter)).collect();
    assert!(fixture.sent().is_empty());
    assert!(fixture.segment.has_output());
    lent.into_iter().for_each(|packet| fixture.pool.put(packet));
    assert_eq!(fixture.sent().len(), 1);
}
