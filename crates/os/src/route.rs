//! Default routes of a network namespace (rtnetlink(7)).

use crate::interface::{Interface, InterfaceError};
use crate::netlink::{self, Request};
use rustix::net::AddressFamily;
use std::net::IpAddr;

/// Adds a default route through `interface` to `gateway`, in the calling thread's network
/// namespace. The gateway need not be in a network of the interface.
///
/// # Errors
///
/// Returns [`InterfaceError::Refused`] with EEXIST if there is a default route already, and with
/// ENETDOWN while the interface is down.
pub fn add_default(interface: &Interface, gateway: IpAddr) -> Result<(), InterfaceError> {
    let family = if gateway.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut message = Request::new(RTM_NEWROUTE, netlink::CREATE);
    let family = u8::try_from(family.as_raw()).unwrap_or(0);
    // struct rtmsg: a destination and a source of 0 bits, no type of service.
    message.push(&[family, 0, 0, 0]);
    message.push(&[RT_TABLE_MAIN, RTPROT_BOOT, RT_SCOPE_UNIVERSE, RTN_UNICAST]);
    message.push(&RTNH_F_ONLINK.to_ne_bytes());
    match gateway {
        IpAddr::V4(gateway) => message.attribute(RTA_GATEWAY, &gateway.octets()),
        IpAddr::V6(gateway) => message.attribute(RTA_GATEWAY, &gateway.octets()),
    }
    message.attribute(RTA_OIF, &interface.index()?.to_ne_bytes());
    message.send().map_err(|error| interface.error_for(error))
}

// <linux/rtnetlink.h>
const RTM_NEWROUTE: u16 = 24;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_BOOT: u8 = 3;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RTN_UNICAST: u8 = 1;
const RTNH_F_ONLINK: u32 = 4;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_new_network;
    use crate::tun::Tun;
    use std::net::UdpSocket;

    #[test]
    fn a_default_route_reaches_other_networks_once() {
        in_new_network(|| {
            let tun = Tun::open(Some("plumb0")).unwrap();
            let interface = Interface::named(tun.name()).unwrap();
            interface.set_address([10, 9, 8, 1].into(), 24).unwrap();
            interface.bring_up().unwrap();
            interface.add_address6("fd00::1".parse().unwrap(), 64).unwrap();
            for (local, gateway, remote) in
                [("0.0.0.0:0", "10.9.8.2", "192.0.2.1:9"), ("[::]:0", "fd01::2", "[2001:db8::1]:9")]
            {
                let socket = UdpSocket::bind(local).unwrap();
                assert!(socket.connect(remote).is_err());
                add_default(&interface, gateway.parse().unwrap()).unwrap();
                socket.connect(remote).unwrap();
                let error = add_default(&interface, gateway.parse().unwrap()).unwrap_err();
                assert!(matches!(error, InterfaceError::Refused(_, _)), "{error}");
            }
        });
    }
}
