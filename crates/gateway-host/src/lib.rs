//! The gateway over the devices and sockets of its host.
//!
//! [`EventLoop`] drives the engine of the crate `gateway`. [`slirp4netns`] and [`pasta`] parse the
//! arguments of the programs that the gateway replaces.
#![forbid(unsafe_code)]

mod command_line;
pub mod control;
mod event_loop;
pub mod forwards;
pub mod invocation;
pub mod pasta;
mod poll;
pub mod qemu_framing;
pub mod slirp4netns;
mod tcp_sockets;
mod udp_sockets;

pub use event_loop::{EventLoop, GuestDevice};
