//! One line of a router: its link, its output queue, and the address of its host.
//!
//! The queue of the link itself holds one packet, so that all others wait in the [`PacketQueue`].

use super::counters::{RouterCounters, RouterDrop};
use super::window_limit::{QueueState, WindowLimit};
use crate::capture::{Capture, Direction};
use crate::queue::{Discipline, PacketQueue, QueueSettings};
use net::Cx;
use net::link::ppp::{self, Phase};
use net::link::{Event, Link, Llp, Ppp, Slip};
use net::meter::Counter;
use net::packet::{Packet, Pool};
use net::time::{Duration, Instant};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Number of packets in the link itself.
const IN_LINK_MAX: usize = 1;
/// Limit of the queues of the link. Received packets are collected after each chunk.
const LINK_QUEUE: usize = 64;
/// Number of received bytes that are passed to the link at once: no more packets than the link can
/// queue.
const CHUNK: usize = 512;
/// Bits per byte on an asynchronous serial line: with one start and one stop bit.
const BITS_PER_BYTE: u64 = 10;
/// Bytes that a link adds to a packet.
const FRAMING: usize = 8;
/// Time after which a PPP line that has ended is opened again.
const REOPEN_AFTER: Duration = Duration::from_secs(3);

/// Identifies a line of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(pub u32);

/// The protocol of a line.
#[derive(Clone, Debug)]
pub enum LineProtocol {
    /// LLP of TM-233 §5.3. The router answers the address request of the host.
    Llp {
        /// Whether TCP headers are compressed (RFC 1144), which the host must support.
        compresses_headers: bool,
    },
    /// SLIP (RFC 1055). The address of the host is configured there.
    Slip {
        /// Whether TCP headers are compressed: CSLIP.
        compresses_headers: bool,
    },
    /// PPP. The router assigns the address of the host by IPCP. The addresses in the settings are
    /// ignored.
    Ppp(Box<ppp::Settings>),
}

/// Settings of a line.
#[derive(Clone, Debug)]
pub struct LineSettings {
    /// The protocol.
    pub protocol: LineProtocol,
    /// Length of the longest datagram, in bytes.
    pub mtu: usize,
    /// Rate of the line in bit/s, with start and stop bits; `None` if it is unknown.
    pub rate_bps: Option<u64>,
    /// IPv4 address of the host at the line.
    pub address: Ipv4Addr,
    /// IPv6 prefix of the host at the line, and its length.
    pub prefix: Option<(Ipv6Addr, u8)>,
    /// Discipline of the output queue.
    pub discipline: Discipline,
    /// Whether the output queue marks packets of transports with ECN.
    pub marks_ecn: bool,
    /// Whether the windows of TCP connections are limited to the output queue. This requires a
    /// rate.
    pub limits_windows: bool,
}

impl LineSettings {
    /// Returns the settings of an LLP line with the MTU of TM-233, a fair queue, and limited
    /// windows.
    #[must_use]
    pub const fn llp(address: Ipv4Addr, rate_bps: u64) -> Self {
        Self {
            protocol: LineProtocol::Llp { compresses_headers: false },
            mtu: 700,
            rate_bps: Some(rate_bps),
            address,
            prefix: None,
            discipline: Discipline::Fair,
            marks_ecn: true,
            limits_windows: true,
        }
    }

    /// Returns whether an address belongs to the host at the line.
    pub(super) fn owns(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => v4 == self.address,
            IpAddr::V6(v6) => self.prefix.is_some_and(|(prefix, len)| {
                let mask = u128::MAX.checked_shl(128_u32.saturating_sub(len.into())).unwrap_or(0);
                (v6.to_bits() ^ prefix.to_bits()) & mask == 0
            }),
        }
    }

    fn queue(&self, packets_max: usize) -> QueueSettings {
        let bits = (self.mtu + FRAMING) as u64 * BITS_PER_BYTE;
        let nanos = |rate_bps: u64| (bits * 1_000_000_000).checked_div(rate_bps);
        let packet_time =
            self.rate_bps.and_then(nanos).map_or(Duration::ZERO, Duration::from_nanos);
        QueueSettings {
            discipline: self.discipline,
            packets_max,
            bytes_max: packets_max.saturating_mul(self.mtu),
            marks_ecn: self.marks_ecn,
            ..QueueSettings::fair(self.mtu, packet_time)
        }
    }

    fn link(&self, router_address: Ipv4Addr) -> Link {
        match &self.protocol {
            LineProtocol::Llp { compresses_headers } => {
                let llp = Llp::with_queue_limit(self.mtu, LINK_QUEUE);
                let mut llp = if *compresses_headers { llp.with_header_compression() } else { llp };
                llp.set_peer_address(Some(self.address.octets()));
                Link::Llp(llp)
            }
            LineProtocol::Slip { compresses_headers } => {
                let slip = Slip::with_queue_limit(self.mtu, LINK_QUEUE);
                Link::Slip(if *compresses_headers { slip.with_header_compression() } else { slip })
            }
            LineProtocol::Ppp(settings) => {
                let settings = ppp::Settings {
                    address: Some(router_address),
                    peer_address: Some(self.address),
                    spare_address: None,
                    carries_ipv6: self.prefix.is_some(),
                    ..(**settings).clone()
                };
                Link::Ppp(Box::new(Ppp::with_queue_limit(self.mtu, LINK_QUEUE, settings)))
            }
        }
    }
}

