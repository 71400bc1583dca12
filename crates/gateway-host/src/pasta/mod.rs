//! The arguments, texts and port specifications of pasta and passt of March 2023. No program uses
//! them yet: started under these names, plumb reports that it does not replace them.
//!
//! A driver calls [`parse`] with the mode of `argv[0]` and the arguments after it. For an
//! [`Invocation::Run`](crate::invocation::Invocation::Run) it opens the guest of
//! [`PastaSettings::guest`] (a namespace by `os::target_namespace` and `os::tun_in_namespace`, or
//! the socket of a virtual machine with [`crate::qemu_framing`]), adds the forwards of
//! [`PastaSettings::tcp_ports`] and [`PastaSettings::udp_ports`] (one port that can be opened is
//! enough for a specification), and then goes to the background unless
//! [`PastaSettings::is_foreground`] is set: the exit of the foreground process with code 0 reports
//! that the gateway is ready. All errors of the set-up have exit code 1 and a text on standard
//! error. The gateway ends when the path of its namespace is deleted, unless
//! [`PastaSettings::keeps_running`] is set.
//!
//! Options of later versions that podman 5 and rootlesskit 3 pass are accepted too. Unlike in pasta
//! of 2023, the options end at the first operand, so that the options of a command are its own.
//!
//! Not implemented: `--trace` and `--pcap` have no separate formats, and `auto` rescans no ports.

mod mode;
mod pasta_arguments;
pub mod port_specification;
mod texts;

pub use mode::PastaMode;
pub use pasta_arguments::{Disabled, PastaGuest, PastaSettings, VersionPair, parse};
