//! TIMEOUTS (RFC 9293 §3.10.8), and how long each timer runs.

use super::connection::{AckOwed, Connection, State};
use super::status::Ending;
use crate::cx::Cx;
use crate::meter::{Counter, Quantity};
use crate::time::{Duration, Instant};

/// R2 (RFC 9293 §3.8.3, at least 100 s): how long data may stay unacknowledged.
const GIVE_UP_AFTER: Duration = Duration::from_secs(120);
/// R2 for a SYN, at least three minutes (MUST-23).
const GIVE_UP_SYN_AFTER: Duration = Duration::from_secs(180);
/// RFC 9293 §3.8.6.1: probes back off like retransmissions, but never end.
const MAX_PERSIST: Duration = Duration::from_secs(60);
/// RFC 9293 §3.8.6.2.1: how long a small segment waits for a larger window, 0.1 to 1 s.
const OVERRIDE: Duration = Duration::from_millis(200);

/// When each timer of a connection runs out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timers {
    pub(super) retransmit: Option<Instant>,
    /// When the data that is being retransmitted was first found missing.
    pub(super) retransmitting_since: Option<Instant>,
    pub(super) persist: Option<Instant>,
    pub(super) persist_backoffs: u32,
    pub(super) time_wait: Option<Instant>,
}

impl Connection {
    /// Returns when [`Self::timeout`] has to be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let delayed_ack = match self.ack_owed {
            AckOwed::By(deadline) => Some(deadline),
            AckOwed::Nothing | AckOwed::Now => None,
        };
        let timers = &self.timers;
        [timers.retransmit, timers.persist, timers.time_wait, delayed_ack]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does what is due; the segments that follow from it are sent at output.
    pub(super) fn timeout(&mut self, cx: &mut Cx<'_>) {
        let is_due = |timer: Option<Instant>| timer.is_some_and(|at| at <= cx.now);
        if matches!(self.ack_owed, AckOwed::By(deadline) if deadline <= cx.now) {
            cx.meter.count(Counter::TcpDelayedAckTimeouts);
            self.ack_owed = AckOwed::Now;
        }
        if is_due(self.timers.time_wait) {
            self.end(Ending::Closed);
        }
        if is_due(self.timers.persist) {
            self.timers.persist = None;
            self.must_probe = true;
        }
        if is_due(self.timers.retransmit) {
            self.retransmission_timeout(cx);
        }
    }

    fn retransmission_timeout(&mut self, cx: &mut Cx<'_>) {
        self.timers.retransmit = None;
        let since = *self.timers.retransmitting_since.get_or_insert(cx.now);
        let is_opening = matches!(self.state, State::SynSent | State::SynReceived);
        let limit = if is_opening { GIVE_UP_SYN_AFTER } else { GIVE_UP_AFTER };
        // MUST-37: a peer that keeps its window shut is probed for ever, if only it answers.
        let is_shut = !is_opening && self.snd_wnd == 0;
        if cx.now - since >= limit && !is_shut {
            cx.meter.count(Counter::TcpGivenUp);
            return self.end(Ending::TimedOut);
        }
        cx.meter.count(Counter::TcpTimeouts);
        cx.meter.record(Quantity::RetransmissionTimeout, self.rtt.rto());
        self.statistics.timeouts += 1;
        if !is_opening {
            let flight = self.snd_max.since(self.snd_una);
            self.congestion.timed_out(self.rtt.backoffs() == 0, self.snd_max, flight);
        }
        self.rtt.back_off();
        self.timed = None;
        self.must_retransmit = false;
        // RFC 6298 (5.4): the earliest segment goes first, and all after it may be lost too.
        self.snd_nxt = self.snd_una;
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
        }
    }
}
