//! The gateway over the devices and sockets of its host.
#![forbid(unsafe_code)]

mod command_line;
pub mod control;
pub mod forwards;
pub mod invocation;
pub mod pasta;
pub mod qemu_framing;
pub mod slirp4netns;
