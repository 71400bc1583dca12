//! Modes with which the host requests keyboard, mouse, focus and paste input.
//!
//! The terminal itself sends no such input. It stores the modes for the code that reads the
//! physical keyboard and mouse.

/// Mouse events that the host requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MouseReports {
    /// No mouse events.
    #[default]
    Off,
    /// Mode 9: button presses.
    Presses,
    /// Mode 1000: button presses and releases.
    Buttons,
    /// Mode 1002: presses, releases, and motion while a button is pressed.
    Drags,
    /// Mode 1003: presses, releases, and all motion.
    Motions,
}

/// Encoding of mouse positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MouseEncoding {
    /// One byte per coordinate.
    #[default]
    Bytes,
    /// Mode 1005: one UTF-8 character per coordinate.
    Utf8,
    /// Mode 1006: decimal numbers, and a separate final for button releases.
    Sgr,
    /// Mode 1015: decimal numbers.
    Urxvt,
}

/// Modes for keyboard, mouse and pasted input, as set by the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputModes {
    /// DECCKM: cursor keys send SS3 sequences.
    pub has_application_cursor: bool,
    /// DECNKM, DECKPAM and DECKPNM: the keypad sends SS3 sequences.
    pub has_application_keypad: bool,
    /// Mode 2004: pasted text is enclosed in the sequences `CSI 200 ~` and `CSI 201 ~`.
    pub brackets_paste: bool,
    /// Mode 1004: focus changes are reported.
    pub reports_focus: bool,
    /// The mouse events that the host requests.
    pub mouse: MouseReports,
    /// Encoding of mouse positions.
    pub mouse_encoding: MouseEncoding,
}

impl InputModes {
    /// Sets or resets a private mode; returns whether the mode is one of the input modes.
    pub(super) fn set(&mut self, mode: usize, is_on: bool) -> bool {
        if let Some(reports) = reports(mode) {
            self.mouse = if is_on { reports } else { MouseReports::Off };
        } else if let Some(encoding) = encoding(mode) {
            self.mouse_encoding = if is_on { encoding } else { MouseEncoding::Bytes };
        } else {
            match mode {
                1 => self.has_application_cursor = is_on,
                66 => self.has_application_keypad = is_on,
                1004 => self.reports_focus = is_on,
                2004 => self.brackets_paste = is_on,
                _ => return false,
            }
        }
        true
    }

    /// Returns whether a private mode is set, or `None` if it is not one of the input modes.
    pub(super) fn is_set(&self, mode: usize) -> Option<bool> {
        if let Some(reports) = reports(mode) {
            return Some(self.mouse == reports);
        }
        if let Some(encoding) = encoding(mode) {
            return Some(self.mouse_encoding == encoding);
        }
        match mode {
            1 => Some(self.has_application_cursor),
            66 => Some(self.has_application_keypad),
            1004 => Some(self.reports_focus),
            2004 => Some(self.brackets_paste),
            _ => None,
        }
    }
}

fn reports(mode: usize) -> Option<MouseReports> {
    match mode {
        9 => Some(MouseReports::Presses),
        1000 => Some(MouseReports::Buttons),
        1002 => Some(MouseReports::Drags),
        1003 => Some(MouseReports::Motions),
        _ => None,
    }
}

fn encoding(mode: usize) -> Option<MouseEncoding> {
    match mode {
        1005 => Some(MouseEncoding::Utf8),
        1006 => Some(MouseEncoding::Sgr),
        1015 => Some(MouseEncoding::Urxvt),
        _ => None,
    }
}
