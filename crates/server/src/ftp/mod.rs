//! FTP server: serves files below one root for each user. Users are configured users, system users
//! or anonymous users.
//!
//! ```text
//! listener ── admission ──► session: engine ◄─► control connection (clear, AUTH TLS, implicit TLS)
//!                              │        └─────► user_files: names beneath one root (os::beneath)
//!                              └─ task: data connection ◄─► file (sendfile, encoder, decoder)
//! ```
//!
//! All sessions run in one thread. Operations that wait long for a disk (the commit of an upload,
//! hashes, copies) and password checks run in other threads. An upload has a temporary name until
//! it is complete and on the disk, so an interrupted upload leaves the old file unchanged. This
//! also holds with REST or APPE, for which the server first copies the part of the old file that
//! the upload keeps. If the name no longer refers to the copied file when the upload is complete,
//! the upload is refused (450), so that no concurrent change is lost.
//!
//! A data connection is accepted from the peer of the control connection only, one at a time, on a
//! random port. Its TLS must resume the TLS session of the control connection ([`tickets`]), unless
//! `requires-session-reuse` is false. In stream mode without TLS, the end of an upload looks the
//! same whether the client has finished or was killed. Such an upload has its final name when the
//! reply is sent. The upload is withdrawn and kept as a partial upload ([`partial`]) if the control
//! connection ends before the client has acknowledged the reply (`upload-grace-ms`).
//!
//! System users ([`system`]) access files with their own rights. All other users access files with
//! the rights of the server process; anonymous users of a server that runs as root get only files
//! that every user of the machine may read. Mail ([`mail`]) is accepted for users with a directory
//! in the spool.
//!
//! Not implemented: local ports below 1024 for active data connections.

mod client_hello;
mod configuration;
mod control_connection;
mod conversion;
mod data;
mod data_tls;
mod digest;
mod ftp_log;
mod futures;
mod listing;
mod local_channel;
mod logged_in_user;
mod long_work;
mod mail;
mod partial;
mod passive;
mod rights;
mod session;
mod socket;
mod source;
mod space;
mod system;
mod tickets;
mod transfer_stats;
mod upload;
mod user_files;
mod users;
mod virtual_host;

pub use configuration::Protection;
pub(super) use configuration::{FtpSettings, FtpTable, Shared};
pub use system::authenticate_claim as prove_system_user;

use super::admission::Admission;
use super::fair_queue::{FairQueue, Limits};
use super::log::Log;
use super::metered::Metered;
use super::metrics::{ProtocolTraffic, ServerProtocol};
use super::transfer_log::TransferLog;
use anyhow::{Context, Result};
use carrier::meters::MeterRegistry;
use carrier::{BorrowedContext, EngineContext};
use ftp_log::FtpEvent;
use os::beneath::RootDir;
use os::host::Host;
use session::FtpSession;
use socket::{ControlListener, Socket};
use space::Space;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::Ticketer;
use virtual_host::Certificates;

/// Size of the read buffer. All sessions share one buffer, because only one session reads at a
/// time.
const SCRATCH_LEN: usize = 256 * 1024;
/// File descriptors per session: two connections, a listener, a file, its directory and the root.
const DESCRIPTORS_PER_SESSION: u64 = 6;
/// Length of the kernel's queue of connections that are not accepted yet (the backlog of
/// `listen(2)`).
const BACKLOG: u32 = 1024;
/// Delay after a failed accept, for example for lack of descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Limits of PAM checks. Each check runs in a process of its own, which may wait for a directory
/// server.
const SYSTEM_CHECKS: Limits = Limits { running_max: 8, waiting_max: 64, waiting_per_source_max: 2 };

