//! Local input of a login: the keyboard, the destination of its keys, the line that is edited
//! locally, and the script that runs the session instead of the keyboard.

use super::line_editor::{EditingKeys, KeyEffect, LineEditor};
use super::script::{Runner, ScriptAction};
use super::session_settings::LineEnd;
use super::terminal_input::Keyboard;
use net::time::Instant;
use protocols::telnet::EndOfLine;
use protocols::terminal::encoding::{Encoder, Encoding};
use std::borrow::Cow;

/// Destination of typed keys.
#[derive(Debug)]
enum KeyTarget {
    /// The remote host.
    Session,
    /// The command line of the prompt.
    Prompt(LineEditor),
    /// plumb, which runs the next key as a single-letter command.
    Letter,
}

/// Exit status of a script, and the reason of a failure.
pub(super) type ScriptEnd = (u8, Option<String>);

/// Input part of a login.
pub(super) struct LocalInput {
    pub(super) keyboard: Keyboard,
    /// Partial line, while whole lines are sent.
    pub(super) line: LineEditor,
    /// Whether the remote host has displayed a prompt before a key was typed, over plain TCP.
    pub(super) has_prompt: bool,
    key_target: KeyTarget,
    encoder: Encoder,
    /// Whether the last byte of piped input was a CR, which is not sent before the next byte is
    /// known.
    has_cr: bool,
    /// Script that runs the session instead of the keyboard.
    script: Option<Runner>,
    script_end: Option<ScriptEnd>,
}

impl LocalInput {
    /// Creates the input of a session with a remote host that uses this character set.
    pub(super) fn new(keyboard: Keyboard, encoding: Encoding) -> Self {
        Self {
            keyboard,
            line: LineEditor::default(),
            has_prompt: false,
            key_target: KeyTarget::Session,
            encoder: Encoder::new(encoding),
            has_cr: false,
            script: None,
            script_end: None,
        }
    }

    /// Returns the keyboard and the script, for a new connection.
    pub(super) fn into_keyboard_and_script(self) -> (Keyboard, Option<Runner>) {
        (self.keyboard, self.script)
    }

    /// Returns whether typed keys are sent to the remote host.
    pub(super) fn is_in_session(&self) -> bool {
        matches!(self.key_target, KeyTarget::Session)
    }

    /// Returns whether typed keys go to the command line of the prompt.
    pub(super) fn is_at_prompt(&self) -> bool {
        matches!(self.key_target, KeyTarget::Prompt(_))
    }

    /// Returns the command line of the prompt.
    pub(super) fn prompt_line(&self) -> Option<&LineEditor> {
        match &self.key_target {
            KeyTarget::Prompt(line) => Some(line),
            KeyTarget::Session | KeyTarget::Letter => None,
        }
    }

    /// Directs typed keys to the command line of the prompt.
    pub(super) fn open_prompt(&mut self) {
        self.key_target = KeyTarget::Prompt(LineEditor::default());
    }

    /// Directs the next key to plumb, as a single-letter command.
    pub(super) fn await_letter(&mut self) {
        self.key_target = KeyTarget::Letter;
    }

    /// Directs typed keys to the remote host.
    pub(super) fn return_to_session(&mut self) {
        self.key_target = KeyTarget::Session;
    }

    /// Processes a key at the prompt and appends its echo to `echo`. Returns its effect and whether
    /// the command line is empty, or `None` without a prompt.
    pub(super) fn edit_prompt(&mut self, key: u8, echo: &mut Vec<u8>) -> Option<(KeyEffect, bool)> {
        let KeyTarget::Prompt(line) = &mut self.key_target else { return None };
        let key_effect = line.process_key(key, &EditingKeys::UNIX, echo);
        Some((key_effect, line.is_empty()))
    }

    /// Returns the command line and starts an empty command line.
    pub(super) fn take_prompt_line(&mut self) -> String {
        match &mut self.key_target {
            KeyTarget::Prompt(line) => String::from_utf8_lossy(&line.take()).into_owned(),
            KeyTarget::Session | KeyTarget::Letter => String::new(),
        }
    }

