//! What an xterm or VT100 does to its screen: cursor, margins, modes, and the edits of the grid.
//!
//! The cursor is always inside the grid. A character in the last column leaves it there and sets
//! `wrap_pending`; the next one goes to the next row first (DECAWM as the VT100 does it). Whatever
//! moves the cursor or edits the row takes that back.
//!
//! Every line feed, also the one that wrapping does, is charged as [`Work::NewLine`], and printed
//! ASCII is charged row by row, so that the charges stand in the order of what is seen.

use super::cell::{Cell, Style};
use super::grid::Grid;
use super::input::InputModes;
use super::picture::CursorShape;
use crate::meter::{Counter, Meter, Work};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;
use unicode_width::UnicodeWidthChar;

/// The distance of the tab stops of a terminal that was just switched on.
const TAB_DISTANCE: usize = 8;
/// How many bytes of replies wait to be sent; the longest reply has 16.
const OUTPUT_MAX: usize = 256;

/// The screen of a terminal, and all that its sequences can change.
#[derive(Debug)]
pub(super) struct Screen {
    grid: Grid,
    /// The one of main and alternate screen that is not shown.
    hidden: Grid,
    cursor: Cursor,
    saved_main: Cursor,
    saved_alternate: Cursor,
    margins: Range<usize>,
    tabs: Vec<bool>,
    last_printed: Option<char>,
    output: Vec<u8>,
    pub(super) modes: Modes,
    /// DECRQCRA is answered.
    pub(super) reports_checksums: bool,
    pub(super) title: String,
    pub(super) bells: u64,
    pub(super) cells_written: u64,
    pub(super) new_lines: u64,
}

/// The cursor and what DECSC saves with it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    pub(super) row: usize,
    pub(super) column: usize,
    wrap_pending: bool,
    pub(super) style: Style,
    /// G0 to G3.
    charsets: [Charset; 4],
    /// Which of them is in force.
    shift: usize,
    /// SS2 and SS3: which of them is in force for one character.
    single_shift: Option<usize>,
    /// DECOM: rows count from the upper margin.
    has_origin: bool,
}

impl Cursor {
    fn charset(&self) -> Charset {
        let set = self.single_shift.unwrap_or(self.shift);
        self.charsets.get(set).copied().unwrap_or_default()
    }
}

/// A set of characters for the codes 20 to 7E.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Charset {
    #[default]
    Ascii,
    /// DEC Special Graphics.
    Graphics,
    /// British: the number sign is a pound sign.
    British,
}

/// The modes that are on or off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modes {
    /// DECAWM.
    pub(super) wraps: bool,
    /// IRM.
    pub(super) inserts: bool,
    /// LNM: a line feed also returns.
    pub(super) feeds_and_returns: bool,
    /// DECTCEM.
    pub(super) shows_cursor: bool,
    /// The alternate screen is shown.
    pub(super) is_alternate: bool,
    /// DECSCUSR.
    pub(super) cursor_shape: CursorShape,
    pub(super) input: InputModes,
}

impl Default for Modes {
    fn default() -> Self {
        Self {
            wraps: true,
            inserts: false,
            feeds_and_returns: false,
            shows_cursor: true,
            is_alternate: false,
            cursor_shape: CursorShape::Own,
            input: InputModes::default(),
        }
    }
}

/// What an erasure erases, as the parameter of ED and EL says it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Erase {
    ToEnd,
    FromStart,
    All,
}

impl Screen {
    /// Makes a blank screen of at least one cell.
    pub(super) fn new(columns: usize, rows: usize) -> Self {
        let (columns, rows) = (columns.max(1), rows.max(1));
        Self {
            grid: Grid::new(columns, rows),
            hidden: Grid::new(columns, rows),
            cursor: Cursor::default(),
            saved_main: Cursor::default(),
            saved_alternate: Cursor::default(),
            margins: 0..rows,
            tabs: default_tabs(columns),
            last_printed: None,
            output: Vec::new(),
            modes: Modes::default(),
            reports_checksums: false,
            title: String::new(),
            bells: 0,
            cells_written: 0,
            new_lines: 0,
        }
    }

    pub(super) fn grid(&self) -> &Grid {
        &self.grid
    }

    pub(super) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    pub(super) fn style_mut(&mut self) -> &mut Style {
        &mut self.cursor.style
    }

