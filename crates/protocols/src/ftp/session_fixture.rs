//! Test fixture for the FTP user and server engines: files in memory, a control connection whose
//! data the fixture passes on, and one data connection that can break at any step.

use super::data::{Decoded, Decoder, Encoder};
use super::server::*;
use super::user::*;
use super::*;
use net::cx::OwnedCx;
use net::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::string::String;
use std::vec::Vec;

pub(super) const LOCAL: &str = "10.0.0.1:21";
pub(super) const PEER: &str = "10.0.0.2:40000";
/// Number of bytes transferred on the data connection per step.
const STEP_BYTES: usize = 16;

pub(super) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(super) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Converts an offset in a test file to `usize`.
fn to_offset(offset_bytes: u64) -> usize {
    usize::try_from(offset_bytes).unwrap()
}

/// Fault that the fixture injects once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    ControlReset,
    DataReset,
    DataStall,
    /// The data connection is closed without a reset before all data has been transferred.
    DataShort,
    /// The user is killed: its kernel closes the data connection, then the control connection, both
    /// without a reset.
    UserKilled,
    /// The user aborts the transfer.
    Abort,
    /// The disk of the server is full.
    DiskFull,
}

/// State of a transfer at one end.
struct TransferState<Id> {
    id: Id,
    /// The encoded file, at the sending end.
    wire: Option<Vec<u8>>,
    decoder: Option<Decoder>,
    file: Vec<u8>,
    transferred_bytes: usize,
    /// Whether the end of the data was reported to the server.
    is_end_reported: bool,
}

/// Both engines, their owners, and the connections between them.
pub(super) struct World {
    pub(super) server: Server,
    pub(super) user: User,
    pub(super) context: OwnedCx,
    /// The server's files.
    pub(super) files: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The file that the user sends.
    pub(super) upload_file: Vec<u8>,
    pub(super) received_file: Vec<u8>,
    pub(super) mails: Vec<Vec<u8>>,
    pub(super) results: Vec<(TaskId, Result<Done, Failure>)>,
    pub(super) finished_transfers: Vec<Finished>,
    pub(super) close_result: Option<Option<Failure>>,
    pub(super) replies: Vec<u16>,
    pub(super) refuses_epsv_connections: bool,
    pub(super) steps: usize,
    pub(super) fault: (Fault, usize),
    task_representation: Representation,
    transfer: Option<Transfer>,
    server_transfer: Option<TransferState<TransferId>>,
    /// Copy of the server's files from before the current upload replaced one of them.
    replaced_files: Option<BTreeMap<Vec<u8>, Vec<u8>>>,
    user_transfer: Option<TransferState<TaskId>>,
    wire: Vec<u8>,
    has_ended: bool,
    is_data_stalled: bool,
    is_disk_full: bool,
    is_reset: bool,
    is_control_lost: bool,
    /// The user was killed, but the end of its control connection has not arrived at the server
    /// yet.
    is_user_killed: bool,
    has_tried_epsv: bool,
}

pub(super) fn accounts(login: &Login) -> LoginAnswer {
    match (login.user.as_bytes(), login.password.as_bytes(), &login.account) {
        (b"ann", b"secret", None) | (b"bob", b"secret", Some(_)) => {
            LoginAnswer::Accepted(Account { rights: rights(), home: VirtualPath::root() })
        }
        (b"guest", _, _) => {
            LoginAnswer::Accepted(Account { rights: Rights::READ_ONLY, home: VirtualPath::root() })
        }
        (b"bob", b"secret", None) => LoginAnswer::NeedsAccount,
        _ => LoginAnswer::Refused,
    }
}

fn rights() -> Rights {
    Rights::ALL.with(Right::Mail)
}

pub(super) fn server_settings() -> ServerSettings {
    ServerSettings { tls: TlsPolicy::Offered, accepts_mail: true, ..ServerSettings::default() }
}

pub(super) fn user_settings() -> UserSettings {
    UserSettings::new(name("ann"), Secret::new("secret").unwrap())
}

