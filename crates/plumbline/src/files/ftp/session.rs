//! One FTP session: the control connection of the engine, and its data connections one after the
//! other.
//!
//! The engine requests actions and the session performs them. A thread per data connection moves
//! the bytes of files. A task ends when the engine has reported its result and that thread has
//! ended.

use super::facts::Facts;
use super::link::{Canceller, Link};
use super::mover::{Cancellation, Moved, Mover, Near, Watch};
use super::small::{Incoming, send_at_once};
use super::wire::{Carrier, Control};
use crate::carry::{Bench, Refusal, TlsClient, TrustedBy};
use crate::files::pace::Pace;
use crate::meters::Registry;
use os::host::{Host, Listener};
use os::socket::TcpInfo;
use protocols::application::ftp::user::{
    DataFailure, Done, Failure, Features, Lessons, Step, Task, TaskId, TlsUse, User, UserEvent,
    UserSettings, Why,
};
use protocols::application::ftp::{Protection, Representation};
use protocols::meter::{Account, Counter};
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Interval at which the engine learns the progress of a transfer.
const TICK: Duration = Duration::from_secs(1);
/// Interval at which TCP is sampled during a measured transfer.
const SAMPLE_EVERY: Duration = Duration::from_millis(3);
/// Maximum time for the server to notice that a transfer was aborted.
const GIVE_UP: Duration = Duration::from_secs(3);
/// Maximum time for the server to answer QUIT. Nothing depends on the answer.
const FAREWELL: Duration = Duration::from_secs(2);
/// Bytes read from the control connection at a time.
const READ_BYTES: usize = 16 * 1024;

/// State shared by several sessions.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    /// User-space host; `None` for the kernel's TCP.
    pub(super) host: Option<Host>,
    /// Rate limit for data.
    pub(super) bytes_per_second: Option<u64>,
    /// Bytes moved by all sessions.
    pub(super) tally: Arc<AtomicU64>,
    /// Log of arrivals, if the transfer is measured.
    pub(super) watch: Option<Arc<Mutex<Watch>>>,
    /// Expected final value of `tally`, as far as it is known.
    pub(super) expected: Arc<AtomicU64>,
    /// Whether the operations are to end.
    pub(super) stop: watch::Receiver<bool>,
    /// Whether the server's replies are printed.
    pub(super) is_verbose: Arc<AtomicBool>,
    /// Registry on which the meters are displayed.
    pub(super) board: Arc<Registry>,
}

/// Result of a task, with its transferred data.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) result: Result<Done, Failure>,
    /// Transferred data, if there was a data connection.
    pub(super) moved: Option<Moved>,
}

/// FTP session over one control connection.
pub(super) struct Session {
    user: User,
    control: Control,
    bench: Bench,
    shared: Shared,
    tls: Option<TlsClient>,
    data: Data,
    near: Option<Near>,
    representation: Representation,
    expected_bytes: Option<u64>,
    moved: Option<Moved>,
    /// Connection of an upload that has ended locally; TCP may still send what was written to it.
    ended: Option<Canceller>,
    /// Observations for the records.
    pub(super) facts: Facts,
    /// Features that the server advertises.
    pub(super) features: Features,
    /// Whether the login, including FEAT, is complete.
    is_open: bool,
    /// Reason for trusting the server, and the fingerprint of its certificate.
    pub(super) trusted_by: Option<(TrustedBy, String)>,
    /// Reason for a TLS failure.
    pub(super) refusal: Option<Refusal>,
    /// Local and remote address of the control connection.
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
}

enum Data {
    None,
    Connecting(JoinHandle<io::Result<(Carrier, SocketAddr)>>),
    Listening(Door),
    Open(Carrier),
    Moving {
        thread: JoinHandle<Moved>,
        canceller: Canceller,
        cancellation: Arc<Cancellation>,
        moved: Arc<AtomicU64>,
        id: TaskId,
        is_sending: bool,
    },
}

enum Door {
    Kernel(TcpListener),
    Own(Listener),
}

enum News {
    Read(io::Result<usize>),
    Connected(io::Result<Carrier>, Option<SocketAddr>),
    Moved(Box<Moved>, TaskId),
    Timeout,
    Tick,
    Sample,
    Stop,
    GiveUp,
}

