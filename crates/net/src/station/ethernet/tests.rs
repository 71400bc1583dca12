//! Tests of stations on one segment, in virtual time. The tests craft the frames of servers and
//! routers.

mod broadcasts;
mod gateways;
mod parameters;

use super::datagrams::{nd_message, push_ipv6};
use super::*;
use crate::application::Stream;
use crate::application::dhcp::{Kind, Message, Op, Options};
use crate::cx::OwnedCx;
use crate::internet::arp::{ArpPacket, Operation};
use crate::internet::nd::{Prefix, RouterAdvertisement, solicited_node};
use crate::link::Link;
use crate::station::{Application, Opening, Scheduler, Station, Step, TcpStreamApp};
use crate::time::Duration;
use crate::transport::tcp::Profile;
use core::net::SocketAddr;
use core::task::Poll;
use std::vec;

const NETWORK: [u8; 3] = [10, 0, 0];
const PORT: u16 = 7;

/// A stream that sends `outgoing`, records the received data, and echoes it if requested.
#[derive(Debug, Default)]
struct TestStream {
    outgoing: Vec<u8>,
    received: Vec<u8>,
    echoes: bool,
}

impl Stream for TestStream {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, data: &[u8], _cx: &mut Cx<'_>) {
        self.received.extend_from_slice(data);
        if self.echoes {
            self.outgoing.extend_from_slice(data);
        }
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        &self.outgoing
    }

    fn sent(&mut self, count: usize) {
        self.outgoing.drain(..count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }
}

struct Host {
    station: Station,
    scheduler: Scheduler,
    application: TcpStreamApp<TestStream>,
    context: OwnedCx,
    /// Frames that the host has sent.
    sent: Vec<Vec<u8>>,
}

impl Host {
    fn new(number: u8, ipv4: Ipv4, ipv6: Ipv6, opening: Opening) -> Self {
        Self::with_lab(OwnedCx::with_seed(number.into()), number, ipv4, ipv6, opening)
    }

    fn with_lab(
        mut context: OwnedCx,
        number: u8,
        ipv4: Ipv4,
        ipv6: Ipv6,
        opening: Opening,
    ) -> Self {
        let link = Link::Ethernet(crate::link::Ethernet::new(1500));
        let mut station =
            Station::new(link, crate::station::Settings::default(), &mut context.cx());
        let secret = slaac::Secret([number.into(), 7]);
        let settings = Settings { mac: mac(number), ipv4, ipv6, secret, host_name: vec![] };
        station.join_segment(settings, &mut context.cx());
        let application = TcpStreamApp::new(TestStream::default(), opening, Profile::INTERACTIVE);
        Self { station, scheduler: Scheduler::default(), application, context, sent: Vec::new() }
    }

    /// Returns a host with a fixed IPv4 address that listens for connections.
    fn with_fixed_address(number: u8) -> Self {
        Self::new(number, fixed_address(number, None), Ipv6::Off, Opening::Passive { port: PORT })
    }

    fn ethernet(&mut self) -> &mut Ethernet {
        self.station.layers.ethernet_mut().unwrap()
    }

    fn ping(&mut self, destination: impl Into<IpAddr>) {
        let cx = &mut self.context.cx();
        let sent = self.station.layers.ping(destination.into(), (1, 1), 56, cx);
        assert_eq!(sent, Poll::Ready(Ok(())));
    }

    fn send_byte(&mut self, byte: u8) {
        self.application.stream.outgoing.push(byte);
        self.station.step(Step::User, &mut self.application, &mut self.context.cx());
    }

    fn link_local(&mut self) -> Ipv6Addr {
        self.ethernet().discovery().unwrap().addresses().link_local().unwrap()
    }

    fn run(&mut self) {
        self.scheduler.run(&mut self.station, &mut self.application, &mut self.context.cx());
    }

    fn receive(&mut self, frame: &[u8]) {
        self.station.receive(frame, &mut self.context.cx());
        self.run();
    }

    fn transmit(&mut self) -> Option<Vec<u8>> {
        let mut wire = Vec::new();
        self.station.transmit_into(&mut wire, usize::MAX, &mut self.context.cx());
        (!wire.is_empty()).then_some(wire)
    }
}

/// A segment: every frame is delivered to all other hosts.
struct Segment(Vec<Host>);

