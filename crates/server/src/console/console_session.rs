//! Console session: the back end of a Telnet session that attaches the client to the
//! `LineMultiplexer` of the serial line.
//!
//! Option negotiation comes first, for a limited time, because it decides whether the client uses
//! RFC 2217. With RFC 2217, the client's data stream carries only the bytes of the line, and
//! notices are sent as signatures. Without RFC 2217, notices appear within the output, in lines
//! that begin with `[plumb:`, and the client can use the escape keys (`escape`).

use super::SerialConsole;
use super::escape::{ConsoleKey, Escape, EscapeCommand, HELP};
use super::line_multiplexer::{ClientId, InputResult, Masks};
use super::notice::{self, DEFAULT_COLUMNS};
use crate::are_you_there::AreYouThereLimit;
use crate::log::ServeEvent as Logged;
use crate::session_backend::SessionBackend;
use crate::session_end::SessionEnd;
use crate::telnet_client::TelnetClient;
use anyhow::Result;
use net::meter::Counter;
use protocols::telnet::{
    ComPortCommand, ComPortEvent, Command, Event, OptionCode, OptionSet, ServerSettings, Side,
};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Maximum time that negotiation delays the output of the line.
const NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit for starting TLS, if the client has agreed to TLS or the server requires it.
const TLS_NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of bytes of line output taken from the queue of the client at a time.
const CHUNK_LEN: usize = 8 * 1024;
/// Time without accepted output after which a session that has ended is closed.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
/// Duration of a BREAK sent by key or by Telnet.
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

/// State of a console session behind its Telnet connection.
pub(crate) struct ConsoleSession {
    console: Rc<SerialConsole>,
    stage: Stage,
    escape: Escape,
    masks: Masks,
    ayt_limit: AreYouThereLimit,
    /// Whether the client has been notified of refused input since its input was last accepted.
    is_refusal_reported: bool,
    /// Width of the client's window, in which notices are wrapped.
    columns: u16,
    /// Start of the session, or of its end.
    started_at: Instant,
}

impl SessionBackend for ConsoleSession {
    const OPTIONS: OptionSet = ServerSettings::OPTIONS.with(OptionCode::COM_PORT);

    type Wakeup = ();

    fn advance(&mut self, client: &mut TelnetClient) -> Result<Option<SessionEnd>> {
        self.finish_negotiation(client);
        if self.console.is_removed() && self.ending().is_none() {
            self.take_output(client);
            self.finish(SessionEnd::ConsoleRemoved);
        }
        self.forward_typed_input(client);
        // Continuous input must not delay the end of the session.
        let deadline = client.last_output_deadline(self.started_at, LINGER_TIMEOUT);
        let has_lingered = Instant::now() >= deadline;
        Ok(self.ending().filter(|_| has_lingered))
    }

    /// Takes pending output and notices as far as the output buffer has space.
    fn take_output(&mut self, client: &mut TelnetClient) -> bool {
        let Stage::Attached(id, _) = self.stage else { return false };
        while client.has_output_space() && !client.telnet.is_suspended() {
            let pending = self.console.multiplexer.borrow_mut().take_pending(id, CHUNK_LEN);
            let is_last = pending.output.len() < CHUNK_LEN;
            if pending.dropped_bytes > 0 {
                let count = pending.dropped_bytes;
                self.notify(client, &format!("{count} bytes skipped: output not read fast enough"));
            }
            client.queue_output(&pending.output);
            pending.notices.iter().for_each(|notice| self.notify(client, notice));
            let state_reports = [
                pending.line_state.map(ComPortCommand::LineState),
                pending.modem_state.map(ComPortCommand::ModemState),
            ];
            for state in state_reports.iter().flatten() {
                // The notification is dropped if the client does not read its output.
                _ = client.telnet.com_port(state, &mut client.server.engine().cx());
            }
            if is_last {
                break;
            }
        }
        !client.telnet.is_suspended() && self.console.multiplexer.borrow().has_output(id)
    }

    fn ending(&self) -> Option<SessionEnd> {
        if let Stage::Ended(ending) = self.stage { Some(ending) } else { None }
    }

    fn deadline(&self, client: &TelnetClient) -> Option<Instant> {
        match self.stage {
            Stage::Negotiating => Some(self.started_at + negotiation_timeout(client)),
            Stage::Attached(..) => None,
            Stage::Ended(_) => Some(client.last_output_deadline(self.started_at, LINGER_TIMEOUT)),
        }
    }

