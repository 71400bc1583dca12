//! The congestion window: slow start, congestion avoidance, and reduction (RFC 5681, RFC 6928). A
//! spurious reduction is undone. The algorithms of congestion avoidance are in `cubic.rs` and
//! `newreno.rs`.
//!
//! Slow start and congestion avoidance count delivered bytes (RFC 3465). The limit of two segments
//! per acknowledgment is left out, because an acknowledgment of a super-segment covers all its
//! segments. The window does not grow while it does not limit the sender (RFC 7661 §4.3).

use super::bbr::{Bbr, BbrSample, Control};
use super::cubic::{Cubic, Growth};
use super::hystart::{HyStart, SlowStartAction};
use super::newreno::NewReno;
use super::profile::Congestion;
use crate::time::{Duration, Instant};
use alloc::boxed::Box;

/// Initial window, in segments (RFC 6928).
const INITIAL_SEGMENTS: u32 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Avoidance {
    NewReno(NewReno),
    Cubic(Cubic),
    /// None: a model of the path determines the window.
    None,
}

/// The state before a reduction, which is restored if the reduction was spurious.
#[derive(Clone, Copy, Debug)]
struct StateBeforeReduction {
    cwnd: u32,
    ssthresh: u32,
    avoidance: Avoidance,
}

/// The input from one acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckSample {
    pub(super) bytes: u64,
    /// Position of the first unacknowledged byte.
    pub(super) una: u64,
    /// End of the sent data.
    pub(super) nxt: u64,
    /// The round trip measured by the acknowledgment.
    pub(super) rtt: Option<Duration>,
    pub(super) srtt: Duration,
    pub(super) now: Instant,
}

/// The state of the window that remains while a connection has nothing outstanding.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleWindow {
    pub(super) cwnd: u32,
    pub(super) ssthresh: u32,
    /// Maximum window, as stored by CUBIC.
    w_max: u32,
    cwnd_prior: u32,
    /// Whether the connection is still in its first slow start.
    is_first: bool,
}

/// The congestion window of one connection, in bytes.
#[derive(Clone, Debug)]
pub(super) struct CongestionWindow {
    mss: u32,
    cwnd: u32,
    ssthresh: u32,
    avoidance: Avoidance,
    /// Only the first slow start is monitored (RFC 9406 §4.3).
    hystart: Option<Box<HyStart>>,
    /// Delivered bytes that have not contributed to growth in conservative slow start yet.
    credit: u64,
    before: Option<Box<StateBeforeReduction>>,
    bbr: Option<Box<Bbr>>,
}

impl CongestionWindow {
    /// Starts in slow start with the initial window of RFC 6928 for `mss`.
    pub(super) fn new(congestion: Congestion, mss: u32, seed: u32) -> Self {
        let avoidance = match congestion {
            Congestion::NewReno => Avoidance::NewReno(NewReno::default()),
            Congestion::Cubic => Avoidance::Cubic(Cubic::default()),
            Congestion::Bbr => Avoidance::None,
        };
        Self {
            mss,
            cwnd: initial_window(mss),
            ssthresh: u32::MAX,
            avoidance,
            hystart: (congestion == Congestion::Cubic).then(|| Box::new(HyStart::new())),
            credit: 0,
            before: None,
            bbr: (congestion == Congestion::Bbr).then(|| Box::new(Bbr::new(seed))),
        }
    }

    /// Returns the state to keep while nothing is outstanding.
    pub(super) fn idle_state(&self) -> IdleWindow {
        let (w_max, cwnd_prior) = match self.avoidance {
            Avoidance::Cubic(cubic) => cubic.windows(),
            Avoidance::NewReno(_) | Avoidance::None => (0, 0),
        };
        let cwnd = self.cwnd;
        let ssthresh = self.ssthresh;
        IdleWindow { cwnd, ssthresh, w_max, cwnd_prior, is_first: self.hystart.is_some() }
    }

    /// Restores the state returned by [`Self::idle_state`].
    pub(super) fn resume(&mut self, idle_state: IdleWindow) {
        self.cwnd = idle_state.cwnd;
        self.ssthresh = idle_state.ssthresh;
        if let Avoidance::Cubic(cubic) = &mut self.avoidance {
            *cubic = Cubic::with_windows(idle_state.w_max, idle_state.cwnd_prior);
        }
        if !idle_state.is_first {
            self.hystart = None;
        }
    }

