//! ANSI mode: the bytes after ESC, and the parameters and final bytes after ESC [.
//!
//! A sequence has at most 15 parameters, separated by semicolons. They are decimal 8-bit numbers
//! that wrap around. Any other byte is the final byte, even a control. As in the original terminal,
//! the final byte is stored in the work area after the parameters. A parameter list therefore ends
//! at the first value equal to the final byte. A cursor position with one parameter uses the final
//! byte as the column.

use super::{ESC, Heath19, State};
use alloc::format;
use net::cx::Cx;
use net::meter::Counter;

/// Capacity of the work area in bytes, including the final byte.
const WORK_MAX: usize = 16;

/// The parameters received so far of one control sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    /// The private prefix, `?` or `>`.
    prefix: Option<u8>,
    work: [u8; WORK_MAX],
    at: usize,
    /// Whether a digit was received. A semicolon before the first digit is the final byte, not a
    /// separator.
    has_received_byte: bool,
    has_number: bool,
    /// Whether the number being read has at least one digit so far.
    is_building: bool,
}

impl Parameters {
    fn digit(&mut self, digit: u8) {
        if let Some(number) = self.work.get_mut(self.at) {
            *number = number.wrapping_mul(10).wrapping_add(digit);
        }
        self.has_received_byte = true;
        self.has_number = true;
        self.is_building = true;
    }

    fn separator(&mut self) {
        // The last two entries are reserved for the last number and the final byte: further numbers
        // replace the last one.
        if self.at + 2 < WORK_MAX {
            self.at += 1;
        }
        if let Some(number) = self.work.get_mut(self.at) {
            *number = 0;
        }
        self.is_building = false;
    }

    fn end(&mut self, last: u8) {
        self.at += usize::from(self.is_building);
        if let Some(place) = self.work.get_mut(self.at) {
            *place = last;
        }
    }

    fn get(&self, place: usize) -> u8 {
        self.work.get(place).copied().unwrap_or(0)
    }

    fn first(&self) -> Option<u8> {
        self.has_number.then(|| self.get(0))
    }

    /// Returns the first number; 0 or a missing number means 1.
    fn count(&self) -> usize {
        self.first().unwrap_or(0).max(1).into()
    }

    /// Returns the numbers before the final byte `last`. A number equal to the final byte also ends
    /// the list.
    fn list(&self, last: u8) -> impl Iterator<Item = u8> {
        let numbers = self.work.iter().copied().take_while(move |number| *number != last);
        numbers.take(if self.has_number { WORK_MAX } else { 0 })
    }
}

impl Heath19 {
    /// Executes the sequence ESC `byte`; returns whether the sequence is defined.
    pub(super) fn ansi_sequence(&mut self, byte: u8) -> bool {
        match byte {
            b'=' => self.modes.keys.is_keypad_alternate = true,
            b'>' => self.modes.keys.is_keypad_alternate = false,
            b'M' => self.screen.reverse_index(),
            b'[' => self.state = State::Parameters(Parameters::default()),
            // A second ESC is dropped and ends the sequence.
            ESC => {}
            _ => return false,
        }
        true
    }

    /// Processes one byte after ESC [; a final byte executes the sequence.
    pub(super) fn parameter(&mut self, mut parameters: Parameters, byte: u8, cx: &mut Cx<'_>) {
        match byte {
            b'0'..=b'9' => parameters.digit(byte - b'0'),
            b';' if parameters.has_received_byte => parameters.separator(),
            b'?' | b'>' if !parameters.has_number && parameters.prefix.is_none() => {
                parameters = Parameters { prefix: Some(byte), ..Parameters::default() };
            }
            last => {
                self.state = State::Ground;
                parameters.end(last);
                if !self.ansi_final(&parameters, last, cx) {
                    cx.meter.count(Counter::TerminalSequencesUnknown);
                }
                return;
            }
        }
        self.state = State::Parameters(parameters);
    }

