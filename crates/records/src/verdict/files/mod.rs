//! Causes of long file transfers: separate rules for FTP and TFTP.
//!
//! ```text
//! observed         observations of the client
//! opening          the steps of FTP before the first transfer
//! reply_delays     replies of the control connection beyond their round trips
//! lost_segments    the segments of a transfer that were lost
//! shape            rate and pauses of the data
//! path_impairment  loss and reordering that affect all transfers of a session
//! transfer_view    one transfer by FTP under analysis
//! faster_transfer  a smaller transfer that shows a full token bucket
//! policer          a rate limiter that drops
//! limits           round trips and the slowest link
//! data             delays of the data: loss, reordering, limiter, windows, pauses
//! ftp_transfer     one transfer by FTP: its steps, its data, and unexplained time
//! aborted          a transfer that did not complete
//! tftp_transfer    transfers by TFTP
//! ```

mod aborted;
mod data;
mod faster_transfer;
mod ftp_transfer;
mod limits;
mod lost_segments;
mod observed;
mod opening;
mod path_impairment;
mod policer;
mod reply_delays;
mod shape;
mod tftp_transfer;
mod transfer_view;

#[cfg(test)]
mod tests;

pub use observed::{Aborted, DataTcp, Exchange, FileSession, FileTransfer, Protocol};

use super::Direction;
use super::cause::{self, Cause, CauseKind, Operation};
use path_impairment::path_impairment;

/// Returns the causes of the duration of a file server session, highest weight first.
pub(super) fn causes(session: &FileSession) -> Vec<Cause> {
    let causes = match session.protocol {
        Protocol::Ftp => of_ftp(session),
        Protocol::Tftp => tftp_transfer::causes(session),
    };
    let mut ranking = cause::rank(causes.clone());
    ranking.sort_by_key(|cause| std::cmp::Reverse(weight(cause)));
    if ranking.is_empty() {
        ranking.extend(causes.into_iter().filter(|cause| is_overriding(session, cause)).take(1));
    }
    if let Some(aborted) = aborted::cause(session) {
        ranking.retain(|cause| cause.kind != aborted.kind);
        ranking.insert(0, aborted);
    }
    ranking
}

/// Factor for the reduced weight of a limit of the path: the limit then counts half as much as a
/// cause that can be fixed on a host.
const LIMIT_WEIGHT_FACTOR: u64 = 2;

/// Returns the weight of `cause`: a limit counts half, and not a quarter as in a login, where it
/// affects each echo.
fn weight(cause: &Cause) -> u64 {
    let weight = cause.weight();
    if cause.kind.is_limit() { weight.saturating_mul(LIMIT_WEIGHT_FACTOR) } else { weight }
}

/// Time beyond its round trips above which a step is reported regardless of its share, ns.
const LONG_STEP_NS: u64 = 1_000_000_000;

/// Returns whether `cause` is reported although it is a small part of its total: a step took very
/// long, or a timer expired.
fn is_overriding(session: &FileSession, cause: &Cause) -> bool {
    let is_step =
        !matches!(cause.kind, CauseKind::Distance | CauseKind::LineRate | CauseKind::LockStep);
    let has_timed_out = session.transfers.iter().any(|one| one.timeouts.is_some_and(|n| n > 0));
    let is_timer = cause.kind == CauseKind::Loss && has_timed_out && cause.cost_ns > 0;
    is_timer || (is_step && cause.cost_ns >= LONG_STEP_NS)
}

fn of_ftp(session: &FileSession) -> Vec<Cause> {
    let trip_ns = reply_delays::trip_ns(session);
    let path_impairment = trip_ns.and_then(|trip_ns| path_impairment(session, trip_ns));
    let mut causes = opening::causes(session, trip_ns, path_impairment);
    let Some(trip_ns) = trip_ns else { return causes };
    for direction in [Direction::Incoming, Direction::Outgoing] {
        let candidates = session.transfers.iter().filter(|one| one.direction == direction);
        let Some(largest) = candidates.clone().max_by_key(|one| one.bytes) else { continue };
        causes.extend(ftp_transfer::causes(session, largest, trip_ns));
        // Loss and reordering affect short transfers randomly, and may spare long ones.
        let others =
            candidates.filter(|one| !std::ptr::eq(*one, largest) && path_impairment.is_some());
        causes
            .extend(others.flat_map(|one| ftp_transfer::occasional_causes(session, one, trip_ns)));
    }
    without_consequences(causes)
}

/// Returns `causes` without the losses that a rate limiter causes, in either direction.
fn without_consequences(mut causes: Vec<Cause>) -> Vec<Cause> {
    let is_limited = |cause: &Cause| cause.kind == CauseKind::RateLimiter && cause.stands_out();
    if causes.iter().any(is_limited) {
        causes.retain(|cause| {
            cause.kind != CauseKind::Loss || cause.operation != Operation::Transfer
        });
    }
    causes
}
