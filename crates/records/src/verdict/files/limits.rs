//! Limits of a path that cannot be fixed on either host: its round-trip time and its rate.

use super::lost_segments::has_losses;
use super::opening::MIN_DISTANT_TRIP_NS;
use super::policer;
use super::shape::{FULL_PERCENT, spaced_bps};
use super::transfer_view::View;
use crate::format::{count, duration, rate};
use crate::verdict::cause::{Cause, CauseKind};
use crate::verdict::traffic::{rate_bps, serial_ns};

/// Minimum duration of a transfer for which the rate of the link is a cause, ns; shorter transfers
/// are always limited by the link.
const LONG_TRANSFER_NS: u64 = 1_000_000_000;
/// Headers of TCP and IP with the timestamp option (RFC 7323).
const HEADER_BYTES: u64 = 52;
/// Segments are small if full segments would be at least this many times as long.
const SMALL_FACTOR: u64 = 3;

/// Returns whether packets follow each other at the rate of a link for most of the time.
pub(super) fn is_full(view: &View<'_>) -> bool {
    let shape = &view.shape;
    // After a loss, the observed rate may be that of the sender, unless a queue spaced the segments
    // before the first loss.
    let is_sender_rate = has_losses(view.transfer)
        && policer::is_in_bursts(view)
        && spaced_bps(view.transfer, shape.mss).is_none();
    !is_sender_rate
        && shape.line_ns().saturating_mul(100) >= shape.span_ns.saturating_mul(FULL_PERCENT)
}

/// Returns the rate of the slowest link if it is full.
fn full_line_bps(view: &View<'_>) -> Option<u64> {
    let shape = &view.shape;
    // If losses empty a full queue, the link is no faster than the average rate of the data.
    let mean_bps = rate_bps(shape.bytes, shape.span_ns);
    let queued_bps = mean_bps.filter(|_| policer::fills_queue(view) && has_losses(view.transfer));
    queued_bps.or_else(|| shape.line_bps.filter(|_| is_full(view)))
}

/// Returns the cost of the rate of the slowest link, or of the headers of small segments on it.
pub(super) fn line(view: &View<'_>) -> Vec<Cause> {
    let shape = &view.shape;
    let Some(line_bps) = full_line_bps(view) else { return Vec::new() };
    let mut causes = Vec::new();
    let line_ns = serial_ns(shape.bytes, line_bps).min(shape.span_ns);
    if let Some(cause) = small_segments(view, line_ns, line_bps).filter(Cause::stands_out) {
        // The rate of the link is fixed; only its header overhead can be reduced.
        return vec![cause];
    }
    if view.transfer.total_ns >= LONG_TRANSFER_NS {
        let first_ns = serial_ns(shape.mss, line_bps);
        let gain_ns = view.beyond_slow_start_ns().saturating_add(first_ns);
        let advice = format!(
            "packets follow each other at {} for most of the time. Compress the data, or use a \
             faster link",
            rate(line_bps)
        );
        let subject = "The rate of the path's slowest link";
        let cost_ns = line_ns.saturating_add(first_ns);
        causes.push(view.cause(CauseKind::LineRate, (cost_ns, gain_ns), subject, advice));
    }
    causes
}

fn small_segments(view: &View<'_>, line_ns: u64, line_bps: u64) -> Option<Cause> {
    let mss = view.shape.mss;
    let full = view.transfer.tcp.pmtu?.checked_sub(HEADER_BYTES)?;
    if mss == 0 || mss.saturating_mul(SMALL_FACTOR) > full {
        return None;
    }
    let on_wire_ns = u128::from(line_ns) * u128::from(mss) / u128::from(mss + HEADER_BYTES);
    let needed_ns = on_wire_ns * u128::from(full + HEADER_BYTES) / u128::from(full);
    let ns = line_ns.saturating_sub(u64::try_from(needed_ns).unwrap_or(u64::MAX));
    let advice = format!(
        "{} of {} bytes on the wire are headers, because segments have {} bytes of data instead of \
         {}, and the link carries {} of data. To reduce the header overhead, check the MTU of the \
         server's interface and route, and MSS clamping",
        count(HEADER_BYTES),
        count(mss + HEADER_BYTES),
        count(mss),
        count(full),
        rate(line_bps)
    );
    Some(view.cause(
        CauseKind::SmallPackets,
        (ns, ns),
        "The header overhead of small segments",
        advice,
    ))
}

/// Returns the cost of the round trips of a long path: the round trips before the first byte, and
/// those of slow start. If nothing else delayed the data, all time of the data without the link
/// counts instead of slow start.
pub(super) fn distance(view: &View<'_>, has_data_cause: bool) -> Option<Cause> {
    if view.trip < MIN_DISTANT_TRIP_NS {
        return None;
    }
    let shape = &view.shape;
    let opening_ns = view.trip.saturating_mul(view.steps.trips);
    let flow_ns = match has_data_cause || has_losses(view.transfer) {
        true => view.slow_start_ns().min(shape.span_ns),
        false => shape.span_ns.saturating_sub(shape.line_ns()),
    };
    let ns = opening_ns.saturating_add(flow_ns);
    let advice = format!(
        "{} round trips of {} precede the first byte, and {} pass while the congestion window \
         grows. Use a server nearby, fewer and larger files, or parallel connections",
        count(view.steps.trips),
        duration(view.trip),
        duration(flow_ns)
    );
    Some(view.cause(CauseKind::Distance, (ns, ns), "The round-trip time of the path", advice))
}
