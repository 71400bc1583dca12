//! Login session: Telnet to the client, and a login prompt or a program.
//!
//! ```text
//! client ──► stream ──► Telnet ──► typed_input ──► login prompt, then the program's terminal
//! client ◄── stream ◄── Telnet ◄── unsent_output ◄── the program's terminal
//! ```
//!
//! Option negotiation comes first, for a limited time, because a program needs to know its terminal
//! when it starts. Each iteration of the session loop then processes received data and the
//! program's output, and sends everything in one write. A screenful of output is thus sent at once,
//! and no part of it waits for an acknowledgment. The session reads from the client only after the
//! program has accepted earlier input, and from the program only after the client has accepted
//! earlier output.

mod authentication;
mod go_ahead;
mod half_duplex;
mod password_check;
mod window_size;

use super::client_stream::{ClientStream, Ready};
use super::login_prompt::LoginPrompt;
use super::login_server::LoginServer;
use super::program::{self, Client, RunningProgram};
use super::session_end::SessionEnd;
use super::start_tls_policy::StartTls;
use anyhow::{Context, Result};
use go_ahead::GoAhead;
use os::executor::{Descriptor, Timer};
use os::pty::{ControlCharacters, OUTPUT_FLUSHED, PtyProgram};
use os::tty::WindowSize;
use os::utmp::Entry;
use password_check::CheckResult;
use protocols::telnet::{Command, Event, OptionCode, ServerSettings, Side, Telnet};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::Interest;
use tokio::time::Instant;
use window_size::DEFAULT_WINDOW;

/// Maximum time that negotiation delays the start of the program.
const NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(3);
/// Number of bytes queued for the client at which the session stops reading the program's output.
const OUTPUT_MAX_LEN: usize = 32 * 1024;
/// Minimum number of queued output bytes for which an interrupt sends a Synch to the client.
const SYNCH_MIN_LEN: usize = 4096;
/// Number of typed bytes queued for the program at which the session stops reading the client's
/// input.
const TYPED_MAX_LEN: usize = 4096;
/// Maximum number of password attempts per session.
const ATTEMPTS_MAX: u32 = 3;
/// Time without program output after which the terminal is hung up, once the client has closed its
/// half of the connection. A client whose input is a pipe thus still receives the output of its
/// last command.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of answers to AYT per second.
const AYT_PER_SECOND: u32 = 4;

/// Sent to a client that continues in cleartext although TLS is required.
pub(super) const NO_TLS: &[u8] =
    b"This server requires TLS: use telnets, or a client that supports START_TLS.\r\n";

/// Stage of a session.
enum Stage {
    /// Options are being negotiated.
    Negotiating,
    LoginPrompt(LoginPrompt),
    /// A password is being checked in another thread. Dropping the future removes the check from
    /// the queue of checks.
    Checking(Pin<Box<dyn Future<Output = CheckResult>>>),
    /// The answer to a wrong password is delayed until this time.
    Delayed(Instant),
    Program(Descriptor<PtyProgram>, Option<Entry>),
    /// The program has ended; its last output is being sent.
    Ended(SessionEnd),
}

/// Reason for the end of a wait.
enum Woken {
    Client(Ready),
    /// The connection is lost. Only TLS and the user-space TCP report the loss while waiting; a
    /// kernel socket reports it on reading.
    Disconnected,
    Program {
        can_read: bool,
    },
    Checked(CheckResult),
    Deadline,
}

/// Bytes carried by a session.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SessionTraffic {
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

