//! The gateway over the devices and sockets of its host.
#![forbid(unsafe_code)]
