//! Tasks of a user session, and their results.

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

/// Number of a task within its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

/// Use of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsUse {
    /// Never.
    #[default]
    Never,
    /// If the server supports it; otherwise everything is sent in plaintext.
    IfOffered,
    /// By AUTH TLS; without it the session ends.
    Required,
    /// Implicit TLS from the first byte.
    Implicit,
}

/// Commands that set up data connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataStyle {
    /// EPSV, then PASV; if both fail, EPRT or PORT if listening is allowed.
    #[default]
    Passive,
    /// Like `Passive`, but without EPSV over IPv4.
    PassiveOnly4,
    /// EPRT, then PORT.
    Active,
}

/// Quirks of a server that a session detected, for use by the next session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerQuirks {
    /// EPSV is refused or not answered, or its ports do not respond.
    pub avoids_epsv: bool,
    /// PASV is refused or not answered, or its ports do not respond.
    pub avoids_pasv: bool,
    /// EPRT is refused or not answered.
    pub avoids_eprt: bool,
    /// FEAT is not answered.
    pub avoids_features: bool,
    /// OPTS UTF8 ON is not answered.
    pub avoids_names: bool,
    /// PBSZ and PROT are refused before the login, and must follow it.
    pub logs_in_first: bool,
    /// A multiline reply may end with another code than it began with.
    pub has_loose_ends: bool,
    /// PRET must precede EPSV and PASV.
    pub announces: bool,
    /// A command that is sent before the reply to the previous one is lost.
    pub goes_in_step: bool,
}

/// Settings of a user session.
#[derive(Clone, Debug)]
pub struct UserSettings {
    /// USER.
    pub user: Name,
    /// PASS.
    pub password: Secret,
    /// ACCT, if the server requests it.
    pub account: Option<Secret>,
    /// HOST (RFC 7151); a server that does not know HOST has only one host.
    pub host: Option<Name>,
    /// Use of TLS.
    pub tls: TlsUse,
    /// Whether data is protected if the control connection is.
    pub protects_data: bool,
    /// Commands that set up data connections.
    pub data_style: DataStyle,
    /// Whether the server may connect to this host if this host cannot connect to the server.
    pub may_listen: bool,
    /// Whether FEAT is sent after the login.
    pub asks_features: bool,
    /// Timeout for a reply.
    pub reply_timeout: Duration,
    /// Timeout for a data connection by EPSV or PASV and for the reply to EPSV, after which the
    /// next route is tried; and for the preliminary reply, after which the transfer begins without
    /// it.
    pub data_connect_timeout: Duration,
    /// Time without data on a data connection.
    pub stall_timeout: Duration,
    /// Quirks that earlier sessions detected.
    pub quirks: ServerQuirks,
}

impl UserSettings {
    /// Returns settings with these credentials and defaults for everything else.
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
            quirks: ServerQuirks::default(),
        }
    }
}

/// Command that stores a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// STOR.
    Replace,
    /// APPE.
    Append,
    /// STOU: the server chooses the name and reports it in the preliminary reply.
    Unique,
}

/// Command that lists a directory.
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

/// Task of a user session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// RETR.
    Retrieve {
        /// Name of the file.
        name: Name,
        /// Representation of the file.
        representation: Representation,
        /// Offset in the file at which the transfer begins, in bytes.
        offset_bytes: u64,
        /// Size of the whole file, if known; a shorter file is a failure.
        expected_bytes: Option<u64>,
    },
    /// STOR, APPE, STOU.
    Store {
        /// Name of the file; only optional for STOU.
        name: Option<Name>,
        /// Command that stores the file.
        kind: StoreKind,
        /// Representation of the file.
        representation: Representation,
        /// Offset in the file at which the transfer begins, in bytes.
        offset_bytes: u64,
        /// Size for ALLO. The engine does not wait for the reply to ALLO, so a size may only be
        /// given for servers that accept commands before the reply to the previous command.
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
    /// MDTM; the time is [`Reply::timestamp`].
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
    /// Any other command without a data connection, sent unchanged.
    Quote(Name),
    /// QUIT: the last task.
    Quit,
}

impl Task {
    /// Returns whether data is received from the server, or `None` if the task has no data.
    #[must_use]
    pub const fn is_incoming(&self) -> Option<bool> {
        match self {
            Self::Retrieve { .. } | Self::List(..) => Some(true),
            Self::Store { .. } | Self::MailFile(_) => Some(false),
            _ => None,
        }
    }
}

