//! Screen operations of an xterm or VT100: cursor, margins, modes, and edits of the grid.
//!
//! The cursor is always inside the grid. A character written in the last column leaves the cursor
//! in that column and sets `wrap_pending`; the next character moves to the next row first (DECAWM
//! as on the VT100). Every operation that moves the cursor or edits the row clears `wrap_pending`.
//!
//! Four margins bound the scrolling area (DECSTBM, DECSLRM). Lines end at the right margin unless
//! the cursor is beyond it. Operations on the cursor and the margins are in `motion`, those on
//! cells in `edit`, and those on rectangles in `rectangle`.
//!
//! The meter receives a [`Work::NewLine`] for every line feed, including those caused by wrapping.
//! Printed ASCII is charged row by row, so that the charges are in display order.

mod edit;
mod motion;
mod rectangle;

pub(in crate::terminal) use rectangle::Rectangle;

use crate::terminal::cell::{Cell, Style};
use crate::terminal::grid::{Grid, LineSize, Row};
use crate::terminal::inert_modes::InertModes;
use crate::terminal::input::InputModes;
use crate::terminal::picture::CursorShape;
use crate::terminal::reflow::Position;
use crate::terminal::status_request::StatusRequest;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use net::meter::{Counter, Meter, Work};
use unicode_width::UnicodeWidthChar;

/// Initial distance between the tab stops in columns.
const TAB_DISTANCE: usize = 8;
/// Maximum number of queued reply bytes. The longest reply has about 60 bytes.
const OUTPUT_MAX: usize = 256;

/// The state of a terminal's screen: grids, cursor, margins and modes.
#[derive(Debug)]
pub(in crate::terminal) struct Screen {
    grid: Grid,
    /// The grid that is not displayed: that of the main screen, or that of the alternate screen.
    hidden: Grid,
    cursor: Cursor,
    saved_main: Cursor,
    saved_alternate: Cursor,
    /// The rows between the upper and lower margin.
    margins: Range<usize>,
    /// The columns between the left and right margin; all columns if DECLRMM is off.
    columns: Range<usize>,
    /// Whether a row with large characters (DECDWL, DECDHL) may exist.
    has_large_rows: bool,
    /// The erasures that preserve protected cells.
    protection: Protection,
    /// DECSACE: DECCARA and DECRARA change only the cells inside the rectangle, instead of all
    /// cells between its first and its last corner in reading order.
    pub(in crate::terminal) changes_rectangles: bool,
    tabs: Vec<bool>,
    last_printed: Option<char>,
    /// The combining marks of the last printed character.
    last_marks: [Option<char>; 2],
    output: Vec<u8>,
    pub(in crate::terminal) modes: Modes,
    /// XTSAVE: saved private modes.
    pub(in crate::terminal) saved_modes: Vec<(usize, bool)>,
    /// The partially received DECRQSS request.
    pub(in crate::terminal) status_request: StatusRequest,
    /// Whether checksum requests of the host (DECRQCRA) are answered.
    pub(in crate::terminal) reports_checksums: bool,
    pub(in crate::terminal) title: String,
    pub(in crate::terminal) bells: u64,
    pub(in crate::terminal) cells_written: u64,
    pub(in crate::terminal) new_lines: u64,
}

/// The cursor, and the state that DECSC saves with it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::terminal) struct Cursor {
    pub(in crate::terminal) row: usize,
    pub(in crate::terminal) column: usize,
    wrap_pending: bool,
    pub(in crate::terminal) style: Style,
    /// The character sets G0 to G3.
    charsets: [Charset; 4],
    /// Index in `charsets` of the set in use.
    shift: usize,
    /// SS2 and SS3: index in `charsets` of the set for the next character only.
    single_shift: Option<usize>,
    /// DECOM: rows and columns count from the upper and left margin.
    has_origin: bool,
    /// DECSCA or SPA: printed characters are protected from erasure.
    is_protected: bool,
}

