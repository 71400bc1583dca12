//! Tests of giving up a connection: RFC 9293 §3.8.3, RFC 5482.

use super::*;

fn with_user_timeout(user_timeout: UserTimeout) -> Profile {
    Profile { user_timeout, ..PLAIN }
}

const SHORT: UserTimeout = UserTimeout { r2: Some(Duration::from_secs(3)), ..UserTimeout::DEFAULT };

// req RFC9293:MUST-20, RFC9293:SHLD-9, RFC9293:SHLD-10
#[test]
fn at_r1_the_user_and_the_layer_below_are_notified_and_at_r2_it_ends() {
    let mut script = Script::established(PLAIN);
    script.send(b"x");
    assert_eq!(script.wait_millis(700).len(), 2);
    assert!(!script.events.contains(&Event::Unresponsive));
    assert_eq!(script.tcp.take_suspect_destination(), None);
    assert_eq!(script.wait_millis(1000).len(), 1, "the third");
    assert!(script.events.contains(&Event::Unresponsive));
    assert_eq!(script.tcp.take_suspect_destination(), Some(CLIENT));
    assert_eq!(script.tcp.take_suspect_destination(), None, "once");
    script.wait(Duration::from_secs(1000));
    assert_eq!(script.close_reason(), Some(CloseReason::TimedOut));
}

// req RFC9293:MUST-22
#[test]
fn at_r1_of_a_syn_the_user_and_the_layer_below_are_notified_too() {
    let mut script = Script::syn_sent(PLAIN);
    script.wait(Duration::from_secs(8));
    assert!(script.events.contains(&Event::Unresponsive));
    assert_eq!(script.tcp.take_suspect_destination(), Some(CLIENT));
    assert_eq!(script.state(), Some(State::SynSent));
}

// req RFC9293:MUST-21
#[test]
fn the_user_can_set_an_exact_r2() {
    let mut script = Script::established(with_user_timeout(SHORT));
    script.send(b"x");
    script.wait_millis(3190);
    assert_eq!(script.state(), Some(State::Established));
    script.wait_millis(20);
    assert_eq!(script.close_reason(), Some(CloseReason::TimedOut));
}

// req RFC9293:MUST-21
#[test]
fn the_user_can_set_r2_of_an_open_connection() {
    let mut script = Script::established(PLAIN);
    let user_timeout = UserTimeout { r2: Some(Duration::from_secs(1000)), ..UserTimeout::DEFAULT };
    script.tcp.set_user_timeout(script.id.unwrap(), user_timeout).unwrap();
    script.send(b"x");
    script.wait(Duration::from_secs(990));
    assert_eq!(script.state(), Some(State::Established));
    script.wait(Duration::from_secs(20));
    assert_eq!(script.close_reason(), Some(CloseReason::TimedOut));
}

// req RFC9293:MUST-23
#[test]
fn a_syn_is_repeated_for_three_minutes_at_least_whatever_the_user_sets() {
    let user_timeout = UserTimeout { r2_syn: Duration::from_secs(1), ..SHORT };
    let mut script = Script::syn_sent(with_user_timeout(user_timeout));
    script.wait(Duration::from_secs(180));
    assert_eq!(script.state(), Some(State::SynSent));
    script.wait(Duration::from_secs(100));
    assert_eq!(script.close_reason(), Some(CloseReason::TimedOut));
}

#[test]
fn a_timeout_that_the_user_sets_ends_a_zero_window_too() {
    let mut script = Script::established(with_user_timeout(SHORT));
    script.window = 0;
    script.peer(Flags::ACK, 1, 1, b"");
    script.send(b"x");
    for _ in 0..100 {
        script.wait_millis(100);
        script.peer(Flags::ACK, 1, 1, b"");
    }
    assert_eq!(script.close_reason(), Some(CloseReason::TimedOut));
}

// req RFC9293:SHLD-17
#[test]
fn data_behind_an_edge_that_has_moved_left_does_not_time_out() {
    let mut script = Script::established(PLAIN);
    script.send(&pattern(5000));
    script.window = 0;
    script.peer(Flags::ACK, 1, 1001, b"");
    for _ in 0..600 {
        script.wait(Duration::from_secs(1));
        script.peer(Flags::ACK, 1, 1001, b"");
    }
    assert_eq!(script.state(), Some(State::Established));
}

#[test]
fn a_byte_that_is_acknowledged_now_and_then_keeps_a_connection() {
    let mut script = Script::established(with_user_timeout(SHORT));
    for acknowledged in 1..50 {
        script.send(b"x");
        script.wait_millis(2900);
        script.peer(Flags::ACK, 1, 1 + acknowledged, b"");
    }
    assert_eq!(script.state(), Some(State::Established));
}

