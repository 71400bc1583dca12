//! What a user may want, and what came of it.

use crate::application::ftp::address::Family;
use crate::application::ftp::command::{Protection, Secret};
use crate::application::ftp::name::Name;
use crate::application::ftp::reply::{Reply, Severity};
use crate::application::ftp::representation::Representation;
use crate::application::ftp::timestamp::Timestamp;
use crate::time::Duration;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

/// The number of a task within its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

/// When TLS is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsUse {
    /// Never.
    #[default]
    Never,
    /// If the server agrees; else all is in the clear.
    IfOffered,
    /// By AUTH TLS, or there is no session.
    Required,
    /// From the first byte on.
    Implicit,
}

/// How data connections are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataStyle {
    /// EPSV, then PASV; and if both fail, EPRT or PORT where that is allowed.
    #[default]
    Passive,
    /// The same without EPSV.
    PassiveOnly4,
    /// EPRT, then PORT.
    Active,
}

/// What a session has learnt of its server, and the next one is to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lessons {
    /// EPSV is refused or not answered, or nobody is at its ports.
    pub avoids_epsv: bool,
    /// The same of PASV.
    pub avoids_pasv: bool,
    /// EPRT is refused or not answered.
    pub avoids_eprt: bool,
    /// FEAT is not answered.
    pub avoids_features: bool,
    /// OPTS UTF8 ON is not answered.
    pub avoids_names: bool,
    /// PBSZ and PROT are refused before the login, and follow it.
    pub logs_in_first: bool,
    /// A reply of several lines may end with another code than it began with.
    pub has_loose_ends: bool,
    /// PRET goes before EPSV and PASV.
    pub announces: bool,
    /// A command that is sent before the reply to the last one is lost.
    pub goes_in_step: bool,
}

/// What a user is.
#[derive(Clone, Debug)]
pub struct UserSettings {
    /// USER.
    pub user: Name,
    /// PASS.
    pub password: Secret,
    /// ACCT, if it is asked for.
    pub account: Option<Secret>,
    /// HOST (RFC 7151); a server that does not know it is the one meant anyway.
    pub host: Option<Name>,
    /// TLS.
    pub tls: TlsUse,
    /// Whether data is protected where control is.
    pub protects_data: bool,
    /// How data connections are made.
    pub data_style: DataStyle,
    /// Whether the server may connect to us when we cannot connect to it.
    pub may_listen: bool,
    /// Whether FEAT is sent after the login.
    pub asks_features: bool,
    /// For a reply.
    pub reply_timeout: Duration,
    /// For a data connection by EPSV or PASV and for the reply to EPSV, before the next way is
    /// tried; and for the reply that data begins, before it is begun without.
    pub data_connect_timeout: Duration,
    /// Without a byte on a data connection.
    pub stall_timeout: Duration,
    /// What earlier sessions have learnt.
    pub lessons: Lessons,
}

impl UserSettings {
    /// Returns the settings of a login, with everything else as usual.
    #[must_use]
    pub fn new(user: Name, password: Secret) -> Self {
        Self {
            user,
            password,
            account: None,
            host: None,
            tls: TlsUse::Never,
            protects_data: true,
            data_style: DataStyle::Passive,
            may_listen: false,
            asks_features: true,
            reply_timeout: Duration::from_secs(60),
            data_connect_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(60),
            lessons: Lessons::default(),
        }
    }
}

/// How a file is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// STOR.
    Replace,
    /// APPE.
    Append,
    /// STOU: the server chooses the name and tells it in the preliminary reply.
    Unique,
}

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// LIST.
    Long,
    /// LIST -a.
    LongWithHidden,
    /// NLST.
    Names,
    /// MLSD.
    Facts,
}

