//! The Internet layer: IPv4 and ICMP for a host with one link and one address.
//!
//! A datagram from the link is read once. What is damaged, not for us, from nobody, or a fragment
//! is counted and goes back to the pool; ICMP is dealt with here; what is left is for a
//! transport, which gets it with the header pulled off and the link's padding cut. TCP gets only
//! what was sent to our own address, UDP what was sent to everybody or to a group as well.
//!
//! Echo replies and errors are made in the buffer of the datagram that they answer. They are
//! *owed* until the station's output step collects them with [`Internet::transmit`]. The queue is
//! short; when it is full, one of all that want to stand in it is dropped by lot, because a queue
//! that always drops the last shows a sender what became of datagrams sent before his own.
//!
//! Errors obey RFC 1122 §3.2.2: none about ICMP, about fragments, about what was sent to more
//! than one host, or to a source that is not one host; and only so many to each destination.
//!
//! There are no routes: whatever is not on the link is for the other end of it to send on.

pub mod icmp;
mod interface;
pub mod ipv4;
mod limit;

use crate::checksum::Sum;
use crate::cx::Cx;
use crate::meter::{Account, Counter};
use crate::packet::{Packet, Pool};
use crate::time::Instant;
use alloc::collections::VecDeque;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use icmp::{EchoReply, IcmpError, Message, Unreachable};
use interface::{Audience, Interface};
use ipv4::{HeaderError, Options, Protocol};
use limit::Limiter;

/// The Internet layer of one host.
#[derive(Debug)]
pub struct Internet {
    interface: Interface,
    mtu: u16,
    time_to_live: u8,
    /// Whole datagrams for the link, at most [`OWED_LIMIT`], each with what to count when it goes.
    owed: VecDeque<(Packet, Counter)>,
    /// News for the layers above, at most [`EVENTS_LIMIT`].
    events: VecDeque<Event>,
    /// Echo requests without a reply yet, the oldest first, at most [`PROBES_LIMIT`].
    probes: VecDeque<Probe>,
    limiter: Limiter,
}

/// A datagram for a transport: what its header says, and a packet that holds only its data.
#[derive(Debug)]
pub struct Datagram {
    /// What its header says. Its source is one other host, except that a UDP broadcast may come
    /// from 0.0.0.0, a host that does not know its address yet.
    pub header: Header,
    /// Bytes of the headers with their options, which are pulled off the packet.
    pub header_len: usize,
    /// The data.
    pub packet: Packet,
}

/// What the header of a datagram says to a transport, and what a transport says of one to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Who sends it; to send, an unspecified one lets the Internet layer choose.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// What it carries.
    pub protocol: Protocol,
    /// The byte that holds the DSCP and the ECN bits (RFC 2474, RFC 3168).
    pub dscp_ecn: u8,
    /// How many more routers it may cross; to send, 0 stands for the station's own setting.
    pub hop_limit: u8,
}

/// News for the layers above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Something went wrong with a datagram of ours.
    Error(IcmpError),
    /// An echo request of ours was answered.
    EchoReply(EchoReply),
}

/// Why a datagram cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// It is longer than the link can take; fragments are not made.
    TooBig {
        /// Bytes of the longest datagram, header and all.
        mtu: u16,
    },
    /// We have no address yet.
    NoAddress,
    /// The destination is our own address, one that no host has, or a group where the protocol
    /// needs one host.
    Destination,
    /// No packet buffer is free.
    NoBuffer,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    destination: IpAddr,
    identifier: u16,
    sequence: u16,
    payload_len: usize,
    sent_at: Instant,
}

/// The shortest datagram that every link must carry (RFC 791 §3.2), in bytes.
const MTU_MIN: u16 = 68;
/// RFC 1700, and RFC 1122 §3.2.1.7: configurable, and enough to cross the Internet.
const TIME_TO_LIVE: u8 = 64;
/// A quarter of the default pool, so that a flood of echoes leaves buffers for real work.
const OWED_LIMIT: usize = 8;
const EVENTS_LIMIT: usize = 32;
const PROBES_LIMIT: usize = 64;

impl Internet {
    /// Makes the layer for a link that carries datagrams of up to `mtu` bytes, with our address
    /// (0.0.0.0 if it is not known yet) and the length in bits of its network's prefix.
    ///
    /// An `mtu` below 68 bytes is taken as 68.
    #[must_use]
    pub fn new(address: Ipv4Addr, prefix_len: u8, mtu: u16) -> Self {
        Self {
            interface: Interface::new(address, prefix_len),
            mtu: mtu.max(MTU_MIN),
            time_to_live: TIME_TO_LIVE,
            owed: VecDeque::new(),
            events: VecDeque::new(),
            probes: VecDeque::new(),
            limiter: Limiter::default(),
        }
    }