/// A change of the state of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineChange {
    Up,
    Down,
}

/// A line.
#[derive(Debug)]
pub(super) struct Line {
    settings: LineSettings,
    link: Link,
    queue: PacketQueue,
    /// Number of packets in the output queue of the link.
    in_link: usize,
    is_up: bool,
    reopens_at: Option<Instant>,
    windows: WindowLimit,
    /// Received datagrams that were not routed yet.
    arrived: Vec<Packet>,
    change: Option<LineChange>,
    capture: Option<Capture>,
}

impl Line {
    /// Creates a line and opens it.
    pub(super) fn new(
        settings: LineSettings,
        router_address: Ipv4Addr,
        packets_max: usize,
        cx: &mut Cx<'_>,
    ) -> Self {
        let mut link = settings.link(router_address);
        let is_up = !matches!(link, Link::Ppp(_));
        if let Link::Ppp(ppp) = &mut link {
            ppp.open(cx);
        }
        Self {
            queue: PacketQueue::new(settings.queue(packets_max), cx),
            settings,
            link,
            in_link: 0,
            is_up,
            reopens_at: None,
            windows: WindowLimit::default(),
            arrived: Vec::new(),
            change: is_up.then_some(LineChange::Up),
            capture: None,
        }
    }

    pub(super) const fn settings(&self) -> &LineSettings {
        &self.settings
    }

    pub(super) const fn is_up(&self) -> bool {
        self.is_up
    }

    /// Returns the copies of the datagrams, if they are copied.
    pub(super) const fn capture_mut(&mut self) -> &mut Option<Capture> {
        &mut self.capture
    }

    pub(super) const fn queue(&self) -> &PacketQueue {
        &self.queue
    }

    pub(super) const fn queue_mut(&mut self) -> &mut PacketQueue {
        &mut self.queue
    }

    /// Returns the length of the longest datagram that the link sends now.
    pub(super) fn mtu(&self) -> usize {
        self.link.mtu()
    }

    /// Returns whether an address belongs to the host at the line.
    pub(super) fn owns(&self, address: IpAddr) -> bool {
        self.settings.owns(address)
    }

    /// Returns the limiter of windows and the state of the queue, if windows are limited.
    pub(super) fn windows(&mut self) -> Option<(&mut WindowLimit, QueueState)> {
        let rate_bps = self.settings.rate_bps.filter(|_| self.settings.limits_windows)?;
        let packets_max = match self.settings.discipline {
            Discipline::Fair => self.queue.settings().packets_max,
            Discipline::Of1982(concentrator) => concentrator.buffers,
        };
        let state = QueueState {
            bytes_per_second: rate_bps / BITS_PER_BYTE,
            codel_times: self.queue.settings().codel_times(),
            active_flows: self.queue.active_flows(),
            packets_max,
        };
        Some((&mut self.windows, state))
    }

    /// Returns the number of packets that the line holds.
    pub(super) fn held(&self) -> usize {
        self.queue.packets() + self.in_link + self.arrived.len()
    }

