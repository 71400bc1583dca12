//! Login session: the back end of a Telnet session that runs a login prompt or a program.
//!
//! A program needs to know its terminal when it starts, so option negotiation comes first, for a
//! limited time.

mod authentication;
mod half_duplex;
mod password_check;
mod window_size;

use super::are_you_there::AreYouThereLimit;
use super::login_prompt::{self, LoginPrompt};
use super::login_server::{LoginServer, Service};
use super::program::{self, Client, RunningProgram};
use super::session_backend::SessionBackend;
use super::session_end::SessionEnd;
use super::start_tls_policy::StartTls;
use super::telnet_client::{TYPED_MAX_LEN, TelnetClient, earliest};
use anyhow::{Context, Result, bail};
use os::pty::{ControlCharacters, OUTPUT_FLUSHED, PtyProgram};
use os::readiness::{self, Registered, none_as_pending};
use os::tty::WindowSize;
use os::utmp::Entry;
use password_check::CheckResult;
use protocols::telnet::{
    Command, EnvironmentVariable, Event, OptionCode, OptionSet, ServerSettings, Side,
};
use std::future::poll_fn;
use std::io;
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
/// Time without accepted output after which a session that has ended is closed.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of password attempts per session.
const ATTEMPTS_MAX: u32 = 3;
/// Time without program output and without accepted output after which the terminal is hung up, once
/// the client has closed its half of the connection. A client whose input is a pipe thus still receives the output of its
/// last command.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

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
    Program(Registered<PtyProgram>, Option<Entry>),
    /// The program has ended; its last output is being sent.
    Ended(SessionEnd),
}

/// Event of the program or of a password check.
pub(super) enum LoginWakeup {
    Program { can_read: bool },
    Checked(CheckResult),
}

/// State of a login session behind its Telnet connection.
pub(super) struct LoginSession {
    stage: Stage,
    /// Reports that the program accepts input again. Present only while input is queued, because a
    /// terminal reports being writable after every key.
    writable: Option<Registered<OwnedFd>>,
    window: WindowSize,
    /// Whether the client has refused the server's ECHO.
    is_echo_refused: bool,
    terminal_type: Option<String>,
    /// User name reported by the client before the prompt was shown.
    user: Option<String>,
    attempts: u32,
    ayt_limit: AreYouThereLimit,
    last_input_at: Instant,
}

impl SessionBackend for LoginSession {
    const OPTIONS: OptionSet = ServerSettings::OPTIONS.with(OptionCode::ECHO_ACKNOWLEDGMENT);

    type Wakeup = LoginWakeup;

