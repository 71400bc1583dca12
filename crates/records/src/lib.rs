//! Measurement records, their statistics, and the conclusions from them: predictions, causes and
//! verdicts.
//!
//! This crate does no I/O beyond its files, reads no clock and prints nothing: the caller measures
//! and passes times as text. A conclusion is a sentence; tables, charts and pages are made by other
//! crates. Untrusted text from the network is escaped only by [`escape`].
#![forbid(unsafe_code)]

pub mod accuracy;
pub mod aggregate;
pub mod arrivals;
pub mod assessment;
pub mod calendar;
pub mod comparison;
pub mod escape;
pub mod format;
pub mod histogram;
pub mod journal;
pub mod keystroke;
pub mod measurement;
pub mod measures;
pub mod nominal;
pub mod population;
pub mod prediction;
pub mod recording;
pub mod running;
pub mod session_log;
pub mod severity;
pub mod sizes;
pub mod split_error;
pub mod statistics;
pub mod store;
pub mod transfer;
pub mod verdict;

mod grade;
mod layer;

pub use layer::{Layer, LayerTime};
pub use measurement::Measurement;
