//! A rate limiter that drops: a token bucket without a queue.
//!
//! Segments pass at the rate of the sender until the bucket is empty. From then on they are dropped
//! until there are tokens again. The segments that pass arrive in bursts, at the rate of the
//! sender.
//!
//! The losses are not random. The first loss is after the same number of bytes in each transfer,
//! and the bytes of each burst are proportional to its time. A full link, whose queue also drops
//! segments, differs in one respect: its segments follow each other without silences.

use super::faster_transfer::{MIN_SEGMENTS, RateRequirements, faster_transfer_bytes};
use super::lost_segments::{has_losses, lost_segments};
use super::observed::FileTransfer;
use super::shape::{alike_percent, bytes_per_period, spaced_bps};
use super::transfer_view::View;
use crate::format::{count, rate};
use crate::verdict::cause::{Cause, CauseKind};
use crate::verdict::traffic::{rate_bps, serial_ns, span_ns};
use crate::verdict::{Arrival, Direction};

/// Number of parts into which the time of a policed transfer is divided.
const PARTS: u64 = 12;
/// Minimum percentage of parts that bring about the same number of bytes.
const ALIKE_PERCENT: u64 = 60;
/// Percentage of retransmissions from which on the drops are deliberate, or due to a full queue.
const HEAVY_PERCENT: u64 = 15;
/// Minimum time saved by the data that passes a full token bucket, ns.
const MIN_SAVED_NS: u64 = 8_000_000;

/// Returns the cost of a token bucket that drops segments, either at once or when its short queue
/// is full.
pub(super) fn policer(view: &View<'_>) -> Option<Cause> {
    let shape = &view.shape;
    let mean_bps = rate_bps(shape.bytes, shape.span_ns)?;
    let bursts = Bursts::of(view, MIN_SILENCE_NS.max(view.trip / 2));
    let requirements = RateRequirements { segments: MIN_SEGMENTS, saved_ns: MIN_SAVED_NS };
    let faster_bytes =
        faster_transfer_bytes(view, mean_bps, requirements).filter(|_| is_even(view));
    let position = first_loss_bytes(view);
    let position = position
        .filter(|_| bursts.is_mostly_silent && (is_even(view) || bursts.are_alike(ALIKE_PERCENT)));
    let is_dropped = position.is_some() || has_heavy_loss(view) || matches_token_cycles(view);
    if faster_bytes.is_none() && (!is_dropped || fills_queue(view) || is_spaced(view)) {
        return None;
    }
    let ns = view.beyond_slow_start_ns();
    let prefix = faster_bytes.or(position).map_or_else(
        || "little data passes at once".to_owned(),
        |bytes| format!("about {} bytes pass at once without loss", count(bytes)),
    );
    // Segments spaced by a queue arrive without silences, and are dropped when the queue is full.
    let is_queue = faster_bytes.is_some() && !bursts.is_mostly_silent;
    let (subject, dropped, alternative) = match is_queue {
        true => (
            "A rate limiter (token bucket) on the path",
            "segments are spaced and, when its queue is full, dropped",
            "for a larger buffer",
        ),
        false => (
            "A rate limiter on the path that drops packets (policer)",
            "segments are dropped",
            "for a shaper that delays packets instead",
        ),
    };
    let advice = format!(
        "{prefix}; then {dropped}, and data arrives at {}. Ask the network operator for the \
         configured rate, or {alternative}",
        rate(mean_bps)
    );
    Some(view.cause(CauseKind::RateLimiter, (ns, ns), subject, advice))
}

/// Minimum capacity of a queue, in full segments.
const QUEUE_SEGMENTS: u64 = 6;
/// Maximum increase of the average round-trip time by delayed acknowledgments of a receiver, ns.
const DELAYED_ACK_NS: u64 = 30_000_000;

