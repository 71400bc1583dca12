//! `plumb serve`: the login server, serial consoles, and the file servers (`tftp`, `ftp`).
//!
//! A login session is a task (`login_session`) between a byte stream to the client
//! (`client_stream`) and a program on a pseudo-terminal (`program`). With a user file, a login
//! prompt comes first (`login_prompt`, `users`). Admission control limits the number of sessions
//! and the rate of password checks (`admission`). One thread runs the listeners and everything else
//! on tokio, except cleartext logins on kernel sockets, which run on a second thread (`executor`).
//! `descriptor` lets a session run on either thread.

mod accept;
mod admission;
mod certificate;
mod check;
mod client_stream;
mod configuration;
mod console;
mod descriptor;
mod executor;
mod fair_queue;
mod ftp;
mod help;
mod line_writer;
mod listener;
mod log;
mod login_prompt;
mod login_session;
mod metered;
mod metrics;
mod program;
mod reaper;
mod root;
mod session_end;
mod source;
mod suggest;
mod tftp;
mod throttle;
mod transfer_log;
mod user_file;
mod users;
mod userspace_tcp;

use crate::exit::{self, Failure};
use crate::heading;
use crate::record_options::RecordOptions;
use accept::{ListenerOptions, StartTls};
use admission::Admission;
use anyhow::{Context, Result, bail};
use carrier::meters::{self, MeterRegistry};
use carrier::{self, BorrowedContext, EngineContext, Route};
use configuration::{Configuration, File};
use console::{ConsoleFile, SerialConsole};
use descriptor::EventLoop;
use executor::Executor;
use fair_queue::{FairQueue, Limits};
pub(crate) use help::{ABOUT, CONFIGURATION, FTP_USER_FILE, LOGIN_USER_FILE};
use ipnet::IpNet;
use listener::ServerListener;
use log::{Log, ServeEvent};
use metered::Metered;
use metrics::ServerProtocol;
use net::meter::{Account, Counter};
use os::host::Host;
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::{JoinSet, LocalSet};
use tokio_rustls::TlsAcceptor;
use transfer::recorder::journal_directory;
use transfer_log::TransferLog;
use users::Users;

/// Size of the read buffer, which all sessions of a thread share: they read one at a time.
const SCRATCH_LEN: usize = 64 * 1024;
/// Time for the user-space host to deliver remaining data when the server ends.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// File descriptors per session: connection, program, terminal, and a duplicate of the terminal.
const DESCRIPTORS_PER_SESSION: u64 = 4;

/// Time for blocking work in other threads to finish when the server ends: hashing, a password
/// check, a process that asks PAM.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(700);

/// Limits of password checks: each takes 19 MiB and one processor, so one runs at a time.
const PASSWORD_CHECKS: Limits =
    Limits { running_max: 1, waiting_max: 64, waiting_per_source_max: 16 };

