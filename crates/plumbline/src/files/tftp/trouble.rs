//! Errors of TFTP transfers, and their messages.

use super::transfer::Facts;
use crate::exit;
use crate::files::shown::shown;
use crate::transfer_recorder::local_outcome;
use protocols::application::tftp::{Direction, ErrorCode, Failure, Fault};
use records::figures::count;
use records::transfer::Outcome;
use std::io;

/// Error of a TFTP transfer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The peer refused the request or ended the transfer, with this code and text.
    Refused(ErrorCode, Vec<u8>),
    /// The peer never answered.
    NoAnswer {
        /// Duration of the wait, in seconds.
        seconds: u64,
    },
    /// The peer does not answer any more.
    Silence {
        /// Duration of the wait, in seconds.
        seconds: u64,
    },
    /// The network or the host reports that the port is unreachable.
    Unreachable(io::Error),
    /// The peer sent more bytes than it had announced.
    Long {
        /// Announced number of bytes.
        told: u64,
    },
    /// The peer sent fewer bytes than it had announced.
    Short {
        /// Announced number of bytes.
        told: u64,
    },
    /// The peer violates the protocol or the agreed options.
    Protocol(&'static str),
    /// The local end of the file fails.
    Local(io::Error),
    /// The local network fails.
    Network(io::Error),
    /// The user or a signal ended the transfer.
    Stopped,
}

impl Trouble {
    /// Converts the failure that an engine reports.
    pub(super) fn of(failure: Failure, seconds: u64) -> Self {
        match failure {
            Failure::Refused(code, text) => Self::Refused(code, text),
            Failure::Aborted(Fault { text, .. }) => Self::Protocol(text),
            Failure::NoAnswer => Self::NoAnswer { seconds },
            Failure::Silence => Self::Silence { seconds },
        }
    }

    /// Returns whether another address of the host may succeed.
    pub(crate) fn is_of_the_address(&self) -> bool {
        matches!(self, Self::NoAnswer { .. } | Self::Unreachable(_) | Self::Network(_))
    }

    /// Returns the outcome for the record.
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

    /// Returns the failure class, which selects the exit code.
    pub(crate) fn failure(&self) -> exit::Failure {
        match self {
            Self::Local(_) | Self::Network(_) => exit::Failure::ThisMachine,
            Self::Stopped => exit::Failure::NothingMeasured,
            _ => exit::Failure::FarSide,
        }
    }

    /// Returns the message: which step of the transfer failed, and the remedy.
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
                "{peer} sent nothing for {seconds} s {so_far}: check that it is up, and try again"
            ),
            Self::Unreachable(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                match facts.agreed {
                    None => format!(
                        "no TFTP server at {peer}: check the port, and that a server runs there"
                    ),
                    Some(_) => format!("{peer} closed its port {so_far}: try again"),
                }
            }
            Self::Unreachable(error) => {
                format!("no route to {peer}: check the address and your routes: {error}")
            }
            Self::Long { told } => format!(
                "{peer} sent more than the announced {} bytes: the file was discarded",
                count(*told)
            ),
            Self::Short { told } => format!(
                "{peer} ended {so_far}, but announced {}: the file was discarded; try again",
                count(*told)
            ),
            Self::Protocol(why) => format!("{peer} violated the protocol: {why}"),
            Self::Local(error) => match is_full(error) {
                true => format!("the disk is full {so_far}: make room, and try again"),
                false => format!("local error {so_far}: {error}"),
            },
            Self::Network(error) => format!("cannot send to {peer}: {error}"),
            Self::Stopped => format!("interrupted {so_far}"),
        }
    }
}

/// Maximum number of bytes of the text of an ERROR packet that are printed.
const TEXT_MAX_LEN: usize = 400;

/// Returns the message for an ERROR packet of the peer.
fn refused(code: ErrorCode, text: &[u8], facts: &Facts, name: &str) -> String {
    let peer = facts.remote;
    let why = match (code, facts.direction) {
        (ErrorCode::FileNotFound, Direction::Read) => format!("{peer} has no file '{name}'"),
        (ErrorCode::FileNotFound, Direction::Write) => {
            format!("{peer} has no writable file '{name}'")
        }
        (ErrorCode::AccessViolation, Direction::Read) => {
            format!("{peer} refuses to send '{name}'")
        }
        (ErrorCode::AccessViolation, Direction::Write) => format!("{peer} rejects '{name}'"),
        (ErrorCode::DiskFull, _) => format!("{peer} has no space for '{name}'"),
        (ErrorCode::FileExists, _) => format!("{peer} already has '{name}' and keeps it"),
        _ => format!("{peer} aborted the transfer of '{name}'"),
    };
    match text.trim_ascii() {
        [] => why,
        // Text from the peer must not control the terminal.
        text => match text.get(..TEXT_MAX_LEN) {
            Some(start) => format!("{why}: it replied '{}...'", shown(start)),
            None => format!("{why}: it replied '{}'", shown(text)),
        },
    }
}

/// Returns whether an error is a lack of disk space.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