impl World {
    pub(super) fn new(server: ServerSettings, user: UserSettings) -> Self {
        let mut context = OwnedCx::default();
        let server = Server::new(server, address(LOCAL), address(PEER), &context.cx());
        let user = User::new(user, address(PEER), address(LOCAL), &context.cx());
        let files =
            [(b"/file".to_vec(), (0..100).collect()), (b"/text".to_vec(), b"a\nb\n".into())];
        Self {
            server,
            user,
            context,
            files: files.into(),
            upload_file: (0..90).rev().collect(),
            received_file: Vec::new(),
            mails: Vec::new(),
            results: Vec::new(),
            finished_transfers: Vec::new(),
            close_result: None,
            replies: Vec::new(),
            refuses_epsv_connections: false,
            steps: 0,
            fault: (Fault::None, 0),
            task_representation: Representation::IMAGE,
            transfer: None,
            server_transfer: None,
            replaced_files: None,
            user_transfer: None,
            wire: Vec::new(),
            has_ended: false,
            is_data_stalled: false,
            is_disk_full: false,
            is_reset: false,
            is_control_lost: false,
            is_user_killed: false,
            has_tried_epsv: false,
        }
    }

    pub(super) fn run(&mut self, task: Task) -> TaskId {
        self.task_representation = match &task {
            Task::Retrieve { representation, .. } | Task::Store { representation, .. } => {
                *representation
            }
            Task::MailFile(_) => Representation::default(),
            _ => Representation::IMAGE,
        };
        self.received_file.clear();
        let id = self.user.run(task, &mut self.context.cx()).unwrap();
        self.settle();
        id
    }

    /// Runs a task and returns its result.
    pub(super) fn result(&mut self, task: Task) -> Result<Done, Failure> {
        let id = self.run(task);
        let index = self.results.iter().position(|(done, _)| *done == id);
        self.results.remove(index.expect("a verdict")).1
    }

    /// Sends a command and returns the code of its reply.
    pub(super) fn quote(&mut self, line: &str) -> u16 {
        match self.result(Task::Quote(name(line))) {
            Ok(done) => done.reply.code.number(),
            Err(Failure { why: FailureReason::Refused(reply), .. }) => reply.code.number(),
            Err(failure) => panic!("{line}: {failure}"),
        }
    }

    /// Runs both engines until they are idle. Timers expire only when no other work is left.
    pub(super) fn settle(&mut self) {
        for _ in 0..10_000 {
            self.inject();
            let is_moving = self.exchange_control() | self.server_events() | self.user_events();
            if is_moving || self.move_data() {
                self.steps += 1;
                continue;
            }
            if core::mem::take(&mut self.is_user_killed) {
                self.end_control();
                continue;
            }
            if self.user.is_idle() && self.transfer.is_none() && self.replaced_files.is_none() {
                return;
            }
            let deadlines = [self.server.deadline(), self.user.deadline()];
            let Some(next) = deadlines.into_iter().flatten().min() else { return };
            self.context.now = self.context.now.max(next) + Duration::from_nanos(1);
            self.server.timeout(&mut self.context.cx());
            self.user.timeout(&mut self.context.cx());
        }
        panic!("the engines never become idle");
    }

    fn inject(&mut self) {
        let (fault, at) = self.fault;
        if self.steps < at || fault == Fault::None {
            return;
        }
        self.fault = (Fault::None, 0);
        match fault {
            Fault::None => {}
            Fault::ControlReset => {
                self.is_control_lost = true;
                self.end_control();
                self.user.peer_closed(&mut self.context.cx());
            }
            Fault::DataReset => self.is_reset = true,
            Fault::DataStall => self.is_data_stalled = true,
            Fault::DataShort => self.has_ended = true,
            Fault::UserKilled => {
                self.is_control_lost = true;
                self.is_user_killed = true;
                self.user.peer_closed(&mut self.context.cx());
                self.user_transfer = None;
                self.has_ended = true;
            }
            Fault::Abort => self.user.abort(&mut self.context.cx()),
            Fault::DiskFull => self.is_disk_full = true,
        }
    }

    /// Ends the control connection at the server after the server has learned whether the user
    /// acknowledged its reply.
    fn end_control(&mut self) {
        if self.server.output().is_empty() {
            self.server.confirm_upload(&mut self.context.cx());
        }
        self.server.peer_closed(&mut self.context.cx());
    }