    /// Returns whether a model of the path determines the window.
    pub(super) fn has_model(&self) -> bool {
        self.bbr.is_some()
    }

    /// Updates the BBR model, if BBR is in use. Sets the window that the model determines, and
    /// returns the pacing rate.
    pub(super) fn observe(&mut self, sample: BbrSample) -> Option<u64> {
        let sample = BbrSample { cwnd: self.cwnd, mss: self.mss, ..sample };
        let Control { cwnd, bytes_per_s } = self.bbr.as_mut()?.observe(&sample);
        self.cwnd = cwnd;
        bytes_per_s
    }

    /// Starts a recovery in the model, if there is one, with `pipe` bytes outstanding.
    pub(super) fn conserve(&mut self, pipe: u64, delivered: u64) {
        if let Some(bbr) = &mut self.bbr {
            self.cwnd = bbr.lost(self.cwnd, pipe, delivered, self.mss);
        }
    }

    /// Sets the maximum segment size. If nothing was sent yet, also sets the initial window for it.
    pub(super) fn set_mss(&mut self, mss: u32) {
        if self.cwnd == initial_window(self.mss) {
            self.cwnd = initial_window(mss);
        }
        self.mss = mss;
    }

    pub(super) fn mss(&self) -> u32 {
        self.mss
    }

    pub(super) fn cwnd(&self) -> u32 {
        self.cwnd
    }

    pub(super) fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    pub(super) fn is_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Sets the window to one segment, because the SYN was lost more than once (RFC 6928 §2).
    pub(super) fn syn_was_lost(&mut self) {
        self.cwnd = self.mss;
    }

    /// Grows by the bytes delivered while the window limited the sender.
    pub(super) fn grow(&mut self, delivered: AckSample) {
        if !self.is_slow_start() {
            return self.avoid(delivered.bytes, delivered.srtt, delivered.now);
        }
        let action = match &mut self.hystart {
            Some(hystart) => hystart.acknowledged(delivered.una, delivered.nxt, delivered.rtt),
            None => SlowStartAction::GrowBy { divisor: 1 },
        };
        let SlowStartAction::GrowBy { divisor } = action else {
            self.hystart = None;
            self.ssthresh = self.cwnd;
            return;
        };
        self.credit += delivered.bytes;
        let grown = u32::try_from(self.credit / divisor).unwrap_or(u32::MAX);
        self.credit %= divisor;
        let cwnd = self.cwnd.saturating_add(grown);
        // Bytes above the threshold count for congestion avoidance.
        let rest = cwnd.saturating_sub(self.ssthresh);
        self.cwnd = cwnd - rest;
        if rest > 0 {
            self.avoid(u64::from(rest), delivered.srtt, delivered.now);
        }
    }

    fn avoid(&mut self, acked: u64, srtt: Duration, now: Instant) {
        let cwnd = self.cwnd;
        let mss = self.mss;
        let grown = match &mut self.avoidance {
            Avoidance::None => 0,
            Avoidance::NewReno(reno) => reno.acknowledged(cwnd, mss, acked),
            Avoidance::Cubic(cubic) => cubic.acknowledged(Growth { cwnd, mss, acked, srtt, now }),
        };
        self.cwnd = self.cwnd.saturating_add(grown);
    }

    /// Records that the window did not limit the sender.
    pub(super) fn not_limited(&mut self, now: Instant) {
        if let Avoidance::Cubic(cubic) = &mut self.avoidance {
            cubic.not_limited(now);
        }
    }

    /// Responds to a loss or a congestion mark while `flight` bytes are outstanding. Sets the
    /// threshold; the window is reduced to the threshold later.
    pub(super) fn reduce(&mut self, flight: u64) {
        if self.bbr.is_some() {
            return;
        }
        let Self { cwnd, ssthresh, avoidance, .. } = *self;
        self.before = Some(Box::new(StateBeforeReduction { cwnd, ssthresh, avoidance }));
        self.hystart = None;
        let flight = u32::try_from(flight).unwrap_or(u32::MAX).min(cwnd);
        self.ssthresh = match &mut self.avoidance {
            Avoidance::None => return,
            Avoidance::NewReno(reno) => reno.lost(u64::from(flight), self.mss),
            Avoidance::Cubic(cubic) => cubic.lost(flight, self.mss),
        };
    }

