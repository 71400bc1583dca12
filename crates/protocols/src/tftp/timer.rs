//! The retransmission timer, based on the measured round trip (RFC 1123 §4.2.3.2).
//!
//! The round-trip time and its variation are estimated with Jacobson's algorithm, as in TCP (RFC
//! 6298). The lower bound of the interval is only 20 ms, because the peer of a lock-step transfer
//! has no reason to delay its answers. The round trip of a retransmitted packet is not measured
//! (Karn's algorithm), and each retransmission doubles the interval. A timeout that both ends
//! agreed to (RFC 2349) replaces the estimate.

use super::Settings;
use net::time::{Duration, Instant};

const INITIAL_INTERVAL: Duration = Duration::from_secs(1);
const INTERVAL_MIN: Duration = Duration::from_millis(20);
const INTERVAL_MAX: Duration = Duration::from_secs(8);

#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    idle_timeout: Duration,
    /// Number of intervals before the timer expires: 1 for a sender, 2 for a receiver, so that the
    /// sender retransmits first.
    factor: u32,
    agreed_interval: Option<Duration>,
    /// The smoothed round-trip time and its variation.
    round_trip: Option<(Duration, Duration)>,
    doublings: u32,
    due: Option<Instant>,
    /// Time of the last datagram that made progress.
    received_at: Instant,
}

/// Result of checking the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// The timer has not expired.
    NotYet,
    /// The last packets are to be sent again.
    Repeat,
    /// The peer has been silent for too long; the transfer fails.
    GiveUp,
}

impl Timer {
    pub(super) const fn for_sender(settings: &Settings, now: Instant) -> Self {
        Self::new(settings, 1, now)
    }

    pub(super) const fn for_receiver(settings: &Settings, now: Instant) -> Self {
        Self::new(settings, 2, now)
    }

    const fn new(settings: &Settings, factor: u32, now: Instant) -> Self {
        Self {
            idle_timeout: settings.idle_timeout,
            factor,
            agreed_interval: None,
            round_trip: None,
            doublings: 0,
            due: None,
            received_at: now,
        }
    }

    pub(super) fn agree(&mut self, timeout_s: Option<u8>) {
        self.agreed_interval = timeout_s.map(|seconds| Duration::from_secs(seconds.into()));
    }

    /// Starts the timer: a packet that needs an answer has been sent.
    pub(super) fn start(&mut self, now: Instant) {
        let due = now + self.retransmission_interval() * self.factor;
        self.due = Some(due.min(self.received_at + self.idle_timeout).max(now));
    }

    /// Restarts the idle timeout, since the local end had nothing to send.
    pub(super) const fn restart_idle_timeout(&mut self, now: Instant) {
        self.received_at = now;
    }

    /// Sets the timer to expire after `waits` retransmission intervals, after which nothing is
    /// retransmitted.
    pub(super) fn dally(&mut self, waits: u32, now: Instant) {
        self.due = Some(now + self.retransmission_interval() * waits);
    }

    pub(super) fn stop(&mut self) {
        self.due = None;
    }

    /// Records a datagram that made progress. `round_trip` is the measured time between a sent
    /// packet and this datagram, which answers it.
    pub(super) fn record_progress(&mut self, round_trip: Option<Duration>, now: Instant) {
        self.received_at = now;
        self.doublings = 0;
        let Some(sample) = round_trip else { return };
        self.round_trip = Some(match self.round_trip {
            None => (sample, sample / 2),
            Some((smoothed, variation)) => {
                let error = smoothed.abs_diff(sample);
                ((smoothed * 7 + sample) / 8, (variation * 3 + error) / 4)
            }
        });
    }

    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn expire(&mut self, now: Instant) -> Expiry {
        if self.due.is_none_or(|due| now < due) {
            return Expiry::NotYet;
        }
        self.due = None;
        if now.since(self.received_at) >= self.idle_timeout {
            return Expiry::GiveUp;
        }
        self.doublings += 1;
        Expiry::Repeat
    }

    /// Returns the retransmission interval.
    fn retransmission_interval(&self) -> Duration {
        if let Some(agreed_interval) = self.agreed_interval {
            return agreed_interval;
        }
        let base_interval = self
            .round_trip
            .map_or(INITIAL_INTERVAL, |(smoothed, variation)| smoothed + variation * 4);
        let backoff_factor = 1_u32.checked_shl(self.doublings.min(10)).unwrap_or(1);
        (base_interval.max(INTERVAL_MIN) * backoff_factor).min(INTERVAL_MAX)
    }
}
