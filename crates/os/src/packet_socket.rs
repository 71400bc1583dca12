//! Packet sockets, which receive and send Ethernet frames on an interface of the kernel
//! (packet(7)).
//!
//! The kernel continues to use the interface. The socket receives the frames that the driver
//! accepts. Sent frames bypass the interface's queueing discipline (`PACKET_QDISC_BYPASS`). The
//! driver filters out frames for other stations, unless promiscuous mode is on. Frames sent by this
//! machine are not received (`PACKET_IGNORE_OUTGOING`). The kernel's own stack receives the same
//! frames as the socket, so the interface should have no address.
//!
//! With `PACKET_VNET_HDR`, both received and sent frames may be unfinished, as [`crate::vnet`]
//! describes. The header has no `num_buffers` here. A VLAN tag that the driver has removed is lost.

use crate::interface::{Interface, InterfaceError};
use crate::vnet::{Header, Received};
use rustix::io::{Errno, IoSlice};
use rustix::net::RecvFlags;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{error, fmt, io};

/// One packet socket on one interface.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    has_offloads: bool,
    dropped: AtomicU64,
}

/// Options for opening a packet socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// True if frames may have unfinished checksums or segmentation. Each frame then has a header
    /// that describes them.
    pub is_offloading: bool,
    /// True if frames for any station are received, not only those for the interface.
    pub is_promiscuous: bool,
}

impl PacketSocket {
    /// Opens a socket on the interface called `name`, in the calling thread's network namespace.
    ///
    /// The descriptor is non-blocking.
    ///
    /// # Errors
    ///
    /// Returns [`PacketSocketError`]. Missing offloads of the kernel are not an error: see
    /// [`Self::has_offloads`].
    pub fn open(name: &str, options: Options) -> Result<Self, PacketSocketError> {
        let index = Interface::named(name).and_then(|interface| interface.index());
        let index = index.map_err(PacketSocketError::Interface)?;
        let index = i32::try_from(index).unwrap_or(0);
        // Without a protocol, the socket receives nothing before it is bound.
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: the call takes no pointer.
        let socket = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if socket < 0 {
            let error = io::Error::last_os_error();
            return Err(match error.kind() {
                io::ErrorKind::PermissionDenied => PacketSocketError::NotPermitted(name.into()),
                _ => PacketSocketError::Other(error),
            });
        }
        // SAFETY: the descriptor is new, and nothing else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let has_offloads = options.is_offloading && set(&socket, PACKET_VNET_HDR, &1_i32).is_ok();
        // Older kernels lack these options. Without them the socket receives its own frames, which
        // a station ignores.
        let _ = set(&socket, PACKET_QDISC_BYPASS, &1_i32);
        let _ = set(&socket, PACKET_IGNORE_OUTGOING, &1_i32);
        if options.is_promiscuous {
            let all = Membership { index, kind: PACKET_MR_PROMISC, length: 0, address: [0; 8] };
            set(&socket, PACKET_ADD_MEMBERSHIP, &all).map_err(PacketSocketError::Other)?;
        }
        bind(&socket, index).map_err(PacketSocketError::Other)?;
        Ok(Self { socket, has_offloads, dropped: AtomicU64::new(0) })
    }

    /// Returns whether frames have a header and may be unfinished.
    #[must_use]
    pub fn has_offloads(&self) -> bool {
        self.has_offloads
    }

