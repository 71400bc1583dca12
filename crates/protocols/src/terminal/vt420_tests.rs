//! Tests of VT420 features beyond the VT100: left and right margins, protected cells, rectangles,
//! large characters, and reports of settings.

use super::tests::{Harness, streams};
use super::*;
use proptest::prelude::*;
use std::format;
use std::string::String;

/// Checks that `stream` produces the screen content `text` on a screen of ten columns and four
/// rows.
#[track_caller]
fn assert_text(stream: &str, text: &str) {
    let harness =
        Harness::with(10, 4, format!("abcdefghij\r\nklmnopqrst\r\nABCDEFGHIJ\r\n{stream}"));
    assert_eq!((harness.terminal.text().as_str(), harness.unknown()), (text, 0));
}

#[track_caller]
fn assert_reply(stream: &str, reply: &str) {
    let harness = Harness::with(80, 25, stream);
    assert_eq!(String::from_utf8_lossy(harness.terminal.output()), reply);
}

// Margins.

#[test]
fn text_wraps_between_the_left_and_the_right_margin() {
    assert_text("\x1b[?69h\x1b[3;5s\x1b[1;3HUVWXYZ", "abUVWfghij\nklXYZpqrst\nABCDEFGHIJ");
}

#[test]
fn text_beyond_the_right_margin_ends_at_the_edge() {
    assert_text("\x1b[?69h\x1b[3;5s\x1b[1;9HUVW", "abcdefghUV\nklWnopqrst\nABCDEFGHIJ");
}

#[test]
fn lines_scroll_between_all_four_margins() {
    assert_text("\x1b[?69h\x1b[3;5s\x1b[1;3r\x1b[3;3H\n", "abmnofghij\nklCDEpqrst\nAB   FGHIJ");
    assert_text("\x1b[?69h\x1b[3;5s\x1b[1;3r\x1b[1;3H\x1bM", "ab   fghij\nklcdepqrst\nABmnoFGHIJ");
}

#[test]
fn a_line_feed_beyond_the_side_margins_scrolls_nothing() {
    assert_text("\x1b[?69h\x1b[3;5s\x1b[1;3r\x1b[3;9H\n", "abcdefghij\nklmnopqrst\nABCDEFGHIJ");
}

#[test]
fn insertions_and_deletions_end_at_the_right_margin() {
    assert_text("\x1b[?69h\x1b[3;6s\x1b[1;4H\x1b[P", "abcef ghij\nklmnopqrst\nABCDEFGHIJ");
    assert_text("\x1b[?69h\x1b[3;6s\x1b[1;4H\x1b[2@", "abc  dghij\nklmnopqrst\nABCDEFGHIJ");
    assert_text("\x1b[?69h\x1b[3;6s\x1b[1;9H\x1b[P", "abcdefghij\nklmnopqrst\nABCDEFGHIJ");
}

#[test]
fn columns_are_inserted_and_deleted() {
    assert_text("\x1b[1;2H\x1b[2'}", "a  bcdefgh\nk  lmnopqr\nA  BCDEFGH");
    assert_text("\x1b[1;2H\x1b[2'~", "adefghij\nknopqrst\nADEFGHIJ");
    assert_text("\x1b[H\x1b6", " abcdefghi\n klmnopqrs\n ABCDEFGHI");
    assert_text("\x1b[1;10H\x1b9", "bcdefghij\nlmnopqrst\nBCDEFGHIJ");
}

#[test]
fn with_origin_mode_the_cursor_stays_between_the_margins() {
    let mut harness = Harness::with(80, 25, "\x1b[?69h\x1b[5;9r\x1b[20;30s\x1b[?6h\x1b[H");
    assert_eq!(harness.terminal.cursor(), (4, 19));
    harness.receive("\x1b[99;99H\x1b[6n");
    assert_eq!(harness.terminal.cursor(), (8, 29));
    assert_eq!(harness.terminal.output(), b"\x1b[5;11R");
}

#[test]
fn backspace_moves_back_only_over_a_wrap() {
    let mut harness = Harness::with(5, 3, "\x1b[?45habcdefg\x08\x08\x08");
    assert_eq!(harness.terminal.cursor(), (0, 4));
    harness.receive("\x1b[2;1H\r\n\x08");
    assert_eq!(harness.terminal.cursor(), (2, 0));
    harness.receive("\x1b[?1045h\x08");
    assert_eq!(harness.terminal.cursor(), (1, 4));
}

// Protection.

#[test]
fn a_selective_erasure_leaves_what_decsca_protects() {
    assert_text("\x1b[1\"qX\x1b[\"qY\x1b[?2J", "\n\n\nX");
    assert_text("\x1b[1\"qX\x1b[\"qY\x1b[2J", "");
}

