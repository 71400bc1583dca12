//! Tests of VT420 features beyond the VT100: left and right margins, protected cells, rectangles,
//! large characters, and reports of settings.

use super::tests::{Bench, streams};
use super::*;
use proptest::prelude::*;
use std::format;
use std::string::String;

/// Checks the text that a stream produces from a screen of ten columns and four rows of text.
#[track_caller]
fn makes(stream: &str, text: &str) {
    let bench = Bench::with(10, 4, format!("abcdefghij\r\nklmnopqrst\r\nABCDEFGHIJ\r\n{stream}"));
    assert_eq!((bench.terminal.text().as_str(), bench.unknown()), (text, 0));
}

#[track_caller]
fn answers(stream: &str, reply: &str) {
    let bench = Bench::with(80, 25, stream);
    assert_eq!(String::from_utf8_lossy(bench.terminal.output()), reply);
}

// Margins.

#[test]
fn text_wraps_between_the_left_and_the_right_margin() {
    makes("\x1b[?69h\x1b[3;5s\x1b[1;3HUVWXYZ", "abUVWfghij\nklXYZpqrst\nABCDEFGHIJ");
}

#[test]
fn text_beyond_the_right_margin_ends_at_the_edge() {
    makes("\x1b[?69h\x1b[3;5s\x1b[1;9HUVW", "abcdefghUV\nklWnopqrst\nABCDEFGHIJ");
}

#[test]
fn lines_scroll_between_all_four_margins() {
    makes("\x1b[?69h\x1b[3;5s\x1b[1;3r\x1b[3;3H\n", "abmnofghij\nklCDEpqrst\nAB   FGHIJ");
    makes("\x1b[?69h\x1b[3;5s\x1b[1;3r\x1b[1;3H\x1bM", "ab   fghij\nklcdepqrst\nABmnoFGHIJ");
}

#[test]
fn a_line_feed_beyond_the_side_margins_scrolls_nothing() {
    makes("\x1b[?69h\x1b[3;5s\x1b[1;3r\x1b[3;9H\n", "abcdefghij\nklmnopqrst\nABCDEFGHIJ");
}

#[test]
fn cells_move_up_to_the_right_margin_alone() {
    makes("\x1b[?69h\x1b[3;6s\x1b[1;4H\x1b[P", "abcef ghij\nklmnopqrst\nABCDEFGHIJ");
    makes("\x1b[?69h\x1b[3;6s\x1b[1;4H\x1b[2@", "abc  dghij\nklmnopqrst\nABCDEFGHIJ");
    makes("\x1b[?69h\x1b[3;6s\x1b[1;9H\x1b[P", "abcdefghij\nklmnopqrst\nABCDEFGHIJ");
}

#[test]
fn columns_are_put_in_and_taken_away() {
    makes("\x1b[1;2H\x1b[2'}", "a  bcdefgh\nk  lmnopqr\nA  BCDEFGH");
    makes("\x1b[1;2H\x1b[2'~", "adefghij\nknopqrst\nADEFGHIJ");
    makes("\x1b[H\x1b6", " abcdefghi\n klmnopqrs\n ABCDEFGHI");
    makes("\x1b[1;10H\x1b9", "bcdefghij\nlmnopqrst\nBCDEFGHIJ");
}

#[test]
fn with_origin_mode_the_cursor_stays_between_the_margins() {
    let mut bench = Bench::with(80, 25, "\x1b[?69h\x1b[5;9r\x1b[20;30s\x1b[?6h\x1b[H");
    assert_eq!(bench.terminal.cursor(), (4, 19));
    bench.receive("\x1b[99;99H\x1b[6n");
    assert_eq!(bench.terminal.cursor(), (8, 29));
    assert_eq!(bench.terminal.output(), b"\x1b[5;11R");
}

#[test]
fn backspace_goes_back_over_a_wrap_and_no_further() {
    let mut bench = Bench::with(5, 3, "\x1b[?45habcdefg\x08\x08\x08");
    assert_eq!(bench.terminal.cursor(), (0, 4));
    bench.receive("\x1b[2;1H\r\n\x08");
    assert_eq!(bench.terminal.cursor(), (2, 0));
    bench.receive("\x1b[?1045h\x08");
    assert_eq!(bench.terminal.cursor(), (1, 4));
}

// Protection.

