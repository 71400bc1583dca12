//! Operations on the cursor, the margins and the tab stops.

use super::{Cursor, Screen};
use core::ops::Range;

impl Screen {
    /// HT: moves forward by `count` tab stops, at most to the last column.
    pub(in crate::terminal) fn tab(&mut self, count: usize) {
        let stops = self.tabs.iter().enumerate().skip(self.cursor.column + 1);
        let stop = stops.filter(|(_, is_stop)| **is_stop).nth(count.saturating_sub(1));
        let stop = stop.map_or(usize::MAX, |(column, _)| column);
        self.cursor.wrap_pending = false;
        self.cursor.column = stop.min(self.line_end() - 1);
    }

    /// CBT: moves back by `count` tab stops, at most to the first column.
    pub(in crate::terminal) fn tab_back(&mut self, count: usize) {
        let stops = self.tabs.iter().enumerate().take(self.cursor.column).rev();
        let stop = stops.filter(|(_, is_stop)| **is_stop).nth(count.saturating_sub(1));
        let stop = stop.map_or(0, |(column, _)| column);
        let is_within = self.cursor.has_origin && self.cursor.column >= self.columns.start;
        self.cursor.wrap_pending = false;
        self.cursor.column = if is_within { stop.max(self.columns.start) } else { stop };
    }

    /// HTS and TBC: sets or clears a tab stop in the cursor's column.
    pub(in crate::terminal) fn set_tab(&mut self, is_stop: bool) {
        if let Some(tab) = self.tabs.get_mut(self.cursor.column) {
            *tab = is_stop;
        }
    }

    /// TBC 3: clears all tab stops.
    pub(in crate::terminal) fn clear_tabs(&mut self) {
        self.tabs.fill(false);
    }

    // The cursor.

    /// CUP: moves to a row and a column. With DECOM both count from the margins, and the cursor
    /// stays within the margins.
    pub(in crate::terminal) fn set_position(&mut self, row: usize, column: usize) {
        self.set_row(row);
        self.set_column(column);
    }

    /// CHA: moves to a column, at most the last one; with DECOM, within the margins.
    pub(in crate::terminal) fn set_column(&mut self, column: usize) {
        self.cursor.wrap_pending = false;
        self.cursor.column = if self.cursor.has_origin {
            self.columns.start.saturating_add(column).min(self.columns.end - 1)
        } else {
            column.min(self.grid.columns() - 1)
        };
        self.clamp_to_row();
    }

    /// VPA: moves to a row, at most the last one; with DECOM, within the margins.
    pub(in crate::terminal) fn set_row(&mut self, row: usize) {
        self.cursor.wrap_pending = false;
        self.cursor.row = if self.cursor.has_origin {
            self.margins.start.saturating_add(row).min(self.margins.end - 1)
        } else {
            row.min(self.grid.rows() - 1)
        };
        self.clamp_to_row();
    }

    /// HPR and VPR: moves by `rows` and `columns`, regardless of the margins.
    pub(in crate::terminal) fn advance_by(&mut self, rows: usize, columns: usize) {
        self.cursor.wrap_pending = false;
        self.cursor.row = self.cursor.row.saturating_add(rows);
        self.cursor.column = self.cursor.column.saturating_add(columns);
        self.clamp();
    }

    /// CR: moves to the left margin, or to the first column if the cursor is left of the margin.
    pub(in crate::terminal) fn carriage_return(&mut self) {
        self.cursor.wrap_pending = false;
        let left = self.columns.start;
        let is_within = self.cursor.has_origin || self.cursor.column >= left;
        self.cursor.column = if is_within { left } else { 0 };
    }

    /// Returns the row and the column of the cursor as reported by DSR, counted from 1.
    pub(in crate::terminal) fn reported_position(&self) -> (usize, usize) {
        let (row, column) = self.origin();
        let Cursor { row: at_row, column: at_column, .. } = self.cursor;
        (at_row.saturating_sub(row) + 1, at_column.saturating_sub(column) + 1)
    }

    /// Returns whether DECOM is set.
    pub(in crate::terminal) fn has_origin(&self) -> bool {
        self.cursor.has_origin
    }

    /// Returns the row and the column from which positions are counted: the margins if DECOM is
    /// set.
    pub(in crate::terminal) fn origin(&self) -> (usize, usize) {
        match self.cursor.has_origin {
            true => (self.margins.start, self.columns.start),
            false => (0, 0),
        }
    }

    /// Moves up, and stops at the upper margin unless the cursor is above it.
    pub(in crate::terminal) fn up(&mut self, count: usize) {
        self.cursor.wrap_pending = false;
        let row = self.cursor.row;
        let stop = if row >= self.margins.start { self.margins.start } else { 0 };
        self.cursor.row = row.saturating_sub(count).max(stop);
        self.clamp_to_row();
    }

    /// Moves down, and stops at the lower margin unless the cursor is below it.
    pub(in crate::terminal) fn down(&mut self, count: usize) {
        self.cursor.wrap_pending = false;
        let row = self.cursor.row;
        let end = if row < self.margins.end { self.margins.end } else { self.grid.rows() };
        self.cursor.row = row.saturating_add(count).min(end - 1);
        self.clamp_to_row();
    }

