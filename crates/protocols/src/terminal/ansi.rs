//! The ANSI front end: an xterm according to ECMA-48, the VT100 and common practice.
//!
//! Nearly all host output is text. Runs of printable ASCII or UTF-8, and the controls between them,
//! therefore bypass the parser: a scan finds them and writes them to the grid directly. A complete
//! control sequence of the usual form is parsed in place (`parameters`). All other input, such as
//! other escape sequences and malformed or incomplete UTF-8, goes to the parser byte by byte, until
//! the parser is in its ground state again. The parser does not expose its state, so the front end
//! derives it from the callbacks:
//!
//! - a control or escape sequence was dispatched, or CAN or SUB was executed: ground;
//! - an OSC was dispatched: ground if BEL terminated it, escape if ESC terminated it;
//! - a character was printed: ground, with one exception. If the byte invalidated an incomplete
//!   character and begins another character or an escape, the parser is not in ground state;
//! - no callback: not known to be ground. The next bytes go to the parser, which accepts text as
//!   well.
//!
//! Not implemented, and counted as unknown: window reports other than the number of rows and
//! columns, replies to OSC queries, palette, clipboard and font control, sixels, 8-bit controls,
//! and all other sequences with which a host could store data in the terminal or read data from it.
//! DECCOLM does not change the width, since the window belongs to the user. Keyboard and mouse
//! modes are stored and have no effect here.

use super::SIDE_MAX;
use super::cell::{Cell, Style};
use super::dispatch::{Dispatch, control_character};
use super::grid::{LineSize, Row, narrow};
use super::input::InputModes;
use super::parameters::{Parameters, Sequence};
use super::picture::{Picture, PictureCursor};
use crate::terminal::screen;
use alloc::string::String;
use core::fmt;
use net::cx::Cx;
use net::meter::{Account, Work};

/// Maximum number of bytes that the parser stores of an operating system command (OSC), such as a
/// window title.
const OSC_BYTES_MAX: usize = 512;

const ESC: u8 = 0x1b;
const DEL: u8 = 0x7f;

/// An emulated VT100 or xterm terminal.
pub struct Terminal {
    parser: vte::Parser<OSC_BYTES_MAX>,
    /// Whether the parser is in its ground state: no sequence or multibyte character is incomplete.
    is_ground: bool,
    screen: screen::Screen,
}

/// Effect of one call of [`Terminal::receive`] on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScreenEffect {
    /// Number of cells in which a character was written.
    pub cells: u64,
    /// Number of line feeds, including those caused by wrapping at the end of a row.
    pub new_lines: u64,
}

impl Terminal {
    /// Creates a blank terminal; each dimension is at least 1 and at most [`SIDE_MAX`].
    #[must_use]
    pub fn new(columns: u16, rows: u16) -> Self {
        let columns = columns.min(SIDE_MAX);
        let rows = rows.min(SIDE_MAX);
        Self {
            parser: vte::Parser::default(),
            is_ground: true,
            screen: screen::Screen::new(columns.into(), rows.into()),
        }
    }

    /// Processes bytes from the host.
    pub fn receive(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> ScreenEffect {
        let account = cx.meter.enter(Account::Terminal);
        let cells = self.screen.cells_written;
        let new_lines = self.screen.new_lines;
        let mut rest = bytes;
        while !rest.is_empty() {
            let consumed = if self.is_ground {
                self.process_in_ground_state(rest, cx)
            } else {
                self.parse(rest, cx)
            };
            rest = rest.get(consumed..).unwrap_or_default();
        }
        cx.meter.enter(account);
        ScreenEffect {
            cells: self.screen.cells_written - cells,
            new_lines: self.screen.new_lines - new_lines,
        }
    }

    /// Changes the size, within the limits of [`Terminal::new`].
    ///
    /// Lines of the main screen are rewrapped; on the alternate screen text that does not fit is
    /// cut off. Margins are reset.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.screen.resize(columns.min(SIDE_MAX).into(), rows.min(SIDE_MAX).into());
    }

    /// Returns the number of columns and of rows.
    #[must_use]
    pub fn size(&self) -> (u16, u16) {
        (narrow(self.screen.grid().columns()), narrow(self.screen.grid().rows()))
    }

    /// Returns the cursor's row and column, counted from 0.
    #[must_use]
    pub fn cursor(&self) -> (u16, u16) {
        (narrow(self.screen.cursor().row), narrow(self.screen.cursor().column))
    }

    /// Returns whether the cursor is visible (DECTCEM).
    #[must_use]
    pub fn is_cursor_visible(&self) -> bool {
        self.screen.modes.shows_cursor
    }

