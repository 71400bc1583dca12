//! ICMP errors that a router sends (RFC 1812 §4.3, RFC 4443 §2.4 and §3).

use net::checksum::Sum;
use net::internet::ipv4::{self, Protocol};
use net::internet::{icmp, icmpv6, ipv6};
use net::packet::Packet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum length of an ICMP error with its header (RFC 1812 §4.3.2.3).
const IPV4_ERROR_MAX: usize = 576;
/// Time to live of the router's own packets.
const HOPS: u8 = 64;
/// Precedence of ICMP errors: Internetwork Control (RFC 1812 §4.3.2.5).
const CONTROL: u8 = 0xC0;

/// Offset of the Next Header field of the fixed IPv6 header.
const NEXT_HEADER_POINTER: u32 = 6;

/// Reasons for an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The time to live is used up.
    TimeExceeded,
    /// The destination cannot be reached.
    HostUnreachable,
    /// The router does not support the protocol.
    ProtocolUnreachable,
    /// The router has no such port.
    PortUnreachable,
    /// The packet is longer than this MTU.
    TooBig { mtu: usize },
}

impl Cause {
    /// Returns type, code and the second word of the ICMP header.
    fn ipv4(self) -> (u8, u8, u32) {
        match self {
            Self::TimeExceeded => (11, 0, 0),
            Self::HostUnreachable => (3, 1, 0),
            Self::ProtocolUnreachable => (3, 2, 0),
            Self::PortUnreachable => (3, 3, 0),
            Self::TooBig { mtu } => (3, 4, u16::try_from(mtu).unwrap_or(u16::MAX).into()),
        }
    }

    /// Returns type, code and the second word of the ICMPv6 header.
    fn ipv6(self) -> (u8, u8, u32) {
        match self {
            Self::TimeExceeded => (3, 0, 0),
            Self::HostUnreachable => (1, 3, 0),
            // Parameter Problem, unrecognized Next Header, at the field of the fixed header.
            Self::ProtocolUnreachable => (4, 1, NEXT_HEADER_POINTER),
            Self::PortUnreachable => (1, 4, 0),
            Self::TooBig { mtu } => (2, 0, u32::try_from(mtu).unwrap_or(u32::MAX)),
        }
    }
}

/// Returns whether an error about an IPv4 datagram may be sent (RFC 1812 §4.3.2.7). Its source and
/// destination are unicast addresses.
pub(super) fn may_report_ipv4(parsed: &ipv4::Parsed, datagram: &[u8]) -> bool {
    let icmp_type = datagram.get(parsed.header_len);
    let is_error = parsed.header.protocol == Protocol::Icmp
        && icmp_type.is_none_or(|icmp_type| matches!(icmp_type, 3 | 4 | 5 | 11 | 12));
    parsed.fragment_offset == 0 && !is_error
}

/// Returns whether an error about an IPv6 datagram may be sent (RFC 4443 §2.4 e).
pub(super) fn may_report_ipv6(parsed: &ipv6::Parsed, datagram: &[u8]) -> bool {
    let rest = datagram.get(ipv6::HEADER_LEN..).unwrap_or_default();
    let walked = ipv6::walk(parsed.next_header, rest, ipv6::HEADER_LEN, ipv6::NEXT_HEADER_AT);
    let Ok(chain) = walked else { return true };
    let content = match chain.end {
        ipv6::End::Upper(Protocol::ICMPV6) => rest.get(chain.len..).unwrap_or_default(),
        // Only the first fragment could show that the datagram is an ICMPv6 error.
        ipv6::End::Fragment(_) => return false,
        ipv6::End::Upper(_) | ipv6::End::Nothing => &[],
    };
    let header = &parsed.header;
    let report = icmpv6::Report::PacketTooBig(0);
    icmpv6::may_report(report, header.source, header.destination, content, false)
}

/// Appends an error about the IPv4 datagram `about`, from `own` to its source, to the empty
/// `packet`.
pub(super) fn write_ipv4(
    cause: Cause,
    about: &[u8],
    [own, destination]: [Ipv4Addr; 2],
    identification: u16,
    packet: &mut Packet,
) {
    let quoted_len = about.len().min(IPV4_ERROR_MAX - ipv4::HEADER_LEN - icmp::HEADER_LEN);
    let header = ipv4::Header {
        source: own,
        destination,
        protocol: Protocol::Icmp,
        time_to_live: HOPS,
        identification,
        dscp_ecn: CONTROL,
        dont_fragment: false,
    };
    let total_len = ipv4::HEADER_LEN + icmp::HEADER_LEN + quoted_len;
    packet.extend(&header.emit(u16::try_from(total_len).unwrap_or(u16::MAX)));
    let quoted = about.get(..quoted_len).unwrap_or_default();
    let (icmp_type, code, word) = cause.ipv4();
    let [w0, w1, w2, w3] = word.to_be_bytes();
    let message = [icmp_type, code, 0, 0, w0, w1, w2, w3];
    let [c0, c1] = Sum::default().bytes(&message).bytes(quoted).finish().to_be_bytes();
    packet.extend(&[icmp_type, code, c0, c1, w0, w1, w2, w3]);
    packet.extend(quoted);
}

/// Appends an error about the IPv6 datagram `about`, from `own` to its source, to the empty
/// `packet`.
pub(super) fn write_ipv6(
    cause: Cause,
    about: &[u8],
    [own, destination]: [Ipv6Addr; 2],
    packet: &mut Packet,
) {
    let quoted = about.get(..about.len().min(icmpv6::QUOTED_MAX)).unwrap_or_default();
    let header = ipv6::Header {
        source: own,
        destination,
        hop_limit: HOPS,
        dscp_ecn: CONTROL,
        flow_label: 0,
    };
    let (icmp_type, code, word) = cause.ipv6();
    let [w0, w1, w2, w3] = word.to_be_bytes();
    let mut message = vec![icmp_type, code, 0, 0, w0, w1, w2, w3];
    message.extend_from_slice(quoted);
    icmpv6::seal(own, destination, &mut message);
    packet.extend(&header.emit(58, u16::try_from(message.len()).unwrap_or(u16::MAX)));
    packet.extend(&message);
}

/// Returns whether an address can be the source of a datagram that is routed, and the destination
/// of one: a unicast address that is valid beyond its link.
pub(super) fn is_routable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [first, ..] = v4.octets();
            // 0.0.0.0/8 and 240.0.0.0/4 (RFC 1812 §5.3.7), 224.0.0.0/4 are groups.
            first != 0 && first < 224 && !v4.is_loopback() && !v4.is_link_local()
        }
        IpAddr::V6(v6) => {
            let is_link_local = v6.is_unicast_link_local();
            let is_host_only = v6.is_unspecified() || v6.is_loopback();
            !is_link_local && !is_host_only && !v6.is_multicast() && v6.to_ipv4_mapped().is_none()
        }
    }
}
