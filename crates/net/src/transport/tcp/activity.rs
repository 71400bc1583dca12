//! The times at which a connection was last active.

use crate::time::Instant;

/// The times of the last segments in both directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activity {
    last_sent_at: Instant,
    last_received_at: Instant,
}

impl Activity {
    /// Describes a connection that is opened at `now`.
    pub(super) const fn new(now: Instant) -> Self {
        Self { last_sent_at: now, last_received_at: now }
    }

    /// Records that a segment with sequence numbers is sent.
    pub(super) const fn sent(&mut self, now: Instant) {
        self.last_sent_at = now;
    }

    /// Records that an acceptable segment arrives.
    pub(super) const fn received(&mut self, now: Instant) {
        self.last_received_at = now;
    }

    /// Returns when the last segment with sequence numbers was sent.
    pub(super) const fn last_sent_at(&self) -> Instant {
        self.last_sent_at
    }

    /// Returns when the last acceptable segment arrived.
    pub(super) const fn last_received_at(&self) -> Instant {
        self.last_received_at
    }
}