    /// Changes the size. Rows go away at the top only where the cursor would be lost.
    pub(super) fn resize(&mut self, columns: usize, rows: usize) {
        let (columns, rows) = (columns.max(1), rows.max(1));
        let is_same_width = columns == self.grid.columns();
        let (shown, hidden) = match self.modes.is_alternate {
            true => (&mut self.saved_alternate, &mut self.saved_main),
            false => (&mut self.saved_main, &mut self.saved_alternate),
        };
        let from_top = (self.cursor.row + 1).saturating_sub(rows);
        let hidden_from_top = (hidden.row + 1).saturating_sub(rows);
        self.grid.resize(columns, rows, from_top);
        self.hidden.resize(columns, rows, hidden_from_top);
        let cursors = [(&mut self.cursor, from_top), (shown, from_top), (hidden, hidden_from_top)];
        for (cursor, from_top) in cursors {
            cursor.row = cursor.row.saturating_sub(from_top).min(rows - 1);
            cursor.column = cursor.column.min(columns - 1);
            cursor.wrap_pending &= is_same_width;
        }
        self.margins = 0..rows;
        let stops = default_tabs(columns);
        self.tabs.truncate(columns);
        self.tabs.extend(stops.get(self.tabs.len()..).unwrap_or_default());
    }

    /// RIS: everything is as it was when the terminal was switched on, but for what was counted.
    pub(super) fn reset(&mut self) {
        self.grid.fill(0..self.grid.rows(), Cell::BLANK);
        self.hidden.fill(0..self.grid.rows(), Cell::BLANK);
        self.tabs = default_tabs(self.grid.columns());
        self.last_printed = None;
        self.reset_modes();
        self.cursor = Cursor::default();
        self.modes = Modes::default();
    }

    /// DECSTR: as RIS, but text, tab stops, cursor, and what the mouse sends stay.
    pub(super) fn reset_modes(&mut self) {
        let input = InputModes {
            has_application_cursor: false,
            has_application_keypad: false,
            ..self.modes.input
        };
        let is_alternate = self.modes.is_alternate;
        self.modes = Modes { is_alternate, input, ..Modes::default() };
        self.margins = 0..self.grid.rows();
        (self.saved_main, self.saved_alternate) = (Cursor::default(), Cursor::default());
        let (row, column) = (self.cursor.row, self.cursor.column);
        self.cursor = Cursor { row, column, ..Cursor::default() };
    }

    // Printing.

    /// Returns whether printable ASCII may be printed as it stands.
    pub(super) fn prints_ascii(&self) -> bool {
        self.cursor.single_shift.is_none() && self.cursor.charset() == Charset::Ascii
    }

    /// Prints a run of printable ASCII, and charges its bytes.
    pub(super) fn print_ascii(&mut self, mut run: &[u8], meter: &mut Meter) {
        self.last_printed = run.last().map(|byte| char::from(*byte));
        while !run.is_empty() {
            self.wrap_if_pending(meter);
            let Cursor { row, column, style, .. } = self.cursor;
            let room = self.grid.columns() - column;
            let Some((text, rest)) = run.split_at_checked(room.min(run.len())) else { return };
            meter.work(Work::TerminalByte, text.len());
            let Some(row) = self.grid.row_mut(row) else { return };
            if self.modes.inserts {
                row.insert(column, text.len(), Cell::erased(style));
            }
            row.write_ascii(column, text, style);
            self.advance(text.len());
            run = rest;
        }
    }

    /// Prints one character, or combines it with the one before.
    pub(super) fn print(&mut self, character: char, meter: &mut Meter) {
        let character = match self.cursor.charset() {
            Charset::Ascii => character,
            Charset::Graphics => graphic(character),
            Charset::British if character == '#' => '£',
            Charset::British => character,
        };
        self.cursor.single_shift = None;
        let style = self.cursor.style;
        match width(character) {
            None => return meter.count(Counter::TerminalSequencesUnknown),
            Some(0) => return self.combine(character),
            Some(1) => self.place([Cell::new(character, style)], meter),
            Some(_) => self.place(Cell::wide(character, style), meter),
        }
        self.last_printed = Some(character);
    }

