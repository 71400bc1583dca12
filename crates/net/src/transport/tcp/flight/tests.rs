//! Tests of the flight: its results are compared with those of a model that records each byte.

use super::*;
use proptest::prelude::*;
use std::vec::Vec;

const BASE: Seq = Seq(0xFFFF_FF00);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// Returns a flight of `count` segments of 1000 bytes, sent one per millisecond.
fn segments(count: u64) -> Flight {
    let mut flight = Flight::new(BASE);
    (0..count).for_each(|segment| flight.sent(1000, 1, at(segment)));
    flight
}

fn sack(flight: &mut Flight, start: u32, end: u32, now: Instant) -> Delivery {
    let mut delivery = Delivery::default();
    flight.sack((BASE + start, BASE + end), &mut delivery, now);
    flight.end_sack_blocks();
    delivery
}

/// The state of one byte.
#[derive(Clone, Copy, Debug, Default)]
struct Byte {
    sent_at: u64,
    is_sacked: bool,
    is_lost: bool,
}

/// A model of the flight. It contains every byte from the first unacknowledged one on.
#[derive(Debug, Default)]
struct Model {
    bytes: Vec<Byte>,
    una: u32,
}

impl Model {
    fn count(&self, of: impl Fn(&Byte) -> bool) -> u64 {
        self.bytes.iter().filter(|byte| of(byte)).count() as u64
    }

    fn len(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap()
    }

    fn between(&mut self, start: u32, end: u32) -> impl Iterator<Item = &mut Byte> {
        let len = self.bytes.len();
        let clip = |position: u32| (position.saturating_sub(self.una) as usize).min(len);
        let start = clip(start);
        let end = clip(end);
        self.bytes[start..end.max(start)].iter_mut()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send(u32),
    Acknowledge(u32),
    Sack(u32, u32),
    SendAgain(u32),
    LoseFirst(u32),
    LoseOlderThan(u64),
    TimeOut,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..60_u32).prop_map(Step::Send),
        2 => (1..40_u32).prop_map(Step::Acknowledge),
        5 => (0..150_u32, 1..30_u32).prop_map(|(start, len)| Step::Sack(start, len)),
        3 => (1..40_u32).prop_map(Step::SendAgain),
        1 => (1..40_u32).prop_map(Step::LoseFirst),
        4 => (0..8_u64).prop_map(Step::LoseOlderThan),
        1 => Just(Step::TimeOut),
    ]
}

fn mark_first_lost(max: u32, flight: &mut Flight, model: &mut Model) {
    if !flight.has_reneged() && !model.bytes.is_empty() {
        let end = flight.pieces.front().unwrap().range.end - flight.una;
        let max = max.min(u32::try_from(end).unwrap());
        let free = model.bytes.iter().take_while(|byte| !byte.is_sacked).count();
        let max = max.min(u32::try_from(free).unwrap());
        flight.mark_first_lost(max);
        let una = model.una;
        model.between(una, una + max).for_each(|byte| byte.is_lost = true);
    }
}

fn take(step: &Step, now: u64, flight: &mut Flight, model: &mut Model) {
    let mut delivery = Delivery::default();
    match *step {
        Step::Send(len) => {
            flight.sent(len, 1, at(now));
            let byte = Byte { sent_at: now, ..Byte::default() };
            model.bytes.extend((0..len).map(|_| byte));
        }
        Step::Acknowledge(len) => {
            let len = len.min(model.len());
            flight.acknowledge(BASE + (model.una + len), &mut delivery, at(now));
            let newly_delivered =
                model.bytes.drain(..len as usize).filter(|b| !b.is_sacked).count();
            assert_eq!(delivery.delivered, newly_delivered as u64);
            model.una += len;
        }
        Step::Sack(start, len) => {
            let start = model.una + start;
            let end = (start + len).min(model.una + model.len());
            if start < end {
                flight.sack((BASE + start, BASE + end), &mut delivery, at(now));
                flight.end_sack_blocks();
                if delivery.refused == 0 {
                    model.between(start, end).for_each(|byte| {
                        *byte = Byte { is_sacked: true, is_lost: false, ..*byte };
                    });
                }
            }
        }
        Step::SendAgain(max) => {
            if let Some((seq, len)) = flight.next_lost(max) {
                flight.sent_again(seq, len, at(now));
                let start = seq.since(BASE);
                let first = model.bytes.iter().position(|byte| byte.is_lost).unwrap();
                assert_eq!(start, model.una + u32::try_from(first).unwrap());
                model.between(start, start + len).for_each(|byte| {
                    assert!(byte.is_lost, "only what is lost goes again");
                    *byte = Byte { sent_at: now, ..Byte::default() };
                });
            }
        }
        Step::LoseFirst(max) => mark_first_lost(max, flight, model),
        Step::LoseOlderThan(age) => {
            let limit = at(now.saturating_sub(age));
            flight.classify(
                |sent_at, _| {
                    if sent_at < limit { LossVerdict::Lost } else { LossVerdict::Open }
                },
            );
            let limit = now.saturating_sub(age);
            for byte in &mut model.bytes {
                byte.is_lost |= !byte.is_sacked && byte.sent_at < limit;
            }
        }
        Step::TimeOut => {
            if flight.has_reneged() {
                flight.forget_blocks();
                model.bytes.iter_mut().for_each(|byte| byte.is_sacked = false);
            }
            flight.mark_all_lost();
            model.bytes.iter_mut().for_each(|byte| byte.is_lost = !byte.is_sacked);
        }
    }
}

