//! The running servers and their listeners. The start and each reload open the listeners of a [`Plan`],
//! which may fail and then changes nothing, and apply the plan.
//!
//! A server whose table was added starts, and one whose table was removed accepts nothing any more; its
//! open sessions continue.

use super::console::{ConsoleSet, SerialConsole};
use super::flags::Flags;
use super::ftp::{FtpPlan, FtpPolicy, FtpServer};
use super::listener::ServerListener;
use super::log::{Log, ServeEvent};
use super::login_connection::{LoginPolicy, LoginService};
use super::login_listeners::LoginListeners;
use super::login_server::{LoginPlan, LoginServer, LoginState};
use super::metrics;
use super::plan::Plan;
use super::session_shutdown::SessionShutdown;
use super::socket_set::{ConfiguredSocket, SocketChanges, SocketDescription, SocketSet};
use super::tftp::{RequestSocket, TftpPlan, TftpServer};
use super::traffic::{ProtocolTraffic, ServerProtocol};
use super::transfer_log::TransferLog;
use anyhow::{Context, Result};
use carrier::meters::{MeterRegistry, MeterServer};
use os::host::Host;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;

/// File descriptors per session of a login: connection, program, terminal, and a duplicate of the
/// terminal.
const DESCRIPTORS_PER_SESSION: u64 = 4;

/// The running servers of this process.
pub(super) struct RunningServers {
    /// User-space host that carries the connections; `None` for the kernel's network stack.
    host: Option<Host>,
    log: Log,
    registry: Arc<MeterRegistry>,
    transfer_log: Rc<TransferLog>,
    /// Receives the error of a listener that can accept nothing any more.
    failures: UnboundedSender<anyhow::Error>,
    login: Running<LoginServer, LoginPolicy>,
    /// Ends the login and console sessions when the process stops.
    login_shutdown: SessionShutdown,
    ftp: Running<FtpServer, FtpPolicy>,
    tftp: RefCell<Option<Rc<TftpServer>>>,
    tftp_sockets: SocketSet<RequestSocket, ()>,
    metrics_sockets: SocketSet<ServerListener, Vec<String>>,
    consoles: ConsoleSet,
    meter_server: RefCell<Option<MeterServer>>,
    /// Fingerprints that are in the log. The servers often have the same certificate.
    logged_certificates: RefCell<BTreeSet<String>>,
}

/// A server that accepts TCP connections, while it runs, and its listeners.
struct Running<S, P> {
    server: RefCell<Option<Rc<S>>>,
    listeners: SocketSet<ServerListener, P>,
}

impl<S, P> Default for Running<S, P> {
    fn default() -> Self {
        Self { server: RefCell::default(), listeners: SocketSet::default() }
    }
}

impl<S, P> Running<S, P> {
    fn get(&self) -> Option<Rc<S>> {
        self.server.borrow().clone()
    }
}

/// A plan with its new listeners, which nothing serves yet.
pub(super) struct OpenedPlan {
    plan: Plan,
    login: OpenedLogins,
    ftp: SocketChanges<ServerListener, FtpPolicy>,
    tftp: SocketChanges<RequestSocket, ()>,
    metrics: SocketChanges<ServerListener, Vec<String>>,
}

/// The logins and consoles of a plan.
struct OpenedLogins {
    consoles: Vec<Rc<SerialConsole>>,
    listeners: SocketChanges<ServerListener, LoginPolicy>,
    /// Events of the listeners.
    notes: LoginListeners,
}

impl RunningServers {
    /// Creates the state of a process in which no server runs yet.
    pub(super) fn new(
        flags: &Flags,
        registry: Arc<MeterRegistry>,
        host: Option<Host>,
        failures: UnboundedSender<anyhow::Error>,
    ) -> Rc<Self> {
        let log = flags.log();
        Rc::new(Self {
            host,
            log,
            registry,
            transfer_log: Rc::new(TransferLog::new(None, log)),
            failures,
            login: Running::default(),
            login_shutdown: SessionShutdown::default(),
            ftp: Running::default(),
            tftp: RefCell::default(),
            tftp_sockets: SocketSet::default(),
            metrics_sockets: SocketSet::default(),
            consoles: ConsoleSet::default(),
            meter_server: RefCell::default(),
            logged_certificates: RefCell::default(),
        })
    }

