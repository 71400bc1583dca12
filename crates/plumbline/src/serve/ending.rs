//! Outcomes of login and console sessions.

/// Reason for the end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The client closed the connection.
    Left,
    /// The program ended.
    Finished,
    /// The idle timeout expired.
    Idle,
    /// No login before the login timeout.
    NoLogin,
    /// Too many wrong passwords.
    Denied,
    /// The queue of password checks was full.
    Busy,
    /// The session continues as a new session in TLS.
    StartsTls,
    /// TLS is required, and the client did not negotiate it.
    InClear,
}

impl Ending {
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::Left => "the client closed the connection",
            Self::Finished => "the program exited",
            Self::Idle => "idle timeout",
            Self::NoLogin => "login timed out",
            Self::Denied => "too many failed logins",
            Self::Busy => "too many concurrent logins",
            Self::StartsTls => "session continues in TLS",
            Self::InClear => "TLS is required, but the client did not start it",
        }
    }
}
