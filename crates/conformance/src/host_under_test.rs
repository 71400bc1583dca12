//! The host under test: the engines of `protocols` with a virtual clock.
//!
//! No other file calls the engines. Received packets are processed at once: there is no application
//! between input and output, because the script makes the calls of the application.

use crate::device::Device;
use crate::option_order;
use crate::script_settings::{Flags, Policies, TargetOs};
use net::internet::Internet;
use net::internet::ipv4::Protocol;
use net::meter::{Clock, Meter};
use net::packet::{Packet, Pool};
use net::rng::Rng;
use net::time::Duration;
use net::transport::tcp::{
    self, ConnectionId, Event, LowerLevel, OpenError, Profile, State, Status, Tcp,
};
use net::{Cx, Instant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};

/// Default local address of the runner's network device.
pub(crate) const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
const PREFIX_LEN: u8 = 16;
/// Number of packet buffers, large enough that no packet is dropped for lack of a buffer, which no
/// script expects.
const PACKETS: usize = 4096;
/// Clock reading at the start of a run, well after zero as on a running machine.
const START: Duration = Duration::from_secs(1000);

/// A datagram that was sent.
#[derive(Debug)]
pub(crate) struct SentDatagram {
    /// Bytes of the datagram.
    pub(crate) bytes: Vec<u8>,
    /// Time at which the datagram was sent.
    pub(crate) at: Instant,
}

/// The host under test.
#[derive(Debug)]
pub(crate) struct Host {
    now: Instant,
    rng: Rng,
    meter: Meter,
    pool: Pool,
    internet: Internet,
    tcp: Tcp,
    /// Whether the options of SYNs are rewritten in FreeBSD's order.
    rewrites_syn_options: bool,
    device: Device,
    sent: VecDeque<SentDatagram>,
    /// Connections opened by this host or already accepted.
    owned_connections: BTreeSet<ConnectionId>,
    /// Connections waiting to be accepted, by port.
    acceptable_connections: BTreeMap<u16, VecDeque<ConnectionId>>,
}

impl Host {
    /// Creates a host without connections.
    pub(crate) fn new(flags: &Flags) -> Self {
        let now = Instant::ZERO + START;
        let is_tuned = flags.policies == Policies::Tuned;
        let mut rng = Rng::from_seed(1);
        let mut meter = Meter::new(Clock::None);
        let internet = Internet::new(LOCAL, PREFIX_LEN, flags.mtu);
        let lower = LowerLevel { tso: true, ..LowerLevel::plain(internet.mtu()) };
        let mut cx = Cx { now, rng: &mut rng, meter: &mut meter };
        let tcp = Tcp::new(lower, &mut cx);
        Self {
            now,
            rng,
            meter,
            pool: Pool::new(PACKETS, usize::from(flags.mtu)),
            internet,
            tcp,
            rewrites_syn_options: is_tuned && flags.target_os == TargetOs::FreeBsd,
            device: match flags.target_os {
                TargetOs::Linux if is_tuned => Device::with_push_on_second_segments(),
                TargetOs::Linux | TargetOs::FreeBsd => Device::default(),
            },
            sent: VecDeque::new(),
            owned_connections: BTreeSet::new(),
            acceptable_connections: BTreeMap::new(),
        }
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Returns the time of the next timer.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.tcp.deadline()
    }

