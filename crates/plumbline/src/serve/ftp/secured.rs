//! TLS on a data connection, driven by the transfer task.
//!
//! A TLS 1.3 server sends its session tickets after the handshake (RFC 8446 §4.6.1). Many clients
//! that upload a file write all of it directly after the handshake, read nothing and close. If
//! tickets arrive after that, or remain unread, the client's kernel resets the connection and
//! discards unsent data, which truncates the file. For an upload the tickets are therefore held
//! back until its end. After the client's own end they do no harm, and a client that waits for the
//! server's end still receives them. In TLS 1.2 nothing is held back, because the server sends the
//! last flight of the handshake (RFC 5246 §7.3).

use super::socket::Socket;
use super::{Server, tickets};
use crate::carry::{RecordLayer, Saying, Turn};
use crate::serve::charged::Metered;
use crate::transfer_recorder::DataTls;
use protocols::meter::Account;
use std::fmt;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::rustls::{HandshakeKind, ProtocolVersion, ServerConfig};

/// Maximum size of held output. Tickets have a few hundred bytes; larger output is sent.
const HELD_MAX_BYTES: usize = 8 * 1024;

/// Data connection in TLS.
pub(super) struct Secured {
    layer: RecordLayer,
    server: Option<Rc<Server>>,
    stream: Socket,
    /// Whether the transfer is an upload, until whose end the tickets are held.
    is_incoming: bool,
    /// Data received with the handshake.
    early: Vec<u8>,
}

impl fmt::Debug for Secured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secured").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// Parameters of TLS on a data connection.
#[derive(Clone)]
pub(super) struct Security {
    /// Server whose meter is charged.
    pub(super) server: Option<Rc<Server>>,
    pub(super) configuration: Arc<ServerConfig>,
    /// Token in the tickets of the session.
    pub(super) token: [u8; tickets::TOKEN_LEN],
    /// Family whose tickets are accepted too; resumption is required if it is set.
    pub(super) family: Option<tickets::Family>,
}

impl Secured {
    /// Performs the handshake.
    ///
    /// # Errors
    ///
    /// Returns an error if the handshake fails, and [`ErrorKind::PermissionDenied`] if the client
    /// does not resume a required TLS session.
    pub(super) async fn accept(
        stream: Socket,
        security: &Security,
        is_incoming: bool,
    ) -> io::Result<Self> {
        let Security { server, configuration, token, family } = security;
        let configuration = tickets::of_session(configuration, *token, family.as_ref());
        let layer = RecordLayer::server(configuration)?;
        let server = server.clone();
        let mut secured = Self { layer, server, stream, is_incoming, early: Vec::new() };
        let mut early = Vec::new();
        let mut keep = |bytes: &[u8]| early.extend_from_slice(bytes);
        while secured.layer.is_handshaking() {
            let turn = secured
                .charged(Account::Encryption, |secured| secured.turn(Saying::Nothing, &mut keep));
            match turn? {
                Turn::NeedsInput | Turn::Open if secured.layer.is_handshaking() => {
                    secured.read().await?;
                }
                Turn::Ended if secured.layer.is_handshaking() => {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                // The last flight of the handshake may have arrived with data or, for an empty
                // file, with the end.
                Turn::Again | Turn::NeedsInput | Turn::Open | Turn::Ended => {}
            }
        }
        if secured.layer.agreed().protocol_version() != Some(ProtocolVersion::TLSv1_3) {
            // The client waits for the last flight. Tickets can be sent with the first data.
            while secured.turn(Saying::Nothing, &mut keep)? == Turn::Again {}
            secured.flush().await?;
        }
        secured.early = early;
        let agreed = secured.layer.agreed();
        if family.is_some() && agreed.handshake_kind() != Some(HandshakeKind::Resumed) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        Ok(secured)
    }

    /// Returns the negotiated parameters.
    pub(super) fn tls(&self) -> DataTls {
        DataTls::of(self.layer.agreed())
    }

    /// Returns the time spent on encryption and decryption.
    pub(super) fn spent(&self) -> Duration {
        self.layer.spent()
    }

    /// Returns the socket below TLS.
    pub(super) const fn stream(&self) -> &Socket {
        &self.stream
    }

    /// Waits for data, passes it to `each` in pieces, and returns its length; 0 at the end. Reads
    /// at most `at_most` bytes or one record from the socket. Cancel safe.
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
        self.charged(Account::Encryption, |secured| secured.receive(context, at_most, each))
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
            let turn = self.turn(Saying::Nothing, &mut |bytes| {
                count += bytes.len();
                each(bytes);
            })?;
            match turn {
                Turn::Again => {}
                Turn::NeedsInput | Turn::Open if count == 0 => {
                    ready!(self.poll_read(context, at_most))?;
                }
                Turn::NeedsInput | Turn::Open | Turn::Ended => break,
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
        self.charged(Account::Encryption, |secured| secured.say(Saying::Data(bytes)))?;
        self.flush().await
    }

    /// Sends pending output and close_notify, and closes the connection for writing.
    ///
    /// # Errors
    ///
    /// Returns the error of TLS or of the connection.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        self.say(Saying::End)?;
        self.flush().await?;
        self.stream.shutdown().await
    }

    /// Charges `work` to an account of the server. The consumer of the data has its own account.
    fn charged<T>(&mut self, account: Account, work: impl FnOnce(&mut Self) -> T) -> T {
        match self.server.clone() {
            Some(server) => server.charge(account, || work(self)),
            None => work(self),
        }
    }

    fn say(&mut self, saying: Saying<'_>) -> io::Result<()> {
        loop {
            match self.turn(saying, &mut |_| {})? {
                Turn::Open => return Ok(()),
                // The client may have ended its side and still reads.
                Turn::Again | Turn::Ended => {}
                Turn::NeedsInput => return Err(ErrorKind::NotConnected.into()),
            }
        }
    }

    fn turn(&mut self, saying: Saying<'_>, each: &mut dyn FnMut(&[u8])) -> io::Result<Turn> {
        self.layer.turn(saying, each).inspect_err(|_| {
            // Sends the alert in one attempt, because a client that no longer reads does not need
            // it.
            _ = self.stream.try_write(self.layer.output());
        })
    }

    /// Returns whether pending output consists of tickets that are held back.
    fn holds_tickets(&self) -> bool {
        let agreed = self.layer.agreed();
        self.is_incoming
            && !agreed.is_handshaking()
            && agreed.protocol_version() == Some(ProtocolVersion::TLSv1_3)
            && self.layer.output().len() <= HELD_MAX_BYTES
    }

    async fn flush(&mut self) -> io::Result<()> {
        std::future::poll_fn(|context| self.poll_flush(context)).await
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.layer.output().is_empty() {
            let written = Pin::new(&mut self.stream).poll_write(context, self.layer.output());
            self.layer.sent(ready!(written)?);
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
        let count = ready!(self.charged(Account::Interrupt, |secured| {
            let mut room = ReadBuf::new(secured.layer.room(at_most));
            let read = Pin::new(&mut secured.stream).poll_read(context, &mut room);
            read.map_ok(|()| room.filled().len())
        }))?;
        if count == 0 {
            return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
        }
        self.layer.filled(count);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
#[path = "secured_tests.rs"]
mod tests;
