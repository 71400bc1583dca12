//! One guest: its station, and its flows.

mod end_of_guest;
mod failures;
mod long_packets;
mod wrong_sources;

pub use failures::ConnectFailure;

use crate::capture::{Capture, CapturedPacket, Direction};
use crate::dns;
use crate::fair_output::{FairOutput, OutputRate};
use crate::policy::{Policy, Refused};
use crate::queue::QueueCounters;
use crate::relay::host_errors::{self, HostErrors, Quotation};
use crate::relay::tcp_flows::Destination;
use crate::relay::udp_flows::Marks;
use crate::relay::{Key, echo_flows, tcp_flows, udp_flows};
use crate::segment::{self, Segment};
use long_packets::LongPackets;
use net::internet::icmp::{ErrorKind, Unreachable};
use net::internet::{self, Datagram, SourceErrors, ipv4::Protocol};
use net::link::ppp::Phase;
use net::link::{self, Link};
use net::meter::Counter;
use net::packet::Packet;
use net::station::{self, Application, Frame, Layers, Scheduler, Station, Step};
use net::time::Duration;
use net::transport::tcp::OpenError;
use net::transport::udp::{self, Relayed};
use net::{Cx, Instant};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use wrong_sources::WrongSources;

/// Maximum number of opens that wait for the gateway to look at them.
const DEFERRED_OPENS_MAX: usize = 256;
/// Maximum number of echo flows of a guest, and of new ones per second.
const ECHO_FLOWS_MAX: usize = 256;
const NEW_ECHO_FLOWS_PER_S: u32 = 100;
const DOMAIN_PORT: u16 = 53;
/// The error about a datagram to a destination that the policy does not permit.
const PROHIBITED: ErrorKind = ErrorKind::Unreachable(Unreachable::Prohibited);
/// Offset of the flags in the IPv4 header, and the flag DF in this byte.
const FLAGS_OFFSET: usize = 6;
const DONT_FRAGMENT: u8 = 0x40;
/// Time of a super-segment from which on a limited output takes single packets.
const SUPER_SEGMENT_TIME_MAX: Duration = Duration::from_millis(1);
const SUPER_SEGMENT_LEN: usize = 1 << 16;
/// Number of bytes of a line that are processed at once. At most two packets end in them, and the
/// queue of received packets of a link may be as short as its output queue.
const LINE_PIECE_LEN: usize = 8;

/// The medium between a guest and the gateway.
#[derive(Debug)]
pub enum Medium {
    /// A device that carries datagrams, such as a TUN, with its MTU in bytes.
    Datagrams(u16),
    /// A device that carries Ethernet frames, such as a TAP, with its MTU in bytes.
    Frames(u16, Box<segment::Settings>),
    /// A serial line.
    Line(Box<Link>),
}

/// Settings of a guest.
#[derive(Debug)]
pub struct Settings {
    /// The medium.
    pub medium: Medium,
    /// The addresses of the gateway on the guest's network.
    pub addresses: Vec<IpAddr>,
    /// The addresses and networks from which the guest may send (row 105 of the attack table), by
    /// prefix and prefix length in bits.
    pub leases: Vec<(IpAddr, u8)>,
    /// Settings of the station; its offloads are those of the guest's device.
    pub station: station::Settings,
    /// Which destinations the guest may reach.
    pub policy: Policy,
    /// Limits of TCP flows.
    pub tcp: tcp_flows::Limits,
    /// Limits of UDP flows.
    pub udp: udp_flows::Limits,
    /// The addresses at which the gateway forwards DNS.
    pub dns_addresses: Vec<IpAddr>,
    /// Settings of the DNS forwarder.
    pub dns: dns::Settings,
    /// The rate of the output to the guest, if it is slower than the gateway.
    pub output_rate: Option<OutputRate>,
}

/// A task of the driver with sockets of the host.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// For a TCP flow.
    Tcp(tcp_flows::Event),
    /// For a UDP flow.
    Udp(udp_flows::Event),
    /// For an echo flow.
    Echo(echo_flows::Event),
    /// For a DNS query.
    Dns(dns::Event),
}