#[test]
fn a_bulk_transfer_survives_fifteen_timeouts_in_a_row() {
    let mut script = Script::established(with_user_timeout(UserTimeout::LONG));
    script.send(b"x");
    script.wait(Duration::from_secs(450));
    assert_eq!(script.state(), Some(State::Established));
    script.wait(Duration::from_secs(150));
    assert_eq!(script.close_reason(), Some(CloseReason::TimedOut));
    let sent_again = u64::from(UserTimeout::LONG.r2_timeouts);
    assert_eq!(script.context.counted(Counter::TcpTimeouts), sent_again);
}

// req RFC9293:SHLD-11
#[test]
fn r2_is_a_hundred_seconds_at_least_unless_set() {
    let mut script = Script::established(PLAIN);
    script.send(b"x");
    script.wait(Duration::from_secs(100));
    assert_eq!(script.state(), Some(State::Established));
}

const SHARED: UserTimeout =
    UserTimeout { r2: Some(Duration::from_secs(300)), is_shared: true, ..UserTimeout::DEFAULT };

#[test]
fn the_user_timeout_is_sent_with_the_syn_and_when_it_changes_only() {
    let mut script = Script::syn_sent(with_user_timeout(SHARED));
    let syn = script.wait(Duration::from_secs(2));
    assert_eq!(syn[0].header.options.user_timeout, Some(300));
    script.peer(SYN_ACK, 0, 1, b"");
    assert_eq!(script.send(b"x")[0].header.options.user_timeout, None);
    let user_timeout = UserTimeout { r2: Some(Duration::from_secs(400)), ..SHARED };
    script.tcp.set_user_timeout(script.id.unwrap(), user_timeout).unwrap();
    let received_timeout: Vec<_> =
        script.output().iter().map(|s| s.header.options.user_timeout).collect();
    assert_eq!(received_timeout, [Some(400)]);
    assert_eq!(Script::syn_sent(PLAIN).wait_millis(1000)[0].header.options.user_timeout, None);
}

#[test]
fn the_longer_user_timeout_applies_if_ours_is_shared() {
    for (profile, received_timeout, ends_after) in [
        (with_user_timeout(SHARED), 1000, 1000),
        (with_user_timeout(SHARED), 100, 300),
        (with_user_timeout(UserTimeout { is_shared: false, ..SHARED }), 1000, 300),
        (with_user_timeout(SHARED), 0, 300),
        (with_user_timeout(SHARED), 0xFFFF, 3600),
    ] {
        let mut script = Script::established(profile);
        script.options.user_timeout = Some(received_timeout);
        script.peer(Flags::ACK, 1, 1, b"");
        script.send(b"x");
        script.wait(Duration::from_secs(ends_after - 1));
        assert_eq!(script.state(), Some(State::Established), "{received_timeout}");
        script.wait(Duration::from_secs(2));
        assert_eq!(script.close_reason(), Some(CloseReason::TimedOut), "{received_timeout}");
    }
}

/// Returns a client whose link accepts only one more segment.
fn client_with_a_stuck_link(profile: Profile) -> (Pair, ConnectionId) {
    let mut pair = Pair::new(5);
    let (id, _) = pair.connect(profile);
    pair.client.send(id, &pattern(100_000)).unwrap();
    let segment = pair.next_segment(Side::Client).unwrap();
    pair.pool.put(segment.packet);
    pair.client.output_stopped();
    (pair, id)
}

/// Runs the timers of the client for `time`, without output.
fn run_timers(pair: &mut Pair, time: Duration) {
    let end = pair.context.now + time;
    while let Some(due) = pair.client.deadline().filter(|due| *due <= end) {
        pair.context.now = pair.context.now.max(due);
        pair.client.timeout(&mut pair.context.cx());
    }
    pair.context.now = end;
}

#[test]
fn r2_expires_even_if_the_link_accepts_nothing_more() {
    let (mut pair, id) = client_with_a_stuck_link(Profile::BULK);
    run_timers(&mut pair, Duration::from_secs(100));
    assert_eq!(pair.state(Side::Client, id), State::Established);
    run_timers(&mut pair, Duration::from_secs(100));
    assert_eq!(pair.client.status(id).unwrap().close_reason, Some(CloseReason::TimedOut));
}