/// Command-line arguments.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("files").multiple(true))]
pub(crate) struct Arguments {
    /// Read this configuration file [default: none]
    #[arg(long, value_name = "file")]
    config: Option<PathBuf>,
    /// Check the configuration and the other arguments, report the result, and exit
    #[arg(long)]
    check: bool,
    /// Read a password from standard input, print its hash for the user file, and exit
    #[arg(long)]
    hash_password: bool,
    /// Authenticate the user that standard input names with PAM, and exit
    #[arg(long, hide = true)]
    prove_system_user: bool,
    /// Listen on this address and port in cleartext; may be repeated [default: loopback, port 23;
    /// 2323 without root]
    #[arg(long, value_name = "address:port", help_heading = heading::LOGIN)]
    listen: Vec<SocketAddr>,
    /// Listen on this address and port with TLS; may be repeated [default: all addresses, port 992;
    /// 3292 without root]
    #[arg(long, value_name = "address:port", help_heading = heading::LOGIN)]
    listen_tls: Vec<SocketAddr>,
    /// START_TLS policy for clients that connect in cleartext [default: offered, except on loopback
    /// addresses]
    #[arg(long, value_name = "off|offered|required", help_heading = heading::LOGIN)]
    tls: Option<StartTls>,
    /// Log in the users of this file instead of the system's users
    #[arg(long, value_name = "file", conflicts_with = "exec", help_heading = heading::LOGIN)]
    users: Option<PathBuf>,
    /// Serve this serial line instead of logins, such as /dev/ttyUSB0 or
    /// '/dev/ttyUSB0?baud=115200'; one client has write access, any number of clients watch
    #[arg(long, value_name = "device", conflicts_with_all = ["users", "exec"],
          help_heading = heading::LOGIN)]
    console: Option<String>,
    /// Run this program with all remaining arguments for every client, without a login
    #[arg(long, value_name = "program", num_args = 1.., allow_hyphen_values = true,
          help_heading = heading::LOGIN)]
    exec: Option<Vec<String>>,
    #[command(flatten)]
    root: root::RootArguments,
    #[command(flatten)]
    ftp: ftp::Arguments,
    #[command(flatten)]
    tftp: tftp::Arguments,
    /// Serve on plumb's own TCP/IP stack on this device, at all addresses of the stack
    #[arg(long, value_name = "kernel|tun:name|tap:name", default_value = "kernel",
          help_heading = heading::CONNECTION)]
    via: Route,
    /// Accept only clients in this prefix; may be repeated [default: all clients]
    #[arg(long, value_name = "prefix", help_heading = heading::LIMITS)]
    allow: Vec<IpNet>,
    /// Reject clients in this prefix; may be repeated
    #[arg(long, value_name = "prefix", help_heading = heading::LIMITS)]
    deny: Vec<IpNet>,
    /// End a session after this many seconds without input [default: never]
    #[arg(long, value_name = "seconds", help_heading = heading::LIMITS)]
    idle_timeout: Option<u64>,
    #[command(flatten)]
    record_options: RecordOptions,
    /// Serve Prometheus metrics at http://ADDRESS:PORT/metrics; a port alone means 127.0.0.1
    #[arg(long, value_name = "address:port", value_parser = metrics::parse_address,
          help_heading = heading::METERS)]
    metrics: Option<SocketAddr>,
    /// Accept this host name in requests for metrics, besides this machine's name and addresses;
    /// may be repeated
    #[arg(long, value_name = "name", help_heading = heading::METERS)]
    metrics_host: Vec<String>,
    /// Do not publish the meters to plumb meters
    #[arg(long, help_heading = heading::METERS)]
    no_meters_socket: bool,
    /// Log events as JSON, one object per line
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
    /// Log nothing but errors
    #[arg(short, long, help_heading = heading::OUTPUT)]
    quiet: bool,
}

/// Service behind the login listeners.
enum Service {
    /// No login listeners; the server serves only serial consoles.
    NoLogins,
    /// Login program of the system.
    SystemLogin,
    /// Users of a user file.
    Users(Mutex<Arc<Users>>),
    /// One program for every client.
    Exec(Vec<String>),
}

/// State shared by all login sessions.
struct LoginState {
    configuration: Configuration,
    service: Service,
    via: Route,
    admission: Mutex<Admission>,
    /// Queue of password checks.
    checks: FairQueue,
    log: Log,
}

impl LoginState {
    /// Adopts the users and the admission rules of another configuration. Listeners and open
    /// sessions are not affected.
    fn apply_reloadable(&self, other: Self) {
        if let (Service::Users(users), Service::Users(new)) = (&self.service, other.service) {
            let new = new.into_inner().unwrap_or_else(PoisonError::into_inner);
            *users.lock().unwrap_or_else(PoisonError::into_inner) = new;
        }
        self.admission().set_rules(other.configuration.rules);
    }

    fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State shared by the sessions of one thread.
struct LoginServer {
    login_state: Arc<LoginState>,
    engine: RefCell<EngineContext>,
    scratch: RefCell<Vec<u8>>,
    event_loop: EventLoop,
    /// Runs cleartext logins on kernel sockets in a thread of its own.
    executor: Option<Executor<Self>>,
}

impl Deref for LoginServer {
    type Target = LoginState;

    fn deref(&self) -> &LoginState {
        &self.login_state
    }
}

impl LoginServer {
    fn new(login_state: Arc<LoginState>, engine: EngineContext, event_loop: EventLoop) -> Self {
        let engine = RefCell::new(engine);
        let scratch = RefCell::new(vec![0; SCRATCH_LEN]);
        Self { login_state, engine, scratch, event_loop, executor: None }
    }

