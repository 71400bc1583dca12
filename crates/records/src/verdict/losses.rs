//! Packets that are lost, late, or too long for the path.
//!
//! When a packet is lost, the receiver first sees data out of order, and then silence until the
//! retransmission. After duplicate acknowledgments the silence lasts about a round trip; otherwise
//! it lasts a timeout. If the last packet of a flow is lost, the receiver sees only the silence,
//! which counts as a loss only if the session had other losses.

use super::cause::{Cause, CauseKind, Operation};
use super::flow::{Direction, Flow, FlowCounts};
use super::flow_view::View;
use super::observation::{Echoes, Observation, Path};
use super::round_trip_waits::{INITIAL_SEGMENTS, largest_around, long_ns};
use super::traffic::{Stall, sum_ns};
use crate::format::{count, duration};
use crate::statistics;

/// Returns whether a packet of the flow was certainly lost.
pub(super) fn is_lossy(flow: &Flow) -> bool {
    let loss_count = match flow.direction {
        Direction::Outgoing => confirmed_losses(&flow.counts),
        // Retransmissions of the local host prove no loss here: on a slow link the segments may
        // only have been late.
        Direction::Incoming => flow.counts.out_of_order_in,
    };
    loss_count.is_some_and(|count| count > 0)
}

/// Returns the number of segments that the local host retransmitted, without spurious ones.
pub(super) fn confirmed_losses(counts: &FlowCounts) -> Option<u64> {
    let spurious = counts.duplicate_reports.unwrap_or(0);
    Some(counts.retransmissions?.saturating_sub(spurious))
}

/// Returns whether packets were lost while keys were typed one at a time, according to the local
/// TCP. A token bucket or a full queue drops no packets of such keys.
pub(super) fn is_lossy_while_typing(observed: &Observation) -> bool {
    let Some(Echoes { counts, .. }) = &observed.echo else { return false };
    let lost = confirmed_losses(counts).unwrap_or(0);
    lost.saturating_add(counts.out_of_order_in.unwrap_or(0)) > 0
}

/// Returns whether packets were lost in the session, according to the local TCP; `None` if there
/// are no counts.
pub(super) fn has_losses(observed: &Observation) -> Option<bool> {
    let flows = [&observed.screenful, &observed.screenful_delayed_ack].into_iter().flatten();
    let flows = flows.chain(&observed.transfers);
    let is_lossy_here = flows.clone().any(is_lossy);
    let echo = observed.echo.as_ref().map(|echo| &echo.counts);
    let counts = flows.map(|flow| &flow.counts).chain(echo);
    let confirmed_losses: Vec<u64> = counts.filter_map(confirmed_losses).collect();
    (!confirmed_losses.is_empty())
        .then_some(is_lossy_here || confirmed_losses.iter().any(|count| *count > 0))
}

/// An exchange was delayed if it takes this many times the usual time plus [`LATE_NS`].
const LATE_FACTOR: u64 = 2;
/// Minimum delay of an exchange that counts as delayed, ns; shorter delays are random.
const LATE_NS: u64 = 100_000_000;

/// Returns the duration above which an exchange that usually takes `usual_ns` was delayed, ns.
pub(super) const fn late_threshold_ns(usual_ns: u64) -> u64 {
    usual_ns.saturating_mul(LATE_FACTOR).saturating_add(LATE_NS)
}

/// Returns the delay of each of `times_ns`, ns; 0 if it was not delayed.
pub(super) fn lateness_ns(times_ns: &[u64]) -> Vec<u64> {
    let usual_ns = statistics::median(times_ns).unwrap_or(0);
    let late = |ns: &u64| if *ns > late_threshold_ns(usual_ns) { ns - usual_ns } else { 0 };
    times_ns.iter().map(late).collect()
}

/// Returns the average cost of lost packets per short exchange of the session, ns. The average is
/// used because losses are random, and a single one does not predict the next.
fn exchange_loss_ns(observed: &Observation) -> Option<u64> {
    let echo = observed.echo.as_ref();
    let answers = observed.answers.as_ref();
    let kinds = [
        echo.map(|echo| echo.without_own_wait_ns()),
        echo.map(|echo| echo.erasures_ns.clone()),
        answers.map(|answers| answers.quick_ack_ns.clone()),
        answers.map(|answers| answers.delayed_ack_ns.clone()),
    ];
    let late: Vec<u64> = kinds.into_iter().flatten().flat_map(|it| lateness_ns(&it)).collect();
    let sum = late.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
    (late.len() >= MIN_EXCHANGES).then(|| sum / u64::try_from(late.len()).unwrap_or(u64::MAX))
}

