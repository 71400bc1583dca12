//! A TUN or TAP inside the namespaces of a guest, opened from outside.
//!
//! A child process enters the user namespace and the network namespace of the guest, opens the
//! interface, configures it if requested, passes the descriptor over a socket pair (`SCM_RIGHTS` of
//! unix(7)) and exits. The calling process stays in its own namespaces. The child is a fork without
//! exec, because it has a single thread, which setns(2) requires for a user namespace.
//!
//! A failure to enter the user namespace alone is ignored, as slirp4netns does: the caller may have
//! the privileges already, and the network namespace decides.
//!
//! An existing persistent interface is attached to, if it belongs to the user. The request for
//! offloads is dropped if the interface does not accept them.

use crate::interface::{Interface, InterfaceError, NameError, Request};
use crate::process::protect_from_guest;
use crate::route;
use crate::target_namespace::TargetNamespaces;
use crate::tun::{Kind, Offloads, Options, Tun, TunError};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::{error, fmt, io};

/// Number of packets from the guest that wait for the program. The kernel drops further packets
/// without an error to the sender. A process with 1,000 connections that ends sends several segments
/// for each before the program runs, and a SYN that is dropped after them delays the next connection
/// by a second.
const QUEUE_LEN: u16 = 4096;
/// Lengths that kernels give to a new interface: `TUN_READQ_SIZE`, `DEFAULT_TX_QUEUE_LEN`.
const DEFAULT_QUEUE_LENS: [u32; 2] = [500, 1000];

/// Configuration of the interface and of the loopback interface in the namespace. Without one, the
/// interface is only opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunSetup {
    /// Ethernet address of the kernel on a TAP.
    pub hardware_address: Option<[u8; 6]>,
    /// MTU in bytes.
    pub mtu_bytes: Option<u16>,
    /// Addresses with their prefix lengths in bits: at most one for IPv4.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Gateways of the default routes, at most one of each version.
    pub gateways: Vec<IpAddr>,
}

/// An interface that is open in the namespace of a guest.
#[derive(Debug)]
pub struct GuestTun {
    /// The interface.
    pub tun: Tun,
    /// Ethernet address of the guest's kernel on a TAP.
    pub hardware_address: Option<[u8; 6]>,
}

/// Opens the interface called `name` in the network namespace of `target`, and configures it by
/// `setup`. Blocks until the child has exited.
///
/// The child allocates memory, which the C library permits after a fork of a process with threads
/// (glibc; musl since 1.2.2).
///
/// # Errors
///
/// Returns [`GuestTunError`].
pub fn open(
    target: &TargetNamespaces,
    name: &str,
    options: Options,
    setup: Option<&TunSetup>,
) -> Result<GuestTun, GuestTunError> {
    Request::named(name).map_err(GuestTunError::Name)?;
    let (own_end, child_end) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|error| GuestTunError::Child(error.into()))?;
    // SAFETY: the child calls only code of this module, which takes no locks of this process but
    // those of malloc, and then exits without running destructors of the caller.
    let child = match unsafe { libc::fork() } {
        -1 => return Err(GuestTunError::Child(io::Error::last_os_error())),
        0 => {
            let kept = [Some(child_end.as_fd()), Some(target.network()), target.user()];
            let kept: Vec<_> = kept.into_iter().flatten().collect();
            // SAFETY: the child uses no other descriptor, and exits without destructors.
            let result = match unsafe { protect_from_guest(&kept) } {
                Ok(()) => open_here(target, name, options, setup),
                Err(error) => (Reply::failed(Step::EnterNetwork, number_of(&error), 0), None),
            };
            report(&child_end, result);
            // SAFETY: `_exit` ends the child without handlers, which belong to the parent.
            unsafe { libc::_exit(0) }
        }
        child => Pid::from_raw(child),
    };
    drop(child_end);
    let received = receive(&own_end);
    // The child exits after its report. If SIGCHLD is ignored, there is no status (ECHILD).
    let _ = rustix::io::retry_on_intr(|| waitpid(child, WaitOptions::empty()));
    match received {
        Ok((Reply { outcome: Outcome::Opened(opened), .. }, Some(descriptor))) => {
            let OpenedTun { name, offloads, hardware_address } = opened;
            let tun = Tun::from_open(descriptor, name, options.kind, offloads);
            Ok(GuestTun { tun, hardware_address })
        }
        Ok((Reply { outcome: Outcome::Failed(step, number), user_error }, _)) => {
            Err(GuestTunError::of(step, number, user_error, name))
        }
        Ok(_) => Err(GuestTunError::Child(Errno::PROTO.into())),
        Err(error) => Err(GuestTunError::Child(error)),
    }
}

