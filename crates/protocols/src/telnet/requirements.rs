//! Tests of requirements of RFC 1123 §3 that no other test covers. Each other requirement is named
//! next to a test that covers it.

use super::command::{SB, SE};
use super::tests::{End, command, data, disabled_event, enabled_event};
use super::*;
use alloc::string::String;
use std::vec;

// req RFC1123:3.2.1-MUST-4
#[test]
fn an_end_that_has_agreed_to_nothing_is_a_network_virtual_terminal() {
    let mut user = End::user();
    let mut server = End::server();
    assert!(
        user.telnet
            .options()
            .chain(server.telnet.options())
            .all(|row| { row.us == OptionState::No && row.him == OptionState::No })
    );
    user.send(b"who\r");
    assert_eq!(user.output(), b"who\r\n");
    assert_eq!(server.receive(b"who\r\n"), [data(b"who\r\n")]);
}

// req RFC1123:3.2.2-MUST-1
#[test]
fn a_server_offers_to_suppress_go_aheads() {
    let mut server = End::server();
    server.telnet.start(&mut server.context.cx());
    let offer = [IAC, 251, 3];
    assert!(server.output().windows(3).any(|output| output == offer));
}

// req RFC1123:3.2.2-MUST-2, RFC1123:3.3.3-MUST-1
#[test]
fn both_ends_agree_to_binary_and_to_suppress_go_aheads() {
    for mut end in [End::user(), End::server()] {
        end.receive(&[IAC, 253, 0, IAC, 251, 0, IAC, 253, 3, IAC, 251, 3]);
        assert_eq!(end.output(), [IAC, 251, 0, IAC, 253, 0, IAC, 251, 3, IAC, 253, 3]);
    }
}

// req RFC1123:3.2.7-MUST-2
#[test]
fn commands_are_processed_in_binary() {
    let mut end = End::in_binary();
    let events = end.receive(b"a\xff\xf6b\xff\xfc\x00c");
    let expected = [
        data(b"a"),
        command(Command::AreYouThere),
        data(b"b"),
        disabled_event(Side::Remote, OptionCode::BINARY),
        data(b"c"),
    ];
    assert_eq!(events, expected);
}

// req RFC1123:3.2.8-MUST-2
#[test]
fn a_server_accepts_any_terminal_name() {
    for name in [&b"IBM-3278-2"[..], b"xterm-256color", b"!@#$%^&*()", &[b'x'; 40]] {
        let mut server = End::server();
        server.receive(&[IAC, 251, 24]);
        let events = server.receive(&[&[IAC, SB, 24, 0], name, &[IAC, SE]].concat());
        let name = String::from_utf8(name.to_vec()).unwrap();
        assert_eq!(events, [tests::OwnedEvent::Other(Event::TerminalType(name))]);
    }
}

// req RFC1123:3.3.1-MUST-1, RFC1123:3.3.1-MUST-2
#[test]
fn a_server_decodes_both_line_ends_as_the_return_key() {
    let settings = ServerSettings { newline_to_cr: true, ..ServerSettings::default() };
    let events = [&[&b"a\r\nb\r\0c"[..]][..], &[b"a\r", b"\nb\r", b"\0c"]].map(|pieces| {
        let mut server = End::server_with(&settings);
        let mut events = vec![];
        pieces.iter().for_each(|piece| server.receive_more(piece, &mut events));
        events
    });
    assert_eq!(events, [[data(b"a\rb\rc")], [data(b"a\rb\rc")]]);
}

// req RFC1123:3.2.2-MUST-2
#[test]
fn go_aheads_are_received_until_their_suppression_is_agreed() {
    let mut user = End::user();
    assert_eq!(user.receive(b"\xff\xf9"), [command(Command::GoAhead)]);
    user.receive(&[IAC, 251, 3]);
    assert_eq!(user.receive(b"\xff\xf9"), []);
}

#[test]
fn a_server_without_suppressed_go_aheads_sends_one_when_it_waits_for_input() {
    let mut server = End::server();
    assert!(server.telnet.go_ahead(&mut server.context.cx()));
    assert_eq!(server.output(), b"\xff\xf9");
    assert_eq!(
        server.receive(&[IAC, 253, 3]),
        [enabled_event(Side::Local, OptionCode::SUPPRESS_GO_AHEAD)]
    );
    server.output();
    assert!(!server.telnet.go_ahead(&mut server.context.cx()));
    assert_eq!(server.output(), b"");
}
