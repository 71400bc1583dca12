//! The Ethernet segment between the gateway and exactly one guest: a TAP in a namespace, or the
//! network device of a virtual machine.
//!
//! ```text
//!            frame                                     datagram
//!  guest ──────────────► filter ──► lease check ──┬──────────────► station of the guest
//!        ◄───────────────────────── frame header ◄┼───────────────
//!        ◄──── answers ◄─── ARP, Neighbor Discovery, DHCP ◄┘
//! ```
//!
//! **Framing.** [`Segment::receive`] removes the header of a frame and returns the datagram in it,
//! with its offloads unchanged. [`Segment::frame`] prepends the header to a datagram for the guest.
//! The segment has two stations, so no neighbor cache is needed: the guest's hardware address is
//! that of the first frame. Before that, frames are broadcast. If the guest changes its address, the
//! segment learns the new one from the guest's own ARP, Neighbor Discovery or DHCP (`address_claim`).
//! VLANs and LLC are counted and dropped.
//!
//! **Lease check** (row 105 of the attack table). A guest must not send under another address: it
//! could take over mappings, and a host could not tell guests apart. The source of a frame must be
//! the guest's hardware address. The source of an IPv4 datagram must be the lease, or 0.0.0.0 if it
//! is a DHCP message. The source of an IPv6 packet must be link-local, or in the guest's /64, and not
//! the anycast address of the routers; one from a link-local address is not forwarded beyond the
//! link. All other input is counted and dropped. Since each guest has a segment of its own, two guests with the
//! same address do not conflict on Ethernet; the owner of the guests compares their leases.
//!
//! **Neighbors.** ARP requests and neighbor solicitations are answered with the gateway's hardware
//! address: for the addresses of the gateway, or for every address but the guest's own
//! ([`Represented`]). A guest checks its address by an ARP probe (RFC 5227) or by Duplicate Address
//! Detection (RFC 4862 §5.4). Requests for the lease are never answered, and neither is any
//! solicitation without a source, so the check always finds the address free. An ARP probe for any
//! other represented address is answered: the guest cannot use such an address.
//!
//! **Configuration.** Router advertisements ([`Advertisement`]) and the servers of DHCP
//! ([`dhcp_server`], [`dhcpv6_server`]) are part of the segment, because their messages have no address that a routed
//! datagram could have. Multicast and broadcast datagrams are counted and not forwarded: the
//! sockets of the host would send them to a network of which the guest is not a part. Neither are
//! datagrams to one host in a multicast or broadcast frame.
//!
//! Answers are queued up to a limit. They take a packet from the pool only when they are sent.

mod address_claim;
mod advertiser;
mod local_messages;
mod segment_counters;
#[cfg(test)]
mod tests;

pub use advertiser::Advertisement;
pub use segment_counters::Counters;

use crate::{dhcp_server, dhcpv6_server};
use advertiser::Advertiser;
use net::Cx;
use net::internet::arp::{ArpPacket, Operation};
use net::internet::nd::{Message, is_link_local, prefix_of};
use net::internet::{ipv4, ipv6};
use net::link::ethernet::{self, EtherType, FrameError, Header, MacAddress};
use net::packet::{Packet, Pool};
use net::time::Instant;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum number of queued answers; one more is dropped. A guest asks for a neighbor once per
/// second (RFC 1122 §2.3.2.1).
const ANSWERS_LIMIT: usize = 16;
/// Maximum number of queued events; one more is dropped.
const EVENTS_LIMIT: usize = 8;
/// Length of the prefix of an IPv6 network, in bits.
const PREFIX_LEN: u8 = 64;

/// Settings of a segment.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Hardware address of the gateway.
    pub mac: MacAddress,
    /// Hardware address of the guest; `None` if it is to be learnt from the first frame, and may
    /// change.
    pub guest_mac: Option<MacAddress>,
    /// The addresses for which the gateway answers.
    pub represented: Represented,
    /// The IPv4 network; `None` if IPv4 is off.
    pub ipv4: Option<Ipv4Network>,
    /// The IPv6 network; `None` if IPv6 is off.
    pub ipv6: Option<Ipv6Network>,
    /// The DHCP server; `None` if the guest is configured otherwise.
    pub dhcp: Option<dhcp_server::Settings>,
    /// The DHCPv6 server, which router advertisements announce; `None` if the guest is configured
    /// otherwise.
    pub dhcpv6: Option<dhcpv6_server::Settings>,
}

