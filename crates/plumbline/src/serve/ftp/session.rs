//! One session: the engine with its control connection, its data connection and its files.
//!
//! One loop answers what the engine asks, and waits for whatever comes first: the control
//! connection, a data connection, the end of something that was begun, the engine's deadline, the
//! end of the server. What takes long runs in a task of its own and sends its [`Answer`] here.

use super::control::Control;
use super::data::{Mover, Security, Work};
use super::facts::{self, Ledger, Steps};
use super::guest::{self, Guest};
use super::listing::Lister;
use super::log::Event;
use super::tree::Tree;
use super::upload::Upload;
use super::{Entrance, Server};
use crate::files::pace::Pace;
use crate::transfers::{self, Record, nanos, timed};
use os::clock::{Monotonic, thread_cpu_time};
use protocols::Instant as Moment;
use protocols::application::ftp::Protection;
use protocols::application::ftp::server::{
    self as engine, FileError, Finished, LoginAnswer, Opened, Operation, Outcome, ServerEvent,
    Transfer, TransferError, TransferId, TransferKind,
};
use protocols::time::Duration;
use records::transfer::Text;
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration as StdDuration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// The most answers that wait: one for each thing that runs at a time, and one that is late.
const ANSWERS_MAX: usize = 8;
/// The most restart markers of a sender that wait to be told.
const MARKERS_MAX: usize = 64;
/// What is said when the server ends.
const FAREWELL: &[u8] = b"421 The server is closing, goodbye\r\n";

/// A sender's restart marker, and how much of our file was written by then.
type Marker = (Vec<u8>, u64);

/// What has come of something that ran by itself.
enum Answer {
    Login(Vec<u8>, Option<Box<Guest>>),
    Performed(Result<Outcome, FileError>),
    Opened(TransferId, Result<(Opened, Work), FileError>),
    /// With the number of the route that it belongs to.
    Connected(u64, io::Result<TcpStream>),
    Ended(TransferId, Result<Option<Upload>, TransferError>),
    Committed(TransferId, Result<(), FileError>),
}

/// A transfer, from its opening to its end.
struct Running {
    transfer: Transfer,
    record: Record,
    opened_at: Option<Moment>,
    begun: Moment,
    work: Option<Work>,
    /// What has come in, and is whole.
    upload: Option<Upload>,
    task: Option<JoinHandle<()>>,
    ledger: Rc<Ledger>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// One session.
pub(super) struct Session {
    server: Rc<Server>,
    entrance: Entrance,
    engine: engine::Server,
    control: Control,
    local: SocketAddr,
    peer: SocketAddr,
    clock: Monotonic,
    /// What the TLS tickets of this session hold.
    token: [u8; 16],
    guest: Option<Guest>,
    listener: Option<TcpListener>,
    /// A data connection that nobody uses yet.
    arrived: Option<TcpStream>,
    /// Counts the ways in which data connections were to be made.
    route: u64,
    running: Option<Running>,
    input: Vec<u8>,
    starts_tls: bool,
    answers: (mpsc::Sender<Answer>, mpsc::Receiver<Answer>),
    markers: (mpsc::Sender<Marker>, mpsc::Receiver<Marker>),
    closing: watch::Receiver<bool>,
    /// Numbers the records.
    record_session: transfers::Session,
    /// How its opening was: TLS, and the login.
    opening: Opening,
    data_asked_at: Option<Moment>,
    data_connected_at: Option<Moment>,
}

/// How long it took to open the session, and how its user proved who he is.
#[derive(Clone, Copy, Debug)]
struct Opening {
    began: Moment,
    tls: Option<Duration>,
    login: Option<Duration>,
    is_anonymous: bool,
}

impl Session {
    /// Begins a session with who has come.
    ///
    /// # Errors
    ///
    /// If the connection has gone already, TLS fails or there is no entropy.
    pub(super) async fn begin(
        server: Rc<Server>,
        entrance: Entrance,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        // The data mark of a Synch is to be found where it was sent (RFC 1123 §4.1.2.10).
        os::socket::set_urgent_inline(&stream, true)?;
        let local = stream.local_addr()?;
        let chance = [os::entropy::seed()?, os::entropy::seed()?];
        let [high, low] = chance.map(u64::to_be_bytes);
        let mut token = [0; 16];
        token.iter_mut().zip(high.into_iter().chain(low)).for_each(|(to, from)| *to = from);
        let mut control = Control::new(stream);
        let clock = server.bench().clock;
        let began = clock.now();
        let acceptor = entrance.acceptor.as_ref().filter(|_| entrance.is_implicit_tls);
        if let Some(acceptor) = acceptor {
            control.secure(acceptor, &token).await?;
        }
        let has_tls = entrance.acceptor.is_some();
        let settings = server.settings().of_session(has_tls, entrance.is_implicit_tls);
        let engine = engine::Server::new(settings, local, peer, &server.bench().cx());
        let tls = entrance.is_implicit_tls.then(|| clock.now() - began);
        let record_session = server.clerk.session();
        let closing = server.closing.subscribe();
        Ok(Self {
            server,
            entrance,
            engine,
            control,
            local,
            peer,
            clock,
            token,
            guest: None,
            listener: None,
            arrived: None,
            route: 0,
            running: None,
            input: Vec::new(),
            starts_tls: false,
            answers: mpsc::channel(ANSWERS_MAX),
            markers: mpsc::channel(MARKERS_MAX),
            closing,
            record_session,
            opening: Opening { began, tls, login: None, is_anonymous: true },
            data_asked_at: None,
            data_connected_at: None,
        })
    }

