//! Outcome of a try at a target.

use crate::carry::NoAddress;
use crate::exit::Failure;
use crate::files::ftp::{Reached, Refused};
use records::Measurement;
use records::accuracy::Accuracy;
use records::html::Section;
use records::measures::TryOutcome;

/// Results of a successful try.
#[derive(Debug)]
pub(super) struct Measured {
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
    /// Whether the remote host refused a part or ended the session early, so that the results are
    /// incomplete.
    pub(super) is_incomplete: bool,
}

/// Reason for which a try has failed.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) outcome: TryOutcome,
    /// Failure that determines the exit status.
    pub(super) failure: Failure,
    /// Explanation, as a sentence.
    pub(super) why: String,
}

impl Failed {
    pub(super) fn new(outcome: TryOutcome, failure: Failure, why: &str) -> Self {
        Self { outcome, failure, why: why.to_owned() }
    }

    /// Returns the result of a try that the user has interrupted.
    pub(super) fn interrupted() -> Self {
        let why = NoAddress::Interrupted.to_string();
        Self::new(TryOutcome::ThisMachine, Failure::NothingMeasured, &why)
    }

    /// Classifies the reason for which a file server is unusable.
    pub(super) fn of_files(refused: Refused) -> Self {
        let Refused { failure, reached, why } = refused;
        let outcome = match (failure, reached) {
            (Failure::FarSide, Reached::Server) => TryOutcome::NotUsable,
            (Failure::FarSide, Reached::Address) => TryOutcome::NoConnection,
            (Failure::FarSide, Reached::Name) => TryOutcome::NoAddress,
            _ => TryOutcome::ThisMachine,
        };
        Self { outcome, failure, why }
    }
}
