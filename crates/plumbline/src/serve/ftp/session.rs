//! FTP session: connects the protocol engine with the control connection, data connection and
//! files.
//!
//! One loop handles the engine's events and waits for the first of: the control connection, a data
//! connection, the end of a task, the engine's deadline, the shutdown of the server. Long
//! operations run in tasks that send an [`Answer`].

use super::control::Control;
use super::data::{self, Mover, Stream, Work};
use super::facts::{self, Ledger};
use super::guest::{self, Guest, Proof};
use super::host::{self, Hosts, TlsName};
use super::log::Event;
use super::long_work::{self, LongOperation};
use super::mail::{Sender, Spool};
use super::passive::{Listener, PortShare};
use super::post::Post;
use super::secured::Security;
use super::socket::Socket;
use super::tickets;
use super::upload::Upload;
use super::waits::{accept, elapse};
use super::work::open;
use super::{Entrance, Server, Tls};
use crate::files::pace::Pace;
use crate::serve::charged::Metered;
use crate::transfer_recorder::{self, Record, timed};
use os::clock::{Monotonic, thread_cpu_time};
use protocols::Instant as Moment;
use protocols::application::ftp::server::{
    self as engine, FileError, Login, LoginAnswer, Opened, Operation, Outcome, Placement,
    ServerEvent, Transfer, TransferError, TransferId, TransferKind,
};
use protocols::application::ftp::{Name, Protection, VirtualPath};
use protocols::meter::{Account, Counter};
use protocols::time::Duration;
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;
use tokio::task::JoinHandle;

mod ending;
mod report;

/// Maximum number of queued answers: one for each concurrent task, and a late one.
const ANSWERS_MAX: usize = 8;
/// Maximum number of queued restart markers of a sending client.
const MARKERS_MAX: usize = 64;
/// Reply sent when the server shuts down.
const FAREWELL: &[u8] = b"421 The server is closing, goodbye\r\n";

/// Restart marker of a client, and the length of the local file at that point.
pub(super) type Marker = (Vec<u8>, u64);

/// Result of a task.
enum Answer {
    Login(Vec<u8>, Proof<Box<Guest>>),
    Performed(Result<Outcome, FileError>),
    Opened(TransferId, Result<(Opened, Work), FileError>),
    /// With the number of the route for which the connection was made.
    Connected(u64, io::Result<Socket>),
    Ended(TransferId, Result<Option<Upload>, TransferError>),
    Committed(TransferId, Result<(), FileError>),
    Placed(TransferId, Option<Upload>, Result<Placement, FileError>),
}

