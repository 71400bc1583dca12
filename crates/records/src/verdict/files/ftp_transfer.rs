//! Causes of waiting in one FTP transfer.
//!
//! The steps before the first byte and after the last one are charged with their time beyond their
//! round trips. The time of the data in between beyond slow start and the slowest link is charged
//! to a single cause: the one whose symptoms are present and whose alternatives are excluded.

use super::observed::{FileSession, FileTransfer};
use super::opening::{FAR_AWAY_NS, is_of_the_path};
use super::shape::Shape;
use super::waits::{self, Steps};
use super::{data, limits, policer};
use crate::figures::{count, duration};
use crate::verdict::Direction;
use crate::verdict::cause::{Cause, Kind, Whole};
use crate::verdict::traffic::serial_ns;

/// A transfer under analysis.
pub(super) struct View<'a> {
    pub(super) session: &'a FileSession,
    pub(super) transfer: &'a FileTransfer,
    pub(super) trip: u64,
    pub(super) shape: Shape,
    pub(super) steps: Steps,
    /// Packets of the session were lost.
    pub(super) is_lossy: bool,
    /// Packets of the session were reordered.
    pub(super) is_disordered: bool,
}

impl<'a> View<'a> {
    /// Prepares `transfer` of `session` over a path of `trip` ns.
    pub(super) fn of(session: &'a FileSession, transfer: &'a FileTransfer, trip: u64) -> Self {
        let shape = Shape::of(transfer, trip);
        let steps = waits::steps(transfer, trip, first_line_ns(transfer, &shape));
        let of_path = data::of_path(session, trip);
        let is_lossy = of_path == Some(Kind::Loss);
        let is_disordered = of_path == Some(Kind::Reordering);
        Self { session, transfer, trip, shape, steps, is_lossy, is_disordered }
    }

    /// Makes a cause that costs `cost_ns`, and whose removal would save `gain_ns`.
    pub(super) fn cause(
        &self,
        kind: Kind,
        (cost_ns, gain_ns): (u64, u64),
        subject: &str,
        advice: String,
    ) -> Cause {
        let total_ns = self.transfer.total_ns;
        let cost_ns = cost_ns.min(total_ns);
        Cause {
            kind,
            of: Whole::Transfer,
            cost_ns,
            gain_ns: gain_ns.min(cost_ns),
            total_ns,
            subject: subject.to_owned(),
            advice,
        }
    }

    /// Returns the time of the data beyond slow start and the slowest link, ns.
    pub(super) fn excess_ns(&self) -> u64 {
        self.shape.span_ns.saturating_sub(self.shape.least_ns(self.trip))
    }

    /// Returns the command that starts the transfer.
    fn verb(&self) -> &'static str {
        match self.transfer.direction {
            Direction::Incoming => "RETR",
            Direction::Outgoing => "STOR",
        }
    }
}

fn first_line_ns(transfer: &FileTransfer, shape: &Shape) -> u64 {
    let first = transfer.arrivals.first().map_or(0, |first| first.bytes.min(shape.mss));
    shape.line_bps.map_or(0, |rate| serial_ns(first, rate))
}

/// If the local host waited for a processor for at least this fraction of a transfer, that hides
/// all other causes.
const STARVED_ONE_IN: u64 = 3;
/// A shorter wait for a processor is no cause, ns.
const LEAST_STARVED_NS: u64 = 250_000_000;
/// Minimum unexplained time that is reported, ns.
const LEAST_UNKNOWN_NS: u64 = 500_000_000;

/// Returns the causes of the duration of `transfer`.
pub(super) fn causes(session: &FileSession, transfer: &FileTransfer, trip: u64) -> Vec<Cause> {
    let view = View::of(session, transfer, trip);
    let processor = processor(&view);
    if processor.cost_ns > 0 && processor.cost_ns >= transfer.total_ns / STARVED_ONE_IN {
        return vec![processor];
    }
    let mut found = steps(&view);
    let of_steps = found.iter().fold(0_u64, |sum, cause| sum.saturating_add(cause.cost_ns));
    let mut of_data = data::causes(&view);
    of_data.retain(Cause::stands_out);
    let has_data_cause = of_data.iter().any(|cause| !cause.kind.is_limit());
    let data_ns = of_data.iter().map(|cause| cause.cost_ns).max().unwrap_or(0);
    found.append(&mut of_data);
    found.extend(limits::distance(&view, has_data_cause));
    // Time explained by slow start, the link and the round trips is also known.
    let known_ns = trips_ns(&view)
        .saturating_add(of_steps)
        .saturating_add(data_ns.max(view.shape.least_ns(trip)).max(trip_bound_ns(&view)));
    found.extend(unknown(&view, known_ns));
    found.push(processor);
    found
}

