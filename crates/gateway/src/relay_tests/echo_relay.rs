//! Echo flows: identifier, address and checksum of replies, lifetime and limits.

use super::kernel::{GUEST, GUEST_V6, Kernel};
use super::world::World;
use crate::Event as GuestEvent;
use crate::relay::Key;
use crate::relay::echo_flows::{Counters, Event};
use net::internet::icmp::EchoReply;
use net::meter::Counter;
use net::time::Duration;
use std::net::IpAddr;
use std::task::Poll;

const SECOND: Duration = Duration::from_secs(1);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Sends an echo request of the guest with 8 bytes of data.
fn ping(world: &mut World, to: IpAddr, identifier: u16, sequence: u16) {
    ping_with(world, to, (identifier, sequence), 8);
}

fn ping_with(world: &mut World, to: IpAddr, numbers: (u16, u16), len: u16) {
    let Kernel { station, context, .. } = &mut world.kernel;
    let sent = station.layers.ping(to, numbers, len, &mut context.cx());
    assert_eq!(sent, Poll::Ready(Ok(())));
    world.settle();
    world.run_for(Duration::from_millis(1));
}

fn events(world: &mut World) -> Vec<Event> {
    let events = world.host.other_events.drain(..);
    let echo = events.map(|event| match event {
        GuestEvent::Echo(event) => event,
        other => panic!("not an event of an echo flow: {other:?}"),
    });
    echo.collect()
}

/// Returns the flow and the message of the only request.
fn request(world: &mut World, to: IpAddr) -> (Key, Vec<u8>) {
    match &events(world)[..] {
        [Event::Send { flow, destination, message, .. }] if *destination == to => {
            (*flow, message.clone())
        }
        other => panic!("{other:?}"),
    }
}

/// Passes a reply with the identifier of a ping socket to the guest.
fn reply(world: &mut World, flow: Key, source: IpAddr, message: &[u8]) -> Option<EchoReply> {
    let mut message = message.to_vec();
    message[0] = if source.is_ipv4() { 0 } else { 129 };
    message[4..6].copy_from_slice(&[0xAB, 0xCD]);
    world.guest.echo_to_guest(flow, source, &message, &mut world.context.cx());
    world.settle();
    world.run_for(Duration::from_millis(1));
    world.kernel.station.take_echo_reply()
}

#[test]
fn a_reply_has_the_identifier_and_the_address_of_the_request() {
    for to in ["192.0.2.1", "2001:db8::1"].map(ip) {
        let mut world = World::new(1);
        ping(&mut world, to, 0x1234, 7);
        let (flow, message) = request(&mut world, to);
        assert_eq!(message[0], if to.is_ipv4() { 8 } else { 128 });
        // The guest's kernel accepts only a reply with a valid checksum.
        let received = reply(&mut world, flow, to, &message).unwrap();
        assert_eq!((received.source, received.identifier, received.sequence), (to, 0x1234, 7));
        let counters = Counters { requests: 1, replies: 1, ..Counters::default() };
        assert_eq!(world.guest.echo().counters(), counters);
        assert_eq!(world.kernel.context.counted(Counter::IcmpErrors), 0);
        world.run_for(200 * SECOND);
        world.assert_nothing_is_left();
    }
}

#[test]
fn each_identifier_has_a_flow_and_its_requests_share_it() {
    let mut world = World::new(1);
    ping(&mut world, ip("192.0.2.1"), 1, 1);
    ping(&mut world, ip("192.0.2.2"), 1, 2);
    ping(&mut world, ip("192.0.2.1"), 2, 1);
    let flows = events(&mut world).into_iter().map(|event| match event {
        Event::Send { flow, .. } => flow,
        Event::End { .. } => panic!("no flow has ended"),
    });
    let flows: Vec<Key> = flows.collect();
    assert!(flows[0] == flows[1] && flows[0] != flows[2], "{flows:?}");
}

#[test]
fn a_reply_of_a_host_that_was_not_asked_is_dropped() {
    let mut world = World::new(1);
    ping(&mut world, ip("192.0.2.1"), 1, 1);
    let (flow, message) = request(&mut world, ip("192.0.2.1"));
    assert_eq!(reply(&mut world, flow, ip("192.0.2.9"), &message), None);
    assert_eq!(world.guest.echo().counters().replies, 0);
}

#[test]
fn a_truncated_reply_is_dropped() {
    let mut world = World::new(1);
    ping(&mut world, ip("192.0.2.1"), 1, 1);
    let (flow, _) = request(&mut world, ip("192.0.2.1"));
    for len in 0..8 {
        world.guest.echo_to_guest(flow, ip("192.0.2.1"), &vec![0; len], &mut world.context.cx());
    }
    world.settle();
    assert_eq!(world.guest.packets_in_use(), 0);
    assert_eq!(world.guest.echo().counters().replies, 0);
}

