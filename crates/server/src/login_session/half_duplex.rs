//! Support for clients that implement only the network virtual terminal of RFC 854. A client that
//! refuses SUPPRESS-GO-AHEAD (RFC 858) gets a go-ahead when the program waits for input, and a
//! client that refuses ECHO (RFC 857) gets no echo. This module also limits the window size that a
//! client reports (RFC 1073).
//!
//! A program does not announce that it waits for input; output followed by silence counts as
//! waiting. A client that does not answer the offer of SUPPRESS-GO-AHEAD gets no go-ahead, because
//! it may not implement Telnet at all.

use super::{ClientStream, LoginSession, Stage};
use os::tty::WindowSize;
use protocols::telnet::OptionCode;
use std::time::Duration;
use tokio::time::Instant;

/// Silence after output that counts as waiting for input. Our choice.
const GO_AHEAD_DELAY: Duration = Duration::from_millis(50);

/// Maximum number of columns or rows passed on to a program. Our choice: more than any display has.
/// Programs allocate memory for a screen of this size, and a client may report 65,535 columns and
/// rows.
pub(super) const WINDOW_MAX: u16 = 1000;

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

/// Timer of the next go-ahead.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GoAhead {
    /// Whether the client has refused to suppress go-aheads.
    is_wanted: bool,
    due: Option<Instant>,
}

impl GoAhead {
    /// Sets whether the client wants go-aheads. The first go-ahead is due [`GO_AHEAD_DELAY`] after
    /// `now`, because output may have been sent before.
    pub(super) fn set_wanted(&mut self, is_wanted: bool, now: Instant) {
        self.is_wanted = is_wanted;
        self.due = is_wanted.then(|| now + GO_AHEAD_DELAY);
    }

    /// Restarts the timer after output to the client.
    pub(super) fn on_output(&mut self) {
        if self.is_wanted {
            self.due = Some(Instant::now() + GO_AHEAD_DELAY);
        }
    }

    /// Returns the time at which the go-ahead is due if no further output is sent.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns whether the go-ahead is due. A go-ahead that is due is cleared.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        self.due.take_if(|due| *due <= now).is_some()
    }
}

impl<W: ClientStream> LoginSession<W> {
    /// Sends a go-ahead if one is due and the client is expected to type.
    pub(super) fn go_ahead(&mut self) {
        let awaits_input = matches!(self.stage, Stage::Program(..) | Stage::LoginPrompt(_));
        if self.go_ahead.take_due(Instant::now()) && awaits_input {
            self.telnet.go_ahead(&mut self.server.engine().cx());
        }
    }

    /// Processes the client's answer to an option that the server offers.
    pub(super) fn on_option(&mut self, option: OptionCode, is_enabled: bool) {
        match option {
            OptionCode::SUPPRESS_GO_AHEAD => {
                self.go_ahead.set_wanted(!is_enabled, Instant::now());
            }
            OptionCode::ECHO if self.is_echo_refused == is_enabled => {
                self.is_echo_refused = !is_enabled;
                match &mut self.stage {
                    // A program that has just ended has no terminal.
                    Stage::Program(program, _) => _ = program.get_ref().set_echo(is_enabled),
                    Stage::LoginPrompt(prompt) => prompt.set_echo(is_enabled),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Processes the window size reported by the client.
    pub(super) fn on_window(&mut self, columns: u16, rows: u16) {
        self.window = bounded_window(columns, rows);
        if let Stage::Program(program, _) = &self.stage {
            // A program that has just ended has no window.
            _ = program.get_ref().resize(self.window);
        }
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

    #[test]
    fn a_go_ahead_is_due_once_after_the_last_output_if_wanted() {
        let mut go_ahead = GoAhead::default();
        go_ahead.on_output();
        assert_eq!(go_ahead.due(), None);
        let started_at = Instant::now();
        go_ahead.set_wanted(true, started_at);
        assert!(!go_ahead.take_due(started_at));
        go_ahead.on_output();
        let due = go_ahead.due().unwrap();
        assert!(due >= started_at + GO_AHEAD_DELAY);
        assert!(go_ahead.take_due(due) && !go_ahead.take_due(due));
        go_ahead.set_wanted(false, due);
        assert_eq!(go_ahead.due(), None);
    }
}
