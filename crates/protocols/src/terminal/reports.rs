//! Replies to queries of the host.
//!
//! All replies have a fixed form. They contain only values known to the terminal: the cursor
//! position, whether a known mode is set, a setting as a canonical sequence, a checksum. The only
//! data from the host that a reply repeats is the request number of DECRQCRA, and only if the host
//! may read the screen.

use super::cell::{Attributes, Cell};
use super::parameters::Parameters;
use super::picture::CursorShape;
use super::screen::{self, Rectangle};
use super::sgr;
use alloc::format;
use net::meter::Meter;

impl screen::Screen {
    /// DECRQM: reports a mode as set (1), reset (2) or permanently reset (4). A query for an
    /// unknown mode is not answered.
    pub(super) fn report_mode(&mut self, is_private: bool, mode: usize, meter: &mut Meter) -> bool {
        let is_set = self.mode(is_private, mode);
        // ECMA-48 §7 has modes that terminals of this kind never set: GATM to VEM, HEM to TTM, SATM
        // to EBM. DECHCCM requires a window that moves over the page.
        let is_never_set = matches!((is_private, mode), (false, 1..=19) | (true, 60));
        let value = match is_set {
            Some(true) => 1,
            Some(false) => 2,
            None if is_never_set => 4,
            None => return false,
        };
        let private_prefix = if is_private { "?" } else { "" };
        self.reply(format!("\x1b[{private_prefix}{mode};{value}$y").as_bytes(), meter);
        true
    }

    /// Returns whether a mode is set, or `None` if it is unknown.
    fn mode(&self, is_private: bool, mode: usize) -> Option<bool> {
        let modes = &self.modes;
        match (is_private, mode) {
            (false, 4) => Some(modes.inserts),
            (false, 20) => Some(modes.feeds_and_returns),
            (true, 3) => Some(modes.is_132_columns),
            (true, 5) => Some(modes.is_reverse),
            (true, 6) => Some(self.has_origin()),
            (true, 7) => Some(modes.wraps),
            (true, 12) => Some(modes.cursor_blinks),
            (true, 25) => Some(modes.shows_cursor),
            (true, 40) => Some(modes.may_change_columns),
            (true, 45) => Some(modes.wraps_back),
            (true, 69) => Some(modes.has_side_margins),
            (true, 95) => Some(modes.keeps_screen),
            (true, 1045) => Some(modes.wraps_back_far),
            (true, 47 | 1047 | 1049) => Some(modes.is_alternate),
            (true, _) => modes.input.is_set(mode).or_else(|| modes.inert.is_set(true, mode)),
            (false, _) => modes.inert.is_set(false, mode),
        }
    }

    /// XTSAVE: saves the value of a private mode; unknown modes are ignored.
    pub(super) fn save_mode(&mut self, mode: usize) {
        let Some(is_on) = self.mode(true, mode) else { return };
        match self.saved_modes.iter_mut().find(|(saved, _)| *saved == mode) {
            Some((_, saved)) => *saved = is_on,
            // The length is bounded by the number of known private modes.
            None => self.saved_modes.push((mode, is_on)),
        }
    }

    /// XTRESTORE: returns the saved value of a private mode.
    pub(super) fn saved_mode(&self, mode: usize) -> Option<bool> {
        let saved = self.saved_modes.iter().find(|(saved, _)| *saved == mode);
        saved.map(|(_, is_on)| *is_on)
    }

    /// XTWINOPS 18 and 19: reports the number of rows and of columns.
    pub(super) fn report_size(&mut self, kind: usize, meter: &mut Meter) {
        let rows = self.grid().rows();
        let columns = self.grid().columns();
        self.reply(format!("\x1b[{kind};{rows};{columns}t").as_bytes(), meter);
    }

    /// DSR: reports the status of VT220 and VT420 devices, such as a printer, as not available.
    pub(super) fn report_device(&mut self, parameters: &Parameters, meter: &mut Meter) -> bool {
        let reply: &[u8] = match parameters.get(0) {
            // No printer; no user-defined keys; an unknown keyboard.
            15 => b"\x1b[?13n",
            25 => b"\x1b[?21n",
            26 => b"\x1b[?27;0n",
            // No locator.
            53 | 55 => b"\x1b[?50n",
            56 => b"\x1b[?57;0n",
            // No space for macros; checksum 0; no errors; one session.
            62 => b"\x1b[0*{",
            63 => {
                let reply = format!("\x1bP{}!~0000\x1b\\", parameters.get(1));
                self.reply(reply.as_bytes(), meter);
                return true;
            }
            75 => b"\x1b[?70n",
            85 => b"\x1b[?83n",
            _ => return false,
        };
        self.reply(reply, meter);
        true
    }

    /// DECRQSS: reports a setting as the sequence that sets it, or reports that the requested
    /// setting is unknown.
    pub(super) fn report_status(&mut self, meter: &mut Meter) {
        let Some(what) = self.status_request.requested_setting() else { return };
        let (rows, columns) = self.margins();
        let report = match what {
            b"m" => sgr::report(self.cursor().style),
            b"r" => format!("{};{}r", rows.start + 1, rows.end),
            b"s" => format!("{};{}s", columns.start + 1, columns.end),
            b" q" => {
                let shape = match self.modes.cursor_shape {
                    CursorShape::Configured => 0,
                    CursorShape::Block => 2,
                    CursorShape::Underscore => 4,
                    CursorShape::Bar => 6,
                };
                let blinks = usize::from(self.modes.cursor_blinks && shape > 0);
                format!("{} q", shape - blinks)
            }
            b"\"q" => format!("{}\"q", if self.is_protecting() { 1 } else { 2 }),
            b"\"p" => "61;1\"p".into(),
            b"*x" => format!("{}*x", if self.changes_rectangles { 2 } else { 0 }),
            b"t" => format!("{}t", self.grid().rows()),
            b"*|" => format!("{}*|", self.grid().rows()),
            b"$|" => format!("{}$|", self.grid().columns()),
            _ => return self.reply(b"\x1bP0$r\x1b\\", meter),
        };
        self.reply(format!("\x1bP1$r{report}\x1b\\").as_bytes(), meter);
    }

    /// DECRQCRA: reports the checksum of a rectangle, if the host may read the screen.
    pub(super) fn report_checksum(&mut self, parameters: &Parameters, meter: &mut Meter) -> bool {
        if !self.reports_checksums {
            return false;
        }
        let Rectangle { rows, columns } = self.rectangle(parameters, 2);
        let mut sum = 0_u16;
        for row in rows.filter_map(|row| self.grid().row(row)) {
            let cells = row.cells().get(columns.clone()).unwrap_or_default();
            sum = cells.iter().fold(sum, |sum, cell| sum.wrapping_sub(checksum(cell)));
        }
        let reply = format!("\x1bP{}!~{sum:04X}\x1b\\", parameters.get(0));
        self.reply(reply.as_bytes(), meter);
        true
    }
}

/// Returns the summand of one cell in the DECRQCRA checksum: its character codes and its
/// attributes, as on a VT420.
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
