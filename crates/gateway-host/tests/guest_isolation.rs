//! Guests of one event loop: a guest that fails does not disturb the others, and rates are shared.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod event_loop_harness;

use event_loop_harness::{Gateway, Guest, TIMEOUT, add, ip, network, test_data};
use gateway_host::guest_network::GuestNetwork;
use gateway_host::guest_target::LineProtocol;
use gateway_host::{EventLoop, GuestDevice, Line, Notice};
use os::namespace::enter_new_network;
use os::pty::Pty;
use os::serial::Serial;
use os::tty::WindowSize;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use test_support::{in_configured_network, ip as run_ip};

const HOST: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const PERMITTED: &[&str] = &["10.99.0.0/16"];

fn in_host_network(test: impl FnOnce() + Send) {
    let address: &[&[&str]] = &[&["addr", "add", "10.99.0.1/32", "dev", "lo"]];
    in_configured_network(enter_new_network, address, test);
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((HOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Downloads `len` bytes by a new connection of the guest, and compares them.
fn download(guest: &Guest, len: usize) {
    let (listener, address) = listen();
    let mut client = guest.connect(address).unwrap();
    let mut server = accept(&listener);
    let data = test_data(len, len as u64);
    let sent = data.clone();
    let sender = thread::spawn(move || server.write_all(&sent).unwrap());
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    sender.join().unwrap();
    assert!(received == data, "{} of {} bytes", received.len(), data.len());
}

/// Adds guest 7 of this address plan at a SLIP line, and returns its number.
fn add_line(gateway: &mut Gateway, pty: &Pty) -> usize {
    let serial = Serial::open(pty.path(), 19_200).unwrap();
    let line = network(7, PERMITTED);
    let v4 = line.v4.unwrap();
    let link = LineProtocol::Slip { compresses_headers: false }.link(296, v4.gateway, v4.guest);
    gateway.add_by(move |event_loop| {
        let device = GuestDevice::Line(Line::new(serial));
        event_loop.add_guest(line.for_line(link), device).unwrap()
    })
}

#[test]
fn a_wrong_source_at_a_line_is_reported_once() {
    const END: u8 = 0o300;
    in_host_network(|| {
        let pty = Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap();
        let mut gateway = Gateway::new(None);
        let guest = add_line(&mut gateway, &pty);
        let running = gateway.start();
        let wrong = [Ipv4Addr::new(172, 16, 7, 2), Ipv4Addr::new(172, 16, 7, 3)];
        for source in [wrong[0], wrong[0], wrong[1]] {
            let datagram = udp_datagram(source, Ipv4Addr::new(198, 51, 100, 1));
            assert_eq!(pty.write(&[&datagram[..], &[END]].concat()).unwrap(), Some(29));
        }
        for source in wrong {
            let notice = running.notices.recv_timeout(TIMEOUT).unwrap();
            assert_eq!(notice, Notice::WrongSource { guest, source: source.into() });
        }
    });
}

/// Returns a datagram without data and checksum.
fn udp_datagram(source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let header = net::internet::ipv4::Header {
        source,
        destination,
        protocol: net::internet::ipv4::Protocol::Udp,
        time_to_live: 64,
        identification: 0,
        dscp_ecn: 0,
        dont_fragment: false,
    };
    let datagram = [0, 9, 0, 9, 0, 8, 0, 0];
    let len = u16::try_from(net::internet::ipv4::HEADER_LEN + datagram.len()).unwrap();
    [header.emit(len).as_slice(), &datagram].concat()
}

#[test]
fn a_guest_at_a_line_that_hangs_up_ends_and_the_others_go_on() {
    in_host_network(|| {
        let guest = Guest::new();
        let pty = Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap();
        let mut gateway = Gateway::new(None);
        let number = add_line(&mut gateway, &pty);
        gateway.add(&guest, &network(0, PERMITTED));
        let running = gateway.start();
        download(&guest, 100_000);
        drop(pty);
        let (lost, _) = running.lost.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(lost, number);
        download(&guest, 100_000);
        assert!(running.lost.try_recv().is_err());
    });
}

/// The connections of both guests share the chunks into which the data of the host is read.
#[test]
fn bulk_data_of_two_guests_is_not_mixed() {
    in_host_network(|| {
        let guests = [Guest::new(), Guest::new()];
        let mut gateway = Gateway::new(None);
        for (number, guest) in (0..).zip(&guests) {
            gateway.add(guest, &network(number, PERMITTED));
        }
        let _running = gateway.start();
        thread::scope(|scope| {
            for (guest, len) in guests.iter().zip([20_000_000, 15_000_001]) {
                scope.spawn(move || download(guest, len));
            }
        });
    });
}

#[test]
fn the_connections_of_a_guest_that_is_removed_are_reset() {
    in_host_network(|| {
        let guest = Guest::new();
        let mut event_loop = EventLoop::new().unwrap();
        let permitted = network(0, PERMITTED);
        let number = add(&mut event_loop, &guest.namespace, &permitted, Vec::new());
        let (listener, address) = listen();
        let connecting = thread::spawn(move || (guest.connect(address).unwrap(), guest));
        let mut server = loop {
            event_loop.turn(None).unwrap();
            if connecting.is_finished() {
                break accept(&listener);
            }
        };
        let (mut client, _guest) = connecting.join().unwrap();
        client.write_all(b"the first half").unwrap();
        event_loop.turn(None).unwrap();
        event_loop.remove_guest(number);
        assert!(!event_loop.has_guests());
        // The next turn resets the connection, and does not wait for an event.
        event_loop.turn(None).unwrap();
        let ended = server.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn limited_guests_receive_all_data() {
    in_host_network(|| {
        for total in [None, Some("40mbit")] {
            let guests = [Guest::new(), Guest::new()];
            let mut gateway = Gateway::new(total);
            for (number, guest) in (0..).zip(&guests) {
                let limited = GuestNetwork {
                    rate_bps: (number == 0).then_some(30_000_000),
                    ..network(number, PERMITTED)
                };
                gateway.add(guest, &limited);
            }
            let _running = gateway.start();
            thread::scope(|scope| {
                for guest in &guests {
                    scope.spawn(move || download(guest, 500_000));
                }
            });
        }
    });
}

#[test]
fn a_client_of_two_forwards_to_one_port_is_answered_by_each() {
    in_host_network(|| {
        let guest = Guest::new();
        let mut gateway = Gateway::new(None);
        let number = gateway.add(&guest, &network(0, PERMITTED));
        gateway.forward(number, "10.99.0.1:5001:7/udp");
        gateway.forward(number, "10.99.0.1:5002:7/udp");
        let _running = gateway.start();
        let server = guest.run(|| UdpSocket::bind("10.0.2.100:7").unwrap());
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        let echo = thread::spawn(move || {
            for _ in 0..4 {
                let mut buffer = [0; 100];
                let (len, from) = server.recv_from(&mut buffer).unwrap();
                server.send_to(&buffer[..len], from).unwrap();
            }
        });
        let client = UdpSocket::bind((HOST, 0)).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        for (port, text) in [(5001, "a"), (5002, "b"), (5001, "c"), (5002, "d")] {
            client.send_to(text.as_bytes(), (HOST, port)).unwrap();
            let mut buffer = [0; 100];
            let (len, from) = client.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..len], from.port()), (text.as_bytes(), port));
        }
        echo.join().unwrap();
    });
}

#[test]
fn a_client_with_an_address_in_the_network_of_the_guest_is_answered() {
    // The address of the host is that of the DNS forwarder for the guest.
    let address: &[&[&str]] = &[&["addr", "add", "10.0.2.3/32", "dev", "lo"]];
    in_configured_network(enter_new_network, address, || {
        let guest = Guest::new();
        let mut gateway = Gateway::new(None);
        let number = gateway.add(&guest, &network(0, &[]));
        gateway.forward(number, "10.0.2.3:5001:7");
        gateway.forward(number, "10.0.2.3:5001:7/udp");
        let _running = gateway.start();
        let gateway_address: IpAddr = ip("10.0.2.2");
        let listener = guest.run(|| TcpListener::bind("10.0.2.100:7").unwrap());
        let mut client = TcpStream::connect("10.0.2.3:5001").unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        let (mut server, from) = listener.accept().unwrap();
        assert_eq!(
            (client.local_addr().unwrap().ip(), from.ip()),
            (ip("10.0.2.3"), gateway_address)
        );
        server.write_all(b"data").unwrap();
        let mut data = [0; 4];
        client.read_exact(&mut data).unwrap();
        assert_eq!(&data, b"data");
        let server = guest.run(|| UdpSocket::bind("10.0.2.100:7").unwrap());
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        let client = UdpSocket::bind("10.0.2.3:0").unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        client.send_to(b"query", "10.0.2.3:5001").unwrap();
        let (len, from) = server.recv_from(&mut [0; 8]).unwrap();
        assert_eq!((len, from.ip()), (5, gateway_address));
        server.send_to(b"answer", from).unwrap();
        assert_eq!(client.recv_from(&mut [0; 8]).unwrap(), (6, "10.0.2.3:5001".parse().unwrap()));
    });
}

#[test]
fn a_guest_that_changes_its_hardware_address_keeps_its_network() {
    in_host_network(|| {
        let guest = Guest::new();
        let mut gateway = Gateway::new(None);
        gateway.add(&guest, &network(0, PERMITTED));
        let _running = gateway.start();
        download(&guest, 1000);
        guest.run(|| run_ip(&["link", "set", "tap0", "address", "02:00:00:00:07:07"]));
        download(&guest, 1000);
    });
}

#[test]
fn dns_over_tcp_reaches_the_resolver() {
    in_host_network(|| {
        let guest = Guest::new();
        let mut gateway = Gateway::new(None);
        let (listener, resolver) = listen();
        // Nothing listens at the first resolver.
        let closed = TcpListener::bind((HOST, 0)).unwrap().local_addr().unwrap();
        gateway.add_with_resolvers(&guest, &network(0, &[]), vec![closed, resolver]);
        let _running = gateway.start();
        let mut client = guest.connect("10.0.2.3:53".parse().unwrap()).unwrap();
        let mut server = accept(&listener);
        client.write_all(b"query").unwrap();
        let mut query = [0; 5];
        server.read_exact(&mut query).unwrap();
        server.write_all(b"response").unwrap();
        let mut response = [0; 8];
        client.read_exact(&mut response).unwrap();
        assert_eq!((&query, &response), (b"query", b"response"));
    });
}
