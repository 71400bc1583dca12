//! Tests of local line editing for a server, which runs plumbline's own Telnet engine.

use super::super::near::Near;
use super::super::settings::Settings;
use super::*;
use crate::carry::Bench;
use protocols::application::Stream;
use protocols::application::telnet::{
    Event, LinemodeEvent, OptionSet, ServerSettings, SpecialCharacter, Telnet,
};

/// A client and a server that requests local line editing.
struct Desk {
    login: Login,
    bench: Bench,
    server: Telnet,
    /// Data received by the server, with command names in brackets.
    heard: String,
}

impl Desk {
    fn new(mode: LinemodeMode) -> Self {
        let mut bench = Bench::new(true).unwrap();
        let settings = Settings { is_interactive: true, ..Settings::default() };
        let mut login = Login::new(settings, Near::new(false).unwrap(), "the test".to_owned());
        login.window = (80, 24);
        login.begin(&mut bench.cx());
        let allows = OptionSet::of(&[OptionCode::LINEMODE, OptionCode::ECHO]);
        let server = Telnet::server(&ServerSettings { allows, ..ServerSettings::default() });
        let mut desk = Self { login, bench, server, heard: String::new() };
        desk.server.ask(Side::Him, OptionCode::LINEMODE, true, &mut desk.bench.cx()).unwrap();
        desk.settles();
        assert!(desk.server.ask_linemode(mode, &mut desk.bench.cx()).is_ok());
        desk.settles();
        desk
    }

    fn editing() -> Self {
        Self::new(LinemodeMode::EDIT.with(LinemodeMode::TRAP_SIGNALS))
    }

    /// Transfers data in both directions until both sides are idle.
    fn settles(&mut self) {
        while !self.login.output().is_empty() || !self.server.output().is_empty() {
            let said = self.login.output().to_vec();
            self.login.sent(said.len());
            let mut said = said.as_slice();
            while let Some(event) = self.server.receive(&mut said, &mut self.bench.cx()) {
                match event {
                    Event::Data(run) => self.heard.push_str(&String::from_utf8_lossy(run)),
                    Event::Command(command) => self.heard.push_str(&format!("[{command}]")),
                    Event::Linemode(LinemodeEvent::ForwardMaskRefused) => panic!("refused"),
                    _ => {}
                }
            }
            let answer = self.server.output().to_vec();
            self.server.sent(answer.len());
            self.login.receive(&answer, &mut self.bench.cx());
        }
    }

    fn types(&mut self, keys: &[u8]) {
        self.login.typed(keys, &mut self.bench.cx());
        self.settles();
    }

    fn says(&mut self, text: &[u8]) {
        self.server.send(text, &mut self.bench.cx());
        self.settles();
    }

    fn heard(&mut self) -> String {
        std::mem::take(&mut self.heard)
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.login.screen.waiting()).into_owned()
    }
}

#[test]
fn a_line_is_edited_by_the_agreed_characters_and_sent_whole() {
    let mut desk = Desk::editing();
    let erase = SpecialCharacter::variable(b'#');
    desk.server.set_special_character(SlcFunction::EC, erase, &mut desk.bench.cx()).unwrap();
    desk.settles();
    desk.types(b"wrong\x15lx#s one two\x17");
    assert_eq!(desk.heard(), "");
    desk.types(b"\x16#\r");
    assert_eq!(desk.heard(), "ls one #\r\n");
    assert!(desk.shown().ends_with("\x08 \x08#\r\n"), "{:?}", desk.shown());
}

#[test]
fn a_line_that_goes_as_binary_ends_by_one_character() {
    let mut desk = Desk::editing();
    let allowed = [OptionCode::LINEMODE, OptionCode::ECHO, OptionCode::BINARY];
    let allows = OptionSet::of(&allowed);
    desk.server = Telnet::server(&ServerSettings { allows, ..ServerSettings::default() });
    desk.server.ask(Side::Him, OptionCode::BINARY, true, &mut desk.bench.cx()).unwrap();
    desk.settles();
    desk.types(b"ls\r");
    assert_eq!(desk.heard(), "ls\n");
}

#[test]
fn a_line_is_shown_again_on_request() {
    let mut desk = Desk::editing();
    desk.types(b"ab\x12");
    assert_eq!(desk.shown(), "ab^R\r\nab");
}

#[test]
fn signals_are_commands_and_an_interrupt_throws_the_line_away_with_a_synch() {
    let mut desk = Desk::editing();
    desk.types(b"half\x03");
    assert_eq!(desk.heard(), "[IP][DM]");
    assert!(desk.shown().ends_with("half^C"));
    desk.types(b"\x1c\x1a");
    assert_eq!(desk.heard(), "[ABORT][DM][SUSP]");
    desk.types(b"whole\r");
    assert_eq!(desk.heard(), "whole\r\n");
}

