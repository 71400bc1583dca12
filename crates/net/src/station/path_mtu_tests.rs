//! Tests of the path MTU reports of routers: which reports a station trusts, and which it ignores
//! (attack row 20).

use super::*;
use crate::checksum::Sum;
use crate::cx::OwnedCx;
use crate::internet::addresses::Address;
use crate::internet::ipv4::Protocol;
use crate::internet::{icmpv6, ipv4, ipv6};
use crate::link::Datagram;
use crate::transport::tcp::{ConnectionId, Profile};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::task::Poll;

const OURS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);
const THEIRS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 2);
const ROUTER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 9);
const OURS_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const THEIRS_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const ROUTER_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const PORT: u16 = 23;

/// An application that does nothing.
struct IdleApplication;

impl Application for IdleApplication {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, _layers: &mut Layers, _cx: &mut Cx<'_>) {}
}

struct Host {
    station: Station,
    context: OwnedCx,
}

impl Host {
    fn new() -> Self {
        Self::at(OURS.into(), 64)
    }

    fn at(address: IpAddr, prefix_len: u8) -> Self {
        let mut context = OwnedCx::default();
        let link = Link::Datagram(Datagram::new(1500));
        let mut station = Station::new(link, Settings::default(), &mut context.cx());
        station.internet_mut().add_address(Address::permanent(address, prefix_len)).unwrap();
        Self { station, context }
    }

    /// Opens a connection to `peer`, which has a listener.
    fn connect(&mut self, peer: &mut Self) -> ConnectionId {
        self.connect_between((OURS.into(), THEIRS.into()), peer)
    }

    fn connect_between(&mut self, ends: (IpAddr, IpAddr), peer: &mut Self) -> ConnectionId {
        let tcp = &mut self.station.layers.tcp;
        let remote = SocketAddr::new(ends.1, PORT);
        let id = tcp.open(ends.0, remote, Profile::BULK, &mut self.context.cx()).unwrap();
        exchange_all(self, peer);
        id
    }

    /// Sends enough data for several segments, and returns the first datagram.
    fn send(&mut self, id: ConnectionId) -> Vec<u8> {
        self.station.layers.tcp.send(id, &[7; 5000]).unwrap();
        self.transmit()
    }

    fn run(&mut self) {
        Scheduler::default().run(&mut self.station, &mut IdleApplication, &mut self.context.cx());
    }

    /// Returns the next outgoing datagram.
    fn transmit(&mut self) -> Vec<u8> {
        self.run();
        let mut wire = Vec::new();
        self.station.transmit_into(&mut wire, usize::MAX, &mut self.context.cx());
        wire
    }

    /// Sends all pending output, and returns its first datagram.
    fn transmit_all(&mut self) -> Vec<u8> {
        let first = self.transmit();
        while !self.transmit().is_empty() {}
        first
    }

    /// Advances the time to the next timer, and returns the first datagram sent then.
    fn time_out(&mut self) -> Vec<u8> {
        self.context.now = self.station.deadline().unwrap().max(self.context.now);
        self.transmit_all()
    }

    /// Delivers the ICMP error of a router that cannot forward `datagram` to a link with an MTU of
    /// 246 bytes.
    fn report_too_big_v4(&mut self, datagram: &[u8]) {
        let mut message = [[3, 4, 0, 0, 0, 0, 0, 246].as_slice(), &datagram[..28]].concat();
        let sum = Sum::default().bytes(&message).finish();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let header = ipv4::Header {
            source: ROUTER_V4,
            destination: OURS_V4,
            protocol: Protocol::Icmp,
            time_to_live: 64,
            identification: 0,
            dscp_ecn: 0,
            dont_fragment: false,
        };
        let len = u16::try_from(message.len()).unwrap();
        let bytes = [header.emit(len + 20).as_slice(), &message].concat();
        self.station.receive(&bytes, &mut self.context.cx());
        self.run();
    }

    /// Delivers the ICMPv6 error of a router that cannot forward `datagram` to a link with an MTU
    /// of 1300 bytes. Returns the path MTU in use afterwards.
    fn report_too_big(&mut self, datagram: &[u8]) -> u16 {
        let quoted = datagram.get(..200).unwrap_or(datagram);
        let mut message = [[2, 0, 0, 0, 0, 0, 5, 0x14].as_slice(), quoted].concat();
        icmpv6::seal(ROUTER, OURS, &mut message);
        let source = ROUTER;
        let destination = OURS;
        let header =
            ipv6::Header { source, destination, hop_limit: 64, dscp_ecn: 0, flow_label: 0 };
        let len = u16::try_from(message.len()).unwrap();
        let bytes = [header.emit(58, len).as_slice(), &message].concat();
        self.station.receive(&bytes, &mut self.context.cx());
        self.run();
        self.station.layers.internet.mtu_to(THEIRS.into(), self.context.now)
    }
}

/// Exchanges the datagrams of both hosts until none is pending.
fn exchange_all(local_host: &mut Host, peer: &mut Host) {
    loop {
        let from_local_host = local_host.transmit();
        let from_peer = peer.transmit();
        if from_local_host.is_empty() && from_peer.is_empty() {
            return;
        }
        peer.station.receive(&from_local_host, &mut peer.context.cx());
        local_host.station.receive(&from_peer, &mut local_host.context.cx());
    }
}

