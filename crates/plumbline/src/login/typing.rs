//! Processing of keys, piped input and the actions of a script: local line editing, single
//! characters, line ends, and the prediction of echoes.

use super::line_editor::{EditingKeys, KeyEffect};
use super::script::ScriptAction;
use super::session::{Login, Stage};
use super::session_settings::{LineEnd, LoginProtocol};
use net::Cx;
use protocols::telnet::{Command, OptionCode, Side};
use transfer::modem::Interruption;

impl Login {
    /// Processes typed keys.
    pub(super) fn process_typed_keys(&mut self, keys: &[u8], cx: &mut Cx<'_>) {
        let mut rest = keys;
        if self.transfers.is_active() {
            return self.process_transfer_keys(keys, cx);
        }
        let has_ended =
            |stage| matches!(stage, Stage::LocalClosed | Stage::Reconnect | Stage::Cancelling);
        while !rest.is_empty() && !has_ended(self.stage) {
            if !self.input.is_in_session() {
                let (key, others) = rest.split_at_checked(1).unwrap_or_default();
                rest = others;
                self.process_prompt_key(key.first().copied().unwrap_or_default(), cx);
                continue;
            }
            let escape = self.settings.escape.0;
            let end = rest.iter().position(|key| Some(*key) == escape);
            let (keys, others) =
                rest.split_at_checked(end.unwrap_or(rest.len())).unwrap_or_default();
            self.process_remote_keys(keys, cx);
            self.record_sent_position();
            self.request_timing_mark(cx);
            rest = others;
            if end.is_some() {
                rest = rest.get(1..).unwrap_or_default();
                self.escape();
            }
        }
    }

    /// Processes keys for the remote host.
    fn process_remote_keys(&mut self, keys: &[u8], cx: &mut Cx<'_>) {
        if !keys.is_empty() {
            self.display.key_sent(cx.now);
            self.status.key_typed(cx.now);
            self.detect_prompt();
        }
        if self.is_line_mode() {
            // Looked up once: the editing keys cannot change while these keys are processed.
            let editing_keys = self.protocol.editing_keys();
            for key in keys {
                let is_literal = self.input.line.is_literal();
                if is_literal || !self.process_signal_key(*key, cx) {
                    self.edit_line(*key, &editing_keys, cx);
                    if !is_literal {
                        self.forward(*key, cx);
                    }
                }
            }
            return;
        }
        let mut rest = keys;
        while self.protocol.edits_by_linemode().is_some() && !rest.is_empty() {
            let is_signal = |key: &u8| self.protocol.is_signal(*key);
            let end = rest.iter().position(is_signal).unwrap_or(rest.len());
            let (plain, others) = rest.split_at_checked(end).unwrap_or_default();
            self.send_character_keys(plain, cx);
            rest = others;
            if let Some((signal, others)) = others.split_first() {
                self.process_signal_key(*signal, cx);
                rest = others;
            }
        }
        self.send_character_keys(rest, cx);
    }

    /// Over plain TCP, a host whose last line has no end waits for keys, and displays them itself; other
    /// hosts expect lines.
    fn detect_prompt(&mut self) {
        let is_in_line =
            self.transfers.last_byte.is_some_and(|byte| !matches!(byte, b'\r' | b'\n'));
        if is_in_line && self.input.line.is_empty() {
            self.input.has_prompt = true;
        }
    }

    /// Predicts the echo of keys that the remote host is expected to echo.
    fn predict(&mut self, keys: &[u8], cx: &mut Cx<'_>) {
        if self.display.prediction.typed(keys, self.settings.predict, cx) {
            self.request_acknowledgments(false, cx);
        }
    }

    /// Records the current position in the sent stream for the last key, if the remote host
    /// acknowledges echoes.
    fn record_sent_position(&mut self) {
        let prediction = &mut self.display.prediction;
        if prediction.predictor().is_some() && self.protocol.has_acknowledgments() {
            prediction.record_sent_position(self.protocol.sent_position());
        }
    }

    /// Sends a timing mark (RFC 860) after the keys, if its answer is useful for the prediction.
    fn request_timing_mark(&mut self, cx: &mut Cx<'_>) {
        let prediction = &mut self.display.prediction;
        if !self.protocol.has_acknowledgments()
            && prediction.wants_timing_mark()
            && self.protocol.ask_timing_mark(cx)
        {
            prediction.timing_mark_sent(cx);
        }
    }

    /// Processes keys that are sent one by one.
    fn send_character_keys(&mut self, keys: &[u8], cx: &mut Cx<'_>) {
        if keys.is_empty() {
            return;
        }
        if self.display.type_emulated(keys, cx) {
            return self.send_emulator_output(cx);
        }
        if self.echoes_locally() {
            let mut echo = Vec::new();
            keys.iter().for_each(|key| append_key_echo(*key, &mut echo));
            self.show_echo(&echo, cx);
        } else {
            self.predict(keys, cx);
        }
        self.send_keys(keys, cx);
    }

