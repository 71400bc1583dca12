//! Neighbor Discovery for a host (RFC 4861): answers for our addresses, routers, redirects.
//!
//! [`Discovery`] reads every message, tells the neighbor cache what can be learned of neighbors,
//! and its [`Addresses`] what concerns ours. Answers are owed until they are collected; only so
//! many at a time.
//!
//! A host may be told not to listen to routers ([`Settings::takes_router_advertisements`]): on a
//! network where any guest can speak, a router that nobody asked for is an attack (row 21 of the
//! table). Nothing in an advertisement can lower the hop limit below the default (CVE-2015-2922) or
//! the MTU below what every IPv6 link carries, or raise it above the link's own.

mod message;
mod routers;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_host;

pub use message::{
    HOP_LIMIT, ICMPV6, INFINITE, Message, MessageError, Nonce, Parsed, Preference, Prefix,
    RouterAdvertisement, is_link_local, prefix_of, solicited_node,
};
pub use routers::{OnLink, Router};

use super::neighbor::{Advertisement, Cache, Overwrite};
use super::slaac::{self, Addresses, Secret};
use crate::cx::Cx;
use crate::link::ethernet::MacAddress;
use crate::meter::Counter;
use crate::time::Instant;
use alloc::collections::VecDeque;
use core::net::Ipv6Addr;
use routers::Routers;

/// Every host on the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);
/// Every router on the link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 2);

/// The shortest packet that every link must carry (RFC 8200 §5), in bytes.
const MTU_MIN: u32 = 1280;
/// The hop limit of a host that no router has told another one.
const HOP_LIMIT_DEFAULT: u8 = 64;
/// Answers that wait to be sent; one more is dropped.
const ANSWERS_LIMIT: usize = 16;
/// Everything that waits to be sent: our own questions find room behind answers.
const OWED_LIMIT: usize = 80;
const EVENTS_LIMIT: usize = 16;

/// What a host is.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Its address on the link.
    pub mac: MacAddress,
    /// What its addresses depend on.
    pub secret: Secret,
    /// Whether it listens to routers, and asks for them.
    pub takes_router_advertisements: bool,
    /// Bytes of the longest packet on the link.
    pub mtu: u32,
}

/// News of Neighbor Discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Our addresses have changed.
    Address(slaac::Event),
    /// The routers, or what is on the link, have changed.
    Routes,
    /// Hop limit or MTU have changed.
    Parameters,
}

/// A message, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Our address, or `::`.
    pub source: Ipv6Addr,
    /// For whom it is.
    pub destination: Ipv6Addr,
    /// The destination of its frame, if it is not to be found as for any other packet.
    pub mac: Option<MacAddress>,
    /// The message.
    pub message: Message,
}

/// Neighbor Discovery on one interface.
#[derive(Debug)]
pub struct Discovery {
    settings: Settings,
    addresses: Addresses,
    routers: Routers,
    hop_limit: u8,
    mtu: u32,
    has_begun_to_solicit: bool,
    owed: VecDeque<Outgoing>,
    events: VecDeque<Event>,
}

impl Discovery {
    /// Makes the engine of one interface, with no address yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            addresses: Addresses::new(settings.mac, settings.secret),
            routers: Routers::default(),
            hop_limit: HOP_LIMIT_DEFAULT,
            mtu: settings.mtu,
            has_begun_to_solicit: false,
            owed: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Tries an address of the link alone, and asks for routers when there is one.
    pub fn start(&mut self, cx: &mut Cx<'_>) {
        self.addresses.make_link_local(cx);
    }

    /// Tries an address that a person gives.
    pub fn add_address(&mut self, address: Ipv6Addr, prefix_len: u8, cx: &mut Cx<'_>) {
        self.addresses.add(address, prefix_len, cx);
    }

    /// Returns our addresses.
    #[must_use]
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Returns the default routers.
    #[must_use]
    pub fn routers(&self) -> &[Router] {
        self.routers.routers()
    }

    /// Returns what is on the link, beside the addresses of the link alone.
    #[must_use]
    pub fn prefixes(&self) -> &[OnLink] {
        self.routers.prefixes()
    }

    /// Returns the name servers that routers have told.
    pub fn dns_servers(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.routers.dns_servers()
    }

