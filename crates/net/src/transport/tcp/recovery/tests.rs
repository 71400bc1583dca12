//! Tests of loss recovery: the acknowledgments that it receives, and its responses.

use super::*;
use std::vec::Vec;

const MS: Duration = Duration::from_millis(1);
const SRTT: Option<Duration> = Some(Duration::from_millis(100));

fn at(millis: u32) -> Instant {
    Instant::ZERO + MS * millis
}

/// Returns a sender that has sent segments of 1000 bytes from sequence number 0 on, one per
/// millisecond.
fn sender(congestion: Congestion, has_blocks: bool, segments: u32) -> Recovery {
    let mut recovery = Recovery::new(congestion, 1000, Seq(0), has_blocks);
    (0..segments).for_each(|segment| recovery.sent(1000, at(segment)));
    recovery.record_limit(true);
    recovery
}

fn acknowledgment(ack: u32, blocks: &[Block]) -> Acknowledged<'_> {
    Acknowledged {
        ack: Seq(ack),
        blocks,
        is_duplicate: false,
        is_ack_of_original: false,
        srtt: SRTT,
    }
}

fn block(first: u32, end: u32) -> Block {
    (Seq(first * 1000), Seq(end * 1000))
}

/// Retransmits all data that is allowed, and returns the first sequence number of each segment.
fn retransmit(recovery: &mut Recovery, now: Instant) -> Vec<u32> {
    let mut all = Vec::new();
    while let Some((seq, len)) = recovery.next_lost(1000) {
        recovery.sent_again(seq, len, now);
        all.push(seq.0);
    }
    all
}

#[test]
fn the_third_block_segment_begins_a_recovery_that_ends_at_the_threshold() {
    let mut recovery = sender(Congestion::Cubic, true, 10);
    recovery.acknowledged(&acknowledgment(0, &[block(1, 2)]), at(101));
    recovery.acknowledged(&acknowledgment(0, &[block(1, 3)]), at(102));
    assert_eq!((recovery.phase, retransmit(&mut recovery, at(102)).len()), (Phase::Disorder, 0));
    let outcome = recovery.acknowledged(&acknowledgment(0, &[block(1, 4)]), at(103));
    assert!(outcome.began_recovery);
    assert_eq!(retransmit(&mut recovery, at(103)), [0]);
    (5..=10).for_each(|end| {
        recovery.acknowledged(&acknowledgment(0, &[block(1, end)]), at(99 + end));
    });
    recovery.acknowledged(&acknowledgment(10_000, &[]), at(203));
    assert_eq!((recovery.phase, recovery.window.cwnd()), (Phase::Open, 7000));
}

#[test]
fn any_losses_of_one_window_are_retransmitted_without_a_timeout() {
    for lost in 1..=12_u32 {
        let mut recovery = sender(Congestion::Cubic, true, 16);
        let mut retransmitted = Vec::new();
        for end in lost + 1..=16 {
            recovery.acknowledged(&acknowledgment(0, &[block(lost, end)]), at(100 + end));
            retransmitted.extend(retransmit(&mut recovery, at(100 + end)));
        }
        // The acknowledgment of a retransmission allows further ones.
        for una in 1..=lost {
            recovery.acknowledged(&acknowledgment(una * 1000, &[block(lost, 16)]), at(220 + una));
            retransmitted.extend(retransmit(&mut recovery, at(220 + una)));
        }
        let expected: Vec<u32> = (0..lost).map(|segment| segment * 1000).collect();
        assert_eq!(retransmitted, expected);
    }
}

#[test]
fn an_echo_from_before_the_retransmission_restores_the_window() {
    let mut recovery = sender(Congestion::Cubic, true, 10);
    recovery.acknowledged(&acknowledgment(0, &[block(1, 4)]), at(103));
    retransmit(&mut recovery, at(103));
    assert_eq!(recovery.first_retransmission_at(), Some(at(103)));
    let late_ack = Acknowledged { is_ack_of_original: true, ..acknowledgment(4000, &[]) };
    let outcome = recovery.acknowledged(&late_ack, at(105));
    assert!(outcome.undone);
    assert_eq!((recovery.phase, recovery.window.cwnd()), (Phase::Open, 10_000));
}

#[test]
fn a_duplicate_report_of_all_data_restores_the_window() {
    let mut recovery = sender(Congestion::NewReno, true, 10);
    recovery.acknowledged(&acknowledgment(0, &[block(1, 4)]), at(103));
    retransmit(&mut recovery, at(103));
    recovery.acknowledged(&acknowledgment(10_000, &[]), at(110));
    assert_eq!(recovery.window.cwnd(), 5000);
    let outcome = recovery.acknowledged(&acknowledgment(10_000, &[block(0, 1)]), at(203));
    assert!(outcome.duplicate_bytes && outcome.undone);
    assert_eq!(recovery.window.cwnd(), 10_000);
    assert_eq!(recovery.flight.outstanding(), 0);
}