    /// Advances the time to `now`, and runs due timers.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.tcp.deadline().is_some_and(|deadline| deadline <= self.now) {
            let mut cx = cx(self.now, &mut self.rng, &mut self.meter);
            self.tcp.timeout(&mut cx);
            self.flush();
        }
    }

    /// Processes a datagram as if it was received from the link.
    pub(crate) fn inject(&mut self, bytes: &[u8]) {
        let mut cx = cx(self.now, &mut self.rng, &mut self.meter);
        let Some(mut packet) = self.pool.take(cx.meter) else { return };
        packet.extend(bytes);
        if let Some(datagram) = self.internet.receive(packet, &mut self.pool, &mut cx) {
            let header = datagram.header;
            let packet = datagram.packet;
            let remaining_packet = if header.protocol == Protocol::Tcp {
                self.tcp.receive(&header, packet, true, &mut cx)
            } else {
                Some(packet)
            };
            remaining_packet.into_iter().for_each(|packet| self.pool.put(packet));
        }
        while let Some(event) = self.internet.event() {
            if let net::internet::Event::Error(error) = event {
                self.tcp.icmp_error(&error, &mut cx);
            }
        }
        self.flush();
    }

    /// Removes and returns the next sent datagram.
    pub(crate) fn next_sent(&mut self) -> Option<SentDatagram> {
        self.sent.pop_front()
    }

    /// Moves all pending output of the engines to the queue of sent datagrams.
    pub(crate) fn flush(&mut self) {
        let mut cx = cx(self.now, &mut self.rng, &mut self.meter);
        let mut outgoing = Vec::new();
        while let Some(packet) = self.internet.transmit(&mut self.pool, &mut cx) {
            outgoing.push(packet);
        }
        while let Some(segment) = self.tcp.transmit(&mut self.pool, &mut cx) {
            let lower = segment.lower;
            let pool = &mut self.pool;
            if let Ok(Some(packet)) = self.internet.send(segment.packet, lower, pool, &mut cx) {
                outgoing.push(packet);
            }
        }
        outgoing.into_iter().for_each(|packet| self.transmit(packet));
        while let Some((id, event)) = self.tcp.event() {
            if event == Event::Established && self.owned_connections.insert(id) {
                let port = self.tcp.status(id).map_or(0, |status| status.local.port());
                self.acceptable_connections.entry(port).or_default().push_back(id);
            }
        }
    }

    /// Returns whether [`Self::next_sent`] would return a datagram.
    pub(crate) fn has_sent(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Returns the MTU of the link in bytes.
    pub(crate) fn mtu(&self) -> u16 {
        self.internet.mtu()
    }

    /// Changes the policies of a connection.
    pub(crate) fn set_profile(&mut self, id: ConnectionId, profile: Profile) {
        let _ = self.tcp.set_profile(id, profile);
    }

    /// Returns the table of connections in the format of FreeBSD's `sockstat`.
    pub(crate) fn table(&self) -> String {
        let mut table = String::new();
        for status in self.tcp.statuses() {
            let state = match status.state {
                State::SynSent => "SYN_SENT",
                State::SynReceived => "SYN_RCVD",
                State::Established => "ESTABLISHED",
                State::FinWait1 => "FIN_WAIT_1",
                State::FinWait2 => "FIN_WAIT_2",
                State::CloseWait => "CLOSE_WAIT",
                State::Closing => "CLOSING",
                State::LastAck => "LAST_ACK",
                State::TimeWait => "TIME_WAIT",
                State::Closed => "CLOSED",
            };
            let local = status.local;
            let remote = status.remote;
            table += &format!("root packetdril 1 3 tcp4 {local} {remote} {state}\n");
        }
        table
    }

    /// Sends a datagram on the link.
    fn transmit(&mut self, packet: Packet) {
        let mut bytes = packet.data().to_vec();
        let segment_size = packet.offload.segment_size;
        self.pool.put(packet);
        if self.rewrites_syn_options {
            bytes = option_order::as_freebsd(bytes);
        }
        let at = self.now;
        let segments = self.device.cut(bytes, segment_size);
        self.sent.extend(segments.into_iter().map(|bytes| SentDatagram { bytes, at }));
    }

    /// Opens a connection to `remote`.
    pub(crate) fn connect(
        &mut self,
        remote: SocketAddr,
        profile: Profile,
    ) -> Result<ConnectionId, OpenError> {
        let mut cx = cx(self.now, &mut self.rng, &mut self.meter);
        let id = self.tcp.open(LOCAL.into(), remote, profile, &mut cx)?;
        self.owned_connections.insert(id);
        Ok(id)
    }

    /// Listens on `port`; returns `false` if another listener uses the port.
    pub(crate) fn listen(&mut self, port: u16, profile: Profile) -> bool {
        self.tcp.listen(port, profile).is_ok()
    }

    /// Stops listening on `port`; connections waiting to be accepted are reset.
    pub(crate) fn stop_listening(&mut self, port: u16) {
        self.tcp.stop_listening(port);
        for id in self.acceptable_connections.remove(&port).unwrap_or_default() {
            self.abort(id);
        }
    }

    /// Returns the next connection to `port` waiting to be accepted.
    pub(crate) fn accept(&mut self, port: u16) -> Option<ConnectionId> {
        self.acceptable_connections.get_mut(&port)?.pop_front()
    }

    /// Returns whether a connection to `port` waits to be accepted.
    pub(crate) fn has_acceptable(&self, port: u16) -> bool {
        self.acceptable_connections.get(&port).is_some_and(|waiting| !waiting.is_empty())
    }

    /// Returns the status of a connection, if it still exists.
    pub(crate) fn status(&self, id: ConnectionId) -> Option<Status> {
        self.tcp.status(id).ok()
    }

    /// Returns the contiguous received data that starts `offset` bytes after the next byte to read.
    pub(crate) fn received_from(&self, id: ConnectionId, offset: usize) -> &[u8] {
        self.tcp.received_from(id, offset).unwrap_or_default()
    }

    /// Discards `count` bytes that were read.
    pub(crate) fn consume(&mut self, id: ConnectionId, count: usize) {
        let _ = self.tcp.consume(id, count);
    }

    /// Queues the beginning of `data` that fits into the send buffer, and returns its length in
    /// bytes.
    pub(crate) fn send(&mut self, id: ConnectionId, data: &[u8]) -> usize {
        self.tcp.send(id, data).unwrap_or(0)
    }

    /// Closes the sending side after the queued data.
    pub(crate) fn shut_down(&mut self, id: ConnectionId) {
        let _ = self.tcp.close(id);
    }

    /// Closes and releases a connection.
    pub(crate) fn release(&mut self, id: ConnectionId) {
        self.tcp.release(id);
        // A connection with unread data is reset when the timers run.
        self.advance(self.now);
    }

    /// Resets and releases a connection.
    pub(crate) fn abort(&mut self, id: ConnectionId) {
        let mut cx = cx(self.now, &mut self.rng, &mut self.meter);
        let _ = self.tcp.abort(id, &mut cx);
        self.tcp.release(id);
    }
}

/// Returns the context for calls of the engines.
fn cx<'a>(now: Instant, rng: &'a mut Rng, meter: &'a mut Meter) -> Cx<'a> {
    Cx { now, rng, meter }
}

/// Returns the errno that a call reports after the connection has ended for this reason.
pub(crate) fn errno_of(close_reason: tcp::CloseReason) -> i32 {
    match close_reason {
        tcp::CloseReason::Closed => 0,
        tcp::CloseReason::Aborted => libc::ECONNABORTED,
        tcp::CloseReason::Refused => libc::ECONNREFUSED,
        tcp::CloseReason::Reset => libc::ECONNRESET,
        tcp::CloseReason::TimedOut => libc::ETIMEDOUT,
        tcp::CloseReason::Unreachable => libc::EHOSTUNREACH,
    }
}
