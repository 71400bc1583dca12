//! The Internet layer: IPv4 and IPv6 with their ICMP, for a host with one link.
//!
//! A host has addresses of both families, and what is said here holds for both. A datagram from
//! the link is read once (`arrives.rs`). What is damaged, not for us or from nobody is counted and
//! goes back to the pool; fragments wait for the rest of theirs; ICMP is dealt with here
//! (`control.rs`); what is left is for a transport, which gets it with the headers pulled off and
//! the link's padding cut. TCP gets only what was sent to an address of ours, the others what was
//! sent to everybody or to a group of ours as well.
//!
//! What is sent (`departs.rs`) gets the best of our addresses as its source, if its transport has
//! not chosen one, and the header. Where it is longer than the way to its destination takes it is
//! cut into fragments, but never what is TCP's, which makes its segments fit (RFC 8900). What is
//! sent to ourselves comes back in without touching the link.
//!
//! Echo replies and errors are made in the buffer of the datagram that they answer. They are
//! *owed* until the station's output step collects them with [`Internet::transmit`]. The queue is
//! short; when it is full, one of all that want to stand in it is dropped by lot, because a queue
//! that always drops the last shows a sender what became of datagrams sent before his own.
//!
//! Errors obey RFC 1122 §3.2.2 and RFC 4443 §2.4: none about errors, about fragments but the
//! first, about what was sent to more than one host, or to a source that is not one host; and only
//! so many to each destination.
//!
//! A link between two hosts needs no routes: whatever is not ours is for the other end of it. That
//! is what a new layer believes, until [`Internet::routes_mut`] says better.

pub mod addresses;
pub mod arp;
mod arrives;
mod control;
mod departs;
pub mod icmp;
pub mod icmpv6;
mod identification;
mod interface;
pub mod ipv4;
pub mod ipv6;
mod limit;
pub mod nd;
pub mod neighbor;
pub mod path_mtu;
pub mod reassembly;
pub mod routes;
pub mod slaac;

use crate::checksum::Sum;
use crate::cx::Cx;
use crate::meter::{Account, Counter};
use crate::packet::{Packet, Pool};
use crate::time::Instant;
use addresses::{AddError, Address, Addresses};
use alloc::collections::{BTreeSet, VecDeque};
use control::Probe;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use departs::Cut;
use icmp::{EchoReply, IcmpError};
use identification::Identifications;
use interface::{Audience, Interface};
use ipv4::Protocol;
use limit::Limiter;
use path_mtu::{PathMtu, PathMtus};
use reassembly::Reassembler;
use routes::{Route, Routes};

/// The Internet layer of one host.
#[derive(Debug)]
pub struct Internet {
    interface: Interface,
    routes: Routes,
    paths: PathMtus,
    mtu: u16,
    time_to_live: u8,
    hop_limit: u8,
    reassembler: Reassembler,
    /// Drawn when the first datagram is cut.
    identifications: Option<Identifications>,
    /// Whole datagrams for the link, at most [`OWED_LIMIT`], each with what to count when it goes.
    owed: VecDeque<(Packet, Counter)>,
    /// Datagrams that leave in fragments, at most [`departs::CUTS_MAX`].
    cuts: VecDeque<Cut>,
    /// Datagrams from us to us, at most [`departs::LOOPED_MAX`].
    looped: VecDeque<Packet>,
    /// News for the layers above, at most [`EVENTS_LIMIT`].
    events: VecDeque<Event>,
    /// Echo requests without a reply yet, the oldest first, at most [`control::PROBES_LIMIT`].
    probes: VecDeque<Probe>,
    /// Protocols that an application has asked for.
    asked_for: BTreeSet<u8>,
    limiter: Limiter,
    recent: Recent,
}

/// Source and destination of what was last found good: the next datagram mostly has the same. It
/// is forgotten whenever addresses or routes may have changed.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    /// Of what has come for TCP.
    arrived: Option<(IpAddr, IpAddr)>,
    /// Of what has left whole, for one other host.
    departed: Option<(IpAddr, IpAddr)>,
}

/// A datagram for a transport: what its header says, and a packet that holds only its data.
#[derive(Debug)]
pub struct Datagram {
    /// What its header says. Its source is one other host, except that a UDP broadcast may come
    /// from 0.0.0.0, a host that does not know its address yet, and that what we have sent to
    /// ourselves comes from us.
    pub header: Header,
    /// Bytes of the headers with their options, which are pulled off the packet.
    pub header_len: usize,
    /// The data.
    pub packet: Packet,
}