#[test]
fn an_ordinary_erasure_leaves_what_spa_protects() {
    assert_text("\x1bVX\x1bWY\x1b[2J", "\n\n\nX");
    assert_text("\x1bVX\x1bWY\x1b[?2K", "abcdefghij\nklmnopqrst\nABCDEFGHIJ");
}

// Rectangles.

#[test]
fn a_rectangle_is_filled_erased_and_copied() {
    assert_text("\x1b[42;1;2;2;4$x", "a***efghij\nk***opqrst\nABCDEFGHIJ");
    assert_text("\x1b[1;2;2;4$z", "a   efghij\nk   opqrst\nABCDEFGHIJ");
    assert_text("\x1b[1;1;2;3;1;2;8;1$v", "abcdefghij\nklmnopqabc\nABCDEFGklm");
}

#[test]
fn an_overlapping_copy_uses_the_original_cells() {
    assert_text("\x1b[1;1;1;8;1;1;3;1$v", "ababcdefgh\nklmnopqrst\nABCDEFGHIJ");
}

#[test]
fn attributes_change_in_a_rectangle_or_in_a_stream() {
    let bold = |harness: &Harness, row, column| {
        harness.terminal.cell(row, column).unwrap().style().attributes.contains(Attributes::BOLD)
    };
    let stream = Harness::with(10, 4, "\x1b[1;3;2;5;1$r");
    assert_eq!(
        [(0, 1), (0, 9), (1, 0), (1, 5)].map(|(r, c)| bold(&stream, r, c)),
        [false, true, true, false]
    );
    let area = Harness::with(10, 4, "\x1b[2*x\x1b[1;3;2;5;1$r\x1b[1;3;1;3;1$t");
    assert_eq!(
        [(0, 2), (0, 3), (0, 9), (1, 0)].map(|(r, c)| bold(&area, r, c)),
        [false, true, false, false]
    );
}

#[test]
fn both_halves_of_a_pair_have_the_attributes_of_the_left_one() {
    let harness = Harness::with(10, 2, "a界b界\x1b[2*x\x1b[1;3;1;5;1$r");
    let bold = (0..6).map(|column| harness.terminal.cell(0, column).unwrap().style().attributes);
    let bold: String =
        bold.map(|it| if it.contains(Attributes::BOLD) { '1' } else { '0' }).collect();
    assert_eq!(bold, "000111");
}

// Large characters.

#[test]
fn a_row_of_large_characters_has_half_as_many_columns() {
    let harness = Harness::with(10, 4, "\x1b#6abcdefg");
    assert_eq!(
        (harness.terminal.text().as_str(), harness.terminal.cursor()),
        ("abcde\nfg", (1, 2))
    );
    assert_eq!(harness.terminal.line_size(0), LineSize::Wide);
    assert_eq!(harness.terminal.line_size(1), LineSize::Single);
}

#[test]
fn a_large_row_scrolled_to_the_cursor_accepts_a_character_beyond_its_end() {
    let harness = Harness::with(10, 3, "\x1b[2;1H\x1b#6a\x1b[1;9H\x1b[Sb");
    assert_eq!(harness.terminal.text(), "a       b");
    assert_eq!(harness.terminal.line_size(0), LineSize::Wide);
}

// Reports.

#[test]
fn settings_are_reported_as_the_sequences_that_set_them() {
    assert_reply("\x1b[3;10r\x1bP$qr\x1b\\", "\x1bP1$r3;10r\x1b\\");
    assert_reply("\x1b[?69h\x1b[10;40s\x1bP$qs\x1b\\", "\x1bP1$r10;40s\x1b\\");
    assert_reply("\x1b[1;93;48;2;1;2;3m\x1bP$qm\x1b\\", "\x1bP1$r0;1;93;48:2:1:2:3m\x1b\\");
    assert_reply("\x1b[3 q\x1bP$q q\x1b\\", "\x1bP1$r3 q\x1b\\");
    assert_reply("\x1b[1\"q\x1bP$q\"q\x1b\\", "\x1bP1$r1\"q\x1b\\");
    assert_reply("\x1bP$qmm\x1b\\", "\x1bP0$r\x1b\\");
}

#[test]
fn an_aborted_request_is_not_answered() {
    assert_reply("\x1bP$qm\x18\x1b\\", "");
}

#[test]
fn modes_are_reported_as_set_reset_or_permanently_reset() {
    assert_reply(
        "\x1b[?69h\x1b[?69$p\x1b[?7l\x1b[?7$p\x1b[1$p",
        "\x1b[?69;1$y\x1b[?7;2$y\x1b[1;4$y",
    );
}

