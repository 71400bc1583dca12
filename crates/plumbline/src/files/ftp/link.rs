//! A data connection, read and written by its own thread.
//!
//! The thread blocks in the calls of a kernel socket. A file is sent by `sendfile` if its bytes go
//! to the wire unchanged, and received by `splice`. With TLS the thread also processes the records,
//! so that parallel transfers use several processors.

use super::secured::Secured;
use super::wire::Carrier;
use crate::carry::TlsClient;
use crate::transfer_recorder::DataTls;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// Capacity of a pipe in bytes.
pub(super) const SPLICE_PIPE_BYTES: usize = 1 << 20;
/// Maximum number of bytes per `sendfile(2)` call.
const SENDFILE_BYTES: usize = 8 << 20;
/// Maximum number of bytes read after the end of an upload: session tickets and close_notify.
const FAREWELL_MAX_BYTES: usize = 64 * 1024;

/// A pipe through which the kernel moves received data into a file, without a copy to user space.
#[derive(Debug)]
pub(super) struct SplicePipe {
    from: OwnedFd,
    to: OwnedFd,
    /// Bytes in the pipe.
    held_bytes: usize,
}

impl SplicePipe {
    /// Creates a pipe, or returns `None` if the kernel refuses.
    pub(super) fn new() -> Option<Self> {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        // A smaller pipe only needs more calls.
        _ = fcntl_setpipe_size(&to, SPLICE_PIPE_BYTES);
        Some(Self { from, to, held_bytes: 0 })
    }

    /// Moves at least one byte from the pipe into `file`, at offset `at` or at its current
    /// position.
    pub(super) fn empty_into(&mut self, file: &File, at: Option<u64>) -> io::Result<usize> {
        let (mut at, flags) = (at, SpliceFlags::empty());
        let moved = splice(&self.from, None, file, at.as_mut(), self.held_bytes, flags)?;
        self.held_bytes = self.held_bytes.saturating_sub(moved);
        Ok(moved)
    }

    /// Returns the number of bytes in the pipe.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Returns the bytes in the pipe, for a file that does not support `splice`.
    pub(super) fn into_bytes(self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.held_bytes];
        File::from(self.from).read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// A data connection.
#[derive(Debug)]
pub(super) enum Link {
    Clear(Plain),
    Tls(Box<Secured>),
}

/// A TCP connection of the kernel or of the user-space host, read and written by a blocking thread.
#[derive(Debug)]
pub(super) enum Plain {
    Kernel(TcpStream),
    Own { stream: os::host::Stream, runtime: Handle, cancelled: Arc<Notify> },
}

/// Cancels a link from another thread.
#[derive(Debug)]
pub(super) enum Canceller {
    Kernel(TcpStream),
    /// Notifies the task or thread that moves the data.
    Told(Arc<Notify>),
}

impl Canceller {
    pub(super) fn cancel(&self) {
        match self {
            // A connection that has ended needs no shutdown.
            Self::Kernel(stream) => _ = stream.shutdown(Shutdown::Both),
            Self::Told(cancelled) => cancelled.notify_one(),
        }
    }

    /// Resets the connection, so that the peer cannot take a truncated file for a complete one.
    /// Returns whether it is reset: not while a thread is blocked in a call on it.
    pub(super) fn reset(&self) -> bool {
        self.socket().is_some_and(|socket| rustix::net::connect_unspec(socket).is_ok())
    }

    /// Returns the socket, if it is one of the kernel and this side holds it.
    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Kernel(stream) => Some(stream.as_fd()),
            Self::Told(_) => None,
        }
    }
}

impl Link {
    /// Creates a link over a connection. Must be called within the runtime.
    pub(super) fn of(carrier: Carrier, tls: Option<&TlsClient>) -> io::Result<(Self, Canceller)> {
        let (plain, canceller) = match carrier {
            Carrier::Kernel(stream) => {
                let stream = stream.into_std()?;
                stream.set_nonblocking(false)?;
                let canceller = Canceller::Kernel(stream.try_clone()?);
                (Plain::Kernel(stream), canceller)
            }
            Carrier::Own(stream) => {
                let cancelled = Arc::new(Notify::new());
                let canceller = Canceller::Told(Arc::clone(&cancelled));
                (Plain::Own { stream, runtime: Handle::current(), cancelled }, canceller)
            }
        };
        let Some(client) = tls else { return Ok((Self::Clear(plain), canceller)) };
        let (configuration, name) = client.parts();
        Ok((Self::Tls(Box::new(Secured::new(configuration, name, plain)?)), canceller))
    }