/// Minimum number of exchanges; with fewer, the average is not significant.
const MIN_EXCHANGES: usize = 20;

/// Returns the expected cost of lost packets for a flow that fits into one flight, ns; `None` if
/// the flow is longer, or if there were too few short exchanges for an estimate. An exchange has
/// two data packets.
pub(super) fn expected_cost_ns(observed: &Observation, flow: &Flow) -> Option<u64> {
    let mss = observed.path.mss_bytes.unwrap_or(Path::MIN_MSS).max(1);
    let packets = flow.bytes.div_ceil(mss);
    let expected_cost_ns =
        exchange_loss_ns(observed)?.saturating_mul(packets.saturating_add(1)) / 2;
    (packets <= INITIAL_SEGMENTS).then_some(expected_cost_ns)
}

/// Returns the data bytes of the packets that pass a path MTU black hole: longer packets of the
/// flow were dropped, and packets of this length arrived. `None` if the flow shows no black hole.
pub(super) fn black_hole_segment_bytes(view: &View<'_>) -> Option<u64> {
    let mss = view.path.mss_bytes?;
    if view.flow.direction == Direction::Outgoing {
        let [before, after] = view.flow.counts.mss_bytes?;
        return (after < before).then_some(after);
    }
    let long_ns = long_ns(view);
    let arrivals = &view.flow.arrivals;
    let first = arrivals.first()?;
    let stall = view.stalls.iter().find(|stall| stall.ns >= long_ns).map(|stall| stall.index);
    let is_first_arrival_late = first.at_ns.saturating_sub(view.trip_or_zero()) >= long_ns;
    let index = if is_first_arrival_late { 0 } else { stall? };
    let (before, after) = largest_around(view, index)?;
    // No long packet arrived before the wait, and no packet of the full length after it.
    let is_black_hole = before * 2 < mss && after * 100 < mss * 97 && after * 3 > mss;
    let same_size_count = arrivals.iter().filter(|arrival| arrival.bytes == after).count();
    // Data slightly longer than a segment arrives as one segment of the same length, and a
    // remainder.
    let has_two_arrivals = arrivals.len() == 2 && view.flow.bytes > mss;
    (is_black_hole && (has_two_arrivals || same_size_count * 2 > arrivals.len())).then_some(after)
}

/// Returns the cost of long packets that vanish: silence until the sender tries shorter ones.
pub(super) fn black_hole(view: &mut View<'_>) -> Option<Cause> {
    let arriving_bytes = view.black_hole_segment_bytes?;
    let mss = view.path.mss_bytes?;
    let long_ns = long_ns(view);
    let selected = view.select(|stall| stall.ns >= long_ns);
    // The first packet of the flow may already have been too long.
    let first = view.flow.arrivals.first()?;
    let first_ns = first.at_ns.saturating_sub(view.trip_or_zero());
    let gain_ns = sum_ns(&selected).saturating_add(first_ns);
    let advice = format!(
        "packets with {} bytes of data are dropped without an ICMP error, and those with {} \
         arrive. Allow ICMP \"packet too big\", or set the MTU to the size that the path carries",
        count(mss),
        count(arriving_bytes)
    );
    let subject = "A path MTU black hole";
    let cause = view.cause(CauseKind::PathMtuBlackHole, gain_ns, subject, advice);
    view.assign_stalls(cause, &selected)
}

/// Minimum number of reorderings; fewer may be coincidence.
const MIN_REORDERINGS: u64 = 2;

/// Returns whether data of a flow was late rather than lost: the sender detects reordering, and the
/// receiver sees late data arrive after its retransmission.
pub(super) fn is_reordered(view: &View<'_>) -> bool {
    let counts = &view.flow.counts;
    match view.flow.direction {
        Direction::Outgoing => {
            let reordering_events = counts.reorderings.max(counts.duplicate_reports).unwrap_or(0);
            let lost = confirmed_losses(&view.flow.counts);
            reordering_events >= MIN_REORDERINGS
                && lost.is_none_or(|lost| lost <= reordering_events)
        }
        Direction::Incoming => {
            let duplicates = counts.duplicates_in.unwrap_or(0);
            let is_round_trip =
                |stall: &Stall| stall.ns.saturating_mul(10) >= view.trip_or_zero() * 8;
            let round_trip_stalls =
                u64::try_from(view.select(is_round_trip).len()).unwrap_or(u64::MAX);
            duplicates >= MIN_REORDERINGS && duplicates.saturating_mul(2) >= round_trip_stalls
        }
    }
}