    /// Returns whether the alternate screen is displayed.
    #[must_use]
    pub fn is_alternate(&self) -> bool {
        self.screen.modes.is_alternate
    }

    /// Returns the cell at `row` and `column`, counted from 0.
    #[must_use]
    pub fn cell(&self, row: u16, column: u16) -> Option<&Cell> {
        self.screen.grid().cell(row.into(), column.into())
    }

    /// Returns the size of the characters in `row`. A row of double-width characters displays half
    /// as many characters as a normal row.
    #[must_use]
    pub fn line_size(&self, row: u16) -> LineSize {
        self.screen.grid().row(row.into()).map_or(LineSize::Single, |row| row.size)
    }

    /// Returns whether the text of `row` wraps into the next row, so that both rows are one line.
    #[must_use]
    pub fn is_continued(&self, row: u16) -> bool {
        self.screen.grid().row(row.into()).is_some_and(|row| row.is_continued)
    }

    /// Returns the text of a row without trailing blanks; empty if there is no such row.
    #[must_use]
    pub fn row_text(&self, row: u16) -> String {
        let mut text = String::new();
        if let Some(row) = self.screen.grid().row(row.into()) {
            row.text(&mut text);
        }
        text
    }

    /// Returns the text of the screen, one line per row, without trailing blanks and trailing blank
    /// rows.
    #[must_use]
    pub fn text(&self) -> String {
        let grid = self.screen.grid();
        let mut text = String::new();
        for row in (0..grid.rows()).filter_map(|row| grid.row(row)) {
            row.text(&mut text);
            text.push('\n');
        }
        text.truncate(text.trim_end_matches('\n').len());
        text
    }

    /// Returns a snapshot of the displayed cells and cursor.
    #[must_use]
    pub fn picture(&self) -> Picture {
        let mut picture = Picture::from_grid(self.screen.grid(), self.screen.grid().rows());
        let (row, column) = self.cursor();
        let cursor = PictureCursor { row, column, shape: self.screen.modes.cursor_shape };
        picture.set_cursor(self.is_cursor_visible().then_some(cursor));
        picture
    }

    /// Returns the cells of a row; empty if there is no such row.
    pub(super) fn row_cells(&self, row: usize) -> &[Cell] {
        self.screen.grid().row(row).map(Row::cells).unwrap_or_default()
    }

    /// Returns whether the next character wraps to the next row first.
    pub(super) fn is_wrap_pending(&self) -> bool {
        self.screen.cursor().is_wrap_pending()
    }

    /// Returns whether the parser is in its ground state: no sequence or multibyte character is
    /// incomplete.
    pub(super) fn is_ground(&self) -> bool {
        self.is_ground
    }

    /// Returns whether the next printed character is displayed unmodified and changes no other
    /// cell.
    pub(super) fn prints_plainly(&self) -> bool {
        self.is_ground && self.screen.prints_plainly()
    }

    /// Returns whether no margins are set, so that a line feed in the last row scrolls the whole
    /// screen.
    pub(super) fn scrolls_whole_screen(&self) -> bool {
        self.screen.scrolls_whole_screen()
    }

    /// Returns the rows and the columns between the margins.
    #[cfg(test)]
    pub(super) fn margins(&self) -> (core::ops::Range<usize>, core::ops::Range<usize>) {
        self.screen.margins()
    }

    /// Returns the number of cells written so far; a wide character counts twice.
    #[must_use]
    pub fn cells_written(&self) -> u64 {
        self.screen.cells_written
    }

    /// Returns the style with which the next character will be printed.
    #[must_use]
    pub fn style(&self) -> Style {
        self.screen.cursor().style
    }

    /// Returns the modes that the host has set for the input from keyboard, mouse and paste.
    #[must_use]
    pub fn input_modes(&self) -> InputModes {
        self.screen.modes.input
    }

    /// Sets whether the host may request checksums of screen rectangles (DECRQCRA), from which it
    /// could infer the displayed text. The default is off.
    pub fn report_checksums(&mut self, is_on: bool) {
        self.screen.reports_checksums = is_on;
    }

