//! Failures of the host's sockets, as the guest receives them, and DNS over TCP.

use super::host_sockets::{Answer, Remote};
use super::kernel::{GUEST, GUEST_V6, Kernel, stream_of};
use super::program::Plan;
use super::world::{GATEWAY, GATEWAY_V6, World, remote_end, settings};
use crate::relay::Key;
use crate::relay::host_errors::{self, Counters, FlowError};
use crate::relay::udp_flows::{Event, Marks};
use crate::{ConnectFailure, Event as GuestEvent, Settings, dns};
use net::checksum::Sum;
use net::internet::icmp::{ErrorKind, Message, Unreachable};
use net::internet::{icmpv6, ipv4, ipv6};
use net::packet::Packet;
use net::time::Duration;
use net::transport::tcp::CloseReason;
use net::transport::udp::Relayed;
use std::net::{IpAddr, SocketAddr};

/// Destination of ICMP errors of a router.
const ROUTER: &str = "198.51.100.1";

fn end(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Sends a datagram of port 5000 of the guest to `to`, and returns its flow.
fn with_flow(to: SocketAddr) -> (World, Key) {
    with_flow_of(to, 4)
}

/// Sends a datagram with `len` bytes of data.
fn with_flow_of(to: SocketAddr, len: usize) -> (World, Key) {
    let mut world = World::new(1);
    let Kernel { station, context, .. } = &mut world.kernel;
    let socket = station.layers.udp.bind(5000, &mut context.cx()).unwrap();
    let sent = station.layers.send_to(socket, &vec![0; len], to, &mut context.cx());
    assert!(sent.is_ready());
    world.settle();
    world.run_for(Duration::from_millis(1));
    let flow = world.host.other_events.iter().find_map(|event| match event {
        GuestEvent::Udp(Event::Bind { flow, .. }) => Some(*flow),
        _ => None,
    });
    (world, flow.unwrap())
}

/// Returns the next datagram for the guest.
fn transmitted(world: &mut World) -> Option<Vec<u8>> {
    let mut sent = None;
    let mut device = |frame: net::station::Frame<'_>, _: &mut net::Cx<'_>| {
        sent.get_or_insert(frame.packet.data().to_vec());
        true
    };
    world.guest.transmit_to(&mut device, &mut world.context.cx());
    sent
}

/// Returns the source of an ICMP error, its kind, the source and destination of the quoted datagram
/// and the first bytes after its header.
fn parse_v4(datagram: &[u8]) -> (IpAddr, ErrorKind, [IpAddr; 2], [u8; 8]) {
    let parsed = ipv4::Header::parse(datagram).unwrap();
    let message = Message::parse(&datagram[parsed.header_len..]).unwrap();
    let Message::Error { kind, quoted, first_bytes } = message else { panic!("{message:?}") };
    let ends = [quoted.header.source.into(), quoted.header.destination.into()];
    assert_eq!(parsed.header.destination, GUEST);
    (parsed.header.source.into(), kind, ends, first_bytes)
}

fn udp_ends(source: u16, destination: u16, len: u16) -> [u8; 8] {
    let [s, d, l] = [source, destination, len].map(u16::to_be_bytes);
    [s[0], s[1], d[0], d[1], l[0], l[1], 0, 0]
}

fn fail(world: &mut World, flow: Key, to: SocketAddr, kind: ErrorKind, reporter: Option<IpAddr>) {
    let error = FlowError { to, kind, reporter, payload: b"data" };
    world.guest.datagram_failed(flow, &error, &mut world.context.cx());
}

#[test]
fn an_error_of_a_router_reaches_the_guest_with_a_quotation_of_its_datagram() {
    let server = end("192.0.2.1:33434");
    let (mut world, flow) = with_flow(server);
    let router: IpAddr = ROUTER.parse().unwrap();
    fail(&mut world, flow, server, ErrorKind::TimeExceeded, Some(router));
    let (source, kind, ends, first) = parse_v4(&transmitted(&mut world).unwrap());
    assert_eq!((source, kind), (router, ErrorKind::TimeExceeded));
    assert_eq!((ends, first), ([GUEST.into(), server.ip()], udp_ends(5000, 33434, 12)));
    assert_eq!(world.guest.error_counters(), Counters { sent: 1, over_rate: 0 });
}

#[test]
fn an_error_without_a_router_comes_from_the_gateway() {
    let server = end("192.0.2.1:9");
    let (mut world, flow) = with_flow(server);
    let kind = ErrorKind::FragmentationNeeded { next_hop_mtu: Some(1400) };
    for reporter in [None, Some("127.0.0.1".parse().unwrap())] {
        fail(&mut world, flow, server, kind, reporter);
        let (source, seen, ..) = parse_v4(&transmitted(&mut world).unwrap());
        assert_eq!((source, seen), (GATEWAY.into(), kind));
    }
}

/// Linux reports the path MTU that it knows itself to an unconnected IPv4 socket with port 0.
#[test]
fn an_error_without_a_port_is_about_the_last_datagram_to_its_address() {
    let server = end("192.0.2.1:9");
    let (mut world, flow) = with_flow(server);
    let packet = Packet::from_slice(b"data");
    let destination = end("192.0.2.1:10");
    let relayed = Relayed { source: (GUEST, 5000).into(), destination, packet };
    let policy = &mut settings().policy;
    let cx = &world.context.cx();
    assert!(world.guest.udp_mut().receive(&relayed, Marks::default(), policy, cx));
    let without_port = SocketAddr::new(server.ip(), 0);
    let kind = ErrorKind::FragmentationNeeded { next_hop_mtu: Some(1300) };
    fail(&mut world, flow, without_port, kind, None);
    let (source, seen, ends, first) = parse_v4(&transmitted(&mut world).unwrap());
    assert_eq!((source, seen), (GATEWAY.into(), kind));
    assert_eq!((ends, first), ([GUEST.into(), server.ip()], udp_ends(5000, 10, 12)));
    fail(&mut world, flow, end("192.0.2.2:0"), kind, None);
    assert_eq!(transmitted(&mut world), None);
    fail(&mut world, flow, end("192.0.2.1:11"), kind, None);
    assert_eq!(transmitted(&mut world), None);
}

#[test]
fn an_error_about_a_destination_of_another_flow_is_ignored() {
    let (mut world, flow) = with_flow(end("192.0.2.1:9"));
    let port = ErrorKind::Unreachable(Unreachable::Port);
    fail(&mut world, flow, end("192.0.2.2:9"), port, None);
    assert_eq!(transmitted(&mut world), None);
}

#[test]
fn errors_beyond_the_limit_per_second_are_counted() {
    let server = end("192.0.2.1:9");
    let (mut world, flow) = with_flow(server);
    let port = ErrorKind::Unreachable(Unreachable::Port);
    for _ in 0..300 {
        fail(&mut world, flow, server, port, Some(server.ip()));
        transmitted(&mut world);
    }
    assert_eq!(world.guest.error_counters(), Counters { sent: 200, over_rate: 100 });
}

#[test]
fn an_ipv6_guest_receives_the_error_of_icmpv6() {
    let server = end("[2001:db8::1]:9");
    let (mut world, flow) = with_flow(server);
    let kind = ErrorKind::FragmentationNeeded { next_hop_mtu: Some(1300) };
    fail(&mut world, flow, server, kind, None);
    let datagram = transmitted(&mut world).unwrap();
    let parsed = ipv6::Header::parse(&datagram).unwrap();
    assert_eq!((parsed.header.source, parsed.header.destination), (GATEWAY_V6, GUEST_V6));
    let message =
        icmpv6::Message::parse(GATEWAY_V6, GUEST_V6, &datagram[ipv6::HEADER_LEN..]).unwrap();
    let icmpv6::Message::Error { kind: seen, .. } = message else { panic!("{message:?}") };
    assert_eq!(seen, kind);
}

#[test]
fn a_datagram_that_the_policy_refuses_is_reported_as_prohibited() {
    let (mut world, _) = with_flow(end("192.0.2.1:9"));
    for (to, is_reported) in
        [("10.1.1.1:9", true), ("224.0.0.251:5353", false), ("10.1.1.255:9", false)]
    {
        let Kernel { station, context, .. } = &mut world.kernel;
        let socket = station.layers.udp.bind(0, &mut context.cx()).unwrap();
        _ = station.layers.send_to(socket, b"data", end(to), &mut context.cx());
        for datagram in world.kernel.output() {
            world.receive(&datagram);
        }
        world.guest.run(&mut world.context.cx());
        let error = transmitted(&mut world);
        assert_eq!(error.is_some(), is_reported, "{to}");
        let Some(error) = error else { continue };
        let (source, kind, ends, _) = parse_v4(&error);
        let prohibited = ErrorKind::Unreachable(Unreachable::Prohibited);
        assert_eq!((source, kind), (GATEWAY.into(), prohibited));
        assert_eq!(ends, [GUEST.into(), end(to).ip()]);
    }
}

#[test]
fn a_connection_to_an_unreachable_host_gets_an_icmp_error_about_its_syn() {
    let mut world = World::new(1);
    let never = Remote { answer: Answer::Never, ..Remote::accepts(Plan::sends(0)) };
    world.open(remote_end(1), Plan::sends(0), never);
    let syn = world.kernel.station.layers.tcp.statuses().next().unwrap().local;
    world.run_for(Duration::from_millis(10));
    let (flow, _) = world.guest.tcp_statuses(world.now).next().unwrap();
    let host = ConnectFailure::Unreachable(Unreachable::Host);
    world.guest.connect_failed(flow, host, &mut world.context.cx());
    let (source, kind, ends, first) = parse_v4(&transmitted(&mut world).unwrap());
    assert_eq!((source, kind), (GATEWAY.into(), ErrorKind::Unreachable(Unreachable::Host)));
    assert_eq!(ends, [GUEST.into(), remote_end(1).ip()]);
    assert_eq!(first[..2], syn.port().to_be_bytes());
    assert!(world.guest.tcp().is_empty());
}

#[test]
fn a_datagram_that_the_guest_has_fragmented_may_be_fragmented_by_the_host() {
    for (len, forbids_fragments) in [(1000, true), (3000, false)] {
        let (world, flow) = with_flow_of(end("192.0.2.1:9"), len);
        let marks = world.guest.udp().to_host(flow).unwrap().marks;
        assert_eq!(marks, Marks { hop_limit: 64, forbids_fragments });
        let (world, flow) = with_flow_of(end("[2001:db8::1]:9"), len);
        assert_eq!(
            world.guest.udp().to_host(flow).unwrap().marks.forbids_fragments,
            forbids_fragments
        );
    }
}

/// Sets the flag DF of an IPv4 packet.
fn forbid_fragments(packet: &mut [u8]) {
    packet[6] |= 0x40;
    packet[10..12].fill(0);
    let sum = Sum::default().bytes(&packet[..ipv4::HEADER_LEN]).finish();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The guest's kernel makes fragments that fit the path MTU. The whole datagram fits the MTU of the
/// guest's device.
#[test]
fn a_datagram_below_the_mtu_of_the_guest_that_arrives_in_fragments_may_be_fragmented() {
    for (to, has_df) in [("192.0.2.1:9", false), ("192.0.2.1:9", true), ("[2001:db8::1]:9", false)]
    {
        let mut world = World::new(1);
        world.kernel = Kernel::new(1, 1280);
        let Kernel { station, context, .. } = &mut world.kernel;
        let socket = station.layers.udp.bind(5000, &mut context.cx()).unwrap();
        let sent = station.layers.send_to(socket, &[0; 1300], end(to), &mut context.cx());
        assert!(sent.is_ready());
        let mut fragments = world.kernel.output();
        assert_eq!(fragments.len(), 2);
        if has_df {
            fragments.iter_mut().for_each(|fragment| forbid_fragments(fragment));
        }
        fragments.iter().for_each(|fragment| world.receive(fragment));
        let (flow, _) = world.guest.udp().statuses().next().unwrap();
        let outgoing = world.guest.udp().to_host(flow).unwrap();
        assert_eq!((outgoing.data.len(), outgoing.marks.forbids_fragments), (1300, false), "{to}");
    }
}

#[test]
fn dns_over_tcp_is_relayed_to_the_first_resolver_that_accepts() {
    let resolvers = vec![end("127.0.0.1:53"), end("127.0.0.2:53")];
    let dns_address = end("10.0.2.3:53");
    let mut world = World::with(
        1,
        Settings {
            dns_addresses: vec![dns_address.ip()],
            dns: dns::Settings { resolvers: resolvers.clone(), ..dns::Settings::default() },
            ..settings()
        },
    );
    // The programs of both ends check data by the address, which differs here.
    let query = Plan::sends(0);
    let refuses = Remote { answer: Answer::Refuses, ..Remote::accepts(query) };
    world.host.remotes.insert(resolvers[0], refuses);
    world.host.remotes.insert(resolvers[1], Remote::accepts(query));
    world.kernel.open(0, dns_address, query);
    world.settle();
    world.run_for(Duration::from_secs(300));
    assert_eq!(world.host.connects, 2);
    let result = &world.kernel.results[&stream_of(dns_address)];
    assert!(result.program.has_peer_finished);
    assert_eq!(result.reason, Some(CloseReason::Closed));
    assert!(world.guest.tcp().is_empty());
}

#[test]
fn every_icmp_error_is_converted() {
    let v4 = |t, c| host_errors::kind_of_icmp(t, c, 1400);
    let v6 = |t, c| host_errors::kind_of_icmpv6(t, c, 1400);
    let too_big = ErrorKind::FragmentationNeeded { next_hop_mtu: Some(1400) };
    let unreachable = |reason| Some(ErrorKind::Unreachable(reason));
    assert_eq!([v4(3, 4), v6(2, 0)], [Some(too_big); 2]);
    assert_eq!([v4(3, 3), v6(1, 4)], [unreachable(Unreachable::Port); 2]);
    assert_eq!([v4(3, 1), v6(1, 3)], [unreachable(Unreachable::Host); 2]);
    assert_eq!([v4(3, 0), v6(1, 0)], [unreachable(Unreachable::Network); 2]);
    assert_eq!([v4(3, 13), v6(1, 1)], [unreachable(Unreachable::Prohibited); 2]);
    assert_eq!([v4(11, 0), v6(3, 0)], [Some(ErrorKind::TimeExceeded); 2]);
    assert_eq!([v4(8, 0), v6(128, 0)], [None; 2]);
}
