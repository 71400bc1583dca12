//! What is kept of a connection's recovery while nothing is out.
//!
//! Most of many connections are idle, and what watches a flight is larger than all the rest of a
//! connection. The table therefore lets only so many that have sent keep it ([`super::table`]);
//! the others keep what the next flight has to know: the window and its threshold, the least
//! round trip, what was learned about reordering, and the counts.
//!
//! A connection is settled when all that was sent is acknowledged, no recovery, probe or timer of
//! its is pending and nothing waits to be sent. What the growth of the window knows by time, the
//! epoch of CUBIC and the rounds of HyStart++, begins anew, as it would after a pause.

use super::congestion_window::SettledWindow;
use super::flight::RateSample;
use super::limits::Limits;
use super::rack::Learned;
use super::recovery::{Phase, Recovery};
use super::status::RecoveryStatus;

/// The memory of a settled connection.
#[derive(Clone, Debug)]
pub(super) struct Settled {
    pub(super) window: SettledWindow,
    pub(super) limits: Limits,
    pub(super) learned: Learned,
    pub(super) delivered: u64,
    pub(super) rate: Option<RateSample>,
    pub(super) reordering_max: u64,
}

impl Settled {
    /// STATUS.
    pub(super) fn status(&self) -> RecoveryStatus {
        RecoveryStatus {
            phase: Phase::Open,
            delivered: self.delivered,
            delivery_rate: self.rate.map(|rate| rate.bytes_per_s),
            is_rate_app_limited: self.rate.is_some_and(|rate| rate.is_app_limited),
            min_rtt: self.learned.min_rtt.get(),
            reordering: self.reordering_max,
            limited: self.limits.times(),
            ..RecoveryStatus::default()
        }
    }
}

/// The two ways in which a connection knows of losses and congestion.
#[derive(Clone, Copy, Debug)]
pub(super) enum Known<'a> {
    /// Something was sent lately.
    Busy(&'a Recovery),
    /// Nothing is out.
    Settled(&'a Settled),
}

impl Known<'_> {
    pub(super) fn cwnd(self) -> u32 {
        match self {
            Self::Busy(recovery) => recovery.window.cwnd(),
            Self::Settled(settled) => settled.window.cwnd,
        }
    }

    pub(super) fn ssthresh(self) -> u32 {
        match self {
            Self::Busy(recovery) => recovery.window.ssthresh(),
            Self::Settled(settled) => settled.window.ssthresh,
        }
    }

    pub(super) fn status(self) -> RecoveryStatus {
        match self {
            Self::Busy(recovery) => recovery.status(),
            Self::Settled(settled) => settled.status(),
        }
    }
}
