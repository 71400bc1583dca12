//! The acknowledgments that this end sends: when the next one is due (RFC 9293 §3.8.6.3), and how
//! many are sent for segments out of order (RFC 5681 §4.2) and for suspicious segments (RFC 5961).

use super::profile::Acknowledgment;
use super::seq::Seq;
use crate::time::{Duration, Instant};

/// Maximum number of challenge acknowledgments per connection and second. RFC 5961 §7 recommends
/// a limit and has 10 in 5 seconds as an example; this limit is higher because it also applies to the
/// answers to keep-alives and other unacceptable segments. A limit shared by all connections would
/// reveal the activity of one connection to another (row 29 of the attack table).
const CHALLENGES_PER_SECOND: u32 = 10;

/// Maximum delay of an acknowledgment. RFC 9293 §3.8.6.3 (MUST-40) requires less than 0.5 s.
const ACK_DELAY_MAX: Duration = Duration::from_millis(499);

/// Maximum number of duplicate acknowledgments queued for output. The peer needs three of them to
/// detect a loss.
const MAX_DUPLICATE_ACKS: u32 = 64;

/// The acknowledgments to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acknowledgments {
    pending: PendingAck,
    /// Number of additional acknowledgments to send for segments out of order. The peer counts
    /// them.
    duplicates: u32,
    /// Number of data bytes received since the last acknowledgment was sent.
    unacknowledged: u32,
    /// The acknowledgment number that was sent last (Last.ACK.sent of RFC 7323 §4.3).
    last_sent: Seq,
    /// Number of challenge acknowledgments since `challenged_at`.
    challenges: u32,
    challenged_at: Instant,
}

/// When the next acknowledgment must be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingAck {
    Nothing,
    /// At this time, or earlier if data is sent that can carry the acknowledgment.
    By(Instant),
    /// At the next output.
    Now,
}

impl Acknowledgments {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            pending: PendingAck::Nothing,
            duplicates: 0,
            unacknowledged: 0,
            last_sent: Seq(0),
            challenges: 0,
            challenged_at: now,
        }
    }

    /// Processes the peer's SYN: the acknowledgment number of the answer is `nxt`.
    pub(super) fn synchronize(&mut self, nxt: Seq) {
        self.last_sent = nxt;
    }

    /// Returns the acknowledgment number that was sent last.
    pub(super) fn last_sent(&self) -> Seq {
        self.last_sent
    }

    /// Makes an acknowledgment due at the next output.
    pub(super) fn send_now(&mut self) {
        self.pending = PendingAck::Now;
    }

    /// Returns whether an acknowledgment is due at the next output.
    pub(super) fn is_due(&self) -> bool {
        self.pending == PendingAck::Now
    }

    /// Returns whether an acknowledgment is due now or later.
    pub(super) fn is_pending(&self) -> bool {
        self.pending != PendingAck::Nothing
    }

    /// Cancels the pending acknowledgment.
    pub(super) fn cancel(&mut self) {
        self.pending = PendingAck::Nothing;
    }

    /// Schedules the acknowledgment of `len` bytes. It is sent within 0.5 s whatever the profile
    /// specifies (MUST-40), and once `interval` bytes are unacknowledged.
    pub(super) fn schedule(
        &mut self,
        len: usize,
        interval: u32,
        needs_immediate_ack: bool,
        policy: Acknowledgment,
        now: Instant,
    ) {
        self.unacknowledged += u32::try_from(len).unwrap_or(0);
        self.pending = match (policy, self.pending) {
            (Acknowledgment::AtOutput, _) | (_, PendingAck::Now) => PendingAck::Now,
            _ if needs_immediate_ack || self.unacknowledged >= interval => PendingAck::Now,
            (Acknowledgment::Delayed(_), PendingAck::By(deadline)) => PendingAck::By(deadline),
            (Acknowledgment::Delayed(time), PendingAck::Nothing) => {
                PendingAck::By(now + time.min(ACK_DELAY_MAX))
            }
        };
    }

    /// Adds an acknowledgment if one is due already. RFC 5681 §4.2: each segment out of order is
    /// answered, even if several arrive before the next output.
    pub(super) fn add_duplicate(&mut self) {
        if self.is_due() {
            self.duplicates = MAX_DUPLICATE_ACKS.min(self.duplicates + 1);
        }
    }

    /// Returns when a delayed acknowledgment is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.pending {
            PendingAck::By(deadline) => Some(deadline),
            PendingAck::Nothing | PendingAck::Now => None,
        }
    }

    /// Makes a delayed acknowledgment due at the next output. Returns whether such an
    /// acknowledgment was pending.
    pub(super) fn expedite(&mut self) -> bool {
        let is_delayed = matches!(self.pending, PendingAck::By(_));
        if is_delayed {
            self.pending = PendingAck::Now;
        }
        is_delayed
    }

    /// Makes a challenge acknowledgment due. Returns false if there were too many in this second.
    pub(super) fn challenge(&mut self, now: Instant) -> bool {
        if now - self.challenged_at >= Duration::from_secs(1) {
            self.challenged_at = now;
            self.challenges = 0;
        }
        if self.challenges >= CHALLENGES_PER_SECOND {
            return false;
        }
        self.challenges += 1;
        self.pending = PendingAck::Now;
        true
    }

    /// Records that a SYN with the acknowledgment number `nxt` is sent.
    pub(super) fn syn_sent(&mut self, nxt: Seq) {
        self.pending = PendingAck::Nothing;
        self.last_sent = nxt;
    }

    /// Records that a segment with the acknowledgment number `nxt` is sent.
    pub(super) fn sent(&mut self, nxt: Seq) {
        self.pending = if self.duplicates > 0 { PendingAck::Now } else { PendingAck::Nothing };
        self.duplicates = self.duplicates.saturating_sub(1);
        self.unacknowledged = 0;
        self.last_sent = nxt;
    }
}
