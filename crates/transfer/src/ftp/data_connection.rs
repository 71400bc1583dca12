//! A data connection, read and written by its own thread.
//!
//! The thread blocks in the system calls of a kernel socket. If the bytes of a file go to the wire
//! unchanged, the file is sent by `sendfile` and received by `splice`. With TLS the thread also
//! processes the records, so that parallel transfers use several processors.

use crate::ftp_data::{
    BlockingSocket, Canceller, DataTlsStream, SplicePipe, complete, is_unsupported,
};
use crate::recorder::DataTls;
use carrier::{TcpConnection, TlsClient};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// Maximum number of bytes per `sendfile(2)` call.
const SENDFILE_BYTES: usize = 8 << 20;
/// Maximum number of bytes read after the end of an upload: session tickets and close_notify.
const CLOSE_MAX_BYTES: usize = 64 * 1024;

/// A data connection.
#[derive(Debug)]
pub(super) enum DataConnection {
    Plaintext(BlockingSocket),
    Tls(Box<DataTlsStream<BlockingSocket>>),
}

impl DataConnection {
    /// Creates a data connection over an established byte stream. Must be called within the
    /// runtime.
    pub(super) fn of(
        connection: TcpConnection,
        tls: Option<&TlsClient>,
    ) -> io::Result<(Self, Canceller)> {
        let (tcp, canceller) = match connection {
            TcpConnection::Kernel(stream) => {
                let stream = stream.into_std()?;
                stream.set_nonblocking(false)?;
                let canceller = Canceller::Kernel(stream.try_clone()?);
                (BlockingSocket::Kernel(stream), canceller)
            }
            TcpConnection::Userspace(stream) => {
                let cancelled = Arc::new(Notify::new());
                let canceller = Canceller::Notify(Arc::clone(&cancelled));
                (
                    BlockingSocket::Userspace { stream, runtime: Handle::current(), cancelled },
                    canceller,
                )
            }
        };
        let Some(client) = tls else { return Ok((Self::Plaintext(tcp), canceller)) };
        let (configuration, name) = client.parts();
        Ok((Self::Tls(Box::new(DataTlsStream::client(tcp, configuration, name)?)), canceller))
    }

    /// Performs the TLS handshake and returns the agreed parameters; `None` without TLS.
    pub(super) fn begin(&mut self) -> io::Result<Option<DataTls>> {
        let Self::Tls(tls_stream) = self else { return Ok(None) };
        complete(tls_stream.handshake())?;
        Ok(Some(tls_stream.parameters()))
    }

    /// Returns the connection below TLS, or the connection itself.
    pub(super) fn tcp(&self) -> &BlockingSocket {
        match self {
            Self::Plaintext(tcp) => tcp,
            Self::Tls(tls_stream) => tls_stream.socket(),
        }
    }

    /// Sends `file` from its current position by `sendfile`; `None` if the connection or the file
    /// does not support `sendfile`. Each system call sends at most `at_most` bytes. After each
    /// call, `sent` receives the number of bytes; an error from `sent` ends the transfer.
    pub(super) fn send_file(
        &mut self,
        file: &File,
        at_most: usize,
        sent: &mut impl FnMut(usize) -> io::Result<()>,
    ) -> Option<io::Result<()>> {
        let Self::Plaintext(BlockingSocket::Kernel(stream)) = self else { return None };
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
                Err(Errno::INTR) => {}
                // The file does not support `sendfile`.
                Err(error) if is_first && is_unsupported(error) => return None,
                Err(error) => return Some(Err(error.into())),
            }
            is_first = false;
        }
    }

    /// Moves received data into `splice_pipe`, which must be empty; `None` if the connection does
    /// not support `splice`. Moves at least one and at most `at_most` bytes. Returns the number of
    /// bytes; 0 at the end of the stream.
    pub(super) fn receive_into_pipe(
        &self,
        splice_pipe: &mut SplicePipe,
        at_most: usize,
    ) -> Option<io::Result<usize>> {
        let Self::Plaintext(BlockingSocket::Kernel(stream)) = self else { return None };
        loop {
            match splice_pipe.fill(stream, at_most, true) {
                Ok(count) => return Some(Ok(count)),
                Err(Errno::INTR) => {}
                Err(error) if is_unsupported(error) => return None,
                Err(error) => return Some(Err(error.into())),
            }
        }
    }

    /// Ends the stream. With TLS, also reads the server's remaining records, which contain the
    /// tickets to resume the TLS session in the next connection.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plaintext(tcp) => tcp.shut_down(),
            Self::Tls(tls_stream) => {
                complete(tls_stream.finish())?;
                // All data has been sent. An error while the peer closes does not matter.
                let mut remaining_bytes = CLOSE_MAX_BYTES;
                while let Ok(count @ 1..) = receive_tls(tls_stream, remaining_bytes, &mut |_| {})
                    && count < remaining_bytes
                {
                    remaining_bytes -= count;
                }
                Ok(())
            }
        }
    }

    /// Resets the connection and omits close_notify, so that the peer cannot mistake a truncated
    /// file for a complete file.
    pub(super) fn abort(&self) {
        match self.tcp() {
            // A broken connection needs no reset.
            BlockingSocket::Kernel(stream) => _ = rustix::net::connect_unspec(stream),
            BlockingSocket::Userspace { stream, .. } => stream.abort(),
        }
    }

    /// Closes a data connection after the peer has ended the stream.
    pub(super) fn close(&mut self) {
        if let Self::Tls(tls_stream) = self {
            // Ignored: a server that has closed the connection does not need close_notify.
            _ = complete(tls_stream.close_notify());
        }
    }
}

/// Waits for data, passes the data to `each` in pieces, and returns the number of bytes; 0 at the
/// end of the stream.
pub(super) fn receive_tls(
    tls_stream: &mut DataTlsStream<BlockingSocket>,
    at_most: usize,
    each: &mut dyn FnMut(&[u8]),
) -> io::Result<usize> {
    complete(std::future::poll_fn(|context| tls_stream.poll_receive(context, at_most, each)))
}

impl Write for DataConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plaintext(tcp) => tcp.write(bytes),
            Self::Tls(tls_stream) => {
                tls_stream.encrypt(bytes)?;
                complete(tls_stream.flush()).map(|()| bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plaintext(tcp) => tcp.flush(),
            Self::Tls(_) => Ok(()),
        }
    }
}
