//! Changes of the grid size.
//!
//! A line that was too long for its row continues in the next rows, and each row records whether
//! its line continues. If the width changes, the rows of a line are joined and split again. If the
//! height decreases, rows below the cursor are removed first. Rows at the top are removed only if
//! the cursor would otherwise be lost. The cursor stays at its character; beyond the end of its
//! line, it keeps its distance from that end.

use super::cell::Cell;
use super::grid::{Grid, LineSize, Row};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// A cursor position in the grid. If `is_after_column` is set, a wrap is pending: the position is
/// after the character at `column`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) is_after_column: bool,
}

impl Grid {
    /// Changes the size without rewrapping; excess cells are cut off. `positions` are adjusted; the
    /// first one is the cursor.
    pub(super) fn resize<const COUNT: usize>(
        &mut self,
        columns: usize,
        rows: usize,
        positions: [&mut Position; COUNT],
    ) {
        let is_same_width = columns == self.columns();
        self.set_columns(columns);
        self.set_row_count(rows, positions, |position| {
            position.is_after_column &= is_same_width;
            position.column = position.column.min(columns - 1);
        });
    }

    /// Changes the size and rewraps lines. `positions` are adjusted; the first one is the cursor.
    pub(super) fn reflow<const COUNT: usize>(
        &mut self,
        columns: usize,
        rows: usize,
        mut positions: [&mut Position; COUNT],
    ) {
        if columns != self.columns() {
            let last = positions.iter().map(|position| position.row).max().unwrap_or(0);
            let old = self.take_rows();
            let used_rows = old.iter().rposition(|row| row.extent() > 0).map_or(0, |row| row + 1);
            let mut rewrap =
                Rewrap { columns, rows: VecDeque::new(), new_positions: [None; COUNT] };
            let mut line = Vec::new();
            let mut first = 0;
            for (number, row) in old.into_iter().take(used_rows.max(last + 1)).enumerate() {
                let line_continues = row.is_continued && row.size == LineSize::Single;
                if row.size != LineSize::Single && !line.is_empty() {
                    rewrap.rewrap_line(&mut line, first, &positions);
                    first = number;
                }
                line.push(row);
                if !line_continues {
                    rewrap.rewrap_line(&mut line, first, &positions);
                    first = number + 1;
                }
            }
            rewrap.rewrap_line(&mut line, first, &positions);
            for (position, new_position) in positions.iter_mut().zip(rewrap.new_positions) {
                **position = new_position.unwrap_or_default();
            }
            self.put_rows(rewrap.rows, columns);
        }
        self.set_row_count(rows, positions, |_| {});
    }

    /// Sets the number of rows. Rows at the top are removed only if the cursor's row would not fit
    /// otherwise.
    fn set_row_count<const COUNT: usize>(
        &mut self,
        rows: usize,
        positions: [&mut Position; COUNT],
        adjust: impl Fn(&mut Position),
    ) {
        let cursor = positions.first().map_or(0, |position| position.row);
        let from_top = (cursor + 1).saturating_sub(rows);
        self.set_rows(from_top, rows);
        for position in positions {
            position.row = position.row.saturating_sub(from_top).min(rows - 1);
            adjust(position);
        }
    }
}

/// Rewraps lines to a width of `columns` and collects the resulting rows.
struct Rewrap<const COUNT: usize> {
    columns: usize,
    rows: VecDeque<Row>,
    /// The positions after rewrapping, in the order of the original positions.
    new_positions: [Option<Position>; COUNT],
}

impl<const COUNT: usize> Rewrap<COUNT> {
    /// Rewraps the rows of one line. `first` is the index of its first row before rewrapping.
    fn rewrap_line(
        &mut self,
        line: &mut Vec<Row>,
        first: usize,
        positions: &[&mut Position; COUNT],
    ) {
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
        let row_starts = row_starts(&mut cells, columns, size);
        for (at, start) in row_starts.iter().enumerate() {
            let end = row_starts.get(at + 1).copied();
            let row_cells = cells.get(*start..end.unwrap_or(cells.len())).unwrap_or_default();
            let mut row = Row::from_cells(row_cells, columns);
            row.is_continued = end.is_some();
            row.size = size;
            self.rows.push_back(row);
        }
        for (position, new_position) in positions.iter().zip(&mut self.new_positions) {
            let Some(start) = position.row.checked_sub(first).and_then(|row| starts.get(row))
            else {
                continue;
            };
            let offset = start + position.column + usize::from(position.is_after_column);
            let at = row_starts.iter().rposition(|row_start| *row_start <= offset).unwrap_or(0);
            let column = offset - row_starts.get(at).copied().unwrap_or(0);
            let is_after_column = position.is_after_column && column == columns;
            let column = column.min(columns - 1);
            *new_position = Some(Position { row: number + at, column, is_after_column });
        }
    }
}

/// Returns the index in `cells` at which each new row of a line begins. No wide character is split,
/// unless a row has only one column.
fn row_starts(cells: &mut [Cell], columns: usize, size: LineSize) -> Vec<usize> {
    let mut row_starts = vec![0];
    let mut end = columns;
    while end < cells.len() && size == LineSize::Single {
        if cells.get(end).is_some_and(Cell::is_tail) {
            if columns > 1 {
                end -= 1;
            } else if let Some(pair) = cells.get_mut(end - 1..=end) {
                pair.iter_mut().for_each(Cell::blank_half);
            }
        }
        row_starts.push(end);
        end += columns;
    }
    row_starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_double_width_row_does_not_continue_the_line_before_it() {
        let mut grid = Grid::new(4, 2);
        let row = grid.row_mut(0).unwrap();
        row.write_ascii(0, b"abcd", Cell::BLANK);
        row.is_continued = true;
        let row = grid.row_mut(1).unwrap();
        row.write_ascii(0, b"ef", Cell::BLANK);
        row.size = LineSize::Wide;
        grid.reflow(3, 3, [&mut Position::default()]);
        let sizes = [0, 1, 2].map(|row| grid.row(row).unwrap().size);
        assert_eq!(sizes, [LineSize::Single, LineSize::Single, LineSize::Wide]);
    }

    #[test]
    fn a_saved_position_in_a_removed_row_moves_to_the_last_row() {
        let mut grid = Grid::new(4, 8);
        let mut saved = Position { row: 7, ..Position::default() };
        grid.resize(4, 3, [&mut Position::default(), &mut saved]);
        assert_eq!(saved.row, 2);
    }
}
