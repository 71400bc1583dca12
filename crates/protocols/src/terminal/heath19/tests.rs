//! Tests of the Heath-19 through its public interface. The first part follows the conformance list
//! of the terminal; the test names begin with the item number of that list.

use super::*;
use crate::terminal::{Attributes, Terminal, draw};
use net::cx::OwnedCx;
use net::meter::{Clock, Costs};
use proptest::prelude::*;
use std::borrow::ToOwned;
use std::format;
use std::string::String;
use std::vec::Vec;
use transmit::PAGE_BYTES_MAX;

/// A terminal and the context that its methods need.
struct Harness {
    terminal: Heath19,
    context: OwnedCx,
}

impl Harness {
    fn new() -> Self {
        let mut terminal = Heath19::new(Switches::default());
        terminal.transmit_on_request(true);
        Self { terminal, context: OwnedCx::default() }
    }

    fn with(input: impl AsRef<[u8]>) -> Self {
        let mut harness = Self::new();
        harness.receive(input);
        harness
    }

    fn receive(&mut self, input: impl AsRef<[u8]>) -> ScreenEffect {
        self.terminal.receive(input.as_ref(), &mut self.context.cx())
    }

    fn key(&mut self, key: Key, shift: bool) {
        self.terminal.key(key, Modifiers { shift, control: false }, &mut self.context.cx());
    }

    fn take_output(&mut self) -> String {
        let output = String::from_utf8(self.terminal.output().to_vec()).unwrap();
        self.terminal.sent(output.len());
        output
    }

    fn is_reverse(&self, row: u16, column: u16) -> bool {
        is_reverse(self.terminal.cell(row, column).unwrap())
    }
}

fn is_reverse(cell: &Cell) -> bool {
    cell.style().attributes.contains(Attributes::REVERSE)
}

/// Returns the ESC Y sequence that moves the cursor to `row` and `column`.
fn cursor_sequence(row: u8, column: u8) -> String {
    format!("\x1bY{}{}", char::from(row + b' '), char::from(column + b' '))
}

#[track_caller]
fn assert_screen(input: impl AsRef<[u8]>, text: &str, cursor: (u16, u16)) {
    let harness = Harness::with(input);
    assert_eq!(harness.terminal.text(), text);
    assert_eq!(harness.terminal.cursor(), cursor);
}

fn row_of_80(c: char) -> String {
    String::from(c).repeat(80)
}

// The conformance list.

#[test]
fn item_1_a_full_row_leaves_the_cursor_on_the_next_at_once() {
    assert_screen(row_of_80('a'), &row_of_80('a'), (1, 0));
    assert_screen(row_of_80('a') + "b", &format!("{}\nb", row_of_80('a')), (1, 1));
}

#[test]
fn item_2_filling_the_last_cell_of_row_23_scrolls() {
    assert_screen(
        format!("first\n\rsecond{}{}", cursor_sequence(23, 79), "x"),
        &filled_and_scrolled(),
        (23, 0),
    );
}

fn filled_and_scrolled() -> String {
    format!("second{}{}x", "\n".repeat(22), " ".repeat(79))
}

#[test]
fn item_3_without_wrap_column_79_is_overwritten() {
    assert_screen(
        format!("\x1bw{}xyz", row_of_80('a')),
        &format!("{}z", &row_of_80('a')[..79]),
        (0, 79),
    );
}

#[test]
fn item_4_after_column_72_a_tab_moves_one_column_and_at_79_none() {
    for (from, stop) in [(0, 8), (7, 8), (8, 16), (71, 72), (72, 73), (78, 79), (79, 79)] {
        let harness = Harness::with(cursor_sequence(0, from) + "\t");
        assert_eq!(harness.terminal.cursor(), (0, stop), "from {from}");
    }
}

#[test]
fn item_5_invalid_rows_are_ignored_and_invalid_columns_mean_the_last() {
    let start = cursor_sequence(5, 5);
    for (sequence, cursor) in [
        ("\x1bY9(", (5, 8)),
        ("\x1bY\x1f(", (5, 8)),
        ("\x1bY8(", (5, 8)),
        ("\x1bY*\x7f", (10, 79)),
        ("\x1bY*p", (10, 79)),
        ("\x1bY*\x1f", (10, 79)),
        ("\x1bY\x18", (5, 5)),
        ("\x1bY*\x18", (10, 5)),
    ] {
        let harness = Harness::with(start.clone() + sequence);
        assert_eq!(harness.terminal.cursor(), cursor, "{sequence:?}");
    }
}