/// The flows of a guest. The station runs them as its application.
#[derive(Debug)]
struct Relay {
    tcp: tcp_flows::Flows,
    udp: udp_flows::Flows,
    echo: echo_flows::Flows,
    dns: dns::Forwarder,
    dns_addresses: Vec<IpAddr>,
    policy: Policy,
    errors: HostErrors,
    /// The addresses of the gateway on the guest's network.
    gateways: Vec<IpAddr>,
}

/// One guest of the gateway.
#[derive(Debug)]
pub struct Guest {
    station: Station,
    segment: Option<Segment>,
    scheduler: Scheduler,
    relay: Relay,
    /// The order of the flows, if the output is slower than the gateway.
    output: Option<FairOutput>,
    /// A frame for which the device had no space.
    unsent: Option<Packet>,
    capture: Option<Capture>,
    /// The sources that a guest without a segment must not use.
    wrong_sources: WrongSources,
    long_packets: LongPackets,
}

impl Guest {
    /// Creates a guest.
    #[must_use]
    pub fn new(settings: Settings, cx: &mut Cx<'_>) -> Self {
        let (link, segment) = match settings.medium {
            Medium::Datagrams(mtu) => (Link::Datagram(link::Datagram::new(mtu.into())), None),
            Medium::Frames(mtu, segment) => {
                (Link::Datagram(link::Datagram::new(mtu.into())), Some(Segment::new(*segment)))
            }
            Medium::Line(link) => (*link, None),
        };
        let mut station = Station::new(link, settings.station, cx);
        for &address in &settings.addresses {
            let known = internet::addresses::Address::permanent(address, prefix_len(address));
            // The table has space for the few addresses of a gateway.
            _ = station.internet_mut().add_address(known);
        }
        station.internet_mut().set_transparent_for(Some(settings.leases));
        station.layers.tcp.defer_opens(DEFERRED_OPENS_MAX);
        station.layers.tcp.set_connections_max(settings.tcp.flows.saturating_mul(2));
        station.layers.tcp.set_growth_max(settings.tcp.growth_bytes);
        let mut tcp = tcp_flows::Flows::new(settings.tcp);
        let output = settings.output_rate.map(|rate| {
            tcp.set_send_buffer(rate.buffer_bytes());
            if rate.time_of(SUPER_SEGMENT_LEN) > SUPER_SEGMENT_TIME_MAX {
                use_single_packets(&mut station, &settings.station);
            }
            FairOutput::new(rate, settings.station.packets / 2, cx)
        });
        let relay = Relay {
            tcp,
            udp: udp_flows::Flows::new(settings.udp),
            echo: echo_flows::Flows::new(ECHO_FLOWS_MAX, NEW_ECHO_FLOWS_PER_S),
            dns: dns::Forwarder::new(settings.dns, cx),
            dns_addresses: settings.dns_addresses,
            policy: settings.policy,
            errors: HostErrors::new(),
            gateways: settings.addresses,
        };
        let scheduler = Scheduler::default();
        let mut guest = Self {
            station,
            segment,
            scheduler,
            relay,
            output,
            unsent: None,
            capture: None,
            wrong_sources: WrongSources::default(),
            long_packets: LongPackets::default(),
        };
        guest.open_line(cx);
        guest
    }

    /// Opens PPP, unless it is open or opening.
    fn open_line(&mut self, cx: &mut Cx<'_>) {
        if let Link::Ppp(ppp) = self.station.link_mut()
            && ppp.phase() == Phase::Dead
        {
            ppp.open(cx);
        }
    }

    /// Allocates an empty packet into which the driver reads a datagram.
    pub fn lend(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        self.station.lend(cx)
    }

    /// Returns an unused packet.
    pub fn take_back(&mut self, packet: Packet) {
        self.station.take_back(packet);
    }

    /// Processes a datagram or a frame from the device.
    pub fn receive_packet(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        if let Some(capture) = &mut self.capture {
            capture.record(Direction::FromGuest, [packet.data(), &[], &[]], cx.now);
        }
        let datagram = match &mut self.segment {
            Some(segment) => segment.receive(packet, &mut self.station.layers.pool, cx),
            None => Some(packet),
        };
        if let Some(datagram) = datagram {
            self.station.receive_packet(datagram, cx);
            self.relay.receive(&mut self.station.layers, cx);
        }
    }

