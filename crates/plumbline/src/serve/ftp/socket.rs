//! The TCP connections of a session: the kernel's, or those of a host of our own (`--via`).
//!
//! Only the kernel's have a descriptor, by which it moves files itself and tells of its TCP.

use os::host::{self, Host};
use protocols::transport::tcp::Profile;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A TCP connection.
#[derive(Debug)]
pub(super) enum Socket {
    /// Of the kernel's TCP.
    Kernel(TcpStream),
    /// Of our own.
    Own(host::Stream),
}

impl Socket {
    /// Connects from the address `from` of this machine, or by `host`, to `to`.
    ///
    /// # Errors
    ///
    /// What the TCP says.
    pub(super) async fn connect(
        host: Option<&Host>,
        from: IpAddr,
        to: SocketAddr,
    ) -> io::Result<Self> {
        if let Some(host) = host {
            return host.connect(to).await.map(Self::Own);
        }
        let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.bind(SocketAddr::new(from, 0))?;
        socket.connect(to).await.map(Self::Kernel)
    }

    /// Returns the connection if it is the kernel's.
    pub(super) const fn kernel(&self) -> Option<&TcpStream> {
        match self {
            Self::Kernel(stream) => Some(stream),
            Self::Own(_) => None,
        }
    }

    /// Returns our end.
    ///
    /// # Errors
    ///
    /// If the host has failed, or the connection has gone.
    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Kernel(stream) => stream.local_addr(),
            Self::Own(stream) => stream.local_addr(),
        }
    }

    /// Makes it fit for commands: nothing small waits, and urgent data stays where it was sent
    /// (RFC 1123 §4.1.2.10). Both are so in our own TCP.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub(super) fn set_for_commands(&self) -> io::Result<()> {
        let Self::Kernel(stream) = self else { return Ok(()) };
        stream.set_nodelay(true)?;
        os::socket::set_urgent_inline(stream, true)
    }

    /// Returns whether the peer has ended the connection, although what it sent before may not have
    /// been read. The end of our own TCP is known only when it is read.
    pub(super) fn has_ended(&self) -> bool {
        let Self::Kernel(stream) = self else { return false };
        let mut polled = [PollFd::new(stream, PollFlags::RDHUP)];
        let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // If the kernel cannot say, the connection is as good as it was.
        rustix::event::poll(&mut polled, Some(&now))
            .is_ok_and(|_| polled.iter().any(|polled| polled.revents().intersects(ends)))
    }

    /// Returns whether the peer has acknowledged all that was written, even if the connection has ended
    /// since; `None` if the kernel does not say, or it is a connection of our own TCP.
    pub(super) fn is_acknowledged(&self) -> Option<bool> {
        let info = os::socket::TcpInfo::of(self.kernel()?).ok()?;
        let sent = info.bytes_sent?.saturating_sub(info.bytes_retransmitted?);
        // What a connection that was reset has not sent is dropped, and was not acknowledged.
        Some(info.unsent_bytes? == 0 && info.bytes_acknowledged? >= sent)
    }

    /// Writes what there is room for, without waiting.
    ///
    /// # Errors
    ///
    /// What the TCP says; [`io::ErrorKind::WouldBlock`] if there is no room.
    pub(super) fn try_write(&self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(stream) => stream.try_write(data),
            Self::Own(stream) => stream.try_write(data),
        }
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self::Kernel(stream)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Kernel(stream) => Pin::new(stream).poll_read(context, room),
            Self::Own(stream) => Pin::new(stream).poll_read(context, room),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Kernel(stream) => Pin::new(stream).poll_write(context, data),
            Self::Own(stream) => Pin::new(stream).poll_write(context, data),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Kernel(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Self::Own(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Kernel(stream) => Pin::new(stream).poll_flush(context),
            Self::Own(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Kernel(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Own(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// A port where control connections are accepted.
#[derive(Debug)]
pub(super) enum ControlListener {
    /// Of the kernel's TCP.
    Kernel(TcpListener),
    /// Of our own.
    Own(host::Listener),
}

impl ControlListener {
    /// Returns its name for the log.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub(super) fn name(&self) -> io::Result<String> {
        match self {
            Self::Kernel(listener) => Ok(listener.local_addr()?.to_string()),
            Self::Own(listener) => Ok(format!("port {} of our own TCP/IP", listener.port())),
        }
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    ///
    /// What the TCP says.
    pub(super) async fn accept(&self) -> io::Result<(Socket, SocketAddr)> {
        match self {
            Self::Kernel(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Socket::Kernel(stream), peer))
            }
            Self::Own(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Socket::Own(stream), peer))
            }
        }
    }
}

/// Returns a handle of `host` whose connections carry files and their commands.
pub(super) fn for_files(host: &Host) -> Host {
    host.with_profile(Profile::FILES)
}