    async fn ready(&mut self, _client: &TelnetClient) -> Result<()> {
        match &self.stage {
            Stage::Attached(_, wakeup) => wakeup.notified().await,
            _ => std::future::pending().await,
        }
        Ok(())
    }

    /// Does nothing: the output is taken before the next write.
    fn on_ready(&mut self, _client: &mut TelnetClient, (): ()) -> Result<()> {
        Ok(())
    }

    fn on_event(&mut self, client: &mut TelnetClient, event: Event<'_>) {
        match event {
            Event::Data(keys) => self.on_keys(client, keys),
            Event::ComPort(event) => self.on_com_port(client, &event),
            Event::Command(command) => self.on_command(client, command),
            Event::WindowSize { columns, .. } => self.columns = columns,
            Event::Option { side: Side::Remote, option: OptionCode::COM_PORT, enabled } => {
                self.on_com_port_option(client, enabled);
            }
            _ => {}
        }
    }

    fn forward_input(&mut self, client: &mut TelnetClient) -> Result<()> {
        self.forward_typed_input(client);
        Ok(())
    }

    /// Detaches the client from the line.
    fn end(&mut self) {
        if let Stage::Attached(id, _) = self.stage
            && self.console.multiplexer.borrow_mut().detach(id)
        {
            self.console.end_break();
        }
        self.stage = Stage::Ended(SessionEnd::ClientClosed);
    }
}

impl ConsoleSession {
    pub(crate) fn new(console: Rc<SerialConsole>) -> Self {
        Self {
            console,
            stage: Stage::Negotiating,
            escape: Escape::default(),
            masks: MASKS,
            ayt_limit: AreYouThereLimit::new(),
            is_refusal_reported: false,
            columns: DEFAULT_COLUMNS,
            started_at: Instant::now(),
        }
    }

    /// Attaches the client once option negotiation is complete or has timed out.
    fn finish_negotiation(&mut self, client: &mut TelnetClient) {
        if !matches!(self.stage, Stage::Negotiating) {
            return;
        }
        let has_timed_out = self.started_at.elapsed() >= negotiation_timeout(client);
        if client.tls_input.is_some() {
            // TLS begins when all output is sent, which the client may prevent.
            if has_timed_out {
                self.finish(SessionEnd::TlsRequired);
            }
            return;
        }
        let is_negotiated = client.telnet.negotiation_is_quiet() && !client.awaits_tls();
        if is_negotiated || has_timed_out {
            self.attach(client);
        }
    }

    /// Attaches the client, or ends the session if it must not continue in cleartext.
    fn attach(&mut self, client: &mut TelnetClient) {
        if client.needs_tls() {
            client.refuse_cleartext();
            self.finish(SessionEnd::TlsRequired);
            return;
        }
        let may_write = self.console.may_write(client.peer);
        let (id, wakeup) = self.console.multiplexer.borrow_mut().attach(client.peer, may_write);
        self.stage = Stage::Attached(id, wakeup);
        if uses_com_port(client) {
            self.console.multiplexer.borrow_mut().set_masks(id, self.masks);
            self.console.wakeup.notify_one();
        }
        self.log_write_access(client, id);
    }

    fn finish(&mut self, ending: SessionEnd) {
        SessionBackend::end(self);
        self.started_at = Instant::now();
        self.stage = Stage::Ended(ending);
    }

    /// Writes a log event if this client has write access.
    fn log_write_access(&self, client: &TelnetClient, id: ClientId) {
        if self.console.multiplexer.borrow().has_write_access(id) {
            let device = self.console.settings().device.display().to_string();
            client.server.log.write(&Logged::Writes { from: client.peer, device });
        }
    }

    fn on_com_port_option(&mut self, client: &mut TelnetClient, is_on: bool) {
        if is_on {
            // The line's data is binary, and many RFC 2217 clients do not request BINARY
            // themselves.
            let mut engine = client.server.engine();
            for side in [Side::Local, Side::Remote] {
                // `ask` fails if the client has already requested BINARY.
                _ = client.telnet.ask(side, OptionCode::BINARY, true, &mut engine.cx());
            }
        }
        if let (Stage::Attached(id, _), true) = (&self.stage, is_on) {
            self.console.multiplexer.borrow_mut().set_masks(*id, self.masks);
            self.console.wakeup.notify_one();
        }
    }

