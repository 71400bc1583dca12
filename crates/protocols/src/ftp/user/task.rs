//! Tasks of a user session, and their results.

use crate::ftp::address::Family;
use crate::ftp::command::{Protection, Secret};
use crate::ftp::name::Name;
use crate::ftp::reply::{Reply, Severity};
use crate::ftp::representation::Representation;
use crate::ftp::timestamp::Timestamp;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use net::time::Duration;

/// Number of a task within its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

/// Whether and how the control connection uses TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsUse {
    /// TLS is never used.
    #[default]
    Never,
    /// TLS is used if the server supports it; otherwise everything is sent in plaintext.
    IfOffered,
    /// TLS is requested with AUTH TLS; if the server refuses it, the session ends.
    Required,
    /// The connection starts with TLS (implicit TLS).
    Implicit,
}

/// Commands that open data connections, in the order in which they are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataStyle {
    /// EPSV, then PASV. If both fail and listening is allowed, EPRT or PORT.
    #[default]
    Passive,
    /// Like `Passive`, but without EPSV over IPv4.
    PassiveOnly4,
    /// EPRT, then PORT.
    Active,
}

/// Deviations of a server from the RFCs that a session detected, for use by the next session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerQuirks {
    /// EPSV is refused or not answered, or its ports do not respond.
    pub avoids_epsv: bool,
    /// PASV is refused or not answered, or its ports do not respond.
    pub avoids_pasv: bool,
    /// EPRT is refused or not answered.
    pub avoids_eprt: bool,
    /// FEAT is not answered.
    pub avoids_feat: bool,
    /// OPTS UTF8 ON is not answered.
    pub avoids_opts_utf8: bool,
    /// PBSZ and PROT are refused before the login, so they must follow it.
    pub needs_login_before_prot: bool,
    /// A multiline reply may end with another code than it began with.
    pub has_mismatched_reply_codes: bool,
    /// PRET must precede EPSV and PASV.
    pub needs_pret: bool,
    /// A command that is sent before the reply to the previous command is lost.
    pub avoids_pipelining: bool,
}

/// Settings of a user session.
#[derive(Clone, Debug)]
pub struct UserSettings {
    /// User name (USER).
    pub user: Name,
    /// Password (PASS).
    pub password: Secret,
    /// Account (ACCT), sent if the server requests it.
    pub account: Option<Secret>,
    /// Virtual host (HOST, RFC 7151). A server that does not know HOST has only one host.
    pub host: Option<Name>,
    /// Whether and how the control connection uses TLS.
    pub tls: TlsUse,
    /// Whether data connections use TLS if the control connection does.
    pub protects_data: bool,
    /// Commands that open data connections, in the order in which they are tried.
    pub data_style: DataStyle,
    /// Whether this host may listen for a data connection if it cannot connect to the server.
    pub may_listen: bool,
    /// Whether to send FEAT after the login.
    pub asks_features: bool,
    /// Timeout for a reply.
    pub reply_timeout: Duration,
    /// Timeout of a data connection by EPSV or PASV, and of the reply to EPSV. After this timeout
    /// the next route is tried. The preliminary reply has the same timeout; after it, the transfer
    /// starts without the reply.
    pub data_connect_timeout: Duration,
    /// Time without data after which a transfer fails.
    pub stall_timeout: Duration,
    /// Deviations of the server that earlier sessions detected.
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

/// Command with which a file is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// STOR: replaces an existing file.
    Replace,
    /// APPE: appends to an existing file.
    Append,
    /// STOU: the server chooses the name and reports it in the preliminary reply.
    Unique,
}

/// Command with which a directory is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// LIST: lines for users, usually as written by `ls -l`.
    Long,
    /// LIST -a: like LIST, including names that begin with a dot.
    LongWithHidden,
    /// NLST: only names.
    Names,
    /// MLSD: facts for programs (RFC 3659).
    Facts,
}

