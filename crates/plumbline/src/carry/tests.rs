//! Tests of the carriers against an echo server on kernel sockets.

use super::*;
use os::interface::Interface;
use os::pty::Pty;
use os::tty::WindowSize;
use os::tun::Tun;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

/// Session that sends its text, expects it back and closes.
#[derive(Debug)]
struct Echoed {
    to_send: Vec<u8>,
    wanted: usize,
    received: Vec<u8>,
    /// Addresses to which a connection was about to open.
    reached: Vec<SocketAddr>,
    /// Receive delays that the carrier reported.
    delays: Vec<Duration>,
}

impl Echoed {
    fn new(text: Vec<u8>) -> Self {
        Self {
            wanted: text.len(),
            to_send: text,
            received: Vec::new(),
            reached: Vec::new(),
            delays: Vec::new(),
        }
    }
}

impl Stream for Echoed {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, data: &[u8], _cx: &mut Cx<'_>) {
        self.received.extend_from_slice(data);
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        &self.to_send
    }

    fn sent(&mut self, count: usize) {
        self.to_send.drain(..count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        self.received.len() == self.wanted
    }
}

impl Session for Echoed {
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn reached(&mut self, address: SocketAddr) {
        self.reached.push(address);
    }

    fn wants_receive_delays(&self) -> bool {
        true
    }

    fn take_receive_delay(&mut self, delay: Duration) {
        self.delays.push(delay);
    }

    fn take_input(&mut self, _index: usize, _cx: &mut Cx<'_>) -> Result<()> {
        Ok(())
    }

    fn flush(&mut self, _cx: &mut Cx<'_>) -> Result<()> {
        Ok(())
    }

    fn take_status(&mut self, _status: &CarrierStatus) {}

    fn wants_status(&self) -> bool {
        false
    }

    fn is_over(&self) -> bool {
        false
    }
}

/// Session that ends as soon as its input is readable.
struct Ended {
    near: UnixStream,
    is_over: bool,
}

impl Ended {
    /// Creates a session whose input is readable at once.
    fn at_once() -> Self {
        let (near, mut teller) = UnixStream::pair().unwrap();
        teller.write_all(b"!").unwrap();
        Self { near, is_over: false }
    }
}

impl Stream for Ended {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, _data: &[u8], _cx: &mut Cx<'_>) {}

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        &[]
    }

    fn sent(&mut self, _count: usize) {}

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }
}

impl Session for Ended {
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.near.as_fd()]
    }

    fn take_input(&mut self, _index: usize, _cx: &mut Cx<'_>) -> Result<()> {
        self.is_over = true;
        Ok(())
    }

    fn flush(&mut self, _cx: &mut Cx<'_>) -> Result<()> {
        Ok(())
    }

    fn take_status(&mut self, _status: &CarrierStatus) {}

    fn wants_status(&self) -> bool {
        false
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

fn port_of(listener: &TcpListener) -> u16 {
    listener.local_addr().unwrap().port()
}

/// Accepts one connection and echoes its data until the peer closes.
fn echo_once(listener: TcpListener) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            stream.write_all(&buffer[..count]).unwrap();
        }
    })
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

#[test]
fn what_is_sent_over_a_socket_of_the_kernel_comes_back() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let server = echo_once(listener);
    let mut bench = Bench::new(true).unwrap();
    let session = Echoed::new(text(100_000));
    let call = run(session, &Via::Kernel, &[address], TIMEOUT, &mut bench).unwrap();
    server.join().unwrap();
    assert_eq!((call.outcome, call.address), (Outcome::Closed, address));
    assert!(call.session.received == text(100_000));
}

#[test]
fn a_session_over_the_kernel_receives_the_delays_of_its_reads() {
    // The kernel starts to stamp some milliseconds after the first socket asks for it.
    let has_delays = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = echo_once(listener);
        let mut bench = Bench::new(true).unwrap();
        let session = Echoed::new(text(1_000_000));
        let call = run(session, &Via::Kernel, &[address], TIMEOUT, &mut bench).unwrap();
        server.join().unwrap();
        !call.session.delays.is_empty()
    };
    assert!((0..100).any(|_| has_delays()));
}

