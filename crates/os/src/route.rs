//! Default routes of a network namespace (rtnetlink(7), and route and ipv6_route of proc_net(5)).

use crate::interface::{Interface, InterfaceError};
use crate::netlink::{self, Request};
use rustix::net::AddressFamily;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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

/// A default route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultRoute {
    /// Name of the interface.
    pub interface: String,
    /// The gateway, unless all hosts are on the link.
    pub gateway: Option<IpAddr>,
}

/// Returns the default IPv4 route with the lowest metric in the calling thread's network namespace.
///
/// # Errors
///
/// Returns the error of reading /proc.
pub fn default4() -> io::Result<Option<DefaultRoute>> {
    Ok(routes_in("/proc/thread-self/net/route")?.and_then(|text| first_default4(&text)))
}

/// Returns the default IPv6 route with the lowest metric in the calling thread's network namespace.
///
/// # Errors
///
/// Returns the error of reading /proc.
pub fn default6() -> io::Result<Option<DefaultRoute>> {
    Ok(routes_in("/proc/thread-self/net/ipv6_route")?.and_then(|text| first_default6(&text)))
}

/// Returns the routes in `file`, or `None` if the kernel lacks this version of IP.
fn routes_in(file: &str) -> io::Result<Option<String>> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The columns are: interface, destination, gateway, flags, references, uses, metric, mask. The
/// addresses are in network byte order, printed as numbers of the processor.
fn first_default4(text: &str) -> Option<DefaultRoute> {
    let parse = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[interface, destination, gateway, flags, _, _, metric, mask, ..] = words.as_slice()
        else {
            return None;
        };
        let flags = u32::from_str_radix(flags, 16).ok()?;
        let is_default = [destination, mask].iter().all(|word| word.bytes().all(|b| b == b'0'));
        let is_usable = is_default && flags & RTF_UP != 0 && flags & RTF_REJECT == 0;
        let address = u32::from_str_radix(gateway, 16).ok()?;
        let gateway =
            (flags & RTF_GATEWAY != 0).then(|| IpAddr::from(Ipv4Addr::from(address.to_ne_bytes())));
        let route = DefaultRoute { interface: interface.to_owned(), gateway };
        is_usable.then_some((metric.parse::<u32>().ok()?, route))
    };
    let routes = text.lines().skip(1).filter_map(parse);
    routes.min_by_key(|(metric, _)| *metric).map(|(_, route)| route)
}

/// The columns are: destination and its prefix length, source and its prefix length, next hop,
/// metric, references, uses, flags, interface.
fn first_default6(text: &str) -> Option<DefaultRoute> {
    let parse = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[_, prefix, _, _, next_hop, metric, _, _, flags, interface] = words.as_slice() else {
            return None;
        };
        let flags = u32::from_str_radix(flags, 16).ok()?;
        let is_usable = prefix == "00" && flags & RTF_UP != 0 && flags & RTF_REJECT == 0;
        let address = Ipv6Addr::from_bits(u128::from_str_radix(next_hop, 16).ok()?);
        let gateway = (flags & RTF_GATEWAY != 0).then(|| IpAddr::from(address));
        let route = DefaultRoute { interface: interface.to_owned(), gateway };
        is_usable.then_some((u32::from_str_radix(metric, 16).ok()?, route))
    };
    let routes = text.lines().filter_map(parse);
    routes.min_by_key(|(metric, _)| *metric).map(|(_, route)| route)
}

// <linux/route.h>
const RTF_UP: u32 = 0x1;
const RTF_GATEWAY: u32 = 0x2;
const RTF_REJECT: u32 = 0x200;
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
            let route = |gateway: &str| {
                let gateway = Some(gateway.parse().unwrap());
                Some(DefaultRoute { interface: "plumb0".to_owned(), gateway })
            };
            assert_eq!(default4().unwrap(), route("10.9.8.2"));
            assert_eq!(default6().unwrap(), route("fd01::2"));
        });
    }

    #[test]
    fn a_network_without_a_default_route_has_none() {
        in_new_network(|| {
            assert_eq!(default4().unwrap(), None);
            assert_eq!(default6().unwrap(), None);
        });
    }

    #[test]
    fn the_route_with_the_lowest_metric_is_used_and_rejecting_ones_are_not() {
        let text = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
                    eth0 0000A8C0 00000000 0001 0 0 100 00FFFFFF 0 0 0\n\
                    wlan0 00000000 0101A8C0 0003 0 0 600 00000000 0 0 0\n\
                    eth0 00000000 00000000 0001 0 0 100 00000000 0 0 0\n\
                    lo 00000000 00000000 0201 0 0 1 00000000 0 0 0\n";
        let route = first_default4(text).unwrap();
        assert_eq!((route.interface.as_str(), route.gateway), ("eth0", None));
        let zero = "0".repeat(32);
        let text = format!(
            "{zero} 00 {zero} 00 {zero} ffffffff 1 0 00200200 lo\n\
             {zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 5 0 00450003 eth0\n"
        );
        let route = first_default6(&text).unwrap();
        assert_eq!(route.gateway, Some("fe80::1".parse().unwrap()));
    }
}
