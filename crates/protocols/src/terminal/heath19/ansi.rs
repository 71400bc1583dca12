//! ANSI mode: the bytes after ESC, and the parameters and final bytes after ESC [.

use super::parameters::Parameters;
use super::{ESC, Heath19, State};
use alloc::format;
use net::cx::Cx;
use net::meter::Counter;

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
                parameters = Parameters::with_prefix(byte);
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
