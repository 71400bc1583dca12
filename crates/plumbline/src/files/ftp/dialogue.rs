//! FTP client whose session is opened on demand, and again after a loss.
//!
//! Transient failures are retried: four attempts by default, with delays of one, two and four
//! seconds. Insufficient storage on the server is retried only if the user gives a number of
//! attempts. Permanent failures are returned at once. So is a refused connection if there was none
//! before: the host or port is wrong, or the server is not running.

use super::facts::{Facts, Opening};
use super::get::Terms;
use super::mover::{Moved, Near};
use super::remote::{Audit, name_of, now};
use super::session::{Session, Shared};
use super::trouble::Trouble;
use super::wire::Carrier;
use crate::carry::{self, Refusal, Target, Trust, TrustedBy};
use crate::files::progress::say;
use crate::files::shown::shown;
use crate::transfer_recorder::{Record, Recorder};
use protocols::application::ftp::Name;
use protocols::application::ftp::listing::{Collector, Dialect, Unread};
use protocols::application::ftp::user::{
    DataStyle, Done, Lessons, ListKind, Task, TlsUse, UserSettings, Why,
};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Delay before the second attempt. Each further delay is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Maximum delay between attempts.
const LAST_WAIT: Duration = Duration::from_secs(30);

/// Cancels the operations in progress.
#[derive(Debug)]
pub(super) struct CancellationToken {
    wanted: watch::Sender<bool>,
    /// Whether no further operation may start.
    is_final: AtomicBool,
}

impl CancellationToken {
    pub(super) fn new() -> (Self, watch::Receiver<bool>) {
        let (wanted, stop) = watch::channel(false);
        (Self { wanted, is_final: AtomicBool::new(false) }, stop)
    }

    /// Cancels the operations in progress, and all further ones if `is_final`. Returns whether a
    /// cancellation was already pending.
    pub(super) fn stop(&self, is_final: bool) -> bool {
        self.is_final.fetch_or(is_final, Ordering::Relaxed);
        self.wanted.send_replace(true)
    }

    /// Clears the cancellation unless it is final. Returns whether further operations may start.
    pub(super) fn goes_on(&self) -> bool {
        let is_final = self.is_final.load(Ordering::Relaxed);
        if !is_final {
            self.wanted.send_replace(false);
        }
        !is_final
    }
}

/// Server, login and options from which sessions are opened.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) target: Target,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) settings: UserSettings,
    pub(super) trust: Option<Trust>,
    pub(super) shared: Shared,
    pub(super) timeout: Duration,
    /// Whether the server has refused to set the time of a file.
    pub(super) avoids_times: AtomicBool,
    /// Whether the server connects to the client for data (active mode).
    pub(super) is_active: AtomicBool,
    /// Whether a connection to the server has succeeded.
    pub(super) was_reached: AtomicBool,
    /// Properties of the server that any session has learned.
    pub(super) lessons: Mutex<Lessons>,
    /// Cancels the operations of all sessions.
    pub(super) stopper: Arc<CancellationToken>,
    /// Maximum number of attempts per operation.
    pub(super) attempts: u32,
    /// Whether insufficient storage on the server is retried too.
    pub(super) waits_for_room: bool,
    pub(super) is_quiet: bool,
    pub(super) recorder: Recorder,
    /// Whether a write of the kept records is scheduled.
    pub(super) is_due: AtomicBool,
    /// Duration of the name resolution.
    pub(super) resolving: Duration,
    /// Directories from which the drafts of killed processes have been removed.
    pub(super) swept: Mutex<BTreeSet<Vec<u8>>>,
}

impl Caller {
    /// Opens a session.
    pub(super) async fn open(&self) -> Result<Session, Trouble> {
        let mut stop = self.shared.stop.clone();
        tokio::select! {
            opened = self.connect() => opened,
            _ = stop.wait_for(|is_wanted| *is_wanted) => Err(Trouble::Stopped),
        }
    }

