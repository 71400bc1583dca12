//! One login: Telnet on one side, the user's keyboard and screen on the other.
//!
//! ```text
//!   keyboard ──► key target ─┬─► line or characters ──► Telnet ──► carrier
//!      (local)               └─► prompt (`prompt`)                    │
//!   screen ◄── held while at the prompt ◄── Telnet ◄──────────────────┘
//! ```
//!
//! Typed data goes to the remote host, up to the escape character; the prompt handles what follows.
//! Piped input has no escape character: it is passed through, and its end closes the local half of
//! the connection. The carrier determines the order in each iteration of the event loop: input,
//! application, output. The screen is written once per iteration.
//!
//! A login consists of parts, each of which changes only its own fields:
//!
//! ```text
//! input      keyboard, destination of keys, line editing, encoding of keys, script
//! protocol   Telnet engine, queue for the remote host, START_TLS, control of a serial line
//! display    screen, filter, emulated terminal, echo prediction, decoding of output
//! logs       recording and log file
//! status     traffic, and the request for a status page
//! transfers  files transferred over the session
//! ```
//!
//! The methods of [`Login`] pass data from one part to another: `typing` processes keys, `linemode`
//! the keys with a function under LINEMODE, `prompt` the commands of the prompt, `remote` the data
//! of the remote host, and `file_transfer` the data of a file transfer.

use super::display::LocalDisplay;
use super::input::LocalInput;
use super::logging::SessionLogs;
use super::paging::WrappedText;
use super::protocol::SessionProtocol;
use super::session_settings::{Echo, LoginProtocol, LoginSettings, Mode};
use super::session_status::SessionStatus;
use super::terminal_input::{LocalTerminal, Read};
use super::transfer_state::{FileTransfers, OUTPUT_MAX_BYTES};
use crate::exit;
use anyhow::{Context, Result};
use carrier::{AckPolicy, CarrierStatus, Outcome, StreamSession, TlsParameters};
use net::Cx;
use net::application::Stream;
use net::meter::Account;
use net::time::Instant;
use protocols::telnet::{EndOfLine, OptionCode, Side};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use transfer::modem::Interruption;

/// Progress of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The connection is not open yet.
    Opening,
    /// Both directions are open.
    Open,
    /// Only queued data is still sent.
    Closing,
    /// The user has ended the session, and the cancellation of a file transfer is in progress.
    Cancelling,
    /// The user has ended the session.
    LocalClosed,
    /// The user has requested a new connection.
    Reconnect,
    /// The display has been closed.
    DisplayClosed,
}

/// Function that composes the greeting from the address of the connection.
type Greeting = Box<dyn FnOnce(SocketAddr) -> String>;

/// One login: its parts, and what concerns several of them.
pub(super) struct Login {
    pub(super) settings: LoginSettings,
    pub(super) stage: Stage,
    pub(super) input: LocalInput,
    pub(super) protocol: SessionProtocol,
    pub(super) display: LocalDisplay,
    pub(super) logs: SessionLogs,
    pub(super) status: SessionStatus,
    pub(super) transfers: FileTransfers,
    /// Message to print when the connection is open, if requested.
    greeting: Option<Greeting>,
    /// Warning to print when the connection is open.
    warning: Option<String>,
    /// Address of the connection that is being opened.
    address: Option<SocketAddr>,
    failure: Option<anyhow::Error>,
    /// Reason why this side ended the session: a requirement that the remote host does not meet.
    pub(super) refusal: Option<String>,
}

impl Login {
    /// Creates a login; `peer` describes the remote host in messages.
    pub(super) fn new(settings: LoginSettings, terminal: LocalTerminal, peer: String) -> Self {
        let display = LocalDisplay::new(&settings, terminal.output);
        Self {
            input: LocalInput::new(terminal.keyboard, settings.encoding),
            protocol: SessionProtocol::new(&settings, display.remote_window(&settings)),
            display,
            logs: SessionLogs::default(),
            status: SessionStatus::new(peer),
            transfers: FileTransfers::new(&settings),
            stage: Stage::Opening,
            settings,
            greeting: None,
            warning: None,
            address: None,
            failure: None,
            refusal: None,
        }
    }

