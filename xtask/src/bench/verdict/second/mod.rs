//! The second generator: other causes, magnitudes, paths and peers than those of `super::generate`.
//!
//! It was written without knowledge of the rules by which `plumb measure` finds a cause, and
//! nothing is tuned to it. It uses the networks, relay, clients, scoring and tables of the first
//! generator.

mod cause;
mod generate;
mod peers;
mod programs;
mod rows;
mod setup;

pub(super) use cause::Fault;
pub(super) use generate::case;
pub(super) use peers::{proftpd_lines, python_arguments, refusals};
pub(super) use rows::{ROWS, markdown};
pub(super) use setup::{Conditions, inject, take_rest};
