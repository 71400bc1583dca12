//! Console session: Telnet to the client, and the `LineMultiplexer` of the serial line.
//!
//! Option negotiation comes first, for a limited time, because it decides whether the client uses
//! RFC 2217. With RFC 2217, the client's data stream carries only the bytes of the line, and
//! notices are sent as signatures. Without RFC 2217, notices appear within the output, in lines
//! that begin with `[plumb:`, and the client can use the escape keys (`escape`).

use super::SerialConsole;
use super::escape::{ConsoleKey, Escape, EscapeCommand, HELP};
use super::line_multiplexer::{ClientId, InputResult, Masks};
use crate::client_stream::{ClientStream, Ready};
use crate::log::ServeEvent as Logged;
use crate::login_server::LoginServer;
use crate::login_session::{NO_TLS, SessionTraffic, is_connection_lost};
use crate::session_end::SessionEnd;
use crate::start_tls_policy::StartTls;
use anyhow::{Context, Result};
use net::meter::Counter;
use protocols::telnet::{
    ComPortCommand, ComPortEvent, Command, Event, OptionCode, ServerSettings, Side, Telnet,
};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Maximum time that negotiation delays the output of the line.
const NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit for starting TLS, if the client has agreed to TLS or the server requires it.
const TLS_NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(3);
/// Number of bytes queued for the client at which the session stops passing on output of the line.
const OUTPUT_MAX_LEN: usize = 32 * 1024;
/// Maximum number of bytes of line output taken from the queue of the client at a time.
const CHUNK_LEN: usize = 8 * 1024;
/// Number of queued typed bytes at which the session stops reading the client's input.
const TYPED_MAX_LEN: usize = 4096;
/// Maximum time for sending the last output, and duration of a BREAK sent by key or by Telnet.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
const BREAK: Duration = Duration::from_millis(300);

/// Initial masks of RFC 2217: all bits of the modem state, no bits of the line state.
const MASKS: Masks = Masks { line: 0, modem: 0xFF };

enum Stage {
    /// Options are being negotiated.
    Negotiating,
    /// The client is attached to the line.
    Attached(ClientId, Rc<Notify>),
    /// The last output is being sent.
    Ended(SessionEnd),
}

enum Woken {
    Client(Ready),
    /// The connection is lost. Only TLS and the user-space TCP report the loss while waiting; a
    /// kernel socket reports it on reading.
    Disconnected,
    Notified,
    Deadline,
}

pub(crate) struct ConsoleSession<W> {
    stream: W,
    peer: SocketAddr,
    server: Rc<LoginServer>,
    console: Rc<SerialConsole>,
    telnet: Telnet,
    stage: Stage,
    /// Output that did not fit into the Telnet engine's buffer.
    unsent_output: Vec<u8>,
    /// Input that the line has not accepted yet.
    typed_input: VecDeque<u8>,
    escape: Escape,
    masks: Masks,
    /// Whether the client has been notified of refused input since its input was last accepted.
    is_refusal_reported: bool,
    started_at: Instant,
    start_tls: StartTls,
    tls_input: Option<Vec<u8>>,
    pub(crate) traffic: SessionTraffic,
}

