//! Connects to the destination, with retries if requested, and reports how the session ended.

use super::arguments::Arguments;
use super::destination::{Destination, Scheme};
use super::log::Log;
use super::near::Near;
use super::say;
use super::script::{Runner, Script};
use super::session::{Login, Stage};
use super::settings::{Echo, Protocol, Settings, TlsUse};
use super::status;
use super::tape::Tape;
use crate::carry::{self, Bench, Call, Outcome, Target, Tls, Trust, Via};
use crate::exit::{self, Failure};
use crate::meters::{self, Registry};
use crate::recording::{Header, Recorder};
use anyhow::{Context, Result};
use protocols::time::Duration;
use records::figures::count;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum number of bytes read from a script. Our choice.
const SCRIPT_MAX_BYTES: u64 = 1 << 20;

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    let to = match arguments.to.clone().with_port(arguments.port) {
        Ok(Destination::Line { .. }) if arguments.via != Via::Kernel => {
            exit::complain(&anyhow::anyhow!("--via does not apply to a serial line: omit it"));
            return Err(Failure::WrongArguments);
        }
        Ok(to) => to,
        Err(error) => {
            exit::complain(&error);
            return Err(Failure::WrongArguments);
        }
    };
    try_run(arguments, &to).unwrap_or_else(|error| {
        exit::complain(&error);
        Err(Failure::ThisMachine)
    })
}

/// Result of an attempt.
enum End {
    /// The session has ended.
    Over(Box<Login>, Outcome),
    /// The connection did not open; the session is unchanged.
    NotOpened(Box<Login>, Refused),
}

/// Reason why a connection did not open.
enum Refused {
    /// A temporary reason; a retry may succeed.
    ForNow(String),
    /// A permanent reason.
    ForGood(String),
}

fn try_run(arguments: &Arguments, to: &Destination) -> Result<exit::Result> {
    let settings = arguments.settings(to);
    let caller = Caller { arguments, to, is_talkative: is_talkative(arguments, &settings) };
    let script = match arguments.script.as_deref().map(|path| script(arguments, path)) {
        None => None,
        Some(Ok(runner)) => Some(runner),
        Some(Err(error)) => {
            exit::complain(&error);
            return Ok(Err(Failure::WrongArguments));
        }
    };
    if let Some(warning) = password_warning(arguments, &settings) {
        say(&warning);
    }
    let tape = tape(arguments, to, &settings)?;
    let near = Near::new(settings.is_interactive).context("cannot watch the window size")?;
    let mut login = Login::new(settings, near, caller.describe());
    login.tape = tape;
    login.script = script;
    let board = Registry::new(format!("login {to}"));
    // The login continues without meters if the socket cannot be created.
    let is_shown = login.settings.is_interactive && !arguments.no_meters_socket;
    let _door = is_shown.then(|| meters::MeterServer::open(&board).ok());
    let mut has_said = false;
    loop {
        let mut bench = Bench::shown_on(&board, "login")?;
        match caller.attempt(login, &mut bench)? {
            End::Over(ended, _) if ended.stage == Stage::Again => {
                say(&format!("Reconnecting to {}.", ended.peer));
                login = ended.renewed();
            }
            End::Over(mut ended, outcome) => {
                ended.tape.finish();
                return Ok(caller.finish(&mut ended, outcome, &bench));
            }
            End::NotOpened(ended, Refused::ForNow(why)) if arguments.retry.is_some() => {
                let seconds = arguments.retry.unwrap_or_default();
                if !std::mem::replace(&mut has_said, true) {
                    say(&format!("plumb: {why}; retrying every {seconds} s, ^C to stop"));
                }
                std::thread::sleep(Duration::from_secs(seconds));
                login = ended.renewed();
            }
            End::NotOpened(_, Refused::ForNow(why) | Refused::ForGood(why)) => {
                return Ok(Err(exit::far_side(why)));
            }
        }
    }
}

/// Returns a warning if typed passwords would be displayed and stored in a file.
fn password_warning(arguments: &Arguments, settings: &Settings) -> Option<String> {
    let displays = match settings.echo {
        Echo::Local => true,
        Echo::Automatic => settings.protocol == Protocol::Tcp,
        Echo::Remote => false,
    };
    let record = arguments.record.as_deref().map(|path| format!("--record {}", path.display()));
    let log = arguments.log.as_deref().map(|path| format!("--log {}", path.display()));
    let kept: Vec<_> = record.into_iter().chain(log).collect();
    (displays && settings.is_interactive && !kept.is_empty()).then(|| {
        let kept = kept.join(" and ");
        format!("plumb: warning: typed passwords will be displayed, and saved by {kept}")
    })
}

fn is_talkative(arguments: &Arguments, settings: &Settings) -> bool {
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
fn tape(arguments: &Arguments, to: &Destination, settings: &Settings) -> Result<Tape> {
    let recorder = arguments.record.as_deref().map(|path| {
        let (width, height) = super::near::window().map_or((80, 24), |w| (w.columns, w.rows));
        let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|t| t.as_secs());
        let env = [("TERM".to_owned(), settings.terminal_type.clone())].into();
        let title = Some(format!("plumb login: {to}"));
        let header = Header { version: 2, width, height, timestamp, title, env };
        Recorder::create(path, &header).map_err(|error| not_kept(path, &error))
    });
    let log = arguments
        .log
        .as_deref()
        .map(|path| Log::open(path, arguments.log_times).map_err(|error| not_kept(path, &error)));
    Ok(Tape::new(recorder.transpose()?, arguments.record_input, log.transpose()?))
}

fn not_kept(path: &Path, error: &io::Error) -> anyhow::Error {
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
struct Caller<'a> {
    arguments: &'a Arguments,
    to: &'a Destination,
    is_talkative: bool,
}