impl Segment {
    fn deliver_all(&mut self) {
        for _ in 0..10_000 {
            self.0.iter_mut().for_each(Host::run);
            let sent: Vec<_> = self.0.iter_mut().map(Host::transmit).collect();
            if sent.iter().all(Option::is_none) {
                return;
            }
            for (sender, frame) in sent.into_iter().enumerate() {
                let Some(frame) = frame else { continue };
                let others = self.0.iter_mut().enumerate().filter(|(place, _)| *place != sender);
                others.for_each(|(_, host)| host.receive(&frame));
                self.0[sender].sent.push(frame);
            }
        }
        panic!("the segment does not come to rest");
    }

    fn run_seconds(&mut self, seconds: u64) {
        let end = self.0[0].context.now + Duration::from_secs(seconds);
        loop {
            self.deliver_all();
            let deadlines = self.0.iter().filter_map(|host| {
                [host.station.deadline(), host.application.deadline()].into_iter().flatten().min()
            });
            let next = deadlines.min().filter(|at| *at <= end);
            let now = next.map_or(end, |at| at.max(self.0[0].context.now));
            self.0.iter_mut().for_each(|host| host.context.now = now);
            if next.is_none() {
                return;
            }
        }
    }
}

fn mac(number: u8) -> MacAddress {
    MacAddress::new([2, 0, 0, 0, 0, number])
}

fn address(number: u8) -> Ipv4Addr {
    let [a, b, c] = NETWORK;
    Ipv4Addr::new(a, b, c, number)
}

fn fixed_address(number: u8, router: Option<Ipv4Addr>) -> Ipv4 {
    Ipv4::Static { address: address(number), prefix_len: 24, router }
}

/// Returns the EtherType of each frame.
fn ether_types(frames: &[Vec<u8>]) -> Vec<EtherType> {
    frames.iter().map(|frame| ethernet::Header::parse(frame).unwrap().header.ether_type).collect()
}

// req RFC1122:2.3.3-MUST-3, RFC1122:2.3.3-MUST-4, RFC1122:3.3.1.1-MUST-2, RFC1122:3.3.1.2-MUST-1
#[test]
fn a_neighbor_is_resolved_once_for_several_pings() {
    let mut segment = Segment(vec![Host::with_fixed_address(1), Host::with_fixed_address(2)]);
    segment.run_seconds(10);
    segment.0.iter_mut().for_each(|host| host.sent.clear());
    for _ in 0..3 {
        segment.0[0].ping(address(2));
        segment.deliver_all();
        let reply = segment.0[0].station.take_echo_reply().unwrap();
        assert_eq!(reply.source, IpAddr::from(address(2)));
    }
    let mut expected = vec![EtherType::Arp];
    expected.extend([EtherType::Ipv4; 3]);
    assert_eq!(ether_types(&segment.0[0].sent), expected);
    assert_eq!(segment.0[0].station.packets_in_use(), 0);
}

#[test]
fn a_connection_over_ethernet_carries_bytes_both_ways() {
    let remote = SocketAddr::new(address(2).into(), PORT);
    let opening = Opening::Active { local: address(1).into(), remote };
    let mut caller = Host::new(1, fixed_address(1, None), Ipv6::Off, opening);
    let sent_data: Vec<u8> = (0..100_000_u32).map(|i| i.to_be_bytes()[3]).collect();
    caller.application.stream.outgoing.clone_from(&sent_data);
    let mut listener = Host::with_fixed_address(2);
    listener.application.stream.echoes = true;
    let mut segment = Segment(vec![caller, listener]);
    segment.run_seconds(60);
    assert!(segment.0[0].application.stream.received == sent_data);
}

/// Returns two hosts with a connection between them. The second host echoes received data.
fn connected_hosts() -> Segment {
    connected_with(Ipv6::Off)
}

fn connected_with(ipv6: Ipv6) -> Segment {
    let remote = SocketAddr::new(address(2).into(), PORT);
    let opening = Opening::Active { local: address(1).into(), remote };
    let mut listener = Host::with_fixed_address(2);
    listener.application.stream.echoes = true;
    let mut segment = Segment(vec![Host::new(1, fixed_address(1, None), ipv6, opening), listener]);
    segment.run_seconds(10);
    segment
}

