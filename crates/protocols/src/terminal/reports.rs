//! Answers to what the host asks.
//!
//! All have a fixed form. What stands in them is known here: the cursor's place, a mode of a closed
//! list, a checksum. Nothing that the host has sent comes back, but for the number that DECRQCRA
//! wants with its answer; a host that may read the screen must have been let to.

use super::cell::{Attributes, Cell};
use super::parameters::Parameters;
use super::screen::Screen;
use crate::meter::Meter;
use alloc::format;

impl Screen {
    /// DECRQM: says whether a mode is set (1) or not (2). One that is not known gets no answer.
    pub(super) fn report_mode(&mut self, is_private: bool, mode: usize, meter: &mut Meter) -> bool {
        let is_set = match (is_private, mode) {
            (false, 4) => Some(self.modes.inserts),
            (false, 20) => Some(self.modes.feeds_and_returns),
            (false, _) => None,
            (true, 6) => Some(self.has_origin()),
            (true, 7) => Some(self.modes.wraps),
            (true, 25) => Some(self.modes.shows_cursor),
            (true, 47 | 1047 | 1049) => Some(self.modes.is_alternate),
            (true, _) => self.modes.input.is_set(mode),
        };
        if let Some(is_set) = is_set {
            let (mark, value) = (if is_private { "?" } else { "" }, if is_set { 1 } else { 2 });
            self.reply(format!("\x1b[{mark}{mode};{value}$y").as_bytes(), meter);
        }
        is_set.is_some()
    }

    /// DECRQCRA: sends the checksum of a rectangle, if the host may have it.
    pub(super) fn report_checksum(&mut self, parameters: &Parameters, meter: &mut Meter) -> bool {
        if !self.reports_checksums {
            return false;
        }
        let (columns, rows) = (self.grid().columns(), self.grid().rows());
        let last = |place, last| match parameters.get(place) {
            0 => last,
            given => given.min(last),
        };
        let top = self.origin() + parameters.count(2) - 1;
        let bottom = (self.origin() + last(4, rows)).min(rows);
        let (left, right) = (parameters.count(3) - 1, last(5, columns));
        let mut sum = 0_u16;
        for row in (top..bottom).filter_map(|row| self.grid().row(row)) {
            let cells = row.cells().get(left..right).unwrap_or_default();
            sum = cells.iter().fold(sum, |sum, cell| sum.wrapping_sub(checksum(cell)));
        }
        let reply = format!("\x1bP{}!~{sum:04X}\x1b\\", parameters.get(0));
        self.reply(reply.as_bytes(), meter);
        true
    }
}

/// Returns what a cell adds: the codes of its characters, and its attributes as a VT420 has them.
fn checksum(cell: &Cell) -> u16 {
    let attributes = cell.style().attributes;
    let weights = [
        (Attributes::HIDDEN, 0x08),
        (Attributes::UNDERLINE, 0x10),
        (Attributes::REVERSE, 0x20),
        (Attributes::BLINK, 0x40),
        (Attributes::BOLD, 0x80),
    ];
    let weights = weights.into_iter().filter(|(attribute, _)| attributes.contains(*attribute));
    let characters = core::iter::once(cell.character()).chain(cell.marks());
    let codes = characters.map(|character| {
        let [_, _, high, low] = u32::from(character).to_be_bytes();
        u16::from_be_bytes([high, low])
    });
    codes.chain(weights.map(|(_, weight)| weight)).fold(0, u16::wrapping_add)
}
