//! The carriers against an echo server on the kernel's own sockets.

use super::*;
use os::interface::Interface;
use os::tun::Tun;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::thread::JoinHandle;

/// Sends its text, wants it back, and closes.
struct Echoed {
    to_send: Vec<u8>,
    wanted: usize,
    received: Vec<u8>,
}

impl Echoed {
    fn new(text: Vec<u8>) -> Self {
        Self { wanted: text.len(), to_send: text, received: Vec::new() }
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

fn port_of(listener: &TcpListener) -> u16 {
    listener.local_addr().unwrap().port()
}

/// Accepts one connection and sends back what comes, until the other end closes.
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

const TIMEOUT: Duration = Duration::from_secs(20);

#[test]
fn what_is_sent_over_a_socket_of_the_kernel_comes_back() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let server = echo_once(listener);
    let mut bench = Bench::new(true).unwrap();
    let session = Echoed::new(text(100_000));
    let (session, outcome) = run(session, &Via::Kernel, address, TIMEOUT, &mut bench).unwrap();
    server.join().unwrap();
    assert_eq!(outcome, Outcome::Closed);
    assert!(session.received == text(100_000));
}

#[test]
fn a_port_where_nobody_listens_refuses() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut bench = Bench::new(true).unwrap();
    let session = Echoed::new(text(1));
    let (_, outcome) = run(session, &Via::Kernel, address, TIMEOUT, &mut bench).unwrap();
    assert_eq!(outcome, Outcome::Refused);
}

/// Runs `test` in a thread with a network namespace of its own, or says why it cannot.
fn in_new_network(test: fn()) {
    let thread = std::thread::spawn(move || match os::namespace::enter_new_network() {
        Ok(()) => test(),
        Err(refused) => println!("skipped: {refused}"),
    });
    thread.join().unwrap();
}

#[test]
fn what_is_sent_over_our_own_tcp_on_a_tun_comes_back() {
    in_new_network(|| {
        let tun = Tun::open(Some("plumb0")).unwrap();
        let interface = Interface::named(tun.name()).unwrap();
        interface.set_address(Ipv4Addr::new(10, 77, 0, 1), 24).unwrap();
        interface.bring_up().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::new(10, 77, 0, 1), 0)).unwrap();
        let remote = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 1), port_of(&listener));
        let server = echo_once(listener);
        let mut bench = Bench::new(true).unwrap();
        let session = Echoed::new(text(100_000));
        let carried = station::run_on_tun(session, tun, remote, TIMEOUT, &mut bench);
        let (session, outcome) = carried.unwrap();
        server.join().unwrap();
        assert_eq!(outcome, Outcome::Closed);
        assert!(session.received == text(100_000));
        bench.meter.settle();
        assert_eq!(bench.meter.accounts().iter().sum::<u64>(), bench.meter.total());
    });
}