    fn exchange_control(&mut self) -> bool {
        if self.is_control_lost {
            return false;
        }
        let output = self.user.output().to_vec();
        let server_output = self.server.output().to_vec();
        self.user.sent(output.len());
        self.server.sent(server_output.len());
        for piece in output.chunks(5) {
            self.server.receive(&mut &*piece, &mut self.context.cx());
        }
        server_output.chunks(7).for_each(|piece| self.user.receive(piece, &mut self.context.cx()));
        if self.server.is_closing() && self.server.output().is_empty() && !self.user.is_closed() {
            self.user.peer_closed(&mut self.context.cx());
        }
        if self.user.is_closed() && !self.server.is_closing() {
            self.end_control();
        }
        !output.is_empty() || !server_output.is_empty()
    }

    fn server_events(&mut self) -> bool {
        let Some(event) = self.server.event() else { return false };
        let cx = &mut self.context.cx();
        match event {
            ServerEvent::Authenticate(login) => self.server.login(accounts(&login), cx),
            ServerEvent::StartTls => self.server.tls_started(true, cx),
            ServerEvent::Listen(_) => self.server.on_listening(Some(address("10.0.0.1:5000")), cx),
            ServerEvent::Connect(to) => {
                assert_eq!(to.ip(), address(PEER).ip());
                if self.user.data_connected(address("10.0.0.1:20"), cx) {
                    self.begin_data();
                    self.server.data_connected(address(PEER), &mut self.context.cx());
                } else {
                    self.server.data_failed(cx);
                }
            }
            ServerEvent::Open(transfer) => {
                let file = self.files.get(&transfer.path.to_bytes());
                let opened = match (&transfer.kind, file) {
                    (TransferKind::Retrieve, None) => Err(FileError::NotFound),
                    (TransferKind::Retrieve, Some(file)) => {
                        let remaining = file.len().saturating_sub(to_offset(transfer.offset_bytes));
                        let is_image = transfer.representation.passes_through();
                        let size_bytes = is_image.then_some(remaining as u64);
                        Ok(Opened { size_bytes, name: None })
                    }
                    (TransferKind::StoreUnique, _) => {
                        Ok(Opened { size_bytes: None, name: Some(b"unique1".to_vec()) })
                    }
                    _ => Ok(Opened::default()),
                };
                let id = transfer.id;
                self.transfer = opened.is_ok().then_some(transfer);
                self.server.on_opened(id, opened, cx);
            }
            ServerEvent::Start(id) => self.start_server_transfer(id),
            ServerEvent::Commit(id) => self.commit(id),
            ServerEvent::Place(id) => {
                self.replaced_files = Some(self.files.clone());
                let result = self.store().map(|()| Placement::Revocable);
                self.server.on_placed(id, result, &mut self.context.cx());
            }
            ServerEvent::Keep(_) => {
                assert!(self.replaced_files.take().is_some(), "nothing is placed");
            }
            ServerEvent::Discard(_) => {
                self.server_transfer = None;
                self.transfer = None;
                self.is_reset = true;
                if let Some(files) = self.replaced_files.take() {
                    self.files = files;
                }
            }
            ServerEvent::Perform(operation) => {
                let result = self.perform(operation);
                self.server.on_performed(result, &mut self.context.cx());
            }
            ServerEvent::Finished(finished) => {
                self.transfer = None;
                self.finished_transfers.push(finished);
            }
            ServerEvent::StopTls
            | ServerEvent::CloseData
            | ServerEvent::Denied { .. }
            | ServerEvent::TlsRequired(_) => {}
        }
        true
    }

    fn start_server_transfer(&mut self, id: TransferId) {
        let transfer = self.transfer.as_ref().unwrap();
        let representation = &transfer.representation;
        let mut transfer_state = TransferState {
            id,
            wire: None,
            decoder: None,
            file: Vec::new(),
            transferred_bytes: 0,
            is_end_reported: false,
        };
        if transfer.kind.is_incoming() {
            transfer_state.decoder = Some(Decoder::new(representation).unwrap());
        } else {
            let file = match &transfer.kind {
                TransferKind::List { form, pattern, .. } => {
                    let mut out = Vec::new();
                    for (path, file) in &self.files {
                        let entry = listing::Entry {
                            name: path[1..].to_vec(),
                            size: Some(file.len() as u64),
                            ..listing::Entry::default()
                        };
                        if pattern.as_ref().is_none_or(|pattern| pattern.matches(&entry.name)) {
                            form.write(&entry, Timestamp::default(), &mut out);
                        }
                    }
                    out
                }
                _ => {
                    self.files[&transfer.path.to_bytes()][to_offset(transfer.offset_bytes)..].into()
                }
            };
            let mut encoder = Encoder::new(representation, None).unwrap();
            let mut wire = Vec::new();
            encoder.encode(&file, &mut wire).unwrap();
            encoder.finish(&mut wire).unwrap();
            transfer_state.wire = Some(wire);
        }
        self.server_transfer = Some(transfer_state);
    }

