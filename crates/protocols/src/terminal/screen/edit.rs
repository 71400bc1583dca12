//! Operations that change cells: erasing, inserting, deleting, and scrolling between the margins.

use super::{Erase, Protection, Screen};
use crate::terminal::cell::{Cell, Style};
use crate::terminal::grid::LineSize;
use core::mem;
use core::ops::Range;

impl Screen {
    /// Returns the content of an erased cell: a space in the current background color.
    pub(in crate::terminal) fn blank(&self) -> Cell {
        Cell::erased(self.cursor.style)
    }

    /// ED and DECSED: erases the part of the display given by `erase`.
    pub(in crate::terminal) fn erase_display(&mut self, erase: Erase, is_selective: bool) {
        let row = self.cursor.row;
        let rows = self.grid.rows();
        if let Erase::ToEnd | Erase::FromStart = erase {
            self.erase_line(erase, is_selective);
        }
        let rows = match erase {
            Erase::ToEnd => row + 1..rows,
            Erase::FromStart => 0..row,
            Erase::All => 0..rows,
        };
        if self.preserves_protected(is_selective) {
            let columns = self.grid.columns();
            rows.for_each(|row| self.erase_cells_of(row, 0..columns, is_selective));
        } else {
            let blank = self.blank();
            self.grid.fill(rows, blank);
        }
    }

    /// EL and DECSEL: erases the part of the cursor's line given by `erase`.
    pub(in crate::terminal) fn erase_line(&mut self, erase: Erase, is_selective: bool) {
        let column = self.cursor.column;
        let columns = self.grid.columns();
        self.cursor.wrap_pending = false;
        let columns = match erase {
            Erase::ToEnd => column..columns,
            Erase::FromStart => 0..column + 1,
            Erase::All => 0..columns,
        };
        self.erase_cells_of(self.cursor.row, columns, is_selective);
    }

    /// ECH: erases `count` characters.
    pub(in crate::terminal) fn erase_cells(&mut self, count: usize) {
        let column = self.cursor.column;
        self.cursor.wrap_pending = false;
        self.erase_cells_of(self.cursor.row, column..column.saturating_add(count), false);
    }

    /// Erases cells of a row; protected cells are preserved if their protection applies to this
    /// kind of erasure.
    pub(in crate::terminal) fn erase_cells_of(
        &mut self,
        row: usize,
        columns: Range<usize>,
        is_selective: bool,
    ) {
        let blank = self.blank();
        let preserves = self.preserves_protected(is_selective);
        let Some(row) = self.grid.row_mut(row) else { return };
        match preserves {
            true => row.fill_unprotected(columns, blank),
            false => row.fill(columns, blank),
        }
    }

    /// Returns whether an erasure preserves protected cells.
    fn preserves_protected(&self, is_selective: bool) -> bool {
        self.protection == if is_selective { Protection::Dec } else { Protection::Iso }
    }

    /// DECSCA, SPA and EPA: sets whether written characters are protected, and against which
    /// erasures.
    pub(in crate::terminal) fn protect(&mut self, is_protected: bool, against: Protection) {
        self.cursor.is_protected = is_protected;
        self.protection = against;
    }

    /// Returns whether written characters are protected by DECSCA.
    pub(in crate::terminal) fn is_protecting(&self) -> bool {
        self.cursor.is_protected && self.protection == Protection::Dec
    }

    /// ICH: inserts characters; no effect outside the left and right margins.
    pub(in crate::terminal) fn insert_cells(&mut self, count: usize) {
        let column = self.cursor.column;
        let blank = self.blank();
        self.cursor.wrap_pending = false;
        if self.columns.contains(&column)
            && let Some(row) = self.grid.row_mut(self.cursor.row)
        {
            row.insert(column..self.columns.end, count, blank);
        }
    }

    /// DCH: deletes characters; no effect outside the left and right margins.
    pub(in crate::terminal) fn delete_cells(&mut self, count: usize) {
        let column = self.cursor.column;
        let blank = self.blank();
        self.cursor.wrap_pending = false;
        if self.columns.contains(&column)
            && let Some(row) = self.grid.row_mut(self.cursor.row)
        {
            row.delete(column..self.columns.end, count, blank);
        }
    }

    /// IL: inserts lines; no effect outside the margins.
    pub(in crate::terminal) fn insert_lines(&mut self, count: usize) {
        if self.is_within_margins() {
            self.scroll(self.cursor.row..self.margins.end, count, false);
            self.carriage_return();
        }
    }

