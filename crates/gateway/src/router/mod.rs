//! Routed mode: a concentrator that forwards datagrams between lines and the host, without
//! translation (TM-233 §2.4, RFC 1812).
//!
//! Theory of operation. Each line has one host with one IPv4 address and, optionally, an IPv6
//! prefix (`line`). All other destinations are behind the host output, such as a TUN device. A
//! datagram that arrives is parsed once (`forward`): its source must belong to its line, its time
//! to live is decremented, and it is queued for the line of its destination or for the host. A
//! longer IPv4 datagram is fragmented (`fragment`); other errors are reported by ICMP
//! (`icmp_error`) within a rate limit (`error_limit`). The router answers echo requests to its own
//! addresses.
//!
//! Each output has a [`PacketQueue`]. Its sharers are the origins of the
//! packets. The window of the TCP connections of a line can be limited to the queue of the line
//! (`window_limit`).
//!
//! The driver passes the bytes of a line to [`Router::receive`] and takes output with
//! [`Router::transmit_into`]. Datagrams of the host are packets from [`Router::take_packet`], for
//! [`Router::receive_host`]; [`Router::transmit_host`] returns packets that the driver gives back
//! with [`Router::put_packet`]. The packets must not have offloads: the checksums are complete and
//! no packet is a super-segment.
//!
//! Not implemented: IP options (record route and timestamps stay unchanged, source routes are
//! dropped), redirects, multicast, and routing protocols.

mod counters;
mod error_limit;
mod forward;
mod fragment;
mod icmp_error;
mod line;
mod local_echo;
mod router_settings;
mod tcp_segment;
#[cfg(test)]
mod tests;
mod window_limit;

pub use counters::{RouterCounters, RouterDrop, RouterDrops};
pub use line::{LineId, LineProtocol, LineSettings};
pub use router_settings::{AddLineError, RouterSettings};

use crate::capture::{Capture, CapturedPacket};
use crate::queue::{PacketQueue, QueueCounters, QueueSettings, SharerId};
use error_limit::ErrorLimit;
use line::{Line, LineChange};
use net::Cx;
use net::packet::{Packet, Pool};
use net::time::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

/// An event of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Datagrams can be exchanged with the host at the line from now on.
    LineUp(LineId),
    /// Datagrams can no longer be exchanged with the host at the line.
    LineDown(LineId),
}

/// Maximum number of uncollected events; older ones are dropped, because only the last state of a
/// line matters.
const EVENTS_MAX: usize = 1_024;

/// A router between lines and a host.
#[derive(Debug)]
pub struct Router {
    settings: RouterSettings,
    pool: Pool,
    lines: BTreeMap<LineId, Line>,
    lines_by_address: BTreeMap<Ipv4Addr, LineId>,
    /// The lines that have failed last, at most [`RouterSettings::lines_max`].
    failed: VecDeque<LineSettings>,
    next_line: u32,
    host_queue: PacketQueue,
    /// Packets that the driver has taken and not returned.
    at_driver: u64,
    error_limit: ErrorLimit,
    events: VecDeque<Event>,
    counters: RouterCounters,
    /// Packets dropped by the queues of removed lines.
    retired_drops: u64,
}

impl Router {
    /// Creates a router without lines.
    #[must_use]
    pub fn new(settings: RouterSettings, cx: &mut Cx<'_>) -> Self {
        let queue = QueueSettings {
            packets_max: settings.queue_packets(),
            ..QueueSettings::fair(settings.host_mtu, Duration::ZERO)
        };
        Self {
            pool: Pool::new(settings.packets_max, settings.buffer_len()),
            lines: BTreeMap::new(),
            lines_by_address: BTreeMap::new(),
            failed: VecDeque::new(),
            next_line: 0,
            host_queue: PacketQueue::new(queue, cx),
            at_driver: 0,
            error_limit: ErrorLimit::default(),
            events: VecDeque::new(),
            counters: RouterCounters::default(),
            retired_drops: 0,
            settings,
        }
    }