    fn commit(&mut self, id: TransferId) {
        let result = self.store();
        self.server.on_committed(id, result, &mut self.context.cx());
    }

    /// Stores the received data under its final name.
    fn store(&mut self) -> Result<(), FileError> {
        let (Some(transfer_state), Some(transfer)) =
            (self.server_transfer.take(), self.transfer.take())
        else {
            panic!("nothing to commit");
        };
        if self.is_disk_full {
            return Err(FileError::NoSpace);
        }
        let path = transfer.path.to_bytes();
        match transfer.kind {
            TransferKind::Mail(_) => self.mails.push(transfer_state.file),
            TransferKind::StoreUnique => {
                _ = self.files.insert(b"/unique1".into(), transfer_state.file);
            }
            TransferKind::Append => {
                self.files.entry(path).or_default().extend_from_slice(&transfer_state.file);
            }
            _ => {
                let old_data = self.files.get(&path).cloned().unwrap_or_default();
                let kept_data =
                    old_data[..to_offset(transfer.offset_bytes).min(old_data.len())].to_vec();
                self.files.insert(path, [kept_data, transfer_state.file].concat());
            }
        }
        Ok(())
    }

    fn perform(&mut self, operation: Operation) -> Result<Outcome, FileError> {
        let exists = |path: &VirtualPath| self.files.contains_key(&path.to_bytes());
        match operation {
            Operation::ChangeDirectory(path) if exists(&path) => Err(FileError::NotADirectory),
            Operation::Exists(path) | Operation::Delete(path) | Operation::SetFacts(path, _)
                if !exists(&path) =>
            {
                Err(FileError::NotFound)
            }
            Operation::Delete(path) => {
                self.files.remove(&path.to_bytes());
                Ok(Outcome::Done)
            }
            Operation::Rename { from, to } => {
                let file = self.files.remove(&from.to_bytes()).ok_or(FileError::NotFound)?;
                self.files.insert(to.to_bytes(), file);
                Ok(Outcome::Done)
            }
            Operation::Size { path, .. } => {
                let file = self.files.get(&path.to_bytes()).ok_or(FileError::NotFound)?;
                Ok(Outcome::Size(file.len() as u64))
            }
            Operation::Partial(_) => Ok(Outcome::PartialSize(7)),
            Operation::Modified(_) => Ok(Outcome::Modified(Timestamp::default())),
            Operation::Facts(_) => Ok(Outcome::Entry(listing::Entry::default())),
            Operation::Hash(..) => Ok(Outcome::Hash { digits: b"00ff".to_vec(), len_bytes: 100 }),
            Operation::Available(_) => Ok(Outcome::Size(1 << 30)),
            Operation::Status { .. } => {
                Ok(Outcome::Lines { lines: [b"a line".to_vec()].into(), is_directory: false })
            }
            Operation::Host(host) if host == name("10.0.0.9") => Err(FileError::UnknownHost),
            Operation::Host(_) => Ok(Outcome::Greeting("a host".into())),
            Operation::Allocate(bytes) if bytes > 1 << 20 => Err(FileError::NoSpace),
            Operation::Mailbox(Some(user)) if user != name("ann") => Err(FileError::NoMailbox),
            Operation::Deliver { text, .. } => {
                self.mails.push(text);
                Ok(Outcome::Done)
            }
            _ => Ok(Outcome::Done),
        }
    }

