//! Tests of the bytes drawn on the local terminal, which is simulated by plumbline's terminal
//! emulator.

use super::super::session_status::LoginTraffic;
use super::*;
use carrier::{CarrierStatus, EngineContext};
use net::time::{Duration, Instant};

/// A local terminal with an emulated terminal drawn on it.
struct Fixture {
    emulator: EmulatedTerminal,
    terminal: Terminal,
    context: EngineContext,
    window: (u16, u16),
}

impl Fixture {
    fn new(emulator: EmulatedTerminal, window: (u16, u16)) -> Self {
        let terminal = Terminal::new(window.0, window.1);
        Self { emulator, terminal, context: EngineContext::new(true).unwrap(), window }
    }

    fn receive_and_render(&mut self, text: &[u8], status: Option<&str>) -> String {
        self.emulator.receive(text, &mut self.context.cx());
        let bytes = self.emulator.render(self.window, status);
        self.terminal.receive(&bytes, &mut self.context.cx());
        self.terminal.text()
    }
}

#[test]
fn a_heath_19_shows_its_graphics_and_its_25th_line() {
    let mut fixture = Fixture::new(EmulatedTerminal::heath19(true), (80, 25));
    let shown = fixture.receive_and_render(b"\x1bFfac\x1bG plain\x1bx1\x1bY8 status", None);
    assert!(shown.starts_with("\u{250c}\u{2500}\u{2510} plain"), "{shown}");
    assert_eq!(fixture.terminal.row_text(24), "status");
}

#[test]
fn a_window_of_40_columns_displays_the_part_around_the_cursor() {
    let mut fixture = Fixture::new(EmulatedTerminal::heath19(true), (40, 12));
    assert!(fixture.receive_and_render(b"left", None).starts_with("left"));
    let shown = fixture.receive_and_render(b"\x1bY7gright", None);
    assert!(shown.ends_with("right") && !shown.contains("left"), "{shown}");
    assert_eq!(fixture.terminal.cursor().0, 11);
}

#[test]
fn output_of_the_remote_host_does_not_change_the_status_line() {
    let mut fixture = Fixture::new(EmulatedTerminal::ansi((80, 23)), (80, 24));
    for text in [&b"one\r\n"[..], b"\x1b[2J", b"\x1b[r\x1b[99;99Hx", b"\x1bc", b"\n\n\n\n"] {
        fixture.receive_and_render(text, Some("status"));
        assert_eq!(fixture.terminal.row_text(23), format!("{:<80}", "status").trim_end());
    }
    fixture.emulator.resize((40, 11));
    fixture.window = (40, 12);
    fixture.terminal.resize(40, 12);
    fixture.receive_and_render(b"two", Some("status"));
    assert_eq!(fixture.terminal.row_text(11), "status");
}

#[test]
fn key_and_mouse_modes_are_passed_to_the_local_terminal() {
    let mut fixture = Fixture::new(EmulatedTerminal::ansi((80, 24)), (80, 24));
    fixture.receive_and_render(b"\x1b[?1h\x1b[?2004h\x1b[?1002h\x1b[?1006h", None);
    let modes = fixture.terminal.input_modes();
    assert!(modes.has_application_cursor && modes.brackets_paste);
    assert_eq!((modes.mouse, modes.mouse_encoding), (MouseReports::Drags, MouseEncoding::Sgr));
    fixture.receive_and_render(b"\x1b[?1l\x1b[?1002l", None);
    assert!(!fixture.terminal.input_modes().has_application_cursor);
    assert_eq!(fixture.terminal.input_modes().mouse, MouseReports::Off);
}

#[test]
fn leaving_restores_the_previous_screen() {
    let mut fixture = Fixture::new(EmulatedTerminal::heath19(true), (80, 25));
    fixture.terminal.receive(b"before", &mut fixture.context.cx());
    fixture.receive_and_render(b"during", None);
    let bytes = fixture.emulator.leave();
    fixture.terminal.receive(&bytes, &mut fixture.context.cx());
    assert_eq!(fixture.terminal.text(), "before");
    assert!(fixture.terminal.is_cursor_visible());
    assert!(fixture.emulator.leave().is_empty());
}

