//! The sockets of the host and the remote hosts behind them. The driver copies data between a flow
//! and its socket as the driver over kernel sockets does.

use super::kernel::stream_of;
use super::program::{Plan, Program};
use crate::relay::{Key, tcp_flows};
use crate::{ConnectFailure, Event, Guest};
use net::cx::OwnedCx;
use net::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The answer of a remote host to a connection request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Accepts,
    Refuses,
    /// The gateway cannot open a socket.
    HasNoDescriptor,
    /// It does not answer, and the kernel gives up after [`CONNECT_TIMEOUT`].
    Never,
}

/// The time after which Linux gives up a connection attempt.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(127);

/// A remote host, and the socket to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote {
    pub(super) answer: Answer,
    /// Time until the answer.
    pub(super) delay: Duration,
    pub(super) plan: Plan,
    /// Capacity of the socket in each direction, in bytes.
    pub(super) capacity: usize,
    /// Minimum space for a read from the socket, in bytes, if the gateway requires no less.
    pub(super) read_min: usize,
}

impl Remote {
    /// Returns a host that accepts connections at once, and then runs `plan`.
    pub(super) const fn accepts(plan: Plan) -> Self {
        let delay = Duration::from_millis(1);
        Self { answer: Answer::Accepts, delay, plan, capacity: 1 << 18, read_min: 1 }
    }
}

/// Something that happens to a socket later.
#[derive(Clone, Copy, Debug)]
pub(super) enum SocketEvent {
    Connected(Key),
    Failed(Key, ConnectFailure),
    /// The next period of the remote program begins.
    Period(Key),
}

/// A socket and the program of the remote host.
#[derive(Debug)]
struct Socket {
    program: Program,
    capacity: usize,
    read_min: usize,
    /// Data that the socket has accepted and the program has not read.
    to_remote: Vec<u8>,
    /// Data that the program has sent and the gateway has not read.
    from_remote: Vec<u8>,
    is_shut_down: bool,
    has_reported_end: bool,
    is_periodic: bool,
}

/// The end of a flow as its socket saw it.
#[derive(Clone, Debug)]
pub(super) struct HostResult {
    pub(super) program: Program,
    /// Whether the gateway has reset the socket.
    pub(super) is_reset: bool,
}

/// All sockets of the host.
#[derive(Debug, Default)]
pub(super) struct HostSockets {
    /// The remote hosts by the end that the guest sees.
    pub(super) remotes: BTreeMap<SocketAddr, Remote>,
    sockets: BTreeMap<Key, Socket>,
    /// Remote ends of flows whose connect is not finished.
    connecting: BTreeMap<Key, SocketAddr>,
    pub(super) results: BTreeMap<u64, HostResult>,
    streams: BTreeMap<Key, u64>,
    /// Events of UDP and echo flows, in order.
    pub(super) other_events: Vec<Event>,
    /// Number of requested connects.
    pub(super) connects: usize,
}

impl HostSockets {
    /// Returns whether no socket is open.
    pub(super) fn is_idle(&self) -> bool {
        self.sockets.is_empty() && self.connecting.is_empty() && self.streams.is_empty()
    }

    /// Returns the numbers of bytes that the remote program of a flow has sent and received.
    pub(super) fn counts(&self, flow: Key) -> (u64, u64) {
        self.sockets[&flow].program.counts()
    }

    /// Adds the socket of an accepted connection.
    pub(super) fn accepted(&mut self, flow: Key, source: SocketAddr, remote: Remote) {
        self.streams.insert(flow, stream_of(source));
        self.add(flow, remote);
    }

    fn add(&mut self, flow: Key, remote: Remote) {
        let program = Program::new(remote.plan, self.streams[&flow], false);
        let socket = Socket {
            program,
            capacity: remote.capacity,
            read_min: remote.read_min,
            to_remote: Vec::new(),
            from_remote: Vec::new(),
            is_shut_down: false,
            has_reported_end: false,
            is_periodic: false,
        };
        self.sockets.insert(flow, socket);
    }

    /// Processes the events of the guest. Returns what happens later.
    pub(super) fn drive(
        &mut self,
        guest: &mut Guest,
        context: &mut OwnedCx,
    ) -> Vec<(Duration, SocketEvent)> {
        let mut later = Vec::new();
        while let Some(event) = guest.event() {
            let Event::Tcp(event) = event else {
                self.other_events.push(event);
                continue;
            };
            match event {
                tcp_flows::Event::Connect { flow, remote } => {
                    self.connects += 1;
                    let host = self.remotes[&remote];
                    let failed = |failure| SocketEvent::Failed(flow, failure);
                    assert!(self.connecting.insert(flow, remote).is_none());
                    assert!(self.streams.insert(flow, stream_of(remote)).is_none());
                    later.push(match host.answer {
                        Answer::Accepts => (host.delay, SocketEvent::Connected(flow)),
                        Answer::Refuses => (host.delay, failed(ConnectFailure::Refused)),
                        Answer::HasNoDescriptor => {
                            (host.delay, failed(ConnectFailure::NoDescriptor))
                        }
                        Answer::Never => (CONNECT_TIMEOUT, failed(ConnectFailure::Refused)),
                    });
                }
                tcp_flows::Event::Progress { flow } => {
                    later.extend(self.progress(guest, flow, context));
                }
                tcp_flows::Event::End { flow, is_reset } => self.end(flow, is_reset),
            }
        }
        later
    }

