//! State of the FTP server, which all sessions share.

use super::configuration::FtpSettings;
use super::default_tls::{DefaultTls, PreparedTls, prepare_tls};
use super::ftp_log::FtpEvent;
use super::space::Space;
use super::tickets;
use crate::admission::Admission;
use crate::fair_queue::{FairQueue, Limits, PASSWORD_CHECKS};
use crate::log::{Log, ServeEvent};
use crate::metered::Metered;
use crate::traffic::{ProtocolTraffic, ServerProtocol};
use crate::transfer_log::TransferLog;
use anyhow::Result;
use carrier::meters::MeterRegistry;
use carrier::{BorrowedContext, EngineContext};
use os::beneath::RootDir;
use os::host::Host;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// Size of the read buffer. All sessions share one buffer, because only one session reads at a
/// time.
const SCRATCH_LEN: usize = 256 * 1024;

/// File descriptors per session: two connections, a listener, a file, its directory and the root.
const DESCRIPTORS_PER_SESSION: u64 = 6;

/// Limits of PAM checks. Each check runs in a process of its own, which may wait for a directory
/// server.
const SYSTEM_CHECKS: Limits = Limits { running_max: 8, waiting_max: 64, waiting_per_source_max: 2 };

/// Time for sessions to log and record their aborted transfers.
const ABORT_TIMEOUT: Duration = Duration::from_millis(300);

/// Interval at which [`FtpServer::close`] checks whether all sessions have ended.
const CLOSE_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Configuration of the FTP server whose roots and certificates can be served.
pub(crate) struct FtpPlan {
    pub(super) settings: FtpSettings,
    pub(super) tls: PreparedTls,
}

impl FtpPlan {
    /// Checks the roots and prepares TLS.
    ///
    /// # Errors
    ///
    /// Returns an error if a root cannot be opened, or if TLS is required and not available.
    pub(crate) fn prepare(settings: FtpSettings) -> Result<Self> {
        settings.check_roots()?;
        Ok(Self { tls: prepare_tls(&settings)?, settings })
    }

    /// Returns the SHA-256 fingerprint of the certificate, if the server uses TLS.
    pub(crate) fn certificate(&self) -> Option<&str> {
        self.tls.certificate.as_deref()
    }

    /// Returns the number of connections that a user-space host needs for all sessions: per session
    /// a control connection, a data connection, and a data connection that is closing.
    pub(crate) fn connections_max(&self) -> usize {
        self.settings.rules.sessions_max.saturating_mul(3)
    }
}

/// Phase of the shutdown of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shutdown {
    /// The server is not shutting down.
    #[default]
    Running,
    /// Running transfers continue; other sessions are closed.
    Draining,
    /// Transfers are aborted.
    Aborting,
}

/// FTP server.
pub(crate) struct FtpServer {
    pub(super) settings: RefCell<Rc<FtpSettings>>,
    pub(super) is_root: bool,
    pub(super) admission: RefCell<Admission>,
    pub(super) context: RefCell<EngineContext>,
    pub(super) scratch: RefCell<Vec<u8>>,
    /// Queue of password checks, which run one at a time.
    pub(super) checks: FairQueue,
    /// Queue of PAM checks, separate from `checks`: a PAM module that hangs delays system users
    /// only.
    pub(super) system_checks: FairQueue,
    /// Queue of hashes and other long operations on files.
    pub(super) long_work: FairQueue,
    /// Queue of listings of large directories.
    pub(super) listings: FairQueue,
    /// Queue of file copies for uploads that continue a file, and of mail messages being started.
    pub(super) copies: FairQueue,
    /// Root of anonymous users, while any of them is logged in.
    pub(super) anonymous_root: RefCell<Weak<RootDir>>,
    /// Quota usage of each root with a quota.
    pub(super) spaces: RefCell<HashMap<(PathBuf, u64), Arc<Space>>>,
    pub(super) tls: RefCell<Option<DefaultTls>>,
    /// User-space host that carries the connections; `None` for the kernel's network stack.
    pub(super) host: OnceCell<Host>,
    /// Families of sessions: each session accepts the TLS tickets of the other sessions of its user
    /// and address.
    pub(super) families: RefCell<tickets::Families>,
    pub(super) shutdown: watch::Sender<Shutdown>,
    /// Number of passive ports held by each source.
    pub(super) port_shares: RefCell<HashMap<IpAddr, usize>>,
    pub(super) log: Log,
    pub(super) transfer_log: Rc<TransferLog>,
}

impl Metered for FtpServer {
    fn engine_context(&self) -> &RefCell<EngineContext> {
        &self.context
    }
}

