//! Tests of local line editing at the request of a server. The server is plumbline's own Telnet
//! engine.

use super::super::protocol::linemode_state::FLUSH_TIMEOUT;
use super::super::session_settings::LoginSettings;
use super::super::terminal_input::LocalTerminal;
use super::*;
use carrier::EngineContext;
use net::application::Stream;
use protocols::telnet::{
    Event, LinemodeEvent, LinemodeMode, OptionCode, OptionSet, ServerSettings, Side, SlcFunction,
    SpecialCharacter, Telnet,
};

/// A client and a server that requests local line editing.
struct Fixture {
    login: Login,
    context: EngineContext,
    server: Telnet,
    /// Data received by the server, with command names in brackets.
    received: String,
}

impl Fixture {
    fn new(mode: LinemodeMode) -> Self {
        let mut context = EngineContext::new(true).unwrap();
        let settings = LoginSettings { is_interactive: true, ..LoginSettings::default() };
        let mut login =
            Login::new(settings, LocalTerminal::new(false).unwrap(), "the test".to_owned());
        login.display.set_window((80, 24));
        login.begin(&mut context.cx());
        let allowed_options = OptionSet::of(&[OptionCode::LINEMODE, OptionCode::ECHO]);
        let server =
            Telnet::server(&ServerSettings { allowed_options, ..ServerSettings::default() });
        let mut fixture = Self { login, context, server, received: String::new() };
        fixture
            .server
            .ask(Side::Remote, OptionCode::LINEMODE, true, &mut fixture.context.cx())
            .unwrap();
        fixture.transfer_until_idle();
        assert!(fixture.server.ask_linemode(mode, &mut fixture.context.cx()).is_ok());
        fixture.transfer_until_idle();
        fixture
    }

    fn editing() -> Self {
        Self::new(LinemodeMode::EDIT.with(LinemodeMode::TRAP_SIGNALS))
    }

    /// Transfers data in both directions until both sides are idle.
    fn transfer_until_idle(&mut self) {
        while !self.login.output().is_empty() || !self.server.output().is_empty() {
            let output = self.login.output().to_vec();
            self.login.sent(output.len());
            let mut output = output.as_slice();
            while let Some(event) = self.server.receive(&mut output, &mut self.context.cx()) {
                match event {
                    Event::Data(run) => self.received.push_str(&String::from_utf8_lossy(run)),
                    Event::Command(command) => self.received.push_str(&format!("[{command}]")),
                    Event::Linemode(LinemodeEvent::ForwardMaskRefused) => panic!("refused"),
                    _ => {}
                }
            }
            let answer = self.server.output().to_vec();
            self.server.sent(answer.len());
            self.login.receive(&answer, &mut self.context.cx());
        }
    }

    fn types(&mut self, keys: &[u8]) {
        self.login.process_typed_keys(keys, &mut self.context.cx());
        self.transfer_until_idle();
    }

    fn server_sends(&mut self, text: &[u8]) {
        self.server.send(text, &mut self.context.cx());
        self.transfer_until_idle();
    }

    fn received(&mut self) -> String {
        std::mem::take(&mut self.received)
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.login.display.screen.queued_text()).into_owned()
    }
}

#[test]
fn a_line_is_edited_with_the_negotiated_characters_and_sent_when_complete() {
    let mut fixture = Fixture::editing();
    let erase = SpecialCharacter::variable(b'#');
    fixture
        .server
        .set_special_character(SlcFunction::EC, erase, &mut fixture.context.cx())
        .unwrap();
    fixture.transfer_until_idle();
    fixture.types(b"wrong\x15lx#s one two\x17");
    assert_eq!(fixture.received(), "");
    fixture.types(b"\x16#\r");
    assert_eq!(fixture.received(), "ls one #\r\n");
    assert!(fixture.shown().ends_with("\x08 \x08#\r\n"), "{:?}", fixture.shown());
}

#[test]
fn a_line_sent_in_binary_mode_ends_with_lf() {
    let mut fixture = Fixture::editing();
    let allowed = [OptionCode::LINEMODE, OptionCode::ECHO, OptionCode::BINARY];
    let allowed_options = OptionSet::of(&allowed);
    fixture.server =
        Telnet::server(&ServerSettings { allowed_options, ..ServerSettings::default() });
    fixture.server.ask(Side::Remote, OptionCode::BINARY, true, &mut fixture.context.cx()).unwrap();
    fixture.transfer_until_idle();
    fixture.types(b"ls\r");
    assert_eq!(fixture.received(), "ls\n");
}

#[test]
fn a_line_is_redisplayed_on_request() {
    let mut fixture = Fixture::editing();
    fixture.types(b"ab\x12");
    assert_eq!(fixture.shown(), "ab^R\r\nab");
}

#[test]
fn signals_are_sent_as_commands_and_an_interrupt_discards_the_line_with_a_synch() {
    let mut fixture = Fixture::editing();
    fixture.types(b"half\x03");
    assert_eq!(fixture.received(), "[IP][DM]");
    assert!(fixture.shown().ends_with("half^C"));
    fixture.types(b"\x1c\x1a");
    assert_eq!(fixture.received(), "[ABORT][DM][SUSP]");
    fixture.types(b"whole\r");
    assert_eq!(fixture.received(), "whole\r\n");
}