pub(super) struct LoginSession<W> {
    stream: W,
    peer: SocketAddr,
    server: Rc<LoginServer>,
    telnet: Telnet,
    stage: Stage,
    /// Output that did not fit into the Telnet engine's buffer.
    unsent_output: Vec<u8>,
    /// Input that the program has not accepted yet.
    typed_input: Vec<u8>,
    /// Reports that the program accepts input again. Present only while input is queued, because a
    /// terminal reports being writable after every key.
    writable: Option<Descriptor<OwnedFd>>,
    window: WindowSize,
    go_ahead: GoAhead,
    /// Whether the client has refused the server's ECHO.
    is_echo_refused: bool,
    /// Whether the last read from the client filled the buffer. In this case the program's output
    /// is processed before the client's input.
    is_client_busy: bool,
    terminal_type: Option<String>,
    attempts: u32,
    ayt_replies_left: u32,
    ayt_window_start: Instant,
    started_at: Instant,
    last_input_at: Instant,
    /// Set when the client has closed its half of the connection: the time of the close, or of the
    /// program's last output after the close.
    half_closed_at: Option<Instant>,
    start_tls: StartTls,
    /// Set if TLS begins after the current output: the bytes that were read after the end of the
    /// cleartext session.
    tls_input: Option<Vec<u8>>,
    pub(super) traffic: SessionTraffic,
}

impl<W: ClientStream> LoginSession<W> {
    pub(super) fn new(
        stream: W,
        peer: SocketAddr,
        server: Rc<LoginServer>,
        start_tls: StartTls,
    ) -> Self {
        let now = Instant::now();
        let mut allowed_options = ServerSettings::OPTIONS.with(OptionCode::ECHO_ACKNOWLEDGMENT);
        if start_tls != StartTls::Off {
            allowed_options = allowed_options.with(OptionCode::START_TLS);
        }
        let settings = ServerSettings {
            allowed_options,
            newline_to_cr: true,
            output_limit_bytes: 2 * OUTPUT_MAX_LEN,
            ..ServerSettings::default()
        };
        Self {
            stream,
            peer,
            server,
            telnet: Telnet::server(&settings),
            stage: Stage::Negotiating,
            unsent_output: Vec::new(),
            typed_input: Vec::new(),
            writable: None,
            window: DEFAULT_WINDOW,
            go_ahead: GoAhead::default(),
            is_echo_refused: false,
            is_client_busy: false,
            terminal_type: None,
            attempts: 0,
            ayt_replies_left: AYT_PER_SECOND,
            ayt_window_start: now,
            started_at: now,
            last_input_at: now,
            half_closed_at: None,
            start_tls,
            tls_input: None,
            traffic: SessionTraffic::default(),
        }
    }

    /// Runs the session to its end.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection fails or the program cannot be started.
    pub(super) async fn run(&mut self) -> Result<SessionEnd> {
        self.telnet.start(&mut self.server.engine().cx());
        let result = self.run_loop().await;
        self.hang_up();
        if matches!(result, Ok(ending) if ending != SessionEnd::StartsTls) {
            // The time limit ends the wait for a client that accepts no data or does not close the
            // connection.
            _ = tokio::time::timeout(LINGER_TIMEOUT, self.close()).await;
        }
        result
    }

    /// Returns the client's stream. If the session is to continue in TLS, also returns the bytes
    /// that were read after the end of the cleartext session.
    pub(super) fn into_stream(self) -> (W, Vec<u8>) {
        (self.stream, self.tls_input.unwrap_or_default())
    }

    /// Closes the stream and reads until the client closes. Dropping a connection with unread data
    /// resets it, which could discard the last output.
    async fn close(&mut self) -> io::Result<()> {
        self.stream.close().await;
        let mut unread = [0; 512];
        loop {
            if self.stream.ready(true, false).await?.can_read
                && self.stream.read(&mut unread)?.is_some_and(|read| read.count == 0)
            {
                return Ok(());
            }
        }
    }