/// Transfer, from its opening to its end.
struct Running {
    transfer: Transfer,
    record: Record,
    opened_at: Option<Moment>,
    begun: Moment,
    work: Option<Work>,
    /// Completely received file.
    upload: Option<Upload>,
    is_committing: bool,
    /// Time when the upload was in place.
    placed_at: Option<Moment>,
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

/// Task that is aborted when its session ends.
struct Bound(JoinHandle<()>);

impl Drop for Bound {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Change of TLS on the control connection, due when the output is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnOfTls {
    Begins,
    Ends,
}

/// FTP session.
pub(super) struct Session {
    server: Rc<Server>,
    entrance: Entrance,
    engine: engine::Server,
    control: Control,
    local: SocketAddr,
    peer: SocketAddr,
    clock: Monotonic,
    /// Token in the TLS tickets of this session.
    token: [u8; tickets::TOKEN_LEN],
    /// Sessions whose tickets are accepted like those of this one.
    family: tickets::Family,
    /// Host name received when TLS began.
    tls_name: Option<TlsName>,
    /// Virtual host of the user; `None` for the server's own files.
    host: Option<Box<str>>,
    guest: Option<Guest>,
    listener: Option<Listener>,
    port_share: Option<PortShare>,
    /// Local and remote address of the passive data connection.
    data_ends: (Option<SocketAddr>, Option<SocketAddr>),
    /// Whether the replies to the request for the listener have been sent.
    is_told: bool,
    /// Whether a transfer waits for a connection to the listener.
    awaits_data: bool,
    /// Path whose partial upload the client has selected, until the next transfer.
    selected: Option<VirtualPath>,
    /// Path of the current SIZE or SITE PARTIAL.
    asked: Option<VirtualPath>,
    /// Data connection that no transfer uses yet.
    arrived: Option<Stream>,
    /// Number of data routes so far; identifies late connections.
    route: u64,
    running: Option<Box<Running>>,
    /// Tasks of logins and long commands of this session.
    bound: Vec<Bound>,
    input: Vec<u8>,
    turn_of_tls: Option<TurnOfTls>,
    answers: Post<Answer>,
    markers: Post<Marker>,
    closing: watch::Receiver<bool>,
    /// Numbers the transfer records.
    record_session: transfer_recorder::Session,
    /// Timing of TLS and login, for the records.
    opening: Opening,
    data_asked_at: Option<Moment>,
    data_connected_at: Option<Moment>,
}

/// Duration of TLS setup and login, and the kind of login.
#[derive(Clone, Copy, Debug)]
struct Opening {
    began: Moment,
    tls: Option<Duration>,
    login: Option<Duration>,
    is_anonymous: bool,
}

impl Session {
    /// Starts a session on an accepted connection.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is gone, TLS fails, or there is no entropy.
    pub(super) async fn begin(
        server: Rc<Server>,
        mut entrance: Entrance,
        stream: Socket,
        peer: SocketAddr,
    ) -> io::Result<Self> {
        stream.set_for_commands()?;
        let local = stream.local_addr()?;
        let chance = [os::entropy::seed()?, os::entropy::seed()?];
        let [high, low] = chance.map(u64::to_be_bytes);
        let mut token = [0; tickets::TOKEN_LEN];
        token.iter_mut().zip(high.into_iter().chain(low)).for_each(|(to, from)| *to = from);
        let mut control = Control::new(stream);
        let clock = server.bench().clock;
        let began = clock.now();
        let mut tls_name = None;
        if let Some(tls) = entrance.tls.as_mut().filter(|_| entrance.is_implicit_tls) {
            // Boxed: most sessions use no TLS, so do not reserve space for this future in each.
            Box::pin(control.secure(&mut tls.configuration, &token, &server)).await?;
            tls_name = named_in_tls(&control, tls, &server.settings().hosts);
        }
        let has_tls = entrance.tls.is_some();
        let settings = server.settings().of_session(has_tls, entrance.is_implicit_tls);
        let engine = engine::Server::new(settings, local, peer, &server.bench().cx());
        let tls = entrance.is_implicit_tls.then(|| clock.now() - began);
        let record_session = server.transfer_log.session();
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
            family: tickets::Family::default(),
            tls_name,
            host: None,
            guest: None,
            listener: None,
            port_share: None,
            data_ends: (None, None),
            is_told: true,
            awaits_data: false,
            selected: None,
            asked: None,
            arrived: None,
            route: 0,
            running: None,
            bound: Vec::new(),
            input: Vec::new(),
            turn_of_tls: None,
            answers: Post::new(ANSWERS_MAX),
            markers: Post::new(MARKERS_MAX),
            closing,
            record_session,
            opening: Opening { began, tls, login: None, is_anonymous: true },
            data_asked_at: None,
            data_connected_at: None,
        })
    }

    /// Runs the session to its end.
    ///
    /// # Errors
    ///
    /// Returns an error if the control connection fails.
    pub(super) async fn run(mut self) -> io::Result<()> {
        let result = self.serve().await;
        if result.is_err() {
            self.engine.peer_closed(&mut self.server.bench().cx());
        }
        self.answer_events();
        while self.is_committing() {
            // An upload may have to be withdrawn after it is placed.
            let answer = self.answers.take().await;
            self.take_answer(answer);
            self.answer_events();
        }
        result
    }

