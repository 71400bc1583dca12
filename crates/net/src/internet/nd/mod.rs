//! Neighbor Discovery for a host (RFC 4861): answers neighbor solicitations for local addresses,
//! and processes router advertisements and redirects.
//!
//! [`Discovery`] parses every message, updates the neighbor cache, and passes messages about local
//! addresses to its [`Addresses`]. Answers are queued until they are collected; the queue is
//! limited.
//!
//! A host may be configured to ignore routers ([`Settings::accepts_router_advertisements`]): on a
//! network that any guest can join, an unexpected router is an attack (row 21 of
//! docs/ledger/attacks.txt). An advertisement can neither lower the hop limit below the default
//! (CVE-2015-2922), nor lower the MTU below the IPv6 minimum or raise it above the link's own.

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

/// All hosts on the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);
/// All routers on the link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 2);

/// Minimum MTU of every link (RFC 8200 §5), in bytes.
const MTU_MIN: u32 = 1280;
/// Hop limit unless a router advertises another one.
const HOP_LIMIT_DEFAULT: u8 = 64;
/// Maximum number of queued answers; one more is dropped.
const ANSWERS_LIMIT: usize = 16;
/// Maximum number of queued messages. Solicitations are queued up to this limit, and answers only
/// up to [`ANSWERS_LIMIT`].
const PENDING_LIMIT: usize = 80;
const EVENTS_LIMIT: usize = 16;

/// Settings of a host.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Hardware address.
    pub mac: MacAddress,
    /// Secret from which the addresses are derived.
    pub secret: Secret,
    /// Whether the host solicits and accepts router advertisements.
    pub accepts_router_advertisements: bool,
    /// MTU of the link, in bytes.
    pub mtu: u32,
}

/// An event of Neighbor Discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The local addresses have changed.
    Address(slaac::Event),
    /// The routers or the on-link prefixes have changed.
    Routes,
    /// Hop limit or MTU have changed.
    Parameters,
}

/// A message and its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// A local address, or `::`.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Destination of the frame; `None` if it must be looked up in the neighbor cache.
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
    pending: VecDeque<Outgoing>,
    events: VecDeque<Event>,
}

impl Discovery {
    /// Returns the engine of one interface, without an address.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            addresses: Addresses::new(settings.mac, settings.secret),
            routers: Routers::default(),
            hop_limit: HOP_LIMIT_DEFAULT,
            mtu: settings.mtu,
            has_begun_to_solicit: false,
            pending: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Forms a link-local address, and solicits routers once it is assigned.
    pub fn start(&mut self, cx: &mut Cx<'_>) {
        self.addresses.make_link_local(cx);
    }

    /// Adds an address configured by the user, after Duplicate Address Detection.
    pub fn add_address(&mut self, address: Ipv6Addr, prefix_len: u8, cx: &mut Cx<'_>) {
        self.addresses.add(address, prefix_len, cx);
    }

    /// Returns the local addresses.
    #[must_use]
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Returns the default routers.
    #[must_use]
    pub fn routers(&self) -> &[Router] {
        self.routers.routers()
    }

    /// Returns the on-link prefixes, except the link-local one.
    #[must_use]
    pub fn prefixes(&self) -> &[OnLink] {
        self.routers.prefixes()
    }

    /// Returns the name servers that routers have advertised.
    pub fn dns_servers(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.routers.dns_servers()
    }

