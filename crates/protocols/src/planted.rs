//! Faults that are built in on purpose, to see whether the campaign of the simulator finds them.
//!
//! They are there only where the compiler is given `--cfg planted`; everywhere else
//! [`is_planted`] is a constant, and nothing is left of them.

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(planted), expect(unreachable_pub, reason = "it is public under `--cfg planted`"))]
pub enum Bug {
    /// Acknowledges a byte that is missing.
    AcknowledgesHole = 1,
    /// Sends data again, but never the FIN.
    ForgetsFin,
    /// Sends as if the peer's window were without limit.
    IgnoresWindow,
    /// Compares the numbers of acknowledgments as if they never wrapped.
    ComparesPlainly,
    /// Never probes a shut window.
    ForgetsPersist,
    /// Takes what is damaged.
    SkipsChecksum,
    /// Gives to the user again what came twice with something new behind it.
    TakesOldTwice,
    /// Forgets what is behind the turn of the receive ring.
    LosesRingTurn,
    /// Keeps the packet of a damaged segment for ever.
    LeaksPacket,
    /// Stops after three retransmissions of the same segment.
    StopsRetransmitting,
    /// Waits for ten timeouts instead of one.
    WaitsTooLong,
    /// Ignores every reset.
    IgnoresReset,
    /// Takes a FIN before the data that is missing.
    TakesFinEarly,
    /// Forgets the connection at once where it should wait in TIME-WAIT.
    SkipsTimeWait,
    /// Does not believe that a segment is too long for the path.
    IgnoresTooBig,
    /// Believes ICMP errors about numbers that are not under way.
    BelievesStrangers,
    /// Never sends a SYN again.
    ForgetsSyn,
    /// Takes the data of a retransmission one byte behind its place.
    RepeatsBesidePlace,
    /// Takes the peer's FIN for the acknowledgment of its own.
    TakesFinForAck,
    /// Loses some of the time that it is charged with.
    LosesTime,
    /// Answers every acknowledgment by one.
    AnswersEverything,
    /// Sends nothing more once the peer has closed.
    StopsAtPeerClose,
    /// Never asks whether long segments vanish.
    SearchesNoPath,
}

#[cfg(not(planted))]
pub(crate) const fn is_planted(_: Bug) -> bool {
    false
}

#[cfg(planted)]
mod switch {
    use super::Bug;
    use core::sync::atomic::{AtomicU8, Ordering};

    static PLANTED: AtomicU8 = AtomicU8::new(0);

    impl Bug {
        /// All of them.
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

    /// Lets every engine of this program have `bug` from now on, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(0, |bug| bug as u8), Ordering::Relaxed);
    }

    pub(crate) fn is_planted(bug: Bug) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as u8
    }
}

#[cfg(planted)]
pub(crate) use switch::is_planted;
#[cfg(planted)]
pub use switch::plant;
