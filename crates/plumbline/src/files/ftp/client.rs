//! FTP client that opens its session on demand, and opens a new session after the loss of a
//! session.
//!
//! Transient failures are retried: four attempts by default, with delays of one, two and four
//! seconds. Insufficient storage on the server is retried only if the user gives a number of
//! attempts. Permanent failures are returned at once. Until a connection has succeeded, a refused
//! connection counts as permanent: the host or port is wrong, or the server is not running.

use super::client_session::{FtpClientSession, Shared};
use super::control_stream::ByteStream;
use super::data_transfer::{LocalEnd, TransferResult};
use super::error::FtpError;
use super::get::FtpOptions;
use super::remote::{Audit, name_of, now};
use super::session_timing::{Opening, SessionTiming};
use crate::files::escape_name::escaped;
use crate::files::progress::print_message;
use crate::transfer_recorder::{Record, TransferRecorder};
use carrier::{self, HostTarget, TlsFailure, Trust, TrustedBy};
use protocols::ftp::Name;
use protocols::ftp::listing::{Collector, Dialect, UnknownLines};
use protocols::ftp::user::{
    DataStyle, Done, FailureReason, ListKind, ServerQuirks, Task, TlsUse, UserSettings,
};
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
pub(super) struct CancellationToken {
    sender: watch::Sender<bool>,
    /// Whether no further operation may start.
    is_final: AtomicBool,
}

impl CancellationToken {
    pub(super) fn new() -> (Self, watch::Receiver<bool>) {
        let (sender, stop) = watch::channel(false);
        (Self { sender, is_final: AtomicBool::new(false) }, stop)
    }

    /// Cancels the operations in progress and, if `is_final`, all further operations. Returns
    /// whether a cancellation was already pending.
    pub(super) fn stop(&self, is_final: bool) -> bool {
        self.is_final.fetch_or(is_final, Ordering::Relaxed);
        self.sender.send_replace(true)
    }

    /// Clears a cancellation that is not final. Returns whether further operations may start.
    pub(super) fn clear(&self) -> bool {
        let is_final = self.is_final.load(Ordering::Relaxed);
        if !is_final {
            self.sender.send_replace(false);
        }
        !is_final
    }
}

/// Server, login and options from which sessions are opened.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) target: HostTarget,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) settings: UserSettings,
    pub(super) trust: Option<Trust>,
    pub(super) shared: Shared,
    pub(super) timeout: Duration,
    /// Whether the server has refused to set the time of a file by SITE UTIME.
    pub(super) is_utime_refused: AtomicBool,
    /// Whether the server connects to the client for data (active mode).
    pub(super) is_active: AtomicBool,
    /// Whether a connection to the server has succeeded.
    pub(super) was_reached: AtomicBool,
    /// Properties of the server, learned from the sessions.
    pub(super) quirks: Mutex<ServerQuirks>,
    /// Cancels the operations of all sessions.
    pub(super) cancellation: Arc<CancellationToken>,
    /// Maximum number of attempts per operation.
    pub(super) attempts: u32,
    /// Whether operations are also retried after insufficient storage on the server.
    pub(super) retries_full_storage: bool,
    pub(super) is_quiet: bool,
    pub(super) recorder: TransferRecorder,
    /// Whether a write of the buffered records is scheduled.
    pub(super) is_flush_scheduled: AtomicBool,
    /// Duration of the name resolution.
    pub(super) resolve_time: Duration,
    /// Directories from which the drafts (temporary files) of killed processes have been removed.
    pub(super) swept_directories: Mutex<BTreeSet<Vec<u8>>>,
}

impl Connector {
    /// Opens a session.
    pub(super) async fn open(&self) -> Result<FtpClientSession, FtpError> {
        let mut stop = self.shared.stop.clone();
        tokio::select! {
            opened = self.connect() => opened,
            _ = stop.wait_for(|is_cancelled| *is_cancelled) => Err(FtpError::Stopped),
        }
    }

