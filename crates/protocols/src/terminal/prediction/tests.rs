//! Tests of the prediction in virtual time, with a simulated host.

use super::*;
use crate::terminal::Attributes;
use net::cx::OwnedCx;
use proptest::prelude::*;
use std::boxed::Box;
use std::format;
use std::string::String;

#[path = "password_tests.rs"]
mod passwords;
#[path = "path_tests.rs"]
mod paths;
#[path = "wrap_tests.rs"]
mod wrapped;

/// A program on the host: a function from input to output.
type Program = Box<dyn FnMut(&[u8]) -> Vec<u8>>;

/// A simulated user, connection and host.
struct World {
    context: OwnedCx,
    predictor: Predictor,
    real_terminal: Terminal,
    /// A terminal that receives only the host's bytes.
    unpredicted_terminal: Terminal,
    program: Program,
    delay: Duration,
    to_host: VecDeque<(Instant, Vec<u8>)>,
    from_host: VecDeque<(Instant, Vec<u8>)>,
}

impl World {
    fn new(round_trip_ms: u64, columns: u16, program: Program) -> Self {
        let mut world = Self {
            context: OwnedCx::default(),
            predictor: Predictor::new(Mode::Auto, columns, 8),
            real_terminal: Terminal::new(columns, 8),
            unpredicted_terminal: Terminal::new(columns, 8),
            program,
            delay: Duration::from_millis(round_trip_ms) / 2,
            to_host: VecDeque::new(),
            from_host: VecDeque::new(),
        };
        world.show(b"$ ");
        world
    }

    /// Returns a world whose predictor has confirmed an echo and measured the echo time.
    fn with_measured_echo(round_trip_ms: u64, columns: u16, program: Program) -> Self {
        let mut world = Self::new(round_trip_ms, columns, program);
        world.type_keys(b"w");
        world.rest(2000);
        world
    }

    fn draw_output(&mut self) {
        self.real_terminal.receive(self.predictor.output(), &mut self.context.cx());
        self.predictor.written();
    }

    fn show(&mut self, bytes: &[u8]) {
        self.unpredicted_terminal.receive(bytes, &mut self.context.cx());
        self.predictor.show(bytes, &mut self.context.cx());
        self.draw_output();
    }

    fn type_keys(&mut self, keys: &[u8]) {
        self.predictor.typed(keys, &mut self.context.cx());
        self.draw_output();
        self.to_host.push_back((self.context.now + self.delay, keys.to_vec()));
    }

    /// Types keys one after the other, with `gap_ms` between them.
    fn type_slowly(&mut self, keys: &str, gap_ms: u64) {
        let mut buffer = [0; 4];
        for key in keys.chars() {
            self.type_keys(key.encode_utf8(&mut buffer).as_bytes());
            self.rest(gap_ms);
        }
    }

