//! A gateway with the settings of slirp4netns.

use super::api::{self, ApiConnection, CLIENTS_MAX, Progress, REQUEST_TIMEOUT};
use super::{OutboundSource, SlirpNetwork, SlirpSettings, SlirpTarget};
use crate::event_loop::{EventLoop, Turn};
use crate::forwards::{ForwardChange, ForwardTable};
use crate::guest_device::GuestDevice;
use crate::guest_network::{GuestNetwork, Network4, Network6, local_networks};
use crate::port::GuestSettings;
use crate::program_error::ProgramError;
use crate::spare_descriptor::SpareDescriptor;
use crate::unix_socket;
use gateway::segment::Represented;
use net::Instant;
use net::link::ethernet::MacAddress;
use os::device::Device;
use os::inherited_descriptor::{ExitDescriptor, ReadyDescriptor};
use os::interface::Interface;
use os::namespace_watch::NamespaceWatch;
use os::outbound::Outbound;
use os::readiness::would_block_as_pending;
use os::target_namespace::{TargetError, TargetNamespaces};
use os::tun::{Kind, Options};
use os::tun_in_namespace;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::thread::CapabilitySet;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::task::Poll;

/// The hardware address of the gateway, that of slirp4netns.
const MAC: MacAddress = MacAddress::new([0x52, 0x55, 10, 0, 2, 2]);
/// Numbers of the descriptors that the event loop watches for the program.
const EXIT: usize = 0;
const TARGET: usize = 1;
const API: usize = 2;
const FIRST_CLIENT: usize = 3;

/// A gateway in place of slirp4netns, ready to run.
#[derive(Debug)]
pub struct SlirpProgram {
    event_loop: EventLoop,
    guest: usize,
    settings: SlirpSettings,
    exit: Option<ExitDescriptor>,
    watch: NamespaceWatch,
    api: Option<Api>,
}

/// The API socket and its clients.
#[derive(Debug)]
struct Api {
    /// The directory of the socket, which a sandbox no longer contains.
    directory: OwnedFd,
    name: OsString,
    listener: UnixListener,
    spare: SpareDescriptor,
    clients: Vec<Option<Client>>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    connection: ApiConnection,
    until: Instant,
}

impl SlirpProgram {
    /// Opens the device of the guest and the API socket, and drops privileges.
    ///
    /// # Errors
    ///
    /// See [`ProgramError`].
    pub fn start(settings: SlirpSettings) -> Result<Self, ProgramError> {
        let ready = settings.ready_fd.map(ReadyDescriptor::take).transpose();
        let ready = ready.map_err(ProgramError::Descriptor)?;
        let exit = settings.exit_fd.map(ExitDescriptor::take).transpose();
        let exit = exit.map_err(ProgramError::Descriptor)?;
        check_outbound(&settings)?;
        let (target, watch) = target(&settings).map_err(ProgramError::Target)?;
        let options = Options { kind: Kind::Tap, is_offloading: true, ..Options::default() };
        let setup = settings.guest_setup();
        let opened = tun_in_namespace::open(&target, &settings.tap_name, options, setup.as_ref());
        let device = GuestDevice::Packets(Device::Tun(opened.map_err(ProgramError::Device)?.tun));
        let mut event_loop = EventLoop::new().map_err(ProgramError::System)?;
        let guest = event_loop
            .add_guest(guest_settings(&settings), device)
            .map_err(ProgramError::System)?;
        if let Some(exit) = &exit {
            event_loop.watch(exit, EXIT).map_err(ProgramError::System)?;
        }
        event_loop.watch(&watch, TARGET).map_err(ProgramError::System)?;
        let api = settings.api_socket.as_deref().map(Api::bind).transpose()?;
        if let Some(api) = &api {
            event_loop.watch(&api.listener, API).map_err(ProgramError::System)?;
        }
        let kept = CapabilitySet::NET_BIND_SERVICE;
        let dropped = if settings.is_sandboxed {
            let sandbox = os::sandbox::enter(Some(&target)).map_err(ProgramError::Sandbox)?;
            os::privileges::drop_capabilities_in(&sandbox, kept)
        } else {
            os::privileges::drop_capabilities(kept)
        };
        dropped.map_err(ProgramError::Privileges)?;
        os::privileges::restrict_system_calls().map_err(ProgramError::Privileges)?;
        if let Some(ready) = ready {
            ready.notify().map_err(ProgramError::System)?;
        }
        Ok(Self { event_loop, guest, settings, exit, watch, api })
    }

