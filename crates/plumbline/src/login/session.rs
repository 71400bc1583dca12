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
//! application, output. The screen is written once per iteration. `typing` processes keys, and
//! `remote` processes the data of the remote host.

use super::emulated_terminal::{EmulatedTerminal, StatusLine};
use super::encoding::{Decoder, Encoder};
use super::line_editor::LineEditor;
use super::logging::SessionLogs;
use super::prompt::{KeyTarget, StatusRequest};
use super::screen::Screen;
use super::script::Runner;
use super::session_settings::{Echo, LoginProtocol, LoginSettings, Mode, TlsUse};
use super::terminal_input::{LocalTerminal, Read};
use anyhow::{Context, Result};
use carrier::{CarrierStatus, StreamSession, TlsParameters};
use net::Cx;
use net::application::Stream;
use net::meter::Account;
use net::time::Instant;
use os::clock::Calibration;
use protocols::telnet::{Decompressor, EndOfLine, OptionCode, Side, Telnet};
use protocols::terminal::prediction::Predictor;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Maximum number of typed bytes queued for a remote host that accepts none. Our choice: a long
/// paste.
const UNSENT_MAX_BYTES: usize = 64 * 1024;
/// Window size in columns and rows if the size of the local terminal is unknown.
const DEFAULT_WINDOW: (u16, u16) = (80, 24);
const BELL: &[u8] = b"\x07";
/// Time limit for a display that accepts nothing at the end of a session. Our choice.
const DISPLAY_DRAIN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

/// Progress of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The connection is not open yet.
    Opening,
    /// Both directions are open.
    Open,
    /// Only queued data is still sent.
    Closing,
    /// The user has ended the session.
    LocalClosed,
    /// The user has requested a new connection.
    Reconnect,
    /// The display has been closed.
    DisplayClosed,
}

/// Traffic of a session.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LoginTraffic {
    /// Time at which the connection opened.
    pub(super) opened_at: Option<Instant>,
    /// Bytes received, including Telnet commands.
    pub(super) bytes_in: u64,
    /// Bytes sent, including Telnet commands.
    pub(super) bytes_out: u64,
}

/// Function that composes the greeting from the address of the connection.
type Greeting = Box<dyn FnOnce(SocketAddr) -> String>;

/// One login.
pub(super) struct Login {
    pub(super) telnet: Telnet,
    /// Output queued for the carrier if the session does not use Telnet.
    pub(super) raw_output: Vec<u8>,
    pub(super) inflater: Decompressor,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    pub(super) logs: SessionLogs,
    pub(super) settings: LoginSettings,
    pub(super) terminal: LocalTerminal,
    pub(super) screen: Screen,
    pub(super) key_target: KeyTarget,
    /// Partial line, while whole lines are sent.
    pub(super) line: LineEditor,
    /// Input that did not fit into Telnet's output queue.
    unsent_input: Vec<u8>,
    has_room: bool,
    /// Whether the last byte of piped input was a CR, which is not sent before the next byte is
    /// known.
    pub(super) has_cr: bool,
    /// Whether the last displayed byte was a CR.
    pub(super) last_was_cr: bool,
    pub(super) stage: Stage,
    pub(super) traffic: LoginTraffic,
    pub(super) window: (u16, u16),
    /// Description of the remote host and the route.
    pub(super) peer: String,
    /// Message to print when the connection is open, if requested.
    greeting: Option<Greeting>,
    /// Address of the connection that is being opened.
    address: Option<SocketAddr>,
    /// Status request from the prompt, to be answered by the carrier.
    pub(super) status_request: Option<StatusRequest>,
    pub(super) calibration: Calibration,
    failure: Option<anyhow::Error>,
    /// Reason why this side ended the session: a requirement that the remote host does not meet.
    pub(super) refusal: Option<String>,
    /// Parameters of the TLS session, if the connection uses TLS.
    pub(super) tls_parameters: Option<TlsParameters>,
    /// Whether the server has used TLS before.
    pub(super) has_used_tls_before: bool,
    /// Whether START_TLS was negotiated but the carrier has not started TLS yet.
    pub(super) starts_tls: bool,
    /// Deadline for the remote host to agree to START_TLS, if TLS is required.
    tls_deadline: Option<Instant>,
    /// Script that runs the session instead of the keyboard.
    pub(super) script: Option<Runner>,
    /// Exit status of the script, and the reason of a failure.
    pub(super) script_end: Option<(u8, Option<String>)>,
    /// Emulated terminal, if there is one.
    pub(super) emulator: Option<EmulatedTerminal>,
    /// Whether the emulated terminal has changed since it was last drawn.
    pub(super) needs_redraw: bool,
    /// Status line, if it is displayed.
    pub(super) status_line: Option<StatusLine>,
    /// Echo predictor, if it is enabled.
    pub(super) predictor: Option<Predictor>,
    /// Positions in the sent stream, each with the number of the last key sent before it; empty
    /// unless the remote host acknowledges echoes.
    pub(super) sent_positions: VecDeque<(u64, u64)>,
    /// Notices queued for the emulated terminal.
    pub(super) notices: Vec<String>,
    /// Whether the serial line must send a BREAK.
    pub(super) wants_break: bool,
    /// End of the BREAK at a console server.
    pub(super) break_deadline: Option<Instant>,
    /// Time until which received output is dropped, unless the answer to the timing mark arrives
    /// earlier.
    pub(super) output_drop_deadline: Option<Instant>,
    /// Deadline for the answer to the request for BINARY; typed data is queued until then.
    pub(super) binary_deadline: Option<Instant>,
}

