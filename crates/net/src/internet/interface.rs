//! The host's addresses on the link, and the classification of all other addresses (RFC 1122
//! §3.2.1.3, RFC 4291).

use super::addresses::Addresses;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum number of joined groups, without those that every host belongs to.
pub(super) const GROUPS_MAX: usize = 32;

/// The host's addresses and the groups that it has joined.
#[derive(Debug, Default)]
pub(super) struct Interface {
    pub(super) addresses: Addresses,
    groups: Vec<IpAddr>,
    /// If this host also acts for the unicast addresses of other hosts, the networks of the hosts
    /// that may send to it.
    pub(super) transparent_for: Option<Vec<(IpAddr, u8)>>,
}

/// The hosts that a destination address denotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DestinationKind {
    /// This host only.
    Local,
    /// All hosts on the local network, or the members of a group.
    Group,
    /// One other host.
    Other,
    /// No host, because no host on a link may have the address.
    Invalid,
}

impl Interface {
    /// Returns the kind of a destination.
    pub(super) fn destination_kind(&self, destination: IpAddr) -> DestinationKind {
        if self.addresses.contains(destination) {
            return DestinationKind::Local;
        }
        let (is_group, is_reserved) = match destination {
            IpAddr::V4(v4) => (v4.is_multicast() || self.is_broadcast(v4), is_reserved_v4(v4)),
            IpAddr::V6(v6) => (v6.is_multicast(), is_reserved_v6(v6)),
        };
        match (is_group, is_reserved) {
            (true, _) => DestinationKind::Group,
            (false, true) => DestinationKind::Invalid,
            (false, false) => DestinationKind::Other,
        }
    }

    /// Returns whether this host acts for `address`, the address of another host.
    pub(super) fn is_transparent_for(&self, address: IpAddr) -> bool {
        self.transparent_for.is_some() && self.destination_kind(address) == DestinationKind::Other
    }

    /// Returns whether a datagram from the link may have this source: a unicast address of another
    /// host.
    pub(super) fn may_be_source(&self, source: IpAddr) -> bool {
        let is_expected = self.transparent_for.as_ref().is_none_or(|networks| {
            networks.iter().any(|(prefix, len)| is_in(source, *prefix, *len))
        });
        is_expected && self.destination_kind(source) == DestinationKind::Other
    }

    /// Returns whether this host is in a group, or receives a broadcast address.
    pub(super) fn is_member(&self, group: IpAddr) -> bool {
        let is_all_hosts = match group {
            IpAddr::V4(v4) => v4 == Ipv4Addr::new(224, 0, 0, 1) || !v4.is_multicast(),
            // RFC 4291 §2.8: all nodes, and the solicited-node groups of all local addresses.
            IpAddr::V6(v6) => match v6.segments() {
                [0xFF01 | 0xFF02, 0, 0, 0, 0, 0, 0, 1] => true,
                [0xFF02, 0, 0, 0, 0, 1, 0xFF00..=0xFFFF, _] => self.is_solicited(v6),
                _ => false,
            },
        };
        is_all_hosts || self.groups.contains(&group)
    }

    /// Joins a group, and returns whether the host is a member.
    pub(super) fn join(&mut self, group: IpAddr) -> bool {
        if !group.is_multicast() || self.groups.len() >= GROUPS_MAX {
            return self.groups.contains(&group);
        }
        self.leave(group);
        self.groups.push(group);
        true
    }

    pub(super) fn leave(&mut self, group: IpAddr) {
        self.groups.retain(|known| *known != group);
    }

    /// Returns whether the last 24 bits of a group are those of a local address. Tentative
    /// addresses count too, so that this host detects another host that probes for the same
    /// address.
    fn is_solicited(&self, group: Ipv6Addr) -> bool {
        const LAST_24: u128 = 0x00FF_FFFF;
        self.addresses.as_slice().iter().any(|ours| match ours.address {
            IpAddr::V4(_) => false,
            IpAddr::V6(ours) => (ours.to_bits() ^ group.to_bits()) & LAST_24 == 0,
        })
    }

    /// Returns whether an address is the limited broadcast address or the broadcast address of a
    /// local network. All zeros in the host part count as broadcast too, as in 4.2BSD (RFC 1122
    /// §3.3.6).
    fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        let is_directed = self.addresses.as_slice().iter().any(|ours| match ours.address {
            // A network of one or two addresses has no broadcast address (RFC 3021).
            IpAddr::V4(v4) if ours.prefix_len < 31 => {
                let hosts = u32::MAX.checked_shr(u32::from(ours.prefix_len)).unwrap_or(0);
                let v4 = v4.to_bits();
                let address = address.to_bits();
                address == v4 | hosts || address == v4 & !hosts
            }
            _ => false,
        });
        address.is_broadcast() || is_directed
    }
}

/// Returns whether the first `len` bits of an address are those of `prefix`.
fn is_in(address: IpAddr, prefix: IpAddr, len: u8) -> bool {
    match (address, prefix) {
        (IpAddr::V4(address), IpAddr::V4(prefix)) => {
            let differing = address.to_bits() ^ prefix.to_bits();
            differing.leading_zeros() >= u32::from(len)
        }
        (IpAddr::V6(address), IpAddr::V6(prefix)) => {
            let differing = address.to_bits() ^ prefix.to_bits();
            differing.leading_zeros() >= u32::from(len)
        }
        _ => false,
    }
}

