//! Tests of the terminal through its public interface.

use super::*;
use core::num::NonZeroU16;
use net::cx::OwnedCx;
use net::meter::{Account, Clock, Costs, Counter, Meter, Work};
use proptest::prelude::*;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

/// A terminal and the context that its methods need.
pub(super) struct Harness {
    pub(super) terminal: Terminal,
    context: OwnedCx,
}

impl Harness {
    pub(super) fn new(columns: u16, rows: u16) -> Self {
        Self { terminal: Terminal::new(columns, rows), context: OwnedCx::default() }
    }

    pub(super) fn with(columns: u16, rows: u16, input: impl AsRef<[u8]>) -> Self {
        let mut harness = Self::new(columns, rows);
        harness.receive(input);
        harness
    }

    pub(super) fn receive(&mut self, input: impl AsRef<[u8]>) -> ScreenEffect {
        self.terminal.receive(input.as_ref(), &mut self.context.cx())
    }

    pub(super) fn unknown(&self) -> u64 {
        self.context.counted(Counter::TerminalSequencesUnknown)
    }

    fn style(&self, row: u16, column: u16) -> Style {
        self.terminal.cell(row, column).unwrap().style()
    }
}

#[track_caller]
fn assert_screen(columns: u16, rows: u16, input: &str, text: &str, cursor: (u16, u16)) {
    let harness = Harness::with(columns, rows, input);
    assert_eq!(harness.terminal.text(), text);
    assert_eq!(harness.terminal.cursor(), cursor);
    assert_eq!(harness.unknown(), 0);
}

// Printing.

#[test]
fn a_printed_character_is_stored_and_counted() {
    let mut harness = Harness::new(80, 24);
    assert_eq!(harness.receive("a"), ScreenEffect { cells: 1, new_lines: 0 });
    assert_eq!(harness.terminal.cell(0, 0).unwrap().character(), 'a');
    assert_eq!((harness.terminal.cells_written(), harness.terminal.cursor()), (1, (0, 1)));
}

#[test]
fn the_cursor_stays_in_a_full_row_until_the_next_character() {
    assert_screen(5, 3, "12345", "12345", (0, 4));
    assert_screen(5, 3, "123456", "12345\n6", (1, 1));
    assert_screen(5, 3, "12345\r\n6", "12345\n6", (1, 1));
}

#[test]
fn wrapping_in_the_last_row_scrolls() {
    assert_screen(3, 2, "abcdefgh", "def\ngh", (1, 2));
}

#[test]
fn without_autowrap_the_last_column_is_overwritten() {
    assert_screen(5, 3, "\x1b[?7l1234567", "12347", (0, 4));
}

#[test]
fn utf8_is_printed_and_invalid_bytes_are_replaced() {
    let harness = Harness::with(20, 2, b"gr\xc3\xbc\xc3\x9fe \xff\xe2\x82 \xe2\x82\xac");
    assert_eq!(harness.terminal.text(), "grüße \u{fffd}\u{fffd} €");
}

#[test]
fn an_incomplete_character_before_an_escape_is_replaced() {
    let harness = Harness::with(20, 2, b"\xe2\x82\x1b[3Cx\xc3\x1b[3Cy");
    assert_eq!(harness.terminal.text(), "\u{fffd}   x\u{fffd}   y");
}

#[test]
fn a_wide_character_occupies_two_cells_and_wraps_as_a_whole() {
    assert_screen(5, 2, "ab界cd", "ab界c\nd", (1, 1));
    assert_screen(5, 2, "abcd界", "abcd\n界", (1, 2));
    assert_screen(1, 2, "界", "", (0, 0));
}

#[test]
fn overwriting_half_of_a_wide_character_clears_the_other_half() {
    assert_screen(8, 1, "a界b\x1b[3Gx", "a xb", (0, 3));
    assert_screen(8, 1, "a界b\x1b[2Gx", "ax b", (0, 2));
    assert_screen(8, 1, "a界b\x1b[3G\x1b[P", "a b", (0, 2));
    assert_screen(8, 1, "a界b\x1b[3G\x1b[@", "a   b", (0, 2));
}

#[test]
fn combining_marks_are_added_to_the_previous_character() {
    assert_screen(8, 1, "e\u{301}x", "e\u{301}x", (0, 2));
    assert_screen(2, 2, "ae\u{301}x", "ae\u{301}\nx", (1, 1));
    assert_screen(8, 1, "界\u{301}", "界\u{301}", (0, 2));
}

