//! Local line editing at the request of the remote host (LINEMODE, RFC 1184).
//!
//! With EDIT, typed text is kept until the line ends or until one of the forwarding characters
//! (FORWARDMASK, SLC). With TRAPSIG, signal characters are sent as Telnet commands, followed by a
//! Synch if input is to be flushed. If output is to be flushed, received data is dropped until the
//! remote host has answered a timing mark (§5.8).

use super::line_editor::EditingKeys;
use super::session::Login;
use super::typing::append_key_echo;
use net::Cx;
use net::time::Duration;
use protocols::telnet::{Command, Linemode, LinemodeMode, OptionCode, Side, SlcFunction};

/// Timeout for the answer to the timing mark that ends an output flush. When it expires, received
/// output is displayed again.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

impl Login {
    /// Returns the LINEMODE state of the remote host, if the session uses Telnet and the host
    /// negotiated it.
    fn negotiated_linemode(&self) -> Option<&Linemode> {
        self.telnet.linemode().filter(|_| self.is_telnet())
    }

    /// Returns whether lines are edited locally at the request of the remote host; `None` without
    /// LINEMODE.
    pub(super) fn edits_by_linemode(&self) -> Option<bool> {
        self.negotiated_linemode().map(|linemode| linemode.mode().has(LinemodeMode::EDIT))
    }

    /// Returns the editing keys.
    pub(super) fn editing_keys(&self) -> EditingKeys {
        let Some(linemode) =
            self.negotiated_linemode().filter(|_| self.edits_by_linemode() == Some(true))
        else {
            return EditingKeys::UNIX;
        };
        let key = |function| linemode.characters().get(function).character();
        EditingKeys {
            erase: [key(SlcFunction::EC), None],
            kill: key(SlcFunction::EL),
            erase_word: key(SlcFunction::EW),
            reprint: key(SlcFunction::RP),
            literal_next: key(SlcFunction::LNEXT),
            keeps_controls: true,
            shows_controls: linemode.mode().has(LinemodeMode::LITERAL_ECHO),
            has_soft_tabs: linemode.mode().has(LinemodeMode::SOFT_TAB),
        }
    }

    /// Applies a LINEMODE mode received from the remote host. The cursor column is tracked only
    /// while lines are edited locally.
    pub(super) fn apply_linemode(&mut self, cx: &mut Cx<'_>) {
        self.screen.track_column(self.edits_by_linemode() == Some(true));
        self.follow_options(cx);
        self.interrupt_prediction();
    }

    /// Returns whether a key is sent as a Telnet command instead of a character.
    pub(super) fn is_signal(&self, key: u8) -> bool {
        self.negotiated_linemode().is_some_and(|linemode| linemode.signal(key).is_some())
    }

    /// Processes a key if it is a signal character, or if it stops or resumes output. Returns
    /// whether the key was processed.
    pub(super) fn process_signal_key(&mut self, key: u8, cx: &mut Cx<'_>) -> bool {
        let Some(linemode) = self.negotiated_linemode() else { return false };
        let has_function = |function| linemode.characters().get(function).character() == Some(key);
        let is_editing = linemode.mode().has(LinemodeMode::EDIT);
        if is_editing && (has_function(SlcFunction::XOFF) || has_function(SlcFunction::XON)) {
            match has_function(SlcFunction::XOFF) {
                true => self.screen.hold(),
                false => self.screen.release(),
            }
            return true;
        }
        let Some(command) = linemode.signal(key) else { return false };
        let character = linemode.characters().get(function(command));
        if command == Command::EndOfFile && !self.line.is_empty() {
            // As on a Unix terminal, an EOF character in a partial line sends that line; on an
            // empty line it means end of file.
            self.send_line_now(cx);
            return true;
        }
        let mut echo = Vec::new();
        if command != Command::EndOfFile {
            append_key_echo(key, &mut echo);
        }
        if self.echoes_locally() {
            self.show_echo(&echo, cx);
        }
        if character.flushes_input {
            self.line.take();
        }
        self.telnet.command(command, cx);
        if character.flushes_input && command != Command::DataMark {
            self.telnet.command(Command::DataMark, cx);
        }
        if character.flushes_output
            && self.telnet.ask(Side::Remote, OptionCode::TIMING_MARK, true, cx).is_ok()
        {
            self.output_drop_deadline = Some(cx.now + FLUSH_TIMEOUT);
            self.screen.drop_held();
        }
        true
    }

    /// Returns whether received output is dropped.
    pub(super) fn drops_output(&mut self, cx: &Cx<'_>) -> bool {
        self.output_drop_deadline = self.output_drop_deadline.filter(|until| cx.now < *until);
        self.output_drop_deadline.is_some()
    }

    /// Sends the partial line after a forwarding character.
    pub(super) fn forward(&mut self, key: u8, cx: &mut Cx<'_>) {
        let forwards_now = |linemode: &Linemode| {
            // Without TRAPSIG, an EOF character would not be sent before the end of the line.
            linemode.forwards(key)
                || linemode.characters().get(SlcFunction::EOF).character() == Some(key)
        };
        let is_editing = self.edits_by_linemode() == Some(true);
        if is_editing
            && !self.line.is_literal()
            && self.negotiated_linemode().is_some_and(forwards_now)
        {
            self.send_line_now(cx);
        }
    }
}

/// Returns the SLC function that corresponds to this Telnet command.
fn function(command: Command) -> SlcFunction {
    match command {
        Command::DataMark => SlcFunction::SYNCH,
        Command::Break => SlcFunction::BRK,
        Command::AbortOutput => SlcFunction::AO,
        Command::AreYouThere => SlcFunction::AYT,
        Command::Abort => SlcFunction::ABORT,
        Command::EndOfFile => SlcFunction::EOF,
        Command::Suspend => SlcFunction::SUSP,
        _ => SlcFunction::IP,
    }
}

#[cfg(test)]
#[path = "linemode_tests.rs"]
mod tests;
