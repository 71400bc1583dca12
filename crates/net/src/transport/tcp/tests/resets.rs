//! Tests of resets: RFC 9293 §3.5.1 with its figures 9 to 11, §3.5.2 and §3.5.3, RFC 5961 §3.

use super::super::reset::MAX_PENDING_RESETS;
use super::*;

#[test]
fn figure_9_a_syn_of_a_crashed_peer_is_answered_and_its_reset_ends_the_connection() {
    let mut script = Script::established(PLAIN);
    let answer = script.peer(Flags::SYN, 700_000, 0, b"");
    assert_eq!(texts(&answer), ["<ACK seq 1 ack 1 len 0>"]);
    script.peer(Flags::RST, 1, 0, b"");
    assert_eq!(script.close_reason(), Some(CloseReason::Reset));
}

#[test]
fn figure_9_from_the_other_side_an_acknowledgment_of_an_old_connection_is_reset() {
    let mut script = Script::syn_sent(PLAIN);
    let answer = script.peer(Flags::ACK, 300, 9_000, b"");
    assert_eq!(texts(&answer), ["<RST seq 9000 len 0>"]);
    assert_eq!(script.state(), Some(State::SynSent));
    let answer = script.peer(SYN_ACK, 0, 1, b"");
    assert_eq!(texts(&answer), ["<ACK seq 1 ack 1 len 0>"]);
}

#[test]
fn figure_10_data_of_a_half_open_connection_is_reset() {
    let mut script = Script::new();
    let answer = script.peer(Flags::ACK, 300, 100, b"data");
    assert_eq!(texts(&answer), ["<RST seq 100 len 0>"]);
}

// req RFC9293:MUST-11
// attack row 45
#[test]
fn figure_11_an_old_duplicate_syn_returns_a_listener_to_listening() {
    let mut script = Script::syn_received(PLAIN);
    script.peer(Flags::RST, 1, 0, b"");
    assert_eq!(script.state(), None);
    assert!(script.tcp.listen(PORT, PLAIN).is_err(), "it still listens");
    assert!(script.events.is_empty());
}

#[test]
fn a_reset_of_an_active_open_refuses_it() {
    let mut script = Script::syn_sent(PLAIN);
    script.peer(RST_ACK, 0, 1, b"");
    assert_eq!(script.close_reason(), Some(CloseReason::Refused));
    assert_eq!(script.events, [Event::Closed]);
}

#[test]
fn a_reset_of_an_active_open_that_acknowledges_something_else_is_ignored() {
    let mut script = Script::syn_sent(PLAIN);
    assert_eq!(script.peer(RST_ACK, 0, 2, b""), []);
    assert_eq!(script.peer(Flags::RST, 0, 0, b""), []);
    assert_eq!(script.state(), Some(State::SynSent));
}

// req RFC9293:MUST-11
#[test]
fn a_reset_of_a_simultaneous_open_refuses_it() {
    let mut script = Script::syn_sent(PLAIN);
    script.peer(Flags::SYN, 0, 0, b"");
    script.peer(Flags::RST, 1, 0, b"");
    assert_eq!(script.close_reason(), Some(CloseReason::Refused));
}

#[test]
fn a_syn_for_no_listener_is_reset_with_its_number_acknowledged() {
    let mut script = Script::new();
    let answer = script.peer(Flags::SYN, 0, 0, b"abc");
    let reset = answer[0].header;
    assert_eq!((reset.flags, reset.seq, reset.ack), (RST_ACK, Seq(0), script.irs + 4));
}

// attack row 46
#[test]
fn attack_46_a_reset_is_never_answered_by_a_reset() {
    for flags in [Flags::RST, RST_ACK, Flags::RST.with(Flags::SYN), RST_ACK.with(Flags::FIN)] {
        assert_eq!(Script::new().peer(flags, 1, 1, b"x"), []);
        assert_eq!(Script::listening(PLAIN).peer(flags, 1, 1, b"x"), []);
        assert_eq!(Script::syn_sent(PLAIN).peer(flags, 1, 9, b"x"), []);
        assert_eq!(Script::syn_received(PLAIN).peer(flags, 1, 9, b""), []);
    }
}

// attack row 27
#[test]
fn attack_27_only_a_reset_at_the_exact_edge_ends_a_connection() {
    let mut script = Script::established(PLAIN);
    assert_eq!(script.peer(Flags::RST, 0, 0, b""), [], "before the window");
    assert_eq!(script.peer(Flags::RST, 1_000_000, 0, b""), [], "behind the window");
    let challenge = script.peer(Flags::RST, 2, 0, b"");
    assert_eq!(texts(&challenge), ["<ACK seq 1 ack 1 len 0>"]);
    assert_eq!(script.counted(Counter::TcpResetsIgnored), 3);
    assert_eq!(script.state(), Some(State::Established));
    assert_eq!(script.peer(Flags::RST, 1, 0, b""), []);
    assert_eq!(script.close_reason(), Some(CloseReason::Reset));
}

