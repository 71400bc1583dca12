//! Context of each FTP command: server, account, runtime and signals.

use super::account::FtpCredentials;
use super::client::{CancellationToken, Connector};
use super::client_session::Shared;
use super::command_options::ConnectionOptions;
use super::data_transfer::ArrivalLog;
use super::error::FtpError;
use crate::exit;
use crate::files::progress::Progress;
use crate::files::url::{Url, UrlScheme};
use crate::transfer_recorder::TransferRecorder;
use anyhow::Result;
use carrier::meters::{self, MeterRegistry};
use carrier::{self, Trust};
use protocols::ftp::user::{TlsUse, UserSettings};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// Maximum number of connections of the user-space host: control and data of each session.
const CONNECTIONS_MAX: usize = 160;
/// Default number of attempts.
const DEFAULT_ATTEMPTS: u32 = 4;
/// Interval at which the progress display is updated.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Scope of an interrupt (SIGINT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// An interrupt cancels the whole command.
    CancelsCommand,
    /// An interrupt cancels the operation in progress.
    CancelsOperation,
}

/// Runs `work` with a [`Connector`] for the host of `url`, and prints any error.
pub(super) fn run_command<T>(
    url: &Url,
    connection: &ConnectionOptions,
    bytes_per_second: Option<u64>,
    work: impl AsyncFnOnce(Arc<Connector>) -> Result<T, FtpError>,
) -> Result<T, exit::Failure> {
    run_command_with(url, connection, bytes_per_second, Interrupt::CancelsCommand, work)
}

/// Like [`run_command`], with the given scope of an interrupt.
pub(super) fn run_command_with<T>(
    url: &Url,
    connection: &ConnectionOptions,
    bytes_per_second: Option<u64>,
    interrupt: Interrupt,
    work: impl AsyncFnOnce(Arc<Connector>) -> Result<T, FtpError>,
) -> Result<T, exit::Failure> {
    run_command_unreported(url, connection, bytes_per_second, None, interrupt, work)
        .map_err(|error| report_error(&error))
}

/// Like [`run_command_with`], but returns the error instead of printing it. Logs arrivals in
/// `arrival_log`, if given.
pub(super) fn run_command_unreported<T>(
    url: &Url,
    connection: &ConnectionOptions,
    bytes_per_second: Option<u64>,
    arrival_log: Option<Arc<Mutex<ArrivalLog>>>,
    interrupt: Interrupt,
    work: impl AsyncFnOnce(Arc<Connector>) -> Result<T, FtpError>,
) -> Result<T, FtpError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| FtpError::Local(error.into()))?;
    let result = runtime.block_on(async {
        let connector = Arc::new(new_connector(url, connection, bytes_per_second, arrival_log)?);
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

/// Prints an error and returns its failure class. The error of a closed standard output is not
/// printed.
pub(super) fn report_error(error: &FtpError) -> exit::Failure {
    if !error.is_closed_stdout() {
        exit::print_error(&anyhow::Error::msg(error.sentence()));
    }
    error.failure()
}

fn new_connector(
    url: &Url,
    connection: &ConnectionOptions,
    bytes_per_second: Option<u64>,
    arrival_log: Option<Arc<Mutex<ArrivalLog>>>,
) -> Result<Connector, FtpError> {
    let UrlScheme::Ftp(tls, _) = url.scheme else {
        return Err(FtpError::InvalidRequest(format!(
            "{url} is not an FTP URL: only plumb get and plumb put support TFTP"
        )));
    };
    let account = FtpCredentials::of(url, connection.user.as_deref())?;
    let began = Instant::now();
    let resolved =
        carrier::addresses(&url.target, connection.family.families(), &connection.via, None)?;
    let resolve_time = began.elapsed();
    let addresses = resolved.map_err(|none| FtpError::NoAddress(none.to_string()))?;
    let host = carrier::open_host(&connection.via, CONNECTIONS_MAX, carrier::FILES)?;
    let registry = MeterRegistry::new(url.to_string());
    let timeout = Duration::from_secs(connection.timeout.into());
    let mut settings = UserSettings::new(account.user, account.password);
    settings.account = account.account;
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
            bytes_per_second,
            total_bytes: Arc::new(AtomicU64::new(0)),
            arrival_log,
            expected_total_bytes: Arc::new(AtomicU64::new(0)),
            stop,
            is_verbose: Arc::new(AtomicBool::new(connection.verbose)),
            registry,
        },
        timeout,
        was_reached: AtomicBool::new(false),
        is_utime_refused: AtomicBool::new(false),
        is_active: AtomicBool::new(connection.active),
        quirks: Mutex::default(),
        cancellation: Arc::new(cancellation),
        attempts: connection.tries.unwrap_or(DEFAULT_ATTEMPTS),
        retries_full_storage: connection.tries.is_some(),
        is_quiet: connection.quiet || connection.json,
        recorder: TransferRecorder::for_client(!connection.record_options.no_record),
        is_flush_scheduled: AtomicBool::new(false),
        resolve_time,
        swept_directories: Mutex::default(),
    })
}

/// Displays the progress of all transfers until [`ProgressDisplay::end`].
pub(super) struct ProgressDisplay(tokio::task::JoinHandle<()>);

impl ProgressDisplay {
    pub(super) fn begin(connector: &Connector) -> Self {
        let mut progress = Progress::new(connector.is_quiet);
        let total_bytes = Arc::clone(&connector.shared.total_bytes);
        let expected = Arc::clone(&connector.shared.expected_total_bytes);
        Self(tokio::spawn(async move {
            let _clear = ClearOnDrop(progress.clone());
            loop {
                tokio::time::sleep(PROGRESS_INTERVAL).await;
                let size = Some(expected.load(Ordering::Relaxed)).filter(|size| *size > 0);
                progress.show(total_bytes.load(Ordering::Relaxed), size);
            }
        }))
    }

    /// Ends the display.
    pub(super) async fn end(self) {
        self.0.abort();
        // Ignored: awaiting an aborted task returns a cancellation error.
        _ = self.0.await;
    }
}

struct ClearOnDrop(Progress);

impl Drop for ClearOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}