#[test]
fn a_selective_erasure_leaves_what_decsca_protects() {
    makes("\x1b[1\"qX\x1b[\"qY\x1b[?2J", "\n\n\nX");
    makes("\x1b[1\"qX\x1b[\"qY\x1b[2J", "");
}

#[test]
fn an_ordinary_erasure_leaves_what_spa_protects() {
    makes("\x1bVX\x1bWY\x1b[2J", "\n\n\nX");
    makes("\x1bVX\x1bWY\x1b[?2K", "abcdefghij\nklmnopqrst\nABCDEFGHIJ");
}

// Rectangles.

#[test]
fn a_rectangle_is_filled_erased_and_copied() {
    makes("\x1b[42;1;2;2;4$x", "a***efghij\nk***opqrst\nABCDEFGHIJ");
    makes("\x1b[1;2;2;4$z", "a   efghij\nk   opqrst\nABCDEFGHIJ");
    makes("\x1b[1;1;2;3;1;2;8;1$v", "abcdefghij\nklmnopqabc\nABCDEFGklm");
}

#[test]
fn an_overlapping_copy_uses_the_original_cells() {
    makes("\x1b[1;1;1;8;1;1;3;1$v", "ababcdefgh\nklmnopqrst\nABCDEFGHIJ");
}

#[test]
fn attributes_change_in_a_rectangle_or_in_a_stream() {
    let bold = |bench: &Bench, row, column| {
        bench.terminal.cell(row, column).unwrap().style().attributes.contains(Attributes::BOLD)
    };
    let stream = Bench::with(10, 4, "\x1b[1;3;2;5;1$r");
    assert_eq!(
        [(0, 1), (0, 9), (1, 0), (1, 5)].map(|(r, c)| bold(&stream, r, c)),
        [false, true, true, false]
    );
    let area = Bench::with(10, 4, "\x1b[2*x\x1b[1;3;2;5;1$r\x1b[1;3;1;3;1$t");
    assert_eq!(
        [(0, 2), (0, 3), (0, 9), (1, 0)].map(|(r, c)| bold(&area, r, c)),
        [false, true, false, false]
    );
}

#[test]
fn both_halves_of_a_pair_have_the_attributes_of_the_left_one() {
    let bench = Bench::with(10, 2, "a界b界\x1b[2*x\x1b[1;3;1;5;1$r");
    let bold = (0..6).map(|column| bench.terminal.cell(0, column).unwrap().style().attributes);
    let bold: String =
        bold.map(|it| if it.contains(Attributes::BOLD) { '1' } else { '0' }).collect();
    assert_eq!(bold, "000111");
}

// Large characters.

#[test]
fn a_row_of_wide_characters_has_room_for_half_as_many() {
    let bench = Bench::with(10, 4, "\x1b#6abcdefg");
    assert_eq!((bench.terminal.text().as_str(), bench.terminal.cursor()), ("abcde\nfg", (1, 2)));
    assert_eq!(bench.terminal.line_size(0), LineSize::Wide);
    assert_eq!(bench.terminal.line_size(1), LineSize::Single);
}

#[test]
fn a_large_row_that_scrolls_to_the_cursor_takes_a_character_beyond_its_end() {
    let bench = Bench::with(10, 3, "\x1b[2;1H\x1b#6a\x1b[1;9H\x1b[Sb");
    assert_eq!(bench.terminal.text(), "a       b");
    assert_eq!(bench.terminal.line_size(0), LineSize::Wide);
}

// Reports.

#[test]
fn settings_are_reported_as_the_sequences_that_set_them() {
    answers("\x1b[3;10r\x1bP$qr\x1b\\", "\x1bP1$r3;10r\x1b\\");
    answers("\x1b[?69h\x1b[10;40s\x1bP$qs\x1b\\", "\x1bP1$r10;40s\x1b\\");
    answers("\x1b[1;93;48;2;1;2;3m\x1bP$qm\x1b\\", "\x1bP1$r0;1;93;48:2:1:2:3m\x1b\\");
    answers("\x1b[3 q\x1bP$q q\x1b\\", "\x1bP1$r3 q\x1b\\");
    answers("\x1b[1\"q\x1bP$q\"q\x1b\\", "\x1bP1$r1\"q\x1b\\");
    answers("\x1bP$qmm\x1b\\", "\x1bP0$r\x1b\\");
}

#[test]
fn a_request_that_is_broken_off_is_not_answered() {
    answers("\x1bP$qm\x18\x1b\\", "");
}