#[test]
fn item_6_enabling_the_25th_line_clears_it_unless_it_is_on() {
    let mut harness = Harness::with(format!("\x1bx1{}status\x1bx1", cursor_sequence(24, 0)));
    assert_eq!(
        (harness.terminal.row_text(24).as_str(), harness.terminal.cursor()),
        ("status", (24, 6))
    );
    harness.receive("\x1by1\x1bx1");
    assert_eq!((harness.terminal.row_text(24).as_str(), harness.terminal.cursor()), ("", (24, 6)));
}

#[test]
fn item_6_operations_on_the_25th_line_do_not_affect_other_rows() {
    let mut harness = Harness::with(format!("main\x1bx1{}status", cursor_sequence(24, 0)));
    harness.receive("\n\x1bA\x1bB\x1bI");
    assert_eq!(
        (harness.terminal.row_text(24).as_str(), harness.terminal.cursor()),
        ("status", (24, 6))
    );
    harness.receive(row_of_80('w'));
    assert_eq!(harness.terminal.cursor(), (24, 6));
    harness.receive("\x1bE");
    assert_eq!((harness.terminal.row_text(24).as_str(), harness.terminal.cursor()), ("", (24, 6)));
    assert_eq!(harness.terminal.text(), "main");
}

#[test]
fn item_6_the_25th_line_survives_scrolling_both_ways() {
    let mut harness = Harness::with(format!("\x1bx1{}status\x1bHtop", cursor_sequence(24, 0)));
    harness.receive(cursor_sequence(23, 0) + "\n\n");
    assert_eq!(
        (harness.terminal.text(), harness.terminal.row_text(24)),
        ("".into(), "status".into())
    );
    harness.receive("\x1bHup\x1bI\x1bI");
    assert_eq!(harness.terminal.row_text(24), "status");
    assert_eq!(harness.terminal.row_text(2), "up");
}

#[test]
fn item_7_inserting_and_deleting_lines_return_to_column_0() {
    assert_screen(format!("a\r\nb\r\nc{}\x1bL", cursor_sequence(1, 1)), "a\n\nb\nc", (1, 0));
    assert_screen(format!("a\r\nb\r\nc{}\x1bM", cursor_sequence(1, 1)), "a\nc", (1, 0));
}

#[test]
fn item_8_inserted_characters_push_column_79_out() {
    let row = &row_of_80('a')[..79];
    assert_screen(format!("\x1bw{row}z\x1bH\x1b@xy\x1bO"), &format!("xy{}", &row[..78]), (0, 2));
}

#[test]
fn item_9_erasing_writes_plain_spaces_and_includes_the_cursor() {
    let start = format!("\x1bpabc\r\ndef\r\nghi{}", cursor_sequence(1, 1));
    for (sequence, text) in [
        ("\x1bb", "\n  f\nghi"),
        ("\x1bJ", "abc\nd"),
        ("\x1bl", "abc\n\nghi"),
        ("\x1bo", "abc\n  f\nghi"),
        ("\x1bK", "abc\nd\nghi"),
        ("\x1bE", ""),
    ] {
        let harness = Harness::with(start.clone() + sequence);
        assert_eq!(harness.terminal.text(), text, "{sequence:?}");
        assert!(!harness.is_reverse(1, 1), "{sequence:?}");
    }
}

#[test]
fn item_10_an_unknown_mode_number_is_processed_as_a_character() {
    assert_screen("\x1bx0\x1by:\x1bx\ry\x1bx\x18z", "yz", (0, 2));
    assert_screen("\x1bx0", "0", (0, 1));
}

#[test]
fn item_11_an_unknown_byte_after_esc_is_dropped() {
    let harness = Harness::with("a\x1bXb\x1b\nc\x1b\x1b\x1bHd");
    assert_eq!(harness.terminal.text(), "dbc");
    assert_eq!(harness.context.counted(Counter::TerminalSequencesUnknown), 2);
}

#[test]
fn item_12_delete_and_unknown_controls_display_nothing() {
    assert_screen(b"a\x7f\x01\x0b\x0c\x0e\x80\0\x18\x11b", "ab", (0, 2));
}

#[test]
fn item_13_a_list_of_renditions_ends_at_an_unknown_number() {
    let harness = Harness::with("\x1b<\x1b[1;7ma\x1b[7;1mb\x1b[mc\x1b[10m`\x1b[0md`\x1b[11m`");
    assert_eq!(harness.terminal.text(), "abc│┘│`");
    let reverse: Vec<_> = (0..4).map(|column| harness.is_reverse(0, column)).collect();
    assert_eq!(reverse, [false, true, false, false]);
}

