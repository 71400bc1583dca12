//! Tests of TLS, compression and a remote serial line in a Telnet session, and of plain TCP.

use super::super::session_settings::{LoginProtocol, LoginSettings, TlsUse};
use super::super::terminal_input::LocalTerminal;
use super::*;
use carrier::{EngineContext, StreamSession};
use net::application::Stream;
use net::time::Duration;
use os::serial::LineSettings;
use protocols::telnet::{Command, Compressor};

const START_TLS_FOLLOWS: &[u8] = &[255, 250, 46, 1, 255, 240];

/// A login without a terminal, and its engine context. Output is queued and never written.
struct Fixture {
    login: Login,
    context: EngineContext,
}

impl Fixture {
    fn new(settings: LoginSettings) -> Self {
        let mut context = EngineContext::new(true).unwrap();
        let mut login =
            Login::new(settings, LocalTerminal::new(false).unwrap(), "the test".to_owned());
        login.display.set_window((80, 24));
        login.begin(&mut context.cx());
        Self { login, context }
    }

    fn interactive(protocol: LoginProtocol) -> Self {
        Self::new(LoginSettings { protocol, is_interactive: true, ..LoginSettings::default() })
    }

    fn receives(&mut self, data: &[u8]) {
        self.login.receive(data, &mut self.context.cx());
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
        String::from_utf8_lossy(&self.login.display.screen.queued_text()).into_owned()
    }
}

fn secured() -> TlsParameters {
    TlsParameters {
        protocol: "TLS 1.3".to_owned(),
        fingerprint: "aa:bb".to_owned(),
        trusted_by: TrustedBy::Pin,
    }
}

#[test]
fn tls_starts_after_both_sides_sent_follows_and_telnet_restarts_inside_tls() {
    let mut fixture =
        Fixture::new(LoginSettings { starts_negotiation: true, ..LoginSettings::default() });
    assert!(fixture.sent().starts_with(b"\xff\xfb\x2e"));
    fixture.receives(b"\xff\xfb\x01\xff\xfd\x2e");
    assert!(fixture.sent().ends_with(START_TLS_FOLLOWS));
    assert!(!fixture.login.starts_tls());
    fixture.receives(&[START_TLS_FOLLOWS, b"\xff\xfb\x03injected"].concat());
    assert!(fixture.login.starts_tls() && !fixture.login.starts_tls());
    assert_eq!(fixture.shown(), "");
    assert!(fixture.login.protocol.is_enabled(Side::Remote, OptionCode::ECHO));
    fixture.login.tls_established(secured(), &mut fixture.context.cx());
    assert!(!fixture.login.protocol.is_enabled(Side::Remote, OptionCode::ECHO));
    let renegotiation = fixture.sent();
    assert!(
        !renegotiation.is_empty()
            && !renegotiation.windows(3).any(|bytes| bytes == b"\xff\xfb\x2e")
    );
}

#[test]
fn required_tls_blocks_input_and_ends_the_session_if_the_server_refuses_tls() {
    let settings =
        LoginSettings { tls: TlsUse::Always, starts_negotiation: true, ..LoginSettings::default() };
    let mut fixture = Fixture::new(LoginSettings { is_interactive: true, ..settings });
    assert!(!fixture.login.wants_input(fixture.login.input.keyboard.index()));
    fixture.receives(b"\xff\xfe\x2e");
    assert!(fixture.login.is_over());
    assert!(fixture.login.refusal.is_some_and(|why| why.contains("does not support START_TLS")));
}

#[test]
fn required_tls_ends_the_session_after_a_timeout_without_an_answer() {
    let settings =
        LoginSettings { tls: TlsUse::Always, starts_negotiation: true, ..LoginSettings::default() };
    let mut fixture = Fixture::new(settings);
    let until = fixture.login.deadline().unwrap();
    let mut cx = fixture.context.cx();
    cx.now = until;
    fixture.login.run(&mut cx);
    assert!(fixture.login.refusal.is_some_and(|why| why.contains("does not offer START_TLS")));
}

#[test]
fn compressed_text_is_displayed_in_any_split() {
    let mut wire = b"\xff\xfb\x56plain \xff\xfa\x56\xff\xf0".to_vec();
    let mut compressor = Compressor::default();
    compressor.compress(b"small \xff\xfb\x01text", &mut wire);
    compressor.finish(&mut wire);
    wire.extend_from_slice(b" again");
    for piece in [1, 2, 7, wire.len()] {
        let mut fixture = Fixture::interactive(LoginProtocol::Telnet);
        wire.chunks(piece).for_each(|piece| fixture.receives(piece));
        assert_eq!(fixture.shown(), "plain small text again", "in pieces of {piece}");
        assert!(fixture.login.protocol.is_enabled(Side::Remote, OptionCode::ECHO));
    }
}

#[test]
fn invalid_compressed_data_ends_the_session() {
    let mut fixture = Fixture::interactive(LoginProtocol::Telnet);
    fixture.receives(b"\xff\xfb\x56\xff\xfa\x56\xff\xf0not compressed");
    assert!(fixture.login.is_over() && fixture.login.refusal.is_some());
}