/// FTP server.
pub(super) struct Server {
    settings: RefCell<Rc<FtpSettings>>,
    is_root: bool,
    admission: RefCell<Admission>,
    context: RefCell<EngineContext>,
    scratch: RefCell<Vec<u8>>,
    /// Queue of password checks, which run one at a time.
    checks: FairQueue,
    /// Queue of PAM checks, separate from `checks`: a PAM module that hangs delays system users
    /// only.
    system_checks: FairQueue,
    /// Queue of hashes and other long operations on files.
    long_work: FairQueue,
    /// Queue of listings of large directories.
    listings: FairQueue,
    /// Queue of file copies for uploads that continue a file, and of mail messages being started.
    copies: FairQueue,
    /// Root of anonymous users, while any of them is logged in.
    anonymous_root: RefCell<Weak<RootDir>>,
    /// Quota usage of each root with a quota.
    spaces: RefCell<HashMap<(PathBuf, u64), Arc<Space>>>,
    tls: RefCell<Option<DefaultTls>>,
    /// User-space host that carries the connections; `None` for the kernel's network stack.
    host: OnceCell<Host>,
    /// Families of sessions: each session accepts the TLS tickets of the other sessions of its user
    /// and address.
    families: RefCell<tickets::Families>,
    /// Whether the server is shutting down.
    closing: watch::Sender<bool>,
    /// Number of passive ports held by each source.
    port_shares: RefCell<HashMap<IpAddr, usize>>,
    log: Log,
    transfer_log: Rc<TransferLog>,
}

impl Metered for Server {
    fn engine_context(&self) -> &RefCell<EngineContext> {
        &self.context
    }
}

/// TLS options of a listener.
#[derive(Clone)]
struct TlsOptions {
    tls: Option<DefaultTls>,
    is_implicit_tls: bool,
}

/// TLS configuration for clients that have not selected a virtual host yet.
#[derive(Clone)]
struct DefaultTls {
    configuration: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
}

impl Server {
    /// Checks the roots and prepares TLS.
    ///
    /// # Errors
    ///
    /// Returns an error if a root cannot be opened, or if TLS is required and not available.
    pub(super) fn new(
        settings: FtpSettings,
        log: Log,
        transfer_log: Rc<TransferLog>,
        registry: &Arc<MeterRegistry>,
    ) -> Result<Self> {
        settings.check_roots()?;
        let sessions = u64::try_from(settings.rules.sessions_max).unwrap_or(u64::MAX);
        let descriptors = sessions.saturating_mul(DESCRIPTORS_PER_SESSION).saturating_add(128);
        if os::process::allow_descriptors(descriptors).is_err() {
            let allowed = os::process::descriptors_max().unwrap_or(u64::MAX);
            let sessions = (allowed / DESCRIPTORS_PER_SESSION).min(sessions);
            log.write(&FtpEvent::FewDescriptors { allowed, sessions });
        }
        let tls = tls(&settings, log)?;
        // Every session may wait in a queue; a waiting operation takes a few hundred bytes.
        let queue = |running_max| {
            FairQueue::new(Limits {
                running_max,
                waiting_max: settings.rules.sessions_max,
                waiting_per_source_max: settings.rules.sessions_per_source_max,
            })
        };
        let long_work = queue(1);
        let listings = queue(1);
        let copies = queue(2);
        Ok(Self {
            admission: RefCell::new(Admission::new(settings.rules.clone())),
            settings: RefCell::new(Rc::new(settings)),
            is_root: os::user::is_root(),
            context: RefCell::new(EngineContext::published(registry, "FTP")?),
            scratch: RefCell::new(vec![0; SCRATCH_LEN]),
            checks: FairQueue::new(super::login_server::PASSWORD_CHECKS),
            system_checks: FairQueue::new(SYSTEM_CHECKS),
            long_work,
            listings,
            copies,
            anonymous_root: RefCell::default(),
            spaces: RefCell::default(),
            tls: RefCell::new(tls),
            host: OnceCell::new(),
            families: RefCell::default(),
            closing: watch::Sender::new(false),
            port_shares: RefCell::default(),
            log,
            transfer_log,
        })
    }

    fn settings(&self) -> Rc<FtpSettings> {
        Rc::clone(&self.settings.borrow())
    }

    /// Serves on `host` instead of the kernel's network stack. Must be called before
    /// [`Self::serve`].
    pub(super) fn use_host(&self, host: &Host) {
        _ = self.host.set(socket::for_files(host));
    }

    fn host(&self) -> Option<&Host> {
        self.host.get()
    }

    /// Returns the number of connections that a user-space host needs for all sessions: per session
    /// a control connection, a data connection, and a data connection that is closing.
    pub(super) fn connections_max(&self) -> usize {
        self.settings().rules.sessions_max.saturating_mul(3)
    }

    /// Returns the number of open sessions and the counts since the start.
    pub(super) fn traffic(&self) -> ProtocolTraffic {
        self.admission.borrow().traffic(ServerProtocol::Ftp)
    }