    fn user_events(&mut self) -> bool {
        let Some(event) = self.user.event() else { return false };
        let cx = &mut self.context.cx();
        match event {
            UserEvent::Reply(reply) => self.replies.push(reply.code.number()),
            UserEvent::StartTls => self.user.tls_started(true, cx),
            UserEvent::ConnectData(to) => {
                assert_eq!(to, address("10.0.0.1:5000"));
                let is_first = !core::mem::replace(&mut self.has_tried_epsv, true);
                if self.refuses_epsv_connections && is_first {
                    self.user.data_failed(cx);
                } else if self.server.data_connected(address(PEER), cx) {
                    self.begin_data();
                    self.user.data_connected(to, &mut self.context.cx());
                } else {
                    self.user.data_failed(cx);
                }
            }
            UserEvent::ListenData(_) => self.user.on_listening(Some(address("10.0.0.2:6000")), cx),
            UserEvent::StartData(id, _) => self.start_user_transfer(id),
            UserEvent::Discard(_) => {
                self.user_transfer = None;
                self.received_file.clear();
            }
            UserEvent::CloseData => {
                self.user_transfer = None;
                self.is_reset = true;
            }
            UserEvent::Finished(id, result) => self.results.push((id, result)),
            UserEvent::Closed(failure) => self.close_result = Some(failure),
            UserEvent::LoggedIn | UserEvent::MarkerReached { .. } => {}
        }
        true
    }

    fn begin_data(&mut self) {
        self.wire.clear();
        self.has_ended = false;
        self.is_reset = false;
        self.is_data_stalled = false;
    }

    fn start_user_transfer(&mut self, id: TaskId) {
        let is_outgoing = self.transfer.as_ref().is_some_and(|t| t.kind.is_incoming());
        let representation = &self.task_representation;
        let mut transfer_state = TransferState {
            id,
            wire: None,
            decoder: None,
            file: Vec::new(),
            transferred_bytes: 0,
            is_end_reported: false,
        };
        if is_outgoing {
            let mut encoder = Encoder::new(representation, None).unwrap();
            let mut wire = Vec::new();
            encoder.encode(&self.upload_file, &mut wire).unwrap();
            encoder.finish(&mut wire).unwrap();
            transfer_state.wire = Some(wire);
        } else {
            transfer_state.decoder = Some(Decoder::new(representation).unwrap());
        }
        self.user_transfer = Some(transfer_state);
    }

    /// Transfers up to [`STEP_BYTES`], or reports the end of the data connection to an engine.
    /// Returns whether anything was done.
    fn move_data(&mut self) -> bool {
        if self.is_data_stalled {
            return false;
        }
        if self.is_reset {
            return self.report_reset();
        }
        let mut has_moved = false;
        if let Some(transfer_state) =
            self.server_transfer.as_mut().filter(|transfer_state| !transfer_state.is_end_reported)
        {
            let (bytes, end) = transfer_piece(transfer_state, &mut self.wire, &mut self.has_ended);
            has_moved |= bytes > 0 || end.is_some();
            let id = transfer_state.id;
            let transferred_bytes = transfer_state.transferred_bytes as u64;
            self.server.data_moved(id, transferred_bytes, &self.context.cx());
            if let Some(is_good) = end {
                transfer_state.is_end_reported = true;
                if transfer_state.decoder.is_none() || !is_good {
                    self.server_transfer = None;
                }
                let result = if is_good { Ok(()) } else { Err(TransferError::Malformed) };
                self.server.data_ended(id, transferred_bytes, result, &mut self.context.cx());
                return true;
            }
        }
        if let Some(transfer_state) = &mut self.user_transfer {
            let (bytes, end) = transfer_piece(transfer_state, &mut self.wire, &mut self.has_ended);
            has_moved |= bytes > 0 || end.is_some();
            let id = transfer_state.id;
            let transferred_bytes = transfer_state.transferred_bytes as u64;
            self.user.data_moved(id, transferred_bytes, &self.context.cx());
            if let Some(is_good) = end {
                self.received_file = core::mem::take(&mut transfer_state.file);
                self.user_transfer = None;
                let result = if is_good { Ok(()) } else { Err(DataFailure::Malformed) };
                self.user.data_ended(id, transferred_bytes, result, &mut self.context.cx());
            }
        }
        has_moved
    }

