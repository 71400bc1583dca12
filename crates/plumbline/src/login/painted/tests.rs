//! Tests of the drawn output, with plumbline's terminal emulator as the local terminal.

use super::super::session::Traffic;
use super::*;
use crate::carry::{Bench, CarrierStatus};
use protocols::time::{Duration, Instant};

/// A local terminal with an emulated terminal drawn on it.
struct Person {
    painted: Painted,
    terminal: Terminal,
    bench: Bench,
    window: (u16, u16),
}

impl Person {
    fn new(painted: Painted, window: (u16, u16)) -> Self {
        let terminal = Terminal::new(window.0, window.1);
        Self { painted, terminal, bench: Bench::new(true).unwrap(), window }
    }

    fn sees(&mut self, text: &[u8], status: Option<&str>) -> String {
        self.painted.receive(text, &mut self.bench.cx());
        let bytes = self.painted.paint(self.window, status);
        self.terminal.receive(&bytes, &mut self.bench.cx());
        self.terminal.text()
    }
}

#[test]
fn a_heath_19_shows_its_graphics_and_its_25th_line() {
    let mut person = Person::new(Painted::heath19(true), (80, 25));
    let shown = person.sees(b"\x1bFfac\x1bG plain\x1bx1\x1bY8 status", None);
    assert!(shown.starts_with("\u{250c}\u{2500}\u{2510} plain"), "{shown}");
    assert_eq!(person.terminal.row_text(24), "status");
}

#[test]
fn a_window_of_40_columns_shows_where_the_cursor_is() {
    let mut person = Person::new(Painted::heath19(true), (40, 12));
    assert!(person.sees(b"left", None).starts_with("left"));
    let shown = person.sees(b"\x1bY7gright", None);
    assert!(shown.ends_with("right") && !shown.contains("left"), "{shown}");
    assert_eq!(person.terminal.cursor().0, 11);
}

#[test]
fn the_line_of_status_stays_whatever_the_far_side_does_to_its_screen() {
    let mut person = Person::new(Painted::ansi((80, 23)), (80, 24));
    for text in [&b"one\r\n"[..], b"\x1b[2J", b"\x1b[r\x1b[99;99Hx", b"\x1bc", b"\n\n\n\n"] {
        person.sees(text, Some("status"));
        assert_eq!(person.terminal.row_text(23), format!("{:<80}", "status").trim_end());
    }
    person.painted.resize((40, 11));
    person.window = (40, 12);
    person.terminal.resize(40, 12);
    person.sees(b"two", Some("status"));
    assert_eq!(person.terminal.row_text(11), "status");
}

#[test]
fn what_keys_and_mouse_are_to_send_is_passed_on() {
    let mut person = Person::new(Painted::ansi((80, 24)), (80, 24));
    person.sees(b"\x1b[?1h\x1b[?2004h\x1b[?1002h\x1b[?1006h", None);
    let modes = person.terminal.input_modes();
    assert!(modes.has_application_cursor && modes.brackets_paste);
    assert_eq!((modes.mouse, modes.mouse_encoding), (MouseReports::Drags, MouseEncoding::Sgr));
    person.sees(b"\x1b[?1l\x1b[?1002l", None);
    assert!(!person.terminal.input_modes().has_application_cursor);
    assert_eq!(person.terminal.input_modes().mouse, MouseReports::Off);
}

#[test]
fn who_leaves_gets_the_usual_screen_back() {
    let mut person = Person::new(Painted::heath19(true), (80, 25));
    person.terminal.receive(b"before", &mut person.bench.cx());
    person.sees(b"during", None);
    let bytes = person.painted.leave();
    person.terminal.receive(&bytes, &mut person.bench.cx());
    assert_eq!(person.terminal.text(), "before");
    assert!(person.terminal.is_cursor_visible());
    assert!(person.painted.leave().is_empty());
}

#[test]
fn the_title_of_the_window_is_passed_on_once_and_the_found_one_comes_back() {
    let mut person = Person::new(Painted::ansi((80, 24)), (80, 24));
    let mut paint = |text: &[u8]| {
        person.painted.receive(text, &mut person.bench.cx());
        String::from_utf8(person.painted.paint((80, 24), None)).unwrap()
    };
    assert!(!paint(b"").contains("\x1b]"));
    assert!(paint(b"\x1b]2;vim\x07").ends_with("\x1b[22;2t\x1b]2;vim\x07"));
    assert!(!paint(b"x").contains("\x1b]"));
    assert!(paint(b"\x1b]0;less\x07").ends_with("\x1b]2;less\x07"));
    assert!(person.painted.leave().ends_with(b"\x1b[23;2t"));
}

#[test]
fn the_keys_of_a_modern_terminal_are_those_of_the_heath_19() {
    let mut painted = Painted::heath19(true);
    let mut bench = Bench::new(true).unwrap();
    let mut keys = &b"\x1b[A\x1bOP\x1b[17~\x1b[3~\x1bOq\x1b[Zq"[..];
    while let Some(struck) = KeyReader.next(&mut keys) {
        painted.key(struck, &mut bench.cx());
    }
    assert_eq!(painted.take_output(), b"\x1bA\x1bS\x1bP\x1bN1\x1b[Zq");
}

#[test]
fn the_line_of_status_has_room_for_what_matters_at_40_columns() {
    let mut line = StatusLine::new(Instant::ZERO);
    line.key(Instant::ZERO);
    line.hear(Instant::ZERO + Duration::from_micros(1_500));
    line.take(&CarrierStatus::None);
    let traffic = Traffic { bytes_in: 1_234, bytes_out: 56, ..Traffic::default() };
    let narrow = line.text(&traffic, 40);
    assert_eq!(narrow, " echo 1.50 ms | p99 1.50 ms | 1,234 B in");
    assert!(narrow.len() <= 40);
    assert_eq!(line.text(&traffic, 80), format!("{narrow} | 56 out"));
    assert_eq!(StatusLine::new(Instant::ZERO).text(&traffic, 13), " no echo yet");
}

#[test]
fn a_held_screen_names_the_keys_that_release_it_until_one_does() {
    for (window, text) in [((80, 25), "F10 releases a line, F11 a screen"), ((40, 12), "held: F10")]
    {
        let mut person = Person::new(Painted::heath19(false), window);
        let last = window.1 - 1;
        let shown = person.sees(b"\x1bY7 prompt\x1b[$ \n", None);
        assert!(person.terminal.row_text(last).contains(text), "{shown}");
        person.painted.key(Struck::plain(Key::Scroll), &mut person.bench.cx());
        person.sees(b"", None);
        assert!(!person.terminal.text().contains("F10"), "{}", person.terminal.text());
    }
}

#[test]
fn a_prompt_of_bash_neither_holds_the_screen_of_a_heath_19_nor_leaves_litter() {
    let mut person = Person::new(Painted::heath19(false), (80, 25));
    for number in 1..40 {
        person.sees(format!("\x1b[?2004h$ echo {number}\r\n\x1b[?2004l\r").as_bytes(), None);
    }
    let shown = person.sees(b"$ ", None);
    assert!(shown.contains("$ echo 39") && !shown.contains("2004"), "{shown}");
}
