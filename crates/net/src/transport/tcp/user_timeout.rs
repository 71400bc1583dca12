//! Time limits for an unresponsive peer: R1 and R2 of RFC 9293 §3.8.3, and the user timeout (RFC
//! 5482), which replaces R2.
//!
//! With the user timeout option each end advertises its own timeout, and both ends use the longer
//! one, within limits. The peer can neither make this host keep data indefinitely, nor make it give
//! up before an answer is possible.

use crate::time::Duration;

/// Time limits of a connection whose peer does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserTimeout {
    /// R1: number of consecutive timeouts after which the user and the layer below are notified
    /// (MUST-20); at least three (SHLD-10).
    pub r1: u32,
    /// R2: maximum time for which data remains unacknowledged after its first timeout (MUST-21).
    /// `None` means two minutes, or the duration of `r2_timeouts` timeouts if that is longer.
    /// `Some` also limits the duration of a zero window. With `None`, a zero window is probed as
    /// long as the peer answers.
    pub r2: Option<Duration>,
    /// Minimum number of consecutive timeouts if `r2` is `None`. With frequent losses, a few
    /// timeouts do not prove that the peer is gone.
    pub r2_timeouts: u32,
    /// R2 of a SYN. A value below three minutes counts as three minutes (MUST-23).
    pub r2_syn: Duration,
    /// Whether this end advertises R2 and accepts the value of the peer (RFC 5482).
    pub is_shared: bool,
}

impl UserTimeout {
    /// The default limits.
    pub const DEFAULT: Self = Self {
        r1: 3,
        r2: None,
        r2_timeouts: R2_TIMEOUTS,
        r2_syn: Duration::from_secs(180),
        is_shared: false,
    };

    /// Limits for connections without a waiting user. Fifteen timeouts are a common number, and
    /// take at least eight minutes (RFC 9293 §3.8.3 requires 100 s).
    pub const LONG: Self = Self { r2_timeouts: 15, ..Self::DEFAULT };
}

impl Default for UserTimeout {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Default R2; RFC 9293 §3.8.3 requires at least 100 s (SHLD-11).
const R2: Duration = Duration::from_secs(120);
/// Default minimum number of timeouts for R2.
const R2_TIMEOUTS: u32 = 6;
/// Minimum R2 of a SYN (MUST-23).
const R2_SYN_MIN: Duration = Duration::from_secs(180);

/// The condition for giving up a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    /// Minimum time since the first timeout.
    pub(super) time: Duration,
    /// Minimum number of timeouts.
    pub(super) timeouts: u32,
}

impl UserTimeout {
    /// Returns the limit for unacknowledged data. `theirs` is the user timeout of the peer.
    pub(super) fn limit(&self, theirs: Option<Duration>) -> Limit {
        let ours = self.r2.unwrap_or(R2);
        let timeouts = if self.r2.is_some() { 0 } else { self.r2_timeouts };
        Limit { time: effective_timeout(ours, theirs.filter(|_| self.is_shared)), timeouts }
    }

    /// Returns the limit for an unanswered SYN.
    pub(super) fn limit_of_syn(&self) -> Limit {
        Limit { time: self.r2_syn.max(R2_SYN_MIN), timeouts: R2_TIMEOUTS }
    }

    /// Returns the value of the user timeout option to send.
    pub(super) fn option(&self) -> Option<u16> {
        self.is_shared.then(|| encode(self.r2.unwrap_or(R2)))
    }
}

/// Minimum user timeout, even if the peer advertises less (RFC 5482 §3.1).
const LOWER_LIMIT: Duration = Duration::from_secs(100);
/// Maximum user timeout, unless the local user sets a higher value.
const UPPER_LIMIT: Duration = Duration::from_secs(3600);
/// The granularity bit: minutes instead of seconds.
const MINUTES: u16 = 0x8000;
const VALUE_MAX: u64 = 0x7FFF;

/// Returns the value of the option for a timeout, rounded up.
fn encode(timeout: Duration) -> u16 {
    let secs = timeout.as_secs().saturating_add(u64::from(timeout.subsec_nanos() > 0));
    let (unit, value) =
        if secs <= VALUE_MAX { (0, secs) } else { (MINUTES, secs.div_ceil(60).min(VALUE_MAX)) };
    // RFC 5482 §3.2: zero is reserved, and MUST NOT be sent.
    unit | u16::try_from(value.max(1)).unwrap_or(u16::MAX)
}

/// Parses the value of the option. Returns `None` for zero.
pub(super) fn decode(value: u16) -> Option<Duration> {
    let count = u64::from(value & !MINUTES);
    let unit = if value & MINUTES == 0 { 1 } else { 60 };
    (count > 0).then(|| Duration::from_secs(count * unit))
}

/// Returns the effective timeout: the local value, or the peer's value if it is longer (RFC 5482
/// §3.1).
fn effective_timeout(ours: Duration, theirs: Option<Duration>) -> Duration {
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
    fn a_timeout_is_sent_in_seconds_or_rounded_up_to_minutes() {
        assert_eq!(encode(Duration::from_millis(1500)), 2);
        assert_eq!(encode(Duration::from_secs(32_767)), 0x7FFF);
        assert_eq!(encode(Duration::from_secs(32_768)), 0x8000 + 547);
        assert_eq!(encode(Duration::MAX), 0xFFFF);
    }

    #[test]
    fn zero_is_neither_sent_nor_accepted() {
        assert_eq!(encode(Duration::ZERO), 1);
        assert_eq!((decode(0), decode(MINUTES)), (None, None));
    }

    #[test]
    fn the_longer_timeout_is_used_within_the_limits() {
        let secs = Duration::from_secs;
        assert_eq!(effective_timeout(secs(30), None), secs(30));
        assert_eq!(effective_timeout(secs(120), Some(secs(300))), secs(300));
        assert_eq!(effective_timeout(secs(300), Some(secs(120))), secs(300));
        assert_eq!(effective_timeout(secs(30), Some(secs(1))), LOWER_LIMIT);
        assert_eq!(effective_timeout(secs(30), Some(secs(1_000_000))), UPPER_LIMIT);
        assert_eq!(effective_timeout(secs(9000), Some(secs(1_000_000))), secs(9000));
    }

    proptest! {
        #[test]
        fn emitted_values_are_parsed_back(secs in 1..2_000_000_u64) {
            let read = decode(encode(Duration::from_secs(secs))).unwrap();
            prop_assert!(read >= Duration::from_secs(secs.min(0x7FFF * 60)));
            prop_assert!(read.as_secs() < secs + 60);
        }
    }
}