    async fn connect(&self) -> Result<Session, Trouble> {
        let began = Instant::now();
        let carrier = match &self.shared.host {
            None => {
                let connected = carry::connect(&self.addresses, self.timeout).await?;
                let stream = connected.map_err(|(outcome, at)| self.unconnected(outcome, at))?;
                stream.set_nodelay(true).map_err(anyhow::Error::new)?;
                Carrier::Kernel(stream)
            }
            Some(host) => self.by_own(host).await?,
        };
        self.was_reached.store(true, Ordering::Relaxed);
        let tls = self.trust.as_ref().map(Trust::client).transpose().map_err(Trouble::Tls)?;
        let is_first_use = self.trust.as_ref().is_some_and(|trust| !trust.is_known());
        let lessons = *self.lessons.lock().unwrap_or_else(PoisonError::into_inner);
        let is_active = self.is_active.load(Ordering::Relaxed);
        let data_style = if is_active { DataStyle::Active } else { DataStyle::Passive };
        let settings = UserSettings { lessons, data_style, ..self.settings.clone() };
        let mut facts = Facts::new(self.recorder.session());
        facts.opening = Opening {
            resolve: Some(self.resolving),
            connect: Some(began.elapsed()),
            ..Opening::default()
        };
        let is_agreed = settings.tls != TlsUse::Implicit;
        let opening = Session::open(carrier, settings, tls, self.shared.clone(), facts);
        let (mut session, logged_in) = opening.await?;
        self.learn(&session);
        if let Err(failure) = logged_in {
            return Err(match (session.refusal.take(), &failure.why) {
                (Some(refusal @ Refusal::Broken(_)), _) if is_agreed => Trouble::TlsAgreed(refusal),
                (Some(refusal), _) => Trouble::Tls(refusal),
                (None, Why::Aborted) => Trouble::Stopped,
                _ => {
                    let wanted = format!("cannot log in to {}", self.target);
                    Trouble::Step { wanted, failure, error: None }
                }
            });
        }
        if is_first_use && !self.is_quiet {
            self.tell_of_certificate(&session);
        }
        Ok(session)
    }

    /// Keeps what a session has learned about the server, for the next session.
    fn learn(&self, session: &Session) {
        *self.lessons.lock().unwrap_or_else(PoisonError::into_inner) = session.lessons();
    }

    async fn by_own(&self, host: &os::host::Host) -> Result<Carrier, Trouble> {
        let mut last = None;
        for address in &self.addresses {
            let connecting = async {
                host.addressed(address.ip()).await?;
                host.connect(*address).await
            };
            let outcome = match timeout(self.timeout, connecting).await {
                Ok(Ok(stream)) => return Ok(Carrier::Own(stream)),
                Ok(Err(error)) => carry::outcome_of(error)?,
                Err(_) => carry::Outcome::TimedOut,
            };
            last.get_or_insert((outcome, *address));
        }
        let (outcome, address) = last.ok_or_else(|| anyhow::anyhow!("no address to connect to"))?;
        Err(self.unconnected(outcome, address))
    }

    fn unconnected(&self, outcome: carry::Outcome, address: SocketAddr) -> Trouble {
        let others = self.addresses.len().saturating_sub(1);
        let sentence = outcome.failure(false, address, others, self.timeout.as_secs());
        let sentence = sentence.unwrap_or_else(|| format!("{address} closed the connection"));
        if outcome == carry::Outcome::Refused && !self.was_reached.load(Ordering::Relaxed) {
            return Trouble::NotThere(sentence);
        }
        Trouble::NoConnection(sentence)
    }

    fn tell_of_certificate(&self, session: &Session) {
        match &session.trusted_by {
            Some((TrustedBy::FirstUse, shown)) => say(&format!(
                "new certificate of {}, saved to known_hosts: SHA-256 {shown}",
                self.target
            )),
            Some((TrustedBy::FirstUseNotKept(why), shown)) => say(&format!(
                "new certificate of {}, not saved ({why}): SHA-256 {shown}",
                self.target
            )),
            _ => {}
        }
    }

    /// Prints that files cannot be resumed in this representation, if `--continue` is given.
    pub(super) fn tell_of_no_comparison(&self, terms: &Terms) {
        let Terms { continues, representation, .. } = terms;
        if *continues && !representation.keeps_octets() && !self.is_quiet {
            say(&format!(
                "whole files are transferred in TYPE {}, MODE {} and STRU {}, also with \
                 --continue: remote and local sizes are not comparable",
                representation.data_type, representation.mode, representation.structure
            ));
        }
    }

    /// Waits before the attempt that follows number `made`. Returns false if there is none.
    pub(super) async fn wait(&self, made: u32, trouble: &Trouble) -> bool {
        let is_for_room = self.waits_for_room && trouble.is_without_room();
        if made >= self.attempts || !(trouble.is_transient() || is_for_room) {
            return false;
        }
        let wait = FIRST_WAIT.saturating_mul(1 << (made - 1).min(5)).min(LAST_WAIT);
        if !self.is_quiet {
            let sentence = trouble.sentence();
            say(&format!("{sentence}; attempt {} follows in {} s", made + 1, wait.as_secs()));
        }
        let mut stop = self.shared.stop.clone();
        tokio::select! {
            () = sleep(wait) => true,
            _ = stop.wait_for(|is_wanted| *is_wanted) => false,
        }
    }
}

