//! TUN: an interface of the kernel whose other end is a descriptor of ours.
//!
//! What the kernel routes to the interface is read here, one IP packet per read, without any
//! header in front (`IFF_TUN | IFF_NO_PI`); what is written here, the kernel receives on it. An
//! interface that was made before, and belongs to the caller, is attached to.

use crate::interface::{self, NameError};
use crate::unless_blocked;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{error, fmt, io};

/// One TUN interface.
#[derive(Debug)]
pub struct Tun {
    descriptor: OwnedFd,
    name: String,
}

impl Tun {
    /// Opens the interface called `name`, which is made if there is none; the kernel chooses a
    /// name if none is given, and a number for `%d` in it.
    ///
    /// The descriptor does not block. It stays with the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// See [`TunError`]: each says what to do.
    pub fn open(name: Option<&str>) -> Result<Self, TunError> {
        let wanted = name.unwrap_or("tun%d");
        let mut request = interface::Request::named(wanted).map_err(TunError::Name)?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let descriptor =
            rustix::fs::open(DEVICE, flags, Mode::empty()).map_err(|error| match error {
                Errno::NOENT | Errno::NODEV | Errno::NXIO => TunError::NoDevice,
                Errno::ACCESS | Errno::PERM => TunError::DeviceNotPermitted,
                error => TunError::Other(error.into()),
            })?;
        request.set_flags(IFF_TUN | IFF_NO_PI);
        // SAFETY: TUNSETIFF takes a struct ifreq and writes the name into it; `Request` is one.
        let attached = unsafe { ioctl(&descriptor, Updater::<TUNSETIFF, _>::new(&mut request)) };
        attached.map_err(|error| match error {
            Errno::BUSY => TunError::Busy(wanted.into()),
            Errno::PERM | Errno::ACCESS => TunError::InterfaceNotPermitted(wanted.into()),
            Errno::INVAL => TunError::NotTun(wanted.into()),
            error => TunError::Other(error.into()),
        })?;
        Ok(Self { descriptor, name: request.name() })
    }

    /// Returns the interface's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the next packet into `packet` and returns its length, or `None` if there is none.
    ///
    /// What is longer than `packet` is cut off: give it the interface's MTU.
    ///
    /// # Errors
    ///
    /// What the kernel says; EIO while the interface is down.
    pub fn read(&self, packet: &mut [u8]) -> io::Result<Option<usize>> {
        unless_blocked(|| rustix::io::read(&self.descriptor, &mut *packet))
    }

    /// Gives the kernel one packet, or returns `None` if it has no room for it now.
    ///
    /// # Errors
    ///
    /// What the kernel says: EINVAL for what is no IP packet, EIO while the interface is down.
    pub fn write(&self, packet: &[u8]) -> io::Result<Option<usize>> {
        unless_blocked(|| rustix::io::write(&self.descriptor, packet))
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Why there is no TUN.
#[derive(Debug)]
pub enum TunError {
    /// The kernel has no TUN, or the device was not given to this container.
    NoDevice,
    /// The device may not be opened.
    DeviceNotPermitted,
    /// The interface may not be made or attached to.
    InterfaceNotPermitted(String),
    /// Another program has attached to the interface.
    Busy(String),
    /// There is an interface of that name, and it is no TUN.
    NotTun(String),
    /// No interface can have that name.
    Name(NameError),
    /// Anything else.
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
            Self::DeviceNotPermitted => {
                write!(f, "no permission to open {DEVICE}: run as root or in a user namespace")
            }
            Self::InterfaceNotPermitted(name) => write!(
                f,
                "no permission to make or attach to the interface {name}: run as root, or let \
                 root run 'ip tuntap add dev {name} mode tun user $USER' once"
            ),
            Self::Busy(name) => write!(
                f,
                "another program uses the interface {name}: end that program or choose another \
                 name"
            ),
            Self::NotTun(name) => {
                write!(f, "the interface {name} exists and is no TUN: choose another name")
            }
            Self::Name(error) => error.fmt(f),
            Self::Other(error) => write!(f, "cannot open a TUN: {error}"),
        }
    }
}

