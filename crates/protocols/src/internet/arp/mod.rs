//! ARP (RFC 826), and the claim to an IPv4 address (RFC 5227).
//!
//! A request for one of our addresses is answered to who asked, and its sender goes into the
//! neighbor cache, because we are about to speak with it (RFC 826, "Packet Reception"). From
//! everybody else an entry that is there already is brought up to date, as far as the cache
//! believes it, and none is made. A reply counts as an answer only if it is addressed to us and
//! the cache has asked.
//!
//! An address is *claimed* before it is used: three probes with no address of our own in them,
//! two announcements when nobody objects, and from then on it is *held*. While it is held, another
//! host that uses it is told so at most once in ten seconds; what happens to the address when the
//! other goes on is the choice of [`Defence`] (RFC 5227 §2.4).

mod packet;
#[cfg(test)]
mod tests;

pub use packet::{ArpPacket, Operation, PACKET_LEN, PacketError};

use super::neighbor::{Cache, Overwrite};
use crate::cx::Cx;
use crate::link::ethernet::MacAddress;
use crate::meter::Counter;
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

/// PROBE_WAIT (RFC 5227 §1.1).
const PROBE_WAIT: Duration = Duration::from_secs(1);
/// PROBE_NUM (RFC 5227 §1.1).
const PROBE_NUM: u8 = 3;
/// PROBE_MIN and PROBE_MAX (RFC 5227 §1.1).
const PROBE_INTERVAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(2));
/// ANNOUNCE_WAIT (RFC 5227 §1.1).
const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);
/// ANNOUNCE_NUM (RFC 5227 §1.1).
const ANNOUNCE_NUM: u8 = 2;
/// ANNOUNCE_INTERVAL (RFC 5227 §1.1).
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// DEFEND_INTERVAL (RFC 5227 §1.1).
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);
/// Addresses that are claimed or held; one more is refused.
const CLAIMS_LIMIT: usize = 8;
/// Answers that wait to be sent; one more is dropped.
const ANSWERS_LIMIT: usize = 16;
/// Everything that waits to be sent: our own probes and announcements find room behind answers.
const OWED_LIMIT: usize = 32;
const EVENTS_LIMIT: usize = 16;

/// What happens to an address that another host goes on using.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defence {
    /// It is given up (RFC 5227 §2.4 b): it came from a server, which has others.
    GiveUp,
    /// It is kept (RFC 5227 §2.4 c): a person gave it.
    Keep,
}

/// News of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nobody has the address, and it is ours to use.
    Claimed(Ipv4Addr),
    /// Somebody has the address, and it is ours no more.
    Conflict {
        /// The address.
        address: Ipv4Addr,
        /// Who has it.
        mac: MacAddress,
    },
}

/// A packet, and where its frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The destination of the frame.
    pub destination: MacAddress,
    /// The packet.
    pub packet: ArpPacket,
}

/// No more addresses can be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimError;

/// ARP on one interface.
#[derive(Debug)]
pub struct Arp {
    mac: MacAddress,
    claims: Vec<Claim>,
    owed: VecDeque<Outgoing>,
    events: VecDeque<Event>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    address: Ipv4Addr,
    defence: Defence,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// `sent` probes have gone out; what comes next is due then.
    Probing { sent: u8, due: Instant },
    /// The address is ours; `sent` announcements have gone out, and the next is due then.
    Announcing { sent: u8, due: Instant },
    /// The address is ours. Another used it last then, and was told so.
    Held { defended_at: Option<Instant> },
}

impl Arp {
    /// Makes the engine of the interface at `mac`, without an address.
    #[must_use]
    pub fn new(mac: MacAddress) -> Self {
        Self { mac, claims: Vec::new(), owed: VecDeque::new(), events: VecDeque::new() }
    }

    /// Begins to find out whether an address is free; [`Event::Claimed`] or [`Event::Conflict`]
    /// says so after some seconds.
    ///
    /// # Errors
    ///
    /// If there are eight addresses already.
    pub fn claim(
        &mut self,
        address: Ipv4Addr,
        defence: Defence,
        cx: &mut Cx<'_>,
    ) -> Result<(), ClaimError> {
        // RFC 5227 §2.1.1: hosts that start together do not probe together.
        let due = cx.now + random(Duration::ZERO, PROBE_WAIT, cx);
        self.add(Claim { address, defence, state: State::Probing { sent: 0, due } })
    }

    /// Takes an address without asking, and announces it.
    ///
    /// # Errors
    ///
    /// If there are eight addresses already.
    pub fn hold(
        &mut self,
        address: Ipv4Addr,
        defence: Defence,
        cx: &mut Cx<'_>,
    ) -> Result<(), ClaimError> {
        self.add(Claim { address, defence, state: State::Announcing { sent: 0, due: cx.now } })
    }

    /// Forgets an address.
    pub fn release(&mut self, address: Ipv4Addr) {
        self.claims.retain(|claim| claim.address != address);
    }

    /// Returns whether an address is ours to use.
    #[must_use]
    pub fn holds(&self, address: Ipv4Addr) -> bool {
        self.claims.iter().any(|claim| claim.address == address && claim.is_ours())
    }

