//! Tests of one login: keys, piped input and the output of the remote host.

use super::super::predicted::Predict;
use super::super::settings::{Escape, Keys, LineEnd};
use super::*;
use crate::carry::Bench;
use proptest::prelude::*;
use protocols::application::telnet::EndOfLine;
use protocols::terminal::prediction::Mode as Showing;

const WILL_ECHO: &[u8] = &[255, 251, 1];

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

    fn person() -> Self {
        Self::new(Settings { is_interactive: true, ..Settings::default() })
    }

    fn pipe() -> Self {
        Self::new(Settings::default())
    }

    fn types(&mut self, keys: &[u8]) {
        self.login.typed(keys, &mut self.bench.cx());
    }

    fn pipes(&mut self, data: &[u8]) {
        self.login.piped(data, &mut self.bench.cx());
    }

    fn hears(&mut self, data: &[u8]) {
        self.login.receive(data, &mut self.bench.cx());
    }

    /// Returns all pending output for the carrier.
    fn sent(&mut self) -> Vec<u8> {
        let mut sent = Vec::new();
        while !self.login.output().is_empty() {
            sent.extend_from_slice(self.login.output());
            self.login.sent(self.login.output().len());
            self.login.run(&mut self.bench.cx());
        }
        sent
    }

    /// Returns the pending output for the screen and clears it.
    fn flushed(&mut self) -> String {
        self.login.pass_prediction(&mut self.bench.cx());
        let shown = self.shown();
        self.login.screen = Screen::default();
        shown
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.login.screen.waiting()).into_owned()
    }
}

#[test]
fn until_the_far_side_echoes_a_line_is_edited_and_shown_here_and_sent_with_cr_lf() {
    let mut desk = Desk::person();
    desk.types(b"quiz\x7ft");
    assert_eq!(desk.sent(), b"");
    desk.types(b"\r");
    assert_eq!(desk.sent(), b"quit\r\n");
    assert_eq!(desk.shown(), "quiz\x08 \x08t\r\n");
}

#[test]
fn when_the_far_side_echoes_each_key_goes_out_at_once_and_a_return_is_cr_nul() {
    let mut desk = Desk::person();
    desk.hears(WILL_ECHO);
    desk.sent();
    desk.types(b"l");
    assert_eq!(desk.sent(), b"l");
    desk.types(b"\r");
    assert_eq!(desk.sent(), b"\r\0");
    assert_eq!(desk.shown(), "");
}

#[test]
fn what_is_typed_of_a_line_goes_out_when_the_far_side_begins_to_echo() {
    let mut desk = Desk::person();
    desk.types(b"ro");
    desk.hears(WILL_ECHO);
    assert_eq!(desk.sent(), b"\xff\xfd\x01ro");
}

#[test]
fn each_end_of_line_can_be_chosen() {
    let ends = [
        (EndOfLine::CrLf, &b"a\r\n"[..]),
        (EndOfLine::CrNul, &b"a\r\0"[..]),
        (EndOfLine::Lf, &b"a\n"[..]),
    ];
    for (mode, (end, wire)) in
        [Mode::Line, Mode::Character].into_iter().flat_map(|mode| ends.map(|end| (mode, end)))
    {
        let line_end = LineEnd(Some(end));
        let settings = Settings { is_interactive: true, mode, line_end, ..Settings::default() };
        let mut desk = Desk::new(settings);
        desk.types(b"a\r");
        assert_eq!(desk.sent(), wire);
    }
}

#[test]
fn an_interrupt_drops_the_line_and_is_said_in_the_way_of_the_network() {
    let mut desk = Desk::person();
    desk.types(b"abc\x03");
    assert_eq!(desk.sent(), b"\xff\xf4\xff\xf2");
    assert_eq!(desk.shown(), "abc^C");
}

#[test]
fn an_interrupt_typed_by_the_character_goes_to_the_far_side_as_it_is() {
    let mut desk = Desk::person();
    desk.hears(WILL_ECHO);
    desk.sent();
    desk.types(b"\x03");
    assert_eq!(desk.sent(), b"\x03");
}

// req RFC1123:3.4.1-MUST-1
#[test]
fn what_follows_the_escape_character_is_a_command_and_not_sent() {
    let mut desk = Desk::person();
    desk.types(b"\x1dsend ay\r");
    assert_eq!(desk.sent(), b"\xff\xf6");
    assert_eq!(desk.shown(), "plumb> send ay\r\n");
}

// req RFC1123:3.4.2-MUST-1
#[test]
fn a_person_can_say_the_control_functions_of_the_network() {
    for (word, code) in [("ip", 0xf4), ("ao", 0xf5), ("ayt", 0xf6)] {
        let mut desk = Desk::person();
        desk.types(format!("\x1dsend {word}\r").as_bytes());
        assert!(desk.sent().starts_with(&[0xff, code]), "{word}");
    }
}

