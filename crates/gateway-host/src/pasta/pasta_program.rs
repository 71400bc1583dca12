//! A gateway in place of pasta or passt.
//!
//! # Order of the set-up
//!
//! 1. Unless it stays in the foreground, the process continues in the background. Its parent waits
//!    until the set-up is complete.
//! 2. The files are opened: the log, the process ID, the capture.
//! 3. A command is prepared in new namespaces, as the user under which the gateway runs; or the
//!    namespaces of the guest, or the socket of a virtual machine, are opened.
//! 4. The ports are opened.
//! 5. The root of the file system is replaced, the user is changed, capabilities are dropped and
//!    system calls are restricted.
//! 6. The process ID is written, the parent exits, and the command runs.

use super::guest_ports::GuestPorts;
use super::host_network::HostNetwork;
use super::pasta_network::PastaNetwork;
use super::port_specification::PortForwarding;
use super::run_log::RunLog;
use super::run_user::RunUser;
use super::{PastaGuest, PastaMode, PastaSettings};
use crate::capture_file::{CaptureFile, CaptureFormat};
use crate::event_loop::{EventLoop, Turn};
use crate::forwards::{BindAddress, Forward, PortRange, Transport};
use crate::guest_device::{GuestDevice, Machine};
use crate::program_error::ProgramError;
use crate::{resolv_conf, unix_socket};
use os::background::Background;
use os::device::Device;
use os::guest_command::{self, GuestCommand};
use os::inherited_descriptor;
use os::namespace_watch::NamespaceWatch;
use os::target_namespace::TargetNamespaces;
use os::tun::{Kind, Options};
use os::tun_in_namespace;
use rustix::thread::CapabilitySet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::{fs, process};

/// Numbers of the descriptors that the event loop watches for the program.
const GUEST: usize = 0;
const COMMAND: usize = 1;
const PORTS: usize = 2;
/// The default sockets of passt are numbered from 1 to this number.
const SOCKETS_MAX: u32 = 100;

/// A gateway in place of pasta or passt, ready to run.
#[derive(Debug)]
pub struct PastaProgram {
    event_loop: EventLoop,
    command: Option<GuestCommand>,
    watch: Option<NamespaceWatch>,
    ports: Option<GuestPorts>,
    is_one_off: bool,
    log: RunLog,
}

/// A guest whose device is open.
struct OpenGuest {
    device: GuestDevice,
    /// The namespaces of the guest, unless it is a virtual machine.
    command: Option<GuestCommand>,
    watch: Option<NamespaceWatch>,
    ports: Option<GuestPorts>,
    /// The path of the socket of a virtual machine.
    socket: Option<PathBuf>,
}

impl PastaProgram {
    /// Opens the guest and the ports, and drops privileges. Unless the settings keep the process in
    /// the foreground, this function returns in a child. `notice` prints a line on standard error.
    ///
    /// # Errors
    ///
    /// See [`ProgramError`].
    pub fn start(
        mode: PastaMode,
        settings: &PastaSettings,
        notice: &mut dyn FnMut(&str),
    ) -> Result<Self, ProgramError> {
        os::process::close_inherited(match settings.guest {
            PastaGuest::Descriptor(number) => Some(number),
            _ => None,
        });
        let background = if settings.is_foreground {
            None
        } else {
            Some(Background::start().map_err(ProgramError::System)?)
        };
        os::process::exit_at_termination();
        let user = RunUser::find(settings.run_as.as_deref()).map_err(ProgramError::Settings)?;
        let Files { process_id, capture, mut log } = Files::open(settings)?;
        let network = network(settings)?;
        let mut event_loop = EventLoop::new().map_err(ProgramError::System)?;
        let opened = open(settings, &network, user)?;
        if !settings.is_quiet {
            if network.is_local {
                notice("no default route: the guest reaches only this host");
            }
            if let Some(path) = &opened.socket {
                notice(&format!("the virtual machine connects to {}", path.display()));
            }
        }
        let OpenGuest { device, mut command, watch, mut ports, .. } = opened;
        event_loop.add_guest(network.guest(settings), device).map_err(ProgramError::System)?;
        if let Some(watch) = watch.as_ref().filter(|_| !settings.keeps_running) {
            event_loop.watch(watch, GUEST).map_err(ProgramError::System)?;
        }
        if let Some(command) = &command {
            event_loop.watch(command, COMMAND).map_err(ProgramError::System)?;
        }
        if let Some(file) = capture {
            let file = (file, CaptureFormat::Pcap);
            event_loop.start_capture(0, file, u64::MAX).map_err(ProgramError::System)?;
        }
        open_ports(&mut event_loop, settings)?;
        if let Some(ports) = &mut ports {
            ports.open(settings, &mut event_loop)?;
            event_loop.watch(&*ports, PORTS).map_err(ProgramError::System)?;
        }
        drop_privileges(command.is_some(), user)?;
        log.write(&format!("{} of plumb {}", mode.name(), env!("CARGO_PKG_VERSION")));
        for address in network.addresses() {
            log.write(&format!("the guest has the address {address}"));
        }
        write_process_id(process_id).map_err(ProgramError::System)?;
        background.map_or(Ok(()), Background::notify).map_err(ProgramError::System)?;
        if let Some(command) = &mut command {
            os::process::ignore_interrupts();
            command.run().map_err(ProgramError::Command)?;
        }
        Ok(Self { event_loop, command, watch, ports, is_one_off: settings.is_one_off, log })
    }

