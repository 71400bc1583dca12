//! Rate limit of a transfer: a token bucket.

use net::Instant;
use net::time::Duration;

/// Maximum duration of a burst at the limited rate.
const MAX_BURST_TIME: Duration = Duration::from_millis(250);

/// A rate limit, which may be unlimited.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    bytes_per_second: Option<u64>,
    /// Time at which all bytes counted so far would have been transferred at the limited rate.
    sendable_at: Instant,
}

impl RateLimit {
    /// Creates a limit; `None` permits any rate.
    pub const fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second, sendable_at: Instant::ZERO }
    }

    /// Returns the maximum number of bytes of a burst.
    pub fn burst_bytes(&self) -> Option<u64> {
        let millis = u64::try_from(MAX_BURST_TIME.as_millis()).unwrap_or(0);
        self.bytes_per_second.map(|rate| (rate.saturating_mul(millis) / 1000).max(1))
    }

    /// Accounts for `bytes` that were sent or received.
    pub fn spend(&mut self, bytes: usize, now: Instant) {
        let Some(rate) = self.bytes_per_second else { return };
        let nanos = bytes as u128 * 1_000_000_000 / u128::from(rate);
        let time = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.sendable_at = self.sendable_at.max(now) + time;
    }

    /// Returns the time until which the transfer must wait, or `None` if the transfer may continue
    /// now.
    pub fn waits_until(&self, now: Instant) -> Option<Instant> {
        (self.bytes_per_second.is_some() && self.sendable_at > now).then_some(self.sendable_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transferred_bytes_are_waited_for_at_the_limited_rate() {
        let mut pace = RateLimit::new(Some(1000));
        let now = Instant::ZERO + Duration::from_secs(5);
        assert_eq!(pace.waits_until(now), None);
        pace.spend(500, now);
        pace.spend(500, now);
        assert_eq!(pace.waits_until(now), Some(now + Duration::from_secs(1)));
        assert_eq!(pace.waits_until(now + Duration::from_secs(1)), None);
        assert_eq!(pace.burst_bytes(), Some(250));
    }

    #[test]
    fn without_a_limit_nothing_waits() {
        let mut pace = RateLimit::new(None);
        pace.spend(usize::MAX, Instant::ZERO);
        assert_eq!((pace.waits_until(Instant::ZERO), pace.burst_bytes()), (None, None));
    }
}