    /// Opens the listeners of `plan` that are not open yet. Changes nothing in the running servers.
    ///
    /// # Errors
    ///
    /// Returns an error if a listener cannot be opened.
    pub(super) fn open(&self, plan: Plan) -> Result<OpenedPlan> {
        let host = self.host.as_ref();
        let is_userspace = host.is_some();
        let ftp = plan.ftp.as_ref().map(|ftp| ftp.sockets(is_userspace)).unwrap_or_default();
        let tftp = plan.tftp.as_ref().map(|tftp| tftp.sockets(is_userspace)).unwrap_or_default();
        let metrics = plan.metrics.iter().map(|metrics| ConfiguredSocket {
            address: metrics.at,
            policy: metrics.hosts.clone(),
            description: SocketDescription::default(),
        });
        let metrics: Vec<_> = metrics.collect();
        let logins = plan.login.as_ref().map(LoginPlan::configuration);
        let consoles = logins.map(|it| self.consoles.prepare(&it.consoles)).unwrap_or_default();
        let notes = logins.map(|it| LoginListeners::of(it, &consoles, is_userspace)).transpose()?;
        let mut notes = notes.unwrap_or_default();
        let logins = std::mem::take(&mut notes.sockets);
        // An address can move from one server to another.
        let mut closing = self.login.listeners.unconfigured(&logins);
        closing.extend(self.ftp.listeners.unconfigured(&ftp));
        closing.extend(self.metrics_sockets.unconfigured(&metrics));
        let closing = RefCell::new(closing);
        let listen = |address| ServerListener::open(host, address, &closing);
        let of_metrics =
            |address| ServerListener::open(None, address, &closing).context("cannot serve metrics");
        let closing_tftp = self.tftp_sockets.unconfigured(&tftp);
        let receive = |address| RequestSocket::open(host, address, &closing_tftp);
        Ok(OpenedPlan {
            login: OpenedLogins {
                consoles,
                listeners: self.login.listeners.prepare(logins, listen)?,
                notes,
            },
            ftp: self.ftp.listeners.prepare(ftp, listen)?,
            tftp: self.tftp_sockets.prepare(tftp, receive)?,
            metrics: self.metrics_sockets.prepare(metrics, of_metrics)?,
            plan,
        })
    }

    /// Applies a plan.
    ///
    /// # Errors
    ///
    /// Returns an error if the memory for the meters of a new server cannot be allocated.
    pub(super) fn apply(self: &Rc<Self>, opened: OpenedPlan) -> Result<()> {
        let OpenedPlan { plan, login, ftp, tftp, metrics } = opened;
        plan.log_file.use_for_log();
        self.apply_meter_socket(plan.has_meters_socket);
        self.log_closed(&login, &ftp, &tftp, &metrics);
        self.transfer_log.set_directory(plan.journal.as_deref());
        self.log_certificate(plan.ftp.as_ref().and_then(FtpPlan::certificate));
        self.log_certificate(login.notes.certificate.as_deref());
        self.apply_tftp(plan.tftp, tftp)?;
        self.apply_ftp(plan.ftp, ftp)?;
        self.apply_logins(plan.login, login)?;
        self.apply_metrics(metrics);
        Ok(())
    }

    fn apply_ftp(
        &self,
        plan: Option<FtpPlan>,
        listeners: SocketChanges<ServerListener, FtpPolicy>,
    ) -> Result<()> {
        let server = match (plan, self.ftp.get()) {
            (None, _) => None,
            (Some(plan), Some(server)) => {
                server.apply(plan);
                Some(server)
            }
            (Some(plan), None) => {
                let transfer_log = Rc::clone(&self.transfer_log);
                let server = FtpServer::new(plan, self.log, transfer_log, &self.registry)?;
                self.host.iter().for_each(|host| server.use_host(host));
                let server = Rc::new(server);
                server.start_maintenance();
                Some(server)
            }
        };
        let accept = |listener, policy| {
            let server = server.clone();
            let failures = self.failures.clone();
            async move {
                let Some(server) = server else { return };
                // Nothing receives the error while the servers shut down.
                _ = failures.send(server.accept(listener, policy).await);
            }
        };
        let report = |listener: &ServerListener, description: &SocketDescription| {
            server.iter().for_each(|server| server.report_listener(listener, description));
        };
        self.ftp.listeners.apply(listeners, accept, report);
        self.ftp.server.replace(server);
        Ok(())
    }

