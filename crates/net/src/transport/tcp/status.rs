//! The events and the status of a connection, and the reason for its end.

use super::lifecycle::State;
use super::limited_time::LimitTimes;
use super::phase::Phase;
use super::profile::Congestion;
use super::statistics::Statistics;
use crate::internet::icmp::ErrorKind;
use crate::time::Duration;
use core::net::SocketAddr;

/// An event of a connection. It is reported once, however often it occurs before the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is established.
    Established,
    /// Data can be read.
    Readable,
    /// Acknowledgments have freed space in the send buffer.
    Writable,
    /// The peer has announced urgent data. The data itself may not have arrived yet (MUST-32).
    Urgent,
    /// The peer has closed the connection. There is no data after the readable data.
    PeerClosed,
    /// The connection has ended; see [`Status::close_reason`].
    Closed,
    /// Sent data was not acknowledged, and R1 of [`UserTimeout`](super::UserTimeout) has been
    /// reached (SHLD-9).
    Unresponsive,
}

impl Event {
    pub(super) const ORDER: [Self; 7] = [
        Self::Established,
        Self::Urgent,
        Self::Readable,
        Self::Writable,
        Self::PeerClosed,
        Self::Unresponsive,
        Self::Closed,
    ];

    pub(super) const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Reasons for the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Both sides have closed the connection.
    Closed,
    /// The user has aborted the connection.
    Aborted,
    /// The peer has refused the connection.
    Refused,
    /// The peer has reset the connection.
    Reset,
    /// The peer did not answer in time.
    TimedOut,
    /// An ICMP error reports that the peer is unreachable.
    Unreachable,
}

/// Outstanding and lost data, and the limits of the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryStatus {
    /// The phase of loss recovery.
    pub phase: Phase,
    /// Bytes sent and not acknowledged by the acknowledgment number.
    pub outstanding: u64,
    /// Outstanding bytes that the peer has reported as received.
    pub sacked: u64,
    /// Outstanding bytes that are lost, including those already retransmitted.
    pub lost: u64,
    /// Outstanding bytes that were retransmitted.
    pub retransmitted: u64,
    /// Data bytes that the peer is known to have received since the connection began.
    pub delivered: u64,
    /// The latest delivery rate, in bytes per second, if it was measured.
    pub delivery_rate: Option<u64>,
    /// Whether the measured delivery rate was limited by a lack of data from the user.
    pub is_rate_app_limited: bool,
    /// The pacing rate, in bytes per second, if data is paced.
    pub pacing_rate: Option<u64>,
    /// The minimum round-trip time of the last minutes, if it was measured.
    pub min_rtt: Option<Duration>,
    /// Maximum reordering distance of delivered data, in bytes.
    pub reordering: u64,
    /// Total duration of each limit of the sender, up to the last output.
    pub limited: LimitTimes,
}

/// The state of a connection, as returned by the STATUS call (RFC 9293 §3.10.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Local address and port.
    pub local: SocketAddr,
    /// Remote address and port.
    pub remote: SocketAddr,
    /// The state.
    pub state: State,
    /// The reason for the end of the connection, if it has ended.
    pub close_reason: Option<CloseReason>,
    /// The last ICMP error about a segment. An acknowledgment clears it. Anyone who sees the
    /// segments can forge an error, so it does not end the connection (RFC 9293 §3.9.2.2, MUST-56).
    pub soft_error: Option<ErrorKind>,
    /// The window advertised by the peer, in bytes.
    pub send_window: u32,
    /// The window advertised by this end, in bytes.
    pub receive_window: u32,
    /// The congestion control algorithm.
    pub congestion: Congestion,
    /// The congestion window, in bytes.
    pub congestion_window: u32,
    /// The slow start threshold, in bytes; `None` before the first loss.
    pub slow_start_threshold: Option<u32>,
    /// The maximum size of a sent segment, in data bytes.
    pub send_mss: u32,
    /// Bytes that wait to be acknowledged or sent.
    pub send_queue: u32,
    /// Bytes that wait to be read.
    pub receive_queue: usize,
    /// Current size of the send buffer: the maximum of unacknowledged and unsent bytes.
    pub send_buffer: usize,
    /// The maximum window that this end may currently advertise, in bytes.
    pub receive_buffer: usize,
    /// The smoothed round-trip time, if it was measured.
    pub srtt: Option<Duration>,
    /// The variation of the round-trip time, if it was measured.
    pub rttvar: Option<Duration>,
    /// The current retransmission timeout.
    pub rto: Duration,
    /// Outstanding and lost data, and the limits of the sender.
    pub recovery: RecoveryStatus,
    /// Whether both ends have permitted selective acknowledgments.
    pub has_sack: bool,
    /// Whether both ends use explicit congestion notification.
    pub has_ecn: bool,
    /// The counters.
    pub statistics: Statistics,
}
