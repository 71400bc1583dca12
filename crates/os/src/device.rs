//! The device below a station: a common interface to TUN, TAP and packet sockets.

use crate::packet_socket::PacketSocket;
use crate::tun::{Kind, Tun};
use crate::vnet::{Header, Received};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A device that carries whole packets.
#[derive(Debug)]
pub enum Device {
    /// A TUN or a TAP.
    Tun(Tun),
    /// A packet socket.
    PacketSocket(PacketSocket),
}

impl Device {
    /// Returns whether the packets of the device are Ethernet frames.
    #[must_use]
    pub fn has_frames(&self) -> bool {
        match self {
            Self::Tun(tun) => tun.kind() == Kind::Tap,
            Self::PacketSocket(_) => true,
        }
    }

    /// Returns whether packets may have unfinished checksums or segmentation in both directions.
    #[must_use]
    pub fn has_offloads(&self) -> bool {
        match self {
            Self::Tun(tun) => tun.offloads().is_some(),
            Self::PacketSocket(socket) => socket.has_offloads(),
        }
    }

    /// Returns whether the device segments UDP super-datagrams.
    #[must_use]
    pub fn has_uso(&self) -> bool {
        match self {
            Self::Tun(tun) => tun.offloads().is_some_and(|offloads| offloads.udp),
            Self::PacketSocket(socket) => socket.has_offloads(),
        }
    }

    /// Sets whether [`Self::receive`] waits for a packet.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tun::set_blocking`].
    pub fn set_blocking(&self, is_blocking: bool) -> io::Result<()> {
        match self {
            Self::Tun(tun) => tun.set_blocking(is_blocking),
            Self::PacketSocket(socket) => socket.set_blocking(is_blocking),
        }
    }

    /// Reads the next packet; waits for it if the device is blocking.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tun::receive`] and [`PacketSocket::receive`].
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        match self {
            Self::Tun(tun) => tun.receive(buffer),
            Self::PacketSocket(socket) => socket.receive(buffer),
        }
    }

    /// Reads the next packet if one is waiting.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tun::receive_now`] and [`PacketSocket::receive_now`].
    pub fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        match self {
            Self::Tun(tun) => tun.receive_now(buffer),
            Self::PacketSocket(socket) => socket.receive_now(buffer),
        }
    }

    /// Writes one packet, given in three parts.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tun::write_vectored`] and [`PacketSocket::write_vectored`].
    pub fn write_vectored(&self, header: &Header, parts: [&[u8]; 3]) -> io::Result<Option<usize>> {
        match self {
            Self::Tun(tun) => tun.write_vectored(header, parts),
            Self::PacketSocket(socket) => socket.write_vectored(header, parts),
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tun(tun) => tun.as_fd(),
            Self::PacketSocket(socket) => socket.as_fd(),
        }
    }
}
