//! The destinations that a guest may reach.
//!
//! A guest is less trusted than its host. The host's sockets would carry a guest's connection to
//! every address that the host reaches: to services that listen on loopback, to the metadata
//! service of a cloud, to other machines of a private network. The default policy therefore permits
//! only addresses that the special-purpose registries (RFC 6890) list as globally reachable, and
//! those that they do not list.
//!
//! Rules of the user permit or deny further prefixes. The longest prefix that contains an address
//! decides, among the user's rules and the built-in ones together; a rule of the user wins over a
//! built-in one of the same length, and a denial over a permission. Permission for `0.0.0.0/0`
//! therefore permits no private address, and permission for `169.254.0.0/16` does not include the
//! metadata service. No rule permits the unspecified network, which the kernel takes for loopback,
//! nor multicast and broadcast. A rule for a prefix of IPv4-mapped addresses is one for the IPv4 prefix.
//!
//! An IPv6 address may embed an IPv4 address to which a translator or a tunnel forwards the datagram
//! (row 104 of the attack table). The address itself and every embedded one must be permitted:
//!
//! | form | prefix | embedded address |
//! |---|---|---|
//! | IPv4-mapped (RFC 4291 §2.5.5.2) | `::ffff:0:0/96` | bits 96 to 127; it replaces the address |
//! | IPv4-compatible (RFC 4291 §2.5.5.1) | `::/96` | bits 96 to 127 |
//! | IPv4-translated (RFC 2765 §2.1) | `::ffff:0:0:0/96` | bits 96 to 127 |
//! | NAT64 (RFC 6052 §2.1) | `64:ff9b::/96` | bits 96 to 127 |
//! | local NAT64 (RFC 8215) | `64:ff9b:1::/48` | one of the four positions of RFC 6052 §2.2 |
//! | 6to4 (RFC 3056 §2) | `2002::/16` | bits 16 to 47 |
//! | Teredo (RFC 4380 §4) | `2001::/32` | the server at bit 32, the client inverted at bit 96 |
//! | ISATAP (RFC 5214 §6.1) | any, with bits 64 to 95 `0000:5efe` to `0300:5efe` | bits 96 to 127 |
//!
//! The gateway's own addresses stand for the host's loopback address, if the settings permit it.
//! Further addresses may stand for others ([`Settings::mappings`]). Rules do not apply to them. Ports
//! are not considered.

#[cfg(test)]
mod tests;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Length of the prefix of IPv4-mapped addresses, in bits (RFC 4291 §2.5.5.2).
const MAPPED_BITS: u8 = 96;

/// Reasons why a guest may not reach a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// A rule of the user denies it.
    Rule,
    /// A loopback address, or the gateway's address without permission for the host's loopback.
    Loopback,
    /// The unspecified network: `0.0.0.0/8` and `::`.
    Unspecified,
    /// A link-local address.
    LinkLocal,
    /// The metadata service of a cloud.
    Metadata,
    /// A private network: RFC 1918, RFC 6598, or a unique local or site-local address.
    Private,
    /// A multicast group.
    Multicast,
    /// The limited broadcast address.
    Broadcast,
    /// An address that is reserved, or assigned to documentation or benchmarks.
    Reserved,
}

/// Refused destinations by reason, in new flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Denied by a rule of the user.
    pub rule: u64,
    /// Loopback addresses.
    pub loopback: u64,
    /// Addresses of the unspecified network.
    pub unspecified: u64,
    /// Link-local addresses.
    pub link_local: u64,
    /// Metadata services.
    pub metadata: u64,
    /// Private networks.
    pub private: u64,
    /// Multicast groups.
    pub multicast: u64,
    /// The limited broadcast address.
    pub broadcast: u64,
    /// Reserved addresses.
    pub reserved: u64,
}

impl Refused {
    /// Counts one refusal.
    pub fn count(&mut self, refusal: Refusal) {
        *match refusal {
            Refusal::Rule => &mut self.rule,
            Refusal::Loopback => &mut self.loopback,
            Refusal::Unspecified => &mut self.unspecified,
            Refusal::LinkLocal => &mut self.link_local,
            Refusal::Metadata => &mut self.metadata,
            Refusal::Private => &mut self.private,
            Refusal::Multicast => &mut self.multicast,
            Refusal::Broadcast => &mut self.broadcast,
            Refusal::Reserved => &mut self.reserved,
        } += 1;
    }
}

