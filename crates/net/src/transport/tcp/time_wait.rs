//! TIME-WAIT, and its replacement by a new connection between the same ends (RFC 9293 §3.6.1,
//! MAY-2; RFC 6191 §2).
//!
//! The SYN of the new connection must not be an old duplicate. Its timestamp is the best evidence.
//! Without timestamps its sequence number must be after all sequence numbers of the old connection.
//! Nothing else ends TIME-WAIT early (RFC 1337, row 42 of the attack table).

use super::connection::Connection;
use super::header::{Flags, Header};
use super::lifecycle::State;

impl Connection {
    /// Returns whether this connection is in TIME-WAIT and `syn` may replace it. `uses_timestamps`
    /// is true if the listener uses timestamps.
    pub(super) fn can_be_replaced_by(&self, syn: &Header, uses_timestamps: bool) -> bool {
        let is_request = syn.flags.has(Flags::SYN)
            && !syn.flags.has(Flags::ACK)
            && !syn.flags.has(Flags::RST)
            && !syn.flags.has(Flags::FIN);
        if self.state() != State::TimeWait || !is_request {
            return false;
        }
        let is_after_last_seq = syn.seq.is_after(self.rcv.nxt());
        let offered_timestamps = syn.options.peer_timestamps().filter(|_| uses_timestamps);
        match (self.negotiated.ts_recent(), offered_timestamps) {
            (Some(recent), Some((value, _))) if value == recent => is_after_last_seq,
            (Some(recent), Some((value, _))) => recent.is_before(value),
            (None, Some(_)) => true,
            (_, None) => is_after_last_seq,
        }
    }
}
