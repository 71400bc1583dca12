//! What was measured, its statistics, and its reports: text for a terminal, one file of HTML.
//!
//! No network, no clock, no printing: the caller measures, gives the time as text, and prints the
//! `String` that it gets. Text that came from the wire is made harmless here and nowhere else,
//! see [`escape`]; tables and pages do it themselves.
#![forbid(unsafe_code)]

pub mod accuracy;
pub mod arrivals;
pub mod bars;
pub mod calendar;
pub mod escape;
pub mod figures;
pub mod histogram;
pub mod html;
pub mod journal;
pub mod measurement;
pub mod measures;
pub mod nominal;
pub mod pictures;
pub mod population;
pub mod prediction;
pub mod running;
pub mod sizes;
pub mod split_error;
pub mod statistics;
pub mod store;
pub mod summary;
pub mod table;
pub mod tally;
pub mod transfer;
pub mod verdict;

pub use measurement::{Layer, LayerTime, Measurement};
