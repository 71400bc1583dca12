//! Who has logged in, and how he proved it.

use super::Server;
use super::configuration::Settings;
use super::log::Event;
use super::tree::Tree;
use super::upload::Space;
use super::users::{Account, is_anonymous, rights_of};
use crate::files::pace::Pace;
use os::jail::Jail;
use protocols::application::ftp::VirtualPath;
use protocols::application::ftp::server::{self as engine, Login};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Somebody who is logged in.
pub(super) struct Guest {
    pub(super) tree: Tree,
    pub(super) pace: Rc<Cell<Pace>>,
    pub(super) is_anonymous: bool,
}

impl Guest {
    /// Returns what the engine is to know.
    pub(super) fn account(&self) -> engine::Account {
        engine::Account { rights: self.tree.rights, home: VirtualPath::root() }
    }
}

/// Finds out whether somebody may come in; a wrong answer is held back.
pub(super) async fn authenticate(
    server: &Rc<Server>,
    peer: SocketAddr,
    login: &Login,
) -> Option<Guest> {
    let settings = server.settings();
    if settings.has_anonymous && is_anonymous(login.user.as_bytes()) {
        return admit(server, peer, &settings, None).await;
    }
    let account = match settings.users.clone() {
        // Passwords are checked one at a time, so that who guesses does not take the machine.
        Some(users) => {
            let name = std::str::from_utf8(login.user.as_bytes()).ok().map(str::to_owned);
            let password = login.password.clone();
            let _turn = server.checks.acquire().await.ok()?;
            let proved = tokio::task::spawn_blocking(move || {
                users.prove(name.as_deref(), password.as_bytes())
            });
            proved.await.ok()?.map(|(_, account)| account)
        }
        None => None,
    };
    if account.is_none() {
        let now = std::time::Instant::now();
        let delay = server.admission.borrow_mut().note_failure(peer.ip(), now);
        tokio::time::sleep(delay).await;
        return None;
    }
    admit(server, peer, &settings, account).await
}

/// Opens the root of who has proved himself.
async fn admit(
    server: &Server,
    peer: SocketAddr,
    settings: &Settings,
    account: Option<Account>,
) -> Option<Guest> {
    let is_anonymous = account.is_none();
    let (root, rights, quota, rate) = match account {
        Some(account) => (
            account.root,
            rights_of(account.rights),
            account.quota_bytes,
            account.bytes_per_second_max.or(settings.bytes_per_second_max),
        ),
        None => {
            let rate = settings.bytes_per_second_max;
            (settings.root.clone()?, settings.rights, settings.quota_bytes, rate)
        }
    };
    let opened = match Jail::open(&root) {
        Ok(jail) => space(server, &root, Arc::new(jail), quota).await,
        Err(error) => Err(error),
    };
    let (jail, space) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            let why = format!("the root {} cannot be served: {error}", root.display());
            server.log.say(&Event::Refused { from: peer, why });
            return None;
        }
    };
    let tree = Tree {
        jail,
        rights,
        is_for_all: is_anonymous && server.is_root,
        space,
        file_max_bytes: settings.file_max_bytes,
    };
    Some(Guest { tree, pace: Rc::new(Cell::new(Pace::new(rate))), is_anonymous })
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
