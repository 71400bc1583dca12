//! Identifiers of connections.

/// Identifies a connection. An identifier is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// The connection no longer exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoConnection;
