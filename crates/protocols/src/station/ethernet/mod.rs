//! A station on an Ethernet segment: what stands between its Internet layer and its frames.
//!
//! A datagram that goes out gets the header of its frame here: its next hop is looked up in the
//! neighbor cache, and until the neighbor has answered it waits there. A frame that comes in is
//! for us or not, and ARP, Neighbor Discovery and DHCP are taken out of it before the Internet
//! layer sees a datagram. What they decide about our addresses and routers is told as [`Event`]s.
//!
//! Where a datagram goes next is a matter of the Internet layer's routes, to which the segment
//! adds those that it knows; a router that does not answer is passed over.
//!
//! A station on a line with two ends has none of this: where there is nobody to choose from,
//! nothing is looked up.
//!
//! Frames to a group that hold a datagram for one host are dropped (RFC 1122 §3.3.6 SHOULD): no
//! honest sender makes them, and they would reach hosts behind a filter of unicast frames.

mod datagrams;
#[cfg(test)]
mod tests;

use crate::application::dhcp;
use crate::cx::Cx;
use crate::internet::arp::{self, Arp, Defence, PACKET_LEN};
use crate::internet::nd::{self, Discovery};
use crate::internet::neighbor::{self, Cache};
use crate::internet::routes::{Route, Routes};
use crate::internet::slaac::{self, Secret};
use crate::link::ethernet::{self, EtherType, Filter, Header, MacAddress};
use crate::meter::{Account, Counter};
use crate::packet::{Packet, Pool};
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// News that wait to be taken.
const EVENTS_LIMIT: usize = 64;
/// Routers that are remembered as silent.
const SILENT_MAX: usize = 8;

/// How a station gets its IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv4 {
    /// It has none.
    Off,
    /// A person gives it.
    Static {
        /// The address.
        address: Ipv4Addr,
        /// The length of its network's prefix, in bits.
        prefix_len: u8,
        /// The router for everything that is not on the segment.
        router: Option<Ipv4Addr>,
    },
    /// A server on the segment gives it.
    Dhcp,
}

/// How a station gets its IPv6 addresses; one of the segment alone it always makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv6 {
    /// It has none.
    Off,
    /// A person gives it, and routers are not listened to.
    Static {
        /// The address.
        address: Ipv6Addr,
        /// The length of its network's prefix, in bits.
        prefix_len: u8,
        /// The router for everything that is not on the segment.
        router: Option<Ipv6Addr>,
    },
    /// It makes them from what routers advertise (RFC 4862).
    Autoconfigured,
    /// Routers are not listened to, and there is no address but that of the segment.
    LinkLocal,
}

/// What a station on a segment is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its address on the segment.
    pub mac: MacAddress,
    /// Its IPv4.
    pub ipv4: Ipv4,
    /// Its IPv6.
    pub ipv6: Ipv6,
    /// What its IPv6 addresses depend on; it should be the same the next time.
    pub secret: Secret,
    /// The name that it tells a DHCP server; empty for none.
    pub host_name: Vec<u8>,
}

/// News of a segment for the layers above.
#[derive(Debug)]
pub enum Event {
    /// An address is ours to use.
    Assigned {
        /// The address.
        address: IpAddr,
        /// The length of its network's prefix, in bits.
        prefix_len: u8,
    },
    /// An address should not be the source of anything new.
    Deprecated(IpAddr),
    /// An address is preferred again.
    Preferred(IpAddr),
    /// An address is ours no more.
    Removed(IpAddr),
    /// Somebody else has an address that a person gave us, or that we tried.
    Duplicate(IpAddr),
    /// The routers, or what is on the link, have changed.
    Routes,
    /// The MTU of the link is another, in bytes.
    Mtu(u16),
    /// The hop limit for what is sent over IPv6 is another.
    HopLimit(u8),
    /// A datagram of ours, whose next hop does not answer.
    Unreachable(Packet),
}

