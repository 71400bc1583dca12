//! The two network namespaces of one run: one for the server and one for the client, each with a
//! TUN, and the packet relay between the TUNs.
//!
//! ```text
//! client's namespace                         server's namespace
//! plumb, in-bench client  near0 ── relay ── far0  servers, interposer
//! 10.0.0.2                                        10.0.0.1
//! plumb0 (10.0.1.1, for plumb's own TCP at 10.0.1.2)
//! ```

use super::case::Case;
use super::impairment::Wire;
use super::relay::TunRelay;
use super::service::Service;
use super::setup::Setup;
use anyhow::{Context, Result, ensure};
use os::namespace::{Network, enter_new_network};
use os::tun::Tun;
use std::process::{Command, Stdio};
use std::thread;

/// `--via` argument of plumb's own TCP.
pub(super) const OWN_TCP: &str = "tun:plumb0";

/// The network namespaces of the server and the client. On drop the relay ends; the namespaces
/// disappear when their last process ends.
#[derive(Debug)]
pub(super) struct Networks {
    server: Network,
    relay: TunRelay,
}

impl Networks {
    /// Creates both network namespaces, and leaves the calling thread in the client's.
    ///
    /// # Errors
    ///
    /// Returns an error if this user may not create namespaces or TUN devices, or if the kernel
    /// does not have the congestion control of the case.
    pub(super) fn make(case: &Case, setup: &Setup) -> Result<Self> {
        enter_new_network()?;
        let server_tun = tun("far0", "10.0.0.1/24")?;
        let mut options = vec!["congctl", setup.control];
        let mtu = setup.server_mtu.map(|mtu| mtu.to_string());
        if let Some(mtu) = &mtu {
            options.extend(["mtu", "lock", mtu]);
        }
        route("10.0.0.0/24", "change", "far0", &options)?;
        if case.service == Service::LoginOwnTcp {
            route("10.0.1.0/30", "add", "far0", &options)?;
        }
        set_buffer("tcp_rmem", setup.server_receive)?;
        set_buffer("tcp_wmem", setup.server_send)?;
        let server = Network::of_this_thread()?;
        enter_new_network()?;
        let client_tun = tun("near0", "10.0.0.2/24")?;
        route("10.0.0.0/24", "change", "near0", &["congctl", setup.control])?;
        set_buffer("tcp_rmem", setup.client_receive)?;
        if case.service == Service::LoginOwnTcp {
            ip(&["tuntap", "add", "plumb0", "mode", "tun"])?;
            ip(&["address", "add", "10.0.1.1/30", "dev", "plumb0"])?;
            ip(&["link", "set", "plumb0", "up"])?;
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
        }
        let seed = case.seed.wrapping_mul(1_000_003) ^ case.number;
        let wire = Wire::new(setup.to_client, setup.to_server, setup.medium, seed);
        Ok(Self { server, relay: TunRelay::start(client_tun, server_tun, wire) })
    }

    /// Returns the largest time by which the relay forwarded a packet later than computed, ms.
    pub(super) fn late_ms(&self) -> f64 {
        self.relay.late_ms()
    }

    /// Runs `work` in the server's network namespace; programs that `work` starts stay in this
    /// namespace.
    pub(super) fn in_server_namespace<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T> + Send,
    ) -> Result<T> {
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                self.server.enter()?;
                work()
            });
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Queue of a TUN device, in packets. The default of 500 packets overflows on paths without a rate
/// limit, where a sender writes faster than the relay reads. The device would then drop packets in
/// addition to those that the wire drops.
const QUEUE_PACKETS: &str = "20000";

fn tun(name: &str, address: &str) -> Result<Tun> {
    let tun = Tun::open(Some(name))?;
    ip(&["address", "add", address, "dev", name])?;
    ip(&["link", "set", name, "txqueuelen", QUEUE_PACKETS, "up"])?;
    Ok(tun)
}

fn route(network: &str, verb: &str, device: &str, options: &[&str]) -> Result<()> {
    ip(&[&["route", verb, network, "dev", device], options].concat())
}

/// Runs `ip` in the network namespace of this thread.
fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output();
    let output = output.context("cannot run ip: install it (apt-get install iproute2)")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {}: {}", arguments.join(" "), stderr.trim());
    Ok(())
}

/// Sets all three values of the buffer setting `name` in the network namespace of this thread.
fn set_buffer(name: &str, bytes: Option<u64>) -> Result<()> {
    let Some(bytes) = bytes else { return Ok(()) };
    let file = format!("/proc/sys/net/ipv4/{name}");
    std::fs::write(&file, format!("{bytes} {bytes} {bytes}\n"))
        .with_context(|| format!("cannot write {file}"))
}
