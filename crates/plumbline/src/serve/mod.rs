//! `plumb serve`: the login server, serial consoles, and the file servers (`tftp`, `ftp`).
//!
//! A login session is a task (`session`) between a byte stream to the client (`wire`) and a program
//! on a pseudo-terminal (`program`). With a user file, a login prompt comes first (`dialogue`,
//! `users`). Admission control limits the number of sessions and the rate of password checks
//! (`admission`). One thread runs the listeners and everything else on tokio, except cleartext
//! logins on kernel sockets, which run on a second thread (`executor`). `watch` lets a session run
//! on either.

mod admission;
mod certificate;
mod charged;
mod check;
mod configuration;
mod console;
mod dialogue;
mod door;
mod ending;
mod entrance;
mod executor;
mod fair_queue;
mod folder;
mod ftp;
mod help;
mod line_writer;
mod log;
mod metrics;
mod own;
mod program;
mod reaper;
mod session;
mod source;
mod suggest;
mod tftp;
mod throttle;
mod transfer_log;
mod user_file;
mod users;
mod watch;
mod wire;

use crate::carry::{self, Bench, Lent, Via};
use crate::exit::{self, Failure};
use crate::meters::{self, Registry};
use crate::stats::journal_folder;
use crate::transfer_recorder::Keeping;
use admission::Admission;
use anyhow::{Context, Result, bail};
use charged::Metered;
use configuration::{Configuration, File};
use console::{Console, ConsoleFile};
use door::Door;
use entrance::{Entrance, StartTls};
use executor::Executor;
use fair_queue::{FairQueue, Limits};
pub(crate) use help::ABOUT;
use help::EXAMPLES;
use ipnet::IpNet;
use log::{Event, Log};
use metrics::Protocol;
use os::host::Host;
use protocols::meter::{Account, Counter};
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
use transfer_log::TransferLog;
use users::Users;
use watch::Waiter;

/// Size of the read buffer. All sessions of a thread share one, as only one reads at a time.
const SCRATCH_LEN: usize = 64 * 1024;
/// Time for the user-space host to deliver remaining data when the server ends.
const DRAINING: Duration = Duration::from_millis(500);
/// File descriptors per session: connection, terminal and program.
const DESCRIPTORS_PER_SESSION: u64 = 4;

/// Time for blocking work in other threads to finish when the server ends: hashing, a password
/// check, a process that asks PAM.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(700);

/// A password check takes 19 MiB and one processor, so one runs at a time.
const PASSWORD_CHECKS: Limits =
    Limits { running_max: 1, waiting_max: 64, waiting_per_source_max: 16 };

