//! UDP flows: the behaviours of RFC 4787, forwarded flows, gathering and limits.

use super::kernel::{GUEST, GUEST_V6, Kernel};
use super::world::{GATEWAY, World, settings};
use crate::relay::udp_flows::{Counters, Event, Limits, Marks};
use crate::relay::{Key, udp_flows};
use crate::{Event as GuestEvent, Settings};
use net::internet::{self, ipv4::Protocol};
use net::packet::Packet;
use net::time::Duration;
use net::transport::udp::{Relayed, SocketId};
use std::net::SocketAddr;
use std::task::Poll;

const SECOND: Duration = Duration::from_secs(1);

fn end(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn bind(world: &mut World, port: u16) -> SocketId {
    let Kernel { station, context, .. } = &mut world.kernel;
    station.layers.udp.bind(port, &mut context.cx()).unwrap()
}

/// Sends a datagram of the guest, and passes it to the gateway.
fn send(world: &mut World, socket: SocketId, data: &[u8], to: SocketAddr) {
    let Kernel { station, context, .. } = &mut world.kernel;
    let sent = station.layers.send_to(socket, data, to, &mut context.cx());
    assert_eq!(sent, Poll::Ready(Ok(())));
    world.settle();
    world.run_for(Duration::from_millis(1));
}

/// Returns the next UDP event.
fn event(world: &mut World) -> Option<Event> {
    let mut events = world.host.other_events.drain(..);
    let GuestEvent::Udp(event) = events.next()? else { panic!("an event of UDP") };
    let rest: Vec<_> = events.collect();
    world.host.other_events = rest;
    Some(event)
}

/// Returns the flow of the next event, which must request a socket.
fn bound(world: &mut World) -> Key {
    let Some(Event::Bind { flow, .. }) = event(world) else { panic!("an event of a new flow") };
    flow
}

/// Takes the datagrams that wait for the socket of a flow.
fn take(world: &mut World, flow: Key) -> Vec<(SocketAddr, Vec<u8>, u16)> {
    world.host.other_events.clear();
    let udp = world.guest.udp_mut();
    std::iter::from_fn(|| {
        let outgoing = udp.to_host(flow)?;
        let taken = (outgoing.destination, outgoing.data.clone(), outgoing.size);
        udp.sent(flow);
        Some(taken)
    })
    .collect()
}

/// Passes datagrams from the socket of a flow to the guest.
fn reply(world: &mut World, flow: Key, source: SocketAddr, data: &[u8], size: u16) -> bool {
    let cx = &mut world.context.cx();
    let is_accepted = world.guest.datagrams_to_guest(flow, source, (data, size), cx);
    world.settle();
    world.run_for(Duration::from_millis(1));
    is_accepted
}

/// Returns what a socket of the guest has received.
fn received(world: &mut World, socket: SocketId) -> Vec<(SocketAddr, Vec<u8>)> {
    let layers = &mut world.kernel.station.layers;
    std::iter::from_fn(|| {
        let (source, packet) = layers.udp.receive_from(socket)?;
        let data = packet.data().to_vec();
        layers.pool.put(packet);
        Some((source, data))
    })
    .collect()
}

/// A guest with a flow from port 5000, which has sent to `to`.
fn with_flow(to: SocketAddr) -> (World, SocketId, Key) {
    let mut world = World::new(1);
    let socket = bind(&mut world, 5000);
    send(&mut world, socket, b"query", to);
    let flow = bound(&mut world);
    (world, socket, flow)
}

#[test]
fn a_query_is_answered_from_the_address_that_the_guest_has_used() {
    let server = end("192.0.2.1:53");
    let (mut world, socket, flow) = with_flow(server);
    assert_eq!(take(&mut world, flow), [(server, b"query".to_vec(), 5)]);
    assert!(reply(&mut world, flow, server, b"answer", 6));
    assert_eq!(received(&mut world, socket), [(server, b"answer".to_vec())]);
    let counters =
        Counters { outgoing: 1, bytes_to_host: 5, bytes_to_guest: 6, ..Counters::default() };
    assert_eq!(world.guest.udp().counters(), counters);
}

#[test]
fn an_ipv6_query_is_answered() {
    let server = end("[2001:db8::1]:53");
    let (mut world, socket, flow) = with_flow(server);
    assert_eq!(take(&mut world, flow), [(server, b"query".to_vec(), 5)]);
    assert!(reply(&mut world, flow, server, b"answer", 6));
    assert_eq!(received(&mut world, socket), [(server, b"answer".to_vec())]);
    assert_eq!(world.guest.udp().statuses().next().unwrap().1.guest, (GUEST_V6, 5000).into());
}

/// RFC 4787 REQ-1.
#[test]
fn all_destinations_of_a_port_share_one_socket() {
    let (mut world, socket, flow) = with_flow(end("192.0.2.1:53"));
    for to in ["192.0.2.1:54", "192.0.2.2:53", "198.51.100.9:9"] {
        send(&mut world, socket, b"x", end(to));
    }
    assert_eq!(world.guest.udp().len(), 1);
    assert_eq!(take(&mut world, flow).len(), 4);
    let other = bind(&mut world, 5001);
    send(&mut world, other, b"x", end("192.0.2.1:53"));
    assert_eq!(world.guest.udp().len(), 2);
}

#[test]
fn a_port_has_one_socket_for_each_address_family() {
    let (mut world, socket, _) = with_flow(end("192.0.2.1:53"));
    world.host.other_events.clear();
    send(&mut world, socket, b"x", end("[2001:db8::1]:53"));
    assert!(matches!(event(&mut world), Some(Event::Bind { is_v4: false, .. })));
}

/// RFC 4787 REQ-8 with address and port-dependent filtering.
#[test]
fn only_ends_to_which_the_guest_has_sent_reach_it() {
    let (mut world, socket, flow) = with_flow(end("192.0.2.1:53"));
    for source in ["192.0.2.1:54", "192.0.2.2:53"] {
        assert!(reply(&mut world, flow, end(source), b"forged", 6));
    }
    assert_eq!(received(&mut world, socket), []);
    assert_eq!(world.guest.udp().counters().filtered, 2);
    assert_eq!(world.guest.udp().counters().bytes_to_guest, 0);
}

/// RFC 4787 REQ-5 and REQ-6.
#[test]
fn a_flow_lives_five_minutes_after_the_last_datagram_of_the_guest() {
    let server = end("192.0.2.1:9");
    let (mut world, socket, flow) = with_flow(server);
    world.run_for(200 * SECOND);
    send(&mut world, socket, b"again", server);
    world.run_for(299 * SECOND);
    assert_eq!(world.guest.udp().len(), 1);
    // Datagrams of the remote host do not extend the life of the flow.
    assert!(reply(&mut world, flow, server, b"late", 4));
    world.host.other_events.clear();
    world.run_for(12 * SECOND);
    assert_eq!(event(&mut world), Some(Event::End { flow }));
    assert_eq!(world.guest.deadline(), None);
    received(&mut world, socket);
    world.assert_nothing_is_left();
}

#[test]
fn a_flow_for_name_lookups_lives_ten_seconds() {
    let (mut world, _, flow) = with_flow(end("192.0.2.1:53"));
    world.host.other_events.clear();
    world.run_for(9 * SECOND);
    assert_eq!(event(&mut world), None);
    world.run_for(12 * SECOND);
    assert_eq!(event(&mut world), Some(Event::End { flow }));
}

#[test]
fn a_flow_that_was_also_used_for_something_else_is_not_short_lived() {
    let (mut world, socket, _) = with_flow(end("192.0.2.1:53"));
    send(&mut world, socket, b"x", end("192.0.2.1:123"));
    send(&mut world, socket, b"x", end("192.0.2.1:53"));
    world.run_for(100 * SECOND);
    assert_eq!(world.guest.udp().len(), 1);
}

#[test]
fn a_port_that_is_used_again_after_its_flow_has_ended_gets_a_new_key() {
    let (mut world, socket, flow) = with_flow(end("192.0.2.1:53"));
    world.run_for(30 * SECOND);
    world.host.other_events.clear();
    send(&mut world, socket, b"x", end("192.0.2.1:53"));
    let other = bound(&mut world);
    assert_eq!((flow.index(), flow == other), (other.index(), false));
    // The old key changes nothing.
    assert!(reply(&mut world, flow, end("192.0.2.1:53"), b"old", 3));
    world.guest.udp_mut().sent(flow);
    world.guest.udp_mut().end(flow);
    assert_eq!(received(&mut world, socket), []);
    assert_eq!(take(&mut world, other).len(), 1);
}

#[test]
fn an_empty_datagram_is_relayed_in_both_directions() {
    let server = end("192.0.2.1:37");
    let (mut world, socket, flow) = with_flow(server);
    send(&mut world, socket, b"", server);
    send(&mut world, socket, b"", server);
    let sent = [b"query".to_vec(), Vec::new(), Vec::new()];
    assert_eq!(take(&mut world, flow).into_iter().map(|taken| taken.1).collect::<Vec<_>>(), sent);
    assert!(reply(&mut world, flow, server, b"", 0));
    assert_eq!(received(&mut world, socket), [(server, Vec::new())]);
}

#[test]
fn datagrams_of_one_size_are_gathered_and_a_shorter_one_is_the_last() {
    let server = end("192.0.2.1:9");
    let (mut world, socket, flow) = with_flow(server);
    take(&mut world, flow);
    for len in [100, 100, 50, 100, 200] {
        send(&mut world, socket, &vec![7; len], server);
    }
    let sizes: Vec<_> =
        take(&mut world, flow).into_iter().map(|(_, data, size)| (data.len(), size)).collect();
    assert_eq!(sizes, [(250, 100), (100, 100), (200, 200)]);
}

#[test]
fn datagrams_for_different_ends_are_not_gathered() {
    let (mut world, socket, flow) = with_flow(end("192.0.2.1:9"));
    send(&mut world, socket, b"query", end("192.0.2.2:9"));
    send(&mut world, socket, b"query", end("192.0.2.1:9"));
    assert_eq!(take(&mut world, flow).len(), 3);
}

#[test]
fn at_most_256_datagrams_are_gathered() {
    let server = end("192.0.2.1:9");
    let (mut world, socket, flow) = with_flow(server);
    take(&mut world, flow);
    for _ in 0..300 {
        send(&mut world, socket, &[1; 10], server);
    }
    let lens: Vec<_> = take(&mut world, flow).into_iter().map(|taken| taken.1.len()).collect();
    assert_eq!(lens, [2560, 440]);
}

/// Passes datagrams of `size` bytes in one packet to the flows, as a device with segmentation
/// offload does.
fn receive_super(world: &mut World, to: SocketAddr, len: usize, size: u16) {
    let mut packet = Packet::from_slice(&vec![9; len]);
    packet.offload.segment_size = size;
    let relayed = Relayed { source: (GUEST, 5000).into(), destination: to, packet };
    let mut policy = settings().policy;
    assert!(world.guest.udp_mut().receive(
        &relayed,
        Marks::default(),
        &mut policy,
        &world.context.cx()
    ));
}

#[test]
fn the_datagrams_of_a_super_datagram_of_another_size_stay_apart() {
    let server = end("192.0.2.1:9");
    let (mut world, _, flow) = with_flow(server);
    take(&mut world, flow);
    receive_super(&mut world, server, 2000, 1000);
    receive_super(&mut world, server, 250, 100);
    receive_super(&mut world, server, 1000, 0);
    receive_super(&mut world, server, 3000, 1000);
    receive_super(&mut world, server, 400, 0);
    let sizes: Vec<_> =
        take(&mut world, flow).into_iter().map(|(_, data, size)| (data.len(), size)).collect();
    assert_eq!(sizes, [(2000, 1000), (250, 100), (4400, 1000)]);
}

#[test]
fn super_datagrams_of_the_socket_reach_the_guest_as_datagrams() {
    let server = end("192.0.2.1:9");
    let (mut world, socket, flow) = with_flow(server);
    let data: Vec<u8> = (0..250).collect();
    assert!(reply(&mut world, flow, server, &data, 100));
    let lens: Vec<_> = received(&mut world, socket).into_iter().map(|(_, data)| data).collect();
    assert_eq!(lens, [&data[..100], &data[100..200], &data[200..]]);
}

#[test]
fn a_datagram_longer_than_the_mtu_reaches_the_guest_in_fragments() {
    let server = end("192.0.2.1:9");
    let (mut world, socket, flow) = with_flow(server);
    let data = vec![3; 4000];
    assert!(reply(&mut world, flow, server, &data, 4000));
    assert_eq!(received(&mut world, socket), [(server, data)]);
    assert_eq!(world.guest.packets_in_use(), 0);
}

#[test]
fn the_queue_of_a_flow_is_limited_even_for_empty_datagrams() {
    for len in [0, 1, 1000] {
        let server = end("192.0.2.1:9");
        let (mut world, _, flow) = with_flow(server);
        for number in 0..20_000 {
            // Alternating ends prevent gathering.
            let to = SocketAddr::new(server.ip(), 9 + number % 2);
            receive_super(&mut world, to, len, 0);
        }
        let status = world.guest.udp().statuses().next().unwrap().1;
        assert!(status.queued_bytes <= 1 << 20, "{status:?}");
        let queued = take(&mut world, flow);
        assert!(queued.len() <= 1 << 13, "{} entries", queued.len());
        let count_of = |(_, data, size): &(_, Vec<u8>, u16)| {
            data.len().div_ceil(usize::from(*size).max(1)).max(1) as u64
        };
        let datagrams: u64 = queued.iter().map(count_of).sum();
        assert_eq!(world.guest.udp().counters().queue_full, 20_001 - datagrams);
        let status = world.guest.udp().statuses().next().unwrap().1;
        assert_eq!(status.queued_bytes, 0);
    }
}

#[test]
fn the_end_that_was_not_used_for_the_longest_time_is_replaced() {
    let (mut world, _, flow) = with_flow(end("192.0.2.1:1"));
    let ports = |range: std::ops::RangeInclusive<u16>| {
        range.map(|port| SocketAddr::new(end("192.0.2.1:1").ip(), port))
    };
    for to in ports(2..=256).chain(ports(1..=1)).chain(ports(257..=257)) {
        receive_super(&mut world, to, 1, 0);
    }
    take(&mut world, flow);
    let udp = world.guest.udp_mut();
    let knows = |udp: &mut udp_flows::Flows, port| {
        udp.from_host(flow, SocketAddr::new(end("192.0.2.1:1").ip(), port), 1).is_some()
    };
    assert_eq!([1, 2, 3, 256, 257].map(|port| knows(udp, port)), [true, false, true, true, true]);
}

fn limited(limits: Limits) -> World {
    World::with(1, Settings { udp: limits, ..settings() })
}

#[test]
fn flows_above_the_limit_are_dropped_and_counted() {
    let mut world = limited(Limits { flows: 2, new_per_s: 1000 });
    for port in 5000..5005 {
        let socket = bind(&mut world, port);
        send(&mut world, socket, b"x", end("192.0.2.1:9"));
    }
    let counters = world.guest.udp().counters();
    assert_eq!((counters.outgoing, counters.over_limit), (2, 3));
    let ends = (end("203.0.113.1:1"), end("203.0.113.1:1"));
    assert_eq!(
        world.guest.udp_mut().forwarded(
            (0, None),
            ends,
            (GUEST, 80).into(),
            &mut world.context.cx()
        ),
        None
    );
    assert_eq!(world.guest.udp().counters().over_limit, 4);
}

/// Opens flows of the ports from `first` on, and returns their sockets and keys.
fn open_flows(world: &mut World, first: u16, count: u16) -> Vec<(SocketId, Key)> {
    let ports = first..first + count;
    let flows = ports.map(|port| {
        let socket = bind(world, port);
        world.host.other_events.clear();
        send(world, socket, b"x", end("192.0.2.1:9"));
        (socket, bound(world))
    });
    flows.collect()
}

/// Returns the ports of the guest that have flows.
fn ports_of_flows(world: &World) -> Vec<u16> {
    let mut ports: Vec<u16> =
        world.guest.udp().statuses().map(|(_, status)| status.guest.port()).collect();
    ports.sort_unstable();
    ports
}

/// RFC 4787 REQ-5: no flow ends in the first two minutes after a datagram of the guest.
#[test]
fn the_oldest_flows_with_at_most_one_answer_end_after_two_minutes_if_the_table_is_nearly_full() {
    let mut world = limited(Limits { flows: 8, new_per_s: 1000 });
    let server = end("192.0.2.1:9");
    let flows = open_flows(&mut world, 5000, 8);
    // Port 5000 has two answers, port 5001 one, and port 5002 sends again after a minute.
    for (number, answers) in [(0, 2), (1, 1)] {
        (0..answers).for_each(|_| assert!(reply(&mut world, flows[number].1, server, b"y", 1)));
    }
    world.run_for(60 * SECOND);
    send(&mut world, flows[2].0, b"x", server);
    world.run_for(59 * SECOND);
    let late = bind(&mut world, 6000);
    send(&mut world, late, b"x", server);
    assert_eq!(world.guest.udp().counters().over_limit, 1);
    assert_eq!(ports_of_flows(&world), (5000..5008).collect::<Vec<_>>());
    world.run_for(11 * SECOND);
    // The three oldest ones that are quiet have made space.
    assert_eq!(ports_of_flows(&world), [5000, 5002, 5005, 5006, 5007]);
    send(&mut world, late, b"x", server);
    assert_eq!(ports_of_flows(&world), [5000, 5002, 5005, 5006, 5007, 6000]);
    assert_eq!(world.guest.udp().counters().over_limit, 1);
}

#[test]
fn flows_with_at_most_one_answer_live_five_minutes_if_the_table_has_space() {
    let mut world = limited(Limits { flows: 8, new_per_s: 1000 });
    open_flows(&mut world, 5000, 5);
    world.run_for(299 * SECOND);
    assert_eq!(world.guest.udp().len(), 5);
}

#[test]
fn flows_above_the_rate_are_dropped_and_counted() {
    let mut world = limited(Limits { flows: 100, new_per_s: 2 });
    for port in 5000..5010 {
        let socket = bind(&mut world, port);
        send(&mut world, socket, b"x", end("192.0.2.1:9"));
    }
    let counters = world.guest.udp().counters();
    assert_eq!((counters.outgoing, counters.over_rate), (4, 6));
    world.run_for(SECOND);
    let socket = bind(&mut world, 6000);
    send(&mut world, socket, b"x", end("192.0.2.1:9"));
    assert_eq!(world.guest.udp().counters().outgoing, 5);
}

/// Adds a forwarded flow of `client`.
fn forwarded(world: &mut World, client: SocketAddr) -> Option<Key> {
    forwarded_at(world, None, client)
}

/// Adds a forwarded flow of `client` to the address `local` of the host.
fn forwarded_at(world: &mut World, local: Option<&str>, client: SocketAddr) -> Option<Key> {
    let local = local.map(|local| local.parse().unwrap());
    let guest = (GUEST, 80).into();
    let cx = &mut world.context.cx();
    world.guest.udp_mut().forwarded((7, local), (client, client), guest, cx)
}

#[test]
fn a_forwarded_flow_carries_both_directions_by_the_socket_of_the_forward() {
    let mut world = World::new(1);
    let socket = bind(&mut world, 80);
    let client = end("203.0.113.1:4000");
    let flow = forwarded(&mut world, client).unwrap();
    assert_eq!(forwarded(&mut world, client), Some(flow));
    assert_eq!(world.guest.udp().forward(flow), Some(7));
    assert!(reply(&mut world, flow, client, b"request", 7));
    assert_eq!(received(&mut world, socket), [(client, b"request".to_vec())]);
    send(&mut world, socket, b"response", client);
    assert_eq!(event(&mut world), Some(Event::Progress { flow }));
    assert_eq!(take(&mut world, flow), [(client, b"response".to_vec(), 8)]);
    // Other destinations of the port have a socket of their own.
    send(&mut world, socket, b"other", end("203.0.113.2:4000"));
    assert_ne!(bound(&mut world), flow);
    let counters = world.guest.udp().counters();
    assert_eq!((counters.incoming, counters.outgoing), (1, 1));
}

#[test]
fn a_client_of_a_forward_is_seen_under_the_source_that_the_driver_chooses() {
    let mut world = World::new(1);
    let socket = bind(&mut world, 80);
    let client = end("127.0.0.1:4000");
    let seen = SocketAddr::new(GATEWAY.into(), 4000);
    let udp = world.guest.udp_mut();
    let flow = udp
        .forwarded((7, None), (client, seen), (GUEST, 80).into(), &mut world.context.cx())
        .unwrap();
    assert!(reply(&mut world, flow, client, b"request", 7));
    assert_eq!(received(&mut world, socket), [(seen, b"request".to_vec())]);
    send(&mut world, socket, b"response", seen);
    assert_eq!(take(&mut world, flow), [(client, b"response".to_vec(), 8)]);
}

#[test]
fn a_client_of_two_forwards_to_one_port_has_two_flows() {
    let mut world = World::new(1);
    let socket = bind(&mut world, 80);
    let client = end("203.0.113.1:4000");
    let first = forwarded(&mut world, client).unwrap();
    let guest = (GUEST, 80).into();
    let udp = world.guest.udp_mut();
    let second =
        udp.forwarded((8, None), (client, client), guest, &mut world.context.cx()).unwrap();
    assert_ne!(first, second);
    assert!(reply(&mut world, second, client, b"request", 7));
    let [(source, request)] = &received(&mut world, socket)[..] else { panic!("one datagram") };
    assert_eq!((source.ip(), request.as_slice()), (client.ip(), &b"request"[..]));
    assert_ne!(*source, client);
    send(&mut world, socket, b"response", *source);
    assert_eq!(take(&mut world, second), [(client, b"response".to_vec(), 8)]);
    assert_eq!(world.guest.udp().forward(second), Some(8));
    // The ends of both flows are free again when they have ended.
    world.guest.udp_mut().end(first);
    world.guest.udp_mut().end(second);
    assert!(forwarded(&mut world, client).is_some());
}

#[test]
fn a_client_of_two_addresses_of_the_host_has_two_flows_with_these_sources() {
    let mut world = World::new(1);
    let socket = bind(&mut world, 80);
    let client = end("203.0.113.1:4000");
    for locals in [["192.0.2.10", "192.0.2.12"], ["2001:db8::10", "ffff::"]] {
        let flows = locals.map(|local| forwarded_at(&mut world, Some(local), client).unwrap());
        assert_ne!(flows[0], flows[1]);
        for (flow, local) in flows.into_iter().zip(locals) {
            assert_eq!(forwarded_at(&mut world, Some(local), client), Some(flow));
            assert_eq!(world.guest.udp().local_address(flow), Some(local.parse().unwrap()));
            assert_eq!(world.guest.udp().flow_of_client(7, client), Some(flow));
            assert!(reply(&mut world, flow, client, b"request", 7));
            let (source, _) = received(&mut world, socket)[0];
            send(&mut world, socket, b"response", source);
            assert_eq!(take(&mut world, flow), [(client, b"response".to_vec(), 8)]);
            world.guest.udp_mut().end(flow);
        }
        assert_eq!(world.guest.udp().flow_of_client(7, client), None);
    }
    // The other addresses and ports have no flow.
    forwarded(&mut world, client).unwrap();
    assert_eq!(world.guest.udp().flow_of_client(7, end("203.0.113.1:4001")), None);
    assert_eq!(world.guest.udp().flow_of_client(8, client), None);
}

#[test]
fn a_forwarded_flow_that_the_guest_does_not_answer_ends_after_ten_seconds() {
    let mut world = World::new(1);
    let socket = bind(&mut world, 80);
    let answered = forwarded(&mut world, end("203.0.113.1:4000")).unwrap();
    let silent = forwarded(&mut world, end("203.0.113.2:4000")).unwrap();
    send(&mut world, socket, b"response", end("203.0.113.1:4000"));
    world.host.other_events.clear();
    world.run_for(21 * SECOND);
    assert_eq!(event(&mut world), Some(Event::End { flow: silent }));
    assert_eq!(event(&mut world), None);
    world.run_for(310 * SECOND);
    assert_eq!(event(&mut world), Some(Event::End { flow: answered }));
    world.assert_nothing_is_left();
}

#[test]
fn a_forward_to_an_address_of_the_gateway_delivers_nothing() {
    let mut world = World::new(1);
    let client = end("203.0.113.1:4000");
    let own = SocketAddr::new(GATEWAY.into(), 53);
    let flow = world
        .guest
        .udp_mut()
        .forwarded((0, None), (client, client), own, &mut world.context.cx())
        .unwrap();
    assert!(reply(&mut world, flow, client, b"request", 7));
    assert_eq!((world.guest.packets_in_use(), world.guest.udp().len()), (0, 1));
}

#[test]
fn clients_of_a_forward_leave_half_of_the_flows_and_the_rate_to_the_guest() {
    let mut world = limited(Limits { flows: 8, new_per_s: 3 });
    let accepted: Vec<bool> = (0..20)
        .map(|port| forwarded(&mut world, SocketAddr::new(end("203.0.113.1:1").ip(), port)))
        .map(|flow| flow.is_some())
        .collect();
    assert_eq!(accepted.iter().filter(|is_accepted| **is_accepted).count(), 4);
    assert_eq!(world.guest.udp().counters().over_limit, 16);
    for port in 5000..5004 {
        let socket = bind(&mut world, port);
        send(&mut world, socket, b"x", end("192.0.2.1:9"));
    }
    assert_eq!(world.guest.udp().counters().outgoing, 4);
}

#[test]
fn new_forwarded_flows_have_a_rate() {
    let mut world = limited(Limits { flows: 100, new_per_s: 3 });
    let clients = (1..20).map(|port| SocketAddr::new(end("203.0.113.1:1").ip(), port));
    let count = clients.filter(|client| forwarded(&mut world, *client).is_some()).count();
    assert_eq!((count, world.guest.udp().counters().over_rate), (6, 13));
}

#[test]
fn a_damaged_datagram_is_dropped() {
    let mut world = World::new(1);
    let header = internet::Header::to(GATEWAY.into(), Protocol::Udp);
    let Kernel { station, context, .. } = &mut world.kernel;
    let data = [0x13, 0x88, 0, 9, 0, 9, 0x12, 0x34, 1];
    assert_eq!(station.layers.send_raw(header, &data, &mut context.cx()), Poll::Ready(Ok(())));
    world.settle();
    world.run_for(SECOND);
    assert_eq!(world.context.counted(net::meter::Counter::UdpErrors), 1);
    world.assert_nothing_is_left();
}

#[test]
fn the_flows_of_a_guest_that_is_gone_end_at_once_and_pass_no_answer() {
    let server = end("192.0.2.1:7");
    let (mut world, socket, flow) = with_flow(server);
    let forwarded = forwarded(&mut world, end("198.51.100.9:4000")).unwrap();
    take(&mut world, flow);
    world.guest.end_flows(&mut world.context.cx());
    world.settle();
    let ended: Vec<_> = std::iter::from_fn(|| event(&mut world)).collect();
    assert_eq!(ended, [flow, forwarded].map(|flow| Event::End { flow }));
    assert!(world.guest.udp().is_empty());
    reply(&mut world, flow, server, b"late", 4);
    assert_eq!(received(&mut world, socket), []);
    // The next guest may use the same port.
    send(&mut world, socket, b"query", server);
    assert_ne!(bound(&mut world), flow);
}