    /// Creates the state of this thread. If cleartext logins on kernel sockets are configured, also
    /// starts their thread.
    fn open(login_state: LoginState, registry: &Arc<MeterRegistry>) -> Result<Self> {
        let login_state = Arc::new(login_state);
        let has_executor =
            login_state.via == Route::Kernel && !login_state.configuration.listen.is_empty();
        let engine = EngineContext::published(registry, "logins")?;
        let mut login_server = Self::new(Arc::clone(&login_state), engine, EventLoop::Tokio);
        if has_executor {
            let engine = EngineContext::published(registry, "logins in cleartext")?;
            let share =
                move |registry| Self::new(login_state, engine, EventLoop::Executor(registry));
            login_server.executor = Some(Executor::start(Handle::current(), share)?);
        }
        Ok(login_server)
    }

    /// Borrows the clock, the random number generator and the meter. Must not be held across an
    /// await.
    fn engine(&self) -> BorrowedContext<'_> {
        BorrowedContext::from(&self.engine)
    }

    /// Executes a system call that reads or writes data, and charges its time to system calls.
    fn charge_call<T>(&self, call: impl FnOnce() -> T) -> T {
        self.charge(Account::Interrupt, call)
    }

    /// Counts the wakeup of a task that runs on tokio. The executor counts the wakeups of its own
    /// tasks.
    fn count_wakeup(&self) {
        if matches!(self.event_loop, EventLoop::Tokio) {
            self.engine.borrow_mut().meter.count(Counter::Wakeups);
        }
    }
}

impl Metered for LoginServer {
    fn engine_context(&self) -> &RefCell<EngineContext> {
        &self.engine
    }
}

impl executor::Shared for LoginServer {
    fn before_wait(&self) {
        self.engine.borrow_mut().meter.enter(Account::Outside);
    }

    fn after_wait(&self) {
        let meter = &mut self.engine.borrow_mut().meter;
        meter.enter(Account::Application);
        meter.count(Counter::Wakeups);
    }
}

/// Runs `plumb serve`.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    if arguments.hash_password {
        return hash_password().map_err(|error| print_error(&error));
    }
    if arguments.prove_system_user {
        let code = ftp::prove_system_user().map_err(|error| print_error(&error))?;
        std::process::exit(code);
    }
    if arguments.check {
        return check::run(arguments);
    }
    #[cfg(target_env = "gnu")]
    os::heap::return_large_blocks();
    let prepared = prepare(arguments).map_err(|error| {
        exit::print_error(&error);
        Failure::WrongArguments
    })?;
    let result = serve(prepared);
    // The wait is limited: if nothing reads the log, the server ends nevertheless.
    let is_read = log::flush();
    result.map_err(|error| if is_read { print_error(&error) } else { Failure::ThisMachine })
}

/// All servers of the command, ready to start.
struct Prepared {
    login_state: Option<LoginState>,
    files: Option<tftp::Server>,
    ftp: Option<ftp::Server>,
    transfer_log: Rc<TransferLog>,
    metrics: Option<metrics::EndpointSettings>,
    registry: Arc<MeterRegistry>,
    has_meters_socket: bool,
    arguments: Arguments,
}

/// Merges the configuration file and the command-line flags.
fn prepare(arguments: &Arguments) -> Result<Prepared> {
    carrier::check_host_supported(&arguments.via)?;
    let mut file = arguments.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
    let prefixes = (arguments.allow.as_slice(), arguments.deny.as_slice());
    let is_root = os::user::is_root();
    let ftp = ftp_settings(arguments, &file)?;
    let table = file.tftp.take();
    let root = &arguments.root;
    let settings = tftp::TftpSettings::complete(table, &arguments.tftp, root, prefixes, is_root)?;
    let log = Log { is_json: arguments.json, is_quiet: arguments.quiet };
    let is_recording = !arguments.record_options.no_record && file.record.unwrap_or(true);
    let journal = (is_recording && (settings.is_some() || ftp.is_some())).then(journal_directory);
    let transfer_log = Rc::new(TransferLog::new(journal.as_deref(), log));
    let registry = MeterRegistry::new("serve");
    let has_meters_socket = !arguments.no_meters_socket && file.meters_socket.unwrap_or(true);
    let files = settings
        .map(|settings| tftp::Server::new(settings, log, Rc::clone(&transfer_log), &registry));
    let files = files.transpose()?;
    let ftp =
        ftp.map(|settings| ftp::Server::new(settings, log, Rc::clone(&transfer_log), &registry));
    let ftp = ftp.transpose()?;
    let metrics = arguments.metrics.or(file.metrics).map(|at| {
        let configured = file.metrics_hosts.iter().chain(&arguments.metrics_host);
        metrics::EndpointSettings { at, hosts: metrics::accepted_hosts(configured) }
    });
    let has_files = files.is_some() || ftp.is_some();
    let wants_logins = arguments.wants_logins(&file, has_files);
    let login_state = wants_logins.then(|| prepare_logins(arguments, file)).transpose()?;
    let arguments = arguments.clone();
    Ok(Prepared {
        login_state,
        files,
        ftp,
        transfer_log,
        metrics,
        registry,
        has_meters_socket,
        arguments,
    })
}