    /// Borrows the clock, the random number generator and the meter. Must not be held across an
    /// await.
    fn context(&self) -> BorrowedContext<'_> {
        BorrowedContext::from(&self.context)
    }

    /// Serves until no connections can be accepted any more.
    ///
    /// # Errors
    ///
    /// Returns an error that names the address and the reason if a listener cannot be opened, or
    /// the error of a listener that failed.
    pub(super) async fn serve(self: Rc<Self>) -> Result<()> {
        let settings = self.settings();
        let mut description = match &settings.site.root {
            Some(root) => format!("root {}, {}", root.display(), settings.rights_description),
            None => "a root directory for each user".to_owned(),
        };
        for host in settings.hosts.iter() {
            description += &format!(", virtual host {}", host.name());
        }
        let roots = settings.writable_roots();
        let limits = settings.partials;
        // The removal runs in the background, because a root may contain any number of directories.
        tokio::task::spawn_blocking(move || {
            roots.iter().for_each(|root| upload::sweep(root, limits));
        });
        let mut listeners = JoinSet::new();
        tokio::task::spawn_local(Rc::clone(&self).maintain_roots());
        let addresses = settings.listen.iter().map(|address| (address, false));
        let mut ports = Vec::new();
        for (address, is_tls) in
            addresses.chain(settings.listen_tls.iter().map(|address| (address, true)))
        {
            if self.host().is_some() && ports.contains(&(address.port(), is_tls)) {
                // A port of the user-space host covers all its addresses.
                continue;
            }
            ports.push((address.port(), is_tls));
            let listener = self.open(*address)?;
            let has_tls = self.tls.borrow().is_some();
            let protection = match (is_tls, settings.tls, has_tls) {
                (true, ..) => "with TLS",
                (_, Protection::Required, _) => "AUTH TLS required",
                (_, _, true) => "unencrypted or with AUTH TLS",
                (_, _, false) => "UNENCRYPTED (readable by anyone on the network path)",
            };
            let at = listener.name()?;
            let what = description.clone();
            self.log.write(&FtpEvent::ServingFtp { at, how: protection, what });
            listeners.spawn_local(Rc::clone(&self).accept_connections(listener, is_tls));
        }
        let first_end = listeners.join_next().await.transpose()?;
        first_end.map_or(Ok(()), |error| Err(error).context("cannot accept FTP connections"))
    }

    /// Periodically recounts quotas and removes old partial uploads.
    async fn maintain_roots(self: Rc<Self>) {
        loop {
            let settings = self.settings();
            tokio::time::sleep(settings.recount_interval).await;
            let spaces: HashMap<PathBuf, Arc<Space>> = {
                let spaces = self.spaces.borrow();
                spaces.iter().map(|((root, _), space)| (root.clone(), Arc::clone(space))).collect()
            };
            let roots = settings.writable_roots();
            let limits = settings.partials;
            let maintenance = tokio::task::spawn_blocking(move || {
                for root in roots {
                    let Ok(root_dir) = RootDir::open(&root) else { continue };
                    let space = spaces.get(&root);
                    partial::trim(&root_dir, space.map(Arc::as_ref), limits, None);
                    if let Some(space) = space {
                        space.recount(&root_dir);
                    }
                }
            });
            // An error in this round does not prevent the next round.
            _ = maintenance.await;
        }
    }

    fn open(&self, address: SocketAddr) -> Result<ControlListener> {
        let Some(host) = self.host() else { return open(address) };
        let port = address.port();
        let listener = host.listen(port);
        let failure = || format!("cannot listen on port {port} of plumb's own TCP/IP stack");
        let listener = listener.with_context(failure)?;
        Ok(ControlListener::Userspace(listener))
    }

    /// Accepts connections. Returns only if a listener of the user-space host fails.
    async fn accept_connections(
        self: Rc<Self>,
        listener: ControlListener,
        is_implicit_tls: bool,
    ) -> io::Error {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) if self.host().is_some() => return error,
                Err(_) => {
                    // No descriptors are left, or the client closed the connection before it was
                    // accepted.
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                }
            };
            if *self.closing.borrow() {
                continue;
            }
            let random_ppm = self.context().rng.below(1_000_000);
            let admission_result =
                self.admission.borrow_mut().admit_unauthenticated(peer, random_ppm);
            if let Err(refusal) = admission_result {
                let why = refusal.to_string();
                if !is_implicit_tls {
                    // One attempt without blocking: a refused client gets no more of the server's
                    // time.
                    _ = stream.try_write(format!("421 Sorry, {refusal}\r\n").as_bytes());
                }
                self.log.write(&FtpEvent::Refused { from: peer, why });
                continue;
            }
            let server = Rc::clone(&self);
            tokio::task::spawn_local(async move {
                let started_at = std::time::Instant::now();
                let result = Rc::clone(&server).run_session(stream, peer, is_implicit_tls).await;
                server.log.write(&match result {
                    Ok(()) => {
                        FtpEvent::Left { from: peer, seconds: started_at.elapsed().as_secs() }
                    }
                    Err(error) => FtpEvent::Refused { from: peer, why: error.to_string() },
                });
                server.admission.borrow_mut().release_session(peer);
            });
        }
    }

    async fn run_session(
        self: Rc<Self>,
        stream: Socket,
        peer: SocketAddr,
        is_implicit_tls: bool,
    ) -> io::Result<()> {
        let tls_options = TlsOptions { tls: self.tls.borrow().clone(), is_implicit_tls };
        FtpSession::begin(self, tls_options, stream, peer).await?.run().await
    }

    /// Replaces the settings for new sessions and logins. Listeners and open sessions are not
    /// affected.
    pub(super) fn reload(&self, settings: Result<FtpSettings>) {
        let reload_result = settings.and_then(|settings| {
            settings.check_roots()?;
            let tls = tls(&settings, self.log)?;
            Ok((settings, tls))
        });
        match reload_result {
            Ok((settings, tls)) => {
                self.admission.borrow_mut().set_rules(settings.rules.clone());
                self.tls.replace(tls);
                self.settings.replace(Rc::new(settings));
                self.log.write(&FtpEvent::Reloaded);
            }
            Err(error) => self.log.write(&FtpEvent::NotReloaded { why: format!("{error:#}") }),
        }
    }

    /// Closes all sessions; running transfers get a grace period.
    pub(super) async fn close(&self) {
        self.closing.send_replace(true);
        let until = tokio::time::Instant::now() + self.settings().grace_period;
        while self.admission.borrow().sessions() > 0 && tokio::time::Instant::now() < until {
            tokio::time::sleep(ACCEPT_RETRY_DELAY / 10).await;
        }
    }
}

