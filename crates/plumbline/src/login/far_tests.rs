//! Tests of Telnet extensions beside data (TLS, compression, a serial line) and of plain TCP.

use super::super::near::Near;
use super::*;
use crate::carry::{Bench, Session};
use protocols::application::Stream;
use protocols::application::telnet::Compressor;

const START_TLS_FOLLOWS: &[u8] = &[255, 250, 46, 1, 255, 240];

/// A login and its engine context; no terminal, and nothing is written.
struct Desk {
    login: Login,
    bench: Bench,
}

impl Desk {
    fn new(settings: Settings) -> Self {
        let mut bench = Bench::new(true).unwrap();
        let mut login = Login::new(settings, Near::new(false).unwrap(), "the test".to_owned());
        login.window = (80, 24);
        login.begin(&mut bench.cx());
        Self { login, bench }
    }

    fn person(protocol: Protocol) -> Self {
        Self::new(Settings { protocol, is_interactive: true, ..Settings::default() })
    }

    fn hears(&mut self, data: &[u8]) {
        self.login.receive(data, &mut self.bench.cx());
    }

    fn sent(&mut self) -> Vec<u8> {
        let mut sent = Vec::new();
        while !self.login.output().is_empty() {
            sent.extend_from_slice(self.login.output());
            self.login.sent(self.login.output().len());
        }
        sent
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.login.screen.waiting()).into_owned()
    }
}

fn secured() -> Secured {
    Secured {
        protocol: "TLS 1.3".to_owned(),
        fingerprint: "aa:bb".to_owned(),
        trusted_by: TrustedBy::Pin,
    }
}

#[test]
fn tls_begins_when_both_have_said_that_it_follows_and_telnet_begins_anew_within() {
    let mut desk = Desk::new(Settings { starts_negotiation: true, ..Settings::default() });
    assert!(desk.sent().starts_with(b"\xff\xfb\x2e"));
    desk.hears(b"\xff\xfb\x01\xff\xfd\x2e");
    assert!(desk.sent().ends_with(START_TLS_FOLLOWS));
    assert!(!desk.login.starts_tls());
    desk.hears(&[START_TLS_FOLLOWS, b"\xff\xfb\x03injected"].concat());
    assert!(desk.login.starts_tls() && !desk.login.starts_tls());
    assert_eq!(desk.shown(), "");
    assert!(desk.login.telnet.is_enabled(Side::Him, OptionCode::ECHO));
    desk.login.secured(secured(), &mut desk.bench.cx());
    assert!(!desk.login.telnet.is_enabled(Side::Him, OptionCode::ECHO));
    let anew = desk.sent();
    assert!(!anew.is_empty() && !anew.windows(3).any(|said| said == b"\xff\xfb\x2e"));
}

#[test]
fn where_tls_is_demanded_a_server_that_refuses_it_is_left_and_nothing_is_typed_before() {
    let settings =
        Settings { tls: TlsUse::Always, starts_negotiation: true, ..Settings::default() };
    let mut desk = Desk::new(Settings { is_interactive: true, ..settings });
    assert!(!desk.login.wants_input(desk.login.near.keyboard()));
    desk.hears(b"\xff\xfe\x2e");
    assert!(desk.login.is_over());
    assert!(desk.login.refusal.is_some_and(|why| why.contains("does not support START_TLS")));
}

#[test]
fn where_tls_is_demanded_a_server_that_says_nothing_about_it_is_left_in_the_end() {
    let settings =
        Settings { tls: TlsUse::Always, starts_negotiation: true, ..Settings::default() };
    let mut desk = Desk::new(settings);
    let until = desk.login.deadline().unwrap();
    let mut cx = desk.bench.cx();
    cx.now = until;
    desk.login.run(&mut cx);
    assert!(desk.login.refusal.is_some_and(|why| why.contains("does not offer START_TLS")));
}

#[test]
fn compressed_text_is_shown_plain_wherever_it_is_cut() {
    let mut wire = b"\xff\xfb\x56plain \xff\xfa\x56\xff\xf0".to_vec();
    let mut compressor = Compressor::default();
    compressor.compress(b"small \xff\xfb\x01text", &mut wire);
    compressor.finish(&mut wire);
    wire.extend_from_slice(b" again");
    for piece in [1, 2, 7, wire.len()] {
        let mut desk = Desk::person(Protocol::Telnet);
        wire.chunks(piece).for_each(|piece| desk.hears(piece));
        assert_eq!(desk.shown(), "plain small text again", "in pieces of {piece}");
        assert!(desk.login.telnet.is_enabled(Side::Him, OptionCode::ECHO));
    }
}

