//! Observations of a session from the local host.
//!
//! The measuring code fills in the known values: `None` and an empty list mean "unknown", never
//! zero. Times are integer nanoseconds by one clock of the local host; no timestamp of the remote
//! host is used. A count covers the flow or session to which it belongs, excluding earlier traffic
//! of the connection.

use super::files::FileSession;
use super::flow::{Flow, FlowCounts};
use crate::layer::LayerTime;
use crate::statistics;

/// Interval between the keys of [`Observation::echo_train`], ns.
pub const TRAIN_PACE_NS: u64 = 60_000_000;

/// Observations of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Steps until the session is usable.
    pub steps: Steps,
    /// Single keys, each typed when the remote host is idle.
    pub echo: Option<Echoes>,
    /// Keys typed at a steady pace, regardless of the previous echo.
    pub echo_train: Option<Echoes>,
    /// Single keys typed while an incoming flow fills the path.
    pub echo_under_load: Option<Echoes>,
    /// A screenful that was requested.
    pub screenful: Option<Flow>,
    /// A screenful whose acknowledgments the local host delayed, as most programs do; the
    /// acknowledgments of `screenful` are delayed as specified by [`Path::own_ack_delay_ns`].
    pub screenful_delayed_ack: Option<Flow>,
    /// Short answers of a shell.
    pub answers: Option<Answers>,
    /// Longer flows in either direction: files, or a long output.
    pub transfers: Vec<Flow>,
    /// An output that stalled and then arrived in segments shorter than the maximum segment size of
    /// the path, unlike other outputs. It is only tested for a path MTU black hole, because any
    /// program may pause.
    pub blocked: Option<Flow>,
    /// The longest output of the session, which fills the buffers of both hosts. It is only tested
    /// for windows, because it may also fill the queue of the slowest link and empty the bucket of
    /// a rate limiter.
    pub sustained: Option<Flow>,
    /// Requested output, or the echo of a key, that did not arrive completely.
    pub unfinished: Option<Unfinished>,
    /// The path to the remote host, as known to TCP and the carrier.
    pub path: Path,
    /// A session with a file server; if there is one, only its rules apply.
    pub files: Option<FileSession>,
}

/// Requested output, or the echo of a key, that did not arrive completely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Whether it is the echo of a key instead of output.
    pub is_echo: bool,
    /// Minimum number of bytes expected.
    pub expected_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes of the largest output of the same program that arrived completely before.
    pub largest_complete_bytes: u64,
    /// Time without further data, ns.
    pub waited_ns: u64,
    /// Whether the peer's TCP acknowledged all sent data, if known.
    pub is_acknowledged: Option<bool>,
}

/// Times of the steps up to the shell's prompt or the first command. Each step begins at the end of
/// the previous one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Time of the name resolution, ns.
    pub resolve_ns: Option<u64>,
    /// Time from the first SYN to the established connection, ns.
    pub connect_ns: Option<u64>,
    /// Time from the established connection to the first byte of the server, ns. It is part of the
    /// negotiation or, if nothing is negotiated, of the wait for the prompt.
    pub greeting_ns: Option<u64>,
    /// TLS handshake, ns; `None` without TLS.
    pub tls_ns: Option<u64>,
    /// Part of the TLS handshake in which the local processor worked, ns.
    pub tls_cpu_ns: Option<u64>,
    /// Time of the negotiation, or of the greeting if the protocol has one, ns.
    pub negotiation_ns: Option<u64>,
    /// Time until the prompt for a user name, ns.
    pub prompt_ns: Option<u64>,
    /// Whether a program connects to the remote host, so that the time until the prompt includes
    /// all steps of the program.
    pub is_program: bool,
    /// From the user name to the prompt for a password, ns; `None` without such a prompt.
    pub password_prompt_ns: Option<u64>,
    /// From the last answer of the user to the acceptance or rejection of the login, ns.
    pub login_ns: Option<u64>,
    /// Time for which the local host waited for its processor since the connection was established,
    /// ns.
    pub own_wait_ns: Option<u64>,
}

/// Echoes of single characters, from keystroke to terminal cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Echoes {
    /// Echo times in the order of the keystrokes, ns.
    pub samples_ns: Vec<u64>,
    /// Time for which the local host waited for its processor in each echo, ns. Empty if unknown.
    pub own_wait_ns: Vec<u64>,
    /// Echo times of the keys that erased these characters, if each has one, ns.
    pub erasures_ns: Vec<u64>,
    /// TCP counts from the first echo to the last.
    pub counts: FlowCounts,
    /// Time of each layer in the median echo, with the remote host and the network as the
    /// remainder; the sum is the median. Empty if unknown.
    pub layers: Vec<LayerTime>,
}

impl Echoes {
    /// Returns the time of an echo during other output while the queue is full, ns. The queue is
    /// not yet full at the first keys, and is emptier again at the last key. With few samples, the
    /// longer samples are taken as those with a full queue.
    #[must_use]
    pub fn settled_ns(&self) -> Option<u64> {
        let samples = &self.samples_ns;
        if samples.len() < Self::MIN_SETTLING_ECHOES {
            return statistics::percentile(samples, 75);
        }
        statistics::median(samples.get(samples.len() / 2..)?)
    }

    /// Minimum number of echoes that show when the queue became full.
    pub(crate) const MIN_SETTLING_ECHOES: usize = 8;

    /// Returns the samples without the waits for the local processor, ns.
    pub(super) fn without_own_wait_ns(&self) -> Vec<u64> {
        let waits = self.own_wait_ns.iter().copied().chain(std::iter::repeat(0));
        self.samples_ns.iter().zip(waits).map(|(ns, wait)| ns.saturating_sub(wait)).collect()
    }
}

/// Short answers, each sent in a separate write after the echo of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// From Return to the answer, with immediate acknowledgment of earlier data, ns.
    pub quick_ack_ns: Vec<u64>,
    /// From Return to the answer, with the acknowledgment delayed by 40 ms, ns. Measured
    /// alternately with `quick_ack_ns`.
    pub delayed_ack_ns: Vec<u64>,
}

/// The path to the remote host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Smoothed round-trip time of TCP, ns.
    pub rtt_ns: Option<u64>,
    /// Minimum round-trip time of TCP, ns.
    pub min_rtt_ns: Option<u64>,
    /// Smoothed round-trip time of TCP after keys were typed during a long output, ns.
    pub rtt_under_load_ns: Option<u64>,
    /// Maximum segment size, data bytes.
    pub mss_bytes: Option<u64>,
    /// Path MTU, bytes.
    pub mtu_bytes: Option<u64>,
    /// Maximum delay of local acknowledgments, ns; 0 if they are never delayed.
    pub own_ack_delay_ns: Option<u64>,
    /// Rate of a local serial line, bit/s.
    pub line_bps: Option<u64>,
    /// Bits per byte on the serial line: 10 with start and stop bit.
    pub line_bits_per_byte: Option<u64>,
    /// Bytes of headers and framing per packet on the wire, if they are not 40.
    pub header_bytes: Option<u64>,
}

impl Path {
    /// Headers of TCP and IP without options, bytes.
    pub(crate) const HEADER_BYTES: u64 = 40;
    /// Headers of TCP and IP with the timestamp option (RFC 7323), bytes.
    pub const HEADER_BYTES_WITH_TIMESTAMPS: u64 = 52;
    /// Maximum segment size on Ethernet without TCP options, bytes.
    pub(crate) const ETHERNET_MSS: u64 = 1_460;
    /// Maximum segment size that every IPv4 host accepts (RFC 9293, section 3.7.1), bytes.
    pub const MIN_MSS: u64 = 536;
}
