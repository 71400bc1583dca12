//! ICMP errors for the guest about datagrams that the host could not deliver (RFC 792, RFC 1122
//! §3.2.2.1, RFC 4443 §3, RFC 5508 §4).
//!
//! The host's kernel reports a failure to the socket of a flow, as an ICMP message of a router or of
//! the destination, or as an error of its own. The guest receives the ICMP error that it would have
//! received without a gateway: from the same router, and with a quotation of its own datagram. An
//! error without a router comes from the gateway.
//!
//! The number of errors per second is limited (RFC 1812 §4.3.2.8, RFC 4443 §2.4 f). No error is sent
//! about a datagram to a group or to a broadcast address (RFC 1122 §3.2.2).

use crate::rate::Rate;
use net::Cx;
use net::internet::icmp::{self, ErrorKind, Unreachable};
use net::internet::ipv4::{self, Protocol};
use net::internet::{self, icmpv6, ipv6};
use net::station::Layers;
use std::net::{IpAddr, SocketAddr};

/// Maximum number of errors per second. A traceroute has 16 probes outstanding at once.
const ERRORS_PER_S: u32 = 100;
/// Maximum length of the quotation after the headers, in bytes. The whole error fits 576 bytes
/// (RFC 1812 §4.3.2.3).
const QUOTED_MAX: usize = 508;
const UDP_HEADER_LEN: usize = 8;
/// Difference between the lengths of the headers of IPv6 and IPv4, by which a path MTU changes if
/// the gateway has translated the address.
const HEADER_DIFFERENCE: u16 = 20;
/// Minimum MTU of IPv4 (RFC 791).
const IPV4_MTU_MIN: u16 = 68;

/// The failure of a datagram of a flow, as the host's kernel reports it.
#[derive(Clone, Copy, Debug)]
pub struct FlowError<'a> {
    /// The destination of the datagram as the host reaches it. The port is 0 for an echo request,
    /// and if the host does not report it: Linux does not for a path MTU that it knows itself.
    pub to: SocketAddr,
    /// The error.
    pub kind: ErrorKind,
    /// The host or router that has reported the error, if it was not the host itself.
    pub reporter: Option<IpAddr>,
    /// The beginning of the data of the datagram; for an echo request, of the message.
    pub payload: &'a [u8],
}

/// Numbers of errors since the guest was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Errors sent to the guest.
    pub sent: u64,
    /// Errors not sent because of the limit per second.
    pub over_rate: u64,
}

/// A datagram of the guest, as an error quotes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quotation<'a> {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: Protocol,
    /// The header of the transport.
    pub(crate) header: &'a [u8],
    pub(crate) payload: &'a [u8],
}

/// The errors for one guest.
#[derive(Debug)]
pub(crate) struct HostErrors {
    limit: Rate,
    counters: Counters,
}

