//! Tests of Fast Open: RFC 7413; row 44 of docs/ledger/attacks.txt.

use super::*;

const FAST: Profile = Profile { fast_open: true, ..PLAIN };

/// Requests a cookie from a listener. The connection of the request remains half-open.
fn with_cookie(profile: Profile) -> (Script, Option<FastOpen>) {
    let mut script = Script::listening(profile);
    script.options = Options { fast_open: Some(FastOpen::Request), ..Options::default() };
    let answer = script.peer(Flags::SYN, 0, 0, b"");
    let granted = answer[0].header.options.fast_open;
    script.peer(Flags::RST, 1, 0, b"");
    assert_eq!(script.state(), None);
    (script, granted)
}

/// Delivers a SYN with a valid cookie and `data`.
fn syn_with_data(data: &[u8]) -> (Script, Vec<Sent>) {
    let (mut script, given) = with_cookie(FAST);
    script.options = Options { fast_open: given, mss: Some(1000), ..Options::default() };
    let answer = script.peer(Flags::SYN, 0, 0, data);
    script.iss = answer[0].header.seq;
    script.options = Options::default();
    (script, answer)
}

fn is_cookie(said: Option<FastOpen>) -> bool {
    matches!(said, Some(FastOpen::Cookie(_)))
}

#[test]
fn fast_open_is_off_by_default() {
    const { assert!(!Profile::BULK.fast_open && !Profile::INTERACTIVE.fast_open) };
    let (_, given) = with_cookie(PLAIN);
    assert_eq!(given, None);
    assert_eq!(Script::syn_sent(PLAIN).wait_millis(1000)[0].header.options.fast_open, None);
}

#[test]
fn a_cookie_request_is_answered_and_its_data_waits() {
    let mut script = Script::listening(FAST);
    script.options = Options { fast_open: Some(FastOpen::Request), ..Options::default() };
    let answer = script.peer(Flags::SYN, 0, 0, b"data");
    assert!(is_cookie(answer[0].header.options.fast_open));
    assert_eq!(answer[0].ack, 1);
    assert!(script.events.is_empty());
}

#[test]
fn data_with_a_good_cookie_reaches_the_application_at_once() {
    let (script, answer) = syn_with_data(b"question");
    assert_eq!(answer[0].ack, 9);
    assert_eq!(script.events, [Event::Established, Event::Readable]);
    assert_eq!(script.tcp.received(script.id.unwrap()).unwrap(), b"question");
    assert_eq!(script.counted(Counter::TcpFastOpensIn), 1);
}

#[test]
fn the_answer_of_the_application_does_not_wait_for_the_handshake() {
    let (mut script, _) = syn_with_data(b"question");
    let sent = script.send(b"answer");
    assert_eq!(texts(&sent), ["<PSH,ACK seq 1 ack 9 len 6>"]);
    script.peer(Flags::ACK, 9, 7, b"");
    assert_eq!(script.state(), Some(State::Established));
    assert_eq!(script.status().send_queue, 0);
    assert_eq!(script.wait(Duration::from_secs(10)), []);
    assert_eq!(script.events.iter().filter(|event| **event == Event::Established).count(), 1);
}

#[test]
fn data_lost_with_the_syn_ack_is_retransmitted() {
    let (mut script, _) = syn_with_data(b"question");
    script.send(b"answer");
    let sent = script.wait_millis(1100);
    assert_eq!(texts(&sent), ["<SYN,ACK seq 0 ack 9 len 0>", "<PSH,ACK seq 1 ack 9 len 6>"]);
    script.peer(Flags::ACK, 9, 1, b"");
    script.peer(Flags::ACK, 9, 7, b"");
    assert_eq!(script.status().send_queue, 0);
}

// attack row 44
#[test]
fn data_with_a_wrong_cookie_waits_and_a_valid_one_is_sent() {
    let (mut script, _) = with_cookie(FAST);
    let wrong_cookie = Cookie::new(&[7; 8]).map(FastOpen::Cookie);
    script.options = Options { fast_open: wrong_cookie, ..Options::default() };
    let answer = script.peer(Flags::SYN, 0, 0, b"data");
    assert_eq!(answer[0].ack, 1);
    let granted = answer[0].header.options.fast_open;
    assert!(is_cookie(granted) && granted != wrong_cookie);
    assert_eq!(script.counted(Counter::TcpFastOpensRefused), 1);
}