    fn on_keys(&mut self, client: &mut TelnetClient, mut keys: &[u8]) {
        if uses_com_port(client) {
            client.typed_input.extend(keys);
            return;
        }
        let mut escape = self.escape;
        while let Some(key) = escape.take(&mut keys) {
            match key {
                ConsoleKey::Line(run) => client.typed_input.extend(run),
                ConsoleKey::Incomplete => {}
                ConsoleKey::EscapeCommand(command) => self.execute(client, command),
            }
        }
        self.escape = escape;
    }

    fn execute(&mut self, client: &mut TelnetClient, command: EscapeCommand) {
        let Stage::Attached(id, _) = self.stage else { return };
        // Input typed before the command is passed on first.
        self.forward_typed_input(client);
        match command {
            EscapeCommand::TakeOver => {
                let may_write = self.console.multiplexer.borrow_mut().take_write_access(id);
                if !may_write {
                    self.notify(client, "write access is not allowed from this address");
                }
                self.log_write_access(client, id);
            }
            EscapeCommand::Watch => self.console.multiplexer.borrow_mut().release_write_access(id),
            // Without the limit, a client that repeats these commands and does not read its output
            // would keep the server from serving others.
            EscapeCommand::ListClients | EscapeCommand::Replay if !client.has_output_space() => {}
            EscapeCommand::ListClients => {
                let clients = self.console.multiplexer.borrow().list_clients();
                clients.iter().for_each(|line| self.notify(client, line));
            }
            EscapeCommand::Replay => {
                let history = self.console.multiplexer.borrow().history();
                self.notify(client, "recent output:");
                client.queue_output(&history);
                self.notify(client, "end of recent output");
            }
            EscapeCommand::Break => self.send_break(client),
            EscapeCommand::Leave => self.finish(SessionEnd::ClientClosed),
            EscapeCommand::Help => self.notify(client, HELP),
        }
    }

    fn on_command(&mut self, client: &mut TelnetClient, command: Command) {
        match command {
            Command::Break => self.send_break(client),
            Command::AreYouThere if self.ayt_limit.take_reply() => self.notify(client, "yes"),
            _ => {}
        }
    }

    /// Sends a BREAK on the line, if this client has write access.
    fn send_break(&mut self, client: &mut TelnetClient) {
        let Stage::Attached(id, _) = self.stage else { return };
        if !self.console.multiplexer.borrow().has_write_access(id) {
            return self.notify(client, "BREAK requires write access");
        }
        self.console.with_line(|line| line.set_break(true));
        let console = Rc::clone(&self.console);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(BREAK).await;
            console.end_break();
        });
    }

    fn on_com_port(&mut self, client: &mut TelnetClient, event: &ComPortEvent) {
        let ComPortEvent::Command(command) = event else { return };
        let may_begin = !client.needs_tls();
        // A client that sends RFC 2217 commands has already negotiated RFC 2217.
        if matches!(self.stage, Stage::Negotiating) && may_begin {
            self.attach(client);
        }
        let Stage::Attached(id, _) = self.stage else { return };
        self.forward_typed_input(client);
        if let Some(answer) = self.console.execute_com_port(id, command, &mut self.masks) {
            // The answer is dropped if the client does not read its output.
            _ = client.telnet.com_port(&answer, &mut client.server.engine().cx());
        }
    }

    /// Queues typed input for the line as far as the line's queue has space.
    fn forward_typed_input(&mut self, client: &mut TelnetClient) {
        let Stage::Attached(id, _) = self.stage else { return };
        if client.typed_input.is_empty() {
            return;
        }
        let had_write_access = self.console.multiplexer.borrow().has_write_access(id);
        let typed_input = &client.typed_input;
        let input_result = self.console.multiplexer.borrow_mut().enqueue_input(id, typed_input);
        let notice = match input_result {
            InputResult::Accepted(count) => {
                client.typed_input.drain(..count);
                self.is_refusal_reported = false;
                self.console.wakeup.notify_one();
                if !had_write_access {
                    self.log_write_access(client, id);
                }
                return;
            }
            InputResult::NoWriteAccess => "another client has write access: ^E c f takes over",
            InputResult::Forbidden => "write access is not allowed from this address",
        };
        let refused_bytes = client.typed_input.len() as u64;
        client.server.engine().meter.add(Counter::ConsoleBytesRefused, refused_bytes);
        client.typed_input.clear();
        if !std::mem::replace(&mut self.is_refusal_reported, true) {
            self.notify(client, notice);
        }
    }

    /// Sends a notice: as a signature with RFC 2217, otherwise within the output.
    fn notify(&self, client: &mut TelnetClient, notice: &str) {
        if uses_com_port(client) {
            let signature = ComPortCommand::Signature(format!("plumb: {notice}"));
            // The notice is dropped if the client does not read its output.
            _ = client.telnet.com_port(&signature, &mut client.server.engine().cx());
        } else {
            client.queue_output(notice::lines(notice, self.columns).as_bytes());
        }
    }
}