#[test]
fn item_14_reports_have_the_format_of_the_mode() {
    let mut harness = Harness::with(cursor_sequence(5, 7) + "\x1bn\x1bZ");
    assert_eq!(harness.take_output(), "\x1bY%'\x1b/K");
    harness.receive("\x1b<\x1b[6n\x1b[5n\x1b[c\x1bZ");
    assert_eq!(harness.take_output(), "\x1b[6;8R");
    assert_eq!(harness.context.counted(Counter::TerminalReports), 3);
}

#[test]
fn item_15_a_page_is_sent_with_the_sequences_that_display_it() {
    let mut harness = Harness::with("a\x1bF`\x1bpa\x1bGb\x1bqc\x1b#");
    let blanks = |count: usize| " ".repeat(count);
    assert_eq!(harness.take_output(), format!("a\x1bF`\x1bpa\x1bGb\x1bqc{}\r", blanks(1915)));
    assert_eq!(harness.terminal.event(), Some(Event::Bell));
    harness.receive("\x1b<\x1b[p\x1b[1p");
    let page = format!("a\x1b[10m`\x1b[7ma\x1b[11mb\x1b[mc{}\r", blanks(1915));
    assert_eq!(harness.take_output(), page);
}

#[test]
fn item_15_the_25th_line_is_sent_by_itself_or_as_a_cr_if_off() {
    let mut harness = Harness::with("main\x1b]");
    assert_eq!(harness.take_output(), "\r");
    harness.receive(format!("\x1bx1{}\x1bF^_\x1b]", cursor_sequence(24, 78)));
    assert_eq!(harness.take_output(), format!("{}\x1bF^_\r", " ".repeat(78)));
}

/// Returns a terminal in hold screen mode that has received a full screen and `lines` further
/// lines.
fn held_terminal(lines: usize) -> Harness {
    let mut harness = Harness::with(cursor_sequence(23, 0) + "\x1b[");
    harness.receive("x\r\n".repeat(lines));
    harness
}

#[test]
fn item_16_a_held_screen_sends_xoff_and_scroll_releases_one_line() {
    let mut harness = held_terminal(2);
    assert_eq!((harness.take_output().as_str(), harness.terminal.is_held()), ("\x13", true));
    assert_eq!((harness.terminal.row_text(23).as_str(), harness.terminal.waiting()), ("x", 3));
    harness.key(Key::Scroll, false);
    assert_eq!((harness.take_output().as_str(), harness.terminal.is_held()), ("\x11\x13", true));
    assert_eq!((harness.terminal.row_text(22).as_str(), harness.terminal.waiting()), ("x", 0));
    harness.key(Key::Character(b'k'), false);
    assert_eq!(harness.take_output(), "k");
}

#[test]
fn item_16_scroll_with_shift_releases_24_lines() {
    let mut harness = held_terminal(1);
    harness.take_output();
    harness.key(Key::Scroll, true);
    assert_eq!(harness.take_output(), "\x11");
    harness.receive("y\r\n".repeat(23));
    assert_eq!((harness.take_output().as_str(), harness.terminal.is_held()), ("", false));
    harness.receive("z\r\n");
    assert_eq!((harness.take_output().as_str(), harness.terminal.is_held()), ("\x13", true));
}

#[test]
fn item_16_the_line_feed_of_a_wrap_and_one_above_row_23_are_not_held() {
    let mut harness = held_terminal(0);
    harness.receive(row_of_80('w') + &cursor_sequence(22, 0) + "\n");
    assert!(!harness.terminal.is_held());
    harness.receive("\n");
    assert!(harness.terminal.is_held());
}

#[test]
fn item_17_xoff_is_sent_from_112_queued_bytes_and_xon_below_96() {
    let mut harness = held_terminal(1);
    assert_eq!(harness.take_output(), "\x13");
    harness.receive("a".repeat(112));
    assert_eq!((harness.take_output().as_str(), harness.terminal.waiting()), ("", 112));
    harness.receive("bc");
    assert_eq!((harness.take_output().as_str(), harness.terminal.waiting()), ("\x13\x13", 114));
    harness.key(Key::Scroll, false);
    assert_eq!((harness.take_output().as_str(), harness.terminal.waiting()), ("\x11\x11", 0));
}

#[test]
fn item_17_xon_waits_until_fewer_than_96_bytes_are_left() {
    let mut harness = held_terminal(1);
    harness.receive(format!("\n{}", "a".repeat(112)));
    harness.take_output();
    // The first SCROLL executes the held line feed. The next line feed is held again, with 112
    // bytes left in the queue.
    harness.key(Key::Scroll, false);
    assert_eq!((harness.take_output().as_str(), harness.terminal.waiting()), ("\x11\x13", 112));
    harness.key(Key::Scroll, false);
    assert_eq!((harness.take_output().as_str(), harness.terminal.waiting()), ("\x11\x11", 0));
}

