//! How long a connection goes on without an answer: R1 and R2 of RFC 9293 §3.8.3, and the user
//! timeout (RFC 5482), which is R2 as the user sets it.
//!
//! With the option each side tells the other its own, and both wait for the longer of the two,
//! within limits: a peer shall not make us keep data for ever, nor give up before anybody could
//! answer.

use super::connection::Connection;
use super::header::Header;
use crate::time::Duration;

/// How long a connection goes on without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// R1: after so many timeouts in a row the user is told, and the layer below (MUST-20); three
    /// at least (SHLD-10).
    pub r1: u32,
    /// R2: how long data may stay unacknowledged after its first timeout (MUST-21). None stands
    /// for two minutes, and longer where that is less than `r2_timeouts`. What is set holds for
    /// a shut window too, which is otherwise probed for as long as the peer answers.
    pub r2: Option<Duration>,
    /// How many timeouts in a row it takes to reach R2 if no time is set for it: where much is
    /// lost, a few prove nothing.
    pub r2_timeouts: u32,
    /// R2 of a SYN: three minutes at least, whatever it says (MUST-23).
    pub r2_syn: Duration,
    /// Whether R2 is told to the peer, and that of the peer believed (RFC 5482).
    pub is_shared: bool,
}

impl Patience {
    /// What nobody has asked to be different.
    pub const DEFAULT: Self = Self {
        r1: 3,
        r2: None,
        r2_timeouts: R2_TIMEOUTS,
        r2_syn: Duration::from_secs(180),
        is_shared: false,
    };

    /// For what nobody waits for at a screen: fifteen timeouts, as is usual, take eight minutes and
    /// more (RFC 9293 §3.8.3 wants 100 s at least).
    pub const LONG: Self = Self { r2_timeouts: 15, ..Self::DEFAULT };
}

impl Default for Patience {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// R2 where nobody has set it; RFC 9293 §3.8.3 says 100 s at least (SHLD-11).
const R2: Duration = Duration::from_secs(120);
/// And how many timeouts that has to be.
const R2_TIMEOUTS: u32 = 6;
/// R2 of a SYN, at least (MUST-23).
const R2_SYN_MIN: Duration = Duration::from_secs(180);

/// When a connection is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    /// After this time since the first timeout.
    pub(super) time: Duration,
    /// But not before so many timeouts.
    pub(super) timeouts: u32,
}

impl Patience {
    /// Returns when data that stays unacknowledged ends the connection, if the peer has said
    /// `theirs`.
    pub(super) fn limit(&self, theirs: Option<Duration>) -> Limit {
        let ours = self.r2.unwrap_or(R2);
        let timeouts = if self.r2.is_some() { 0 } else { self.r2_timeouts };
        Limit { time: agreed(ours, theirs.filter(|_| self.is_shared)), timeouts }
    }

    /// Returns when a SYN that stays unanswered ends the connection.
    pub(super) fn limit_of_syn(&self) -> Limit {
        Limit { time: self.r2_syn.max(R2_SYN_MIN), timeouts: R2_TIMEOUTS }
    }

    /// Returns what to tell the peer.
    pub(super) fn option(&self) -> Option<u16> {
        self.is_shared.then(|| encode(self.r2.unwrap_or(R2)))
    }
}

/// RFC 5482 §3.1: never less, whatever the peer says.
const LOWER_LIMIT: Duration = Duration::from_secs(100);
/// And never more, unless our own user wants it.
const UPPER_LIMIT: Duration = Duration::from_secs(3600);
/// The bit that says minutes instead of seconds.
const MINUTES: u16 = 0x8000;
const VALUE_MAX: u64 = 0x7FFF;

impl Connection {
    /// Takes over what the peer says of its user timeout, which may change at any time.
    pub(super) fn note_user_timeout(&mut self, header: &Header) {
        let told = header.options.user_timeout.and_then(decode);
        self.peer_timeout = told.or(self.peer_timeout);
    }
}

/// Returns the value of the option for a timeout, rounded up.
fn encode(timeout: Duration) -> u16 {
    let secs = timeout.as_secs().saturating_add(u64::from(timeout.subsec_nanos() > 0));
    let (unit, value) =
        if secs <= VALUE_MAX { (0, secs) } else { (MINUTES, secs.div_ceil(60).min(VALUE_MAX)) };
    // RFC 5482 §3.2: zero is reserved, and MUST NOT be sent.
    unit | u16::try_from(value.max(1)).unwrap_or(u16::MAX)
}

/// Reads the value of the option; one of zero says nothing.
pub(super) fn decode(value: u16) -> Option<Duration> {
    let count = u64::from(value & !MINUTES);
    let unit = if value & MINUTES == 0 { 1 } else { 60 };
    (count > 0).then(|| Duration::from_secs(count * unit))
}

/// Returns the timeout in force: what we have said, or the peer if that is more (RFC 5482 §3.1).
fn agreed(ours: Duration, theirs: Option<Duration>) -> Duration {
    match theirs {
        None => ours,
        Some(theirs) => ours.max(theirs.max(LOWER_LIMIT).min(UPPER_LIMIT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_timeout_is_told_in_seconds_or_rounded_up_to_minutes() {
        assert_eq!(encode(Duration::from_millis(1500)), 2);
        assert_eq!(encode(Duration::from_secs(32_767)), 0x7FFF);
        assert_eq!(encode(Duration::from_secs(32_768)), 0x8000 + 547);
        assert_eq!(encode(Duration::MAX), 0xFFFF);
    }

    #[test]
    fn zero_is_neither_sent_nor_believed() {
        assert_eq!(encode(Duration::ZERO), 1);
        assert_eq!((decode(0), decode(MINUTES)), (None, None));
    }

    #[test]
    fn the_longer_one_holds_within_the_limits() {
        let secs = Duration::from_secs;
        assert_eq!(agreed(secs(30), None), secs(30));
        assert_eq!(agreed(secs(120), Some(secs(300))), secs(300));
        assert_eq!(agreed(secs(300), Some(secs(120))), secs(300));
        assert_eq!(agreed(secs(30), Some(secs(1))), LOWER_LIMIT);
        assert_eq!(agreed(secs(30), Some(secs(1_000_000))), UPPER_LIMIT);
        assert_eq!(agreed(secs(9000), Some(secs(1_000_000))), secs(9000));
    }

    proptest! {
        #[test]
        fn what_is_told_is_read_again(secs in 1..2_000_000_u64) {
            let read = decode(encode(Duration::from_secs(secs))).unwrap();
            prop_assert!(read >= Duration::from_secs(secs.min(0x7FFF * 60)));
            prop_assert!(read.as_secs() < secs + 60);
        }
    }
}
