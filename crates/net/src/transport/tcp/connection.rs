//! One connection: the transmission control block of RFC 9293 §3.3.1, with the RFC's names.

use super::acknowledgments::Acknowledgments;
use super::fast_open;
use super::header::Header;
use super::loss_recovery::{LossRecovery, RecoveryParameters};
use super::negotiated_options::NegotiatedOptions;
use super::path_search::PathSearch;
use super::profile::{Profile, SendLimit, WindowUpdate};
use super::receive_tuning::ReceiveTuning;
use super::receive_variables::ReceiveVariables;
use super::recovery::Recovery;
use super::rtt::RttEstimator;
use super::send_variables::SendVariables;
use super::seq::Seq;
use super::status::{CloseReason, Event, Statistics};
use super::timers::Timers;
use crate::internet::icmp::ErrorKind;
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::net::{IpAddr, SocketAddr};

/// Maximum segment size of a peer that sends no such option (RFC 9293 §3.7.1, MUST-15).
pub(super) const DEFAULT_MSS: u16 = 536;
const DEFAULT_MSS_V6: u16 = 1220;
/// Lower bound for the segment size that a peer's option requests (row 25 of the attack table).
const MIN_MSS: u16 = 64;

/// The states of RFC 9293 §3.3.2. LISTEN is not a state of a connection: see `Tcp::listen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A connection request was sent; no matching request has been received.
    SynSent,
    /// A connection request was sent and one was received; the local one is not acknowledged yet.
    SynReceived,
    /// Open: data can be received and sent.
    Established,
    /// The user has closed the connection; the local FIN is not acknowledged yet.
    FinWait1,
    /// The user has closed the connection, and the peer has acknowledged the local FIN.
    FinWait2,
    /// The peer has closed the connection; the user has not.
    CloseWait,
    /// Both ends have closed the connection at the same time; the local FIN is not acknowledged
    /// yet.
    Closing,
    /// The peer and then the user have closed the connection; the local FIN is not acknowledged
    /// yet.
    LastAck,
    /// Waits until old segments have left the network.
    TimeWait,
    /// No connection.
    Closed,
}

impl State {
    /// Returns whether the user may still send.
    #[must_use]
    pub const fn takes_data(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived | Self::Established | Self::CloseWait)
    }

    /// Returns whether queued data and the FIN may be put into segments.
    pub(super) const fn emits_data(self) -> bool {
        matches!(
            self,
            Self::Established | Self::CloseWait | Self::FinWait1 | Self::Closing | Self::LastAck
        )
    }

    /// Returns whether the peer may send further data.
    pub(super) const fn expects_data(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECEIVED",
            Self::Established => "ESTABLISHED",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
            Self::TimeWait => "TIME-WAIT",
            Self::Closed => "CLOSED",
        })
    }
}

/// Initial values of a connection. An attacker must not be able to guess `iss` and `ts_offset`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) iss: Seq,
    pub(super) ts_offset: u32,
    pub(super) now: Instant,
}

/// The two ends of a connection, and the maximum segment sizes of its link and path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoints {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) link_mss: u16,
    /// Number of data bytes of the longest segment that fits the path MTU, as reported by the layer
    /// below.
    pub(super) path_mss: u16,
}

/// The transmission control block.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) ends: Endpoints,
    pub(super) state: State,
    /// Whether the connection was opened passively (MUST-11).
    pub(super) is_passive: bool,
    /// The policies. All connections of a listener share them, until the user changes those of one
    /// connection.
    pub(super) profile: Arc<Profile>,

    pub(super) snd: SendVariables,

    pub(super) rcv: ReceiveVariables,
    /// Allocated when the connection has received enough data to need a larger window.
    pub(super) tuning: Option<Box<ReceiveTuning>>,
    pub(super) acks: Acknowledgments,

    pub(super) negotiated: NegotiatedOptions,
    pub(super) rtt: RttEstimator,
    pub(super) recovery: LossRecovery,
    pub(super) timers: Timers,
    /// Whether the layer below should try another route, because R1 timeouts have expired
    /// (MUST-20).
    pub(super) suspects_route: bool,
    /// State of Fast Open until the connection is established.
    pub(super) fast_open: Option<Box<fast_open::Handshake>>,
    /// Whether the data of the peer's SYN was accepted before the end of the handshake.
    pub(super) has_early_data: bool,
    /// Allocated when segments are lost that may be too long for the path (RFC 8899).
    pub(super) path: Option<Box<PathSearch>>,
    pub(super) last_sent_at: Instant,
    /// Time at which the last acceptable segment arrived.
    pub(super) last_received_at: Instant,

    /// Whether the user has released the connection, so that received data is not read.
    pub(super) is_released: bool,
    /// Whether the connection must be aborted, because it was released while received data was
    /// unread.
    pub(super) must_abort: bool,
    /// The last ICMP error about a segment. An acknowledgment clears it.
    pub(super) soft_error: Option<ErrorKind>,
    pub(super) close_reason: Option<CloseReason>,
    pub(super) pending_events: u8,
    pub(super) statistics: Statistics,
}