/// Result of the child.
struct Reply {
    outcome: Outcome,
    /// Error of entering the user namespace, or 0.
    user_error: i32,
}

impl Reply {
    fn failed(step: Step, number: i32, user_error: i32) -> Self {
        Self { outcome: Outcome::Failed(step, number), user_error }
    }
}

enum Outcome {
    Opened(OpenedTun),
    /// The failed step and its error number.
    Failed(Step, i32),
}

struct OpenedTun {
    name: String,
    offloads: Option<Offloads>,
    hardware_address: Option<[u8; 6]>,
}

/// Step of the child that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Step {
    EnterNetwork = 1,
    Device,
    Attach,
    Configure,
}

impl Step {
    const ALL: [Self; 4] = [Self::EnterNetwork, Self::Device, Self::Attach, Self::Configure];
}

/// Runs the steps of the child. The descriptor is returned with the reply.
fn open_here(
    target: &TargetNamespaces,
    name: &str,
    options: Options,
    setup: Option<&TunSetup>,
) -> (Reply, Option<Tun>) {
    let mut user_error = 0;
    let user = Some(LinkNameSpaceType::User);
    if let Some(namespace) = target.user()
        && let Err(error) = move_into_link_name_space(namespace, user)
    {
        user_error = error.raw_os_error();
    }
    match enter_and_open(target, name, options, setup) {
        Ok(GuestTun { tun, hardware_address }) => {
            let name = tun.name().to_owned();
            let offloads = tun.offloads();
            let outcome = Outcome::Opened(OpenedTun { name, offloads, hardware_address });
            (Reply { outcome, user_error }, Some(tun))
        }
        Err((step, number)) => (Reply::failed(step, number, user_error), None),
    }
}

fn enter_and_open(
    target: &TargetNamespaces,
    name: &str,
    options: Options,
    setup: Option<&TunSetup>,
) -> Result<GuestTun, (Step, i32)> {
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(target.network(), network)
        .map_err(|error| (Step::EnterNetwork, error.raw_os_error()))?;
    let mut opened = Tun::open_with(Some(name), options);
    if options.is_offloading && matches!(opened, Err(TunError::Different(..))) {
        opened = Tun::open_with(Some(name), Options { is_offloading: false, ..options });
    }
    let tun = opened.map_err(|error| match error {
        TunError::NoDevice => (Step::Device, libc::ENOENT),
        TunError::DeviceNotPermitted => (Step::Device, libc::EACCES),
        TunError::InterfaceNotPermitted(..) => (Step::Attach, libc::EPERM),
        TunError::Busy(_) => (Step::Attach, libc::EBUSY),
        TunError::Different(..) | TunError::Name(_) => (Step::Attach, libc::EINVAL),
        TunError::Other(error) => (Step::Attach, number_of(&error)),
    })?;
    let configured = || {
        let interface = Interface::named(tun.name())?;
        lengthen_queue(&interface);
        if let Some(setup) = setup {
            Interface::named("lo")?.bring_up()?;
            disable_duplicate_detection(tun.name());
            configure(&interface, setup)?;
        }
        interface.hardware_address()
    };
    let hardware_address = configured().map_err(|error| {
        let number = match error {
            InterfaceError::NotPermitted(_) => libc::EPERM,
            InterfaceError::Name(_) | InterfaceError::NoSuchInterface(_) => libc::ENODEV,
            InterfaceError::Refused(_, error) | InterfaceError::Other(error) => number_of(&error),
        };
        (Step::Configure, number)
    })?;
    Ok(GuestTun { tun, hardware_address })
}