#[test]
fn item_17_a_full_fifo_releases_one_line() {
    let mut harness = held_terminal(1);
    harness.receive("a".repeat(79) + "\r\n" + &"b".repeat(46));
    assert_eq!((harness.terminal.is_held(), harness.terminal.waiting()), (true, 127));
    harness.receive("b");
    assert_eq!((harness.terminal.is_held(), harness.terminal.waiting()), (true, 47));
    assert_eq!(harness.terminal.row_text(23), "a".repeat(79));
}

/// Returns the bytes of the keypad keys 0 to 9, the point and ENTER, separated by blanks.
fn keypad(is_ansi: bool, is_shifted: bool, is_keypad_alternate: bool, inserts: bool) -> String {
    let keys = (0..10).map(Key::Pad).chain([Key::PadPoint, Key::PadEnter]);
    let modes = KeyModes { is_ansi, inserts, is_keypad_shifted: is_shifted, is_keypad_alternate };
    let codes = keys.map(|key| {
        let code = key.code(Modifiers::default(), modes);
        // SHIFT and keypad-shifted mode have the same effect, and cancel each other.
        let other = KeyModes { is_keypad_shifted: !is_shifted, ..modes };
        assert_eq!(key.code(Modifiers { shift: true, control: false }, other), code);
        String::from_utf8(code.bytes().to_vec()).unwrap().replace('\x1b', "^").replace('\r', "CR")
    });
    codes.collect::<Vec<_>>().join(" ")
}

#[test]
fn item_18_the_keypad_codes_are_correct_in_all_modes() {
    let digits = "0 1 2 3 4 5 6 7 8 9 . CR";
    assert_eq!(keypad(false, false, false, false), digits);
    assert_eq!(keypad(true, false, false, false), digits);
    let shifted = "0 ^L ^B ^M ^D ^H ^C ^@ ^A ^N . CR";
    assert_eq!(keypad(false, true, false, false), shifted);
    assert_eq!(keypad(false, true, false, true), shifted.replace('@', "O"));
    let shifted = "0 ^[L ^[B ^[M ^[D ^[H ^[C ^[4h ^[A ^[P . CR";
    assert_eq!(keypad(true, true, false, false), shifted);
    assert_eq!(keypad(true, true, false, true), shifted.replace("4h", "4l"));
    let alternate = "^?p ^?q ^?r ^?s ^?t ^?u ^?v ^?w ^?x ^?y ^?n ^?M";
    assert_eq!(keypad(false, false, true, false), alternate);
    assert_eq!(keypad(true, false, true, false), alternate.replace('?', "O"));
    let shifted_alternate = "^?p ^L ^B ^M ^D ^H ^C ^@ ^A ^N ^?n ^?M";
    assert_eq!(keypad(false, true, true, false), shifted_alternate);
    let shifted_alternate = "^Op ^[L ^[B ^[M ^[D ^[H ^[C ^[4h ^[A ^[P ^On ^OM";
    assert_eq!(keypad(true, true, true, false), shifted_alternate);
}

#[test]
fn item_19_every_graphics_byte_has_its_glyph() {
    let bytes: String = (b' '..0x7f).map(char::from).collect();
    let harness = Harness::with(format!("\x1bw\x1bF{}\r\n{}", &bytes[..62], &bytes[62..]));
    assert_eq!(harness.terminal.row_text(0), bytes[..62].trim_end());
    let glyphs = "●◥│─┼┐┘└┌±→▒÷↓▗▖▘▝▀▐◤┬┤┴├╳╱╲▔▁▏▕¶";
    assert_eq!(harness.terminal.row_text(1), glyphs);
    assert!(glyphs.chars().zip(b'^'..).all(|(glyph, byte)| glyphs::byte_for(glyph) == Some(byte)));
}

// The remaining functions of the two modes.

#[test]
fn the_cursor_stops_at_the_edges_and_never_wraps() {
    assert_screen("\x1bA\x1bD\x08", "", (0, 0));
    assert_screen(cursor_sequence(23, 79) + "\x1bB\x1bC", "", (23, 79));
    assert_screen(cursor_sequence(7, 9) + "\x1bj\x1bH\x1bk", "", (7, 9));
}

#[test]
fn a_diagonal_line_of_motions_is_the_same_in_both_modes() {
    assert_screen(cursor_sequence(5, 5) + "\x1bA\x1bB\x1bB\x1bC\x1bC\x1bD", "", (6, 6));
    assert_screen("\x1b<\x1b[6;6H\x1b[A\x1b[2B\x1b[0;9C\x1b[255D\x1b[6C", "", (6, 6));
}

