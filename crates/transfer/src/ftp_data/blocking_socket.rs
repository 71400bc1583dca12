//! TCP connection of the kernel or of the user-space host that a thread reads and writes, and its
//! cancellation from another thread.

use super::tls_stream::DataSocket;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// A TCP connection of the kernel or of the user-space host, read and written by a blocking thread.
#[derive(Debug)]
pub(crate) enum BlockingSocket {
    /// Socket of the kernel.
    Kernel(TcpStream),
    /// Stream of the user-space host.
    Userspace {
        /// The stream.
        stream: os::host::Stream,
        /// Runtime of the host.
        runtime: Handle,
        /// Notified when the transfer is cancelled.
        cancelled: Arc<Notify>,
    },
}

/// Cancels a data connection from another thread.
#[derive(Debug)]
pub(crate) enum Canceller {
    /// Socket of the kernel.
    Kernel(TcpStream),
    /// Notifies the task or thread that moves the data.
    Notify(Arc<Notify>),
}

impl Canceller {
    pub(crate) fn cancel(&self) {
        match self {
            // A connection that has ended needs no shutdown.
            Self::Kernel(stream) => _ = stream.shutdown(Shutdown::Both),
            Self::Notify(cancelled) => cancelled.notify_one(),
        }
    }

    /// Resets the connection, so that the peer cannot mistake a truncated file for a complete file.
    /// Returns whether the reset succeeded. A reset fails while a thread is blocked in a call on
    /// the connection.
    pub(crate) fn reset(&self) -> bool {
        self.socket().is_some_and(|socket| rustix::net::connect_unspec(socket).is_ok())
    }

    /// Returns the kernel socket of the connection, if the canceller holds the socket.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Kernel(stream) => Some(stream.as_fd()),
            Self::Notify(_) => None,
        }
    }
}

impl BlockingSocket {
    /// Shuts down the sending direction.
    pub(crate) fn shut_down(&mut self) -> io::Result<()> {
        match self {
            Self::Kernel(stream) => stream.shutdown(Shutdown::Write),
            Self::Userspace { stream, runtime, .. } => runtime.block_on(stream.shutdown()),
        }
    }
}

impl Read for BlockingSocket {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(stream) => stream.read(room),
            Self::Userspace { stream, runtime, cancelled } => runtime.block_on(async {
                tokio::select! {
                    () = cancelled.notified() => Err(ErrorKind::ConnectionAborted.into()),
                    read = stream.read(room) => read,
                }
            }),
        }
    }
}

impl Write for BlockingSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(stream) => stream.write(bytes),
            Self::Userspace { stream, runtime, cancelled } => runtime.block_on(async {
                tokio::select! {
                    () = cancelled.notified() => Err(ErrorKind::ConnectionAborted.into()),
                    written = stream.write(bytes) => written,
                }
            }),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a future that only uses blocking sockets, and that is therefore complete after one poll.
pub(crate) fn complete<T>(future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        // The calls of a blocking socket are never pending.
        Poll::Pending => Err(io::Error::other("a blocking socket was not ready")),
    }
}

/// Repeats a call that a signal has interrupted.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The calls block until they are complete and never return `Poll::Pending`.
impl AsyncRead for BlockingSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = uninterrupted(|| Read::read(&mut *self, room.initialize_unfilled()));
        Poll::Ready(read.map(|count| room.advance(count)))
    }
}

/// The calls block until they are complete and never return `Poll::Pending`.
impl AsyncWrite for BlockingSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(uninterrupted(|| Write::write(&mut *self, bytes)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shut_down())
    }
}

impl DataSocket for BlockingSocket {
    fn send_alert(&mut self, alert: &[u8]) {
        // Ignored: a peer that has closed the connection needs no alert.
        _ = Write::write_all(self, alert);
    }
}