    /// Moves to the right, and stops at the right margin unless the cursor is beyond it.
    pub(in crate::terminal) fn right(&mut self, count: usize) {
        self.cursor.wrap_pending = false;
        self.cursor.column = self.cursor.column.saturating_add(count).min(self.line_end() - 1);
    }

    /// Moves to the left, and stops at the left margin unless the cursor is left of it; with mode
    /// 45 or 1045, continues at the right margin of the previous row.
    pub(in crate::terminal) fn left(&mut self, count: usize) {
        let is_back = self.modes.wraps && (self.modes.wraps_back || self.modes.wraps_back_far);
        let mut rest = count - usize::from(is_back && self.cursor.wrap_pending && count > 0);
        self.cursor.wrap_pending = false;
        loop {
            let column = self.cursor.column;
            let stop = if column >= self.columns.start { self.columns.start } else { 0 };
            let step = rest.min(column - stop);
            self.cursor.column -= step;
            rest -= step;
            if rest == 0 || !is_back || !self.move_to_previous_row() {
                return;
            }
            rest -= 1;
        }
    }

    /// Moves to the right margin of the previous row, if modes 45 and 1045 allow it; returns
    /// whether the cursor has moved.
    fn move_to_previous_row(&mut self) -> bool {
        let is_first = self.cursor.row == self.margins.start || self.cursor.row == 0;
        let row = match is_first {
            true => self.margins.end - 1,
            false => self.cursor.row - 1,
        };
        let is_allowed = self.modes.wraps_back_far
            || !is_first && self.grid.row(row).is_some_and(|row| row.is_continued);
        if is_allowed {
            self.cursor.row = row;
            self.cursor.column = self.columns.end - 1;
            self.clamp_to_row();
        }
        is_allowed
    }

    /// DECSC: saves the cursor position, style and character sets.
    pub(in crate::terminal) fn save_cursor(&mut self) {
        *self.saved() = self.cursor;
    }

    /// DECRC: restores the saved cursor position, style and character sets.
    pub(in crate::terminal) fn restore_cursor(&mut self) {
        self.cursor = *self.saved();
        if self.cursor.has_origin {
            let Cursor { row, column, .. } = &mut self.cursor;
            *row = (*row).clamp(self.margins.start, self.margins.end - 1);
            *column = (*column).clamp(self.columns.start, self.columns.end - 1);
        }
        self.clamp_to_row();
    }

    fn saved(&mut self) -> &mut Cursor {
        if self.modes.is_alternate { &mut self.saved_alternate } else { &mut self.saved_main }
    }

    /// Moves the cursor back into its row. A row with large characters has fewer columns.
    pub(super) fn clamp_to_row(&mut self) {
        if self.has_large_rows {
            self.cursor.column = self.cursor.column.min(self.row_end() - 1);
        }
    }

    /// Moves the cursor back into the grid.
    pub(super) fn clamp(&mut self) {
        self.cursor.row = self.cursor.row.min(self.grid.rows() - 1);
        self.cursor.column = self.cursor.column.min(self.grid.columns() - 1);
        self.clamp_to_row();
    }

    // The margins.

    /// Returns the rows between the upper and lower margin, and the columns between the left and
    /// right margin.
    pub(in crate::terminal) fn margins(&self) -> (Range<usize>, Range<usize>) {
        (self.margins.clone(), self.columns.clone())
    }

    /// DECSTBM: sets the upper and lower margin; margins with fewer than two rows are ignored.
    pub(in crate::terminal) fn set_margins(&mut self, margins: Range<usize>) {
        let end = margins.end.min(self.grid.rows());
        if margins.start + 1 < end {
            self.margins = margins.start..end;
            self.home();
        }
    }

    /// DECSLRM: sets the left and right margin; margins with fewer than two columns are ignored.
    pub(in crate::terminal) fn set_side_margins(&mut self, columns: Range<usize>) {
        let end = columns.end.min(self.grid.columns());
        if self.modes.has_side_margins && columns.start + 1 < end {
            self.columns = columns.start..end;
            self.home();
        }
    }

    /// DECLRMM: enables or disables the left and right margins; they start at the edges of the
    /// screen.
    pub(in crate::terminal) fn allow_side_margins(&mut self, is_on: bool) {
        self.modes.has_side_margins = is_on;
        self.columns = 0..self.grid.columns();
    }

    /// Returns whether no margins are set, so that a line feed in the last row scrolls the whole
    /// screen.
    pub(in crate::terminal) fn scrolls_whole_screen(&self) -> bool {
        self.margins == (0..self.grid.rows()) && self.columns == (0..self.grid.columns())
    }

    /// DECOM: sets whether positions count from the margins.
    pub(in crate::terminal) fn set_origin(&mut self, has_origin: bool) {
        self.cursor.has_origin = has_origin;
        self.home();
    }

    pub(super) fn home(&mut self) {
        self.set_position(0, 0);
    }
}
