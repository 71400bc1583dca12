//! Limits the receive window of TCP connections to the queue of their line (TM-233 §6.3.3).
//!
//! The thesis states two problems. A window in bytes does not express how many small packets a
//! receiver can buffer, and TCP of 1982 had no congestion control, so a fast host overruns the
//! queue in front of a slow line. The thesis rejects a small window in the personal computer: "Why
//! should the window size of the personal computer TCP depend on the number of buffers in the
//! packet concentrator?" Here the router, which knows its queue, lowers the window in the segments
//! that pass from the slow host to the fast one. Neither host is changed.
//!
//! The limit is the data that the line sends during a time that CoDel permits, plus the round-trip
//! time to the fast host, divided by the number of flows of the line. It is at least two packets:
//! with less, the slow host would delay its acknowledgments. The time is the target of CoDel. A
//! connection that has not filled its queue for longer than the target may use the interval of
//! CoDel, so that a short answer, such as a screenful, waits for no acknowledgment. Since the queue
//! counts packets and headers, the limit is converted to data by the fraction of data in the packets
//! of the connection: with one byte per packet, the limit is one 41st.
//!
//! A window is never raised. The right edge that was once passed on is never withdrawn: RFC 9293
//! §3.8.6 says that a receiver SHOULD NOT shrink the window, and that a sender MUST be robust
//! against it. If the limit falls, the window follows as the data arrives. The only exception is a
//! host that shrinks its window itself. The window is never lowered to zero, so the limit starts no
//! persist timer.
//!
//! The scale of the window is known only from both SYN segments (RFC 7323 §2.3). A connection whose
//! SYN segments did not pass, or whose repeated SYN differs from the first, is not changed.
//! Connections with TCP-MD5 (RFC 2385) or TCP-AO (RFC 5925) are not changed either, because their
//! digest covers the window.

use super::tcp_segment::TcpSegment;
use crate::queue::CodelTimes;
use net::time::{Duration, Instant};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Maximum number of connections of a line. A new one replaces the one unused for longest.
const CONNECTIONS_MAX: usize = 256;
/// Minimum limit, in packets of the connection.
const PACKETS_MIN: usize = 2;
/// Number of packets after which the sums of the data fraction are halved.
const RECENT_PACKETS: usize = 16;
/// Longest scale (RFC 7323 §2.3).
const SHIFT_MAX: u8 = 14;
/// A longer time between the segments of the handshake is not a round-trip time.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(3);

/// The state of the queue that the windows are limited to.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueState {
    /// Rate of the line in bytes per second.
    pub(super) bytes_per_second: u64,
    /// Queue delay that is acceptable, and the time for which it may be exceeded.
    pub(super) codel_times: CodelTimes,
    /// Number of flows with queued packets.
    pub(super) active_flows: usize,
    /// Maximum number of packets in the queue.
    pub(super) packets_max: usize,
}

/// Connections of the host at one line.
#[derive(Debug, Default)]
pub(super) struct WindowLimit {
    connections: BTreeMap<Ends, Connection>,
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ends {
    /// The host at the line.
    slow: SocketAddr,
    /// The other host.
    fast: SocketAddr,
}

/// The window scale option of the SYN of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SynOption {
    #[default]
    NotSeen,
    /// The SYN has no window scale option.
    Absent,
    Shift(u8),
    /// Two SYN segments differ, or the digest of the segments covers the window.
    Unusable,
}

#[derive(Debug, Default)]
struct Connection {
    slow: SynOption,
    fast: SynOption,
    /// Highest sequence number up to which the fast host may send.
    right_edge: Option<u32>,
    /// Highest sequence number after a segment of the fast host.
    sent_edge: Option<u32>,
    /// Time since which more data was in flight than the line sends during the target of CoDel.
    busy_since: Option<Instant>,
    recent: RecentPackets,
    /// Time at which the last handshake segment was passed to the fast host, until it answers.
    asked_at: Option<Instant>,
    /// Round-trip time between the router and the fast host, from the handshake.
    round_trip: Duration,
    used_at: Instant,
}

/// The recent packets to the slow host.
#[derive(Clone, Copy, Debug, Default)]
struct RecentPackets {
    count: usize,
    data_bytes: usize,
    total_bytes: usize,
    longest_data: usize,
}

impl WindowLimit {
    /// Observes a segment to the host at the line.
    pub(super) fn observe(&mut self, segment: &TcpSegment, now: Instant) {
        let ends = Ends { slow: segment.destination, fast: segment.source };
        if segment.is_reset {
            self.connections.remove(&ends);
            return;
        }
        let Some(connection) = self.connection(ends, segment.is_syn, now) else { return };
        if segment.is_syn {
            connection.fast = connection.fast.after(segment);
        }
        if let Some(asked_at) = connection.asked_at.take() {
            let round_trip = now.since(asked_at);
            connection.round_trip = round_trip.min(ROUND_TRIP_MAX);
        }
        let is_further = connection.sent_edge.is_none_or(|edge| distance(edge, segment.end) > 0);
        if is_further {
            connection.sent_edge = Some(segment.end);
        }
        connection.recent.add(segment);
    }

    /// Returns the window field that replaces that of a segment from the host at the line, or
    /// `None` if the segment is passed on unchanged.
    pub(super) fn limited_field(
        &mut self,
        segment: &TcpSegment,
        queue: QueueState,
        now: Instant,
    ) -> Option<u16> {
        let ends = Ends { slow: segment.source, fast: segment.destination };
        if segment.is_reset {
            self.connections.remove(&ends);
            return None;
        }
        let connection = self.connection(ends, segment.is_syn, now)?;
        if segment.is_syn {
            connection.slow = connection.slow.after(segment);
            connection.asked_at = Some(now);
        }
        connection.lower(segment, queue, now)
    }

