//! The carriers against an echo server on the kernel's own sockets.

use super::*;
use os::interface::Interface;
use os::pty::Pty;
use os::tty::WindowSize;
use os::tun::Tun;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
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

/// Is ended by whatever can be read.
struct Ended {
    near: UnixStream,
    is_over: bool,
}

impl Ended {
    /// Makes one for which something can be read at once.
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

// req RFC1122:3.1-MUST-2
#[test]
fn where_the_first_address_of_a_peer_refuses_the_next_is_called() {
    let [closed, open] = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let addresses = [closed.local_addr().unwrap(), open.local_addr().unwrap()];
    drop(closed);
    let server = echo_once(open);
    let mut bench = Bench::new(true).unwrap();
    let call = |session, address| run(session, &Via::Kernel, address, TIMEOUT, &mut bench);
    let is_open = |session: &Echoed| !session.received.is_empty();
    let (session, called, outcome) =
        call_each(Echoed::new(text(100)), &addresses, call, is_open).unwrap();
    server.join().unwrap();
    assert_eq!((called, outcome), (Some(addresses[1]), Outcome::Closed));
    assert!(session.received == text(100));
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
fn the_near_side_can_leave_while_the_kernel_waits_for_a_silent_host() {
    in_new_network(|| {
        // Nobody reads the TUN, so nobody is behind it.
        let tun = Tun::open(Some("plumb0")).unwrap();
        let interface = Interface::named(tun.name()).unwrap();
        interface.set_address(Ipv4Addr::new(10, 77, 0, 1), 24).unwrap();
        interface.bring_up().unwrap();
        let silent = SocketAddr::from((Ipv4Addr::new(10, 77, 0, 9), TELNET_PORT));
        let mut bench = Bench::new(true).unwrap();
        let session = Ended::at_once();
        let (_, outcome) = run(session, &Via::Kernel, silent, TIMEOUT, &mut bench).unwrap();
        assert_eq!(outcome, Outcome::Left);
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
    let (_, outcome) = run(Ended::at_once(), &via, silent, TIMEOUT, &mut bench).unwrap();
    assert_eq!(outcome, Outcome::Left);
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