/// Returns whether no host on a link may have the address: "this" network, loopback, class E.
fn is_reserved_v4(address: Ipv4Addr) -> bool {
    matches!(address.octets(), [0 | 127 | 240..=255, ..])
}

/// Returns whether an address is unspecified, loopback, or an embedded IPv4 address (RFC 4942
/// §2.2). No host on a link may have such an address.
fn is_reserved_v6(address: Ipv6Addr) -> bool {
    address.is_unspecified() || address.is_loopback() || address.to_ipv4_mapped().is_some()
}

#[cfg(test)]
mod tests {
    use super::super::addresses::{Address, State};
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn interface_with(address: &str, prefix_len: u8) -> Interface {
        let mut interface = Interface::default();
        interface.addresses.add(Address::permanent(ip(address), prefix_len)).unwrap();
        interface
    }

    // req RFC1122:3.3.6-MUST-1
    #[test]
    fn the_broadcast_addresses_of_our_network_mean_a_group() {
        let interface = interface_with("10.0.0.1", 24);
        let groups = ["10.0.0.255", "10.0.0.0", "255.255.255.255", "224.0.0.1"];
        assert!(
            groups
                .iter()
                .all(|group| interface.destination_kind(ip(group)) == DestinationKind::Group)
        );
    }

    #[test]
    fn the_broadcast_address_of_another_network_means_one_other_host() {
        assert_eq!(
            interface_with("10.0.0.1", 24).destination_kind(ip("10.0.1.255")),
            DestinationKind::Other
        );
    }

    #[test]
    fn a_network_of_two_addresses_has_no_broadcast_address() {
        assert!(interface_with("10.0.0.1", 31).may_be_source(ip("10.0.0.0")));
    }

    // req RFC1122:3.2.1.3-MUST-1, RFC1122:3.2.2.9-MUST-2
    #[test]
    fn prefixes_of_32_and_0_bits_are_accepted() {
        assert!(interface_with("10.0.0.1", 32).may_be_source(ip("10.0.0.2")));
        assert!(interface_with("10.0.0.1", 0).may_be_source(ip("10.0.0.2")));
    }

    #[test]
    fn without_an_address_no_destination_is_local() {
        let destination_kind = Interface::default().destination_kind(ip("0.0.0.0"));
        assert_eq!(destination_kind, DestinationKind::Invalid);
    }

    #[test]
    fn each_of_several_addresses_of_both_families_is_ours() {
        let mut interface = interface_with("10.0.0.1", 24);
        for address in ["10.0.0.2", "2001:db8::1", "fe80::1"] {
            interface.addresses.add(Address::permanent(ip(address), 24)).unwrap();
        }
        let all = ["10.0.0.1", "10.0.0.2", "2001:db8::1", "fe80::1"];
        assert!(
            all.iter().all(|ours| interface.destination_kind(ip(ours)) == DestinationKind::Local)
        );
        assert_eq!(interface.destination_kind(ip("2001:db8::2")), DestinationKind::Other);
    }

    #[test]
    fn no_host_on_a_link_has_a_loopback_or_mapped_ipv6_address() {
        let interface = interface_with("2001:db8::1", 64);
        let invalid =
            ["::", "::1", "::ffff:10.0.0.1"].map(|text| interface.destination_kind(ip(text)));
        assert_eq!(invalid, [DestinationKind::Invalid; 3]);
    }

    #[test]
    fn a_host_is_in_the_solicited_node_group_even_of_a_tentative_address() {
        let mut interface = Interface::default();
        let address = Address::permanent(ip("fe80::1:2345:6789"), 64);
        interface.addresses.add(Address { state: State::Tentative, ..address }).unwrap();
        let member = ["ff02::1:ff45:6789", "ff02::1", "ff02::1:ff45:6788", "ff02::2"]
            .map(|group| interface.is_member(ip(group)));
        assert_eq!(member, [true, true, false, false]);
    }

    #[test]
    fn a_group_is_joined_and_left() {
        let mut interface = interface_with("10.0.0.1", 24);
        let group = ip("239.1.2.3");
        let was_member = interface.is_member(group);
        assert!(interface.join(group));
        let joined = interface.is_member(group);
        interface.leave(group);
        assert_eq!((was_member, joined, interface.is_member(group)), (false, true, false));
        assert!(!interface.join(ip("10.0.0.2")));
    }

    #[test]
    fn every_host_is_in_the_group_of_all_hosts_and_not_in_that_of_all_routers() {
        let interface = interface_with("10.0.0.1", 24);
        let member = ["224.0.0.1", "224.0.0.2"].map(|group| interface.is_member(ip(group)));
        assert_eq!(member, [true, false]);
    }

    #[test]
    fn a_group_that_is_joined_again_occupies_one_entry() {
        let mut interface = interface_with("10.0.0.1", 24);
        (0..GROUPS_MAX).for_each(|_| assert!(interface.join(ip("239.1.2.3"))));
        assert!(interface.join(ip("239.1.2.4")));
        assert_eq!(interface.groups.len(), 2);
    }
}
