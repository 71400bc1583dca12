//! TLS on a data connection, in either role.
//!
//! The record layer does no I/O. This stream reads and writes a [`DataSocket`], which either blocks
//! (the thread of the client) or is ready when its runtime says so (the task of the server).
//!
//! A TLS 1.3 server sends its session tickets after the handshake (RFC 8446 §4.6.1). Many clients
//! that upload a file write all of it directly after the handshake, read nothing and close. If
//! tickets arrive after the close, or remain unread, the client's kernel resets the connection and
//! discards unsent data, which truncates the file. For an upload the tickets are therefore held
//! back until the end of the data. After the client has ended the stream, the tickets do no harm,
//! and a client that waits for the server's close_notify still receives the tickets. In TLS 1.2
//! nothing is held back, because the server sends the last flight of the handshake (RFC 5246 §7.3).

use super::environment::DataSocket;
use crate::recorder::DataTls;
use carrier::{Progress, RecordLayer, TlsWrite};
use rustix::net::{RecvFlags, recv};
use std::fmt;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncWriteExt, ReadBuf};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, HandshakeKind, ProtocolVersion, ServerConfig};

/// Maximum size of held output. Tickets have a few hundred bytes; larger output is sent.
const HELD_MAX_BYTES: usize = 8 * 1024;
/// Maximum number of bytes read after the end of an upload: session tickets and close_notify.
const CLOSE_MAX_BYTES: usize = 64 * 1024;

/// Time at which this end sends its session tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tickets {
    /// A client sends no tickets.
    None,
    /// With the first data.
    WithData,
    /// After the end of the peer's data.
    AtEnd,
}

/// Data connection in TLS.
pub struct DataTlsStream<S> {
    layer: RecordLayer,
    socket: S,
    tickets: Tickets,
    /// Decrypted data received together with the end of the handshake.
    early: Vec<u8>,
}

