//! Requests from a server session to its owner, and the types of the answers.

use crate::ftp::address::Family;
use crate::ftp::command::{HashAlgorithm, Protection, Range, Right, Secret, SetFacts};
use crate::ftp::listing::{self, ListForm, Pattern};
use crate::ftp::name::{Name, VirtualPath};
use crate::ftp::representation::Representation;
use crate::ftp::timestamp::Timestamp;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Number of a transfer within its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u64);

/// Credentials of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// User name (USER).
    pub user: Name,
    /// Password (PASS).
    pub password: Secret,
    /// Account (ACCT), if the server requested it.
    pub account: Option<Secret>,
    /// Name of the virtual host (HOST, RFC 7151).
    pub host: Option<Name>,
}

/// Reason for which the server closes a control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The number of failed logins reached the limit.
    TooManyFailedLogins,
    /// The password was not checked because too many checks were in progress.
    TooManyLogins,
    /// The user has not logged in, or has sent no command, for too long.
    Timeout,
}

impl CloseReason {
    /// Returns the text of the reply.
    pub(super) const fn reply(self) -> &'static [u8] {
        match self {
            Self::TooManyFailedLogins => b"Too many failed logins, closing control connection",
            Self::TooManyLogins => b"Too many logins at the moment, try again later",
            Self::Timeout => b"Timeout, closing control connection",
        }
    }
}

/// Kind and direction of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferKind {
    /// RETR: sends a file to the client.
    Retrieve,
    /// STOR: stores a file, and replaces an existing one.
    Store,
    /// STOU: the server chooses the name of the file, based on the name in the command if it has
    /// one.
    StoreUnique,
    /// APPE: appends to a file, or creates it.
    Append,
    /// LIST, NLST or MLSD: lists a directory. The owner formats the entries with
    /// [`ListForm::write`].
    List {
        /// Format of the entries.
        form: ListForm,
        /// Pattern that the listed names must match; `None` for all names.
        pattern: Option<Pattern>,
        /// Whether to list names that begin with a dot.
        shows_hidden: bool,
    },
    /// MLFL: mail for a user; `None` for the default recipient.
    Mail(Option<Name>),
}

impl TransferKind {
    /// Returns whether the server receives the data.
    #[must_use]
    pub const fn is_incoming(&self) -> bool {
        matches!(self, Self::Store | Self::StoreUnique | Self::Append | Self::Mail(_))
    }
}

/// Command that set up a data connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataCommand {
    /// PORT (RFC 959): the server connects to an IPv4 address.
    Port,
    /// EPRT (RFC 2428): the server connects to an IPv4 or IPv6 address.
    Eprt,
    /// LPRT (RFC 1639): the server connects to an address of any family.
    Lprt,
    /// PASV (RFC 959): the server listens on an IPv4 address.
    Pasv,
    /// EPSV (RFC 2428): the server listens on an IPv4 or IPv6 address.
    Epsv,
    /// LPSV (RFC 1639): the server listens on an address of any family.
    Lpsv,
}

/// Parameters of one transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Number of the transfer.
    pub id: TransferId,
    /// Kind of the transfer.
    pub kind: TransferKind,
    /// Path of the file or the directory.
    pub path: VirtualPath,
    /// Offset in the file at which the transfer begins (REST), in bytes.
    pub offset_bytes: u64,
    /// Size of the file that the client announced with ALLO, if it did.
    pub allocation_bytes: Option<u64>,
    /// Representation of the file. For a listing the type is image, since its entries are ASCII
    /// already.
    pub representation: Representation,
    /// Compression level of MODE Z, if the user set one.
    pub deflate_level: Option<u8>,
    /// Whether the data connection uses TLS.
    pub protection: Protection,
    /// Command that set up the data connection; `None` if no command did, so that the default ports
    /// are used (RFC 959 §3.2).
    pub data_command: Option<DataCommand>,
}

