//! Settings of a router, and the check of a line that is added.

use super::icmp_error::is_routable;
use super::line::LineSettings;
use net::internet::ipv6;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Minimum MTU of a line: every IPv4 link carries fragments of 68 bytes (RFC 791 §3.2).
const MTU_MIN: usize = 68;
/// Maximum MTU: the longest datagram.
const MTU_MAX: usize = 65_535;

/// Settings of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterSettings {
    /// IPv4 address of the router on all lines.
    pub address: Ipv4Addr,
    /// IPv6 address of the router on all lines. Without it, no ICMPv6 errors are sent.
    pub address_v6: Option<Ipv6Addr>,
    /// MTU of the host output, in bytes.
    pub host_mtu: usize,
    /// MTU of the longest line, in bytes.
    pub line_mtu_max: usize,
    /// Maximum number of lines.
    pub lines_max: usize,
    /// Maximum number of packets of all lines and of the host together.
    pub packets_max: usize,
}

impl Default for RouterSettings {
    fn default() -> Self {
        Self {
            address: Ipv4Addr::new(10, 0, 0, 1),
            address_v6: None,
            host_mtu: 1_500,
            line_mtu_max: 1_500,
            lines_max: 16,
            packets_max: 4_096,
        }
    }
}

/// Reasons why a line cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddLineError {
    /// The router has the maximum number of lines.
    TooManyLines,
    /// Another line or the router has the address, or an overlapping prefix.
    AddressInUse,
    /// The address cannot be the address of a host.
    Address,
    /// The MTU is not permitted.
    Mtu,
}

impl fmt::Display for AddLineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooManyLines => "the router has its maximum number of lines",
            Self::AddressInUse => "the address or the prefix is in use",
            Self::Address => "the address is not a unicast address of a host",
            Self::Mtu => "the MTU is below 68 bytes (IPv6: 1280 bytes) or above the maximum",
        })
    }
}

impl std::error::Error for AddLineError {}

impl RouterSettings {
    /// Returns the share of the packet buffers for one queue. The shares of all queues together
    /// leave buffers for packets that are being received.
    pub(super) fn queue_packets(&self) -> usize {
        (self.packets_max / (self.lines_max + 3)).max(1)
    }

    /// Returns the length of a packet buffer.
    pub(super) fn buffer_len(&self) -> usize {
        self.host_mtu.max(self.line_mtu_max)
    }

    /// Checks the settings of a line, except for conflicts with other lines.
    pub(super) fn check(&self, line: &LineSettings) -> Result<(), AddLineError> {
        let mtu_min = if line.prefix.is_some() { usize::from(ipv6::MTU_MIN) } else { MTU_MIN };
        if !(mtu_min..=self.line_mtu_max.min(MTU_MAX)).contains(&line.mtu) {
            return Err(AddLineError::Mtu);
        }
        let is_prefix_usable = line
            .prefix
            .is_none_or(|(prefix, len)| (3..=128).contains(&len) && is_routable(prefix.into()));
        if !is_routable(line.address.into()) || !is_prefix_usable {
            return Err(AddLineError::Address);
        }
        if line.address == self.address {
            return Err(AddLineError::AddressInUse);
        }
        Ok(())
    }
}
