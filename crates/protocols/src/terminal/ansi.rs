//! The ANSI front end: an xterm as ECMA-48, the VT100 and habit have it.
//!
//! Text is nearly all of what a host sends, so runs of printable ASCII or of UTF-8, and the
//! controls between them, never reach the parser: they are found by a scan and go to the grid as
//! they stand. A control sequence that is whole and has the usual form is read in place
//! (`parameters`). From any other escape on, or from UTF-8 that is malformed or not yet whole, one
//! byte after the other goes to the parser, until what it reports says that it is at ground again.
//! The parser keeps its state to itself, so what it reports is read so:
//!
//! - a control or escape sequence was dispatched, or CAN or SUB was executed: it is at ground;
//! - an OSC was dispatched: at ground if BEL ended it, and in an escape if that did;
//! - a character was printed: at ground, unless the byte just given begins another character or
//!   an escape and has only made an unfinished one before it invalid;
//! - nothing was reported: it does not matter, because the parser may be given text as well.
//!
//! Left out, and counted as unknown: window reports, answers to OSC and DCS queries, clipboard and
//! font control, sixels, and everything else by which a host could learn or store what it said.
//! What keyboard and mouse shall send is kept and has no effect here.

use super::SIDE_MAX;
use super::cell::{Cell, Style};
use super::grid::Row;
use super::input::InputModes;
use super::parameters::{Parameters, Sequence};
use super::picture::{CursorShape, Picture, PictureCursor};
use super::screen::{Charset, Erase, Screen};
use super::sgr;
use crate::cx::Cx;
use crate::meter::{Account, Counter, Work};
use alloc::format;
use alloc::string::String;
use core::fmt;
use vte::{Params, Perform};

/// How many bytes of an OSC are kept.
const OSC_BYTES_MAX: usize = 512;
/// How many characters of a title are kept.
const TITLE_CHARS_MAX: usize = 256;

const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const ESC: u8 = 0x1b;
const DEL: u8 = 0x7f;
/// The string terminator in its 8-bit form.
const ST: u8 = 0x9c;
/// The first byte that can begin a character of UTF-8.
const UTF8_LEAD: u8 = 0xc0;

/// A terminal of the VT100 and xterm kind.
pub struct Terminal {
    parser: vte::Parser<OSC_BYTES_MAX>,
    /// Nothing has begun that the parser must see the end of.
    is_ground: bool,
    screen: Screen,
}

/// What one call of [`Terminal::receive`] has brought to the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Cells in which a character was written.
    pub cells: u64,
    /// Line feeds, those of wrapping included.
    pub new_lines: u64,
}

impl Terminal {
    /// Makes a blank terminal; a side is at least 1 and at most [`SIDE_MAX`].
    #[must_use]
    pub fn new(columns: u16, rows: u16) -> Self {
        let (columns, rows) = (columns.min(SIDE_MAX), rows.min(SIDE_MAX));
        Self {
            parser: vte::Parser::default(),
            is_ground: true,
            screen: Screen::new(columns.into(), rows.into()),
        }
    }

    /// Takes bytes from the host.
    pub fn receive(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> Written {
        let account = cx.meter.enter(Account::Terminal);
        let (cells, new_lines) = (self.screen.cells_written, self.screen.new_lines);
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = if self.is_ground { self.ground(rest, cx) } else { self.parse(rest, cx) };
            rest = rest.get(taken..).unwrap_or_default();
        }
        cx.meter.enter(account);
        Written {
            cells: self.screen.cells_written - cells,
            new_lines: self.screen.new_lines - new_lines,
        }
    }

    /// Changes the size, within the limits of [`Terminal::new`].
    ///
    /// Text is cut where it has no room, and not folded again. Margins are as at the start.
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

    /// Returns whether the host wants the cursor to be seen.
    #[must_use]
    pub fn is_cursor_visible(&self) -> bool {
        self.screen.modes.shows_cursor
    }

    /// Returns whether the alternate screen is shown.
    #[must_use]
    pub fn is_alternate(&self) -> bool {
        self.screen.modes.is_alternate
    }

    /// Returns the cell at `row` and `column`, counted from 0.
    #[must_use]
    pub fn cell(&self, row: u16, column: u16) -> Option<&Cell> {
        self.screen.grid().cell(row.into(), column.into())
    }

