//! Packets that are lost, late or too long for the way.
//!
//! Who receives sees a loss as data out of order, and then silence until it was sent again: about
//! a round trip where the sender was told by duplicate acknowledgments, the time of a timer where
//! not. The last packet of a flow leaves no mark but the silence; that is taken for a loss only if
//! there were others in the session.

use super::cause::{Cause, Kind};
use super::flows::{View, lost_request_ns, sum_ns};
use super::observation::{Direction, Flow, FlowCounts};
use super::traffic::Stall;
use super::waits::{largest_around, long_ns};
use crate::figures::{count, duration};

/// Returns whether something of a flow was lost for certain.
pub(super) fn is_lossy(flow: &Flow) -> bool {
    let mark = match flow.direction {
        Direction::Outgoing => really_lost(&flow.counts),
        // What this side sends again on a slow line may only have been late.
        Direction::Incoming => flow.counts.out_of_order_in,
    };
    mark.is_some_and(|count| count > 0)
}

/// Returns segments that this side sent again, without those that had come after all.
pub(super) fn really_lost(counts: &FlowCounts) -> Option<u64> {
    let needless = counts.duplicate_reports.unwrap_or(0);
    Some(counts.retransmissions?.saturating_sub(needless))
}

/// Returns the data bytes of the packets that come after longer ones have vanished in a flow.
pub(super) fn hole(view: &View<'_>) -> Option<u64> {
    let mss = view.path.mss_bytes?;
    if view.flow.direction == Direction::Outgoing {
        let [before, after] = view.flow.counts.mss_bytes?;
        return (after < before).then_some(after);
    }
    let long_ns = long_ns(view);
    let arrivals = &view.flow.arrivals;
    let first = arrivals.first()?;
    let stall = view.stalls.iter().find(|stall| stall.ns >= long_ns).map(|stall| stall.index);
    let waited = first.at_ns.saturating_sub(view.trip_or_zero()) >= long_ns;
    let index = if waited { 0 } else { stall? };
    let (before, after) = largest_around(view, index)?;
    // Nothing long has come before, and nothing as long as it might be ever after.
    let is_hole = before * 2 < mss && after * 100 < mss * 97 && after * 3 > mss;
    let alike = arrivals.iter().filter(|arrival| arrival.bytes == after).count();
    // What is little more than a segment comes in one that is as long, and its rest.
    let is_pair = arrivals.len() == 2 && view.flow.bytes > mss;
    (is_hole && (is_pair || alike * 2 > arrivals.len())).then_some(after)
}

/// Returns what long packets cost that vanish: silence until the sender tries shorter ones.
pub(super) fn black_hole(view: &mut View<'_>) -> Option<Cause> {
    let shorter = view.hole?;
    let mss = view.path.mss_bytes?;
    let long_ns = long_ns(view);
    let taken = view.select(|stall| stall.ns >= long_ns);
    // The very first packet may have been too long.
    let first = view.flow.arrivals.first()?;
    let first_ns = first.at_ns.saturating_sub(view.trip_or_zero());
    let gain_ns = sum_ns(&taken).saturating_add(first_ns);
    let advice = format!(
        "packets with {} bytes of data vanish without a word, and those with {} arrive: let ICMP \
         through, or set the MTU to what the way carries",
        count(mss),
        count(shorter)
    );
    let subject = "A hole in the way for long packets";
    let cause = view.cause(Kind::PathMtuBlackHole, gain_ns, subject, advice);
    view.settle(cause, &taken)
}

/// Fewer than this may be chance.
const FEWEST_REORDERINGS: u64 = 2;

/// Returns whether data of a flow was late rather than lost: a sender sees that it was overtaken,
/// and who receives sees late data come after it was sent again.
pub(super) fn is_reordered(view: &View<'_>) -> bool {
    let counts = &view.flow.counts;
    match view.flow.direction {
        Direction::Outgoing => {
            let seen = counts.reorderings.max(counts.duplicate_reports).unwrap_or(0);
            let lost = really_lost(&view.flow.counts);
            seen >= FEWEST_REORDERINGS && lost.is_none_or(|lost| lost <= seen)
        }
        Direction::Incoming => {
            let twice = counts.duplicates_in.unwrap_or(0);
            let of_a_trip = |stall: &Stall| stall.ns.saturating_mul(10) >= view.trip_or_zero() * 8;
            let repairs = u64::try_from(view.select(of_a_trip).len()).unwrap_or(u64::MAX);
            twice >= FEWEST_REORDERINGS && twice.saturating_mul(2) >= repairs
        }
    }
}

/// Returns what it costs that packets overtake each other: what came too early waits for what is
/// late, and the sender may take it for lost.
///
/// Where one flow of a session shows it, it is what all of them meet.
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
    let taken = view.select(|_| true);
    let advice = format!(
        "{} packets met others out of their order: look for links in parallel that take packets by \
         turns",
        count(late)
    );
    let subject = "Disorder on the way";
    let cause = view.cause(Kind::Reordering, sum_ns(&taken), subject, advice);
    view.settle(cause, &taken)
}

/// The timers of hosts of today run out 200 ms after the round trip, and twice that after the
/// second loss of the same; those of others after a second (RFC 6298).
pub(super) const TIMER_NS: u64 = 600_000_000;
/// A wait of so many round trips is that of a timer at any rate.
const TIMER_TRIPS: u64 = 6;

/// Returns what losses cost, by how they were mended for the most part.
pub(super) fn loss(view: &mut View<'_>) -> Option<Cause> {
    // Where packets overtake each other, the last of a flow may only have been late.
    let is_late_alone = view.has_reordering && !is_lossy(view.flow);
    if !view.has_losses || view.hole.is_some() || is_late_alone {
        return None;
    }
    let long_ns = view.trip_or_zero().saturating_mul(TIMER_TRIPS).max(TIMER_NS);
    let taken = view.select(|_| true);
    let (long, short): (Vec<Stall>, Vec<Stall>) =
        taken.iter().partition(|stall| stall.ns >= long_ns);
    let (mut long_sum, mut short_sum) = (sum_ns(&long), sum_ns(&short));
    let request_ns = lost_request_ns(view);
    *(if request_ns >= long_ns { &mut long_sum } else { &mut short_sum }) += request_ns;
    if long_sum > short_sum {
        let longest = long.iter().map(|stall| stall.ns).max().unwrap_or(request_ns);
        let advice = format!(
            "{} times a timer had to run out, the longest {}: selective acknowledgments and probes \
             of the tail (RFC 8985) on both sides would mend a loss in two round trips; and look for \
             what loses packets",
            long.len().max(1),
            duration(longest)
        );
        let gain_ns = long_sum.saturating_add(short_sum);
        let subject = "Waiting for retransmission timers";
        let cause = view.cause(Kind::RetransmissionTimeouts, gain_ns, subject, advice);
        return view.settle(cause, &taken);
    }
    let counts = &view.flow.counts;
    let what = match (really_lost(&view.flow.counts).filter(|lost| *lost > 0), counts.segments_out)
    {
        (Some(lost), Some(sent)) => {
            format!("{} of {} segments were lost", count(lost), count(sent))
        }
        (Some(lost), None) => format!("{} segments were lost", count(lost)),
        (None, _) => "segments of the far side were lost".to_owned(),
    };
    let advice =
        format!("{what}: look at the errors of the links, and at queues that are too short");
    let cause = view.cause(Kind::Loss, short_sum.saturating_add(long_sum), "Loss", advice);
    view.settle(cause, &taken)
}
