//! Tables that fit the width of a terminal.
//!
//! Layouts are tried in order of readability: unchanged; with headers over several lines; with the
//! last column wrapped; as one block of lines per row. Nothing is dropped. Cells are escaped, so
//! untrusted text may be put into them unchanged. A character counts as one column wide.

use records::escape;
use std::fmt::Write;
use std::iter;

/// Minimum width; smaller values are rounded up to it.
pub(crate) const MIN_WIDTH: usize = 40;

const COLUMN_GAP: usize = 2;
/// Minimum width of a wrapped last column; if it would be narrower, each row becomes a block.
const MIN_WRAPPED_WIDTH: usize = 12;

/// Alignment of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Left-aligned, for text.
    Left,
    /// Right-aligned, for numbers.
    Right,
}

/// Headers and rows. Units belong in the headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table without columns and rows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a left-aligned text column.
    #[must_use]
    pub fn text(mut self, header: &str) -> Self {
        self.columns.push((header.to_owned(), Align::Left));
        self
    }

    /// Adds a right-aligned number column.
    #[must_use]
    pub fn number(mut self, header: &str) -> Self {
        self.columns.push((header.to_owned(), Align::Right));
        self
    }

    /// Adds a row; surplus cells are ignored, missing ones are empty.
    pub fn row<Cell: Into<String>>(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells = cells.into_iter().map(Into::into).chain(iter::repeat(String::new()));
        self.rows.push(cells.take(self.columns.len()).collect());
    }

    /// Returns the headers with their alignment.
    #[must_use]
    pub fn columns(&self) -> &[(String, Align)] {
        &self.columns
    }

    /// Returns the rows, each with as many cells as there are columns.
    #[must_use]
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Returns the width of the table without wrapped headers and cells, except that the last column
    /// is wrapped to `last_width_max`.
    #[must_use]
    pub(crate) fn natural_width(&self, last_width_max: usize) -> usize {
        let cell_width = |at: usize| {
            self.rows
                .iter()
                .filter_map(move |row| row.get(at))
                .map(|cell| count(&escape::terminal(cell)))
        };
        let widths = self.columns.iter().enumerate().map(|(at, (header, _))| {
            cell_width(at).max().unwrap_or(0).max(count(&escape::terminal(header)))
        });
        let mut widths = widths.collect::<Vec<_>>();
        if let Some(last) = widths.last_mut() {
            *last = (*last).min(last_width_max);
        }
        total(&widths)
    }

    /// Returns whether [`Self::render`] puts each row into a block of lines.
    #[must_use]
    pub(crate) fn has_blocks(&self, width: usize) -> bool {
        let headers: Vec<String> =
            self.columns.iter().map(|(header, _)| escape::terminal(header)).collect();
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(escape::terminal).collect()).collect();
        self.widths(&headers, &rows, width.max(MIN_WIDTH)).is_none()
    }

    /// Returns the table as lines of at most `width` columns (40 or more), each
    /// terminated.
    #[must_use]
    pub fn render(&self, width: usize) -> String {
        let width = width.max(MIN_WIDTH);
        let headers: Vec<String> =
            self.columns.iter().map(|(header, _)| escape::terminal(header)).collect();
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(escape::terminal).collect()).collect();
        match self.widths(&headers, &rows, width) {
            Some(widths) => self.grid(&headers, &rows, &widths),
            None => blocks(&headers, &rows, width),
        }
    }

    /// Returns the widths of the columns, or `None` if they do not fit side by side.
    fn widths(&self, headers: &[String], rows: &[Vec<String>], width: usize) -> Option<Vec<usize>> {
        let cells: Vec<usize> = (0..headers.len())
            .map(|at| rows.iter().filter_map(|row| row.get(at)).map(|c| count(c)).max())
            .map(Option::unwrap_or_default)
            .collect();
        let column_widths = |header: fn(&String) -> usize| -> Vec<usize> {
            headers.iter().zip(&cells).map(|(text, cell)| header(text).max(*cell)).collect()
        };
        let full_widths = column_widths(|header| count(header));
        if total(&full_widths) <= width {
            return Some(full_widths);
        }
        let min_widths = column_widths(|header| header.split(' ').map(count).max().unwrap_or(0));
        if total(&min_widths) <= width {
            return Some(widen(min_widths, &full_widths, width));
        }
        let (last, others) = min_widths.split_last()?;
        let spare_width = width.checked_sub(total(&min_widths) - last)?;
        let is_text = self.columns.last().is_some_and(|(_, align)| *align == Align::Left);
        let wrapped = others.iter().copied().chain([spare_width]).collect();
        (is_text && spare_width >= MIN_WRAPPED_WIDTH).then_some(wrapped)
    }

    fn grid(&self, headers: &[String], rows: &[Vec<String>], widths: &[usize]) -> String {
        let mut out = String::new();
        self.push_row(&mut out, headers, widths);
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        self.push_row(&mut out, &rules, widths);
        for row in rows {
            self.push_row(&mut out, row, widths);
        }
        out
    }

    /// Adds one row, with as many lines as its longest cell needs.
    fn push_row(&self, out: &mut String, cells: &[String], widths: &[usize]) {
        let wrapped: Vec<Vec<String>> =
            cells.iter().zip(widths).map(|(cell, width)| wrap(cell, *width)).collect();
        for line in 0..wrapped.iter().map(Vec::len).max().unwrap_or(0) {
            let mut text = String::new();
            for ((cell, width), (_, align)) in wrapped.iter().zip(widths).zip(&self.columns) {
                let piece = cell.get(line).map_or("", String::as_str);
                // Writing to a String cannot fail.
                let _ = match align {
                    Align::Left => write!(text, "{piece:<width$}"),
                    Align::Right => write!(text, "{piece:>width$}"),
                };
                text.push_str("  ");
            }
            out.push_str(text.trim_end());
            out.push('\n');
        }
    }
}

