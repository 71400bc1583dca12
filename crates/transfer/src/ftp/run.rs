//! Runs FTP operations: name lookup, host, runtime and signals.

use super::arrival_log::ArrivalLog;
use super::client_session::Shared;
use super::connector::{CancellationToken, Connector};
use super::error::FtpError;
use super::transfer_progress::TransferProgress;
use crate::recorder::TransferRecorder;
use crate::url::{Url, UrlScheme};
use anyhow::Result;
use carrier::meters::{self, MeterRegistry};
use carrier::{self, AddressFamilies, Route, Trust};
use protocols::ftp::user::{TlsUse, UserSettings};
use protocols::ftp::{Name, Secret};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

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
    /// Whether transfers are recorded.
    pub is_recording: bool,
    /// Whether only errors are reported.
    pub is_quiet: bool,
    /// Whether the replies of the server are reported.
    pub is_verbose: bool,
    /// Rate limit of each data connection, in bytes per second.
    pub bytes_per_second: Option<u64>,
    /// Receives messages for the user, each a sentence without its final period.
    pub message: fn(&str),
}

/// Scope of an interrupt (SIGINT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// An interrupt cancels the whole command.
    CancelsCommand,
    /// An interrupt cancels the operation in progress.
    CancelsOperation,
}

/// Runs `work` with a [`Connector`] for the host of `url`. Logs arrivals in `arrival_log`, if given.
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
        let mut signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
            .map(signal)
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
            .map_err(anyhow::Error::new)?;
        let cancellation = Arc::clone(&connector.cancellation);
        let registry = Arc::clone(&connector.shared.registry);
        let flushed = Arc::clone(&connector);
        let host = connector.shared.host.as_ref();
        let _published =
            host.map(|host| registry.register_block("own TCP/IP stack", host.shared_counters()));
        let server = tokio::spawn(meters::serve_long_run(registry));
        let signal_watcher = tokio::spawn(async move {
            let [interrupted, other, third] = signals.as_mut_slice() else { return };
            loop {
                let is_final = tokio::select! {
                    _ = interrupted.recv() => interrupt == Interrupt::CancelsCommand,
                    _ = other.recv() => true,
                    _ = third.recv() => true,
                };
                // A second signal exits immediately.
                if cancellation.stop(is_final) {
                    flushed.recorder.flush();
                    std::process::exit(3);
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
        _ => Some(Trust::new(&url.target.host, url.target.port, connection.ca.as_deref())?),
    };
    let (cancellation, stop) = CancellationToken::new();
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
            message: connection.message,
        },
        timeout,
        was_reached: AtomicBool::new(false),
        is_utime_refused: AtomicBool::new(false),
        is_active: AtomicBool::new(connection.is_active),
        quirks: Mutex::default(),
        cancellation: Arc::new(cancellation),
        attempts: connection.attempts.unwrap_or(DEFAULT_ATTEMPTS),
        retries_full_storage: connection.attempts.is_some(),
        is_quiet: connection.is_quiet,
        recorder: TransferRecorder::for_client(connection.is_recording, connection.message),
        is_flush_scheduled: AtomicBool::new(false),
        resolve_time,
        swept_directories: Mutex::default(),
    })
}
