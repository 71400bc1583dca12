//! Transports of the control connection: a kernel socket or a stream of the user-space host, in
//! plaintext or with TLS.

use carrier::{TlsClient, TlsFailure, TrustedBy, fingerprint};
use rustix::net::SendFlags;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Maximum duration of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// A TCP byte stream.
#[derive(Debug)]
pub enum ByteStream {
    /// Kernel socket.
    Kernel(TcpStream),
    /// Stream of the user-space host.
    Userspace(os::host::Stream),
}

impl ByteStream {
    pub(crate) fn local(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Kernel(stream) => stream.local_addr(),
            Self::Userspace(stream) => stream.local_addr(),
        }
    }

    pub(crate) fn peer(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Kernel(stream) => stream.peer_addr(),
            Self::Userspace(stream) => stream.peer_addr(),
        }
    }
}

impl AsyncRead for ByteStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Kernel(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Userspace(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for ByteStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Kernel(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Userspace(stream) => Pin::new(stream).poll_write(context, bytes),
        }
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

/// A control connection.
#[derive(Debug)]
pub(super) enum ControlStream {
    /// Plaintext.
    Plaintext(ByteStream),
    /// TLS.
    Tls(Box<TlsStream<ByteStream>>),
    /// The TLS handshake has failed.
    Failed,
}

impl ControlStream {
    /// Reads at least one byte, or none at the end of the stream. Cancel safe.
    pub(super) async fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plaintext(byte_stream) => byte_stream.read(room).await,
            Self::Tls(stream) => stream.read(room).await,
            Self::Failed => Ok(0),
        }
    }

    /// Writes all bytes. The first `urgent` bytes are urgent data, if the transport supports urgent
    /// data.
    pub(super) async fn write(&mut self, bytes: &[u8], urgent: Option<usize>) -> io::Result<()> {
        match self {
            Self::Plaintext(ByteStream::Kernel(stream)) => {
                let (first, rest) = bytes.split_at_checked(urgent.unwrap_or(0)).unwrap_or_default();
                if !first.is_empty() {
                    let send = || Ok(rustix::net::send(&*stream, first, SendFlags::OOB)?);
                    let sent_bytes = stream.async_io(Interest::WRITABLE, send).await?;
                    stream.write_all(first.get(sent_bytes..).unwrap_or_default()).await?;
                }
                stream.write_all(if first.is_empty() { bytes } else { rest }).await
            }
            Self::Plaintext(byte_stream) => byte_stream.write_all(bytes).await,
            Self::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
            Self::Failed => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Switches to TLS. Returns the reason for trusting the server, and the fingerprint of the
    /// server's certificate.
    pub(super) async fn start_tls(
        &mut self,
        client: &TlsClient,
    ) -> Result<(TrustedBy, String), TlsFailure> {
        let Self::Plaintext(byte_stream) = std::mem::replace(self, Self::Failed) else {
            return Err(TlsFailure::HandshakeFailed("TLS is already active".to_owned()));
        };
        let (configuration, name) = client.parts();
        let handshake = TlsConnector::from(configuration).connect(name, byte_stream);
        let connected = timeout(HANDSHAKE_TIMEOUT, handshake).await;
        let connected =
            connected.map_err(|_| TlsFailure::HandshakeTimeout(HANDSHAKE_TIMEOUT.as_secs()))?;
        let stream = connected.map_err(|error| client.refusal(&error))?;
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let digest = certificate.map(fingerprint).unwrap_or_default();
        *self = Self::Tls(Box::new(stream));
        Ok((client.trust_basis(&digest), digest))
    }

    /// Ends the stream.
    pub(super) async fn close(&mut self) {
        // Ignored: the connection ends even if the shutdown fails.
        _ = match self {
            Self::Plaintext(byte_stream) => byte_stream.shutdown().await,
            Self::Tls(stream) => stream.shutdown().await,
            Self::Failed => Ok(()),
        };
    }
}
