//! Output of datagrams: selection of the source address, construction of the header, and
//! fragmentation (RFC 791 §3.2, RFC 8200 §4.5).

use super::Internet;
use super::datagram::{Header, SendError};
use super::identification::Identifications;
use super::interface::DestinationKind;
use super::ipv4::{self, Protocol};
use super::ipv6;
use super::path_mtu::PathMtu;
use super::queues::{FRAGMENTED_MAX, FragmentedDatagram, LOOPED_MAX, headers_len};
use crate::cx::Cx;
use crate::meter::{Account, Counter};
use crate::packet::{Packet, Pool};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of the longest IPv4 datagram, and of the longest IPv6 payload, in bytes.
const LEN_MAX: usize = 65_535;

/// The result of sending a datagram.
pub(super) enum SendOutcome {
    /// The complete datagram for the link.
    Unfragmented(Packet),
    /// The datagram is sent in fragments.
    Fragmented,
    /// The datagram is looped back to this host.
    Loopback,
}

/// Ways to send a datagram: loopback, unfragmented over the link, or in fragments.
#[derive(Clone, Copy)]
enum SendMode {
    Loopback,
    Unfragmented(PathMtu),
    Fragments(PathMtu),
}

impl Internet {
    /// Prepends the header to a transport's header and data, and returns the complete datagram for
    /// the link. Returns `None` if the datagram was looped back, or if it is fragmented.
    /// [`Self::transmit`] then returns the fragments.
    ///
    /// # Errors
    ///
    /// Returns an error if the datagram cannot be sent. Its packet has then been returned to
    /// `pool`.
    pub fn send(
        &mut self,
        packet: Packet,
        header: Header,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Packet>, SendError> {
        let caller = cx.meter.enter(Account::Internet);
        let outcome = self.prepare_output(packet, header, pool, cx);
        cx.meter.enter(caller);
        match outcome? {
            SendOutcome::Unfragmented(packet) => {
                cx.meter.count(Counter::IpDatagramsOut);
                Ok(Some(packet))
            }
            SendOutcome::Fragmented | SendOutcome::Loopback => Ok(None),
        }
    }

    pub(super) fn prepare_output(
        &mut self,
        mut packet: Packet,
        mut header: Header,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Result<SendOutcome, SendError> {
        if self.matches_last_sent(&packet, &header) {
            if header.hop_limit == 0 {
                header.hop_limit = self.own_hop_limit(header.destination);
            }
            self.push_header(&mut packet, &header, true, cx);
            return Ok(SendOutcome::Unfragmented(packet));
        }
        let send_mode =
            self.complete(&mut header).and_then(|(destination_kind, is_local)| match is_local {
                true => Ok(SendMode::Loopback),
                false => self.send_mode(&packet, (&header, destination_kind), pool, cx),
            });
        match send_mode {
            Ok(SendMode::Unfragmented(path)) => {
                let is_unicast =
                    self.interface.destination_kind(header.destination) == DestinationKind::Other;
                let endpoints = Some((header.source, header.destination));
                self.recent.last_sent = endpoints.filter(|_| is_unicast);
                self.push_header(&mut packet, &header, !path.is_below_floor, cx);
                Ok(SendOutcome::Unfragmented(packet))
            }
            Ok(SendMode::Fragments(path)) => {
                let identification = self.identification(&header, cx);
                let mtu = path.mtu;
                self.fragmented_datagrams.push_back(FragmentedDatagram {
                    header,
                    identification,
                    packet,
                    offset: 0,
                    mtu,
                });
                cx.meter.count(Counter::IpDatagramsOut);
                Ok(SendOutcome::Fragmented)
            }
            Ok(SendMode::Loopback)
                if self.looped.len() < LOOPED_MAX && fits(&packet, &header, LEN_MAX) =>
            {
                self.push_header(&mut packet, &header, true, cx);
                self.looped.push_back(packet);
                Ok(SendOutcome::Loopback)
            }
            Ok(SendMode::Loopback) => {
                pool.put(packet);
                Err(SendError::NoBuffer)
            }
            Err(error) => {
                pool.put(packet);
                Err(error)
            }
        }
    }

    /// Returns whether the checks can be skipped: the last unfragmented datagram had the same
    /// source and destination, no path MTU is below the link's, and this datagram fits the MTU of
    /// the link.
    fn matches_last_sent(&self, packet: &Packet, header: &Header) -> bool {
        let limit = if packet.offload.segment_size == 0 { self.mtu.into() } else { LEN_MAX };
        self.recent.last_sent == Some((header.source, header.destination))
            && self.paths.is_empty()
            && fits(packet, header, limit)
    }

    fn own_hop_limit(&self, destination: IpAddr) -> u8 {
        match destination {
            // RFC 1112 §6.1: a datagram for a group stays on the link unless specified otherwise.
            _ if destination.is_multicast() => 1,
            IpAddr::V4(_) => self.time_to_live,
            IpAddr::V6(_) => self.hop_limit,
        }
    }

    /// Sets the fields that the transport leaves open. Returns the kind of the destination, and
    /// whether it is local.
    fn complete(&self, header: &mut Header) -> Result<(DestinationKind, bool), SendError> {
        let destination = header.destination;
        let destination_kind = self.interface.destination_kind(destination);
        let is_local = destination_kind == DestinationKind::Local || destination.is_loopback();
        // TCP needs a unicast peer, and an echo request to a group would cause a flood of replies.
        let needs_unicast = matches!(header.protocol, Protocol::Tcp | Protocol::Icmp);
        match destination_kind {
            DestinationKind::Local | DestinationKind::Other => {}
            DestinationKind::Group if !needs_unicast => {}
            DestinationKind::Invalid if is_local => {}
            DestinationKind::Group | DestinationKind::Invalid => {
                return Err(SendError::Destination);
            }
        }
        if header.source.is_unspecified() {
            header.source = self.source_for(destination);
        } else if !self.acts_for(header.source) {
            return Err(SendError::NoAddress);
        }
        // A host without an address requests one by broadcast from 0.0.0.0 (RFC 2131 §4.1).
        let is_address_request = destination == IpAddr::V4(Ipv4Addr::BROADCAST);
        if header.source.is_unspecified() && !(is_address_request && header.protocol == Protocol::Udp)
            || header.source.is_ipv4() != destination.is_ipv4()
            // RFC 1122 §3.2.1.3 g: a datagram from a loopback address never leaves the host.
            || header.source.is_loopback() && !is_local
        {
            return Err(SendError::NoAddress);
        }
        if header.hop_limit == 0 {
            header.hop_limit = self.own_hop_limit(destination);
        }
        Ok((destination_kind, is_local))
    }

    fn send_mode(
        &self,
        packet: &Packet,
        (header, destination_kind): (&Header, DestinationKind),
        pool: &Pool,
        cx: &Cx<'_>,
    ) -> Result<SendMode, SendError> {
        let destination = header.destination;
        if destination_kind != DestinationKind::Group && self.next_hop(destination).is_none() {
            return Err(SendError::NoRoute);
        }
        let path = self.path_to(destination, cx.now);
        // The device splits a super-segment, and its transport has chosen a segment size that fits.
        let limit = if packet.offload.segment_size == 0 { path.mtu.into() } else { LEN_MAX };
        if fits(packet, header, limit) {
            return Ok(SendMode::Unfragmented(path));
        }
        if header.protocol == Protocol::Tcp {
            // The segment exceeds the path MTU, which TCP does not know yet.
            return match fits(packet, header, self.mtu.into()) {
                true => Ok(SendMode::Unfragmented(path)),
                false => Err(SendError::TooBig { mtu: self.mtu }),
            };
        }
        if !fits(packet, header, LEN_MAX) || usize::from(path.mtu) < fragment_mtu_min(header) {
            return Err(SendError::TooBig { mtu: u16::MAX });
        }
        if self.fragmented_datagrams.len() >= FRAGMENTED_MAX || pool.is_exhausted() {
            return Err(SendError::NoBuffer);
        }
        Ok(SendMode::Fragments(path))
    }

    /// Prepends the header of an unfragmented datagram.
    fn push_header(
        &mut self,
        packet: &mut Packet,
        header: &Header,
        dont_fragment: bool,
        cx: &mut Cx<'_>,
    ) {
        let data_len = packet.total_len();
        match (header.source, header.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                // RFC 6864 §4.1: a datagram with DF is not fragmented and needs no identification.
                let identification = match dont_fragment {
                    true => 0,
                    false => low_half(self.identification(header, cx)),
                };
                let header = ipv4::Header {
                    source,
                    destination,
                    protocol: header.protocol,
                    time_to_live: header.hop_limit,
                    identification,
                    dscp_ecn: header.dscp_ecn,
                    dont_fragment,
                };
                packet.push(&header.emit(len_field(data_len + ipv4::HEADER_LEN)));
            }
            (source, destination) => {
                let header_bytes = fixed_header(source, destination, header);
                packet.push(&header_bytes.emit(header.protocol.into(), len_field(data_len)));
            }
        }
    }

    fn identification(&mut self, header: &Header, cx: &mut Cx<'_>) -> u32 {
        let identifications =
            self.identifications.get_or_insert_with(|| Identifications::draw(cx.rng));
        identifications.next(header.source, header.destination, header.protocol.into(), cx.rng)
    }

    /// Returns whether a fragment can be made now. All fragments of a datagram except the last one
    /// need an additional packet.
    pub(super) fn can_fragment(&self, pool: &Pool) -> bool {
        self.fragmented_datagrams
            .front()
            .is_some_and(|unsent| unsent.is_last() || !pool.is_exhausted())
    }

    /// Returns the next fragment, if there is a packet for it.
    pub(super) fn next_fragment(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Packet> {
        let unsent = self.fragmented_datagrams.front_mut()?;
        if unsent.is_last() {
            let mut unsent = self.fragmented_datagrams.pop_front()?;
            cx.meter.count(Counter::IpFragmentsOut);
            push_fragment_header(
                &mut unsent.packet,
                &unsent.header,
                unsent.identification,
                unsent.offset,
                false,
            );
            return Some(unsent.packet);
        }
        if pool.is_exhausted() {
            return None;
        }
        let mut fragment = pool.take(cx.meter)?;
        let len = unsent.fragment_data_max() & !7;
        fragment.extend(unsent.packet.data().get(..len).unwrap_or_default());
        push_fragment_header(
            &mut fragment,
            &unsent.header,
            unsent.identification,
            unsent.offset,
            true,
        );
        unsent.packet.pull(len);
        // No overflow: the whole datagram is at most 65,535 bytes long.
        unsent.offset = unsent.offset.saturating_add(len_field(len));
        cx.meter.count(Counter::IpFragmentsOut);
        Some(fragment)
    }
}

/// Returns the minimum MTU for fragments: their headers and eight bytes of data.
fn fragment_mtu_min(header: &Header) -> usize {
    headers_len(header) + 8
}

/// Returns whether a datagram has at most `limit` bytes. If `limit` is [`LEN_MAX`], only the
/// payload of an IPv6 datagram counts.
fn fits(packet: &Packet, header: &Header, limit: usize) -> bool {
    let header_len = match header.destination {
        IpAddr::V4(_) => ipv4::HEADER_LEN,
        IpAddr::V6(_) if limit == LEN_MAX => 0,
        IpAddr::V6(_) => ipv6::HEADER_LEN,
    };
    packet.total_len() + header_len <= limit
}

fn push_fragment_header(
    packet: &mut Packet,
    header: &Header,
    identification: u32,
    offset: u16,
    more: bool,
) {
    match (header.source, header.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let total_len = len_field(packet.len() + ipv4::HEADER_LEN);
            let header = ipv4::Header {
                source,
                destination,
                protocol: header.protocol,
                time_to_live: header.hop_limit,
                identification: low_half(identification),
                dscp_ecn: header.dscp_ecn,
                dont_fragment: false,
            };
            packet.push(&header.emit_fragment(total_len, offset, more));
        }
        (source, destination) => {
            let next_header = header.protocol.into();
            let fragment = ipv6::Fragment { next_header, offset, more, identification };
            packet.push(&fragment.emit());
            let header_bytes = fixed_header(source, destination, header);
            packet.push(&header_bytes.emit(ipv6::FRAGMENT, len_field(packet.len())));
        }
    }
}

fn fixed_header(source: IpAddr, destination: IpAddr, header: &Header) -> ipv6::Header {
    ipv6::Header {
        source: v6(source),
        destination: v6(destination),
        hop_limit: header.hop_limit,
        dscp_ecn: header.dscp_ecn,
        flow_label: 0,
    }
}

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V6(v6) => v6,
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
    }
}

/// Converts a length to a header field. The length fits into 16 bits, because [`fits`] was checked.
fn len_field(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

fn low_half(identification: u32) -> u16 {
    let [_, _, b2, b3] = identification.to_be_bytes();
    u16::from_be_bytes([b2, b3])
}
