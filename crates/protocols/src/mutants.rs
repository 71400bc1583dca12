//! Mutants: faults injected on purpose, to check that the campaign of the simulator finds them.
//!
//! Mutants exist only if the compiler is given `--cfg mutants`. Otherwise [`is_enabled`] is a
//! constant, and the optimizer removes the faults.

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(mutants), expect(unreachable_pub, reason = "it is public under `--cfg mutants`"))]
pub enum Mutant {
    /// Acknowledges a byte that is missing.
    AcknowledgesHole = 1,
    /// Retransmits data, but never the FIN.
    ForgetsFin,
    /// Ignores the limit of the peer's window.
    IgnoresWindow,
    /// Compares acknowledgment numbers as if they never wrapped.
    ComparesPlainly,
    /// Never probes a zero window.
    ForgetsPersist,
    /// Accepts segments with a wrong checksum.
    SkipsChecksum,
    /// Delivers duplicate bytes again if new bytes follow them in the segment.
    TakesOldTwice,
    /// Loses the bytes after the wrap of the receive ring.
    LosesRingTurn,
    /// Never releases the packet of a damaged segment.
    LeaksPacket,
    /// Stops after three retransmissions of the same segment.
    StopsRetransmitting,
    /// Waits ten retransmission timeouts instead of one.
    WaitsTooLong,
    /// Ignores every reset.
    IgnoresReset,
    /// Accepts a FIN before the missing data in front of it.
    TakesFinEarly,
    /// Deletes the connection immediately instead of entering TIME-WAIT.
    SkipsTimeWait,
    /// Ignores reports that a segment exceeds the path MTU.
    IgnoresTooBig,
    /// Accepts ICMP errors about sequence numbers that are not in flight.
    BelievesStrangers,
    /// Never retransmits a SYN.
    ForgetsSyn,
    /// Sends the data of a retransmission from one byte after its position.
    RepeatsBesidePlace,
    /// Treats the peer's FIN as the acknowledgment of the local FIN.
    TakesFinForAck,
    /// Loses some of the charged CPU time.
    LosesTime,
    /// Answers every acknowledgment with an acknowledgment.
    AnswersEverything,
    /// Sends nothing more after the peer has closed.
    StopsAtPeerClose,
    /// Never probes whether long segments are lost.
    SearchesNoPath,
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
        /// All faults.
        pub const ALL: [Self; 23] = [
            Self::AcknowledgesHole,
            Self::ForgetsFin,
            Self::IgnoresWindow,
            Self::ComparesPlainly,
            Self::ForgetsPersist,
            Self::SkipsChecksum,
            Self::TakesOldTwice,
            Self::LosesRingTurn,
            Self::LeaksPacket,
            Self::StopsRetransmitting,
            Self::WaitsTooLong,
            Self::IgnoresReset,
            Self::TakesFinEarly,
            Self::SkipsTimeWait,
            Self::IgnoresTooBig,
            Self::BelievesStrangers,
            Self::ForgetsSyn,
            Self::RepeatsBesidePlace,
            Self::TakesFinForAck,
            Self::LosesTime,
            Self::AnswersEverything,
            Self::StopsAtPeerClose,
            Self::SearchesNoPath,
        ];
    }

    /// Activates `mutant` in every engine of this program from now on, or deactivates all for `None`.
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