    /// Runs until the exit descriptor reports an event or the guest is gone.
    ///
    /// # Errors
    ///
    /// Returns [`ProgramError::Lost`] and [`ProgramError::System`].
    pub fn run(mut self) -> Result<(), ProgramError> {
        let ended = self.run_to_end();
        if let Some(api) = &self.api {
            // The next gateway at this path removes a remaining file.
            _ = rustix::fs::unlinkat(&api.directory, &api.name, AtFlags::empty());
        }
        ended
    }

    fn run_to_end(&mut self) -> Result<(), ProgramError> {
        loop {
            let until = self.api.as_ref().and_then(Api::deadline);
            match self.event_loop.turn(until).map_err(ProgramError::System)? {
                Turn::Ready(EXIT) if self.exit.is_some() => return Ok(()),
                Turn::Ready(TARGET) => {
                    if self.watch.is_gone().map_err(ProgramError::System)? {
                        return Ok(());
                    }
                }
                Turn::Ready(number) => self.serve(number),
                Turn::Lost(_, _) if self.watch.is_gone().unwrap_or(false) => return Ok(()),
                Turn::Lost(_, error) => return Err(ProgramError::Lost(error)),
                Turn::Continue | Turn::Notice(_) => {}
            }
            if let Some(api) = &mut self.api {
                api.drop_silent_clients(self.event_loop.now());
            }
        }
    }

    /// Serves the API socket or one of its clients.
    fn serve(&mut self, number: usize) {
        let Some(api) = &mut self.api else { return };
        if number == API {
            api.accept(&self.event_loop);
            return;
        }
        let Some(request) = api.read(number - FIRST_CLIENT) else { return };
        let address = self.settings.network.guest();
        let guest = self.guest;
        // The API changes the table and the sockets together, so it borrows the table.
        let mut table: ForwardTable = self.event_loop.take_forwards(guest).unwrap_or_default();
        let reply = api::answer(&request, address, &mut table, &mut |change| match change {
            ForwardChange::Open(id, forward) => {
                self.event_loop.open_forward(guest, id, &forward).is_ok()
            }
            ForwardChange::Close(id) => {
                self.event_loop.close_forward(guest, id);
                true
            }
        });
        self.event_loop.put_forwards(guest, table);
        api.reply(number - FIRST_CLIENT, &reply);
    }
}

impl Api {
    fn bind(path: &Path) -> Result<Self, ProgramError> {
        let bind = || {
            let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
            let directory = directory.unwrap_or(Path::new("."));
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = rustix::fs::open(directory, flags, Mode::empty())?;
            let name = path.file_name().unwrap_or_default().to_owned();
            let listener = unix_socket::listen(path)?;
            let spare = SpareDescriptor::reserve();
            Ok(Self { directory, name, listener, spare, clients: Vec::new() })
        };
        bind().map_err(|error| ProgramError::Socket(path.to_owned(), error))
    }

    fn deadline(&self) -> Option<Instant> {
        self.clients.iter().flatten().map(|client| client.until).min()
    }

    fn accept(&mut self, event_loop: &EventLoop) {
        let Some((stream, _)) = self.spare.accept(|| self.listener.accept()) else { return };
        let index = self.clients.iter().position(Option::is_none).unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        let is_watched = stream.set_nonblocking(true).is_ok()
            && event_loop.watch(stream.as_fd(), FIRST_CLIENT + index).is_ok();
        if index < CLIENTS_MAX
            && is_watched
            && let Some(slot) = self.clients.get_mut(index)
        {
            let until = event_loop.now() + REQUEST_TIMEOUT;
            *slot = Some(Client { stream, connection: ApiConnection::default(), until });
        }
    }

