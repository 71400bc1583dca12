//! Tests of closing (RFC 9293 §3.6 and its figures 12 and 13), of release, and of TIME-WAIT.

use super::*;

// req RFC9293:MUST-13
#[test]
fn figure_12_a_normal_close_ends_in_time_wait_for_a_minute() {
    let mut script = Script::established(PLAIN);
    assert_eq!(texts(&script.close()), ["<FIN,ACK seq 1 ack 1 len 0>"]);
    script.peer(Flags::ACK, 1, 2, b"");
    assert_eq!(script.state(), Some(State::FinWait2));
    let answer = script.peer(FIN_ACK, 1, 2, b"");
    assert_eq!(texts(&answer), ["<ACK seq 2 ack 2 len 0>"]);
    assert_eq!(script.state(), Some(State::TimeWait));
    script.wait(Duration::from_secs(59));
    assert_eq!(script.state(), Some(State::TimeWait));
    script.wait(Duration::from_secs(2));
    assert_eq!(script.close_reason(), Some(CloseReason::Closed));
}

#[test]
fn figure_13_a_simultaneous_close_goes_through_closing() {
    let mut script = Script::established(PLAIN);
    script.close();
    let answer = script.peer(FIN_ACK, 1, 1, b"");
    assert_eq!(texts(&answer), ["<ACK seq 2 ack 2 len 0>"]);
    assert_eq!(script.state(), Some(State::Closing));
    script.peer(Flags::ACK, 2, 2, b"");
    assert_eq!(script.state(), Some(State::TimeWait));
}

#[test]
fn two_hosts_that_close_at_once_both_end() {
    let mut pair = Pair::new(1);
    let (client, server) = pair.connect(PLAIN);
    pair.client.close(client).unwrap();
    pair.server.close(server).unwrap();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.state(Side::Client, client), State::TimeWait);
    assert_eq!(pair.state(Side::Server, server), State::TimeWait);
    pair.run(Duration::from_secs(61));
    assert_eq!((pair.client.connections(), pair.server.connections()), (0, 0));
}

#[test]
fn a_passive_close_passes_close_wait_and_last_ack() {
    let mut script = Script::established(PLAIN);
    script.peer(FIN_ACK, 1, 1, b"end");
    assert_eq!(script.state(), Some(State::CloseWait));
    assert_eq!(script.events, [Event::Established, Event::Readable, Event::PeerClosed]);
    assert_eq!(texts(&script.close()), ["<FIN,ACK seq 1 ack 5 len 0>"]);
    assert_eq!(script.state(), Some(State::LastAck));
    script.peer(Flags::ACK, 5, 2, b"");
    assert_eq!(script.state(), None);
    assert_eq!(script.close_reason(), Some(CloseReason::Closed));
    assert_eq!(script.tcp.received(script.id.unwrap()).unwrap(), b"end");
}

#[test]
fn data_can_be_received_after_close_and_sent_after_the_peer_closed() {
    let mut pair = Pair::new(1);
    let ids = pair.connect(PLAIN);
    pair.client.close(ids.0).unwrap();
    pair.run(Duration::from_secs(1));
    let data = pattern(50_000);
    assert!(pair.transfer(Side::Server, (ids.1, ids.0), &data) == data);
}

#[test]
fn a_fin_that_arrives_before_the_data_waits_for_it() {
    let mut script = Script::established(PLAIN);
    script.peer(FIN_ACK, 4, 1, b"def");
    assert_eq!(script.state(), Some(State::Established));
    let answer = script.peer(Flags::ACK, 1, 1, b"abc");
    assert_eq!(script.state(), Some(State::CloseWait));
    assert_eq!(answer[0].ack, 8);
}

#[test]
fn a_forged_fin_does_not_hide_the_true_one() {
    let mut script = Script::established(PLAIN);
    script.peer(FIN_ACK, 3, 1, b"");
    script.peer(Flags::ACK, 1, 1, b"abcdef");
    assert_eq!(script.state(), Some(State::Established));
    script.peer(FIN_ACK, 7, 1, b"");
    assert_eq!(script.state(), Some(State::CloseWait));
}

#[test]
fn a_lost_fin_is_sent_again_with_the_last_data() {
    let mut script = Script::established(PLAIN);
    script.send(b"abc");
    script.close();
    let sent = script.wait_millis(250);
    assert_eq!(texts(&sent), ["<FIN,PSH,ACK seq 1 ack 1 len 3>"]);
}

#[test]
fn a_repeated_fin_starts_time_wait_again_and_is_answered() {
    let mut script = time_wait();
    script.wait(Duration::from_secs(50));
    let answer = script.peer(FIN_ACK, 1, 2, b"");
    assert_eq!(texts(&answer), ["<ACK seq 2 ack 2 len 0>"]);
    script.wait(Duration::from_secs(50));
    assert_eq!(script.state(), Some(State::TimeWait));
}

// attack row 42
#[test]
fn attack_42_nothing_ends_or_prolongs_time_wait_but_the_true_fin() {
    for (flags, seq) in [
        (Flags::RST, 2),
        (RST_ACK, 2),
        (Flags::RST, 100),
        (Flags::SYN, 2),
        (Flags::SYN, 0x9000_0000),
        (SYN_ACK, 500_000),
        (Flags::SYN.with(Flags::FIN), 500_000),
        (FIN_ACK, 500_000),
        (Flags::ACK, 2),
        (Flags::ACK, 0),
    ] {
        let mut script = time_wait();
        script.wait(Duration::from_secs(59));
        script.peer(flags, seq, 2, b"");
        assert_eq!(script.state(), Some(State::TimeWait), "{flags:?}");
        script.wait(Duration::from_secs(2));
        assert_eq!(script.state(), None, "{flags:?}");
    }
}

