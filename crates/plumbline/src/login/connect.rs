//! Connects to the destination, with retries if requested, and reports how the session ended.

use super::arguments::Arguments;
use super::logging::SessionLogs;
use super::script::{Runner, Script};
use super::session::{Login, Stage};
use super::session_settings::{Echo, LoginProtocol, LoginSettings, Mode, TlsUse};
use super::status_page;
use super::terminal_input::LocalTerminal;
use super::{saved_login, say};
use crate::exit::{self, Failure};
use anyhow::{Context, Result};
use carrier::meters::{self, MeterRegistry};
use carrier::{self, EndedSession, EngineContext, HostTarget, MaybeTls, Outcome, Route, Trust};
use carrier::{Destination, LoginScheme, NoAddress, host_configuration};
use net::time::Duration;
use os::device_users::{is_pseudo_terminal, other_device_users};
use records::format::count;
use records::recording::{Header, SessionRecorder};
use records::session_log::SessionLog;
use records::severity::Severity;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use transfer::termination;

/// Maximum number of bytes read from a script. Our choice.
const SCRIPT_MAX_BYTES: u64 = 1 << 20;

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    match (&arguments.save, &arguments.remove) {
        (Some(name), _) => return arguments.typed.save(name, arguments.replace),
        (None, Some(name)) => return saved_login::remove(name),
        (None, None) if arguments.list => return saved_login::list(),
        (None, None) => {}
    }
    let destination = match arguments.destination() {
        Ok(Destination::Serial { .. }) if arguments.via != Route::Kernel => {
            exit::print_error(&anyhow::anyhow!("--via does not apply to a serial line: omit it"));
            return Err(Failure::WrongArguments);
        }
        Ok(destination) => destination,
        Err(error) => {
            exit::print_error(&error);
            return Err(Failure::WrongArguments);
        }
    };
    try_run(arguments, &destination).unwrap_or_else(|error| {
        exit::print_error(&error);
        Err(Failure::ThisMachine)
    })
}

/// Result of one connection attempt.
enum AttemptResult {
    /// The session has ended.
    Ended(Box<Login>, Outcome),
    /// The connection did not open; the session is unchanged.
    NotConnected(Box<Login>, ConnectError),
}

/// Reason why a connection did not open.
enum ConnectError {
    /// A temporary reason; a retry may succeed.
    Temporary(String),
    /// A permanent reason.
    Permanent(String),
}

fn try_run(arguments: &Arguments, destination: &Destination) -> Result<exit::Result> {
    let settings = arguments.settings(destination);
    if arguments.download_directory.is_some() {
        settings.downloads.check_directory()?;
    }
    let connector =
        Connector { arguments, destination, is_verbose: is_verbose(arguments, &settings) };
    let script = match arguments.script.as_deref().map(|path| script(arguments, path)) {
        None => None,
        Some(Ok(runner)) => Some(runner),
        Some(Err(error)) => {
            exit::print_error(&error);
            return Ok(Err(Failure::WrongArguments));
        }
    };
    if let Some(warning) = password_warning(arguments, &settings) {
        exit::print_diagnostic(Severity::Warning, &warning);
    }
    let logs = open_logs(arguments, destination, &settings)?;
    let terminal = LocalTerminal::new(settings.is_interactive)
        .context("cannot watch for changes of the window size")?;
    let mut login = Login::new(settings, terminal, connector.describe());
    login.logs = logs;
    login.input.set_script(script);
    let registry = MeterRegistry::new(format!("login {destination}"));
    // The login continues without meters if the socket cannot be created.
    let is_published = login.settings.is_interactive && !arguments.no_meters_socket;
    let _server = is_published.then(|| meters::MeterServer::open(&registry).ok());
    let mut has_reported = false;
    loop {
        let mut context = EngineContext::published(&registry, "login")?;
        match connector.attempt(login, &mut context)? {
            AttemptResult::Ended(ended, _) if ended.stage == Stage::Reconnect => {
                say(&format!("Reconnecting to {}.", ended.status.peer()));
                login = ended.for_reconnect();
            }
            AttemptResult::Ended(mut ended, outcome) => {
                ended.logs.finish();
                return Ok(connector.finish(&mut ended, outcome, &context));
            }
            AttemptResult::NotConnected(ended, ConnectError::Temporary(why))
                if arguments.retry.is_some() =>
            {
                let seconds = arguments.retry.unwrap_or_default();
                if !std::mem::replace(&mut has_reported, true) {
                    let why = format!("{why}; retrying every {seconds} s, ^C to stop");
                    exit::print_diagnostic(Severity::Warning, &why);
                }
                std::thread::sleep(Duration::from_secs(seconds));
                login = ended.for_reconnect();
            }
            AttemptResult::NotConnected(
                _,
                ConnectError::Temporary(why) | ConnectError::Permanent(why),
            ) => {
                return Ok(Err(exit::remote_failure(why)));
            }
        }
    }
}

