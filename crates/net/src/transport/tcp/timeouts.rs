//! TIMEOUTS (RFC 9293 §3.10.8), and the durations of the timers.

use super::connection::Connection;
use super::keep_alive::{self, Verdict};
use super::lifecycle::State;
use super::status::CloseReason;
use super::timers::nanos_of;
use super::user_timeout::Limit;
use crate::cx::Cx;
use crate::meter::{Counter, Quantity};
use crate::mutants::{Mutant, is_enabled};
use crate::time::{Duration, Instant};

/// Maximum time for which a released connection waits for the peer's FIN, or for the peer's window
/// to open. RFC 9293 sets no limit. Without a limit a connection to a vanished peer would remain
/// indefinitely (row 34 of the attack table).
const RELEASED_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum interval of window probes (RFC 9293 §3.8.6.1). Their intervals grow like those of
/// retransmissions, but their number is not limited.
const MAX_PERSIST_INTERVAL: Duration = Duration::from_secs(60);
/// Minimum interval of keep-alive checks of a busy connection.
const MIN_KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Time for which a small segment waits for a larger window. RFC 9293 §3.8.6.2.1 recommends 0.1 to
/// 1 s.
const OVERRIDE_TIMEOUT: Duration = Duration::from_millis(200);

impl Connection {
    /// Returns when [`Self::timeout`] has to be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let others = nanos_of(self.acks.deadline()).min(nanos_of(self.recovery_deadline()));
        let earliest = self.timers.earliest_nanos().min(others);
        (earliest < u64::MAX).then(|| Instant::from_nanos(earliest))
    }

    /// Returns the deadline of the recovery. A connection that has ended keeps its recovery state
    /// for STATUS, but has no deadline.
    fn recovery_deadline(&self) -> Option<Instant> {
        let recovery = self.recovery.full().filter(|_| self.state() != State::Closed);
        recovery.and_then(|recovery| recovery.deadline())
    }

    /// Processes the timers that are due. The resulting segments are sent at output.
    pub(super) fn timeout(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        if self.acks.deadline().is_some_and(|at| at <= now) {
            cx.meter.count(Counter::TcpDelayedAckTimeouts);
            self.acks.expedite();
        }
        if self.timers.is_time_wait_over(now) {
            self.end(CloseReason::Closed);
        }
        if self.timers.is_released_due(now) {
            self.released_timeout(cx);
        }
        if self.timers.is_persist_due(now) {
            self.persist_timeout(cx);
        }
        self.timers.expire_pace(now);
        if self.recovery_deadline().is_some_and(|at| at <= now) {
            self.recovery_timeout(cx);
        }
        if self.timers.has_no_retransmit_end() {
            self.expect_to_leave(now);
        } else if self.timers.is_retransmit_due(now) {
            self.retransmission_timeout(cx);
        }
        if self.timers.is_keep_alive_due(now) {
            self.keep_alive_timeout(cx);
        }
    }

    /// Starts the retransmission timer of a new connection before its SYN is sent. If the device
    /// accepts no packets, the SYN may never be sent, but the user must still be notified.
    pub(super) fn expect_to_leave(&mut self, now: Instant) {
        self.timers.hold_up_until(now + self.rtt.rto());
    }

    /// Starts the retransmission timer for data or a FIN that waits for output while nothing is
    /// outstanding. [`Self::expect_to_leave`] does this for a SYN.
    pub(super) fn wait_for_output(&mut self) {
        if self.state().emits_data() && self.has_only_unsent() {
            self.timers.hold_up();
        }
    }

    /// Returns whether data or a FIN waits to be sent while nothing is outstanding.
    fn has_only_unsent(&self) -> bool {
        self.snd.is_all_acknowledged() && !self.snd.is_at_end()
    }

    /// Ends a connection whose peer does not answer.
    fn give_up(&mut self, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::TcpGivenUp);
        let is_unreachable = self.reports.soft_error().is_some();
        self.end(if is_unreachable { CloseReason::Unreachable } else { CloseReason::TimedOut });
    }

    /// Limits how long a released connection waits for the peer's FIN.
    fn released_timeout(&mut self, cx: &mut Cx<'_>) {
        let has_expired = self.timers.released_expired();
        if self.state() != State::FinWait2 {
            return;
        }
        if has_expired {
            self.give_up(cx);
        } else {
            self.limit_released(cx.now);
        }
    }

    /// Starts the time limit of a released connection that waits for the peer's FIN.
    pub(super) fn limit_released(&mut self, now: Instant) {
        if self.lifecycle.is_released() {
            self.timers.limit_released(Some(now + RELEASED_TIMEOUT));
        }
    }

    fn persist_timeout(&mut self, cx: &mut Cx<'_>) {
        self.timers.stop_persist();
        let since = self.timers.probing_since().unwrap_or(cx.now);
        // MUST-37: a zero window is probed indefinitely, but only if the peer answers the probes,
        // and only while the user has not released the connection.
        let silence = cx.now - self.activity.last_received_at().max(since);
        let zero_window_time = cx.now - since;
        let limit = self.give_up_limit().time;
        let is_too_long = self.profile.user_timeout.r2.is_some() && zero_window_time >= limit;
        if silence >= limit
            || is_too_long
            || (self.lifecycle.is_released() && zero_window_time >= RELEASED_TIMEOUT)
        {
            return self.give_up(cx);
        }
        self.timers.persist_expired(!is_enabled(Mutant::NeverProbesZeroWindow));
        let has_more = self.snd.outstanding() == 0 && !self.snd.is_at_end();
        if self.timers.must_probe() && self.snd.wnd() == 0 && has_more && self.state().emits_data()
        {
            // The timer is restarted when the probe is sent. Because this may never happen, it is
            // also restarted here.
            self.start_persist_timer(cx.now);
        }
    }

    /// RFC 8985 §6.3 and §7.3: processes the timers of the recovery.
    fn recovery_timeout(&mut self, cx: &mut Cx<'_>) {
        let srtt = self.rtt.srtt();
        let (must_probe, began_recovery) = self.recovery().timeout(srtt, cx.now);
        if must_probe {
            self.recovery.request_tail_probe();
            // The retransmission timeout starts when the probe is sent.
            self.restart_retransmit_timer(cx.now);
        }
        self.forgive_lost_probe(began_recovery);
        if began_recovery {
            cx.meter.count(Counter::TcpFastRetransmits);
            self.statistics.count_fast_retransmit();
        }
    }

    fn retransmission_timeout(&mut self, cx: &mut Cx<'_>) {
        let (since, timeouts) = self.timers.retransmit_expired(cx.now);
        let is_opening = matches!(self.state(), State::SynSent | State::SynReceived);
        if !self.timers.is_held_up() {
            self.syn_timed_out();
        }
        let limit = self.give_up_limit();
        if cx.now - since >= limit.time && timeouts >= limit.timeouts {
            return self.give_up(cx);
        }
        if timeouts + 1 == self.profile.user_timeout.r1 {
            self.reports.suspect_route();
        }
        if self.timers.replace_held_up(true) {
            // Nothing has been sent, so the network cannot have lost anything.
            self.timers.set_retransmit(Some(self.retransmission_end(cx.now)));
            return;
        }
        cx.meter.count(Counter::TcpTimeouts);
        cx.meter.record(Quantity::RetransmissionTimeout, self.rtt.rto());
        self.statistics.count_timeout();
        self.rtt.back_off();
        // The timer is restarted when the segment is sent. Because this may never happen, it is
        // also restarted here.
        self.timers.set_retransmit(Some(self.retransmission_end(cx.now)));
        self.rtt.drop_syn();
        self.recovery.cancel_tail_probe();
        if is_opening {
            if is_enabled(Mutant::NeverRetransmitsSyn) {
                return;
            }
            // Data in the answer to a SYN with early data is retransmitted after the SYN.
            if let Some(recovery) = self.recovery.full_mut() {
                recovery.forget_flight();
            }
            self.snd.return_to_una();
            return;
        }
        self.path_timed_out(cx);
        // RFC 6298 (5.4): the earliest segment is retransmitted first. All segments after it may be
        // lost too.
        self.recovery().timed_out(timeouts == 0);
        if self.snd.wnd() == 0 {
            // The peer has shrunk its window below the outstanding data. Window probes are sent
            // instead.
            self.recovery().forget_flight();
            self.snd.return_to_una();
            self.timers.set_retransmit(None);
            self.start_persist_timer(cx.now);
        }
    }

    /// Returns R2 (RFC 9293 §3.8.3) of the SYN or of data.
    fn give_up_limit(&self) -> Limit {
        match self.state() {
            State::SynSent | State::SynReceived => self.profile.user_timeout.limit_of_syn(),
            _ => self.profile.user_timeout.limit(self.negotiated.peer_timeout()),
        }
    }

    /// Starts, moves or stops the keep-alive timer, as the profile specifies.
    pub(super) fn start_keep_alive_timer(&mut self) {
        let idle = self.profile.keep_alive.map(|policy| policy.idle);
        self.timers.start_keep_alive(idle.map(|idle| self.activity.last_received_at() + idle));
    }

    fn keep_alive_timeout(&mut self, cx: &mut Cx<'_>) {
        self.timers.set_keep_alive(None);
        let Some(policy) = self.profile.keep_alive else { return };
        let is_open = self.state().takes_data() || self.state() == State::FinWait2;
        if !is_open {
            return;
        }
        if !self.snd.is_all_acknowledged() || self.timers.is_persist_running() {
            // MUST-26: if data is outstanding or waits for a window, its retransmissions or probes
            // already check the peer.
            let next = cx.now + policy.idle.max(MIN_KEEP_ALIVE_INTERVAL);
            self.timers.set_keep_alive(Some(next));
            return;
        }
        let (probed_at, unanswered) =
            self.timers.keep_alive_probes(self.activity.last_received_at());
        match keep_alive::decide(
            &policy,
            self.activity.last_received_at(),
            probed_at,
            unanswered,
            cx.now,
        ) {
            Verdict::Wait(until) => self.timers.set_keep_alive(Some(until)),
            Verdict::Probe(until) => {
                self.timers.schedule_keep_alive(unanswered + 1, cx.now, until);
            }
            Verdict::GiveUp => self.give_up(cx),
        }
    }

    /// Restarts the retransmission timer if anything is outstanding (RFC 6298 (5.1)-(5.3)).
    pub(super) fn restart_retransmit_timer(&mut self, now: Instant) {
        let is_outstanding = self.snd.outstanding() > 0;
        let end = self.retransmission_end(now);
        let stops_retransmitting =
            is_enabled(Mutant::StopsRetransmitting) && self.timers.consecutive_timeouts() > 3;
        self.timers.set_retransmit((is_outstanding && !stops_retransmitting).then_some(end));
    }

    /// Returns when a retransmission timer that starts now expires.
    fn retransmission_end(&self, now: Instant) -> Instant {
        let rto = self.rtt.rto();
        let end = now + if is_enabled(Mutant::RetransmitsTooLate) { rto * 10 } else { rto };
        // The timer does not exceed a timeout that the user has set.
        let limit = self.profile.user_timeout.r2.and(self.timers.retransmitting_since());
        limit.map_or(end, |since| end.min(since + self.give_up_limit().time))
    }

    /// Starts the persist timer, because data waits, nothing is outstanding, and the window is too
    /// small.
    pub(super) fn start_persist_timer(&mut self, now: Instant) {
        if !self.timers.is_persist_running() {
            let backoff = 1 << self.timers.persist_backoffs().min(10);
            let wait = if self.snd.wnd() > 0 { OVERRIDE_TIMEOUT } else { self.rtt.rto() * backoff };
            let end = now + wait.min(MAX_PERSIST_INTERVAL);
            let limit = self.profile.user_timeout.r2.and(self.timers.probing_since());
            let end = limit.map_or(end, |since| end.min(since + self.give_up_limit().time));
            self.timers.start_persist(end);
        }
    }
}
