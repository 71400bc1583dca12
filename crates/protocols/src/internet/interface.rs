//! Our address on the link, and what it makes of every other one (RFC 1122 §3.2.1.3).

use core::net::Ipv4Addr;

/// Our address and the length of its network's prefix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    address: Ipv4Addr,
    prefix_len: u8,
}

/// Whom a destination address means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// Us, and nobody else.
    Us,
    /// Everybody on our network, or the members of a group.
    Group,
    /// One other host.
    Other,
    /// Nobody: an address that may not stand in a destination on a link.
    Nobody,
}

impl Interface {
    /// Takes an address, 0.0.0.0 if it is not known yet, and a prefix length of up to 32 bits.
    pub(super) fn new(address: Ipv4Addr, prefix_len: u8) -> Self {
        Self { address, prefix_len: prefix_len.min(32) }
    }

    pub(super) fn address(&self) -> Ipv4Addr {
        self.address
    }

    pub(super) fn has_address(&self) -> bool {
        !self.address.is_unspecified()
    }

    pub(super) fn audience(&self, destination: Ipv4Addr) -> Audience {
        if destination == self.address && self.has_address() {
            Audience::Us
        } else if destination.is_multicast() || self.is_broadcast(destination) {
            Audience::Group
        } else if is_reserved(destination) {
            Audience::Nobody
        } else {
            Audience::Other
        }
    }

    /// Returns whether a datagram from the link may have this source: one other host.
    pub(super) fn may_be_source(&self, source: Ipv4Addr) -> bool {
        self.audience(source) == Audience::Other
    }

    /// Returns whether everybody is meant: the limited broadcast address, or ours with all ones
    /// or (as 4.2BSD did, RFC 1122 §3.3.6) all zeros in place of the host.
    fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        // A network of one or two addresses has none to spare (RFC 3021).
        let has_broadcast = self.has_address() && self.prefix_len < 31;
        let hosts = u32::MAX.checked_shr(u32::from(self.prefix_len)).unwrap_or(0);
        let ours = self.address.to_bits();
        address.is_broadcast()
            || has_broadcast && [ours | hosts, ours & !hosts].contains(&address.to_bits())
    }
}

/// Returns whether no host on a link may have the address: "this" network, loopback, class E.
fn is_reserved(address: Ipv4Addr) -> bool {
    matches!(address.octets(), [0 | 127 | 240..=255, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    #[test]
    fn the_broadcast_addresses_of_our_network_mean_a_group() {
        let interface = Interface::new(OURS, 24);
        let groups = [[10, 0, 0, 255], [10, 0, 0, 0], [255; 4], [224, 0, 0, 1]];
        assert!(groups.iter().all(|a| interface.audience((*a).into()) == Audience::Group));
    }

    #[test]
    fn the_broadcast_address_of_another_network_means_one_other_host() {
        let interface = Interface::new(OURS, 24);
        assert_eq!(interface.audience(Ipv4Addr::new(10, 0, 1, 255)), Audience::Other);
    }

    #[test]
    fn a_network_of_two_addresses_has_no_broadcast_address() {
        let interface = Interface::new(OURS, 31);
        assert!(interface.may_be_source(Ipv4Addr::new(10, 0, 0, 0)));
    }

    #[test]
    fn a_prefix_of_32_bits_and_one_of_none_are_both_possible() {
        let other = Ipv4Addr::new(10, 0, 0, 2);
        assert!(Interface::new(OURS, 32).may_be_source(other));
        assert!(Interface::new(OURS, 0).may_be_source(other));
    }

    #[test]
    fn without_an_address_nothing_is_for_us() {
        let interface = Interface::new(Ipv4Addr::UNSPECIFIED, 0);
        assert_eq!(interface.audience(Ipv4Addr::UNSPECIFIED), Audience::Nobody);
    }
}