#[test]
fn a_position_with_one_parameter_uses_the_final_byte_as_the_column() {
    assert_screen("\x1b<\x1b[3H", "", (2, 71));
    assert_screen("\x1b<\x1b[3f", "", (2, 79));
    assert_screen("\x1b<\x1b[99;9H\x1b[25;300H", "", (0, 43));
}

#[test]
fn a_semicolon_right_after_the_bracket_ends_the_sequence() {
    assert_screen("\x1b<\x1b[;5Hx", "5Hx", (0, 3));
}

#[test]
fn a_control_in_a_parameter_string_is_the_final_byte() {
    assert_screen("\x1b<ab\x1b[2\rc\x1b[\x1b[Kd", "abc[Kd", (0, 6));
}

#[test]
fn ansi_mode_ends_with_its_mode_2_and_has_no_heath_sequences() {
    assert_screen("\x1b<\x1bHa\x1bEb\x1b[?2hc\x1bHd", "dbc", (0, 1));
}

#[test]
fn ansi_edits_accept_counts() {
    assert_screen("a\r\nb\r\nc\r\nd\x1b<\x1b[2;1H\x1b[2M", "a\nd", (1, 0));
    assert_screen("a\r\nb\x1b<\x1b[1;1H\x1b[2L", "\n\na\nb", (0, 0));
    assert_screen("abcdef\x1b<\x1b[1;2H\x1b[3P", "aef", (0, 1));
    assert_screen("abc\x1b<\x1b[2J", "", (0, 0));
    assert_screen("abc\r\ndef\x1b<\x1b[1J\x1b[1;2H\x1b[1K", "", (0, 1));
}

#[test]
fn ansi_modes_1_to_9_are_those_of_heath_mode_and_end_at_10() {
    let mut harness = Harness::with("\x1b<\x1b[>1;9;10;6hab\ncd");
    assert_eq!(
        (harness.terminal.has_line_25(), harness.terminal.text().as_str()),
        (true, "ab\ncd")
    );
    assert!(!harness.terminal.key_modes().is_keypad_shifted);
    harness.receive("\x1b[>1l\x1b[20l\nx\x1b[4h\x1b[?7l");
    assert!(!harness.terminal.has_line_25());
    assert_eq!(
        (harness.terminal.row_text(2).as_str(), harness.terminal.key_modes().inserts),
        ("  x", true)
    );
}

#[test]
fn automatic_line_feed_and_return_do_not_trigger_each_other_repeatedly() {
    assert_screen("\x1bx8ab\rc", "ab\nc", (1, 1));
    assert_screen("\x1bx9ab\nc", "ab\nc", (1, 1));
    assert_screen("\x1bx8\x1bx9ab\rc\nd", "ab\nc\nd", (2, 1));
}

#[test]
fn baud_codes_are_reported_and_others_ignored() {
    let mut harness = Harness::with("\x1brA");
    assert_eq!(harness.terminal.event(), Some(Event::BaudRate(110)));
    harness.receive("\x1brN\x1br@\x1b<\x1b[14r");
    assert_eq!(harness.terminal.event(), None);
    harness.receive("\x1b[13r\x07");
    assert_eq!(harness.terminal.event(), Some(Event::Bell));
    assert_eq!(harness.terminal.event(), Some(Event::BaudRate(19_200)));
}

#[test]
fn reset_restores_the_power_on_state() {
    let mut harness = Harness::with("\x1bx1\x1bF\x1bp\x1b@\x1b[\x1bx5\x1bx4\x1bw\x1b<abc");
    harness.receive("\x1b[z");
    let new_terminal = Harness::new();
    assert_eq!(harness.terminal.picture(), new_terminal.terminal.picture());
    assert_eq!(harness.terminal.key_modes(), new_terminal.terminal.key_modes());
    harness.receive(row_of_80('x'));
    assert_eq!(harness.terminal.cursor(), (1, 0));
}

#[test]
fn the_switches_determine_the_power_on_state() {
    let switches = Switches::from_settings(0b0000_0000, 0b0110_1101);
    let expected = Switches {
        baud_rate: 110,
        is_full_duplex: false,
        has_block_cursor: true,
        is_silent: false,
        wraps: true,
        feeds_on_return: true,
        returns_on_feed: false,
        is_ansi: true,
        is_keypad_shifted: true,
    };
    assert_eq!(switches, expected);
    assert_eq!(Switches::from_settings(0x8d, 0).baud_rate, 19_200);
}

