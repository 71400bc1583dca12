//! The expected effect of a key: the cursor position after the key, and the change of the row.
//!
//! A line that is longer than a row continues in the next row, and hosts differ in how they move
//! the cursor there. A shell with line editing moves to the next row at once: it sends an
//! additional character or CR. If the kernel echoes, the wrap of the terminal is pending until the
//! next character. For the key that fills a row both cursor positions are accepted. The prediction
//! of the keys after it is the same for both kinds of host. Only a shell with line editing can
//! erase back into the previous row. Such an erasure is therefore predicted only after the host was
//! observed to wrap at once. If the wrap scrolls the screen, row indices still count as if nothing
//! had scrolled, and the number of scrolled rows is counted separately.

use super::super::cell::{Cell, Style};
use super::Predictor;
use super::expected_effect::{CursorPosition, Edit, ExpectedEffect, ExpectedPosition, Wrap};
use super::keys::Key;
use super::view::View;
use alloc::vec;
use unicode_width::UnicodeWidthChar;

impl Predictor {
    /// Predicts the effect of a key after those in the queue.
    pub(super) fn expect(&mut self, key: Key) -> Option<ExpectedEffect> {
        let from = match self.queue.back() {
            Some(last) => last.expected.map(|expected| expected.position),
            None => Some(self.base_position()),
        };
        let expected = from.and_then(|from| match key {
            Key::Text(character) => self.expect_text(character, from),
            Key::Erase => self.expect_erasure(from),
            Key::Left | Key::Right if from.pending.is_none() => self.expect_motion(key, from),
            Key::Enter => self.expect_enter(from),
            Key::Left | Key::Right | Key::Other => None,
        });
        if expected.is_none() {
            self.begin_epoch();
        }
        expected
    }

    /// Returns the cursor position before the next key, for an empty queue.
    fn base_position(&self) -> ExpectedPosition {
        let position =
            ExpectedPosition { place: self.base, scrolled: self.base_scrolled, pending: None };
        match self.base.is_wrap_pending {
            false => position,
            true => ExpectedPosition { pending: Some(self.base), ..self.row_below(position) },
        }
    }

    /// Returns the start of the row below `from`; below the last row, the screen scrolls.
    fn row_below(&self, from: ExpectedPosition) -> ExpectedPosition {
        let last = self.rows().saturating_sub(1);
        let scrolled = from.scrolled + usize::from(from.place.row >= last);
        let row = (from.place.row + 1).min(last);
        ExpectedPosition {
            place: CursorPosition { row, ..CursorPosition::default() },
            scrolled,
            pending: None,
        }
    }

    fn expect_text(&mut self, character: char, from: ExpectedPosition) -> Option<ExpectedEffect> {
        let view = self.view_of(from.row());
        let width = character.width()?;
        let column = from.place.column;
        let replaced_cell = view.cells.get(column).filter(|cell| !cell.is_tail())?;
        let is_at_end = view.is_blank_from(column);
        let fits = column + width < view.cells.len() && (self.is_overwriting() || view.has_room());
        if !(fits || is_at_end && column + width <= view.cells.len()) {
            return None;
        }
        // The next row has text that is not part of the line, and the host may or may not move it.
        if from.pending.is_some() && !is_at_end {
            return None;
        }
        let is_evidence = character != ' ' && replaced_cell.character() != character;
        if matches!(self.last_key, Key::Left | Key::Right) {
            self.begin_epoch();
        }
        self.erasable += 1;
        let end = column + width;
        let position = match end == view.cells.len() {
            false => ExpectedPosition {
                place: CursorPosition { column: end, ..from.place },
                pending: None,
                ..from
            },
            true => {
                let place = CursorPosition { column: end - 1, is_wrap_pending: true, ..from.place };
                ExpectedPosition { pending: Some(place), ..self.row_below(from) }
            }
        };
        Some(ExpectedEffect {
            position,
            cell: Some((column, character)),
            edit: Edit::Insert { column, character, width }.with_tail_kept(self.is_overwriting()),
            edit_row: from.row(),
            is_evidence,
        })
    }

