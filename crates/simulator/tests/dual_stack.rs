//! Tests of two stations with addresses of both families: TCP over IPv6, fragmented datagrams, and
//! a station that communicates with itself.

use net::Cx;
use net::application::Stream;
use net::internet::addresses::Address;
use net::internet::icmp::EchoReply;
use net::link::{Datagram, Link};
use net::meter::{Costs, Counter};
use net::station::{Application, Layers, Opening, Settings, TcpStreamApp};
use net::time::Duration;
use net::transport::tcp::{ConnectionId, Event, Profile};
use net::transport::udp::SocketId;
use simulator::faults::Faults;
use simulator::transmission_line::Line;
use simulator::{Host, World};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::Poll;

const USER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const USER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);
const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 2);
const PORT: u16 = 20;
/// Faults that reorder and duplicate datagrams, but lose none.
const REORDERING_FAULTS: Faults = Faults {
    loss_ppm: 0,
    duplication_ppm: 200_000,
    reordering_ppm: 300_000,
    reordering_delay_max: Duration::from_millis(50),
    bit_error_ppm: 0,
};
/// The faults of [`REORDERING_FAULTS`], and the loss of one datagram in twenty.
const LOSSY_FAULTS: Faults = Faults { loss_ppm: 50_000, ..REORDERING_FAULTS };

