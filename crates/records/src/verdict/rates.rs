//! Costs of the rate of the path: the link itself, headers of small packets, a token bucket.

use super::cause::{Cause, CauseKind, Operation};
use super::flow::{Direction, Flow};
use super::flow_view::View;
use super::observation::{Observation, Path};
use super::traffic::{
    data_packets, evenness_percent, full_rate_bps, gaps, knee, rate_bps, serial_ns, span_ns,
};
use crate::format::count;

/// Minimum evenness of the flow after the knee of a token bucket, percent.
const EVEN_PERCENT: u64 = 60;
/// Minimum number of arrivals for an analysis of the shape.
const MIN_ARRIVALS: usize = 10;

/// Returns the cost of a token bucket that is full at first and empty later.
pub(super) fn rate_limiter(view: &mut View<'_>) -> Option<Cause> {
    let arrivals = &view.flow.arrivals;
    if view.has_reordering
        || view.window_bytes.is_some()
        || arrivals.len() < MIN_ARRIVALS
        || view.explained_ns > view.flow.elapsed_ns / 4
    {
        return None;
    }
    let knee = knee(arrivals)?;
    if evenness_percent(arrivals, knee.bytes)? < EVEN_PERCENT {
        return None;
    }
    // A window produces steps of a round trip, whose rate is even in the long run. A token bucket
    // produces no steps.
    let trip_ns = view.trip_or_zero();
    let steps = super::traffic::stalls(view.flow, Some(knee.after_bps), trip_ns / 2);
    let steps_ns: u64 = steps.iter().fold(0, |sum, stall| sum.saturating_add(stall.ns));
    let rest_ns = serial_ns(view.flow.bytes.saturating_sub(knee.bytes), knee.after_bps);
    // A token bucket that drops packets also produces steps, but it drops nothing while keys are
    // typed one at a time. If the path loses packets even then, the steps are those of a small
    // congestion window.
    let allowed_ns = match (view.has_losses, view.has_losses_while_typing) {
        (true, false) => u64::MAX,
        (_, false) => rest_ns / 2,
        (_, true) => rest_ns / 4,
    };
    if steps_ns > allowed_ns {
        return None;
    }
    let fast_ns = knee.before_bps.map_or(0, |rate| serial_ns(view.flow.bytes, rate));
    let first_ns = arrivals.first().map_or(0, |arrival| arrival.at_ns);
    let gain_ns = view.flow.elapsed_ns.saturating_sub(fast_ns.saturating_add(first_ns));
    let selected = view.select(|_| true);
    let before = knee.before_bps.map_or_else(
        || "faster than can be measured".to_owned(),
        |rate| format!("at {} bit/s", count(rate)),
    );
    let advice = format!(
        "the first {} bytes arrive {before}, all others at {} bit/s. Ask the network operator for \
         the configured rate, or keep transfers below the size of the token bucket",
        count(knee.bytes),
        count(knee.after_bps)
    );
    let cause = view.cause(CauseKind::RateLimiter, gain_ns, "A rate limiter on the path", advice);
    view.assign_stalls(cause, &selected)
}

/// Returns the bytes of headers and framing per packet.
fn header_bytes(path: &Path) -> u64 {
    path.header_bytes.unwrap_or(Path::HEADER_BYTES)
}

/// Returns the cost of the headers of one packet on the path, ns; `None` if it is unknown.
fn header_ns(view: &View<'_>, packets: u64) -> Option<u64> {
    let header = header_bytes(view.path);
    if let Some(rate) = view.path.line_bps {
        return Some(serial_ns(header, rate) * view.path.line_bits_per_byte.unwrap_or(10) / 8);
    }
    // The observed rate counts only data, while headers were also on the link.
    let rate = view.burst_bps?;
    let data = view.flow.bytes / packets.max(1);
    let wire_bps = u128::from(rate) * u128::from(data + header) / u128::from(data.max(1));
    Some(serial_ns(header, u64::try_from(wire_bps).ok()?))
}

/// Packets are small if there are at least this many times as many packets as necessary.
const SMALL_PACKETS_FACTOR: u64 = 3;

