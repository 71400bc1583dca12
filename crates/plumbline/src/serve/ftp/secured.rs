//! TLS on a data connection, as a task of the server's moves it.
//!
//! A server of TLS 1.3 sends its tickets when the handshake is over (RFC 8446 §4.6.1). Many who
//! send a file write all of it behind their handshake, read nothing and close. If the tickets come
//! then, or lie unread, the sender's kernel resets the connection and throws away what it has not
//! sent: the file is cut off. So where a file comes in they wait for its end: behind the sender's
//! own end they harm nobody, and who waits for our end still gets them. In TLS 1.2 nothing waits:
//! the last flight of the handshake is ours (RFC 5246 §7.3).

use super::socket::Socket;
use super::{Server, tickets};
use crate::carry::{RecordLayer, Saying, Turn};
use crate::serve::charged::Metered;
use crate::transfers::DataTls;
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

/// Tickets are a few hundred bytes; more than this does not wait.
const HELD_MAX_BYTES: usize = 8 * 1024;

/// A data connection in TLS.
pub(super) struct Secured {
    layer: RecordLayer,
    server: Option<Rc<Server>>,
    stream: Socket,
    /// Whether a file comes in, whose end our tickets wait for.
    is_incoming: bool,
    /// What came with the handshake.
    early: Vec<u8>,
}

impl fmt::Debug for Secured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secured").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// What TLS of a data connection is made with.
#[derive(Clone)]
pub(super) struct Security {
    /// Who is charged for it.
    pub(super) server: Option<Rc<Server>>,
    pub(super) configuration: Arc<ServerConfig>,
    /// What the tickets of the session hold.
    pub(super) token: [u8; tickets::TOKEN_LEN],
    /// Whose tickets are taken besides, if one of them is required.
    pub(super) family: Option<tickets::Family>,
}

impl Secured {
    /// Does the handshake.
    ///
    /// # Errors
    ///
    /// If there is no TLS with the far side, or it does not resume a session of this token where
    /// that is required.
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
                // The last flight of the handshake may have come, and with it data or, of an empty
                // file, the end.
                Turn::Again | Turn::NeedsInput | Turn::Open | Turn::Ended => {}
            }
        }
        if secured.layer.agreed().protocol_version() != Some(ProtocolVersion::TLSv1_3) {
            // The far side waits for our last flight. Tickets can go with what is said first.
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

    /// Returns what was agreed.
    pub(super) fn tls(&self) -> DataTls {
        DataTls::of(self.layer.agreed())
    }

    /// Returns how long enciphering and deciphering took.
    pub(super) fn spent(&self) -> Duration {
        self.layer.spent()
    }

    /// Returns what is below.
    pub(super) const fn stream(&self) -> &Socket {
        &self.stream
    }

    /// Waits for data, gives it to `each` in pieces, and returns how much that was; none at the end.
    /// At most `at_most` bytes are read of the wire for it, or a record. Nothing is lost if it is
    /// not waited for to the end.
    ///
    /// # Errors
    ///
    /// What TLS or the connection says; [`ErrorKind::UnexpectedEof`] if it ends without saying so.
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
    /// What TLS or the connection says.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.charged(Account::Encryption, |secured| secured.say(Saying::Data(bytes)))?;
        self.flush().await
    }

    /// Says that nothing follows, behind all that waits to be said, and closes our side.
    ///
    /// # Errors
    ///
    /// What TLS or the connection says.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        self.say(Saying::End)?;
        self.flush().await?;
        self.stream.shutdown().await
    }

    /// Does a part of the work on an account of who serves. What takes the data has its own.
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
                // The far side may have ended, and still hears.
                Turn::Again | Turn::Ended => {}
                Turn::NeedsInput => return Err(ErrorKind::NotConnected.into()),
            }
        }
    }

    fn turn(&mut self, saying: Saying<'_>, each: &mut dyn FnMut(&[u8])) -> io::Result<Turn> {
        self.layer.turn(saying, each).inspect_err(|_| {
            // One try: who does not hear any more need not be told.
            _ = self.stream.try_write(self.layer.output());
        })
    }

    /// Returns whether what is to be said are tickets, whose time has not come.
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

    /// Says what is to be said by now and reads more of the wire, at least a byte.
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