#[test]
fn a_missing_host_is_solicited_three_times_and_no_buffer_leaks() {
    let mut segment = Segment(vec![Host::with_fixed_address(1), Host::with_fixed_address(2)]);
    segment.run_seconds(10);
    segment.0[0].sent.clear();
    segment.0[0].ping(address(9));
    segment.run_seconds(10);
    assert_eq!(ether_types(&segment.0[0].sent), [EtherType::Arp; 3]);
    assert_eq!(segment.0[0].station.packets_in_use(), 0);
    assert_eq!(segment.0[0].context.counted(Counter::NeighborsUnreachable), 1);
}

#[test]
fn a_connection_to_a_missing_host_fails_as_unreachable() {
    let remote = SocketAddr::new(address(9).into(), PORT);
    let opening = Opening::Active { local: address(1).into(), remote };
    let mut segment = Segment(vec![Host::new(1, fixed_address(1, None), Ipv6::Off, opening)]);
    segment.run_seconds(10);
    assert!(segment.0[0].context.counted(Counter::TcpIcmpErrors) > 0);
}

#[test]
fn destinations_off_link_are_sent_to_the_router() {
    let router = Some(address(2));
    let opening = Opening::Passive { port: PORT };
    let first = Host::new(1, fixed_address(1, router), Ipv6::Off, opening);
    let mut segment = Segment(vec![first, Host::with_fixed_address(2)]);
    segment.run_seconds(10);
    segment.0[0].sent.clear();
    segment.0[0].ping(Ipv4Addr::new(192, 0, 2, 1));
    segment.deliver_all();
    let last = ethernet::Header::parse(segment.0[0].sent.last().unwrap()).unwrap().header;
    assert_eq!((last.destination, last.ether_type), (mac(2), EtherType::Ipv4));
}

// req RFC1122:2.4-MUST-1
#[test]
fn a_broadcast_frame_with_a_unicast_datagram_is_dropped() {
    let mut segment = Segment(vec![Host::with_fixed_address(1), Host::with_fixed_address(2)]);
    segment.run_seconds(10);
    segment.0[0].ping(address(2));
    segment.deliver_all();
    let mut ping = segment.0[0].sent.pop().unwrap();
    segment.0[1].sent.clear();
    ping[..6].copy_from_slice(&MacAddress::BROADCAST.octets());
    segment.0[1].receive(&ping);
    segment.deliver_all();
    assert_eq!(segment.0[1].sent, Vec::<Vec<u8>>::new());
    assert_eq!(segment.0[1].context.counted(Counter::EthernetFramesForOthers), 1);
}

#[test]
fn a_frame_for_another_host_is_ignored() {
    let mut host = Host::with_fixed_address(1);
    host.run();
    while host.transmit().is_some() {}
    let header =
        ethernet::Header { destination: mac(3), source: mac(2), ether_type: EtherType::Arp };
    host.receive(&header.emit());
    assert_eq!(host.context.counted(Counter::EthernetFramesForOthers), 1);
    assert_eq!(host.station.packets_in_use(), 0);
}

#[test]
fn a_short_frame_is_padded() {
    let mut segment = Segment(vec![Host::with_fixed_address(1)]);
    segment.run_seconds(10);
    assert!(!segment.0[0].sent.is_empty());
    assert!(segment.0[0].sent.iter().all(|frame| frame.len() == 60));
}

/// A DHCP server at 10.0.0.200. It leases one address, whose last byte is `leased_number`.
struct Server {
    leased_number: u8,
}

impl Server {
    const NUMBER: u8 = 200;

    fn answer(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let asked = Message::parse(frame.get(42..)?).ok()?;
        let kind = match asked.kind {
            Kind::Discover => Kind::Offer,
            Kind::Request => Kind::Ack,
            _ => return None,
        };
        let server = address(Self::NUMBER);
        let options = Options {
            prefix_len: Some(25),
            routers: vec![server],
            lease_s: Some(3600),
            server: Some(server),
            ..Options::default()
        };
        let your_address = address(self.leased_number);
        let reply = Message { op: Op::Reply, kind, your_address, options, ..asked };
        let mut bytes = Vec::new();
        etherparse::PacketBuilder::ethernet2(mac(Self::NUMBER).octets(), [0xFF; 6])
            .ipv4(server.octets(), [255; 4], 64)
            .udp(67, 68)
            .write(&mut bytes, &reply.emit())
            .unwrap();
        Some(bytes)
    }
}

