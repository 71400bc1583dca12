//! Tests of new connections that replace one in TIME-WAIT: RFC 9293 §3.6.1, RFC 6191 §2; row 42 of
//! docs/ledger/attacks.txt.

use super::*;

const STAMPED: Options = Options { mss: Some(1000), timestamps: Some((1000, 0)), ..Options::NONE };

/// Returns a connection in TIME-WAIT. It has received the sequence numbers up to 2. If `options`
/// contain timestamps, it has received the timestamp 1000.
fn time_wait(profile: Profile, options: Options) -> Script {
    let mut script = Script::asked_for_options(profile, options);
    script.options.timestamps = options.timestamps;
    script.peer(Flags::ACK, 1, 1, b"");
    script.close();
    script.peer(FIN_ACK, 1, 2, b"");
    assert_eq!(script.state(), Some(State::TimeWait));
    script.wait(Duration::from_secs(1));
    script
}

/// Returns the state after a SYN with the sequence number `seq` and the timestamp `value`.
fn state_after(mut script: Script, seq: u32, value: Option<u32>) -> State {
    script.options = Options { timestamps: value.map(|value| (value, 0)), ..STAMPED };
    script.peer(Flags::SYN, seq, 0, b"");
    script.state().unwrap()
}

// req RFC9293:SHLD-4, RFC9293:MAY-2
#[test]
fn a_newer_timestamp_opens_a_new_connection_whatever_the_number() {
    for seq in [0, 2, 3, 0x9000_0000] {
        let script = time_wait(Profile::BULK, STAMPED);
        assert_eq!(state_after(script, seq, Some(1001)), State::SynReceived, "{seq}");
    }
}

// attack row 42
#[test]
fn an_older_timestamp_opens_nothing_whatever_the_number() {
    for seq in [0, 2, 3, 500_000] {
        let script = time_wait(Profile::BULK, STAMPED);
        assert_eq!(state_after(script, seq, Some(999)), State::TimeWait, "{seq}");
    }
}

// attack row 42
#[test]
fn the_same_timestamp_or_none_opens_only_behind_the_last_number() {
    for (value, seq, state) in [
        (Some(1000), 3, State::SynReceived),
        (Some(1000), 2, State::TimeWait),
        (None, 3, State::SynReceived),
        (None, 2, State::TimeWait),
        (None, 0x9000_0000, State::TimeWait),
    ] {
        let script = time_wait(Profile::BULK, STAMPED);
        assert_eq!(state_after(script, seq, value), state, "{value:?} {seq}");
    }
}

#[test]
fn a_timestamp_where_there_was_none_opens() {
    let script = time_wait(Profile::BULK, Options { timestamps: None, ..STAMPED });
    assert_eq!(state_after(script, 0, Some(1)), State::SynReceived);
}

// req RFC9293:MAY-2
#[test]
fn the_new_connection_begins_behind_the_numbers_of_the_last() {
    let mut script = Script::established(PLAIN);
    script.send(&pattern(1000));
    script.peer(Flags::ACK, 1, 1001, b"");
    script.close();
    script.peer(FIN_ACK, 1, 1002, b"");
    let answer = script.peer(Flags::SYN, 3, 0, b"");
    assert_eq!(texts(&answer), ["<SYN,ACK seq 1003 ack 4 len 0>"]);
    assert_eq!(script.counted(Counter::TcpTimeWaitsReused), 1);
}

#[test]
fn the_user_of_the_last_connection_is_notified_that_it_has_ended() {
    let mut script = Script::established(PLAIN);
    script.close();
    script.peer(FIN_ACK, 1, 2, b"");
    script.peer(Flags::SYN, 100, 0, b"");
    assert!(script.events.contains(&Event::Closed));
    assert_eq!(script.close_reason(), Some(CloseReason::Closed));
}

// attack row 42
#[test]
fn a_syn_to_a_closed_port_changes_nothing() {
    let mut script = Script::established(PLAIN);
    script.tcp.stop_listening(PORT);
    script.close();
    script.peer(FIN_ACK, 1, 2, b"");
    let answer = script.peer(Flags::SYN, 500_000, 0, b"");
    assert_eq!(texts(&answer), ["<ACK seq 2 ack 2 len 0>"]);
    assert_eq!(script.state(), Some(State::TimeWait));
}

#[test]
fn a_connection_after_time_wait_is_forgotten() {
    let mut script = Script::listening(PLAIN);
    for _ in 0..100 {
        script.id = None;
        let answer = script.peer(Flags::SYN, 0, 0, b"");
        script.iss = answer[0].header.seq;
        script.peer(Flags::ACK, 1, 1, b"");
        script.close();
        script.peer(FIN_ACK, 1, 2, b"");
        assert_eq!(script.state(), Some(State::TimeWait));
        assert_eq!(script.tcp.table.tracked_count(), 1);
        script.release();
        script.wait(Duration::from_secs(100));
    }
    assert_eq!(script.tcp.table.tracked_count(), 0);
}
