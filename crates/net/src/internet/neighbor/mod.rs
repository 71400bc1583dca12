//! The neighbor cache: it maps Internet addresses on the link to Ethernet addresses.
//!
//! ARP and Neighbor Discovery share the cache. An entry has the states of RFC 4861 §7.3.2:
//!
//! ```text
//!  (none) ──send──► Incomplete ──answer──► Reachable ──30 s──► Stale ──send──► Delay ──5 s──► Probe
//!                       │                      ▲                                 │             │
//!                  3 unanswered                └── answer, or TCP makes progress ┴─────────────┤
//!                       ▼                                                                      ▼
//!                     failed ◄──────────────────────── 3 unanswered, each to the neighbor alone
//! ```
//!
//! A packet for a neighbor with an unknown address is queued in its entry. Three packets are queued
//! at most, and the newest evicts the oldest (RFC 4861 §7.2.2). If the neighbor does not answer,
//! the packets are returned as [`Event::Failed`], so that their senders can be notified.
//!
//! # Limits
//!
//! A cache that grows with received packets or with requests allows an attacker to exhaust memory,
//! and a cache that evicts its oldest entries allows the attacker to cut off other hosts (RFC
//! 6583). There are therefore three limits:
//!
//! - The number of entries that were created by a neighbor's packets and never used for sending is
//!   limited. A new one evicts the oldest of them, and no other entry.
//! - The number of entries that wait for a first answer is limited; further ones are refused. This
//!   also limits the rate of solicitations.
//! - When the cache is full, an entry used only a few times is evicted before an established one.
//!   Otherwise the least recently used entry is evicted. An established entry that was used within
//!   the last seconds is never evicted.
//!
//! An ARP packet that claims the address of a verified entry does not change the entry: the known
//! owner is probed first. If the known owner does not answer, the claim can be repeated. Neighbor
//! Discovery's Override flag is obeyed as RFC 4861 §7.2.5 requires.

mod entry;
#[cfg(test)]
mod tests;

use crate::cx::Cx;
use crate::link::ethernet::MacAddress;
use crate::meter::Counter;
use crate::packet::{Packet, Pool};
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::net::IpAddr;
use entry::{Entry, State};

/// DELAY_FIRST_PROBE_TIME (RFC 4861 §10).
const DELAY_FIRST_PROBE_TIME: Duration = Duration::from_secs(5);
/// MAX_MULTICAST_SOLICIT and MAX_UNICAST_SOLICIT (RFC 4861 §10).
const SOLICITATIONS_MAX: u8 = 3;
/// REACHABLE_TIME (RFC 4861 §10).
const REACHABLE_TIME: Duration = Duration::from_secs(30);
/// RETRANS_TIMER (RFC 4861 §10). RFC 1122 §2.3.2.1 recommends the same time for ARP.
const RETRANS_TIMER: Duration = Duration::from_secs(1);
/// Maximum number of queued solicitations; further ones are dropped, as if they were lost on the
/// link.
const PENDING_LIMIT: usize = 64;
/// Maximum number of queued events without a packet.
const EVENTS_LIMIT: usize = 64;

/// Limits of a cache.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of entries.
    pub entries: usize,
    /// Maximum number of entries that wait for an answer.
    pub incomplete: usize,
    /// Maximum number of entries created by a neighbor's packets and never used for sending.
    pub unused: usize,
    /// Maximum number of packets queued per entry.
    pub packets_per_entry: usize,
    /// Maximum number of packets queued in all entries; they come from the station's pool.
    pub packets: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // 1024 entries are a common kernel default. 8 packets are a quarter of the default pool, so
        // that packets for nonexistent neighbors do not use all buffers.
        Self { entries: 1024, incomplete: 64, unused: 256, packets_per_entry: 3, packets: 8 }
    }
}

/// A solicitation of a neighbor's Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicitation {
    /// The address that is solicited.
    pub target: IpAddr,
    /// The last known hardware address. `None` if it is unknown: the solicitation is then broadcast
    /// or sent to a group.
    pub to: Option<MacAddress>,
}

/// An event of the cache.
#[derive(Debug)]
pub enum Event {
    /// The neighbor has answered, and a queued packet can be sent.
    Resolved {
        /// The address of the neighbor.
        mac: MacAddress,
        /// The packet.
        packet: Packet,
    },
    /// The neighbor does not answer.
    Failed {
        /// The neighbor.
        target: IpAddr,
        /// A packet that was queued for the neighbor.
        packet: Option<Packet>,
    },
    /// The neighbor is no longer a router (RFC 4861 §7.2.5).
    RouterLeft {
        /// The neighbor.
        target: IpAddr,
    },
}

