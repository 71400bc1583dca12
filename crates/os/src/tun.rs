//! TUN and TAP: interfaces of the kernel whose other end is a file descriptor.
//!
//! A read returns one packet that the kernel has routed to the interface: an IP packet for a TUN,
//! an Ethernet frame for a TAP. The kernel receives written packets on the interface. A program can
//! also attach to an existing persistent interface that belongs to its user.
//!
//! # Offloads
//!
//! A device opened with [`Options::is_offloading`] has the header of [`crate::vnet`] in front of
//! each packet (`IFF_VNET_HDR`, `TUNSETVNETHDRSZ`). [`Tun`] negotiates which unfinished packets the
//! kernel may send (`TUNSETOFFLOAD`): it requests all offloads first, then fewer in steps, until
//! the kernel agrees. The kernel itself accepts unfinished packets with any header, independent of
//! the negotiation.
//!
//! | requested | by `TUN_F_*` | since Linux |
//! |---|---|---|
//! | checksums, TCP, TCP with ECN, UDP | `CSUM`, `TSO4`, `TSO6`, `TSO_ECN`, `USO4`, `USO6` | 6.2 |
//! | checksums, TCP, TCP with ECN | as above without `USO4`, `USO6` | 2.6.27 |
//! | checksums, TCP | `CSUM`, `TSO4`, `TSO6` | |
//! | checksums alone | `CSUM` | |
//! | nothing | | always |

use crate::interface::{self, NameError};
use crate::unless_blocked;
use crate::vnet::{HEADER_LEN, Header, Received};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, IoSlice, IoSliceMut, ReadWriteFlags};
use rustix::ioctl::{IntegerSetter, Opcode, Setter, Updater, ioctl, opcode};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{error, fmt, io};

/// One TUN or TAP interface, or one queue of it.
#[derive(Debug)]
pub struct Tun {
    descriptor: OwnedFd,
    name: String,
    kind: Kind,
    /// `None` if packets have no header.
    offloads: Option<Offloads>,
}

/// Type of the packets that the interface carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// IP packets.
    #[default]
    Tun,
    /// Ethernet frames.
    Tap,
}

/// Options for opening an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// IP packets or Ethernet frames.
    pub kind: Kind,
    /// True if packets may have unfinished checksums or segmentation. Each packet then has a header
    /// that describes them.
    pub is_offloading: bool,
    /// True if UDP datagrams are read and written one by one even with offloads.
    pub has_single_datagrams: bool,
    /// True if the interface may be opened again for further queues, up to 256; the kernel
    /// distributes its flows over the queues.
    pub has_many_queues: bool,
}

/// Offloads: work that the kernel may leave to the reader of its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// TCP and UDP checksums.
    pub checksum: bool,
    /// TCP segmentation.
    pub tcp: bool,
    /// TCP segmentation of segments with CWR.
    pub ecn: bool,
    /// UDP segmentation.
    pub udp: bool,
}

impl Tun {
    /// Opens the TUN called `name` without offloads, and creates it if it does not exist. If no
    /// name is given, the kernel chooses one. The kernel replaces `%d` in a name by a number.
    ///
    /// The descriptor is non-blocking. It stays in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// Returns [`TunError`], whose message names the remedy.
    pub fn open(name: Option<&str>) -> Result<Self, TunError> {
        Self::open_with(name, Options::default())
    }

