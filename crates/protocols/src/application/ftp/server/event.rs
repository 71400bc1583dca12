//! What a server asks of its owner, and what it may be answered.

use crate::application::ftp::address::Family;
use crate::application::ftp::command::{HashAlgorithm, Protection, Range, Right, Secret, SetFacts};
use crate::application::ftp::listing::{Entry, ListForm, Pattern};
use crate::application::ftp::name::{Name, VirtualPath};
use crate::application::ftp::representation::Representation;
use crate::application::ftp::timestamp::Timestamp;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// The number of a transfer within its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u64);

/// Who wants to come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// USER.
    pub user: Name,
    /// PASS.
    pub password: Secret,
    /// ACCT, once it was asked for.
    pub account: Option<Secret>,
    /// HOST (RFC 7151).
    pub host: Option<Name>,
}

/// What a transfer moves, and which way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferKind {
    /// RETR.
    Retrieve,
    /// STOR.
    Store,
    /// STOU: a name of the server's choice, near the one that was given.
    StoreUnique,
    /// APPE.
    Append,
    /// LIST, NLST, MLSD: entries by [`ListForm::write`].
    List {
        /// How entries are written.
        form: ListForm,
        /// Which names; `None` for all.
        pattern: Option<Pattern>,
        /// Whether names that begin with a dot are among them.
        shows_hidden: bool,
    },
    /// MLFL: mail for a user; `None` for the printer of old, or whoever is in charge.
    Mail(Option<Name>),
}

impl TransferKind {
    /// Returns whether data comes to the server.
    #[must_use]
    pub const fn is_incoming(&self) -> bool {
        matches!(self, Self::Store | Self::StoreUnique | Self::Append | Self::Mail(_))
    }
}

/// How the user asked for a data connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataCommand {
    /// PORT (RFC 959).
    Port,
    /// EPRT (RFC 2428).
    Eprt,
    /// LPRT (RFC 1639).
    Lprt,
    /// PASV (RFC 959).
    Pasv,
    /// EPSV (RFC 2428).
    Epsv,
    /// LPSV (RFC 1639).
    Lpsv,
}

/// One transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Its number.
    pub id: TransferId,
    /// What it moves.
    pub kind: TransferKind,
    /// The file or the directory.
    pub path: VirtualPath,
    /// Where in the file it begins (REST), bytes.
    pub offset_bytes: u64,
    /// ALLO, if it was sent.
    pub allocation_bytes: Option<u64>,
    /// How the file travels. A listing is ASCII already, and its type says image.
    pub representation: Representation,
    /// How hard MODE Z tries, if the user has said.
    pub deflate_level: Option<u8>,
    /// Whether the data connection is to be in TLS.
    pub protection: Protection,
    /// How its data connection was asked for; `None` for the default ports (RFC 959 §3.2).
    pub data_style: Option<DataCommand>,
}

