//! Tests of UDP between the kernel and a station on a TUN. Datagrams of equal size cross the device
//! as one packet.

use crate::datagram::{DatagramSocket, Inbox};
use crate::device::Device;
use crate::driver::Driver;
use crate::interface::Interface;
use crate::testing::{in_new_network, segments_datagrams, unwrap_ready};
use crate::tun::{Options, Tun};
use crate::wait_strategy::Wait;
use net::Cx;
use net::internet::addresses::Address;
use net::link::{Datagram, Link};
use net::meter::{Clock, Counter, Meter};
use net::rng::Rng;
use net::station::{Application, Layers, Settings};
use net::time::Duration;
use net::transport::udp::SocketId;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, AsRawFd};
use std::task::Poll;

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 1);
const USERSPACE: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 2);
const KERNEL_V6: Ipv6Addr = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 1);
const USERSPACE_V6: Ipv6Addr = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 2);
const PORT: u16 = 7;
/// Datagram that is sent repeatedly until a reply shows that both directions work.
const PROBE_DATAGRAM: &[u8] = b"?";
const SIZE: NonZeroU16 = NonZeroU16::new(1000).unwrap();
const SINGLE_DATAGRAMS: Options = Options { has_single_datagrams: true, ..OFFLOADING };
const OFFLOADING: Options = Options {
    kind: crate::tun::Kind::Tun,
    is_offloading: true,
    has_single_datagrams: false,
    has_many_queues: false,
};
const PLAIN: Options = Options { is_offloading: false, ..OFFLOADING };

/// Collects received datagrams, and sends a datagram on request.
struct Collector {
    socket: SocketId,
    received: Vec<Vec<u8>>,
    from: Option<SocketAddr>,
    to_send: Option<(Vec<u8>, SocketAddr)>,
}

impl Application for Collector {
    fn wants_to_run(&self) -> bool {
        self.to_send.is_some()
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        while let Some(waiting) = layers.udp.waiting(self.socket) {
            self.received.push(waiting.first().to_vec());
            self.from = Some(waiting.source);
            layers.udp.drop_first(self.socket, 1, &mut layers.pool);
        }
        if let Some((data, to)) = self.to_send.take() {
            let sent = layers.send_segments(self.socket, &data, SIZE, to, cx);
            assert_eq!(sent, Poll::Ready(Ok(data.len())));
        }
    }
}

/// A station on a TUN, whose socket can receive super-datagrams.
struct Fixture {
    driver: Driver,
    collector: Collector,
}

impl Fixture {
    fn new(options: Options, takes_segments: bool) -> Self {
        let tun = Tun::open_with(Some("plumb0"), options).unwrap();
        let interface = Interface::named("plumb0").unwrap();
        interface.set_address(KERNEL, 24).unwrap();
        interface.bring_up().unwrap();
        interface.add_address6(KERNEL_V6, 64).unwrap();
        let link = Link::Datagram(Datagram::new(1500));
        let settings =
            Settings { address: USERSPACE, prefix_len: 24, packets: 256, ..Settings::default() };
        let rng_and_meter = (Rng::from_seed(1), Meter::new(Clock::None));
        let mut driver =
            Driver::new(Device::Tun(tun), link, settings, Wait::Poll, rng_and_meter).unwrap();
        let (station, mut cx) = driver.parts();
        station.layers.internet.add_address(Address::permanent(USERSPACE_V6.into(), 64)).unwrap();
        let socket = station.layers.udp.bind(PORT, &mut cx).unwrap();
        station.layers.udp.set_accepts_super_datagrams(socket, takes_segments);
        let collector = Collector { socket, received: Vec::new(), from: None, to_send: None };
        Self { driver, collector }
    }

    fn turn(&mut self) {
        let until = self.driver.clock().now() + Duration::from_millis(5);
        self.driver.turn(&mut self.collector, Some(until)).unwrap();
    }

    /// Returns the next `count` datagrams sent by the kernel.
    fn collect(&mut self, count: usize) -> Vec<Vec<u8>> {
        while self.collector.received.len() < count {
            self.turn();
            self.collector.received.retain(|datagram| datagram != PROBE_DATAGRAM);
        }
        core::mem::take(&mut self.collector.received)
    }

    /// Opens a socket of the kernel with segmentation and coalescing, and waits until datagrams
    /// pass in both directions: the kernel takes a moment to accept a new IPv6 address.
    fn socket(&mut self, ends: Ends) -> DatagramSocket {
        let socket = loop {
            match DatagramSocket::bind((ends.0, 0).into()) {
                Ok(socket) => break socket,
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::AddrNotAvailable),
            }
            self.turn();
        };
        let mut inbox = Inbox::default();
        while !matches!(socket.receive(&mut inbox), Poll::Ready(Ok(_))) {
            _ = socket.send(PROBE_DATAGRAM, &[1], ends.local_address());
            self.turn();
            if let Some(from) = self.collector.from {
                self.collector.to_send = Some((PROBE_DATAGRAM.to_vec(), from));
                self.turn();
            }
        }
        self.collector.received.clear();
        socket
    }

    fn counted(&self, counter: Counter) -> u64 {
        self.driver.meter().counted(counter)
    }
}

/// Addresses of a flow: the address of the kernel and the address of the station.
#[derive(Clone, Copy)]
struct Ends(IpAddr, IpAddr);

