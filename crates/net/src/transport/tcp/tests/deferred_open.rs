//! Tests of opens that the user accepts or refuses, and of opens from a given port.

use super::*;

const SYN_OPTIONS: Options = Options { mss: Some(1000), ..Options::NONE };

/// Delivers a SYN of the peer, and returns the open.
fn deferred<const ISN: u64>(script: &mut ScriptAt<ISN>, options: Options) -> DeferredOpen {
    script.options = options;
    assert_eq!(script.peer(Flags::SYN, 0, 0, b""), [], "the SYN is not answered");
    script.options = Options::default();
    script.tcp.deferred_open().unwrap()
}

/// Accepts an open and returns the answer.
fn accept<const ISN: u64>(
    script: &mut ScriptAt<ISN>,
    open: &DeferredOpen,
    profile: Profile,
) -> Sent {
    let id = script.tcp.accept_deferred(open, profile, &mut script.context.cx()).unwrap();
    script.id = Some(id);
    let mut sent = script.output();
    assert_eq!(sent.len(), 1, "{sent:?}");
    script.iss = sent[0].header.seq;
    sent.remove(0)
}

#[test]
fn a_syn_is_answered_when_the_user_accepts_it() {
    let mut script = Script::deferring(1);
    let open = deferred(&mut script, SYN_OPTIONS);
    assert_eq!(open.local(), SocketAddr::new(SERVER, PORT));
    assert_eq!(open.remote(), SocketAddr::new(CLIENT, 4000));
    let answer = accept(&mut script, &open, PLAIN);
    assert_eq!((answer.flags, answer.ack), (SYN_ACK, 1));
    script.peer(Flags::ACK, 1, 1, b"data");
    assert_eq!(script.events, [Event::Established, Event::Readable]);
    assert_eq!(script.tcp.received(script.id.unwrap()), Ok(&b"data"[..]));
    assert_eq!(script.counted(Counter::TcpPassiveOpens), 1);
    assert_eq!(script.status().send_mss, 1000);
}

#[test]
fn a_refused_syn_is_answered_by_a_reset() {
    let mut script = Script::deferring(1);
    let open = deferred(&mut script, SYN_OPTIONS);
    script.tcp.refuse_deferred(&open, &mut script.context.cx());
    let sent = script.output();
    assert_eq!((sent[0].flags, sent[0].ack, sent.len()), (RST_ACK, 1, 1));
    assert_eq!(script.tcp.connections(), 0);
}

#[test]
fn without_deferred_opens_a_syn_is_refused() {
    let mut script = Script::deferring(0);
    assert_eq!(script.peer(Flags::SYN, 0, 0, b"")[0].flags, RST_ACK);
    assert!(script.tcp.deferred_open().is_none());
}

#[test]
fn opens_above_the_limit_are_dropped_and_counted() {
    let mut script = Script::deferring(2);
    for _ in 0..5 {
        assert_eq!(script.peer(Flags::SYN, 0, 0, b""), []);
    }
    assert_eq!(script.counted(Counter::TcpOpensRefused), 3);
    assert!(script.tcp.deferred_open().is_some() && script.tcp.deferred_open().is_some());
    assert!(script.tcp.deferred_open().is_none());
    assert_eq!(script.peer(Flags::SYN, 0, 0, b""), []);
    assert!(script.tcp.deferred_open().is_some());
}

#[test]
fn a_listener_takes_precedence() {
    let mut script = Script::listening(PLAIN);
    script.tcp.defer_opens(1);
    assert_eq!(script.peer(Flags::SYN, 0, 0, b"")[0].flags, SYN_ACK);
    assert!(script.tcp.deferred_open().is_none());
}

#[test]
fn only_a_plain_syn_is_deferred() {
    let with = |flags: Flags| Flags::SYN.with(flags);
    for (flags, answer) in [
        (with(Flags::ACK), Some(Flags::RST)),
        (with(Flags::FIN), Some(RST_ACK)),
        (with(Flags::RST), None),
        (Flags::ACK, Some(Flags::RST)),
        (Flags::RST, None),
        (Flags::FIN, Some(RST_ACK)),
    ] {
        let mut script = Script::deferring(1);
        let sent = script.peer(flags, 0, 0, b"");
        assert_eq!(sent.first().map(|sent| sent.flags), answer, "{flags:?}");
        assert!(script.tcp.deferred_open().is_none(), "{flags:?}");
    }
}

#[test]
fn the_data_of_a_syn_is_retransmitted_by_the_peer() {
    let mut script = Script::deferring(1);
    script.options = SYN_OPTIONS;
    assert_eq!(script.peer(Flags::SYN, 0, 0, b"early"), []);
    script.options = Options::default();
    let open = script.tcp.deferred_open().unwrap();
    assert_eq!(accept(&mut script, &open, PLAIN).ack, 1, "the data is not acknowledged");
    script.peer(Flags::ACK, 1, 1, b"early");
    assert_eq!(script.tcp.received(script.id.unwrap()), Ok(&b"early"[..]));
}

