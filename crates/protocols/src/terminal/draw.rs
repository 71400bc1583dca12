//! From one picture to the next, in the bytes of a modern terminal that shows the first.
//!
//! Only cells that changed are written. Between two of them the cursor is moved by whatever is
//! shortest; a few cells that did not change are written again where that is shorter still. Rows
//! that have moved up are scrolled, with the margins around them, and a blank rest of a row is
//! erased. In the last column a terminal has a wrap pending, and after combining marks terminals
//! differ in where they are: from there the next motion is absolute.
//!
//! The terminal must be as the last drawing left it: plain style, no margins, and the cursor where
//! it was shown. The result leaves it so.

use super::cell::{Attributes, Cell, Color, Style};
use super::picture::{CursorShape, Picture};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;

/// As many cells that did not change are rather written again than jumped over.
const GAP_MAX: usize = 4;
/// So many blanks at the end of a row are rather erased than written.
const ERASED_MIN: usize = 4;
/// Scrolling must save writing that many cells: setting margins costs some twenty bytes.
const SCROLLED_CELLS_MIN: usize = 40;

/// Returns the bytes that make `new` of a terminal that shows `old`.
///
/// Pictures of different sizes have nothing in common: everything is drawn anew.
#[must_use]
pub fn draw(old: &Picture, new: &Picture) -> Vec<u8> {
    let mut painter = Painter::default();
    let mut old = old.clone();
    let old_cursor = old.cursor();
    if old.size() != new.size() {
        painter.bytes.extend_from_slice(b"\x1b[m\x1b[H\x1b[2J");
        let (columns, rows) = new.size();
        old = Picture::new(columns, rows);
        painter.place = Some((0, 0));
    } else if let Some(cursor) = old_cursor {
        painter.place = Some((cursor.row.into(), cursor.column.into()));
    }
    painter.scroll(&mut old, new);
    let (_, rows) = new.size();
    for row in 0..usize::from(rows) {
        if old.row(row) != new.row(row) {
            painter.row(row, old.row(row), new.row(row));
        }
    }
    painter.set_style(Style::PLAIN);
    if let Some(cursor) = new.cursor() {
        painter.go(cursor.row.into(), cursor.column.into());
        if old_cursor.map(|cursor| cursor.shape) != Some(cursor.shape) {
            painter.bytes.extend_from_slice(match cursor.shape {
                CursorShape::Own => b"\x1b[0 q",
                CursorShape::Block => b"\x1b[1 q",
                CursorShape::Underscore => b"\x1b[3 q",
                CursorShape::Bar => b"\x1b[5 q",
            });
        }
    }
    if old_cursor.is_some() != new.cursor().is_some() {
        let is_seen = new.cursor().is_some();
        painter.bytes.extend_from_slice(if is_seen { b"\x1b[?25h" } else { b"\x1b[?25l" });
    }
    painter.bytes
}

/// What the terminal is made to do, and in which state that leaves it.
#[derive(Debug, Default)]
struct Painter {
    bytes: Vec<u8>,
    /// The cursor's row and column, if they are known.
    place: Option<(usize, usize)>,
    style: Style,
}

impl Painter {
    /// Scrolls what has moved up, on the terminal and in `old`.
    fn scroll(&mut self, old: &mut Picture, new: &Picture) {
        let Some((top, bottom, count)) = find_scroll(old, new) else { return };
        self.put(format_args!("\x1b[{};{bottom}r\x1b[{bottom}H", top + 1));
        self.bytes.resize(self.bytes.len() + count, b'\n');
        self.put(format_args!("\x1b[r"));
        self.place = Some((0, 0));
        old.scroll_up(top, bottom, count);
    }

    fn row(&mut self, row: usize, old: &[Cell], new: &[Cell]) {
        let is_changed = changes(old, new);
        let blank_from = new.iter().rposition(|cell| *cell != Cell::BLANK).map_or(0, |at| at + 1);
        let numbered = is_changed.iter().enumerate();
        let changed = numbered.filter_map(|(column, is_changed)| is_changed.then_some(column));
        let mut in_blank = changed.clone().filter(|column| *column >= blank_from);
        let first_blank = in_blank.next().filter(|_| in_blank.count() + 1 >= ERASED_MIN);
        let end = first_blank.unwrap_or(new.len());
        for column in changed.take_while(|column| *column < end) {
            let Some(cell) = new.get(column) else { continue };
            // The left half has brought it.
            if !cell.is_tail() {
                self.fill_gap(row, column, new);
                self.go(row, column);
                self.cell(cell, new.len());
            }
        }
        if end < new.len() {
            self.go(row, end);
            self.set_style(Style::PLAIN);
            self.put(format_args!("\x1b[K"));
        }
    }

