//! The server's protocol interpreter: it reads commands and writes replies, and requests all access
//! to files, passwords, TLS and sockets from its owner.
//!
//! ```text
//! control ──► lines ──► queue ──► one command at a time ──► reply ──► control
//!                                    │           ▲
//!                              ServerEvent     answer
//!                                    ▼           │
//!                                  owner: files, accounts, TLS, data connection
//! ```
//!
//! Steps of a transfer, each requested by an event and answered by a call:
//!
//! ```text
//! RETR   Open ─► on_opened ─ 150 ─ (Connect) ─► data_connected
//!        Start ─► data_ended ─ 226 ─ Finished
//! STOR   the same up to data_ended(Ok), then one of
//!        Commit ─► on_committed ─ 226 ─ Finished
//!        Place ─► on_placed ─ 226 ─ (the client is alive) ─ Keep ─ Finished
//! ABOR, a fault, the end of the control connection, at any step:
//!        Discard ─ 426 ─ Finished
//! ```
//!
//! An incoming file is valid only after `Commit` or `Keep`. Both require that the data connection
//! had an orderly close and that the transfer was not aborted. Otherwise the engine requests
//! `Discard`. The engine requests `Commit` if the end of the data is marked, or if the received
//! length equals the length in ALLO. In stream mode without TLS nothing marks the end of the data.
//! If the client of such an upload is killed, its kernel closes the data and control connections
//! without a reset, and often the data connection first. The engine therefore requests `Place`,
//! which the owner can revert, and waits briefly for the end of the control connection
//! ([`ServerSettings::upload_grace`]). If the owner cannot revert the change, the engine requests
//! `Commit` after this wait.
//!
//! Commands during a transfer are queued, except ABOR and STAT without a name, which are processed
//! at once (RFC 959 §4.1.3).
//!
//! The server restricts the client as follows:
//!
//! - The server connects only to the client's own address, and not to a privileged port (RFC 2577).
//! - It accepts a data connection only from the client's address.
//! - Only one listener is open at a time, and it accepts one connection.
//! - Input that was received before TLS is not processed after the start of TLS.
//! - One table determines the right that each verb requires.
//! - All failed logins get the same reply.
//!
//! Without PORT or PASV the server connects to the port of the user's control connection (RFC 959
//! §3.2, RFC 1123 §4.1.2.12).

mod access;
mod event;
mod files;
mod running_transfer;
mod settings;
mod status;
mod transfer;

pub use access::LoginAnswer;
pub use event::{
    CloseReason, DataCommand, FileError, Finished, Login, MissingTls, Operation, Outcome,
    Placement, ServerEvent, Transfer, TransferError, TransferId, TransferKind,
};
pub use settings::{Account, Rights, ServerSettings, TlsPolicy};
pub use transfer::Opened;

use super::address::Family;
use super::command::{
    COMMAND_MAX_BYTES, Command, CommandError, HashAlgorithm, Mechanism, Protection, Right, Secret,
    Verb,
};
use super::line::{Line, LineReader};
use super::listing::FactSet;
use super::name::{Name, VirtualPath};
use super::reply;
use super::representation::{Mode, Representation, Type};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use net::cx::Cx;
use net::meter::Counter;
use net::time::Instant;
use running_transfer::Running;

/// Maximum number of queued command lines (our choice).
const QUEUE_MAX: usize = 64;
/// Maximum length in bytes of a mail on the control connection (our choice).
const MAIL_MAX_BYTES: usize = 1 << 20;
/// Number of unsent reply bytes at which no more commands are read (our choice).
const OUTPUT_MAX_BYTES: usize = 64 * 1024;
/// Maximum number of lines in the reply to STAT of a directory (our choice).
const STATUS_LINES_MAX: usize = 2_000;
/// Rights of which a user needs at least one for any kind of upload.
const UPLOAD_RIGHTS: [Right; 3] = [Right::Write, Right::Overwrite, Right::Append];

