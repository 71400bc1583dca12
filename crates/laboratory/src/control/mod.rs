//! Control structures compared (TM-233 chapter 4 and 7.1).
//!
//! Four experiments use the same engines:
//!
//! - an empty change of control
//! - a key and a screenful in virtual time, with the costs of 1982
//! - a key and a screenful between two hosts in one process
//! - a key and a screenful over a TUN
//!
//! Experiments in real time are interleaved: each round measures one block of each structure. The
//! caller has the clocks of the machine ([`MachineFunctions`]), and the TUN, on which it runs a
//! [`SteppedHost`].

mod control_error;
mod control_experiments;
pub mod control_report;
mod control_results;
mod empty;
mod interleaved_rounds;
mod machine_functions;
mod of_1982;
mod pair;
mod stepped_host;
mod structure;
#[cfg(test)]
mod tests;

pub use control_error::ControlError;
pub use control_experiments::{FULL_RUN, MeasurementCounts, measure};
pub use control_results::{ControlResults, RealTimeResult};
pub use interleaved_rounds::{BlockTimes, interleave};
pub use machine_functions::MachineFunctions;
pub use stepped_host::{EndpointRole, MTU, PORT, SCREEN_KEY, SCREENFUL, SteppedHost};
pub use structure::ControlStructure;
