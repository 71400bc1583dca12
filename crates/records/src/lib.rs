//! Measurement records, their statistics, and reports: text for a terminal, and one HTML file.
//!
//! This crate does no I/O beyond its files, reads no clock and prints nothing: the caller measures,
//! passes times as text, and prints the returned `String`. Untrusted text from the network is
//! escaped only in this crate, see [`escape`]; tables and pages escape their contents themselves.
#![forbid(unsafe_code)]

pub mod accuracy;
pub mod aggregate;
pub mod arrivals;
pub mod bar_chart;
pub mod calendar;
pub mod charts;
pub mod escape;
pub mod format;
pub mod histogram;
pub mod html;
pub mod journal;
pub mod measurement;
pub mod measures;
pub mod nominal;
pub mod population;
pub mod prediction;
pub mod running;
pub mod sizes;
pub mod split_error;
pub mod statistics;
pub mod store;
pub mod summary;
pub mod table;
pub mod transfer;
pub mod verdict;

pub use measurement::{Layer, LayerTime, Measurement};