    /// Resets the login for a new connection: all negotiated state is discarded.
    pub(super) fn for_reconnect(self) -> Self {
        let (keyboard, script) = self.input.into_keyboard_and_script();
        let terminal = LocalTerminal { keyboard, output: self.display.into_output() };
        let mut login = Self::new(self.settings, terminal, self.status.into_peer());
        login.logs = self.logs;
        login.input.set_script(script);
        login
    }

    /// Sets the message that is printed on stderr when the connection is open.
    pub(super) fn set_greeting(&mut self, greeting: Greeting) {
        self.greeting = Some(greeting);
    }

    /// Sets the warning that is printed when the connection is open.
    pub(super) fn set_warning(&mut self, warning: Option<String>) {
        self.warning = warning;
    }

    /// Returns whether whole lines are sent.
    pub(super) fn is_line_mode(&self) -> bool {
        let remote_enables = |option| self.protocol.is_enabled(Side::Remote, option);
        match (self.settings.mode, self.settings.protocol) {
            (Mode::Character, _) => false,
            (Mode::Line, _) => true,
            (Mode::Automatic, LoginProtocol::Tcp) => !self.input.has_prompt,
            (Mode::Automatic, LoginProtocol::Serial | LoginProtocol::ComPort(_)) => false,
            (Mode::Automatic, LoginProtocol::Telnet) => {
                let is_half_duplex = !remote_enables(OptionCode::ECHO)
                    && !remote_enables(OptionCode::SUPPRESS_GO_AHEAD);
                self.protocol.edits_by_linemode().unwrap_or(is_half_duplex)
            }
        }
    }

    /// Returns whether typed text is echoed locally.
    pub(super) fn echoes_locally(&self) -> bool {
        match (self.settings.echo, self.settings.protocol) {
            (Echo::Automatic, LoginProtocol::Telnet) => self.protocol.echoes_locally(),
            (Echo::Automatic, LoginProtocol::Tcp) => self.is_line_mode(),
            (Echo::Local, _) => true,
            (Echo::Automatic, LoginProtocol::Serial | LoginProtocol::ComPort(_))
            | (Echo::Remote, _) => false,
        }
    }

    /// Returns the encoding of the key at the end of a line.
    pub(super) fn line_end(&self) -> EndOfLine {
        let is_binary = self.protocol.is_enabled(Side::Local, OptionCode::BINARY);
        if self.settings.line_end.0.is_none()
            && is_binary
            && self.protocol.edits_by_linemode() == Some(true)
        {
            // With BINARY (RFC 856), CR LF would be two characters, which a Unix terminal reads as
            // two line ends.
            return EndOfLine::Lf;
        }
        self.settings.line_end.for_mode(self.is_line_mode())
    }

    /// Starts the session after the connection has opened.
    pub(super) fn begin(&mut self, cx: &mut Cx<'_>) {
        self.stage = Stage::Open;
        self.status.opened(cx.now);
        self.display.begin(&self.settings, cx);
        self.logs.begin(cx.now);
        self.protocol.start_tls.begin_wait(self.settings.timeout, cx.now);
        self.start_telnet(cx);
    }

    /// Puts the terminal into raw mode and prints the greeting. The keyboard is therefore ready
    /// once the greeting is visible.
    fn print_greeting(&mut self) {
        if let Some(warning) = self.warning.take() {
            exit::print_warning(&warning);
        }
        if !self.input.has_script() {
            self.enter_raw_mode();
        }
        if let (Some(greeting), Some(address)) = (self.greeting.take(), self.address) {
            let host = greeting(address);
            let escape = self.settings.escape;
            let sentences =
                [format!("Connected to {host}."), format!("Escape character is {escape}.")];
            self.say_wrapped(&sentences);
        }
    }