/// Returns the cost of reordering: early packets wait for late ones, and the sender may consider
/// the late ones lost.
///
/// If one flow of a session shows reordering, reordering applies to all flows of the session.
pub(super) fn reordering(view: &mut View<'_>) -> Option<Cause> {
    if !view.has_reordering {
        return None;
    }
    let counts = &view.flow.counts;
    let late = match view.flow.direction {
        Direction::Outgoing => counts.reorderings.max(counts.duplicate_reports),
        Direction::Incoming => counts.out_of_order_in,
    };
    let late = late.filter(|late| *late > 0)?;
    let selected = view.select(|_| true);
    let advice = format!(
        "{} packets were out of order. Check for parallel links that carry the packets of one flow \
         in turn",
        count(late)
    );
    let subject = "Reordering on the path";
    let cause = view.cause(CauseKind::Reordering, sum_ns(&selected), subject, advice);
    view.assign_stalls(cause, &selected)
}

/// Returns whether the request for an incoming flow, or the first packet of the flow, was
/// retransmitted. The signs are a retransmission by the local host, or packets that arrived out of
/// order.
pub(super) fn is_request_retransmitted(view: &View<'_>) -> bool {
    let counts = &view.flow.counts;
    let loss_counts = [counts.retransmissions, counts.out_of_order_in];
    view.has_losses && loss_counts.into_iter().flatten().any(|count| count > 0)
}

/// Returns the cost of a lost request, ns.
fn lost_request_ns(view: &View<'_>) -> u64 {
    let first = view.flow.arrivals.first().filter(|_| is_request_retransmitted(view));
    first.map_or(0, |first| first.at_ns.saturating_sub(view.trip_or_zero()))
}

/// Minimum wait that indicates a timeout, ns. On current hosts, timers expire 200 ms after the
/// round trip, and after twice that time for the second loss of a packet; on other hosts after one
/// second (RFC 6298).
pub(super) const TIMER_NS: u64 = 600_000_000;
/// A wait of this many round trips is a timeout in any case.
const TIMER_TRIPS: u64 = 6;

/// Returns the cost of losses, by their predominant kind of repair.
pub(super) fn loss(view: &mut View<'_>) -> Option<Cause> {
    // With reordering, the last packet of a flow may only have been late.
    let is_late_rather_than_lost = view.has_reordering && !is_lossy(view.flow);
    if !view.has_losses || view.black_hole_segment_bytes.is_some() || is_late_rather_than_lost {
        return None;
    }
    let long_ns = view.trip_or_zero().saturating_mul(TIMER_TRIPS).max(TIMER_NS);
    let selected = view.select(|_| true);
    let (long, short): (Vec<Stall>, Vec<Stall>) =
        selected.iter().partition(|stall| stall.ns >= long_ns);
    let mut long_waits_ns = sum_ns(&long);
    let mut short_waits_ns = sum_ns(&short);
    let request_ns = lost_request_ns(view);
    *(if request_ns >= long_ns { &mut long_waits_ns } else { &mut short_waits_ns }) += request_ns;
    let observed_waits_ns = long_waits_ns.saturating_add(short_waits_ns);
    let gain_ns = match view.expected_loss_ns.filter(|_| view.operation == Operation::Screenful) {
        Some(expected_cost_ns) => observed_waits_ns.min(expected_cost_ns),
        None => observed_waits_ns,
    };
    if long_waits_ns > short_waits_ns {
        let longest = long.iter().map(|stall| stall.ns).max().unwrap_or(request_ns);
        let timeouts = match long.len() {
            0 | 1 => "1 timeout of".to_owned(),
            timeouts => format!("{timeouts} timeouts of up to"),
        };
        let advice = format!(
            "{timeouts} {} passed before a retransmission. Find the link that drops packets; with \
             SACK and tail loss probes (RFC 8985) on both hosts a repair takes two round trips",
            duration(longest)
        );
        let subject = "Waiting for retransmission timeouts";
        let cause = view.cause(CauseKind::RetransmissionTimeouts, gain_ns, subject, advice);
        return view.assign_stalls(cause.clone(), &selected).or(Some(cause));
    }
    let counts = &view.flow.counts;
    let evidence =
        match (confirmed_losses(&view.flow.counts).filter(|lost| *lost > 0), counts.segments_out) {
            (Some(lost), Some(sent)) => {
                format!("{} of {} sent segments were lost", count(lost), count(sent))
            }
            (Some(lost), None) => format!("{} sent segments were lost", count(lost)),
            (None, _) => "segments of the remote host were lost".to_owned(),
        };
    let advice = format!(
        "{evidence}. Check the links of the path for errors, and for buffers that are too small"
    );
    let cause = view.cause(CauseKind::Loss, gain_ns, "Packet loss", advice);
    view.assign_stalls(cause.clone(), &selected).or(Some(cause))
}
