//! The open session of a client: the control connection of the protocol engine, and the data
//! connections, one at a time.
//!
//! The engine emits requests, and one loop executes them and waits for the next event. A task with
//! a data connection ends when the engine has reported the result and the transfer has ended.
//!
//! The control connection is a kernel socket or a stream of the user-space host, in plaintext or
//! with TLS.

use super::command_trace::command_lines;
use super::connector::Shared;
use super::data_task::LocalEnd;
use super::data_task::{DataTask, Started, TransferRequest, TransferResult};
use super::error::prefer_local_cause;
use super::session_timing::SessionTiming;
use crate::ftp_data::Canceller;
use crate::pace::RateLimit;
use carrier::{EngineContext, TcpConnection, TlsClient, TlsFailure, TrustedBy, fingerprint};
use net::meter::{Account, Counter};
use os::host::Listener;
use os::socket::TcpInfo;
use protocols::ftp::user::{
    DataFailure, Done, Failure, FailureReason, Features, ServerQuirks, Step, Task, TaskId, TlsUse,
    User, UserEvent, UserSettings,
};
use protocols::ftp::{Protection, Representation};
use records::severity::Severity;
use rustix::net::SendFlags;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Interval at which the session reports the progress of a transfer to the engine.
const TICK: Duration = Duration::from_secs(1);
/// Interval at which TCP is sampled during a measured transfer.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(3);
/// Maximum time for the server to notice that a transfer was aborted.
const ABORT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum time for the server to answer QUIT. Nothing depends on the answer.
const QUIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes read from the control connection at a time.
const READ_BYTES: usize = 16 * 1024;

/// Result of a task, with its transferred data.
#[derive(Debug)]
pub(crate) struct TaskOutcome {
    pub(crate) result: Result<Done, Failure>,
    /// Transferred data, if the task used a data connection.
    pub(crate) moved: Option<TransferResult>,
}

/// FTP session over one control connection.
pub(crate) struct Session {
    user: User,
    control: ControlStream,
    engine_context: EngineContext,
    shared: Shared,
    tls: Option<TlsClient>,
    data: Data,
    local_end: Option<LocalEnd>,
    representation: Representation,
    expected_bytes: Option<u64>,
    moved: Option<TransferResult>,
    /// Data connection of an upload that has ended locally; TCP may still send data written to the
    /// connection.
    ended: Option<Canceller>,
    /// Observations for the records.
    pub(crate) timing: SessionTiming,
    /// Features that the server advertises.
    pub(crate) features: Features,
    /// Whether the login, including FEAT, is complete.
    is_open: bool,
    /// Reason for trusting the server, and the fingerprint of the server's certificate.
    pub(crate) trusted_by: Option<(TrustedBy, String)>,
    /// Reason for a TLS failure.
    pub(crate) refusal: Option<TlsFailure>,
    /// Local address of the control connection.
    pub(crate) local: SocketAddr,
    /// Remote address of the control connection.
    pub(crate) peer: SocketAddr,
}

enum Data {
    None,
    Connecting(JoinHandle<io::Result<(TcpConnection, SocketAddr)>>),
    Listening(DataListener),
    Open(TcpConnection),
    Transferring(DataTask, TaskId),
}

enum DataListener {
    Kernel(TcpListener),
    Userspace(Listener),
}

enum SessionEvent {
    Read(io::Result<usize>),
    Connected(io::Result<TcpConnection>, Option<SocketAddr>),
    Transferred(Box<TransferResult>, TaskId),
    Timeout,
    Tick,
    Sample,
    Stop,
    AbortTimeout,
}

