//! Tests of one login: keys, piped input and the output of the remote host.

use super::super::protocol::UNSENT_MAX_BYTES;
use super::super::screen::Screen;
use super::super::session_settings::{Escape, LineEnd, Predict, PromptStyle};
use super::*;
use carrier::EngineContext;
use proptest::prelude::*;
use protocols::telnet::EndOfLine;
use protocols::terminal::prediction::Mode as Showing;

const WILL_ECHO: &[u8] = &[255, 251, 1];

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

    fn interactive() -> Self {
        Self::new(LoginSettings { is_interactive: true, ..LoginSettings::default() })
    }

    fn pipe() -> Self {
        Self::new(LoginSettings::default())
    }

    fn types(&mut self, keys: &[u8]) {
        self.login.process_typed_keys(keys, &mut self.context.cx());
    }

    fn pipes(&mut self, data: &[u8]) {
        self.login.send_piped(data, &mut self.context.cx());
    }

    fn receives(&mut self, data: &[u8]) {
        self.login.receive(data, &mut self.context.cx());
    }

    /// Returns all pending output for the carrier.
    fn sent(&mut self) -> Vec<u8> {
        let mut sent = Vec::new();
        while !self.login.output().is_empty() {
            sent.extend_from_slice(self.login.output());
            self.login.sent(self.login.output().len());
            self.login.run(&mut self.context.cx());
        }
        sent
    }

    /// Returns the pending output for the screen and clears it.
    fn flushed(&mut self) -> String {
        self.login.display.predict_pending_output(&mut self.context.cx());
        let shown = self.shown();
        self.login.display.screen = Screen::default();
        shown
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.login.display.screen.queued_text()).into_owned()
    }
}

#[test]
fn without_remote_echo_a_line_is_edited_and_echoed_locally_and_sent_with_cr_lf() {
    let mut fixture = Fixture::interactive();
    fixture.types(b"quiz\x7ft");
    assert_eq!(fixture.sent(), b"");
    fixture.types(b"\r");
    assert_eq!(fixture.sent(), b"quit\r\n");
    assert_eq!(fixture.shown(), "quiz\x08 \x08t\r\n");
}

#[test]
fn with_remote_echo_each_key_is_sent_at_once_and_a_return_is_cr_nul() {
    let mut fixture = Fixture::interactive();
    fixture.receives(WILL_ECHO);
    fixture.sent();
    fixture.types(b"l");
    assert_eq!(fixture.sent(), b"l");
    fixture.types(b"\r");
    assert_eq!(fixture.sent(), b"\r\0");
    assert_eq!(fixture.shown(), "");
}

#[test]
fn a_partial_line_is_sent_when_remote_echo_starts() {
    let mut fixture = Fixture::interactive();
    fixture.types(b"ro");
    fixture.receives(WILL_ECHO);
    assert_eq!(fixture.sent(), b"\xff\xfd\x01ro");
}

#[test]
fn each_end_of_line_can_be_selected() {
    let ends = [
        (EndOfLine::CrLf, &b"a\r\n"[..]),
        (EndOfLine::CrNul, &b"a\r\0"[..]),
        (EndOfLine::Lf, &b"a\n"[..]),
    ];
    for (mode, (end, wire)) in
        [Mode::Line, Mode::Character].into_iter().flat_map(|mode| ends.map(|end| (mode, end)))
    {
        let line_end = LineEnd(Some(end));
        let settings =
            LoginSettings { is_interactive: true, mode, line_end, ..LoginSettings::default() };
        let mut fixture = Fixture::new(settings);
        fixture.types(b"a\r");
        assert_eq!(fixture.sent(), wire);
    }
}

#[test]
fn an_interrupt_discards_the_line_and_is_sent_as_a_telnet_command() {
    let mut fixture = Fixture::interactive();
    fixture.types(b"abc\x03");
    assert_eq!(fixture.sent(), b"\xff\xf4\xff\xf2");
    assert_eq!(fixture.shown(), "abc^C");
}

#[test]
fn in_character_mode_an_interrupt_key_is_sent_unchanged() {
    let mut fixture = Fixture::interactive();
    fixture.receives(WILL_ECHO);
    fixture.sent();
    fixture.types(b"\x03");
    assert_eq!(fixture.sent(), b"\x03");
}

// req RFC1123:3.4.1-MUST-1
#[test]
fn text_after_the_escape_character_is_a_command_and_is_not_sent() {
    let mut fixture = Fixture::interactive();
    fixture.types(b"\x1dsend ay\r");
    assert_eq!(fixture.sent(), b"\xff\xf6");
    assert_eq!(fixture.shown(), "plumb> send ay\r\n");
}

// req RFC1123:3.4.2-MUST-1
#[test]
fn the_user_can_send_the_telnet_control_functions() {
    for (word, code) in [("ip", 0xf4), ("ao", 0xf5), ("ayt", 0xf6)] {
        let mut fixture = Fixture::interactive();
        fixture.types(format!("\x1dsend {word}\r").as_bytes());
        assert!(fixture.sent().starts_with(&[0xff, code]), "{word}");
    }
}

