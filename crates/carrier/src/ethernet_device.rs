//! Attachment to an Ethernet segment (`tap:NAME`, `packet:INTERFACE`) and the address configuration
//! of a station on the segment.

use super::attachment::{Attachment, Device, wait_until_running};
use super::local_addresses::LocalAddresses;
use anyhow::{Context, Result, bail};
use net::internet::slaac::Secret;
use net::link::ethernet::MacAddress;
use net::link::{Ethernet, Link};
use net::station::ethernet::{Ipv4, Ipv6, Settings};
use os::interface::Interface;
use os::packet_socket::{self, PacketSocket};
use os::tun::{self, Kind, Tun};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An Ethernet segment and the station's addresses on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Device through which the station reaches the segment.
    port: Port,
    /// Local addresses. If there is no address, the station requests an IPv4 address by DHCP. If
    /// there is no IPv6 address, the station derives one from router advertisements.
    local_addresses: LocalAddresses,
    /// Default routers, at most one of each family.
    routers: (Option<Ipv4Addr>, Option<Ipv6Addr>),
    /// Local MAC address. With `None`, a station on a TAP has a random address, and a station on a
    /// packet socket has the address of the interface.
    mac: Option<MacAddress>,
}

/// A device that carries Ethernet frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Port {
    /// TAP interface with this name; created if it does not exist.
    Tap(String),
    /// Interface of the kernel, through a packet socket.
    Packet(String),
}

/// Identifier of the machine, stable across runs (machine-id(5)).
const MACHINE_ID: &str = "/etc/machine-id";

impl Segment {
    /// Parses the settings that follow the name of a device.
    pub(super) fn parse<'a>(port: Port, settings: impl Iterator<Item = &'a str>) -> Result<Self> {
        let mut segment = Self {
            port,
            local_addresses: LocalAddresses::default(),
            routers: (None, None),
            mac: None,
        };
        for setting in settings {
            match setting.split_once('=') {
                Some(("address", "dhcp")) => segment.local_addresses.ipv4 = None,
                Some(("address", value)) => segment.local_addresses.parse_and_set(value)?,
                Some(("router", value)) => match value.parse() {
                    Ok(IpAddr::V4(router)) => segment.routers.0 = Some(router),
                    Ok(IpAddr::V6(router)) => segment.routers.1 = Some(router),
                    Err(_) => bail!("invalid address '{}'", value.escape_debug()),
                },
                Some(("mac", value)) => {
                    let mac = value.parse().ok().filter(|mac: &MacAddress| mac.is_unicast());
                    segment.mac = Some(mac.with_context(|| {
                        format!(
                            "'{}' is not a unicast Ethernet address: use an address such as \
                             02:00:00:00:00:01",
                            value.escape_debug()
                        )
                    })?);
                }
                _ => bail!(
                    "invalid Ethernet segment setting '{}': use address=10.0.0.2/24, \
                     address=2001:db8::2/64, address=dhcp, router= or mac=",
                    setting.escape_debug()
                ),
            }
        }
        let (router4, router6) = segment.routers;
        if router4.is_some() && segment.local_addresses.ipv4.is_none()
            || router6.is_some() && segment.local_addresses.ipv6.is_none()
        {
            bail!(
                "router= is valid only together with address=: without address=, DHCP and \
                    router advertisements provide the routers"
            );
        }
        Ok(segment)
    }

    /// Opens the device and returns it with the configuration of the station.
    pub(super) fn attach(&self) -> Result<Attachment> {
        let (device, interface) = self.port.open()?;
        let mtu = usize::try_from(interface.mtu_bytes()?).unwrap_or(1500);
        let (router4, router6) = self.routers;
        let ipv4 = match (self.local_addresses.ipv4, self.local_addresses.ipv6) {
            (Some((address, prefix_len)), _) => {
                Ipv4::Static { address, prefix_len, router: router4 }
            }
            (None, None) => Ipv4::Dhcp,
            (None, Some(_)) => Ipv4::Off,
        };
        let ipv6 = match self.local_addresses.ipv6 {
            Some((address, prefix_len)) => Ipv6::Static { address, prefix_len, router: router6 },
            None => Ipv6::Autoconfigured,
        };
        let mac = match (self.mac, &self.port) {
            (Some(mac), _) => mac,
            (None, Port::Tap(_)) => MacAddress::local_from_bits(os::entropy::seed()?),
            // The interface accepts only frames for its own address.
            (None, Port::Packet(name)) => {
                let mac = interface.hardware_address()?.map(MacAddress::new);
                mac.with_context(|| format!("{name} is not an Ethernet interface"))?
            }
        };
        let secret = secret()?;
        let settings = Settings { mac, ipv4, ipv6, secret, host_name: b"plumb".to_vec() };
        Ok(Attachment {
            device: Device::Packets(device),
            link: Link::Ethernet(Ethernet::new(mtu)),
            local_addresses: LocalAddresses::default(),
            segment: Some(settings),
        })
    }
}