    /// Processes bytes from the line.
    pub fn receive_bytes(&mut self, bytes: &[u8], cx: &mut Cx<'_>) {
        // A guest that was not ready, or that has ended its session, is there now.
        self.open_line(cx);
        let too_long = long_packets::counted(cx.meter);
        for piece in bytes.chunks(LINE_PIECE_LEN) {
            self.station.receive(piece, cx);
            while self.station.has_input() {
                self.station.step(Step::Network, &mut self.relay, cx);
                self.relay.receive(&mut self.station.layers, cx);
                self.wrong_sources.check(self.station.layers.internet.source_errors());
            }
        }
        self.long_packets.record(too_long, cx.meter);
    }

    /// Processes the consequences of received datagrams and of calls of the driver. Call before
    /// [`Self::event`] and [`Self::transmit_to`].
    pub fn run(&mut self, cx: &mut Cx<'_>) {
        // Calls of the driver can cause events too: a new connection may replace a starved one.
        self.station.step(Step::User, &mut self.relay, cx);
    }

    /// Passes all pending output to a device, as [`Station::transmit_to`] does.
    pub fn transmit_to(
        &mut self,
        device: &mut dyn FnMut(Frame<'_>, &mut Cx<'_>) -> bool,
        cx: &mut Cx<'_>,
    ) {
        let capture = &mut self.capture;
        let device = &mut |frame: Frame<'_>, cx: &mut Cx<'_>| {
            let Frame { packet, tail: [first, second] } = frame;
            let is_accepted = device(frame, cx);
            if let Some(capture) = capture.as_mut().filter(|_| is_accepted) {
                capture.record(Direction::ToGuest, [packet.data(), first, second], cx.now);
            }
            is_accepted
        };
        let Some(segment) = &mut self.segment else {
            return self.station.transmit_to(device, cx);
        };
        while let Some(frame) = segment.transmit(&mut self.station.layers.pool, cx) {
            // Without an answer, the guest asks again.
            device(Frame { packet: &frame, tail: [&[], &[]] }, cx);
            self.station.take_back(frame);
        }
        self.station.transmit_frames_to(&mut |packet| segment.frame(packet), device, cx);
    }

    /// Passes the next packet of the output to a device that accepts one at a time, and returns its
    /// length in bytes. Returns `None` if there is no packet, or if `device` returns false because it
    /// has no space for it; [`Self::has_output`] then tells whether one waits.
    pub fn transmit_one(
        &mut self,
        device: &mut dyn FnMut(Frame<'_>, &mut Cx<'_>) -> bool,
        cx: &mut Cx<'_>,
    ) -> Option<usize> {
        let packet = match self.unsent.take() {
            Some(packet) => packet,
            None => self.next_packet(cx)?,
        };
        if !device(Frame { packet: &packet, tail: [&[], &[]] }, cx) {
            self.unsent = Some(packet);
            return None;
        }
        if let Some(capture) = &mut self.capture {
            capture.record(Direction::ToGuest, [packet.data(), &[], &[]], cx.now);
        }
        let len = packet.len();
        cx.meter.count(Counter::LinkPacketsOut);
        self.station.take_back(packet);
        Some(len)
    }

    /// Returns the next packet of a slow output.
    fn next_packet(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let layers = &mut self.station.layers;
        let frame = self.segment.as_mut().and_then(|s| s.transmit(&mut layers.pool, cx));
        if frame.is_some() {
            return frame;
        }
        let mut packet = self.output.as_mut()?.next(layers, cx)?;
        if let Some(segment) = &mut self.segment {
            segment.frame(&mut packet);
        }
        Some(packet)
    }

    /// Appends at most `limit` bytes of output for the line to `wire`, and returns their number.
    pub fn transmit_into(&mut self, wire: &mut Vec<u8>, limit: usize, cx: &mut Cx<'_>) -> usize {
        while let Some(step) = self.scheduler.next(&mut self.station, &self.relay, cx.now) {
            // The output is sent in the order of the fair queue.
            if step == Step::Send {
                break;
            }
            self.scheduler.step(step, &mut self.station, &mut self.relay, cx);
        }
        let mut written = 0;
        loop {
            written += self.station.transmit_into(wire, limit - written, cx);
            let link = self.station.link();
            if written == limit || link.has_output() || link.is_full() {
                return written;
            }
            let Some(output) = &mut self.output else { return written };
            // The link gets the next packet when it has transmitted the one before.
            let Some(packet) = output.next(&mut self.station.layers, cx) else { return written };
            if let Err(packet) = self.station.link_mut().send(packet, cx) {
                // The link has counted it.
                self.station.take_back(packet);
                return written;
            }
        }
    }