#[test]
fn line_drawing_is_selected_by_escape_and_by_shift_out() {
    assert_screen(8, 1, "\x1b(0lqk\x1b(Blqk", "┌─┐lqk", (0, 6));
    assert_screen(8, 1, "\x1b)0q\x0eq\x0fq", "q─q", (0, 3));
}

#[test]
fn insert_mode_moves_the_rest_of_the_row() {
    assert_screen(6, 1, "abcdef\x1b[2G\x1b[4hXY\x1b[4l", "aXYbcd", (0, 3));
}

#[test]
fn repeat_prints_the_last_character_again() {
    assert_screen(8, 2, "x\x1b[3b", "xxxx", (0, 4));
}

// Controls.

#[test]
fn line_feed_keeps_the_column_and_with_lnm_returns() {
    assert_screen(8, 3, "ab\nc", "ab\n  c", (1, 3));
    assert_screen(8, 3, "\x1b[20hab\nc", "ab\nc", (1, 1));
}

#[test]
fn a_line_feed_in_the_last_row_scrolls() {
    assert_screen(8, 2, "a\r\nb\r\nc", "b\nc", (1, 1));
}

#[test]
fn backspace_stops_at_the_margin() {
    assert_screen(8, 1, "ab\x08\x08\x08\x08c", "cb", (0, 1));
}

#[test]
fn tabs_stop_every_eight_columns_and_where_they_are_set() {
    assert_screen(20, 1, "\ta\tb\tc", "        a       b  c", (0, 19));
    assert_screen(20, 1, "\x1b[4G\x1bH\r\tx\x1b[Zy", "   y", (0, 4));
    assert_screen(20, 1, "\x1b[3g\tx", "                   x", (0, 19));
    assert_screen(20, 1, "\x1b[9G\x1b[g\r\tx", "                x", (0, 17));
}

#[test]
fn index_next_line_and_reverse_index_move_by_rows() {
    assert_screen(8, 3, "a\x1bDb\x1bEc\x1bMd", "a\n d\nc", (1, 2));
    assert_screen(8, 2, "a\x1b[H\x1bMb", "b\na", (0, 1));
}

#[test]
fn the_bell_is_counted() {
    assert_eq!(Harness::with(8, 1, "a\x07\x07").terminal.bells(), 2);
}

// The cursor.

#[test]
fn cursor_motions_stay_inside_the_screen() {
    assert_screen(9, 9, "\x1b[3;4H", "", (2, 3));
    assert_screen(9, 9, "\x1b[99;99f", "", (8, 8));
    assert_screen(9, 9, "\x1b[5;5H\x1b[2A\x1b[3C", "", (2, 7));
    assert_screen(9, 9, "\x1b[5;5H\x1b[2B\x1b[3D", "", (6, 1));
    assert_screen(9, 9, "\x1b[5;5H\x1b[2E\x1b[F", "", (5, 0));
    assert_screen(9, 9, "\x1b[5G\x1b[7d", "", (6, 4));
    assert_screen(9, 9, "\x1b[65535A\x1b[65535D\x1b[65535B\x1b[65535C", "", (8, 8));
}

#[test]
fn the_cursor_is_saved_with_its_style_and_restored() {
    let harness = Harness::with(9, 9, "\x1b[2;3H\x1b[1m\x1b7\x1b[m\x1b[H\x1b8x");
    assert_eq!(harness.terminal.cursor(), (1, 3));
    assert!(harness.style(1, 2).attributes.contains(Attributes::BOLD));
}

#[test]
fn the_cursor_can_be_hidden() {
    let mut harness = Harness::with(9, 9, "\x1b[?25l");
    assert!(!harness.terminal.is_cursor_visible());
    harness.receive("\x1b[?25h");
    assert!(harness.terminal.is_cursor_visible());
}

#[test]
fn with_origin_mode_rows_count_from_the_margin() {
    assert_screen(9, 9, "\x1b[3;5r\x1b[?6h\x1b[2;2H", "", (3, 1));
    assert_screen(9, 9, "\x1b[3;5r\x1b[?6h\x1b[9;2H", "", (4, 1));
    assert_screen(9, 9, "\x1b[3;5r\x1b[?6h\x1b[?6l", "", (0, 0));
}

// Edits.