#[test]
fn a_line_of_a_console_server_is_configured_and_receives_a_break() {
    let mut fixture = Fixture::interactive(LoginProtocol::ComPort(LineSettings::at(1200)));
    assert_eq!(fixture.sent(), b"\xff\xfb\0\xff\xfd\0");
    fixture.receives(b"\xff\xfd\0\xff\xfd\x2c");
    let sent = fixture.sent();
    let contains = |bytes: &[u8]| sent.windows(bytes.len()).any(|part| part == bytes);
    assert!(contains(b"\xff\xfa\x2c\x01\0\0\x04\xb0\xff\xf0"));
    assert!(contains(b"\xff\xfa\x2c\x03\x01\xff\xf0") && contains(b"\xff\xfa\x2c\x05\x01\xff\xf0"));
    assert!(fixture.login.protocol.queue_command(Command::Break, &mut fixture.context.cx()));
    assert_eq!(fixture.sent(), b"\xff\xfa\x2c\x05\x05\xff\xf0");
    let until = fixture.login.deadline().unwrap();
    let mut cx = fixture.context.cx();
    cx.now = until;
    fixture.login.run(&mut cx);
    assert_eq!(fixture.sent(), b"\xff\xfa\x2c\x05\x06\xff\xf0");
    assert_eq!(fixture.login.deadline(), None);
}

#[test]
fn keys_for_a_console_wait_for_binary_and_enter_is_sent_without_nul() {
    let mut fixture = Fixture::interactive(LoginProtocol::ComPort(LineSettings::at(1200)));
    fixture.sent();
    fixture.login.process_typed_keys(b"ls\r", &mut fixture.context.cx());
    fixture.login.run(&mut fixture.context.cx());
    assert!(fixture.login.output().is_empty() && !fixture.login.wants_to_run());
    fixture.receives(b"\xff\xfd\0");
    assert!(fixture.login.wants_to_run());
    fixture.login.run(&mut fixture.context.cx());
    fixture.login.process_typed_keys(b"x\r", &mut fixture.context.cx());
    assert_eq!(fixture.sent(), b"ls\rx\r");
}

#[test]
fn keys_for_a_console_without_binary_are_encoded_as_nvt_text() {
    let mut fixture = Fixture::interactive(LoginProtocol::ComPort(LineSettings::at(1200)));
    fixture.sent();
    fixture.login.process_typed_keys(b"\r", &mut fixture.context.cx());
    fixture.receives(b"\xff\xfe\0");
    fixture.login.run(&mut fixture.context.cx());
    assert_eq!(fixture.sent(), b"\r\0");
}

#[test]
fn keys_for_a_console_wait_one_second_for_an_answer_about_binary() {
    let mut fixture = Fixture::interactive(LoginProtocol::ComPort(LineSettings::at(1200)));
    fixture.sent();
    fixture.login.process_typed_keys(b"\r", &mut fixture.context.cx());
    let until = fixture.login.deadline().unwrap();
    assert!(until - fixture.context.clock.now() <= Duration::from_secs(1));
    let mut cx = fixture.context.cx();
    cx.now = until;
    fixture.login.run(&mut cx);
    assert_eq!(fixture.sent(), b"\r\0");
}

#[test]
fn a_server_without_com_port_ends_the_session() {
    let mut fixture = Fixture::new(LoginSettings {
        protocol: LoginProtocol::ComPort(LineSettings::at(1200)),
        starts_negotiation: true,
        ..LoginSettings::default()
    });
    fixture.sent();
    fixture.receives(b"\xff\xfe\x2c");
    assert!(fixture.login.refusal.is_some_and(|why| why.contains("does not support RFC 2217")));
}

#[test]
fn on_a_local_serial_line_the_carrier_sends_a_break_and_bytes_pass_unchanged() {
    let mut fixture = Fixture::interactive(LoginProtocol::Serial);
    assert!(fixture.login.protocol.queue_command(Command::Break, &mut fixture.context.cx()));
    assert!(fixture.login.take_break_request() && !fixture.login.take_break_request());
    fixture.login.process_typed_keys(b"a\xff\r", &mut fixture.context.cx());
    assert_eq!(fixture.sent(), b"a\xff\r");
    fixture.receives(b"\xff\xfb\x01b\n");
    assert!(fixture.login.display.screen.queued_text() == b"\xff\xfb\x01b\n");
    assert!(!fixture.login.protocol.queue_command(Command::AreYouThere, &mut fixture.context.cx()));
}

#[test]
fn over_plain_tcp_lines_are_edited_locally_and_received_lines_start_at_the_left() {
    let mut fixture = Fixture::interactive(LoginProtocol::Tcp);
    fixture.login.process_typed_keys(b"GEX\x7fT\r", &mut fixture.context.cx());
    assert_eq!(fixture.sent(), b"GET\r\n");
    let mut fixture = Fixture::interactive(LoginProtocol::Tcp);
    fixture.receives(b"one\ntwo\r");
    fixture.receives(b"\nthree");
    assert_eq!(fixture.shown(), "one\r\ntwo\r\nthree");
}

