//! Errors of FTP operations, and their messages.

use crate::carry::Refusal;
use crate::exit;
use crate::files::tftp::is_full;
use crate::transfer_recorder::local_outcome;
use protocols::application::ftp::Severity;
use protocols::application::ftp::user::{DataFailure, Failure, Step, Why};
use records::transfer::Outcome;
use std::io;

/// Error of an FTP operation. A `String` is the whole message.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The host name has no address.
    NoAddress(String),
    /// There is no control connection.
    NoConnection(String),
    /// Nothing listens at the address, or there is no such file.
    NotThere(String),
    /// The path of the requested file names a directory.
    IsFolder(String),
    /// TLS failed.
    Tls(Refusal),
    /// TLS failed although the server has just agreed to it (AUTH, RFC 4217 §4). Some servers read
    /// its first bytes as a command if they arrive early.
    TlsAgreed(Refusal),
    /// A step of the protocol failed.
    Step {
        /// Operation that failed: `cannot download 'name'`.
        wanted: String,
        /// Failure that the engine reports.
        failure: Failure,
        /// Error of the local end.
        error: Option<io::Error>,
    },
    /// Error of the local system.
    Ours(anyhow::Error),
    /// The request is invalid.
    Wrong(String),
    /// The local and the remote file differ.
    Differs(String),
    /// Everything that could be transferred was, but something was left out.
    LeftOut(String),
    /// The remote file is not the beginning of the local one.
    Mismatch(String),
    /// The user answered no to a question.
    Declined,
    /// The user ended the operation.
    Stopped,
}

