//! What stands on the real terminal over the far side's row, and the bytes that lay it there and
//! take it away.
//!
//! The overlay changes cells of the cursor's row alone and moves by BS, CR and CUF alone, so it
//! does not matter in which row of the real terminal that is, and it neither scrolls nor uses the
//! one place where a terminal saves its cursor: that belongs to the far side. A wrap that is pending
//! because the last column was written is ended by the CR that follows.

use super::super::cell::{Cell, Style};
use super::super::draw::{Painter, changes};
use alloc::vec::Vec;

/// The cells of a row, the cursor in it, and how the next character would look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) cells: Vec<Cell>,
    pub(super) column: usize,
    pub(super) style: Style,
}

impl View {
    /// Appends the bytes that make `new` of a terminal that shows this.
    pub(super) fn turn_into(&self, new: &Self, bytes: &mut Vec<u8>) {
        let mut painter = Painter::at(self.column, self.style);
        let changed = changes(&self.cells, &new.cells);
        for (column, cell) in new.cells.iter().enumerate() {
            // The left half brings the right one.
            if changed.get(column) == Some(&true) && !cell.is_tail() {
                painter.go_in_row(column);
                painter.cell(cell, new.cells.len());
            }
        }
        painter.go_in_row(new.column);
        painter.set_style(new.style);
        bytes.extend(painter.into_bytes());
    }

    /// Puts a character at `column`; what stands there and behind moves to the right.
    pub(super) fn insert(&mut self, column: usize, character: char, width: usize, style: Style) {
        let cells = self.cells.get_mut(column..).unwrap_or_default();
        if cells.iter().any(|cell| cell.character() != ' ') && width <= cells.len() {
            cells.copy_within(..cells.len() - width, width);
        }
        self.overwrite(column, character, width, style);
    }

    /// Puts a character at `column`, in the place of what stands there.
    pub(super) fn overwrite(&mut self, column: usize, character: char, width: usize, style: Style) {
        let written = Cell::wide(character, style);
        let written = if width == 2 { written } else { [Cell::new(character, style); 2] };
        let cells = self.cells.get_mut(column..).unwrap_or_default();
        for (cell, written) in cells.iter_mut().zip(written).take(width) {
            *cell = written;
        }
    }

    /// Takes `width` cells away at `column`; what stands behind moves to the left.
    pub(super) fn remove(&mut self, column: usize, width: usize) {
        let cells = self.cells.get_mut(column..).unwrap_or_default();
        if width <= cells.len() {
            cells.copy_within(width.., 0);
            let kept = cells.len() - width;
            cells.iter_mut().skip(kept).for_each(|cell| *cell = Cell::BLANK);
        }
    }

    /// Returns whether there is nothing in the row from `column` on.
    pub(super) fn is_blank_from(&self, column: usize) -> bool {
        self.cells.iter().skip(column).all(|cell| cell.character() == ' ')
    }

    /// Returns whether the row has room for one character more before its last column.
    pub(super) fn has_room(&self) -> bool {
        let end = self.cells.len().saturating_sub(3);
        self.cells.iter().skip(end).all(|cell| cell.character() == ' ')
    }
}
