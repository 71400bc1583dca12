//! A station on an Ethernet segment: the layer between its Internet layer and its frames.
//!
//! This layer adds the frame header to each outgoing datagram: it looks up the next hop in the
//! neighbor cache, and queues the datagram until the neighbor has answered. It filters incoming
//! frames by destination. It processes ARP, Neighbor Discovery and DHCP itself, and passes all
//! other datagrams to the Internet layer. Changes of the local addresses and routers are reported
//! as [`Event`]s.
//!
//! The routes of the Internet layer determine the next hop. This layer adds the routes that it
//! learns from the segment. A router that does not answer is tried after the other routers.
//!
//! A station on a point-to-point line does not need this layer: with a single neighbor there is
//! nothing to look up.
//!
//! Broadcast and multicast frames that contain a datagram for a unicast address are dropped (RFC
//! 1122 §3.3.6 SHOULD). No legitimate host sends such frames, and they could reach hosts behind a
//! filter of unicast frames.

mod datagrams;
#[cfg(test)]
mod tests;

use crate::application::dhcp;
use crate::cx::Cx;
use crate::internet::arp::{self, Arp, Defense, PACKET_LEN};
use crate::internet::nd::{self, Discovery};
use crate::internet::neighbor::{self, Cache};
use crate::internet::routes::{self, Routes};
use crate::internet::slaac;
use crate::link::ethernet::{self, EtherType, MacAddress};
use crate::meter::{Account, Counter};
use crate::packet::{Packet, Pool};
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum number of queued events.
const EVENTS_LIMIT: usize = 64;
/// Maximum number of unresponsive neighbors that are remembered.
const UNRESPONSIVE_MAX: usize = 8;

/// How a station obtains its IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv4 {
    /// IPv4 is off.
    Off,
    /// A static address.
    Static {
        /// The address.
        address: Ipv4Addr,
        /// Prefix length of its network, in bits.
        prefix_len: u8,
        /// The router for destinations outside the segment.
        router: Option<Ipv4Addr>,
    },
    /// A DHCP server on the segment assigns the address.
    Dhcp,
}

/// How a station obtains its IPv6 addresses. All variants but `Off` include a link-local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv6 {
    /// IPv6 is off.
    Off,
    /// A static address; router advertisements are ignored.
    Static {
        /// The address.
        address: Ipv6Addr,
        /// Prefix length of its network, in bits.
        prefix_len: u8,
        /// The router for destinations outside the segment.
        router: Option<Ipv6Addr>,
    },
    /// The station forms addresses from router advertisements (RFC 4862).
    Autoconfigured,
    /// A link-local address only; router advertisements are ignored.
    LinkLocal,
}

/// Settings of a station on an Ethernet segment.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Hardware address on the segment.
    pub mac: MacAddress,
    /// IPv4 settings.
    pub ipv4: Ipv4,
    /// IPv6 settings.
    pub ipv6: Ipv6,
    /// Secret from which the interface identifiers of IPv6 addresses are derived (RFC 7217). The
    /// addresses are stable as long as the secret is the same.
    pub secret: slaac::Secret,
    /// Host name sent to a DHCP server; empty for none.
    pub host_name: Vec<u8>,
}

/// Events of the Ethernet layer for the layers above.
#[derive(Debug)]
pub enum Event {
    /// A local address is ready for use.
    Assigned {
        /// The address.
        address: IpAddr,
        /// Prefix length of its network, in bits.
        prefix_len: u8,
    },
    /// A local address is deprecated: it should not be the source of new connections.
    Deprecated(IpAddr),
    /// A deprecated local address is preferred again.
    Preferred(IpAddr),
    /// A local address was removed.
    Removed(IpAddr),
    /// Another host uses an address that was configured or tentative on this station.
    Duplicate(IpAddr),
    /// The routers or the on-link prefixes have changed.
    Routes,
    /// The MTU of the link has changed, in bytes.
    Mtu(u16),
    /// The hop limit for IPv6 output has changed.
    HopLimit(u8),
    /// The next hop of this outgoing datagram does not answer.
    Unreachable(Packet),
}

