//! Tests of explicit congestion notification: RFC 3168 §6.1.

use super::script::Sent;
use super::*;

const ECN: Profile = Profile { ecn: true, ..PLAIN };
const SETUP: Flags = Flags::SYN.with(Flags::ECE).with(Flags::CWR);
const MARKED: u8 = 0b11;
const CAPABLE: u8 = 0b10;

/// Returns a script whose ends have negotiated ECN, with ten segments outstanding.
fn with_negotiated_ecn() -> Script {
    let mut script = Script::listening(ECN);
    script.options = Options { mss: Some(1000), ..Options::default() };
    let answer = script.peer(SETUP, 0, 0, b"");
    assert_eq!(answer[0].flags, SYN_ACK.with(Flags::ECE));
    script.iss = answer[0].header.seq;
    script.options = Options::default();
    script.peer(Flags::ACK, 1, 1, b"");
    assert!(script.status().has_ecn);
    script
}

#[test]
fn a_syn_offers_ecn_and_a_retransmitted_syn_does_not() {
    let mut script = Script::new();
    let remote = SocketAddr::new(CLIENT, 4000);
    script.tcp.open(SERVER, remote, ECN, &mut script.context.cx()).unwrap();
    assert_eq!(script.output()[0].flags, SETUP);
    assert_eq!(script.wait_millis(1000)[0].flags, Flags::SYN);
}

#[test]
fn ecn_is_off_unless_both_ends_offer_it() {
    let mut script = Script::asked_for_options(ECN, Options::default());
    script.peer(Flags::ACK, 1, 1, b"");
    assert!(!script.status().has_ecn);
    let mut script = Script::listening(PLAIN);
    let answer = script.peer(SETUP, 0, 0, b"");
    assert_eq!(answer[0].flags, SYN_ACK);
    script.iss = answer[0].header.seq;
    script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!(script.send(b"data")[0].ecn, 0);
}

#[test]
fn only_new_data_is_marked_as_ecn_capable() {
    let mut script = with_negotiated_ecn();
    assert!(script.send(&pattern(3000)).iter().all(|sent| sent.ecn == CAPABLE));
    assert_eq!(script.wait_millis(1500)[0].ecn, 0, "what goes again");
    script.deliver(Flags::ACK, 1, 1, b"data");
    assert_eq!(script.wait_millis(50)[0].ecn, 0, "an acknowledgment");
}

#[test]
fn a_mark_is_echoed_until_the_peer_has_reduced_its_window() {
    let mut script = with_negotiated_ecn();
    let echoes = |sent: &[Sent]| sent.last().unwrap().flags.has(Flags::ECE);
    script.ecn = MARKED;
    script.deliver(Flags::ACK, 1, 1, &[1; 1000]);
    script.ecn = CAPABLE;
    assert!(echoes(&script.peer(Flags::ACK, 1001, 1, &[1; 1000])));
    script.deliver(Flags::ACK, 2001, 1, &[1; 1000]);
    assert!(echoes(&script.peer(Flags::ACK, 3001, 1, &[1; 1000])));
    script.deliver(Flags::ACK.with(Flags::CWR), 4001, 1, &[1; 1000]);
    assert!(!echoes(&script.peer(Flags::ACK, 5001, 1, &[1; 1000])));
    assert_eq!(script.status().statistics.ecn_marks, 1);
}

#[test]
fn an_echoed_mark_halves_the_window_once_per_round_trip() {
    let mut script = with_negotiated_ecn();
    script.send(&pattern(60_000));
    let echo = Flags::ACK.with(Flags::ECE);
    let mut sent = Vec::new();
    for una in 1..=10 {
        sent.extend(script.peer(echo, 1, 1 + una * 1000, b""));
    }
    assert_eq!(script.status().slow_start_threshold, Some(5000));
    assert_eq!(script.status().congestion_window, 5000);
    assert_eq!(script.status().statistics.ecn_reductions, 1);
    let sets_cwr = sent.iter().filter(|sent| sent.flags.has(Flags::CWR)).count();
    assert_eq!(sets_cwr, 1);
    assert!(sent[0].flags.has(Flags::CWR));
    assert_eq!(script.status().statistics.retransmissions, 0);
}

#[test]
fn a_mark_without_negotiated_ecn_is_ignored() {
    let mut script = Script::established(PLAIN);
    script.ecn = MARKED;
    script.deliver(Flags::ACK, 1, 1, &[1; 1000]);
    let answer = script.peer(Flags::ACK, 1001, 1, &[1; 1000]);
    assert_eq!(answer[0].flags, Flags::ACK);
}

#[test]
fn a_probe_of_a_zero_window_may_not_be_marked() {
    let mut script = with_negotiated_ecn();
    script.window = 0;
    script.peer(Flags::ACK, 1, 1, b"");
    script.send(b"data");
    let sent = script.wait_millis(1000);
    assert_eq!((extents(&sent)[0], sent[0].ecn), ((1, 1), 0));
}

#[test]
fn a_segment_with_one_byte_is_marked_as_ecn_capable() {
    assert_eq!(with_negotiated_ecn().send(b"x")[0].ecn, CAPABLE);
}
