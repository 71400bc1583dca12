//! Support for clients that implement only the network virtual terminal of RFC 854. A client that
//! refuses SUPPRESS-GO-AHEAD (RFC 858) gets a go-ahead when the program waits for input, and a
//! client that refuses ECHO (RFC 857) gets no echo. A client that does not answer the offer of
//! SUPPRESS-GO-AHEAD gets no go-ahead, because it may not implement Telnet at all.

use super::window_size::bounded_window;
use super::{LoginSession, Stage};
use crate::telnet_client::TelnetClient;
use protocols::telnet::OptionCode;
use tokio::time::Instant;

impl LoginSession {
    /// Processes the client's answer to an option that the server offers.
    pub(super) fn on_option(
        &mut self,
        client: &mut TelnetClient,
        option: OptionCode,
        is_enabled: bool,
    ) {
        match option {
            OptionCode::SUPPRESS_GO_AHEAD => {
                client.go_ahead.set_wanted(!is_enabled, Instant::now());
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