#[test]
fn output_is_dropped_until_the_server_has_read_an_interrupt() {
    let mut fixture = Fixture::editing();
    fixture.login.process_typed_keys(b"\x03", &mut fixture.context.cx());
    fixture.login.receive(b"old", &mut fixture.context.cx());
    fixture.transfer_until_idle();
    fixture.server_sends(b"new");
    assert_eq!(fixture.shown(), "^Cnew");
}

#[test]
fn output_is_displayed_again_after_a_timeout_without_an_answer() {
    let mut fixture = Fixture::editing();
    fixture.login.process_typed_keys(b"\x03", &mut fixture.context.cx());
    let mut cx = fixture.context.cx();
    fixture.login.receive(b"old", &mut cx);
    cx.now = cx.now + FLUSH_TIMEOUT;
    fixture.login.receive(b"new", &mut cx);
    assert_eq!(fixture.shown(), "^Cnew");
}

#[test]
fn eof_sends_a_partial_line_and_is_a_command_on_an_empty_line() {
    let mut fixture = Fixture::editing();
    fixture.types(b"name\x04");
    assert_eq!(fixture.received(), "name");
    fixture.types(b"\x04");
    assert_eq!(fixture.received(), "[EOF]");
}

#[test]
fn a_line_is_sent_with_each_character_of_the_forward_mask() {
    let mut fixture = Fixture::editing();
    let mut mask = [0; 32];
    mask[usize::from(b'\t' / 8)] = 0x80 >> (b'\t' % 8);
    fixture.server.ask_forward_mask(&mask, &mut fixture.context.cx()).unwrap();
    fixture.transfer_until_idle();
    fixture.types(b"ca\x16\tx");
    assert_eq!(fixture.received(), "");
    fixture.types(b"\t");
    assert_eq!(fixture.received(), "ca\tx\t");
}

#[test]
fn signals_are_sent_as_commands_without_editing_too() {
    let mut fixture = Fixture::new(LinemodeMode::TRAP_SIGNALS);
    fixture.types(b"ab\x03c");
    assert_eq!(fixture.received(), "ab[IP][DM]c");
}

#[test]
fn without_trapped_signals_a_control_character_is_a_part_of_the_line() {
    let mut fixture = Fixture::new(LinemodeMode::EDIT);
    fixture.types(b"a\x03");
    assert_eq!((fixture.received(), fixture.shown().ends_with("a^C")), (String::new(), true));
    fixture.types(b"\r");
    assert_eq!(fixture.received(), "a\x03\r\n");
}

#[test]
fn control_characters_and_tabs_are_displayed_as_the_server_requests() {
    let literal = LinemodeMode::EDIT.with(LinemodeMode::LITERAL_ECHO);
    let mut fixture = Fixture::new(literal.with(LinemodeMode::SOFT_TAB));
    fixture.server_sends(b"\r$ ");
    fixture.types(b"a\x01\tb");
    assert_eq!(fixture.shown(), "\r\0$ a\x01     b".replace('\0', ""));
    let mut fixture = Fixture::new(LinemodeMode::EDIT);
    fixture.server_sends(b"\r$ ");
    fixture.types(b"a\x01\tb");
    assert_eq!(fixture.shown(), "\r$ a^A\tb");
}

#[test]
fn a_password_that_the_server_echoes_is_edited_but_not_displayed() {
    let mut fixture = Fixture::editing();
    fixture.server.ask(Side::Local, OptionCode::ECHO, true, &mut fixture.context.cx()).unwrap();
    fixture.transfer_until_idle();
    fixture.types(b"secrex\x7ft\r");
    assert_eq!((fixture.received(), fixture.shown()), ("secret\r\n".to_owned(), String::new()));
}

#[test]
fn a_partial_line_is_sent_when_the_server_ends_the_editing() {
    let mut fixture = Fixture::editing();
    fixture.types(b"vi");
    fixture.server.ask_linemode(LinemodeMode::NONE, &mut fixture.context.cx()).unwrap();
    fixture.transfer_until_idle();
    assert_eq!(fixture.received(), "vi");
    fixture.types(b"\r");
    assert_eq!(fixture.received(), "\r");
}

#[test]
fn output_stops_and_resumes_at_the_negotiated_characters() {
    let mut fixture = Fixture::editing();
    fixture.types(b"\x13");
    fixture.server_sends(b"later");
    assert_eq!(fixture.shown(), "");
    fixture.types(b"\x11");
    assert_eq!((fixture.received(), fixture.shown()), (String::new(), "later".to_owned()));
}

#[test]
fn linemode_is_refused_for_a_pipe_and_for_a_mode_set_by_the_user() {
    for (is_interactive, mode) in [
        (false, super::super::session_settings::Mode::Automatic),
        (true, super::super::session_settings::Mode::Line),
    ] {
        let mut context = EngineContext::new(true).unwrap();
        let settings = LoginSettings { is_interactive, mode, ..LoginSettings::default() };
        let mut login =
            Login::new(settings, LocalTerminal::new(false).unwrap(), "the test".to_owned());
        login.begin(&mut context.cx());
        login.sent(login.output().len());
        login.receive(b"\xff\xfd\x22", &mut context.cx());
        assert_eq!(login.output(), b"\xff\xfc\x22");
    }
}
