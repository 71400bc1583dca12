//! Errors of FTP operations, and their messages.

use crate::FailureClass;
use crate::local::is_out_of_space;
use crate::recorder::local_outcome;
use carrier::TlsFailure;
use protocols::ftp::Severity;
use protocols::ftp::user::{DataFailure, Failure, FailureReason, Step};
use records::transfer::Outcome;
use std::io::{self, ErrorKind};

/// Error of an FTP operation. A `String` is the whole message.
#[derive(Debug)]
pub enum FtpError {
    /// The host name has no address.
    NoAddress(String),
    /// The control connection could not be established or was lost.
    NoConnection(String),
    /// No program listens at the address, or the file does not exist.
    NotFound(String),
    /// The path of the requested file names a directory.
    IsDirectory(String),
    /// TLS failed.
    Tls(TlsFailure),
    /// TLS failed although the server has just agreed to it (AUTH, RFC 4217 §4). Some servers read
    /// the first bytes of the handshake as a command if these bytes arrive early.
    TlsAgreed(TlsFailure),
    /// A step of the protocol failed.
    Step {
        /// Operation that failed: `cannot download 'name'`.
        context: String,
        /// Failure that the engine reports.
        failure: Failure,
        /// Error of the local end.
        error: Option<io::Error>,
    },
    /// Error of the local system.
    Local(anyhow::Error),
    /// The request is invalid.
    InvalidRequest(String),
    /// A file of that name exists, and is not to be replaced.
    Exists(String),
    /// Some files of several failed, and the error of each was reported.
    Several {
        /// The message.
        sentence: String,
        /// Class of the first error.
        class: FailureClass,
    },
    /// The local and the remote file differ.
    Differs(String),
    /// All possible transfers or removals succeeded, but some names were left out.
    LeftOut(String),
    /// The remote file is not the beginning of the local file.
    Mismatch(String),
    /// The user answered no to a question.
    Declined,
    /// The user ended the operation.
    Stopped,
}

