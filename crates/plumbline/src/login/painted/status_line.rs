//! The line of status: how long an echo takes, what was carried, and what limits.

use super::super::session::Traffic;
use crate::carry::CarrierStatus;
use protocols::time::{Duration, Instant};
use records::figures::{count, duration};
use std::collections::VecDeque;

/// How many echoes are looked at.
const ECHOES_MAX: usize = 256;

/// How often the line is written anew.
const EVERY: Duration = Duration::from_secs(1);

/// An echo that takes so many round trips is not held up by the network.
const ROUND_TRIPS: u64 = 2;

/// What is known for the line of status.
#[derive(Debug)]
pub(in crate::login) struct StatusLine {
    /// When the key went out whose echo has not come.
    asked_at: Option<Instant>,
    echoes_ns: VecDeque<u64>,
    due: Instant,
    is_asking: bool,
    round_trip_ns: Option<u64>,
    retransmissions: Option<u64>,
    lost_lately: bool,
}

impl StatusLine {
    /// Begins with nothing known.
    pub(in crate::login) fn new(now: Instant) -> Self {
        Self {
            asked_at: None,
            echoes_ns: VecDeque::new(),
            due: now,
            is_asking: false,
            round_trip_ns: None,
            retransmissions: None,
            lost_lately: false,
        }
    }

    /// Takes note that a key has gone out.
    pub(in crate::login) fn key(&mut self, now: Instant) {
        self.asked_at.get_or_insert(now);
    }

    /// Takes note that the far side has written something: the echo, if one is awaited.
    pub(in crate::login) fn hear(&mut self, now: Instant) {
        let Some(asked_at) = self.asked_at.take() else { return };
        if self.echoes_ns.len() >= ECHOES_MAX {
            self.echoes_ns.pop_front();
        }
        self.echoes_ns.push_back(u64::try_from((now - asked_at).as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns when it wants to ask the carrier again.
    pub(in crate::login) fn deadline(&self) -> Instant {
        self.due
    }

    /// Asks the carrier again, if it is time.
    pub(in crate::login) fn tick(&mut self, now: Instant) {
        if now >= self.due {
            self.due = now + EVERY;
            self.is_asking = true;
        }
    }

    /// Returns whether the carrier is asked.
    pub(in crate::login) fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// Takes what the carrier knows.
    pub(in crate::login) fn take(&mut self, status: &CarrierStatus) {
        self.is_asking = false;
        let (round_trip_ns, retransmissions) = match status {
            CarrierStatus::Kernel(info, _) => (
                Some(u64::from(info.round_trip_us) * 1000),
                Some(u64::from(info.total_retransmissions)),
            ),
            CarrierStatus::Own(status) => (
                status.srtt.and_then(|srtt| u64::try_from(srtt.as_nanos()).ok()),
                Some(status.statistics.retransmissions),
            ),
            CarrierStatus::None => (None, None),
        };
        self.lost_lately = retransmissions > self.retransmissions.or(Some(0));
        self.round_trip_ns = round_trip_ns;
        self.retransmissions = retransmissions;
    }

    /// Returns the line, of at most `columns`: what has no room is left out.
    pub(in crate::login) fn text(&self, traffic: &Traffic, columns: u16) -> String {
        let mut parts = Vec::new();
        match (self.percentile(50), self.percentile(99)) {
            (Some(half), Some(most)) => {
                parts.push(format!("echo {}", duration(half)));
                parts.push(format!("p99 {}", duration(most)));
            }
            _ => parts.push("no echo yet".to_owned()),
        }
        parts.extend(self.limit().map(|limit| format!("limit: {limit}")));
        parts.extend(self.retransmissions.map(|again| format!("{} sent again", count(again))));
        parts.push(format!("{} B in", count(traffic.bytes_in)));
        parts.push(format!("{} out", count(traffic.bytes_out)));
        let mut text = String::new();
        for part in parts {
            let added = if text.is_empty() { format!(" {part}") } else { format!(" | {part}") };
            if text.chars().count() + added.chars().count() > usize::from(columns) {
                continue;
            }
            text.push_str(&added);
        }
        text
    }

    fn percentile(&self, percent: usize) -> Option<u64> {
        let mut sorted: Vec<_> = self.echoes_ns.iter().copied().collect();
        sorted.sort_unstable();
        // The nearest rank.
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied()
    }

    /// Returns what an echo waits for most.
    fn limit(&self) -> Option<&'static str> {
        if self.lost_lately {
            return Some("loss");
        }
        let (echo, round_trip) = (self.percentile(50)?, self.round_trip_ns?);
        let is_far_side = echo > round_trip.saturating_mul(ROUND_TRIPS);
        Some(if is_far_side { "far side" } else { "network" })
    }
}
