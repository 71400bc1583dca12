//! UDP (RFC 768, RFC 1122 §4.1): ports, a checksum, and a queue for each socket.
//!
//! A datagram is accepted if its length field does not exceed the IP payload, and if its checksum
//! is correct or absent. It is then queued at the socket that is bound to its port. The number of
//! datagrams and the number of bytes in a queue are limited; further datagrams are dropped. A
//! datagram for a port without a socket is returned to the caller, so that the host can report it
//! to its source. If the length field is smaller than the IP payload, the surplus (RFC 9868) is
//! removed.
//!
//! A device may accept or deliver several datagrams of one size between the same two sockets as one
//! packet, a super-datagram: see [`segments`].
//!
//! Nothing is retransmitted or delayed, so there is no deadline.

mod datagram_sizes;
pub mod segments;
mod transparent;

pub use datagram_sizes::HEADER_LEN;
pub use segments::Waiting;
pub use transparent::Relayed;

use crate::checksum::Routines;
use crate::cx::Cx;
use crate::internet::icmp::{ErrorKind, IcmpError};
use crate::internet::ipv4::Protocol;
use crate::internet::{self, Internet, pseudo_header};
use crate::meter::{Account, Counter};
use crate::packet::{ChecksumState, Packet, Pool};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// All UDP sockets of one host.
#[derive(Debug)]
pub struct Udp {
    limits: Limits,
    lower: LowerLevel,
    requires_checksum: bool,
    sockets: Vec<Socket>,
    next_id: u64,
}

/// Capabilities of the lower level for UDP.
#[derive(Clone, Copy, Debug, Default)]
pub struct LowerLevel {
    /// Whether the device splits super-datagrams into datagrams (USO).
    pub uso: bool,
    /// Whether the device completes the checksum of a datagram (checksum offload).
    pub checksum_offload: bool,
    /// The routines for checksums and copies.
    pub routines: Routines,
}

/// Limits of the sockets.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of bound sockets.
    pub sockets: usize,
    /// Maximum number of datagrams queued per socket. Datagrams that arrived in one packet count as
    /// one.
    pub datagrams: usize,
    /// Maximum number of data bytes queued per socket.
    pub bytes: usize,
}

/// Identifies a socket from its bind to its close. An identifier is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId(u64);

/// The two ends of a received datagram: its remote source, and its destination, which is a local
/// address or a multicast group.
#[derive(Clone, Copy, Debug)]
struct Ends {
    source: SocketAddr,
    destination: IpAddr,
}

#[derive(Debug)]
struct Socket {
    id: SocketId,
    port: u16,
    waiting: VecDeque<(Ends, Packet)>,
    waiting_bytes: usize,
    accepts_super_datagrams: bool,
    error: Option<(SocketAddr, ErrorKind)>,
}

/// Reasons why a socket cannot be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindError {
    /// Another socket has the port.
    PortInUse,
    /// The limit of sockets is reached, or no port is free.
    TooManySockets,
}

/// Reasons why a datagram cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The socket is closed.
    NoSocket,
    /// The destination port is 0.
    Port,
    /// The Internet layer rejects the datagram.
    Internet(internet::SendError),
}

impl Default for Limits {
    /// Returns limits of 64 sockets. Each socket may queue a quarter of the default pool's buffers.
    fn default() -> Self {
        Self { sockets: 64, datagrams: 8, bytes: 65_536 }
    }
}

impl Default for Udp {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Udp {
    /// Returns the UDP layer of a host, without sockets.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let lower = LowerLevel::default();
        Self { limits, lower, requires_checksum: false, sockets: Vec::new(), next_id: 0 }
    }

    /// Sets the capabilities of the lower level. By default it has none.
    pub fn set_lower_level(&mut self, lower: LowerLevel) {
        self.lower = lower;
    }

    /// Sets whether datagrams without a checksum are rejected (RFC 1122 §4.1.3.4 MAY). By default
    /// they are accepted.
    pub fn set_requires_checksum(&mut self, requires: bool) {
        self.requires_checksum = requires;
    }