/// What a user may want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// RETR.
    Retrieve {
        /// The file.
        name: Name,
        /// How it travels.
        representation: Representation,
        /// Where in the file it begins, bytes.
        offset_bytes: u64,
        /// The size of the whole file, if it is known: less is no success.
        expected_bytes: Option<u64>,
    },
    /// STOR, APPE, STOU.
    Store {
        /// The file; may only be missing for STOU.
        name: Option<Name>,
        /// How it is stored.
        kind: StoreKind,
        /// How it travels.
        representation: Representation,
        /// Where in the file it begins, bytes.
        offset_bytes: u64,
        /// For ALLO, whose reply is not waited for: only for servers that heed commands which come
        /// before the reply to the last one.
        allocation_bytes: Option<u64>,
    },
    /// LIST, NLST, MLSD.
    List(ListKind, Option<Name>),
    /// MLFL.
    MailFile(Option<Name>),
    /// MAIL: a text, whose lines end with LF or CR LF, over the control connection.
    Mail(Option<Name>, Vec<u8>),
    /// CWD.
    ChangeDirectory(Name),
    /// CDUP.
    Parent,
    /// PWD; the name is [`Reply::quoted`].
    WorkingDirectory,
    /// MKD.
    MakeDirectory(Name),
    /// RMD.
    RemoveDirectory(Name),
    /// DELE.
    Delete(Name),
    /// RNFR and RNTO.
    Rename {
        /// The old name.
        from: Name,
        /// The new name.
        to: Name,
    },
    /// SIZE in image type; the size is [`Reply::number`].
    Size(Name),
    /// MDTM; the moment is [`Reply::timestamp`].
    Modified(Name),
    /// MLST; the facts are [`Reply::entry`].
    Facts(Name),
    /// MFMT.
    SetModified(Timestamp, Name),
    /// SITE CHMOD.
    ChangeMode(u16, Name),
    /// HASH, in image type.
    Hash(Name),
    /// FEAT.
    Features,
    /// STAT.
    Status(Option<Name>),
    /// SYST; the system is the first word of the reply (RFC 959 §5.4).
    System,
    /// NOOP.
    Noop,
    /// Any other command without a data connection, as it is written.
    Quote(Name),
    /// QUIT: the last task.
    Quit,
}

impl Task {
    /// Returns whether data comes from the server, or `None` if there is none.
    #[must_use]
    pub const fn is_incoming(&self) -> Option<bool> {
        match self {
            Self::Retrieve { .. } | Self::List(..) => Some(true),
            Self::Store { .. } | Self::MailFile(_) => Some(false),
            _ => None,
        }
    }
}

/// Where in a task something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The server's greeting.
    Greeting,
    /// AUTH TLS.
    Auth,
    /// TLS on the control connection.
    Tls,
    /// PBSZ.
    ProtectionSize,
    /// PROT.
    Protection,
    /// HOST.
    Host,
    /// USER.
    User,
    /// PASS.
    Password,
    /// ACCT.
    Account,
    /// FEAT.
    Features,
    /// OPTS UTF8 ON.
    Names,
    /// TYPE.
    Type,
    /// STRU.
    Structure,
    /// MODE.
    Mode,
    /// EPSV or PASV.
    Passive,
    /// To connect to the server for data.
    DataConnect,
    /// To listen for the server.
    Listen,
    /// EPRT or PORT.
    Port,
    /// REST.
    Restart,
    /// ALLO.
    Allocate,
    /// PRET.
    Announce,
    /// EPSV or PASV before it is needed.
    Spare,
    /// RNFR.
    RenameFrom,
    /// The command itself.
    Command,
    /// The data connection, or the reply behind it.
    Data,
    /// ABOR.
    Abort,
    /// Finding out which reply is whose, after ABOR.
    Resynchronize,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Greeting => "greeting",
            Self::Auth => "AUTH TLS",
            Self::Tls => "TLS",
            Self::ProtectionSize => "PBSZ",
            Self::Protection => "PROT",
            Self::Host => "HOST",
            Self::User => "USER",
            Self::Password => "PASS",
            Self::Account => "ACCT",
            Self::Features => "FEAT",
            Self::Names => "OPTS UTF8",
            Self::Type => "TYPE",
            Self::Structure => "STRU",
            Self::Mode => "MODE",
            Self::Passive | Self::Spare => "EPSV and PASV",
            Self::DataConnect => "connecting for data",
            Self::Listen => "listening for data",
            Self::Port => "EPRT and PORT",
            Self::Restart => "REST",
            Self::Allocate => "ALLO",
            Self::Announce => "PRET",
            Self::RenameFrom => "RNFR",
            Self::Command => "command",
            Self::Data => "data transfer",
            Self::Abort => "ABOR",
            Self::Resynchronize => "NOOP after ABOR",
        })
    }
}