#[test]
fn compressed_text_that_is_broken_ends_the_session() {
    let mut desk = Desk::person(Protocol::Telnet);
    desk.hears(b"\xff\xfb\x56\xff\xfa\x56\xff\xf0not compressed");
    assert!(desk.login.is_over() && desk.login.refusal.is_some());
}

#[test]
fn a_line_behind_a_console_server_is_set_up_and_gets_its_break() {
    let mut desk = Desk::person(Protocol::ComPort(LineSettings::at(1200)));
    assert_eq!(desk.sent(), b"\xff\xfb\0\xff\xfd\0");
    desk.hears(b"\xff\xfd\0\xff\xfd\x2c");
    let sent = desk.sent();
    let says = |said: &[u8]| sent.windows(said.len()).any(|part| part == said);
    assert!(says(b"\xff\xfa\x2c\x01\0\0\x04\xb0\xff\xf0"));
    assert!(says(b"\xff\xfa\x2c\x03\x01\xff\xf0") && says(b"\xff\xfa\x2c\x05\x01\xff\xf0"));
    assert!(desk.login.command(Command::Break, &mut desk.bench.cx()));
    assert_eq!(desk.sent(), b"\xff\xfa\x2c\x05\x05\xff\xf0");
    let until = desk.login.deadline().unwrap();
    let mut cx = desk.bench.cx();
    cx.now = until;
    desk.login.run(&mut cx);
    assert_eq!(desk.sent(), b"\xff\xfa\x2c\x05\x06\xff\xf0");
    assert_eq!(desk.login.deadline(), None);
}

#[test]
fn keys_for_a_console_wait_until_binary_is_agreed_and_an_enter_has_no_nul() {
    let mut desk = Desk::person(Protocol::ComPort(LineSettings::at(1200)));
    desk.sent();
    desk.login.typed(b"ls\r", &mut desk.bench.cx());
    desk.login.run(&mut desk.bench.cx());
    assert!(desk.login.output().is_empty() && !desk.login.wants_to_run());
    desk.hears(b"\xff\xfd\0");
    assert!(desk.login.wants_to_run());
    desk.login.run(&mut desk.bench.cx());
    desk.login.typed(b"x\r", &mut desk.bench.cx());
    assert_eq!(desk.sent(), b"ls\rx\r");
}

#[test]
fn keys_for_a_console_that_refuses_binary_go_as_those_of_a_network_terminal() {
    let mut desk = Desk::person(Protocol::ComPort(LineSettings::at(1200)));
    desk.sent();
    desk.login.typed(b"\r", &mut desk.bench.cx());
    desk.hears(b"\xff\xfe\0");
    desk.login.run(&mut desk.bench.cx());
    assert_eq!(desk.sent(), b"\r\0");
}

#[test]
fn keys_for_a_console_that_says_nothing_of_binary_wait_a_second() {
    let mut desk = Desk::person(Protocol::ComPort(LineSettings::at(1200)));
    desk.sent();
    desk.login.typed(b"\r", &mut desk.bench.cx());
    let until = desk.login.deadline().unwrap();
    assert!(until - desk.bench.clock.now() <= Duration::from_secs(1));
    let mut cx = desk.bench.cx();
    cx.now = until;
    desk.login.run(&mut cx);
    assert_eq!(desk.sent(), b"\r\0");
}

#[test]
fn a_server_without_com_port_is_told_from_one_with_it() {
    let mut desk = Desk::new(Settings {
        protocol: Protocol::ComPort(LineSettings::at(1200)),
        starts_negotiation: true,
        ..Settings::default()
    });
    desk.sent();
    desk.hears(b"\xff\xfe\x2c");
    assert!(desk.login.refusal.is_some_and(|why| why.contains("does not support RFC 2217")));
}

#[test]
fn on_a_line_here_a_break_is_the_carriers_and_bytes_are_bytes() {
    let mut desk = Desk::person(Protocol::Line);
    assert!(desk.login.command(Command::Break, &mut desk.bench.cx()));
    assert!(desk.login.takes_break() && !desk.login.takes_break());
    desk.login.typed(b"a\xff\r", &mut desk.bench.cx());
    assert_eq!(desk.sent(), b"a\xff\r");
    desk.hears(b"\xff\xfb\x01b\n");
    assert!(desk.login.screen.waiting() == b"\xff\xfb\x01b\n");
    assert!(!desk.login.command(Command::AreYouThere, &mut desk.bench.cx()));
}

