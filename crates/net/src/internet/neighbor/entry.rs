//! An entry of the neighbor cache: the state of one neighbor, and its rank for eviction.

use crate::link::ethernet::MacAddress;
use crate::packet::Packet;
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;

/// Number of packets sent to a neighbor after which its entry counts as established. A flood of
/// packets, each with another forged source, establishes no entry.
const ESTABLISHED_PACKETS: u32 = 8;
/// An established entry that was used within this time is never evicted.
const IN_USE_PERIOD: Duration = Duration::from_secs(5);

/// The states of a neighbor (RFC 4861 §7.3.2).
#[derive(Debug)]
pub(super) enum State {
    /// The address is unknown; `sent` solicitations have been sent.
    Incomplete { waiting: VecDeque<Packet>, sent: u8 },
    /// The address is verified, and valid until `valid_until`.
    Reachable { mac: MacAddress, valid_until: Instant },
    /// The address has not been verified recently; no action until a packet is sent.
    Stale { mac: MacAddress },
    /// A packet was sent to an address that was not verified recently. The address is probed after
    /// a delay, unless a higher layer reports before that the packet has arrived.
    Delay { mac: MacAddress },
    /// The address is being verified; `sent` solicitations have been sent.
    Probe { mac: MacAddress, sent: u8 },
}

/// A neighbor.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) state: State,
    pub(super) is_router: bool,
    /// Time at which a packet was last sent to the neighbor.
    pub(super) used_at: Option<Instant>,
    /// Number of packets sent to the neighbor.
    pub(super) packets_sent: u32,
    /// Time of the next transition of the neighbor's state.
    pub(super) timer: Option<Instant>,
}

impl Entry {
    pub(super) fn new(state: State) -> Self {
        Self { state, is_router: false, used_at: None, packets_sent: 0, timer: None }
    }

    pub(super) fn mac(&self) -> Option<MacAddress> {
        match self.state {
            State::Incomplete { .. } => None,
            State::Reachable { mac, .. }
            | State::Stale { mac }
            | State::Delay { mac }
            | State::Probe { mac, .. } => Some(mac),
        }
    }

    /// Returns whether the neighbor's address was recently confirmed, or its confirmation is in
    /// progress.
    pub(super) fn is_verified(&self, now: Instant) -> bool {
        match self.state {
            State::Reachable { valid_until, .. } => now < valid_until,
            State::Delay { .. } | State::Probe { .. } => true,
            State::Incomplete { .. } | State::Stale { .. } => false,
        }
    }

    /// Returns whether the entry can be evicted to make space.
    pub(super) fn is_evictable(&self, now: Instant) -> bool {
        let is_in_use = self.used_at.is_some_and(|at| now.since(at) < IN_USE_PERIOD);
        let is_incomplete = matches!(self.state, State::Incomplete { .. });
        !(is_incomplete || self.is_established() && is_in_use)
    }

    /// Returns the sort key for eviction: the least valuable entry first.
    pub(super) fn eviction_rank(&self) -> (bool, Option<Instant>) {
        (self.is_established(), self.used_at)
    }

    pub(super) fn into_waiting(self) -> VecDeque<Packet> {
        match self.state {
            State::Incomplete { waiting, .. } => waiting,
            _ => VecDeque::new(),
        }
    }

    fn is_established(&self) -> bool {
        self.packets_sent >= ESTABLISHED_PACKETS
    }
}
