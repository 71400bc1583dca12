//! The Internet layer: IPv4 and IPv6 with their ICMP, for a host with one link.
//!
//! A host has addresses of both families, and this description applies to both. A datagram from the
//! link is parsed once (`arrives.rs`). If it is damaged, not for this host or from an invalid
//! source, it is counted and dropped. A fragment is stored until its datagram is complete. ICMP is
//! processed here (`icmp_processing.rs`). Any other datagram is returned for a transport, without
//! its headers and without the padding of the link. TCP receives only datagrams to a local address.
//! The other transports also receive datagrams to broadcast addresses and joined groups.
//!
//! Output (`output.rs`) adds the header. The source is the best local address, unless the transport
//! has chosen one. A datagram longer than the path MTU is fragmented, except for TCP, which fits
//! its segments to the path (RFC 8900). A datagram to a local address is looped back without the
//! link.
//!
//! Echo replies and errors are made in the buffer of the datagram that they answer. They are
//! *pending* until the station's output step collects them with [`Internet::transmit`]. The queue
//! is short. If it overflows, a randomly selected answer is dropped. If the last one were always
//! dropped, a sender could learn whether the datagrams before its own were answered.
//!
//! Errors obey RFC 1122 §3.2.2 and RFC 4443 §2.4. No error is sent about another error, about a
//! fragment other than the first, about a datagram to more than one host, or to a source that is
//! not a unicast address. The rate of errors is limited per destination.
//!
//! A point-to-point link needs no routes: its other end is the next hop of every destination that
//! is not local. A new [`Internet`] assumes such a link until [`Internet::routes_mut`] is called.

pub mod addresses;
pub mod arp;
mod arrives;
mod datagram;
mod duplicate_detection;
pub mod icmp;
mod icmp_processing;
pub mod icmpv6;
mod identification;
mod interface;
pub mod ipv4;
pub mod ipv6;
mod limit;
pub mod nd;
pub mod neighbor;
mod output;
pub mod path_mtu;
mod queues;
pub mod reassembly;
pub mod routes;
pub mod slaac;
mod source_errors;

pub use datagram::{Datagram, Header, SendError, pseudo_header};
pub use queues::Event;
pub use source_errors::SourceErrors;

use crate::cx::Cx;
use crate::meter::{Account, Counter};
use crate::packet::{Packet, Pool};
use crate::time::Instant;
use addresses::{AddError, Address, Addresses};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use datagram::Origin;
use identification::Identifications;
use interface::Interface;
use limit::Limiter;
use path_mtu::{PathMtu, PathMtus};
use queues::{FragmentedDatagram, LOOPED_MAX, Probe};
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
    /// Allocated when the first datagram is fragmented.
    identifications: Option<Identifications>,
    /// Complete datagrams for the link, at most [`queues::PENDING_LIMIT`]. Each is stored with the
    /// counter to increment when it is sent.
    pending: VecDeque<(Packet, Counter)>,
    /// Datagrams that are sent in fragments, at most [`queues::FRAGMENTED_MAX`].
    fragmented_datagrams: VecDeque<FragmentedDatagram>,
    /// Looped-back datagrams, at most [`queues::LOOPED_MAX`].
    looped: VecDeque<Packet>,
    /// Events for the layers above, at most [`queues::EVENTS_LIMIT`].
    events: VecDeque<Event>,
    /// Unanswered echo requests, the oldest first, at most [`queues::PROBES_LIMIT`].
    probes: VecDeque<Probe>,
    /// Protocols registered by an application.
    registered_protocols: BTreeSet<u8>,
    limiter: Limiter,
    source_errors: SourceErrors,
    recent: Recent,
}

/// Source and destination of the last datagram that passed the checks. The next datagram usually
/// has the same addresses and then needs no checks. The addresses are cleared whenever local
/// addresses or routes may have changed.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    /// Source and destination of the last datagram received for TCP.
    last_received: Option<(IpAddr, IpAddr)>,
    /// Source and destination of the last datagram that was sent unfragmented to a unicast address.
    last_sent: Option<(IpAddr, IpAddr)>,
}

