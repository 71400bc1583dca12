//! Packet queue of one output that is slower than its inputs.
//!
//! Theory of operation. The owner of an output passes packets to [`PacketQueue::enqueue`] and takes
//! the next packet with [`PacketQueue::dequeue`] only when the output can send it, so that packets
//! wait here and not in a device. The packets of an output come from several sharers: the guests of
//! a gateway, or the lines of a router. The discipline selects the next packet:
//!
//! - [`Discipline::Fair`]: deficit round robin of the sharers (`rounds`, `fair`), fair queueing of
//!   the flows of each sharer (RFC 8290), and CoDel in each flow (RFC 8289, `codel`). Flows are
//!   told apart by a keyed hash of the five-tuple (`flow_hash`). If the queue exceeds a limit, the
//!   oldest packets of its longest flow are dropped. The packets of one flow stay in order.
//! - [`Discipline::Of1982`]: the concentrator of TM-233 §6.3, with few buffers and its fault.
//!
//! A TCP connection of the gateway itself is a flow without a queue: its data stays in its send
//! buffer, and it produces a segment when it is its turn ([`PacketQueue::add_connection`]).
//!
//! Dropped packets return to the pool. Each drop is counted with its reason, and each packet that is
//! sent is recorded with its waiting time.

mod codel;
mod counters;
mod ecn;
mod fair;
pub(crate) mod flow_hash;
mod of_1982;
mod queued;
mod rounds;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use codel::CodelTimes;
pub use counters::{QueueCounters, QueueDrop};
pub use of_1982::Concentrator1982;
pub use queued::SharerId;

use fair::{Backlog, FairParameters, FairQueue, Ledger, Turn};
use flow_hash::FlowHasher;
use net::Cx;
use net::packet::{Packet, Pool};
use net::time::Duration;
use net::transport::tcp::ConnectionId;
use of_1982::{FewBuffers, Rejected};
use queued::Queued;

/// Bytes per round on a slow output, not more than the shortest packets. A queue therefore sends at
/// most one packet per round, however short its packets are. RFC 8290 §5.2.4 suggests 300 bytes,
/// but three packets of 100 bytes take a third of a second at 9,600 bit/s.
const SLOW_QUANTUM: usize = 40;
/// Rate below which an output is slow, in bit/s.
const SLOW_BPS: u64 = 10_000_000;
/// Default limit of a queue in packets.
const PACKETS: usize = 1_000;

/// The rule that selects the next packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// Fair queueing between sharers and flows, with CoDel.
    #[default]
    Fair,
    /// The concentrator of TM-233.
    Of1982(Concentrator1982),
}

/// Settings of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// The discipline.
    pub discipline: Discipline,
    /// Maximum number of queued packets.
    pub packets_max: usize,
    /// Maximum number of queued bytes. A single packet may be longer.
    pub bytes_max: usize,
    /// Length of the longest packet of the output, in bytes.
    pub mtu: usize,
    /// Time that the output needs for a packet of `mtu` bytes; zero if unknown.
    pub packet_time: Duration,
    /// Whether packets of transports with ECN are marked instead of dropped.
    pub marks_ecn: bool,
}

impl QueueSettings {
    /// Returns the settings of a fair queue for packets of at most `mtu` bytes, of which each needs
    /// at most `packet_time`.
    #[must_use]
    pub const fn fair(mtu: usize, packet_time: Duration) -> Self {
        Self {
            discipline: Discipline::Fair,
            packets_max: PACKETS,
            bytes_max: PACKETS * mtu,
            mtu,
            packet_time,
            marks_ecn: true,
        }
    }

    /// Returns the times of CoDel for this output.
    #[must_use]
    pub fn codel_times(&self) -> CodelTimes {
        CodelTimes::of_line(self.packet_time)
    }