    /// DL: deletes lines; no effect outside the margins.
    pub(in crate::terminal) fn delete_lines(&mut self, count: usize) {
        if self.is_within_margins() {
            self.scroll(self.cursor.row..self.margins.end, count, true);
            self.carriage_return();
        }
    }

    /// DECIC and DECDC: inserts (`is_in`) or deletes columns; no effect outside the margins.
    pub(in crate::terminal) fn shift_columns(&mut self, count: usize, is_in: bool) {
        if self.is_within_margins() {
            self.shift_from(self.cursor.column, count, is_in);
        }
    }

    /// DECBI: moves the cursor left; at the left margin, scrolls the area between the margins to
    /// the right instead.
    pub(in crate::terminal) fn back_index(&mut self) {
        if self.cursor.column != self.columns.start {
            self.cursor.wrap_pending = false;
            self.cursor.column = self.cursor.column.saturating_sub(1);
        } else if self.margins.contains(&self.cursor.row) {
            self.shift_from(self.columns.start, 1, true);
        }
    }

    /// DECFI: moves the cursor right; at the right margin, scrolls the area between the margins to
    /// the left instead.
    pub(in crate::terminal) fn forward_index(&mut self) {
        if self.cursor.column + 1 != self.columns.end {
            let end = self.line_end();
            self.cursor.wrap_pending = false;
            self.cursor.column = (self.cursor.column + 1).min(end - 1);
        } else if self.margins.contains(&self.cursor.row) {
            self.shift_from(self.columns.start, 1, false);
        }
    }

    fn shift_from(&mut self, column: usize, count: usize, is_in: bool) {
        let columns = column..self.columns.end;
        let blank = self.blank();
        self.cursor.wrap_pending = false;
        for row in self.margins.clone() {
            let Some(row) = self.grid.row_mut(row) else { return };
            match is_in {
                true => row.insert(columns.clone(), count, blank),
                false => row.delete(columns.clone(), count, blank),
            }
        }
    }

    fn is_within_margins(&self) -> bool {
        self.margins.contains(&self.cursor.row) && self.columns.contains(&self.cursor.column)
    }

    /// SU: scrolls up by `count` rows.
    pub(in crate::terminal) fn scroll_up(&mut self, count: usize) {
        self.scroll(self.margins.clone(), count, true);
    }

    /// SD: scrolls down by `count` rows.
    pub(in crate::terminal) fn scroll_down(&mut self, count: usize) {
        self.scroll(self.margins.clone(), count, false);
    }

    /// Scrolls `rows` between the left and the right margin.
    fn scroll(&mut self, rows: Range<usize>, count: usize, is_up: bool) {
        let blank = self.blank();
        if self.columns != (0..self.grid.columns()) {
            self.grid.scroll_part(rows, self.columns.clone(), count, is_up, blank);
        } else if is_up {
            self.grid.scroll_up(rows, count, blank);
        } else {
            self.grid.scroll_down(rows, count, blank);
        }
    }

    /// DECSWL, DECDWL and DECDHL: sets the size of the characters of the row.
    pub(in crate::terminal) fn set_line_size(&mut self, size: LineSize) {
        if let Some(row) = self.grid.row_mut(self.cursor.row) {
            row.size = size;
            row.is_continued = false;
        }
        self.has_large_rows |= size != LineSize::Single;
        self.clamp_to_row();
    }

    /// DECCOLM, if mode 40 allows it: clears the screen unless DECNCSM is set. The width does not
    /// change, because the window belongs to the user.
    pub(in crate::terminal) fn set_132_columns(&mut self, is_on: bool) {
        if !self.modes.may_change_columns {
            return;
        }
        self.modes.is_132_columns = is_on;
        self.margins = 0..self.grid.rows();
        self.allow_side_margins(false);
        self.home();
        if !self.modes.keeps_screen {
            let blank = self.blank();
            self.grid.fill(0..self.grid.rows(), blank);
        }
    }

    /// DECALN: fills the screen with the letter E.
    pub(in crate::terminal) fn align(&mut self) {
        self.margins = 0..self.grid.rows();
        self.columns = 0..self.grid.columns();
        self.cursor.has_origin = false;
        self.home();
        self.grid.fill(0..self.grid.rows(), Cell::new('E', Style::PLAIN));
    }

    /// Switches to the alternate screen or to the main one.
    pub(in crate::terminal) fn show_alternate(&mut self, is_alternate: bool) {
        if self.modes.is_alternate != is_alternate {
            mem::swap(&mut self.grid, &mut self.hidden);
            self.modes.is_alternate = is_alternate;
            self.cursor.wrap_pending = false;
        }
    }
}
