//! A host of our own for a server, or for files: many connections over one device, on tokio.

use super::station::{self, Attachment, Device};
use super::via::Via;
use anyhow::{Context, Result, bail};
use os::host::Host;
use protocols::internet::addresses::Address;
use protocols::station::Settings;
use protocols::transport::tcp::Profile;
use std::net::Ipv4Addr;

/// The most packets in memory; ours: a screenful under way for each of some hundred sessions.
const PACKETS: usize = 512;
/// What connections on which people work are tailored to.
pub(crate) const LOGINS: Profile = Profile::LOGINS;
/// What connections of files are tailored to.
pub(crate) const FILES: Profile = Profile::FILES;

/// Returns an error if no host of many connections can be at `via`, before any device is opened.
///
/// # Errors
///
/// If it is a serial line, which leads to one host.
pub(crate) fn check_host(via: &Via) -> Result<()> {
    if matches!(via, Via::Serial { .. }) {
        bail!("this needs a network, and a serial line leads to one host: use tun: or tap:");
    }
    Ok(())
}

/// Makes the host that `via` names, of at most `connections` that are tailored to `profile`, inside
/// a tokio runtime; `None` for the kernel's own.
///
/// # Errors
///
/// If the device is not there or refuses, in a sentence that says what to do.
pub(crate) fn host(via: &Via, connections: usize, profile: Profile) -> Result<Option<Host>> {
    if matches!(via, Via::Kernel) {
        return Ok(None);
    }
    check_host(via)?;
    let Attachment { device, link, own, segment } = station::open(via)?;
    let Device::Packets(device) = device else {
        bail!("the device is a serial line: use tun: or tap:");
    };
    let mtu_bytes = u16::try_from(link.mtu()).unwrap_or(u16::MAX);
    let (address, prefix_len) = own.ipv4.unwrap_or((Ipv4Addr::UNSPECIFIED, 0));
    let settings =
        Settings { address, prefix_len, packets: PACKETS, connections, ..Settings::default() };
    let host = match segment {
        Some(segment) => Host::on_segment(device, mtu_bytes, settings, segment),
        None => Host::new(device, mtu_bytes, settings),
    };
    let host = host.context("the device does not take a host of ours")?;
    if let Some((address, prefix_len)) = own.ipv6 {
        let added = host.with_layers(|layers, _| {
            layers.internet.add_address(Address::lasting(address.into(), prefix_len))
        });
        added.ok().with_context(|| format!("no host can have the address {address}"))?;
    }
    host.set_profile(profile);
    Ok(Some(host))
}
