//! TFTP server: files below one root, without authentication.
//!
//! Each listen address has one socket for requests (`request_socket`); each transfer has a socket,
//! a port and a task of its own. Requests received by broadcast or multicast are silently dropped
//! (RFC 1123 §4.2.3.5). The source address of a request may be forged, so a client that does not
//! answer gets little data: the first packet and one repetition. A declined request gets one short
//! error packet; a request that is not admitted gets no answer.
//!
//! When all transfer slots are in use, a new request displaces the oldest transfer that has never
//! been answered. Such a transfer holds no buffers except for its first packet.
//!
//! Names are resolved below the root only (`os::beneath`). Like traditional servers, a server that
//! runs as root sends only files that every user of the machine may read. Depending on its
//! configuration, the server accepts no uploads (the default), only uploads of new files, or all
//! uploads. An uploaded file appears under its name when it is complete.

mod configuration;
mod request;
mod request_socket;
mod tftp_log;

pub(super) use configuration::{TftpSettings, TftpTable};

use super::admission::{Admission, AdmissionRefusal};
use super::log::Log;
use super::metrics::{ProtocolTraffic, ServerProtocol};
use super::root::Rights;
use super::source::source;
use super::transfer_log::TransferLog;
use anyhow::{Context, Result};
use carrier::meters::MeterRegistry;
use os::beneath::RootDir;
use os::host::Host;
use request_socket::RequestSocket;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tftp_log::TftpEvent;
use tokio::task::JoinSet;
use transfer::tftp::{Stop, UdpTransport};

/// File descriptors per transfer: its socket, its file and its directory.
const DESCRIPTORS_PER_TRANSFER: u64 = 3;

/// Time for transfers to end when the server shuts down.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// TFTP server.
pub(super) struct Server {
    settings: TftpSettings,
    root_dir: RootDir,
    /// Whether the server runs as root. It then sends only files that every user may read.
    is_root: bool,
    admission: RefCell<Admission>,
    /// Running transfers by the client's address and port.
    transfers: RefCell<HashMap<SocketAddr, Rc<RunningTransfer>>>,
    log: Log,
    transfer_log: Rc<TransferLog>,
    /// Registry that displays the meters of the transfers.
    registry: Arc<MeterRegistry>,
    /// User-space host that carries the transfers; `None` for the kernel's network stack.
    host: OnceCell<Host>,
}

/// Running transfer.
struct RunningTransfer {
    /// Datagram of the request.
    request: Vec<u8>,
    stop: Arc<Stop>,
    started_at: Instant,
    /// Whether any datagram has arrived from the client since the request.
    has_answered: Arc<AtomicBool>,
    /// Whether a new request has displaced the transfer.
    is_displaced: Cell<bool>,
}

impl RunningTransfer {
    fn new(request: &[u8]) -> Self {
        Self {
            request: request.to_vec(),
            stop: Arc::default(),
            started_at: Instant::now(),
            has_answered: Arc::default(),
            is_displaced: Cell::new(false),
        }
    }
}

impl Server {
    /// Opens the root.
    ///
    /// # Errors
    ///
    /// Returns an error if the root is not a directory or not readable.
    pub(super) fn new(
        settings: TftpSettings,
        log: Log,
        transfer_log: Rc<TransferLog>,
        registry: &Arc<MeterRegistry>,
    ) -> Result<Self> {
        let root = settings.root.display();
        let root_dir = RootDir::open(&settings.root)
            .with_context(|| format!("cannot open root directory {root}"))?;
        let descriptors = settings.transfers_max.saturating_mul(DESCRIPTORS_PER_TRANSFER);
        // If the limit cannot be raised, fewer transfers are possible at once.
        _ = os::process::allow_descriptors(descriptors.saturating_add(64));
        if settings.rights != Rights::ReadOnly {
            // Temporary files that cannot be removed only use disk space, so errors are ignored.
            _ = root_dir.sweep(b"/");
        }
        Ok(Self {
            admission: RefCell::new(Admission::new(settings.rules.clone())),
            settings,
            root_dir,
            is_root: os::user::is_root(),
            transfers: RefCell::default(),
            log,
            transfer_log,
            registry: Arc::clone(registry),
            host: OnceCell::new(),
        })
    }

