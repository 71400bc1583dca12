//! All that one can know of a session from its near side.
//!
//! Whoever has measured fills in what is known and leaves the rest: `None` and an empty list are
//! "unknown", and never zero. Times are whole nanoseconds by one clock of the near side; no reading
//! of the far side's clock is among them. A count is what was added during the flow or the session
//! that it stands in, not what the connection had counted before.

use super::files::FileSession;
use crate::measurement::LayerTime;
use crate::{arrivals, sizes, statistics};

/// The pace of the keys of [`Observation::echo_train`], ns.
pub const TRAIN_PACE_NS: u64 = 60_000_000;

/// What was seen of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// The steps until there is something to work with.
    pub steps: Steps,
    /// One key at a time, each struck when the far side is at rest.
    pub echo: Option<Echoes>,
    /// Keys struck at a steady pace, whether or not the echo of the one before has come.
    pub echo_train: Option<Echoes>,
    /// Keys struck one at a time while a flow comes in that fills the way.
    pub echo_under_load: Option<Echoes>,
    /// A screenful that was asked for.
    pub screenful: Option<Flow>,
    /// A screenful whose acknowledgments this side has put off, as most programs do; the one above
    /// is acknowledged as [`Path::own_ack_delay_ns`] says.
    pub unhurried: Option<Flow>,
    /// Short answers of a shell.
    pub answers: Option<Answers>,
    /// Longer flows, in either direction: files, or a long output.
    pub transfers: Vec<Flow>,
    /// A piece of text that stood still and then came in shorter segments than the path's, where
    /// others did not: it is asked for a hole in the way alone, since any program may pause.
    pub held_up: Option<Flow>,
    /// The longest output of the session, which fills the buffers of both ends: it is asked for windows
    /// alone, since it may fill the queue of the slowest link as well, and find the bucket of a rate limiter
    /// empty.
    pub sustained: Option<Flow>,
    /// Output that was asked for, or the echo of a key, that did not come whole.
    pub unfinished: Option<Unfinished>,
    /// The way to the far side, as TCP and the carrier know it.
    pub path: Path,
    /// A session with a file server: where there is one, its rules alone decide.
    pub files: Option<FileSession>,
}

/// Output that was asked for, or the echo of a key, that did not come whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Whether it is the echo of a key, and no output.
    pub is_echo: bool,
    /// Bytes of it, at least.
    pub asked_bytes: u64,
    /// Bytes that came of it.
    pub come_bytes: u64,
    /// Bytes of the largest output of the same program that came whole before it.
    pub whole_bytes: u64,
    /// For how long nothing more came, ns.
    pub waited_ns: u64,
    /// Whether TCP of the far side acknowledged all that was sent, if that is known.
    pub is_acknowledged: Option<bool>,
}

/// The steps up to the shell's prompt or the first command, each from the end of the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Name to address, ns.
    pub resolve_ns: Option<u64>,
    /// First SYN to established connection, ns.
    pub connect_ns: Option<u64>,
    /// Established connection to the first byte of the far side, ns; a part of the negotiation, or of
    /// the wait for the prompt where nothing is negotiated.
    pub greeting_ns: Option<u64>,
    /// The handshake of TLS, ns; unknown where there is none.
    pub tls_ns: Option<u64>,
    /// Of that, what this side's processor worked, ns.
    pub tls_own_ns: Option<u64>,
    /// Negotiation, or the greeting where the protocol has one, ns.
    pub negotiation_ns: Option<u64>,
    /// Until the text that asks for a name, ns.
    pub prompt_ns: Option<u64>,
    /// From the last answer that a login asks for until it is granted or refused, ns.
    pub login_ns: Option<u64>,
    /// For how long this side waited for its processor from the established connection on, ns.
    pub own_wait_ns: Option<u64>,
}

/// The echoes of single characters, from keystroke to cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Echoes {
    /// Each of them in the order in which they were struck, ns.
    pub samples_ns: Vec<u64>,
    /// For how long this side waited for its own processor in each of them, ns. Empty if unknown.
    pub own_wait_ns: Vec<u64>,
    /// The echoes of the keys that took these back, where each has one, ns.
    pub erasures_ns: Vec<u64>,
    /// What TCP counted from the first of them to the last.
    pub counts: FlowCounts,
    /// Where the time of the median one went, with the far side and the network as the rest; adds
    /// up to it. Empty if unknown.
    pub layers: Vec<LayerTime>,
}

impl Echoes {
    /// Returns how long an echo beside other output takes once the queue has filled, ns: the first keys come
    /// before that, and the last one finds it emptier again. Of a few, the longer ones have found it full.
    #[must_use]
    pub fn settled_ns(&self) -> Option<u64> {
        let samples = &self.samples_ns;
        if samples.len() < Self::MANY {
            return statistics::percentile(samples, 75);
        }
        statistics::median(samples.get(samples.len() / 2..)?)
    }

    /// So many echoes show when they have become alike.
    pub(crate) const MANY: usize = 8;

    /// Returns the samples without what this side waited for its own processor in them, ns.
    pub(super) fn without_own_wait_ns(&self) -> Vec<u64> {
        let waits = self.own_wait_ns.iter().copied().chain(std::iter::repeat(0));
        self.samples_ns.iter().zip(waits).map(|(ns, wait)| ns.saturating_sub(wait)).collect()
    }
}

