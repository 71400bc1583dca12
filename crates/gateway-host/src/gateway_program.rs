//! `plumb gateway`: several guests, port forwards and a control socket.

use crate::control_socket::ControlSocket;
use crate::event_loop::{EventLoop, Notice, Turn};
use crate::forwards::Forward;
use crate::guest_control::{GuestControl, NamedGuest};
use crate::guest_device::{GuestDevice, Line, Machine};
use crate::guest_network::{GuestNetwork, Network4, Network6};
use crate::guest_summary::{self, GuestSummary};
use crate::guest_target::{GuestTarget, TargetKind};
use crate::metrics_endpoint::{self, MetricsEndpoint};
use crate::port::{GuestSettings, mtu_of};
use crate::program_error::ProgramError;
use crate::unix_socket::{self, SocketFile};
use crate::{guest_metrics, poll};
use gateway::policy::Rule;
use gateway::segment::Represented;
use ipnet::IpNet;
use net::link::ethernet::MacAddress;
use os::device::Device;
use os::namespace_watch::NamespaceWatch;
use os::outbound::Outbound;
use os::serial::Serial;
use os::signal_descriptor::TerminationDescriptor;
use os::target_namespace::{TargetError, TargetNamespaces};
use os::tun::{Kind, Options};
use os::tun_in_namespace::{self, TunSetup};
use rustix::thread::CapabilitySet;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The hardware address of the gateway on every segment.
const MAC: MacAddress = MacAddress::new([0x52, 0x55, 10, 0, 2, 2]);
/// The network of the first guest; each further guest has the next one.
const FIRST_NETWORK: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 0);
const PREFIX_BITS: u8 = 24;
/// The numbers of hosts in the network of a guest: the gateway, the DNS forwarder and the guest.
const GATEWAY: u32 = 2;
const DNS: u32 = 3;
const GUEST: u32 = 100;
/// The IPv6 network of the first guest, a unique local one; each further guest has the next one.
const FIRST_NETWORK6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0);
const PREFIX6_BITS: u32 = 64;
/// Minimum MTU of a link with IPv6 (RFC 8200 §5). Linux disables IPv6 on others.
const IPV6_MTU_MIN_BYTES: u16 = 1280;
/// The number of the signals in the event loop: the highest one.
const SIGNALS: usize = poll::NUMBER_MAX;

/// Number of further attempts to find another network namespace at a process, and their interval:
/// together one second.
const NAMESPACE_TRIES: u32 = 50;
const NAMESPACE_INTERVAL: std::time::Duration = std::time::Duration::from_millis(20);

/// The settings of a gateway.
#[derive(Clone, Debug, Default)]
pub struct ProgramSettings {
    /// The guests, each with the text with which it was given.
    pub guests: Vec<(String, GuestTarget)>,
    /// Port forwards to the first guest.
    pub forwards: Vec<Forward>,
    /// Rules for the destinations of all guests.
    pub rules: Vec<Rule>,
    /// Whether the gateway's addresses lead to the loopback addresses of the host.
    pub permits_host_loopback: bool,
    /// Whether guests have IPv6.
    pub has_ipv6: bool,
    /// Whether the gateway configures the interfaces in namespaces.
    pub is_configuring: bool,
    /// The path of the control socket.
    pub control: Option<PathBuf>,
    /// Maximum rate of the packets to each guest in bits per second, except those at serial lines and
    /// those with a rate of their own.
    pub rate_bps: Option<u64>,
    /// Maximum rate of the packets to all guests together, except those at serial lines.
    pub total_rate_bps: Option<u64>,
    /// The address of the metrics.
    pub metrics: Option<SocketAddr>,
    /// Host names that the endpoint of the metrics accepts in addition to those of this machine.
    pub metrics_hosts: Vec<String>,
}

/// A gateway that is ready to run.
#[derive(Debug)]
pub struct Program {
    event_loop: EventLoop,
    guests: Vec<NamedGuest>,
    /// The watches of guests, by the number of the guest.
    watches: Vec<Option<NamespaceWatch>>,
    control: Option<ControlSocket>,
    metrics: Option<MetricsEndpoint>,
    signals: TerminationDescriptor,
    /// Files to remove at the end.
    files: Vec<SocketFile>,
    summaries: Vec<GuestSummary>,
    notices: Vec<String>,
}

/// Event after which the gateway returns to its caller.
#[derive(Debug)]
pub enum ProgramEvent {
    /// The namespace or the process of the guest is gone.
    GuestGone(String),
    /// The device of the guest no longer works.
    GuestLost(String, io::Error),
    /// A signal with this number was received, which ends the gateway.
    Signal(i32),
    /// A message for the user. All guests run on.
    Notice(String),
}

