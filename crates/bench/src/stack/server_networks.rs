//! The two network namespaces of the bench, and the attachment of each server to the client's
//! namespace.
//!
//! The client is in the first namespace. This namespace has one interface per server: one end of a
//! veth pair whose other end is in the second namespace, or a TUN that the server opens. All
//! interfaces have an MTU of 1500 bytes, and use the offloads that the kernel supports.

use anyhow::{Context, Result, ensure};
use net::Instant;
use net::time::Duration;
use os::clock::Monotonic;
use os::interface::Interface;
use os::namespace::{self, Network};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;

/// Connection of a server with the client's network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attachment {
    /// A veth pair; the server's end belongs to the kernel and has its address.
    Pair,
    /// A veth pair; the server's end belongs to a packet socket, and has no address in the kernel.
    Packet,
    /// A TUN.
    Tun,
    /// A TUN with several queues.
    Queues,
}

impl Attachment {
    /// Returns whether the server attaches to an interface in the client's network namespace.
    fn is_in_client_network(self) -> bool {
        matches!(self, Self::Tun | Self::Queues)
    }
}

/// MTU of all interfaces.
pub(super) const MTU_BYTES: u16 = 1500;
/// Time limit for an interface to come up after its server has attached to it.
const INTERFACE_TIMEOUT: Duration = Duration::from_secs(5);

/// The network namespaces of the client and of the servers.
#[derive(Debug)]
pub(super) struct Networks {
    client_network: Network,
    server_network: Network,
}

impl Networks {
    /// Creates the servers' network namespace. The calling thread stays in its own namespace, which
    /// becomes the client's.
    pub(super) fn make() -> Result<Self> {
        let client_network = Network::of_this_thread()?;
        namespace::enter_new_network()?;
        let server_network = Network::of_this_thread()?;
        client_network.enter()?;
        Ok(Self { client_network, server_network })
    }

    /// Creates the interface for the server with this number.
    pub(super) fn attach(&self, number: u8, attachment: Attachment) -> Result<()> {
        let client_interface = client_interface(number);
        let server_interface = server_interface(number);
        let client = client_address(number);
        if attachment.is_in_client_network() {
            let queues = if attachment == Attachment::Queues { " multi_queue" } else { "" };
            ip(&format!("tuntap add dev {client_interface} mode tun{queues}"))?;
        } else {
            let path = format!(
                "/proc/{}/fd/{}",
                std::process::id(),
                self.server_network.as_fd().as_raw_fd()
            );
            ip(&format!(
                "link add {client_interface} type veth peer name {server_interface} netns {path}"
            ))?;
            self.server_network.enter()?;
            let done = set_up_server_interface(number, attachment);
            self.client_network.enter()?;
            done?;
        }
        set_up(&client_interface)?;
        ip(&format!("address add {client}/24 dev {client_interface}"))
    }

    /// Runs `start` in the network namespace in which a server with this attachment runs.
    pub(super) fn within<T>(
        &self,
        attachment: Attachment,
        start: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if attachment.is_in_client_network() {
            return start();
        }
        self.server_network.enter()?;
        let started = start();
        self.client_network.enter()?;
        started
    }
}

/// Waits until the client's interface to the server with this number is running.
pub(super) fn wait_until_running(number: u8) -> Result<()> {
    let interface = Interface::named(&client_interface(number))?;
    let clock = Monotonic::start();
    while !interface.is_running()? {
        let waited = clock.now() - Instant::ZERO;
        ensure!(waited < INTERFACE_TIMEOUT, "{} stays down", client_interface(number));
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
        Attachment::Packet => format!("packet:{}", server_interface(number)),
        Attachment::Tun | Attachment::Queues => format!("tun:{}", client_interface(number)),
    }
}

fn client_interface(number: u8) -> String {
    format!("near{number}")
}

fn server_interface(number: u8) -> String {
    format!("far{number}")
}

fn set_up_server_interface(number: u8, attachment: Attachment) -> Result<()> {
    let server_interface = server_interface(number);
    set_up(&server_interface)?;
    match attachment {
        Attachment::Pair => {
            ip(&format!("address add {}/24 dev {server_interface}", server_address(number)))
        }
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {arguments}: {}", stderr.trim());
    Ok(())
}
