//! The host's addresses, and the selection among them (RFC 6724).
//!
//! A host has several addresses of both families, each with the length of its network's prefix and
//! the times until which it is preferred and valid (RFC 4862 §5.5.4). An address that is still
//! *tentative*, because another host may have it, is neither a source nor an accepted destination.
//! A *deprecated* address is used only by existing connections.
//!
//! The rules of RFC 6724 for features that a host with one link does not have are left out: home
//! addresses (rule 4), outgoing interfaces (rule 5), and native transports (destination rule 7).
//! The preference for temporary addresses (source rule 7) is left out as well, because this host
//! forms none. The policy table is the default one of RFC 6724 §2.1.

use crate::time::Instant;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::{IpAddr, Ipv6Addr};

/// Maximum number of addresses of one host.
pub const ADDRESSES_MAX: usize = 32;

/// A local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub address: IpAddr,
    /// Length of the network prefix, in bits.
    pub prefix_len: u8,
    /// State of the address.
    pub state: State,
    /// End of the preferred lifetime, after which new connections should use another address;
    /// `None` for no limit.
    pub preferred_until: Option<Instant>,
    /// End of the valid lifetime, after which the address is removed; `None` for no limit.
    pub valid_until: Option<Instant>,
}

/// States of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not usable yet: the host must check that no other host has the address.
    Tentative,
    /// Usable without restriction.
    Preferred,
    /// Usable only for communication that already uses the address.
    Deprecated,
}

/// Reasons why an address cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddError {
    /// The host has [`ADDRESSES_MAX`] addresses already.
    Full,
    /// The address is a multicast, broadcast, loopback or unspecified address.
    NotUnicast,
    /// The prefix is longer than the address.
    PrefixLength,
}

/// Scopes of addresses (RFC 4007, RFC 6724 §3.1), in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// This host or this interface only.
    Interface,
    /// This link.
    Link,
    /// Administratively defined; deprecated for unicast addresses.
    Admin,
    /// This site; deprecated for unicast addresses.
    Site,
    /// This organization; for groups only.
    Organization,
    /// Everywhere.
    Global,
}

impl Address {
    /// Returns an address that is preferred without a time limit.
    #[must_use]
    pub fn permanent(address: IpAddr, prefix_len: u8) -> Self {
        let preferred_until = None;
        let valid_until = None;
        Self { address, prefix_len, state: State::Preferred, preferred_until, valid_until }
    }
}

/// All addresses of the host.
#[derive(Debug, Default)]
pub struct Addresses {
    addresses: Vec<Address>,
}

impl Addresses {
    /// Adds an address, or replaces the existing entry.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is invalid or if the limit is reached.
    pub fn add(&mut self, address: Address) -> Result<(), AddError> {
        let (is_unicast, bits) = match address.address {
            IpAddr::V4(v4) => (!matches!(v4.octets(), [0 | 127 | 224..=255, ..]), 32),
            IpAddr::V6(v6) => {
                let is_none = v6.is_unspecified() || v6.is_loopback() || v6.is_multicast();
                (!is_none && v6.to_ipv4_mapped().is_none(), 128)
            }
        };
        if !is_unicast {
            return Err(AddError::NotUnicast);
        }
        if address.prefix_len > bits {
            return Err(AddError::PrefixLength);
        }
        if let Some(known) = self.addresses.iter_mut().find(|a| a.address == address.address) {
            *known = address;
            return Ok(());
        }
        if self.addresses.len() >= ADDRESSES_MAX {
            return Err(AddError::Full);
        }
        self.addresses.push(address);
        Ok(())
    }

    /// Removes an address, and returns whether the host had it.
    pub fn remove(&mut self, address: IpAddr) -> bool {
        let previous_len = self.addresses.len();
        self.addresses.retain(|known| known.address != address);
        self.addresses.len() < previous_len
    }

    /// Returns all addresses, in the order in which they were added.
    #[must_use]
    pub fn as_slice(&self) -> &[Address] {
        &self.addresses
    }

    /// Returns the entry of an address, if it is a local one.
    #[must_use]
    pub fn get(&self, address: IpAddr) -> Option<&Address> {
        self.addresses.iter().find(|known| known.address == address)
    }

