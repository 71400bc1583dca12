//! LINEMODE (RFC 1184) as the remote host has negotiated it: the editing keys, the signal
//! characters, the forwarding characters, and the time for which received output is dropped.

use super::SessionProtocol;
use crate::login::line_editor::EditingKeys;
use net::Cx;
use net::time::Duration;
use protocols::telnet::{Command, Linemode, LinemodeMode, OptionCode, Side, SlcFunction};

/// Timeout for the answer to the timing mark that ends an output flush. When it expires, received
/// output is displayed again.
pub(in crate::login) const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Function of a key that is not sent as a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::login) enum SignalKey {
    /// Stops the display of output.
    StopOutput,
    /// Resumes the display of output.
    ResumeOutput,
    /// Is sent as a Telnet command.
    Command {
        /// The command.
        command: Command,
        /// Whether the partial line is discarded, and a Synch follows the command.
        flushes_input: bool,
        /// Whether received output is dropped until the remote host has read the command.
        flushes_output: bool,
    },
}

impl SessionProtocol {
    /// Returns the LINEMODE state of the remote host, if the session uses Telnet and the host
    /// negotiated it.
    fn negotiated_linemode(&self) -> Option<&Linemode> {
        self.telnet.linemode().filter(|_| self.is_telnet())
    }

    /// Returns whether lines are edited locally at the request of the remote host; `None` without
    /// LINEMODE.
    pub(in crate::login) fn edits_by_linemode(&self) -> Option<bool> {
        self.negotiated_linemode().map(|linemode| linemode.mode().has(LinemodeMode::EDIT))
    }

    /// Returns the editing keys.
    pub(in crate::login) fn editing_keys(&self) -> EditingKeys {
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

    /// Returns whether a key is sent as a Telnet command instead of a character.
    pub(in crate::login) fn is_signal(&self, key: u8) -> bool {
        self.negotiated_linemode().is_some_and(|linemode| linemode.signal(key).is_some())
    }

    /// Returns the function of a key that is a signal character, or that stops or resumes output.
    pub(in crate::login) fn signal_key(&self, key: u8) -> Option<SignalKey> {
        let linemode = self.negotiated_linemode()?;
        let has_function = |function| linemode.characters().get(function).character() == Some(key);
        if linemode.mode().has(LinemodeMode::EDIT) {
            if has_function(SlcFunction::XOFF) {
                return Some(SignalKey::StopOutput);
            }
            if has_function(SlcFunction::XON) {
                return Some(SignalKey::ResumeOutput);
            }
        }
        let command = linemode.signal(key)?;
        let character = linemode.characters().get(function(command));
        let flushes_input = character.flushes_input;
        let flushes_output = character.flushes_output;
        Some(SignalKey::Command { command, flushes_input, flushes_output })
    }

    /// Sends a signal: its command, followed by a Synch if `flushes_input`.
    pub(in crate::login) fn send_signal(
        &mut self,
        command: Command,
        flushes_input: bool,
        cx: &mut Cx<'_>,
    ) {
        self.telnet.command(command, cx);
        if flushes_input && command != Command::DataMark {
            self.telnet.command(Command::DataMark, cx);
        }
    }

    /// Starts to drop received output until the remote host answers a timing mark (§5.8); returns
    /// `false` if the mark cannot be sent.
    pub(in crate::login) fn begin_output_drop(&mut self, cx: &mut Cx<'_>) -> bool {
        let is_sent = self.telnet.ask(Side::Remote, OptionCode::TIMING_MARK, true, cx).is_ok();
        if is_sent {
            self.output_drop_deadline = Some(cx.now + FLUSH_TIMEOUT);
        }
        is_sent
    }

    /// Stops to drop received output: the remote host has answered a timing mark.
    pub(in crate::login) fn end_output_drop(&mut self) {
        self.output_drop_deadline = None;
    }

    /// Returns whether received output is dropped.
    pub(in crate::login) fn drops_output(&mut self, cx: &Cx<'_>) -> bool {
        self.output_drop_deadline = self.output_drop_deadline.filter(|until| cx.now < *until);
        self.output_drop_deadline.is_some()
    }

    /// Returns whether a partial line is sent after this key.
    pub(in crate::login) fn forwards(&self, key: u8) -> bool {
        let forwards_now = |linemode: &Linemode| {
            // Without TRAPSIG, an EOF character would not be sent before the end of the line.
            linemode.forwards(key)
                || linemode.characters().get(SlcFunction::EOF).character() == Some(key)
        };
        self.edits_by_linemode() == Some(true)
            && self.negotiated_linemode().is_some_and(forwards_now)
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
