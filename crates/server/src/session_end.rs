//! Outcomes of login and console sessions.

/// Reason for the end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// The client closed the connection.
    ClientClosed,
    /// The program ended.
    ProgramExited,
    /// The idle timeout expired.
    IdleTimeout,
    /// No login before the login timeout.
    LoginTimeout,
    /// Too many wrong passwords.
    TooManyFailures,
    /// The password was right, but the user may not log in to this machine.
    LoginRefused,
    /// The queue of password checks was full.
    Busy,
    /// The session continues as a new session in TLS.
    StartsTls,
    /// A reload has removed the console from the configuration.
    ConsoleRemoved,
    /// TLS is required, and the client did not negotiate it.
    TlsRequired,
    /// The process stops.
    ServerStopped,
}

impl SessionEnd {
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::ClientClosed => "the client closed the connection",
            Self::ProgramExited => "the program exited",
            Self::IdleTimeout => "idle timeout",
            Self::LoginTimeout => "login timed out",
            Self::TooManyFailures => "too many failed logins",
            Self::LoginRefused => "login refused",
            Self::Busy => "too many concurrent logins",
            Self::ConsoleRemoved => "the console was removed from the configuration",
            Self::StartsTls => "session continues in TLS",
            Self::TlsRequired => "TLS is required, but the client did not start it",
            Self::ServerStopped => "the server stopped",
        }
    }
}