    /// Binds a new socket to `port`, or to a random free one if `port` is 0.
    ///
    /// # Errors
    ///
    /// Returns an error if the port is taken, or the limit of sockets is reached.
    pub fn bind(&mut self, port: u16, cx: &mut Cx<'_>) -> Result<SocketId, BindError> {
        if self.sockets.len() >= self.limits.sockets {
            cx.meter.count(Counter::UdpBindsRefused);
            return Err(BindError::TooManySockets);
        }
        let port = match port {
            0 => self.ephemeral_port(cx).ok_or(BindError::TooManySockets)?,
            port if self.has_port(port) => return Err(BindError::PortInUse),
            port => port,
        };
        let id = SocketId(self.next_id);
        self.next_id += 1;
        let waiting = VecDeque::new();
        let waiting_bytes = 0;
        let accepts_super_datagrams = false;
        let error = None;
        self.sockets.push(Socket {
            id,
            port,
            waiting,
            waiting_bytes,
            accepts_super_datagrams,
            error,
        });
        Ok(id)
    }

    /// Returns the port of a socket.
    #[must_use]
    pub fn port(&self, socket: SocketId) -> Option<u16> {
        self.sockets.iter().find(|s| s.id == socket).map(|s| s.port)
    }

    /// Closes a socket, and returns its queued packets to `pool`.
    pub fn close(&mut self, socket: SocketId, pool: &mut Pool) {
        let Some(place) = self.sockets.iter().position(|s| s.id == socket) else { return };
        let socket = self.sockets.swap_remove(place);
        socket.waiting.into_iter().for_each(|(_, packet)| pool.put(packet));
    }

