//! The two hosts of a world.

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The host that opens the connection.
    User,
    /// The host that accepts the connection.
    Server,
}

impl Side {
    /// Returns the other side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::User => Self::Server,
            Self::Server => Self::User,
        }
    }
}