#[test]
fn output_received_during_the_prompt_is_displayed_after_it() {
    let mut fixture = Fixture::interactive();
    fixture.types(b"\x1d");
    fixture.receives(b"you have mail\r\n");
    assert_eq!(fixture.shown(), "plumb> ");
    fixture.types(b"\r");
    assert_eq!(fixture.shown(), "plumb> \r\nyou have mail\r\n");
}

#[test]
fn an_invalid_command_is_reported_and_the_prompt_is_repeated() {
    let mut fixture = Fixture::interactive();
    fixture.types(b"\x1dfrob\r");
    assert!(fixture.shown().contains("'frob' is not valid here"));
    assert!(fixture.shown().ends_with("plumb> "));
}

#[test]
fn close_and_end_of_file_at_the_prompt_end_the_session() {
    for keys in [&b"\x1dclose\r"[..], b"\x1dq\r", b"\x1d\x04"] {
        let mut fixture = Fixture::interactive();
        fixture.types(keys);
        assert!(fixture.login.is_over());
    }
}

#[test]
fn a_synch_is_sent_as_urgent_data_up_to_its_mark() {
    let mut fixture = Fixture::interactive();
    fixture.types(b"\x1dsend synch\r");
    assert_eq!((fixture.login.output(), fixture.login.urgent_mark()), (&b"\xff\xf2"[..], Some(2)));
}

#[test]
fn a_synch_of_the_remote_host_discards_held_output() {
    let mut fixture = Fixture::interactive();
    fixture.types(b"\x1d");
    fixture.receives(b"held ");
    fixture.login.urgent(true);
    fixture.receives(b"thrown away\xff\xf2kept");
    fixture.login.urgent(false);
    fixture.types(b"\r");
    assert_eq!(fixture.shown(), "plumb> \r\nkept");
}

#[test]
fn without_an_escape_character_every_key_is_sent() {
    let escape = Escape(None);
    let settings = LoginSettings { is_interactive: true, escape, ..LoginSettings::default() };
    let mut fixture = Fixture::new(settings);
    fixture.receives(WILL_ECHO);
    fixture.sent();
    fixture.types(b"\x1dq\r");
    assert_eq!(fixture.sent(), b"\x1dq\r\0");
}

#[test]
fn the_single_letter_commands_take_effect_at_once() {
    let settings = LoginSettings {
        is_interactive: true,
        keys: PromptStyle::Letters,
        ..LoginSettings::default()
    };
    let mut fixture = Fixture::new(settings);
    fixture.types(b"\x1da\x1db");
    assert_eq!(fixture.sent(), b"\xff\xf6\xff\xf3\xff\xf2");
    fixture.types(b"ab\x1dx");
    assert_eq!(fixture.sent(), b"ab");
    fixture.types(b"\x1de\x1d\x1dq\x1dr");
    assert_eq!(fixture.sent(), b"\x1dq");
    assert!(!fixture.login.echoes_locally());
    fixture.types(b"\x1dc");
    assert!(fixture.login.is_over());
}

#[test]
fn the_escape_character_works_while_the_remote_host_accepts_nothing() {
    let mut fixture = Fixture::interactive();
    fixture.receives(WILL_ECHO);
    fixture.types(&vec![b'a'; 2 * UNSENT_MAX_BYTES]);
    assert!(fixture.login.protocol.unsent_bytes() <= UNSENT_MAX_BYTES);
    fixture.types(b"\x1dclose\r");
    assert!(fixture.login.is_over());
}

// req RFC1123:3.3.1-MUST-4
#[test]
fn line_ends_of_a_pipe_are_converted_to_cr_lf() {
    let mut fixture = Fixture::pipe();
    fixture.pipes(b"one\ntwo\r\nthree\r");
    fixture.pipes(b"\nfour");
    assert_eq!(fixture.sent(), b"one\r\ntwo\r\nthree\r\nfour");
}

#[test]
fn a_pipe_is_not_read_while_its_data_is_queued() {
    let mut fixture = Fixture::pipe();
    assert!(fixture.login.wants_input(fixture.login.input.keyboard.index()));
    fixture.pipes(&vec![b'a'; 100_000]);
    assert!(!fixture.login.wants_input(fixture.login.input.keyboard.index()));
    assert_eq!(fixture.sent().len(), 100_000);
    assert!(fixture.login.wants_input(fixture.login.input.keyboard.index()));
}

#[test]
fn a_closing_session_sends_the_queued_data_first() {
    let mut fixture = Fixture::pipe();
    fixture.pipes(&vec![b'a'; 100_000]);
    fixture.login.stage = Stage::Closing;
    assert!(!fixture.login.is_closing());
    fixture.sent();
    assert!(fixture.login.is_closing());
}

