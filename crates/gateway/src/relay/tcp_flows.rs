//! Relayed TCP connections.
//!
//! # Theory of operation
//!
//! A flow is a TCP connection of the guest and a socket of the host. The flow copies data in both
//! directions and keeps their ends apart: when one side has finished, the flow finishes towards the
//! other side after the last byte. A reset of one side becomes a reset of the other.
//!
//! An outgoing flow begins with a SYN of the guest, which is not answered yet
//! ([`net::transport::tcp::DeferredOpen`]). The driver connects a socket. If this succeeds, the SYN
//! is answered; if the remote host refuses the connection, the guest's SYN is refused too. An
//! incoming flow begins with a connection that the driver has accepted for a forwarded port. The
//! guest's answer decides whether the driver resets it.
//!
//! A connection to port 53 of the gateway's DNS address is connected to a resolver of the host (RFC
//! 7766): to the next one if a resolver refuses it.
//!
//! A guest that has finished may be gone: its kernel forgets a connection that its program has
//! closed after a minute, whether the remote host finishes or not. Such a connection is therefore
//! probed after two minutes of silence (`HALF_CLOSED_KEEP_ALIVE`). The reset of a kernel without
//! the connection ends the flow. A program that has shut down its side and waits for the answer keeps
//! the flow for any time, and so does every byte of the remote host.
//!
//! Data stays in the receive buffer of one side until the other side accepts it. The buffer of the
//! guest's connection is therefore the only queue, and its window stops the guest.

use super::Key;
use super::buffer_sizes;
use super::flow_limit::{LimitHistory, Observation, Waiting};
use crate::rate::Rate;
use crate::slab::Slab;
use net::time::Duration;
use net::transport::tcp::{
    self, Acknowledgment, CloseReason, ConnectionId, DeferredOpen, KeepAlive, NoConnection,
    OpenError, Profile, ReceiveWindow, SendLimit, Tcp,
};
use net::{Cx, Instant};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

pub use super::flow_limit::Limit;

/// Minimum size of the receive buffer of a socket in bytes, several segments of Ethernet, and size of a
/// send buffer from which on the socket keeps the default of the kernel.
const SOCKET_BUFFER_MIN: usize = 1 << 14;
const SOCKET_BUFFER_MAX: usize = 1 << 16;
/// Time after which an idle connection of the guest is probed. A guest that has vanished then loses
/// its flows after a few minutes instead of never.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(600);
/// Probes of a connection that the guest has finished. If its program has closed it, the kernel of
/// the guest drops it after a minute, and answers a probe with a reset. A guest without an answer
/// loses the flow after four minutes, the timeout of RFC 5382 REQ-5 for connections that close.
const HALF_CLOSED_KEEP_ALIVE: KeepAlive =
    KeepAlive { idle: Duration::from_secs(120), interval: Duration::from_secs(30), probes: 4 };

/// A task of the driver for a TCP flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Connect a socket to `remote`, and report the result.
    Connect {
        /// The flow.
        flow: Key,
        /// The remote end as the host reaches it.
        remote: SocketAddr,
    },
    /// The guest has accepted an incoming flow, or data, space or an end of the flow is new: copy as
    /// much as possible in both directions.
    Progress {
        /// The flow.
        flow: Key,
    },
    /// The flow has ended, and its key is invalid: close its socket.
    End {
        /// The flow.
        flow: Key,
        /// Whether the socket must be reset.
        is_reset: bool,
    },
}

/// Limits for one guest.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of flows. At most half of them lead to forwarded ports.
    pub flows: usize,
    /// Maximum number of new flows per second, averaged over a few seconds.
    pub new_per_s: u32,
    /// Maximum number of bytes by which the buffers of all flows may grow beyond their initial sizes.
    pub growth_bytes: usize,
}

impl Default for Limits {
    /// Returns limits for a container or a virtual machine.
    fn default() -> Self {
        Self { flows: 16_384, new_per_s: 10_000, growth_bytes: buffer_sizes::GROWTH_BYTES }
    }
}

/// Numbers of flows and bytes since the guest was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Flows that the guest has opened.
    pub outgoing: u64,
    /// Flows to forwarded ports.
    pub incoming: u64,
    /// Outgoing flows that the remote host refused or that could not reach it.
    pub failed: u64,
    /// Outgoing flows refused because the gateway had no descriptor for a socket.
    pub no_descriptor: u64,
    /// Opens refused because the policy does not permit the destination.
    pub denied: u64,
    /// Opens refused because the limit of flows was reached.
    pub over_limit: u64,
    /// Opens refused because the limit of new flows per second was reached.
    pub over_rate: u64,
    /// Flows with smaller buffers at first, because the guest has many flows.
    pub small_buffers: u64,
    /// Bytes from the guest.
    pub bytes_to_host: u64,
    /// Bytes to the guest.
    pub bytes_to_guest: u64,
}

