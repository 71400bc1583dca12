//! What a connection tells its user: events, how it ended, and its statistics.

use super::connection::State;
use super::limits::LimitTimes;
use super::profile::Congestion;
use super::recovery::Phase;
use crate::internet::icmp::ErrorKind;
use crate::time::Duration;
use core::net::SocketAddr;

/// News of a connection. Each kind is told once until it happens again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is open.
    Established,
    /// Data can be read.
    Readable,
    /// Acknowledged data has made room to send.
    Writable,
    /// Urgent data is coming (MUST-32).
    Urgent,
    /// The peer has closed: nothing follows what can be read.
    PeerClosed,
    /// The connection has ended; see [`Status::ending`].
    Closed,
    /// What was sent stays unanswered: R1 of [`Patience`](super::Patience) is passed (SHLD-9).
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

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Both sides closed.
    Closed,
    /// The user aborted it.
    Aborted,
    /// The peer refused it.
    Refused,
    /// The peer reset it.
    Reset,
    /// Nothing was heard from the peer for too long.
    TimedOut,
    /// The network says that the peer cannot be reached.
    Unreachable,
}

/// What a connection has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Segments received.
    pub segments_in: u64,
    /// Segments sent, retransmissions included.
    pub segments_out: u64,
    /// Data bytes received in order, each once.
    pub bytes_in: u64,
    /// Data bytes acknowledged by the peer.
    pub bytes_acknowledged: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// Fast retransmits.
    pub fast_retransmits: u32,
    /// Probes of the tail of a flight (RFC 8985).
    pub tail_probes: u32,
    /// Reductions of the window that turned out to be mistakes and were undone.
    pub undone: u32,
    /// Acknowledgments that report something received twice.
    pub duplicate_reports: u32,
    /// Reductions of the window because of a mark (RFC 3168).
    pub ecn_reductions: u32,
    /// Segments that came with a mark of congestion.
    pub ecn_marks: u64,
    /// Segments that came out of order.
    pub out_of_order: u64,
    /// Duplicate acknowledgments received.
    pub duplicate_acks: u64,
    /// Segments without data that were sent to acknowledge or to open the window.
    pub pure_acks_out: u64,
    /// Acknowledgments that rode on data.
    pub piggybacked_acks: u64,
    /// Probes of a closed window.
    pub window_probes: u32,
    /// Keep-alive probes.
    pub keep_alive_probes: u32,
}

/// What is out, what is lost of it, and what holds the sender back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryStatus {
    /// What the sender is doing about losses.
    pub phase: Phase,
    /// Bytes that were sent and are not acknowledged by number.
    pub outstanding: u64,
    /// Bytes of these that the peer says to have.
    pub sacked: u64,
    /// Bytes of these that are lost, whether they were sent again or not.
    pub lost: u64,
    /// Bytes of these that were sent again.
    pub retransmitted: u64,
    /// Data bytes that the peer is known to have received since the connection began.
    pub delivered: u64,
    /// The latest rate at which data was delivered, in bytes a second, once measured.
    pub delivery_rate: Option<u64>,
    /// The user had given too little to send when it was measured.
    pub is_rate_app_limited: bool,
    /// The rate at which data leaves, in bytes a second, if it is paced.
    pub pacing_rate: Option<u64>,
    /// The least round-trip time of the last minutes, once measured.
    pub min_rtt: Option<Duration>,
    /// How far data was overtaken by later data at most, in bytes.
    pub reordering: u64,
    /// For how long something held the sender back, until the last output.
    pub limited: LimitTimes,
}

/// The state of a connection, as the STATUS call gives it (RFC 9293 §3.10.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Our end.
    pub local: SocketAddr,
    /// The peer's end.
    pub remote: SocketAddr,
    /// The state.
    pub state: State,
    /// How it ended, if it has.
    pub ending: Option<Ending>,
    /// What the network last said about a segment, if nothing was acknowledged since. Anyone who
    /// sees the segments can make it up: it ends nothing (RFC 9293 §3.9.2.2, MUST-56).
    pub soft_error: Option<ErrorKind>,
    /// The window that the peer offers, in bytes.
    pub send_window: u32,
    /// The window that we offer, in bytes.
    pub receive_window: u32,
    /// The congestion control.
    pub congestion: Congestion,
    /// The congestion window, in bytes.
    pub congestion_window: u32,
    /// The slow start threshold, in bytes, once there was a loss.
    pub slow_start_threshold: Option<u32>,
    /// The largest data segment we send, in bytes.
    pub send_mss: u32,
    /// Bytes that wait to be acknowledged or sent.
    pub send_queue: u32,
    /// Bytes that wait to be read.
    pub receive_queue: usize,
    /// Bytes that may wait to be acknowledged or sent, as large as the buffer is now.
    pub send_buffer: usize,
    /// The largest window that is offered now, in bytes.
    pub receive_buffer: usize,
    /// The smoothed round-trip time, once measured.
    pub srtt: Option<Duration>,
    /// Its variation.
    pub rttvar: Option<Duration>,
    /// The retransmission timeout in force.
    pub rto: Duration,
    /// What is out, what is lost of it, and what holds the sender back.
    pub recovery: RecoveryStatus,
    /// Both ends have permitted selective acknowledgments.
    pub has_sack: bool,
    /// Both ends use explicit congestion notification.
    pub has_ecn: bool,
    /// The counts.
    pub statistics: Statistics,
}