// Keys.

#[test]
fn function_keys_send_the_letters_of_the_mode() {
    let keys = [Key::F1, Key::F5, Key::Blue, Key::Gray, Key::Erase];
    let mut harness = Harness::new();
    keys.into_iter().for_each(|key| harness.key(key, false));
    harness.key(Key::Erase, true);
    assert_eq!(harness.take_output(), "\x1bS\x1bW\x1bP\x1bR\x1bJ\x1bE");
    harness.receive("\x1b<");
    keys.into_iter().for_each(|key| harness.key(key, false));
    harness.key(Key::Erase, true);
    assert_eq!(harness.take_output(), "\x1bOS\x1bOW\x1bOP\x1bOR\x1b[J\x1b[2J");
}

#[test]
fn ctrl_sends_control_codes_and_executes_functions_locally() {
    let mut harness = Harness::with("abc\x1bH");
    let control = Modifiers { shift: false, control: true };
    for key in [Key::Character(b'c'), Key::Character(b'1'), Key::Character(b'@'), Key::Erase] {
        harness.terminal.key(key, control, &mut harness.context.cx());
    }
    assert_eq!((harness.take_output().as_str(), harness.terminal.text().as_str()), ("\x031\0", ""));
}

#[test]
fn off_line_keys_go_to_the_screen_and_the_host_is_ignored() {
    let mut harness = Harness::new();
    harness.terminal.set_off_line(true);
    harness.receive("host");
    harness.key(Key::Character(b'k'), false);
    assert_eq!((harness.take_output().as_str(), harness.terminal.text().as_str()), ("", "k"));
}

#[test]
fn in_half_duplex_keys_go_to_line_and_screen() {
    let switches = Switches { is_full_duplex: false, ..Switches::default() };
    let mut harness = Harness { terminal: Heath19::new(switches), context: OwnedCx::default() };
    harness.key(Key::Character(b'k'), false);
    assert_eq!((harness.take_output().as_str(), harness.terminal.text().as_str()), ("k", "k"));
}

#[test]
fn a_disabled_keyboard_sends_nothing() {
    let mut harness = Harness::with("\x1b}");
    harness.key(Key::Character(b'k'), false);
    assert_eq!(harness.take_output(), "");
    harness.receive("\x1b{");
    harness.key(Key::Character(b'k'), false);
    assert_eq!(harness.take_output(), "k");
}

#[test]
fn keys_ring_the_bell_if_the_fifo_of_a_held_screen_is_full() {
    let switches = Switches { is_full_duplex: false, ..Switches::default() };
    let mut harness = Harness { terminal: Heath19::new(switches), context: OwnedCx::default() };
    harness.receive(cursor_sequence(23, 0) + "\x1b[\n" + &"a".repeat(127));
    harness.key(Key::F1, false);
    assert_eq!(harness.context.counted(Counter::TerminalInputOverruns), 1);
    assert_eq!(harness.terminal.event(), Some(Event::Bell));
}

// The output.

// attack row 74
#[test]
fn row_74_replies_are_fixed_and_dropped_if_the_client_does_not_read() {
    let harness = Harness::with("\x1bZ\x1bn".repeat(1000));
    assert_eq!(harness.terminal.output().len(), 255);
    assert!(harness.terminal.output().iter().all(|byte| b"\x1b/KY ".contains(byte)));
    assert_eq!(harness.context.counted(Counter::TerminalReportsRefused), 1927);
}

// attack row 65
#[test]
fn row_65_a_page_is_not_sent_without_permission() {
    let mut harness = Harness::new();
    harness.terminal.transmit_on_request(false);
    harness.receive("rm -rf ~\x1b#\x1b]\x1b<\x1b[p\x1b[q");
    assert_eq!(harness.take_output(), "");
    assert_eq!(harness.context.counted(Counter::TerminalReportsRefused), 4);
}

#[test]
fn only_one_unread_page_is_queued() {
    let pattern = "\x1bpa\x1b[10m`\x1b[7m`\x1b[11m".repeat(3);
    let harness = Harness::with("\x1b#".repeat(100) + &pattern);
    assert_eq!(harness.terminal.output().len(), 1921);
    assert_eq!(harness.context.counted(Counter::TerminalReportsRefused), 99);
}

#[test]
fn the_largest_page_has_both_changes_at_each_cell() {
    let mut harness = Harness::with("\x1b<\x1b[?7l");
    for row in 1..=24 {
        harness.receive(format!("\x1b[{row};1H"));
        harness.receive("\x1b[7;10ma\x1b[0;11ma".repeat(40));
    }
    harness.receive("\x1b[p");
    // Turning reverse video off takes one byte less than turning it on.
    let expected = 1920 + 960 * (5 + 4) + 960 * (5 + 3) - 8 + 8 + 1 - (5 + 3) + (5 + 3);
    assert!(harness.terminal.output().len() <= PAGE_BYTES_MAX);
    assert_eq!(harness.terminal.output().len(), expected);
}