/// A station's place on a segment.
#[derive(Debug)]
pub struct Ethernet {
    settings: Settings,
    filter: Filter,
    cache: Cache,
    arp: Arp,
    discovery: Option<Box<Discovery>>,
    dhcp: Option<Box<dhcp::Client>>,
    /// Our IPv4 network and its routers.
    network: Option<(Ipv4Addr, u8)>,
    routers: Vec<Ipv4Addr>,
    /// The routes that the Internet layer has from here.
    routes: Vec<Route>,
    /// Neighbors that have not answered, the last one last: of routers about which nothing else is
    /// known, those are tried first that are not here or were here first.
    silent: VecDeque<IpAddr>,
    events: VecDeque<Event>,
}

impl Ethernet {
    /// Joins a segment whose frames carry datagrams of at most `mtu` bytes.
    #[must_use]
    pub fn new(settings: Settings, mtu: u16, cx: &mut Cx<'_>) -> Self {
        let mac = settings.mac;
        let discovery = (settings.ipv6 != Ipv6::Off).then(|| {
            let takes_router_advertisements = settings.ipv6 == Ipv6::Autoconfigured;
            let (secret, mtu) = (settings.secret, mtu.into());
            let settings = nd::Settings { mac, secret, takes_router_advertisements, mtu };
            Box::new(Discovery::new(settings))
        });
        let dhcp = (settings.ipv4 == Ipv4::Dhcp).then(|| {
            let host_name = settings.host_name.clone();
            Box::new(dhcp::Client::new(dhcp::Settings { mac, host_name }))
        });
        let mut ethernet = Self {
            settings,
            filter: Filter::new(mac),
            cache: Cache::default(),
            arp: Arp::new(mac),
            discovery,
            dhcp,
            network: None,
            routers: Vec::new(),
            routes: Vec::new(),
            silent: VecDeque::new(),
            events: VecDeque::new(),
        };
        ethernet.start(cx);
        ethernet
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        if let Ipv4::Static { address, prefix_len, router } = self.settings.ipv4 {
            // It is used at once, and a conflict is told later: a person waits for it.
            let _ = self.arp.hold(address, Defence::Keep, cx);
            self.routers.extend(router);
            self.set_network(address, prefix_len);
        }
        if let Some(dhcp) = &mut self.dhcp {
            dhcp.start(cx);
        }
        if let Some(discovery) = &mut self.discovery {
            discovery.start(cx);
            if let Ipv6::Static { address, prefix_len, .. } = self.settings.ipv6 {
                discovery.add_address(address, prefix_len, cx);
            }
        }
        self.tell(Event::Routes, cx);
        self.listen();
    }

    /// Returns our address on the segment.
    #[must_use]
    pub fn mac(&self) -> MacAddress {
        self.settings.mac
    }

    /// Returns the neighbors.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns what Neighbor Discovery knows, if the station has IPv6.
    #[must_use]
    pub fn discovery(&self) -> Option<&Discovery> {
        self.discovery.as_deref()
    }

    /// Returns what a DHCP server has lent.
    #[must_use]
    pub fn lease(&self) -> Option<&dhcp::Lease> {
        self.dhcp.as_ref()?.lease()
    }

    /// Gives back what a DHCP server has lent; the message to it goes with the next output.
    pub fn release(&mut self, cx: &mut Cx<'_>) {
        if let Some(dhcp) = &mut self.dhcp {
            dhcp.release(cx);
        }
    }

    /// Returns the neighbor that a datagram of ours is for next, by these routes; none if it is
    /// for a group, or if there is no way.
    #[must_use]
    pub fn next_hop(&self, packet: &Packet, routes: &Routes) -> Option<IpAddr> {
        let destination = datagrams::destination_of(packet.data())?;
        if self.group(destination).is_some() {
            return None;
        }
        self.hop_to(destination, routes)
    }

    fn hop_to(&self, destination: IpAddr, routes: &Routes) -> Option<IpAddr> {
        if let (IpAddr::V6(v6), Some(discovery)) = (destination, &self.discovery)
            && let Some(hop) = discovery.redirected(v6)
        {
            return Some(hop.into());
        }
        routes.next_hop_by(destination, |router| self.doubt_about(router))
    }