/// Why data did not arrive as it should, as the owner knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataFailure {
    /// The data connection was reset, or ended without what ends it in order.
    ConnectionLost,
    /// TLS failed on it.
    Tls,
    /// What came is not in its representation.
    Malformed,
    /// Our own file could not be read or written.
    File,
    /// More came than the file has, or than a listing may have.
    Excess,
}

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The server said no.
    Refused(Reply),
    /// A reply was not what it must be.
    Malformed,
    /// What came is no reply of FTP: the beginning of the line.
    NotReply(Vec<u8>),
    /// No reply, or no byte of data, in time.
    Timeout,
    /// No data connection came about.
    NoDataConnection,
    /// The data.
    Data(DataFailure),
    /// Fewer bytes came than the file has.
    Short {
        /// What should have come.
        expected_bytes: u64,
        /// What came.
        received_bytes: u64,
    },
    /// More bytes came than the file has behind the place where it was to begin.
    Long {
        /// What should have come.
        expected_bytes: u64,
        /// What came.
        received_bytes: u64,
    },
    /// We have aborted it.
    Aborted,
    /// The control connection has ended.
    ControlLost,
    /// TLS could not be made.
    Tls,
}

/// What failed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where.
    pub step: Step,
    /// Why.
    pub why: Why,
}

impl Failure {
    /// Returns whether the same may succeed a little later.
    ///
    /// A code of 4yz says so (RFC 959 §4.2), with two exceptions: a server without room (452) will
    /// not have any soon, and some say by 450 that there is no such file.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match &self.why {
            Why::Refused(reply) => {
                let is_door = matches!(self.step, Step::Greeting | Step::User | Step::Password);
                let is_full = is_door && reply.tells_of_a_crowd();
                let is_for_now = match reply.code.number() {
                    _ if reply.tells_of_no_room() => false,
                    450 => !reply.tells_of_nothing(),
                    _ => reply.severity() == Severity::TransientNegative,
                };
                is_full || is_for_now
            }
            Why::Timeout | Why::NoDataConnection | Why::ControlLost | Why::Short { .. } => true,
            Why::Data(failure) => !matches!(failure, DataFailure::File | DataFailure::Excess),
            Why::Malformed | Why::NotReply(_) | Why::Aborted | Why::Tls | Why::Long { .. } => false,
        }
    }
}

impl Reply {
    /// Returns whether a login is refused because there are too many, whatever its code says.
    fn tells_of_a_crowd(&self) -> bool {
        self.has_any(&[b"too many", b"later", b"overload", b"limit", b"maximum"])
    }

    /// Returns whether the server has no room for a file: 452, or another code whose text says so.
    #[must_use]
    pub fn tells_of_no_room(&self) -> bool {
        let words: [&[u8]; 5] =
            [b"no space", b"disk full", b"disk is full", b"quota", b"insufficient"];
        let is_of_files = matches!(self.code.number(), 426 | 450 | 451);
        self.code.number() == 452 || is_of_files && self.has_any(&words)
    }

    /// Returns whether it says that there is no such file, or none at all, as some do by 450.
    #[must_use]
    pub fn tells_of_nothing(&self) -> bool {
        let is_of_files = matches!(self.code.number(), 450 | 550);
        is_of_files && self.has_any(&[b"no such", b"not found", b"no files", b"does not exist"])
    }

    /// Returns whether it says of a folder that is listed that there are no files in it, as some do
    /// instead of sending nothing.
    #[must_use]
    pub fn tells_of_no_files(&self) -> bool {
        matches!(self.code.number(), 450 | 550) && self.has_any(&[b"no files"])
    }