impl Login {
    /// Creates a login; `peer` describes the remote host in messages.
    pub(super) fn new(settings: LoginSettings, terminal: LocalTerminal, peer: String) -> Self {
        let window = super::terminal_input::window()
            .map_or(DEFAULT_WINDOW, |window| (window.columns, window.rows));
        let remote_window = super::remote::remote_window(&settings, window);
        let telnet = super::remote::telnet(&settings, remote_window, false);
        Self {
            telnet,
            raw_output: Vec::new(),
            inflater: Decompressor::default(),
            screen: Screen::with_filter(settings.filter),
            decoder: Decoder::new(settings.encoding),
            encoder: Encoder::new(settings.encoding),
            logs: SessionLogs::default(),
            settings,
            terminal,
            key_target: KeyTarget::Session,
            line: LineEditor::default(),
            unsent_input: Vec::new(),
            has_room: false,
            has_cr: false,
            last_was_cr: false,
            stage: Stage::Opening,
            traffic: LoginTraffic::default(),
            window,
            peer,
            greeting: None,
            address: None,
            status_request: None,
            calibration: Calibration::start(),
            failure: None,
            refusal: None,
            tls_parameters: None,
            has_used_tls_before: false,
            starts_tls: false,
            tls_deadline: None,
            script: None,
            script_end: None,
            emulator: None,
            needs_redraw: false,
            status_line: None,
            predictor: None,
            sent_positions: VecDeque::new(),
            notices: Vec::new(),
            wants_break: false,
            break_deadline: None,
            binary_deadline: None,
            output_drop_deadline: None,
        }
    }

    /// Resets the login for a new connection: all negotiated state is discarded.
    pub(super) fn for_reconnect(self) -> Self {
        let logs = self.logs;
        let script = self.script;
        Self { logs, script, ..Self::new(self.settings, self.terminal, self.peer) }
    }

    /// Sets the message that is printed on stderr when the connection is open.
    pub(super) fn set_greeting(&mut self, greeting: Greeting) {
        self.greeting = Some(greeting);
    }

    /// Returns whether whole lines are sent.
    pub(super) fn is_line_mode(&self) -> bool {
        let remote_enables = |option| self.telnet.is_enabled(Side::Remote, option);
        match (self.settings.mode, self.settings.protocol) {
            (Mode::Character, _) => false,
            (Mode::Line, _) | (Mode::Automatic, LoginProtocol::Tcp) => true,
            (Mode::Automatic, LoginProtocol::Serial | LoginProtocol::ComPort(_)) => false,
            (Mode::Automatic, LoginProtocol::Telnet) => {
                let is_half_duplex = !remote_enables(OptionCode::ECHO)
                    && !remote_enables(OptionCode::SUPPRESS_GO_AHEAD);
                self.edits_by_linemode().unwrap_or(is_half_duplex)
            }
        }
    }