impl Segment {
    /// Runs the segment and a DHCP server for `seconds`, in steps of half a second.
    fn run_with_server(&mut self, server: &Server, seconds: u64) {
        for _ in 0..seconds {
            self.run_seconds(1);
            for place in 0..self.0.len() {
                let sent = core::mem::take(&mut self.0[place].sent);
                let answers: Vec<_> = sent.iter().filter_map(|f| server.answer(f)).collect();
                answers.iter().for_each(|frame| self.0[place].receive(frame));
            }
        }
    }
}

fn asks_a_server(number: u8) -> Host {
    Host::new(number, Ipv4::Dhcp, Ipv6::Off, Opening::Passive { port: PORT })
}

// req RFC1122:2.3.3-MUST-1, RFC1122:3.2.2.9-MUST-1
#[test]
fn a_station_gets_its_address_from_a_server_and_uses_it() {
    let mut segment = Segment(vec![asks_a_server(1), Host::with_fixed_address(2)]);
    segment.run_with_server(&Server { leased_number: 50 }, 20);
    assert_eq!(segment.0[0].station.address(), address(50));
    let prefix_lens = segment.0.iter().map(|host| {
        host.station.layers.internet.addresses().as_slice().iter().map(|known| known.prefix_len)
    });
    assert_eq!(prefix_lens.flatten().collect::<Vec<_>>(), [25, 24], "of server and settings");
    segment.0[0].ping(address(2));
    segment.deliver_all();
    assert!(segment.0[0].station.take_echo_reply().is_some());
    segment.0[1].ping(address(50));
    segment.deliver_all();
    assert!(segment.0[1].station.take_echo_reply().is_some());
}

#[test]
fn an_address_that_another_station_has_is_declined() {
    let mut segment = Segment(vec![asks_a_server(1), Host::with_fixed_address(2)]);
    segment.run_with_server(&Server { leased_number: 2 }, 8);
    assert_eq!(segment.0[0].station.address(), Ipv4Addr::UNSPECIFIED);
    assert_eq!(segment.0[0].context.counted(Counter::DhcpDeclines), 1);
    segment.run_with_server(&Server { leased_number: 51 }, 30);
    assert_eq!(segment.0[0].station.address(), address(51));
}

#[test]
fn a_released_address_is_no_longer_used() {
    let mut segment = Segment(vec![asks_a_server(1)]);
    segment.run_with_server(&Server { leased_number: 50 }, 20);
    let host = &mut segment.0[0];
    host.station.layers.ethernet_mut().unwrap().release(&mut host.context.cx());
    segment.run_seconds(1);
    assert_eq!(segment.0[0].ethernet().lease(), None);
}

#[test]
fn two_stations_form_ipv6_link_local_addresses_and_answer_solicitations() {
    let host =
        |number| Host::new(number, Ipv4::Off, Ipv6::LinkLocal, Opening::Passive { port: PORT });
    let mut segment = Segment(vec![host(1), host(2)]);
    segment.run_seconds(5);
    let ours = segment
        .0
        .iter_mut()
        .map(|host| host.ethernet().discovery().unwrap().addresses().link_local().unwrap());
    let ours: Vec<_> = ours.collect();
    assert_ne!(ours[0], ours[1]);
    let [_, target] = ours[..] else { panic!("two") };
    segment.0[1].sent.clear();
    let mut solicitation = Packet::with_capacity(100);
    let message =
        nd::Message::NeighborSolicitation { target, source_mac: Some(mac(1)), nonce: None };
    let to = solicited_node(target);
    solicitation.extend(&message.emit(ours[0], to));
    push_ipv6(&mut solicitation, ours[0], to);
    let destination = MacAddress::of_group_v6(to);
    let header = ethernet::Header { destination, source: mac(1), ether_type: EtherType::Ipv6 };
    solicitation.push(&header.emit());
    segment.0[1].receive(solicitation.data());
    segment.deliver_all();
    let answer = segment.0[1].sent[0].clone();
    assert_eq!(ethernet::Header::parse(&answer).unwrap().header.destination, mac(1));
    let found = nd_message(&answer[14..]).unwrap();
    assert_eq!((found.source, found.destination), (target, ours[0]));
}