    fn fair_parameters(&self) -> FairParameters {
        let mtu_bits = self.mtu as u128 * 8 * 1_000_000_000;
        let rate_bps = mtu_bits.checked_div(self.packet_time.as_nanos());
        let is_slow = rate_bps.is_some_and(|rate_bps| rate_bps < u128::from(SLOW_BPS));
        FairParameters {
            quantum: if is_slow { SLOW_QUANTUM } else { self.mtu.max(1) },
            short_bytes: self.mtu,
            times: self.codel_times(),
            marks: self.marks_ecn,
        }
    }
}

/// The next output of a queue.
#[derive(Debug)]
pub enum NextOutput {
    /// A packet.
    Packet(Packet),
    /// A connection may send a segment.
    Connection(ConnectionId),
}

#[derive(Debug)]
enum State {
    Fair(FairQueue),
    Of1982(FewBuffers),
}

/// The queue of an output.
#[derive(Debug)]
pub struct PacketQueue {
    settings: QueueSettings,
    state: State,
    backlog: Backlog,
    counters: QueueCounters,
}

impl PacketQueue {
    /// Creates an empty queue. The key of its flow hash is drawn from `cx`.
    #[must_use]
    pub fn new(settings: QueueSettings, cx: &mut Cx<'_>) -> Self {
        let state = match settings.discipline {
            Discipline::Fair => {
                let hasher = FlowHasher::draw(cx.rng);
                State::Fair(FairQueue::new(settings.fair_parameters(), hasher))
            }
            Discipline::Of1982(parameters) => State::Of1982(FewBuffers::new(parameters)),
        };
        let counters = QueueCounters::default();
        Self { settings, state, backlog: Backlog::default(), counters }
    }

    /// Queues a packet of a sharer. If a limit is exceeded, packets are dropped: this one, or
    /// packets of the longest flow.
    pub fn enqueue(&mut self, sharer: SharerId, packet: Packet, pool: &mut Pool, cx: &mut Cx<'_>) {
        let len = packet.len();
        self.counters.packets_in += 1;
        self.counters.bytes_in += len as u64;
        self.backlog.add(len);
        let mut ledger = Ledger { backlog: &mut self.backlog, counters: &mut self.counters, pool };
        match &mut self.state {
            State::Fair(queue) => queue.enqueue(sharer, packet, cx.now),
            State::Of1982(queue) => {
                if let Err(rejected) = queue.enqueue(packet, cx) {
                    ledger.backlog.subtract(len);
                    match rejected {
                        Rejected::NoBuffer(packet) => ledger.drop_packet(packet, QueueDrop::Full),
                        Rejected::InBurst(packet) => ledger.drop_packet(packet, QueueDrop::Burst),
                    }
                }
            }
        }
        self.enforce_limits(pool);
    }