    fn report_reset(&mut self) -> bool {
        // A data connection that has already ended cannot be reset.
        if let Some(transfer_state) =
            self.server_transfer.take_if(|transfer_state| !transfer_state.is_end_reported)
        {
            let id = transfer_state.id;
            let transferred_bytes = transfer_state.transferred_bytes as u64;
            let error = Err(TransferError::ConnectionLost);
            self.server.data_ended(id, transferred_bytes, error, &mut self.context.cx());
            return true;
        }
        if let Some(transfer_state) = self.user_transfer.take() {
            let id = transfer_state.id;
            let transferred_bytes = transfer_state.transferred_bytes as u64;
            let error = Err(DataFailure::ConnectionLost);
            self.user.data_ended(id, transferred_bytes, error, &mut self.context.cx());
            return true;
        }
        false
    }
}

/// Sends or receives the next bytes of a transfer. Returns the number of bytes, and at the end of
/// the data whether the transfer was correct.
fn transfer_piece<Id>(
    transfer_state: &mut TransferState<Id>,
    wire: &mut Vec<u8>,
    has_ended: &mut bool,
) -> (usize, Option<bool>) {
    if let Some(outgoing_wire) = &transfer_state.wire {
        if transfer_state.transferred_bytes == outgoing_wire.len() || *has_ended {
            *has_ended = true;
            return (0, Some(true));
        }
        let end = outgoing_wire.len().min(transfer_state.transferred_bytes + STEP_BYTES);
        wire.extend_from_slice(&outgoing_wire[transfer_state.transferred_bytes..end]);
        let sent = end - transfer_state.transferred_bytes;
        transfer_state.transferred_bytes = end;
        return (sent, None);
    }
    let Some(decoder) = &mut transfer_state.decoder else { return (0, None) };
    let bytes = core::mem::take(wire);
    transfer_state.transferred_bytes += bytes.len();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        match decoder.decode(&mut rest, &mut transfer_state.file) {
            Ok(Decoded::NeedsInput) => break,
            Ok(_) => {}
            Err(_) => return (bytes.len(), Some(false)),
        }
    }
    if !bytes.is_empty() || !*has_ended {
        return (bytes.len(), None);
    }
    (0, Some(decoder.finish(&mut transfer_state.file).is_ok()))
}

/// A server without a user engine. Tests send lines to it; its events are answered as in [`World`].
pub(super) struct LoneServer(pub(super) World);

impl LoneServer {
    pub(super) fn new(settings: ServerSettings) -> Self {
        let mut lone_server = Self(World::new(settings, user_settings()));
        lone_server.0.is_control_lost = true;
        lone_server.take_output();
        lone_server
    }

    pub(super) fn logged_in(settings: ServerSettings) -> Self {
        let mut lone_server = Self::new(settings);
        assert_eq!(lone_server.send_lines("USER ann\r\nPASS secret"), [331, 230]);
        lone_server
    }

    /// Sends lines, and returns the codes of the replies.
    pub(super) fn send_lines(&mut self, lines: &str) -> Vec<u16> {
        self.send_bytes(&[lines.as_bytes(), b"\r\n"].concat())
    }

    pub(super) fn send_bytes(&mut self, bytes: &[u8]) -> Vec<u16> {
        let mut rest = bytes;
        loop {
            let len_before = rest.len();
            self.0.server.receive(&mut rest, &mut self.0.context.cx());
            while self.0.server_events() {}
            if rest.is_empty() || rest.len() == len_before {
                break;
            }
        }
        self.take_output().1
    }

    /// Sends lines, and returns the text of the replies.
    pub(super) fn replies_to(&mut self, lines: &str) -> String {
        let mut rest = &[lines.as_bytes(), b"\r\n"].concat()[..];
        self.0.server.receive(&mut rest, &mut self.0.context.cx());
        while self.0.server_events() {}
        self.take_output().0
    }

    pub(super) fn take_output(&mut self) -> (String, Vec<u16>) {
        let output = self.0.server.output().to_vec();
        self.0.server.sent(output.len());
        let mut reader = ReplyReader::default();
        let mut rest = &output[..];
        let mut codes = Vec::new();
        while let Some(reply) = reader.next(&mut rest, &mut self.0.context.cx()).unwrap() {
            codes.push(reply.code.number());
        }
        (String::from_utf8_lossy(&output).into_owned(), codes)
    }
}