#[test]
fn what_the_far_side_says_during_the_prompt_is_shown_after_it() {
    let mut desk = Desk::person();
    desk.types(b"\x1d");
    desk.hears(b"you have mail\r\n");
    assert_eq!(desk.shown(), "plumb> ");
    desk.types(b"\r");
    assert_eq!(desk.shown(), "plumb> \r\nyou have mail\r\n");
}

#[test]
fn a_wrong_command_is_answered_and_asked_again() {
    let mut desk = Desk::person();
    desk.types(b"\x1dfrob\r");
    assert!(desk.shown().contains("'frob' is not valid here"));
    assert!(desk.shown().ends_with("plumb> "));
}

#[test]
fn close_and_the_end_of_input_at_the_prompt_end_the_session() {
    for keys in [&b"\x1dclose\r"[..], b"\x1dq\r", b"\x1d\x04"] {
        let mut desk = Desk::person();
        desk.types(keys);
        assert!(desk.login.is_over());
    }
}

#[test]
fn a_synch_goes_out_as_urgent_data_up_to_its_mark() {
    let mut desk = Desk::person();
    desk.types(b"\x1dsend synch\r");
    assert_eq!((desk.login.output(), desk.login.urgent_mark()), (&b"\xff\xf2"[..], Some(2)));
}

#[test]
fn a_synch_of_the_far_side_throws_away_what_nobody_has_seen() {
    let mut desk = Desk::person();
    desk.types(b"\x1d");
    desk.hears(b"held ");
    desk.login.urgent(true);
    desk.hears(b"thrown away\xff\xf2kept");
    desk.login.urgent(false);
    desk.types(b"\r");
    assert_eq!(desk.shown(), "plumb> \r\nkept");
}

#[test]
fn without_an_escape_character_every_key_goes_to_the_far_side() {
    let escape = Escape(None);
    let settings = Settings { is_interactive: true, escape, ..Settings::default() };
    let mut desk = Desk::new(settings);
    desk.hears(WILL_ECHO);
    desk.sent();
    desk.types(b"\x1dq\r");
    assert_eq!(desk.sent(), b"\x1dq\r\0");
}

#[test]
fn the_letters_of_1982_act_at_once() {
    let settings = Settings { is_interactive: true, keys: Keys::Letters, ..Settings::default() };
    let mut desk = Desk::new(settings);
    desk.types(b"\x1da\x1db");
    assert_eq!(desk.sent(), b"\xff\xf6\xff\xf3\xff\xf2");
    desk.types(b"ab\x1dx");
    assert_eq!(desk.sent(), b"ab");
    desk.types(b"\x1de\x1d\x1dq\x1dr");
    assert_eq!(desk.sent(), b"\x1dq");
    assert!(!desk.login.echoes_here());
    desk.types(b"\x1dc");
    assert!(desk.login.is_over());
}

#[test]
fn the_escape_character_works_however_long_the_far_side_takes_nothing() {
    let mut desk = Desk::person();
    desk.hears(WILL_ECHO);
    desk.types(&vec![b'a'; 2 * UNSENT_LIMIT]);
    assert!(desk.login.unsent.len() <= UNSENT_LIMIT);
    desk.types(b"\x1dclose\r");
    assert!(desk.login.is_over());
}

// req RFC1123:3.3.1-MUST-4
#[test]
fn the_lines_of_a_pipe_end_as_the_network_has_it() {
    let mut desk = Desk::pipe();
    desk.pipes(b"one\ntwo\r\nthree\r");
    desk.pipes(b"\nfour");
    assert_eq!(desk.sent(), b"one\r\ntwo\r\nthree\r\nfour");
}

#[test]
fn a_pipe_is_not_read_while_what_it_gave_waits() {
    let mut desk = Desk::pipe();
    assert!(desk.login.wants_input(desk.login.near.keyboard()));
    desk.pipes(&vec![b'a'; 100_000]);
    assert!(!desk.login.wants_input(desk.login.near.keyboard()));
    assert_eq!(desk.sent().len(), 100_000);
    assert!(desk.login.wants_input(desk.login.near.keyboard()));
}

#[test]
fn a_session_that_is_closing_first_sends_what_waits() {
    let mut desk = Desk::pipe();
    desk.pipes(&vec![b'a'; 100_000]);
    desk.login.stage = Stage::Closing;
    assert!(!desk.login.is_closing());
    desk.sent();
    assert!(desk.login.is_closing());
}

