//! Flows between a guest and the hosts that it reaches.
//!
//! [`tcp_flows`] relays byte streams, [`udp_flows`] datagrams, and [`echo_flows`] echo requests.
//! [`host_errors`] passes ICMP errors of the host's network on to the guest.

mod buffer_sizes;
pub mod echo_flows;
mod flow_limit;
pub mod host_errors;
pub mod tcp_flows;
pub mod udp_flows;

pub use crate::slab::Key;
