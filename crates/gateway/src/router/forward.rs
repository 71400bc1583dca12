//! The path of one datagram through a router (RFC 1812 §5.2, RFC 8200 §3).

use super::counters::RouterDrop;
use super::fragment;
use super::icmp_error::{self, Cause, is_routable};
use super::line::LineId;
use super::local_echo;
use super::tcp_segment::TcpSegment;
use super::{HOST, ROUTER, Router, sharer_of_line};
use crate::incremental_checksum::{replace_word, word_at};
use crate::queue::SharerId;
use net::Cx;
use net::internet::ipv4::{self, Options, Protocol};
use net::internet::ipv6;
use net::packet::Packet;
use std::net::IpAddr;

const IPV4_TTL_AT: usize = 8;
const IPV4_CHECKSUM_AT: usize = 10;
const IPV6_HOP_LIMIT_AT: usize = 7;

/// A parsed header of either family.
#[derive(Clone, Copy, Debug)]
enum Header {
    V4(ipv4::Parsed),
    V6(ipv6::Parsed),
}

/// An output of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Line(LineId),
    Host,
}

/// Result of the checks of a datagram: its output, or the reason why it is dropped and the error
/// that its source is sent.
type Decision = Result<Output, (RouterDrop, Option<Cause>)>;

impl Header {
    fn parse(datagram: &[u8]) -> Option<Self> {
        match datagram.first()? >> 4 {
            4 => ipv4::Header::parse(datagram).ok().map(Self::V4),
            6 => ipv6::Header::parse(datagram).ok().map(Self::V6),
            _ => None,
        }
    }

    const fn total_len(&self) -> usize {
        match self {
            Self::V4(parsed) => parsed.total_len,
            Self::V6(parsed) => parsed.total_len,
        }
    }

    fn ends(&self) -> [IpAddr; 2] {
        match self {
            Self::V4(parsed) => [parsed.header.source.into(), parsed.header.destination.into()],
            Self::V6(parsed) => [parsed.header.source.into(), parsed.header.destination.into()],
        }
    }

    const fn hops(&self) -> u8 {
        match self {
            Self::V4(parsed) => parsed.header.time_to_live,
            Self::V6(parsed) => parsed.header.hop_limit,
        }
    }

    /// Returns whether the datagram may be fragmented. Routers never fragment IPv6.
    const fn is_divisible(&self) -> bool {
        match self {
            Self::V4(parsed) => !parsed.header.dont_fragment,
            Self::V6(_) => false,
        }
    }

    const fn has_source_route(&self) -> bool {
        match self {
            Self::V4(parsed) => matches!(parsed.options, Options::RouteUnfinished),
            Self::V6(_) => false,
        }
    }

    fn tcp_segment(&self, datagram: &[u8]) -> Option<TcpSegment> {
        match self {
            Self::V4(parsed) => TcpSegment::of_ipv4(parsed, datagram),
            Self::V6(parsed) => TcpSegment::of_ipv6(parsed, datagram),
        }
    }
}

impl Router {
    /// Routes a datagram from a line, or from the host if `from` is `None`.
    pub(super) fn forward(&mut self, from: Option<LineId>, mut packet: Packet, cx: &mut Cx<'_>) {
        let has_offload = packet.offload.segment_size != 0 || packet.tail_len != 0;
        let Some(header) = Header::parse(packet.data()).filter(|_| !has_offload) else {
            return self.drop_packet(packet, RouterDrop::Malformed);
        };
        // Links pad short datagrams.
        packet.resize(header.total_len());
        let sharer = from.map_or(HOST, sharer_of_line);
        match self.decide(from, &header) {
            Ok(output) => {
                decrement_hops(&header, packet.data_mut());
                self.observe_tcp(from, output, &header, &mut packet, cx);
                self.output(output, sharer, &header, packet, cx);
            }
            Err((RouterDrop::Local, _)) => self.receive_local(from, &header, packet, cx),
            Err((reason, cause)) => {
                if let Some(cause) = cause {
                    self.send_error(from, cause, &header, packet.data(), cx);
                }
                self.drop_packet(packet, reason);
            }
        }
    }

