//! CoDel (RFC 8289): drops or marks packets of one flow while its packets wait too long.
//!
//! The state enters dropping when every packet of an interval has waited longer than the target,
//! and drops at a rate that increases with the square root of the number of drops. A packet that
//! can be marked is marked instead of dropped (RFC 8290 §4.3).
//!
//! The target of RFC 8289 is 5 ms. On a slow line a single packet takes longer than that, and CoDel
//! would drop packets of a line that is used perfectly. The target is therefore at least 1.5 times
//! the line time of a maximum packet, and the interval grows with it.

use net::time::{Duration, Instant};

/// The target and the interval of fast lines (RFC 8289 §4.2 and §4.3).
const TARGET: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(100);
/// Number of intervals after which the rate of the previous dropping state is forgotten (the
/// reference implementation of RFC 8289 §5.5).
const MEMORY_INTERVALS: u32 = 16;

/// The two times of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelTimes {
    /// Queue delay that is acceptable permanently.
    pub target: Duration,
    /// Time for which the delay may exceed the target; at least twice the target.
    pub interval: Duration,
}

impl CodelTimes {
    /// Returns the times for an output on which a maximum packet takes `packet_time`; zero if the
    /// rate is unknown.
    #[must_use]
    pub fn of_line(packet_time: Duration) -> Self {
        let target = TARGET.max(packet_time.saturating_add(packet_time / 2));
        let interval = INTERVAL.saturating_add(target - TARGET);
        Self { target, interval: interval.max(target.saturating_mul(2)) }
    }
}

/// Verdict on the first packet of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The packet is sent.
    Send,
    /// The packet is dropped or, if the flow supports it, marked and sent.
    Signal,
}

/// The state of CoDel for one flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Codel {
    /// End of the interval in which all packets have waited longer than the target.
    first_above_at: Option<Instant>,
    state: DropState,
    /// Number of signals in the current or in the last dropping state.
    count: u32,
    /// Value of `count` at the start of the last dropping state.
    last_count: u32,
    /// Time of the next signal, or of the signal that was due when the last state ended.
    drop_next: Instant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DropState {
    #[default]
    Sending,
    Dropping,
}

impl Codel {
    /// Decides about the first packet, which has waited for `sojourn`. `is_short` is true if the
    /// queue holds at most one maximum packet (RFC 8289 §5.4), which is always true before it
    /// becomes empty.
    ///
    /// After a dropped packet, the caller asks again for the next one. After a marked packet, it
    /// sends this packet.
    pub(super) fn verdict(
        &mut self,
        sojourn: Duration,
        is_short: bool,
        times: CodelTimes,
        now: Instant,
    ) -> Verdict {
        let is_above = self.is_above(sojourn, is_short, times, now);
        match (self.state, is_above) {
            (DropState::Sending, true) => {
                self.start_dropping(times, now);
                Verdict::Signal
            }
            (DropState::Dropping, true) if now >= self.drop_next => {
                self.count = self.count.saturating_add(1);
                self.drop_next = self.drop_next + spacing(times.interval, self.count);
                Verdict::Signal
            }
            (DropState::Dropping, false) => {
                self.state = DropState::Sending;
                Verdict::Send
            }
            (DropState::Dropping, true) | (DropState::Sending, false) => Verdict::Send,
        }
    }

    /// Returns whether the delay has exceeded the target for an interval.
    fn is_above(
        &mut self,
        sojourn: Duration,
        is_short: bool,
        times: CodelTimes,
        now: Instant,
    ) -> bool {
        if sojourn < times.target || is_short {
            self.first_above_at = None;
            return false;
        }
        let first_above_at = *self.first_above_at.get_or_insert(now + times.interval);
        now >= first_above_at
    }

    fn start_dropping(&mut self, times: CodelTimes, now: Instant) {
        let last_signals = self.count - self.last_count;
        let is_recent = now.since(self.drop_next) < times.interval * MEMORY_INTERVALS;
        self.count = if last_signals > 1 && is_recent { last_signals } else { 1 };
        self.last_count = self.count;
        self.drop_next = now + spacing(times.interval, self.count);
        self.state = DropState::Dropping;
    }
}

/// The control law: the interval divided by the square root of the number of signals.
fn spacing(interval: Duration, count: u32) -> Duration {
    let square = interval.as_nanos().saturating_mul(interval.as_nanos());
    let nanos = square.checked_div(count.into()).unwrap_or(square).isqrt();
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32) -> Instant {
        Instant::ZERO + MS * ms
    }

    fn signals(codel: &mut Codel, ms: impl Iterator<Item = u32>, sojourn: Duration) -> Vec<u32> {
        let times = CodelTimes::of_line(Duration::ZERO);
        ms.filter(|ms| codel.verdict(sojourn, false, times, at(*ms)) == Verdict::Signal).collect()
    }

    #[test]
    fn a_delay_above_the_target_is_signalled_after_an_interval_and_then_more_often() {
        let signals = signals(&mut Codel::default(), 0..500, MS * 6);
        // 100 ms after the first packet, then after 100/√1, 100/√2 and 100/√3 ms.
        assert_eq!(signals, [100, 200, 271, 329, 379, 424, 464]);
    }

    #[test]
    fn a_delay_below_the_target_is_never_signalled() {
        assert_eq!(signals(&mut Codel::default(), 0..10_000, MS * 4), []);
    }

    #[test]
    fn one_packet_below_the_target_restarts_the_interval() {
        let mut codel = Codel::default();
        assert_eq!(signals(&mut codel, 0..99, MS * 6), []);
        assert_eq!(signals(&mut codel, 99..100, MS * 4), []);
        assert_eq!(signals(&mut codel, 100..250, MS * 6), [200]);
    }

    #[test]
    fn a_new_dropping_state_continues_at_the_rate_of_a_recent_one() {
        let mut codel = Codel::default();
        assert_eq!(signals(&mut codel, 0..500, MS * 6).len(), 7);
        assert_eq!(signals(&mut codel, 500..501, MS * 4), []);
        // Six signals after the first one: the next one follows 100/√6 ms after the first.
        assert_eq!(signals(&mut codel, 501..650, MS * 6), [601, 642]);
    }

    #[test]
    fn a_short_queue_is_not_signalled_for_its_delay() {
        let mut codel = Codel::default();
        let times = CodelTimes::of_line(Duration::ZERO);
        let verdicts = (0..1_000).map(|ms| codel.verdict(MS * 500, true, times, at(ms)));
        assert!(verdicts.into_iter().all(|verdict| verdict == Verdict::Send));
    }

    #[test]
    fn the_target_of_a_slow_line_is_one_and_a_half_maximum_packets() {
        // 700 bytes of 10 bits at 9,600 bit/s.
        let times = CodelTimes::of_line(MS * 729);
        assert_eq!((times.target, times.interval), (MS * 1_093 + MS / 2, MS * 2_187));
        let fast = CodelTimes::of_line(MS / 100);
        assert_eq!((fast.target, fast.interval), (MS * 5, MS * 100));
    }
}