    /// Returns the text of a row without the blanks at its end; empty if there is no such row.
    #[must_use]
    pub fn row_text(&self, row: u16) -> String {
        let mut text = String::new();
        if let Some(row) = self.screen.grid().row(row.into()) {
            row.text(&mut text);
        }
        text
    }

    /// Returns the rows as lines, without the blanks at their ends and the blank rows at the end.
    #[must_use]
    pub fn text(&self) -> String {
        let (grid, mut text) = (self.screen.grid(), String::new());
        for row in (0..grid.rows()).filter_map(|row| grid.row(row)) {
            row.text(&mut text);
            text.push('\n');
        }
        text.truncate(text.trim_end_matches('\n').len());
        text
    }

    /// Returns what is seen.
    #[must_use]
    pub fn picture(&self) -> Picture {
        let mut picture = Picture::of(self.screen.grid(), self.screen.grid().rows());
        let (row, column) = self.cursor();
        let cursor = PictureCursor { row, column, shape: self.screen.modes.cursor_shape };
        picture.set_cursor(self.is_cursor_visible().then_some(cursor));
        picture
    }

    /// Returns the cells of a row; none if there is no such row.
    pub(super) fn row_cells(&self, row: usize) -> &[Cell] {
        self.screen.grid().row(row).map(Row::cells).unwrap_or_default()
    }

    /// Returns whether the next character goes to the next row first.
    pub(super) fn is_wrap_pending(&self) -> bool {
        self.screen.cursor().is_wrap_pending()
    }

    /// Returns whether nothing has begun that the parser must see the end of.
    pub(super) fn is_ground(&self) -> bool {
        self.is_ground
    }

    /// Returns whether a character that is written now appears as it is, and nothing but itself.
    pub(super) fn prints_plainly(&self) -> bool {
        self.is_ground && self.screen.prints_ascii() && !self.screen.modes.inserts
    }

    /// Returns whether a line feed in the last row moves all rows up.
    pub(super) fn scrolls_whole(&self) -> bool {
        self.screen.scrolls_whole()
    }

    /// Returns in how many cells a character was written so far; a wide one counts twice.
    #[must_use]
    pub fn cells_written(&self) -> u64 {
        self.screen.cells_written
    }

    /// Returns how the next character will look.
    #[must_use]
    pub fn style(&self) -> Style {
        self.screen.cursor().style
    }

    /// Returns what the host wants keys, mouse and pasted text to send.
    #[must_use]
    pub fn input_modes(&self) -> InputModes {
        self.screen.modes.input
    }

    /// Lets the host read the screen by checksums (DECRQCRA), which it may not from the start.
    pub fn report_checksums(&mut self, is_on: bool) {
        self.screen.reports_checksums = is_on;
    }

    /// Returns the title, without control characters and at most 256 characters long.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.screen.title
    }

    /// Returns how often the bell was rung.
    #[must_use]
    pub fn bells(&self) -> u64 {
        self.screen.bells
    }

    /// Returns the replies that wait to be sent to the host.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.screen.output()
    }

    /// Says that `count` bytes of [`Terminal::output`] were sent.
    pub fn sent(&mut self, count: usize) {
        self.screen.sent(count);
    }

    /// Takes one run of text, one control, or the beginning of something for the parser.
    fn ground(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> usize {
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
            Some(&ESC) => self.escape(bytes, cx),
            Some(0x80..) => self.utf8(bytes, cx),
            Some(&control) => {
                cx.meter.work(Work::TerminalByte, 1);
                control_character(&mut self.screen, control, cx);
                1
            }
        }
    }

    /// Carries out a control sequence that is whole, or gives to the parser what is anything else.
    fn escape(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> usize {
        let mut parameters = Parameters::NONE;
        let Some(sequence) = Sequence::read(bytes, &mut parameters) else {
            return self.parse(bytes, cx);
        };
        cx.meter.work(Work::TerminalByte, sequence.bytes);
        let mut dispatch = Dispatch { screen: &mut self.screen, cx, byte: 0, is_ground: true };
        let intermediates = sequence.private.as_slice();
        dispatch.sequence(&parameters, intermediates, false, char::from(sequence.last));
        sequence.bytes
    }

    /// Prints a run of UTF-8, or gives to the parser what is malformed or not yet whole.
    fn utf8(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> usize {
        let mut rest = bytes;
        while let Some((character, later)) = decode(rest) {
            cx.meter.work(Work::TerminalByte, rest.len() - later.len());
            self.screen.print(character, cx.meter);
            rest = later;
        }
        if rest.len() < bytes.len() { bytes.len() - rest.len() } else { self.parse(bytes, cx) }
    }

    /// Gives bytes to the parser until it is at ground; returns how many it took.
    fn parse(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> usize {
        let mut dispatch = Dispatch { screen: &mut self.screen, cx, byte: 0, is_ground: false };
        let mut taken = 0;
        for byte in bytes {
            taken += 1;
            dispatch.byte = *byte;
            dispatch.cx.meter.work(Work::TerminalByte, 1);
            self.parser.advance(&mut dispatch, &[*byte]);
            if dispatch.is_ground {
                break;
            }
        }
        self.is_ground = dispatch.is_ground;
        taken
    }
}

impl fmt::Debug for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is_ground, screen) = (&self.is_ground, &self.screen);
        let mut fields = f.debug_struct("Terminal");
        fields.field("is_ground", is_ground).field("screen", screen).finish_non_exhaustive()
    }
}

