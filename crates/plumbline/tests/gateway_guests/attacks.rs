//! Attacks of a guest on its host: payloads that other gateways interpret, services inside the
//! gateway, destinations inside the host, and forged source addresses.

use super::gateway_harness::{
    ALLOW_HOST, GATEWAY, GUEST, Gateway, Guest, HOST, TIMEOUT, accept, in_host_network,
    read_to_end, receive_from, wait_for_ipv6,
};
use super::raw_machine::{MACHINE, RawMachine, TCP, UDP, datagram, ip, syn, udp};
use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, UdpSocket};
use test_support::{ip as run_ip, poll_until_timeout};

/// Port to which the payloads ask a gateway to let remote hosts connect.
const REQUESTED_PORT: u16 = 40_003;

/// Payloads in which other gateways rewrite addresses or for which they open ports, by the port of
/// the server.
fn interpreted_payloads() -> Vec<(u16, Vec<u8>)> {
    let [high, low] = REQUESTED_PORT.to_be_bytes();
    let address = u32::from(GUEST);
    let sip = format!(
        "REGISTER sip:10.99.0.1 SIP/2.0\r\nVia: SIP/2.0/TCP {GUEST}:{REQUESTED_PORT}\r\n\
         Contact: <sip:x@{GUEST}:{REQUESTED_PORT};transport=tcp>\r\nContent-Length: 0\r\n\r\n"
    );
    // NAT slipstreaming: a form of a web page, of which one segment begins with a SIP request.
    let padding =
        "POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n".to_owned() + &"x".repeat(1500);
    vec![
        (21, format!("PORT 10,0,2,100,{high},{low}\r\n").into_bytes()),
        (21, format!("EPRT |1|{GUEST}|{REQUESTED_PORT}|\r\n").into_bytes()),
        (113, format!("{REQUESTED_PORT}, 21\r\n").into_bytes()),
        (514, format!("{REQUESTED_PORT}\0root\0root\0id\0").into_bytes()),
        (543, format!("{REQUESTED_PORT}\0").into_bytes()),
        (1720, vec![3, 0, 0, 12, 8, 2, 0, 1, 5, 10, 0, 2, 100, high, low]),
        (5060, sip.clone().into_bytes()),
        (5060, (padding + &sip).into_bytes()),
        (6667, format!("PRIVMSG x :\u{1}DCC SEND f {address} {REQUESTED_PORT} 9\u{1}\r\n").into()),
        (7070, [&b"PNA"[..], &[0, 10, 0, 1, 0, 2, high, low]].concat()),
    ]
}

/// Returns the local addresses of the sockets of this thread's network namespace that listen or that
/// are not connected, in the form of /proc/net.
fn open_ports() -> BTreeSet<String> {
    let sockets = |table: &str, state: &str| {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap();
        let words = text.lines().map(|line| line.split_whitespace().skip(1));
        let local = words.filter_map(|mut words| {
            let local = words.next()?;
            (words.nth(1) == Some(state)).then(|| format!("{table} {local}"))
        });
        local.collect::<Vec<_>>()
    };
    // The states TCP_LISTEN and TCP_CLOSE.
    let tables = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];
    tables.iter().flat_map(|(table, state)| sockets(table, state)).collect()
}

