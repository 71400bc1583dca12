//! Screen operations of the Heath-19: cursor, 25th line, and edits of the grid.
//!
//! Rows 0 to 23 scroll. Row 24 is the 25th line and never scrolls. The cursor is always inside the
//! grid. No wrap is ever pending: after a character in the last column the cursor moves to the next
//! row at once if wrapping is on, and otherwise stays in the last column.
//!
//! An erased cell is a plain space, even in reverse video.

use super::glyphs;
use crate::terminal::cell::{Attributes, Cell, Style};
use crate::terminal::grid::Grid;
use core::ops::Range;
use net::meter::{Meter, Work};

/// Number of columns.
pub(super) const COLUMNS: usize = 80;
/// Number of scrolling rows. This is also the index of the 25th line.
pub(super) const ROWS: usize = 24;
/// Distance between the fixed tab stops in columns.
const TAB_DISTANCE: usize = 8;
const LAST_COLUMN: usize = COLUMNS - 1;
const LAST_ROW: usize = ROWS - 1;

/// Position of the cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CursorPosition {
    pub(super) row: usize,
    pub(super) column: usize,
}

/// The video memory, and the modes that affect writing to it.
#[derive(Debug)]
pub(super) struct Screen {
    grid: Grid,
    cursor: CursorPosition,
    saved: CursorPosition,
    /// Whether the 25th line is displayed.
    has_line_25: bool,
    pub(super) wraps: bool,
    pub(super) is_reverse: bool,
    pub(super) is_graphic: bool,
    pub(super) inserts: bool,
    pub(super) cells_written: u64,
    pub(super) new_lines: u64,
}

impl Screen {
    /// Creates a blank screen without a 25th line.
    pub(super) fn new(wraps: bool) -> Self {
        Self {
            grid: Grid::new(COLUMNS, ROWS + 1),
            cursor: CursorPosition::default(),
            saved: CursorPosition::default(),
            has_line_25: false,
            wraps,
            is_reverse: false,
            is_graphic: false,
            inserts: false,
            cells_written: 0,
            new_lines: 0,
        }
    }

    pub(super) fn grid(&self) -> &Grid {
        &self.grid
    }

    pub(super) fn cursor(&self) -> CursorPosition {
        self.cursor
    }

    pub(super) fn has_line_25(&self) -> bool {
        self.has_line_25
    }

    fn is_on_line_25(&self) -> bool {
        self.cursor.row == ROWS
    }

    // Printing.

    fn style(&self) -> Style {
        let reverse = Style { attributes: Attributes::REVERSE, ..Style::PLAIN };
        if self.is_reverse { reverse } else { Style::PLAIN }
    }

    /// Prints printable ASCII, as glyphs in graphics mode.
    pub(super) fn print(&mut self, text: &[u8], meter: &mut Meter) {
        if self.is_graphic || self.inserts {
            text.iter().for_each(|byte| self.print_one(*byte, meter));
            return;
        }
        let mut rest = text;
        while let Some((&last, _)) = rest.split_last() {
            let room = COLUMNS - self.cursor.column;
            let Some((part, later)) = rest.split_at_checked(room) else {
                self.put(rest);
                self.cursor.column += rest.len();
                return;
            };
            self.put(part);
            self.cursor.column = LAST_COLUMN;
            if !self.wraps {
                // Each further character overwrites the previous one, so only the last one remains.
                if let Some((_, others)) = later.split_last() {
                    self.cells_written += others.len() as u64;
                    self.put(&[last]);
                }
                return;
            }
            self.wrap(meter);
            rest = later;
        }
    }

    fn put(&mut self, text: &[u8]) {
        let CursorPosition { row, column } = self.cursor;
        let style = self.style();
        self.cells_written += text.len() as u64;
        if let Some(row) = self.grid.row_mut(row) {
            row.write_ascii(column, text, Cell::new(' ', style));
        }
    }

    fn print_one(&mut self, byte: u8, meter: &mut Meter) {
        let character = if self.is_graphic { glyphs::glyph(byte) } else { char::from(byte) };
        let CursorPosition { row, column } = self.cursor;
        let style = self.style();
        if let Some(row) = self.grid.row_mut(row) {
            if self.inserts {
                row.insert(column..COLUMNS, 1, Cell::BLANK);
            }
            row.write(column, [Cell::new(character, style)]);
        }
        self.cells_written += 1;
        if column < LAST_COLUMN {
            self.cursor.column += 1;
        } else if self.wraps {
            self.wrap(meter);
        }
    }

    fn wrap(&mut self, meter: &mut Meter) {
        self.line_feed(meter);
        self.cursor.column = 0;
    }

    // Controls.

    /// Executes LF: moves one row down, or scrolls on the last row; no effect on the 25th line.
    pub(super) fn line_feed(&mut self, meter: &mut Meter) {
        self.new_lines += 1;
        meter.work(Work::NewLine, 1);
        if self.cursor.row < LAST_ROW {
            self.cursor.row += 1;
        } else if self.cursor.row == LAST_ROW {
            self.grid.scroll_up(0..ROWS, 1, Cell::BLANK);
        }
    }

    /// Returns whether the cursor is on the last scrolling row, where a line feed scrolls.
    pub(super) fn is_on_last_row(&self) -> bool {
        self.cursor.row == LAST_ROW
    }

