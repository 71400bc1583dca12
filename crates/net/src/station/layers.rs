//! The layers of a station above its link, and the calls that an application makes to them.

use super::ethernet;
use super::multiqueue::Multiqueue;
use crate::cx::Cx;
use crate::internet::addresses;
use crate::internet::icmp::{EchoReply, ErrorKind, IcmpError, Unreachable};
use crate::internet::ipv4::{self, Protocol};
use crate::internet::{self, Internet, ipv6};
use crate::meter::Counter;
use crate::packet::{Packet, Pool};
use crate::time::Instant;
use crate::transport::tcp::{ConnectionId, Segment, Tail, Tcp};
use crate::transport::udp::{self, SocketId, Udp};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU16;
use core::task::{Poll, ready};

/// Maximum number of datagrams from applications that are queued for the link.
const OUTGOING_MAX: usize = 64;

/// Maximum number of received datagrams of registered protocols that are queued for the
/// application.
const RAW_MAX: usize = 16;

/// Maximum number of received datagrams that are queued for the application of a transparent host.
const RELAYED_MAX: usize = 64;

/// The layers of one host above the link, and its packet pool.
#[derive(Debug)]
pub struct Layers {
    /// The packet pool.
    pub pool: Pool,
    /// The Internet layer.
    pub internet: Internet,
    /// The TCP layer.
    pub tcp: Tcp,
    /// The UDP layer.
    pub udp: Udp,
    /// The last reply to an echo request of this host, until the application reads it.
    pub(super) echo_reply: Option<EchoReply>,
    /// The attachment to an Ethernet segment, if there is one.
    pub(super) ethernet: Option<Box<ethernet::Ethernet>>,
    /// UDP datagrams and echo requests queued for the link.
    pub(super) outgoing: VecDeque<Packet>,
    /// Received datagrams of the protocols registered by [`Internet::register_protocol`].
    pub(super) raw: VecDeque<internet::Datagram>,
    /// The queues to the other stations of this host, if the host has several.
    pub(super) multiqueue: Option<Multiqueue>,
    pub(super) has_events: bool,
}

/// Output of an application is [`Poll::Pending`] while the queue to the link is full or no packet
/// buffer is free. The application tries again after the link has sent something; no task is woken.
impl Layers {
    /// Sends `data` from a UDP socket to `destination`.
    ///
    /// # Errors
    ///
    /// Returns an error if UDP or the layer below rejects the datagram.
    pub fn send_to(
        &mut self,
        socket: SocketId,
        data: &[u8],
        destination: SocketAddr,
        cx: &mut Cx<'_>,
    ) -> Poll<Result<(), udp::SendError>> {
        self.send_piece(socket, data, 0, destination, cx)
    }

