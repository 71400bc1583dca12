//! TIMEOUTS (RFC 9293 §3.10.8), and how long each timer runs.

use super::connection::{AckOwed, Connection, State};
use super::status::Ending;
use crate::cx::Cx;
use crate::meter::{Counter, Quantity};
use crate::time::{Duration, Instant};

/// R2 (RFC 9293 §3.8.3, at least 100 s): how long data may stay unacknowledged.
const GIVE_UP_AFTER: Duration = Duration::from_secs(120);
/// And how many timeouts that has to be: with a long timeout a few losses prove nothing.
const GIVE_UP_TIMEOUTS: u32 = 6;
/// R2 for a SYN, at least three minutes (MUST-23).
const GIVE_UP_SYN_AFTER: Duration = Duration::from_secs(180);
/// How long what the user has given up may wait for the peer's FIN or for its window. RFC 9293
/// sets no limit; without one a peer that goes away holds the connection for ever (attack row 34).
const GIVE_UP_RELEASED_AFTER: Duration = Duration::from_secs(60);
/// RFC 9293 §3.8.6.1: probes back off like retransmissions, but never end.
const MAX_PERSIST: Duration = Duration::from_secs(60);
/// RFC 9293 §3.8.6.2.1: how long a small segment waits for a larger window, 0.1 to 1 s.
const OVERRIDE: Duration = Duration::from_millis(200);

/// When each timer of a connection runs out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timers {
    pub(super) retransmit: Option<Instant>,
    /// When the data that is being retransmitted was first found missing, and how often since.
    pub(super) retransmitting: Option<(Instant, u32)>,
    pub(super) persist: Option<Instant>,
    pub(super) persist_backoffs: u32,
    /// When the window that is being probed was first probed.
    pub(super) probing_since: Option<Instant>,
    /// When a connection that its user has given up ends if the peer does not end it.
    pub(super) released: Option<Instant>,
    pub(super) time_wait: Option<Instant>,
    /// When the pace lets the next data leave.
    pub(super) pace: Option<Instant>,
}

