//! ARP (RFC 826), and claims of IPv4 addresses (RFC 5227).
//!
//! A request for a local address is answered to its sender, and the sender is added to the neighbor
//! cache, because this host is about to send to it (RFC 826, "Packet Reception"). Any other packet
//! only updates an existing entry, if the cache accepts the update. A reply counts as an answer
//! only if it is addressed to this host and the cache has sent a request.
//!
//! An address is *claimed* before it is used: three probes with an unspecified sender address, then
//! two announcements if no host objects. From then on it is *held*. While it is held, a host that
//! also uses it gets an announcement at most once in ten seconds; [`Defense`] selects the action if
//! the other host continues to use it (RFC 5227 §2.4). The state machine is that of
//! `duplicate_detection`, which IPv6 shares. A DHCP client checks the address of a lease by a claim
//! (RFC 2131 §4.4.1).

mod packet;
#[cfg(test)]
mod tests;

pub use super::duplicate_detection::Defense;
pub use packet::{ArpPacket, Operation, PACKET_LEN, PacketError};

use super::duplicate_detection::{Detection, Parameters, Reaction, Step};
use super::neighbor::{Cache, Overwrite};
use crate::cx::Cx;
use crate::link::ethernet::MacAddress;
use crate::meter::Counter;
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

/// The constants of RFC 5227 §1.1.
const PARAMETERS: Parameters = Parameters {
    // PROBE_WAIT
    start_delay_max: Duration::from_secs(1),
    // PROBE_NUM
    probes: 3,
    // PROBE_MIN and PROBE_MAX
    probe_interval: (Duration::from_secs(1), Duration::from_secs(2)),
    // ANNOUNCE_WAIT
    answer_timeout: Duration::from_secs(2),
    // ANNOUNCE_NUM
    announcements: 2,
    // ANNOUNCE_INTERVAL
    announcement_interval: Duration::from_secs(2),
    // DEFEND_INTERVAL
    defense_interval: Some(Duration::from_secs(10)),
};
/// Maximum number of addresses claimed or held; one more is refused.
const CLAIMS_LIMIT: usize = 8;
/// Maximum number of queued answers; one more is dropped.
const ANSWERS_LIMIT: usize = 16;
/// Maximum number of queued packets. Probes and announcements are queued up to this limit, and
/// answers only up to [`ANSWERS_LIMIT`].
const PENDING_LIMIT: usize = 32;
const EVENTS_LIMIT: usize = 16;

/// An event of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// No other host has the address, and it may be used.
    Claimed(Ipv4Addr),
    /// Another host has the address, and it may no longer be used.
    Conflict {
        /// The address.
        address: Ipv4Addr,
        /// The hardware address of the other host.
        mac: MacAddress,
    },
}

/// A packet, and the destination of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The destination of the frame.
    pub destination: MacAddress,
    /// The packet.
    pub packet: ArpPacket,
}

/// The error if no more addresses can be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimError;

/// ARP on one interface.
#[derive(Debug)]
pub struct Arp {
    mac: MacAddress,
    claims: Vec<Claim>,
    pending: VecDeque<Outgoing>,
    events: VecDeque<Event>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    address: Ipv4Addr,
    defense: Defense,
    detection: Detection,
}

impl Arp {
    /// Returns the state of ARP for the interface at `mac`, without an IPv4 address.
    #[must_use]
    pub fn new(mac: MacAddress) -> Self {
        Self { mac, claims: Vec::new(), pending: VecDeque::new(), events: VecDeque::new() }
    }

    /// Starts to check whether an address is free. The result is an [`Event::Claimed`] or
    /// [`Event::Conflict`] after some seconds.
    ///
    /// # Errors
    ///
    /// Returns an error if eight addresses are already claimed or held.
    pub fn claim(
        &mut self,
        address: Ipv4Addr,
        defense: Defense,
        cx: &mut Cx<'_>,
    ) -> Result<(), ClaimError> {
        let detection = Detection::claim(&PARAMETERS, cx);
        self.add(Claim { address, defense, detection })
    }

    /// Holds an address without probing for it, and announces it.
    ///
    /// # Errors
    ///
    /// Returns an error if eight addresses are already claimed or held.
    pub fn hold(
        &mut self,
        address: Ipv4Addr,
        defense: Defense,
        cx: &mut Cx<'_>,
    ) -> Result<(), ClaimError> {
        self.add(Claim { address, defense, detection: Detection::hold(cx) })
    }

    /// Removes an address.
    pub fn release(&mut self, address: Ipv4Addr) {
        self.claims.retain(|claim| claim.address != address);
    }

    /// Returns whether a local address may be used.
    #[must_use]
    pub fn holds(&self, address: Ipv4Addr) -> bool {
        self.claims.iter().any(|claim| claim.address == address && claim.detection.is_ours())
    }

