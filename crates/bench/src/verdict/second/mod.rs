//! The second generator of the verdict benchmark: causes, magnitudes, paths and servers other than
//! those of the first generator (`super::generate`).
//!
//! The generator was written without knowledge of the rules by which `plumb measure` finds a cause,
//! and no rule is tuned to its cases. The cases of both generators run with the same network
//! namespaces, relay, clients, scoring and tables.

mod cause;
mod conditions;
mod generate;
mod injection;
mod programs;
mod rows;
mod server_choice;

pub(super) use cause::Fault;
pub(super) use conditions::Conditions;
pub(super) use generate::case;
pub(super) use injection::{inject, set_lasting_properties};
pub(super) use rows::ROWS;
pub(super) use server_choice::{proftpd_lines, python_arguments, refusals};
