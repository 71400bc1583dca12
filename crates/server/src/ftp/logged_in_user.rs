//! Authentication of FTP users, and the state of a logged-in user.

use super::super::fair_queue::{Busy, Permit};
use super::super::throttle;
use super::configuration::FtpSettings;
use super::ftp_log::FtpEvent;
use super::ftp_server::FtpServer;
use super::partial::{Partials, trim};
use super::rights::Access;
use super::space::Space;
use super::system::{OpenSession, SystemUserRefusal};
use super::user_files::FileView;
use super::users::{FtpUserEntry, is_anonymous};
use super::virtual_host::Site;
use os::beneath::RootDir;
use protocols::ftp::server::{self as engine, Login, Rights};
use protocols::ftp::{Right, VirtualPath};
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use transfer::pace::RateLimit;

/// Maximum length of a system user's name in bytes. Our choice.
const NAME_MAX_BYTES: usize = 64;

/// Result of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoginOutcome<T> {
    Accepted(T),
    Refused,
    /// The login was not checked, because too many checks are waiting.
    Busy,
}

impl<T> LoginOutcome<T> {
    pub(super) fn map<U>(self, convert: impl FnOnce(T) -> U) -> LoginOutcome<U> {
        match self {
            Self::Accepted(value) => LoginOutcome::Accepted(convert(value)),
            Self::Refused => LoginOutcome::Refused,
            Self::Busy => LoginOutcome::Busy,
        }
    }
}

impl<T> From<Option<T>> for LoginOutcome<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Refused, Self::Accepted)
    }
}

/// Logged-in user.
pub(super) struct LoggedInUser {
    pub(super) view: FileView,
    pub(super) pace: Rc<Cell<RateLimit>>,
    pub(super) is_anonymous: bool,
    /// PAM session of a system user, open as long as the user is logged in.
    _session: Option<OpenSession>,
}

impl LoggedInUser {
    /// Returns the account for the protocol engine.
    pub(super) fn account(&self) -> engine::Account {
        engine::Account { rights: self.view.access.rights_anywhere(), home: VirtualPath::root() }
    }
}

/// Files and limits of a user that is about to be logged in.
struct Home {
    root: PathBuf,
    /// Root directory, if it is already open.
    root_dir: Option<Arc<RootDir>>,
    access: Access,
    quota_bytes: Option<u64>,
    bytes_per_second_max: Option<u64>,
    is_anonymous: bool,
    session: Option<OpenSession>,
}

impl Home {
    fn for_account(account: FtpUserEntry) -> Self {
        // The rights were validated when the file was read.
        let access = account.access().unwrap_or_default();
        Self {
            root: account.root,
            root_dir: None,
            access,
            quota_bytes: account.quota_bytes,
            bytes_per_second_max: account.bytes_per_second_max,
            is_anonymous: false,
            session: None,
        }
    }

    /// Returns the home of a system user. The file permissions of the operating system limit the
    /// access of the user.
    fn for_system_user((root_dir, session): (RootDir, OpenSession)) -> Self {
        Self {
            root: PathBuf::new(),
            root_dir: Some(Arc::new(root_dir)),
            access: Access::everywhere(Rights::ALL),
            quota_bytes: None,
            bytes_per_second_max: None,
            is_anonymous: false,
            session: Some(session),
        }
    }

    fn for_anonymous_users(site: &Site) -> Option<Self> {
        Some(Self {
            root: site.root.clone()?,
            root_dir: None,
            access: site.access.clone(),
            quota_bytes: site.quota_bytes,
            bytes_per_second_max: None,
            is_anonymous: true,
            session: None,
        })
    }
}

/// Logs in an anonymous user immediately. Returns `None` for any other login, or if the quota usage
/// of the root has to be counted first.
pub(super) fn log_in_anonymous(
    server: &FtpServer,
    peer: SocketAddr,
    login: &Login,
    site: &Site,
) -> Option<LoggedInUser> {
    let is_anonymous_login = site.has_anonymous && is_anonymous(login.user.as_bytes());
    if !is_anonymous_login || site.quota_bytes.is_some() {
        return None;
    }
    let home = Home::for_anonymous_users(site)?;
    let root_dir = open(server, peer, &home)?;
    Some(log_in(server, login, site, home, root_dir, None))
}

/// Checks a login. The answer to a wrong password is delayed. Dropping the future cancels a queued
/// check and kills a running PAM process.
pub(super) async fn authenticate(
    server: &Rc<FtpServer>,
    peer: SocketAddr,
    login: &Login,
    site: &Site,
) -> LoginOutcome<LoggedInUser> {
    let settings = server.settings();
    if site.has_anonymous && is_anonymous(login.user.as_bytes()) {
        let Some(home) = Home::for_anonymous_users(site) else { return LoginOutcome::Refused };
        return open_files(server, peer, login, site, home).await.into();
    }
    match check_password(server, peer, &settings, site, login).await {
        Ok(PasswordCheck::Correct(home)) => {
            open_files(server, peer, login, site, *home).await.into()
        }
        Ok(PasswordCheck::Wrong(delay)) => {
            tokio::time::sleep(delay).await;
            LoginOutcome::Refused
        }
        Err(Busy) => LoginOutcome::Busy,
    }
}

