//! Fair queueing with CoDel per flow (RFC 8290), below a deficit round robin of the sharers of the
//! output.
//!
//! The outer rounds divide the output between sharers: guests, or the lines and the host of a
//! router. The number of flows of a sharer therefore does not increase its share. The inner rounds
//! divide the share between the flows of one sharer. Both levels serve new queues first.
//!
//! Differences from RFC 8290: a flow that has left the lists is forgotten with the state of its
//! CoDel, so that idle flows need no memory; packets are dropped from the longest flow of the
//! longest sharer, so that a sharer that floods the queue loses only its own packets.

use super::codel::{Codel, CodelTimes, Verdict};
use super::counters::{QueueCounters, QueueDrop};
use super::ecn;
use super::flow_hash::FlowHasher;
use super::queued::{Queued, SharerId};
use super::rounds::{AfterEmpty, Rounds};
use net::Cx;
use net::packet::{Packet, Pool};
use net::time::Instant;
use net::transport::tcp::ConnectionId;
use std::collections::{BTreeMap, VecDeque};

/// Number of flow queues per sharer (RFC 8290 §5.2.3).
const FLOWS: u64 = 1024;

/// Parameters of the fair queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct FairParameters {
    /// Bytes that a sharer, or a flow of a sharer, sends per round.
    pub(super) quantum: usize,
    /// Backlog of a flow that is never signalled: one maximum packet.
    pub(super) short_bytes: usize,
    /// Times of CoDel.
    pub(super) times: CodelTimes,
    /// Whether packets of transports with ECN are marked instead of dropped.
    pub(super) marks: bool,
}

/// Numbers of queued packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backlog {
    pub(super) packets: usize,
    pub(super) bytes: usize,
}

impl Backlog {
    pub(super) const fn add(&mut self, len: usize) {
        self.packets += 1;
        self.bytes += len;
    }

    pub(super) const fn subtract(&mut self, len: usize) {
        self.packets = self.packets.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(len);
    }
}

/// The backlog of the whole queue, its counters, and the pool of dropped packets.
pub(super) struct Ledger<'a> {
    pub(super) backlog: &'a mut Backlog,
    pub(super) counters: &'a mut QueueCounters,
    pub(super) pool: &'a mut Pool,
}

impl Ledger<'_> {
    pub(super) fn drop_packet(&mut self, packet: Packet, reason: QueueDrop) {
        self.counters.count_drop(reason);
        self.pool.put(packet);
    }
}

/// A fair queue.
#[derive(Debug)]
pub(super) struct FairQueue {
    parameters: FairParameters,
    hasher: FlowHasher,
    sharers: BTreeMap<SharerId, Sharer>,
    rounds: Rounds<SharerId>,
}

/// A flow of a sharer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FlowId {
    /// The queue of the packets with this hash.
    Hash(u64),
    /// A TCP connection, which produces a segment when it is its turn.
    Connection(ConnectionId),
}

/// The next output of a fair queue.
#[derive(Debug)]
pub(super) enum Turn {
    /// A queued packet.
    Packet(Queued),
    /// A connection may send a segment.
    Connection(ConnectionId),
}

#[derive(Debug, Default)]
struct Sharer {
    flows: BTreeMap<FlowId, FlowQueue>,
    rounds: Rounds<FlowId>,
    deficit: isize,
    bytes: usize,
}

#[derive(Debug, Default)]
struct FlowQueue {
    packets: VecDeque<Queued>,
    bytes: usize,
    deficit: isize,
    codel: Codel,
}

impl FairQueue {
    pub(super) fn new(parameters: FairParameters, hasher: FlowHasher) -> Self {
        Self { parameters, hasher, sharers: BTreeMap::new(), rounds: Rounds::default() }
    }

    /// Returns the number of the flow queue of a datagram.
    fn flow_of(&self, datagram: &[u8]) -> u64 {
        self.hasher.hash(datagram) % FLOWS
    }

    pub(super) fn enqueue(&mut self, sharer_id: SharerId, packet: Packet, now: Instant) {
        let id = FlowId::Hash(self.flow_of(packet.data()));
        let sharer = self.activate(sharer_id, id);
        sharer.bytes += packet.len();
        if let Some(flow) = sharer.flows.get_mut(&id) {
            flow.bytes += packet.len();
            flow.packets.push_back(Queued { packet, since: now });
        }
    }

    /// Adds a connection that may have segments, unless it waits for its turn already.
    pub(super) fn add_connection(&mut self, sharer_id: SharerId, connection: ConnectionId) {
        self.activate(sharer_id, FlowId::Connection(connection));
    }

    /// Returns whether a connection waits for its turn.
    pub(super) fn has_connection(&self, sharer: SharerId, connection: ConnectionId) -> bool {
        let sharer = self.sharers.get(&sharer);
        sharer.is_some_and(|sharer| sharer.flows.contains_key(&FlowId::Connection(connection)))
    }

    /// Adds a flow and its sharer to the rounds, unless they take part already.
    fn activate(&mut self, sharer_id: SharerId, id: FlowId) -> &mut Sharer {
        let deficit = signed(self.parameters.quantum);
        let sharer = self.sharers.entry(sharer_id).or_insert_with(|| {
            self.rounds.add(sharer_id);
            Sharer { deficit, ..Sharer::default() }
        });
        sharer.flows.entry(id).or_insert_with(|| {
            sharer.rounds.add(id);
            FlowQueue { deficit, ..FlowQueue::default() }
        });
        sharer
    }

    /// Charges a segment of `len` bytes to the connection whose turn it is.
    pub(super) fn connection_has_sent(&mut self, len: usize) {
        let Some(sharer) = self.rounds.first().and_then(|id| self.sharers.get_mut(&id)) else {
            return;
        };
        sharer.deficit -= signed(len);
        if let Some(flow) = sharer.rounds.first().and_then(|id| sharer.flows.get_mut(&id)) {
            flow.deficit -= signed(len);
        }
    }

