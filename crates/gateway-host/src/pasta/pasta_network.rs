//! The network of a guest of pasta or passt: the addresses of the host, or those of the options.
//!
//! Without a default route on the host, the guest gets link-local addresses and reaches the host
//! only, as with later versions of pasta. A container then starts without a network too.

use super::host_network::{HostAddress, HostNetwork};
use super::{Disabled, PastaSettings};
use crate::forward_sockets::GuestAddresses;
use crate::guest_network::{LINK_LOCAL, LINK_LOCAL_NETWORK, PACKETS, local_networks};
use crate::port::GuestSettings;
use gateway::domain_name::DomainName;
use gateway::policy::{self, Policy};
use gateway::relay::{tcp_flows, udp_flows};
use gateway::segment::{Advertisement, Ipv4Network, Ipv6Network, Represented};
use gateway::{Medium, Settings, dhcp_server, dhcpv6_server, dns, segment};
use net::link::ethernet::MacAddress;
use net::station;
use os::outbound::Outbound;
use os::tun_in_namespace::TunSetup;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The hardware address of the gateway, that of pasta.
const MAC: MacAddress = MacAddress::new([0x9A, 0x55, 0x9A, 0x55, 0x9A, 0x55]);
/// The addresses of a guest and its gateway without a network of the host, those of pasta.
const LOCAL4: HostAddress<Ipv4Addr> = HostAddress {
    address: Ipv4Addr::new(169, 254, 2, 1),
    prefix_bits: 16,
    gateway: Some(Ipv4Addr::new(169, 254, 2, 2)),
};
/// Length of the prefix of an address that is given without a netmask, in bits.
const PREFIX_BITS: u8 = 24;
const PREFIX6_BITS: u8 = 64;
/// Minimum length of a prefix that is widened until it contains the gateway, in bits.
const WIDENED_PREFIX_MIN_BITS: u8 = 8;
/// MTU of an Ethernet device that is not told another one, in bytes.
const ETHERNET_MTU_BYTES: u16 = 1500;
/// Name of the interface in a namespace without a network of the host.
const LOCAL_INTERFACE: &str = "tap0";

/// An address of the guest and its gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Assigned<A> {
    address: A,
    prefix_bits: u8,
    gateway: A,
}

/// The network of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PastaNetwork {
    interface: String,
    v4: Option<Assigned<Ipv4Addr>>,
    v6: Option<Assigned<Ipv6Addr>>,
    /// Whether the host has no default route.
    pub(super) is_local: bool,
    /// The addresses of the host that the guest also has.
    host4: Option<Ipv4Addr>,
    host6: Option<Ipv6Addr>,
    /// The DNS servers to announce, and the addresses at which DNS is forwarded.
    dns_servers: Vec<IpAddr>,
    dns_forward: Vec<IpAddr>,
    search_list: Vec<String>,
    resolvers: Vec<SocketAddr>,
}

/// Neither version of IP can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoNetwork;

impl PastaNetwork {
    /// Combines the options with the network of the host, its resolvers and its search list.
    pub(super) fn new(
        settings: &PastaSettings,
        host: &HostNetwork,
        resolvers: Vec<SocketAddr>,
        search_list: Vec<String>,
    ) -> Result<Self, NoNetwork> {
        let v4 = if settings.has_ipv4 { assigned4(settings, host.v4) } else { None };
        let v6 = if settings.has_ipv6 { assigned6(settings, host.v6) } else { None };
        let is_local = v4.is_none() && v6.is_none();
        let v4 = match v4 {
            None if is_local && settings.has_ipv4 => assigned4(settings, Some(LOCAL4)),
            v4 => v4,
        };
        if v4.is_none() && v6.is_none() {
            return Err(NoNetwork);
        }
        let interface = settings.interface_name.clone().or_else(|| host.interface.clone());
        let mut network = Self {
            interface: interface.unwrap_or_else(|| LOCAL_INTERFACE.to_owned()),
            v4,
            v6,
            is_local,
            host4: host.v4.map(|v4| v4.address),
            host6: host.v6.map(|v6| v6.address),
            dns_servers: Vec::new(),
            dns_forward: Vec::new(),
            search_list: settings.search_list.clone().unwrap_or(search_list),
            resolvers,
        };
        network.set_dns(settings);
        Ok(network)
    }

