//! TLS on a data connection, driven by the transfer task.
//!
//! A TLS 1.3 server sends its session tickets after the handshake (RFC 8446 §4.6.1). Many clients
//! that upload a file write all of it directly after the handshake, read nothing and close. If
//! tickets arrive after the close, or remain unread, the client's kernel resets the connection and
//! discards unsent data, which truncates the file. For an upload the tickets are therefore held
//! back until the end of the data. After the client has ended the stream, the tickets do no harm,
//! and a client that waits for the server's close_notify still receives the tickets. In TLS 1.2
//! nothing is held back, because the server sends the last flight of the handshake (RFC 5246 §7.3).

use super::ftp_server::FtpServer;
use super::tickets;
use crate::metered::Metered;
use carrier::TcpConnection;
use carrier::{Progress, RecordLayer, TlsWrite};
use net::meter::Account;
use std::fmt;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::rustls::{HandshakeKind, ProtocolVersion, ServerConfig};
use transfer::recorder::DataTls;

/// Maximum size of held output. Tickets have a few hundred bytes; larger output is sent.
const HELD_MAX_BYTES: usize = 8 * 1024;

/// Data connection in TLS.
pub(super) struct DataTlsStream {
    layer: RecordLayer,
    server: Option<Rc<FtpServer>>,
    stream: TcpConnection,
    /// Whether the transfer is an upload; the tickets of an upload are held back until its end.
    is_incoming: bool,
    /// Data received with the handshake.
    early: Vec<u8>,
}

impl fmt::Debug for DataTlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataTlsStream").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// TLS parameters of a data connection.
#[derive(Clone)]
pub(super) struct DataTlsParameters {
    /// FtpServer whose meter is charged.
    pub(super) server: Option<Rc<FtpServer>>,
    pub(super) configuration: Arc<ServerConfig>,
    /// Token of the FTP session, contained in its TLS session tickets.
    pub(super) token: [u8; tickets::TOKEN_LEN],
    /// Family of FTP sessions whose tickets are accepted too. If set, the client must resume a TLS
    /// session of the family.
    pub(super) family: Option<tickets::SessionTokens>,
}

impl DataTlsStream {
    /// Performs the handshake.
    ///
    /// # Errors
    ///
    /// Returns an error if the handshake fails, and [`ErrorKind::PermissionDenied`] if the client
    /// does not resume a required TLS session.
    pub(super) async fn accept(
        stream: TcpConnection,
        parameters: &DataTlsParameters,
        is_incoming: bool,
    ) -> io::Result<Self> {
        let DataTlsParameters { server, configuration, token, family } = parameters;
        let configuration = tickets::session_configuration(configuration, *token, family.as_ref());
        let layer = RecordLayer::server(configuration)?;
        let server = server.clone();
        let mut tls_stream = Self { layer, server, stream, is_incoming, early: Vec::new() };
        let mut early = Vec::new();
        let mut keep = |bytes: &[u8]| early.extend_from_slice(bytes);
        while tls_stream.layer.is_handshaking() {
            let progress = tls_stream.charge_work(Account::Encryption, |tls_stream| {
                tls_stream.process(TlsWrite::Nothing, &mut keep)
            });
            match progress? {
                Progress::NeedsInput | Progress::Done if tls_stream.layer.is_handshaking() => {
                    tls_stream.read().await?;
                }
                Progress::PeerClosed if tls_stream.layer.is_handshaking() => {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                // The last flight of the handshake may have arrived with data or, for an empty
                // file, with the end of the stream.
                Progress::Again | Progress::NeedsInput | Progress::Done | Progress::PeerClosed => {}
            }
        }
        if tls_stream.layer.negotiated_state().protocol_version() != Some(ProtocolVersion::TLSv1_3)
        {
            // The client waits for the last flight. Tickets can be sent with the first data.
            while tls_stream.process(TlsWrite::Nothing, &mut keep)? == Progress::Again {}
            tls_stream.flush().await?;
        }
        tls_stream.early = early;
        let tls_state = tls_stream.layer.negotiated_state();
        if family.is_some() && tls_state.handshake_kind() != Some(HandshakeKind::Resumed) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        Ok(tls_stream)
    }

    /// Returns the negotiated TLS parameters.
    pub(super) fn tls(&self) -> DataTls {
        DataTls::of(self.layer.negotiated_state())
    }

    /// Returns the time spent on encryption and decryption.
    pub(super) fn spent(&self) -> Duration {
        self.layer.library_time()
    }

    /// Returns the socket below TLS.
    pub(super) const fn stream(&self) -> &TcpConnection {
        &self.stream
    }

    /// Waits for data and passes the data to `each` in pieces. Returns the number of bytes; 0 at
    /// the end of the stream. Reads at most `at_most` bytes or one record from the socket. Cancel
    /// safe.
    ///
    /// # Errors
    ///
    /// Returns the error of TLS or of the connection, and [`ErrorKind::UnexpectedEof`] if the
    /// connection ends without close_notify.
    pub(super) fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        at_most: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        self.charge_work(Account::Encryption, |tls_stream| {
            tls_stream.receive(context, at_most, each)
        })
    }

