//! Processing of received datagrams: header checks, extension headers, fragments, and delivery.

use super::Internet;
use super::datagram::{Datagram, Header, Origin};
use super::icmp;
use super::icmpv6::{self, Report};
use super::interface::DestinationKind;
use super::ipv4::{self, Options, Protocol};
use super::ipv6::{self, End, Problem, Refusal};
use super::reassembly::{Fragment, Key, Outcome, ReassembledDatagram};
use crate::cx::Cx;
use crate::meter::Counter;
use crate::packet::{Packet, Pool};
use core::net::IpAddr;

/// The position in an IPv6 datagram at which the walk over its headers starts or continues.
#[derive(Clone, Copy)]
struct HeaderPosition {
    next_header: u8,
    at: usize,
    next_header_at: usize,
}

/// Minimum length of a TCP header in a first fragment (RFC 3128). A shorter one may be an attempt
/// to evade a packet filter.
const TCP_HEADER_LEN: usize = 20;

impl Internet {
    pub(super) fn process_datagram(
        &mut self,
        packet: Packet,
        origin: Origin,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Datagram> {
        match packet.data().first().map(|first| first >> 4) {
            Some(6) => self.process_v6(packet, origin, pool, cx),
            _ => self.process_v4(packet, origin, pool, cx),
        }
    }

    fn process_v4(
        &mut self,
        mut packet: Packet,
        origin: Origin,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Datagram> {
        let mut parsed = match ipv4::Header::parse(packet.data()) {
            Ok(parsed) => parsed,
            Err(error) => return drop(packet, counter_of(error), pool, cx),
        };
        if parsed.options != Options::Absent {
            cx.meter.count(Counter::IpOptionsSkipped);
        }
        let ipv4::Header { source, destination, protocol, time_to_live, .. } = parsed.header;
        let endpoints = Some((source.into(), destination.into()));
        if origin != Origin::Link || self.recent.last_received != endpoints || time_to_live == 0 {
            if let Err(counter) = self.accept_v4(&parsed.header.into(), origin) {
                self.source_errors.count(counter, source.into());
                return drop(packet, counter, pool, cx);
            }
            // Only the addresses of TCP segments are remembered. The source of an accepted segment
            // is a unicast address, and its destination is a local one, so the next segment needs
            // no check.
            self.recent.last_received = endpoints.filter(|_| protocol == Protocol::Tcp);
        }
        packet.resize(parsed.total_len);
        let is_reassembled = parsed.is_fragment;
        if is_reassembled {
            let reassembled = self.reassemble_v4(packet, &parsed, pool, cx)?;
            packet = join(&reassembled, pool, cx)?;
            // The header of the first fragment is the header of the reassembled datagram.
            parsed = match ipv4::Header::parse(packet.data()) {
                Ok(first) => first,
                Err(error) => return drop(packet, counter_of(error), pool, cx),
            };
            parsed.header.dscp_ecn = parsed.header.dscp_ecn & !ECN | reassembled.ecn;
        }
        packet.pull(parsed.header_len);
        let header = Header::from(parsed.header);
        let header_len = parsed.header_len;
        let datagram = Datagram { header, header_len, is_reassembled, packet };
        if parsed.options == Options::RouteUnfinished {
            // RFC 1122 §3.3.5: a host that does not forward SHOULD send Source Route Failed.
            cx.meter.count(Counter::IpAddressErrors);
            self.report(datagram, icmp::Unreachable::SourceRouteFailed, pool, cx);
            return None;
        }
        self.deliver(datagram, 0, pool, cx)
    }

    /// Checks whether this host accepts a datagram. If not, returns the counter to increment.
    fn accept_v4(&self, header: &Header, origin: Origin) -> Result<(), Counter> {
        if origin == Origin::Loopback {
            return Ok(());
        }
        let is_udp = header.protocol == Protocol::Udp;
        let is_for_groups = is_udp || self.registered_protocols.contains(&header.protocol.into());
        match self.interface.destination_kind(header.destination) {
            DestinationKind::Local => {}
            DestinationKind::Other if self.interface.transparent_for.is_some() => {}
            // RFC 9293 §3.9.2.3: a SYN to a group MUST be discarded. RFC 1122 §3.2.2.6: an echo
            // request to a group MAY be discarded. It is discarded here, because its reply could be
            // used for an attack on the forged source.
            DestinationKind::Group
                if is_for_groups && self.interface.is_member(header.destination) => {}
            DestinationKind::Group | DestinationKind::Other | DestinationKind::Invalid => {
                return Err(Counter::IpAddressErrors);
            }
        }
        // RFC 1122 §3.2.1.3: an invalid source MUST be discarded. The exception is a host that does
        // not know its address yet: it sends from 0.0.0.0, but only to the broadcast address.
        let is_limited_broadcast =
            matches!(header.destination, IpAddr::V4(v4) if v4.is_broadcast());
        let has_no_address_yet = header.source.is_unspecified() && is_limited_broadcast;
        if !(self.interface.may_be_source(header.source) || is_udp && has_no_address_yet) {
            return Err(Counter::IpSourceErrors);
        }
        // RFC 791 §3.2: a datagram with a time to live of zero is discarded. RFC 1122 §3.2.1.7: a
        // datagram with a time to live of one MUST NOT be discarded.
        if header.hop_limit == 0 {
            return Err(Counter::IpTimeExceeded);
        }
        Ok(())
    }

    /// Stores a fragment, and returns the whole datagram if the fragment completes it.
    fn reassemble_v4(
        &mut self,
        packet: Packet,
        parsed: &ipv4::Parsed,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<ReassembledDatagram> {
        let (headers, data) = packet.data().split_at_checked(parsed.header_len).unwrap_or_default();
        let header = &parsed.header;
        let is_first = parsed.fragment_offset == 0;
        // RFC 1858 §3, RFC 3128: no legitimate fragment splits the TCP header.
        let is_tiny = is_first && data.len() < TCP_HEADER_LEN || parsed.fragment_offset == 8;
        if header.protocol == Protocol::Tcp && is_tiny {
            return drop(packet, Counter::IpFragmentsDropped, pool, cx);
        }
        let key = Key {
            source: header.source.into(),
            destination: header.destination.into(),
            identification: header.identification.into(),
            protocol: header.protocol.into(),
        };
        let fragment = Fragment {
            key,
            offset: parsed.fragment_offset,
            more: parsed.more_fragments,
            headers,
            counted_len: parsed.header_len,
            ecn: header.dscp_ecn & ECN,
            data,
        };
        let outcome = self.reassembler.receive(&fragment, cx);
        pool.put(packet);
        match outcome {
            Outcome::ReassembledDatagram(whole) => Some(whole),
            Outcome::Stored | Outcome::Dropped(_) => None,
        }
    }

    fn process_v6(
        &mut self,
        mut packet: Packet,
        origin: Origin,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Datagram> {
        let Ok(parsed) = ipv6::Header::parse(packet.data()) else {
            return drop(packet, Counter::IpHeaderErrors, pool, cx);
        };
        if let Err(counter) = self.accept_v6(&parsed, origin) {
            self.source_errors.count(counter, parsed.header.source.into());
            return drop(packet, counter, pool, cx);
        }
        packet.resize(parsed.total_len);
        let position = HeaderPosition {
            next_header: parsed.next_header,
            at: ipv6::HEADER_LEN,
            next_header_at: ipv6::NEXT_HEADER_AT,
        };
        self.walk(packet, &parsed.header, position, pool, cx)
    }

    fn accept_v6(&self, parsed: &ipv6::Parsed, origin: Origin) -> Result<(), Counter> {
        if origin == Origin::Loopback {
            return Ok(());
        }
        let source = parsed.header.source;
        let destination = parsed.header.destination.into();
        match self.interface.destination_kind(destination) {
            DestinationKind::Local => {}
            DestinationKind::Other if self.interface.transparent_for.is_some() => {}
            DestinationKind::Group if self.interface.is_member(destination) => {}
            DestinationKind::Group | DestinationKind::Other | DestinationKind::Invalid => {
                return Err(Counter::IpAddressErrors);
            }
        }
        // RFC 4862 §5.4.2: a host that checks whether an address is free has no source address.
        let is_icmp = Protocol::from(parsed.next_header) == Protocol::ICMPV6;
        let is_address_probe = source.is_unspecified() && destination.is_multicast() && is_icmp;
        if !self.interface.may_be_source(source.into()) && !is_address_probe {
            return Err(Counter::IpSourceErrors);
        }
        Ok(())
    }

    /// Walks the extension headers of an IPv6 datagram. `packet` still begins with the fixed
    /// header.
    fn walk(
        &mut self,
        packet: Packet,
        fixed: &ipv6::Header,
        position: HeaderPosition,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Datagram> {
        let mut position = position;
        let is_reassembled = position.at > ipv6::HEADER_LEN;
        let mut has_fragment_header = is_reassembled;
        loop {
            let rest = packet.data().get(position.at..).unwrap_or_default();
            let walked =
                ipv6::walk(position.next_header, rest, position.at, position.next_header_at);
            let walk = match walked {
                Ok(walk) => walk,
                Err(refusal) => {
                    self.refuse(packet, fixed, refusal, pool, cx);
                    return None;
                }
            };
            let at = position.at + walk.len;
            let next_header_at = walk.next_header_at;
            match walk.end {
                End::Upper(protocol) => {
                    let mut packet = packet;
                    packet.pull(at);
                    let header = Header::of_v6(fixed, protocol);
                    let datagram = Datagram { header, header_len: at, is_reassembled, packet };
                    return self.deliver(datagram, next_header_at, pool, cx);
                }
                End::Nothing => return drop(packet, Counter::IpProtocolsUnknown, pool, cx),
                // A fragment header inside a reassembled datagram is invalid.
                End::Fragment(_) if has_fragment_header => {
                    return drop(packet, Counter::IpHeaderErrors, pool, cx);
                }
                End::Fragment(fragment) => {
                    position =
                        HeaderPosition { next_header: fragment.next_header, at, next_header_at };
                    if !fragment.is_atomic() {
                        return self.reassemble_v6(packet, fixed, (fragment, position), pool, cx);
                    }
                    has_fragment_header = true;
                }
            }
        }
    }

    /// Stores a fragment. If the fragment completes its datagram, continues the walk after the
    /// fragment header.
    fn reassemble_v6(
        &mut self,
        packet: Packet,
        fixed: &ipv6::Header,
        (fragment, position): (ipv6::Fragment, HeaderPosition),
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Datagram> {
        let (headers, data) = packet.data().split_at_checked(position.at).unwrap_or_default();
        if fragment.offset == 0 && !contains_all_headers(data, position) {
            // RFC 7112 §5: a first fragment without the complete header chain is dropped, and
            // SHOULD be reported.
            let refusal = Refusal::Problem {
                problem: Problem::FirstFragment,
                pointer: position.at,
                allows_group: false,
            };
            cx.meter.count(Counter::IpFragmentsDropped);
            self.refuse(packet, fixed, refusal, pool, cx);
            return None;
        }
        let source = fixed.source.into();
        let destination = fixed.destination.into();
        let identification = fragment.identification;
        let stored_fragment = Fragment {
            key: Key { source, destination, identification, protocol: 0 },
            offset: fragment.offset.into(),
            more: fragment.more,
            headers,
            counted_len: position.at - ipv6::HEADER_LEN - ipv6::FRAGMENT_HEADER_LEN,
            ecn: fixed.dscp_ecn & ECN,
            data,
        };
        match self.reassembler.receive(&stored_fragment, cx) {
            Outcome::ReassembledDatagram(whole) => {
                pool.put(packet);
                let packet = join(&whole, pool, cx)?;
                let position = position_after_headers(&whole.headers);
                let parsed = ipv6::Header::parse(packet.data());
                let Some((position, parsed)) = position.zip(parsed.ok()) else {
                    return drop(packet, Counter::IpHeaderErrors, pool, cx);
                };
                let dscp_ecn = parsed.header.dscp_ecn & !ECN | whole.ecn;
                let fixed = ipv6::Header { dscp_ecn, ..parsed.header };
                self.walk(packet, &fixed, position, pool, cx)
            }
            Outcome::Dropped(refusal) => {
                match problem_from(refusal, position.at) {
                    Some(refusal) => self.refuse(packet, fixed, refusal, pool, cx),
                    None => pool.put(packet),
                }
                None
            }
            Outcome::Stored => {
                pool.put(packet);
                None
            }
        }
    }

    /// Drops an IPv6 datagram with an invalid header, and sends an ICMPv6 error if `refusal`
    /// requires one.
    fn refuse(
        &mut self,
        packet: Packet,
        fixed: &ipv6::Header,
        refusal: Refusal,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) {
        cx.meter.count(Counter::IpHeaderErrors);
        let Refusal::Problem { problem, pointer, allows_group } = refusal else {
            return pool.put(packet);
        };
        let pointer = u32::try_from(pointer).unwrap_or(u32::MAX);
        let report = Report::ParameterProblem { problem, pointer };
        self.report_v6(packet, fixed.source, fixed.destination, (report, allows_group), pool, cx);
    }

    /// Delivers a datagram. For IPv6, `next_header_at` is the offset of the Next Header field that
    /// specifies the datagram's protocol.
    fn deliver(
        &mut self,
        datagram: Datagram,
        next_header_at: usize,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Datagram> {
        let header = &datagram.header;
        let is_v6 = header.destination.is_ipv6();
        match header.protocol {
            Protocol::Tcp if header.destination.is_multicast() => {
                return drop(datagram.packet, Counter::IpAddressErrors, pool, cx);
            }
            Protocol::Tcp | Protocol::Udp => {}
            Protocol::Icmp | Protocol::ICMPV6 if self.is_relayed_echo(&datagram) => {}
            Protocol::Icmp if !is_v6 => {
                self.receive_icmp(datagram, pool, cx);
                return None;
            }
            Protocol::ICMPV6 if is_v6 => return self.receive_icmpv6(datagram, pool, cx),
            Protocol::Other(number) if self.registered_protocols.contains(&number) => {}
            Protocol::Icmp | Protocol::Other(_) => {
                self.report_unknown_protocol(datagram, next_header_at, pool, cx);
                return None;
            }
        }
        cx.meter.count(Counter::IpDatagramsDelivered);
        Some(datagram)
    }
}

/// Mask of the two ECN bits.
const ECN: u8 = 0x03;

impl Internet {
    /// Returns whether a datagram is an echo request for another host, which a transparent host
    /// passes to its application.
    fn is_relayed_echo(&self, datagram: &Datagram) -> bool {
        let header = &datagram.header;
        let is_request = match (header.protocol, header.destination) {
            (Protocol::Icmp, IpAddr::V4(_)) => {
                datagram.packet.data().first() == Some(&icmp::ECHO_REQUEST)
            }
            (_, IpAddr::V6(_)) => datagram.packet.data().first() == Some(&icmpv6::ECHO_REQUEST),
            _ => false,
        };
        is_request && self.acts_for(header.destination) && !self.is_local(header.destination)
    }
}

fn drop<T>(packet: Packet, counter: Counter, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<T> {
    cx.meter.count(counter);
    pool.put(packet);
    None
}

/// Copies the headers and the data of a reassembled datagram into one packet.
fn join(whole: &ReassembledDatagram, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Packet> {
    let mut packet = pool.take(cx.meter)?;
    packet.extend(&whole.headers);
    whole.pieces().for_each(|piece| packet.extend(piece));
    Some(packet)
}

/// Returns the position after the headers of a first fragment. The last of these headers is its
/// fragment header.
fn position_after_headers(headers: &[u8]) -> Option<HeaderPosition> {
    let at = headers.len();
    let next_header_at = at.checked_sub(ipv6::FRAGMENT_HEADER_LEN)?;
    let next_header = *headers.get(next_header_at)?;
    Some(HeaderPosition { next_header, at, next_header_at })
}

/// Returns whether a first fragment contains its complete header chain: all extension headers, and
/// at least the shortest possible upper-layer header.
fn contains_all_headers(data: &[u8], position: HeaderPosition) -> bool {
    match ipv6::walk(position.next_header, data, position.at, position.next_header_at) {
        Ok(walk) => {
            let min_len = match walk.end {
                End::Upper(Protocol::Tcp) => TCP_HEADER_LEN,
                End::Upper(Protocol::Udp | Protocol::ICMPV6) => 8,
                _ => 0,
            };
            data.len() - walk.len >= min_len
        }
        // Other errors are detected after reassembly.
        Err(refusal) => refusal != Refusal::Truncated,
    }
}

/// Returns the ICMPv6 error for a fragment that is invalid by itself (RFC 8200 §4.5); `at` is the
/// offset of its data.
fn problem_from(refusal: super::reassembly::Refusal, at: usize) -> Option<Refusal> {
    use super::reassembly::Refusal::{Duplicate, Empty, Invalidated, Misaligned, TooLong};
    let pointer = match refusal {
        Misaligned => ipv6::PAYLOAD_LENGTH_AT,
        TooLong => at - ipv6::FRAGMENT_HEADER_LEN + 2,
        Empty | Duplicate | Invalidated => return None,
    };
    Some(Refusal::Problem { problem: Problem::Field, pointer, allows_group: false })
}

fn counter_of(error: ipv4::HeaderError) -> Counter {
    match error {
        ipv4::HeaderError::Checksum => Counter::IpChecksumErrors,
        ipv4::HeaderError::Truncated
        | ipv4::HeaderError::Version
        | ipv4::HeaderError::HeaderLength
        | ipv4::HeaderError::TotalLength
        | ipv4::HeaderError::Options => Counter::IpHeaderErrors,
    }
}