/// Returns the TLS configuration, if TLS is enabled. If TLS is only offered by default, an error is
/// logged and the server runs without TLS.
fn tls(settings: &FtpSettings, log: Log) -> Result<Option<DefaultTls>> {
    if settings.tls == Protection::Off {
        return Ok(None);
    }
    match build_tls(settings) {
        Ok((tls, sha256)) => {
            log.write(&FtpEvent::Certificate { sha256 });
            Ok(Some(tls))
        }
        Err(error) => {
            let is_tls_required = settings.tls == Protection::Required
                || !settings.listen_tls.is_empty()
                || !settings.generates_certificate
                || settings.hosts.iter().any(|host| host.certificate.is_some());
            if is_tls_required {
                return Err(error);
            }
            log.write(&FtpEvent::NoTls { why: format!("{error:#}") });
            Ok(None)
        }
    }
}

fn build_tls(settings: &FtpSettings) -> Result<(DefaultTls, String)> {
    if settings.generates_certificate {
        settings.certificate.generate_if_missing()?;
    }
    let (mut tls, sha256) = settings.certificate.configuration()?;
    // Tickets contain the whole TLS session, so any number of sessions can be resumed.
    tls.ticketer = Ticketer::new()?;
    let default = Arc::clone(&tls.cert_resolver);
    let certificates = Arc::new(Certificates::new(default, &settings.hosts)?);
    tls.cert_resolver = Arc::clone(&certificates) as _;
    Ok((DefaultTls { configuration: Arc::new(tls), certificates }, sha256))
}

fn open(address: SocketAddr) -> Result<ControlListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.set_reuseaddr(true)?;
    let result = socket.bind(address).and_then(|()| socket.listen(BACKLOG));
    result.map(ControlListener::Kernel).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::PermissionDenied => "ports below 1024 need root",
            io::ErrorKind::AddrInUse => "the port is used by another program",
            io::ErrorKind::AddrNotAvailable => "not an address of this machine",
            _ => "system error",
        };
        anyhow::Error::new(error).context(format!("cannot listen on {address}: {why}"))
    })
}