    /// Returns the number of frames dropped because the interface's queue was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Makes reads wait for a frame (`true`) or return `None` (`false`, the initial state).
    ///
    /// # Errors
    ///
    /// Returns the error of `ioctl(2)`.
    pub fn set_blocking(&self, is_blocking: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.socket, !is_blocking)?)
    }

    /// Reads the next frame into `buffer`. Returns the position of the frame in `buffer` and its
    /// unfinished parts; `None` if no frame is waiting and the socket is non-blocking, or if a
    /// signal interrupted a blocking read.
    ///
    /// With offloads a frame has up to 65,549 bytes, preceded by a header of 10 bytes.
    ///
    /// # Errors
    ///
    /// Returns ENETDOWN if the interface goes down; `InvalidData` for a frame that is longer than
    /// the buffer or does not match its header. That frame is lost.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        self.receive_with(buffer, RecvFlags::empty())
    }

    /// Reads like [`Self::receive`], but never waits, independent of [`Self::set_blocking`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::receive`].
    pub fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        self.receive_with(buffer, RecvFlags::DONTWAIT)
    }

    fn receive_with(&self, buffer: &mut [u8], flags: RecvFlags) -> io::Result<Option<Received>> {
        // With MSG_TRUNC, `recv` returns the full length of the frame.
        let flags = flags | RecvFlags::TRUNC;
        match rustix::net::recv(&self.socket, &mut *buffer, flags) {
            Ok((_, count)) if count > buffer.len() => Err(io::ErrorKind::InvalidData.into()),
            Ok((_, count)) => Received::parse(buffer, self.header_len(), count).map(Some),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn header_len(&self) -> usize {
        if self.has_offloads { SHORT_HEADER_LEN } else { 0 }
    }

    /// Sends one frame, given in three parts; `header` describes its unfinished parts. Returns the
    /// length of the frame, or `None` if the socket's send buffer is full. The parts are not copied
    /// here.
    ///
    /// A frame that does not fit in the interface's queue is lost, as on a wire, and counted.
    ///
    /// # Errors
    ///
    /// Returns ENETDOWN while the interface is down; EINVAL or EMSGSIZE for an invalid frame;
    /// `InvalidInput` for an unfinished frame without offloads.
    pub fn write_vectored(&self, header: &Header, parts: [&[u8]; 3]) -> io::Result<Option<usize>> {
        if !self.has_offloads && !header.is_plain() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let length = parts.iter().map(|part| part.len()).sum();
        let [a, b, c] = parts.map(IoSlice::new);
        let header = header.encode();
        let header = IoSlice::new(header.get(..self.header_len()).unwrap_or_default());
        loop {
            match rustix::io::writev(&self.socket, &[header, a, b, c]) {
                Ok(_) => return Ok(Some(length)),
                Err(Errno::NOBUFS) => {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                    return Ok(Some(length));
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the length of an option fits in socklen_t")]
fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let place: *const T = value;
    // SAFETY: the kernel reads no more than the length passed.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            place.cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[expect(clippy::cast_possible_truncation, reason = "the length of an address fits in socklen_t")]
fn bind(socket: &OwnedFd, index: i32) -> io::Result<()> {
    // SAFETY: an all-zero address is valid, with any interface and no protocol.
    let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ETH_P_ALL.to_be();
    address.sll_ifindex = index;
    let place = &raw const address;
    // SAFETY: the address has the length passed.
    let status = unsafe {
        libc::bind(socket.as_raw_fd(), place.cast(), size_of_val(&address) as libc::socklen_t)
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The kernel's `struct packet_mreq`.
#[repr(C)]
struct Membership {
    index: libc::c_int,
    kind: libc::c_ushort,
    length: libc::c_ushort,
    address: [u8; 8],
}

/// Error of opening a packet socket.
#[derive(Debug)]
pub enum PacketSocketError {
    /// The interface cannot be found.
    Interface(InterfaceError),
    /// Packet sockets require root or CAP_NET_RAW.
    NotPermitted(String),
    /// Any other error.
    Other(io::Error),
}

impl fmt::Display for PacketSocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(error) => error.fmt(f),
            Self::NotPermitted(name) => write!(
                f,
                "no permission for a packet socket on the interface {name}: run as root, or let \
                 root give this program cap_net_raw"
            ),
            Self::Other(error) => write!(f, "cannot open a packet socket: {error}"),
        }
    }
}

impl error::Error for PacketSocketError {}

/// Length in bytes of the header before VIRTIO 1.0, without `num_buffers`.
const SHORT_HEADER_LEN: usize = 10;
// <linux/if_packet.h>, <linux/if_ether.h>
const PACKET_ADD_MEMBERSHIP: libc::c_int = 1;
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_QDISC_BYPASS: libc::c_int = 20;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const PACKET_MR_PROMISC: libc::c_ushort = 1;
const ETH_P_ALL: u16 = 0x0003;