impl error::Error for TunError {}

const DEVICE: &str = "/dev/net/tun";
// <linux/if_tun.h>
const TUNSETIFF: Opcode = opcode::write::<libc::c_int>(b'T', 202);
const IFF_TUN: i16 = 0x0001;
const IFF_NO_PI: i16 = 0x1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Interface;
    use crate::testing::{in_new_network, readable};
    use std::net::{Ipv4Addr, UdpSocket};

    const OURS: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 1);
    const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 2);

    fn open_and_bring_up() -> Tun {
        let tun = Tun::open(Some("plumb%d")).unwrap();
        let interface = Interface::named(tun.name()).unwrap();
        interface.set_address(OURS, 24).unwrap();
        interface.bring_up().unwrap();
        tun
    }

    /// Reads until there is a UDP packet: the kernel also looks for IPv6 routers.
    fn read_udp(tun: &Tun) -> Vec<u8> {
        let mut packet = [0; 2048];
        loop {
            readable(tun);
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
            let socket = UdpSocket::bind((OURS, 0)).unwrap();
            socket.send_to(b"down", (THEIRS, 7)).unwrap();
            let packet = read_udp(&tun);
            assert_eq!((&packet[16..20], &packet[28..]), (&THEIRS.octets()[..], &b"down"[..]));
        });
    }

    #[test]
    fn a_packet_written_to_the_tun_is_received_by_a_socket() {
        in_new_network(|| {
            let tun = open_and_bring_up();
            let socket = UdpSocket::bind((OURS, 0)).unwrap();
            socket.send_to(b"echo", (THEIRS, 7)).unwrap();
            let mut packet = read_udp(&tun);
            // Both checksums are sums, so they stay right when source and destination change.
            let (source, destination) = (packet[12..16].to_vec(), packet[16..20].to_vec());
            packet[12..16].copy_from_slice(&destination);
            packet[16..20].copy_from_slice(&source);
            packet.copy_within(20..22, 22);
            packet[20..22].copy_from_slice(&7_u16.to_be_bytes());
            assert_eq!(tun.write(&packet).unwrap(), Some(packet.len()));
            let mut received = [0; 16];
            readable(&socket);
            let (length, from) = socket.recv_from(&mut received).unwrap();
            assert_eq!((&received[..length], from), (&b"echo"[..], (THEIRS, 7).into()));
        });
    }

    #[test]
    fn a_tun_without_packets_says_none() {
        in_new_network(|| {
            let tun = Tun::open(None).unwrap();
            Interface::named(tun.name()).unwrap().bring_up().unwrap();
            let mut packet = [0; 2048];
            while tun.read(&mut packet).unwrap().is_some() {}
            assert_eq!(tun.read(&mut packet).unwrap(), None);
        });
    }

    #[test]
    fn a_second_program_at_the_same_tun_is_told_that_it_is_busy() {
        in_new_network(|| {
            let first = Tun::open(Some("plumb7")).unwrap();
            assert_eq!(first.name(), "plumb7");
            let refused = Tun::open(Some("plumb7")).unwrap_err();
            assert!(matches!(refused, TunError::Busy(ref name) if name == "plumb7"));
        });
    }

    #[test]
    fn an_interface_that_is_no_tun_is_told_apart() {
        in_new_network(|| {
            assert!(matches!(Tun::open(Some("lo")).unwrap_err(), TunError::NotTun(_)));
        });
    }

    #[test]
    fn a_name_of_sixteen_characters_is_refused_before_the_kernel_is_asked() {
        let refused = Tun::open(Some("abcdefghijklmnop")).unwrap_err();
        assert!(matches!(refused, TunError::Name(NameError::TooLong(_))));
        assert!(refused.to_string().contains("at most 15"));
    }
}