    /// Adds a line and opens it.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of lines is at its limit, or if the MTU or an address of the
    /// line cannot be used.
    pub fn add_line(
        &mut self,
        line: LineSettings,
        cx: &mut Cx<'_>,
    ) -> Result<LineId, AddLineError> {
        self.settings.check(&line)?;
        let is_taken = self.lines_by_address.contains_key(&line.address)
            || self.lines.values().any(|other| overlaps(other.settings(), &line));
        if is_taken {
            return Err(AddLineError::AddressInUse);
        }
        if self.lines.len() >= self.settings.lines_max {
            return Err(AddLineError::TooManyLines);
        }
        self.failed.retain(|failed| failed.address != line.address && !overlaps(failed, &line));
        let id = LineId(self.next_line);
        self.next_line = self.next_line.wrapping_add(1);
        self.lines_by_address.insert(line.address, id);
        let packets_max = self.settings.queue_packets();
        self.lines.insert(id, Line::new(line, self.settings.address, packets_max, cx));
        self.process(id, cx);
        Ok(id)
    }

    /// Removes a line and drops the packets for it. Packets that it has sent are still delivered.
    /// Its addresses are behind the host output from now on. Unknown lines are ignored.
    pub fn remove_line(&mut self, id: LineId) {
        let Some(mut line) = self.lines.remove(&id) else { return };
        self.lines_by_address.remove(&line.settings().address);
        line.close(&mut self.pool, &mut self.counters);
        self.retired_drops += line.queue().counters().dropped();
    }

    /// Removes a line whose device has failed, as [`Self::remove_line`]. Datagrams to its addresses
    /// are reported as unreachable until a line with these addresses is added, or until
    /// [`RouterSettings::lines_max`] other lines have failed.
    pub fn fail_line(&mut self, id: LineId) {
        let Some(line) = self.lines.get(&id) else { return };
        self.failed.push_back(line.settings().clone());
        if self.failed.len() > self.settings.lines_max {
            self.failed.pop_front();
        }
        self.remove_line(id);
    }

    /// Processes bytes from the wire of a line, split anywhere.
    pub fn receive(&mut self, id: LineId, bytes: &[u8], cx: &mut Cx<'_>) {
        if let Some(line) = self.lines.get_mut(&id) {
            line.receive(bytes, &mut self.pool, &mut self.counters, cx);
            self.process(id, cx);
        }
    }

    /// Appends at most `limit` bytes for the wire of a line, and returns their number.
    pub fn transmit_into(
        &mut self,
        id: LineId,
        wire: &mut Vec<u8>,
        limit: usize,
        cx: &mut Cx<'_>,
    ) -> usize {
        let Some(line) = self.lines.get_mut(&id) else { return 0 };
        let count = line.transmit_into(wire, limit, &mut self.pool, &mut self.counters, cx);
        self.process(id, cx);
        count
    }

    /// Returns whether there are bytes for the wire of a line.
    #[must_use]
    pub fn has_output(&self, id: LineId) -> bool {
        self.lines.get(&id).is_some_and(Line::has_output)
    }

    /// Lends an empty packet for a datagram of the host. Returns `None` if all packets are lent.
    pub fn take_packet(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let packet = self.pool.take(cx.meter)?;
        self.at_driver += 1;
        Some(packet)
    }

    /// Takes back a packet of [`Self::take_packet`] or [`Self::transmit_host`].
    pub fn put_packet(&mut self, packet: Packet) {
        self.at_driver = self.at_driver.saturating_sub(1);
        self.pool.put(packet);
    }

    /// Routes a datagram of the host. The packet is from [`Self::take_packet`].
    pub fn receive_host(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        self.at_driver = self.at_driver.saturating_sub(1);
        self.counters.received += 1;
        self.forward(None, packet, cx);
    }

    /// Returns the next datagram for the host. The driver returns the packet with
    /// [`Self::put_packet`].
    pub fn transmit_host(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let packet = self.host_queue.dequeue(&mut self.pool, cx)?;
        self.counters.transmitted += 1;
        self.at_driver += 1;
        Some(packet)
    }

