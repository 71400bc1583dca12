//! A packet for another station of the same host, and the queue of such packets.

use crate::internet;
use crate::internet::icmp::IcmpError;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A packet or error that arrived at the wrong station.
#[derive(Debug)]
pub struct Misdelivered {
    pub(super) content: Content,
    /// Number of stations that have examined the packet.
    pub(super) examined_by: usize,
}

#[derive(Debug)]
pub(super) enum Content {
    Datagram {
        header: internet::Header,
        header_len: usize,
        is_reassembled: bool,
        /// The datagram with its headers, copied from the packet buffer of the first station.
        bytes: Vec<u8>,
        segment_size: u16,
        is_verified: bool,
    },
    Error(IcmpError),
}

/// Queue of packets for the other stations of this host.
#[derive(Debug)]
pub(super) struct Multiqueue {
    /// Number of stations of the host, including this one.
    pub(super) count: usize,
    pub(super) queue: VecDeque<Misdelivered>,
}
