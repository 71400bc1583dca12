//! Mutants: faults injected on purpose, to check that the simulator's test campaign detects them.
//!
//! The mutants are compiled only with `--cfg mutants`. Otherwise [`is_enabled`] is a constant, and
//! the optimizer removes the faults.

/// A fault that can be injected into TCP or the meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(mutants), expect(unreachable_pub, reason = "it is public under `--cfg mutants`"))]
pub enum Mutant {
    /// Acknowledges a byte that has not been received.
    AcknowledgesMissingByte = 1,
    /// Retransmits data, but never the FIN.
    NeverRetransmitsFin,
    /// Ignores the limit of the peer's window.
    IgnoresWindow,
    /// Compares acknowledgment numbers as if they never wrapped.
    ComparesWithoutWrap,
    /// Never probes a zero window.
    NeverProbesZeroWindow,
    /// Accepts segments with a wrong checksum.
    SkipsChecksum,
    /// Delivers duplicate bytes again if new bytes follow them in the segment.
    DeliversDuplicates,
    /// Loses the bytes after the point where the receive ring buffer wraps around.
    LosesBytesAfterRingWrap,
    /// Never releases the packet of a damaged segment.
    LeaksPacket,
    /// Stops after three retransmissions of the same segment.
    StopsRetransmitting,
    /// Waits ten retransmission timeouts instead of one before it retransmits.
    RetransmitsTooLate,
    /// Ignores every reset.
    IgnoresReset,
    /// Accepts a FIN although earlier data is still missing.
    AcceptsFinBeforeMissingData,
    /// Deletes the connection immediately instead of entering TIME-WAIT.
    SkipsTimeWait,
    /// Ignores reports that a segment exceeds the path MTU.
    IgnoresPacketTooBig,
    /// Accepts ICMP errors that quote a sequence number which is not in flight.
    AcceptsUnrelatedIcmpErrors,
    /// Never retransmits a SYN.
    NeverRetransmitsSyn,
    /// Fills a retransmitted segment with the data that begins one byte after its sequence number.
    RetransmitsShiftedData,
    /// Treats the peer's FIN as the acknowledgment of the local FIN.
    TreatsFinAsAck,
    /// Loses up to one nanosecond of each charged CPU time.
    LosesCpuTime,
    /// Answers every acknowledgment with an acknowledgment.
    AcknowledgesAcknowledgments,
    /// Sends nothing more after the peer has closed.
    StopsAtPeerClose,
    /// Never probes whether long segments are lost.
    NeverProbesPathMtu,
}

#[cfg(not(mutants))]
pub(crate) const fn is_enabled(_: Mutant) -> bool {
    false
}

#[cfg(mutants)]
mod switch {
    use super::Mutant;
    use core::sync::atomic::{AtomicU8, Ordering};

    static ENABLED: AtomicU8 = AtomicU8::new(0);

    impl Mutant {
        /// All faults, in the order of their declaration.
        pub const ALL: [Self; 23] = [
            Self::AcknowledgesMissingByte,
            Self::NeverRetransmitsFin,
            Self::IgnoresWindow,
            Self::ComparesWithoutWrap,
            Self::NeverProbesZeroWindow,
            Self::SkipsChecksum,
            Self::DeliversDuplicates,
            Self::LosesBytesAfterRingWrap,
            Self::LeaksPacket,
            Self::StopsRetransmitting,
            Self::RetransmitsTooLate,
            Self::IgnoresReset,
            Self::AcceptsFinBeforeMissingData,
            Self::SkipsTimeWait,
            Self::IgnoresPacketTooBig,
            Self::AcceptsUnrelatedIcmpErrors,
            Self::NeverRetransmitsSyn,
            Self::RetransmitsShiftedData,
            Self::TreatsFinAsAck,
            Self::LosesCpuTime,
            Self::AcknowledgesAcknowledgments,
            Self::StopsAtPeerClose,
            Self::NeverProbesPathMtu,
        ];
    }

    /// Activates `mutant` in every engine of this program, or deactivates all mutants for `None`.
    pub fn enable(mutant: Option<Mutant>) {
        ENABLED.store(mutant.map_or(0, |mutant| mutant as u8), Ordering::Relaxed);
    }

    pub(crate) fn is_enabled(mutant: Mutant) -> bool {
        ENABLED.load(Ordering::Relaxed) == mutant as u8
    }
}

#[cfg(mutants)]
pub use switch::enable;
#[cfg(mutants)]
pub(crate) use switch::is_enabled;
