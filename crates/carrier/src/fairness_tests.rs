//! Tests that no event source of a carrier starves another source. The sources are a flood of data
//! from the peer, a typed key, a deadline, and a display that accepts no more output.

use super::tests::{TIMEOUT, V4, dual_stack_tun, in_new_network};
use super::*;
use net::Cx;
use net::application::Stream;
use net::time::{Duration, Instant};
use os::clock::Monotonic;
use os::output::Output;
use os::pty::Pty;
use os::readiness::{PollFd, PollFlags, wait};
use os::serial::LineSettings;
use os::tty::WindowSize;
use std::io::{PipeReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};

/// Maximum number of received pieces of data before the awaited event. If more arrive, the event is
/// starved.
const PIECES_MAX: usize = 1000;

/// Interval between an expired deadline and the next deadline. The interval is so short that the
/// next deadline has also expired when the carrier checks it.
const DEADLINE_INTERVAL: Duration = Duration::from_micros(1);

/// Event that a flooded session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Key,
    Deadline,
}

/// A session whose peer sends another piece of data for each piece that the session receives. The
/// connection is therefore always readable.
struct FloodedSession {
    listener: TcpListener,
    peer: Option<TcpStream>,
    keyboard: UnixStream,
    _typist: UnixStream,
    awaited: Awaited,
    due: Instant,
    pieces: usize,
    is_served: bool,
}

impl FloodedSession {
    fn new(listener: TcpListener, awaited: Awaited) -> Self {
        let (keyboard, mut typist) = UnixStream::pair().unwrap();
        typist.write_all(b"k").unwrap();
        let peer = None;
        let due = Instant::ZERO;
        let pieces = 0;
        let is_served = false;
        Self { listener, peer, keyboard, _typist: typist, awaited, due, pieces, is_served }
    }
}

impl Stream for FloodedSession {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, data: &[u8], _cx: &mut Cx<'_>) {
        self.pieces += 1;
        self.peer.as_mut().unwrap().write_all(data).unwrap();
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        &[]
    }

    fn sent(&mut self, _count: usize) {}

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }

    fn deadline(&self) -> Option<Instant> {
        let is_due = self.awaited == Awaited::Deadline || self.peer.is_none();
        is_due.then_some(self.due)
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        self.due = cx.now + DEADLINE_INTERVAL;
        self.is_served |= self.awaited == Awaited::Deadline && self.pieces > 0;
    }
}

impl StreamSession for FloodedSession {
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.keyboard.as_fd()]
    }

    fn wants_input(&self, _index: usize) -> bool {
        self.awaited == Awaited::Key && self.pieces > 0
    }

    fn take_input(&mut self, _index: usize, _cx: &mut Cx<'_>) -> Result<()> {
        self.is_served = true;
        Ok(())
    }

    fn flush(&mut self, _cx: &mut Cx<'_>) -> Result<()> {
        if let Some(mut peer) = accept_connection(&self.listener, self.peer.as_ref()) {
            peer.write_all(&[b'x'; 1024]).unwrap();
            self.peer = Some(peer);
        }
        Ok(())
    }

    fn take_status(&mut self, _status: &CarrierStatus) {}

    fn wants_status(&self) -> bool {
        false
    }

    fn is_over(&self) -> bool {
        self.is_served || self.pieces >= PIECES_MAX
    }
}

/// Accepts the connection of the session at `listener`. Returns `None` if no connection is pending
/// or `peer` is already connected.
fn accept_connection(listener: &TcpListener, peer: Option<&TcpStream>) -> Option<TcpStream> {
    if peer.is_some() { None } else { listener.accept().ok().map(|(peer, _)| peer) }
}

fn listen(address: Ipv4Addr) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

