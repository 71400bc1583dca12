//! Tests of IPv4 and IPv6 between the kernel and a station on a TUN, including fragmented
//! datagrams.

use crate::device::Device;
use crate::driver::Driver;
use crate::interface::Interface;
use crate::testing::in_new_network;
use crate::tun::{Kind, Options, Tun};
use crate::wait_strategy::Wait;
use net::Cx;
use net::internet::addresses::Address;
use net::internet::icmp::EchoReply;
use net::link::{Datagram, Link};
use net::meter::{Clock, Counter, Meter};
use net::rng::Rng;
use net::station::{Application, Layers, Settings};
use net::time::Duration;
use net::transport::tcp::{ConnectionId, Event, Profile};
use net::transport::udp::SocketId;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 1);
const USERSPACE: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 2);
const KERNEL_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);
const USERSPACE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 2);
const PORT: u16 = 7;
const MTU: u16 = 1500;
const RETRY_AFTER: Duration = Duration::from_millis(200);
const TRIES: usize = 100;

/// Echoes all datagrams and stream data, and sends echo requests.
#[derive(Default)]
struct Mirror {
    socket: Option<SocketId>,
    /// Port to listen on; 0 to send echo requests only.
    port: u16,
    connections: Vec<ConnectionId>,
    ping_target: Option<(IpAddr, u16)>,
    echoed: Option<EchoReply>,
}

impl Application for Mirror {
    fn wants_to_run(&self) -> bool {
        self.socket.is_none() || self.ping_target.is_some()
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        let bound = self.socket.or_else(|| layers.udp.bind(self.port, cx).ok());
        self.socket = bound;
        let Some(socket) = bound else { return };
        while let Some((from, packet)) = layers.udp.receive_from(socket) {
            let data = packet.data().to_vec();
            layers.pool.put(packet);
            assert_eq!(layers.send_to(socket, &data, from, cx), Poll::Ready(Ok(())));
        }
        if let Some((to, len)) = self.ping_target.take() {
            assert_eq!(layers.ping(to, (7, 1), len, cx), Poll::Ready(Ok(())));
        }
        self.echoed = self.echoed.or(layers.take_echo_reply());
        while let Some((id, event)) = layers.tcp.event() {
            match event {
                Event::Established => self.connections.push(id),
                Event::PeerClosed => layers.tcp.close(id).unwrap(),
                _ => {}
            }
        }
        for id in &self.connections {
            let data = layers.tcp.received(*id).map(<[u8]>::to_vec).unwrap_or_default();
            let accepted_bytes = layers.tcp.send(*id, &data).unwrap_or(0);
            _ = layers.tcp.consume(*id, accepted_bytes);
        }
    }
}

fn driver(is_offloading: bool) -> Driver {
    let options = Options {
        kind: Kind::Tun,
        is_offloading,
        has_single_datagrams: false,
        has_many_queues: false,
    };
    let tun = Tun::open_with(Some("plumb0"), options).unwrap();
    let interface = Interface::named("plumb0").unwrap();
    interface.set_address(KERNEL, 24).unwrap();
    interface.set_mtu(MTU).unwrap();
    interface.bring_up().unwrap();
    interface.add_address6(KERNEL_V6, 64).unwrap();
    let link = Link::Datagram(Datagram::new(MTU.into()));
    let settings = Settings { address: USERSPACE, prefix_len: 24, ..Settings::default() };
    let rng_and_meter = (Rng::from_seed(1), Meter::new(Clock::None));
    let mut driver =
        Driver::new(Device::Tun(tun), link, settings, Wait::Block, rng_and_meter).unwrap();
    let layers = &mut driver.parts().0.layers;
    layers.internet.add_address(Address::permanent(USERSPACE_V6.into(), 64)).unwrap();
    layers.tcp.listen(PORT, Profile::BULK).unwrap();
    driver
}

/// Runs `client` in a thread in the same network namespace, and the driver in this thread until the
/// client has ended.
fn serve<R: Send>(driver: &mut Driver, client: impl FnOnce() -> R + Send) -> R {
    let has_ended = AtomicBool::new(false);
    let mut mirror = Mirror { port: PORT, ..Mirror::default() };
    // Open the listener before the client connects.
    let now = driver.clock().now();
    driver.turn(&mut mirror, Some(now)).unwrap();
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let result = client();
            has_ended.store(true, Ordering::Release);
            result
        });
        while !has_ended.load(Ordering::Acquire) && !client.is_finished() {
            let until = driver.clock().now() + Duration::from_millis(5);
            driver.turn(&mut mirror, Some(until)).unwrap();
        }
        client.join().unwrap()
    })
}

