//! Outcome of a try at a target.

use crate::exit::Failure;
use carrier::NoAddress;
use records::Measurement;
use records::accuracy::Accuracy;
use records::measures::AttemptOutcome;
use report::html::Section;
use transfer::ftp::probe::{FailureStage, ProbeError};

/// Results of a successful try.
#[derive(Debug)]
pub(super) struct TryResults {
    /// The record, without the tries and the six measures.
    pub(super) record: Measurement,
    /// Incomplete parts of the measurement, each a sentence without a full stop.
    pub(super) notes: Vec<String>,
    /// Report sections that are not part of the record.
    pub(super) sections: Vec<Section>,
    /// Accuracy of the returned data.
    pub(super) accuracy: Option<Accuracy>,
    /// Time until the target was usable, ns.
    pub(super) response_ns: Option<u64>,
    /// Whether any requested value was measured.
    pub(super) has_measured: bool,
    /// Whether the results are incomplete, because the remote host refused a part of the
    /// measurement or ended the session early.
    pub(super) is_incomplete: bool,
}

/// Reason why a try has failed.
#[derive(Clone, Debug)]
pub(super) struct TryFailure {
    pub(super) outcome: AttemptOutcome,
    /// Failure that determines the exit status.
    pub(super) failure: Failure,
    /// Explanation, as a sentence.
    pub(super) reason: String,
}

impl TryFailure {
    pub(super) fn new(outcome: AttemptOutcome, failure: Failure, reason: &str) -> Self {
        Self { outcome, failure, reason: reason.to_owned() }
    }

    /// Returns the result of a try that the user has interrupted.
    pub(super) fn interrupted() -> Self {
        let reason = NoAddress::Interrupted.to_string();
        Self::new(AttemptOutcome::ThisMachine, Failure::NothingMeasured, &reason)
    }

    /// Classifies the reason why a file server is unusable.
    pub(super) fn of_files(error: ProbeError) -> Self {
        let ProbeError { failure, reached, why } = error;
        let failure = Failure::from(failure);
        let outcome = match (failure, reached) {
            (Failure::RemoteHost, FailureStage::Server) => AttemptOutcome::NotUsable,
            (Failure::RemoteHost, FailureStage::Address) => AttemptOutcome::NoConnection,
            (Failure::RemoteHost, FailureStage::Name) => AttemptOutcome::NoAddress,
            _ => AttemptOutcome::ThisMachine,
        };
        Self { outcome, failure, reason: why }
    }
}
