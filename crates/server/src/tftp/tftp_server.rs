//! State of the TFTP server: the running transfers and their limits.

use super::configuration::TftpSettings;
use super::running_transfer::RunningTransfer;
use crate::admission::{Admission, AdmissionRefusal};
use crate::log::{Log, ServeEvent};
use crate::root::Rights;
use crate::source::source;
use crate::traffic::{ProtocolTraffic, ServerProtocol};
use crate::transfer_log::TransferLog;
use anyhow::{Context, Result};
use carrier::EngineContext;
use carrier::meters::MeterRegistry;
use net::meter::Counter;
use os::beneath::RootDir;
use os::host::Host;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use transfer::tftp::UdpTransport;

/// File descriptors per transfer: its socket, its file and its directory.
const DESCRIPTORS_PER_TRANSFER: u64 = 3;

/// Time for transfers to end when the server shuts down.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Configuration of the TFTP server with its open root.
pub(crate) struct TftpPlan {
    pub(super) settings: TftpSettings,
    pub(super) root_dir: RootDir,
}

impl TftpPlan {
    /// Opens the root.
    ///
    /// # Errors
    ///
    /// Returns an error if the root is not a directory or not readable.
    pub(crate) fn prepare(settings: TftpSettings) -> Result<Self> {
        let root = settings.root.display();
        let root_dir = RootDir::open(&settings.root)
            .with_context(|| format!("cannot open root directory {root}"))?;
        Ok(Self { settings, root_dir })
    }

    /// Raises the limit of descriptors, and removes the temporary files of a crash.
    fn prepare_machine(&self, log: Log) {
        if let Some(why) = self.settings.unwritable_root() {
            log.write(&ServeEvent::UnwritableRoot { why });
        }
        let transfers_max = u64::try_from(self.settings.rules.sessions_max).unwrap_or(u64::MAX);
        let descriptors = transfers_max.saturating_mul(DESCRIPTORS_PER_TRANSFER);
        // If the limit cannot be raised, fewer transfers are possible at once.
        _ = os::process::allow_descriptors(descriptors.saturating_add(64));
        if self.settings.rights != Rights::ReadOnly {
            // Temporary files that cannot be removed only use disk space, so errors are ignored.
            _ = self.root_dir.sweep(b"/");
        }
    }
}

/// TFTP server.
pub(crate) struct TftpServer {
    plan: RefCell<Rc<TftpPlan>>,
    /// Whether the server runs as root. It then sends only files that every user may read.
    pub(super) is_root: bool,
    pub(super) admission: RefCell<Admission>,
    /// Meter of the requests. Each transfer has a meter of its own.
    context: RefCell<EngineContext>,
    /// Running transfers by the client's address and port.
    pub(super) transfers: RefCell<HashMap<SocketAddr, Rc<RunningTransfer>>>,
    pub(super) log: Log,
    pub(super) transfer_log: Rc<TransferLog>,
    /// Registry that displays the meters of the transfers.
    pub(super) registry: Arc<MeterRegistry>,
    /// User-space host that carries the transfers; `None` for the kernel's network stack.
    pub(super) host: OnceCell<Host>,
}

impl TftpServer {
    /// Creates a server without request sockets.
    ///
    /// # Errors
    ///
    /// Returns an error if the meter cannot be created.
    pub(crate) fn new(
        plan: TftpPlan,
        log: Log,
        transfer_log: Rc<TransferLog>,
        registry: &Arc<MeterRegistry>,
    ) -> Result<Self> {
        plan.prepare_machine(log);
        Ok(Self {
            admission: RefCell::new(Admission::new(plan.settings.rules.clone())),
            context: RefCell::new(EngineContext::published(registry, "TFTP requests")?),
            plan: RefCell::new(Rc::new(plan)),
            is_root: os::user::is_root(),
            transfers: RefCell::default(),
            log,
            transfer_log,
            registry: Arc::clone(registry),
            host: OnceCell::new(),
        })
    }

    /// Counts a refused request in the meters.
    pub(super) fn count(&self, counter: Counter) {
        self.context.borrow_mut().meter.count(counter);
    }

    /// Returns the settings and the root for new transfers.
    pub(super) fn plan(&self) -> Rc<TftpPlan> {
        Rc::clone(&self.plan.borrow())
    }

    /// Admits a transfer with `address` if a transfer slot is free or an unanswered transfer can be
    /// displaced.
    pub(crate) fn admit(&self, address: IpAddr) -> Result<(), AdmissionRefusal> {
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
    /// the first request.
    pub(crate) fn use_host(&self, host: &Host) {
        _ = self.host.set(host.clone());
    }

    /// Returns a socket for a transfer with `peer`, at the local address `at` if it is known, or on
    /// the user-space host.
    pub(super) fn transport(&self, at: Option<IpAddr>, peer: SocketAddr) -> Result<UdpTransport> {
        match self.host.get() {
            Some(host) => UdpTransport::open(peer, Some(host)),
            None => UdpTransport::kernel(at, peer).context("cannot open a UDP socket"),
        }
    }

    /// Returns the number of running transfers and the counts since the start.
    pub(crate) fn traffic(&self) -> ProtocolTraffic {
        self.admission.borrow().traffic(ServerProtocol::Tftp)
    }

    /// Adopts another configuration for new transfers. Running transfers are not affected.
    pub(crate) fn apply(&self, plan: TftpPlan) {
        plan.prepare_machine(self.log);
        self.admission.borrow_mut().set_rules(plan.settings.rules.clone());
        self.plan.replace(Rc::new(plan));
    }

    /// Stops all transfers, and gives them time to notify their clients.
    pub(crate) async fn close(&self) {
        self.transfers.borrow().values().for_each(|running| running.stop.request());
        let until = tokio::time::Instant::now() + CLOSE_TIMEOUT;
        while !self.transfers.borrow().is_empty() && tokio::time::Instant::now() < until {
            tokio::time::sleep(CLOSE_TIMEOUT / 50).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration_loader::ConfigurationLoader;
    use crate::flags::Flags;

    #[test]
    fn a_reload_applies_the_prefixes_and_the_root() {
        let mut flags = Flags { quiet: true, no_record: true, ..Flags::default() };
        flags.tftp.is_requested = true;
        flags.root.root = Some(std::env::temp_dir());
        let plan = |flags: &Flags| {
            let settings = ConfigurationLoader::open(flags).unwrap().tftp().unwrap().unwrap();
            TftpPlan::prepare(settings)
        };
        let registry = MeterRegistry::new("test");
        let transfer_log = Rc::new(TransferLog::new(None, flags.log()));
        let plan_of_flags = plan(&flags).unwrap();
        let server = TftpServer::new(plan_of_flags, flags.log(), transfer_log, &registry).unwrap();
        let client = IpAddr::from([192, 0, 2, 1]);
        assert_eq!(server.admit(client), Ok(()));
        flags.deny = vec!["192.0.2.0/24".parse().unwrap()];
        flags.root.root = Some("/".into());
        server.apply(plan(&flags).unwrap());
        assert_eq!(server.admit(client), Err(AdmissionRefusal::Prefix));
        assert!(server.plan().root_dir.is_root("/".as_ref()));
        flags.root.root = Some("/nonexistent".into());
        let error = plan(&flags).err().unwrap().to_string();
        assert_eq!(error, "cannot open root directory /nonexistent");
    }
}
