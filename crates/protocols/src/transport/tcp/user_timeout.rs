//! The user timeout (RFC 9293 §3.9.1.1, RFC 5482): how long data may stay unacknowledged.
//!
//! It is R2 of RFC 9293 §3.8.3, as the user sets it. With the option each side tells the other its
//! own, and both wait for the longer of the two, within limits: a peer shall not make us keep data
//! for ever, nor give up before anybody could answer.

use crate::time::Duration;

/// RFC 5482 §3.1: never less, whatever the peer says.
const LOWER_LIMIT: Duration = Duration::from_secs(100);
/// And never more, unless our own user wants it.
const UPPER_LIMIT: Duration = Duration::from_secs(3600);
/// The bit that says minutes instead of seconds.
const MINUTES: u16 = 0x8000;
const VALUE_MAX: u64 = 0x7FFF;

/// Returns the value of the option for a timeout, rounded up.
pub(super) fn encode(timeout: Duration) -> u16 {
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
pub(super) fn agreed(ours: Duration, theirs: Option<Duration>) -> Duration {
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
