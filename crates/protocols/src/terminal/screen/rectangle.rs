//! Operations on rectangles of cells (DEC STD 070; VT420).
//!
//! A rectangle is specified by its first row and column and its last row and column, counted from
//! 1, or from the margins if DECOM is set. An omitted value means the first or last row or column.
//! An empty rectangle has no effect.

use super::Screen;
use crate::terminal::cell::{Attributes, Cell, Style};
use crate::terminal::parameters::Parameters;
use core::ops::Range;

/// Rows and columns of a rectangle.
#[derive(Clone, Debug)]
pub(in crate::terminal) struct Rectangle {
    pub(in crate::terminal) rows: Range<usize>,
    pub(in crate::terminal) columns: Range<usize>,
}

impl Screen {
    /// Parses a rectangle from the four parameters that begin at index `at`.
    pub(in crate::terminal) fn rectangle(&self, parameters: &Parameters, at: usize) -> Rectangle {
        let (row, column) = self.origin();
        let (rows, columns) = match self.has_origin() {
            true => (self.margins.end, self.columns.end),
            false => (self.grid.rows(), self.grid.columns()),
        };
        let range = |first: usize, last: usize, origin: usize, end: usize| {
            let start = (origin + parameters.count(first) - 1).min(end);
            let stop = match parameters.get(last) {
                0 => end,
                last => (origin + last).min(end),
            };
            start..stop.max(start)
        };
        Rectangle {
            rows: range(at, at + 2, row, rows),
            columns: range(at + 1, at + 3, column, columns),
        }
    }

    /// DECFRA: fills a rectangle with a printable character.
    pub(in crate::terminal) fn fill_rectangle(&mut self, parameters: &Parameters) {
        let Rectangle { rows, columns } = self.rectangle(parameters, 1);
        let code = parameters.get(0);
        let Ok(byte) = u8::try_from(code) else { return };
        if matches!(byte, 0x20..=0x7e | 0xa0..) {
            let cell = Cell::new(char::from(byte), self.cursor.style);
            let cell = cell.protected(self.cursor.is_protected);
            for row in rows {
                let Some(row) = self.grid.row_mut(row) else { return };
                row.fill(columns.clone(), cell);
            }
        }
    }

    /// DECERA and DECSERA: erases a rectangle.
    pub(in crate::terminal) fn erase_rectangle(&mut self, area: Rectangle, is_selective: bool) {
        for row in area.rows {
            self.erase_cells_of(row, area.columns.clone(), is_selective);
        }
    }

    /// DECCRA: copies a rectangle within the page; cells that do not fit are dropped.
    pub(in crate::terminal) fn copy_rectangle(&mut self, parameters: &Parameters) {
        let Rectangle { rows, columns } = self.rectangle(parameters, 0);
        let (row, column) = self.origin();
        let row = row + parameters.count(5) - 1;
        let column = column + parameters.count(6) - 1;
        let (end, columns_end) = match self.has_origin() {
            true => (self.margins.end, self.columns.end),
            false => (self.grid.rows(), self.grid.columns()),
        };
        let width = columns.len().min(columns_end.saturating_sub(column));
        let cells = |row: usize| {
            let cells = self.grid.row(row)?.cells().get(columns.clone())?;
            Some(cells.get(..width)?.to_vec())
        };
        let copies: alloc::vec::Vec<_> = rows.filter_map(cells).collect();
        for (row, cells) in (row..end).zip(copies).filter(|(_, cells)| !cells.is_empty()) {
            let Some(row) = self.grid.row_mut(row) else { return };
            row.put(column, &cells);
        }
    }

    /// DECCARA and DECRARA: sets, clears or inverts attributes.
    ///
    /// With DECSACE 2 only the cells inside the rectangle change. Otherwise all cells change from
    /// the first corner of the rectangle to its last corner, in reading order.
    pub(in crate::terminal) fn restyle(&mut self, parameters: &Parameters, is_reversal: bool) {
        let Rectangle { rows, columns } = self.rectangle(parameters, 0);
        let first = rows.start;
        let last = rows.end.saturating_sub(1);
        let change = |style: Style| {
            let codes = parameters.all().skip(4);
            let none = (parameters.len() <= 4).then_some(0);
            codes.chain(none).fold(style, |style, code| changed_style(style, code, is_reversal))
        };
        for number in rows {
            let width = self.grid.columns();
            let columns = match self.changes_rectangles {
                true => columns.clone(),
                false => {
                    let start = if number == first { columns.start } else { 0 };
                    start..if number == last { columns.end } else { width }
                }
            };
            let Some(row) = self.grid.row_mut(number) else { return };
            row.restyle(columns, change);
        }
    }
}

/// Returns `style` after one SGR code of DECCARA, or of DECRARA (`is_reversal`).
fn changed_style(style: Style, code: usize, is_reversal: bool) -> Style {
    const ALL: Attributes = Attributes::BOLD
        .with(Attributes::UNDERLINE)
        .with(Attributes::BLINK)
        .with(Attributes::REVERSE)
        .with(Attributes::HIDDEN);
    let (attributes, is_on) = match code {
        0 => (ALL, false),
        1 | 22 => (Attributes::BOLD, code == 1),
        4 | 24 => (Attributes::UNDERLINE, code == 4),
        5 | 25 => (Attributes::BLINK, code == 5),
        7 | 27 => (Attributes::REVERSE, code == 7),
        8 | 28 => (Attributes::HIDDEN, code == 8),
        _ => return style,
    };
    let kept_attributes = style.attributes;
    let attributes = match (is_reversal, is_on) {
        (true, _) => kept_attributes.toggled(attributes),
        (false, true) => kept_attributes.with(attributes),
        (false, false) => kept_attributes.without(attributes),
    };
    Style { attributes, ..style }
}
