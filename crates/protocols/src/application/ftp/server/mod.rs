//! The server's protocol interpreter: commands in, replies out, and everything that touches files,
//! passwords, TLS or a socket asked of its owner.
//!
//! ```text
//! control ──► lines ──► queue ──► one command at a time ──► reply ──► control
//!                                    │           ▲
//!                              ServerEvent     answer
//!                                    ▼           │
//!                                  owner: files, accounts, TLS, data connection
//! ```
//!
//! A transfer in its steps, each asked for by an event and answered by a call:
//!
//! ```text
//! RETR ─ Open ─► opened ─ 150 ─ (Connect) ─► data_connected ─ Start ─► data_ended ─ 226 ─ Finished
//! STOR   the same up to data_ended(Ok) ─ Commit ─► committed ─ 226 ─ Finished
//! ABOR, a fault, the end of the control connection, at any step: Discard ─ 426 ─ Finished
//! ```
//!
//! A file that comes in is good only from `Commit` on, which is asked for when the data has ended
//! in order and nobody has aborted; else `Discard` is asked for. Where nothing marks the end of the
//! data (stream mode, no TLS), the kernel of a client that is killed ends data and control in order
//! as well, and often the data first: `Commit` waits a moment for the end of the control connection.
//! Commands behind a transfer
//! wait, but ABOR, and STAT without a name, are heard at once (RFC 959 §4.1.3).
//!
//! What this side believes of the other: a data port is his own address and not a privileged port
//! (RFC 2577), a data connection comes from his address, one listener is open at a time and serves
//! one connection, nothing that came before TLS is heard after it, and what may be done is looked
//! up for each verb in one table. A login that fails says the same whatever was wrong.
//!
//! Without PORT or PASV the server connects to the port of the user's control connection (RFC 959
//! §3.2, RFC 1123 §4.1.2.12).

mod access;
mod event;
mod files;
mod settings;
mod status;
mod transfer;

pub use access::LoginAnswer;
pub use event::{
    DataCommand, FileError, Finished, Login, Operation, Outcome, Placement, ServerEvent, Transfer,
    TransferError, TransferId, TransferKind,
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
use crate::cx::Cx;
use crate::meter::Counter;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use transfer::Running;

/// The most commands that wait for the one before them; ours.
const QUEUE_MAX: usize = 64;
/// The most bytes of a mail that comes over the control connection; ours.
const MAIL_MAX_BYTES: usize = 1 << 20;
/// The most bytes of replies that wait to be sent before no more commands are taken; ours.
const OUTPUT_MAX_BYTES: usize = 64 * 1024;
/// The most lines of a directory by STAT; ours.
const STATUS_LINES_MAX: usize = 2_000;
/// Any of them lets files come in somewhere.
const WRITES: [Right; 3] = [Right::Write, Right::Overwrite, Right::Append];

/// One session of a server.
#[derive(Debug)]
pub struct Server {
    settings: ServerSettings,
    /// Both ends of the control connection.
    local: SocketAddr,
    peer: SocketAddr,
    lines: LineReader,
    queue: VecDeque<Line>,
    output: Vec<u8>,
    events: VecDeque<ServerEvent>,
    access: Access,
    is_tls: bool,
    has_protection_size: bool,
    host: Option<Name>,
    protection: Protection,
    busy: Busy,
    data: DataRoute,
    data_style: Option<DataCommand>,
    only_extended: bool,
    directory: VirtualPath,
    representation: Representation,
    deflate_level: Option<u8>,
    facts: FactSet,
    hash: HashAlgorithm,
    restart_bytes: u64,
    allocation_bytes: Option<u64>,
    rename_from: Option<VirtualPath>,
    next_transfer: u64,
    failed_logins: u32,
    is_closing: bool,
    started_at: Instant,
    heard_at: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Access {
    Nobody,
    NeedsPassword(Name),
    NeedsAccount(Name, Secret),
    LoggedIn(Name, Account),
}

/// What the next command waits for.
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

/// Which command asked to listen, and so how the reply is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passive {
    Pasv,
    Epsv,
    Lpsv,
}

/// What is to be said when an operation is done.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pending {
    ChangeDirectory(VirtualPath),
    MakeDirectory(VirtualPath),
    RenameFrom(VirtualPath),
    /// Done, with this text.
    Plain(u16, &'static str),
    Size,
    Modified,
    Facts(VirtualPath),
    SetFacts(Name),
    Hash {
        name: Name,
        algorithm: HashAlgorithm,
        start: u64,
        is_draft: bool,
    },
    Available,
    Status,
    Host(Name),
    Allocate(u64),
    Mailbox(Option<Name>),
}

/// How the next data connection comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataRoute {
    /// To the port of the user's control connection.
    Default,
    /// To where the user has said.
    Active(SocketAddr),
    /// From the user; whether it has come already.
    Passive { is_connected: bool },
}

