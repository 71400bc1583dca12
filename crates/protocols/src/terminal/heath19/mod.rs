//! The Heath-19 front end: a complete emulation of the Heath Company's terminal of 1978.
//!
//! The terminal has two modes. Heath mode (`heath`) is a superset of the VT52, whose sequences
//! consist of ESC and a letter. ANSI mode (`ansi`) is an early implementation of ANSI X3.64. The
//! operations of both modes are in `screen`, the bytes of the keys in `keyboard`, and the
//! transmission of the screen in `transmit`.
//!
//! Bit 7 of received bytes is cleared, NUL is dropped, and all other bytes enter an input FIFO of
//! 128 bytes. The FIFO is processed at once, unless the screen is held: hold screen mode allows a
//! limited number of line feeds on the last row; after that the terminal sends XOFF and waits for
//! the SCROLL key. When 112 or more bytes are queued, each further byte is answered with XOFF; when
//! fewer than 96 are left, XON is sent. When the FIFO is full, one held line feed is executed.
//!
//! Current programs send private sequences of ECMA-48 to every terminal: bash 5.1 begins each
//! prompt with `ESC [ ? 2004 h`. The ROM enters hold screen mode on `ESC [` and displays the
//! following bytes as text. [`Heath19::ignore_private_sequences`] drops `ESC [ ?` up to its final
//! byte instead.
//!
//! Not implemented: the defects of the original that corrupt its own memory (lines inserted on the
//! 25th line, mode 0); in half duplex, the local echo of the terminal's own replies; and properties
//! of the hardware: parity, stop bits, mains frequency.

mod ansi;
mod glyphs;
mod heath;
mod keyboard;
mod parameters;
mod screen;
#[cfg(test)]
mod tests;
mod transmit;

pub use keyboard::{Key, KeyCode, KeyModes, Modifiers};

use super::ansi::ScreenEffect;
use super::cell::Cell;
use super::grid::narrow;
use super::picture::{CursorShape, Picture, PictureCursor};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use net::cx::Cx;
use net::meter::{Account, Counter, Meter, Work};
use parameters::Parameters;
use screen::{ROWS, Screen};

/// Capacity of the input FIFO in bytes.
const INPUT_MAX: usize = 128;
/// Fill level of the input FIFO in bytes at which every further byte is answered with XOFF.
const XOFF_THRESHOLD: usize = 112;
/// Fill level of the input FIFO in bytes below which XON is sent.
const XON_THRESHOLD: usize = 96;
/// Maximum number of queued bytes of replies and keys, in addition to a transmitted page.
const OUTPUT_MAX: usize = 256;
/// Maximum number of bytes of a private sequence that are dropped after `ESC [ ?` (our choice).
/// Further bytes are displayed as text.
const PRIVATE_MAX: u8 = 32;
/// Number of lines by which SCROLL with SHIFT lets a held screen scroll.
const PAGE_LINES: u8 = 24;

const BEL: u8 = 0x07;
const BS: u8 = 0x08;
const CAN: u8 = 0x18;
const ESC: u8 = 0x1b;
const DEL: u8 = 0x7f;
const XON: u8 = 0x11;
const XOFF: u8 = 0x13;

/// Serial rates in bit/s for the baud codes 1 to 13 of the switch bank; code 0 means code 1.
const BAUD_RATES: [u32; 13] =
    [110, 150, 300, 600, 1200, 1800, 2000, 2400, 3600, 4800, 7200, 9600, 19_200];