/// Wraps `text` into pieces of at most `width` characters, at spaces where possible.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut rest = word.to_owned();
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() && count(line) + 1 + count(word) <= width {
                line.push(' ');
                line.push_str(word);
                continue;
            }
            if !line.is_empty() {
                lines.push(String::new());
            }
        }
        while count(&rest) > width {
            let tail = rest.chars().skip(width).collect();
            let head = rest.chars().take(width).collect();
            if let Some(line) = lines.last_mut() {
                *line = head;
            }
            lines.push(String::new());
            rest = tail;
        }
        if let Some(line) = lines.last_mut() {
            *line = rest;
        }
    }
    lines
}

/// Formats each row as lines of header and value, with an empty line between rows.
fn blocks(headers: &[String], rows: &[Vec<String>], width: usize) -> String {
    let label =
        headers.iter().map(|header| count(header)).max().unwrap_or(0).min(width / 2 - COLUMN_GAP);
    let mut out = String::new();
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            out.push('\n');
        }
        for (header, cell) in headers.iter().zip(row) {
            let names = wrap(header, label);
            let values = wrap(cell, width - label - COLUMN_GAP);
            for line in 0..names.len().max(values.len()) {
                let name = names.get(line).map_or("", String::as_str);
                let value = values.get(line).map_or("", String::as_str);
                out.push_str(format!("{name:<label$}  {value}").trim_end());
                out.push('\n');
            }
        }
    }
    out
}

/// Widens the columns from left to right, from `widths` up to `full_widths`, as far as a line
/// of `width` columns permits.
fn widen(mut widths: Vec<usize>, full_widths: &[usize], width: usize) -> Vec<usize> {
    let mut spare_width = width - total(&widths);
    for (column, whole_width) in widths.iter_mut().zip(full_widths) {
        let missing = whole_width.saturating_sub(*column);
        if missing <= spare_width {
            *column += missing;
            spare_width -= missing;
        }
    }
    widths
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + COLUMN_GAP * widths.len().saturating_sub(1)
}