/// Splits off the character of more than one byte at the front, if it is whole and well formed
/// (RFC 3629 §4).
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
    // Surrogates and what is above U+10FFFF are no characters.
    char::from_u32(code).filter(|_| code >= least).map(|character| (character, rest))
}

/// Returns how many bytes at the front are printable ASCII.
fn printable_run(bytes: &[u8]) -> usize {
    // Sixteen at a time without a branch among them, which the compiler makes one comparison of.
    let is_printable = |byte: &u8| byte.wrapping_sub(b' ') < DEL - b' ';
    let (blocks, _) = bytes.as_chunks::<16>();
    let whole = blocks.iter().take_while(|block| {
        block.iter().fold(true, |are_printable, byte| are_printable & is_printable(byte))
    });
    let start = whole.count() * 16;
    let rest = bytes.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|byte| is_printable(byte)).count()
}

fn control_character(screen: &mut Screen, control: u8, cx: &mut Cx<'_>) {
    match control {
        BEL => screen.bells += 1,
        0x08 => screen.left(1),
        b'\t' => screen.tab(1),
        b'\n' | 0x0b | 0x0c => screen.line_feed(cx.meter),
        b'\r' => screen.set_column(0),
        0x0e => screen.shift(1),
        0x0f => screen.shift(0),
        0x00..0x20 | DEL => {}
        // C1 in 8 bits is no UTF-8, and as characters they are not to be trusted.
        0x20.. => cx.meter.count(Counter::TerminalSequencesUnknown),
    }
}

/// Carries out what the parser finds.
struct Dispatch<'a, 'b> {
    screen: &'a mut Screen,
    cx: &'a mut Cx<'b>,
    /// The byte that the parser was given.
    byte: u8,
    /// The parser is at ground after this byte.
    is_ground: bool,
}

impl Perform for Dispatch<'_, '_> {
    fn print(&mut self, character: char) {
        self.is_ground = self.byte < UTF8_LEAD && self.byte != ESC;
        if character != char::from(DEL) {
            self.screen.print(character, self.cx.meter);
        }
    }

    fn execute(&mut self, control: u8) {
        self.is_ground |= matches!(control, CAN | SUB);
        control_character(self.screen, control, self.cx);
    }

    fn hook(&mut self, _: &Params, _: &[u8], _: bool, _: char) {
        self.unknown();
    }

    fn unhook(&mut self) {
        self.is_ground = self.byte == ST;
    }

