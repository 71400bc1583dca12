//! What a try at a target has come to.

use crate::carry::NoAddress;
use crate::exit::Failure;
use crate::files::ftp::{Reached, Refused};
use records::Measurement;
use records::accuracy::Accuracy;
use records::html::Section;
use records::measures::TryOutcome;

/// What was measured.
#[derive(Debug)]
pub(super) struct Measured {
    /// The record, without the tries and the six measures.
    pub(super) record: Measurement,
    /// What could not be done, each a sentence without its end.
    pub(super) notes: Vec<String>,
    /// Pictures that the record does not hold.
    pub(super) sections: Vec<Section>,
    /// How exactly what was sent came back.
    pub(super) accuracy: Option<Accuracy>,
    /// How long it took until the target could be used, ns.
    pub(super) response_ns: Option<u64>,
    /// Whether it holds anything that was asked for.
    pub(super) has_measured: bool,
    /// Whether the far side refused something or cut it off, so that not all was measured.
    pub(super) is_incomplete: bool,
}

/// Why a try has failed.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) outcome: TryOutcome,
    /// What the exit code is to tell.
    pub(super) failure: Failure,
    /// Why, in a sentence.
    pub(super) why: String,
}

impl Failed {
    pub(super) fn new(outcome: TryOutcome, failure: Failure, why: &str) -> Self {
        Self { outcome, failure, why: why.to_owned() }
    }

    /// Somebody here has ended it.
    pub(super) fn interrupted() -> Self {
        let why = NoAddress::Interrupted.to_string();
        Self::new(TryOutcome::ThisMachine, Failure::NothingMeasured, &why)
    }

    /// Sorts why a file server cannot be used.
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