impl Session {
    /// Logs in over an established connection.
    ///
    /// # Errors
    ///
    /// Returns an error of the local system. A failure of the login is in the inner result.
    pub(crate) async fn open(
        connection: TcpConnection,
        settings: UserSettings,
        tls: Option<TlsClient>,
        shared: Shared,
        timing: SessionTiming,
    ) -> anyhow::Result<(Self, Result<(), Failure>)> {
        let began = Instant::now();
        let local = connection.local_addr()?;
        let peer = connection.peer_addr()?;
        let is_implicit = settings.tls == TlsUse::Implicit;
        let mut engine_context = EngineContext::published(&shared.registry, "FTP")?;
        let user = User::new(settings, local, peer, &engine_context.cx());
        let mut session = Self {
            user,
            control: ControlStream::Plaintext(connection),
            engine_context,
            shared,
            tls,
            data: Data::None,
            local_end: None,
            representation: Representation::IMAGE,
            expected_bytes: None,
            moved: None,
            ended: None,
            timing,
            is_open: false,
            features: Features::default(),
            trusted_by: None,
            refusal: None,
            local,
            peer,
        };
        if is_implicit && !session.start_tls().await {
            let failure = Failure { step: Step::Tls, why: FailureReason::Tls };
            return Ok((session, Err(failure)));
        }
        let login_result = session.drive(None).await.map(|_| ());
        let tls = session.timing.opening.tls.unwrap_or_default();
        session.timing.opening.login = Some(began.elapsed().saturating_sub(tls));
        session.timing.end_login(began.into_std());
        Ok((session, login_result))
    }

    /// Returns whether the session accepts no more tasks.
    pub(crate) fn is_closed(&self) -> bool {
        self.user.is_closed()
    }

    /// Runs a task. `local_end` is the source or the destination of the task's data.
    pub(crate) async fn run(&mut self, task: Task, local_end: Option<LocalEnd>) -> TaskOutcome {
        (self.representation, self.expected_bytes) = match &task {
            Task::Retrieve { representation, expected_bytes, offset_bytes, .. } => {
                (*representation, expected_bytes.map(|size| size.saturating_sub(*offset_bytes)))
            }
            Task::Store { representation, .. } => (*representation, None),
            Task::MailFile(_) => (Representation::default(), None),
            // A listing arrives as lines of text, with either line ending.
            _ => (Representation::IMAGE, None),
        };
        self.local_end = local_end;
        self.moved = None;
        self.timing.begin();
        self.engine_context.meter.transaction();
        let Some(id) = self.user.run(task, &mut self.engine_context.cx()) else {
            let failure = Failure { step: Step::Command, why: FailureReason::ControlLost };
            return TaskOutcome { result: Err(failure), moved: None };
        };
        let result = self.drive(Some(id)).await;
        self.close_data().await;
        if let (Some(moved), Some(ended)) = (&mut self.moved, self.ended.take()) {
            moved.update_after_reply(&ended);
        }
        let failure = Failure { step: Step::Command, why: FailureReason::ControlLost };
        let mut result = result.and_then(|done| done.ok_or(failure));
        let moved = self.moved.take();
        if let (Err(failure), Some(moved)) = (&mut result, &moved) {
            prefer_local_cause(failure, &moved.result);
        }
        TaskOutcome { result, moved }
    }

    /// Sets whether another file transfer follows the next transfer.
    pub(crate) fn expect_transfer(&mut self, is_expected: bool) {
        self.user.expect_transfer(is_expected);
    }

    /// Returns the properties of the server learned so far.
    pub(crate) fn quirks(&self) -> ServerQuirks {
        self.user.quirks()
    }

    /// Ends the session with QUIT. Waits at most two seconds for the answer.
    pub(crate) async fn quit(mut self) {
        let quit = async {
            if !self.is_closed() {
                _ = self.run(Task::Quit, None).await;
            }
            self.control.close().await;
        };
        _ = timeout(QUIT_TIMEOUT, quit).await;
    }
}