impl FtpError {
    /// Returns whether another attempt may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Step { failure, .. } => failure.is_transient(),
            Self::NoConnection(_) | Self::Differs(_) | Self::TlsAgreed(_) => true,
            Self::Tls(TlsFailure::HandshakeTimeout(_) | TlsFailure::Closed) => true,
            Self::NoAddress(_) | Self::NotFound(_) | Self::IsDirectory(_) => false,
            Self::Mismatch(_) | Self::Declined => false,
            Self::Tls(_)
            | Self::Local(_)
            | Self::InvalidRequest(_)
            | Self::Exists(_)
            | Self::Several { .. }
            | Self::LeftOut(_)
            | Self::Stopped => false,
        }
    }

    /// Returns whether the server has sent no greeting in time.
    pub(crate) fn is_missing_greeting(&self) -> bool {
        let Self::Step { failure, .. } = self else { return false };
        matches!((&failure.step, &failure.why), (Step::Greeting, FailureReason::Timeout))
    }

    /// Returns whether the server reports insufficient storage (RFC 959 §4.2.2).
    pub fn is_insufficient_storage(&self) -> bool {
        let Self::Step { failure: Failure { why: FailureReason::Refused(reply), .. }, .. } = self
        else {
            return false;
        };
        reply.reports_full_disk()
    }

    /// Returns whether the server reports that a directory has no files.
    pub fn is_empty_directory(&self) -> bool {
        let Self::Step { failure: Failure { why: FailureReason::Refused(reply), .. }, .. } = self
        else {
            return false;
        };
        reply.reports_empty_directory()
    }

    /// Returns whether this error of one transfer ends all transfers of a batch.
    pub const fn ends_all(&self) -> bool {
        matches!(self, Self::Stopped | Self::Declined | Self::Tls(_) | Self::TlsAgreed(_))
    }

    /// Returns whether the reader of the standard output has closed the pipe. That error needs no
    /// message.
    pub fn is_closed_stdout(&self) -> bool {
        let is_broken = |error: &io::Error| error.kind() == ErrorKind::BrokenPipe;
        match self {
            Self::Local(error) => {
                error.chain().filter_map(|cause| cause.downcast_ref()).any(is_broken)
            }
            Self::Step { failure, error: Some(error), .. } => {
                failure.why == FailureReason::Data(DataFailure::File) && is_broken(error)
            }
            _ => false,
        }
    }

    /// Returns whether the server refused the operation.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Step { failure: Failure { why: FailureReason::Refused(_), .. }, .. })
    }

    /// Returns whether the data connection failed to open or the task timed out.
    pub fn is_without_data_connection(&self) -> bool {
        matches!(
            self,
            Self::Step {
                failure: Failure {
                    why: FailureReason::NoDataConnection | FailureReason::Timeout,
                    ..
                },
                ..
            }
        )
    }

    /// Returns whether the server does not know the command or does not implement it.
    pub fn is_unknown_command(&self) -> bool {
        let Self::Step { failure: Failure { why: FailureReason::Refused(reply), .. }, .. } = self
        else {
            return false;
        };
        matches!(reply.code.number(), 500 | 502 | 504)
    }

    /// Returns whether the server refused the command itself permanently, for a reason other than
    /// insufficient storage.
    pub fn is_refused_command(&self) -> bool {
        let Self::Step { failure: Failure { step, why: FailureReason::Refused(reply) }, .. } = self
        else {
            return false;
        };
        let is_permanent = reply.severity() == Severity::PermanentNegative;
        *step == Step::Command && is_permanent && reply.code.number() != 552
    }

    /// Returns whether the server cannot restart within a file.
    pub fn denies_restart(&self) -> bool {
        let Self::Step { failure: Failure { step, why }, .. } = self else { return false };
        let is_longer =
            matches!(why, FailureReason::Long { .. } | FailureReason::Data(DataFailure::Excess));
        *step == Step::Restart && (is_longer || matches!(why, FailureReason::Refused(_)))
    }

    /// Returns whether more bytes of a file arrived than the server had reported.
    pub fn is_size_exceeded(&self) -> bool {
        let Self::Step { failure: Failure { step, why }, .. } = self else { return false };
        *step != Step::Restart && *why == FailureReason::Data(DataFailure::Excess)
    }

    /// Returns the outcome for the record.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::NoAddress(_) | Self::NoConnection(_) | Self::NotFound(_) => {
                Outcome::AbortedByPeer
            }
            Self::Step { failure, error, .. } => match &failure.why {
                FailureReason::Refused(reply) => match reply.code.number() {
                    552 => Outcome::Quota,
                    _ if reply.reports_full_disk() => Outcome::Disk,
                    426 => Outcome::AbortedByPeer,
                    450 | 530 | 532 | 550 | 551 | 553 | 554 => Outcome::Refused,
                    _ => Outcome::Protocol,
                },
                FailureReason::ControlLost => Outcome::AbortedByPeer,
                FailureReason::Timeout | FailureReason::NoDataConnection => Outcome::Timeout,
                FailureReason::Aborted => Outcome::AbortedByUser,
                FailureReason::Data(DataFailure::File) => {
                    error.as_ref().map_or(Outcome::Local, local_outcome)
                }
                FailureReason::Data(DataFailure::ConnectionLost) => Outcome::AbortedByPeer,
                FailureReason::NotReply(_) => Outcome::Protocol,
                FailureReason::Data(_)
                | FailureReason::Malformed
                | FailureReason::Short { .. }
                | FailureReason::Long { .. }
                | FailureReason::Tls => Outcome::Protocol,
            },
            Self::Tls(_) | Self::TlsAgreed(_) | Self::Differs(_) | Self::IsDirectory(_) => {
                Outcome::Protocol
            }
            Self::Mismatch(_) => Outcome::Refused,
            Self::Local(_) | Self::InvalidRequest(_) | Self::LeftOut(_) => Outcome::Local,
            Self::Exists(_) | Self::Several { .. } => Outcome::Local,
            Self::Stopped | Self::Declined => Outcome::AbortedByUser,
        }
    }

    /// Returns the failure class, which selects the exit code.
    pub fn failure(&self) -> FailureClass {
        match self {
            _ if self.is_closed_stdout() => FailureClass::ClosedOutput,
            Self::Local(_) => FailureClass::ThisMachine,
            Self::Step { failure, .. } if failure.why == FailureReason::Data(DataFailure::File) => {
                FailureClass::ThisMachine
            }
            Self::InvalidRequest(_) | Self::Exists(_) | Self::IsDirectory(_) => {
                FailureClass::Request
            }
            Self::Several { class, .. } => *class,
            Self::Stopped => FailureClass::Interrupted,
            Self::Declined => FailureClass::Declined,
            _ => FailureClass::RemoteHost,
        }
    }

    /// Returns the message, which names the failed step.
    pub fn sentence(&self) -> String {
        match self {
            Self::NoAddress(sentence)
            | Self::NoConnection(sentence)
            | Self::NotFound(sentence)
            | Self::IsDirectory(sentence)
            | Self::InvalidRequest(sentence)
            | Self::Exists(sentence)
            | Self::Several { sentence, .. }
            | Self::LeftOut(sentence)
            | Self::Mismatch(sentence)
            | Self::Differs(sentence) => sentence.clone(),
            Self::Tls(refusal) | Self::TlsAgreed(refusal) => refusal.to_string(),
            Self::Local(error) => format!("{error:#}"),
            Self::Stopped => "interrupted".to_owned(),
            Self::Declined => "nothing was changed".to_owned(),
            Self::Step { context, failure, error } => match (&failure.step, error) {
                (_, Some(error)) if is_out_of_space(error) => {
                    format!("{context}: the disk is full: free some space, and try again")
                }
                // If the server refused, its reply is the cause of the local error.
                (_, Some(error)) if !self.is_refusal() => format!("{context}: {failure}: {error}"),
                (Step::Command | Step::Greeting, _) => format!("{context}: {}", reason(failure)),
                _ => format!("{context}: {failure}"),
            },
        }
    }
}

