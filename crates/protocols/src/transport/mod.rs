//! The transport layer: UDP and TCP.
