//! A gateway that connects guests to the network of its host, as the packet concentrator of TM-233
//! connected personal computers to the Internet.
//!
//! # Theory of operation
//!
//! A guest is a network namespace, a container, a virtual machine or a host at a serial line. Its
//! packets arrive at a [`Guest`], which contains a transparent station: it accepts the datagrams for
//! all destinations, and ends the guest's TCP connections. The [`relay`] turns each connection into
//! a flow, and the driver carries the flow on over a socket of the host. The remote host therefore
//! sees ordinary connections of the gateway's user, and no privilege is needed.
//!
//! A SYN of the guest is answered only when the remote host has accepted the connection, and refused
//! if the remote host has refused it. Data that one side does not accept stays with the other side:
//! the gateway does not read it, so that the sender's window closes. The gateway therefore drops no
//! TCP data and queues at most one window per flow and direction.
//!
//! An output that is slower than the gateway, such as a serial line, is shared fairly between the
//! flows of its guest. Data for it waits in the senders, or in a fair queue if it is datagrams
//! (module `fair_output`). A rate can be shared between all guests ([`SharedRate`]).
//!
//! # The interface to the driver
//!
//! The engine does no I/O. [`Guest::receive_packet`] and [`Guest::transmit_to`] connect it to the
//! device of the guest. [`Guest::event`] returns what the driver has to do with sockets of the host,
//! and the driver reports the results by the methods of [`Guest`].
#![forbid(unsafe_code)]

pub mod capture;
pub mod dhcp_server;
pub mod dhcpv6_server;
pub mod dns;
pub mod domain_name;
mod fair_output;
mod guest;
mod incremental_checksum;
pub mod policy;
pub mod queue;
mod rate;
pub mod relay;
#[cfg(test)]
mod relay_tests;
pub mod router;
pub mod segment;
mod shared_rate;
mod slab;

pub use fair_output::OutputRate;
pub use guest::{ConnectFailure, Event, Guest, Medium, Settings};
pub use shared_rate::{RateLimit, SharedRate};