    /// Returns the connection. A SYN creates it.
    fn connection(&mut self, ends: Ends, creates: bool, now: Instant) -> Option<&mut Connection> {
        if creates && !self.connections.contains_key(&ends) {
            if self.connections.len() >= CONNECTIONS_MAX {
                self.forget_oldest();
            }
            self.connections.insert(ends, Connection::default());
        }
        let connection = self.connections.get_mut(&ends)?;
        connection.used_at = now;
        Some(connection)
    }

    fn forget_oldest(&mut self) {
        let oldest = self.connections.iter().min_by_key(|(_, connection)| connection.used_at);
        if let Some(ends) = oldest.map(|(ends, _)| *ends) {
            self.connections.remove(&ends);
        }
    }
}

impl SynOption {
    fn after(self, segment: &TcpSegment) -> Self {
        let new = match segment.window_shift {
            _ if segment.has_digest => Self::Unusable,
            None => Self::Absent,
            Some(shift) => Self::Shift(shift.min(SHIFT_MAX)),
        };
        if self == Self::NotSeen || self == new { new } else { Self::Unusable }
    }
}

impl RecentPackets {
    fn add(&mut self, segment: &TcpSegment) {
        if segment.data_len == 0 {
            return;
        }
        if self.count >= RECENT_PACKETS {
            self.count /= 2;
            self.data_bytes /= 2;
            self.total_bytes /= 2;
        }
        self.count += 1;
        self.data_bytes += segment.data_len;
        self.total_bytes += segment.total_len;
        self.longest_data = self.longest_data.max(segment.data_len);
    }

    /// Returns the data in `bytes` of packets.
    fn data_in_bytes(&self, bytes: u64) -> u64 {
        let data = bytes.saturating_mul(self.data_bytes as u64);
        data.checked_div(self.total_bytes as u64).unwrap_or(bytes)
    }

    /// Returns the data in `count` packets. Unknown packets are as long as the data permits.
    fn data_in_packets(&self, count: usize) -> Option<u64> {
        let data = (count as u64).saturating_mul(self.data_bytes as u64);
        data.checked_div(self.count as u64)
    }
}

impl Connection {
    /// Returns the shift of the window in a segment of the slow host, if it is known.
    fn shift(&self, segment: &TcpSegment) -> Option<u8> {
        match (self.slow, self.fast) {
            (SynOption::Unusable, _) | (_, SynOption::Unusable) => None,
            _ if segment.is_syn => Some(0),
            (SynOption::Absent, _) | (_, SynOption::Absent) => Some(0),
            (SynOption::Shift(shift), SynOption::Shift(_)) => Some(shift),
            (SynOption::NotSeen, _) | (_, SynOption::NotSeen) => None,
        }
    }

    fn lower(&mut self, segment: &TcpSegment, queue: QueueState, now: Instant) -> Option<u16> {
        let shift = self.shift(segment)?;
        let window = u64::from(segment.window) << shift;
        // A SYN without ACK opens the window from the first sequence number of the fast host, which
        // is not known yet.
        let promised = match (segment.acknowledged, self.right_edge) {
            (Some(acknowledged), Some(edge)) => distance(acknowledged, edge),
            _ => 0,
        };
        let limit = self.limit(segment, queue, now).max(promised);
        let field = if window <= limit {
            segment.window
        } else {
            let rounded_up = limit.div_ceil(1 << shift);
            u16::try_from(rounded_up).unwrap_or(u16::MAX).min(segment.window)
        };
        if let Some(acknowledged) = segment.acknowledged {
            let passed = u64::from(field) << shift;
            let edge = acknowledged.wrapping_add(u32::try_from(passed).unwrap_or(u32::MAX));
            let is_further = self.right_edge.is_none_or(|old| distance(old, edge) > 0);
            self.right_edge = if is_further { Some(edge) } else { self.right_edge };
        }
        (field != segment.window).then_some(field)
    }

    /// Returns the data that the fast host may have in flight, in bytes.
    fn limit(&mut self, segment: &TcpSegment, queue: QueueState, now: Instant) -> u64 {
        let CodelTimes { target, interval } = queue.codel_times;
        let lasting = self.data_of_line(target, queue);
        let in_flight = match (segment.acknowledged, self.sent_edge) {
            (Some(acknowledged), Some(edge)) => distance(acknowledged, edge),
            _ => 0,
        };
        if in_flight < lasting {
            self.busy_since = None;
        }
        let busy_since = *self.busy_since.get_or_insert(now);
        let is_short_answer = in_flight < lasting || now.since(busy_since) <= target;
        let by_time = if is_short_answer { self.data_of_line(interval, queue) } else { lasting };
        let packets = (queue.packets_max / queue.active_flows.max(1)).max(PACKETS_MIN);
        let by_packets = self.recent.data_in_packets(packets).unwrap_or(u64::MAX);
        let minimum = (PACKETS_MIN * self.recent.longest_data.max(1)) as u64;
        by_time.min(by_packets).max(minimum)
    }

    /// Returns the data of this connection that the line sends during a queue delay and the round
    /// trip to the fast host.
    fn data_of_line(&self, delay: Duration, queue: QueueState) -> u64 {
        let time = delay + self.round_trip;
        let bytes = u128::from(queue.bytes_per_second) * time.as_nanos() / 1_000_000_000;
        let flows = queue.active_flows.max(1) as u64;
        self.recent.data_in_bytes(u64::try_from(bytes).unwrap_or(u64::MAX) / flows)
    }
}

/// Returns the distance from one sequence number to a later one; 0 if the other is earlier.
fn distance(from: u32, to: u32) -> u64 {
    let distance = to.wrapping_sub(from);
    if distance < 1 << 31 { distance.into() } else { 0 }
}