#[test]
fn a_port_where_nobody_listens_refuses() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut bench = Bench::new(true).unwrap();
    let session = Echoed::new(text(1));
    let call = run(session, &Via::Kernel, &[address], TIMEOUT, &mut bench).unwrap();
    assert_eq!(call.outcome, Outcome::Refused);
}

// req RFC1122:3.1-MUST-2
#[test]
fn where_the_first_address_of_a_peer_refuses_the_next_is_called() {
    let [closed, open] = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let addresses = [closed.local_addr().unwrap(), open.local_addr().unwrap()];
    drop(closed);
    let server = echo_once(open);
    let mut bench = Bench::new(true).unwrap();
    let session = Echoed::new(text(100));
    let call = run(session, &Via::Kernel, &addresses, TIMEOUT, &mut bench).unwrap();
    server.join().unwrap();
    assert_eq!((call.outcome, call.address), (Outcome::Closed, addresses[1]));
    assert!(call.session.received == text(100));
}

/// Runs `test` in its own network namespace; fails if the machine permits none.
pub(super) fn in_new_network(test: fn()) {
    test_support::in_new_network(os::namespace::enter_new_network, test);
}

/// Creates a TUN on which the kernel has an address of both families; no host is behind it.
pub(super) fn dual_stack_tun() -> Tun {
    let tun = Tun::open(Some("plumb0")).unwrap();
    let interface = Interface::named(tun.name()).unwrap();
    interface.set_address(V4, 24).unwrap();
    interface.bring_up().unwrap();
    interface.add_address6(V6, 64).unwrap();
    tun
}

/// Address of the kernel's end of the TUN.
pub(super) const V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
/// Address without a host.
const SILENT_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 9);
const SILENT_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);

#[test]
fn the_near_side_can_leave_while_the_kernel_waits_for_silent_hosts() {
    in_new_network(|| {
        let _tun = dual_stack_tun();
        let silent = [(SILENT_V6, TELNET_PORT).into(), (SILENT_V4, TELNET_PORT).into()];
        let mut bench = Bench::new(true).unwrap();
        let session = Ended::at_once();
        let call = run(session, &Via::Kernel, &silent, TIMEOUT, &mut bench).unwrap();
        assert_eq!(call.outcome, Outcome::Left);
    });
}

// req RFC1122:3.1-MUST-2
#[test]
fn the_kernel_connects_by_ipv4_while_ipv6_is_silent() {
    in_new_network(|| {
        let _tun = dual_stack_tun();
        let listener = TcpListener::bind((V4, 0)).unwrap();
        let port = port_of(&listener);
        let addresses = [(SILENT_V6, port).into(), (V4, port).into()];
        let server = echo_once(listener);
        let mut bench = Bench::new(true).unwrap();
        let session = Echoed::new(text(1_000));
        let call = run(session, &Via::Kernel, &addresses, TIMEOUT, &mut bench).unwrap();
        server.join().unwrap();
        assert_eq!((call.outcome, call.address), (Outcome::Closed, addresses[1]));
        assert_eq!(call.session.reached, [addresses[1]]);
    });
}

#[test]
fn of_hosts_that_refuse_or_are_silent_the_refusal_is_told() {
    in_new_network(|| {
        let _tun = dual_stack_tun();
        let addresses = [(SILENT_V6, 9).into(), (V4, 9).into()];
        let mut bench = Bench::new(true).unwrap();
        let (session, timeout) = (Echoed::new(text(1)), Duration::from_secs(1));
        let call = run(session, &Via::Kernel, &addresses, timeout, &mut bench).unwrap();
        assert_eq!((call.outcome, call.address), (Outcome::Refused, addresses[1]));
    });
}

// req RFC1122:3.1-MUST-2
#[test]
fn our_own_tcp_calls_by_ipv6_first_and_then_by_ipv4() {
    in_new_network(|| {
        let tun = dual_stack_tun();
        let listener = TcpListener::bind((V4, 0)).unwrap();
        let port = port_of(&listener);
        // RFC 6724 §2.1 prefers IPv6, whatever the order of the resolver.
        let addresses = [(V4, port).into(), (V6, port).into()];
        let server = echo_once(listener);
        let mut bench = Bench::new(true).unwrap();
        let session = Echoed::new(text(1_000));
        let call = run_on_tun(session, tun, &addresses, TIMEOUT, &mut bench).unwrap();
        server.join().unwrap();
        assert_eq!((call.outcome, call.address), (Outcome::Closed, addresses[0]));
        assert_eq!(call.session.reached, [addresses[1], addresses[0]]);
    });
}