/// Command-line arguments.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = clap::ArgGroup::new("files").multiple(true))]
pub(crate) struct Arguments {
    /// Read this configuration file [default: none]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the configuration and the other arguments, report the result, and exit
    #[arg(long)]
    check: bool,
    /// Listen on this address and port in cleartext; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// Listen on this address and port with TLS; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen_tls: Vec<SocketAddr>,
    /// Serve on a user-space host: tun:NAME or tap:NAME, as for login; logins, FTP and TFTP use
    /// their configured ports at all its addresses
    #[arg(long, default_value = "kernel")]
    via: Via,
    /// START_TLS policy for clients that connect in cleartext [default: offered, except on loopback
    /// addresses]
    #[arg(long, value_name = "HOW")]
    tls: Option<StartTls>,
    /// Serve this serial line instead of logins, such as /dev/ttyUSB0 or
    /// '/dev/ttyUSB0?baud=115200'; one client writes, any number watch
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["users", "exec"])]
    console: Option<String>,
    /// Use the users of this file instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "exec")]
    users: Option<PathBuf>,
    /// Accept only clients in this prefix; may be repeated
    #[arg(long, value_name = "PREFIX")]
    allow: Vec<IpNet>,
    /// Reject clients in this prefix; may be repeated
    #[arg(long, value_name = "PREFIX")]
    deny: Vec<IpNet>,
    /// End a session after this many seconds without input [default: never]
    #[arg(long, value_name = "SECONDS")]
    idle_timeout: Option<u64>,
    /// Read a password from standard input, print its hash for the user file, and exit
    #[arg(long)]
    hash_password: bool,
    /// Check the claim on standard input with PAM, and exit
    #[arg(long, hide = true)]
    prove_system_user: bool,
    #[command(flatten)]
    folder: folder::Folder,
    #[command(flatten)]
    tftp: tftp::Arguments,
    #[command(flatten)]
    ftp: ftp::Arguments,
    #[command(flatten)]
    keeping: Keeping,
    /// Serve Prometheus metrics at http://ADDRESS:PORT/metrics; a port alone means 127.0.0.1
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = metrics::place)]
    metrics: Option<SocketAddr>,
    /// Accept this host name in requests for metrics, besides this machine's name and addresses;
    /// may be repeated
    #[arg(long, value_name = "NAME")]
    metrics_host: Vec<String>,
    /// Do not make the meters available to 'plumb meters'
    #[arg(long)]
    no_meters_socket: bool,
    /// Log events as JSON, one object per line
    #[arg(long)]
    json: bool,
    /// Log nothing but errors
    #[arg(short, long)]
    quiet: bool,
    /// Run this program for every client, without a login; it takes all remaining arguments, so
    /// this is the last option
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true)]
    exec: Option<Vec<String>>,
}

/// Service behind the login listeners.
enum Service {
    /// Consoles only.
    Nothing,
    /// Login program of the system.
    SystemLogin,
    /// Users of a file.
    Users(Mutex<Arc<Users>>),
    /// One program for every client.
    Exec(Vec<String>),
}

/// State shared by all login sessions.
struct House {
    configuration: Configuration,
    service: Service,
    via: Via,
    admission: Mutex<Admission>,
    /// Queue of password checks.
    checks: FairQueue,
    log: Log,
}

impl House {
    /// Adopts the users and the admission rules of another configuration. Listeners and open
    /// sessions are not affected.
    fn take_over(&self, other: Self) {
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
    house: Arc<House>,
    bench: RefCell<Bench>,
    scratch: RefCell<Vec<u8>>,
    waiter: Waiter,
    /// Runs cleartext logins on kernel sockets in a thread of its own.
    executor: Option<Executor<Self>>,
}

impl Deref for LoginServer {
    type Target = House;

    fn deref(&self) -> &House {
        &self.house
    }
}

impl LoginServer {
    fn new(house: Arc<House>, bench: Bench, waiter: Waiter) -> Self {
        let (bench, scratch) = (RefCell::new(bench), RefCell::new(vec![0; SCRATCH_LEN]));
        Self { house, bench, scratch, waiter, executor: None }
    }

    /// Creates the state of this thread, and starts the thread of cleartext logins on kernel
    /// sockets if they are configured.
    fn open(house: House, board: &Arc<Registry>) -> Result<Self> {
        let house = Arc::new(house);
        let has_executor = house.via == Via::Kernel && !house.configuration.listen.is_empty();
        let bench = Bench::shown_on(board, "logins")?;
        let mut shop = Self::new(Arc::clone(&house), bench, Waiter::Tokio);
        if has_executor {
            let bench = Bench::shown_on(board, "logins in cleartext")?;
            let share = move |registry| Self::new(house, bench, Waiter::Executor(registry));
            shop.executor = Some(Executor::start(Handle::current(), share)?);
        }
        Ok(shop)
    }

    /// Borrows the clock, the random number generator and the meter. Must not be held across an
    /// await.
    fn bench(&self) -> Lent<'_> {
        Lent::from(&self.bench)
    }

    /// Makes a call that moves bytes, charged to the account of system calls.
    fn charge_call<T>(&self, call: impl FnOnce() -> T) -> T {
        self.charge(Account::Interrupt, call)
    }

