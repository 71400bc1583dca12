//! Timer that repeats an unanswered request, and limits the number and the time of repetitions.

use net::time::{Duration, Instant};

/// Maximum number of repetitions without progress: "ten errors" of the protocol references.
const ATTEMPTS_MAX: u8 = 10;
/// Time without progress after which a request is not repeated. Our choice: the programs of lrzsz also
/// give up after about a minute.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// Result of [`RetryTimer::expire`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryExpiry {
    /// The deadline has not passed.
    NotYet,
    /// The request is to be repeated.
    Repeat,
    /// The request was repeated too often.
    GiveUp,
}

/// Deadline for the peer's next message, and the number of failures since the last progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryTimer {
    deadline: Option<Instant>,
    failures: u8,
    /// Time of the last progress, or of the first start.
    progress_at: Option<Instant>,
}

impl RetryTimer {
    /// A timer without a deadline.
    pub(crate) const STOPPED: Self = Self { deadline: None, failures: 0, progress_at: None };

    /// Sets the deadline to `interval` after `now`.
    pub(crate) fn start(&mut self, now: Instant, interval: Duration) {
        self.progress_at.get_or_insert(now);
        self.deadline = Some(now + interval);
    }

    /// Removes the deadline.
    pub(crate) const fn stop(&mut self) {
        self.deadline = None;
    }

    /// Returns the deadline.
    pub(crate) const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Forgets the failures, because the transfer has made progress.
    pub(crate) const fn record_progress(&mut self, now: Instant) {
        self.failures = 0;
        self.progress_at = Some(now);
    }

    /// Counts a failure; returns whether there were too many.
    pub(crate) const fn record_failure(&mut self) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.failures > ATTEMPTS_MAX
    }

    /// Returns the number of failures since the last progress.
    pub(crate) const fn failures(&self) -> u8 {
        self.failures
    }

    /// Checks the deadline; an expiry is a failure and stops the timer.
    pub(crate) fn expire(&mut self, now: Instant) -> RetryExpiry {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return RetryExpiry::NotYet;
        }
        self.deadline = None;
        let is_silent = self.progress_at.is_some_and(|at| now - at >= SILENCE_TIMEOUT);
        if self.record_failure() || is_silent { RetryExpiry::GiveUp } else { RetryExpiry::Repeat }
    }
}