    /// Admits a transfer with `address` if a transfer slot is free or an unanswered transfer can be
    /// displaced.
    fn admit(&self, address: IpAddr) -> Result<(), AdmissionRefusal> {
        let admission_result = self.admission.borrow_mut().admit(address);
        let same_source = match admission_result {
            Err(AdmissionRefusal::Full) => None,
            Err(AdmissionRefusal::SourceFull) => Some(source(address)),
            admission_result => return admission_result,
        };
        match self.drop_oldest_unanswered(same_source) {
            true => self.admission.borrow_mut().admit(address),
            false => admission_result,
        }
    }

    /// Ends the oldest unanswered transfer. If `of_source` is given, considers only transfers of
    /// that source. Returns whether a transfer was ended.
    fn drop_oldest_unanswered(&self, of_source: Option<IpAddr>) -> bool {
        let mut transfers = self.transfers.borrow_mut();
        let unanswered_transfers = transfers.iter().filter(|(from, running)| {
            !running.has_answered.load(Ordering::Relaxed)
                && of_source.is_none_or(|of| source(from.ip()) == of)
        });
        let oldest = unanswered_transfers
            .min_by_key(|(_, running)| running.started_at)
            .map(|(from, _)| *from);
        let Some((from, running)) = oldest.and_then(|from| transfers.remove_entry(&from)) else {
            return false;
        };
        running.is_displaced.set(true);
        running.stop.request();
        self.admission.borrow_mut().release(from.ip());
        true
    }

    /// Serves on `host` instead of the kernel's network stack. Must be called before
    /// [`Self::serve`].
    pub(super) fn use_host(&self, host: &Host) {
        _ = self.host.set(host.clone());
    }

    /// Returns a socket for a transfer with `peer`, at the local address `at` if it is known, or on
    /// the user-space host.
    fn transport(&self, at: Option<IpAddr>, peer: SocketAddr) -> Result<UdpTransport> {
        match self.host.get() {
            Some(host) => UdpTransport::open(peer, Some(host)),
            None => UdpTransport::kernel(at, peer).context("cannot open a UDP socket"),
        }
    }

    /// Returns the number of running transfers and the counts since the start.
    pub(super) fn traffic(&self) -> ProtocolTraffic {
        self.admission.borrow().traffic(ServerProtocol::Tftp)
    }

    /// Serves until a socket fails.
    ///
    /// # Errors
    ///
    /// Returns an error that names the address and the reason if a socket cannot be bound, or the
    /// error of a socket that failed.
    pub(super) async fn serve(self: Rc<Self>) -> Result<()> {
        let mut sockets = JoinSet::new();
        let mut ports = Vec::new();
        for address in &self.settings.listen {
            let socket = match self.host.get() {
                // A socket of the user-space host receives both address families.
                Some(_) if ports.contains(&address.port()) => continue,
                Some(host) => RequestSocket::of_host(host, address.port())?,
                None => RequestSocket::open(*address)?,
            };
            ports.push(address.port());
            let at = socket.name()?;
            let rights = self.settings.rights.name();
            let root = &self.settings.root;
            self.log.write(&TftpEvent::Serving { at, root: root.display().to_string(), rights });
            sockets.spawn_local(socket.serve(Rc::clone(&self)));
        }
        let first_end = sockets.join_next().await.transpose()?;
        first_end.map_or(Ok(()), |error| Err(error).context("cannot receive TFTP requests"))
    }

    /// Stops all transfers, and gives them time to notify their clients.
    pub(super) async fn close(&self) {
        self.transfers.borrow().values().for_each(|running| running.stop.request());
        let until = tokio::time::Instant::now() + CLOSE_TIMEOUT;
        while !self.transfers.borrow().is_empty() && tokio::time::Instant::now() < until {
            tokio::time::sleep(CLOSE_TIMEOUT / 50).await;
        }
    }
}