#[test]
fn private_modes_are_saved_and_restored() {
    assert_reply(
        "\x1b[?7;45s\x1b[?7l\x1b[?45h\x1b[?7;45r\x1b[?7$p\x1b[?45$p",
        "\x1b[?7;1$y\x1b[?45;2$y",
    );
}

#[test]
fn a_repeated_character_has_its_marks() {
    let harness = Harness::with(10, 2, "e\u{301}\x1b[2b");
    assert_eq!(harness.terminal.text(), "e\u{301}e\u{301}e\u{301}");
}

// Another size.

#[test]
fn a_long_line_is_rewrapped() {
    let mut harness = Harness::with(10, 5, "abcdefghijkl\r\n$ ");
    harness.terminal.resize(12, 5);
    assert_eq!(
        (harness.terminal.text().as_str(), harness.terminal.cursor()),
        ("abcdefghijkl\n$", (1, 2))
    );
    harness.terminal.resize(5, 5);
    assert_eq!(harness.terminal.text(), "abcde\nfghij\nkl\n$");
    assert_eq!(harness.terminal.cursor(), (3, 2));
    harness.terminal.resize(40, 5);
    assert_eq!(harness.terminal.text(), "abcdefghijkl\n$");
}

#[test]
fn rewrapping_does_not_split_a_wide_character() {
    let mut harness = Harness::with(10, 5, "abc界d");
    harness.terminal.resize(4, 5);
    assert_eq!(harness.terminal.text(), "abc\n界d");
    harness.terminal.resize(10, 5);
    assert_eq!(harness.terminal.text(), "abc界d");
}

#[test]
fn resizing_truncates_the_alternate_screen_and_rewraps_the_main_one() {
    let mut harness = Harness::with(10, 4, "abcdefgh\x1b[?1049h\x1b[HABCDEFGH");
    harness.terminal.resize(5, 4);
    assert_eq!(harness.terminal.text(), "ABCDE");
    harness.receive("\x1b[?1049l");
    assert_eq!(
        (harness.terminal.text().as_str(), harness.terminal.cursor()),
        ("abcde\nfgh", (1, 3))
    );
}

proptest! {
    #[test]
    fn any_input_keeps_the_cursor_within_the_margins(
        parts in prop::collection::vec((1..=60_u16, 1..=30_u16, streams()), 1..4),
        is_within in any::<bool>(),
    ) {
        let mut harness = Harness::new(80, 24);
        for (columns, rows, stream) in parts {
            harness.terminal.resize(columns, rows);
            harness.receive(stream);
            let (upper, left) = harness.terminal.margins();
            prop_assert!(upper.end <= usize::from(rows) && left.end <= usize::from(columns));
            prop_assert!(!upper.is_empty() && !left.is_empty());
            // Outside any sequence, with all modes reset.
            harness.receive("\x18\x1b\\\x1b[?6h");
            if is_within {
                harness.receive("\x1b[99;99H\x1b[50A\x1b[50C\x1b[3D\x1b[4B\tx\x1b[2Zy\r\nz\x08\x1b[5G\x1b[2d");
            }
            let (row, column) = harness.terminal.cursor();
            prop_assert!(upper.contains(&usize::from(row)), "row {} not in {:?}", row, upper);
            let is_large = harness.terminal.line_size(row) != LineSize::Single;
            prop_assert!(left.contains(&usize::from(column)) || is_large, "{} not in {:?}", column, left);
        }
    }

    #[test]
    fn rewrapping_twice_restores_a_line(
        text in "[a-z界]{0,60}",
        widths in prop::collection::vec(2..40_u16, 1..6),
    ) {
        let mut harness = Harness::with(20, 100, &text);
        let before = (harness.terminal.text(), harness.terminal.cursor());
        for width in widths {
            harness.terminal.resize(width, 100);
            prop_assert_eq!(harness.terminal.text().replace('\n', ""), text.clone());
        }
        harness.terminal.resize(20, 100);
        prop_assert_eq!(harness.terminal.text(), before.0);
    }
}

// Rules that differ at a boundary or with one parameter.

#[test]
fn the_cursor_is_restored_by_csi_u_without_a_parameter_and_by_mode_1048() {
    let cursor = |stream: &str| {
        let harness = Harness::with(10, 4, stream);
        (harness.terminal.cursor(), harness.unknown())
    };
    assert_eq!(cursor("\x1b[3;4H\x1b[s\x1b[H\x1b[u"), ((2, 3), 0));
    assert_eq!(cursor("\x1b[3;4H\x1b[s\x1b[H\x1b[5u"), ((0, 0), 1));
    assert_eq!(cursor("\x1b[3;4H\x1b[?1048h\x1b[H\x1b[?1048l"), ((2, 3), 0));
    assert_eq!(cursor("\x1b[3;4H\x1b[?1048h\x1b[H"), ((0, 0), 0));
}

