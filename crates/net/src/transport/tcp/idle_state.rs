//! The reduced recovery state of a connection with nothing outstanding.
//!
//! On a host with many connections most of them are idle, and the state of loss recovery is larger
//! than the rest of a connection. The table therefore limits the number of connections that keep
//! the full state after sending ([`super::table`]). Every other connection keeps only the state
//! that its next flight needs: the window and its threshold, the minimum round trip, the learned
//! reordering, and the counters.
//!
//! A connection is *settled* when all sent data is acknowledged, no recovery, probe or timer is
//! pending, and no data waits to be sent. The epoch of CUBIC and the rounds of HyStart++ are not
//! kept. They restart, as after any pause.

use super::congestion_window::IdleWindow;
use super::flight::RateSample;
use super::limited_time::Limits;
use super::phase::Phase;
use super::rack::LearnedPath;
use super::status::RecoveryStatus;

/// The reduced state of a settled connection.
#[derive(Clone, Debug)]
pub(super) struct IdleState {
    pub(super) window: IdleWindow,
    pub(super) limits: Limits,
    pub(super) learned: LearnedPath,
    pub(super) delivered: u64,
    pub(super) rate: Option<RateSample>,
    pub(super) reordering_max: u64,
}

impl IdleState {
    /// STATUS: returns the state of the recovery.
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
