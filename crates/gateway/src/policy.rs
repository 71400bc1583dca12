//! Placeholder.
use std::net::IpAddr;

/// Decides which destinations a guest may reach.
#[derive(Debug, Default)]
pub struct Policy {}

/// Why a destination is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The destination is not allowed.
    Denied,
}

impl Policy {
    /// Returns the address at which the host reaches `destination`.
    ///
    /// # Errors
    ///
    /// Returns why the guest may not reach it.
    pub fn permit(&self, destination: IpAddr) -> Result<IpAddr, Refusal> {
        Ok(destination)
    }
}
