//! What a flow takes at the least where one cause is gone: whatever limits it behind that one.
//!
//! A cause hides others: where nothing is lost any more, the window is still as small as it was, and
//! where the line is faster, slow start and the window still take their round trips. So a gain is the
//! time of the flow less what is left of it, and that is often less than the cause has cost.
//!
//! What is left is what is known for certain, and no more: the first byte, the window that this side
//! knows, the line as it was seen. The connection may have sent much before, so slow start is
//! reckoned only where the line is gone, and where a transfer has its own connection or the way was
//! quiet before.

use super::cause::Kind;
use super::flows::View;
use super::observation::Direction;
use super::traffic::serial_ns;
use crate::prediction::Model;

/// Returns how long the flow of `view` takes without `kind`, ns: no less than this.
pub(super) fn without_ns(view: &View<'_>, kind: Kind) -> u64 {
    let flow = view.flow;
    let Some(trip_ns) = view.trip_ns else { return 0 };
    let is_of_the_line = matches!(kind, Kind::LineRate | Kind::RateLimiter | Kind::SmallPackets);
    // What else makes the rate of a flow, a program on either side, is no line that stays.
    let is_of_a_program =
        matches!(kind, Kind::FarHost | Kind::Terminal | Kind::Tls | Kind::OwnProcessor);
    // Acknowledgments say little of the line.
    let is_seen = flow.direction == Direction::Incoming;
    let rate_bps = view.burst_bps.filter(|_| is_seen && !is_of_the_line && !is_of_a_program);
    let first_ns = match (kind, flow.arrivals.first()) {
        (_, None) => trip_ns,
        (Kind::FarHost | Kind::Loss | Kind::RetransmissionTimeouts | Kind::PathMtuBlackHole, _) => {
            trip_ns
        }
        // The first bytes were on the line, too.
        (_, Some(first)) if is_of_the_line => {
            let line_ns = view.burst_bps.map_or(0, |rate| serial_ns(first.bytes, rate));
            first.at_ns.saturating_sub(line_ns)
        }
        (_, Some(first)) => first.at_ns,
    };
    let is_of_the_window = matches!(
        kind,
        Kind::SmallWindow | Kind::SmallSendBuffer | Kind::ZeroWindow | Kind::DelayedAck
    );
    let window_bytes = flow.counts.window_bytes.filter(|bytes| *bytes > 0 && !is_of_the_window);
    let mss_bytes = view.path.mss_bytes.filter(|_| is_of_the_line);
    let transit_ns = match mss_bytes {
        Some(mss_bytes) => {
            let model = Model { window_bytes, ..Model::bare(trip_ns, mss_bytes) };
            model.flow_ns(flow.bytes)
        }
        None => in_windows_ns(flow.bytes, window_bytes, trip_ns, rate_bps),
    };
    first_ns.saturating_add(transit_ns)
}

/// Returns how long `bytes` take in windows that are full from the beginning on, ns.
fn in_windows_ns(
    bytes: u64,
    window_bytes: Option<u64>,
    trip_ns: u64,
    rate_bps: Option<u64>,
) -> u64 {
    let serial = |count| rate_bps.map_or(0, |rate| serial_ns(count, rate));
    let all_ns = serial(bytes);
    let Some(window) = window_bytes.filter(|window| serial(*window) < trip_ns) else {
        return all_ns;
    };
    let waits = bytes.div_ceil(window).saturating_sub(1);
    let last = bytes.saturating_sub(waits.saturating_mul(window));
    trip_ns.saturating_mul(waits).saturating_add(serial(last)).max(all_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_window_that_is_smaller_than_the_way_takes_a_round_trip_each_time() {
        assert_eq!(in_windows_ns(50_000, Some(10_000), 100 * MS, Some(8_000_000)), 410 * MS);
    }

    #[test]
    fn a_window_that_the_line_fills_costs_nothing() {
        assert_eq!(in_windows_ns(50_000, Some(10_000), 5 * MS, Some(8_000_000)), 50 * MS);
        assert_eq!(in_windows_ns(50_000, None, 100 * MS, Some(8_000_000)), 50 * MS);
    }
}