#[test]
fn requests_and_replies_longer_than_the_mtu_are_fragmented() {
    let mut world = World::new(1);
    ping_with(&mut world, ip("192.0.2.1"), (1, 1), 4992);
    let (flow, message) = request(&mut world, ip("192.0.2.1"));
    let received = reply(&mut world, flow, ip("192.0.2.1"), &message).unwrap();
    assert_eq!(received.payload_len, 4992);
    assert_eq!(world.guest.packets_in_use(), 0);
}

/// RFC 5508 REQ-2: at least 60 s.
#[test]
fn a_flow_lives_sixty_seconds_after_the_last_request() {
    let mut world = World::new(1);
    ping(&mut world, ip("192.0.2.1"), 1, 1);
    let (flow, _) = request(&mut world, ip("192.0.2.1"));
    world.run_for(45 * SECOND);
    ping(&mut world, ip("192.0.2.1"), 1, 2);
    assert_eq!(request(&mut world, ip("192.0.2.1")).0, flow);
    world.run_for(59 * SECOND);
    assert_eq!(events(&mut world), []);
    world.run_for(12 * SECOND);
    assert_eq!(events(&mut world), [Event::End { flow }]);
    world.assert_nothing_is_left();
    // A later request has a new flow.
    ping(&mut world, ip("192.0.2.1"), 1, 3);
    let (other, message) = request(&mut world, ip("192.0.2.1"));
    assert_eq!((other.index(), other == flow), (flow.index(), false));
    assert_eq!(reply(&mut world, flow, ip("192.0.2.1"), &message), None);
}

#[test]
fn requests_above_the_limits_are_dropped_and_counted() {
    let mut world = World::new(1);
    // 100 new flows per second, averaged over two seconds.
    for identifier in 0..300 {
        ping(&mut world, ip("192.0.2.1"), identifier, 1);
        events(&mut world);
    }
    let over_rate = world.guest.echo().counters().over_limit;
    assert!((60..=80).contains(&over_rate), "{over_rate}");
    // 256 flows.
    world.run_for(5 * SECOND);
    for identifier in 300..400 {
        ping(&mut world, ip("192.0.2.1"), identifier, 1);
        events(&mut world);
    }
    assert_eq!(world.guest.echo().counters().requests, 256);
    assert_eq!(world.guest.echo().counters().over_limit, 400 - 256);
}

#[test]
fn requests_that_the_driver_does_not_take_are_limited() {
    let mut world = World::new(1);
    let request = |sequence: u16| {
        let mut kernel = Kernel::new(1, 1500);
        let Kernel { station, context, .. } = &mut kernel;
        let to = (ip("192.0.2.1"), (1, sequence));
        _ = station.layers.ping(to.0, to.1, 8, &mut context.cx());
        kernel.output().remove(0)
    };
    (0..100).for_each(|sequence| world.receive(&request(sequence)));
    assert_eq!(world.guest.echo().counters().requests, 64);
    assert_eq!(world.guest.echo().counters().over_limit, 36);
}

#[test]
fn the_gateway_answers_echo_requests_for_its_own_addresses() {
    for to in [super::world::GATEWAY.into(), super::world::GATEWAY_V6.into()] {
        let mut world = World::new(1);
        ping(&mut world, to, 5, 6);
        world.run_for(SECOND);
        let received = world.kernel.station.take_echo_reply().unwrap();
        assert_eq!((received.source, received.identifier), (to, 5));
        assert_eq!(events(&mut world), []);
        world.assert_nothing_is_left();
    }
}

#[test]
fn the_guest_is_the_destination_of_replies_in_both_families() {
    let mut world = World::new(1);
    for (to, guest) in [(ip("192.0.2.1"), IpAddr::V4(GUEST)), (ip("2001:db8::1"), GUEST_V6.into())]
    {
        ping(&mut world, to, 9, 1);
        let (flow, message) = request(&mut world, to);
        let cx = &mut world.context.cx();
        world.guest.echo_to_guest(flow, to, &message, cx);
        let mut destinations = Vec::new();
        let mut device = |frame: net::station::Frame<'_>, _: &mut net::Cx<'_>| {
            let bytes = frame.packet.data();
            destinations.push(match bytes[0] >> 4 {
                4 => IpAddr::from(<[u8; 4]>::try_from(&bytes[16..20]).unwrap()),
                _ => IpAddr::from(<[u8; 16]>::try_from(&bytes[24..40]).unwrap()),
            });
            true
        };
        world.guest.transmit_to(&mut device, cx);
        assert_eq!(destinations, [guest]);
    }
}

#[test]
fn the_flows_of_a_guest_that_is_gone_end_at_once_and_pass_no_reply() {
    let mut world = World::new(1);
    let to = IpAddr::from([192, 0, 2, 1]);
    ping(&mut world, to, 7, 1);
    let (flow, message) = request(&mut world, to);
    world.guest.end_flows(&mut world.context.cx());
    world.settle();
    assert_eq!(events(&mut world), [Event::End { flow }]);
    assert!(reply(&mut world, flow, to, &message).is_none());
}