#[test]
fn modes_are_set_not_set_or_never_set() {
    answers("\x1b[?69h\x1b[?69$p\x1b[?7l\x1b[?7$p\x1b[1$p", "\x1b[?69;1$y\x1b[?7;2$y\x1b[1;4$y");
}

#[test]
fn private_modes_are_kept_and_set_again() {
    answers(
        "\x1b[?7;45s\x1b[?7l\x1b[?45h\x1b[?7;45r\x1b[?7$p\x1b[?45$p",
        "\x1b[?7;1$y\x1b[?45;2$y",
    );
}

#[test]
fn a_repeated_character_has_its_marks() {
    let bench = Bench::with(10, 2, "e\u{301}\x1b[2b");
    assert_eq!(bench.terminal.text(), "e\u{301}e\u{301}e\u{301}");
}

// Another size.

#[test]
fn a_long_line_is_folded_anew() {
    let mut bench = Bench::with(10, 5, "abcdefghijkl\r\n$ ");
    bench.terminal.resize(12, 5);
    assert_eq!(
        (bench.terminal.text().as_str(), bench.terminal.cursor()),
        ("abcdefghijkl\n$", (1, 2))
    );
    bench.terminal.resize(5, 5);
    assert_eq!(bench.terminal.text(), "abcde\nfghij\nkl\n$");
    assert_eq!(bench.terminal.cursor(), (3, 2));
    bench.terminal.resize(40, 5);
    assert_eq!(bench.terminal.text(), "abcdefghijkl\n$");
}

#[test]
fn a_pair_is_not_cut_where_a_line_is_folded() {
    let mut bench = Bench::with(10, 5, "abc界d");
    bench.terminal.resize(4, 5);
    assert_eq!(bench.terminal.text(), "abc\n界d");
    bench.terminal.resize(10, 5);
    assert_eq!(bench.terminal.text(), "abc界d");
}

#[test]
fn the_alternate_screen_is_cut_and_the_main_one_behind_it_folded() {
    let mut bench = Bench::with(10, 4, "abcdefgh\x1b[?1049h\x1b[HABCDEFGH");
    bench.terminal.resize(5, 4);
    assert_eq!(bench.terminal.text(), "ABCDE");
    bench.receive("\x1b[?1049l");
    assert_eq!((bench.terminal.text().as_str(), bench.terminal.cursor()), ("abcde\nfgh", (1, 3)));
}

proptest! {
    #[test]
    fn any_input_keeps_the_cursor_within_the_margins(
        parts in prop::collection::vec((1..=60_u16, 1..=30_u16, streams()), 1..4),
        is_within in any::<bool>(),
    ) {
        let mut bench = Bench::new(80, 24);
        for (columns, rows, stream) in parts {
            bench.terminal.resize(columns, rows);
            bench.receive(stream);
            let (upper, left) = bench.terminal.margins();
            prop_assert!(upper.end <= usize::from(rows) && left.end <= usize::from(columns));
            prop_assert!(!upper.is_empty() && !left.is_empty());
            // Outside any sequence, with all modes reset.
            bench.receive("\x18\x1b\\\x1b[?6h");
            if is_within {
                bench.receive("\x1b[99;99H\x1b[50A\x1b[50C\x1b[3D\x1b[4B\tx\x1b[2Zy\r\nz\x08\x1b[5G\x1b[2d");
            }
            let (row, column) = bench.terminal.cursor();
            prop_assert!(upper.contains(&usize::from(row)), "row {} not in {:?}", row, upper);
            let is_large = bench.terminal.line_size(row) != LineSize::Single;
            prop_assert!(left.contains(&usize::from(column)) || is_large, "{} not in {:?}", column, left);
        }
    }

    #[test]
    fn a_line_folded_and_unfolded_is_the_same(
        text in "[a-z界]{0,60}",
        widths in prop::collection::vec(2..40_u16, 1..6),
    ) {
        let mut bench = Bench::with(20, 100, &text);
        let before = (bench.terminal.text(), bench.terminal.cursor());
        for width in widths {
            bench.terminal.resize(width, 100);
            prop_assert_eq!(bench.terminal.text().replace('\n', ""), text.clone());
        }
        bench.terminal.resize(20, 100);
        prop_assert_eq!(bench.terminal.text(), before.0);
    }
}