fn time_wait() -> Script {
    let mut script = Script::established(PLAIN);
    script.close();
    script.peer(FIN_ACK, 1, 2, b"");
    script
}

#[test]
fn a_released_connection_waits_a_minute_for_the_fin_of_its_peer() {
    let mut script = Script::established(PLAIN);
    script.release();
    script.peer(Flags::ACK, 1, 2, b"");
    assert_eq!(script.state(), Some(State::FinWait2));
    script.wait(Duration::from_secs(59));
    assert_eq!(script.state(), Some(State::FinWait2));
    script.wait(Duration::from_secs(2));
    assert_eq!((script.state(), script.tcp.connections()), (None, 0));
}

#[test]
fn a_connection_released_in_fin_wait_2_waits_no_longer() {
    let mut script = Script::established(PLAIN);
    script.close();
    script.peer(Flags::ACK, 1, 2, b"");
    script.wait(Duration::from_secs(500));
    assert_eq!(script.state(), Some(State::FinWait2), "its user may wait as long as he likes");
    script.release();
    script.wait(Duration::from_secs(61));
    assert_eq!(script.state(), None);
}

// req RFC9293:SHLD-3, RFC9293:MAY-1
#[test]
fn a_release_with_unread_data_resets() {
    let mut script = Script::established(PLAIN);
    script.peer(Flags::ACK, 1, 1, b"unread");
    let sent = script.release();
    assert_eq!(texts(&sent), ["<RST,ACK seq 1 ack 7 len 0>"]);
    assert_eq!(script.tcp.connections(), 0);
}

#[test]
fn data_for_a_released_connection_resets_it() {
    let mut script = Script::established(PLAIN);
    script.release();
    script.peer(Flags::ACK, 1, 2, b"");
    let answer = script.peer(Flags::ACK, 1, 2, b"anybody?");
    assert_eq!(texts(&answer), ["<RST seq 2 len 0>"]);
    assert_eq!(script.counted(Counter::TcpDataAfterClose), 1);
    assert_eq!(script.tcp.connections(), 0);
}

#[test]
fn a_released_connection_sends_what_is_queued_and_closes_in_order() {
    let mut pair = Pair::new(1);
    let (client, server) = pair.connect(PLAIN);
    let data = pattern(20_000);
    assert_eq!(pair.client.send(client, &data), Ok(data.len()));
    pair.client.release(client);
    pair.run(Duration::from_secs(1));
    assert!(pair.server.received(server).unwrap() == data);
    assert_eq!(pair.state(Side::Server, server), State::CloseWait);
    pair.server.close(server).unwrap();
    pair.run(Duration::from_secs(100));
    assert_eq!((pair.client.connections(), pair.server.connections()), (0, 0));
}

// req RFC9293:MUST-12
#[test]
fn an_abort_resets_the_peer_and_is_reported_to_the_user() {
    let mut pair = Pair::new(1);
    let (client, server) = pair.connect(PLAIN);
    pair.client.abort(client, &mut pair.context.cx()).unwrap();
    pair.drive();
    assert_eq!(pair.client.status(client).unwrap().close_reason, Some(CloseReason::Aborted));
    assert_eq!(pair.server.status(server).unwrap().close_reason, Some(CloseReason::Reset));
    assert!(pair.events.contains(&(Side::Server, server, Event::Closed)));
}

#[test]
fn an_identifier_of_an_ended_connection_is_not_reused() {
    let mut script = Script::established(PLAIN);
    let ended_id = script.id.unwrap();
    script.peer(Flags::RST, 1, 0, b"");
    script.release();
    let remote = SocketAddr::new(CLIENT, 9);
    script.tcp.open(SERVER, remote, PLAIN, &mut script.context.cx()).unwrap();
    assert_eq!(script.tcp.status(ended_id), Err(NoConnection));
    assert_eq!(script.tcp.close(ended_id), Err(NoConnection));
}

#[test]
fn the_window_behind_a_fin_is_as_large_as_before_it() {
    let mut script = Script::established(PLAIN);
    let before = script.status().receive_window;
    script.peer(FIN_ACK, 1, 1, b"");
    assert_eq!(script.status().receive_window, before);
}

#[test]
fn in_time_wait_further_data_gets_the_current_acknowledgment() {
    let mut script = Script::established(PLAIN);
    script.close();
    script.peer(FIN_ACK, 1, 2, b"");
    assert_eq!(script.state(), Some(State::TimeWait));
    let answer = script.peer(Flags::ACK, 3, 2, b"");
    assert_eq!(texts(&answer), ["<ACK seq 2 ack 2 len 0>"]);
    assert_eq!(texts(&script.peer(Flags::ACK, 2, 2, b"")), [""; 0]);
}

#[test]
fn a_fin_does_not_wait_for_the_congestion_window() {
    let mut script = Script::established(PLAIN);
    let sent = script.send(&pattern(10_000));
    assert_eq!(sent.len(), 10);
    assert_eq!(texts(&script.close()), ["<FIN,ACK seq 10001 ack 1 len 0>"]);
}

#[test]
fn the_acknowledgment_of_a_fin_alone_makes_no_room_to_write() {
    let mut script = Script::established(PLAIN);
    script.close();
    script.events.clear();
    script.peer(Flags::ACK, 1, 2, b"");
    assert_eq!((script.state(), &script.events[..]), (Some(State::FinWait2), &[][..]));
}

#[test]
fn a_fin_waiting_for_the_window_is_not_sent_with_a_retransmission() {
    let mut script = Script::established(PLAIN);
    script.window = 1000;
    script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!(script.send(&pattern(1000)).len(), 1);
    assert_eq!(script.close(), []);
    assert_eq!(texts(&script.wait_millis(300)), ["<PSH,ACK seq 1 ack 1 len 1000>"]);
}
