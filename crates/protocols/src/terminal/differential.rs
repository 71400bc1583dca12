//! Differential tests: random streams must produce the same screen in this terminal and in
//! alacritty.
//!
//! The streams consist of steps that each begin with a cursor position. The streams avoid cases in
//! which the two terminals differ intentionally:
//!
//! - cursor motions and edits while a wrap is pending: in this terminal any motion or edit cancels
//!   the wrap, as on a VT100; alacritty leaves it pending in some cases;
//! - edits that cut a wide character: this terminal replaces the remaining half with a space;
//! - the style of the last column if a wide character does not fit there: alacritty writes a
//!   filler, and this terminal leaves the cell unchanged;
//! - DCH with a count larger than the number of remaining characters: alacritty also clears some
//!   characters before the cursor;
//! - REP beyond the end of a row, which this terminal truncates, and REP after anything but a
//!   character;
//! - SGR 5, which alacritty does not support, and SGR 21, which ends bold in alacritty and
//!   underlines in this terminal;
//! - titles, replies and modes that do not affect the screen.

use super::{Attributes, Cell, Color, Style, Terminal};
use alacritty_terminal::Term;
use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{self, Column};
use alacritty_terminal::term::Config;
use alacritty_terminal::term::cell::{Cell as TheirCell, Flags};
use alacritty_terminal::vte::ansi::{self, NamedColor, Processor};
use net::cx::OwnedCx;
use proptest::prelude::*;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

const COLUMNS: u16 = 40;
const ROWS: u16 = 12;

struct Size;

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        ROWS.into()
    }

    fn screen_lines(&self) -> usize {
        ROWS.into()
    }

    fn columns(&self) -> usize {
        COLUMNS.into()
    }
}

fn run_alacritty(stream: &[u8]) -> Term<VoidListener> {
    let mut terminal = Term::new(Config::default(), &Size, VoidListener);
    let mut processor: Processor = Processor::new();
    processor.advance(&mut terminal, stream);
    terminal
}

fn run_terminal(stream: &[u8]) -> Terminal {
    let mut terminal = Terminal::new(COLUMNS, ROWS);
    terminal.receive(stream, &mut OwnedCx::default().cx());
    terminal
}

/// Converts a cell of alacritty's grid to a [`Cell`], without combining marks.
fn convert_cell(cell: &TheirCell) -> Cell {
    let attributes = [
        (Flags::BOLD, Attributes::BOLD),
        (Flags::DIM, Attributes::DIM),
        (Flags::ITALIC, Attributes::ITALIC),
        (Flags::UNDERLINE, Attributes::UNDERLINE),
        (Flags::INVERSE, Attributes::REVERSE),
        (Flags::HIDDEN, Attributes::HIDDEN),
        (Flags::STRIKEOUT, Attributes::STRIKE),
    ];
    let attributes = attributes.into_iter().filter(|(flag, _)| cell.flags.contains(*flag));
    let style = Style {
        foreground: color(cell.fg),
        background: color(cell.bg),
        attributes: attributes.fold(Attributes::default(), |all, (_, one)| all.with(one)),
    };
    // alacritty's terminal stores the tab in the cell at which it started.
    let character = if cell.c == '\t' { ' ' } else { cell.c };
    match cell.flags {
        flags if flags.contains(Flags::WIDE_CHAR) => Cell::wide(character, style)[0],
        flags if flags.contains(Flags::WIDE_CHAR_SPACER) => Cell::wide(character, style)[1],
        _ => Cell::new(character, style),
    }
}

fn color(color: ansi::Color) -> Color {
    match color {
        ansi::Color::Named(NamedColor::Foreground | NamedColor::Background) => Color::Default,
        ansi::Color::Named(named) => Color::Indexed(u8::try_from(named as usize).unwrap()),
        ansi::Color::Indexed(index) => Color::Indexed(index),
        ansi::Color::Spec(rgb) => Color::Rgb(rgb.r, rgb.g, rgb.b),
    }
}

