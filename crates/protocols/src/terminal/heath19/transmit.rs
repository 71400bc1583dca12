//! Transmission of the page and the 25th line: the characters of the screen, and the sequences that
//! switch graphics mode and reverse video.
//!
//! There is no separator between lines. A change of graphics mode precedes a change of reverse
//! video, and modes that are on at the end are not turned off.
//!
//! This is the only reply that contains text written by a host. A file displayed on the screen
//! could contain a command and request its transmission, so transmission requires the permission of
//! the user.

use super::screen::{COLUMNS, ROWS};
use super::{Heath19, OUTPUT_MAX, glyphs};
use crate::terminal::cell::{Attributes, Cell};
use alloc::vec::Vec;
use core::ops::Range;
use net::meter::{Counter, Meter};

/// Maximum length of a page in bytes: for each cell the character and both mode changes of ANSI
/// mode (10 bytes), and a final CR.
#[cfg(test)]
pub(super) const PAGE_BYTES_MAX: usize = ROWS * COLUMNS * 10 + 1;

impl Heath19 {
    /// Transmits rows 0 to 23 and a CR, and rings the bell.
    pub(super) fn transmit_page(&mut self, meter: &mut Meter) {
        self.transmit(0..ROWS, meter);
    }

    /// Transmits the 25th line, if it is displayed, and a CR, and rings the bell.
    pub(super) fn transmit_line_25(&mut self, meter: &mut Meter) {
        self.transmit(if self.has_line_25() { ROWS..ROWS + 1 } else { 0..0 }, meter);
    }

    fn transmit(&mut self, rows: Range<usize>, meter: &mut Meter) {
        // One page may be queued in addition to the replies, but not two.
        if !self.transmits || self.output.len() > OUTPUT_MAX {
            return meter.count(Counter::TerminalReportsRefused);
        }
        let mut is_graphic = false;
        let mut is_reverse = false;
        let grid = self.screen.grid();
        let is_ansi = self.modes.keys.is_ansi;
        let mut page = Vec::with_capacity(rows.len() * COLUMNS + 1);
        let cell_positions = rows.flat_map(|row| (0..COLUMNS).map(move |column| (row, column)));
        for cell in cell_positions.filter_map(|(row, column)| grid.cell(row, column)) {
            let glyph = glyphs::byte_for(cell.character());
            if is_graphic != glyph.is_some() {
                is_graphic = glyph.is_some();
                page.extend_from_slice(match (is_ansi, is_graphic) {
                    (false, true) => b"\x1bF",
                    (false, false) => b"\x1bG",
                    (true, true) => b"\x1b[10m",
                    (true, false) => b"\x1b[11m",
                });
            }
            if is_reverse != is_cell_reverse(cell) {
                is_reverse = !is_reverse;
                page.extend_from_slice(match (is_ansi, is_reverse) {
                    (false, true) => b"\x1bp",
                    (false, false) => b"\x1bq",
                    (true, true) => b"\x1b[7m",
                    (true, false) => b"\x1b[m",
                });
            }
            page.push(glyph.or_else(|| u8::try_from(cell.character()).ok()).unwrap_or(b' '));
        }
        page.push(b'\r');
        self.output.append(&mut page);
        self.is_bell_pending = true;
        meter.count(Counter::TerminalReports);
    }
}

fn is_cell_reverse(cell: &Cell) -> bool {
    cell.style().attributes.contains(Attributes::REVERSE)
}
