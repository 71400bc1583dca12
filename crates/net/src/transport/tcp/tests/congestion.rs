//! Tests of congestion control by the segments sent: RFC 5681, RFC 6582, RFC 6928; row 39 of
//! docs/ledger/attacks.txt.

use super::*;

/// Returns a script with twenty segments outstanding. The peer's window is larger, and the
/// congestion window has grown to twenty segments.
fn with_twenty_outstanding() -> Script {
    let mut script = Script::established(PLAIN);
    assert_eq!(script.send(&pattern(60_000)).len(), 10);
    for segment in 1..=10 {
        script.peer(Flags::ACK, 1, 1 + segment * 1000, b"");
    }
    assert_eq!(script.status().congestion_window, 20_000);
    script
}

#[test]
fn the_first_flight_has_ten_segments() {
    let mut script = Script::established(PLAIN);
    assert_eq!(script.send(&pattern(60_000)).len(), 10);
}

#[test]
fn the_third_duplicate_repeats_the_first_hole_at_once() {
    let mut script = with_twenty_outstanding();
    script.peer(Flags::ACK, 1, 10_001, b"");
    script.peer(Flags::ACK, 1, 10_001, b"");
    let sent = script.peer(Flags::ACK, 1, 10_001, b"");
    assert_eq!(extents(&sent), [(10_001, 1000)]);
    assert_eq!(script.status().slow_start_threshold, Some(10_000));
}

#[test]
fn the_first_two_duplicates_each_allow_a_new_segment() {
    let mut script = with_twenty_outstanding();
    let window = script.status().congestion_window;
    assert_eq!(extents(&script.peer(Flags::ACK, 1, 10_001, b"")), [(30_001, 1000)]);
    assert_eq!(extents(&script.peer(Flags::ACK, 1, 10_001, b"")), [(31_001, 1000)]);
    assert_eq!(script.status().congestion_window, window);
}

#[test]
fn each_partial_acknowledgment_repeats_the_next_hole() {
    let mut script = with_twenty_outstanding();
    for _ in 0..3 {
        script.peer(Flags::ACK, 1, 10_001, b"");
    }
    let sent = script.peer(Flags::ACK, 1, 13_001, b"");
    assert_eq!(sent[0].seq, 13_001, "the second of three losses");
    let sent = script.peer(Flags::ACK, 1, 16_001, b"");
    assert_eq!(sent[0].seq, 16_001, "the third");
    script.peer(Flags::ACK, 1, 30_001, b"");
    assert_eq!(script.status().statistics.fast_retransmits, 1);
    assert_eq!(script.status().statistics.timeouts, 0);
    assert!(script.status().congestion_window <= 10_000);
}

#[test]
fn two_and_three_losses_in_one_window_need_no_timeout() {
    for lost in [&[30_u64, 33][..], &[30, 33, 36]] {
        let mut pair = Pair::new(1);
        let ids = pair.connect(PLAIN);
        let mut number = 0;
        pair.fate = Box::new(move |_, side, _| {
            number += u64::from(side == Side::Client);
            side != Side::Client || !lost.contains(&number)
        });
        let data = pattern(200_000);
        assert!(pair.transfer(Side::Client, ids, &data) == data);
        let statistics = pair.client.status(ids.0).unwrap().statistics;
        assert_eq!((statistics.timeouts, statistics.fast_retransmits), (0, 1), "{lost:?}");
        assert_eq!(statistics.retransmissions, lost.len() as u64);
    }
}

#[test]
fn acknowledgments_with_data_or_a_new_window_are_no_duplicates() {
    let mut script = with_twenty_outstanding();
    for step in 0..5 {
        script.window = 50_000 + step;
        assert_eq!(script.peer(Flags::ACK, 1, 10_001, b""), []);
    }
    for step in 0..5 {
        script.peer(Flags::ACK, 1 + step, 10_001, b"x");
    }
    assert_eq!(script.status().statistics.duplicate_acks, 0);
}