/// Settings of the switches inside the terminal, which determine its initial state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// Rate of the serial line in bit/s.
    pub baud_rate: u32,
    /// Whether typed keys are only sent to the serial line; in half duplex they are also displayed.
    pub is_full_duplex: bool,
    /// Whether the cursor is a block instead of an underline.
    pub has_block_cursor: bool,
    /// Whether key clicks are off.
    pub is_silent: bool,
    /// Whether text wraps to the next row at the end of a row.
    pub wraps: bool,
    /// Whether a received CR also causes a line feed.
    pub feeds_on_return: bool,
    /// Whether a received LF also causes a carriage return.
    pub returns_on_feed: bool,
    /// Whether the terminal starts in ANSI mode; otherwise it starts in Heath mode.
    pub is_ansi: bool,
    /// Whether the terminal starts in keypad-shifted mode.
    pub is_keypad_shifted: bool,
}

impl Default for Switches {
    /// Returns the settings that terminfo's `h19` expects: 9600 bit/s, full duplex, and wrapping.
    fn default() -> Self {
        Self { baud_rate: 9600, wraps: true, ..Self::from_settings(0x80, 0) }
    }
}

impl Switches {
    /// Decodes the switch banks S401 and S402.
    #[must_use]
    pub fn from_settings(s401: u8, s402: u8) -> Self {
        Self {
            baud_rate: baud_rate(s401 & 0x0f).unwrap_or(19_200),
            is_full_duplex: s401 & 0x80 != 0,
            has_block_cursor: s402 & 0x01 != 0,
            is_silent: s402 & 0x02 != 0,
            wraps: s402 & 0x04 != 0,
            feeds_on_return: s402 & 0x08 != 0,
            returns_on_feed: s402 & 0x10 != 0,
            is_ansi: s402 & 0x20 != 0,
            is_keypad_shifted: s402 & 0x40 != 0,
        }
    }
}

/// The modes that are not part of [`Screen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Modes {
    keys: KeyModes,
    holds: bool,
    has_block_cursor: bool,
    hides_cursor: bool,
    is_silent: bool,
    feeds_on_return: bool,
    returns_on_feed: bool,
    is_keyboard_off: bool,
}

impl Modes {
    fn new(switches: &Switches) -> Self {
        Self {
            keys: KeyModes {
                is_ansi: switches.is_ansi,
                is_keypad_shifted: switches.is_keypad_shifted,
                ..KeyModes::default()
            },
            holds: false,
            has_block_cursor: switches.has_block_cursor,
            hides_cursor: false,
            is_silent: switches.is_silent,
            feeds_on_return: switches.feeds_on_return,
            returns_on_feed: switches.returns_on_feed,
            is_keyboard_off: false,
        }
    }
}

/// State of the parser before the next byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    /// After ESC Y: the row is expected.
    CursorRow,
    /// After the row of ESC Y: the column is expected.
    CursorColumn,
    /// After ESC x or ESC y: the mode number is expected.
    Mode {
        is_set: bool,
    },
    /// After ESC r: the letter of the baud rate is expected.
    BaudRate,
    /// After ESC [ in ANSI mode, with the parameters received so far.
    Parameters(Parameters),
    /// `ESC [` was received in Heath mode, and hold screen mode was entered. A following `?`
    /// restores the previous mode.
    Hold {
        was_holding: bool,
        budget: u8,
    },
    /// Inside a private ECMA-48 sequence, with the number of bytes received after its `?`.
    Private {
        count: u8,
    },
}

/// An event for the caller. Events of the same kind that the caller has not read yet are merged
/// into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The bell rang.
    Bell,
    /// The host has selected another rate for the serial line, in bit/s.
    BaudRate(u32),
}

/// A Heath-19 terminal.
#[derive(Debug)]
pub struct Heath19 {
    switches: Switches,
    screen: Screen,
    modes: Modes,
    state: State,
    /// Number of line feeds on the last row until the screen is held, including the line feed that
    /// is then held.
    hold_budget: u8,
    is_held: bool,
    is_off_line: bool,
    ignores_private: bool,
    input: VecDeque<u8>,
    is_xoff_sent: bool,
    output: Vec<u8>,
    /// Whether the terminal transmits its screen when the host requests it.
    transmits: bool,
    /// The latest XOFF or XON, if the output queue had no space for it.
    pending_flow_control: Option<u8>,
    is_bell_pending: bool,
    baud_rate: Option<u32>,
}

