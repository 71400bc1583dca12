//! What limits a login or a transfer, as far as one can know from its near side.
//!
//! Two answers come from here. [`verdict()`] is one sentence on a [`crate::Measurement`]: where the
//! time of an echo or of a screenful goes. An [`Observation`] says more than that record keeps: when
//! each byte of a flow came, how echoes fare beside other data, what TCP counted meanwhile.

mod cause;
mod files;
mod flows;
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
    causes.extend(cause::ranked(without_consequences(found)));
    if causes.is_empty() {
        causes.extend(unexplained::waits(observed));
    }
    causes
}

/// Returns `found` without what only follows from another of them: where the way carries one
/// direction at a time, a bucket is empty or a window small, other data is in front of a key anyway.
fn without_consequences(mut found: Vec<Cause>) -> Vec<Cause> {
    let explains_a_queue = |cause: &Cause| {
        matches!(cause.kind, Kind::HalfDuplex | Kind::RateLimiter | Kind::SmallWindow)
            && cause.stands_out()
    };
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
