//! Datagrams whose source this host does not accept.

use crate::meter::Counter;
use core::net::IpAddr;

/// Numbers of datagrams that were dropped because of their source, and the last source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceErrors {
    /// Datagrams of IPv4.
    pub ipv4: u64,
    /// Packets of IPv6.
    pub ipv6: u64,
    /// The source of the last one.
    pub last: Option<IpAddr>,
}

impl SourceErrors {
    /// Counts a dropped datagram if `reason` is its source.
    pub(super) fn count(&mut self, reason: Counter, source: IpAddr) {
        if reason == Counter::IpSourceErrors {
            match source {
                IpAddr::V4(_) => self.ipv4 += 1,
                IpAddr::V6(_) => self.ipv6 += 1,
            }
            self.last = Some(source);
        }
    }
}
