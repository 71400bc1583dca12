//! Tests of opening (RFC 9293 §3.5 and its figures 6 to 8), of the backlog, and of SYN
//! retransmission.

use super::*;
use crate::meter::Quantity;

#[test]
fn figure_6_an_active_and_a_passive_open_synchronize_in_three_segments() {
    let mut script = Script::syn_sent(PLAIN);
    let answer = script.peer(SYN_ACK, 0, 1, b"");
    assert_eq!(texts(&answer), ["<ACK seq 1 ack 1 len 0>"]);
    assert_eq!(script.state(), Some(State::Established));
}

// req RFC9293:MUST-10
#[test]
fn figure_7_a_simultaneous_open_answers_each_syn_and_opens() {
    let mut script = Script::syn_sent(PLAIN);
    let answer = script.peer(Flags::SYN, 0, 0, b"");
    assert_eq!(texts(&answer), ["<SYN,ACK seq 0 ack 1 len 0>"]);
    assert_eq!(script.state(), Some(State::SynReceived));
    script.peer(SYN_ACK, 0, 1, b"");
    assert_eq!(script.state(), Some(State::Established));
    assert_eq!(script.events, [Event::Established]);
}

#[test]
fn the_window_of_the_second_syn_of_a_simultaneous_open_is_not_scaled() {
    let mut script = Script::syn_sent(Profile::BULK);
    script.options = Options { window_scale: Some(7), ..Options::default() };
    script.window = 1280;
    script.peer(Flags::SYN, 0, 0, b"");
    script.peer(SYN_ACK, 0, 1, b"");
    assert_eq!(script.status().send_window, 1280);
}

#[test]
fn figure_8_an_old_duplicate_syn_is_undone_by_the_reset_of_its_sender() {
    let mut script = Script::syn_received(PLAIN);
    let answer = script.peer(Flags::SYN, 200_000, 0, b"");
    assert_eq!(texts(&answer), ["<SYN,ACK seq 0 ack 1 len 0>"]);
    script.peer(Flags::RST, 1, 0, b"");
    assert_eq!(script.state(), None);
    let answer = script.peer(Flags::SYN, 200_000, 0, b"");
    assert_eq!(answer[0].ack, 200_001);
    assert!(script.events.is_empty(), "the old one was not reported");
}

#[test]
fn a_repeated_syn_gets_the_same_answer_again() {
    let mut script = Script::syn_received(PLAIN);
    let answer = script.peer(Flags::SYN, 0, 0, b"");
    assert_eq!(texts(&answer), ["<SYN,ACK seq 0 ack 1 len 0>"]);
}

// req RFC9293:MUST-22, RFC9293:MUST-23
#[test]
fn a_syn_is_repeated_with_doubled_waits_and_given_up_after_three_minutes() {
    let mut script = Script::syn_sent(PLAIN);
    let sent = script.wait(Duration::from_secs(400));
    assert_eq!(seconds(&sent), [1, 3, 7, 15, 31, 63, 123]);
    assert!(sent.iter().all(|syn| syn.flags == Flags::SYN && syn.seq == 0));
    assert_eq!(script.close_reason(), Some(CloseReason::TimedOut));
    assert_eq!(script.counted(Counter::TcpGivenUp), 1);
}

#[test]
fn an_answered_syn_without_acknowledgment_is_given_up() {
    let mut script = Script::syn_received(PLAIN);
    let sent = script.wait(Duration::from_secs(400));
    assert_eq!(seconds(&sent), [1, 3, 7, 15, 31, 63, 123]);
    assert_eq!((script.state(), script.tcp.connections()), (None, 0));
}

#[test]
fn the_first_flight_is_one_segment_if_the_syn_was_lost_twice() {
    let mut script = Script::syn_sent(PLAIN);
    script.wait_millis(3500);
    script.options = Options { mss: Some(1000), ..Options::default() };
    script.peer(SYN_ACK, 0, 1, b"");
    assert_eq!(script.send(&pattern(5000)).len(), 1);
    assert_eq!(script.status().rto, Duration::from_secs(3));
}

#[test]
fn the_first_flight_is_ten_segments_if_the_syn_was_lost_once() {
    let mut script = Script::syn_sent(PLAIN);
    script.wait_millis(1500);
    script.options = Options { mss: Some(1000), ..Options::default() };
    script.peer(SYN_ACK, 0, 1, b"");
    assert_eq!(script.send(&pattern(20_000)).len(), 10);
}

#[test]
fn data_and_close_before_the_open_are_sent_after_the_handshake() {
    let mut script = Script::syn_sent(PLAIN);
    script.send(b"hello");
    script.options = Options { mss: Some(1000), ..Options::default() };
    let answer = script.peer(SYN_ACK, 0, 1, b"");
    assert_eq!(texts(&answer), ["<PSH,ACK seq 1 ack 1 len 5>"]);
}

#[test]
fn a_close_in_syn_received_sends_its_fin_once_open() {
    let mut script = Script::syn_sent(PLAIN);
    script.peer(Flags::SYN, 0, 0, b"");
    assert_eq!(script.close(), []);
    let answer = script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!(texts(&answer), ["<FIN,ACK seq 1 ack 1 len 0>"]);
    assert_eq!(script.state(), Some(State::FinWait1));
}