// attack row 100
#[test]
fn no_payload_is_rewritten_or_opens_a_port() {
    in_host_network(|| {
        let guest = Guest::new();
        let _gateway = Gateway::start(&guest, &ALLOW_HOST);
        let listener = guest.run(|| TcpListener::bind((GUEST, REQUESTED_PORT)).unwrap());
        for (port, payload) in interpreted_payloads() {
            // A process that another test starts has the last listener until it runs its program.
            let server = poll_until_timeout(|| TcpListener::bind((HOST, port)).ok());
            let ports = open_ports();
            let mut client = guest.connect(server.local_addr().unwrap()).unwrap();
            client.write_all(&payload).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let (mut stream, _) = accept(&server);
            assert_eq!(read_to_end(&mut stream), payload, "port {port}");
            // A message of the server may not open a port either.
            stream.write_all(&payload).unwrap();
            drop(stream);
            assert_eq!(read_to_end(&mut client), payload, "port {port}");
            let opened: Vec<String> = open_ports().difference(&ports).cloned().collect();
            assert_eq!(opened, [""; 0], "after a message to port {port}");
        }
        for port in [5060, 1719] {
            let server = UdpSocket::bind((HOST, port)).unwrap();
            server.set_read_timeout(Some(TIMEOUT)).unwrap();
            let payload = interpreted_payloads().remove(6).1;
            let sent = payload.clone();
            let to = server.local_addr().unwrap();
            let client = guest.run(move || {
                let socket = UdpSocket::bind((GUEST, 0)).unwrap();
                socket.send_to(&sent, to).unwrap();
                socket
            });
            let mut buffer = [0; 2048];
            let (len, from) = receive_from(&server, &mut buffer);
            assert_eq!(buffer[..len], payload);
            assert_ne!(from.port(), REQUESTED_PORT);
            drop(client);
        }
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

/// The addresses of the gateway and of its DNS forwarder.
const GATEWAY_ADDRESSES: [&str; 5] = ["10.0.2.2", "10.0.2.3", "fd00::2", "fd00::3", "fe80::2"];
const GLOBAL: &str = "fd00::5054:ff:fe12:3456";
const LINK_LOCAL: &str = "fe80::5054:ff:fe12:3456";

fn source_for(to: IpAddr) -> IpAddr {
    match to {
        IpAddr::V4(_) => MACHINE.into(),
        IpAddr::V6(to) if to.is_unicast_link_local() => LINK_LOCAL.parse().unwrap(),
        IpAddr::V6(_) => GLOBAL.parse().unwrap(),
    }
}

// attack row 103
#[test]
fn no_service_answers_at_the_well_known_ports_of_the_gateway() {
    in_host_network(|| {
        let mut machine = RawMachine::start(&["--host-loopback"]);
        for (to, own_port) in GATEWAY_ADDRESSES.into_iter().zip(50_000..) {
            let to: IpAddr = to.parse().unwrap();
            let source = source_for(to);
            let mut refused = BTreeSet::new();
            let mut record_refusals = |machine: &mut RawMachine| {
                for frame in machine.responses() {
                    let Some((TCP, segment)) = datagram(&frame) else { continue };
                    // SYN and ACK would be 0x12; RST and ACK are 0x14.
                    assert_eq!(segment[13], 0x14, "{to}: {segment:?}");
                    // A late refusal of the address before has another port.
                    if segment[2..4] == u16::to_be_bytes(own_port) {
                        refused.insert([segment[0], segment[1]]);
                    }
                }
                refused.len()
            };
            for port in 1..1024 {
                machine.send(&ip(TCP, source, to, &syn([(source, own_port), (to, port)], &[])));
                if port % 16 == 0 {
                    record_refusals(&mut machine);
                }
            }
            // The gateway connects to a few ports in a turn.
            poll_until_timeout(|| (record_refusals(&mut machine) > 900).then_some(()));
        }
    });
}

// attack row 103
#[test]
fn neither_a_file_nor_a_boot_server_answers_at_the_gateway() {
    in_host_network(|| {
        let mut machine = RawMachine::start(&["--host-loopback"]);
        let requests: [(u16, &[u8]); 4] = [
            (69, b"\0\x01../../../etc/passwd\0octet\0"),
            (69, b"\0\x01/etc/passwd\0netascii\0blksize\x001428\0"),
            (69, b"\0\x02plumb\0octet\0"),
            (4011, b"\x01\x01\x06\x00"),
        ];
        for to in GATEWAY_ADDRESSES {
            let to: IpAddr = to.parse().unwrap();
            let source = source_for(to);
            for (port, request) in requests {
                let message = udp([(source, 50_000), (to, port)], request);
                machine.send(&ip(UDP, source, to, &message));
            }
            let frames = machine.responses();
            let is_udp = |frame: &Vec<u8>| matches!(datagram(frame), Some((UDP, _)));
            assert!(!frames.iter().any(is_udp), "{to}: {frames:?}");
        }
    });
}

// attack row 104
#[test]
fn no_form_of_an_inner_address_leads_a_guest_into_its_host() {
    in_host_network(|| {
        let guest = Guest::new();
        // Servers at every address of the host, and an abstract socket, which no address names.
        let _servers =
            [TcpListener::bind("0.0.0.0:80").unwrap(), TcpListener::bind("[::1]:80").unwrap()];
        let _gateway = Gateway::start(&guest, &ALLOW_HOST);
        wait_for_ipv6(&guest);
        let addresses = [
            "10.0.2.2",
            "10.98.0.1",
            "169.254.169.254",
            "192.168.1.1",
            "172.16.0.1",
            "100.64.0.1",
            "fd00::2",
            "fd00:ec2::254",
            "64:ff9b::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::127.0.0.1",
            "2002:7f00:1::1",
            "2001:0:7f00:1::1",
            "fec0::1",
        ];
        for address in addresses {
            let to = SocketAddr::new(address.parse().unwrap(), 80);
            let error = guest.connect(to).expect_err(address);
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{address}");
        }
        let host = guest.connect(SocketAddr::new(HOST.into(), 80));
        assert!(host.is_ok(), "the permitted address of the same server: {host:?}");
    });
}

// attack row 104
#[test]
fn a_machine_reaches_its_host_by_no_mapped_or_unspecified_address() {
    in_host_network(|| {
        let servers =
            [TcpListener::bind("0.0.0.0:80").unwrap(), TcpListener::bind("[::1]:80").unwrap()];
        let mut machine = RawMachine::start(&[]);
        let source: IpAddr = GLOBAL.parse().unwrap();
        // Datagrams that the kernel of a guest would not send.
        for to in ["127.0.0.1", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::127.0.0.1"] {
            let to: IpAddr = to.parse().unwrap();
            let source = if to.is_ipv4() { MACHINE.into() } else { source };
            machine.send(&ip(TCP, source, to, &syn([(source, 50_000), (to, 80)], &[])));
        }
        for frame in machine.responses() {
            if let Some((TCP, segment)) = datagram(&frame) {
                assert_eq!(segment[13] & 2, 0, "a SYN from the host: {segment:?}");
            }
        }
        for server in servers {
            server.set_nonblocking(true).unwrap();
            assert_eq!(server.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        }
    });
}

// attack row 105
#[test]
fn a_guest_sends_from_no_address_but_its_own() {
    in_host_network(|| {
        let guest = Guest::new();
        let _gateway = Gateway::start(&guest, &ALLOW_HOST);
        let server = UdpSocket::bind((HOST, 0)).unwrap();
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        let to = server.local_addr().unwrap();
        guest.run(move || {
            for other in ["10.0.2.77", "10.0.2.2", "10.0.3.100", "192.0.2.1"] {
                run_ip(&["addr", "add", &format!("{other}/32"), "dev", "tap0"]);
                let forged = UdpSocket::bind((other, 0)).unwrap();
                forged.send_to(b"forged", to).unwrap();
                run_ip(&["addr", "del", &format!("{other}/32"), "dev", "tap0"]);
            }
            UdpSocket::bind((GUEST, 0)).unwrap().send_to(b"own", to).unwrap();
        });
        let mut buffer = [0; 16];
        let (len, _) = receive_from(&server, &mut buffer);
        // The gateway forwards datagrams in their order.
        assert_eq!(&buffer[..len], b"own");
    });
}

// attack row 105
#[test]
fn a_guest_does_not_reach_the_mapping_of_another_guest() {
    in_host_network(|| {
        let [guest, attacker] = [Guest::new(), Guest::new()];
        let other = format!("netns:{}", attacker.namespace);
        let arguments = [&other, "--allow", "10.99.0.0/16", "--allow", "10.0.0.0/16"];
        let _gateway = Gateway::start(&guest, &arguments);
        let server = UdpSocket::bind((HOST, 0)).unwrap();
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        let to = server.local_addr().unwrap();
        let socket = guest.run(move || {
            let socket = UdpSocket::bind((GUEST, 0)).unwrap();
            socket.set_read_timeout(Some(TIMEOUT)).unwrap();
            socket.send_to(b"question", to).unwrap();
            socket
        });
        let mut buffer = [0; 16];
        let (_, mapped) = receive_from(&server, &mut buffer);
        // Port shadowing: the attacker sends to the mapped port, and from the victim's address.
        let gateway = SocketAddr::new(GATEWAY.into(), mapped.port());
        attacker.run(move || {
            let socket = UdpSocket::bind(("10.0.3.100", 0)).unwrap();
            socket.send_to(b"forged", mapped).unwrap();
            socket.send_to(b"forged", gateway).unwrap();
            run_ip(&["addr", "add", "10.0.2.100/32", "dev", "tap0"]);
            let socket = UdpSocket::bind((GUEST, 0)).unwrap();
            socket.send_to(b"forged", to).unwrap();
            UdpSocket::bind(("10.0.3.100", 0)).unwrap().send_to(b"last", to).unwrap();
        });
        let (len, _) = receive_from(&server, &mut buffer);
        assert_eq!(&buffer[..len], b"last");
        server.send_to(b"answer", mapped).unwrap();
        let (len, from) = receive_from(&socket, &mut buffer);
        assert_eq!((&buffer[..len], from), (&b"answer"[..], to));
    });
}
