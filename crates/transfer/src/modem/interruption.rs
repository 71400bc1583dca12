//! Ends of a transfer that neither of its two programs has caused: its user, its session or this
//! machine ends it.

use records::transfer::Outcome;

/// Reason why a session ends a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// The user has cancelled the transfer.
    User,
    /// The local terminal was closed.
    TerminalClosed,
    /// The process has received the signal of this name.
    Signal(&'static str),
    /// The remote host has closed the connection.
    RemoteClosed,
    /// The remote host has reset the connection.
    RemoteReset,
    /// The remote host does not acknowledge data.
    NoAnswer,
    /// The network reports the remote host as unreachable.
    Unreachable,
    /// The remote program has ended without a sign of its protocol.
    ProgramEnded,
    /// The device of the serial line has hung up or failed.
    LineLost,
    /// The session has ended for another reason, which its own message states.
    SessionEnded,
}

impl Interruption {
    /// Returns the sentence for the user and the record.
    pub(super) fn sentence(self, is_upload: bool) -> String {
        let name = if is_upload { "Upload" } else { "Download" };
        match self {
            Self::User => format!("{name} cancelled."),
            Self::TerminalClosed => format!("{name} cancelled: the terminal was closed."),
            Self::Signal(signal) => format!("{name} cancelled by {signal}."),
            Self::RemoteClosed => format!("{name} failed: the remote host closed the connection."),
            Self::RemoteReset => format!("{name} failed: the remote host reset the connection."),
            Self::NoAnswer => format!("{name} failed: the remote host no longer answers."),
            Self::Unreachable => format!("{name} failed: there is no route to the remote host."),
            Self::ProgramEnded => format!("{name} failed: the remote program has ended."),
            Self::LineLost => format!("{name} failed: the serial line was lost."),
            Self::SessionEnded => format!("{name} failed: the session has ended."),
        }
    }

    /// Returns the outcome for the record.
    pub(super) const fn outcome(self) -> Outcome {
        match self {
            Self::User | Self::TerminalClosed | Self::Signal(_) => Outcome::AbortedByUser,
            Self::RemoteClosed | Self::RemoteReset | Self::Unreachable | Self::ProgramEnded => {
                Outcome::AbortedByPeer
            }
            Self::NoAnswer => Outcome::Timeout,
            Self::LineLost | Self::SessionEnded => Outcome::Local,
        }
    }
}
