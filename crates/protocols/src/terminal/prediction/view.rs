//! A row as the terminal displays it, and the bytes that change it.

use super::super::cell::{Cell, Style};
use super::super::render::{Painter, changes};
use alloc::vec::Vec;

/// The cells of a row, the column of the cursor, and the style of the next character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) cells: Vec<Cell>,
    pub(super) column: usize,
    pub(super) style: Style,
}

impl View {
    /// Appends the bytes that change the terminal's row from this view to `new`.
    pub(super) fn append_changes(&self, new: &Self, bytes: &mut Vec<u8>) {
        let mut painter = Painter::at_column(self.column, self.style);
        let changed = changes(&self.cells, &new.cells);
        for (column, cell) in new.cells.iter().enumerate() {
            // The right half is written together with the left half.
            if changed.get(column) == Some(&true) && !cell.is_tail() {
                painter.move_in_row(column);
                painter.cell(cell, new.cells.len());
            }
        }
        painter.move_in_row(new.column);
        painter.set_style(new.style);
        bytes.extend(painter.into_bytes());
    }

    /// Inserts a character at `column`; existing characters from there on move to the right.
    pub(super) fn insert(&mut self, column: usize, character: char, width: usize, style: Style) {
        let cells = self.cells.get_mut(column..).unwrap_or_default();
        if cells.iter().any(|cell| cell.character() != ' ') && width <= cells.len() {
            cells.copy_within(..cells.len() - width, width);
        }
        self.overwrite(column, character, width, style);
    }

    /// Overwrites the character at `column`.
    pub(super) fn overwrite(&mut self, column: usize, character: char, width: usize, style: Style) {
        let written = Cell::wide(character, style);
        let written = if width == 2 { written } else { [Cell::new(character, style); 2] };
        let cells = self.cells.get_mut(column..).unwrap_or_default();
        for (cell, written) in cells.iter_mut().zip(written).take(width) {
            *cell = written;
        }
    }

    /// Removes `width` cells at `column`; the following characters move to the left.
    pub(super) fn remove(&mut self, column: usize, width: usize) {
        let cells = self.cells.get_mut(column..).unwrap_or_default();
        if width <= cells.len() {
            cells.copy_within(width.., 0);
            let kept_cells = cells.len() - width;
            cells.iter_mut().skip(kept_cells).for_each(|cell| *cell = Cell::BLANK);
        }
    }

    /// Returns whether the row is blank from `column` on.
    pub(super) fn is_blank_from(&self, column: usize) -> bool {
        self.cells.iter().skip(column).all(|cell| cell.character() == ' ')
    }

    /// Returns whether the last three columns are blank, so that one more character can be inserted
    /// without reaching the last column.
    pub(super) fn has_room(&self) -> bool {
        let end = self.cells.len().saturating_sub(3);
        self.cells.iter().skip(end).all(|cell| cell.character() == ' ')
    }
}
