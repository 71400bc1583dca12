//! The timers of a connection (RFC 9293 §3.10.8), and the probes that are due because one of them
//! has expired.
//!
//! `timeouts.rs` determines their durations.

use crate::time::Instant;

/// The timers of a connection, except that of a delayed acknowledgment and those of the recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timers {
    retransmit: Option<Instant>,
    /// Time at which the data being retransmitted was first found missing.
    retransmitting_since: Option<Instant>,
    persist: Option<Instant>,
    /// Time at which the current zero window was first probed.
    probing_since: Option<Instant>,
    /// Time at which a released connection ends if the peer does not end it earlier.
    released: Option<Instant>,
    time_wait: Option<Instant>,
    keep_alive: Option<Instant>,
    /// Time at which the last keep-alive probe was scheduled.
    probed_at: Instant,
    /// Time at which pacing allows the next data.
    pace: Option<Instant>,
    /// Number of timeouts since `retransmitting_since`.
    timeouts: u32,
    persist_backoffs: u32,
    /// Number of keep-alive probes since the last received segment.
    unanswered: u32,
    /// Whether the segment of the retransmission timer still waits for output, which may never
    /// resume.
    is_held_up: bool,
    /// Whether a window probe is due: the window is too small, and the persist timer has expired.
    must_probe: bool,
    must_keep_alive: bool,
}

/// A timer that expires at the first check, because the current time is unknown when it starts.
const AT_FIRST_CHECK: Instant = Instant::ZERO;

fn is_due(timer: Option<Instant>, now: Instant) -> bool {
    timer.is_some_and(|at| at <= now)
}

impl Timers {
    /// Returns when the first timer expires, or `u64::MAX`.
    pub(super) fn earliest_nanos(&self) -> u64 {
        // This function is called several times per segment, so it avoids a branch for each timer.
        let first = nanos_of(self.retransmit).min(nanos_of(self.persist));
        let second = nanos_of(self.time_wait).min(nanos_of(self.pace));
        let third = nanos_of(self.released).min(nanos_of(self.keep_alive));
        first.min(second).min(third)
    }

    /// Stops all timers at the end of the connection.
    pub(super) fn stop_all(&mut self) {
        let Self { must_probe, must_keep_alive, .. } = *self;
        *self = Self { must_probe, must_keep_alive, ..Self::default() };
    }

    /// Starts the timer of TIME-WAIT, in which no other timer matters.
    pub(super) fn start_time_wait(&mut self, end: Instant) {
        self.retransmit = None;
        self.persist = None;
        self.released = None;
        self.time_wait = Some(end);
    }

    pub(super) fn is_time_wait_over(&self, now: Instant) -> bool {
        is_due(self.time_wait, now)
    }

    /// Returns when the retransmission timer expires.
    pub(super) fn retransmit(&self) -> Option<Instant> {
        self.retransmit
    }

    pub(super) fn set_retransmit(&mut self, end: Option<Instant>) {
        self.retransmit = end;
    }

    pub(super) fn is_retransmit_due(&self, now: Instant) -> bool {
        is_due(self.retransmit, now)
    }

    /// Starts the retransmission timer for a segment that waits for output.
    pub(super) fn hold_up_until(&mut self, end: Instant) {
        self.retransmit = Some(end);
        self.is_held_up = true;
    }

    /// Like [`Self::hold_up_until`], while the current time is unknown. Does nothing if the
    /// retransmission timer or the persist timer is running.
    pub(super) fn hold_up(&mut self) {
        if self.retransmit.is_none() && self.persist.is_none() {
            self.hold_up_until(AT_FIRST_CHECK);
        }
    }

    /// Returns whether the retransmission timer has no end yet, because it was started by
    /// [`Self::hold_up`].
    pub(super) fn has_no_retransmit_end(&self) -> bool {
        self.retransmit == Some(AT_FIRST_CHECK)
    }

    /// Returns whether the segment of the retransmission timer still waits for output.
    pub(super) fn is_held_up(&self) -> bool {
        self.is_held_up
    }

    /// Sets whether the segment of the retransmission timer waits for output. Returns whether it
    /// has waited before.
    pub(super) fn replace_held_up(&mut self, is_held_up: bool) -> bool {
        core::mem::replace(&mut self.is_held_up, is_held_up)
    }

    /// Records an expired retransmission timer. Returns the time of the first one for this data,
    /// and the number of timeouts before this one.
    pub(super) fn retransmit_expired(&mut self, now: Instant) -> (Instant, u32) {
        self.retransmit = None;
        let timeouts = if self.retransmitting_since.is_some() { self.timeouts } else { 0 };
        let since = *self.retransmitting_since.get_or_insert(now);
        self.timeouts = timeouts + 1;
        (since, timeouts)
    }