    /// Moves new datagrams to a slow output, so that the queue of the station has space.
    fn collect_output(&mut self, cx: &mut Cx<'_>) {
        if let Some(output) = &mut self.output {
            output.collect(&mut self.station.layers, cx);
        }
    }

    /// Returns whether output may be pending for a slow output.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.unsent.is_some()
            || self.station.link().has_output()
            || self.station.has_output()
            || self.output.as_ref().is_some_and(FairOutput::has_output)
            || self.segment.as_ref().is_some_and(Segment::has_output)
    }

    /// Returns the counters of a slow output.
    #[must_use]
    pub fn output_counters(&self) -> Option<&QueueCounters> {
        self.output.as_ref().map(FairOutput::counters)
    }

    /// Returns the size of the receive buffer of the host's sockets in bytes, if the output is so slow
    /// that a larger buffer would delay the data of its own flow.
    #[must_use]
    pub fn socket_buffer(&self) -> Option<usize> {
        self.relay.tcp.socket_buffer()
    }

    /// Returns the number of bytes that are worth a read from the socket of a TCP flow: at least 1,
    /// and less than the send buffer of its connection.
    #[must_use]
    pub fn read_min(&self, flow: Key) -> usize {
        self.relay.tcp.read_min(flow)
    }

    /// Returns how often a buffer of a TCP flow was small at first or did not grow, because of the
    /// limits of the buffers of all flows.
    #[must_use]
    pub fn limited_buffers(&self) -> u64 {
        self.relay.tcp.counters().small_buffers + self.station.layers.tcp.growth_refusals()
    }

    /// Returns the link of the guest.
    #[must_use]
    pub fn link(&self) -> &Link {
        self.station.link()
    }

    /// Returns the segment of the guest, if its medium carries frames.
    #[must_use]
    pub fn segment(&self) -> Option<&Segment> {
        self.segment.as_ref()
    }

    /// Returns the segment of the guest for modification, if its medium carries frames.
    pub fn segment_mut(&mut self) -> Option<&mut Segment> {
        self.segment.as_mut()
    }

    /// Returns the numbers of datagrams that were dropped because their source is not an address of
    /// the guest. Those that a segment has dropped are counted by the segment.
    #[must_use]
    pub fn source_errors(&self) -> SourceErrors {
        self.station.layers.internet.source_errors()
    }

    /// Returns the next source of dropped datagrams of a guest at a serial line. Each is returned
    /// once, and at most eight are.
    pub fn wrong_source(&mut self) -> Option<IpAddr> {
        self.wrong_sources.next_source()
    }

    /// Returns the number of packets of a guest at a serial line that were dropped because they are
    /// longer than the MTU of the line.
    #[must_use]
    pub const fn packets_above_mtu(&self) -> u64 {
        self.long_packets.count()
    }

    /// Returns whether packets of [`Self::packets_above_mtu`] are to be reported, once.
    pub const fn reports_packets_above_mtu(&mut self) -> bool {
        self.long_packets.take_report()
    }

    /// Returns when [`Self::timeout`] has to be called.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let relay = &self.relay;
        let segment = self.segment.as_ref().and_then(Segment::deadline);
        let station = self.station.deadline();
        let dns = relay.dns.deadline();
        let deadlines = [station, segment, relay.udp.deadline(), relay.echo.deadline(), dns];
        deadlines.into_iter().flatten().min()
    }

    /// Processes the timers that are due.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.station.deadline().is_some_and(|deadline| deadline <= cx.now) {
            self.station.step(Step::Timer, &mut self.relay, cx);
        }
        if let Some(segment) = &mut self.segment {
            segment.timeout(cx);
        }
        self.relay.udp.timeout(cx.now);
        self.relay.echo.timeout(cx.now);
        if self.relay.dns.deadline().is_some_and(|deadline| deadline <= cx.now) {
            self.relay.dns.timeout(cx);
            self.relay.send_dns_replies(&mut self.station.layers, cx);
        }
    }

    /// Returns the next event for the driver.
    pub fn event(&mut self) -> Option<Event> {
        let Relay { tcp, udp, echo, dns, .. } = &mut self.relay;
        let event = tcp.event().map(Event::Tcp);
        let event = event.or_else(|| udp.event().map(Event::Udp));
        let event = event.or_else(|| echo.event().map(Event::Echo));
        event.or_else(|| dns.event().map(Event::Dns))
    }

    /// Returns the TCP flows.
    #[must_use]
    pub fn tcp(&self) -> &tcp_flows::Flows {
        &self.relay.tcp
    }

    /// Returns the UDP flows.
    #[must_use]
    pub fn udp(&self) -> &udp_flows::Flows {
        &self.relay.udp
    }

    /// Returns the UDP flows for modification.
    pub fn udp_mut(&mut self) -> &mut udp_flows::Flows {
        &mut self.relay.udp
    }

    /// Returns the DNS forwarder.
    #[must_use]
    pub fn dns(&self) -> &dns::Forwarder {
        &self.relay.dns
    }

    /// Calls `change` with the DNS forwarder, and sends its responses to the guest.
    pub fn change_dns(
        &mut self,
        change: impl FnOnce(&mut dns::Forwarder, &mut Cx<'_>),
        cx: &mut Cx<'_>,
    ) {
        change(&mut self.relay.dns, cx);
        self.relay.send_dns_replies(&mut self.station.layers, cx);
    }

    /// Returns the echo flows.
    #[must_use]
    pub fn echo(&self) -> &echo_flows::Flows {
        &self.relay.echo
    }

    /// Returns the destinations that the policy has refused.
    #[must_use]
    pub fn refused(&self) -> Refused {
        self.relay.policy.refused()
    }

    /// Copies all packets from now on, for [`Self::captured`]. Returns false for a guest at a serial
    /// line, which has no packets.
    pub fn start_capture(&mut self) -> bool {
        let has_packets = matches!(self.station.link(), Link::Datagram(_) | Link::Ethernet(_));
        if has_packets {
            self.capture = Some(Capture::default());
        }
        has_packets
    }

    /// Stops copying packets, and returns the number of packets of which no copy was made.
    pub fn stop_capture(&mut self) -> u64 {
        self.capture.take().map_or(0, |capture| capture.dropped())
    }

    /// Returns the next copy of a packet.
    pub fn captured(&mut self) -> Option<CapturedPacket> {
        self.capture.as_mut()?.next_packet()
    }

    /// Returns the states of the TCP flows.
    pub fn tcp_statuses(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (Key, tcp_flows::Status)> + '_ {
        let Self { station, relay, output, .. } = self;
        let waits_for_turn = |id| output.as_ref().is_some_and(|output| output.has_connection(id));
        relay.tcp.statuses(&station.layers.tcp, waits_for_turn, now)
    }

    /// Reports that the data of a TCP flow was copied in both directions as far as both sides accept
    /// it. What limits the flow until the next copy depends on its state now.
    pub fn copied(&mut self, flow: Key, cx: &Cx<'_>) {
        let Self { station, relay, output, .. } = self;
        let waits_for_turn = |id| output.as_ref().is_some_and(|output| output.has_connection(id));
        relay.tcp.copied(&station.layers.tcp, flow, waits_for_turn, cx.now);
    }

    /// Opens a TCP flow to the guest; see [`tcp_flows::Flows::accept`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`tcp_flows::Flows::accept`]. An address of the gateway is
    /// [`OpenError::BadRemote`].
    pub fn accept(
        &mut self,
        source: SocketAddr,
        guest: SocketAddr,
        cx: &mut Cx<'_>,
    ) -> Result<Key, OpenError> {
        if self.has_address(guest.ip()) {
            return Err(OpenError::BadRemote);
        }
        self.relay.tcp.accept(&mut self.station.layers.tcp, source, guest, cx)
    }

    /// Reports that the socket of a TCP flow is connected.
    pub fn connected(&mut self, flow: Key, cx: &mut Cx<'_>) {
        self.relay.tcp.connected(&mut self.station.layers.tcp, flow, cx);
    }

    /// Returns the next data of the guest for the socket of a TCP flow.
    #[must_use]
    pub fn to_host(&self, flow: Key) -> &[u8] {
        self.relay.tcp.to_host(&self.station.layers.tcp, flow)
    }

    /// Returns all data of the guest for the socket of a TCP flow, in pieces.
    pub fn to_host_pieces(&self, flow: Key) -> impl Iterator<Item = &[u8]> {
        self.relay.tcp.to_host_pieces(&self.station.layers.tcp, flow)
    }

    /// Removes data that the socket of a TCP flow has accepted.
    pub fn accepted(&mut self, flow: Key, count: usize) {
        self.relay.tcp.accepted(&mut self.station.layers.tcp, flow, count);
    }

    /// Returns whether the socket of a TCP flow must be shut down for writing now.
    #[must_use]
    pub fn must_shut_down(&self, flow: Key) -> bool {
        self.relay.tcp.must_shut_down(&self.station.layers.tcp, flow)
    }

    /// Reports that the socket of a TCP flow is shut down for writing.
    pub fn shut_down(&mut self, flow: Key) {
        self.relay.tcp.shut_down(&mut self.station.layers.tcp, flow);
    }

    /// Returns the number of bytes that [`Self::to_guest`] accepts now.
    #[must_use]
    pub fn space(&self, flow: Key) -> usize {
        self.relay.tcp.space(&self.station.layers.tcp, flow)
    }

    /// Queues data from the socket of a TCP flow for the guest, and returns the number of accepted
    /// bytes.
    pub fn to_guest(&mut self, flow: Key, data: &[u8]) -> usize {
        self.relay.tcp.to_guest(&mut self.station.layers.tcp, flow, data)
    }

    /// As [`Self::to_guest`], without a copy of the data.
    pub fn share_with_guest(&mut self, flow: Key, data: &Arc<[u8]>) -> usize {
        self.relay.tcp.share_with_guest(&mut self.station.layers.tcp, flow, data)
    }

    /// Reports that the remote host of a TCP flow has finished.
    pub fn host_finished(&mut self, flow: Key) {
        self.relay.tcp.host_finished(&mut self.station.layers.tcp, flow);
    }

    /// Reports that the socket of a TCP flow has failed.
    pub fn host_reset(&mut self, flow: Key, cx: &mut Cx<'_>) {
        self.relay.tcp.host_reset(&mut self.station.layers.tcp, flow, cx);
    }

    /// Sends datagrams of `size` bytes that the socket of a UDP flow has received from `source` to
    /// the guest. Returns false if the guest's queue is full, and the datagrams are dropped.
    pub fn datagrams_to_guest(
        &mut self,
        flow: Key,
        source: SocketAddr,
        (data, size): (&[u8], u16),
        cx: &mut Cx<'_>,
    ) -> bool {
        let Some(ends) = self.relay.udp.from_host(flow, source, data.len()) else { return true };
        // A forward to an address of the gateway itself has no guest.
        if self.has_address(ends.1.ip()) {
            return true;
        }
        let sent = self.station.layers.send_between(ends, data, size, cx);
        self.collect_output(cx);
        !sent.is_pending()
    }

    /// Sends a reply that the socket of an echo flow has received from `source` to the guest.
    pub fn echo_to_guest(&mut self, flow: Key, source: IpAddr, message: &[u8], cx: &mut Cx<'_>) {
        let Some(reply) = self.relay.echo.from_host(flow, source, message) else { return };
        let is_v4 = reply.destination.is_ipv4();
        let protocol = if is_v4 { Protocol::Icmp } else { Protocol::ICMPV6 };
        let header = internet::Header {
            source: reply.source,
            ..internet::Header::to(reply.destination, protocol)
        };
        let layers = &mut self.station.layers;
        let Some(mut packet) = layers.pool.take(cx.meter) else { return };
        echo_flows::write_reply(&reply, &mut packet);
        layers.send_packet(packet, header, cx);
    }

    /// Returns whether `address` is an address of the gateway.
    fn has_address(&self, address: IpAddr) -> bool {
        self.station.layers.internet.addresses().contains(address)
    }

    /// Returns the number of packet buffers in use.
    #[must_use]
    pub fn packets_in_use(&self) -> usize {
        self.station.packets_in_use()
    }

    /// Returns the states of all TCP connections.
    #[cfg(test)]
    pub(crate) fn connections(&self) -> impl Iterator<Item = net::transport::tcp::Status> {
        self.station.layers.tcp.statuses()
    }
}