/// Task of a user session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// RETR: receives a file.
    Retrieve {
        /// Name of the file.
        name: Name,
        /// Representation of the file.
        representation: Representation,
        /// Offset in the file at which the transfer begins, in bytes.
        offset_bytes: u64,
        /// Size of the whole file, if known; the transfer fails if the received file is shorter.
        expected_bytes: Option<u64>,
    },
    /// STOR, APPE or STOU: sends a file.
    Store {
        /// Name of the file; may be `None` only for STOU.
        name: Option<Name>,
        /// Command that stores the file.
        kind: StoreKind,
        /// Representation of the file.
        representation: Representation,
        /// Offset in the file at which the transfer begins, in bytes.
        offset_bytes: u64,
        /// Size to announce with ALLO. The engine does not wait for the reply to ALLO, so this
        /// field may only be set for servers that accept commands before the reply to the previous
        /// command.
        allocation_bytes: Option<u64>,
    },
    /// LIST, NLST or MLSD: lists the named or the working directory.
    List(ListKind, Option<Name>),
    /// MLFL: sends mail to a user over a data connection.
    MailFile(Option<Name>),
    /// MAIL: sends mail to a user over the control connection; its lines end with LF or CR LF.
    Mail(Option<Name>, Vec<u8>),
    /// CWD: changes the working directory.
    ChangeDirectory(Name),
    /// CDUP: changes to the parent directory.
    Parent,
    /// PWD: queries the working directory, which is [`Reply::quoted_name`].
    WorkingDirectory,
    /// MKD: creates a directory.
    MakeDirectory(Name),
    /// RMD: removes a directory.
    RemoveDirectory(Name),
    /// DELE: deletes a file.
    Delete(Name),
    /// RNFR and RNTO: renames a file or directory.
    Rename {
        /// The old name.
        from: Name,
        /// The new name.
        to: Name,
    },
    /// SIZE in image type: queries the size of a file, which is [`Reply::number`].
    Size(Name),
    /// MDTM: queries the modification time, which is [`Reply::timestamp`].
    Modified(Name),
    /// MLST: queries the facts of a file or directory, which are [`Reply::entry`].
    Facts(Name),
    /// MFMT: sets the modification time.
    SetModified(Timestamp, Name),
    /// SITE CHMOD: sets the Unix mode bits.
    ChangeMode(u16, Name),
    /// HASH in image type: queries the hash of a file.
    Hash(Name),
    /// FEAT: queries the features of the server.
    Features,
    /// STAT: queries the status of the server, or lists a file or directory.
    Status(Option<Name>),
    /// SYST: queries the operating system, which is the first word of the reply (RFC 959 §5.4).
    System,
    /// NOOP: only requests a reply.
    Noop,
    /// Any other command that needs no data connection, sent unchanged.
    Quote(Name),
    /// QUIT: ends the session; no task may follow.
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
    /// Waiting for the server's greeting.
    Greeting,
    /// AUTH TLS: requests TLS.
    Auth,
    /// The TLS handshake on the control connection.
    Tls,
    /// PBSZ: sets the protection buffer size.
    ProtectionSize,
    /// PROT: sets the protection level of data connections.
    Protection,
    /// HOST: selects the virtual host.
    Host,
    /// USER: sends the user name.
    User,
    /// PASS: sends the password.
    Password,
    /// ACCT: sends the account.
    Account,
    /// FEAT: queries the features of the server.
    Features,
    /// OPTS UTF8 ON: selects UTF-8 names.
    Names,
    /// TYPE: sets the data type.
    Type,
    /// STRU: sets the file structure.
    Structure,
    /// MODE: sets the transmission mode.
    Mode,
    /// EPSV or PASV: requests a port of the server.
    Passive,
    /// Connecting to the server for data.
    DataConnect,
    /// Listening for a data connection from the server.
    Listen,
    /// EPRT or PORT: sends the address of the listener.
    Port,
    /// REST: sets the start offset.
    Restart,
    /// ALLO: announces the size of an upload.
    Allocate,
    /// PRET: announces the command before EPSV or PASV.
    Announce,
    /// EPSV or PASV for the next task, sent in advance.
    Spare,
    /// RNFR: sends the old name.
    RenameFrom,
    /// The command of the task itself.
    Command,
    /// The transfer of the data, and the wait for the final reply.
    Data,
    /// ABOR: aborts the transfer.
    Abort,
    /// NOOP after ABOR: matches replies to commands again.
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
    /// More data arrived than the file has, or than is allowed for a listing.
    Excess,
}

/// Reason why a task failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// The server sent a negative reply.
    Refused(Reply),
    /// A reply is invalid for the command.
    Malformed,
    /// The input is not an FTP reply; carries the beginning of the line.
    NotReply(Vec<u8>),
    /// No reply, or no data, arrived in time.
    Timeout,
    /// No data connection could be established.
    NoDataConnection,
    /// The transfer of the data failed.
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

