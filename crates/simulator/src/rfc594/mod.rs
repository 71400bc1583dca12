//! The measurement of RFC 594: one host-IMP interface, before and after it was made faster, and
//! what a file transfer gains by it.
//!
//! The subnet is a model of timing and no protocol. A message of 8,063 bits goes bit by bit over
//! the host's cable, each bit with its handshake; the IMP cuts it into packets, sends them over 50
//! kbit/s lines, puts them together again and gives the message to the other host in the same way.
//! Every moment of a transfer is charged to the part that the next one had to wait for, so that the
//! parts add up to its time. One message is under way at a time: the sender waits for its RFNM, and
//! for the allocation that the receiver gives when it has taken the message. A host that is slow
//! has lost the room that its RFNM brought, and the IMP asks for it again (RFC 619).
//!
//! What the hosts do is not modelled: their processors' time is the RFC's own figure, for the
//! user's end as it was measured, and for the server's as that of the user who did the same. What
//! is left of the measured time after that is printed as left, and nothing is fitted to make it
//! smaller.

mod interface;
mod scenario;
mod subnet;
mod tables;

pub use interface::{Cable, Interface};
pub use scenario::Scenario;
pub use subnet::{Path, Split, Subnet, message_time};
pub use tables::{Measured, TRANSFERS, tables};
