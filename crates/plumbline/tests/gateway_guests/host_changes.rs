//! The host's network and the host's view of a guest: addresses that appear later, addresses of
//! clients, windows, and the work of an idle gateway.

use super::gateway_harness::{
    ALLOW_HOST, GATEWAY, GUEST, Gateway, Guest, HOST, PRIVATE, TIMEOUT, accept, in_host_network,
    listen, read_to_end, receive_from, slirp4netns,
};
use super::raw_machine::{MACHINE, RawMachine, TCP, datagram, ipv4, syn};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use test_support::{ip, poll_until_timeout};

#[test]
fn a_server_sees_the_address_of_the_client_of_a_published_port() {
    in_host_network(|| {
        let guest = Guest::new();
        let port = listen(HOST).1.port();
        let publish = [format!("0.0.0.0:{port}:80"), format!("0.0.0.0:{port}:53/udp")];
        let _gateway = Gateway::start(&guest, &["-p", &publish[0], "-p", &publish[1]]);
        let listener = guest.run(|| TcpListener::bind((GUEST, 80)).unwrap());
        let client = TcpStream::connect((HOST, port)).unwrap();
        assert_eq!(accept(&listener).1, client.local_addr().unwrap());
        let server = guest.run(|| UdpSocket::bind((GUEST, 53)).unwrap());
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        let client = UdpSocket::bind((HOST, 0)).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        client.send_to(b"question", (HOST, port)).unwrap();
        let mut buffer = [0; 16];
        let (_, from) = receive_from(&server, &mut buffer);
        assert_eq!(from, client.local_addr().unwrap());
        server.send_to(b"answer", from).unwrap();
        let (len, from) = receive_from(&client, &mut buffer);
        assert_eq!((&buffer[..len], from), (&b"answer"[..], SocketAddr::from((HOST, port))));
    });
}

#[test]
fn a_port_is_published_at_an_ipv6_address() {
    in_host_network(|| {
        ip(&["addr", "add", "fd99::1/128", "dev", "lo", "nodad"]);
        let guest = Guest::new();
        let port = TcpListener::bind("[fd99::1]:0").unwrap().local_addr().unwrap().port();
        let _gateway = Gateway::start(&guest, &["-p", &format!("[fd99::1]:{port}:80")]);
        let listener = guest.run(|| TcpListener::bind("[::]:80").unwrap());
        // The kernel adds the route to a new address a moment later.
        let mut client = poll_until_timeout(|| TcpStream::connect(("fd99::1", port)).ok());
        let (mut server, from) = accept(&listener);
        // The gateway knows only the IPv4 address of the guest, and translates.
        assert_eq!(from.ip().to_canonical(), GATEWAY);
        server.write_all(b"hello").unwrap();
        drop(server);
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        assert_eq!(read_to_end(&mut client), b"hello");
    });
}

#[test]
fn connections_and_datagrams_have_the_outbound_address() {
    in_host_network(|| {
        let guest = Guest::new();
        let outbound = format!("--outbound-addr={PRIVATE}");
        let (mut gateway, log) =
            slirp4netns(&["-c", &outbound, "--netns-type=path", &guest.namespace, "tap0"]);
        log.wait_for("Recommended IP");
        let (listener, address) = listen(HOST);
        let _client = guest.connect(address).unwrap();
        assert_eq!(accept(&listener).1.ip(), PRIVATE);
        let server = UdpSocket::bind((HOST, 0)).unwrap();
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        let to = server.local_addr().unwrap();
        guest.run(move || UdpSocket::bind((GUEST, 0)).unwrap().send_to(b"hello", to).unwrap());
        assert_eq!(receive_from(&server, &mut [0; 16]).1.ip(), PRIVATE);
        gateway.kill().unwrap();
        gateway.wait().unwrap();
    });
}

