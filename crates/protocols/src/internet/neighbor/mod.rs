//! The neighbor cache: which Ethernet address an Internet address on the link has.
//!
//! ARP and Neighbor Discovery share it, and the states of RFC 4861 §7.3.2 with it:
//!
//! ```text
//!  (none) ──send──► Incomplete ──answer──► Reachable ──30 s──► Stale ──send──► Delay ──5 s──► Probe
//!                       │                      ▲                                 │             │
//!                  3 unanswered                └───── answer, or TCP moves on ───┴─────────────┤
//!                       ▼                                                                      ▼
//!                     failed ◄──────────────────────── 3 unanswered, each to the neighbor alone
//! ```
//!
//! A packet for a neighbor whose address is not known waits in its entry, three at most, and the
//! newest pushes out the oldest (RFC 4861 §7.2.2). When the neighbor does not answer, the packets
//! come back as [`Event::Failed`], and their senders can be told.
//!
//! # Limits
//!
//! A cache that grows with what is heard or asked for is a way to fill memory, and one that forgets
//! what was there first is a way to cut off others (RFC 6583). So there are three limits:
//!
//! - Entries that only the neighbor spoke for, and we have never sent to, are few, and the oldest
//!   of them gives way to the next. They touch no other entry.
//! - Entries without an answer are few; one more is refused. That limits how often we ask, too.
//! - When all entries are taken, one that was sent to a few times only gives way before one that
//!   is established, and among the like the one that was not used for longest. An established
//!   entry that was used within the last seconds never gives way.
//!
//! An entry that is verified is not changed because somebody claims its address in ARP: the old
//! owner is asked first, and the claim can be made again when it is silent. Neighbor
//! Discovery's Override flag is obeyed as RFC 4861 §7.2.5 demands.

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
/// RETRANS_TIMER (RFC 4861 §10), which is also what RFC 1122 §2.3.2.1 recommends for ARP.
const RETRANS_TIMER: Duration = Duration::from_secs(1);
/// An established entry that was used within this time is in use, and does not give way.
const IN_USE: Duration = Duration::from_secs(5);
/// Solicitations that wait to be sent; one more counts as one that the wire lost.
const OWED_LIMIT: usize = 64;
/// News without a packet that wait to be taken.
const NEWS_LIMIT: usize = 64;

/// How much a cache may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Entries in all.
    pub entries: usize,
    /// Entries that wait for an answer.
    pub incomplete: usize,
    /// Entries that a neighbor made by speaking to us, and that we have never sent to.
    pub unused: usize,
    /// Packets that wait in one entry.
    pub packets_per_entry: usize,
    /// Packets that wait in all entries; they are taken from the pool of the station.
    pub packets: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // The entries are what a kernel keeps by default. The packets are a quarter of the default
        // pool, so that neighbors that do not exist leave buffers for those that do.
        Self { entries: 1024, incomplete: 64, unused: 256, packets_per_entry: 3, packets: 8 }
    }
}

/// A question for the Ethernet address of a neighbor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicitation {
    /// Whose address is asked for.
    pub target: IpAddr,
    /// Where the neighbor was last; everybody is asked if there is none.
    pub to: Option<MacAddress>,
}

/// News of a cache.
#[derive(Debug)]
pub enum Event {
    /// The neighbor answered, and a packet that waited can go.
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
        /// A packet that waited for it.
        packet: Option<Packet>,
    },
    /// The neighbor says that it is no router any more (RFC 4861 §7.2.5).
    RouterLeft {
        /// The neighbor.
        target: IpAddr,
    },
}

/// What a Neighbor Advertisement says about its target (RFC 4861 §4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// The address of the target, if the option is there.
    pub mac: Option<MacAddress>,
    /// R: the target is a router.
    pub is_router: bool,
    /// S: it answers a solicitation.
    pub is_solicited: bool,
    /// O: it overrides what is known.
    pub is_override: bool,
}

/// Whether what a neighbor says of itself unasked replaces what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// It does (RFC 4861 §7.2.3).
    Always,
    /// It does unless what is known is verified.
    IfUnverified,
}