    /// Opens the interface called `name` with `options`, like [`Self::open`].
    ///
    /// # Errors
    ///
    /// Returns [`TunError`]. Missing offloads of the kernel are not an error: see
    /// [`Self::offloads`].
    pub fn open_with(name: Option<&str>, options: Options) -> Result<Self, TunError> {
        let requested_name = name.unwrap_or(match options.kind {
            Kind::Tun => "tun%d",
            Kind::Tap => "tap%d",
        });
        let mut request = interface::Request::named(requested_name).map_err(TunError::Name)?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let descriptor =
            rustix::fs::open(DEVICE, flags, Mode::empty()).map_err(|error| match error {
                Errno::NOENT | Errno::NODEV | Errno::NXIO => TunError::NoDevice,
                Errno::ACCESS | Errno::PERM => TunError::DeviceNotPermitted,
                error => TunError::Other(error.into()),
            })?;
        request.set_flags(interface_flags(options));
        // SAFETY: TUNSETIFF takes a struct ifreq and writes the name into it; `Request` has that
        // layout.
        let result = unsafe { ioctl(&descriptor, Updater::<TUNSETIFF, _>::new(&mut request)) };
        result.map_err(|error| match error {
            Errno::BUSY => TunError::Busy(requested_name.into()),
            Errno::PERM | Errno::ACCESS => {
                TunError::InterfaceNotPermitted(requested_name.into(), options.kind)
            }
            Errno::INVAL => TunError::Different(requested_name.into(), options.kind),
            error => TunError::Other(error.into()),
        })?;
        let offloads =
            options.is_offloading.then(|| request_offloads(&descriptor, options)).transpose();
        let offloads = offloads.map_err(|error| TunError::Other(error.into()))?;
        Ok(Self { descriptor, name: request.name(), kind: options.kind, offloads })
    }

    /// Opens `count` queues of the interface called `name`, at least one, like [`Self::open_with`];
    /// the kernel distributes its flows over them (see [`crate::queue_steering`]).
    ///
    /// # Errors
    ///
    /// Returns [`TunError`].
    pub fn open_queues(
        name: Option<&str>,
        options: Options,
        count: u16,
    ) -> Result<Vec<Self>, TunError> {
        let options = Options { has_many_queues: true, ..options };
        let mut queues = vec![Self::open_with(name, options)?];
        while queues.len() < usize::from(count) {
            let name = queues.first().map(|queue| queue.name.clone());
            queues.push(Self::open_with(name.as_deref(), options)?);
        }
        Ok(queues)
    }

    /// Takes over an open interface from another process.
    pub(crate) fn from_open(
        descriptor: OwnedFd,
        name: String,
        kind: Kind,
        offloads: Option<Offloads>,
    ) -> Self {
        Self { descriptor, name, kind, offloads }
    }

    /// Returns the interface's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type of the packets that the interface carries.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the work that the kernel may leave to the reader, or `None` if packets have no
    /// header.
    #[must_use]
    pub fn offloads(&self) -> Option<Offloads> {
        self.offloads
    }