fn reason(failure: &Failure) -> String {
    let text = failure.to_string();
    match (&failure.step, &failure.why) {
        (Step::Greeting, FailureReason::NotReply(_)) => {
            text.replacen("greeting: not an FTP reply:", "not an FTP server, it sent", 1)
        }
        // The server has too many sessions, or is about to stop (RFC 959 §4.2.2).
        (Step::Greeting, FailureReason::Refused(reply)) if reply.code.number() == 421 => {
            format!("the server accepts no session now, it replied {reply}: try again later")
        }
        // A web server, for example, waits for a request.
        (Step::Greeting, FailureReason::Timeout) => {
            "the server sent no FTP greeting: check the port, and that an FTP server runs there"
                .to_owned()
        }
        _ => text.strip_prefix("command: ").unwrap_or(&text).to_owned(),
    }
}

impl From<anyhow::Error> for FtpError {
    fn from(error: anyhow::Error) -> Self {
        Self::Local(error)
    }
}
/// Failure of a data transfer, and its cause.
pub(super) type TransferError = (DataFailure, io::Error);

pub(super) fn connection_lost(error: io::Error) -> TransferError {
    let is_tls = error.get_ref().is_some_and(|inner| inner.is::<tokio_rustls::rustls::Error>());
    (if is_tls { DataFailure::Tls } else { DataFailure::ConnectionLost }, error)
}

pub(super) fn local_error(error: io::Error) -> TransferError {
    (DataFailure::File, error)
}

/// Returns the failure of a transfer that exceeds a size limit.
pub(super) fn limit_exceeded(why: String) -> TransferError {
    (DataFailure::Excess, io::Error::new(ErrorKind::InvalidData, why))
}

pub(super) fn malformed(why: &str) -> TransferError {
    (DataFailure::Malformed, io::Error::new(ErrorKind::InvalidData, why.to_owned()))
}

/// Replaces a refusal by the server with the local cause of the failure, if there is one. The refusal
/// is the server's reply to the loss of the data connection that this end closed, and can arrive before
/// the result of the transfer.
pub(super) fn prefer_local_cause(failure: &mut Failure, result: &Result<(), TransferError>) {
    if let (FailureReason::Refused(_), Err((cause, _))) = (&failure.why, result)
        && matches!(cause, DataFailure::File | DataFailure::Excess | DataFailure::Malformed)
    {
        failure.why = FailureReason::Data(*cause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocols::ftp::{Code, Reply};

    #[test]
    fn a_local_cause_precedes_the_reply_to_the_closed_data_connection() {
        let reply = Reply { code: Code::new(426).unwrap(), lines: vec![b"aborted".to_vec()] };
        let failure = Failure { step: Step::Data, why: FailureReason::Refused(reply) };
        let reason = |result| {
            let mut failure = failure.clone();
            prefer_local_cause(&mut failure, &result);
            failure.why
        };
        for (error, cause) in [
            (local_error(ErrorKind::StorageFull.into()), DataFailure::File),
            (limit_exceeded(String::new()), DataFailure::Excess),
            (malformed(""), DataFailure::Malformed),
        ] {
            assert_eq!(reason(Err(error)), FailureReason::Data(cause));
        }
        let lost = connection_lost(ErrorKind::ConnectionReset.into());
        assert_eq!(reason(Err(lost)), failure.why);
        assert_eq!(reason(Ok(())), failure.why);
    }

    #[test]
    fn a_server_without_an_ftp_greeting_is_described_by_what_it_sent() {
        let sentence = |why| {
            let failure = Failure { step: Step::Greeting, why };
            let context = "cannot log in to host port 22".to_owned();
            FtpError::Step { context, failure, error: None }.sentence()
        };
        assert_eq!(
            sentence(FailureReason::NotReply(b"SSH-2.0-OpenSSH_9.2p1".to_vec())),
            "cannot log in to host port 22: not an FTP server, it sent \"SSH-2.0-OpenSSH_9.2p1\" \
             (an SSH server)"
        );
        let code = Code::new(421).unwrap();
        let busy = Reply { code, lines: vec![b"too many sessions".to_vec()] };
        assert_eq!(
            sentence(FailureReason::Refused(busy)),
            "cannot log in to host port 22: the server accepts no session now, it replied 421 too \
             many sessions: try again later"
        );
        let timeout = sentence(FailureReason::Timeout);
        assert!(timeout.contains(": the server sent no FTP greeting: check the port"), "{timeout}");
    }
}