    /// Returns whether typed text is echoed locally.
    pub(super) fn echoes_locally(&self) -> bool {
        match (self.settings.echo, self.settings.protocol) {
            (Echo::Automatic, LoginProtocol::Telnet) => self.telnet.echoes_locally(),
            (Echo::Automatic, LoginProtocol::Tcp) | (Echo::Local, _) => true,
            (Echo::Automatic, LoginProtocol::Serial | LoginProtocol::ComPort(_))
            | (Echo::Remote, _) => false,
        }
    }

    /// Returns the encoding of the key at the end of a line.
    pub(super) fn line_end(&self) -> EndOfLine {
        let is_binary = self.telnet.is_enabled(Side::Local, OptionCode::BINARY);
        if self.settings.line_end.0.is_none() && is_binary && self.edits_by_linemode() == Some(true)
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
        self.traffic.opened_at = Some(cx.now);
        self.set_up_screen(cx);
        self.begin_prediction();
        self.logs.begin(cx.now);
        if self.awaits_tls() {
            self.tls_deadline = Some(cx.now + self.settings.timeout);
        }
        self.start_telnet(cx);
    }

    /// Returns whether TLS is required but not established, so that no data may be sent.
    pub(super) fn awaits_tls(&self) -> bool {
        self.settings.tls == TlsUse::Always && self.tls_parameters.is_none() && self.is_telnet()
    }

    /// Puts the terminal into raw mode and prints the greeting. The keyboard is therefore ready
    /// once the greeting is visible.
    fn print_greeting(&mut self) {
        if self.script.is_none() {
            self.enter_raw_mode();
        }
        if let (Some(greeting), Some(address)) = (self.greeting.take(), self.address) {
            let host = greeting(address);
            let escape = self.settings.escape;
            let end = if self.terminal.is_raw() { "\r\n" } else { "\n" };
            let carriage_return = if self.terminal.is_raw() { "\r" } else { "" };
            super::say(&format!(
                "Connected to {host}.{end}Escape character is {escape}.{carriage_return}"
            ));
        }
    }

    /// Puts the terminal into raw mode, so that each key arrives at once.
    pub(super) fn enter_raw_mode(&mut self) {
        if self.settings.is_interactive
            && let Err(error) = self.terminal.set_raw()
        {
            self.failure = Some(error.into());
        }
    }

    /// Ends the session because the remote host does not meet a requirement.
    pub(super) fn refuse(&mut self, why: String) {
        self.refusal.get_or_insert(why);
        self.stage = Stage::LocalClosed;
    }

    /// Requests or ends BINARY in both directions (RFC 856).
    pub(super) fn ask_binary(&mut self, enable: bool, cx: &mut Cx<'_>) {
        for side in [Side::Local, Side::Remote] {
            // Ignored: the request fails only if the option already has that state or was already
            // requested.
            _ = self.telnet.ask(side, OptionCode::BINARY, enable, cx);
        }
    }

    /// Sends the user's text in the encoding of the remote host.
    pub(super) fn send_text(&mut self, text: &[u8], cx: &mut Cx<'_>) {
        if self.encoder.is_plain() {
            return self.send(text, cx);
        }
        let mut encoded = Vec::with_capacity(text.len());
        self.encoder.encode(text, &mut encoded);
        self.send(&encoded, cx);
    }

    /// Passes data to Telnet and queues the part that does not fit into Telnet's output queue.
    pub(super) fn send(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        let may_send = self.unsent_input.is_empty() && self.binary_deadline.is_none();
        let accepted_bytes = if may_send { self.queue_output(data, cx) } else { 0 };
        let rest = data.get(accepted_bytes..).unwrap_or_default();
        if self.settings.is_interactive && self.unsent_input.len() + rest.len() > UNSENT_MAX_BYTES {
            // The rest is dropped. Input must still be read, because the escape character must work
            // while the remote host accepts no data.
            return self.screen.put(BELL);
        }
        self.unsent_input.extend_from_slice(rest);
    }

    /// Releases the data that has waited for the remote host's answer about BINARY.
    pub(super) fn end_binary_wait(&mut self) {
        self.has_room |= self.binary_deadline.take().is_some();
    }

