//! Relayed UDP datagrams (RFC 4787).
//!
//! # Theory of operation
//!
//! Each port of the guest has one socket of the host, whatever the destination (endpoint-independent
//! mapping, REQ-1). The flow accepts datagrams only from remote ends to which the guest has sent
//! (address and port-dependent filtering, REQ-8): another host cannot use the mapping of a guest
//! (row 105 of the attack table). A flow ends when the guest has sent nothing for five minutes
//! (REQ-5), or for ten seconds if all its datagrams went to port 53. Datagrams of remote hosts do
//! not extend its life (REQ-6).
//!
//! Many flows are one datagram and at most one answer. If the table is three quarters full, such flows
//! end after two minutes instead of five, the oldest first, until it is less full. REQ-5 permits no
//! shorter time: "a NAT UDP mapping timer MUST NOT expire in less than two minutes", except for the
//! well-known ports of REQ-5a, such as that of DNS. A full table therefore refuses new flows rather
//! than replace one that the guest has used in the last two minutes.
//!
//! A flow to a forwarded port belongs to the socket of the forward, to one client, and to the address
//! of the host to which the client has sent, from which the guest's answers come. The guest sees the
//! client's address; a client that uses two forwards to one port of the guest, or two addresses of
//! the host, has two flows, of which the second has another port. The sources of datagrams can be
//! forged. Until the guest has answered, such a flow therefore ends after ten seconds. Flows to
//! forwarded ports have a rate of their own, and use at most half of the table.
//!
//! Consecutive datagrams of one size to one destination are gathered. The driver passes them to the
//! host's kernel in one system call.

use super::Key;
use crate::policy::Policy;
use crate::rate::Rate;
use crate::slab::Slab;
use net::time::Duration;
use net::transport::udp::Relayed;
use net::{Cx, Instant};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Time after the last datagram of the guest after which a flow ends (RFC 4787 REQ-5).
const LIFETIME: Duration = Duration::from_secs(300);
/// The same for a flow with at most one answer if the table is nearly full: the minimum of REQ-5.
const QUIET_LIFETIME: Duration = Duration::from_secs(120);
/// Maximum number of answers of such a flow.
const QUIET_ANSWERS_MAX: u32 = 1;
/// The same for a flow that was only used for name lookups.
const LOOKUP_LIFETIME: Duration = Duration::from_secs(10);
const DOMAIN_PORT: u16 = 53;
/// The dynamic ports (RFC 6335 §6), and the number of attempts to find a free one.
const DYNAMIC_PORT_MIN: u16 = 49_152;
const DYNAMIC_PORTS: u64 = 16_384;
const PORT_ATTEMPTS: usize = 16;
/// Maximum number of remote ends of a flow; the oldest is replaced.
const PEERS_MAX: usize = 256;
/// Maximum number of gathered datagrams.
const GATHERED_MAX: usize = 256;
/// Maximum number of bytes of gathered datagrams.
const GATHERED_BYTES_MAX: usize = 1 << 17;
/// Memory for gathered datagrams, in bytes, that is kept for the next ones.
const SPARE_MAX: usize = GATHERED_BYTES_MAX;
/// Maximum number of bytes that wait for the socket of a flow, with [`ENTRY_BYTES`].
const QUEUE_BYTES_MAX: usize = 1 << 20;
/// Bytes that each entry of the queue counts in addition to its data, so that short datagrams do not
/// use up the memory.
const ENTRY_BYTES: usize = 128;

/// A task of the driver for a UDP flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Open a socket that is not connected.
    Bind {
        /// The flow.
        flow: Key,
        /// Whether the remote ends of the flow have IPv4 addresses.
        is_v4: bool,
    },
    /// Datagrams wait in [`Flows::to_host`].
    Progress {
        /// The flow.
        flow: Key,
    },
    /// The flow has ended, and its key is invalid: close its socket.
    End {
        /// The flow.
        flow: Key,
    },
}

/// Limits for one guest.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of flows.
    pub flows: usize,
    /// Maximum number of new flows per second that the guest opens, and of those to forwarded ports.
    pub new_per_s: u32,
}

impl Default for Limits {
    /// Returns limits for a container or a virtual machine.
    fn default() -> Self {
        Self { flows: 4096, new_per_s: 2000 }
    }
}