/// Step of a task at which it failed.
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
    /// Connecting to the server for data.
    DataConnect,
    /// Listening for a data connection from the server.
    Listen,
    /// EPRT or PORT.
    Port,
    /// REST.
    Restart,
    /// ALLO.
    Allocate,
    /// PRET.
    Announce,
    /// EPSV or PASV in advance.
    Spare,
    /// RNFR.
    RenameFrom,
    /// The command of the task itself.
    Command,
    /// The transfer of the data, and the wait for the final reply.
    Data,
    /// ABOR.
    Abort,
    /// Matching replies to commands again, after ABOR.
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

/// Reason for a failure of the data, as reported by the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataFailure {
    /// The data connection was reset, or ended without an orderly close.
    ConnectionLost,
    /// TLS failed on the data connection.
    Tls,
    /// The received data does not conform to its representation.
    Malformed,
    /// The local file could not be read or written.
    File,
    /// More data arrived than the file has or than a listing may have.
    Excess,
}

/// Reason why a task failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// The server sent a negative reply.
    Refused(Reply),
    /// A reply was not valid for the command.
    Malformed,
    /// The input is not an FTP reply: the beginning of the line.
    NotReply(Vec<u8>),
    /// No reply, or no data, arrived in time.
    Timeout,
    /// No data connection could be established.
    NoDataConnection,
    /// The data failed.
    Data(DataFailure),
    /// Fewer bytes arrived than the file has.
    Short {
        /// Expected number of bytes.
        expected_bytes: u64,
        /// Received number of bytes.
        received_bytes: u64,
    },
    /// More bytes arrived than the file has after the requested offset.
    Long {
        /// Expected number of bytes.
        expected_bytes: u64,
        /// Received number of bytes.
        received_bytes: u64,
    },
    /// The local user aborted the task.
    Aborted,
    /// The control connection has ended.
    ControlLost,
    /// TLS could not be established.
    Tls,
}

/// Failure of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Step that failed.
    pub step: Step,
    /// Reason.
    pub why: FailureReason,
}

impl Failure {
    /// Returns whether a retry may succeed a little later.
    ///
    /// A code of 4yz indicates a transient failure (RFC 959 §4.2), with two exceptions: a server
    /// without disk space (452) is unlikely to free space soon, and some servers send 450 for a
    /// missing file. A refused login is transient if its text reports too many users.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match &self.why {
            FailureReason::Refused(reply) => {
                let is_door = matches!(self.step, Step::Greeting | Step::User | Step::Password);
                let is_full = is_door && reply.tells_of_a_crowd();
                let is_for_now = match reply.code.number() {
                    _ if reply.tells_of_no_room() => false,
                    450 => !reply.tells_of_nothing(),
                    _ => reply.severity() == Severity::TransientNegative,
                };
                is_full || is_for_now
            }
            FailureReason::Timeout
            | FailureReason::NoDataConnection
            | FailureReason::ControlLost
            | FailureReason::Short { .. } => true,
            FailureReason::Data(failure) => {
                !matches!(failure, DataFailure::File | DataFailure::Excess)
            }
            FailureReason::Malformed
            | FailureReason::NotReply(_)
            | FailureReason::Aborted
            | FailureReason::Tls
            | FailureReason::Long { .. } => false,
        }
    }
}

impl Reply {
    /// Returns whether the text of the reply refuses a login because of too many users.
    fn tells_of_a_crowd(&self) -> bool {
        self.has_any(&[b"too many", b"later", b"overload", b"limit", b"maximum"])
    }

    /// Returns whether the server has no disk space: code 452, or another code with a text about a
    /// lack of disk space.
    #[must_use]
    pub fn tells_of_no_room(&self) -> bool {
        let words: [&[u8]; 5] =
            [b"no space", b"disk full", b"disk is full", b"quota", b"insufficient"];
        let is_of_files = matches!(self.code.number(), 426 | 450 | 451);
        self.code.number() == 452 || is_of_files && self.has_any(&words)
    }

    /// Returns whether the reply reports a missing file or an empty directory. Some servers use
    /// code 450 for these replies.
    #[must_use]
    pub fn tells_of_nothing(&self) -> bool {
        let is_of_files = matches!(self.code.number(), 450 | 550);
        is_of_files && self.has_any(&[b"no such", b"not found", b"no files", b"does not exist"])
    }