#[test]
fn over_tcp_alone_lines_are_edited_here_and_those_that_come_begin_at_the_left() {
    let mut desk = Desk::person(Protocol::Tcp);
    desk.login.typed(b"GEX\x7fT\r", &mut desk.bench.cx());
    assert_eq!(desk.sent(), b"GET\r\n");
    let mut desk = Desk::person(Protocol::Tcp);
    desk.hears(b"one\ntwo\r");
    desk.hears(b"\nthree");
    assert_eq!(desk.shown(), "one\r\ntwo\r\nthree");
}

#[test]
fn a_login_that_is_made_anew_has_agreed_to_nothing() {
    let mut desk = Desk::person(Protocol::Telnet);
    desk.hears(b"\xff\xfb\x01");
    assert!(desk.login.telnet.is_enabled(Side::Him, OptionCode::ECHO));
    let login = desk.login.renewed();
    assert!(!login.telnet.is_enabled(Side::Him, OptionCode::ECHO) && !login.is_over());
}

/// Returns the output of a MUD: the start of compression in plaintext, compressed data, then
/// plaintext again.
fn words_of_a_mud() -> Vec<u8> {
    let mut words = b"Welcome.\r\n\xff\xfb\x56\xff\xfa\x56\xff\xf0".to_vec();
    let mut compressor = Compressor::default();
    compressor.compress(b"A maze of \xff\xfb\x01twisty\xff\xff ", &mut words);
    compressor.compress(b"little passages,\r\n", &mut words);
    compressor.finish(&mut words);
    words.extend_from_slice(b"all \xff\xf9alike.");
    words
}

#[test]
fn a_compressed_session_shows_the_same_wherever_it_is_cut() {
    let words = words_of_a_mud();
    for cut in 0..=words.len() {
        let mut desk = Desk::new(Settings { starts_negotiation: true, ..Settings::default() });
        desk.hears(&words[..cut]);
        desk.hears(&words[cut..]);
        let sent = desk.sent();
        // DO COMPRESS2, DO ECHO: the option inside the compressed data was processed.
        for answer in [b"\xff\xfd\x56", b"\xff\xfd\x01"] {
            assert!(sent.windows(3).any(|said| said == answer), "cut at {cut}: {sent:?}");
        }
        let shown = desk.shown();
        let expected = "Welcome.\r\nA maze of twisty\u{fffd} little passages,\r\nall alike.";
        assert_eq!(shown, expected, "cut at {cut}");
    }
}

#[test]
fn a_compressed_session_shows_the_same_byte_by_byte() {
    let mut desk = Desk::new(Settings { starts_negotiation: true, ..Settings::default() });
    words_of_a_mud().chunks(1).for_each(|byte| desk.hears(byte));
    assert!(desk.shown().ends_with("little passages,\r\nall alike."));
}

#[test]
fn commands_that_interrupt_are_urgent_and_followed_by_a_data_mark() {
    for (command, code) in [
        (Command::InterruptProcess, 0xf4),
        (Command::AbortOutput, 0xf5),
        (Command::Abort, 0xee),
        (Command::Break, 0xf3),
    ] {
        let mut desk = Desk::new(Settings { is_interactive: true, ..Settings::default() });
        assert!(desk.login.command(command, &mut desk.bench.cx()));
        assert_eq!(desk.login.urgent_mark(), Some(4), "{command:?}");
        assert_eq!(desk.sent(), [0xff, code, 0xff, 0xf2]);
    }
    let mut desk = Desk::new(Settings { is_interactive: true, ..Settings::default() });
    assert!(desk.login.command(Command::AreYouThere, &mut desk.bench.cx()));
    assert_eq!(desk.login.urgent_mark(), None);
}

#[test]
fn compression_is_agreed_to_unless_the_user_refuses_it() {
    const WILL_COMPRESS2: &[u8] = &[255, 251, 86];
    for (refuses_compression, answer) in [(false, [255, 253, 86]), (true, [255, 254, 86])] {
        let mut desk = Desk::new(Settings { refuses_compression, ..Settings::default() });
        desk.hears(WILL_COMPRESS2);
        assert_eq!(desk.sent(), answer);
    }
}
