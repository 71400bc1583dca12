//! A device with the configuration of the station on it.

use super::local_addresses::LocalAddresses;
use anyhow::Result;
use net::link::Link;
use net::station::{Settings, ethernet};
use net::time::Instant;
use os::clock::Monotonic;
use os::interface::Interface;
use os::readiness;
use os::serial::Serial;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// A device with the configuration of the station on it.
pub(super) struct Attachment {
    pub(super) device: Device,
    pub(super) link: Link,
    /// Local addresses that are known before the link is up.
    pub(super) local_addresses: LocalAddresses,
    /// Ethernet configuration of the station, if the link is Ethernet.
    pub(super) segment: Option<ethernet::Settings>,
}

/// Device below a station.
pub(super) enum Device {
    /// Packet device.
    Packets(os::device::Device),
    /// Serial line.
    Serial(Serial),
}

impl Device {
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Packets(device) => device.as_fd(),
            Self::Serial(serial) => serial.as_fd(),
        }
    }

    /// Returns the capabilities of the device as station settings.
    pub(super) fn settings(&self) -> Settings {
        let has_offloads = matches!(self, Self::Packets(device) if device.has_offloads());
        let uso = matches!(self, Self::Packets(device) if device.has_uso());
        Settings {
            tso: has_offloads,
            uso,
            checksum_offload: has_offloads,
            routines: os::checksum::routines(),
            ..Settings::default()
        }
    }
}

/// Time limit for an interface to come up; the kernel checks the state of its links at least once a
/// second.
const LINK_UP_TIMEOUT: Duration = Duration::from_millis(1_500);

const LINK_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Waits until the kernel has seen that a program is attached to the interface. Before that the
/// kernel would drop its own answer to the first SYN, and the next SYN follows a second later.
pub(super) fn wait_until_running(interface: &Interface) -> Result<()> {
    let clock = Monotonic::start();
    while !interface.is_running()? && clock.now() < Instant::ZERO + LINK_UP_TIMEOUT {
        readiness::wait(&mut [], &clock, Some(clock.now() + LINK_POLL_INTERVAL))?;
    }
    // If the interface is still not running, the connection attempt fails and reports the cause.
    Ok(())
}
