//! Local line editing at the request of the remote host (LINEMODE, RFC 1184).
//!
//! With EDIT, typed text is kept until the line ends or until one of the forwarding characters
//! (FORWARDMASK, SLC). With TRAPSIG, signal characters are sent as Telnet commands, followed by a
//! Synch if input is to be flushed. If output is to be flushed, received data is dropped until the
//! remote host has answered a timing mark (§5.8).

use super::protocol::linemode_state::SignalKey;
use super::session::Login;
use super::typing::append_key_echo;
use net::Cx;
use protocols::telnet::Command;

impl Login {
    /// Applies a LINEMODE mode received from the remote host. The cursor column is tracked only
    /// while lines are edited locally.
    pub(super) fn apply_linemode(&mut self, cx: &mut Cx<'_>) {
        self.display.screen.track_column(self.protocol.edits_by_linemode() == Some(true));
        self.follow_options(cx);
        self.display.prediction.interrupt();
    }

    /// Processes a key if it is a signal character, or if it stops or resumes output. Returns
    /// whether the key was processed.
    pub(super) fn process_signal_key(&mut self, key: u8, cx: &mut Cx<'_>) -> bool {
        let Some(signal_key) = self.protocol.signal_key(key) else { return false };
        match signal_key {
            SignalKey::StopOutput => self.display.screen.hold(),
            SignalKey::ResumeOutput => self.display.screen.release(),
            SignalKey::Command { command: Command::EndOfFile, .. }
                if !self.input.line.is_empty() =>
            {
                // As on a Unix terminal, an EOF character in a partial line sends that line; on an
                // empty line it means end of file.
                self.send_line_now(cx);
            }
            SignalKey::Command { command, flushes_input, flushes_output } => {
                let mut echo = Vec::new();
                if command != Command::EndOfFile {
                    append_key_echo(key, &mut echo);
                }
                if self.echoes_locally() {
                    self.show_echo(&echo, cx);
                }
                if flushes_input {
                    self.input.line.take();
                }
                self.protocol.send_signal(command, flushes_input, cx);
                if flushes_output && self.protocol.begin_output_drop(cx) {
                    self.display.screen.drop_held();
                }
            }
        }
        true
    }

    /// Sends the partial line after a forwarding character.
    pub(super) fn forward(&mut self, key: u8, cx: &mut Cx<'_>) {
        if !self.input.line.is_literal() && self.protocol.forwards(key) {
            self.send_line_now(cx);
        }
    }
}

#[cfg(test)]
#[path = "linemode_tests.rs"]
mod tests;