// req RFC9293:MUST-66
#[test]
fn a_reset_counts_at_a_zero_window_too() {
    let mut script =
        Script::established(Profile { receive_window: ReceiveWindow::Bytes(10), ..PLAIN });
    script.peer(Flags::ACK, 1, 1, b"0123456789");
    assert_eq!(script.status().receive_window, 0);
    script.peer(Flags::RST, 11, 0, b"");
    assert_eq!(script.close_reason(), Some(CloseReason::Reset));
}

// attack row 45
#[test]
fn data_received_before_a_reset_can_still_be_read() {
    let mut script = Script::established(PLAIN);
    script.peer(Flags::ACK, 1, 1, b"last words");
    script.peer(Flags::RST, 11, 0, b"");
    assert_eq!(script.tcp.received(script.id.unwrap()).unwrap(), b"last words");
}

#[test]
fn queued_resets_have_a_limit() {
    let mut script = Script::new();
    for _ in 0..MAX_PENDING_RESETS + 3 {
        script.deliver(Flags::ACK, 1, 1, b"");
    }
    assert_eq!(script.output().len(), MAX_PENDING_RESETS);
    assert_eq!(script.counted(Counter::TcpResetsSuppressed), 3);
}

#[test]
fn a_reset_of_ours_carries_the_timestamps_of_its_connection() {
    let timestamps = Some((100, 0));
    let mss = Some(1000);
    let mut script =
        Script::asked_for_options(Profile::BULK, Options { mss, timestamps, ..Options::default() });
    script.options.timestamps = Some((200, 0));
    script.peer(Flags::ACK, 1, 1, b"unread");
    let sent = script.release();
    assert!(sent[0].flags.has(RST_ACK));
    assert_eq!(sent[0].header.options.timestamps.map(|(_, echo)| echo), Some(200));
}

#[test]
fn a_reset_of_ours_at_a_zero_window_has_the_number_that_the_peer_expects() {
    let mut script = Script::established(PLAIN);
    script.window = 0;
    script.peer(Flags::ACK, 1, 1, b"");
    script.send(b"abc");
    script.wait_millis(300);
    script.tcp.abort(script.id.unwrap(), &mut script.context.cx()).unwrap();
    assert_eq!(texts(&script.output()), ["<RST,ACK seq 1 ack 1 len 0>"]);
}

#[test]
fn nothing_follows_a_reset_even_with_pending_retransmissions() {
    for aborts in [false, true] {
        let mut script = Script::established(PLAIN);
        script.send(&pattern(5000));
        script.context.advance(Duration::from_secs(2));
        script.tcp.timeout(&mut script.context.cx());
        if aborts {
            script.tcp.abort(script.id.unwrap(), &mut script.context.cx()).unwrap();
        } else {
            script.deliver(Flags::RST, 1, 0, b"");
        }
        let sent = script.output();
        assert_eq!(sent.iter().filter(|sent| !sent.flags.has(Flags::RST)).count(), 0);
        assert_eq!(script.state(), None);
    }
}

#[test]
fn a_reset_connection_has_no_timer_and_reports_the_reset_once() {
    let profile = Profile { congestion: Congestion::NewReno, pacing: false, ..Profile::BULK };
    let permitted = Options { mss: Some(1000), sack_permitted: true, ..Options::default() };
    let mut script = Script::asked_for_options(profile, permitted);
    script.wait_millis(100);
    script.peer(Flags::ACK, 1, 1, b"");
    script.send(&pattern(5000));
    script.peer(Flags::RST, 1, 0, b"");
    script.assert_no_timer_runs();
    let closed_count = script.events.iter().filter(|event| **event == Event::Closed).count();
    assert_eq!((closed_count, script.events.len()), (1, 2));
    assert_eq!(script.counted(Counter::TcpTimeouts), 0);
}

#[test]
fn the_packets_of_unread_data_are_returned() {
    let mut script = Script::established(PLAIN);
    script.may_keep = true;
    script.peer(Flags::ACK, 1, 1, &pattern(20_000));
    script.peer(Flags::RST, 20_001, 0, b"");
    assert!(script.tcp.table.spent.is_empty());
    script.tcp.release(script.id.unwrap());
    assert!(script.tcp.has_output(), "output is pending");
    script.output();
    assert!(script.tcp.table.spent.is_empty() && !script.tcp.has_output());
}
