//! Output: source address, header, and fragments (RFC 791 §3.2, RFC 8200 §4.5).

use super::{
    Audience, Header, Identifications, Internet, PathMtu, Protocol, SendError, ipv4, ipv6,
};
use crate::cx::Cx;
use crate::meter::{Account, Counter};
use crate::packet::{Packet, Pool};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum number of datagrams that are being fragmented.
pub(super) const CUTS_MAX: usize = 4;
/// Maximum number of looped-back datagrams.
pub(super) const LOOPED_MAX: usize = 16;
/// Length of the longest IPv4 datagram, and of the longest IPv6 payload, in bytes.
const LEN_MAX: usize = 65_535;

/// A datagram that is sent in fragments, one for each call of [`Internet::transmit`].
#[derive(Debug)]
pub(super) struct Cut {
    header: Header,
    identification: u32,
    /// The rest of its data.
    packet: Packet,
    /// Offset of the rest in the whole data, in bytes.
    offset: u16,
    mtu: u16,
}

/// The result of sending a datagram.
pub(super) enum Departed {
    /// It is complete and for the link.
    Whole(Packet),
    /// It is sent in fragments.
    Cut,
    /// It is looped back to this host.
    Here,
}

/// The parameters for sending a datagram.
#[derive(Clone, Copy)]
enum Way {
    Here,
    Whole(PathMtu),
    Fragments(PathMtu),
}

