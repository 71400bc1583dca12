//! The interface to the lower level (RFC 9293 §3.9.2): what it takes, and how a segment is given.
//!
//! A device may take a super-segment: a header and up to 64 KiB of data that it cuts into segments
//! itself, and it may finish checksums. A segment is therefore given in two parts, the packet with
//! its header, and the place of its data in the send buffer, from where the device gathers it. For
//! a device that does neither, [`super::Tcp::transmit`] copies the data behind the header and sums
//! it on the way.

use super::ConnectionId;
use super::header::{self, MAX_HEADER_LEN};
use super::transmit::Outgoing;
use crate::checksum::{Routines, Sum};
use crate::internet;
use crate::internet::ipv4::Protocol;
use crate::internet::pseudo_header;
use crate::packet::Packet;
use core::net::IpAddr;

/// Bytes of the IPv4 and TCP headers without options.
pub(super) const FIXED_HEADERS_V4_LEN: u16 = 40;
/// Bytes of the IPv6 and TCP headers without options.
pub(super) const FIXED_HEADERS_V6_LEN: u16 = 60;
/// Data bytes of the longest super-segment: with all headers it is a datagram of IPv4.
const SUPER_SEGMENT_MAX: u32 = 65_535 - 128;

/// The sum of a segment that need not be verified.
pub(super) const GOOD: Sum = Sum::ALL_ONES;

/// What the lower level takes.
#[derive(Clone, Copy, Debug)]
pub struct LowerLevel {
    /// Bytes of the longest datagram.
    pub mtu: u16,
    /// Whether the device cuts super-segments.
    pub segments: bool,
    /// Whether the device finishes checksums.
    pub finishes_checksums: bool,
    /// The loops over data.
    pub routines: Routines,
}

/// A segment for the Internet layer, which puts its header in front.
#[derive(Debug)]
pub struct Segment {
    /// The segment: header, and data if it is whole.
    pub packet: Packet,
    /// What the Internet layer's header is to say.
    pub lower: internet::Header,
    /// Bytes of the longest datagram that is made of it.
    pub datagram_len: usize,
    /// Whose it is; none if it is about something that we do not know.
    pub connection: Option<ConnectionId>,
}

/// Where the data of a segment lies.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    pub(super) connection: ConnectionId,
    pub(super) offset: u32,
    pub(super) len: u32,
}

impl LowerLevel {
    /// A link that carries datagrams of `mtu` bytes and does nothing for the host.
    #[must_use]
    pub const fn plain(mtu: u16) -> Self {
        let routines = Routines::PORTABLE;
        Self { mtu, segments: false, finishes_checksums: false, routines }
    }

    /// Returns the data bytes of the longest segment to `remote`, without options.
    pub(super) fn mss_to(&self, remote: IpAddr) -> u16 {
        let headers = match remote {
            IpAddr::V4(_) => FIXED_HEADERS_V4_LEN,
            IpAddr::V6(_) => FIXED_HEADERS_V6_LEN,
        };
        self.mtu.saturating_sub(headers)
    }

    /// Returns the data bytes of the longest super-segment, if the device cuts any.
    pub(super) fn super_segment_max(&self) -> u32 {
        if self.segments { SUPER_SEGMENT_MAX } else { 0 }
    }

    /// Returns the sum over a segment that came and its pseudo header.
    pub(super) fn sum(&self, source: IpAddr, destination: IpAddr, segment: &[u8]) -> Sum {
        pseudo_sum(source, destination, segment.len()).word((self.routines.sum)(segment))
    }

    /// Puts the header of `outgoing` into `packet`; its data follows elsewhere.
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
        let checksum = if self.finishes_checksums {
            pseudo.unfinished()
        } else {
            pseudo.bytes(bytes.get(..len).unwrap_or_default()).finish()
        };
        if let Some(field) = bytes.get_mut(header::CHECKSUM) {
            field.copy_from_slice(&checksum.to_be_bytes());
        }
        packet.push(bytes.get(..len).unwrap_or_default());
        if self.finishes_checksums {
            packet.leave_checksum_at(header::CHECKSUM.start);
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
        let fixed = if remote.is_ipv4() { FIXED_HEADERS_V4_LEN } else { FIXED_HEADERS_V6_LEN };
        // A header of TCP without options is counted in both.
        let datagram_len = usize::from(fixed) - header::HEADER_LEN + len + data_len;
        Segment { packet, lower, datagram_len, connection: None }
    }

    /// Copies the data of a segment behind its header, and makes its checksum whole.
    pub(super) fn append(&self, segment: &mut Segment, [front, back]: [&[u8]; 2]) {
        let packet = &mut segment.packet;
        packet.tail_len = 0;
        if self.finishes_checksums {
            packet.extend(front);
            packet.extend(back);
            return;
        }
        let copy_and_sum = self.routines.copy_and_sum;
        let first = copy_and_sum(packet.append(front.len()), front);
        let second = copy_and_sum(packet.append(back.len()), back);
        // Behind an odd number of bytes every byte stands in the other half of its word
        // (RFC 1071 §2 B).
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
    // No datagram is longer; one that claims to be fails its checksum.
    let len = u16::try_from(len).unwrap_or(u16::MAX);
    pseudo_header(source, destination, Protocol::Tcp, len)
}
