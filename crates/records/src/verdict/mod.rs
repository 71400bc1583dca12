//! Diagnosis of a login or a transfer, from observations on the local host.
//!
//! There are two results. [`verdict()`] returns one sentence on a [`crate::Measurement`]: the
//! limiting factor of an echo or a screenful. [`causes()`] returns the causes of waiting in an
//! [`Observation`], which has more detail than that record: the arrival time of each byte of a
//! flow, echoes during other data, and TCP statistics.

mod cause;
mod echo;
mod files;
mod flow;
mod flow_causes;
mod flow_view;
mod half_duplex;
mod late_echoes;
mod local_software;
mod losses;
mod lower_bound;
mod observation;
mod rates;
mod render_verdict;
mod round_trip;
mod round_trip_waits;
mod steps;
mod traffic;
mod unexplained;

pub use cause::{Cause, CauseKind, Operation};
pub use files::{Aborted, DataTcp, Exchange, FileSession, FileTransfer, Protocol};
pub use flow::{Arrival, Direction, Flow, FlowCounts, Origin};
pub use observation::{Answers, Echoes, Observation, Path, Steps, TRAIN_PACE_NS, Unfinished};
pub use render_verdict::{LoginLimit, MIN_SAMPLES, limit, verdict};

pub(crate) use traffic::serial_ns;

/// Returns the causes of waiting in the observed session, highest weight first; empty if no cause
/// stands out.
///
/// A cause stands out if it takes at least a tenth of its total, and more than users notice. Output
/// that never arrived comes first, and a long wait without a cause is [`CauseKind::Unknown`].
#[must_use]
pub fn causes(observed: &Observation) -> Vec<Cause> {
    if let Some(files) = &observed.files {
        return files::causes(files);
    }
    let mut candidates = steps::causes(observed);
    candidates.extend(echo::causes(observed));
    candidates.extend(flow_causes::causes(observed));
    let mut causes: Vec<Cause> = unexplained::unfinished(observed).into_iter().collect();
    causes.extend(cause::rank(without_consequences(candidates.clone())));
    if causes.is_empty() {
        causes.extend(unexplained::waits(observed));
    }
    if causes.is_empty() {
        causes.extend(candidates.into_iter().find(is_small_loss));
    }
    causes
}

/// Returns the cause of a slow echo that is not in `causes`, because another operation has a cause of
/// the same kind.
#[must_use]
pub fn further_cause_of_echo(observed: &Observation, causes: &[Cause]) -> Option<Cause> {
    if observed.files.is_some() || causes.iter().any(|cause| cause.operation == Operation::Echo) {
        return None;
    }
    let candidates = without_consequences(echo::causes(observed)).into_iter();
    let same_kind = candidates.filter(|one| causes.iter().any(|cause| cause.kind == one.kind));
    same_kind.filter(Cause::stands_out).max_by_key(|cause| cause.cost_ns)
}

/// A small loss is reported if its cost is at least the total divided by this number.
const MIN_SMALL_LOSS_DIVISOR: u64 = 10;

/// Returns whether `cause` is a loss that is reported if there is no other cause, although its
/// average cost is not noticeable.
fn is_small_loss(cause: &Cause) -> bool {
    let is_large_share = cause.cost_ns.saturating_mul(MIN_SMALL_LOSS_DIVISOR) >= cause.total_ns;
    cause.kind.is_loss() && cause.cost_ns > 0 && is_large_share
}

/// Returns `candidates` without the causes that only follow from other causes.
///
/// On a half-duplex path, with an empty token bucket or with a small window, a key always waits
/// behind other data. The turnarounds of a half-duplex path are included in its round-trip time, in
/// each wait for the remote host, and in the rate of an output whose acknowledgments turn the
/// medium.
fn without_consequences(mut candidates: Vec<Cause>) -> Vec<Cause> {
    let is_turnaround = |cause: &Cause| cause.kind == CauseKind::HalfDuplex && cause.stands_out();
    if candidates.iter().any(is_turnaround) {
        let is_turnaround_effect = |kind| {
            matches!(
                kind,
                CauseKind::Distance
                    | CauseKind::RemoteHost
                    | CauseKind::RateLimiter
                    | CauseKind::SmallWindow
                    | CauseKind::SmallSendBuffer
                    | CauseKind::Nagle
                    | CauseKind::Loss
            )
        };
        candidates.retain(|cause| !is_turnaround_effect(cause.kind));
    }
    let explains_a_queue = |cause: &Cause| {
        matches!(
            cause.kind,
            CauseKind::HalfDuplex
                | CauseKind::RateLimiter
                | CauseKind::SmallWindow
                | CauseKind::SmallSendBuffer
        ) && cause.stands_out()
    };
    // Once the token bucket is empty, the rate of the data is the token rate, and not the rate of a
    // link.
    let is_limiter = |cause: &Cause| cause.kind == CauseKind::RateLimiter && cause.stands_out();
    if candidates.iter().any(is_limiter) {
        candidates.retain(|cause| {
            cause.kind != CauseKind::LineRate || cause.operation != Operation::Transfer
        });
    }
    if candidates.iter().any(explains_a_queue) {
        candidates.retain(|cause| cause.kind != CauseKind::Queue);
    }
    candidates
}

/// Returns the causes as sentences, or a statement that there is none.
#[must_use]
pub fn conclusion(causes: &[Cause]) -> String {
    if causes.is_empty() {
        return "Nothing stands out.".to_owned();
    }
    let sentences: Vec<String> = causes.iter().map(Cause::sentence).collect();
    sentences.join(" ")
}

#[cfg(test)]
mod tests;
