//! A smaller transfer of the same session that was much faster: it passed a token bucket that was
//! still full, so the rate of the larger transfer is not that of a link.

use super::lost_segments::has_losses;
use super::reply_delays;
use super::transfer_view::View;
use crate::verdict::traffic::{serial_ns, span_ns};

/// Minimum ratio of the rate of data that passes a full token bucket to the rate of later data.
pub(super) const FULL_BUCKET_RATE_FACTOR: u64 = 3;

/// Minimum number of segments that show a rate.
pub(super) const MIN_SEGMENTS: u64 = 5;

/// Requirements on a smaller transfer to show a rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateRequirements {
    pub(super) segments: u64,
    /// Time saved because the transfer was faster than `line_bps`, ns.
    pub(super) saved_ns: u64,
}

/// Returns the size in bytes of the largest transfer that is smaller than the transfer of `view`
/// and was much faster than `line_bps`.
pub(super) fn faster_transfer_bytes(
    view: &View<'_>,
    line_bps: u64,
    requirements: RateRequirements,
) -> Option<u64> {
    let smaller = view.session.transfers.iter().filter(|other| {
        other.direction == view.transfer.direction
            && other.bytes < view.transfer.bytes
            && !has_losses(other)
    });
    let faster_sizes = smaller.filter_map(|other| {
        let mss = view.shape.mss;
        let later_bytes =
            other.bytes.checked_sub(mss).filter(|_| other.bytes > mss * requirements.segments)?;
        let slow_ns = serial_ns(later_bytes, line_bps);
        // This time includes the round trips of slow start.
        let data_time_ns = match other.arrivals.is_empty() {
            true => other.last_byte_ns?.checked_sub(other.first_byte_ns?)?,
            false => span_ns(&other.arrivals)?,
        };
        // Add the time by which the first byte was read late: data that was already waiting shows
        // no rate.
        let waited_ns = reply_delays::steps(other, view.trip, 0).first_byte_ns;
        let usual_ns = view.steps.first_byte_ns;
        // Segments that arrived while the reader waited for its processor were read together.
        let data_time_ns = data_time_ns
            .saturating_add(waited_ns.saturating_sub(usual_ns))
            .saturating_add(other.own_wait_ns.unwrap_or(0));
        let is_faster = data_time_ns.saturating_mul(FULL_BUCKET_RATE_FACTOR) <= slow_ns;
        let is_significant = slow_ns.saturating_sub(data_time_ns) >= requirements.saved_ns;
        (is_faster && is_significant).then_some(other.bytes)
    });
    faster_sizes.max()
}