    /// Sets the DNS servers. A loopback address, which the guest does not reach, is replaced by the
    /// gateway, at which DNS is then forwarded.
    fn set_dns(&mut self, settings: &PastaSettings) {
        let forward4 = settings.dns_forward.ipv4.map(IpAddr::from);
        let forward6 = settings.dns_forward.ipv6.map(IpAddr::from);
        self.dns_forward = forward4.into_iter().chain(forward6).collect();
        let of_host = || {
            let resolvers = self.resolvers.iter().map(SocketAddr::ip);
            self.dns_forward.iter().copied().chain(resolvers).collect()
        };
        let mut servers: Vec<IpAddr> = settings.dns_servers.clone().unwrap_or_else(of_host);
        let gateway4 = self.v4.map(|v4| IpAddr::from(v4.gateway));
        let gateway6 = self.v6.map(|v6| IpAddr::from(v6.gateway));
        for server in &mut servers {
            let gateway = if server.is_ipv4() { gateway4 } else { gateway6 };
            let gateway = gateway.filter(|_| settings.maps_gateway && server.is_loopback());
            if let Some(gateway) = gateway {
                *server = gateway;
                self.dns_forward.push(gateway);
            }
        }
        servers.retain(|server| !server.is_loopback());
        servers.dedup();
        self.dns_servers = if settings.announces_dns { servers } else { Vec::new() };
        self.search_list =
            if settings.announces_dns { std::mem::take(&mut self.search_list) } else { Vec::new() };
    }

    /// Returns the name of the interface in the namespace.
    pub(super) fn interface(&self) -> &str {
        &self.interface
    }

