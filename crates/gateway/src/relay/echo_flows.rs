//! Relayed echo requests (RFC 792, RFC 4443 §4.1).
//!
//! A flow is an identifier of the guest. The driver sends its requests by an unprivileged ping
//! socket, which has an identifier of its own. The flow restores the guest's identifier in the
//! replies, and the address that the guest has used.

use super::Key;
use crate::policy::Policy;
use crate::rate::Rate;
use crate::slab::Slab;
use net::internet::Datagram;
use net::packet::Packet;
use net::time::Duration;
use net::{Cx, Instant};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Time after the last request after which a flow ends (RFC 5508 REQ-2: at least 60 s).
const LIFETIME: Duration = Duration::from_secs(60);
/// Interval between two checks whether a flow has ended.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of destinations of a flow; the oldest is replaced.
const PEERS_MAX: usize = 16;
/// Maximum number of requests that wait for the driver.
const REQUESTS_MAX: usize = 64;
/// Length of the header of a message, in bytes.
const HEADER_LEN: usize = 8;

/// A task of the driver for an echo flow.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// Send an echo request from the ping socket of the flow; open the socket if there is none.
    Send {
        /// The flow.
        flow: Key,
        /// The destination as the host reaches it.
        destination: IpAddr,
        /// The time to live or hop limit with which the guest has sent the request.
        hop_limit: u8,
        /// The message. The kernel sets its identifier and its checksum.
        message: Vec<u8>,
    },
    /// The flow has ended: close its socket.
    End {
        /// The flow.
        flow: Key,
    },
}

/// Numbers of requests since the guest was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests of the guest.
    pub requests: u64,
    /// Replies to the guest.
    pub replies: u64,
    /// Requests refused because the policy does not permit the destination.
    pub denied: u64,
    /// Requests dropped because a limit was reached.
    pub over_limit: u64,
    /// Requests that the host did not send, for example because it permits no ping sockets.
    pub unsent: u64,
}

#[derive(Debug)]
struct Flow {
    guest: IpAddr,
    identifier: u16,
    is_v4: bool,
    /// The destinations: as the host reaches them, and as the guest sees them.
    peers: VecDeque<(IpAddr, IpAddr)>,
    last_sent_at: Instant,
}

/// A reply for the guest.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    /// The source as the guest sees it.
    pub source: IpAddr,
    /// The guest.
    pub destination: IpAddr,
    /// The message with the guest's identifier; its checksum is not set.
    pub message: Vec<u8>,
}

/// All echo flows of one guest.
#[derive(Debug)]
pub struct Flows {
    flows: Slab<Flow>,
    by_identifier: HashMap<(IpAddr, u16, bool), Key>,
    events: VecDeque<Event>,
    /// The flows in the order of the times at which they may end. An entry may be early.
    expiries: VecDeque<(Instant, Key)>,
    new_flows: Rate,
    counters: Counters,
}

