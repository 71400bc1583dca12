//! A gateway that connects guests to the network of its host.
//!
//! A guest is a network namespace, a container, a virtual machine or a host at a serial line. The
//! gateway terminates the guest's TCP connections, and the host's sockets carry the data on.
#![forbid(unsafe_code)]

pub mod dhcp_server;
pub mod dhcpv6_server;
pub mod dns;
pub mod domain_name;
pub mod policy;
pub mod segment;