#[test]
fn the_window_title_is_passed_on_once_and_the_original_one_is_restored() {
    let mut fixture = Fixture::new(EmulatedTerminal::ansi((80, 24)), (80, 24));
    let mut render = |text: &[u8]| {
        fixture.emulator.receive(text, &mut fixture.context.cx());
        String::from_utf8(fixture.emulator.render((80, 24), None)).unwrap()
    };
    assert!(!render(b"").contains("\x1b]"));
    assert!(render(b"\x1b]2;vim\x07").ends_with("\x1b[22;2t\x1b]2;vim\x07"));
    assert!(!render(b"x").contains("\x1b]"));
    assert!(render(b"\x1b]0;less\x07").ends_with("\x1b]2;less\x07"));
    assert!(fixture.emulator.leave().ends_with(b"\x1b[23;2t"));
}

#[test]
fn the_keys_of_a_modern_terminal_are_mapped_to_the_heath_19() {
    let mut emulator = EmulatedTerminal::heath19(true);
    let mut context = EngineContext::new(true).unwrap();
    let mut keys = &b"\x1b[A\x1bOP\x1b[17~\x1b[3~\x1bOq\x1b[Zq"[..];
    while let Some(key_press) = KeyReader.next(&mut keys) {
        emulator.key(key_press, &mut context.cx());
    }
    assert_eq!(emulator.take_output(), b"\x1bA\x1bS\x1bP\x1bN1\x1b[Zq");
}

#[test]
fn the_status_line_shows_the_main_figures_at_40_columns() {
    let mut line = StatusLine::new(Instant::ZERO);
    line.key_sent(Instant::ZERO);
    line.output_received(Instant::ZERO + Duration::from_micros(1_500));
    line.update(&CarrierStatus::None);
    let traffic = LoginTraffic { bytes_in: 1_234, bytes_out: 56, ..LoginTraffic::default() };
    let narrow_line = line.text(&traffic, 40);
    assert_eq!(narrow_line, " echo 1.50 ms | p99 1.50 ms | 1,234 B in");
    assert!(narrow_line.len() <= 40);
    assert_eq!(line.text(&traffic, 80), format!("{narrow_line} | 56 out"));
    assert_eq!(StatusLine::new(Instant::ZERO).text(&traffic, 13), " no echo yet");
}

#[test]
fn a_held_screen_names_the_keys_that_release_it_until_it_is_released() {
    for (window, text) in [((80, 25), "F10 releases a line, F11 a screen"), ((40, 12), "held: F10")]
    {
        let mut fixture = Fixture::new(EmulatedTerminal::heath19(false), window);
        let last = window.1 - 1;
        let shown = fixture.receive_and_render(b"\x1bY7 prompt\x1b[$ \n", None);
        assert!(fixture.terminal.row_text(last).contains(text), "{shown}");
        fixture.emulator.key(KeyPress::plain(Key::Scroll), &mut fixture.context.cx());
        fixture.receive_and_render(b"", None);
        assert!(!fixture.terminal.text().contains("F10"), "{}", fixture.terminal.text());
    }
}

#[test]
fn a_bash_prompt_neither_holds_the_screen_of_a_heath_19_nor_prints_its_escape_sequences() {
    let mut fixture = Fixture::new(EmulatedTerminal::heath19(false), (80, 25));
    for number in 1..40 {
        fixture.receive_and_render(
            format!("\x1b[?2004h$ echo {number}\r\n\x1b[?2004l\r").as_bytes(),
            None,
        );
    }
    let shown = fixture.receive_and_render(b"$ ", None);
    assert!(shown.contains("$ echo 39") && !shown.contains("2004"), "{shown}");
}
