//! User-space host for servers and file transfers: many connections over one device, on tokio.

use super::attachment::{Attachment, Device};
use super::open_route::open;
use super::route::Route;
use anyhow::{Context, Result, bail};
use net::internet::addresses::Address;
use net::station::Settings;
use net::transport::tcp::Profile;
use os::host::Host;
use std::net::Ipv4Addr;

/// Maximum number of packets in memory. Our choice: one screenful in flight for each of a few
/// hundred sessions.
const PACKETS: usize = 512;
/// TCP profile of interactive login connections.
pub const LOGINS: Profile = Profile::LOGINS;
/// TCP profile of file transfer connections.
pub const FILES: Profile = Profile::FILES;

/// Checks that a host with many connections can run on `via`, before any device is opened.
///
/// # Errors
///
/// Returns an error for a serial line, because only one host is at its other end.
pub fn check_host_supported(via: &Route) -> Result<()> {
    if matches!(via, Route::Serial { .. }) {
        bail!(
            "a serial line leads to one host only, and this command needs a network: use tun: or \
             tap:"
        );
    }
    Ok(())
}

/// Creates the host that `via` names, with at most `connections` connections of the given
/// `profile`. Must be called inside a tokio runtime. Returns `None` for the kernel's TCP/IP.
///
/// # Errors
///
/// Returns an error that names the remedy if the device is missing or cannot be configured.
pub fn open_host(via: &Route, connections: usize, profile: Profile) -> Result<Option<Host>> {
    if matches!(via, Route::Kernel) {
        return Ok(None);
    }
    check_host_supported(via)?;
    let Attachment { device, link, local_addresses, segment } = open(via)?;
    let Device::Packets(device) = device else {
        bail!("the device is a serial line, not a network: use tun: or tap:");
    };
    let mtu_bytes = u16::try_from(link.mtu()).unwrap_or(u16::MAX);
    let (address, prefix_len) = local_addresses.ipv4.unwrap_or((Ipv4Addr::UNSPECIFIED, 0));
    let settings =
        Settings { address, prefix_len, packets: PACKETS, connections, ..Settings::default() };
    let host = match segment {
        Some(segment) => Host::on_segment(device, mtu_bytes, settings, segment),
        None => Host::new(device, mtu_bytes, settings),
    };
    let host = host.context("cannot start plumb's own TCP/IP on the device")?;
    if let Some((address, prefix_len)) = local_addresses.ipv6 {
        let added = host.with_layers(|layers, _| {
            layers.internet.add_address(Address::permanent(address.into(), prefix_len))
        });
        added.ok().with_context(|| format!("{address} is not a valid host address"))?;
    }
    host.set_profile(profile);
    Ok(Some(host))
}