impl Connection {
    pub(super) fn new(ends: Endpoints, profile: Arc<Profile>, start: Start, state: State) -> Self {
        let Start { iss, now, .. } = start;
        let shift = if profile.extensions { shift_for(profile.receive_window.limit()) } else { 0 };
        let mss = u32::from(DEFAULT_MSS);
        let send_limit = send_limit(&profile, mss);
        Self {
            ends,
            state,
            is_passive: false,
            snd: SendVariables::new(iss, mss, send_limit),
            rcv: ReceiveVariables::new(profile.receive_window.start(), shift),
            tuning: None,
            acks: Acknowledgments::new(now),
            negotiated: NegotiatedOptions::new(start.ts_offset, now),
            rtt: RttEstimator::new(profile.rto_min).with_retransmission(profile.retransmission),
            recovery: LossRecovery::default(),
            timers: Timers::default(),
            suspects_route: false,
            fast_open: None,
            has_early_data: false,
            path: None,
            last_sent_at: now,
            last_received_at: now,
            is_released: false,
            must_abort: false,
            soft_error: None,
            close_reason: None,
            pending_events: 0,
            statistics: Statistics::default(),
            profile,
        }
    }

    /// Returns the maximum segment size of the peer `remote` if it sends no such option (MUST-15).
    pub(super) fn default_mss(remote: IpAddr) -> u16 {
        if remote.is_ipv4() { DEFAULT_MSS } else { DEFAULT_MSS_V6 }
    }

    /// Returns the maximum segment size that this end announces in its SYN.
    pub(super) fn receive_mss(&self) -> u16 {
        self.profile.mss_max.unwrap_or(u16::MAX).min(self.ends.link_mss)
    }

    /// Processes the peer's SYN: its sequence number, its options and its window.
    pub(super) fn synchronize(&mut self, syn: &Header) {
        self.rcv.synchronize(syn.seq);
        match (self.profile.extensions, syn.options.window_scale) {
            (true, Some(shift)) => self.snd.set_shift(shift),
            _ => {
                self.snd.set_shift(0);
                self.rcv.disable_scaling();
            }
        }
        self.negotiated.synchronize(syn, &self.profile);
        self.acks.synchronize(self.rcv.nxt());
        let default_mss = Self::default_mss(self.ends.remote.ip());
        let peer_mss = syn.options.mss.unwrap_or(default_mss).max(MIN_MSS);
        let mss = peer_mss.min(self.receive_mss()).min(self.ends.path_mss);
        self.snd.set_mss(u32::from(mss).saturating_sub(self.negotiated.fixed_len()).max(1));
        self.snd.set_limit(send_limit(&self.profile, self.snd.mss()));
        self.snd.set_syn_window(u32::from(syn.window), syn.seq, syn.ack);
    }

    /// Returns the state of loss recovery and congestion control, allocated if needed.
    pub(super) fn recovery(&mut self) -> &mut Recovery {
        // In the answer to a SYN with early data, the local SYN is not acknowledged yet. It is not
        // part of the data.
        let una = self.snd.una().max(self.snd.start());
        self.recovery.get_or_allocate(RecoveryParameters {
            congestion: self.profile.congestion,
            mss: self.snd.mss(),
            una,
            has_sack: self.negotiated.has_sack(),
        })
    }

    /// Reduces the recovery state to the part that the next flight needs, if nothing is
    /// outstanding. Returns whether the connection now has no full recovery state.
    pub(super) fn enter_idle(&mut self) -> bool {
        if self.recovery.reduce() {
            self.tuning = None;
            self.snd.shrink();
            self.rcv.shrink();
        }
        self.recovery.full().is_none()
    }

