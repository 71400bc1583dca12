//! The gateway over the devices and sockets of its host.
//!
//! [`EventLoop`] drives the engine of the crate `gateway`. [`slirp4netns`] and [`pasta`] parse the
//! arguments of the programs that the gateway replaces.
#![forbid(unsafe_code)]

pub mod bit_rate;
mod capture_file;
mod command_line;
pub mod control;
mod control_socket;
mod dns_sockets;
mod echo_sockets;
mod event_loop;
mod forward_sockets;
pub mod forwards;
pub mod gateway_program;
mod guest_control;
mod guest_device;
mod guest_drops;
mod guest_metrics;
pub mod guest_network;
pub mod guest_summary;
pub mod guest_target;
pub mod invocation;
mod metrics_endpoint;
pub mod pasta;
mod poll;
mod port;
pub mod program_error;
pub mod published_port;
pub mod qemu_framing;
mod read_buffers;
mod reset_queue;
mod resolv_conf;
pub mod routed;
pub mod slirp4netns;
mod socket_errors;
mod spare_descriptor;
mod tcp_sockets;
mod udp_sockets;
mod unix_socket;

pub use event_loop::{EventLoop, Notice, Turn};
pub use forward_sockets::GuestAddresses;
pub use guest_device::{GuestDevice, Line, Machine};
pub use port::{AddForwardError, GuestSettings};
