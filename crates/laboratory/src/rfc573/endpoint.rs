//! One endpoint of a replayed transfer: the FTP and TCP of `protocols` on a host with other work.
//!
//! The FTP program shares the processor with other programs. It notices events only at its next
//! turn on the processor, which comes after an exponentially distributed time. The host's TCP
//! acknowledges without this delay. In its turn the program does all possible work, and each byte
//! of the file has a processing cost.

use crate::sample::exponential_time;
use net::Cx;
use net::meter::Work;
use net::station::{Application, Layers};
use net::time::{Duration, Instant};
use net::transport::tcp::{ConnectionId, Event, Profile};
use protocols::ftp::data::{Decoder, Encoder};
use protocols::ftp::server::{
    Account, LoginAnswer, Opened, Operation, Outcome, Placement, Rights, Server, ServerEvent,
    ServerSettings, Transfer, TransferError, TransferId,
};
use protocols::ftp::user::{DataFailure, DataStyle, Task, TaskId, User, UserEvent, UserSettings};
use protocols::ftp::{Name, Representation, Right, Secret, VirtualPath};
use std::mem;
use std::net::{Ipv4Addr, SocketAddr};

const CONTROL_PORT: u16 = 21;
const DATA_PORT: u16 = 4_000;
/// FTP timeout, longer than any transfer, so that a slow host never causes an abort.
const SESSION_TIMEOUT: Duration = Duration::from_secs(86_400);

/// Role and parameters of an endpoint.
#[derive(Clone, Debug)]
pub(super) struct EndpointParameters {
    /// Local address and remote address.
    pub(super) addresses: [Ipv4Addr; 2],
    /// Task of the user program; `None` for a server.
    pub(super) task: Option<Task>,
    /// Content of the file that is sent, or the expected content of the file that is received.
    pub(super) file: Vec<u8>,
    /// Transfer representation.
    pub(super) representation: Representation,
    /// Mean time that the program waits for its turn on the processor.
    pub(super) turn: Duration,
    /// Conversion time per byte before sending; zero without conversion.
    pub(super) conversion: Duration,
    /// TCP profile of the connections of this endpoint.
    pub(super) profile: Profile,
}

impl EndpointParameters {
    /// Returns how many of `len` bytes are converted and ready to be sent at `now`, and the time at
    /// which more bytes will be ready.
    ///
    /// Bytes are converted one message at a time.
    fn converted_len(
        &self,
        len: usize,
        began_at: Instant,
        now: Instant,
    ) -> (usize, Option<Instant>) {
        if self.conversion.is_zero() {
            return (len, None);
        }
        let piece = self.profile.mss_max.map_or(len, usize::from).max(1);
        let conversion_time =
            |bytes: usize| self.conversion * u32::try_from(bytes).unwrap_or(u32::MAX);
        let elapsed = now.since(began_at);
        let pieces = (1..=len.div_ceil(piece)).map(|count| len.min(count * piece));
        let ready = pieces
            .clone()
            .take_while(|bytes| conversion_time(*bytes) <= elapsed)
            .last()
            .unwrap_or(0);
        (
            ready,
            pieces
                .skip_while(|bytes| *bytes <= ready)
                .map(|bytes| began_at + conversion_time(bytes))
                .next(),
        )
    }
}

#[derive(Debug, Default)]
enum Engine {
    #[default]
    None,
    User(Box<User>),
    Server(Box<Server>),
}

/// Activity of the data connection.
#[derive(Debug, Default)]
enum DataActivity {
    #[default]
    Nothing,
    Out {
        wire: Vec<u8>,
        sent: usize,
        began_at: Instant,
    },
    In {
        decoder: Box<Decoder>,
        file: Vec<u8>,
        received: u64,
    },
}

/// Identifier of the transfer in the client or server engine.
#[derive(Clone, Copy, Debug)]
enum TransferHandle {
    Task(TaskId),
    Transfer(TransferId),
}

/// The FTP client or server of a replayed transfer.
#[derive(Debug)]
pub(super) struct Endpoint {
    parameters: EndpointParameters,
    engine: Engine,
    is_started: bool,
    turn_at: Option<Instant>,
    /// Time at which the conversion of the next piece of the file is complete.
    converted_at: Option<Instant>,
    control: Option<ConnectionId>,
    data: Option<ConnectionId>,
    data_has_ended: bool,
    transfer: Option<TransferHandle>,
    /// Whether the server receives the file.
    is_incoming: bool,
    data_activity: DataActivity,
    /// Time of the transfer command.
    began_at: Option<Instant>,
    ended_at: Option<Instant>,
    wire_bytes: u64,
    has_failed: bool,
}