/// The addresses for which the gateway answers ARP requests and neighbor solicitations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Represented {
    /// Only the addresses of the gateway, as slirp4netns does.
    Gateway,
    /// Every address but the guest's own, as pasta does: the guest's network is that of the host,
    /// whose other hosts are reached through the gateway.
    EveryOther,
}

/// The IPv4 network of a guest.
#[derive(Clone, Debug)]
pub struct Ipv4Network {
    /// The guest's address.
    pub lease: Ipv4Addr,
    /// Length of the network's prefix, in bits.
    pub prefix_len: u8,
    /// Addresses of the gateway: the router and the DNS server.
    pub gateways: Vec<Ipv4Addr>,
}

/// The IPv6 network of a guest. Its prefix has 64 bits.
#[derive(Clone, Debug)]
pub struct Ipv6Network {
    /// The prefix, or any address in it.
    pub prefix: Ipv6Addr,
    /// The guest's address if the guest does not form it itself.
    pub lease: Option<Ipv6Addr>,
    /// Link-local address of the gateway, the source of router advertisements.
    pub link_local: Ipv6Addr,
    /// Further addresses of the gateway: the router and the DNS server.
    pub gateways: Vec<Ipv6Addr>,
    /// Router advertisements; `None` if the guest is configured otherwise.
    pub advertisement: Option<Advertisement>,
}

/// Events of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first frame of the guest has arrived from this hardware address, or the guest has changed
    /// its address to it.
    Learnt(MacAddress),
    /// An event of the DHCP server.
    Dhcp(dhcp_server::Event),
}

/// The Ethernet segment of one guest.
#[derive(Debug)]
pub struct Segment {
    mac: MacAddress,
    guest_mac: Option<MacAddress>,
    settings_guest_mac: Option<MacAddress>,
    represented: Represented,
    ipv4: Option<Ipv4Network>,
    ipv6: Option<Ipv6Network>,
    dhcp: Option<dhcp_server::Server>,
    dhcpv6: Option<dhcpv6_server::Server>,
    advertiser: Option<Advertiser>,
    answers: VecDeque<Answer>,
    events: VecDeque<Event>,
    counters: Counters,
}

/// A queued answer.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Arp(ArpPacket),
    /// The neighbor advertisement of `target` to `destination`.
    Neighbor {
        target: Ipv6Addr,
        destination: Ipv6Addr,
    },
    /// A router advertisement to the host that solicited it.
    Router {
        destination: Ipv6Addr,
    },
}

