//! Routes to single addresses (rtnetlink(7)): through an interface without a gateway, and the route
//! that the kernel selects.

use crate::interface::{Interface, InterfaceError};
use crate::netlink::{self, Request};
use rustix::io::Errno;
use std::io;
use std::net::IpAddr;

/// Adds a route to the network of `address` with `prefix_bits` bits through `interface`, without a
/// gateway, in the calling thread's network namespace. The kernel removes it together with the
/// interface.
///
/// # Errors
///
/// Returns [`InterfaceError::Refused`] with EEXIST if there is a route to the network already, and
/// with ENETDOWN while the interface is down.
pub fn add(interface: &Interface, address: IpAddr, prefix_bits: u8) -> Result<(), InterfaceError> {
    let mut message = Request::new(RTM_NEWROUTE, netlink::CREATE);
    message.push(&[netlink::family_of(address), prefix_bits, 0, 0]);
    message.push(&[RT_TABLE_MAIN, netlink::PROTOCOL, RT_SCOPE_LINK, RTN_UNICAST]);
    message.push(&[0; 4]);
    message.address_attribute(RTA_DST, address);
    message.attribute(RTA_OIF, &interface.index()?.to_ne_bytes());
    message.send().map_err(|error| interface.error_for(error))
}

/// The route that the kernel selects for a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectedRoute {
    /// Whether the destination is an address of this host.
    pub is_local: bool,
    /// Index of the interface, if the route has one.
    pub interface_index: Option<u32>,
}

/// Returns the route to `destination` in the calling thread's network namespace, or `None` if there
/// is none.
///
/// # Errors
///
/// Returns the error of the netlink socket.
pub fn to(destination: IpAddr) -> io::Result<Option<SelectedRoute>> {
    let mut message = Request::new(RTM_GETROUTE, 0);
    let bits = if destination.is_ipv4() { 32 } else { 128 };
    message.push(&[netlink::family_of(destination), bits, 0, 0]);
    message.push(&[0; 8]);
    message.address_attribute(RTA_DST, destination);
    let replies = match message.ask() {
        Err(Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ACCESS | Errno::INVAL) => {
            return Ok(None);
        }
        replies => replies?,
    };
    let route = replies.into_iter().find(|(kind, _)| *kind == RTM_NEWROUTE);
    Ok(route.and_then(|(_, contents)| {
        let interface = netlink::find_attribute(contents.get(RTMSG_LEN..)?, RTA_OIF);
        let interface_index =
            interface.and_then(|index| Some(u32::from_ne_bytes(index.try_into().ok()?)));
        Some(SelectedRoute {
            is_local: contents.get(RTM_TYPE_AT) == Some(&RTN_LOCAL),
            interface_index,
        })
    }))
}

// <linux/rtnetlink.h>
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RT_TABLE_MAIN: u8 = 254;
const RT_SCOPE_LINK: u8 = 253;
const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;
const RTMSG_LEN: usize = 12;
const RTM_TYPE_AT: usize = 7;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_new_network;
    use crate::tun::Tun;

    #[test]
    fn a_route_to_one_address_is_selected_until_its_interface_is_gone() {
        in_new_network(|| {
            let tun = Tun::open(Some("plumb0")).unwrap();
            let interface = Interface::named(tun.name()).unwrap();
            interface.bring_up().unwrap();
            let index = interface.index().unwrap();
            for (address, bits) in [("192.0.2.1", 32), ("2001:db8::1", 128)] {
                let address = address.parse().unwrap();
                assert_eq!(to(address).unwrap(), None);
                add(&interface, address, bits).unwrap();
                let selected = SelectedRoute { is_local: false, interface_index: Some(index) };
                assert_eq!(to(address).unwrap(), Some(selected));
                let error = add(&interface, address, bits).unwrap_err();
                assert!(matches!(error, InterfaceError::Refused(_, _)), "{error}");
            }
            assert!(to(std::net::Ipv4Addr::LOCALHOST.into()).unwrap().unwrap().is_local);
            drop(tun);
            assert_eq!(to("192.0.2.1".parse().unwrap()).unwrap(), None);
        });
    }
}