#[test]
fn the_status_describes_the_session_and_the_accounts() {
    let mut fixture = Fixture::interactive();
    fixture.types(b"\x1dstatus\r");
    assert!(fixture.login.wants_status());
    fixture.login.take_status(&CarrierStatus::None);
    assert!(!fixture.login.wants_status());
    let shown = fixture.shown();
    for text in
        ["Connected to the test", "Sends each line", "plumb echoes", "all others", "CPU time"]
    {
        assert!(shown.contains(text), "no '{text}' in {shown}");
    }
}

#[test]
fn the_status_fits_a_narrow_window() {
    let mut fixture = Fixture::interactive();
    fixture.login.display.set_window((40, 24));
    fixture.types(b"\x1dstatus\r");
    fixture.login.take_status(&CarrierStatus::None);
    let max_width = fixture.shown().lines().map(|line| line.chars().count()).max();
    assert!(max_width.is_some_and(|max| max < 40), "{max_width:?} in:\n{}", fixture.shown());
}

proptest! {
    #[test]
    fn arbitrary_keys_and_received_bytes_keep_the_queues_within_their_limits(
        steps in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..200)), 0..40)
    ) {
        let mut fixture = Fixture::interactive();
        for (is_typed, bytes) in steps {
            if is_typed { fixture.types(&bytes) } else { fixture.receives(&bytes) }
        }
        prop_assert!(fixture.login.protocol.unsent_bytes() <= UNSENT_MAX_BYTES);
    }

    #[test]
    fn any_split_of_piped_input_sends_the_same_data(
        pieces in prop::collection::vec("[a-z\r\n]{0,9}", 0..30)
    ) {
        let mut unsplit = Fixture::pipe();
        let mut split = Fixture::pipe();
        unsplit.pipes(pieces.concat().as_bytes());
        pieces.iter().for_each(|piece| split.pipes(piece.as_bytes()));
        unsplit.login.end_pipe(&mut unsplit.context.cx());
        split.login.end_pipe(&mut split.context.cx());
        prop_assert_eq!(unsplit.sent(), split.sent());
    }
}

#[test]
fn the_echo_of_keys_is_predicted_after_the_first_remote_echo() {
    let predict = Predict::Always;
    let mut fixture =
        Fixture::new(LoginSettings { is_interactive: true, predict, ..LoginSettings::default() });
    fixture.receives(WILL_ECHO);
    fixture.receives(b"$ ");
    assert_eq!(fixture.flushed(), "$ ");
    fixture.types(b"l");
    assert_eq!(fixture.flushed(), "");
    fixture.receives(b"l");
    assert_eq!(fixture.flushed(), "l");
    fixture.types(b"s");
    assert_eq!(fixture.flushed(), "s");
    assert_eq!(fixture.login.display.prediction.predictor().unwrap().statistics().shown, 1);
}

#[test]
fn fast_echoes_disable_the_prediction_until_it_is_set_at_the_prompt() {
    let mut fixture =
        Fixture::new(LoginSettings { is_interactive: true, ..LoginSettings::default() });
    fixture.receives(WILL_ECHO);
    fixture.receives(b"$ ");
    let mode = |fixture: &Fixture| fixture.login.display.prediction.predictor().unwrap().mode();
    // An echo that arrives earlier than the previous echoes is not counted, so many keys are
    // needed. One line has room for 20 of them.
    for _ in 0..200 {
        for _ in 0..20 {
            fixture.types(b"l");
            fixture.receives(b"l");
            fixture.flushed();
        }
        fixture.types(b"\r");
        fixture.receives(b"\r\n$ ");
        fixture.flushed();
    }
    assert_eq!((mode(&fixture), fixture.login.settings.predict), (Showing::Never, Predict::Auto));
    fixture.types(b"\x1dset predict auto\r");
    assert_eq!(mode(&fixture), Showing::Auto);
}

#[test]
fn nothing_is_predicted_for_a_pipe_or_with_local_echo() {
    assert!(Fixture::pipe().login.display.prediction.predictor().is_none());
    let mut fixture = Fixture::interactive();
    fixture.types(b"ab");
    assert_eq!(fixture.login.display.prediction.predictor().unwrap().statistics().keys, 0);
}

#[test]
fn a_timing_mark_is_requested_after_the_first_keys_of_an_epoch() {
    let predict = Predict::Always;
    let mut fixture =
        Fixture::new(LoginSettings { is_interactive: true, predict, ..LoginSettings::default() });
    fixture.receives(WILL_ECHO);
    fixture.sent();
    fixture.types(b"a");
    assert_eq!(fixture.sent(), b"a\xff\xfd\x06");
    fixture.types(b"b");
    assert_eq!(fixture.sent(), b"b");
    fixture.receives(b"\xff\xfb\x06");
    fixture.types(b"c");
    assert_eq!(fixture.sent(), b"c\xff\xfd\x06");
}

#[test]
fn the_prompt_sets_the_prediction_mode() {
    let mut fixture = Fixture::interactive();
    fixture.types(b"\x1dset predict never\r");
    assert_eq!(fixture.login.settings.predict, Predict::Never);
    fixture.types(b"\x1dstatus\r");
    fixture.login.take_status(&CarrierStatus::None);
    assert!(fixture.shown().contains("Echo is not predicted."));
}
