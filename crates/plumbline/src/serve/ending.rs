//! How sessions of the login server and of consoles end.

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The far side closed.
    Left,
    /// The program ended.
    Finished,
    /// Nothing came for too long.
    Idle,
    /// Nobody proved who he is in time.
    NoLogin,
    /// Too many passwords were wrong.
    Denied,
    /// Too many passwords were being checked.
    Busy,
    /// The rest is TLS, and another session.
    StartsTls,
    /// It went on in clear where it may not.
    InClear,
}

impl Ending {
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::Left => "the far side closed",
            Self::Finished => "the program ended",
            Self::Idle => "nothing was typed for too long",
            Self::NoLogin => "nobody logged in in time",
            Self::Denied => "too many attempts",
            Self::Busy => "too many logins at once",
            Self::StartsTls => "it goes on in TLS",
            Self::InClear => "TLS is required, and it did not begin",
        }
    }
}