fn count(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn echo_of_two_personal_computers() -> Table {
        let mut table = Table::new()
            .number("line (bit/s)")
            .number("predicted (s)")
            .number("measured (s)")
            .number("measured - line (s)")
            .text("remark");
        table.row(["9,600", "0.1216", "0.1219", "0.0219", "within the clock's tick"]);
        table.row(["19,200", "0.0716", "0.0718", "0.0218", ""]);
        table.row(["4,800", "0.2216", "-", "-", "not legible in the scan"]);
        table
    }

    #[test]
    fn at_120_columns_every_header_is_on_one_line() {
        insta::assert_snapshot!(echo_of_two_personal_computers().render(120), @r"
        line (bit/s)  predicted (s)  measured (s)  measured - line (s)  remark
        ------------  -------------  ------------  -------------------  -----------------------
               9,600         0.1216        0.1219               0.0219  within the clock's tick
              19,200         0.0716        0.0718               0.0218
               4,800         0.2216             -                    -  not legible in the scan
        ");
    }

    #[test]
    fn at_80_columns_headers_are_wrapped() {
        insta::assert_snapshot!(echo_of_two_personal_computers().render(80), @r"
        line (bit/s)  predicted (s)  measured (s)  measured  remark
                                                     - line
                                                        (s)
        ------------  -------------  ------------  --------  -----------------------
               9,600         0.1216        0.1219    0.0219  within the clock's tick
              19,200         0.0716        0.0718    0.0218
               4,800         0.2216             -         -  not legible in the scan
        ");
    }

    #[test]
    fn at_40_columns_each_row_is_a_block() {
        insta::assert_snapshot!(echo_of_two_personal_computers().render(40), @r"
        line (bit/s)        9,600
        predicted (s)       0.1216
        measured (s)        0.1219
        measured - line     0.0219
        (s)
        remark              within the clock's
                            tick

        line (bit/s)        19,200
        predicted (s)       0.0716
        measured (s)        0.0718
        measured - line     0.0218
        (s)
        remark

        line (bit/s)        4,800
        predicted (s)       0.2216
        measured (s)        -
        measured - line     -
        (s)
        remark              not legible in the
                            scan
        ");
    }

    #[test]
    fn a_long_last_column_of_text_is_wrapped() {
        let mut table = Table::new().number("row").text("what was wrong");
        table.row(["75", "escapes in logs run in the terminal of a user who views it"]);
        table.row(["110", "banners shown as HTML"]);
        insta::assert_snapshot!(table.render(40), @r"
        row  what was wrong
        ---  -----------------------------------
         75  escapes in logs run in the terminal
             of a user who views it
        110  banners shown as HTML
        ");
    }

    #[test]
    fn attack_row_75_a_remote_name_in_a_cell_is_escaped() {
        let mut table = Table::new().text("host");
        table.row(["a\x1b[2Jb\nc"]);
        assert!(table.render(80).ends_with("a\\x1b[2Jb\\x0ac\n"));
    }

    #[test]
    fn a_row_that_is_too_long_or_too_short_fits_the_columns() {
        let mut table = Table::new().text("a").text("b");
        table.row(["1", "2", "3"]);
        table.row(["4"]);
        assert_eq!(table.rows(), [["1", "2"], ["4", ""]]);
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(
            headers in proptest::collection::vec((".{0,30}", any::<bool>()), 1..8),
            cells in proptest::collection::vec(proptest::collection::vec(".{0,60}", 0..8), 0..6),
            width in 0..200_usize,
        ) {
            let mut table = Table::new();
            for (header, is_text) in &headers {
                table = if *is_text { table.text(header) } else { table.number(header) };
            }
            for row in cells {
                table.row(row);
            }
            for line in table.render(width).lines() {
                prop_assert!(line.chars().count() <= width.max(MIN_WIDTH), "{line:?}");
            }
        }

        #[test]
        fn wrapping_loses_nothing_but_spaces(text in "[a-z ]{0,80}", width in 1..30_usize) {
            let joined: String = wrap(&text, width).concat();
            prop_assert_eq!(joined.replace(' ', ""), text.replace(' ', ""));
        }
    }
}
