//! The FTP server: files of folders, to users of our own and to anonymous ones.
//!
//! ```text
//! door ── admission ──► session: engine ◄─► control connection (clear, AUTH TLS, implicit TLS)
//!                          │        └─────► tree: names beneath one root (os::jail)
//!                          └─ task: data connection ◄─► file (sendfile, encoder, decoder)
//! ```
//!
//! All sessions run in one thread; what waits for a disk for long (the end of an upload, hashes,
//! copies) and passwords are left to others. A file comes in under a name of its own and takes the
//! right one when it is whole and on the disk, so an upload that breaks off leaves what was there;
//! so does one with REST or APPE, for which what is to stay of the old file is copied first. Where
//! that is not the file any longer that has the name, it is refused (450): nothing that another has
//! put there meanwhile is lost.
//!
//! The data connection is the control peer's alone, on a port of chance, and one at a time. TLS on it
//! must resume the TLS session of the control connection ([`tickets`]), unless
//! `requires-session-reuse` is false.
//! The end of an upload in stream mode without TLS looks the same if its client was killed: such an
//! upload is in place with its reply, and is taken back and kept as a partial upload ([`partial`]) if
//! the control connection ends before the client has acknowledged the reply (`upload-grace-ms`).
//!
//! Users of the machine ([`system`]) have their files with their own rights. All others have them as
//! whoever serves; an anonymous user of a server that runs as root gets only what everybody on the
//! machine may read. Mail ([`mail`]) is taken for those who have a folder in the spool.
//!
//! Left out: ports below 1024 as our end of active connections.

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
use super::clerk::Clerk;
use super::fair_queue::{FairQueue, Limits};
use super::log::Log;
use super::metrics::{Protocol, Traffic};
use crate::carry::{Bench, Lent};
use crate::meters::Board;
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

/// What is read at a time; one for all sessions, as only one reads at a time.
const SCRATCH_LEN: usize = 256 * 1024;
/// Descriptors of a session: two connections, a listener, a file and its folder, the root.
const DESCRIPTORS_PER_SESSION: u64 = 6;
/// How many connections the kernel keeps until they are accepted.
const BACKLOG: u32 = 1024;
/// How long an accept that fails for want of something waits for it.
const PAUSE: Duration = Duration::from_millis(100);

/// Each check by PAM is a process, which may wait for a directory server.
const SYSTEM_CHECKS: Limits = Limits { running_max: 8, waiting_max: 64, waiting_per_source_max: 2 };

/// The server.
pub(super) struct Server {
    settings: RefCell<Rc<Settings>>,
    is_root: bool,
    admission: RefCell<Admission>,
    bench: RefCell<Bench>,
    scratch: RefCell<Vec<u8>>,
    /// Passwords are checked one at a time.
    checks: FairQueue,
    /// Processes that ask PAM, apart from the checks of our own users: a module that hangs delays
    /// users of the machine alone.
    system_checks: FairQueue,
    /// Hashes and other long work on files.
    long_work: FairQueue,
    /// Listings of large directories.
    listings: FairQueue,
    /// Copies of what stays of a file that is continued.
    copies: FairQueue,
    /// The root of anonymous users, as long as any is here.
    anonymous_jail: RefCell<Weak<Jail>>,
    /// The room of each root that has a quota.
    spaces: RefCell<HashMap<(PathBuf, u64), Arc<Space>>>,
    tls: RefCell<Option<Tls>>,
    /// The host of our own that carries the sessions, if it is not this machine's.
    host: OnceCell<Host>,
    /// Sessions of one user at one address; each accepts the TLS tickets of the others.
    families: RefCell<tickets::Families>,
    /// Whether the server ends.
    closing: watch::Sender<bool>,
    /// How many of the passive ports each source holds.
    port_shares: RefCell<HashMap<IpAddr, usize>>,
    log: Log,
    clerk: Rc<Clerk>,
}

impl Metered for Server {
    fn metered_bench(&self) -> &RefCell<Bench> {
        &self.bench
    }
}

/// How those who come by a door are served.
#[derive(Clone)]
struct Entrance {
    tls: Option<Tls>,
    is_implicit_tls: bool,
}

/// TLS as it is shown to who has named no host yet.
#[derive(Clone)]
struct Tls {
    configuration: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
}

