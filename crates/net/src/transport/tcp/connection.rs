//! One connection: the transmission control block of RFC 9293 §3.3.1, with the RFC's names.

use super::acknowledgments::Acknowledgments;
use super::activity::Activity;
use super::endpoints::Endpoints;
use super::fast_open;
use super::header::Header;
use super::lifecycle::{Lifecycle, State};
use super::loss_recovery::{LossRecovery, RecoveryParameters};
use super::negotiated_options::NegotiatedOptions;
use super::path_search::ConnectionPath;
use super::profile::{Profile, SendLimit, SharedProfile, WindowUpdate};
use super::receive_tuning::ConnectionTuning;
use super::receive_variables::ReceiveVariables;
use super::recovery::Recovery;
use super::reports::Reports;
use super::rtt::RttEstimator;
use super::send_variables::SendVariables;
use super::seq::Seq;
use super::statistics::ConnectionCounters;
use super::status::CloseReason;
use super::timers::Timers;
use crate::time::{Duration, Instant};
use alloc::sync::Arc;
use core::net::IpAddr;

/// Maximum segment size of a peer that sends no such option (RFC 9293 §3.7.1, MUST-15).
pub(super) const DEFAULT_MSS: u16 = 536;
const DEFAULT_MSS_V6: u16 = 1220;
/// Lower bound for the segment size that a peer's option requests (row 25 of the attack table).
const MIN_MSS: u16 = 64;

/// Initial values of a connection. An attacker must not be able to guess `iss` and `ts_offset`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) iss: Seq,
    pub(super) ts_offset: u32,
    pub(super) now: Instant,
}

/// The transmission control block. Each group of variables is changed by the methods of its own
/// file only.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) ends: Endpoints,
    pub(super) lifecycle: Lifecycle,
    /// The policies.
    pub(super) profile: SharedProfile,

    pub(super) snd: SendVariables,

    pub(super) rcv: ReceiveVariables,
    pub(super) tuning: ConnectionTuning,
    pub(super) acks: Acknowledgments,

    pub(super) negotiated: NegotiatedOptions,
    pub(super) rtt: RttEstimator,
    pub(super) recovery: LossRecovery,
    pub(super) timers: Timers,
    pub(super) fast_open: fast_open::ConnectionHandshake,
    pub(super) path: ConnectionPath,
    pub(super) activity: Activity,
    pub(super) reports: Reports,
    pub(super) statistics: ConnectionCounters,
}

impl Connection {
    pub(super) fn new(ends: Endpoints, profile: Arc<Profile>, start: Start, state: State) -> Self {
        let Start { iss, now, .. } = start;
        let shift = if profile.extensions { shift_for(profile.receive_window.limit()) } else { 0 };
        let mss = u32::from(DEFAULT_MSS);
        let send_limit = send_limit(&profile, mss);
        Self {
            ends,
            lifecycle: Lifecycle::new(state),
            snd: SendVariables::new(iss, mss, send_limit),
            rcv: ReceiveVariables::new(profile.receive_window.start(), shift),
            tuning: ConnectionTuning::default(),
            acks: Acknowledgments::new(now),
            negotiated: NegotiatedOptions::new(start.ts_offset, now),
            rtt: RttEstimator::new(profile.rto_min).with_retransmission(profile.retransmission),
            recovery: LossRecovery::default(),
            timers: Timers::default(),
            fast_open: fast_open::ConnectionHandshake::default(),
            path: ConnectionPath::default(),
            activity: Activity::new(now),
            reports: Reports::default(),
            statistics: ConnectionCounters::default(),
            profile: SharedProfile::new(profile),
        }
    }

    /// Returns the maximum segment size of the peer `remote` if it sends no such option (MUST-15).
    pub(super) fn default_mss(remote: IpAddr) -> u16 {
        if remote.is_ipv4() { DEFAULT_MSS } else { DEFAULT_MSS_V6 }
    }

    /// Returns the maximum segment size that this end announces in its SYN.
    pub(super) fn receive_mss(&self) -> u16 {
        self.profile.mss_max.unwrap_or(u16::MAX).min(self.ends.link_mss())
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
        let default_mss = Self::default_mss(self.ends.remote().ip());
        let peer_mss = syn.options.mss.unwrap_or(default_mss).max(MIN_MSS);
        let mss = peer_mss.min(self.receive_mss()).min(self.ends.path_mss());
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
            self.tuning.stop();
            self.snd.shrink();
            self.rcv.shrink();
        }
        self.recovery.full().is_none()
    }

    /// Returns the window to advertise now. It is never less than before. It is increased only if
    /// the increase is worth a segment (RFC 9293 §3.8.6.2.2, MUST-39).
    pub(super) fn window_to_offer(&self) -> u32 {
        let (capacity, growth) = self.rcv.window_growth(self.snd.mss());
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
        let (capacity, growth) = self.rcv.window_growth(self.snd.mss());
        // A SYN cannot express a large window (RFC 7323 §2.2), so the window grows with the first
        // acknowledgment. It may be delayed while the window of the SYN is enough.
        let is_first = self.acks.last_sent() == self.rcv.irs() + 1;
        let has_enough = is_first && self.rcv.wnd() >= FIRST_SEGMENTS * self.snd.mss();
        if self.state().expects_data()
            && growth > 0
            && !has_enough
            && self.is_window_update_due(growth, capacity)
        {
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

    /// Ends the connection.
    pub(super) fn end(&mut self, close_reason: CloseReason) {
        self.lifecycle.end();
        self.timers.stop_all();
        self.negotiated.clear_blocks();
        self.tuning.stop();
        self.acks.cancel();
        self.reports.end(close_reason);
    }

    /// Enters TIME-WAIT, or restarts its timer.
    pub(super) fn enter_time_wait(&mut self, now: Instant) {
        self.lifecycle.wait();
        self.negotiated.clear_blocks();
        self.tuning.stop();
        self.return_growth();
        self.timers.start_time_wait(now + TIME_WAIT);
    }
}

/// Number of segments below which a window is small.
const SMALL_WINDOW_SEGMENTS: usize = 32;
/// Number of segments of a window that does not limit a peer that begins to send: twice the initial
/// window of RFC 6928.
const FIRST_SEGMENTS: u32 = 20;
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