    /// Serves until the end.
    ///
    /// # Errors
    ///
    /// If the control connection breaks.
    pub(super) async fn run(mut self) -> io::Result<()> {
        let result = self.serve().await;
        if result.is_err() {
            self.engine.peer_closed(&mut self.server.bench().cx());
        }
        self.answer_events();
        result
    }

    async fn serve(&mut self) -> io::Result<()> {
        loop {
            self.take_input();
            self.answer_events();
            let has_output = !self.engine.output().is_empty();
            if self.engine.is_closing() && !has_output {
                self.control.close(b"").await;
                return Ok(());
            }
            if *self.closing.borrow() && self.running.is_none() && !has_output {
                self.control.close(FAREWELL).await;
                self.engine.peer_closed(&mut self.server.bench().cx());
                return Ok(());
            }
            if self.starts_tls && !has_output {
                self.start_tls().await?;
                continue;
            }
            self.wait().await?;
        }
    }

    /// Waits until anything happens, and takes it.
    async fn wait(&mut self) -> io::Result<()> {
        let wants_input = self.engine.wants_input() && self.input.is_empty() && !self.starts_tls;
        let now = self.clock.now();
        let left = self.engine.deadline().map(|deadline| deadline - now);
        let output = self.engine.output();
        tokio::select! {
            moved = self.control.turn(output, wants_input, &self.server.scratch) => {
                let moved = moved?;
                self.engine.sent(moved.written);
                match moved.read {
                    Some(read) if read.is_empty() => {
                        self.engine.peer_closed(&mut self.server.bench().cx());
                    }
                    Some(read) => self.input = read,
                    None => {}
                }
            }
            arrived = accept(self.listener.as_ref()) => self.arrive(arrived),
            Some(answer) = self.answers.1.recv() => self.take_answer(answer),
            Some((marker, offset)) = self.markers.1.recv() => {
                if let Some(running) = &self.running {
                    self.engine.marker_reached(running.transfer.id, &marker, offset);
                }
            }
            () = elapse(left) => {
                self.note_moved();
                self.engine.timeout(&mut self.server.bench().cx());
            }
            _ = self.closing.changed() => {}
        }
        Ok(())
    }

    fn take_input(&mut self) {
        if self.input.is_empty() {
            return;
        }
        self.note_moved();
        let mut rest = self.input.as_slice();
        self.engine.receive(&mut rest, &mut self.server.bench().cx());
        let taken = self.input.len() - rest.len();
        self.input.drain(..taken);
    }

