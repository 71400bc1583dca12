//! Counters of a router.

/// Reasons why a router drops a packet outside of its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouterDrop {
    /// The bytes are not a valid datagram.
    Malformed,
    /// The source address is not the address of the line, or cannot be a source.
    Source,
    /// The destination is a group, or belongs to no network that is routed.
    Destination,
    /// The datagram requests a source route.
    SourceRoute,
    /// No line and no output has the destination.
    NoRoute,
    /// The line of the destination is not open.
    LineDown,
    /// The time to live, or the hop limit, is used up.
    TimeExceeded,
    /// The packet is longer than the MTU and must not be fragmented.
    TooBig,
    /// The packet of a line is longer than the MTU of the line.
    AboveMtu,
    /// The router is the destination, and does not answer.
    Local,
    /// No packet buffer is free for the fragments.
    NoBuffer,
    /// The link refused the packet, or could not send it.
    Link,
    /// The line was removed while its link held the packet.
    Removed,
}

/// Packets dropped outside of the queues, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterDrops {
    /// [`RouterDrop::Malformed`]
    pub malformed: u64,
    /// [`RouterDrop::Source`]
    pub source: u64,
    /// [`RouterDrop::Destination`]
    pub destination: u64,
    /// [`RouterDrop::SourceRoute`]
    pub source_route: u64,
    /// [`RouterDrop::NoRoute`]
    pub no_route: u64,
    /// [`RouterDrop::LineDown`]
    pub line_down: u64,
    /// [`RouterDrop::TimeExceeded`]
    pub time_exceeded: u64,
    /// [`RouterDrop::TooBig`]
    pub too_big: u64,
    /// [`RouterDrop::AboveMtu`]
    pub above_mtu: u64,
    /// [`RouterDrop::Local`]
    pub local: u64,
    /// [`RouterDrop::NoBuffer`]
    pub no_buffer: u64,
    /// [`RouterDrop::Link`]
    pub link: u64,
    /// [`RouterDrop::Removed`]
    pub removed: u64,
}

impl RouterDrops {
    /// Returns the number of dropped packets.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.malformed
            + self.source
            + self.destination
            + self.source_route
            + self.no_route
            + self.line_down
            + self.time_exceeded
            + self.too_big
            + self.above_mtu
            + self.local
            + self.no_buffer
            + self.link
            + self.removed
    }

    pub(super) const fn count(&mut self, reason: RouterDrop) {
        let counter = match reason {
            RouterDrop::Malformed => &mut self.malformed,
            RouterDrop::Source => &mut self.source,
            RouterDrop::Destination => &mut self.destination,
            RouterDrop::SourceRoute => &mut self.source_route,
            RouterDrop::NoRoute => &mut self.no_route,
            RouterDrop::LineDown => &mut self.line_down,
            RouterDrop::TimeExceeded => &mut self.time_exceeded,
            RouterDrop::TooBig => &mut self.too_big,
            RouterDrop::AboveMtu => &mut self.above_mtu,
            RouterDrop::Local => &mut self.local,
            RouterDrop::NoBuffer => &mut self.no_buffer,
            RouterDrop::Link => &mut self.link,
            RouterDrop::Removed => &mut self.removed,
        };
        *counter += 1;
    }
}

/// Counters of a router, in packets. Except during a call, `received + generated` is
/// `transmitted + drops.total() + dropped_in_queues + packets held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterCounters {
    /// Packets received from the lines and from the host.
    pub received: u64,
    /// ICMP errors, and fragments beyond the first of a datagram.
    pub generated: u64,
    /// Packets sent on a line or passed to the host.
    pub transmitted: u64,
    /// Packets dropped outside of the queues.
    pub drops: RouterDrops,
    /// Packets dropped by the queues, including those of removed lines.
    pub dropped_in_queues: u64,
    /// Echo requests answered.
    pub echoes: u64,
    /// ICMP errors sent.
    pub errors_sent: u64,
    /// ICMP errors not sent because of the rate limit.
    pub errors_limited: u64,
    /// TCP segments whose window was lowered.
    pub windows_lowered: u64,
}