    /// Sends `data` from a UDP socket to `destination` in datagrams of `size` bytes; the last
    /// datagram may be shorter. Returns the number of bytes accepted. If the queue to the link
    /// becomes full, this number is less than the length of `data`. A device with segmentation
    /// offload receives several datagrams in one packet.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::send_to`]. After an error no data was accepted.
    pub fn send_segments(
        &mut self,
        socket: SocketId,
        data: &[u8],
        size: NonZeroU16,
        destination: SocketAddr,
        cx: &mut Cx<'_>,
    ) -> Poll<Result<usize, udp::SendError>> {
        let piece_len_max = self.udp.super_datagram_max(size, destination.ip(), &self.internet, cx);
        let piece_len_max = piece_len_max.max(size.get().into());
        let size = size.get();
        let mut accepted = 0;
        for piece in data.chunks(piece_len_max) {
            let segment_size = if piece.len() > usize::from(size) { size } else { 0 };
            match self.send_piece(socket, piece, segment_size, destination, cx) {
                Poll::Ready(Ok(())) => accepted += piece.len(),
                unsent if accepted == 0 => return unsent.map_ok(|()| 0),
                Poll::Ready(Err(_)) | Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(accepted))
    }

    fn send_piece(
        &mut self,
        socket: SocketId,
        data: &[u8],
        segment_size: u16,
        destination: SocketAddr,
        cx: &mut Cx<'_>,
    ) -> Poll<Result<(), udp::SendError>> {
        let mut packet = ready!(self.poll_outgoing_packet(cx));
        packet.extend(data);
        packet.offload.segment_size = segment_size;
        let Self { udp, internet, pool, .. } = self;
        let sent = udp.send(socket, packet, destination, internet, pool, cx);
        self.outgoing.extend(sent?);
        Poll::Ready(Ok(()))
    }

    /// Sends `data` by UDP from `source` to `destination`, for a transparent host. If `size` is not
    /// 0, the data is datagrams of `size` bytes; the last one may be shorter. Returns the number of
    /// accepted bytes, as [`Self::send_segments`] does.
    ///
    /// # Errors
    ///
    /// Returns an error if UDP or the layer below rejects the datagram.
    pub fn send_between(
        &mut self,
        (source, destination): (SocketAddr, SocketAddr),
        data: &[u8],
        size: u16,
        cx: &mut Cx<'_>,
    ) -> Poll<Result<usize, udp::SendError>> {
        let max = NonZeroU16::new(size).map_or(data.len(), |size| {
            let max = self.udp.super_datagram_max(size, destination.ip(), &self.internet, cx);
            max.max(size.get().into())
        });
        let mut accepted = 0;
        // An empty datagram is one piece.
        let empty = data.is_empty().then_some(data);
        for piece in data.chunks(max.max(1)).chain(empty) {
            let mut packet = match self.poll_outgoing_packet(cx) {
                Poll::Ready(packet) => packet,
                Poll::Pending if accepted == 0 => return Poll::Pending,
                Poll::Pending => break,
            };
            packet.extend(piece);
            packet.offload.segment_size = if piece.len() > size.into() { size } else { 0 };
            let Self { udp, internet, pool, .. } = self;
            match udp.send_between((source, destination), packet, internet, pool, cx) {
                Ok(sent) => self.outgoing.extend(sent),
                Err(error) if accepted == 0 => return Poll::Ready(Err(error)),
                Err(_) => break,
            }
            accepted += piece.len();
        }
        Poll::Ready(Ok(accepted))
    }

    /// Sends an echo request; see [`Internet::make_echo_request`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Internet::make_echo_request`].
    pub fn ping(
        &mut self,
        destination: IpAddr,
        (identifier, sequence): (u16, u16),
        payload_len: u16,
        cx: &mut Cx<'_>,
    ) -> Poll<Result<(), internet::SendError>> {
        let packet = ready!(self.poll_outgoing_packet(cx));
        self.pool.put(packet);
        let internet = &mut self.internet;
        let pool = &mut self.pool;
        let result =
            internet.make_echo_request(destination, identifier, sequence, payload_len, pool, cx);
        self.outgoing.extend(result?);
        Poll::Ready(Ok(()))
    }

    /// Removes and returns the last reply to an echo request of this host.
    pub fn take_echo_reply(&mut self) -> Option<EchoReply> {
        self.echo_reply.take()
    }

    /// Sends `data` as a datagram of an IP protocol that the application implements itself.
    ///
    /// # Errors
    ///
    /// Returns an error if the Internet layer rejects the datagram.
    pub fn send_raw(
        &mut self,
        header: internet::Header,
        data: &[u8],
        cx: &mut Cx<'_>,
    ) -> Poll<Result<(), internet::SendError>> {
        let mut packet = ready!(self.poll_outgoing_packet(cx));
        packet.extend(data);
        let sent = self.internet.send(packet, header, &mut self.pool, cx);
        self.outgoing.extend(sent?);
        Poll::Ready(Ok(()))
    }

    /// Sends a packet that the application has filled, or drops it if the queue to the link is full.
    pub fn send_packet(&mut self, packet: Packet, header: internet::Header, cx: &mut Cx<'_>) {
        if self.outgoing.len() >= OUTGOING_MAX {
            cx.meter.count(Counter::IpOutputDropped);
            return self.pool.put(packet);
        }
        match self.internet.send(packet, header, &mut self.pool, cx) {
            Ok(sent) => self.outgoing.extend(sent),
            Err(_) => cx.meter.count(Counter::IpOutputDropped),
        }
    }

    /// Returns the next datagram of a protocol registered with [`Internet::register_protocol`]. The
    /// caller returns its packet to the pool when the data is no longer needed.
    pub fn receive_raw(&mut self) -> Option<internet::Datagram> {
        self.raw.pop_front()
    }

    /// Allocates an empty packet. If the pool is exhausted, first frees the packets whose TCP data
    /// was read.
    pub(super) fn lend(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.pool.is_exhausted() {
            self.tcp.return_spent_packets(&mut self.pool);
        }
        self.pool.take(cx.meter)
    }

    /// Returns whether a packet buffer is free for output.
    fn has_buffer_for_output(&mut self) -> bool {
        if self.pool.is_only_reserve_left() {
            self.tcp.return_spent_packets(&mut self.pool);
        }
        !self.pool.is_only_reserve_left()
    }

    /// Allocates a packet for output of an application.
    fn poll_outgoing_packet(&mut self, cx: &mut Cx<'_>) -> Poll<Packet> {
        if self.outgoing.len() >= OUTGOING_MAX {
            cx.meter.count(Counter::IpOutputDropped);
            return Poll::Pending;
        }
        if !self.has_buffer_for_output() {
            cx.meter.count(Counter::PacketsRefused);
            return Poll::Pending;
        }
        self.pool.take(cx.meter).map_or(Poll::Pending, Poll::Ready)
    }

    /// Returns the attachment to an Ethernet segment, if there is one.
    #[must_use]
    pub fn ethernet(&self) -> Option<&ethernet::Ethernet> {
        self.ethernet.as_deref()
    }

    /// Returns the attachment to an Ethernet segment, if there is one.
    pub fn ethernet_mut(&mut self) -> Option<&mut ethernet::Ethernet> {
        self.ethernet.as_deref_mut()
    }

    /// Passes a packet from the link up to its transport.
    pub(super) fn receive(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        let Some(ethernet) = &mut self.ethernet else { return self.receive_datagram(packet, cx) };
        match ethernet.receive(packet, &mut self.pool, cx) {
            Some(datagram) => self.receive_datagram(datagram, cx),
            None => self.process_ethernet_events(cx),
        }
    }

    fn receive_datagram(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        match self.internet.receive(packet, &mut self.pool, cx) {
            Some(datagram) => self.deliver(datagram, 0, cx),
            None => self.process_internet_events(cx),
        }
    }

    /// Passes a looped-back datagram up to its transport.
    pub(super) fn receive_looped(&mut self, cx: &mut Cx<'_>) {
        match self.internet.receive_looped(&mut self.pool, cx) {
            Some(datagram) => self.deliver(datagram, 0, cx),
            None => self.process_internet_events(cx),
        }
    }

    /// Delivers a datagram to its transport, or queues it for another station of this host.
    /// `examined_by` is the number of stations that have already examined the datagram.
    pub(super) fn deliver(
        &mut self,
        datagram: internet::Datagram,
        examined_by: usize,
        cx: &mut Cx<'_>,
    ) {
        let Some(datagram) = self.redirect(datagram, examined_by, cx) else { return };
        self.has_events = true;
        match datagram.header.protocol {
            // The application of a transparent host relays all datagrams but TCP.
            Protocol::Udp | Protocol::Icmp | Protocol::ICMPV6 if self.internet.is_transparent() => {
                self.keep_raw(datagram, RELAYED_MAX, cx);
            }
            Protocol::Tcp => {
                let internet::Datagram { header, packet, .. } = datagram;
                let may_keep = self.pool.is_mostly_free();
                if let Some(packet) = self.tcp.receive(&header, packet, may_keep, cx) {
                    self.pool.put(packet);
                }
                self.confirm_path(cx);
            }
            // Unread data must not use up the packets of all other sockets and connections.
            Protocol::Udp if self.pool.is_queue_share_used_up() => {
                cx.meter.count(Counter::UdpQueueFull);
                self.pool.put(datagram.packet);
            }
            Protocol::Udp => {
                if let Some(datagram) = self.udp.receive(datagram, &mut self.pool, cx) {
                    self.internet.report(datagram, Unreachable::Port, &mut self.pool, cx);
                }
            }
            // Neighbor Discovery: a point-to-point link does not need it, and on an Ethernet
            // segment the Ethernet layer has already processed it.
            Protocol::Icmp | Protocol::ICMPV6 => self.pool.put(datagram.packet),
            Protocol::Other(_) => self.keep_raw(datagram, RAW_MAX, cx),
        }
    }

    /// Queues a datagram for the application, unless `limit` datagrams are queued.
    fn keep_raw(&mut self, datagram: internet::Datagram, limit: usize, cx: &mut Cx<'_>) {
        if self.raw.len() < limit {
            self.raw.push_back(datagram);
        } else {
            cx.meter.count(Counter::IpRawQueueFull);
            self.pool.put(datagram.packet);
        }
    }

    /// Reports to the Ethernet layer the destinations that have acknowledged TCP data.
    fn confirm_path(&mut self, cx: &mut Cx<'_>) {
        if let (Some(peer), Some(ethernet)) = (self.tcp.take_progress(), &mut self.ethernet)
            && !self.internet.is_local(peer)
        {
            ethernet.confirm(peer, self.internet.routes(), cx);
        }
    }

    /// Reports to the Ethernet layer the destinations to which TCP has to retransmit.
    fn suspect_paths(&mut self, cx: &mut Cx<'_>) {
        while let Some(peer) = self.tcp.take_suspect_destination() {
            // A point-to-point line has no other route.
            if let Some(ethernet) = &mut self.ethernet {
                ethernet.suspect(peer, self.internet.routes(), cx);
            }
        }
    }

    fn process_internet_events(&mut self, cx: &mut Cx<'_>) {
        while let Some(event) = self.internet.event() {
            self.has_events = true;
            match event {
                internet::Event::Error(error) => self.process_error(error, 0, cx),
                internet::Event::EchoReply(reply) => self.echo_reply = Some(reply),
            }
        }
    }

    /// Processes an ICMP error. `examined_by` is the number of other stations that have already
    /// examined the error.
    pub(super) fn process_error(&mut self, error: IcmpError, examined_by: usize, cx: &mut Cx<'_>) {
        let is_accepted = self.udp.receive_error(&error) || self.tcp.icmp_error(&error, cx);
        if !is_accepted {
            return self.redirect_error(error, examined_by, cx);
        }
        if let ErrorKind::FragmentationNeeded { next_hop_mtu: Some(mtu) } = error.kind {
            self.internet.lower_path_mtu(error.destination, mtu, cx);
        }
    }

    /// Applies the changes of addresses and routes that the Ethernet layer reports.
    pub(super) fn process_ethernet_events(&mut self, cx: &mut Cx<'_>) {
        while let Some(event) = self.ethernet.as_mut().and_then(|ethernet| ethernet.event()) {
            match event {
                ethernet::Event::Assigned { address, prefix_len } => {
                    // The table has space for twice as many addresses as the Ethernet layer
                    // assigns.
                    _ = self
                        .internet
                        .add_address(addresses::Address::permanent(address, prefix_len));
                    self.has_events = true;
                }
                ethernet::Event::Deprecated(address) => {
                    self.set_address_state(address, addresses::State::Deprecated);
                }
                ethernet::Event::Preferred(address) => {
                    self.set_address_state(address, addresses::State::Preferred);
                }
                ethernet::Event::Removed(address) => {
                    self.internet.remove_address(address);
                    self.has_events = true;
                }
                ethernet::Event::Duplicate(_) => self.has_events = true,
                ethernet::Event::Routes => self.replace_routes(),
                ethernet::Event::Mtu(mtu) => self.lower_mtu(mtu),
                ethernet::Event::HopLimit(hops) => self.internet.set_hop_limit(hops),
                ethernet::Event::Unreachable(packet) => {
                    if let Some(error) = unreachable_error(packet.data()) {
                        _ = self.udp.receive_error(&error) || self.tcp.icmp_error(&error, cx);
                        self.has_events = true;
                    }
                    self.pool.put(packet);
                }
            }
        }
    }

    fn set_address_state(&mut self, address: IpAddr, state: addresses::State) {
        if let Some(known) = self.internet.addresses().get(address) {
            // The address is already in the table, so the table has space for it.
            _ = self.internet.add_address(addresses::Address { state, ..*known });
        }
    }

    /// Replaces the routes that the Ethernet layer has reported earlier. Routes from other sources
    /// remain.
    fn replace_routes(&mut self) {
        let Some(ethernet) = &mut self.ethernet else { return };
        let (old, new) = ethernet.take_routes();
        let routes = self.internet.routes_mut();
        for route in old {
            routes.remove(route.prefix, route.prefix_len, route.router);
        }
        for route in new {
            // Adding cannot fail: the number of routes is below the limit, and the prefix and the
            // router of each route have the same address family.
            _ = routes.add(route);
        }
    }

    /// Lowers the MTU to the value announced by a router or a server, if that is less than the
    /// current MTU. A connection learns the new MTU at its next segment that exceeds it.
    fn lower_mtu(&mut self, mtu: u16) {
        if mtu < self.internet.mtu() {
            self.internet.set_mtu(mtu);
            self.tcp.set_mtu(mtu);
        }
    }

    /// Returns the time of the next timer of these layers.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let ethernet = self.ethernet.as_ref().and_then(|ethernet| ethernet.deadline());
        let deadlines = [self.tcp.deadline(), self.internet.deadline(), ethernet];
        deadlines.into_iter().flatten().min()
    }