    /// Sends keys unchanged, except for the key at the end of a line.
    pub(super) fn send_keys(&mut self, keys: &[u8], cx: &mut Cx<'_>) {
        let end = LineEnd::engine_input(self.line_end());
        // The engine encodes a CR as CR NUL, so most keys are sent unchanged.
        if end == b"\r" || self.protocol.is_enabled(Side::Local, OptionCode::BINARY) {
            return self.send_text(keys, cx);
        }
        for piece in keys.split_inclusive(|key| *key == b'\r') {
            match piece.strip_suffix(b"\r") {
                Some(text) => {
                    self.send_text(text, cx);
                    self.send_text(end, cx);
                }
                None => self.send_text(piece, cx),
            }
        }
    }

    fn edit_line(&mut self, key: u8, editing_keys: &EditingKeys, cx: &mut Cx<'_>) {
        let mut echo = Vec::new();
        self.input.line.begin_at(self.display.screen.column());
        match self.input.line.process_key(key, editing_keys, &mut echo) {
            KeyEffect::Processed => {}
            KeyEffect::LineComplete => {
                let mut line = self.input.line.take();
                line.extend_from_slice(LineEnd::engine_input(self.line_end()));
                self.send_text(&line, cx);
            }
            KeyEffect::Control(control) => {
                append_key_echo(control, &mut echo);
                if control == INTERRUPT && self.protocol.is_telnet() {
                    // As at a Unix terminal, the line is discarded and the remote program
                    // interrupted, here by the Telnet command (RFC 854).
                    self.input.line.take();
                    self.protocol.queue_command(Command::InterruptProcess, cx);
                } else {
                    self.send_line_now(cx);
                    self.send_text(&[control], cx);
                }
            }
        }
        if self.echoes_locally() {
            self.show_echo(&echo, cx);
        }
    }

    /// Sends the partial line without a line end.
    pub(super) fn send_line_now(&mut self, cx: &mut Cx<'_>) {
        let line = self.input.line.take();
        self.send_text(&line, cx);
    }

    /// Converts and sends piped input: lines that end with LF are sent with the selected line end.
    pub(super) fn send_piped(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        if self.settings.is_binary {
            return self.send(data, cx);
        }
        // A serial line leads to a terminal port of the remote machine, whose line end key is CR.
        let is_line =
            matches!(self.settings.protocol, LoginProtocol::Serial | LoginProtocol::ComPort(_));
        let end = self.settings.line_end.for_mode(!is_line);
        let encoded = self.input.convert_piped(data, end);
        self.send_text(&encoded, cx);
    }

    /// Processes the end of piped input.
    pub(super) fn end_pipe(&mut self, cx: &mut Cx<'_>) {
        if self.input.take_piped_cr() {
            self.send_text(b"\r", cx);
        }
        self.stage = Stage::Closing;
    }

    /// Runs the script, if there is one, as far as it can proceed now.
    pub(super) fn run_script(&mut self, cx: &mut Cx<'_>) {
        while self.stage == Stage::Open
            && !self.protocol.start_tls.is_awaited()
            && let Some(action) = self.input.next_script_action(cx.now)
        {
            self.perform(action, cx);
        }
    }

    /// Runs the script to its end, because the remote host has closed the connection.
    pub(super) fn end_script(&mut self, cx: &mut Cx<'_>) {
        self.input.notify_script_of_end();
        while let Some(action) = self.input.next_script_action(cx.now) {
            self.perform(action, cx);
        }
    }

    fn perform(&mut self, action: ScriptAction, cx: &mut Cx<'_>) {
        match action {
            ScriptAction::Send(keys) => self.send_keys(&keys, cx),
            ScriptAction::Break => _ = self.protocol.queue_command(Command::Break, cx),
            ScriptAction::Transfer(command) => self.start_script_transfer(command, cx),
            ScriptAction::EndTransfer => self.abort_transfer(Interruption::ProgramEnded, cx),
            ScriptAction::Say(sentence) => super::say(&sentence),
            ScriptAction::Interact => {
                self.input.hand_over_to_keyboard();
                self.enter_raw_mode();
            }
            ScriptAction::Exit(code, why) => {
                self.input.end_script((code, why));
                if self.stage == Stage::Open {
                    self.close_session(cx);
                }
            }
        }
    }
}

/// Appends the local echo of a key.
pub(super) fn append_key_echo(key: u8, echo: &mut Vec<u8>) {
    match key {
        b'\r' | b'\n' => echo.extend_from_slice(b"\r\n"),
        0x08 | 0x7f => echo.extend_from_slice(b"\x08 \x08"),
        b'\t' => echo.push(key),
        0..b' ' => echo.extend_from_slice(&[b'^', key + b'@']),
        _ => echo.push(key),
    }
}

const INTERRUPT: u8 = 3;