    /// Returns the window to advertise now. It is never less than before. It is increased only if
    /// the increase is worth a segment (RFC 9293 §3.8.6.2.2, MUST-39).
    pub(super) fn window_to_offer(&self) -> u32 {
        let (capacity, growth) = self.rcv.window_growth();
        let window = self.rcv.wnd();
        // If the window is small, and a segment is sent anyway, the window may advance by one
        // segment. The peer may shorten its segments slightly to fill a small window evenly.
        let allows_one_segment = self.has_small_window()
            && self.profile.window_update == WindowUpdate::TwoSegments
            && growth >= (self.snd.mss() / 4 * 3).min(capacity / 4);
        let is_worth_it =
            growth > 0 && (allows_one_segment || self.is_window_update_due(growth, capacity));
        if is_worth_it { window + growth } else { window }
    }

    /// Returns whether to advertise a window of `capacity` that has grown by `growth`.
    fn is_window_update_due(&self, growth: u32, capacity: u32) -> bool {
        match self.profile.window_update {
            // Without the second condition, an application that reads single bytes would cause an
            // update of a zero window for each byte.
            WindowUpdate::HalfUsed => {
                self.rcv.wnd() <= capacity / 2 && growth >= self.snd.mss().min(capacity / 2)
            }
            WindowUpdate::UsedUp => self.rcv.wnd() < self.snd.mss().min(capacity / 4),
            WindowUpdate::AsRead => true,
            WindowUpdate::TwoSegments => growth >= (2 * self.snd.mss()).min(capacity / 2),
        }
    }

    /// Returns whether the receive window has only a few segments. If an acknowledgment waited for
    /// a second segment, a large part of such a window would be unused.
    pub(super) fn has_small_window(&self) -> bool {
        self.rcv.buffer().window() < SMALL_WINDOW_SEGMENTS * self.snd.mss() as usize
    }

    /// Schedules a segment if the window has grown enough since the last advertisement.
    pub(super) fn schedule_window_update(&mut self) {
        let (capacity, growth) = self.rcv.window_growth();
        if self.state.expects_data() && growth > 0 && self.is_window_update_due(growth, capacity) {
            self.acks.send_now();
        }
    }

    /// Returns the maximum number of data bytes in a segment that also contains the pending SACK
    /// blocks.
    pub(super) fn data_mss(&self) -> u32 {
        let mss = self.snd.mss();
        let blocks = self.negotiated.blocks_len(mss);
        let mss = mss.saturating_sub(u32::try_from(blocks).unwrap_or(0)).max(1);
        let recovery = self.recovery.full();
        recovery.map_or(mss, |recovery| recovery.even_len(self.snd.outstanding_max(), mss))
    }

    /// Queues an event for the user.
    pub(super) fn push_event(&mut self, event: Event) {
        self.pending_events |= event.bit();
    }

    /// Returns the next event for the user.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        let event = *Event::ORDER.iter().find(|event| self.pending_events & event.bit() != 0)?;
        self.pending_events &= !event.bit();
        Some(event)
    }

    /// Ends the connection.
    pub(super) fn end(&mut self, close_reason: CloseReason) {
        self.state = State::Closed;
        self.timers.stop_all();
        self.negotiated.clear_blocks();
        self.tuning = None;
        self.acks.cancel();
        self.close_reason.get_or_insert(close_reason);
        self.push_event(Event::Closed);
    }

    /// Enters TIME-WAIT, or restarts its timer.
    pub(super) fn enter_time_wait(&mut self, now: Instant) {
        self.state = State::TimeWait;
        self.negotiated.clear_blocks();
        self.tuning = None;
        self.timers.start_time_wait(now + TIME_WAIT);
    }
}

/// Number of segments below which a window is small.
const SMALL_WINDOW_SEGMENTS: usize = 32;
/// Duration of TIME-WAIT: two maximum segment lifetimes of 30 s, as in Linux and the BSDs.
const TIME_WAIT: Duration = Duration::from_secs(60);

pub(super) fn send_limit(profile: &Profile, mss: u32) -> usize {
    match profile.send_limit {
        SendLimit::OneSegment => mss as usize,
        SendLimit::Bytes(bytes) | SendLimit::Tuned { start: bytes, .. } => bytes,
    }
}

/// Returns the smallest shift with which the window field can express `window`.
pub(super) fn shift_for(window: usize) -> u8 {
    (0..14).find(|shift| window >> shift <= 0xFFFF).unwrap_or(14)
}