    /// Returns whether the reply reports an empty directory. Some servers send such a reply instead
    /// of an empty listing.
    #[must_use]
    pub fn tells_of_no_files(&self) -> bool {
        matches!(self.code.number(), 450 | 550) && self.has_any(&[b"no files"])
    }

    /// Returns whether the text contains one of these strings, which must be in lower case.
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
            FailureReason::Refused(reply) => write!(f, "the server said {reply}"),
            FailureReason::Malformed => f.write_str("the reply is invalid"),
            FailureReason::NotReply(line) => {
                write!(f, "not an FTP reply: \"{}\"", line.escape_ascii())?;
                match line.as_slice() {
                    [b'S', b'S', b'H', b'-', ..] => f.write_str(" (an SSH server)"),
                    [b'H', b'T', b'T', b'P', b'/', ..] => f.write_str(" (a web server)"),
                    _ => Ok(()),
                }
            }
            FailureReason::Timeout => f.write_str("nothing came in time"),
            FailureReason::NoDataConnection => f.write_str("no data connection was established"),
            FailureReason::Data(DataFailure::ConnectionLost) => {
                f.write_str("the data connection was lost")
            }
            FailureReason::Data(DataFailure::Tls) => {
                f.write_str("TLS failed on the data connection")
            }
            FailureReason::Data(DataFailure::Malformed) => {
                f.write_str("the received data is malformed")
            }
            FailureReason::Data(DataFailure::File) => f.write_str("local file access failed"),
            FailureReason::Data(DataFailure::Excess) => {
                f.write_str("more data arrived than was announced or allowed")
            }
            FailureReason::Short { expected_bytes, received_bytes } => {
                write!(f, "{received_bytes} bytes arrived instead of {expected_bytes}")
            }
            FailureReason::Long { expected_bytes, received_bytes } => {
                write!(f, "{received_bytes} bytes arrived instead of the last {expected_bytes}")
            }
            FailureReason::Aborted => f.write_str("aborted"),
            FailureReason::ControlLost => f.write_str("the control connection was lost"),
            FailureReason::Tls => f.write_str("TLS could not be established"),
        }
    }
}

/// Result of a successful task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The last reply.
    pub reply: Reply,
    /// The preliminary reply, if there was one.
    pub preliminary: Option<Reply>,
    /// Number of bytes on the data connection.
    pub wire_bytes: u64,
}

/// Request or notification from a user session to its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserEvent {
    /// A reply has arrived. No answer is required.
    Reply(Reply),
    /// Start TLS on the control connection, and discard input that was read but not yet delivered:
    /// answer with [`User::tls_started`](super::User::tls_started).
    StartTls,
    /// The login is complete, and tasks run.
    LoggedIn,
    /// Open a data connection, always to the host of the control connection: answer with
    /// [`User::data_connected`](super::User::data_connected) or
    /// [`User::data_failed`](super::User::data_failed).
    ConnectData(SocketAddr),
    /// Listen for one data connection from the host of the control connection: answer with
    /// [`User::listening`](super::User::listening).
    ListenData(Family),
    /// Transfer the data of a task, with or without TLS: answer with
    /// [`User::data_ended`](super::User::data_ended).
    StartData(TaskId, Protection),
    /// Close the data connection and its listener.
    CloseData,
    /// The received file is invalid or incomplete.
    Discard(TaskId),
    /// The server has stored the data up to a restart marker that this end sent (reply 110). REST
    /// with the server's marker resumes the transfer at that position.
    MarkerReached {
        /// Marker of the local end.
        ours: u64,
        /// Marker of the server.
        theirs: u64,
    },
    /// A task has ended. `Ok` only if the reply is positive and the data ended with an orderly
    /// close.
    Finished(TaskId, Result<Done, Failure>),
    /// The session has ended. The failure is the reason if the owner did not request the end.
    Closed(Option<Failure>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::ftp::reply::Code;
    use alloc::vec;

    fn may_pass(code: u16, text: &str) -> bool {
        let reply = Reply { code: Code::new(code).unwrap(), lines: vec![text.as_bytes().to_vec()] };
        Failure { step: Step::Command, why: FailureReason::Refused(reply) }.is_transient()
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
            let failure =
                Failure { step: Step::Greeting, why: FailureReason::NotReply(line.to_vec()) };
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
    fn a_file_missing_by_reply_450_is_not_requested_again() {
        assert!(may_pass(450, "Busy") && !may_pass(450, "No files found"));
    }
}