// attack row 141
#[test]
fn a_flood_over_kernel_tcp_starves_neither_the_keyboard_nor_a_deadline() {
    for awaited in [Awaited::Key, Awaited::Deadline] {
        let (listener, address) = listen(Ipv4Addr::LOCALHOST);
        let mut context = EngineContext::new(true).unwrap();
        let session = FloodedSession::new(listener, awaited);
        let ended_session =
            run(session, &Route::Kernel, &[address], TIMEOUT, &mut context).unwrap();
        assert!(ended_session.session.is_served, "{awaited:?}");
    }
}

#[test]
fn a_flood_over_the_user_space_tcp_starves_neither_the_keyboard_nor_a_deadline() {
    in_new_network(|| {
        for awaited in [Awaited::Key, Awaited::Deadline] {
            let tun = dual_stack_tun();
            let (listener, address) = listen(V4);
            let mut context = EngineContext::new(true).unwrap();
            let session = FloodedSession::new(listener, awaited);
            let ended_session =
                run_on_tun(session, tun, &[address], TIMEOUT, &mut context).unwrap();
            assert!(ended_session.session.is_served, "{awaited:?}");
        }
    });
}

/// A session whose display accepts no output before the session has read a typed key.
struct BlockedDisplaySession {
    listener: TcpListener,
    peer: Option<TcpStream>,
    keyboard: UnixStream,
    _typist: UnixStream,
    display: Output,
    /// Output for the display.
    waiting: Vec<u8>,
    /// Tells the reader thread to drain the display.
    drain_sender: Sender<()>,
    events: Vec<&'static str>,
    due: Instant,
    /// Whether the peer closes at once, without data.
    peer_closes: bool,
}

impl BlockedDisplaySession {
    /// Creates a session. A separate thread drains the display as soon as the session has read the
    /// key.
    fn new(listener: TcpListener) -> Self {
        let (keyboard, mut typist) = UnixStream::pair().unwrap();
        typist.write_all(b"k").unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let display = Output::to(writer.as_fd()).unwrap();
        while display.write(&[b'x'; 4096]).unwrap().is_some() {}
        let (drain_sender, drain_signal) = channel();
        std::thread::spawn(move || {
            let mut reader: PipeReader = reader;
            if drain_signal.recv().is_ok() {
                // Reads until the session ends and drops the writing end of the pipe.
                _ = reader.read_to_end(&mut Vec::new());
            }
        });
        let peer = None;
        let waiting = b"last".to_vec();
        let events = Vec::new();
        Self {
            listener,
            peer,
            keyboard,
            _typist: typist,
            display,
            waiting,
            drain_sender,
            events,
            due: Instant::ZERO,
            peer_closes: false,
        }
    }
}

impl Stream for BlockedDisplaySession {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, _data: &[u8], _cx: &mut Cx<'_>) {
        self.events.push("data");
    }

    fn wants_data(&self) -> bool {
        self.waiting.is_empty() || self.peer_closes
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        &[]
    }

    fn sent(&mut self, _count: usize) {}

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }

    fn deadline(&self) -> Option<Instant> {
        self.peer.is_none().then_some(self.due)
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        self.due = cx.now + DEADLINE_INTERVAL;
    }
}

impl StreamSession for BlockedDisplaySession {
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.keyboard.as_fd()]
    }

    fn wants_input(&self, _index: usize) -> bool {
        self.peer.is_some()
    }

    fn take_input(&mut self, _index: usize, _cx: &mut Cx<'_>) -> Result<()> {
        self.keyboard.read_exact(&mut [0; 1]).unwrap();
        self.events.push("key");
        self.drain_sender.send(()).unwrap();
        Ok(())
    }

    fn display(&self) -> Option<BorrowedFd<'_>> {
        Some(self.display.as_fd())
    }

    fn is_display_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn flush(&mut self, _cx: &mut Cx<'_>) -> Result<()> {
        if let Some(mut peer) = accept_connection(&self.listener, self.peer.as_ref()) {
            match self.peer_closes {
                true => peer.shutdown(Shutdown::Write).unwrap(),
                false => peer.write_all(b"data").unwrap(),
            }
            self.peer = Some(peer);
        }
        if !self.waiting.is_empty() && self.display.write(&self.waiting)?.is_some() {
            self.waiting.clear();
            self.events.push("shown");
        }
        Ok(())
    }

    fn take_status(&mut self, _status: &CarrierStatus) {}

    fn wants_status(&self) -> bool {
        false
    }

    fn is_over(&self) -> bool {
        self.events.contains(&"data")
    }
}