impl Program {
    /// Opens the devices and sockets, and drops privileges.
    ///
    /// # Errors
    ///
    /// See [`ProgramError`].
    pub fn start(settings: ProgramSettings) -> Result<Self, ProgramError> {
        let mut event_loop = EventLoop::new().map_err(ProgramError::System)?;
        if let Some(rate) = settings.total_rate_bps {
            event_loop.limit_total_rate(rate);
        }
        let mut program = Self {
            event_loop,
            guests: Vec::new(),
            watches: Vec::new(),
            control: None,
            metrics: None,
            // From here on, a signal ends the program in its loop, which removes the files.
            signals: TerminationDescriptor::new().map_err(ProgramError::System)?,
            files: Vec::new(),
            summaries: Vec::new(),
            notices: guest_summary::ping_notice().into_iter().collect(),
        };
        let mut addresses = BTreeSet::new();
        let texts: Vec<&str> = settings.guests.iter().map(|(text, _)| text.as_str()).collect();
        let names = guest_summary::names(&texts);
        check_devices(&settings.guests)?;
        for (name, (_, target)) in names.iter().zip(&settings.guests) {
            let network = network_of(&settings, target, program.guests.len());
            let address = network.v4.map(|v4| v4.guest);
            if let Some(address) = address.filter(|address| !addresses.insert(*address)) {
                return Err(ProgramError::SameAddress(address.into()));
            }
            program.add_guest(name, target, &network, settings.is_configuring)?;
            let summary = GuestSummary::new(name, &network);
            program.notices.extend(summary.notices(&settings.rules));
            program.summaries.push(summary);
        }
        for forward in settings.forwards {
            program.event_loop.add_forward(0, forward).map_err(ProgramError::Forward)?;
        }
        let first_number = program.guests.len();
        if let Some(address) = settings.metrics {
            let hosts = &settings.metrics_hosts;
            let endpoint = MetricsEndpoint::bind(address, hosts, &program.event_loop, first_number);
            program.metrics = Some(endpoint?);
        }
        let first_number = first_number + metrics_endpoint::NUMBERS;
        if let Some(path) = settings.control {
            let Self { event_loop, guests, .. } = &mut program;
            let gateway = GuestControl { event_loop, guests };
            program.control = Some(ControlSocket::bind(path, &gateway, first_number)?);
        }
        let watched = program.event_loop.watch(&program.signals, SIGNALS);
        watched.map_err(ProgramError::System)?;
        os::privileges::drop_capabilities(CapabilitySet::NET_BIND_SERVICE)
            .map_err(ProgramError::Privileges)?;
        os::privileges::restrict_system_calls().map_err(ProgramError::Privileges)?;
        Ok(program)
    }

    fn add_guest(
        &mut self,
        name: &str,
        target: &GuestTarget,
        network: &GuestNetwork,
        is_configuring: bool,
    ) -> Result<(), ProgramError> {
        let (guest_settings, device, watch) = match &target.kind {
            TargetKind::Process { id, tap } => {
                let target = namespaces_of_process(*id).map_err(ProgramError::Target)?;
                let watch = NamespaceWatch::of_process(*id).map_err(ProgramError::Target)?;
                let device = tap_in(&target, tap, network, is_configuring)?;
                (network.for_frames(), device, Some(watch))
            }
            TargetKind::Path { path, tap } => {
                let target = TargetNamespaces::at_path(path).and_then(TargetNamespaces::of_other);
                let target = target.map_err(ProgramError::Target)?;
                let watch = NamespaceWatch::of_path(path).map_err(ProgramError::Target)?;
                let device = tap_in(&target, tap, network, is_configuring)?;
                (network.for_frames(), device, Some(watch))
            }
            TargetKind::Machine(path) => {
                let device = self.machine_at(path)?;
                (network.for_frames(), device, None)
            }
            TargetKind::Line { device, rate_bps, protocol } => {
                let serial = Serial::open(device, *rate_bps).map_err(ProgramError::Line)?;
                let ends = network.v4.map(|v4| (v4.gateway, v4.guest));
                let (gateway, guest) =
                    ends.unwrap_or((Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED));
                let link = protocol.link(target.mtu_bytes, gateway, guest);
                (network.for_line(link), GuestDevice::Line(Line::new(serial)), None)
            }
        };
        self.register(name, network, guest_settings, device, watch).map_err(ProgramError::System)
    }