    /// Processes that the connection whose turn it is has no segment.
    pub(super) fn connection_is_empty(&mut self) {
        let sharer = self.rounds.first().and_then(|id| self.sharers.get_mut(&id));
        if let Some(sharer) = sharer
            && let Some(id) = sharer.rounds.first()
        {
            sharer.flow_is_empty(id);
        }
    }

    /// Returns the next packet, after CoDel has dropped packets before it, or the connection whose
    /// turn it is.
    pub(super) fn dequeue(&mut self, ledger: &mut Ledger<'_>, cx: &Cx<'_>) -> Option<Turn> {
        loop {
            let id = self.rounds.first()?;
            let Some(sharer) = self.sharers.get_mut(&id) else {
                self.rounds.first_is_empty();
                continue;
            };
            if sharer.deficit <= 0 {
                sharer.deficit += signed(self.parameters.quantum);
                self.rounds.end_turn();
                continue;
            }
            if let Some(turn) = sharer.dequeue(&self.parameters, ledger, cx) {
                if let Turn::Packet(queued) = &turn {
                    sharer.deficit -= signed(queued.packet.len());
                }
                return Some(turn);
            }
            if self.rounds.first_is_empty() == AfterEmpty::Removed {
                self.sharers.remove(&id);
            }
        }
    }

    /// Drops the oldest packet of the longest flow of the longest sharer. Returns `None` if the
    /// queue is empty.
    pub(super) fn drop_from_longest(&mut self, ledger: &mut Ledger<'_>) -> Option<()> {
        let sharer = self.sharers.values_mut().max_by_key(|sharer| sharer.bytes)?;
        let flow = sharer.flows.values_mut().max_by_key(|flow| flow.bytes)?;
        let queued = flow.pop(&mut sharer.bytes, ledger)?;
        ledger.drop_packet(queued.packet, QueueDrop::Full);
        Some(())
    }

    /// Drops all packets of a sharer.
    pub(super) fn remove(&mut self, id: SharerId, ledger: &mut Ledger<'_>) {
        self.rounds.remove(id);
        let Some(sharer) = self.sharers.remove(&id) else { return };
        for queued in sharer.flows.into_values().flat_map(|flow| flow.packets) {
            ledger.backlog.subtract(queued.packet.len());
            ledger.drop_packet(queued.packet, QueueDrop::Removed);
        }
    }

    /// Drops all packets.
    pub(super) fn clear(&mut self, ledger: &mut Ledger<'_>) {
        while let Some(id) = self.sharers.keys().next().copied() {
            self.remove(id, ledger);
        }
    }

    /// Returns whether a flow takes part in the rounds.
    pub(super) fn has_flows(&self) -> bool {
        !self.sharers.is_empty()
    }

    /// Returns the number of flows with queued packets.
    pub(super) fn active_flows(&self) -> usize {
        let flows = self.sharers.values().flat_map(|sharer| sharer.flows.values());
        flows.filter(|flow| !flow.packets.is_empty()).count()
    }
}

impl Sharer {
    fn dequeue(
        &mut self,
        parameters: &FairParameters,
        ledger: &mut Ledger<'_>,
        cx: &Cx<'_>,
    ) -> Option<Turn> {
        loop {
            let id = self.rounds.first()?;
            let Some(flow) = self.flows.get_mut(&id) else {
                self.rounds.first_is_empty();
                continue;
            };
            if flow.deficit <= 0 {
                flow.deficit += signed(parameters.quantum);
                self.rounds.end_turn();
                continue;
            }
            if let FlowId::Connection(connection) = id {
                return Some(Turn::Connection(connection));
            }
            if let Some(queued) = flow.dequeue(&mut self.bytes, parameters, ledger, cx) {
                flow.deficit -= signed(queued.packet.len());
                return Some(Turn::Packet(queued));
            }
            self.flow_is_empty(id);
        }
    }

    /// Processes that the flow whose turn it is has no packet.
    fn flow_is_empty(&mut self, id: FlowId) {
        if self.rounds.first_is_empty() == AfterEmpty::Removed {
            self.flows.remove(&id);
        }
    }
}

impl FlowQueue {
    /// Returns the next packet that CoDel passes.
    fn dequeue(
        &mut self,
        sharer_bytes: &mut usize,
        parameters: &FairParameters,
        ledger: &mut Ledger<'_>,
        cx: &Cx<'_>,
    ) -> Option<Queued> {
        while let Some(mut queued) = self.pop(sharer_bytes, ledger) {
            let sojourn = cx.now.since(queued.since);
            let is_short = self.bytes <= parameters.short_bytes;
            match self.codel.verdict(sojourn, is_short, parameters.times, cx.now) {
                Verdict::Send => return Some(queued),
                Verdict::Signal if parameters.marks && ecn::mark(queued.packet.data_mut()) => {
                    ledger.counters.marked += 1;
                    return Some(queued);
                }
                Verdict::Signal => ledger.drop_packet(queued.packet, QueueDrop::Delay),
            }
        }
        None
    }

    fn pop(&mut self, sharer_bytes: &mut usize, ledger: &mut Ledger<'_>) -> Option<Queued> {
        let queued = self.packets.pop_front()?;
        ledger.backlog.subtract(queued.packet.len());
        self.bytes = self.bytes.saturating_sub(queued.packet.len());
        *sharer_bytes = sharer_bytes.saturating_sub(queued.packet.len());
        Some(queued)
    }
}

fn signed(len: usize) -> isize {
    isize::try_from(len).unwrap_or(isize::MAX)
}
