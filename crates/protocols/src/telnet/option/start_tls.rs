//! START_TLS (draft-altman-telnet-starttls): the rest of the connection becomes TLS.
//!
//! The user sends WILL and the server DO, then each end sends FOLLOWS as its last message in
//! plaintext. TLS begins once both ends have sent FOLLOWS. The session inside TLS starts anew, with
//! no option enabled. Between the local FOLLOWS and the peer's, all input is ignored: it is
//! plaintext, into which an attacker can inject data, and would otherwise appear to have arrived
//! over TLS. Input after the peer's FOLLOWS is not examined: if it is not TLS, the handshake fails.

/// Content of the only subnegotiation of START_TLS.
const FOLLOWS: u8 = 1;

/// Progress of the switch to TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::telnet) enum Progress {
    #[default]
    Clear,
    /// The local end has sent FOLLOWS; the peer's FOLLOWS is outstanding.
    FollowsSent,
    /// Both ends have sent FOLLOWS.
    Started,
}

pub(super) fn parse(content: &[u8]) -> Option<()> {
    (content == [FOLLOWS]).then_some(())
}

/// Returns the content of a FOLLOWS subnegotiation.
pub(in crate::telnet) fn build_follows() -> [u8; 1] {
    [FOLLOWS]
}