    /// REP: prints the last character again.
    ///
    /// A few bytes must not cost thousands of cells, so it ends after as many as a row has.
    pub(super) fn repeat(&mut self, count: usize, meter: &mut Meter) {
        let Some(character) = self.last_printed else { return };
        for _ in 0..count.min(self.grid.columns()) {
            self.print(character, meter);
        }
    }

    #[inline]
    fn place<const COUNT: usize>(&mut self, cells: [Cell; COUNT], meter: &mut Meter) {
        let columns = self.grid.columns();
        if COUNT > columns {
            return;
        }
        self.wrap_if_pending(meter);
        if self.cursor.column + COUNT > columns {
            if self.modes.wraps {
                self.wrap(meter);
            } else {
                self.cursor.column = columns - COUNT;
            }
        }
        let Cursor { row, column, style, .. } = self.cursor;
        let Some(row) = self.grid.row_mut(row) else { return };
        if self.modes.inserts {
            row.insert(column, COUNT, Cell::erased(style));
        }
        row.write(column, cells);
        self.advance(COUNT);
    }

    fn combine(&mut self, mark: char) {
        let Cursor { row, column, wrap_pending, .. } = self.cursor;
        if wrap_pending || column > 0 {
            let column = column - usize::from(!wrap_pending);
            if let Some(row) = self.grid.row_mut(row) {
                row.combine(column, mark);
            }
        }
    }

    fn advance(&mut self, cells: usize) {
        self.cells_written += cells as u64;
        self.cursor.column += cells;
        self.cursor.wrap_pending = self.cursor.column >= self.grid.columns();
        self.cursor.column -= usize::from(self.cursor.wrap_pending);
    }

    fn wrap_if_pending(&mut self, meter: &mut Meter) {
        if self.cursor.wrap_pending && self.modes.wraps {
            self.wrap(meter);
        }
    }

    fn wrap(&mut self, meter: &mut Meter) {
        self.cursor.column = 0;
        self.index(meter);
    }

    // Controls.

    /// LF, VT and FF.
    pub(super) fn line_feed(&mut self, meter: &mut Meter) {
        if self.modes.feeds_and_returns {
            self.cursor.column = 0;
        }
        self.index(meter);
    }

    /// IND: goes one row down, and scrolls at the lower margin.
    pub(super) fn index(&mut self, meter: &mut Meter) {
        self.new_lines += 1;
        meter.work(Work::NewLine, 1);
        self.cursor.wrap_pending = false;
        if self.cursor.row + 1 == self.margins.end {
            self.scroll_up(1);
        } else if self.cursor.row + 1 < self.grid.rows() {
            self.cursor.row += 1;
        }
    }

    /// RI: goes one row up, and scrolls at the upper margin.
    pub(super) fn reverse_index(&mut self) {
        self.cursor.wrap_pending = false;
        if self.cursor.row == self.margins.start {
            self.scroll_down(1);
        } else {
            self.cursor.row = self.cursor.row.saturating_sub(1);
        }
    }

    /// Goes to the next tab stop, or to the last column.
    pub(super) fn tab(&mut self, count: usize) {
        let stops = self.tabs.iter().enumerate().skip(self.cursor.column + 1);
        let stop = stops.filter(|(_, is_stop)| **is_stop).nth(count.saturating_sub(1));
        self.set_column(stop.map_or(usize::MAX, |(column, _)| column));
    }

    /// CBT: goes back to a tab stop, or to the first column.
    pub(super) fn tab_back(&mut self, count: usize) {
        let stops = self.tabs.iter().enumerate().take(self.cursor.column).rev();
        let stop = stops.filter(|(_, is_stop)| **is_stop).nth(count.saturating_sub(1));
        self.set_column(stop.map_or(0, |(column, _)| column));
    }

    /// HTS and TBC: sets or clears the tab stop of this column.
    pub(super) fn set_tab(&mut self, is_stop: bool) {
        if let Some(tab) = self.tabs.get_mut(self.cursor.column) {
            *tab = is_stop;
        }
    }

    /// TBC 3: clears all tab stops.
    pub(super) fn clear_tabs(&mut self) {
        self.tabs.fill(false);
    }

    /// SI, SO, LS2 and LS3: puts one of G0 to G3 in force.
    pub(super) fn shift(&mut self, set: usize) {
        self.cursor.shift = set;
    }

    /// SS2 and SS3: puts one of them in force for the next character.
    pub(super) fn shift_once(&mut self, set: usize) {
        self.cursor.single_shift = Some(set);
    }