#[test]
fn what_is_sent_over_our_own_tcp_by_ipv6_on_a_tun_comes_back() {
    in_new_network(|| {
        let tun = dual_stack_tun();
        let listener = TcpListener::bind((V6, 0)).unwrap();
        let addresses = [listener.local_addr().unwrap()];
        let server = echo_once(listener);
        let mut bench = Bench::new(true).unwrap();
        let session = Echoed::new(text(100_000));
        let call = run_on_tun(session, tun, &addresses, TIMEOUT, &mut bench).unwrap();
        server.join().unwrap();
        assert_eq!(call.outcome, Outcome::Closed);
        assert!(call.session.received == text(100_000));
    });
}

#[test]
fn our_own_tcp_calls_by_ipv6_beyond_the_network_of_the_tun() {
    in_new_network(|| {
        let tun = dual_stack_tun();
        let beyond = Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 1);
        Interface::named(tun.name()).unwrap().add_address6(beyond, 128).unwrap();
        let listener = TcpListener::bind((beyond, 0)).unwrap();
        let addresses = [listener.local_addr().unwrap()];
        let server = echo_once(listener);
        let mut bench = Bench::new(true).unwrap();
        let session = Echoed::new(text(1_000));
        let call = run_on_tun(session, tun, &addresses, TIMEOUT, &mut bench).unwrap();
        server.join().unwrap();
        assert_eq!((call.outcome, call.address), (Outcome::Closed, addresses[0]));
    });
}

#[test]
fn a_tun_without_an_address_of_a_family_says_so() {
    in_new_network(|| {
        let tun = Tun::open(Some("plumb0")).unwrap();
        let interface = Interface::named(tun.name()).unwrap();
        interface.set_address(V4, 24).unwrap();
        interface.bring_up().unwrap();
        let mut bench = Bench::new(true).unwrap();
        let session = Echoed::new(text(1));
        let addresses = [(V6, TELNET_PORT).into()];
        let refused = run_on_tun(session, tun, &addresses, TIMEOUT, &mut bench).unwrap_err();
        assert!(refused.to_string().contains("has no IPv6 address"), "{refused}");
    });
}

#[test]
fn the_near_side_can_leave_while_nobody_on_the_line_gives_an_address() {
    let pty = Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap();
    let via = Via::Serial {
        device: pty.path().to_owned(),
        rate_bps: 9_600,
        link: SerialLink::LLP,
        address: None,
    };
    let silent = SocketAddr::from((Ipv4Addr::new(10, 77, 0, 9), TELNET_PORT));
    let mut bench = Bench::new(true).unwrap();
    let outcome = run(Ended::at_once(), &via, &[silent], TIMEOUT, &mut bench).unwrap().outcome;
    assert_eq!(outcome, Outcome::Left);
}

#[test]
fn what_is_sent_over_our_own_tcp_on_a_tun_comes_back() {
    in_new_network(|| {
        let tun = dual_stack_tun();
        let listener = TcpListener::bind((V4, 0)).unwrap();
        let remote = listener.local_addr().unwrap();
        let server = echo_once(listener);
        let mut bench = Bench::new(true).unwrap();
        let session = Echoed::new(text(100_000));
        let call = run_on_tun(session, tun, &[remote], TIMEOUT, &mut bench).unwrap();
        server.join().unwrap();
        assert_eq!(call.outcome, Outcome::Closed);
        assert!(call.session.received == text(100_000));
        bench.meter.settle();
        assert_eq!(bench.meter.accounts().iter().sum::<u64>(), bench.meter.total());
    });
}

#[test]
fn the_echo_of_a_key_holds_nothing_back_and_a_new_line_may() {
    assert!(!may_hold_back(b"a"));
    assert!(!may_hold_back(b"\x08\x1b[K"));
    assert!(may_hold_back(b"\r\n"));
    assert!(may_hold_back(b"total 64"));
}
