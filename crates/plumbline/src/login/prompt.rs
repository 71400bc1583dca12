//! Input after the escape character: the prompt with its commands, or a single letter as in 1982.
//!
//! After a command with an effect the session continues. After a command that prints information
//! the prompt is displayed again. An empty line continues the session. The terminal stays in raw
//! mode, and the command line is edited locally.

use super::line_editor::{EditingKeys, KeyEffect, LineEditor};
use super::paging::WrappedText;
use super::prompt_command::{Command, HELP, LETTERS_HELP, SendArgument, Setting, ToggleArgument};
use super::session::{Login, Stage};
use super::session_settings::{Echo, LineEnd, Mode, PromptStyle};
use super::status_page;
use carrier::CarrierStatus;
use net::Cx;
use net::meter::Account;
use net::time::Instant;
use protocols::telnet::{Command as TelnetCommand, EndOfLine, OptionCode, Side};

const PROMPT: &[u8] = b"plumb> ";
/// ^C cancels the line and returns to the session.
const CANCEL: u8 = 0x03;
/// ^D ends the session.
const END_OF_FILE: u8 = 0x04;
/// ^Z suspends the process.
const SUSPEND: u8 = 0x1a;

/// Destination of typed keys.
#[derive(Debug)]
pub(super) enum KeyTarget {
    /// The remote host.
    Session,
    /// The command line of the prompt.
    Prompt(LineEditor),
    /// plumb, which runs the next key as a single-letter command.
    Letter,
}

/// A pending request for the status of the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatusRequest {
    /// Time of the request.
    pub(super) now: Instant,
    /// Ticks charged to each account of the meter at the time of the request.
    pub(super) accounts: [u64; Account::COUNT],
}

impl Login {
    /// Processes the escape character.
    pub(super) fn escape(&mut self) {
        self.interrupt_prediction();
        match self.settings.keys {
            PromptStyle::Letters => self.key_target = KeyTarget::Letter,
            PromptStyle::Prompt => {
                self.key_target = KeyTarget::Prompt(LineEditor::default());
                self.screen.hold();
                self.free_prompt_row();
                self.show_prompt();
            }
        }
    }

