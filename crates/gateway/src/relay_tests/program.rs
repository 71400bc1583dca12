//! A program at one end of a flow: it sends a pattern, checks the pattern that it receives, and then
//! finishes or resets.

use net::time::Duration;

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It finishes after its last byte, and reads until its peer has finished too.
    Finish,
    /// It finishes when its peer has finished, as a server of HTTP/1.0 does not.
    FinishAfterPeer,
    /// It resets the connection when it has sent or received this number of bytes.
    Reset(u64),
    /// It does not finish.
    Stay,
}

/// The behaviour of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Number of bytes to send.
    pub(super) to_send: u64,
    /// Number of bytes to send and to read per period; `usize::MAX` for no limit.
    pub(super) share: usize,
    /// Whether it reads.
    pub(super) reads: bool,
    /// The period of the share.
    pub(super) period: Duration,
    pub(super) ending: Ending,
}

impl Plan {
    /// Sends `to_send` bytes at once, reads everything, and finishes.
    pub(super) const fn sends(to_send: u64) -> Self {
        let period = Duration::from_millis(10);
        Self { to_send, share: usize::MAX, reads: true, period, ending: Ending::Finish }
    }
}

/// The state of a program.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) plan: Plan,
    stream: u64,
    sent: u64,
    received: u64,
    pub(super) has_peer_finished: bool,
    pub(super) has_finished: bool,
}

impl Program {
    /// Returns a program. The peer has the same `stream` and the other value of `is_guest`.
    pub(super) fn new(plan: Plan, stream: u64, is_guest: bool) -> Self {
        let stream = stream << 1 | u64::from(is_guest);
        Self { plan, stream, sent: 0, received: 0, has_peer_finished: false, has_finished: false }
    }

    /// Returns the numbers of sent and received bytes.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.sent, self.received)
    }

    /// Returns at most `limit` of the next bytes to send.
    pub(super) fn next_bytes(&self, limit: usize) -> Vec<u8> {
        let rest = usize::try_from(self.plan.to_send - self.sent).unwrap();
        let end = self.sent + rest.min(limit) as u64;
        (self.sent..end).map(|offset| pattern(self.stream, offset)).collect()
    }

    pub(super) fn has_sent(&mut self, count: usize) {
        self.sent += count as u64;
    }

    /// Checks received bytes.
    pub(super) fn receive(&mut self, data: &[u8]) {
        for (offset, byte) in (self.received..).zip(data) {
            assert_eq!(*byte, pattern(self.stream ^ 1, offset), "byte {offset} of {self:?}");
        }
        self.received += data.len() as u64;
    }

    /// Returns whether the program finishes now.
    pub(super) fn finishes(&self) -> bool {
        let is_all_sent = self.sent == self.plan.to_send && !self.has_finished;
        match self.plan.ending {
            Ending::Finish => is_all_sent,
            Ending::FinishAfterPeer => is_all_sent && self.has_peer_finished,
            Ending::Reset(_) | Ending::Stay => false,
        }
    }

    /// Returns whether the program resets the connection now.
    pub(super) fn resets(&self) -> bool {
        let is_reached = |count| self.sent >= count || self.received >= count;
        matches!(self.plan.ending, Ending::Reset(count) if is_reached(count))
    }

    /// Returns whether both programs have finished in order.
    pub(super) fn is_complete(&self) -> bool {
        self.has_finished && self.has_peer_finished
    }
}

fn pattern(stream: u64, offset: u64) -> u8 {
    let mixed = (offset ^ stream << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed.to_be_bytes()[1]
}