/// A rule of the user for the destinations of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    prefix: IpNet,
    is_permitted: bool,
}

/// Settings of a policy. The default permits no special address.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The addresses of the gateway on the guest's side.
    pub gateways: Vec<IpAddr>,
    /// Whether the gateway's addresses stand for the host's loopback addresses.
    pub permits_host_loopback: bool,
    /// Addresses that stand for another address of the host, each before that address.
    pub mappings: Vec<(IpAddr, IpAddr)>,
    /// The rules of the user, in any order.
    pub rules: Vec<Rule>,
}

/// Decides which destinations a guest may reach.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    settings: Settings,
    refused: Refused,
}

impl Policy {
    /// Returns a policy with these settings.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, refused: Refused::default() }
    }

    /// Returns the address to which the host connects for a guest's `destination`: the destination
    /// in its canonical form, or a loopback address for an address of the gateway. Counts a refusal.
    ///
    /// # Errors
    ///
    /// Returns the reason if the guest may not reach the destination.
    pub fn permit(&mut self, destination: IpAddr) -> Result<IpAddr, Refusal> {
        let result = self.check(destination);
        if let Err(refusal) = result {
            self.refused.count(refusal);
        }
        result
    }

    /// As [`Self::permit`], for an address with a port. The result has the same port, and neither
    /// flow information nor a scope.
    ///
    /// # Errors
    ///
    /// Returns the reason if the guest may not reach the destination.
    pub fn permit_socket(&mut self, destination: SocketAddr) -> Result<SocketAddr, Refusal> {
        let address = self.permit(destination.ip())?;
        Ok(SocketAddr::new(address, destination.port()))
    }

    /// As [`Self::permit`], without counting a refusal.
    ///
    /// # Errors
    ///
    /// Returns the reason if the guest may not reach the destination.
    pub fn check(&self, destination: IpAddr) -> Result<IpAddr, Refusal> {
        let destination = destination.to_canonical();
        if let Some((_, to)) = self.settings.mappings.iter().find(|(from, _)| *from == destination)
        {
            return Ok(*to);
        }
        if self.settings.gateways.contains(&destination) {
            return self.host_loopback(destination);
        }
        self.apply_rules(destination)?;
        if let IpAddr::V6(address) = destination {
            for embedded in embedded(address).into_iter().flatten() {
                self.check_embedded(embedded)?;
            }
        }
        Ok(destination)
    }

    /// Returns the destinations refused so far.
    #[must_use]
    pub fn refused(&self) -> Refused {
        self.refused
    }

    fn host_loopback(&self, gateway: IpAddr) -> Result<IpAddr, Refusal> {
        if !self.settings.permits_host_loopback {
            return Err(Refusal::Loopback);
        }
        match gateway {
            IpAddr::V4(_) => Ok(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(_) => Ok(Ipv6Addr::LOCALHOST.into()),
        }
    }

    /// Checks an embedded IPv4 address. The gateway's own address is not reachable in this form:
    /// the translator of another network has no relation to this gateway.
    fn check_embedded(&self, address: Ipv4Addr) -> Result<(), Refusal> {
        if self.settings.gateways.contains(&address.into()) {
            return Err(Refusal::Loopback);
        }
        self.apply_rules(address.into())
    }

    fn apply_rules(&self, address: IpAddr) -> Result<(), Refusal> {
        check_unconditional(address)?;
        let built_in = BUILT_IN.iter().filter(|rule| rule.prefix.contains(&address));
        let built_in = built_in.max_by_key(|rule| rule.prefix.prefix_len());
        let own = self.settings.rules.iter().filter(|rule| rule.prefix.contains(&address));
        let own = own.max_by_key(|rule| (rule.prefix.prefix_len(), !rule.is_permitted));
        match (own, built_in) {
            (Some(own), None) => own.result(),
            (Some(own), Some(built_in)) => {
                if own.prefix.prefix_len() >= built_in.prefix.prefix_len() {
                    own.result()
                } else {
                    built_in.result
                }
            }
            (None, Some(built_in)) => built_in.result,
            (None, None) => Ok(()),
        }
    }
}

