//! UDP socket of a transfer: of the kernel, or of the user-space host.

use super::outbox::Outbox;
use anyhow::{Context, Result};
use os::datagram::{DatagramError, DatagramSocket, Inbox};
use os::host::Host;
use os::readiness::{self, Registered};
use protocols::tftp::window_size_for;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::task::Poll;
use tokio::io::Interest;

/// Size of the receive buffer that is requested from the kernel, in bytes as the kernel counts
/// them.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Maximum number of received datagrams that a socket of the user-space host queues.
const USERSPACE_QUEUE_DATAGRAMS: u16 = 8;

/// A UDP socket.
#[derive(Debug)]
pub enum UdpTransport {
    /// Kernel socket.
    Kernel(Registered<DatagramSocket>),
    /// Socket of the user-space host.
    Userspace(os::host::UdpSocket),
}

impl UdpTransport {
    /// Creates a kernel socket bound to the local address `at`, or to the unspecified address of
    /// the family of `peer`.
    pub fn kernel(at: Option<IpAddr>, peer: SocketAddr) -> io::Result<Self> {
        let unspecified_address = || match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = DatagramSocket::bind((at.unwrap_or_else(unspecified_address), 0).into())?;
        // Writability is not watched, because each sent datagram makes the socket writable again.
        let interest = Interest::READABLE | Interest::ERROR;
        readiness::register(socket, interest).map(Self::Kernel)
    }

    /// Creates a socket of the user-space `host`; without `host`, a kernel socket.
    pub fn open(peer: SocketAddr, host: Option<&Host>) -> Result<Self> {
        match host {
            None => Self::kernel(None, peer).context("cannot open a UDP socket"),
            Some(host) => host.bind(0).map(Self::Userspace).context("no local UDP port is free"),
        }
    }

    /// Returns the number of unread blocks of this size that the socket can queue.
    pub fn window_size_max(&self, block_size: u16) -> u16 {
        match self {
            Self::Kernel(socket) => {
                let buffer_size = socket.get_ref().set_receive_buffer(RECEIVE_BUFFER_BYTES);
                window_size_for(buffer_size.unwrap_or(0), block_size)
            }
            Self::Userspace(_) => USERSPACE_QUEUE_DATAGRAMS,
        }
    }

    pub(crate) fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Kernel(socket) => {
                let local = socket.get_ref().local_addr().ok();
                local.filter(|local| !local.ip().is_unspecified())
            }
            Self::Userspace(_) => None,
        }
    }

    /// Sends the datagrams of the outbox. Waits while the send buffer of the socket is full.
    pub(crate) async fn send(&self, outbox: &mut Outbox, to: SocketAddr) -> io::Result<()> {
        while !outbox.is_empty() {
            let (bytes, lens) = outbox.unsent();
            let send_result = match self {
                Self::Userspace(socket) => {
                    let datagram = bytes.get(..lens.first().copied().unwrap_or(0));
                    socket.send_to(datagram.unwrap_or_default(), to).await.map(|_| 1)
                }
                Self::Kernel(socket) => match socket.get_ref().send(bytes, lens, to) {
                    Poll::Pending => {
                        let duplicate = socket.get_ref().as_fd().try_clone_to_owned()?;
                        let writable = readiness::register(duplicate, Interest::WRITABLE)?;
                        writable.writable().await?.retain_ready();
                        Ok(0)
                    }
                    Poll::Ready(sent) => sent,
                },
            };
            outbox.advance(send_result?);
        }
        Ok(())
    }

    /// Waits until datagrams arrive, and receives the datagrams.
    pub(crate) async fn receive(&self, inbox: &mut Inbox) -> io::Result<()> {
        let socket = match self {
            Self::Kernel(socket) => socket,
            Self::Userspace(socket) => {
                let (len, from) = socket.recv_from(inbox.next_buffer()).await?;
                inbox.push_received(from, len);
                return Ok(());
            }
        };
        loop {
            let mut ready = socket.ready(Interest::READABLE | Interest::ERROR).await?;
            match socket.get_ref().receive(inbox) {
                // Datagrams that arrive after this call make the socket ready again.
                Poll::Ready(Ok(false)) => ready.clear_ready(),
                Poll::Ready(Ok(true)) => {}
                Poll::Pending => {
                    ready.clear_ready();
                    continue;
                }
                Poll::Ready(Err(error)) => {
                    ready.clear_ready();
                    return Err(error);
                }
            }
            return Ok(());
        }
    }

    /// Returns an error that the network has reported for a sent datagram.
    pub(crate) fn datagram_error(&self) -> Option<DatagramError> {
        match self {
            Self::Kernel(socket) => socket.get_ref().datagram_error(),
            Self::Userspace(_) => None,
        }
    }
}