/// Returns a warning if typed passwords would be displayed and stored in a file.
fn password_warning(arguments: &Arguments, settings: &LoginSettings) -> Option<String> {
    let displays = match settings.echo {
        Echo::Local => true,
        Echo::Automatic => {
            settings.protocol == LoginProtocol::Tcp && settings.mode != Mode::Character
        }
        Echo::Remote => false,
    };
    let record = arguments.record.as_deref().map(|path| format!("--record {}", path.display()));
    let log = arguments.log.as_deref().map(|path| format!("--log {}", path.display()));
    let saving_options: Vec<_> = record.into_iter().chain(log).collect();
    (displays && settings.is_interactive && !saving_options.is_empty()).then(|| {
        let saving_options = saving_options.join(" and ");
        format!("typed passwords will be displayed, and saved by {saving_options}")
    })
}

/// Returns a warning if other programs have the serial line open without a lock. A program that
/// provides a pseudo-terminal, such as an emulator, may hold it open without reading from it.
fn shared_line_warning(device: &Path) -> Option<String> {
    if is_pseudo_terminal(device) {
        return None;
    }
    let users = other_device_users(device);
    let first = users.first()?;
    let others = match users.len() - 1 {
        0 => String::new(),
        1 => " and another program".to_owned(),
        count => format!(" and {count} other programs"),
    };
    let verb = if users.len() == 1 { "has" } else { "have" };
    Some(format!(
        "{} (process {}){others} also {verb} {} open: each program receives a part of the data",
        records::escape::terminal(&first.name),
        first.pid,
        device.display()
    ))
}

fn is_verbose(arguments: &Arguments, settings: &LoginSettings) -> bool {
    settings.is_interactive || arguments.verbose
}

/// Reads the script before the connection is opened.
fn script(arguments: &Arguments, path: &Path) -> Result<Runner> {
    let name = path.display().to_string();
    let text = if path == Path::new("-") {
        io::read_to_string(io::stdin().take(SCRIPT_MAX_BYTES))
    } else {
        File::open(path).and_then(|file| io::read_to_string(file.take(SCRIPT_MAX_BYTES)))
    };
    let text = text.with_context(|| format!("cannot read the script {name}"))?;
    let mut environment = BTreeMap::new();
    for name in &arguments.env {
        let value = std::env::var(name);
        let value = value.with_context(|| format!("cannot use --env {name}"))?;
        environment.insert(name.clone(), value);
    }
    let script = Script::compile(&text, environment);
    let script = script.map_err(|error| anyhow::anyhow!("{name} {error}"))?;
    Ok(Runner::new(script, name))
}

/// Opens the recording and the log before the connection is opened.
fn open_logs(
    arguments: &Arguments,
    destination: &Destination,
    settings: &LoginSettings,
) -> Result<SessionLogs> {
    let recorder = arguments.record.as_deref().map(|path| {
        let (width, height) =
            super::terminal_input::window().map_or((80, 24), |w| (w.columns, w.rows));
        let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|t| t.as_secs());
        let env = [("TERM".to_owned(), settings.terminal_type.clone())].into();
        let title = Some(format!("plumb login: {destination}"));
        let header = Header { version: 2, width, height, timestamp, title, env };
        SessionRecorder::create(path, &header).map_err(|error| open_error(path, &error))
    });
    let clock = arguments.log_times.then_some(SystemTime::now as fn() -> SystemTime);
    let log = arguments
        .log
        .as_deref()
        .map(|path| SessionLog::open(path, clock).map_err(|error| open_error(path, &error)));
    Ok(SessionLogs::new(recorder.transpose()?, arguments.record_input, log.transpose()?))
}