impl Rule {
    /// Returns the rule that permits or denies the destinations of `prefix`. A prefix of IPv4-mapped
    /// addresses (RFC 4291 §2.5.5.2) becomes that of the IPv4 addresses, which replace the mapped
    /// ones before rules apply.
    #[must_use]
    pub fn new(prefix: IpNet, is_permitted: bool) -> Self {
        Self { prefix: canonical(prefix), is_permitted }
    }

    /// Returns the destinations in their canonical form.
    #[must_use]
    pub const fn prefix(&self) -> IpNet {
        self.prefix
    }

    /// Returns whether a guest may reach the destinations.
    #[must_use]
    pub const fn is_permitted(&self) -> bool {
        self.is_permitted
    }

    fn result(&self) -> Result<(), Refusal> {
        if self.is_permitted { Ok(()) } else { Err(Refusal::Rule) }
    }
}

/// Returns the IPv4 prefix of a prefix in `::ffff:0:0/96`, and any other prefix unchanged.
fn canonical(prefix: IpNet) -> IpNet {
    let IpNet::V6(mapped) = prefix else { return prefix };
    let v4 = mapped.addr().to_ipv4_mapped().zip(mapped.prefix_len().checked_sub(MAPPED_BITS));
    let v4 = v4.and_then(|(address, prefix_len)| Ipv4Net::new(address, prefix_len).ok());
    v4.map_or(prefix, IpNet::V4)
}

/// Refuses the addresses that no rule can permit.
fn check_unconditional(address: IpAddr) -> Result<(), Refusal> {
    let is_unspecified = match address {
        // Linux connects 0.0.0.0 to the local host. The rest of its network is not in use
        // (RFC 1122 §3.2.1.3).
        IpAddr::V4(v4) => matches!(v4.octets(), [0, ..]),
        IpAddr::V6(v6) => v6.is_unspecified(),
    };
    if is_unspecified {
        return Err(Refusal::Unspecified);
    }
    if address.is_multicast() {
        return Err(Refusal::Multicast);
    }
    if address == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return Err(Refusal::Broadcast);
    }
    Ok(())
}

/// Returns the IPv4 addresses that an IPv6 address may embed.
fn embedded(address: Ipv6Addr) -> [Option<Ipv4Addr>; 4] {
    let [_, _, o2, o3, o4, o5, o6, o7, _, o9, o10, o11, o12, o13, o14, o15] = address.octets();
    let last = Ipv4Addr::new(o12, o13, o14, o15);
    match address.segments() {
        // `::` and `::1` are in this prefix too, and embed nothing.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => [None; 4],
        [0, 0, 0, 0, 0 | 0xFFFF, 0, ..] | [0x64, 0xFF9B, 0, 0, 0, 0, ..] => {
            [Some(last), None, None, None]
        }
        [0x64, 0xFF9B, 1, ..] => {
            // RFC 6052 §2.2: prefixes of 48, 56, 64 and 96 bits. Octet 8 is never part of the
            // address. The length in use is unknown. A position in the unspecified network holds
            // no address.
            let positions = [
                Ipv4Addr::new(o6, o7, o9, o10),
                Ipv4Addr::new(o7, o9, o10, o11),
                Ipv4Addr::new(o9, o10, o11, o12),
                last,
            ];
            positions.map(|position| (position.to_bits() >> 24 != 0).then_some(position))
        }
        [0x2001, 0, ..] => {
            let server = Ipv4Addr::new(o4, o5, o6, o7);
            let client = Ipv4Addr::from_bits(!last.to_bits());
            [Some(server), Some(client), None, None]
        }
        [0x2002, ..] => [Some(Ipv4Addr::new(o2, o3, o4, o5)), isatap(address), None, None],
        _ => [isatap(address), None, None, None],
    }
}