impl Endpoint {
    pub(super) fn new(parameters: EndpointParameters) -> Self {
        Self {
            parameters,
            engine: Engine::None,
            is_started: false,
            turn_at: None,
            converted_at: None,
            control: None,
            data: None,
            data_has_ended: false,
            transfer: None,
            is_incoming: false,
            data_activity: DataActivity::Nothing,
            began_at: None,
            ended_at: None,
            wire_bytes: 0,
            has_failed: false,
        }
    }

    /// Returns whether the transfer has ended at this endpoint, successfully or not.
    pub(super) fn is_over(&self) -> bool {
        self.has_failed || self.ended_at.is_some()
    }

    /// Returns the time from the command to the end, and the bytes on the data connection; `None`
    /// for a transfer that has failed or is in progress.
    pub(super) fn outcome(&self) -> Option<(Duration, u64)> {
        let began = self.began_at?;
        let ended = self.ended_at?;
        (!self.has_failed).then(|| (ended.since(began), self.wire_bytes))
    }

    /// Returns whether it is the program's turn on the processor. If not, schedules its next turn.
    fn has_turn(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.is_started || self.parameters.turn.is_zero() {
            self.is_started = true;
            return true;
        }
        match self.turn_at {
            None => {
                self.turn_at = Some(cx.now + exponential_time(self.parameters.turn, cx.rng));
                false
            }
            Some(at) if cx.now < at => false,
            Some(_) => {
                self.turn_at = None;
                true
            }
        }
    }

    fn open(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        let [local, remote] = self.parameters.addresses;
        if self.parameters.task.is_some() {
            let remote = SocketAddr::new(remote.into(), CONTROL_PORT);
            let opened = layers.tcp.open(local.into(), remote, self.parameters.profile, cx);
            self.control = opened.ok();
        } else {
            let listening = layers.tcp.listen(CONTROL_PORT, self.parameters.profile);
            self.has_failed |= listening.is_err();
        }
    }

    fn on_connection(&mut self, id: ConnectionId, event: Event, layers: &Layers, cx: &mut Cx<'_>) {
        match event {
            Event::Established => self.on_established(id, layers, cx),
            Event::PeerClosed if self.data == Some(id) => self.data_has_ended = true,
            Event::Closed if self.control == Some(id) => self.has_failed |= !self.is_over(),
            _ => {}
        }
    }

    fn on_established(&mut self, id: ConnectionId, layers: &Layers, cx: &mut Cx<'_>) {
        let Ok(status) = layers.tcp.status(id) else { return };
        match (&mut self.engine, self.parameters.task.is_some()) {
            (Engine::None, true) => {
                let (Ok(user), Ok(password)) = (Name::new("akb"), Secret::new("calico")) else {
                    return;
                };
                let settings = UserSettings {
                    data_style: DataStyle::Active,
                    may_listen: true,
                    asks_features: false,
                    reply_timeout: SESSION_TIMEOUT,
                    data_connect_timeout: SESSION_TIMEOUT,
                    stall_timeout: SESSION_TIMEOUT,
                    ..UserSettings::new(user, password)
                };
                let user = User::new(settings, status.local, status.remote, cx);
                self.engine = Engine::User(Box::new(user));
            }
            (Engine::None, false) => {
                self.control = Some(id);
                let settings = ServerSettings {
                    accepts_mail: true,
                    login_timeout: SESSION_TIMEOUT,
                    idle_timeout: SESSION_TIMEOUT,
                    data_connect_timeout: SESSION_TIMEOUT,
                    stall_timeout: SESSION_TIMEOUT,
                    // RFC 573 measures transfers; aborted uploads do not occur here.
                    upload_grace: Duration::ZERO,
                    ..ServerSettings::default()
                };
                let server = Server::new(settings, status.local, status.remote, cx);
                self.engine = Engine::Server(Box::new(server));
            }
            (Engine::User(user), _) => {
                self.data = Some(id);
                self.has_failed |= !user.data_connected(status.remote, cx);
            }
            (Engine::Server(server), _) => {
                self.has_failed |= !server.data_connected(status.remote, cx);
            }
        }
    }

