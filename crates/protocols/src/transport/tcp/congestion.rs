//! Congestion control: slow start, congestion avoidance, fast retransmit (RFC 5681) and NewReno
//! fast recovery (RFC 6582).

use super::seq::Seq;

/// RFC 5681 §3.2: the third duplicate acknowledgment means a loss.
const DUPLICATE_ACKS: u32 = 3;
/// RFC 6928: segments in the first flight.
const INITIAL_SEGMENTS: u32 = 10;

/// What the connection must do about an acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing beyond sending what the window now allows.
    Continue,
    /// Send the first unacknowledged segment again.
    Retransmit,
}

/// The congestion window of one connection, in bytes.
#[derive(Clone, Debug)]
pub(super) struct Congestion {
    mss: u32,
    cwnd: u32,
    ssthresh: u32,
    /// Bytes acknowledged in congestion avoidance that have not yet grown the window.
    credit: u32,
    duplicates: u32,
    /// What was out when the first duplicate came.
    flight_before_duplicates: u32,
    phase: Phase,
    /// RFC 6582 §3.2: no new recovery for acknowledgments at or before this number.
    recover: Option<Seq>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Recovery {
        until: Seq,
        /// Forged duplicates must not inflate the window beyond what can have left the network.
        cwnd_max: u32,
    },
}

impl Congestion {
    /// Starts in slow start with the initial window of RFC 6928 for `mss`.
    #[must_use]
    pub(super) fn new(mss: u32) -> Self {
        Self {
            mss,
            cwnd: initial_window(mss),
            ssthresh: u32::MAX,
            credit: 0,
            duplicates: 0,
            flight_before_duplicates: 0,
            phase: Phase::Open,
            recover: None,
        }
    }

    /// Takes a new maximum segment size; before anything was sent the window follows it.
    pub(super) fn set_mss(&mut self, mss: u32) {
        if self.cwnd == initial_window(self.mss) {
            self.cwnd = initial_window(mss);
        }
        self.mss = mss;
    }

    /// Returns the congestion window.
    #[must_use]
    pub(super) fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// Returns how much may be out now: the first two duplicates each let one more segment go, so
    /// that a small flight too gets its third one (RFC 5681 §3.2 step 1, RFC 3042).
    #[must_use]
    pub(super) fn allowance(&self) -> u32 {
        let limited = self.duplicates.min(DUPLICATE_ACKS - 1) * self.mss;
        if self.phase == Phase::Open { self.cwnd.saturating_add(limited) } else { self.cwnd }
    }

    /// Returns the slow start threshold.
    #[must_use]
    pub(super) fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    /// Starts with one segment, because the SYN was lost more than once (RFC 6928 §2).
    pub(super) fn syn_was_lost(&mut self) {
        self.cwnd = self.mss;
    }

    /// Takes an acknowledgment of `acked` new bytes up to `una`; `flight` is what is still out.
    pub(super) fn acknowledged(&mut self, una: Seq, acked: u32, flight: u32) -> Verdict {
        self.duplicates = 0;
        // Forgotten once passed, so that it cannot come round again with the sequence numbers.
        self.recover = self.recover.filter(|recover| !una.is_after(*recover));
        match self.phase {
            Phase::Open => {
                self.grow(acked);
                Verdict::Continue
            }
            // RFC 6582 §3.2 step 3, full acknowledgment, the variant that avoids a burst.
            Phase::Recovery { until, .. } if !una.is_before(until) => {
                self.cwnd = self.ssthresh.min(flight.max(self.mss) + self.mss);
                self.phase = Phase::Open;
                Verdict::Continue
            }
            // Partial acknowledgment: the next hole is lost as well.
            Phase::Recovery { .. } => {
                let refill = if acked >= self.mss { self.mss } else { 0 };
                self.cwnd = self.cwnd.saturating_sub(acked).saturating_add(refill).max(self.mss);
                Verdict::Retransmit
            }
        }
    }

    fn grow(&mut self, acked: u32) {
        if self.cwnd < self.ssthresh {
            // RFC 5681 (2): by what was acknowledged, so that dividing acknowledgments gains
            // nothing (attack row 39).
            self.cwnd = self.cwnd.saturating_add(acked.min(self.mss));
            return;
        }
        self.credit = self.credit.saturating_add(acked);
        if self.credit >= self.cwnd {
            self.credit -= self.cwnd;
            self.cwnd = self.cwnd.saturating_add(self.mss);
        }
    }

