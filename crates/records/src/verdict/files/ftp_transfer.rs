//! Causes of waiting in one FTP transfer.
//!
//! Each step before the first byte and after the last byte is charged with its time beyond its
//! round trips. The time of the data beyond slow start and the slowest link is charged to a single
//! cause, whose symptoms must be present and whose alternatives must be excluded.

use super::lost_segments::has_losses;
use super::observed::{FileSession, FileTransfer};
use super::opening::can_path_delay;
use super::transfer_view::View;
use super::{data, limits, policer, reply_delays};
use crate::format::{count, duration};
use crate::verdict::Direction;
use crate::verdict::cause::{Cause, CauseKind};

/// If the local host waited for a processor for at least the time of a transfer divided by this
/// number, this wait hides all other causes.
const MIN_STARVED_DIVISOR: u64 = 3;
/// Minimum wait for a processor that is a cause, ns.
const MIN_STARVED_NS: u64 = 250_000_000;
/// Minimum unexplained time that is reported, ns.
const MIN_UNKNOWN_NS: u64 = 500_000_000;

/// Returns the causes of the duration of `transfer`.
pub(super) fn causes(session: &FileSession, transfer: &FileTransfer, trip: u64) -> Vec<Cause> {
    let view = View::of(session, transfer, trip);
    let processor = processor(&view);
    if processor.cost_ns > 0 && processor.cost_ns >= transfer.total_ns / MIN_STARVED_DIVISOR {
        return vec![processor];
    }
    let mut causes = steps(&view);
    let steps_cost_ns = causes.iter().fold(0_u64, |sum, cause| sum.saturating_add(cause.cost_ns));
    let mut data_causes = data::causes(&view);
    data_causes.retain(Cause::stands_out);
    let has_data_cause = data_causes.iter().any(|cause| !cause.kind.is_limit());
    let data_ns = data_causes.iter().map(|cause| cause.cost_ns).max().unwrap_or(0);
    causes.append(&mut data_causes);
    causes.extend(limits::distance(&view, has_data_cause));
    // Time explained by slow start, the link and the round trips is also known.
    let known_ns = trips_ns(&view)
        .saturating_add(steps_cost_ns)
        .saturating_add(data_ns.max(view.shape.min_ns(trip)).max(trip_bound_ns(&view)));
    causes.extend(unknown(&view, known_ns));
    causes.push(processor);
    causes
}

/// Returns the costs of loss and reordering in `transfer`, which is not the largest transfer.
pub(super) fn occasional_causes(
    session: &FileSession,
    transfer: &FileTransfer,
    trip: u64,
) -> Vec<Cause> {
    let is_occasional =
        |cause: &Cause| matches!(cause.kind, CauseKind::Loss | CauseKind::Reordering);
    causes(session, transfer, trip).into_iter().filter(is_occasional).collect()
}

/// Returns the time of the data if only round trips delayed the data, ns.
fn trip_bound_ns(view: &View<'_>) -> u64 {
    let trip = view.trip;
    let is_round_trip = |ns: u64| ns <= trip.saturating_add(trip / 4);
    let pauses = view.shape.pauses.iter().filter(|pause| is_round_trip(pause.ns));
    let pauses_ns = pauses.fold(0_u64, |sum, pause| sum.saturating_add(pause.ns));
    pauses_ns.saturating_add(view.shape.line_ns())
}

/// Returns the total round-trip time of the transfer's steps, ns.
fn trips_ns(view: &View<'_>) -> u64 {
    view.trip.saturating_mul(view.steps.trips.saturating_add(1))
}