fn open_error(path: &Path, error: &io::Error) -> anyhow::Error {
    let path = path.display();
    match error.kind() {
        ErrorKind::AlreadyExists => {
            anyhow::anyhow!("{path} already exists: use another name, or remove it first")
        }
        ErrorKind::PermissionDenied => {
            anyhow::anyhow!("cannot write {path}: permission denied; use a writable directory")
        }
        ErrorKind::NotFound => anyhow::anyhow!("cannot create {path}: create its directory first"),
        ErrorKind::StorageFull => anyhow::anyhow!("cannot write {path}: the disk is full"),
        _ => anyhow::anyhow!("cannot write {path}: {error}"),
    }
}

/// Connects to the destination for one command invocation.
struct Connector<'a> {
    arguments: &'a Arguments,
    destination: &'a Destination,
    is_verbose: bool,
}

impl Connector<'_> {
    fn attempt(&self, mut login: Login, context: &mut EngineContext) -> Result<AttemptResult> {
        let (target, scheme) = match self.destination {
            Destination::Host { target, scheme, .. } => (target, *scheme),
            Destination::Serial { device, settings } => {
                login.set_warning(shared_line_warning(device));
                if self.is_verbose {
                    let line = self.describe();
                    login.set_greeting(Box::new(move |_| line));
                }
                let call = carrier::run_on_serial_line(login, device, *settings, context);
                return self.end_serial_session(call, context);
            }
        };
        let arguments = self.arguments;
        // No stop signal is passed: the terminal mode is still unchanged, so a signal may terminate
        // plumb.
        let addresses =
            match carrier::addresses(target, arguments.family.families(), &arguments.via, None)? {
                Ok(addresses) => addresses,
                Err(why) => {
                    return Ok(AttemptResult::NotConnected(
                        Box::new(login),
                        ConnectError::Temporary(with_saved_host(target, scheme, &why)),
                    ));
                }
            };
        if self.is_verbose {
            let tried: Vec<_> = addresses.iter().map(|address| address.ip().to_string()).collect();
            say(&format!("Trying {}...", tried.join(", ")));
            let target = target.clone();
            let via = arguments.via.clone();
            login.set_greeting(Box::new(move |address| {
                describe(&with_address(&target, address), &via)
            }));
        }
        let timeout = Duration::from_secs(arguments.timeout);
        let trust = || Trust::new(&target.host, target.port, arguments.ca.as_deref());
        let session = match scheme {
            LoginScheme::Telnets => MaybeTls::from_start(login, trust()?, timeout),
            LoginScheme::Tcp => MaybeTls::on_request(login, None, timeout),
            _ if arguments.tls == TlsUse::Never => MaybeTls::on_request(login, None, timeout),
            _ => {
                let trust = trust()?;
                login.protocol.start_tls.set_used_before(trust.is_known());
                MaybeTls::on_request(login, Some(trust), timeout)
            }
        };
        let call = carrier::run(session, &arguments.via, &addresses, timeout, context)?;
        let other_addresses = addresses.len().saturating_sub(1);
        Ok(self.end_network_session(call, other_addresses, context))
    }

    /// Converts the result of a connection to a host into the result of the attempt.
    fn end_network_session(
        &self,
        call: EndedSession<MaybeTls<Login>>,
        other_addresses: usize,
        context: &mut EngineContext,
    ) -> AttemptResult {
        let EndedSession {
            session: MaybeTls { session: mut login, refusal, is_truncated, .. },
            outcome,
            address,
            ..
        } = call;
        login.leave_display(&mut context.cx());
        if login.display.screen.is_in_line() && self.is_verbose {
            say("");
        }
        if let Some(refusal) = refusal.map(|refusal| refusal.to_string()).or(login.refusal.take()) {
            return AttemptResult::NotConnected(Box::new(login), ConnectError::Permanent(refusal));
        }
        let was_open = login.stage != Stage::Opening;
        if let Some(why) =
            outcome.failure(was_open, address, other_addresses, self.arguments.timeout)
        {
            let connect_error = if was_open {
                ConnectError::Permanent(why)
            } else {
                ConnectError::Temporary(self.with_port_hint(why))
            };
            return AttemptResult::NotConnected(Box::new(login), connect_error);
        }
        if is_truncated {
            exit::print_diagnostic(
                Severity::Warning,
                "the server closed the connection without a TLS close_notify: the end of the \
                 data may be missing",
            );
        }
        AttemptResult::Ended(Box::new(login), outcome)
    }

    /// Appends the hint that a group of an IPv6 address may be a port.
    fn with_port_hint(&self, why: String) -> String {
        let Destination::Host { target, .. } = self.destination else { return why };
        target.port_hint().map_or(why.clone(), |hint| format!("{why}; {hint}"))
    }

    /// Converts the result of a session on a serial line into the result of the attempt. I/O errors
    /// of the serial line are returned as `Err`.
    fn end_serial_session(
        &self,
        call: Result<EndedSession<Login>>,
        context: &mut EngineContext,
    ) -> Result<AttemptResult> {
        let EndedSession { session: mut login, outcome, .. } = call?;
        login.leave_display(&mut context.cx());
        if login.display.screen.is_in_line() && self.is_verbose {
            say("");
        }
        Ok(AttemptResult::Ended(Box::new(login), outcome))
    }

    /// Reports the end of the session and returns the exit status.
    fn finish(&self, login: &mut Login, outcome: Outcome, context: &EngineContext) -> exit::Result {
        if self.is_verbose && login.stage != Stage::DisplayClosed {
            login.say_wrapped(&[closing_message(outcome, login, context)]);
        }
        if let Some(failure) = login.logs.take_failure() {
            exit::print_diagnostic(Severity::Error, &failure);
        }
        if termination::exit_code().is_some() {
            return Err(Failure::Interrupted);
        }
        match login.input.take_script_end() {
            Some((code, why)) if code != 0 || why.is_some() => {
                if let Some(why) = why {
                    exit::print_error(&anyhow::Error::msg(why));
                }
                Err(Failure::Script(code))
            }
            _ if login.logs.has_failed() => Err(Failure::ThisMachine),
            _ => Ok(()),
        }
    }

    /// Returns a description of the destination and the route to it.
    fn describe(&self) -> String {
        match self.destination {
            Destination::Serial { .. } => self.destination.to_string(),
            Destination::Host { target, .. } => describe(target, &self.arguments.via),
        }
    }
}