    fn ansi_final(&mut self, parameters: &Parameters, last: u8, cx: &mut Cx<'_>) -> bool {
        match (parameters.prefix, last) {
            (None, _) => {
                self.ansi_motion(parameters, last)
                    || self.ansi_edit(parameters, last)
                    || self.ansi_control(parameters, last, cx)
            }
            (Some(b'?'), b'h' | b'l') => {
                for number in parameters.list(last) {
                    match (number, last) {
                        (2, b'h') => self.modes.keys.is_ansi = false,
                        (7, _) => self.screen.wraps = last == b'h',
                        _ => {}
                    }
                }
                true
            }
            (Some(_), b'h' | b'l') => {
                for number in parameters.list(last).take_while(|number| *number < 10) {
                    self.set_mode(number, last == b'h');
                }
                true
            }
            _ => false,
        }
    }

    fn ansi_motion(&mut self, parameters: &Parameters, last: u8) -> bool {
        let screen = &mut self.screen;
        let count = parameters.count();
        match (last, parameters.has_number) {
            (b'A', _) => screen.up(count),
            (b'B', _) => screen.down(count),
            (b'C', _) => screen.right(count),
            (b'D', _) => screen.left(count),
            (b'H' | b'f', false) => screen.home(),
            (b'H' | b'f', true) => {
                let [row, column] = [0, 1].map(|place| parameters.get(place).saturating_sub(1));
                screen.set_row(row.into());
                screen.set_column(column.into());
            }
            (b's', false) => screen.save_cursor(),
            (b'u', false) => screen.restore_cursor(),
            _ => return false,
        }
        true
    }

    fn ansi_edit(&mut self, parameters: &Parameters, last: u8) -> bool {
        let screen = &mut self.screen;
        let count = parameters.count();
        match (last, parameters.first().unwrap_or(0)) {
            (b'J', 0) => screen.erase_from_cursor(),
            (b'J', 1) => screen.erase_to_cursor(),
            (b'J', 2) => screen.clear(),
            (b'K', 0) => screen.erase_line_from_cursor(),
            (b'K', 1) => screen.erase_line_to_cursor(),
            (b'K', 2) => screen.erase_line(),
            (b'L', _) => screen.insert_lines(count),
            (b'M', _) => screen.delete_lines(count),
            (b'P', _) => screen.delete_characters(count),
            _ => return false,
        }
        true
    }

    fn ansi_control(&mut self, parameters: &Parameters, last: u8, cx: &mut Cx<'_>) -> bool {
        match (last, parameters.first()) {
            (b'h' | b'l', _) => {
                for number in parameters.list(last) {
                    match number {
                        2 => self.modes.is_keyboard_off = last == b'h',
                        4 => self.screen.inserts = last == b'h',
                        20 => self.modes.returns_on_feed = last == b'h',
                        _ => {}
                    }
                }
            }
            (b'm', None) => self.screen.is_reverse = false,
            (b'm', Some(_)) => self.set_rendition(parameters, last),
            (b'n', Some(6)) => {
                let cursor = self.screen.cursor();
                let report = format!("\x1b[{};{}R", cursor.row + 1, cursor.column + 1);
                self.reply(report.as_bytes(), cx.meter);
            }
            (b'p', None) => self.transmit_page(cx.meter),
            (b'q', None) => self.transmit_line_25(cx.meter),
            (b'r', code) => match super::baud_rate(code.unwrap_or(0)) {
                Some(rate) => self.baud_rate = Some(rate),
                None => return false,
            },
            (b'z', None) => self.reset(),
            _ => return false,
        }
        true
    }

    fn set_rendition(&mut self, parameters: &Parameters, last: u8) {
        for number in parameters.list(last) {
            match number {
                0 => self.screen.is_reverse = false,
                7 => self.screen.is_reverse = true,
                10 => self.screen.is_graphic = true,
                11 => self.screen.is_graphic = false,
                _ => return,
            }
        }
    }
}
