//! FTP session: connects the protocol engine with the control connection, data connection and
//! files.
//!
//! One loop handles the engine's events and waits for the first of: the control connection, a data
//! connection, the end of a task, the engine's deadline, the shutdown of the server. Long
//! operations run in tasks that send a [`TaskResult`].

use super::control_connection::ControlConnection;
use super::data::{Marker, Payload, ServerTransferStats, Stream};
use super::default_tls::{DefaultTls, TlsOptions};
use super::ftp_log::FtpEvent;
use super::ftp_server::{FtpServer, Shutdown};
use super::futures::{accept, elapse};
use super::local_channel::LocalQueue;
use super::logged_in_user::{self, LoggedInUser, LoginOutcome};
use super::logged_operation::LoggedOperation;
use super::long_work::{self, LongOperation};
use super::mail::{Sender, Spool};
use super::passive::{PassiveListener, PortShare};
use super::protection::Protection;
use super::tickets;
use super::upload::Upload;
use super::users::is_anonymous;
use super::virtual_host::{self, TlsName, VirtualHosts};
use crate::log_text::escape_name;
use crate::metered::Metered;
use crate::session_id;
use carrier::TcpConnection;
use net::meter::Counter;
use net::time::Duration;
use os::clock::Monotonic;
use protocols::ftp::server::{
    self as engine, FileError, Login, LoginAnswer, Opened, Operation, Outcome, Placement,
    ServerEvent, Transfer, TransferError, TransferId, TransferKind,
};
use protocols::ftp::{Name, VirtualPath};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use transfer::recorder::{Record, RecordedSession};

mod ending;
mod transfer_start;

/// Maximum number of queued task results: one for each concurrent task, and one late result.
const TASK_RESULTS_MAX: usize = 8;
/// Maximum number of queued restart markers of a sending client.
const MARKERS_MAX: usize = 64;
/// Reason of the end of a session when the server shuts down.
const SERVER_STOPPED: &str = "the server stopped";
/// Reply sent when the server shuts down.
const SHUTDOWN_REPLY: &[u8] = b"421 The server is closing, goodbye\r\n";

/// Result of a task.
enum TaskResult {
    Login(Vec<u8>, LoginOutcome<Box<LoggedInUser>>),
    Performed(Result<Outcome, FileError>),
    Opened(TransferId, Result<(Opened, Payload), FileError>),
    /// Number of the data route, and the result of connecting to the client (active mode).
    Connected(u64, io::Result<TcpConnection>),
    Ended(TransferId, Result<Option<Upload>, TransferError>),
    Committed(TransferId, Result<(), FileError>),
    Placed(TransferId, Option<Upload>, Result<Placement, FileError>),
}

/// Transfer, from the opening of its file to its end.
struct RunningTransfer {
    transfer: Transfer,
    record: Record,
    opened_at: Option<Instant>,
    received_at: Instant,
    payload: Option<Payload>,
    /// Completely received file.
    upload: Option<Upload>,
    is_committing: bool,
    /// Time at which the uploaded file got its final name.
    placed_at: Option<Instant>,
    task: Option<JoinHandle<()>>,
    stats: Rc<ServerTransferStats>,
}

