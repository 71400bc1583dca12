//! The TFTP server: files of one folder, to whoever may come.
//!
//! One socket for each place hears the requests (`door`); each transfer has a socket, a port and a
//! task of its own. Nothing is sent to many: a request that came by broadcast or multicast is
//! dropped in silence (RFC 1123 §4.2.3.5). What a request asks for comes back to whoever it says to
//! be from, so little is sent to who does not answer: the first packet, and that once again. What
//! is refused is answered once, by one short sentence; who finds no room, by nothing.
//!
//! Source addresses of requests can be forged. So a transfer that was never answered gives its place
//! to a new request when all are taken, the oldest first, and has no buffers but for its first packet.
//!
//! A name is looked up beneath the root and nowhere else (`os::jail`). As the servers of old do, one
//! that runs as root gives only what everybody on the machine may read. What may be written is
//! nothing (the default), what is not there yet, or everything; a file appears when it is
//! whole.

mod configuration;
mod door;
mod log;
mod request;

pub(super) use configuration::{Arguments, Settings, Table};

use super::admission::{Admission, Refusal};
use super::clerk::Clerk;
use super::folder::Rights;
use super::log::Log;
use super::metrics::{Protocol, Traffic};
use super::source::source;
use crate::files::tftp::{Stop, Wire};
use crate::meters::Board;
use anyhow::{Context, Result};
use door::Door;
use log::Event;
use os::host::Host;
use os::jail::Jail;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Descriptors of a transfer: its socket, its file, its folder.
const DESCRIPTORS_PER_TRANSFER: u64 = 3;

/// How long transfers have to end when the server does.
const CLOSING: Duration = Duration::from_millis(500);

/// The server.
pub(super) struct Server {
    settings: Settings,
    jail: Jail,
    /// Whether only what everybody may read is given.
    is_root: bool,
    admission: RefCell<Admission>,
    /// By who asked: its address and port.
    transfers: RefCell<HashMap<SocketAddr, Rc<Running>>>,
    log: Log,
    clerk: Rc<Clerk>,
    /// Where the meters of the transfers are shown.
    board: Arc<Board>,
    /// The host of our own that carries the transfers, if it is not this machine's.
    host: OnceCell<Host>,
}

/// A transfer under way.
struct Running {
    /// The datagram that asked for it.
    request: Vec<u8>,
    stop: Arc<Stop>,
    began: Instant,
    /// Whether anything has come from the port that asked.
    has_answered: Arc<AtomicBool>,
    /// Whether its place was given to another.
    has_lost_place: Cell<bool>,
}

impl Running {
    fn new(request: &[u8]) -> Self {
        Self {
            request: request.to_vec(),
            stop: Arc::default(),
            began: Instant::now(),
            has_answered: Arc::default(),
            has_lost_place: Cell::new(false),
        }
    }
}

impl Server {
    /// Opens the root.
    ///
    /// # Errors
    ///
    /// If it is no folder, or may not be read.
    pub(super) fn new(
        settings: Settings,
        log: Log,
        clerk: Rc<Clerk>,
        board: &Arc<Board>,
    ) -> Result<Self> {
        let root = settings.root.display();
        let jail = Jail::open(&settings.root)
            .with_context(|| format!("the root {root} cannot be served"))?;
        let wanted = settings.transfers_max.saturating_mul(DESCRIPTORS_PER_TRANSFER);
        // Who may not have so many serves fewer at once.
        _ = os::process::allow_descriptors(wanted.saturating_add(64));
        if settings.rights != Rights::ReadOnly {
            // What cannot be swept stays; it takes room and nothing else.
            _ = jail.sweep(b"/");
        }
        Ok(Self {
            admission: RefCell::new(Admission::new(settings.rules.clone())),
            settings,
            jail,
            is_root: os::user::is_root(),
            transfers: RefCell::default(),
            log,
            clerk,
            board: Arc::clone(board),
            host: OnceCell::new(),
        })
    }

    /// Lets a transfer with `address` begin, if there is a place, or one that was never answered.
    fn enter(&self, address: IpAddr) -> Result<(), Refusal> {
        let entered = self.admission.borrow_mut().enter(address);
        let same_source = match entered {
            Err(Refusal::Full) => None,
            Err(Refusal::SourceFull) => Some(source(address)),
            entered => return entered,
        };
        match self.drop_oldest_unanswered(same_source) {
            true => self.admission.borrow_mut().enter(address),
            false => entered,
        }
    }

    /// Ends the oldest transfer, of this source if there is one, that was never answered; returns
    /// whether there was any.
    fn drop_oldest_unanswered(&self, of_source: Option<IpAddr>) -> bool {
        let mut transfers = self.transfers.borrow_mut();
        let unanswered = transfers.iter().filter(|(from, running)| {
            !running.has_answered.load(Ordering::Relaxed)
                && of_source.is_none_or(|of| source(from.ip()) == of)
        });
        let oldest = unanswered.min_by_key(|(_, running)| running.began).map(|(from, _)| *from);
        let Some((from, running)) = oldest.and_then(|from| transfers.remove_entry(&from)) else {
            return false;
        };
        running.has_lost_place.set(true);
        running.stop.want();
        self.admission.borrow_mut().leave(from.ip());
        true
    }

    /// Serves by `host` instead of this machine's UDP. To be called before [`Self::serve`].
    pub(super) fn carry_by(&self, host: &Host) {
        _ = self.host.set(host.clone());
    }

    /// Returns a socket for a transfer with `peer`, at the address `at` of this machine if that is
    /// known, or of our own host.
    fn wire(&self, at: Option<IpAddr>, peer: SocketAddr) -> Result<Wire> {
        match self.host.get() {
            Some(host) => Wire::to(peer, Some(host)),
            None => Wire::kernel(at, peer).context("the kernel gives no UDP socket"),
        }
    }

    /// Returns how many transfers there are.
    pub(super) fn traffic(&self) -> Traffic {
        self.admission.borrow().traffic(Protocol::Tftp)
    }

    /// Serves until a socket fails.
    ///
    /// # Errors
    ///
    /// If nobody can listen at a place, in a sentence that says why.
    pub(super) async fn serve(self: Rc<Self>) -> Result<()> {
        let mut doors = JoinSet::new();
        let mut ports = Vec::new();
        for place in &self.settings.listen {
            let door = match self.host.get() {
                // It hears both families at one port.
                Some(_) if ports.contains(&place.port()) => continue,
                Some(host) => Door::of_host(host, place.port())?,
                None => Door::open(*place)?,
            };
            ports.push(place.port());
            let at = door.name()?;
            let (rights, root) = (self.settings.rights.words(), &self.settings.root);
            self.log.say(&Event::Serving { at, root: root.display().to_string(), rights });
            doors.spawn_local(door.attend(Rc::clone(&self)));
        }
        let failed = doors.join_next().await.transpose()?;
        failed.map_or(Ok(()), |error| Err(error).context("nobody can ask for files any more"))
    }

    /// Ends all transfers, and lets each say so to its far side.
    pub(super) async fn close(&self) {
        self.transfers.borrow().values().for_each(|running| running.stop.want());
        let until = tokio::time::Instant::now() + CLOSING;
        while !self.transfers.borrow().is_empty() && tokio::time::Instant::now() < until {
            tokio::time::sleep(CLOSING / 50).await;
        }
    }
}