    /// Returns the next packet for the output.
    pub fn dequeue(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            match self.next_output(pool, cx)? {
                NextOutput::Packet(packet) => return Some(packet),
                NextOutput::Connection(_) => self.connection_is_empty(),
            }
        }
    }

    /// Returns the next packet for the output, or the TCP connection whose turn it is to send a
    /// segment. The caller reports the outcome for the connection by [`Self::connection_has_sent`]
    /// or [`Self::connection_is_empty`] before any other call.
    pub fn next_output(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<NextOutput> {
        let mut ledger = Ledger { backlog: &mut self.backlog, counters: &mut self.counters, pool };
        let Queued { packet, since } = match &mut self.state {
            State::Fair(queue) => match queue.dequeue(&mut ledger, cx)? {
                Turn::Packet(queued) => queued,
                Turn::Connection(connection) => return Some(NextOutput::Connection(connection)),
            },
            State::Of1982(queue) => {
                let queued = queue.dequeue()?;
                ledger.backlog.subtract(queued.packet.len());
                queued
            }
        };
        self.counters.packets_out += 1;
        self.counters.bytes_out += packet.len() as u64;
        let sojourn_ns = u64::try_from(cx.now.since(since).as_nanos()).unwrap_or(u64::MAX);
        self.counters.sojourn_ns.record(sojourn_ns);
        Some(NextOutput::Packet(packet))
    }

    /// Adds a TCP connection that may have segments. Its data stays in its send buffer until it is
    /// its turn, so it uses no space of the queue. The concentrator of 1982 has no such flows.
    pub fn add_connection(&mut self, sharer: SharerId, connection: ConnectionId) {
        if let State::Fair(queue) = &mut self.state {
            queue.add_connection(sharer, connection);
        }
    }

    /// Returns whether a connection waits for its turn.
    #[must_use]
    pub fn has_connection(&self, sharer: SharerId, connection: ConnectionId) -> bool {
        match &self.state {
            State::Fair(queue) => queue.has_connection(sharer, connection),
            State::Of1982(_) => false,
        }
    }

    /// Charges a segment of `len` bytes to the connection of [`Self::next_output`].
    pub fn connection_has_sent(&mut self, len: usize) {
        self.counters.packets_in += 1;
        self.counters.bytes_in += len as u64;
        self.counters.packets_out += 1;
        self.counters.bytes_out += len as u64;
        self.counters.sojourn_ns.record(0);
        if let State::Fair(queue) = &mut self.state {
            queue.connection_has_sent(len);
        }
    }

    /// Processes that the connection of [`Self::next_output`] has no segment.
    pub fn connection_is_empty(&mut self) {
        if let State::Fair(queue) = &mut self.state {
            queue.connection_is_empty();
        }
    }

    /// Returns whether [`Self::next_output`] may return something.
    #[must_use]
    pub fn has_output(&self) -> bool {
        match &self.state {
            State::Fair(queue) => queue.has_flows(),
            State::Of1982(_) => self.backlog.packets > 0,
        }
    }

    /// Drops the packets of a sharer that no longer exists. The concentrator of 1982 does not know
    /// the sharers of its packets, and sends them.
    pub fn remove_sharer(&mut self, sharer: SharerId, pool: &mut Pool) {
        let State::Fair(queue) = &mut self.state else { return };
        let counters = &mut self.counters;
        queue.remove(sharer, &mut Ledger { backlog: &mut self.backlog, counters, pool });
    }

    /// Drops all packets, because the output no longer exists.
    pub fn clear(&mut self, pool: &mut Pool) {
        let mut ledger = Ledger { backlog: &mut self.backlog, counters: &mut self.counters, pool };
        match &mut self.state {
            State::Fair(queue) => queue.clear(&mut ledger),
            State::Of1982(queue) => {
                while let Some(queued) = queue.dequeue() {
                    ledger.backlog.subtract(queued.packet.len());
                    ledger.drop_packet(queued.packet, QueueDrop::Removed);
                }
            }
        }
    }

    /// Returns the number of queued packets.
    #[must_use]
    pub const fn packets(&self) -> usize {
        self.backlog.packets
    }

    /// Returns the number of queued bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.backlog.bytes
    }

    /// Returns the number of flows with queued packets. The concentrator of 1982 does not tell
    /// flows apart: all packets together are one flow.
    #[must_use]
    pub fn active_flows(&self) -> usize {
        match &self.state {
            State::Fair(queue) => queue.active_flows(),
            State::Of1982(_) => usize::from(self.backlog.packets > 0),
        }
    }

    /// Returns the settings of the queue.
    #[must_use]
    pub const fn settings(&self) -> &QueueSettings {
        &self.settings
    }

    /// Returns the counters of the queue.
    #[must_use]
    pub const fn counters(&self) -> &QueueCounters {
        &self.counters
    }

    /// Drops packets of the longest flow until the queue is within its limits. One packet is always
    /// permitted.
    fn enforce_limits(&mut self, pool: &mut Pool) {
        let State::Fair(queue) = &mut self.state else { return };
        let mut ledger = Ledger { backlog: &mut self.backlog, counters: &mut self.counters, pool };
        while ledger.backlog.packets > 1
            && (ledger.backlog.packets > self.settings.packets_max
                || ledger.backlog.bytes > self.settings.bytes_max)
        {
            if queue.drop_from_longest(&mut ledger).is_none() {
                return;
            }
        }
    }
}
