//! Why a transfer has failed, and the sentence that says so.

use super::transfer::Facts;
use crate::exit;
use crate::files::shown::shown;
use crate::transfers::local_outcome;
use protocols::application::tftp::{Direction, ErrorCode, Failure, Fault};
use records::figures::count;
use records::transfer::Outcome;
use std::io;

/// Why a transfer has failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The far side refused, before or in the middle, with these words.
    Refused(ErrorCode, Vec<u8>),
    /// It never answered.
    NoAnswer {
        /// For how long it was waited for.
        seconds: u64,
    },
    /// It answers no more.
    Silence {
        /// For how long it was waited for.
        seconds: u64,
    },
    /// The network, or its host, says that the port does not answer.
    Unreachable(io::Error),
    /// It has sent more bytes than it has told of.
    Long {
        /// What it told of.
        told: u64,
    },
    /// It has told of more bytes than it has sent.
    Short {
        /// What it told of.
        told: u64,
    },
    /// What it sends is not TFTP as agreed.
    Protocol(&'static str),
    /// Our end of the file fails.
    Local(io::Error),
    /// Our network fails.
    Network(io::Error),
    /// Somebody here has ended it.
    Stopped,
}

impl Trouble {
    /// Makes it of what an engine says.
    pub(super) fn of(failure: Failure, seconds: u64) -> Self {
        match failure {
            Failure::Refused(code, text) => Self::Refused(code, text),
            Failure::Aborted(Fault { text, .. }) => Self::Protocol(text),
            Failure::NoAnswer => Self::NoAnswer { seconds },
            Failure::Silence => Self::Silence { seconds },
        }
    }

    /// Returns whether it is worth while to ask another address of the host.
    pub(crate) fn is_of_the_address(&self) -> bool {
        matches!(self, Self::NoAnswer { .. } | Self::Unreachable(_) | Self::Network(_))
    }

    /// Returns the word of the record for it.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Refused(ErrorCode::DiskFull, _) => Outcome::Disk,
            Self::Refused(
                ErrorCode::FileNotFound
                | ErrorCode::AccessViolation
                | ErrorCode::FileExists
                | ErrorCode::NoSuchUser,
                _,
            ) => Outcome::Refused,
            Self::Refused(..) | Self::Short { .. } | Self::Long { .. } | Self::Protocol(_) => {
                Outcome::Protocol
            }
            Self::Unreachable(_) => Outcome::AbortedByPeer,
            Self::NoAnswer { .. } | Self::Silence { .. } => Outcome::Timeout,
            Self::Local(error) => local_outcome(error),
            Self::Network(_) => Outcome::Local,
            Self::Stopped => Outcome::AbortedByUser,
        }
    }

    /// Returns what the command's exit code is to tell.
    pub(crate) fn failure(&self) -> exit::Failure {
        match self {
            Self::Local(_) | Self::Network(_) => exit::Failure::ThisMachine,
            Self::Stopped => exit::Failure::NothingMeasured,
            _ => exit::Failure::FarSide,
        }
    }

    /// Returns the sentence that says which step of the transfer failed, and what to do.
    pub(crate) fn sentence(&self, facts: &Facts, name: &[u8]) -> String {
        let (peer, name) = (facts.remote, shown(name));
        let so_far = format!("after {} bytes of '{name}'", count(facts.file_bytes));
        match self {
            Self::Refused(code, text) => refused(*code, text, facts, &name.to_string()),
            Self::NoAnswer { seconds } => format!(
                "{peer} did not answer the request for '{name}' within {seconds} s: check that a \
                 TFTP server runs there and that no firewall stands between, or wait longer with \
                 --timeout"
            ),
            Self::Silence { seconds } => format!(
                "{peer} fell silent {so_far}, for {seconds} s: check that it is up, and try again"
            ),
            Self::Unreachable(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                match facts.agreed {
                    None => format!(
                        "nobody serves TFTP at {peer}: check the port, and that a server runs there"
                    ),
                    Some(_) => format!("the program at {peer} has gone {so_far}: try again"),
                }
            }
            Self::Unreachable(error) => {
                format!("there is no way to {peer}: check the address and your routes: {error}")
            }
            Self::Long { told } => format!(
                "{peer} sent more than the {} bytes that it told of: nothing was kept",
                count(*told)
            ),
            Self::Short { told } => format!(
                "{peer} ended {so_far}, of which it told {}: try again; nothing was kept",
                count(*told)
            ),
            Self::Protocol(why) => format!("{peer} does not keep to what was agreed: {why}"),
            Self::Local(error) => match is_full(error) {
                true => format!("the disk is full {so_far}: make room, and try again"),
                false => format!("our end of '{name}' fails {so_far}: {error}"),
            },
            Self::Network(error) => format!("nothing can be sent to {peer}: {error}"),
            Self::Stopped => format!("interrupted {so_far}"),
        }
    }
}

/// The most of the text of an ERROR packet that is shown, bytes.
const TEXT_MAX_LEN: usize = 400;

/// Returns the sentence for an ERROR of the far side.
fn refused(code: ErrorCode, text: &[u8], facts: &Facts, name: &str) -> String {
    let peer = facts.remote;
    let why = match (code, facts.direction) {
        (ErrorCode::FileNotFound, Direction::Read) => format!("{peer} has no file '{name}'"),
        (ErrorCode::FileNotFound, Direction::Write) => {
            format!("{peer} has no file '{name}' that may be written")
        }
        (ErrorCode::AccessViolation, Direction::Read) => format!("{peer} does not give '{name}'"),
        (ErrorCode::AccessViolation, Direction::Write) => format!("{peer} does not take '{name}'"),
        (ErrorCode::DiskFull, _) => format!("{peer} has no room for '{name}'"),
        (ErrorCode::FileExists, _) => format!("{peer} has a file '{name}' already and keeps it"),
        _ => format!("{peer} ends the transfer of '{name}'"),
    };
    match text.trim_ascii() {
        [] => why,
        // What comes from afar must not speak to the terminal.
        text => match text.get(..TEXT_MAX_LEN) {
            Some(start) => format!("{why}: it says '{}...'", shown(start)),
            None => format!("{why}: it says '{}'", shown(text)),
        },
    }
}

/// Returns whether an error is want of room on a disk.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