#[test]
fn the_last_xon_reaches_a_host_that_reads_late() {
    let mut harness = Harness::with("\x1bZ".repeat(86));
    harness.receive(cursor_sequence(23, 0) + "\x1b[\n");
    harness.key(Key::Scroll, false);
    assert_eq!((harness.terminal.output().len(), harness.terminal.is_held()), (256, false));
    harness.terminal.sent(0);
    assert_eq!(harness.terminal.output().len(), 256);
    harness.take_output();
    assert_eq!(harness.take_output(), "\x11");
}

// The meter and the picture.

#[test]
fn bytes_and_new_lines_are_charged_to_the_terminal() {
    let mut harness = Harness::new();
    let costs = Costs::default().with(Work::TerminalByte, 10).with(Work::NewLine, 1000);
    harness.context.meter = Meter::new(Clock::Virtual(costs));
    let written = harness.receive(row_of_80('a') + "b\r\n\x1bH");
    assert_eq!(written, ScreenEffect { cells: 81, new_lines: 2 });
    assert_eq!(harness.context.meter.charged(Account::Terminal), 85 * 10 + 2 * 1000);
}

#[test]
fn a_picture_includes_the_25th_line_and_the_visible_cursor() {
    let mut harness = Harness::with(format!("top\x1bx1\x1bx4{}status", cursor_sequence(24, 0)));
    let picture = harness.terminal.picture();
    assert_eq!((picture.size(), picture.cell(24, 0).unwrap().character()), ((80, 25), 's'));
    let cursor = PictureCursor { row: 24, column: 6, shape: CursorShape::Block };
    assert_eq!(picture.cursor(), Some(cursor));
    harness.receive("\x1by1");
    assert_eq!(harness.terminal.picture().cursor(), None);
    assert_eq!(harness.terminal.picture().cell(24, 0).unwrap().character(), ' ');
    harness.receive("\x1bH\x1bx5");
    assert_eq!(harness.terminal.picture().cursor(), None);
}

// Arbitrary bytes.

/// Generates host output in which most bytes belong to valid sequences or text.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[ -~]{1,90}".prop_map(String::into_bytes),
        4 => "\x1b[ -~]".prop_map(String::into_bytes),
        2 => "\x1bY[ -9][ -p]".prop_map(String::into_bytes),
        2 => "\x1b[xy][0-9]".prop_map(String::into_bytes),
        2 => "\x1b<(\x1b\\[[?>]?[0-9;]{0,6}[ -~]){1,5}".prop_map(String::into_bytes),
        2 => "\x1b\\[\\?2h".prop_map(String::into_bytes),
        3 => "[\n\r\t\x08\x1b\x18]{1,3}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 1..200),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn keys() -> impl Strategy<Value = (Key, Modifiers)> {
    let key = prop_oneof![
        any::<u8>().prop_map(Key::Character),
        any::<u8>().prop_map(Key::Pad),
        prop::sample::select(std::vec![Key::Scroll, Key::F1, Key::Erase, Key::PadEnter]),
    ];
    let modifiers = (any::<bool>(), any::<bool>());
    (key, modifiers.prop_map(|(shift, control)| Modifiers { shift, control }))
}

