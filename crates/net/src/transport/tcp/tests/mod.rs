//! Tests of TCP: two instances on a wire in virtual time, or one instance and a script of segments.

mod acknowledgment;
mod addresses;
mod attacks;
mod campaign;
mod closing;
mod congestion;
mod connection_lists;
mod deferred_open;
mod ecn;
mod fast_open;
mod giving_up;
mod headers;
mod icmp_error;
mod idle_connections;
mod keep_alive;
mod memory_pressure;
mod opening;
mod options;
mod past_middle;
mod past_zero;
mod path_search;
mod reordering;
mod resets;
mod retransmission;
mod sack;
mod script;
mod states;
mod syn_flood;
mod time_wait;
mod transfer;
mod tuning;
mod urgent;
mod windows;
mod wrap;

use super::header::{Flags, Header, Options};
use super::seq::Seq;
use super::transmit::Outgoing;
use super::*;
use crate::cx::OwnedCx;
use crate::internet::ipv4::Protocol;
use crate::packet::Pool;
use crate::rng::Rng;
use crate::time::Duration;
use core::net::Ipv4Addr;
use proptest::prelude::ProptestConfig;
use script::{ANYWHERE, FIN_ACK, PLAIN, RST_ACK, SYN_ACK, ScriptAt, Sent, extents, seconds, texts};
use std::boxed::Box;
use std::collections::BTreeMap as Wire;
use std::vec::Vec;

pub(super) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub(super) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub(super) const PORT: u16 = 23;
const LOWER: LowerLevel = LowerLevel::plain(1500);

/// One TCP and a script, with arbitrary initial sequence numbers.
type Script = ScriptAt<ANYWHERE>;

/// Returns the local end of the next connection to `remote`.
pub(super) fn next_local_end(
    tcp: &Tcp,
    local: IpAddr,
    remote: SocketAddr,
    context: &OwnedCx,
) -> SocketAddr {
    let port = tcp.ports.clone().choose(local, remote, &mut context.rng.clone(), |_| true);
    SocketAddr::new(local, port.unwrap())
}

/// Sets the initial sequence number of the next connection between `ends` to `isn`, if it is opened
/// at `at`.
pub(super) fn begin_at(
    tcp: &mut Tcp,
    (local, remote): (SocketAddr, SocketAddr),
    at: Instant,
    isn: Seq,
) {
    let missing_ticks = isn.since(tcp.secret.isn(local, remote, at));
    tcp.secret.clock_start = tcp.secret.clock_start.wrapping_add(missing_ticks);
}

/// Returns the configuration of a property test with `cases` runs. A failure prints its seed, and
/// no file is written.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

/// Delivers the bytes of a segment to `tcp`.
pub(super) fn deliver_bytes(
    tcp: &mut Tcp,
    (source, destination): (IpAddr, IpAddr),
    segment: &[u8],
    cx: &mut Cx<'_>,
) {
    let lower = internet::Header { source, ..internet::Header::to(destination, Protocol::Tcp) };
    assert!(tcp.receive(&lower, Packet::from_slice(segment), false, cx).is_some());
}

/// Makes a segment with its checksum.
pub(super) fn make(header: Header, ends: (SocketAddr, SocketAddr), data: &[u8]) -> Packet {
    let len = u32::try_from(data.len()).unwrap();
    let outgoing = Outgoing { header, offset: 0, len, segment_size: 0, ecn: 0 };
    let mut segment =
        LOWER.segment(&outgoing, (ends.0.ip(), ends.1.ip()), Packet::with_capacity(2000));
    LOWER.append(&mut segment, [data, &[]]);
    segment.packet
}

/// Parses the header of a valid segment, and returns it with its length.
pub(super) fn read(source: IpAddr, destination: IpAddr, segment: &[u8]) -> (Header, usize) {
    let sum = LOWER.sum(source, destination, segment);
    Header::parse(segment, sum, &mut OwnedCx::default().meter).unwrap()
}

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Client,
    Server,
}

impl Side {
    fn other(self) -> Self {
        if self == Self::Client { Self::Server } else { Self::Client }
    }

    fn address(self) -> IpAddr {
        if self == Self::Client { CLIENT } else { SERVER }
    }
}

/// Decides whether the wire delivers a segment. The parameters are its index among all sent
/// segments, its sender and its header.
pub(super) type Fate = Box<dyn FnMut(u64, Side, &Header) -> bool>;