/// The kind of erasure that preserves protected cells, as determined by the last protecting
/// sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::terminal) enum Protection {
    #[default]
    None,
    /// DECSCA: selective erasures preserve protected cells.
    Dec,
    /// SPA and EPA (ECMA-48): ordinary erasures preserve protected cells.
    Iso,
}

impl Cursor {
    fn position(&self) -> Position {
        let Self { row, column, wrap_pending, .. } = *self;
        Position { row, column, is_after_column: wrap_pending }
    }

    fn set_position(&mut self, position: Position) {
        self.row = position.row;
        self.column = position.column;
        self.wrap_pending = position.is_after_column;
    }

    /// Returns whether the next character will be printed in the next row.
    pub(in crate::terminal) fn is_wrap_pending(&self) -> bool {
        self.wrap_pending
    }

    fn charset(&self) -> Charset {
        let set = self.single_shift.unwrap_or(self.shift);
        self.charsets.get(set).copied().unwrap_or_default()
    }
}

/// A character set for the codes 0x20 to 0x7E.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::terminal) enum Charset {
    #[default]
    Ascii,
    /// DEC Special Graphics.
    Graphics,
    /// British: `#` is displayed as a pound sign.
    British,
}

/// Modes that are either set or reset.
#[derive(Clone, Copy, Debug)]
pub(in crate::terminal) struct Modes {
    /// DECAWM: autowrap.
    pub(in crate::terminal) wraps: bool,
    /// IRM: insert mode.
    pub(in crate::terminal) inserts: bool,
    /// DECLRMM: there are left and right margins.
    pub(in crate::terminal) has_side_margins: bool,
    /// Mode 45: backspace at the left margin moves to the right margin of the previous row, if that
    /// row wraps into the current row.
    pub(in crate::terminal) wraps_back: bool,
    /// Mode 1045: like mode 45, but also if the previous row does not wrap. From the top margin,
    /// backspace moves to the bottom margin.
    pub(in crate::terminal) wraps_back_far: bool,
    /// DECNCSM: a change of the number of columns does not clear the screen.
    pub(in crate::terminal) keeps_screen: bool,
    /// DECCOLM: 132 columns were requested.
    pub(in crate::terminal) is_132_columns: bool,
    /// Mode 40: DECCOLM is accepted.
    pub(in crate::terminal) may_change_columns: bool,
    /// DECSCNM: reverse video of the whole screen.
    pub(in crate::terminal) is_reverse: bool,
    /// Mode 12: the cursor blinks.
    pub(in crate::terminal) cursor_blinks: bool,
    /// Modes that have no effect on this screen.
    pub(in crate::terminal) inert: InertModes,
    /// LNM: a line feed also returns to the left margin.
    pub(in crate::terminal) feeds_and_returns: bool,
    /// DECTCEM: the cursor is visible.
    pub(in crate::terminal) shows_cursor: bool,
    /// The alternate screen is displayed.
    pub(in crate::terminal) is_alternate: bool,
    /// DECSCUSR: the shape of the cursor.
    pub(in crate::terminal) cursor_shape: CursorShape,
    pub(in crate::terminal) input: InputModes,
}

impl Default for Modes {
    fn default() -> Self {
        Self {
            wraps: true,
            inserts: false,
            has_side_margins: false,
            wraps_back: false,
            wraps_back_far: false,
            keeps_screen: false,
            inert: InertModes::default(),
            is_132_columns: false,
            may_change_columns: false,
            is_reverse: false,
            cursor_blinks: false,
            feeds_and_returns: false,
            shows_cursor: true,
            is_alternate: false,
            cursor_shape: CursorShape::Configured,
            input: InputModes::default(),
        }
    }
}

/// Part of the display or line that an ED or EL sequence erases.
#[derive(Clone, Copy, Debug)]
pub(in crate::terminal) enum Erase {
    ToEnd,
    FromStart,
    All,
}