    /// Tells the engine how far the data is.
    fn note_moved(&mut self) {
        if let Some(running) = &self.running {
            let (id, moved) = (running.transfer.id, running.ledger.moved.get());
            self.engine.data_moved(id, moved, &self.server.bench().cx());
        }
    }

    async fn start_tls(&mut self) -> io::Result<()> {
        self.starts_tls = false;
        let Some(acceptor) = &self.entrance.acceptor else {
            self.engine.tls_started(false, &mut self.server.bench().cx());
            return Ok(());
        };
        let began = self.clock.now();
        self.control.secure(acceptor, &self.token).await?;
        self.opening.tls = Some(self.clock.now() - began);
        self.engine.tls_started(true, &mut self.server.bench().cx());
        Ok(())
    }

    fn answer_events(&mut self) {
        while let Some(event) = self.engine.event() {
            match event {
                ServerEvent::Authenticate(login) => {
                    let (server, peer) = (Rc::clone(&self.server), self.peer);
                    self.spawn(async move {
                        let name = login.user.as_bytes().to_vec();
                        let guest = guest::authenticate(&server, peer, &login).await;
                        Answer::Login(name, guest.map(Box::new))
                    });
                }
                ServerEvent::StartTls => {
                    self.input.clear();
                    self.starts_tls = true;
                }
                // It is not allowed in the settings.
                ServerEvent::StopTls => {}
                ServerEvent::Listen(_) => self.listen(),
                ServerEvent::Connect(to) => self.connect(to),
                ServerEvent::CloseData => self.close_data(),
                ServerEvent::Open(transfer) => self.open(transfer),
                ServerEvent::Start(id) => self.start(id),
                ServerEvent::Commit(id) => self.commit(id),
                ServerEvent::Discard(_) => {
                    self.arrived = None;
                    if let Some(running) = &mut self.running {
                        (running.work, running.upload) = (None, None);
                        if let Some(task) = running.task.take() {
                            task.abort();
                        }
                    }
                }
                ServerEvent::Perform(operation) => self.perform(operation),
                ServerEvent::Finished(finished) => self.finish(&finished),
            }
        }
    }

    fn spawn(&self, work: impl Future<Output = Answer> + 'static) {
        let answers = self.answers.0.clone();
        tokio::task::spawn_local(async move {
            // Where nobody listens any longer the session is over.
            _ = answers.send(work.await).await;
        });
    }

    fn take_answer(&mut self, answer: Answer) {
        let server = Rc::clone(&self.server);
        match answer {
            Answer::Login(name, guest) => {
                let name = name.escape_ascii().to_string();
                let answer = match guest {
                    Some(guest) => {
                        let account = guest.account();
                        self.opening.login = Some(self.clock.now() - self.opening.began);
                        self.opening.is_anonymous = guest.is_anonymous;
                        self.guest = Some(*guest);
                        server.log.say(&Event::LoggedIn { from: self.peer, name });
                        LoginAnswer::Accepted(account)
                    }
                    None => {
                        server.log.say(&Event::LoginFailed { from: self.peer, name });
                        LoginAnswer::Refused
                    }
                };
                self.engine.login(answer, &mut server.bench().cx());
            }
            Answer::Performed(result) => self.engine.performed(result, &mut server.bench().cx()),
            Answer::Opened(id, result) => self.opened(id, result),
            Answer::Connected(route, result) if route == self.route => match result {
                Ok(stream) => self.arrive(Ok((stream, self.peer))),
                Err(_) => self.engine.data_failed(&mut server.bench().cx()),
            },
            Answer::Connected(..) => {}
            Answer::Ended(id, result) => self.ended(id, result),
            Answer::Committed(id, result) => {
                self.engine.committed(id, result, &mut server.bench().cx());
            }
        }
    }

