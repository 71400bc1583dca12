//! A gateway that connects guests to the network of its host.
//!
//! A guest is a network namespace, a container, a virtual machine or a host at a serial line. The
//! gateway terminates the guest's TCP connections, and the host's sockets carry the data on.
#![forbid(unsafe_code)]

mod incremental_checksum;
pub mod queue;
pub mod router;
