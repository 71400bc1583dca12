//! Emulated terminal between the remote host and the local terminal. The output of the remote host
//! goes to the emulated terminal, whose screen is drawn on the local terminal as the difference
//! from the previous drawing.
//!
//! A Heath-19 can therefore be displayed on any modern terminal, and a row below the screen can be
//! reserved for plumb itself, independent of the output of the remote host. A window smaller than
//! the emulated terminal displays the part around the cursor. There is no scrollback.

mod keys;
mod status_line;

pub(super) use keys::{KeyPress, KeyReader};
pub(super) use status_line::StatusLine;

use net::Cx;
use protocols::terminal::heath19::{Event, Heath19, Key, Modifiers, Switches};
use protocols::terminal::{
    Attributes, InputModes, MouseEncoding, MouseReports, Picture, PictureCursor, Style, Terminal,
    draw,
};

/// Columns and rows of a Heath-19, without its 25th line.
pub(super) const HEATH19_SIZE: (u16, u16) = (80, 24);

/// Rows of a Heath-19's picture, which always includes the 25th line.
const HEATH19_ROWS: u16 = 25;

/// Saves the window title on the terminal's title stack (xterm, XTWINOPS); [`POP_TITLE`] restores
/// it.
const PUSH_TITLE: &[u8] = b"\x1b[22;2t";
const POP_TITLE: &[u8] = b"\x1b[23;2t";

/// Emulated terminal between the remote host and the local terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Emulation {
    /// None: the output of the remote host goes to your terminal.
    #[default]
    None,
    /// A Heath-19 that ignores the private sequences (`ESC [ ?`) of modern programs.
    Heath19,
    /// A Heath-19 that handles these sequences like its ROM: they hold the screen, and the
    /// remaining characters of each sequence are displayed.
    Heath19Strict,
}

impl Emulation {
    /// Returns whether this is a Heath-19.
    pub(super) fn is_heath19(self) -> bool {
        matches!(self, Self::Heath19 | Self::Heath19Strict)
    }
}

/// Message for the user about a held screen, in a wide and in a narrow window.
const HELD_MESSAGE: &str = " held: F10 releases a line, F11 a screen ";
const HELD_MESSAGE_SHORT: &str = " held: F10, F11 ";
/// Minimum window width in columns at which [`HELD_MESSAGE`] is displayed instead of the narrow
/// message.
const HELD_MESSAGE_MIN_COLUMNS: u16 = 64;

/// Emulated terminal between the remote host and the local terminal.
pub(super) struct EmulatedTerminal {
    model: Model,
    /// Picture on the local terminal; `None` if other output may have overwritten it.
    displayed_picture: Option<Picture>,
    modes: InputModes,
    /// Window title, once a program has set one.
    title: Option<String>,
    bells: u64,
    /// Whether the alternate screen is active.
    is_active: bool,
}

enum Model {
    Ansi(Box<Terminal>),
    Heath19(Box<Heath19>),
}

impl EmulatedTerminal {
    /// Creates an ANSI terminal with this number of columns and rows.
    pub(super) fn ansi((columns, rows): (u16, u16)) -> Self {
        Self::new(Model::Ansi(Box::new(Terminal::new(columns, rows))))
    }

    /// Creates a Heath-19 as described by the terminfo entry `h19`. If `is_strict`, private
    /// sequences are handled as by the ROM.
    pub(super) fn heath19(is_strict: bool) -> Self {
        let mut terminal = Heath19::new(Switches::default());
        terminal.ignore_private_sequences(!is_strict);
        Self::new(Model::Heath19(Box::new(terminal)))
    }

    /// Returns whether the screen is held until a key releases it.
    pub(super) fn is_held(&self) -> bool {
        matches!(&self.model, Model::Heath19(terminal) if terminal.is_held())
    }

    fn new(model: Model) -> Self {
        let modes = InputModes::default();
        let bells = 0;
        let is_active = false;
        Self { model, displayed_picture: None, modes, title: None, bells, is_active }
    }

    /// Returns whether the emulated terminal is a Heath-19.
    pub(super) fn is_heath19(&self) -> bool {
        matches!(self.model, Model::Heath19(_))
    }

    /// Resizes the terminal to these columns and rows; a Heath-19 has a fixed size.
    pub(super) fn resize(&mut self, (columns, rows): (u16, u16)) {
        if let Model::Ansi(terminal) = &mut self.model {
            terminal.resize(columns, rows);
        }
        self.displayed_picture = None;
    }

    /// Processes output of the remote host.
    pub(super) fn receive(&mut self, text: &[u8], cx: &mut Cx<'_>) {
        _ = match &mut self.model {
            Model::Ansi(terminal) => terminal.receive(text, cx),
            Model::Heath19(terminal) => terminal.receive(text, cx),
        };
    }