    /// Builds a datagram from a socket's port with the data in `packet`, and returns the complete
    /// datagram for the link. Returns `None` if the datagram was looped back, or if
    /// [`Internet::transmit`] sends it in fragments. A packet with a segment size becomes a
    /// super-datagram. The device must be able to split it, and its datagrams must fit the path
    /// MTU.
    ///
    /// # Errors
    ///
    /// Returns an error if the datagram cannot be sent. Its packet has then been returned to
    /// `pool`.
    pub fn send(
        &self,
        socket: SocketId,
        packet: Packet,
        destination: SocketAddr,
        internet: &mut Internet,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Packet>, SendError> {
        let caller = cx.meter.enter(Account::Internet);
        let count = datagram_sizes::count_of(&packet);
        let sent = self.make(socket, packet, destination, internet, pool, cx);
        if sent.is_ok() {
            cx.meter.add(Counter::UdpOut, count);
            cx.meter.add(Counter::UdpSuperOut, u64::from(count > 1));
        }
        cx.meter.enter(caller);
        sent
    }

    /// Processes a datagram from the Internet layer.
    ///
    /// A damaged datagram, or one for a full queue, is counted and its packet is returned to
    /// `pool`. A datagram for a port without a socket is returned unchanged, so that the host can
    /// report it with [`Internet::report`] (RFC 1122 §4.1.3.1 SHOULD).
    pub fn receive(
        &mut self,
        datagram: internet::Datagram,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<internet::Datagram> {
        let caller = cx.meter.enter(Account::Internet);
        let received = self.deliver(datagram, pool, cx);
        cx.meter.enter(caller);
        received
    }

    /// Returns the next datagram in the queue of a socket, with its source.
    ///
    /// The caller returns the packet to its pool when the data is no longer needed.
    pub fn receive_from(&mut self, socket: SocketId) -> Option<(SocketAddr, Packet)> {
        let socket = self.sockets.iter_mut().find(|s| s.id == socket)?;
        let (Ends { source, .. }, packet) = socket.waiting.pop_front()?;
        socket.waiting_bytes -= packet.len();
        Some((source, packet))
    }

    /// Returns whether a datagram is queued in a socket.
    #[must_use]
    pub fn has_datagram(&self, socket: SocketId) -> bool {
        self.sockets.iter().any(|s| s.id == socket && !s.waiting.is_empty())
    }

    /// Processes an ICMP error about a sent datagram. The error is stored in the socket that sent
    /// the datagram, and replaces the previous one. Returns whether that socket exists.
    pub fn receive_error(&mut self, error: &IcmpError) -> bool {
        let [s0, s1, d0, d1, ..] = error.first_bytes;
        let port = u16::from_be_bytes([s0, s1]);
        let destination = SocketAddr::new(error.destination, u16::from_be_bytes([d0, d1]));
        let socket = self.sockets.iter_mut().find(|s| s.port == port);
        let socket = socket.filter(|_| error.protocol == Protocol::Udp);
        let is_ours = socket.is_some();
        if let Some(socket) = socket {
            socket.error = Some((destination, error.kind));
        }
        is_ours
    }

    /// Removes and returns the last error about a datagram of a socket, with the destination of the
    /// datagram (RFC 1122 §4.1.3.3 MUST).
    ///
    /// The error may be forged by anyone who guesses the port, so it must not be trusted.
    pub fn take_error(&mut self, socket: SocketId) -> Option<(SocketAddr, ErrorKind)> {
        self.sockets.iter_mut().find(|s| s.id == socket)?.error.take()
    }

    fn make(
        &self,
        socket: SocketId,
        packet: Packet,
        destination: SocketAddr,
        internet: &mut Internet,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Packet>, SendError> {
        let Some(port) = self.port(socket) else {
            pool.put(packet);
            return Err(SendError::NoSocket);
        };
        let source = SocketAddr::new(internet.source_for(destination.ip()), port);
        self.make_between((source, destination), packet, internet, pool, cx)
    }

    fn make_between(
        &self,
        (source, destination): (SocketAddr, SocketAddr),
        mut packet: Packet,
        internet: &mut Internet,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Packet>, SendError> {
        let too_big = SendError::Internet(internet::SendError::TooBig { mtu: internet.mtu() });
        let checked = match u16::try_from(packet.len() + HEADER_LEN) {
            _ if destination.port() == 0 => Err(SendError::Port),
            Err(_) => Err(too_big),
            Ok(len) => Ok(len),
        };
        let len = match checked {
            Ok(len) => len,
            Err(error) => {
                pool.put(packet);
                return Err(error);
            }
        };
        let [s0, s1] = source.port().to_be_bytes();
        let [d0, d1] = destination.port().to_be_bytes();
        let [l0, l1] = len.to_be_bytes();
        let source = source.ip();
        let sum = pseudo_header(source, destination.ip(), Protocol::Udp, len);
        if self.leaves_checksum(&packet, destination.ip(), internet, cx) {
            let [c0, c1] = sum.unfinished().to_be_bytes();
            packet.push(&[s0, s1, d0, d1, l0, l1, c0, c1]);
            packet.offload_checksum(CHECKSUM_AT);
        } else {
            let sum = sum.bytes(&[s0, s1, d0, d1, l0, l1, 0, 0]);
            // A checksum field of zero means that there is no checksum. A sum of zero is sent as
            // all ones, which is equivalent (RFC 768).
            let [c0, c1] = match sum.word((self.lower.routines.sum)(packet.data())).finish() {
                0 => [0xFF, 0xFF],
                checksum => checksum.to_be_bytes(),
            };
            packet.push(&[s0, s1, d0, d1, l0, l1, c0, c1]);
        }
        let header =
            internet::Header { source, ..internet::Header::to(destination.ip(), Protocol::Udp) };
        internet.send(packet, header, pool, cx).map_err(SendError::Internet)
    }

    fn deliver(
        &mut self,
        datagram: internet::Datagram,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<internet::Datagram> {
        let Some(parsed) = self.parse(&datagram.header, &datagram.packet) else {
            cx.meter.count(Counter::UdpErrors);
            pool.put(datagram.packet);
            return None;
        };
        let socket = self.sockets.iter_mut().find(|s| s.port == parsed.destination_port);
        let Some(socket) = socket else {
            cx.meter.count(Counter::UdpNoPort);
            return Some(datagram);
        };
        let internet::Datagram { header, mut packet, .. } = datagram;
        let data_len = parsed.len - HEADER_LEN;
        strip_header(&mut packet, &parsed);
        let source = SocketAddr::new(header.source, parsed.source_port);
        let ends = Ends { source, destination: header.destination };
        if packet.offload.segment_size > 0 && !socket.accepts_super_datagrams {
            cx.meter.count(Counter::UdpSuperIn);
            socket.split_and_queue(ends, packet, &self.limits, pool, cx);
            return None;
        }
        if socket.waiting.len() >= self.limits.datagrams
            || socket.waiting_bytes + data_len > self.limits.bytes
        {
            cx.meter.count(Counter::UdpQueueFull);
            pool.put(packet);
            return None;
        }
        let count = datagram_sizes::count_of(&packet);
        cx.meter.add(Counter::UdpIn, count);
        cx.meter.add(Counter::UdpSuperIn, u64::from(count > 1));
        socket.waiting_bytes += data_len;
        socket.waiting.push_back((ends, packet));
        None
    }

    /// Parses a header, and validates it together with the data after it.
    fn parse(&self, header: &internet::Header, packet: &Packet) -> Option<Parsed> {
        let bytes = packet.data();
        let [s0, s1, d0, d1, l0, l1, c0, c1] = *bytes.first_chunk::<HEADER_LEN>()?;
        let len_field = u16::from_be_bytes([l0, l1]);
        let len = usize::from(len_field);
        let covered = bytes.get(..len).filter(|_| len >= HEADER_LEN)?;
        if packet.offload.checksum != ChecksumState::InPacket {
            // The device has verified the checksum, or the datagram was looped back.
        } else if packet.offload.segment_size > 0 {
            // Only the first datagram of a super-datagram has a checksum, so the others cannot be
            // verified.
            return None;
        } else if [c0, c1] == [0, 0] {
            // RFC 8200 §8.1: over IPv6 the checksum is mandatory.
            if self.requires_checksum || header.destination.is_ipv6() {
                return None;
            }
        } else {
            let sum = pseudo_header(header.source, header.destination, Protocol::Udp, len_field);
            if !sum.word((self.lower.routines.sum)(covered)).is_good() {
                return None;
            }
        }
        Some(Parsed {
            source_port: u16::from_be_bytes([s0, s1]),
            destination_port: u16::from_be_bytes([d0, d1]),
            len,
        })
    }

    /// Returns whether the device completes the checksum. It cannot do so for fragments.
    fn leaves_checksum(
        &self,
        packet: &Packet,
        destination: IpAddr,
        internet: &Internet,
        cx: &Cx<'_>,
    ) -> bool {
        let is_super = packet.offload.segment_size > 0;
        let datagram_len = packet.len() + HEADER_LEN + datagram_sizes::ip_header_len(destination);
        let is_whole = datagram_len <= usize::from(internet.mtu_to(destination, cx.now));
        is_super || self.lower.checksum_offload && is_whole
    }

    pub(crate) fn has_port(&self, port: u16) -> bool {
        self.sockets.iter().any(|s| s.port == port)
    }

    /// Returns a random port, or the next free port after it (RFC 6056 §3.3.1).
    fn ephemeral_port(&self, cx: &mut Cx<'_>) -> Option<u16> {
        let count = u64::from(u16::MAX - EPHEMERAL_MIN) + 1;
        self.first_free(u16::try_from(cx.rng.below(count)).unwrap_or(0) + EPHEMERAL_MIN)
    }

    fn first_free(&self, chosen: u16) -> Option<u16> {
        (chosen..=u16::MAX).chain(EPHEMERAL_MIN..chosen).find(|port| !self.has_port(*port))
    }
}

/// The lowest port used. RFC 6056 §3.2: all ports except the well-known ones are used, so that a
/// port is hard to guess.
const EPHEMERAL_MIN: u16 = 1024;

/// Offset of the checksum field in the header, in bytes.
const CHECKSUM_AT: usize = 6;

/// The fields of a validated header.
struct Parsed {
    source_port: u16,
    destination_port: u16,
    /// Length of header and data in bytes: at least 8, and at most the IP payload.
    len: usize,
}

/// Removes the header of a datagram, and what follows its data.
fn strip_header(packet: &mut Packet, parsed: &Parsed) {
    packet.resize(parsed.len);
    packet.pull(HEADER_LEN);
    datagram_sizes::clear_size_of_single(packet);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::internet::icmp::Unreachable;
    use crate::internet::testing::{Host, OURS, THEIRS, datagram, datagram_v6, header};
    use core::net::Ipv4Addr;
    use proptest::prelude::*;

    const PORT: u16 = 69;

    /// Returns a datagram from port 1000 of [`THEIRS`] to [`PORT`] of [`OURS`].
    fn datagram_to_us(data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        etherparse::PacketBuilder::ipv4(THEIRS.octets(), OURS.octets(), 64)
            .udp(1000, PORT)
            .write(&mut bytes, data)
            .unwrap();
        bytes
    }

    /// Returns a datagram to this host whose payload is `bytes`, the UDP header and the data.
    fn with_payload(bytes: &[u8]) -> Vec<u8> {
        datagram(&header(Protocol::Udp), &[], bytes)
    }

    /// Passes `bytes` from the link through both layers.
    fn feed(host: &mut Host, udp: &mut Udp, bytes: &[u8]) {
        let Some(datagram) = host.receive(bytes) else { return };
        let cx = &mut host.context.cx();
        if let Some(datagram) = udp.receive(datagram, &mut host.pool, cx) {
            host.internet.report(datagram, Unreachable::Port, &mut host.pool, cx);
        }
    }

    fn bound(host: &mut Host) -> (Udp, SocketId) {
        let mut udp = Udp::default();
        let socket = udp.bind(PORT, &mut host.context.cx()).unwrap();
        (udp, socket)
    }

    fn send(host: &mut Host, udp: &Udp, socket: SocketId, data: &[u8]) -> Vec<u8> {
        let packet = host.packet(data);
        let remote = SocketAddr::from((THEIRS, 1000));
        let internet = &mut host.internet;
        let pool = &mut host.pool;
        let sent = udp
            .send(socket, packet, remote, internet, pool, &mut host.context.cx())
            .unwrap()
            .unwrap();
        let bytes = sent.data().to_vec();
        host.pool.put(sent);
        bytes
    }

    proptest! {
        #[test]
        fn any_bytes_leave_no_buffer_behind(
            datagrams in prop::collection::vec((any::<u16>(), any::<Vec<u8>>()), 0..64)
        ) {
            let mut host = Host::default();
            let (mut udp, socket) = bound(&mut host);
            datagrams.iter().for_each(|(len, data)| {
                let [l0, l1] = (len % 256).to_be_bytes();
                let checksum = if len % 2 == 0 { [0, 0] } else { [1, 2] };
                let head = [&[0, 9, 0, 69, l0, l1], checksum.as_slice()].concat();
                feed(&mut host, &mut udp, &with_payload(&[&head, data.as_slice()].concat()));
                feed(&mut host, &mut udp, &with_payload(data));
            });
            while host.transmit().is_some() {}
            udp.close(socket, &mut host.pool);
            prop_assert_eq!(host.pool.lent(), 0);
        }

        #[test]
        fn datagrams_from_etherparse_are_delivered(
            data in prop::collection::vec(any::<u8>(), 0..=1472)
        ) {
            let mut host = Host::default();
            let (mut udp, socket) = bound(&mut host);
            feed(&mut host, &mut udp, &datagram_to_us(&data));
            let (source, packet) = udp.receive_from(socket).unwrap();
            prop_assert_eq!(source, SocketAddr::from((THEIRS, 1000)));
            prop_assert_eq!(packet.data(), data);
        }

        #[test]
        fn etherparse_accepts_what_is_sent(data in prop::collection::vec(any::<u8>(), 0..=1472)) {
            let mut host = Host::default();
            let (udp, socket) = bound(&mut host);
            let sent = send(&mut host, &udp, socket, &data);
            let sliced = etherparse::SlicedPacket::from_ip(&sent).unwrap();
            let Some(etherparse::TransportSlice::Udp(theirs)) = sliced.transport else {
                return Err(TestCaseError::fail("not UDP"));
            };
            let header = theirs.to_header();
            let source = OURS.octets();
            let destination = THEIRS.octets();
            let checksum = header.calc_checksum_ipv4_raw(source, destination, theirs.payload()).unwrap();
            prop_assert_eq!(header.checksum, checksum);
            prop_assert_eq!((header.source_port, header.destination_port), (PORT, 1000));
            prop_assert_eq!(theirs.payload(), data);
        }

        #[test]
        fn the_checksum_is_never_emitted_as_zero(start: u16) {
            let mut host = Host::default();
            let (udp, socket) = bound(&mut host);
            let [c0, c1] = {
                let sent = send(&mut host, &udp, socket, &start.to_be_bytes());
                [sent[26], sent[27]]
            };
            // The data contains the checksum of its own datagram, so that the sum becomes zero.
            let sum = u32::from(u16::from_be_bytes([c0, c1]));
            let start = u32::from(start);
            let word = u16::try_from((sum + start) % 0xFFFF).unwrap();
            let sent = send(&mut host, &udp, socket, &word.to_be_bytes());
            prop_assert_eq!(&sent[26..28], &[0xFF, 0xFF]);
        }
    }

    #[test]
    fn a_checksum_verified_by_the_device_is_not_checked() {
        let mut host = Host::default();
        let (mut udp, socket) = bound(&mut host);
        let damaged = with_payload(&[0, 9, 0, 69, 0, 9, 1, 2, 7]);
        let states = [ChecksumState::InPacket, ChecksumState::Verified];
        let accepted = states.map(|checksum| {
            let mut datagram = host.receive(&damaged).unwrap();
            datagram.packet.offload.checksum = checksum;
            udp.receive(datagram, &mut host.pool, &mut host.context.cx());
            udp.receive_from(socket).is_some()
        });
        assert_eq!(accepted, [false, true]);
    }

    #[test]
    fn over_ipv6_a_datagram_without_a_checksum_is_dropped() {
        let mut host = Host::default();
        let (mut udp, _) = bound(&mut host);
        let bytes = datagram_v6(17, &[0, 9, 0, 69, 0, 9, 0, 0, 7]);
        feed(&mut host, &mut udp, &bytes);
        assert_eq!(host.counted(Counter::UdpErrors), 1);
    }

    #[test]
    fn a_datagram_for_a_closed_port_is_reported() {
        let mut host = Host::default();
        let bytes = datagram_to_us(b"data");
        feed(&mut host, &mut Udp::default(), &bytes);
        let error = host.transmit().unwrap();
        assert_eq!((&error[20..22], &error[28..]), ([3, 3].as_slice(), &bytes[..28]));
        assert_eq!(host.counted(Counter::UdpNoPort), 1);
    }

    #[test]
    fn a_datagram_cut_at_any_byte_is_counted_and_dropped() {
        let mut host = Host::default();
        let (mut udp, socket) = bound(&mut host);
        let payload = &datagram_to_us(b"data and more")[20..];
        (0..payload.len())
            .for_each(|len| feed(&mut host, &mut udp, &with_payload(&payload[..len])));
        assert!(udp.receive_from(socket).is_none());
        assert_eq!(host.counted(Counter::UdpErrors), payload.len() as u64);
        assert_eq!((host.transmit(), host.pool.lent()), (None, 0));
    }

    #[test]
    fn a_damaged_datagram_is_counted_and_dropped() {
        let mut host = Host::default();
        let (mut udp, socket) = bound(&mut host);
        let mut bytes = datagram_to_us(b"data");
        bytes[29] ^= 1;
        feed(&mut host, &mut udp, &bytes);
        assert!(udp.receive_from(socket).is_none());
        assert_eq!((host.counted(Counter::UdpErrors), host.pool.lent()), (1, 0));
    }

    #[test]
    fn a_length_field_must_lie_between_eight_and_the_payload_length() {
        let mut host = Host::default();
        let (mut udp, socket) = bound(&mut host);
        let accepted_lens = (0..=0xFFFF_u16).filter(|len| {
            let [l0, l1] = len.to_be_bytes();
            feed(&mut host, &mut udp, &with_payload(&[0, 9, 0, 69, l0, l1, 0, 0, b'o', b'k']));
            let Some((_, packet)) = udp.receive_from(socket) else { return false };
            assert_eq!(packet.len(), usize::from(*len) - HEADER_LEN);
            host.pool.put(packet);
            true
        });
        assert!(accepted_lens.eq(8..=10));
    }

    #[test]
    fn a_datagram_without_a_checksum_is_accepted_unless_one_is_required() {
        let mut host = Host::default();
        let (mut udp, socket) = bound(&mut host);
        let bytes = with_payload(&[0, 9, 0, 69, 0, 10, 0, 0, b'o', b'k']);
        feed(&mut host, &mut udp, &bytes);
        udp.set_requires_checksum(true);
        feed(&mut host, &mut udp, &bytes);
        assert_eq!(udp.receive_from(socket).unwrap().1.data(), b"ok");
        assert!(udp.receive_from(socket).is_none());
        assert_eq!(host.counted(Counter::UdpErrors), 1);
    }

    #[test]
    fn a_full_queue_drops_datagrams() {
        let mut host = Host::default();
        let (mut udp, _) = bound(&mut host);
        (0..20).for_each(|_| feed(&mut host, &mut udp, &datagram_to_us(b"data")));
        assert_eq!((host.counted(Counter::UdpIn), host.pool.lent()), (8, 8));
        assert_eq!(host.counted(Counter::UdpQueueFull), 12);
    }

    #[test]
    fn a_queue_is_limited_in_bytes_until_they_are_read() {
        let mut host = Host::default();
        let mut udp = Udp::new(Limits { bytes: 10, ..Limits::default() });
        let socket = udp.bind(PORT, &mut host.context.cx()).unwrap();
        feed(&mut host, &mut udp, &datagram_to_us(b"sixsix"));
        feed(&mut host, &mut udp, &datagram_to_us(b"fiver"));
        assert_eq!(host.counted(Counter::UdpQueueFull), 1);
        assert_eq!(udp.receive_from(socket).unwrap().1.data(), b"sixsix");
        feed(&mut host, &mut udp, &datagram_to_us(b"fiver"));
        assert_eq!(udp.receive_from(socket).unwrap().1.data(), b"fiver");
    }

    #[test]
    fn closing_returns_queued_packets_and_frees_the_port() {
        let mut host = Host::default();
        let (mut udp, socket) = bound(&mut host);
        feed(&mut host, &mut udp, &datagram_to_us(b"data"));
        assert_eq!(udp.bind(PORT, &mut host.context.cx()), Err(BindError::PortInUse));
        udp.close(socket, &mut host.pool);
        assert_eq!(host.pool.lent(), 0);
        assert!(udp.bind(PORT, &mut host.context.cx()).is_ok_and(|new| new != socket));
    }

    #[test]
    fn the_sixty_fifth_socket_is_refused() {
        let mut host = Host::default();
        let mut udp = Udp::default();
        let bound = (0..65).filter(|_| udp.bind(0, &mut host.context.cx()).is_ok()).count();
        assert_eq!((bound, host.counted(Counter::UdpBindsRefused)), (64, 1));
    }

    #[test]
    fn random_ports_are_different_and_never_reserved() {
        let mut host = Host::default();
        let mut udp = Udp::new(Limits { sockets: 1000, ..Limits::default() });
        let sockets: Vec<_> = (0..1000).map(|_| udp.bind(0, &mut host.context.cx())).collect();
        let mut ports: Vec<_> =
            sockets.iter().map(|socket| udp.port(socket.unwrap()).unwrap()).collect();
        let consecutive_count =
            ports.windows(2).filter(|pair| pair[1] == pair[0].wrapping_add(1)).count();
        ports.sort_unstable();
        ports.dedup();
        assert!(
            ports.len() == 1000 && ports[0] >= EPHEMERAL_MIN && consecutive_count < 5,
            "{consecutive_count}"
        );
    }

    #[test]
    fn the_port_after_the_last_is_the_first_that_is_not_reserved() {
        let mut host = Host::default();
        let mut udp = Udp::default();
        udp.bind(u16::MAX, &mut host.context.cx()).unwrap();
        assert_eq!(udp.first_free(u16::MAX), Some(EPHEMERAL_MIN));
    }

    #[test]
    fn an_unsendable_packet_is_returned_to_the_pool() {
        let mut host = Host::default();
        let (mut udp, socket) = bound(&mut host);
        let packet = host.packet(b"data");
        let long_packet = host.packet(&[0; 0x1_0000]);
        let Host { internet, pool, context } = &mut host;
        let port_zero = SocketAddr::from((THEIRS, 0));
        let refused = udp.send(socket, packet, port_zero, internet, pool, &mut context.cx());
        assert_eq!(refused.unwrap_err(), SendError::Port);
        let valid_remote = SocketAddr::from((THEIRS, 9));
        let refused =
            udp.send(socket, long_packet, valid_remote, internet, pool, &mut context.cx());
        let too_big = internet::SendError::TooBig { mtu: 1500 };
        assert_eq!(refused.unwrap_err(), SendError::Internet(too_big));
        udp.close(socket, pool);
        let packet = pool.take(&mut context.meter).unwrap();
        let refused = udp.send(socket, packet, valid_remote, internet, pool, &mut context.cx());
        assert_eq!((refused.unwrap_err(), pool.lent()), (SendError::NoSocket, 0));
    }

    #[test]
    fn time_is_charged_to_the_internet_account_and_then_to_the_caller_again() {
        let mut host = Host::default();
        let (mut udp, socket) = bound(&mut host);
        host.context.meter.enter(Account::Telnet);
        feed(&mut host, &mut udp, &datagram_to_us(b"data"));
        assert_eq!(host.context.meter.enter(Account::Telnet), Account::Telnet);
        send(&mut host, &udp, socket, b"data");
        assert_eq!(host.context.meter.enter(Account::Outside), Account::Telnet);
    }

    #[test]
    fn an_icmp_error_reaches_the_socket_that_sent_the_datagram_once() {
        let mut host = Host::default();
        let (mut udp, socket) = bound(&mut host);
        let kind = ErrorKind::Unreachable(Unreachable::Port);
        let error = IcmpError {
            kind,
            reporter: THEIRS.into(),
            protocol: Protocol::Udp,
            source: OURS.into(),
            destination: Ipv4Addr::new(10, 0, 0, 3).into(),
            first_bytes: [0, 69, 0, 9, 0, 8, 0, 0],
        };
        udp.receive_error(&IcmpError { protocol: Protocol::Tcp, ..error });
        assert_eq!(udp.take_error(socket), None);
        udp.receive_error(&error);
        let destination = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 3), 9));
        assert_eq!(udp.take_error(socket), Some((destination, kind)));
        assert_eq!(udp.take_error(socket), None);
    }
}