    /// Prints sentences on stderr, each on a line of its own. On a terminal, they are wrapped between
    /// words.
    pub(super) fn say_wrapped(&self, sentences: &[String]) {
        let is_terminal = self.settings.is_interactive;
        let columns = if is_terminal { self.display.window().0 } else { u16::MAX };
        let mut text = WrappedText::new(columns);
        sentences.iter().for_each(|sentence| text.push_sentence(sentence));
        for line in text.finish().lines() {
            // In raw mode, LF alone leaves the cursor in the same column.
            super::say(&if is_terminal { format!("\r{line}\r") } else { line.to_owned() });
        }
    }

    /// Puts the terminal into raw mode, so that each key arrives at once.
    pub(super) fn enter_raw_mode(&mut self) {
        if self.settings.is_interactive
            && let Err(error) = self.input.keyboard.set_raw()
        {
            self.failure = Some(error.into());
        }
    }

    /// Ends the session because the remote host does not meet a requirement.
    pub(super) fn refuse(&mut self, why: String) {
        self.refusal.get_or_insert(why);
        self.stage = Stage::LocalClosed;
    }

    /// Sends the user's text in the encoding of the remote host.
    pub(super) fn send_text(&mut self, text: &[u8], cx: &mut Cx<'_>) {
        let encoded = self.input.encode(text);
        self.send(&encoded, cx);
    }

    /// Sends data. A part that exceeds the queue for the remote host is dropped: input must still
    /// be read, because the escape character must work while the remote host accepts no data.
    pub(super) fn send(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        if !self.protocol.send(data, cx) {
            self.display.ring();
        }
    }

    /// Requests that the remote host acknowledge echoes, or that it stop doing so.
    pub(super) fn request_acknowledgments(&mut self, wants: bool, cx: &mut Cx<'_>) {
        self.protocol.ask_acknowledgments(wants, cx);
        self.display.prediction.clear_sent_positions();
    }

    /// Adapts the display and the remote host to a new window size.
    pub(super) fn fit_screen(&mut self, cx: &mut Cx<'_>) {
        let size = self.display.remote_window(&self.settings);
        self.display.fit_screen(size);
        self.protocol.resize(size, cx);
    }

    /// Draws the changes of the emulated terminal, unless the prompt is displayed.
    pub(super) fn render(&mut self) {
        if !self.input.is_at_prompt() && self.input.keyboard.is_raw() {
            self.display.render(self.status.traffic());
        }
    }

    /// Ends the use of the display: writes all output and restores the terminal.
    pub(super) fn leave_display(&mut self, cx: &mut Cx<'_>) {
        self.display.leave(self.settings.is_interactive, cx);
        self.input.keyboard.leave_raw();
    }

    fn read_keyboard(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let previous_account = cx.meter.enter(Account::Interrupt);
        let read = self.input.keyboard.read();
        cx.meter.enter(Account::Terminal);
        match read.context("cannot read the standard input")? {
            Read::Nothing => {}
            Read::Bytes(count) => {
                let buffer = self.input.keyboard.take_buffer();
                let data = buffer.get(..count).unwrap_or_default();
                self.logs.record_input(data, cx.now);
                cx.meter.transaction();
                if self.settings.is_interactive {
                    self.process_typed_keys(data, cx);
                } else {
                    self.send_piped(data, cx);
                }
                self.input.keyboard.put_back(buffer);
            }
            Read::End if self.settings.is_interactive => self.on_display_closed(cx),
            Read::End => self.end_pipe(cx),
        }
        cx.meter.enter(previous_account);
        Ok(())
    }

    /// Prepares the output for the next write.
    pub(super) fn prepare_output(&mut self, cx: &mut Cx<'_>) {
        self.show_negotiation(cx);
        self.render();
        self.display.predict_pending_output(cx);
    }

