//! Lower bound of the duration of a flow without one of its causes, from the other known limits.
//!
//! A cause hides others: without losses, the window is still as small as before, and on a faster
//! link, slow start and the window still take their round trips. The gain of a cause is therefore
//! the duration of the flow minus this bound, which is often less than the cost of the cause.
//!
//! The bound includes only known limits: the first byte, the window known to the local host, and
//! the observed link. Slow start is included only for causes of the link (rate, limiter, small
//! packets): otherwise the connection may have sent much data before, and its congestion window may
//! have grown.

use super::cause::{Cause, CauseKind};
use super::flow::Direction;
use super::flow_view::View;
use super::traffic::serial_ns;
use crate::prediction::Model;

impl View<'_> {
    /// Makes a cause that stalled this flow for `cost_ns`. The gain is limited: without the cause,
    /// the flow still takes the minimum time that the other known limits permit.
    pub(super) fn cause(
        &self,
        kind: CauseKind,
        cost_ns: u64,
        subject: &str,
        advice: String,
    ) -> Cause {
        let cost_ns = cost_ns.min(self.flow.elapsed_ns);
        let lower_bound_ns = lower_bound_ns(self, kind);
        Cause {
            kind,
            operation: self.operation,
            cost_ns,
            gain_ns: cost_ns.min(self.flow.elapsed_ns.saturating_sub(lower_bound_ns)),
            total_ns: self.flow.elapsed_ns,
            subject: subject.to_owned(),
            advice,
        }
    }
}

/// Returns the minimum duration of the flow of `view` without `kind`, ns.
fn lower_bound_ns(view: &View<'_>, kind: CauseKind) -> u64 {
    let flow = view.flow;
    let Some(trip_ns) = view.trip_ns else { return 0 };
    let is_link_cause =
        matches!(kind, CauseKind::LineRate | CauseKind::RateLimiter | CauseKind::SmallPackets);
    // If a program on either host determines the rate of a flow, the flow does not show the rate of
    // the link.
    let is_program_cause = matches!(
        kind,
        CauseKind::RemoteHost | CauseKind::Terminal | CauseKind::Tls | CauseKind::LocalProcessor
    );
    // Acknowledgments are not reliable evidence of the rate of the link.
    let is_incoming = flow.direction == Direction::Incoming;
    let rate_bps = view.burst_bps.filter(|_| is_incoming && !is_link_cause && !is_program_cause);
    let first_ns = match (kind, flow.arrivals.first()) {
        (_, None) => trip_ns,
        (
            CauseKind::RemoteHost
            | CauseKind::Loss
            | CauseKind::RetransmissionTimeouts
            | CauseKind::PathMtuBlackHole,
            _,
        ) => trip_ns,
        // The first bytes also spent time on the link.
        (_, Some(first)) if is_link_cause => {
            let line_ns = view.burst_bps.map_or(0, |rate| serial_ns(first.bytes, rate));
            first.at_ns.saturating_sub(line_ns)
        }
        (_, Some(first)) => first.at_ns,
    };
    let is_window_cause = matches!(
        kind,
        CauseKind::SmallWindow
            | CauseKind::SmallSendBuffer
            | CauseKind::ZeroWindow
            | CauseKind::DelayedAck
    );
    let window_bytes = flow.counts.window_bytes.filter(|bytes| *bytes > 0 && !is_window_cause);
    let mss_bytes = view.path.mss_bytes.filter(|_| is_link_cause);
    let transit_ns = match mss_bytes {
        Some(mss_bytes) => {
            let model = Model { window_bytes, ..Model::slow_start_only(trip_ns, mss_bytes) };
            model.flow_ns(flow.bytes)
        }
        None => in_windows_ns(flow.bytes, window_bytes, trip_ns, rate_bps),
    };
    first_ns.saturating_add(transit_ns)
}

/// Returns the time of `bytes` if the sender sends a full window in each round trip from the
/// beginning, ns.
fn in_windows_ns(
    bytes: u64,
    window_bytes: Option<u64>,
    trip_ns: u64,
    rate_bps: Option<u64>,
) -> u64 {
    let transmission_ns = |count| rate_bps.map_or(0, |rate| serial_ns(count, rate));
    let all_ns = transmission_ns(bytes);
    let Some(window) = window_bytes.filter(|window| transmission_ns(*window) < trip_ns) else {
        return all_ns;
    };
    let waits = bytes.div_ceil(window).saturating_sub(1);
    let last_bytes = bytes.saturating_sub(waits.saturating_mul(window));
    trip_ns.saturating_mul(waits).saturating_add(transmission_ns(last_bytes)).max(all_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_window_below_the_bandwidth_delay_product_takes_round_trips() {
        assert_eq!(in_windows_ns(50_000, Some(10_000), 100 * MS, Some(8_000_000)), 410 * MS);
    }

    #[test]
    fn a_window_that_the_line_fills_costs_nothing() {
        assert_eq!(in_windows_ns(50_000, Some(10_000), 5 * MS, Some(8_000_000)), 50 * MS);
        assert_eq!(in_windows_ns(50_000, None, 100 * MS, Some(8_000_000)), 50 * MS);
    }
}
