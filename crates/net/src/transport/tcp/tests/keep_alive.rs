//! Tests of keep-alive: RFC 9293 §3.8.4.

use super::*;

const POLICY: KeepAlive =
    KeepAlive { idle: Duration::from_secs(100), interval: Duration::from_secs(10), probes: 3 };

fn with_keep_alive() -> Script {
    Script::established(Profile { keep_alive: Some(POLICY), ..PLAIN })
}

// req RFC9293:MUST-25
#[test]
fn no_probe_is_sent_unless_keep_alive_is_enabled() {
    for profile in [Profile::BULK, Profile::INTERACTIVE] {
        assert_eq!(profile.keep_alive, None);
    }
    let mut script = Script::established(PLAIN);
    assert_eq!(script.wait(Duration::from_secs(30 * 86_400)), []);
    assert_eq!(script.state(), Some(State::Established));
}

// req RFC9293:MUST-24, RFC9293:MUST-27, RFC9293:MUST-28
#[test]
fn it_can_be_switched_on_and_off_and_its_interval_be_set() {
    let mut script = Script::established(PLAIN);
    let id = script.id.unwrap();
    script.tcp.set_keep_alive(id, Some(KeepAlive::default())).unwrap();
    assert_eq!(script.wait(Duration::from_secs(7199)), []);
    assert_eq!(script.wait(Duration::from_secs(2)).len(), 1);
    script.peer(Flags::ACK, 1, 1, b"");
    script.tcp.set_keep_alive(id, Some(POLICY)).unwrap();
    assert_eq!(script.wait(Duration::from_secs(99)), []);
    assert_eq!(script.wait(Duration::from_secs(2)).len(), 1);
    script.peer(Flags::ACK, 1, 1, b"");
    script.tcp.set_keep_alive(id, None).unwrap();
    assert_eq!(script.wait(Duration::from_secs(86_400)), []);
}

// req RFC9293:SHLD-12, RFC9293:MAY-5
#[test]
fn a_probe_has_no_data_and_a_number_that_was_acknowledged() {
    let mut script = with_keep_alive();
    script.send(b"abc");
    script.peer(Flags::ACK, 1, 4, b"");
    let sent = script.wait(Duration::from_secs(105));
    assert_eq!(texts(&sent), ["<ACK seq 3 ack 1 len 0>"]);
    assert_eq!(script.status().statistics.keep_alive_probes, 1);
}

// req RFC9293:MUST-26
#[test]
fn received_segments_postpone_the_probe() {
    let mut script = with_keep_alive();
    for step in 0..5 {
        script.wait(Duration::from_secs(90));
        script.peer(Flags::ACK, 1 + step, 1, b"x");
    }
    script.wait(Duration::from_secs(99));
    assert_eq!(script.counted(Counter::TcpKeepAlives), 0);
    script.wait(Duration::from_secs(2));
    assert_eq!(script.counted(Counter::TcpKeepAlives), 1);
}

// req RFC9293:MUST-26
#[test]
fn nothing_is_probed_while_data_is_outstanding_or_a_window_is_zero() {
    let policy = KeepAlive { idle: Duration::from_secs(1), ..POLICY };
    let mut script = Script::established(Profile { keep_alive: Some(policy), ..PLAIN });
    script.send(b"abc");
    script.wait(Duration::from_secs(60));
    script.window = 0;
    script.peer(Flags::ACK, 1, 4, b"");
    script.send(b"def");
    script.wait(Duration::from_secs(60));
    assert_eq!(script.counted(Counter::TcpKeepAlives), 0);
}

// req RFC9293:MUST-29
#[test]
fn the_connection_ends_only_when_the_last_probe_is_not_answered() {
    let mut script = with_keep_alive();
    let sent = script.wait(Duration::from_secs(300));
    assert_eq!(seconds(&sent), [100, 110, 120]);
    assert_eq!(script.close_reason(), Some(CloseReason::TimedOut));
}

// req RFC9293:MUST-29
#[test]
fn one_answer_resets_the_count_of_lost_probes() {
    let mut script = with_keep_alive();
    assert_eq!(seconds(&script.wait(Duration::from_secs(125))), [100, 110, 120]);
    script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!(seconds(&script.wait(Duration::from_secs(101))), [225]);
    assert_eq!(script.state(), Some(State::Established));
}

#[test]
fn the_probe_of_a_peer_is_answered() {
    let mut script = Script::established(PLAIN);
    let answer = script.peer(Flags::ACK, 0, 1, b"");
    assert_eq!(texts(&answer), ["<ACK seq 1 ack 1 len 0>"]);
    let answer = script.peer(Flags::ACK, 0, 1, b"?");
    assert_eq!(texts(&answer), ["<ACK seq 1 ack 1 len 0>"], "with a byte that is nothing, too");
}

#[test]
fn a_pair_stays_open_for_a_day_without_data_and_ends_when_the_wire_is_cut() {
    let mut pair = Pair::new(1);
    let (client, server) = pair.connect(Profile { keep_alive: Some(POLICY), ..Profile::BULK });
    pair.run(Duration::from_secs(86_400));
    assert_eq!(pair.state(Side::Client, client), State::Established);
    assert_eq!(pair.state(Side::Server, server), State::Established);
    pair.fate = Box::new(|_, _, _| false);
    pair.run(Duration::from_secs(200));
    assert_eq!(pair.client.status(client).unwrap().close_reason, Some(CloseReason::TimedOut));
    assert_eq!(pair.server.status(server).unwrap().close_reason, Some(CloseReason::TimedOut));
}

#[test]
fn an_idle_time_of_zero_causes_no_busy_loop() {
    let policy = KeepAlive { idle: Duration::ZERO, ..POLICY };
    let mut script = Script::established(Profile { keep_alive: Some(policy), ..PLAIN });
    script.send(b"x");
    let sent = script.wait_millis(500);
    assert_eq!(extents(&sent), [(1, 1)], "the timeout, and no probe");
}

#[test]
fn a_keep_alive_probe_is_sent_after_data_that_is_sent_at_the_same_time() {
    let mut script = with_keep_alive();
    script.context.advance(POLICY.idle);
    script.tcp.timeout(&mut script.context.cx());
    let sent = script.send(b"x");
    assert_eq!(texts(&sent), ["<PSH,ACK seq 1 ack 1 len 1>", "<ACK seq 0 ack 1 len 0>"]);
}