/// Returns the user name for which failed logins are counted and delayed.
fn display_name(login: &Login) -> String {
    String::from_utf8_lossy(login.user.as_bytes()).into_owned()
}

/// Opens the files of a user that has logged in.
async fn open_files(
    server: &Rc<FtpServer>,
    peer: SocketAddr,
    login: &Login,
    site: &Site,
    home: Home,
) -> Option<LoggedInUser> {
    let root_dir = open(server, peer, &home)?;
    let (root_dir, space) = match space(server, &home.root, root_dir, home.quota_bytes).await {
        Ok(opened) => opened,
        Err(error) => {
            log_refusal(server, peer, &home, &error);
            return None;
        }
    };
    Some(log_in(server, login, site, home, root_dir, space))
}

/// Returns the home of the user if the password is correct. A name in the user file never refers to
/// a system user.
///
/// # Errors
///
/// Returns [`Busy`] if the queue of checks is full, or if too many checks of this source are
/// waiting.
async fn check_password(
    server: &FtpServer,
    peer: SocketAddr,
    settings: &FtpSettings,
    site: &Site,
    login: &Login,
) -> Result<PasswordCheck, Busy> {
    let address = peer.ip();
    let name = display_name(login);
    let now = std::time::Instant::now;
    let reserve = || server.admission.borrow_mut().reserve_password_check(address, &name, now());
    let failures = || server.admission.borrow().failures(address, &name);
    let permit = throttle::acquire(&server.checks, address, reserve, failures).await?;
    let (account, permit) = check_file(site, login, permit).await;
    // PAM is queried after a wrong password for a name in the user file too, so that the check
    // takes equally long for every name.
    let (home, refusal) = match account {
        Some(account) => (Some(Home::for_account(account)), None),
        None if settings.system.is_none() || !site.has_system_users => (None, None),
        None => {
            // A PAM module may hang, and users in the user file must not wait for the module.
            drop(permit);
            match check_system_user(server, address, settings, login).await? {
                Ok(home) if !is_in_file(site, login) => (Some(Home::for_system_user(home)), None),
                Ok(_) | Err(SystemUserRefusal::NotAuthenticated) => (None, None),
                Err(refusal) => (None, Some(refusal)),
            }
        }
    };
    if let Some(refusal) = refusal {
        server.log.write(&FtpEvent::Refused { from: peer, why: refusal.reason().to_owned() });
    }
    let mut admission = server.admission.borrow_mut();
    Ok(match home {
        Some(home) => {
            admission.record_success(address, &name, now());
            PasswordCheck::Correct(Box::new(home))
        }
        None => PasswordCheck::Wrong(admission.record_failure(address, &name, now())),
    })
}

/// Result of a password check.
enum PasswordCheck {
    Correct(Box<Home>),
    /// The login failed; the answer is delayed by this time.
    Wrong(Duration),
}

/// Checks a password against the user file. One check runs at a time, so that guessing does not
/// exhaust the machine. Returns the permit, which the caller must hold until a failure is recorded.
async fn check_file(
    site: &Site,
    login: &Login,
    permit: Permit,
) -> (Option<FtpUserEntry>, Option<Permit>) {
    let Some(users) = site.users.clone() else { return (None, Some(permit)) };
    let name = std::str::from_utf8(login.user.as_bytes()).ok().map(str::to_owned);
    let password = login.password.clone();
    let check = tokio::task::spawn_blocking(move || {
        // A running check cannot be interrupted, so the permit is held until the check ends.
        (users.authenticate(name.as_deref(), password.as_bytes()), permit)
    });
    let (verified, permit) = check.await.ok().unzip();
    (verified.flatten().map(|(_, account)| account), permit)
}

fn is_in_file(site: &Site, login: &Login) -> bool {
    let name = std::str::from_utf8(login.user.as_bytes());
    site.users.as_ref().zip(name.ok()).is_some_and(|(users, name)| users.contains(name))
}