impl Segment {
    /// Returns the segment of a guest that has not connected yet. If IPv6 is on, a router
    /// advertisement is due at once.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let Settings { mac, guest_mac, represented, ipv4, ipv6, dhcp, dhcpv6 } = settings;
        let advertisement = ipv6.as_ref().and_then(|network| network.advertisement.clone());
        let mut advertiser = advertisement.map(Advertiser::new);
        if let Some(advertiser) = advertiser.as_mut().filter(|_| dhcpv6.is_some()) {
            advertiser.set_managed();
        }
        Self {
            mac,
            guest_mac,
            settings_guest_mac: guest_mac,
            represented,
            ipv4,
            ipv6,
            dhcp: dhcp.map(dhcp_server::Server::new),
            dhcpv6: dhcpv6.map(dhcpv6_server::Server::new),
            advertiser,
            answers: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Processes a frame of the guest, and returns the datagram in it, if the gateway is to forward
    /// one. Any other packet returns to the pool.
    pub fn receive(
        &mut self,
        mut packet: Packet,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Packet> {
        self.counters.frames_in += 1;
        if self.process(&mut packet, cx) {
            self.counters.datagrams_in += 1;
            return Some(packet);
        }
        pool.put(packet);
        None
    }

    /// Returns the next frame that the segment sends itself. If the pool is exhausted, the frame
    /// remains queued.
    pub fn transmit(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Packet> {
        if !self.has_output() {
            return None;
        }
        let mut packet = pool.take(cx.meter)?;
        let header = self.write_answer(&mut packet, cx);
        packet.push(&header.emit());
        ethernet::pad(&mut packet);
        self.counters.frames_out += 1;
        Some(packet)
    }

    /// Returns whether [`Self::transmit`] has a frame to send.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.answers.is_empty()
            || self.dhcp.as_ref().is_some_and(dhcp_server::Server::has_output)
            || self.dhcpv6.as_ref().is_some_and(dhcpv6_server::Server::has_output)
            || self.advertiser.as_ref().is_some_and(Advertiser::is_due)
    }

    /// Prepends the frame header to a datagram for the guest. A short frame is padded, unless its
    /// device gathers a part of it.
    pub fn frame(&self, packet: &mut Packet) {
        let is_ipv6 = packet.data().first().is_some_and(|first| first >> 4 == 6);
        let header = Header {
            destination: self.guest_mac.unwrap_or(MacAddress::BROADCAST),
            source: self.mac,
            ether_type: if is_ipv6 { EtherType::Ipv6 } else { EtherType::Ipv4 },
        };
        packet.push(&header.emit());
        if packet.tail_len == 0 {
            ethernet::pad(packet);
        }
    }

    /// Returns when [`Self::timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.advertiser.as_ref()?.deadline()
    }

    /// Makes the router advertisement due whose time has come.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        if let Some(advertiser) = &mut self.advertiser {
            advertiser.timeout(cx);
        }
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<Event> {
        let own_event = self.events.pop_front();
        own_event.or_else(|| self.dhcp.as_mut()?.event().map(Event::Dhcp))
    }

    /// Prepares for a new connection of the guest's device: its hardware address is learnt again,
    /// queued answers are dropped, and a router advertisement is due.
    pub fn reset(&mut self, cx: &mut Cx<'_>) {
        self.guest_mac = self.settings_guest_mac;
        self.answers.clear();
        if let Some(advertiser) = &mut self.advertiser {
            advertiser.restart(cx);
        }
    }

    /// Makes a last router advertisement due that withdraws the gateway as a router. The caller
    /// sends it before it closes the device.
    pub fn withdraw(&mut self) {
        if let Some(advertiser) = &mut self.advertiser {
            advertiser.withdraw();
        }
    }

