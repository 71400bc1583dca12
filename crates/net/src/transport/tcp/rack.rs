//! RACK: time-based loss detection (RFC 8985 §6).
//!
//! Data is lost if data that was sent later has been delivered, and if more than a round trip plus
//! a *reordering window* has elapsed since it was sent. The window is zero until reordering is
//! observed, so that a loss is repaired as early as by duplicate acknowledgments. Then the window
//! is a quarter of the minimum round trip. It grows by another quarter in every round in which the
//! peer reports a retransmission as a duplicate. It is reset after sixteen recoveries without such
//! a report.

use super::flight::{LossVerdict, NewestSegment};
use crate::time::{Duration, Instant};

/// Number of recoveries for which an enlarged reordering window is kept (RFC 8985 §6.2 step 4).
const WINDOW_RESET_RECOVERIES: u8 = 16;
/// Number of segments delivered above a hole that count as three duplicate acknowledgments.
const DUPLICATE_THRESHOLD: u64 = 3;
/// Time for which a minimum round trip is valid. It is limited, because paths change.
const MIN_RTT_VALID: Duration = Duration::from_secs(300);

/// Minimum round trip of the last minutes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MinRtt {
    minimum: Option<(Duration, Instant)>,
}

impl MinRtt {
    pub(super) fn record(&mut self, rtt: Duration, now: Instant) {
        let is_valid =
            self.minimum.is_some_and(|(minimum, at)| minimum < rtt && now - at < MIN_RTT_VALID);
        if !is_valid {
            self.minimum = Some((rtt, now));
        }
    }

    pub(super) fn get(&self) -> Option<Duration> {
        self.minimum.map(|(minimum, _)| minimum)
    }
}

/// The inputs for the length of the reordering window.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReorderingInputs {
    pub(super) srtt: Duration,
    pub(super) is_recovering: bool,
    /// Number of segments delivered above the first hole.
    pub(super) sacked_segments: u64,
}

/// The state variables of RFC 8985 §5.3.
#[derive(Clone, Debug, Default)]
pub(super) struct Rack {
    /// Send time and end of the latest transmission that was delivered.
    newest: Option<(Instant, u64)>,
    rtt: Duration,
    pub(super) learned: LearnedPath,
    /// Position whose acknowledgment ends the round. The window grows at most once per round.
    round_end: Option<u64>,
}

/// State that remains after a flight. It has no stream positions, because they are meaningless in
/// the next flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LearnedPath {
    pub(super) min_rtt: MinRtt,
    has_seen_reordering: bool,
    /// Number of quarters of the minimum round trip by which the reordering window has grown.
    steps: u8,
    recoveries_left: u8,
}

impl Rack {
    /// Returns a state with the values learned in an earlier flight.
    pub(super) fn from_learned(learned: LearnedPath) -> Self {
        Self { learned, ..Self::default() }
    }

    /// Steps 1 and 2: records the newest transmission that an acknowledgment delivers.
    /// `is_original` is true if the echoed timestamp precedes a retransmission.
    pub(super) fn delivered(&mut self, newest: &NewestSegment, is_original: bool, now: Instant) {
        let rtt = now - newest.snapshot.sent_at;
        if newest.is_retransmission {
            let is_too_early = self.learned.min_rtt.get().is_some_and(|minimum| rtt < minimum);
            if is_too_early || is_original {
                return;
            }
        } else {
            self.learned.min_rtt.record(rtt, now);
        }
        self.rtt = rtt;
        let latest = (newest.snapshot.sent_at, newest.end);
        if self.newest.is_none_or(|newest| latest > newest) {
            self.newest = Some(latest);
        }
    }

    /// Step 2: records the round-trip time of the last segment that an acknowledgment delivers, if
    /// it was never retransmitted.
    ///
    /// `RACK_update` of §6.2 sets RACK.rtt for every newly delivered segment, but RACK.segment only
    /// for a segment that was sent later than the previous one. Segments are examined in order,
    /// first those acknowledged by number. RACK.rtt is therefore from the last examined segment,
    /// even if another segment was sent later. In that case the last segment took longer, so
    /// RACK.rtt can only be too long.
    pub(super) fn record_rtt(&mut self, rtt: Duration) {
        self.rtt = rtt;
    }

    /// Step 3: records that reordering was observed.
    pub(super) fn reordered(&mut self) {
        self.learned.has_seen_reordering = true;
    }

    /// Step 4: the peer reports duplicate data that a retransmission has caused.
    pub(super) fn on_spurious_retransmission(&mut self, una: u64, nxt: u64) {
        if self.round_end.is_some_and(|end| una < end) {
            return;
        }
        self.round_end = Some(nxt);
        self.learned.steps = (self.learned.steps + 1).min(64);
        self.learned.recoveries_left = WINDOW_RESET_RECOVERIES;
        self.learned.has_seen_reordering = true;
    }

    /// Step 4: a recovery has ended.
    pub(super) fn recovered(&mut self) {
        self.learned.recoveries_left = self.learned.recoveries_left.saturating_sub(1);
        if self.learned.recoveries_left == 0 {
            self.learned.steps = 0;
        }
    }

    /// Returns the reordering window.
    pub(super) fn reordering_window(&self, situation: ReorderingInputs) -> Duration {
        let is_certain =
            situation.is_recovering || situation.sacked_segments >= DUPLICATE_THRESHOLD;
        if !self.learned.has_seen_reordering && is_certain {
            return Duration::ZERO;
        }
        let quarter = self.learned.min_rtt.get().unwrap_or(situation.srtt) / 4;
        (quarter * (u32::from(self.learned.steps) + 1)).min(situation.srtt)
    }

