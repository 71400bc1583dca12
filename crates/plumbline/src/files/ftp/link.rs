//! A data connection, as a thread of its own reads and writes it.
//!
//! A socket of the kernel waits itself, without any readiness in between, and a file goes out by
//! `sendfile` where nothing is between its bytes and the wire, and comes in by `splice`. In TLS the thread does the records
//! too, so that files at once use as many processors.

use super::secured::Secured;
use super::wire::Carrier;
use crate::carry::TlsClient;
use crate::transfers::DataTls;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// What a pipe has room for.
pub(super) const CHUTE_BYTES: usize = 1 << 20;
/// What the kernel moves by one call.
const SENDFILE_BYTES: usize = 8 << 20;
/// What a server may say behind the end of an upload: session tickets, and its own end.
const FAREWELL_MAX_BYTES: usize = 64 * 1024;

/// A pipe through which the kernel moves what comes into a file, without its passing here.
#[derive(Debug)]
pub(super) struct Chute {
    from: OwnedFd,
    to: OwnedFd,
    /// What is in it.
    held_bytes: usize,
}

impl Chute {
    /// Makes one, if the kernel has room for it.
    pub(super) fn new() -> Option<Self> {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        // One that is smaller takes more turns.
        _ = fcntl_setpipe_size(&to, CHUTE_BYTES);
        Some(Self { from, to, held_bytes: 0 })
    }

    /// Moves what is in it into `file` at `at`, or where that stands, at least a byte.
    pub(super) fn empty_into(&mut self, file: &File, at: Option<u64>) -> io::Result<usize> {
        let (mut at, flags) = (at, SpliceFlags::empty());
        let moved = splice(&self.from, None, file, at.as_mut(), self.held_bytes, flags)?;
        self.held_bytes = self.held_bytes.saturating_sub(moved);
        Ok(moved)
    }

    /// Returns what is in it.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Takes what is in it, where a file does not take it so.
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

/// Either TCP, read and written by a thread that waits.
#[derive(Debug)]
pub(super) enum Plain {
    Kernel(TcpStream),
    Own { stream: os::host::Stream, runtime: Handle, cancelled: Arc<Notify> },
}

/// Ends a link from another thread.
#[derive(Debug)]
pub(super) enum Canceller {
    Kernel(TcpStream),
    /// Whoever moves the data hears of it.
    Told(Arc<Notify>),
}

impl Canceller {
    pub(super) fn cancel(&self) {
        match self {
            // One that has ended is ended.
            Self::Kernel(stream) => _ = stream.shutdown(Shutdown::Both),
            Self::Told(cancelled) => cancelled.notify_one(),
        }
    }

    /// Resets the connection, so that nobody takes what has gone for a whole file. Returns whether it
    /// is: not while a thread waits in a call for it.
    pub(super) fn reset(&self) -> bool {
        self.socket().is_some_and(|socket| rustix::net::connect_unspec(socket).is_ok())
    }

    /// Returns the socket, if it is one of the kernel's that is here.
    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Kernel(stream) => Some(stream.as_fd()),
            Self::Told(_) => None,
        }
    }
}

impl Link {
    /// Makes a link of a connection; must be called within the runtime.
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

    /// Does the handshake, if there is one, and returns what was agreed.
    pub(super) fn begin(&mut self) -> io::Result<Option<DataTls>> {
        let Self::Tls(secured) = self else { return Ok(None) };
        secured.begin().map(Some)
    }

    /// Returns whether it is in TLS.
    pub(super) fn is_secured(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Returns what is below TLS, or the connection itself.
    pub(super) fn plain(&self) -> &Plain {
        match self {
            Self::Clear(plain) => plain,
            Self::Tls(secured) => secured.plain(),
        }
    }

    /// Sends `file` from where it stands, if the kernel alone can do that: at most so many bytes
    /// at a time, each told to `sent`, which may refuse to go on.
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
                // Not a file that can be sent so.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if is_first => {
                    return None;
                }
                Err(error) => return Some(Err(error.into())),
            }
            is_first = false;
        }
    }

    /// Moves what has come into `chute`, which is empty, if the kernel alone can do that: at least
    /// a byte, at most so many; none at the end.
    pub(super) fn pour(&self, chute: &mut Chute, at_most: usize) -> Option<io::Result<usize>> {
        let Self::Clear(Plain::Kernel(stream)) = self else { return None };
        loop {
            match splice(stream, None, &chute.to, None, at_most, SpliceFlags::empty()) {
                Ok(count) => {
                    chute.held_bytes = count;
                    return Some(Ok(count));
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => return None,
                Err(error) => return Some(Err(error.into())),
            }
        }
    }

    /// Says that nothing follows, and waits in TLS for what the server has still to say: among it
    /// is what the next connection resumes.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Clear(plain) => plain.shut_down(),
            Self::Tls(secured) => {
                secured.send_end()?;
                secured.shut_down()?;
                // All has been said; how the other end closes is its own affair.
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

    /// Ends it so that nobody takes what has gone for a whole file: the connection is reset, and TLS
    /// is left without its end.
    pub(super) fn give_up(&self) {
        match self.plain() {
            // One that is broken is as good.
            Plain::Kernel(stream) => _ = rustix::net::connect_unspec(stream),
            Plain::Own { stream, .. } => stream.abort(),
        }
    }

    /// Ends a link whose far side has ended.
    pub(super) fn close(&mut self) {
        if let Self::Tls(secured) = self {
            // A server that has closed already needs no answer.
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
    /// Closes our side.
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