#[test]
fn over_plain_tcp_keys_are_sent_at_once_without_echo_after_a_prompt() {
    let mut fixture = Fixture::interactive(LoginProtocol::Tcp);
    fixture.receives(b"220 mail\r\n");
    fixture.login.process_typed_keys(b"HELO\r", &mut fixture.context.cx());
    assert_eq!(fixture.sent(), b"HELO\r\n");
    let mut fixture = Fixture::interactive(LoginProtocol::Tcp);
    fixture.receives(b"1) list\r\nYour choice: ");
    fixture.login.process_typed_keys(b"1\r", &mut fixture.context.cx());
    assert_eq!(fixture.sent(), b"1\r");
    assert_eq!(fixture.shown(), "1) list\r\nYour choice: ");
    // The mode remains, and a command changes it.
    fixture.receives(b"\r\n");
    fixture.login.process_typed_keys(b"2\x1dmode line\r", &mut fixture.context.cx());
    fixture.login.process_typed_keys(b"3", &mut fixture.context.cx());
    assert_eq!(fixture.sent(), b"2");
}

#[test]
fn a_login_reset_for_a_new_connection_has_no_negotiated_options() {
    let mut fixture = Fixture::interactive(LoginProtocol::Telnet);
    fixture.receives(b"\xff\xfb\x01");
    assert!(fixture.login.protocol.is_enabled(Side::Remote, OptionCode::ECHO));
    let login = fixture.login.for_reconnect();
    assert!(!login.protocol.is_enabled(Side::Remote, OptionCode::ECHO) && !login.is_over());
}

/// Returns the output of a MUD: the start of compression in plaintext, compressed data, then
/// plaintext again.
fn output_of_a_mud() -> Vec<u8> {
    let mut output = b"Welcome.\r\n\xff\xfb\x56\xff\xfa\x56\xff\xf0".to_vec();
    let mut compressor = Compressor::default();
    compressor.compress(b"A maze of \xff\xfb\x01twisty\xff\xff ", &mut output);
    compressor.compress(b"little passages,\r\n", &mut output);
    compressor.finish(&mut output);
    output.extend_from_slice(b"all \xff\xf9alike.");
    output
}

#[test]
fn any_split_of_a_compressed_session_displays_the_same_text() {
    let output = output_of_a_mud();
    for cut in 0..=output.len() {
        let mut fixture =
            Fixture::new(LoginSettings { starts_negotiation: true, ..LoginSettings::default() });
        fixture.receives(&output[..cut]);
        fixture.receives(&output[cut..]);
        let sent = fixture.sent();
        // DO COMPRESS2, DO ECHO: the option inside the compressed data was processed.
        for answer in [b"\xff\xfd\x56", b"\xff\xfd\x01"] {
            assert!(sent.windows(3).any(|bytes| bytes == answer), "cut at {cut}: {sent:?}");
        }
        let shown = fixture.shown();
        let expected = "Welcome.\r\nA maze of twisty\u{fffd} little passages,\r\nall alike.";
        assert_eq!(shown, expected, "cut at {cut}");
    }
}

#[test]
fn a_compressed_session_received_byte_by_byte_displays_the_same_text() {
    let mut fixture =
        Fixture::new(LoginSettings { starts_negotiation: true, ..LoginSettings::default() });
    output_of_a_mud().chunks(1).for_each(|byte| fixture.receives(byte));
    assert!(fixture.shown().ends_with("little passages,\r\nall alike."));
}

#[test]
fn commands_that_interrupt_are_urgent_and_followed_by_a_data_mark() {
    for (command, code) in [
        (Command::InterruptProcess, 0xf4),
        (Command::AbortOutput, 0xf5),
        (Command::Abort, 0xee),
        (Command::Break, 0xf3),
    ] {
        let mut fixture =
            Fixture::new(LoginSettings { is_interactive: true, ..LoginSettings::default() });
        assert!(fixture.login.protocol.queue_command(command, &mut fixture.context.cx()));
        assert_eq!(fixture.login.urgent_mark(), Some(4), "{command:?}");
        assert_eq!(fixture.sent(), [0xff, code, 0xff, 0xf2]);
    }
    let mut fixture =
        Fixture::new(LoginSettings { is_interactive: true, ..LoginSettings::default() });
    assert!(fixture.login.protocol.queue_command(Command::AreYouThere, &mut fixture.context.cx()));
    assert_eq!(fixture.login.urgent_mark(), None);
}

#[test]
fn compression_is_accepted_unless_the_user_refuses_it() {
    const WILL_COMPRESS2: &[u8] = &[255, 251, 86];
    for (refuses_compression, answer) in [(false, [255, 253, 86]), (true, [255, 254, 86])] {
        let mut fixture =
            Fixture::new(LoginSettings { refuses_compression, ..LoginSettings::default() });
        fixture.receives(WILL_COMPRESS2);
        assert_eq!(fixture.sent(), answer);
    }
}
