//! TIME-WAIT: when it gives way to a new connection between the same ends (RFC 9293 §3.6.1, MAY-2;
//! RFC 6191 §2).
//!
//! A SYN may not be an old duplicate: timestamps tell it best, and else its number must lie behind
//! everything that the last connection has seen. Nothing else ends TIME-WAIT (RFC 1337, attack row
//! 42).

use super::connection::{Connection, State};
use super::header::{Flags, Header};

impl Connection {
    /// Returns whether this is a connection in TIME-WAIT that `syn` may take the place of, to be
    /// accepted by a listener that uses timestamps or not.
    pub(super) fn gives_way_to(&self, syn: &Header, uses_timestamps: bool) -> bool {
        let is_request = syn.flags.has(Flags::SYN)
            && !syn.flags.has(Flags::ACK)
            && !syn.flags.has(Flags::RST)
            && !syn.flags.has(Flags::FIN);
        if self.state != State::TimeWait || !is_request {
            return false;
        }
        let is_behind = syn.seq.is_after(self.rcv_nxt);
        let offered = syn.options.heard_stamps().filter(|_| uses_timestamps);
        match (self.ts_recent, offered) {
            (Some(recent), Some((value, _))) if value == recent => is_behind,
            (Some(recent), Some((value, _))) => recent.is_before(value),
            (None, Some(_)) => true,
            (_, None) => is_behind,
        }
    }
}