impl Drop for RunningTransfer {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Task that is aborted when its session ends.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Change of TLS on the control connection, made when the pending output has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TlsChange {
    Start,
    Stop,
}

/// FTP session.
pub(super) struct FtpSession {
    server: Rc<FtpServer>,
    tls_options: TlsOptions,
    engine: engine::Server,
    control: ControlConnection,
    local: SocketAddr,
    peer: SocketAddr,
    clock: Monotonic,
    /// Token of this session, contained in its TLS session tickets.
    token: [u8; tickets::TOKEN_LEN],
    /// Family of sessions whose TLS tickets are accepted like the tickets of this session.
    family: tickets::SessionTokens,
    /// Host name received when TLS began.
    tls_name: Option<TlsName>,
    /// Virtual host of the user; `None` for the server's own files.
    host: Option<Box<str>>,
    user: Option<LoggedInUser>,
    listener: Option<PassiveListener>,
    port_share: Option<PortShare>,
    /// Local and remote address of the passive data connection.
    data_addresses: (Option<SocketAddr>, Option<SocketAddr>),
    /// Whether the replies to the command that opened the listener have been sent.
    has_sent_replies: bool,
    /// Whether a transfer waits for a connection to the listener.
    awaits_data: bool,
    /// Path whose partial upload the client has selected, until the next transfer.
    selected_partial: Option<VirtualPath>,
    /// Path of the SIZE or SITE PARTIAL command in progress.
    size_query: Option<VirtualPath>,
    /// Operation in progress whose result is logged.
    logged_operation: Option<Box<LoggedOperation>>,
    /// Data connection that no transfer uses yet.
    data_connection: Option<Stream>,
    /// Number of the current data route. Each listener and each requested connection is a new
    /// route, so that a connection that arrives late is not mistaken for a connection of the
    /// current route.
    route_number: u64,
    running: Option<Box<RunningTransfer>>,
    /// Tasks of logins and long commands of this session.
    tasks: Vec<AbortOnDrop>,
    input: Vec<u8>,
    tls_change: Option<TlsChange>,
    task_results: LocalQueue<TaskResult>,
    markers: LocalQueue<Marker>,
    shutdown: watch::Receiver<Shutdown>,
    /// Numbering of the transfer records of this session.
    record_session: RecordedSession,
    /// Timing of TLS and login, for the records.
    login_timing: LoginTiming,
    data_requested_at: Option<Instant>,
    data_connected_at: Option<Instant>,
}

/// Duration of TLS setup and login, and the kind of login.
#[derive(Clone, Copy, Debug)]
struct LoginTiming {
    started_at: Instant,
    tls: Option<Duration>,
    login: Option<Duration>,
    is_anonymous: bool,
}

impl FtpSession {
    /// Starts a session on an accepted connection.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is lost, if the TLS handshake fails, or if the operating
    /// system provides no entropy.
    pub(super) async fn begin(
        server: Rc<FtpServer>,
        mut tls_options: TlsOptions,
        stream: TcpConnection,
        peer: SocketAddr,
    ) -> io::Result<Self> {
        stream.set_for_commands()?;
        let local = stream.local_addr()?;
        let rng = [os::entropy::seed()?, os::entropy::seed()?];
        let [high, low] = rng.map(u64::to_be_bytes);
        let mut token = [0; tickets::TOKEN_LEN];
        token.iter_mut().zip(high.into_iter().chain(low)).for_each(|(to, from)| *to = from);
        let mut control = ControlConnection::new(stream);
        let clock = server.context().clock;
        let started_at = Instant::now();
        let mut tls_name = None;
        if let Some(tls) = tls_options.tls.as_mut().filter(|_| tls_options.is_implicit_tls) {
            // Boxed: most sessions use no TLS, so no space for this future is reserved in each
            // session.
            Box::pin(control.start_tls(&mut tls.configuration, &token, &server)).await?;
            tls_name = named_in_tls(&control, tls, &server.settings().hosts);
        }
        let has_tls = tls_options.tls.is_some();
        let settings = server.settings().session_settings(has_tls, tls_options.is_implicit_tls);
        let engine = engine::Server::new(settings, local, peer, &server.context().cx());
        let tls = tls_options.is_implicit_tls.then(|| started_at.elapsed());
        let record_session = server.transfer_log.session();
        let shutdown = server.shutdown.subscribe();
        Ok(Self {
            server,
            tls_options,
            engine,
            control,
            local,
            peer,
            clock,
            token,
            family: tickets::SessionTokens::default(),
            tls_name,
            host: None,
            user: None,
            listener: None,
            port_share: None,
            data_addresses: (None, None),
            has_sent_replies: true,
            awaits_data: false,
            selected_partial: None,
            size_query: None,
            logged_operation: None,
            data_connection: None,
            route_number: 0,
            running: None,
            tasks: Vec::new(),
            input: Vec::new(),
            tls_change: None,
            task_results: LocalQueue::new(TASK_RESULTS_MAX),
            markers: LocalQueue::new(MARKERS_MAX),
            shutdown,
            record_session,
            login_timing: LoginTiming { started_at, tls, login: None, is_anonymous: true },
            data_requested_at: None,
            data_connected_at: None,
        })
    }

