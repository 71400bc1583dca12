//! HyStart++ (RFC 9406): ends the first slow start when the round-trip time rises, before a loss
//! occurs.
//!
//! The rise may be random. The window therefore first grows at a quarter of the speed for five
//! rounds. If the round-trip time falls again in these rounds, slow start continues.

use crate::time::Duration;

/// Minimum increase of the round-trip time that ends slow start (§4.3).
const MIN_RTT_RISE: Duration = Duration::from_millis(4);
/// Maximum increase that is required for the end of slow start (§4.3).
const MAX_RTT_RISE: Duration = Duration::from_millis(16);
/// Divisor of the round-trip time. Between the limits, the quotient is the required increase.
const RTT_RISE_DIVISOR: u32 = 8;
/// Minimum number of round-trip measurements in a round that is evaluated (§4.3).
const MIN_SAMPLES: u32 = 8;
/// Divisor of the growth in conservative slow start (§4.3).
const CSS_GROWTH_DIVISOR: u64 = 4;
/// Number of rounds of conservative slow start (§4.3).
const CSS_ROUNDS: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SlowStart,
    /// Conservative slow start (CSS). `baseline` is the minimum round trip at its start, and
    /// `rounds` is the number of rounds since.
    Conservative {
        baseline: Duration,
        rounds: u32,
    },
}

/// The state of the first slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HyStart {
    phase: Phase,
    round_end: u64,
    previous_min_rtt: Option<Duration>,
    current_min_rtt: Option<Duration>,
    samples: u32,
}

/// The effect of an acknowledgment on slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlowStartAction {
    /// Grow by the number of acknowledged bytes divided by `divisor`.
    GrowBy { divisor: u64 },
    /// Leave slow start.
    Leave,
}

impl HyStart {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::SlowStart,
            round_end: 0,
            previous_min_rtt: None,
            current_min_rtt: None,
            samples: 0,
        }
    }

    /// Processes an acknowledgment up to the position `una`. `nxt` is the end of the sent data, and
    /// `rtt` is the round trip that the acknowledgment measures.
    pub(super) fn acknowledged(
        &mut self,
        una: u64,
        nxt: u64,
        rtt: Option<Duration>,
    ) -> SlowStartAction {
        if let Some(rtt) = rtt {
            self.samples += 1;
            self.current_min_rtt = Some(self.current_min_rtt.map_or(rtt, |least| least.min(rtt)));
        }
        if self.samples >= MIN_SAMPLES {
            self.evaluate_round();
        }
        if una >= self.round_end && self.end_round(nxt) == SlowStartAction::Leave {
            return SlowStartAction::Leave;
        }
        match self.phase {
            Phase::SlowStart => SlowStartAction::GrowBy { divisor: 1 },
            Phase::Conservative { .. } => SlowStartAction::GrowBy { divisor: CSS_GROWTH_DIVISOR },
        }
    }

    /// §4.2: compares this round with the previous one.
    fn evaluate_round(&mut self) {
        let (Some(last), Some(current)) = (self.previous_min_rtt, self.current_min_rtt) else {
            return;
        };
        match self.phase {
            Phase::SlowStart => {
                let rise = (last / RTT_RISE_DIVISOR).clamp(MIN_RTT_RISE, MAX_RTT_RISE);
                if current >= last + rise {
                    self.phase = Phase::Conservative { baseline: current, rounds: 0 };
                }
            }
            Phase::Conservative { baseline, .. } if current < baseline => {
                self.phase = Phase::SlowStart;
            }
            Phase::Conservative { .. } => {}
        }
    }

    fn end_round(&mut self, nxt: u64) -> SlowStartAction {
        self.round_end = nxt;
        self.previous_min_rtt = self.current_min_rtt.or(self.previous_min_rtt);
        self.current_min_rtt = None;
        self.samples = 0;
        if let Phase::Conservative { rounds, .. } = &mut self.phase {
            *rounds += 1;
            if *rounds >= CSS_ROUNDS {
                return SlowStartAction::Leave;
            }
        }
        SlowStartAction::GrowBy { divisor: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const FULL: SlowStartAction = SlowStartAction::GrowBy { divisor: 1 };
    const QUARTER: SlowStartAction = SlowStartAction::GrowBy { divisor: 4 };

    /// Acknowledges ten segments one by one. The last acknowledgment ends the round.
    fn round(hystart: &mut HyStart, number: u64, rtt: Duration) -> SlowStartAction {
        let mut action = FULL;
        for segment in 1..=10 {
            let una = (number - 1) * 10 + segment;
            action = hystart.acknowledged(una, una + 10, Some(rtt));
        }
        action
    }

    fn after_two_rounds_of(rtt: Duration) -> HyStart {
        let mut hystart = HyStart::new();
        hystart.acknowledged(0, 10, None);
        assert_eq!(round(&mut hystart, 1, rtt), FULL);
        assert_eq!(round(&mut hystart, 2, rtt), FULL);
        hystart
    }

    #[test]
    fn a_rise_of_an_eighth_slows_the_growth_down_after_eight_samples() {
        let mut hystart = after_two_rounds_of(MS * 80);
        for segment in 1..=7 {
            assert_eq!(hystart.acknowledged(20 + segment, 40, Some(MS * 90)), FULL);
        }
        assert_eq!(hystart.acknowledged(28, 40, Some(MS * 90)), QUARTER);
    }

    #[test]
    fn the_required_rise_is_at_least_4_and_at_most_16_ms() {
        for (rtt, rise) in [(MS * 8, MS * 4), (MS * 800, MS * 16), (MS * 64, MS * 8)] {
            assert_eq!(round(&mut after_two_rounds_of(rtt), 3, rtt + rise - MS / 10), FULL);
            assert_eq!(round(&mut after_two_rounds_of(rtt), 3, rtt + rise), QUARTER);
        }
    }

    #[test]
    fn after_five_rounds_of_conservative_growth_slow_start_is_over() {
        let mut hystart = after_two_rounds_of(MS * 80);
        for number in 3..=6 {
            assert_eq!(round(&mut hystart, number, MS * 100), QUARTER);
        }
        assert_eq!(round(&mut hystart, 7, MS * 100), SlowStartAction::Leave);
    }

    #[test]
    fn slow_start_continues_if_the_round_trip_falls_again() {
        let mut hystart = after_two_rounds_of(MS * 80);
        assert_eq!(round(&mut hystart, 3, MS * 100), QUARTER);
        assert_eq!(round(&mut hystart, 4, MS * 85), FULL);
    }
}