    /// Counts the wakeup of a task that runs on tokio. The executor counts the wakeups of its own
    /// tasks.
    fn count_wakeup(&self) {
        if matches!(self.waiter, Waiter::Tokio) {
            self.bench.borrow_mut().meter.count(Counter::Wakeups);
        }
    }
}

impl Metered for LoginServer {
    fn metered_bench(&self) -> &RefCell<Bench> {
        &self.bench
    }
}

impl executor::Shared for LoginServer {
    fn waits(&self) {
        self.bench.borrow_mut().meter.enter(Account::Outside);
    }

    fn wakes(&self) {
        let meter = &mut self.bench.borrow_mut().meter;
        meter.enter(Account::Application);
        meter.count(Counter::Wakeups);
    }
}

/// Runs `plumb serve`.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    if arguments.hash_password {
        return hash_password().map_err(|error| complain(&error));
    }
    if arguments.prove_system_user {
        let code = ftp::prove_system_user().map_err(|error| complain(&error))?;
        std::process::exit(code);
    }
    if arguments.check {
        return check::run(arguments);
    }
    #[cfg(target_env = "gnu")]
    os::heap::return_large_blocks();
    let prepared = prepare(arguments).map_err(|error| {
        exit::complain(&error);
        Failure::WrongArguments
    })?;
    let served = serve(prepared);
    // A log that is not read does not keep the server from ending.
    let is_read = log::flush();
    served.map_err(|error| if is_read { complain(&error) } else { Failure::ThisMachine })
}

/// Everything that the command serves, ready to start.
struct Prepared {
    house: Option<House>,
    files: Option<tftp::Server>,
    ftp: Option<ftp::Server>,
    transfer_log: Rc<TransferLog>,
    metrics: Option<metrics::Place>,
    board: Arc<Registry>,
    has_meters_socket: bool,
    arguments: Arguments,
}

/// Merges the configuration file and the command-line flags.
fn prepare(arguments: &Arguments) -> Result<Prepared> {
    carry::check_host(&arguments.via)?;
    let mut file = arguments.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
    let prefixes = (arguments.allow.as_slice(), arguments.deny.as_slice());
    let is_root = os::user::is_root();
    let ftp = ftp_settings(arguments, &file)?;
    let (table, folder) = (file.tftp.take(), &arguments.folder);
    let settings = tftp::Settings::complete(table, &arguments.tftp, folder, prefixes, is_root)?;
    let log = Log { is_json: arguments.json, is_quiet: arguments.quiet };
    let keeps = !arguments.keeping.no_record && file.record.unwrap_or(true);
    let folder = (keeps && (settings.is_some() || ftp.is_some())).then(journal_folder);
    let transfer_log = Rc::new(TransferLog::new(folder.as_deref(), log));
    let board = Registry::new("serve");
    let has_meters_socket = !arguments.no_meters_socket && file.meters_socket.unwrap_or(true);
    let files =
        settings.map(|settings| tftp::Server::new(settings, log, Rc::clone(&transfer_log), &board));
    let files = files.transpose()?;
    let ftp = ftp.map(|settings| ftp::Server::new(settings, log, Rc::clone(&transfer_log), &board));
    let ftp = ftp.transpose()?;
    let metrics = arguments.metrics.or(file.metrics).map(|at| {
        let configured = file.metrics_hosts.iter().chain(&arguments.metrics_host);
        metrics::Place { at, hosts: metrics::own_hosts(configured) }
    });
    let has_files = files.is_some() || ftp.is_some();
    let wants_logins = arguments.wants_logins(&file, has_files);
    let house = wants_logins.then(|| prepare_logins(arguments, file)).transpose()?;
    let arguments = arguments.clone();
    Ok(Prepared { house, files, ftp, transfer_log, metrics, board, has_meters_socket, arguments })
}

