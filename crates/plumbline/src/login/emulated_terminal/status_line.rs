//! Status line: echo time, traffic and the limiting factor.

use super::super::session_status::LoginTraffic;
use carrier::CarrierStatus;
use net::time::{Duration, Instant};
use records::format::{count, duration};
use std::collections::VecDeque;

/// Number of recent echoes in the statistics.
const ECHOES_MAX: usize = 256;

/// Update interval.
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// An echo time above this multiple of the round-trip time is attributed to the remote host instead
/// of the network.
const SLOW_SERVER_MIN_ROUND_TRIPS: u64 = 2;

/// State of the status line.
#[derive(Debug)]
pub(in crate::login) struct StatusLine {
    /// Time at which the key with the outstanding echo was sent.
    key_sent_at: Option<Instant>,
    echoes_ns: VecDeque<u64>,
    next_request_at: Instant,
    is_requested: bool,
    round_trip_ns: Option<u64>,
    retransmissions: Option<u64>,
    has_recent_loss: bool,
}

impl StatusLine {
    /// Creates a status line without data.
    pub(in crate::login) fn new(now: Instant) -> Self {
        Self {
            key_sent_at: None,
            echoes_ns: VecDeque::new(),
            next_request_at: now,
            is_requested: false,
            round_trip_ns: None,
            retransmissions: None,
            has_recent_loss: false,
        }
    }

    /// Records that a key was sent.
    pub(in crate::login) fn key_sent(&mut self, now: Instant) {
        self.key_sent_at.get_or_insert(now);
    }

    /// Records output of the remote host. If an echo is outstanding, the output is taken as that
    /// echo.
    pub(in crate::login) fn output_received(&mut self, now: Instant) {
        let Some(key_sent_at) = self.key_sent_at.take() else { return };
        if self.echoes_ns.len() >= ECHOES_MAX {
            self.echoes_ns.pop_front();
        }
        self.echoes_ns.push_back(u64::try_from((now - key_sent_at).as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns the time at which the carrier's status is requested next.
    pub(in crate::login) fn deadline(&self) -> Instant {
        self.next_request_at
    }

    /// Requests the carrier's status if it is due.
    pub(in crate::login) fn request_if_due(&mut self, now: Instant) {
        if now >= self.next_request_at {
            self.next_request_at = now + UPDATE_INTERVAL;
            self.is_requested = true;
        }
    }

    /// Returns whether a request for the carrier's status is pending.
    pub(in crate::login) fn is_requested(&self) -> bool {
        self.is_requested
    }

    /// Processes the status of the carrier.
    pub(in crate::login) fn update(&mut self, status: &CarrierStatus) {
        self.is_requested = false;
        let (round_trip_ns, retransmissions) = match status {
            CarrierStatus::Kernel(info, _) => (
                Some(u64::from(info.round_trip_us) * 1000),
                Some(u64::from(info.total_retransmissions)),
            ),
            CarrierStatus::UserSpace(status) => (
                status.srtt.and_then(|srtt| u64::try_from(srtt.as_nanos()).ok()),
                Some(status.statistics.retransmissions),
            ),
            CarrierStatus::None => (None, None),
        };
        self.has_recent_loss = retransmissions > self.retransmissions.or(Some(0));
        self.round_trip_ns = round_trip_ns;
        self.retransmissions = retransmissions;
    }

    /// Returns the text of the line, with at most `columns` characters; parts that do not fit are
    /// omitted.
    pub(in crate::login) fn text(&self, traffic: &LoginTraffic, columns: u16) -> String {
        let mut parts = Vec::new();
        match (self.percentile(50), self.percentile(99)) {
            (Some(p50), Some(p99)) => {
                parts.push(format!("echo {}", duration(p50)));
                parts.push(format!("p99 {}", duration(p99)));
            }
            _ => parts.push("no echo yet".to_owned()),
        }
        parts.extend(self.limiting_factor().map(|limit| format!("limit: {limit}")));
        parts.extend(self.retransmissions.map(|segments| format!("{} resent", count(segments))));
        parts.push(format!("{} B in", count(traffic.bytes_in)));
        parts.push(format!("{} out", count(traffic.bytes_out)));
        let mut text = String::new();
        for part in parts {
            let addition = if text.is_empty() { format!(" {part}") } else { format!(" | {part}") };
            if text.chars().count() + addition.chars().count() > usize::from(columns) {
                continue;
            }
            text.push_str(&addition);
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
    fn limiting_factor(&self) -> Option<&'static str> {
        if self.has_recent_loss {
            return Some("loss");
        }
        let echo = self.percentile(50)?;
        let round_trip = self.round_trip_ns?;
        let is_server_slow = echo > round_trip.saturating_mul(SLOW_SERVER_MIN_ROUND_TRIPS);
        Some(if is_server_slow { "server" } else { "network" })
    }
}