impl Relay {
    /// Processes received datagrams of other protocols than TCP.
    fn receive(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        while let Some(mut datagram) = layers.receive_raw() {
            match datagram.header.protocol {
                Protocol::Udp => {
                    let Layers { udp, pool, .. } = &mut *layers;
                    let marks = marks_of(&mut datagram);
                    let Some(relayed) = udp.parse_relayed(datagram, pool, cx) else { continue };
                    self.receive_datagram(&relayed, marks, layers, cx);
                    layers.pool.put(relayed.packet);
                }
                Protocol::Icmp | Protocol::ICMPV6 => {
                    if !self.echo.receive(&datagram, &mut self.policy, cx) {
                        let about = Quotation {
                            source: datagram.header.source,
                            destination: datagram.header.destination,
                            protocol: datagram.header.protocol,
                            header: &[],
                            payload: datagram.packet.data(),
                        };
                        self.report(PROHIBITED, None, &about, layers, cx);
                    }
                    layers.pool.put(datagram.packet);
                }
                Protocol::Tcp | Protocol::Other(_) => layers.pool.put(datagram.packet),
            }
        }
        self.send_dns_replies(layers, cx);
    }

    fn receive_datagram(
        &mut self,
        relayed: &Relayed,
        marks: Marks,
        layers: &mut Layers,
        cx: &mut Cx<'_>,
    ) {
        let Relayed { source, destination, packet } = relayed;
        let is_dns = destination.port() == DOMAIN_PORT;
        if is_dns && self.dns_addresses.contains(&destination.ip()) {
            let size = match packet.offload.segment_size {
                0 => packet.len().max(1),
                size => size.into(),
            };
            for query in packet.data().chunks(size) {
                self.dns.receive_query(*source, *destination, query, cx);
            }
        } else if !self.udp.receive(relayed, marks, &mut self.policy, cx) {
            let len = packet.data().len();
            let header = host_errors::udp_header(source.port(), destination.port(), len);
            let about = Quotation {
                source: source.ip(),
                destination: destination.ip(),
                protocol: Protocol::Udp,
                header: &header,
                payload: packet.data(),
            };
            self.report(PROHIBITED, None, &about, layers, cx);
        }
    }

