//! The gateway over the devices and sockets of its host.
//!
//! [`EventLoop`] drives the engine of the crate `gateway`.
#![forbid(unsafe_code)]

mod event_loop;
mod poll;
mod tcp_sockets;
mod udp_sockets;

pub use event_loop::{EventLoop, GuestDevice};