impl Caller<'_> {
    fn attempt(&self, mut login: Login, bench: &mut Bench) -> Result<End> {
        let (target, scheme) = match self.to {
            Destination::Host { target, scheme } => (target, *scheme),
            Destination::Line { device, settings } => {
                if self.is_talkative {
                    let line = self.describe();
                    login.greet_with(Box::new(move |_| line));
                }
                let call = carry::run_on_line(login, device, *settings, bench);
                return self.line_end(call, bench);
            }
        };
        let arguments = self.arguments;
        // A signal terminates plumb here: the terminal is still unmodified.
        let addresses = match carry::addresses(target, arguments.family, &arguments.via, None)? {
            Ok(addresses) => addresses,
            Err(why) => {
                return Ok(End::NotOpened(Box::new(login), Refused::ForNow(why.to_string())));
            }
        };
        if self.is_talkative {
            let (target, via) = (target.clone(), arguments.via.clone());
            login.greet_with(Box::new(move |address| describe(&named(&target, address), &via)));
        }
        let timeout = Duration::from_secs(arguments.timeout);
        let trust = || Trust::new(&target.host, target.port, arguments.ca.as_deref());
        let session = match scheme {
            Scheme::Telnets => Tls::from_start(login, trust()?, timeout),
            Scheme::Tcp => Tls::when_asked(login, None, timeout),
            _ if arguments.tls == TlsUse::Never => Tls::when_asked(login, None, timeout),
            _ => {
                let trust = trust()?;
                login.had_tls = trust.is_known();
                Tls::when_asked(login, Some(trust), timeout)
            }
        };
        let call = carry::run(session, &arguments.via, &addresses, timeout, bench)?;
        let others = addresses.len().saturating_sub(1);
        Ok(self.host_end(call, others, bench))
    }

    /// Determines how a session with a host ended.
    fn host_end(&self, call: Call<Tls<Login>>, others: usize, bench: &mut Bench) -> End {
        let Call { session: Tls { session: mut login, refusal, is_cut, .. }, outcome, address } =
            call;
        login.leave_display(&mut bench.cx());
        if login.screen.is_in_line() && self.is_talkative {
            say("");
        }
        if let Some(refusal) = refusal.map(|refusal| refusal.to_string()).or(login.refusal.take()) {
            return End::NotOpened(Box::new(login), Refused::ForGood(refusal));
        }
        let was_open = login.stage != Stage::Opening;
        if let Some(why) = outcome.failure(was_open, address, others, self.arguments.timeout) {
            let refused = if was_open { Refused::ForGood(why) } else { Refused::ForNow(why) };
            return End::NotOpened(Box::new(login), refused);
        }
        if is_cut {
            say("plumb: the server closed without a TLS close_notify: the end may be missing");
        }
        End::Over(Box::new(login), outcome)
    }

    /// Determines how a session on a serial line ended. An error of the line is returned to the
    /// caller.
    fn line_end(&self, call: Result<Call<Login>>, bench: &mut Bench) -> Result<End> {
        let Call { session: mut login, outcome, .. } = call?;
        login.leave_display(&mut bench.cx());
        if login.screen.is_in_line() && self.is_talkative {
            say("");
        }
        Ok(End::Over(Box::new(login), outcome))
    }

    /// Reports the end of the session and returns the exit status.
    fn finish(&self, login: &mut Login, outcome: Outcome, bench: &Bench) -> exit::Result {
        if self.is_talkative && login.stage != Stage::Unread {
            // After a line that ended with LF alone the cursor is not in the first column.
            let left = if login.settings.is_interactive { "\r" } else { "" };
            say(&format!("{left}{}", farewell(outcome, login, bench)));
        }
        if let Some(failure) = login.tape.failure() {
            say(&format!("plumb: {failure}"));
        }
        match login.script_end.take() {
            Some((code, why)) if code != 0 || why.is_some() => {
                if let Some(why) = why {
                    exit::complain(&anyhow::Error::msg(why));
                }
                Err(Failure::Script(code))
            }
            _ if login.tape.has_failed() => Err(Failure::ThisMachine),
            _ => Ok(()),
        }
    }

    /// Returns a description of the destination and the route to it.
    fn describe(&self) -> String {
        match self.to {
            Destination::Line { .. } => self.to.to_string(),
            Destination::Host { target, .. } => describe(target, &self.arguments.via),
        }
    }
}

/// Returns a text like `host port 23 by our own TCP/IP on tun:plumb0`.
fn describe(target: &Target, via: &Via) -> String {
    match via {
        Via::Kernel => format!("{target} via the kernel's TCP/IP"),
        Via::Tun { .. } | Via::Segment(_) | Via::Serial { .. } => {
            format!("{target} via plumb's own TCP/IP on {via}")
        }
    }
}

/// Returns the target with its address after its name, if these differ.
fn named(target: &Target, address: SocketAddr) -> Target {
    let ip = address.ip().to_string();
    let host = if ip == target.host { ip } else { format!("{} ({ip})", target.host) };
    Target { host, port: target.port }
}

/// Returns a message with the closing side, the duration and the traffic of the session.
fn farewell(outcome: Outcome, login: &Login, bench: &Bench) -> String {
    let traffic = login.traffic;
    let now = bench.clock.now();
    let open = traffic.opened_at.map_or(Duration::ZERO, |opened_at| now - opened_at);
    let who = if outcome == Outcome::Left { "here" } else { "by the remote host" };
    format!(
        "Connection closed {who} after {}: {} bytes received, {} sent.",
        status::shown(open),
        count(traffic.bytes_in),
        count(traffic.bytes_out)
    )
}