impl Session {
    /// Logs in over an established connection.
    ///
    /// # Errors
    ///
    /// Returns an error of the local system. A failure of the login is in the inner result.
    pub(super) async fn open(
        carrier: Carrier,
        settings: UserSettings,
        tls: Option<TlsClient>,
        shared: Shared,
        facts: Facts,
    ) -> anyhow::Result<(Self, Result<(), Failure>)> {
        let began = Instant::now();
        let (local, peer) = (carrier.local()?, carrier.peer()?);
        let is_implicit = settings.tls == TlsUse::Implicit;
        let mut bench = Bench::shown_on(&shared.board, "FTP")?;
        let user = User::new(settings, local, peer, &bench.cx());
        let mut session = Self {
            user,
            control: Control::Clear(carrier),
            bench,
            shared,
            tls,
            data: Data::None,
            near: None,
            representation: Representation::IMAGE,
            expected_bytes: None,
            moved: None,
            ended: None,
            facts,
            is_open: false,
            features: Features::default(),
            trusted_by: None,
            refusal: None,
            local,
            peer,
        };
        if is_implicit && !session.start_tls().await {
            let failure = Failure { step: Step::Tls, why: Why::Tls };
            return Ok((session, Err(failure)));
        }
        let logged_in = session.drive(None).await.map(|_| ());
        let tls = session.facts.opening.tls.unwrap_or_default();
        session.facts.opening.login = Some(began.elapsed().saturating_sub(tls));
        session.facts.end_login(began.into_std());
        Ok((session, logged_in))
    }

    /// Returns whether the session accepts no more tasks.
    pub(super) fn is_closed(&self) -> bool {
        self.user.is_closed()
    }

    /// Runs a task; `near` is the local end of its data.
    pub(super) async fn run(&mut self, task: Task, near: Option<Near>) -> Outcome {
        (self.representation, self.expected_bytes) = match &task {
            Task::Retrieve { representation, expected_bytes, offset_bytes, .. } => {
                (*representation, expected_bytes.map(|size| size.saturating_sub(*offset_bytes)))
            }
            Task::Store { representation, .. } => (*representation, None),
            Task::MailFile(_) => (Representation::default(), None),
            // A listing arrives as lines of text, with either line ending.
            _ => (Representation::IMAGE, None),
        };
        (self.near, self.moved) = (near, None);
        self.facts.begin();
        self.bench.meter.transaction();
        let Some(id) = self.user.run(task, &mut self.bench.cx()) else {
            let failure = Failure { step: Step::Command, why: Why::ControlLost };
            return Outcome { result: Err(failure), moved: None };
        };
        let result = self.drive(Some(id)).await;
        self.close_data().await;
        if let (Some(moved), Some(ended)) = (&mut self.moved, self.ended.take()) {
            moved.data.settle(&ended);
        }
        let lost = Failure { step: Step::Command, why: Why::ControlLost };
        let mut result = result.and_then(|done| done.ok_or(lost));
        let moved = self.moved.take();
        if let (Err(Failure { why: why @ Why::Refused(_), .. }), Some(moved)) =
            (&mut result, &moved)
            && let Err((DataFailure::File, _)) = &moved.result
        {
            // The server's reply to the end of the data may arrive before the cause of that end.
            *why = Why::Data(DataFailure::File);
        }
        Outcome { result, moved }
    }

    /// Sets whether another file follows the next one.
    pub(super) fn expect_transfer(&mut self, is_expected: bool) {
        self.user.expect_transfer(is_expected);
    }

    /// Returns the properties of the server learned so far.
    pub(super) fn lessons(&self) -> Lessons {
        self.user.lessons()
    }

    /// Ends the session with QUIT, if the server answers in time.
    pub(super) async fn quit(mut self) {
        let farewell = async {
            if !self.is_closed() {
                _ = self.run(Task::Quit, None).await;
            }
            self.control.close().await;
        };
        _ = timeout(FAREWELL, farewell).await;
    }
}