    /// Makes reads wait for a packet (`true`) or return `None` (`false`, the initial state).
    ///
    /// [`Self::receive_now`] never waits.
    ///
    /// # Errors
    ///
    /// Returns the error of `ioctl(2)`.
    pub fn set_blocking(&self, is_blocking: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.descriptor, !is_blocking)?)
    }

    /// Reads the next packet into `packet` and returns its length, or `None` if no packet is
    /// waiting.
    ///
    /// A packet longer than the buffer is truncated: use a buffer of the interface's MTU. Use this
    /// method only for a device without offloads; for a device with offloads use [`Self::receive`],
    /// which also returns the unfinished parts of a packet.
    ///
    /// # Errors
    ///
    /// Returns the error of `read(2)`; EIO while the interface is down.
    pub fn read(&self, packet: &mut [u8]) -> io::Result<Option<usize>> {
        match self.offloads {
            None => unless_blocked(|| rustix::io::read(&self.descriptor, &mut *packet)),
            Some(_) => self.read_finished(packet),
        }
    }

    fn read_finished(&self, packet: &mut [u8]) -> io::Result<Option<usize>> {
        let mut buffer = vec![0; HEADER_LEN + packet.len() + 1];
        let Some(received) = self.receive(&mut buffer)? else { return Ok(None) };
        let bytes = buffer.get(received.range()).unwrap_or_default();
        packet.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Ok(Some(bytes.len()))
    }

    /// Writes one packet; returns `None` if the kernel cannot take it now.
    ///
    /// # Errors
    ///
    /// Returns the error of `write(2)`: EINVAL for an invalid IP packet, EIO while the interface is
    /// down.
    pub fn write(&self, packet: &[u8]) -> io::Result<Option<usize>> {
        match self.offloads {
            None => unless_blocked(|| rustix::io::write(&self.descriptor, packet)),
            Some(_) => self.write_vectored(&Header::default(), [packet, &[], &[]]),
        }
    }

    /// Reads the next packet into `buffer`. Returns the position of the packet in `buffer` and its
    /// unfinished parts; `None` if no packet is waiting and the device is non-blocking, or if a
    /// signal interrupted a blocking read.
    ///
    /// With offloads a packet has up to 65,535 bytes, plus 14 for Ethernet, preceded by a header of
    /// [`HEADER_LEN`]. A packet longer than the buffer is truncated.
    ///
    /// # Errors
    ///
    /// Returns the error of `read(2)`; `InvalidData` for a header that does not match its packet,
    /// which is lost.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        self.received(rustix::io::read(&self.descriptor, &mut *buffer), buffer)
    }

    /// Reads like [`Self::receive`] from a blocking device, but does not wait.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::receive`].
    pub fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        // An offset of -1 means no offset (preadv2(2)).
        let no_offset = u64::MAX;
        let flags = ReadWriteFlags::NOWAIT;
        let parts = &mut [IoSliceMut::new(buffer)];
        let mut read = rustix::io::preadv2(&self.descriptor, parts, no_offset, flags);
        if read == Err(Errno::OPNOTSUPP) {
            // Before Linux 6.4, the driver does not support RWF_NOWAIT.
            self.set_blocking(false)?;
            read = rustix::io::read(&self.descriptor, &mut *buffer);
            self.set_blocking(true)?;
        }
        self.received(read, buffer)
    }

    fn received(&self, read: Result<usize, Errno>, buffer: &[u8]) -> io::Result<Option<Received>> {
        match read {
            Ok(count) => Received::parse(buffer, self.header_len(), count).map(Some),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn header_len(&self) -> usize {
        if self.offloads.is_some() { HEADER_LEN } else { 0 }
    }

    /// Writes one packet, given in three parts; `header` describes its unfinished parts. Returns
    /// the length of the packet, or `None` if the kernel cannot take it now.
    ///
    /// A short packet is first copied into one buffer, because gathering its parts would take
    /// longer than the copy.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::write`]; `InvalidInput` for an unfinished packet on a device
    /// without offloads.
    pub fn write_vectored(&self, header: &Header, parts: [&[u8]; 3]) -> io::Result<Option<usize>> {
        if self.offloads.is_none() && !header.is_plain() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let header = header.encode();
        let header = header.get(..self.header_len()).unwrap_or_default();
        let [a, b, c] = parts;
        let mut joined = [0; SHORT_LEN];
        let written = if let Some(length) = join_parts(&mut joined, [header, a, b, c]) {
            let joined = joined.get(..length).unwrap_or_default();
            unless_blocked(|| rustix::io::write(&self.descriptor, joined))
        } else {
            let parts = [header, a, b, c].map(IoSlice::new);
            unless_blocked(|| rustix::io::writev(&self.descriptor, &parts))
        };
        Ok(written?.map(|count| count.saturating_sub(header.len())))
    }
}

/// Copies `parts` to `joined`, one after another, and returns their length; `None` if they do not
/// fit.
fn join_parts(joined: &mut [u8; SHORT_LEN], parts: [&[u8]; 4]) -> Option<usize> {
    let length = parts.iter().map(|part| part.len()).sum();
    if length > SHORT_LEN {
        return None;
    }
    let mut room = &mut joined[..];
    for part in parts {
        let (place, rest) = room.split_at_mut_checked(part.len())?;
        place.copy_from_slice(part);
        room = rest;
    }
    Some(length)
}

/// Returns the flags for creating or attaching to an interface.
fn interface_flags(options: Options) -> i16 {
    let kind = match options.kind {
        Kind::Tun => IFF_TUN,
        Kind::Tap => IFF_TAP,
    };
    let header = if options.is_offloading { IFF_VNET_HDR } else { 0 };
    let queues = if options.has_many_queues { IFF_MULTI_QUEUE } else { 0 };
    kind | IFF_NO_PI | header | queues
}

/// Sets the header length, and negotiates the offloads with the kernel.
fn request_offloads(descriptor: &OwnedFd, options: Options) -> Result<Offloads, Errno> {
    let length = i32::try_from(HEADER_LEN).unwrap_or(i32::MAX);
    // SAFETY: TUNSETVNETHDRSZ reads an int.
    unsafe { ioctl(descriptor, Setter::<TUNSETVNETHDRSZ, libc::c_int>::new(length)) }?;
    for offloads in OFFLOAD_STEPS {
        if offloads.udp && options.has_single_datagrams {
            continue;
        }
        // SAFETY: TUNSETOFFLOAD takes its flags in place of a pointer.
        let result = unsafe {
            ioctl(descriptor, IntegerSetter::<TUNSETOFFLOAD>::new_usize(offload_flags(offloads)))
        };
        match result {
            Ok(()) => return Ok(offloads),
            Err(Errno::INVAL) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Offloads::default())
}

/// Sets of offloads to request, in decreasing order.
const OFFLOAD_STEPS: [Offloads; 4] = [
    Offloads { checksum: true, tcp: true, ecn: true, udp: true },
    Offloads { checksum: true, tcp: true, ecn: true, udp: false },
    Offloads { checksum: true, tcp: true, ecn: false, udp: false },
    Offloads { checksum: true, tcp: false, ecn: false, udp: false },
];

fn offload_flags(offloads: Offloads) -> usize {
    [
        (offloads.checksum, TUN_F_CSUM),
        (offloads.tcp, TUN_F_TSO4 | TUN_F_TSO6),
        (offloads.ecn, TUN_F_TSO_ECN),
        (offloads.udp, TUN_F_USO4 | TUN_F_USO6),
    ]
    .into_iter()
    .filter(|(is_wanted, _)| *is_wanted)
    .fold(0, |flags, (_, flag)| flags | flag)
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Error of opening a TUN or TAP.
#[derive(Debug)]
pub enum TunError {
    /// The kernel has no TUN driver, or the container has no access to the device.
    NoDevice,
    /// The user may not open the device.
    DeviceNotPermitted,
    /// The user may not create or attach to the interface.
    InterfaceNotPermitted(String, Kind),
    /// Another program is attached to the interface.
    Busy(String),
    /// An interface of that name exists, but is of another type or was created with other options.
    Different(String, Kind),
    /// The name is not a valid interface name.
    Name(NameError),
    /// Any other error.
    Other(io::Error),
}

impl fmt::Display for TunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevice => write!(
                f,
                "{DEVICE} does not exist: load it with 'modprobe tun', or start the container \
                 with '--device {DEVICE}'"
            ),
            Self::DeviceNotPermitted => write!(
                f,
                "no permission to open {DEVICE}: run as root, or let root run 'chmod 666 {DEVICE}' \
                 and 'ip tuntap add dev NAME mode tun user $USER' once"
            ),
            Self::InterfaceNotPermitted(name, kind) => write!(
                f,
                "no permission to create or attach to the interface {name}: run as root, or let \
                 root run 'ip tuntap add dev {name} mode {kind} user $USER' once"
            ),
            Self::Busy(name) => write!(
                f,
                "another program uses the interface {name}: end that program or choose another \
                 name"
            ),
            Self::Different(name, kind) => {
                write!(
                    f,
                    "the interface {name} exists, but is not a {kind} or has other options: choose \
                     another name"
                )
            }
            Self::Name(error) => error.fmt(f),
            Self::Other(error) => write!(f, "cannot open a TUN: {error}"),
        }
    }
}