#[test]
fn a_close_in_syn_sent_ends_silently() {
    let mut script = Script::syn_sent(PLAIN);
    assert_eq!(script.close(), []);
    assert_eq!(script.close_reason(), Some(CloseReason::Aborted));
    assert_eq!(script.wait(Duration::from_secs(10)), []);
}

// attack row 45
#[test]
fn half_open_connections_end_with_their_listener() {
    let mut script = Script::syn_received(PLAIN);
    script.tcp.stop_listening(PORT);
    assert_eq!((script.state(), script.tcp.connections()), (None, 0));
    let answer = script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!(texts(&answer), ["<RST seq 1 len 0>"]);
}

// req RFC9293:MUST-46
#[test]
fn an_open_to_a_group_or_an_invalid_address_is_refused() {
    let mut script = Script::new();
    let invalid_addresses =
        [Ipv4Addr::new(224, 0, 0, 1), Ipv4Addr::BROADCAST, Ipv4Addr::UNSPECIFIED];
    for address in invalid_addresses {
        let remote = SocketAddr::new(address.into(), 23);
        let open_result = script.tcp.open(SERVER, remote, PLAIN, &mut script.context.cx());
        assert_eq!(open_result, Err(OpenError::BadRemote));
    }
}

#[test]
fn a_full_table_evicts_the_oldest_connection_in_time_wait() {
    let mut script = Script::established(PLAIN);
    script.close();
    script.peer(FIN_ACK, 1, 2, b"");
    assert_eq!(script.state(), Some(State::TimeWait));
    let remote = SocketAddr::new(CLIENT, 9);
    for _ in 0..1024 {
        script.tcp.open(SERVER, remote, PLAIN, &mut script.context.cx()).unwrap();
    }
    assert_eq!(script.state(), None);
    let refused = script.tcp.open(SERVER, remote, PLAIN, &mut script.context.cx());
    assert_eq!(refused, Err(OpenError::TooMany));
}

#[test]
fn a_syn_with_fin_opens_nothing() {
    let mut script = Script::listening(PLAIN);
    assert_eq!(texts(&script.peer(Flags::SYN.with(Flags::FIN), 0, 0, b"")), [""; 0]);
    assert_eq!((script.tcp.connections(), script.counted(Counter::TcpOpensRefused)), (0, 1));
}

#[test]
fn every_connection_has_its_status_in_the_list() {
    let mut pair = Pair::new(1);
    pair.connect(PLAIN);
    let states: Vec<_> = pair.server.statuses().map(|status| status.state).collect();
    assert_eq!(states, [State::Established]);
}

#[test]
fn answering_a_repeated_syn_does_not_change_the_timeout() {
    let mut script = Script::syn_received(PLAIN);
    script.options = Options { mss: Some(1000), ..Options::default() };
    assert_eq!(texts(&script.peer(Flags::SYN, 0, 0, b"")), ["<SYN,ACK seq 0 ack 1 len 0>"]);
    script.options = Options::default();
    script.peer(Flags::ACK, 1, 1, b"");
    // RFC 6298 (2.1): neither answer gives a measurement, and no timer has expired.
    assert_eq!(script.status().rto, Duration::from_secs(1));
}

// req RFC9293:MUST-8
#[test]
fn connections_of_either_side_begin_where_the_clock_is_when_they_are_opened() {
    for secs in [0, 1, 100] {
        let mut script = Script::new();
        script.context.advance(Duration::from_secs(secs));
        let remote = SocketAddr::new(CLIENT, 4000);
        script.tcp.open(SERVER, remote, PLAIN, &mut script.context.cx()).unwrap();
        let syn = script.output()[0].header;
        let mut passive = Script::listening(PLAIN);
        passive.context.advance(Duration::from_secs(secs));
        let answer = passive.peer(Flags::SYN, 0, 0, b"")[0].header;
        for (script, header) in [(&script, syn), (&passive, answer)] {
            let local = SocketAddr::new(SERVER, header.source_port);
            // One tick takes 4 microseconds.
            let start = script.tcp.secret.isn(local, remote, Instant::ZERO);
            assert_eq!(u64::from(header.seq.since(start)), secs * 250_000, "{header:?}");
        }
    }
}

#[test]
fn the_handshake_measures_a_round_trip() {
    let mut script = Script::syn_sent(PLAIN);
    script.wait_millis(50);
    script.peer(SYN_ACK, 0, 1, b"");
    assert_eq!(script.context.recorded(Quantity::RoundTrip), 1);
}

#[test]
fn a_repeated_answer_to_the_syn_measures_no_round_trip() {
    let mut script = Script::syn_received(PLAIN);
    script.wait_millis(50);
    assert_eq!(texts(&script.peer(Flags::SYN, 0, 0, b"")), ["<SYN,ACK seq 0 ack 1 len 0>"]);
    script.wait_millis(50);
    script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!(script.state(), Some(State::Established));
    assert_eq!(script.context.recorded(Quantity::RoundTrip), 0);
}