fn processor(view: &View<'_>) -> Cause {
    // Waits of several threads add up, so small values are not significant. Removing the waits does
    // not save the round trips.
    let waited_ns = view.transfer.own_wait_ns.unwrap_or(0);
    let beyond_trips_ns = view.transfer.total_ns.saturating_sub(trips_ns(view));
    let ns = if waited_ns >= MIN_STARVED_NS { waited_ns.min(beyond_trips_ns) } else { 0 };
    let advice = "plumb waited that long in the run queue of a processor. Stop other processes on \
                  this host, and measure again"
        .to_owned();
    view.cause(CauseKind::LocalProcessor, (ns, ns), "This host's busy processor", advice)
}

/// Returns the unexplained time as a cause, if it is at least half of the transfer.
fn unknown(view: &View<'_>, known_ns: u64) -> Option<Cause> {
    let left_ns = view.transfer.total_ns.saturating_sub(known_ns);
    if view.is_lossy || view.is_disordered || has_losses(view.transfer) {
        return None;
    }
    if left_ns < MIN_UNKNOWN_NS || left_ns < view.transfer.total_ns / 2 {
        return None;
    }
    let largest = match view.shape.pauses.iter().max_by_key(|pause| pause.ns) {
        Some(pause) if pause.ns >= left_ns / 4 => {
            format!("the longest gap in the data is {}", duration(pause.ns))
        }
        _ => format!("the data takes {}", duration(view.shape.span_ns)),
    };
    let advice = format!(
        "{largest}, and neither the round-trip time of {}, nor loss, windows or a reply explains \
         it. Measure again with packet captures on both hosts, and check the load of the server",
        duration(view.trip)
    );
    Some(view.cause(CauseKind::Unknown, (left_ns, left_ns), "An unknown cause", advice))
}

/// Returns the causes that delay the steps of the transfer before and after its data.
fn steps(view: &View<'_>) -> Vec<Cause> {
    let steps = &view.steps;
    let trip = duration(view.trip);
    let mut causes = Vec::new();
    let mut add = |kind, ns: u64, subject: &str, advice: String| {
        causes.push(view.cause(kind, (ns, ns), subject, advice));
    };
    if let Some((verb, ns)) = &steps.command {
        let advice = format!(
            "it arrived that much later than one round trip of {trip}. Check the load there, and \
             the firewall or proxy that opens the data port"
        );
        add(CauseKind::SlowCommand, *ns, &format!("The server's slow reply to {verb}"), advice);
    }
    if steps.connection_ns >= SYN_TIMEOUT_NS {
        let advice = format!(
            "the first packet of the data connection was retransmitted after a timeout, and the \
             round-trip time is only {trip}. Check the links of the path for errors, and for a \
             firewall that opens the port late"
        );
        add(CauseKind::LostSyn, steps.connection_ns, "A lost SYN", advice);
    }
    let verb = view.verb();
    let advice = format!(
        "the preliminary reply (150) arrived that much later than one round trip of {trip}. Check \
         how the server finds and opens the file"
    );
    let subject = format!("The server's slow reply to {verb}");
    add(CauseKind::SlowFirstByte, steps.preliminary_ns, &subject, advice);
    let advice = format!(
        "the data began that much later than {verb} and the data connection require at a \
         round-trip time of {trip}. Check how the server finds and opens the file, and its load"
    );
    add(CauseKind::SlowFirstByte, steps.first_byte_ns, "The server's late first byte", advice);
    causes.extend(last_reply(view));
    causes.into_iter().map(|cause| attributed_to_path(view, cause)).collect()
}

/// Minimum time after which a lost packet of the control connection is retransmitted (Linux), ns.
const REPAIR_NS: u64 = 190_000_000;

/// Returns whether a step that is late by `ns` in one transfer may have waited for a packet. This
/// is possible if packets of the session are lost or reordered in general. It is also possible if
/// the delay is as long as a retransmission timer, and a transfer has losses that are not due to a
/// full queue.
fn can_be_path_delay(view: &View<'_>, ns: u64) -> bool {
    let is_lost_elsewhere = view.session.transfers.iter().any(has_losses)
        && !policer::fills_queue(view)
        && ns >= REPAIR_NS;
    view.is_lossy || view.is_disordered || is_lost_elsewhere
}