/// Minimum MTU of every link (RFC 791 §3.2), in bytes.
const MTU_MIN: u16 = 68;
/// Default time to live (RFC 1700). RFC 1122 §3.2.1.7: it must be configurable, and large enough to
/// cross the Internet.
const TIME_TO_LIVE: u8 = 64;
impl Internet {
    /// Returns the layer for a link that carries datagrams of up to `mtu` bytes. `address` is the
    /// local IPv4 address, or 0.0.0.0 if there is none yet. `prefix_len` is the length of its
    /// network's prefix, in bits.
    ///
    /// An `mtu` below 68 bytes is raised to 68. All destinations are on the link.
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
            pending: VecDeque::new(),
            fragmented_datagrams: VecDeque::new(),
            looped: VecDeque::new(),
            events: VecDeque::new(),
            probes: VecDeque::new(),
            registered_protocols: BTreeSet::new(),
            limiter: Limiter::default(),
            source_errors: SourceErrors::default(),
            recent: Recent::default(),
        };
        internet.set_address(address, prefix_len);
        for everywhere in [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()] {
            // Cannot fail: the table is empty, and a prefix length of zero is valid.
            _ = internet.routes.add(Route::on_link(everywhere, 0));
        }
        internet
    }

    /// Returns the first local IPv4 address, or 0.0.0.0 if there is none yet.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        let mut addresses = self.addresses().as_slice().iter();
        let first = addresses.find_map(|known| match known.address {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(_) => None,
        });
        first.unwrap_or(Ipv4Addr::UNSPECIFIED)
    }

    /// Sets the only local IPv4 address, and the length in bits of its network's prefix. An invalid
    /// address, such as 0.0.0.0, removes the local address.
    pub fn set_address(&mut self, address: Ipv4Addr, prefix_len: u8) {
        self.recent = Recent::default();
        let addresses = &mut self.interface.addresses;
        while let Some(old) = addresses.as_slice().iter().find(|known| known.address.is_ipv4()) {
            let old = old.address;
            addresses.remove(old);
        }
        _ = addresses.add(Address::permanent(address.into(), prefix_len.min(32)));
    }

    /// Sets whether this host is transparent: it accepts datagrams for the unicast addresses of other hosts,
    /// and sends from these addresses. It accepts only datagrams whose source is in one of
    /// `networks`, each given by a prefix and its length in bits. A gateway that ends the
    /// connections of its guests is transparent. The application receives echo requests for other
    /// hosts. Without networks, the host is not transparent.
    pub fn set_transparent_for(&mut self, networks: Option<Vec<(IpAddr, u8)>>) {
        self.recent = Recent::default();
        self.interface.transparent_for = networks;
    }

    /// Returns whether this host is transparent.
    #[must_use]
    pub fn is_transparent(&self) -> bool {
        self.interface.transparent_for.is_some()
    }

    /// Returns the numbers of datagrams that were dropped because of their source.
    #[must_use]
    pub fn source_errors(&self) -> SourceErrors {
        self.source_errors
    }

    /// Returns whether this host receives datagrams for `address` and may send from it.
    fn acts_for(&self, address: IpAddr) -> bool {
        self.is_local(address) || self.interface.is_transparent_for(address)
    }

    /// Returns all local addresses.
    #[must_use]
    pub fn addresses(&self) -> &Addresses {
        &self.interface.addresses
    }

    /// Adds an address, or replaces the existing entry.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is invalid or if the limit is reached.
    pub fn add_address(&mut self, address: Address) -> Result<(), AddError> {
        self.recent = Recent::default();
        self.interface.addresses.add(address)
    }

    /// Removes an address, and returns whether the host had it.
    pub fn remove_address(&mut self, address: IpAddr) -> bool {
        self.recent = Recent::default();
        self.interface.addresses.remove(address)
    }

    /// Returns the source address for `destination`, or the unspecified address if there is none.
    #[must_use]
    pub fn source_for(&self, destination: IpAddr) -> IpAddr {
        if destination.is_loopback() {
            return destination;
        }
        let unspecified = match destination {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        self.interface.addresses.source_for(destination).unwrap_or(unspecified)
    }

    /// Sorts the addresses of a destination into the order in which to try them (RFC 6724 §6).
    pub fn sort_destinations(&self, destinations: &mut [IpAddr]) {
        self.interface.addresses.sort_destinations(destinations);
    }

    /// Returns whether a datagram to `destination` is looped back without the link.
    #[must_use]
    pub fn is_local(&self, destination: IpAddr) -> bool {
        destination.is_loopback() || self.interface.addresses.contains(destination)
    }

    /// Joins a multicast group, and returns whether the host is a member. No report is sent: there
    /// is no IGMP and no MLD.
    pub fn join(&mut self, group: IpAddr) -> bool {
        self.interface.join(group)
    }

    /// Leaves a multicast group.
    pub fn leave(&mut self, group: IpAddr) {
        self.interface.leave(group);
    }

    /// Returns the routes.
    #[must_use]
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Returns the routes for modification.
    pub fn routes_mut(&mut self) -> &mut Routes {
        self.recent = Recent::default();
        &mut self.routes
    }

    /// Returns the next hop for `destination`: the destination itself or a router.
    #[must_use]
    pub fn next_hop(&self, destination: IpAddr) -> Option<IpAddr> {
        self.routes.next_hop(destination)
    }

    /// Returns the MTU of the link: the length of the longest datagram with its header, in bytes.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Sets the MTU of the link, in bytes. A value below 68 is raised to 68.
    pub fn set_mtu(&mut self, mtu: u16) {
        self.mtu = mtu.max(MTU_MIN);
    }

    /// Returns the known path MTU to `destination`: the length in bytes of the longest datagram
    /// that arrives unfragmented.
    #[must_use]
    pub fn mtu_to(&self, destination: IpAddr, now: Instant) -> u16 {
        self.path_to(destination, now).mtu
    }

    /// Limits datagrams to `destination` to `mtu` bytes (RFC 1191, RFC 8201). Returns the new path
    /// MTU, or `None` if it has not changed.
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

    /// Sets the time to live of IPv4 output from now on (RFC 1122 §3.2.1.7 MUST).
    ///
    /// Zero is raised to one: a host MUST NOT send zero.
    pub fn set_time_to_live(&mut self, hops: u8) {
        self.time_to_live = hops.max(1);
    }

    /// Sets the hop limit of IPv6 output from now on (RFC 4861 §6.3.2).
    ///
    /// Zero is raised to one: a host MUST NOT send zero.
    pub fn set_hop_limit(&mut self, hops: u8) {
        self.hop_limit = hops.max(1);
    }

    /// Registers for the datagrams of a protocol that this stack does not implement.
    /// [`Self::receive`] then returns these datagrams. Returns false if the stack implements the
    /// protocol.
    pub fn register_protocol(&mut self, protocol: u8) -> bool {
        let is_free = !matches!(protocol, 0 | 1 | 6 | 17 | 43 | 44 | 58 | 59 | 60);
        if is_free {
            self.registered_protocols.insert(protocol);
        }
        is_free
    }

    /// Ends the registration for a protocol.
    pub fn unregister_protocol(&mut self, protocol: u8) {
        self.registered_protocols.remove(&protocol);
    }

    /// Processes a datagram from the link, and returns it if it is for a transport: TCP, UDP, a
    /// registered protocol, or ICMPv6 with a message of Neighbor Discovery whose hop limit and
    /// checksum are correct.
    ///
    /// A packet that is not returned has been returned to `pool` or is queued as an answer.
    pub fn receive(
        &mut self,
        packet: Packet,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Datagram> {
        let caller = cx.meter.enter(Account::Internet);
        cx.meter.count(Counter::IpDatagramsIn);
        let datagram = self.process_datagram(packet, Origin::Link, pool, cx);
        cx.meter.enter(caller);
        datagram
    }

    /// Returns whether a looped-back datagram waits for [`Self::receive_looped`].
    #[must_use]
    pub fn has_looped(&self) -> bool {
        !self.looped.is_empty()
    }

    /// Returns whether the loopback queue is full. [`Self::receive_looped`] removes a datagram from
    /// it.
    #[must_use]
    pub fn is_loop_full(&self) -> bool {
        self.looped.len() >= LOOPED_MAX
    }

    /// Processes the next looped-back datagram, as [`Self::receive`] does.
    pub fn receive_looped(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Datagram> {
        let packet = self.looped.pop_front()?;
        let caller = cx.meter.enter(Account::Internet);
        let datagram = self.process_datagram(packet, Origin::Loopback, pool, cx);
        cx.meter.enter(caller);
        datagram
    }

    /// Returns whether [`Self::transmit`] can return an answer or a fragment now. A fragment also
    /// needs a free packet.
    #[must_use]
    pub fn has_output(&self, pool: &Pool) -> bool {
        !self.pending.is_empty() || self.can_fragment(pool)
    }

    /// Returns whether an answer or a fragment is pending, even if no packet is free for the
    /// fragment.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty() || !self.fragmented_datagrams.is_empty()
    }

    /// Returns the next pending answer or fragment as a complete datagram for the link.
    pub fn transmit(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Packet> {
        if let Some((packet, counter)) = self.pending.pop_front() {
            let caller = cx.meter.enter(Account::Internet);
            cx.meter.count(counter);
            cx.meter.count(Counter::IpDatagramsOut);
            cx.meter.enter(caller);
            return Some(packet);
        }
        if self.fragmented_datagrams.is_empty() {
            return None;
        }
        let caller = cx.meter.enter(Account::Internet);
        let fragment = self.next_fragment(pool, cx);
        cx.meter.enter(caller);
        fragment
    }

    /// Returns the next event.
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

    /// Drops the fragments, addresses and routes whose lifetime has expired.
    pub fn timeout(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) {
        let caller = cx.meter.enter(Account::Internet);
        self.recent = Recent::default();
        self.interface.addresses.timeout(cx.now);
        self.routes.timeout(cx.now);
        while self.reassembler.deadline().is_some_and(|deadline| deadline <= cx.now) {
            if let Some(expired) = self.reassembler.timeout(cx) {
                self.report_expired(&expired, pool, cx);
            }
        }
        cx.meter.enter(caller);
    }

    fn path_to(&self, destination: IpAddr, now: Instant) -> PathMtu {
        self.paths.get(destination, self.mtu, now)
    }
}

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod dual_stack_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod transparent_tests;