    fn write_display(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        match self.display.flush(cx) {
            // The reader of the pipe has gone, or the terminal window was closed.
            Err(error) if is_hang_up(&error) => self.on_display_closed(cx),
            write_result => write_result.context("cannot write to the standard output")?,
        }
        Ok(())
    }

    fn take_window(&mut self, cx: &mut Cx<'_>) {
        if let Some(window) = self.input.keyboard.new_window() {
            let window = (window.columns, window.rows);
            self.display.set_window(window);
            self.logs.record_resize(window, cx.now);
            self.fit_screen(cx);
            self.display.resize_prediction(&self.settings);
        }
    }
}

impl Stream for Login {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        self.begin(cx);
        if !self.protocol.start_tls.is_awaited() {
            self.print_greeting();
            self.run_script(cx);
        }
    }

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        self.status.received(data.len(), cx.now);
        let previous_account = cx.meter.enter(Account::Terminal);
        self.process_received(data, cx);
        self.run_script(cx);
        cx.meter.enter(previous_account);
    }

    fn wants_data(&self) -> bool {
        // An emulated terminal accepts all data and displays only its latest state.
        self.display.is_emulated() || !self.display.screen.is_blocked()
    }

    fn urgent(&mut self, is_ahead: bool) {
        self.protocol.urgent(is_ahead);
        if is_ahead {
            self.display.screen.drop_held();
        }
    }

    fn output(&self) -> &[u8] {
        self.protocol.output()
    }

    fn urgent_mark(&self) -> Option<usize> {
        self.protocol.urgent_mark()
    }

    fn sent(&mut self, count: usize) {
        self.status.sent(count);
        self.protocol.sent(count);
    }

    fn peer_closed(&mut self, cx: &mut Cx<'_>) {
        self.abort_transfer(Interruption::RemoteClosed, cx);
        self.protocol.peer_closed();
        self.end_script(cx);
        if self.stage == Stage::Open {
            self.stage = Stage::Closing;
        }
    }

    fn is_closing(&self) -> bool {
        !matches!(self.stage, Stage::Opening | Stage::Open | Stage::Cancelling)
            && self.protocol.unsent_bytes() == 0
    }

    fn wants_to_run(&self) -> bool {
        self.protocol.can_send_queued()
            || (self.transfers.has_output() && self.protocol.has_room(OUTPUT_MAX_BYTES))
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        self.protocol.send_queued(cx);
        self.run_transfer(cx);
        self.end_cancellation_if_due(cx);
        self.run_script(cx);
        self.display.request_status_if_due(cx.now);
        self.display.prediction.run(cx);
        self.protocol.end_break_if_due(cx);
        if self.protocol.start_tls.has_timed_out(cx.now) {
            self.refuse(
                "the server does not offer START_TLS: use telnets://, or omit --tls to log in \
                 unencrypted"
                    .to_owned(),
            );
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let parts = [
            self.protocol.deadline(),
            self.input.script_deadline(),
            self.display.deadline(),
            self.transfers.deadline(),
            self.transfers.ends_at,
        ];
        parts.into_iter().flatten().min()
    }
}