/// Merges the configuration file and the command-line flags for FTP.
fn ftp_settings(arguments: &Arguments, file: &File) -> Result<Option<ftp::FtpSettings>> {
    let root = &arguments.root;
    let has_tftp = arguments.tftp.is_requested() || file.tftp.is_some();
    let shared = ftp::Shared {
        root_arguments: root,
        is_for_ftp: root.root().is_some() && !has_tftp,
        prefixes: (&arguments.allow, &arguments.deny),
        certificate: file.tls.as_ref(),
        is_root: os::user::is_root(),
    };
    ftp::FtpSettings::complete(file.ftp.clone(), &arguments.ftp, &shared)
}

/// Rereads the configuration and the user files, and applies the settings that can change at run
/// time.
fn reload(arguments: &Arguments, served: &Served, log: Log) {
    let file = || -> Result<File> {
        let file = arguments.config.as_deref().map(File::read).transpose();
        file.map(Option::unwrap_or_default)
    };
    if let Some(ftp) = &served.ftp {
        ftp.reload(file().and_then(|file| {
            ftp_settings(arguments, &file)?.context("the [ftp] table is missing")
        }));
    }
    if let Some(login_server) = &served.login_server {
        log.write(&match file().and_then(|file| prepare_logins(arguments, file)) {
            Ok(login_state) => {
                login_server.apply_reloadable(login_state);
                ServeEvent::ReloadedLogins
            }
            Err(error) => ServeEvent::NotReloaded { why: format!("{error:#}") },
        });
    }
}

impl Arguments {
    /// Returns whether the login server runs: if one of its own settings is given, or if no file
    /// server runs.
    fn wants_logins(&self, file: &File, has_files: bool) -> bool {
        !has_files
            || file.login.is_some()
            || !file.consoles.is_empty()
            || !self.listen.is_empty()
            || !self.listen_tls.is_empty()
            || self.users.is_some()
            || self.exec.is_some()
            || self.console.is_some()
    }
}

fn print_error(error: &anyhow::Error) -> Failure {
    exit::print_error(error);
    Failure::ThisMachine
}

fn hash_password() -> Result<()> {
    let mut password = Vec::new();
    io::Read::read_to_end(&mut io::stdin(), &mut password)?;
    let end = password.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    password.truncate(end.unwrap_or(password.len()));
    if password.is_empty() {
        bail!("no password on standard input");
    }
    let hash = user_file::hash(&password);
    password.fill(0);
    use io::Write;
    writeln!(io::stdout(), "{}", hash?).context("cannot write to standard output")
}

