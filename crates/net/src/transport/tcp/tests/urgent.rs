//! Tests of urgent data: RFC 9293 §3.8.5, RFC 6093; rows 35 and 36 of docs/ledger/attacks.txt.

use super::*;

const URG_ACK: Flags = Flags::URG.with(Flags::ACK);

fn ahead(script: &Script) -> Option<usize> {
    script.tcp.urgent_ahead(script.id.unwrap()).unwrap()
}

// req RFC9293:MUST-30, RFC9293:MUST-62
#[test]
fn the_pointer_is_the_byte_behind_the_urgent_data() {
    let mut script = Script::established(PLAIN);
    let id = script.id.unwrap();
    script.tcp.send_urgent(id, b"ab\xF2").unwrap();
    let sent = script.output();
    assert!(sent[0].flags.has(Flags::URG));
    assert_eq!((sent[0].len, sent[0].header.urgent), (3, 3));
}

#[test]
fn a_single_urgent_byte_is_marked() {
    let mut script = Script::established(PLAIN);
    script.tcp.send_urgent(script.id.unwrap(), b"!").unwrap();
    let sent = script.output();
    assert_eq!(
        (texts(&sent).concat(), sent[0].header.urgent),
        ("<PSH,URG,ACK seq 1 ack 1 len 1>".into(), 1)
    );
}

#[test]
fn nagle_does_not_delay_urgent_data() {
    let mut script = Script::established(PLAIN);
    script.send(b"x");
    let id = script.id.unwrap();
    script.tcp.send_urgent(id, b"!").unwrap();
    assert_eq!(extents(&script.output()), [(2, 1)]);
}

#[test]
fn a_zero_window_does_not_delay_the_urgent_notice() {
    let mut script = Script::established(PLAIN);
    script.window = 0;
    script.peer(Flags::ACK, 1, 1, b"");
    let id = script.id.unwrap();
    script.tcp.send_urgent(id, b"stop").unwrap();
    let sent = script.output();
    assert_eq!(texts(&sent), ["<URG,ACK seq 1 ack 1 len 0>"]);
    assert_eq!(sent[0].header.urgent, 4);
}

// req RFC9293:MUST-32, RFC9293:MUST-33, RFC9293:MUST-62
#[test]
fn the_user_is_notified_once_with_the_end_of_urgent_data() {
    let mut script = Script::established(PLAIN);
    script.urgent = 3;
    script.peer(URG_ACK, 1, 1, b"abcde");
    assert!(script.events.contains(&Event::Urgent));
    assert_eq!(ahead(&script), Some(3));
    script.consume(2);
    assert_eq!(ahead(&script), Some(1));
    script.consume(1);
    assert_eq!(ahead(&script), None);
}

// req RFC9293:MUST-32
#[test]
fn the_notice_comes_before_the_data() {
    let mut script = Script::established(PLAIN);
    script.urgent = 2000;
    script.peer(URG_ACK, 1, 1, b"");
    assert_eq!(ahead(&script), Some(2000));
    assert!(script.events.contains(&Event::Urgent));
}

// req RFC9293:MUST-32
#[test]
fn the_user_is_notified_again_when_the_pointer_advances() {
    let mut script = Script::established(PLAIN);
    script.urgent = 3;
    script.peer(URG_ACK, 1, 1, b"abc");
    script.events.clear();
    script.peer(URG_ACK, 1, 1, b"");
    assert_eq!(script.events, [], "the same pointer again");
    script.urgent = 2;
    script.peer(URG_ACK, 4, 1, b"de");
    assert!(script.events.contains(&Event::Urgent));
    assert_eq!(ahead(&script), Some(5));
}

// req RFC9293:MUST-66
#[test]
fn a_notice_is_accepted_at_a_zero_receive_window() {
    let mut script =
        Script::established(Profile { receive_window: ReceiveWindow::Bytes(10), ..PLAIN });
    script.peer(Flags::ACK, 1, 1, b"0123456789");
    script.urgent = 5;
    script.peer(URG_ACK, 11, 1, b"");
    assert_eq!(ahead(&script), Some(15));
}

