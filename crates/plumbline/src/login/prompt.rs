//! Input after the escape character: the prompt with its commands, or a single letter as in 1982.
//!
//! After a command with an effect the session continues. After a command that prints information
//! the prompt is displayed again. An empty line continues the session. The terminal stays in raw
//! mode, and the command line is edited locally.

use super::line_editor::{EditingKeys, KeyEffect, LineEditor};
use super::paging::WrappedText;
use super::prompt_command::{
    Command, LETTERS_HELP, SendArgument, Setting, ToggleArgument, file_name_to_complete, help_on,
    help_page,
};
use super::session::{Login, Stage};
use super::session_settings::{Echo, LineEnd, Mode, Predict, PromptStyle};
use super::status_page;
use carrier::CarrierStatus;
use net::Cx;
use net::meter::Account;
use protocols::telnet::{Command as TelnetCommand, EndOfLine, OptionCode, Side};
use transfer::modem::{PathCompletion, complete_path};

const PROMPT: &[u8] = b"plumb> ";
/// ^C cancels the line and returns to the session.
const CANCEL: u8 = 0x03;
/// ^D ends the session.
const END_OF_FILE: u8 = 0x04;
/// Tab completes the name of a file.
const TAB: u8 = b'\t';
/// ^Z suspends the process.
const SUSPEND: u8 = 0x1a;

impl Login {
    /// Processes the escape character.
    pub(super) fn escape(&mut self) {
        self.display.prediction.interrupt();
        match self.settings.keys {
            PromptStyle::Letters => self.input.await_letter(),
            PromptStyle::Prompt => {
                self.hold_for_prompt();
                self.show_prompt();
            }
        }
    }

    /// Directs keys to the prompt and holds the output of the remote host.
    pub(super) fn hold_for_prompt(&mut self) {
        self.input.open_prompt();
        self.display.screen.hold();
        self.display.free_prompt_row();
    }

