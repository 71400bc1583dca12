//! A datagram between the Internet layer and a transport, the header fields that both use, and the
//! sum over the pseudo header.

use super::ipv4::{self, Protocol};
use super::ipv6;
use crate::checksum::Sum;
use crate::packet::Packet;
use core::net::{IpAddr, Ipv4Addr};

/// A datagram for a transport: the fields of its header, and a packet with its data only.
#[derive(Debug)]
pub struct Datagram {
    /// The fields of the datagram's header. The source is a unicast address of another host, with
    /// two exceptions. A UDP broadcast may come from 0.0.0.0, because its sender does not know its
    /// own address yet. A looped-back datagram has a local source.
    pub header: Header,
    /// Length of the headers with their options, in bytes. The headers have been removed from
    /// `packet`.
    pub header_len: usize,
    /// Whether the datagram has arrived in fragments.
    pub is_reassembled: bool,
    /// The data.
    pub packet: Packet,
}

/// Header fields that the Internet layer passes to a transport, or that a transport specifies for
/// output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address; for output, the Internet layer chooses one if it is unspecified.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol of the data.
    pub protocol: Protocol,
    /// The byte that holds the DSCP and the ECN bits (RFC 2474, RFC 3168).
    pub dscp_ecn: u8,
    /// Maximum number of further hops; for output, 0 selects the station's own setting.
    pub hop_limit: u8,
}

/// Reasons why a datagram cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The datagram is too long. A TCP datagram is not fragmented and must fit the MTU of the link;
    /// any other must not exceed the maximum length of a datagram.
    TooBig {
        /// Length of the longest datagram in bytes, including the header.
        mtu: u16,
    },
    /// There is no local address of the destination's family, or the given source is not local.
    NoAddress,
    /// No host can have the destination address, or it is a group and the protocol needs a unicast
    /// address.
    Destination,
    /// There is no route to the destination.
    NoRoute,
    /// No packet buffer is free, or too many datagrams are being fragmented or looped back.
    NoBuffer,
}

/// The origin of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// From the link.
    Link,
    /// This host (loopback): the addresses need no check.
    Loopback,
}

impl Header {
    /// Returns a header for output with a destination and a protocol; all other fields use the
    /// station's settings.
    #[must_use]
    pub const fn to(destination: IpAddr, protocol: Protocol) -> Self {
        let source = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self { source, destination, protocol, dscp_ecn: 0, hop_limit: 0 }
    }
}

impl From<ipv4::Header> for Header {
    fn from(header: ipv4::Header) -> Self {
        Self {
            source: header.source.into(),
            destination: header.destination.into(),
            protocol: header.protocol,
            dscp_ecn: header.dscp_ecn,
            hop_limit: header.time_to_live,
        }
    }
}

impl Header {
    pub(super) fn of_v6(header: &ipv6::Header, protocol: Protocol) -> Self {
        Self {
            source: header.source.into(),
            destination: header.destination.into(),
            protocol,
            dscp_ecn: header.dscp_ecn,
            hop_limit: header.hop_limit,
        }
    }
}

/// Returns the sum over the pseudo header that the checksum of a transport covers (RFC 9293 §3.1,
/// RFC 8200 §8.1), for `len` bytes of transport header and data.
///
/// Addresses of different families have no pseudo header: a datagram with such addresses fails its
/// checksum.
#[must_use]
pub fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: Protocol, len: u16) -> Sum {
    let addresses = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Sum::default().bytes(&source.octets()).bytes(&destination.octets())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Sum::default().bytes(&source.octets()).bytes(&destination.octets())
        }
        _ => Sum::default(),
    };
    addresses.word(u16::from(u8::from(protocol))).word(len)
}