#[test]
fn the_status_tells_of_the_session_and_of_each_account() {
    let mut desk = Desk::person();
    desk.types(b"\x1dstatus\r");
    assert!(desk.login.wants_status());
    desk.login.take_status(&CarrierStatus::None);
    assert!(!desk.login.wants_status());
    let shown = desk.shown();
    for text in
        ["Connected to the test", "Sends each line", "plumb echoes", "all others", "CPU time"]
    {
        assert!(shown.contains(text), "no '{text}' in {shown}");
    }
}

#[test]
fn the_status_fits_a_narrow_window() {
    let mut desk = Desk::person();
    desk.login.window = (40, 24);
    desk.types(b"\x1dstatus\r");
    desk.login.take_status(&CarrierStatus::None);
    let widest = desk.shown().lines().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|widest| widest < 40), "{widest:?} in:\n{}", desk.shown());
}

proptest! {
    #[test]
    fn any_keys_and_any_bytes_from_the_far_side_leave_the_queues_within_their_limits(
        steps in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..200)), 0..40)
    ) {
        let mut desk = Desk::person();
        for (is_typed, bytes) in steps {
            if is_typed { desk.types(&bytes) } else { desk.hears(&bytes) }
        }
        prop_assert!(desk.login.unsent.len() <= UNSENT_LIMIT);
    }

    #[test]
    fn a_pipe_reaches_the_far_side_whole_however_it_is_cut(
        pieces in prop::collection::vec("[a-z\r\n]{0,9}", 0..30)
    ) {
        let (mut whole, mut cut) = (Desk::pipe(), Desk::pipe());
        whole.pipes(pieces.concat().as_bytes());
        pieces.iter().for_each(|piece| cut.pipes(piece.as_bytes()));
        whole.login.end_pipe(&mut whole.bench.cx());
        cut.login.end_pipe(&mut cut.bench.cx());
        prop_assert_eq!(whole.sent(), cut.sent());
    }
}

#[test]
fn the_echo_of_keys_is_predicted_once_the_far_side_has_echoed_one() {
    let predict = Predict::Always;
    let mut desk = Desk::new(Settings { is_interactive: true, predict, ..Settings::default() });
    desk.hears(WILL_ECHO);
    desk.hears(b"$ ");
    assert_eq!(desk.flushed(), "$ ");
    desk.types(b"l");
    assert_eq!(desk.flushed(), "");
    desk.hears(b"l");
    assert_eq!(desk.flushed(), "l");
    desk.types(b"s");
    assert_eq!(desk.flushed(), "s");
    assert_eq!(desk.login.predictor.as_ref().unwrap().statistics().shown, 1);
}

#[test]
fn a_far_side_that_is_near_is_no_longer_followed_until_the_prompt_says_so() {
    let mut desk = Desk::new(Settings { is_interactive: true, ..Settings::default() });
    desk.hears(WILL_ECHO);
    desk.hears(b"$ ");
    let mode = |desk: &Desk| desk.login.predictor.as_ref().unwrap().mode();
    // Echoes that arrive earlier than usual so far do not count; a line has room for 20.
    for _ in 0..200 {
        for _ in 0..20 {
            desk.types(b"l");
            desk.hears(b"l");
            desk.flushed();
        }
        desk.types(b"\r");
        desk.hears(b"\r\n$ ");
        desk.flushed();
    }
    assert_eq!((mode(&desk), desk.login.settings.predict), (Showing::Never, Predict::Auto));
    desk.types(b"\x1dset predict auto\r");
    assert_eq!(mode(&desk), Showing::Auto);
}

#[test]
fn nothing_is_predicted_for_a_pipe_or_where_this_side_echoes() {
    assert!(Desk::pipe().login.predictor.is_none());
    let mut desk = Desk::person();
    desk.types(b"ab");
    assert_eq!(desk.login.predictor.as_ref().unwrap().statistics().keys, 0);
}

#[test]
fn the_far_side_is_asked_for_a_mark_behind_the_first_keys_of_an_epoch() {
    let predict = Predict::Always;
    let mut desk = Desk::new(Settings { is_interactive: true, predict, ..Settings::default() });
    desk.hears(WILL_ECHO);
    desk.sent();
    desk.types(b"a");
    assert_eq!(desk.sent(), b"a\xff\xfd\x06");
    desk.types(b"b");
    assert_eq!(desk.sent(), b"b");
    desk.hears(b"\xff\xfb\x06");
    desk.types(b"c");
    assert_eq!(desk.sent(), b"c\xff\xfd\x06");
}

#[test]
fn the_prompt_sets_whether_echo_is_predicted() {
    let mut desk = Desk::person();
    desk.types(b"\x1dset predict never\r");
    assert_eq!(desk.login.settings.predict, Predict::Never);
    desk.types(b"\x1dstatus\r");
    desk.login.take_status(&CarrierStatus::None);
    assert!(desk.shown().contains("Echo is not predicted."));
}