    /// Writes the few cells up to `column` again, if that is all there is between.
    fn fill_gap(&mut self, row: usize, column: usize, cells: &[Cell]) {
        let Some((_, from)) = self.place.filter(|(at, _)| *at == row) else { return };
        let Some(gap) = cells.get(from..column).filter(|gap| gap.len() <= GAP_MAX) else { return };
        let is_simple = |cell: &Cell| {
            cell.character().is_ascii() && !cell.is_tail() && cell.marks().next().is_none()
        };
        if gap.iter().all(|cell| is_simple(cell) && cell.style() == self.style) {
            gap.iter().for_each(|cell| self.cell(cell, cells.len()));
        }
    }

    fn cell(&mut self, cell: &Cell, columns: usize) {
        self.set_style(cell.style());
        let mut buffer = [0; 4];
        for character in core::iter::once(cell.character()).chain(cell.marks()) {
            self.bytes.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
        }
        let has_marks = cell.marks().next().is_some();
        let width = 1 + usize::from(cell.is_wide());
        let next = self.place.map(|(row, column)| (row, column + width));
        self.place = next.filter(|(_, column)| *column < columns && !has_marks);
    }

    fn go(&mut self, row: usize, column: usize) {
        match self.place {
            Some(place) if place == (row, column) => return,
            Some((at, _)) if at == row && column == 0 => self.bytes.push(b'\r'),
            Some((at, from)) if at == row && column + 3 >= from && column < from => {
                self.bytes.resize(self.bytes.len() + from - column, 0x08);
            }
            Some((at, from)) if at == row && column == from + 1 => self.put(format_args!("\x1b[C")),
            Some((at, from)) if at == row && column > from => {
                self.put(format_args!("\x1b[{}C", column - from));
            }
            Some((at, _)) if at + 1 == row && column == 0 => self.bytes.extend_from_slice(b"\r\n"),
            _ if column == 0 && row == 0 => self.put(format_args!("\x1b[H")),
            _ if column == 0 => self.put(format_args!("\x1b[{}H", row + 1)),
            _ => self.put(format_args!("\x1b[{};{}H", row + 1, column + 1)),
        }
        self.place = Some((row, column));
    }

    fn set_style(&mut self, style: Style) {
        if self.style == style {
            return;
        }
        self.style = style;
        self.bytes.extend_from_slice(b"\x1b[");
        if style != Style::PLAIN {
            self.bytes.push(b'0');
        }
        for (attribute, code) in ATTRIBUTE_CODES {
            if style.attributes.contains(attribute) {
                self.put(format_args!(";{code}"));
            }
        }
        self.color(style.foreground, 30);
        self.color(style.background, 40);
        self.bytes.push(b'm');
    }

    fn color(&mut self, color: Color, base: u8) {
        match color {
            Color::Default => {}
            Color::Indexed(index @ 0..8) => self.put(format_args!(";{}", base + index)),
            Color::Indexed(index @ 8..16) => self.put(format_args!(";{}", base + 52 + index)),
            Color::Indexed(index) => self.put(format_args!(";{};5;{index}", base + 8)),
            Color::Rgb(red, green, blue) => {
                self.put(format_args!(";{};2;{red};{green};{blue}", base + 8));
            }
        }
    }

    fn put(&mut self, arguments: core::fmt::Arguments<'_>) {
        let mut writer = Writer(&mut self.bytes);
        // Writing to a vector cannot fail.
        _ = writer.write_fmt(arguments);
    }
}

const ATTRIBUTE_CODES: [(Attributes, u8); 8] = [
    (Attributes::BOLD, 1),
    (Attributes::DIM, 2),
    (Attributes::ITALIC, 3),
    (Attributes::UNDERLINE, 4),
    (Attributes::BLINK, 5),
    (Attributes::REVERSE, 7),
    (Attributes::HIDDEN, 8),
    (Attributes::STRIKE, 9),
];

struct Writer<'a>(&'a mut Vec<u8>);

impl core::fmt::Write for Writer<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Returns which cells of a row must be written: a pair whole, if either half must.
fn changes(old: &[Cell], new: &[Cell]) -> Vec<bool> {
    let mut is_changed = vec![false; new.len()];
    let pairs = is_changed.iter_mut().zip(old.iter().zip(new));
    pairs.for_each(|(is_changed, (old, new))| *is_changed = old != new);
    let has_pairs = |cells: &[Cell]| cells.iter().any(Cell::is_wide);
    if !has_pairs(old) && !has_pairs(new) {
        return is_changed;
    }
    // Old pairs and new ones may overlap by one, over and over, so that one change draws the next.
    for _ in 0..new.len() {
        let mut has_grown = false;
        for column in 1..new.len() {
            let is_pair = [old, new].iter().any(|row| row.get(column).is_some_and(Cell::is_tail));
            if let Some([left, right]) = is_changed.get_mut(column - 1..=column)
                && is_pair
                && left != right
            {
                (*left, *right, has_grown) = (true, true, true);
            }
        }
        if !has_grown {
            break;
        }
    }
    is_changed
}