impl error::Error for TunError {}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Tun { "tun" } else { "tap" })
    }
}

/// Maximum total length of a packet, with its header, for which copying is faster than gathering.
const SHORT_LEN: usize = 256;
const DEVICE: &str = "/dev/net/tun";
// <linux/if_tun.h>
const TUNSETIFF: Opcode = opcode::write::<libc::c_int>(b'T', 202);
const TUNSETOFFLOAD: Opcode = opcode::write::<libc::c_uint>(b'T', 208);
const TUNSETVNETHDRSZ: Opcode = opcode::write::<libc::c_int>(b'T', 216);
const IFF_TUN: i16 = 0x0001;
const IFF_TAP: i16 = 0x0002;
const IFF_MULTI_QUEUE: i16 = 0x0100;
const IFF_NO_PI: i16 = 0x1000;
const IFF_VNET_HDR: i16 = 0x4000;
const TUN_F_CSUM: usize = 0x01;
const TUN_F_TSO4: usize = 0x02;
const TUN_F_TSO6: usize = 0x04;
const TUN_F_TSO_ECN: usize = 0x08;
const TUN_F_USO4: usize = 0x20;
const TUN_F_USO6: usize = 0x40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Interface;
    use crate::testing::{in_new_network, wait_until_readable};
    use std::net::{Ipv4Addr, UdpSocket};

    const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 1);
    const USERSPACE: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 2);

    fn open_and_bring_up() -> Tun {
        let tun = Tun::open(Some("plumb%d")).unwrap();
        let interface = Interface::named(tun.name()).unwrap();
        interface.set_address(KERNEL, 24).unwrap();
        interface.bring_up().unwrap();
        tun
    }

    /// Reads until a UDP packet arrives, skipping the kernel's IPv6 router solicitations.
    fn read_udp(tun: &Tun) -> Vec<u8> {
        let mut packet = [0; 2048];
        loop {
            wait_until_readable(tun);
            let length = tun.read(&mut packet).unwrap().unwrap();
            if (packet[0] >> 4, packet[9]) == (4, 17) {
                return packet[..length].to_vec();
            }
        }
    }

    #[test]
    fn a_datagram_of_the_kernel_is_read_from_the_tun() {
        in_new_network(|| {
            let tun = open_and_bring_up();
            let socket = UdpSocket::bind((KERNEL, 0)).unwrap();
            socket.send_to(b"down", (USERSPACE, 7)).unwrap();
            let packet = read_udp(&tun);
            assert_eq!((&packet[16..20], &packet[28..]), (&USERSPACE.octets()[..], &b"down"[..]));
        });
    }

    #[test]
    fn a_packet_written_to_the_tun_is_received_by_a_socket() {
        in_new_network(|| {
            let tun = open_and_bring_up();
            let socket = UdpSocket::bind((KERNEL, 0)).unwrap();
            socket.send_to(b"echo", (USERSPACE, 7)).unwrap();
            let mut packet = read_udp(&tun);
            // Both checksums are sums, so they stay correct when source and destination are
            // exchanged.
            let source = packet[12..16].to_vec();
            let destination = packet[16..20].to_vec();
            packet[12..16].copy_from_slice(&destination);
            packet[16..20].copy_from_slice(&source);
            packet.copy_within(20..22, 22);
            packet[20..22].copy_from_slice(&7_u16.to_be_bytes());
            assert_eq!(tun.write(&packet).unwrap(), Some(packet.len()));
            let mut received = [0; 16];
            wait_until_readable(&socket);
            let (length, from) = socket.recv_from(&mut received).unwrap();
            assert_eq!((&received[..length], from), (&b"echo"[..], (USERSPACE, 7).into()));
        });
    }

    #[test]
    fn reading_a_tun_without_packets_returns_none() {
        in_new_network(|| {
            let tun = Tun::open(None).unwrap();
            Interface::named(tun.name()).unwrap().bring_up().unwrap();
            let mut packet = [0; 2048];
            while tun.read(&mut packet).unwrap().is_some() {}
            assert_eq!(tun.read(&mut packet).unwrap(), None);
        });
    }

    #[test]
    fn opening_a_tun_that_is_in_use_reports_busy() {
        in_new_network(|| {
            let first = Tun::open(Some("plumb7")).unwrap();
            assert_eq!(first.name(), "plumb7");
            let error = Tun::open(Some("plumb7")).unwrap_err();
            assert!(matches!(error, TunError::Busy(ref name) if name == "plumb7"));
        });
    }

    #[test]
    fn opening_an_interface_that_is_not_a_tun_reports_a_different_type() {
        in_new_network(|| {
            assert!(matches!(
                Tun::open(Some("lo")).unwrap_err(),
                TunError::Different(_, Kind::Tun)
            ));
        });
    }

    #[test]
    fn a_name_of_sixteen_characters_is_rejected_without_a_system_call() {
        let error = Tun::open(Some("abcdefghijklmnop")).unwrap_err();
        assert!(matches!(error, TunError::Name(NameError::TooLong(_))));
        assert!(error.to_string().contains("at most 15"));
    }
}