    fn apply_tftp(
        &self,
        plan: Option<TftpPlan>,
        sockets: SocketChanges<RequestSocket, ()>,
    ) -> Result<()> {
        let running = self.tftp.borrow().clone();
        let server = match (plan, running) {
            (None, _) => None,
            (Some(plan), Some(server)) => {
                server.apply(plan);
                Some(server)
            }
            (Some(plan), None) => {
                let transfer_log = Rc::clone(&self.transfer_log);
                let server = TftpServer::new(plan, self.log, transfer_log, &self.registry)?;
                self.host.iter().for_each(|host| server.use_host(host));
                Some(Rc::new(server))
            }
        };
        let receive = |socket, _| {
            let server = server.clone();
            let failures = self.failures.clone();
            async move {
                let Some(server) = server else { return };
                _ = failures.send(server.receive(socket).await);
            }
        };
        let report = |socket: &RequestSocket, description: &SocketDescription| {
            server.iter().for_each(|server| server.report_socket(socket, description));
        };
        self.tftp_sockets.apply(sockets, receive, report);
        self.tftp.replace(server);
        Ok(())
    }

    fn apply_logins(&self, plan: Option<LoginPlan>, opened: OpenedLogins) -> Result<()> {
        let OpenedLogins { consoles, listeners, notes } = opened;
        let server = match (plan, self.login.get()) {
            (None, _) => None,
            (Some(plan), Some(server)) => {
                server.apply(plan);
                Some(server)
            }
            (Some(plan), None) => {
                let state = LoginState::new(plan, self.log);
                let shutdown = self.login_shutdown.clone();
                Some(Rc::new(LoginServer::open(state, &self.registry, shutdown)?))
            }
        };
        match &server {
            Some(server) => {
                let configuration = server.configuration();
                allow_descriptors(configuration.rules.sessions_max);
                self.consoles.apply(consoles, &configuration.consoles, server);
            }
            None => self.consoles.clear(),
        }
        self.log_login_notes(&notes, server.as_deref());
        let accept = |listener: Rc<ServerListener>, policy| {
            let server = server.clone();
            let failures = self.failures.clone();
            async move {
                let Some(server) = server else { return };
                let error = listener.run(Rc::new(LoginService { server, policy })).await;
                let error = anyhow::Error::new(error).context("cannot accept connections");
                _ = failures.send(error);
            }
        };
        let report = |listener: &ServerListener, description: &SocketDescription| {
            let at = listener.name().unwrap_or_default();
            self.log.write(&ServeEvent::Listening { at, how: description.how });
        };
        self.login.listeners.apply(listeners, accept, report);
        self.login.server.replace(server);
        Ok(())
    }

    fn log_login_notes(&self, notes: &LoginListeners, server: Option<&LoginServer>) {
        if let Some(why) = &notes.no_start_tls {
            self.log.write(&ServeEvent::NoStartTls { why: why.clone() });
        }
        let configuration = server.map(|server| server.configuration());
        let program = configuration.as_ref().and_then(|it| it.exec.as_ref()?.first());
        if let Some(program) = program {
            for at in &notes.without_login {
                self.log.write(&ServeEvent::NoLogin { at: at.to_string(), program });
            }
        }
    }

    fn apply_metrics(self: &Rc<Self>, changes: SocketChanges<ServerListener, Vec<String>>) {
        let serve = |listener, hosts| {
            let servers = Rc::downgrade(self);
            let text = move || servers.upgrade().map(|it| it.metrics_text()).unwrap_or_default();
            metrics::serve(listener, hosts, text, self.log)
        };
        let report = |listener: &ServerListener, _: &SocketDescription| {
            let at = listener.name().unwrap_or_default();
            self.log.write(&ServeEvent::Metrics { at });
        };
        self.metrics_sockets.apply(changes, serve, report);
    }