    fn listen(&mut self) {
        self.close_data();
        self.data_asked_at = Some(self.clock.now());
        let settings = self.server.settings();
        let ip = self.local.ip().to_canonical();
        let listener = listen_in(&settings.passive_ports, ip);
        let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let seen = settings.passive_address.filter(|told| told.is_ipv4() == ip.is_ipv4());
        let told = address.map(|at| SocketAddr::new(seen.unwrap_or(ip), at.port()));
        self.listener = listener;
        self.engine.listening(told, &mut self.server.bench().cx());
    }

    fn connect(&mut self, to: SocketAddr) {
        self.close_data();
        self.data_asked_at = Some(self.clock.now());
        let (route, from) = (self.route, self.local.ip().to_canonical());
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        self.spawn(async move { Answer::Connected(route, connect(from, to).await) });
    }

    fn close_data(&mut self) {
        self.route += 1;
        (self.listener, self.arrived) = (None, None);
    }

    /// A data connection is there.
    fn arrive(&mut self, arrived: io::Result<(TcpStream, SocketAddr)>) {
        // Somebody has gone before he was let in, or there are no descriptors: others may come.
        let Ok((stream, from)) = arrived else { return };
        if self.engine.data_connected(from, &mut self.server.bench().cx()) {
            self.arrived = Some(stream);
            self.data_connected_at = Some(self.clock.now());
            self.listener = None;
        }
    }

    fn open(&mut self, transfer: Transfer) {
        let (id, kind) = (transfer.id, transfer.kind.clone());
        let Some(tree) = self.guest.as_ref().map(|guest| guest.tree.clone()) else {
            return self.opened(id, Err(FileError::Denied));
        };
        let mut record = self.server.clerk.begin(Some(facts::command_of(&kind)));
        facts::note_request(&mut record, &transfer);
        self.running = Some(Running {
            transfer: transfer.clone(),
            record,
            opened_at: None,
            begun: self.clock.now(),
            work: None,
            upload: None,
            task: None,
            ledger: Rc::default(),
        });
        let copies = transfer.offset_bytes > 0 || kind == TransferKind::Append;
        if kind.is_incoming() && copies {
            // The disk may take its time, and others do not wait for it.
            return self.spawn(async move {
                let opened = tokio::task::spawn_blocking(move || open(&tree, &transfer)).await;
                Answer::Opened(id, opened.unwrap_or(Err(FileError::Local)))
            });
        }
        let opened = open(&tree, &transfer);
        self.opened(id, opened);
    }

    fn opened(&mut self, id: TransferId, result: Result<(Opened, Work), FileError>) {
        let now = self.clock.now();
        let result = result.map(|(opened, work)| {
            if let Some(running) = self.running_of(id) {
                running.opened_at = Some(now);
                running.work = Some(work);
            }
            opened
        });
        self.engine.opened(id, result, &mut self.server.bench().cx());
    }

    fn running_of(&mut self, id: TransferId) -> Option<&mut Running> {
        self.running.as_mut().filter(|running| running.transfer.id == id)
    }

    fn start(&mut self, id: TransferId) {
        let stream = self.arrived.take();
        self.close_data();
        let (server, token) = (Rc::clone(&self.server), self.token);
        let acceptor = self.entrance.acceptor.clone();
        let pace = self.guest.as_ref().map(|guest| Rc::clone(&guest.pace));
        let (clock, answers) = (self.clock, self.answers.0.clone());
        let markers = self.markers.0.clone();
        let Some(running) = self.running_of(id) else { return };
        let (Some(stream), Some(work)) = (stream, running.work.take()) else {
            let local = Err(TransferError::File(FileError::Local));
            return self.engine.data_ended(id, 0, local, &mut server.bench().cx());
        };
        let requires_reuse = server.settings().requires_session_reuse;
        let is_protected = running.transfer.protection == Protection::Private;
        let security = acceptor.filter(|_| is_protected).map(|acceptor| Security {
            acceptor,
            token,
            requires_reuse,
        });
        let mover = Mover {
            representation: running.transfer.representation,
            deflate_level: running.transfer.deflate_level,
            ledger: Rc::clone(&running.ledger),
            pace: pace.unwrap_or_else(|| Rc::new(Cell::new(Pace::new(None)))),
            clock,
            markers,
        };
        let ledger = Rc::clone(&running.ledger);
        running.task = Some(tokio::task::spawn_local(async move {
            let moving = mover.run(stream, security, work, &server.scratch);
            let (result, cpu) = timed(moving).await;
            ledger.add_cpu(cpu);
            _ = answers.send(Answer::Ended(id, result)).await;
        }));
    }