/// The state of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The driver connects to the remote host.
    Connecting,
    /// The SYN of an incoming flow waits for the guest's answer.
    Opening,
    /// Data flows.
    Open,
    /// One side has finished, and the other one has not.
    HalfClosed,
    /// Both sides have finished, and data waits for the socket of the host.
    Closing,
}

/// The remote ends to which an open of the guest leads.
#[derive(Debug)]
pub(crate) enum Destination {
    /// The policy does not permit the destination.
    Denied,
    /// This remote host.
    Host(SocketAddr),
    /// The first of these remote hosts that accepts the connection.
    Resolvers(VecDeque<SocketAddr>),
}

#[derive(Debug)]
struct Flow {
    /// The end of the guest.
    guest: SocketAddr,
    /// The other end as the guest sees it.
    remote: SocketAddr,
    phase: Phase,
    /// The SYN of an outgoing flow until it is answered.
    open: Option<DeferredOpen>,
    connection: Option<ConnectionId>,
    /// Further remote hosts to connect to if this one cannot be connected.
    others: VecDeque<SocketAddr>,
    /// Whether the guest has sent its FIN.
    has_guest_finished: bool,
    /// Whether the socket of the host is shut down for writing.
    is_shut_down: bool,
    /// Whether the remote host has finished.
    has_host_finished: bool,
    /// Whether [`Event::Progress`] is queued.
    is_queued: bool,
    /// Whether the flow leads to a forwarded port.
    is_incoming: bool,
    /// Minimum number of bytes to read at once from the socket.
    read_min: usize,
    bytes_to_host: u64,
    bytes_to_guest: u64,
    limits: LimitHistory,
}

/// A flow as the meters show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The end of the guest.
    pub guest: SocketAddr,
    /// The other end as the guest sees it.
    pub remote: SocketAddr,
    /// The state.
    pub phase: Phase,
    /// The limit of the rate in the last seconds.
    pub limit: Limit,
    /// Bytes from the guest.
    pub bytes_to_host: u64,
    /// Bytes to the guest.
    pub bytes_to_guest: u64,
}

/// All TCP flows of one guest.
#[derive(Debug)]
pub struct Flows {
    flows: Slab<Flow>,
    /// Number of flows to forwarded ports, and its maximum: half of the table. The clients of these
    /// ports cannot use up the flows of the guest.
    forwarded: usize,
    forwarded_max: usize,
    by_connection: HashMap<ConnectionId, Key>,
    /// The flows whose SYN is not answered yet, by guest and remote end.
    opening: HashMap<(SocketAddr, SocketAddr), Key>,
    events: VecDeque<Event>,
    new_flows: Rate,
    counters: Counters,
    /// The limit of the send buffers if the output is slow.
    send_buffer: Option<usize>,
}

