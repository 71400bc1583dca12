//! ICMP and ICMPv6 of a host: echo replies, received errors, and sent errors.

use super::Internet;
use super::datagram::{Datagram, Header, SendError};
use super::icmp::{self, EchoReply, ErrorKind, IcmpError, Unreachable};
use super::icmpv6::{self, Report};
use super::interface::DestinationKind;
use super::ipv4::{self, Protocol};
use super::ipv6::{self, Problem};
use super::output::SendOutcome;
use super::path_mtu::plateau_below;
use super::queues::{EVENTS_LIMIT, Event, PENDING_LIMIT, PROBES_LIMIT, Probe};
use super::reassembly::ExpiredDatagram;
use crate::cx::Cx;
use crate::meter::{Account, Counter};
use crate::packet::{Offload, Packet, Pool};
use core::net::{IpAddr, Ipv6Addr};

/// Mask of the DSCP bits. An echo reply copies the DSCP of its request, but not the ECN bits.
const DSCP: u8 = 0xFC;
/// Hop limit of every message of Neighbor Discovery (RFC 4861 §4). A message with 255 was not
/// forwarded by a router.
const HOP_LIMIT_MAX: u8 = 255;

impl Internet {
    /// Reports to the source of a datagram why it was not delivered here, unless RFC 1122 §3.2.2,
    /// RFC 4443 §2.4 or the limit for that source forbids it.
    ///
    /// The packet of `datagram` must be unchanged since it was received. The packet becomes the
    /// queued error, or is returned to `pool`.
    pub fn report(
        &mut self,
        datagram: Datagram,
        reason: Unreachable,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) {
        let caller = cx.meter.enter(Account::Internet);
        let Datagram { header, header_len, mut packet, .. } = datagram;
        match (header.source, header.destination) {
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                packet.unpull(header_len);
                let report = (Report::Unreachable(reason), false);
                self.report_v6(packet, source, destination, report, pool, cx);
            }
            _ => {
                // RFC 1122 §3.2.2: the header and the first 8 bytes MUST be quoted unchanged. More
                // bytes MAY be quoted. They are left out, because 500 bytes take half a second at
                // 9,600 bit/s.
                packet.resize(packet.len().min(icmp::QUOTED_LEN));
                packet.unpull(header_len);
                self.report_v4(packet, &header, icmp::unreachable(reason), pool, cx);
            }
        }
        cx.meter.enter(caller);
    }

    /// Reports that a datagram's protocol is not supported.
    pub(super) fn report_unknown_protocol(
        &mut self,
        datagram: Datagram,
        next_header_at: usize,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) {
        cx.meter.count(Counter::IpProtocolsUnknown);
        let (IpAddr::V6(source), IpAddr::V6(destination)) =
            (datagram.header.source, datagram.header.destination)
        else {
            // RFC 1122 §3.2.2.1: a host SHOULD report an unsupported protocol.
            return self.report(datagram, Unreachable::Protocol, pool, cx);
        };
        let mut packet = datagram.packet;
        packet.unpull(datagram.header_len);
        let pointer = u32::try_from(next_header_at).unwrap_or(u32::MAX);
        let report = Report::ParameterProblem { problem: Problem::NextHeader, pointer };
        self.report_v6(packet, source, destination, (report, false), pool, cx);
    }

    /// Reports that some fragments of a datagram did not arrive in time.
    pub(super) fn report_expired(
        &mut self,
        expired: &ExpiredDatagram,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) {
        let Some(mut packet) = pool.take(cx.meter) else { return };
        packet.extend(&expired.headers);
        let source = expired.key.source;
        let destination = expired.key.destination;
        if let (IpAddr::V6(source), IpAddr::V6(destination)) = (source, destination) {
            packet.extend(&expired.data);
            let report = (Report::ReassemblyTimeExceeded, false);
            return self.report_v6(packet, source, destination, report, pool, cx);
        }
        packet.extend(expired.data.get(..icmp::QUOTED_LEN).unwrap_or(&expired.data));
        let protocol = expired.key.protocol.into();
        let header = Header { source, ..Header::to(destination, protocol) };
        self.report_v4(packet, &header, icmp::REASSEMBLY_TIME_EXCEEDED, pool, cx);
    }

    /// Turns `packet` into an ICMP error. `packet` contains the bytes to quote, and `header` is the
    /// header of the quoted datagram.
    fn report_v4(
        &mut self,
        mut packet: Packet,
        header: &Header,
        error: [u8; icmp::HEADER_LEN],
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) {
        // RFC 1122 §3.2.2: the cases in which an error MUST NOT be sent.
        let may_report = header.protocol != Protocol::Icmp
            && self.acts_for(header.destination)
            && (self.interface.may_be_source(header.source) || self.is_local(header.source));
        if !may_report || !self.limiter.allows(header.source, cx) {
            cx.meter.count(Counter::IcmpErrorsSuppressed);
            return pool.put(packet);
        }
        packet.push(&error);
        icmp::seal(packet.data_mut());
        let reply =
            Header { source: header.destination, ..Header::to(header.source, Protocol::Icmp) };
        self.enqueue((packet, Counter::IcmpErrorsOut), reply, pool, cx);
    }

    /// Turns `packet`, a datagram with its headers, into an ICMPv6 error that quotes the datagram.
    pub(super) fn report_v6(
        &mut self,
        mut packet: Packet,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        (report, allows_group): (Report, bool),
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) {
        let quoted = ipv6::parse_quoted(packet.data()).ok();
        let content = quoted.filter(|quoted| quoted.protocol == Protocol::ICMPV6);
        let content = content.and_then(|quoted| packet.data().get(quoted.headers_len..));
        let content = content.unwrap_or_default();
        if !icmpv6::may_report(report, source, destination, content, allows_group)
            || !self.limiter.allows(source.into(), cx)
        {
            cx.meter.count(Counter::IcmpErrorsSuppressed);
            return pool.put(packet);
        }
        packet.offload = Offload::default();
        packet.resize(packet.len().min(icmpv6::QUOTED_MAX));
        packet.push(&report.header());
        let ours = match self.acts_for(destination.into()) {
            true => destination.into(),
            false => self.source_for(source.into()),
        };
        self.queue_icmpv6(packet, Counter::IcmpErrorsOut, (ours, source), 0, pool, cx);
    }

    pub(super) fn receive_icmp(&mut self, datagram: Datagram, pool: &mut Pool, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::IcmpIn);
        let Datagram { header, mut packet, .. } = datagram;
        match icmp::Message::parse(packet.data()) {
            Ok(icmp::Message::EchoRequest) => {
                icmp::make_reply(packet.data_mut());
                // RFC 1122 §3.2.2.6 requires that options are copied and source routes are
                // reversed. This host does neither, because forged options could then choose the
                // destination of the reply (CVE-2021-31344).
                let pending = (packet, Counter::IcmpEchoesAnswered);
                let dscp_ecn = header.dscp_ecn & DSCP;
                let reply = Header::to(header.source, Protocol::Icmp);
                let reply = Header { source: header.destination, dscp_ecn, ..reply };
                return self.enqueue(pending, reply, pool, cx);
            }
            Ok(icmp::Message::EchoReply { identifier, sequence, payload_len }) => {
                self.process_reply(&header, (identifier, sequence), payload_len, cx);
            }
            Ok(icmp::Message::Error { kind, quoted, first_bytes }) => {
                if quoted.fragment_offset == 0 {
                    let error = quoted.header.into();
                    let quotation = (quoted.total_len, first_bytes);
                    self.process_error(header.source, kind, &error, quotation, cx);
                } else {
                    cx.meter.count(Counter::IcmpErrors);
                }
            }
            Ok(icmp::Message::Ignored) => cx.meter.count(Counter::IcmpIgnored),
            Err(_) => cx.meter.count(Counter::IcmpErrors),
        }
        pool.put(packet);
    }

    /// Processes an ICMPv6 message, and returns it if it is for Neighbor Discovery.
    pub(super) fn receive_icmpv6(
        &mut self,
        datagram: Datagram,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Datagram> {
        cx.meter.count(Counter::IcmpIn);
        let (IpAddr::V6(source), IpAddr::V6(destination)) =
            (datagram.header.source, datagram.header.destination)
        else {
            pool.put(datagram.packet);
            return None;
        };
        let header = datagram.header;
        match icmpv6::Message::parse(source, destination, datagram.packet.data()) {
            // RFC 4861 §6.1, §7.1: a message with a lower hop limit was forwarded and is dropped.
            Ok(icmpv6::Message::NeighborDiscovery) if header.hop_limit == HOP_LIMIT_MAX => {
                cx.meter.count(Counter::IpDatagramsDelivered);
                return Some(datagram);
            }
            // RFC 4443 §4.2: an echo request to a group SHOULD be answered. It is not answered
            // here, because the reply could be used for an attack on the forged source.
            Ok(icmpv6::Message::EchoRequest)
                if self.is_local(header.destination) && !source.is_unspecified() =>
            {
                let mut packet = datagram.packet;
                icmpv6::make_reply(packet.data_mut());
                let counter = Counter::IcmpEchoesAnswered;
                let dscp_ecn = header.dscp_ecn & DSCP;
                let addresses = (header.destination, source);
                self.queue_icmpv6(packet, counter, addresses, dscp_ecn, pool, cx);
                return None;
            }
            Ok(icmpv6::Message::EchoReply { identifier, sequence, payload_len }) => {
                self.process_reply(&header, (identifier, sequence), payload_len, cx);
            }
            Ok(icmpv6::Message::Error { kind, quoted, first_bytes })
                if !quoted.is_later_fragment =>
            {
                let quoted_header = Header::of_v6(&quoted.parsed.header, quoted.protocol);
                let quotation = (quoted.parsed.total_len, first_bytes);
                self.process_error(header.source, kind, &quoted_header, quotation, cx);
            }
            Ok(icmpv6::Message::EchoRequest | icmpv6::Message::Ignored) => {
                cx.meter.count(Counter::IcmpIgnored);
            }
            Ok(icmpv6::Message::NeighborDiscovery | icmpv6::Message::Error { .. }) | Err(_) => {
                cx.meter.count(Counter::IcmpErrors);
            }
        }
        pool.put(datagram.packet);
        None
    }

    /// Processes an ICMP error. The quoted datagram has the header `quoted_header`, the length
    /// `total_len` and the payload `first_bytes`.
    fn process_error(
        &mut self,
        reporter: IpAddr,
        kind: ErrorKind,
        quoted_header: &Header,
        (total_len, first_bytes): (usize, [u8; icmp::QUOTED_LEN]),
        cx: &mut Cx<'_>,
    ) {
        let Header { protocol, source, destination, .. } = *quoted_header;
        // This host sends only from local addresses, so an error that quotes another source is
        // forged.
        if self.interface.destination_kind(source) != DestinationKind::Local {
            return cx.meter.count(Counter::IcmpErrors);
        }
        let kind = match kind {
            ErrorKind::FragmentationNeeded { next_hop_mtu } => {
                let mtu = next_hop_mtu.unwrap_or_else(|| plateau_below(total_len));
                if self.is_probe(quoted_header, first_bytes) {
                    self.lower_path_mtu(destination, mtu, cx);
                }
                ErrorKind::FragmentationNeeded { next_hop_mtu: Some(mtu) }
            }
            other => other,
        };
        let error = IcmpError { kind, reporter, protocol, source, destination, first_bytes };
        self.push_event(Event::Error(error), cx);
    }

    /// Returns whether an ICMP error quotes an unanswered echo request of this host. The array
    /// contains the first bytes of the quoted payload.
    fn is_probe(
        &self,
        quoted_header: &Header,
        [message_type, .., i0, i1, s0, s1]: [u8; 8],
    ) -> bool {
        let identifier = u16::from_be_bytes([i0, i1]);
        let sequence = u16::from_be_bytes([s0, s1]);
        let is_echo = match quoted_header.protocol {
            Protocol::Icmp => message_type == icmp::ECHO_REQUEST,
            Protocol::ICMPV6 => message_type == icmpv6::ECHO_REQUEST,
            _ => false,
        };
        is_echo
            && self.probes.iter().any(|probe| {
                probe.destination == quoted_header.destination
                    && (probe.identifier, probe.sequence) == (identifier, sequence)
            })
    }

    fn process_reply(
        &mut self,
        header: &Header,
        (identifier, sequence): (u16, u16),
        payload_len: usize,
        cx: &mut Cx<'_>,
    ) {
        let index = self.probes.iter().position(|probe| {
            probe.destination == header.source
                && probe.identifier == identifier
                && probe.sequence == sequence
                && probe.payload_len == payload_len
        });
        let Some(probe) = index.and_then(|place| self.probes.remove(place)) else {
            return cx.meter.count(Counter::IcmpIgnored);
        };
        let reply = EchoReply {
            source: header.source,
            identifier,
            sequence,
            payload_len,
            round_trip: cx.now - probe.sent_at,
            time_to_live: header.hop_limit,
        };
        self.push_event(Event::EchoReply(reply), cx);
    }

    fn push_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        if self.events.len() == EVENTS_LIMIT {
            return cx.meter.count(Counter::IcmpEventsDropped);
        }
        if matches!(event, Event::Error(_)) {
            cx.meter.count(Counter::IcmpErrorsDelivered);
        }
        self.events.push_back(event);
    }

    /// Makes an echo request with `payload_len` bytes of data. Like [`Self::send`], returns the
    /// datagram for the link, or `None` if it was looped back or is fragmented.
    ///
    /// The reply is reported as [`Event::EchoReply`] if it arrives before the next 64 requests are
    /// made.
    ///
    /// # Errors
    ///
    /// Returns an error if the datagram cannot be sent.
    pub fn make_echo_request(
        &mut self,
        destination: IpAddr,
        identifier: u16,
        sequence: u16,
        payload_len: u16,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Packet>, SendError> {
        // Check the length before the packet grows to it.
        let payload_len = usize::from(payload_len);
        let message_len = payload_len + icmp::HEADER_LEN;
        if message_len + ipv4::HEADER_LEN > usize::from(u16::MAX) {
            return Err(SendError::TooBig { mtu: u16::MAX });
        }
        if self.interface.destination_kind(destination) == DestinationKind::Group {
            return Err(SendError::Destination);
        }
        let mut packet = pool.take(cx.meter).ok_or(SendError::NoBuffer)?;
        packet.resize(payload_len);
        packet.data_mut().iter_mut().zip((0..=255).cycle()).for_each(|(to, byte)| *to = byte);
        let source = self.source_for(destination);
        let protocol = match (source, destination) {
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                packet.push(&icmpv6::echo_request(identifier, sequence));
                icmpv6::seal(source, destination, packet.data_mut());
                Protocol::ICMPV6
            }
            _ => {
                packet.push(&icmp::echo_request(identifier, sequence));
                icmp::seal(packet.data_mut());
                Protocol::Icmp
            }
        };
        let header = Header { source, ..Header::to(destination, protocol) };
        let packet = self.send(packet, header, pool, cx)?;
        if self.probes.len() == PROBES_LIMIT {
            self.probes.pop_front();
        }
        let probe = Probe { destination, identifier, sequence, payload_len, sent_at: cx.now };
        self.probes.push_back(probe);
        Ok(packet)
    }

    fn queue_icmpv6(
        &mut self,
        mut packet: Packet,
        counter: Counter,
        (ours, theirs): (IpAddr, Ipv6Addr),
        dscp_ecn: u8,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) {
        if let IpAddr::V6(ours) = ours {
            icmpv6::seal(ours, theirs, packet.data_mut());
        }
        let reply =
            Header { source: ours, dscp_ecn, ..Header::to(theirs.into(), Protocol::ICMPV6) };
        self.enqueue((packet, counter), reply, pool, cx);
    }

    /// Queues an ICMP message for [`Internet::transmit`]. `counter` is incremented when the message
    /// is sent.
    fn enqueue(
        &mut self,
        (mut packet, counter): (Packet, Counter),
        header: Header,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) {
        packet.offload = Offload::default();
        match self.prepare_output(packet, header, pool, cx) {
            Ok(SendOutcome::Unfragmented(packet)) => self.pending.push_back((packet, counter)),
            Ok(SendOutcome::Fragmented | SendOutcome::Loopback) => return cx.meter.count(counter),
            Err(_) => return cx.meter.count(Counter::IpOutputDropped),
        }
        if self.pending.len() > PENDING_LIMIT {
            cx.meter.count(Counter::IpOutputDropped);
            let random_index = cx.rng.below(self.pending.len() as u64);
            let random_index = usize::try_from(random_index).unwrap_or(0);
            if let Some((loser, _)) = self.pending.remove(random_index) {
                pool.put(loser);
            }
        }
    }
}
