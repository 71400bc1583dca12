//! The grid of cells.
//!
//! A row is a flat vector of cells, and the rows stand in a ring: to scroll the whole grid moves
//! its start, and to scroll a part of it turns the rows of that part. No cell is moved by either.
//! A row also remembers how far it was ever written, so that to clear a row that is blank already
//! costs nothing, and a flood of erasures costs what was written before it.
//!
//! A character of two columns has two cells, and no operation leaves one without the other: where
//! an edit would cut a pair, both halves become spaces first.
//!
//! The grid knows no cursor, no margins and no wrapping: those are rules of a kind of terminal. A
//! line that never scrolls is a row outside of the part that does.

use super::cell::{Cell, Style};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// One row of cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    cells: Vec<Cell>,
    /// Every cell from this column on is [`Cell::BLANK`].
    extent: usize,
}

impl Row {
    fn new(columns: usize) -> Self {
        Self { cells: vec![Cell::BLANK; columns], extent: 0 }
    }

    /// Returns the cells.
    pub(super) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Writes printable ASCII, one character in each cell; what does not fit is left out.
    pub(super) fn write_ascii(&mut self, column: usize, text: &[u8], style: Style) {
        let end = self.cells.len().min(column + text.len());
        self.mend(column);
        self.mend(end);
        let cells = self.cells.get_mut(column..end).unwrap_or_default();
        let blank = Cell::new(' ', style);
        for (cell, byte) in cells.iter_mut().zip(text) {
            *cell = blank.like(*byte);
        }
        self.extent = self.extent.max(end);
    }

    /// Writes cells that belong together; nothing is written where they have no room.
    #[inline]
    pub(super) fn write<const COUNT: usize>(&mut self, column: usize, written: [Cell; COUNT]) {
        let end = column + COUNT;
        self.mend(column);
        self.mend(end);
        if let Some(cells) = self.cells.get_mut(column..end) {
            cells.copy_from_slice(&written);
            self.extent = self.extent.max(end);
        }
    }

    /// Adds a combining mark to the character at or over `column`.
    pub(super) fn combine(&mut self, column: usize, mark: char) {
        let is_tail = self.cells.get(column).is_some_and(Cell::is_tail);
        let column = column.saturating_sub(usize::from(is_tail));
        if let Some(cell) = self.cells.get_mut(column) {
            cell.add_mark(mark);
            self.extent = self.extent.max(column + 1);
        }
    }

    /// Replaces the cells of `columns` by `blank`.
    pub(super) fn fill(&mut self, columns: Range<usize>, blank: Cell) {
        let (start, end) = (columns.start, columns.end.min(self.cells.len()));
        if start >= end {
            return;
        }
        self.mend(start);
        self.mend(end);
        if blank != Cell::BLANK {
            self.set(start..end, blank);
            self.extent = self.extent.max(end);
        } else if end >= self.extent {
            self.set(start..self.extent, blank);
            self.extent = self.extent.min(start);
        } else {
            self.set(start..end, blank);
        }
    }

    /// Puts `count` blank cells at `column`; those at the end of the row fall off.
    pub(super) fn insert(&mut self, column: usize, count: usize, blank: Cell) {
        let width = self.cells.len();
        let count = count.min(width.saturating_sub(column));
        if count == 0 {
            return;
        }
        self.mend(column);
        self.mend(width - count);
        self.cells.copy_within(column..width - count, column + count);
        self.set(column..column + count, blank);
        self.extent = (self.extent.max(column) + count).min(width);
    }

    /// Takes `count` cells away at `column`; blank ones come in at the end of the row.
    pub(super) fn delete(&mut self, column: usize, count: usize, blank: Cell) {
        let width = self.cells.len();
        let count = count.min(width.saturating_sub(column));
        if count == 0 {
            return;
        }
        self.mend(column);
        self.mend(column + count);
        self.cells.copy_within(column + count..width, column);
        self.set(width - count..width, blank);
        self.extent = if blank != Cell::BLANK {
            width
        } else if self.extent > column + count {
            self.extent - count
        } else {
            self.extent.min(column)
        };
    }

