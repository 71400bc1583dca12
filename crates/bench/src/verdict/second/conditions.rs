//! Settings that only cases of the second generator use.

/// Programs that compete with the server for its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct CompetingPrograms {
    pub(in super::super) count: u64,
    /// Nice value of the server; that of the other programs is 0.
    pub(in super::super) server_nice: i8,
}

/// Settings that only cases of the second generator use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Conditions {
    /// The client's name server answers each query only the second time.
    pub(in super::super) drops_first_query: bool,
    /// Time after which the client repeats a query, s.
    pub(in super::super) query_timeout_s: Option<u64>,
    /// Delay of the name server that the server queries, ms; `None` if the server has no name
    /// server.
    pub(in super::super) server_resolver_ms: Option<u64>,
    /// Whether the FTP server queries ident for the client's user.
    pub(in super::super) asks_ident: bool,
    /// Delay of the start of the login shell, ms.
    pub(in super::super) profile_ms: u64,
    pub(in super::super) loops: Option<CompetingPrograms>,
    /// Whether the TFTP server refuses all options.
    pub(in super::super) has_no_options: bool,
}