    /// Converts the user's text to the encoding of the remote host.
    pub(super) fn encode<'a>(&mut self, text: &'a [u8]) -> Cow<'a, [u8]> {
        if self.encoder.is_plain() {
            return Cow::Borrowed(text);
        }
        let mut encoded = Vec::with_capacity(text.len());
        self.encoder.encode(text, &mut encoded);
        Cow::Owned(encoded)
    }

    /// Converts piped input: lines that end with LF are sent with the line end `end`.
    pub(super) fn convert_piped(&mut self, data: &[u8], end: EndOfLine) -> Vec<u8> {
        let end = LineEnd::engine_input(end);
        let mut encoded = Vec::with_capacity(data.len() + data.len() / 16 + 2);
        if std::mem::take(&mut self.has_cr) {
            encoded.push(b'\r');
        }
        for piece in data.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            encoded.extend_from_slice(text);
            match encoded.last() {
                _ if text.len() == piece.len() => {}
                Some(b'\r') => encoded.push(b'\n'),
                _ => encoded.extend_from_slice(end),
            }
        }
        // Only the next byte shows whether a CR ends a line.
        self.has_cr = encoded.pop_if(|last| *last == b'\r').is_some();
        encoded
    }

    /// Returns, once, whether the piped input so far ends with a CR that was not sent.
    pub(super) fn take_piped_cr(&mut self) -> bool {
        std::mem::take(&mut self.has_cr)
    }

    /// Runs the session by `script` instead of the keyboard.
    pub(super) fn set_script(&mut self, script: Option<Runner>) {
        self.script = script;
    }

    /// Returns whether a script runs the session.
    pub(super) fn has_script(&self) -> bool {
        self.script.is_some()
    }

    /// Passes output of the remote host to the script.
    pub(super) fn show_to_script(&mut self, text: &[u8]) {
        if let Some(script) = &mut self.script {
            script.receive(text);
        }
    }

    /// Passes data that a file transfer receives to the script, which recognizes its prompt.
    pub(super) fn show_transfer_to_script(&mut self, data: &[u8]) {
        if let Some(script) = &mut self.script {
            script.observe_transfer(data);
        }
    }

    /// Notifies the script that the remote host has closed the connection.
    pub(super) fn notify_script_of_end(&mut self) {
        if let Some(script) = &mut self.script {
            script.end();
        }
    }

    /// Returns the next action of the script, or `None` while the script waits.
    pub(super) fn next_script_action(&mut self, now: Instant) -> Option<ScriptAction> {
        self.script.as_mut()?.next_action(now)
    }

    /// Notifies the script that a file transfer has begun.
    pub(super) fn notify_script_of_transfer(&mut self) {
        if let Some(script) = &mut self.script {
            script.transfer_began();
        }
    }

    /// Notifies the script that a file transfer has ended, with its failure, if any. Returns whether
    /// the script has waited for it.
    pub(super) fn end_script_transfer(&mut self, failure: Option<String>) -> bool {
        self.script.as_mut().is_some_and(|script| script.transfer_ended(failure))
    }

    /// Returns the time at which the script must run even without new output.
    pub(super) fn script_deadline(&self) -> Option<Instant> {
        self.script.as_ref().and_then(Runner::deadline)
    }

    /// Ends the script and continues the session from the keyboard.
    pub(super) fn hand_over_to_keyboard(&mut self) {
        self.script = None;
    }

    /// Ends the script with an exit status and the reason of a failure.
    pub(super) fn end_script(&mut self, script_end: ScriptEnd) {
        self.script = None;
        self.script_end = Some(script_end);
    }

    /// Returns and removes the exit status of the script.
    pub(super) fn take_script_end(&mut self) -> Option<ScriptEnd> {
        self.script_end.take()
    }
}