/// Merges the configuration file and the command-line flags for the login server.
fn prepare_logins(arguments: &Arguments, mut file: File) -> Result<LoginState> {
    let login = file.login.get_or_insert_default();
    if !arguments.listen.is_empty() || !arguments.listen_tls.is_empty() {
        login.listen = Some(arguments.listen.clone());
        login.listen_tls = Some(arguments.listen_tls.clone());
    }
    if arguments.users.is_some() || arguments.exec.is_some() {
        login.users.clone_from(&arguments.users);
        login.exec.clone_from(&arguments.exec);
    }
    if arguments.via != Route::Kernel && login.listen.is_none() && login.listen_tls.is_none() {
        bail!(
            "no port for logins at {}: use --listen-tls '[::]:992' or --listen '[::]:23'",
            arguments.via
        );
    }
    if let Some(device) = &arguments.console {
        file.consoles.push(ConsoleFile {
            device: device.clone(),
            listen: login.listen.take().unwrap_or_default(),
            listen_tls: login.listen_tls.take().unwrap_or_default(),
            tls: arguments.tls,
            ..ConsoleFile::default()
        });
    }
    login.tls = arguments.tls.or(login.tls);
    login.allow.extend(&arguments.allow);
    login.deny.extend(&arguments.deny);
    login.idle_timeout_s = arguments.idle_timeout.or(login.idle_timeout_s);
    let configuration = Configuration::complete(file, os::user::is_root())?;
    let service = service(&configuration)?;
    Ok(LoginState {
        service,
        via: arguments.via.clone(),
        admission: Mutex::new(Admission::new(configuration.rules.clone())),
        checks: FairQueue::new(PASSWORD_CHECKS),
        log: Log { is_json: arguments.json, is_quiet: arguments.quiet },
        configuration,
    })
}

fn service(configuration: &Configuration) -> Result<Service> {
    if !configuration.serves_logins() {
        return Ok(Service::NoLogins);
    }
    if let Some(program_arguments) = &configuration.exec {
        return Ok(Service::Exec(program_arguments.clone()));
    }
    if let Some(path) = &configuration.users {
        return Ok(Service::Users(Mutex::new(Arc::new(Users::read(path)?))));
    }
    if !os::user::is_root() {
        bail!(
            "the system's login needs root: use sudo, or give a user file with --users, or one \
             program with --exec"
        );
    }
    if program::login_path().is_none() {
        bail!("this system has no login program: give a user file with --users");
    }
    Ok(Service::SystemLogin)
}

