//! Authentication of FTP users, and the state of a logged-in user.

use super::super::fair_queue::{Busy, Permit};
use super::super::throttle;
use super::Server;
use super::configuration::Settings;
use super::host::Site;
use super::log::Event;
use super::partial::{Partials, trim};
use super::rights::Access;
use super::space::Space;
use super::system::{OpenSession, Refusal};
use super::tree::Tree;
use super::users::{Account, is_anonymous};
use crate::files::pace::Pace;
use os::jail::Jail;
use protocols::application::ftp::server::{self as engine, Login, Rights};
use protocols::application::ftp::{Right, VirtualPath};
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Maximum length of a system user's name in bytes. Our choice.
const NAME_MAX_BYTES: usize = 64;

/// Result of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof<T> {
    Right(T),
    Wrong,
    /// The login was not checked.
    Busy,
}

impl<T> Proof<T> {
    pub(super) fn map<U>(self, to: impl FnOnce(T) -> U) -> Proof<U> {
        match self {
            Self::Right(value) => Proof::Right(to(value)),
            Self::Wrong => Proof::Wrong,
            Self::Busy => Proof::Busy,
        }
    }
}

impl<T> From<Option<T>> for Proof<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Wrong, Self::Right)
    }
}

/// Logged-in user.
pub(super) struct Guest {
    pub(super) tree: Tree,
    pub(super) pace: Rc<Cell<Pace>>,
    pub(super) is_anonymous: bool,
    /// PAM session of a system user, open as long as the user is logged in.
    _session: Option<OpenSession>,
}

impl Guest {
    /// Returns the account for the protocol engine.
    pub(super) fn account(&self) -> engine::Account {
        engine::Account { rights: self.tree.access.anywhere(), home: VirtualPath::root() }
    }
}

/// Files and limits of a user that is about to be logged in.
struct Home {
    root: PathBuf,
    /// Root directory, if it is already open.
    jail: Option<Arc<Jail>>,
    access: Access,
    quota_bytes: Option<u64>,
    bytes_per_second_max: Option<u64>,
    is_anonymous: bool,
    session: Option<OpenSession>,
}

impl Home {
    fn of_account(account: Account) -> Self {
        // The rights were validated when the file was read.
        let access = account.access().unwrap_or_default();
        Self {
            root: account.root,
            jail: None,
            access,
            quota_bytes: account.quota_bytes,
            bytes_per_second_max: account.bytes_per_second_max,
            is_anonymous: false,
            session: None,
        }
    }

    /// Returns the home of a system user. The file permissions of the system limit what the user
    /// may do.
    fn of_system((jail, session): (Jail, OpenSession)) -> Self {
        Self {
            root: PathBuf::new(),
            jail: Some(Arc::new(jail)),
            access: Access::everywhere(Rights::ALL),
            quota_bytes: None,
            bytes_per_second_max: None,
            is_anonymous: false,
            session: Some(session),
        }
    }

    fn of_anonymous(site: &Site) -> Option<Self> {
        Some(Self {
            root: site.root.clone()?,
            jail: None,
            access: site.access.clone(),
            quota_bytes: site.quota_bytes,
            bytes_per_second_max: None,
            is_anonymous: true,
            session: None,
        })
    }
}

/// Logs in an anonymous user immediately. Returns `None` for any other login, or if a quota has to
/// be counted first.
pub(super) fn admit_anonymous(
    server: &Server,
    peer: SocketAddr,
    login: &Login,
    site: &Site,
) -> Option<Guest> {
    let is_his = site.has_anonymous && is_anonymous(login.user.as_bytes());
    if !is_his || site.quota_bytes.is_some() {
        return None;
    }
    let home = Home::of_anonymous(site)?;
    let jail = open(server, peer, &home)?;
    Some(guest(server, login, site, home, jail, None))
}

/// Checks a login. The answer to a wrong one is delayed. Dropping the future leaves the queues of
/// checks and kills a process that asks PAM.
pub(super) async fn authenticate(
    server: &Rc<Server>,
    peer: SocketAddr,
    login: &Login,
    site: &Site,
) -> Proof<Guest> {
    let settings = server.settings();
    if site.has_anonymous && is_anonymous(login.user.as_bytes()) {
        let Some(home) = Home::of_anonymous(site) else { return Proof::Wrong };
        return enter(server, peer, login, site, home).await.into();
    }
    match prove(server, peer, &settings, site, login).await {
        Ok(Checked::Right(home)) => enter(server, peer, login, site, *home).await.into(),
        Ok(Checked::Wrong(delay)) => {
            tokio::time::sleep(delay).await;
            Proof::Wrong
        }
        Err(Busy) => Proof::Busy,
    }
}

