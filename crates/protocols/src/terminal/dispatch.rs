//! Dispatch of control characters and sequences to operations of the screen.

use super::grid::LineSize;
use super::parameters::Parameters;
use super::picture::CursorShape;
use super::screen::{self, Charset, Erase};
use super::sgr;
use alloc::format;
use alloc::string::String;
use core::ops::Range;
use net::cx::Cx;
use net::meter::Counter;
use vte::{Params, Perform};

/// Maximum length of a stored title, in characters.
const TITLE_CHARS_MAX: usize = 256;

const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const ESC: u8 = 0x1b;
const DEL: u8 = 0x7f;
/// The string terminator in its 8-bit form.
const ST: u8 = 0x9c;
/// The smallest byte that can begin a multibyte character of UTF-8.
const UTF8_LEAD: u8 = 0xc0;

pub(super) fn control_character(screen: &mut screen::Screen, control: u8, cx: &mut Cx<'_>) {
    match control {
        BEL => screen.bells += 1,
        0x08 => screen.left(1),
        b'\t' => screen.tab(1),
        b'\n' | 0x0b | 0x0c => screen.line_feed(cx.meter),
        b'\r' => screen.carriage_return(),
        0x0e => screen.shift(1),
        0x0f => screen.shift(0),
        0x00..0x20 | DEL => {}
        // C1 controls are not executed: as single bytes they are invalid UTF-8.
        0x20.. => cx.meter.count(Counter::TerminalSequencesUnknown),
    }
}

/// Receives the callbacks of the parser and executes them on the screen.
pub(super) struct Dispatch<'a, 'b> {
    pub(super) screen: &'a mut screen::Screen,
    pub(super) cx: &'a mut Cx<'b>,
    /// The byte that caused the callback.
    pub(super) byte: u8,
    /// Whether the parser is in ground state after this byte.
    pub(super) is_ground: bool,
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

    fn hook(&mut self, _: &Params, intermediates: &[u8], is_truncated: bool, last: char) {
        match (intermediates, last) {
            ([b'$'], 'q') if !is_truncated => self.screen.status_request.begin(),
            _ => self.unknown(),
        }
    }

    fn put(&mut self, byte: u8) {
        self.screen.status_request.push(byte);
    }

