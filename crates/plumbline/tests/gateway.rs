//! Tests of `plumb gateway` with guests in network namespaces.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod gateway_harness;

use gateway_harness::{
    ALLOW_HOST, GATEWAY, GUEST, Gateway, Guest, HOST, PRIVATE, TIMEOUT, accept, command,
    in_host_network, listen, test_data,
};
use net::internet::ipv4;
use os::error_queue::ErrorOrigin;
use os::outbound::Outbound;
use os::ping_socket::PingSocket;
use os::pty::Pty;
use os::tty::WindowSize;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::{task, thread};
use test_support::{ProgramLog, poll_until_timeout};

/// The groups whose processes may open ping sockets in a network namespace.
const PING_GROUPS: &str = "/proc/sys/net/ipv4/ping_group_range";

#[test]
fn a_guest_and_a_host_exchange_data_and_close_each_direction() {
    in_host_network(|| {
        let guest = Guest::new();
        let _gateway = Gateway::start(&guest, &["--allow", "10.99.0.0/16"]);
        let (listener, address) = listen(HOST);
        let request = test_data(3_000_000, 1);
        let response = test_data(5_000_000, 2);
        let sent_request = request.clone();
        let sent_response = response.clone();
        let client = guest.connect(address).unwrap();
        let (mut server, _) = accept(&listener);
        let client = thread::spawn(move || {
            let mut client = client;
            client.write_all(&sent_request).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut received = Vec::new();
            client.read_to_end(&mut received).unwrap();
            received
        });
        let mut received = Vec::new();
        server.read_to_end(&mut received).unwrap();
        assert!(received == request);
        server.write_all(&sent_response).unwrap();
        drop(server);
        assert!(client.join().unwrap() == response);
    });
}