    /// Returns the addresses of the guest.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        let v4 = self.v4.map(|v4| v4.address.into());
        v4.into_iter().chain(self.v6.map(|v6| v6.address.into())).collect()
    }

    /// Returns the configuration of the interface in the namespace.
    pub(super) fn setup(&self, settings: &PastaSettings) -> TunSetup {
        if !settings.is_configuring {
            // Only the loopback interface and the link are brought up.
            let hardware_address = settings.guest_hardware_address;
            return TunSetup { hardware_address, ..TunSetup::default() };
        }
        let v4 = self.v4.map(|v4| (v4.address.into(), v4.prefix_bits));
        let v6 = self.v6.map(|v6| (v6.address.into(), v6.prefix_bits));
        let gateway4 = self.v4.map(|v4| v4.gateway.into());
        let gateway6 = self.v6.map(|v6| v6.gateway.into());
        TunSetup {
            hardware_address: settings.guest_hardware_address,
            mtu_bytes: settings.mtu_bytes,
            addresses: v4.into_iter().chain(v6).collect(),
            gateways: gateway4.into_iter().chain(gateway6).collect(),
        }
    }

    /// Returns the settings of the guest.
    pub(super) fn guest(&self, settings: &PastaSettings) -> GuestSettings {
        let mtu_bytes = settings.mtu_bytes.unwrap_or(ETHERNET_MTU_BYTES);
        let is_on = |protocol| !settings.disabled.contains(&protocol);
        let medium = Medium::Frames(mtu_bytes, Box::new(self.segment(settings)));
        let lease4 = self.v4.map(|v4| (v4.address.into(), 32));
        let lease6 = self.v6.map(|v6| (v6.address.into(), PREFIX6_BITS));
        let link_local = self.v6.map(|_| LINK_LOCAL_NETWORK);
        let tcp = tcp_flows::Limits::default();
        let udp = udp_flows::Limits::default();
        GuestSettings {
            rate_bps: None,
            follows_resolv_conf: true,
            fragments_datagrams: true,
            engine: Settings {
                medium,
                output_rate: None,
                addresses: self.own_addresses(settings),
                leases: [lease4, lease6, link_local].into_iter().flatten().collect(),
                station: station::Settings { packets: PACKETS, ..station::Settings::default() },
                policy: self.policy(settings),
                tcp: if is_on(Disabled::Tcp) { tcp } else { tcp_flows::Limits { flows: 0, ..tcp } },
                udp: if is_on(Disabled::Udp) { udp } else { udp_flows::Limits { flows: 0, ..udp } },
                dns_addresses: self.dns_forward.clone(),
                dns: dns::Settings {
                    resolvers: self.resolvers.clone(),
                    ..dns::Settings::default()
                },
            },
            addresses: GuestAddresses {
                guest4: self.v4.map(|v4| v4.address),
                guest6: self.v6.map(|v6| v6.address),
                gateway4: self.v4.map(|v4| v4.gateway),
                gateway6: self.v6.map(|v6| v6.gateway),
                // The gateway answers for every address.
                network4: None,
                network6: None,
            },
            outbound4: Outbound {
                address: settings.outbound.ipv4.map(IpAddr::from),
                interface: settings.outbound_interface4.clone(),
            },
            outbound6: Outbound {
                address: settings.outbound.ipv6.map(IpAddr::from),
                interface: settings.outbound_interface6.clone(),
            },
        }
    }

    fn link_local(&self) -> Ipv6Addr {
        let gateway = self.v6.map(|v6| v6.gateway);
        gateway.filter(Ipv6Addr::is_unicast_link_local).unwrap_or(LINK_LOCAL)
    }

    /// Returns the addresses that are the gateway's own. Without a mapping, the gateway's address in
    /// the guest's network is that of a router of the host's network, which the guest may reach.
    fn own_addresses(&self, settings: &PastaSettings) -> Vec<IpAddr> {
        let mut own: Vec<IpAddr> = self.loopback_addresses(settings);
        own.extend(&self.dns_forward);
        own.extend(self.v6.map(|_| IpAddr::from(self.link_local())));
        own.sort_unstable();
        own.dedup();
        own
    }

    /// Returns the addresses that lead to the loopback addresses of the host.
    fn loopback_addresses(&self, settings: &PastaSettings) -> Vec<IpAddr> {
        let given = [
            settings.host_loopback.ipv4.map(IpAddr::from),
            settings.host_loopback.ipv6.map(IpAddr::from),
        ];
        let gateways = [
            self.v4.map(|v4| IpAddr::from(v4.gateway)),
            self.v6.map(|v6| IpAddr::from(v6.gateway)),
        ];
        let is_given = given.iter().any(Option::is_some);
        let gateways = gateways.into_iter().filter(|_| settings.maps_gateway && !is_given);
        given.into_iter().chain(gateways).flatten().collect()
    }

    fn policy(&self, settings: &PastaSettings) -> Policy {
        let host4 = self.host4.or(self.v4.map(|v4| v4.address)).map(IpAddr::from);
        let host6 = self.host6.or(self.v6.map(|v6| v6.address)).map(IpAddr::from);
        let mapped4 = settings.host_addresses.ipv4.map(IpAddr::from).zip(host4);
        let mapped6 = settings.host_addresses.ipv6.map(IpAddr::from).zip(host6);
        Policy::new(policy::Settings {
            gateways: self.loopback_addresses(settings),
            permits_host_loopback: true,
            mappings: mapped4.into_iter().chain(mapped6).collect(),
            rules: local_networks(),
        })
    }

    fn segment(&self, settings: &PastaSettings) -> segment::Settings {
        let mac = settings.hardware_address.map_or(MAC, MacAddress::new);
        let is_on = |protocol| !settings.disabled.contains(&protocol);
        let has_dhcp = is_on(Disabled::Dhcp);
        let has_advertisements = is_on(Disabled::RouterAdvertisements) && is_on(Disabled::Ndp);
        // A configured interface needs neither, and an advertisement would add a second address.
        let is_advertising = has_advertisements && !settings.is_configuring;
        let search_domains: Vec<DomainName> =
            self.search_list.iter().filter_map(|name| name.parse().ok()).collect();
        let dns4 = self.dns_servers.iter().filter_map(|server| match server {
            IpAddr::V4(server) => Some(*server),
            IpAddr::V6(_) => None,
        });
        let dns6: Vec<Ipv6Addr> = self
            .dns_servers
            .iter()
            .filter_map(|server| match server {
                IpAddr::V4(_) => None,
                IpAddr::V6(server) => Some(*server),
            })
            .collect();
        segment::Settings {
            mac,
            guest_mac: None,
            represented: Represented::EveryOther,
            ipv4: self.v4.map(|v4| Ipv4Network {
                lease: v4.address,
                prefix_len: v4.prefix_bits,
                gateways: vec![v4.gateway],
            }),
            ipv6: self.v6.map(|v6| Ipv6Network {
                prefix: v6.address,
                lease: Some(v6.address),
                link_local: self.link_local(),
                gateways: vec![v6.gateway],
                advertisement: is_advertising.then(|| Advertisement {
                    prefix: v6.address,
                    mtu: settings.mtu_bytes.unwrap_or(ETHERNET_MTU_BYTES).into(),
                    dns_servers: dns6.clone(),
                    search_domains: search_domains.clone(),
                }),
            }),
            dhcp: self.v4.filter(|_| has_dhcp).map(|v4| dhcp_server::Settings {
                server: v4.gateway,
                address: v4.address,
                prefix_len: v4.prefix_bits,
                router: Some(v4.gateway),
                dns_servers: dns4.collect(),
                search_domains: search_domains.clone(),
                mtu: settings.mtu_bytes,
                lease_time: None,
            }),
            dhcpv6: self.v6.filter(|_| is_on(Disabled::Dhcpv6)).map(|v6| {
                let address = v6.address;
                dhcpv6_server::Settings {
                    mac,
                    address,
                    dns_servers: dns6,
                    search_domains,
                    lifetime: None,
                }
            }),
        }
    }
}

