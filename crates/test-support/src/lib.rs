//! What the tests of all crates share: the outcome "not configured", and the programs of other
//! projects that tests run (their *peers*).
//!
//! A test has three outcomes:
//!
//! - **passed**;
//! - **failed**, also where something is missing that `./x test` installs, or where a network
//!   namespace cannot be made;
//! - **not configured**, where a test needs something that `./x test` does not provide: a program or
//!   suite that a variable names, a feature of the kernel, or root of the machine instead of root of
//!   a user namespace.
//!
//! libtest knows only the first two and counts the third as passed. So a test that is not configured
//! calls [`not_configured`] and returns; `./x` prints the number of these tests and their names.

#![forbid(unsafe_code)]

mod network;
pub mod peers;
mod report;
mod root;

pub use network::in_new_network;
pub use report::{current_test, not_configured};
pub use root::is_root_of_the_machine;
