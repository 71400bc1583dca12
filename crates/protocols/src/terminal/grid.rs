//! The grid of cells.
//!
//! A row is a flat vector of cells, and the rows form a ring buffer. Scrolling the whole grid moves
//! the start of the ring, and scrolling some of the rows rotates these rows. Neither moves any
//! cell. A row also records the end of its written cells. Clearing a blank row therefore costs
//! nothing, and a flood of erasures costs no more than the preceding writes.
//!
//! A wide character has two cells, and no operation leaves one without the other: if an edit would
//! separate the two cells, both become spaces first.
//!
//! A row that was filled to its end records that its line continues in the next row, so that lines
//! can be rewrapped to another width (`reflow`). A row also records the size of its characters.
//!
//! The grid has no cursor, no margins and no wrapping, since these depend on the kind of terminal.
//! A status line that never scrolls is a row outside the scrolled rows.

use super::cell::{Cell, Style};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

/// One row of cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    cells: Vec<Cell>,
    /// Every cell from this column on is [`Cell::BLANK`].
    extent: usize,
    /// Whether the line continues in the next row.
    pub(super) is_continued: bool,
    pub(super) size: LineSize,
}

/// Size of the characters of a row (DECSWL, DECDWL, DECDHL).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineSize {
    /// Normal characters, one column wide.
    #[default]
    Single,
    /// Double width (DECDWL): the row displays half as many characters.
    Wide,
    /// Double width and double height (DECDHL): the row displays the upper half of the characters.
    Top,
    /// Double width and double height (DECDHL): the row displays the lower half of the characters.
    Bottom,
}

impl Row {
    fn new(columns: usize) -> Self {
        Self::from_cells(&[], columns)
    }

    /// Creates a row that begins with `cells`; excess cells are cut off.
    pub(super) fn from_cells(cells: &[Cell], columns: usize) -> Self {
        let extent = cells.len().min(columns);
        let mut row = Self {
            cells: vec![Cell::BLANK; columns],
            extent,
            is_continued: false,
            size: LineSize::Single,
        };
        row.cells.iter_mut().zip(cells).for_each(|(place, cell)| *place = *cell);
        if row.cells.last().is_some_and(Cell::is_wide) {
            row.cells.iter_mut().rev().take(1).for_each(Cell::blank_half);
        }
        row
    }

    /// Returns the cells of the row.
    pub(super) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns the first column from which on no cell was written.
    pub(super) fn extent(&self) -> usize {
        self.extent
    }

    /// Writes printable ASCII, one character per cell, in the style of `blank`; characters that do
    /// not fit are dropped.
    pub(super) fn write_ascii(&mut self, column: usize, text: &[u8], blank: Cell) {
        let end = self.cells.len().min(column + text.len());
        self.repair(column);
        self.repair(end);
        self.is_continued &= end < self.cells.len();
        let cells = self.cells.get_mut(column..end).unwrap_or_default();
        for (cell, byte) in cells.iter_mut().zip(text) {
            *cell = blank.with_character(*byte);
        }
        self.extent = self.extent.max(end);
    }

    /// Writes adjacent cells from `column` on. If they do not all fit, writes none of them.
    #[inline]
    pub(super) fn write<const COUNT: usize>(&mut self, column: usize, written: [Cell; COUNT]) {
        let end = column + COUNT;
        self.repair(column);
        self.repair(end);
        self.is_continued &= end < self.cells.len();
        if let Some(cells) = self.cells.get_mut(column..end) {
            cells.copy_from_slice(&written);
            self.extent = self.extent.max(end);
        }
    }

    /// Adds a combining mark to the character that occupies `column`.
    pub(super) fn add_combining_mark(&mut self, column: usize, mark: char) {
        let is_tail = self.cells.get(column).is_some_and(Cell::is_tail);
        let column = column.saturating_sub(usize::from(is_tail));
        if let Some(cell) = self.cells.get_mut(column) {
            cell.add_mark(mark);
            self.extent = self.extent.max(column + 1);
        }
    }