/// Returns whether an upload fills a queue of the path for at least a quarter of its time. A full
/// queue lengthens the round trips. A limiter that drops does not lengthen them.
pub(super) fn fills_queue(view: &View<'_>) -> bool {
    let shape = &view.shape;
    let mean_bps = rate_bps(shape.bytes, shape.span_ns);
    view.transfer.upper_rtt_ns.zip(mean_bps).is_some_and(|(upper_ns, mean_bps)| {
        let full_ns = serial_ns(shape.mss.saturating_mul(QUEUE_SEGMENTS), mean_bps);
        upper_ns >= full_ns.max(DELAYED_ACK_NS).saturating_add(view.trip)
    })
}

/// Segments that passed a queue arrive at up to this multiple of the mean rate, which the repair of
/// losses reduces.
const SPACED_FACTOR: u64 = 2;

/// Returns whether the segments before the first loss have passed a queue: their rate is at most
/// [`SPACED_FACTOR`] times the mean rate of the transfer.
fn is_spaced(view: &View<'_>) -> bool {
    let mean_bps = rate_bps(view.shape.bytes, view.shape.span_ns).unwrap_or(0);
    spaced_bps(view.transfer, view.shape.mss)
        .is_some_and(|bps| bps <= mean_bps.saturating_mul(SPACED_FACTOR))
}

/// Returns whether most parts of the transfer time bring about the same number of bytes.
fn is_even(view: &View<'_>) -> bool {
    let parts = bytes_per_period(&view.transfer.arrivals, view.shape.span_ns / PARTS);
    alike_percent(&parts).is_some_and(|(_, alike)| alike >= ALIKE_PERCENT)
}

/// Returns whether a large part of an upload is dropped. A full link drops segments when its queue
/// overflows, but stays full.
fn has_heavy_loss(view: &View<'_>) -> bool {
    let scaled_losses = lost_segments(view.transfer).saturating_mul(100);
    let sent_segments = view.transfer.tcp.data_segs_out;
    view.transfer.direction == Direction::Outgoing
        && view.excess_ns() >= view.shape.span_ns / 3
        && sent_segments.is_some_and(|count| scaled_losses >= count.saturating_mul(HEAVY_PERCENT))
}

/// Tolerance of the position of the first loss: the position divided by this number.
const POSITION_TOLERANCE_DIVISOR: u64 = 6;

/// Returns the number of bytes before the first lost segment, if this number is the same in all
/// larger transfers, and if smaller transfers lose no segment.
fn first_loss_bytes(view: &View<'_>) -> Option<u64> {
    let position = view.transfer.first_loss_bytes?;
    let tolerance = position / POSITION_TOLERANCE_DIVISOR;
    let others = view.session.transfers.iter().filter(|other| {
        other.direction == view.transfer.direction && !std::ptr::eq(*other, view.transfer)
    });
    let (larger, smaller): (Vec<_>, Vec<_>) =
        others.partition(|other| other.bytes > position.saturating_add(tolerance));
    let has_same_position = |other: &&FileTransfer| {
        other.first_loss_bytes.is_some_and(|bytes| bytes.abs_diff(position) <= tolerance)
    };
    let is_same_in_larger = !larger.is_empty() && larger.iter().all(has_same_position);
    let has_enough_segments = position >= view.shape.mss.saturating_mul(MIN_SEGMENTS);
    (has_enough_segments && is_same_in_larger && !smaller.into_iter().any(has_losses))
        .then_some(position)
}

/// Minimum silence between bursts, ns: samples are several milliseconds apart.
const MIN_SILENCE_NS: u64 = 12_000_000;
/// Minimum number of segments of a burst: on a slow link they arrive singly.
const BURST_SEGMENTS: u64 = 2;
/// Maximum time for which a sender waits for acknowledgments, in round trips.
const SILENCE_TRIPS: u64 = 3;
/// Bursts dominate if the silences before them take at least this percentage of the time.
const SILENT_PERCENT: u64 = 50;

/// Data that arrives between silences.
#[derive(Clone, Copy, Debug)]
struct Burst {
    begin_ns: u64,
    end_ns: u64,
    /// Segments, or bytes if segments are not known.
    units: u64,
}