impl Session {
    /// Processes events until the end of the task or, without a task, of the login.
    async fn drive(&mut self, id: Option<TaskId>) -> Result<Option<Done>, Failure> {
        let mut input = vec![0; READ_BYTES];
        let mut give_up_at = None;
        loop {
            while let Some(event) = self.user.event() {
                match event {
                    UserEvent::Finished(over, result) if Some(over) == id => {
                        // Pending output is sent before the next task.
                        self.flush().await;
                        return result.map(Some);
                    }
                    UserEvent::LoggedIn if id.is_none() => {
                        self.is_open = true;
                        return Ok(None);
                    }
                    UserEvent::Closed(failure) => {
                        let lost = Failure { step: Step::Command, why: Why::ControlLost };
                        return Err(failure.unwrap_or(lost));
                    }
                    event => self.take(event).await,
                }
            }
            self.flush().await;
            self.bench.meter.enter(Account::Outside);
            let news = self.news(&mut input, give_up_at).await;
            self.bench.meter.enter(Account::Application);
            self.bench.meter.count(Counter::Wakeups);
            match news {
                News::Stop => {
                    give_up_at = Some(Instant::now() + GIVE_UP);
                    if !matches!(self.data, Data::Moving { .. }) {
                        return Err(Failure { step: Step::Command, why: Why::Aborted });
                    }
                    self.user.abort(&mut self.bench.cx());
                }
                News::GiveUp => return Err(Failure { step: Step::Abort, why: Why::Aborted }),
                other => self.take_news(other, &input),
            }
        }
    }

