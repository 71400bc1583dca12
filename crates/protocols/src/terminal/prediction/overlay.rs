//! The overlay: the row of the cursor with the predictions drawn over it, and the bytes that draw
//! and remove it.
//!
//! The overlay only changes cells of the cursor's row and moves only by BS, CR and CUF, so the row
//! number on the real terminal is irrelevant. It neither scrolls nor uses the terminal's single
//! saved cursor, which belongs to the host. Writing the last column makes a wrap pending; the CR
//! that follows cancels this wrap.

use super::super::cell::Attributes;
use super::Predictor;
use super::expected_effect::CursorPosition;
use super::view::View;

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