    /// Sets the window during a recovery.
    pub(super) fn set_cwnd(&mut self, cwnd: u32) {
        self.cwnd = cwnd.max(self.mss);
    }

    /// Reduces the window to the threshold at the end of a recovery.
    pub(super) fn finish_reduction(&mut self) {
        if self.bbr.is_none() {
            self.cwnd = self.ssthresh;
        }
    }

    /// Restarts with a window of one segment after a timeout (RFC 5681 §3.1).
    pub(super) fn timed_out(&mut self) {
        if let Some(bbr) = &mut self.bbr {
            bbr.timed_out(self.cwnd);
        }
        self.cwnd = self.mss;
        self.credit = 0;
    }

    /// Restores the state before the last reduction (RFC 4015 §3.2).
    pub(super) fn undo(&mut self) {
        if let Some(before) = self.before.take() {
            self.cwnd = self.cwnd.max(before.cwnd);
            self.ssthresh = self.ssthresh.max(before.ssthresh);
            self.avoidance = before.avoidance;
        }
    }

    /// Limits the window to the initial one after an idle time of one retransmission timeout (RFC
    /// 5681 §4.1).
    pub(super) fn restart_after_idle(&mut self) {
        self.cwnd = self.cwnd.min(initial_window(self.mss));
    }
}

/// Returns the initial window of a connection, in bytes (RFC 6928).
pub(super) fn initial_window(mss: u32) -> u32 {
    (INITIAL_SEGMENTS * mss).min(14_600.max(2 * mss))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SRTT: Duration = Duration::from_millis(100);

    fn delivered(bytes: u64) -> AckSample {
        AckSample { bytes, una: 0, nxt: 0, rtt: None, srtt: SRTT, now: Instant::ZERO }
    }

    #[test]
    fn the_first_flight_is_ten_segments() {
        let first = |mss| CongestionWindow::new(Congestion::Cubic, mss, 0).cwnd();
        assert_eq!([first(1460), first(536), first(9000)], [14_600, 5_360, 18_000]);
    }

    #[test]
    fn slow_start_grows_by_the_acknowledged_bytes() {
        let mut window = CongestionWindow::new(Congestion::NewReno, 1000, 0);
        window.grow(delivered(3000));
        (0..1000).for_each(|_| window.grow(delivered(1)));
        assert_eq!(window.cwnd(), 14_000);
    }

    #[test]
    fn bytes_beyond_the_threshold_count_for_congestion_avoidance() {
        let mut window = CongestionWindow::new(Congestion::NewReno, 1000, 0);
        window.reduce(10_000);
        window.timed_out();
        window.grow(delivered(14_000));
        assert_eq!((window.ssthresh(), window.cwnd()), (5000, 7000));
    }

    #[test]
    fn a_spurious_reduction_is_undone() {
        for congestion in [Congestion::Cubic, Congestion::NewReno] {
            let mut window = CongestionWindow::new(congestion, 1000, 0);
            window.reduce(10_000);
            window.timed_out();
            window.undo();
            assert_eq!((window.cwnd(), window.ssthresh()), (10_000, u32::MAX));
        }
    }

    #[test]
    fn cubic_reduces_to_seven_tenths_and_reno_to_a_half() {
        for (congestion, ssthresh) in [(Congestion::Cubic, 7000), (Congestion::NewReno, 5000)] {
            let mut window = CongestionWindow::new(congestion, 1000, 0);
            window.reduce(20_000);
            assert_eq!(window.ssthresh(), ssthresh);
        }
    }

    #[test]
    fn the_window_of_a_model_returns_to_its_size_after_a_timeout() {
        let mut window = CongestionWindow::new(Congestion::Bbr, 1000, 0);
        window.timed_out();
        assert_eq!(window.cwnd(), 1000);
        window.observe(BbrSample {
            rate: None,
            rtt: None,
            delivered: 1000,
            newly_delivered: 1000,
            pipe: 0,
            cwnd: 0,
            mss: 0,
            now: Instant::ZERO,
        });
        assert_eq!(window.cwnd(), 10_000);
    }
}
