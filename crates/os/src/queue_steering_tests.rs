//! Tests of an interface with two queues and a station on each queue. The peer is the kernel.

use super::*;
use crate::device::Device;
use crate::driver::Driver;
use crate::entropy;
use crate::interface::Interface;
use crate::testing::in_new_network;
use crate::tun::{Options, Tun};
use crate::vnet::Header;
use crate::wait_strategy::Wait;
use net::Cx;
use net::link::{Datagram, Link};
use net::meter::{Clock, Counter, Meter};
use net::rng::Rng;
use net::station::{Application, Layers, Settings};
use net::time::Duration;
use net::transport::tcp::{ConnectionId, Event, Profile};
use net::transport::udp::SocketId;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;
use std::thread;

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 1);
const USERSPACE: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 2);
const MTU: u16 = 1500;
const PORT: u16 = 7;
const TIMEOUT: Duration = Duration::from_secs(10);

fn stations(wait: Wait) -> Vec<Driver> {
    let options = Options { is_offloading: true, ..Options::default() };
    let queues = Tun::open_queues(Some("plumb0"), options, 2).unwrap();
    let interface = Interface::named("plumb0").unwrap();
    interface.set_address(KERNEL, 24).unwrap();
    interface.set_mtu(MTU).unwrap();
    interface.bring_up().unwrap();
    let members = ring_of(2).unwrap();
    let pairs = queues.into_iter().zip(members);
    pairs.map(|(queue, member)| station(Device::Tun(queue), member, wait)).collect()
}

fn station(device: Device, member: QueueSteering, wait: Wait) -> Driver {
    let link = Link::Datagram(Datagram::new(MTU.into()));
    let settings = Settings { address: USERSPACE, prefix_len: 24, ..Settings::default() };
    let rng_and_meter = (Rng::from_seed(entropy::seed().unwrap()), Meter::new(Clock::None));
    let mut driver = Driver::new(device, link, settings, wait, rng_and_meter).unwrap();
    driver.join(member).unwrap();
    driver
}

/// Runs every driver in a thread of its own while `client` runs.
fn serve<R>(
    drivers: &mut [Driver],
    applications: &mut [&mut (dyn Application + Send)],
    client: impl FnOnce() -> R,
) -> R {
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for (driver, application) in drivers.iter_mut().zip(applications) {
            let has_ended = &has_ended;
            scope.spawn(move || {
                while !has_ended.load(Ordering::Acquire) {
                    let until = driver.clock().now() + Duration::from_millis(5);
                    driver.turn(*application, Some(until)).unwrap();
                }
            });
        }
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(client));
        has_ended.store(true, Ordering::Release);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Echoes all data.
#[derive(Default)]
struct Echo;

impl Application for Echo {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, layers: &mut Layers, _cx: &mut Cx<'_>) {
        while let Some((id, event)) = layers.tcp.event() {
            match event {
                Event::Closed => layers.tcp.release(id),
                Event::PeerClosed => layers.tcp.close(id).unwrap(),
                _ => {
                    let data = layers.tcp.received(id).unwrap().to_vec();
                    let accepted_bytes = layers.tcp.send(id, &data).unwrap();
                    layers.tcp.consume(id, accepted_bytes).unwrap();
                }
            }
        }
    }
}

/// Returns datagrams to their senders.
struct DatagramEcho(SocketId);

impl Application for DatagramEcho {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        while let Some((source, packet)) = layers.udp.receive_from(self.0) {
            let data = packet.data().to_vec();
            layers.pool.put(packet);
            assert_eq!(layers.send_to(self.0, &data, source, cx), Poll::Ready(Ok(())));
        }
    }
}

/// Connects to the kernel, and passes received data to the test.
struct Client {
    remote: SocketAddr,
    connection: Option<ConnectionId>,
    local_sender: Sender<SocketAddr>,
    received: Sender<Vec<u8>>,
}

impl Application for Client {
    fn wants_to_run(&self) -> bool {
        self.connection.is_none()
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        if self.connection.is_none() {
            let open_result = layers.tcp.open(USERSPACE.into(), self.remote, Profile::BULK, cx);
            self.connection = Some(open_result.unwrap());
        }
        while let Some((id, event)) = layers.tcp.event() {
            assert!(!matches!(event, Event::Closed), "the connection has gone");
            if event == Event::Established {
                self.local_sender.send(layers.tcp.status(id).unwrap().local).unwrap();
            }
            let data = layers.tcp.received(id).unwrap().to_vec();
            layers.tcp.consume(id, data.len()).unwrap();
            self.received.send(data).unwrap();
        }
    }
}

fn receive_all(data: &Receiver<Vec<u8>>, count: usize) {
    let mut received = 0;
    while received < count {
        received += data.recv_timeout(TIMEOUT).expect("nothing came for ten seconds").len();
    }
}

/// Returns a segment whose ports are those of the connection and whose other fields are invalid.
fn invalid_segment(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let mut packet = vec![0; 40];
    packet[0] = 0x45;
    packet[3] = 40;
    packet[8] = 64;
    packet[9] = 6;
    packet[12..16].copy_from_slice(&USERSPACE.octets());
    packet[16..20].copy_from_slice(&KERNEL.octets());
    packet[20..22].copy_from_slice(&local.port().to_be_bytes());
    packet[22..24].copy_from_slice(&remote.port().to_be_bytes());
    packet[32] = 0x50;
    packet
}

