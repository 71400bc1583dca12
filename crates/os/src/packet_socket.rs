//! A packet socket: Ethernet frames in and out of an interface of the kernel (packet(7)).
//!
//! The kernel keeps the interface; we receive what its driver lets in and send beside its queues
//! (`PACKET_QDISC_BYPASS`). Frames for other stations are left to the driver to keep out, unless
//! it is asked for all; what this machine sends is not received (`PACKET_IGNORE_OUTGOING`), and
//! the kernel's own stack receives what we receive: give that interface no address.
//!
//! With `PACKET_VNET_HDR` frames may be unfinished in both directions, as [`crate::vnet`] says. The
//! header has no `num_buffers` here. A VLAN tag that the driver took off is lost.

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

/// How a packet socket is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether frames may be left unfinished, with a header that says so.
    pub is_offloading: bool,
    /// Whether frames for any station are received, not only those for the interface.
    pub is_promiscuous: bool,
}

impl PacketSocket {
    /// Opens a socket on the interface called `name`, in the calling thread's network namespace.
    ///
    /// The descriptor does not block.
    ///
    /// # Errors
    ///
    /// See [`PacketSocketError`]. That the kernel offers no offload is none: see
    /// [`Self::has_offloads`].
    pub fn open(name: &str, options: Options) -> Result<Self, PacketSocketError> {
        let index = Interface::named(name).and_then(|interface| interface.index());
        let index = index.map_err(PacketSocketError::Interface)?;
        let index = i32::try_from(index).unwrap_or(0);
        // Without a protocol it receives nothing before it is bound.
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: takes no pointer.
        let socket = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if socket < 0 {
            let error = io::Error::last_os_error();
            return Err(match error.kind() {
                io::ErrorKind::PermissionDenied => PacketSocketError::NotPermitted(name.into()),
                _ => PacketSocketError::Other(error),
            });
        }
        // SAFETY: the descriptor is new, and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let has_offloads = options.is_offloading && set(&socket, PACKET_VNET_HDR, &1_i32).is_ok();
        // Older kernels have neither; then its own frames come back, which a station ignores.
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

    /// Returns how many frames the interface had no room for.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Makes reads wait for a frame (`true`) or answer `None` (`false`, as it was opened).
    ///
    /// # Errors
    ///
    /// What `ioctl` says.
    pub fn set_blocking(&self, is_blocking: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.socket, !is_blocking)?)
    }

    /// Reads the next frame into `buffer`, and returns where it lies there and what is unfinished;
    /// `None` if there is none and the socket does not block, or if a signal ended the wait of one
    /// that does.
    ///
    /// With offloads a frame has up to 65,549 bytes, and the header in front takes 10.
    ///
    /// # Errors
    ///
    /// ENETDOWN when the interface goes down; InvalidData for a frame that is longer than the
    /// room or whose header does not fit it, which is lost.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        self.receive_with(buffer, RecvFlags::empty())
    }

    /// Reads like [`Self::receive`], but never waits, whatever [`Self::set_blocking`] says.
    ///
    /// # Errors
    ///
    /// As [`Self::receive`].
    pub fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        self.receive_with(buffer, RecvFlags::DONTWAIT)
    }

    fn receive_with(&self, buffer: &mut [u8], flags: RecvFlags) -> io::Result<Option<Received>> {
        // With TRUNC the answer is the length of the frame, not of what there was room for.
        let flags = flags | RecvFlags::TRUNC;
        match rustix::net::recv(&self.socket, &mut *buffer, flags) {
            Ok((_, count)) if count > buffer.len() => Err(io::ErrorKind::InvalidData.into()),
            Ok((_, count)) => Received::in_front(buffer, self.header_len(), count).map(Some),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn header_len(&self) -> usize {
        if self.has_offloads { SHORT_HEADER_LEN } else { 0 }
    }

    /// Sends one frame in three parts, finished or not as `header` says, and returns its length,
    /// or `None` if the kernel has no room for it now. Nothing is copied here.
    ///
    /// A frame that the interface has no room for is lost, as on a wire, and counted.
    ///
    /// # Errors
    ///
    /// ENETDOWN while the interface is down; EINVAL or EMSGSIZE for what is no frame of it;
    /// InvalidInput for an unfinished frame without offloads.
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

#[expect(clippy::cast_possible_truncation, reason = "options are of a few bytes")]
fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let place: *const T = value;
    // SAFETY: the kernel reads no more than the length that it is told.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            place.cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[expect(clippy::cast_possible_truncation, reason = "an address is of a few bytes")]
fn bind(socket: &OwnedFd, index: i32) -> io::Result<()> {
    // SAFETY: all zeros are an address of any interface and no protocol.
    let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ETH_P_ALL.to_be();
    address.sll_ifindex = index;
    let place = &raw const address;
    // SAFETY: the address is as long as the kernel is told.
    let answer = unsafe {
        libc::bind(socket.as_raw_fd(), place.cast(), size_of_val(&address) as libc::socklen_t)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `struct packet_mreq`.
#[repr(C)]
struct Membership {
    index: libc::c_int,
    kind: libc::c_ushort,
    length: libc::c_ushort,
    address: [u8; 8],
}

/// Why there is no packet socket.
#[derive(Debug)]
pub enum PacketSocketError {
    /// The interface cannot be found.
    Interface(InterfaceError),
    /// Only root, or who has CAP_NET_RAW, may have packet sockets.
    NotPermitted(String),
    /// Anything else.
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

/// The header before VIRTIO 1.0, without `num_buffers`.
const SHORT_HEADER_LEN: usize = 10;
// <linux/if_packet.h>, <linux/if_ether.h>
const PACKET_ADD_MEMBERSHIP: libc::c_int = 1;
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_QDISC_BYPASS: libc::c_int = 20;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const PACKET_MR_PROMISC: libc::c_ushort = 1;
const ETH_P_ALL: u16 = 0x0003;
