//! The value of `getsockopt(TCP_INFO)`, in the layout of Linux's `struct tcp_info`.
//!
//! Fields that the engine does not provide are 0, as if the kernel was older than the field.

use net::transport::tcp::{State, Status};
use std::time::Duration;

/// Length of the value in bytes, more than the `struct tcp_info` of any kernel. The caller
/// truncates the value to the size of its buffer.
const LEN: usize = 512;

/// Appends fields in native byte order.
#[derive(Debug)]
struct Writer(Vec<u8>);

impl Writer {
    fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    fn word(&mut self, value: u64) {
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        self.0.extend(value.to_ne_bytes());
    }

    fn long(&mut self, value: u64) {
        self.0.extend(value.to_ne_bytes());
    }

    fn micros(&mut self, value: Option<Duration>) {
        let micros = value.unwrap_or_default().as_micros();
        self.word(u64::try_from(micros).unwrap_or(u64::MAX));
    }
}

/// Returns Linux's number for a TCP state.
fn number_of(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}

/// Encodes `struct tcp_info` for a connection with `status`, or for a socket without a connection
/// (`None`).
pub(crate) fn encode(status: Option<&Status>) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(LEN));
    match status {
        Some(status) => encode_connection(status, &mut out),
        None => out.byte(number_of(State::Closed)),
    }
    out.0.resize(LEN, 0);
    out.0
}

fn encode_connection(status: &Status, out: &mut Writer) {
    let mss = u64::from(status.send_mss.max(1));
    let statistics = &status.statistics;
    let recovery = &status.recovery;
    let limited = &recovery.limited;
    let segments = |bytes: u64| bytes.div_ceil(mss);
    out.byte(number_of(status.state));
    // The congestion states have the same names and order.
    out.byte(recovery.phase as u8);
    // Consecutive timeouts, probes, back-off, options, shifts, limits.
    for _ in 0..6 {
        out.byte(0);
    }
    out.micros(Some(status.rto));
    out.word(0); // Delay of a delayed acknowledgment.
    out.word(mss);
    out.word(mss); // The largest received segment is not recorded.
    out.word(segments(recovery.outstanding));
    out.word(segments(recovery.sacked));
    out.word(segments(recovery.lost));
    out.word(segments(recovery.retransmitted));
    out.word(0); // Forward acknowledgments are obsolete.
    for _ in 0..4 {
        out.word(0); // Times of the last data and acknowledgments sent and received.
    }
    out.word(0); // The path MTU.
    out.word(0); // The threshold of the receive window.
    out.micros(status.srtt);
    out.micros(status.rttvar);
    // Linux's threshold before the first loss.
    let unset = 0x7FFF_FFFF;
    out.word(status.slow_start_threshold.map_or(unset, |bytes| u64::from(bytes) / mss));
    out.word(u64::from(status.congestion_window) / mss);
    out.word(mss); // The advertised MSS.
    // Linux counts segments, and at least the three of RFC 5681.
    out.word(segments(recovery.reordering).max(3));
    out.word(0); // The receiver's round-trip time.
    out.word(0); // The receiver's buffer space.
    out.word(statistics.retransmissions);
    out.long(recovery.pacing_rate.unwrap_or(u64::MAX));
    out.long(u64::MAX); // The limit of the pacing rate: none.
    out.long(statistics.bytes_acknowledged);
    out.long(statistics.bytes_in);
    out.word(statistics.segments_out);
    out.word(statistics.segments_in);
    out.word(u64::from(status.send_queue).saturating_sub(recovery.outstanding));
    out.micros(recovery.min_rtt);
    out.word(0); // Data segments received and sent.
    out.word(0);
    out.long(recovery.delivery_rate.unwrap_or(0));
    for time in [limited.busy, limited.peer_window, limited.send_buffer] {
        out.long(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }
    out.word(segments(recovery.delivered));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_without_a_connection_is_closed() {
        let info = encode(None);
        assert_eq!((info[0], info.len()), (7, LEN));
    }
}
