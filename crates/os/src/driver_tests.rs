//! Tests of connections between the kernel's TCP and a station, on each device and with each wait
//! strategy.

use super::*;
use crate::entropy;
use crate::interface::Interface;
use crate::testing::in_new_network;
use crate::tun::{Options, Tun};
use net::link::Datagram;
use net::meter::Clock;
use net::station::Layers;
use net::transport::tcp::{ConnectionId, Event, Profile};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 1);
const USERSPACE: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 2);
const PORT: u16 = 7;
const MTU: u16 = 1500;

/// Echoes all data on any number of connections.
#[derive(Default)]
struct Echo {
    open: Vec<ConnectionId>,
}

impl Application for Echo {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, layers: &mut Layers, _cx: &mut Cx<'_>) {
        while let Some((id, event)) = layers.tcp.event() {
            match event {
                Event::Established => self.open.push(id),
                Event::PeerClosed => layers.tcp.close(id).unwrap(),
                Event::Closed => {
                    self.open.retain(|open| *open != id);
                    layers.tcp.release(id);
                }
                Event::Readable | Event::Writable | Event::Urgent | Event::Unresponsive => {}
            }
        }
        for id in &self.open {
            echo(layers, *id);
        }
    }
}

fn echo(layers: &mut Layers, id: ConnectionId) {
    loop {
        let data = layers.tcp.received(id).unwrap().to_vec();
        let accepted_bytes = layers.tcp.send(id, &data).unwrap();
        if accepted_bytes == 0 {
            return;
        }
        layers.tcp.consume(id, accepted_bytes).unwrap();
    }
}

fn driver(options: Options, wait: Wait) -> Driver {
    let tun = Tun::open_with(Some("plumb0"), options).unwrap();
    let interface = Interface::named("plumb0").unwrap();
    interface.set_address(KERNEL, 24).unwrap();
    interface.set_mtu(MTU).unwrap();
    interface.bring_up().unwrap();
    let link = Link::Datagram(Datagram::new(MTU.into()));
    let settings = Settings { address: USERSPACE, prefix_len: 24, ..Settings::default() };
    let rng_and_meter = (Rng::from_seed(entropy::seed().unwrap()), Meter::new(Clock::None));
    let mut driver = Driver::new(Device::Tun(tun), link, settings, wait, rng_and_meter).unwrap();
    driver.parts().0.layers.tcp.listen(PORT, Profile::BULK).unwrap();
    driver
}

/// Runs `client` in a thread in the same network namespace, and the driver in this thread until the
/// client has ended.
fn serve<R: Send>(driver: &mut Driver, echo: &mut Echo, client: impl FnOnce() -> R + Send) -> R {
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let result = client();
            has_ended.store(true, Ordering::Release);
            result
        });
        while !has_ended.load(Ordering::Acquire) && !client.is_finished() {
            let until = driver.clock().now() + Duration::from_millis(5);
            driver.turn(echo, Some(until)).unwrap();
        }
        client.join().unwrap()
    })
}

fn echoes_a_megabyte(options: Options, wait: Wait) -> Driver {
    let mut driver = driver(options, wait);
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| (n / 7).to_le_bytes()[0]).collect();
    let received = serve(&mut driver, &mut Echo::default(), || {
        let mut stream = TcpStream::connect((USERSPACE, PORT)).unwrap();
        let mut writer = stream.try_clone().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| writer.write_all(&sent).unwrap());
            let mut received = vec![0; sent.len()];
            stream.read_exact(&mut received).unwrap();
            received
        })
    });
    assert!(received == sent);
    driver
}

const OFFLOADING: Options = Options {
    kind: crate::tun::Kind::Tun,
    is_offloading: true,
    has_single_datagrams: false,
    has_many_queues: false,
};
const PLAIN: Options = Options { is_offloading: false, ..OFFLOADING };

#[test]
fn a_megabyte_is_echoed_on_a_tun_with_offloads_in_super_segments() {
    in_new_network(|| {
        let driver = echoes_a_megabyte(OFFLOADING, Wait::Block);
        // Without offloads there would be 685 segments each way, and an acknowledgment for every
        // second one.
        assert!(driver.meter().counted(Counter::LinkPacketsIn) < 600);
        assert!(driver.meter().counted(Counter::LinkPacketsOut) < 600);
    });
}

#[test]
fn a_megabyte_is_echoed_on_a_tun_without_offloads_in_batches() {
    in_new_network(|| {
        let driver = echoes_a_megabyte(PLAIN, Wait::Block);
        let batch = driver.batch().unwrap();
        let counts = batch.counts();
        assert_eq!(
            counts.ring_packets + counts.written,
            driver.meter().counted(Counter::LinkPacketsOut)
        );
        assert!(!batch.has_ring() || counts.ring_packets > 0);
    });
}

#[test]
fn a_megabyte_is_echoed_while_polling() {
    in_new_network(|| _ = echoes_a_megabyte(OFFLOADING, Wait::Poll));
}