/// What the owner is asked to do with files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// To say whether it is a directory that the user may go to. Answer: `Done`.
    ChangeDirectory(VirtualPath),
    /// MKD. Answer: `Done`.
    MakeDirectory(VirtualPath),
    /// RMD. Answer: `Done`.
    RemoveDirectory(VirtualPath),
    /// DELE. Answer: `Done`.
    Delete(VirtualPath),
    /// To say whether there is something to be renamed. Answer: `Done`.
    Exists(VirtualPath),
    /// RNFR and RNTO. Answer: `Done`.
    Rename {
        /// The old name.
        from: VirtualPath,
        /// The new name.
        to: VirtualPath,
    },
    /// SIZE. Answer: `Size`, the bytes that this representation has in stream mode, whatever MODE is
    /// set; `TooLarge` if the file is longer than the limit and must be read to count them.
    Size {
        /// The file.
        path: VirtualPath,
        /// The representation.
        representation: Representation,
        /// The longest text that is read for it.
        text_max_bytes: u64,
    },
    /// SITE PARTIAL: which upload of this path the user's connection broke. Answer: `PartialSize`,
    /// and until the next transfer, SIZE, HASH, REST with STOR and APPE of the path mean that upload,
    /// although another file has the name.
    Partial(VirtualPath),
    /// MDTM. Answer: `Modified`.
    Modified(VirtualPath),
    /// MLST. Answer: `Entry`.
    Facts(VirtualPath),
    /// MFMT, MFF, SITE CHMOD, SITE UTIME. Answer: `Done`.
    SetFacts(VirtualPath, SetFacts),
    /// HASH and its kind. Answer: `Hash`.
    Hash(HashAlgorithm, VirtualPath, Range),
    /// COMB. Answer: `Done`.
    Combine {
        /// The file that is to hold the parts.
        target: VirtualPath,
        /// The parts, in their order.
        parts: Vec<VirtualPath>,
    },
    /// AVBL. Answer: `Size`, the bytes that may be written.
    Available(VirtualPath),
    /// STAT with a name. Answer: `Lines`, as LIST has them, without ends of line.
    Status {
        /// The file or directory.
        path: VirtualPath,
        /// Which names; `None` for all.
        pattern: Option<Pattern>,
        /// Whether names that begin with a dot are among them.
        shows_hidden: bool,
    },
    /// HOST (RFC 7151 §3): to say whether files of a host of this name are served, and to those who
    /// have named it in TLS. Answer: `Greeting`; `UnknownHost` and `OtherHost` if not.
    Host(Name),
    /// ALLO: to say whether there is room for so many bytes. Answer: `Done`.
    Allocate(u64),
    /// To say whether there is a mailbox, before a text is taken for it. Answer: `Done`.
    Mailbox(Option<Name>),
    /// MAIL: a text for a user, lines ended by LF. Answer: `Done`.
    Deliver {
        /// For whom.
        user: Option<Name>,
        /// The text.
        text: Vec<u8>,
    },
}

/// What came of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// Bytes.
    Size(u64),
    /// Bytes that are kept of an upload that broke off. SIZE is answered with it too, where no file
    /// has the name.
    PartialSize(u64),
    /// A moment.
    Modified(Timestamp),
    /// An entry.
    Entry(Entry),
    /// A hash in hexadecimal digits, and how many bytes the file or the part has.
    Hash {
        /// The digits.
        digits: Vec<u8>,
        /// Bytes that went in.
        len_bytes: u64,
    },
    /// Lines, of a directory or of a file (RFC 959 §4.2, 212 and 213).
    Lines {
        /// The lines.
        lines: Vec<Vec<u8>>,
        /// Whether they are those of a directory.
        is_directory: bool,
    },
    /// What a host says to who comes.
    Greeting(String),
}

/// What has become of an upload that is to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// It is in place, and can be taken back.
    Revocable,
    /// It is not in place: it could not be taken back.
    Unsupported,
}