#[test]
fn an_answer_to_data_sent_once_shows_a_spurious_timeout() {
    let mut recovery = sender(Congestion::Cubic, true, 10);
    recovery.timed_out(true);
    assert_eq!((recovery.window.cwnd(), retransmit(&mut recovery, at(300)).len()), (1000, 1));
    let outcome = recovery.acknowledged(&acknowledgment(0, &[block(3, 4)]), at(301));
    assert!(outcome.undone);
    assert_eq!(recovery.window.cwnd(), 10_000);
}

#[test]
fn the_loss_of_the_tail_is_repaired_by_a_probe_and_answered_by_the_window() {
    let mut recovery = sender(Congestion::NewReno, true, 10);
    recovery.start_probe_timer(SRTT, Some(at(500)), at(10));
    assert_eq!(recovery.deadline(), Some(at(210)));
    assert_eq!(recovery.timeout(SRTT, at(210)), (true, false));
    let (seq, len) = recovery.tail().unwrap();
    assert_eq!((seq, len), (Seq(9000), 1000));
    recovery.sent_again(seq, len, at(210));
    recovery.tail_probe_sent(true);
    recovery.acknowledged(&acknowledgment(10_000, &[]), at(310));
    assert_eq!(recovery.window.cwnd(), 20_000, "it is ambiguous which of the two it answers");
    recovery.sent(1000, at(311));
    recovery.acknowledged(&acknowledgment(11_000, &[]), at(411));
    assert_eq!(recovery.window.cwnd(), 5000);
}

#[test]
fn a_probe_reported_as_duplicate_was_unnecessary() {
    let mut recovery = sender(Congestion::NewReno, true, 10);
    recovery.sent_again(Seq(9000), 1000, at(210));
    recovery.tail_probe_sent(true);
    recovery.acknowledged(&acknowledgment(10_000, &[]), at(211));
    recovery.acknowledged(&acknowledgment(10_000, &[block(9, 10)]), at(310));
    recovery.sent(1000, at(311));
    recovery.acknowledged(&acknowledgment(11_000, &[]), at(411));
    assert!(recovery.window.cwnd() >= 10_000);
}

#[test]
fn a_probe_precedes_the_timeout_and_needs_sack() {
    let mut recovery = sender(Congestion::Cubic, true, 10);
    recovery.start_probe_timer(SRTT, Some(at(200)), at(10));
    assert_eq!(recovery.deadline(), Some(at(200)));
    let mut recovery = sender(Congestion::Cubic, false, 10);
    recovery.start_probe_timer(SRTT, Some(at(500)), at(10));
    assert_eq!(recovery.deadline(), None);
}

#[test]
fn a_mark_reduces_the_window_once_per_round_trip() {
    let mut recovery = sender(Congestion::NewReno, true, 10);
    recovery.acknowledged(&acknowledgment(1000, &[]), at(100));
    assert!(recovery.process_mark());
    assert!(!recovery.process_mark());
    assert_eq!(recovery.phase, Phase::Reduced);
    recovery.acknowledged(&acknowledgment(10_000, &[]), at(100));
    assert_eq!((recovery.phase, recovery.window.cwnd()), (Phase::Open, 5000));
}

#[test]
fn a_window_that_does_not_limit_the_sender_does_not_grow() {
    let mut recovery = sender(Congestion::NewReno, true, 2);
    recovery.flight_max = 2000;
    recovery.is_window_limited = false;
    recovery.acknowledged(&acknowledgment(2000, &[]), at(100));
    assert_eq!(recovery.window.cwnd(), 10_000);
}

// attack row 40
#[test]
fn reneged_data_is_retransmitted_after_the_timeout() {
    let mut recovery = sender(Congestion::Cubic, true, 10);
    recovery.acknowledged(&acknowledgment(0, &[block(2, 10)]), at(110));
    retransmit(&mut recovery, at(110));
    let outcome = recovery.acknowledged(&acknowledgment(2000, &[]), at(210));
    assert!(outcome.has_reneged);
    recovery.timed_out(true);
    assert_eq!(recovery.flight.lost(), 8000);
}

#[test]
fn the_reordering_wait_uses_the_rtt_of_the_last_delivered_segment() {
    let mut recovery = sender(Congestion::Cubic, true, 0);
    recovery.sent(10_000, at(0));
    recovery.record_limit(true);
    recovery.acknowledged(&acknowledgment(0, &[block(1, 2)]), at(10));
    recovery.acknowledged(&acknowledgment(0, &[block(1, 3)]), at(10));
    recovery.acknowledged(&acknowledgment(0, &[block(1, 3), block(8, 9)]), at(10));
    assert_eq!(retransmit(&mut recovery, at(10)), [0]);
    // The segment at 3000 took 22 ms, and the one at 9000 has been outstanding for at most this
    // time.
    recovery.acknowledged(&acknowledgment(4000, &[block(8, 9)]), at(22));
    assert_eq!(recovery.next_lost(60_000), Some((Seq(4000), 3000)));
}

#[test]
fn segments_divide_the_maximum_of_outstanding_bytes_evenly() {
    let mut recovery = sender(Congestion::NewReno, true, 0);
    assert_eq!(recovery.window.cwnd(), 10_000);
    let even = |recovery: &mut Recovery, outstanding_max| {
        recovery.divide_evenly(outstanding_max, 1500);
        recovery.even_len(outstanding_max, 1500)
    };
    assert_eq!(even(&mut recovery, 10_000), 10_000 / 7);
    assert_eq!(even(&mut recovery, 10_001), 1500);
}