    /// Returns the hardware address of the guest, if it is known.
    #[must_use]
    pub fn guest_mac(&self) -> Option<MacAddress> {
        self.guest_mac
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the counters of the DHCP server, if there is one.
    #[must_use]
    pub fn dhcp_counters(&self) -> Option<dhcp_server::Counters> {
        self.dhcp.as_ref().map(dhcp_server::Server::counters)
    }

    /// Returns the counters of the DHCPv6 server, if there is one.
    #[must_use]
    pub fn dhcpv6_counters(&self) -> Option<dhcpv6_server::Counters> {
        self.dhcpv6.as_ref().map(dhcpv6_server::Server::counters)
    }

    /// Processes a frame, and returns whether its datagram is to be forwarded. In this case the
    /// frame header has been removed.
    fn process(&mut self, packet: &mut Packet, cx: &mut Cx<'_>) -> bool {
        let parsed = match Header::parse(packet.data()) {
            Ok(parsed) => parsed,
            Err(error) => {
                *match error {
                    FrameError::Truncated | FrameError::Source => {
                        &mut self.counters.malformed_frames
                    }
                    FrameError::Vlan => &mut self.counters.vlan_frames,
                    FrameError::Length => &mut self.counters.llc_frames,
                } += 1;
                return false;
            }
        };
        let Header { source, destination, ether_type } = parsed.header;
        if destination != self.mac && !destination.is_multicast() {
            self.counters.misdirected_frames += 1;
            return false;
        }
        packet.pull(parsed.header_len);
        if !self.is_guest(source) && !self.follow(&parsed.header, packet) {
            self.counters.spoofed_frames += 1;
            return false;
        }
        let is_forwarded = match ether_type {
            EtherType::Ipv4 if self.ipv4.is_some() => self.process_ipv4(packet, source),
            EtherType::Ipv6 if self.ipv6.is_some() => self.process_ipv6(packet, cx),
            EtherType::Arp if self.ipv4.is_some() => {
                self.process_arp(packet.data(), source);
                false
            }
            _ => {
                self.counters.unknown_types += 1;
                false
            }
        };
        // RFC 1122 §3.3.6: the datagram is addressed to one host, the frame to all hosts of the link.
        if is_forwarded && destination.is_multicast() {
            self.counters.group_frames += 1;
            return false;
        }
        is_forwarded
    }

    /// Returns whether a frame is from the guest. The first frame determines its address.
    fn is_guest(&mut self, source: MacAddress) -> bool {
        match self.guest_mac {
            Some(guest) => source == guest,
            None if source == self.mac => false,
            None => {
                self.learn(source);
                true
            }
        }
    }

    /// Learns the source of a frame from another hardware address, if the frame shows that the guest
    /// has changed its address to it. Returns whether it does.
    fn follow(&mut self, header: &Header, packet: &Packet) -> bool {
        let Header { source, ether_type, .. } = *header;
        if self.settings_guest_mac.is_some() || source == self.mac {
            return false;
        }
        let is_claim = match (ether_type, &self.ipv4, &self.ipv6) {
            (EtherType::Arp, Some(network), _) => {
                address_claim::is_arp_of(packet.data(), source, network.lease)
            }
            (EtherType::Ipv4, Some(network), _) if self.dhcp.is_some() => {
                let is_to_server =
                    |datagram: &[u8], parsed: &_| network.is_to_dhcp_server(datagram, parsed);
                address_claim::is_dhcp_of(packet, source, is_to_server)
            }
            (EtherType::Ipv6, _, Some(network)) => {
                address_claim::is_discovery_of(packet, source, |address| network.is_guest(address))
            }
            _ => false,
        };
        if is_claim {
            self.learn(source);
            self.counters.address_changes += 1;
        }
        is_claim
    }

    fn learn(&mut self, guest: MacAddress) {
        self.guest_mac = Some(guest);
        if self.events.len() < EVENTS_LIMIT {
            self.events.push_back(Event::Learnt(guest));
        }
    }

    fn process_ipv4(&mut self, packet: &Packet, guest: MacAddress) -> bool {
        let datagram = packet.data();
        let Ok(parsed) = ipv4::Header::parse(datagram) else {
            self.counters.malformed_datagrams += 1;
            return false;
        };
        let ipv4::Header { source, destination, .. } = parsed.header;
        let Some(network) = &self.ipv4 else { return false };
        let is_lease = source == network.lease;
        let is_group = network.is_group(destination);
        if let Some(server) = &mut self.dhcp
            && network.is_to_dhcp_server(datagram, &parsed)
        {
            match local_messages::dhcp_message(datagram, &parsed, packet.offload.checksum) {
                Some(message) => server.receive(message, guest),
                None => self.counters.malformed_dhcp += 1,
            }
            return false;
        }
        if !is_lease {
            self.counters.spoofed_ipv4 += 1;
        } else if is_group {
            self.counters.group_datagrams += 1;
        }
        is_lease && !is_group
    }

    fn process_ipv6(&mut self, packet: &Packet, cx: &mut Cx<'_>) -> bool {
        let datagram = packet.data();
        let Ok(parsed) = ipv6::Header::parse(datagram) else {
            self.counters.malformed_datagrams += 1;
            return false;
        };
        let ipv6::Header { source, destination, .. } = parsed.header;
        let Some(network) = &self.ipv6 else { return false };
        let is_guest = network.is_guest(source);
        // A host without an address checks an address, solicits a router or reports its groups
        // (RFC 3810 §5.2.13). All these packets are sent to groups.
        let has_no_address = source.is_unspecified() && destination.is_multicast();
        if !is_guest && !has_no_address {
            self.counters.spoofed_ipv6 += 1;
            return false;
        }
        if local_messages::is_discovery(datagram) {
            match local_messages::discovery(datagram, &parsed, packet.offload.checksum) {
                Some(message) => self.process_discovery(&message, source, cx),
                None => self.counters.malformed_discovery += 1,
            }
            return false;
        }
        if let Some(server) = &mut self.dhcpv6
            && local_messages::is_to_dhcpv6_server(datagram, &parsed)
        {
            match local_messages::dhcpv6_message(datagram, &parsed, packet.offload.checksum) {
                Some(message) => server.receive(message, source),
                None => self.counters.malformed_dhcp += 1,
            }
            return false;
        }
        if destination.is_multicast() {
            self.counters.group_datagrams += 1;
            return false;
        }
        // RFC 4291 §2.5.6: a router does not forward such a packet to another link.
        if is_link_local(source) && !network.is_on_link(destination) {
            self.counters.beyond_scope += 1;
            return false;
        }
        true
    }

    fn process_arp(&mut self, bytes: &[u8], guest: MacAddress) {
        let Ok(packet) = ArpPacket::parse(bytes) else {
            self.counters.malformed_arp += 1;
            return;
        };
        let Some(network) = &self.ipv4 else { return };
        let ArpPacket { operation, sender_mac, sender, target, .. } = packet;
        let is_from_guest = sender == network.lease || sender.is_unspecified();
        if sender_mac != guest || !is_from_guest {
            self.counters.spoofed_arp += 1;
            return;
        }
        let is_represented = match self.represented {
            Represented::Gateway => network.gateways.contains(&target),
            Represented::EveryOther => target != network.lease && is_unicast(target),
        };
        if operation != Operation::Request || !is_represented {
            self.counters.arp_ignored += 1;
            return;
        }
        let reply = ArpPacket {
            operation: Operation::Reply,
            sender_mac: self.mac,
            sender: target,
            target_mac: sender_mac,
            target: sender,
        };
        if self.enqueue(Answer::Arp(reply)) {
            self.counters.arp_answers += 1;
        }
    }

    fn process_discovery(&mut self, message: &Message, source: Ipv6Addr, cx: &mut Cx<'_>) {
        let Some(network) = &self.ipv6 else { return };
        match message {
            Message::NeighborSolicitation { target, .. } => {
                let is_represented = match self.represented {
                    Represented::Gateway => {
                        *target == network.link_local || network.gateways.contains(target)
                    }
                    Represented::EveryOther => {
                        Some(*target) != network.lease && !target.is_unspecified()
                    }
                };
                if source.is_unspecified() || !is_represented {
                    self.counters.discovery_ignored += 1;
                } else if self.enqueue(Answer::Neighbor { target: *target, destination: source }) {
                    self.counters.neighbor_answers += 1;
                }
            }
            Message::RouterSolicitation { .. } => match &mut self.advertiser {
                None => self.counters.discovery_ignored += 1,
                Some(advertiser) if source.is_unspecified() => {
                    advertiser.solicited(cx);
                    self.counters.router_solicitations += 1;
                }
                Some(_) => {
                    if self.enqueue(Answer::Router { destination: source }) {
                        self.counters.router_solicitations += 1;
                    }
                }
            },
            Message::NeighborAdvertisement { .. } => self.counters.discovery_ignored += 1,
            // A guest is no router.
            Message::RouterAdvertisement(_) | Message::Redirect { .. } => {
                self.counters.malformed_discovery += 1;
            }
        }
    }

    /// Queues an answer, and returns whether there was room for it.
    fn enqueue(&mut self, answer: Answer) -> bool {
        let has_room = self.answers.len() < ANSWERS_LIMIT;
        if has_room {
            self.answers.push_back(answer);
        } else {
            self.counters.answers_dropped += 1;
        }
        has_room
    }

    /// Writes the next answer into an empty packet, and returns the header of its frame.
    fn write_answer(&mut self, packet: &mut Packet, cx: &mut Cx<'_>) -> Header {
        let guest = self.guest_mac.unwrap_or(MacAddress::BROADCAST);
        let source = self.mac;
        let to = |destination, ether_type| Header { destination, source, ether_type };
        match self.answers.pop_front() {
            Some(Answer::Arp(reply)) => {
                packet.extend(&reply.emit());
                return to(guest, EtherType::Arp);
            }
            Some(Answer::Neighbor { target, destination }) => {
                let message = Message::NeighborAdvertisement {
                    target,
                    is_router: true,
                    is_solicited: true,
                    is_override: true,
                    target_mac: Some(self.mac),
                };
                packet.extend(&message.emit(target, destination));
                local_messages::push_discovery(packet, target, destination);
                return to(guest, EtherType::Ipv6);
            }
            Some(Answer::Router { destination }) => {
                self.write_advertisement(packet, destination);
                return to(guest, EtherType::Ipv6);
            }
            None => {}
        }
        if let Some(outgoing) = self.dhcp.as_mut().and_then(dhcp_server::Server::transmit) {
            packet.extend(&outgoing.payload);
            local_messages::push_dhcp(packet, outgoing.source, outgoing.destination);
            let is_broadcast = outgoing.destination.is_broadcast();
            return to(if is_broadcast { MacAddress::BROADCAST } else { guest }, EtherType::Ipv4);
        }
        let outgoing = self.dhcpv6.as_mut().and_then(dhcpv6_server::Server::transmit);
        if let (Some(outgoing), Some(network)) = (outgoing, &self.ipv6) {
            packet.extend(&outgoing.payload);
            local_messages::push_dhcpv6(packet, network.link_local, outgoing.destination);
            return to(guest, EtherType::Ipv6);
        }
        self.write_advertisement(packet, advertiser::MULTICAST);
        if let Some(advertiser) = &mut self.advertiser {
            advertiser.sent(cx);
        }
        to(MacAddress::of_group_v6(advertiser::MULTICAST), EtherType::Ipv6)
    }

    fn write_advertisement(&mut self, packet: &mut Packet, destination: Ipv6Addr) {
        let (Some(advertiser), Some(network)) = (&self.advertiser, &self.ipv6) else { return };
        let source = network.link_local;
        packet.extend(&advertiser.message(self.mac, source, destination));
        local_messages::push_discovery(packet, source, destination);
        self.counters.advertisements += 1;
    }
}

impl Ipv4Network {
    /// Returns whether a datagram is a UDP message of the guest, with or without its lease, to a DHCP
    /// server. The message may be malformed.
    fn is_to_dhcp_server(&self, datagram: &[u8], parsed: &ipv4::Parsed) -> bool {
        let ipv4::Header { source, destination, .. } = parsed.header;
        (source == self.lease || source.is_unspecified())
            && (self.is_group(destination) || self.gateways.contains(&destination))
            && local_messages::is_to_dhcp_server(datagram, parsed)
    }

