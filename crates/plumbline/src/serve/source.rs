//! Which addresses count as one source of connections.

use std::net::IpAddr;

/// Returns what counts as one source: an IPv4 address, or the 64 bits that one site of IPv6 has.
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
