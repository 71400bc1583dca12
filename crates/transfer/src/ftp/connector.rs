//! Connector: the server, the login and the options of all sessions, and the runtime in which they
//! run.
//!
//! Transient failures are retried: four attempts by default, with delays of one, two and four
//! seconds. Insufficient storage on the server is retried only if the user gives a number of
//! attempts. Permanent failures are returned at once. Until a connection has succeeded, a refused
//! connection counts as permanent: the host or port is wrong, or the server is not running. Until a
//! login has succeeded, a server that sends no greeting counts as permanent, unless the user gives a
//! number of attempts: the port is probably that of another protocol.

use super::arrival_log::ArrivalLog;
use super::error::FtpError;
use super::file_options::FtpOptions;
use super::transfer_progress::TransferProgress;
use crate::recorder::TransferRecorder;
use crate::termination::{TerminationSignals, exit_code};
use crate::url::{Url, UrlScheme};
use anyhow::Result;
use carrier::meters::{self, MeterRegistry};
use carrier::{self, AddressFamilies, HostTarget, Route, Trust};
use os::host::Host;
use protocols::ftp::user::{ServerQuirks, TlsUse, UserSettings};
use protocols::ftp::{Name, Secret};
use records::severity::Severity;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::signal::unix::SignalKind;
use tokio::sync::watch;
use tokio::time::sleep;

/// Maximum number of connections of the user-space host: control and data of each session.
const CONNECTIONS_MAX: usize = 160;
/// Default number of attempts.
const DEFAULT_ATTEMPTS: u32 = 4;

/// Credentials for one login.
#[derive(Clone, Debug)]
pub struct FtpCredentials {
    /// User name.
    pub user: Name,
    /// Password.
    pub password: Secret,
    /// Account, if the server requests one.
    pub account: Option<Secret>,
}

/// How the sessions connect and log in.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// Route to the server.
    pub via: Route,
    /// Allowed address families.
    pub families: AddressFamilies,
    /// Timeout in seconds for the connection, for each reply and for a stalled transfer.
    pub timeout_s: u32,
    /// Number of attempts per operation; if given, insufficient storage on the server is retried
    /// too.
    pub attempts: Option<u32>,
    /// Credentials of the login.
    pub credentials: FtpCredentials,
    /// Whether the server opens the data connections (active mode).
    pub is_active: bool,
    /// File of trusted certificate authorities (PEM).
    pub ca: Option<PathBuf>,
    /// Whether any certificate of the server is accepted.
    pub is_insecure: bool,
    /// Whether transfers are recorded.
    pub is_recording: bool,
    /// Whether only errors are reported.
    pub is_quiet: bool,
    /// Whether the replies of the server are reported.
    pub is_verbose: bool,
    /// Rate limit of each data connection, in bytes per second.
    pub bytes_per_second: Option<u64>,
    /// Receives messages for the user, each a sentence without its final period.
    pub message: fn(Severity, &str),
}

/// Scope of an interrupt (SIGINT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// An interrupt cancels the whole command.
    CancelsCommand,
    /// An interrupt cancels the operation in progress.
    CancelsOperation,
}

/// Delay before the second attempt. Each further delay is twice as long.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Maximum delay between attempts.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

/// Flag that cancels the operations in progress.
#[derive(Debug)]
pub(crate) struct CancellationToken {
    sender: watch::Sender<bool>,
    /// Whether no further operation may start.
    is_final: AtomicBool,
}

impl CancellationToken {
    /// Creates a token that has not been cancelled, and the receiver that sessions watch.
    pub(crate) fn new() -> (Self, watch::Receiver<bool>) {
        let (sender, stop) = watch::channel(false);
        (Self { sender, is_final: AtomicBool::new(false) }, stop)
    }

    /// Cancels the operations in progress and, if `is_final`, all further operations. Returns
    /// whether a cancellation was already pending.
    pub(crate) fn stop(&self, is_final: bool) -> bool {
        self.is_final.fetch_or(is_final, Ordering::Relaxed);
        self.sender.send_replace(true)
    }

    /// Clears a cancellation that is not final. Returns whether further operations may start.
    fn clear(&self) -> bool {
        let is_final = self.is_final.load(Ordering::Relaxed);
        if !is_final {
            self.sender.send_replace(false);
        }
        !is_final
    }
}

/// State shared by several sessions.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    /// User-space host; `None` for the kernel's TCP.
    pub(crate) host: Option<Host>,
    /// Rate limit of each data connection.
    pub(crate) bytes_per_second: Option<u64>,
    /// Bytes moved by all sessions.
    pub(crate) progress: TransferProgress,
    /// Log of arrivals, if the transfer is measured.
    pub(crate) arrival_log: Option<Arc<Mutex<ArrivalLog>>>,
    /// Whether the operations in progress are cancelled.
    pub(crate) stop: watch::Receiver<bool>,
    /// Whether the server's replies are printed.
    pub(crate) is_verbose: Arc<AtomicBool>,
    /// Registry on which the meters are displayed.
    pub(crate) registry: Arc<MeterRegistry>,
    /// Receives messages for the user, each a sentence without its final period.
    pub(crate) message: fn(Severity, &str),
}