    /// Passes bytes from the wire to the link.
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        pool: &mut Pool,
        counters: &mut RouterCounters,
        cx: &mut Cx<'_>,
    ) {
        let before = cx.meter.counted(Counter::LinkPacketsTooLong);
        for chunk in bytes.chunks(CHUNK) {
            self.link.receive(chunk, pool, cx);
            self.collect(pool, counters, cx);
        }
        for _ in before..cx.meter.counted(Counter::LinkPacketsTooLong) {
            counters.received += 1;
            counters.drops.count(RouterDrop::AboveMtu);
        }
    }

    /// Appends at most `limit` bytes for the wire, and returns their number.
    pub(super) fn transmit_into(
        &mut self,
        wire: &mut Vec<u8>,
        limit: usize,
        pool: &mut Pool,
        counters: &mut RouterCounters,
        cx: &mut Cx<'_>,
    ) -> usize {
        let mut written = 0;
        loop {
            let has_refilled = self.refill(pool, counters, cx);
            let count = self.link.transmit_into(wire, limit - written, cx);
            written += count;
            self.collect(pool, counters, cx);
            if written >= limit || (count == 0 && !has_refilled) {
                return written;
            }
        }
    }

    /// Returns whether there are bytes for the wire.
    pub(super) fn has_output(&self) -> bool {
        self.link.has_output()
            || (self.is_up && self.in_link < IN_LINK_MAX && self.queue.packets() > 0)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.link.deadline().into_iter().chain(self.reopens_at).min()
    }

    pub(super) fn timeout(
        &mut self,
        pool: &mut Pool,
        counters: &mut RouterCounters,
        cx: &mut Cx<'_>,
    ) {
        if self.link.deadline().is_some_and(|deadline| deadline <= cx.now) {
            self.link.timeout(cx);
        }
        if self.reopens_at.take_if(|at| *at <= cx.now).is_some()
            && let Link::Ppp(ppp) = &mut self.link
        {
            ppp.open(cx);
        }
        self.collect(pool, counters, cx);
    }

    /// Removes the next received datagram.
    pub(super) fn take_arrived(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.arrived)
    }

    pub(super) fn take_change(&mut self) -> Option<LineChange> {
        self.change.take()
    }

    /// Drops all packets, because the line no longer exists.
    pub(super) fn close(&mut self, pool: &mut Pool, counters: &mut RouterCounters) {
        self.queue.clear(pool);
        for packet in self.arrived.drain(..) {
            pool.put(packet);
            counters.drops.count(RouterDrop::Removed);
        }
        for _ in 0..self.in_link {
            counters.drops.count(RouterDrop::Removed);
        }
        self.in_link = 0;
        self.link.reset(pool);
    }

    /// Passes packets to the link until it holds enough of them. Returns whether it got any.
    fn refill(&mut self, pool: &mut Pool, counters: &mut RouterCounters, cx: &mut Cx<'_>) -> bool {
        let before = self.in_link;
        while self.is_up && self.in_link < IN_LINK_MAX {
            let Some(packet) = self.queue.dequeue(pool, cx) else { break };
            if let Some(capture) = &mut self.capture {
                capture.record(Direction::ToGuest, [packet.data(), &[], &[]], cx.now);
            }
            match self.link.send(packet, cx) {
                Ok(()) => self.in_link += 1,
                Err(packet) => {
                    counters.drops.count(RouterDrop::Link);
                    pool.put(packet);
                }
            }
        }
        self.in_link > before
    }

    fn collect(&mut self, pool: &mut Pool, counters: &mut RouterCounters, cx: &Cx<'_>) {
        while let Some(event) = self.link.event() {
            match event {
                Event::Received(packet) => {
                    counters.received += 1;
                    if let Some(capture) = &mut self.capture {
                        capture.record(Direction::FromGuest, [packet.data(), &[], &[]], cx.now);
                    }
                    self.arrived.push(packet);
                }
                Event::Sent(packet) => {
                    self.in_link = self.in_link.saturating_sub(1);
                    counters.transmitted += 1;
                    pool.put(packet);
                }
                Event::Failed(packet) => {
                    self.in_link = self.in_link.saturating_sub(1);
                    counters.drops.count(RouterDrop::Link);
                    pool.put(packet);
                }
                Event::NetworkUp => self.set_up(true),
                Event::NetworkDown => self.set_up(false),
                Event::Address(_) | Event::InterfaceIdentifier(_) => {}
            }
        }
        if let Link::Ppp(ppp) = &self.link
            && ppp.phase() == Phase::Dead
            && self.reopens_at.is_none()
        {
            self.set_up(false);
            self.reopens_at = Some(cx.now + REOPEN_AFTER);
        }
    }

    fn set_up(&mut self, is_up: bool) {
        if self.is_up != is_up {
            self.is_up = is_up;
            self.change = Some(if is_up { LineChange::Up } else { LineChange::Down });
        }
    }
}