impl HostErrors {
    pub(crate) fn new() -> Self {
        Self { limit: Rate::new(ERRORS_PER_S), counters: Counters::default() }
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// Sends an error about a datagram of the guest. `reporter` has the family of the guest's
    /// addresses.
    pub(crate) fn send(
        &mut self,
        kind: ErrorKind,
        reporter: IpAddr,
        about: &Quotation<'_>,
        layers: &mut Layers,
        cx: &mut Cx<'_>,
    ) {
        if is_group(about.destination) {
            return;
        }
        if !self.limit.allows(cx.now) {
            self.counters.over_rate += 1;
            return;
        }
        let Some(message) = message(kind, reporter, about) else { return };
        let Some(mut packet) = layers.pool.take(cx.meter) else { return };
        packet.extend(&message);
        let protocol = if reporter.is_ipv4() { Protocol::Icmp } else { Protocol::ICMPV6 };
        let to = internet::Header::to(about.source, protocol);
        layers.send_packet(packet, internet::Header { source: reporter, ..to }, cx);
        self.counters.sent += 1;
    }
}

/// Returns the header of a UDP datagram with `len` bytes of data, for a quotation.
pub(crate) fn udp_header(source: u16, destination: u16, len: usize) -> [u8; UDP_HEADER_LEN] {
    let [s0, s1] = source.to_be_bytes();
    let [d0, d1] = destination.to_be_bytes();
    let [l0, l1] = u16::try_from(len + UDP_HEADER_LEN).unwrap_or(u16::MAX).to_be_bytes();
    [s0, s1, d0, d1, l0, l1, 0, 0]
}

/// Returns the error for a guest that uses another version of IP than the host.
pub(crate) fn translate(kind: ErrorKind, host: IpAddr, guest: IpAddr) -> ErrorKind {
    let ErrorKind::FragmentationNeeded { next_hop_mtu: Some(mtu) } = kind else { return kind };
    let mtu = match (host.is_ipv4(), guest.is_ipv4()) {
        (true, false) => mtu.saturating_add(HEADER_DIFFERENCE),
        (false, true) => mtu.saturating_sub(HEADER_DIFFERENCE),
        _ => mtu,
    };
    ErrorKind::FragmentationNeeded { next_hop_mtu: Some(mtu.max(IPV4_MTU_MIN)) }
}

fn is_group(destination: IpAddr) -> bool {
    match destination {
        // The guest may take the last address of any network for a broadcast address.
        IpAddr::V4(v4) => v4.is_multicast() || v4.octets().last() == Some(&u8::MAX),
        IpAddr::V6(v6) => v6.is_multicast(),
    }
}

/// Returns the ICMP message, or `None` for addresses of different versions.
fn message(kind: ErrorKind, reporter: IpAddr, about: &Quotation<'_>) -> Option<Vec<u8>> {
    let payload = about.payload.get(..QUOTED_MAX).unwrap_or(about.payload);
    let len = about.header.len() + about.payload.len();
    let short = |len: usize| u16::try_from(len).unwrap_or(u16::MAX);
    match (about.source, about.destination, reporter) {
        (IpAddr::V4(source), IpAddr::V4(destination), IpAddr::V4(_)) => {
            let header = ipv4::Header {
                source,
                destination,
                protocol: about.protocol,
                time_to_live: 1,
                identification: 0,
                dscp_ecn: 0,
                dont_fragment: true,
            };
            let header = header.emit(short(len + ipv4::HEADER_LEN));
            let first = header_v4(kind);
            let mut message = [first.as_slice(), &header, about.header, payload].concat();
            icmp::seal(&mut message);
            Some(message)
        }
        (IpAddr::V6(source), IpAddr::V6(destination), IpAddr::V6(reporter)) => {
            let header =
                ipv6::Header { source, destination, hop_limit: 1, dscp_ecn: 0, flow_label: 0 };
            let header = header.emit(about.protocol.into(), short(len));
            let first = header_v6(kind);
            let mut message = [first.as_slice(), &header, about.header, payload].concat();
            icmpv6::seal(reporter, source, &mut message);
            Some(message)
        }
        _ => None,
    }
}

/// Returns the header of an ICMP error without its checksum.
fn header_v4(kind: ErrorKind) -> [u8; icmp::HEADER_LEN] {
    let (message_type, code, mtu) = match kind {
        ErrorKind::Unreachable(reason) => (3, code_v4(reason), 0),
        ErrorKind::FragmentationNeeded { next_hop_mtu } => (3, 4, next_hop_mtu.unwrap_or(0)),
        ErrorKind::TimeExceeded => (11, 0, 0),
        ErrorKind::ParameterProblem => (12, 0, 0),
    };
    let [m0, m1] = mtu.to_be_bytes();
    [message_type, code, 0, 0, 0, 0, m0, m1]
}

fn code_v4(reason: Unreachable) -> u8 {
    match reason {
        Unreachable::Network => 0,
        Unreachable::Host => 1,
        Unreachable::Protocol => 2,
        Unreachable::Port => 3,
        Unreachable::SourceRouteFailed => 5,
        Unreachable::Prohibited => 13,
        Unreachable::Other(code) => code,
    }
}

/// Returns the header of an ICMPv6 error without its checksum.
fn header_v6(kind: ErrorKind) -> [u8; icmp::HEADER_LEN] {
    let (message_type, code, mtu) = match kind {
        ErrorKind::Unreachable(Unreachable::Network) => (1, 0, 0),
        ErrorKind::Unreachable(Unreachable::Prohibited) => (1, 1, 0),
        ErrorKind::Unreachable(Unreachable::Port) => (1, 4, 0),
        ErrorKind::Unreachable(_) => (1, 3, 0),
        ErrorKind::FragmentationNeeded { next_hop_mtu } => (2, 0, next_hop_mtu.unwrap_or(1280)),
        ErrorKind::TimeExceeded => (3, 0, 0),
        ErrorKind::ParameterProblem => (4, 0, 0),
    };
    let [m0, m1] = mtu.to_be_bytes();
    [message_type, code, 0, 0, 0, 0, m0, m1]
}

/// Returns the error that an ICMP message with this type and code reports (RFC 792, RFC 1191).
#[must_use]
pub fn kind_of_icmp(message_type: u8, code: u8, mtu: u32) -> Option<ErrorKind> {
    Some(match (message_type, code) {
        (3, 0 | 6 | 11) => ErrorKind::Unreachable(Unreachable::Network),
        (3, 1 | 7 | 8 | 12) => ErrorKind::Unreachable(Unreachable::Host),
        (3, 2) => ErrorKind::Unreachable(Unreachable::Protocol),
        (3, 3) => ErrorKind::Unreachable(Unreachable::Port),
        (3, 4) => too_big(mtu),
        (3, 5) => ErrorKind::Unreachable(Unreachable::SourceRouteFailed),
        (3, 9 | 10 | 13) => ErrorKind::Unreachable(Unreachable::Prohibited),
        (3, code) => ErrorKind::Unreachable(Unreachable::Other(code)),
        (11, _) => ErrorKind::TimeExceeded,
        (12, _) => ErrorKind::ParameterProblem,
        _ => return None,
    })
}

/// Returns the error that an ICMPv6 message with this type and code reports (RFC 4443 §3).
#[must_use]
pub fn kind_of_icmpv6(message_type: u8, code: u8, mtu: u32) -> Option<ErrorKind> {
    Some(match (message_type, code) {
        (1, 0) => ErrorKind::Unreachable(Unreachable::Network),
        (1, 1 | 5 | 6) => ErrorKind::Unreachable(Unreachable::Prohibited),
        (1, 4) => ErrorKind::Unreachable(Unreachable::Port),
        (1, _) => ErrorKind::Unreachable(Unreachable::Host),
        (2, _) => too_big(mtu),
        (3, _) => ErrorKind::TimeExceeded,
        (4, 1) => ErrorKind::Unreachable(Unreachable::Protocol),
        (4, _) => ErrorKind::ParameterProblem,
        _ => return None,
    })
}

/// Returns the error about a datagram that is longer than a path MTU of `mtu` bytes; 0 if the MTU is
/// unknown.
#[must_use]
pub fn too_big(mtu: u32) -> ErrorKind {
    let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
    ErrorKind::FragmentationNeeded { next_hop_mtu: (mtu > 0).then_some(mtu) }
}