/// Returns whether the client uses RFC 2217.
fn uses_com_port(client: &TelnetClient) -> bool {
    client.telnet.is_enabled(Side::Remote, OptionCode::COM_PORT)
}

fn negotiation_timeout(client: &TelnetClient) -> Duration {
    if client.needs_tls() { TLS_NEGOTIATION_TIMEOUT } else { NEGOTIATION_TIMEOUT }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration_loader::ConfigurationLoader;
    use crate::console::ConsoleSettings;
    use crate::flags::Flags;
    use crate::login_server::{LoginPlan, LoginServer, LoginState};
    use crate::session_shutdown::SessionShutdown;
    use crate::start_tls_policy::StartTls;
    use carrier::meters::MeterRegistry;
    use std::net::SocketAddr;

    fn session_and_client(start_tls: StartTls) -> (ConsoleSession, TelnetClient) {
        let mut flags = Flags::default();
        flags.login.console = Some("/dev/ttyS0".to_owned());
        let loader = ConfigurationLoader::open(&flags).unwrap();
        let login_state =
            LoginState::new(LoginPlan::prepare(loader.login().unwrap()).unwrap(), flags.log());
        let settings: ConsoleSettings = login_state.configuration().consoles[0].clone();
        let registry = MeterRegistry::new("test");
        let server = LoginServer::open(login_state, &registry, SessionShutdown::default()).unwrap();
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let options = ConsoleSession::OPTIONS;
        let client = TelnetClient::new(peer, Rc::new(server), start_tls, options, &[]);
        (ConsoleSession::new(Rc::new(SerialConsole::new(settings))), client)
    }

    #[test]
    fn a_client_that_delays_start_tls_is_disconnected() {
        let (mut session, mut client) = session_and_client(StartTls::Required);
        client.tls_input = Some(Vec::new());
        assert_eq!(session.advance(&mut client).unwrap(), None);
        assert_eq!(session.ending(), None);
        session.started_at -= TLS_NEGOTIATION_TIMEOUT;
        session.advance(&mut client).unwrap();
        assert_eq!(session.ending(), Some(SessionEnd::TlsRequired));
        assert!(session.deadline(&client).unwrap() > Instant::now());
    }

    #[test]
    fn recent_output_is_not_repeated_before_the_client_has_accepted_it() {
        let (mut session, mut client) = session_and_client(StartTls::Off);
        session.console.multiplexer.borrow_mut().broadcast(&[b'x'; 60_000]);
        session.advance(&mut client).unwrap();
        session.on_event(&mut client, Event::Data(&b"\x05cr".repeat(9)));
        let queued_len = client.telnet.output().len() + client.unsent_output.len();
        assert!((60_000..61_000).contains(&queued_len), "{queued_len}");
    }

    #[test]
    fn notices_are_wrapped_in_the_window_of_the_client() {
        let (mut session, mut client) = session_and_client(StartTls::Off);
        session.on_event(&mut client, Event::WindowSize { columns: 40, rows: 24 });
        session.advance(&mut client).unwrap();
        session.on_event(&mut client, Event::Data(b"\x05c?"));
        let output = String::from_utf8_lossy(client.telnet.output()).into_owned();
        let help = output.split_once("[plumb: ^E c, ").unwrap().1;
        assert_eq!(
            help.lines().collect::<Vec<_>>(),
            [
                "then: f take write",
                "access, s watch, w list clients, r",
                "replay output, b BREAK, . leave, ^E",
                "send ^E]"
            ]
        );
    }

    #[test]
    fn replies_to_are_you_there_are_limited() {
        let (mut session, mut client) = session_and_client(StartTls::Required);
        for _ in 0..9 {
            session.on_event(&mut client, Event::Command(Command::AreYouThere));
        }
        let output = String::from_utf8_lossy(client.telnet.output()).into_owned();
        assert_eq!(output.matches("[plumb: yes]").count(), 4);
    }
}