/// File operation for the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// CWD or CDUP: check whether the path is a directory that the user may enter. Answer: `Done`.
    ChangeDirectory(VirtualPath),
    /// MKD: create the directory. Answer: `Done`.
    MakeDirectory(VirtualPath),
    /// RMD: remove the directory. Answer: `Done`.
    RemoveDirectory(VirtualPath),
    /// DELE: delete the file. Answer: `Done`.
    Delete(VirtualPath),
    /// RNFR: check whether the path exists and can be renamed. Answer: `Done`.
    Exists(VirtualPath),
    /// RNTO: rename the file or directory. Answer: `Done`.
    Rename {
        /// The old path, from RNFR.
        from: VirtualPath,
        /// The new path, from RNTO.
        to: VirtualPath,
    },
    /// SIZE: count the bytes of the file in this representation, whose mode is always stream mode.
    /// Answer: `Size`, or `TooLarge` if counting the bytes requires reading the file, and the file
    /// exceeds the limit.
    Size {
        /// Path of the file.
        path: VirtualPath,
        /// Representation in which the bytes are counted.
        representation: Representation,
        /// Maximum length in bytes of a text file that is read to determine its size.
        text_max_bytes: u64,
    },
    /// SITE PARTIAL: find the upload to this path that was interrupted by a broken connection.
    /// Answer: `PartialSize`. Until the next transfer, SIZE, HASH, REST with STOR, and APPE of the
    /// path refer to that upload, even if another file has the name.
    Partial(VirtualPath),
    /// MDTM: look up the modification time. Answer: `Modified`.
    Modified(VirtualPath),
    /// MLST: look up the facts of the file or directory. Answer: `listing::Entry`.
    Facts(VirtualPath),
    /// MFMT, MFF, SITE CHMOD or SITE UTIME: set facts of the file. Answer: `Done`.
    SetFacts(VirtualPath, SetFacts),
    /// HASH or another hash command: compute the hash of a byte range of the file. Answer: `Hash`.
    Hash(HashAlgorithm, VirtualPath, Range),
    /// COMB: append the parts to the target file. Answer: `Done`.
    Combine {
        /// Path of the file that receives the parts.
        target: VirtualPath,
        /// Paths of the parts, in order.
        parts: Vec<VirtualPath>,
    },
    /// AVBL: look up the number of bytes available for writing. Answer: `Size`.
    Available(VirtualPath),
    /// STAT with a name: list the file or directory. Answer: `Lines` in the format of LIST, without
    /// line ends.
    Status {
        /// Path of the file or directory.
        path: VirtualPath,
        /// Pattern that the listed names must match; `None` for all names.
        pattern: Option<Pattern>,
        /// Whether to list names that begin with a dot.
        shows_hidden: bool,
    },
    /// HOST (RFC 7151 §3): check whether the server has a virtual host of this name. In TLS, also
    /// check whether the client named the same host in the TLS handshake. Answer: `Greeting`, or
    /// `UnknownHost` or `OtherHost` if a check fails.
    Host(Name),
    /// ALLO: check whether this many bytes can be stored. Answer: `Done`.
    Allocate(u64),
    /// MAIL: check whether the mailbox exists, before its text is accepted. Answer: `Done`.
    Mailbox(Option<Name>),
    /// MAIL: deliver a text to a user, with lines ended by LF. Answer: `Done`.
    Deliver {
        /// Recipient; `None` for the default recipient.
        user: Option<Name>,
        /// Text of the mail.
        text: Vec<u8>,
    },
}

/// Result of a successful operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The operation is complete and has no further result.
    Done,
    /// The requested number of bytes.
    Size(u64),
    /// Number of stored bytes of an interrupted upload. This is also the answer to SIZE if no file
    /// has the name.
    PartialSize(u64),
    /// Time of the last modification.
    Modified(Timestamp),
    /// Facts of a file or directory.
    Entry(listing::Entry),
    /// Hash of a file or a part of it.
    Hash {
        /// The hash in hexadecimal digits.
        digits: Vec<u8>,
        /// Number of hashed bytes.
        len_bytes: u64,
    },
    /// Lines of a listing: reply 212 for a directory, 213 for a file (RFC 959 §4.2).
    Lines {
        /// Text of the lines.
        lines: Vec<Vec<u8>>,
        /// Whether the path is a directory.
        is_directory: bool,
    },
    /// Greeting of the virtual host.
    Greeting(String),
}