impl Flows {
    /// Returns a table for at most `flows` flows, of which `new_per_s` may begin each second.
    #[must_use]
    pub fn new(flows: usize, new_per_s: u32) -> Self {
        Self {
            flows: Slab::new(flows),
            by_identifier: HashMap::new(),
            events: VecDeque::new(),
            expiries: VecDeque::new(),
            new_flows: Rate::new(new_per_s),
            counters: Counters::default(),
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

    /// Returns the next event.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Processes an echo request of the guest. Returns false if the policy refuses the destination.
    pub fn receive(&mut self, datagram: &Datagram, policy: &mut Policy, cx: &Cx<'_>) -> bool {
        let header = &datagram.header;
        let message = datagram.packet.data();
        let Some(&[_, _, _, _, i0, i1, _, _]) = message.first_chunk::<HEADER_LEN>() else {
            return true;
        };
        let Ok(destination) = policy.permit(header.destination) else {
            self.counters.denied += 1;
            return false;
        };
        let identifier = u16::from_be_bytes([i0, i1]);
        let flow = self.flow(header.source, identifier, destination.is_ipv4(), cx.now);
        let Some(key) = flow.filter(|_| self.events.len() < REQUESTS_MAX) else {
            self.counters.over_limit += 1;
            return true;
        };
        let Some(flow) = self.flows.get_mut(key) else { return true };
        flow.last_sent_at = cx.now;
        match flow.peers.iter_mut().find(|(host, _)| *host == destination) {
            Some((_, guest_view)) => *guest_view = header.destination,
            None => {
                flow.peers.truncate(PEERS_MAX - 1);
                flow.peers.push_front((destination, header.destination));
            }
        }
        self.counters.requests += 1;
        let mut message = message.to_vec();
        // The families differ if the policy has translated the destination.
        if let Some(message_type) = message.first_mut() {
            *message_type = if destination.is_ipv4() { 8 } else { 128 };
        }
        let hop_limit = header.hop_limit;
        self.events.push_back(Event::Send { flow: key, destination, hop_limit, message });
        true
    }

    fn flow(&mut self, guest: IpAddr, identifier: u16, is_v4: bool, now: Instant) -> Option<Key> {
        if let Some(&key) = self.by_identifier.get(&(guest, identifier, is_v4)) {
            return Some(key);
        }
        if self.flows.is_full() || !self.new_flows.allows(now) {
            return None;
        }
        let peers = VecDeque::new();
        let flow = Flow { guest, identifier, is_v4, peers, last_sent_at: now };
        let key = self.flows.insert(flow)?;
        self.by_identifier.insert((guest, identifier, is_v4), key);
        self.expiries.push_back((now + CHECK_INTERVAL, key));
        Some(key)
    }

    /// Returns the reply for the guest to a message that the socket of a flow has received from
    /// `source`. Returns `None` if the guest has sent no request to `source`.
    pub fn from_host(&mut self, key: Key, source: IpAddr, message: &[u8]) -> Option<Reply> {
        let flow = self.flows.get(key)?;
        let (_, guest_view) = flow.peers.iter().find(|(host, _)| *host == source)?;
        let mut message = message.to_vec();
        let [i0, i1] = flow.identifier.to_be_bytes();
        let header = message.first_chunk_mut::<HEADER_LEN>()?;
        let [message_type, _, _, _, id0, id1, ..] = header;
        *message_type = if guest_view.is_ipv4() { 0 } else { 129 };
        *id0 = i0;
        *id1 = i1;
        self.counters.replies += 1;
        Some(Reply { source: *guest_view, destination: flow.guest, message })
    }

    /// Counts a request that the host did not send.
    pub(crate) fn count_unsent(&mut self) {
        self.counters.unsent += 1;
    }

    /// Returns the ends and the beginning of a request to `host` that was not delivered, as the guest
    /// has sent it. `message` is the beginning of the request of the driver.
    pub(crate) fn failed(
        &mut self,
        key: Key,
        host: IpAddr,
        message: &[u8],
    ) -> Option<(IpAddr, IpAddr, Vec<u8>)> {
        let flow = self.flows.get(key)?;
        let (_, guest_view) = flow.peers.iter().find(|(known, _)| *known == host)?;
        let mut message = message.to_vec();
        let [i0, i1] = flow.identifier.to_be_bytes();
        let [message_type, _, _, _, id0, id1, ..] = message.first_chunk_mut::<HEADER_LEN>()?;
        *message_type = if guest_view.is_ipv4() { 8 } else { 128 };
        *id0 = i0;
        *id1 = i1;
        Some((flow.guest, *guest_view, message))
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
            let Some(flow) = self.flows.get(key) else { continue };
            if flow.last_sent_at + LIFETIME > now {
                // The queue remains ordered by time, because every entry is checked again after the
                // same interval.
                self.expiries.push_back((now + CHECK_INTERVAL, key));
                continue;
            }
            self.end(key);
        }
    }

    /// Ends all flows: the guest is gone.
    pub fn end_all(&mut self) {
        let keys: Vec<Key> = self.flows.iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.end(key));
    }

    fn end(&mut self, key: Key) {
        if let Some(flow) = self.flows.remove(key) {
            self.by_identifier.remove(&(flow.guest, flow.identifier, flow.is_v4));
            self.events.push_back(Event::End { flow: key });
        }
    }
}

/// Copies a reply into an empty packet and sets its checksum.
pub(crate) fn write_reply(reply: &Reply, packet: &mut Packet) {
    packet.extend(&reply.message);
    match (reply.source, reply.destination) {
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            net::internet::icmpv6::seal(source, destination, packet.data_mut());
        }
        _ => net::internet::icmp::seal(packet.data_mut()),
    }
}