    async fn run_loop(&mut self) -> Result<SessionEnd> {
        let mut timer = self.server.event_loop.timer(self.started_at + NEGOTIATION_TIMEOUT);
        loop {
            self.finish_negotiation()?;
            // Deadlines apply no matter how much the client sends.
            if let Some(ending) = self.on_deadline() {
                return Ok(ending);
            }
            self.write()?;
            let is_output_sent = self.telnet.output().is_empty() && self.unsent_output.is_empty();
            if self.tls_input.is_some() && is_output_sent && !self.stream.has_unsent() {
                return Ok(SessionEnd::StartsTls);
            }
            if let Stage::Ended(ending) = self.stage
                && is_output_sent
            {
                return Ok(ending);
            }
            let due = earliest(self.due(), self.acknowledgment_due());
            let due = earliest(due, self.go_ahead.due());
            timer.set_deadline(due);
            let wake_reason = self.wait(&mut timer, due.is_some()).await?;
            self.server.count_wakeup();
            match wake_reason {
                Woken::Client(ready) => {
                    if ready.is_urgent {
                        self.telnet.urgent();
                    }
                    if ready.can_read && !self.read_client()? && !self.on_half_close() {
                        return Ok(SessionEnd::ClientClosed);
                    }
                }
                Woken::Disconnected => return Ok(SessionEnd::ClientClosed),
                Woken::Program { can_read } => {
                    self.write_program()?;
                    if can_read {
                        self.read_program()?;
                    }
                }
                Woken::Checked((credentials, checked)) => self.on_checked(&credentials, checked)?,
                Woken::Deadline => {
                    self.acknowledge();
                    self.go_ahead();
                }
            }
        }
    }

    /// Records that the client has closed its half of the connection. Returns whether a program is
    /// running, which may still answer earlier input.
    fn on_half_close(&mut self) -> bool {
        self.half_closed_at = Some(Instant::now());
        matches!(self.stage, Stage::Program(..))
    }

