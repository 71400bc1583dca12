//! The output of a guest that is slower than the gateway: a serial line, or a limited rate.
//!
//! Theory of operation. Every flow of the guest waits for its turn in one fair queue
//! ([`crate::queue`]). Datagrams wait as packets, below the limits of the queue, and CoDel drops
//! those of a flow that waits too long. A TCP connection waits with its data in the send buffer. A
//! segment is made only when the output has space for it and it is the turn of its connection, so
//! that no segment is older than its acknowledgment, and the gateway adds no queue delay of its own
//! to a connection.
//!
//! An output is not super-segmented: a super-segment of 64 KiB takes 52 ms at 10 Mbit/s, and every
//! other flow would wait for it.

use crate::queue::{NextOutput, PacketQueue, QueueCounters, QueueSettings, SharerId};
use net::Cx;
use net::packet::Packet;
use net::station::Layers;
use net::time::Duration;
use net::transport::tcp::ConnectionId;

/// The flows of one guest share an output of their own, so they have one sharer.
const GUEST: SharerId = SharerId(0);
/// Time in which the send buffer of a connection must be transmitted if the whole rate is available
/// to it. More data in the gateway would delay the application's next data.
const BUFFER_TIME_MS: u64 = 100;
/// Minimum size of a send buffer in packets, so that a connection has a segment in flight, one on the
/// line and one that waits.
const BUFFER_PACKETS_MIN: usize = 4;
/// Maximum size of a send buffer in bytes. The guest is close, so more would fill no path.
const BUFFER_BYTES_MAX: usize = 1 << 16;
const NANOS_PER_S: u64 = 1_000_000_000;
const MS_PER_S: u64 = 1000;
const BITS_PER_BYTE: u64 = 8;

/// The rate of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputRate {
    /// The rate in bits per second of the datagrams.
    pub bits_per_s: u64,
    /// Length of the longest datagram in bytes.
    pub mtu_bytes: u16,
}

impl OutputRate {
    /// Returns the time that the output needs for `bytes` bytes.
    #[must_use]
    pub fn time_of(&self, bytes: usize) -> Duration {
        let nanos = bytes as u64 * BITS_PER_BYTE * NANOS_PER_S / self.bits_per_s.max(1);
        Duration::from_nanos(nanos)
    }

    /// Returns the number of bytes of unacknowledged and unsent data per connection.
    pub(crate) fn buffer_bytes(&self) -> usize {
        let bytes = self.bits_per_s / BITS_PER_BYTE * BUFFER_TIME_MS / MS_PER_S;
        let packets = BUFFER_PACKETS_MIN * usize::from(self.mtu_bytes);
        usize::try_from(bytes).unwrap_or(usize::MAX).min(BUFFER_BYTES_MAX).max(packets)
    }
}

/// The fair output of one guest.
#[derive(Debug)]
pub(crate) struct FairOutput {
    queue: PacketQueue,
}

impl FairOutput {
    /// Returns an empty output. `packets_max` is the number of datagrams that may wait.
    pub(crate) fn new(rate: OutputRate, packets_max: usize, cx: &mut Cx<'_>) -> Self {
        let packet_time = rate.time_of(rate.mtu_bytes.into());
        let settings = QueueSettings::fair(rate.mtu_bytes.into(), packet_time);
        Self { queue: PacketQueue::new(QueueSettings { packets_max, ..settings }, cx) }
    }

    /// Moves the new datagrams of the layers into the queue, and finds out which connections may
    /// have segments.
    pub(crate) fn collect(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        while let Some(packet) = layers.transmit_other(cx) {
            self.queue.enqueue(GUEST, packet, &mut layers.pool, cx);
        }
        while let Some(connection) = layers.tcp.ready_connection() {
            self.queue.add_connection(GUEST, connection);
        }
    }

    /// Returns the next datagram.
    pub(crate) fn next(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) -> Option<Packet> {
        self.collect(layers, cx);
        loop {
            match self.queue.next_output(&mut layers.pool, cx)? {
                NextOutput::Packet(packet) => return Some(packet),
                // The connection keeps its turn until a buffer is free.
                NextOutput::Connection(_) if !layers.has_free_buffer() => return None,
                NextOutput::Connection(connection) => {
                    match layers.transmit_connection(connection, cx) {
                        Some(packet) => {
                            self.queue.connection_has_sent(packet.len());
                            return Some(packet);
                        }
                        None => self.queue.connection_is_empty(),
                    }
                }
            }
        }
    }

    /// Returns whether [`Self::next`] may return a datagram.
    pub(crate) fn has_output(&self) -> bool {
        self.queue.has_output()
    }

    /// Returns whether a connection waits for its turn.
    pub(crate) fn has_connection(&self, connection: ConnectionId) -> bool {
        self.queue.has_connection(GUEST, connection)
    }

    /// Returns the counters of the queue.
    pub(crate) fn counters(&self) -> &QueueCounters {
        self.queue.counters()
    }
}
