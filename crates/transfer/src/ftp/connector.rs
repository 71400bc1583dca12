//! Server, login and options from which sessions are opened.
//!
//! Transient failures are retried: four attempts by default, with delays of one, two and four
//! seconds. Insufficient storage on the server is retried only if the user gives a number of
//! attempts. Permanent failures are returned at once. Until a connection has succeeded, a refused
//! connection counts as permanent: the host or port is wrong, or the server is not running.

use super::client_session::{FtpClientSession, Shared};
use super::error::FtpError;
use super::file_options::FtpOptions;
use super::session_timing::{Opening, SessionTiming};
use super::transfer_progress::TransferProgress;
use crate::recorder::TransferRecorder;
use carrier::{self, HostTarget, TcpConnection, TlsFailure, Trust, TrustedBy};
use protocols::ftp::user::{DataStyle, FailureReason, ServerQuirks, TlsUse, UserSettings};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

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

    /// Opens a session.
    pub(crate) async fn open(&self) -> Result<FtpClientSession, FtpError> {
        tokio::select! {
            opened = self.connect() => opened,
            () = self.cancelled() => Err(FtpError::Stopped),
        }
    }

    async fn connect(&self) -> Result<FtpClientSession, FtpError> {
        let began = Instant::now();
        let connection = match &self.shared.host {
            None => {
                let connected = carrier::connect(&self.addresses, self.timeout).await?;
                let stream =
                    connected.map_err(|(outcome, at)| self.connection_error(outcome, at))?;
                stream.set_nodelay(true).map_err(anyhow::Error::new)?;
                TcpConnection::Kernel(stream)
            }
            Some(host) => self.connect_userspace(host).await?,
        };
        self.was_reached.store(true, Ordering::Relaxed);
        let tls = self.trust.as_ref().map(Trust::client).transpose().map_err(FtpError::Tls)?;
        let is_first_use = self.trust.as_ref().is_some_and(|trust| !trust.is_known());
        let quirks = *self.quirks.lock().unwrap_or_else(PoisonError::into_inner);
        let is_active = self.is_active.load(Ordering::Relaxed);
        let data_style = if is_active { DataStyle::Active } else { DataStyle::Passive };
        let settings = UserSettings { quirks, data_style, ..self.settings.clone() };
        let mut timing = SessionTiming::new(self.recorder.session());
        timing.opening = Opening {
            resolve: Some(self.resolve_time),
            connect: Some(began.elapsed()),
            ..Opening::default()
        };
        let is_agreed = settings.tls != TlsUse::Implicit;
        let opening =
            FtpClientSession::open(connection, settings, tls, self.shared.clone(), timing);
        let (mut session, logged_in) = opening.await?;
        self.learn(&session);
        if let Err(failure) = logged_in {
            return Err(match (session.refusal.take(), &failure.why) {
                (Some(refusal @ TlsFailure::HandshakeFailed(_)), _) if is_agreed => {
                    FtpError::TlsAgreed(refusal)
                }
                (Some(refusal), _) => FtpError::Tls(refusal),
                (None, FailureReason::Aborted) => FtpError::Stopped,
                _ => {
                    let context = format!("cannot log in to {}", self.target);
                    FtpError::Step { context, failure, error: None }
                }
            });
        }
        if is_first_use && !self.is_quiet {
            self.report_new_certificate(&session);
        }
        Ok(session)
    }

    /// Stores the properties of the server that a session has learned, for the next session.
    pub(super) fn learn(&self, session: &FtpClientSession) {
        *self.quirks.lock().unwrap_or_else(PoisonError::into_inner) = session.quirks();
    }

    async fn connect_userspace(&self, host: &os::host::Host) -> Result<TcpConnection, FtpError> {
        let mut last_error = None;
        for address in &self.addresses {
            let connecting = async {
                host.addressed(address.ip()).await?;
                host.connect(*address).await
            };
            let outcome = match timeout(self.timeout, connecting).await {
                Ok(Ok(stream)) => return Ok(TcpConnection::Userspace(stream)),
                Ok(Err(error)) => carrier::outcome_of(error)?,
                Err(_) => carrier::Outcome::TimedOut,
            };
            last_error.get_or_insert((outcome, *address));
        }
        let (outcome, address) =
            last_error.ok_or_else(|| anyhow::anyhow!("no address to connect to"))?;
        Err(self.connection_error(outcome, address))
    }

    fn connection_error(&self, outcome: carrier::Outcome, address: SocketAddr) -> FtpError {
        let other_addresses = self.addresses.len().saturating_sub(1);
        let sentence = outcome.failure(false, address, other_addresses, self.timeout.as_secs());
        let sentence = sentence.unwrap_or_else(|| format!("{address} closed the connection"));
        if outcome == carrier::Outcome::Refused && !self.was_reached.load(Ordering::Relaxed) {
            return FtpError::NotFound(sentence);
        }
        FtpError::NoConnection(sentence)
    }

    fn report_new_certificate(&self, session: &FtpClientSession) {
        match &session.trusted_by {
            Some((TrustedBy::FirstUse, fingerprint)) => {
                (self.shared.message)(&format!(
                    "new certificate of {}, saved to known_hosts: SHA-256 {fingerprint}",
                    self.target
                ));
            }
            Some((TrustedBy::FirstUseNotPinned(why), fingerprint)) => {
                (self.shared.message)(&format!(
                    "new certificate of {}, not saved ({why}): SHA-256 {fingerprint}",
                    self.target
                ));
            }
            _ => {}
        }
    }

    /// If `--continue` is given, prints a notice that files cannot be resumed in the selected
    /// representation.
    pub fn report_whole_transfers(&self, options: &FtpOptions) {
        let FtpOptions { continues, representation, .. } = options;
        if *continues && !representation.keeps_octets() && !self.is_quiet {
            (self.shared.message)(&format!(
                "cannot resume because remote and local sizes are not comparable: whole files \
                     are transferred in TYPE {}, MODE {} and STRU {}",
                representation.data_type, representation.mode, representation.structure
            ));
        }
    }

    /// Waits before the attempt after attempt number `attempt`. Returns false if no further attempt
    /// follows.
    pub(crate) async fn wait_before_retry(&self, attempt: u32, error: &FtpError) -> bool {
        let is_storage_retry = self.retries_full_storage && error.is_insufficient_storage();
        if attempt >= self.attempts || !(error.is_transient() || is_storage_retry) {
            return false;
        }
        let delay =
            FIRST_RETRY_DELAY.saturating_mul(1 << (attempt - 1).min(5)).min(MAX_RETRY_DELAY);
        if !self.is_quiet {
            let sentence = error.sentence();
            (self.shared.message)(&format!(
                "{sentence}; attempt {} follows in {} s",
                attempt + 1,
                delay.as_secs()
            ));
        }
        tokio::select! {
            () = sleep(delay) => true,
            () = self.cancelled() => false,
        }
    }
}
