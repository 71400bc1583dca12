//! Tests of delayed and immediate acknowledgments: RFC 9293 §3.8.6.3, RFC 5681 §4.2, TM-233 §3.3.

use super::*;

// req RFC9293:MUST-40, RFC9293:SHLD-18
#[test]
fn one_segment_is_acknowledged_after_the_delay() {
    let mut script = Script::established(PLAIN);
    assert_eq!(script.peer(Flags::ACK, 1, 1, b"x"), []);
    let sent = script.wait_millis(500);
    assert_eq!(texts(&sent), ["<ACK seq 1 ack 2 len 0>"]);
    assert_eq!(sent[0].millis, 40, "MUST-40: below half a second");
    assert_eq!(script.counted(Counter::TcpDelayedAckTimeouts), 1);
}

// req RFC9293:MUST-40
#[test]
fn an_acknowledgment_is_delayed_by_less_than_half_a_second_whatever_is_configured() {
    for configured_ms in [300, 499, 500, 60_000] {
        let acknowledgment = Acknowledgment::Delayed(Duration::from_millis(configured_ms));
        let mut script = Script::established(Profile { acknowledgment, ..PLAIN });
        assert_eq!(script.peer(Flags::ACK, 1, 1, b"x"), []);
        let sent = script.wait_millis(120_000);
        assert_eq!(texts(&sent), ["<ACK seq 1 ack 2 len 0>"]);
        assert_eq!(sent[0].millis, configured_ms.min(499));
    }
}

// req RFC9293:SHLD-19
#[test]
fn every_second_full_segment_is_acknowledged_at_once() {
    let mut script = Script::established(PLAIN);
    assert_eq!(script.peer(Flags::ACK, 1, 1, &pattern(1000)), []);
    let answer = script.peer(Flags::ACK, 1001, 1, &pattern(1000));
    assert_eq!(texts(&answer), ["<ACK seq 1 ack 2001 len 0>"]);
}

// req RFC9293:MUST-58, RFC9293:MUST-59
#[test]
fn segments_that_arrive_together_share_an_acknowledgment() {
    let mut script = Script::established(PLAIN);
    for step in 0..6 {
        script.deliver(Flags::ACK, 1 + step * 1000, 1, &pattern(1000));
    }
    assert_eq!(texts(&script.output()), ["<ACK seq 1 ack 6001 len 0>"]);
}

#[test]
fn a_delayed_acknowledgment_is_piggybacked_on_the_echo() {
    let mut script = Script::established(PLAIN);
    script.peer(Flags::ACK, 1, 1, b"k");
    let echo = script.send(b"k");
    assert_eq!(texts(&echo), ["<PSH,ACK seq 1 ack 2 len 1>"]);
    assert_eq!(script.wait_millis(45), []);
    assert_eq!(script.status().statistics.piggybacked_acks, 1);
}

#[test]
fn at_output_echo_acknowledgment_and_window_share_one_segment() {
    let mut script = Script::established(Profile { extensions: false, ..Profile::INTERACTIVE });
    script.deliver(Flags::ACK, 1, 1, b"k");
    script.tcp.consume(script.id.unwrap(), 1).unwrap();
    script.tcp.send(script.id.unwrap(), b"k").unwrap();
    assert_eq!(texts(&script.output()), ["<PSH,ACK seq 1 ack 2 len 1>"]);
}

#[test]
fn at_output_data_without_an_answer_is_acknowledged_at_once() {
    let mut script = Script::established(Profile { extensions: false, ..Profile::INTERACTIVE });
    let answer = script.peer(Flags::ACK, 1, 1, b"k");
    assert_eq!(texts(&answer), ["<ACK seq 1 ack 2 len 0>"]);
}

// req RFC9293:SHLD-31, RFC9293:MAY-13
#[test]
fn a_segment_that_fills_a_hole_is_acknowledged_at_once() {
    let mut script = Script::established(PLAIN);
    script.peer(Flags::ACK, 4, 1, b"def");
    let answer = script.peer(Flags::ACK, 1, 1, b"abc");
    assert_eq!(texts(&answer), ["<ACK seq 1 ack 7 len 0>"]);
}

// req RFC9293:SHLD-31
#[test]
fn a_segment_that_fills_a_hole_and_repeats_all_behind_it_is_acknowledged_at_once() {
    let mut script = Script::established(PLAIN);
    script.peer(Flags::ACK, 4, 1, b"def");
    let answer = script.peer(Flags::ACK, 1, 1, b"abcdef");
    assert_eq!(texts(&answer), ["<ACK seq 1 ack 7 len 0>"]);
}

#[test]
fn an_old_duplicate_is_acknowledged_at_once() {
    let mut script = Script::established(PLAIN);
    script.peer(Flags::ACK, 1, 1, b"abc");
    script.wait_millis(50);
    let answer = script.peer(Flags::ACK, 1, 1, b"abc");
    assert_eq!(texts(&answer), ["<ACK seq 1 ack 4 len 0>"]);
    assert_eq!(script.tcp.received(script.id.unwrap()).unwrap(), b"abc");
}

#[test]
fn an_acknowledgment_is_never_acknowledged() {
    let mut script = Script::established(PLAIN);
    script.send(b"x");
    assert_eq!(script.peer(Flags::ACK, 1, 2, b""), []);
    assert_eq!(script.wait(Duration::from_secs(10)), []);
}

#[test]
fn only_the_new_part_of_an_overlap_is_accepted() {
    let mut script = Script::established(PLAIN);
    script.peer(Flags::ACK, 1, 1, b"abc");
    script.peer(Flags::ACK, 2, 1, b"bcdef");
    assert_eq!(script.tcp.received(script.id.unwrap()).unwrap(), b"abcdef");
    assert_eq!(script.counted(Counter::TcpDuplicateBytes), 2);
}

// req RFC9293:SHLD-19
#[test]
fn two_segments_that_are_a_little_shorter_than_the_largest_count_as_full() {
    let mut script = Script::established(PLAIN);
    assert_eq!(script.peer(Flags::ACK, 1, 1, &pattern(700)), []);
    let answer = script.peer(Flags::ACK, 701, 1, &pattern(700));
    assert_eq!(texts(&answer), ["<ACK seq 1 ack 1401 len 0>"]);
}

#[test]
fn in_a_window_of_few_segments_each_is_acknowledged() {
    let profile = Profile { receive_window: ReceiveWindow::Bytes(8000), ..PLAIN };
    let mut script = Script::established(profile);
    let answer = script.peer(Flags::ACK, 1, 1, &pattern(1000));
    assert_eq!(texts(&answer), ["<ACK seq 1 ack 1001 len 0>"]);
    assert_eq!(script.peer(Flags::ACK, 1001, 1, b"k"), [], "but not a typed key");
}