/// Lengthens the queue of packets from the guest, unless its length was set by the owner of the
/// interface.
fn lengthen_queue(interface: &Interface) {
    if interface.transmit_queue_len().is_ok_and(|len| DEFAULT_QUEUE_LENS.contains(&len)) {
        // Only the owner of the namespace may do so. With the default, packets are lost earlier.
        _ = interface.set_transmit_queue_len(QUEUE_LEN);
    }
}

/// Makes IPv6 addresses usable as soon as the guest has formed them. The guest is alone on its
/// segment, so that no address can be a duplicate. While Duplicate Address Detection runs, a guest
/// that has a route sends from ::1 and never receives an answer.
fn disable_duplicate_detection(name: &str) {
    // A kernel without IPv6 does not have the file, and in a container it may be read-only.
    _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/accept_dad"), "0");
}

fn configure(interface: &Interface, setup: &TunSetup) -> Result<(), InterfaceError> {
    if let Some(address) = setup.hardware_address {
        interface.set_hardware_address(address)?;
    }
    if let Some(mtu_bytes) = setup.mtu_bytes {
        interface.set_mtu(mtu_bytes)?;
    }
    interface.bring_up()?;
    for (address, prefix_bits) in &setup.addresses {
        match address {
            IpAddr::V4(address) => interface.set_address(*address, *prefix_bits)?,
            IpAddr::V6(address) => interface.add_address6(*address, *prefix_bits)?,
        }
    }
    setup.gateways.iter().try_for_each(|gateway| route::add_default(interface, *gateway))
}

fn number_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// Sends the reply of the child. An error is not reported: the parent sees the end of the socket.
fn report(socket: &OwnedFd, (reply, tun): (Reply, Option<Tun>)) {
    let bytes = encode(&reply);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = tun.iter().map(AsFd::as_fd).collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let _ = sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL);
}

fn receive(socket: &OwnedFd) -> io::Result<(Reply, Option<OwnedFd>)> {
    let mut bytes = [0; REPLY_LEN];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let reply = bytes.get(..received.bytes).and_then(decode);
    // No bytes: the child was killed.
    Ok((reply.ok_or(io::ErrorKind::UnexpectedEof)?, descriptor))
}

/// Length of a reply: the step, two error numbers, the name, the offloads and the address.
const REPLY_LEN: usize = 1 + 4 + 4 + NAME_LEN + 1 + 7;
const NAME_LEN: usize = 16;
/// Bit of the offloads for a device whose packets have a header.
const HAS_HEADER: u8 = 0x80;