    fn machine_at(&mut self, path: &Path) -> Result<GuestDevice, ProgramError> {
        let machine = unix_socket::listen(path).and_then(Machine::new);
        let machine = machine.map_err(|error| ProgramError::Socket(path.to_owned(), error))?;
        self.files.push(SocketFile::of(path));
        Ok(GuestDevice::Machine(machine))
    }

    fn register(
        &mut self,
        name: &str,
        network: &GuestNetwork,
        settings: GuestSettings,
        device: GuestDevice,
        watch: Option<NamespaceWatch>,
    ) -> io::Result<()> {
        let mtu_bytes = mtu_of(&settings.engine.medium);
        let number = self.event_loop.add_guest(settings, device)?;
        if let Some(watch) = &watch {
            self.event_loop.watch(watch, number)?;
        }
        let v4 = network.v4.map(|v4| IpAddr::from(v4.guest));
        let v6 = network.v6.and_then(|v6| v6.guest).map(IpAddr::from);
        let addresses = v4.into_iter().chain(v6).collect();
        self.guests.push(NamedGuest { name: name.to_owned(), addresses, mtu_bytes });
        self.watches.push(watch);
        Ok(())
    }

    /// Returns the guests with their addresses, for messages at the start.
    #[must_use]
    pub fn summaries(&self) -> &[GuestSummary] {
        &self.summaries
    }

    /// Returns what the guests cannot reach although their user may expect it, for messages at the
    /// start.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Returns whether a guest remains.
    #[must_use]
    pub fn has_guests(&self) -> bool {
        self.event_loop.has_guests()
    }

    /// Runs until an event for the caller. The flows of a guest that is gone or lost have ended; the
    /// other guests run on with the next call.
    ///
    /// # Errors
    ///
    /// Returns [`ProgramError::System`].
    pub fn run(&mut self) -> Result<ProgramEvent, ProgramError> {
        loop {
            let until = self.metrics.as_ref().and_then(MetricsEndpoint::deadline);
            let turn = self.event_loop.turn(until).map_err(ProgramError::System)?;
            if let Some(metrics) = &mut self.metrics {
                metrics.timeout(self.event_loop.now());
            }
            match turn {
                Turn::Continue => {}
                Turn::Ready(number) if number < self.watches.len() => {
                    if self.is_gone(number).map_err(ProgramError::System)? {
                        self.event_loop.remove_guest(number);
                        return Ok(ProgramEvent::GuestGone(self.remove(number)));
                    }
                }
                Turn::Ready(SIGNALS) => {
                    let signal = self.signals.signal().map_err(ProgramError::System)?;
                    if let Some(number) = signal {
                        return Ok(ProgramEvent::Signal(number));
                    }
                }
                Turn::Ready(number) => self.serve(number),
                Turn::Notice(notice) => {
                    if let Some(text) = self.text_of(notice) {
                        return Ok(ProgramEvent::Notice(text));
                    }
                }
                Turn::Lost(number, error) => {
                    let is_gone = self.is_gone(number).unwrap_or(false);
                    let name = self.remove(number);
                    if is_gone {
                        return Ok(ProgramEvent::GuestGone(name));
                    }
                    return Ok(ProgramEvent::GuestLost(name, error));
                }
            }
        }
    }

    /// Returns the text of a notice; `None` if the guest is unknown.
    fn text_of(&self, notice: Notice) -> Option<String> {
        Some(match notice {
            Notice::NoDescriptor { limit } => {
                let limit = limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string());
                format!(
                    "connections of guests are refused because no file descriptor is free: the limit of \
                     this process is {limit}; raise it with \"ulimit -n\" or LimitNOFILE= of systemd"
                )
            }
            Notice::WrongSource { guest, source } => {
                let NamedGuest { name, addresses, .. } = self.guests.get(guest)?;
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                format!(
                    "{name}: packets from {source} are dropped: configure the address {} at the guest",
                    addresses.join(", ")
                )
            }
            Notice::AboveMtu { guest } => {
                let NamedGuest { name, mtu_bytes, .. } = self.guests.get(guest)?;
                format!(
                    "{name}: packets of more than {mtu_bytes} bytes are dropped: configure this MTU at \
                     the guest, or its MTU here with mtu=; text or noise on a line has the same effect"
                )
            }
        })
    }

    fn is_gone(&self, number: usize) -> io::Result<bool> {
        let watch = self.watches.get(number).and_then(Option::as_ref);
        Ok(watch.map(NamespaceWatch::is_gone).transpose()? == Some(true))
    }

    /// Forgets the watch of a guest that has ended, and returns the name of the guest.
    fn remove(&mut self, number: usize) -> String {
        if let Some(watch) = self.watches.get_mut(number) {
            *watch = None;
        }
        self.guests.get(number).map(|guest| guest.name.clone()).unwrap_or_default()
    }

    /// Serves a descriptor of the metrics or of the control socket.
    fn serve(&mut self, number: usize) {
        let Self { event_loop, guests, metrics, control, .. } = self;
        if number < guests.len() + metrics_endpoint::NUMBERS {
            if let Some(metrics) = metrics {
                let text = || guest_metrics::exposition(event_loop, guests);
                metrics.serve(number, event_loop, &text);
            }
        } else if let Some(control) = control {
            control.serve(number, &mut GuestControl { event_loop, guests });
        }
    }
}

