//! Numbers of sessions and logins of each server, for the metrics.

/// Numbers of sessions and logins since the start of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SessionCounts {
    /// Admitted sessions.
    pub(super) sessions: u64,
    /// Refused sessions, and refused commands and transfers of admitted sessions.
    pub(super) refusals: u64,
    /// Successful logins, including those without a password.
    pub(super) logins: u64,
    /// Failed logins.
    pub(super) failed_logins: u64,
    /// Logins refused without a password check, because the queue of checks was full.
    pub(super) busy_logins: u64,
}

/// Protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ServerProtocol {
    Ftp,
    Tftp,
    Telnet,
}

impl ServerProtocol {
    /// Returns the name of the protocol in a label.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Ftp => "ftp",
            Self::Tftp => "tftp",
            Self::Telnet => "telnet",
        }
    }
}

/// Sessions of one protocol.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProtocolTraffic {
    pub(super) protocol: ServerProtocol,
    /// Number of open sessions.
    pub(super) open: usize,
    pub(super) tally: SessionCounts,
}
