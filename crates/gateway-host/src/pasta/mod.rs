//! The gateway in place of pasta and passt of March 2023: their arguments, texts, port
//! specifications and networks.
//!
//! [`parse`] returns the settings of a command line, and [`PastaProgram`] runs the gateway. The exit
//! of the foreground process with code 0 reports that the gateway is ready. All errors of the set-up
//! have exit code 1 and a text on standard error. The gateway ends when its guest is gone.
//!
//! Options of later versions that podman 5 and rootlesskit 3 pass are accepted too. The gateway
//! differs from pasta of 2023 in these points:
//!
//! - The options end at the first operand, so that the options of a command are its own.
//! - A connection from the host itself to a forwarded port comes from the gateway's address, as in
//!   later versions.
//! - A guest reaches no link-local address and no metadata service of the host's network.
//! - A host without a default route has a guest with link-local addresses, as in later versions.
//!
//! Not implemented: `-U` and `--host-lo-to-ns-lo` for UDP, `--no-icmp`, and formats of their own for
//! `--trace` and `--log-size`. `--no-ndp` turns only router advertisements off.

mod guest_ports;
mod host_network;
mod loopback_relay;
mod mode;
mod pasta_arguments;
mod pasta_network;
mod pasta_program;
mod port_scan;
pub mod port_specification;
mod run_log;
mod run_user;
mod texts;

pub use mode::PastaMode;
pub use pasta_arguments::{Disabled, PastaGuest, PastaSettings, VersionPair, parse};
pub use pasta_program::PastaProgram;
