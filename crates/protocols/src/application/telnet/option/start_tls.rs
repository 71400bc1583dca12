//! START_TLS (draft-altman-telnet-starttls): the rest of the connection becomes TLS.
//!
//! The user says WILL and the server DO, then each says FOLLOWS as the last that it says in clear,
//! and TLS begins where both have. Afterwards the session begins anew inside, with no option on.
//! Between our FOLLOWS and the other's, nothing that comes means anything: it came in clear, where
//! anybody can put words into it, and what would be kept of it would seem to have come by TLS.
//! What stands behind the other's FOLLOWS is not looked at: if it is not TLS, TLS will say so.

/// What a subnegotiation of START_TLS says: that TLS follows.
const FOLLOWS: u8 = 1;

/// Where an end stands on the way to TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::application::telnet) enum Progress {
    #[default]
    Clear,
    /// We have said FOLLOWS, and wait for the other to.
    WeFollow,
    /// Both have.
    Started,
}

pub(super) fn parse(content: &[u8]) -> Option<()> {
    (content == [FOLLOWS]).then_some(())
}

/// Returns the content that says that TLS follows.
pub(in crate::application::telnet) fn follows() -> [u8; 1] {
    [FOLLOWS]
}