impl Connection {
    /// Returns when [`Self::timeout`] has to be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let delayed_ack = match self.ack_owed {
            AckOwed::By(deadline) => Some(deadline),
            AckOwed::Nothing | AckOwed::Now => None,
        };
        let timers = &self.timers;
        let recovery = self.recovery.as_ref().and_then(|recovery| recovery.deadline());
        [timers.retransmit, timers.persist, timers.released, timers.time_wait, timers.pace]
            .into_iter()
            .chain([delayed_ack, recovery])
            .flatten()
            .min()
    }

    /// Does what is due; the segments that follow from it are sent at output.
    pub(super) fn timeout(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let is_due = |timer: Option<Instant>| timer.is_some_and(|at| at <= now);
        if matches!(self.ack_owed, AckOwed::By(deadline) if deadline <= cx.now) {
            cx.meter.count(Counter::TcpDelayedAckTimeouts);
            self.ack_owed = AckOwed::Now;
        }
        if is_due(self.timers.time_wait) {
            self.end(Ending::Closed);
        }
        if is_due(self.timers.released) {
            self.released_timeout(cx);
        }
        if is_due(self.timers.persist) {
            self.persist_timeout(cx);
        }
        if is_due(self.timers.pace) {
            self.timers.pace = None;
        }
        if is_due(self.recovery.as_ref().and_then(|recovery| recovery.deadline())) {
            self.recovery_timeout(cx);
        }
        if is_due(self.timers.retransmit) {
            self.retransmission_timeout(cx);
        }
    }

    /// Ends a connection that nothing is heard of.
    fn give_up(&mut self, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::TcpGivenUp);
        let is_unreachable = self.soft_error.is_some();
        self.end(if is_unreachable { Ending::Unreachable } else { Ending::TimedOut });
    }

    /// Limits how long a connection that nobody uses waits for the peer's FIN.
    fn released_timeout(&mut self, cx: &mut Cx<'_>) {
        let was_set = self.timers.released.take();
        if self.state != State::FinWait2 {
            return;
        }
        if was_set == Some(Instant::ZERO) {
            self.limit_released(cx.now);
        } else {
            self.give_up(cx);
        }
    }

    /// Starts the limit of a connection that waits for the peer's FIN, if nobody uses it.
    pub(super) fn limit_released(&mut self, now: Instant) {
        if self.is_released {
            self.timers.released = Some(now + GIVE_UP_RELEASED_AFTER);
        }
    }

    fn persist_timeout(&mut self, cx: &mut Cx<'_>) {
        self.timers.persist = None;
        let since = self.timers.probing_since.unwrap_or(cx.now);
        // MUST-37: a peer that keeps its window shut is probed for ever, but only if it answers
        // the probes, and only for a user who still waits for it.
        let silent = cx.now - self.heard_at.max(since);
        if silent >= GIVE_UP_AFTER || (self.is_released && cx.now - since >= GIVE_UP_RELEASED_AFTER)
        {
            return self.give_up(cx);
        }
        self.must_probe = true;
    }

    /// RFC 8985 §6.3 and §7.3.
    fn recovery_timeout(&mut self, cx: &mut Cx<'_>) {
        let srtt = self.rtt.srtt();
        let (must_probe, began_recovery) = self.recovery().timeout(srtt, cx.now);
        if must_probe {
            self.must_probe_tail = true;
            // The timeout counts from the probe on.
            self.restart_retransmit_timer(cx.now);
        }
        if began_recovery {
            cx.meter.count(Counter::TcpFastRetransmits);
            self.statistics.fast_retransmits += 1;
        }
    }

    fn retransmission_timeout(&mut self, cx: &mut Cx<'_>) {
        self.timers.retransmit = None;
        let (since, timeouts) = self.timers.retransmitting.unwrap_or((cx.now, 0));
        self.timers.retransmitting = Some((since, timeouts + 1));
        let is_opening = matches!(self.state, State::SynSent | State::SynReceived);
        let limit = if is_opening { GIVE_UP_SYN_AFTER } else { GIVE_UP_AFTER };
        if cx.now - since >= limit && timeouts >= GIVE_UP_TIMEOUTS {
            return self.give_up(cx);
        }
        cx.meter.count(Counter::TcpTimeouts);
        cx.meter.record(Quantity::RetransmissionTimeout, self.rtt.rto());
        self.statistics.timeouts += 1;
        self.rtt.back_off();
        self.timed = None;
        self.must_probe_tail = false;
        if is_opening {
            self.snd_nxt = self.snd_una;
            return;
        }
        // RFC 6298 (5.4): the earliest segment goes first, and all after it may be lost too.
        self.recovery().timed_out(timeouts == 0);
        if self.snd_wnd == 0 {
            // The peer has shut its window over what is out: it is asked for by probes.
            self.recovery().forget_flight();
            self.snd_nxt = self.snd_una;
        }
    }

    /// Starts the retransmission timer anew if anything is outstanding (RFC 6298 (5.1)-(5.3)).
    pub(super) fn restart_retransmit_timer(&mut self, now: Instant) {
        let is_outstanding = self.snd_nxt != self.snd_una;
        self.timers.retransmit = is_outstanding.then(|| now + self.rtt.rto());
    }

    /// Starts the persist timer: data waits, nothing is outstanding, and the window is too small.
    pub(super) fn start_persist_timer(&mut self, now: Instant) {
        if self.timers.persist.is_none() {
            let backoff = 1 << self.timers.persist_backoffs.min(10);
            let wait = if self.snd_wnd > 0 { OVERRIDE } else { self.rtt.rto() * backoff };
            self.timers.persist = Some(now + wait.min(MAX_PERSIST));
            // The peer, not the network, holds up from here on what was being retransmitted.
            self.timers.retransmitting = None;
        }
    }
}