/// Numbers of flows and datagrams since the guest was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Flows that the guest has opened.
    pub outgoing: u64,
    /// Flows to forwarded ports.
    pub incoming: u64,
    /// Datagrams refused because the policy does not permit the destination.
    pub denied: u64,
    /// Datagrams dropped because the limit of flows was reached.
    pub over_limit: u64,
    /// Datagrams dropped because the limit of new flows per second was reached.
    pub over_rate: u64,
    /// Flows ended because the gateway had no descriptor for a socket.
    pub no_descriptor: u64,
    /// Datagrams that the host did not send.
    pub unsent: u64,
    /// Super-datagrams dropped because the queue of the flow was full.
    pub queue_full: u64,
    /// Datagrams dropped because the guest has not sent to their source.
    pub filtered: u64,
    /// Bytes of data from the guest.
    pub bytes_to_host: u64,
    /// Bytes of data to the guest.
    pub bytes_to_guest: u64,
}

/// Fields of the IP header of a datagram of the guest that the host's socket sends alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The time to live or hop limit.
    pub hop_limit: u8,
    /// Whether the datagram must not be fragmented.
    pub forbids_fragments: bool,
}

impl Default for Marks {
    /// Returns the fields of most datagrams.
    fn default() -> Self {
        Self { hop_limit: 64, forbids_fragments: true }
    }
}

/// Datagrams of one size for one destination.
#[derive(Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The destination as the host reaches it.
    pub destination: SocketAddr,
    /// The data.
    pub data: Vec<u8>,
    /// Bytes of each datagram; the last one may be shorter.
    pub size: u16,
    /// Fields of their IP headers.
    pub marks: Marks,
}

/// The remote end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Peer {
    /// The end as the host reaches it.
    host: SocketAddr,
    /// The end as the guest sees it.
    guest: SocketAddr,
}

#[derive(Debug)]
struct Flow {
    guest: SocketAddr,
    peers: VecDeque<Peer>,
    /// The forward whose socket the flow uses.
    forward: Option<u32>,
    /// The address of the host to which the client has sent.
    local: Option<IpAddr>,
    queue: VecDeque<Outgoing>,
    queued_bytes: usize,
    last_sent_at: Instant,
    /// Whether the remote ends of a flow of the guest have IPv4 addresses.
    is_v4: bool,
    /// Whether the guest has only looked up names, or has not answered.
    is_short_lived: bool,
    is_queued: bool,
    /// Reads of the socket with datagrams for the guest.
    answers: u32,
    bytes_to_host: u64,
    bytes_to_guest: u64,
}

/// A flow as the meters show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The end of the guest.
    pub guest: SocketAddr,
    /// The last remote end, as the guest sees it.
    pub remote: Option<SocketAddr>,
    /// Bytes of data from the guest.
    pub bytes_to_host: u64,
    /// Bytes of data to the guest.
    pub bytes_to_guest: u64,
    /// Bytes that wait for the socket, with those for the bookkeeping of the queue.
    pub queued_bytes: usize,
}

/// All UDP flows of one guest.
#[derive(Debug)]
pub struct Flows {
    flows: Slab<Flow>,
    /// The flows that the guest has opened, by its end and the family of the remote ends.
    by_guest: HashMap<(SocketAddr, bool), Key>,
    /// The flows to forwarded ports, by guest and remote end as the guest sees them.
    by_ends: HashMap<(SocketAddr, SocketAddr), Key>,
    /// The flows to forwarded ports, by forward, client, and address of the host.
    by_client: BTreeMap<(u32, SocketAddr, Option<IpAddr>), Key>,
    events: VecDeque<Event>,
    /// The flows by the time at which they may end. An entry may be early.
    expiries: VecDeque<(Instant, Key)>,
    new_flows: Rate,
    new_forwarded: Rate,
    /// Maximum number of flows to forwarded ports.
    forwarded_max: usize,
    /// Number of flows from which on those with at most one answer end earlier.
    crowded_min: usize,
    counters: Counters,
    /// Empty memory for the next gathered datagrams.
    spare: Vec<u8>,
}