fn connected_hosts() -> (Host, Host) {
    let mut peer = Host::at(THEIRS.into(), 64);
    peer.station.layers.tcp.listen(PORT, Profile::BULK).unwrap();
    (Host::new(), peer)
}

#[test]
fn a_path_mtu_reported_to_one_connection_applies_to_all_to_that_host() {
    let (mut local_host, mut peer) = connected_hosts();
    let ids = [(); 2].map(|()| local_host.connect(&mut peer));
    let too_long = local_host.send(ids[0]);
    assert_eq!((too_long.len(), local_host.report_too_big(&too_long)), (1500, 1300));
    exchange_all(&mut local_host, &mut peer);
    assert_eq!(local_host.send(ids[1]).len(), 1300);
}

#[test]
fn a_new_connection_starts_with_the_reported_path_mtu() {
    let (mut local_host, mut peer) = connected_hosts();
    let id = local_host.connect(&mut peer);
    let too_long = local_host.send(id);
    local_host.report_too_big(&too_long);
    exchange_all(&mut local_host, &mut peer);
    let id = local_host.connect(&mut peer);
    let status = local_host.station.layers.tcp.status(id).unwrap();
    assert_eq!((status.send_mss, local_host.send(id).len()), (1300 - 60 - 12, 1300));
}

/// Returns the total length and the DF flag of an IPv4 datagram.
fn len_and_df(datagram: &[u8]) -> (u16, bool) {
    (u16::from_be_bytes([datagram[2], datagram[3]]), datagram[6] & 0x40 != 0)
}

fn connected_hosts_v4() -> (Host, ConnectionId) {
    let mut peer = Host::at(THEIRS_V4.into(), 24);
    peer.station.layers.tcp.listen(PORT, Profile::BULK).unwrap();
    let mut local_host = Host::at(OURS_V4.into(), 24);
    let id = local_host.connect_between((OURS_V4.into(), THEIRS_V4.into()), &mut peer);
    (local_host, id)
}

#[test]
fn routers_may_fragment_if_the_path_mtu_is_below_the_minimum() {
    let (mut local_host, id) = connected_hosts_v4();
    let too_long = local_host.send(id);
    local_host.transmit_all();
    assert_eq!(len_and_df(&too_long), (1500, true));
    local_host.report_too_big_v4(&too_long);
    assert_eq!(len_and_df(&local_host.transmit_all()), (552, false));
}

#[test]
fn routers_may_fragment_after_the_path_mtu_search_reached_the_minimum() {
    let (mut local_host, id) = connected_hosts_v4();
    local_host.send(id);
    local_host.transmit_all();
    let mut datagram = Vec::new();
    while datagram.is_empty() || len_and_df(&datagram).0 > 552 {
        datagram = local_host.time_out();
    }
    assert_eq!(len_and_df(&datagram), (552, true));
    local_host.report_too_big_v4(&datagram);
    datagram = local_host.transmit_all();
    while datagram.is_empty() {
        datagram = local_host.time_out();
    }
    assert_eq!(len_and_df(&datagram), (552, false));
}

// attack row 20
#[test]
fn only_errors_that_quote_a_segment_in_flight_are_accepted() {
    let mut host = Host::new();
    let remote = SocketAddr::new(THEIRS.into(), PORT);
    let cx = &mut host.context.cx();
    host.station.layers.tcp.open(OURS.into(), remote, Profile::BULK, cx).unwrap();
    let segment = host.transmit();
    let mut forged = segment.clone();
    // The first byte of the sequence number.
    forged[44] ^= 0x40;
    assert_eq!((host.report_too_big(&forged), host.report_too_big(&segment)), (1500, 1300));
}

// attack row 20
#[test]
fn only_errors_that_quote_a_datagram_of_a_bound_port_are_accepted() {
    let mut host = Host::new();
    let layers = &mut host.station.layers;
    let cx = &mut host.context.cx();
    let socket = layers.udp.bind(PORT, cx).unwrap();
    let sent = layers.send_to(socket, &[7; 1400], SocketAddr::new(THEIRS.into(), PORT), cx);
    assert_eq!(sent, Poll::Ready(Ok(())));
    let datagram = host.transmit();
    let mut forged = datagram.clone();
    // The lower byte of the source port.
    forged[41] ^= 1;
    assert_eq!((host.report_too_big(&forged), host.report_too_big(&datagram)), (1500, 1300));
}

#[test]
fn datagrams_of_a_registered_protocol_are_queued_for_the_application() {
    let mut host = Host::new();
    assert!(host.station.layers.internet.register_protocol(89));
    let source = THEIRS;
    let destination = OURS;
    let header = ipv6::Header { source, destination, hop_limit: 1, dscp_ecn: 0, flow_label: 0 };
    let bytes = [header.emit(89, 5).as_slice(), b"hello"].concat();
    // One datagram more than the limit of the queue. The last one is dropped.
    for _ in 0..17 {
        host.station.receive(&bytes, &mut host.context.cx());
        host.run();
    }
    let layers = &mut host.station.layers;
    let mut queued_count = 0;
    while let Some(datagram) = layers.receive_raw() {
        assert_eq!(datagram.packet.data(), b"hello");
        layers.pool.put(datagram.packet);
        queued_count += 1;
    }
    assert_eq!((queued_count, layers.pool.lent()), (16, 0));
    assert_eq!(host.context.counted(Counter::IpRawQueueFull), 1);
}
