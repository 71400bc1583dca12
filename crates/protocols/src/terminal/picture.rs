//! A snapshot of a terminal's display: its cells and its cursor, independent of the kind of
//! terminal.
//!
//! A picture may be modified before it is drawn, for example with a status line or with predicted
//! characters.

use super::cell::{Cell, Style};
use super::grid::{Grid, narrow};
use alloc::vec;
use alloc::vec::Vec;
use unicode_width::UnicodeWidthChar;

/// Shape of the cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CursorShape {
    /// The configured shape of the terminal on which the picture is drawn.
    #[default]
    Configured,
    /// A blinking block.
    Block,
    /// A blinking underscore.
    Underscore,
    /// A blinking bar at the left.
    Bar,
}

/// Position and shape of a visible cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PictureCursor {
    /// The row, counted from 0.
    pub row: u16,
    /// The column, counted from 0.
    pub column: u16,
    /// Shape of the cursor.
    pub shape: CursorShape,
}

/// The cells and the cursor of a terminal at one point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    cells: Vec<Cell>,
    columns: usize,
    rows: usize,
    cursor: Option<PictureCursor>,
}

impl Picture {
    /// Creates the picture of a terminal in its initial state, with its cursor at home.
    #[must_use]
    pub fn new(columns: u16, rows: u16) -> Self {
        let columns = usize::from(columns.max(1));
        let rows = usize::from(rows.max(1));
        let cells = vec![Cell::BLANK; columns * rows];
        Self { cells, columns, rows, cursor: Some(PictureCursor::default()) }
    }

    /// Creates a picture of the first `rows` rows of `grid`, without a cursor.
    pub(super) fn from_grid(grid: &Grid, rows: usize) -> Self {
        let rows = rows.min(grid.rows());
        let mut cells = Vec::with_capacity(grid.columns() * rows);
        for row in (0..rows).filter_map(|row| grid.row(row)) {
            // Protection of a cell is not visible.
            cells.extend(row.cells().iter().map(Cell::unprotected));
        }
        Self { cells, columns: grid.columns(), rows, cursor: None }
    }

    /// Returns the number of columns and of rows.
    #[must_use]
    pub fn size(&self) -> (u16, u16) {
        (narrow(self.columns), narrow(self.rows))
    }

    /// Adds or removes rows at the bottom.
    pub fn set_rows(&mut self, rows: u16) {
        self.rows = usize::from(rows.max(1));
        self.cells.resize(self.columns * self.rows, Cell::BLANK);
    }

    /// Returns the cursor, if it is visible.
    #[must_use]
    pub fn cursor(&self) -> Option<PictureCursor> {
        self.cursor
    }

    /// Sets the cursor, or hides it if it is `None` or outside the picture.
    pub fn set_cursor(&mut self, cursor: Option<PictureCursor>) {
        let is_inside = |cursor: &PictureCursor| {
            usize::from(cursor.row) < self.rows && usize::from(cursor.column) < self.columns
        };
        self.cursor = cursor.filter(is_inside);
    }

    /// Returns the cell at `row` and `column`, counted from 0.
    #[must_use]
    pub fn cell(&self, row: u16, column: u16) -> Option<&Cell> {
        self.row(row.into()).get(usize::from(column))
    }

    /// Writes a character at `row` and `column`. A character that is not one column wide is
    /// replaced with a space.
    pub fn set_cell(&mut self, row: u16, column: u16, character: char, style: Style) {
        let character = if character.width() == Some(1) { character } else { ' ' };
        let cells = self.row_mut(row.into());
        let column = usize::from(column);
        let halves = match cells.get(column) {
            None => return,
            Some(cell) if cell.is_tail() => column.saturating_sub(1)..column + 1,
            Some(_) => column..column + 2,
        };
        let is_pair = cells.get(halves.start).is_some_and(Cell::is_wide);
        if let Some(pair) = cells.get_mut(halves).filter(|_| is_pair) {
            pair.iter_mut().for_each(Cell::blank_half);
        }
        if let Some(cell) = cells.get_mut(column) {
            *cell = Cell::new(character, style);
        }
    }

    /// Returns the cells of a row; empty if there is no such row.
    #[must_use]
    pub fn row(&self, row: usize) -> &[Cell] {
        let start = row.saturating_mul(self.columns);
        self.cells.get(start..start.saturating_add(self.columns)).unwrap_or_default()
    }

    fn row_mut(&mut self, row: usize) -> &mut [Cell] {
        let start = row.saturating_mul(self.columns);
        self.cells.get_mut(start..start.saturating_add(self.columns)).unwrap_or_default()
    }

    /// Scrolls the rows from `top` (inclusive) to `bottom` (exclusive) up by `count`; blank rows
    /// are inserted at the bottom.
    pub(super) fn scroll_up(&mut self, top: usize, bottom: usize, count: usize) {
        let cells = top * self.columns..(bottom * self.columns).min(self.cells.len());
        let count = count * self.columns;
        if let Some(part) = self.cells.get_mut(cells).filter(|part| count <= part.len()) {
            part.rotate_left(count);
            let kept_cells = part.len() - count;
            part.iter_mut().skip(kept_cells).for_each(|cell| *cell = Cell::BLANK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::cx::OwnedCx;

    #[test]
    fn a_character_over_either_half_of_a_wide_one_leaves_no_other_half() {
        let mut context = OwnedCx::default();
        let mut terminal = crate::terminal::Terminal::new(4, 1);
        terminal.receive("a\u{754c}b".as_bytes(), &mut context.cx());
        for (column, other) in [(1, 2), (2, 1)] {
            let mut picture = terminal.picture();
            picture.set_cell(0, column, 'x', Style::PLAIN);
            assert_eq!(picture.cell(0, column).unwrap().character(), 'x');
            let half = picture.cell(0, other).unwrap();
            assert_eq!((half.character(), half.is_tail()), (' ', false));
        }
    }
}