#[test]
fn a_retransmission_after_the_answer_belongs_to_the_connection() {
    let mut script = Script::deferring(1);
    let open = deferred(&mut script, SYN_OPTIONS);
    accept(&mut script, &open, PLAIN);
    let answer = script.peer(Flags::SYN, 0, 0, b"");
    assert_eq!(texts(&answer), ["<SYN,ACK seq 0 ack 1 len 0>"]);
    assert!(script.tcp.deferred_open().is_none());
}

#[test]
fn the_later_of_two_syns_is_answered() {
    let mut script = Script::deferring(2);
    let mut open = deferred(&mut script, SYN_OPTIONS);
    assert_eq!(script.peer(Flags::SYN, 100, 0, b""), []);
    let later = script.tcp.deferred_open().unwrap();
    open.update(&later);
    assert_eq!(accept(&mut script, &open, PLAIN).ack, 101);
}

#[test]
fn an_open_between_the_ends_of_a_connection_cannot_be_accepted() {
    let mut script = Script::deferring(2);
    let open = deferred(&mut script, SYN_OPTIONS);
    accept(&mut script, &open, PLAIN);
    let cx = &mut script.context.cx();
    assert_eq!(script.tcp.accept_deferred(&open, PLAIN, cx), Err(OpenError::NoPort));
    assert_eq!(script.tcp.connections(), 1);
}

#[test]
fn an_open_above_the_limit_of_connections_cannot_be_accepted() {
    let mut script = Script::deferring(1);
    script.tcp.set_connections_max(0);
    let open = deferred(&mut script, SYN_OPTIONS);
    let cx = &mut script.context.cx();
    assert_eq!(script.tcp.accept_deferred(&open, PLAIN, cx), Err(OpenError::TooMany));
}

/// The options are negotiated as by a listener.
#[test]
fn the_answer_to_a_deferred_syn_is_that_of_a_listener() {
    let offers = [
        Options { mss: Some(1000), ..Options::default() },
        Options { timestamps: Some((77, 0)), sack_permitted: true, ..SYN_OPTIONS },
        Options { window_scale: Some(7), ..SYN_OPTIONS },
        Options::default(),
    ];
    for (offer, profile) in offers.into_iter().flat_map(|o| [(o, PLAIN), (o, Profile::BULK)]) {
        let mut listening = Script::listening(profile);
        listening.options = offer;
        let expected = listening.peer(Flags::SYN, 0, 0, b"");
        let mut script = Script::deferring(1);
        let open = deferred(&mut script, offer);
        let answer = accept(&mut script, &open, profile);
        assert_eq!(answer.header, expected[0].header, "{offer:?}");
    }
}

/// Returns a connection in TIME-WAIT that was deferred. It has sent the sequence numbers up to
/// `len` + 1, and received those up to 1.
fn time_wait(options: Options, len: u32) -> Script {
    let mut script = Script::deferring(1);
    let open = deferred(&mut script, options);
    let profile = if options.timestamps.is_some() { Profile::BULK } else { PLAIN };
    accept(&mut script, &open, profile);
    script.options.timestamps = options.timestamps;
    script.peer(Flags::ACK, 1, 1, b"");
    if len > 0 {
        script.send(&pattern(len as usize));
        script.peer(Flags::ACK, 1, len + 1, b"");
    }
    script.close();
    script.peer(FIN_ACK, 1, len + 2, b"");
    assert_eq!(script.state(), Some(State::TimeWait));
    script
}

#[test]
fn a_later_syn_replaces_a_connection_in_time_wait() {
    let mut script = time_wait(SYN_OPTIONS, 0);
    script.events.clear();
    assert_eq!(script.peer(Flags::SYN, 3, 0, b""), []);
    assert_eq!(script.events, [Event::Closed], "the user of the old connection is notified");
    assert_eq!(script.close_reason(), Some(CloseReason::Closed));
    assert_eq!(script.counted(Counter::TcpTimeWaitsReused), 1);
    let open = script.tcp.deferred_open().unwrap();
    assert_eq!(accept(&mut script, &open, PLAIN).ack, 4);
}

#[test]
fn an_earlier_syn_does_not_replace_a_connection_in_time_wait() {
    let mut script = time_wait(SYN_OPTIONS, 0);
    let answer = script.peer(Flags::SYN, 1, 0, b"");
    assert_eq!(texts(&answer), ["<ACK seq 2 ack 2 len 0>"]);
    assert_eq!(script.state(), Some(State::TimeWait));
    assert!(script.tcp.deferred_open().is_none());
}

