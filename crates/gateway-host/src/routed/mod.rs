//! `plumb gateway --routed`: hosts at serial lines with addresses of their own, without translation.
//!
//! The router of the crate `gateway` forwards datagrams between the lines and a TUN of the host. The
//! kernel has a route through the TUN to each address of the plan. At an interface to a local
//! network, it also answers ARP and Neighbor Discovery for these addresses (proxy ARP, RFC 1027;
//! RFC 4861 §7.2.8), so that hosts there reach the hosts at the lines as their neighbors.

mod address_plan;
mod host_side;
mod routed_control;
mod routed_error;
mod routed_line;
mod routed_program;

pub use address_plan::{AddressPlan, Output};
pub use routed_error::RoutedError;
pub use routed_program::{LineReport, RoutedEnd, RoutedProgram, RoutedSettings};
