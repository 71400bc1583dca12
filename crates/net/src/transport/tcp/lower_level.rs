//! The interface to the lower level (RFC 9293 §3.9.2): its capabilities, and the form of a segment.
//!
//! A device may split super-segments, and it may complete checksums. A super-segment is a header
//! with up to 64 KiB of data. A segment is therefore passed in two parts: the packet with its
//! header, and the location of its data in the send buffer, from which the device gathers the data.
//! For a device without these capabilities, [`super::Tcp::transmit`] copies the data after the
//! header and computes its checksum in the same loop.

use super::connection_id::ConnectionId;
use super::header::{self, MAX_HEADER_LEN};
use super::transmit::Outgoing;
use crate::checksum::{Routines, Sum};
use crate::internet;
use crate::internet::ipv4::Protocol;
use crate::internet::pseudo_header;
use crate::packet::Packet;
use core::net::IpAddr;

/// Length of the IPv4 and TCP headers without options, in bytes.
pub(super) const FIXED_HEADERS_V4_LEN: u16 = 40;
/// Length of the IPv6 and TCP headers without options, in bytes.
pub(super) const FIXED_HEADERS_V6_LEN: u16 = 60;
/// Maximum number of data bytes in a super-segment. With all headers it fits an IPv4 datagram.
const SUPER_SEGMENT_MAX: u32 = 65_535 - 128;

/// The sum of a segment whose checksum the device has verified.
pub(super) const GOOD: Sum = Sum::ALL_ONES;

/// Capabilities of the lower level.
#[derive(Clone, Copy, Debug)]
pub struct LowerLevel {
    /// Length of the longest datagram, in bytes.
    pub mtu: u16,
    /// Whether the device splits super-segments into segments (TSO).
    pub tso: bool,
    /// Whether the device completes the checksum of a segment (checksum offload).
    pub checksum_offload: bool,
    /// The routines for checksums and copies.
    pub routines: Routines,
}

/// A segment for the Internet layer.
#[derive(Debug)]
pub struct Segment {
    /// The header of the segment. If the segment is complete, the data follows it.
    pub packet: Packet,
    /// Fields of the IP header.
    pub lower: internet::Header,
    /// Maximum length of a datagram into which the segment is split, in bytes.
    pub datagram_len: usize,
    /// The connection of the segment; `None` if the segment is the answer to a segment without a
    /// connection.
    pub connection: Option<ConnectionId>,
}

/// The location of a segment's data.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    pub(super) connection: ConnectionId,
    pub(super) offset: u32,
    pub(super) len: u32,
}

impl LowerLevel {
    /// Returns a link that carries datagrams of `mtu` bytes and has no offloads.
    #[must_use]
    pub const fn plain(mtu: u16) -> Self {
        let routines = Routines::PORTABLE;
        Self { mtu, tso: false, checksum_offload: false, routines }
    }

    /// Returns the maximum number of data bytes in a segment to `remote` without options.
    pub(super) fn mss_to(&self, remote: IpAddr) -> u16 {
        let headers = match remote {
            IpAddr::V4(_) => FIXED_HEADERS_V4_LEN,
            IpAddr::V6(_) => FIXED_HEADERS_V6_LEN,
        };
        self.mtu.saturating_sub(headers)
    }

    /// Returns the maximum number of data bytes in a super-segment. Returns 0 if the device cannot
    /// split super-segments.
    pub(super) fn super_segment_max(&self) -> u32 {
        if self.tso { SUPER_SEGMENT_MAX } else { 0 }
    }

    /// Returns the sum over a received segment and its pseudo header.
    pub(super) fn sum(&self, source: IpAddr, destination: IpAddr, segment: &[u8]) -> Sum {
        pseudo_sum(source, destination, segment.len()).word((self.routines.sum)(segment))
    }

    /// Writes the header of `outgoing` into `packet`. The data is added separately.
    pub(super) fn segment(
        &self,
        outgoing: &Outgoing,
        (local, remote): (IpAddr, IpAddr),
        mut packet: Packet,
    ) -> Segment {
        let mut bytes = [0; MAX_HEADER_LEN];
        let len = outgoing.header.emit(&mut bytes);
        let total_len = len + outgoing.len as usize;
        let pseudo = pseudo_sum(local, remote, total_len);
        let checksum = if self.checksum_offload {
            pseudo.unfinished()
        } else {
            pseudo.bytes(bytes.get(..len).unwrap_or_default()).finish()
        };
        if let Some(field) = bytes.get_mut(header::CHECKSUM) {
            field.copy_from_slice(&checksum.to_be_bytes());
        }
        packet.push(bytes.get(..len).unwrap_or_default());
        if self.checksum_offload {
            packet.offload_checksum(header::CHECKSUM.start);
        }
        packet.tail_len = outgoing.len as usize;
        packet.offload.segment_size = outgoing.segment_size;
        let lower = internet::Header {
            source: local,
            destination: remote,
            protocol: Protocol::Tcp,
            dscp_ecn: outgoing.ecn,
            hop_limit: 0,
        };
        let data_len = match outgoing.segment_size {
            0 => outgoing.len as usize,
            segment_size => segment_size.into(),
        };
        let headers_len =
            if remote.is_ipv4() { FIXED_HEADERS_V4_LEN } else { FIXED_HEADERS_V6_LEN };
        // Both lengths include the TCP header without options.
        let datagram_len = usize::from(headers_len) - header::HEADER_LEN + len + data_len;
        Segment { packet, lower, datagram_len, connection: None }
    }

    /// Copies the data of a segment after its header, and completes its checksum.
    pub(super) fn append(&self, segment: &mut Segment, [front, back]: [&[u8]; 2]) {
        let packet = &mut segment.packet;
        packet.tail_len = 0;
        if self.checksum_offload {
            packet.extend(front);
            packet.extend(back);
            return;
        }
        let copy_and_sum = self.routines.copy_and_sum;
        let first = copy_and_sum(packet.append(front.len()), front);
        let second = copy_and_sum(packet.append(back.len()), back);
        // After an odd number of bytes, the two bytes of each word are swapped (RFC 1071 §2 B).
        let second = if front.len() % 2 == 0 { second } else { second.swap_bytes() };
        if let Some(field) = packet.data_mut().get_mut(header::CHECKSUM)
            && let Ok(header_sum) = <[u8; 2]>::try_from(&*field)
        {
            let header_sum = !u16::from_be_bytes(header_sum);
            let sum = Sum::default().word(header_sum).word(first).word(second);
            field.copy_from_slice(&sum.finish().to_be_bytes());
        }
    }
}

fn pseudo_sum(source: IpAddr, destination: IpAddr, len: usize) -> Sum {
    // A segment that exceeds the longest datagram cannot have a valid checksum.
    let len = u16::try_from(len).unwrap_or(u16::MAX);
    pseudo_header(source, destination, Protocol::Tcp, len)
}