    /// Returns the title, without control characters and at most 256 characters long.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.screen.title
    }

    /// Returns the number of BEL characters received so far.
    #[must_use]
    pub fn bells(&self) -> u64 {
        self.screen.bells
    }

    /// Returns the replies that are queued for the host.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.screen.output()
    }

    /// Removes the first `count` bytes of [`Terminal::output`], after they were sent to the host.
    pub fn sent(&mut self, count: usize) {
        self.screen.sent(count);
    }

    /// Processes one run of text, one control character, or one sequence at the front of `bytes`,
    /// in the ground state of the parser. Returns the number of bytes consumed.
    fn process_in_ground_state(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> usize {
        let run = printable_run(bytes);
        if let Some(text) = bytes.get(..run).filter(|text| !text.is_empty()) {
            if self.screen.prints_ascii() {
                self.screen.print_ascii(text, cx.meter);
            } else {
                cx.meter.work(Work::TerminalByte, run);
                text.iter().for_each(|byte| self.screen.print(char::from(*byte), cx.meter));
            }
            return run;
        }
        match bytes.first() {
            None => 0,
            Some(&ESC) => self.process_escape(bytes, cx),
            Some(0x80..) => self.process_utf8(bytes, cx),
            Some(&control) => {
                cx.meter.work(Work::TerminalByte, 1);
                control_character(&mut self.screen, control, cx);
                1
            }
        }
    }

    /// Executes the control sequence at the front of `bytes`, or passes an incomplete or unusual
    /// sequence to the parser. Returns the number of bytes consumed.
    fn process_escape(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> usize {
        let mut parameters = Parameters::NONE;
        let Some(sequence) = Sequence::parse(bytes, &mut parameters) else {
            return self.parse(bytes, cx);
        };
        cx.meter.work(Work::TerminalByte, sequence.bytes);
        let mut dispatch = Dispatch { screen: &mut self.screen, cx, byte: 0, is_ground: true };
        let intermediates = sequence.private.as_slice();
        dispatch.sequence(&parameters, intermediates, false, char::from(sequence.last));
        sequence.bytes
    }

    /// Prints a run of UTF-8, or passes malformed or incomplete UTF-8 to the parser. Returns the
    /// number of bytes consumed.
    fn process_utf8(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> usize {
        let mut rest = bytes;
        while let Some((character, later)) = decode(rest) {
            cx.meter.work(Work::TerminalByte, rest.len() - later.len());
            self.screen.print(character, cx.meter);
            rest = later;
        }
        if rest.len() < bytes.len() { bytes.len() - rest.len() } else { self.parse(bytes, cx) }
    }

    /// Passes bytes to the parser until it is in ground state; returns the number of bytes
    /// consumed.
    fn parse(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> usize {
        let mut dispatch = Dispatch { screen: &mut self.screen, cx, byte: 0, is_ground: false };
        let mut consumed = 0;
        for byte in bytes {
            consumed += 1;
            dispatch.byte = *byte;
            dispatch.cx.meter.work(Work::TerminalByte, 1);
            self.parser.advance(&mut dispatch, &[*byte]);
            if dispatch.is_ground {
                break;
            }
        }
        self.is_ground = dispatch.is_ground;
        consumed
    }
}

impl fmt::Debug for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_ground = &self.is_ground;
        let screen = &self.screen;
        let mut fields = f.debug_struct("Terminal");
        fields.field("is_ground", is_ground).field("screen", screen).finish_non_exhaustive()
    }
}

/// Decodes the multibyte character at the front, and returns it with the remaining bytes. Returns
/// `None` if the character is incomplete or malformed (RFC 3629 §4).
fn decode(bytes: &[u8]) -> Option<(char, &[u8])> {
    let (&lead, rest) = bytes.split_first()?;
    let (mut code, count, least) = match lead {
        0xc2..=0xdf => (u32::from(lead & 0x1f), 1, 0x80),
        0xe0..=0xef => (u32::from(lead & 0x0f), 2, 0x800),
        0xf0..=0xf4 => (u32::from(lead & 0x07), 3, 0x1_0000),
        _ => return None,
    };
    let (tail, rest) = rest.split_at_checked(count)?;
    for byte in tail {
        if byte & 0xc0 != 0x80 {
            return None;
        }
        code = code << 6 | u32::from(byte & 0x3f);
    }
    // Surrogates and values above U+10FFFF are not characters.
    char::from_u32(code).filter(|_| code >= least).map(|character| (character, rest))
}

/// Returns the number of printable ASCII bytes at the front of `bytes`.
fn printable_run(bytes: &[u8]) -> usize {
    // A block of sixteen bytes is compared without branches, so that the compiler generates one
    // vector comparison per block.
    let is_printable = |byte: &u8| byte.wrapping_sub(b' ') < DEL - b' ';
    let (blocks, _) = bytes.as_chunks::<16>();
    let printable_blocks = blocks.iter().take_while(|block| {
        block.iter().fold(true, |are_printable, byte| are_printable & is_printable(byte))
    });
    let start = printable_blocks.count() * 16;
    let rest = bytes.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|byte| is_printable(byte)).count()
}