impl<S: fmt::Debug> fmt::Debug for DataTlsStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataTlsStream").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl<S: DataSocket> DataTlsStream<S> {
    /// Creates the client's end of a connection to the server `name`.
    pub(crate) fn client(
        socket: S,
        configuration: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        let layer = RecordLayer::client(configuration, name)?;
        Ok(Self { layer, socket, tickets: Tickets::None, early: Vec::new() })
    }

    /// Creates the server's end. The tickets of an upload are held back until its end.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration permits no handshake.
    pub fn server(
        socket: S,
        configuration: Arc<ServerConfig>,
        is_upload: bool,
    ) -> io::Result<Self> {
        let layer = RecordLayer::server(configuration)?;
        let tickets = if is_upload { Tickets::AtEnd } else { Tickets::WithData };
        Ok(Self { layer, socket, tickets, early: Vec::new() })
    }

    /// Performs the handshake.
    ///
    /// # Errors
    ///
    /// Returns the error of TLS or of the connection.
    pub async fn handshake(&mut self) -> io::Result<()> {
        let mut early = Vec::new();
        let mut keep = |bytes: &[u8]| early.extend_from_slice(bytes);
        while self.layer.is_handshaking() {
            match self.process(TlsWrite::Nothing, &mut keep)? {
                Progress::NeedsInput | Progress::Done if self.layer.is_handshaking() => {
                    std::future::poll_fn(|context| self.poll_read(context, 0)).await?;
                }
                Progress::PeerClosed if self.layer.is_handshaking() => {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                // The last flight of the handshake may have arrived with data or, for an empty
                // file, with the end of the stream.
                Progress::Again | Progress::NeedsInput | Progress::Done | Progress::PeerClosed => {}
            }
        }
        // The peer waits for the last flight, and application data may follow much later. The last
        // flight of a TLS 1.3 server consists of tickets.
        if self.tickets == Tickets::None || !self.is_tls13() {
            while self.process(TlsWrite::Nothing, &mut keep)? == Progress::Again {}
            self.flush().await?;
        }
        self.early = early;
        Ok(())
    }

    /// Returns the negotiated TLS parameters.
    #[must_use]
    pub fn parameters(&self) -> DataTls {
        DataTls::of(self.layer.negotiated_state())
    }

    /// Returns whether the handshake has resumed a TLS session.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.layer.negotiated_state().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Returns the time spent on encryption and decryption.
    #[must_use]
    pub fn crypto_time(&self) -> Duration {
        self.layer.library_time()
    }

    /// Returns the socket below TLS.
    #[must_use]
    pub const fn socket(&self) -> &S {
        &self.socket
    }

    /// Waits for data and passes the data to `each` in pieces. Returns the number of bytes; 0 at
    /// the end of the stream. Reads at most `at_most` bytes or the maximum length of a record from
    /// the socket, whichever is larger. Cancel safe.
    ///
    /// # Errors
    ///
    /// Returns the error of TLS or of the connection, and [`ErrorKind::UnexpectedEof`] if the
    /// connection ends without close_notify.
    pub fn poll_receive(
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

    /// Encrypts all of `bytes`; [`Self::flush`] sends them.
    ///
    /// # Errors
    ///
    /// Returns the error of TLS.
    pub fn encrypt(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_to_layer(TlsWrite::Data(bytes))
    }

    /// Sends pending output and close_notify, and closes the connection for writing.
    ///
    /// # Errors
    ///
    /// Returns the error of TLS or of the connection.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.write_to_layer(TlsWrite::CloseNotify)?;
        self.flush().await?;
        self.socket.shutdown().await
    }

    /// After the end of an upload, reads the remaining records of a server. They contain the
    /// tickets to resume the TLS session in the next connection.
    pub(crate) async fn receive_tickets(&mut self) {
        if self.tickets != Tickets::None {
            return;
        }
        let mut remaining_bytes = CLOSE_MAX_BYTES;
        // All data has been sent. An error while the peer closes does not matter.
        while let Ok(count @ 1..) =
            std::future::poll_fn(|context| self.poll_receive(context, remaining_bytes, &mut |_| {}))
                .await
            && count < remaining_bytes
        {
            remaining_bytes -= count;
        }
    }

    /// Reads and discards records that the peer of a download has already sent, such as an early
    /// close_notify (RFC 8446 §6.1). Closing a socket with unread data resets the connection, and
    /// the kernel then discards data that it has not sent yet.
    pub(crate) fn discard_received(&self) {
        let Some(socket) = self.socket.kernel() else { return };
        let mut room = [0; 4096];
        let mut remaining_bytes = CLOSE_MAX_BYTES;
        // All data has been written. An error while the peer closes does not matter.
        while let Ok((_, count @ 1..)) = recv(socket, &mut room, RecvFlags::DONTWAIT)
            && count < remaining_bytes
        {
            remaining_bytes -= count;
        }
    }

    /// Sends all pending output.
    ///
    /// # Errors
    ///
    /// Returns the error of the connection.
    pub async fn flush(&mut self) -> io::Result<()> {
        std::future::poll_fn(|context| self.poll_flush(context)).await
    }

    fn write_to_layer(&mut self, write: TlsWrite<'_>) -> io::Result<()> {
        loop {
            match self.process(write, &mut |_| {})? {
                Progress::Done => return Ok(()),
                // A peer that has ended its sending direction may still receive data.
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
        self.layer.process(write, each).inspect_err(|_| self.socket.send_alert(self.layer.output()))
    }

    fn is_tls13(&self) -> bool {
        self.layer.negotiated_state().protocol_version() == Some(ProtocolVersion::TLSv1_3)
    }

    /// Returns whether pending output consists of tickets that are held back.
    fn holds_tickets(&self) -> bool {
        self.tickets == Tickets::AtEnd
            && !self.layer.is_handshaking()
            && self.is_tls13()
            && self.layer.output().len() <= HELD_MAX_BYTES
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.layer.output().is_empty() {
            let written = Pin::new(&mut self.socket).poll_write(context, self.layer.output());
            match ready!(written)? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                count => self.layer.mark_sent(count),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends pending output that is not held back, and reads at least one byte.
    fn poll_read(&mut self, context: &mut Context<'_>, at_most: usize) -> Poll<io::Result<()>> {
        if !self.holds_tickets() {
            ready!(self.poll_flush(context))?;
        }
        let mut room = ReadBuf::new(self.layer.room(at_most));
        ready!(Pin::new(&mut self.socket).poll_read(context, &mut room))?;
        match room.filled().len() {
            0 => Poll::Ready(Err(ErrorKind::UnexpectedEof.into())),
            count => {
                self.layer.mark_received(count);
                Poll::Ready(Ok(()))
            }
        }
    }
}

#[cfg(test)]
#[path = "tls_stream_tests.rs"]
mod tests;