    fn osc_dispatch(&mut self, parameters: &[&[u8]], is_ended_by_bell: bool) {
        self.is_ground = is_ended_by_bell;
        match parameters {
            [b"0" | b"2", title @ ..] => self.set_title(title),
            [b"1", ..] => {}
            _ => self.unknown(),
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], is_cut: bool, last: u8) {
        self.is_ground = true;
        let screen = &mut *self.screen;
        match (intermediates, last) {
            _ if is_cut => self.unknown(),
            ([], b'7') => screen.save_cursor(),
            ([], b'8') => screen.restore_cursor(),
            ([], b'D') => screen.index(self.cx.meter),
            ([], b'E') => {
                screen.set_column(0);
                screen.index(self.cx.meter);
            }
            ([], b'H') => screen.set_tab(true),
            ([], b'M') => screen.reverse_index(),
            ([], b'Z') => self.identify(),
            ([], b'c') => screen.reset(),
            ([], b'=' | b'>') => screen.modes.input.has_application_keypad = last == b'=',
            // The end of a string.
            ([], b'\\') => {}
            ([b'#'], b'8') => screen.align(),
            ([], b'N' | b'O') => screen.shift_once(if last == b'N' { 2 } else { 3 }),
            ([], b'n' | b'o') => screen.shift(if last == b'n' { 2 } else { 3 }),
            ([set @ b'('..=b'+'], b'0' | b'A' | b'B') => {
                screen.designate(
                    usize::from(set - b'('),
                    match last {
                        b'0' => Charset::Graphics,
                        b'A' => Charset::British,
                        _ => Charset::Ascii,
                    },
                );
            }
            _ => self.unknown(),
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], is_cut: bool, last: char) {
        self.is_ground = true;
        self.sequence(&Parameters::of(params), intermediates, is_cut, last);
    }
}

impl Dispatch<'_, '_> {
    /// Carries out a control sequence.
    fn sequence(
        &mut self,
        parameters: &Parameters,
        intermediates: &[u8],
        is_cut: bool,
        last: char,
    ) {
        let is_known = !is_cut
            && match (intermediates, last) {
                ([], 'm') => {
                    let unknown = sgr::apply(self.screen.style_mut(), parameters);
                    self.cx.meter.add(Counter::TerminalSequencesUnknown, unknown);
                    true
                }
                ([], _) => {
                    self.motion(parameters, last)
                        || self.edit(parameters, last)
                        || self.control(parameters, last)
                }
                ([b'?'], 'h' | 'l') => return self.private_modes(parameters, last == 'h'),
                ([b'?'], 'J' | 'K') => self.edit(parameters, last),
                ([b'?'], 'n') if parameters.get(0) == 6 => self.report_cursor("?"),
                ([b'>'], 'c') if parameters.get(0) == 0 => {
                    self.screen.reply(b"\x1b[>0;0;0c", self.cx.meter);
                    true
                }
                ([b'!'], 'p') => {
                    self.screen.reset_modes();
                    true
                }
                ([b' '], 'q') => self.set_cursor_shape(parameters.get(0)),
                ([b'$'], 'p') => self.screen.report_mode(false, parameters.get(0), self.cx.meter),
                ([b'?', b'$'], 'p') => {
                    self.screen.report_mode(true, parameters.get(0), self.cx.meter)
                }
                ([b'*'], 'y') => self.screen.report_checksum(parameters, self.cx.meter),
                _ => false,
            };
        if !is_known {
            self.unknown();
        }
    }

    fn unknown(&mut self) {
        self.cx.meter.count(Counter::TerminalSequencesUnknown);
    }

    /// Carries out what only moves the cursor; returns whether `last` is that.
    fn motion(&mut self, parameters: &Parameters, last: char) -> bool {
        let (screen, count) = (&mut *self.screen, parameters.count(0));
        match last {
            'A' | 'k' => screen.up(count),
            'B' | 'e' => screen.down(count),
            'C' | 'a' => screen.right(count),
            'D' | 'j' => screen.left(count),
            'E' => {
                screen.down(count);
                screen.set_column(0);
            }
            'F' => {
                screen.up(count);
                screen.set_column(0);
            }
            'G' | '`' => screen.set_column(count - 1),
            'H' | 'f' => {
                screen.set_row(count - 1);
                screen.set_column(parameters.count(1) - 1);
            }
            'I' => screen.tab(count),
            'Z' => screen.tab_back(count),
            'd' => screen.set_row(count - 1),
            's' if parameters.get(0) == 0 => screen.save_cursor(),
            'u' if parameters.get(0) == 0 => screen.restore_cursor(),
            _ => return false,
        }
        true
    }