    fn ended(&mut self, id: TransferId, result: Result<Option<Upload>, TransferError>) {
        let Some(running) = self.running_of(id) else { return };
        let moved = running.ledger.moved.get();
        let result = result.map(|upload| running.upload = upload);
        self.engine.data_ended(id, moved, result, &mut self.server.bench().cx());
    }

    fn commit(&mut self, id: TransferId) {
        let running = self.running_of(id);
        let ledger = running.as_ref().map(|running| Rc::clone(&running.ledger));
        let upload = running.and_then(|running| running.upload.take());
        let clock = self.clock;
        self.spawn(async move {
            let Some(upload) = upload else {
                return Answer::Committed(id, Err(FileError::Local));
            };
            let began = clock.now();
            let committed = tokio::task::spawn_blocking(|| {
                let before = thread_cpu_time();
                let committed = upload.commit();
                (committed, thread_cpu_time().saturating_sub(before))
            });
            let committed = committed.await.map(|(committed, cpu)| {
                if let Some(ledger) = ledger {
                    ledger.committing.set(Some(clock.now() - began));
                    ledger.add_cpu(cpu);
                }
                committed
            });
            Answer::Committed(id, committed.unwrap_or(Err(FileError::Local)))
        });
    }

    fn perform(&mut self, operation: Operation) {
        let Some(tree) = self.guest.as_ref().map(|guest| guest.tree.clone()) else {
            let denied = Err(FileError::Denied);
            return self.engine.performed(denied, &mut self.server.bench().cx());
        };
        let is_long = matches!(
            operation,
            Operation::Hash(..)
                | Operation::Combine { .. }
                | Operation::Status { .. }
                | Operation::Size { .. }
        );
        if !is_long {
            let result = tree.perform(&operation);
            return self.engine.performed(result, &mut self.server.bench().cx());
        }
        self.spawn(async move {
            let done = tokio::task::spawn_blocking(move || tree.perform(&operation)).await;
            Answer::Performed(done.unwrap_or(Err(FileError::Local)))
        });
    }

    fn finish(&mut self, finished: &Finished) {
        let Some(mut running) = self.running.take() else { return };
        let now = self.clock.now();
        let why = finished.result.err().map(why_of);
        let steps = Steps {
            command: running.begun,
            opened: running.opened_at,
            data_asked: self.data_asked_at.take(),
            data_connected: self.data_connected_at.take(),
            finished: now,
        };
        facts::conclude(&mut running.record, &running.ledger, &steps, finished, why);
        self.keep(&running.ledger, &mut running.record);
        let user = self.engine.user().map(|user| user.as_bytes().escape_ascii().to_string());
        let (from, user) = (self.peer, user.unwrap_or_default());
        let name = running.transfer.path.to_bytes().escape_ascii().to_string();
        let is_read = !running.transfer.kind.is_incoming();
        let bytes = finished.wire_bytes;
        let micros = u64::try_from((now - running.begun).as_micros()).unwrap_or(u64::MAX);
        self.server.log.say(&match why {
            None => Event::Moved { from, user, name, is_read, bytes, micros },
            Some(why) => {
                let why = why.to_owned();
                Event::Failed { from, user, name, is_read, bytes, why }
            }
        });
    }