    pub(super) fn timer(&mut self, cx: &mut Cx<'_>) {
        if let Some(ethernet) = &mut self.ethernet {
            ethernet.timeout(cx);
            self.process_ethernet_events(cx);
        }
        if self.internet.deadline().is_some_and(|deadline| deadline <= cx.now) {
            self.internet.timeout(&mut self.pool, cx);
        }
        self.has_events |= self.tcp.timeout(cx);
        self.suspect_paths(cx);
    }

    /// Returns whether output may be pending for the link and a packet buffer is free for it.
    pub(super) fn has_output(&self) -> bool {
        let may_send = !self.pool.is_only_reserve_left() || self.tcp.has_spent();
        let has_segments = self.tcp.has_output() && may_send && !self.internet.is_loop_full();
        let ethernet = self.ethernet.as_ref();
        let has_frames = ethernet.is_some_and(|ethernet| ethernet.has_output(&self.pool));
        let has_datagrams = self.internet.has_output(&self.pool) || !self.outgoing.is_empty();
        has_segments || has_frames || has_datagrams
    }

    /// Returns true only if [`Self::transmit`] would return `None`. The check is cheap: it returns
    /// false whenever a layer other than TCP may have output.
    pub(super) fn is_output_empty(&self) -> bool {
        let has_datagrams = !self.outgoing.is_empty() || self.internet.has_pending();
        self.ethernet.is_none() && !has_datagrams && !self.tcp.has_output()
    }