    /// Returns when to call [`Self::timeout`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.lines.values().filter_map(Line::deadline).min()
    }

    /// Processes the timers that are due.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        let is_due = |line: &Line| line.deadline().is_some_and(|deadline| deadline <= cx.now);
        let due: Vec<_> =
            self.lines.iter().filter(|(_, line)| is_due(line)).map(|(id, _)| *id).collect();
        for id in due {
            if let Some(line) = self.lines.get_mut(&id) {
                line.timeout(&mut self.pool, &mut self.counters, cx);
            }
            self.process(id, cx);
        }
    }

    /// Returns the next event; call until there is none.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the counters of the router.
    #[must_use]
    pub fn counters(&self) -> RouterCounters {
        let queues = self.lines.values().map(Line::queue).chain([&self.host_queue]);
        let dropped: u64 = queues.map(|queue| queue.counters().dropped()).sum();
        RouterCounters { dropped_in_queues: self.retired_drops + dropped, ..self.counters }
    }

    /// Returns the counters of the output queue of a line.
    #[must_use]
    pub fn line_counters(&self, id: LineId) -> Option<&QueueCounters> {
        Some(self.lines.get(&id)?.queue().counters())
    }

    /// Returns the counters of the queue to the host.
    #[must_use]
    pub const fn host_counters(&self) -> &QueueCounters {
        self.host_queue.counters()
    }

    /// Returns whether datagrams can be exchanged with the host at a line.
    #[must_use]
    pub fn is_up(&self, id: LineId) -> bool {
        self.lines.get(&id).is_some_and(Line::is_up)
    }

    /// Copies all datagrams of a line from now on, for [`Self::captured`]. A datagram to the host is
    /// copied when it leaves the queue for the link, and one from the host before it is checked.
    /// Returns false for an unknown line.
    pub fn start_capture(&mut self, id: LineId) -> bool {
        let line = self.lines.get_mut(&id);
        line.map(|line| *line.capture_mut() = Some(Capture::default())).is_some()
    }

    /// Stops copying the datagrams of a line, and returns the number of datagrams of which no copy
    /// was made.
    pub fn stop_capture(&mut self, id: LineId) -> u64 {
        let capture = self.lines.get_mut(&id).and_then(|line| line.capture_mut().take());
        capture.map_or(0, |capture| capture.dropped())
    }

    /// Returns the next copy of a datagram of a line.
    pub fn captured(&mut self, id: LineId) -> Option<CapturedPacket> {
        self.lines.get_mut(&id)?.capture_mut().as_mut()?.next_packet()
    }

    /// Returns the number of packets in queues and links.
    #[must_use]
    pub fn held(&self) -> usize {
        self.lines.values().map(Line::held).sum::<usize>() + self.host_queue.packets()
    }

    /// Returns the number of packet buffers in use, including those of the driver.
    #[must_use]
    pub fn packets_in_use(&self) -> usize {
        self.pool.lent()
    }

    /// Routes what a line has received, and reports its changes.
    fn process(&mut self, id: LineId, cx: &mut Cx<'_>) {
        let Some(line) = self.lines.get_mut(&id) else { return };
        if let Some(change) = line.take_change() {
            if self.events.len() >= EVENTS_MAX {
                self.events.pop_front();
            }
            self.events.push_back(match change {
                LineChange::Up => Event::LineUp(id),
                LineChange::Down => Event::LineDown(id),
            });
        }
        for packet in line.take_arrived() {
            self.forward(Some(id), packet, cx);
        }
    }
}

/// Returns whether the prefixes of two lines have a common address.
fn overlaps(one: &LineSettings, other: &LineSettings) -> bool {
    let (Some((one, one_len)), Some((other, other_len))) = (one.prefix, other.prefix) else {
        return false;
    };
    let len = one_len.min(other_len);
    let mask = u128::MAX.checked_shl(128_u32.saturating_sub(len.into())).unwrap_or(0);
    (one.to_bits() ^ other.to_bits()) & mask == 0
}

/// The sharer of packets from the host.
const HOST: SharerId = SharerId(u32::MAX);
/// The sharer of the router's own packets.
const ROUTER: SharerId = SharerId(u32::MAX - 1);

const fn sharer_of_line(id: LineId) -> SharerId {
    SharerId(id.0)
}