    fn metrics_text(&self) -> String {
        self.transfer_log.metrics().text(&self.traffic())
    }

    /// Returns the number of open sessions of each server, and the counts since its start.
    fn traffic(&self) -> Vec<ProtocolTraffic> {
        let logins = self.login.get();
        let traffic = [
            logins.map(|logins| logins.admission().traffic(ServerProtocol::Telnet)),
            self.tftp.borrow().as_ref().map(|tftp| tftp.traffic()),
            self.ftp.get().map(|ftp| ftp.traffic()),
        ];
        traffic.into_iter().flatten().collect()
    }

    /// Opens or closes the socket of the meters. If it cannot be opened, logs the reason.
    fn apply_meter_socket(&self, is_wanted: bool) {
        let is_open = self.meter_server.borrow().is_some();
        if !is_wanted {
            self.meter_server.take();
        } else if !is_open {
            let opened = MeterServer::open_for_service(&self.registry);
            let report = |why: String| self.log.write(&ServeEvent::NoMeters { why });
            let opened = opened.map_err(|error| report(error.to_string())).ok();
            self.meter_server.replace(opened);
        }
    }

    fn log_certificate(&self, sha256: Option<&str>) {
        let Some(sha256) = sha256 else { return };
        if self.logged_certificates.borrow_mut().insert(sha256.to_owned()) {
            self.log.write(&ServeEvent::Certificate { sha256 });
        }
    }

    /// Logs the listeners that the plan closes.
    fn log_closed(
        &self,
        login: &OpenedLogins,
        ftp: &SocketChanges<ServerListener, FtpPolicy>,
        tftp: &SocketChanges<RequestSocket, ()>,
        metrics: &SocketChanges<ServerListener, Vec<String>>,
    ) {
        let mut closed = self.login.listeners.to_close(&login.listeners);
        closed.extend(self.ftp.listeners.to_close(ftp));
        closed.extend(self.metrics_sockets.to_close(metrics));
        let tftp = self.tftp_sockets.to_close(tftp);
        let names = closed.iter().map(|listener| listener.name().ok());
        for at in names.chain(tftp.iter().map(|socket| socket.name().ok())).flatten() {
            self.log.write(&ServeEvent::Closed { at });
        }
    }

    /// Opens the log files of all consoles again when their lines have further output.
    pub(super) fn reopen_console_logs(&self) {
        self.consoles.reopen_logs();
    }

    /// Ends the sessions of all servers, and writes the remaining records.
    pub(super) async fn close(&self) {
        let sessions = self.traffic().iter().map(|traffic| traffic.open).sum();
        self.log.write(&ServeEvent::Closing { sessions });
        self.login_shutdown.close().await;
        let tftp = self.tftp.borrow().clone();
        if let Some(tftp) = tftp {
            tftp.close().await;
        }
        if let Some(ftp) = self.ftp.get() {
            ftp.close().await;
        }
        self.transfer_log.close();
    }
}