#[test]
fn a_duplicate_address_is_detected() {
    let host = |seed| {
        let opening = Opening::Passive { port: PORT };
        Host::with_lab(OwnedCx::with_seed(seed), 1, Ipv4::Off, Ipv6::LinkLocal, opening)
    };
    // The same hardware address and secret twice, as with a cloned system image.
    let mut segment = Segment(vec![host(1), host(2)]);
    segment.run_seconds(30);
    let duplicates =
        segment.0.iter().map(|h| h.context.counted(Counter::NdDuplicates)).sum::<u64>();
    assert!(duplicates > 0);
}

fn advertisement(takes: &mut Host) -> Vec<u8> {
    let router = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 1);
    let prefix = Prefix {
        prefix: Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 0),
        len: 64,
        is_on_link: true,
        is_autonomous: true,
        valid_s: 3600,
        preferred_s: 1800,
    };
    let sent_data = RouterAdvertisement {
        lifetime_s: 1800,
        source_mac: Some(mac(9)),
        prefixes: vec![prefix],
        ..RouterAdvertisement::default()
    };
    let mut packet = takes.station.lend(&mut takes.context.cx()).unwrap();
    packet.extend(&nd::Message::RouterAdvertisement(sent_data).emit(router, nd::ALL_NODES));
    push_ipv6(&mut packet, router, nd::ALL_NODES);
    let destination = MacAddress::of_group_v6(nd::ALL_NODES);
    packet.push(
        &ethernet::Header { destination, source: mac(9), ether_type: EtherType::Ipv6 }.emit(),
    );
    let frame = packet.data().to_vec();
    takes.station.take_back(packet);
    frame
}

#[test]
fn a_station_forms_an_address_from_the_prefix_of_a_router() {
    let host = Host::new(1, Ipv4::Off, Ipv6::Autoconfigured, Opening::Passive { port: PORT });
    let mut segment = Segment(vec![host]);
    segment.run_seconds(3);
    let frame = advertisement(&mut segment.0[0]);
    segment.0[0].receive(&frame);
    segment.run_seconds(3);
    let remote_address = IpAddr::from(Ipv6Addr::new(0x2620, 0, 0, 0, 0, 0, 0, 1));
    let router = IpAddr::from(Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 1));
    assert_eq!(segment.0[0].station.layers.internet.next_hop(remote_address), Some(router));
    let ethernet = segment.0[0].ethernet();
    assert_eq!(ethernet.discovery().unwrap().addresses().iter().count(), 2);
    assert_eq!(ethernet.cache().lookup(router), Some(mac(9)));
}

// attack row 21
#[test]
fn row_21_a_station_without_autoconfiguration_ignores_routers() {
    let host = Host::new(1, Ipv4::Off, Ipv6::LinkLocal, Opening::Passive { port: PORT });
    let mut segment = Segment(vec![host]);
    segment.run_seconds(3);
    let frame = advertisement(&mut segment.0[0]);
    segment.0[0].receive(&frame);
    segment.run_seconds(3);
    let ethernet = segment.0[0].ethernet();
    assert_eq!(ethernet.discovery().unwrap().addresses().iter().count(), 1);
    assert_eq!(ethernet.discovery().unwrap().routers(), []);
}

// attack row 22
#[test]
fn row_22_a_flood_from_missing_hosts_exhausts_no_buffers_or_neighbors() {
    let mut segment = Segment(vec![Host::with_fixed_address(1), Host::with_fixed_address(2)]);
    segment.run_seconds(10);
    segment.0[1].ping(address(1));
    segment.deliver_all();
    for number in 0..20_000_u32 {
        let sender = Ipv4Addr::from_bits(0x0A00_0000 + (number % 250) + 3);
        let mut frame = Vec::new();
        etherparse::PacketBuilder::ethernet2(mac(9).octets(), mac(1).octets())
            .ipv4(sender.octets(), address(1).octets(), 64)
            .icmpv4_echo_request(1, 1)
            .write(&mut frame, b"flood")
            .unwrap();
        segment.0[0].receive(&frame);
        while segment.0[0].transmit().is_some() {}
    }
    assert!(segment.0[0].station.packets_in_use() <= neighbor::Limits::default().packets);
    segment.0[0].ping(address(2));
    segment.deliver_all();
    assert!(segment.0[0].station.take_echo_reply().is_some());
}

