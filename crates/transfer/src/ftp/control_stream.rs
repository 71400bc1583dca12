//! Transports of the control connection: a kernel socket or a stream of the user-space host, in
//! plaintext or with TLS.

use carrier::{TcpConnection, TlsClient, TlsFailure, TrustedBy, fingerprint};
use rustix::net::SendFlags;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Maximum duration of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// A control connection.
#[derive(Debug)]
pub(super) enum ControlStream {
    /// Plaintext.
    Plaintext(TcpConnection),
    /// TLS.
    Tls(Box<TlsStream<TcpConnection>>),
    /// The TLS handshake has failed.
    Failed,
}

impl ControlStream {
    /// Reads at least one byte, or none at the end of the stream. Cancel safe.
    pub(super) async fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plaintext(connection) => connection.read(room).await,
            Self::Tls(stream) => stream.read(room).await,
            Self::Failed => Ok(0),
        }
    }

    /// Writes all bytes. The first `urgent` bytes are urgent data, if the transport supports urgent
    /// data.
    pub(super) async fn write(&mut self, bytes: &[u8], urgent: Option<usize>) -> io::Result<()> {
        match self {
            Self::Plaintext(TcpConnection::Kernel(stream)) => {
                let (first, rest) = bytes.split_at_checked(urgent.unwrap_or(0)).unwrap_or_default();
                if !first.is_empty() {
                    let send = || Ok(rustix::net::send(&*stream, first, SendFlags::OOB)?);
                    let sent_bytes = stream.async_io(Interest::WRITABLE, send).await?;
                    stream.write_all(first.get(sent_bytes..).unwrap_or_default()).await?;
                }
                stream.write_all(if first.is_empty() { bytes } else { rest }).await
            }
            Self::Plaintext(connection) => connection.write_all(bytes).await,
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
        let Self::Plaintext(connection) = std::mem::replace(self, Self::Failed) else {
            return Err(TlsFailure::HandshakeFailed("TLS is already active".to_owned()));
        };
        let (configuration, name) = client.parts();
        let handshake = TlsConnector::from(configuration).connect(name, connection);
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
            Self::Plaintext(connection) => connection.shutdown().await,
            Self::Tls(stream) => stream.shutdown().await,
            Self::Failed => Ok(()),
        };
    }
}