    /// Returns the hop limit for what is sent.
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        self.hop_limit
    }

    /// Returns the length of the longest packet on the link, in bytes.
    #[must_use]
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Returns the neighbor by which a destination is reached; none if there is no router.
    #[must_use]
    pub fn next_hop(&self, destination: Ipv6Addr, cache: &Cache) -> Option<Ipv6Addr> {
        self.routers.next_hop(destination, cache)
    }

    /// Returns the neighbor that a router has named for a destination.
    #[must_use]
    pub fn redirected(&self, destination: Ipv6Addr) -> Option<Ipv6Addr> {
        self.routers.redirected(destination)
    }

    /// Takes an ICMPv6 message whose checksum is good.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        source: Ipv6Addr,
        destination: Ipv6Addr,
        hop_limit: u8,
        cache: &mut Cache,
        cx: &mut Cx<'_>,
    ) {
        cx.meter.count(Counter::NdIn);
        let Ok(parsed) = Message::parse(bytes, source, destination, hop_limit) else {
            return cx.meter.count(Counter::NdErrors);
        };
        (0..parsed.options_skipped).for_each(|_| cx.meter.count(Counter::NdOptionErrors));
        if source.is_multicast() {
            return cx.meter.count(Counter::NdErrors);
        }
        match parsed.message {
            Message::RouterSolicitation { .. } => cx.meter.count(Counter::NdIgnored),
            Message::RouterAdvertisement(said) => self.hear_router(source, &said, cache, cx),
            Message::NeighborSolicitation { target, source_mac, nonce } => {
                self.hear_solicitation(source, target, source_mac, nonce, cache, cx);
            }
            Message::NeighborAdvertisement {
                target,
                is_router,
                is_solicited,
                is_override,
                target_mac,
            } => {
                if !self.addresses.is_claimed(target, cx) {
                    let mac = target_mac;
                    let said = Advertisement { mac, is_router, is_solicited, is_override };
                    cache.advertise(target.into(), said, cx);
                }
            }
            Message::Redirect { target, destination, target_mac } => {
                self.hear_redirect(source, target, destination, target_mac, cache, cx);
            }
        }
        self.take_address_news(cx);
    }

    /// Asks for a neighbor: him alone at `to`, or the group of his address.
    pub fn solicit(&mut self, target: Ipv6Addr, to: Option<MacAddress>, cx: &mut Cx<'_>) {
        // RFC 4861 §7.2.2: any of our addresses will do.
        let any = self.addresses.iter().map(|ours| ours.address).next();
        let Some(source) = self.addresses.link_local().or(any) else {
            return cx.meter.count(Counter::NeighborSolicitationsDropped);
        };
        let destination = if to.is_some() { target } else { solicited_node(target) };
        let source_mac = Some(self.settings.mac);
        let message = Message::NeighborSolicitation { target, source_mac, nonce: None };
        self.owe(Outgoing { source, destination, mac: to, message }, OWED_LIMIT, cx);
    }

    /// Learns from the cache that a neighbor cannot be reached, or is no router any more.
    pub fn lose_neighbor(&mut self, address: Ipv6Addr, is_router_left: bool, cx: &mut Cx<'_>) {
        let is_changed = match is_router_left {
            true => self.routers.forget(address),
            false => self.routers.suspect(address),
        };
        if is_changed {
            self.tell(Event::Routes, cx);
        }
    }

    /// Returns the next message to be sent.
    pub fn transmit(&mut self, cx: &mut Cx<'_>) -> Option<Outgoing> {
        let tried = self.addresses.transmit().map(|tried| Outgoing {
            source: Ipv6Addr::UNSPECIFIED,
            destination: tried.destination,
            mac: None,
            message: tried.message,
        });
        let outgoing = tried.or_else(|| self.owed.pop_front())?;
        cx.meter.count(Counter::NdOut);
        Some(outgoing)
    }

    /// Returns whether a message waits to be sent.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.addresses.has_output() || !self.owed.is_empty()
    }

    /// Returns the next news.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`Self::timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        [self.addresses.deadline(), self.routers.deadline()].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        self.addresses.timeout(cx);
        self.take_address_news(cx);
        let (is_changed, is_soliciting) = self.routers.timeout(cx);
        if is_changed {
            self.tell(Event::Routes, cx);
        }
        if is_soliciting {
            let Some(source) = self.addresses.link_local() else { return };
            let message = Message::RouterSolicitation { source_mac: Some(self.settings.mac) };
            let solicitation = Outgoing { source, destination: ALL_ROUTERS, mac: None, message };
            self.owe(solicitation, OWED_LIMIT, cx);
        }
    }

    fn hear_router(
        &mut self,
        source: Ipv6Addr,
        said: &RouterAdvertisement,
        cache: &mut Cache,
        cx: &mut Cx<'_>,
    ) {
        if !self.settings.takes_router_advertisements {
            return cx.meter.count(Counter::NdIgnored);
        }
        if let Some(mac) = said.source_mac {
            cache.learn(source.into(), mac, Overwrite::Always, cx);
            cache.set_router(source.into());
        }
        said.reachable_time.into_iter().for_each(|time| cache.set_reachable_time(time));
        said.retrans_timer.into_iter().for_each(|time| cache.set_retrans_timer(time));
        let before = (self.hop_limit, self.mtu);
        self.hop_limit = self.hop_limit.max(said.hop_limit);
        if let Some(mtu) = said.mtu.filter(|mtu| (MTU_MIN..=self.settings.mtu).contains(mtu)) {
            self.mtu = mtu;
        }
        if before != (self.hop_limit, self.mtu) {
            self.tell(Event::Parameters, cx);
        }
        if self.routers.learn(source, said, cx) {
            self.tell(Event::Routes, cx);
        }
        said.prefixes.iter().for_each(|prefix| self.addresses.advertise(prefix, cx));
    }

    fn hear_solicitation(
        &mut self,
        source: Ipv6Addr,
        target: Ipv6Addr,
        source_mac: Option<MacAddress>,
        nonce: Option<Nonce>,
        cache: &mut Cache,
        cx: &mut Cx<'_>,
    ) {
        if !self.addresses.holds(target) {
            let is_tried = source.is_unspecified() && self.addresses.is_tried(target, nonce, cx);
            if !is_tried {
                cx.meter.count(Counter::NdIgnored);
            }
            return;
        }
        if let Some(mac) = source_mac {
            cache.learn(source.into(), mac, Overwrite::Always, cx);
        }
        // RFC 4861 §7.2.4: who has no address yet is answered through the group of all.
        let is_solicited = !source.is_unspecified();
        let destination = if is_solicited { source } else { ALL_NODES };
        let message = Message::NeighborAdvertisement {
            target,
            is_router: false,
            is_solicited,
            is_override: true,
            target_mac: Some(self.settings.mac),
        };
        let answer = Outgoing { source: target, destination, mac: source_mac, message };
        self.owe(answer, ANSWERS_LIMIT, cx);
    }

    /// RFC 4861 §8.1 and §8.3: only the router that we use for a destination may send it elsewhere.
    fn hear_redirect(
        &mut self,
        source: Ipv6Addr,
        target: Ipv6Addr,
        destination: Ipv6Addr,
        target_mac: Option<MacAddress>,
        cache: &mut Cache,
        cx: &mut Cx<'_>,
    ) {
        let is_ours = self.routers.next_hop(destination, cache) == Some(source);
        if !is_ours || !self.settings.takes_router_advertisements {
            return cx.meter.count(Counter::NdIgnored);
        }
        self.routers.redirect(destination, target);
        if let Some(mac) = target_mac {
            cache.learn(target.into(), mac, Overwrite::Always, cx);
        }
        if target != destination {
            cache.set_router(target.into());
        }
    }

    fn take_address_news(&mut self, cx: &mut Cx<'_>) {
        while let Some(event) = self.addresses.event() {
            self.tell(Event::Address(event), cx);
        }
        let may_solicit = self.settings.takes_router_advertisements;
        if may_solicit && !self.has_begun_to_solicit && self.addresses.link_local().is_some() {
            self.has_begun_to_solicit = true;
            self.routers.solicit(cx);
        }
    }

    fn owe(&mut self, outgoing: Outgoing, limit: usize, cx: &mut Cx<'_>) {
        if self.owed.len() < limit {
            self.owed.push_back(outgoing);
        } else if let Message::NeighborAdvertisement { .. } = outgoing.message {
            cx.meter.count(Counter::NeighborAnswersDropped);
        } else {
            cx.meter.count(Counter::NeighborSolicitationsDropped);
        }
    }

    fn tell(&mut self, event: Event, cx: &mut Cx<'_>) {
        // What only says that something else has changed needs to be said once.
        if self.events.contains(&event) {
            return;
        }
        if self.events.len() < EVENTS_LIMIT {
            self.events.push_back(event);
        } else {
            cx.meter.count(Counter::NeighborEventsDropped);
        }
    }
}