    /// Processes control connection input, carries out the engine's requests, and sends its output.
    fn converse(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        let Some(control) = self.control else { return };
        let mut engine = mem::take(&mut self.engine);
        while let Ok(received) = layers.tcp.received(control) {
            let mut rest = received;
            match &mut engine {
                Engine::User(user) => user.receive(mem::take(&mut rest), cx),
                Engine::Server(server) => server.receive(&mut rest, cx),
                Engine::None => {}
            }
            let taken = received.len() - rest.len();
            if taken == 0 || layers.tcp.consume(control, taken).is_err() {
                break;
            }
        }
        match &mut engine {
            Engine::User(user) => {
                while let Some(event) = user.event() {
                    self.on_user(user, event, layers, cx);
                }
                let sent = layers.tcp.send(control, user.output()).unwrap_or(0);
                user.sent(sent);
            }
            Engine::Server(server) => {
                while let Some(event) = server.event() {
                    self.on_server(server, event, layers, cx);
                }
                let sent = layers.tcp.send(control, server.output()).unwrap_or(0);
                server.sent(sent);
            }
            Engine::None => {}
        }
        self.engine = engine;
    }

    fn on_user(&mut self, user: &mut User, event: UserEvent, layers: &mut Layers, cx: &mut Cx<'_>) {
        match event {
            UserEvent::LoggedIn => {
                self.began_at = Some(cx.meter.busy_until().max(cx.now));
                let asked = self.parameters.task.clone().and_then(|task| user.run(task, cx));
                self.has_failed |= asked.is_none();
            }
            UserEvent::ListenData(_) => {
                let [local, _] = self.parameters.addresses;
                let listening = layers.tcp.listen(DATA_PORT, self.parameters.profile);
                let address = SocketAddr::new(local.into(), DATA_PORT);
                user.on_listening(listening.is_ok().then_some(address), cx);
            }
            UserEvent::StartData(id, _) => {
                let is_incoming = self.parameters.task.as_ref().and_then(Task::is_incoming);
                self.start(TransferHandle::Task(id), is_incoming == Some(true), cx);
            }
            UserEvent::Finished(_, result) => self.end(result.is_ok(), cx),
            UserEvent::ConnectData(_) => user.data_failed(cx),
            UserEvent::Closed(_) | UserEvent::Discard(_) => self.has_failed |= !self.is_over(),
            UserEvent::Reply(_)
            | UserEvent::StartTls
            | UserEvent::CloseData
            | UserEvent::MarkerReached { .. } => {}
        }
    }

    fn on_server(
        &mut self,
        server: &mut Server,
        event: ServerEvent,
        layers: &mut Layers,
        cx: &mut Cx<'_>,
    ) {
        match event {
            ServerEvent::Authenticate(_) => {
                let rights = Rights::ALL.with(Right::Mail);
                let account = Account { rights, home: VirtualPath::root() };
                server.login(LoginAnswer::Accepted(account), cx);
            }
            ServerEvent::Connect(to) => {
                let [local, _] = self.parameters.addresses;
                self.data = layers.tcp.open(local.into(), to, self.parameters.profile, cx).ok();
                if self.data.is_none() {
                    server.data_failed(cx);
                }
            }
            ServerEvent::Open(transfer) => self.open_file(server, &transfer, cx),
            ServerEvent::Start(id) => {
                self.start(TransferHandle::Transfer(id), self.is_incoming, cx);
            }
            ServerEvent::Commit(id) => {
                // The received data was compared with the sent file once it was complete.
                server.on_committed(id, Ok(()), cx);
            }
            ServerEvent::Finished(finished) => self.end(finished.result.is_ok(), cx),
            ServerEvent::Listen(_) => server.on_listening(None, cx),
            ServerEvent::Perform(operation) => server.on_performed(Ok(performed(&operation)), cx),
            ServerEvent::Discard(_) => self.has_failed = true,
            ServerEvent::Place(id) => {
                // The grace is zero, so each upload is committed at once.
                server.on_placed(id, Ok(Placement::Unsupported), cx);
            }
            ServerEvent::StartTls
            | ServerEvent::StopTls
            | ServerEvent::Keep(_)
            | ServerEvent::CloseData
            | ServerEvent::Denied { .. }
            | ServerEvent::TlsRequired(_) => {}
        }
    }

    fn open_file(&mut self, server: &mut Server, transfer: &Transfer, cx: &mut Cx<'_>) {
        self.began_at = Some(cx.meter.busy_until().max(cx.now));
        self.has_failed |= transfer.representation != self.parameters.representation;
        self.is_incoming = transfer.kind.is_incoming();
        server.on_opened(transfer.id, Ok(Opened::default()), cx);
    }