#[test]
fn r2_of_a_syn_expires_even_if_its_repetition_is_never_sent() {
    let mut pair = Pair::new(5);
    let remote = SocketAddr::new(SERVER, PORT);
    let id = pair.client.open(CLIENT, remote, PLAIN, &mut pair.context.cx()).unwrap();
    let segment = pair.next_segment(Side::Client).unwrap();
    pair.pool.put(segment.packet);
    pair.client.output_stopped();
    run_timers(&mut pair, Duration::from_secs(180));
    assert_eq!(pair.state(Side::Client, id), State::SynSent);
    run_timers(&mut pair, Duration::from_secs(60));
    assert_eq!(pair.client.status(id).unwrap().close_reason, Some(CloseReason::TimedOut));
}

#[test]
fn output_blocked_by_the_link_backs_the_timer_off_once() {
    let (mut pair, id) = client_with_a_stuck_link(Profile::BULK);
    let rto = pair.client.status(id).unwrap().rto;
    run_timers(&mut pair, Duration::from_secs(60));
    let status = pair.client.status(id).unwrap();
    assert_eq!((status.statistics.timeouts, status.rto), (1, rto * 2));
}

#[test]
fn output_blocked_by_the_link_continues_when_it_accepts_packets() {
    let (mut pair, _) = client_with_a_stuck_link(Profile::BULK);
    let accepted = pair.events.iter().find(|(side, ..)| *side == Side::Server).unwrap().1;
    run_timers(&mut pair, Duration::from_secs(60));
    pair.run(Duration::from_secs(10));
    assert!(pair.read_all(Side::Server, accepted) == pattern(100_000));
}

#[test]
fn a_connection_behind_the_first_that_waits_for_the_link_is_given_up_too() {
    let mut pair = Pair::new(5);
    let (id, _) = pair.connect(Profile::BULK);
    let remote = SocketAddr::new(SERVER, PORT);
    let second_id =
        pair.client.open(CLIENT, remote, Profile::BULK, &mut pair.context.cx()).unwrap();
    pair.drive();
    pair.client.send(second_id, b"lost").unwrap();
    pair.fate = Box::new(|_, side, _| side == Side::Server);
    pair.output();
    pair.client.send(id, &pattern(10_000)).unwrap();
    pair.client.send(second_id, &pattern(10_000)).unwrap();
    pair.client.output_stopped();
    run_timers(&mut pair, Duration::from_secs(200));
    assert_eq!(pair.client.status(second_id).unwrap().close_reason, Some(CloseReason::TimedOut));
    assert_eq!(pair.client.status(id).unwrap().close_reason, Some(CloseReason::TimedOut));
}

#[test]
fn the_user_timeout_ends_a_zero_window_without_sent_probes() {
    let mut script = Script::established(with_user_timeout(SHORT));
    script.window = 0;
    script.peer(Flags::ACK, 1, 1, b"");
    script.send(b"x");
    assert_eq!(script.wait_millis(1000).len(), 2, "it was probed");
    script.tcp.output_stopped();
    let end = script.context.now + Duration::from_secs(10);
    while let Some(due) = script.tcp.deadline().filter(|due| *due <= end) {
        script.context.now = script.context.now.max(due);
        script.tcp.timeout(&mut script.context.cx());
    }
    assert_eq!(script.close_reason(), Some(CloseReason::TimedOut));
}

/// Runs the timers for `time`, while the layer below accepts no segment.
fn wait_without_output(script: &mut Script, time: Duration) {
    let end = script.context.now + time;
    script.tcp.output_stopped();
    while let Some(at) = script.tcp.deadline().filter(|at| *at <= end) {
        script.context.now = script.context.now.max(at);
        script.tcp.timeout(&mut script.context.cx());
        script.tcp.output_stopped();
    }
    script.context.now = end;
}

fn opening() -> Script {
    let mut script = Script::new();
    let remote = SocketAddr::new(CLIENT, 4000);
    let id = script.tcp.open(SERVER, remote, PLAIN, &mut script.context.cx()).unwrap();
    script.id = Some(id);
    script
}

// req RFC9293:MUST-23
#[test]
fn a_syn_that_never_leaves_is_given_up_after_three_minutes() {
    let mut script = opening();
    wait_without_output(&mut script, Duration::from_secs(180));
    assert_eq!(script.status().state, State::SynSent);
    wait_without_output(&mut script, Duration::from_secs(10));
    assert_eq!(script.close_reason(), Some(CloseReason::TimedOut));
    assert_eq!(script.counted(Counter::TcpTimeouts), 0, "the network has lost nothing");
    assert_eq!(script.tcp.take_suspect_destination(), Some(CLIENT), "the layer below was notified");
}