    /// Returns whether an address is a local one at which datagrams are accepted.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.get(address).is_some_and(|known| known.state != State::Tentative)
    }

    /// Returns the earliest end of a preferred or valid lifetime.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let deadlines = self.addresses.iter().flat_map(|address| {
            let is_preferred = address.state == State::Preferred;
            [address.preferred_until.filter(|_| is_preferred), address.valid_until]
        });
        deadlines.flatten().min()
    }

    /// Removes the addresses whose valid lifetime has expired, and deprecates those whose preferred
    /// lifetime has expired.
    pub fn timeout(&mut self, now: Instant) {
        self.addresses.retain(|address| address.valid_until.is_none_or(|until| until > now));
        for address in &mut self.addresses {
            let is_expired = address.preferred_until.is_some_and(|until| until <= now);
            if is_expired && address.state == State::Preferred {
                address.state = State::Deprecated;
            }
        }
    }

    /// Returns the best source address for `destination` (RFC 6724 §5).
    #[must_use]
    pub fn source_for(&self, destination: IpAddr) -> Option<IpAddr> {
        let usable = self.addresses.iter().filter(|known| {
            known.state != State::Tentative && known.address.is_ipv4() == destination.is_ipv4()
        });
        // `min_by_key` returns the first of several addresses with the same rank.
        usable.min_by_key(|known| source_rank(known, destination)).map(|best| best.address)
    }

    /// Sorts the addresses of a destination into the order in which to try them (RFC 6724 §6). The
    /// sort is stable.
    pub fn sort_destinations(&self, destinations: &mut [IpAddr]) {
        destinations.sort_by_key(|destination| {
            let source = self.source_for(*destination);
            let source_address = source.and_then(|source| self.get(source));
            DestinationRank::new(*destination, source_address)
        });
    }
}

/// Returns the rank of a source address according to rules 1, 2, 3, 6 and 8 of RFC 6724 §5. The
/// lowest rank is the best.
fn source_rank(source: &Address, destination: IpAddr) -> impl Ord + use<> {
    let ours = scope(source.address);
    let theirs = scope(destination);
    // Rule 2: the smallest scope that is not smaller than the destination's. If there is none, the
    // largest scope.
    let scope_rank = match ours >= theirs {
        true => (false, ours as u8),
        false => (true, u8::MAX - ours as u8),
    };
    (
        source.address != destination,
        scope_rank,
        source.state == State::Deprecated,
        policy(source.address).label != policy(destination).label,
        Reverse(common_prefix_len(source.address, destination).min(source.prefix_len)),
    )
}

/// Rank of a destination address according to rules 1, 2, 3, 5, 6, 8 and 9 of RFC 6724 §6. The
/// lowest rank is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DestinationRank {
    has_no_source: bool,
    differs_in_scope: bool,
    has_deprecated_source: bool,
    differs_in_label: bool,
    precedence: Reverse<u8>,
    scope: Scope,
    /// Rule 9. It applies only between addresses of the same family; addresses of different
    /// families already differ in `precedence`.
    common_prefix_len: Reverse<u8>,
}

impl DestinationRank {
    fn new(destination: IpAddr, source: Option<&Address>) -> Self {
        let destination_policy = policy(destination);
        let destination_scope = scope(destination);
        let common = source.map_or(0, |source| {
            common_prefix_len(source.address, destination).min(source.prefix_len)
        });
        Self {
            has_no_source: source.is_none(),
            differs_in_scope: source.is_some_and(|s| scope(s.address) != destination_scope),
            has_deprecated_source: source.is_some_and(|s| s.state == State::Deprecated),
            differs_in_label: source
                .is_some_and(|s| policy(s.address).label != destination_policy.label),
            precedence: Reverse(destination_policy.precedence),
            scope: destination_scope,
            common_prefix_len: Reverse(common),
        }
    }
}

/// Returns the scope of an address.
#[must_use]
pub fn scope(address: IpAddr) -> Scope {
    match address {
        // IPv4 addresses have the scopes of RFC 6724 §3.2.
        IpAddr::V4(v4) if v4.is_loopback() || v4.is_link_local() => Scope::Link,
        IpAddr::V4(_) => Scope::Global,
        IpAddr::V6(v6) => match v6.octets() {
            [0xFF, flags_and_scope, ..] => match flags_and_scope & 0x0F {
                0 | 1 => Scope::Interface,
                2 => Scope::Link,
                3 | 4 => Scope::Admin,
                5..=7 => Scope::Site,
                8..=13 => Scope::Organization,
                _ => Scope::Global,
            },
            [0xFE, 0x80..=0xBF, ..] => Scope::Link,
            [0xFE, 0xC0..=0xFF, ..] => Scope::Site,
            _ if v6.is_loopback() => Scope::Link,
            _ => Scope::Global,
        },
    }
}

/// A row of the policy table.
#[derive(Clone, Copy, Debug)]
struct Policy {
    prefix: Ipv6Addr,
    prefix_len: u8,
    precedence: u8,
    label: u8,
}

const fn row(prefix: [u16; 8], prefix_len: u8, precedence: u8, label: u8) -> Policy {
    let [a, b, c, d, e, f, g, h] = prefix;
    Policy { prefix: Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix_len, precedence, label }
}