/// Server, login and options from which sessions are opened.
#[derive(Debug)]
pub struct Connector {
    /// Host and port of the server.
    pub(crate) target: HostTarget,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) settings: UserSettings,
    pub(crate) trust: Option<Trust>,
    /// State that all sessions share.
    pub(crate) shared: Shared,
    pub(crate) timeout: Duration,
    /// Whether the server has refused to set the time of a file by SITE UTIME.
    pub(crate) is_utime_refused: AtomicBool,
    /// Whether the server connects to the client for data (active mode).
    pub(crate) is_active: AtomicBool,
    /// Whether a connection to the server has succeeded.
    pub(crate) was_reached: AtomicBool,
    /// Whether a login to the server has succeeded.
    pub(crate) was_logged_in: AtomicBool,
    /// Properties of the server, learned from the sessions.
    pub(crate) quirks: Mutex<ServerQuirks>,
    /// Cancels the operations of all sessions.
    pub(crate) cancellation: Arc<CancellationToken>,
    /// Maximum number of attempts per operation.
    pub(crate) attempts: u32,
    /// Whether operations are also retried after insufficient storage on the server.
    pub(crate) retries_full_storage: bool,
    /// Whether only errors are reported.
    pub(crate) is_quiet: bool,
    pub(crate) recorder: TransferRecorder,
    /// Whether a write of the buffered records is scheduled.
    pub(crate) is_flush_scheduled: AtomicBool,
    /// Duration of the name resolution.
    pub(crate) resolve_time: Duration,
    /// Directories from which the drafts (temporary files) of killed processes have been removed.
    pub(crate) swept_directories: Mutex<BTreeSet<Vec<u8>>>,
}

impl Connector {
    /// Returns the host and port of the server.
    pub fn target(&self) -> &HostTarget {
        &self.target
    }

    /// Returns whether only errors are reported.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Returns whether the replies of the server are reported.
    pub fn is_verbose(&self) -> bool {
        self.shared.is_verbose.load(Ordering::Relaxed)
    }

    /// Changes whether the replies of the server are reported. Returns the new value.
    pub fn toggle_verbose(&self) -> bool {
        !self.shared.is_verbose.fetch_xor(true, Ordering::Relaxed)
    }

    /// Returns whether the server connects to the client for data (active mode).
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// Selects active or passive mode for new sessions. Returns whether the mode has changed.
    pub fn set_active(&self, is_active: bool) -> bool {
        self.is_active.swap(is_active, Ordering::Relaxed) != is_active
    }

    /// Returns the progress of all transfers.
    pub fn progress(&self) -> &TransferProgress {
        &self.shared.progress
    }

    /// Waits until the operations in progress are cancelled. Cancel safe.
    pub async fn cancelled(&self) {
        let mut stop = self.shared.stop.clone();
        // The sender belongs to the connector, so the channel stays open.
        _ = stop.wait_for(|is_cancelled| *is_cancelled).await;
    }

    /// Clears a cancellation that is not final. Returns whether further operations may start.
    pub fn clear_cancellation(&self) -> bool {
        self.cancellation.clear()
    }

    /// If `--continue` is given, prints a notice that files cannot be resumed in the selected
    /// representation.
    pub fn report_whole_transfers(&self, options: &FtpOptions) {
        let FtpOptions { continues, representation, .. } = options;
        if *continues && !representation.keeps_octets() && !self.is_quiet {
            (self.shared.message)(
                Severity::Note,
                &format!(
                    "cannot resume because remote and local sizes are not comparable: whole files \
                     are transferred in TYPE {}, MODE {} and STRU {}",
                    representation.data_type, representation.mode, representation.structure
                ),
            );
        }
    }

    /// Waits before the attempt after attempt number `attempt`. Returns false if no further attempt
    /// follows.
    pub(crate) async fn wait_before_retry(&self, attempt: u32, error: &FtpError) -> bool {
        let is_storage_retry = self.retries_full_storage && error.is_insufficient_storage();
        let is_expected_to_answer =
            self.retries_full_storage || self.was_logged_in.load(Ordering::Relaxed);
        if error.is_missing_greeting() && !is_expected_to_answer {
            return false;
        }
        if attempt >= self.attempts || !(error.is_transient() || is_storage_retry) {
            return false;
        }
        let delay =
            FIRST_RETRY_DELAY.saturating_mul(1 << (attempt - 1).min(5)).min(MAX_RETRY_DELAY);
        if !self.is_quiet {
            let sentence = error.sentence();
            (self.shared.message)(
                Severity::Warning,
                &format!("{sentence}; attempt {} follows in {} s", attempt + 1, delay.as_secs()),
            );
        }
        tokio::select! {
            () = sleep(delay) => true,
            () = self.cancelled() => false,
        }
    }
}

