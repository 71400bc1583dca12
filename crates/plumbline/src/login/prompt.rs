//! Input after the escape character: the prompt with its commands, or a single letter as in 1982.
//!
//! A command with an effect returns to the session; a command that prints information stays at the
//! prompt. An empty line returns. The terminal stays raw, and the line is edited locally.

use super::command::{Command, HELP, LETTERS_HELP, Sent, Setting, Toggled};
use super::line::{Edited, Functions, Line};
use super::page::Page;
use super::session::{Login, Stage};
use super::settings::{Echo, Keys, LineEnd, Mode};
use super::status;
use crate::carry::CarrierStatus;
use protocols::Cx;
use protocols::application::telnet::{Command as TelnetCommand, EndOfLine, OptionCode, Side};
use protocols::meter::Account;
use protocols::time::Instant;

const PROMPT: &[u8] = b"plumb> ";
/// ^C cancels the line and returns to the session.
const GIVE_UP: u8 = 0x03;
/// ^D ends the session.
const END: u8 = 0x04;
/// ^Z suspends the process.
const SUSPEND: u8 = 0x1a;

/// Destination of typed keys.
#[derive(Debug)]
pub(super) enum Attention {
    /// The remote host.
    Session,
    /// The command line of the prompt.
    Prompt(Line),
    /// plumb, as one letter.
    Letter,
}

/// A pending request for the status of the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inquiry {
    /// Time of the request.
    pub(super) now: Instant,
    /// Ticks charged to each account at that time.
    pub(super) accounts: [u64; Account::COUNT],
}

impl Login {
    /// Processes the escape character.
    pub(super) fn escape(&mut self) {
        self.interrupt_prediction();
        match self.settings.keys {
            Keys::Letters => self.attention = Attention::Letter,
            Keys::Prompt => {
                self.attention = Attention::Prompt(Line::default());
                self.screen.hold();
                self.cover_painted();
                self.show_prompt();
            }
        }
    }

    /// Displays the prompt and the typed text on a separate line.
    pub(super) fn show_prompt(&mut self) {
        let Attention::Prompt(line) = &self.attention else { return };
        let mut text = Vec::new();
        if self.screen.is_in_line() {
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(PROMPT);
        line.show(&Functions::UNIX, &mut text);
        self.screen.put(&text);
    }

    /// Processes one key that is not sent to the remote host.
    pub(super) fn attend(&mut self, key: u8, cx: &mut Cx<'_>) {
        let Attention::Prompt(line) = &mut self.attention else {
            self.attention = Attention::Session;
            return self.letter(key, cx);
        };
        let mut echo = Vec::new();
        let edited = line.key(key, &Functions::UNIX, &mut echo);
        let is_empty = line.is_empty();
        self.screen.put(&echo);
        match edited {
            Edited::Taken => {}
            Edited::Ended => {
                let line = line_of(&mut self.attention);
                self.execute(&line, cx);
            }
            Edited::Control(END) if is_empty => self.stage = Stage::Left,
            Edited::Control(SUSPEND) => self.suspend(cx),
            Edited::Control(control)
                if control == GIVE_UP || Some(control) == self.settings.escape.0 =>
            {
                self.screen.put(b"\r\n");
                self.return_to_session();
            }
            Edited::Control(_) => self.screen.put(b"\x07"),
        }
    }

    fn execute(&mut self, line: &str, cx: &mut Cx<'_>) {
        match Command::parse(line) {
            Ok(Command::Status) => return self.inquire(cx),
            Ok(Command::Help) => return self.show_help(),
            Err(error) => return self.tell(&error.to_string()),
            Ok(Command::Suspend) => return self.suspend(cx),
            Ok(Command::Close) => self.stage = Stage::Left,
            Ok(Command::Reconnect) => self.stage = Stage::Again,
            Ok(Command::Return) => {}
            Ok(Command::Send(sent)) => {
                if !self.send_command(sent, cx) {
                    return self.tell(match self.is_telnet() {
                        true => "The remote host accepts no data at present: try again later.",
                        false => "This command needs Telnet, which this connection does not use.",
                    });
                }
            }
            Ok(Command::Set(setting)) => self.set(setting, cx),
            Ok(Command::Toggle(toggled)) => self.toggle(toggled, cx),
        }
        self.return_to_session();
    }

    /// Runs a single-letter command of 1982; a second escape character is sent.
    fn letter(&mut self, key: u8, cx: &mut Cx<'_>) {
        let telnet = |command| Sent::Telnet(command);
        match key {
            b'a' => _ = self.send_command(telnet(TelnetCommand::AreYouThere), cx),
            b'b' => _ = self.send_command(telnet(TelnetCommand::Break), cx),
            b'c' | b'q' => self.stage = Stage::Left,
            b'e' => self.set(Setting::Mode(Mode::Character), cx),
            b'E' => self.set(Setting::Mode(Mode::Line), cx),
            b'l' => self.settings.echo = Echo::Local,
            b'r' => self.settings.echo = Echo::Remote,
            b's' => self.inquire(cx),
            b'x' => self.send_line_now(cx),
            b'?' => self.show_help(),
            SUSPEND => self.suspend(cx),
            key if Some(key) == self.settings.escape.0 => _ = self.send_command(Sent::Escape, cx),
            _ => self.screen.put(b"\x07"),
        }
    }

    /// Sends a command; returns whether there was room for it.
    fn send_command(&mut self, sent: Sent, cx: &mut Cx<'_>) -> bool {
        match (sent, self.settings.escape.0) {
            (Sent::Telnet(command), _) => self.command(command, cx),
            (Sent::Escape, Some(key)) => {
                self.send(&[key], cx);
                true
            }
            (Sent::Escape, None) => true,
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
                if !self.is_by_line() {
                    self.send_line_now(cx);
                }
            }
        }
    }