    /// Runs until the guest is gone, and returns the exit code: that of the command, or 0.
    ///
    /// # Errors
    ///
    /// Returns [`ProgramError::Lost`] and [`ProgramError::System`].
    pub fn run(mut self) -> Result<u8, ProgramError> {
        let ended = self.run_to_end();
        match &ended {
            Ok(code) => self.log.write(&format!("the guest is gone, exit code {code}")),
            Err(error) => self.log.write(&error.to_string()),
        }
        ended
    }

    fn run_to_end(&mut self) -> Result<u8, ProgramError> {
        loop {
            let until = self.ports.as_ref().and_then(GuestPorts::deadline);
            let turn = self.event_loop.turn(until).map_err(ProgramError::System)?;
            if let Some(ports) = &mut self.ports {
                ports.run(&mut self.event_loop);
            }
            match turn {
                Turn::Ready(PORTS) => {
                    self.ports.as_mut().map_or(Ok(()), GuestPorts::serve)?;
                }
                Turn::Ready(COMMAND) => {
                    let code = self.command.as_ref().map(GuestCommand::exit_code).transpose();
                    if let Some(Some(code)) = code.map_err(ProgramError::System)? {
                        return Ok(code);
                    }
                }
                Turn::Ready(_) => {
                    let is_gone = self.watch.as_ref().map(NamespaceWatch::is_gone).transpose();
                    if is_gone.map_err(ProgramError::System)? == Some(true) {
                        return Ok(0);
                    }
                }
                Turn::Lost(_, error) => {
                    let is_disconnected = error.kind() == io::ErrorKind::UnexpectedEof;
                    if self.is_one_off && is_disconnected || self.is_guest_gone() {
                        return Ok(0);
                    }
                    return Err(ProgramError::Lost(error));
                }
                Turn::Continue | Turn::Notice(_) => {}
            }
        }
    }

    fn is_guest_gone(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.is_gone().unwrap_or(false))
    }
}

/// The files of the settings, which the later user and root could not open.
struct Files {
    process_id: Option<File>,
    capture: Option<File>,
    log: RunLog,
}

impl Files {
    fn open(settings: &PastaSettings) -> Result<Self, ProgramError> {
        fn failed(path: &Path) -> impl FnOnce(io::Error) -> ProgramError {
            move |error| ProgramError::File(path.to_owned(), error)
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o644);
        let process_id = settings.pid_file.as_deref();
        let process_id = process_id.map(|path| options.open(path).map_err(failed(path)));
        let capture = settings.capture.as_deref();
        let capture = capture.map(|path| CaptureFile::create(path, true).map_err(failed(path)));
        let log = settings.log_file.as_deref();
        let log = RunLog::open(log).map_err(failed(log.unwrap_or(Path::new(""))))?;
        Ok(Self { process_id: process_id.transpose()?, capture: capture.transpose()?, log })
    }
}