/// Returns the name under which failed logins are delayed.
fn shown_name(login: &Login) -> String {
    String::from_utf8_lossy(login.user.as_bytes()).into_owned()
}

/// Opens the files of a user that has logged in.
async fn enter(
    server: &Rc<Server>,
    peer: SocketAddr,
    login: &Login,
    site: &Site,
    home: Home,
) -> Option<Guest> {
    let jail = open(server, peer, &home)?;
    let (jail, space) = match space(server, &home.root, jail, home.quota_bytes).await {
        Ok(opened) => opened,
        Err(error) => {
            refuse(server, peer, &home, &error);
            return None;
        }
    };
    Some(guest(server, login, site, home, jail, space))
}

/// Returns the home of the user if the password is correct. A name in the file never refers to a
/// system user.
///
/// # Errors
///
/// Returns [`Busy`] if the queue of checks is full, or if too many checks of this source are ahead.
async fn prove(
    server: &Server,
    peer: SocketAddr,
    settings: &Settings,
    site: &Site,
    login: &Login,
) -> Result<Checked, Busy> {
    let (address, name) = (peer.ip(), shown_name(login));
    let now = std::time::Instant::now;
    let reserve = || server.admission.borrow_mut().reserve_check(address, &name, now());
    let failures = || server.admission.borrow().failures(address, &name);
    let permit = throttle::turn(&server.checks, address, reserve, failures).await?;
    let (of_file, permit) = check_file(site, login, permit).await;
    // PAM is asked after a wrong password of a name in the file too, so that the check takes
    // equally long for every name.
    let (home, refusal) = match of_file {
        Some(account) => (Some(Home::of_account(account)), None),
        None if settings.system.is_none() || !site.has_system_users => (None, None),
        None => {
            // A module may hang, and users in the file must not wait for it.
            drop(permit);
            match of_system(server, address, settings, login).await? {
                Ok(home) if !is_in_file(site, login) => (Some(Home::of_system(home)), None),
                Ok(_) | Err(Refusal::NotProved) => (None, None),
                Err(refusal) => (None, Some(refusal)),
            }
        }
    };
    if let Some(refusal) = refusal {
        server.log.say(&Event::Refused { from: peer, why: refusal.why().to_owned() });
    }
    let mut admission = server.admission.borrow_mut();
    Ok(match home {
        Some(home) => {
            admission.note_success(address, &name, now());
            Checked::Right(Box::new(home))
        }
        None => Checked::Wrong(admission.note_failure(address, &name, now())),
    })
}

/// Result of a check.
enum Checked {
    Right(Box<Home>),
    /// The answer is delayed by this time.
    Wrong(Duration),
}

/// Checks a password against the user file. One check runs at a time, so that guessing does not
/// exhaust the machine. The permit is returned to be held until a failure is recorded.
async fn check_file(
    site: &Site,
    login: &Login,
    permit: Permit,
) -> (Option<Account>, Option<Permit>) {
    let Some(users) = site.users.clone() else { return (None, Some(permit)) };
    let name = std::str::from_utf8(login.user.as_bytes()).ok().map(str::to_owned);
    let password = login.password.clone();
    let checked = tokio::task::spawn_blocking(move || {
        // A running check cannot be interrupted; the next one waits for its end.
        (users.prove(name.as_deref(), password.as_bytes()), permit)
    });
    let (proved, permit) = checked.await.ok().unzip();
    (proved.flatten().map(|(_, account)| account), permit)
}

fn is_in_file(site: &Site, login: &Login) -> bool {
    let name = std::str::from_utf8(login.user.as_bytes());
    site.users.as_ref().zip(name.ok()).is_some_and(|(users, name)| users.has(name))
}