    /// Returns the time at which the data being retransmitted was first found missing.
    pub(super) fn retransmitting_since(&self) -> Option<Instant> {
        self.retransmitting_since
    }

    /// Returns the number of timeouts of the data being retransmitted.
    pub(super) fn consecutive_timeouts(&self) -> u32 {
        if self.retransmitting_since.is_some() { self.timeouts } else { 0 }
    }

    /// Records that no data is being retransmitted.
    pub(super) fn retransmitted(&mut self) {
        self.retransmitting_since = None;
    }

    pub(super) fn is_persist_running(&self) -> bool {
        self.persist.is_some()
    }

    pub(super) fn is_persist_due(&self, now: Instant) -> bool {
        is_due(self.persist, now)
    }

    pub(super) fn start_persist(&mut self, end: Instant) {
        self.persist = Some(end);
        if core::mem::take(&mut self.is_held_up) {
            self.retransmit = None;
        }
        // From now on the data being retransmitted is delayed by the peer's window, not by the
        // network.
        self.retransmitting_since = None;
    }

    /// Makes a window probe due if `must_probe` is true.
    pub(super) fn persist_expired(&mut self, must_probe: bool) {
        self.persist = None;
        self.must_probe = must_probe;
    }

    pub(super) fn stop_persist(&mut self) {
        self.persist = None;
    }

    /// Returns whether a window probe is due.
    pub(super) fn must_probe(&self) -> bool {
        self.must_probe
    }

    pub(super) fn take_probe(&mut self) -> bool {
        core::mem::take(&mut self.must_probe)
    }

    /// Records the probe of a zero window.
    pub(super) fn probe_sent(&mut self, now: Instant) {
        self.persist_backoffs += 1;
        self.probing_since.get_or_insert(now);
        self.persist = None;
    }

    pub(super) fn persist_backoffs(&self) -> u32 {
        self.persist_backoffs
    }

    /// Returns the time at which the current zero window was first probed.
    pub(super) fn probing_since(&self) -> Option<Instant> {
        self.probing_since
    }

    /// Records that the peer's window is not zero.
    pub(super) fn window_opened(&mut self) {
        self.persist = None;
        self.persist_backoffs = 0;
        self.probing_since = None;
    }

    /// Sets the time at which pacing allows the next data.
    pub(super) fn set_pace(&mut self, next_at: Option<Instant>) {
        self.pace = next_at;
    }

    /// Stops the timer of pacing if it is due.
    pub(super) fn expire_pace(&mut self, now: Instant) {
        self.pace = self.pace.filter(|at| *at > now);
    }

    /// Starts the time limit of a released connection, or sets its end.
    pub(super) fn limit_released(&mut self, end: Option<Instant>) {
        self.released = Some(end.unwrap_or(AT_FIRST_CHECK));
    }

    pub(super) fn is_released_due(&self, now: Instant) -> bool {
        is_due(self.released, now)
    }

    /// Stops the time limit of a released connection. Returns whether it had an end.
    pub(super) fn released_expired(&mut self) -> bool {
        self.released.take() != Some(AT_FIRST_CHECK)
    }

    /// Starts the keep-alive timer, or stops it if `end` is `None`. No probe was sent yet.
    pub(super) fn start_keep_alive(&mut self, end: Option<Instant>) {
        self.keep_alive = end;
        self.unanswered = 0;
    }

    pub(super) fn set_keep_alive(&mut self, end: Option<Instant>) {
        self.keep_alive = end;
    }

    pub(super) fn is_keep_alive_due(&self, now: Instant) -> bool {
        is_due(self.keep_alive, now)
    }

    /// Returns the time at which the last keep-alive probe was scheduled, and the number of probes
    /// without an answer. The last segment was received at `last_received_at`.
    pub(super) fn keep_alive_probes(&self, last_received_at: Instant) -> (Instant, u32) {
        let is_answered = last_received_at > self.probed_at;
        (self.probed_at, if is_answered { 0 } else { self.unanswered })
    }

    /// Schedules a keep-alive probe, the last of `unanswered` ones, and the next check.
    pub(super) fn schedule_keep_alive(&mut self, unanswered: u32, now: Instant, next: Instant) {
        self.probed_at = now;
        self.unanswered = unanswered;
        self.keep_alive = Some(next);
        self.must_keep_alive = true;
    }

    /// Returns whether a keep-alive probe is due.
    pub(super) fn must_keep_alive(&self) -> bool {
        self.must_keep_alive
    }

    pub(super) fn take_keep_alive(&mut self) -> bool {
        core::mem::take(&mut self.must_keep_alive)
    }
}

/// Returns the time of a timer as a number, or the maximum if it is off.
pub(super) fn nanos_of(timer: Option<Instant>) -> u64 {
    timer.map_or(u64::MAX, Instant::as_nanos)
}