#[test]
fn erasures_do_not_change_other_cells() {
    const FULL: &str = "abc\r\ndef\r\nghi\x1b[2;2H";
    assert_screen(3, 3, &format!("{FULL}\x1b[J"), "abc\nd", (1, 1));
    assert_screen(3, 3, &format!("{FULL}\x1b[1J"), "\n  f\nghi", (1, 1));
    assert_screen(3, 3, &format!("{FULL}\x1b[2J"), "", (1, 1));
    assert_screen(3, 3, &format!("{FULL}\x1b[K"), "abc\nd\nghi", (1, 1));
    assert_screen(3, 3, &format!("{FULL}\x1b[1K"), "abc\n  f\nghi", (1, 1));
    assert_screen(3, 3, &format!("{FULL}\x1b[2K"), "abc\n\nghi", (1, 1));
    assert_screen(3, 3, &format!("{FULL}\x1b[X"), "abc\nd f\nghi", (1, 1));
}

#[test]
fn an_erased_cell_has_the_background_of_the_cursor() {
    let harness = Harness::with(9, 2, "abc\x1b[41;1m\x1b[2J");
    let style = Style { background: Color::Indexed(1), ..Style::PLAIN };
    assert_eq!((harness.style(0, 0), harness.style(1, 8)), (style, style));
}

#[test]
fn cells_and_lines_are_inserted_and_deleted() {
    const FULL: &str = "abc\r\ndef\r\nghi\x1b[2;2H";
    assert_screen(3, 3, &format!("{FULL}\x1b[@"), "abc\nd e\nghi", (1, 1));
    assert_screen(3, 3, &format!("{FULL}\x1b[P"), "abc\ndf\nghi", (1, 1));
    assert_screen(3, 3, &format!("{FULL}\x1b[L"), "abc\n\ndef", (1, 0));
    assert_screen(3, 3, &format!("{FULL}\x1b[M"), "abc\nghi", (1, 0));
    assert_screen(3, 3, &format!("{FULL}\x1b[S"), "def\nghi", (1, 1));
    assert_screen(3, 3, &format!("{FULL}\x1b[2T"), "\n\nabc", (1, 1));
}

#[test]
fn only_the_rows_between_the_margins_scroll() {
    const FULL: &str = "a\r\nb\r\nc\r\nd\x1b[2;3r";
    assert_screen(3, 4, &format!("{FULL}\x1b[3;1H\nx"), "a\nc\nx\nd", (2, 1));
    assert_screen(3, 4, &format!("{FULL}\x1b[2;1H\x1bMx"), "a\nx\nb\nd", (1, 1));
    assert_screen(3, 4, &format!("{FULL}\x1b[4;1H\n\nx"), "a\nb\nc\nx", (3, 1));
    assert_screen(3, 4, &format!("{FULL}\x1b[4;1H\x1b[L"), "a\nb\nc\nd", (3, 0));
}

#[test]
fn the_alternate_screen_does_not_change_the_main_screen() {
    let mut harness = Harness::with(9, 2, "main\x1b[?1049h\x1b[Hother");
    assert_eq!(
        (harness.terminal.text().as_str(), harness.terminal.is_alternate()),
        ("other", true)
    );
    harness.receive("\x1b[?1049l");
    assert_eq!((harness.terminal.text().as_str(), harness.terminal.cursor()), ("main", (0, 4)));
    harness.receive("\x1b[?47h");
    assert_eq!(harness.terminal.text(), "other");
    harness.receive("\x1b[?1047l\x1b[?1047h");
    assert_eq!(harness.terminal.text(), "");
}

#[test]
fn reset_preserves_only_the_counters() {
    let mut harness =
        Harness::with(9, 3, "\x07abc\x1b[1m\x1b[?7l\x1b[2;3r\x1b(0\x1b[?1049hx\x1bcq");
    assert_eq!((harness.terminal.text().as_str(), harness.terminal.is_alternate()), ("q", false));
    assert_eq!((harness.style(0, 0), harness.terminal.bells()), (Style::PLAIN, 1));
    harness.receive("123456789");
    assert_eq!(harness.terminal.cursor(), (1, 1));
}

// Styles.

#[test]
fn attributes_and_colors_are_set_and_reset() {
    let harness = Harness::with(20, 1, "\x1b[1;3;4;7;31;102ma\x1b[22;24;39;49mb\x1b[mc");
    let first = harness.style(0, 0);
    let all = Attributes::BOLD.with(Attributes::ITALIC).with(Attributes::UNDERLINE);
    assert!(first.attributes.contains(all.with(Attributes::REVERSE)));
    assert_eq!((first.foreground, first.background), (Color::Indexed(1), Color::Indexed(10)));
    let attributes = Attributes::ITALIC.with(Attributes::REVERSE);
    assert_eq!(harness.style(0, 1), Style { attributes, ..Style::PLAIN });
    assert_eq!(harness.style(0, 2), Style::PLAIN);
}