impl Internet {
    /// Prepends the header to a transport's header and data, and returns the complete datagram for
    /// the link. Returns `None` if it was looped back, or is fragmented; [`Self::transmit`] returns
    /// the fragments.
    ///
    /// # Errors
    ///
    /// Returns an error if the datagram cannot be sent; its packet has then been returned to
    /// `pool`.
    pub fn send(
        &mut self,
        packet: Packet,
        header: Header,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Packet>, SendError> {
        let left = cx.meter.enter(Account::Internet);
        let departed = self.depart(packet, header, pool, cx);
        cx.meter.enter(left);
        match departed? {
            Departed::Whole(packet) => {
                cx.meter.count(Counter::IpDatagramsOut);
                Ok(Some(packet))
            }
            Departed::Cut | Departed::Here => Ok(None),
        }
    }

    pub(super) fn depart(
        &mut self,
        mut packet: Packet,
        mut header: Header,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Result<Departed, SendError> {
        if self.leaves_as_before(&packet, &header) {
            if header.hop_limit == 0 {
                header.hop_limit = self.own_hop_limit(header.destination);
            }
            self.push_header(&mut packet, &header, true, cx);
            return Ok(Departed::Whole(packet));
        }
        let way = self.complete(&mut header).and_then(|(audience, is_here)| match is_here {
            true => Ok(Way::Here),
            false => self.way(&packet, (&header, audience), pool, cx),
        });
        match way {
            Ok(Way::Whole(path)) => {
                let is_one_host = self.interface.audience(header.destination) == Audience::Other;
                let ends = Some((header.source, header.destination));
                self.recent.departed = ends.filter(|_| is_one_host);
                self.push_header(&mut packet, &header, !path.is_below_floor, cx);
                Ok(Departed::Whole(packet))
            }
            Ok(Way::Fragments(path)) => {
                let identification = self.identification(&header, cx);
                let mtu = path.mtu;
                self.cuts.push_back(Cut { header, identification, packet, offset: 0, mtu });
                cx.meter.count(Counter::IpDatagramsOut);
                Ok(Departed::Cut)
            }
            Ok(Way::Here) if self.looped.len() < LOOPED_MAX && fits(&packet, &header, LEN_MAX) => {
                self.push_header(&mut packet, &header, true, cx);
                self.looped.push_back(packet);
                Ok(Departed::Here)
            }
            Ok(Way::Here) => {
                pool.put(packet);
                Err(SendError::NoBuffer)
            }
            Err(error) => {
                pool.put(packet);
                Err(error)
            }
        }
    }

    /// Returns whether a datagram has the source and destination of the last one sent whole and
    /// fits the MTU of the link, while no lower path MTU is known.
    fn leaves_as_before(&self, packet: &Packet, header: &Header) -> bool {
        let limit = if packet.offload.segment_size == 0 { self.mtu.into() } else { LEN_MAX };
        self.recent.departed == Some((header.source, header.destination))
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

    /// Fills in the fields that the transport leaves open, and returns the audience of the
    /// destination, and whether it is local.
    fn complete(&self, header: &mut Header) -> Result<(Audience, bool), SendError> {
        let destination = header.destination;
        let audience = self.interface.audience(destination);
        let is_here = audience == Audience::Us || destination.is_loopback();
        // TCP needs a unicast peer, and an echo request to a group would cause a flood of replies.
        let needs_one_host = matches!(header.protocol, Protocol::Tcp | Protocol::Icmp);
        match audience {
            Audience::Us | Audience::Other => {}
            Audience::Group if !needs_one_host => {}
            Audience::Nobody if is_here => {}
            Audience::Group | Audience::Nobody => return Err(SendError::Destination),
        }
        if header.source.is_unspecified() {
            header.source = self.source_for(destination);
        } else if !self.is_here(header.source) {
            return Err(SendError::NoAddress);
        }
        // A host without an address requests one by broadcast from 0.0.0.0 (RFC 2131 §4.1).
        let asks_for_one = destination == IpAddr::V4(Ipv4Addr::BROADCAST);
        if header.source.is_unspecified() && !(asks_for_one && header.protocol == Protocol::Udp)
            || header.source.is_ipv4() != destination.is_ipv4()
            // RFC 1122 §3.2.1.3 g: a datagram from a loopback address never leaves the host.
            || header.source.is_loopback() && !is_here
        {
            return Err(SendError::NoAddress);
        }
        if header.hop_limit == 0 {
            header.hop_limit = self.own_hop_limit(destination);
        }
        Ok((audience, is_here))
    }

    fn way(
        &self,
        packet: &Packet,
        (header, audience): (&Header, Audience),
        pool: &Pool,
        cx: &Cx<'_>,
    ) -> Result<Way, SendError> {
        let destination = header.destination;
        if audience != Audience::Group && self.next_hop(destination).is_none() {
            return Err(SendError::NoRoute);
        }
        let path = self.path_to(destination, cx.now);
        // A super-segment is cut by the device; its transport ensures the size of the segments.
        let limit = if packet.offload.segment_size == 0 { path.mtu.into() } else { LEN_MAX };
        if fits(packet, header, limit) {
            return Ok(Way::Whole(path));
        }
        if header.protocol == Protocol::Tcp {
            // TCP does not know the path MTU yet, and will learn it.
            return match fits(packet, header, self.mtu.into()) {
                true => Ok(Way::Whole(path)),
                false => Err(SendError::TooBig { mtu: self.mtu }),
            };
        }
        if !fits(packet, header, LEN_MAX) || usize::from(path.mtu) < room_needed(header) {
            return Err(SendError::TooBig { mtu: u16::MAX });
        }
        if self.cuts.len() >= CUTS_MAX || pool.is_exhausted() {
            return Err(SendError::NoBuffer);
        }
        Ok(Way::Fragments(path))
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
                // RFC 6864 §4.1: with DF there are no fragments to identify.
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
                let fixed = fixed_header(source, destination, header);
                packet.push(&fixed.emit(header.protocol.into(), len_field(data_len)));
            }
        }
    }

    fn identification(&mut self, header: &Header, cx: &mut Cx<'_>) -> u32 {
        let drawn = self.identifications.get_or_insert_with(|| Identifications::draw(cx.chance));
        drawn.next(header.source, header.destination, header.protocol.into(), cx.chance)
    }

    /// Returns whether a fragment can be made: the last one needs no additional packet.
    pub(super) fn can_cut(&self, pool: &Pool) -> bool {
        self.cuts.front().is_some_and(|cut| cut.is_at_last() || !pool.is_exhausted())
    }

    /// Returns the next fragment, if there is a packet for it.
    pub(super) fn next_fragment(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Packet> {
        let cut = self.cuts.front_mut()?;
        if cut.is_at_last() {
            let mut cut = self.cuts.pop_front()?;
            cx.meter.count(Counter::IpFragmentsOut);
            push_fragment_header(
                &mut cut.packet,
                &cut.header,
                cut.identification,
                cut.offset,
                false,
            );
            return Some(cut.packet);
        }
        if pool.is_exhausted() {
            return None;
        }
        let mut fragment = pool.take(cx.meter)?;
        let len = cut.room() & !7;
        fragment.extend(cut.packet.data().get(..len).unwrap_or_default());
        push_fragment_header(&mut fragment, &cut.header, cut.identification, cut.offset, true);
        cut.packet.pull(len);
        // The whole is at most 65,535 bytes long.
        cut.offset = cut.offset.saturating_add(len_field(len));
        cx.meter.count(Counter::IpFragmentsOut);
        Some(fragment)
    }
}

impl Cut {
    /// Returns the maximum number of data bytes in a fragment.
    fn room(&self) -> usize {
        usize::from(self.mtu).saturating_sub(headers_len(&self.header))
    }

    fn is_at_last(&self) -> bool {
        self.packet.len() <= self.room()
    }
}

/// Returns the length of the headers of a fragment, in bytes.
fn headers_len(header: &Header) -> usize {
    match header.destination {
        IpAddr::V4(_) => ipv4::HEADER_LEN,
        IpAddr::V6(_) => ipv6::HEADER_LEN + ipv6::FRAGMENT_HEADER_LEN,
    }
}

/// Returns the minimum MTU for fragments: their headers and eight bytes.
fn room_needed(header: &Header) -> usize {
    headers_len(header) + 8
}

/// Returns whether an IPv4 datagram has at most `limit` bytes, or, for the maximum `limit`, the
/// payload of an IPv6 datagram.
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
            let fixed = fixed_header(source, destination, header);
            packet.push(&fixed.emit(ipv6::FRAGMENT, len_field(packet.len())));
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

/// Lengths fit into 16 bits once [`fits`] has been checked.
fn len_field(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

fn low_half(identification: u32) -> u16 {
    let [_, _, b2, b3] = identification.to_be_bytes();
    u16::from_be_bytes([b2, b3])
}