/// Returns the cost of the headers of segments that are small because of a small MSS.
fn small_mss(view: &View<'_>, mss: u64) -> Option<Cause> {
    // The announced MSS may exceed what the sender's route permits: Linux announces at least 256
    // bytes.
    let needed_packets = view.flow.bytes.div_ceil(mss.max(1));
    let packets = data_packets(view.flow, view.path);
    let packets = packets.map_or(needed_packets, |packets| packets.max(needed_packets));
    let min_packets = view.flow.bytes.div_ceil(Path::ETHERNET_MSS).max(1);
    let gain_ns = header_ns(view, packets)?.saturating_mul(packets.saturating_sub(min_packets));
    let advice = format!(
        "each has {} bytes of data and {} bytes of headers. To reduce the header overhead, check \
         the MTU of the path and of both hosts, and MSS clamping",
        count(view.flow.bytes / packets.max(1)),
        count(header_bytes(view.path))
    );
    Some(view.cause(
        CauseKind::SmallPackets,
        gain_ns,
        "The header overhead of small segments",
        advice,
    ))
}

/// Returns the cost of the headers of unnecessary packets.
pub(super) fn small_packets(view: &View<'_>) -> Option<Cause> {
    let mss = view.path.mss_bytes?;
    if mss < Path::MIN_MSS {
        return small_mss(view, mss);
    }
    let packets = data_packets(view.flow, view.path)?;
    let min_packets = view.flow.bytes.div_ceil(mss.max(1)).max(1);
    if packets < min_packets.saturating_mul(SMALL_PACKETS_FACTOR) {
        return None;
    }
    let gain_ns = header_ns(view, packets)?.saturating_mul(packets - min_packets);
    let advice = format!(
        "{} packets of {} bytes carry as much data as {} full ones. Write larger pieces there, or \
         set TCP_CORK",
        count(packets),
        count(view.flow.bytes / packets.max(1)),
        count(min_packets)
    );
    Some(view.cause(
        CauseKind::SmallPackets,
        gain_ns,
        "The header overhead of small packets",
        advice,
    ))
}

/// Returns the rate of the slowest link, if the flow shows one. At the rate of a link, a packet's
/// headers take at most one round trip.
pub(super) fn observed_line_bps(view: &View<'_>) -> Option<u64> {
    let rate = view.burst_bps?;
    let header_ns = serial_ns(header_bytes(view.path), rate);
    (header_ns <= view.trip_ns?).then_some(rate)
}

/// Returns the rate of the slowest link, if it was full during a flow with losses.
pub(super) fn full_bps(view: &View<'_>) -> Option<u64> {
    full_rate_bps(&view.flow.arrivals).filter(|_| view.has_losses)
}

/// Returns whether nearly all segments of the flow were full. Then TCP always had more to send than
/// the path carried, which does not hold for a program that writes slowly.
fn has_full_segments(view: &View<'_>) -> bool {
    let packets_and_mss = view.flow.data_packets.zip(view.path.mss_bytes);
    packets_and_mss.is_some_and(|(packets, mss)| {
        packets > 1 && packets.saturating_mul(mss) <= view.flow.bytes.saturating_mul(10) / 9
    })
}

/// Maximum number of bytes that may arrive faster than an empty token bucket permits: the bytes of
/// the output divided by this number. Some bytes do, because a reader that is late reads several
/// packets at once.
const MAX_EARLY_DIVISOR: u64 = 6;
/// Minimum ratio of the rate of a screenful that passes a full token bucket to the rate of a long
/// output behind the empty bucket.
const MIN_BUCKET_RATE_FACTOR: u64 = 4;
/// Minimum time that a screenful must save over the long output's rate, ns; less may be
/// coincidence.
const MIN_BUCKET_SAVING_NS: u64 = 3_000_000;

