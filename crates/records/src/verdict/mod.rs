//! What limits a login or a transfer, as far as one can know from its near side.
//!
//! Two answers come from here. [`verdict()`] is one sentence on a [`crate::Measurement`]: where the
//! time of an echo or of a screenful goes. An [`Observation`] says more than that record keeps: when
//! each byte of a flow came, how echoes fare beside other data, what TCP counted meanwhile.

mod cause;
mod files;
mod flows;
mod half_duplex;
mod keys;
mod losses;
mod observation;
mod rates;
mod remains;
mod sentence;
mod steps;
mod traffic;
mod unexplained;
mod waits;

pub use cause::{Cause, Kind, Whole};
pub use files::{Aborted, DataTcp, Exchange, FileSession, FileTransfer, Protocol};
pub use observation::{
    Answers, Arrival, Direction, Echoes, Flow, FlowCounts, Observation, Origin, Path, Steps,
    TRAIN_PACE_NS, Unfinished,
};
pub use sentence::{
    FEWEST_SAMPLES, LOSS_ONE_IN, Limit, UNACCEPTABLE_NS, UNNOTICED_NS, limit, verdict,
};

pub(crate) use traffic::serial_ns;

/// Returns why a person waits in the session that was observed: what costs most first, and nothing
/// where nothing stands out.
///
/// A cause stands out if it takes a tenth of its whole or more, and more than what a person
/// notices. Output that never came is first, and a long wait for which there is no cause is
/// [`Kind::Unknown`].
#[must_use]
pub fn causes(observed: &Observation) -> Vec<Cause> {
    if let Some(files) = &observed.files {
        return files::causes(files);
    }
    let mut found = steps::causes(observed);
    found.extend(keys::causes(observed));
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

/// A loss of less than one part in so many of its whole is not reported.
const SMALL_LOSS_ONE_IN: u64 = 10;

/// Returns whether `cause` is a loss that is reported where nothing else is, although nobody notices what
/// it costs on the average.
fn is_small_loss(cause: &Cause) -> bool {
    let is_part = cause.cost_ns.saturating_mul(SMALL_LOSS_ONE_IN) >= cause.total_ns;
    cause.kind.is_loss() && cause.cost_ns > 0 && is_part
}

/// Returns `found` without what only follows from another of them: where the way carries one
/// direction at a time, a bucket is empty or a window small, other data is in front of a key anyway.
/// Turnarounds of a half-duplex path are in its round trip, in each wait for the remote host, and in the
/// rate of an output whose acknowledgments turn the medium.
fn without_consequences(mut found: Vec<Cause>) -> Vec<Cause> {
    let turns = |cause: &Cause| cause.kind == Kind::HalfDuplex && cause.stands_out();
    if found.iter().any(turns) {
        let is_of_turns = |kind| {
            matches!(
                kind,
                Kind::Distance
                    | Kind::FarHost
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
    // The rate behind an empty bucket is that of the bucket, and no link's.
    let is_limiter = |cause: &Cause| cause.kind == Kind::RateLimiter && cause.stands_out();
    if found.iter().any(is_limiter) {
        found.retain(|cause| cause.kind != Kind::LineRate || cause.of != Whole::Transfer);
    }
    if found.iter().any(explains_a_queue) {
        found.retain(|cause| cause.kind != Kind::Queue);
    }
    found
}

/// Returns the causes as sentences, or that there is none.
#[must_use]
pub fn conclusion(causes: &[Cause]) -> String {
    if causes.is_empty() {
        return "Nothing stands out.".to_owned();
    }
    let sentences: Vec<String> = causes.iter().map(Cause::sentence).collect();
    sentences.join(" ")
}