    /// Applies the checks in the order of RFC 1812 §5.2.1.2 and selects the output.
    fn decide(&self, from: Option<LineId>, header: &Header) -> Decision {
        let [source, destination] = header.ends();
        if !self.is_source_valid(from, source) {
            return Err((RouterDrop::Source, None));
        }
        if header.has_source_route() {
            return Err((RouterDrop::SourceRoute, None));
        }
        if self.is_own(destination) {
            return Err((RouterDrop::Local, None));
        }
        if !is_routable(destination) {
            return Err((RouterDrop::Destination, None));
        }
        let unreachable = Some(Cause::HostUnreachable);
        let line = self.line_of(destination);
        let output = match line {
            // A datagram never returns to the line that it came from.
            Some(line) if Some(line) == from => {
                return Err((RouterDrop::NoRoute, unreachable));
            }
            Some(line) => Output::Line(line),
            None if self.has_failed(destination) => {
                return Err((RouterDrop::LineDown, unreachable));
            }
            None if from.is_some() => Output::Host,
            None => return Err((RouterDrop::NoRoute, unreachable)),
        };
        if let Output::Line(id) = output
            && !self.lines.get(&id).is_some_and(|line| line.is_up())
        {
            return Err((RouterDrop::LineDown, unreachable));
        }
        if header.hops() <= 1 {
            return Err((RouterDrop::TimeExceeded, Some(Cause::TimeExceeded)));
        }
        let mtu = self.mtu(output);
        if header.total_len() > mtu && !header.is_divisible() {
            return Err((RouterDrop::TooBig, Some(Cause::TooBig { mtu })));
        }
        Ok(output)
    }

    /// Returns whether a datagram from a line or from the host may have this source: only the
    /// address of the line (RFC 2827), and never an address of a line from the host.
    fn is_source_valid(&self, from: Option<LineId>, source: IpAddr) -> bool {
        match from {
            Some(id) => self.lines.get(&id).is_some_and(|line| line.owns(source)),
            None => {
                let is_of_line = self.line_of(source).is_some() || self.has_failed(source);
                is_routable(source) && !self.is_own(source) && !is_of_line
            }
        }
    }

    /// Returns whether an address belongs to the host at a line that has failed.
    fn has_failed(&self, address: IpAddr) -> bool {
        self.failed.iter().any(|line| line.owns(address))
    }