impl Screen {
    /// Creates a blank screen of at least one cell.
    pub(in crate::terminal) fn new(columns: usize, rows: usize) -> Self {
        let columns = columns.max(1);
        let rows = rows.max(1);
        Self {
            grid: Grid::new(columns, rows),
            hidden: Grid::new(columns, rows),
            cursor: Cursor::default(),
            saved_main: Cursor::default(),
            saved_alternate: Cursor::default(),
            margins: 0..rows,
            columns: 0..columns,
            has_large_rows: false,
            protection: Protection::None,
            changes_rectangles: false,
            tabs: default_tabs(columns),
            last_printed: None,
            last_marks: [None; 2],
            output: Vec::new(),
            modes: Modes::default(),
            saved_modes: Vec::new(),
            status_request: StatusRequest::default(),
            reports_checksums: false,
            title: String::new(),
            bells: 0,
            cells_written: 0,
            new_lines: 0,
        }
    }

    pub(in crate::terminal) fn grid(&self) -> &Grid {
        &self.grid
    }

    pub(in crate::terminal) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    pub(in crate::terminal) fn style_mut(&mut self) -> &mut Style {
        &mut self.cursor.style
    }

    /// Changes the size. Lines of the main screen are rewrapped.
    pub(in crate::terminal) fn resize(&mut self, columns: usize, rows: usize) {
        let columns = columns.max(1);
        let rows = rows.max(1);
        let positions =
            [self.cursor.position(), self.saved_main.position(), self.saved_alternate.position()];
        let [mut cursor, mut main, mut alternate] = positions;
        match self.modes.is_alternate {
            true => {
                self.hidden.reflow(columns, rows, [&mut main]);
                self.grid.resize(columns, rows, [&mut cursor, &mut alternate]);
            }
            false => {
                self.grid.reflow(columns, rows, [&mut cursor, &mut main]);
                self.hidden.resize(columns, rows, [&mut alternate]);
            }
        }
        self.cursor.set_position(cursor);
        self.saved_main.set_position(main);
        self.saved_alternate.set_position(alternate);
        self.margins = 0..rows;
        self.columns = 0..columns;
        self.clamp();
        let stops = default_tabs(columns);
        self.tabs.truncate(columns);
        self.tabs.extend(stops.get(self.tabs.len()..).unwrap_or_default());
    }

    /// RIS: resets everything to its initial state, except the counters.
    pub(in crate::terminal) fn reset(&mut self) {
        self.show_alternate(false);
        self.grid.fill(0..self.grid.rows(), Cell::BLANK);
        self.hidden.fill(0..self.grid.rows(), Cell::BLANK);
        self.has_large_rows = false;
        self.tabs = default_tabs(self.grid.columns());
        self.last_printed = None;
        self.reset_modes();
        self.cursor = Cursor::default();
        self.modes = Modes::default();
    }

    /// DECSTR: resets everything that RIS resets, except text, tab stops, cursor, and mouse modes.
    pub(in crate::terminal) fn reset_modes(&mut self) {
        let input = InputModes {
            has_application_cursor: false,
            has_application_keypad: false,
            ..self.modes.input
        };
        let Modes { is_alternate, is_132_columns, may_change_columns, .. } = self.modes;
        self.modes =
            Modes { is_alternate, is_132_columns, may_change_columns, input, ..Modes::default() };
        self.margins = 0..self.grid.rows();
        self.columns = 0..self.grid.columns();
        self.protection = Protection::None;
        self.changes_rectangles = false;
        self.saved_main = Cursor::default();
        self.saved_alternate = Cursor::default();
        let row = self.cursor.row;
        let column = self.cursor.column;
        self.cursor = Cursor { row, column, ..Cursor::default() };
    }

    // Printing.

    /// Returns whether the next character will be displayed unmodified and change only its own
    /// cell: insert mode, character sets, side margins, protection and large characters are off.
    pub(in crate::terminal) fn prints_plainly(&self) -> bool {
        let is_plain =
            |row: &Row| row.size == LineSize::Single && !row.cells().iter().any(Cell::is_protected);
        self.prints_ascii()
            && !self.modes.inserts
            && !self.cursor.is_protected
            && self.columns == (0..self.grid.columns())
            && self.grid.row(self.cursor.row).is_some_and(is_plain)
    }