    fn read_keyboard(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let previous_account = cx.meter.enter(Account::Interrupt);
        let read = self.terminal.read();
        cx.meter.enter(Account::Terminal);
        match read.context("cannot read the standard input")? {
            Read::Nothing => {}
            Read::Bytes(count) => {
                let buffer = self.terminal.take_buffer();
                let data = buffer.get(..count).unwrap_or_default();
                self.logs.record_input(data, cx.now);
                cx.meter.transaction();
                if self.settings.is_interactive {
                    self.process_typed_keys(data, cx);
                } else {
                    self.send_piped(data, cx);
                }
                self.terminal.put_back(buffer);
            }
            Read::End if self.settings.is_interactive => self.stage = Stage::DisplayClosed,
            Read::End => self.end_pipe(cx),
        }
        cx.meter.enter(previous_account);
        Ok(())
    }

    /// Prepares the output for the next write.
    pub(super) fn prepare_output(&mut self, cx: &mut Cx<'_>) {
        self.show_negotiation(cx);
        self.render();
        self.predict_pending_output(cx);
    }

    fn write_display(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let previous_account = cx.meter.enter(Account::Interrupt);
        let write_result = self.screen.flush(self.terminal.output(), cx);
        cx.meter.enter(previous_account);
        match write_result {
            // The reader of the pipe has gone, or the terminal window was closed.
            Err(error) if is_hang_up(&error) => self.stage = Stage::DisplayClosed,
            write_result => write_result.context("cannot write to the standard output")?,
        }
        Ok(())
    }

    /// Writes all output queued for the display. A blocked terminal delays the end of the program
    /// by at most [`DISPLAY_DRAIN_TIMEOUT`]; a pipe is written completely.
    pub(super) fn drain_display(&mut self, cx: &mut Cx<'_>) {
        let limit = self.settings.is_interactive.then_some(DISPLAY_DRAIN_TIMEOUT);
        // Ignored: an error has no effect at the end of a session or before a suspension.
        _ = self.screen.drain(self.terminal.output(), limit, cx);
    }

    fn take_window(&mut self, cx: &mut Cx<'_>) {
        if let Some(window) = self.terminal.new_window() {
            self.window = (window.columns, window.rows);
            self.logs.record_resize(self.window, cx.now);
            self.fit_screen(cx);
            self.resize_prediction();
        }
    }
}

impl Stream for Login {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        self.begin(cx);
        if !self.awaits_tls() {
            self.print_greeting();
            self.run_script(cx);
        }
    }

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        self.traffic.bytes_in += data.len() as u64;
        let previous_account = cx.meter.enter(Account::Terminal);
        self.process_received(data, cx);
        self.run_script(cx);
        cx.meter.enter(previous_account);
    }

    fn wants_data(&self) -> bool {
        // An emulated terminal accepts all data and displays only its latest state.
        self.emulator.is_some() || !self.screen.is_blocked()
    }

    fn urgent(&mut self, is_ahead: bool) {
        if is_ahead {
            self.telnet.urgent();
            self.screen.drop_held();
        } else {
            self.telnet.urgent_ended();
        }
    }

    fn output(&self) -> &[u8] {
        if self.is_telnet() { self.telnet.output() } else { &self.raw_output }
    }

    fn urgent_mark(&self) -> Option<usize> {
        self.telnet.urgent_mark()
    }

    fn sent(&mut self, count: usize) {
        self.traffic.bytes_out += count as u64;
        if self.is_telnet() {
            self.telnet.sent(count);
        } else {
            drop(self.raw_output.drain(..count.min(self.raw_output.len())));
        }
        self.has_room = true;
    }

    fn peer_closed(&mut self, cx: &mut Cx<'_>) {
        self.unsent_input.clear();
        self.binary_deadline = None;
        self.end_script(cx);
        if self.stage == Stage::Open {
            self.stage = Stage::Closing;
        }
    }

    fn is_closing(&self) -> bool {
        !matches!(self.stage, Stage::Opening | Stage::Open) && self.unsent_input.is_empty()
    }

    fn wants_to_run(&self) -> bool {
        self.has_room && self.binary_deadline.is_none() && !self.unsent_input.is_empty()
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        if self.binary_deadline.is_some_and(|until| cx.now >= until) {
            self.binary_deadline = None;
        }
        self.has_room = false;
        let unsent_input = std::mem::take(&mut self.unsent_input);
        if self.binary_deadline.is_some() {
            self.unsent_input = unsent_input;
        } else if !unsent_input.is_empty() {
            let accepted = self.queue_output(&unsent_input, cx);
            self.unsent_input.extend_from_slice(unsent_input.get(accepted..).unwrap_or_default());
        }
        self.run_script(cx);
        if let Some(line) = &mut self.status_line {
            line.request_if_due(cx.now);
        }
        self.run_prediction(cx);
        if self.break_deadline.is_some_and(|until| cx.now >= until) {
            self.end_break(cx);
        }
        if self.tls_deadline.is_some_and(|until| cx.now >= until) && self.awaits_tls() {
            self.refuse(
                "the server does not offer START_TLS: use telnets://, or omit --tls to log in \
                 unencrypted"
                    .to_owned(),
            );
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let tls_deadline = self.tls_deadline.filter(|_| self.awaits_tls());
        let script = self.script.as_ref().and_then(Runner::deadline);
        let status = self.status_line.as_ref().map(StatusLine::deadline);
        tls_deadline
            .into_iter()
            .chain(self.break_deadline)
            .chain(self.binary_deadline)
            .chain(script)
            .chain(status)
            .chain(self.prediction_deadline())
            .min()
    }
}

