//! Tests of floods of SYNs: RFC 4987; row 33 of docs/ledger/attacks.txt.

use super::*;
use crate::transport::tcp::listen::BACKLOG;

/// Number of SYNs in a flood.
const FLOOD: u32 = 1_000_000;

/// Delivers SYN number `number` of a flood, from a nonexistent host.
fn deliver_forged_syn(script: &mut Script, number: u32) {
    let source = IpAddr::V4(Ipv4Addr::from_bits(0xC612_0000 + number / 50_000));
    let port = u16::try_from(1024 + number % 50_000).unwrap();
    let header = Header {
        source_port: port,
        destination_port: PORT,
        seq: Seq(number.wrapping_mul(2_654_435_761)),
        flags: Flags::SYN,
        window: 1000,
        ..Header::default()
    };
    let packet = make(header, (SocketAddr::new(source, port), SocketAddr::new(SERVER, PORT)), b"");
    deliver_bytes(&mut script.tcp, (source, SERVER), packet.data(), &mut script.context.cx());
}

/// Returns a listener whose backlog is full of forged SYNs.
fn flooded_listener(profile: Profile) -> Script {
    let mut script = Script::listening(profile);
    for number in 0..u32::try_from(BACKLOG).unwrap() {
        deliver_forged_syn(&mut script, number);
        script.discard_output();
    }
    assert_eq!(script.tcp.connections(), BACKLOG);
    script
}

const ALL: Options = Options {
    mss: Some(1000),
    window_scale: Some(7),
    timestamps: Some((5000, 0)),
    ..Options::NONE
};

/// Performs a legitimate handshake with `options`. The answer to its SYN must be a cookie.
fn complete_handshake(script: &mut Script, options: Options) -> Header {
    script.options = options;
    let answer = script.peer(Flags::SYN, 0, 0, b"");
    assert_eq!(script.state(), None, "nothing is remembered");
    assert_eq!(answer[0].ack, 1);
    script.iss = answer[0].header.seq;
    let stamp = answer[0].header.options.timestamps;
    script.options = Options {
        timestamps: options.timestamps.zip(stamp).map(|((value, _), (ours, _))| (value + 1, ours)),
        ..Options::default()
    };
    script.peer(Flags::ACK, 1, 1, b"");
    answer[0].header
}

// attack row 33
#[test]
fn a_legitimate_peer_connects_through_a_flood_of_a_million_and_memory_stays_flat() {
    let mut script = Script::listening(PLAIN);
    for number in 0..FLOOD {
        deliver_forged_syn(&mut script, number);
        script.discard_output();
        script.context.advance(Duration::from_micros(10));
    }
    assert!(script.tcp.connections() <= BACKLOG, "memory stays flat");
    complete_handshake(&mut script, Options { mss: Some(1000), ..Options::default() });
    assert_eq!(script.state(), Some(State::Established));
    assert_eq!(script.events, [Event::Established]);
    assert_eq!(script.counted(Counter::TcpSynCookiesIn), 1);
    let cookies_sent = script.counted(Counter::TcpSynCookiesOut);
    assert_eq!(cookies_sent, u64::from(FLOOD) - BACKLOG as u64 + 1);
}

// attack row 33
#[test]
fn unread_answers_to_a_flood_have_a_limit() {
    let mut script = flooded_listener(PLAIN);
    for number in 1000..2000 {
        deliver_forged_syn(&mut script, number);
    }
    assert_eq!(script.discard_output(), 64);
    assert_eq!(script.counted(Counter::TcpOpensRefused), 1000 - 64);
}

#[test]
fn a_connection_by_cookie_carries_data_both_ways() {
    let mut script = flooded_listener(PLAIN);
    complete_handshake(&mut script, Options { mss: Some(1000), ..Options::default() });
    script.peer(Flags::ACK, 1, 1, b"question");
    assert_eq!(script.tcp.received(script.id.unwrap()).unwrap(), b"question");
    let sent = script.send(&pattern(1072));
    assert_eq!(extents(&sent), [(1, 536), (537, 536)], "1000 is rounded down to what is known");
}