#[test]
fn with_origin_mode_the_restored_cursor_lies_between_the_margins() {
    let margins = "\x1b[?69h\x1b[2;3r\x1b[3;6s\x1b[?6h";
    let stream = format!("\x1b[4;9H\x1b[?6h\x1b7{margins}\x1b8");
    let harness = Harness::with(10, 4, &stream);
    assert!(harness.terminal.cursor().0 <= 2 && harness.terminal.cursor().1 <= 5, "{stream:?}");
    let (row, column) =
        Harness::with(10, 4, "\x1b[?6h\x1b[4;9H\x1b7\x1b[?69h\x1b[2;3r\x1b[3;6s\x1b8")
            .terminal
            .cursor();
    assert_eq!((row, column), (2, 5));
}

#[test]
fn the_size_of_the_text_is_reported() {
    assert_reply("\x1b[18t\x1b[19t", "\x1b[8;25;80t\x1b[9;25;80t");
}

#[test]
fn inert_modes_are_reported_as_they_were_set() {
    assert_reply("\x1b[12$p\x1b[12h\x1b[12$p\x1b[?1036$p", "\x1b[12;2$y\x1b[12;1$y\x1b[?1036;2$y");
}

#[test]
fn an_unknown_device_status_is_counted() {
    let harness = Harness::with(80, 25, "\x1b[?15n\x1b[?99n");
    assert_eq!((harness.terminal.output(), harness.unknown()), (&b"\x1b[?13n"[..], 1));
}

#[test]
fn cells_change_by_a_column_or_line_only_if_the_cursor_is_within_all_margins() {
    let lines = "abcdefghij\nklmnopqrst\nABCDEFGHIJ";
    for outside in ["\x1b[1;4H", "\x1b[2;1H", "\x1b[2;9H", "\x1b[4;4H"] {
        for operation in ["\x1b['}", "\x1b['~", "\x1b[L", "\x1b[M"] {
            let margins = "\x1b[?69h\x1b[2;3r\x1b[3;6s";
            assert_text(&format!("{margins}{outside}{operation}"), lines);
        }
    }
}

#[test]
fn an_alignment_pattern_removes_the_margins() {
    let pattern = "EEEEEEEEEE";
    assert_text("\x1b[?69h\x1b[2;3r\x1b[3;6s\x1b#8\x1b[4;10H\n", &[pattern; 3].join("\n"));
}

#[test]
fn up_from_the_upper_margin_does_not_move_and_from_above_it_does() {
    let cursor = |stream: &str| Harness::with(10, 4, stream).terminal.cursor();
    assert_eq!(cursor("\x1b[2;3r\x1b[2;1H\x1b[A"), (1, 0));
    assert_eq!(cursor("\x1b[2;3r\x1b[1;1H\x1b[B\x1b[3A"), (1, 0));
    assert_eq!(cursor("\x1b[3;4r\x1b[2;1H\x1b[A"), (0, 0));
}

#[test]
fn every_attribute_of_a_rectangle_is_set_and_reset_by_its_own_code() {
    let codes = [
        (1, 22, Attributes::BOLD),
        (4, 24, Attributes::UNDERLINE),
        (5, 25, Attributes::BLINK),
        (7, 27, Attributes::REVERSE),
        (8, 28, Attributes::HIDDEN),
    ];
    for (set, reset, attribute) in codes {
        let attributes = |stream: &str| {
            let harness = Harness::with(10, 4, stream);
            harness.terminal.cell(0, 0).unwrap().style().attributes
        };
        assert_eq!(attributes(&format!("x\x1b[1;1;1;1;{set}$r")), attribute);
        let after_reset = attributes(&format!("x\x1b[1;1;1;1;{set}$r\x1b[1;1;1;1;{reset}$r"));
        assert_eq!(after_reset, Style::PLAIN.attributes);
    }
}

#[test]
fn each_attribute_has_its_own_weight_in_a_checksum() {
    let weights = [("8", 0x08), ("4", 0x10), ("7", 0x20), ("5", 0x40), ("1", 0x80)];
    for (attribute, weight) in weights {
        let mut harness = Harness::new(80, 24);
        harness.terminal.report_checksums(true);
        harness.receive(format!("\x1b[{attribute}mA\x1b[7;1;1;1;1;1*y"));
        let sum = 0x1_0000 - (u32::from(b'A') + weight);
        let expected = format!("\x1bP7!~{sum:04X}\x1b\\");
        assert_eq!(String::from_utf8_lossy(harness.terminal.output()), expected);
    }
}