/// Merges the configuration file and the command-line flags for FTP.
fn ftp_settings(arguments: &Arguments, file: &File) -> Result<Option<ftp::Settings>> {
    let folder = &arguments.folder;
    let has_tftp = arguments.tftp.is_asked() || file.tftp.is_some();
    let shared = ftp::Shared {
        folder,
        is_for_ftp: folder.root().is_some() && !has_tftp,
        prefixes: (&arguments.allow, &arguments.deny),
        certificate: file.tls.as_ref(),
        is_root: os::user::is_root(),
    };
    ftp::Settings::complete(file.ftp.clone(), &arguments.ftp, &shared)
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
            ftp_settings(arguments, &file)?.context("the [ftp] table has been removed")
        }));
    }
    if let Some(shop) = &served.shop {
        log.say(&match file().and_then(|file| prepare_logins(arguments, file)) {
            Ok(house) => {
                shop.take_over(house);
                Event::ReloadedLogins
            }
            Err(error) => Event::NotReloaded { why: format!("{error:#}") },
        });
    }
}

impl Arguments {
    /// Returns whether the login server runs: if any of its own settings is given, or no file
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

fn complain(error: &anyhow::Error) -> Failure {
    exit::complain(error);
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
fn prepare_logins(arguments: &Arguments, mut file: File) -> Result<House> {
    let login = file.login.get_or_insert_default();
    if !arguments.listen.is_empty() || !arguments.listen_tls.is_empty() {
        login.listen = Some(arguments.listen.clone());
        login.listen_tls = Some(arguments.listen_tls.clone());
    }
    if arguments.users.is_some() || arguments.exec.is_some() {
        login.users.clone_from(&arguments.users);
        login.exec.clone_from(&arguments.exec);
    }
    if arguments.via != Via::Kernel && login.listen.is_none() && login.listen_tls.is_none() {
        bail!(
            "no port to serve at {}: use --listen-tls '[::]:992' or --listen '[::]:23'",
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
    Ok(House {
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
        return Ok(Service::Nothing);
    }
    if let Some(words) = &configuration.exec {
        return Ok(Service::Exec(words.clone()));
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
    let Prepared { house, files, ftp, transfer_log, metrics, board, has_meters_socket, arguments } =
        prepared;
    if let Some(house) = &house {
        let sessions = u64::try_from(house.configuration.rules.sessions_max).unwrap_or(u64::MAX);
        let wanted = sessions.saturating_mul(DESCRIPTORS_PER_SESSION).saturating_add(64);
        // If the limit cannot be raised, fewer sessions are possible at once.
        _ = os::process::allow_descriptors(wanted);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    let log = Log { is_json: arguments.json, is_quiet: arguments.quiet };
    let _door = has_meters_socket.then(|| show_meters(&board, log));
    // A separate task: `block_on` polls its own future whenever any task is woken.
    let ended = local.block_on(&runtime, async {
        let shop = house.map(|house| LoginServer::open(house, &board)).transpose()?;
        let served = Served {
            host: own_host(&arguments.via, shop.as_ref(), files.as_ref(), ftp.as_ref())?,
            shop: shop.map(Rc::new),
            files: files.map(Rc::new),
            ftp: ftp.map(Rc::new),
        };
        if let Some(metrics) = metrics {
            tell_metrics(metrics, &transfer_log, &served, log).await?;
        }
        let ended = tokio::task::spawn_local(attend(served, arguments, board, log)).await?;
        transfer_log.close();
        ended
    });
    drop(local);
    // A disk or a PAM module that does not answer does not keep the server from ending.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    ended
}

/// Opens the meter socket. Without a place for it, the server runs without it and logs the reason.
fn show_meters(board: &Arc<Registry>, log: Log) -> Option<meters::MeterServer> {
    let opened = meters::MeterServer::open(board);
    let opened = opened.map_err(|error| log.say(&Event::NoMeters { why: error.to_string() }));
    opened.ok()
}

/// Creates the user-space host named by `via` for all servers; `None` for the kernel's network.
fn own_host(
    via: &Via,
    shop: Option<&LoginServer>,
    files: Option<&tftp::Server>,
    ftp: Option<&ftp::Server>,
) -> Result<Option<Host>> {
    let logins = shop.map_or(0, |shop| shop.configuration.rules.sessions_max);
    let connections = logins + ftp.map_or(0, ftp::Server::connections_max);
    let host = carry::host(via, connections, carry::LOGINS)?;
    if let Some(host) = &host {
        ftp.into_iter().for_each(|ftp| ftp.carry_by(host));
        files.into_iter().for_each(|files| files.carry_by(host));
    }
    Ok(host)
}

/// Running servers, shared by their tasks.
struct Served {
    /// User-space host that carries the connections; `None` for the kernel's network.
    host: Option<Host>,
    shop: Option<Rc<LoginServer>>,
    files: Option<Rc<tftp::Server>>,
    ftp: Option<Rc<ftp::Server>>,
}

/// Opens the metrics endpoint.
async fn tell_metrics(
    place: metrics::Place,
    transfer_log: &Rc<TransferLog>,
    served: &Served,
    log: Log,
) -> Result<()> {
    let transfer_log = Rc::clone(transfer_log);
    let (shop, files, ftp) = (served.shop.clone(), served.files.clone(), served.ftp.clone());
    let text = move || {
        let traffic = [
            shop.as_ref().map(|shop| shop.admission().traffic(Protocol::Telnet)),
            files.as_ref().map(|files| files.traffic()),
            ftp.as_ref().map(|ftp| ftp.traffic()),
        ];
        let traffic: Vec<_> = traffic.into_iter().flatten().collect();
        transfer_log.metrics().text(&traffic)
    };
    let (at, attended) = metrics::serve(place, text).await?;
    log.say(&Event::Metrics { at });
    tokio::task::spawn_local(attended);
    Ok(())
}

/// Runs the servers until the process is told to end, or one of them fails.
async fn attend(
    served: Served,
    arguments: Arguments,
    board: Arc<Registry>,
    log: Log,
) -> Result<()> {
    let Served { host, shop, files, ftp } = &served;
    let _shown = host.as_ref().map(|host| board.show_sheet("our own host", host.meter_sheet()));
    let mut services = JoinSet::new();
    if let Some(files) = files {
        services.spawn_local(Rc::clone(files).serve());
    }
    if let Some(ftp) = ftp {
        services.spawn_local(Rc::clone(ftp).serve());
    }
    if let Some(shop) = shop {
        services.spawn_local(listen(Rc::clone(shop), host.clone()));
    }
    let ended = tokio::select! {
        interrupted = interrupted(|| reload(&arguments, &served, log)) => interrupted,
        Some(ended) = services.join_next() => ended?,
    };
    if let Some(shop) = shop {
        let sessions = shop.admission().sessions();
        shop.log.say(&Event::Closing { sessions });
    }
    if let Some(files) = files {
        files.close().await;
    }
    if let Some(ftp) = ftp {
        ftp.close().await;
    }
    if let Some(host) = host {
        // Data that is still queued would be lost with the host.
        _ = tokio::time::timeout(DRAINING, host.drained()).await;
    }
    ended
}

async fn listen(shop: Rc<LoginServer>, host: Option<Host>) -> Result<()> {
    let configuration = &shop.configuration;
    let mut doors = JoinSet::new();
    let mut building = Listeners { shop: &shop, host: host.as_ref(), acceptor: None };
    let logins = ListenAddresses {
        listen: &configuration.listen,
        listen_tls: &configuration.listen_tls,
        start_tls: configuration.start_tls,
    };
    building.open(&logins, None, &mut doors)?;
    for settings in &configuration.consoles {
        let console = Rc::new(Console::new(settings.clone()));
        tokio::task::spawn_local(console::tend(Rc::clone(&console), Rc::clone(&shop)));
        let places = ListenAddresses {
            listen: &settings.listen,
            listen_tls: &settings.listen_tls,
            start_tls: settings.start_tls,
        };
        building.open(&places, Some(&console), &mut doors)?;
    }
    let failed = doors.join_next().await.transpose()?;
    failed.map_or(Ok(()), |error| Err(error).context("cannot accept connections"))
}

/// Listen addresses of one service.
struct ListenAddresses<'a> {
    listen: &'a [SocketAddr],
    listen_tls: &'a [SocketAddr],
    start_tls: Option<StartTls>,
}

/// Opens listeners that share one certificate.
struct Listeners<'a> {
    shop: &'a Rc<LoginServer>,
    host: Option<&'a Host>,
    acceptor: Option<TlsAcceptor>,
}

impl Listeners<'_> {
    /// Opens the listeners of one service.
    fn open(
        &mut self,
        places: &ListenAddresses<'_>,
        console: Option<&Rc<Console>>,
        doors: &mut JoinSet<io::Error>,
    ) -> Result<()> {
        for place in places.listen {
            let is_near = place.ip().is_loopback() && self.host.is_none();
            let how = match is_near {
                true => "unencrypted, loopback only",
                false => "UNENCRYPTED (readable by anyone on the network path)",
            };
            let start_tls = self.start_tls(places.start_tls, is_near)?;
            let how = if start_tls == StartTls::Required { "START_TLS required" } else { how };
            self.attend(*place, how, Some(start_tls), console, doors)?;
        }
        for place in places.listen_tls {
            self.acceptor()?;
            self.attend(*place, "with TLS", None, console, doors)?;
        }
        Ok(())
    }

    /// Returns the START_TLS policy. Where it is only the default, a missing certificate is logged
    /// and START_TLS is off.
    fn start_tls(&mut self, said: Option<StartTls>, is_near: bool) -> Result<StartTls> {
        let is_wanted = said.is_none() && !is_near;
        match said {
            Some(StartTls::Off) => {}
            Some(_) => _ = self.acceptor()?,
            None if is_wanted => {
                if let Err(error) = self.acceptor() {
                    self.shop.log.say(&Event::NoStartTls { why: format!("{error:#}") });
                    return Ok(StartTls::Off);
                }
            }
            None => {}
        }
        Ok(said.unwrap_or(if is_wanted { StartTls::Offered } else { StartTls::Off }))
    }

    /// Returns the TLS acceptor. The first call generates the certificate if necessary and logs its
    /// fingerprint.
    fn acceptor(&mut self) -> Result<TlsAcceptor> {
        if let Some(acceptor) = &self.acceptor {
            return Ok(acceptor.clone());
        }
        let configuration = &self.shop.configuration;
        if configuration.makes_certificate {
            configuration.certificate.make_if_missing()?;
        }
        let (acceptor, sha256) = configuration.certificate.acceptor()?;
        self.shop.log.say(&Event::Certificate { sha256: &sha256 });
        Ok(self.acceptor.insert(acceptor).clone())
    }

    fn attend(
        &self,
        place: SocketAddr,
        how: &'static str,
        start_tls: Option<StartTls>,
        console: Option<&Rc<Console>>,
        doors: &mut JoinSet<io::Error>,
    ) -> Result<()> {
        let door = open(self.host, place)?;
        self.shop.log.say(&Event::Listening { at: door.name()?, how });
        let entrance =
            Entrance { acceptor: self.acceptor.clone(), start_tls, console: console.cloned() };
        doors.spawn_local(door.attend(entrance, Rc::clone(self.shop)));
        Ok(())
    }
}

fn open(host: Option<&Host>, place: SocketAddr) -> Result<Door> {
    let Some(host) = host else { return Door::open(place) };
    let port = place.port();
    let listener = host.listen(port);
    let failure = || format!("cannot listen on port {port} of plumb's own TCP/IP stack");
    let listener = listener.with_context(failure)?;
    Ok(Door::Own(listener))
}

/// Waits for SIGINT or SIGTERM. Calls `hung_up` for each SIGHUP, which never ends the server.
async fn interrupted(hung_up: impl Fn()) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => return Ok(interrupted?),
            _ = terminate.recv() => return Ok(()),
            _ = hang_up.recv() => hung_up(),
        }
    }
}