impl Session {
    /// Processes events until the end of the task or, without a task, of the login.
    async fn drive(&mut self, id: Option<TaskId>) -> Result<Option<Done>, Failure> {
        let mut input = vec![0; READ_BYTES];
        let mut abort_deadline = None;
        loop {
            while let Some(event) = self.user.event() {
                match event {
                    UserEvent::Finished(finished, result) if Some(finished) == id => {
                        // Pending output is sent before the next task.
                        self.flush().await;
                        return result.map(Some);
                    }
                    UserEvent::LoggedIn if id.is_none() => {
                        self.is_open = true;
                        return Ok(None);
                    }
                    UserEvent::Closed(failure) => {
                        let lost = Failure { step: Step::Command, why: FailureReason::ControlLost };
                        return Err(failure.unwrap_or(lost));
                    }
                    event => self.perform(event).await,
                }
            }
            self.flush().await;
            self.engine_context.meter.enter(Account::Outside);
            let event = self.next_event(&mut input, abort_deadline).await;
            self.engine_context.meter.enter(Account::Application);
            self.engine_context.meter.count(Counter::Wakeups);
            match event {
                SessionEvent::Stop => {
                    abort_deadline = Some(Instant::now() + ABORT_TIMEOUT);
                    if !matches!(self.data, Data::Transferring(..)) {
                        return Err(Failure { step: Step::Command, why: FailureReason::Aborted });
                    }
                    self.user.abort(&mut self.engine_context.cx());
                }
                SessionEvent::AbortTimeout => {
                    return Err(Failure { step: Step::Abort, why: FailureReason::Aborted });
                }
                other => self.handle_event(other, &input),
            }
        }
    }