    /// Processes the content of an ARP frame, and updates the cache from it.
    pub fn receive(&mut self, bytes: &[u8], cache: &mut Cache, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::ArpIn);
        let Ok(packet) = ArpPacket::parse(bytes) else {
            return cx.meter.count(Counter::ArpErrors);
        };
        // On an Ethernet segment with a loop, frames return to their sender.
        if packet.sender_mac == self.mac {
            return cx.meter.count(Counter::ArpErrors);
        }
        if self.process_conflict(&packet, cx) {
            return;
        }
        let ArpPacket { operation, sender, sender_mac, .. } = packet;
        let is_host = is_host(sender);
        let is_for_us = self.holds(packet.target);
        if is_for_us && operation == Operation::Request {
            self.answer(&packet, cx);
            if is_host {
                cache.learn(sender.into(), sender_mac, Overwrite::IfUnverified, cx);
            }
        } else if is_for_us && is_host && packet.target_mac == self.mac {
            cache.answer(sender.into(), sender_mac, cx);
        } else if is_host {
            cache.update_existing(sender.into(), sender_mac, Overwrite::IfUnverified, cx);
        }
    }

    /// Queues a request for the hardware address of `target`, with `source` as the sender address.
    /// The request is sent to `to`, or broadcast if `to` is `None`.
    pub fn solicit(
        &mut self,
        source: Ipv4Addr,
        target: Ipv4Addr,
        to: Option<MacAddress>,
        cx: &mut Cx<'_>,
    ) {
        self.enqueue(self.request(source, target, to.unwrap_or(MacAddress::BROADCAST)), cx);
    }

    /// Returns the next packet to be sent.
    pub fn transmit(&mut self, cx: &mut Cx<'_>) -> Option<Outgoing> {
        let outgoing = self.pending.pop_front()?;
        cx.meter.count(Counter::ArpOut);
        Some(outgoing)
    }

    /// Returns whether a packet is queued.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`Self::timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.claims.iter().filter_map(|claim| claim.detection.due()).min()
    }

    /// Sends the probes and announcements that are due.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        let mut claims = core::mem::take(&mut self.claims);
        for claim in &mut claims {
            if claim.detection.due().is_some_and(|due| due <= cx.now) {
                self.advance(claim, cx);
            }
        }
        self.claims = claims;
    }

    fn add(&mut self, claim: Claim) -> Result<(), ClaimError> {
        self.release(claim.address);
        if self.claims.len() >= CLAIMS_LIMIT {
            return Err(ClaimError);
        }
        self.claims.push(claim);
        Ok(())
    }

    fn advance(&mut self, claim: &mut Claim, cx: &mut Cx<'_>) {
        match claim.detection.advance(&PARAMETERS, cx) {
            Some(Step::Probe) => {
                let everybody = MacAddress::BROADCAST;
                self.enqueue(self.request(Ipv4Addr::UNSPECIFIED, claim.address, everybody), cx);
            }
            Some(Step::Acquire) => self.push_event(Event::Claimed(claim.address), cx),
            Some(Step::Announce) => self.announce(claim.address, cx),
            None => {}
        }
    }

    /// Processes a packet from another host that uses a claimed or held address, or probes for a
    /// claimed one. Returns false if `packet` conflicts with no address.
    fn process_conflict(&mut self, packet: &ArpPacket, cx: &mut Cx<'_>) -> bool {
        let Some(index) = self.claims.iter().position(|claim| claim.conflicts_with(packet)) else {
            return false;
        };
        cx.meter.count(Counter::ArpConflicts);
        let Some(claim) = self.claims.get_mut(index) else { return true };
        let address = claim.address;
        match claim.detection.conflict(&PARAMETERS, claim.defense, cx) {
            Reaction::Announce => self.announce(address, cx),
            Reaction::Ignore => {}
            Reaction::GiveUp => {
                self.claims.remove(index);
                self.push_event(Event::Conflict { address, mac: packet.sender_mac }, cx);
            }
        }
        true
    }

    fn answer(&mut self, packet: &ArpPacket, cx: &mut Cx<'_>) {
        if self.pending.len() >= ANSWERS_LIMIT {
            return cx.meter.count(Counter::NeighborAnswersDropped);
        }
        let reply = ArpPacket {
            operation: Operation::Reply,
            sender_mac: self.mac,
            sender: packet.target,
            target_mac: packet.sender_mac,
            target: packet.sender,
        };
        self.pending.push_back(Outgoing { destination: packet.sender_mac, packet: reply });
    }

    fn announce(&mut self, address: Ipv4Addr, cx: &mut Cx<'_>) {
        // RFC 5227 §2.3: an announcement is a request with the same address as sender and target.
        self.enqueue(self.request(address, address, MacAddress::BROADCAST), cx);
    }

    fn request(&self, sender: Ipv4Addr, target: Ipv4Addr, destination: MacAddress) -> Outgoing {
        let packet = ArpPacket {
            operation: Operation::Request,
            sender_mac: self.mac,
            sender,
            target_mac: MacAddress::UNSPECIFIED,
            target,
        };
        Outgoing { destination, packet }
    }

    fn enqueue(&mut self, outgoing: Outgoing, cx: &mut Cx<'_>) {
        if self.pending.len() < PENDING_LIMIT {
            self.pending.push_back(outgoing);
        } else {
            cx.meter.count(Counter::NeighborSolicitationsDropped);
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

impl Claim {
    /// Returns whether `packet` conflicts with the use of this address (RFC 5227 §2.1.1, §2.4).
    /// While this host probes for the address, another host's probe for it is a conflict.
    fn conflicts_with(&self, packet: &ArpPacket) -> bool {
        let is_rival = packet.operation == Operation::Request
            && packet.sender.is_unspecified()
            && packet.target == self.address
            && !self.detection.is_ours();
        packet.sender == self.address || is_rival
    }
}

/// Returns whether the address is a unicast address.
fn is_host(address: Ipv4Addr) -> bool {
    !matches!(address.octets(), [0 | 127 | 224..=255, ..])
}