impl Flows {
    /// Returns a table without flows.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            flows: Slab::new(limits.flows),
            forwarded: 0,
            forwarded_max: limits.flows / 2,
            by_connection: HashMap::new(),
            opening: HashMap::new(),
            events: VecDeque::new(),
            new_flows: Rate::new(limits.new_per_s),
            counters: Counters::default(),
            send_buffer: None,
        }
    }

    /// Limits the unacknowledged and unsent data of connections opened from now on, because the
    /// output is slow.
    pub(crate) fn set_send_buffer(&mut self, bytes: usize) {
        self.send_buffer = Some(bytes);
    }

    /// Returns the size of the receive buffer of the sockets in bytes, if the output is slow.
    pub(crate) fn socket_buffer(&self) -> Option<usize> {
        let slow = self.send_buffer.filter(|bytes| *bytes < SOCKET_BUFFER_MAX);
        slow.map(|bytes| bytes.max(SOCKET_BUFFER_MIN))
    }

    /// Returns the number of bytes that are worth a read from the socket of a flow; at least 1.
    pub(crate) fn read_min(&self, key: Key) -> usize {
        self.flows.get(key).map_or(1, |flow| flow.read_min)
    }

    /// Returns the policies of the next connection.
    fn next_profile(&mut self, tcp: &Tcp) -> Profile {
        // A flow may be without a connection, and a connection that closes without a flow.
        let connections = tcp.connections().saturating_sub(tcp.released_in_time_wait());
        let (start, is_small) = buffer_sizes::start(self.flows.len().max(connections));
        self.counters.small_buffers += u64::from(is_small);
        profile(start, self.send_buffer)
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the number of table slots that were examined by all calls.
    #[cfg(test)]
    pub(crate) fn examined(&self) -> u64 {
        self.flows.examined()
    }

    /// Returns the number of flows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Returns whether there is no flow.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::Progress { flow } = event
            && let Some(flow) = self.flows.get_mut(flow)
        {
            flow.is_queued = false;
        }
        Some(event)
    }

    /// Processes the SYNs and the events of the guest's connections. `route` returns the remote host
    /// of a destination.
    pub(crate) fn run(
        &mut self,
        tcp: &mut Tcp,
        route: &mut dyn FnMut(SocketAddr) -> Destination,
        cx: &mut Cx<'_>,
    ) {
        while let Some(open) = tcp.deferred_open() {
            self.open(tcp, &open, route, cx);
        }
        while let Some((id, event)) = tcp.event() {
            self.process(tcp, id, event);
        }
    }

    fn open(
        &mut self,
        tcp: &mut Tcp,
        open: &DeferredOpen,
        route: &mut dyn FnMut(SocketAddr) -> Destination,
        cx: &mut Cx<'_>,
    ) {
        let guest = open.remote();
        let remote = open.local();
        if let Some(&key) = self.opening.get(&(guest, remote)) {
            // A retransmission, or the SYN of a guest that has restarted.
            if let Some(known) = self.flows.get_mut(key).and_then(|flow| flow.open.as_mut()) {
                known.update(open);
            }
            return;
        }
        let (destination, others) = match route(remote) {
            Destination::Host(host) => (Some(host), VecDeque::new()),
            Destination::Resolvers(mut resolvers) => (resolvers.pop_front(), resolvers),
            Destination::Denied => (None, VecDeque::new()),
        };
        let Some(host) = destination else {
            self.counters.denied += 1;
            return tcp.refuse_deferred(open, cx);
        };
        if self.flows.is_full() {
            self.counters.over_limit += 1;
            return tcp.refuse_deferred(open, cx);
        }
        if !self.new_flows.allows(cx.now) {
            // The SYN is dropped and not refused: the guest's retransmission is paced.
            self.counters.over_rate += 1;
            return;
        }
        let flow = Flow {
            open: Some(*open),
            others,
            ..Flow::new(guest, remote, Phase::Connecting, cx.now)
        };
        let Some(key) = self.flows.insert(flow) else { return };
        self.opening.insert((guest, remote), key);
        self.counters.outgoing += 1;
        self.events.push_back(Event::Connect { flow: key, remote: host });
    }

    /// Opens a flow to the guest for a connection that the driver has accepted. `source` is the end
    /// that the guest sees.
    ///
    /// # Errors
    ///
    /// Returns an error if a limit is reached, also that of the flows to forwarded ports. If there
    /// already is a connection between these ends, the guest sees another port of `source`.
    pub fn accept(
        &mut self,
        tcp: &mut Tcp,
        source: SocketAddr,
        guest: SocketAddr,
        cx: &mut Cx<'_>,
    ) -> Result<Key, OpenError> {
        if self.flows.is_full() || self.forwarded >= self.forwarded_max {
            self.counters.over_limit += 1;
            return Err(OpenError::TooMany);
        }
        let profile = self.next_profile(tcp);
        let connection = match tcp.open_at(source, guest, profile, cx) {
            Err(OpenError::NoPort) => tcp.open(source.ip(), guest, profile, cx)?,
            opened => opened?,
        };
        let remote = tcp.status(connection).map_or(source, |status| status.local);
        let flow = Flow {
            connection: Some(connection),
            is_incoming: true,
            read_min: buffer_sizes::read_min(profile.send_limit),
            ..Flow::new(guest, remote, Phase::Opening, cx.now)
        };
        let key = self.flows.insert(flow).ok_or(OpenError::TooMany)?;
        self.by_connection.insert(connection, key);
        self.forwarded += 1;
        self.counters.incoming += 1;
        Ok(key)
    }

    fn process(&mut self, tcp: &mut Tcp, id: ConnectionId, event: tcp::Event) {
        let Some(&key) = self.by_connection.get(&id) else { return };
        let Some(flow) = self.flows.get_mut(key) else { return };
        match event {
            tcp::Event::Established => {
                flow.phase = Phase::Open;
                if flow.has_host_finished {
                    // The connection exists, because it has just been established.
                    _ = tcp.close(id);
                }
            }
            tcp::Event::PeerClosed => {
                flow.has_guest_finished = true;
                // The connection exists, because its peer has just closed it.
                _ = tcp.set_keep_alive(id, Some(HALF_CLOSED_KEEP_ALIVE));
            }
            tcp::Event::Closed => {
                let reason = tcp.status(id).ok().and_then(|status| status.close_reason);
                // A connection in TIME-WAIT is aborted if the table of connections is full.
                let has_finished = flow.has_guest_finished && flow.has_host_finished;
                if !has_finished
                    || !matches!(reason, Some(CloseReason::Closed | CloseReason::Aborted))
                {
                    return self.end(tcp, key, true);
                }
                // Both sides have finished, but data of the guest may still wait for the socket.
                // The flow ends when the socket is shut down.
            }
            tcp::Event::Readable | tcp::Event::Writable => {}
            tcp::Event::Urgent | tcp::Event::Unresponsive => return,
        }
        self.queue_progress(key);
    }

    fn queue_progress(&mut self, key: Key) {
        if let Some(flow) = self.flows.get_mut(key)
            && !flow.is_queued
        {
            flow.is_queued = true;
            self.events.push_back(Event::Progress { flow: key });
        }
    }

    /// Removes a flow and reports its end.
    fn end(&mut self, tcp: &mut Tcp, key: Key, is_reset: bool) {
        if self.remove(tcp, key).is_some() {
            self.events.push_back(Event::End { flow: key, is_reset });
        }
    }

    fn remove(&mut self, tcp: &mut Tcp, key: Key) -> Option<Flow> {
        let flow = self.flows.remove(key)?;
        self.forwarded -= usize::from(flow.is_incoming);
        // Another flow may have the same ends: one whose connection has ended, but not its socket.
        if flow.open.is_some() {
            self.opening.remove(&(flow.guest, flow.remote));
        }
        if let Some(id) = flow.connection {
            self.by_connection.remove(&id);
            tcp.release(id);
        }
        Some(flow)
    }

    /// Reports that the socket of an outgoing flow is connected.
    pub fn connected(&mut self, tcp: &mut Tcp, key: Key, cx: &mut Cx<'_>) {
        let Some(open) = self.flows.get_mut(key).and_then(|flow| flow.open.take()) else { return };
        let profile = self.next_profile(tcp);
        let Some(flow) = self.flows.get_mut(key) else { return };
        self.opening.remove(&(flow.guest, flow.remote));
        match tcp.accept_deferred(&open, profile, cx) {
            Ok(id) => {
                flow.connection = Some(id);
                flow.read_min = buffer_sizes::read_min(profile.send_limit);
                flow.limits = LimitHistory::new(cx.now);
                self.by_connection.insert(id, key);
            }
            Err(_) => {
                self.counters.over_limit += 1;
                tcp.refuse_deferred(&open, cx);
                self.end(tcp, key, true);
            }
        }
    }

    /// Processes that the socket of an outgoing flow could not be connected, and that the driver has
    /// closed it. If there is another remote host, the driver connects to it; otherwise the key
    /// becomes invalid, and the open is returned.
    pub(crate) fn connect_failed(
        &mut self,
        tcp: &mut Tcp,
        key: Key,
        is_for_descriptor: bool,
    ) -> Option<DeferredOpen> {
        if let Some(remote) = self.flows.get_mut(key).and_then(|flow| flow.others.pop_front()) {
            self.events.push_back(Event::Connect { flow: key, remote });
            return None;
        }
        let flow = self.remove(tcp, key)?;
        if is_for_descriptor {
            self.counters.no_descriptor += 1;
        } else {
            self.counters.failed += 1;
        }
        flow.open
    }

    /// Returns the next data from the guest; empty if no data waits.
    #[must_use]
    pub fn to_host<'a>(&self, tcp: &'a Tcp, key: Key) -> &'a [u8] {
        let connection = self.flows.get(key).and_then(|flow| flow.connection);
        connection.and_then(|id| tcp.received(id).ok()).unwrap_or_default()
    }

    /// Returns all data from the guest that waits, in pieces.
    pub fn to_host_pieces<'a>(&self, tcp: &'a Tcp, key: Key) -> impl Iterator<Item = &'a [u8]> {
        let connection = self.flows.get(key).and_then(|flow| flow.connection);
        connection.into_iter().flat_map(|id| tcp.received_pieces(id))
    }

    /// Removes `count` bytes of [`Self::to_host`] that the socket has accepted.
    pub fn accepted(&mut self, tcp: &mut Tcp, key: Key, count: usize) {
        let Some(flow) = self.flows.get_mut(key) else { return };
        let Some(id) = flow.connection else { return };
        flow.bytes_to_host += count as u64;
        self.counters.bytes_to_host += count as u64;
        // The connection exists as long as its flow.
        _ = tcp.consume(id, count);
    }

    /// Returns whether the guest has finished, the socket has accepted all data, and the socket is
    /// not shut down for writing yet.
    #[must_use]
    pub fn must_shut_down(&self, tcp: &Tcp, key: Key) -> bool {
        let Some(flow) = self.flows.get(key) else { return false };
        flow.has_guest_finished && !flow.is_shut_down && self.to_host(tcp, key).is_empty()
    }

    /// Reports that the socket is shut down for writing.
    pub fn shut_down(&mut self, tcp: &mut Tcp, key: Key) {
        if let Some(flow) = self.flows.get_mut(key) {
            flow.is_shut_down = true;
            self.end_if_finished(tcp, key);
        }
    }

    /// Returns the number of bytes that [`Self::to_guest`] accepts now.
    #[must_use]
    pub fn space(&self, tcp: &Tcp, key: Key) -> usize {
        let open = self.flows.get(key).filter(|flow| !flow.has_host_finished);
        open.and_then(|flow| flow.connection).map_or(0, |id| tcp.send_space(id))
    }

    /// Queues data of the remote host for the guest, and returns the number of accepted bytes.
    pub fn to_guest(&mut self, tcp: &mut Tcp, key: Key, data: &[u8]) -> usize {
        self.send_to_guest(key, |id| tcp.send(id, data))
    }

    /// As [`Self::to_guest`], without a copy of the data.
    pub fn share_with_guest(&mut self, tcp: &mut Tcp, key: Key, data: &Arc<[u8]>) -> usize {
        self.send_to_guest(key, |id| tcp.send_shared(id, data, 0))
    }

    fn send_to_guest(
        &mut self,
        key: Key,
        send: impl FnOnce(ConnectionId) -> Result<usize, NoConnection>,
    ) -> usize {
        let Some(flow) = self.flows.get_mut(key) else { return 0 };
        let Some(id) = flow.connection else { return 0 };
        let count = send(id).unwrap_or(0);
        flow.bytes_to_guest += count as u64;
        self.counters.bytes_to_guest += count as u64;
        count
    }

    /// Reports that the remote host has finished: the guest receives a FIN after the queued data.
    pub fn host_finished(&mut self, tcp: &mut Tcp, key: Key) {
        let Some(flow) = self.flows.get_mut(key) else { return };
        flow.has_host_finished = true;
        // CLOSE would delete a connection whose SYN is not answered, and the data queued for it.
        if let Some(id) = flow.connection.filter(|_| flow.phase == Phase::Open) {
            // The connection exists as long as its flow.
            _ = tcp.close(id);
        }
        self.end_if_finished(tcp, key);
    }

    /// Reports that the socket has failed: the guest receives a reset. The key becomes invalid, and
    /// the driver has closed the socket.
    pub fn host_reset(&mut self, tcp: &mut Tcp, key: Key, cx: &mut Cx<'_>) {
        if let Some(id) = self.flows.get(key).and_then(|flow| flow.connection) {
            // A connection that is already gone needs no reset.
            _ = tcp.abort(id, cx);
        }
        let open = self.remove(tcp, key).and_then(|flow| flow.open);
        if let Some(open) = open {
            tcp.refuse_deferred(&open, cx);
        }
    }

    /// Ends all flows: the guest is gone and will not answer. The sockets are reset.
    pub fn end_all(&mut self, tcp: &mut Tcp, cx: &mut Cx<'_>) {
        // The last SYNs of the guest would become flows later.
        while tcp.deferred_open().is_some() {}
        let keys: Vec<Key> = self.flows.iter().map(|(key, _)| key).collect();
        for key in keys {
            if let Some(id) = self.flows.get(key).and_then(|flow| flow.connection) {
                // A connection that is already gone needs no reset.
                _ = tcp.abort(id, cx);
            }
            self.end(tcp, key, true);
        }
    }

    /// Ends a flow of which both directions have finished. TCP delivers the rest of the data.
    fn end_if_finished(&mut self, tcp: &mut Tcp, key: Key) {
        let is_over = |flow: &Flow| flow.has_host_finished && flow.is_shut_down;
        if self.flows.get(key).is_some_and(is_over) {
            self.end(tcp, key, false);
        }
    }

    /// Records the state of a flow after the driver has copied. `waits_for_turn` returns whether a
    /// connection waits for its turn at a slow output.
    pub(crate) fn copied(
        &mut self,
        tcp: &Tcp,
        key: Key,
        waits_for_turn: impl Fn(ConnectionId) -> bool,
        now: Instant,
    ) {
        let Some(flow) = self.flows.get_mut(key) else { return };
        let Some(id) = flow.connection.filter(|_| flow.phase == Phase::Open) else { return };
        let waiting = flow.waiting(tcp, id);
        flow.limits.record(waiting, observe(tcp, id, waits_for_turn(id), now));
    }

    /// Returns all flows. `waits_for_turn` returns whether a connection waits for its turn at a slow
    /// output.
    pub(crate) fn statuses<'a>(
        &'a self,
        tcp: &'a Tcp,
        waits_for_turn: impl Fn(ConnectionId) -> bool + 'a,
        now: Instant,
    ) -> impl Iterator<Item = (Key, Status)> + 'a {
        self.flows.iter().map(move |(key, flow)| {
            let limit = match flow.connection.filter(|_| flow.phase == Phase::Open) {
                Some(id) => flow.limits.limit(observe(tcp, id, waits_for_turn(id), now)),
                None => Limit::Opening,
            };
            let Flow { guest, remote, bytes_to_host, bytes_to_guest, .. } = *flow;
            let phase = flow.reported_phase();
            (key, Status { guest, remote, phase, limit, bytes_to_host, bytes_to_guest })
        })
    }
}