/// The bursts of a transfer.
struct Bursts {
    all: Vec<Burst>,
    /// Whether the silences before bursts take most of the time, which does not happen behind a
    /// full link.
    is_mostly_silent: bool,
}

impl Bursts {
    /// Finds the bursts between silences of at least `silence_ns`.
    fn of(view: &View<'_>, silence_ns: u64) -> Self {
        let transfer = view.transfer;
        // The time at which data behind a hole is read does not show when it arrived.
        let has_segment_log = !transfer.segments.is_empty();
        let arrivals = if has_segment_log { &transfer.segments } else { &transfer.arrivals };
        let unit = if has_segment_log { 1 } else { view.shape.mss.max(1) };
        let min_units = unit.saturating_mul(BURST_SEGMENTS);
        let all = bursts(arrivals, silence_ns);
        let silences =
            all.iter().zip(all.iter().skip(1)).filter(|(_, next)| next.units >= min_units);
        // A silence longer than round trips and shorter than timers is due to a queue or a program.
        let trips_ns = view.trip.saturating_mul(SILENCE_TRIPS);
        let silent_ns = silences
            .map(|(before, next)| next.begin_ns.saturating_sub(before.end_ns))
            .filter(|ns| *ns <= trips_ns || *ns >= TIMER_NS)
            .fold(0, u64::saturating_add);
        let span = span_ns(arrivals).unwrap_or(0);
        let is_mostly_silent =
            span > 0 && silent_ns.saturating_mul(100) >= span.saturating_mul(SILENT_PERCENT);
        Self { all, is_mostly_silent }
    }

    /// Returns whether at least `percent` % of the bursts bring about the same amount per time
    /// since the previous burst.
    fn are_alike(&self, percent: u64) -> bool {
        let pairs = self.all.iter().zip(self.all.iter().skip(1));
        let rates: Vec<u64> = pairs
            .filter_map(|(before, next)| {
                rate_bps(next.units, next.begin_ns.saturating_sub(before.begin_ns))
            })
            .collect();
        alike_percent(&rates).is_some_and(|(_, alike)| alike >= percent)
    }
}

/// Splits `arrivals` into bursts between silences of at least `silence_ns`.
fn bursts(arrivals: &[Arrival], silence_ns: u64) -> Vec<Burst> {
    let mut all: Vec<Burst> = Vec::new();
    for one in arrivals {
        match all.last_mut() {
            Some(last) if one.at_ns.saturating_sub(last.end_ns) < silence_ns => {
                last.end_ns = last.end_ns.max(one.at_ns);
                last.units = last.units.saturating_add(one.bytes);
            }
            _ => all.push(Burst { begin_ns: one.at_ns, end_ns: one.at_ns, units: one.bytes }),
        }
    }
    all
}

/// Returns whether segments arrive in bursts between silences, which does not happen behind a full
/// link.
pub(super) fn is_in_bursts(view: &View<'_>) -> bool {
    Bursts::of(view, MIN_SILENCE_NS.max(view.trip / 2)).is_mostly_silent
}

/// Minimum silence of a retransmission timer, ns: Linux waits for at least 200 ms. The silence must
/// also be at least two round trips.
const TIMER_NS: u64 = 150_000_000;
/// Minimum number of bursts; fewer may be alike by coincidence.
const MIN_BURSTS: usize = 5;
/// Minimum percentage of a policer's bursts that are alike.
const CYCLES_ALIKE_PERCENT: u64 = 75;

/// Returns whether the data between retransmission timeouts matches the tokens of that time.
fn matches_token_cycles(view: &View<'_>) -> bool {
    let bursts = Bursts::of(view, TIMER_NS.max(view.trip.saturating_mul(2)));
    let count = u64::try_from(bursts.all.len()).unwrap_or(u64::MAX);
    bursts.all.len() >= MIN_BURSTS
        && bursts.is_mostly_silent
        && bursts.are_alike(CYCLES_ALIKE_PERCENT)
        // A program that pauses regularly loses no segments.
        && lost_segments(view.transfer) >= count / 2
}
