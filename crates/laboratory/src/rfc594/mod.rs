//! The measurement of RFC 594: one host-IMP interface before and after its speedup, and the effect
//! on a file transfer.
//!
//! The subnet is a timing model without protocols. A message of 8,063 bits crosses the host's cable
//! bit by bit, each bit with its handshake; the IMP divides the message into packets, sends them
//! over 50 kbit/s lines, reassembles them and passes the message to the other host in the same way.
//! Every interval of a transfer is charged to the component for which the transfer had to wait, so
//! the parts add up to the total time. One message is in transit at a time: the sender waits for
//! its RFNM, and for the allocation that the receiver sends after it has received the message. An
//! RFNM includes a buffer reservation for the next message. If the host is slow, the reservation
//! expires, and the IMP of the host must request it again (RFC 619).
//!
//! The hosts' processing is not modeled: processor times are the RFC's own values. The RFC measured
//! only users; for a server, the value of a user that performed the same operation is used. The
//! time that the model does not explain is reported as left over; no parameter is fitted to reduce
//! it.

mod interface;
mod subnet;
mod subnet_scenario;
mod tables;
mod today;

pub use interface::{Cable, Interface};
pub use subnet::{Path, Subnet, TimeSplit};
pub use subnet_scenario::Scenario;
pub(crate) use tables::tables;
pub use today::Today;