#[test]
fn color_numbers_are_separated_by_semicolons_or_colons() {
    let harness = Harness::with(
        20,
        1,
        "\x1b[38;5;200;48;2;1;2;3ma\x1b[38:5:201;48:2::4:5:6mb\x1b[48:2:7:8:9;4:0mc",
    );
    let colors =
        |column| (harness.style(0, column).foreground, harness.style(0, column).background);
    assert_eq!(colors(0), (Color::Indexed(200), Color::Rgb(1, 2, 3)));
    assert_eq!(colors(1), (Color::Indexed(201), Color::Rgb(4, 5, 6)));
    assert_eq!(colors(2), (Color::Indexed(201), Color::Rgb(7, 8, 9)));
    assert_eq!(harness.unknown(), 0);
}

// Title, replies, and unknown sequences.

#[test]
fn a_title_is_truncated_and_stripped_of_controls() {
    let harness = Harness::with(9, 1, "\x1b]2;vi: a;b\u{85}c\x07x");
    assert_eq!(harness.terminal.title(), "vi: a;bc");
    let harness = Harness::with(9, 1, format!("\x1b]0;{}\x1b\\x", "t".repeat(5000)));
    assert_eq!((harness.terminal.title().len(), harness.terminal.text().as_str()), (256, "x"));
}

#[test]
fn reports_are_queued_until_they_are_sent() {
    let mut harness = Harness::with(80, 24, "\x1b[5n\x1b[3;7H\x1b[6n\x1b[c");
    assert_eq!(harness.terminal.output(), b"\x1b[0n\x1b[3;7R\x1b[?1;2c");
    harness.terminal.sent(4);
    assert_eq!(harness.terminal.output(), b"\x1b[3;7R\x1b[?1;2c");
    assert_eq!(harness.context.counted(Counter::TerminalReports), 3);
}

#[test]
fn reports_beyond_the_queue_limit_are_dropped_and_counted() {
    let harness = Harness::with(80, 24, "\x1b[5n".repeat(1000));
    assert_eq!(harness.terminal.output().len(), 256);
    assert_eq!(harness.context.counted(Counter::TerminalReports), 64);
    assert_eq!(harness.context.counted(Counter::TerminalReportsRefused), 936);
}

#[test]
fn unknown_sequences_are_counted_and_have_no_effect() {
    let harness =
        Harness::with(20, 1, "a\x1b[9;9yb\x1b%Gc\x1b]777;x\x07d\x1bPq#0\x1b\\e\x1b[?9999hf");
    assert_eq!((harness.terminal.text().as_str(), harness.unknown()), ("abcdef", 5));
}

#[test]
fn text_after_a_malformed_sequence_is_printed() {
    let harness = Harness::with(20, 1, "a\x1b[1<5mé\x1b[2\x18b\x1b]2;t\x1b[2Cc");
    assert_eq!(harness.terminal.text(), "aéb  c");
}

// The meter.

#[test]
fn bytes_and_new_lines_are_charged_to_the_terminal_only() {
    let mut harness = Harness::new(10, 3);
    let costs = Costs::default().with(Work::TerminalByte, 10).with(Work::NewLine, 1000);
    harness.context.meter = Meter::new(Clock::Virtual(costs));
    harness.context.meter.enter(Account::Telnet);
    let effect = harness.receive("ab\r\n\x1b[1m0123456789é\n");
    assert_eq!(effect, ScreenEffect { cells: 13, new_lines: 3 });
    assert_eq!(harness.context.meter.enter(Account::Outside), Account::Telnet);
    let units = [Work::TerminalByte, Work::NewLine].map(|work| harness.context.meter.units(work));
    assert_eq!(units, [21, 3]);
    assert_eq!(harness.context.meter.charged(Account::Terminal), 21 * 10 + 3 * 1000);
}

// The size.

#[test]
fn a_smaller_screen_keeps_the_rows_at_the_cursor() {
    let mut harness = Harness::with(8, 4, "one\r\ntwo\r\nthree\r\nfour");
    harness.terminal.resize(8, 2);
    assert_eq!(
        (harness.terminal.text().as_str(), harness.terminal.cursor()),
        ("three\nfour", (1, 4))
    );
    harness.terminal.resize(8, 4);
    assert_eq!(
        (harness.terminal.text().as_str(), harness.terminal.size()),
        ("three\nfour", (8, 4))
    );
}

#[test]
fn the_size_is_limited() {
    assert_eq!(Terminal::new(0, 0).size(), (1, 1));
    let mut terminal = Terminal::new(10, 10);
    terminal.resize(u16::MAX, 2);
    assert_eq!(terminal.size(), (SIDE_MAX, 2));
}

