//! The overlay: the row of the cursor with the predictions drawn over it, and the bytes that draw
//! and remove it.
//!
//! The overlay only changes cells of the cursor's row and moves only by BS, CR and CUF, so the row
//! number on the real terminal is irrelevant. It neither scrolls nor uses the terminal's single
//! saved cursor, which belongs to the host. Writing the last column makes a wrap pending; the CR
//! that follows cancels this wrap.

use super::super::cell::{Attributes, Cell, Style};
use super::super::render::{Painter, changes};
use super::{CursorPosition, Predictor};
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

impl Predictor {
    /// Returns the cursor's row on the host's screen, without predictions.
    fn host_view(&self) -> View {
        let CursorPosition { row, column, .. } = self.place();
        View {
            cells: self.host_screen.row_cells(row).to_vec(),
            column,
            style: self.host_screen.style(),
        }
    }

    /// Updates the overlay on the real terminal to the predictions that may be displayed now.
    pub(super) fn draw_overlay(&mut self) {
        if !self.may_show() || self.queue.is_empty() {
            return self.remove_overlay();
        }
        let host_view = self.host_view();
        let mut style = host_view.style;
        if self.round_trip.is_very_long {
            style.attributes = style.attributes.with(Attributes::UNDERLINE);
        }
        let mut view = host_view.clone();
        let confirmed = self.confirmed_epoch;
        for typed in self.queue.iter().take_while(|typed| typed.epoch <= confirmed) {
            let Some(expected) = typed.expected else { break };
            // Predictions for other rows are not displayed, and the row may have changed since.
            let is_in_cursor_row = expected.edit_row == self.base.row + self.base_scrolled;
            if !is_in_cursor_row || !expected.edit.fits(&view) {
                break;
            }
            expected.edit.apply(&mut view, style);
            let is_row_filled = expected.position.pending.is_some();
            let end = view.cells.len().saturating_sub(1);
            view.column = if is_row_filled { end } else { expected.position.place.column };
        }
        if view == host_view {
            return self.remove_overlay();
        }
        let old_view = self.displayed.as_ref().unwrap_or(&host_view);
        if *old_view != view {
            // The style of the next character is the host's again when the overlay is removed.
            view.style = style;
            old_view.append_changes(&view, &mut self.output);
            self.displayed = Some(view);
        }
    }

    /// Removes the overlay: restores the row of the real terminal to the host's content.
    pub(super) fn remove_overlay(&mut self) {
        if let Some(displayed) = self.displayed.take() {
            displayed.append_changes(&self.host_view(), &mut self.output);
        }
    }
}
