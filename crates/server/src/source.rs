//! Grouping of addresses into sources of connections.

use std::net::IpAddr;

/// Returns the source of an address: an IPv4 address itself, or the /64 prefix of an IPv6 address.
pub(super) fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mut octets = address.octets();
            octets.iter_mut().skip(8).for_each(|octet| *octet = 0);
            IpAddr::from(octets)
        }
        address => address,
    }
}