/// Runs all servers: cleartext logins on kernel sockets in a second thread, everything else in this
/// one.
fn serve(prepared: Prepared) -> Result<()> {
    let Prepared {
        login_state,
        files,
        ftp,
        transfer_log,
        metrics,
        registry,
        has_meters_socket,
        arguments,
    } = prepared;
    if let Some(login_state) = &login_state {
        let sessions =
            u64::try_from(login_state.configuration.rules.sessions_max).unwrap_or(u64::MAX);
        let descriptors = sessions.saturating_mul(DESCRIPTORS_PER_SESSION).saturating_add(64);
        // If the limit cannot be raised, fewer sessions are possible at once.
        _ = os::process::allow_descriptors(descriptors);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    let log = Log { is_json: arguments.json, is_quiet: arguments.quiet };
    let _meter_server = has_meters_socket.then(|| serve_meters(&registry, log));
    // Separate task for the servers: `block_on` polls its own future whenever any task is woken.
    let result = local.block_on(&runtime, async {
        let login_server =
            login_state.map(|login_state| LoginServer::open(login_state, &registry)).transpose()?;
        let served = Served {
            host: userspace_host(
                &arguments.via,
                login_server.as_ref(),
                files.as_ref(),
                ftp.as_ref(),
            )?,
            login_server: login_server.map(Rc::new),
            files: files.map(Rc::new),
            ftp: ftp.map(Rc::new),
        };
        if let Some(metrics) = metrics {
            serve_metrics(metrics, &transfer_log, &served, log).await?;
        }
        let result =
            tokio::task::spawn_local(run_servers(served, arguments, registry, log)).await?;
        transfer_log.close();
        result
    });
    drop(local);
    // Limit the wait, so that the server ends even if a disk or a PAM module does not respond.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}

/// Opens the meter socket. If the socket cannot be opened, logs the reason.
fn serve_meters(registry: &Arc<MeterRegistry>, log: Log) -> Option<meters::MeterServer> {
    let report = |why: String| log.write(&ServeEvent::NoMeters { why });
    meters::MeterServer::open(registry).map_err(|error| report(error.to_string())).ok()
}

/// Creates the user-space host of `via` for all servers; `None` for the kernel's network stack.
fn userspace_host(
    via: &Route,
    login_server: Option<&LoginServer>,
    files: Option<&tftp::Server>,
    ftp: Option<&ftp::Server>,
) -> Result<Option<Host>> {
    let logins =
        login_server.map_or(0, |login_server| login_server.configuration.rules.sessions_max);
    let connections = logins + ftp.map_or(0, ftp::Server::connections_max);
    let host = carrier::open_host(via, connections, carrier::LOGINS)?;
    if let Some(host) = &host {
        ftp.into_iter().for_each(|ftp| ftp.use_host(host));
        files.into_iter().for_each(|files| files.use_host(host));
    }
    Ok(host)
}

/// Running servers, shared by their tasks.
struct Served {
    /// User-space host that carries the connections; `None` for the kernel's network stack.
    host: Option<Host>,
    login_server: Option<Rc<LoginServer>>,
    files: Option<Rc<tftp::Server>>,
    ftp: Option<Rc<ftp::Server>>,
}

/// Opens the metrics endpoint.
async fn serve_metrics(
    address: metrics::EndpointSettings,
    transfer_log: &Rc<TransferLog>,
    served: &Served,
    log: Log,
) -> Result<()> {
    let transfer_log = Rc::clone(transfer_log);
    let login_server = served.login_server.clone();
    let files = served.files.clone();
    let ftp = served.ftp.clone();
    let text = move || {
        let traffic = [
            login_server
                .as_ref()
                .map(|login_server| login_server.admission().traffic(ServerProtocol::Telnet)),
            files.as_ref().map(|files| files.traffic()),
            ftp.as_ref().map(|ftp| ftp.traffic()),
        ];
        let traffic: Vec<_> = traffic.into_iter().flatten().collect();
        transfer_log.metrics().text(&traffic)
    };
    let (at, attended) = metrics::serve(address, text).await?;
    log.write(&ServeEvent::Metrics { at });
    tokio::task::spawn_local(attended);
    Ok(())
}

/// Runs the servers until the process is terminated or one of them fails.
async fn run_servers(
    served: Served,
    arguments: Arguments,
    registry: Arc<MeterRegistry>,
    log: Log,
) -> Result<()> {
    let Served { host, login_server, files, ftp } = &served;
    let _shown = host
        .as_ref()
        .map(|host| registry.register_block("own TCP/IP stack", host.shared_counters()));
    let mut services = JoinSet::new();
    if let Some(files) = files {
        services.spawn_local(Rc::clone(files).serve());
    }
    if let Some(ftp) = ftp {
        services.spawn_local(Rc::clone(ftp).serve());
    }
    if let Some(login_server) = login_server {
        services.spawn_local(listen(Rc::clone(login_server), host.clone()));
    }
    let ended_service = tokio::select! {
        result = until_terminated(|| reload(&arguments, &served, log)) => result,
        Some(result) = services.join_next() => result?,
    };
    if let Some(login_server) = login_server {
        let sessions = login_server.admission().sessions();
        login_server.log.write(&ServeEvent::Closing { sessions });
    }
    if let Some(files) = files {
        files.close().await;
    }
    if let Some(ftp) = ftp {
        ftp.close().await;
    }
    if let Some(host) = host {
        // Data that is still queued would be lost with the host.
        _ = tokio::time::timeout(DRAIN_TIMEOUT, host.drained()).await;
    }
    ended_service
}

async fn listen(login_server: Rc<LoginServer>, host: Option<Host>) -> Result<()> {
    let configuration = &login_server.configuration;
    let mut accept_tasks = JoinSet::new();
    let mut listeners =
        Listeners { login_server: &login_server, host: host.as_ref(), acceptor: None };
    let logins = ListenAddresses {
        listen: &configuration.listen,
        listen_tls: &configuration.listen_tls,
        start_tls: configuration.start_tls,
    };
    listeners.open(&logins, None, &mut accept_tasks)?;
    for settings in &configuration.consoles {
        let console = Rc::new(SerialConsole::new(settings.clone()));
        tokio::task::spawn_local(console::run_port(Rc::clone(&console), Rc::clone(&login_server)));
        let addresses = ListenAddresses {
            listen: &settings.listen,
            listen_tls: &settings.listen_tls,
            start_tls: settings.start_tls,
        };
        listeners.open(&addresses, Some(&console), &mut accept_tasks)?;
    }
    let first_end = accept_tasks.join_next().await.transpose()?;
    first_end.map_or(Ok(()), |error| Err(error).context("cannot accept connections"))
}

/// Listen addresses of one service.
struct ListenAddresses<'a> {
    listen: &'a [SocketAddr],
    listen_tls: &'a [SocketAddr],
    start_tls: Option<StartTls>,
}

/// Opens listeners that share one certificate.
struct Listeners<'a> {
    login_server: &'a Rc<LoginServer>,
    host: Option<&'a Host>,
    acceptor: Option<TlsAcceptor>,
}

