//! Modes that change nothing on this screen, and that a host may set and ask for all the same.
//!
//! They are about the keyboard, a printer, the way in which a screen scrolls, or sets of national
//! characters. Each is one of a closed list, and has one bit.

/// Which of the modes are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeptModes(u16);

/// ANSI or private, and the number.
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

impl KeptModes {
    /// Sets or resets a mode; returns whether it is one of these.
    pub(super) fn set(&mut self, is_private: bool, mode: usize, is_on: bool) -> bool {
        let Some(bit) = bit(is_private, mode) else { return false };
        self.0 = if is_on { self.0 | bit } else { self.0 & !bit };
        true
    }

    /// Returns whether a mode is set, if it is one of these.
    pub(super) fn is_set(self, is_private: bool, mode: usize) -> Option<bool> {
        bit(is_private, mode).map(|bit| self.0 & bit != 0)
    }
}

fn bit(is_private: bool, mode: usize) -> Option<u16> {
    MODES.iter().position(|kept| *kept == (is_private, mode)).map(|place| 1 << place)
}
