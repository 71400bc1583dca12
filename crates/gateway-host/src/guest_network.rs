//! The network of one guest: its addresses, and the settings of the engine that follow from them.

use crate::forward_sockets::GuestAddresses;
use crate::port::GuestSettings;
use crate::resolv_conf;
use gateway::policy::{self, Policy};
use gateway::segment::{Advertisement, Ipv4Network, Ipv6Network, Represented};
use gateway::{Medium, Settings, dhcp_server, dns, segment};
use ipnet::{Ipv4Net, Ipv6Net};
use net::link::Link;
use net::link::ethernet::MacAddress;
use net::station;
use os::outbound::Outbound;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Number of packet buffers of a guest with a device of datagrams or frames. A buffer takes memory
/// while it is in use.
pub(crate) const PACKETS: usize = 128;
/// Number of packet buffers of a guest at a serial line.
const LINE_PACKETS: usize = 128;
/// Length of the prefix of an IPv6 network, in bits.
const PREFIX6_BITS: u8 = 64;
/// The link-local address of the gateway.
pub(crate) const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
/// The link-local network.
pub(crate) const LINK_LOCAL_NETWORK: (IpAddr, u8) =
    (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10);

/// The IPv4 network of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network4 {
    /// The address of the guest.
    pub guest: Ipv4Addr,
    /// Length of the prefix, in bits.
    pub prefix_bits: u8,
    /// The address of the gateway.
    pub gateway: Ipv4Addr,
    /// The address at which the gateway forwards DNS.
    pub dns: Option<Ipv4Addr>,
}

/// The IPv6 network of a guest, with a prefix of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network6 {
    /// The address of the guest, if the gateway knows it.
    pub guest: Option<Ipv6Addr>,
    /// The prefix.
    pub prefix: Ipv6Addr,
    /// The address of the gateway.
    pub gateway: Ipv6Addr,
    /// The address at which the gateway forwards DNS.
    pub dns: Option<Ipv6Addr>,
}

/// The network of a guest.
#[derive(Clone, Debug)]
pub struct GuestNetwork {
    /// The MTU in bytes.
    pub mtu_bytes: u16,
    /// The IPv4 network, if IPv4 is on.
    pub v4: Option<Network4>,
    /// The IPv6 network, if IPv6 is on.
    pub v6: Option<Network6>,
    /// The addresses for which the gateway answers on an Ethernet segment.
    pub represented: Represented,
    /// The hardware address of the gateway on an Ethernet segment.
    pub mac: MacAddress,
    /// Whether the gateway's addresses lead to the loopback addresses of the host.
    pub permits_host_loopback: bool,
    /// Rules for destinations.
    pub rules: Vec<policy::Rule>,
    /// The source of IPv4 sockets to hosts.
    pub outbound4: Outbound,
    /// The source of IPv6 sockets to hosts.
    pub outbound6: Outbound,
    /// Maximum rate of the packets to the guest in bits per second.
    pub rate_bps: Option<u64>,
}

impl GuestNetwork {
    /// Returns the settings of a guest with a device of datagrams.
    #[must_use]
    pub fn for_datagrams(&self) -> GuestSettings {
        self.settings(Medium::Datagrams(self.mtu_bytes), PACKETS)
    }

    /// Returns the settings of a guest with a device of Ethernet frames.
    #[must_use]
    pub fn for_frames(&self) -> GuestSettings {
        let segment = segment::Settings {
            mac: self.mac,
            guest_mac: None,
            represented: self.represented,
            ipv4: self.v4.map(|v4| Ipv4Network {
                lease: v4.guest,
                prefix_len: v4.prefix_bits,
                gateways: gateways([Some(v4.gateway), v4.dns]),
            }),
            ipv6: self.v6.map(|v6| Ipv6Network {
                prefix: v6.prefix,
                lease: v6.guest,
                link_local: LINK_LOCAL,
                gateways: gateways([Some(v6.gateway), v6.dns]),
                advertisement: Some(Advertisement {
                    prefix: v6.prefix,
                    mtu: self.mtu_bytes.into(),
                    dns_servers: v6.dns.into_iter().collect(),
                    search_domains: Vec::new(),
                }),
            }),
            dhcp: self.v4.map(|v4| dhcp_server::Settings {
                server: v4.gateway,
                address: v4.guest,
                prefix_len: v4.prefix_bits,
                router: Some(v4.gateway),
                dns_servers: v4.dns.into_iter().collect(),
                search_domains: Vec::new(),
                mtu: Some(self.mtu_bytes),
                lease_time: None,
            }),
            dhcpv6: None,
        };
        self.settings(Medium::Frames(self.mtu_bytes, Box::new(segment)), PACKETS)
    }