    fn doubt_about(&self, router: IpAddr) -> usize {
        if self.cache.is_probably_reachable(router) {
            return 0;
        }
        let place = self.silent.iter().position(|silent| *silent == router);
        place.map_or(1, |place| 2 + place)
    }

    /// Learns from above that what was sent to a destination has arrived, by the next hop that it
    /// has (RFC 1122 §3.3.1.4, RFC 4861 §7.3.1).
    pub fn confirm(&mut self, destination: IpAddr, routes: &Routes, cx: &mut Cx<'_>) {
        // While no neighbor is doubted there is nothing to look up.
        if self.cache.has_doubts()
            && let Some(hop) = self.hop_to(destination, routes)
        {
            self.cache.confirm(hop, cx);
        }
    }

    /// Learns from above that what is sent to a destination seems not to arrive, so that its next
    /// hop is asked whether it lives (RFC 1122 §3.3.1.4, RFC 9293 §3.8.3).
    pub fn suspect(&mut self, destination: IpAddr, routes: &Routes, cx: &mut Cx<'_>) {
        if let Some(hop) = self.hop_to(destination, routes) {
            self.cache.doubt(hop, cx);
        }
    }

    /// Returns the routes that were told before, and those that are to stand in their place.
    pub fn take_routes(&mut self) -> (Vec<Route>, Vec<Route>) {
        let routes = self.make_routes();
        (core::mem::replace(&mut self.routes, routes.clone()), routes)
    }