impl StreamSession for Login {
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        let signals = self.transfers.signals.iter().map(AsFd::as_fd);
        self.input.keyboard.inputs().into_iter().chain(signals).collect()
    }

    fn set_remote_address(&mut self, address: SocketAddr) {
        self.address = Some(address);
    }

    fn wants_input(&self, index: usize) -> bool {
        let is_keyboard = index == self.input.keyboard.index();
        if index > self.input.keyboard.index() {
            // The termination signals.
            return true;
        }
        match self.stage {
            Stage::Opening => false,
            Stage::Open if self.protocol.start_tls.is_awaited() => false,
            Stage::Open if self.input.has_script() && is_keyboard => false,
            Stage::Open if is_keyboard && !self.settings.is_interactive => {
                self.protocol.unsent_bytes() == 0
            }
            Stage::Open => true,
            // The user may still want to leave a remote host that does not close.
            Stage::Closing | Stage::Cancelling => self.settings.is_interactive,
            Stage::LocalClosed | Stage::Reconnect | Stage::DisplayClosed => false,
        }
    }

    fn has_more_input(&self, index: usize) -> bool {
        index == self.input.keyboard.index() && self.input.keyboard.may_have_more()
    }

    fn take_input(&mut self, index: usize, cx: &mut Cx<'_>) -> Result<()> {
        if index > self.input.keyboard.index() {
            self.process_signal(cx);
            return Ok(());
        }
        // Keys typed after a window change are meant for the new size.
        if index != self.input.keyboard.index() || self.input.keyboard.has_new_window() {
            self.take_window(cx);
        }
        if index != self.input.keyboard.index() {
            return Ok(());
        }
        self.read_keyboard(cx)
    }

    fn flush(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if self.display.screen.is_blocked() {
            self.write_display(cx)?;
        }
        // Frames of an emulated terminal are composed only while the display accepts output, so a
        // slow display skips frames.
        if !self.display.screen.is_blocked() {
            self.prepare_output(cx);
            if !self.display.screen.is_empty() {
                self.write_display(cx)?;
            }
        }
        Ok(())
    }

    fn display(&self) -> Option<BorrowedFd<'_>> {
        Some(self.display.descriptor())
    }

    fn is_display_full(&self) -> bool {
        self.display.screen.is_blocked()
    }

    fn ack_policy(&self) -> AckPolicy {
        // The beginning of a block can be as short as an echo. The remote host may hold back the rest
        // of the block until it is acknowledged.
        if self.transfers.is_active() { AckPolicy::Immediate } else { AckPolicy::Awaited }
    }

    fn starts_tls(&mut self) -> bool {
        self.protocol.start_tls.take_start()
    }

    fn tls_established(&mut self, parameters: TlsParameters, cx: &mut Cx<'_>) {
        let is_open = self.stage == Stage::Open;
        let was_awaiting_tls = self.protocol.start_tls.is_awaited();
        self.notify_certificate(&parameters);
        self.protocol.start_tls.established(parameters);
        if is_open {
            // Options negotiated in plaintext may come from an attacker.
            self.restart_telnet(cx);
        }
        if is_open && was_awaiting_tls {
            self.print_greeting();
            self.run_script(cx);
        }
    }

    fn take_break_request(&mut self) -> bool {
        self.protocol.take_break_request()
    }

    fn take_status(&mut self, status: &CarrierStatus) {
        self.display.update_status_line(status);
        self.show_status(status);
    }

    fn wants_status(&self) -> bool {
        self.status.is_requested() || self.display.wants_status()
    }

    fn connection_ended(&mut self, outcome: Option<Outcome>, cx: &mut Cx<'_>) {
        let is_line = self.settings.protocol == LoginProtocol::Serial;
        let why = match outcome {
            Some(Outcome::Closed) => Interruption::RemoteClosed,
            Some(Outcome::Reset | Outcome::Refused) => Interruption::RemoteReset,
            Some(Outcome::TimedOut) => Interruption::NoAnswer,
            Some(Outcome::Unreachable) => Interruption::Unreachable,
            Some(Outcome::LocalClosed) if self.stage == Stage::DisplayClosed => {
                Interruption::TerminalClosed
            }
            None if is_line => Interruption::LineLost,
            Some(Outcome::LocalClosed) | None => Interruption::SessionEnded,
        };
        self.abort_transfer(why, cx);
        if outcome.is_none() {
            // The carrier returns its error instead of the session.
            self.leave_display(cx);
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::LocalClosed | Stage::Reconnect | Stage::DisplayClosed)
    }
}

fn is_hang_up(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe
        || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