/// Asks PAM. Dropping the future kills the process that asks.
async fn of_system(
    server: &Server,
    address: IpAddr,
    settings: &Settings,
    login: &Login,
) -> Result<Result<(Jail, OpenSession), Refusal>, Busy> {
    let name = std::str::from_utf8(login.user.as_bytes()).unwrap_or_default();
    let Some((system, name)) = settings.system.clone().zip(name_in(name)) else {
        return Ok(Err(Refusal::NotProved));
    };
    let permit = server.system_checks.turn(address).await?;
    let (name, password) = (name.to_owned(), login.password.clone());
    let stop = StopOnDrop::default();
    let is_wanted = Arc::clone(&stop.0);
    let asked = tokio::task::spawn_blocking(move || {
        let admitted = system.admit(&name, password.as_bytes(), address, &is_wanted);
        drop(permit);
        admitted
    });
    Ok(asked.await.unwrap_or(Err(Refusal::NoPam)))
}

/// Sets its flag on drop.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns `name` if it is valid for a system user.
fn name_in(name: &str) -> Option<&str> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "._-@+".contains(c);
    let begins = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    (begins && name.len() <= NAME_MAX_BYTES && name.chars().all(is_letter)).then_some(name)
}

/// Opens the root of an authenticated user. Anonymous users share one.
fn open(server: &Server, peer: SocketAddr, home: &Home) -> Option<Arc<Jail>> {
    if let Some(jail) = &home.jail {
        return Some(Arc::clone(jail));
    }
    let known = server.anonymous_jail.borrow().upgrade();
    if let Some(jail) = known.filter(|jail| home.is_anonymous && jail.is(&home.root)) {
        return Some(jail);
    }
    match Jail::open(&home.root) {
        Ok(jail) => {
            let jail = Arc::new(jail);
            if home.is_anonymous {
                server.anonymous_jail.replace(Arc::downgrade(&jail));
            }
            Some(jail)
        }
        Err(error) => {
            refuse(server, peer, home, &error);
            None
        }
    }
}

fn refuse(server: &Server, peer: SocketAddr, home: &Home, error: &io::Error) {
    let why = format!("cannot open root directory {}: {error}", home.root.display());
    server.log.say(&Event::Refused { from: peer, why });
}

fn guest(
    server: &Server,
    login: &Login,
    site: &Site,
    home: Home,
    jail: Arc<Jail>,
    space: Option<Arc<Space>>,
) -> Guest {
    let settings = server.settings();
    let may_mail = site.has_mail && (!home.is_anonymous || settings.has_anonymous_mail);
    let spool = settings.spool.clone().filter(|_| may_mail);
    let access = if spool.is_some() { home.access.with(Right::Mail) } else { home.access };
    let limits = settings.partials;
    if home.session.is_some() {
        // The server does not know the home directories of system users in advance, so it trims
        // here.
        trim(&jail, None, limits, None);
    }
    let partials = (limits.count_max > 0).then(|| {
        let user =
            if home.is_anonymous { b"anonymous".to_vec() } else { login.user.as_bytes().to_vec() };
        Arc::new(Partials { jail: Arc::clone(&jail), space: space.clone(), user, limits })
    });
    let tree = Tree {
        jail,
        partials,
        selected: None,
        access: Arc::new(access),
        is_for_all: home.is_anonymous && server.is_root,
        space,
        file_max_bytes: settings.file_max_bytes,
        spool,
        word_formats: Arc::clone(&settings.word_formats),
    };
    let rate = home.bytes_per_second_max.or(settings.bytes_per_second_max);
    let pace = Rc::new(Cell::new(Pace::new(rate)));
    Guest { tree, pace, is_anonymous: home.is_anonymous, _session: home.session }
}

type Opened = (Arc<Jail>, Option<Arc<Space>>);

/// Returns the quota usage of a root, shared by all its users. It is counted when the first one
/// logs in.
async fn space(
    server: &Server,
    root: &Path,
    jail: Arc<Jail>,
    quota: Option<u64>,
) -> io::Result<Opened> {
    let Some(limit) = quota else { return Ok((jail, None)) };
    let key: PathBuf = root.to_owned();
    if let Some(space) = server.spaces.borrow().get(&(key.clone(), limit)) {
        return Ok((jail, Some(Arc::clone(space))));
    }
    let counted = tokio::task::spawn_blocking(move || {
        let space = Space::of(&jail, limit);
        (jail, Arc::new(space))
    });
    let (jail, space) = counted.await.map_err(io::Error::other)?;
    // Another session may have counted in the meantime and already be writing.
    let mut spaces = server.spaces.borrow_mut();
    let space = Arc::clone(spaces.entry((key, limit)).or_insert(space));
    Ok((jail, Some(space)))
}