    fn toggle(&mut self, toggled: Toggled, cx: &mut Cx<'_>) {
        match toggled {
            Toggled::LocalEcho => {
                self.settings.echo = if self.echoes_here() { Echo::Remote } else { Echo::Local };
            }
            Toggled::Line => {
                let mode = if self.is_by_line() { Mode::Character } else { Mode::Line };
                self.set(Setting::Mode(mode), cx);
            }
            Toggled::StatusLine => self.toggle_status_line(cx),
            Toggled::Inspect => {
                self.settings.inspects = !self.settings.inspects;
                let is_wanted = self.settings.inspects || self.tape.wants_notes();
                self.telnet.set_inspection(is_wanted);
            }
            Toggled::Binary => {
                let is_binary = self.telnet.is_enabled(Side::Us, OptionCode::BINARY)
                    || self.telnet.is_enabled(Side::Him, OptionCode::BINARY);
                self.ask_binary(!is_binary, cx);
            }
            Toggled::CrLf => {
                let is_crlf = self.line_end() == EndOfLine::CrLf;
                let end = if is_crlf { EndOfLine::CrNul } else { EndOfLine::CrLf };
                self.settings.line_end = LineEnd(Some(end));
            }
        }
    }

    /// Suspends the process until the user resumes it, and then returns to the session.
    fn suspend(&mut self, cx: &mut Cx<'_>) {
        self.screen.put(b"\r\n");
        self.lend_screen();
        self.pass_prediction(cx);
        self.drain_display(cx);
        self.disturb_prediction();
        let left = cx.meter.enter(Account::Outside);
        let suspended = self.near.suspend();
        cx.meter.enter(left);
        match suspended {
            Ok(()) => self.return_to_session(),
            Err(_) => {
                self.tell("Cannot suspend plumb: the shell that started it cannot resume it.");
            }
        }
    }

    fn return_to_session(&mut self) {
        self.attention = Attention::Session;
        self.screen.release();
    }

    /// Displays a message and prompts for the next command.
    fn tell(&mut self, sentence: &str) {
        let mut page = Page::new(self.window.0);
        page.sentence(sentence);
        self.show(page);
    }

    fn show(&mut self, page: Page) {
        if self.screen.is_in_line() {
            self.screen.put(b"\r\n");
        }
        self.screen.put(page.finish().as_bytes());
        self.show_prompt();
    }

    fn show_help(&mut self) {
        let mut page = Page::new(self.window.0);
        let help = match self.settings.keys {
            Keys::Prompt => HELP,
            Keys::Letters => LETTERS_HELP,
        };
        let width = help.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, text) in help {
            page.entry(name, width, text);
        }
        if self.settings.keys == Keys::Prompt {
            page.sentence("Words can be abbreviated to a unique prefix.");
        }
        self.show(page);
    }

    fn inquire(&mut self, cx: &mut Cx<'_>) {
        cx.meter.settle();
        self.inquiry = Some(Inquiry { now: cx.now, accounts: cx.meter.accounts() });
    }

    /// Displays the carrier's status together with the local one.
    pub(super) fn answer_inquiry(&mut self, carrier: &CarrierStatus) {
        if let Some(inquiry) = self.inquiry.take() {
            let page = status::page(self, inquiry, carrier);
            self.show(page);
        }
    }
}

/// Returns the command line and starts an empty one.
fn line_of(attention: &mut Attention) -> String {
    match attention {
        Attention::Prompt(line) => String::from_utf8_lossy(&line.take()).into_owned(),
        Attention::Session | Attention::Letter => String::new(),
    }
}