/// What the header of a datagram says to a transport, and what a transport says of one to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Who sends it; to send, an unspecified one lets the Internet layer choose.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// What it carries.
    pub protocol: Protocol,
    /// The byte that holds the DSCP and the ECN bits (RFC 2474, RFC 3168).
    pub dscp_ecn: u8,
    /// How many more routers it may cross; to send, 0 stands for the station's own setting.
    pub hop_limit: u8,
}

/// News for the layers above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Something went wrong with a datagram of ours.
    ///
    /// If a datagram was too long and the transport believes it, it tells
    /// [`Internet::lower_path_mtu`].
    Error(IcmpError),
    /// An echo request of ours was answered.
    EchoReply(EchoReply),
}

/// Why a datagram cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// It is longer than can be sent: for TCP than the link can take, because no fragments are
    /// made of it; for others than any datagram is.
    TooBig {
        /// Bytes of the longest datagram, header and all.
        mtu: u16,
    },
    /// We have no address of the destination's family, or not the one to send from.
    NoAddress,
    /// The destination is an address that no host has, or a group where the protocol needs one
    /// host.
    Destination,
    /// There is no route to the destination.
    NoRoute,
    /// No packet buffer is free, or too many datagrams are being cut or are on their way to
    /// ourselves.
    NoBuffer,
}

/// The shortest datagram that every link must carry (RFC 791 §3.2), in bytes.
const MTU_MIN: u16 = 68;
/// RFC 1700, and RFC 1122 §3.2.1.7: configurable, and enough to cross the Internet.
const TIME_TO_LIVE: u8 = 64;
/// A quarter of the default pool, so that a flood of echoes leaves buffers for real work.
const OWED_LIMIT: usize = 8;
const EVENTS_LIMIT: usize = 32;

impl Internet {
    /// Makes the layer for a link that carries datagrams of up to `mtu` bytes, with our IPv4
    /// address (0.0.0.0 if there is none yet) and the length in bits of its network's prefix.
    ///
    /// An `mtu` below 68 bytes is taken as 68. Every destination is on the link.
    #[must_use]
    pub fn new(address: Ipv4Addr, prefix_len: u8, mtu: u16) -> Self {
        let mut internet = Self {
            interface: Interface::default(),
            routes: Routes::default(),
            paths: PathMtus::default(),
            mtu: mtu.max(MTU_MIN),
            time_to_live: TIME_TO_LIVE,
            hop_limit: TIME_TO_LIVE,
            reassembler: Reassembler::default(),
            identifications: None,
            owed: VecDeque::new(),
            cuts: VecDeque::new(),
            looped: VecDeque::new(),
            events: VecDeque::new(),
            probes: VecDeque::new(),
            asked_for: BTreeSet::new(),
            limiter: Limiter::default(),
            recent: Recent::default(),
        };
        internet.set_address(address, prefix_len);
        for everywhere in [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()] {
            // The table is empty, and the prefix is of no length.
            _ = internet.routes.add(Route::on_link(everywhere, 0));
        }
        internet
    }

