//! The retransmission timeout, computed from round-trip times (RFC 6298).

use super::profile::Retransmission;
use super::seq::Seq;
use crate::time::{Duration, Instant};
use core::num::NonZeroU64;

/// Timeout before the first measurement (RFC 6298 (2.1)).
const INITIAL_RTO: Duration = Duration::from_secs(1);
/// Timeout of the first data if the SYN was lost (RFC 6298 (5.7)).
const RTO_AFTER_LOST_SYN: Duration = Duration::from_secs(3);
/// Maximum timeout. It must be at least 60 s (RFC 6298 (2.5)).
const MAX_RTO: Duration = Duration::from_secs(60);
/// Maximum round-trip time; a longer measurement counts as this value.
const MAX_RTT: Duration = Duration::from_secs(3600);

/// The smoothed round-trip time, its variation, and the timeout computed from them.
#[derive(Clone, Copy, Debug)]
pub(super) struct RttEstimator {
    /// Smoothed round-trip time and its variation, in nanoseconds, because every acknowledgment
    /// updates them.
    smoothed: Option<(NonZeroU64, u64)>,
    rto_ns: u64,
    backoffs: u32,
    rto_margin_ns: u64,
    retransmission: Retransmission,
    timed_syn: Option<TimedSyn>,
}

/// A SYN whose round-trip time is measured. The measurement is dropped if the SYN is retransmitted
/// (Karn).
#[derive(Clone, Copy, Debug)]
struct TimedSyn {
    end: Seq,
    sent_at: Instant,
}

impl RttEstimator {
    /// Returns an estimator without a measurement. `rto_min` is the minimum difference between the
    /// timeout and the round-trip time.
    #[must_use]
    pub(super) fn new(rto_min: Duration) -> Self {
        let rto_margin_ns = nanos(rto_min);
        let rto_ns = nanos(INITIAL_RTO);
        let retransmission = Retransmission::BacksOff;
        let timed_syn = None;
        Self { smoothed: None, rto_ns, backoffs: 0, rto_margin_ns, retransmission, timed_syn }
    }

    /// Sets the rule for the timeout after an unanswered retransmission.
    #[must_use]
    pub(super) const fn with_retransmission(self, retransmission: Retransmission) -> Self {
        Self { retransmission, ..self }
    }

    /// Starts the measurement of a SYN whose last sequence number is before `end`.
    pub(super) fn syn_was_sent(&mut self, end: Seq, now: Instant) {
        self.timed_syn = Some(TimedSyn { end, sent_at: now });
    }

    /// Drops the measurement of a SYN, because it may be retransmitted.
    pub(super) fn drop_syn(&mut self) {
        self.timed_syn = None;
    }

    /// Ends the measurement of a SYN that `ack` acknowledges, and returns the result.
    pub(super) fn syn_acknowledged(&mut self, ack: Seq, now: Instant) -> Option<Duration> {
        let timed_syn = self.timed_syn.take_if(|timed_syn| !ack.is_before(timed_syn.end))?;
        let rtt = now - timed_syn.sent_at;
        self.measured(rtt);
        Some(rtt)
    }

    /// Processes a measurement of a segment that was never retransmitted (Karn).
    pub(super) fn measured(&mut self, rtt: Duration) {
        // RFC 6298 (2.2) and (2.3): the variation is updated before the average. Alpha is 1/8, and
        // beta is 1/4.
        let rtt = nanos(rtt.min(MAX_RTT));
        let (srtt, rttvar) = match self.smoothed {
            None => (rtt, rtt / 2),
            Some((srtt, rttvar)) => {
                let variation = srtt.get().abs_diff(rtt);
                ((srtt.get() * 7 + rtt) / 8, (rttvar * 3 + variation) / 4)
            }
        };
        self.smoothed = Some((NonZeroU64::new(srtt).unwrap_or(NonZeroU64::MIN), rttvar));
        // The minimum applies to the margin, not to the whole timeout. On a long path without
        // variation the margin would otherwise be zero, and a delayed acknowledgment of the peer
        // would exceed the timeout.
        self.rto_ns = srtt.saturating_add((rttvar * 4).max(self.rto_margin_ns)).min(nanos(MAX_RTO));
        self.backoffs = 0;
    }

    /// Records an unanswered retransmission. The timeout doubles (5.5), unless it is fixed.
    pub(super) fn back_off(&mut self) {
        self.backoffs += 1;
    }

    /// Records that the SYN was retransmitted before it was answered (5.7).
    pub(super) fn syn_was_lost(&mut self) {
        if self.smoothed.is_none() {
            self.rto_ns = nanos(RTO_AFTER_LOST_SYN);
        }
        self.backoffs = 0;
    }

    /// Returns the current timeout.
    #[must_use]
    pub(super) fn rto(&self) -> Duration {
        let doublings = match self.retransmission {
            Retransmission::BacksOff => self.backoffs.min(10),
            Retransmission::Fixed => 0,
        };
        // One minute times 2^10 does not overflow.
        Duration::from_nanos(self.rto_ns << doublings).min(MAX_RTO)
    }

    /// Returns the number of timeouts since the last measurement. An acknowledgment of
    /// retransmitted data does not reset this number, because it may answer the first transmission
    /// (Karn).
    #[must_use]
    pub(super) fn backoffs(&self) -> u32 {
        self.backoffs
    }

    /// Returns the smoothed round-trip time, or `None` before the first measurement.
    #[must_use]
    pub(super) fn srtt(&self) -> Option<Duration> {
        self.smoothed.map(|(srtt, _)| Duration::from_nanos(srtt.get()))
    }

    /// Returns the variation of the round-trip time, or `None` before the first measurement.
    #[must_use]
    pub(super) fn rttvar(&self) -> Option<Duration> {
        self.smoothed.map(|(_, rttvar)| Duration::from_nanos(rttvar))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_measurement_gives_three_times_itself() {
        let mut rtt = RttEstimator::new(MS);
        assert_eq!(rtt.rto(), MS * 1000);
        rtt.measured(MS * 100);
        assert_eq!((rtt.srtt(), rtt.rttvar()), (Some(MS * 100), Some(MS * 50)));
        assert_eq!(rtt.rto(), MS * 300);
    }

    #[test]
    fn a_steady_round_trip_keeps_the_minimum_margin() {
        let mut rtt = RttEstimator::new(MS * 200);
        (0..100).for_each(|_| rtt.measured(MS * 300));
        assert_eq!(rtt.rto(), MS * 500);
    }

    #[test]
    fn the_timeout_doubles_up_to_a_minute_and_a_measurement_ends_that() {
        let mut rtt = RttEstimator::new(MS * 200);
        rtt.back_off();
        assert_eq!(rtt.rto(), MS * 2000);
        (0..40).for_each(|_| rtt.back_off());
        assert_eq!(rtt.rto(), MAX_RTO);
        rtt.measured(MS * 100);
        assert_eq!(rtt.rto(), MS * 300);
    }

    #[test]
    fn a_fixed_timeout_never_changes() {
        let mut rtt = RttEstimator::new(MS * 200).with_retransmission(Retransmission::Fixed);
        (0..40).for_each(|_| rtt.back_off());
        assert_eq!((rtt.rto(), rtt.backoffs()), (MS * 1000, 40));
    }

    #[test]
    fn a_lost_syn_gives_three_seconds_for_the_data() {
        let mut rtt = RttEstimator::new(MS * 200);
        rtt.back_off();
        rtt.syn_was_lost();
        assert_eq!(rtt.rto(), MS * 3000);
    }
}