// Attacks; the number in a test name is the row of the attack table.

// attack row 65
#[test]
fn row_65_a_request_for_a_title_report_is_not_answered() {
    let harness = Harness::with(80, 24, "\x1b]2;;rm -rf ~;\x07\x1b[21t\x1b[20t\x1b]2;?\x07");
    assert_eq!((harness.terminal.output(), harness.unknown()), (&b""[..], 2));
}

// attack row 66
#[test]
fn row_66_a_status_request_is_not_reflected() {
    let harness = Harness::with(80, 24, "\x1bP$q;evil\r\x1b\\\x1bP+q6578\x1b\\\x1b[?1337$p");
    assert_eq!((harness.terminal.output(), harness.unknown()), (&b"\x1bP0$r\x1b\\"[..], 2));
}

// attack row 67
#[test]
fn row_67_a_font_query_is_silent() {
    let harness = Harness::with(80, 24, "\x1b]50;?\x07\x1b]50;evil\x07\x1b]50;?\x1b\\");
    assert_eq!((harness.terminal.output(), harness.unknown()), (&b""[..], 3));
}

// attack row 68
#[test]
fn row_68_the_clipboard_is_neither_read_nor_written() {
    let harness = Harness::with(80, 24, "\x1b]52;c;?\x07\x1b]52;c;ZXZpbA==\x07");
    assert_eq!((harness.terminal.output(), harness.unknown()), (&b""[..], 2));
}

// attack row 69
#[test]
fn row_69_a_hundred_thousand_marks_on_one_cell_are_capped() {
    let harness = Harness::with(80, 24, format!("e{}x", "\u{301}".repeat(100_000)));
    assert_eq!(harness.terminal.text(), format!("e{}x", "\u{301}".repeat(5)));
    assert_eq!(harness.terminal.cells_written(), 2);
}

// attack row 70
#[test]
fn row_70_sequences_that_print_or_save_the_screen_are_ignored() {
    let text = "evil\x1b[i\x1b[4i\x1b[5i\x1b[?5i\x1b]46;/tmp/evil\x07\x1b]3;x=y\x07\x1bP>|x\x1b\\";
    let harness = Harness::with(80, 24, text);
    assert_eq!((harness.terminal.output(), harness.terminal.text().as_str()), (&b""[..], "evil"));
    assert!(harness.unknown() > 0);
}

// attack row 71
#[test]
fn row_71_a_sixel_picture_of_a_million_bytes_is_skipped() {
    let sixels = format!("\x1bP0;0;0q\"1;1;65535;65535{}\x1b\\", "#0!65535~-".repeat(100_000));
    let mut harness = Harness::new(80, 24);
    harness.receive(sixels);
    assert_eq!((harness.terminal.output(), harness.terminal.text().as_str()), (&b""[..], ""));
    assert_eq!(harness.receive("k"), ScreenEffect { cells: 1, new_lines: 0 });
}

// attack row 73
#[test]
fn row_73_no_sequence_reaches_the_program_around_the_screen() {
    let text =
        "\x1b]1337;Custom=id=x:evil\x07\x1b]777;notify;a;b\x07\x1bPtmux;\x1bevil\x1b\\\x1b_G\x1b\\";
    let harness = Harness::with(80, 24, text);
    assert_eq!(harness.terminal.output(), b"");
    assert_eq!(harness.terminal.title(), "");
}

// attack row 72
#[test]
fn row_72_a_million_titles_leave_only_the_last_one() {
    let mut harness = Harness::new(80, 24);
    harness.receive("\x1b]2;title\x07".repeat(1_000_000));
    assert_eq!(harness.receive("k"), ScreenEffect { cells: 1, new_lines: 0 });
    assert_eq!(harness.terminal.title(), "title");
    assert_eq!(harness.terminal.output(), b"");
    assert_eq!(harness.context.meter.units(Work::TerminalByte), 10_000_001);
}

// attack row 72
#[test]
fn row_72_the_largest_counts_affect_at_most_one_screen() {
    let harness = Harness::with(80, 24, "x\x1b[65535b\x1b[65535L\x1b[65535S\x1b[65535@\x1b[65535I");
    assert_eq!(harness.terminal.cells_written(), 81);
}