    /// SCS: says what one of G0 to G3 is.
    pub(super) fn designate(&mut self, set: usize, charset: Charset) {
        if let Some(place) = self.cursor.charsets.get_mut(set) {
            *place = charset;
        }
    }

    // The cursor.

    /// Goes to a column, or to the last one.
    pub(super) fn set_column(&mut self, column: usize) {
        self.cursor.wrap_pending = false;
        self.cursor.column = column.min(self.grid.columns() - 1);
    }

    /// Goes to a row, or to the last one; with DECOM, within the margins.
    pub(super) fn set_row(&mut self, row: usize) {
        self.cursor.wrap_pending = false;
        self.cursor.row = if self.cursor.has_origin {
            self.margins.start.saturating_add(row).min(self.margins.end - 1)
        } else {
            row.min(self.grid.rows() - 1)
        };
    }

    /// Returns the row as DSR reports it.
    pub(super) fn reported_row(&self) -> usize {
        self.cursor.row.saturating_sub(self.origin())
    }

    /// Returns whether DECOM is set.
    pub(super) fn has_origin(&self) -> bool {
        self.cursor.has_origin
    }

    /// Returns the row from which rows are counted.
    pub(super) fn origin(&self) -> usize {
        if self.cursor.has_origin { self.margins.start } else { 0 }
    }

    /// Goes up, and stops at the upper margin if it is not above.
    pub(super) fn up(&mut self, count: usize) {
        self.cursor.wrap_pending = false;
        let row = self.cursor.row;
        let stop = if row >= self.margins.start { self.margins.start } else { 0 };
        self.cursor.row = row.saturating_sub(count).max(stop);
    }

    /// Goes down, and stops at the lower margin if it is not below.
    pub(super) fn down(&mut self, count: usize) {
        self.cursor.wrap_pending = false;
        let row = self.cursor.row;
        let end = if row < self.margins.end { self.margins.end } else { self.grid.rows() };
        self.cursor.row = row.saturating_add(count).min(end - 1);
    }

    /// Goes to the right.
    pub(super) fn right(&mut self, count: usize) {
        self.set_column(self.cursor.column.saturating_add(count));
    }

    /// Goes to the left.
    pub(super) fn left(&mut self, count: usize) {
        self.set_column(self.cursor.column.saturating_sub(count));
    }

    /// DECSC.
    pub(super) fn save_cursor(&mut self) {
        *self.saved() = self.cursor;
    }

    /// DECRC.
    pub(super) fn restore_cursor(&mut self) {
        self.cursor = *self.saved();
    }

    fn saved(&mut self) -> &mut Cursor {
        if self.modes.is_alternate { &mut self.saved_alternate } else { &mut self.saved_main }
    }

    /// DECSTBM; margins that hold less than two rows are ignored.
    pub(super) fn set_margins(&mut self, margins: Range<usize>) {
        let end = margins.end.min(self.grid.rows());
        if margins.start + 1 < end {
            self.margins = margins.start..end;
            self.home();
        }
    }

    /// DECOM.
    pub(super) fn set_origin(&mut self, has_origin: bool) {
        self.cursor.has_origin = has_origin;
        self.home();
    }

    fn home(&mut self) {
        self.set_row(0);
        self.set_column(0);
    }

    // Edits.

    /// Returns what an erasure leaves now.
    pub(super) fn blank(&self) -> Cell {
        Cell::erased(self.cursor.style)
    }

    /// ED.
    pub(super) fn erase_display(&mut self, erase: Erase) {
        let (row, rows, blank) = (self.cursor.row, self.grid.rows(), self.blank());
        match erase {
            Erase::ToEnd => {
                self.erase_line(erase);
                self.grid.fill(row + 1..rows, blank);
            }
            Erase::FromStart => {
                self.erase_line(erase);
                self.grid.fill(0..row, blank);
            }
            Erase::All => self.grid.fill(0..rows, blank),
        }
    }

    /// EL.
    pub(super) fn erase_line(&mut self, erase: Erase) {
        let (column, columns) = (self.cursor.column, self.grid.columns());
        self.fill_row(match erase {
            Erase::ToEnd => column..columns,
            Erase::FromStart => 0..column + 1,
            Erase::All => 0..columns,
        });
    }