#[test]
fn output_is_dropped_from_an_interrupt_until_the_server_has_read_it() {
    let mut desk = Desk::editing();
    desk.login.typed(b"\x03", &mut desk.bench.cx());
    desk.login.receive(b"old", &mut desk.bench.cx());
    desk.settles();
    desk.says(b"new");
    assert_eq!(desk.shown(), "^Cnew");
}

#[test]
fn output_is_shown_again_after_a_while_though_the_server_says_nothing() {
    let mut desk = Desk::editing();
    desk.login.typed(b"\x03", &mut desk.bench.cx());
    let mut cx = desk.bench.cx();
    desk.login.receive(b"old", &mut cx);
    cx.now = cx.now + FLUSH;
    desk.login.receive(b"new", &mut cx);
    assert_eq!(desk.shown(), "^Cnew");
}

#[test]
fn the_end_of_a_file_sends_what_is_typed_and_alone_is_a_command() {
    let mut desk = Desk::editing();
    desk.types(b"name\x04");
    assert_eq!(desk.heard(), "name");
    desk.types(b"\x04");
    assert_eq!(desk.heard(), "[EOF]");
}

#[test]
fn a_line_goes_out_at_the_characters_of_the_forward_mask_with_them() {
    let mut desk = Desk::editing();
    let mut mask = [0; 32];
    mask[usize::from(b'\t' / 8)] = 0x80 >> (b'\t' % 8);
    desk.server.ask_forward_mask(&mask, &mut desk.bench.cx()).unwrap();
    desk.settles();
    desk.types(b"ca\x16\tx");
    assert_eq!(desk.heard(), "");
    desk.types(b"\t");
    assert_eq!(desk.heard(), "ca\tx\t");
}

#[test]
fn signals_are_commands_where_nothing_is_edited_too() {
    let mut desk = Desk::new(LinemodeMode::TRAP_SIGNALS);
    desk.types(b"ab\x03c");
    assert_eq!(desk.heard(), "ab[IP][DM]c");
}

#[test]
fn without_trapped_signals_a_control_character_is_a_part_of_the_line() {
    let mut desk = Desk::new(LinemodeMode::EDIT);
    desk.types(b"a\x03");
    assert_eq!((desk.heard(), desk.shown().ends_with("a^C")), (String::new(), true));
    desk.types(b"\r");
    assert_eq!(desk.heard(), "a\x03\r\n");
}

#[test]
fn control_characters_and_tabs_are_shown_as_the_server_wants() {
    let literal = LinemodeMode::EDIT.with(LinemodeMode::LITERAL_ECHO);
    let mut desk = Desk::new(literal.with(LinemodeMode::SOFT_TAB));
    desk.says(b"\r$ ");
    desk.types(b"a\x01\tb");
    assert_eq!(desk.shown(), "\r\0$ a\x01     b".replace('\0', ""));
    let mut desk = Desk::new(LinemodeMode::EDIT);
    desk.says(b"\r$ ");
    desk.types(b"a\x01\tb");
    assert_eq!(desk.shown(), "\r$ a^A\tb");
}

#[test]
fn a_server_that_echoes_a_password_has_it_edited_and_not_shown() {
    let mut desk = Desk::editing();
    desk.server.ask(Side::Us, OptionCode::ECHO, true, &mut desk.bench.cx()).unwrap();
    desk.settles();
    desk.types(b"secrex\x7ft\r");
    assert_eq!((desk.heard(), desk.shown()), ("secret\r\n".to_owned(), String::new()));
}

#[test]
fn what_is_typed_of_a_line_goes_out_when_the_server_ends_the_editing() {
    let mut desk = Desk::editing();
    desk.types(b"vi");
    desk.server.ask_linemode(LinemodeMode::NONE, &mut desk.bench.cx()).unwrap();
    desk.settles();
    assert_eq!(desk.heard(), "vi");
    desk.types(b"\r");
    assert_eq!(desk.heard(), "\r");
}

#[test]
fn the_screen_stops_and_goes_on_at_the_agreed_characters() {
    let mut desk = Desk::editing();
    desk.types(b"\x13");
    desk.says(b"later");
    assert_eq!(desk.shown(), "");
    desk.types(b"\x11");
    assert_eq!((desk.heard(), desk.shown()), (String::new(), "later".to_owned()));
}

#[test]
fn a_pipe_and_a_person_who_has_chosen_a_mode_edit_for_nobody() {
    for (is_interactive, mode) in [
        (false, super::super::settings::Mode::Automatic),
        (true, super::super::settings::Mode::Line),
    ] {
        let mut bench = Bench::new(true).unwrap();
        let settings = Settings { is_interactive, mode, ..Settings::default() };
        let mut login = Login::new(settings, Near::new(false).unwrap(), "the test".to_owned());
        login.begin(&mut bench.cx());
        login.sent(login.output().len());
        login.receive(b"\xff\xfd\x22", &mut bench.cx());
        assert_eq!(login.output(), b"\xff\xfc\x22");
    }
}