// attack row 74
#[test]
fn row_74_replies_are_fixed_and_printable() {
    let harness = Harness::with(80, 24, "\x1b[c\x1bZ\x1b[>c\x1b[5n\x1b[6n\x1b[?6n\x05");
    let replies = b"\x1b[?1;2c\x1b[?1;2c\x1b[>0;0;0c\x1b[0n\x1b[1;1R\x1b[?1;1R";
    assert_eq!(harness.terminal.output(), replies);
}

#[test]
fn input_modes_for_mouse_keys_and_paste_are_stored() {
    let mut harness = Harness::with(80, 24, "\x1b[?1;66;1002;1006;2004;1004h");
    let modes = InputModes {
        has_application_cursor: true,
        has_application_keypad: true,
        brackets_paste: true,
        reports_focus: true,
        mouse: MouseReports::Drags,
        mouse_encoding: MouseEncoding::Sgr,
    };
    assert_eq!((harness.terminal.input_modes(), harness.unknown()), (modes, 0));
    harness.receive("\x1b[!p");
    let remaining_modes =
        InputModes { has_application_cursor: false, has_application_keypad: false, ..modes };
    assert_eq!(harness.terminal.input_modes(), remaining_modes);
    harness.receive("\x1b=\x1bc");
    assert_eq!(harness.terminal.input_modes(), InputModes::default());
}

#[test]
fn only_known_modes_are_reported() {
    let query = "\x1b[4$p\x1b[?7$p\x1b[?2004$p\x1b[?25h\x1b[?25$p\x1b[?1049$p\x1b[?6$p";
    let harness = Harness::with(80, 24, query);
    let replies = b"\x1b[4;2$y\x1b[?7;1$y\x1b[?2004;2$y\x1b[?25;1$y\x1b[?1049;2$y\x1b[?6;2$y";
    assert_eq!((harness.terminal.output(), harness.unknown()), (&replies[..], 0));
    let harness = Harness::with(80, 24, "\x1b[?31337$p\x1b[99$p");
    assert_eq!((harness.terminal.output(), harness.unknown()), (&b""[..], 2));
}

#[test]
fn a_checksum_is_reported_only_with_permission() {
    let mut harness = Harness::with(80, 24, "AB\x1b[1mC\x1b[7;1;1;1;1;1*y");
    assert_eq!((harness.terminal.output(), harness.unknown()), (&b""[..], 1));
    harness.terminal.report_checksums(true);
    harness.receive("\x1b[7;1;1;1;1;1*y\x1b[8;1;1;1;1;3*y\x1b[9;1;5;5;4;4*y");
    let expected =
        format!("\x1bP7!~FFBF\x1b\\\x1bP8!~{:04X}\x1b\\\x1bP9!~0000\x1b\\", 0x1_0000 - 0x146);
    assert_eq!(String::from_utf8_lossy(harness.terminal.output()), expected);
}

#[test]
fn the_cursor_shape_is_stored() {
    let harness = Harness::with(80, 24, "\x1b[5 q");
    let cursor = PictureCursor { row: 0, column: 0, shape: CursorShape::Bar };
    assert_eq!(harness.terminal.picture().cursor(), Some(cursor));
    assert_eq!(Harness::with(80, 24, "\x1b[9 q").unknown(), 1);
}

#[test]
fn underline_colors_are_parsed_and_ignored() {
    let harness = Harness::with(80, 24, "\x1b[4;58;5;1;3;58:2::1:2:3;59ma");
    let attributes = Attributes::UNDERLINE.with(Attributes::ITALIC);
    assert_eq!((harness.style(0, 0), harness.unknown()), (Style { attributes, ..Style::PLAIN }, 0));
}

#[test]
fn character_sets_are_shifted_permanently_or_for_one_character() {
    let sets = "\x1b)0\x1b*0\x1b+A";
    assert_screen(
        9,
        1,
        &format!("{sets}q\x0eq\x0fq\x1bNqq\x1bO##\x1bnq\x1bo#"),
        "q─q─q£#─£",
        (0, 8),
    );
}

#[test]
fn the_british_set_has_a_pound_sign() {
    assert_screen(9, 1, "\x1b(A#a\x1b(B#", "£a#", (0, 3));
}

// Arbitrary bytes.

