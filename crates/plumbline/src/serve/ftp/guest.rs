//! Who has logged in, and how he proved it.

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
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// The longest name of a user of the machine; ours.
const NAME_MAX_BYTES: usize = 64;

/// Somebody who is logged in.
pub(super) struct Guest {
    pub(super) tree: Tree,
    pub(super) pace: Rc<Cell<Pace>>,
    pub(super) is_anonymous: bool,
    /// A user of the machine has one for as long as he is here.
    _session: Option<OpenSession>,
}

impl Guest {
    /// Returns what the engine is to know.
    pub(super) fn account(&self) -> engine::Account {
        engine::Account { rights: self.tree.access.anywhere(), home: VirtualPath::root() }
    }
}

/// Where somebody is at home here.
struct Home {
    root: PathBuf,
    /// The jail of the root, where it is open already.
    jail: Option<Arc<Jail>>,
    access: Access,
    quota_bytes: Option<u64>,
    bytes_per_second_max: Option<u64>,
    is_anonymous: bool,
    session: Option<OpenSession>,
}

impl Home {
    fn of_account(account: Account) -> Self {
        // It was looked at when the file was read.
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

    /// That of a user of the machine, whose jail it is; what he may there his rights at files say.
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

/// Lets somebody in at once who need not prove who he is, where nothing has to be waited for.
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

/// Finds out whether somebody may come in; a wrong answer is held back.
pub(super) async fn authenticate(
    server: &Rc<Server>,
    peer: SocketAddr,
    login: &Login,
    site: &Site,
) -> Option<Guest> {
    let settings = server.settings();
    let home = if site.has_anonymous && is_anonymous(login.user.as_bytes()) {
        Home::of_anonymous(site)
    } else {
        prove(server, peer, &settings, site, login).await
    };
    let Some(home) = home else {
        let now = std::time::Instant::now();
        let delay = server.admission.borrow_mut().note_failure(peer.ip(), now);
        tokio::time::sleep(delay).await;
        return None;
    };
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

/// Returns the home of whoever proves who he is. A name that is in the file is that user's alone.
async fn prove(
    server: &Server,
    peer: SocketAddr,
    settings: &Settings,
    site: &Site,
    login: &Login,
) -> Option<Home> {
    let system = settings.system.clone().filter(|_| site.has_system_users);
    let users = site.users.clone();
    let name = std::str::from_utf8(login.user.as_bytes()).ok().map(str::to_owned);
    let password = login.password.clone();
    // Passwords are checked one at a time, so that who guesses does not take the machine.
    let _turn = server.checks.acquire().await.ok()?;
    let proved = tokio::task::spawn_blocking(move || {
        let password = password.as_bytes();
        let name = name.as_deref();
        // All are asked whatever the first says, so that it takes as long for every name.
        let account = users.as_ref().map(|users| users.prove(name, password));
        let of_system = system.as_ref().map(|system| match name_in(name.unwrap_or_default()) {
            Some(name) => system.admit(name, password, peer.ip()),
            None => Err(Refusal::NotProved),
        });
        let is_in_file = match (&users, name) {
            (Some(users), Some(name)) => users.has(name),
            _ => false,
        };
        match (account.flatten(), of_system) {
            (Some((_, account)), _) => Ok(Home::of_account(account)),
            (None, Some(home)) if !is_in_file => home.map(Home::of_system),
            _ => Err(Refusal::NotProved),
        }
    });
    match proved.await.ok()? {
        Ok(home) => Some(home),
        Err(Refusal::NotProved) => None,
        Err(refusal) => {
            let why = refusal.why().to_owned();
            server.log.say(&Event::Refused { from: peer, why });
            None
        }
    }
}

/// Returns a name that a user of the machine may have.
fn name_in(name: &str) -> Option<&str> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "._-@+".contains(c);
    let begins = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    (begins && name.len() <= NAME_MAX_BYTES && name.chars().all(is_letter)).then_some(name)
}

/// Opens the root of who has proved himself; anonymous users share one.
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
    let why = format!("the root {} cannot be served: {error}", home.root.display());
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
        // Nobody else knows where the home is.
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

/// Finds the room of a root, which all who are in it share; it is counted when the first comes.
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
    // Another may have counted meanwhile, and has begun to write.
    let mut spaces = server.spaces.borrow_mut();
    let space = Arc::clone(spaces.entry((key, limit)).or_insert(space));
    Ok((jail, Some(space)))
}