impl Server {
    /// Makes the server of one session between `local` and `peer`, the ends of its control
    /// connection, and puts the greeting into the output.
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
            access: Access::Nobody,
            is_tls,
            has_protection_size: false,
            host: None,
            // RFC 4217 says nothing of implicit TLS; its users protect data at once.
            protection: if is_tls { Protection::Private } else { Protection::Clear },
            busy: Busy::No,
            data: DataRoute::Default,
            data_style: None,
            only_extended: false,
            directory: VirtualPath::root(),
            representation: Representation::default(),
            deflate_level: None,
            facts: FactSet::default(),
            hash: HashAlgorithm::Sha256,
            restart_bytes: 0,
            allocation_bytes: None,
            rename_from: None,
            next_transfer: 1,
            failed_logins: 0,
            is_closing: false,
            started_at: cx.now,
            heard_at: cx.now,
        };
        server.reply(220, greeting.as_bytes());
        server
    }

    /// Takes what came over the control connection, and moves `input` past what it took: all of it,
    /// or as much as there is room for. The rest is given again when [`Self::wants_input`].
    pub fn receive(&mut self, input: &mut &[u8], cx: &mut Cx<'_>) {
        while self.wants_input() {
            let Some(line) = self.lines.next(input, cx) else { break };
            self.heard_at = cx.now;
            self.take_line(line, cx);
        }
        let answers = self.lines.take_answers();
        self.output.extend(answers);
        self.run_queue(cx);
    }

    /// Returns whether more input has a place. Otherwise it is left in the connection, whose
    /// window says so to the user.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        let is_starting_tls = matches!(self.busy, Busy::StartingTls);
        let has_room = self.queue.len() < QUEUE_MAX && self.output.len() < OUTPUT_MAX_BYTES;
        has_room && !self.is_closing && !is_starting_tls
    }

    fn take_line(&mut self, line: Line, cx: &mut Cx<'_>) {
        // A client that was killed sends nothing behind the reply.
        self.confirm_upload(cx);
        if let (Busy::Transferring(_), Line::Whole(line)) = (&self.busy, &line) {
            // RFC 959 §4.1.3: the two that are for this time.
            match Command::parse(line) {
                // A client that was killed sends no QUIT behind its data.
                Ok(Command::Quit) => self.quit_behind_data(),
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
        // What a verb needs is looked at before its argument.
        if let Some(verb) = verb
            && !self.is_allowed(verb)
        {
            cx.meter.count(Counter::FtpRightsRefused);
            return match self.access {
                Access::LoggedIn(..) => self.reply(550, verb.right().refusal().as_bytes()),
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
            // Which of them it takes depends on what is there: the owner decides.
            (Access::LoggedIn(_, account), Right::Write | Right::Append) => {
                let rights = account.rights;
                WRITES.iter().any(|right| rights.contains(*right))
            }
            (Access::LoggedIn(_, account), right) => account.rights.contains(right),
            _ => false,
        }
    }

    fn is_granted(&self, right: Right) -> bool {
        matches!(&self.access, Access::LoggedIn(_, account) if account.rights.contains(right))
    }

    /// Returns whether the user has a right; who has not is told so.
    fn has_right(&mut self, right: Right, cx: &mut Cx<'_>) -> bool {
        if self.is_granted(right) {
            return true;
        }
        cx.meter.count(Counter::FtpRightsRefused);
        self.reply(550, right.refusal().as_bytes());
        false
    }

    fn execute(&mut self, command: Command, cx: &mut Cx<'_>) {
        // RNFR is followed by RNTO at once, or is forgotten.
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

    /// Returns what waits to be sent over the control connection.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Drops `count` bytes of the output, which the transport has taken.
    pub fn sent(&mut self, count: usize) {
        self.output.drain(..count.min(self.output.len()));
    }

    /// Returns the next thing that is asked of the owner; call until `None`.
    pub fn event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    /// Returns whether nothing follows the output: the connection is to be closed behind it.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Returns the user, once he is logged in.
    #[must_use]
    pub fn user(&self) -> Option<&Name> {
        match &self.access {
            Access::LoggedIn(user, _) => Some(user),
            _ => None,
        }
    }

    /// Returns the host that the user has named (RFC 7151).
    #[must_use]
    pub const fn host(&self) -> Option<&Name> {
        self.host.as_ref()
    }

    /// The user has closed the control connection, or it was reset: what runs is given up (RFC 959
    /// §3.2 has the server close the data connection then).
    pub fn peer_closed(&mut self, cx: &mut Cx<'_>) {
        self.fail(TransferError::ControlLost, cx);
        self.close();
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
        let idle = self.heard_at + self.settings.idle_timeout;
        let waits = match &self.busy {
            Busy::Transferring(running) => running.deadline(&self.settings),
            Busy::No | Busy::Mailing { .. } | Busy::StartingTls => Some(idle),
            // The owner answers in his own time.
            Busy::Authenticating { .. } | Busy::Listening(_) | Busy::Performing(_) => None,
        };
        match self.access {
            Access::LoggedIn(..) => waits,
            _ => {
                let login = self.started_at + self.settings.login_timeout;
                Some(waits.map_or(login, |waits| waits.min(login)))
            }
        }
    }

    /// Time has passed.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.deadline().is_none_or(|deadline| cx.now < deadline) {
            return;
        }
        if self.is_confirming_upload() {
            self.confirm_upload(cx);
            self.ask_to_commit();
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
        self.reply(421, b"Timeout, closing control connection");
        self.close();
    }

    fn reply(&mut self, code: u16, text: &[u8]) {
        reply::write(code, &[text], &mut self.output);
    }

    fn reply_lines(&mut self, code: u16, lines: &[&[u8]]) {
        reply::write(code, lines, &mut self.output);
    }

    /// Returns where `name` leads; a name that leads nowhere is refused with a reply.
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

    fn family(&self) -> Family {
        Family::of(self.local.ip().to_canonical())
    }
}