    async fn serve(&mut self) -> io::Result<()> {
        loop {
            self.take_input();
            self.answer_events();
            let has_output = !self.engine.output().is_empty();
            if self.engine.is_closing() && !has_output && !self.is_committing() {
                Box::pin(self.control.close(b"")).await;
                return Ok(());
            }
            if *self.closing.borrow() {
                // The client has its reply, and the server does not wait any longer.
                self.engine.confirm_upload(&mut self.server.bench().cx());
                self.answer_events();
            }
            let is_moving = self.running.as_ref().is_some_and(|running| {
                // An interrupted listing can be requested again.
                !matches!(running.transfer.kind, TransferKind::List { .. })
            });
            if *self.closing.borrow() && !is_moving && !has_output {
                Box::pin(self.control.close(FAREWELL)).await;
                self.engine.peer_closed(&mut self.server.bench().cx());
                return Ok(());
            }
            if let Some(turn) = self.turn_of_tls.take_if(|_| !has_output) {
                match turn {
                    TurnOfTls::Begins => Box::pin(self.start_tls()).await?,
                    TurnOfTls::Ends => Box::pin(self.control.clear()).await?,
                }
                continue;
            }
            self.is_told |= !has_output;
            // A client that pipelines PASV and RETR may already have connected.
            let is_new = self.listener.as_ref().is_some_and(Listener::is_idle);
            if self.awaits_data && self.is_told && is_new && self.meet() {
                continue;
            }
            self.wait().await?;
        }
    }

    /// Waits for the next event and handles it.
    async fn wait(&mut self) -> io::Result<()> {
        let wants_input = self.engine.wants_input() && self.input.is_empty();
        let wants_input = wants_input && self.turn_of_tls.is_none();
        let now = self.clock.now();
        let left = self.engine.deadline().map(|deadline| deadline - now);
        let output = self.engine.output();
        let account = self.control.account();
        let turn = self.control.turn(output, wants_input, &self.server.scratch);
        tokio::select! {
            moved = self.server.charge_work(account, turn) => {
                let moved = moved?;
                self.engine.sent(moved.written);
                match moved.read {
                    Some(read) if read.is_empty() => self.control_ended(),
                    Some(read) => self.input = read,
                    None => {}
                }
            }
            arrived = accept(self.listener.as_mut().filter(|_| self.awaits_data)) => {
                // The client closed before it was accepted, or no descriptors are left: keep
                // listening.
                if let Ok((stream, from)) = arrived {
                    self.arrive(stream, from);
                }
            }
            answer = self.answers.take() => self.take_answer(answer),
            (marker, offset) = self.markers.take() => {
                if let Some(running) = &self.running {
                    self.engine.marker_reached(running.transfer.id, &marker, offset);
                }
            }
            () = elapse(left) => {
                self.note_moved();
                // The end of the control connection may not have been read yet.
                if self.engine.is_confirming_upload() && self.control.has_ended() {
                    self.control_ended();
                } else {
                    self.engine.timeout(&mut self.server.bench().cx());
                }
            }
            _ = self.closing.changed() => {}
        }
        self.server.bench().meter.count(Counter::Wakeups);
        Ok(())
    }

    fn take_input(&mut self) {
        if self.input.is_empty() {
            return;
        }
        self.note_moved();
        self.server.bench().meter.transaction();
        let mut rest = self.input.as_slice();
        self.engine.receive(&mut rest, &mut self.server.bench().cx());
        let taken = self.input.len() - rest.len();
        self.input.drain(..taken);
    }

    async fn start_tls(&mut self) -> io::Result<()> {
        let hosts = Arc::clone(&self.server.settings().hosts);
        let chosen = hosts.chosen(self.engine.host(), None);
        let (Some(tls), Ok(chosen)) = (&mut self.entrance.tls, chosen) else {
            // TLS is not available, or the host has been removed since it was named.
            self.engine.tls_started(false, &mut self.server.bench().cx());
            return Ok(());
        };
        if let Some(host) = chosen {
            // Its data connections present the same certificate.
            tls.configuration = host::bound(&tls.configuration, &tls.certificates, host);
        }
        let began = self.clock.now();
        self.control.secure(&mut tls.configuration, &self.token, &self.server).await?;
        // A client that sent HOST before AUTH has negotiated TLS with that host even without SNI.
        self.tls_name = match chosen {
            Some(host) => Some(hosts.tls_name(host.name())),
            None => named_in_tls(&self.control, tls, &hosts),
        };
        self.opening.tls = Some(self.clock.now() - began);
        // RFC 7151 §4: HOST for the server itself and SNI for a virtual host conflict.
        let agrees = hosts.chosen(self.engine.host(), self.tls_name.as_ref()).is_ok();
        self.engine.tls_started(agrees, &mut self.server.bench().cx());
        Ok(())
    }