/// Result of [`ServerEvent::Place`], which gives an uploaded file its final name in a way that can
/// be reverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The file has its final name, and the change can still be reverted.
    Revocable,
    /// The file does not have its final name, because the change could not be reverted.
    Unsupported,
}

/// Reason why an operation on a file failed, with its reply code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// The file does not exist: 550.
    NotFound,
    /// The file system denies the user access: 550.
    Denied,
    /// The user lacks the right for this operation: 550.
    Missing(Right),
    /// The path is not a directory: 550.
    NotADirectory,
    /// The path is a directory: 550.
    IsADirectory,
    /// The path already exists: 550.
    Exists,
    /// The directory is not empty: 550.
    NotEmpty,
    /// The text file is too large to be read in order to determine its size: 550.
    TooLarge,
    /// The file exceeds the maximum file size: 552.
    Limit,
    /// The offset of REST is beyond the end of the file: 554 (RFC 1123 §4.1.3.4).
    BeyondEnd,
    /// The server has no virtual host of this name: 504 (RFC 7151 §3.2).
    UnknownHost,
    /// TLS was established with another virtual host: 504 (RFC 7151 §4).
    OtherHost,
    /// No mailbox has this name: 550.
    NoMailbox,
    /// The name is not allowed: 553.
    NameRefused,
    /// The file is in use: 450.
    Busy,
    /// The server has reached its limit of concurrent operations: 450.
    ServerBusy,
    /// The range exceeds the number of bytes that this user may hash per command: 550.
    HashLimit,
    /// The file changed during the upload, so committing it would lose data: 450.
    Changed,
    /// The disk is full: 452.
    NoSpace,
    /// The quota of the user is exhausted: 552.
    Quota,
    /// The operation is not supported: 504.
    NotSupported,
    /// A local error that the user did not cause: 451.
    Local,
}

impl FileError {
    pub(super) const fn reply(self) -> (u16, &'static str) {
        match self {
            Self::NotFound => (550, "No such file or directory"),
            Self::Denied => (550, "Permission denied"),
            Self::Missing(right) => (550, right.refusal()),
            Self::NotADirectory => (550, "Not a directory"),
            Self::IsADirectory => (550, "Is a directory"),
            Self::Exists => (550, "Exists already"),
            Self::NotEmpty => (550, "Directory not empty"),
            Self::TooLarge => (
                550,
                "File too large to count its bytes in this TYPE and STRU, use TYPE I and STRU F",
            ),
            Self::Limit => (552, "File exceeds this server's size limit"),
            Self::BeyondEnd => (554, "REST is beyond the end of the file"),
            Self::UnknownHost => (504, "Unknown virtual host name"),
            Self::OtherHost => (504, "TLS was established with another host"),
            Self::NoMailbox => (550, "No such mailbox"),
            Self::NameRefused => (553, "Name not allowed"),
            Self::Busy => (450, "File is in use"),
            Self::ServerBusy => (450, "Server busy, try again later"),
            Self::HashLimit => (550, "Too many bytes to hash at once, specify a smaller range"),
            Self::Changed => (450, "The file has changed during the upload, send it again"),
            Self::NoSpace => (452, "No space left"),
            Self::Quota => (552, "Quota exceeded, delete files first"),
            Self::NotSupported => (504, "Operation not supported"),
            Self::Local => (451, "Local error"),
        }
    }
}