    /// Replaces each cell in `columns` with `blank`.
    pub(super) fn fill(&mut self, columns: Range<usize>, blank: Cell) {
        let start = columns.start;
        let end = columns.end.min(self.cells.len());
        if start >= end {
            return;
        }
        self.repair(start);
        self.repair(end);
        self.is_continued &= end < self.cells.len();
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

    /// Replaces the unprotected cells of `columns` with `blank`.
    pub(super) fn fill_unprotected(&mut self, columns: Range<usize>, blank: Cell) {
        for column in columns.start..columns.end.min(self.cells.len()) {
            if !self.cells.get(column).is_some_and(Cell::is_protected) {
                self.fill(column..column + 1, blank);
            }
        }
    }

    /// Inserts `count` blank cells at the start of `columns`; the cells moved beyond the end of
    /// `columns` are lost.
    pub(super) fn insert(&mut self, columns: Range<usize>, count: usize, blank: Cell) {
        let column = columns.start;
        let end = columns.end.min(self.cells.len());
        let count = count.min(end.saturating_sub(column));
        if count == 0 {
            return;
        }
        self.repair(column);
        self.repair(end - count);
        self.repair(end);
        self.is_continued &= end < self.cells.len();
        self.cells.copy_within(column..end - count, column + count);
        self.set(column..column + count, blank);
        let moved_end = (self.extent.max(column) + count).min(end);
        self.extent = self.extent.max(moved_end);
    }

    /// Deletes `count` cells at the start of `columns`; the following cells move left, and blank
    /// cells fill the end of `columns`.
    pub(super) fn delete(&mut self, columns: Range<usize>, count: usize, blank: Cell) {
        let column = columns.start;
        let end = columns.end.min(self.cells.len());
        let count = count.min(end.saturating_sub(column));
        if count == 0 {
            return;
        }
        self.repair(column);
        self.repair(column + count);
        self.repair(end);
        self.is_continued &= end < self.cells.len();
        self.cells.copy_within(column + count..end, column);
        self.set(end - count..end, blank);
        self.extent = if blank != Cell::BLANK {
            self.extent.max(end)
        } else if self.extent > end {
            self.extent
        } else if self.extent > column + count {
            self.extent - count
        } else {
            self.extent.min(column)
        };
    }

    /// Overwrites the cells from `column` on with `cells`. A wide character that is cut at either
    /// end is replaced with spaces.
    pub(super) fn put(&mut self, column: usize, cells: &[Cell]) {
        let end = self.cells.len().min(column + cells.len());
        self.repair(column);
        self.repair(end);
        self.is_continued &= end < self.cells.len();
        let Some(places) = self.cells.get_mut(column..end) else { return };
        places.iter_mut().zip(cells).for_each(|(place, cell)| *place = *cell);
        if places.first().is_some_and(Cell::is_tail) {
            places.iter_mut().take(1).for_each(Cell::blank_half);
        }
        if places.last().is_some_and(Cell::is_wide) {
            places.iter_mut().rev().take(1).for_each(Cell::blank_half);
        }
        self.extent = self.extent.max(end);
    }

    /// Applies `change` to the style of each cell in `columns`. Both halves of a wide character
    /// change if the left half is in `columns`.
    pub(super) fn restyle(&mut self, columns: Range<usize>, change: impl Fn(Style) -> Style) {
        let is_tail = |column: usize| self.cells.get(column).is_some_and(Cell::is_tail);
        let end = columns.end.min(self.cells.len());
        let start = columns.start + usize::from(is_tail(columns.start));
        let end = end + usize::from(is_tail(end));
        for cell in self.cells.get_mut(start..end).unwrap_or_default() {
            cell.set_style(change(cell.style()));
        }
        self.extent = self.extent.max(end);
    }

    /// Appends the characters of the row to `text`, without trailing blanks.
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

    /// Replaces both halves of a wide character with spaces if the boundary before `column`
    /// separates the two halves.
    #[inline]
    fn repair(&mut self, column: usize) {
        if self.cells.get(column).is_some_and(Cell::is_tail) {
            self.blank_pair(column);
        }
    }

    #[cold]
    fn blank_pair(&mut self, column: usize) {
        let halves = self.cells.iter_mut().skip(column.saturating_sub(1)).take(2);
        halves.for_each(Cell::blank_half);
    }

    fn set(&mut self, columns: Range<usize>, cell: Cell) {
        self.cells.get_mut(columns).unwrap_or_default().fill(cell);
    }

    fn resize(&mut self, columns: usize) {
        self.repair(columns);
        self.is_continued &= columns == self.cells.len();
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
    /// Creates a blank grid.
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

    /// Returns the row with index `row`, counted from the top.
    pub(super) fn row(&self, row: usize) -> Option<&Row> {
        self.rows.get(row)
    }

    /// Returns the row with index `row` for modification.
    pub(super) fn row_mut(&mut self, row: usize) -> Option<&mut Row> {
        self.rows.get_mut(row)
    }

    /// Returns the cell at `row` and `column`.
    pub(super) fn cell(&self, row: usize, column: usize) -> Option<&Cell> {
        self.rows.get(row)?.cells.get(column)
    }

    /// Replaces all cells of `rows` with `blank`.
    pub(super) fn fill(&mut self, rows: Range<usize>, blank: Cell) {
        let columns = self.columns;
        for row in self.rows.iter_mut().take(rows.end).skip(rows.start) {
            row.fill(0..columns, blank);
            row.size = LineSize::Single;
        }
    }

    /// Clears the continuation flags at both edges of `rows`, because scrolling separates them from
    /// their neighbors.
    fn clear_continuations(&mut self, rows: &Range<usize>) {
        for row in [rows.start.checked_sub(1), rows.end.checked_sub(1)].into_iter().flatten() {
            if let Some(row) = self.rows.get_mut(row) {
                row.is_continued = false;
            }
        }
    }

    /// Scrolls the rectangle of `rows` and `columns` up or down by `count` rows; blank cells fill
    /// the vacated rows.
    pub(super) fn scroll_part(
        &mut self,
        rows: Range<usize>,
        columns: Range<usize>,
        count: usize,
        is_up: bool,
        blank: Cell,
    ) {
        let kept_rows = rows.len().saturating_sub(count);
        for step in 0..rows.len() {
            let (to, from) = match is_up {
                true => (rows.start + step, rows.start + step + count),
                false => (rows.end - 1 - step, (rows.end - 1 - step).wrapping_sub(count)),
            };
            if step < kept_rows {
                self.copy_part(from, to, columns.clone());
            } else if let Some(row) = self.rows.get_mut(to) {
                row.fill(columns.clone(), blank);
            }
        }
    }

    fn copy_part(&mut self, from: usize, to: usize, columns: Range<usize>) {
        let cells = self.rows.get(from).and_then(|row| row.cells.get(columns.clone()));
        let cells = cells.unwrap_or_default().to_vec();
        if let Some(row) = self.rows.get_mut(to) {
            row.put(columns.start, &cells);
        }
    }

    /// Moves `rows` up by `count`; blank rows are inserted at the bottom.
    pub(super) fn scroll_up(&mut self, rows: Range<usize>, count: usize, blank: Cell) {
        let count = count.min(rows.len());
        if rows == (0..self.rows.len()) {
            self.rows.rotate_left(count);
        } else if let Some(part) = self.rows.make_contiguous().get_mut(rows.clone()) {
            part.rotate_left(count);
            self.clear_continuations(&rows);
        }
        self.fill(rows.end - count..rows.end, blank);
    }

    /// Moves `rows` down by `count`; blank rows are inserted at the top.
    pub(super) fn scroll_down(&mut self, rows: Range<usize>, count: usize, blank: Cell) {
        let count = count.min(rows.len());
        if rows == (0..self.rows.len()) {
            self.rows.rotate_right(count);
        } else if let Some(part) = self.rows.make_contiguous().get_mut(rows.clone()) {
            part.rotate_right(count);
            self.clear_continuations(&rows);
        }
        self.fill(rows.start..rows.start + count, blank);
    }

    /// Changes the width of all rows, and cuts off excess cells.
    pub(super) fn set_columns(&mut self, columns: usize) {
        self.rows.iter_mut().for_each(|row| row.resize(columns));
        self.columns = columns;
    }

    /// Removes the first `count` rows, and then adds or removes rows at the bottom until the grid
    /// has `rows` rows.
    pub(super) fn set_rows(&mut self, count: usize, rows: usize) {
        self.rows.drain(..count.min(self.rows.len()));
        self.rows.resize_with(rows, || Row::new(self.columns));
    }

    /// Removes and returns all rows.
    pub(super) fn take_rows(&mut self) -> VecDeque<Row> {
        mem::take(&mut self.rows)
    }

    /// Replaces all rows with `rows`, each of which has `columns` cells.
    pub(super) fn put_rows(&mut self, rows: VecDeque<Row>, columns: usize) {
        self.rows = rows;
        self.columns = columns;
    }
}

/// Converts a number of rows or columns, which is at most [`SIDE_MAX`](super::SIDE_MAX).
pub(super) fn narrow(side: usize) -> u16 {
    u16::try_from(side).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::cell::Attributes;

    const REVERSE_BLANK: Cell =
        Cell::new(' ', Style { attributes: Attributes::REVERSE, ..Style::PLAIN });

    fn row_of(text: &str) -> Row {
        let cells: Vec<Cell> = text.chars().map(|it| Cell::new(it, Style::PLAIN)).collect();
        Row::from_cells(&cells, 8)
    }

    #[test]
    fn erasing_the_end_of_a_row_shortens_its_written_part() {
        let mut row = row_of("abc");
        row.fill(1..8, Cell::BLANK);
        assert_eq!((row.extent, row), (1, row_of("a")));
        let mut row = row_of("abc");
        row.fill(0..2, Cell::BLANK);
        assert_eq!(row.extent, 3);
    }

    #[test]
    fn an_insertion_up_to_the_end_of_a_row_ends_its_line_there() {
        let mut row = row_of("abcdefgh");
        row.is_continued = true;
        row.insert(2..7, 1, Cell::BLANK);
        assert!(row.is_continued);
        row.insert(2..8, 1, Cell::BLANK);
        assert!(!row.is_continued);
    }

    #[test]
    fn a_deletion_fills_the_end_of_the_row_with_the_given_blank() {
        let mut row = row_of("abc");
        row.delete(0..8, 1, Cell::BLANK);
        assert_eq!((row.extent, row.cells()), (2, row_of("bc").cells()));
        row.delete(0..8, 1, REVERSE_BLANK);
        assert_eq!((row.extent, row.cells().last()), (8, Some(&REVERSE_BLANK)));
    }
}