    /// Reads from a client, and returns its request if it is complete.
    fn read(&mut self, index: usize) -> Option<Vec<u8>> {
        let slot = self.clients.get_mut(index)?;
        let client = slot.as_mut()?;
        let mut buffer = [0; 4096];
        let progress = match would_block_as_pending(client.stream.read(&mut buffer)) {
            Poll::Pending => return None,
            Poll::Ready(Ok(0)) => client.connection.end(),
            Poll::Ready(Ok(len)) => {
                client.connection.receive(buffer.get(..len).unwrap_or_default())
            }
            Poll::Ready(Err(_)) => {
                *slot = None;
                return None;
            }
        };
        match progress {
            Progress::Waiting => None,
            Progress::Request(request) => Some(request),
        }
    }

    /// Sends a reply to a client and closes it.
    fn reply(&mut self, index: usize, reply: &str) {
        if let Some(client) = self.clients.get_mut(index).and_then(Option::take) {
            let mut stream = client.stream;
            // A reply is shorter than the buffer of a new connection. A client that is gone needs
            // none.
            _ = stream.write_all(reply.as_bytes());
        }
    }

    fn drop_silent_clients(&mut self, now: Instant) {
        for slot in &mut self.clients {
            if slot.as_ref().is_some_and(|client| client.until <= now) {
                *slot = None;
            }
        }
    }
}

fn target(settings: &SlirpSettings) -> Result<(TargetNamespaces, NamespaceWatch), TargetError> {
    let (target, watch) = match &settings.target {
        SlirpTarget::Process(id) => {
            (TargetNamespaces::of_process(*id)?, NamespaceWatch::of_process(*id)?)
        }
        SlirpTarget::Path(path) => {
            (TargetNamespaces::at_path(path)?, NamespaceWatch::of_path(path)?)
        }
    };
    let target = match &settings.user_namespace {
        Some(path) => target.with_user_namespace(path)?,
        None => target,
    };
    Ok((target, watch))
}

fn guest_settings(settings: &SlirpSettings) -> GuestSettings {
    GuestSettings { fragments_datagrams: true, ..guest_network(settings).for_frames() }
}

fn guest_network(settings: &SlirpSettings) -> GuestNetwork {
    let network = settings.network;
    let prefix = SlirpNetwork::IPV6_PREFIX;
    let host = |number: u16| Ipv6Addr::from_bits(prefix.to_bits() | u128::from(number));
    GuestNetwork {
        mtu_bytes: settings.mtu_bytes,
        v4: Some(Network4 {
            guest: network.guest(),
            prefix_bits: network.prefix_bits(),
            gateway: network.gateway(),
            dns: settings.has_dns.then(|| network.dns()),
        }),
        v6: settings.has_ipv6.then(|| Network6 {
            guest: None,
            prefix,
            gateway: host(2),
            dns: settings.has_dns.then(|| host(3)),
        }),
        represented: Represented::Gateway,
        mac: MAC,
        permits_host_loopback: settings.has_host_loopback,
        rules: local_networks(),
        outbound4: outbound(settings.outbound4.as_ref()),
        outbound6: outbound(settings.outbound6.as_ref()),
        rate_bps: None,
    }
}

/// Checks that the interfaces of the outbound sources exist.
fn check_outbound(settings: &SlirpSettings) -> Result<(), ProgramError> {
    let sources = [
        (&settings.outbound4, "outbound-addr has to be valid ipv4 address or interface name."),
        (&settings.outbound6, "outbound-addr6 has to be valid ipv6 address or interface name."),
    ];
    for (source, text) in sources {
        if let Some(OutboundSource::Interface(name)) = source
            && Interface::named(name).is_err()
        {
            return Err(ProgramError::Settings(text.to_owned()));
        }
    }
    Ok(())
}

fn outbound(source: Option<&OutboundSource>) -> Outbound {
    match source {
        Some(OutboundSource::Address(address)) => {
            Outbound { address: Some(IpAddr::clone(address)), interface: None }
        }
        Some(OutboundSource::Interface(name)) => {
            Outbound { address: None, interface: Some(name.clone()) }
        }
        None => Outbound::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invocation::Invocation;

    #[test]
    fn the_host_fragments_the_datagrams_of_a_guest() {
        let arguments = ["1", "tap0"].map(OsString::from);
        let Invocation::Run(settings) = super::super::parse(&arguments) else { panic!("settings") };
        assert!(guest_settings(&settings).fragments_datagrams);
    }
}