/// Checks that no two guests use one device.
fn check_devices(guests: &[(String, GuestTarget)]) -> Result<(), ProgramError> {
    for (number, (text, target)) in guests.iter().enumerate() {
        let mut before = guests.iter().take(number);
        if before.any(|(_, other)| other.kind.is_same_device(&target.kind)) {
            return Err(ProgramError::SameGuest(text.clone()));
        }
    }
    Ok(())
}

/// Returns the rules for prefixes that are permitted and refused.
#[must_use]
pub fn rules(permitted: &[IpNet], refused: &[IpNet]) -> Vec<Rule> {
    let rule = |is_permitted: bool| move |prefix: &IpNet| Rule::new(*prefix, is_permitted);
    let permitted = permitted.iter().map(rule(true));
    permitted.chain(refused.iter().map(rule(false))).collect()
}

/// Opens the namespaces of a process, which may enter them only shortly after its start, as unshare(1)
/// does.
fn namespaces_of_process(id: u32) -> Result<TargetNamespaces, TargetError> {
    let mut tries = 0;
    loop {
        match TargetNamespaces::of_process(id).and_then(TargetNamespaces::of_other) {
            Err(TargetError::OwnNetwork) if tries < NAMESPACE_TRIES => tries += 1,
            result => return result,
        }
        std::thread::sleep(NAMESPACE_INTERVAL);
    }
}

fn tap_in(
    target: &TargetNamespaces,
    name: &str,
    network: &GuestNetwork,
    is_configuring: bool,
) -> Result<GuestDevice, ProgramError> {
    let options = Options { kind: Kind::Tap, is_offloading: true, ..Options::default() };
    let setup = is_configuring.then(|| TunSetup {
        hardware_address: None,
        mtu_bytes: Some(network.mtu_bytes),
        addresses: network.v4.iter().map(|v4| (v4.guest.into(), v4.prefix_bits)).collect(),
        gateways: network.v4.iter().map(|v4| v4.gateway.into()).collect(),
    });
    let opened = tun_in_namespace::open(target, name, options, setup.as_ref());
    Ok(GuestDevice::Packets(Device::Tun(opened.map_err(ProgramError::Device)?.tun)))
}

/// Returns the network of guest `number`.
fn network_of(settings: &ProgramSettings, target: &GuestTarget, number: usize) -> GuestNetwork {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let network = match target.address {
        Some(address) => address.to_bits() & !0xFF,
        None => FIRST_NETWORK.to_bits().saturating_add(number << (32 - PREFIX_BITS)),
    };
    let host = |host: u32| Ipv4Addr::from_bits(network | host);
    let guest = target.address.unwrap_or(host(GUEST));
    // A guest may have been given one of the usual addresses of the gateway.
    let [gateway, dns] = match guest {
        guest if guest == host(GATEWAY) || guest == host(DNS) => [host(1), host(4)],
        _ => [host(GATEWAY), host(DNS)],
    };
    let is_line = matches!(target.kind, TargetKind::Line { .. });
    let prefix = FIRST_NETWORK6.to_bits() | u128::from(number) << (128 - PREFIX6_BITS);
    let host6 = |host: u32| Ipv6Addr::from_bits(prefix | u128::from(host));
    GuestNetwork {
        mtu_bytes: target.mtu_bytes,
        v4: Some(Network4 { guest, prefix_bits: PREFIX_BITS, gateway, dns: Some(dns) }),
        v6: (settings.has_ipv6 && !is_line && target.mtu_bytes >= IPV6_MTU_MIN_BYTES).then(|| {
            Network6 {
                guest: None,
                prefix: Ipv6Addr::from_bits(prefix),
                gateway: host6(GATEWAY),
                dns: Some(host6(DNS)),
            }
        }),
        represented: Represented::Gateway,
        mac: MAC,
        permits_host_loopback: settings.permits_host_loopback,
        rules: settings.rules.clone(),
        outbound4: Outbound::default(),
        outbound6: Outbound::default(),
        rate_bps: target.rate_limit_bps.or(settings.rate_bps),
    }
}