/// Returns the cost of loss and reordering in a transfer that is not the largest.
pub(super) fn by_chance(session: &FileSession, transfer: &FileTransfer, trip: u64) -> Vec<Cause> {
    let is_of_chance = |cause: &Cause| matches!(cause.kind, Kind::Loss | Kind::Reordering);
    causes(session, transfer, trip).into_iter().filter(is_of_chance).collect()
}

/// Returns the time of the data if only round trips delay it, ns.
fn trip_bound_ns(view: &View<'_>) -> u64 {
    let trip = view.trip;
    let of_a_trip = |ns: u64| ns <= trip.saturating_add(trip / 4);
    let pauses = view.shape.pauses.iter().filter(|pause| of_a_trip(pause.ns));
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
    let ns = if waited_ns >= LEAST_STARVED_NS { waited_ns.min(beyond_trips_ns) } else { 0 };
    let advice = "this program waited so long in the run queue for a processor: look at what else \
                  runs here, and measure again without it"
        .to_owned();
    view.cause(Kind::OwnProcessor, (ns, ns), "This host's busy processor", advice)
}

/// Returns the unexplained time as a cause, if it is at least half of the transfer.
fn unknown(view: &View<'_>, known_ns: u64) -> Option<Cause> {
    let left_ns = view.transfer.total_ns.saturating_sub(known_ns);
    if view.is_lossy || view.is_disordered || data::has_losses(view.transfer) {
        return None;
    }
    if left_ns < LEAST_UNKNOWN_NS || left_ns < view.transfer.total_ns / 2 {
        return None;
    }
    let largest = match view.shape.pauses.iter().max_by_key(|pause| pause.ns) {
        Some(pause) if pause.ns >= left_ns / 4 => {
            format!("the longest silence of the data takes {}", duration(pause.ns))
        }
        _ => format!("the data takes {}", duration(view.shape.span_ns)),
    };
    let advice = format!(
        "{largest}, and neither the round trip of {}, nor loss, windows or a reply explains it: \
         measure again, with a packet capture on both sides, and look at the load of the server",
        duration(view.trip)
    );
    Some(view.cause(Kind::Unknown, (left_ns, left_ns), "An unknown cause", advice))
}

/// Returns the costs of the steps before and after the data.
fn steps(view: &View<'_>) -> Vec<Cause> {
    let (steps, trip) = (&view.steps, duration(view.trip));
    let mut found = Vec::new();
    let mut add = |kind, ns: u64, subject: &str, advice: String| {
        found.push(view.cause(kind, (ns, ns), subject, advice));
    };
    if let Some((verb, ns)) = &steps.command {
        let advice = format!(
            "it comes so much later than a round trip of {trip}: look there at the load, and at what \
             opens the data port (firewall, proxy)"
        );
        add(Kind::SlowCommand, *ns, &format!("The server's slow answer to {verb}"), advice);
    }
    if steps.connection_ns >= SYN_TIMEOUT_NS {
        let advice = format!(
            "the first packet of the data connection was sent again after a timeout, where the round \
             trip takes {trip}: look for loss on the path, or for a firewall that opens the port late"
        );
        add(Kind::LostSyn, steps.connection_ns, "A lost SYN", advice);
    }
    let verb = view.verb();
    let advice = format!(
        "the preliminary reply (150) came so much later than the round trip of {trip}: look there at \
         how the file is found and opened"
    );
    let subject = format!("The server's slow answer to {verb}");
    add(Kind::SlowFirstByte, steps.preliminary_ns, &subject, advice);
    let advice = format!(
        "the data began so much later than {verb} and the data connection need with a round trip of \
         {trip}: look there at how the file is found and opened, and at the load"
    );
    add(Kind::SlowFirstByte, steps.first_byte_ns, "The server's late first byte", advice);
    found.extend(last_reply(view));
    found.into_iter().map(|cause| by_the_path(view, cause)).collect()
}