    /// Takes a frame, and returns the datagram in it if it is one for the Internet layer.
    pub fn receive(
        &mut self,
        mut packet: Packet,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Packet> {
        let left = cx.meter.enter(Account::Link);
        let is_for_above = self.sort(&mut packet, cx);
        cx.meter.enter(left);
        if is_for_above {
            return Some(packet);
        }
        pool.put(packet);
        None
    }

    /// Makes a frame of a datagram of ours, or keeps it until its next hop, which
    /// [`Self::next_hop`] returned, has answered.
    pub fn send(
        &mut self,
        packet: Packet,
        hop: Option<IpAddr>,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Packet> {
        let left = cx.meter.enter(Account::Link);
        let frame = self.send_datagram(packet, hop, pool, cx);
        cx.meter.enter(left);
        frame
    }

    /// Returns whether a datagram of ours with this next hop goes at once.
    #[must_use]
    pub fn is_resolved(&self, hop: Option<IpAddr>) -> bool {
        hop.is_none_or(|hop| self.cache.lookup(hop).is_some())
    }

    /// Returns the next frame of our own: ARP, Neighbor Discovery, DHCP, or what has waited.
    pub fn transmit(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Packet> {
        let left = cx.meter.enter(Account::Link);
        let frame = self.next_frame(pool, cx);
        cx.meter.enter(left);
        frame
    }

    /// Returns whether a frame of our own waits, and there is a packet for it; what has waited
    /// for a neighbor has its own.
    #[must_use]
    pub fn has_output(&self, pool: &Pool) -> bool {
        self.cache.has_event() || !pool.is_exhausted() && self.is_owing()
    }

    fn is_owing(&self) -> bool {
        self.cache.has_output()
            || self.arp.has_output()
            || self.discovery.as_ref().is_some_and(|discovery| discovery.has_output())
            || self.dhcp.as_ref().is_some_and(|dhcp| dhcp.has_output())
    }

    /// Returns the next news.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`Self::timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let discovery = self.discovery.as_ref().and_then(|discovery| discovery.deadline());
        let dhcp = self.dhcp.as_ref().and_then(|dhcp| dhcp.deadline());
        let deadlines = [self.cache.deadline(), self.arp.deadline(), discovery, dhcp];
        deadlines.into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        let left = cx.meter.enter(Account::Link);
        self.cache.timeout(cx);
        self.arp.timeout(cx);
        if let Some(discovery) = &mut self.discovery {
            discovery.timeout(cx);
        }
        if let Some(dhcp) = &mut self.dhcp {
            dhcp.timeout(cx);
        }
        self.take_news(cx);
        self.listen();
        cx.meter.enter(left);
    }

    /// Reads the header of a frame and deals with what is for us here. True if what is left of it
    /// is a datagram for the Internet layer.
    fn sort(&mut self, packet: &mut Packet, cx: &mut Cx<'_>) -> bool {
        let parsed = match Header::parse(packet.data()) {
            Ok(parsed) => parsed,
            Err(error) => {
                cx.meter.count(error.counter());
                return false;
            }
        };
        let Header { destination, ether_type, .. } = parsed.header;
        if !self.filter.takes(destination) {
            cx.meter.count(Counter::EthernetFramesForOthers);
            return false;
        }
        packet.pull(parsed.header_len);
        match ether_type {
            EtherType::Arp => {
                self.arp.receive(packet.data(), &mut self.cache, cx);
                self.take_news(cx);
                false
            }
            EtherType::Ipv4 => self.sort_ipv4(packet, destination, cx),
            EtherType::Ipv6 => self.sort_ipv6(packet.data(), destination, cx),
            EtherType::Other(_) => {
                cx.meter.count(Counter::EthernetTypesUnknown);
                false
            }
        }
    }

    fn sort_ipv4(&mut self, packet: &Packet, frame_to: MacAddress, cx: &mut Cx<'_>) -> bool {
        let datagram = packet.data();
        if let Some(dhcp) = &mut self.dhcp
            && let Some(message) = datagrams::dhcp_message(datagram, packet.offload.checksum)
        {
            dhcp.receive(message, cx);
            self.take_news(cx);
            return false;
        }
        let is_group = frame_to.is_multicast();
        let is_for_one = |to: IpAddr| self.group(to).is_none();
        if is_group && datagrams::destination_of(datagram).is_none_or(is_for_one) {
            cx.meter.count(Counter::EthernetFramesForOthers);
            return false;
        }
        datagram.first().is_some_and(|first| first >> 4 == 4)
    }

    fn sort_ipv6(&mut self, packet: &[u8], frame_to: MacAddress, cx: &mut Cx<'_>) -> bool {
        let Some(discovery) = &mut self.discovery else {
            cx.meter.count(Counter::EthernetTypesUnknown);
            return false;
        };
        let Some(destination) = datagrams::destination_of(packet) else { return false };
        if frame_to.is_multicast() && !destination.is_multicast() {
            cx.meter.count(Counter::EthernetFramesForOthers);
            return false;
        }
        let Some(found) = datagrams::nd_message(packet) else {
            return packet.first().is_some_and(|first| first >> 4 == 6);
        };
        let is_ours = discovery.addresses().listened().any(|ours| ours == found.destination);
        if is_ours || found.destination.is_multicast() {
            let datagrams::Discovered { source, destination, message } = found;
            discovery.receive(message, source, destination, nd::HOP_LIMIT, &mut self.cache, cx);
            self.take_news(cx);
            self.listen();
        } else {
            cx.meter.count(Counter::NdIgnored);
        }
        false
    }

    fn send_datagram(
        &mut self,
        packet: Packet,
        hop: Option<IpAddr>,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Packet> {
        let destination = datagrams::destination_of(packet.data());
        if let Some(group) = destination.and_then(|destination| self.group(destination)) {
            return Some(self.frame(packet, group));
        }
        let Some(hop) = hop else {
            // Nobody here knows the way.
            self.tell_unreachable(packet, pool, cx);
            return None;
        };
        let (mac, packet) = self.cache.resolve(hop, packet, pool, cx)?;
        Some(self.frame(packet, mac))
    }

    fn next_frame(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Packet> {
        while let Some(event) = self.cache.event() {
            match event {
                neighbor::Event::Resolved { mac, packet } => {
                    return Some(self.frame(packet, mac));
                }
                neighbor::Event::Failed { target, packet } => {
                    self.lose_neighbor(target, false, cx);
                    if let Some(packet) = packet {
                        self.tell_unreachable(packet, pool, cx);
                    }
                }
                neighbor::Event::RouterLeft { target } => self.lose_neighbor(target, true, cx),
            }
        }
        while let Some(solicitation) = self.cache.transmit(cx) {
            self.solicit(solicitation, cx);
        }
        self.next_arp(pool, cx)
            .or_else(|| self.next_discovery(pool, cx))
            .or_else(|| self.next_dhcp(pool, cx))
    }

    fn next_arp(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Packet> {
        if !self.arp.has_output() {
            return None;
        }
        let mut packet = pool.take(cx.meter)?;
        let Some(outgoing) = self.arp.transmit(cx) else {
            pool.put(packet);
            return None;
        };
        let bytes: [u8; PACKET_LEN] = outgoing.packet.emit();
        packet.extend(&bytes);
        let header = self.header(outgoing.destination, EtherType::Arp);
        packet.push(&header.emit());
        ethernet::pad(&mut packet);
        Some(packet)
    }

    fn next_discovery(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            let discovery = self.discovery.as_mut().filter(|discovery| discovery.has_output())?;
            let mut packet = pool.take(cx.meter)?;
            let Some(outgoing) = discovery.transmit(cx) else {
                pool.put(packet);
                return None;
            };
            let nd::Outgoing { source, destination, mac, message } = outgoing;
            packet.extend(&message.emit(source, destination));
            datagrams::push_ipv6(&mut packet, source, destination);
            let frame = match mac {
                Some(mac) => Some(self.frame(packet, mac)),
                // Neighbor Discovery never leaves the link.
                None => self.send_datagram(packet, Some(destination.into()), pool, cx),
            };
            if frame.is_some() {
                return frame;
            }
        }
    }

    fn next_dhcp(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            let dhcp = self.dhcp.as_mut().filter(|dhcp| dhcp.has_output())?;
            let mut packet = pool.take(cx.meter)?;
            let Some(outgoing) = dhcp.transmit(cx) else {
                pool.put(packet);
                return None;
            };
            packet.extend(&outgoing.payload);
            datagrams::push_dhcp(&mut packet, outgoing.source, outgoing.destination);
            let hop = self.way_to(outgoing.destination).map(IpAddr::V4);
            let frame = self.send_datagram(packet, hop, pool, cx);
            if frame.is_some() {
                return frame;
            }
        }
    }

    /// Returns the neighbor by which a server is reached.
    fn way_to(&self, server: Ipv4Addr) -> Option<Ipv4Addr> {
        let is_on_link = self.network.is_some_and(|(ours, len)| is_on_link(server, ours, len));
        is_on_link.then_some(server).or(self.routers.first().copied())
    }

    /// Returns the routes for what is known of the segment, the best first.
    fn make_routes(&self) -> Vec<Route> {
        let mut routes = Vec::new();
        let everywhere = |router: IpAddr, metric: usize| {
            let metric = u16::try_from(metric).unwrap_or(u16::MAX);
            let none = match router {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            Route { metric, ..Route::by(router, none, 0) }
        };
        if let Some((ours, len)) = self.network {
            routes.push(Route::on_link(ours.into(), len));
            let routers = self.routers.iter().enumerate();
            routes.extend(routers.map(|(place, router)| everywhere((*router).into(), place)));
        }
        let Some(discovery) = &self.discovery else { return routes };
        routes.push(Route::on_link(Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 0).into(), 10));
        if let Ipv6::Static { address, prefix_len, router } = self.settings.ipv6 {
            routes.push(Route::on_link(address.into(), prefix_len));
            routes.extend(router.map(|router| everywhere(router.into(), 0)));
        }
        let on_link = discovery.prefixes().iter();
        routes.extend(on_link.map(|known| Route::on_link(known.prefix.into(), known.len)));
        let mut routers = discovery.routers().to_vec();
        routers.sort_by_key(|router| (router.is_suspect, Reverse(router.preference)));
        let routers = routers.iter().enumerate();
        routes.extend(routers.map(|(place, router)| everywhere(router.address.into(), place)));
        routes
    }

    fn solicit(&mut self, solicitation: neighbor::Solicitation, cx: &mut Cx<'_>) {
        let neighbor::Solicitation { target, to } = solicitation;
        match (target, &mut self.discovery, self.network) {
            (IpAddr::V4(target), _, Some((ours, _))) => self.arp.solicit(ours, target, to, cx),
            (IpAddr::V6(target), Some(discovery), _) => discovery.solicit(target, to, cx),
            _ => cx.meter.count(Counter::NeighborSolicitationsDropped),
        }
    }

    fn lose_neighbor(&mut self, target: IpAddr, is_router_left: bool, cx: &mut Cx<'_>) {
        self.silent.retain(|silent| *silent != target);
        if self.silent.len() >= SILENT_MAX {
            self.silent.pop_front();
        }
        self.silent.push_back(target);
        match target {
            // The next router is tried, and this one again after the others (RFC 1122 §3.3.1.4).
            IpAddr::V4(target) if self.routers.first() == Some(&target) => {
                self.routers.rotate_left(1);
                self.tell(Event::Routes, cx);
            }
            IpAddr::V4(_) => {}
            IpAddr::V6(target) => {
                if let Some(discovery) = &mut self.discovery {
                    discovery.lose_neighbor(target, is_router_left, cx);
                }
            }
        }
        self.take_news(cx);
    }

    /// Lets ARP, Neighbor Discovery and DHCP hear of each other, and tells what is new above.
    fn take_news(&mut self, cx: &mut Cx<'_>) {
        while let Some(event) = self.arp.event() {
            self.take_arp_news(event, cx);
        }
        while let Some(event) = self.dhcp.as_mut().and_then(|dhcp| dhcp.event()) {
            self.take_dhcp_news(event, cx);
        }
        while let Some(event) = self.discovery.as_mut().and_then(|discovery| discovery.event()) {
            self.take_discovery_news(event, cx);
        }
    }

    fn take_arp_news(&mut self, event: arp::Event, cx: &mut Cx<'_>) {
        match event {
            arp::Event::Claimed(address) => {
                if let Some(dhcp) = &mut self.dhcp {
                    dhcp.accept(address, cx);
                }
            }
            arp::Event::Conflict { address, .. } => {
                self.tell(Event::Duplicate(address.into()), cx);
                if let Some(dhcp) = &mut self.dhcp {
                    dhcp.decline(address, cx);
                }
            }
        }
    }

    fn take_dhcp_news(&mut self, event: dhcp::Event, cx: &mut Cx<'_>) {
        match event {
            dhcp::Event::Check(address) => {
                // There is room for eight, and never more than this one.
                let _ = self.arp.claim(address, Defence::GiveUp, cx);
            }
            dhcp::Event::Bound(lease) => {
                let is_known = self.network == Some((lease.address, lease.prefix_len));
                let has_other_routers = self.routers != lease.routers;
                self.routers = lease.routers;
                if !is_known {
                    self.set_network(lease.address, lease.prefix_len);
                } else if has_other_routers {
                    self.tell(Event::Routes, cx);
                }
                if let Some(mtu) = lease.mtu {
                    self.tell(Event::Mtu(mtu), cx);
                }
            }
            dhcp::Event::Lost(address) => {
                self.arp.release(address);
                self.network = None;
                self.routers.clear();
                self.tell(Event::Removed(address.into()), cx);
                self.tell(Event::Routes, cx);
            }
        }
    }

    fn take_discovery_news(&mut self, event: nd::Event, cx: &mut Cx<'_>) {
        let event = match event {
            nd::Event::Address(slaac::Event::Assigned { address, prefix_len }) => {
                Event::Assigned { address: address.into(), prefix_len }
            }
            nd::Event::Address(slaac::Event::Deprecated(address)) => {
                Event::Deprecated(address.into())
            }
            nd::Event::Address(slaac::Event::Preferred(address)) => {
                Event::Preferred(address.into())
            }
            nd::Event::Address(slaac::Event::Removed(address)) => Event::Removed(address.into()),
            nd::Event::Address(slaac::Event::Duplicate(address)) => {
                Event::Duplicate(address.into())
            }
            nd::Event::Routes => Event::Routes,
            nd::Event::Parameters => {
                let Some(discovery) = &self.discovery else { return };
                let hop_limit = discovery.hop_limit();
                let mtu = u16::try_from(discovery.mtu()).unwrap_or(u16::MAX);
                self.tell(Event::HopLimit(hop_limit), cx);
                Event::Mtu(mtu)
            }
        };
        self.tell(event, cx);
    }

    fn set_network(&mut self, address: Ipv4Addr, prefix_len: u8) {
        self.network = Some((address, prefix_len));
        self.events.push_back(Event::Assigned { address: address.into(), prefix_len });
        self.events.push_back(Event::Routes);
    }

    /// Lets in the frames for the groups of our addresses (RFC 4861 §7.2.1).
    fn listen(&mut self) {
        self.filter.leave_all();
        self.filter.join(MacAddress::of_group_v4(Ipv4Addr::new(224, 0, 0, 1)));
        let Some(discovery) = &self.discovery else { return };
        self.filter.join(MacAddress::of_group_v6(nd::ALL_NODES));
        for address in discovery.addresses().listened() {
            self.filter.join(MacAddress::of_group_v6(nd::solicited_node(address)));
        }
    }

    /// Returns where a frame to more than one host goes, if the destination means more than one.
    fn group(&self, destination: IpAddr) -> Option<MacAddress> {
        match destination {
            IpAddr::V4(v4) if v4.is_multicast() => Some(MacAddress::of_group_v4(v4)),
            IpAddr::V4(v4) => {
                let is_of_network = |(ours, len): (Ipv4Addr, u8)| {
                    len < 31 && is_on_link(v4, ours, len) && is_broadcast(v4, len)
                };
                let is_ours = v4.is_broadcast() || self.network.is_some_and(is_of_network);
                is_ours.then_some(MacAddress::BROADCAST)
            }
            IpAddr::V6(v6) => v6.is_multicast().then(|| MacAddress::of_group_v6(v6)),
        }
    }

    /// Puts the header of a frame in front of a datagram.
    fn frame(&self, mut packet: Packet, to: MacAddress) -> Packet {
        let is_ipv6 = packet.data().first().is_some_and(|first| first >> 4 == 6);
        let ether_type = if is_ipv6 { EtherType::Ipv6 } else { EtherType::Ipv4 };
        packet.push(&self.header(to, ether_type).emit());
        if packet.tail_len == 0 {
            ethernet::pad(&mut packet);
        }
        packet
    }

    fn header(&self, destination: MacAddress, ether_type: EtherType) -> Header {
        Header { destination, source: self.settings.mac, ether_type }
    }

    fn tell_unreachable(&mut self, packet: Packet, pool: &mut Pool, cx: &mut Cx<'_>) {
        if self.events.len() < EVENTS_LIMIT {
            self.events.push_back(Event::Unreachable(packet));
        } else {
            cx.meter.count(Counter::NeighborEventsDropped);
            pool.put(packet);
        }
    }

    fn tell(&mut self, event: Event, cx: &mut Cx<'_>) {
        if self.events.len() < EVENTS_LIMIT {
            self.events.push_back(event);
        } else {
            cx.meter.count(Counter::NeighborEventsDropped);
        }
    }
}

/// Returns whether an address is in the network of `ours`.
fn is_on_link(address: Ipv4Addr, ours: Ipv4Addr, prefix_len: u8) -> bool {
    let hosts = u32::MAX.checked_shr(prefix_len.into()).unwrap_or(0);
    (address.to_bits() ^ ours.to_bits()) & !hosts == 0
}

/// Returns whether the bits behind the prefix are all ones.
fn is_broadcast(address: Ipv4Addr, prefix_len: u8) -> bool {
    let hosts = u32::MAX.checked_shr(prefix_len.into()).unwrap_or(0);
    address.to_bits() & hosts == hosts
}