impl Flows {
    /// Returns a table without flows.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            flows: Slab::new(limits.flows),
            by_guest: HashMap::new(),
            by_ends: HashMap::new(),
            by_client: BTreeMap::new(),
            events: VecDeque::new(),
            expiries: VecDeque::new(),
            new_flows: Rate::new(limits.new_per_s),
            new_forwarded: Rate::new(limits.new_per_s),
            forwarded_max: limits.flows.div_ceil(2),
            crowded_min: limits.flows - limits.flows / 4,
            counters: Counters::default(),
            spare: Vec::new(),
        }
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

    /// Processes datagrams of the guest. Returns false if the policy refuses the destination.
    pub fn receive(
        &mut self,
        relayed: &Relayed,
        marks: Marks,
        policy: &mut Policy,
        cx: &Cx<'_>,
    ) -> bool {
        let Relayed { source, destination, packet } = relayed;
        let size = match packet.offload.segment_size {
            0 => u16::try_from(packet.len()).unwrap_or(u16::MAX),
            size => size,
        };
        if let Some(&key) = self.by_ends.get(&(*source, *destination)) {
            let Some(flow) = self.flows.get_mut(key) else { return true };
            flow.is_short_lived = false;
            if let Some(host) = flow.peers.front().map(|peer| peer.host) {
                self.queue(key, host, (packet.data(), size, marks), cx.now);
            }
            return true;
        }
        let Ok(address) = policy.permit(destination.ip()) else {
            self.counters.denied += 1;
            return false;
        };
        let host = SocketAddr::new(address, destination.port());
        if let Some(key) = self.outgoing_flow(*source, host.is_ipv4(), cx.now) {
            self.learn(key, Peer { host, guest: *destination });
            self.queue(key, host, (packet.data(), size, marks), cx.now);
        }
        true
    }

    fn outgoing_flow(&mut self, guest: SocketAddr, is_v4: bool, now: Instant) -> Option<Key> {
        if let Some(&key) = self.by_guest.get(&(guest, is_v4)) {
            return Some(key);
        }
        if self.flows.is_full() {
            self.counters.over_limit += 1;
            return None;
        }
        if !self.new_flows.allows(now) {
            self.counters.over_rate += 1;
            return None;
        }
        let key = self.flows.insert(Flow { is_v4, ..Flow::new(guest, None, now) })?;
        self.by_guest.insert((guest, is_v4), key);
        self.expiries.push_back((now + LOOKUP_LIFETIME, key));
        self.counters.outgoing += 1;
        self.events.push_back(Event::Bind { flow: key, is_v4 });
        Some(key)
    }

    fn learn(&mut self, key: Key, peer: Peer) {
        let Some(flow) = self.flows.get_mut(key) else { return };
        flow.is_short_lived &= peer.host.port() == DOMAIN_PORT;
        if flow.peers.front() == Some(&peer) {
            return;
        }
        // The ends are in the order of their last use, and the last one is replaced.
        match flow.peers.iter().position(|known| known.host == peer.host) {
            Some(index) => _ = flow.peers.remove(index),
            None => flow.peers.truncate(PEERS_MAX - 1),
        }
        flow.peers.push_front(peer);
    }

    fn queue(
        &mut self,
        key: Key,
        host: SocketAddr,
        (data, size, marks): (&[u8], u16, Marks),
        now: Instant,
    ) {
        let Some(flow) = self.flows.get_mut(key) else { return };
        flow.last_sent_at = now;
        let gathered = flow
            .queue
            .back_mut()
            .filter(|last| last.marks == marks && last.can_gather(host, data.len(), size));
        let cost = data.len() + if gathered.is_some() { 0 } else { ENTRY_BYTES };
        if flow.queued_bytes + cost > QUEUE_BYTES_MAX {
            self.counters.queue_full += 1;
            return;
        }
        flow.queued_bytes += cost;
        flow.bytes_to_host += data.len() as u64;
        self.counters.bytes_to_host += data.len() as u64;
        match gathered {
            Some(last) => last.data.extend(data),
            None => {
                let mut gathered = std::mem::take(&mut self.spare);
                gathered.extend_from_slice(data);
                flow.queue.push_back(Outgoing { destination: host, data: gathered, size, marks });
            }
        }
        if !flow.is_queued {
            flow.is_queued = true;
            self.events.push_back(Event::Progress { flow: key });
        }
    }

    /// Returns the next datagrams for the socket of a flow.
    #[must_use]
    pub fn to_host(&self, key: Key) -> Option<&Outgoing> {
        self.flows.get(key)?.queue.front()
    }

    /// Removes the datagrams of [`Self::to_host`], which the socket has accepted or rejected.
    pub fn sent(&mut self, key: Key) {
        let Some(flow) = self.flows.get_mut(key) else { return };
        if let Some(sent) = flow.queue.pop_front() {
            flow.queued_bytes -= sent.data.len() + ENTRY_BYTES;
            let mut data = sent.data;
            data.clear();
            if (self.spare.capacity() + 1..=SPARE_MAX).contains(&data.capacity()) {
                self.spare = data;
            }
        }
    }

    /// Counts datagrams of [`Self::to_host`] that the socket has rejected.
    pub fn count_unsent(&mut self, datagrams: u64) {
        self.counters.unsent += datagrams;
    }

    /// Returns the forward whose socket a flow uses; `None` if the flow has a socket of its own.
    #[must_use]
    pub fn forward(&self, key: Key) -> Option<u32> {
        self.flows.get(key)?.forward
    }

    /// Returns the source of the datagrams of a flow to a forwarded port: the address of the host to
    /// which the client has sent. `None` leaves the choice to the host.
    #[must_use]
    pub fn local_address(&self, key: Key) -> Option<IpAddr> {
        self.flows.get(key)?.local
    }

    /// Returns the ends of datagrams that the socket of a flow has received from `source`: the
    /// source as the guest sees it, and the guest. Returns `None` if the guest has not sent to
    /// `source`, and counts `bytes` otherwise.
    pub fn from_host(
        &mut self,
        key: Key,
        source: SocketAddr,
        bytes: usize,
    ) -> Option<(SocketAddr, SocketAddr)> {
        let flow = self.flows.get_mut(key)?;
        let Some(peer) = flow.peers.iter().find(|peer| peer.host == source) else {
            self.counters.filtered += 1;
            return None;
        };
        flow.answers = flow.answers.saturating_add(1);
        flow.bytes_to_guest += bytes as u64;
        self.counters.bytes_to_guest += bytes as u64;
        Some((peer.guest, flow.guest))
    }

    /// Returns the flow for datagrams that arrived from `client` at the socket of a forward, for the
    /// address `local` of the host if it is known. The guest sees `source` as their source, or
    /// another port of it if the same client already uses another forward to this port of the
    /// guest, or another address of the host.
    pub fn forwarded(
        &mut self,
        (forward, local): (u32, Option<IpAddr>),
        (client, source): (SocketAddr, SocketAddr),
        guest: SocketAddr,
        cx: &mut Cx<'_>,
    ) -> Option<Key> {
        if let Some(&key) = self.by_client.get(&(forward, client, local)) {
            return Some(key);
        }
        if self.flows.is_full() || self.by_ends.len() >= self.forwarded_max {
            self.counters.over_limit += 1;
            return None;
        }
        if !self.new_forwarded.allows(cx.now) {
            self.counters.over_rate += 1;
            return None;
        }
        let Some(source) = self.free_source(source, guest, cx) else {
            self.counters.over_limit += 1;
            return None;
        };
        let mut flow = Flow { local, ..Flow::new(guest, Some(forward), cx.now) };
        flow.peers.push_front(Peer { host: client, guest: source });
        let key = self.flows.insert(flow)?;
        self.by_ends.insert((guest, source), key);
        self.by_client.insert((forward, client, local), key);
        self.expiries.push_back((cx.now + LOOKUP_LIFETIME, key));
        self.counters.incoming += 1;
        Some(key)
    }

    /// Returns `source`, or another port of it if there is a flow between these ends.
    fn free_source(
        &self,
        source: SocketAddr,
        guest: SocketAddr,
        cx: &mut Cx<'_>,
    ) -> Option<SocketAddr> {
        let is_free = |source: &SocketAddr| !self.by_ends.contains_key(&(guest, *source));
        if is_free(&source) {
            return Some(source);
        }
        let mut random = || {
            let port = u16::try_from(cx.rng.below(DYNAMIC_PORTS)).unwrap_or(0);
            SocketAddr::new(source.ip(), DYNAMIC_PORT_MIN + port)
        };
        (0..PORT_ATTEMPTS).map(|_| random()).find(is_free)
    }

    /// Returns a flow of a client at the socket of a forward.
    pub(crate) fn flow_of_client(&self, forward: u32, client: SocketAddr) -> Option<Key> {
        let local_max = IpAddr::V6(Ipv6Addr::from_bits(u128::MAX));
        let of_client = (forward, client, None)..=(forward, client, Some(local_max));
        self.by_client.range(of_client).next().map(|(_, key)| *key)
    }

    /// Returns the ends of a datagram to `host` that was not delivered: the guest, and the
    /// destination as the guest sees it. If the port of `host` is 0, this is the last destination
    /// with its address.
    pub(crate) fn failed(&self, key: Key, host: SocketAddr) -> Option<(SocketAddr, SocketAddr)> {
        let flow = self.flows.get(key)?;
        let is_port = |port| host.port() == port || host.port() == 0;
        let is_destination =
            |peer: &&Peer| peer.host.ip() == host.ip() && is_port(peer.host.port());
        let peer = flow.peers.iter().find(is_destination)?;
        Some((flow.guest, peer.guest))
    }

    /// Returns when [`Self::timeout`] has to be called.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.expiries.front().map(|(at, _)| *at)
    }

    /// Ends the flows whose lifetime has expired.
    pub fn timeout(&mut self, now: Instant) {
        while let Some(&(_, key)) = self.expiries.front().filter(|(at, _)| *at <= now) {
            self.expiries.pop_front();
            let is_crowded = self.flows.len() >= self.crowded_min;
            let Some(flow) = self.flows.get(key) else { continue };
            let lifetime = match flow.answers {
                _ if flow.is_short_lived => LOOKUP_LIFETIME,
                ..=QUIET_ANSWERS_MAX if is_crowded => QUIET_LIFETIME,
                _ => LIFETIME,
            };
            if flow.last_sent_at + lifetime <= now {
                self.end(key);
            } else {
                // The queue is ordered by time, because each entry is checked at this interval.
                self.expiries.push_back((now + LOOKUP_LIFETIME, key));
            }
        }
    }

    /// Ends a flow for whose socket the gateway has no descriptor.
    pub fn end_without_descriptor(&mut self, key: Key) {
        self.counters.no_descriptor += u64::from(self.flows.get(key).is_some());
        self.end(key);
    }

    /// Ends all flows: the guest is gone.
    pub fn end_all(&mut self) {
        let keys: Vec<Key> = self.flows.iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.end(key));
    }

    /// Ends a flow.
    pub fn end(&mut self, key: Key) {
        let Some(flow) = self.flows.remove(key) else { return };
        match (flow.forward, flow.peers.front()) {
            (Some(forward), Some(peer)) => {
                self.by_ends.remove(&(flow.guest, peer.guest));
                self.by_client.remove(&(forward, peer.host, flow.local));
            }
            _ => _ = self.by_guest.remove(&(flow.guest, flow.is_v4)),
        }
        self.events.push_back(Event::End { flow: key });
    }

    /// Returns all flows.
    pub fn statuses(&self) -> impl Iterator<Item = (Key, Status)> + '_ {
        self.flows.iter().map(|(key, flow)| {
            let Flow { guest, bytes_to_host, bytes_to_guest, queued_bytes, .. } = *flow;
            let remote = flow.peers.front().map(|peer| peer.guest);
            (key, Status { guest, remote, bytes_to_host, bytes_to_guest, queued_bytes })
        })
    }
}

impl Flow {
    fn new(guest: SocketAddr, forward: Option<u32>, now: Instant) -> Self {
        Self {
            guest,
            peers: VecDeque::new(),
            forward,
            local: None,
            queue: VecDeque::new(),
            queued_bytes: 0,
            last_sent_at: now,
            is_v4: guest.is_ipv4(),
            is_short_lived: true,
            is_queued: false,
            answers: 0,
            bytes_to_host: 0,
            bytes_to_guest: 0,
        }
    }
}

impl Outgoing {
    /// Returns whether `len` bytes in datagrams of `size` bytes can be appended. Only the last
    /// datagram of a super-datagram may be shorter than the others.
    fn can_gather(&self, destination: SocketAddr, len: usize, size: u16) -> bool {
        let size_max = usize::from(self.size);
        let total = self.data.len() + len;
        let is_one = len <= usize::from(size);
        // An empty datagram would vanish.
        self.destination == destination
            && size_max > 0
            && len > 0
            && (size == self.size || is_one && len < size_max)
            && self.data.len().is_multiple_of(size_max)
            && total <= GATHERED_BYTES_MAX
            && total.div_ceil(size_max) <= GATHERED_MAX
    }
}