/// The content of a Neighbor Advertisement (RFC 4861 §4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// Hardware address of the target, if the option is present.
    pub mac: Option<MacAddress>,
    /// R: the target is a router.
    pub is_router: bool,
    /// S: the advertisement answers a solicitation.
    pub is_solicited: bool,
    /// O: the advertisement overrides the cached address.
    pub is_override: bool,
}

/// Whether an unsolicited address of a neighbor replaces the cached one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// Always (RFC 4861 §7.2.3).
    Always,
    /// Only if the cached address is not verified.
    IfUnverified,
}

/// The neighbors on one link.
#[derive(Debug)]
pub struct Cache {
    entries: BTreeMap<IpAddr, Entry>,
    /// Entries with a timer, the earliest first.
    timers: BTreeSet<(Instant, IpAddr)>,
    /// Neighbors whose entries were created by received packets, the oldest first. Some of the
    /// entries have been used or removed since.
    unused: VecDeque<IpAddr>,
    pending: VecDeque<Solicitation>,
    events: VecDeque<Event>,
    incomplete: usize,
    /// Number of packets queued in entries or events.
    queued_packets: usize,
    limits: Limits,
    reachable_time: Duration,
    retrans_timer: Duration,
}

impl Default for Cache {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Cache {
    /// Returns an empty cache.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            entries: BTreeMap::new(),
            timers: BTreeSet::new(),
            unused: VecDeque::new(),
            pending: VecDeque::new(),
            events: VecDeque::new(),
            incomplete: 0,
            queued_packets: 0,
            limits,
            reachable_time: REACHABLE_TIME,
            retrans_timer: RETRANS_TIMER,
        }
    }

    /// Sets the reachable time that a router advertisement specifies (RFC 4861 §6.3.4). It is
    /// limited to between one second and one hour.
    pub fn set_reachable_time(&mut self, time: Duration) {
        self.reachable_time = time.clamp(Duration::from_secs(1), Duration::from_secs(3600));
    }

    /// Sets the time to wait for the answer to a solicitation, which a router advertisement
    /// specifies (RFC 4861 §6.3.4). It is limited to between 0.1 and 10 seconds.
    pub fn set_retrans_timer(&mut self, time: Duration) {
        self.retrans_timer = time.clamp(Duration::from_millis(100), Duration::from_secs(10));
    }

    /// Returns the hardware address of a neighbor and the packet. If the address is unknown, queues
    /// the packet until the neighbor has answered. If there is no space, returns the packet to
    /// `pool`.
    pub fn resolve(
        &mut self,
        to: IpAddr,
        packet: Packet,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<(MacAddress, Packet)> {
        if let Some(entry) = self.entries.get_mut(&to) {
            entry.used_at = Some(cx.now);
            entry.packets_sent = entry.packets_sent.saturating_add(1);
            match entry.state {
                State::Reachable { mac, valid_until } if cx.now < valid_until => {
                    return Some((mac, packet));
                }
                State::Delay { mac } | State::Probe { mac, .. } => return Some((mac, packet)),
                State::Reachable { mac, .. } | State::Stale { mac } => {
                    self.set_state(to, State::Delay { mac }, Some(DELAY_FIRST_PROBE_TIME), cx);
                    return Some((mac, packet));
                }
                State::Incomplete { .. } => {}
            }
        } else if !self.add_incomplete(to, cx) {
            cx.meter.count(Counter::NeighborEntriesRefused);
            pool.put(packet);
            return None;
        }
        self.queue_packet(to, packet, pool, cx);
        None
    }

    /// Returns the hardware address of a neighbor, if it is known.
    #[must_use]
    pub fn lookup(&self, address: IpAddr) -> Option<MacAddress> {
        self.entries.get(&address)?.mac()
    }

    /// Returns whether the neighbor may be reachable (RFC 4861 §6.3.6): it has an entry that is not
    /// incomplete.
    #[must_use]
    pub fn is_probably_reachable(&self, address: IpAddr) -> bool {
        self.lookup(address).is_some()
    }

    /// Processes an answer to a solicitation of this host: an ARP reply.
    pub fn answer(&mut self, address: IpAddr, mac: MacAddress, cx: &mut Cx<'_>) {
        let Some(entry) = self.entries.get(&address) else {
            return cx.meter.count(Counter::NeighborsUnasked);
        };
        match entry.state {
            State::Incomplete { .. } => self.verify(address, mac, cx),
            State::Probe { mac: known, .. } if known == mac => self.verify(address, mac, cx),
            _ => self.update_existing(address, mac, Overwrite::IfUnverified, cx),
        }
    }

    /// Processes a Neighbor Advertisement (RFC 4861 §7.2.5).
    pub fn advertise(&mut self, address: IpAddr, advertisement: Advertisement, cx: &mut Cx<'_>) {
        let Some(entry) = self.entries.get_mut(&address) else {
            return cx.meter.count(Counter::NeighborsUnasked);
        };
        let Some(known) = entry.mac() else {
            let Some(mac) = advertisement.mac else {
                return cx.meter.count(Counter::NeighborsUnasked);
            };
            entry.is_router = advertisement.is_router;
            if advertisement.is_solicited {
                self.verify(address, mac, cx);
            } else {
                self.set_stale(address, mac, cx);
            }
            return;
        };
        let mac = advertisement.mac.unwrap_or(known);
        if mac != known && !advertisement.is_override {
            // RFC 4861 §7.2.5 I: the cached address remains, and becomes stale.
            cx.meter.count(Counter::NeighborOverwritesRefused);
            if matches!(entry.state, State::Reachable { .. }) {
                self.set_stale(address, known, cx);
            }
            return;
        }
        let router_left = entry.is_router && !advertisement.is_router;
        entry.is_router = advertisement.is_router;
        if advertisement.is_solicited {
            self.verify(address, mac, cx);
        } else if mac != known {
            self.set_stale(address, mac, cx);
        }
        if router_left {
            self.push_event(Event::RouterLeft { target: address }, cx);
        }
    }

    /// Records the address of a neighbor that sends to this host, and adds an entry if there is
    /// none.
    pub fn learn(
        &mut self,
        address: IpAddr,
        mac: MacAddress,
        overwrite: Overwrite,
        cx: &mut Cx<'_>,
    ) {
        if self.entries.contains_key(&address) {
            return self.update_existing(address, mac, overwrite, cx);
        }
        if self.unused.len() >= self.limits.unused {
            self.forget_oldest_unused(cx);
        }
        if self.entries.len() >= self.limits.entries {
            return cx.meter.count(Counter::NeighborEntriesRefused);
        }
        self.unused.push_back(address);
        self.entries.insert(address, Entry::new(State::Stale { mac }));
    }

    /// Updates an existing entry from an unsolicited packet, without adding one.
    pub fn update_existing(
        &mut self,
        address: IpAddr,
        mac: MacAddress,
        overwrite: Overwrite,
        cx: &mut Cx<'_>,
    ) {
        let Some(entry) = self.entries.get(&address) else { return };
        let Some(known) = entry.mac() else { return self.set_stale(address, mac, cx) };
        if known == mac {
            return;
        }
        if overwrite == Overwrite::Always || !entry.is_verified(cx.now) {
            return self.set_stale(address, mac, cx);
        }
        cx.meter.count(Counter::NeighborOverwritesRefused);
        if !matches!(entry.state, State::Probe { .. }) {
            self.probe(address, known, 0, cx);
        }
    }

    /// Marks a neighbor as a router because of its advertisement (RFC 4861 §6.3.4).
    pub fn set_router(&mut self, address: IpAddr) {
        if let Some(entry) = self.entries.get_mut(&address) {
            entry.is_router = true;
        }
    }

    /// Records the report of a higher layer that data to a neighbor has arrived (RFC 4861 §7.3.1).
    pub fn confirm(&mut self, address: IpAddr, cx: &mut Cx<'_>) {
        let Some(entry) = self.entries.get(&address) else { return };
        let is_fresh = matches!(entry.state, State::Reachable { valid_until, .. }
            if valid_until.since(cx.now) > self.reachable_time / 4);
        if let (Some(mac), false) = (entry.mac(), is_fresh) {
            self.verify(address, mac, cx);
        }
    }

    /// Returns whether the address of any neighbor needs verification. If so, [`Self::confirm`] may
    /// make a solicitation unnecessary.
    #[must_use]
    pub fn needs_verification(&self) -> bool {
        // Every entry that waits for an answer has a timer; any other timer belongs to an entry
        // that needs verification.
        self.timers.len() > self.incomplete
    }

    /// Records the report of a higher layer that data to a neighbor does not arrive. The neighbor
    /// is probed immediately, not only when its reachable time expires (RFC 1122 §3.3.1.4).
    pub fn doubt(&mut self, address: IpAddr, cx: &mut Cx<'_>) {
        let Some(entry) = self.entries.get(&address) else { return };
        if let State::Reachable { mac, .. } | State::Stale { mac } | State::Delay { mac } =
            entry.state
        {
            self.probe(address, mac, 0, cx);
        }
    }

    /// Returns the next solicitation to send.
    pub fn transmit(&mut self, cx: &mut Cx<'_>) -> Option<Solicitation> {
        let solicitation = self.pending.pop_front()?;
        cx.meter.count(Counter::NeighborSolicitationsOut);
        Some(solicitation)
    }

    /// Returns whether a solicitation is queued.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns whether an event is queued.
    #[must_use]
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::Resolved { .. } | Event::Failed { packet: Some(_), .. } = event {
            self.queued_packets = self.queued_packets.saturating_sub(1);
        }
        Some(event)
    }

    /// Returns when [`Self::timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Retransmits solicitations, starts probes, and gives up neighbors, as their timers require.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        while let Some((at, address)) = self.timers.first().copied() {
            if at > cx.now {
                return;
            }
            self.timers.pop_first();
            self.expire(address, cx);
        }
    }

    /// Removes all neighbors, and puts their queued packets back into `pool`. The caller calls this
    /// when the link goes down.
    pub fn reset(&mut self, pool: &mut Pool) {
        let waiting =
            core::mem::take(&mut self.entries).into_values().flat_map(Entry::into_waiting);
        waiting.for_each(|packet| pool.put(packet));
        for event in self.events.drain(..) {
            if let Event::Resolved { packet, .. } | Event::Failed { packet: Some(packet), .. } =
                event
            {
                pool.put(packet);
            }
        }
        self.timers.clear();
        self.unused.clear();
        self.pending.clear();
        self.incomplete = 0;
        self.queued_packets = 0;
    }

    /// Adds an incomplete entry and sends the first solicitation. Returns false if there is no
    /// space.
    fn add_incomplete(&mut self, address: IpAddr, cx: &mut Cx<'_>) -> bool {
        if self.incomplete >= self.limits.incomplete || !self.evict(cx) {
            return false;
        }
        let mut entry = Entry::new(State::Incomplete { waiting: VecDeque::new(), sent: 1 });
        entry.used_at = Some(cx.now);
        entry.packets_sent = 1;
        entry.timer = Some(cx.now + self.retrans_timer);
        self.timers.insert((cx.now + self.retrans_timer, address));
        self.entries.insert(address, entry);
        self.incomplete += 1;
        self.enqueue(Solicitation { target: address, to: None }, cx);
        true
    }

    fn queue_packet(&mut self, address: IpAddr, packet: Packet, pool: &mut Pool, cx: &mut Cx<'_>) {
        let Some(entry) = self.entries.get_mut(&address) else { return pool.put(packet) };
        let State::Incomplete { waiting, .. } = &mut entry.state else { return pool.put(packet) };
        let is_full = waiting.len() >= self.limits.packets_per_entry;
        let oldest = if is_full { waiting.pop_front() } else { None };
        if let Some(oldest) = oldest {
            cx.meter.count(Counter::NeighborPacketsDropped);
            self.queued_packets = self.queued_packets.saturating_sub(1);
            pool.put(oldest);
        }
        if self.queued_packets >= self.limits.packets {
            cx.meter.count(Counter::NeighborPacketsDropped);
            return pool.put(packet);
        }
        waiting.push_back(packet);
        self.queued_packets += 1;
    }

    /// Makes space for one more entry by an eviction if needed. Returns false if none can be
    /// evicted.
    fn evict(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.entries.len() < self.limits.entries {
            return true;
        }
        let candidates = self.entries.iter().filter(|(_, entry)| entry.is_evictable(cx.now));
        let Some(address) =
            candidates.min_by_key(|(_, entry)| entry.eviction_rank()).map(|(a, _)| *a)
        else {
            return false;
        };
        cx.meter.count(Counter::NeighborsForgotten);
        self.remove(address);
        true
    }

    fn forget_oldest_unused(&mut self, cx: &mut Cx<'_>) {
        let Some(address) = self.unused.pop_front() else { return };
        // If the entry has been used since, it no longer belongs in this list.
        if self.entries.get(&address).is_some_and(|entry| entry.used_at.is_none()) {
            cx.meter.count(Counter::NeighborsForgotten);
            self.remove(address);
        }
    }

    fn remove(&mut self, address: IpAddr) -> Option<Entry> {
        let entry = self.entries.remove(&address)?;
        if let Some(at) = entry.timer {
            self.timers.remove(&(at, address));
        }
        if let State::Incomplete { .. } = entry.state {
            self.incomplete = self.incomplete.saturating_sub(1);
        }
        Some(entry)
    }

    fn verify(&mut self, address: IpAddr, mac: MacAddress, cx: &mut Cx<'_>) {
        // RFC 4861 §6.3.2: the factor is between 0.5 and 1.5, so that hosts are not synchronized.
        let base = u64::try_from(self.reachable_time.as_nanos()).unwrap_or(u64::MAX);
        let nanos = (base / 2).saturating_add(cx.rng.below(base));
        let valid_until = cx.now + Duration::from_nanos(nanos);
        self.set_state(address, State::Reachable { mac, valid_until }, None, cx);
    }

    fn set_stale(&mut self, address: IpAddr, mac: MacAddress, cx: &mut Cx<'_>) {
        self.set_state(address, State::Stale { mac }, None, cx);
    }

    /// Sends a unicast solicitation after `sent` previous ones.
    fn probe(&mut self, address: IpAddr, mac: MacAddress, sent: u8, cx: &mut Cx<'_>) {
        let wait = Some(self.retrans_timer);
        self.set_state(address, State::Probe { mac, sent: sent + 1 }, wait, cx);
        self.enqueue(Solicitation { target: address, to: Some(mac) }, cx);
    }

    /// Enters a state, sets its timer, and releases packets that waited for an address.
    fn set_state(&mut self, address: IpAddr, state: State, wait: Option<Duration>, cx: &Cx<'_>) {
        let Some(entry) = self.entries.get_mut(&address) else { return };
        if let Some(at) = entry.timer.take() {
            self.timers.remove(&(at, address));
        }
        if let Some(wait) = wait {
            entry.timer = Some(cx.now + wait);
            self.timers.insert((cx.now + wait, address));
        }
        let previous_state = core::mem::replace(&mut entry.state, state);
        let State::Incomplete { waiting, .. } = previous_state else { return };
        self.incomplete = self.incomplete.saturating_sub(1);
        if let Some(mac) = entry.mac() {
            self.events.extend(waiting.into_iter().map(|packet| Event::Resolved { mac, packet }));
        }
    }

    fn expire(&mut self, address: IpAddr, cx: &mut Cx<'_>) {
        let Some(entry) = self.entries.get_mut(&address) else { return };
        entry.timer = None;
        match &mut entry.state {
            State::Incomplete { sent, .. } if *sent < SOLICITATIONS_MAX => {
                *sent += 1;
                entry.timer = Some(cx.now + self.retrans_timer);
                self.timers.insert((cx.now + self.retrans_timer, address));
                self.enqueue(Solicitation { target: address, to: None }, cx);
            }
            State::Delay { mac } => {
                let mac = *mac;
                self.probe(address, mac, 0, cx);
            }
            State::Probe { mac, sent } if *sent < SOLICITATIONS_MAX => {
                let mac = *mac;
                let sent = *sent;
                self.probe(address, mac, sent, cx);
            }
            State::Incomplete { .. } | State::Probe { .. } => self.fail(address, cx),
            State::Reachable { .. } | State::Stale { .. } => {}
        }
    }

    fn fail(&mut self, target: IpAddr, cx: &mut Cx<'_>) {
        let Some(entry) = self.remove(target) else { return };
        cx.meter.count(Counter::NeighborsUnreachable);
        let mut waiting = entry.into_waiting().into_iter().peekable();
        if waiting.peek().is_none() {
            return self.push_event(Event::Failed { target, packet: None }, cx);
        }
        let events = waiting.map(|packet| Event::Failed { target, packet: Some(packet) });
        self.events.extend(events);
    }

    /// Queues an event without a packet; such events have a limit of their own.
    fn push_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        if self.events.len() < self.queued_packets + EVENTS_LIMIT {
            self.events.push_back(event);
        } else {
            cx.meter.count(Counter::NeighborEventsDropped);
        }
    }

    fn enqueue(&mut self, solicitation: Solicitation, cx: &mut Cx<'_>) {
        if self.pending.len() < PENDING_LIMIT {
            self.pending.push_back(solicitation);
        } else {
            cx.meter.count(Counter::NeighborSolicitationsDropped);
        }
    }
}