    /// Returns the first of our IPv4 addresses, 0.0.0.0 if there is none yet.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        let mut addresses = self.addresses().as_slice().iter();
        let first = addresses.find_map(|known| match known.address {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(_) => None,
        });
        first.unwrap_or(Ipv4Addr::UNSPECIFIED)
    }

    /// Sets our only IPv4 address and the length in bits of its network's prefix; 0.0.0.0, or
    /// another that no host has, takes it away.
    pub fn set_address(&mut self, address: Ipv4Addr, prefix_len: u8) {
        self.recent = Recent::default();
        let addresses = &mut self.interface.addresses;
        while let Some(old) = addresses.as_slice().iter().find(|known| known.address.is_ipv4()) {
            let old = old.address;
            addresses.remove(old);
        }
        _ = addresses.add(Address::lasting(address.into(), prefix_len.min(32)));
    }

    /// Returns all our addresses.
    #[must_use]
    pub fn addresses(&self) -> &Addresses {
        &self.interface.addresses
    }

    /// Adds an address, or replaces what is known of it.
    ///
    /// # Errors
    ///
    /// If no host can have it, or there are too many.
    pub fn add_address(&mut self, address: Address) -> Result<(), AddError> {
        self.recent = Recent::default();
        self.interface.addresses.add(address)
    }

    /// Removes an address and returns whether it was there.
    pub fn remove_address(&mut self, address: IpAddr) -> bool {
        self.recent = Recent::default();
        self.interface.addresses.remove(address)
    }

    /// Returns the address that we send from to `destination`, unspecified if there is none.
    #[must_use]
    pub fn source_for(&self, destination: IpAddr) -> IpAddr {
        if destination.is_loopback() {
            return destination;
        }
        let none = match destination {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        self.interface.addresses.source_for(destination).unwrap_or(none)
    }

    /// Puts the addresses of a destination into the order in which to try them (RFC 6724 §6).
    pub fn sort_destinations(&self, destinations: &mut [IpAddr]) {
        self.interface.addresses.sort_destinations(destinations);
    }

    /// Returns whether what is sent to `destination` comes back to us without touching the link.
    #[must_use]
    pub fn is_here(&self, destination: IpAddr) -> bool {
        destination.is_loopback() || self.interface.addresses.contains(destination)
    }

    /// Becomes a member of a multicast group, and returns whether we are. Nobody is told: there
    /// is no IGMP and no MLD.
    pub fn join(&mut self, group: IpAddr) -> bool {
        self.interface.join(group)
    }

    /// Ceases to be a member of a multicast group.
    pub fn leave(&mut self, group: IpAddr) {
        self.interface.leave(group);
    }

    /// Returns the routes.
    #[must_use]
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Returns the routes, to change them.
    pub fn routes_mut(&mut self) -> &mut Routes {
        self.recent = Recent::default();
        &mut self.routes
    }

    /// Returns the host on the link to send to for `destination`: itself or a router.
    #[must_use]
    pub fn next_hop(&self, destination: IpAddr) -> Option<IpAddr> {
        self.routes.next_hop(destination)
    }

    /// Returns the bytes of the longest datagram, header and all, that the link carries.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Sets the bytes of the longest datagram that the link carries, no fewer than 68.
    pub fn set_mtu(&mut self, mtu: u16) {
        self.mtu = mtu.max(MTU_MIN);
    }

    /// Returns the bytes of the longest datagram that gets to `destination` in one piece, as far
    /// as is known.
    #[must_use]
    pub fn mtu_to(&self, destination: IpAddr, now: Instant) -> u16 {
        self.path_to(destination, now).mtu
    }

    /// Believes that datagrams to `destination` may have no more than `mtu` bytes (RFC 1191,
    /// RFC 8201), and returns the new path MTU if that lowers it.
    pub fn lower_path_mtu(
        &mut self,
        destination: IpAddr,
        mtu: u16,
        cx: &mut Cx<'_>,
    ) -> Option<u16> {
        let lowered = self.paths.lower(destination, mtu, self.mtu, cx.now)?;
        cx.meter.count(Counter::IpPathMtusLowered);
        Some(lowered)
    }

    /// Sets the time to live of what is sent over IPv4 from now on (RFC 1122 §3.2.1.7 MUST).
    ///
    /// Zero is taken as one: a host MUST NOT send it.
    pub fn set_time_to_live(&mut self, hops: u8) {
        self.time_to_live = hops.max(1);
    }

    /// Sets the hop limit of what is sent over IPv6 from now on (RFC 4861 §6.3.2).
    ///
    /// Zero is taken as one: a host MUST NOT send it.
    pub fn set_hop_limit(&mut self, hops: u8) {
        self.hop_limit = hops.max(1);
    }

    /// Asks for the datagrams of a protocol that is not one of this stack, which
    /// [`Self::receive`] then returns. Returns whether it is not.
    pub fn ask_for(&mut self, protocol: u8) -> bool {
        let is_free = !matches!(protocol, 0 | 1 | 6 | 17 | 43 | 44 | 58 | 59 | 60);
        if is_free {
            self.asked_for.insert(protocol);
        }
        is_free
    }

    /// Ceases to ask for a protocol.
    pub fn stop_asking_for(&mut self, protocol: u8) {
        self.asked_for.remove(&protocol);
    }

    /// Takes a datagram from the link, and returns it if it is for a transport: TCP, UDP, a
    /// protocol that was asked for, or ICMPv6 with a message of Neighbor Discovery whose hop
    /// limit and checksum are right.
    ///
    /// What is not returned has gone back to `pool` or is owed as an answer.
    pub fn receive(
        &mut self,
        packet: Packet,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Datagram> {
        let left = cx.meter.enter(Account::Internet);
        cx.meter.count(Counter::IpDatagramsIn);
        let datagram = self.sort(packet, arrives::Origin::Link, pool, cx);
        cx.meter.enter(left);
        datagram
    }

    /// Returns whether something that we have sent to ourselves waits for
    /// [`Self::receive_looped`].
    #[must_use]
    pub fn has_looped(&self) -> bool {
        !self.looped.is_empty()
    }

    /// Returns whether there is no room for more to ourselves until [`Self::receive_looped`] has
    /// taken something.
    #[must_use]
    pub fn is_loop_full(&self) -> bool {
        self.looped.len() >= departs::LOOPED_MAX
    }

    /// Takes the next datagram that we have sent to ourselves, as [`Self::receive`] does.
    pub fn receive_looped(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Datagram> {
        let packet = self.looped.pop_front()?;
        let left = cx.meter.enter(Account::Internet);
        let datagram = self.sort(packet, arrives::Origin::Here, pool, cx);
        cx.meter.enter(left);
        datagram
    }

    /// Returns whether an answer or a fragment is owed and can be made.
    #[must_use]
    pub fn has_output(&self, pool: &Pool) -> bool {
        !self.owed.is_empty() || self.can_cut(pool)
    }

    /// Returns whether an answer or a fragment is owed, even if it cannot be made now.
    #[must_use]
    pub fn owes_anything(&self) -> bool {
        !self.owed.is_empty() || !self.cuts.is_empty()
    }

    /// Returns the next answer or fragment that is owed, a whole datagram for the link.
    pub fn transmit(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Packet> {
        if let Some((packet, counter)) = self.owed.pop_front() {
            let left = cx.meter.enter(Account::Internet);
            cx.meter.count(counter);
            cx.meter.count(Counter::IpDatagramsOut);
            cx.meter.enter(left);
            return Some(packet);
        }
        if self.cuts.is_empty() {
            return None;
        }
        let left = cx.meter.enter(Account::Internet);
        let fragment = self.next_fragment(pool, cx);
        cx.meter.enter(left);
        fragment
    }

    /// Returns the next news from ICMP.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when to call [`Self::timeout`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let addresses = self.interface.addresses.deadline();
        let deadlines = [self.reassembler.deadline(), addresses, self.routes.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Gives up the fragments, addresses and routes whose time is over.
    pub fn timeout(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) {
        let left = cx.meter.enter(Account::Internet);
        self.recent = Recent::default();
        self.interface.addresses.timeout(cx.now);
        self.routes.timeout(cx.now);
        while self.reassembler.deadline().is_some_and(|deadline| deadline <= cx.now) {
            if let Some(expired) = self.reassembler.timeout(cx) {
                self.report_expired(&expired, pool, cx);
            }
        }
        cx.meter.enter(left);
    }

    fn path_to(&self, destination: IpAddr, now: Instant) -> PathMtu {
        self.paths.get(destination, self.mtu, now)
    }
}

impl Header {
    /// Says what is needed to send: to whom, and what it carries; all else is the station's own.
    #[must_use]
    pub const fn to(destination: IpAddr, protocol: Protocol) -> Self {
        let source = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self { source, destination, protocol, dscp_ecn: 0, hop_limit: 0 }
    }
}

impl From<ipv4::Header> for Header {
    fn from(header: ipv4::Header) -> Self {
        Self {
            source: header.source.into(),
            destination: header.destination.into(),
            protocol: header.protocol,
            dscp_ecn: header.dscp_ecn,
            hop_limit: header.time_to_live,
        }
    }
}

impl Header {
    fn of_v6(header: &ipv6::Header, protocol: Protocol) -> Self {
        Self {
            source: header.source.into(),
            destination: header.destination.into(),
            protocol,
            dscp_ecn: header.dscp_ecn,
            hop_limit: header.hop_limit,
        }
    }
}

/// Returns the sum over the pseudo header that the checksum of a transport covers (RFC 9293
/// §3.1, RFC 8200 §8.1), for `len` bytes of transport header and data.
///
/// Addresses of two families have none; what claims to have them fails its checksum.
#[must_use]
pub fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: Protocol, len: u16) -> Sum {
    let addresses = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Sum::default().bytes(&source.octets()).bytes(&destination.octets())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Sum::default().bytes(&source.octets()).bytes(&destination.octets())
        }
        _ => Sum::default(),
    };
    addresses.word(u16::from(u8::from(protocol))).word(len)
}

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod dual_stack_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