    /// Runs the session to its end. Returns the reason if the server ends it.
    ///
    /// # Errors
    ///
    /// Returns an error if the control connection fails.
    pub(super) async fn run(mut self) -> io::Result<Option<&'static str>> {
        let result = self.serve().await;
        if result.is_err() {
            self.engine.peer_closed(&mut self.server.context().cx());
        }
        self.handle_events();
        while self.is_committing() {
            // An upload may have to be withdrawn after it is placed.
            let result = self.task_results.pop().await;
            self.handle_task_result(result);
            self.handle_events();
        }
        match self.close_reason() {
            // The client may reset the connection after the last reply.
            Some(reason) => Ok(Some(reason)),
            None => result,
        }
    }

    /// Serves the session to its end. Returns the reason if the server shuts down.
    async fn serve(&mut self) -> io::Result<Option<&'static str>> {
        loop {
            self.process_input();
            self.handle_events();
            let has_output = !self.engine.output().is_empty();
            if self.engine.is_closing() && !has_output && !self.is_committing() {
                Box::pin(self.control.close(b"")).await;
                Box::pin(self.control.await_close()).await;
                return Ok(None);
            }
            let is_closing = self.server.is_closing();
            if is_closing {
                // The reply has been sent, and the server no longer waits for a sign that the
                // client has read it.
                self.engine.confirm_upload(&mut self.server.context().cx());
                self.handle_events();
            }
            if self.server.is_aborting() {
                self.report_progress();
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, SERVER_STOPPED));
            }
            let is_transferring = self.running.as_ref().is_some_and(|running| {
                // An interrupted listing can be requested again.
                !matches!(running.transfer.kind, TransferKind::List { .. })
            });
            if is_closing && !is_transferring && !has_output {
                Box::pin(self.control.close(SHUTDOWN_REPLY)).await;
                self.engine.peer_closed(&mut self.server.context().cx());
                return Ok(Some(SERVER_STOPPED));
            }
            if let Some(change) = self.tls_change.take_if(|_| !has_output) {
                match change {
                    TlsChange::Start => Box::pin(self.start_tls()).await?,
                    TlsChange::Stop => Box::pin(self.control.stop_tls()).await?,
                }
                continue;
            }
            self.has_sent_replies |= !has_output;
            // A client that pipelines PASV and RETR may already have connected.
            let is_new = self.listener.as_ref().is_some_and(PassiveListener::is_idle);
            if self.awaits_data && self.has_sent_replies && is_new && self.accept_waiting() {
                continue;
            }
            self.wait().await?;
        }
    }

    /// Waits for the next event and handles it.
    async fn wait(&mut self) -> io::Result<()> {
        let wants_input = self.engine.wants_input() && self.input.is_empty();
        let wants_input = wants_input && self.tls_change.is_none();
        let now = self.clock.now();
        let timeout = self.engine.deadline().map(|deadline| deadline - now);
        let output = self.engine.output();
        let account = self.control.account();
        let io = self.control.write_and_read(output, wants_input, &self.server.scratch);
        tokio::select! {
            progress = self.server.charge_future(account, io) => {
                let progress = progress?;
                self.engine.sent(progress.written);
                match progress.read {
                    Some(read) if read.is_empty() => self.control_ended(),
                    Some(read) => self.input = read,
                    None => {}
                }
            }
            accepted = accept(self.listener.as_mut().filter(|_| self.awaits_data)) => {
                // The client closed the connection before it was accepted, or no descriptors are
                // left. The session continues to listen.
                if let Ok((stream, from)) = accepted {
                    self.on_data_connection(stream, from);
                }
            }
            result = self.task_results.pop() => self.handle_task_result(result),
            (marker, offset) = self.markers.pop() => {
                if let Some(running) = &self.running {
                    self.engine.marker_reached(running.transfer.id, &marker, offset);
                }
            }
            () = elapse(timeout) => {
                self.report_progress();
                // The end of the control connection may not have been read yet.
                if self.engine.is_confirming_upload() && self.control.has_ended() {
                    self.control_ended();
                } else {
                    self.engine.timeout(&mut self.server.context().cx());
                }
            }
            _ = self.shutdown.changed() => {}
        }
        self.server.context().meter.count(Counter::Wakeups);
        Ok(())
    }

    fn process_input(&mut self) {
        if self.input.is_empty() {
            return;
        }
        self.report_progress();
        self.server.context().meter.transaction();
        let mut rest = self.input.as_slice();
        self.engine.receive(&mut rest, &mut self.server.context().cx());
        let consumed_bytes = self.input.len() - rest.len();
        self.input.drain(..consumed_bytes);
    }

    async fn start_tls(&mut self) -> io::Result<()> {
        let hosts = Arc::clone(&self.server.settings().hosts);
        let selected = hosts.select(self.engine.host(), None);
        let (Some(tls), Ok(selected)) = (&mut self.tls_options.tls, selected) else {
            // TLS is not available, or the virtual host has been removed since the client selected
            // the host.
            self.engine.tls_started(false, &mut self.server.context().cx());
            return Ok(());
        };
        if let Some(host) = selected {
            // Data connections of this session present the same certificate.
            tls.configuration =
                virtual_host::configuration_for(&tls.configuration, &tls.certificates, host);
        }
        let started_at = Instant::now();
        self.control.start_tls(&mut tls.configuration, &self.token, &self.server).await?;
        // A client that sent HOST before AUTH has negotiated TLS with that host even without SNI.
        self.tls_name = match selected {
            Some(host) => Some(hosts.tls_name(host.name())),
            None => named_in_tls(&self.control, tls, &hosts),
        };
        self.login_timing.tls = Some(started_at.elapsed());
        // RFC 7151 §4: HOST for the server itself and SNI for a virtual host conflict.
        let agrees = hosts.select(self.engine.host(), self.tls_name.as_ref()).is_ok();
        self.engine.tls_started(agrees, &mut self.server.context().cx());
        Ok(())
    }

    fn handle_events(&mut self) {
        while let Some(event) = self.engine.event() {
            match event {
                ServerEvent::Authenticate(login) => self.authenticate(login),
                ServerEvent::StartTls => {
                    self.input.clear();
                    self.tls_change = Some(TlsChange::Start);
                }
                ServerEvent::StopTls => self.tls_change = Some(TlsChange::Stop),
                ServerEvent::Listen(_) => self.listen(),
                ServerEvent::Connect(to) => self.connect(to),
                ServerEvent::CloseData => self.close_data(),
                ServerEvent::Open(transfer) => self.open(transfer),
                ServerEvent::Start(id) => self.start(id),
                ServerEvent::Commit(id) => self.commit(id),
                ServerEvent::Place(id) => self.place(id),
                ServerEvent::Keep(id) => self.make_permanent(id),
                ServerEvent::Discard(id) => self.discard(id),
                ServerEvent::Perform(operation) => self.perform(operation),
                ServerEvent::Finished(finished) => self.finish(&finished),
                ServerEvent::Denied { command, right } => {
                    self.log_denied(&command, right.refusal());
                }
                ServerEvent::TlsRequired(missing) => self.log_missing_tls(missing),
            }
        }
    }

    fn spawn(&self, task: impl Future<Output = TaskResult> + 'static) {
        let task_results = self.task_results.clone();
        tokio::task::spawn_local(async move {
            // The queue has room for all concurrent tasks.
            task_results.push(task.await);
        });
    }

    /// Like [`Self::spawn`], for a task that is aborted when the session ends.
    fn spawn_abortable(&mut self, task: impl Future<Output = TaskResult> + 'static) {
        let task_results = self.task_results.clone();
        self.tasks.retain(|task| !task.0.is_finished());
        self.tasks.push(AbortOnDrop(tokio::task::spawn_local(session_id::inherit(async move {
            // The queue has room for all concurrent tasks.
            task_results.push(task.await);
        }))));
    }

    fn authenticate(&mut self, login: Login) {
        let name = login.user.as_bytes().to_vec();
        let server = Rc::clone(&self.server);
        let peer = self.peer;
        let settings = server.settings();
        let host = settings.hosts.select(login.host.as_ref(), self.tls_name.as_ref());
        let Ok(host) = host else {
            // The virtual host has been removed; its users must not get the server's own files.
            self.host = login.host.map(|host| host.as_bytes().escape_ascii().to_string().into());
            return self.handle_task_result(TaskResult::Login(name, LoginOutcome::Refused));
        };
        self.host = host.map(|host| host.name().into());
        let site = settings.site_of(host);
        // A user file may contain a user with a name of the anonymous users.
        let is_anonymous = site.has_anonymous && is_anonymous(&name);
        if settings.tls == Protection::Required && !self.engine.is_tls() && !is_anonymous {
            return self.handle_task_result(TaskResult::Login(name, LoginOutcome::Refused));
        }
        if is_anonymous && !settings.admits_anonymous(peer.ip()) {
            let why = "anonymous users are not allowed from this address".to_owned();
            server.log.write(&FtpEvent::Refused { from: peer, why });
            return self.handle_task_result(TaskResult::Login(name, LoginOutcome::Refused));
        }
        if let Some(user) = logged_in_user::log_in_anonymous(&server, peer, &login, &site) {
            return self.handle_task_result(TaskResult::Login(
                name,
                LoginOutcome::Accepted(Box::new(user)),
            ));
        }
        self.spawn_abortable(async move {
            let outcome = logged_in_user::authenticate(&server, peer, &login, &site).await;
            TaskResult::Login(name, outcome.map(Box::new))
        });
    }

    fn handle_task_result(&mut self, result: TaskResult) {
        let server = Rc::clone(&self.server);
        match result {
            TaskResult::Login(name, outcome) => {
                let name = escape_name(&name);
                let from = self.peer;
                let host = self.host.as_deref().map(str::to_owned);
                match outcome {
                    LoginOutcome::Accepted(_) => server.admission.borrow_mut().count_login(true),
                    LoginOutcome::Refused => server.admission.borrow_mut().count_login(false),
                    LoginOutcome::Busy => server.admission.borrow_mut().count_busy(),
                }
                let answer = match outcome {
                    LoginOutcome::Accepted(user) => {
                        server.admission.borrow_mut().mark_authenticated(from);
                        let account = user.account();
                        self.login_timing.login = Some(self.login_timing.started_at.elapsed());
                        self.login_timing.is_anonymous = user.is_anonymous;
                        let user_name = (!user.is_anonymous).then_some(name.as_bytes());
                        let mut families = server.families.borrow_mut();
                        self.family =
                            families.join(from.ip(), host.as_deref(), user_name, self.token);
                        drop(families);
                        self.user = Some(*user);
                        server.log.write(&FtpEvent::LoggedIn { from, name, host });
                        LoginAnswer::Accepted(account)
                    }
                    LoginOutcome::Refused => {
                        server.log.write(&FtpEvent::LoginFailed { from, name, host });
                        LoginAnswer::Refused
                    }
                    LoginOutcome::Busy => LoginAnswer::Busy,
                };
                self.engine.login(answer, &mut server.context().cx());
            }
            TaskResult::Performed(result) => self.on_performed(result),
            TaskResult::Opened(id, result) => self.on_opened(id, result),
            TaskResult::Connected(number, result) if number == self.route_number => match result {
                Ok(stream) => {
                    self.on_data_connection(Stream::Registered(stream), self.peer);
                }
                Err(_) => self.engine.data_failed(&mut server.context().cx()),
            },
            TaskResult::Connected(..) => {}
            TaskResult::Ended(id, result) => self.transfer_ended(id, result),
            TaskResult::Committed(id, result) => {
                self.engine.on_committed(id, result, &mut server.context().cx());
            }
            TaskResult::Placed(id, upload, result) => self.on_placed(id, upload, result),
        }
    }

    fn mail_sender(&self) -> Sender {
        let user = self.engine.user().map(|user| user.as_bytes().to_vec());
        Sender { user: user.unwrap_or_default(), from: self.peer.ip() }
    }

    fn running_of(&mut self, id: TransferId) -> Option<&mut RunningTransfer> {
        self.running.as_deref_mut().filter(|running| running.transfer.id == id)
    }

    /// Answers HOST.
    fn answer_host(&mut self, host: &Name) {
        let settings = self.server.settings();
        let own_addresses: Vec<_> =
            [Some(self.local.ip()), settings.passive_address].into_iter().flatten().collect();
        let greeting = settings.hosts.greeting_for(host, self.tls_name.as_ref(), &own_addresses);
        let greeting = greeting.map(|greeting| Outcome::Greeting(greeting.to_owned()));
        self.engine.on_performed(greeting, &mut self.server.context().cx());
    }

    fn on_performed(&mut self, result: Result<Outcome, FileError>) {
        let size_query = self.size_query.take();
        if let Ok(Outcome::PartialSize(_)) = &result {
            self.selected_partial = size_query;
        }
        if let Some(operation) = self.logged_operation.take() {
            self.log_operation(*operation, result.as_ref().err().copied());
        }
        self.engine.on_performed(result, &mut self.server.context().cx());
    }

    fn perform(&mut self, operation: Operation) {
        if let Operation::Host(host) = &operation {
            return self.answer_host(host);
        }
        let Some(mut view) = self.user.as_ref().map(|user| user.view.clone()) else {
            let denied = Err(FileError::Denied);
            return self.engine.on_performed(denied, &mut self.server.context().cx());
        };
        match operation {
            Operation::Deliver { user, text } => return self.deliver(view.spool, user, text),
            Operation::Mailbox(user) => return self.check_mailbox(view.spool, user),
            _ => {}
        }
        match &operation {
            Operation::Partial(path) => {
                self.selected_partial = None;
                self.size_query = Some(path.clone());
            }
            Operation::Size { path, .. } => self.size_query = Some(path.clone()),
            _ => {}
        }
        self.logged_operation = LoggedOperation::new(&operation).map(Box::new);
        view.selected_partial.clone_from(&self.selected_partial);
        let server = Rc::clone(&self.server);
        let hash_max_bytes = match self.login_timing.is_anonymous {
            true => server.settings().anonymous_hash_max_bytes,
            false => u64::MAX,
        };
        let long_operation = match LongOperation::new(&view, operation, hash_max_bytes) {
            Ok(long) => long,
            Err(short) => {
                let result = view.perform(&short);
                return self.on_performed(result);
            }
        };
        let source = self.peer.ip();
        self.spawn_abortable(async move {
            let outcome = long_work::run(&server.long_work, source, long_operation).await;
            TaskResult::Performed(outcome.unwrap_or(Err(FileError::ServerBusy)))
        });
    }

    fn check_mailbox(&self, spool: Option<Arc<Spool>>, to: Option<Name>) {
        self.spawn(async move {
            let result = tokio::task::spawn_blocking(move || {
                let spool = spool.ok_or(FileError::NotSupported)?;
                spool.check_mailbox(to.as_ref().map(Name::as_bytes)).map(|()| Outcome::Done)
            });
            TaskResult::Performed(result.await.unwrap_or(Err(FileError::Local)))
        });
    }

    fn deliver(&self, spool: Option<Arc<Spool>>, to: Option<Name>, text: Vec<u8>) {
        let sender = self.mail_sender();
        self.spawn(async move {
            let result = tokio::task::spawn_blocking(move || {
                let spool = spool.ok_or(FileError::NotSupported)?;
                let to = to.as_ref().map(Name::as_bytes);
                spool.deliver(to, &sender, &text).map(|()| Outcome::Done)
            });
            TaskResult::Performed(result.await.unwrap_or(Err(FileError::Local)))
        });
    }
}

/// Returns the host name that the client sent when TLS began. For a virtual host, also makes data
/// connections present the same certificate.
fn named_in_tls(
    control: &ControlConnection,
    tls: &mut DefaultTls,
    hosts: &VirtualHosts,
) -> Option<TlsName> {
    let name = hosts.tls_name(control.tls_name()?);
    if let Ok(Some(host)) = hosts.select(None, Some(&name)) {
        tls.configuration =
            virtual_host::configuration_for(&tls.configuration, &tls.certificates, host);
    }
    Some(name)
}