    /// Carries out what changes cells; returns whether `last` is that.
    fn edit(&mut self, parameters: &Parameters, last: char) -> bool {
        let (screen, count) = (&mut *self.screen, parameters.count(0));
        match (last, parameters.get(0)) {
            ('J', 0) => screen.erase_display(Erase::ToEnd),
            ('J', 1) => screen.erase_display(Erase::FromStart),
            ('J', 2) => screen.erase_display(Erase::All),
            // The lines that have left the screen, of which none are kept.
            ('J', 3) => {}
            ('K', 0) => screen.erase_line(Erase::ToEnd),
            ('K', 1) => screen.erase_line(Erase::FromStart),
            ('K', 2) => screen.erase_line(Erase::All),
            ('L', _) => screen.insert_lines(count),
            ('M', _) => screen.delete_lines(count),
            ('@', _) => screen.insert_cells(count),
            ('P', _) => screen.delete_cells(count),
            ('X', _) => screen.erase_cells(count),
            ('S', _) => screen.scroll_up(count),
            // With five parameters it is about the mouse.
            ('T', _) if parameters.len() == 1 => screen.scroll_down(count),
            ('b', _) => screen.repeat(count, self.cx.meter),
            _ => return false,
        }
        true
    }

    /// Carries out modes, margins, tab stops and reports; returns whether `last` is that.
    fn control(&mut self, parameters: &Parameters, last: char) -> bool {
        let (screen, meter) = (&mut *self.screen, &mut *self.cx.meter);
        match (last, parameters.get(0)) {
            ('c', 0) => self.identify(),
            ('g', 0) => screen.set_tab(false),
            ('g', 3) => screen.clear_tabs(),
            ('h' | 'l', _) => {
                for mode in parameters.all() {
                    match mode {
                        4 => screen.modes.inserts = last == 'h',
                        20 => screen.modes.feeds_and_returns = last == 'h',
                        _ => meter.count(Counter::TerminalSequencesUnknown),
                    }
                }
            }
            ('n', 5) => screen.reply(b"\x1b[0n", meter),
            ('n', 6) => return self.report_cursor(""),
            ('r', _) => {
                let end = match parameters.get(1) {
                    0 => usize::MAX,
                    end => end,
                };
                screen.set_margins(parameters.count(0) - 1..end);
            }
            _ => return false,
        }
        true
    }

    fn private_modes(&mut self, parameters: &Parameters, is_on: bool) {
        for mode in parameters.all() {
            let screen = &mut *self.screen;
            match mode {
                6 => screen.set_origin(is_on),
                7 => screen.modes.wraps = is_on,
                25 => screen.modes.shows_cursor = is_on,
                47 => screen.show_alternate(is_on),
                1047 if is_on => screen.show_alternate(true),
                1047 => self.leave_alternate_blank(),
                1048 if is_on => screen.save_cursor(),
                1048 => screen.restore_cursor(),
                1049 if is_on => {
                    screen.save_cursor();
                    screen.show_alternate(true);
                    screen.erase_display(Erase::All);
                }
                1049 => {
                    screen.show_alternate(false);
                    screen.restore_cursor();
                }
                // Width, colours, repetition, blinking and synchronized painting: not of the grid.
                3..=5 | 8 | 12 | 1001 | 1016 | 2026 => {}
                _ if screen.modes.input.set(mode, is_on) => {}
                _ => self.unknown(),
            }
        }
    }

    /// DECSCUSR; whether the cursor blinks is not kept.
    fn set_cursor_shape(&mut self, shape: usize) -> bool {
        self.screen.modes.cursor_shape = match shape {
            0 => CursorShape::Own,
            1 | 2 => CursorShape::Block,
            3 | 4 => CursorShape::Underscore,
            5 | 6 => CursorShape::Bar,
            _ => return false,
        };
        true
    }

    fn leave_alternate_blank(&mut self) {
        if self.screen.modes.is_alternate {
            self.screen.erase_display(Erase::All);
            self.screen.show_alternate(false);
        }
    }

    /// DA: a VT100 with the advanced video option.
    fn identify(&mut self) {
        self.screen.reply(b"\x1b[?1;2c", self.cx.meter);
    }

    fn report_cursor(&mut self, mark: &str) -> bool {
        let (row, column) = (self.screen.reported_row() + 1, self.screen.cursor().column + 1);
        self.screen.reply(format!("\x1b[{mark}{row};{column}R").as_bytes(), self.cx.meter);
        true
    }

    fn set_title(&mut self, parts: &[&[u8]]) {
        let title = parts.join(&b';');
        let title = String::from_utf8_lossy(&title);
        let printable = title.chars().filter(|character| !character.is_control());
        self.screen.title = printable.take(TITLE_CHARS_MAX).collect();
    }
}

pub(super) fn narrow(side: usize) -> u16 {
    u16::try_from(side).unwrap_or(u16::MAX)
}