/// Reason why a transfer failed after it had begun, with its reply code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferError {
    /// The data connection could not be established: 425.
    NoConnection,
    /// TLS failed on the data connection: 522.
    Tls,
    /// The TLS session of the data connection does not resume the session of the control
    /// connection: 522.
    TlsNotResumed,
    /// The data connection was reset, or ended without an orderly close: 426.
    ConnectionLost,
    /// No data was transferred before the timeout: 426.
    Stalled,
    /// The user aborted the transfer: 426.
    Aborted,
    /// The control connection ended.
    ControlLost,
    /// The data did not conform to its representation: 451.
    Malformed,
    /// An error of the local file, which determines the reply code.
    File(FileError),
}

impl TransferError {
    pub(super) const fn reply(self) -> (u16, &'static str) {
        match self {
            Self::NoConnection => (425, "Cannot open data connection"),
            Self::Tls => (522, "TLS failed on the data connection"),
            Self::TlsNotResumed => (
                522,
                "The data connection must resume the TLS session of the control connection \
                 (server option requires-session-reuse)",
            ),
            Self::ConnectionLost => (426, "Data connection lost, transfer aborted"),
            Self::Stalled => (426, "Data connection stalled, transfer aborted"),
            Self::Aborted | Self::ControlLost => (426, "Transfer aborted"),
            Self::Malformed => (451, "Data does not match TYPE, STRU and MODE, transfer aborted"),
            Self::File(error) => error.reply(),
        }
    }
}

/// Result of a transfer, for the owner's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Number of the transfer.
    pub id: TransferId,
    /// Number of bytes transferred on the data connection, as reported by the owner.
    pub wire_bytes: u64,
    /// Code of the last reply; `None` if the client can no longer receive a reply.
    pub reply: Option<u16>,
    /// `Ok` only if the data ended with an orderly close and the local file is complete.
    pub result: Result<(), TransferError>,
}

/// Request of a server session to its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// Check the credentials of a login: answer with [`Server::login`](super::Server::login).
    Authenticate(Login),
    /// Start TLS on the control connection once the output is sent, and discard input that was read
    /// but not yet delivered: answer with [`Server::tls_started`](super::Server::tls_started).
    StartTls,
    /// End TLS on the control connection once the output is sent.
    StopTls,
    /// Listen on a random port for one data connection from the peer of the control connection, and
    /// close the previous listener: answer with [`Server::on_listening`](super::Server::on_listening).
    Listen(Family),
    /// Open a data connection: answer with
    /// [`Server::data_connected`](super::Server::data_connected).
    Connect(SocketAddr),
    /// Close the data listener, and a data connection that is not in use.
    CloseData,
    /// Open a file: answer with [`Server::on_opened`](super::Server::on_opened).
    Open(Transfer),
    /// Transfer the data: answer with [`Server::data_ended`](super::Server::data_ended).
    Start(TransferId),
    /// All data has arrived: give the file its final name irrevocably, and answer with
    /// [`Server::on_committed`](super::Server::on_committed).
    Commit(TransferId),
    /// The data has ended, possibly because the client was killed. Give the file its final name, so
    /// that [`Self::Keep`] can confirm the change or [`Self::Discard`] can revert it. Answer with
    /// [`Server::on_placed`](super::Server::on_placed).
    Place(TransferId),
    /// Confirm the final name of the file that was placed. No answer is required.
    Keep(TransferId),
    /// Stop the transfer, close the data connection and discard the file. If the file was placed,
    /// its name must refer to the previous content again.
    Discard(TransferId),
    /// Perform a file operation: answer with [`Server::on_performed`](super::Server::on_performed).
    Perform(Operation),
    /// A transfer has ended. No answer is required.
    Finished(Finished),
    /// A command was refused because the user has the right nowhere. No answer is required.
    Denied {
        /// The line of the command.
        command: Vec<u8>,
        /// The missing right.
        right: Right,
    },
    /// A client without TLS was refused because the settings require TLS; reported once in a session
    /// for logins, and once for data connections. No answer is required.
    TlsRequired(MissingTls),
}

/// Use of TLS that a client omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingTls {
    /// AUTH TLS before USER.
    Login,
    /// PROT P before a data connection.
    Data,
}
