//! Tests with a client, and two stations that form one host; the test itself delivers the packets.

use crate::cx::Cx;
use crate::link::{Datagram, Link};
use crate::meter::{Clock, Counter, Meter};
use crate::rng::Rng;
use crate::station::{Settings, Station, Step};
use crate::time::Instant;
use crate::transport::tcp::{Profile, State};
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddr};

const CALLER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PORT: u16 = 7;

/// An application that does nothing.
struct IdleApplication;

impl crate::station::Application for IdleApplication {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, _layers: &mut crate::station::Layers, _cx: &mut Cx<'_>) {}
}

struct Node {
    station: Station,
    rng: Rng,
    meter: Meter,
}

impl Node {
    fn new(address: Ipv4Addr) -> Self {
        let mut rng = Rng::from_seed(7);
        let mut meter = Meter::new(Clock::None);
        let mut cx = Cx { now: Instant::ZERO, rng: &mut rng, meter: &mut meter };
        let settings = Settings { address, prefix_len: 24, ..Settings::default() };
        let station = Station::new(Link::Datagram(Datagram::new(1500)), settings, &mut cx);
        Self { station, rng, meter }
    }

    fn sibling(number: u16) -> Self {
        let mut node = Self::new(HOST);
        node.station.join_multiqueue(number, 2);
        node
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut Station, &mut Cx<'_>) -> R) -> R {
        let Self { station, rng, meter } = self;
        call(station, &mut Cx { now: Instant::ZERO, rng, meter })
    }

    fn receive(&mut self, datagram: &[u8]) {
        self.with(|station, cx| {
            station.receive(datagram, cx);
            while station.has_input() {
                station.step(Step::Network, &mut IdleApplication, cx);
            }
        });
    }

    fn transmit_all(&mut self) -> Vec<u8> {
        self.with(|station, cx| {
            let mut wire = Vec::new();
            station.step(Step::Send, &mut IdleApplication, cx);
            station.transmit_into(&mut wire, 1500, cx);
            wire
        })
    }
}

/// Returns a client that has opened a connection, and its SYN.
fn connecting_client() -> (Node, Vec<u8>) {
    let mut connecting_client = Node::new(CALLER);
    let remote = SocketAddr::from((HOST, PORT));
    connecting_client.with(|station, cx| {
        station.layers.tcp.open(CALLER.into(), remote, Profile::BULK, cx).unwrap();
    });
    let syn = connecting_client.transmit_all();
    (connecting_client, syn)
}

#[test]
fn a_segment_for_the_second_station_is_handed_over_and_answered() {
    let (mut connecting_client, syn) = connecting_client();
    let mut first = Node::sibling(0);
    let mut second = Node::sibling(1);
    second.station.layers.tcp.listen(PORT, Profile::BULK).unwrap();
    first.receive(&syn);
    assert!(first.transmit_all().is_empty());
    let misdelivered = first.station.take_misdelivered().unwrap();
    second.with(|station, cx| station.receive_misdelivered(misdelivered, cx));
    connecting_client.receive(&second.transmit_all());
    let statuses: Vec<_> =
        connecting_client.station.layers.tcp.statuses().map(|s| s.state).collect();
    assert_eq!(statuses, [State::Established]);
}

#[test]
fn the_last_station_reports_that_the_port_is_closed() {
    let (mut connecting_client, syn) = connecting_client();
    let mut first = Node::sibling(0);
    let mut second = Node::sibling(1);
    first.receive(&syn);
    let misdelivered = first.station.take_misdelivered().unwrap();
    second.with(|station, cx| station.receive_misdelivered(misdelivered, cx));
    assert!(second.station.take_misdelivered().is_none());
    connecting_client.receive(&second.transmit_all());
    assert_eq!(connecting_client.meter.counted(Counter::TcpResets), 1);
}

#[test]
fn misdelivered_packets_beyond_the_limit_are_counted_and_dropped() {
    let (_, syn) = connecting_client();
    let mut first = Node::sibling(0);
    (0..70).for_each(|_| first.receive(&syn));
    assert_eq!(first.meter.counted(Counter::MisdeliveredOut), 64);
    assert_eq!(first.meter.counted(Counter::MisdeliveredDropped), 6);
}

#[test]
fn a_single_station_hands_over_no_packets() {
    let (mut connecting_client, syn) = connecting_client();
    let mut single_station = Node::new(HOST);
    single_station.station.join_multiqueue(0, 1);
    single_station.receive(&syn);
    assert!(single_station.station.take_misdelivered().is_none());
    connecting_client.receive(&single_station.transmit_all());
    assert_eq!(connecting_client.meter.counted(Counter::TcpResets), 1);
}