#[test]
fn a_refused_connection_is_refused_to_the_guest() {
    in_host_network(|| {
        let guest = Guest::new();
        let _gateway = Gateway::start(&guest, &["--allow", "10.99.0.0/16"]);
        let (listener, address) = listen(HOST);
        drop(listener);
        let error = guest.connect(address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

// Row 104 of the attack table.
#[test]
fn a_guest_reaches_neither_private_networks_nor_the_loopback_of_the_host() {
    in_host_network(|| {
        let guest = Guest::new();
        let _gateway = Gateway::start(&guest, &["--allow", "10.99.0.0/16"]);
        let (_private, private) = listen(PRIVATE);
        let (_loopback, loopback) = listen(Ipv4Addr::LOCALHOST);
        let mapped = SocketAddr::new(GATEWAY.into(), loopback.port());
        let link_local = SocketAddr::from(([169, 254, 169, 254], 80));
        for address in [private, mapped, link_local] {
            let error = guest.connect(address).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{address}");
        }
    });
}

#[test]
fn the_loopback_of_the_host_is_the_gateway_if_permitted() {
    in_host_network(|| {
        let guest = Guest::new();
        let _gateway = Gateway::start(&guest, &["--host-loopback"]);
        let (listener, address) = listen(Ipv4Addr::LOCALHOST);
        let _client = guest.connect(SocketAddr::new(GATEWAY.into(), address.port())).unwrap();
        assert!(accept(&listener).1.ip().is_loopback());
    });
}

#[test]
fn a_published_port_leads_to_the_guest_even_if_the_client_closes_at_once() {
    in_host_network(|| {
        let guest = Guest::new();
        let port = listen(Ipv4Addr::LOCALHOST).1.port();
        let _gateway = Gateway::start(&guest, &["-p", &format!("{port}:80")]);
        let (greeting, peer) = channel();
        let listener = guest.run(|| TcpListener::bind((GUEST, 80)).unwrap());
        thread::spawn(move || {
            let (mut stream, from) = accept(&listener);
            stream.write_all(b"hello").unwrap();
            greeting.send(from.ip()).unwrap();
        });
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut received = String::new();
        client.read_to_string(&mut received).unwrap();
        // The guest could not answer a loopback address.
        assert_eq!((received.as_str(), peer.recv().unwrap()), ("hello", IpAddr::V4(GATEWAY)));
    });
}

#[test]
fn a_published_port_of_a_guest_without_listener_is_reset() {
    in_host_network(|| {
        let guest = Guest::new();
        let port = listen(Ipv4Addr::LOCALHOST).1.port();
        let _gateway = Gateway::start(&guest, &["-p", &format!("{port}:80")]);
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn connections_beyond_the_limit_of_descriptors_wait_until_one_is_free() {
    const CLIENTS: usize = 80;
    in_host_network(|| {
        let guest = Guest::new();
        let port = listen(Ipv4Addr::LOCALHOST).1.port();
        let namespace = format!("netns:{}", guest.namespace);
        let mut limited = Command::new("prlimit");
        limited
            .args(["--nofile=48:48", env!("CARGO_BIN_EXE_plumb"), "gateway", &namespace])
            .args(["-p", &format!("{port}:80")]);
        let _gateway = Gateway::start_command(limited);
        let listener = guest.run(|| TcpListener::bind((GUEST, 80)).unwrap());
        let connect = |_| {
            let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            client.set_read_timeout(Some(TIMEOUT)).unwrap();
            client
        };
        let clients: Vec<TcpStream> = (0..CLIENTS).map(connect).collect();
        thread::spawn(move || {
            listener.incoming().for_each(|stream| stream.unwrap().write_all(b"hello").unwrap());
        });
        for mut client in clients {
            let mut received = String::new();
            client.read_to_string(&mut received).unwrap();
            assert_eq!(received, "hello");
        }
    });
}

#[test]
fn a_connection_without_a_descriptor_is_refused_and_the_limit_is_printed_once() {
    const LIMIT: &str = "48";
    in_host_network(|| {
        let guest = Guest::new();
        let (listener, address) = listen(HOST);
        let path = control_path("descriptors");
        let namespace = format!("netns:{}", guest.namespace);
        let mut limited = Command::new("prlimit");
        limited
            .arg(format!("--nofile={LIMIT}:{LIMIT}"))
            // With this capability, the gateway raises the limit.
            .args(["setpriv", "--bounding-set=-sys_resource", env!("CARGO_BIN_EXE_plumb")])
            .args(["gateway", &namespace, "--allow", "10.99.0.0/16"])
            .args(["--control", path.to_str().unwrap()]);
        let gateway = Gateway::start_command(limited);
        let mut control = BufReader::new(UnixStream::connect(&path).unwrap());
        // The kernel accepts the connections of the listener.
        let mut open = Vec::new();
        let refused = std::iter::from_fn(|| match guest.connect(address) {
            Ok(stream) => {
                open.push(stream);
                Some(0)
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
                Some(1)
            }
        });
        let refused: usize = refused.take(60).sum();
        assert!((1..60).contains(&refused), "{refused} refused");
        let line = gateway.log.wait_for("file descriptor");
        assert!(line.contains(&format!("is {LIMIT};")), "{line}");
        control.get_mut().write_all(b"{\"command\":\"guests\"}\n").unwrap();
        let mut reply = String::new();
        control.read_line(&mut reply).unwrap();
        assert!(reply.contains(&format!("\"no_descriptor\":{refused},")), "{reply}");
        assert!(reply.contains("\"failed_connections\":0,"), "{reply}");
        assert_eq!(gateway.log.count("file descriptor"), 1);
        // A client that waits would keep the event loop running.
        let mut late = UnixStream::connect(&path).unwrap();
        late.set_read_timeout(Some(TIMEOUT)).unwrap();
        assert_eq!(late.read(&mut [0]).unwrap(), 0);
        drop(listener);
    });
}

#[test]
fn a_wrong_source_at_a_line_is_printed_with_the_expected_one_and_counted() {
    const END: u8 = 0o300;
    in_host_network(|| {
        let line = Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap();
        let path = control_path("line");
        let guest = format!("serial:{}", line.path().display());
        let control = ["--control", path.to_str().unwrap(), "--metrics", "9559"];
        let gateway = Gateway::start_command(command(&format!("{guest}?link=slip"), &control));
        let header = ipv4::Header {
            source: Ipv4Addr::new(172, 16, 7, 2),
            destination: Ipv4Addr::new(198, 51, 100, 1),
            protocol: ipv4::Protocol::Udp,
            time_to_live: 64,
            identification: 0,
            dscp_ecn: 0,
            dont_fragment: false,
        };
        let datagram = [header.emit(28).as_slice(), &[0, 9, 0, 9, 0, 8, 0, 0], &[END]].concat();
        assert_eq!(line.write(&datagram).unwrap(), Some(29));
        let notice = gateway.log.wait_for("172.16.7.2");
        assert_eq!(
            notice,
            format!(
                "{guest}: packets from 172.16.7.2 are dropped: configure the address 10.0.2.100 \
                 at the guest"
            )
        );
        let mut control = BufReader::new(UnixStream::connect(&path).unwrap());
        control.get_mut().write_all(b"{\"command\":\"guests\"}\n").unwrap();
        let mut reply = String::new();
        control.read_line(&mut reply).unwrap();
        assert!(reply.contains("\"dropped\":{\"spoofed IPv4 source\":1}"), "{reply}");
        let mut metrics = TcpStream::connect((Ipv4Addr::LOCALHOST, 9559)).unwrap();
        metrics.set_read_timeout(Some(TIMEOUT)).unwrap();
        metrics.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let sample = format!("{{guest=\"{guest}\",reason=\"spoofed IPv4 source\"}} 1");
        let found = BufReader::new(metrics).lines().any(|line| line.unwrap().contains(&sample));
        assert!(found, "{sample}");
    });
}

#[test]
fn a_file_in_the_place_of_a_socket_is_kept() {
    in_host_network(|| {
        let path = control_path("file");
        std::fs::write(&path, "data").unwrap();
        let Output { stderr, status, .. } =
            command(&format!("qemu:{}", path.display()), &[]).output().unwrap();
        let message = String::from_utf8(stderr).unwrap();
        assert!(message.contains("in use") && status.code() == Some(4), "{message}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "data");
        std::fs::remove_file(&path).unwrap();
    });
}

// Row 105 of the attack table.
#[test]
fn a_datagram_of_another_host_does_not_reach_the_port_of_a_guest() {
    in_host_network(|| {
        let guest = Guest::new();
        let _gateway = Gateway::start(&guest, &["--allow", "10.99.0.0/16"]);
        let server = UdpSocket::bind((HOST, 0)).unwrap();
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        let address = server.local_addr().unwrap();
        let socket = guest.run(move || {
            let socket = UdpSocket::bind((GUEST, 0)).unwrap();
            socket.set_read_timeout(Some(TIMEOUT)).unwrap();
            socket.send_to(b"question", address).unwrap();
            socket
        });
        let mut buffer = [0; 16];
        let (len, mapped) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(buffer.get(..len), Some(&b"question"[..]));
        let stranger = UdpSocket::bind((HOST, 0)).unwrap();
        stranger.send_to(b"forged", mapped).unwrap();
        server.send_to(b"answer", mapped).unwrap();
        let (len, from) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((buffer.get(..len), from), (Some(&b"answer"[..]), address));
    });
}

#[test]
fn ports_are_forwarded_and_listed_through_the_control_socket() {
    in_host_network(|| {
        let guest = Guest::new();
        let path = control_path("control");
        let _gateway = Gateway::start(&guest, &["--control", path.to_str().unwrap()]);
        let mut control = BufReader::new(UnixStream::connect(&path).unwrap());
        let mut ask = |request: &str| {
            control.get_mut().write_all(request.as_bytes()).unwrap();
            control.get_mut().write_all(b"\n").unwrap();
            let mut reply = String::new();
            control.read_line(&mut reply).unwrap();
            reply
        };
        // Free in the new network. A port that was just closed may be held by a program between its
        // fork and its exec.
        let port = 8080;
        let add = format!(
            r#"{{"command":"add","protocol":"tcp","bind":"127.0.0.1","host_ports":"{port}"}}"#
        );
        assert_eq!(ask(&add), "{\"added\":1}\n");
        assert!(ask(&add).contains("forward 1 already receives"));
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        assert!(ask(r#"{"command":"list"}"#).contains(&format!("\"host_ports\":\"{port}\"")));
        assert_eq!(ask(r#"{"command":"remove","id":1}"#), "{\"done\":true}\n");
        let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        // Without an address, the port is not open to other hosts.
        let add = format!(r#"{{"command":"add","protocol":"tcp","host_ports":"{port}"}}"#);
        assert_eq!(ask(&add), "{\"added\":2}\n");
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        assert!(TcpStream::connect((HOST, port)).is_err());
        assert!(ask(r#"{"command":"list"}"#).contains("\"bind\":\"127.0.0.1\""));
        assert!(ask("{").contains("invalid request"));
        assert!(ask("[]").contains("a JSON object with the member command"));
        let by_address = r#"{"command":"list","guest":"10.0.2.100"}"#;
        assert!(ask(by_address).contains("\"forwards\":[{\"id\":2"));
        assert!(ask(r#"{"command":"guests"}"#).contains("10.0.2.100"));
    });
}

fn control_path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("plumb-gateway-{name}-{}", std::process::id()))
}

#[test]
fn each_failure_to_start_is_one_sentence_with_its_exit_code() {
    in_host_network(|| {
        let guest = Guest::new();
        let namespace = format!("netns:{}", guest.namespace);
        let (_listener, address) = listen(Ipv4Addr::LOCALHOST);
        let port = format!("{}:80", address.port());
        let failure = |guest: &str, arguments: &[&str]| {
            let Output { stderr, status, .. } = command(guest, arguments).output().unwrap();
            (String::from_utf8(stderr).unwrap(), status.code())
        };
        let (message, code) = failure(&namespace, &["-p", &port]);
        assert!(message.contains("in use") && code == Some(4), "{message}");
        let (message, code) = failure("pid:4194305", &[]);
        assert_eq!(
            (message.as_str(), code),
            ("plumb: error: there is no process 4194305\n", Some(4))
        );
        let (message, code) = failure("netns:/nonexistent/ns", &[]);
        assert!(message.contains("/nonexistent/ns") && code == Some(4), "{message}");
        let (message, code) = failure("netns:/proc/self/ns/net", &[]);
        assert!(message.contains("is the one of this program") && code == Some(4), "{message}");
        let (message, code) = failure(&namespace, &["-p", "127.0.0.1:8000-8009", "-p", "8005"]);
        assert!(message.contains("already receives") && code == Some(2), "{message}");
        let (message, code) = failure(&format!("{namespace}?address=10.7.0.255"), &[]);
        assert!(message.contains("10.7.0.255 is no address") && code == Some(2), "{message}");
        let (message, code) = failure(&namespace, &["--allow", "private"]);
        assert!(message.contains("use an address or a prefix") && code == Some(2), "{message}");
        let long = format!("/tmp/{}", "x".repeat(104));
        let (message, code) = failure(&namespace, &["--control", &long]);
        assert!(message.contains("at most 107 bytes") && code == Some(4), "{message}");
        let (message, code) = failure(&namespace, &[&format!("{namespace}?mtu=1400")]);
        assert!(message.contains("is given twice") && code == Some(2), "{message}");
        let (message, code) = failure("tap0", &[]);
        assert!(message.contains("netns:NAME") && code == Some(2), "{message}");
        let socket = control_path("machine");
        let machine = format!("qemu:{}?address=10.0.2.100", socket.display());
        let (message, code) = failure(&namespace, &[&machine]);
        assert!(message.contains("two guests have the address") && code == Some(2), "{message}");
    });
}

#[test]
fn a_signal_ends_the_gateway_and_removes_its_control_socket() {
    in_host_network(|| {
        for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::QUIT, 131)] {
            let guest = Guest::new();
            let path = control_path("signal");
            let mut gateway = Gateway::start(&guest, &["--control", path.to_str().unwrap()]);
            assert!(path.exists());
            kill_process(Pid::from_child(&gateway.child), signal).unwrap();
            assert_eq!(gateway.wait().code(), Some(code));
            assert!(!path.exists());
        }
    });
}

#[test]
fn messages_that_cannot_be_written_do_not_end_the_gateway() {
    in_host_network(|| {
        let guest = Guest::new();
        let mut gateway = command(&format!("netns:{}", guest.namespace), &ALLOW_HOST);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut gateway = gateway.stderr(full).spawn().unwrap();
        let (listener, address) = listen(HOST);
        let _client = poll_until_timeout(|| guest.connect(address).ok());
        accept(&listener);
        kill_process(Pid::from_child(&gateway), Signal::TERM).unwrap();
        assert_eq!(gateway.wait().unwrap().code(), Some(143));
    });
}

#[test]
fn a_reader_of_the_messages_that_stops_does_not_stop_the_gateway() {
    in_host_network(|| {
        let guest = Guest::new();
        let line = Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap();
        let serial = format!("serial:{}?link=slip", line.path().display());
        let namespace = format!("netns:{}", guest.namespace);
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let mut gateway = command(&namespace, &[&[serial.as_str()], &ALLOW_HOST[..]].concat());
        let child = gateway.stderr(writer.try_clone().unwrap()).spawn().unwrap();
        let mut gateway = Gateway { child, log: ProgramLog::read(std::io::empty()) };
        let mut started = Vec::new();
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        poll_until_timeout(|| {
            let mut buffer = [0; 4096];
            let len = reader.read(&mut buffer).unwrap_or(0);
            started.extend_from_slice(&buffer[..len]);
            let text = String::from_utf8_lossy(&started);
            text.contains(&format!("{}: ", line.path().display())).then_some(())
        });
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        while writer.write(&[b'x'; 4096]).is_ok() {}
        rustix::io::ioctl_fionbio(&writer, false).unwrap();
        // The gateway reports the end of the line.
        drop(line);
        let (listener, address) = listen(HOST);
        let mut client = guest.connect(address).unwrap();
        let (mut server, _) = accept(&listener);
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0]).unwrap();
        kill_process(Pid::from_child(&gateway.child), Signal::TERM).unwrap();
        assert_eq!(gateway.wait().code(), Some(143));
    });
}

#[test]
fn messages_on_a_narrow_terminal_are_wrapped_between_words() {
    in_host_network(|| {
        let guest = Guest::new();
        let screen = Pty::open(WindowSize { rows: 24, columns: 40 }).unwrap();
        let terminal = screen.terminal().try_clone_to_owned().unwrap();
        let mut gateway = command(&format!("netns:{}", guest.namespace), &["--no-ipv6"]);
        let child = gateway.stderr(terminal).spawn().unwrap();
        let _gateway = Gateway { child, log: ProgramLog::read(std::io::empty()) };
        let mut shown = Vec::new();
        let text = poll_until_timeout(|| {
            let mut buffer = [0; 4096];
            let len = screen.read(&mut buffer).ok().flatten().unwrap_or(0);
            shown.extend_from_slice(&buffer[..len]);
            let text = String::from_utf8(shown.clone()).unwrap();
            text.ends_with("10.0.2.3\r\n").then_some(text)
        });
        assert!(text.ends_with("\n10.0.2.100, gateway 10.0.2.2, DNS\r\n10.0.2.3\r\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    });
}

#[test]
fn a_guest_whose_mtu_is_too_small_for_ipv6_has_only_ipv4() {
    in_host_network(|| {
        let guests = [Guest::new(), Guest::new()];
        let [small, large] = guests.each_ref().map(|guest| format!("netns:{}", guest.namespace));
        let mut started = command(&format!("{small}?mtu=1279"), &[&format!("{large}?mtu=1280")]);
        started.args(ALLOW_HOST);
        let gateway = Gateway::start_command(started);
        gateway.log.wait_for("fd00:");
        let lines = gateway.log.lines();
        let addresses_of = |guest: &str| {
            let line = lines.iter().find_map(|line| line.strip_prefix(guest)).unwrap();
            line.to_owned()
        };
        assert_eq!(addresses_of(&small), ": 10.0.2.100, gateway 10.0.2.2, DNS 10.0.2.3");
        assert!(addresses_of(&large).contains("; fd00:"), "{lines:?}");
    });
}

#[test]
fn an_ignored_hang_up_does_not_end_the_gateway() {
    in_host_network(|| {
        let guest = Guest::new();
        let gateway = command(&format!("netns:{}", guest.namespace), &[]);
        let mut ignoring = Command::new("sh");
        ignoring.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]);
        ignoring.arg(gateway.get_program()).args(gateway.get_args());
        let mut gateway = Gateway::start_command(ignoring);
        kill_process(Pid::from_child(&gateway.child), Signal::HUP).unwrap();
        kill_process(Pid::from_child(&gateway.child), Signal::TERM).unwrap();
        assert_eq!(gateway.wait().code(), Some(143));
    });
}

#[test]
fn a_ping_that_the_host_does_not_permit_is_reported_as_prohibited() {
    in_host_network(|| {
        std::fs::write(PING_GROUPS, "1 0").unwrap();
        let guest = Guest::new();
        let _gateway = Gateway::start(&guest, &ALLOW_HOST);
        let report = guest.run(|| {
            std::fs::write(PING_GROUPS, "0 2147483647").unwrap();
            let socket = PingSocket::open(true, 0, &Outbound::default()).unwrap();
            // Echo request of RFC 792; the kernel writes the checksum and the identifier.
            let sent = socket.send(&[8, 0, 0, 0, 0, 0, 0, 1], HOST.into());
            assert!(matches!(sent, task::Poll::Ready(Ok(()))));
            let mut ready = [PollFd::new(&socket, PollFlags::empty())];
            let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
            assert_eq!(poll(&mut ready, Some(&limit)).unwrap(), 1);
            socket.error_report(&mut [0; 64]).unwrap()
        });
        assert_eq!(report.reporter, Some(GATEWAY.into()));
        assert!(matches!(report.origin, ErrorOrigin::Icmp { kind: 3, code: 13, .. }), "{report:?}");
    });
}

#[test]
fn guests_are_named_with_their_addresses_and_what_they_cannot_reach() {
    in_host_network(|| {
        std::fs::write(PING_GROUPS, "1 0").unwrap();
        let guests = [Guest::new(), Guest::new()];
        let [guest, other] = guests.each_ref().map(|guest| format!("netns:{}", guest.namespace));
        let path = control_path("named");
        let rated = format!("{other}?rate=2mbit");
        let arguments = ["--allow", "10.0.2.7", "--control", path.to_str().unwrap()];
        let mut started = command(&guest, &[&rated]);
        started.args(arguments);
        let gateway = Gateway::start_command(started);
        let expected = [
            "guests cannot ping: cannot open a ping socket: permission denied; let root run \
             'sysctl net.ipv4.ping_group_range=\"0 2147483647\"'"
                .to_owned(),
            format!(
                "{guest} cannot reach 10.0.2.7/32: its own network is 10.0.2.0/24: choose another \
                 with address="
            ),
            format!(
                "{guest}: 10.0.2.100, gateway 10.0.2.2, DNS 10.0.2.3; fd00::/64, gateway fd00::2, \
                 DNS fd00::3"
            ),
            format!(
                "{other}: 10.0.3.100, gateway 10.0.3.2, DNS 10.0.3.3; fd00:0:0:1::/64, gateway \
                 fd00:0:0:1::2, DNS fd00:0:0:1::3"
            ),
        ];
        gateway.log.wait_for("fd00:0:0:1::3");
        assert_eq!(gateway.log.lines(), expected);
        let mut control = UnixStream::connect(&path).unwrap();
        // Without the end of the line, the end of the input ends the request.
        control.write_all(format!(r#"{{"command":"list","guest":"{other}"}}"#).as_bytes()).unwrap();
        control.shutdown(Shutdown::Write).unwrap();
        let mut reply = String::new();
        control.read_to_string(&mut reply).unwrap();
        assert_eq!(reply, "{\"forwards\":[]}\n");
    });
}

#[test]
fn the_gateway_ends_with_its_guest() {
    in_host_network(|| {
        let mut guest =
            Command::new("unshare").args(["--net", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut gateway =
            command(&format!("pid:{}", guest.id()), &[]).stderr(Stdio::piped()).spawn().unwrap();
        let log = ProgramLog::read(gateway.stderr.take().unwrap());
        log.wait_for("10.0.2.100");
        drop(guest.stdin.take());
        guest.wait().unwrap();
        log.wait_for("is gone");
        assert!(gateway.wait().unwrap().success());
    });
}
