//! FTP client that opens its session on demand, and opens a new session after the loss of a
//! session.

use super::connector::Connector;
use super::data_task::{LocalEnd, TransferResult};
use super::error::FtpError;
use super::listing_audit::Audit;
use super::session::Session;
use super::session_timing::{Opening, SessionTiming};
use crate::escaped;
use crate::recorder::Record;
use carrier::{self, TcpConnection, TlsFailure, Trust, TrustedBy};
use protocols::ftp::Name;
use protocols::ftp::listing::UnknownLines;
use protocols::ftp::user::{DataStyle, Done, FailureReason, Task, TlsUse, UserSettings};
use records::severity::Severity;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use tokio::time::timeout;

/// FTP client that opens its session on demand.
pub struct FtpClient {
    /// Server and login from which sessions are opened.
    pub(crate) connector: Arc<Connector>,
    session: Option<Session>,
    /// Number of sessions opened so far.
    sessions: u64,
    /// Number of failed attempts since a session was opened.
    failed_attempts: u32,
    /// Working directory of each session, if it differs from the directory after the login.
    pub directory: Option<Name>,
    /// Record of a listing that the user requested.
    pub(crate) listing_record: Option<Record>,
    /// Whether another file transfer follows the current transfer.
    pub expects_transfer: bool,
    /// Number of names and directories skipped in listings.
    pub skipped_names: u64,
    /// Listing lines that could not be parsed.
    pub unparsed: UnknownLines,
    /// Whether a reply of the server said that the last listed directory has no files.
    pub is_reported_empty: bool,
    /// Whether listings include the names that Unix hides.
    pub lists_hidden: bool,
    /// Audit of the listings; `None` if no deletion depends on a listing.
    pub audit: Option<Audit>,
    /// Whether the times of listings come from LIST. LIST reports times to the minute or day, in an
    /// unknown time zone; MDTM reports times to the second, in UTC (RFC 3659 §3).
    pub has_rough_times: bool,
}

impl FtpClient {
    /// Creates a client without a session.
    pub fn new(connector: &Arc<Connector>) -> Self {
        let connector = Arc::clone(connector);
        Self {
            connector,
            session: None,
            sessions: 0,
            failed_attempts: 0,
            directory: None,
            listing_record: None,
            expects_transfer: false,
            skipped_names: 0,
            unparsed: UnknownLines::default(),
            is_reported_empty: false,
            lists_hidden: false,
            audit: None,
            has_rough_times: false,
        }
    }

    /// Returns the server and the login from which sessions are opened.
    pub fn connector(&self) -> &Arc<Connector> {
        &self.connector
    }

    /// Returns the open session, or opens a new session.
    async fn session(&mut self) -> Result<&mut Session, FtpError> {
        if self.session.as_ref().is_none_or(Session::is_closed) {
            // Some servers accept one session per client, so the connection of the old session is
            // closed before a new session is opened.
            self.session = None;
            self.sessions += 1;
            let session = self.session.insert(self.connector.open().await?);
            self.failed_attempts = 0;
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
    pub async fn ready(&mut self) -> Result<(), FtpError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let Err(error) = self.session().await else { return Ok(()) };
            if !self.wait_before_retry(attempt, &error).await {
                return Err(error);
            }
        }
    }

    /// Waits before the attempt after attempt number `attempt` of an operation. Returns false if no
    /// further attempt follows. While no session can be opened, the operations that need one share
    /// their attempts.
    pub(crate) async fn wait_before_retry(&mut self, attempt: u32, error: &FtpError) -> bool {
        self.failed_attempts = self.failed_attempts.saturating_add(1).max(attempt);
        let may_retry = self.connector.wait_before_retry(self.failed_attempts, error).await;
        if !may_retry {
            // The next operation has all its attempts.
            self.failed_attempts = 0;
        }
        may_retry
    }

    /// Returns the number of the open session. Parameters agreed in a session are valid only while
    /// this number stays the same.
    pub(crate) fn session_number(&self) -> Option<u64> {
        let is_open = self.session.as_ref().is_some_and(|session| !session.is_closed());
        is_open.then_some(self.sessions)
    }

    /// Returns the current session, if a session is open.
    pub(crate) fn open_session(&mut self) -> Option<&mut Session> {
        self.session.as_mut()
    }

