//! Why something with files on another host has failed, and the sentence that says so.

use crate::carry::Refusal;
use crate::exit;
use crate::files::tftp::is_full;
use crate::transfers::local_outcome;
use protocols::application::ftp::Severity;
use protocols::application::ftp::user::{DataFailure, Failure, Step, Why};
use records::transfer::Outcome;
use std::io;

/// Why something has failed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The name has no address, in a sentence.
    NoAddress(String),
    /// There is no control connection, in a sentence.
    NoConnection(String),
    /// The host has none who listens there, or no such file, in a sentence.
    NotThere(String),
    /// What was to be had as a file is a folder, in a sentence.
    IsFolder(String),
    /// There is no TLS.
    Tls(Refusal),
    /// There is no TLS, though the server has just agreed to it (AUTH, RFC 4217 §4): some read
    /// the first bytes of it as a command, if they come early.
    TlsAgreed(Refusal),
    /// A step of the protocol failed, on the way to what was wanted.
    Step {
        /// What was wanted: `get 'name'`.
        wanted: String,
        /// What the engine says.
        failure: Failure,
        /// What the system says of our end.
        error: Option<io::Error>,
    },
    /// This machine.
    Ours(anyhow::Error),
    /// What was asked for makes no sense, in a sentence.
    Wrong(String),
    /// What came is not what is there, in a sentence.
    Differs(String),
    /// All that could be moved was, and something could not, in a sentence.
    LeftOut(String),
    /// What is on the server is not the beginning of the file here, in a sentence.
    Mismatch(String),
    /// The answer to a question was no.
    Declined,
    /// Somebody here has ended it.
    Stopped,
}

impl Trouble {
    /// Returns whether the same may succeed a little later.
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

    /// Returns whether the server has no room (RFC 959 §4.2.2).
    pub(super) fn is_without_room(&self) -> bool {
        let Self::Step { failure: Failure { why: Why::Refused(reply), .. }, .. } = self else {
            return false;
        };
        reply.tells_of_no_room()
    }

    /// Returns whether the server says of a folder that there are no files in it.
    pub(super) fn is_empty_folder(&self) -> bool {
        let Self::Step { failure: Failure { why: Why::Refused(reply), .. }, .. } = self else {
            return false;
        };
        reply.tells_of_no_files()
    }

    /// Returns whether what ends one of many files ends all of them.
    pub(super) const fn ends_all(&self) -> bool {
        matches!(self, Self::Stopped | Self::Declined | Self::Tls(_) | Self::TlsAgreed(_))
    }

    /// Returns whether nobody reads any more what is written to the standard output: he has seen
    /// enough, and needs no sentence about it.
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

    /// Returns whether the server says that there is no such thing, or that it has no such command.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Step { failure: Failure { why: Why::Refused(_), .. }, .. })
    }

    /// Returns whether no data connection came about, or not in time.
    pub(super) fn is_without_data_connection(&self) -> bool {
        matches!(
            self,
            Self::Step { failure: Failure { why: Why::NoDataConnection | Why::Timeout, .. }, .. }
        )
    }

    /// Returns whether the server does not know the command, or does not do it.
    pub(super) fn is_unknown_command(&self) -> bool {
        let Self::Step { failure: Failure { why: Why::Refused(reply), .. }, .. } = self else {
            return false;
        };
        matches!(reply.code.number(), 500 | 502 | 504)
    }

    /// Returns whether the command itself was refused for good, and not for want of room.
    pub(super) fn is_refused_command(&self) -> bool {
        let Self::Step { failure: Failure { step, why: Why::Refused(reply) }, .. } = self else {
            return false;
        };
        let is_for_good = reply.severity() == Severity::PermanentNegative;
        *step == Step::Command && is_for_good && reply.code.number() != 552
    }

    /// Returns whether the server cannot begin within a file.
    pub(super) fn is_restart(&self) -> bool {
        let Self::Step { failure: Failure { step, why }, .. } = self else { return false };
        let is_longer = matches!(why, Why::Long { .. } | Why::Data(DataFailure::Excess));
        *step == Step::Restart && (is_longer || matches!(why, Why::Refused(_)))
    }

    /// Returns whether a file brought more than the server had reported.
    pub(super) fn is_excess(&self) -> bool {
        let Self::Step { failure: Failure { step, why }, .. } = self else { return false };
        *step != Step::Restart && *why == Why::Data(DataFailure::Excess)
    }

    /// Returns the word of the record for it.
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

    /// Returns what the exit code is to tell.
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

    /// Returns the sentence that says which step failed.
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
                    format!("{wanted} failed: the disk is full: make room, and try again")
                }
                // What the server says is the cause of what happens here.
                (_, Some(error)) if !self.is_refusal() => {
                    format!("{wanted} failed at {failure}: {error}")
                }
                (Step::Command, _) => format!("{wanted} failed: {}", reason(failure)),
                _ => format!("{wanted} failed at {failure}"),
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