/// One session of an FTP server.
#[derive(Debug)]
pub struct Server {
    settings: ServerSettings,
    /// Local address of the control connection.
    local: SocketAddr,
    peer: SocketAddr,
    lines: LineReader,
    queue: VecDeque<Line>,
    output: Vec<u8>,
    events: VecDeque<ServerEvent>,
    access: Access,
    is_tls: bool,
    has_reported_login: bool,
    has_reported_data: bool,
    has_protection_size: bool,
    host: Option<Name>,
    protection: Protection,
    busy: Busy,
    data: DataRoute,
    data_command: Option<DataCommand>,
    is_epsv_all: bool,
    directory: VirtualPath,
    representation: Representation,
    deflate_level: Option<u8>,
    facts: FactSet,
    hash: HashAlgorithm,
    restart_bytes: u64,
    allocation_bytes: Option<u64>,
    rename_from: Option<VirtualPath>,
    next_transfer_id: u64,
    failed_logins: u32,
    is_closing: bool,
    close_reason: Option<CloseReason>,
    started_at: Instant,
    last_received_at: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Access {
    NotLoggedIn,
    NeedsPassword(Name),
    NeedsAccount(Name, Secret),
    LoggedIn(Name, Account),
}

/// Operation in progress; the next command waits until it ends.
#[derive(Debug)]
enum Busy {
    No,
    Authenticating { user: Name, password: Secret },
    StartingTls,
    Listening(Passive),
    Performing(Pending),
    Transferring(Box<Running>),
    Mailing { user: Option<Name>, text: Vec<u8>, is_too_long: bool },
}

/// Command that requested a listener; it determines the format of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passive {
    Pasv,
    Epsv,
    Lpsv,
}

/// Reply to send when the owner has performed an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pending {
    ChangeDirectory(VirtualPath),
    MakeDirectory(VirtualPath),
    RenameFrom(VirtualPath),
    /// A reply with a fixed code and text.
    Plain(u16, &'static str),
    Size,
    Modified,
    Facts(VirtualPath),
    SetFacts(Name),
    Hash {
        name: Name,
        algorithm: HashAlgorithm,
        start: u64,
        is_hash_command: bool,
    },
    Available,
    Status,
    Host(Name),
    Allocate(u64),
    Mailbox(Option<Name>),
}

/// How the next data connection is established.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataRoute {
    /// By the server, to the port of the user's control connection.
    Default,
    /// By the server, to the address that the user specified.
    Active(SocketAddr),
    /// By the user; records whether the connection is already established.
    Passive { is_connected: bool },
}

impl Server {
    /// Creates one session on the control connection between `local` and `peer`, and writes the
    /// greeting to the output.
    #[must_use]
    pub fn new(settings: ServerSettings, local: SocketAddr, peer: SocketAddr, cx: &Cx<'_>) -> Self {
        let is_tls = settings.is_implicit_tls;
        let greeting = settings.greeting.clone();
        let mut server = Self {
            settings,
            local,
            peer,
            lines: LineReader::new(COMMAND_MAX_BYTES),
            queue: VecDeque::new(),
            output: Vec::new(),
            events: VecDeque::new(),
            access: Access::NotLoggedIn,
            is_tls,
            has_reported_login: false,
            has_reported_data: false,
            has_protection_size: false,
            host: None,
            // RFC 4217 does not cover implicit TLS; its clients expect data to be protected from
            // the start.
            protection: if is_tls { Protection::Private } else { Protection::Clear },
            busy: Busy::No,
            data: DataRoute::Default,
            data_command: None,
            is_epsv_all: false,
            directory: VirtualPath::root(),
            representation: Representation::default(),
            deflate_level: None,
            facts: FactSet::default(),
            hash: HashAlgorithm::Sha256,
            restart_bytes: 0,
            allocation_bytes: None,
            rename_from: None,
            next_transfer_id: 1,
            failed_logins: 0,
            is_closing: false,
            close_reason: None,
            started_at: cx.now,
            last_received_at: cx.now,
        };
        server.reply(220, greeting.as_bytes());
        server
    }

    /// Processes input from the control connection, and advances `input` past the consumed bytes:
    /// all of `input`, or the part that fits the queues. The caller passes the rest again when
    /// [`Self::wants_input`] returns true.
    pub fn receive(&mut self, input: &mut &[u8], cx: &mut Cx<'_>) {
        while self.wants_input() {
            let Some(line) = self.lines.next(input, cx) else { break };
            self.last_received_at = cx.now;
            self.take_line(line, cx);
        }
        let answers = self.lines.take_answers();
        self.output.extend(answers);
        self.run_queue(cx);
    }