impl FtpServer {
    /// Creates a server without listeners.
    ///
    /// # Errors
    ///
    /// Returns an error if the meter cannot be created.
    pub(crate) fn new(
        plan: FtpPlan,
        log: Log,
        transfer_log: Rc<TransferLog>,
        registry: &Arc<MeterRegistry>,
    ) -> Result<Self> {
        let FtpPlan { settings, tls } = plan;
        allow_descriptors(&settings, log);
        report_notes(&settings, &tls, log);
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
            checks: FairQueue::new(PASSWORD_CHECKS),
            system_checks: FairQueue::new(SYSTEM_CHECKS),
            long_work,
            listings,
            copies,
            anonymous_root: RefCell::default(),
            spaces: RefCell::default(),
            tls: RefCell::new(tls.tls),
            host: OnceCell::new(),
            families: RefCell::default(),
            shutdown: watch::Sender::default(),
            port_shares: RefCell::default(),
            log,
            transfer_log,
        })
    }

    pub(super) fn settings(&self) -> Rc<FtpSettings> {
        Rc::clone(&self.settings.borrow())
    }

    /// Returns the text of the greeting.
    #[cfg(test)]
    pub(crate) fn greeting(&self) -> String {
        self.settings().engine.greeting.clone()
    }

    /// Serves on `host` instead of the kernel's network stack. Must be called before
    /// the first session.
    pub(crate) fn use_host(&self, host: &Host) {
        _ = self.host.set(host.with_profile(carrier::FILES));
    }

    pub(super) fn host(&self) -> Option<&Host> {
        self.host.get()
    }

    /// Returns the number of open sessions and the counts since the start.
    pub(crate) fn traffic(&self) -> ProtocolTraffic {
        self.admission.borrow().traffic(ServerProtocol::Ftp)
    }

    /// Borrows the clock, the random number generator and the meter. Must not be held across an
    /// await.
    pub(super) fn context(&self) -> BorrowedContext<'_> {
        BorrowedContext::from(&self.context)
    }

    /// Replaces the settings for new sessions and logins. Listeners and open sessions are not
    /// affected.
    pub(crate) fn apply(&self, plan: FtpPlan) {
        let FtpPlan { settings, tls } = plan;
        if settings.rules.sessions_max != self.settings().rules.sessions_max {
            allow_descriptors(&settings, self.log);
        }
        report_notes(&settings, &tls, self.log);
        self.admission.borrow_mut().set_rules(settings.rules.clone());
        self.tls.replace(tls.tls);
        self.settings.replace(Rc::new(settings));
    }

    /// Closes all sessions; running transfers get a grace period, and are then aborted.
    pub(crate) async fn close(&self) {
        self.shutdown.send_replace(Shutdown::Draining);
        self.await_end_of_sessions(self.settings().grace_period).await;
        self.shutdown.send_replace(Shutdown::Aborting);
        self.await_end_of_sessions(ABORT_TIMEOUT).await;
    }

    async fn await_end_of_sessions(&self, limit: Duration) {
        let until = tokio::time::Instant::now() + limit;
        while self.admission.borrow().sessions() > 0 && tokio::time::Instant::now() < until {
            tokio::time::sleep(CLOSE_POLL_INTERVAL).await;
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        *self.shutdown.borrow() >= Shutdown::Draining
    }

    /// Returns whether transfers are aborted because the server shuts down.
    pub(super) fn is_aborting(&self) -> bool {
        *self.shutdown.borrow() == Shutdown::Aborting
    }
}

/// Raises the limit of descriptors to that of all sessions, or logs how many sessions are possible.
fn allow_descriptors(settings: &FtpSettings, log: Log) {
    let sessions = u64::try_from(settings.rules.sessions_max).unwrap_or(u64::MAX);
    let descriptors = sessions.saturating_mul(DESCRIPTORS_PER_SESSION).saturating_add(128);
    if os::process::allow_descriptors(descriptors).is_err() {
        let allowed = os::process::descriptors_max().unwrap_or(u64::MAX);
        let sessions = (allowed / DESCRIPTORS_PER_SESSION).min(sessions);
        log.write(&FtpEvent::FewDescriptors { allowed, sessions });
    }
}

/// Logs the parts of the configuration that users of the server may not expect.
fn report_notes(settings: &FtpSettings, tls: &PreparedTls, log: Log) {
    for why in settings.unwritable_roots() {
        log.write(&ServeEvent::UnwritableRoot { why });
    }
    if settings.system_users_note().is_some() {
        log.write(&FtpEvent::NoSystemUsers);
    }
    if let Some(because) = settings.excludes_anonymous {
        log.write(&FtpEvent::NoAnonymous { because });
    }
    if let Some(why) = &tls.no_tls {
        log.write(&FtpEvent::NoTls { why: why.clone() });
    }
}
