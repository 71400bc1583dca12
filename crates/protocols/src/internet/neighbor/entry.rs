//! One neighbor, and what its entry is worth when another wants its place.

use super::IN_USE;
use crate::link::ethernet::MacAddress;
use crate::packet::Packet;
use crate::time::Instant;
use alloc::collections::VecDeque;

/// Packets after which a neighbor is established: a sender of single packets with many forged
/// sources makes none.
const ESTABLISHED_USES: u32 = 8;

/// What is known of a neighbor (RFC 4861 §7.3.2).
#[derive(Debug)]
pub(super) enum State {
    /// Nothing yet; it was asked `sent` times.
    Incomplete { waiting: VecDeque<Packet>, sent: u8 },
    /// Its address, verified, and worth believing until then.
    Reachable { mac: MacAddress, until: Instant },
    /// Its address, which nobody has verified lately; nothing is done until something is sent.
    Stale { mac: MacAddress },
    /// Its address; something was sent, and those above may say soon whether it arrived.
    Delay { mac: MacAddress },
    /// Its address, which is being verified; the neighbor was asked `sent` times.
    Probe { mac: MacAddress, sent: u8 },
}

/// A neighbor.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) state: State,
    pub(super) is_router: bool,
    /// When something was last sent to it.
    pub(super) used_at: Option<Instant>,
    /// How many packets were sent to it.
    pub(super) uses: u32,
    /// When its state wants to go on.
    pub(super) timer: Option<Instant>,
}

impl Entry {
    pub(super) fn new(state: State) -> Self {
        Self { state, is_router: false, used_at: None, uses: 0, timer: None }
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

    /// Returns whether the neighbor itself has shown its address, and not too long ago to be
    /// believed, or is being asked to.
    pub(super) fn is_verified(&self, now: Instant) -> bool {
        match self.state {
            State::Reachable { until, .. } => now < until,
            State::Delay { .. } | State::Probe { .. } => true,
            State::Incomplete { .. } | State::Stale { .. } => false,
        }
    }

    /// Returns whether the entry can be forgotten for another one.
    pub(super) fn may_give_way(&self, now: Instant) -> bool {
        let is_in_use = self.used_at.is_some_and(|at| now.since(at) < IN_USE);
        let is_incomplete = matches!(self.state, State::Incomplete { .. });
        !(is_incomplete || self.is_established() && is_in_use)
    }

    /// Returns what orders the entries by how much would be lost with them.
    pub(super) fn worth(&self) -> (bool, Option<Instant>) {
        (self.is_established(), self.used_at)
    }

    pub(super) fn into_waiting(self) -> VecDeque<Packet> {
        match self.state {
            State::Incomplete { waiting, .. } => waiting,
            _ => VecDeque::new(),
        }
    }

    fn is_established(&self) -> bool {
        self.uses >= ESTABLISHED_USES
    }
}