impl Port {
    /// Opens the device and waits until its interface is running. Fails if the interface is down.
    fn open(&self) -> Result<(os::device::Device, Interface)> {
        let (Self::Tap(name) | Self::Packet(name)) = self;
        let (device, interface) = match self {
            Self::Tap(name) => {
                let kind = Kind::Tap;
                let options = tun::Options { kind, is_offloading: true, ..tun::Options::default() };
                let tap = Tun::open_with(Some(name), options)?;
                let interface = Interface::named(tap.name())?;
                (os::device::Device::Tun(tap), interface)
            }
            Self::Packet(name) => {
                let options = packet_socket::Options { is_offloading: true, is_promiscuous: false };
                let socket = PacketSocket::open(name, options)?;
                (os::device::Device::PacketSocket(socket), Interface::named(name)?)
            }
        };
        if !interface.is_up()? {
            let remedy = match self {
                Self::Tap(_) => format!(
                    "; if it did not exist before, create a persistent one (ip tuntap add {name} \
                     mode tap; ip link set {name} up)"
                ),
                Self::Packet(_) => String::new(),
            };
            bail!("the interface {name} is down: bring it up (ip link set {name} up){remedy}");
        }
        wait_until_running(&interface)?;
        Ok((device, interface))
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.port {
            Port::Tap(name) => write!(f, "tap:{name}"),
            Port::Packet(name) => write!(f, "packet:{name}"),
        }
    }
}

/// Returns the secret from which stable IPv6 addresses are derived. The secret is the same in each
/// run on this machine. Without a machine ID the secret is random.
fn secret() -> Result<Secret> {
    let machine = std::fs::read_to_string(MACHINE_ID).unwrap_or_default();
    if let Ok(number) = u128::from_str_radix(machine.trim(), 16) {
        let [high, low] = [number >> 64, number & u128::from(u64::MAX)];
        let to_u64 = |bits| u64::try_from(bits).unwrap_or(0);
        return Ok(Secret([to_u64(high), to_u64(low)]));
    }
    Ok(Secret([os::entropy::seed()?, os::entropy::seed()?]))
}

#[cfg(test)]
mod tests {
    use super::super::Route;
    use super::*;

    fn segment(text: &str) -> Segment {
        let Ok(Route::Segment(segment)) = text.parse() else { panic!("{text} is a segment") };
        segment
    }

    #[test]
    fn a_segment_without_settings_requests_its_addresses() {
        assert_eq!(segment("tap:plumb1"), segment("tap:plumb1?address=dhcp"));
        assert_eq!(segment("tap:plumb1").local_addresses, LocalAddresses::default());
    }

    #[test]
    fn the_default_prefix_length_is_24_or_64_bits() {
        let segment = segment("packet:eth0?address=10.0.0.2&address=2001:db8::2");
        assert_eq!(
            (segment.local_addresses.ipv4.unwrap().1, segment.local_addresses.ipv6.unwrap().1),
            (24, 64)
        );
    }

    #[test]
    fn an_address_and_a_router_of_each_family_can_be_set() {
        let text = "tap:a?address=10.0.0.2/8&router=10.0.0.1&address=2001:db8::2/48&router=fe80::1";
        let segment = segment(text);
        assert_eq!(
            (segment.local_addresses.ipv4.unwrap().1, segment.local_addresses.ipv6.unwrap().1),
            (8, 48)
        );
        assert!(segment.routers.0.is_some() && segment.routers.1.is_some());
    }

    #[test]
    fn an_invalid_setting_of_a_segment_is_rejected() {
        let invalid_settings =
            ["address=10.0.0.2/33", "address=x", "mac=1", "mac=ff:ff:ff:ff:ff:ff", "a=b"];
        for setting in
            invalid_settings.into_iter().chain(["router=10.0.0.1", "address=2001:db8::/129"])
        {
            assert!(format!("tap:a?{setting}").parse::<Route>().is_err(), "{setting}");
        }
    }
}