/// FTP client with a session that is opened on demand.
pub(super) struct Dialogue {
    pub(super) caller: Arc<Caller>,
    session: Option<Session>,
    /// Number of sessions opened so far.
    sessions: u64,
    /// Working directory of each session, if it is not that of the login.
    pub(super) directory: Option<Name>,
    /// Record of a listing that the user requested.
    pub(super) asked: Option<Record>,
    /// Whether another file follows this one.
    pub(super) expects_transfer: bool,
    /// Number of names and directories left out of listings.
    pub(super) left_out: u64,
    /// Listing lines that could not be parsed.
    pub(super) unread: Unread,
    /// Whether a reply of the server said that the last listed directory has no files.
    pub(super) says_empty: bool,
    /// Audit of the listings, if names that are missing in them are deleted.
    pub(super) audit: Option<Audit>,
    /// Whether the times of listings are those of LIST: accurate to a minute or a day, in a time
    /// zone that the server does not report. MDTM has the time in seconds and in UTC (RFC 3659 §3).
    pub(super) has_rough_times: bool,
}

impl Dialogue {
    pub(super) fn new(caller: &Arc<Caller>) -> Self {
        let caller = Arc::clone(caller);
        Self {
            caller,
            session: None,
            sessions: 0,
            directory: None,
            asked: None,
            expects_transfer: false,
            left_out: 0,
            unread: Unread::default(),
            says_empty: false,
            audit: None,
            has_rough_times: false,
        }
    }

    /// Returns the session, and opens it if there is none.
    async fn session(&mut self) -> Result<&mut Session, Trouble> {
        if self.session.as_ref().is_none_or(Session::is_closed) {
            // Some servers accept one session per client: the connection of the old one is closed
            // before the new one is opened.
            self.session = None;
            self.sessions += 1;
            let session = self.session.insert(self.caller.open().await?);
            if let Some(directory) = &self.directory {
                let changed = session.run(Task::ChangeDirectory(directory.clone()), None).await;
                if let Err(failure) = changed.result {
                    self.session = None;
                    let wanted = format!("cannot return to '{}'", shown(directory.as_bytes()));
                    return Err(Trouble::Step { wanted, failure, error: None });
                }
            }
        }
        self.session.as_mut().ok_or(Trouble::Stopped)
    }

    /// Opens the session if there is none, with retries.
    pub(super) async fn ready(&mut self) -> Result<(), Trouble> {
        let mut made = 0;
        loop {
            made += 1;
            let Err(trouble) = self.session().await else { return Ok(()) };
            if !self.caller.wait(made, &trouble).await {
                return Err(trouble);
            }
        }
    }

    /// Returns the number of the session, if it is open. The state agreed in a session is valid as
    /// long as the number is the same.
    pub(super) fn session_number(&self) -> Option<u64> {
        let is_open = self.session.as_ref().is_some_and(|session| !session.is_closed());
        is_open.then_some(self.sessions)
    }

    /// Returns the current session, if there is one.
    pub(super) fn open_session(&mut self) -> Option<&mut Session> {
        self.session.as_mut()
    }

    /// Runs a task once. Returns the transferred data even if the task fails.
    pub(super) async fn run_once(
        &mut self,
        wanted: &str,
        task: Task,
        near: Option<Near>,
    ) -> (Result<Done, Trouble>, Option<Moved>) {
        let (caller, expects_transfer) = (Arc::clone(&self.caller), self.expects_transfer);
        let session = match self.session().await {
            Ok(session) => session,
            Err(trouble) => return (Err(trouble), None),
        };
        session.expect_transfer(expects_transfer);
        let outcome = session.run(task, near).await;
        caller.learn(session);
        let mut moved = outcome.moved;
        let stopped = *self.caller.shared.stop.borrow();
        let result = outcome.result.map_err(|failure| match (&failure.why, stopped) {
            (Why::Aborted, true) => Trouble::Stopped,
            _ => {
                let broken =
                    moved.as_mut().map(|moved| std::mem::replace(&mut moved.result, Ok(())));
                let error = broken.and_then(Result::err).map(|(_, error)| error);
                Trouble::Step { wanted: wanted.to_owned(), failure, error }
            }
        });
        if let Some(mut record) = self.asked.take() {
            record.take(self, moved.as_ref(), 0);
            self.asked = Some(record);
        }
        if stopped {
            // After an abort the replies can no longer be matched to commands: drop the connection.
            self.session = None;
        }
        (result, moved)
    }

    /// Runs a task that may be repeated, with retries.
    pub(super) async fn run(&mut self, wanted: &str, task: Task) -> Result<Done, Trouble> {
        let mut made = 0;
        loop {
            made += 1;
            match self.run_once(wanted, task.clone(), None).await.0 {
                Ok(done) => return Ok(done),
                Err(trouble) if !self.caller.wait(made, &trouble).await => return Err(trouble),
                Err(_) => {}
            }
        }
    }