    async fn next_event(
        &mut self,
        input: &mut [u8],
        abort_deadline: Option<Instant>,
    ) -> SessionEvent {
        let now = self.engine_context.clock.now();
        let deadline = self.user.deadline().map(|deadline| Instant::now() + (deadline - now));
        let deadline = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => pending().await,
            }
        };
        let abort_timer = async {
            match abort_deadline {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        let is_transferring = matches!(self.data, Data::Transferring(..));
        let is_sampled = self.sampled_connection().is_some();
        tokio::select! {
            event = data_event(&mut self.data) => event,
            read = self.control.read(input) => SessionEvent::Read(read),
            () = deadline => SessionEvent::Timeout,
            () = sleep(TICK), if is_transferring => SessionEvent::Tick,
            () = sleep(SAMPLE_INTERVAL), if is_sampled => SessionEvent::Sample,
            () = abort_timer => SessionEvent::AbortTimeout,
            _ = self.shared.stop.wait_for(|is_set| *is_set), if abort_deadline.is_none() => {
                SessionEvent::Stop
            }
        }
    }

    fn handle_event(&mut self, event: SessionEvent, input: &[u8]) {
        match event {
            SessionEvent::Read(Ok(0) | Err(_)) => {
                self.user.peer_closed(&mut self.engine_context.cx());
            }
            SessionEvent::Read(Ok(count)) => {
                let received = input.get(..count).unwrap_or_default();
                self.user.receive(received, &mut self.engine_context.cx());
            }
            SessionEvent::Connected(Ok(connection), from) => self.on_connected(connection, from),
            SessionEvent::Connected(Err(_), _) => {
                self.data = Data::None;
                self.user.data_failed(&mut self.engine_context.cx());
            }
            SessionEvent::Transferred(moved, id) => {
                if let Data::Transferring(task, _) = std::mem::replace(&mut self.data, Data::None) {
                    // After a download all data has arrived, so the connection is dropped and
                    // thereby closed. Some servers reply only after the close.
                    self.ended = Some(task.canceller).filter(|_| moved.is_sending);
                }
                self.finish_transfer(*moved, id);
            }
            SessionEvent::Timeout => self.user.timeout(&mut self.engine_context.cx()),
            SessionEvent::Tick => self.report_progress(),
            SessionEvent::Sample => {
                self.sample();
                // Samples are so frequent that the progress tick never fires; therefore a sample
                // also reports progress.
                self.report_progress();
            }
            SessionEvent::Stop | SessionEvent::AbortTimeout => {}
        }
    }

    /// Reports the number of moved bytes to the engine, so that a transfer in progress does not
    /// time out.
    fn report_progress(&mut self) {
        if let Data::Transferring(task, id) = &self.data {
            self.user.data_moved(*id, task.moved_bytes(), &self.engine_context.cx());
        }
    }

    /// If the transfer is measured, returns the data connection, and `true` for an upload.
    fn sampled_connection(&self) -> Option<(&Canceller, bool)> {
        self.shared.arrival_log.as_ref()?;
        match &self.data {
            Data::Transferring(task, _) => Some((&task.canceller, task.is_sending)),
            _ => self.ended.as_ref().map(|canceller| (canceller, true)),
        }
    }

    /// Samples the kernel's TCP: the acknowledged bytes of an upload, or the received segments of a
    /// download.
    fn sample(&self) {
        let Some((canceller, is_sending)) = self.sampled_connection() else { return };
        let Some((socket, arrival_log)) = canceller.socket().zip(self.shared.arrival_log.as_ref())
        else {
            return;
        };
        if let Ok(info) = TcpInfo::of(&socket) {
            let mut arrival_log = arrival_log.lock().unwrap_or_else(PoisonError::into_inner);
            arrival_log.account_sampling();
            if is_sending {
                arrival_log.sample_outgoing(&info);
            } else {
                arrival_log.sample_incoming(&info);
            }
        }
    }

    fn on_connected(&mut self, connection: TcpConnection, from: Option<SocketAddr>) {
        let Some(peer) = from.or_else(|| connection.peer_addr().ok()) else {
            self.data = Data::None;
            return self.user.data_failed(&mut self.engine_context.cx());
        };
        // A connection from an unexpected peer is closed. The listener stays open.
        if self.user.data_connected(peer, &mut self.engine_context.cx()) {
            if let (TcpConnection::Kernel(stream), Some(_)) = (&connection, &self.tls) {
                // Ignored: without this option small writes are delayed, but not lost.
                _ = stream.set_nodelay(true);
            }
            self.data = Data::Open(connection);
            self.timing.data_connected();
        } else if !matches!(self.data, Data::Listening(_)) {
            self.data = Data::None;
            self.user.data_failed(&mut self.engine_context.cx());
        }
    }

    fn finish_transfer(&mut self, moved: TransferResult, id: TaskId) {
        let wire_bytes = moved.wire_bytes;
        if moved.has_enough {
            // The requested bytes have arrived: abort the rest of the transfer.
            self.moved = Some(moved);
            return self.user.abort(&mut self.engine_context.cx());
        }
        let result = match &moved.result {
            Ok(()) => Ok(()),
            Err((failure, _)) => Err(*failure),
        };
        self.moved = Some(moved);
        self.user.data_ended(id, wire_bytes, result, &mut self.engine_context.cx());
    }

    /// Performs an action that the engine requests.
    async fn perform(&mut self, event: UserEvent) {
        match event {
            UserEvent::Reply(reply) => {
                self.timing.record_reply(reply.code.number());
                if self.shared.is_verbose.load(Ordering::Relaxed) {
                    (self.shared.message)(Severity::Info, &format!("< {reply}"));
                }
                // After the login, a 211 reply answers STAT, not FEAT (RFC 959 §4.2.2).
                if !self.is_open && reply.code.number() == 211 && reply.lines.len() > 1 {
                    self.features = Features::from_reply(&reply);
                }
            }
            UserEvent::StartTls => {
                let is_tls_established = self.start_tls().await;
                self.user.tls_started(is_tls_established, &mut self.engine_context.cx());
            }
            UserEvent::ConnectData(to) => {
                let host = self.shared.host.clone();
                let connecting = tokio::spawn(async move {
                    let connected = TcpConnection::connect(host.as_ref(), None, to).await;
                    connected.map(|connection| (connection, to))
                });
                self.data = Data::Connecting(connecting);
            }
            UserEvent::ListenData(_) => self.listen().await,
            UserEvent::StartData(id, protection) => self.start_data(id, protection),
            UserEvent::CloseData => self.close_data().await,
            UserEvent::Discard(_)
            | UserEvent::MarkerReached { .. }
            | UserEvent::Finished(..)
            | UserEvent::LoggedIn
            | UserEvent::Closed(_) => {}
        }
    }

    async fn start_tls(&mut self) -> bool {
        let Some(client) = &self.tls else { return false };
        let began = Instant::now();
        match self.control.start_tls(client).await {
            Ok(trusted_by) => self.trusted_by = Some(trusted_by),
            Err(refusal) => {
                self.refusal = Some(refusal);
                return false;
            }
        }
        self.timing.opening.tls = Some(began.elapsed());
        true
    }

    async fn listen(&mut self) {
        let listener = match &self.shared.host {
            Some(host) => host.listen(0).map(DataListener::Userspace),
            None => TcpListener::bind((self.local.ip(), 0)).await.map(DataListener::Kernel),
        };
        let address = listener.as_ref().ok().and_then(|listener| match listener {
            DataListener::Kernel(listener) => listener.local_addr().ok(),
            DataListener::Userspace(listener) => Some((self.local.ip(), listener.port()).into()),
        });
        self.data = listener.map_or(Data::None, Data::Listening);
        self.user.on_listening(address, &mut self.engine_context.cx());
    }

    fn start_data(&mut self, id: TaskId, protection: Protection) {
        let Data::Open(connection) = std::mem::replace(&mut self.data, Data::None) else { return };
        let request = TransferRequest {
            local_end: self.local_end.take().unwrap_or(LocalEnd::Memory(Vec::new())),
            representation: self.representation,
            expected_bytes: self.expected_bytes,
            tls: self.tls.clone().filter(|_| protection == Protection::Private),
            pace: RateLimit::new(self.shared.bytes_per_second),
            progress: self.shared.progress.clone(),
            arrival_log: self.shared.arrival_log.clone(),
            clock: self.engine_context.clock,
        };
        match request.start(connection) {
            Ok(Started::Running(task)) => self.data = Data::Transferring(task, id),
            Ok(Started::Ended(ended, canceller)) => {
                self.ended = canceller;
                self.finish_transfer(*ended, id);
            }
            Err(_) => {
                let lost = Err(DataFailure::ConnectionLost);
                self.user.data_ended(id, 0, lost, &mut self.engine_context.cx());
            }
        }
    }

    async fn close_data(&mut self) {
        match std::mem::replace(&mut self.data, Data::None) {
            Data::Connecting(connecting) => connecting.abort(),
            Data::Transferring(mut task, _) => {
                // The server would take an orderly end of the data for the end of a complete file.
                // Therefore the connection is reset. If a reset is impossible, the abort is sent
                // first, and the server ends the transfer.
                if task.is_sending && !task.canceller.reset() {
                    self.flush().await;
                    if let Ok(moved) = timeout(ABORT_TIMEOUT, task.ended()).await {
                        self.moved = Some(moved);
                        return;
                    }
                }
                task.cancel();
                self.moved = Some(task.ended().await);
            }
            Data::None | Data::Listening(_) | Data::Open(_) => {}
        }
    }

    async fn flush(&mut self) {
        if self.user.output().is_empty() {
            return;
        }
        let output = self.user.output().to_vec();
        let urgent = self.user.urgent_mark();
        self.timing.record_commands(&output);
        if self.shared.is_verbose.load(Ordering::Relaxed) {
            for line in command_lines(&output) {
                (self.shared.message)(Severity::Info, &format!("> {line}"));
            }
        }
        if self.control.write(&output, urgent).await.is_err() {
            return self.user.peer_closed(&mut self.engine_context.cx());
        }
        self.user.sent(output.len());
    }
}