    /// Returns the next complete datagram or frame for the link.
    pub(super) fn transmit(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            let Some(ethernet) = &mut self.ethernet else { return self.transmit_datagram(cx) };
            if let Some(frame) = ethernet.transmit(&mut self.pool, cx) {
                return Some(frame);
            }
            self.process_ethernet_events(cx);
            let datagram = self.transmit_datagram(cx)?;
            let ethernet = self.ethernet.as_mut()?;
            let hop = ethernet.next_hop(&datagram, self.internet.routes());
            let sent = ethernet.send(datagram, hop, &mut self.pool, cx);
            if sent.is_some() {
                return sent;
            }
        }
    }

    /// Returns the next datagram or frame for a device with gather output, and the location of the
    /// data that is not in the packet.
    pub(super) fn transmit_in_parts(&mut self, cx: &mut Cx<'_>) -> Option<(Packet, Option<Tail>)> {
        loop {
            let Some(ethernet) = &mut self.ethernet else {
                return self.transmit_datagram_in_parts(cx);
            };
            if let Some(frame) = ethernet.transmit(&mut self.pool, cx) {
                return Some((frame, None));
            }
            self.process_ethernet_events(cx);
            let (mut datagram, mut tail) = self.transmit_datagram_in_parts(cx)?;
            let ethernet = self.ethernet.as_mut()?;
            let hop = ethernet.next_hop(&datagram, self.internet.routes());
            if !ethernet.is_resolved(hop)
                && let Some(tail) = tail.take()
            {
                // The datagram is queued, so its data is copied into the packet: TCP may release
                // the data meanwhile.
                datagram.gather(self.tcp.tail(&tail));
            }
            if let Some(frame) = ethernet.send(datagram, hop, &mut self.pool, cx) {
                return Some((frame, tail));
            }
        }
    }

    fn transmit_datagram(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        if let Some(packet) = self.next_datagram(cx) {
            return Some(packet);
        }
        self.report_path_mtus(cx);
        // A full loopback queue would drop a segment to this host, so the segment stays in TCP.
        while self.has_buffer_for_output() && !self.internet.is_loop_full() {
            let segment = self.tcp.transmit(&mut self.pool, cx)?;
            if self.is_longer_than_path(&segment, cx) {
                self.pool.put(segment.packet);
                continue;
            }
            match self.internet.send(segment.packet, segment.lower, &mut self.pool, cx) {
                Ok(Some(packet)) => return Some(packet),
                // The segment was looped back to this host.
                Ok(None) => {}
                Err(error) => self.drop_segment(segment.connection, error, cx),
            }
        }
        self.tcp.output_stopped();
        None
    }

    fn transmit_datagram_in_parts(&mut self, cx: &mut Cx<'_>) -> Option<(Packet, Option<Tail>)> {
        if !self.tcp.leaves_data_in_place() {
            return self.transmit_datagram(cx).map(|packet| (packet, None));
        }
        if let Some(packet) = self.next_datagram(cx) {
            return Some((packet, None));
        }
        self.report_path_mtus(cx);
        while self.has_buffer_for_output() && !self.internet.is_loop_full() {
            let (mut segment, tail) = self.tcp.transmit_in_parts(&mut self.pool, cx)?;
            if self.is_longer_than_path(&segment, cx) {
                self.pool.put(segment.packet);
                continue;
            }
            // No device gathers looped-back datagrams.
            if self.internet.is_local(segment.lower.destination)
                && let Some(tail) = &tail
            {
                segment.packet.gather(self.tcp.tail(tail));
            }
            match self.internet.send(segment.packet, segment.lower, &mut self.pool, cx) {
                Ok(Some(packet)) => return Some((packet, tail)),
                Ok(None) => {}
                Err(error) => self.drop_segment(segment.connection, error, cx),
            }
        }
        self.tcp.output_stopped();
        None
    }

    /// Returns the next datagram for the link that belongs to no TCP connection, for a caller that
    /// schedules the output itself by [`Tcp::ready_connection`] and [`Self::transmit_connection`].
    pub fn transmit_other(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        self.report_path_mtus(cx);
        loop {
            if let Some(packet) = self.next_datagram(cx) {
                return Some(packet);
            }
            let segment = self.tcp.transmit_stateless(&mut self.pool, cx)?;
            match self.internet.send(segment.packet, segment.lower, &mut self.pool, cx) {
                Ok(Some(packet)) => return Some(packet),
                Ok(None) => {}
                Err(error) => self.drop_segment(None, error, cx),
            }
        }
    }

    /// Returns the next datagram of a TCP connection for the link. Call [`Self::has_free_buffer`]
    /// before.
    pub fn transmit_connection(&mut self, id: ConnectionId, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            let segment = self.tcp.transmit_connection(id, &mut self.pool, cx)?;
            if self.is_longer_than_path(&segment, cx) {
                self.pool.put(segment.packet);
                continue;
            }
            match self.internet.send(segment.packet, segment.lower, &mut self.pool, cx) {
                Ok(Some(packet)) => return Some(packet),
                // The caller gets it by `transmit_other`, or it was looped back to this host.
                Ok(None) => {}
                Err(error) => self.drop_segment(Some(id), error, cx),
            }
        }
    }

    /// Returns whether a packet buffer is free for output.
    pub fn has_free_buffer(&mut self) -> bool {
        self.has_buffer_for_output()
    }

    /// Drops a segment. TCP retransmits it when its timer expires.
    fn drop_segment(
        &mut self,
        connection: Option<ConnectionId>,
        error: internet::SendError,
        cx: &mut Cx<'_>,
    ) {
        cx.meter.count(Counter::IpOutputDropped);
        if let Some(connection) = connection.filter(|_| error == internet::SendError::NoRoute) {
            self.tcp.record_no_route(connection);
        }
    }

    /// Reports the known path MTU of each new connection to TCP.
    fn report_path_mtus(&mut self, cx: &mut Cx<'_>) {
        while let Some((id, remote)) = self.tcp.new_connection() {
            let mtu = self.internet.mtu_to(remote, cx.now);
            // The connection exists, and has not sent anything yet.
            _ = self.tcp.packet_too_big(id, mtu, cx);
        }
    }

    /// Returns whether the segment exceeds the path MTU, because the path MTU has decreased since
    /// TCP last learned it. TCP is notified and resegments the data.
    fn is_longer_than_path(&mut self, segment: &Segment, cx: &mut Cx<'_>) -> bool {
        let destination = segment.lower.destination;
        let mtu = self.internet.mtu_to(destination, cx.now);
        if segment.datagram_len <= usize::from(mtu) || self.internet.is_local(destination) {
            return false;
        }
        let Some(id) = segment.connection else { return false };
        self.tcp.packet_too_big(id, mtu, cx) == Ok(true)
    }

    fn next_datagram(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let pending = self.internet.transmit(&mut self.pool, cx);
        pending.or_else(|| self.outgoing.pop_front())
    }
}

/// Returns the ICMP error that reports an outgoing datagram whose next hop does not answer (RFC
/// 1122 §3.3.1.4, RFC 4861 §7.2.2).
fn unreachable_error(datagram: &[u8]) -> Option<IcmpError> {
    let (source, destination, protocol, headers_len): (IpAddr, IpAddr, _, _) =
        if datagram.first()? >> 4 == 4 {
            let parsed = ipv4::Header::parse_quoted(datagram).ok()?;
            let ipv4::Header { source, destination, protocol, .. } = parsed.header;
            (source.into(), destination.into(), protocol, parsed.header_len)
        } else {
            let quoted = ipv6::parse_quoted(datagram).ok()?;
            let ipv6::Header { source, destination, .. } = quoted.parsed.header;
            (source.into(), destination.into(), quoted.protocol, quoted.headers_len)
        };
    let kind = ErrorKind::Unreachable(Unreachable::Host);
    let first_bytes = *datagram.get(headers_len..)?.first_chunk()?;
    Some(IcmpError { kind, reporter: source, protocol, source, destination, first_bytes })
}