/// Default policy table (RFC 6724 §2.1), in descending order of prefix length.
const POLICIES: [Policy; 8] = [
    row([0, 0, 0, 0, 0, 0, 0, 1], 128, 50, 0),
    row([0, 0, 0, 0, 0, 0xFFFF, 0, 0], 96, 35, 4),
    row([0, 0, 0, 0, 0, 0, 0, 0], 96, 1, 3),
    row([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, 5, 5),
    row([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, 30, 2),
    row([0x3FFE, 0, 0, 0, 0, 0, 0, 0], 16, 1, 12),
    row([0xFEC0, 0, 0, 0, 0, 0, 0, 0], 10, 1, 11),
    row([0xFC00, 0, 0, 0, 0, 0, 0, 0], 7, 3, 13),
];
/// Policy of the addresses that match no row of the policy table.
const DEFAULT_POLICY: Policy = row([0; 8], 0, 40, 1);

fn policy(address: IpAddr) -> Policy {
    let address = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let covers =
        |policy: &&Policy| is_in_prefix(address.into(), policy.prefix.into(), policy.prefix_len);
    POLICIES.iter().find(covers).copied().unwrap_or(DEFAULT_POLICY)
}

/// Returns whether `address` starts with the first `prefix_len` bits of `prefix`.
pub(super) fn is_in_prefix(address: IpAddr, prefix: IpAddr, prefix_len: u8) -> bool {
    address.is_ipv4() == prefix.is_ipv4() && common_prefix_len(address, prefix) >= prefix_len
}

/// Returns the number of leading bits that two addresses have in common.
fn common_prefix_len(one: IpAddr, other: IpAddr) -> u8 {
    let bits = match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => 0,
    };
    u8::try_from(bits).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    const NOW: Instant = Instant::ZERO;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn ours(texts: &[&str]) -> Addresses {
        let mut addresses = Addresses::default();
        for text in texts {
            let (address, prefix_len) = text.split_once('/').unwrap();
            let address = Address::permanent(ip(address), prefix_len.parse().unwrap());
            addresses.add(address).unwrap();
        }
        addresses
    }

    fn source(ours_: &[&str], destination: &str) -> Option<IpAddr> {
        ours(ours_).source_for(ip(destination))
    }

    fn sorted(ours_: &[&str], destinations: &[&str]) -> Vec<IpAddr> {
        let mut destinations: Vec<IpAddr> = destinations.iter().map(|text| ip(text)).collect();
        ours(ours_).sort_destinations(&mut destinations);
        destinations
    }

    #[test]
    fn an_address_that_no_host_can_have_is_refused() {
        let mut addresses = Addresses::default();
        let results =
            ["0.0.0.0", "127.0.0.1", "224.0.0.1", "::", "::1", "ff02::1", "::ffff:1.2.3.4"]
                .map(|text| addresses.add(Address::permanent(ip(text), 8)));
        assert_eq!(results, [Err(AddError::NotUnicast); 7]);
        let too_long = addresses.add(Address::permanent(ip("10.0.0.1"), 33));
        assert_eq!(too_long, Err(AddError::PrefixLength));
    }

    #[test]
    fn the_thirty_third_address_is_refused() {
        let mut addresses = Addresses::default();
        let add = |n: u8| addresses.add(Address::permanent(IpAddr::from([10, 0, 0, n]), 24));
        assert!((1..=33).map(add).eq([[Ok(()); 32].as_slice(), &[Err(AddError::Full)]].concat()));
    }

    #[test]
    fn adding_an_address_again_replaces_its_entry() {
        let mut addresses = ours(&["10.0.0.1/24"]);
        addresses.add(Address::permanent(ip("10.0.0.1"), 8)).unwrap();
        assert_eq!(addresses.as_slice(), [Address::permanent(ip("10.0.0.1"), 8)]);
    }

    #[test]
    fn a_tentative_address_is_not_local_yet() {
        let mut addresses = Addresses::default();
        let tentative =
            Address { state: State::Tentative, ..Address::permanent(ip("fe80::1"), 64) };
        addresses.add(tentative).unwrap();
        assert!(!addresses.contains(ip("fe80::1")));
        assert_eq!(addresses.source_for(ip("fe80::2")), None);
    }

    #[test]
    fn an_address_with_an_expired_lifetime_is_removed() {
        let mut addresses = ours(&["10.0.0.1/24"]);
        let until = NOW + Duration::from_secs(10);
        let leased = Address { valid_until: Some(until), ..Address::permanent(ip("10.0.0.2"), 24) };
        addresses.add(leased).unwrap();
        assert_eq!(addresses.deadline(), Some(until));
        addresses.timeout(NOW + Duration::from_secs(9));
        assert_eq!(addresses.as_slice().len(), 2);
        addresses.timeout(until);
        assert_eq!((addresses.as_slice().len(), addresses.deadline()), (1, None));
    }

    // The examples of RFC 6724 §10.1.

    #[test]
    fn a_source_with_the_scope_of_the_destination_is_preferred() {
        let all = ["2001:db8:3::1/64", "fe80::1/64"];
        assert_eq!(source(&all, "2001:db8:1::1"), Some(ip("2001:db8:3::1")));
        assert_eq!(source(&all, "ff05::1"), Some(ip("2001:db8:3::1")));
        assert_eq!(source(&["fe80::2/64", "2001:db8:1::1/64"], "fe80::1"), Some(ip("fe80::2")));
    }

    #[test]
    fn the_destination_itself_is_the_best_source() {
        let all = ["fe80::1/64", "2001:db8:2::1/64"];
        assert_eq!(source(&all, "fe80::1"), Some(ip("fe80::1")));
    }

    #[test]
    fn the_source_with_the_longest_common_prefix_is_preferred() {
        let all = ["2001:db8:3::2/64", "2001:db8:1::2/64"];
        assert_eq!(source(&all, "2001:db8:1::1"), Some(ip("2001:db8:1::2")));
    }

    #[test]
    fn a_source_with_the_label_of_the_destination_is_preferred() {
        let all = ["2001:db8:1::2/64", "2002:c633:6401::d5e3:7953:13eb:22e8/64"];
        assert_eq!(source(&all, "2002:c633:6401::1"), Some(ip(all[1].split('/').next().unwrap())));
    }

    #[test]
    fn a_deprecated_source_is_used_only_if_there_is_no_other() {
        let mut addresses = ours(&["2001:db8:9::2/64"]);
        let deprecated = Address::permanent(ip("2001:db8:1::2"), 64);
        addresses.add(Address { preferred_until: Some(NOW), ..deprecated }).unwrap();
        assert_eq!(addresses.deadline(), Some(NOW));
        addresses.timeout(NOW);
        let theirs = ip("2001:db8:1::1");
        assert_eq!(addresses.source_for(theirs), Some(ip("2001:db8:9::2")));
        addresses.remove(ip("2001:db8:9::2"));
        assert_eq!(addresses.source_for(theirs), Some(ip("2001:db8:1::2")));
    }

    #[test]
    fn a_destination_has_a_source_of_its_own_family_or_none() {
        assert_eq!(source(&["10.0.0.1/24"], "2001:db8::1"), None);
        assert_eq!(source(&["2001:db8::1/64"], "10.0.0.1"), None);
    }

    // The examples of RFC 6724 §10.2.

    #[test]
    fn a_destination_with_the_scope_of_its_source_is_preferred() {
        let ours = ["2001:db8:1::2/64", "fe80::1/64", "169.254.13.78/16"];
        let order = sorted(&ours, &["198.51.100.121", "2001:db8:1::1"]);
        assert_eq!(order, [ip("2001:db8:1::1"), ip("198.51.100.121")]);
        let order =
            sorted(&["fe80::1/64", "198.51.100.117/24"], &["2001:db8:1::1", "198.51.100.121"]);
        assert_eq!(order, [ip("198.51.100.121"), ip("2001:db8:1::1")]);
    }

    #[test]
    fn ipv6_is_preferred_to_ipv4_by_precedence() {
        let ours = ["2001:db8:1::2/64", "10.1.2.4/24"];
        let order = sorted(&ours, &["10.1.2.3", "2001:db8:1::1"]);
        assert_eq!(order, [ip("2001:db8:1::1"), ip("10.1.2.3")]);
    }

    #[test]
    fn the_smaller_scope_is_preferred() {
        let ours = ["2001:db8:1::2/64", "fe80::2/64"];
        let order = sorted(&ours, &["2001:db8:1::1", "fe80::1"]);
        assert_eq!(order, [ip("fe80::1"), ip("2001:db8:1::1")]);
    }

    #[test]
    fn the_destination_with_the_longest_common_prefix_is_preferred() {
        let ours = ["2001:db8:1::2/64", "2001:db8:3f44::2/64", "fe80::2/64"];
        let order = sorted(&ours, &["2001:db8:3ffe::1", "2001:db8:1::1"]);
        assert_eq!(order, [ip("2001:db8:1::1"), ip("2001:db8:3ffe::1")]);
    }

    #[test]
    fn a_destination_without_a_source_comes_last_and_equals_keep_their_order() {
        let order = sorted(&["10.0.0.1/24"], &["2001:db8::1", "192.0.2.9", "192.0.2.8"]);
        assert_eq!(order, [ip("192.0.2.9"), ip("192.0.2.8"), ip("2001:db8::1")]);
    }

    #[test]
    fn a_teredo_destination_comes_after_ipv4() {
        let ours = ["2001:0:1::2/64", "2001:db8:1::2/64", "10.1.2.4/24"];
        let order = sorted(&ours, &["2001:0:9::1", "10.1.2.3"]);
        assert_eq!(order, [ip("10.1.2.3"), ip("2001:0:9::1")]);
    }
}
