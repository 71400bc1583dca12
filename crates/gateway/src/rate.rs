//! A limit on events per second.

use net::Instant;
use net::time::Duration;

/// Number of seconds whose events may occur at once.
const BURST_S: u64 = 2;
const NANOS_PER_S: u64 = 1_000_000_000;

/// A token bucket: a limit on events per second, averaged over two seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    per_s: u64,
    /// Time that each event uses up.
    cost: Duration,
    /// The time until which all allowed events are used up.
    used_until: Instant,
}

impl Rate {
    /// Returns a limit of `per_s` events per second, at least one.
    pub(crate) fn new(per_s: u32) -> Self {
        let per_s = u64::from(per_s.max(1));
        let cost = Duration::from_nanos(NANOS_PER_S / per_s);
        Self { per_s, cost, used_until: Instant::ZERO }
    }

    /// Returns whether an event may occur now, and if so counts it.
    pub(crate) fn allows(&mut self, now: Instant) -> bool {
        let start = self.used_until.max(now);
        let burst = Duration::from_nanos(NANOS_PER_S / self.per_s * (self.per_s * BURST_S - 1));
        if start - now > burst {
            return false;
        }
        self.used_until = start + self.cost;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_seconds_of_events_may_occur_at_once_and_then_one_per_interval() {
        let mut rate = Rate::new(10);
        let now = Instant::from_nanos(NANOS_PER_S);
        let burst = (0..100).take_while(|_| rate.allows(now)).count();
        assert_eq!(burst, 20);
        let later = now + Duration::from_millis(100);
        assert_eq!((rate.allows(later), rate.allows(later)), (true, false));
    }
}