impl Server {
    /// Looks whether the root can be served, and makes TLS ready.
    ///
    /// # Errors
    ///
    /// If the root is no folder, or TLS is needed and cannot be had.
    pub(super) fn new(
        settings: Settings,
        log: Log,
        clerk: Rc<Clerk>,
        board: &Arc<Board>,
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
        // Every session may wait for one; what waits takes a few hundred bytes.
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
            clerk,
        })
    }

    fn settings(&self) -> Rc<Settings> {
        Rc::clone(&self.settings.borrow())
    }

    /// Serves by `host` instead of this machine's TCP. To be called before [`Self::serve`].
    pub(super) fn carry_by(&self, host: &Host) {
        _ = self.host.set(socket::for_files(host));
    }

    fn host(&self) -> Option<&Host> {
        self.host.get()
    }

    /// Returns how many connections a host of our own needs for all sessions: each has one for its
    /// commands and one for data, and another that is being closed.
    pub(super) fn connections_max(&self) -> usize {
        self.settings().rules.sessions_max.saturating_mul(3)
    }

    /// Returns how many sessions there are.
    pub(super) fn traffic(&self) -> Traffic {
        self.admission.borrow().traffic(Protocol::Ftp)
    }

    /// Lends clock, chance and meter; not across a wait.
    fn bench(&self) -> Lent<'_> {
        Lent::from(&self.bench)
    }

    /// Serves for as long as anybody can come.
    ///
    /// # Errors
    ///
    /// If nobody can listen at a place, in a sentence that says why.
    pub(super) async fn serve(self: Rc<Self>) -> Result<()> {
        let settings = self.settings();
        let mut what = match &settings.site.root {
            Some(root) => format!("the files of {}, {}", root.display(), settings.rights_in_words),
            None => "the files of each user".to_owned(),
        };
        for host in settings.hosts.iter() {
            what += &format!(", and those of the host {}", host.name());
        }
        let (roots, limits) = (settings.writable_roots(), settings.partials);
        // In the background, as a root may have any number of folders.
        tokio::task::spawn_blocking(move || {
            roots.iter().for_each(|root| upload::sweep(root, limits));
        });
        let mut doors = JoinSet::new();
        tokio::task::spawn_local(Rc::clone(&self).look_after_roots());
        let places = settings.listen.iter().map(|place| (place, false));
        let mut ports = Vec::new();
        for (place, is_tls) in places.chain(settings.listen_tls.iter().map(|place| (place, true))) {
            if self.host().is_some() && ports.contains(&(place.port(), is_tls)) {
                // A port of our own host is one of all its addresses.
                continue;
            }
            ports.push((place.port(), is_tls));
            let door = self.open(*place)?;
            let has_tls = self.tls.borrow().is_some();
            let how = match (is_tls, settings.tls, has_tls) {
                (true, ..) => "in TLS",
                (_, Protection::Required, _) => "with AUTH TLS alone",
                (_, _, true) => "in cleartext or with AUTH TLS",
                (_, _, false) => "in CLEARTEXT, which everybody on the way can read",
            };
            let (at, what) = (door.name()?, what.clone());
            self.log.say(&Event::ServingFtp { at, how, what });
            doors.spawn_local(Rc::clone(&self).attend(door, is_tls));
        }
        let failed = doors.join_next().await.transpose()?;
        failed.map_or(Ok(()), |error| Err(error).context("FTP connections cannot be accepted"))
    }

    /// Counts quotas again and removes old partial uploads, now and then.
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
            // The next round comes whatever became of this one.
            _ = looked.await;
        }
    }

    fn open(&self, place: SocketAddr) -> Result<ControlListener> {
        let Some(host) = self.host() else { return open(place) };
        let port = place.port();
        let listener = host.listen(port);
        let listener = listener.with_context(|| format!("cannot listen at our port {port}"))?;
        Ok(ControlListener::Own(listener))
    }

    /// Accepts connections until the host of our own has failed; those of the kernel, indefinitely.
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
                    // One try: who is refused has no claim on our time.
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

    /// Has other settings from now on, for who comes and who logs in; where it listens stays, and
    /// so does who is here.
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

    /// Sends everybody away; transfers have some time to end.
    pub(super) async fn close(&self) {
        self.closing.send_replace(true);
        let until = tokio::time::Instant::now() + self.settings().grace;
        while self.admission.borrow().sessions() > 0 && tokio::time::Instant::now() < until {
            tokio::time::sleep(PAUSE / 10).await;
        }
    }
}

/// Returns what shows the certificate, if there is to be TLS. Where it is only offered, a machine
/// that cannot keep a certificate says so and serves.
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
    // Tickets hold all of a session, so any number of sessions can be taken up again.
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
            io::ErrorKind::AddrInUse => "somebody listens there already",
            io::ErrorKind::AddrNotAvailable => "this machine does not have that address",
            _ => "the kernel refuses",
        };
        anyhow::Error::new(error).context(format!("nobody can listen at {place}: {why}"))
    })
}