    fn is_group(&self, address: Ipv4Addr) -> bool {
        address.is_multicast() || self.is_broadcast(address)
    }

    /// Returns whether an address is the limited broadcast address or that of this network.
    fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        let host_bits = u32::MAX.checked_shr(self.prefix_len.into()).unwrap_or(0);
        // RFC 3021: a prefix of 31 bits has no broadcast address.
        let of_network = self.lease.to_bits() | host_bits;
        address.is_broadcast() || host_bits > 1 && address.to_bits() == of_network
    }
}

impl Ipv6Network {
    /// Returns whether an address can be one of the guest. The anycast address of the routers on the
    /// link (RFC 4291 §2.6.1) cannot, unless it is the lease.
    fn is_guest(&self, address: Ipv6Addr) -> bool {
        let is_anycast = address == prefix_of(address, PREFIX_LEN) && Some(address) != self.lease;
        !is_anycast && (is_link_local(address) || self.contains(address))
    }

    /// Returns whether a destination is link-local, or the gateway itself.
    fn is_on_link(&self, destination: Ipv6Addr) -> bool {
        is_link_local(destination) || self.gateways.contains(&destination)
    }

    fn contains(&self, address: Ipv6Addr) -> bool {
        prefix_of(address, PREFIX_LEN) == prefix_of(self.prefix, PREFIX_LEN)
    }
}

/// Returns whether a host can have the address.
fn is_unicast(address: Ipv4Addr) -> bool {
    !matches!(address.octets(), [0 | 127 | 224..=255, ..])
}