    /// Returns the hop limit for output.
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        self.hop_limit
    }

    /// Returns the MTU of the link, in bytes.
    #[must_use]
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Returns the neighbor that is the next hop of a destination, or `None` if there is no router.
    #[must_use]
    pub fn next_hop(&self, destination: Ipv6Addr, cache: &Cache) -> Option<Ipv6Addr> {
        self.routers.next_hop(destination, cache)
    }

    /// Returns the next hop of a destination if a redirect has set it.
    #[must_use]
    pub fn redirected(&self, destination: Ipv6Addr) -> Option<Ipv6Addr> {
        self.routers.redirected(destination)
    }

    /// Processes an ICMPv6 message with a correct checksum.
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
            Message::RouterAdvertisement(advertisement) => {
                self.process_router_advertisement(source, &advertisement, cache, cx);
            }
            Message::NeighborSolicitation { target, source_mac, nonce } => {
                self.process_solicitation(source, target, source_mac, nonce, cache, cx);
            }
            Message::NeighborAdvertisement {
                target,
                is_router,
                is_solicited,
                is_override,
                target_mac,
            } => {
                if !self.addresses.process_claim(target, cx) {
                    let mac = target_mac;
                    let advertisement = Advertisement { mac, is_router, is_solicited, is_override };
                    cache.advertise(target.into(), advertisement, cx);
                }
            }
            Message::Redirect { target, destination, target_mac } => {
                self.process_redirect(source, target, destination, target_mac, cache, cx);
            }
        }
        self.process_address_events(cx);
    }

    /// Queues a solicitation of a neighbor. It is sent only to the hardware address `to`, or to the
    /// solicited-node group if `to` is `None`.
    pub fn solicit(&mut self, target: Ipv6Addr, to: Option<MacAddress>, cx: &mut Cx<'_>) {
        // RFC 4861 §7.2.2: any local address is allowed as the source.
        let any = self.addresses.iter().map(|ours| ours.address).next();
        let Some(source) = self.addresses.link_local().or(any) else {
            return cx.meter.count(Counter::NeighborSolicitationsDropped);
        };
        let destination = if to.is_some() { target } else { solicited_node(target) };
        let source_mac = Some(self.settings.mac);
        let message = Message::NeighborSolicitation { target, source_mac, nonce: None };
        self.enqueue(Outgoing { source, destination, mac: to, message }, PENDING_LIMIT, cx);
    }

    /// Processes the report of the cache that a neighbor is unreachable, or is no longer a router.
    pub fn lose_neighbor(&mut self, address: Ipv6Addr, is_router_left: bool, cx: &mut Cx<'_>) {
        let is_changed = match is_router_left {
            true => self.routers.forget(address),
            false => self.routers.mark_unreachable(address),
        };
        if is_changed {
            self.push_event(Event::Routes, cx);
        }
    }

    /// Returns the next message to be sent.
    pub fn transmit(&mut self, cx: &mut Cx<'_>) -> Option<Outgoing> {
        let probe = self.addresses.transmit().map(|probe| Outgoing {
            source: Ipv6Addr::UNSPECIFIED,
            destination: probe.destination,
            mac: None,
            message: probe.message,
        });
        let outgoing = probe.or_else(|| self.pending.pop_front())?;
        cx.meter.count(Counter::NdOut);
        Some(outgoing)
    }

    /// Returns whether a message is queued.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.addresses.has_output() || !self.pending.is_empty()
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`Self::timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        [self.addresses.deadline(), self.routers.deadline()].into_iter().flatten().min()
    }

    /// Processes the timers that are due.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        self.addresses.timeout(cx);
        self.process_address_events(cx);
        let (is_changed, is_soliciting) = self.routers.timeout(cx);
        if is_changed {
            self.push_event(Event::Routes, cx);
        }
        if is_soliciting {
            let Some(source) = self.addresses.link_local() else { return };
            let message = Message::RouterSolicitation { source_mac: Some(self.settings.mac) };
            let solicitation = Outgoing { source, destination: ALL_ROUTERS, mac: None, message };
            self.enqueue(solicitation, PENDING_LIMIT, cx);
        }
    }

    fn process_router_advertisement(
        &mut self,
        source: Ipv6Addr,
        advertisement: &RouterAdvertisement,
        cache: &mut Cache,
        cx: &mut Cx<'_>,
    ) {
        if !self.settings.accepts_router_advertisements {
            return cx.meter.count(Counter::NdIgnored);
        }
        if let Some(mac) = advertisement.source_mac {
            cache.learn(source.into(), mac, Overwrite::Always, cx);
            cache.set_router(source.into());
        }
        advertisement.reachable_time.into_iter().for_each(|time| cache.set_reachable_time(time));
        advertisement.retrans_timer.into_iter().for_each(|time| cache.set_retrans_timer(time));
        let previous_settings = (self.hop_limit, self.mtu);
        self.hop_limit = self.hop_limit.max(advertisement.hop_limit);
        if let Some(mtu) =
            advertisement.mtu.filter(|mtu| (MTU_MIN..=self.settings.mtu).contains(mtu))
        {
            self.mtu = mtu;
        }
        if previous_settings != (self.hop_limit, self.mtu) {
            self.push_event(Event::Parameters, cx);
        }
        if self.routers.learn(source, advertisement, cx) {
            self.push_event(Event::Routes, cx);
        }
        advertisement.prefixes.iter().for_each(|prefix| self.addresses.advertise(prefix, cx));
    }

    fn process_solicitation(
        &mut self,
        source: Ipv6Addr,
        target: Ipv6Addr,
        source_mac: Option<MacAddress>,
        nonce: Option<Nonce>,
        cache: &mut Cache,
        cx: &mut Cx<'_>,
    ) {
        if !self.addresses.holds(target) {
            let is_tentative =
                source.is_unspecified() && self.addresses.process_probe(target, nonce, cx);
            if !is_tentative {
                cx.meter.count(Counter::NdIgnored);
            }
            return;
        }
        if let Some(mac) = source_mac {
            cache.learn(source.into(), mac, Overwrite::Always, cx);
        }
        // RFC 4861 §7.2.4: a sender without an address is answered through the all-nodes group.
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
        self.enqueue(answer, ANSWERS_LIMIT, cx);
    }

    /// RFC 4861 §8.1 and §8.3: only the current router of a destination may redirect it.
    fn process_redirect(
        &mut self,
        source: Ipv6Addr,
        target: Ipv6Addr,
        destination: Ipv6Addr,
        target_mac: Option<MacAddress>,
        cache: &mut Cache,
        cx: &mut Cx<'_>,
    ) {
        let is_ours = self.routers.next_hop(destination, cache) == Some(source);
        if !is_ours || !self.settings.accepts_router_advertisements {
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

    fn process_address_events(&mut self, cx: &mut Cx<'_>) {
        while let Some(event) = self.addresses.event() {
            self.push_event(Event::Address(event), cx);
        }
        let may_solicit = self.settings.accepts_router_advertisements;
        if may_solicit && !self.has_begun_to_solicit && self.addresses.link_local().is_some() {
            self.has_begun_to_solicit = true;
            self.routers.solicit(cx);
        }
    }

    fn enqueue(&mut self, outgoing: Outgoing, limit: usize, cx: &mut Cx<'_>) {
        if self.pending.len() < limit {
            self.pending.push_back(outgoing);
        } else if let Message::NeighborAdvertisement { .. } = outgoing.message {
            cx.meter.count(Counter::NeighborAnswersDropped);
        } else {
            cx.meter.count(Counter::NeighborSolicitationsDropped);
        }
    }

    fn push_event(&mut self, event: Event, cx: &mut Cx<'_>) {
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