/// Returns the cost of a token bucket that is full for every screenful, but empty during the whole
/// long output. In this case the knee that [`rate_limiter`] detects is not visible.
pub(super) fn emptied_bucket(observed: &Observation, trip_ns: Option<u64>) -> Option<Cause> {
    let mss = observed.path.mss_bytes?;
    let is_incoming_flow = |flow: &&Flow| flow.direction == Direction::Incoming;
    let long_output = observed.transfers.iter().find(is_incoming_flow)?;
    if long_output.arrivals.len() < MIN_ARRIVALS
        || evenness_percent(&long_output.arrivals, 0)? < EVEN_PERCENT
    {
        return None;
    }
    // A small window has the same effects: the rate is even in the long run, and a screenful passes
    // at once.
    if super::round_trip_waits::in_windows(long_output, trip_ns, observed.path.mss_bytes).is_some()
    {
        return None;
    }
    let rate = rate_bps(long_output.bytes, span_ns(&long_output.arrivals)?)?;
    // A small window also gives an even rate over many round trips, but in steps of one round trip.
    let min_ns = trip_ns.unwrap_or(0) / 2;
    let steps = super::traffic::stalls(long_output, Some(rate), min_ns);
    let steps_ns = steps.iter().fold(0_u64, |sum, stall| sum.saturating_add(stall.ns));
    if min_ns > 0 && steps_ns > span_ns(&long_output.arrivals)? / 2 {
        return None;
    }
    let fast_bps = rate.saturating_mul(MIN_BUCKET_RATE_FACTOR);
    // A program that writes occasionally produces bursts; a token bucket does not.
    let early_gaps =
        gaps(&long_output.arrivals).filter(|(_, gap, bytes)| *gap < serial_ns(*bytes, fast_bps));
    if early_gaps.map(|(.., bytes)| bytes).sum::<u64>() > long_output.bytes / MAX_EARLY_DIVISOR {
        return None;
    }
    let observed_screenfuls = [&observed.screenful, &observed.screenful_delayed_ack];
    let passes_full_bucket = |screen: &Flow| {
        // One read may return the whole screenful, and the first segment of a flow does not show a
        // rate.
        let slow_ns = serial_ns(screen.bytes.saturating_sub(mss), rate);
        let elapsed_ns = span_ns(&screen.arrivals).unwrap_or(u64::MAX);
        slow_ns >= MIN_BUCKET_SAVING_NS
            && elapsed_ns.saturating_mul(MIN_BUCKET_RATE_FACTOR) < slow_ns
    };
    let mut screenfuls = observed_screenfuls.into_iter().flatten().peekable();
    screenfuls.peek()?;
    if !screenfuls.all(passes_full_bucket) {
        return None;
    }
    let waited_ns = long_output.elapsed_ns.saturating_sub(trip_ns.unwrap_or(0));
    Some(Cause {
        kind: CauseKind::RateLimiter,
        operation: Operation::Transfer,
        cost_ns: waited_ns - waited_ns / MIN_BUCKET_RATE_FACTOR,
        gain_ns: waited_ns - waited_ns / MIN_BUCKET_RATE_FACTOR,
        total_ns: long_output.elapsed_ns,
        subject: "A rate limiter on the path".to_owned(),
        advice: format!(
            "a screenful passes at once, but a long output only at {} bit/s. Ask the network \
             operator for the configured rate, or keep transfers below the size of the token \
             bucket",
            count(rate)
        ),
    })
}

/// Minimum duration of a transfer for which the link is a cause, ns; shorter transfers are always
/// limited by the link.
const LONG_TRANSFER_NS: u64 = 1_000_000_000;

/// Returns the cost of the link.
pub(super) fn line(view: &View<'_>) -> Option<Cause> {
    if view.operation == Operation::Transfer && view.flow.elapsed_ns < LONG_TRANSFER_NS {
        return None;
    }
    let bytes = view.flow.bytes;
    if let Some(rate) = view.path.line_bps {
        let header = header_bytes(view.path);
        let packets = data_packets(view.flow, view.path)
            .or_else(|| Some(bytes.div_ceil(view.path.mss_bytes?.max(1))))
            .unwrap_or(1);
        let wire_bytes = bytes.saturating_add(header.saturating_mul(packets));
        let bits = view.path.line_bits_per_byte.unwrap_or(10);
        let line_ns = serial_ns(wire_bytes, rate).saturating_mul(bits) / 8;
        let advice =
            format!("the line runs at {} bit/s. Send less data, or use a faster line", count(rate));
        let subject = "The rate of the serial line";
        return Some(view.cause(CauseKind::LineRate, line_ns, subject, advice));
    }
    let rate = full_bps(view).or(view.burst_bps)?;
    let line_ns = serial_ns(bytes, rate);
    // At the rate of a link, the headers of a packet take at most one round trip. A lower rate is
    // that of a program that writes slowly.
    if observed_line_bps(view).is_none() && !has_full_segments(view) {
        let advice = format!(
            "it sends at {} bit/s, and the path carries more. Check the program and the load there",
            count(rate)
        );
        let is_incoming = view.flow.direction == Direction::Incoming;
        return (is_incoming && view.trip_ns.is_some()).then(|| {
            view.cause(CauseKind::RemoteHost, line_ns, "The remote program's slow output", advice)
        });
    }
    Some(link(view, rate))
}

/// Returns the time that a link of `rate_bps` takes for the flow, as a cause.
pub(super) fn link(view: &View<'_>, rate_bps: u64) -> Cause {
    let advice = format!(
        "it carries {} bit/s of data. Use a faster link, or send less data",
        count(rate_bps)
    );
    let line_ns = serial_ns(view.flow.bytes, rate_bps);
    view.cause(CauseKind::LineRate, line_ns, "The rate of the slowest link", advice)
}