fn network(settings: &PastaSettings) -> Result<PastaNetwork, ProgramError> {
    let host = HostNetwork::read(settings.host_interface.as_deref()).map_err(|error| {
        let name = settings.host_interface.as_deref().unwrap_or_default();
        match error.kind() {
            io::ErrorKind::NotFound if !name.is_empty() => {
                ProgramError::Settings(format!("there is no interface {name}"))
            }
            _ => ProgramError::System(error),
        }
    })?;
    let resolvers = resolv_conf::read();
    let search_list = resolv_conf::search_list();
    PastaNetwork::new(settings, &host, resolvers, search_list).map_err(|_| {
        ProgramError::Settings(
            "External interface not usable: the host has no IPv6 default route".to_owned(),
        )
    })
}

fn open(
    settings: &PastaSettings,
    network: &PastaNetwork,
    user: Option<RunUser>,
) -> Result<OpenGuest, ProgramError> {
    let guest =
        |device, watch| OpenGuest { device, command: None, watch, ports: None, socket: None };
    match &settings.guest {
        PastaGuest::Command(words) => {
            // The user of the command is that of the gateway, so that the kernel lets the gateway's
            // end kill the command.
            if let Some(user) = user {
                user.enter().map_err(ProgramError::System)?;
            }
            let words = if words.is_empty() { guest_command::shell() } else { words.clone() };
            let command = GuestCommand::prepare(&words, !settings.is_network_only);
            let command = command.map_err(ProgramError::Command)?;
            let target =
                TargetNamespaces::of_process(command.id()).map_err(ProgramError::Target)?;
            let device = tap_in(&target, settings, network)?;
            let ports = GuestPorts::start(settings, &target)?;
            Ok(OpenGuest { command: Some(command), ports, ..guest(device, None) })
        }
        PastaGuest::Process(id) => {
            let target = TargetNamespaces::of_process(*id).map_err(ProgramError::Target)?;
            let watch = NamespaceWatch::of_process(*id).map_err(ProgramError::Target)?;
            let target = in_user_namespace(target, settings)?;
            let device = tap_in(&target, settings, network)?;
            let ports = GuestPorts::start(settings, &target)?;
            Ok(OpenGuest { ports, ..guest(device, Some(watch)) })
        }
        PastaGuest::Path(path) => {
            let target = TargetNamespaces::at_path(path).map_err(ProgramError::Target)?;
            let watch = NamespaceWatch::of_path(path).map_err(ProgramError::Target)?;
            let target = in_user_namespace(target, settings)?;
            let device = tap_in(&target, settings, network)?;
            let ports = GuestPorts::start(settings, &target)?;
            Ok(OpenGuest { ports, ..guest(device, Some(watch)) })
        }
        PastaGuest::Listener(path) => {
            let (path, listener) = match path {
                Some(path) => {
                    let listener = unix_socket::listen(path);
                    let failed = |error| ProgramError::Socket(path.clone(), error);
                    (path.clone(), listener.map_err(failed)?)
                }
                None => first_free_socket()?,
            };
            let machine = if settings.is_one_off { Machine::one_off } else { Machine::new };
            let machine = machine(listener).map_err(ProgramError::System)?;
            let device = GuestDevice::Machine(machine);
            Ok(OpenGuest { socket: Some(path), ..guest(device, None) })
        }
        PastaGuest::Descriptor(number) => {
            let descriptor =
                inherited_descriptor::take(*number).map_err(ProgramError::Descriptor)?;
            let machine = Machine::connected(UnixStream::from(descriptor));
            Ok(guest(GuestDevice::Machine(machine.map_err(ProgramError::System)?), None))
        }
    }
}

fn in_user_namespace(
    target: TargetNamespaces,
    settings: &PastaSettings,
) -> Result<TargetNamespaces, ProgramError> {
    match &settings.user_namespace {
        Some(path) => target.with_user_namespace(path).map_err(ProgramError::Target),
        None if settings.is_network_only => Ok(target.without_user_namespace()),
        None => Ok(target),
    }
}

