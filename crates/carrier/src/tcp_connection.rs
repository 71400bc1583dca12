//! TCP connection of the kernel or of the user-space host (`--via`), as an asynchronous byte stream.
//!
//! Only kernel sockets have a descriptor, with which the kernel can move file data and report TCP
//! statistics.

use os::host::{self, Host};
use os::readiness::{self, PollFlags, would_block_as_pending};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};

/// TCP connection.
#[derive(Debug)]
pub enum TcpConnection {
    /// Kernel TCP.
    Kernel(TcpStream),
    /// User-space TCP.
    Userspace(host::Stream),
}

impl TcpConnection {
    /// Connects to `to` through `host`, or by the kernel's TCP from the address `from` of this
    /// machine; by default the kernel chooses the address.
    ///
    /// # Errors
    ///
    /// Returns the error of the kernel or of the user-space host.
    pub async fn connect(
        host: Option<&Host>,
        from: Option<IpAddr>,
        to: SocketAddr,
    ) -> io::Result<Self> {
        if let Some(host) = host {
            return host.connect(to).await.map(Self::Userspace);
        }
        let Some(from) = from else { return TcpStream::connect(to).await.map(Self::Kernel) };
        let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.bind(SocketAddr::new(from, 0))?;
        socket.connect(to).await.map(Self::Kernel)
    }

    /// Returns the kernel socket, or `None` for the user-space TCP.
    pub const fn kernel(&self) -> Option<&TcpStream> {
        match self {
            Self::Kernel(stream) => Some(stream),
            Self::Userspace(_) => None,
        }
    }

    /// Returns the local address.
    ///
    /// # Errors
    ///
    /// Returns an error if the user-space host has failed or the connection is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Kernel(stream) => stream.local_addr(),
            Self::Userspace(stream) => stream.local_addr(),
        }
    }

    /// Returns the address of the peer.
    ///
    /// # Errors
    ///
    /// Returns an error if the user-space host has failed or the connection is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Kernel(stream) => stream.peer_addr(),
            Self::Userspace(stream) => stream.peer_addr(),
        }
    }

    /// Sets socket options of a control connection: no Nagle delay, and urgent data inline (RFC
    /// 1123 §4.1.2.10). The user-space TCP has both properties by default.
    ///
    /// # Errors
    ///
    /// Returns the error of `setsockopt(2)`.
    pub fn set_for_commands(&self) -> io::Result<()> {
        let Self::Kernel(stream) = self else { return Ok(()) };
        stream.set_nodelay(true)?;
        os::socket::set_urgent_inline(stream, true)
    }

    /// Returns whether the peer has closed the connection, even if earlier data has not been read
    /// yet. The user-space TCP reports the end only on reading.
    pub fn has_ended(&self) -> bool {
        let Self::Kernel(stream) = self else { return false };
        let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        // If `poll` fails, the connection is assumed to be open.
        readiness::poll_now(stream, PollFlags::RDHUP).is_ok_and(|events| events.intersects(ends))
    }

    /// Returns whether the peer has acknowledged all written data, even if the connection has ended
    /// since. Returns `None` if the kernel does not report it, and for the user-space TCP.
    pub fn is_acknowledged(&self) -> Option<bool> {
        let info = os::socket::TcpInfo::of(self.kernel()?).ok()?;
        let sent_bytes = info.bytes_sent?.saturating_sub(info.bytes_retransmitted?);
        // A reset connection drops unsent data, which was never acknowledged.
        Some(info.unsent_bytes? == 0 && info.bytes_acknowledged? >= sent_bytes)
    }

    /// Writes as many bytes as fit into the send buffer, without waiting. Returns their number, or
    /// [`Poll::Pending`] if the send buffer is full; no task is woken when it has space.
    ///
    /// # Errors
    ///
    /// Returns the error of the connection.
    pub fn try_write(&self, data: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Kernel(stream) => would_block_as_pending(stream.try_write(data)),
            Self::Userspace(stream) => stream.try_write(data),
        }
    }
}

impl From<TcpStream> for TcpConnection {
    fn from(stream: TcpStream) -> Self {
        Self::Kernel(stream)
    }
}

impl AsyncRead for TcpConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Kernel(stream) => Pin::new(stream).poll_read(context, room),
            Self::Userspace(stream) => Pin::new(stream).poll_read(context, room),
        }
    }
}

impl AsyncWrite for TcpConnection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Kernel(stream) => Pin::new(stream).poll_write(context, data),
            Self::Userspace(stream) => Pin::new(stream).poll_write(context, data),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Kernel(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Self::Userspace(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Kernel(stream) => Pin::new(stream).poll_flush(context),
            Self::Userspace(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Kernel(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Userspace(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