/// A SYN is retransmitted after one second (RFC 6298 section 2.1).
const SYN_TIMEOUT_NS: u64 = 950_000_000;
/// If the delay of the last reply is at least this many times as long as for a smaller upload, it
/// is the time to store the file.
const MIN_GROWTH_FACTOR: u64 = 2;

/// Returns the cost of the last reply, or of the program that still stores acknowledged data.
fn last_reply(view: &View<'_>) -> Option<Cause> {
    let ns = view.steps.last_reply_ns;
    let others = view.session.transfers.iter().filter(|other| {
        other.direction == view.transfer.direction && other.bytes < view.transfer.bytes
    });
    let smaller = others.max_by_key(|other| other.bytes);
    let smaller_ns = smaller.map(|other| reply_delays::steps(other, view.trip, 0).last_reply_ns);
    let is_stored = view.transfer.direction == Direction::Outgoing
        && smaller_ns.is_some_and(|smaller| smaller.saturating_mul(MIN_GROWTH_FACTOR) <= ns)
        && !view.is_lossy;
    if is_stored {
        let advice = format!(
            "it confirms {} bytes only this long after its TCP acknowledged them, and smaller files \
             sooner. Check the disk there and the program that stores the file",
            count(view.transfer.bytes)
        );
        let subject = "The slow reader on the server (program or disk)";
        return Some(view.cause(CauseKind::SlowReader, (ns, ns), subject, advice));
    }
    let advice = format!(
        "it arrived that much later than the end of the data and one round trip of {}. Check what \
         the server does after a transfer (fsync, log, virus scan, quota)",
        duration(view.trip)
    );
    Some(view.cause(CauseKind::LateLastReply, (ns, ns), "The server's last reply (226)", advice))
}

/// Returns `cause`, a slow step, as the effect of packet loss or reordering if these can explain
/// the delay. If most other transfers have the same delay, returns `cause` unchanged, because the
/// path delays packets only occasionally.
fn attributed_to_path(view: &View<'_>, cause: Cause) -> Cause {
    let (kind, subject) = match view.is_disordered {
        true => (CauseKind::Reordering, "Reordering on the path"),
        false => (CauseKind::Loss, "Packet loss"),
    };
    let is_step = cause.kind != CauseKind::SlowReader && can_be_path_delay(view, cause.cost_ns);
    if !is_step || !can_path_delay(kind, cause.cost_ns) || is_delay_usual(view, &cause) {
        return cause;
    }
    let advice = format!(
        "a packet of the control connection, or the first packet of the data, arrived {} late. \
         Find the link that loses or delays packets",
        duration(cause.cost_ns)
    );
    Cause { kind, subject: subject.to_owned(), advice, ..cause }
}

/// Returns whether the step that `cause` blames was late in most other transfers of the session in
/// the same direction, by at least half of the cost of `cause`.
fn is_delay_usual(view: &View<'_>, cause: &Cause) -> bool {
    let candidates = view.session.transfers.iter().filter(|other| {
        other.direction == view.transfer.direction && !std::ptr::eq(*other, view.transfer)
    });
    let delays_ns = candidates.map(|other| {
        let steps = reply_delays::steps(other, view.trip, 0);
        match cause.kind {
            CauseKind::SlowCommand => steps.command.map_or(0, |(_, ns)| ns),
            CauseKind::LostSyn => steps.connection_ns,
            CauseKind::LateLastReply | CauseKind::SlowReader => steps.last_reply_ns,
            _ => steps.preliminary_ns.max(steps.first_byte_ns),
        }
    });
    let delays_ns: Vec<u64> = delays_ns.collect();
    let similar_count = delays_ns.iter().filter(|ns| **ns >= cause.cost_ns / 2).count();
    // If there are no other transfers, assume that the step is always late.
    delays_ns.is_empty() || similar_count * 2 > delays_ns.len()
}