// attack row 44
#[test]
fn early_connections_have_a_limit_of_their_own() {
    let mut pair = Pair::new(1);
    pair.connect(FAST);
    let refused = Counter::TcpFastOpensRefused;
    let remote = SocketAddr::new(SERVER, PORT);
    // No acknowledgment from the client arrives, so no handshake is completed.
    pair.fate = Box::new(|_, side, header| side == Side::Server || header.flags.has(Flags::SYN));
    for _ in 0..20 {
        let id = pair.client.open(CLIENT, remote, FAST, &mut pair.context.cx()).unwrap();
        pair.client.send(id, b"early").unwrap();
    }
    pair.run(Duration::from_millis(20));
    assert_eq!(pair.context.counted(Counter::TcpFastOpensIn), 16);
    assert_eq!(pair.context.counted(refused), 4);
}

#[test]
fn the_second_connection_to_a_server_answers_within_a_round_trip() {
    let mut pair = Pair::new(1);
    pair.connect(FAST);
    pair.run(Duration::from_secs(1));
    pair.events.clear();
    let start = pair.context.now;
    let remote = SocketAddr::new(SERVER, PORT);
    let client = pair.client.open(CLIENT, remote, FAST, &mut pair.context.cx()).unwrap();
    pair.client.send(client, b"question").unwrap();
    pair.run(pair.delay);
    let server = pair.events.iter().find(|event| event.0 == Side::Server).unwrap().1;
    assert_eq!(pair.server.received(server).unwrap(), b"question");
    pair.server.send(server, b"answer").unwrap();
    pair.run(pair.delay);
    assert_eq!(pair.client.received(client).unwrap(), b"answer");
    assert_eq!(pair.context.counted(Counter::TcpFastOpensOut), 1);
    assert_eq!(pair.context.now - start, pair.delay * 2);
}

#[test]
fn rejected_syn_data_is_sent_after_the_handshake() {
    let mut pair = Pair::new(1);
    pair.connect(FAST);
    // The server has another key, so the cookie is no longer valid.
    pair.server.fast_open = Tcp::new(LOWER, &mut OwnedCx::with_seed(9).cx()).fast_open;
    let remote = SocketAddr::new(SERVER, PORT);
    pair.events.clear();
    let client = pair.client.open(CLIENT, remote, FAST, &mut pair.context.cx()).unwrap();
    pair.client.send(client, b"question").unwrap();
    pair.run(Duration::from_secs(1));
    let server = pair.events.iter().find(|event| event.0 == Side::Server).unwrap().1;
    assert_eq!(pair.server.received(server).unwrap(), b"question");
    assert_eq!(pair.client.status(client).unwrap().send_queue, 0);
}

#[test]
fn a_lost_syn_with_data_is_repeated_without_it_and_its_cookie() {
    let mut pair = Pair::new(1);
    pair.connect(FAST);
    let before = pair.trace.len();
    // A middlebox drops segments with the option.
    pair.fate = Box::new(|_, _, header| header.options.fast_open.is_none());
    let remote = SocketAddr::new(SERVER, PORT);
    let client = pair.client.open(CLIENT, remote, FAST, &mut pair.context.cx()).unwrap();
    pair.client.send(client, b"question").unwrap();
    pair.run(Duration::from_secs(5));
    let syns = pair.trace[before..].iter().filter(|sent| sent.2.flags == Flags::SYN);
    let syn_contents: Vec<_> =
        syns.map(|sent| (sent.3, is_cookie(sent.2.options.fast_open))).collect();
    assert_eq!(syn_contents, [(8, true), (0, false)]);
    assert_eq!(pair.client.status(client).unwrap().send_queue, 0);
    let (offer, _) = pair.client.fast_open_client.offer_to(SERVER);
    assert_eq!(offer, FastOpen::Request);
}