    fn answer_events(&mut self) {
        while let Some(event) = self.engine.event() {
            match event {
                ServerEvent::Authenticate(login) => self.authenticate(login),
                ServerEvent::StartTls => {
                    self.input.clear();
                    self.turn_of_tls = Some(TurnOfTls::Begins);
                }
                ServerEvent::StopTls => self.turn_of_tls = Some(TurnOfTls::Ends),
                ServerEvent::Listen(_) => self.listen(),
                ServerEvent::Connect(to) => self.connect(to),
                ServerEvent::CloseData => self.close_data(),
                ServerEvent::Open(transfer) => self.open(transfer),
                ServerEvent::Start(id) => self.start(id),
                ServerEvent::Commit(id) => self.commit(id),
                ServerEvent::Place(id) => self.place(id),
                ServerEvent::Keep(id) => self.settle(id),
                ServerEvent::Discard(id) => self.discard(id),
                ServerEvent::Perform(operation) => self.perform(operation),
                ServerEvent::Finished(finished) => self.finish(&finished),
            }
        }
    }

    fn spawn(&self, work: impl Future<Output = Answer> + 'static) {
        let answers = self.answers.clone();
        tokio::task::spawn_local(async move {
            // The queue has room for all concurrent tasks.
            answers.put(work.await);
        });
    }

    /// Like [`Self::spawn`], for a task that is aborted when the session ends.
    fn spawn_bound(&mut self, work: impl Future<Output = Answer> + 'static) {
        let answers = self.answers.clone();
        self.bound.retain(|bound| !bound.0.is_finished());
        self.bound.push(Bound(tokio::task::spawn_local(async move {
            // The queue has room for all concurrent tasks.
            answers.put(work.await);
        })));
    }

    fn authenticate(&mut self, login: Login) {
        let name = login.user.as_bytes().to_vec();
        let (server, peer) = (Rc::clone(&self.server), self.peer);
        let settings = server.settings();
        let host = settings.hosts.chosen(login.host.as_ref(), self.tls_name.as_ref());
        let Ok(host) = host else {
            // The host has been removed; its users must not get the server's own files.
            self.host = login.host.map(|host| host.as_bytes().escape_ascii().to_string().into());
            return self.take_answer(Answer::Login(name, Proof::Wrong));
        };
        self.host = host.map(|host| host.name().into());
        let site = settings.site_of(host);
        if let Some(guest) = guest::admit_anonymous(&server, peer, &login, &site) {
            return self.take_answer(Answer::Login(name, Proof::Right(Box::new(guest))));
        }
        self.spawn_bound(async move {
            let proof = guest::authenticate(&server, peer, &login, &site).await;
            Answer::Login(name, proof.map(Box::new))
        });
    }

    fn take_answer(&mut self, answer: Answer) {
        let server = Rc::clone(&self.server);
        match answer {
            Answer::Login(name, proof) => {
                let name = name.escape_ascii().to_string();
                let (from, host) = (self.peer, self.host.as_deref().map(str::to_owned));
                match proof {
                    Proof::Right(_) => server.admission.borrow_mut().count_login(true),
                    Proof::Wrong => server.admission.borrow_mut().count_login(false),
                    Proof::Busy => server.admission.borrow_mut().count_busy(),
                }
                let answer = match proof {
                    Proof::Right(guest) => {
                        server.admission.borrow_mut().proved(from);
                        let account = guest.account();
                        self.opening.login = Some(self.clock.now() - self.opening.began);
                        self.opening.is_anonymous = guest.is_anonymous;
                        let user = (!guest.is_anonymous).then_some(name.as_bytes());
                        let mut families = server.families.borrow_mut();
                        self.family = families.join(from.ip(), host.as_deref(), user, self.token);
                        drop(families);
                        self.guest = Some(*guest);
                        server.log.say(&Event::LoggedIn { from, name, host });
                        LoginAnswer::Accepted(account)
                    }
                    Proof::Wrong => {
                        server.log.say(&Event::LoginFailed { from, name, host });
                        LoginAnswer::Refused
                    }
                    Proof::Busy => LoginAnswer::Busy,
                };
                self.engine.login(answer, &mut server.bench().cx());
            }
            Answer::Performed(result) => self.performed(result),
            Answer::Opened(id, result) => self.opened(id, result),
            Answer::Connected(route, result) if route == self.route => match result {
                Ok(stream) => {
                    self.arrive(Stream::Watched(stream), self.peer);
                }
                Err(_) => self.engine.data_failed(&mut server.bench().cx()),
            },
            Answer::Connected(..) => {}
            Answer::Ended(id, result) => self.ended(id, result),
            Answer::Committed(id, result) => {
                self.engine.committed(id, result, &mut server.bench().cx());
            }
            Answer::Placed(id, upload, result) => self.placed(id, upload, result),
        }
    }

