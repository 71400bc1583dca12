//! The transport layer: UDP and TCP.

pub mod udp;