#[test]
fn a_guest_reaches_an_address_that_its_host_gets_later() {
    in_host_network(|| {
        let guest = Guest::new();
        let port = listen(HOST).1.port();
        let publish = format!("0.0.0.0:{port}:80");
        // The host has no route but those to its own addresses.
        let _gateway = Gateway::start(&guest, &["--allow", "10.97.0.0/16", "-p", &publish]);
        let later = Ipv4Addr::new(10, 97, 0, 1);
        let to = SocketAddr::from((later, 8000));
        assert!(guest.connect(to).is_err());
        ip(&["addr", "add", "10.97.0.1/32", "dev", "lo"]);
        let server = TcpListener::bind(to).unwrap();
        let _client = guest.connect(to).unwrap();
        accept(&server);
        let listener = guest.run(|| TcpListener::bind((GUEST, 80)).unwrap());
        let _client = TcpStream::connect((later, port)).unwrap();
        accept(&listener);
    });
}

#[test]
fn a_connection_of_a_guest_has_large_windows_selective_acknowledgments_and_timestamps() {
    in_host_network(|| {
        let (_listener, address) = listen(HOST);
        let mut machine = RawMachine::start(&ALLOW_HOST);
        let ends = [(MACHINE.into(), 50_000), (HOST.into(), address.port())];
        // Maximum segment size, SACK permitted, timestamps, and window scale.
        let options = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0, 1, 3, 3, 10];
        machine.send(&ipv4(TCP, MACHINE, HOST, &syn(ends, &options)));
        // The gateway answers after the host, which may be later than the next frame.
        let answer = poll_until_timeout(|| {
            let frames = machine.responses();
            let segments = frames.iter().filter_map(|frame| datagram(frame));
            let mut tcp = segments.filter(|(protocol, _)| *protocol == TCP);
            tcp.next().map(|(_, segment)| segment.to_vec())
        });
        assert_eq!(answer[13], 0x12, "SYN and ACK");
        let mut options = &answer[20..usize::from(answer[12] >> 4) * 4];
        let mut scale = None;
        let mut kinds = Vec::new();
        while let Some((&kind, rest)) = options.split_first() {
            let len = if kind <= 1 { 1 } else { usize::from(rest[0]) };
            if kind == 3 {
                scale = Some(options[2]);
            }
            if kind == 8 {
                assert_eq!(options[6..10], [0, 0, 0, 7], "the timestamp is echoed");
            }
            kinds.push(kind);
            options = &options[len..];
        }
        assert!([2, 4, 8].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
        // With a shift of 7, a window covers 8 MiB.
        assert_eq!(scale, Some(7));
    });
}

#[test]
fn an_idle_gateway_with_an_open_connection_waits_without_a_timer() {
    in_host_network(|| {
        let guest = Guest::new();
        // With IPv6, a router advertisement is due every few minutes.
        let arguments = [&ALLOW_HOST[..], &["--no-ipv6"]].concat();
        let gateway = Gateway::start(&guest, &arguments);
        let (listener, address) = listen(HOST);
        let mut client = guest.connect(address).unwrap();
        client.write_all(b"hello").unwrap();
        let (mut server, _) = accept(&listener);
        server.write_all(b"hello").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        // The next timer is the keep-alive of the connection, in minutes.
        poll_until_timeout(|| (next_timer_s(gateway.child.id()) >= 60).then_some(()));
    });
}

/// Returns the seconds until the timer of a process expires, or the maximum if it is not set.
fn next_timer_s(process: u32) -> u64 {
    let directory = format!("/proc/{process}/fdinfo");
    let texts =
        fs::read_dir(directory).unwrap().map(|file| fs::read_to_string(file.unwrap().path()));
    let text = texts.map(Result::unwrap).find(|text| text.contains("it_value")).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix("it_value: (")).unwrap();
    match value.split(',').next().unwrap() {
        "0" if value.contains(" 0)") => u64::MAX,
        seconds => seconds.parse().unwrap(),
    }
}
