//! FTP server: files below one root for each user, for configured, system and anonymous users.
//!
//! ```text
//! listener ── admission ──► session: engine ◄─► control connection (clear, AUTH TLS, implicit TLS)
//!                              │        └─────► tree: names beneath one root (os::jail)
//!                              └─ task: data connection ◄─► file (sendfile, encoder, decoder)
//! ```
//!
//! All sessions run in one thread. Operations that wait long for a disk (the commit of an upload,
//! hashes, copies) and password checks run in others. An upload has a temporary name until it is
//! complete and on the disk, so an interrupted upload leaves the old file unchanged. This also
//! holds with REST or APPE, for which the remaining part of the old file is copied first. If the
//! name no longer refers to that file at the end, the upload is refused (450), so that no
//! concurrent change is lost.
//!
//! A data connection is accepted from the peer of the control connection only, one at a time, on a
//! random port. Its TLS must resume the TLS session of the control connection ([`tickets`]), unless
//! `requires-session-reuse` is false. In stream mode without TLS, the end of an upload looks the
//! same whether the client has finished or was killed. Such an upload is in place when the reply
//! is sent. It is withdrawn and kept as a partial upload ([`partial`]) if the control connection
//! ends before the client has acknowledged the reply (`upload-grace-ms`).
//!
//! System users ([`system`]) access files with their own rights. All others access them with the
//! rights of the server process; anonymous users of a server that runs as root get only files that
//! every user of the machine may read. Mail ([`mail`]) is accepted for users with a directory in
//! the spool.
//!
//! Not implemented: local ports below 1024 for active data connections.

mod client_hello;
mod configuration;
mod control;
mod conversion;
mod data;
mod digest;
mod facts;
mod guest;
mod host;
mod listing;
mod log;
mod long_work;
mod mail;
mod partial;
mod passive;
mod post;
mod rights;
mod secured;
mod session;
mod socket;
mod space;
mod system;
mod tickets;
mod tree;
mod upload;
mod users;
mod waits;
mod work;

pub(super) use configuration::{Arguments, Settings, Shared, Table};
pub(super) use system::prove as prove_system_user;

use super::admission::Admission;
use super::charged::Metered;
use super::fair_queue::{FairQueue, Limits};
use super::log::Log;
use super::metrics::{Protocol, Traffic};
use super::transfer_log::TransferLog;
use crate::carry::{Bench, Lent};
use crate::meters::Registry;
use anyhow::{Context, Result};
use configuration::Protection;
use host::Certificates;
use log::Event;
use os::host::Host;
use os::jail::Jail;
use session::Session;
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

/// Size of the read buffer. All sessions share one, as only one reads at a time.
const SCRATCH_LEN: usize = 256 * 1024;
/// File descriptors per session: two connections, a listener, a file, its directory and the root.
const DESCRIPTORS_PER_SESSION: u64 = 6;
/// Length of the kernel's queue of connections that are not accepted yet.
const BACKLOG: u32 = 1024;
/// Delay after a failed accept, for example for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Each PAM check runs in a process, which may wait for a directory server.
const SYSTEM_CHECKS: Limits = Limits { running_max: 8, waiting_max: 64, waiting_per_source_max: 2 };

/// FTP server.
pub(super) struct Server {
    settings: RefCell<Rc<Settings>>,
    is_root: bool,
    admission: RefCell<Admission>,
    bench: RefCell<Bench>,
    scratch: RefCell<Vec<u8>>,
    /// Queue of password checks, which run one at a time.
    checks: FairQueue,
    /// Queue of PAM checks, apart from the checks of users in files: a module that hangs delays
    /// system users only.
    system_checks: FairQueue,
    /// Queue of hashes and other long operations on files.
    long_work: FairQueue,
    /// Queue of listings of large directories.
    listings: FairQueue,
    /// Queue of copies of files that are continued, and of starting mail messages.
    copies: FairQueue,
    /// Root of anonymous users, while any of them is logged in.
    anonymous_jail: RefCell<Weak<Jail>>,
    /// Quota usage of each root with a quota.
    spaces: RefCell<HashMap<(PathBuf, u64), Arc<Space>>>,
    tls: RefCell<Option<Tls>>,
    /// User-space host that carries the connections; `None` for the kernel's network.
    host: OnceCell<Host>,
    /// Sessions of one user at one address; each accepts the TLS tickets of the others.
    families: RefCell<tickets::Families>,
    /// Whether the server is shutting down.
    closing: watch::Sender<bool>,
    /// Number of passive ports held by each source.
    port_shares: RefCell<HashMap<IpAddr, usize>>,
    log: Log,
    transfer_log: Rc<TransferLog>,
}