    fn unhook(&mut self) {
        if self.byte == ESC || self.byte == ST {
            self.screen.report_status(self.cx.meter);
        }
        self.screen.status_request.end();
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

    fn esc_dispatch(&mut self, intermediates: &[u8], is_truncated: bool, last: u8) {
        self.is_ground = true;
        let screen = &mut *self.screen;
        match (intermediates, last) {
            _ if is_truncated => self.unknown(),
            ([], b'7') => screen.save_cursor(),
            ([], b'8') => screen.restore_cursor(),
            ([], b'D') => screen.index(self.cx.meter),
            ([], b'E') => {
                screen.index(self.cx.meter);
                screen.carriage_return();
            }
            ([], b'6') => screen.back_index(),
            ([], b'9') => screen.forward_index(),
            ([], b'V' | b'W') => screen.protect(last == b'V', screen::Protection::Iso),
            ([b'#'], b'3') => screen.set_line_size(LineSize::Top),
            ([b'#'], b'4') => screen.set_line_size(LineSize::Bottom),
            ([b'#'], b'5') => screen.set_line_size(LineSize::Single),
            ([b'#'], b'6') => screen.set_line_size(LineSize::Wide),
            ([], b'H') => screen.set_tab(true),
            ([], b'M') => screen.reverse_index(),
            ([], b'Z') => self.identify(),
            ([], b'c') => screen.reset(),
            ([], b'=' | b'>') => screen.modes.input.has_application_keypad = last == b'=',
            // The string terminator has no effect by itself.
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

    fn csi_dispatch(
        &mut self,
        params: &Params,
        intermediates: &[u8],
        is_truncated: bool,
        last: char,
    ) {
        self.is_ground = true;
        self.sequence(&Parameters::from_vte(params), intermediates, is_truncated, last);
    }
}

impl Dispatch<'_, '_> {
    /// Executes a control sequence.
    pub(super) fn sequence(
        &mut self,
        parameters: &Parameters,
        intermediates: &[u8],
        is_truncated: bool,
        last: char,
    ) {
        let is_known = !is_truncated
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
                ([b'?'], 's' | 'r') => {
                    return self.save_or_restore_private_modes(parameters, last == 'r');
                }
                ([b'?'], 'h' | 'l') => return self.private_modes(parameters, last == 'h'),
                ([b'?'], 'J' | 'K') => self.erase(parameters, last, true),
                ([b'?'], 'n') => self.report_device(parameters),
                ([b'>'], 'c') if parameters.get(0) == 0 => {
                    self.screen.reply(b"\x1b[>0;0;0c", self.cx.meter);
                    true
                }
                ([b'!'], 'p') => {
                    self.screen.reset_modes();
                    true
                }
                ([b' '], 'q') => self.set_cursor_shape(parameters.get(0)),
                ([b'"'], 'p') => self.set_conformance_level(parameters),
                ([b'"'], 'q') => self.protect(parameters.get(0)),
                ([b'\''], '}' | '~') => {
                    self.screen.shift_columns(parameters.count(0), last == '}');
                    true
                }
                ([b'$'], 'p') => self.screen.report_mode(false, parameters.get(0), self.cx.meter),
                ([b'?', b'$'], 'p') => {
                    self.screen.report_mode(true, parameters.get(0), self.cx.meter)
                }
                ([b'$'], _) => self.rectangle(parameters, last),
                ([b'*'], 'x') => {
                    self.screen.changes_rectangles = parameters.get(0) == 2;
                    true
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

    /// Executes a cursor motion; returns whether `last` is the final byte of a cursor motion.
    fn motion(&mut self, parameters: &Parameters, last: char) -> bool {
        let screen = &mut *self.screen;
        let count = parameters.count(0);
        match last {
            'A' | 'k' => screen.up(count),
            'B' => screen.down(count),
            'C' => screen.right(count),
            'D' | 'j' => screen.left(count),
            'E' => {
                screen.down(count);
                screen.carriage_return();
            }
            'F' => {
                screen.up(count);
                screen.carriage_return();
            }
            'G' | '`' => screen.set_column(count - 1),
            'H' | 'f' => screen.set_position(count - 1, parameters.count(1) - 1),
            'I' => screen.tab(count),
            'Z' => screen.tab_back(count),
            'a' => screen.advance_by(0, count),
            'd' => screen.set_row(count - 1),
            'e' => screen.advance_by(count, 0),
            's' if screen.modes.has_side_margins => {
                screen.set_side_margins(margins(parameters));
            }
            's' if parameters.get(0) == 0 => screen.save_cursor(),
            'u' if parameters.get(0) == 0 => screen.restore_cursor(),
            _ => return false,
        }
        true
    }

    /// Executes an operation that edits cells; returns whether `last` is the final byte of such an
    /// operation.
    fn edit(&mut self, parameters: &Parameters, last: char) -> bool {
        let screen = &mut *self.screen;
        let count = parameters.count(0);
        match last {
            'J' | 'K' => return self.erase(parameters, last, false),
            'L' => screen.insert_lines(count),
            'M' => screen.delete_lines(count),
            '@' => screen.insert_cells(count),
            'P' => screen.delete_cells(count),
            'X' => screen.erase_cells(count),
            'S' => screen.scroll_up(count),
            // `CSI T` with five parameters is a mouse sequence.
            'T' if parameters.len() == 1 => screen.scroll_down(count),
            'b' => screen.repeat(count, self.cx.meter),
            _ => return false,
        }
        true
    }

    /// Executes ED and EL, DECSED and DECSEL; returns whether the parameter is known.
    fn erase(&mut self, parameters: &Parameters, last: char, is_selective: bool) -> bool {
        let erase = match parameters.get(0) {
            0 => Erase::ToEnd,
            1 => Erase::FromStart,
            2 => Erase::All,
            // Erases the scrollback, which this terminal does not have.
            3 if last == 'J' => return true,
            _ => return false,
        };
        match last {
            'J' => self.screen.erase_display(erase, is_selective),
            _ => self.screen.erase_line(erase, is_selective),
        }
        true
    }

    /// Executes a rectangle operation; returns whether `last` is the final byte of such an
    /// operation.
    fn rectangle(&mut self, parameters: &Parameters, last: char) -> bool {
        let screen = &mut *self.screen;
        match last {
            'r' | 't' => screen.restyle(parameters, last == 't'),
            'v' => screen.copy_rectangle(parameters),
            'x' => screen.fill_rectangle(parameters),
            'z' | '{' => {
                let rectangle = screen.rectangle(parameters, 0);
                screen.erase_rectangle(rectangle, last == '{');
            }
            _ => return false,
        }
        true
    }

    /// Executes modes, margins, tab stops and reports; returns whether `last` is the final byte of
    /// such a sequence.
    fn control(&mut self, parameters: &Parameters, last: char) -> bool {
        let screen = &mut *self.screen;
        let meter = &mut *self.cx.meter;
        match (last, parameters.get(0)) {
            ('c', 0) => self.identify(),
            ('g', 0) => screen.set_tab(false),
            ('g', 3) => screen.clear_tabs(),
            ('h' | 'l', _) => {
                for mode in parameters.all() {
                    match mode {
                        4 => screen.modes.inserts = last == 'h',
                        20 => screen.modes.feeds_and_returns = last == 'h',
                        _ if screen.modes.inert.set(false, mode, last == 'h') => {}
                        _ => meter.count(Counter::TerminalSequencesUnknown),
                    }
                }
            }
            ('n', 5) => screen.reply(b"\x1b[0n", meter),
            ('n', 6) => return self.report_cursor(""),
            ('r', _) => screen.set_margins(margins(parameters)),
            ('t', 18 | 19) => screen.report_size(parameters.get(0) - 10, meter),
            // The window belongs to the user: the host can neither change it nor query it.
            ('t', _) => return false,
            _ => return false,
        }
        true
    }

    fn private_modes(&mut self, parameters: &Parameters, is_on: bool) {
        parameters.all().for_each(|mode| self.private_mode(mode, is_on));
    }

    /// XTSAVE and XTRESTORE: saves the private modes in `parameters`, or restores their saved
    /// values if `is_restored`.
    fn save_or_restore_private_modes(&mut self, parameters: &Parameters, is_restored: bool) {
        for mode in parameters.all() {
            match is_restored {
                true => {
                    if let Some(is_on) = self.screen.saved_mode(mode) {
                        self.private_mode(mode, is_on);
                    }
                }
                false => self.screen.save_mode(mode),
            }
        }
    }

    fn private_mode(&mut self, mode: usize, is_on: bool) {
        let screen = &mut *self.screen;
        match mode {
            3 => screen.set_132_columns(is_on),
            5 => screen.modes.is_reverse = is_on,
            6 => screen.set_origin(is_on),
            7 => screen.modes.wraps = is_on,
            12 => screen.modes.cursor_blinks = is_on,
            25 => screen.modes.shows_cursor = is_on,
            40 => screen.modes.may_change_columns = is_on,
            45 => screen.modes.wraps_back = is_on,
            69 => screen.allow_side_margins(is_on),
            95 => screen.modes.keeps_screen = is_on,
            1045 => screen.modes.wraps_back_far = is_on,
            47 => screen.show_alternate(is_on),
            1047 if is_on => screen.show_alternate(true),
            1047 => self.leave_alternate_blank(),
            1048 if is_on => screen.save_cursor(),
            1048 => screen.restore_cursor(),
            1049 if is_on => {
                screen.save_cursor();
                screen.show_alternate(true);
                screen.erase_display(Erase::All, false);
            }
            1049 => {
                screen.show_alternate(false);
                screen.restore_cursor();
            }
            // Unsupported mouse reports and synchronized output: accepted without effect.
            1001 | 1016 | 2026 => {}
            _ if screen.modes.input.set(mode, is_on) => {}
            _ if screen.modes.inert.set(true, mode, is_on) => {}
            _ => self.unknown(),
        }
    }

    /// DECSCUSR: sets the shape of the cursor.
    fn set_cursor_shape(&mut self, shape: usize) -> bool {
        self.screen.modes.cursor_blinks = matches!(shape, 1 | 3 | 5);
        self.screen.modes.cursor_shape = match shape {
            0 => CursorShape::Configured,
            1 | 2 => CursorShape::Block,
            3 | 4 => CursorShape::Underscore,
            5 | 6 => CursorShape::Bar,
            _ => return false,
        };
        true
    }

    /// DECSCL: resets the same state as DECSTR; the conformance level itself never changes.
    fn set_conformance_level(&mut self, parameters: &Parameters) -> bool {
        let is_known = matches!(parameters.get(0), 61..=65);
        if is_known {
            self.screen.reset_modes();
        }
        is_known
    }

    /// DECSCA: sets whether characters printed from now on are protected from selective erasure.
    fn protect(&mut self, attribute: usize) -> bool {
        if attribute <= 2 {
            self.screen.protect(attribute == 1, screen::Protection::Dec);
        }
        attribute <= 2
    }

    fn report_device(&mut self, parameters: &Parameters) -> bool {
        match parameters.get(0) {
            6 => self.report_cursor("?"),
            _ => self.screen.report_device(parameters, self.cx.meter),
        }
    }

    fn leave_alternate_blank(&mut self) {
        if self.screen.modes.is_alternate {
            self.screen.erase_display(Erase::All, false);
            self.screen.show_alternate(false);
        }
    }

    /// DA: replies as a VT100 with the advanced video option.
    fn identify(&mut self) {
        self.screen.reply(b"\x1b[?1;2c", self.cx.meter);
    }

    fn report_cursor(&mut self, mark: &str) -> bool {
        let (row, column) = self.screen.reported_position();
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

/// Parses the two margins of DECSTBM or DECSLRM. An omitted margin is the first or last row or
/// column.
fn margins(parameters: &Parameters) -> Range<usize> {
    let end = match parameters.get(1) {
        0 => usize::MAX,
        end => end,
    };
    parameters.count(0) - 1..end
}