fn observe(tcp: &Tcp, id: ConnectionId, waits_for_turn: bool, now: Instant) -> Observation {
    Observation { now, full_window: tcp.peer_window_time(id, now), waits_for_turn }
}

impl Flow {
    fn new(guest: SocketAddr, remote: SocketAddr, phase: Phase, now: Instant) -> Self {
        Self {
            guest,
            remote,
            phase,
            open: None,
            connection: None,
            others: VecDeque::new(),
            has_guest_finished: false,
            is_shut_down: false,
            has_host_finished: false,
            is_queued: false,
            is_incoming: false,
            read_min: 1,
            bytes_to_host: 0,
            bytes_to_guest: 0,
            limits: LimitHistory::new(now),
        }
    }

    fn reported_phase(&self) -> Phase {
        match (self.phase, self.has_guest_finished, self.has_host_finished) {
            (Phase::Open, true, true) => Phase::Closing,
            (Phase::Open, true, false) | (Phase::Open, false, true) => Phase::HalfClosed,
            (phase, _, _) => phase,
        }
    }

    /// Returns the data that waits after a copy.
    fn waiting(&self, tcp: &Tcp, id: ConnectionId) -> Waiting {
        let has_queued = || tcp.status(id).is_ok_and(|status| status.send_queue > 0);
        match () {
            () if tcp.received(id).is_ok_and(|data| !data.is_empty()) => Waiting::ForHost,
            () if self.has_host_finished && has_queued() => Waiting::ForGuest,
            () if !self.has_host_finished && tcp.send_space(id) < self.read_min => {
                Waiting::ForGuest
            }
            () => Waiting::Nothing,
        }
    }
}

/// The policies of the guest's connections. Nagle's algorithm is off, because the sender has already
/// applied it. Pacing is off: no queue of a router between the gateway and its guest can overflow,
/// and each pause would cost a timer and a wakeup. Acknowledgments are delayed, so that they share a
/// segment with an answer.
///
/// `start` is the initial size of the buffers in bytes, and `send_buffer` the fixed limit of the
/// send buffer if the output is slow.
fn profile(start: usize, send_buffer: Option<usize>) -> Profile {
    let limit = buffer_sizes::SIZE_MAX;
    let tuned = SendLimit::Tuned { start, limit };
    Profile {
        receive_window: ReceiveWindow::Tuned { start, limit },
        send_limit: send_buffer.map_or(tuned, |bytes| SendLimit::Bytes(bytes.min(start))),
        acknowledgment: Acknowledgment::Delayed(Duration::from_millis(40)),
        nagle: false,
        pacing: false,
        keep_alive: Some(KeepAlive { idle: KEEP_ALIVE_AFTER, ..KeepAlive::default() }),
        ..Profile::BULK
    }
}
