//! Diagnosis of a login or a transfer, from observations on the local host.
//!
//! There are two results. [`verdict()`] is one sentence on a [`crate::Measurement`]: the
//! distribution of the time of an echo or a screenful. An [`Observation`] has more detail than that
//! record: the arrival time of each byte of a flow, echoes during other data, and TCP statistics.

mod cause;
mod echo;
mod files;
mod flows;
mod half_duplex;
mod losses;
mod lower_bound;
mod observation;
mod rates;
mod render_verdict;
mod round_trip_waits;
mod steps;
mod traffic;
mod unexplained;

pub use cause::{Cause, Kind, Operation};
pub use files::{Aborted, DataTcp, Exchange, FileSession, FileTransfer, Protocol};
pub use observation::{
    Answers, Arrival, Direction, Echoes, Flow, FlowCounts, Observation, Origin, Path, Steps,
    TRAIN_PACE_NS, Unfinished,
};
pub use render_verdict::{Limit, MIN_SAMPLES, limit, verdict};

pub(crate) use traffic::serial_ns;

/// Returns the causes of waiting in the observed session, highest weight first; empty if no cause
/// stands out.
///
/// A cause stands out if it takes at least a tenth of its total, and more than users notice. Output
/// that never arrived comes first, and a long wait without a cause is [`Kind::Unknown`].
#[must_use]
pub fn causes(observed: &Observation) -> Vec<Cause> {
    if let Some(files) = &observed.files {
        return files::causes(files);
    }
    let mut found = steps::causes(observed);
    found.extend(echo::causes(observed));
    found.extend(flows::causes(observed));
    let mut causes: Vec<Cause> = unexplained::unfinished(observed).into_iter().collect();
    causes.extend(cause::ranked(without_consequences(found.clone())));
    if causes.is_empty() {
        causes.extend(unexplained::waits(observed));
    }
    if causes.is_empty() {
        causes.extend(found.into_iter().find(is_small_loss));
    }
    causes
}

/// Minimum share of its total from which on a small loss is reported, as a divisor.
const SMALL_LOSS_ONE_IN: u64 = 10;

/// Returns whether `cause` is a loss that is reported if there is no other cause, although its
/// average cost is not noticeable.
fn is_small_loss(cause: &Cause) -> bool {
    let is_part = cause.cost_ns.saturating_mul(SMALL_LOSS_ONE_IN) >= cause.total_ns;
    cause.kind.is_loss() && cause.cost_ns > 0 && is_part
}

/// Returns `found` without causes that only follow from others: on a half-duplex path, with an
/// empty token bucket or with a small window, a key waits behind other data in any case. The
/// turnarounds of a half-duplex path are included in its round-trip time, in each wait for the
/// remote host, and in the rate of an output whose acknowledgments turn the medium.
fn without_consequences(mut found: Vec<Cause>) -> Vec<Cause> {
    let turns = |cause: &Cause| cause.kind == Kind::HalfDuplex && cause.stands_out();
    if found.iter().any(turns) {
        let is_of_turns = |kind| {
            matches!(
                kind,
                Kind::Distance
                    | Kind::RemoteHost
                    | Kind::RateLimiter
                    | Kind::SmallWindow
                    | Kind::SmallSendBuffer
                    | Kind::Nagle
                    | Kind::Loss
            )
        };
        found.retain(|cause| !is_of_turns(cause.kind));
    }
    let explains_a_queue = |cause: &Cause| {
        matches!(
            cause.kind,
            Kind::HalfDuplex | Kind::RateLimiter | Kind::SmallWindow | Kind::SmallSendBuffer
        ) && cause.stands_out()
    };
    // Once the token bucket is empty, the rate of the data is the token rate, and not the rate of a
    // link.
    let is_limiter = |cause: &Cause| cause.kind == Kind::RateLimiter && cause.stands_out();
    if found.iter().any(is_limiter) {
        found
            .retain(|cause| cause.kind != Kind::LineRate || cause.operation != Operation::Transfer);
    }
    if found.iter().any(explains_a_queue) {
        found.retain(|cause| cause.kind != Kind::Queue);
    }
    found
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