impl<W: ClientStream> ConsoleSession<W> {
    pub(crate) fn new(
        stream: W,
        peer: SocketAddr,
        server: Rc<LoginServer>,
        console: Rc<SerialConsole>,
        start_tls: StartTls,
    ) -> Self {
        let mut allowed_options = ServerSettings::OPTIONS.with(OptionCode::COM_PORT);
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
            console,
            telnet: Telnet::server(&settings),
            stage: Stage::Negotiating,
            unsent_output: Vec::new(),
            typed_input: VecDeque::new(),
            escape: Escape::default(),
            masks: MASKS,
            is_refusal_reported: false,
            started_at: Instant::now(),
            start_tls,
            tls_input: None,
            traffic: SessionTraffic::default(),
        }
    }

    /// Runs the session to its end.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection fails.
    pub(crate) async fn run(&mut self) -> Result<SessionEnd> {
        // A console requires no login.
        self.server.admission().mark_authenticated(self.peer);
        self.telnet.start(&mut self.server.engine().cx());
        let result = self.run_loop().await;
        self.detach();
        if matches!(result, Ok(ending) if ending != SessionEnd::StartsTls) {
            // The time limit ends the wait for a client that accepts no data.
            _ = tokio::time::timeout(LINGER_TIMEOUT, self.stream.close()).await;
        }
        result
    }

    /// Returns the client's stream. If the session is to continue in TLS, also returns the bytes
    /// that were read after the end of the cleartext session.
    pub(crate) fn into_stream(self) -> (W, Vec<u8>) {
        (self.stream, self.tls_input.unwrap_or_default())
    }

    fn detach(&mut self) {
        if let Stage::Attached(id, _) = self.stage
            && self.console.multiplexer.borrow_mut().detach(id)
        {
            self.console.end_break();
        }
        self.stage = Stage::Ended(SessionEnd::ClientClosed);
    }

    async fn run_loop(&mut self) -> Result<SessionEnd> {
        loop {
            self.finish_negotiation();
            self.forward_typed_input();
            self.take_output();
            self.write()?;
            // The notification of pending output has already been received, so all output that can
            // be sent is taken now.
            while self.has_pending_output() && self.telnet.output().is_empty() {
                self.take_output();
                self.write()?;
            }
            let is_output_sent = self.telnet.output().is_empty() && self.unsent_output.is_empty();
            if self.tls_input.is_some() && is_output_sent && !self.stream.has_unsent() {
                return Ok(SessionEnd::StartsTls);
            }
            // Continuous input must not delay the end of the session.
            if let Stage::Ended(ending) = self.stage
                && (is_output_sent || self.started_at.elapsed() >= LINGER_TIMEOUT)
            {
                return Ok(ending);
            }
            match self.wait().await? {
                Woken::Client(ready) => {
                    if ready.is_urgent {
                        self.telnet.urgent();
                    }
                    if ready.can_read && !self.read()? {
                        return Ok(SessionEnd::ClientClosed);
                    }
                }
                Woken::Disconnected => return Ok(SessionEnd::ClientClosed),
                Woken::Notified => {}
                Woken::Deadline => {}
            }
        }
    }

    async fn wait(&mut self) -> Result<Woken> {
        let wants_write = !self.telnet.output().is_empty() || !self.unsent_output.is_empty();
        let wants_input = self.typed_input.len() < TYPED_MAX_LEN && self.tls_input.is_none();
        let polls_stream = wants_input || wants_write || self.stream.has_unsent();
        let deadline = match self.stage {
            Stage::Negotiating => Some(self.started_at + self.negotiation_timeout()),
            Stage::Attached(..) => None,
            Stage::Ended(_) => Some(self.started_at + LINGER_TIMEOUT),
        };
        let timer = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let wakeup = async {
            match &self.stage {
                Stage::Attached(_, wakeup) => wakeup.notified().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ready = self.stream.ready(wants_input, wants_write), if polls_stream => {
                match ready {
                    Err(error) if is_connection_lost(&error) => Ok(Woken::Disconnected),
                    ready => ready.context("the client connection failed").map(Woken::Client),
                }
            }
            () = wakeup => Ok(Woken::Notified),
            () = timer => Ok(Woken::Deadline),
        }
    }

    /// Returns whether the client has agreed to TLS and TLS has not started.
    fn awaits_tls(&self) -> bool {
        self.telnet.is_enabled(Side::Remote, OptionCode::START_TLS)
    }

    fn negotiation_timeout(&self) -> Duration {
        let is_for_tls = self.awaits_tls() || self.start_tls == StartTls::Required;
        if is_for_tls { TLS_NEGOTIATION_TIMEOUT } else { NEGOTIATION_TIMEOUT }
    }

    /// Attaches the client once option negotiation is complete or has timed out.
    fn finish_negotiation(&mut self) {
        if !matches!(self.stage, Stage::Negotiating) || self.tls_input.is_some() {
            return;
        }
        let has_timed_out = self.started_at.elapsed() >= self.negotiation_timeout();
        let is_negotiated = self.telnet.negotiation_is_quiet() && !self.awaits_tls();
        if is_negotiated || has_timed_out {
            self.attach();
        }
    }

    /// Attaches the client, or ends the session if it must not continue in cleartext.
    fn attach(&mut self) {
        if self.awaits_tls() || self.start_tls == StartTls::Required {
            self.queue_output(NO_TLS);
            self.end(SessionEnd::TlsRequired);
            return;
        }
        let may_write = self.console.may_write(self.peer);
        let (id, wakeup) = self.console.multiplexer.borrow_mut().attach(self.peer, may_write);
        self.stage = Stage::Attached(id, wakeup);
        if self.uses_com_port() {
            self.console.multiplexer.borrow_mut().set_masks(id, self.masks);
            self.console.wakeup.notify_one();
        }
        self.log_write_access(id);
    }

    fn end(&mut self, ending: SessionEnd) {
        self.detach();
        self.started_at = Instant::now();
        self.stage = Stage::Ended(ending);
    }

    fn uses_com_port(&self) -> bool {
        self.telnet.is_enabled(Side::Remote, OptionCode::COM_PORT)
    }

    /// Writes a log event if this client has write access.
    fn log_write_access(&self, id: ClientId) {
        if self.console.multiplexer.borrow().has_write_access(id) {
            let device = self.console.settings.device.display().to_string();
            self.server.log.write(&Logged::Writes { from: self.peer, device });
        }
    }

    /// Reads data from the client. Returns false if the connection has ended.
    fn read(&mut self) -> Result<bool> {
        let server = Rc::clone(&self.server);
        let mut scratch = server.scratch.borrow_mut();
        let buffer = scratch.get_mut(..TYPED_MAX_LEN).unwrap_or_default();
        let read = match self.stream.read(buffer) {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(true),
            Err(error) if is_connection_lost(&error) => return Ok(false),
            Err(error) => return Err(error).context("the client connection failed"),
        };
        if read.count == 0 {
            return Ok(false);
        }
        self.traffic.bytes_in += read.count as u64;
        let mut input = scratch.get(..read.count).unwrap_or_default();
        loop {
            let event = self.telnet.receive(&mut input, &mut server.engine().cx());
            let Some(event) = event else { break };
            match event {
                Event::Data(keys) => self.on_keys(keys),
                Event::ComPort(event) => self.on_com_port(&event),
                Event::Command(command) => self.on_command(command),
                Event::Option { side: Side::Remote, option: OptionCode::COM_PORT, enabled } => {
                    self.on_com_port_option(enabled);
                }
                Event::StartTls => self.tls_input = Some(Vec::new()),
                _ => {}
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
        Ok(true)
    }

    fn on_com_port_option(&mut self, is_on: bool) {
        if is_on {
            // The line's data is binary, and many RFC 2217 clients do not request BINARY
            // themselves.
            let mut engine = self.server.engine();
            for side in [Side::Local, Side::Remote] {
                // `ask` fails if the client has already requested BINARY.
                _ = self.telnet.ask(side, OptionCode::BINARY, true, &mut engine.cx());
            }
        }
        if let (Stage::Attached(id, _), true) = (&self.stage, is_on) {
            self.console.multiplexer.borrow_mut().set_masks(*id, self.masks);
            self.console.wakeup.notify_one();
        }
    }

    fn on_keys(&mut self, mut keys: &[u8]) {
        if self.uses_com_port() {
            self.typed_input.extend(keys);
            return;
        }
        let mut escape = self.escape;
        while let Some(key) = escape.take(&mut keys) {
            match key {
                ConsoleKey::Line(run) => self.typed_input.extend(run),
                ConsoleKey::Incomplete => {}
                ConsoleKey::EscapeCommand(command) => self.execute(command),
            }
        }
        self.escape = escape;
    }

    fn execute(&mut self, command: EscapeCommand) {
        let Stage::Attached(id, _) = self.stage else { return };
        // Input typed before the command is passed on first.
        self.forward_typed_input();
        match command {
            EscapeCommand::TakeOver => {
                let may_write = self.console.multiplexer.borrow_mut().take_write_access(id);
                if !may_write {
                    self.notify("write access is not allowed from this address");
                }
                self.log_write_access(id);
            }
            EscapeCommand::Watch => self.console.multiplexer.borrow_mut().release_write_access(id),
            EscapeCommand::ListClients => {
                let clients = self.console.multiplexer.borrow().list_clients();
                clients.iter().for_each(|line| self.notify(line));
            }
            EscapeCommand::Replay => {
                let history = self.console.multiplexer.borrow().history();
                self.notify("recent output:");
                self.queue_output(&history);
                self.notify("end of recent output");
            }
            EscapeCommand::Break => self.send_break(),
            EscapeCommand::Leave => self.end(SessionEnd::ClientClosed),
            EscapeCommand::Help => self.notify(HELP),
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Break => self.send_break(),
            Command::AreYouThere => self.notify("yes"),
            _ => {}
        }
    }

    /// Sends a BREAK on the line, if this client has write access.
    fn send_break(&mut self) {
        let Stage::Attached(id, _) = self.stage else { return };
        if !self.console.multiplexer.borrow().has_write_access(id) {
            return self.notify("BREAK requires write access");
        }
        self.console.with_line(|line| line.set_break(true));
        let console = Rc::clone(&self.console);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(BREAK).await;
            console.end_break();
        });
    }

    fn on_com_port(&mut self, event: &ComPortEvent) {
        let ComPortEvent::Command(command) = event else { return };
        let may_begin = !self.awaits_tls() && self.start_tls != StartTls::Required;
        // A client that sends RFC 2217 commands has already negotiated RFC 2217.
        if matches!(self.stage, Stage::Negotiating) && may_begin {
            self.attach();
        }
        let Stage::Attached(id, _) = self.stage else { return };
        self.forward_typed_input();
        if let Some(answer) = self.console.execute_com_port(id, command, &mut self.masks) {
            // The answer is dropped if the client does not read its output.
            _ = self.telnet.com_port(&answer, &mut self.server.engine().cx());
        }
    }

    /// Queues typed input for the line as far as the line's queue has space.
    fn forward_typed_input(&mut self) {
        let Stage::Attached(id, _) = self.stage else { return };
        if self.typed_input.is_empty() {
            return;
        }
        let had_write_access = self.console.multiplexer.borrow().has_write_access(id);
        let typed_input = self.typed_input.make_contiguous();
        let input_result = self.console.multiplexer.borrow_mut().enqueue_input(id, typed_input);
        let notice = match input_result {
            InputResult::Accepted(count) => {
                self.typed_input.drain(..count);
                self.is_refusal_reported = false;
                self.console.wakeup.notify_one();
                if !had_write_access {
                    self.log_write_access(id);
                }
                return;
            }
            InputResult::NoWriteAccess => "another client has write access: ^E c f takes over",
            InputResult::Forbidden => "write access is not allowed from this address",
        };
        let refused_bytes = self.typed_input.len() as u64;
        self.server.engine().meter.add(Counter::ConsoleBytesRefused, refused_bytes);
        self.typed_input.clear();
        if !std::mem::replace(&mut self.is_refusal_reported, true) {
            self.notify(notice);
        }
    }

    /// Returns whether output of the line is pending and may be sent.
    fn has_pending_output(&self) -> bool {
        let Stage::Attached(id, _) = self.stage else { return false };
        !self.telnet.is_suspended() && self.console.multiplexer.borrow().has_output(id)
    }

    /// Takes pending output and notices as far as the output buffer has space.
    fn take_output(&mut self) {
        let Stage::Attached(id, _) = self.stage else { return };
        while self.unsent_output.is_empty()
            && self.telnet.output().len() < OUTPUT_MAX_LEN
            && !self.telnet.is_suspended()
        {
            let pending = self.console.multiplexer.borrow_mut().take_pending(id, CHUNK_LEN);
            let is_last = pending.output.len() < CHUNK_LEN;
            if pending.dropped_bytes > 0 {
                self.notify(&format!(
                    "{} bytes skipped: output not read fast enough",
                    pending.dropped_bytes
                ));
            }
            self.queue_output(&pending.output);
            pending.notices.iter().for_each(|notice| self.notify(notice));
            let state_reports = [
                pending.line_state.map(ComPortCommand::LineState),
                pending.modem_state.map(ComPortCommand::ModemState),
            ];
            for state in state_reports.iter().flatten() {
                // The notification is dropped if the client does not read its output.
                _ = self.telnet.com_port(state, &mut self.server.engine().cx());
            }
            if is_last {
                return;
            }
        }
    }

    /// Sends a notice: as a signature with RFC 2217, otherwise within the output.
    fn notify(&mut self, notice: &str) {
        if self.uses_com_port() {
            let signature = ComPortCommand::Signature(format!("plumb: {notice}"));
            // The notice is dropped if the client does not read its output.
            _ = self.telnet.com_port(&signature, &mut self.server.engine().cx());
        } else {
            self.queue_output(format!("\r\n[plumb: {notice}]\r\n").as_bytes());
        }
    }

    /// Queues bytes for the client.
    fn queue_output(&mut self, bytes: &[u8]) {
        let written = match self.unsent_output.is_empty() {
            true => self.telnet.send(bytes, &mut self.server.engine().cx()),
            false => 0,
        };
        let rest = bytes.get(written..).unwrap_or_default();
        // Further output is dropped if the client sends requests without reading the answers.
        if self.unsent_output.len() < 4 * OUTPUT_MAX_LEN {
            self.unsent_output.extend_from_slice(rest);
        }
    }

    /// Writes queued output to the client until it accepts no more.
    fn write(&mut self) -> Result<()> {
        loop {
            if !self.unsent_output.is_empty() {
                let unsent_output = std::mem::take(&mut self.unsent_output);
                self.queue_output(&unsent_output);
                if self.awaits_tls() {
                    // No more output is sent before TLS, so output that does not fit into the
                    // buffer is dropped.
                    self.unsent_output.clear();
                }
            }
            let output = self.telnet.output();
            if output.is_empty() {
                return Ok(());
            }
            let written = match self.stream.write(output, self.telnet.urgent_mark()) {
                Ok(Some(written)) => written,
                Ok(None) => return Ok(()),
                // The next read reports the lost connection too.
                Err(error) if is_connection_lost(&error) => output.len(),
                Err(error) => return Err(error).context("the client connection failed"),
            };
            self.traffic.bytes_out += written as u64;
            self.telnet.sent(written);
        }
    }
}