    fn rest(&mut self, millis: u64) {
        let end = self.context.now + Duration::from_millis(millis);
        loop {
            let to_host = self.to_host.front().map(|(at, _)| *at);
            let from_host = self.from_host.front().map(|(at, _)| *at);
            let next = [to_host, from_host, self.predictor.deadline()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.context.now = self.context.now.max(next);
            if to_host == Some(next) {
                let (_, keys) = self.to_host.pop_front().unwrap();
                let program_output = (self.program)(&keys);
                self.from_host.push_back((self.context.now + self.delay, program_output));
            } else if from_host == Some(next) {
                let (_, program_output) = self.from_host.pop_front().unwrap();
                self.show(&program_output);
            } else {
                self.predictor.timeout(&mut self.context.cx());
                self.draw_output();
            }
        }
        self.context.now = end;
    }

    fn row(&self) -> String {
        self.real_terminal.row_text(self.real_terminal.cursor().0)
    }

    fn equals_the_host_screen(&self) -> bool {
        self.real_terminal.picture() == self.unpredicted_terminal.picture()
    }

    fn statistics(&self) -> Statistics {
        self.predictor.statistics()
    }
}

/// The kernel's terminal driver. The running program answers each line with a prompt.
fn kernel_echo() -> Program {
    Box::new(|keys| {
        keys.iter().fold(Vec::new(), |mut program_output, key| {
            match key {
                b'\r' => program_output.extend_from_slice(b"\r\n$ "),
                0x7f => program_output.extend_from_slice(b"\x08 \x08"),
                0..b' ' => program_output.extend_from_slice(&[b'^', key + b'@']),
                _ => program_output.push(*key),
            }
            program_output
        })
    })
}

/// A shell with line editing: it rewrites the text after the cursor.
fn line_editor(line: &'static str) -> Program {
    let mut text = line.as_bytes().to_vec();
    let mut at = line.len();
    let mut escape = Vec::new();
    Box::new(move |keys| {
        let mut program_output = Vec::new();
        for key in keys {
            if *key == 0x1b || !escape.is_empty() {
                escape.push(*key);
                match escape.as_slice() {
                    b"\x1b[D" if at > 0 => {
                        at -= 1;
                        program_output.push(0x08);
                    }
                    b"\x1b[C" if at < text.len() => {
                        program_output.push(text[at]);
                        at += 1;
                    }
                    b"\x1b" | b"\x1b[" => continue,
                    _ => program_output.push(7),
                }
                escape.clear();
                continue;
            }
            match key {
                0x7f if at == 0 => program_output.push(7),
                0x7f => {
                    at -= 1;
                    text.remove(at);
                    program_output.push(0x08);
                }
                b'\r' => {
                    program_output.extend_from_slice(b"\r\n$ ");
                    text = Vec::new();
                    at = 0;
                    continue;
                }
                _ => {
                    text.insert(at, *key);
                    program_output.push(*key);
                    at += 1;
                }
            }
            let rest = &text[at..];
            program_output.extend_from_slice(rest);
            program_output.extend_from_slice(b"\x1b[K");
            program_output.resize(program_output.len() + rest.len(), 0x08);
        }
        program_output
    })
}

/// Echoes lines, except after its password prompt, which follows every other line.
fn login() -> Program {
    let mut is_secret = false;
    Box::new(move |keys| {
        let mut program_output = Vec::new();
        for key in keys {
            match key {
                b'\r' => {
                    is_secret = !is_secret;
                    let prompt: &[u8] = if is_secret { b"\r\nPassword: " } else { b"\r\n$ " };
                    program_output.extend_from_slice(prompt);
                }
                _ if is_secret => {}
                _ => program_output.push(*key),
            }
        }
        program_output
    })
}

/// A full-screen editor with a command mode and a text mode.
fn vi() -> Program {
    let mut is_open = false;
    let mut is_text = false;
    Box::new(move |keys| {
        let mut program_output = Vec::new();
        for key in keys {
            match key {
                b'\r' if !is_open => {
                    is_open = true;
                    program_output.extend_from_slice(
                        b"\r\n\x1b[?1049h\x1b[2J\x1b[H~ one line of text\x1b[1;3H",
                    );
                }
                _ if !is_open => program_output.push(*key),
                0x1b => {
                    is_text = false;
                    program_output.push(0x08);
                }
                _ if is_text => {
                    program_output.extend_from_slice(&[b"\x1b[1@", &[*key][..]].concat());
                }
                b'i' => is_text = true,
                b'l' => program_output.extend_from_slice(b"\x1b[C"),
                b'j' => program_output.extend_from_slice(b"\n"),
                b'x' => program_output.extend_from_slice(b"\x1b[P"),
                _ => program_output.push(7),
            }
        }
        program_output
    })
}

/// A program that echoes nothing.
fn silent_program() -> Program {
    Box::new(|_| Vec::new())
}

// Displayed predictions.

#[test]
fn the_first_key_waits_for_its_echo_and_later_keys_are_displayed_at_once() {
    let mut world = World::new(100, 80, kernel_echo());
    world.type_keys(b"l");
    assert_eq!(world.row(), "$");
    world.rest(100);
    assert_eq!(world.row(), "$ l");
    world.type_keys(b"s");
    assert_eq!(world.row(), "$ ls");
    world.rest(1000);
    let statistics = world.statistics();
    assert_eq!((statistics.keys, statistics.shown, statistics.confirmed), (2, 1, 2));
    assert_eq!(statistics.wrong, 0);
    assert_eq!(world.predictor.round_trip(), Some(Duration::from_millis(100)));
    assert!(world.equals_the_host_screen());
}

#[test]
fn pending_predictions_appear_with_the_first_echo() {
    let mut world = World::new(300, 80, kernel_echo());
    world.type_slowly("abc", 100);
    assert_eq!(world.row(), "$ abc");
    assert_eq!(world.unpredicted_terminal.row_text(0), "$ a");
}

#[test]
fn unconfirmed_predictions_are_underlined_only_above_80_ms() {
    for (round_trip_ms, is_underlined) in [(100, true), (60, false)] {
        let mut world = World::with_measured_echo(round_trip_ms, 80, kernel_echo());
        world.type_keys(b"x");
        let style = |world: &World| world.real_terminal.cell(0, 3).unwrap().style().attributes;
        assert_eq!(world.row(), "$ wx");
        assert_eq!(style(&world).contains(Attributes::UNDERLINE), is_underlined);
        world.rest(round_trip_ms);
        assert!(!style(&world).contains(Attributes::UNDERLINE));
    }
}

#[test]
fn fast_echoes_are_predicted_only_in_mode_always() {
    let mut world = World::with_measured_echo(20, 80, kernel_echo());
    world.type_keys(b"x");
    assert_eq!(world.row(), "$ w");
    world.rest(1000);
    world.predictor.set_mode(Mode::Always);
    world.type_keys(b"y");
    world.rest(100);
    world.type_keys(b"z");
    assert_eq!(world.row(), "$ wxyz");
}

#[test]
fn mode_never_passes_host_output_unchanged() {
    let mut predictor = Predictor::new(Mode::Never, 80, 8);
    let mut context = OwnedCx::default();
    predictor.typed(b"a", &mut context.cx());
    predictor.show(b"\x1b[1mb", &mut context.cx());
    assert_eq!(predictor.output(), b"\x1b[1mb");
    assert_eq!((predictor.deadline(), predictor.statistics().keys), (None, 0));
}

#[test]
fn a_key_at_the_end_of_a_line_is_drawn_and_confirmed_with_few_bytes() {
    let mut world = World::with_measured_echo(60, 80, kernel_echo());
    world.predictor.typed(b"x", &mut world.context.cx());
    assert_eq!(world.predictor.output(), b"x");
}

#[test]
fn predictions_do_not_change_the_style_of_other_cells() {
    let mut world = World::with_measured_echo(60, 80, kernel_echo());
    world.show(b"\x1b[32m");
    world.type_keys(b"x");
    assert_eq!(
        world.real_terminal.cell(0, 3).unwrap().style().foreground,
        super::super::Color::Indexed(2)
    );
    assert_eq!(world.real_terminal.style(), world.unpredicted_terminal.style());
}

// Edited lines.

#[test]
fn backspace_is_predicted_only_for_typed_characters() {
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    world.type_keys(b"ab");
    world.type_keys(b"\x7f");
    assert_eq!((world.row().as_str(), world.real_terminal.cursor().1), ("$ wa", 4));
    world.type_keys(b"\x7f\x7f\x7f\x7f");
    assert_eq!((world.row().as_str(), world.real_terminal.cursor().1), ("$", 2));
    world.rest(1000);
    assert!(world.equals_the_host_screen());
}

#[test]
fn text_is_inserted_into_existing_text() {
    let mut world = World::with_measured_echo(100, 80, line_editor("w"));
    world.type_slowly("bcd", 200);
    world.type_keys(b"\x1b[D");
    world.rest(200);
    world.type_keys(b"\x1b[D");
    assert_eq!(world.real_terminal.cursor().1, 4);
    world.rest(200);
    world.type_keys(b"X");
    world.rest(200);
    world.type_keys(b"Y");
    assert_eq!(world.row(), "$ wbXYcd");
    world.rest(2000);
    assert_eq!(world.statistics().wrong, 0);
    assert!(world.equals_the_host_screen());
}

#[test]
fn a_wrongly_predicted_arrow_is_undone() {
    let mut world = World::with_measured_echo(100, 80, line_editor("w"));
    world.type_keys(b"\x1b[D");
    world.rest(200);
    world.type_keys(b"\x1b[C\x1b[C");
    assert_eq!(world.real_terminal.cursor().1, 4);
    world.rest(6000);
    assert_eq!(world.real_terminal.cursor().1, 3);
    assert!(world.equals_the_host_screen());
    assert_eq!(world.statistics().wrong, 1);
}

#[test]
fn a_wide_character_is_inserted_and_erased_as_two_columns() {
    let mut world = World::with_measured_echo(
        100,
        80,
        Box::new(|keys| match keys {
            b"\x7f" => b"\x08\x08  \x08\x08".to_vec(),
            _ => keys.to_vec(),
        }),
    );
    world.type_slowly("界面", 10);
    assert_eq!((world.row().as_str(), world.real_terminal.cursor().1), ("$ w界面", 7));
    world.type_keys(b"\x7f");
    assert_eq!((world.row().as_str(), world.real_terminal.cursor().1), ("$ w界", 5));
    world.rest(1000);
    assert!(world.equals_the_host_screen());
    assert_eq!(world.statistics().wrong, 0);
}

#[test]
fn keys_of_unknown_effect_stop_the_prediction_until_they_time_out() {
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    world.type_keys(b"\t");
    world.type_keys(b"x");
    assert_eq!(world.row(), "$ w");
    world.rest(1000);
    assert_eq!(world.row(), "$ w^Ix");
    world.type_keys(b"y");
    world.rest(200);
    world.type_keys(b"z");
    assert_eq!(world.row(), "$ w^Ixyz");
}

#[test]
fn a_paste_is_not_predicted() {
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    world.type_keys(&[b'p'; 200]);
    assert_eq!(world.row(), "$ w");
    assert_eq!(world.statistics().predicted, 1);
    world.rest(1000);
    assert!(world.equals_the_host_screen());
}

#[test]
fn keys_beyond_the_queue_limit_are_not_predicted() {
    let mut world = World::with_measured_echo(100_000, 1000, kernel_echo());
    for _ in 0..1000 {
        world.type_keys(b"a");
        assert!(world.predictor.queue.len() <= KEYS_MAX);
    }
    assert!(world.context.counted(Counter::PredictionsRefused) > 0);
}

// Line ends.

#[test]
fn keys_typed_after_enter_are_displayed_when_the_new_line_has_echoed() {
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    world.type_keys(b"\r");
    assert_eq!(world.row(), "$ w");
    world.rest(200);
    world.type_keys(b"l");
    assert_eq!(world.row(), "$");
    world.rest(100);
    world.type_keys(b"s");
    assert_eq!(world.row(), "$ ls");
    world.rest(1000);
    assert_eq!(world.statistics().wrong, 0);
}

#[test]
fn a_line_typed_ahead_at_the_bottom_is_confirmed_before_it_scrolls_away() {
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    world.show(b"\x1b[8;1H$ ");
    world.type_slowly("abc", 110);
    world.type_keys(b"def\r");
    assert_eq!(world.row(), "$ abcdef");
    world.rest(1000);
    let statistics = world.statistics();
    assert_eq!((statistics.wrong, statistics.predicted), (0, statistics.confirmed));
    assert!(world.equals_the_host_screen());
}

/// A world with a shell in the first rows and a status line in the last row.
fn world_with_status_line() -> World {
    let mut world = World::with_measured_echo(100, 40, kernel_echo());
    world.predictor.reserve_rows(1);
    world.show(b"\x1b[8;1Hstatus\x1b[1;7r\x1b[7;1H$ ");
    world.type_keys(b"w");
    world.rest(2000);
    world
}

#[test]
fn enter_above_a_status_line_leads_to_the_last_row_of_the_host() {
    let mut world = world_with_status_line();
    world.type_slowly("ls\r", 10);
    assert_eq!(world.real_terminal.row_text(7), "status");
    world.rest(2000);
    assert_eq!((world.row().as_str(), world.real_terminal.row_text(7).as_str()), ("$", "status"));
    assert_eq!(world.statistics().wrong, 0);
    assert!(world.equals_the_host_screen());
}

#[test]
fn nothing_is_predicted_in_a_status_line() {
    let mut world = world_with_status_line();
    world.show(b"\x1b[8;7H");
    world.type_slowly("abc", 10);
    assert_eq!((world.row().as_str(), world.statistics().wrong_seen), ("status", 0));
}

#[test]
fn nothing_is_predicted_between_side_margins() {
    let mut world = World::with_measured_echo(100, 40, kernel_echo());
    world.show(b"\x1b[?69h\x1b[3;20s\x1b[2;5H");
    world.type_slowly("abc", 10);
    assert_eq!(world.row(), "");
}

#[test]
fn keys_typed_before_a_prompt_appear_after_it() {
    let mut world = World::with_measured_echo(300, 80, kernel_echo());
    world.type_slowly("\rls -l", 120);
    world.rest(6000);
    world.type_slowly(" ab", 320);
    assert_eq!(world.row(), "$ ls -l ab");
    world.rest(6000);
    assert!(world.equals_the_host_screen());
    assert_eq!(world.statistics().wrong_seen, 0);
}

// Predictions that must not be displayed.

#[test]
fn a_password_is_never_displayed() {
    let mut world = World::with_measured_echo(100, 80, login());
    world.type_slowly("er\r", 120);
    for key in "secret".chars() {
        world.type_slowly(&String::from(key), 80);
        assert_eq!(world.row(), "Password:");
    }
    world.type_slowly("\r", 120);
    assert_eq!(world.row(), "$");
    world.type_slowly("ls", 120);
    assert_eq!(world.row(), "$ ls");
    assert_eq!(world.statistics().wrong_seen, 0);
    world.rest(10_000);
    assert!(world.equals_the_host_screen());
}

#[test]
fn a_password_typed_before_its_prompt_is_never_displayed() {
    let mut world = World::with_measured_echo(300, 80, login());
    for key in "er\rxyzzy\rls".chars() {
        world.type_slowly(&String::from(key), 50);
        let text = world.real_terminal.text();
        assert!(!text.contains(['x', 'y', 'z']), "{text}");
    }
    world.rest(10_000);
    assert!(world.equals_the_host_screen());
}

#[test]
fn late_predictions_are_hidden_if_echoing_stops_silently() {
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    world.program = silent_program();
    world.type_keys(b"x");
    assert_eq!(world.row(), "$ wx");
    world.rest(149);
    assert_eq!(world.row(), "$ wx");
    world.rest(1);
    assert_eq!(world.row(), "$ w");
    world.type_keys(b"y");
    assert_eq!(world.row(), "$ w");
    world.rest(6000);
    assert_eq!((world.statistics().wrong, world.predictor.deadline()), (2, None));
}

#[test]
fn nothing_is_displayed_once_the_host_stops_echoing() {
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    world.type_keys(b"x");
    world.predictor.interrupt();
    world.draw_output();
    assert_eq!(world.row(), "$ w");
    world.type_keys(b"y");
    assert_eq!(world.row(), "$ w");
}

#[test]
fn a_timing_mark_answer_ends_the_wait_for_keys_without_echo() {
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    world.show(b"\r\nPassword: ");
    world.program = silent_program();
    world.type_keys(b"x");
    assert!(world.predictor.wants_timing_mark());
    world.predictor.timing_mark_sent(&world.context.cx());
    assert!(!world.predictor.wants_timing_mark());
    world.rest(100);
    world.predictor.timing_mark_answered(&mut world.context.cx());
    world.rest(49);
    assert!(world.predictor.deadline().is_some());
    world.rest(1);
    assert_eq!((world.predictor.deadline(), world.statistics().discarded), (None, 1));
}

#[test]
fn an_acknowledged_key_without_echo_ends_the_wait_at_once() {
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    world.show(b"\r\nPassword: ");
    world.program = silent_program();
    world.type_keys(b"x");
    let last_key = world.predictor.last_key();
    world.rest(150);
    assert!(world.predictor.deadline().is_some());
    world.predictor.echo_acknowledged(last_key, &mut world.context.cx());
    assert_eq!((world.predictor.deadline(), world.statistics().discarded), (None, 1));
}

#[test]
fn an_acknowledgment_does_not_cover_keys_typed_later() {
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    let before = world.predictor.last_key();
    world.type_keys(b"x");
    world.predictor.echo_acknowledged(before, &mut world.context.cx());
    assert!(world.predictor.deadline().is_some());
    world.rest(200);
    assert_eq!(world.statistics().wrong, 0);
}

// Full screens.

#[test]
fn editor_commands_are_not_displayed_but_text_is() {
    let mut world = World::with_measured_echo(100, 80, vi());
    world.type_slowly("i\r", 200);
    world.type_slowly("llxx", 90);
    assert_eq!(world.statistics().wrong_seen, 0);
    world.rest(6000);
    world.type_slowly("i", 300);
    world.rest(6000);
    world.type_slowly("a", 200);
    world.type_keys(b"b");
    assert_eq!(world.row(), "~ onabline of text");
    world.rest(1000);
    assert!(world.equals_the_host_screen());
    world.type_keys(b"\x1b");
    world.type_slowly("xx", 300);
    world.rest(6000);
    assert!(world.equals_the_host_screen());
    assert_eq!(world.statistics().wrong_seen, 0);
}

// Lossy connections.

#[test]
fn a_lost_segment_hides_predictions_until_it_is_retransmitted() {
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    world.type_slowly("ab", 10);
    // The retransmission arrives 400 ms later.
    world.to_host.iter_mut().for_each(|(at, _)| *at = *at + Duration::from_millis(400));
    assert_eq!(world.row(), "$ wab");
    world.rest(300);
    assert_eq!(world.row(), "$ w");
    world.rest(1000);
    assert_eq!((world.row().as_str(), world.statistics().wrong), ("$ wab", 0));
    world.type_keys(b"c");
    assert_eq!(world.row(), "$ wabc");
}

#[test]
fn the_echo_time_estimate_follows_a_slower_path() {
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    for round_trip_ms in [200, 400, 800] {
        world.delay = Duration::from_millis(round_trip_ms) / 2;
        world.type_slowly("abcd", 1000);
    }
    assert_eq!(world.statistics().wrong, 0);
    world.type_keys(b"x");
    assert!(world.row().ends_with("dx"));
}

#[test]
fn other_output_does_not_displace_predictions() {
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    world.type_keys(b"ab");
    world.show(b"\r\nYou have mail.\r\n$ ");
    assert_eq!(world.row(), "$");
    assert!(world.equals_the_host_screen());
    world.rest(1000);
    assert!(world.equals_the_host_screen());
}

#[test]
fn nothing_is_predicted_inside_a_sequence() {
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    world.show(b"\x1b[3");
    world.type_keys(b"x");
    assert_eq!(world.predictor.output(), b"");
    world.show(b"1m");
    assert_eq!(world.row(), "$ wx");
    world.rest(100);
    assert!(world.equals_the_host_screen());
    assert_eq!(world.real_terminal.style(), world.unpredicted_terminal.style());
}

#[test]
fn after_a_resize_nothing_is_predicted_until_a_carriage_return() {
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    world.predictor.resize(60, 8);
    world.type_slowly("ab", 200);
    assert_eq!(world.statistics().shown, 0);
    world.show(b"\r$ wab");
    world.type_slowly("cd", 200);
    assert_eq!(world.statistics().shown, 2);
}

#[test]
fn skipping_lines_of_a_flood_does_not_change_the_screen() {
    let line = |number: u32| format!("line {number} of a long file\r\n");
    let flood: String = (0..2000).map(line).collect();
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    world.show(flood.as_bytes());
    let host_screen = world.predictor.host_screen.picture();
    assert_eq!(host_screen, world.unpredicted_terminal.picture());
    assert!(world.predictor.without_scrolled_lines(flood.as_bytes()).len() < 400);
}

#[test]
fn predictions_that_no_longer_fit_into_a_row_are_not_drawn() {
    let mut world = World::new(0, 15, kernel_echo());
    world.predictor.set_mode(Mode::Always);
    world.type_keys(b"a");
    world.rest(195);
    world.type_keys(b"aaa");
    world.type_keys(b"\x1b[A");
    world.show("\r   éß🙂ßééé🙂界\x1b[H".as_bytes());
    world.rest(20_000);
    assert!(world.equals_the_host_screen());
}

// Arbitrary events.

/// One action in a randomly generated session.
#[derive(Clone, Debug)]
enum Step {
    Types(Vec<u8>),
    Says(Vec<u8>),
    Rests(u64),
    IsAnswered,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let keys = prop_oneof![
        6 => "[a-z \x7f]{1,3}".prop_map(String::into_bytes),
        2 => "(\x1b\\[[A-D]|\r|\t|é|界|\x1b)".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    // REP is excluded, since the character that it repeats may be one of the overlay.
    let is_rep = |stream: &[u8]| stream.contains(&b'b');
    let streams = super::super::tests::streams().prop_map(move |stream| match is_rep(&stream) {
        true => stream.into_iter().filter(|byte| *byte != b'b').collect(),
        false => stream,
    });
    let step = prop_oneof![
        8 => keys.prop_map(Step::Types),
        1 => streams.prop_map(Step::Says),
        1 => "(\r\n\\$ |\r|[a-z]|\x08|\x1b\\[K)".prop_map(|program_output| Step::Says(program_output.into_bytes())),
        4 => (1..300_u64).prop_map(Step::Rests),
        1 => Just(Step::IsAnswered),
    ];
    prop::collection::vec(step, 1..60)
}

fn host_screens() -> impl Strategy<Value = (u8, u64, u16)> {
    (0..5_u8, 0..400_u64, 2..60_u16)
}

proptest! {
    #[test]
    fn the_screen_equals_that_of_the_host_for_any_predictions(
        steps in steps(),
        (program, round_trip_ms, columns) in host_screens(),
        is_always in any::<bool>(),
    ) {
        let program = match program {
            0 => kernel_echo(),
            1 => line_editor(""),
            2 => login(),
            3 => vi(),
            _ => silent_program(),
        };
        let mut world = World::new(round_trip_ms, columns, program);
        world.predictor.set_mode(if is_always { Mode::Always } else { Mode::Auto });
        for step in steps {
            match step {
                Step::Types(keys) => world.type_keys(&keys),
                Step::Says(program_output) => world.show(&program_output),
                Step::Rests(millis) => world.rest(millis),
                Step::IsAnswered => {
                    world.predictor.timing_mark_sent(&world.context.cx());
                    world.predictor.timing_mark_answered(&mut world.context.cx());
                    world.draw_output();
                }
            }
            prop_assert!(world.predictor.queue.len() <= KEYS_MAX);
        }
        world.rest(20_000);
        prop_assert_eq!(world.predictor.deadline(), None);
        prop_assert!(world.equals_the_host_screen());
        prop_assert!(world.predictor.host_screen.picture() == world.unpredicted_terminal.picture());
        // Hidden state, such as a pending wrap or the style of the next character.
        world.show(b"xy\r\nz\x1b8u");
        prop_assert!(world.equals_the_host_screen());
        let statistics = world.statistics();
        prop_assert!(statistics.shown <= statistics.predicted);
        let outcome_count = statistics.confirmed + statistics.wrong + statistics.discarded;
        prop_assert_eq!(outcome_count, statistics.predicted);
        prop_assert!(statistics.wrong_seen <= statistics.shown);
    }
}
