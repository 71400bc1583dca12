//! Local addresses of a station.

use anyhow::{Context, Result, bail};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Local addresses as specified by the user, each with its prefix length in bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalAddresses {
    /// IPv4 address.
    pub(super) ipv4: Option<(Ipv4Addr, u8)>,
    /// IPv6 address.
    pub(super) ipv6: Option<(Ipv6Addr, u8)>,
}

impl LocalAddresses {
    /// Parses an address with its prefix length, by default 24 for IPv4 and 64 for IPv6.
    pub(super) fn parse_and_set(&mut self, text: &str) -> Result<()> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len)),
            None => (text, None),
        };
        let prefix_len = |default_len: u8, most: u8| match len {
            None => Ok(default_len),
            Some(len) => len.parse().ok().filter(|len| *len <= most).with_context(|| {
                format!("'{}' needs a prefix length from 0 to {most}", text.escape_debug())
            }),
        };
        match address.parse() {
            Ok(IpAddr::V4(ipv4)) => self.ipv4 = Some((ipv4, prefix_len(24, 32)?)),
            Ok(IpAddr::V6(ipv6)) => self.ipv6 = Some((ipv6, prefix_len(64, 128)?)),
            Err(_) => bail!("invalid address '{}': use the form 10.0.0.2/24", text.escape_debug()),
        }
        Ok(())
    }
}