/// The attachment of a station to a segment.
#[derive(Debug)]
pub struct Ethernet {
    settings: Settings,
    filter: ethernet::Filter,
    cache: Cache,
    arp: Arp,
    discovery: Option<Box<Discovery>>,
    dhcp: Option<Box<dhcp::Client>>,
    /// The IPv4 address of this station, and the prefix length of its network.
    network: Option<(Ipv4Addr, u8)>,
    routers: Vec<Ipv4Addr>,
    /// The routes reported to the Internet layer.
    routes: Vec<routes::Route>,
    /// Neighbors that did not answer, in the order of their failures. If no router is known to be
    /// reachable, routers outside this list are tried first, then the routers of the list in order.
    unresponsive: VecDeque<IpAddr>,
    events: VecDeque<Event>,
}

impl Ethernet {
    /// Attaches a station to a segment whose frames carry datagrams of at most `mtu` bytes.
    #[must_use]
    pub fn new(settings: Settings, mtu: u16, cx: &mut Cx<'_>) -> Self {
        let mac = settings.mac;
        let discovery = (settings.ipv6 != Ipv6::Off).then(|| {
            let accepts_router_advertisements = settings.ipv6 == Ipv6::Autoconfigured;
            let secret = settings.secret;
            let mtu = mtu.into();
            let settings = nd::Settings { mac, secret, accepts_router_advertisements, mtu };
            Box::new(Discovery::new(settings))
        });
        let dhcp = (settings.ipv4 == Ipv4::Dhcp).then(|| {
            let host_name = settings.host_name.clone();
            Box::new(dhcp::Client::new(dhcp::Settings { mac, host_name }))
        });
        let mut ethernet = Self {
            settings,
            filter: ethernet::Filter::new(mac),
            cache: Cache::default(),
            arp: Arp::new(mac),
            discovery,
            dhcp,
            network: None,
            routers: Vec::new(),
            routes: Vec::new(),
            unresponsive: VecDeque::new(),
            events: VecDeque::new(),
        };
        ethernet.start(cx);
        ethernet
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        if let Ipv4::Static { address, prefix_len, router } = self.settings.ipv4 {
            // The address is used immediately and a conflict is reported later, because a user is
            // waiting.
            let _ = self.arp.hold(address, Defense::Keep, cx);
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
        self.push_event(Event::Routes, cx);
        self.update_frame_filter();
    }

    /// Returns the station's hardware address.
    #[must_use]
    pub fn mac(&self) -> MacAddress {
        self.settings.mac
    }

    /// Returns the neighbor cache.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns the state of Neighbor Discovery, if the station has IPv6.
    #[must_use]
    pub fn discovery(&self) -> Option<&Discovery> {
        self.discovery.as_deref()
    }

    /// Returns the lease of a DHCP server, if there is one.
    #[must_use]
    pub fn lease(&self) -> Option<&dhcp::Lease> {
        self.dhcp.as_ref()?.lease()
    }

    /// Releases the lease of the DHCP server. The message to the server is sent with the next
    /// output.
    pub fn release(&mut self, cx: &mut Cx<'_>) {
        if let Some(dhcp) = &mut self.dhcp {
            dhcp.release(cx);
        }
    }

    /// Returns the next hop of an outgoing datagram according to `routes`, or `None` if the
    /// datagram is broadcast or multicast or has no route.
    #[must_use]
    pub fn next_hop(&self, packet: &Packet, routes: &Routes) -> Option<IpAddr> {
        let destination = datagrams::destination_of(packet.data())?;
        if self.group_mac(destination).is_some() {
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
        routes.next_hop_by(destination, |router| self.suspicion_rank(router))
    }

    fn suspicion_rank(&self, router: IpAddr) -> usize {
        if self.cache.is_probably_reachable(router) {
            return 0;
        }
        let rank = self.unresponsive.iter().position(|unresponsive| *unresponsive == router);
        rank.map_or(1, |rank| 2 + rank)
    }

    /// Confirms that the next hop to `destination` is reachable, because a higher layer reports
    /// that data has arrived there (RFC 1122 §3.3.1.4, RFC 4861 §7.3.1).
    pub fn confirm(&mut self, destination: IpAddr, routes: &Routes, cx: &mut Cx<'_>) {
        // The lookup is needed only if a neighbor is suspect.
        if self.cache.needs_verification()
            && let Some(hop) = self.hop_to(destination, routes)
        {
            self.cache.confirm(hop, cx);
        }
    }

    /// Marks the next hop to `destination` as suspect, because a higher layer reports that data
    /// does not arrive there. The neighbor is then probed (RFC 1122 §3.3.1.4, RFC 9293 §3.8.3).
    pub fn suspect(&mut self, destination: IpAddr, routes: &Routes, cx: &mut Cx<'_>) {
        if let Some(hop) = self.hop_to(destination, routes) {
            self.cache.doubt(hop, cx);
        }
    }

    /// Returns the previously reported routes, and the routes that replace them.
    pub fn take_routes(&mut self) -> (Vec<routes::Route>, Vec<routes::Route>) {
        let routes = self.make_routes();
        (core::mem::replace(&mut self.routes, routes.clone()), routes)
    }

    /// Processes a frame. Returns the datagram in it, unless this layer has processed or dropped
    /// the frame.
    pub fn receive(
        &mut self,
        mut packet: Packet,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Packet> {
        let previous_account = cx.meter.enter(Account::Link);
        let is_for_internet_layer = self.process_header(&mut packet, cx);
        cx.meter.enter(previous_account);
        if is_for_internet_layer {
            return Some(packet);
        }
        pool.put(packet);
        None
    }

    /// Prepends a frame header to an outgoing datagram, or queues the datagram until its next hop
    /// has answered. [`Self::next_hop`] returns the next hop.
    pub fn send(
        &mut self,
        packet: Packet,
        hop: Option<IpAddr>,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Packet> {
        let previous_account = cx.meter.enter(Account::Link);
        let frame = self.send_datagram(packet, hop, pool, cx);
        cx.meter.enter(previous_account);
        frame
    }

    /// Returns whether a datagram with this next hop would be sent immediately, without address
    /// resolution.
    #[must_use]
    pub fn is_resolved(&self, hop: Option<IpAddr>) -> bool {
        hop.is_none_or(|hop| self.cache.lookup(hop).is_some())
    }

    /// Returns the next frame that originates in this layer: ARP, Neighbor Discovery, DHCP, or a
    /// queued datagram.
    pub fn transmit(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Packet> {
        let previous_account = cx.meter.enter(Account::Link);
        let frame = self.next_frame(pool, cx);
        cx.meter.enter(previous_account);
        frame
    }

    /// Returns whether [`Self::transmit`] has a frame to send: a queued datagram, or another frame
    /// if a packet is free for it.
    #[must_use]
    pub fn has_output(&self, pool: &Pool) -> bool {
        self.cache.has_event() || !pool.is_exhausted() && self.has_own_output()
    }

    fn has_own_output(&self) -> bool {
        self.cache.has_output()
            || self.arp.has_output()
            || self.discovery.as_ref().is_some_and(|discovery| discovery.has_output())
            || self.dhcp.as_ref().is_some_and(|dhcp| dhcp.has_output())
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the time at which [`Self::timeout`] must be called.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let discovery = self.discovery.as_ref().and_then(|discovery| discovery.deadline());
        let dhcp = self.dhcp.as_ref().and_then(|dhcp| dhcp.deadline());
        let deadlines = [self.cache.deadline(), self.arp.deadline(), discovery, dhcp];
        deadlines.into_iter().flatten().min()
    }

    /// Processes the timers that are due.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        let previous_account = cx.meter.enter(Account::Link);
        self.cache.timeout(cx);
        self.arp.timeout(cx);
        if let Some(discovery) = &mut self.discovery {
            discovery.timeout(cx);
        }
        if let Some(dhcp) = &mut self.dhcp {
            dhcp.timeout(cx);
        }
        self.process_events(cx);
        self.update_frame_filter();
        cx.meter.enter(previous_account);
    }

    /// Parses a frame header and processes ARP, Neighbor Discovery and DHCP. Returns true if the
    /// rest of the packet is a datagram for the Internet layer.
    fn process_header(&mut self, packet: &mut Packet, cx: &mut Cx<'_>) -> bool {
        let parsed = match ethernet::Header::parse(packet.data()) {
            Ok(parsed) => parsed,
            Err(error) => {
                cx.meter.count(error.counter());
                return false;
            }
        };
        let ethernet::Header { destination, ether_type, .. } = parsed.header;
        if !self.filter.accepts(destination) {
            cx.meter.count(Counter::EthernetFramesForOthers);
            return false;
        }
        packet.pull(parsed.header_len);
        match ether_type {
            EtherType::Arp => {
                self.arp.receive(packet.data(), &mut self.cache, cx);
                self.process_events(cx);
                false
            }
            EtherType::Ipv4 => self.process_ipv4(packet, destination, cx),
            EtherType::Ipv6 => self.process_ipv6(packet.data(), destination, cx),
            EtherType::Other(_) => {
                cx.meter.count(Counter::EthernetTypesUnknown);
                false
            }
        }
    }

    fn process_ipv4(&mut self, packet: &Packet, frame_to: MacAddress, cx: &mut Cx<'_>) -> bool {
        let datagram = packet.data();
        if let Some(dhcp) = &mut self.dhcp
            && let Some(message) = datagrams::dhcp_message(datagram, packet.offload.checksum)
        {
            dhcp.receive(message, cx);
            self.process_events(cx);
            return false;
        }
        let is_group = frame_to.is_multicast();
        let is_unicast = |to: IpAddr| self.group_mac(to).is_none();
        if is_group && datagrams::destination_of(datagram).is_none_or(is_unicast) {
            cx.meter.count(Counter::EthernetFramesForOthers);
            return false;
        }
        datagram.first().is_some_and(|first| first >> 4 == 4)
    }

    fn process_ipv6(&mut self, packet: &[u8], frame_to: MacAddress, cx: &mut Cx<'_>) -> bool {
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
        let is_ours =
            discovery.addresses().receive_addresses().any(|ours| ours == found.destination);
        if is_ours || found.destination.is_multicast() {
            let datagrams::Discovered { source, destination, message } = found;
            discovery.receive(message, source, destination, nd::HOP_LIMIT, &mut self.cache, cx);
            self.process_events(cx);
            self.update_frame_filter();
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
        if let Some(group) = destination.and_then(|destination| self.group_mac(destination)) {
            return Some(self.add_frame_header(packet, group));
        }
        let Some(hop) = hop else {
            // There is no route.
            self.report_unreachable(packet, pool, cx);
            return None;
        };
        let (mac, packet) = self.cache.resolve(hop, packet, pool, cx)?;
        Some(self.add_frame_header(packet, mac))
    }

    fn next_frame(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Packet> {
        while let Some(event) = self.cache.event() {
            match event {
                neighbor::Event::Resolved { mac, packet } => {
                    return Some(self.add_frame_header(packet, mac));
                }
                neighbor::Event::Failed { target, packet } => {
                    self.record_silent_neighbor(target, false, cx);
                    if let Some(packet) = packet {
                        self.report_unreachable(packet, pool, cx);
                    }
                }
                neighbor::Event::RouterLeft { target } => {
                    self.record_silent_neighbor(target, true, cx);
                }
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
                Some(mac) => Some(self.add_frame_header(packet, mac)),
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
            let hop = self.next_hop_to(outgoing.destination).map(IpAddr::V4);
            let frame = self.send_datagram(packet, hop, pool, cx);
            if frame.is_some() {
                return frame;
            }
        }
    }

    /// Returns the neighbor to which datagrams for the DHCP server are sent.
    fn next_hop_to(&self, server: Ipv4Addr) -> Option<Ipv4Addr> {
        let is_on_link = self.network.is_some_and(|(ours, len)| is_on_link(server, ours, len));
        is_on_link.then_some(server).or(self.routers.first().copied())
    }

    /// Returns the routes learned from the segment, the most preferred first.
    fn make_routes(&self) -> Vec<routes::Route> {
        let mut routes = Vec::new();
        let default_route = |router: IpAddr, metric: usize| {
            let metric = u16::try_from(metric).unwrap_or(u16::MAX);
            let unspecified = match router {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            routes::Route { metric, ..routes::Route::via(router, unspecified, 0) }
        };
        if let Some((ours, len)) = self.network {
            routes.push(routes::Route::on_link(ours.into(), len));
            let routers = self.routers.iter().enumerate();
            routes.extend(routers.map(|(rank, router)| default_route((*router).into(), rank)));
        }
        let Some(discovery) = &self.discovery else { return routes };
        routes.push(routes::Route::on_link(Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 0).into(), 10));
        if let Ipv6::Static { address, prefix_len, router } = self.settings.ipv6 {
            routes.push(routes::Route::on_link(address.into(), prefix_len));
            routes.extend(router.map(|router| default_route(router.into(), 0)));
        }
        let on_link = discovery.prefixes().iter();
        routes.extend(on_link.map(|known| routes::Route::on_link(known.prefix.into(), known.len)));
        let mut routers = discovery.routers().to_vec();
        routers.sort_by_key(|router| (router.is_unreachable, Reverse(router.preference)));
        let routers = routers.iter().enumerate();
        routes.extend(routers.map(|(rank, router)| default_route(router.address.into(), rank)));
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

    fn record_silent_neighbor(&mut self, target: IpAddr, is_router_left: bool, cx: &mut Cx<'_>) {
        self.unresponsive.retain(|unresponsive| *unresponsive != target);
        if self.unresponsive.len() >= UNRESPONSIVE_MAX {
            self.unresponsive.pop_front();
        }
        self.unresponsive.push_back(target);
        match target {
            // The next router becomes the first, and this router the last (RFC 1122 §3.3.1.4).
            IpAddr::V4(target) if self.routers.first() == Some(&target) => {
                self.routers.rotate_left(1);
                self.push_event(Event::Routes, cx);
            }
            IpAddr::V4(_) => {}
            IpAddr::V6(target) => {
                if let Some(discovery) = &mut self.discovery {
                    discovery.lose_neighbor(target, is_router_left, cx);
                }
            }
        }
        self.process_events(cx);
    }

    /// Passes events between ARP, Neighbor Discovery and DHCP, and queues the events for the layers
    /// above.
    fn process_events(&mut self, cx: &mut Cx<'_>) {
        while let Some(event) = self.arp.event() {
            self.process_arp_event(event, cx);
        }
        while let Some(event) = self.dhcp.as_mut().and_then(|dhcp| dhcp.event()) {
            self.process_dhcp_event(event, cx);
        }
        while let Some(event) = self.discovery.as_mut().and_then(|discovery| discovery.event()) {
            self.process_discovery_event(event, cx);
        }
    }

    fn process_arp_event(&mut self, event: arp::Event, cx: &mut Cx<'_>) {
        match event {
            arp::Event::Claimed(address) => {
                if let Some(dhcp) = &mut self.dhcp {
                    dhcp.accept(address, cx);
                }
            }
            arp::Event::Conflict { address, .. } => {
                self.push_event(Event::Duplicate(address.into()), cx);
                if let Some(dhcp) = &mut self.dhcp {
                    dhcp.decline(address, cx);
                }
            }
        }
    }

    fn process_dhcp_event(&mut self, event: dhcp::Event, cx: &mut Cx<'_>) {
        match event {
            dhcp::Event::Check(address) => {
                // ARP has space for eight addresses, and this is the only one.
                let _ = self.arp.claim(address, Defense::GiveUp, cx);
            }
            dhcp::Event::Bound(lease) => {
                let is_known = self.network == Some((lease.address, lease.prefix_len));
                let has_other_routers = self.routers != lease.routers;
                self.routers = lease.routers;
                if !is_known {
                    self.set_network(lease.address, lease.prefix_len);
                } else if has_other_routers {
                    self.push_event(Event::Routes, cx);
                }
                if let Some(mtu) = lease.mtu {
                    self.push_event(Event::Mtu(mtu), cx);
                }
            }
            dhcp::Event::Lost(address) => {
                self.arp.release(address);
                self.network = None;
                self.routers.clear();
                self.push_event(Event::Removed(address.into()), cx);
                self.push_event(Event::Routes, cx);
            }
        }
    }

    fn process_discovery_event(&mut self, event: nd::Event, cx: &mut Cx<'_>) {
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
                self.push_event(Event::HopLimit(hop_limit), cx);
                Event::Mtu(mtu)
            }
        };
        self.push_event(event, cx);
    }

    fn set_network(&mut self, address: Ipv4Addr, prefix_len: u8) {
        self.network = Some((address, prefix_len));
        self.events.push_back(Event::Assigned { address: address.into(), prefix_len });
        self.events.push_back(Event::Routes);
    }

    /// Updates the frame filter to accept the solicited-node multicast groups of the local
    /// addresses (RFC 4861 §7.2.1).
    fn update_frame_filter(&mut self) {
        self.filter.leave_all();
        self.filter.join(MacAddress::of_group_v4(Ipv4Addr::new(224, 0, 0, 1)));
        let Some(discovery) = &self.discovery else { return };
        self.filter.join(MacAddress::of_group_v6(nd::ALL_NODES));
        for address in discovery.addresses().receive_addresses() {
            self.filter.join(MacAddress::of_group_v6(nd::solicited_node(address)));
        }
    }

    /// Returns the hardware address for a broadcast or multicast destination, or `None` if
    /// `destination` is unicast.
    fn group_mac(&self, destination: IpAddr) -> Option<MacAddress> {
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

    /// Prepends a frame header to a datagram.
    fn add_frame_header(&self, mut packet: Packet, to: MacAddress) -> Packet {
        let is_ipv6 = packet.data().first().is_some_and(|first| first >> 4 == 6);
        let ether_type = if is_ipv6 { EtherType::Ipv6 } else { EtherType::Ipv4 };
        packet.push(&self.header(to, ether_type).emit());
        if packet.tail_len == 0 {
            ethernet::pad(&mut packet);
        }
        packet
    }

    fn header(&self, destination: MacAddress, ether_type: EtherType) -> ethernet::Header {
        ethernet::Header { destination, source: self.settings.mac, ether_type }
    }

    fn report_unreachable(&mut self, packet: Packet, pool: &mut Pool, cx: &mut Cx<'_>) {
        if self.events.len() < EVENTS_LIMIT {
            self.events.push_back(Event::Unreachable(packet));
        } else {
            cx.meter.count(Counter::NeighborEventsDropped);
            pool.put(packet);
        }
    }

    fn push_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        if self.events.len() < EVENTS_LIMIT {
            self.events.push_back(event);
        } else {
            cx.meter.count(Counter::NeighborEventsDropped);
        }
    }
}

/// Returns whether `address` and `ours` are in the same network.
fn is_on_link(address: Ipv4Addr, ours: Ipv4Addr, prefix_len: u8) -> bool {
    let hosts = u32::MAX.checked_shr(prefix_len.into()).unwrap_or(0);
    (address.to_bits() ^ ours.to_bits()) & !hosts == 0
}

/// Returns whether all bits of `address` after the prefix are ones.
fn is_broadcast(address: Ipv4Addr, prefix_len: u8) -> bool {
    let hosts = u32::MAX.checked_shr(prefix_len.into()).unwrap_or(0);
    address.to_bits() & hosts == hosts
}