#[test]
fn a_cookie_with_timestamps_keeps_the_options_of_the_peer() {
    let mut script = flooded_listener(Profile::BULK);
    script.window = 1000;
    let answer = complete_handshake(&mut script, ALL);
    assert_eq!(answer.options.window_scale, Some(8));
    assert_eq!(script.status().send_window, 128_000);
    let sent = script.send(b"x");
    assert_eq!(sent[0].header.options.timestamps.unwrap().1, 5001);
}

#[test]
fn without_timestamps_a_cookie_offers_only_options_that_need_no_memory() {
    let mut script = flooded_listener(Profile::BULK);
    let answer = complete_handshake(&mut script, Options { timestamps: None, ..ALL });
    assert_eq!(answer.options.window_scale, None);
    assert_eq!(script.status().send_window, 60_000);
}

#[test]
fn data_that_arrives_before_the_acknowledgment_of_a_cookie_opens_the_connection() {
    let mut script = flooded_listener(PLAIN);
    let answer = script.peer(Flags::SYN, 0, 0, b"");
    script.iss = answer[0].header.seq;
    script.peer(Flags::ACK, 1, 1, b"first");
    assert_eq!(script.tcp.received(script.id.unwrap()).unwrap(), b"first");
}

#[test]
fn a_guessed_cookie_is_reset_and_counted() {
    let mut script = flooded_listener(PLAIN);
    script.peer(Flags::SYN, 0, 0, b"");
    let answer = script.peer(Flags::ACK, 1, 12_345, b"");
    assert_eq!(texts(&answer), ["<RST seq 12345 len 0>"]);
    assert_eq!(script.counted(Counter::TcpSynCookiesWrong), 1);
    assert_eq!(script.state(), None);
}

#[test]
fn a_cookie_is_valid_for_two_minutes() {
    let mut script = flooded_listener(PLAIN);
    let answer = script.peer(Flags::SYN, 0, 0, b"");
    script.iss = answer[0].header.seq;
    script.context.advance(Duration::from_secs(129));
    let answer = script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!(texts(&answer), ["<RST seq 1 len 0>"]);
    assert_eq!(script.state(), None);
}

#[test]
fn without_an_issued_cookie_none_is_checked() {
    let mut script = Script::listening(PLAIN);
    let answer = script.peer(Flags::ACK, 1, 7, b"");
    assert_eq!(texts(&answer), ["<RST seq 7 len 0>"]);
    assert_eq!(script.counted(Counter::TcpSynCookiesWrong), 0);
}

#[test]
fn the_backlog_is_free_again_when_its_syns_are_given_up() {
    let mut script = flooded_listener(PLAIN);
    while let Some(deadline) = script.tcp.deadline() {
        script.context.now = deadline;
        script.tcp.timeout(&mut script.context.cx());
        script.discard_output();
    }
    assert_eq!(script.tcp.connections(), 0);
    assert!(script.context.now < Instant::ZERO + Duration::from_secs(400));
    let answer = script.peer(Flags::SYN, 0, 0, b"");
    assert_eq!(answer.len(), 1);
    assert_eq!(script.state(), Some(State::SynReceived));
}

#[test]
fn a_long_segment_that_brings_a_cookie_back_is_read_whole() {
    let mut script = flooded_listener(PLAIN);
    script.options = Options { mss: Some(1000), ..Options::default() };
    let answer = script.peer(Flags::SYN, 0, 0, b"");
    script.iss = answer[0].header.seq;
    script.options = Options::default();
    script.may_keep = true;
    let data = pattern(20_000);
    script.peer(Flags::ACK, 1, 1, &data);
    assert!(script.tcp.received(script.id.unwrap()).unwrap() == data);
}

#[test]
fn a_cookie_never_negotiates_ecn() {
    let mut script = flooded_listener(Profile { ecn: true, ..PLAIN });
    let answer = script.peer(Flags::SYN, 0, 0, b"");
    script.iss = answer[0].header.seq;
    script.peer(Flags::ACK.with(Flags::ECE), 1, 1, b"");
    assert!(!script.status().has_ecn);
}