async fn data_event(data: &mut Data) -> SessionEvent {
    match data {
        Data::None | Data::Open(_) => pending().await,
        Data::Connecting(connecting) => {
            let connected = connecting.await.unwrap_or_else(|error| Err(io::Error::other(error)));
            let (connection, to) = match connected {
                Ok((connection, to)) => (Ok(connection), Some(to)),
                Err(error) => (Err(error), None),
            };
            SessionEvent::Connected(connection, to)
        }
        Data::Listening(DataListener::Kernel(listener)) => match listener.accept().await {
            Ok((stream, from)) => {
                SessionEvent::Connected(Ok(TcpConnection::Kernel(stream)), Some(from))
            }
            Err(error) => SessionEvent::Connected(Err(error), None),
        },
        Data::Listening(DataListener::Userspace(listener)) => match listener.accept().await {
            Ok((stream, from)) => {
                SessionEvent::Connected(Ok(TcpConnection::Userspace(stream)), Some(from))
            }
            Err(error) => SessionEvent::Connected(Err(error), None),
        },
        Data::Transferring(task, id) => {
            SessionEvent::Transferred(Box::new(task.ended().await), *id)
        }
    }
}

/// Maximum duration of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// A control connection.
#[derive(Debug)]
enum ControlStream {
    /// Plaintext.
    Plaintext(TcpConnection),
    /// TLS.
    Tls(Box<TlsStream<TcpConnection>>),
    /// The TLS handshake has failed.
    Failed,
}