    fn send_dns_replies(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        while let Some(reply) = self.dns.transmit() {
            let ends = (reply.source, reply.destination);
            // The guest repeats a query whose response is lost.
            _ = layers.send_between(ends, &reply.payload, 0, cx);
        }
    }
}

impl Application for Relay {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        self.receive(layers, cx);
        let Self { tcp, policy, dns, dns_addresses, .. } = self;
        let mut route = |remote: SocketAddr| {
            if remote.port() == DOMAIN_PORT && dns_addresses.contains(&remote.ip()) {
                return Destination::Resolvers(dns.resolvers().iter().copied().collect());
            }
            match policy.permit(remote.ip()) {
                Ok(address) => Destination::Host(SocketAddr::new(address, remote.port())),
                Err(_) => Destination::Denied,
            }
        };
        tcp.run(&mut layers.tcp, &mut route, cx);
    }
}

/// Returns the fields of the IP header that the host's socket sends alike.
fn marks_of(datagram: &mut Datagram) -> Marks {
    let Datagram { header, header_len, is_reassembled, packet } = datagram;
    // A guest that fragments a datagram permits fragments. Of a whole IPv6 datagram, no router
    // makes fragments (RFC 8200 §4.5).
    let forbids_fragments = !*is_reassembled
        && (header.destination.is_ipv6() || {
            packet.unpull(*header_len);
            let flags = packet.data().get(FLAGS_OFFSET).copied().unwrap_or(0);
            packet.pull(*header_len);
            flags & DONT_FRAGMENT != 0
        });
    Marks { hop_limit: header.hop_limit, forbids_fragments }
}

/// Switches off super-segments and super-datagrams, which the device would split. It delivers
/// received ones nevertheless.
fn use_single_packets(station: &mut Station, settings: &station::Settings) {
    let station::Settings { checksum_offload, routines, .. } = *settings;
    station.layers.tcp.set_tso(false);
    station.layers.udp.set_lower_level(udp::LowerLevel { uso: false, checksum_offload, routines });
}

fn prefix_len(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}