    /// Returns whether the text has one of these words, which are in lower case.
    #[must_use]
    pub fn has_any(&self, words: &[&[u8]]) -> bool {
        self.lines.iter().any(|line| {
            let line = line.to_ascii_lowercase();
            words.iter().any(|word| line.windows(word.len()).any(|part| part == *word))
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.step)?;
        match &self.why {
            Why::Refused(reply) => write!(f, "the server said {reply}"),
            Why::Malformed => f.write_str("the reply could not be understood"),
            Why::NotReply(line) => {
                write!(f, "not an FTP reply: \"{}\"", line.escape_ascii())?;
                match line.as_slice() {
                    [b'S', b'S', b'H', b'-', ..] => f.write_str(" (an SSH server)"),
                    [b'H', b'T', b'T', b'P', b'/', ..] => f.write_str(" (a web server)"),
                    _ => Ok(()),
                }
            }
            Why::Timeout => f.write_str("nothing came in time"),
            Why::NoDataConnection => f.write_str("no data connection came about"),
            Why::Data(DataFailure::ConnectionLost) => f.write_str("the data connection was lost"),
            Why::Data(DataFailure::Tls) => f.write_str("TLS failed on the data connection"),
            Why::Data(DataFailure::Malformed) => f.write_str("the data could not be understood"),
            Why::Data(DataFailure::File) => f.write_str("our own file failed"),
            Why::Data(DataFailure::Excess) => f.write_str("more data came than was announced"),
            Why::Short { expected_bytes, received_bytes } => {
                write!(f, "{received_bytes} bytes came instead of {expected_bytes}")
            }
            Why::Long { expected_bytes, received_bytes } => {
                write!(f, "{received_bytes} bytes came where {expected_bytes} were left")
            }
            Why::Aborted => f.write_str("aborted"),
            Why::ControlLost => f.write_str("the control connection was lost"),
            Why::Tls => f.write_str("TLS could not be made"),
        }
    }
}

/// What a task has brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The last reply.
    pub reply: Reply,
    /// The reply that came before the data, if one did.
    pub preliminary: Option<Reply>,
    /// Bytes on the data connection.
    pub wire_bytes: u64,
}

/// What a user's engine asks of its owner, and its news.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserEvent {
    /// A reply has come. It is news.
    Reply(Reply),
    /// To begin TLS on the control connection, and to throw away what was read and not given yet:
    /// [`User::tls_started`](super::User::tls_started).
    StartTls,
    /// The session is open, and tasks run.
    LoggedIn,
    /// To connect for data, always to the host of the control connection:
    /// [`User::data_connected`](super::User::data_connected) or
    /// [`User::data_failed`](super::User::data_failed).
    ConnectData(SocketAddr),
    /// To listen for one data connection from that host:
    /// [`User::listening`](super::User::listening).
    ListenData(Family),
    /// To move the data of a task, in TLS or not: [`User::data_ended`](super::User::data_ended).
    StartData(TaskId, Protection),
    /// To close the data connection, and what listens for one.
    CloseData,
    /// What has come of the file is not good, or is not all of it.
    Discard(TaskId),
    /// A marker of ours has reached the server: REST with its marker begins there (110).
    MarkerReached {
        /// Ours.
        ours: u64,
        /// What the server calls it.
        theirs: u64,
    },
    /// A task is over. `Ok` only if the reply says so, and the data has ended in order too.
    Finished(TaskId, Result<Done, Failure>),
    /// The session is over; a failure says why if nobody asked for it.
    Closed(Option<Failure>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::ftp::reply::Code;
    use alloc::vec;

    fn may_pass(code: u16, text: &str) -> bool {
        let reply = Reply { code: Code::new(code).unwrap(), lines: vec![text.as_bytes().to_vec()] };
        Failure { step: Step::Command, why: Why::Refused(reply) }.is_transient()
    }

    #[test]
    fn what_is_refused_for_now_may_pass_and_what_is_refused_for_good_does_not() {
        let for_now = [421, 425, 426, 450, 451].map(|code| may_pass(code, "later"));
        assert_eq!(for_now, [true; 5]);
        let for_good = [500, 501, 502, 503, 504, 530, 532, 550, 551, 552, 553];
        assert!(!for_good.iter().any(|code| may_pass(*code, "no")));
    }

    #[test]
    fn a_line_that_is_no_reply_is_quoted_with_what_it_is_of() {
        let text = |line: &[u8]| {
            let failure = Failure { step: Step::Greeting, why: Why::NotReply(line.to_vec()) };
            alloc::format!("{failure}")
        };
        assert_eq!(
            text(b"SSH-2.0-OpenSSH_9.2p1"),
            "greeting: not an FTP reply: \"SSH-2.0-OpenSSH_9.2p1\" (an SSH server)"
        );
        assert!(text(b"HTTP/1.1 400").ends_with("(a web server)"));
        assert!(text(b"\x1b[2J").ends_with("\"\\x1b[2J\""));
    }

    #[test]
    fn a_server_without_room_is_not_asked_again() {
        assert!(!may_pass(452, "No"));
        for code in [426, 450, 451] {
            assert!(!may_pass(code, "x: No space left on device") && may_pass(code, "Failure"));
        }
    }

    #[test]
    fn what_is_not_there_by_450_is_not_asked_for_again() {
        assert!(may_pass(450, "Busy") && !may_pass(450, "No files found"));
    }
}
