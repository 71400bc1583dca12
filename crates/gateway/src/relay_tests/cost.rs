//! The cost of an event does not depend on the number of flows. The tests count the examined slots
//! of the tables, and no time.

use super::host_sockets::Remote;
use super::kernel::GUEST;
use super::program::{Ending, Plan};
use super::world::{World, remote_end, settings};
use crate::relay::udp_flows::{self, Marks};
use crate::relay::{Key, echo_flows};
use net::cx::OwnedCx;
use net::internet::ipv4::Protocol;
use net::internet::{self, Datagram};
use net::packet::Packet;
use net::time::Duration;
use net::transport::udp::Relayed;
use std::net::SocketAddr;

/// The largest number of flows at which the cost is compared with that of a few.
const MANY: u16 = 2000;
const FEW: u16 = 10;

fn udp_cost(count: u16) -> u64 {
    let mut context = OwnedCx::with_seed(1);
    let limits = udp_flows::Limits { flows: usize::from(count) * 2, new_per_s: 1_000_000 };
    let mut flows = udp_flows::Flows::new(limits);
    let mut policy = settings().policy;
    let server: SocketAddr = remote_end(1);
    let mut receive = |flows: &mut udp_flows::Flows, port: u16, context: &mut OwnedCx| {
        let source = SocketAddr::new(GUEST.into(), port);
        let packet = Packet::from_slice(b"data");
        let relayed = Relayed { source, destination: server, packet };
        flows.receive(&relayed, Marks::default(), &mut policy, &context.cx());
    };
    (0..count).for_each(|port| receive(&mut flows, 1000 + port, &mut context));
    for number in 0..count {
        let client = remote_end(100 + u32::from(number));
        let guest = SocketAddr::new(GUEST.into(), 80);
        flows.forwarded((1, None), (client, client), guest, &mut context.cx()).unwrap();
    }
    let outgoing: Vec<Key> = flows.statuses().map(|(key, _)| key).take(2).collect();
    let before = flows.examined();
    receive(&mut flows, 1000, &mut context);
    assert!(flows.from_host(outgoing[0], server, 1).is_some());
    flows.sent(outgoing[0]);
    flows.end(outgoing[1]);
    assert!(flows.deadline().is_some());
    flows.timeout(context.now);
    while flows.event().is_some_and(|event| !matches!(event, udp_flows::Event::End { .. })) {}
    // The events of the flows that were added before are not part of the cost.
    flows.examined() - before - u64::from(count)
}

#[test]
fn the_cost_of_a_datagram_does_not_depend_on_the_number_of_flows() {
    assert_eq!(udp_cost(MANY), udp_cost(FEW));
}

fn echo_cost(count: u16) -> u64 {
    let mut context = OwnedCx::with_seed(1);
    let mut flows = echo_flows::Flows::new(count.into(), 1_000_000);
    let mut policy = settings().policy;
    let mut receive = |flows: &mut echo_flows::Flows, identifier: u16, context: &mut OwnedCx| {
        let [i0, i1] = identifier.to_be_bytes();
        let to = internet::Header::to(remote_end(1).ip(), Protocol::Icmp);
        let header = internet::Header { source: GUEST.into(), ..to };
        let packet = Packet::from_slice(&[8, 0, 0, 0, i0, i1, 0, 1]);
        let datagram = Datagram { header, header_len: 20, is_reassembled: false, packet };
        flows.receive(&datagram, &mut policy, &context.cx());
        flows.event()
    };
    let mut key = None;
    for identifier in 0..count {
        let event = receive(&mut flows, identifier, &mut context);
        let Some(echo_flows::Event::Send { flow, .. }) = event else { panic!("{event:?}") };
        key = Some(flow);
    }
    let before = flows.examined();
    receive(&mut flows, 0, &mut context);
    assert!(flows.from_host(key.unwrap(), remote_end(1).ip(), &[0; 8]).is_some());
    assert!(flows.deadline().is_some());
    flows.timeout(context.now);
    flows.examined() - before
}

#[test]
fn the_cost_of_an_echo_request_does_not_depend_on_the_number_of_flows() {
    assert_eq!(echo_cost(MANY), echo_cost(FEW));
}

fn tcp_cost(count: u16) -> u64 {
    let mut world = World::new(1);
    let stay = Plan { ending: Ending::Stay, ..Plan::sends(10) };
    for number in 0..count {
        world.open(remote_end(number.into()), stay, Remote::accepts(stay));
        world.run_for(Duration::from_millis(3));
    }
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.guest.tcp().len(), usize::from(count));
    let before = world.guest.tcp().examined();
    world.open(remote_end(60_000), Plan::sends(3000), Remote::accepts(Plan::sends(3000)));
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.guest.tcp().len(), usize::from(count));
    world.guest.tcp().examined() - before
}

#[test]
fn the_cost_of_a_flow_does_not_depend_on_the_number_of_other_flows() {
    assert_eq!(tcp_cost(MANY), tcp_cost(FEW));
}