/// Returns the first row, the row behind the last, and by how much the rows between moved up, if
/// it is worth it.
fn find_scroll(old: &Picture, new: &Picture) -> Option<(usize, usize, usize)> {
    let rows = usize::from(new.size().1);
    let is_same = |row: usize, count: usize| {
        let cells = new.row(row);
        cells == old.row(row + count) && cells != old.row(row)
    };
    let mut best = None;
    for count in 1..rows {
        let mut top = 0;
        while top + count < rows {
            let run = (top..rows - count).take_while(|row| is_same(*row, count));
            let (length, saved) = run.fold((0, 0), |(length, saved), row| {
                let written = new.row(row).iter().filter(|cell| **cell != Cell::BLANK).count();
                (length + 1, saved + written)
            });
            if saved >= SCROLLED_CELLS_MIN && best.is_none_or(|(most, _)| saved > most) {
                best = Some((saved, (top, top + length + count, count)));
            }
            top += length + 1;
        }
    }
    best.map(|(_, found)| found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::testing::Lab;
    use crate::terminal::tests::streams;
    use crate::terminal::{PictureCursor, Terminal};
    use proptest::prelude::*;
    use std::string::String;

    /// Returns what is drawn for `later` where `before` was received and drawn.
    fn drawn(before: &str, later: &str) -> String {
        let (mut terminal, mut lab) = (Terminal::new(80, 24), Lab::default());
        terminal.receive(before.as_bytes(), &mut lab.cx());
        let old = terminal.picture();
        terminal.receive(later.as_bytes(), &mut lab.cx());
        String::from_utf8(draw(&old, &terminal.picture())).unwrap()
    }

    #[test]
    fn a_key_at_the_cursor_is_drawn_as_itself() {
        assert_eq!(drawn("login: ", "r"), "r");
        assert_eq!(drawn("login: r", "\x08 \x08"), "\x08 \x08");
        assert_eq!(drawn("login: root", ""), "");
    }

    #[test]
    fn only_what_changed_is_drawn() {
        assert_eq!(drawn("one two three", "\x1b[1;5HTWO\x1b[1;14H"), "\x1b[1;5HTWO\x1b[6C");
        assert_eq!(drawn("abcdef", "\x1b[1;1HX\x1b[1;4HY"), "\rXbcY");
        assert_eq!(drawn("abc", "\x1b[1;31m!"), "\x1b[0;1;31m!\x1b[m");
        assert_eq!(drawn("a longer line", "\x1b[1;3H\x1b[K"), "\x1b[1;3H\x1b[K");
    }

    #[test]
    fn rows_that_moved_up_are_scrolled() {
        let lines = |first: u32, last: u32| {
            (first..=last)
                .map(|n| std::format!("\r\nthis is line {n} of the page"))
                .collect::<String>()
        };
        let drawn = drawn(&lines(1, 30), &lines(31, 31));
        assert_eq!(drawn, "\x1b[1;24r\x1b[24H\n\x1b[r\x1b[24Hthis is line 31 of the page");
    }

    #[test]
    fn another_size_is_drawn_from_the_beginning() {
        let (old, mut new) = (Picture::new(80, 24), Picture::new(10, 2));
        new.set_cell(1, 0, 'x', Style::PLAIN);
        assert_eq!(draw(&old, &new), b"\x1b[m\x1b[H\x1b[2J\r\nx\x1b[H");
    }

    #[test]
    fn a_cursor_is_hidden_and_shown_again() {
        let (old, mut new) = (Picture::new(80, 24), Picture::new(80, 24));
        new.set_cursor(None);
        assert_eq!(draw(&old, &new), b"\x1b[?25l");
        assert_eq!(draw(&new, &old), b"\x1b[H\x1b[0 q\x1b[?25h");
    }

    #[test]
    fn a_cell_that_is_set_takes_the_other_half_of_a_pair_with_it() {
        let (mut terminal, mut lab) = (Terminal::new(80, 24), Lab::default());
        terminal.receive("a界b".as_bytes(), &mut lab.cx());
        let mut picture = terminal.picture();
        picture.set_cell(0, 2, 'x', Style::PLAIN);
        let text: String = picture.row(0).iter().map(Cell::character).collect();
        assert_eq!(text.trim_end(), "a xb");
        picture.set_cursor(Some(PictureCursor { row: 24, ..PictureCursor::default() }));
        assert_eq!(picture.cursor(), None);
    }

    proptest! {
        #[test]
        fn what_is_drawn_is_what_is_seen(
            steps in prop::collection::vec(streams(), 1..5),
            columns in 1..40_u16,
            rows in 1..12_u16,
        ) {
            let mut lab = Lab::default();
            let (mut terminal, mut screen) = (Terminal::new(columns, rows), Terminal::new(columns, rows));
            let mut old = Picture::new(columns, rows);
            for step in steps {
                terminal.receive(&step, &mut lab.cx());
                let new = terminal.picture();
                screen.receive(&draw(&old, &new), &mut lab.cx());
                let seen = screen.picture();
                let place = |picture: &Picture| picture.cursor().map(|at| (at.row, at.column));
                prop_assert_eq!(place(&seen), place(&new));
                for row in 0..rows {
                    prop_assert_eq!(seen.row(row.into()), new.row(row.into()), "row {}", row);
                }
                old = new;
            }
        }
    }
}