const V4: Ends = Ends(IpAddr::V4(KERNEL), IpAddr::V4(USERSPACE));
const V6: Ends = Ends(IpAddr::V6(KERNEL_V6), IpAddr::V6(USERSPACE_V6));

impl Ends {
    fn local_address(self) -> SocketAddr {
        (self.1, PORT).into()
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

fn datagrams(data: &[u8]) -> Vec<Vec<u8>> {
    data.chunks(SIZE.get().into()).map(<[u8]>::to_vec).collect()
}

fn lens(data: &[u8]) -> Vec<usize> {
    data.chunks(SIZE.get().into()).map(<[u8]>::len).collect()
}

/// Receives `count` datagrams from the station on a socket of the kernel.
fn receive_datagrams(fixture: &mut Fixture, socket: &DatagramSocket, count: usize) -> Vec<Vec<u8>> {
    let mut inbox = Inbox::default();
    let mut collected = Vec::new();
    while collected.len() < count {
        fixture.turn();
        if let Poll::Ready(Ok(_)) = socket.receive(&mut inbox) {
            let datagrams = inbox.datagrams().map(|one| one.data.to_vec());
            collected.extend(datagrams.filter(|datagram| datagram != PROBE_DATAGRAM));
        }
    }
    collected
}

/// Sends twenty datagrams and a shorter one from the kernel to the station, and back.
fn exchange_datagrams(options: Options, takes_segments: bool, ends: Ends) -> Fixture {
    let mut fixture = Fixture::new(options, takes_segments);
    let socket = fixture.socket(ends);
    let data = pattern(20_300);
    let sent = socket.send(&data, &lens(&data), ends.local_address());
    assert_eq!(unwrap_ready(sent).unwrap(), 21);
    assert_eq!(fixture.collect(21), datagrams(&data));
    let back = data.iter().rev().copied().collect::<Vec<_>>();
    fixture.collector.to_send = Some((back.clone(), fixture.collector.from.unwrap()));
    assert_eq!(receive_datagrams(&mut fixture, &socket, 21), datagrams(&back));
    fixture
}

/// Asserts that the datagrams cross the device as one packet in each direction.
fn exchange_as_one_packet(takes_segments: bool, ends: Ends) {
    let fixture = exchange_datagrams(OFFLOADING, takes_segments, ends);
    if !segments_datagrams(fixture.driver.device()) {
        return;
    }
    assert_eq!(fixture.counted(Counter::UdpSuperIn), 1);
    assert_eq!(fixture.counted(Counter::UdpSuperOut), 1);
}

#[test]
fn datagrams_of_one_size_and_a_shorter_one_cross_the_device_as_one_packet() {
    in_new_network(|| exchange_as_one_packet(true, V4));
}

#[test]
fn datagrams_of_one_size_cross_the_device_as_one_packet_over_ipv6() {
    in_new_network(|| exchange_as_one_packet(true, V6));
}

#[test]
fn a_socket_without_segments_receives_each_datagram_separately() {
    in_new_network(|| exchange_as_one_packet(false, V4));
}

#[test]
fn datagrams_of_one_size_cross_the_device_separately_without_segmentation() {
    for options in [SINGLE_DATAGRAMS, PLAIN] {
        in_new_network(move || {
            let fixture = exchange_datagrams(options, true, V4);
            let counters = [Counter::UdpSuperIn, Counter::UdpSuperOut];
            assert_eq!(counters.map(|counter| fixture.counted(counter)), [0, 0]);
        });
    }
}

#[test]
fn a_kernel_socket_without_gro_receives_each_datagram_separately() {
    in_new_network(|| {
        let mut fixture = Fixture::new(OFFLOADING, true);
        let socket = UdpSocket::bind((KERNEL, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let data = pattern(5_500);
        fixture.collector.to_send = Some((data.clone(), socket.local_addr().unwrap()));
        let mut received = Vec::new();
        let mut buffer = [0; 2000];
        while received.len() < 6 {
            fixture.turn();
            while let Ok(len) = socket.recv(&mut buffer) {
                received.push(buffer[..len].to_vec());
            }
        }
        assert_eq!(received, datagrams(&data));
    });
}

#[test]
fn a_kernel_datagram_without_a_checksum_is_accepted() {
    in_new_network(|| {
        let mut fixture = Fixture::new(OFFLOADING, true);
        let socket = UdpSocket::bind((KERNEL, 0)).unwrap();
        let enabled: libc::c_int = 1;
        // SAFETY: the kernel reads an int.
        let status = unsafe {
            let level = libc::SOL_SOCKET;
            let option = libc::SO_NO_CHECK;
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                level,
                option,
                (&raw const enabled).cast(),
                4,
            )
        };
        assert_eq!(status, 0);
        socket.send_to(b"unchecked", (USERSPACE, PORT)).unwrap();
        assert_eq!(fixture.collect(1), [b"unchecked"]);
    });
}

#[test]
fn a_sent_datagram_with_checksum_offload_is_correct() {
    in_new_network(|| {
        let mut fixture = Fixture::new(OFFLOADING, true);
        for ends in [V4, V6] {
            let socket = fixture.socket(ends);
            let to = socket.local_addr().unwrap();
            fixture.collector.to_send = Some((b"finished".to_vec(), to));
            assert_eq!(receive_datagrams(&mut fixture, &socket, 1), [b"finished"]);
        }
        assert_eq!(fixture.counted(Counter::UdpSuperOut), 0);
    });
}