    /// Returns the settings of a guest at a serial line.
    #[must_use]
    pub fn for_line(&self, link: Link) -> GuestSettings {
        self.settings(Medium::Line(Box::new(link)), LINE_PACKETS)
    }

    fn settings(&self, medium: Medium, packets: usize) -> GuestSettings {
        let gateways: Vec<IpAddr> = self.gateways().collect();
        let policy = Policy::new(policy::Settings {
            gateways: gateways.clone(),
            permits_host_loopback: self.permits_host_loopback,
            mappings: Vec::new(),
            rules: self.rules.clone(),
        });
        let lease4 = self.v4.map(|v4| (v4.guest.into(), 32));
        let lease6 = self.v6.map(|v6| (v6.prefix.into(), PREFIX6_BITS));
        let link_local = self.v6.map(|_| LINK_LOCAL_NETWORK);
        GuestSettings {
            engine: Settings {
                medium,
                addresses: gateways,
                leases: [lease4, lease6, link_local].into_iter().flatten().collect(),
                station: station::Settings { packets, ..station::Settings::default() },
                policy,
                tcp: gateway::relay::tcp_flows::Limits::default(),
                udp: gateway::relay::udp_flows::Limits::default(),
                dns_addresses: self.dns_addresses(),
                dns: dns::Settings { resolvers: resolv_conf::read(), ..dns::Settings::default() },
                output_rate: None,
            },
            addresses: GuestAddresses {
                guest4: self.v4.map(|v4| v4.guest),
                guest6: self.v6.and_then(|v6| v6.guest),
                gateway4: self.v4.map(|v4| v4.gateway),
                gateway6: self.v6.map(|v6| v6.gateway),
                network4: self.on_link4(),
                network6: self.on_link6(),
            },
            outbound4: self.outbound4.clone(),
            outbound6: self.outbound6.clone(),
            rate_bps: self.rate_bps,
            follows_resolv_conf: true,
            fragments_datagrams: false,
        }
    }

    /// Returns the IPv4 network whose other addresses the guest cannot reach.
    fn on_link4(&self) -> Option<Ipv4Net> {
        let v4 = self.v4.filter(|_| self.represented == Represented::Gateway)?;
        Ipv4Net::new(v4.guest, v4.prefix_bits).ok()
    }

    fn on_link6(&self) -> Option<Ipv6Net> {
        let v6 = self.v6.filter(|_| self.represented == Represented::Gateway)?;
        Ipv6Net::new(v6.prefix, PREFIX6_BITS).ok()
    }

    fn dns_addresses(&self) -> Vec<IpAddr> {
        let v4 = self.v4.and_then(|v4| v4.dns).map(IpAddr::from);
        let v6 = self.v6.and_then(|v6| v6.dns).map(IpAddr::from);
        v4.into_iter().chain(v6).collect()
    }

    fn gateways(&self) -> impl Iterator<Item = IpAddr> {
        let v4 = self.v4.into_iter().flat_map(|v4| [Some(v4.gateway), v4.dns]);
        let v6 = self.v6.into_iter().flat_map(|v6| [Some(v6.gateway), v6.dns]);
        let link_local = self.v6.map(|_| IpAddr::from(LINK_LOCAL));
        let v6 = v6.flatten().map(IpAddr::from).chain(link_local);
        v4.flatten().map(IpAddr::from).chain(v6)
    }
}

/// Permits the private networks. Callers of slirp4netns and pasta expect that a guest reaches the
/// local network of its host.
pub(crate) fn local_networks() -> Vec<policy::Rule> {
    let prefixes = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"];
    let prefixes = prefixes.iter().filter_map(|text| text.parse().ok());
    prefixes.map(|prefix| policy::Rule::new(prefix, true)).collect()
}

fn gateways<T>(addresses: [Option<T>; 2]) -> Vec<T> {
    addresses.into_iter().flatten().collect()
}