/// Why an operation or a file was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// There is no such file: 550.
    NotFound,
    /// The user may not, as the file system says: 550.
    Denied,
    /// The user may not, as he lacks a right: 550.
    Missing(Right),
    /// It is no directory: 550.
    NotADirectory,
    /// It is a directory: 550.
    IsADirectory,
    /// It is there already: 550.
    Exists,
    /// A directory that is not empty: 550.
    NotEmpty,
    /// The text is too large to be read for its size: 550.
    TooLarge,
    /// It is larger than a file may be: 552.
    Limit,
    /// REST was behind the end of the file: 554 (RFC 1123 §4.1.3.4).
    BeyondEnd,
    /// No host of this name is served: 504 (RFC 7151 §3.2).
    UnknownHost,
    /// TLS was made with another host: 504 (RFC 7151 §4).
    OtherHost,
    /// Nobody has mail by this name: 550.
    NoMailbox,
    /// The name may not be: 553.
    NameRefused,
    /// Another uses it: 450.
    Busy,
    /// The server does as much as it may for others: 450.
    ServerBusy,
    /// More bytes than this user may have hashed by one command: 550.
    HashLimit,
    /// What more was sent for is not as it was, so that something would be lost: 450.
    Changed,
    /// There is no room: 452.
    NoSpace,
    /// The user has no room left: 552.
    Quota,
    /// It is not done here: 504.
    NotSupported,
    /// Something failed that is not the user's fault: 451.
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
            Self::Limit => (552, "File larger than this server takes"),
            Self::BeyondEnd => (554, "REST is beyond the end of the file"),
            Self::UnknownHost => (504, "No such host here"),
            Self::OtherHost => (504, "TLS was made with another host"),
            Self::NoMailbox => (550, "No such mailbox"),
            Self::NameRefused => (553, "Name not allowed"),
            Self::Busy => (450, "File busy"),
            Self::ServerBusy => (450, "Server busy, try again later"),
            Self::HashLimit => (550, "Too many bytes to hash at once, give a smaller range"),
            Self::Changed => (450, "The file has changed meanwhile, send it again"),
            Self::NoSpace => (452, "No space left"),
            Self::Quota => (552, "Quota used up, remove something first"),
            Self::NotSupported => (504, "Not done here"),
            Self::Local => (451, "Local error"),
        }
    }
}

/// Why a transfer that had begun has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferError {
    /// The data connection could not be made: 425.
    NoConnection,
    /// TLS failed on the data connection: 522.
    Tls,
    /// TLS of the data connection does not resume that of the control connection: 522.
    TlsNotResumed,
    /// The data connection was reset, or ended without what ends it in order: 426.
    ConnectionLost,
    /// No byte moved for too long: 426.
    Stalled,
    /// The user has aborted it: 426.
    Aborted,
    /// The control connection ended.
    ControlLost,
    /// The data was not in its representation: 451.
    Malformed,
    /// Our file: the error says which reply.
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
            Self::Malformed => (451, "Data not in the representation agreed, transfer aborted"),
            Self::File(error) => error.reply(),
        }
    }
}

/// What came of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its number.
    pub id: TransferId,
    /// Bytes on the data connection, as the owner has told.
    pub wire_bytes: u64,
    /// The code of the last reply; `None` if nobody was left to hear it.
    pub reply: Option<u16>,
    /// `Ok` only if the data ended in order, and our file is as it should be.
    pub result: Result<(), TransferError>,
}

/// What a server asks of its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// To say who may come in: [`Server::login`](super::Server::login).
    Authenticate(Login),
    /// To begin TLS on the control connection once the output is sent, and to throw away what was
    /// read and not given yet: [`Server::tls_started`](super::Server::tls_started).
    StartTls,
    /// To end TLS on the control connection once the output is sent.
    StopTls,
    /// To listen for one data connection from the control connection's peer, on a port of chance:
    /// [`Server::listening`](super::Server::listening). What listened before is to be closed.
    Listen(Family),
    /// To connect for data: [`Server::data_connected`](super::Server::data_connected).
    Connect(SocketAddr),
    /// To close what listens for data, and a data connection that nobody uses.
    CloseData,
    /// To open a file: [`Server::opened`](super::Server::opened).
    Open(Transfer),
    /// To move the data: [`Server::data_ended`](super::Server::data_ended).
    Start(TransferId),
    /// All data is there: to make the file what its name says, for good:
    /// [`Server::committed`](super::Server::committed).
    Commit(TransferId),
    /// The data has ended, as that of a client which was killed does too: to make the file what its
    /// name says, so that [`Self::Discard`] takes it back and [`Self::Keep`] does not:
    /// [`Server::placed`](super::Server::placed).
    Place(TransferId),
    /// The file that was placed stays.
    Keep(TransferId),
    /// To stop moving data, to close the data connection and to forget the file. A file that was
    /// placed is taken back: its name stands for what it stood for before.
    Discard(TransferId),
    /// To do something with files: [`Server::performed`](super::Server::performed).
    Perform(Operation),
    /// A transfer is over. It is news, and asks for nothing.
    Finished(Finished),
}