    fn listen(&mut self) {
        self.close_data();
        self.data_asked_at = Some(self.clock.now());
        let settings = self.server.settings();
        let ip = self.local.ip().to_canonical();
        let ports = &settings.passive_ports;
        let share = PortShare::take(&self.server, self.peer.ip(), ports.share());
        let opened = share.is_ok().then(|| Listener::open(ports, ip, self.server.host()));
        let (listener, address) = opened.flatten().unzip();
        self.port_share = share.ok().flatten().filter(|_| listener.is_some());
        let seen = settings.passive_address.filter(|told| told.is_ipv4() == ip.is_ipv4());
        let told = address.map(|at| SocketAddr::new(seen.unwrap_or(ip), at.port()));
        (self.listener, self.is_told) = (listener, false);
        self.data_ends = (address, None);
        self.engine.listening(told, &mut self.server.bench().cx());
    }

    fn connect(&mut self, to: SocketAddr) {
        self.close_data();
        self.data_asked_at = Some(self.clock.now());
        let (route, from) = (self.route, self.local.ip().to_canonical());
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        let server = Rc::clone(&self.server);
        self.spawn(async move {
            Answer::Connected(route, Socket::connect(server.host(), from, to).await)
        });
    }

    fn close_data(&mut self) {
        self.route += 1;
        (self.listener, self.arrived, self.awaits_data) = (None, None, false);
        self.port_share = None;
        self.data_ends = (None, None);
    }

    /// Handles a data connection. Returns whether the engine accepts it.
    fn arrive(&mut self, stream: Stream, from: SocketAddr) -> bool {
        let is_it = self.engine.data_connected(from, &mut self.server.bench().cx());
        if is_it {
            self.data_connected_at = Some(self.clock.now());
            (self.listener, self.arrived, self.awaits_data) = (None, Some(stream), false);
            self.port_share = None;
            self.data_ends.1 = Some(from);
        }
        is_it
    }

    fn open(&mut self, mut transfer: Transfer) {
        let (id, kind) = (transfer.id, transfer.kind.clone());
        let Some(mut tree) = self.guest.as_ref().map(|guest| guest.tree.clone()) else {
            return self.opened(id, Err(FileError::Denied));
        };
        tree.selected = self.selected.take();
        transfer.representation = tree.representation(&transfer.path, transfer.representation);
        let mut record = self.server.transfer_log.begin(Some(facts::command_of(&kind)));
        facts::note_request(&mut record, &transfer);
        let ledger: Rc<Ledger> = Rc::default();
        self.running = Some(Box::new(Running {
            transfer: transfer.clone(),
            record,
            opened_at: None,
            begun: self.clock.now(),
            work: None,
            upload: None,
            is_committing: false,
            placed_at: None,
            task: None,
            ledger: Rc::clone(&ledger),
        }));
        let mail = tree.spool.clone().map(|spool| (spool, self.sender()));
        let waits = transfer.offset_bytes > 0
            || matches!(kind, TransferKind::Append | TransferKind::Mail(_));
        if kind.is_incoming() && waits {
            // The disk may be slow; other sessions must not wait for it.
            let (server, source) = (Rc::clone(&self.server), self.peer.ip());
            return self.spawn_bound(async move {
                let Ok(permit) = server.copies.turn(source).await else {
                    return Answer::Opened(id, Err(FileError::ServerBusy));
                };
                let opened = tokio::task::spawn_blocking(move || {
                    let _permit = permit;
                    let before = thread_cpu_time();
                    let opened = match (&transfer.kind, mail) {
                        (TransferKind::Mail(to), Some((spool, sender))) => {
                            let begun = spool.begin(to.as_ref().map(Name::as_bytes), &sender);
                            begun.map(|begun| (Opened::default(), Work::Receive(begun)))
                        }
                        _ => open(&tree, &transfer),
                    };
                    (opened, thread_cpu_time().saturating_sub(before))
                });
                let opened = opened.await.map(|(opened, cpu)| {
                    // APPE and REST copy the existing content here; count that CPU time too.
                    ledger.add_cpu(cpu);
                    opened
                });
                Answer::Opened(id, opened.unwrap_or(Err(FileError::Local)))
            });
        }
        let opened = open(&tree, &transfer);
        self.opened(id, opened);
    }

