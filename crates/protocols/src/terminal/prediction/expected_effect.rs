//! The expected cursor position and the expected change of a row after one key.

use super::super::cell::{Cell, Style};
use super::view::View;

/// Position of the cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CursorPosition {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) is_wrap_pending: bool,
}

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
    pub(super) fn row(self) -> usize {
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