    /// Displays a message of plumb on separate lines.
    pub(super) fn show_notice(&mut self, sentence: &str, cx: &mut Cx<'_>) {
        let (column, before, behind) = match &self.model {
            Model::Ansi(terminal) => (terminal.cursor().1, "\x1b[2m", "\x1b[22m"),
            // A Heath-19 has no dim attribute.
            Model::Heath19(terminal) => (terminal.cursor().1, "", ""),
        };
        let start = if column > 0 { "\r\n" } else { "" };
        self.receive(format!("{start}{before}{sentence}{behind}\r\n").as_bytes(), cx);
    }

    /// Processes a key of a Heath-19; ignored by an ANSI terminal.
    pub(super) fn key(&mut self, key_press: KeyPress, cx: &mut Cx<'_>) {
        let Model::Heath19(terminal) = &mut self.model else { return };
        let (key, modifiers) = match key_press {
            KeyPress::Key(key, modifiers) => (key, modifiers),
            // In keypad-shifted mode the two functions of each keypad key are exchanged.
            KeyPress::Editing(digit) => {
                let shift = !terminal.key_modes().is_keypad_shifted;
                (Key::Pad(digit), Modifiers { shift, control: false })
            }
        };
        terminal.key(key, modifiers, cx);
    }

    /// Returns and removes the terminal's output for the remote host.
    pub(super) fn take_output(&mut self) -> Vec<u8> {
        match &mut self.model {
            Model::Ansi(terminal) => {
                let output = terminal.output().to_vec();
                terminal.sent(output.len());
                output
            }
            Model::Heath19(terminal) => {
                let output = terminal.output().to_vec();
                terminal.sent(output.len());
                output
            }
        }
    }

    /// Invalidates the known content of the local terminal after other output.
    pub(super) fn invalidate_shown(&mut self) {
        self.displayed_picture = None;
    }

