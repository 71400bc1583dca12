//! A flow of bytes in a session: its arrivals, and the counts of the local TCP.

use crate::layer::LayerTime;
use crate::{arrivals, sizes};

/// Direction of a flow, from the perspective of the local host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the remote host to the local host.
    #[default]
    Incoming,
    /// From the local host to the remote host.
    Outgoing,
}

/// Source of the bytes of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A program of the remote host, or a file.
    #[default]
    Program,
    /// Echo of keys that were typed all at once.
    TypedEcho,
}

impl From<sizes::Direction> for Direction {
    fn from(direction: sizes::Direction) -> Self {
        match direction {
            sizes::Direction::Received => Self::Incoming,
            sizes::Direction::Sent => Self::Outgoing,
        }
    }
}

/// Bytes requested or sent, with the times of their arrivals or acknowledgments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Direction of the bytes.
    pub direction: Direction,
    /// Source of the bytes.
    pub origin: Origin,
    /// Data bytes, without headers.
    pub bytes: u64,
    /// Time from the request (a command or a key) to the end of the flow, ns. An incoming flow ends
    /// when its last byte was displayed or stored. An outgoing flow ends when its last byte was
    /// acknowledged or confirmed.
    pub elapsed_ns: u64,
    /// Arrivals or, for an outgoing flow, acknowledgments, in order, with times since the request.
    /// Empty if unknown.
    pub arrivals: Vec<Arrival>,
    /// Data packets that carried the flow, if counted: one read may return several packets.
    pub data_packets: Option<u64>,
    /// Time of each layer, with the remote host and the network as the remainder; the sum is
    /// `elapsed_ns`. Empty if unknown.
    pub layers: Vec<LayerTime>,
    /// Time for which the local host waited for its processor during the flow, ns.
    pub own_wait_ns: Option<u64>,
    /// Time of the local processor for TLS in the flow, ns; not included in any layer.
    pub tls_cpu_ns: Option<u64>,
    /// TCP counts of the flow.
    pub counts: FlowCounts,
}

/// Data that arrived at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Time since the beginning of the flow, ns.
    pub at_ns: u64,
    /// Data bytes.
    pub bytes: u64,
}

impl From<&arrivals::Arrival> for Arrival {
    fn from(arrival: &arrivals::Arrival) -> Self {
        Self { at_ns: arrival.at_ns, bytes: arrival.bytes }
    }
}

/// Counts of the local TCP during a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Segments sent, including retransmissions.
    pub segments_out: Option<u64>,
    /// Segments retransmitted by the local host.
    pub retransmissions: Option<u64>,
    /// Retransmission timeouts of the local host.
    pub timeouts: Option<u64>,
    /// Segments received out of order.
    pub out_of_order_in: Option<u64>,
    /// Duplicate data received: the peer has retransmitted it.
    pub duplicates_in: Option<u64>,
    /// Duplicates reported by the peer (D-SACK, RFC 2883).
    pub duplicate_reports: Option<u64>,
    /// Reordering events: data of the local host was overtaken by later data.
    pub reorderings: Option<u64>,
    /// Zero-window probes sent by the local host.
    pub window_probes: Option<u64>,
    /// Time in which the peer's window was full, ns.
    pub limited_by_window_ns: Option<u64>,
    /// Time in which the local send buffer was full, ns.
    pub limited_by_buffer_ns: Option<u64>,
    /// Time in which the local host offered no window because its process did not read, ns.
    pub own_window_closed_ns: Option<u64>,
    /// Largest window seen, bytes: the peer's for an outgoing flow, the local one for an incoming
    /// flow.
    pub window_bytes: Option<u64>,
    /// Maximum segment size of the connection at the start and at the end of the flow, bytes.
    pub mss_bytes: Option<[u64; 2]>,
}