/// Generates host output in which most bytes belong to valid sequences or text.
pub(super) fn streams() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[ -~]{1,30}".prop_map(String::into_bytes),
        4 => "\x1b\\[[?>!]?[0-9;:]{0,6}[ @-~]".prop_map(String::into_bytes),
        2 => "\x1b\\[[0-9]{1,3}(;[0-9]{1,3})?[@A-HJ-MPSTXbdr]".prop_map(String::into_bytes),
        2 => "\x1b\\[(4|20|\\?6|\\?7|\\?47|\\?1047|\\?1049)[hl]".prop_map(String::into_bytes),
        2 => "\x1b\\[[0-9]{0,2}(;[0-9]{0,2}){0,7}[$*\"']?[r-z{}~q]".prop_map(String::into_bytes),
        1 => "\x1b(\\[\\?(69|45|1045|40|3|6)[hl]|#[3-6]|[69VW]|P\\$q[mrs]\x1b\\\\)".prop_map(String::into_bytes),
        2 => "\x1b[ #()]?[ -~]".prop_map(String::into_bytes),
        1 => "\x1b[\\]PX_^][ -~é]{0,20}(\x07|\x1b\\\\|\x18|\u{9c})".prop_map(String::into_bytes),
        3 => "[éß界🙂\u{301}\u{200d}\u{85}\u{7f}]{1,50}".prop_map(String::into_bytes),
        3 => "[\n\r\t\x08\x0b\x0e\x0f\x1b\x18]{1,3}".prop_map(String::into_bytes),
        2 => prop::collection::vec(any::<u8>(), 1..8),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn observable_state(harness: &Harness) -> (String, [u64; 4]) {
    let meter = &harness.context.meter;
    let units = [Work::TerminalByte, Work::NewLine].map(|work| meter.units(work));
    let [bytes, new_lines] = units;
    let counts =
        [bytes, new_lines, harness.unknown(), harness.context.counted(Counter::TerminalReports)];
    let debug = format!("{:?}", harness.terminal);
    // The field `is_ground` is not compared: after text that was passed to the parser it may
    // differ.
    (debug.split_once("screen:").unwrap().1.into(), counts)
}

proptest! {
    #[test]
    fn arbitrary_bytes_keep_the_cursor_inside_the_screen(
        split in prop::collection::vec((1..=200_u16, 1..=100_u16, streams()), 1..4),
    ) {
        let mut harness = Harness::new(80, 24);
        for (columns, rows, stream) in split {
            harness.terminal.resize(columns, rows);
            harness.receive(stream);
            let (row, column) = harness.terminal.cursor();
            prop_assert!(row < rows && column < columns);
            prop_assert!(harness.terminal.cell(row, column).is_some());
            prop_assert!(harness.terminal.output().len() <= 256);
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic_on_a_screen_of_one_cell(stream in streams()) {
        let harness = Harness::with(1, 1, stream);
        prop_assert_eq!(harness.terminal.cursor(), (0, 0));
    }

    #[test]
    fn the_result_does_not_depend_on_the_chunks(
        stream in streams(),
        sizes in prop::collection::vec(1..9_usize, 1..20),
        columns in 1..30_u16,
    ) {
        let unsplit = Harness::with(columns, 5, &stream);
        let mut split = Harness::new(columns, 5);
        let mut rest = stream.as_slice();
        let mut sizes = sizes.into_iter().cycle();
        while !rest.is_empty() {
            let (part, later) = rest.split_at(sizes.next().unwrap().min(rest.len()));
            split.receive(part);
            rest = later;
        }
        prop_assert_eq!(observable_state(&unsplit), observable_state(&split));
    }

    #[test]
    fn wide_characters_always_have_both_halves(stream in streams(), columns in 1..30_u16) {
        let mut harness = Harness::with(columns, 5, stream);
        harness.terminal.resize(columns.div_ceil(2), 4);
        let (columns, rows) = harness.terminal.size();
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |c| (row, c))) {
            let is_wide = harness.terminal.cell(row, column).unwrap().is_wide();
            let next = harness.terminal.cell(row, column + 1);
            prop_assert_eq!(is_wide, next.is_some_and(Cell::is_tail));
        }
        prop_assert!((0..rows).all(|row| !harness.terminal.cell(row, 0).unwrap().is_tail()));
    }

    #[test]
    fn replies_contain_only_numbers_and_setting_names(stream in streams()) {
        let harness = Harness::with(80, 24, stream);
        let allowed = b"\x1b[?>;:0123456789ncR$yP\\rmstqpx|{!~*\" ";
        prop_assert!(harness.terminal.output().iter().all(|byte| allowed.contains(byte)));
    }

    #[test]
    fn the_screen_equals_that_of_the_vt100_crate(
        steps in prop::collection::vec(steps_for_both_terminals("[!-~ ]{1,100}", "ABCDEFGJKPXd@"), 0..40),
    ) {
        compare_with_vt100(&steps.concat())?;
    }

    #[test]
    fn wide_characters_are_placed_as_by_the_vt100_crate(
        // Insertions are excluded: if one cuts a wide character, terminals differ in the remaining
        // half.
        steps in prop::collection::vec(steps_for_both_terminals("[a-c界 ]{1,100}", "ABCDEFGJKd"), 0..40),
    ) {
        compare_with_vt100(&steps.concat())?;
    }
}

