//! Errors of TFTP transfers, and their messages.

use super::transfer_stats::TftpTransferStats;
use crate::FailureClass;
use crate::escaped;
use crate::local::is_out_of_space;
use crate::recorder::local_outcome;
use protocols::tftp::{Direction, ErrorCode, Failure, Fault};
use records::format::count;
use records::transfer::Outcome;
use std::io;

/// Error of a TFTP transfer.
#[derive(Debug)]
pub enum TftpError {
    /// The peer refused the request or aborted the transfer with this error code and text.
    Refused(ErrorCode, Vec<u8>),
    /// The peer never answered.
    NoAnswer {
        /// Duration of the wait, in seconds.
        seconds: u64,
    },
    /// The peer stopped answering during the transfer.
    Silence {
        /// Duration of the wait, in seconds.
        seconds: u64,
    },
    /// The network or the host reports that the port is unreachable.
    Unreachable(io::Error),
    /// The peer sent more bytes than its announced file size.
    TooLong {
        /// Announced number of bytes.
        announced_bytes: u64,
    },
    /// The peer sent fewer bytes than its announced file size.
    TooShort {
        /// Announced number of bytes.
        announced_bytes: u64,
    },
    /// The peer violates the protocol or the agreed options.
    Protocol(&'static str),
    /// The local file, device or pipe fails.
    Local(io::Error),
    /// The local host cannot send datagrams to the peer.
    Network(io::Error),
    /// The user or a signal ended the transfer.
    Stopped,
}

impl TftpError {
    /// Converts the failure that a TFTP engine reports after `seconds` without an answer.
    pub fn of(failure: Failure, seconds: u64) -> Self {
        match failure {
            Failure::Refused(code, text) => Self::Refused(code, text),
            Failure::Aborted(Fault { text, .. }) => Self::Protocol(text),
            Failure::NoAnswer => Self::NoAnswer { seconds },
            Failure::Silence => Self::Silence { seconds },
        }
    }

    /// Returns whether a transfer with another address of the host may succeed.
    pub fn is_address_specific(&self) -> bool {
        matches!(self, Self::NoAnswer { .. } | Self::Unreachable(_) | Self::Network(_))
    }

    /// Returns the outcome for the record.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Refused(ErrorCode::DiskFull, _) => Outcome::Disk,
            Self::Refused(
                ErrorCode::FileNotFound
                | ErrorCode::AccessViolation
                | ErrorCode::FileExists
                | ErrorCode::NoSuchUser,
                _,
            ) => Outcome::Refused,
            Self::Refused(..)
            | Self::TooShort { .. }
            | Self::TooLong { .. }
            | Self::Protocol(_) => Outcome::Protocol,
            Self::Unreachable(_) => Outcome::AbortedByPeer,
            Self::NoAnswer { .. } | Self::Silence { .. } => Outcome::Timeout,
            Self::Local(error) => local_outcome(error),
            Self::Network(_) => Outcome::Local,
            Self::Stopped => Outcome::AbortedByUser,
        }
    }

    /// Returns the failure class, which selects the exit code.
    pub fn failure(&self) -> FailureClass {
        match self {
            Self::Local(_) | Self::Network(_) => FailureClass::ThisMachine,
            Self::Stopped => FailureClass::Interrupted,
            _ => FailureClass::RemoteHost,
        }
    }

    /// Returns the message: which step of the transfer failed, and the remedy.
    pub fn sentence(&self, stats: &TftpTransferStats, name: &[u8]) -> String {
        let peer = stats.remote;
        let name = escaped(name);
        let progress = format!("after {} bytes of '{name}'", count(stats.file_bytes));
        match self {
            Self::Refused(code, text) => refusal_message(*code, text, stats, &name.to_string()),
            Self::NoAnswer { seconds } => format!(
                "{peer} did not answer the request for '{name}' within {seconds} s: check \
                    that a TFTP server runs there and that no firewall blocks it, or wait longer \
                     with --timeout"
            ),
            Self::Silence { seconds } => format!(
                "{peer} sent nothing for {seconds} s {progress}: check that it is up, and try again"
            ),
            Self::Unreachable(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                match stats.agreed {
                    None => format!(
                        "no TFTP server at {peer}: check the port, and that a server runs there"
                    ),
                    Some(_) => format!("{peer} closed its port {progress}: try again"),
                }
            }
            Self::Unreachable(error) => {
                format!("no route to {peer}: check the address and your routes: {error}")
            }
            Self::TooLong { announced_bytes } => format!(
                "{peer} sent more than the announced {} bytes: the file was discarded",
                count(*announced_bytes)
            ),
            Self::TooShort { announced_bytes } => format!(
                "{peer} ended the transfer {progress}, but announced {} bytes: the file was \
                 discarded; try again",
                count(*announced_bytes)
            ),
            Self::Protocol(why) => format!("{peer} violated the protocol: {why}"),
            Self::Local(error) => match is_out_of_space(error) {
                true => format!("the disk is full {progress}: free some space, and try again"),
                false => format!("local error {progress}: {error}"),
            },
            Self::Network(error) => format!("cannot send to {peer}: {error}"),
            Self::Stopped => format!("interrupted {progress}"),
        }
    }
}

/// Maximum number of printed bytes of the text of an ERROR packet.
const TEXT_MAX_LEN: usize = 400;

/// Returns the message for an ERROR packet of the peer.
fn refusal_message(code: ErrorCode, text: &[u8], stats: &TftpTransferStats, name: &str) -> String {
    let peer = stats.remote;
    let why = match (code, stats.direction) {
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
            Some(start) => format!("{why}: it replied '{}...'", escaped(start)),
            None => format!("{why}: it replied '{}'", escaped(text)),
        },
    }
}