    /// Returns the bytes that draw the current screen in a `window` of this number of columns and
    /// rows, with the status line `status` below the screen.
    pub(super) fn render(&mut self, window: (u16, u16), status: Option<&str>) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !std::mem::replace(&mut self.is_active, true) {
            bytes.extend_from_slice(b"\x1b[?1049h");
            if self.is_heath19() {
                // Application keypad mode distinguishes the keypad from the digit keys.
                bytes.extend_from_slice(b"\x1b=");
            }
        }
        let columns = window.0.max(1);
        let rows = window.1.max(1);
        let screen_rows = rows - u16::from(status.is_some() && rows > 1);
        let mut picture = self.view((columns, screen_rows));
        if let Some(status) = status.filter(|_| screen_rows < rows) {
            picture.set_rows(rows);
            put_status(&mut picture, screen_rows, columns, status);
        }
        if self.is_held() {
            put_held(&mut picture, columns, rows);
        }
        match &self.displayed_picture {
            Some(displayed_picture) if displayed_picture.size() == picture.size() => {
                bytes.extend_from_slice(&draw(displayed_picture, &picture));
            }
            // The size has changed, so everything is drawn.
            _ => bytes.extend_from_slice(&draw(&Picture::new(0, 0), &picture)),
        }
        self.displayed_picture = Some(picture);
        self.put_modes(&mut bytes);
        self.put_title(&mut bytes);
        self.put_bell(&mut bytes);
        bytes
    }

    /// Leaves the alternate screen; returns the bytes that restore the local terminal.
    pub(super) fn leave(&mut self) -> Vec<u8> {
        if !std::mem::replace(&mut self.is_active, false) {
            return Vec::new();
        }
        let reset = self.reset();
        self.title = None;
        self.displayed_picture = None;
        self.modes = InputModes::default();
        reset
    }

    /// Returns the bytes that restore the local terminal; `self` is unchanged.
    pub(super) fn reset(&self) -> Vec<u8> {
        let title = self.title.as_ref().map_or(&b""[..], |_| POP_TITLE);
        let modes =
            b"\x1b[0m\x1b[r\x1b[0 q\x1b[?25h\x1b>\x1b[?1l\x1b[?2004l\x1b[?1004l\x1b[?9l\x1b[?1000l\
          \x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1049l";
        [modes, title].concat()
    }

    /// Returns the part of the screen that fits into the window and contains the cursor.
    fn view(&self, (columns, rows): (u16, u16)) -> Picture {
        let picture = match &self.model {
            Model::Ansi(terminal) => terminal.picture(),
            Model::Heath19(terminal) => {
                let mut picture = terminal.picture();
                // If the window has fewer than 25 rows, a disabled 25th line is omitted.
                if !terminal.has_line_25() && rows < HEATH19_ROWS {
                    picture.set_rows(HEATH19_SIZE.1);
                }
                picture
            }
        };
        let (all_columns, all_rows) = picture.size();
        if (all_columns, all_rows) == (columns, rows) {
            return picture;
        }
        let cursor = picture.cursor();
        let cursor_position = cursor.map_or((0, 0), |cursor| (cursor.row, cursor.column));
        let first_visible = |at: u16, all: u16, room: u16| {
            (at + 1).saturating_sub(room).min(all.saturating_sub(room))
        };
        let first_column = first_visible(cursor_position.1, all_columns, columns);
        // The last rows are the relevant ones, unless the cursor is above them.
        let first_row = all_rows.saturating_sub(rows).min(cursor_position.0);
        let mut view = Picture::new(columns, rows);
        for (row, from_row) in (0..rows).zip(first_row..all_rows) {
            for (column, from_column) in (0..columns).zip(first_column..all_columns) {
                if let Some(cell) = picture.cell(from_row, from_column)
                    && !cell.is_tail()
                {
                    view.set_cell(row, column, cell.character(), cell.style());
                }
            }
        }
        view.set_cursor(cursor.map(|cursor| PictureCursor {
            row: cursor.row - first_row,
            column: cursor.column - first_column,
            shape: cursor.shape,
        }));
        view
    }

    /// Sets the key and mouse modes that the remote host requests.
    fn put_modes(&mut self, bytes: &mut Vec<u8>) {
        let Model::Ansi(terminal) = &self.model else { return };
        let old = self.modes;
        let new = terminal.input_modes();
        self.modes = new;
        let mut set = |mode: u16, was: bool, is: bool| {
            if was != is {
                let end = if is { 'h' } else { 'l' };
                bytes.extend_from_slice(format!("\x1b[?{mode}{end}").as_bytes());
            }
        };
        set(1, old.has_application_cursor, new.has_application_cursor);
        set(66, old.has_application_keypad, new.has_application_keypad);
        set(2004, old.brackets_paste, new.brackets_paste);
        set(1004, old.reports_focus, new.reports_focus);
        let reports = [
            (9, MouseReports::Presses),
            (1000, MouseReports::Buttons),
            (1002, MouseReports::Drags),
            (1003, MouseReports::Motions),
        ];
        reports.iter().for_each(|(mode, kind)| set(*mode, old.mouse == *kind, new.mouse == *kind));
        let encodings =
            [(1005, MouseEncoding::Utf8), (1006, MouseEncoding::Sgr), (1015, MouseEncoding::Urxvt)];
        for (mode, kind) in encodings {
            set(mode, old.mouse_encoding == kind, new.mouse_encoding == kind);
        }
    }

    /// Passes the window title on. The original title is saved before the first change.
    fn put_title(&mut self, bytes: &mut Vec<u8>) {
        let Model::Ansi(terminal) = &self.model else { return };
        let title = terminal.title();
        if self.title.as_deref().unwrap_or_default() == title {
            return;
        }
        if self.title.is_none() {
            bytes.extend_from_slice(PUSH_TITLE);
        }
        bytes.extend_from_slice(format!("\x1b]2;{title}\x07").as_bytes());
        self.title = Some(title.to_owned());
    }

    fn put_bell(&mut self, bytes: &mut Vec<u8>) {
        let has_rung = match &mut self.model {
            Model::Ansi(terminal) => {
                std::mem::replace(&mut self.bells, terminal.bells()) < self.bells
            }
            Model::Heath19(terminal) => {
                let mut has_rung = false;
                while let Some(event) = terminal.event() {
                    has_rung |= event == Event::Bell;
                }
                has_rung
            }
        };
        if has_rung {
            bytes.push(0x07);
        }
    }
}

/// Draws the status line in reverse video over the whole row.
fn put_status(picture: &mut Picture, row: u16, columns: u16, status: &str) {
    let style = Style { attributes: Attributes::REVERSE, ..Style::PLAIN };
    let text = status.chars().chain(std::iter::repeat(' '));
    for (column, character) in (0..columns).zip(text) {
        picture.set_cell(row, column, character, style);
    }
}

/// Draws the keys that release a held screen over the end of the last row.
fn put_held(picture: &mut Picture, columns: u16, rows: u16) {
    let text = if columns < HELD_MESSAGE_MIN_COLUMNS { HELD_MESSAGE_SHORT } else { HELD_MESSAGE };
    let style = Style { attributes: Attributes::REVERSE, ..Style::PLAIN };
    let length = u16::try_from(text.len()).unwrap_or(columns);
    let message_columns = columns.saturating_sub(length)..columns;
    for (column, character) in message_columns.zip(text.chars()) {
        picture.set_cell(rows - 1, column, character, style);
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