    /// Keeps a record, with what the session knows.
    fn keep(&mut self, ledger: &Ledger, record: &mut Record) {
        let identity = &mut record.transfer.identity;
        identity.control_local = Some(self.local);
        identity.control_remote = Some(self.peer);
        identity.user = self.engine.user().map(|user| Text::from(user.as_bytes()));
        let how = if self.opening.is_anonymous { "anonymous" } else { "password" };
        identity.auth_method = Some(Text::from(how));
        if self.record_session.number(record) {
            record.transfer.time.ns_ctl_tls = self.opening.tls.map(nanos);
            record.transfer.time.ns_login = self.opening.login.map(nanos);
            record.transfer.host = self.server.clerk.host();
        }
        match ledger.unsettled.take() {
            Some((stream, since)) => self.server.clerk.keep_settled(record.clone(), stream, since),
            None => self.server.clerk.keep(record),
        }
    }
}

/// Opens what a transfer moves.
fn open(tree: &Tree, transfer: &Transfer) -> Result<(Opened, Work), FileError> {
    match &transfer.kind {
        TransferKind::Retrieve => {
            let (file, len) = tree.read(&transfer.path)?;
            let offset = transfer.offset_bytes;
            if offset > len {
                return Err(FileError::TooLarge);
            }
            let is_known = transfer.representation.passes_through();
            let size_bytes = is_known.then_some(len - offset);
            Ok((Opened { size_bytes, name: None }, Work::Send { file, offset, len }))
        }
        TransferKind::List { form, pattern, shows_hidden } => {
            let pattern = pattern.as_ref();
            let lister = Lister::new(tree, &transfer.path, form, pattern, *shows_hidden)?;
            Ok((Opened::default(), Work::List(Box::new(lister))))
        }
        TransferKind::Mail(_) => Err(FileError::NotSupported),
        TransferKind::Store | TransferKind::StoreUnique | TransferKind::Append => {
            let (upload, name) = tree.write(transfer)?;
            Ok((Opened { size_bytes: None, name }, Work::Receive(upload)))
        }
    }
}

/// Returns the reason as the line of a log has it.
fn why_of(error: TransferError) -> &'static str {
    match error {
        TransferError::NoConnection => "there was no data connection",
        TransferError::Tls => "TLS failed on the data connection, or was not this session's",
        TransferError::ConnectionLost => "the data connection broke",
        TransferError::Stalled => "no byte moved for too long",
        TransferError::Aborted => "the user has aborted it",
        TransferError::ControlLost => "the control connection ended",
        TransferError::Malformed => "the data was not in its representation",
        TransferError::File(FileError::NotFound) => "there is no such file",
        TransferError::File(FileError::Denied) => "it may not be had",
        TransferError::File(FileError::Quota) => "the quota is used up",
        TransferError::File(FileError::NoSpace) => "the disk is full",
        TransferError::File(_) => "the file system refuses",
    }
}

/// Waits for a data connection, for ever where nobody listens.
async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Waits for a time, for ever where there is none.
async fn elapse(left: Option<Duration>) {
    let Some(left) = left else { return std::future::pending().await };
    let nanos = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
    tokio::time::sleep(StdDuration::from_nanos(nanos)).await;
}

/// Listens at one of `ports`, beginning at one of chance; at any, if they are `0..=0`.
fn listen_in(ports: &std::ops::RangeInclusive<u16>, ip: std::net::IpAddr) -> Option<TcpListener> {
    let (first, last) = (u64::from(*ports.start()), u64::from(*ports.end()));
    let count = last - first + 1;
    let chance = os::entropy::seed().ok()? % count;
    (0..count).find_map(|step| {
        let port = u16::try_from(first + (chance + step) % count).ok()?;
        let socket = if ip.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.ok()?;
        // In a range, a port that was used a moment ago is used again.
        socket.set_reuseaddr(port != 0).ok()?;
        socket.bind(SocketAddr::new(ip, port)).ok()?;
        socket.listen(4).ok()
    })
}

async fn connect(from: std::net::IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.bind(SocketAddr::new(from, 0))?;
    socket.connect(to).await
}