#[test]
fn connections_from_outside_are_spread_over_the_stations() {
    in_new_network(|| {
        let mut drivers = stations(Wait::Block);
        for driver in &mut drivers {
            driver.parts().0.layers.tcp.listen(PORT, Profile::BULK).unwrap();
        }
        serve(&mut drivers, &mut [&mut Echo, &mut Echo], || {
            for _ in 0..40 {
                let mut stream = TcpStream::connect((USERSPACE, PORT)).unwrap();
                stream.set_read_timeout(Some(TIMEOUT)).unwrap();
                stream.write_all(b"there and back").unwrap();
                let mut reply = [0; 14];
                stream.read_exact(&mut reply).unwrap();
                assert_eq!(&reply, b"there and back");
            }
        });
        for driver in &drivers {
            assert!(driver.meter().counted(Counter::TcpPassiveOpens) > 0);
            assert_eq!(driver.meter().counted(Counter::MisdeliveredOut), 0);
        }
    });
}

#[test]
fn a_misdelivered_packet_reaches_the_connection_of_the_other_station() {
    in_new_network(|| {
        let mut drivers = stations(Wait::Block);
        let listener = TcpListener::bind((KERNEL, 0)).unwrap();
        let remote = listener.local_addr().unwrap();
        let (local_sender, is_open) = channel();
        let (sender, received) = channel();
        let mut client = Client { remote, connection: None, local_sender, received: sender };
        let other = drivers[1].device().as_fd().try_clone_to_owned().unwrap();
        serve(&mut drivers, &mut [&mut client, &mut Echo], || {
            let (mut stream, _) = listener.accept().unwrap();
            let local = is_open.recv_timeout(TIMEOUT).unwrap();
            // Several rounds: in the last round, a packet may be handed over only after the
            // stations have ended.
            for _ in 0..6 {
                // The queue that sends for a flow receives the packets of the flow, even if the
                // sent packet is invalid.
                let packet =
                    [&Header::default().encode()[..], &invalid_segment(local, remote)].concat();
                rustix::io::write(&other, &packet).unwrap();
                stream.write_all(&[7; 3000]).unwrap();
                receive_all(&received, 3000);
            }
        });
        let counted = |station: usize, counter| drivers[station].meter().counted(counter);
        assert!(counted(0, Counter::MisdeliveredIn) >= 5);
        assert!(counted(1, Counter::MisdeliveredOut) >= counted(0, Counter::MisdeliveredIn));
        assert_eq!(counted(1, Counter::TcpResetsOut), 0);
    });
}

#[test]
fn a_port_without_listener_is_refused_by_the_last_station() {
    in_new_network(|| {
        let mut drivers = stations(Wait::Poll);
        serve(&mut drivers, &mut [&mut Echo, &mut Echo], || {
            let error = TcpStream::connect((USERSPACE, PORT)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        });
        let count = |counter| -> u64 { drivers.iter().map(|d| d.meter().counted(counter)).sum() };
        assert_eq!((count(Counter::MisdeliveredOut), count(Counter::MisdeliveredIn)), (1, 1));
    });
}

#[test]
fn datagrams_reach_the_only_station_that_has_the_port() {
    in_new_network(|| {
        let mut drivers = stations(Wait::Spin { nanos: 20_000 });
        let (station, mut cx) = drivers[0].parts();
        let mut echo = DatagramEcho(station.layers.udp.bind(PORT, &mut cx).unwrap());
        serve(&mut drivers, &mut [&mut echo, &mut Echo], || {
            for _ in 0..40 {
                let socket = UdpSocket::bind((KERNEL, 0)).unwrap();
                socket.connect((USERSPACE, PORT)).unwrap();
                socket.set_read_timeout(Some(TIMEOUT)).unwrap();
                socket.send(b"there and back").unwrap();
                assert_eq!(socket.recv(&mut [0; 100]).unwrap(), 14);
            }
        });
        assert!(drivers[1].meter().counted(Counter::MisdeliveredOut) > 0);
    });
}

#[test]
fn local_ports_of_two_stations_are_never_the_same() {
    in_new_network(|| {
        let mut drivers = stations(Wait::Poll);
        let remote = SocketAddr::from((KERNEL, 80));
        let mut ports = drivers.iter_mut().map(|driver| {
            let (station, mut cx) = driver.parts();
            let tcp = &mut station.layers.tcp;
            let opened: Vec<_> = (0..50)
                .map(|_| tcp.open(USERSPACE.into(), remote, Profile::BULK, &mut cx).unwrap())
                .collect();
            opened.iter().map(|id| tcp.status(*id).unwrap().local.port()).collect::<Vec<_>>()
        });
        let first = ports.next().unwrap();
        let second = ports.next().unwrap();
        assert!(first.iter().all(|port| port % 2 == 0) && second.iter().all(|port| port % 2 == 1));
    });
}

#[test]
fn the_wakeup_descriptor_stays_readable_until_the_packets_are_taken() {
    let members = ring_of(2).unwrap();
    assert!(!members[1].is_signaled());
    members[1].own.signal();
    members[1].own.signal();
    assert!(members[1].is_signaled());
    assert!(members[1].take().is_empty());
    assert!(!members[1].is_signaled());
}