#[test]
fn a_gratuitous_claim_of_a_reachable_neighbors_address_is_ignored() {
    let mut segment = Segment(vec![Host::with_fixed_address(1), Host::with_fixed_address(2)]);
    segment.run_seconds(10);
    segment.0[0].ping(address(2));
    segment.deliver_all();
    let claim = ArpPacket {
        operation: Operation::Request,
        sender_mac: mac(9),
        sender: address(2),
        target_mac: MacAddress::UNSPECIFIED,
        target: address(2),
    };
    let destination = MacAddress::BROADCAST;
    let header = ethernet::Header { destination, source: mac(9), ether_type: EtherType::Arp };
    segment.0[0].receive(&[&header.emit()[..], &claim.emit()].concat());
    segment.run_seconds(10);
    assert_eq!(segment.0[0].ethernet().cache().lookup(address(2).into()), Some(mac(2)));
}

#[test]
fn stations_without_any_configuration_ping_each_other_over_ipv6() {
    let host =
        |number| Host::new(number, Ipv4::Off, Ipv6::LinkLocal, Opening::Passive { port: PORT });
    let mut segment = Segment(vec![host(1), host(2)]);
    segment.run_seconds(5);
    let theirs = segment.0[1].link_local();
    segment.0[0].ping(theirs);
    segment.deliver_all();
    let reply = segment.0[0].station.take_echo_reply().unwrap();
    assert_eq!(reply.source, IpAddr::from(theirs));
    assert_eq!(segment.0[0].station.packets_in_use(), 0);
}

#[test]
fn a_connection_over_ethernet_and_ipv6_carries_bytes_both_ways() {
    let [ours, theirs] = [1, 2].map(|last| Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, last));
    let fixed = |address| Ipv6::Static { address, prefix_len: 64, router: None };
    let remote = SocketAddr::new(theirs.into(), PORT);
    let opening = Opening::Active { local: ours.into(), remote };
    let mut listener = Host::new(2, Ipv4::Off, fixed(theirs), Opening::Passive { port: PORT });
    listener.application.stream.echoes = true;
    let mut caller = Host::new(1, Ipv4::Off, fixed(ours), opening);
    let sent_data: Vec<u8> = (0..50_000_u32).map(|i| i.to_be_bytes()[3]).collect();
    caller.application.stream.outgoing.clone_from(&sent_data);
    let mut segment = Segment(vec![caller, listener]);
    segment.run_seconds(60);
    assert!(segment.0[0].application.stream.received == sent_data);
}

/// Returns the frame of a router advertisement from `fe80::number`.
fn router_advertisement(number: u8) -> Vec<u8> {
    let router = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, number.into());
    let source_mac = Some(mac(number));
    let sent_data = RouterAdvertisement { lifetime_s: 1800, source_mac, ..Default::default() };
    let mut packet = Packet::with_capacity(100);
    packet.extend(&nd::Message::RouterAdvertisement(sent_data).emit(router, nd::ALL_NODES));
    push_ipv6(&mut packet, router, nd::ALL_NODES);
    let destination = MacAddress::of_group_v6(nd::ALL_NODES);
    packet.push(
        &ethernet::Header { destination, source: mac(number), ether_type: EtherType::Ipv6 }.emit(),
    );
    packet.data().to_vec()
}

#[test]
fn an_unresponsive_router_is_skipped() {
    let address = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);
    let host = Host::new(1, Ipv4::Off, Ipv6::Autoconfigured, Opening::Passive { port: PORT });
    let mut segment = Segment(vec![host]);
    segment.run_seconds(3);
    let host = &mut segment.0[0];
    let known = crate::internet::addresses::Address::permanent(address.into(), 64);
    host.station.layers.internet.add_address(known).unwrap();
    host.receive(&router_advertisement(8));
    host.receive(&router_advertisement(9));
    let remote_address = Ipv6Addr::new(0x2620, 0, 0, 0, 0, 0, 0, 1);
    let first = |frames: &[Vec<u8>]| {
        let to = |frame: &Vec<u8>| ethernet::Header::parse(frame).unwrap().header.destination;
        let pings = frames.iter().filter(|frame| frame.get(20) == Some(&58) && frame[54] == 128);
        pings.map(to).collect::<Vec<_>>()
    };
    host.sent.clear();
    host.ping(remote_address);
    segment.run_seconds(20);
    assert_eq!(first(&segment.0[0].sent), [mac(8)]);
    segment.0[0].sent.clear();
    segment.0[0].ping(remote_address);
    segment.deliver_all();
    assert_eq!(first(&segment.0[0].sent), [mac(9)]);
}
