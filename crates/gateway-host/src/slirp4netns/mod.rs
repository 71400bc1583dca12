//! The gateway in place of slirp4netns 1.2.0: its arguments, texts, addresses and API.
//!
//! The driver calls [`parse`] with the arguments after `argv[0]`. For an
//! [`Invocation::Run`](crate::invocation::Invocation::Run) it
//!
//! 1. takes the descriptors `ready_fd` and `exit_fd` by `os::inherited_descriptor`,
//! 2. opens the target by `os::target_namespace` and the TAP by `os::tun_in_namespace`, with a setup
//!    if `is_configuring` is set ([`SlirpSettings::guest_setup`]),
//! 3. binds `api_socket` (after unlinking it) and answers requests by [`api::ApiConnection`],
//! 4. prints [`start_text()`] on standard output, enters the sandbox of `os::sandbox` if
//!    `is_sandboxed` is set, drops its privileges, and notifies the ready descriptor,
//! 5. runs until the exit descriptor reports an event (exit code 0), the target is gone (0), or
//!    SIGTERM or SIGINT arrive.
//!
//! Not implemented: `--target-type=bess`.

pub mod api;
mod slirp_arguments;
mod slirp_program;
mod start_text;
mod texts;

pub(crate) use slirp_arguments::hardware_address;
pub use slirp_arguments::{OutboundSource, SlirpNetwork, SlirpSettings, SlirpTarget, parse};
pub use slirp_program::SlirpProgram;
pub use start_text::start_text;