// attack row 44
#[test]
fn more_data_than_fits_is_sent_after_the_handshake() {
    let mut pair = Pair::new(1);
    pair.connect(FAST);
    pair.events.clear();
    let remote = SocketAddr::new(SERVER, PORT);
    let client = pair.client.open(CLIENT, remote, FAST, &mut pair.context.cx()).unwrap();
    let data = pattern(100_000);
    let queued_len = pair.client.send(client, &data).unwrap();
    pair.run(Duration::from_millis(6));
    let first = pair.trace.iter().rev().find(|sent| sent.2.flags == Flags::SYN).unwrap();
    assert!((1000..=1460).contains(&first.3), "{}", first.3);
    pair.run(Duration::from_secs(1));
    let server = pair.events.iter().find(|event| event.0 == Side::Server).unwrap().1;
    let mut received = Vec::new();
    for _ in 0..1000 {
        let data = pair.server.received(server).unwrap().to_vec();
        pair.server.consume(server, data.len()).unwrap();
        received.extend(data);
        pair.run(Duration::from_millis(20));
    }
    assert!(received == data[..queued_len]);
}

#[test]
fn a_reset_of_an_early_connection_is_reported_to_its_user() {
    let (mut script, _) = syn_with_data(b"question");
    script.peer(Flags::RST, 9, 0, b"");
    assert_eq!(script.close_reason(), Some(CloseReason::Reset));
    assert!(script.events.contains(&Event::Closed));
}

#[test]
fn an_answer_is_sent_again_if_only_the_handshake_is_acknowledged() {
    let (mut script, _) = syn_with_data(b"question");
    script.send(b"answer");
    assert_eq!(script.peer(Flags::ACK, 9, 1, b""), []);
    let sent = script.wait(Duration::from_secs(5));
    assert_eq!(sent.first().map(|sent| (sent.seq, sent.len)), Some((1, 6)));
    script.peer(Flags::ACK, 9, 7, b"");
    assert_eq!(script.status().send_queue, 0);
}

#[test]
fn data_sent_before_the_handshake_ends_is_outstanding_once() {
    let (mut script, _) = syn_with_data(b"question");
    script.send(b"answer");
    // The peer's SYN is retransmitted, because the answer was lost.
    script.peer(Flags::SYN, 0, 0, b"");
    script.wait_millis(1100);
    assert_eq!(script.status().recovery.outstanding, 6);
    script.peer(Flags::ACK, 9, 7, b"");
    assert_eq!(script.status().recovery.outstanding, 0);
}

#[test]
fn an_early_connection_that_is_given_up_unread_is_reset() {
    let (mut script, _) = syn_with_data(b"question");
    let sent = script.release();
    assert_eq!(texts(&sent), ["<RST,ACK seq 1 ack 9 len 0>"]);
    assert_eq!(script.tcp.connections(), 0);
}

#[test]
fn the_longest_cookie_leaves_no_room_for_the_user_timeout() {
    let mut script = Script::new();
    let cookie = Cookie::new(&[7; 16]).unwrap();
    script.tcp.fast_open_client.keep(CLIENT, cookie, 1460);
    let user_timeout = UserTimeout { is_shared: true, ..UserTimeout::DEFAULT };
    let profile = Profile { fast_open: true, user_timeout, ..Profile::BULK };
    let remote = SocketAddr::new(CLIENT, 4000);
    script.tcp.open(SERVER, remote, profile, &mut script.context.cx()).unwrap();
    let options = script.output()[0].header.options;
    assert_eq!(options.fast_open, Some(FastOpen::Cookie(cookie)));
    assert_eq!(options.user_timeout, None);
}

#[test]
fn a_second_small_answer_before_the_handshake_ends_waits_for_the_first() {
    let (mut script, _) = syn_with_data(b"question");
    assert_eq!(extents(&script.send(b"a")), [(1, 1)]);
    assert_eq!(script.send(b"b"), []);
    assert_eq!(extents(&script.peer(Flags::ACK, 9, 2, b"")), [(2, 1)]);
}

#[test]
fn a_timeout_of_later_data_does_not_forget_the_cookie() {
    let mut pair = Pair::new(1);
    let (client, _) = pair.connect(FAST);
    pair.fate = Box::new(|_, _, _| false);
    pair.client.send(client, b"question").unwrap();
    pair.run(Duration::from_secs(5));
    assert!(pair.context.counted(Counter::TcpTimeouts) > 0);
    assert!(matches!(pair.client.fast_open_client.offer_to(SERVER).0, FastOpen::Cookie(_)));
}

#[test]
fn the_option_is_padded_to_whole_words() {
    let padding = |len| FastOpen::Cookie(Cookie::new(&[7; 16][..len]).unwrap()).padding();
    assert_eq!([4, 6, 8, 10, 16].map(padding), [2, 0, 2, 0, 2]);
    assert_eq!(FastOpen::Request.padding(), 2);
}
