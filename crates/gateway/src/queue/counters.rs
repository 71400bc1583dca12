//! Counters of one packet queue.

use net::meter::Distribution;

/// Reasons why a queue drops a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueDrop {
    /// CoDel: the packets of the flow have waited too long.
    Delay,
    /// The queue is full.
    Full,
    /// The fault of 1982: the packet followed another one closely.
    Burst,
    /// The sharer of the output was removed.
    Removed,
}

/// Counters of one queue. Except during a call,
/// `packets_in == packets_out + dropped() + queued packets`.
#[derive(Clone, Debug, Default)]
pub struct QueueCounters {
    /// Packets offered to the queue.
    pub packets_in: u64,
    /// Bytes offered to the queue.
    pub bytes_in: u64,
    /// Packets passed to the output.
    pub packets_out: u64,
    /// Bytes passed to the output.
    pub bytes_out: u64,
    /// Packets dropped by CoDel.
    pub dropped_for_delay: u64,
    /// Packets dropped because the queue was full.
    pub dropped_when_full: u64,
    /// Packets dropped because they closely followed another one (discipline of 1982).
    pub dropped_in_burst: u64,
    /// Packets dropped because the sharer of the output was removed.
    pub dropped_with_sharer: u64,
    /// Packets that CoDel marked with Congestion Experienced.
    pub marked: u64,
    /// Time that sent packets have waited, in nanoseconds.
    pub sojourn_ns: Distribution,
}

impl QueueCounters {
    /// Returns the number of packets dropped for any reason.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped_for_delay
            + self.dropped_when_full
            + self.dropped_in_burst
            + self.dropped_with_sharer
    }

    pub(super) const fn count_drop(&mut self, reason: QueueDrop) {
        match reason {
            QueueDrop::Delay => self.dropped_for_delay += 1,
            QueueDrop::Full => self.dropped_when_full += 1,
            QueueDrop::Burst => self.dropped_in_burst += 1,
            QueueDrop::Removed => self.dropped_with_sharer += 1,
        }
    }
}