    fn is_own(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => v4 == self.settings.address,
            IpAddr::V6(v6) => Some(v6) == self.settings.address_v6,
        }
    }

    fn line_of(&self, address: IpAddr) -> Option<LineId> {
        match address {
            IpAddr::V4(v4) => self.lines_by_address.get(&v4).copied(),
            IpAddr::V6(_) => {
                self.lines.iter().find(|(_, line)| line.owns(address)).map(|(id, _)| *id)
            }
        }
    }

    fn mtu(&self, output: Output) -> usize {
        match output {
            Output::Host => self.settings.host_mtu,
            Output::Line(id) => self.lines.get(&id).map_or(0, |line| line.mtu()),
        }
    }

    /// Observes a TCP segment that passes, and limits its window.
    fn observe_tcp(
        &mut self,
        from: Option<LineId>,
        output: Output,
        header: &Header,
        packet: &mut Packet,
        cx: &Cx<'_>,
    ) {
        let Some(segment) = header.tcp_segment(packet.data()) else { return };
        if let Output::Line(id) = output
            && let Some((windows, _)) = self.lines.get_mut(&id).and_then(|line| line.windows())
        {
            windows.observe(&segment, cx.now);
        }
        let from = from.and_then(|id| self.lines.get_mut(&id));
        let Some((windows, queue)) = from.and_then(|line| line.windows()) else { return };
        if let Some(field) = windows.limited_field(&segment, queue, cx.now) {
            let (window_at, checksum_at) = segment.window_and_checksum_at();
            if replace_word(packet.data_mut(), window_at, field, checksum_at).is_some() {
                self.counters.windows_lowered += 1;
            }
        }
    }

    /// Queues a datagram for its output, in fragments if it is longer than the MTU.
    fn output(
        &mut self,
        output: Output,
        sharer: SharerId,
        header: &Header,
        packet: Packet,
        cx: &mut Cx<'_>,
    ) {
        let mtu = self.mtu(output);
        let parsed = match header {
            Header::V4(parsed) if packet.len() > mtu => parsed,
            Header::V4(_) | Header::V6(_) => return self.enqueue(output, sharer, packet, cx),
        };
        let Some(fragments) = fragment::split(packet.data(), parsed, mtu) else {
            return self.drop_packet(packet, RouterDrop::Malformed);
        };
        let mut packets = Vec::new();
        for (fragment_header, range) in fragments {
            let Some(mut fragment) = self.pool.take(cx.meter) else {
                // An incomplete datagram is of no use.
                packets.into_iter().for_each(|fragment| self.pool.put(fragment));
                return self.drop_packet(packet, RouterDrop::NoBuffer);
            };
            fragment.extend(&fragment_header);
            fragment.extend(packet.data().get(range).unwrap_or_default());
            packets.push(fragment);
        }
        self.pool.put(packet);
        self.counters.generated += (packets.len() as u64).saturating_sub(1);
        for fragment in packets {
            self.enqueue(output, sharer, fragment, cx);
        }
    }

    fn enqueue(&mut self, output: Output, sharer: SharerId, packet: Packet, cx: &mut Cx<'_>) {
        match output {
            Output::Host => self.host_queue.enqueue(sharer, packet, &mut self.pool, cx),
            Output::Line(id) => match self.lines.get_mut(&id) {
                Some(line) => line.queue_mut().enqueue(sharer, packet, &mut self.pool, cx),
                None => self.drop_packet(packet, RouterDrop::NoRoute),
            },
        }
    }

    /// Processes a datagram to the router itself.
    fn receive_local(
        &mut self,
        from: Option<LineId>,
        header: &Header,
        mut packet: Packet,
        cx: &mut Cx<'_>,
    ) {
        let reply = match header {
            Header::V4(parsed) => local_echo::reply_ipv4(parsed, packet.data_mut()),
            Header::V6(parsed) => local_echo::reply_ipv6(parsed, packet.data_mut()),
        };
        if reply.is_some() {
            self.counters.echoes += 1;
            let Some(reply_header) = Header::parse(packet.data()) else {
                return self.drop_packet(packet, RouterDrop::Local);
            };
            let output = from.map_or(Output::Host, Output::Line);
            return self.output(output, ROUTER, &reply_header, packet, cx);
        }
        if let Some(cause) = local_cause(header) {
            self.send_error(from, cause, header, packet.data(), cx);
        }
        self.drop_packet(packet, RouterDrop::Local);
    }

    /// Sends an ICMP error about a datagram to its source, if the rules and the rate permit it.
    fn send_error(
        &mut self,
        to: Option<LineId>,
        cause: Cause,
        header: &Header,
        about: &[u8],
        cx: &mut Cx<'_>,
    ) {
        let may_report = match header {
            Header::V4(parsed) => icmp_error::may_report_ipv4(parsed, about),
            Header::V6(parsed) => {
                self.settings.address_v6.is_some() && icmp_error::may_report_ipv6(parsed, about)
            }
        };
        let [source, _] = header.ends();
        if !may_report {
            return;
        }
        if !self.error_limit.allows(source, cx) {
            self.counters.errors_limited += 1;
            return;
        }
        let Some(mut packet) = self.pool.take(cx.meter) else { return };
        match (header, self.settings.address_v6) {
            (Header::V4(parsed), _) => {
                let ends = [self.settings.address, parsed.header.source];
                let identification = u16::try_from(cx.rng.below(1 << 16)).unwrap_or(0);
                icmp_error::write_ipv4(cause, about, ends, identification, &mut packet);
            }
            (Header::V6(parsed), Some(own)) => {
                icmp_error::write_ipv6(cause, about, [own, parsed.header.source], &mut packet);
            }
            (Header::V6(_), None) => return self.pool.put(packet),
        }
        self.counters.generated += 1;
        self.counters.errors_sent += 1;
        match Header::parse(packet.data()) {
            Some(header) => {
                self.output(to.map_or(Output::Host, Output::Line), ROUTER, &header, packet, cx);
            }
            None => self.drop_packet(packet, RouterDrop::Malformed),
        }
    }

    fn drop_packet(&mut self, packet: Packet, reason: RouterDrop) {
        self.counters.drops.count(reason);
        self.pool.put(packet);
    }
}

/// Returns the error about a datagram that the router does not accept.
const fn local_cause(header: &Header) -> Option<Cause> {
    match header {
        Header::V4(parsed) => match parsed.header.protocol {
            Protocol::Icmp => None,
            Protocol::Tcp | Protocol::Udp => Some(Cause::PortUnreachable),
            Protocol::Other(_) => Some(Cause::ProtocolUnreachable),
        },
        Header::V6(parsed) => match parsed.next_header {
            6 | 17 => Some(Cause::PortUnreachable),
            _ => None,
        },
    }
}

/// Decrements the time to live of an IPv4 datagram with its checksum, or the hop limit of an IPv6
/// datagram.
fn decrement_hops(header: &Header, datagram: &mut [u8]) {
    match header {
        Header::V4(_) => {
            if let Some(word) = word_at(datagram, IPV4_TTL_AT) {
                replace_word(datagram, IPV4_TTL_AT, word.wrapping_sub(1 << 8), IPV4_CHECKSUM_AT);
            }
        }
        Header::V6(parsed) => {
            if let Some(hop_limit) = datagram.get_mut(IPV6_HOP_LIMIT_AT) {
                *hop_limit = parsed.header.hop_limit.saturating_sub(1);
            }
        }
    }
}