/// Runs `work` with a [`Connector`] for the host of `url`. Logs arrivals in `arrival_log`, if
/// given.
///
/// # Errors
///
/// Returns the error of `work`, or an error if the name has no address, if a device cannot be
/// opened, or if the settings are invalid.
pub fn run<T>(
    url: &Url,
    settings: &ConnectionSettings,
    arrival_log: Option<Arc<Mutex<ArrivalLog>>>,
    interrupt: Interrupt,
    work: impl AsyncFnOnce(Arc<Connector>) -> Result<T, FtpError>,
) -> Result<T, FtpError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| FtpError::Local(error.into()))?;
    let result = runtime.block_on(async {
        let connector = Arc::new(new_connector(url, settings, arrival_log)?);
        let mut signals = TerminationSignals::new().map_err(anyhow::Error::new)?;
        let cancellation = Arc::clone(&connector.cancellation);
        let registry = Arc::clone(&connector.shared.registry);
        let flushed = Arc::clone(&connector);
        let host = connector.shared.host.as_ref();
        let _published =
            host.map(|host| registry.register_block("own TCP/IP stack", host.shared_counters()));
        let server = tokio::spawn(meters::serve_long_run(registry));
        let signal_watcher = tokio::spawn(async move {
            loop {
                let is_interrupt = signals.recv().await == SignalKind::interrupt();
                let is_final = !is_interrupt || interrupt == Interrupt::CancelsCommand;
                // A second signal exits immediately.
                if cancellation.stop(is_final) {
                    flushed.recorder.flush();
                    std::process::exit(exit_code().unwrap_or_default().into());
                }
            }
        });
        let result = work(Arc::clone(&connector)).await;
        connector.recorder.flush();
        signal_watcher.abort();
        server.abort();
        if let Some(host) = &connector.shared.host {
            // After the time limit, unsent data of the user-space host is discarded.
            _ = tokio::time::timeout(connector.timeout, host.drained()).await;
        }
        result
    });
    // A thread that is blocked on a pipe keeps running until the process exits.
    runtime.shutdown_background();
    result
}

fn new_connector(
    url: &Url,
    connection: &ConnectionSettings,
    arrival_log: Option<Arc<Mutex<ArrivalLog>>>,
) -> Result<Connector, FtpError> {
    let UrlScheme::Ftp(tls, _) = url.scheme else {
        return Err(FtpError::InvalidRequest(format!(
            "{url} is not an FTP URL: only plumb get and plumb put support TFTP"
        )));
    };
    let FtpCredentials { user, password, account } = connection.credentials.clone();
    let began = Instant::now();
    let resolved = carrier::addresses(&url.target, connection.families, &connection.via, None)?;
    let resolve_time = began.elapsed();
    let addresses = resolved.map_err(|none| FtpError::NoAddress(none.to_string()))?;
    let host = carrier::open_host(&connection.via, CONNECTIONS_MAX, carrier::FILES)?;
    let registry = MeterRegistry::new(url.to_string());
    let timeout = Duration::from_secs(connection.timeout_s.into());
    let mut settings = UserSettings::new(user, password);
    settings.account = account;
    settings.tls = tls;
    settings.may_listen = true;
    settings.reply_timeout = timeout;
    settings.stall_timeout = timeout;
    let trust = match tls {
        TlsUse::Never => None,
        _ => {
            let trust = Trust::new(&url.target.host, url.target.port, connection.ca.as_deref())?;
            Some(if connection.is_insecure { trust.without_verification() } else { trust })
        }
    };
    let (cancellation, stop) = CancellationToken::new();
    let message = connection.message;
    Ok(Connector {
        target: url.target.clone(),
        addresses,
        settings,
        trust,
        shared: Shared {
            host,
            bytes_per_second: connection.bytes_per_second,
            progress: TransferProgress::default(),
            arrival_log,
            stop,
            is_verbose: Arc::new(AtomicBool::new(connection.is_verbose)),
            registry,
            message,
        },
        timeout,
        was_reached: AtomicBool::new(false),
        was_logged_in: AtomicBool::new(false),
        is_utime_refused: AtomicBool::new(false),
        is_active: AtomicBool::new(connection.is_active),
        quirks: Mutex::default(),
        cancellation: Arc::new(cancellation),
        attempts: connection.attempts.unwrap_or(DEFAULT_ATTEMPTS),
        retries_full_storage: connection.attempts.is_some(),
        is_quiet: connection.is_quiet,
        recorder: TransferRecorder::for_client(connection.is_recording, move |text| {
            message(Severity::Warning, text);
        }),
        is_flush_scheduled: AtomicBool::new(false),
        resolve_time,
        swept_directories: Mutex::default(),
    })
}
