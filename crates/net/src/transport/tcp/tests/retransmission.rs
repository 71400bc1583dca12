//! Tests of retransmission (RFC 6298), of Karn's rule, of giving up, and of the bugs listed in RFC
//! 2525.

use super::*;

// req RFC9293:MUST-19, RFC9293:MUST-20, RFC9293:SHLD-11
#[test]
fn data_is_repeated_with_doubled_waits_and_given_up_after_two_minutes() {
    let profile = Profile { user_timeout: UserTimeout::DEFAULT, ..PLAIN };
    let mut script = Script::established(profile);
    script.send(b"x");
    let sent = script.wait(Duration::from_secs(1000));
    let waits: Vec<_> = sent.windows(2).map(|pair| pair[1].millis - pair[0].millis).collect();
    assert!(waits.windows(2).all(|pair| pair[1] == pair[0] * 2 || pair[1] == 60_000), "{waits:?}");
    assert!(sent.iter().all(|segment| (segment.seq, segment.len) == (1, 1)));
    assert_eq!(script.close_reason(), Some(CloseReason::TimedOut));
    let last = sent.last().unwrap().millis;
    assert!((100_000..240_000).contains(&last), "R2 is at least 100 s: {last} ms");
}

// req RFC9293:MUST-18
#[test]
fn karn_an_acknowledgment_of_retransmitted_data_is_not_measured() {
    let mut script = Script::established(PLAIN);
    let before = script.status().srtt;
    script.send(b"x");
    script.wait_millis(2000);
    assert!(script.status().statistics.retransmissions > 0);
    script.peer(Flags::ACK, 1, 2, b"");
    assert_eq!(script.status().srtt, before);
}

// req RFC9293:MUST-18
#[test]
fn karn_the_doubled_timeout_remains_until_the_next_measurement() {
    let mut script = Script::established(PLAIN);
    let rto = script.status().rto;
    script.send(b"x");
    script.wait_millis(300);
    script.peer(Flags::ACK, 1, 2, b"");
    assert_eq!(script.status().rto, rto * 2);
    script.send(b"y");
    script.wait_millis(10);
    script.peer(Flags::ACK, 1, 3, b"");
    assert!(script.status().rto < rto + Duration::from_millis(5));
}

#[test]
fn with_timestamps_the_answer_to_a_repeated_segment_measures() {
    let mut script = with_timestamps();
    script.send(b"x");
    let retransmitted = script.wait_millis(300);
    let (stamp, _) = retransmitted.last().unwrap().header.options.timestamps.unwrap();
    script.wait_millis(20);
    script.options.timestamps = Some((1001, stamp));
    let rto = script.status().rto;
    script.peer(Flags::ACK, 1, 2, b"");
    assert!(script.status().rto < rto);
}

fn with_timestamps() -> Script {
    let options = Options { mss: Some(1000), timestamps: Some((1000, 0)), ..Options::default() };
    let mut script = Script::asked_for_options(Profile::BULK, options);
    script.options.timestamps = Some((1000, 0));
    script.peer(Flags::ACK, 1, 1, b"");
    script
}

#[test]
fn a_path_slower_than_the_timeout_is_learned_without_timestamps() {
    let mut pair = Pair::new(1);
    let ids = pair.connect(PLAIN);
    pair.delay = Duration::from_millis(400);
    let data = pattern(300_000);
    assert!(pair.transfer(Side::Client, ids, &data) == data);
    let status = pair.client.status(ids.0).unwrap();
    assert!(status.rto > Duration::from_millis(800), "{:?}", status.rto);
    assert!(status.statistics.timeouts < 5, "{}", status.statistics.timeouts);
}

// req RFC9293:MUST-19
#[test]
fn after_a_timeout_all_data_is_retransmitted_in_slow_start() {
    let mut script = Script::established(PLAIN);
    assert_eq!(script.send(&pattern(4000)).len(), 4);
    let sent = script.wait_millis(250);
    assert_eq!(extents(&sent), [(1, 1000)]);
    let sent = script.peer(Flags::ACK, 1, 1001, b"");
    assert_eq!(extents(&sent), [(1001, 1000), (2001, 1000)]);
    let sent = script.peer(Flags::ACK, 1, 4001, b"");
    assert_eq!(sent, []);
    assert_eq!(script.wait(Duration::from_secs(300)), []);
}

#[test]
fn data_acknowledged_before_the_retransmission_is_not_sent_again() {
    let mut script = Script::established(PLAIN);
    script.send(&pattern(4000));
    script.wait_millis(250);
    let sent = script.peer(Flags::ACK, 1, 3001, b"");
    assert_eq!(extents(&sent), [(3001, 1000)]);
}

#[test]
fn the_timer_starts_again_with_every_acknowledgment() {
    let mut script = Script::established(PLAIN);
    script.send(&pattern(3000));
    script.wait_millis(150);
    script.peer(Flags::ACK, 1, 1001, b"");
    assert_eq!(script.wait_millis(150), []);
}

#[test]
fn no_timer_runs_when_all_is_acknowledged() {
    let mut script = Script::established(PLAIN);
    script.send(&pattern(3000));
    script.peer(Flags::ACK, 1, 3001, b"");
    script.assert_no_timer_runs();
}

#[test]
fn a_lost_syn_ack_costs_a_second() {
    let mut pair = Pair::new(1);
    pair.fate = Box::new(|number, _, _| number != 2);
    pair.connect(PLAIN);
    let opened_at = pair.trace.iter().find(|sent| sent.2.flags == Flags::ACK).unwrap().0;
    assert_eq!(opened_at.as_nanos() / 1_000_000, 1010);
}
