//! The messages of `plumb gateway` about its guests at the start: names, addresses, and notices about
//! destinations that a guest cannot reach.

use crate::guest_network::GuestNetwork;
use gateway::policy::Rule;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use os::outbound::Outbound;
use os::ping_socket::{PingSocket, PingSocketError};
use std::fmt;

/// Length of the prefix of an IPv6 network, in bits.
const PREFIX6_BITS: u8 = 64;

/// A guest and its network.
#[derive(Clone, Debug)]
pub struct GuestSummary {
    /// The name of the guest in requests and metrics.
    pub name: String,
    network: GuestNetwork,
}

impl GuestSummary {
    /// Creates the summary of a guest.
    pub(crate) fn new(name: &str, network: &GuestNetwork) -> Self {
        Self { name: name.to_owned(), network: network.clone() }
    }

    /// Returns the networks of the guest.
    fn networks(&self) -> impl Iterator<Item = IpNet> {
        let v4 = self.network.v4.and_then(|v4| Ipv4Net::new(v4.guest, v4.prefix_bits).ok());
        let v6 = self.network.v6.and_then(|v6| Ipv6Net::new(v6.prefix, PREFIX6_BITS).ok());
        v4.map(|net| IpNet::from(net.trunc())).into_iter().chain(v6.map(IpNet::from))
    }

    /// Returns a notice for each permitted prefix that is a part of a network of the guest, which the
    /// guest looks for on its own link and not at the gateway.
    pub(crate) fn notices(&self, rules: &[Rule]) -> Vec<String> {
        let permitted = rules.iter().filter(|rule| rule.is_permitted()).map(Rule::prefix);
        let unreachable = permitted.filter_map(|prefix| {
            let network = self.networks().find(|network| network.contains(&prefix))?;
            let remedy = match network {
                IpNet::V4(_) => ": choose another with address=",
                IpNet::V6(_) => "",
            };
            let name = &self.name;
            Some(format!("{name} cannot reach {prefix}: its own network is {network}{remedy}"))
        });
        unreachable.collect()
    }
}

impl fmt::Display for GuestSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.name)?;
        if let Some(v4) = self.network.v4 {
            write!(f, " {}, gateway {}", v4.guest, v4.gateway)?;
            if let Some(dns) = v4.dns {
                write!(f, ", DNS {dns}")?;
            }
        }
        if let Some(v6) = self.network.v6 {
            write!(f, "; {}/{PREFIX6_BITS}, gateway {}", v6.prefix, v6.gateway)?;
            if let Some(dns) = v6.dns {
                write!(f, ", DNS {dns}")?;
            }
        }
        Ok(())
    }
}

/// Returns the names of guests: the text with which each was given, without its settings if that is
/// the name of one guest only.
pub(crate) fn names(texts: &[&str]) -> Vec<String> {
    let target = |text: &str| text.split_once('?').map_or(text, |(target, _)| target).to_owned();
    let is_unique =
        |name: &String| texts.iter().filter(|other| target(other) == *name).count() == 1;
    let name = |text: &&str| Some(target(text)).filter(is_unique).unwrap_or((*text).to_owned());
    texts.iter().map(name).collect()
}

/// Returns a notice if this host does not permit the sockets by which guests ping.
pub(crate) fn ping_notice() -> Option<String> {
    let error = PingSocket::open(true, 0, &Outbound::default()).err()?;
    matches!(error, PingSocketError::NotPermitted).then(|| format!("guests cannot ping: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_settings_only_if_another_guest_has_the_same_target() {
        let texts = ["pid:7?tap=a", "pid:7?tap=b", "pid:8?rate=2mbit", "qemu:/tmp/vm.sock"];
        let expected = ["pid:7?tap=a", "pid:7?tap=b", "pid:8", "qemu:/tmp/vm.sock"];
        assert_eq!(names(&texts), expected);
    }
}