#[test]
fn a_later_timestamp_replaces_a_connection_in_time_wait() {
    for (value, is_replaced) in [(1001, true), (999, false)] {
        let stamped = Options { timestamps: Some((1000, 0)), ..SYN_OPTIONS };
        let mut script = time_wait(stamped, 0);
        script.options = Options { timestamps: Some((value, 0)), ..SYN_OPTIONS };
        script.peer(Flags::SYN, 0, 0, b"");
        assert_eq!(script.tcp.deferred_open().is_some(), is_replaced, "{value}");
    }
}

#[test]
fn without_deferred_opens_a_syn_does_not_replace_a_connection_in_time_wait() {
    let mut script = time_wait(SYN_OPTIONS, 0);
    script.tcp.defer_opens(0);
    script.peer(Flags::SYN, 3, 0, b"");
    assert_eq!(script.state(), Some(State::TimeWait));
}

#[test]
fn the_numbers_of_the_new_connection_begin_after_those_of_the_old_one() {
    let mut script = time_wait(SYN_OPTIONS, 5000);
    let old_iss = script.iss;
    script.peer(Flags::SYN, 3, 0, b"");
    let open = script.tcp.deferred_open().unwrap();
    let answer = accept(&mut script, &open, PLAIN);
    assert_eq!(answer.header.seq, old_iss + 5003);
}

#[test]
fn a_retransmission_does_not_forget_the_numbers_of_the_old_connection() {
    let mut script = time_wait(SYN_OPTIONS, 5000);
    let old_iss = script.iss;
    script.peer(Flags::SYN, 3, 0, b"");
    let mut open = script.tcp.deferred_open().unwrap();
    script.peer(Flags::SYN, 3, 0, b"");
    let retransmission = script.tcp.deferred_open().unwrap();
    open.update(&retransmission);
    let answer = accept(&mut script, &open, PLAIN);
    assert_eq!(answer.header.seq, old_iss + 5003);
}

#[test]
fn an_open_from_a_given_port_sends_a_syn_from_it() {
    let mut script = Script::deferring(0);
    let local = SocketAddr::new(SERVER, 99);
    let remote = SocketAddr::new(CLIENT, 4000);
    let cx = &mut script.context.cx();
    let id = script.tcp.open_at(local, remote, PLAIN, cx).unwrap();
    let again = script.tcp.open_at(local, remote, PLAIN, cx);
    assert_eq!(again, Err(OpenError::NoPort), "the ends are in use");
    let sent = script.output();
    assert_eq!((sent[0].flags, sent[0].header.source_port, sent.len()), (Flags::SYN, 99, 1));
    assert_eq!(script.tcp.status(id).unwrap().local, local);
    assert_eq!(script.counted(Counter::TcpActiveOpens), 1);
    // Another port of the same host is free.
    let other = SocketAddr::new(SERVER, 98);
    assert!(script.tcp.open_at(other, remote, PLAIN, &mut script.context.cx()).is_ok());
}

#[test]
fn an_open_from_a_given_port_refuses_invalid_ends() {
    let mut script = Script::deferring(0);
    let at = |text: &str| text.parse::<SocketAddr>().unwrap();
    for (local, remote, error) in [
        ("10.0.0.2:99", "10.0.0.1:0", OpenError::BadRemote),
        ("10.0.0.2:99", "224.0.0.1:80", OpenError::BadRemote),
        ("10.0.0.2:99", "255.255.255.255:80", OpenError::BadRemote),
        ("10.0.0.2:99", "0.0.0.0:80", OpenError::BadRemote),
        ("10.0.0.2:99", "[2001:db8::1]:80", OpenError::BadRemote),
        ("10.0.0.2:0", "10.0.0.1:80", OpenError::NoPort),
    ] {
        let cx = &mut script.context.cx();
        assert_eq!(script.tcp.open_at(at(local), at(remote), PLAIN, cx), Err(error), "{remote}");
    }
    script.tcp.set_connections_max(0);
    let cx = &mut script.context.cx();
    let full = script.tcp.open_at(at("10.0.0.2:99"), at("10.0.0.1:80"), PLAIN, cx);
    assert_eq!(full, Err(OpenError::TooMany));
}

#[test]
fn the_send_space_is_what_send_accepts() {
    let profile = Profile { send_limit: SendLimit::Bytes(5000), ..PLAIN };
    let mut script = Script::established(profile);
    let id = script.id.unwrap();
    assert_eq!(script.tcp.send_space(id), 5000);
    script.send(&pattern(3000));
    assert_eq!(script.tcp.send_space(id), 2000);
    assert_eq!(script.tcp.send(id, &pattern(9000)), Ok(2000));
    assert_eq!(script.tcp.send_space(id), 0);
    script.peer(Flags::ACK, 1, 1001, b"");
    assert_eq!(script.tcp.send_space(id), 1000);
    script.close();
    assert_eq!(script.tcp.send_space(id), 0, "the user has closed the connection");
    script.tcp.abort(id, &mut script.context.cx()).unwrap();
    script.release();
    assert_eq!(script.tcp.send_space(id), 0, "the connection no longer exists");
}