    /// Lists a directory after changing to it, since the server may expand its name as a pattern.
    /// If it cannot change back to the working directory, the session ends.
    async fn list_inside(
        &mut self,
        wanted: &str,
        kind: ListKind,
        name: Name,
        near: Near,
    ) -> (Result<Done, Trouble>, Option<Moved>) {
        let before = self.working_directory(wanted).await;
        let number = self.session_number();
        if let (Err(trouble), _) = self.run_once(wanted, Task::ChangeDirectory(name), None).await {
            return (Err(trouble), None);
        }
        if number.is_none() || self.session_number() != number {
            // A new session would list another directory.
            self.hang_up().await;
            let sentence = "the control connection was lost before the listing".to_owned();
            return (Err(Trouble::NoConnection(sentence)), None);
        }
        let listed = self.run_once(wanted, Task::List(kind, None), Some(near)).await;
        let is_same = self.session_number() == number;
        if is_same {
            self.return_to(wanted, before).await;
        }
        listed
    }

    /// Changes to a directory and back, to verify that it exists. Some servers list a file, or a
    /// directory that is missing or unreadable, as an empty directory, but refuse to change to it.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the server, or the loss of the session.
    pub(super) async fn check_directory(&mut self, path: &[u8]) -> Result<(), Trouble> {
        let wanted = format!("cannot change to '{}'", shown(path));
        self.ready().await?;
        let before = self.working_directory(&wanted).await;
        self.run(&wanted, Task::ChangeDirectory(name_of(path)?)).await?;
        self.return_to(&wanted, before).await;
        Ok(())
    }

    async fn working_directory(&mut self, wanted: &str) -> Option<Name> {
        let told = self.run_once(wanted, Task::WorkingDirectory, None).await.0;
        Name::new(told.ok()?.reply.quoted()?).ok()
    }

    /// Changes back to a directory. The session ends if that is impossible.
    async fn return_to(&mut self, wanted: &str, directory: Option<Name>) {
        let returned = match directory {
            Some(before) => {
                let changed = self.run_once(wanted, Task::ChangeDirectory(before), None).await;
                changed.0.is_ok()
            }
            None => false,
        };
        if !returned {
            self.hang_up().await;
        }
    }

    /// Fetches a listing of at most `entries_max` entries, and parses it as it arrives.
    pub(super) async fn fetch_listing(
        &mut self,
        wanted: &str,
        kind: ListKind,
        name: Option<Name>,
        entries_max: usize,
    ) -> Result<(Done, Collector), Trouble> {
        let dialect = match kind {
            ListKind::Facts => Dialect::Facts,
            ListKind::Long | ListKind::LongWithHidden => Dialect::Long,
            ListKind::Names => Dialect::Names,
        };
        let mut made = 0;
        loop {
            made += 1;
            let near = Near::Listing(Box::new(Collector::new(dialect, now(), entries_max)));
            let pattern = name.clone().filter(|name| kind != ListKind::Facts && is_expanded(name));
            let (result, moved) = match pattern {
                Some(name) => self.list_inside(wanted, kind, name, near).await,
                None => self.run_once(wanted, Task::List(kind, name.clone()), Some(near)).await,
            };
            let listing = moved.and_then(|moved| moved.listing);
            match result {
                Ok(done) => {
                    // Without a data connection the listing is empty.
                    let mut listing = listing.map_or_else(
                        || Collector::new(dialect, now(), entries_max),
                        |listing| *listing,
                    );
                    listing.finish().map_err(|error| Trouble::NotThere(error.to_string()))?;
                    return Ok((done, listing));
                }
                Err(trouble) if !self.caller.wait(made, &trouble).await => return Err(trouble),
                Err(_) => {}
            }
        }
    }

    /// Returns whether the server advertises a feature. The session must be open.
    pub(super) fn has(&self, feature: &str) -> bool {
        self.session.as_ref().is_some_and(|session| session.features.has(feature))
    }

    /// Returns whether the server may support a feature: it advertises this one, or none at all.
    pub(super) fn may_have(&self, feature: &str) -> bool {
        let is_silent = |session: &Session| session.features.is_empty();
        self.session.as_ref().is_some_and(is_silent) || self.has(feature)
    }

    /// Ends the session with QUIT. The next task opens another one.
    pub(super) async fn hang_up(&mut self) {
        if let Some(session) = self.session.take() {
            session.quit().await;
        }
    }

    /// Ends the session with QUIT.
    pub(super) async fn quit(mut self) {
        self.hang_up().await;
    }
}

/// Returns whether a server that passes the argument of LIST or NLST to a shell or to `ls` may list
/// something else under this name: it is a pattern, an option, or several words.
fn is_expanded(name: &Name) -> bool {
    let name = name.as_bytes();
    let is_special = |byte: &u8| byte.is_ascii_whitespace() || b"*?[]{}~\\'\"$`".contains(byte);
    name.starts_with(b"-") || name.iter().any(is_special)
}