    /// ECH.
    pub(super) fn erase_cells(&mut self, count: usize) {
        let column = self.cursor.column;
        self.fill_row(column..column.saturating_add(count));
    }

    fn fill_row(&mut self, columns: Range<usize>) {
        self.cursor.wrap_pending = false;
        let blank = self.blank();
        if let Some(row) = self.grid.row_mut(self.cursor.row) {
            row.fill(columns, blank);
        }
    }

    /// ICH.
    pub(super) fn insert_cells(&mut self, count: usize) {
        self.cursor.wrap_pending = false;
        let blank = self.blank();
        if let Some(row) = self.grid.row_mut(self.cursor.row) {
            row.insert(self.cursor.column, count, blank);
        }
    }

    /// DCH.
    pub(super) fn delete_cells(&mut self, count: usize) {
        self.cursor.wrap_pending = false;
        let blank = self.blank();
        if let Some(row) = self.grid.row_mut(self.cursor.row) {
            row.delete(self.cursor.column, count, blank);
        }
    }

    /// IL; nothing happens outside the margins.
    pub(super) fn insert_lines(&mut self, count: usize) {
        if self.margins.contains(&self.cursor.row) {
            let (rows, blank) = (self.cursor.row..self.margins.end, self.blank());
            self.grid.scroll_down(rows, count, blank);
            self.set_column(0);
        }
    }

    /// DL; nothing happens outside the margins.
    pub(super) fn delete_lines(&mut self, count: usize) {
        if self.margins.contains(&self.cursor.row) {
            let (rows, blank) = (self.cursor.row..self.margins.end, self.blank());
            self.grid.scroll_up(rows, count, blank);
            self.set_column(0);
        }
    }

    /// SU.
    pub(super) fn scroll_up(&mut self, count: usize) {
        let blank = self.blank();
        self.grid.scroll_up(self.margins.clone(), count, blank);
    }

    /// SD.
    pub(super) fn scroll_down(&mut self, count: usize) {
        let blank = self.blank();
        self.grid.scroll_down(self.margins.clone(), count, blank);
    }

    /// DECALN: fills the screen with E.
    pub(super) fn align(&mut self) {
        self.margins = 0..self.grid.rows();
        self.home();
        self.grid.fill(0..self.grid.rows(), Cell::new('E', Style::PLAIN));
    }

    /// Shows the alternate screen or the main one.
    pub(super) fn show_alternate(&mut self, is_alternate: bool) {
        if self.modes.is_alternate != is_alternate {
            mem::swap(&mut self.grid, &mut self.hidden);
            self.modes.is_alternate = is_alternate;
            self.cursor.wrap_pending = false;
        }
    }

    // Replies.

    /// Queues a reply, or counts that it found no room.
    pub(super) fn reply(&mut self, reply: &[u8], meter: &mut Meter) {
        if self.output.len() + reply.len() > OUTPUT_MAX {
            return meter.count(Counter::TerminalReportsRefused);
        }
        self.output.extend_from_slice(reply);
        meter.count(Counter::TerminalReports);
    }

    pub(super) fn output(&self) -> &[u8] {
        &self.output
    }

    pub(super) fn sent(&mut self, count: usize) {
        self.output.drain(..count.min(self.output.len()));
    }
}

/// Returns how many columns a character takes: the ranges that fill most pages are not looked up.
fn width(character: char) -> Option<usize> {
    match character {
        ' '..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{2ff}' => Some(1),
        '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' => Some(2),
        _ => character.width(),
    }
}

fn default_tabs(columns: usize) -> Vec<bool> {
    let mut tabs = vec![false; columns];
    tabs.iter_mut().skip(TAB_DISTANCE).step_by(TAB_DISTANCE).for_each(|tab| *tab = true);
    tabs
}

/// Returns the character of DEC Special Graphics for a code from 5F to 7E.
fn graphic(character: char) -> char {
    const GRAPHICS: &str = "\u{a0}◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·";
    let place = u32::from(character).checked_sub(0x5f).and_then(|place| place.try_into().ok());
    place.and_then(|place| GRAPHICS.chars().nth(place)).unwrap_or(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_of_every_character_is_that_of_the_tables() {
        let wrong = ('\0'..=char::MAX).find(|character| width(*character) != character.width());
        assert_eq!(wrong, None);
    }
}