impl Trouble {
    /// Returns whether another attempt may succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Step { failure, .. } => failure.is_transient(),
            Self::NoConnection(_) | Self::Differs(_) | Self::TlsAgreed(_) => true,
            Self::Tls(Refusal::Silent(_) | Refusal::Closed) => true,
            Self::NoAddress(_) | Self::NotThere(_) | Self::IsFolder(_) => false,
            Self::Mismatch(_) | Self::Declined => false,
            Self::Tls(_) | Self::Ours(_) | Self::Wrong(_) | Self::LeftOut(_) | Self::Stopped => {
                false
            }
        }
    }

    /// Returns whether the server reports insufficient storage (RFC 959 §4.2.2).
    pub(super) fn is_without_room(&self) -> bool {
        let Self::Step { failure: Failure { why: Why::Refused(reply), .. }, .. } = self else {
            return false;
        };
        reply.tells_of_no_room()
    }

    /// Returns whether the server reports that a directory has no files.
    pub(super) fn is_empty_folder(&self) -> bool {
        let Self::Step { failure: Failure { why: Why::Refused(reply), .. }, .. } = self else {
            return false;
        };
        reply.tells_of_no_files()
    }

    /// Returns whether this error of one file ends all files of a batch.
    pub(super) const fn ends_all(&self) -> bool {
        matches!(self, Self::Stopped | Self::Declined | Self::Tls(_) | Self::TlsAgreed(_))
    }

    /// Returns whether the reader of the standard output has closed it. That needs no message.
    pub(super) fn is_unread(&self) -> bool {
        let is_broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        match self {
            Self::Ours(error) => {
                error.chain().filter_map(|cause| cause.downcast_ref()).any(is_broken)
            }
            Self::Step { failure, error: Some(error), .. } => {
                failure.why == Why::Data(DataFailure::File) && is_broken(error)
            }
            _ => false,
        }
    }

    /// Returns whether the server refused the operation.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Step { failure: Failure { why: Why::Refused(_), .. }, .. })
    }

    /// Returns whether no data connection was established, or not in time.
    pub(super) fn is_without_data_connection(&self) -> bool {
        matches!(
            self,
            Self::Step { failure: Failure { why: Why::NoDataConnection | Why::Timeout, .. }, .. }
        )
    }

    /// Returns whether the server does not know or not implement the command.
    pub(super) fn is_unknown_command(&self) -> bool {
        let Self::Step { failure: Failure { why: Why::Refused(reply), .. }, .. } = self else {
            return false;
        };
        matches!(reply.code.number(), 500 | 502 | 504)
    }

    /// Returns whether the command itself was refused permanently, and not for insufficient
    /// storage.
    pub(super) fn is_refused_command(&self) -> bool {
        let Self::Step { failure: Failure { step, why: Why::Refused(reply) }, .. } = self else {
            return false;
        };
        let is_for_good = reply.severity() == Severity::PermanentNegative;
        *step == Step::Command && is_for_good && reply.code.number() != 552
    }

    /// Returns whether the server cannot restart within a file.
    pub(super) fn is_restart(&self) -> bool {
        let Self::Step { failure: Failure { step, why }, .. } = self else { return false };
        let is_longer = matches!(why, Why::Long { .. } | Why::Data(DataFailure::Excess));
        *step == Step::Restart && (is_longer || matches!(why, Why::Refused(_)))
    }

    /// Returns whether more bytes of a file arrived than the server had reported.
    pub(super) fn is_excess(&self) -> bool {
        let Self::Step { failure: Failure { step, why }, .. } = self else { return false };
        *step != Step::Restart && *why == Why::Data(DataFailure::Excess)
    }

    /// Returns the outcome for the record.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::NoAddress(_) | Self::NoConnection(_) | Self::NotThere(_) => {
                Outcome::AbortedByPeer
            }
            Self::Step { failure, error, .. } => match &failure.why {
                Why::Refused(reply) => match reply.code.number() {
                    552 => Outcome::Quota,
                    _ if reply.tells_of_no_room() => Outcome::Disk,
                    426 => Outcome::AbortedByPeer,
                    450 | 530 | 532 | 550 | 551 | 553 | 554 => Outcome::Refused,
                    _ => Outcome::Protocol,
                },
                Why::ControlLost => Outcome::AbortedByPeer,
                Why::Timeout | Why::NoDataConnection => Outcome::Timeout,
                Why::Aborted => Outcome::AbortedByUser,
                Why::Data(DataFailure::File) => {
                    error.as_ref().map_or(Outcome::Local, local_outcome)
                }
                Why::Data(DataFailure::ConnectionLost) => Outcome::AbortedByPeer,
                Why::NotReply(_) => Outcome::Protocol,
                Why::Data(_) | Why::Malformed | Why::Short { .. } | Why::Long { .. } | Why::Tls => {
                    Outcome::Protocol
                }
            },
            Self::Tls(_) | Self::TlsAgreed(_) | Self::Differs(_) | Self::IsFolder(_) => {
                Outcome::Protocol
            }
            Self::Mismatch(_) => Outcome::Refused,
            Self::Ours(_) | Self::Wrong(_) | Self::LeftOut(_) => Outcome::Local,
            Self::Stopped | Self::Declined => Outcome::AbortedByUser,
        }
    }

    /// Returns the failure class, which selects the exit code.
    pub(super) fn failure(&self) -> exit::Failure {
        match self {
            Self::Ours(_) => exit::Failure::ThisMachine,
            Self::Step { failure, .. } if failure.why == Why::Data(DataFailure::File) => {
                exit::Failure::ThisMachine
            }
            Self::Wrong(_) => exit::Failure::WrongArguments,
            Self::Stopped | Self::Declined => exit::Failure::NothingMeasured,
            _ => exit::Failure::FarSide,
        }
    }

    /// Returns the message, which names the failed step.
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::NoAddress(sentence)
            | Self::NoConnection(sentence)
            | Self::NotThere(sentence)
            | Self::IsFolder(sentence)
            | Self::Wrong(sentence)
            | Self::LeftOut(sentence)
            | Self::Mismatch(sentence)
            | Self::Differs(sentence) => sentence.clone(),
            Self::Tls(refusal) | Self::TlsAgreed(refusal) => refusal.to_string(),
            Self::Ours(error) => format!("{error:#}"),
            Self::Stopped => "interrupted".to_owned(),
            Self::Declined => "nothing was changed".to_owned(),
            Self::Step { wanted, failure, error } => match (&failure.step, error) {
                (_, Some(error)) if is_full(error) => {
                    format!("{wanted}: the disk is full: make room, and try again")
                }
                // If the server refused, its reply is the cause of the local error.
                (_, Some(error)) if !self.is_refusal() => format!("{wanted}: {failure}: {error}"),
                (Step::Command, _) => format!("{wanted}: {}", reason(failure)),
                _ => format!("{wanted}: {failure}"),
            },
        }
    }
}

fn reason(failure: &Failure) -> String {
    let text = failure.to_string();
    let text = text.strip_prefix("command: ").unwrap_or(&text);
    text.to_owned()
}

impl From<anyhow::Error> for Trouble {
    fn from(error: anyhow::Error) -> Self {
        Self::Ours(error)
    }
}
