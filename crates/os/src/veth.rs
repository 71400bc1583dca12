//! Pairs of connected Ethernet interfaces of the kernel (veth(4)).

use crate::interface::{self, Interface, InterfaceError};
use crate::netlink::{self, Request};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Creates the connected interfaces `name` and `peer` in the calling thread's network namespace,
/// and moves `peer` to the namespace `peer_network`, if given.
///
/// Both interfaces are down. Both are removed when one of them is deleted or its namespace ends.
/// Returns the interface `name`.
///
/// # Errors
///
/// Returns [`InterfaceError::NotPermitted`]; [`InterfaceError::Refused`] if an interface of that
/// name exists, or if the kernel has no veth driver.
pub fn make_pair(
    name: &str,
    peer: &str,
    peer_network: Option<BorrowedFd<'_>>,
) -> Result<Interface, InterfaceError> {
    for name in [name, peer] {
        interface::Request::named(name).map_err(InterfaceError::Name)?;
    }
    let mut request = Request::new(RTM_NEWLINK, netlink::CREATE);
    request.push(&[0; IFINFOMSG_LEN]);
    request.attribute(IFLA_IFNAME, name.as_bytes());
    request.nested(IFLA_LINKINFO, |request| {
        request.attribute(IFLA_INFO_KIND, b"veth");
        request.nested(IFLA_INFO_DATA, |request| {
            request.nested(VETH_INFO_PEER, |request| {
                request.push(&[0; IFINFOMSG_LEN]);
                request.attribute(IFLA_IFNAME, peer.as_bytes());
                if let Some(network) = peer_network {
                    request.attribute(IFLA_NET_NS_FD, &network.as_raw_fd().to_ne_bytes());
                }
            });
        });
    });
    request.send().map_err(|error| match error {
        Errno::PERM | Errno::ACCESS => InterfaceError::NotPermitted(name.into()),
        error => InterfaceError::Refused(name.into(), error.into()),
    })?;
    Interface::named(name)
}

/// Size of `struct ifinfomsg`, whose fields are all 0.
const IFINFOMSG_LEN: usize = 16;
// <linux/rtnetlink.h>, <linux/if_link.h>, <linux/veth.h>
const RTM_NEWLINK: u16 = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_new_network;
    use std::os::fd::AsFd;

    #[test]
    fn a_pair_has_two_hardware_addresses_and_no_second_of_its_name() {
        in_new_network(|| {
            let client = make_pair("near", "far", None).unwrap();
            let server = Interface::named("far").unwrap();
            let client_address = client.hardware_address();
            let server_address = server.hardware_address();
            assert_ne!(client_address.unwrap().unwrap(), server_address.unwrap().unwrap());
            let error = make_pair("near", "other", None).unwrap_err();
            assert!(matches!(error, InterfaceError::Refused(_, _)), "{error}");
        });
    }

    #[test]
    fn the_peer_of_a_pair_may_be_in_another_network() {
        in_new_network(|| {
            let client_network = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
            in_new_network(move || {
                make_pair("inner", "outer", Some(client_network.as_fd())).unwrap();
                assert!(Interface::named("outer").is_err());
            });
            // The inner network namespace has ended, and both interfaces may already have been
            // removed with it.
        });
    }
}