/// Returns the IPv4 address in the interface identifier of an ISATAP address.
const fn isatap(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [_, _, _, _, flags, 0x5EFE, high, low] = address.segments() else { return None };
    // The bits "universal" and "group" of the identifier (RFC 4291 §2.5.1) may have any value.
    if flags & !0x0300 != 0 {
        return None;
    }
    Some(Ipv4Addr::from_bits((high as u32) << 16 | low as u32))
}

/// A built-in rule.
#[derive(Clone, Copy, Debug)]
struct BuiltIn {
    prefix: IpNet,
    result: Result<(), Refusal>,
}

const fn v4(octets: [u8; 4], prefix_len: u8, refusal: Refusal) -> BuiltIn {
    let [a, b, c, d] = octets;
    let prefix = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix_len));
    BuiltIn { prefix, result: Err(refusal) }
}

const fn v6(segments: [u16; 8], prefix_len: u8, result: Result<(), Refusal>) -> BuiltIn {
    let [a, b, c, d, e, f, g, h] = segments;
    let address = Ipv6Addr::new(a, b, c, d, e, f, g, h);
    BuiltIn { prefix: IpNet::V6(Ipv6Net::new_assert(address, prefix_len)), result }
}

/// The special-purpose registries of RFC 6890, without the prefixes that [`check_unconditional`]
/// refuses. Of IPv6, only global unicast addresses (RFC 4291 §2.4, `2000::/3`) and NAT64 are
/// permitted.
const BUILT_IN: [BuiltIn; 32] = [
    v4([10, 0, 0, 0], 8, Refusal::Private),
    v4([100, 64, 0, 0], 10, Refusal::Private),
    // Alibaba Cloud.
    v4([100, 100, 100, 200], 32, Refusal::Metadata),
    v4([127, 0, 0, 0], 8, Refusal::Loopback),
    // Azure, in a public range.
    v4([168, 63, 129, 16], 32, Refusal::Metadata),
    v4([169, 254, 0, 0], 16, Refusal::LinkLocal),
    // AWS, Google Cloud, Azure, OpenStack and others; and the credentials of AWS containers.
    v4([169, 254, 169, 254], 32, Refusal::Metadata),
    v4([169, 254, 170, 2], 32, Refusal::Metadata),
    v4([172, 16, 0, 0], 12, Refusal::Private),
    v4([192, 0, 0, 0], 24, Refusal::Reserved),
    // Oracle Cloud.
    v4([192, 0, 0, 192], 32, Refusal::Metadata),
    v4([192, 0, 2, 0], 24, Refusal::Reserved),
    v4([192, 88, 99, 0], 24, Refusal::Reserved),
    v4([192, 168, 0, 0], 16, Refusal::Private),
    v4([198, 18, 0, 0], 15, Refusal::Reserved),
    v4([198, 51, 100, 0], 24, Refusal::Reserved),
    v4([203, 0, 113, 0], 24, Refusal::Reserved),
    v4([240, 0, 0, 0], 4, Refusal::Reserved),
    v6([0; 8], 0, Err(Refusal::Reserved)),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, Err(Refusal::Loopback)),
    v6([0x64, 0xFF9B, 0, 0, 0, 0, 0, 0], 96, Ok(())),
    v6([0x64, 0xFF9B, 1, 0, 0, 0, 0, 0], 48, Err(Refusal::Private)),
    v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, Ok(())),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Err(Refusal::Reserved)),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, Ok(())),
    v6([0x2001, 0xDB8, 0, 0, 0, 0, 0, 0], 32, Err(Refusal::Reserved)),
    v6([0x3FFF, 0, 0, 0, 0, 0, 0, 0], 20, Err(Refusal::Reserved)),
    v6([0xFC00, 0, 0, 0, 0, 0, 0, 0], 7, Err(Refusal::Private)),
    // Google Cloud and AWS.
    v6([0xFD20, 0xCE, 0, 0, 0, 0, 0, 0x254], 128, Err(Refusal::Metadata)),
    v6([0xFD00, 0xEC2, 0, 0, 0, 0, 0, 0x254], 128, Err(Refusal::Metadata)),
    v6([0xFE80, 0, 0, 0, 0, 0, 0, 0], 10, Err(Refusal::LinkLocal)),
    v6([0xFEC0, 0, 0, 0, 0, 0, 0, 0], 10, Err(Refusal::Private)),
];