    fn expect_erasure(&mut self, from: ExpectedPosition) -> Option<ExpectedEffect> {
        self.erasable = self.erasable.checked_sub(1)?;
        let mut from = from;
        if from.place.column == 0 {
            // With a pending wrap, the kernel's erasure ends in the wrong column.
            let is_pending = self.queue.is_empty() && self.base.is_wrap_pending;
            let goes_back = self.wrap == Some(Wrap::Immediate) && !is_pending;
            let is_empty = self.view_of(from.row()).is_blank_from(0);
            let row = from.place.row.checked_sub(1).filter(|_| goes_back && is_empty)?;
            let column = usize::from(self.host_screen.size().0);
            from.place = CursorPosition { row, column, ..CursorPosition::default() };
        }
        let mut view = self.view_of(from.row());
        let width = width_before(&view, from.place.column)?;
        let column = from.place.column.checked_sub(width)?;
        // Only the host knows the character that an overwriting character has replaced.
        let is_at_end = view.is_blank_from(column + width);
        if !is_at_end && (!view.has_room() || self.is_overwriting()) {
            return None;
        }
        view.remove(column, width);
        let cell = view.cells.get(column).map(|cell| (column, cell.character()));
        let position = ExpectedPosition {
            place: CursorPosition { column, ..from.place },
            pending: None,
            ..from
        };
        let edit = Edit::Remove { column, width };
        Some(ExpectedEffect { position, cell, edit, edit_row: from.row(), is_evidence: false })
    }

    fn expect_motion(&mut self, key: Key, from: ExpectedPosition) -> Option<ExpectedEffect> {
        let view = self.view_of(from.row());
        let at = from.place.column;
        let column = match key {
            Key::Left => at.checked_sub(width_before(&view, at)?)?,
            _ => at + 1 + usize::from(view.cells.get(at)?.is_wide()),
        };
        if column + 1 >= view.cells.len() {
            return None;
        }
        if !matches!(self.last_key, Key::Left | Key::Right) {
            self.begin_epoch();
        }
        let position = ExpectedPosition { place: CursorPosition { column, ..from.place }, ..from };
        let edit = Edit::None;
        let edit_row = from.row();
        Some(ExpectedEffect { position, cell: None, edit, edit_row, is_evidence: true })
    }

    fn expect_enter(&mut self, from: ExpectedPosition) -> Option<ExpectedEffect> {
        let is_pending = self.queue.is_empty() && self.base.is_wrap_pending;
        let wrap = if is_pending { Some(Wrap::Pending) } else { self.wrap };
        let position = match (from.pending, wrap) {
            (None, _) | (Some(_), Some(Wrap::Immediate)) => self.row_below(from),
            (Some(_), Some(Wrap::Pending)) => ExpectedPosition { pending: None, ..from },
            (Some(_), None) => return None,
        };
        self.begin_epoch();
        let edit = Edit::None;
        let edit_row = from.row();
        Some(ExpectedEffect { position, cell: None, edit, edit_row, is_evidence: false })
    }

    /// Returns the content of a row after all keys in the queue. `row` counts as if the screen had
    /// not scrolled.
    fn view_of(&self, row: usize) -> View {
        let cells = match row.checked_sub(self.base_scrolled).filter(|row| *row < self.rows()) {
            Some(row) => self.host_screen.row_cells(row).to_vec(),
            None => vec![Cell::BLANK; self.host_screen.size().0.into()],
        };
        let mut view = View { cells, column: 0, style: self.host_screen.style() };
        for expected in self.queue.iter().filter_map(|typed| typed.expected) {
            if expected.edit_row == row {
                expected.edit.apply(&mut view, Style::PLAIN);
            }
        }
        view
    }
}

/// Returns the width of the character before `column` in columns.
fn width_before(view: &View, column: usize) -> Option<usize> {
    let cell = view.cells.get(column.checked_sub(1)?)?;
    Some(1 + usize::from(cell.is_tail()))
}
