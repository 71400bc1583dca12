//! Heath mode: the meaning of each byte after ESC.

use super::{CAN, ESC, Heath19, State};
use net::cx::Cx;

impl Heath19 {
    /// Executes the sequence ESC `byte`; returns whether the sequence is defined.
    pub(super) fn heath_sequence(&mut self, byte: u8, cx: &mut Cx<'_>) -> bool {
        match byte {
            ESC => self.state = State::Escape,
            b'<' => self.modes.keys.is_ansi = true,
            b'Y' => self.state = State::CursorRow,
            b'x' => self.state = State::Mode { is_set: true },
            b'y' => self.state = State::Mode { is_set: false },
            b'r' => self.state = State::BaudRate,
            b'Z' => self.reply(b"\x1b/K", cx.meter),
            b'n' => self.report_place(cx),
            b'#' => self.transmit_page(cx.meter),
            b']' => self.transmit_line_25(cx.meter),
            b'z' => self.reset(),
            // CAN has no function of its own, but ends a pending sequence.
            CAN => {}
            _ => return self.heath_motion(byte) || self.heath_edit(byte) || self.heath_mode(byte),
        }
        true
    }

    fn heath_motion(&mut self, byte: u8) -> bool {
        let screen = &mut self.screen;
        match byte {
            b'A' => screen.up(1),
            b'B' => screen.down(1),
            b'C' => screen.right(1),
            b'D' => screen.left(1),
            b'H' => screen.home(),
            b'I' => screen.reverse_index(),
            b'j' => screen.save_cursor(),
            b'k' => screen.restore_cursor(),
            _ => return false,
        }
        true
    }

    fn heath_edit(&mut self, byte: u8) -> bool {
        let screen = &mut self.screen;
        match byte {
            b'E' => screen.clear(),
            b'J' => screen.erase_from_cursor(),
            b'K' => screen.erase_line_from_cursor(),
            b'L' => screen.insert_lines(1),
            b'M' => screen.delete_lines(1),
            b'N' => screen.delete_characters(1),
            b'b' => screen.erase_to_cursor(),
            b'l' => screen.erase_line(),
            b'o' => screen.erase_line_to_cursor(),
            _ => return false,
        }
        true
    }

    /// Enters hold screen mode on ESC [. If private sequences are ignored, a `?` as the next byte
    /// reverts this.
    fn enter_hold(&mut self) {
        let was_holding = self.modes.holds;
        let budget = self.hold_budget;
        self.set_hold(true);
        if self.ignores_private {
            self.state = State::Hold { was_holding, budget };
        }
    }

    fn heath_mode(&mut self, byte: u8) -> bool {
        if byte == b'[' {
            self.enter_hold();
            return true;
        }
        let screen = &mut self.screen;
        let modes = &mut self.modes;
        match byte {
            b'@' => screen.inserts = true,
            b'O' => screen.inserts = false,
            b'p' => screen.is_reverse = true,
            b'q' => screen.is_reverse = false,
            b'F' => screen.is_graphic = true,
            b'G' => screen.is_graphic = false,
            b'v' => screen.wraps = true,
            b'w' => screen.wraps = false,
            b'\\' => self.set_hold(false),
            b't' => modes.keys.is_keypad_shifted = true,
            b'u' => modes.keys.is_keypad_shifted = false,
            b'=' => modes.keys.is_keypad_alternate = true,
            b'>' => modes.keys.is_keypad_alternate = false,
            b'{' => modes.is_keyboard_off = false,
            b'}' => modes.is_keyboard_off = true,
            _ => return false,
        }
        true
    }

    fn report_place(&mut self, cx: &mut Cx<'_>) {
        let cursor = self.screen.cursor();
        let [row, column] = [cursor.row, cursor.column].map(|side| {
            // Both values are below 80, so the sum is a printable character.
            u8::try_from(side).unwrap_or(0) + b' '
        });
        self.reply(&[ESC, b'Y', row, column], cx.meter);
    }
}