    /// Step 5: returns whether a transmission is lost. It was sent at `sent_at` and ends at `end`.
    pub(super) fn classify(
        &self,
        sent_at: Instant,
        end: u64,
        window: Duration,
        now: Instant,
    ) -> LossVerdict {
        if self.newest.is_none_or(|newest| (sent_at, end) >= newest) {
            return LossVerdict::Open;
        }
        let limit = sent_at + self.rtt + window;
        if limit <= now { LossVerdict::Lost } else { LossVerdict::Until(limit) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::flight::{Delivery, Flight};
    use super::super::seq::Seq;
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const OPEN: ReorderingInputs = ReorderingInputs {
        srtt: Duration::from_millis(100),
        is_recovering: false,
        sacked_segments: 1,
    };

    fn at(millis: u64) -> Instant {
        Instant::ZERO + MS * u32::try_from(millis).unwrap()
    }

    /// Returns segments of 1000 bytes, sent one per millisecond. The segment at 3000 is delivered
    /// after 100 ms.
    fn overtaken_segments() -> (Flight, Rack) {
        let mut flight = Flight::new(Seq(0));
        let mut rack = Rack::default();
        (0..10).for_each(|segment| flight.sent(1000, 1, at(segment)));
        let mut delivery = Delivery::default();
        flight.sack((Seq(3000), Seq(4000)), &mut delivery, at(103));
        flight.end_sack_blocks();
        rack.delivered(&delivery.newest.unwrap(), false, at(103));
        (flight, rack)
    }

    fn classify(flight: &mut Flight, rack: &Rack, situation: ReorderingInputs, now: u64) -> u64 {
        let window = rack.reordering_window(situation);
        flight.classify(|sent_at, end| rack.classify(sent_at, end, window, at(now))).0
    }

    #[test]
    fn reordered_data_is_lost_after_a_quarter_of_the_round_trip() {
        let (mut flight, rack) = overtaken_segments();
        assert_eq!(classify(&mut flight, &rack, OPEN, 103), 0);
        assert_eq!(classify(&mut flight, &rack, OPEN, 125), 1000);
        assert_eq!(classify(&mut flight, &rack, OPEN, 127), 2000);
        assert_eq!(classify(&mut flight, &rack, OPEN, 500), 0, "what was sent later stays");
    }

    #[test]
    fn three_segments_above_the_hole_make_it_lost_at_once_if_nothing_was_ever_reordered() {
        let (mut flight, mut rack) = overtaken_segments();
        let certain = ReorderingInputs { sacked_segments: 3, ..OPEN };
        assert_eq!(classify(&mut flight.clone(), &rack, certain, 103), 3000);
        rack.reordered();
        assert_eq!(classify(&mut flight, &rack, certain, 103), 0);
    }

    #[test]
    fn segments_sent_at_the_same_time_are_ordered_by_sequence_number() {
        let mut flight = Flight::new(Seq(0));
        let mut rack = Rack::default();
        (0..4).for_each(|_| flight.sent(1000, 1, at(0)));
        let mut delivery = Delivery::default();
        flight.sack((Seq(2000), Seq(3000)), &mut delivery, at(100));
        rack.delivered(&delivery.newest.unwrap(), false, at(100));
        assert_eq!(classify(&mut flight, &rack, OPEN, 400), 2000);
        assert_eq!(flight.next_lost(9000), Some((Seq(0), 2000)));
    }

    #[test]
    fn the_window_grows_once_a_round_and_falls_back_after_sixteen_recoveries() {
        let (_, mut rack) = overtaken_segments();
        rack.on_spurious_retransmission(0, 10_000);
        rack.on_spurious_retransmission(5000, 12_000);
        assert_eq!(rack.reordering_window(OPEN), MS * 50);
        rack.on_spurious_retransmission(10_000, 20_000);
        assert_eq!(rack.reordering_window(OPEN), MS * 75);
        (0..10).for_each(|round| {
            rack.on_spurious_retransmission(20_000 + round * 10, 20_001 + round * 10);
        });
        assert_eq!(rack.reordering_window(OPEN), MS * 100, "at most the round trip");
        (0..15).for_each(|_| rack.recovered());
        assert_eq!(rack.reordering_window(OPEN), MS * 100);
        rack.recovered();
        assert_eq!(rack.reordering_window(OPEN), MS * 25);
    }

    #[test]
    fn an_answer_below_the_minimum_rtt_is_for_the_original() {
        let (mut flight, mut rack) = overtaken_segments();
        flight.mark_first_lost(1000);
        flight.sent_again(Seq(0), 1000, at(110));
        let mut delivery = Delivery::default();
        flight.acknowledge(Seq(1000), &mut delivery, at(120));
        rack.delivered(&delivery.newest.unwrap(), false, at(120));
        assert_eq!(rack.newest, Some((at(3), 4000)));
    }

    #[test]
    fn the_minimum_round_trip_expires_after_five_minutes() {
        let mut min_rtt = MinRtt::default();
        min_rtt.record(MS * 10, at(0));
        min_rtt.record(MS * 50, at(1000));
        assert_eq!(min_rtt.get(), Some(MS * 10));
        min_rtt.record(MS * 50, at(301_000));
        assert_eq!(min_rtt.get(), Some(MS * 50));
    }
}