/// Generates one step with the same meaning in both terminals.
///
/// Each step begins with a cursor position, because a motion while a wrap is pending has different
/// effects in the two terminals.
fn steps_for_both_terminals(
    text: &'static str,
    edits: &str,
) -> impl Strategy<Value = String> + use<> {
    let cursor_motion =
        || (1..=12, 1..=30).prop_map(|(row, column)| format!("\x1b[{row};{column}H"));
    let edits = format!("\x1b\\[([0-2]|[0-9]{{1,2}})?[{edits}]|[\r\n\t]|\x1b\\[[01]m");
    let edits = prop::string::string_regex(&edits).unwrap();
    let scrolls = "(\x1bM|\n|\x1b\\[[1-4]?[LMST]\r){1,4}";
    prop_oneof![
        3 => (cursor_motion(), text).prop_map(|(cursor_motion, text)| cursor_motion + &text + "\r"),
        3 => (cursor_motion(), edits).prop_map(|(cursor_motion, edit)| cursor_motion + &edit),
        2 => (2..6, 7..11, 6..7, scrolls).prop_map(|(top, bottom, row, scrolls)| {
            format!("\x1b[{top};{bottom}r\x1b[{row};1H{scrolls}\x1b[r\x1b[H")
        }),
        1 => (cursor_motion(), "[a-z]{0,9}").prop_map(|(cursor_motion, text)| {
            format!("{cursor_motion}\x1b[?1049h\x1b[H{text}\x1b[?1049l")
        }),
    ]
}

fn compare_with_vt100(stream: &str) -> Result<(), TestCaseError> {
    let ours = Harness::with(40, 12, stream);
    let [rows, columns] = [12, 40].map(|side| NonZeroU16::new(side).unwrap());
    let mut theirs = vt100::Parser::new(rows, columns, 0);
    theirs.process(stream.as_bytes());
    for (row, text) in (0..12).zip(theirs.screen().rows(0, 40)) {
        prop_assert_eq!(ours.terminal.row_text(row), text.trim_end_matches(' '));
    }
    prop_assert_eq!(ours.terminal.cursor(), theirs.screen().cursor_position());
    for (row, column) in (0..12).flat_map(|row| (0..40).map(move |column| (row, column))) {
        let is_bold = ours.style(row, column).attributes.contains(Attributes::BOLD);
        let their = theirs.screen().cell(row, column).unwrap();
        // Terminals also differ in the style of blanks.
        prop_assert!(is_bold == their.bold() || their.contents().trim().is_empty());
    }
    Ok(())
}

#[test]
fn a_narrower_screen_keeps_the_cursor_at_its_character() {
    let cursor_after = |stream: &str, columns, rows| {
        let mut harness = Harness::with(8, 4, stream);
        harness.terminal.resize(columns, rows);
        (harness.terminal.text(), harness.terminal.cursor())
    };
    assert_eq!(cursor_after("abcdefgh\x1b[1;6H", 4, 4), ("abcd\nefgh".into(), (1, 1)));
    assert_eq!(cursor_after("abcd\x1b[1;4H", 4, 4), ("abcd".into(), (0, 3)));
    assert_eq!(cursor_after("abcdefgh", 4, 4), ("abcd\nefgh".into(), (1, 3)));
    assert_eq!(cursor_after("\x1b[4;3Hab", 8, 2).1, (1, 4));
}

#[test]
fn a_character_after_a_full_row_wraps_also_on_a_wider_screen() {
    let mut harness = Harness::with(4, 4, "abcd");
    harness.terminal.resize(6, 4);
    harness.receive("e");
    assert_eq!(harness.terminal.text(), "abcde");
    let mut harness = Harness::with(8, 4, "abcdefgh");
    harness.terminal.resize(4, 4);
    harness.receive("i");
    assert_eq!(harness.terminal.text(), "abcd\nefgh\ni");
}

#[test]
fn the_alignment_pattern_fills_the_first_row_and_removes_the_margins() {
    let mut harness = Harness::with(2, 3, "\x1b[2;3r\x1b#8");
    assert_eq!(harness.terminal.text(), "EE\nEE\nEE");
    harness.receive("X\x1b[3;1H\n");
    assert_eq!(harness.terminal.text(), "EE\nEE");
}