/// Returns the reason why a host has no address, and the saved host with a similar name.
fn with_saved_host(target: &HostTarget, scheme: LoginScheme, why: &NoAddress) -> String {
    let may_be_saved = scheme == LoginScheme::Unspecified;
    let hint = may_be_saved.then(|| host_configuration::misspelling_hint(&target.host)).flatten();
    format!("{why}{}", hint.unwrap_or_default())
}

/// Returns a description of the target, and of the route if it is not the kernel's TCP/IP, such as
/// `host port 23 via plumb's own TCP/IP on tun:plumb0`.
fn describe(target: &HostTarget, via: &Route) -> String {
    match via {
        Route::Kernel => target.to_string(),
        Route::Tun { .. } | Route::Segment(_) | Route::Serial { .. } => {
            format!("{target} via plumb's own TCP/IP on {via}")
        }
    }
}

/// Returns the target with its address after its name, if name and address differ.
fn with_address(target: &HostTarget, address: SocketAddr) -> HostTarget {
    let ip = address.ip().to_string();
    let host = if ip == target.host { ip } else { format!("{} ({ip})", target.host) };
    HostTarget { host, port: target.port }
}

/// Returns a message with the closing side, the duration and the traffic of the session.
fn closing_message(outcome: Outcome, login: &Login, context: &EngineContext) -> String {
    let traffic = login.status.traffic();
    let now = context.clock.now();
    let open_time = traffic.opened_at.map_or(Duration::ZERO, |opened_at| now - opened_at);
    let closing_side = if outcome == Outcome::LocalClosed { "here" } else { "by the remote host" };
    format!(
        "Connection closed {closing_side} after {}: {} bytes received, {} sent.",
        status_page::duration_text(open_time),
        count(traffic.bytes_in),
        count(traffic.bytes_out)
    )
}
