//! The network of the host, whose addresses and gateways a guest of pasta gets.

use os::interface::{Interface, InterfaceError};
use os::route::{self, DefaultRoute};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of the host and the gateway of its default route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostAddress<A> {
    pub(super) address: A,
    pub(super) prefix_bits: u8,
    /// `None` if all hosts are on the link.
    pub(super) gateway: Option<A>,
}

/// The network of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostNetwork {
    /// Name of the interface, that of IPv4 if the versions of IP have different ones.
    pub(super) interface: Option<String>,
    /// `None` without a default route or an address.
    pub(super) v4: Option<HostAddress<Ipv4Addr>>,
    /// `None` without a default route or a global address.
    pub(super) v6: Option<HostAddress<Ipv6Addr>>,
}

impl HostNetwork {
    /// Reads the network of the calling thread: the interfaces of the first default routes, or
    /// `interface`.
    ///
    /// # Errors
    ///
    /// Returns the error of reading /proc, and `NotFound` if `interface` does not exist.
    pub(super) fn read(interface: Option<&str>) -> io::Result<Self> {
        if let Some(name) = interface {
            let exists = Interface::named(name).and_then(|interface| interface.index());
            exists.map_err(|_| io::ErrorKind::NotFound)?;
        }
        let of_interface = |route: Option<DefaultRoute>| match interface {
            Some(name) => {
                let route = route.filter(|route| route.interface == name);
                Some((name.to_owned(), route.and_then(|route| route.gateway)))
            }
            None => route.map(|route| (route.interface, route.gateway)),
        };
        let route4 = of_interface(route::default4()?);
        let route6 = of_interface(route::default6()?);
        let v4 = route4.as_ref().and_then(|(name, gateway)| address4(name, *gateway));
        let v6 = route6.as_ref().and_then(|(name, gateway)| address6(name, *gateway));
        let name4 = route4.filter(|_| v4.is_some()).map(|(name, _)| name);
        let name6 = route6.filter(|_| v6.is_some()).map(|(name, _)| name);
        Ok(Self { interface: name4.or(name6), v4, v6 })
    }
}

fn address4(interface: &str, gateway: Option<IpAddr>) -> Option<HostAddress<Ipv4Addr>> {
    let addressing = Interface::named(interface).and_then(|interface| interface.address());
    let addressing = addressing.ok().flatten()?;
    let gateway = match gateway {
        Some(IpAddr::V4(gateway)) => Some(gateway),
        _ => None,
    };
    let prefix_bits = addressing.prefix_bits;
    Some(HostAddress { address: addressing.address, prefix_bits, gateway })
}

fn address6(interface: &str, gateway: Option<IpAddr>) -> Option<HostAddress<Ipv6Addr>> {
    let addresses: Result<_, InterfaceError> =
        Interface::named(interface).and_then(|interface| interface.addresses6());
    let is_global =
        |(address, _): &(Ipv6Addr, u8)| !address.is_unicast_link_local() && !address.is_loopback();
    let (address, prefix_bits) = addresses.ok()?.into_iter().find(is_global)?;
    let gateway = match gateway {
        Some(IpAddr::V6(gateway)) => Some(gateway),
        _ => None,
    };
    Some(HostAddress { address, prefix_bits, gateway })
}