    /// Requests the user name for the prompt of this server. The login program of the system does
    /// not receive it, because names such as `-f root` have been taken for options.
    fn requested_variables(server: &LoginServer) -> &'static [&'static str] {
        if matches!(server.service(), Service::Users(_)) { &["USER"] } else { &[] }
    }

    fn advance(&mut self, client: &mut TelnetClient) -> Result<Option<SessionEnd>> {
        self.finish_negotiation(client)?;
        Ok(self.on_deadline(client))
    }

    fn ending(&self) -> Option<SessionEnd> {
        if let Stage::Ended(ending) = self.stage { Some(ending) } else { None }
    }

    fn deadline(&self, client: &TelnetClient) -> Option<Instant> {
        match &self.stage {
            Stage::Negotiating => Some(client.started_at + NEGOTIATION_TIMEOUT),
            Stage::Delayed(until) => Some(*until),
            Stage::LoginPrompt(_) | Stage::Checking(_) => {
                Some(client.started_at + client.server.configuration().login_timeout)
            }
            Stage::Program(..) => self.program_deadline(client),
            Stage::Ended(_) => {
                Some(client.last_output_deadline(self.last_input_at, LAST_OUTPUT_TIMEOUT))
            }
        }
    }

    async fn ready(&mut self, client: &TelnetClient) -> Result<LoginWakeup> {
        let wants_output = client.has_output_space();
        let has_typed = !client.typed_input.is_empty();
        stage_ready(&mut self.stage, self.writable.as_ref(), wants_output, has_typed).await
    }

    fn on_ready(&mut self, client: &mut TelnetClient, wakeup: LoginWakeup) -> Result<()> {
        match wakeup {
            LoginWakeup::Program { can_read } => {
                self.forward_input(client)?;
                if can_read {
                    self.read_program(client)?;
                }
                Ok(())
            }
            LoginWakeup::Checked((credentials, checked)) => {
                self.on_checked(client, &credentials, checked)
            }
        }
    }

    fn on_event(&mut self, client: &mut TelnetClient, event: Event<'_>) {
        match event {
            Event::Data(data) => self.on_data(client, data),
            Event::TerminalType(name) => self.terminal_type = Some(name),
            Event::Environment(variables) => self.on_environment(client, &variables),
            Event::WindowSize { columns, rows } => self.on_window(columns, rows),
            Event::Command(command) => self.on_command(client, command),
            Event::Option { side: Side::Local, option, enabled } => {
                self.on_option(client, option, enabled);
            }
            Event::Refused { side: Side::Local, option } => self.on_option(client, option, false),
            _ => {}
        }
    }

    /// Writes typed data to the program until it accepts no more.
    fn forward_input(&mut self, client: &mut TelnetClient) -> Result<()> {
        let Stage::Program(program, _) = &self.stage else { return Ok(()) };
        while !client.typed_input.is_empty() {
            match client.server.charge_call(|| program.get_ref().write(&client.typed_input)) {
                Ok(Some(count)) => drop(client.typed_input.drain(..count)),
                Ok(None) => break,
                // The terminal is hung up; the next read reports the hang-up.
                Err(_) => client.typed_input.clear(),
            }
        }
        if client.typed_input.is_empty() {
            self.writable = None;
        } else if self.writable.is_none() {
            let writable = program.get_ref().as_fd().try_clone_to_owned()?;
            self.writable = Some(readiness::register(writable, Interest::WRITABLE)?);
        }
        Ok(())
    }

    fn has_program(&self) -> bool {
        matches!(self.stage, Stage::Program(..))
    }

    fn awaits_input(&self) -> bool {
        matches!(self.stage, Stage::Program(..) | Stage::LoginPrompt(_))
    }

    /// Hangs up the program's terminal, if any, and waits for the program in the background.
    fn end(&mut self) {
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

impl LoginSession {
    pub(super) fn new() -> Self {
        Self {
            stage: Stage::Negotiating,
            writable: None,
            window: DEFAULT_WINDOW,
            is_echo_refused: false,
            terminal_type: None,
            user: None,
            attempts: 0,
            ayt_limit: AreYouThereLimit::new(),
            last_input_at: Instant::now(),
        }
    }

    /// Returns the time at which the program is hung up because the client sends no input.
    fn program_deadline(&self, client: &TelnetClient) -> Option<Instant> {
        let idle_timeout = client.server.configuration().idle_timeout;
        let linger_since = client.half_closed_at.max(client.accepted_at);
        let linger_deadline = client.half_closed_at.and(linger_since).map(|at| at + LINGER_TIMEOUT);
        earliest(idle_timeout.map(|time| self.last_input_at + time), linger_deadline)
    }

    fn on_deadline(&mut self, client: &mut TelnetClient) -> Option<SessionEnd> {
        if self.deadline(client).is_none_or(|due| Instant::now() < due) {
            return None;
        }
        match self.stage {
            Stage::Negotiating => {}
            Stage::Delayed(_) => {
                if self.attempts >= ATTEMPTS_MAX {
                    return Some(SessionEnd::TooManyFailures);
                }
                client.queue_output(b"Login incorrect\r\n\r\n");
                self.start_prompt(client, LoginPrompt::default());
            }
            Stage::LoginPrompt(_) | Stage::Checking(_) => {
                client.queue_output(b"\r\nLogin timed out\r\n");
                self.stage = Stage::Ended(SessionEnd::LoginTimeout);
                self.last_input_at = Instant::now();
            }
            Stage::Program(..) if client.half_closed_at.is_some() => {
                return Some(SessionEnd::ClientClosed);
            }
            Stage::Program(..) => return Some(SessionEnd::IdleTimeout),
            Stage::Ended(ending) => return Some(ending),
        }
        None
    }

    /// Starts the service once option negotiation is complete or has timed out.
    fn finish_negotiation(&mut self, client: &mut TelnetClient) -> Result<()> {
        if !matches!(self.stage, Stage::Negotiating) {
            return Ok(());
        }
        let has_timed_out = client.started_at.elapsed() >= NEGOTIATION_TIMEOUT;
        let names_terminal = client.telnet.is_enabled(Side::Remote, OptionCode::TERMINAL_TYPE);
        let is_negotiated = client.telnet.negotiation_is_quiet()
            && (!names_terminal || self.terminal_type.is_some());
        // Input before the first answer means that the client does not negotiate. If TLS is
        // required, such input does not count, because an attacker may have injected it.
        let is_typing = !client.typed_input.is_empty() && client.start_tls != StartTls::Required;
        // A client that has agreed to START_TLS is not served in cleartext.
        if has_timed_out || (!client.awaits_tls() && (is_negotiated || is_typing)) {
            self.start_service(client)?;
        }
        Ok(())
    }

    fn start_service(&mut self, client: &mut TelnetClient) -> Result<()> {
        if client.needs_tls() {
            client.refuse_cleartext();
            self.stage = Stage::Ended(SessionEnd::TlsRequired);
            self.last_input_at = Instant::now();
            return Ok(());
        }
        let greeting = client.server.configuration().greeting();
        client.queue_output(&greeting);
        let program_client = self.program_client(client);
        let running = match client.server.service() {
            Service::NoLogins => {
                bail!("this server accepts no logins")
            }
            Service::SystemLogin => program::start_login(&program_client)?,
            Service::Exec(program_arguments) => {
                program::start_exec(&program_arguments, &program_client)?
            }
            Service::Users(_) => {
                self.start_prompt(client, LoginPrompt::default());
                return Ok(());
            }
        };
        self.attach(client, running)
    }

    fn program_client(&self, client: &TelnetClient) -> Client {
        let terminal = self.terminal_type.clone();
        let address = client.peer.ip().to_canonical();
        let window = self.window;
        Client { address, terminal, window, is_echo_refused: self.is_echo_refused }
    }

    fn attach(&mut self, client: &mut TelnetClient, running: RunningProgram) -> Result<()> {
        client.server.admission().mark_authenticated(client.peer);
        let program = readiness::register(running.program, Interest::READABLE)?;
        self.stage = Stage::Program(program, running.entry);
        self.last_input_at = Instant::now();
        self.forward_input(client)
    }

    fn start_prompt(&mut self, client: &mut TelnetClient, mut prompt: LoginPrompt) {
        let mut output = Vec::new();
        prompt.set_echo(!self.is_echo_refused);
        prompt.start(&mut output);
        client.queue_output(&output);
        self.stage = Stage::LoginPrompt(prompt);
        if let Some(user) = self.user.take() {
            self.enter_user(client, &user);
        }
        // Process input that arrived during option negotiation.
        let typed_input = std::mem::take(&mut client.typed_input);
        self.process_input(client, &typed_input);
    }

    fn on_environment(&mut self, client: &mut TelnetClient, variables: &[EnvironmentVariable]) {
        let user = variables.iter().find(|variable| variable.name == "USER");
        let Some(user) = user.and_then(|user| user.value.clone()) else { return };
        match &self.stage {
            Stage::Negotiating => self.user = Some(user),
            Stage::LoginPrompt(prompt) if self.attempts == 0 && prompt.is_unused() => {
                self.enter_user(client, &user);
            }
            _ => {}
        }
    }

    /// Enters the user name that the client has reported at the prompt, as if it were typed. A name
    /// that is not valid is ignored.
    fn enter_user(&mut self, client: &mut TelnetClient, user: &str) {
        if login_prompt::parse_name(user.as_bytes()).is_some() {
            self.process_input(client, user.as_bytes());
            self.process_input(client, b"\r");
        }
    }

    fn on_data(&mut self, client: &mut TelnetClient, data: &[u8]) {
        let has_ended = matches!(self.stage, Stage::Ended(_));
        if client.server.configuration().idle_timeout.is_some() && !has_ended {
            self.last_input_at = Instant::now();
        }
        self.process_input(client, data);
    }

    fn process_input(&mut self, client: &mut TelnetClient, data: &[u8]) {
        let Stage::LoginPrompt(prompt) = &mut self.stage else {
            let room = (2 * TYPED_MAX_LEN).saturating_sub(client.typed_input.len());
            // The client is not read while `typed_input` is full, so at most one read exceeds the
            // limit of `typed_input`.
            let accepted_len = data.len().min(room);
            return client
                .typed_input
                .extend_from_slice(data.get(..accepted_len).unwrap_or_default());
        };
        let mut output = Vec::new();
        let mut rest = data.iter();
        let credentials = rest.by_ref().find_map(|byte| prompt.on_byte(*byte, &mut output));
        client.queue_output(&output);
        if let Some(credentials) = credentials {
            self.check(client, credentials);
            self.process_input(client, rest.as_slice());
        }
    }

    /// Applies a Telnet command of the client to the terminal (RFC 854, RFC 1123 §3.2.4).
    fn on_command(&mut self, client: &mut TelnetClient, command: Command) {
        let key: fn(ControlCharacters) -> u8 = match command {
            Command::AreYouThere => return self.answer_are_you_there(client),
            Command::InterruptProcess | Command::Break => |keys| keys.interrupt,
            Command::EraseCharacter => |keys| keys.erase,
            Command::EraseLine => |keys| keys.kill,
            Command::EndOfFile => |keys| keys.end_of_file,
            Command::Suspend => |keys| keys.suspend,
            Command::Abort => |keys| keys.quit,
            Command::AbortOutput => return client.unsent_output.clear(),
            _ => return,
        };
        match &self.stage {
            Stage::Program(program, _) => {
                let keys = program.get_ref().control_characters();
                if let Ok(key) = keys.map(key)
                    && key != 0
                {
                    self.process_input(client, &[key]);
                }
            }
            Stage::LoginPrompt(_) if matches!(command, Command::EraseCharacter) => {
                self.process_input(client, &[0x7f]);
            }
            Stage::LoginPrompt(_) if matches!(command, Command::EraseLine) => {
                self.process_input(client, &[0x15]);
            }
            _ => {}
        }
    }

    fn answer_are_you_there(&mut self, client: &mut TelnetClient) {
        if self.ayt_limit.take_reply() {
            client.queue_output(b"\r\n[plumb: yes]\r\n");
        }
    }

    /// Reads the program's output as long as the output buffer has space.
    fn read_program(&mut self, client: &mut TelnetClient) -> Result<()> {
        let server = Rc::clone(&client.server);
        let mut scratch = server.scratch.borrow_mut();
        while client.has_output_space() {
            let Stage::Program(program, _) = &self.stage else { return Ok(()) };
            let read = server.charge_call(|| read_terminal(program, &mut scratch));
            let Poll::Ready(count) = read? else { return Ok(()) };
            match scratch.get(..count).unwrap_or_default() {
                [] => {
                    self.finish();
                    return Ok(());
                }
                [0, data @ ..] => {
                    client.half_closed_at = client.half_closed_at.map(|_| Instant::now());
                    // A short read has drained the terminal.
                    let is_empty = count < 1024;
                    client.queue_output(data);
                    if is_empty {
                        return Ok(());
                    }
                }
                [flags, ..] if flags & OUTPUT_FLUSHED != 0 => client.flush_output(),
                _ => {}
            }
        }
        Ok(())
    }

    fn finish(&mut self) {
        self.end();
        self.stage = Stage::Ended(SessionEnd::ProgramExited);
        self.last_input_at = Instant::now();
    }
}

/// Reads from the terminal once. Returns the number of bytes, 0 after a hang-up, or
/// [`Poll::Pending`] if no data is available now. A short read marks the terminal as drained, which
/// saves a further read that would return no data.
fn read_terminal(program: &Registered<PtyProgram>, bytes: &mut [u8]) -> Poll<Result<usize>> {
    let read = |program: &PtyProgram| none_as_pending(program.read(bytes));
    let is_short = |count: &usize| *count > 1 && *count < 1024;
    let count = program.attempt_and_drain(Interest::READABLE, read, is_short);
    count.map(|count| count.context("the terminal of the program failed"))
}

async fn stage_ready(
    stage: &mut Stage,
    writable: Option<&Registered<OwnedFd>>,
    wants_output: bool,
    has_typed: bool,
) -> Result<LoginWakeup> {
    match stage {
        Stage::Program(program, _) if wants_output || has_typed => {
            let mut program = pin!(program.ready(Interest::READABLE));
            let mut writable = pin!(terminal_writable(writable));
            let wakeup = poll_fn(|context| {
                if wants_output && let Poll::Ready(ready) = program.as_mut().poll(context) {
                    return Poll::Ready(ready.map(|_| LoginWakeup::Program { can_read: true }));
                }
                if has_typed && let Poll::Ready(ready) = writable.as_mut().poll(context) {
                    return Poll::Ready(ready.map(|()| LoginWakeup::Program { can_read: false }));
                }
                Poll::Pending
            });
            wakeup.await.context("cannot poll the terminal of the program")
        }
        Stage::Checking(checking) => Ok(LoginWakeup::Checked(checking.await)),
        _ => std::future::pending().await,
    }
}

/// Waits until the terminal may accept input again.
async fn terminal_writable(writable: Option<&Registered<OwnedFd>>) -> io::Result<()> {
    match writable {
        Some(writable) => writable
            .ready(Interest::WRITABLE)
            .await
            .map(|_| writable.clear_readiness(Interest::WRITABLE)),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration_loader::ConfigurationLoader;
    use crate::flags::Flags;
    use crate::login_server::{LoginPlan, LoginServer, LoginState};
    use crate::session_shutdown::SessionShutdown;
    use carrier::meters::MeterRegistry;
    use std::net::SocketAddr;

    fn client_with_idle_timeout(idle_timeout_s: Option<u64>) -> TelnetClient {
        let mut flags = Flags::default();
        flags.login.exec = Some(vec!["/bin/true".to_owned()]);
        flags.login.idle_timeout_s = idle_timeout_s;
        let loader = ConfigurationLoader::open(&flags).unwrap();
        let login_state =
            LoginState::new(LoginPlan::prepare(loader.login().unwrap()).unwrap(), flags.log());
        let registry = MeterRegistry::new("test");
        let server = LoginServer::open(login_state, &registry, SessionShutdown::default()).unwrap();
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        TelnetClient::new(peer, Rc::new(server), StartTls::Off, LoginSession::OPTIONS, &[])
    }

    #[test]
    fn replies_to_are_you_there_are_limited() {
        let mut session = LoginSession::new();
        let mut client = client_with_idle_timeout(None);
        for _ in 0..9 {
            session.on_event(&mut client, Event::Command(Command::AreYouThere));
        }
        let output = String::from_utf8_lossy(client.telnet.output()).into_owned();
        assert_eq!(output.matches("[plumb: yes]").count(), 4);
    }

    /// Returns the text that the client receives after the start of a prompt, if the client
    /// reports this user name.
    fn prompt_for(user: &str, is_early: bool, typed: &[u8]) -> String {
        let mut session = LoginSession::new();
        let mut client = client_with_idle_timeout(None);
        let report = || Event::Environment(vec![EnvironmentVariable::new("USER", user)]);
        if is_early {
            session.on_event(&mut client, report());
        }
        session.start_prompt(&mut client, LoginPrompt::default());
        session.on_event(&mut client, Event::Data(typed));
        if !is_early {
            session.on_event(&mut client, report());
        }
        String::from_utf8_lossy(client.telnet.output()).into_owned()
    }

    #[test]
    fn a_reported_user_name_is_entered_at_an_unused_prompt() {
        for is_early in [true, false] {
            assert_eq!(prompt_for("ann", is_early, b""), "login: ann\r\nPassword: ");
        }
        assert_eq!(prompt_for("ann", false, b"b"), "login: b");
    }

    #[test]
    fn an_invalid_user_name_is_not_entered() {
        for user in ["-f root", "-froot", "", "a\rb", "a b"] {
            assert_eq!(prompt_for(user, true, b""), "login: ", "{user:?}");
        }
    }

    #[test]
    fn a_half_closed_session_lasts_while_the_client_accepts_output() {
        let session = LoginSession::new();
        let mut client = client_with_idle_timeout(None);
        assert_eq!(session.program_deadline(&client), None);
        let closed_at = Instant::now();
        client.half_closed_at = Some(closed_at);
        assert_eq!(session.program_deadline(&client), Some(closed_at + LINGER_TIMEOUT));
        let accepted_at = closed_at + Duration::from_secs(9);
        client.accepted_at = Some(accepted_at);
        assert_eq!(session.program_deadline(&client), Some(accepted_at + LINGER_TIMEOUT));
    }

    #[test]
    fn a_half_close_does_not_disable_the_idle_timeout() {
        let session = LoginSession::new();
        let mut client = client_with_idle_timeout(Some(5));
        let idle_deadline = session.last_input_at + Duration::from_secs(5);
        assert_eq!(session.program_deadline(&client), Some(idle_deadline));
        client.half_closed_at = Some(idle_deadline);
        assert_eq!(session.program_deadline(&client), Some(idle_deadline));
    }
}