impl StreamSession for Login {
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        self.terminal.inputs()
    }

    fn set_remote_address(&mut self, address: SocketAddr) {
        self.address = Some(address);
    }

    fn wants_input(&self, index: usize) -> bool {
        match self.stage {
            Stage::Opening => false,
            Stage::Open if self.awaits_tls() => false,
            Stage::Open if self.script.is_some() && index == self.terminal.keyboard() => false,
            Stage::Open if index == self.terminal.keyboard() && !self.settings.is_interactive => {
                self.unsent_input.is_empty()
            }
            Stage::Open => true,
            // The user may still want to leave a remote host that does not close.
            Stage::Closing => self.settings.is_interactive,
            Stage::LocalClosed | Stage::Reconnect | Stage::DisplayClosed => false,
        }
    }

    fn has_more_input(&self, index: usize) -> bool {
        index == self.terminal.keyboard() && self.terminal.may_have_more()
    }

    fn take_input(&mut self, index: usize, cx: &mut Cx<'_>) -> Result<()> {
        // Keys typed after a window change are meant for the new size.
        if index != self.terminal.keyboard() || self.terminal.has_new_window() {
            self.take_window(cx);
        }
        if index != self.terminal.keyboard() {
            return Ok(());
        }
        self.read_keyboard(cx)
    }

    fn flush(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if self.screen.is_blocked() {
            self.write_display(cx)?;
        }
        // Frames of an emulated terminal are composed only while the display accepts output, so a
        // slow display skips frames.
        if !self.screen.is_blocked() {
            self.prepare_output(cx);
            if !self.screen.is_empty() {
                self.write_display(cx)?;
            }
        }
        Ok(())
    }

    fn display(&self) -> Option<BorrowedFd<'_>> {
        Some(self.terminal.output().as_fd())
    }

    fn is_display_full(&self) -> bool {
        self.screen.is_blocked()
    }

    fn starts_tls(&mut self) -> bool {
        std::mem::take(&mut self.starts_tls)
    }

    fn tls_established(&mut self, parameters: TlsParameters, cx: &mut Cx<'_>) {
        let is_open = self.stage == Stage::Open;
        let was_awaiting_tls = self.awaits_tls();
        self.notify_certificate(&parameters);
        self.tls_parameters = Some(parameters);
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
        std::mem::take(&mut self.wants_break)
    }

    fn take_status(&mut self, status: &CarrierStatus) {
        if let Some(line) = &mut self.status_line {
            line.update(status);
            self.needs_redraw = true;
        }
        self.show_status(status);
    }

    fn wants_status(&self) -> bool {
        self.status_request.is_some()
            || self.status_line.as_ref().is_some_and(StatusLine::is_requested)
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
