//! Changes of the size of the grid.
//!
//! A line that was too long for its row continues in the next rows, and each row records whether
//! its line continues. If the width changes, the rows of a line are joined and split again. Rows
//! are removed at the top only if the cursor would be lost otherwise; rows below the cursor are
//! removed first. Cursors stay at their character, or keep their distance from the end of their
//! line.

use super::cell::Cell;
use super::grid::{Grid, LineSize, Row};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// A position in the grid; `is_behind` means the position after it, which is a pending wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) is_behind: bool,
}

impl Grid {
    /// Changes the size without rewrapping; excess cells are cut off. The first of `positions` is the
    /// cursor.
    pub(super) fn resize<const COUNT: usize>(
        &mut self,
        columns: usize,
        rows: usize,
        positions: [&mut Position; COUNT],
    ) {
        let is_same_width = columns == self.columns();
        self.set_columns(columns);
        self.keep(rows, positions, |position| {
            position.is_behind &= is_same_width;
            position.column = position.column.min(columns - 1);
        });
    }

    /// Changes the size and rewraps lines. The first of `positions` is the cursor.
    pub(super) fn reflow<const COUNT: usize>(
        &mut self,
        columns: usize,
        rows: usize,
        mut positions: [&mut Position; COUNT],
    ) {
        if columns != self.columns() {
            let last = positions.iter().map(|position| position.row).max().unwrap_or(0);
            let old = self.take_rows();
            let used = old.iter().rposition(|row| row.extent() > 0).map_or(0, |row| row + 1);
            let mut fold = Fold { columns, rows: VecDeque::new(), moved: [None; COUNT] };
            let mut line = Vec::new();
            let mut first = 0;
            for (number, row) in old.into_iter().take(used.max(last + 1)).enumerate() {
                let goes_on = row.is_continued && row.size == LineSize::Single;
                if row.size != LineSize::Single && !line.is_empty() {
                    fold.line(&mut line, first, &positions);
                    first = number;
                }
                line.push(row);
                if !goes_on {
                    fold.line(&mut line, first, &positions);
                    first = number + 1;
                }
            }
            fold.line(&mut line, first, &positions);
            for (position, moved) in positions.iter_mut().zip(fold.moved) {
                **position = moved.unwrap_or_default();
            }
            self.put_rows(fold.rows, columns);
        }
        self.keep(rows, positions, |_| {});
    }

    /// Sets the number of rows; rows are removed at the top only as far as the cursor requires.
    fn keep<const COUNT: usize>(
        &mut self,
        rows: usize,
        positions: [&mut Position; COUNT],
        settle: impl Fn(&mut Position),
    ) {
        let cursor = positions.first().map_or(0, |position| position.row);
        let from_top = (cursor + 1).saturating_sub(rows);
        self.set_rows(from_top, rows);
        for position in positions {
            position.row = position.row.saturating_sub(from_top).min(rows - 1);
            settle(position);
        }
    }
}

/// The rows in their new width.
struct Fold<const COUNT: usize> {
    columns: usize,
    rows: VecDeque<Row>,
    /// The new positions of the tracked cells.
    moved: [Option<Position>; COUNT],
}

impl<const COUNT: usize> Fold<COUNT> {
    /// Rewraps the rows of one line; `first` was the index of the first of these rows.
    fn line(&mut self, line: &mut Vec<Row>, first: usize, positions: &[&mut Position; COUNT]) {
        let columns = self.columns;
        let size = line.first().map_or(LineSize::Single, |row| row.size);
        let mut cells = Vec::new();
        let mut starts = Vec::new();
        for row in line.drain(..) {
            starts.push(cells.len());
            cells.extend_from_slice(row.cells().get(..row.extent()).unwrap_or_default());
        }
        if starts.is_empty() {
            return;
        }
        let number = self.rows.len();
        let cuts = cuts(&mut cells, columns, size);
        for (at, start) in cuts.iter().enumerate() {
            let end = cuts.get(at + 1).copied();
            let piece = cells.get(*start..end.unwrap_or(cells.len())).unwrap_or_default();
            let mut row = Row::with(piece, columns);
            row.is_continued = end.is_some();
            row.size = size;
            self.rows.push_back(row);
        }
        for (position, moved) in positions.iter().zip(&mut self.moved) {
            let Some(start) = position.row.checked_sub(first).and_then(|row| starts.get(row))
            else {
                continue;
            };
            let offset = start + position.column + usize::from(position.is_behind);
            let at = cuts.iter().rposition(|cut| *cut <= offset).unwrap_or(0);
            let column = offset - cuts.get(at).copied().unwrap_or(0);
            let is_behind = position.is_behind && column == columns;
            let column = column.min(columns - 1);
            *moved = Some(Position { row: number + at, column, is_behind });
        }
    }
}

/// Returns the starts of the rows of a line; no pair is split, unless a row has only one column.
fn cuts(cells: &mut [Cell], columns: usize, size: LineSize) -> Vec<usize> {
    let mut cuts = vec![0];
    let mut end = columns;
    while end < cells.len() && size == LineSize::Single {
        if cells.get(end).is_some_and(Cell::is_tail) {
            if columns > 1 {
                end -= 1;
            } else if let Some(pair) = cells.get_mut(end - 1..=end) {
                pair.iter_mut().for_each(Cell::blank_half);
            }
        }
        cuts.push(end);
        end += columns;
    }
    cuts
}
