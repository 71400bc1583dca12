//! Tests of ICMP errors: RFC 9293 §3.9.2.2, RFC 5927; row 20 of docs/ledger/attacks.txt.

use super::*;
use crate::internet::icmp::{ErrorKind, IcmpError, Unreachable};

const HOST: ErrorKind = ErrorKind::Unreachable(Unreachable::Host);
const PORT_CLOSED: ErrorKind = ErrorKind::Unreachable(Unreachable::Port);

/// Delivers to `script` an error that quotes the sequence number `seq` of its connection.
fn error(script: &mut Script, kind: ErrorKind, seq: u32) {
    let [s0, s1] = script.port.to_be_bytes();
    let [d0, d1] = 4000_u16.to_be_bytes();
    let [q0, q1, q2, q3] = (script.iss + seq).0.to_be_bytes();
    let error = IcmpError {
        kind,
        reporter: Ipv4Addr::new(192, 0, 2, 1).into(),
        protocol: Protocol::Tcp,
        source: SERVER,
        destination: CLIENT,
        first_bytes: [s0, s1, d0, d1, q0, q1, q2, q3],
    };
    script.tcp.icmp_error(&error, &mut script.context.cx());
}

// req RFC9293:SHLD-26, RFC9293:MUST-54
#[test]
fn a_hard_error_about_our_syn_refuses_the_connection() {
    for (why, close_reason) in [
        (Unreachable::Port, CloseReason::Refused),
        (Unreachable::Protocol, CloseReason::Refused),
        (Unreachable::Prohibited, CloseReason::Unreachable),
    ] {
        let mut script = Script::syn_sent(PLAIN);
        error(&mut script, ErrorKind::Unreachable(why), 0);
        assert_eq!(script.close_reason(), Some(close_reason));
    }
}

// req RFC1122:3.2.2.4-MUST-1, RFC1122:3.2.2.5-MUST-1
// req RFC9293:MUST-47, RFC9293:MUST-54, RFC9293:MUST-56, RFC9293:SHLD-25
#[test]
fn a_soft_error_does_not_end_the_connection_but_is_its_final_cause() {
    let soft = [HOST, ErrorKind::TimeExceeded, ErrorKind::ParameterProblem];
    for kind in soft {
        let mut script = Script::syn_sent(PLAIN);
        error(&mut script, kind, 0);
        assert_eq!(script.state(), Some(State::SynSent));
        assert_eq!(script.status().soft_error, Some(kind));
        script.wait(Duration::from_secs(300));
        assert_eq!(script.close_reason(), Some(CloseReason::Unreachable));
    }
}

// req RFC1122:3.2.2.1-MUST-2
#[test]
fn an_open_connection_survives_a_hard_error_and_forgets_it_with_the_next_acknowledgment() {
    let mut script = Script::established(PLAIN);
    script.send(b"abc");
    error(&mut script, PORT_CLOSED, 1);
    assert_eq!(script.state(), Some(State::Established));
    assert_eq!(script.status().soft_error, Some(PORT_CLOSED));
    script.peer(Flags::ACK, 1, 4, b"");
    assert_eq!(script.status().soft_error, None);
}

// attack row 20
#[test]
fn attack_20_an_error_about_nothing_in_flight_is_ignored() {
    let mut script = Script::established(PLAIN);
    script.send(b"abc");
    for seq in [0, 4, 5, 0x8000_0000] {
        error(&mut script, HOST, seq);
    }
    assert_eq!(script.status().soft_error, None);
    assert_eq!(script.counted(Counter::TcpIcmpErrorsIgnored), 4);
}

// req RFC1122:3.3.3-MUST-1
#[test]
fn a_reported_mtu_retransmits_all_data_in_smaller_segments() {
    let mut script = Script::established(PLAIN);
    script.send(&pattern(3000));
    let window = script.status().congestion_window;
    error(&mut script, ErrorKind::FragmentationNeeded { next_hop_mtu: Some(840) }, 1001);
    let sent = script.output();
    assert_eq!(extents(&sent), [(1, 800), (801, 800), (1601, 800), (2401, 600)]);
    assert_eq!(script.status().slow_start_threshold, None, "it is no congestion");
    assert!(script.status().congestion_window <= window);
    script.peer(Flags::ACK, 1, 3001, b"");
    assert_eq!(script.status().send_queue, 0);
    script.assert_no_timer_runs();
}

// attack row 20
#[test]
fn attack_20_a_router_cannot_lower_the_mtu_below_552_bytes() {
    for next_hop_mtu in [Some(1), Some(68), Some(551)] {
        let mut script = Script::established(PLAIN);
        script.send(&pattern(3000));
        error(&mut script, ErrorKind::FragmentationNeeded { next_hop_mtu }, 1);
        assert_eq!(script.status().send_mss, 512);
    }
}

#[test]
fn an_error_without_an_mtu_means_576_bytes() {
    let mut script = Script::established(PLAIN);
    script.send(&pattern(3000));
    error(&mut script, ErrorKind::FragmentationNeeded { next_hop_mtu: None }, 1);
    assert_eq!(script.status().send_mss, 536);
}

#[test]
fn a_reported_mtu_above_the_current_one_is_ignored() {
    let mut script = Script::established(PLAIN);
    script.send(&pattern(3000));
    error(&mut script, ErrorKind::FragmentationNeeded { next_hop_mtu: Some(9000) }, 1);
    assert_eq!((script.status().send_mss, script.output().len()), (1000, 0));
}

#[test]
fn a_lower_path_mtu_retransmits_outstanding_data_at_once_in_shorter_segments() {
    let mut script = Script::established(PLAIN);
    assert_eq!(script.send(&pattern(1000)).len(), 1);
    let id = script.id.unwrap();
    assert_eq!(script.tcp.packet_too_big(id, 1040, &mut script.context.cx()), Ok(false));
    assert_eq!(script.output(), []);
    assert_eq!(script.tcp.packet_too_big(id, 540, &mut script.context.cx()), Ok(true));
    assert_eq!(extents(&script.output()), [(1, 500), (501, 500)]);
}

#[test]
fn a_path_mtu_that_is_reported_before_the_answer_to_the_syn_changes_no_segment() {
    let mut script = Script::syn_sent(PLAIN);
    let id = script.id.unwrap();
    assert_eq!(script.tcp.packet_too_big(id, 300, &mut script.context.cx()), Ok(false));
    script.options = Options { mss: Some(1000), ..Options::default() };
    script.peer(SYN_ACK, 0, 1, b"");
    script.options = Options::default();
    assert_eq!(extents(&script.send(&pattern(260))), [(1, 260)]);
}
