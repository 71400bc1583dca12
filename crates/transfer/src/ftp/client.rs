//! FTP client that opens its session on demand, and opens a new session after the loss of a
//! session.

use super::client_session::FtpClientSession;
use super::connector::Connector;
use super::data_task::TransferResult;
use super::error::FtpError;
use super::listing_audit::Audit;
use super::local_end::LocalEnd;
use super::remote_path::name_of;
use crate::escaped;
use crate::recorder::Record;
use protocols::ftp::listing::{Collector, Dialect, UnknownLines};
use protocols::ftp::user::{Done, FailureReason, ListKind, Task};
use protocols::ftp::{Name, Timestamp};
use std::sync::Arc;
use std::time::SystemTime;

/// FTP client that opens its session on demand.
pub struct FtpClient {
    /// Server and login from which sessions are opened.
    pub(crate) connector: Arc<Connector>,
    session: Option<FtpClientSession>,
    /// Number of sessions opened so far.
    sessions: u64,
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

    /// Returns the server and the login from which sessions are opened.
    pub fn connector(&self) -> &Arc<Connector> {
        &self.connector
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
    pub async fn ready(&mut self) -> Result<(), FtpError> {
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
    pub(crate) fn session_number(&self) -> Option<u64> {
        let is_open = self.session.as_ref().is_some_and(|session| !session.is_closed());
        is_open.then_some(self.sessions)
    }

    /// Returns the current session, if a session is open.
    pub(crate) fn open_session(&mut self) -> Option<&mut FtpClientSession> {
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
    pub(crate) async fn check_directory(&mut self, path: &[u8]) -> Result<(), FtpError> {
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
    pub(crate) async fn fetch_listing(
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
    pub fn advertises(&self, feature: &str) -> bool {
        self.session.as_ref().is_some_and(|session| session.features.has(feature))
    }

    /// Returns whether the server may support a feature: the server advertises this feature, or no
    /// features at all.
    pub(crate) fn may_support(&self, feature: &str) -> bool {
        let has_no_features = |session: &FtpClientSession| session.features.is_empty();
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

/// Returns whether `name` looks like a pattern, an option or several words. A server that passes
/// the argument of LIST or NLST to a shell or to `ls` may then list another file or directory.
fn may_be_expanded(name: &Name) -> bool {
    let name = name.as_bytes();
    let is_special = |byte: &u8| byte.is_ascii_whitespace() || b"*?[]{}~\\'\"$`".contains(byte);
    name.starts_with(b"-") || name.iter().any(is_special)
}

/// Returns the wall-clock time in seconds.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(0), nanos: 0 }
}
