//! Status line: echo time, traffic and the limiting factor.

use super::super::session::Traffic;
use crate::carry::CarrierStatus;
use protocols::time::{Duration, Instant};
use records::figures::{count, duration};
use std::collections::VecDeque;

/// Number of recent echoes in the statistics.
const ECHOES_MAX: usize = 256;

/// Update interval.
const EVERY: Duration = Duration::from_secs(1);

/// Number of round trips above which the echo time is attributed to the remote host instead of the
/// network.
const ROUND_TRIPS: u64 = 2;

/// State of the status line.
#[derive(Debug)]
pub(in crate::login) struct StatusLine {
    /// Time at which the key was sent whose echo is outstanding.
    asked_at: Option<Instant>,
    echoes_ns: VecDeque<u64>,
    due: Instant,
    is_asking: bool,
    round_trip_ns: Option<u64>,
    retransmissions: Option<u64>,
    lost_lately: bool,
}

impl StatusLine {
    /// Creates a status line without data.
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

    /// Records that a key was sent.
    pub(in crate::login) fn key(&mut self, now: Instant) {
        self.asked_at.get_or_insert(now);
    }

    /// Records output of the remote host, which is the echo if one is outstanding.
    pub(in crate::login) fn hear(&mut self, now: Instant) {
        let Some(asked_at) = self.asked_at.take() else { return };
        if self.echoes_ns.len() >= ECHOES_MAX {
            self.echoes_ns.pop_front();
        }
        self.echoes_ns.push_back(u64::try_from((now - asked_at).as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns the time of the next request to the carrier.
    pub(in crate::login) fn deadline(&self) -> Instant {
        self.due
    }

    /// Requests the carrier's status if it is due.
    pub(in crate::login) fn tick(&mut self, now: Instant) {
        if now >= self.due {
            self.due = now + EVERY;
            self.is_asking = true;
        }
    }

    /// Returns whether a request to the carrier is pending.
    pub(in crate::login) fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// Processes the status of the carrier.
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

    /// Returns the text of the line, with at most `columns` characters; parts that do not fit are
    /// omitted.
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
        parts.extend(self.retransmissions.map(|again| format!("{} resent", count(again))));
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
        // Nearest-rank percentile.
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied()
    }

    /// Returns the main cause of the echo time.
    fn limit(&self) -> Option<&'static str> {
        if self.lost_lately {
            return Some("loss");
        }
        let (echo, round_trip) = (self.percentile(50)?, self.round_trip_ns?);
        let is_far_side = echo > round_trip.saturating_mul(ROUND_TRIPS);
        Some(if is_far_side { "server" } else { "network" })
    }
}