    /// Performs the TLS handshake, if there is one, and returns the agreed parameters.
    pub(super) fn begin(&mut self) -> io::Result<Option<DataTls>> {
        let Self::Tls(secured) = self else { return Ok(None) };
        secured.begin().map(Some)
    }

    /// Returns whether the link uses TLS.
    pub(super) fn is_secured(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Returns the connection below TLS, or the connection itself.
    pub(super) fn plain(&self) -> &Plain {
        match self {
            Self::Clear(plain) => plain,
            Self::Tls(secured) => secured.plain(),
        }
    }

    /// Sends `file` from its current position, or returns `None` if the kernel alone cannot do
    /// that. Each call sends at most `at_most` bytes and reports them to `sent`, which may end the
    /// transfer.
    pub(super) fn send_file(
        &mut self,
        file: &File,
        at_most: usize,
        sent: &mut impl FnMut(usize) -> io::Result<()>,
    ) -> Option<io::Result<()>> {
        let Self::Clear(Plain::Kernel(stream)) = self else { return None };
        let at_most = at_most.min(SENDFILE_BYTES);
        let mut is_first = true;
        loop {
            match rustix::fs::sendfile(&*stream, file, None, at_most) {
                Ok(0) => return Some(Ok(())),
                Ok(count) => {
                    if let Err(error) = sent(count) {
                        return Some(Err(error));
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                // The file does not support `sendfile`.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if is_first => {
                    return None;
                }
                Err(error) => return Some(Err(error.into())),
            }
            is_first = false;
        }
    }

    /// Moves received data into `splice_pipe`, which is empty, or returns `None` if the kernel alone
    /// cannot do that. Moves at least one byte and at most `at_most`; 0 at the end of the stream.
    pub(super) fn pour(
        &self,
        splice_pipe: &mut SplicePipe,
        at_most: usize,
    ) -> Option<io::Result<usize>> {
        let Self::Clear(Plain::Kernel(stream)) = self else { return None };
        loop {
            match splice(stream, None, &splice_pipe.to, None, at_most, SpliceFlags::empty()) {
                Ok(count) => {
                    splice_pipe.held_bytes = count;
                    return Some(Ok(count));
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => return None,
                Err(error) => return Some(Err(error.into())),
            }
        }
    }

    /// Ends the stream. With TLS, also reads the rest that the server sends, which contains the
    /// tickets to resume the session in the next connection.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Clear(plain) => plain.shut_down(),
            Self::Tls(secured) => {
                secured.send_end()?;
                secured.shut_down()?;
                // All data has been sent. An error while the peer closes does not matter.
                let mut left = FAREWELL_MAX_BYTES;
                while let Ok(count @ 1..) = secured.receive(left, |_| {})
                    && count < left
                {
                    left -= count;
                }
                Ok(())
            }
        }
    }

    /// Resets the connection and omits close_notify, so that the peer cannot take a truncated file
    /// for a complete one.
    pub(super) fn give_up(&self) {
        match self.plain() {
            // A broken connection needs no reset.
            Plain::Kernel(stream) => _ = rustix::net::connect_unspec(stream),
            Plain::Own { stream, .. } => stream.abort(),
        }
    }

    /// Closes a link whose peer has ended the stream.
    pub(super) fn close(&mut self) {
        if let Self::Tls(secured) = self {
            // A server that has already closed needs no answer.
            _ = secured.send_end();
        }
    }
}

impl Write for Link {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Clear(plain) => plain.write(bytes),
            Self::Tls(secured) => secured.send(bytes).map(|()| bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Clear(plain) => plain.flush(),
            Self::Tls(_) => Ok(()),
        }
    }
}

impl Plain {
    /// Shuts down the sending direction.
    pub(super) fn shut_down(&mut self) -> io::Result<()> {
        match self {
            Self::Kernel(stream) => stream.shutdown(Shutdown::Write),
            Self::Own { stream, runtime, .. } => runtime.block_on(stream.shutdown()),
        }
    }
}

impl Read for Plain {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(stream) => stream.read(room),
            Self::Own { stream, runtime, cancelled } => runtime.block_on(async {
                tokio::select! {
                    () = cancelled.notified() => Err(io::ErrorKind::ConnectionAborted.into()),
                    read = stream.read(room) => read,
                }
            }),
        }
    }
}

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(stream) => stream.write(bytes),
            Self::Own { stream, runtime, cancelled } => runtime.block_on(async {
                tokio::select! {
                    () = cancelled.notified() => Err(io::ErrorKind::ConnectionAborted.into()),
                    written = stream.write(bytes) => written,
                }
            }),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