/// Short answers, which follow the echo of what asked for them in a write of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// From Return to the answer, where this side acknowledged at once what came before, ns.
    pub at_once_ns: Vec<u64>,
    /// The same, by turns with those, where it put that off by 40 ms, ns.
    pub late_ns: Vec<u64>,
}

/// Which way a flow goes, as seen from the near side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the far side to here.
    #[default]
    Incoming,
    /// From here to the far side.
    Outgoing,
}

/// What makes the bytes of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A program of the far side, or a file.
    #[default]
    Program,
    /// The echo of keys that were typed all at once.
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

/// Bytes that were asked for or sent, and when they came or were acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Which way they went.
    pub direction: Direction,
    /// What made them.
    pub origin: Origin,
    /// Data bytes, without headers.
    pub bytes: u64,
    /// From what asked for it (a command, a key) to its end: the last byte shown or stored where
    /// it comes, acknowledged or confirmed where it goes; ns.
    pub elapsed_ns: u64,
    /// What came (or, of an outgoing flow, what was acknowledged), in order, since it was asked
    /// for. Empty if unknown.
    pub arrivals: Vec<Arrival>,
    /// Packets with data that brought it, if they were counted: a read may bring several.
    pub data_packets: Option<u64>,
    /// Where the time went by layer, with the far side and the network as the rest; adds up to
    /// `elapsed_ns`. Empty if unknown.
    pub layers: Vec<LayerTime>,
    /// For how long this side waited for its own processor meanwhile, ns.
    pub own_wait_ns: Option<u64>,
    /// What the processor of this side spent on TLS in it, ns; it is in no layer.
    pub tls_own_ns: Option<u64>,
    /// What TCP counted meanwhile.
    pub counts: FlowCounts,
}

/// Something that came at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Since the beginning of its flow, ns.
    pub at_ns: u64,
    /// Data bytes.
    pub bytes: u64,
}

impl From<&arrivals::Arrival> for Arrival {
    fn from(arrival: &arrivals::Arrival) -> Self {
        Self { at_ns: arrival.at_ns, bytes: arrival.bytes }
    }
}

/// What TCP of this side counted during a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Segments sent, with those sent again.
    pub segments_out: Option<u64>,
    /// Segments that this side sent again.
    pub retransmissions: Option<u64>,
    /// Retransmission timeouts of this side.
    pub timeouts: Option<u64>,
    /// Segments that came out of order.
    pub out_of_order_in: Option<u64>,
    /// Data that came and was there already: the far side has sent it again.
    pub duplicates_in: Option<u64>,
    /// Reports of the far side that something had come twice (RFC 2883).
    pub duplicate_reports: Option<u64>,
    /// Times that data of this side was overtaken by later data of it.
    pub reorderings: Option<u64>,
    /// Probes of a closed window that this side sent.
    pub window_probes: Option<u64>,
    /// Time in which the far side's window was full, ns.
    pub limited_by_window_ns: Option<u64>,
    /// Time in which this side's send buffer was full, ns.
    pub limited_by_buffer_ns: Option<u64>,
    /// Time in which this side offered no window: it did not read, ns.
    pub own_window_closed_ns: Option<u64>,
    /// The largest window seen: the far side's of an outgoing flow, ours of an incoming one, bytes.
    pub window_bytes: Option<u64>,
    /// The largest segment of the connection when the flow began and when it ended, bytes.
    pub mss_bytes: Option<[u64; 2]>,
}

/// The way to the far side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Smoothed round trip of TCP, ns.
    pub rtt_ns: Option<u64>,
    /// The shortest round trip of TCP, ns.
    pub min_rtt_ns: Option<u64>,
    /// Smoothed round trip of TCP when keys had been struck beside a long output, ns.
    pub rtt_under_load_ns: Option<u64>,
    /// Largest segment in data bytes.
    pub mss_bytes: Option<u64>,
    /// Path MTU, bytes.
    pub mtu_bytes: Option<u64>,
    /// For how long this side puts off its acknowledgments at most, ns; 0 if it never does.
    pub own_ack_delay_ns: Option<u64>,
    /// Rate of a serial line of ours, bit/s.
    pub line_bps: Option<u64>,
    /// Bits that a byte is on it: 10 with start and stop bit.
    pub line_bits_per_byte: Option<u64>,
    /// Bytes of headers and framing that each packet has on the wire, if not
    /// [`Path::HEADER_BYTES`].
    pub header_bytes: Option<u64>,
}

impl Path {
    /// Headers of TCP and IP without options.
    pub const HEADER_BYTES: u64 = 40;
    /// The same with the timestamps of RFC 7323.
    pub const HEADER_BYTES_WITH_TIMESTAMPS: u64 = 52;
    /// The largest segment of Ethernet without TCP options, bytes.
    pub const ETHERNET_MSS: u64 = 1_460;
    /// The largest segment that every IPv4 host accepts (RFC 9293, section 3.7.1), bytes.
    pub const LEAST_MSS: u64 = 536;
}