    async fn connect(&self) -> Result<FtpClientSession, FtpError> {
        let began = Instant::now();
        let byte_stream = match &self.shared.host {
            None => {
                let connected = carrier::connect(&self.addresses, self.timeout).await?;
                let stream =
                    connected.map_err(|(outcome, at)| self.connection_error(outcome, at))?;
                stream.set_nodelay(true).map_err(anyhow::Error::new)?;
                ByteStream::Kernel(stream)
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
            FtpClientSession::open(byte_stream, settings, tls, self.shared.clone(), timing);
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
            self.print_certificate_notice(&session);
        }
        Ok(session)
    }

    /// Stores the properties of the server that a session has learned, for the next session.
    fn learn(&self, session: &FtpClientSession) {
        *self.quirks.lock().unwrap_or_else(PoisonError::into_inner) = session.quirks();
    }

    async fn connect_userspace(&self, host: &os::host::Host) -> Result<ByteStream, FtpError> {
        let mut last_error = None;
        for address in &self.addresses {
            let connecting = async {
                host.addressed(address.ip()).await?;
                host.connect(*address).await
            };
            let outcome = match timeout(self.timeout, connecting).await {
                Ok(Ok(stream)) => return Ok(ByteStream::Userspace(stream)),
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

    fn print_certificate_notice(&self, session: &FtpClientSession) {
        match &session.trusted_by {
            Some((TrustedBy::FirstUse, fingerprint)) => print_message(&format!(
                "new certificate of {}, saved to known_hosts: SHA-256 {fingerprint}",
                self.target
            )),
            Some((TrustedBy::FirstUseNotPinned(why), fingerprint)) => print_message(&format!(
                "new certificate of {}, not saved ({why}): SHA-256 {fingerprint}",
                self.target
            )),
            _ => {}
        }
    }

    /// If `--continue` is given, prints a notice that files cannot be resumed in the selected
    /// representation.
    pub(super) fn print_no_resume_notice(&self, options: &FtpOptions) {
        let FtpOptions { continues, representation, .. } = options;
        if *continues && !representation.keeps_octets() && !self.is_quiet {
            print_message(&format!(
                "cannot resume because remote and local sizes are not comparable: whole files \
                     are transferred in TYPE {}, MODE {} and STRU {}",
                representation.data_type, representation.mode, representation.structure
            ));
        }
    }

    /// Waits before the attempt after attempt number `attempt`. Returns false if no further attempt
    /// follows.
    pub(super) async fn wait_before_retry(&self, attempt: u32, error: &FtpError) -> bool {
        let is_storage_retry = self.retries_full_storage && error.is_insufficient_storage();
        if attempt >= self.attempts || !(error.is_transient() || is_storage_retry) {
            return false;
        }
        let delay =
            FIRST_RETRY_DELAY.saturating_mul(1 << (attempt - 1).min(5)).min(MAX_RETRY_DELAY);
        if !self.is_quiet {
            let sentence = error.sentence();
            print_message(&format!(
                "{sentence}; attempt {} follows in {} s",
                attempt + 1,
                delay.as_secs()
            ));
        }
        let mut stop = self.shared.stop.clone();
        tokio::select! {
            () = sleep(delay) => true,
            _ = stop.wait_for(|is_cancelled| *is_cancelled) => false,
        }
    }
}

/// FTP client that opens its session on demand.
pub(super) struct FtpClient {
    pub(super) connector: Arc<Connector>,
    session: Option<FtpClientSession>,
    /// Number of sessions opened so far.
    sessions: u64,
    /// Working directory of each session, if it differs from the directory after the login.
    pub(super) directory: Option<Name>,
    /// Record of a listing that the user requested.
    pub(super) listing_record: Option<Record>,
    /// Whether another file transfer follows the current transfer.
    pub(super) expects_transfer: bool,
    /// Number of names and directories skipped in listings.
    pub(super) skipped_names: u64,
    /// Listing lines that could not be parsed.
    pub(super) unparsed: UnknownLines,
    /// Whether a reply of the server said that the last listed directory has no files.
    pub(super) is_reported_empty: bool,
    /// Audit of the listings; `None` if no deletion depends on a listing.
    pub(super) audit: Option<Audit>,
    /// Whether the times of listings come from LIST. LIST reports times to the minute or day, in an
    /// unknown time zone; MDTM reports times to the second, in UTC (RFC 3659 §3).
    pub(super) has_rough_times: bool,
}

impl FtpClient {
    pub(super) fn new(connector: &Arc<Connector>) -> Self {
        let connector = Arc::clone(connector);
        Self {
            connector,
            session: None,
            sessions: 0,
            directory: None,
            listing_record: None,
            expects_transfer: false,
            skipped_names: 0,
            unparsed: UnknownLines::default(),
            is_reported_empty: false,
            audit: None,
            has_rough_times: false,
        }
    }

    /// Returns the open session, or opens a new session.
    async fn session(&mut self) -> Result<&mut FtpClientSession, FtpError> {
        if self.session.as_ref().is_none_or(FtpClientSession::is_closed) {
            // Some servers accept one session per client, so the connection of the old session is
            // closed before a new session is opened.
            self.session = None;
            self.sessions += 1;
            let session = self.session.insert(self.connector.open().await?);
            if let Some(directory) = &self.directory {
                let changed = session.run(Task::ChangeDirectory(directory.clone()), None).await;
                if let Err(failure) = changed.result {
                    self.session = None;
                    let context = format!("cannot return to '{}'", escaped(directory.as_bytes()));
                    return Err(FtpError::Step { context, failure, error: None });
                }
            }
        }
        self.session.as_mut().ok_or(FtpError::Stopped)
    }

    /// Opens a session, with retries, if no session is open.
    pub(super) async fn ready(&mut self) -> Result<(), FtpError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let Err(error) = self.session().await else { return Ok(()) };
            if !self.connector.wait_before_retry(attempt, &error).await {
                return Err(error);
            }
        }
    }

    /// Returns the number of the open session. Parameters agreed in a session are valid only while
    /// this number stays the same.
    pub(super) fn session_number(&self) -> Option<u64> {
        let is_open = self.session.as_ref().is_some_and(|session| !session.is_closed());
        is_open.then_some(self.sessions)
    }

    /// Returns the current session, if a session is open.
    pub(super) fn open_session(&mut self) -> Option<&mut FtpClientSession> {
        self.session.as_mut()
    }

    /// Runs a task once. Returns the transferred data even if the task fails.
    pub(super) async fn run_once(
        &mut self,
        context: &str,
        task: Task,
        local_end: Option<LocalEnd>,
    ) -> (Result<Done, FtpError>, Option<TransferResult>) {
        let connector = Arc::clone(&self.connector);
        let expects_transfer = self.expects_transfer;
        let session = match self.session().await {
            Ok(session) => session,
            Err(error) => return (Err(error), None),
        };
        session.expect_transfer(expects_transfer);
        let outcome = session.run(task, local_end).await;
        connector.learn(session);
        let mut moved = outcome.moved;
        let is_cancelled = *self.connector.shared.stop.borrow();
        let result = outcome.result.map_err(|failure| match (&failure.why, is_cancelled) {
            (FailureReason::Aborted, true) => FtpError::Stopped,
            _ => {
                let broken =
                    moved.as_mut().map(|moved| std::mem::replace(&mut moved.result, Ok(())));
                let error = broken.and_then(Result::err).map(|(_, error)| error);
                FtpError::Step { context: context.to_owned(), failure, error }
            }
        });
        if let Some(mut record) = self.listing_record.take() {
            record.add_attempt(self, moved.as_ref(), 0);
            self.listing_record = Some(record);
        }
        if is_cancelled {
            // After an abort the replies can no longer be matched to commands: drop the connection.
            self.session = None;
        }
        (result, moved)
    }

    /// Runs a task that may be repeated, with retries.
    pub(super) async fn run(&mut self, context: &str, task: Task) -> Result<Done, FtpError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.run_once(context, task.clone(), None).await.0 {
                Ok(done) => return Ok(done),
                Err(error) if !self.connector.wait_before_retry(attempt, &error).await => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
    }

    /// Changes to a directory, lists it without an argument, and changes back to the working
    /// directory. As an argument, the name of the directory might be expanded by the server like a
    /// pattern. If the change back fails, the session ends.
    async fn list_by_changing_directory(
        &mut self,
        context: &str,
        kind: ListKind,
        name: Name,
        local_end: LocalEnd,
    ) -> (Result<Done, FtpError>, Option<TransferResult>) {
        let previous_directory = self.working_directory(context).await;
        let session_number = self.session_number();
        if let (Err(error), _) = self.run_once(context, Task::ChangeDirectory(name), None).await {
            return (Err(error), None);
        }
        if session_number.is_none() || self.session_number() != session_number {
            // The session was replaced, and the new session is in a different working directory.
            self.close_session().await;
            let sentence = "the control connection was lost before the listing".to_owned();
            return (Err(FtpError::NoConnection(sentence)), None);
        }
        let result = self.run_once(context, Task::List(kind, None), Some(local_end)).await;
        let is_same = self.session_number() == session_number;
        if is_same {
            self.return_to(context, previous_directory).await;
        }
        result
    }

    /// Changes to a directory and back, to verify that the directory exists and is readable. Some
    /// servers list a file, or a missing or unreadable directory, as an empty directory, but refuse
    /// to change to that path.
    ///
    /// # Errors
    ///
    /// Returns an error if the server refuses to change to the directory, or if the session is
    /// lost.
    pub(super) async fn check_directory(&mut self, path: &[u8]) -> Result<(), FtpError> {
        let context = format!("cannot change to '{}'", escaped(path));
        self.ready().await?;
        let before = self.working_directory(&context).await;
        self.run(&context, Task::ChangeDirectory(name_of(path)?)).await?;
        self.return_to(&context, before).await;
        Ok(())
    }

    async fn working_directory(&mut self, context: &str) -> Option<Name> {
        let result = self.run_once(context, Task::WorkingDirectory, None).await.0;
        Name::new(result.ok()?.reply.quoted_name()?).ok()
    }

    /// Changes back to `directory`. If that fails, the session ends.
    async fn return_to(&mut self, context: &str, directory: Option<Name>) {
        let result = match directory {
            Some(before) => {
                let changed = self.run_once(context, Task::ChangeDirectory(before), None).await;
                changed.0.is_ok()
            }
            None => false,
        };
        if !result {
            self.close_session().await;
        }
    }

    /// Fetches a listing of at most `entries_max` entries, and parses the listing as it arrives.
    pub(super) async fn fetch_listing(
        &mut self,
        context: &str,
        kind: ListKind,
        name: Option<Name>,
        entries_max: usize,
    ) -> Result<(Done, Collector), FtpError> {
        let dialect = match kind {
            ListKind::Facts => Dialect::Facts,
            ListKind::Long | ListKind::LongWithHidden => Dialect::Long,
            ListKind::Names => Dialect::Names,
        };
        let mut attempt = 0;
        loop {
            attempt += 1;
            let local_end =
                LocalEnd::Listing(Box::new(Collector::new(dialect, now(), entries_max)));
            let pattern =
                name.clone().filter(|name| kind != ListKind::Facts && may_be_expanded(name));
            let (result, moved) = match pattern {
                Some(name) => self.list_by_changing_directory(context, kind, name, local_end).await,
                None => {
                    self.run_once(context, Task::List(kind, name.clone()), Some(local_end)).await
                }
            };
            let listing = moved.and_then(|moved| moved.listing);
            match result {
                Ok(done) => {
                    // If the server opened no data connection, the listing is empty.
                    let mut listing = listing.map_or_else(
                        || Collector::new(dialect, now(), entries_max),
                        |listing| *listing,
                    );
                    listing.finish().map_err(|error| FtpError::NotFound(error.to_string()))?;
                    return Ok((done, listing));
                }
                Err(error) if !self.connector.wait_before_retry(attempt, &error).await => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
    }

    /// Returns whether the server advertises a feature. The session must be open.
    pub(super) fn advertises(&self, feature: &str) -> bool {
        self.session.as_ref().is_some_and(|session| session.features.has(feature))
    }

    /// Returns whether the server may support a feature: the server advertises this feature, or no
    /// features at all.
    pub(super) fn may_support(&self, feature: &str) -> bool {
        let has_no_features = |session: &FtpClientSession| session.features.is_empty();
        self.session.as_ref().is_some_and(has_no_features) || self.advertises(feature)
    }

    /// Ends the session with QUIT. The next task opens a new session.
    pub(super) async fn close_session(&mut self) {
        if let Some(session) = self.session.take() {
            session.quit().await;
        }
    }

    /// Ends the session with QUIT.
    pub(super) async fn quit(mut self) {
        self.close_session().await;
    }
}

/// Returns whether `name` looks like a pattern, an option or several words. A server that passes
/// the argument of LIST or NLST to a shell or to `ls` may then list another file or directory.
fn may_be_expanded(name: &Name) -> bool {
    let name = name.as_bytes();
    let is_special = |byte: &u8| byte.is_ascii_whitespace() || b"*?[]{}~\\'\"$`".contains(byte);
    name.starts_with(b"-") || name.iter().any(is_special)
}
