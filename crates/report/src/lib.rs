//! Presentation of records: tables, bar charts and summaries as text for a terminal, and one HTML
//! file.
//!
//! This crate only presents: every number and every sentence of a conclusion comes from [`records`].
//! It does no I/O, reads no clock and prints nothing: the caller prints the returned `String`. Tables
//! and pages escape their contents themselves, with [`records::escape`].
#![forbid(unsafe_code)]

pub mod bar_chart;
pub mod comparison;
pub mod diagnostic;
pub mod html;
pub mod split_row;
pub mod summary;
pub mod table;
pub mod transfer_tables;

mod charts;