    /// Runs a task once. Returns the transferred data even if the task fails.
    pub async fn run_once(
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
    pub async fn run(&mut self, context: &str, task: Task) -> Result<Done, FtpError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.run_once(context, task.clone(), None).await.0 {
                Ok(done) => return Ok(done),
                Err(error) if !self.wait_before_retry(attempt, &error).await => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
    }

    /// Returns whether the server advertises a feature. The session must be open.
    pub fn advertises(&self, feature: &str) -> bool {
        self.session.as_ref().is_some_and(|session| session.features.has(feature))
    }

    /// Returns whether the server may support a feature: the server advertises this feature, or no
    /// features at all.
    pub(crate) fn may_support(&self, feature: &str) -> bool {
        let has_no_features = |session: &Session| session.features.is_empty();
        self.session.as_ref().is_some_and(has_no_features) || self.advertises(feature)
    }

    /// Ends the session with QUIT. The next task opens a new session.
    pub async fn close_session(&mut self) {
        if let Some(session) = self.session.take() {
            session.quit().await;
        }
    }

    /// Ends the session with QUIT.
    pub async fn quit(mut self) {
        self.close_session().await;
    }
}

/// Opening of sessions.
impl Connector {
    /// Opens a session.
    pub(crate) async fn open(&self) -> Result<Session, FtpError> {
        tokio::select! {
            opened = self.connect() => opened,
            () = self.cancelled() => Err(FtpError::Stopped),
        }
    }

    async fn connect(&self) -> Result<Session, FtpError> {
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
        let opening = Session::open(connection, settings, tls, self.shared.clone(), timing);
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
        self.was_logged_in.store(true, Ordering::Relaxed);
        if is_first_use && !self.is_quiet {
            self.report_new_certificate(&session);
        }
        Ok(session)
    }

    /// Stores the properties of the server that a session has learned, for the next session.
    pub(super) fn learn(&self, session: &Session) {
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

    fn report_new_certificate(&self, session: &Session) {
        match &session.trusted_by {
            Some((TrustedBy::FirstUse, fingerprint)) => {
                (self.shared.message)(
                    Severity::Note,
                    &format!(
                        "new certificate of {}, saved to known_hosts: SHA-256 {fingerprint}",
                        self.target
                    ),
                );
            }
            Some((TrustedBy::FirstUseNotPinned(why), fingerprint)) => {
                (self.shared.message)(
                    Severity::Warning,
                    &format!(
                        "new certificate of {}, not saved ({why}): SHA-256 {fingerprint}",
                        self.target
                    ),
                );
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::connector::{ConnectionSettings, FtpCredentials, Interrupt, run};
    use super::*;
    use carrier::{AddressFamilies, Route};
    use protocols::ftp::{Name, Secret};
    use std::io::{ErrorKind, Write};
    use std::net::TcpListener;

    fn settings(attempts: Option<u32>) -> ConnectionSettings {
        ConnectionSettings {
            via: Route::Kernel,
            families: AddressFamilies::Both,
            timeout_s: 1,
            attempts,
            credentials: FtpCredentials {
                user: Name::new("anonymous").unwrap(),
                password: Secret::new("").unwrap(),
                account: None,
            },
            is_active: false,
            ca: None,
            is_insecure: false,
            is_recording: false,
            is_quiet: true,
            is_verbose: false,
            bytes_per_second: None,
            message: |_, _| {},
        }
    }

    /// Returns the error of a client without a session.
    fn error_of(listener: &TcpListener, attempts: Option<u32>) -> FtpError {
        let url = format!("ftp://127.0.0.1:{}/", listener.local_addr().unwrap().port());
        let url = url.parse().unwrap();
        let result =
            run(&url, &settings(attempts), None, Interrupt::CancelsCommand, async |connector| {
                FtpClient::new(&connector).ready().await
            });
        result.unwrap_err()
    }

    /// Returns the number of connections to a server that sends no greeting.
    fn connections_without_greeting(attempts: Option<u32>) -> usize {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(error_of(&listener, attempts).is_missing_greeting());
        listener.set_nonblocking(true).unwrap();
        let accepted = std::iter::from_fn(|| match listener.accept() {
            Ok(connection) => Some(connection),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                None
            }
        });
        accepted.count()
    }

    #[test]
    fn a_server_without_a_greeting_is_tried_again_only_if_the_user_gives_the_attempts() {
        assert_eq!(connections_without_greeting(None), 1);
        assert_eq!(connections_without_greeting(Some(2)), 2);
    }

    #[test]
    fn a_server_with_too_many_sessions_is_tried_as_often_as_the_user_gives_the_attempts() {
        for attempts in [1, 2] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let server = std::thread::spawn({
                let listener = listener.try_clone().unwrap();
                move || {
                    for _ in 0..attempts {
                        let (mut client, _) = listener.accept().unwrap();
                        client.write_all(b"421 too many\r\n").unwrap();
                    }
                }
            });
            let sentence = error_of(&listener, Some(attempts)).sentence();
            server.join().unwrap();
            listener.set_nonblocking(true).unwrap();
            assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
            let why = "it replied 421 too many: try again later";
            assert!(sentence.ends_with(why), "{sentence}");
        }
    }
}