proptest! {
    #[test]
    fn arbitrary_bytes_and_keys_keep_the_cursor_inside_and_the_queues_bounded(
        steps in prop::collection::vec((streams(), keys()), 1..4),
        settings in any::<(u8, u8)>(),
    ) {
        let switches = Switches::from_settings(settings.0, settings.1);
        let mut harness = Harness { terminal: Heath19::new(switches), context: OwnedCx::default() };
        for (stream, (key, modifiers)) in steps {
            harness.receive(stream);
            harness.terminal.key(key, modifiers, &mut harness.context.cx());
            let (row, column) = harness.terminal.cursor();
            prop_assert!(row < 25 && column < 80);
            prop_assert!(harness.terminal.waiting() <= 128);
            prop_assert!(harness.terminal.output().len() <= 256 + PAGE_BYTES_MAX);
            prop_assert!(harness.terminal.is_held() || harness.terminal.waiting() == 0);
        }
    }

    #[test]
    fn the_result_does_not_depend_on_the_chunks(
        stream in streams(),
        sizes in prop::collection::vec(1..9_usize, 1..20),
    ) {
        let unsplit = Harness::with(&stream);
        let mut split = Harness::new();
        let mut rest = stream.as_slice();
        let mut sizes = sizes.into_iter().cycle();
        while !rest.is_empty() {
            let (part, later) = rest.split_at(sizes.next().unwrap().min(rest.len()));
            split.receive(part);
            rest = later;
        }
        prop_assert_eq!(format!("{:?}", unsplit.terminal), format!("{:?}", split.terminal));
    }

    #[test]
    fn the_rendered_screen_equals_the_model(steps in prop::collection::vec(streams(), 1..5)) {
        let mut harness = Harness::new();
        let mut screen = Terminal::new(80, 25);
        let mut old = Picture::new(80, 25);
        for stream in steps {
            harness.receive(stream);
            let new = harness.terminal.picture();
            screen.receive(&draw(&old, &new), &mut harness.context.cx());
            let displayed = screen.picture();
            let place = |picture: &Picture| picture.cursor().map(|at| (at.row, at.column));
            prop_assert_eq!(place(&displayed), place(&new));
            for row in 0..25 {
                prop_assert_eq!(displayed.row(row), new.row(row), "row {}", row);
            }
            old = new;
        }
    }
}

// Private sequences of ECMA-48.

fn terminal_without_private_sequences() -> Harness {
    let mut harness = Harness::new();
    harness.terminal.ignore_private_sequences(true);
    harness
}

// attack row 135
#[test]
fn private_sequences_are_dropped_and_do_not_hold_the_screen() {
    let sequences = ["\x1b[?2004h", "\x1b[?25l", "\x1b[?1049h", "\x1b[?1;2c", "\x1b[?2004$p"];
    for sequence in sequences {
        for cut in 0..sequence.len() {
            let mut harness = terminal_without_private_sequences();
            harness.receive(cursor_sequence(23, 0));
            let (first, second) = sequence.split_at(cut);
            harness.receive(first);
            harness.receive(format!("{second}$ \n\n\r"));
            assert_eq!((harness.terminal.is_held(), harness.take_output()), (false, String::new()));
            assert_eq!(harness.terminal.row_text(21), "$", "{sequence:?} cut at {cut}");
        }
    }
}

#[test]
fn hold_screen_mode_is_entered_by_esc_bracket_without_question_mark() {
    let mut harness = terminal_without_private_sequences();
    harness.receive(cursor_sequence(23, 0) + "\x1b[$ \n");
    assert_eq!((harness.terminal.is_held(), harness.take_output().as_str()), (true, "\x13"));
    assert_eq!(harness.terminal.row_text(23), "$");
}

#[test]
fn a_private_sequence_does_not_end_hold_screen_mode() {
    let mut harness = terminal_without_private_sequences();
    harness.receive(cursor_sequence(23, 0) + "\x1b[a\x1b[?2004h\n");
    assert!(harness.terminal.is_held());
}

#[test]
fn the_rom_holds_and_displays_private_sequences() {
    let mut harness = Harness::with(cursor_sequence(23, 0) + "\x1b[?2004h\n");
    assert_eq!((harness.terminal.is_held(), harness.take_output().as_str()), (true, "\x13"));
    assert_eq!(harness.terminal.row_text(23), "?2004h");
}

#[test]
fn an_unterminated_private_sequence_is_dropped_up_to_a_limit() {
    let mut harness = terminal_without_private_sequences();
    harness.receive("\x1b[?".to_owned() + &"1".repeat(40) + "text");
    assert_eq!(harness.terminal.row_text(0), "1111111text");
}

#[test]
fn backspace_moves_by_one_column_and_reverse_index_by_one_row() {
    assert_screen("abc\x08x", "abx", (0, 3));
    assert_screen("\r\n\r\nx\x1bI", "\n\nx", (1, 1));
}

#[test]
fn each_character_counts_as_one_cell_and_each_line_feed_as_one_line() {
    let effect = Harness::new().receive("ab\r\nc");
    assert_eq!(effect, ScreenEffect { cells: 3, new_lines: 1 });
}

#[test]
fn scroll_before_the_screen_is_held_allows_one_more_line() {
    let mut harness = Harness::with(cursor_sequence(23, 0) + "\x1b[");
    harness.key(Key::Scroll, false);
    harness.receive("x\r\n");
    assert!(!harness.terminal.is_held());
    harness.receive("x\r\nx\r\n");
    assert!(harness.terminal.is_held());
}

#[test]
fn an_inserted_character_counts_as_one_cell() {
    assert_eq!(Harness::with("\x1b@").receive("ab").cells, 2);
}