impl Heath19 {
    /// Creates a terminal in its initial state.
    #[must_use]
    pub fn new(switches: Switches) -> Self {
        Self {
            switches,
            screen: Screen::new(switches.wraps),
            modes: Modes::new(&switches),
            state: State::Ground,
            hold_budget: 1,
            is_held: false,
            is_off_line: false,
            ignores_private: false,
            input: VecDeque::new(),
            is_xoff_sent: false,
            output: Vec::new(),
            transmits: false,
            pending_flow_control: None,
            is_bell_pending: false,
            baud_rate: None,
        }
    }

    /// Processes bytes from the host.
    pub fn receive(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> ScreenEffect {
        if self.is_off_line {
            return ScreenEffect::default();
        }
        self.measured(cx, |terminal, cx| {
            let mut rest = bytes;
            while let Some((first, others)) = rest.split_first() {
                let run = if terminal.is_idle() { printable_run(rest) } else { 0 };
                if let Some((text, later)) = rest.split_at_checked(run).filter(|_| run > 0) {
                    cx.meter.work(Work::TerminalByte, run);
                    terminal.screen.print(text, cx.meter);
                    rest = later;
                } else {
                    cx.meter.work(Work::TerminalByte, 1);
                    terminal.receive_byte(first & 0x7f, cx);
                    rest = others;
                }
            }
        })
    }

    /// Processes a key press. Returns the effect on the screen, which is empty if the key is only
    /// sent to the host.
    pub fn key(&mut self, key: Key, modifiers: Modifiers, cx: &mut Cx<'_>) -> ScreenEffect {
        if self.modes.is_keyboard_off {
            return ScreenEffect::default();
        }
        let code = key.code(modifiers, self.key_modes());
        self.measured(cx, |terminal, cx| {
            if key == Key::Scroll {
                return terminal.scroll(modifiers.shift, cx);
            }
            let is_for_line = !code.is_local() && !terminal.is_off_line;
            if is_for_line {
                terminal.send_key(code.bytes(), cx.meter);
            }
            if !is_for_line || !terminal.switches.is_full_duplex {
                code.bytes().iter().for_each(|byte| terminal.enqueue(*byte, cx.meter));
                terminal.process_input(cx);
            }
        })
    }

    /// Switches between on-line and off-line: off-line the terminal receives nothing, and keys go
    /// to the screen.
    pub fn set_off_line(&mut self, is_off_line: bool) {
        self.is_off_line = is_off_line;
    }

    /// Sets whether Heath mode drops private sequences of ECMA-48 (`ESC [ ?` up to the final byte).
    /// By default they have the same effect as with the original ROM: `ESC [` enters hold screen
    /// mode, and the following bytes are displayed.
    pub fn ignore_private_sequences(&mut self, is_on: bool) {
        self.ignores_private = is_on;
    }

    /// Sets whether the host may request the transmission of the page and the 25th line. The
    /// default is off, because a transmission returns text written by the host, with a CR at the
    /// end, as if the user had typed it.
    pub fn transmit_on_request(&mut self, is_on: bool) {
        self.transmits = is_on;
    }

    /// Resets the terminal to its initial state. The queued output and the settings of
    /// [`Self::ignore_private_sequences`] and [`Self::transmit_on_request`] are preserved.
    pub fn reset(&mut self) {
        let counts = (self.screen.cells_written, self.screen.new_lines);
        self.screen = Screen::new(self.switches.wraps);
        (self.screen.cells_written, self.screen.new_lines) = counts;
        self.modes = Modes::new(&self.switches);
        self.state = State::Ground;
        self.hold_budget = 1;
        self.is_held = false;
        self.baud_rate = Some(self.switches.baud_rate);
    }

    /// Returns the next event, or `None`.
    pub fn event(&mut self) -> Option<Event> {
        if core::mem::take(&mut self.is_bell_pending) {
            return Some(Event::Bell);
        }
        self.baud_rate.take().map(Event::BaudRate)
    }

    /// Returns the replies, keys, XOFF and XON that are queued for the host.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Removes the first `count` bytes of [`Heath19::output`], after they were sent to the host.
    pub fn sent(&mut self, count: usize) {
        self.output.drain(..count.min(self.output.len()));
        if self.output.len() < OUTPUT_MAX {
            self.output.extend(self.pending_flow_control.take());
        }
    }

    /// Returns whether the screen is held: input is not processed until SCROLL is pressed.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Returns the number of bytes in the input FIFO.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.input.len()
    }