    /// Takes a duplicate acknowledgment of `una`; all up to `sent` was sent, `flight` is out.
    pub(super) fn duplicate(&mut self, una: Seq, sent: Seq, flight: u32) -> Verdict {
        if let Phase::Recovery { cwnd_max, .. } = self.phase {
            // Another segment has left the network.
            self.cwnd = self.cwnd.saturating_add(self.mss).min(cwnd_max);
            return Verdict::Continue;
        }
        if self.duplicates == 0 {
            self.flight_before_duplicates = flight;
        }
        self.duplicates = self.duplicates.saturating_add(1);
        let is_repaired = self.recover.is_some_and(|recover| !una.is_after(recover));
        if self.duplicates != DUPLICATE_ACKS || is_repaired {
            return Verdict::Continue;
        }
        self.ssthresh = self.after_loss(self.flight_before_duplicates);
        self.recover = Some(sent);
        self.cwnd = self.ssthresh.saturating_add(DUPLICATE_ACKS * self.mss);
        let cwnd_max = self.cwnd.max(self.ssthresh.saturating_add(flight));
        self.phase = Phase::Recovery { until: sent, cwnd_max };
        Verdict::Retransmit
    }

    /// Takes a retransmission timeout; `is_first` for this data, all up to `sent` was sent.
    pub(super) fn timed_out(&mut self, is_first: bool, sent: Seq, flight: u32) {
        if is_first {
            self.ssthresh = self.after_loss(flight);
        }
        self.cwnd = self.mss;
        self.credit = 0;
        self.duplicates = 0;
        self.phase = Phase::Open;
        self.recover = Some(sent);
    }

    /// RFC 5681 §4.1: after an idle time of one timeout the window is at most the initial one.
    pub(super) fn restart_after_idle(&mut self) {
        self.cwnd = self.cwnd.min(initial_window(self.mss));
    }

    fn after_loss(&self, flight: u32) -> u32 {
        (flight / 2).max(2 * self.mss)
    }
}

fn initial_window(mss: u32) -> u32 {
    (INITIAL_SEGMENTS * mss).min(14_600.max(2 * mss))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_flight_is_ten_segments() {
        assert_eq!(Congestion::new(1460).cwnd(), 14_600);
        assert_eq!(Congestion::new(536).cwnd(), 5_360);
        assert_eq!(Congestion::new(9000).cwnd(), 18_000);
    }

    #[test]
    fn slow_start_grows_by_at_most_a_segment_for_each_acknowledgment() {
        let mut congestion = Congestion::new(1000);
        congestion.acknowledged(Seq(3000), 3000, 0);
        assert_eq!(congestion.cwnd(), 11_000);
        congestion.acknowledged(Seq(3001), 1, 0);
        assert_eq!(congestion.cwnd(), 11_001);
    }

    #[test]
    fn congestion_avoidance_grows_by_a_segment_for_each_window() {
        let mut congestion = Congestion::new(1000);
        congestion.timed_out(true, Seq(20_000), 20_000);
        let mut una = Seq(0);
        while congestion.cwnd() < congestion.ssthresh() {
            una = una + 1000;
            congestion.acknowledged(una, 1000, 0);
        }
        assert_eq!(congestion.cwnd(), 10_000);
        for _ in 0..10 {
            congestion.acknowledged(una, 1000, 0);
        }
        assert_eq!(congestion.cwnd(), 11_000);
    }

    #[test]
    fn the_third_duplicate_halves_the_window_and_a_full_acknowledgment_ends_recovery() {
        let mut congestion = Congestion::new(1000);
        let sent = Seq(10_000);
        assert_eq!(congestion.duplicate(Seq(0), sent, 10_000), Verdict::Continue);
        assert_eq!(congestion.duplicate(Seq(0), sent, 10_000), Verdict::Continue);
        assert_eq!(congestion.duplicate(Seq(0), sent, 10_000), Verdict::Retransmit);
        assert_eq!((congestion.ssthresh(), congestion.cwnd()), (5000, 8000));
        assert_eq!(congestion.duplicate(Seq(0), sent, 10_000), Verdict::Continue);
        assert_eq!(congestion.cwnd(), 9000);
        assert_eq!(congestion.acknowledged(Seq(4000), 4000, 6000), Verdict::Retransmit);
        assert_eq!(congestion.cwnd(), 6000);
        assert_eq!(congestion.acknowledged(sent, 6000, 0), Verdict::Continue);
        assert_eq!(congestion.phase, Phase::Open);
        assert_eq!(congestion.cwnd(), 2000);
    }

    #[test]
    fn duplicates_of_what_a_timeout_repaired_start_no_recovery() {
        let mut congestion = Congestion::new(1000);
        congestion.timed_out(true, Seq(5000), 5000);
        for _ in 0..5 {
            assert_eq!(congestion.duplicate(Seq(5000), Seq(6000), 1000), Verdict::Continue);
        }
    }

    #[test]
    fn only_the_first_timeout_of_the_same_data_lowers_the_threshold() {
        let mut congestion = Congestion::new(1000);
        congestion.timed_out(true, Seq(8000), 8000);
        congestion.timed_out(false, Seq(8000), 1000);
        assert_eq!((congestion.ssthresh(), congestion.cwnd()), (4000, 1000));
    }
}
