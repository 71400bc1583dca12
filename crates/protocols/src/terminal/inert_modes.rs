//! Modes that a host may set and query, but that have no effect on this screen.
//!
//! These modes concern the keyboard, a printer, the scrolling speed, or national character sets.
//! The list of modes is fixed, and each mode is stored as one bit.

/// The set of modes that are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InertModes(u16);

/// For each known mode, whether it is private (`CSI ?`), and its number.
const MODES: [(bool, usize); 11] = [
    // KAM and SRM.
    (false, 2),
    (false, 12),
    // DECSCLM, DECARM, DECPFF, DECPEX, DECHEBM, mode 41 of xterm, DECNRCM and DECBKM.
    (true, 4),
    (true, 8),
    (true, 18),
    (true, 19),
    (true, 35),
    (true, 41),
    (true, 42),
    (true, 67),
    // Mode 1036 of xterm: Meta sends an escape.
    (true, 1036),
];

impl InertModes {
    /// Sets or resets a mode; returns whether the mode is one of [`MODES`].
    pub(super) fn set(&mut self, is_private: bool, mode: usize, is_on: bool) -> bool {
        let Some(bit) = bit(is_private, mode) else { return false };
        self.0 = if is_on { self.0 | bit } else { self.0 & !bit };
        true
    }

    /// Returns whether a mode is set, or `None` if the mode is not one of [`MODES`].
    pub(super) fn is_set(self, is_private: bool, mode: usize) -> Option<bool> {
        bit(is_private, mode).map(|bit| self.0 & bit != 0)
    }
}

fn bit(is_private: bool, mode: usize) -> Option<u16> {
    MODES.iter().position(|entry| *entry == (is_private, mode)).map(|place| 1 << place)
}
