//! The experiments of four papers (TM-233, RFC 573, RFC 594, and a memo on Multics), repeated with
//! the engines of plumbline. Their tables compare the values of the papers with the results.
//!
//! This crate uses only the public API of `net`, `protocols`, `simulator` and `records`, and the
//! control structures of `control`. It prints nothing. The caller provides what depends on the
//! machine: clocks, devices, files and stores. Only the live tables of TM-233 (`tm233::live`) open
//! devices and start programs themselves.

pub mod comparison_tables;
pub mod control;
pub mod experiment;
mod limits;
pub mod multics;
pub mod paper_scenario;
#[cfg(test)]
mod paper_tests;
mod paragraph;
pub mod picture;
mod render_picture;
pub mod rfc573;
pub mod rfc594;
mod sample;
pub mod table;
pub mod tm233;

pub use limits::OutOfRange;
