//! The two networks of the bench, and the attachment of each server to the client's.
//!
//! The client is in the first network. It has one interface per server: one end of a pair whose
//! other end is in the second network, or a TUN that the server opens. All have an MTU of 1500
//! bytes, and use the offloads that the kernel supports.

use anyhow::{Context, Result, ensure};
use os::clock::Monotonic;
use os::interface::Interface;
use os::namespace::{self, Network};
use protocols::Instant;
use protocols::time::Duration;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;

/// Connection of a server with the client's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attachment {
    /// A veth pair; the server's end belongs to the kernel and has its address.
    Pair,
    /// A veth pair; the server's end belongs to a packet socket, and the kernel has no address
    /// there.
    Packet,
    /// A TUN.
    Tun,
    /// A TUN with several queues.
    Queues,
}

impl Attachment {
    /// Returns whether the server attaches to an interface in the client's network.
    fn is_near(self) -> bool {
        matches!(self, Self::Tun | Self::Queues)
    }
}

/// MTU of all interfaces.
pub(super) const MTU_BYTES: u16 = 1500;
/// Time limit for an interface to come up after its server has attached to it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Both networks.
#[derive(Debug)]
pub(super) struct Networks {
    near: Network,
    far: Network,
}

impl Networks {
    /// Creates the second network; the calling thread stays in the first, which is the bench's own.
    pub(super) fn make() -> Result<Self> {
        let near = Network::of_this_thread()?;
        namespace::enter_new_network()?;
        let far = Network::of_this_thread()?;
        near.enter()?;
        Ok(Self { near, far })
    }

    /// Creates the interface for the server with this number.
    pub(super) fn attach(&self, number: u8, attachment: Attachment) -> Result<()> {
        let (near, far) = (near_name(number), far_name(number));
        let client = client_address(number);
        if attachment.is_near() {
            let queues = if attachment == Attachment::Queues { " multi_queue" } else { "" };
            ip(&format!("tuntap add dev {near} mode tun{queues}"))?;
        } else {
            let place = format!("/proc/{}/fd/{}", std::process::id(), self.far.as_fd().as_raw_fd());
            ip(&format!("link add {near} type veth peer name {far} netns {place}"))?;
            self.far.enter()?;
            let done = set_up_far(number, attachment);
            self.near.enter()?;
            done?;
        }
        set_up(&near)?;
        ip(&format!("address add {client}/24 dev {near}"))
    }

    /// Runs `start` in the network where a server with this attachment belongs.
    pub(super) fn within<T>(
        &self,
        attachment: Attachment,
        start: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if attachment.is_near() {
            return start();
        }
        self.far.enter()?;
        let started = start();
        self.near.enter()?;
        started
    }
}

/// Waits until the client's interface to the server with this number is running.
pub(super) fn wait_until_running(number: u8) -> Result<()> {
    let interface = Interface::named(&near_name(number))?;
    let clock = Monotonic::start();
    while !interface.is_running()? {
        let waited = clock.now() - Instant::ZERO;
        ensure!(waited < PATIENCE, "{} stays down", near_name(number));
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns the address of the server with this number.
pub(super) fn server_address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 60, number, 2)
}

fn client_address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 60, number, 1)
}

/// Returns the argument of `--attach` for the server with this number.
pub(super) fn attach_argument(number: u8, attachment: Attachment) -> String {
    match attachment {
        Attachment::Pair => "kernel".to_owned(),
        Attachment::Packet => format!("packet:{}", far_name(number)),
        Attachment::Tun | Attachment::Queues => format!("tun:{}", near_name(number)),
    }
}

fn near_name(number: u8) -> String {
    format!("near{number}")
}

fn far_name(number: u8) -> String {
    format!("far{number}")
}

fn set_up_far(number: u8, attachment: Attachment) -> Result<()> {
    let far = far_name(number);
    set_up(&far)?;
    match attachment {
        Attachment::Pair => ip(&format!("address add {}/24 dev {far}", server_address(number))),
        Attachment::Packet | Attachment::Tun | Attachment::Queues => Ok(()),
    }
}

/// Brings an interface up with IPv6 disabled, so that it sends no packets of its own.
fn set_up(name: &str) -> Result<()> {
    ip(&format!("link set dev {name} addrgenmode none mtu {MTU_BYTES} up"))
}

fn ip(arguments: &str) -> Result<()> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.context("cannot start ip: install it (apt-get install iproute2)")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {arguments}: {}", words.trim());
    Ok(())
}