    async fn news(&mut self, input: &mut [u8], give_up_at: Option<Instant>) -> News {
        let now = self.bench.clock.now();
        let deadline = self.user.deadline().map(|deadline| Instant::now() + (deadline - now));
        let deadline = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => pending().await,
            }
        };
        let giving_up = async {
            match give_up_at {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        let is_moving = matches!(self.data, Data::Moving { .. });
        let is_sampled = self.watched().is_some();
        tokio::select! {
            news = data_news(&mut self.data) => news,
            read = self.control.read(input) => News::Read(read),
            () = deadline => News::Timeout,
            () = sleep(TICK), if is_moving => News::Tick,
            () = sleep(SAMPLE_EVERY), if is_sampled => News::Sample,
            () = giving_up => News::GiveUp,
            _ = self.shared.stop.wait_for(|is_wanted| *is_wanted), if give_up_at.is_none() => {
                News::Stop
            }
        }
    }

    fn take_news(&mut self, news: News, input: &[u8]) {
        match news {
            News::Read(Ok(0) | Err(_)) => self.user.peer_closed(&mut self.bench.cx()),
            News::Read(Ok(count)) => {
                let came = input.get(..count).unwrap_or_default();
                self.user.receive(came, &mut self.bench.cx());
            }
            News::Connected(Ok(carrier), from) => self.connected(carrier, from),
            News::Connected(Err(_), _) => {
                self.data = Data::None;
                self.user.data_failed(&mut self.bench.cx());
            }
            News::Moved(moved, id) => {
                if let Data::Moving { canceller, .. } =
                    std::mem::replace(&mut self.data, Data::None)
                {
                    // All data has arrived, so dropping the connection closes it: some servers
                    // reply only after that.
                    self.ended = Some(canceller).filter(|_| moved.data.is_sending);
                }
                self.has_moved(*moved, id);
            }
            News::Timeout => self.user.timeout(&mut self.bench.cx()),
            News::Tick => self.report_progress(),
            News::Sample => {
                self.sample();
                // Samples are so frequent that no other tick fires.
                self.report_progress();
            }
            News::Stop | News::GiveUp => {}
        }
    }

    /// Reports the moved bytes to the engine, so that a transfer in progress does not time out.
    fn report_progress(&mut self) {
        if let Data::Moving { moved, id, .. } = &self.data {
            let (moved, id) = (moved.load(Ordering::Relaxed), *id);
            self.user.data_moved(id, moved, &self.bench.cx());
        }
    }

    /// Returns the data connection and whether it sends a file, if its progress is measured.
    fn watched(&self) -> Option<(&Canceller, bool)> {
        self.shared.watch.as_ref()?;
        match &self.data {
            Data::Moving { canceller, is_sending, .. } => Some((canceller, *is_sending)),
            _ => self.ended.as_ref().map(|canceller| (canceller, true)),
        }
    }

    /// Samples TCP: the acknowledged bytes of an upload, or the received segments of a download.
    fn sample(&self) {
        let Some((canceller, is_sending)) = self.watched() else { return };
        let Some((socket, watch)) = canceller.socket().zip(self.shared.watch.as_ref()) else {
            return;
        };
        if let Ok(info) = TcpInfo::of(&socket) {
            let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
            watch.account_sampling();
            if is_sending {
                watch.sample_outgoing(&info);
            } else {
                watch.sample_incoming(&info);
            }
        }
    }

    fn connected(&mut self, carrier: Carrier, from: Option<SocketAddr>) {
        let Some(peer) = from.or_else(|| carrier.peer().ok()) else {
            self.data = Data::None;
            return self.user.data_failed(&mut self.bench.cx());
        };
        // A connection from an unexpected peer is closed. The listener stays open.
        if self.user.data_connected(peer, &mut self.bench.cx()) {
            if let (Carrier::Kernel(stream), Some(_)) = (&carrier, &self.tls) {
                // Without this option small writes are delayed, but arrive.
                _ = stream.set_nodelay(true);
            }
            self.data = Data::Open(carrier);
            self.facts.data_connected();
        } else if !matches!(self.data, Data::Listening(_)) {
            self.data = Data::None;
            self.user.data_failed(&mut self.bench.cx());
        }
    }

    fn has_moved(&mut self, moved: Moved, id: TaskId) {
        let wire_bytes = moved.wire_bytes;
        if moved.is_enough {
            // The rest is not needed: abort the transfer.
            self.moved = Some(moved);
            return self.user.abort(&mut self.bench.cx());
        }
        let result = match &moved.result {
            Ok(()) => Ok(()),
            Err((failure, _)) => Err(*failure),
        };
        self.moved = Some(moved);
        self.user.data_ended(id, wire_bytes, result, &mut self.bench.cx());
    }

    /// Performs an action that the engine requests.
    async fn take(&mut self, event: UserEvent) {
        match event {
            UserEvent::Reply(reply) => {
                self.facts.replied(reply.code.number());
                if self.shared.is_verbose.load(Ordering::Relaxed) {
                    crate::files::progress::say(&format!("< {reply}"));
                }
                // Later 211 replies answer STAT (RFC 959 §4.2.2).
                if !self.is_open && reply.code.number() == 211 && reply.lines.len() > 1 {
                    self.features = Features::of(&reply);
                }
            }
            UserEvent::StartTls => {
                let is_on = self.start_tls().await;
                self.user.tls_started(is_on, &mut self.bench.cx());
            }
            UserEvent::ConnectData(to) => {
                let host = self.shared.host.clone();
                let connecting = tokio::spawn(async move {
                    let carrier = match host {
                        Some(host) => host.connect(to).await.map(Carrier::Own),
                        None => TcpStream::connect(to).await.map(Carrier::Kernel),
                    };
                    carrier.map(|carrier| (carrier, to))
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
        self.facts.opening.tls = Some(began.elapsed());
        true
    }

    async fn listen(&mut self) {
        let door = match &self.shared.host {
            Some(host) => host.listen(0).map(Door::Own),
            None => TcpListener::bind((self.local.ip(), 0)).await.map(Door::Kernel),
        };
        let address = door.as_ref().ok().and_then(|door| match door {
            Door::Kernel(listener) => listener.local_addr().ok(),
            Door::Own(listener) => Some((self.local.ip(), listener.port()).into()),
        });
        self.data = door.map_or(Data::None, Data::Listening);
        self.user.listening(address, &mut self.bench.cx());
    }

    fn start_data(&mut self, id: TaskId, protection: Protection) {
        let Data::Open(carrier) = std::mem::replace(&mut self.data, Data::None) else { return };
        let tls = self.tls.clone().filter(|_| protection == Protection::Private);
        let moved = Arc::new(AtomicU64::new(0));
        let is_plain = tls.is_none() && self.representation.passes_through();
        let is_watched = self.shared.bytes_per_second.is_some() || self.shared.watch.is_some();
        let carrier = match carrier {
            Carrier::Kernel(stream) if is_plain && !is_watched => {
                match self.start_small(id, stream, &moved) {
                    Some(stream) => Carrier::Kernel(stream),
                    None => return,
                }
            }
            carrier => carrier,
        };
        let Ok((link, canceller)) = Link::of(carrier, tls.as_ref()) else {
            let lost = Err(DataFailure::ConnectionLost);
            return self.user.data_ended(id, 0, lost, &mut self.bench.cx());
        };
        let cancellation = Arc::new(Cancellation::default());
        let near = self.near.take().unwrap_or(Near::Memory(Vec::new()));
        let is_sending = matches!(near, Near::From(_));
        let mover = Mover {
            link,
            cancellation: Arc::clone(&cancellation),
            near,
            representation: self.representation,
            pace: Pace::new(self.shared.bytes_per_second),
            moved: Arc::clone(&moved),
            tally: Arc::clone(&self.shared.tally),
            // Bytes that were written are not yet acknowledged; `sample` asks TCP for those that
            // are.
            watch: self.shared.watch.clone().filter(|_| !is_sending),
            expected_bytes: self.expected_bytes,
            clock: self.bench.clock,
        };
        let thread = tokio::task::spawn_blocking(move || mover.run());
        self.data = Data::Moving { thread, canceller, cancellation, moved, id, is_sending };
    }

    /// Moves a small file without a thread. Returns the connection if it cannot do so.
    fn start_small(
        &mut self,
        id: TaskId,
        stream: TcpStream,
        moved: &Arc<AtomicU64>,
    ) -> Option<TcpStream> {
        let near = self.near.take().unwrap_or(Near::Memory(Vec::new()));
        if let Near::From(file) = &near {
            let (count, ended) = send_at_once(&stream, file);
            moved.store(count, Ordering::Relaxed);
            self.shared.tally.fetch_add(count, Ordering::Relaxed);
            let Some(ended) = ended else {
                self.near = Some(near);
                return Some(stream);
            };
            // The stream is no longer polled.
            self.ended = stream.into_std().ok().map(Canceller::Kernel);
            self.has_moved(ended, id);
            return None;
        }
        let expected_bytes = self.expected_bytes;
        if !Incoming::is_small(&near, expected_bytes) {
            self.near = Some(near);
            return Some(stream);
        }
        let (moved, tally) = (Arc::clone(moved), Arc::clone(&self.shared.tally));
        let cancelled = Arc::new(Notify::new());
        let canceller = Canceller::Told(Arc::clone(&cancelled));
        let incoming =
            Incoming { stream, near, expected_bytes, moved: Arc::clone(&moved), tally, cancelled };
        let thread = tokio::spawn(incoming.run());
        // No rate limit applies here, so no cancellation of its wait is needed.
        let cancellation = Arc::default();
        self.data = Data::Moving { thread, canceller, cancellation, moved, id, is_sending: false };
        None
    }

    async fn close_data(&mut self) {
        match std::mem::replace(&mut self.data, Data::None) {
            Data::Connecting(connecting) => connecting.abort(),
            Data::Moving { mut thread, canceller, cancellation, is_sending, .. } => {
                // An orderly end of the data would mean a complete file. Therefore the connection
                // is reset; or the server is told of the abort first and ends the transfer.
                if is_sending && !canceller.reset() {
                    self.flush().await;
                    if let Ok(moved) = timeout(GIVE_UP, &mut thread).await {
                        self.moved = moved.ok();
                        return;
                    }
                }
                canceller.cancel();
                cancellation.cancel();
                if let Ok(moved) = thread.await {
                    self.moved = Some(moved);
                }
            }
            Data::None | Data::Listening(_) | Data::Open(_) => {}
        }
    }

    async fn flush(&mut self) {
        if self.user.output().is_empty() {
            return;
        }
        let (output, urgent) = (self.user.output().to_vec(), self.user.urgent_mark());
        self.facts.sent(&output);
        if self.control.write(&output, urgent).await.is_err() {
            return self.user.peer_closed(&mut self.bench.cx());
        }
        self.user.sent(output.len());
    }
}

async fn data_news(data: &mut Data) -> News {
    match data {
        Data::None | Data::Open(_) => pending().await,
        Data::Connecting(connecting) => {
            let connected = connecting.await.unwrap_or_else(|error| Err(io::Error::other(error)));
            let (carrier, to) = match connected {
                Ok((carrier, to)) => (Ok(carrier), Some(to)),
                Err(error) => (Err(error), None),
            };
            News::Connected(carrier, to)
        }
        Data::Listening(Door::Kernel(listener)) => match listener.accept().await {
            Ok((stream, from)) => News::Connected(Ok(Carrier::Kernel(stream)), Some(from)),
            Err(error) => News::Connected(Err(error), None),
        },
        Data::Listening(Door::Own(listener)) => match listener.accept().await {
            Ok((stream, from)) => News::Connected(Ok(Carrier::Own(stream)), Some(from)),
            Err(error) => News::Connected(Err(error), None),
        },
        Data::Moving { thread, id, .. } => {
            let id = *id;
            match thread.await {
                Ok(moved) => News::Moved(Box::new(moved), id),
                Err(error) => {
                    let lost = (DataFailure::File, io::Error::other(error));
                    let moved = Moved { result: Err(lost), ..Moved::nothing() };
                    News::Moved(Box::new(moved), id)
                }
            }
        }
    }
}