#[test]
fn a_delayed_syn_is_timed_from_its_transmission() {
    let mut script = opening();
    wait_without_output(&mut script, Duration::from_millis(10_400));
    let first = script.output();
    assert_eq!((first.len(), first[0].flags), (1, Flags::SYN));
    let millis: Vec<_> = script.wait_millis(7_500).iter().map(|sent| sent.millis).collect();
    assert_eq!(millis, [11_400, 13_400, 17_400]);
}

#[test]
fn the_answer_to_a_syn_that_never_leaves_is_given_up_too() {
    let mut script = Script::listening(PLAIN);
    script.deliver(Flags::SYN, 0, 0, b"");
    assert_eq!(script.tcp.connections(), 1);
    wait_without_output(&mut script, Duration::from_secs(190));
    assert_eq!(script.tcp.connections(), 0);
}

/// Returns a connection whose user sends `data` after the device has stopped.
fn connection_with_a_dead_device(data: &[u8]) -> Script {
    let mut script = Script::established(PLAIN);
    script.tcp.output_stopped();
    let id = script.id.unwrap();
    assert_eq!(script.tcp.send(id, data), Ok(data.len()));
    script
}

// req RFC9293:MUST-20
#[test]
fn unsent_first_data_ends_the_connection_with_its_cause() {
    let mut script = connection_with_a_dead_device(b"first");
    wait_without_output(&mut script, Duration::from_secs(99));
    assert_eq!(script.status().state, State::Established);
    assert_eq!(script.tcp.take_suspect_destination(), Some(CLIENT), "the layer below was notified");
    wait_without_output(&mut script, Duration::from_secs(60));
    assert_eq!(script.close_reason(), Some(CloseReason::TimedOut));
    assert_eq!(script.counted(Counter::TcpTimeouts), 0, "the network has lost nothing");
}

#[test]
fn first_data_behind_an_output_that_stops_later_is_given_up_too() {
    let mut script = Script::established(PLAIN);
    let id = script.id.unwrap();
    script.tcp.send(id, b"first").unwrap();
    wait_without_output(&mut script, Duration::from_secs(200));
    assert_eq!(script.close_reason(), Some(CloseReason::TimedOut));
}

#[test]
fn a_fin_that_never_leaves_is_given_up_too() {
    let mut script = Script::established(PLAIN);
    script.tcp.close(script.id.unwrap()).unwrap();
    wait_without_output(&mut script, Duration::from_secs(200));
    assert_eq!(script.close_reason(), Some(CloseReason::TimedOut));
}

#[test]
fn delayed_first_data_is_timed_from_its_transmission() {
    let mut script = connection_with_a_dead_device(b"first");
    wait_without_output(&mut script, Duration::from_millis(10_400));
    assert_eq!(script.output().len(), 1);
    let rto = script.status().rto;
    let sent = script.wait_millis(15_000);
    let first_again = u64::try_from(rto.as_nanos() / 1_000_000).unwrap() + 10_400;
    assert_eq!(sent[0].millis, first_again);
    script.peer(Flags::ACK, 1, 6, b"");
    script.wait(Duration::from_secs(300));
    assert_eq!(script.status().state, State::Established);
}

#[test]
fn delayed_first_data_at_a_zero_window_is_probed_as_usual() {
    let mut script = Script::established(PLAIN);
    script.window = 0;
    script.peer(Flags::ACK, 1, 1, b"");
    script.tcp.output_stopped();
    script.tcp.send(script.id.unwrap(), b"first").unwrap();
    wait_without_output(&mut script, Duration::from_secs(5));
    assert!(script.output().is_empty());
    for _ in 0..300 {
        script.wait(Duration::from_secs(1));
        script.peer(Flags::ACK, 1, 1, b"");
    }
    assert_eq!(script.status().state, State::Established, "the peer answers its probes");
}

#[test]
fn an_idle_connection_over_a_dead_device_waits_indefinitely() {
    let mut script = Script::established(PLAIN);
    wait_without_output(&mut script, Duration::from_secs(1000));
    assert_eq!((script.status().state, script.tcp.deadline()), (State::Established, None));
}

#[test]
fn without_a_route_the_close_reason_is_unreachable() {
    let mut script = Script::syn_sent(PLAIN);
    script.tcp.record_no_route(script.id.unwrap());
    assert_eq!(script.state(), Some(State::SynSent));
    script.wait(Duration::from_secs(300));
    assert_eq!(script.close_reason(), Some(CloseReason::Unreachable));
}