    /// Returns whether printable ASCII is displayed as it is, without a character set conversion.
    pub(in crate::terminal) fn prints_ascii(&self) -> bool {
        self.cursor.single_shift.is_none() && self.cursor.charset() == Charset::Ascii
    }

    /// Prints a run of printable ASCII, and charges its bytes.
    pub(in crate::terminal) fn print_ascii(&mut self, mut run: &[u8], meter: &mut Meter) {
        self.last_printed = run.last().map(|byte| char::from(*byte));
        self.last_marks = [None; 2];
        while !run.is_empty() {
            self.wrap_if_pending(meter);
            let Cursor { row, column, style, is_protected, .. } = self.cursor;
            let end = self.line_end();
            let room = end - column;
            let Some((text, rest)) = run.split_at_checked(room.min(run.len())) else { return };
            meter.work(Work::TerminalByte, text.len());
            let Some(row) = self.grid.row_mut(row) else { return };
            if self.modes.inserts {
                row.insert(column..end, text.len(), Cell::erased(style));
            }
            row.write_ascii(column, text, Cell::new(' ', style).protected(is_protected));
            self.advance(text.len(), end);
            run = rest;
        }
    }

    /// Prints one character; a combining mark is added to the previous character.
    pub(in crate::terminal) fn print(&mut self, character: char, meter: &mut Meter) {
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
            Some(0) => return self.add_combining_mark(character),
            Some(1) => self.place([Cell::new(character, style)], meter),
            Some(_) => self.place(Cell::wide(character, style), meter),
        }
        self.last_printed = Some(character);
        self.last_marks = [None; 2];
    }

    /// REP: repeats the last character.
    ///
    /// `count` is limited to the number of columns, so that a few received bytes cannot cause
    /// thousands of cell writes.
    pub(in crate::terminal) fn repeat(&mut self, count: usize, meter: &mut Meter) {
        let Some(character) = self.last_printed else { return };
        for _ in 0..count.min(self.grid.columns()) {
            let marks = self.last_marks;
            self.print(character, meter);
            marks.into_iter().flatten().for_each(|mark| self.add_combining_mark(mark));
        }
    }

    #[inline]
    fn place<const COUNT: usize>(&mut self, cells: [Cell; COUNT], meter: &mut Meter) {
        if COUNT > self.grid.columns() {
            return;
        }
        self.wrap_if_pending(meter);
        let mut end = self.line_end();
        if self.cursor.column + COUNT > end {
            if self.modes.wraps {
                self.wrap(meter);
                end = self.line_end();
            } else {
                self.cursor.column = end.saturating_sub(COUNT);
            }
        }
        let Cursor { row, column, style, is_protected, .. } = self.cursor;
        if column + COUNT > end {
            return;
        }
        let Some(row) = self.grid.row_mut(row) else { return };
        if self.modes.inserts {
            row.insert(column..end, COUNT, Cell::erased(style));
        }
        row.write(column, cells.map(|cell| cell.protected(is_protected)));
        self.advance(COUNT, end);
    }

    fn add_combining_mark(&mut self, mark: char) {
        if let Some(free) = self.last_marks.iter_mut().find(|kept| kept.is_none()) {
            *free = Some(mark);
        }
        let Cursor { row, column, wrap_pending, .. } = self.cursor;
        if wrap_pending || column > 0 {
            let column = column - usize::from(!wrap_pending);
            if let Some(row) = self.grid.row_mut(row) {
                row.add_combining_mark(column, mark);
            }
        }
    }

    /// Moves the cursor right by `cells`. If it reaches `end`, the exclusive end of its line, it
    /// stays in the last column and a wrap becomes pending.
    fn advance(&mut self, cells: usize, end: usize) {
        self.cells_written += cells as u64;
        self.cursor.column += cells;
        self.cursor.wrap_pending = self.cursor.column >= end;
        self.cursor.column -= usize::from(self.cursor.wrap_pending);
    }

    /// Returns the exclusive end of the cursor's line: one column after the right margin or after
    /// the last column of the row.
    fn line_end(&self) -> usize {
        // Scrolling may have moved a row of large characters under the cursor. The cursor may then
        // be beyond the end of its row.
        let columns = match self.has_large_rows {
            true => self.row_end().max(self.cursor.column + 1),
            false => self.grid.columns(),
        };
        if self.cursor.column < self.columns.end { self.columns.end.min(columns) } else { columns }
    }

    /// Returns the number of characters that fit into the row of the cursor.
    #[cold]
    fn row_end(&self) -> usize {
        let columns = self.grid.columns();
        match self.grid.row(self.cursor.row).map(|row| row.size) {
            None | Some(LineSize::Single) => columns,
            Some(_) => (columns / 2).max(1),
        }
    }

    fn wrap_if_pending(&mut self, meter: &mut Meter) {
        if self.cursor.wrap_pending && self.modes.wraps {
            self.wrap(meter);
        }
    }

    fn wrap(&mut self, meter: &mut Meter) {
        let is_whole = self.columns == (0..self.grid.columns());
        if let Some(row) = self.grid.row_mut(self.cursor.row) {
            row.is_continued = is_whole;
        }
        self.index(meter);
        self.cursor.column = self.columns.start;
    }

    // Controls.

    /// LF, VT and FF: moves one row down; if LNM is set, also to the left margin.
    pub(in crate::terminal) fn line_feed(&mut self, meter: &mut Meter) {
        self.index(meter);
        if self.modes.feeds_and_returns {
            self.carriage_return();
        }
    }

    /// IND: moves one row down; at the lower margin, scrolls up instead.
    pub(in crate::terminal) fn index(&mut self, meter: &mut Meter) {
        self.new_lines += 1;
        meter.work(Work::NewLine, 1);
        self.cursor.wrap_pending = false;
        if self.cursor.row + 1 == self.margins.end {
            if self.columns.contains(&self.cursor.column) {
                self.scroll_up(1);
            }
        } else if self.cursor.row + 1 < self.grid.rows() {
            self.cursor.row += 1;
            self.clamp_to_row();
        }
    }

    /// RI: moves one row up; at the upper margin, scrolls down instead.
    pub(in crate::terminal) fn reverse_index(&mut self) {
        self.cursor.wrap_pending = false;
        if self.cursor.row == self.margins.start {
            if self.columns.contains(&self.cursor.column) {
                self.scroll_down(1);
            }
        } else {
            self.cursor.row = self.cursor.row.saturating_sub(1);
            self.clamp_to_row();
        }
    }

    /// SI, SO, LS2 and LS3: selects one of G0 to G3.
    pub(in crate::terminal) fn shift(&mut self, set: usize) {
        self.cursor.shift = set;
    }

    /// SS2 and SS3: selects G2 or G3 for the next character.
    pub(in crate::terminal) fn shift_once(&mut self, set: usize) {
        self.cursor.single_shift = Some(set);
    }

    /// SCS: assigns a character set to one of G0 to G3.
    pub(in crate::terminal) fn designate(&mut self, set: usize, charset: Charset) {
        if let Some(place) = self.cursor.charsets.get_mut(set) {
            *place = charset;
        }
    }

    // Replies.

    /// Queues a reply; if the queue is full, drops and counts the reply.
    pub(in crate::terminal) fn reply(&mut self, reply: &[u8], meter: &mut Meter) {
        if self.output.len() + reply.len() > OUTPUT_MAX {
            return meter.count(Counter::TerminalReportsRefused);
        }
        self.output.extend_from_slice(reply);
        meter.count(Counter::TerminalReports);
    }

    pub(in crate::terminal) fn output(&self) -> &[u8] {
        &self.output
    }

    pub(in crate::terminal) fn sent(&mut self, count: usize) {
        self.output.drain(..count.min(self.output.len()));
    }
}

/// Returns the width of a character in columns. The most frequent ranges need no table lookup.
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

/// Returns the DEC Special Graphics character for a code from 0x5F to 0x7E.
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
        let wrong_character =
            ('\0'..=char::MAX).find(|character| width(*character) != character.width());
        assert_eq!(wrong_character, None);
    }
}
