//! The survey of RFC 573: hosts that fail and recover for a year, observed by a program that tries
//! to connect to each of them every twenty minutes.
//!
//! A host alternates between up and down for exponentially distributed times, and so does its
//! logger (the login server), independently. The mean times are derived from the paper's table I,
//! as if the measured values of this table were exact. The survey then measures availability and
//! failures by the paper's own rules:
//!
//! - A try succeeds if the logger answers within the time limit.
//! - The outcome of a try applies until the next try.
//! - A host counts as available if it is up, even if its logger does not answer.
//! - A failure to connect is counted if a failed try follows a successful one.
//!
//! The module also replays the paper's transfers: each is repeated with the FTP and TCP of
//! `protocols` between two simulated hosts of 1973.

mod endpoint;
mod host;
mod replay;
mod scenario;
mod strata;
pub(crate) mod stratum_transfers;
mod survey;
pub(crate) mod survey_tables;
mod transfer_request;
pub(crate) mod transfer_tables;

pub use replay::Failure;
pub use scenario::{Allocates, Crowd, Network, Rates, Remote, Scenario};
pub use strata::{Strata, Stratum};
pub use stratum_transfers::transfers_of_1973;
pub use transfer_tables::TransferTableError;