// attack row 141
#[test]
fn a_full_display_stops_reads_from_kernel_tcp_but_not_from_the_keyboard() {
    let (listener, address) = listen(Ipv4Addr::LOCALHOST);
    let mut context = EngineContext::new(true).unwrap();
    let session = BlockedDisplaySession::new(listener);
    let ended_session = run(session, &Route::Kernel, &[address], TIMEOUT, &mut context).unwrap();
    assert_eq!(ended_session.session.events, ["key", "shown", "data"]);
}

#[test]
fn a_full_display_stops_reads_from_the_user_space_tcp_but_not_from_the_keyboard() {
    in_new_network(|| {
        let tun = dual_stack_tun();
        let (listener, address) = listen(V4);
        let mut context = EngineContext::new(true).unwrap();
        let session = BlockedDisplaySession::new(listener);
        let ended_session = run_on_tun(session, tun, &[address], TIMEOUT, &mut context).unwrap();
        assert_eq!(ended_session.session.events, ["key", "shown", "data"]);
    });
}

#[test]
fn a_closed_connection_ends_once_the_display_has_accepted_all_output() {
    let (listener, address) = listen(Ipv4Addr::LOCALHOST);
    let mut context = EngineContext::new(true).unwrap();
    let session =
        BlockedDisplaySession { peer_closes: true, ..BlockedDisplaySession::new(listener) };
    let ended_session = run(session, &Route::Kernel, &[address], TIMEOUT, &mut context).unwrap();
    assert_eq!(
        (ended_session.outcome, ended_session.session.events),
        (Outcome::Closed, vec!["key", "shown"])
    );
}

/// A session whose display is full, with more output than a serial line accepts at once.
struct SendingSession {
    output: Vec<u8>,
    has_received: bool,
}

impl Stream for SendingSession {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, _data: &[u8], _cx: &mut Cx<'_>) {
        self.has_received = true;
    }

    fn wants_data(&self) -> bool {
        false
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        &self.output
    }

    fn sent(&mut self, count: usize) {
        self.output.drain(..count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn run(&mut self, _cx: &mut Cx<'_>) {}
}

impl StreamSession for SendingSession {
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
        self.output.is_empty()
    }
}

/// Sends data to the line after its first output, and reads `len` bytes of output.
fn answer_first_output(pty: &Pty, len: usize) {
    let mut received_len = 0;
    let mut bytes = [0; 4096];
    while received_len < len {
        wait(&mut [PollFd::new(pty, PollFlags::IN)], &Monotonic::start(), None).unwrap();
        let count = pty.read(&mut bytes).unwrap().unwrap_or(0);
        if received_len == 0 && count > 0 {
            assert_eq!(pty.write(b"data").unwrap(), Some(4));
        }
        received_len += count;
    }
}

#[test]
fn a_full_display_stops_reads_from_a_serial_line_that_accepts_output() {
    let len = 1 << 20;
    let pty = Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap();
    let device = pty.path().to_owned();
    let mut context = EngineContext::new(true).unwrap();
    let session = SendingSession { output: vec![b'x'; len], has_received: false };
    let ended_session = std::thread::scope(|scope| {
        scope.spawn(|| answer_first_output(&pty, len));
        run_on_serial_line(session, &device, LineSettings::at(9600), &mut context).unwrap()
    });
    assert!(!ended_session.session.has_received);
}