fn tap_in(
    target: &TargetNamespaces,
    settings: &PastaSettings,
    network: &PastaNetwork,
) -> Result<GuestDevice, ProgramError> {
    let options = Options { kind: Kind::Tap, is_offloading: true, ..Options::default() };
    let setup = network.setup(settings);
    let opened = tun_in_namespace::open(target, network.interface(), options, Some(&setup));
    Ok(GuestDevice::Packets(Device::Tun(opened.map_err(ProgramError::Device)?.tun)))
}

/// Listens at the first default path at which no program listens.
fn first_free_socket() -> Result<(PathBuf, std::os::unix::net::UnixListener), ProgramError> {
    let mut failure = io::Error::from(io::ErrorKind::AddrInUse);
    for number in 1..=SOCKETS_MAX {
        let path = PathBuf::from(format!("/tmp/passt_{number}.socket"));
        let is_other = fs::symlink_metadata(&path).is_ok_and(|file| !file.file_type().is_socket());
        if is_other {
            continue;
        }
        match unix_socket::listen(&path) {
            Ok(listener) => return Ok((path, listener)),
            Err(error) => failure = error,
        }
    }
    Err(ProgramError::Socket(PathBuf::from("/tmp/passt_1.socket"), failure))
}

/// Opens the ports of the host.
fn open_ports(event_loop: &mut EventLoop, settings: &PastaSettings) -> Result<(), ProgramError> {
    let specified =
        [(&settings.tcp_ports, Transport::Tcp, "-t"), (&settings.udp_ports, Transport::Udp, "-u")];
    for (forwarding, transport, option) in specified {
        let forwards = forwarding.forwards(transport);
        let mut opened = 0;
        let mut ports = Vec::new();
        for forward in forwards {
            ports.push(forward.host_ports.to_string());
            opened += open_forward(event_loop, &forward);
        }
        // Of all ports, some are always in use. Of some ports, one is enough.
        if opened == 0 && matches!(forwarding, PortForwarding::Ports(_)) {
            let ports = ports.join(",");
            let text = format!("Failed to bind any port for '{option} {ports}', exiting");
            return Err(ProgramError::Settings(text));
        }
    }
    Ok(())
}

/// Opens the ports of a forward that can be opened, and returns their number.
fn open_forward(event_loop: &mut EventLoop, forward: &Forward) -> usize {
    if event_loop.add_forward(0, forward.clone()).is_ok() {
        return usize::from(forward.host_ports.span()) + 1;
    }
    // A port that another program uses with one version of IP is opened with the other one.
    let addresses = match forward.bind.address {
        Some(address) => vec![address],
        None => vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
    };
    let mut open = |port: u16, address: IpAddr| {
        let host_ports = PortRange::single(port)?;
        let guest_port = forward.guest_port_for(port)?;
        let bind = BindAddress { address: Some(address), ..forward.bind.clone() };
        event_loop.add_forward(0, Forward { bind, host_ports, guest_port, ..forward.clone() }).ok()
    };
    let mut is_opened =
        |port: &u16| addresses.iter().filter_map(|address| open(*port, *address)).count() > 0;
    forward.host_ports.ports().filter(&mut is_opened).count()
}

fn drop_privileges(has_command: bool, user: Option<RunUser>) -> Result<(), ProgramError> {
    let sandbox = os::sandbox::enter(None).map_err(ProgramError::Sandbox)?;
    if let Some(user) = user.filter(|_| !has_command) {
        user.enter().map_err(ProgramError::System)?;
    }
    os::privileges::drop_capabilities_in(&sandbox, CapabilitySet::NET_BIND_SERVICE)
        .map_err(ProgramError::Privileges)?;
    os::privileges::restrict_system_calls().map_err(ProgramError::Privileges)
}

fn write_process_id(file: Option<File>) -> io::Result<()> {
    file.map_or(Ok(()), |mut file| writeln!(file, "{}", process::id()))
}
