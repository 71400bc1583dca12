//! What the host wants keys, mouse and pasted text to send.
//!
//! The terminal itself sends none of them. It keeps what was asked for, for who reads the real
//! keyboard and mouse.

/// Which motions and buttons of the mouse the host wants to hear of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MouseReports {
    /// None.
    #[default]
    Off,
    /// Mode 9: buttons that are pressed.
    Presses,
    /// Mode 1000: buttons that are pressed and let go.
    Buttons,
    /// Mode 1002: also motions with a button down.
    Drags,
    /// Mode 1003: all motions.
    Motions,
}

/// How a place of the mouse is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MouseEncoding {
    /// A byte for each side.
    #[default]
    Bytes,
    /// Mode 1005: a character of UTF-8 for each side.
    Utf8,
    /// Mode 1006: decimal numbers, and a final of its own for a button that is let go.
    Sgr,
    /// Mode 1015: decimal numbers.
    Urxvt,
}

/// What keys, mouse and pasted text send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputModes {
    /// DECCKM: cursor keys send SS3 sequences.
    pub has_application_cursor: bool,
    /// DECNKM, DECKPAM and DECKPNM: the keypad sends SS3 sequences.
    pub has_application_keypad: bool,
    /// Mode 2004: pasted text stands between marks.
    pub brackets_paste: bool,
    /// Mode 1004: focus gained and lost is told.
    pub reports_focus: bool,
    /// What is told of the mouse.
    pub mouse: MouseReports,
    /// In which form.
    pub mouse_encoding: MouseEncoding,
}

impl InputModes {
    /// Sets or resets a private mode; returns whether it is one of these.
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

    /// Returns whether a private mode is set, if it is one of these.
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