proptest! {
    #[test]
    fn a_flight_equals_the_model_of_each_byte(
        steps in prop::collection::vec(any_step(), 1..80)
    ) {
        let mut flight = Flight::new(BASE);
        let mut model = Model::default();
        for (now, step) in (0..).zip(&steps) {
            take(step, now, &mut flight, &mut model);
            prop_assert_eq!(flight.outstanding(), model.bytes.len() as u64);
            prop_assert_eq!(flight.sacked(), model.count(|byte| byte.is_sacked));
            prop_assert_eq!(flight.lost(), model.count(|byte| byte.is_lost), "{:?}", step);
            let pipe = model.count(|byte| !byte.is_sacked && !byte.is_lost);
            prop_assert_eq!(flight.pipe(), pipe);
            let sum: u64 = flight.retransmitted.iter().map(|(start, a)| a.end - start).sum();
            prop_assert_eq!(flight.retransmitted(), sum);
        }
    }
}

#[test]
fn a_block_inside_a_super_segment_leaves_a_hole_on_each_side() {
    let mut flight = Flight::new(BASE);
    flight.sent(64_000, 64, at(0));
    let delivery = sack(&mut flight, 10_000, 20_000, at(100));
    assert_eq!((delivery.sacked, flight.pipe()), (10_000, 54_000));
    let (lost, _) =
        flight.classify(|_, end| if end <= 10_000 { LossVerdict::Lost } else { LossVerdict::Open });
    assert_eq!((lost, flight.next_lost(64_000)), (10_000, Some((BASE, 10_000))));
}

#[test]
fn the_newest_delivery_is_the_latest_transmission() {
    let mut flight = segments(10);
    flight.mark_first_lost(1000);
    flight.sent_again(BASE, 1000, at(50));
    let mut delivery = Delivery::default();
    flight.acknowledge(BASE + 3000, &mut delivery, at(100));
    let newest = delivery.newest.unwrap();
    assert_eq!(
        (newest.snapshot.sent_at, newest.end, newest.is_retransmission),
        (at(50), 1000, true)
    );
    assert!(delivery.acked_again && delivery.rtt.is_none());
}

#[test]
fn an_acknowledgment_by_number_measures_the_oldest_that_it_covers() {
    let mut flight = segments(4);
    let mut delivery = Delivery::default();
    flight.acknowledge(BASE + 2000, &mut delivery, at(100));
    assert_eq!(delivery.rtt, Some(Duration::from_millis(100)));
}

#[test]
fn data_received_below_the_highest_block_counts_as_reordered() {
    let mut flight = segments(10);
    assert_eq!(sack(&mut flight, 5000, 7000, at(10)).reordered, None);
    assert_eq!(sack(&mut flight, 2000, 3000, at(11)).reordered, Some(5000));
    assert_eq!(sack(&mut flight, 7000, 8000, at(12)).reordered, None);
}

// attack row 40
#[test]
fn an_acknowledgment_of_the_start_of_a_block_shows_reneging() {
    let mut flight = segments(10);
    sack(&mut flight, 3000, 5000, at(10));
    let mut delivery = Delivery::default();
    flight.acknowledge(BASE + 2000, &mut delivery, at(20));
    assert!(!flight.has_reneged());
    flight.acknowledge(BASE + 3000, &mut delivery, at(20));
    assert!(flight.has_reneged());
    flight.forget_blocks();
    flight.mark_all_lost();
    assert_eq!((flight.lost(), flight.sacked()), (7000, 0));
}

// attack rows 23 and 25
#[test]
fn a_peer_that_reports_more_ranges_than_segments_is_not_accepted() {
    let mut flight = segments(10);
    let refused: u32 =
        (0..1000).map(|hole| sack(&mut flight, 8 * hole + 1, 8 * hole + 2, at(20)).refused).sum();
    assert_eq!(refused, 1000 - 26);
    assert_eq!(flight.sacked(), 26);
}

