//! Causes of waiting between the first and the last byte of a transfer.
//!
//! The causes are tested in order: first the causes that TCP counts (loss, reordering, a full
//! window), then the causes visible in the shape of the data. If two causes have the same symptoms,
//! the reported cause is described as only possible.

use super::faster_transfer::{
    FULL_BUCKET_RATE_FACTOR, MIN_SEGMENTS, RateRequirements, faster_transfer_bytes,
};
use super::lost_segments::{has_losses, lost_segments};
use super::path_impairment::{DELAYED_NS, is_disordered, preliminary_exchanges};
use super::shape::{FULL_PERCENT, alike_percent, bytes_per_period};
use super::transfer_view::View;
use super::{limits, policer, reply_delays};
use crate::format::{count, duration, rate};
use crate::verdict::cause::{Cause, CauseKind};
use crate::verdict::traffic::{evenness_percent, knee, rate_bps, serial_ns};
use crate::verdict::{Arrival, Direction, Path};

/// Returns the causes that delayed the data.
pub(super) fn causes(view: &View<'_>) -> Vec<Cause> {
    let rules: [fn(&View<'_>) -> Option<Cause>; 6] =
        [peer_window, limiter, reordering, loss, small_window, pauses];
    let mut causes: Vec<Cause> = rules
        .into_iter()
        .find_map(|rule| rule(view).filter(Cause::stands_out))
        .into_iter()
        .collect();
    let hides_the_line = causes.iter().any(|cause| {
        matches!(
            cause.kind,
            CauseKind::RateLimiter | CauseKind::SmallWindow | CauseKind::SmallSendBuffer
        )
    });
    if !hides_the_line {
        causes.extend(limits::line(view));
    }
    causes
}

fn reordering(view: &View<'_>) -> Option<Cause> {
    let tcp = &view.transfer.tcp;
    let is_incoming = view.transfer.direction == Direction::Incoming;
    let late = if is_incoming { tcp.rcv_ooopack } else { tcp.reord_seen.max(tcp.dsack_dups) };
    let late = late.filter(|late| *late > 0 && view.is_disordered)?;
    if let Some(cause) = policer::policer(view) {
        return Some(cause);
    }
    let evidence = match is_disordered(view.session) {
        true => "the retransmitted data had not been lost",
        false => "some replies were late by about the same time, and others were not",
    };
    let advice = format!(
        "{} segments were out of order, and {evidence}. Check for parallel links that carry packets \
         in turn, and for wireless links that repeat frames",
        count(late)
    );
    let replies =
        reply_delays::delays_ns(preliminary_exchanges(&view.transfer.exchanges), view.trip);
    let delayed_replies = replies.into_iter().filter(|ns| DELAYED_NS.contains(ns));
    let replies_ns = delayed_replies.fold(0_u64, u64::saturating_add);
    let ns = view.excess_ns().saturating_add(replies_ns);
    Some(view.cause(CauseKind::Reordering, (ns, ns), "Reordering on the path", advice))
}

/// An overflowing queue delivers at the rate of its link for at least this percentage of the time.
const BUSY_PERCENT: u64 = 35;

/// If short transfers lose nothing, losses are a cause only if they cost at least the total divided
/// by this number.
const MIN_LOSS_COST_DIVISOR: u64 = 3;

fn loss(view: &View<'_>) -> Option<Cause> {
    let lost_segments = lost_segments(view.transfer);
    if view.is_disordered || lost_segments == 0 {
        return None;
    }
    let ns = view.excess_ns();
    if let Some(cause) = policer::policer(view) {
        return Some(cause);
    }
    // Slow start ends with losses at a full queue: that is how TCP finds the rate of a path.
    let is_queue_overflow =
        ns < view.transfer.total_ns / MIN_LOSS_COST_DIVISOR || policer::fills_queue(view);
    if !view.is_lossy && is_queue_overflow {
        return None;
    }
    let shape = &view.shape;
    let longest_ns = shape.pauses.iter().map(|pause| pause.ns).max().unwrap_or(0);
    let what = match view.transfer.direction {
        Direction::Incoming => "segments waited for the retransmission of a lost one",
        Direction::Outgoing => "segments were lost and retransmitted",
    };
    let evidence =
        format!("{} {what}, with gaps of up to {}", count(lost_segments), duration(longest_ns));
    let is_busy = shape.line_ns().saturating_mul(100) >= shape.span_ns.saturating_mul(BUSY_PERCENT);
    let queue = match (is_busy, shape.line_bps) {
        (true, Some(line_bps)) => format!(
            "; packets otherwise arrive at {}, so a short queue at a link of this rate also \
             explains the loss",
            rate(line_bps)
        ),
        _ => String::new(),
    };
    let advice = format!(
        "{evidence}{queue}. Check the links of the path for errors, and for buffers that are too \
         small"
    );
    Some(view.cause(CauseKind::Loss, (ns, ns), "Packet loss", advice))
}

/// Minimum evenness of the data behind a token bucket, percent.
const EVEN_PERCENT: u64 = 60;
/// Minimum time that the faster part must save, ns; less can be due to a late reader.
const MIN_SAVED_NS: u64 = 25_000_000;

/// A token bucket: the bytes that passed at once, and the rate after them.
struct Bucket {
    bytes: u64,
    after_bps: u64,
}

/// If this many segments pass at once, the link is not slow.
const MIN_SEGMENTS_AT_ONCE: u64 = 2;

/// Returns the token bucket that became empty during the transfer, if the data shows one.
fn bucket(view: &View<'_>) -> Option<Bucket> {
    let arrivals = &view.transfer.arrivals;
    let line_bps = view.shape.line_bps.filter(|_| limits::is_full(view));
    if let Some(after_bps) = line_bps
        && let requirements =
            (RateRequirements { segments: MIN_SEGMENTS_AT_ONCE, saved_ns: MIN_SAVED_NS })
        && let Some(bytes) = faster_transfer_bytes(view, after_bps, requirements)
    {
        return Some(Bucket { bytes, after_bps });
    }
    let knee = knee(arrivals)?;
    let is_fast_before_knee =
        knee.before_bps.is_none_or(|before| before >= knee.after_bps * FULL_BUCKET_RATE_FACTOR);
    let saved_ns = serial_ns(knee.bytes, knee.after_bps);
    let saves_enough_time = saved_ns >= view.trip.saturating_mul(2).max(MIN_SAVED_NS);
    let is_even_after_knee = evenness_percent(arrivals, knee.bytes)? >= EVEN_PERCENT;
    // The first segments of a window also pass at once.
    let is_beyond_a_flight = knee.bytes >= view.shape.mss.saturating_mul(MIN_SEGMENTS);
    // If most of the bytes passed at once, only the later bytes are slowed by the limiter: they
    // arrive packet by packet, and not in the blocks of a program.
    let after_knee_ns = serial_ns(view.shape.bytes.saturating_sub(knee.bytes), knee.after_bps);
    let is_slow_after_knee =
        after_knee_ns.saturating_mul(100) >= view.shape.span_ns.saturating_mul(FULL_PERCENT);
    let arrives_by_packet = arrivals_behind(arrivals, knee.bytes)
        .is_some_and(|bytes| bytes <= view.shape.mss.saturating_mul(LINK_SEGMENTS));
    let is_limit_reached = limits::is_full(view)
        || (is_slow_after_knee && arrives_by_packet && !has_losses(view.transfer));
    (is_fast_before_knee
        && saves_enough_time
        && is_even_after_knee
        && is_beyond_a_flight
        && is_limit_reached)
        .then_some(Bucket { bytes: knee.bytes, after_bps: knee.after_bps })
}

/// Returns the median size of the arrivals after the first `bytes`.
fn arrivals_behind(arrivals: &[Arrival], bytes: u64) -> Option<u64> {
    let mut cumulative_bytes = 0_u64;
    let later_arrivals = arrivals.iter().skip_while(|one| {
        cumulative_bytes = cumulative_bytes.saturating_add(one.bytes);
        cumulative_bytes <= bytes
    });
    crate::statistics::median(&later_arrivals.map(|one| one.bytes).collect::<Vec<u64>>())
}

fn limiter(view: &View<'_>) -> Option<Cause> {
    if window_bytes(view).is_some() {
        return None;
    }
    let Bucket { bytes, after_bps } = bucket(view)?;
    let ns = view.beyond_slow_start_ns();
    let advice = format!(
        "about {} bytes pass at once, and from then on the data arrives evenly at {}. Ask the \
         network operator for the configured rate, or keep transfers below the size of the token \
         bucket",
        count(bytes),
        rate(after_bps)
    );
    let subject = "A rate limiter (token bucket) on the path";
    Some(view.cause(CauseKind::RateLimiter, (ns, ns), subject, advice))
}

/// A window is the limit if it explains at least the time of the data divided by this number.
const MIN_WINDOW_SHARE_DIVISOR: u64 = 2;

/// Returns the cost of the server's full window. Either the window is small, or the server's
/// program reads slowly.
fn peer_window(view: &View<'_>) -> Option<Cause> {
    if view.transfer.direction == Direction::Incoming {
        return None;
    }
    let full_ns = view.transfer.tcp.rwnd_limited_ns.filter(|ns| *ns >= view.shape.span_ns / 3)?;
    let [_, window] = view.transfer.peer_window_bytes.filter(|[_, window]| *window > 0)?;
    // A window larger than the file is no limit: it has grown during the transfer.
    if window >= view.transfer.bytes {
        return None;
    }
    let trips = u128::from(view.transfer.bytes) * u128::from(view.trip) / u128::from(window);
    let by_window_ns = u64::try_from(trips).unwrap_or(u64::MAX);
    let ns = view.beyond_slow_start_ns();
    // A window that opens once per round trip is small. If a window stays closed for longer, the
    // program does not read.
    if by_window_ns.saturating_mul(MIN_WINDOW_SHARE_DIVISOR) >= view.shape.span_ns {
        let advice = format!(
            "{} bytes can be in flight in each round trip of {}. Increase the receive buffer of \
             the server (net.ipv4.tcp_rmem, SO_RCVBUF)",
            count(window),
            duration(view.trip)
        );
        let subject = "The server's small receive window";
        return Some(view.cause(CauseKind::SmallWindow, (ns, ns), subject, advice));
    }
    // A window that grows while the program reads may be full for some time at first.
    if full_ns < view.shape.span_ns / 2 {
        return None;
    }
    let rate_bps = rate_bps(view.shape.bytes, view.shape.span_ns).unwrap_or(0);
    let advice = format!(
        "its receive window of {} bytes stays full although a round trip takes only {}, and it \
         reads only at {}. Check the disk there and the program that stores the file",
        count(window),
        duration(view.trip),
        rate(rate_bps)
    );
    Some(view.cause(CauseKind::SlowReader, (ns, ns), "The slow reader on the server", advice))
}

/// Minimum number of round trips; with fewer, a window cannot be distinguished from slow start.
const MIN_TRIPS: usize = 4;
/// Minimum percentage of round trips that bring about the same number of bytes.
const ALIKE_PERCENT: u64 = 60;

/// Number of round trips at the start of a transfer that are checked for the burst of a token
/// bucket.
const OPENING_TRIPS: usize = 3;
/// Maximum bytes in the first [`OPENING_TRIPS`] round trips, as a multiple of the median bytes of a
/// round trip. The multiple is one more than the number of round trips, because a packet may be
/// late.
const OPENING_WINDOWS: u64 = 4;

/// Returns the median bytes per round trip, if a window determines the rate: most round trips bring
/// equal amounts, and the data arrives at the beginning of each round trip. A full link spreads the
/// data over the round trip.
fn window_bytes(view: &View<'_>) -> Option<u64> {
    let arrivals = &view.transfer.arrivals;
    let periods = bytes_per_period(arrivals, view.trip);
    if periods.len() < MIN_TRIPS {
        return None;
    }
    let (median, alike) = alike_percent(&periods)?;
    let first = bytes_per_period(arrivals, view.trip / 4).first().copied()?;
    let mean = view.shape.bytes / u64::try_from(periods.len()).ok()?;
    // A token bucket initially lets more than twice the mean pass.
    let is_burst_at_start =
        first.saturating_mul(10) >= mean.saturating_mul(6) && first <= mean.saturating_mul(2);
    // A token bucket also lets more than a window per round trip pass in the first round trips.
    let opening =
        periods.iter().take(OPENING_TRIPS).fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
    let is_constant = opening <= median.saturating_mul(OPENING_WINDOWS);
    // A small congestion window of very small segments also gives equal amounts.
    let is_several = median >= view.shape.mss.max(Path::MIN_MSS).saturating_mul(2);
    (alike >= ALIKE_PERCENT && is_burst_at_start && is_constant && is_several).then_some(median)
}

/// Linux initially offers at most this much of a connection's buffer, bytes: a larger window grows.
const INITIAL_WINDOW: u64 = 50_000;

/// Returns the cost of a window or buffer, on either host, that is smaller than the path needs.
fn small_window(view: &View<'_>) -> Option<Cause> {
    if view.transfer.direction == Direction::Outgoing {
        return own_send_buffer(view);
    }
    let shape = &view.shape;
    let bytes_per_trip =
        u128::from(shape.bytes) * u128::from(view.trip) / u128::from(shape.span_ns.max(1));
    let bytes_per_trip = u64::try_from(bytes_per_trip).unwrap_or(u64::MAX);
    let ns = view.beyond_slow_start_ns();
    let own = view.transfer.own_window_bytes;
    let is_own_window_small = own.is_some_and(|own| {
        own < INITIAL_WINDOW && bytes_per_trip.saturating_mul(MIN_WINDOW_SHARE_DIVISOR) >= own
    });
    if let (true, Some(own)) = (is_own_window_small, own) {
        let advice = format!(
            "{} bytes can be in flight in each round trip of {}. Increase the receive buffer of \
             this host (net.ipv4.tcp_rmem, SO_RCVBUF)",
            count(own),
            duration(view.trip)
        );
        let subject = "This host's small receive window";
        return Some(view.cause(CauseKind::SmallWindow, (ns, ns), subject, advice));
    }
    let in_flight = window_bytes(view)?;
    if has_losses(view.transfer) {
        return None;
    }
    let advice = format!(
        "it keeps about {} bytes in flight in each round trip of {}, while this host's window \
         permits {}, and nothing is lost. Increase the send buffer of the server \
         (net.ipv4.tcp_wmem, SO_SNDBUF)",
        count(in_flight),
        duration(view.trip),
        own.map_or_else(|| "more".to_owned(), count)
    );
    let subject = "The server's small send buffer";
    Some(view.cause(CauseKind::SmallSendBuffer, (ns, ns), subject, advice))
}

fn own_send_buffer(view: &View<'_>) -> Option<Cause> {
    let full_ns = view.transfer.tcp.sndbuf_limited_ns.filter(|ns| *ns >= view.shape.span_ns / 3)?;
    let ns = full_ns.min(view.excess_ns());
    let advice = format!(
        "it was full while the server's window had room, at a round-trip time of {}. Increase the \
         send buffer of this host (net.ipv4.tcp_wmem, SO_SNDBUF)",
        duration(view.trip)
    );
    Some(view.cause(CauseKind::SmallSendBuffer, (ns, ns), "This host's small send buffer", advice))
}

/// Minimum number of pauses; fewer may be coincidence.
const MIN_PAUSES: usize = 3;

/// Maximum number of segments that a link or a limiter passes at once; a program writes more.
const LINK_SEGMENTS: u64 = 2;

/// Returns the cost of pauses of the sending program: silences that are not round trips, while
/// nothing was lost and no window was full.
fn pauses(view: &View<'_>) -> Option<Cause> {
    let is_path_impaired = view.is_lossy || view.is_disordered || has_losses(view.transfer);
    if is_path_impaired || view.transfer.direction == Direction::Outgoing {
        return None;
    }
    let trip = view.trip;
    let is_round_trip = |ns: u64| ns >= trip - trip / 3 && ns <= trip.saturating_add(trip / 4);
    let other_pauses: Vec<_> =
        view.shape.pauses.iter().filter(|pause| !is_round_trip(pause.ns)).collect();
    let sum_ns = other_pauses.iter().fold(0_u64, |sum, pause| sum.saturating_add(pause.ns));
    let longest_ns = other_pauses.iter().map(|pause| pause.ns).max().unwrap_or(0);
    let is_single_pause = longest_ns >= sum_ns / 2 && longest_ns > trip.saturating_mul(2);
    if other_pauses.len() < MIN_PAUSES && !is_single_pause {
        return None;
    }
    let gain_ns = view.excess_ns().min(view.shape.pauses_ns());
    let typical = other_pauses.iter().map(|pause| pause.bytes).collect::<Vec<_>>();
    let typical = crate::statistics::median(&typical).unwrap_or(0);
    // Packets that arrive singly are spaced by a link or a limiter.
    if !is_single_pause && typical <= view.shape.mss.saturating_mul(LINK_SEGMENTS) {
        return None;
    }
    let advice = format!(
        "{} gaps of up to {}, about {} bytes apart, do not match the round trip of {}; nothing was \
         lost, and the receive window of this host was open. Check the disk and the load on the \
         server",
        count(u64::try_from(other_pauses.len()).unwrap_or(u64::MAX)),
        duration(longest_ns),
        count(typical),
        duration(trip)
    );
    let subject = "The server's slow file access (storage)";
    Some(view.cause(CauseKind::SlowDisk, (gain_ns, gain_ns), subject, advice))
}