    /// Puts the characters of the row behind `text`, without the blanks at the end.
    pub(super) fn text(&self, text: &mut String) {
        let start = text.len();
        let mut end = start;
        for cell in self.cells.iter().take(self.extent).filter(|cell| !cell.is_tail()) {
            text.push(cell.character());
            text.extend(cell.marks());
            if cell.character() != ' ' || cell.marks().next().is_some() {
                end = text.len();
            }
        }
        text.truncate(end);
    }

    /// Makes spaces of a wide character that is cut by an edit which begins or ends at `column`.
    #[inline]
    fn mend(&mut self, column: usize) {
        if self.cells.get(column).is_some_and(Cell::is_tail) {
            self.part(column);
        }
    }

    #[cold]
    fn part(&mut self, column: usize) {
        let halves = self.cells.iter_mut().skip(column.saturating_sub(1)).take(2);
        halves.for_each(Cell::blank_half);
    }

    fn set(&mut self, columns: Range<usize>, cell: Cell) {
        self.cells.get_mut(columns).unwrap_or_default().fill(cell);
    }

    fn resize(&mut self, columns: usize) {
        self.mend(columns);
        self.cells.resize(columns, Cell::BLANK);
        self.extent = self.extent.min(columns);
    }
}

/// Rows of cells, all of the same width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    rows: VecDeque<Row>,
    columns: usize,
}

impl Grid {
    /// Makes a blank grid.
    pub(super) fn new(columns: usize, rows: usize) -> Self {
        Self { rows: (0..rows).map(|_| Row::new(columns)).collect(), columns }
    }

    /// Returns the number of columns.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns one row.
    pub(super) fn row(&self, row: usize) -> Option<&Row> {
        self.rows.get(row)
    }

    /// Returns one row for writing.
    pub(super) fn row_mut(&mut self, row: usize) -> Option<&mut Row> {
        self.rows.get_mut(row)
    }

    /// Returns one cell.
    pub(super) fn cell(&self, row: usize, column: usize) -> Option<&Cell> {
        self.rows.get(row)?.cells.get(column)
    }

    /// Replaces all cells of `rows` by `blank`.
    pub(super) fn fill(&mut self, rows: Range<usize>, blank: Cell) {
        let columns = self.columns;
        for row in self.rows.iter_mut().take(rows.end).skip(rows.start) {
            row.fill(0..columns, blank);
        }
    }

    /// Moves `rows` up by `count`; blank ones come in at the lower end.
    pub(super) fn scroll_up(&mut self, rows: Range<usize>, count: usize, blank: Cell) {
        let count = count.min(rows.len());
        if rows == (0..self.rows.len()) {
            self.rows.rotate_left(count);
        } else if let Some(part) = self.rows.make_contiguous().get_mut(rows.clone()) {
            part.rotate_left(count);
        }
        self.fill(rows.end - count..rows.end, blank);
    }

    /// Moves `rows` down by `count`; blank ones come in at the upper end.
    pub(super) fn scroll_down(&mut self, rows: Range<usize>, count: usize, blank: Cell) {
        let count = count.min(rows.len());
        if rows == (0..self.rows.len()) {
            self.rows.rotate_right(count);
        } else if let Some(part) = self.rows.make_contiguous().get_mut(rows.clone()) {
            part.rotate_right(count);
        }
        self.fill(rows.start..rows.start + count, blank);
    }

    /// Changes the size; `from_top` rows are taken away at the top before the bottom gives or
    /// gets the rest. Text is cut, not folded.
    pub(super) fn resize(&mut self, columns: usize, rows: usize, from_top: usize) {
        self.rows.drain(..from_top.min(self.rows.len()));
        for row in &mut self.rows {
            row.resize(columns);
        }
        self.rows.resize_with(rows, || Row::new(columns));
        self.columns = columns;
    }
}