impl Metered for Server {
    fn metered_bench(&self) -> &RefCell<Bench> {
        &self.bench
    }
}

/// TLS options of a listener.
#[derive(Clone)]
struct Entrance {
    tls: Option<Tls>,
    is_implicit_tls: bool,
}

/// TLS configuration for clients that have not selected a host yet.
#[derive(Clone)]
struct Tls {
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
        settings: Settings,
        log: Log,
        transfer_log: Rc<TransferLog>,
        board: &Arc<Registry>,
    ) -> Result<Self> {
        settings.look_at_roots()?;
        let sessions = u64::try_from(settings.rules.sessions_max).unwrap_or(u64::MAX);
        let wanted = sessions.saturating_mul(DESCRIPTORS_PER_SESSION).saturating_add(128);
        if os::process::allow_descriptors(wanted).is_err() {
            let allowed = os::process::descriptors_max().unwrap_or(u64::MAX);
            let sessions = (allowed / DESCRIPTORS_PER_SESSION).min(sessions);
            log.say(&Event::FewDescriptors { allowed, sessions });
        }
        let tls = tls(&settings, log)?;
        // Every session may wait in a queue; a waiting operation takes a few hundred bytes.
        let long = |running_max| {
            FairQueue::new(Limits {
                running_max,
                waiting_max: settings.rules.sessions_max,
                waiting_per_source_max: settings.rules.sessions_per_source_max,
            })
        };
        let (long_work, listings, copies) = (long(1), long(1), long(2));
        Ok(Self {
            admission: RefCell::new(Admission::new(settings.rules.clone())),
            settings: RefCell::new(Rc::new(settings)),
            is_root: os::user::is_root(),
            bench: RefCell::new(Bench::shown_on(board, "FTP")?),
            scratch: RefCell::new(vec![0; SCRATCH_LEN]),
            checks: FairQueue::new(super::PASSWORD_CHECKS),
            system_checks: FairQueue::new(SYSTEM_CHECKS),
            long_work,
            listings,
            copies,
            anonymous_jail: RefCell::default(),
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

    fn settings(&self) -> Rc<Settings> {
        Rc::clone(&self.settings.borrow())
    }

    /// Serves on `host` instead of the kernel's network. Call it before [`Self::serve`].
    pub(super) fn carry_by(&self, host: &Host) {
        _ = self.host.set(socket::for_files(host));
    }

    fn host(&self) -> Option<&Host> {
        self.host.get()
    }

    /// Returns the number of connections that a user-space host needs for all sessions: for each a
    /// control connection, a data connection, and another one that is closing.
    pub(super) fn connections_max(&self) -> usize {
        self.settings().rules.sessions_max.saturating_mul(3)
    }

    /// Returns the number of open sessions and the counts since the start.
    pub(super) fn traffic(&self) -> Traffic {
        self.admission.borrow().traffic(Protocol::Ftp)
    }

    /// Borrows the clock, the random number generator and the meter. Must not be held across an
    /// await.
    fn bench(&self) -> Lent<'_> {
        Lent::from(&self.bench)
    }

    /// Serves until no connections can be accepted any more.
    ///
    /// # Errors
    ///
    /// Returns an error that names the address and the reason if a listener cannot be opened, or
    /// the error of a listener that failed.
    pub(super) async fn serve(self: Rc<Self>) -> Result<()> {
        let settings = self.settings();
        let mut what = match &settings.site.root {
            Some(root) => format!("root {}, {}", root.display(), settings.rights_in_words),
            None => "a root directory for each user".to_owned(),
        };
        for host in settings.hosts.iter() {
            what += &format!(", virtual host {}", host.name());
        }
        let (roots, limits) = (settings.writable_roots(), settings.partials);
        // In the background, because a root may contain any number of directories.
        tokio::task::spawn_blocking(move || {
            roots.iter().for_each(|root| upload::sweep(root, limits));
        });
        let mut doors = JoinSet::new();
        tokio::task::spawn_local(Rc::clone(&self).look_after_roots());
        let places = settings.listen.iter().map(|place| (place, false));
        let mut ports = Vec::new();
        for (place, is_tls) in places.chain(settings.listen_tls.iter().map(|place| (place, true))) {
            if self.host().is_some() && ports.contains(&(place.port(), is_tls)) {
                // A port of the user-space host covers all its addresses.
                continue;
            }
            ports.push((place.port(), is_tls));
            let door = self.open(*place)?;
            let has_tls = self.tls.borrow().is_some();
            let how = match (is_tls, settings.tls, has_tls) {
                (true, ..) => "with TLS",
                (_, Protection::Required, _) => "AUTH TLS required",
                (_, _, true) => "unencrypted or with AUTH TLS",
                (_, _, false) => "UNENCRYPTED (readable by anyone on the network path)",
            };
            let (at, what) = (door.name()?, what.clone());
            self.log.say(&Event::ServingFtp { at, how, what });
            doors.spawn_local(Rc::clone(&self).attend(door, is_tls));
        }
        let failed = doors.join_next().await.transpose()?;
        failed.map_or(Ok(()), |error| Err(error).context("cannot accept FTP connections"))
    }

    /// Periodically recounts quotas and removes old partial uploads.
    async fn look_after_roots(self: Rc<Self>) {
        loop {
            let settings = self.settings();
            tokio::time::sleep(settings.recount).await;
            let spaces: HashMap<PathBuf, Arc<Space>> = {
                let spaces = self.spaces.borrow();
                spaces.iter().map(|((root, _), space)| (root.clone(), Arc::clone(space))).collect()
            };
            let (roots, limits) = (settings.writable_roots(), settings.partials);
            let looked = tokio::task::spawn_blocking(move || {
                for root in roots {
                    let Ok(jail) = Jail::open(&root) else { continue };
                    let space = spaces.get(&root);
                    partial::trim(&jail, space.map(Arc::as_ref), limits, None);
                    if let Some(space) = space {
                        space.recount(&jail);
                    }
                }
            });
            // A failed round does not prevent the next one.
            _ = looked.await;
        }
    }

    fn open(&self, place: SocketAddr) -> Result<ControlListener> {
        let Some(host) = self.host() else { return open(place) };
        let port = place.port();
        let listener = host.listen(port);
        let failure = || format!("cannot listen on port {port} of plumb's own TCP/IP stack");
        let listener = listener.with_context(failure)?;
        Ok(ControlListener::Own(listener))
    }

    /// Accepts connections. Returns only for a listener of the user-space host, when that has
    /// failed.
    async fn attend(self: Rc<Self>, door: ControlListener, is_implicit_tls: bool) -> io::Error {
        loop {
            let (stream, peer) = match door.accept().await {
                Ok(accepted) => accepted,
                Err(error) if self.host().is_some() => return error,
                Err(_) => {
                    // No descriptors are left, or the client has gone before it was accepted.
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            if *self.closing.borrow() {
                continue;
            }
            let random_ppm = self.bench().chance.below(1_000_000);
            let entered = self.admission.borrow_mut().enter_unproved(peer, random_ppm);
            if let Err(refusal) = entered {
                let why = refusal.to_string();
                if !is_implicit_tls {
                    // One attempt without blocking: a refused client gets no more of the server's
                    // time.
                    _ = stream.try_write(format!("421 Sorry, {refusal}\r\n").as_bytes());
                }
                self.log.say(&Event::Refused { from: peer, why });
                continue;
            }
            let server = Rc::clone(&self);
            tokio::task::spawn_local(async move {
                let begun = std::time::Instant::now();
                let held = Rc::clone(&server).hold(stream, peer, is_implicit_tls).await;
                server.log.say(&match held {
                    Ok(()) => Event::Left { from: peer, seconds: begun.elapsed().as_secs() },
                    Err(error) => Event::Refused { from: peer, why: error.to_string() },
                });
                server.admission.borrow_mut().leave_session(peer);
            });
        }
    }

    async fn hold(
        self: Rc<Self>,
        stream: Socket,
        peer: SocketAddr,
        is_implicit_tls: bool,
    ) -> io::Result<()> {
        let entrance = Entrance { tls: self.tls.borrow().clone(), is_implicit_tls };
        Session::begin(self, entrance, stream, peer).await?.run().await
    }

    /// Replaces the settings for new sessions and logins. Listeners and open sessions are not
    /// affected.
    pub(super) fn reload(&self, settings: Result<Settings>) {
        let reloaded = settings.and_then(|settings| {
            settings.look_at_roots()?;
            let tls = tls(&settings, self.log)?;
            Ok((settings, tls))
        });
        match reloaded {
            Ok((settings, tls)) => {
                self.admission.borrow_mut().set_rules(settings.rules.clone());
                self.tls.replace(tls);
                self.settings.replace(Rc::new(settings));
                self.log.say(&Event::Reloaded);
            }
            Err(error) => self.log.say(&Event::NotReloaded { why: format!("{error:#}") }),
        }
    }

    /// Closes all sessions; running transfers get a grace period.
    pub(super) async fn close(&self) {
        self.closing.send_replace(true);
        let until = tokio::time::Instant::now() + self.settings().grace;
        while self.admission.borrow().sessions() > 0 && tokio::time::Instant::now() < until {
            tokio::time::sleep(PAUSE / 10).await;
        }
    }
}

/// Returns the TLS configuration, if TLS is enabled. If it is only offered by default, an error is
/// logged and the server runs without TLS.
fn tls(settings: &Settings, log: Log) -> Result<Option<Tls>> {
    if settings.tls == Protection::Off {
        return Ok(None);
    }
    match build_tls(settings) {
        Ok((tls, sha256)) => {
            log.say(&Event::Certificate { sha256 });
            Ok(Some(tls))
        }
        Err(error) => {
            let is_needed = settings.tls == Protection::Required
                || !settings.listen_tls.is_empty()
                || !settings.makes_certificate
                || settings.hosts.iter().any(|host| host.certificate.is_some());
            if is_needed {
                return Err(error);
            }
            log.say(&Event::NoTls { why: format!("{error:#}") });
            Ok(None)
        }
    }
}

fn build_tls(settings: &Settings) -> Result<(Tls, String)> {
    if settings.makes_certificate {
        settings.certificate.make_if_missing()?;
    }
    let (mut tls, sha256) = settings.certificate.configuration()?;
    // Tickets contain the whole TLS session, so any number of sessions can be resumed.
    tls.ticketer = Ticketer::new()?;
    let default = Arc::clone(&tls.cert_resolver);
    let certificates = Arc::new(Certificates::new(default, &settings.hosts)?);
    tls.cert_resolver = Arc::clone(&certificates) as _;
    Ok((Tls { configuration: Arc::new(tls), certificates }, sha256))
}

fn open(place: SocketAddr) -> Result<ControlListener> {
    let socket = match place {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.set_reuseaddr(true)?;
    let bound = socket.bind(place).and_then(|()| socket.listen(BACKLOG));
    bound.map(ControlListener::Kernel).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::PermissionDenied => "ports below 1024 need root",
            io::ErrorKind::AddrInUse => "the port is used by another program",
            io::ErrorKind::AddrNotAvailable => "not an address of this machine",
            _ => "system error",
        };
        anyhow::Error::new(error).context(format!("cannot listen on {place}: {why}"))
    })
}