fn compare(steps: &[String]) -> Result<(), TestCaseError> {
    let stream = steps.concat();
    let ours = run_terminal(stream.as_bytes());
    let theirs = run_alacritty(stream.as_bytes());
    let cursor = theirs.grid().cursor.point;
    let cursor = (u16::try_from(cursor.line.0).unwrap(), u16::try_from(cursor.column.0).unwrap());
    prop_assert_eq!(ours.cursor(), cursor);
    for row in 0..ROWS {
        let their_row = &theirs.grid()[index::Line(row.into())];
        let cells = (0..COLUMNS).map(|column| &their_row[Column(column.into())]);
        let marks = |cell: &TheirCell| cell.zerowidth().unwrap_or_default().to_vec();
        for (column, their_cell) in (0..COLUMNS).zip(cells) {
            let our_cell = ours.cell(row, column).unwrap();
            let our_marks: Vec<_> = our_cell.marks().collect();
            prop_assert_eq!(&our_marks, &marks(their_cell), "marks at {}, {}", row, column);
            let expected = convert_cell(their_cell);
            let style = our_cell.style();
            let their_style = expected.style();
            prop_assert_eq!(our_cell.character(), expected.character(), "at {}, {}", row, column);
            prop_assert_eq!(our_cell.is_wide(), expected.is_wide(), "at {}, {}", row, column);
            let is_compared = !our_cell.is_tail() && column + 1 < COLUMNS;
            prop_assert!(style == their_style || !is_compared, "style at {row}, {column}");
        }
    }
    Ok(())
}

/// Generates one step that has the same meaning in both terminals. No wrap is pending before or
/// after the step.
fn steps() -> impl Strategy<Value = Vec<String>> {
    let cursor_motion =
        || (1..=12, 1..=38).prop_map(|(row, column)| format!("\x1b[{row};{column}H"));
    let matching = |pattern: &str| prop::string::string_regex(pattern).unwrap();
    let step = prop_oneof![
        4 => (cursor_motion(), "[!-~ ]{1,90}").prop_map(|(cursor_motion, text)| cursor_motion + &text + "\r"),
        2 => (cursor_motion(), matching("([a-zé界語ぁ가]\u{301}?){1,40}")).prop_map(|(cursor_motion, text)| {
            format!("{cursor_motion}\x1b[2K\x1b[J{text}\r")
        }),
        3 => (cursor_motion(), matching("\x1b\\[([0-9]{0,2}[ABCDEFGJKX@Zde`a]|[12]?P)")).prop_map(|(cursor_motion, edit)| {
            format!("\x1b[1;1H\x1b[2J{cursor_motion}ab\x1b[3Ccd{cursor_motion}{edit}\r")
        }),
        2 => (2..6, 7..11, "(\x1bM|\x1bD|\x1bE|\n|\x1b\\[[1-4]?[LMST]\r){1,6}").prop_map(
            |(top, bottom, scrolls)| {
                format!("\x1b[{top};{bottom}r\x1b[{top}H{scrolls}\x1b[r\x1b[H")
            }
        ),
        2 => matching("(\x1b\\[([0-47-9]|2[2-9]|3[0-79]|4[0-79]|9[0-7]|10[0-7])m){1,3}"),
        1 => matching("\x1b\\[[34]8;5;(1[0-9]{2}|2[0-4][0-9]|[0-9]{1,2})m"),
        1 => matching("\x1b\\[[34]8;2(;1[0-9]{2}){3}m"),
        1 => (cursor_motion(), "[j-x]{1,9}").prop_map(|(cursor_motion, text)| {
            format!("{cursor_motion}\x1b(0{text}\x1b(B{text}\r")
        }),
        1 => (cursor_motion(), "[a-z]{1,30}").prop_map(|(cursor_motion, text)| {
            format!("{cursor_motion}\x1b[?1049h\x1b[H{text}\x1b[?1049l\r")
        }),
        1 => (cursor_motion(), "[a-z]{1,9}").prop_map(|(cursor_motion, text)| {
            format!("{cursor_motion}\x1b[2K\x1b[J\x1b[4h{text}\r{text}\x1b[4l\r")
        }),
        1 => (cursor_motion(), "[a-z]{30,50}").prop_map(|(cursor_motion, text)| {
            format!("{cursor_motion}\x1b[?7l{text}\x1b[?7h\r")
        }),
        1 => (cursor_motion(), cursor_motion(), "[a-z]{1,9}").prop_map(|(cursor_motion, other, text)| {
            format!("{cursor_motion}\x1b7{other}\x1b[1m{text}\x1b8*\r")
        }),
        1 => (cursor_motion(), "\t{1,3}", 1..4).prop_map(|(cursor_motion, tabs, count)| {
            format!("{cursor_motion}\x1bH\x1b[H{tabs}x\x1b[{count}I\r\x1b[{count}Z\r\x1b[3g")
        }),
        1 => (2..6, 7..11, 1..12, "[a-z]{1,9}").prop_map(|(top, bottom, row, text)| {
            format!("\x1b[{top};{bottom}r\x1b[?6h\x1b[{row};3H{text}\x1b[?6l\x1b[r\x1b[H")
        }),
    ];
    prop::collection::vec(step, 0..40)
}

proptest! {
    #[test]
    fn the_screen_equals_that_of_alacritty(steps in steps()) {
        compare(&steps)?;
    }
}