    async fn wait(&mut self, timer: &mut Timer, has_deadline: bool) -> Result<Woken> {
        let wants_write = !self.telnet.output().is_empty() || !self.unsent_output.is_empty();
        let wants_input = self.typed_input.len() < TYPED_MAX_LEN
            && self.half_closed_at.is_none()
            && self.tls_input.is_none();
        // Output already read from the program is sent before more is read.
        let wants_output =
            self.unsent_output.is_empty() && self.telnet.output().len() < OUTPUT_MAX_LEN;
        let has_typed = !self.typed_input.is_empty();
        let polls_stream = wants_input || wants_write || self.stream.has_unsent();
        let mut client_ready = pin!(self.stream.ready(wants_input, wants_write));
        let mut program_ready =
            pin!(stage_ready(&mut self.stage, self.writable.as_ref(), wants_output, has_typed));
        let mut expired = pin!(timer.wait_for_expiry());
        // The client is polled first, to reduce latency, unless it sends continuously.
        let is_client_busy = self.is_client_busy;
        poll_fn(|context| {
            if is_client_busy && let Poll::Ready(woken) = program_ready.as_mut().poll(context) {
                return Poll::Ready(woken);
            }
            if polls_stream && let Poll::Ready(ready) = client_ready.as_mut().poll(context) {
                return Poll::Ready(match ready {
                    Err(error) if is_connection_lost(&error) => Ok(Woken::Disconnected),
                    ready => ready.context("the client connection failed").map(Woken::Client),
                });
            }
            if !is_client_busy && let Poll::Ready(woken) = program_ready.as_mut().poll(context) {
                return Poll::Ready(woken);
            }
            // An expired timer stays ready, so it is not polled without a deadline.
            if has_deadline && expired.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(Woken::Deadline));
            }
            Poll::Pending
        })
        .await
    }

    /// Returns the next deadline of the session.
    fn due(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Negotiating => Some(self.started_at + NEGOTIATION_TIMEOUT),
            Stage::Delayed(until) => Some(*until),
            Stage::LoginPrompt(_) | Stage::Checking(_) => {
                Some(self.started_at + self.server.configuration.login_timeout)
            }
            Stage::Program(..) => {
                match (self.half_closed_at, self.server.configuration.idle_timeout) {
                    (Some(half_closed_at), _) => Some(half_closed_at + LINGER_TIMEOUT),
                    (None, idle) => idle.map(|time| self.last_input_at + time),
                }
            }
            Stage::Ended(_) => Some(self.last_input_at + NEGOTIATION_TIMEOUT),
        }
    }

    /// Returns the time at which typed data is acknowledged if it has not been echoed by then.
    /// Returns `None` while the output buffer has no space for the echo.
    fn acknowledgment_due(&self) -> Option<Instant> {
        let due = self.telnet.deadline()?;
        let has_room = self.unsent_output.is_empty() && self.telnet.output().len() < OUTPUT_MAX_LEN;
        let remaining = due.since(self.server.engine().cx().now);
        has_room.then(|| Instant::now() + remaining)
    }

    /// Acknowledges typed data if its acknowledgment is due. The program is polled before the
    /// timer, so an echo that is already available has been read.
    fn acknowledge(&mut self) {
        let server = Rc::clone(&self.server);
        let mut engine = server.engine();
        let mut cx = engine.cx();
        if self.telnet.deadline().is_some_and(|due| due <= cx.now) {
            self.telnet.timeout(&mut cx);
        }
    }

    fn on_deadline(&mut self) -> Option<SessionEnd> {
        if self.due().is_none_or(|due| Instant::now() < due) {
            return None;
        }
        match self.stage {
            Stage::Negotiating => {}
            Stage::Delayed(_) => {
                if self.attempts >= ATTEMPTS_MAX {
                    return Some(SessionEnd::TooManyFailures);
                }
                self.queue_output(b"Login incorrect\r\n\r\n");
                self.start_prompt(LoginPrompt::default());
            }
            Stage::LoginPrompt(_) | Stage::Checking(_) => {
                self.queue_output(b"\r\nLogin timed out\r\n");
                self.stage = Stage::Ended(SessionEnd::LoginTimeout);
                self.last_input_at = Instant::now();
            }
            Stage::Program(..) if self.half_closed_at.is_some() => {
                return Some(SessionEnd::ClientClosed);
            }
            Stage::Program(..) => return Some(SessionEnd::IdleTimeout),
            Stage::Ended(ending) => return Some(ending),
        }
        None
    }

    /// Starts the service once option negotiation is complete or has timed out.
    fn finish_negotiation(&mut self) -> Result<()> {
        if !matches!(self.stage, Stage::Negotiating) {
            return Ok(());
        }
        let has_timed_out = self.started_at.elapsed() >= NEGOTIATION_TIMEOUT;
        let names_terminal = self.telnet.is_enabled(Side::Remote, OptionCode::TERMINAL_TYPE);
        let is_negotiated =
            self.telnet.negotiation_is_quiet() && (!names_terminal || self.terminal_type.is_some());
        // Input before the first answer means that the client does not negotiate. If TLS is
        // required, such input does not count, because an attacker may have injected it.
        let is_typing = !self.typed_input.is_empty() && self.start_tls != StartTls::Required;
        // A client that has agreed to START_TLS is not served in cleartext.
        let awaits_tls = self.telnet.is_enabled(Side::Remote, OptionCode::START_TLS);
        if has_timed_out || (!awaits_tls && (is_negotiated || is_typing)) {
            self.start_service()?;
        }
        Ok(())
    }

    fn start_service(&mut self) -> Result<()> {
        let awaits_tls = self.telnet.is_enabled(Side::Remote, OptionCode::START_TLS);
        if awaits_tls || self.start_tls == StartTls::Required {
            self.queue_output(NO_TLS);
            self.stage = Stage::Ended(SessionEnd::TlsRequired);
            self.last_input_at = Instant::now();
            return Ok(());
        }
        let greeting = self.server.configuration.greeting();
        self.queue_output(&greeting);
        let client = self.client();
        let running = match &self.server.service {
            super::login_server::Service::NoLogins => {
                anyhow::bail!("this server accepts no logins")
            }
            super::login_server::Service::SystemLogin => program::start_login(&client)?,
            super::login_server::Service::Exec(program_arguments) => {
                program::start_exec(program_arguments, &client)?
            }
            super::login_server::Service::Users(_) => {
                self.start_prompt(LoginPrompt::default());
                return Ok(());
            }
        };
        self.attach(running)
    }

    fn client(&self) -> Client {
        let terminal = self.terminal_type.clone();
        let address = self.peer.ip().to_canonical();
        let window = self.window;
        Client { address, terminal, window, is_echo_refused: self.is_echo_refused }
    }

    fn attach(&mut self, running: RunningProgram) -> Result<()> {
        self.server.admission().mark_authenticated(self.peer);
        let program = self.server.event_loop.register(running.program, Interest::READABLE)?;
        self.stage = Stage::Program(program, running.entry);
        self.last_input_at = Instant::now();
        self.write_program()
    }

    fn start_prompt(&mut self, mut prompt: LoginPrompt) {
        let mut output = Vec::new();
        prompt.set_echo(!self.is_echo_refused);
        prompt.start(&mut output);
        self.queue_output(&output);
        self.stage = Stage::LoginPrompt(prompt);
        // Process input that arrived during option negotiation.
        let typed_input = std::mem::take(&mut self.typed_input);
        self.process_input(&typed_input);
    }

    /// Reads data from the client. Returns false if the connection has ended.
    fn read_client(&mut self) -> Result<bool> {
        let server = Rc::clone(&self.server);
        let mut scratch = server.scratch.borrow_mut();
        // Never read more than fits into `typed_input`, so that no input is lost.
        let buffer = scratch.get_mut(..TYPED_MAX_LEN).unwrap_or_default();
        let read = match server.charge_call(|| self.stream.read(buffer)) {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(true),
            Err(error) if is_connection_lost(&error) => return Ok(false),
            Err(error) => return Err(error).context("the client connection failed"),
        };
        if read.count == 0 {
            return Ok(false);
        }
        self.traffic.bytes_in += read.count as u64;
        self.is_client_busy = read.count == TYPED_MAX_LEN;
        if matches!(self.stage, Stage::Program(..)) {
            server.engine().meter.transaction();
        }
        let mut input = scratch.get(..read.count).unwrap_or_default();
        loop {
            let event = self.telnet.receive(&mut input, &mut server.engine().cx());
            let Some(event) = event else { break };
            match event {
                Event::Data(data) => self.on_data(data),
                event => self.on_event(event),
            }
        }
        if read.ends_urgent {
            self.telnet.urgent_ended();
        }
        if let Some(rest) = &mut self.tls_input {
            // An attacker may have injected the cleartext input.
            self.typed_input.clear();
            self.unsent_output.clear();
            rest.extend_from_slice(input);
        }
        self.write_program()?;
        Ok(true)
    }

    fn on_data(&mut self, data: &[u8]) {
        if self.server.configuration.idle_timeout.is_some() {
            self.last_input_at = Instant::now();
        }
        self.process_input(data);
    }

    fn process_input(&mut self, data: &[u8]) {
        let Stage::LoginPrompt(prompt) = &mut self.stage else {
            let room = (2 * TYPED_MAX_LEN).saturating_sub(self.typed_input.len());
            // The client is not read while `typed_input` is full, so at most one read exceeds the
            // limit of `typed_input`.
            let accepted_len = data.len().min(room);
            return self
                .typed_input
                .extend_from_slice(data.get(..accepted_len).unwrap_or_default());
        };
        let mut output = Vec::new();
        let mut rest = data.iter();
        let credentials = rest.by_ref().find_map(|byte| prompt.on_byte(*byte, &mut output));
        self.queue_output(&output);
        if let Some(credentials) = credentials {
            self.check(credentials);
            self.process_input(rest.as_slice());
        }
    }

    fn on_event(&mut self, event: Event<'_>) {
        match event {
            Event::TerminalType(name) => self.terminal_type = Some(name),
            Event::WindowSize { columns, rows } => self.on_window(columns, rows),
            Event::Command(command) => self.on_command(command),
            Event::StartTls => self.tls_input = Some(Vec::new()),
            Event::Option { side: Side::Local, option, enabled } => self.on_option(option, enabled),
            Event::Refused { side: Side::Local, option } => self.on_option(option, false),
            _ => {}
        }
    }

    /// Applies a Telnet command of the client to the terminal (RFC 854, RFC 1123 §3.2.4).
    fn on_command(&mut self, command: Command) {
        let key: fn(ControlCharacters) -> u8 = match command {
            Command::AreYouThere => return self.answer_are_you_there(),
            Command::InterruptProcess | Command::Break => |keys| keys.interrupt,
            Command::EraseCharacter => |keys| keys.erase,
            Command::EraseLine => |keys| keys.kill,
            Command::EndOfFile => |keys| keys.end_of_file,
            Command::Suspend => |keys| keys.suspend,
            Command::Abort => |keys| keys.quit,
            Command::AbortOutput => return self.unsent_output.clear(),
            _ => return,
        };
        match &self.stage {
            Stage::Program(program, _) => {
                let keys = program.get_ref().control_characters();
                if let Ok(key) = keys.map(key)
                    && key != 0
                {
                    self.process_input(&[key]);
                }
            }
            Stage::LoginPrompt(_) if matches!(command, Command::EraseCharacter) => {
                self.process_input(&[0x7f]);
            }
            Stage::LoginPrompt(_) if matches!(command, Command::EraseLine) => {
                self.process_input(&[0x15]);
            }
            _ => {}
        }
    }

    /// Replies to AYT (Are You There) at most [`AYT_PER_SECOND`] times per second (attack 58).
    fn answer_are_you_there(&mut self) {
        if self.ayt_window_start.elapsed() >= Duration::from_secs(1) {
            self.ayt_replies_left = AYT_PER_SECOND;
            self.ayt_window_start = Instant::now();
        }
        if let Some(remaining) = self.ayt_replies_left.checked_sub(1) {
            self.ayt_replies_left = remaining;
            self.queue_output(b"\r\n[plumb: yes]\r\n");
        }
    }

    /// Queues bytes for the client.
    fn queue_output(&mut self, bytes: &[u8]) {
        self.go_ahead.on_output();
        let queued_bytes = match self.unsent_output.is_empty() {
            true => self.telnet.send(bytes, &mut self.server.engine().cx()),
            false => 0,
        };
        self.unsent_output.extend_from_slice(bytes.get(queued_bytes..).unwrap_or_default());
    }

    /// Writes queued output to the client until it accepts no more.
    fn write(&mut self) -> Result<()> {
        loop {
            if !self.unsent_output.is_empty() {
                let unsent_output = std::mem::take(&mut self.unsent_output);
                self.queue_output(&unsent_output);
                if self.telnet.is_enabled(Side::Remote, OptionCode::START_TLS) {
                    // No more output is sent before TLS, so output that does not fit into the
                    // buffer is dropped.
                    self.unsent_output.clear();
                }
            }
            let output = self.telnet.output();
            if output.is_empty() {
                return Ok(());
            }
            let urgent = self.telnet.urgent_mark();
            let written_bytes = match self.server.charge_call(|| self.stream.write(output, urgent))
            {
                Ok(Some(written)) => written,
                Ok(None) => return Ok(()),
                // The next read reports the lost connection too.
                Err(error) if is_connection_lost(&error) => {
                    self.half_closed_at = self.half_closed_at.map(|_| self.started_at);
                    output.len()
                }
                Err(error) => return Err(error).context("the client connection failed"),
            };
            self.traffic.bytes_out += written_bytes as u64;
            self.telnet.sent(written_bytes);
        }
    }

    /// Writes typed data to the program until it accepts no more.
    fn write_program(&mut self) -> Result<()> {
        let Stage::Program(program, _) = &self.stage else { return Ok(()) };
        while !self.typed_input.is_empty() {
            match self.server.charge_call(|| program.get_ref().write(&self.typed_input)) {
                Ok(Some(count)) => drop(self.typed_input.drain(..count)),
                Ok(None) => break,
                // The terminal is hung up; the next read reports the hang-up.
                Err(_) => self.typed_input.clear(),
            }
        }
        if self.typed_input.is_empty() {
            self.writable = None;
        } else if self.writable.is_none() {
            let writable = program.get_ref().as_fd().try_clone_to_owned()?;
            self.writable = Some(self.server.event_loop.register(writable, Interest::WRITABLE)?);
        }
        Ok(())
    }

    /// Reads the program's output as long as the output buffer has space.
    fn read_program(&mut self) -> Result<()> {
        let server = Rc::clone(&self.server);
        let mut scratch = server.scratch.borrow_mut();
        while self.unsent_output.is_empty() && self.telnet.output().len() < OUTPUT_MAX_LEN {
            let Stage::Program(program, _) = &self.stage else { return Ok(()) };
            let read = server.charge_call(|| read_terminal(program, &mut scratch));
            let Some(count) = read? else { return Ok(()) };
            match scratch.get(..count).unwrap_or_default() {
                [] => {
                    self.finish();
                    return Ok(());
                }
                [0, data @ ..] => {
                    self.half_closed_at = self.half_closed_at.map(|_| Instant::now());
                    // A short read has drained the terminal.
                    let is_empty = count < 1024;
                    self.queue_output(data);
                    if is_empty {
                        return Ok(());
                    }
                }
                [flags, ..] if flags & OUTPUT_FLUSHED != 0 => self.flush_output(),
                _ => {}
            }
        }
        Ok(())
    }

    /// Handles an interrupt: the terminal has flushed its output, so queued output is discarded
    /// too. A Synch (RFC 1123 §3.2.4) is sent only if much output is queued: with little output the
    /// client needs no Synch, and some clients lose a byte after one.
    fn flush_output(&mut self) {
        self.unsent_output.clear();
        if self.telnet.output().len() >= SYNCH_MIN_LEN {
            self.telnet.command(Command::DataMark, &mut self.server.engine().cx());
        }
    }

    fn finish(&mut self) {
        self.hang_up();
        self.stage = Stage::Ended(SessionEnd::ProgramExited);
        self.last_input_at = Instant::now();
    }

    /// Hangs up the program's terminal, if any, and waits for the program in the background.
    fn hang_up(&mut self) {
        // Drop the duplicate descriptor, which would keep the terminal open.
        self.writable = None;
        let stage = std::mem::replace(&mut self.stage, Stage::Ended(SessionEnd::ClientClosed));
        if let Stage::Program(program, entry) = stage {
            // Errors are ignored, because many systems have no utmp or wtmp file.
            _ = entry.map(|entry| entry.log_out());
            super::reaper::reap(program.into_inner().hang_up());
        }
    }
}

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Reads from the terminal once. Returns 0 on a hang-up and `None` if no data is available now. A
/// short read marks the terminal as drained, which saves a further read that would return no data.
fn read_terminal(program: &Descriptor<PtyProgram>, bytes: &mut [u8]) -> Result<Option<usize>> {
    let mut count = None;
    let read = program.try_io(Interest::READABLE, |program| {
        count = program.read(bytes)?;
        let is_empty = count.is_none_or(|count| count > 1 && count < 1024);
        if is_empty { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
    });
    match (count, read) {
        (Some(count), _) => Ok(Some(count)),
        (None, Ok(())) => Ok(None),
        (None, Err(error)) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        (None, Err(error)) => Err(error).context("the terminal of the program failed"),
    }
}

async fn stage_ready(
    stage: &mut Stage,
    writable: Option<&Descriptor<OwnedFd>>,
    wants_output: bool,
    has_typed: bool,
) -> Result<Woken> {
    match stage {
        Stage::Program(program, _) if wants_output || has_typed => {
            let mut program = pin!(program.ready(Interest::READABLE));
            let mut writable = pin!(terminal_writable(writable));
            let wakeup = poll_fn(|context| {
                if wants_output && let Poll::Ready(ready) = program.as_mut().poll(context) {
                    return Poll::Ready(ready.map(|_| Woken::Program { can_read: true }));
                }
                if has_typed && let Poll::Ready(ready) = writable.as_mut().poll(context) {
                    return Poll::Ready(ready.map(|()| Woken::Program { can_read: false }));
                }
                Poll::Pending
            });
            wakeup.await.context("cannot poll the terminal of the program")
        }
        Stage::Checking(checking) => Ok(Woken::Checked(checking.await)),
        _ => std::future::pending().await,
    }
}

/// Waits until the terminal may accept input again.
async fn terminal_writable(writable: Option<&Descriptor<OwnedFd>>) -> io::Result<()> {
    match writable {
        Some(writable) => writable
            .ready(Interest::WRITABLE)
            .await
            .map(|_| writable.clear_readiness(Interest::WRITABLE)),
        None => std::future::pending().await,
    }
}

/// Returns whether an error means only that the connection is lost.
pub(super) fn is_connection_lost(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::ConnectionAborted
            | ErrorKind::UnexpectedEof
            | ErrorKind::TimedOut
            | ErrorKind::HostUnreachable
    )
}
