//! ICMP errors of the host's network as a guest receives them: guest, host, a router and a server, each
//! in a network namespace of its own.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod event_loop_harness;

use event_loop_harness::{Gateway, Guest, Running, TIMEOUT, add, add_with_settings, ip, network};
use gateway_host::guest_network::GuestNetwork;
use gateway_host::{EventLoop, GuestSettings};
use os::datagram::DatagramSocket;
use os::error_queue::{ErrorOrigin, ErrorReport};
use os::namespace::enter_new_network;
use os::outbound::Outbound;
use os::ping_socket::PingSocket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::task::Poll;
use test_support::{in_new_network, ip as run_ip};

const PERMITTED: &[&str] = &["10.99.0.0/16"];
/// Addresses of the router and of the server behind it.
const ROUTER: &str = "10.99.0.2";
const SERVER: &str = "10.99.1.2";

/// The network around the host.
struct Surroundings {
    router: Guest,
    /// The namespace of the server lasts as long as its thread.
    _server: Guest,
}

/// Moves `interface` of this namespace to that of `guest`, and configures it with `arguments`.
fn give(interface: &str, guest: &Guest, commands: &'static [&'static [&'static str]]) {
    let thread = guest.run(|| rustix::thread::gettid().as_raw_nonzero().to_string());
    run_ip(&["link", "set", interface, "netns", &thread]);
    guest.run(move || commands.iter().for_each(|command| run_ip(command)));
}

/// Connects this namespace, the host, to a router and a server behind it.
fn surroundings() -> Surroundings {
    let [router, server] = [Guest::new(), Guest::new()];
    std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0").unwrap();
    run_ip(&["link", "set", "lo", "up"]);
    run_ip(&["link", "add", "host0", "type", "veth", "peer", "name", "router0"]);
    run_ip(&["link", "add", "router1", "type", "veth", "peer", "name", "server0"]);
    give(
        "router0",
        &router,
        &[&["addr", "add", "10.99.0.2/24", "dev", "router0"], &["link", "set", "router0", "up"]],
    );
    give(
        "router1",
        &router,
        &[
            &["addr", "add", "10.99.1.1/24", "dev", "router1"],
            &["link", "set", "router1", "mtu", "1300", "up"],
        ],
    );
    router.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
    give(
        "server0",
        &server,
        &[
            &["addr", "add", "10.99.1.2/24", "dev", "server0"],
            &["link", "set", "server0", "mtu", "1300", "up"],
            &["route", "add", "default", "via", "10.99.1.1"],
        ],
    );
    run_ip(&["addr", "add", "10.99.0.1/24", "dev", "host0"]);
    run_ip(&["link", "set", "host0", "up"]);
    run_ip(&["route", "add", "10.99.1.0/24", "via", ROUTER]);
    Surroundings { router, _server: server }
}

fn gateway(guest: &Guest) -> Running {
    let mut gateway = Gateway::new(None);
    gateway.add(guest, &network(0, PERMITTED));
    gateway.start()
}

fn in_host_network(test: impl FnOnce() + Send) {
    in_new_network(enter_new_network, test);
}

fn wait_for(socket: &impl AsFd) {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    let limit = Timespec { tv_sec: TIMEOUT.as_secs().try_into().unwrap(), tv_nsec: 0 };
    assert_eq!(poll(&mut fds, Some(&limit)).unwrap(), 1, "an error within the time limit");
}

/// Sends a datagram of `len` bytes of the guest with a hop limit, and returns the error report.
fn probe(guest: &Guest, to: &str, (hop_limit, len): (u8, usize)) -> ErrorReport {
    let to: SocketAddr = to.parse().unwrap();
    guest.run(move || {
        let socket = DatagramSocket::bind("10.0.2.100:0".parse().unwrap()).unwrap();
        socket.set_hop_limit(hop_limit).unwrap();
        socket.forbid_fragments(true).unwrap();
        let sent = socket.send(&vec![b'p'; len], &[len], to);
        assert!(matches!(sent, Poll::Ready(Ok(1))), "{sent:?}");
        wait_for(&socket);
        let mut quoted = [0; 8];
        let report = socket.error_report(&mut quoted).unwrap();
        assert_eq!((report.to, &quoted), (to, b"pppppppp"));
        report
    })
}

#[test]
fn a_traceroute_by_udp_finds_the_router_and_the_server() {
    in_host_network(|| {
        let _surroundings = surroundings();
        let guest = Guest::new();
        let _gateway = gateway(&guest);
        let to = format!("{SERVER}:33434");
        let expected = [(1, ROUTER, (11, 0)), (2, SERVER, (3, 3))];
        for (hop_limit, reporter, (kind, code)) in expected {
            let report = probe(&guest, &to, (hop_limit, 32));
            assert_eq!(report.reporter, Some(ip(reporter)));
            assert_eq!(report.origin, ErrorOrigin::Icmp { kind, code, mtu_bytes: 0 });
        }
    });
}

#[test]
fn a_traceroute_by_echo_requests_finds_the_router_and_the_server() {
    in_host_network(|| {
        let _surroundings = surroundings();
        let guest = Guest::new();
        let _gateway = gateway(&guest);
        guest.run(|| {
            std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0").unwrap();
            let outbound = Outbound::default();
            let socket = PingSocket::open(true, 77, &outbound).unwrap();
            let server: IpAddr = ip(SERVER);
            let request = [8, 0, 0, 0, 0, 0, 0, 5, b'd', b'a', b't', b'a'];
            socket.set_hop_limit(1).unwrap();
            assert!(socket.send(&request, server).is_ready());
            wait_for(&socket);
            let mut quoted = [0; 12];
            let report = socket.error_report(&mut quoted).unwrap();
            assert_eq!((report.to.ip(), report.reporter), (server, Some(ip(ROUTER))));
            assert_eq!(quoted[4..8], [0, 77, 0, 5]);
            assert_eq!(report.origin, ErrorOrigin::Icmp { kind: 11, code: 0, mtu_bytes: 0 });
            socket.set_hop_limit(2).unwrap();
            assert!(socket.send(&request, server).is_ready());
            wait_for(&socket);
            let mut reply = [0; 100];
            let Poll::Ready(Ok((_, from))) = socket.receive(&mut reply) else { panic!("a reply") };
            assert_eq!(from, server);
        });
    });
}

#[test]
fn the_path_mtu_of_the_host_reaches_the_guest() {
    in_host_network(|| {
        let _surroundings = surroundings();
        let guest = Guest::new();
        let _gateway = gateway(&guest);
        let to = format!("{SERVER}:9");
        // The first error is that of the router, and the second that of the host, which knows the
        // path MTU then. The guest's kernel knows it too.
        let report = probe(&guest, &to, (64, 1400));
        assert_eq!((report.path_mtu(), report.reporter), (Some(1300), Some(ip(ROUTER))));
        let route = guest.run(|| {
            let output = std::process::Command::new("ip").args(["route", "get", SERVER]).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        });
        assert!(route.contains("mtu 1300"), "{route}");
    });
}

/// Sends a datagram of `len` bytes of the guest without options, as most programs do.
fn send(guest: &Guest, len: usize, to: SocketAddr) {
    guest.run(move || {
        let socket = UdpSocket::bind("10.0.2.100:0").unwrap();
        assert_eq!(socket.send_to(&vec![b'd'; len], to).unwrap(), len);
    });
}

/// Returns a socket of the router.
fn receiver(surroundings: &Surroundings) -> (UdpSocket, SocketAddr) {
    let socket = surroundings.router.run(|| UdpSocket::bind((ROUTER, 0)).unwrap());
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[test]
fn the_mtu_of_the_interface_of_the_host_reaches_the_guest_which_fragments_then() {
    in_host_network(|| {
        let surroundings = surroundings();
        run_ip(&["link", "set", "host0", "mtu", "1400"]);
        let guest = Guest::new();
        let _gateway = gateway(&guest);
        let (socket, address) = receiver(&surroundings);
        let report = probe(&guest, &address.to_string(), (64, 1450));
        assert_eq!((report.path_mtu(), report.reporter), (Some(1400), Some(ip("10.0.2.2"))));
        send(&guest, 1450, address);
        assert_eq!(socket.recv(&mut [0; 2000]).unwrap(), 1450);
    });
}

#[test]
fn a_datagram_that_the_host_does_not_send_is_counted_and_reported_once() {
    in_host_network(|| {
        let _surroundings = surroundings();
        run_ip(&["link", "set", "host0", "mtu", "1400"]);
        let guest = Guest::new();
        let mut event_loop = EventLoop::new().unwrap();
        let number = add(&mut event_loop, &guest.namespace, &network(0, PERMITTED), Vec::new());
        send(&guest, 1450, SocketAddr::new(ip(ROUTER), 9));
        let until = event_loop.now() + net::time::Duration::from_secs(20);
        let counts = |event_loop: &EventLoop| {
            let guest = event_loop.guest(number).unwrap();
            (guest.udp().counters().unsent, guest.error_counters().sent)
        };
        while counts(&event_loop).0 == 0 && event_loop.now() < until {
            event_loop.turn(Some(until)).unwrap();
        }
        assert_eq!(counts(&event_loop), (1, 1));
    });
}

/// As with slirp4netns and pasta, whose guests have an MTU of 65,520 bytes.
#[test]
fn the_host_fragments_datagrams_with_df_if_the_settings_permit_it() {
    in_host_network(|| {
        let surroundings = surroundings();
        let guest = Guest::new();
        let path = guest.namespace.clone();
        let mut gateway = Gateway::new(None);
        gateway.add_by(move |event_loop| {
            let network = GuestNetwork { mtu_bytes: 65_520, ..network(0, PERMITTED) };
            let fragmenting = GuestSettings { fragments_datagrams: true, ..network.for_frames() };
            add_with_settings(event_loop, &path, &network, fragmenting)
        });
        let _gateway = gateway.start();
        let (socket, address) = receiver(&surroundings);
        for len in [4000, 60_000] {
            send(&guest, len, address);
            assert_eq!(socket.recv(&mut vec![0; 65_536]).unwrap(), len);
        }
    });
}

#[test]
fn refused_and_unreachable_destinations_are_errors_of_the_guest() {
    in_host_network(|| {
        let _surroundings = surroundings();
        let guest = Guest::new();
        let _gateway = gateway(&guest);
        let udp_error = |to: &'static str| {
            guest.run(move || {
                let socket = UdpSocket::bind("10.0.2.100:0").unwrap();
                socket.set_read_timeout(Some(TIMEOUT)).unwrap();
                socket.connect(to).unwrap();
                socket.send(b"data").unwrap();
                socket.recv(&mut [0; 10]).unwrap_err().kind()
            })
        };
        assert_eq!(udp_error("10.99.0.1:9"), ErrorKind::ConnectionRefused);
        // The policy refuses it.
        assert_eq!(udp_error("10.98.0.1:9"), ErrorKind::HostUnreachable);
        // The host has no route to it. Linux reports this only to a socket that asks for errors.
        let report = probe(&guest, "10.99.7.1:9", (64, 10));
        assert_eq!(report.origin, ErrorOrigin::Icmp { kind: 3, code: 0, mtu_bytes: 0 });
        assert_eq!(report.reporter, Some(ip("10.0.2.2")));
        let tcp_error = |to: &str| guest.connect(to.parse().unwrap()).unwrap_err().kind();
        assert_eq!(tcp_error("10.99.0.1:9"), ErrorKind::ConnectionRefused);
        assert_eq!(tcp_error("10.98.0.1:9"), ErrorKind::ConnectionRefused);
        assert_eq!(tcp_error("10.99.7.1:9"), ErrorKind::NetworkUnreachable);
    });
}

#[test]
fn flows_survive_while_the_link_of_the_host_is_down() {
    in_host_network(|| {
        let surroundings = surroundings();
        let guest = Guest::new();
        let _gateway = gateway(&guest);
        let listener = surroundings.router.run(|| TcpListener::bind((ROUTER, 0)).unwrap());
        let address = listener.local_addr().unwrap();
        let exchange = |client: &mut std::net::TcpStream, server: &mut std::net::TcpStream| {
            client.write_all(b"data").unwrap();
            let mut data = [0; 4];
            server.read_exact(&mut data).unwrap();
            assert_eq!(&data, b"data");
        };
        let connect = || {
            let client = guest.connect(address).unwrap();
            let (server, _) = listener.accept().unwrap();
            server.set_read_timeout(Some(TIMEOUT)).unwrap();
            (client, server)
        };
        let (mut client, mut server) = connect();
        exchange(&mut client, &mut server);
        run_ip(&["link", "set", "host0", "down"]);
        client.write_all(b"while").unwrap();
        let error = guest.connect(address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NetworkUnreachable);
        run_ip(&["link", "set", "host0", "up"]);
        let mut data = [0; 5];
        server.read_exact(&mut data).unwrap();
        assert_eq!(&data, b"while");
        exchange(&mut client, &mut server);
        let (mut client, mut server) = connect();
        exchange(&mut client, &mut server);
    });
}
