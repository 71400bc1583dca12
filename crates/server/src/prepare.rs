//! Preparation of all servers: the configuration file, overridden by the command-line flags.

use super::flags::Flags;
use super::inherited_sockets;
use super::plan::Plan;
use anyhow::{Context, Result};

/// All servers of the command, ready to start.
pub struct Prepared {
    pub(crate) plan: Plan,
    pub(crate) flags: Flags,
}

/// Merges the configuration file and the command-line flags.
///
/// # Errors
///
/// Returns an error if a file cannot be read, or if the settings are invalid or contradict each
/// other.
pub fn prepare(flags: &Flags) -> Result<Prepared> {
    // First, because descriptors that are opened later have other numbers.
    inherited_sockets::receive().context("cannot use the sockets of the service manager")?;
    carrier::check_host_supported(&flags.via)?;
    Ok(Prepared { plan: Plan::load(flags)?, flags: flags.clone() })
}
