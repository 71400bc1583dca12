//! Window size of the client's terminal, as reported by NAWS (RFC 1073), with limits.

use os::tty::WindowSize;

/// Maximum number of columns or rows passed on to a program. Our choice: more than any display has.
/// Programs allocate memory for a screen of this size, and a client may report 65,535 columns and
/// rows.
const WINDOW_MAX: u16 = 1000;

/// Window size assumed if the client reports none.
pub(super) const DEFAULT_WINDOW: WindowSize = WindowSize { rows: 24, columns: 80 };

/// Returns the window size passed to a program for the size reported by the client.
pub(super) fn bounded_window(columns: u16, rows: u16) -> WindowSize {
    // 0 means that the size is unknown (RFC 1073).
    let bounded_size = |size: u16, default| if size == 0 { default } else { size.min(WINDOW_MAX) };
    WindowSize {
        rows: bounded_size(rows, DEFAULT_WINDOW.rows),
        columns: bounded_size(columns, DEFAULT_WINDOW.columns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // attack row 140
    #[test]
    fn a_reported_window_size_is_bounded() {
        let size = |columns, rows| WindowSize { rows, columns };
        assert_eq!(bounded_window(65_535, 65_535), size(WINDOW_MAX, WINDOW_MAX));
        assert_eq!(bounded_window(1, 1000), size(1, 1000));
        assert_eq!(bounded_window(0, 50), size(80, 50));
        assert_eq!(bounded_window(132, 0), size(132, 24));
    }
}