/// Failure of a task: the step at which it failed and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Step that failed.
    pub step: Step,
    /// Reason for the failure.
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
                let is_login_step =
                    matches!(self.step, Step::Greeting | Step::User | Step::Password);
                let has_too_many_users = is_login_step && reply.reports_too_many_users();
                let is_transient_code = match reply.code.number() {
                    _ if reply.reports_full_disk() => false,
                    450 => !reply.reports_missing_file(),
                    _ => reply.severity() == Severity::TransientNegative,
                };
                has_too_many_users || is_transient_code
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
    fn reports_too_many_users(&self) -> bool {
        self.contains_any(&[b"too many", b"later", b"overload", b"limit", b"maximum"])
    }

    /// Returns whether the server has no disk space: code 452, or another code with a text about a
    /// lack of disk space.
    #[must_use]
    pub fn reports_full_disk(&self) -> bool {
        let words: [&[u8]; 5] =
            [b"no space", b"disk full", b"disk is full", b"quota", b"insufficient"];
        let is_file_error = matches!(self.code.number(), 426 | 450 | 451);
        self.code.number() == 452 || is_file_error && self.contains_any(&words)
    }

    /// Returns whether the reply reports a missing file or an empty directory. Some servers use
    /// code 450 for this.
    #[must_use]
    pub fn reports_missing_file(&self) -> bool {
        let is_file_error = matches!(self.code.number(), 450 | 550);
        is_file_error
            && self.contains_any(&[b"no such", b"not found", b"no files", b"does not exist"])
    }

    /// Returns whether the reply reports an empty directory. Some servers send such a reply instead
    /// of an empty listing.
    #[must_use]
    pub fn reports_empty_directory(&self) -> bool {
        matches!(self.code.number(), 450 | 550) && self.contains_any(&[b"no files"])
    }

    /// Returns whether the text contains one of these strings, which must be in lower case.
    #[must_use]
    pub fn contains_any(&self, words: &[&[u8]]) -> bool {
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
            FailureReason::Refused(reply) => write!(f, "the server replied {reply}"),
            FailureReason::Malformed => f.write_str("the reply is invalid"),
            FailureReason::NotReply(line) => {
                write!(f, "not an FTP reply: \"{}\"", line.escape_ascii())?;
                match line.as_slice() {
                    [b'S', b'S', b'H', b'-', ..] => f.write_str(" (an SSH server)"),
                    [b'H', b'T', b'T', b'P', b'/', ..] => f.write_str(" (a web server)"),
                    _ => Ok(()),
                }
            }
            FailureReason::Timeout => f.write_str("timed out waiting for the server"),
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
    /// The last reply of the task.
    pub reply: Reply,
    /// The preliminary reply, if there was one.
    pub preliminary: Option<Reply>,
    /// Number of bytes transferred on the data connection.
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
    /// The login is complete; queued tasks now run.
    LoggedIn,
    /// Open a data connection, always to the host of the control connection: answer with
    /// [`User::data_connected`](super::User::data_connected) or
    /// [`User::data_failed`](super::User::data_failed).
    ConnectData(SocketAddr),
    /// Listen for one data connection from the host of the control connection: answer with
    /// [`User::on_listening`](super::User::on_listening).
    ListenData(Family),
    /// Transfer the data of a task, with or without TLS: answer with
    /// [`User::data_ended`](super::User::data_ended).
    StartData(TaskId, Protection),
    /// Close the data connection and its listener.
    CloseData,
    /// The received file is invalid or incomplete: discard it.
    Discard(TaskId),
    /// The server has stored the data up to a restart marker that this end sent (reply 110). REST
    /// with the server's marker resumes the transfer at that position.
    MarkerReached {
        /// Restart marker of the local end.
        ours: u64,
        /// Restart marker of the server.
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
    use crate::ftp::reply::Code;
    use alloc::vec;

    fn is_transient_failure(code: u16, text: &str) -> bool {
        let reply = Reply { code: Code::new(code).unwrap(), lines: vec![text.as_bytes().to_vec()] };
        Failure { step: Step::Command, why: FailureReason::Refused(reply) }.is_transient()
    }

    #[test]
    fn only_transient_failures_may_be_retried() {
        let transient_results =
            [421, 425, 426, 450, 451].map(|code| is_transient_failure(code, "later"));
        assert_eq!(transient_results, [true; 5]);
        let permanent_codes = [500, 501, 502, 503, 504, 530, 532, 550, 551, 552, 553];
        assert!(!permanent_codes.iter().any(|code| is_transient_failure(*code, "no")));
    }

    #[test]
    fn a_line_that_is_not_a_reply_is_quoted_with_its_protocol() {
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
    fn a_request_is_not_retried_if_the_server_has_no_disk_space() {
        assert!(!is_transient_failure(452, "No"));
        for code in [426, 450, 451] {
            assert!(
                !is_transient_failure(code, "x: No space left on device")
                    && is_transient_failure(code, "Failure")
            );
        }
    }

    #[test]
    fn a_file_missing_by_reply_450_is_not_requested_again() {
        assert!(is_transient_failure(450, "Busy") && !is_transient_failure(450, "No files found"));
    }

    #[test]
    fn an_empty_directory_is_reported_by_a_negative_reply_about_files() {
        let reports = |code, text: &str| {
            let code = Code::new(code).unwrap();
            Reply { code, lines: vec![text.as_bytes().to_vec()] }.reports_empty_directory()
        };
        assert!(reports(450, "No files found") && reports(550, "no files"));
        assert!(!reports(226, "No files found") && !reports(550, "No such directory"));
    }
}
