//! Number and length of the datagrams in one packet, with the lengths of their headers.

use crate::internet::{ipv4, ipv6};
use crate::packet::Packet;
use core::net::IpAddr;

/// Length of the header, in bytes.
pub const HEADER_LEN: usize = 8;

/// Returns the number of datagrams in `packet`.
pub(super) fn count_of(packet: &Packet) -> u64 {
    match usize::from(packet.offload.segment_size) {
        0 => 1,
        size => packet.len().div_ceil(size).max(1) as u64,
    }
}

/// Clears the segment size of a packet if it contains a single datagram, so that it is treated as
/// an ordinary one.
pub(super) fn clear_size_of_single(packet: &mut Packet) {
    if packet.len() <= usize::from(packet.offload.segment_size) {
        packet.offload.segment_size = 0;
    }
}

/// Returns the length of the IP header of a datagram to `destination`, in bytes.
pub(super) fn ip_header_len(destination: IpAddr) -> usize {
    if destination.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
}