/// Random faults of the wire, in parts per million.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) lost: u32,
    pub(super) doubled: u32,
    pub(super) delayed: u32,
}

/// Two TCPs and a wire with a one-way delay of `delay`.
pub(super) struct Pair {
    pub(super) context: OwnedCx,
    pub(super) client: Tcp,
    pub(super) server: Tcp,
    pool: Pool,
    wire: Wire<(Instant, u64), (Side, Vec<u8>)>,
    pub(super) delay: Duration,
    sent: u64,
    /// Decides whether a segment is delivered.
    pub(super) fate: Fate,
    pub(super) faults: Faults,
    /// Whether data may stay in the packets in which it arrives.
    pub(super) keeps: bool,
    /// Maximum length of a segment that is delivered, in bytes. Longer segments are dropped without
    /// an ICMP error.
    pub(super) delivered_len_max: usize,
    dice: Rng,
    /// Every segment sent, whether delivered or not.
    pub(super) trace: Vec<(Instant, Side, Header, usize)>,
    pub(super) events: Vec<(Side, ConnectionId, Event)>,
}

impl Pair {
    pub(super) fn new(seed: u64) -> Self {
        let mut context = OwnedCx::with_seed(seed);
        let client = Tcp::new(LOWER, &mut context.cx());
        let server = Tcp::new(LOWER, &mut context.cx());
        Self {
            context,
            client,
            server,
            pool: Pool::new(4, 2000),
            wire: Wire::new(),
            delay: Duration::from_millis(5),
            sent: 0,
            fate: Box::new(|_, _, _| true),
            faults: Faults::default(),
            keeps: false,
            delivered_len_max: usize::MAX,
            dice: Rng::from_seed(seed),
            trace: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Opens a connection with `profile` at both ends, and returns the identifiers of both sides.
    pub(super) fn connect(&mut self, profile: Profile) -> (ConnectionId, ConnectionId) {
        self.server.listen(PORT, profile).unwrap();
        let remote = SocketAddr::new(SERVER, PORT);
        let client = self.client.open(CLIENT, remote, profile, &mut self.context.cx()).unwrap();
        self.drive();
        let accepted = self
            .events
            .iter()
            .find(|(side, _, event)| *side == Side::Server && *event == Event::Established);
        (client, accepted.expect("the server has accepted").1)
    }

    pub(super) fn tcp(&mut self, side: Side) -> &mut Tcp {
        if side == Side::Client { &mut self.client } else { &mut self.server }
    }

    /// Sends the output of both sides to the wire.
    pub(super) fn output(&mut self) {
        for side in [Side::Client, Side::Server] {
            while let Some(segment) = self.next_segment(side) {
                let bytes = segment.packet.data().to_vec();
                let size = usize::from(segment.packet.offload.segment_size);
                self.pool.put(segment.packet);
                let (header, len) = read(segment.lower.source, segment.lower.destination, &bytes);
                self.trace.push((self.context.now, side, header, bytes.len() - len));
                self.sent += 1;
                let is_short = size > 0 || bytes.len() <= self.delivered_len_max;
                if !is_short || !(self.fate)(self.sent, side, &header) {
                    continue;
                }
                // The sender's device has split the data into segments. The receiver's device may
                // merge them again.
                let is_whole = size == 0 || self.dice.below(4) == 0;
                let size = if is_whole { bytes.len() } else { size };
                let parts = cut(side, &header, &bytes[len..], size);
                for (number, part) in parts.into_iter().enumerate() {
                    self.sent += u64::from(number > 0);
                    self.put_on_wire(side, part);
                }
            }
            while let Some((id, event)) = self.tcp(side).event() {
                self.events.push((side, id, event));
            }
        }
        assert_eq!(self.pool.lent(), 0, "no packet leaks");
    }

    fn next_segment(&mut self, side: Side) -> Option<Segment> {
        let tcp = if side == Side::Client { &mut self.client } else { &mut self.server };
        tcp.transmit(&mut self.pool, &mut self.context.cx())
    }

    fn put_on_wire(&mut self, side: Side, bytes: Vec<u8>) {
        if self.dice.random_bool(self.faults.lost) {
            return;
        }
        if self.dice.random_bool(self.faults.doubled) {
            self.sent += 1;
            let at = (self.context.now + self.delay * 3, self.sent);
            self.wire.insert(at, (side.other(), bytes.clone()));
        }
        let is_late = self.dice.random_bool(self.faults.delayed);
        let more = if is_late { self.delay.mul_f64(0.5) } else { Duration::ZERO };
        let at = (self.context.now + self.delay + more, self.sent);
        self.wire.insert(at, (side.other(), bytes));
    }

    /// Processes the next event. Returns false if there is none before `end`.
    pub(super) fn step(&mut self, end: Instant) -> bool {
        self.output();
        let arrival = self.wire.keys().next().map(|(at, _)| *at);
        let deadlines = [self.client.deadline(), self.server.deadline(), arrival];
        let Some(next) = deadlines.into_iter().flatten().min().filter(|at| *at <= end) else {
            return false;
        };
        self.context.now = self.context.now.max(next);
        while let Some(entry) = self.wire.first_entry().filter(|e| e.key().0 <= self.context.now) {
            let (side, bytes) = entry.remove();
            let from = side.other().address();
            let to = side.address();
            let tcp = if side == Side::Client { &mut self.client } else { &mut self.server };
            let lower =
                internet::Header { source: from, ..internet::Header::to(to, Protocol::Tcp) };
            let packet = Packet::from_slice(&bytes);
            let returned = tcp.receive(&lower, packet, self.keeps, &mut self.context.cx());
            assert!(returned.is_some() || self.keeps);
        }
        self.client.timeout(&mut self.context.cx());
        self.server.timeout(&mut self.context.cx());
        self.output();
        true
    }

    /// Processes all events within `time`, and advances the clock by `time`.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.context.now + time;
        while self.step(end) {}
        self.context.now = end;
    }

    /// Runs until the wire is empty and only TIME-WAIT timers remain.
    pub(super) fn drive(&mut self) {
        let end = self.context.now + Duration::from_secs(30);
        while self.step(end) {}
    }

    /// Sends `data` from `side`. The other side reads everything. Returns the received data.
    pub(super) fn transfer(
        &mut self,
        side: Side,
        (from, to): (ConnectionId, ConnectionId),
        data: &[u8],
    ) -> Vec<u8> {
        let mut sent = 0;
        let mut received = Vec::new();
        let end = self.context.now + Duration::from_secs(3600);
        while received.len() < data.len() {
            sent += self.tcp(side).send(from, &data[sent..]).unwrap();
            let reader = self.tcp(side.other());
            let chunk = reader.received(to).unwrap();
            let count = chunk.len();
            received.extend_from_slice(chunk);
            reader.consume(to, count).unwrap();
            if count == 0 && !self.step(end) {
                panic!("nothing more happens after {} of {} bytes", received.len(), data.len());
            }
        }
        received
    }

    /// Reads all readable data.
    pub(super) fn read_all(&mut self, side: Side, id: ConnectionId) -> Vec<u8> {
        let tcp = self.tcp(side);
        let mut all = Vec::new();
        while let Some(data) = Some(tcp.received(id).unwrap()).filter(|data| !data.is_empty()) {
            let count = data.len();
            all.extend_from_slice(data);
            tcp.consume(id, count).unwrap();
        }
        all
    }

    pub(super) fn state(&mut self, side: Side, id: ConnectionId) -> State {
        self.tcp(side).status(id).unwrap().state
    }
}

/// Splits a segment as a device does, into segments of at most `size` data bytes.
fn cut(side: Side, header: &Header, data: &[u8], size: usize) -> Vec<Vec<u8>> {
    let ends = (
        SocketAddr::new(side.address(), header.source_port),
        SocketAddr::new(side.other().address(), header.destination_port),
    );
    let starts = (0..data.len().max(1)).step_by(size);
    let part = |start: usize| {
        let end = data.len().min(start + size);
        let mut flags = header.flags;
        let seq = header.seq + u32::try_from(start).unwrap();
        if end < data.len() {
            flags = flags.without(Flags::FIN).without(Flags::PSH);
        }
        if start > 0 {
            flags = flags.without(Flags::CWR);
        }
        make(Header { seq, flags, ..*header }, ends, &data[start..end]).data().to_vec()
    };
    starts.map(part).collect()
}

pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from(i * 7 % 251).unwrap()).collect()
}

#[test]
fn an_idle_connection_takes_no_more_memory_than_this() {
    let recovery = size_of::<recovery::Recovery>();
    let idle_state = size_of::<idle_state::IdleState>();
    let connection = size_of::<Connection>();
    assert!(connection <= 688, "{connection}");
    assert!(idle_state <= 160, "{idle_state}");
    assert!(recovery <= 810, "{recovery}");
}
