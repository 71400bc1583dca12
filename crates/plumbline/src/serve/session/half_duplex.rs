//! Clients that keep to the network virtual terminal of RFC 854: a go-ahead when the program waits
//! for input, where the client refuses SUPPRESS-GO-AHEAD (RFC 858), and no echo, where it refuses
//! ECHO (RFC 857). Also the bounds on the window that a client reports (RFC 1073).
//!
//! A program does not say that it waits for input. Its output followed by silence is taken for
//! that. A client that does not answer the offer of SUPPRESS-GO-AHEAD gets no go-ahead: it may not
//! speak Telnet at all.

use super::{Near, Session, Wire};
use os::tty::WindowSize;
use protocols::application::telnet::OptionCode;
use std::time::Duration;
use tokio::time::Instant;

/// How long a program must be silent after output until it is taken to wait for input; ours.
const QUIET: Duration = Duration::from_millis(50);

/// The most columns or rows that are passed on to a program; ours: more than any display has. A
/// program allocates its screen by these, and a client may report 65,535 of both.
pub(super) const WINDOW_MAX: u16 = 1000;

/// Assumed where a client does not know the size of its window.
pub(super) const DEFAULT_WINDOW: WindowSize = WindowSize { rows: 24, columns: 80 };

/// Returns the window for a program of a client that reports this size.
pub(super) fn bounded_window(columns: u16, rows: u16) -> WindowSize {
    // 0 says that the size is not known (RFC 1073).
    let bounded = |size: u16, default| if size == 0 { default } else { size.min(WINDOW_MAX) };
    WindowSize {
        rows: bounded(rows, DEFAULT_WINDOW.rows),
        columns: bounded(columns, DEFAULT_WINDOW.columns),
    }
}

/// When a go-ahead is due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GoAhead {
    /// Whether the client has refused to suppress go-aheads.
    is_wanted: bool,
    due: Option<Instant>,
}

impl GoAhead {
    /// Sets whether the client wants go-aheads; the first is due for what it sees already.
    pub(super) fn set_wanted(&mut self, is_wanted: bool, now: Instant) {
        self.is_wanted = is_wanted;
        self.due = is_wanted.then(|| now + QUIET);
    }

    /// Takes note of output for the client.
    pub(super) fn on_output(&mut self) {
        if self.is_wanted {
            self.due = Some(Instant::now() + QUIET);
        }
    }

    /// Returns when the go-ahead is due, if no output comes before.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns, once, whether the go-ahead is due.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        self.due.take_if(|due| *due <= now).is_some()
    }
}

impl<W: Wire> Session<W> {
    /// Sends a go-ahead if one is due, and the client is asked for input.
    pub(super) fn go_ahead(&mut self) {
        let awaits_input = matches!(self.near, Near::Program(..) | Near::Dialogue(_));
        if self.go_ahead.take_due(Instant::now()) && awaits_input {
            self.telnet.go_ahead(&mut self.shop.bench().cx());
        }
    }

    /// Takes the client's answer to what the server offers to do.
    pub(super) fn on_option(&mut self, option: OptionCode, is_enabled: bool) {
        match option {
            OptionCode::SUPPRESS_GO_AHEAD => {
                self.go_ahead.set_wanted(!is_enabled, Instant::now());
            }
            OptionCode::ECHO if self.is_echo_refused == is_enabled => {
                self.is_echo_refused = !is_enabled;
                match &mut self.near {
                    // A program that has just ended has no terminal.
                    Near::Program(program, _) => _ = program.get_ref().set_echo(is_enabled),
                    Near::Dialogue(dialogue) => dialogue.set_echo(is_enabled),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Takes the size of the client's window.
    pub(super) fn on_window(&mut self, columns: u16, rows: u16) {
        self.window = bounded_window(columns, rows);
        if let Near::Program(program, _) = &self.near {
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
    fn a_window_that_no_display_has_is_not_passed_on() {
        let size = |columns, rows| WindowSize { rows, columns };
        assert_eq!(bounded_window(65_535, 65_535), size(WINDOW_MAX, WINDOW_MAX));
        assert_eq!(bounded_window(1, 1000), size(1, 1000));
        assert_eq!(bounded_window(0, 50), size(80, 50));
        assert_eq!(bounded_window(132, 0), size(132, 24));
    }

    #[test]
    fn a_go_ahead_is_due_once_after_the_last_output_and_only_where_it_is_wanted() {
        let mut go_ahead = GoAhead::default();
        go_ahead.on_output();
        assert_eq!(go_ahead.due(), None);
        let begun = Instant::now();
        go_ahead.set_wanted(true, begun);
        assert!(!go_ahead.take_due(begun));
        go_ahead.on_output();
        let due = go_ahead.due().unwrap();
        assert!(due >= begun + QUIET);
        assert!(go_ahead.take_due(due) && !go_ahead.take_due(due));
        go_ahead.set_wanted(false, due);
        assert_eq!(go_ahead.due(), None);
    }
}
