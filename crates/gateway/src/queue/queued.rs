//! A queued packet, and the sharer of the output that it belongs to.

use net::packet::Packet;
use net::time::Instant;

/// One of the users of an output, which share it equally: a guest or a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharerId(pub u32);

/// A packet and the time at which it was queued.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) packet: Packet,
    pub(super) since: Instant,
}