    /// Returns whether key clicks are on.
    #[must_use]
    pub fn clicks(&self) -> bool {
        !self.modes.is_silent
    }

    /// Returns the modes that determine the bytes of a key.
    #[must_use]
    pub fn key_modes(&self) -> KeyModes {
        KeyModes { inserts: self.screen.inserts, ..self.modes.keys }
    }

    /// Returns the cursor's row, from 0 to 24, and column, from 0 to 79.
    #[must_use]
    pub fn cursor(&self) -> (u16, u16) {
        let cursor = self.screen.cursor();
        (narrow(cursor.row), narrow(cursor.column))
    }

    /// Returns whether the 25th line is displayed.
    #[must_use]
    pub fn has_line_25(&self) -> bool {
        self.screen.has_line_25()
    }

    /// Returns the cell at `row`, from 0 to 24, and `column`, from 0 to 79.
    ///
    /// The cells of the 25th line are returned even while it is not displayed.
    #[must_use]
    pub fn cell(&self, row: u16, column: u16) -> Option<&Cell> {
        self.screen.grid().cell(row.into(), column.into())
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

    /// Returns rows 0 to 23 as lines, without trailing blanks and trailing blank rows.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for row in (0..ROWS).filter_map(|row| self.screen.grid().row(row)) {
            row.text(&mut text);
            text.push('\n');
        }
        text.truncate(text.trim_end_matches('\n').len());
        text
    }

    /// Returns a snapshot of the display: 80 columns, 24 rows, and the 25th line below them.
    #[must_use]
    pub fn picture(&self) -> Picture {
        let has_line = self.has_line_25();
        let mut picture = Picture::from_grid(self.screen.grid(), ROWS + usize::from(has_line));
        picture.set_rows(narrow(ROWS + 1));
        let is_seen = !self.modes.hides_cursor && (has_line || self.screen.cursor().row < ROWS);
        let shape = match self.modes.has_block_cursor {
            true => CursorShape::Block,
            false => CursorShape::Underscore,
        };
        let (row, column) = self.cursor();
        picture.set_cursor(is_seen.then_some(PictureCursor { row, column, shape }));
        picture
    }

    fn measured(
        &mut self,
        cx: &mut Cx<'_>,
        work: impl FnOnce(&mut Self, &mut Cx<'_>),
    ) -> ScreenEffect {
        let account = cx.meter.enter(Account::Terminal);
        let cells = self.screen.cells_written;
        let new_lines = self.screen.new_lines;
        work(self, cx);
        cx.meter.enter(account);
        ScreenEffect {
            cells: self.screen.cells_written - cells,
            new_lines: self.screen.new_lines - new_lines,
        }
    }

    // Input FIFO and hold screen mode.

    /// Returns whether no input is queued or incomplete, so that a received byte would be processed
    /// at once.
    fn is_idle(&self) -> bool {
        self.input.is_empty() && !self.is_held && self.state == State::Ground
    }

    /// Enqueues a received byte, like the receive interrupt handler of the original, and processes
    /// the queue.
    fn receive_byte(&mut self, byte: u8, cx: &mut Cx<'_>) {
        if byte == 0 {
            return;
        }
        if self.input.len() >= XOFF_THRESHOLD {
            self.is_xoff_sent = true;
            self.send_flow_control(XOFF);
        }
        self.enqueue(byte, cx.meter);
        self.process_input(cx);
    }

    fn enqueue(&mut self, byte: u8, meter: &mut Meter) {
        if self.input.len() >= INPUT_MAX {
            meter.count(Counter::TerminalInputOverruns);
            self.is_bell_pending = true;
            return;
        }
        self.input.push_back(byte);
    }

    /// Processes the input FIFO until it is empty or the screen is held.
    fn process_input(&mut self, cx: &mut Cx<'_>) {
        loop {
            if self.is_held {
                if self.input.len() < INPUT_MAX {
                    return;
                }
                self.execute_held_line_feed(1, cx.meter);
            }
            let Some(byte) = self.input.pop_front() else { return };
            if self.is_xoff_sent && self.input.len() < XON_THRESHOLD {
                self.is_xoff_sent = false;
                self.send_flow_control(XON);
            }
            self.process(byte, cx);
        }
    }

    /// Executes the held line feed. Of the following line feeds on the last row, number `budget` is
    /// held again.
    fn execute_held_line_feed(&mut self, budget: u8, meter: &mut Meter) {
        self.is_held = false;
        self.hold_budget = budget;
        self.feed_line(meter);
    }

    fn scroll(&mut self, is_page: bool, cx: &mut Cx<'_>) {
        if self.is_held {
            self.execute_held_line_feed(if is_page { PAGE_LINES } else { 1 }, cx.meter);
            self.send_flow_control(XON);
            self.process_input(cx);
        } else if is_page {
            self.hold_budget = PAGE_LINES;
        } else {
            self.hold_budget = self.hold_budget.wrapping_add(1);
        }
    }

    // Received characters.

    fn process(&mut self, byte: u8, cx: &mut Cx<'_>) {
        match self.state {
            State::Ground => self.character(byte, cx),
            State::Escape => {
                self.state = State::Ground;
                let is_known = match self.modes.keys.is_ansi {
                    false => self.heath_sequence(byte, cx),
                    true => self.ansi_sequence(byte),
                };
                if !is_known {
                    cx.meter.count(Counter::TerminalSequencesUnknown);
                }
            }
            State::CursorRow if byte == CAN => self.state = State::Ground,
            State::CursorRow => {
                self.state = State::CursorColumn;
                self.screen.set_row(byte.checked_sub(b' ').map_or(usize::MAX, usize::from));
            }
            State::CursorColumn => {
                self.state = State::Ground;
                if byte != CAN {
                    let column = byte.checked_sub(b' ').map_or(usize::MAX, usize::from);
                    self.screen.set_column(column);
                }
            }
            State::Mode { is_set } => {
                self.state = State::Ground;
                match byte {
                    CAN => {}
                    b'1'..=b'9' => self.set_mode(byte - b'0', is_set),
                    _ => self.character(byte, cx),
                }
            }
            State::BaudRate => {
                self.state = State::Ground;
                if let b'A'..=b'M' = byte {
                    self.baud_rate = baud_rate(byte & 0x0f);
                }
            }
            State::Parameters(parameters) => self.parameter(parameters, byte, cx),
            State::Hold { was_holding, budget } if byte == b'?' => {
                self.modes.holds = was_holding;
                self.hold_budget = budget;
                self.state = State::Private { count: 0 };
            }
            State::Hold { .. } => {
                self.state = State::Ground;
                self.process(byte, cx);
            }
            State::Private { count } => self.private_sequence(count, byte, cx),
        }
    }

    /// Drops a byte of a private sequence. `count` is the number of bytes dropped so far.
    fn private_sequence(&mut self, count: u8, byte: u8, cx: &mut Cx<'_>) {
        match byte {
            ESC => self.state = State::Escape,
            // In ECMA-48 controls inside a sequence take effect at once.
            ..b' ' if byte != CAN => self.character(byte, cx),
            b' '..=b'?' if count < PRIVATE_MAX => self.state = State::Private { count: count + 1 },
            _ => {
                cx.meter.count(Counter::TerminalSequencesUnknown);
                self.state = State::Ground;
            }
        }
    }

    fn character(&mut self, byte: u8, cx: &mut Cx<'_>) {
        match byte {
            BEL => self.is_bell_pending = true,
            BS => self.screen.left(1),
            b'\t' => self.screen.tab(),
            b'\n' => self.line_feed(cx.meter),
            b'\r' => {
                if self.modes.feeds_on_return {
                    self.screen.line_feed(cx.meter);
                }
                self.screen.carriage_return();
            }
            ESC => self.state = State::Escape,
            ..b' ' | DEL.. => {}
            printable => self.screen.print(&[printable], cx.meter),
        }
    }

    /// Executes an LF from the host, or holds the screen if hold screen mode allows no further line
    /// feed.
    fn line_feed(&mut self, meter: &mut Meter) {
        if self.modes.holds && self.screen.is_on_last_row() {
            self.hold_budget = self.hold_budget.wrapping_sub(1);
            if self.hold_budget == 0 {
                self.is_held = true;
                return self.send_flow_control(XOFF);
            }
        }
        self.feed_line(meter);
    }

    fn feed_line(&mut self, meter: &mut Meter) {
        self.screen.line_feed(meter);
        if self.modes.returns_on_feed {
            self.screen.carriage_return();
        }
    }

    /// Sets or resets a mode by its number, which is the same in Heath and ANSI mode.
    fn set_mode(&mut self, number: u8, is_set: bool) {
        match number {
            1 if is_set => self.screen.show_line_25(),
            1 => self.screen.hide_line_25(),
            2 => self.modes.is_silent = is_set,
            3 => self.set_hold(is_set),
            4 => self.modes.has_block_cursor = is_set,
            5 => self.modes.hides_cursor = is_set,
            6 => self.modes.keys.is_keypad_shifted = is_set,
            7 => self.modes.keys.is_keypad_alternate = is_set,
            8 => self.modes.feeds_on_return = is_set,
            9 => self.modes.returns_on_feed = is_set,
            _ => {}
        }
    }

    fn set_hold(&mut self, holds: bool) {
        self.modes.holds = holds;
        if holds {
            self.hold_budget = 1;
        }
    }

    // Output to the host.

    /// Queues a reply of the terminal.
    fn reply(&mut self, reply: &[u8], meter: &mut Meter) {
        if self.queue(reply, meter) {
            meter.count(Counter::TerminalReports);
        }
    }

    /// Queues the bytes of a key, or sounds the bell if they do not fit.
    fn send_key(&mut self, code: &[u8], meter: &mut Meter) {
        self.is_bell_pending |= !self.queue(code, meter);
    }

    fn queue(&mut self, bytes: &[u8], meter: &mut Meter) -> bool {
        let has_room = self.output.len() + bytes.len() <= OUTPUT_MAX;
        if has_room {
            self.output.extend_from_slice(bytes);
        } else {
            meter.count(Counter::TerminalReportsRefused);
        }
        has_room
    }

    /// Queues XOFF or XON. If the output queue is full, the byte is stored and sent later, so that
    /// the host does not wait for XON indefinitely.
    fn send_flow_control(&mut self, flow: u8) {
        if self.output.len() < OUTPUT_MAX {
            self.output.push(flow);
        } else {
            self.pending_flow_control = Some(flow);
        }
    }
}

fn baud_rate(code: u8) -> Option<u32> {
    BAUD_RATES.get(usize::from(code.saturating_sub(1))).copied()
}

/// Returns the number of printable ASCII bytes at the front of `bytes`.
fn printable_run(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| (b' '..DEL).contains(*byte)).count()
}
