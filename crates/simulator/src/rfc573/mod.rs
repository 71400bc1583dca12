//! The survey of RFC 573: hosts that come and go for a year, and what a program sees of them that
//! tries each every twenty minutes.
//!
//! A host is up and down by turns, for times without memory. So is its logger, for itself. Their
//! means are worked out from the paper's table I, as if its figures were the truth; the survey then
//! measures the truth by the paper's own rules. A try succeeds if the logger answers within the
//! time limit; the answer stands until the next try; a host is available unless it is dead; a
//! failure to connect is counted where a try fails that follows one that did not.
//!
//! And its transfers: each is sent again by our FTP over our TCP between two hosts of 1973.

mod host;
mod party;
mod replay;
mod scenario;
mod strata;
mod survey;
mod tables;

pub use replay::{Failure, Form, Replayed, Script, Verb};
pub use scenario::{Allocates, Crowd, Network, Rates, Remote, Scenario};
pub use strata::{Kind, Strata, Stratum};
pub use tables::tables;
