//! Ports that need sockets in the namespace of the guest: those of the guest that lead to the host
//! (`-T`), those that are forwarded while a program listens (`auto`), and those of the host's
//! loopback address that lead to the guest's (`--host-lo-to-ns-lo`).

use super::PastaSettings;
use super::loopback_relay::LoopbackRelay;
use super::port_scan::PortScan;
use super::port_specification::PortForwarding;
use crate::event_loop::EventLoop;
use crate::forwards::{BindAddress, Forward, ForwardId, PortRange, Transport};
use crate::program_error::ProgramError;
use net::Instant;
use net::time::Duration;
use os::namespace_sockets::NamespaceSockets;
use os::target_namespace::TargetNamespaces;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};

/// Interval between two scans of the tables of listening sockets, that of pasta.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// Number of the guest in the event loop.
const GUEST: usize = 0;

/// The ports of one guest.
#[derive(Debug)]
pub(super) struct GuestPorts {
    relay: LoopbackRelay,
    /// The listening sockets of the guest, whose ports are opened on the host.
    guest_scan: Option<PortScan>,
    /// The listening sockets of the host, whose ports are opened in the namespace.
    host_scan: Option<PortScan>,
    /// The forwards of `guest_scan`.
    forwarded: BTreeMap<u16, ForwardId>,
    /// Ports that could not be opened on the other side.
    unusable: BTreeSet<u16>,
    scan_at: Option<Instant>,
}

impl GuestPorts {
    /// Starts the process that opens sockets in the namespace, if the settings need one.
    pub(super) fn start(
        settings: &PastaSettings,
        target: &TargetNamespaces,
    ) -> Result<Option<Self>, ProgramError> {
        if matches!(settings.guest_udp_ports, PortForwarding::Ports(_)) {
            let text = "UDP ports of the namespace are not forwarded to the host: use -U none";
            return Err(ProgramError::Settings(text.to_owned()));
        }
        let forwardings = [&settings.tcp_ports, &settings.udp_ports, &settings.guest_tcp_ports];
        let has_auto = forwardings.iter().any(|ports| **ports == PortForwarding::Auto);
        let has_ports = matches!(settings.guest_tcp_ports, PortForwarding::Ports(_));
        if !has_auto && !has_ports && !settings.maps_loopback {
            return Ok(None);
        }
        let sockets = NamespaceSockets::start(target).map_err(ProgramError::System)?;
        let relay = LoopbackRelay::new(sockets).map_err(ProgramError::System)?;
        Ok(Some(Self {
            relay,
            guest_scan: None,
            host_scan: None,
            forwarded: BTreeMap::new(),
            unusable: BTreeSet::new(),
            scan_at: None,
        }))
    }

    /// Opens the ports of the settings that are known at the start.
    pub(super) fn open(
        &mut self,
        settings: &PastaSettings,
        event_loop: &mut EventLoop,
    ) -> Result<(), ProgramError> {
        if settings.maps_loopback {
            event_loop.divert_loopback(GUEST);
        }
        self.open_guest_ports(&settings.guest_tcp_ports)?;
        if settings.udp_ports == PortForwarding::Auto {
            for port in PortScan::of_guest(false, self.relay.sockets()).ports() {
                // A port that is in use on the host stays there.
                _ = add_forward(event_loop, Transport::Udp, port);
            }
        }
        if settings.tcp_ports == PortForwarding::Auto {
            self.guest_scan = Some(PortScan::of_guest(true, self.relay.sockets()));
        }
        if settings.guest_tcp_ports == PortForwarding::Auto {
            self.host_scan = Some(PortScan::of_host(true));
        }
        self.scan(event_loop);
        Ok(())
    }

    fn open_guest_ports(&mut self, forwarding: &PortForwarding) -> Result<(), ProgramError> {
        let forwards = forwarding.forwards(Transport::Tcp);
        let mut ports = Vec::new();
        let mut opened = 0;
        for forward in &forwards {
            ports.push(forward.host_ports.to_string());
            for port in forward.host_ports.ports() {
                let host_port = forward.guest_port_for(port).unwrap_or(port);
                opened += usize::from(self.relay.listen(port, host_port).is_ok());
            }
        }
        if opened == 0 && !forwards.is_empty() {
            let ports = ports.join(",");
            let text = format!("Failed to bind any port for '-T {ports}', exiting");
            return Err(ProgramError::Settings(text));
        }
        Ok(())
    }

    /// Returns when [`Self::run`] has to be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.scan_at
    }

    /// Serves the sockets that are ready.
    pub(super) fn serve(&mut self) -> Result<(), ProgramError> {
        self.relay.run().map_err(ProgramError::System)
    }

    /// Connects the connections that the event loop has left to the program, and scans the tables if
    /// it is time to. Call after every turn.
    pub(super) fn run(&mut self, event_loop: &mut EventLoop) {
        for (stream, port) in event_loop.take_diverted(GUEST) {
            self.relay.connect_to_guest(stream, port);
        }
        if self.scan_at.is_some_and(|at| at <= event_loop.now()) {
            self.scan(event_loop);
        }
    }

    fn scan(&mut self, event_loop: &mut EventLoop) {
        let has_scans = self.guest_scan.is_some() || self.host_scan.is_some();
        self.scan_at = has_scans.then(|| event_loop.now() + SCAN_INTERVAL);
        if let Some(scan) = &mut self.guest_scan {
            let mut ports = scan.ports();
            // These listeners lead to the host.
            self.relay.ports().for_each(|port| _ = ports.remove(&port));
            self.unusable.retain(|port| ports.contains(port));
            self.forwarded.retain(|port, forward| {
                let is_listening = ports.contains(port);
                if !is_listening {
                    event_loop.remove_forward(GUEST, *forward);
                }
                is_listening
            });
            for port in ports {
                if self.forwarded.contains_key(&port) || self.unusable.contains(&port) {
                    continue;
                }
                match add_forward(event_loop, Transport::Tcp, port) {
                    Some(forward) => _ = self.forwarded.insert(port, forward),
                    None => _ = self.unusable.insert(port),
                }
            }
        }
        if let Some(scan) = &mut self.host_scan {
            let mut ports = scan.ports();
            // These listeners lead to the guest.
            let own = event_loop.forwards(GUEST).map(|(_, forward)| forward.host_ports);
            let own: Vec<PortRange> = own.collect();
            ports.retain(|port| !own.iter().any(|range| range.contains(*port)));
            let closed: Vec<u16> =
                self.relay.ports().filter(|port| !ports.contains(port)).collect();
            closed.into_iter().for_each(|port| self.relay.close(port));
            let open: BTreeSet<u16> = self.relay.ports().collect();
            for port in ports.difference(&open) {
                // A port that is in use in the namespace stays there.
                _ = self.relay.listen(*port, *port);
            }
        }
    }
}

impl AsFd for GuestPorts {
    /// Returns a descriptor that is readable while [`GuestPorts::serve`] has work.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.relay.as_fd()
    }
}

fn add_forward(event_loop: &mut EventLoop, transport: Transport, port: u16) -> Option<ForwardId> {
    let host_ports = PortRange::single(port)?;
    let bind = BindAddress::ALL;
    let forward = Forward { transport, bind, host_ports, guest_address: None, guest_port: port };
    event_loop.add_forward(GUEST, forward).ok()
}