/// Raises the limit of descriptors to that of `sessions_max` logins. If it cannot be raised, fewer
/// sessions are possible at once.
fn allow_descriptors(sessions_max: usize) {
    let sessions = u64::try_from(sessions_max).unwrap_or(u64::MAX);
    let descriptors = sessions.saturating_mul(DESCRIPTORS_PER_SESSION).saturating_add(64);
    _ = os::process::allow_descriptors(descriptors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration_loader::ConfigurationLoader;
    use std::net::{TcpListener, TcpStream};
    use std::path::PathBuf;
    use tokio::sync::mpsc;
    use tokio::task::LocalSet;

    /// A configuration file, and servers that run with it.
    struct TestServers {
        path: PathBuf,
        flags: Flags,
        servers: Rc<RunningServers>,
    }

    impl TestServers {
        fn new(name: &str) -> Self {
            let name = format!("plumb-running-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let config = Some(path.clone());
            let flags = Flags { config, quiet: true, no_meters_socket: true, ..Flags::default() };
            // A failure of a listener has no effect in these tests.
            let failures = mpsc::unbounded_channel().0;
            let registry = MeterRegistry::new("test");
            let servers = RunningServers::new(&flags, registry, None, failures);
            Self { path, flags, servers }
        }

        /// Applies the configuration `text`, as a reload does.
        fn reload(&self, text: &str) -> Result<(), String> {
            std::fs::write(&self.path, format!("record = false\n{text}")).unwrap();
            let opened = Plan::reload(&self.flags).and_then(|plan| self.servers.open(plan));
            opened.and_then(|opened| self.servers.apply(opened)).map_err(|e| format!("{e:#}"))
        }

        fn run(self, test: impl FnOnce(&Self)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            LocalSet::new().block_on(&runtime.unwrap(), async { test(&self) });
            std::fs::remove_file(&self.path).unwrap();
        }

        fn ftp_addresses(&self) -> Vec<String> {
            let sockets = self.servers.ftp.listeners.sockets();
            sockets.iter().map(|listener| listener.name().unwrap()).collect()
        }
    }

    /// Returns a port that no program uses at any address. It is not an ephemeral port, which another
    /// test could take.
    fn free_port() -> u16 {
        (21_000..30_000).find(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok()).unwrap()
    }

    #[test]
    fn a_reload_opens_new_listeners_beside_open_ones_and_closes_the_others() {
        TestServers::new("listeners").run(|fixture| {
            let port = free_port();
            let ftp = |address: &str| format!("[ftp]\nroot = \"/\"\nlisten = [\"{address}\"]\n");
            let loopback = format!("127.0.0.1:{port}");
            let wildcard = format!("0.0.0.0:{port}");
            for address in [&loopback, &loopback, &wildcard, &loopback] {
                assert_eq!(fixture.reload(&ftp(address)), Ok(()));
                assert_eq!(fixture.ftp_addresses(), std::slice::from_ref(address));
                TcpStream::connect(&loopback).unwrap();
            }
            // Outside of a reload, no other program can share the port.
            let error = TcpListener::bind(&wildcard).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
        });
    }

    #[test]
    fn an_address_moves_from_one_server_to_another_with_its_socket() {
        TestServers::new("moved").run(|fixture| {
            let address = format!("127.0.0.1:{}", free_port());
            let metrics = format!("metrics = \"{address}\"\n");
            let tftp = "[tftp]\nroot = \"/tmp\"\nlisten = [\"127.0.0.1:0\"]\n";
            let ftp = format!("[ftp]\nroot = \"/\"\nlisten = [\"{address}\"]\n");
            let login = format!("[login]\nexec = [\"true\"]\nlisten = [\"{address}\"]\n");
            let sockets = || {
                let servers = &fixture.servers;
                let sets = [
                    servers.login.listeners.sockets(),
                    servers.ftp.listeners.sockets(),
                    servers.metrics_sockets.sockets(),
                ];
                // The number of its inode identifies a socket.
                sets.map(|set| set.first().map(|listener| listener.inode()))
            };
            assert_eq!(fixture.reload(&ftp), Ok(()));
            let [None, Some(inode), None] = sockets() else { panic!("{:?}", sockets()) };
            assert_eq!(fixture.reload(&format!("{metrics}{tftp}")), Ok(()));
            assert_eq!(sockets(), [None, None, Some(inode)]);
            assert_eq!(fixture.reload(&login), Ok(()));
            assert_eq!(sockets(), [Some(inode), None, None]);
            // Only one server can take the address.
            let error = fixture.reload(&format!("{metrics}{ftp}")).unwrap_err();
            assert!(error.contains("Address already in use"), "{error}");
            assert_eq!(sockets(), [Some(inode), None, None]);
        });
    }

    #[test]
    fn a_reload_that_cannot_open_a_listener_changes_no_server() {
        TestServers::new("transaction").run(|fixture| {
            let used = TcpListener::bind("127.0.0.1:0").unwrap();
            let used = used.local_addr().unwrap();
            let ftp = "[ftp]\nroot = \"/\"\nlisten = [\"127.0.0.1:0\"]\n";
            assert_eq!(fixture.reload(&format!("{ftp}greeting = \"old\"\n")), Ok(()));
            let before = fixture.ftp_addresses();
            let greeting = || fixture.servers.ftp.get().unwrap().greeting();
            for (text, why) in [
                (
                    format!("metrics = \"{used}\"\n{ftp}greeting = \"new\"\n"),
                    format!(
                        "cannot serve metrics: cannot listen on {used}: the port is used by another \
                         program: Address already in use (os error 98)"
                    ),
                ),
                (
                    format!("{ftp}greeting = \"new\"\n[tftp]\nroot = \"/nonexistent\"\n"),
                    "cannot open root directory /nonexistent: No such file or directory (os error 2)"
                        .to_owned(),
                ),
                (
                    String::new(),
                    "the configuration has no table of a server: [login], [ftp], [tftp], [[console]]"
                        .to_owned(),
                ),
            ] {
                if text.is_empty() && os::user::is_root() {
                    // Other users get another error, because the system's login needs root.
                    assert_eq!(fixture.reload(&text), Err(why));
                } else if !text.is_empty() {
                    assert_eq!(fixture.reload(&text), Err(why));
                }
                assert_eq!((fixture.ftp_addresses(), greeting()), (before.clone(), "old".to_owned()));
            }
            assert_eq!(fixture.reload(&format!("{ftp}greeting = \"new\"\n")), Ok(()));
            assert_eq!((fixture.ftp_addresses(), greeting()), (before, "new".to_owned()));
        });
    }

    #[test]
    fn a_reload_starts_and_ends_servers_and_metrics() {
        TestServers::new("tables").run(|fixture| {
            let ftp = "[ftp]\nroot = \"/\"\nlisten = [\"127.0.0.1:0\"]\n";
            let tftp = "[tftp]\nroot = \"/tmp\"\nlisten = [\"127.0.0.1:0\"]\ntransfers-max = 7\n";
            let login = "[login]\nexec = [\"true\"]\nlisten = [\"127.0.0.1:0\"]\n";
            let running = || {
                let servers = &fixture.servers;
                [
                    servers.login.listeners.sockets().len(),
                    servers.ftp.listeners.sockets().len(),
                    servers.tftp_sockets.sockets().len(),
                    servers.metrics_sockets.sockets().len(),
                ]
            };
            assert_eq!(fixture.reload(ftp), Ok(()));
            assert_eq!(running(), [0, 1, 0, 0]);
            let all = format!("metrics = \"127.0.0.1:0\"\n{login}{tftp}{ftp}");
            assert_eq!(fixture.reload(&all), Ok(()));
            assert_eq!(running(), [1, 1, 1, 1]);
            assert_eq!(fixture.reload(tftp), Ok(()));
            assert_eq!(running(), [0, 0, 1, 0]);
            assert!(fixture.servers.login.get().is_none() && fixture.servers.ftp.get().is_none());
        });
    }

    #[test]
    fn a_reload_keeps_the_console_of_a_device_and_ends_those_without_a_table() {
        TestServers::new("consoles").run(|fixture| {
            let console = |device: &str, rest: &str| {
                format!("[[console]]\ndevice = \"{device}\"\nlisten = [\"127.0.0.1:0\"]\n{rest}")
            };
            let settings = || {
                let loader = ConfigurationLoader::open(&fixture.flags).unwrap();
                loader.login().unwrap().consoles
            };
            let both = console("/dev/ttyNONE0", "") + &console("/dev/ttyNONE1", "");
            assert_eq!(fixture.reload(&both), Ok(()));
            let before = fixture.servers.consoles.prepare(&settings());
            let changed = console("/dev/ttyNONE1", "baud = 1200\n");
            assert_eq!(fixture.reload(&changed), Ok(()));
            let after = fixture.servers.consoles.prepare(&settings());
            assert!(after.len() == 1 && Rc::ptr_eq(&after[0], &before[1]));
            assert_eq!(after[0].bits_per_second(), 1200);
            let is_removed: Vec<_> = before.iter().map(|it| it.is_removed()).collect();
            assert_eq!(is_removed, [true, false]);
        });
    }
}