    /// Takes what an ARP frame carries, and tells the cache what can be learned from it.
    pub fn receive(&mut self, bytes: &[u8], cache: &mut Cache, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::ArpIn);
        let Ok(packet) = ArpPacket::parse(bytes) else {
            return cx.meter.count(Counter::ArpErrors);
        };
        // What we sent ourselves comes back where a segment has a loop.
        if packet.sender_mac == self.mac {
            return cx.meter.count(Counter::ArpErrors);
        }
        if self.is_conflict(&packet, cx) {
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
            cache.hear(sender.into(), sender_mac, Overwrite::IfUnverified, cx);
        }
    }

    /// Asks for a neighbor's address, with `source` as ours: the neighbor alone at `to`, or
    /// everybody.
    pub fn solicit(
        &mut self,
        source: Ipv4Addr,
        target: Ipv4Addr,
        to: Option<MacAddress>,
        cx: &mut Cx<'_>,
    ) {
        self.owe(self.request(source, target, to.unwrap_or(MacAddress::BROADCAST)), cx);
    }

    /// Returns the next packet to be sent.
    pub fn transmit(&mut self, cx: &mut Cx<'_>) -> Option<Outgoing> {
        let outgoing = self.owed.pop_front()?;
        cx.meter.count(Counter::ArpOut);
        Some(outgoing)
    }

    /// Returns whether a packet waits to be sent.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Returns the next news.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`Self::timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.claims.iter().filter_map(Claim::due).min()
    }

    /// Sends the probes and announcements that are due.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        let mut claims = core::mem::take(&mut self.claims);
        for claim in &mut claims {
            if claim.due().is_some_and(|due| due <= cx.now) {
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
        match claim.state {
            State::Probing { sent, .. } if sent < PROBE_NUM => {
                let everybody = MacAddress::BROADCAST;
                self.owe(self.request(Ipv4Addr::UNSPECIFIED, claim.address, everybody), cx);
                let is_last = sent + 1 == PROBE_NUM;
                let (least, most) = PROBE_INTERVAL;
                let wait = if is_last { ANNOUNCE_WAIT } else { random(least, most, cx) };
                claim.state = State::Probing { sent: sent + 1, due: cx.now + wait };
            }
            State::Probing { .. } => {
                self.tell(Event::Claimed(claim.address), cx);
                claim.state = State::Announcing { sent: 0, due: cx.now };
            }
            State::Announcing { sent, .. } if sent < ANNOUNCE_NUM => {
                self.announce(claim.address, cx);
                let (sent, due) = (sent + 1, cx.now + ANNOUNCE_INTERVAL);
                claim.state = if sent < ANNOUNCE_NUM {
                    State::Announcing { sent, due }
                } else {
                    State::Held { defended_at: None }
                };
            }
            State::Announcing { .. } | State::Held { .. } => {}
        }
    }

    /// Deals with a packet from somebody who has one of our addresses, or wants it when we do.
    fn is_conflict(&mut self, packet: &ArpPacket, cx: &mut Cx<'_>) -> bool {
        let Some(place) = self.claims.iter().position(|claim| claim.is_disputed_by(packet)) else {
            return false;
        };
        cx.meter.count(Counter::ArpConflicts);
        let Some(claim) = self.claims.get_mut(place) else { return true };
        let address = claim.address;
        let is_defended_lately = match claim.state {
            State::Probing { .. } => None,
            State::Announcing { .. } => Some(false),
            State::Held { defended_at } => {
                Some(defended_at.is_some_and(|at| cx.now.since(at) < DEFEND_INTERVAL))
            }
        };
        match (is_defended_lately, claim.defence) {
            (Some(false), _) => {
                claim.state = State::Held { defended_at: Some(cx.now) };
                self.announce(address, cx);
            }
            (Some(true), Defence::Keep) => {}
            (None, _) | (Some(true), Defence::GiveUp) => {
                self.claims.remove(place);
                self.tell(Event::Conflict { address, mac: packet.sender_mac }, cx);
            }
        }
        true
    }

    fn answer(&mut self, packet: &ArpPacket, cx: &mut Cx<'_>) {
        if self.owed.len() >= ANSWERS_LIMIT {
            return cx.meter.count(Counter::NeighborAnswersDropped);
        }
        let reply = ArpPacket {
            operation: Operation::Reply,
            sender_mac: self.mac,
            sender: packet.target,
            target_mac: packet.sender_mac,
            target: packet.sender,
        };
        self.owed.push_back(Outgoing { destination: packet.sender_mac, packet: reply });
    }

    fn announce(&mut self, address: Ipv4Addr, cx: &mut Cx<'_>) {
        // RFC 5227 §2.3: a request in which sender and target are the same.
        self.owe(self.request(address, address, MacAddress::BROADCAST), cx);
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

    fn owe(&mut self, outgoing: Outgoing, cx: &mut Cx<'_>) {
        if self.owed.len() < OWED_LIMIT {
            self.owed.push_back(outgoing);
        } else {
            cx.meter.count(Counter::NeighborSolicitationsDropped);
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

impl Claim {
    fn is_ours(&self) -> bool {
        !matches!(self.state, State::Probing { .. })
    }

    fn due(&self) -> Option<Instant> {
        match self.state {
            State::Probing { due, .. } | State::Announcing { due, .. } => Some(due),
            State::Held { .. } => None,
        }
    }

    /// RFC 5227 §2.1.1 and §2.4. While we probe, one who probes for the same address is a rival.
    fn is_disputed_by(&self, packet: &ArpPacket) -> bool {
        let is_rival = packet.operation == Operation::Request
            && packet.sender.is_unspecified()
            && packet.target == self.address
            && !self.is_ours();
        packet.sender == self.address || is_rival
    }
}

/// Returns whether one host can have the address.
fn is_host(address: Ipv4Addr) -> bool {
    !matches!(address.octets(), [0 | 127 | 224..=255, ..])
}

fn random(least: Duration, most: Duration, cx: &mut Cx<'_>) -> Duration {
    let span = u64::try_from(most.saturating_sub(least).as_nanos()).unwrap_or(u64::MAX);
    least + Duration::from_nanos(cx.chance.below(span.saturating_add(1)))
}