/// Checks a login with PAM. Dropping the future kills the PAM process.
async fn check_system_user(
    server: &FtpServer,
    address: IpAddr,
    settings: &FtpSettings,
    login: &Login,
) -> Result<Result<(RootDir, OpenSession), SystemUserRefusal>, Busy> {
    let name = std::str::from_utf8(login.user.as_bytes()).unwrap_or_default();
    let Some((system, name)) = settings.system.clone().zip(valid_system_name(name)) else {
        return Ok(Err(SystemUserRefusal::NotAuthenticated));
    };
    let permit = server.system_checks.acquire(address).await?;
    let name = name.to_owned();
    let password = login.password.clone();
    let stop = StopOnDrop::default();
    let stop_flag = Arc::clone(&stop.0);
    let outcome = tokio::task::spawn_blocking(move || {
        let authentication = system.authenticate(&name, password.as_bytes(), address, &stop_flag);
        drop(permit);
        authentication
    });
    let outcome = outcome.await.unwrap_or(Err(SystemUserRefusal::NoPam));
    Ok(outcome.map_err(|refusal| match refusal {
        SystemUserRefusal::NotAuthenticated
        | SystemUserRefusal::NoSession
        | SystemUserRefusal::NoHome
            if !server.is_root =>
        {
            SystemUserRefusal::NotRoot
        }
        refusal => refusal,
    }))
}

/// Sets the contained flag on drop.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns `name` if it is valid for a system user.
fn valid_system_name(name: &str) -> Option<&str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-@+".contains(c);
    let has_valid_start =
        name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    (has_valid_start && name.len() <= NAME_MAX_BYTES && name.chars().all(is_allowed))
        .then_some(name)
}

/// Opens the root of an authenticated user. Anonymous users share one open root directory.
fn open(server: &FtpServer, peer: SocketAddr, home: &Home) -> Option<Arc<RootDir>> {
    if let Some(root_dir) = &home.root_dir {
        return Some(Arc::clone(root_dir));
    }
    let shared_root = server.anonymous_root.borrow().upgrade();
    if let Some(root_dir) =
        shared_root.filter(|root_dir| home.is_anonymous && root_dir.is_root(&home.root))
    {
        return Some(root_dir);
    }
    match RootDir::open(&home.root) {
        Ok(root_dir) => {
            let root_dir = Arc::new(root_dir);
            if home.is_anonymous {
                server.anonymous_root.replace(Arc::downgrade(&root_dir));
            }
            Some(root_dir)
        }
        Err(error) => {
            log_refusal(server, peer, home, &error);
            None
        }
    }
}

fn log_refusal(server: &FtpServer, peer: SocketAddr, home: &Home, error: &io::Error) {
    let why = format!("cannot open root directory {}: {error}", home.root.display());
    server.log.write(&FtpEvent::Refused { from: peer, why });
}

fn log_in(
    server: &FtpServer,
    login: &Login,
    site: &Site,
    home: Home,
    root_dir: Arc<RootDir>,
    space: Option<Arc<Space>>,
) -> LoggedInUser {
    let settings = server.settings();
    let may_mail = site.has_mail && (!home.is_anonymous || settings.has_anonymous_mail);
    let spool = settings.spool.clone().filter(|_| may_mail);
    let access = if spool.is_some() { home.access.with_right(Right::Mail) } else { home.access };
    let limits = settings.partials;
    if home.session.is_some() {
        // The server does not know the home directories of system users in advance, so partial
        // uploads are trimmed at login.
        trim(&root_dir, None, limits, None);
    }
    let partials = (limits.count_max > 0).then(|| {
        let user =
            if home.is_anonymous { b"anonymous".to_vec() } else { login.user.as_bytes().to_vec() };
        Arc::new(Partials { root_dir: Arc::clone(&root_dir), space: space.clone(), user, limits })
    });
    let view = FileView {
        root_dir,
        partials,
        selected_partial: None,
        access: Arc::new(access),
        requires_world_readable: home.is_anonymous && server.is_root,
        space,
        file_max_bytes: settings.file_max_bytes,
        spool,
        word_formats: Arc::clone(&settings.word_formats),
    };
    let rate = home.bytes_per_second_max.or(settings.bytes_per_second_max);
    let pace = Rc::new(Cell::new(RateLimit::new(rate)));
    LoggedInUser { view, pace, is_anonymous: home.is_anonymous, _session: home.session }
}

type Opened = (Arc<RootDir>, Option<Arc<Space>>);

/// Returns the quota usage of a root, shared by all its users. The usage is counted when the first
/// user of the root logs in.
async fn space(
    server: &FtpServer,
    root: &Path,
    root_dir: Arc<RootDir>,
    quota: Option<u64>,
) -> io::Result<Opened> {
    let Some(limit) = quota else { return Ok((root_dir, None)) };
    let key: PathBuf = root.to_owned();
    if let Some(space) = server.spaces.borrow().get(&(key.clone(), limit)) {
        return Ok((root_dir, Some(Arc::clone(space))));
    }
    let count = tokio::task::spawn_blocking(move || {
        let space = Space::open(&root_dir, limit);
        (root_dir, Arc::new(space))
    });
    let (root_dir, space) = count.await.map_err(io::Error::other)?;
    // Another session may have counted the usage in the meantime and may already be writing files.
    let mut spaces = server.spaces.borrow_mut();
    let space = Arc::clone(spaces.entry((key, limit)).or_insert(space));
    Ok((root_dir, Some(space)))
}