    /// Prepares the transfer of the file in the given direction.
    fn start(&mut self, transfer: TransferHandle, is_incoming: bool, cx: &Cx<'_>) {
        self.transfer = Some(transfer);
        let representation = &self.parameters.representation;
        if is_incoming {
            let Ok(decoder) = Decoder::new(representation) else { return };
            let decoder = Box::new(decoder);
            let file = Vec::new();
            self.data_activity = DataActivity::In { decoder, file, received: 0 };
            return;
        }
        let mut wire = Vec::new();
        let encoded = Encoder::new(representation, None).ok().and_then(|mut encoder| {
            encoder.encode(&self.parameters.file, &mut wire).ok()?;
            encoder.finish(&mut wire).ok()
        });
        self.has_failed |= encoded.is_none();
        self.data_activity = DataActivity::Out { wire, sent: 0, began_at: cx.now };
    }

    fn end(&mut self, is_good: bool, cx: &Cx<'_>) {
        self.has_failed |= !is_good;
        self.ended_at = Some(cx.meter.busy_until().max(cx.now));
    }

    /// Transfers as much of the file as buffer space and available data permit, and charges the
    /// cost.
    fn move_data(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        let (Some(data), Some(transfer)) = (self.data, self.transfer) else { return };
        let over = match &mut self.data_activity {
            DataActivity::Nothing => return,
            DataActivity::Out { wire, sent, began_at } => {
                let (ready, next_at) = self.parameters.converted_len(wire.len(), *began_at, cx.now);
                self.converted_at = next_at;
                let rest = wire.get(*sent..ready).unwrap_or_default();
                let Ok(taken) = layers.tcp.send(data, rest) else { return };
                *sent += taken;
                self.wire_bytes = *sent as u64;
                cx.meter.work(Work::FileByte, taken);
                if *sent < wire.len() {
                    return;
                }
                // A sender of 1973 was notified when its last message had arrived.
                let is_delivered = layers.tcp.status(data).is_ok_and(|it| it.send_queue == 0);
                is_delivered.then_some(true)
            }
            DataActivity::In { decoder, file, received } => {
                while let Ok(mut piece) = layers.tcp.received(data) {
                    let count = piece.len();
                    cx.meter.work(Work::FileByte, count);
                    while !piece.is_empty() {
                        // The decoder requires an empty buffer.
                        let mut decoded = Vec::new();
                        let is_good = decoder.decode(&mut piece, &mut decoded).is_ok();
                        file.append(&mut decoded);
                        if !is_good {
                            break;
                        }
                    }
                    *received += count as u64;
                    if count == 0 || layers.tcp.consume(data, count).is_err() {
                        break;
                    }
                }
                self.wire_bytes = *received;
                let is_all = self.data_has_ended && layers.tcp.received(data) == Ok(&[]);
                is_all.then(|| decoder.finish(file).is_ok() && *file == self.parameters.file)
            }
        };
        let Some(is_good) = over else { return };
        self.data_activity = DataActivity::Nothing;
        _ = layers.tcp.close(data);
        let bytes = self.wire_bytes;
        match (&mut self.engine, transfer) {
            (Engine::User(user), TransferHandle::Task(id)) => {
                let result = if is_good { Ok(()) } else { Err(DataFailure::Malformed) };
                user.data_ended(id, bytes, result, cx);
            }
            (Engine::Server(server), TransferHandle::Transfer(id)) => {
                let result = if is_good { Ok(()) } else { Err(TransferError::Malformed) };
                server.data_ended(id, bytes, result, cx);
            }
            _ => self.has_failed = true,
        }
    }
}

fn performed(operation: &Operation) -> Outcome {
    match operation {
        Operation::Size { .. } | Operation::Available(_) => Outcome::Size(0),
        Operation::Host(_) => Outcome::Greeting("host accepted".into()),
        _ => Outcome::Done,
    }
}

impl Application for Endpoint {
    fn wants_to_run(&self) -> bool {
        !self.is_started
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        let is_first = !self.is_started;
        if !self.has_turn(cx) {
            return;
        }
        if is_first {
            self.open(layers, cx);
        }
        while let Some((id, event)) = layers.tcp.event() {
            self.on_connection(id, event, layers, cx);
        }
        self.converse(layers, cx);
        self.move_data(layers, cx);
        // The engine may respond to the end of the data.
        self.converse(layers, cx);
    }

    fn deadline(&self) -> Option<Instant> {
        self.turn_at.or(self.converted_at)
    }
}