fn assigned4(
    settings: &PastaSettings,
    host: Option<HostAddress<Ipv4Addr>>,
) -> Option<Assigned<Ipv4Addr>> {
    let given = settings.addresses.ipv4;
    let address = given.or(host.map(|host| host.address))?;
    let of_host = host.filter(|_| given.is_none()).map(|host| host.prefix_bits);
    let gateway = settings.gateways.ipv4.or(host.and_then(|host| host.gateway));
    // A point-to-point link has no gateway; any other address of the guest's network stands for it.
    let gateway = gateway.or_else(|| LOCAL4.gateway.filter(|gateway| *gateway != address))?;
    let mut prefix_bits = settings.prefix_bits.or(of_host).unwrap_or(PREFIX_BITS);
    let is_on_link = |bits: u8| {
        let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
        (address.to_bits() ^ gateway.to_bits()) & mask == 0
    };
    let widened = (WIDENED_PREFIX_MIN_BITS..=prefix_bits).rev().find(|bits| is_on_link(*bits));
    prefix_bits = widened.unwrap_or(prefix_bits);
    Some(Assigned { address, prefix_bits, gateway })
}

fn assigned6(
    settings: &PastaSettings,
    host: Option<HostAddress<Ipv6Addr>>,
) -> Option<Assigned<Ipv6Addr>> {
    let address = settings.addresses.ipv6.or(host.map(|host| host.address))?;
    let gateway = settings.gateways.ipv6.or(host.and_then(|host| host.gateway));
    let gateway = gateway.unwrap_or(LINK_LOCAL);
    Some(Assigned { address, prefix_bits: PREFIX6_BITS, gateway })
}

#[cfg(test)]
#[path = "pasta_network_tests.rs"]
mod tests;
