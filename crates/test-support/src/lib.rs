//! Support for the tests of all crates: the outcome "not configured", network namespaces, the logs
//! of programs, a TLS server with its client, and the third-party programs that tests run (their
//! *peers*).
//!
//! A test has three outcomes:
//!
//! - **passed**;
//! - **failed**, also if something is missing that `./x test` installs, or if a network namespace
//!   cannot be created;
//! - **not configured**, if a test needs something that `./x test` does not provide: a program or
//!   suite named by an environment variable, a kernel feature, or root of the machine instead of
//!   root of a user namespace.
//!
//! libtest knows only the first two and counts the third as passed. Therefore a test that is not
//! configured calls [`not_configured`] and returns; `./x` prints the number of these tests and
//! their names.

#![forbid(unsafe_code)]

mod network;
mod network_thread;
pub mod peers;
mod poll;
mod program_log;
mod report;
mod root;
mod tls_fixture;

pub use network::{add_loopback_address, in_configured_network, in_new_network, ip};
pub use network_thread::NetworkThread;
pub use poll::poll_until_timeout;
pub use program_log::ProgramLog;
pub use report::not_configured;
pub use root::is_root_of_the_machine;
pub use tls_fixture::TlsFixture;