    /// Returns our address, 0.0.0.0 if it is not known yet.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.interface.address()
    }

    /// Returns the address that we send from to `destination`, unspecified if there is none.
    #[must_use]
    pub fn source_for(&self, destination: IpAddr) -> IpAddr {
        match destination {
            IpAddr::V4(_) => self.address().into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// Sets our address and the length in bits of its network's prefix.
    pub fn set_address(&mut self, address: Ipv4Addr, prefix_len: u8) {
        self.interface = Interface::new(address, prefix_len);
    }

    /// Returns the bytes of the longest datagram, header and all, that the link carries.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Sets the time to live of what is sent from now on (RFC 1122 §3.2.1.7 MUST).
    ///
    /// Zero is taken as one: a host MUST NOT send it.
    pub fn set_time_to_live(&mut self, hops: u8) {
        self.time_to_live = hops.max(1);
    }

    /// Takes a datagram from the link, and returns it if it is for a transport.
    ///
    /// What is not returned has gone back to `pool` or is owed as an answer.
    pub fn receive(
        &mut self,
        packet: Packet,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Datagram> {
        let left = cx.meter.enter(Account::Internet);
        cx.meter.count(Counter::IpDatagramsIn);
        let datagram = self.sort(packet, pool, cx);
        cx.meter.enter(left);
        datagram
    }

    /// Returns whether an answer is owed.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Returns the next answer that is owed, a whole datagram for the link.
    pub fn transmit(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let (packet, counter) = self.owed.pop_front()?;
        let left = cx.meter.enter(Account::Internet);
        cx.meter.count(counter);
        cx.meter.count(Counter::IpDatagramsOut);
        cx.meter.enter(left);
        Some(packet)
    }

    /// Returns the next news from ICMP.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Puts the header in front of a transport's header and data, and returns the whole datagram
    /// for the link.
    ///
    /// # Errors
    ///
    /// If the datagram cannot be sent; its packet has then gone back to `pool`.
    pub fn send(
        &mut self,
        mut packet: Packet,
        header: Header,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Result<Packet, SendError> {
        let left = cx.meter.enter(Account::Internet);
        let pushed = self.push_header(&mut packet, &header);
        let sent = match pushed {
            Ok(()) => {
                cx.meter.count(Counter::IpDatagramsOut);
                Ok(packet)
            }
            Err(error) => {
                pool.put(packet);
                Err(error)
            }
        };
        cx.meter.enter(left);
        sent
    }

    /// Tells the source of a datagram why it did not reach its destination here, unless
    /// RFC 1122 §3.2.2 or the limit for that source forbids it.
    ///
    /// The packet of `datagram` must be as it was received. It becomes the error that is owed, or
    /// goes back to `pool`.
    pub fn report(
        &mut self,
        datagram: Datagram,
        why: Unreachable,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) {
        let left = cx.meter.enter(Account::Internet);
        if self.may_report(&datagram.header, cx) {
            let Datagram { header, header_len, mut packet } = datagram;
            // RFC 1122 §3.2.2: the header and the first 8 bytes MUST be unchanged. More MAY be
            // sent, and is not: 500 bytes take half a second at 9,600 bit/s.
            packet.resize(packet.len().min(icmp::QUOTED_LEN));
            packet.unpull(header_len);
            packet.push(&icmp::unreachable(why));
            icmp::seal(packet.data_mut());
            self.owe((packet, Counter::IcmpErrorsOut), header.source, 0, pool, cx);
        } else {
            cx.meter.count(Counter::IcmpErrorsSuppressed);
            pool.put(datagram.packet);
        }
        cx.meter.enter(left);
    }

    /// Makes an echo request with `payload_len` bytes of data, a whole datagram for the link. Its
    /// reply comes as [`Event::EchoReply`], if it comes while fewer than 64 later requests were
    /// made.
    ///
    /// # Errors
    ///
    /// If the datagram cannot be sent.
    pub fn make_echo_request(
        &mut self,
        destination: IpAddr,
        identifier: u16,
        sequence: u16,
        payload_len: u16,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Result<Packet, SendError> {
        // Found out before a buffer has grown to hold it.
        let payload_len = usize::from(payload_len);
        if payload_len + icmp::HEADER_LEN + ipv4::HEADER_LEN > usize::from(self.mtu) {
            return Err(SendError::TooBig { mtu: self.mtu });
        }
        let mut packet = pool.take(cx.meter).ok_or(SendError::NoBuffer)?;
        packet.resize(payload_len);
        packet.data_mut().iter_mut().zip((0..=255).cycle()).for_each(|(to, byte)| *to = byte);
        packet.push(&icmp::echo_request(identifier, sequence));
        icmp::seal(packet.data_mut());
        let header = Header::to(destination, Protocol::Icmp);
        let packet = self.send(packet, header, pool, cx)?;
        if self.probes.len() == PROBES_LIMIT {
            self.probes.pop_front();
        }
        let probe = Probe { destination, identifier, sequence, payload_len, sent_at: cx.now };
        self.probes.push_back(probe);
        Ok(packet)
    }

    fn sort(&mut self, mut packet: Packet, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Datagram> {
        let parsed = match ipv4::Header::parse(packet.data()) {
            Ok(parsed) => parsed,
            Err(error) => {
                cx.meter.count(counter_of(error));
                pool.put(packet);
                return None;
            }
        };
        if parsed.options != Options::Absent {
            cx.meter.count(Counter::IpOptionsSkipped);
        }
        if let Err(counter) = self.accept(&parsed.header, parsed.is_fragment) {
            cx.meter.count(counter);
            pool.put(packet);
            return None;
        }
        packet.resize(parsed.total_len);
        packet.pull(parsed.header_len);
        let header = Header::from(parsed.header);
        let datagram = Datagram { header, header_len: parsed.header_len, packet };
        if parsed.options == Options::RouteUnfinished {
            // RFC 1122 §3.3.5: a host that does not forward SHOULD say so.
            cx.meter.count(Counter::IpAddressErrors);
            self.report(datagram, Unreachable::SourceRouteFailed, pool, cx);
            return None;
        }
        match datagram.header.protocol {
            Protocol::Tcp | Protocol::Udp => {
                cx.meter.count(Counter::IpDatagramsDelivered);
                return Some(datagram);
            }
            Protocol::Icmp => self.receive_icmp(datagram, pool, cx),
            Protocol::Other(_) => {
                // RFC 1122 §3.2.2.1: SHOULD be told.
                cx.meter.count(Counter::IpProtocolsUnknown);
                self.report(datagram, Unreachable::Protocol, pool, cx);
            }
        }
        None
    }

    /// Decides whether a datagram is one that a host takes at all; if not, returns what to count.
    fn accept(&self, header: &ipv4::Header, is_fragment: bool) -> Result<(), Counter> {
        let is_udp = header.protocol == Protocol::Udp;
        match self.interface.audience(header.destination) {
            Audience::Us => {}
            // RFC 9293 §3.9.2.3: a SYN to a group MUST be discarded. An echo to a group MAY be
            // (RFC 1122 §3.2.2.6), and is: its reply is a weapon against whoever seems to ask.
            Audience::Group if is_udp => {}
            Audience::Group | Audience::Other | Audience::Nobody => {
                return Err(Counter::IpAddressErrors);
            }
        }
        // RFC 1122 §3.2.1.3 MUST. A host that does not know its address yet sends from 0.0.0.0,
        // but to everybody.
        let knows_no_address = header.source.is_unspecified() && header.destination.is_broadcast();
        if !(self.interface.may_be_source(header.source) || is_udp && knows_no_address) {
            return Err(Counter::IpSourceErrors);
        }
        // RFC 791 §3.2: zero is destroyed. RFC 1122 §3.2.1.7: one MUST NOT be.
        if header.time_to_live == 0 {
            return Err(Counter::IpTimeExceeded);
        }
        if is_fragment {
            return Err(Counter::IpFragmentsDropped);
        }
        Ok(())
    }

    fn receive_icmp(&mut self, datagram: Datagram, pool: &mut Pool, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::IcmpIn);
        let Datagram { header, mut packet, .. } = datagram;
        match Message::parse(packet.data()) {
            Ok(Message::EchoRequest) => {
                icmp::make_reply(packet.data_mut());
                // RFC 1122 §3.2.2.6 would have options copied and source routes turned round;
                // that lets whoever forges them choose where the reply goes (CVE-2021-31344).
                let owed = (packet, Counter::IcmpEchoesAnswered);
                return self.owe(owed, header.source, header.dscp_ecn & DSCP, pool, cx);
            }
            Ok(message) => self.learn(&header, &message, cx),
            Err(_) => cx.meter.count(Counter::IcmpErrors),
        }
        pool.put(packet);
    }

    fn learn(&mut self, header: &Header, message: &Message, cx: &mut Cx<'_>) {
        let event = match *message {
            Message::Error { kind, quoted, first_bytes } => {
                // None of ours is a fragment or has a source that is not ours.
                if quoted.is_fragment
                    || self.interface.audience(quoted.header.source) != Audience::Us
                {
                    return cx.meter.count(Counter::IcmpErrors);
                }
                let Header { protocol, source, destination, .. } = quoted.header.into();
                let reporter = header.source;
                let error =
                    IcmpError { kind, reporter, protocol, source, destination, first_bytes };
                Event::Error(error)
            }
            Message::EchoReply { identifier, sequence, payload_len } => {
                let answered = self.probes.iter().position(|probe| {
                    (probe.destination, probe.identifier) == (header.source, identifier)
                        && (probe.sequence, probe.payload_len) == (sequence, payload_len)
                });
                let Some(probe) = answered.and_then(|place| self.probes.remove(place)) else {
                    return cx.meter.count(Counter::IcmpIgnored);
                };
                Event::EchoReply(EchoReply {
                    source: header.source,
                    identifier,
                    sequence,
                    payload_len,
                    round_trip: cx.now - probe.sent_at,
                    time_to_live: header.hop_limit,
                })
            }
            Message::EchoRequest | Message::Ignored => {
                return cx.meter.count(Counter::IcmpIgnored);
            }
        };
        self.tell(event, cx);
    }

    fn tell(&mut self, event: Event, cx: &mut Cx<'_>) {
        if self.events.len() == EVENTS_LIMIT {
            return cx.meter.count(Counter::IcmpEventsDropped);
        }
        if matches!(event, Event::Error(_)) {
            cx.meter.count(Counter::IcmpErrorsDelivered);
        }
        self.events.push_back(event);
    }

    /// RFC 1122 §3.2.2, the list of what an error MUST NOT be sent about; fragments never get
    /// this far.
    fn may_report(&mut self, header: &Header, cx: &mut Cx<'_>) -> bool {
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (header.source, header.destination)
        else {
            return false;
        };
        header.protocol != Protocol::Icmp
            && self.interface.audience(destination) == Audience::Us
            && self.interface.may_be_source(source)
            && self.limiter.allows(source, cx)
    }

    /// Queues an ICMP message, with what to count when it goes, for [`Internet::transmit`].
    fn owe(
        &mut self,
        (mut packet, counter): (Packet, Counter),
        destination: IpAddr,
        dscp_ecn: u8,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) {
        let header = Header { dscp_ecn, ..Header::to(destination, Protocol::Icmp) };
        let pushed = self.push_header(&mut packet, &header);
        if pushed.is_err() {
            cx.meter.count(Counter::IpOutputDropped);
            return pool.put(packet);
        }
        self.owed.push_back((packet, counter));
        if self.owed.len() > OWED_LIMIT {
            cx.meter.count(Counter::IpOutputDropped);
            let lot = cx.chance.below(self.owed.len() as u64);
            let lot = usize::try_from(lot).unwrap_or(0);
            if let Some((loser, _)) = self.owed.remove(lot) {
                pool.put(loser);
            }
        }
    }

    fn push_header(&self, packet: &mut Packet, header: &Header) -> Result<(), SendError> {
        if !self.interface.has_address() {
            return Err(SendError::NoAddress);
        }
        let IpAddr::V4(destination) = header.destination else {
            return Err(SendError::Destination);
        };
        match self.interface.audience(destination) {
            Audience::Other => {}
            // TCP needs one other end, and an echo from everybody is a flood that we asked for.
            Audience::Group if header.protocol == Protocol::Udp => {}
            Audience::Group | Audience::Us | Audience::Nobody => {
                return Err(SendError::Destination);
            }
        }
        // A super-segment is cut by the device; its transport has seen to the size of the pieces.
        let is_one = packet.offload.segment_size == 0;
        let total_len = u16::try_from(packet.total_len() + ipv4::HEADER_LEN)
            .ok()
            .filter(|total_len| !is_one || *total_len <= self.mtu)
            .ok_or(SendError::TooBig { mtu: self.mtu })?;
        let time_to_live = match header.hop_limit {
            // RFC 1112 §6.1: a datagram for a group stays on the link unless someone says more.
            0 if destination.is_multicast() => 1,
            0 => self.time_to_live,
            hops => hops,
        };
        let header = ipv4::Header {
            source: self.address(),
            destination,
            protocol: header.protocol,
            time_to_live,
            // RFC 6864 §4.1: with DF there are no fragments that it would tell apart.
            identification: 0,
            dscp_ecn: header.dscp_ecn,
            dont_fragment: true,
        };
        packet.push(&header.emit(total_len));
        Ok(())
    }
}

impl Header {
    /// Says what is needed to send: to whom, and what it carries; all else is the station's own.
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

/// The DSCP in its byte; an echo reply has the priority of its request but no ECN of its own.
const DSCP: u8 = 0xFC;

fn counter_of(error: HeaderError) -> Counter {
    match error {
        HeaderError::Checksum => Counter::IpChecksumErrors,
        HeaderError::Truncated
        | HeaderError::Version
        | HeaderError::HeaderLength
        | HeaderError::TotalLength
        | HeaderError::Options => Counter::IpHeaderErrors,
    }
}

/// Returns the sum over the pseudo header that the checksum of a transport covers (RFC 9293
/// §3.1, RFC 8200 §8.1), for `len` bytes of transport header and data.
///
/// Addresses of two families have none; what claims to have them fails its checksum.
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

#[cfg(test)]
mod attacks;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
