//! Packets that are lost, late or too long for the way.
//!
//! Who receives sees a loss as data out of order, and then silence until it was sent again: about
//! a round trip where the sender was told by duplicate acknowledgments, the time of a timer where
//! not. The last packet of a flow leaves no mark but the silence; that is taken for a loss only if
//! there were others in the session.

use super::cause::{Cause, Kind};
use super::flows::{View, sum_ns};
use super::observation::{Direction, Flow};
use super::waits::{largest_around, long_ns};
use crate::figures::{count, duration};

/// Returns whether something of a flow was lost for certain.
pub(super) fn is_lossy(flow: &Flow) -> bool {
    let counts = &flow.counts;
    let known = [counts.out_of_order_in, counts.timeouts, really_lost(flow)];
    known.into_iter().flatten().any(|count| count > 0)
}

/// Returns segments that this side sent again, without those that had come after all.
fn really_lost(flow: &Flow) -> Option<u64> {
    let needless = flow.counts.duplicate_reports.unwrap_or(0);
    Some(flow.counts.retransmissions?.saturating_sub(needless))
}

/// Returns what long packets cost that vanish: silence until the sender tries shorter ones.
pub(super) fn black_hole(view: &mut View<'_>) -> Option<Cause> {
    let subject = "A hole in the way for long packets";
    let long_ns = long_ns(view);
    let mss = view.path.mss_bytes?;
    let shorter = match view.flow.direction {
        Direction::Outgoing => {
            let [before, after] = view.flow.counts.mss_bytes?;
            (after < before).then_some(after)?
        }
        Direction::Incoming => {
            let first = view.stalls.iter().find(|stall| stall.ns >= long_ns)?;
            let (before, after) = largest_around(view, first.index)?;
            // Nothing long has come before, and nothing as long as it might be ever after.
            let is_hole = before * 2 < mss && after * 100 < mss * 97 && after * 3 > mss;
            let is_repeated =
                view.flow.arrivals.iter().filter(|arrival| arrival.bytes == after).count();
            (is_hole && is_repeated > 1).then_some(after)?
        }
    };
    let taken = view.take(|stall| stall.ns >= long_ns);
    let mut gain_ns = sum_ns(&taken);
    if view.flow.direction == Direction::Outgoing
        && let Some(first) = view.flow.arrivals.first()
    {
        // The very first packet may have been too long.
        gain_ns = gain_ns.saturating_add(first.at_ns.saturating_sub(view.trip_or_zero()));
    }
    let advice = format!(
        "packets with {} bytes of data vanish without a word, and those with {} arrive: let ICMP \
         through, or set the MTU to what the way carries",
        count(mss),
        count(shorter)
    );
    Some(view.cause(Kind::PathMtuBlackHole, gain_ns, subject, advice))
}

/// Of the packets that seem lost, so many parts of ten were only late if the way reorders.
const MOSTLY_TENTHS: u64 = 7;

/// Returns what it costs that packets overtake each other: the sender takes late ones for lost, and
/// slows down.
pub(super) fn reordering(view: &mut View<'_>) -> Option<Cause> {
    let counts = &view.flow.counts;
    let trip_ns = view.trip_ns?;
    let (late, of_all) = match view.flow.direction {
        Direction::Outgoing => {
            let again = counts.retransmissions.filter(|again| *again > 0)?;
            let needless = counts.duplicate_reports?;
            (needless * 10 >= again * MOSTLY_TENTHS).then_some((needless, again))?
        }
        Direction::Incoming => {
            let disordered = counts.out_of_order_in.filter(|count| *count > 0)?;
            // What is lost comes a round trip later at the earliest; what is late comes before.
            let repairs = view.stalls.iter().filter(|stall| stall.ns * 10 >= trip_ns * 8).count();
            let repairs = u64::try_from(repairs).unwrap_or(u64::MAX);
            let twice = counts.duplicates_in.unwrap_or(0);
            let is_late = repairs * 10 < disordered || twice * 10 >= disordered * MOSTLY_TENTHS;
            is_late.then_some((disordered, disordered))?
        }
    };
    let taken = view.take(|_| true);
    let advice = format!(
        "{} of {} packets that seemed lost came after all: look for links in parallel that take \
         packets by turns",
        count(late),
        count(of_all)
    );
    Some(view.cause(Kind::Reordering, sum_ns(&taken), "Packets that overtake each other", advice))
}

/// Returns what losses cost, by how they were mended for the most part.
pub(super) fn loss(view: &mut View<'_>) -> Option<Cause> {
    if !view.has_losses {
        return None;
    }
    let long_ns = long_ns(view);
    let (long, short): (Vec<_>, Vec<_>) =
        view.take(|_| true).into_iter().partition(|stall| stall.ns >= long_ns);
    let (long_sum, short_sum) = (sum_ns(&long), sum_ns(&short));
    if long_sum > short_sum {
        let longest = long.iter().map(|stall| stall.ns).max().unwrap_or(0);
        let advice = format!(
            "{} times a timer had to run out, the longest {}: selective acknowledgments and probes \
             of the tail (RFC 8985) on both sides would mend a loss in two round trips; and look for \
             what loses packets",
            long.len(),
            duration(longest)
        );
        let gain_ns = long_sum.saturating_add(short_sum);
        let subject = "Waiting for retransmission timers";
        return Some(view.cause(Kind::RetransmissionTimeouts, gain_ns, subject, advice));
    }
    let counts = &view.flow.counts;
    let what = match (really_lost(view.flow).filter(|lost| *lost > 0), counts.segments_out) {
        (Some(lost), Some(sent)) => {
            format!("{} of {} segments were lost", count(lost), count(sent))
        }
        (Some(lost), None) => format!("{} segments were lost", count(lost)),
        (None, _) => "segments of the far side were lost".to_owned(),
    };
    let advice =
        format!("{what}: look at the errors of the links, and at queues that are too short");
    Some(view.cause(Kind::Loss, short_sum.saturating_add(long_sum), "Loss", advice))
}