fn encode(reply: &Reply) -> Vec<u8> {
    let (step, number) = match reply.outcome {
        Outcome::Opened(_) => (0, 0),
        Outcome::Failed(step, number) => (step as u8, number),
    };
    let mut bytes = vec![step];
    bytes.extend(number.to_ne_bytes());
    bytes.extend(reply.user_error.to_ne_bytes());
    let Outcome::Opened(opened) = &reply.outcome else { return bytes };
    bytes.extend(opened.name.bytes().chain(std::iter::repeat(0)).take(NAME_LEN));
    bytes.push(opened.offloads.map_or(0, |offloads| {
        let bits = [offloads.checksum, offloads.tcp, offloads.ecn, offloads.udp];
        bits.iter().rev().fold(0, |bits, bit| bits << 1 | u8::from(*bit)) | HAS_HEADER
    }));
    bytes.push(u8::from(opened.hardware_address.is_some()));
    bytes.extend(opened.hardware_address.unwrap_or_default());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Reply> {
    let (step, rest) = bytes.split_first()?;
    let (number, rest) = rest.split_first_chunk::<4>()?;
    let (user_error, rest) = rest.split_first_chunk::<4>()?;
    let user_error = i32::from_ne_bytes(*user_error);
    if let Some(step) = Step::ALL.into_iter().find(|known| *known as u8 == *step) {
        let outcome = Outcome::Failed(step, i32::from_ne_bytes(*number));
        return Some(Reply { outcome, user_error });
    }
    let (name, rest) = rest.split_first_chunk::<NAME_LEN>()?;
    let name = name.iter().copied().take_while(|byte| *byte != 0).map(char::from).collect();
    let (offloads, rest) = rest.split_first()?;
    let bit = |at: u8| offloads >> at & 1 == 1;
    let offloads = (offloads & HAS_HEADER != 0).then(|| Offloads {
        checksum: bit(0),
        tcp: bit(1),
        ecn: bit(2),
        udp: bit(3),
    });
    let (has_address, address) = rest.split_first()?;
    let address = address.first_chunk::<6>()?;
    let hardware_address = (*has_address == 1).then_some(*address);
    let outcome = Outcome::Opened(OpenedTun { name, offloads, hardware_address });
    Some(Reply { outcome, user_error })
}

/// Reason for which the interface of a guest could not be opened.
#[derive(Debug)]
pub enum GuestTunError {
    /// The name is not a valid interface name.
    Name(NameError),
    /// The namespaces may not be entered. The second error is that of the user namespace.
    NamespaceNotPermitted(Option<io::Error>),
    /// The file is not a network namespace.
    NotANamespace,
    /// The device of TUN and TAP does not exist.
    NoDevice,
    /// The device of TUN and TAP may not be opened.
    DeviceNotPermitted,
    /// The interface may not be created or attached to.
    InterfaceNotPermitted(String),
    /// Another program is attached to the interface.
    Busy(String),
    /// An interface of this name exists, but has another type or other options.
    Different(String),
    /// The interface is open, but a setting is rejected.
    Configuration(String, io::Error),
    /// The child process could not be started, or ended without a reply.
    Child(io::Error),
    /// Any other error.
    Other(io::Error),
}

impl GuestTunError {
    fn of(step: Step, number: i32, user_error: i32, name: &str) -> Self {
        let error = io::Error::from_raw_os_error(number);
        let name = name.to_owned();
        match (step, number) {
            (Step::EnterNetwork, libc::EPERM) => Self::NamespaceNotPermitted(
                (user_error != 0).then(|| io::Error::from_raw_os_error(user_error)),
            ),
            (Step::EnterNetwork, libc::EINVAL) => Self::NotANamespace,
            (Step::Device, libc::ENOENT) => Self::NoDevice,
            (Step::Device, _) => Self::DeviceNotPermitted,
            (Step::Attach, libc::EPERM) => Self::InterfaceNotPermitted(name),
            (Step::Attach, libc::EBUSY) => Self::Busy(name),
            (Step::Attach, libc::EINVAL) => Self::Different(name),
            (Step::Configure, _) => Self::Configuration(name, error),
            (Step::EnterNetwork | Step::Attach, _) => Self::Other(error),
        }
    }
}

impl fmt::Display for GuestTunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::NamespaceNotPermitted(None) => f.write_str(
                "no permission to enter the network namespace: run as root, or as the user that \
                 created its user namespace",
            ),
            Self::NamespaceNotPermitted(Some(error)) => write!(
                f,
                "no permission to enter the network namespace: cannot enter its user namespace: \
                 {error}; run as the user that created it"
            ),
            Self::NotANamespace => f.write_str("the file is not a network namespace"),
            Self::NoDevice => TunError::NoDevice.fmt(f),
            Self::DeviceNotPermitted => f.write_str(
                "no permission to open /dev/net/tun: let root run 'chmod 0666 /dev/net/tun'",
            ),
            Self::InterfaceNotPermitted(name) => write!(
                f,
                "no permission to create or attach to the interface {name} in the namespace: run \
                 as the user that owns it"
            ),
            Self::Busy(name) => TunError::Busy(name.clone()).fmt(f),
            Self::Different(name) => TunError::Different(name.clone(), Kind::Tap).fmt(f),
            Self::Configuration(name, error) => {
                write!(f, "cannot configure the interface {name} in the namespace: {error}")
            }
            Self::Child(error) => write!(f, "cannot enter the namespace in a child: {error}"),
            Self::Other(error) => write!(f, "cannot open an interface in the namespace: {error}"),
        }
    }
}

impl error::Error for GuestTunError {}

#[cfg(test)]
#[path = "tun_in_namespace_tests.rs"]
mod tests;