    /// Displays the prompt and the typed text on a separate line.
    pub(super) fn show_prompt(&mut self) {
        let KeyTarget::Prompt(line) = &self.key_target else { return };
        let mut text = Vec::new();
        if self.screen.is_in_line() {
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(PROMPT);
        line.show(&EditingKeys::UNIX, &mut text);
        self.screen.put(&text);
    }

    /// Processes one key that is not sent to the remote host.
    pub(super) fn process_prompt_key(&mut self, key: u8, cx: &mut Cx<'_>) {
        let KeyTarget::Prompt(line) = &mut self.key_target else {
            self.key_target = KeyTarget::Session;
            return self.run_letter_command(key, cx);
        };
        let mut echo = Vec::new();
        let key_effect = line.process_key(key, &EditingKeys::UNIX, &mut echo);
        let is_empty = line.is_empty();
        self.screen.put(&echo);
        match key_effect {
            KeyEffect::Processed => {}
            KeyEffect::LineComplete => {
                let line = take_line(&mut self.key_target);
                self.execute(&line, cx);
            }
            KeyEffect::Control(END_OF_FILE) if is_empty => self.stage = Stage::LocalClosed,
            KeyEffect::Control(SUSPEND) => self.suspend(cx),
            KeyEffect::Control(control)
                if control == CANCEL || Some(control) == self.settings.escape.0 =>
            {
                self.screen.put(b"\r\n");
                self.return_to_session();
            }
            KeyEffect::Control(_) => self.screen.put(b"\x07"),
        }
    }

    fn execute(&mut self, line: &str, cx: &mut Cx<'_>) {
        match Command::parse(line) {
            Ok(Command::Status) => return self.request_status(cx),
            Ok(Command::Help) => return self.show_help(),
            Err(error) => return self.show_message(&error.to_string()),
            Ok(Command::Suspend) => return self.suspend(cx),
            Ok(Command::Close) => self.stage = Stage::LocalClosed,
            Ok(Command::Reconnect) => self.stage = Stage::Reconnect,
            Ok(Command::Return) => {}
            Ok(Command::Send(argument)) => {
                if !self.send_command(argument, cx) {
                    return self.show_message(match self.is_telnet() {
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
            b'c' | b'q' => self.stage = Stage::LocalClosed,
            b'e' => self.set(Setting::Mode(Mode::Character), cx),
            b'E' => self.set(Setting::Mode(Mode::Line), cx),
            b'l' => self.settings.echo = Echo::Local,
            b'r' => self.settings.echo = Echo::Remote,
            b's' => self.request_status(cx),
            b'x' => self.send_line_now(cx),
            b'?' => self.show_help(),
            SUSPEND => self.suspend(cx),
            key if Some(key) == self.settings.escape.0 => {
                _ = self.send_command(SendArgument::Escape, cx);
            }
            _ => self.screen.put(b"\x07"),
        }
    }

    /// Sends a command; returns `false` if the connection cannot accept the command.
    fn send_command(&mut self, argument: SendArgument, cx: &mut Cx<'_>) -> bool {
        match (argument, self.settings.escape.0) {
            (SendArgument::Telnet(command), _) => self.queue_command(command, cx),
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
                self.telnet.set_inspection(is_wanted);
            }
            ToggleArgument::Binary => {
                let is_binary = self.telnet.is_enabled(Side::Local, OptionCode::BINARY)
                    || self.telnet.is_enabled(Side::Remote, OptionCode::BINARY);
                self.ask_binary(!is_binary, cx);
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
        self.screen.put(b"\r\n");
        self.suspend_screen();
        self.predict_pending_output(cx);
        self.drain_display(cx);
        self.on_local_output();
        let previous_account = cx.meter.enter(Account::Outside);
        let suspend_result = self.terminal.suspend();
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

    fn return_to_session(&mut self) {
        self.key_target = KeyTarget::Session;
        self.screen.release();
    }

    /// Displays a message, followed by a new prompt.
    fn show_message(&mut self, sentence: &str) {
        let mut page = WrappedText::new(self.window.0);
        page.push_sentence(sentence);
        self.show(page);
    }

    fn show(&mut self, page: WrappedText) {
        if self.screen.is_in_line() {
            self.screen.put(b"\r\n");
        }
        self.screen.put(page.finish().as_bytes());
        self.show_prompt();
    }

    fn show_help(&mut self) {
        let mut page = WrappedText::new(self.window.0);
        let help = match self.settings.keys {
            PromptStyle::Prompt => HELP,
            PromptStyle::Letters => LETTERS_HELP,
        };
        let width = help.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, text) in help {
            page.push_entry(name, width, text);
        }
        if self.settings.keys == PromptStyle::Prompt {
            page.push_sentence("Words can be abbreviated to a unique prefix.");
        }
        self.show(page);
    }

    fn request_status(&mut self, cx: &mut Cx<'_>) {
        cx.meter.settle();
        self.status_request = Some(StatusRequest { now: cx.now, accounts: cx.meter.accounts() });
    }

    /// Displays the carrier's status together with the status of this session.
    pub(super) fn show_status(&mut self, carrier: &CarrierStatus) {
        if let Some(status_request) = self.status_request.take() {
            let page = status_page::page(self, status_request, carrier);
            self.show(page);
        }
    }
}

/// Returns the command line and starts an empty command line.
fn take_line(key_target: &mut KeyTarget) -> String {
    match key_target {
        KeyTarget::Prompt(line) => String::from_utf8_lossy(&line.take()).into_owned(),
        KeyTarget::Session | KeyTarget::Letter => String::new(),
    }
}
