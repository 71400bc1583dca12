//! Opens the device of a route and configures the station on it: a TUN, an Ethernet segment or a
//! serial line.

use super::attachment::{Attachment, Device, wait_until_running};
use super::local_addresses::LocalAddresses;
use super::{Route, SerialLink};
use anyhow::{Context, Result, bail};
use net::link::{Datagram, Link, Llp, Ppp, Slip, ppp};
use os::interface::{Interface, peer6};
use os::serial::Serial;
use os::tun::{self, Tun};
use std::net::Ipv4Addr;

const SERIAL_MTU: usize = 576;

/// RFC 1661 §6.1: an implementation must be able to receive packets of this size, even if it has
/// negotiated a smaller MRU.
const PPP_MTU: usize = 1500;

/// Placeholder address for an end of a serial line that has no address; never routed (RFC 7335).
const UNNUMBERED: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);

/// Environment variable with the PPP password, for a peer that requires authentication.
const PPP_PASSWORD: &str = "PLUMB_PPP_PASSWORD";

/// Opens the device that `via` names.
pub(super) fn open(via: &Route) -> Result<Attachment> {
    match via {
        Route::Segment(segment) => segment.attach(),
        Route::Tun { name, local_addresses } => {
            let options = tun::Options { is_offloading: true, ..tun::Options::default() };
            attach_tun(Tun::open_with(Some(name), options)?, *local_addresses)
        }
        Route::Serial { device, rate_bps, link, address } => {
            let serial = Serial::open(device, *rate_bps)?;
            let link = serial_link(link, *address)?;
            let local_addresses =
                LocalAddresses { ipv4: address.map(|address| (address, 0)), ipv6: None };
            Ok(Attachment { device: Device::Serial(serial), link, local_addresses, segment: None })
        }
        Route::Kernel => bail!("--via kernel has no device"),
    }
}

fn serial_link(link: &SerialLink, address: Option<Ipv4Addr>) -> Result<Link> {
    Ok(match link {
        SerialLink::Llp { compresses_headers: false } => Link::Llp(Llp::new(SERIAL_MTU)),
        SerialLink::Llp { compresses_headers: true } => {
            Link::Llp(Llp::new(SERIAL_MTU).with_header_compression())
        }
        SerialLink::Slip { compresses_headers: false } => Link::Slip(Slip::new(SERIAL_MTU)),
        SerialLink::Slip { compresses_headers: true } => {
            Link::Slip(Slip::new(SERIAL_MTU).with_header_compression())
        }
        SerialLink::Ppp { user, compresses_headers } => {
            let settings = ppp::Settings {
                address,
                spare_address: Some(UNNUMBERED),
                compresses_headers: *compresses_headers,
                carries_ipv6: false,
                credentials: user.as_deref().map(credentials).transpose()?,
                ..ppp::Settings::default()
            };
            Link::Ppp(Box::new(Ppp::new(PPP_MTU, settings)))
        }
    })
}

fn credentials(user: &str) -> Result<ppp::Credentials> {
    let secret = std::env::var(PPP_PASSWORD).with_context(|| {
        format!("user={user} needs a password: set the environment variable {PPP_PASSWORD}")
    })?;
    Ok(ppp::Credentials { name: user.to_owned(), secret })
}

/// Attaches to an open TUN. By default the local addresses are derived from the addresses of the
/// interface, which must be up.
pub(super) fn attach_tun(tun: Tun, local_addresses: LocalAddresses) -> Result<Attachment> {
    let name = tun.name();
    let interface = Interface::named(name)?;
    if !interface.is_up()? {
        bail!(
            "the interface {name} is down: bring it up (ip link set {name} up); if it did not \
             exist before, create a persistent one (ip tuntap add {name} mode tun; ip address add \
             10.0.0.1/24 dev {name}; ip link set {name} up)"
        );
    }
    wait_until_running(&interface)?;
    let defaults = default_addresses(&interface)?;
    let local_addresses = LocalAddresses {
        ipv4: local_addresses.ipv4.or(defaults.ipv4),
        ipv6: local_addresses.ipv6.or(defaults.ipv6),
    };
    if local_addresses == LocalAddresses::default() {
        bail!(
            "the interface {name} has no address: add one (ip address add 10.0.0.1/24 dev {name}; \
             ip link set {name} up) and make it persistent (ip tuntap add {name} mode tun), or set \
             plumb's own address (--via tun:{name}?address=10.0.0.2)"
        );
    }
    let mtu = usize::try_from(interface.mtu_bytes()?).unwrap_or(1500);
    let link = Link::Datagram(Datagram::new(mtu));
    let device = Device::Packets(os::device::Device::Tun(tun));
    Ok(Attachment { device, link, local_addresses, segment: None })
}

/// Returns the addresses of a host at the other end of an interface, derived from the interface's
/// own addresses. Link-local addresses are skipped, because a host with such an address could reach
/// only the kernel.
fn default_addresses(interface: &Interface) -> Result<LocalAddresses> {
    let ipv4 = interface
        .address()?
        .and_then(|addressing| addressing.peer().map(|address| (address, addressing.prefix_bits)));
    let mut interface_addresses = interface.addresses6()?;
    interface_addresses.retain(|(address, _)| !address.is_unicast_link_local());
    let ipv6 = interface_addresses.into_iter().find_map(|(address, prefix_bits)| {
        peer6(address, prefix_bits).map(|peer| (peer, prefix_bits))
    });
    Ok(LocalAddresses { ipv4, ipv6 })
}