// attack row 24
#[test]
fn with_a_hundred_thousand_holes_each_byte_is_classified_once() {
    const HOLES: u32 = 100_000;
    let mut flight = Flight::new(BASE);
    (0..2 * HOLES).for_each(|_| flight.sent(10, 1, at(0)));
    let classify_calls = core::cell::Cell::new(0_u32);
    for hole in 0..HOLES {
        let now = at(u64::from(hole / 1000));
        // The newest block comes first, then a forged block over everything reported before, then
        // the oldest block.
        sack(&mut flight, 20 * hole + 10, 20 * hole + 20, now);
        sack(&mut flight, 10, 20, now);
        flight.classify(|_, end| {
            classify_calls.set(classify_calls.get() + 1);
            let highest = u64::from(20 * hole);
            if end + 60 <= highest { LossVerdict::Lost } else { LossVerdict::Open }
        });
    }
    assert!(classify_calls.get() <= 2 * HOLES + 10, "{}", classify_calls.get());
    assert_eq!(flight.sacked.ranges(), HOLES as usize);
    assert!(flight.pieces.len() <= MAX_PIECES);
}

#[test]
fn reordered_data_is_outstanding_again_and_can_be_lost_again() {
    let mut flight = segments(4);
    flight.mark_all_lost();
    assert_eq!(flight.pipe(), 0);
    flight.clear_lost();
    assert_eq!(flight.pipe(), 4000);
    assert_eq!(flight.classify(|_, _| LossVerdict::Lost).0, 4000);
}

#[test]
fn the_rate_counts_bytes_delivered_within_a_round_trip() {
    let mut flight = segments(10);
    let mut delivery = Delivery::default();
    flight.acknowledge(BASE + 1000, &mut delivery, at(100));
    flight.sent(1000, 1, at(100));
    for step in 1..=10_u32 {
        delivery = Delivery::default();
        flight.acknowledge(BASE + 1000 + 1000 * step, &mut delivery, at(100 + u64::from(step)));
    }
    flight.sent(1000, 1, at(110));
    delivery = Delivery::default();
    flight.acknowledge(BASE + 12_000, &mut delivery, at(210));
    // Nothing was outstanding in between, so the rate is one segment per round trip.
    let sample = flight.rate(&delivery.newest.unwrap()).unwrap();
    assert_eq!(sample.bytes_per_s, 10_000);
}

#[test]
fn the_tail_of_a_flight_of_one_byte_is_that_byte() {
    let mut flight = Flight::new(BASE);
    flight.sent(1, 1, at(0));
    assert_eq!(flight.tail(1000), Some((BASE, 1)));
}

#[test]
fn a_forgotten_flight_has_no_segments() {
    let mut flight = segments(3);
    flight.forget_all();
    assert_eq!((flight.segments, flight.tail(1000)), (0, None));
}

#[test]
fn a_repeated_report_does_not_change_the_time_of_the_last_delivery() {
    let mut flight = segments(3);
    let delivered = [10, 20].map(|time| sack(&mut flight, 1000, 2000, at(time)).delivered);
    assert_eq!((delivered, flight.delivered_at), ([1000, 0], at(10)));
}

#[test]
fn an_acknowledgment_of_reported_data_delivers_nothing_more() {
    let mut flight = segments(2);
    sack(&mut flight, 1000, 2000, at(10));
    flight.acknowledge(BASE + 1000, &mut Delivery::default(), at(20));
    flight.acknowledge(BASE + 2000, &mut Delivery::default(), at(30));
    assert_eq!((flight.delivered, flight.delivered_at), (2000, at(20)));
}

#[test]
fn a_retransmission_that_is_marked_lost_is_not_in_the_network() {
    let mut flight = segments(2);
    flight.mark_first_lost(1000);
    flight.sent_again(BASE, 1000, at(10));
    assert_eq!((flight.retransmitted(), flight.lost()), (1000, 0));
    flight.mark_first_lost(1000);
    assert_eq!((flight.retransmitted(), flight.lost()), (0, 1000));
}

#[test]
fn a_report_of_unsent_data_is_ignored() {
    let mut flight = segments(3);
    let delivery = sack(&mut flight, 1000, 3001, at(10));
    assert_eq!((flight.sacked(), delivery.sacked), (0, 0));
    let delivery = sack(&mut flight, 1000, 3000, at(10));
    assert_eq!((flight.sacked(), delivery.sacked), (2000, 2000));
}

#[test]
fn data_sent_after_the_user_ran_out_of_data_is_app_limited_until_it_is_delivered() {
    let mut flight = segments(1);
    let mut is_app_limited = |millis| {
        flight.sent(1000, 1, at(millis));
        let is_app_limited = flight.pieces.back().unwrap().snapshot.is_app_limited;
        flight.app_limited();
        is_app_limited
    };
    assert_eq!([1, 2].map(&mut is_app_limited), [false, true]);
    flight.acknowledge(BASE + 3000, &mut Delivery::default(), at(10));
    flight.sent(1000, 1, at(10));
    assert!(!flight.pieces.back().unwrap().snapshot.is_app_limited);
}
