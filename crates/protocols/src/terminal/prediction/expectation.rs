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
use super::keys::Key;
use super::overlay::View;
use super::{CursorPosition, Predictor};
use alloc::vec;
use unicode_width::UnicodeWidthChar;

/// Expected effect of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpectedEffect {
    /// Cursor position after the key.
    pub(super) position: ExpectedPosition,
    /// Column of the expected character in the row `edit_row`, and that character.
    pub(super) cell: Option<(usize, char)>,
    /// Change of the row `edit_row`.
    pub(super) edit: Edit,
    /// Index of the changed row, counted as if the screen had not scrolled.
    pub(super) edit_row: usize,
    /// Whether the echo of the key changes the screen visibly, so that it proves that the host
    /// echoes.
    pub(super) is_evidence: bool,
}

/// Cursor position after a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpectedPosition {
    /// Cursor position if the host moves to the next row at once.
    pub(super) place: CursorPosition,
    /// Number of rows by which the screen has scrolled when the cursor is at this position.
    pub(super) scrolled: usize,
    /// Alternative cursor position if the host leaves the wrap pending.
    pub(super) pending: Option<CursorPosition>,
}

/// Change of a row by a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edit {
    None,
    Insert { column: usize, character: char, width: usize },
    Overwrite { column: usize, character: char, width: usize },
    Remove { column: usize, width: usize },
}

/// Behavior of a host when a row is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrap {
    /// Moves to the next row at once.
    Immediate,
    /// Moves to the next row with the next character.
    Pending,
}

impl ExpectedPosition {
    /// Returns the index of the row, counted as if the screen had not scrolled.
    fn row(self) -> usize {
        self.place.row + self.scrolled
    }

    /// Returns the number of scrolled rows if a cursor at `place` matches this expected position.
    pub(super) fn matches(self, place: CursorPosition) -> Option<usize> {
        match self.pending {
            // The wrap that would scroll has not happened yet.
            Some(pending) if pending == place => {
                Some(self.scrolled - usize::from(pending.row == self.place.row))
            }
            _ => (self.place == place).then_some(self.scrolled),
        }
    }
}

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

impl Edit {
    /// Converts an insertion to an overwriting edit if the host does not move the text after the
    /// cursor (`is_kept`). Otherwise converts an overwriting edit to an insertion.
    pub(super) fn with_tail_kept(self, is_kept: bool) -> Self {
        match self {
            Self::Insert { column, character, width }
            | Self::Overwrite { column, character, width } => match is_kept {
                true => Self::Overwrite { column, character, width },
                false => Self::Insert { column, character, width },
            },
            other => other,
        }
    }

    /// Returns whether the edit fits into the row `view` and cuts no wide character.
    pub(super) fn fits(self, view: &View) -> bool {
        let is_cut = |column: usize| view.cells.get(column).is_none_or(Cell::is_tail);
        match self {
            Self::None => true,
            Self::Insert { column, width, .. } => {
                let is_at_end = column + width <= view.cells.len() && view.is_blank_from(column);
                (view.has_room() || is_at_end) && !is_cut(column)
            }
            Self::Overwrite { column, width, .. } => {
                let end = column + width;
                let is_end_cut = end < view.cells.len() && is_cut(end);
                end <= view.cells.len() && !is_cut(column) && !is_end_cut
            }
            Self::Remove { column, width } => {
                let is_at_end = view.is_blank_from(column + width);
                let end = column + width;
                let is_end_cut = end < view.cells.len() && is_cut(end);
                (view.has_room() || is_at_end) && !is_cut(column) && !is_end_cut
            }
        }
    }

    pub(super) fn apply(self, view: &mut View, style: Style) {
        match self {
            Self::None => {}
            Self::Insert { column, character, width } => {
                view.insert(column, character, width, style);
            }
            Self::Overwrite { column, character, width } => {
                view.overwrite(column, character, width, style);
            }
            Self::Remove { column, width } => view.remove(column, width),
        }
    }
}

/// Returns the width of the character before `column` in columns.
fn width_before(view: &View, column: usize) -> Option<usize> {
    let cell = view.cells.get(column.checked_sub(1)?)?;
    Some(1 + usize::from(cell.is_tail()))
}
