//! Tests of the carriers against an echo server on kernel sockets.

use super::*;
use net::Cx;
use net::application::Stream;
use os::interface::Interface;
use os::pty::Pty;
use os::tty::WindowSize;
use os::tun::Tun;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

/// Session that sends a text, waits until the same text is received, and closes the connection.
#[derive(Debug)]
struct EchoSession {
    to_send: Vec<u8>,
    wanted: usize,
    received: Vec<u8>,
    /// Addresses to which a connection was about to open.
    reached: Vec<SocketAddr>,
    /// Receive delays that the carrier reported.
    delays: Vec<Duration>,
}

impl EchoSession {
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

impl Stream for EchoSession {
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

impl StreamSession for EchoSession {
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn set_remote_address(&mut self, address: SocketAddr) {
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
struct EndsOnInput {
    input: UnixStream,
    is_over: bool,
}

impl EndsOnInput {
    /// Creates a session whose input is readable at once.
    fn with_ready_input() -> Self {
        let (input, mut writer) = UnixStream::pair().unwrap();
        writer.write_all(b"!").unwrap();
        Self { input, is_over: false }
    }
}

impl Stream for EndsOnInput {
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

impl StreamSession for EndsOnInput {
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.input.as_fd()]
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
fn data_sent_over_a_kernel_socket_is_echoed() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let server = echo_once(listener);
    let mut context = EngineContext::new(true).unwrap();
    let session = EchoSession::new(text(100_000));
    let ended_session = run(session, &Route::Kernel, &[address], TIMEOUT, &mut context).unwrap();
    server.join().unwrap();
    assert_eq!((ended_session.outcome, ended_session.address), (Outcome::Closed, address));
    assert!(ended_session.session.received == text(100_000));
}

#[test]
fn a_session_over_the_kernel_receives_the_delays_of_its_reads() {
    // The kernel starts to timestamp packets some milliseconds after the first socket requests
    // timestamps.
    let has_delays = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = echo_once(listener);
        let mut context = EngineContext::new(true).unwrap();
        let session = EchoSession::new(text(1_000_000));
        let ended_session =
            run(session, &Route::Kernel, &[address], TIMEOUT, &mut context).unwrap();
        server.join().unwrap();
        !ended_session.session.delays.is_empty()
    };
    assert!((0..100).any(|_| has_delays()));
}

#[test]
fn a_port_without_a_listener_refuses_the_connection() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut context = EngineContext::new(true).unwrap();
    let session = EchoSession::new(text(1));
    let ended_session = run(session, &Route::Kernel, &[address], TIMEOUT, &mut context).unwrap();
    assert_eq!(ended_session.outcome, Outcome::Refused);
}

// req RFC1122:3.1-MUST-2
#[test]
fn the_next_address_is_tried_if_the_first_refuses() {
    let [closed, open] = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let addresses = [closed.local_addr().unwrap(), open.local_addr().unwrap()];
    drop(closed);
    let server = echo_once(open);
    let mut context = EngineContext::new(true).unwrap();
    let session = EchoSession::new(text(100));
    let ended_session = run(session, &Route::Kernel, &addresses, TIMEOUT, &mut context).unwrap();
    server.join().unwrap();
    assert_eq!((ended_session.outcome, ended_session.address), (Outcome::Closed, addresses[1]));
    assert!(ended_session.session.received == text(100));
}

/// Runs `test` in its own network namespace; fails if the machine permits no network namespace.
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
fn local_input_can_end_a_kernel_connection_attempt_to_silent_hosts() {
    in_new_network(|| {
        let _tun = dual_stack_tun();
        let silent_addresses = [(SILENT_V6, TELNET_PORT).into(), (SILENT_V4, TELNET_PORT).into()];
        let mut context = EngineContext::new(true).unwrap();
        let session = EndsOnInput::with_ready_input();
        let ended_session =
            run(session, &Route::Kernel, &silent_addresses, TIMEOUT, &mut context).unwrap();
        assert_eq!(ended_session.outcome, Outcome::LocalClosed);
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
        let mut context = EngineContext::new(true).unwrap();
        let session = EchoSession::new(text(1_000));
        let ended_session =
            run(session, &Route::Kernel, &addresses, TIMEOUT, &mut context).unwrap();
        server.join().unwrap();
        assert_eq!((ended_session.outcome, ended_session.address), (Outcome::Closed, addresses[1]));
        assert_eq!(ended_session.session.reached, [addresses[1]]);
    });
}

#[test]
fn a_refusal_is_reported_before_a_timeout_of_another_address() {
    in_new_network(|| {
        let _tun = dual_stack_tun();
        let addresses = [(SILENT_V6, 9).into(), (V4, 9).into()];
        let mut context = EngineContext::new(true).unwrap();
        let session = EchoSession::new(text(1));
        let timeout = Duration::from_secs(1);
        let ended_session =
            run(session, &Route::Kernel, &addresses, timeout, &mut context).unwrap();
        assert_eq!(
            (ended_session.outcome, ended_session.address),
            (Outcome::Refused, addresses[1])
        );
    });
}

// req RFC1122:3.1-MUST-2
#[test]
fn the_user_space_tcp_tries_ipv6_before_ipv4() {
    in_new_network(|| {
        let tun = dual_stack_tun();
        let listener = TcpListener::bind((V4, 0)).unwrap();
        let port = port_of(&listener);
        // RFC 6724 §2.1 prefers IPv6, whatever the order of the resolver.
        let addresses = [(V4, port).into(), (V6, port).into()];
        let server = echo_once(listener);
        let mut context = EngineContext::new(true).unwrap();
        let session = EchoSession::new(text(1_000));
        let ended_session = run_on_tun(session, tun, &addresses, TIMEOUT, &mut context).unwrap();
        server.join().unwrap();
        assert_eq!((ended_session.outcome, ended_session.address), (Outcome::Closed, addresses[0]));
        assert_eq!(ended_session.session.reached, [addresses[1], addresses[0]]);
    });
}

#[test]
fn data_sent_over_the_user_space_tcp_by_ipv6_is_echoed() {
    in_new_network(|| {
        let tun = dual_stack_tun();
        let listener = TcpListener::bind((V6, 0)).unwrap();
        let addresses = [listener.local_addr().unwrap()];
        let server = echo_once(listener);
        let mut context = EngineContext::new(true).unwrap();
        let session = EchoSession::new(text(100_000));
        let ended_session = run_on_tun(session, tun, &addresses, TIMEOUT, &mut context).unwrap();
        server.join().unwrap();
        assert_eq!(ended_session.outcome, Outcome::Closed);
        assert!(ended_session.session.received == text(100_000));
    });
}

#[test]
fn the_user_space_tcp_connects_by_ipv6_beyond_the_network_of_the_tun() {
    in_new_network(|| {
        let tun = dual_stack_tun();
        let address_beyond_tun = Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 1);
        Interface::named(tun.name()).unwrap().add_address6(address_beyond_tun, 128).unwrap();
        let listener = TcpListener::bind((address_beyond_tun, 0)).unwrap();
        let addresses = [listener.local_addr().unwrap()];
        let server = echo_once(listener);
        let mut context = EngineContext::new(true).unwrap();
        let session = EchoSession::new(text(1_000));
        let ended_session = run_on_tun(session, tun, &addresses, TIMEOUT, &mut context).unwrap();
        server.join().unwrap();
        assert_eq!((ended_session.outcome, ended_session.address), (Outcome::Closed, addresses[0]));
    });
}

#[test]
fn a_tun_without_an_address_of_the_family_is_an_error_that_names_it() {
    in_new_network(|| {
        let tun = Tun::open(Some("plumb0")).unwrap();
        let interface = Interface::named(tun.name()).unwrap();
        interface.set_address(V4, 24).unwrap();
        interface.bring_up().unwrap();
        let mut context = EngineContext::new(true).unwrap();
        let session = EchoSession::new(text(1));
        let addresses = [(V6, TELNET_PORT).into()];
        let error = run_on_tun(session, tun, &addresses, TIMEOUT, &mut context).unwrap_err();
        assert!(error.to_string().contains("has no IPv6 address"), "{error}");
    });
}

#[test]
fn local_input_can_end_the_address_request_on_a_silent_line() {
    let pty = Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap();
    let via = Route::Serial {
        device: pty.path().to_owned(),
        rate_bps: 9_600,
        link: SerialLink::LLP,
        address: None,
    };
    let silent = SocketAddr::from((Ipv4Addr::new(10, 77, 0, 9), TELNET_PORT));
    let mut context = EngineContext::new(true).unwrap();
    let outcome = run(EndsOnInput::with_ready_input(), &via, &[silent], TIMEOUT, &mut context)
        .unwrap()
        .outcome;
    assert_eq!(outcome, Outcome::LocalClosed);
}

#[test]
fn data_sent_over_the_user_space_tcp_on_a_tun_is_echoed() {
    in_new_network(|| {
        let tun = dual_stack_tun();
        let listener = TcpListener::bind((V4, 0)).unwrap();
        let remote = listener.local_addr().unwrap();
        let server = echo_once(listener);
        let mut context = EngineContext::new(true).unwrap();
        let session = EchoSession::new(text(100_000));
        let ended_session = run_on_tun(session, tun, &[remote], TIMEOUT, &mut context).unwrap();
        server.join().unwrap();
        assert_eq!(ended_session.outcome, Outcome::Closed);
        assert!(ended_session.session.received == text(100_000));
        context.meter.settle();
        assert_eq!(context.meter.accounts().iter().sum::<u64>(), context.meter.total());
    });
}