    /// Displays the prompt and the typed text on a separate line.
    pub(super) fn show_prompt(&mut self) {
        let Some(line) = self.input.prompt_line() else { return };
        let mut text = Vec::new();
        if self.display.screen.is_in_line() {
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(PROMPT);
        line.show(&EditingKeys::UNIX, &mut text);
        self.display.screen.put(&text);
    }

    /// Processes one key that is not sent to the remote host.
    pub(super) fn process_prompt_key(&mut self, key: u8, cx: &mut Cx<'_>) {
        if key == TAB && self.input.is_at_prompt() {
            return self.complete_file_name();
        }
        let mut echo = Vec::new();
        let Some((key_effect, is_empty)) = self.input.edit_prompt(key, &mut echo) else {
            self.input.return_to_session();
            return self.run_letter_command(key, cx);
        };
        self.display.screen.put(&echo);
        match key_effect {
            KeyEffect::Processed => {}
            KeyEffect::LineComplete => {
                let line = self.input.take_prompt_line();
                self.execute(&line, cx);
            }
            KeyEffect::Control(END_OF_FILE) if is_empty => self.close_session(cx),
            KeyEffect::Control(SUSPEND) => self.suspend(cx),
            KeyEffect::Control(control)
                if control == CANCEL || Some(control) == self.settings.escape.0 =>
            {
                self.display.screen.put(b"\r\n");
                self.refuse_files(cx);
                self.return_to_session();
            }
            KeyEffect::Control(_) => self.display.ring(),
        }
    }

    /// Completes the name of a local file in a `send` command.
    fn complete_file_name(&mut self) {
        let line = self.input.prompt_line().map(LineEditor::text).unwrap_or_default();
        let line = String::from_utf8_lossy(line).into_owned();
        let Some(word) = file_name_to_complete(&line) else { return self.display.ring() };
        let PathCompletion { addition, names } = complete_path(word);
        if !names.is_empty() {
            return self.show_message(&names.join(" "));
        }
        if addition.is_empty() {
            return self.display.ring();
        }
        let mut echo = Vec::new();
        for key in addition.bytes() {
            self.input.edit_prompt(key, &mut echo);
        }
        self.display.screen.put(&echo);
    }

    fn execute(&mut self, line: &str, cx: &mut Cx<'_>) {
        match Command::parse(line) {
            Ok(Command::Status) => return self.status.request(cx),
            Ok(Command::Help(word)) => return self.show_help(&word),
            Err(error) => return self.show_message(&error.to_string()),
            Ok(Command::Suspend) => return self.suspend(cx),
            Ok(Command::Close) => self.close_session(cx),
            Ok(Command::Reconnect) => self.stage = Stage::Reconnect,
            Ok(Command::Return) => self.refuse_files(cx),
            Ok(Command::Transfer(command)) => {
                if let Err(sentence) = self.start_transfer(command, cx) {
                    self.show_message(&sentence);
                }
                return;
            }
            Ok(Command::Send(argument)) => {
                if !self.send_command(argument, cx) {
                    return self.show_message(match self.protocol.is_telnet() {
                        true => "The remote host accepts no data at present: try again later.",
                        false => "This command needs Telnet, which this connection does not use.",
                    });
                }
            }
            Ok(Command::Set(setting)) => self.set(setting, cx),
            Ok(Command::Toggle(argument)) => self.toggle(argument, cx),
        }
        self.return_to_session();
    }

    /// Runs a single-letter command of 1982; a second escape character is sent.
    fn run_letter_command(&mut self, key: u8, cx: &mut Cx<'_>) {
        let telnet = |command| SendArgument::Telnet(command);
        match key {
            b'a' => _ = self.send_command(telnet(TelnetCommand::AreYouThere), cx),
            b'b' => _ = self.send_command(telnet(TelnetCommand::Break), cx),
            b'c' | b'q' => self.close_session(cx),
            b'e' => self.set(Setting::Mode(Mode::Character), cx),
            b'E' => self.set(Setting::Mode(Mode::Line), cx),
            b'l' => self.settings.echo = Echo::Local,
            b'r' => self.settings.echo = Echo::Remote,
            b's' => self.status.request(cx),
            b'x' => self.send_line_now(cx),
            b'?' => self.show_help(""),
            SUSPEND => self.suspend(cx),
            key if Some(key) == self.settings.escape.0 => {
                _ = self.send_command(SendArgument::Escape, cx);
            }
            _ => self.display.ring(),
        }
    }

    /// Sends a command; returns `false` if the connection cannot accept the command.
    fn send_command(&mut self, argument: SendArgument, cx: &mut Cx<'_>) -> bool {
        match (argument, self.settings.escape.0) {
            (SendArgument::Telnet(command), _) => self.protocol.queue_command(command, cx),
            (SendArgument::Escape, Some(key)) => {
                self.send(&[key], cx);
                true
            }
            (SendArgument::Escape, None) => true,
        }
    }

    fn set(&mut self, setting: Setting, cx: &mut Cx<'_>) {
        match setting {
            Setting::Escape(escape) => self.settings.escape = escape,
            Setting::LineEnd(line_end) => self.settings.line_end = line_end,
            Setting::Echo(echo) => self.settings.echo = echo,
            Setting::Predict(predict) => self.set_prediction(predict, cx),
            Setting::Mode(mode) => {
                self.settings.mode = mode;
                if !self.is_line_mode() {
                    self.send_line_now(cx);
                }
            }
        }
    }

    fn set_prediction(&mut self, predict: Predict, cx: &mut Cx<'_>) {
        self.settings.predict = predict;
        let is_enabled = self.display.prediction.predictor().is_some();
        self.request_acknowledgments(predict != Predict::Never && is_enabled, cx);
        self.display.prediction.set_mode(predict);
    }

    fn toggle_status_line(&mut self, cx: &mut Cx<'_>) {
        self.settings.has_status_line = !self.settings.has_status_line;
        self.display.change_status_line(&self.settings, cx);
        self.fit_screen(cx);
    }

    fn toggle(&mut self, argument: ToggleArgument, cx: &mut Cx<'_>) {
        match argument {
            ToggleArgument::LocalEcho => {
                self.settings.echo = if self.echoes_locally() { Echo::Remote } else { Echo::Local };
            }
            ToggleArgument::Line => {
                let mode = if self.is_line_mode() { Mode::Character } else { Mode::Line };
                self.set(Setting::Mode(mode), cx);
            }
            ToggleArgument::StatusLine => self.toggle_status_line(cx),
            ToggleArgument::Inspect => {
                self.settings.inspects = !self.settings.inspects;
                let is_wanted = self.settings.inspects || self.logs.records_negotiation();
                self.protocol.set_inspection(is_wanted);
            }
            ToggleArgument::Binary => {
                let is_binary = self.protocol.is_enabled(Side::Local, OptionCode::BINARY)
                    || self.protocol.is_enabled(Side::Remote, OptionCode::BINARY);
                self.protocol.ask_binary(!is_binary, cx);
            }
            ToggleArgument::CrLf => {
                let is_crlf = self.line_end() == EndOfLine::CrLf;
                let end = if is_crlf { EndOfLine::CrNul } else { EndOfLine::CrLf };
                self.settings.line_end = LineEnd(Some(end));
            }
        }
    }

    /// Suspends the process until the user resumes it, and then returns to the session.
    fn suspend(&mut self, cx: &mut Cx<'_>) {
        self.display.screen.put(b"\r\n");
        self.display.suspend_screen();
        self.display.predict_pending_output(cx);
        self.display.drain(self.settings.is_interactive, cx);
        self.display.prediction.other_output_written();
        let previous_account = cx.meter.enter(Account::Outside);
        let suspend_result = self.input.keyboard.suspend();
        cx.meter.enter(previous_account);
        match suspend_result {
            Ok(()) => self.return_to_session(),
            Err(_) => {
                self.show_message(
                    "Cannot suspend plumb: the shell that started it cannot resume it.",
                );
            }
        }
    }

    pub(super) fn return_to_session(&mut self) {
        self.input.return_to_session();
        self.display.screen.release();
    }

    /// Displays a message, followed by a new prompt.
    fn show_message(&mut self, sentence: &str) {
        let mut page = WrappedText::new(self.display.window().0);
        page.push_sentence(sentence);
        self.show(page);
    }

    fn show(&mut self, page: WrappedText) {
        if self.display.screen.is_in_line() {
            self.display.screen.put(b"\r\n");
        }
        self.display.screen.put(page.finish().as_bytes());
        self.show_prompt();
    }

    fn show_help(&mut self, word: &str) {
        let columns = self.display.window().0;
        self.show(match self.settings.keys {
            PromptStyle::Prompt => help_page(&help_on(word), true, columns),
            PromptStyle::Letters => help_page(LETTERS_HELP, false, columns),
        });
    }

    /// Displays the carrier's status together with the status of this session.
    pub(super) fn show_status(&mut self, carrier: &CarrierStatus) {
        if let Some(status_request) = self.status.take_request() {
            let page = status_page::page(self, status_request, carrier);
            self.show(page);
        }
    }
}