    /// Executes CR: moves to column 0.
    pub(super) fn carriage_return(&mut self) {
        self.cursor.column = 0;
    }

    /// Executes HT: moves to the next tab stop, or one column to the right after the last tab stop.
    pub(super) fn tab(&mut self) {
        let stop = (self.cursor.column / TAB_DISTANCE + 1) * TAB_DISTANCE;
        self.cursor.column = if stop < COLUMNS { stop } else { self.cursor.column + 1 };
        self.cursor.column = self.cursor.column.min(LAST_COLUMN);
    }

    /// Reverse index: moves one row up, or scrolls down on the first row.
    pub(super) fn reverse_index(&mut self) {
        match self.cursor.row {
            0 => self.grid.scroll_down(0..ROWS, 1, Cell::BLANK),
            ROWS => {}
            row => self.cursor.row = row - 1,
        }
    }

    // The cursor.

    pub(super) fn up(&mut self, count: usize) {
        if !self.is_on_line_25() {
            self.cursor.row = self.cursor.row.saturating_sub(count);
        }
    }

    pub(super) fn down(&mut self, count: usize) {
        if !self.is_on_line_25() {
            self.cursor.row = self.cursor.row.saturating_add(count).min(LAST_ROW);
        }
    }

    pub(super) fn right(&mut self, count: usize) {
        self.cursor.column = self.cursor.column.saturating_add(count).min(LAST_COLUMN);
    }

    pub(super) fn left(&mut self, count: usize) {
        self.cursor.column = self.cursor.column.saturating_sub(count);
    }

    pub(super) fn home(&mut self) {
        self.cursor = CursorPosition::default();
    }

    /// Moves to a row; no effect if that row is not displayed.
    pub(super) fn set_row(&mut self, row: usize) {
        if row < ROWS || (row == ROWS && self.has_line_25) {
            self.cursor.row = row;
        }
    }

    /// Moves to a column; a column beyond the last means the last.
    pub(super) fn set_column(&mut self, column: usize) {
        self.cursor.column = column.min(LAST_COLUMN);
    }

    pub(super) fn save_cursor(&mut self) {
        self.saved = self.cursor;
    }

    /// Moves to the saved position, even on a 25th line that is no longer displayed.
    pub(super) fn restore_cursor(&mut self) {
        self.cursor = self.saved;
    }

    // Edits.

    /// Turns the 25th line on, blank; no effect if it is already on.
    pub(super) fn show_line_25(&mut self) {
        if !self.has_line_25 {
            self.has_line_25 = true;
            self.grid.fill(ROWS..ROWS + 1, Cell::BLANK);
        }
    }

    /// Turns the 25th line off. The cursor does not move.
    pub(super) fn hide_line_25(&mut self) {
        self.has_line_25 = false;
    }

    /// Clears rows 0 to 23 and moves the cursor home. If the cursor is on the 25th line, clears
    /// only that line.
    pub(super) fn clear(&mut self) {
        if self.is_on_line_25() {
            return self.erase_line();
        }
        self.grid.fill(0..ROWS, Cell::BLANK);
        self.home();
    }

    /// Erases from the first cell of the screen to the cursor. If the cursor is on the 25th line,
    /// erases only within that line.
    pub(super) fn erase_to_cursor(&mut self) {
        self.erase_line_to_cursor();
        if !self.is_on_line_25() {
            self.grid.fill(0..self.cursor.row, Cell::BLANK);
        }
    }

    /// Erases from the cursor to the end of row 23. If the cursor is on the 25th line, erases only
    /// within that line.
    pub(super) fn erase_from_cursor(&mut self) {
        self.erase_line_from_cursor();
        if !self.is_on_line_25() {
            self.grid.fill(self.cursor.row + 1..ROWS, Cell::BLANK);
        }
    }

    pub(super) fn erase_line(&mut self) {
        self.erase(0..COLUMNS);
    }

    pub(super) fn erase_line_to_cursor(&mut self) {
        self.erase(0..self.cursor.column + 1);
    }

    pub(super) fn erase_line_from_cursor(&mut self) {
        self.erase(self.cursor.column..COLUMNS);
    }

    fn erase(&mut self, columns: Range<usize>) {
        if let Some(row) = self.grid.row_mut(self.cursor.row) {
            row.fill(columns, Cell::BLANK);
        }
    }

    /// Inserts lines at the cursor's row. If the cursor is on the 25th line, blanks that line; the
    /// original corrupts its memory in this case.
    pub(super) fn insert_lines(&mut self, count: usize) {
        if self.is_on_line_25() {
            self.erase_line();
        } else {
            self.grid.scroll_down(self.cursor.row..ROWS, count, Cell::BLANK);
        }
        self.cursor.column = 0;
    }

    /// Deletes lines at the cursor's row. If the cursor is on the 25th line, blanks that line, like
    /// [`Self::insert_lines`].
    pub(super) fn delete_lines(&mut self, count: usize) {
        if self.is_on_line_25() {
            self.erase_line();
        } else {
            self.grid.scroll_up(self.cursor.row..ROWS, count, Cell::BLANK);
        }
        self.cursor.column = 0;
    }

    /// Deletes characters at the cursor.
    pub(super) fn delete_characters(&mut self, count: usize) {
        let CursorPosition { row, column } = self.cursor;
        if let Some(row) = self.grid.row_mut(row) {
            row.delete(column..COLUMNS, count, Cell::BLANK);
        }
    }
}