#[test]
fn a_megabyte_is_echoed_while_spinning() {
    in_new_network(|| _ = echoes_a_megabyte(OFFLOADING, Wait::Spin { nanos: 20_000 }));
}

#[test]
fn the_accounts_of_a_driver_add_up_to_its_total() {
    in_new_network(|| {
        let mut driver = driver(OFFLOADING, Wait::Block);
        driver.meter = Meter::new(Clock::Counter(crate::clock::ticks));
        serve(&mut driver, &mut Echo::default(), || {
            let mut stream = TcpStream::connect((USERSPACE, PORT)).unwrap();
            stream.write_all(b"x").unwrap();
            stream.read_exact(&mut [0]).unwrap();
        });
        driver.meter.settle();
        let meter = driver.meter();
        assert_eq!(meter.accounts().iter().sum::<u64>(), meter.total());
        assert!(meter.charged(Account::Interrupt) > 0 && meter.charged(Account::TcpFixed) > 0);
    });
}

#[test]
fn an_echo_is_one_packet_read_and_one_written() {
    in_new_network(|| {
        let mut driver = driver(OFFLOADING, Wait::Block);
        let mut echo = Echo::default();
        let mut stream = serve(&mut driver, &mut echo, || {
            let mut stream = TcpStream::connect((USERSPACE, PORT)).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.write_all(b"x").unwrap();
            stream.read_exact(&mut [0]).unwrap();
            stream
        });
        let before = [Counter::LinkPacketsIn, Counter::LinkPacketsOut]
            .map(|counter| driver.meter().counted(counter));
        const ECHOES: u64 = 200;
        serve(&mut driver, &mut echo, || {
            for _ in 0..ECHOES {
                stream.write_all(b"x").unwrap();
                stream.read_exact(&mut [0]).unwrap();
            }
        });
        let after = [Counter::LinkPacketsIn, Counter::LinkPacketsOut]
            .map(|counter| driver.meter().counted(counter));
        // In addition to the echoes, the kernel may send an acknowledgment and router
        // solicitations.
        assert!((ECHOES..ECHOES + 10).contains(&(after[0] - before[0])));
        assert_eq!(after[1] - before[1], ECHOES);
    });
}

#[test]
fn a_datagram_with_an_unfinished_checksum_is_answered_with_port_unreachable() {
    in_new_network(|| {
        let mut driver = driver(OFFLOADING, Wait::Block);
        let error = serve(&mut driver, &mut Echo::default(), || {
            let socket = UdpSocket::bind((KERNEL, 0)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            socket.connect((USERSPACE, 9)).unwrap();
            socket.send(b"is anybody there?").unwrap();
            socket.recv(&mut [0; 8]).unwrap_err().kind()
        });
        assert_eq!(error, io::ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_turn_without_anything_to_do_ends_at_its_deadline() {
    in_new_network(|| {
        let mut driver = driver(PLAIN, Wait::Block);
        let until = driver.clock().now() + Duration::from_millis(2);
        while driver.clock().now() < until {
            driver.turn(&mut Echo::default(), Some(until)).unwrap();
        }
    });
}

#[test]
fn an_interface_that_is_down_is_reported_on_the_next_write() {
    in_new_network(|| {
        let tun = Tun::open_with(Some("plumb0"), OFFLOADING).unwrap();
        let link = Link::Datagram(Datagram::new(MTU.into()));
        let rng_and_meter = (Rng::from_seed(1), Meter::new(Clock::None));
        let settings = Settings { address: USERSPACE, prefix_len: 24, ..Settings::default() };
        let mut driver =
            Driver::new(Device::Tun(tun), link, settings, Wait::Poll, rng_and_meter).unwrap();
        let (station, mut cx) = driver.parts();
        let remote = (KERNEL, PORT).into();
        station.layers.tcp.open(USERSPACE.into(), remote, Profile::BULK, &mut cx).unwrap();
        let error = driver.turn(&mut Echo::default(), None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    });
}

#[test]
fn a_full_device_is_polled_for_space_and_no_packet_is_lost() {
    in_new_network(|| {
        let mut driver = driver(OFFLOADING, Wait::Block);
        let settle = |driver: &mut Driver| {
            let until = Some(driver.clock().now());
            driver.turn(&mut Echo::default(), until).unwrap();
            driver.parts().0.packets_in_use()
        };
        let rng_and_meter = settle(&mut driver);
        driver.had_no_space = true;
        assert_eq!(settle(&mut driver), rng_and_meter);
        assert!(!driver.had_no_space);
    });
}

#[test]
fn a_station_without_a_free_packet_lets_its_timers_run_on() {
    in_new_network(|| {
        let mut driver = driver(OFFLOADING, Wait::Block);
        let rng_and_meter: Vec<Packet> = core::iter::from_fn(|| {
            let (station, mut cx) = driver.parts();
            station.lend(&mut cx)
        })
        .collect();
        let turn = driver.turn(&mut Echo::default(), None).unwrap();
        assert_eq!(turn.packets_in, 0);
        rng_and_meter.into_iter().for_each(|packet| driver.parts().0.take_back(packet));
    });
}