    /// Returns whether the session accepts more input. While the result is false, the transport
    /// keeps the input, and flow control stops the user.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        let is_starting_tls = matches!(self.busy, Busy::StartingTls);
        let has_room = self.queue.len() < QUEUE_MAX && self.output.len() < OUTPUT_MAX_BYTES;
        has_room && !self.is_closing && !is_starting_tls
    }

    fn take_line(&mut self, line: Line, cx: &mut Cx<'_>) {
        // Input after the reply proves that the client is alive.
        self.confirm_upload(cx);
        if let (Busy::Transferring(_), Line::Whole(line)) = (&self.busy, &line) {
            // RFC 959 §4.1.3: ABOR and STAT are processed even during a transfer.
            match Command::parse(line) {
                // QUIT after the data proves that the client is alive.
                Ok(Command::Quit) => self.on_quit_during_transfer(),
                Ok(Command::Abor) => {
                    cx.meter.count(Counter::FtpCommandsIn);
                    return self.abort(cx);
                }
                Ok(Command::Stat(listed)) if listed.name.is_none() => {
                    cx.meter.count(Counter::FtpCommandsIn);
                    return self.status();
                }
                _ => {}
            }
        }
        self.queue.push_back(line);
    }

    fn run_queue(&mut self, cx: &mut Cx<'_>) {
        while !self.is_closing {
            if !matches!(self.busy, Busy::No | Busy::Mailing { .. }) {
                return;
            }
            match (self.queue.pop_front(), &self.busy) {
                (None, _) => return,
                (Some(Line::TooLong), Busy::No) => self.reply(500, b"Line too long"),
                (Some(Line::Whole(line)), Busy::No) => self.command(&line, cx),
                (Some(line), _) => self.mail_line(&line),
            }
        }
    }

    fn command(&mut self, line: &[u8], cx: &mut Cx<'_>) {
        cx.meter.count(Counter::FtpCommandsIn);
        let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
        let verb = Verb::from_text(line.get(..end).unwrap_or_default());
        // The right is checked before the argument is parsed.
        if let Some(verb) = verb
            && !self.is_allowed(verb)
        {
            cx.meter.count(Counter::FtpRightsRefused);
            return match self.access {
                Access::LoggedIn(..) => {
                    let right = verb.right();
                    self.events.push_back(ServerEvent::Denied { command: line.to_vec(), right });
                    self.reply(550, right.refusal().as_bytes());
                }
                _ => self.reply(530, b"Please log in with USER and PASS"),
            };
        }
        match Command::parse(line) {
            Ok(command) => self.execute(command, cx),
            Err(error) => {
                cx.meter.count(Counter::FtpCommandsWrong);
                let (code, text): (u16, &[u8]) = match error {
                    CommandError::Unrecognized => (500, b"Command not understood"),
                    CommandError::Syntax(_) => (501, b"Syntax error in the argument"),
                    CommandError::NotImplemented(_) => (502, b"Command not implemented"),
                    CommandError::Parameter(_) => (504, b"Not implemented for that argument"),
                    CommandError::Family(_) => (522, b"Network protocol not supported, use (1,2)"),
                    CommandError::Protection(_) => (536, b"Protection level not supported"),
                };
                self.reply(code, text);
            }
        }
    }

    fn is_allowed(&self, verb: Verb) -> bool {
        match (&self.access, verb.right()) {
            (_, Right::Anyone) => true,
            // Whether Write or Overwrite is required depends on whether the file exists, so the
            // owner checks the right.
            (Access::LoggedIn(_, account), Right::Write | Right::Append) => {
                let rights = account.rights;
                UPLOAD_RIGHTS.iter().any(|right| rights.contains(*right))
            }
            (Access::LoggedIn(_, account), right) => account.rights.contains(right),
            _ => false,
        }
    }

    fn is_granted(&self, right: Right) -> bool {
        matches!(&self.access, Access::LoggedIn(_, account) if account.rights.contains(right))
    }

    /// Returns whether the user has `right`. If not, sends a negative reply.
    fn has_right(&mut self, right: Right, cx: &mut Cx<'_>) -> bool {
        if self.is_granted(right) {
            return true;
        }
        cx.meter.count(Counter::FtpRightsRefused);
        self.reply(550, right.refusal().as_bytes());
        false
    }

    fn execute(&mut self, command: Command, cx: &mut Cx<'_>) {
        // RNFR has no effect unless RNTO follows immediately.
        if !matches!(command, Command::Rnto(_)) {
            self.rename_from = None;
        }
        match command {
            Command::User(_)
            | Command::Pass(_)
            | Command::Acct(_)
            | Command::Rein
            | Command::Host(_)
            | Command::Auth(_)
            | Command::Pbsz
            | Command::Prot(_)
            | Command::Ccc => self.access_command(command, cx),
            Command::Port(_)
            | Command::Eprt(_)
            | Command::Lprt(_)
            | Command::Pasv
            | Command::Lpsv
            | Command::Epsv(_)
            | Command::Retr(_)
            | Command::Stor(_)
            | Command::Stou(_)
            | Command::Appe(_)
            | Command::List(_)
            | Command::Nlst(_)
            | Command::Mlsd(_)
            | Command::Mlfl(_)
            | Command::Abor => self.transfer_command(command, cx),
            Command::Quit => {
                self.reply(221, b"Goodbye");
                self.close();
            }
            Command::Noop => self.reply(200, b"Ok"),
            Command::Stat(listed) if listed.name.is_none() => self.status(),
            other => self.file_command(other, cx),
        }
    }

    /// Returns the bytes that are queued for the control connection.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Removes `count` bytes that the transport has accepted from the start of the output.
    pub fn sent(&mut self, count: usize) {
        self.output.drain(..count.min(self.output.len()));
    }

    /// Returns the next request to the owner; call until `None`.
    pub fn event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    /// Returns whether the connection is to be closed after the output has been sent.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Returns the reason for which the server closes the connection; `None` while the session is open,
    /// and if the user ends it.
    #[must_use]
    pub const fn close_reason(&self) -> Option<CloseReason> {
        self.close_reason
    }

    /// Returns the name of the logged-in user.
    #[must_use]
    pub fn user(&self) -> Option<&Name> {
        match &self.access {
            Access::LoggedIn(user, _) => Some(user),
            _ => None,
        }
    }

    /// Returns the host that the user selected with HOST (RFC 7151).
    #[must_use]
    pub const fn host(&self) -> Option<&Name> {
        self.host.as_ref()
    }

    /// Returns whether TLS protects the control connection.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Reports that the control connection was reset, or closed by the user: the current transfer
    /// fails (RFC 959 §3.2 requires the server to close the data connection).
    pub fn peer_closed(&mut self, cx: &mut Cx<'_>) {
        self.fail(TransferError::ControlLost, cx);
        self.close();
    }

    /// Sends the reply 421 with the reason, and closes the connection.
    fn close_because(&mut self, reason: CloseReason) {
        if !self.is_closing {
            self.close_reason = Some(reason);
            self.reply(421, reason.reply());
            self.close();
        }
    }

    fn close(&mut self) {
        if !self.is_closing {
            self.is_closing = true;
            self.queue.clear();
            self.close_data();
        }
    }

    /// Returns when [`Self::timeout`] is to be called.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if self.is_closing {
            return None;
        }
        let idle_deadline = self.last_received_at + self.settings.idle_timeout;
        let deadline = match &self.busy {
            Busy::Transferring(running) => running.deadline(&self.settings),
            Busy::No | Busy::Mailing { .. } | Busy::StartingTls => Some(idle_deadline),
            // No timeout applies while the owner processes a request.
            Busy::Authenticating { .. } | Busy::Listening(_) | Busy::Performing(_) => None,
        };
        match self.access {
            Access::LoggedIn(..) => deadline,
            _ => {
                let login_deadline = self.started_at + self.settings.login_timeout;
                Some(deadline.map_or(login_deadline, |deadline| deadline.min(login_deadline)))
            }
        }
    }

    /// Handles expired timers.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.deadline().is_none_or(|deadline| cx.now < deadline) {
            return;
        }
        if self.is_confirming_upload() {
            self.confirm_upload(cx);
            self.request_commit();
            return self.run_queue(cx);
        }
        cx.meter.count(Counter::FtpTimeouts);
        if let Busy::Transferring(running) = &self.busy
            && matches!(self.access, Access::LoggedIn(..))
        {
            let error = if running.has_started() {
                TransferError::Stalled
            } else {
                TransferError::NoConnection
            };
            self.fail(error, cx);
            return self.run_queue(cx);
        }
        self.close_because(CloseReason::Timeout);
    }

    fn reply(&mut self, code: u16, text: &[u8]) {
        reply::write(code, &[text], &mut self.output);
    }

    fn reply_lines(&mut self, code: u16, lines: &[&[u8]]) {
        reply::write(code, lines, &mut self.output);
    }

    /// Resolves `name` to a path, or the working directory for `None`. Sends a negative reply if
    /// the path is invalid.
    fn path_of(&mut self, name: Option<&Name>, cx: &mut Cx<'_>) -> Option<VirtualPath> {
        let Some(name) = name else { return Some(self.directory.clone()) };
        match self.directory.join(name) {
            Ok(path) => Some(path),
            Err(_) => {
                cx.meter.count(Counter::FtpNamesRefused);
                self.reply(553, b"Name too long");
                None
            }
        }
    }

    fn perform(&mut self, operation: Operation, pending: Pending) {
        self.busy = Busy::Performing(pending);
        self.events.push_back(ServerEvent::Perform(operation));
    }

    fn address_family(&self) -> Family {
        Family::from_address(self.local.ip().to_canonical())
    }
}