#[test]
fn a_fin_behind_the_urgent_data_does_not_move_it() {
    let mut script = Script::established(PLAIN);
    script.urgent = 3;
    script.peer(URG_ACK.with(Flags::FIN), 1, 1, b"abc");
    assert_eq!(script.state(), Some(State::CloseWait));
    assert_eq!(ahead(&script), Some(3));
    script.consume(2);
    assert_eq!(ahead(&script), Some(1));
    script.consume(1);
    assert_eq!(ahead(&script), None);
}

// attack row 36
#[test]
fn attack_36_urgent_data_does_not_reach_behind_the_fin() {
    let mut script = Script::established(PLAIN);
    script.urgent = 60_000;
    script.peer(URG_ACK.with(Flags::FIN), 1, 1, b"abc");
    assert_eq!(ahead(&script), Some(3));
    script.consume(3);
    assert_eq!(ahead(&script), None);
}

// attack row 36
#[test]
fn attack_36_urgent_on_syn_and_fin_and_reset_is_survived() {
    let mut script = Script::listening(PLAIN);
    script.urgent = 0xFFFF;
    let answer = script.peer(Flags::SYN.with(Flags::URG), 0, 0, b"");
    script.iss = answer[0].header.seq;
    script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!(ahead(&script), None, "nothing is urgent before the connection is open");
    script.peer(URG_ACK.with(Flags::FIN), 1, 1, b"");
    assert_eq!(ahead(&script), None);
    script.peer(URG_ACK.with(Flags::RST), 2, 1, b"");
    assert_eq!(script.close_reason(), Some(CloseReason::Reset));
}

// attack row 35
#[test]
fn attack_35_every_pointer_at_every_window_is_survived() {
    for window in [1, 2, 10, 1000] {
        for urgent in [0, 1, 2, 3, 9, 10, 11, 1000, 0x7FFF, 0x8000, 0xFFFF] {
            for (seq, data) in [(1, &b"abc"[..]), (1, b""), (3, b"z"), (0, b"ab")] {
                let mut script = Script::established(Profile {
                    receive_window: ReceiveWindow::Bytes(window),
                    ..PLAIN
                });
                script.urgent = urgent;
                script.peer(URG_ACK, seq, 1, data);
                assert!(ahead(&script).is_none_or(|ahead| ahead <= 3 + usize::from(urgent)));
                assert!(urgent > 0 || ahead(&script).is_none());
                let unread = script.status().receive_queue;
                script.consume(unread);
                script.peer(FIN_ACK, 1 + u32::try_from(unread).unwrap(), 1, b"");
                assert_eq!(script.state(), Some(State::CloseWait));
            }
        }
    }
}

#[test]
fn an_old_pointer_does_not_take_back_a_newer_one() {
    let mut script = Script::established(PLAIN);
    script.urgent = 100;
    script.peer(URG_ACK, 1, 1, b"");
    script.urgent = 5;
    script.peer(URG_ACK, 1, 1, b"");
    assert_eq!(ahead(&script), Some(100));
}

#[test]
fn a_fin_behind_a_long_segment_does_not_end_what_is_urgent_in_it() {
    let mut script = Script::established(PLAIN);
    script.urgent = 15_000;
    script.may_keep = true;
    script.peer(URG_ACK.with(Flags::FIN), 1, 1, &pattern(20_000));
    assert_eq!(ahead(&script), Some(15_000));
}

#[test]
fn retransmitted_urgent_data_is_not_segmented_by_the_device() {
    let mut script = Script::established(PLAIN);
    script.tcp.lower.tso = true;
    script.tcp.send_urgent(script.id.unwrap(), &pattern(3000)).unwrap();
    assert_eq!(extents(&script.output()), [(1, 1000), (1001, 1000), (2001, 1000)]);
    assert_eq!(extents(&script.wait_millis(300)), [(1, 1000)]);
    let sent = script.peer(Flags::ACK, 1, 1001, b"");
    assert_eq!(extents(&sent), [(1001, 1000), (2001, 1000)]);
    assert_eq!(sent[1].header.urgent, 1000);
}