impl Listeners<'_> {
    /// Opens the listeners of one service.
    fn open(
        &mut self,
        addresses: &ListenAddresses<'_>,
        console: Option<&Rc<SerialConsole>>,
        accept_tasks: &mut JoinSet<io::Error>,
    ) -> Result<()> {
        for address in addresses.listen {
            let is_loopback = address.ip().is_loopback() && self.host.is_none();
            let protection = match is_loopback {
                true => "unencrypted, loopback only",
                false => "UNENCRYPTED (readable by anyone on the network path)",
            };
            let start_tls = self.start_tls(addresses.start_tls, is_loopback)?;
            let protection =
                if start_tls == StartTls::Required { "START_TLS required" } else { protection };
            self.listen(*address, protection, Some(start_tls), console, accept_tasks)?;
        }
        for address in addresses.listen_tls {
            self.acceptor()?;
            self.listen(*address, "with TLS", None, console, accept_tasks)?;
        }
        Ok(())
    }

    /// Returns the START_TLS policy. If the policy is only the default and no certificate is
    /// available, logs the reason and returns [`StartTls::Off`].
    fn start_tls(&mut self, configured: Option<StartTls>, is_loopback: bool) -> Result<StartTls> {
        let is_default = configured.is_none() && !is_loopback;
        match configured {
            None if is_default => {
                if let Err(error) = self.acceptor() {
                    let why = format!("{error:#}");
                    self.login_server.log.write(&ServeEvent::NoStartTls { why });
                    return Ok(StartTls::Off);
                }
            }
            None | Some(StartTls::Off) => {}
            Some(_) => _ = self.acceptor()?,
        }
        Ok(configured.unwrap_or(if is_default { StartTls::Offered } else { StartTls::Off }))
    }

    /// Returns the TLS acceptor. The first call generates a missing certificate and logs its hash.
    fn acceptor(&mut self) -> Result<TlsAcceptor> {
        if let Some(acceptor) = &self.acceptor {
            return Ok(acceptor.clone());
        }
        let configuration = &self.login_server.configuration;
        if configuration.generates_certificate {
            configuration.certificate.generate_if_missing()?;
        }
        let (acceptor, sha256) = configuration.certificate.acceptor()?;
        self.login_server.log.write(&ServeEvent::Certificate { sha256: &sha256 });
        Ok(self.acceptor.insert(acceptor).clone())
    }

    fn listen(
        &self,
        address: SocketAddr,
        protection: &'static str,
        start_tls: Option<StartTls>,
        console: Option<&Rc<SerialConsole>>,
        accept_tasks: &mut JoinSet<io::Error>,
    ) -> Result<()> {
        let listener = open(self.host, address)?;
        let at = listener.name()?;
        self.login_server.log.write(&ServeEvent::Listening { at, how: protection });
        let options = ListenerOptions {
            acceptor: self.acceptor.clone(),
            start_tls,
            console: console.cloned(),
        };
        accept_tasks.spawn_local(listener.run(options, Rc::clone(self.login_server)));
        Ok(())
    }
}

fn open(host: Option<&Host>, address: SocketAddr) -> Result<ServerListener> {
    let Some(host) = host else { return ServerListener::open(address) };
    let port = address.port();
    let listener = host.listen(port);
    let failure = || format!("cannot listen on port {port} of plumb's own TCP/IP stack");
    let listener = listener.with_context(failure)?;
    Ok(ServerListener::Userspace(listener))
}

/// Waits for SIGINT or SIGTERM. Calls `on_hangup` for each SIGHUP, which never ends the server.
async fn until_terminated(on_hangup: impl Fn()) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            result = tokio::signal::ctrl_c() => return Ok(result?),
            _ = terminate.recv() => return Ok(()),
            _ = hang_up.recv() => on_hangup(),
        }
    }
}