fn pattern(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

/// Sends a datagram of `len` bytes from a socket of the kernel until one of them is echoed, and
/// returns the echoed bytes. Repetition is needed because the kernel takes a moment to accept a new
/// IPv6 address as its own.
fn echo_datagram(local: IpAddr, station_address: IpAddr, len: usize) -> Vec<u8> {
    let socket = UdpSocket::bind((local, 0)).unwrap();
    socket.set_read_timeout(Some(RETRY_AFTER)).unwrap();
    let mut buffer = vec![0; 65_536];
    let received_datagram = (0..TRIES).find_map(|_| {
        socket.send_to(&pattern(len), (station_address, PORT)).unwrap();
        socket.recv_from(&mut buffer).ok()
    });
    let (count, from) = received_datagram.unwrap();
    assert_eq!(from, SocketAddr::new(station_address, PORT));
    buffer.truncate(count);
    buffer
}

fn long_datagrams_pass_in_both_directions(is_offloading: bool) {
    in_new_network(move || {
        let mut driver = driver(is_offloading);
        let echoed_data = serve(&mut driver, || {
            let v4 = echo_datagram(KERNEL.into(), USERSPACE.into(), 20_000);
            let v6 = echo_datagram(KERNEL_V6.into(), USERSPACE_V6.into(), 30_000);
            let short = echo_datagram(KERNEL_V6.into(), USERSPACE_V6.into(), 100);
            [v4, v6, short]
        });
        assert!(echoed_data == [pattern(20_000), pattern(30_000), pattern(100)]);
        assert!(driver.meter().counted(Counter::IpReassembled) >= 2);
        assert!(driver.meter().counted(Counter::IpFragmentsOut) >= 34);
    });
}

#[test]
fn long_datagrams_of_both_families_are_echoed_by_the_kernel() {
    long_datagrams_pass_in_both_directions(false);
}

#[test]
fn long_datagrams_are_exchanged_with_checksum_offload() {
    long_datagrams_pass_in_both_directions(true);
}

#[test]
fn the_kernels_tcp_exchanges_super_segments_over_ipv6() {
    in_new_network(|| {
        let mut driver = driver(true);
        let sent = pattern(1_000_000);
        let received = serve(&mut driver, || {
            let mut stream = TcpStream::connect((USERSPACE_V6, PORT)).unwrap();
            let mut writer = stream.try_clone().unwrap();
            thread::scope(|scope| {
                scope.spawn(|| writer.write_all(&sent).unwrap());
                let mut received = vec![0; sent.len()];
                stream.read_exact(&mut received).unwrap();
                received
            })
        });
        assert!(received == sent);
    });
}

/// Sends echo requests of `len` bytes until a reply arrives.
fn echo_reply(driver: &mut Driver, to: IpAddr, len: u16) -> EchoReply {
    let mut mirror = Mirror::default();
    for _ in 0..TRIES {
        mirror.ping_target = Some((to, len));
        let until = driver.clock().now() + RETRY_AFTER;
        while mirror.echoed.is_none() && driver.clock().now() < until {
            driver.turn(&mut mirror, Some(until)).unwrap();
        }
        if let Some(reply) = mirror.echoed {
            return reply;
        }
    }
    panic!("no echo from {to}");
}

#[test]
fn the_kernel_answers_long_echoes_of_both_families() {
    in_new_network(|| {
        let mut driver = driver(false);
        let v4 = echo_reply(&mut driver, KERNEL.into(), 4_000);
        let v6 = echo_reply(&mut driver, KERNEL_V6.into(), 5_000);
        assert_eq!((v4.source, v4.payload_len), (KERNEL.into(), 4_000));
        assert_eq!((v6.source, v6.payload_len), (KERNEL_V6.into(), 5_000));
    });
}

#[test]
fn a_station_on_a_device_echoes_to_itself() {
    in_new_network(|| {
        let reply = echo_reply(&mut driver(false), Ipv6Addr::LOCALHOST.into(), 2_000);
        assert_eq!(reply.source, IpAddr::V6(Ipv6Addr::LOCALHOST));
    });
}
