//! The six measures of RFC 573: rate, response, processing cost, failures to connect, availability
//! and accuracy.
//!
//! A try is one attempt to connect to and use the target.

mod of_measurement;

use crate::accuracy::Accuracy;
use crate::grade::{Grade, LocationTime};
use serde::{Deserialize, Serialize};

/// The six measures; unknown ones are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// The highest rate of one transfer, bit/s.
    pub rate_peak_bps: Option<u64>,
    /// Rate of all transfers together, bit/s.
    pub rate_average_bps: Option<u64>,
    /// Median time from the name until the service is usable, over successful tries, ns.
    pub response_ns: Option<u64>,
    /// CPU time of this process per megabit, ns.
    pub cpu_ns_per_megabit: Option<u64>,
    /// Number of tries.
    pub tries: u64,
    /// Number of failed tries.
    pub tries_failed: u64,
    /// Number of tries that were not made, because the try before them took longer than the interval.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tries_missed: u64,
    /// Failures to connect: failed tries that are the first or follow a successful one.
    pub failures: u64,
    /// Mean time between failures, ns; unknown without a failure.
    pub between_failures_ns: Option<u64>,
    /// Fraction of tries that succeeded, from 0 to 1.
    pub availability: Option<f64>,
    /// Error counts of the transferred data.
    pub accuracy: Option<Accuracy>,
}

const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One attempt to connect to and use the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Start time, ns since the start of the first try.
    pub at_ns: u64,
    /// Outcome of the try.
    pub outcome: AttemptOutcome,
    /// Time until the service was usable, ns.
    pub response_ns: Option<u64>,
    /// Time of the whole login, from the user name until the shell's prompt, ns: the time until the
    /// prompt for a password and `login_ns` of the phases. Earlier records have the name `login_ns`.
    #[serde(default, alias = "login_ns", skip_serializing_if = "Option::is_none")]
    pub login_total_ns: Option<u64>,
    /// Median echo, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo_p50_ns: Option<u64>,
    /// Number of retransmitted TCP segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmissions: Option<u64>,
    /// Reason of the failure, as a sentence.
    pub error: Option<String>,
    /// Grade of the try. Unknown if the first measurement found a slow operation that later tries
    /// do not measure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grade: Option<Grade>,
    /// The echo of the try, split by location. Empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<LocationTime>,
}

impl Attempt {
    /// Creates a try of which only the start time and the outcome are known.
    #[must_use]
    pub const fn new(at_ns: u64, outcome: AttemptOutcome) -> Self {
        Self {
            at_ns,
            outcome,
            response_ns: None,
            login_total_ns: None,
            echo_p50_ns: None,
            retransmissions: None,
            error: None,
            grade: None,
            parts: Vec::new(),
        }
    }
}

/// Outcome of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// The service is usable.
    Ok,
    /// The name has no address.
    NoAddress,
    /// No connection: refused, reset, unreachable or timed out.
    NoConnection,
    /// Connected, but not usable: no prompt, no login or no file.
    NotUsable,
    /// The local host denies a required resource.
    ThisMachine,
}

impl AttemptOutcome {
    /// Returns the text for display.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NoAddress => "no address",
            Self::NoConnection => "no connection",
            Self::NotUsable => "not usable",
            Self::ThisMachine => "this machine",
        }
    }
}