/// The neighbors on one link.
#[derive(Debug)]
pub struct Cache {
    entries: BTreeMap<IpAddr, Entry>,
    /// The entries that wait for a moment, the earliest first.
    timers: BTreeSet<(Instant, IpAddr)>,
    /// Entries that were never used, the oldest first; some have been used or forgotten since.
    unused: VecDeque<IpAddr>,
    owed: VecDeque<Solicitation>,
    events: VecDeque<Event>,
    incomplete: usize,
    /// Packets that wait in entries or events.
    held: usize,
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
    /// Makes an empty cache.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            entries: BTreeMap::new(),
            timers: BTreeSet::new(),
            unused: VecDeque::new(),
            owed: VecDeque::new(),
            events: VecDeque::new(),
            incomplete: 0,
            held: 0,
            limits,
            reachable_time: REACHABLE_TIME,
            retrans_timer: RETRANS_TIMER,
        }
    }

    /// Sets how long an answer is believed, as a router says (RFC 4861 §6.3.4), between a second
    /// and an hour.
    pub fn set_reachable_time(&mut self, time: Duration) {
        self.reachable_time = time.clamp(Duration::from_secs(1), Duration::from_secs(3600));
    }

    /// Sets how long an answer is waited for, as a router says (RFC 4861 §6.3.4), between a tenth
    /// of a second and ten seconds.
    pub fn set_retrans_timer(&mut self, time: Duration) {
        self.retrans_timer = time.clamp(Duration::from_millis(100), Duration::from_secs(10));
    }

    /// Returns the address of a neighbor with the packet that goes there, or keeps the packet
    /// until the neighbor has answered. A packet for which there is no place goes back to `pool`.
    pub fn resolve(
        &mut self,
        to: IpAddr,
        packet: Packet,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<(MacAddress, Packet)> {
        if let Some(entry) = self.entries.get_mut(&to) {
            entry.used_at = Some(cx.now);
            entry.uses = entry.uses.saturating_add(1);
            match entry.state {
                State::Reachable { mac, until } if cx.now < until => return Some((mac, packet)),
                State::Delay { mac } | State::Probe { mac, .. } => return Some((mac, packet)),
                State::Reachable { mac, .. } | State::Stale { mac } => {
                    self.set_state(to, State::Delay { mac }, Some(DELAY_FIRST_PROBE_TIME), cx);
                    return Some((mac, packet));
                }
                State::Incomplete { .. } => {}
            }
        } else if !self.open(to, cx) {
            cx.meter.count(Counter::NeighborEntriesRefused);
            pool.put(packet);
            return None;
        }
        self.hold(to, packet, pool, cx);
        None
    }

    /// Returns the address of a neighbor, if it is known.
    #[must_use]
    pub fn lookup(&self, address: IpAddr) -> Option<MacAddress> {
        self.entries.get(&address)?.mac()
    }

    /// Returns whether nothing speaks against the neighbor (RFC 4861 §6.3.6): it has an entry
    /// that is not incomplete.
    #[must_use]
    pub fn is_probably_reachable(&self, address: IpAddr) -> bool {
        self.lookup(address).is_some()
    }

    /// Learns that a neighbor answered our question: an ARP reply to us.
    pub fn answer(&mut self, address: IpAddr, mac: MacAddress, cx: &mut Cx<'_>) {
        let Some(entry) = self.entries.get(&address) else {
            return cx.meter.count(Counter::NeighborsUnasked);
        };
        match entry.state {
            State::Incomplete { .. } => self.verify(address, mac, cx),
            State::Probe { mac: known, .. } if known == mac => self.verify(address, mac, cx),
            _ => self.hear(address, mac, Overwrite::IfUnverified, cx),
        }
    }

    /// Learns from an advertisement of Neighbor Discovery (RFC 4861 §7.2.5).
    pub fn advertise(&mut self, address: IpAddr, said: Advertisement, cx: &mut Cx<'_>) {
        let Some(entry) = self.entries.get_mut(&address) else {
            return cx.meter.count(Counter::NeighborsUnasked);
        };
        let Some(known) = entry.mac() else {
            let Some(mac) = said.mac else { return cx.meter.count(Counter::NeighborsUnasked) };
            entry.is_router = said.is_router;
            if said.is_solicited {
                self.verify(address, mac, cx);
            } else {
                self.set_stale(address, mac, cx);
            }
            return;
        };
        let mac = said.mac.unwrap_or(known);
        if mac != known && !said.is_override {
            // I: what is known stays, and is doubted.
            cx.meter.count(Counter::NeighborOverwritesRefused);
            if matches!(entry.state, State::Reachable { .. }) {
                self.set_stale(address, known, cx);
            }
            return;
        }
        let router_left = entry.is_router && !said.is_router;
        entry.is_router = said.is_router;
        if said.is_solicited {
            self.verify(address, mac, cx);
        } else if mac != known {
            self.set_stale(address, mac, cx);
        }
        if router_left {
            self.tell(Event::RouterLeft { target: address }, cx);
        }
    }

    /// Learns from a neighbor that speaks to us, and makes an entry if there is none.
    pub fn learn(
        &mut self,
        address: IpAddr,
        mac: MacAddress,
        overwrite: Overwrite,
        cx: &mut Cx<'_>,
    ) {
        if self.entries.contains_key(&address) {
            return self.hear(address, mac, overwrite, cx);
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

    /// Learns from what a neighbor says unasked, but makes no entry for it.
    pub fn hear(
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

    /// Marks a neighbor as the router that it says it is (RFC 4861 §6.3.4).
    pub fn set_router(&mut self, address: IpAddr) {
        if let Some(entry) = self.entries.get_mut(&address) {
            entry.is_router = true;
        }
    }

    /// Learns from above that what we sent to a neighbor arrived (RFC 4861 §7.3.1).
    pub fn confirm(&mut self, address: IpAddr, cx: &mut Cx<'_>) {
        let Some(entry) = self.entries.get(&address) else { return };
        let is_fresh = matches!(entry.state, State::Reachable { until, .. }
            if until.since(cx.now) > self.reachable_time / 4);
        if let (Some(mac), false) = (entry.mac(), is_fresh) {
            self.verify(address, mac, cx);
        }
    }

    /// Returns whether some neighbor's address is doubted, so that [`Self::confirm`] may spare a
    /// question.
    #[must_use]
    pub fn has_doubts(&self) -> bool {
        // Every entry that waits for an answer has a timer; the others that have one are doubted.
        self.timers.len() > self.incomplete
    }

    /// Learns from above that what we send to a neighbor seems not to arrive: it is asked at once,
    /// not only when its time is over (RFC 1122 §3.3.1.4).
    pub fn doubt(&mut self, address: IpAddr, cx: &mut Cx<'_>) {
        let Some(entry) = self.entries.get(&address) else { return };
        if let State::Reachable { mac, .. } | State::Stale { mac } | State::Delay { mac } =
            entry.state
        {
            self.probe(address, mac, 0, cx);
        }
    }

    /// Returns the next question to be sent.
    pub fn transmit(&mut self, cx: &mut Cx<'_>) -> Option<Solicitation> {
        let solicitation = self.owed.pop_front()?;
        cx.meter.count(Counter::NeighborSolicitationsOut);
        Some(solicitation)
    }

    /// Returns whether a question waits to be sent.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Returns whether there are news.
    #[must_use]
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns the next news.
    pub fn event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::Resolved { .. } | Event::Failed { packet: Some(_), .. } = event {
            self.held = self.held.saturating_sub(1);
        }
        Some(event)
    }

    /// Returns when [`Self::timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Asks again, begins to probe, and gives up, where it is time to.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        while let Some((at, address)) = self.timers.first().copied() {
            if at > cx.now {
                return;
            }
            self.timers.pop_first();
            self.expire(address, cx);
        }
    }

    /// Forgets every neighbor and gives the packets back: the link went down.
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
        self.owed.clear();
        (self.incomplete, self.held) = (0, 0);
    }

    /// Makes an incomplete entry and asks for the first time; false if there is no place.
    fn open(&mut self, address: IpAddr, cx: &mut Cx<'_>) -> bool {
        if self.incomplete >= self.limits.incomplete || !self.make_room(cx) {
            return false;
        }
        let mut entry = Entry::new(State::Incomplete { waiting: VecDeque::new(), sent: 1 });
        (entry.used_at, entry.uses) = (Some(cx.now), 1);
        entry.timer = Some(cx.now + self.retrans_timer);
        self.timers.insert((cx.now + self.retrans_timer, address));
        self.entries.insert(address, entry);
        self.incomplete += 1;
        self.owe(Solicitation { target: address, to: None }, cx);
        true
    }

    fn hold(&mut self, address: IpAddr, packet: Packet, pool: &mut Pool, cx: &mut Cx<'_>) {
        let Some(entry) = self.entries.get_mut(&address) else { return pool.put(packet) };
        let State::Incomplete { waiting, .. } = &mut entry.state else { return pool.put(packet) };
        let is_full = waiting.len() >= self.limits.packets_per_entry;
        let oldest = if is_full { waiting.pop_front() } else { None };
        if let Some(oldest) = oldest {
            cx.meter.count(Counter::NeighborPacketsDropped);
            self.held = self.held.saturating_sub(1);
            pool.put(oldest);
        }
        if self.held >= self.limits.packets {
            cx.meter.count(Counter::NeighborPacketsDropped);
            return pool.put(packet);
        }
        waiting.push_back(packet);
        self.held += 1;
    }

    /// Makes room for one entry more, if there is none and there is one that can give way.
    fn make_room(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.entries.len() < self.limits.entries {
            return true;
        }
        let candidates = self.entries.iter().filter(|(_, entry)| entry.may_give_way(cx.now));
        let Some(address) = candidates.min_by_key(|(_, entry)| entry.worth()).map(|(a, _)| *a)
        else {
            return false;
        };
        cx.meter.count(Counter::NeighborsForgotten);
        self.remove(address);
        true
    }

    fn forget_oldest_unused(&mut self, cx: &mut Cx<'_>) {
        let Some(address) = self.unused.pop_front() else { return };
        // It may have been used since, and stands for nothing here then.
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
        // RFC 4861 §6.3.2: between half and three halves, so that hosts do not ask in step.
        let base = u64::try_from(self.reachable_time.as_nanos()).unwrap_or(u64::MAX);
        let nanos = (base / 2).saturating_add(cx.chance.below(base));
        let until = cx.now + Duration::from_nanos(nanos);
        self.set_state(address, State::Reachable { mac, until }, None, cx);
    }

    fn set_stale(&mut self, address: IpAddr, mac: MacAddress, cx: &mut Cx<'_>) {
        self.set_state(address, State::Stale { mac }, None, cx);
    }

    /// Asks the neighbor alone, for the time after `sent` times.
    fn probe(&mut self, address: IpAddr, mac: MacAddress, sent: u8, cx: &mut Cx<'_>) {
        let wait = Some(self.retrans_timer);
        self.set_state(address, State::Probe { mac, sent: sent + 1 }, wait, cx);
        self.owe(Solicitation { target: address, to: Some(mac) }, cx);
    }

    /// Enters a state, sets its timer, and lets go what waited for an address.
    fn set_state(&mut self, address: IpAddr, state: State, wait: Option<Duration>, cx: &Cx<'_>) {
        let Some(entry) = self.entries.get_mut(&address) else { return };
        if let Some(at) = entry.timer.take() {
            self.timers.remove(&(at, address));
        }
        if let Some(wait) = wait {
            entry.timer = Some(cx.now + wait);
            self.timers.insert((cx.now + wait, address));
        }
        let left = core::mem::replace(&mut entry.state, state);
        let State::Incomplete { waiting, .. } = left else { return };
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
                self.owe(Solicitation { target: address, to: None }, cx);
            }
            State::Delay { mac } => {
                let mac = *mac;
                self.probe(address, mac, 0, cx);
            }
            State::Probe { mac, sent } if *sent < SOLICITATIONS_MAX => {
                let (mac, sent) = (*mac, *sent);
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
            return self.tell(Event::Failed { target, packet: None }, cx);
        }
        let failed = waiting.map(|packet| Event::Failed { target, packet: Some(packet) });
        self.events.extend(failed);
    }

    /// Tells news that carry no packet, which have a limit of their own.
    fn tell(&mut self, event: Event, cx: &mut Cx<'_>) {
        if self.events.len() < self.held + NEWS_LIMIT {
            self.events.push_back(event);
        } else {
            cx.meter.count(Counter::NeighborEventsDropped);
        }
    }

    fn owe(&mut self, solicitation: Solicitation, cx: &mut Cx<'_>) {
        if self.owed.len() < OWED_LIMIT {
            self.owed.push_back(solicitation);
        } else {
            cx.meter.count(Counter::NeighborSolicitationsDropped);
        }
    }
}