/// Minimum time after which a lost packet of the control connection is retransmitted (Linux), ns.
const REPAIR_NS: u64 = 190_000_000;

/// Returns whether a step that is late by `ns` in one transfer may have waited for a packet: in a
/// session that loses or delays packets everywhere, or for a timer if there are losses not due to a
/// full queue.
fn may_be_of_the_path(view: &View<'_>, ns: u64) -> bool {
    let is_lost_elsewhere = view.session.transfers.iter().any(data::has_losses)
        && !policer::fills_queue(view)
        && ns >= REPAIR_NS;
    view.is_lossy || view.is_disordered || is_lost_elsewhere
}

/// A SYN is retransmitted after one second (RFC 6298 section 2.1).
const SYN_TIMEOUT_NS: u64 = 950_000_000;
/// If the delay of an upload's last reply grows by this factor with the file, it is the time to
/// store the file.
const GROWS_TIMES: u64 = 2;

/// Returns the cost of the last reply, or of the program that still stores acknowledged data.
fn last_reply(view: &View<'_>) -> Option<Cause> {
    let ns = view.steps.last_reply_ns;
    let others = view.session.transfers.iter().filter(|other| {
        other.direction == view.transfer.direction && other.bytes < view.transfer.bytes
    });
    let smaller = others.max_by_key(|other| other.bytes);
    let smaller_ns = smaller.map(|other| waits::steps(other, view.trip, 0).last_reply_ns);
    let is_stored = view.transfer.direction == Direction::Outgoing
        && smaller_ns.is_some_and(|smaller| smaller.saturating_mul(GROWS_TIMES) <= ns)
        && !view.is_lossy;
    if is_stored {
        let advice = format!(
            "it confirms {} bytes so long after TCP there has acknowledged them, and smaller files \
             sooner: look there at the disk and at the program that stores them",
            count(view.transfer.bytes)
        );
        let subject = "The slow reader at the server (program or disk)";
        return Some(view.cause(Kind::SlowReader, (ns, ns), subject, advice));
    }
    let advice = format!(
        "226 came so much later than the end of the data and a round trip of {}: look there at what \
         follows a transfer (fsync, log, virus scan, quota)",
        duration(view.trip)
    );
    Some(view.cause(Kind::LateLastReply, (ns, ns), "The server's last reply (226)", advice))
}

/// Attributes the cost of a step to the path if packets are lost or late, unless most transfers
/// have that cost.
fn by_the_path(view: &View<'_>, cause: Cause) -> Cause {
    let (kind, subject) = match view.is_disordered {
        true => (Kind::Reordering, "Reordering on the path"),
        false => (Kind::Loss, "Packet loss"),
    };
    let is_step = cause.kind != Kind::SlowReader && may_be_of_the_path(view, cause.cost_ns);
    if !is_step || !is_of_the_path(kind, cause.cost_ns) || is_usual(view, &cause) {
        return cause;
    }
    let advice = format!(
        "a packet of the control connection, or the first one of the data, was repaired {} after it \
         was due: look for what loses or delays packets on the path",
        duration(cause.cost_ns)
    );
    Cause { kind, subject: subject.to_owned(), advice, ..cause }
}

/// Returns whether most transfers of the session have at least half of the cost in this step.
fn is_usual(view: &View<'_>, cause: &Cause) -> bool {
    let those = view.session.transfers.iter().filter(|other| {
        other.direction == view.transfer.direction && !std::ptr::eq(*other, view.transfer)
    });
    let late = those.map(|other| {
        let steps = waits::steps(other, view.trip, 0);
        match cause.kind {
            Kind::SlowCommand => steps.command.map_or(0, |(_, ns)| ns),
            Kind::LostSyn => steps.connection_ns,
            Kind::LateLastReply | Kind::SlowReader => steps.last_reply_ns,
            _ => steps.preliminary_ns.max(steps.first_byte_ns),
        }
    });
    let late: Vec<u64> = late.collect();
    let usual = late.iter().filter(|ns| **ns >= cause.cost_ns / 2).count();
    // Without other transfers, the step may always be late.
    late.is_empty() || usual * 2 > late.len()
}

/// Returns whether the round trip is long enough to be reported.
pub(super) fn is_far(view: &View<'_>) -> bool {
    view.trip >= FAR_AWAY_NS
}
