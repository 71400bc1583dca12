//! Proxy entries of the neighbor table: addresses for which an interface answers ARP requests
//! (RFC 1027) and Neighbor Solicitations (RFC 4861 §7.2.8), rtnetlink(7).
//!
//! The kernel answers ARP only if the interface forwards IPv4 and the route to the address leads to
//! another interface. It answers Neighbor Solicitations only if the interface forwards IPv6 and its
//! setting `proxy_ndp` is 1; the route does not matter. An entry stays until it is removed, or until
//! its interface is gone.

use crate::interface::{Interface, InterfaceError};
use crate::interface_route;
use crate::netlink::{self, Request};
use rustix::io::Errno;
use std::io;
use std::net::IpAddr;

/// Makes `interface` answer for `address`. An existing entry is kept.
///
/// # Errors
///
/// Returns [`InterfaceError::NotPermitted`] without CAP_NET_ADMIN.
pub fn add(interface: &Interface, address: IpAddr) -> Result<(), InterfaceError> {
    let mut message = request(RTM_NEWNEIGH, netlink::CREATE, interface.index()?, address);
    message.attribute(NDA_PROTOCOL, &[netlink::PROTOCOL]);
    message.send().map_err(|error| interface.error_for(error))
}

/// Removes the entry of `address`. An absent entry is not an error.
///
/// # Errors
///
/// Returns [`InterfaceError::NotPermitted`] without CAP_NET_ADMIN.
pub fn remove(interface: &Interface, address: IpAddr) -> Result<(), InterfaceError> {
    match request(RTM_DELNEIGH, 0, interface.index()?, address).send() {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(interface.error_for(error)),
    }
}

/// Returns the addresses of the entries that [`add`] has made at `interface` and for which no route
/// leads to another interface: their owner has ended without removing them.
///
/// # Errors
///
/// Returns the error of a netlink socket.
pub fn abandoned(interface: &Interface) -> Result<Vec<IpAddr>, InterfaceError> {
    let index = interface.index()?;
    let mut message = Request::new(RTM_GETNEIGH, netlink::DUMP);
    message.push(&[0; NDMSG_FLAGS_AT]);
    message.push(&[NTF_PROXY, 0]);
    let replies = message.ask().map_err(|error| interface.error_for(error))?;
    let addresses = replies.iter().filter(|(kind, _)| *kind == RTM_NEWNEIGH);
    let addresses = addresses.filter_map(|(_, contents)| own_address(contents, index));
    let leads_elsewhere = |address: IpAddr| -> io::Result<bool> {
        let route = interface_route::to(address)?;
        Ok(route.and_then(|route| route.interface_index).is_some_and(|other| other != index))
    };
    let mut abandoned = Vec::new();
    for address in addresses {
        if !leads_elsewhere(address).map_err(InterfaceError::Other)? {
            abandoned.push(address);
        }
    }
    Ok(abandoned)
}

/// Returns the address of an entry of [`add`] at the interface `index`.
fn own_address(contents: &[u8], index: u32) -> Option<IpAddr> {
    let (head, attributes) = contents.split_first_chunk::<NDMSG_LEN>()?;
    let [_, _, _, _, index0, index1, index2, index3, ..] = *head;
    let protocol = netlink::find_attribute(attributes, NDA_PROTOCOL);
    let is_own = u32::from_ne_bytes([index0, index1, index2, index3]) == index
        && head.get(NDMSG_FLAGS_AT).is_some_and(|flags| flags & NTF_PROXY != 0)
        && protocol == Some(&[netlink::PROTOCOL]);
    netlink::find_attribute(attributes, NDA_DST).filter(|_| is_own).and_then(netlink::address)
}

fn request(kind: u16, flags: u16, index: u32, address: IpAddr) -> Request {
    let mut message = Request::new(kind, flags);
    // struct ndmsg: family, padding, interface, state, flags, type.
    message.push(&[netlink::family_of(address), 0, 0, 0]);
    message.push(&index.to_ne_bytes());
    message.push(&NUD_PERMANENT.to_ne_bytes());
    message.push(&[NTF_PROXY, 0]);
    message.address_attribute(NDA_DST, address);
    message
}

// <linux/rtnetlink.h>, <linux/neighbour.h>
const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
const RTM_GETNEIGH: u16 = 30;
const NDMSG_LEN: usize = 12;
const NDMSG_FLAGS_AT: usize = 10;
const NTF_PROXY: u8 = 0x08;
const NUD_PERMANENT: u16 = 0x80;
const NDA_DST: u16 = 1;
const NDA_PROTOCOL: u16 = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_new_network;
    use crate::tun::Tun;

    #[test]
    fn an_entry_is_abandoned_when_its_route_is_gone() {
        in_new_network(|| {
            let lan = Tun::open(Some("lan0")).unwrap();
            let lan = (Interface::named(lan.name()).unwrap(), lan);
            lan.0.set_address([192, 0, 2, 1].into(), 24).unwrap();
            lan.0.bring_up().unwrap();
            lan.0.add_address6("2001:db8::1".parse().unwrap(), 64).unwrap();
            let guests = Tun::open(Some("plumb0")).unwrap();
            let interface = Interface::named(guests.name()).unwrap();
            interface.bring_up().unwrap();
            let addresses = ["192.0.2.10", "2001:db8::10"].map(|text| text.parse().unwrap());
            for address in addresses {
                interface_route::add(&interface, address, if address.is_ipv4() { 32 } else { 128 })
                    .unwrap();
                add(&lan.0, address).unwrap();
                // A second entry is the same one.
                add(&lan.0, address).unwrap();
            }
            assert_eq!(abandoned(&lan.0).unwrap(), Vec::<IpAddr>::new());
            drop(guests);
            // A program that another test starts holds a copy of the descriptor until its exec.
            let mut left = Vec::new();
            while left.len() < addresses.len() {
                left = abandoned(&lan.0).unwrap();
                std::thread::yield_now();
            }
            left.sort();
            assert_eq!(left, addresses);
            for address in addresses {
                remove(&lan.0, address).unwrap();
                remove(&lan.0, address).unwrap();
            }
            assert_eq!(abandoned(&lan.0).unwrap(), Vec::<IpAddr>::new());
        });
    }
}