#[test]
fn without_outstanding_data_no_acknowledgment_is_a_duplicate() {
    let mut script = Script::established(PLAIN);
    for _ in 0..10 {
        script.peer(Flags::ACK, 1, 1, b"");
    }
    assert_eq!(script.status().statistics.duplicate_acks, 0);
}

#[test]
fn the_receiver_sends_one_duplicate_for_each_segment_out_of_order_even_if_all_arrive_at_once() {
    let mut script = Script::established(PLAIN);
    for step in 1..=5 {
        script.deliver(Flags::ACK, 1 + step * 10, 1, b"0123456789");
    }
    let answers = script.output();
    assert_eq!(answers.len(), 5);
    assert!(answers.iter().all(|answer| (answer.ack, answer.len) == (1, 0)));
}

#[test]
fn after_an_idle_time_the_flight_begins_with_ten_segments_again() {
    let mut script = with_twenty_outstanding();
    let sent = script.peer(Flags::ACK, 1, 30_001, b"");
    assert_eq!(sent.len(), 30);
    script.peer(Flags::ACK, 1, 60_001, b"");
    assert!(script.status().congestion_window > 20_000);
    script.wait(Duration::from_secs(5));
    assert_eq!(script.send(&pattern(40_000)).len(), 10);
}

// req RFC9293:MUST-19
#[test]
fn a_timeout_brings_the_window_to_one_segment_and_the_threshold_to_half_the_flight() {
    let mut script = with_twenty_outstanding();
    script.wait_millis(250);
    assert_eq!(script.status().congestion_window, 1000);
    assert_eq!(script.status().slow_start_threshold, Some(10_000));
    script.wait_millis(2000);
    assert_eq!(script.status().slow_start_threshold, Some(10_000), "once for the same data");
}

// attack row 39
#[test]
fn attack_39_an_acknowledgment_of_unsent_data_does_not_grow_the_window() {
    let mut script = Script::established(PLAIN);
    script.send(&pattern(60_000));
    let window = script.status().congestion_window;
    let answer = script.peer(Flags::ACK, 1, 10_002, b"");
    assert_eq!(texts(&answer), ["<ACK seq 10001 ack 1 len 0>"]);
    assert_eq!(script.status().congestion_window, window);
    assert_eq!(script.counted(Counter::TcpAcksUnsent), 1);
}

// attack row 39
#[test]
fn attack_39_acknowledging_byte_by_byte_gains_nothing() {
    let mut script = Script::established(PLAIN);
    script.send(&pattern(60_000));
    for byte in 1..=1000 {
        script.peer(Flags::ACK, 1, 1 + byte, b"");
    }
    assert_eq!(script.status().congestion_window, 11_000);
}

// attack row 39
#[test]
fn attack_39_forged_duplicates_allow_no_more_data_than_was_outstanding() {
    let mut script = with_twenty_outstanding();
    let sent: usize = (0..1000).map(|_| script.peer(Flags::ACK, 1, 10_001, b"").len()).sum();
    assert!(sent <= 21, "{sent}");
    assert!(script.status().congestion_window <= 32_000);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut script = Script::established(PLAIN);
    for ack in 1..=5 {
        assert_eq!(script.send(&[7; 100]).len(), 1);
        script.wait_millis(10);
        script.peer(Flags::ACK, 1, 1 + ack * 100, b"");
    }
    assert_eq!(script.status().congestion_window, 10_000);
}

#[test]
fn the_window_remains_if_the_next_data_follows_within_a_timeout() {
    let mut script = Script::established(PLAIN);
    assert_eq!(script.send(&pattern(10_000)).len(), 10);
    script.wait_millis(100);
    script.peer(Flags::ACK, 1, 10_001, b"");
    let window = script.status().congestion_window;
    assert!(window > 10_000);
    script.wait_millis(100);
    script.send(b"x");
    assert_eq!(script.status().congestion_window, window);
}