    fn receive(
        &mut self,
        context: &mut Context<'_>,
        at_most: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        let early = std::mem::take(&mut self.early);
        let mut count = early.len();
        if count > 0 {
            each(&early);
        }
        while !self.layer.has_ended() {
            let progress = self.process(TlsWrite::Nothing, &mut |bytes| {
                count += bytes.len();
                each(bytes);
            })?;
            match progress {
                Progress::Again => {}
                Progress::NeedsInput | Progress::Done if count == 0 => {
                    ready!(self.poll_read(context, at_most))?;
                }
                Progress::NeedsInput | Progress::Done | Progress::PeerClosed => break,
            }
        }
        Poll::Ready(Ok(count))
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    ///
    /// Returns the error of TLS or of the connection.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.charge_work(Account::Encryption, |tls_stream| {
            tls_stream.write_to_layer(TlsWrite::Data(bytes))
        })?;
        self.flush().await
    }

    /// Sends pending output and close_notify, and closes the connection for writing.
    ///
    /// # Errors
    ///
    /// Returns the error of TLS or of the connection.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        self.write_to_layer(TlsWrite::CloseNotify)?;
        self.flush().await?;
        self.stream.shutdown().await
    }

    /// Executes `work` and charges its time to `account` of the server's meter.
    fn charge_work<T>(&mut self, account: Account, work: impl FnOnce(&mut Self) -> T) -> T {
        match self.server.clone() {
            Some(server) => server.charge(account, || work(self)),
            None => work(self),
        }
    }

    fn write_to_layer(&mut self, write: TlsWrite<'_>) -> io::Result<()> {
        loop {
            match self.process(write, &mut |_| {})? {
                Progress::Done => return Ok(()),
                // The client may have ended its side and still reads.
                Progress::Again | Progress::PeerClosed => {}
                Progress::NeedsInput => return Err(ErrorKind::NotConnected.into()),
            }
        }
    }

    fn process(
        &mut self,
        write: TlsWrite<'_>,
        each: &mut dyn FnMut(&[u8]),
    ) -> io::Result<Progress> {
        self.layer.process(write, each).inspect_err(|_| {
            // Makes one attempt to send the alert, because a client that no longer reads does not
            // need the alert.
            _ = self.stream.try_write(self.layer.output());
        })
    }

    /// Returns whether pending output consists of tickets that are held back.
    fn holds_tickets(&self) -> bool {
        let tls_state = self.layer.negotiated_state();
        self.is_incoming
            && !tls_state.is_handshaking()
            && tls_state.protocol_version() == Some(ProtocolVersion::TLSv1_3)
            && self.layer.output().len() <= HELD_MAX_BYTES
    }

    async fn flush(&mut self) -> io::Result<()> {
        std::future::poll_fn(|context| self.poll_flush(context)).await
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.layer.output().is_empty() {
            let write_result = Pin::new(&mut self.stream).poll_write(context, self.layer.output());
            self.layer.mark_sent(ready!(write_result)?);
        }
        Poll::Ready(Ok(()))
    }

    async fn read(&mut self) -> io::Result<()> {
        std::future::poll_fn(|context| self.poll_read(context, 0)).await
    }

    /// Sends pending output that is not held back, and reads at least one byte.
    fn poll_read(&mut self, context: &mut Context<'_>, at_most: usize) -> Poll<io::Result<()>> {
        if !self.holds_tickets() {
            ready!(self.poll_flush(context))?;
        }
        let count = ready!(self.charge_work(Account::Interrupt, |tls_stream| {
            let mut room = ReadBuf::new(tls_stream.layer.room(at_most));
            let read = Pin::new(&mut tls_stream.stream).poll_read(context, &mut room);
            read.map_ok(|()| room.filled().len())
        }))?;
        if count == 0 {
            return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
        }
        self.layer.mark_received(count);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
#[path = "data_tls_tests.rs"]
mod tests;