    fn sender(&self) -> Sender {
        let user = self.engine.user().map(|user| user.as_bytes().to_vec());
        Sender { user: user.unwrap_or_default(), from: self.peer.ip() }
    }

    fn opened(&mut self, id: TransferId, result: Result<(Opened, Work), FileError>) {
        let now = self.clock.now();
        let result = result.map(|(opened, work)| {
            if let Some(running) = self.running_of(id) {
                running.opened_at = Some(now);
                if let Work::Receive(upload) = &work {
                    facts::note_start(&mut running.record, upload);
                }
                running.work = Some(work);
            }
            opened
        });
        let is_open = result.is_ok();
        self.engine.opened(id, result, &mut self.server.bench().cx());
        if !is_open {
            return;
        }
        if !self.is_told || !self.meet() {
            self.awaits_data = self.listener.is_some();
        }
    }

    /// Accepts connections already made to the listener. Returns whether one is the expected one.
    fn meet(&mut self) -> bool {
        while let Some((stream, from)) = self.listener.as_ref().and_then(Listener::try_accept) {
            if self.arrive(stream, from) {
                return true;
            }
        }
        false
    }

    fn running_of(&mut self, id: TransferId) -> Option<&mut Running> {
        self.running.as_deref_mut().filter(|running| running.transfer.id == id)
    }