    /// Processes what was announced by [`Self::drive`].
    pub(super) fn process(
        &mut self,
        event: SocketEvent,
        guest: &mut Guest,
        context: &mut OwnedCx,
    ) -> Option<(Duration, SocketEvent)> {
        match event {
            SocketEvent::Connected(flow) => {
                let remote = self.connecting.remove(&flow)?;
                self.add(flow, self.remotes[&remote]);
                guest.connected(flow, &mut context.cx());
                self.progress(guest, flow, context)
            }
            SocketEvent::Failed(flow, failure) => {
                self.connecting.remove(&flow)?;
                self.streams.remove(&flow);
                guest.connect_failed(flow, failure, &mut context.cx());
                None
            }
            SocketEvent::Period(flow) => {
                self.sockets.get_mut(&flow)?.begin_period();
                self.progress(guest, flow, context)
            }
        }
    }

    /// Lets the remote program of a flow run for the first time.
    pub(super) fn progress(
        &mut self,
        guest: &mut Guest,
        flow: Key,
        context: &mut OwnedCx,
    ) -> Option<(Duration, SocketEvent)> {
        let socket = self.sockets.get_mut(&flow)?;
        loop {
            socket.program_runs();
            if socket.program.resets() {
                self.end(flow, true);
                guest.host_reset(flow, &mut context.cx());
                return None;
            }
            if !socket.copy(guest, flow) {
                break;
            }
        }
        guest.copied(flow, &context.cx());
        let wants_period = socket.program.plan.share != usize::MAX
            && (!socket.to_remote.is_empty() && socket.program.plan.reads
                || !socket.program.next_bytes(1).is_empty());
        if wants_period && !std::mem::replace(&mut socket.is_periodic, true) {
            return Some((socket.program.plan.period, SocketEvent::Period(flow)));
        }
        None
    }

    fn end(&mut self, flow: Key, is_reset: bool) {
        self.connecting.remove(&flow);
        let Some(stream) = self.streams.remove(&flow) else { return };
        let Some(mut socket) = self.sockets.remove(&flow) else { return };
        // The kernel delivers the data that it has accepted, unless the socket is reset.
        if !is_reset && socket.program.plan.reads {
            socket.program.receive(&std::mem::take(&mut socket.to_remote));
            socket.program.has_peer_finished |= socket.is_shut_down;
        }
        self.results.insert(stream, HostResult { program: socket.program, is_reset });
    }
}

impl Socket {
    /// Lets a program without limits send and read.
    fn program_runs(&mut self) {
        if self.program.plan.share == usize::MAX {
            self.run_program(usize::MAX);
        }
    }

    fn begin_period(&mut self) {
        self.is_periodic = false;
        self.run_program(self.program.plan.share);
    }

    fn run_program(&mut self, share: usize) {
        if self.program.plan.reads {
            let count = self.to_remote.len().min(share);
            self.program.receive(&self.to_remote[..count]);
            self.to_remote.drain(..count);
        }
        let data = self.program.next_bytes(share.min(self.capacity - self.from_remote.len()));
        self.program.has_sent(data.len());
        self.from_remote.extend(data);
        self.program.has_peer_finished |= self.is_shut_down && self.to_remote.is_empty();
        self.program.has_finished |= self.program.finishes();
    }

    /// Copies as the driver does. Returns whether anything changed.
    fn copy(&mut self, guest: &mut Guest, flow: Key) -> bool {
        let mut has_changed = false;
        self.program.has_finished |= self.program.finishes();
        loop {
            let data = guest.to_host(flow);
            let count = data.len().min(self.capacity - self.to_remote.len());
            if count == 0 {
                break;
            }
            self.to_remote.extend(&data[..count]);
            guest.accepted(flow, count);
            has_changed = true;
        }
        if guest.must_shut_down(flow) {
            assert!(!self.is_shut_down, "the socket is shut down once");
            self.is_shut_down = true;
            guest.shut_down(flow);
            // A program with limits notices the end when it has read everything.
            self.program.has_peer_finished |= self.to_remote.is_empty();
            self.program.has_finished |= self.program.finishes();
            has_changed = true;
        }
        loop {
            let space = guest.space(flow);
            let count = space.min(self.from_remote.len());
            if count == 0 || space < self.read_min.min(guest.read_min(flow)) {
                break;
            }
            assert_eq!(guest.to_guest(flow, &self.from_remote[..count]), count);
            self.from_remote.drain(..count);
            has_changed = true;
        }
        let is_at_end = self.program.has_finished && self.from_remote.is_empty();
        if is_at_end && !std::mem::replace(&mut self.has_reported_end, true) {
            guest.host_finished(flow);
            has_changed = true;
        }
        has_changed
    }
}