impl ControlStream {
    /// Reads at least one byte, or none at the end of the stream. Cancel safe.
    async fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plaintext(connection) => connection.read(room).await,
            Self::Tls(stream) => stream.read(room).await,
            Self::Failed => Ok(0),
        }
    }

    /// Writes all bytes. The first `urgent` bytes are urgent data, if the transport supports urgent
    /// data.
    async fn write(&mut self, bytes: &[u8], urgent: Option<usize>) -> io::Result<()> {
        match self {
            Self::Plaintext(TcpConnection::Kernel(stream)) => {
                let (first, rest) = bytes.split_at_checked(urgent.unwrap_or(0)).unwrap_or_default();
                if !first.is_empty() {
                    let send = || Ok(rustix::net::send(&*stream, first, SendFlags::OOB)?);
                    let sent_bytes = stream.async_io(Interest::WRITABLE, send).await?;
                    stream.write_all(first.get(sent_bytes..).unwrap_or_default()).await?;
                }
                stream.write_all(if first.is_empty() { bytes } else { rest }).await
            }
            Self::Plaintext(connection) => connection.write_all(bytes).await,
            Self::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
            Self::Failed => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Switches to TLS. Returns the reason for trusting the server, and the fingerprint of the
    /// server's certificate.
    async fn start_tls(&mut self, client: &TlsClient) -> Result<(TrustedBy, String), TlsFailure> {
        let Self::Plaintext(connection) = std::mem::replace(self, Self::Failed) else {
            return Err(TlsFailure::HandshakeFailed("TLS is already active".to_owned()));
        };
        let (configuration, name) = client.parts();
        let handshake = TlsConnector::from(configuration).connect(name, connection);
        let connected = timeout(HANDSHAKE_TIMEOUT, handshake).await;
        let connected =
            connected.map_err(|_| TlsFailure::HandshakeTimeout(HANDSHAKE_TIMEOUT.as_secs()))?;
        let stream = connected.map_err(|error| client.refusal(&error))?;
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let digest = certificate.map(fingerprint).unwrap_or_default();
        *self = Self::Tls(Box::new(stream));
        Ok((client.trust_basis(&digest), digest))
    }

    /// Ends the stream.
    async fn close(&mut self) {
        // Ignored: the connection ends even if the shutdown fails.
        _ = match self {
            Self::Plaintext(connection) => connection.shutdown().await,
            Self::Tls(stream) => stream.shutdown().await,
            Self::Failed => Ok(()),
        };
    }
}