    fn start(&mut self, id: TransferId) {
        let (stream, ends, source) = (self.arrived.take(), self.data_ends, self.peer.ip());
        self.close_data();
        let (server, token) = (Rc::clone(&self.server), self.token);
        let family = self.family.clone();
        let tls = self.entrance.tls.as_ref().map(|tls| Arc::clone(&tls.configuration));
        let pace = self.guest.as_ref().map(|guest| Rc::clone(&guest.pace));
        let (clock, answers) = (self.clock, self.answers.clone());
        let markers = self.markers.clone();
        // A client that has not received the 150 reply yet has sent no data.
        let is_told = self.engine.output().is_empty();
        let Some(running) = self.running_of(id) else { return };
        let (Some(stream), Some(work)) = (stream, running.work.take()) else {
            let local = Err(TransferError::File(FileError::Local));
            return self.engine.data_ended(id, 0, local, &mut server.bench().cx());
        };
        running.ledger.met(ends.0.zip(ends.1));
        let is_protected = running.transfer.protection == Protection::Private;
        let is_plain = !is_protected && running.transfer.representation.passes_through();
        let has_pace = pace.as_ref().is_some_and(|pace| pace.get().burst_bytes().is_some());
        let work = match work {
            Work::Send { file, offset, len } if is_plain && !has_pace => {
                let (ledger, began) = (&running.ledger, Instant::now());
                let sent = server.charge(Account::Interrupt, || {
                    data::send_at_once(&stream, &file, offset, len, ledger, clock)
                });
                if offset + sent >= len && offset < len {
                    data::end_sent(stream, sent, ledger, began);
                    return self.engine.data_ended(id, sent, Ok(()), &mut server.bench().cx());
                }
                Work::Send { file, offset: offset + sent, len }
            }
            Work::Receive(mut upload) if is_plain && !has_pace && is_told => {
                let received = server.charge(Account::Interrupt, || {
                    let scratch = &mut *server.scratch.borrow_mut();
                    data::receive_at_once(&stream, &mut upload, scratch, &running.ledger, clock)
                });
                match received {
                    Ok(false) => Work::Receive(upload),
                    Ok(true) => return self.ended(id, Ok(Some(upload))),
                    Err(error) => return self.ended(id, Err(error)),
                }
            }
            work => work,
        };
        let family = server.settings().requires_session_reuse.then(|| family.clone());
        let security = tls.filter(|_| is_protected).map(|configuration| Security {
            server: Some(Rc::clone(&server)),
            configuration,
            token,
            family,
        });
        let mover = Mover {
            server: Rc::clone(&server),
            source,
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
            let (result, cpu) = timed(server.charge_work(Account::Interrupt, moving)).await;
            ledger.add_cpu(cpu);
            answers.put(Answer::Ended(id, result));
        }));
    }

    /// Answers HOST.
    fn greet(&mut self, host: &Name) {
        let settings = self.server.settings();
        let ours: Vec<_> =
            [Some(self.local.ip()), settings.passive_address].into_iter().flatten().collect();
        let greeting = settings.hosts.greet(host, self.tls_name.as_ref(), &ours);
        let greeting = greeting.map(|greeting| Outcome::Greeting(greeting.to_owned()));
        self.engine.performed(greeting, &mut self.server.bench().cx());
    }

    fn performed(&mut self, result: Result<Outcome, FileError>) {
        let asked = self.asked.take();
        if let Ok(Outcome::PartialSize(_)) = &result {
            self.selected = asked;
        }
        self.engine.performed(result, &mut self.server.bench().cx());
    }

    fn perform(&mut self, operation: Operation) {
        if let Operation::Host(host) = &operation {
            return self.greet(host);
        }
        let Some(mut tree) = self.guest.as_ref().map(|guest| guest.tree.clone()) else {
            let denied = Err(FileError::Denied);
            return self.engine.performed(denied, &mut self.server.bench().cx());
        };
        match operation {
            Operation::Deliver { user, text } => return self.deliver(tree.spool, user, text),
            Operation::Mailbox(user) => return self.look_for_mailbox(tree.spool, user),
            _ => {}
        }
        match &operation {
            Operation::Partial(path) => (self.selected, self.asked) = (None, Some(path.clone())),
            Operation::Size { path, .. } => self.asked = Some(path.clone()),
            _ => {}
        }
        tree.selected.clone_from(&self.selected);
        let server = Rc::clone(&self.server);
        let hash_max_bytes = match self.opening.is_anonymous {
            true => server.settings().anonymous_hash_max_bytes,
            false => u64::MAX,
        };
        let long = match LongOperation::of(&tree, operation, hash_max_bytes) {
            Ok(long) => long,
            Err(short) => {
                let result = tree.perform(&short);
                return self.performed(result);
            }
        };
        let source = self.peer.ip();
        self.spawn_bound(async move {
            let done = long_work::run(&server.long_work, source, long).await;
            Answer::Performed(done.unwrap_or(Err(FileError::ServerBusy)))
        });
    }

    fn look_for_mailbox(&self, spool: Option<Arc<Spool>>, to: Option<Name>) {
        self.spawn(async move {
            let found = tokio::task::spawn_blocking(move || {
                let spool = spool.ok_or(FileError::NotSupported)?;
                spool.look_for(to.as_ref().map(Name::as_bytes)).map(|()| Outcome::Done)
            });
            Answer::Performed(found.await.unwrap_or(Err(FileError::Local)))
        });
    }

    fn deliver(&self, spool: Option<Arc<Spool>>, to: Option<Name>, text: Vec<u8>) {
        let sender = self.sender();
        self.spawn(async move {
            let done = tokio::task::spawn_blocking(move || {
                let spool = spool.ok_or(FileError::NotSupported)?;
                let to = to.as_ref().map(Name::as_bytes);
                spool.deliver(to, &sender, &text).map(|()| Outcome::Done)
            });
            Answer::Performed(done.await.unwrap_or(Err(FileError::Local)))
        });
    }
}

/// Returns the host name that the client sent when TLS began. For a virtual host, also makes data
/// connections present the same certificate.
fn named_in_tls(control: &Control, tls: &mut Tls, hosts: &Hosts) -> Option<TlsName> {
    let name = hosts.tls_name(control.tls_name()?);
    if let Ok(Some(host)) = hosts.chosen(None, Some(&name)) {
        tls.configuration = host::bound(&tls.configuration, &tls.certificates, host);
    }
    Some(name)
}