/// Returns a file that repeats the byte values from 0 to 250. No segment length is a multiple of
/// this period.
fn file(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

fn host<A: Application>(v4: Ipv4Addr, v6: Ipv6Addr, application: A) -> Host<A> {
    let settings = Settings { address: v4, prefix_len: 24, ..Settings::default() };
    let link = Link::Datagram(Datagram::new(1500));
    let seed = u64::from(v4.to_bits());
    let mut host = Host::new(link, settings, Costs::default(), seed, application);
    let added = host.station.internet_mut().add_address(Address::permanent(v6.into(), 64));
    assert_eq!(added, Ok(()));
    host
}

fn world<A: Application, B: Application>(user: A, server: B, faults: Faults) -> World<A, B> {
    let line = Line { faults, ..Line::path(Duration::from_millis(10)) };
    World::new(host(USER, USER_V6, user), host(SERVER, SERVER_V6, server), line, 1)
}

/// Sends a file and receives one. Closes either before or after the peer.
#[derive(Debug)]
struct FileEndpoint {
    file: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    closes_first: bool,
    peer_has_closed: bool,
}

impl FileEndpoint {
    fn with(file: Vec<u8>, closes_first: bool) -> Self {
        Self { file, sent: 0, received: Vec::new(), closes_first, peer_has_closed: false }
    }
}

impl Stream for FileEndpoint {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, data: &[u8], _cx: &mut Cx<'_>) {
        self.received.extend_from_slice(data);
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        self.file.get(self.sent..).unwrap_or_default()
    }

    fn sent(&mut self, count: usize) {
        self.sent += count;
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {
        self.peer_has_closed = true;
    }

    fn is_closing(&self) -> bool {
        self.sent == self.file.len() && (self.closes_first || self.peer_has_closed)
    }
}

fn caller(local: IpAddr, remote: IpAddr, len: usize) -> TcpStreamApp<FileEndpoint> {
    let opening = Opening::Active { local, remote: SocketAddr::new(remote, PORT) };
    TcpStreamApp::new(FileEndpoint::with(file(len), true), opening, Profile::BULK)
}

fn listener(len: usize) -> TcpStreamApp<FileEndpoint> {
    TcpStreamApp::new(
        FileEndpoint::with(file(len), false),
        Opening::Passive { port: PORT },
        Profile::BULK,
    )
}

#[test]
fn a_file_is_transferred_each_way_over_tcp_and_ipv6_on_a_lossy_path() {
    let user = caller(USER_V6.into(), SERVER_V6.into(), 100_000);
    let mut world = world(user, listener(50_000), LOSSY_FAULTS);
    let drive_result =
        world.drive(|world| world.user.application.is_over() && world.server.application.is_over());
    assert_eq!(drive_result, Ok(()));
    assert!(world.server.application.stream.received == file(100_000));
    assert!(world.user.application.stream.received == file(50_000));
    // TCP limits its segments to the MTU.
    assert_eq!(world.user.meter.counted(Counter::IpFragmentsOut), 0);
}

/// Sends UDP datagrams and an echo request, and stores the replies.
#[derive(Debug, Default)]
struct DatagramClient {
    socket: Option<SocketId>,
    /// Unsent data and its destinations.
    to_send: Vec<(SocketAddr, Vec<u8>)>,
    to_ping: Option<(IpAddr, u16)>,
    received: Vec<(IpAddr, Vec<u8>)>,
    echoed: Option<EchoReply>,
}

impl Application for DatagramClient {
    fn wants_to_run(&self) -> bool {
        self.socket.is_none()
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        let bound = self.socket.or_else(|| layers.udp.bind(PORT, cx).ok());
        let Some(socket) = bound else { return };
        self.socket = bound;
        for (to, data) in self.to_send.drain(..) {
            assert_eq!(layers.send_to(socket, &data, to, cx), Poll::Ready(Ok(())));
        }
        if let Some((to, len)) = self.to_ping.take() {
            assert_eq!(layers.ping(to, (7, 1), len, cx), Poll::Ready(Ok(())));
        }
        while let Some((from, packet)) = layers.udp.receive_from(socket) {
            self.received.push((from.ip(), packet.data().to_vec()));
            layers.pool.put(packet);
        }
        if let Some(reply) = layers.take_echo_reply() {
            self.echoed = Some(reply);
        }
    }
}

#[test]
fn long_datagrams_of_both_families_arrive_complete_on_an_unreliable_path() {
    let to = |address: IpAddr, len| (SocketAddr::new(address, PORT), file(len));
    let to_send = vec![to(SERVER.into(), 20_000), to(SERVER_V6.into(), 30_000)];
    let user = DatagramClient { to_send, ..DatagramClient::default() };
    let mut world = world(user, DatagramClient::default(), REORDERING_FAULTS);
    let drive_result = world.drive(|world| world.server.application.received.len() == 2);
    assert_eq!(drive_result, Ok(()));
    let mut received = world.server.application.received.clone();
    received.sort();
    let expected = [(IpAddr::V4(USER), file(20_000)), (IpAddr::V6(USER_V6), file(30_000))];
    assert!(received == expected);
    assert_eq!(world.server.meter.counted(Counter::IpReassembled), 2);
    world.run_until(world.now() + Duration::from_secs(61));
    let packet_counts =
        [world.user.station.packets_in_use(), world.server.station.packets_in_use()];
    assert_eq!(packet_counts, [0, 0]);
}

#[test]
fn a_long_ipv6_echo_is_fragmented_both_ways() {
    let user =
        DatagramClient { to_ping: Some((SERVER_V6.into(), 5_000)), ..DatagramClient::default() };
    let mut world = world(user, DatagramClient::default(), REORDERING_FAULTS);
    let drive_result = world.drive(|world| world.user.application.echoed.is_some());
    assert_eq!(drive_result, Ok(()));
    let reply = world.user.application.echoed.unwrap();
    assert_eq!((reply.source, reply.payload_len), (SERVER_V6.into(), 5_000));
}

/// A client and its server on one station.
#[derive(Debug)]
struct ClientAndServer {
    address: IpAddr,
    /// Data that the client has not sent yet.
    to_send: Vec<u8>,
    client: Option<ConnectionId>,
    is_open: bool,
    received: Vec<u8>,
    /// Whether the server has read all data and has closed the connection.
    is_over: bool,
}

impl Application for ClientAndServer {
    fn wants_to_run(&self) -> bool {
        self.client.is_none()
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        if self.client.is_none() {
            assert_eq!(layers.tcp.listen(PORT, Profile::BULK), Ok(()));
            let remote = SocketAddr::new(self.address, PORT);
            self.client = layers.tcp.open(self.address, remote, Profile::BULK, cx).ok();
        }
        let Some(client) = self.client else { return };
        while let Some((id, event)) = layers.tcp.event() {
            if id == client {
                self.is_open |= event == Event::Established;
                continue;
            }
            let data = layers.tcp.received(id).map(<[u8]>::to_vec).unwrap_or_default();
            self.received.extend_from_slice(&data);
            _ = layers.tcp.consume(id, data.len());
            if event == Event::PeerClosed {
                self.is_over = layers.tcp.close(id).is_ok();
            }
        }
        if self.is_open && !self.to_send.is_empty() {
            let taken = layers.tcp.send(client, &self.to_send).unwrap_or(0);
            self.to_send.drain(..taken);
            if self.to_send.is_empty() {
                _ = layers.tcp.close(client);
            }
        }
    }
}

#[test]
fn a_station_connects_to_itself_without_using_the_line() {
    for address in [USER.into(), USER_V6.into(), Ipv6Addr::LOCALHOST.into()] {
        let to_send = file(40_000);
        let client = None;
        let received = Vec::new();
        let client_and_server =
            ClientAndServer { address, to_send, client, is_open: false, received, is_over: false };
        let mut world = world(client_and_server, DatagramClient::default(), REORDERING_FAULTS);
        let drive_result = world.drive(|world| world.user.application.is_over);
        assert_eq!(drive_result, Ok(()));
        assert!(world.user.application.received == file(40_000));
        assert_eq!(world.user.meter.counted(Counter::LinkPacketsOut), 0);
        world.run_until(world.now() + Duration::from_secs(300));
        assert_eq!(world.user.station.packets_in_use(), 0);
    }
}
