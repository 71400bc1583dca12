//! Outcome of a try at a target.

use carrier::NoAddress;
use records::Measurement;
use records::accuracy::Accuracy;
use records::assessment::{Grade, LocationTime};
use records::keystroke::MedianKeystroke;
use records::measures::AttemptOutcome;
use transfer::FailureClass;
use transfer::ftp::probe::{FailureStage, ProbeError};

/// Results of a successful try.
#[derive(Debug)]
pub struct TryResults {
    /// The record, without the tries and the six measures.
    pub record: Measurement,
    /// Incomplete parts of the measurement, each a sentence without a full stop.
    pub notes: Vec<String>,
    /// Time of the median keystroke by layer, if any keystroke was measured.
    pub keystroke: Option<MedianKeystroke>,
    /// Accuracy of the returned data.
    pub(super) accuracy: Option<Accuracy>,
    /// Time until the target was usable, ns.
    pub(super) response_ns: Option<u64>,
    /// Whether any requested value was measured.
    pub has_measured: bool,
    /// Whether the remote host refused the credentials.
    pub(super) is_refused: bool,
    /// Whether the results are incomplete, because the remote host refused a part of the
    /// measurement or ended the session early.
    pub is_incomplete: bool,
}

/// Result of a try that only determines whether the target is usable.
#[derive(Clone, Debug)]
pub(super) struct Usable {
    /// Time until the target was usable, ns.
    pub(super) response_ns: u64,
    /// Time of the login, from the user name until the shell's prompt, ns.
    pub(super) login_total_ns: Option<u64>,
    /// Median echo, ns.
    pub(super) echo_p50_ns: Option<u64>,
    /// Number of retransmitted TCP segments.
    pub(super) retransmissions: Option<u64>,
    /// Grade of the values that the try has measured.
    pub(super) grade: Grade,
    /// The echo, split by location. Empty if unknown.
    pub(super) parts: Vec<LocationTime>,
}

impl Usable {
    /// Creates the result for a target without an echo.
    pub(super) const fn without_echo(response_ns: u64) -> Self {
        Self {
            response_ns,
            login_total_ns: None,
            echo_p50_ns: None,
            retransmissions: None,
            grade: Grade::Ok,
            parts: Vec::new(),
        }
    }
}

/// Category of a failed try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Caused by the remote host or the network.
    RemoteHost,
    /// Caused by an invalid request, which would fail at every further try.
    Request,
    /// Nothing could be measured.
    NothingMeasured,
    /// Caused by this machine.
    ThisMachine,
}

impl From<FailureClass> for FailureKind {
    fn from(class: FailureClass) -> Self {
        match class {
            FailureClass::RemoteHost => Self::RemoteHost,
            FailureClass::Request => Self::Request,
            FailureClass::ThisMachine | FailureClass::ClosedOutput => Self::ThisMachine,
            FailureClass::Declined | FailureClass::Interrupted => Self::NothingMeasured,
        }
    }
}

/// Reason why a try has failed.
#[derive(Clone, Debug)]
pub struct TryFailure {
    pub(super) outcome: AttemptOutcome,
    /// Category of the failure.
    pub kind: FailureKind,
    /// Explanation, as a sentence.
    pub reason: String,
}

impl TryFailure {
    pub(super) fn new(outcome: AttemptOutcome, kind: FailureKind, reason: &str) -> Self {
        Self { outcome, kind, reason: reason.to_owned() }
    }

    /// Returns the result of a try that the user has interrupted.
    pub(super) fn interrupted() -> Self {
        let reason = NoAddress::Interrupted.to_string();
        Self::new(AttemptOutcome::ThisMachine, FailureKind::NothingMeasured, &reason)
    }

    /// Classifies the reason why a file server is unusable.
    pub(super) fn of_files(error: ProbeError) -> Self {
        let ProbeError { failure, reached, why } = error;
        let kind = FailureKind::from(failure);
        let outcome = match (kind, reached) {
            (FailureKind::RemoteHost, FailureStage::Server) => AttemptOutcome::NotUsable,
            (FailureKind::RemoteHost, FailureStage::Address) => AttemptOutcome::NoConnection,
            (FailureKind::RemoteHost, FailureStage::Name) => AttemptOutcome::NoAddress,
            _ => AttemptOutcome::ThisMachine,
        };
        Self { outcome, kind, reason: why }
    }
}