#[test]
fn no_connection_is_settled_while_a_tail_probe_may_be_reported_as_a_duplicate() {
    let mut recovery = sender(Congestion::NewReno, true, 10);
    recovery.sent_again(Seq(9000), 1000, at(210));
    recovery.tail_probe_sent(true);
    recovery.acknowledged(&acknowledgment(10_000, &[]), at(211));
    assert_eq!((recovery.flight.outstanding(), recovery.deadline()), (0, None));
    assert!(recovery.idle_state().is_none());
    recovery.acknowledged(&acknowledgment(10_000, &[block(9, 10)]), at(310));
    assert!(recovery.idle_state().is_some());
}

#[test]
fn a_duplicate_without_blocks_is_disorder() {
    let mut recovery = sender(Congestion::NewReno, false, 10);
    recovery.acknowledged(&Acknowledged { is_duplicate: true, ..acknowledgment(0, &[]) }, at(101));
    assert_eq!(recovery.phase, Phase::Disorder);
}

#[test]
fn duplicate_acks_and_the_acknowledgment_count_bytes_once() {
    let mut recovery = sender(Congestion::NewReno, false, 20);
    let duplicate = Acknowledged { is_duplicate: true, ..acknowledgment(0, &[]) };
    for number in 1..=6 {
        recovery.acknowledged(&duplicate, at(100 + number));
        retransmit(&mut recovery, at(100 + number));
    }
    recovery.acknowledged(&acknowledgment(7000, &[]), at(210));
    // Seven segments have left the network, six of them reported by duplicate acknowledgments. The
    // next one is lost.
    assert_eq!((recovery.pipe(), recovery.window.cwnd()), (12_000, 13_000));
}

#[test]
fn a_timeout_after_an_undone_recovery_reduces_the_threshold() {
    let mut recovery = sender(Congestion::NewReno, true, 10);
    let outcome = recovery.acknowledged(&acknowledgment(0, &[block(1, 4)]), at(103));
    recovery.forgive();
    assert_eq!((outcome.began_recovery, recovery.phase), (true, Phase::Open));
    assert!(recovery.window.ssthresh() > 10_000);
    recovery.timed_out(true);
    assert_eq!(recovery.window.ssthresh(), 5000);
}

#[test]
fn a_loss_detected_by_the_reordering_timer_reduces_the_window() {
    let mut recovery = sender(Congestion::NewReno, true, 10);
    recovery.acknowledged(&acknowledgment(0, &[block(1, 2)]), at(101));
    let (_, began) = recovery.timeout(SRTT, recovery.deadline().unwrap());
    assert!(began);
    assert_eq!((recovery.pipe(), recovery.window.cwnd()), (8000, 9000));
}

#[test]
fn no_connection_is_settled_while_a_recovery_may_prove_spurious() {
    let mut recovery = sender(Congestion::NewReno, true, 10);
    recovery.acknowledged(&acknowledgment(0, &[block(1, 4)]), at(103));
    retransmit(&mut recovery, at(103));
    recovery.acknowledged(&acknowledgment(10_000, &[]), at(110));
    assert_eq!((recovery.phase, recovery.flight.outstanding()), (Phase::Open, 0));
    assert!(recovery.idle_state().is_none());
    recovery.acknowledged(&acknowledgment(10_000, &[block(0, 1)]), at(203));
    assert!(recovery.idle_state().is_some());
}

#[test]
fn data_is_lost_only_after_a_loss_was_detected() {
    let mut recovery = sender(Congestion::Cubic, true, 5);
    assert!(!recovery.has_lost());
    recovery.acknowledged(&acknowledgment(0, &[block(1, 4)]), at(103));
    assert!(recovery.has_lost());
}

#[test]
fn a_probe_that_is_not_due_remains_scheduled() {
    let mut recovery = sender(Congestion::Cubic, true, 2);
    recovery.probe_at = Some(at(500));
    assert_eq!(recovery.timeout(SRTT, at(499)), (false, false));
    assert_eq!(recovery.deadline(), Some(at(500)));
}

#[test]
fn the_round_trip_of_a_reported_segment_is_measured_unless_it_is_a_retransmission() {
    let mut recovery = sender(Congestion::Cubic, true, 5);
    let outcome = recovery.acknowledged(&acknowledgment(0, &[block(1, 5)]), at(104));
    assert_eq!(outcome.rtt, Some(MS * 100));
    assert_eq!(retransmit(&mut recovery, at(104)), [0]);
    let outcome = recovery.acknowledged(&acknowledgment(1000, &[]), at(204));
    assert_eq!(outcome.rtt, None);
}

#[test]
fn a_model_measures_the_round_trip_of_data_that_was_sent_once() {
    let mut recovery = sender(Congestion::Bbr, true, 5);
    recovery.acknowledged(&acknowledgment(1000, &[]), at(100));
    assert!(recovery.pacing.rate().is_some());
}
