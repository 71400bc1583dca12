//! Control connection, in cleartext or in TLS.
//!
//! CCC (RFC 4217 §12.3) returns it to cleartext: the server ends its TLS after the reply, and then
//! reads the rest of the client's TLS record by record, never a byte more, because cleartext
//! follows the last record. Some clients never send close_notify, so a byte that cannot start a
//! record is taken as cleartext too.
//!
//! It has no buffer of its own. All sessions share one read buffer, which keeps ten thousand idle
//! sessions cheap.

use super::Server;
use super::client_hello;
use super::socket::Socket;
use super::tickets::{self, TOKEN_LEN};
use crate::serve::charged::{Charged, Metered};
use protocols::meter::Account;
use rustix::net::RecvFlags;
use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::StartHandshake;
use tokio_rustls::rustls::{ServerConfig, ServerConnection};
use tokio_rustls::server::TlsStream;

/// Time limit of the TLS handshake.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(15);
/// Time limit for the last reply and the orderly close.
const FAREWELL: Duration = Duration::from_secs(2);
/// Maximum number of bytes per read.
const READ_BYTES: usize = 4096;
/// Length of a TLS record header, and maximum length of a record (RFC 8446 §5.2).
const HEAD_LEN: usize = 5;
const RECORD_MAX_BYTES: usize = HEAD_LEN + (1 << 14) + 256;
/// Content types of TLS records; no command begins with one of these bytes.
const RECORDS: std::ops::RangeInclusive<u8> = 0x14..=0x17;

/// Stream below TLS: a socket whose system calls are charged to an account of their own.
type Below = Charged<Socket, Server>;

/// Control connection.
#[derive(Debug)]
pub(super) struct Control {
    way: Way,
    /// Whether TLS may hold unflushed output.
    is_owing: bool,
    /// Whether more data may have arrived than was read, of which the runtime is not aware.
    has_more: bool,
}

#[derive(Debug)]
enum Way {
    Clear(Socket),
    Secured(Box<TlsStream<Below>>),
    /// The server has ended its TLS, the client has not yet.
    Leaving(Box<Leaving>),
    /// Placeholder during a change between the others.
    Gone,
}

/// Connection that is leaving TLS.
#[derive(Debug)]
struct Leaving {
    stream: Socket,
    tls: ServerConnection,
    /// Bytes of the record being read.
    record: Vec<u8>,
}

/// Result of [`Control::turn`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) written: usize,
    /// Received bytes; empty at the end of the stream.
    pub(super) read: Option<Vec<u8>>,
}

impl Control {
    pub(super) fn new(stream: Socket) -> Self {
        Self { way: Way::Clear(stream), is_owing: false, has_more: false }
    }

    /// Writes from `output` and reads, if `wants_input`. Returns as soon as any bytes have moved.
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// Returns the error of the connection or of TLS.
    pub(super) async fn turn(
        &mut self,
        output: &[u8],
        wants_input: bool,
        scratch: &RefCell<Vec<u8>>,
    ) -> io::Result<Moved> {
        std::future::poll_fn(|context| {
            let mut moved = Moved::default();
            if !output.is_empty()
                && let Poll::Ready(written) = self.poll_write(context, output)
            {
                moved.written = written?;
                self.is_owing = true;
            }
            if self.is_owing && self.poll_flush(context)?.is_ready() {
                self.is_owing = false;
            }
            if wants_input {
                let mut scratch = scratch.borrow_mut();
                let room = scratch.get_mut(..READ_BYTES).unwrap_or_default();
                let mut room = ReadBuf::new(room);
                if self.poll_read(context, &mut room)?.is_ready() {
                    moved.read = Some(room.filled().to_vec());
                }
            }
            if moved == Moved::default() { Poll::Pending } else { Poll::Ready(Ok(moved)) }
        })
        .await
    }

    /// Returns the account to charge: that of TLS, or that of system calls.
    pub(super) const fn account(&self) -> Account {
        match self.way {
            Way::Secured(_) | Way::Leaving(_) => Account::Encryption,
            Way::Clear(_) | Way::Gone => Account::Interrupt,
        }
    }

    /// Returns whether the client has acknowledged all written data. Returns `None` if that is
    /// unknown, as with the user-space TCP.
    pub(super) fn is_acknowledged(&self) -> Option<bool> {
        if self.is_owing {
            return Some(false);
        }
        self.socket()?.is_acknowledged()
    }

    /// Returns whether the client has closed the connection, even if data sent before has not been
    /// read.
    pub(super) fn has_ended(&self) -> bool {
        self.socket().is_none_or(Socket::has_ended)
    }

    fn socket(&self) -> Option<&Socket> {
        match &self.way {
            Way::Clear(stream) => Some(stream),
            Way::Secured(stream) => Some(stream.get_ref().0.inner()),
            Way::Leaving(leaving) => Some(&leaving.stream),
            Way::Gone => None,
        }
    }

    /// Starts TLS with tickets that hold `token`. Where data connections must resume this TLS session
    /// and the client offers TLS 1.2, in which it can resume one any number of times,
    /// `configuration` becomes limited to that version.
    ///
    /// # Errors
    ///
    /// Returns an error if the peer does not speak TLS, if the handshake takes longer than
    /// [`HANDSHAKE`], or if the server closes meanwhile.
    pub(super) async fn secure(
        &mut self,
        configuration: &mut Arc<ServerConfig>,
        token: &[u8; TOKEN_LEN],
        server: &Rc<Server>,
    ) -> io::Result<()> {
        let Way::Clear(stream) = std::mem::replace(&mut self.way, Way::Gone) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut stream = Charged::new(stream, Rc::clone(server), Account::Interrupt);
        let requires_reuse = server.settings().requires_session_reuse;
        let handshake = async {
            let hello = client_hello::read(&mut stream).await?;
            if requires_reuse && hello.offers_tls12() {
                *configuration = tickets::limited_to_tls12(configuration)?;
            }
            // A client may resume the TLS session of an earlier control connection, and gets tickets
            // of this one.
            let marked = tickets::of_session(configuration, *token, None);
            StartHandshake::from_parts(hello.accepted, stream).into_stream(marked).await
        };
        let handshake = server.charge_work(Account::Encryption, handshake);
        let mut closing = server.closing.subscribe();
        let stream = tokio::select! {
            stream = tokio::time::timeout(HANDSHAKE, handshake) => stream??,
            _ = closing.wait_for(|is_closing| *is_closing) => {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        };
        self.way = Way::Secured(Box::new(stream));
        Ok(())
    }

    /// Returns the host name that the client sent in SNI when TLS began (RFC 6066 §3).
    pub(super) fn tls_name(&self) -> Option<&str> {
        match &self.way {
            Way::Secured(stream) => stream.get_ref().1.server_name(),
            Way::Clear(_) | Way::Leaving(_) | Way::Gone => None,
        }
    }

    /// Ends the server's TLS; later output is cleartext.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is in cleartext already, data received in TLS was not
    /// read, or the connection fails.
    pub(super) async fn clear(&mut self) -> io::Result<()> {
        let Way::Secured(stream) = std::mem::replace(&mut self.way, Way::Gone) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let (stream, mut tls) = stream.into_inner();
        let mut stream = stream.into_inner();
        let state = tls.process_new_packets().map_err(io::Error::other)?;
        if state.plaintext_bytes_to_read() > 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        tls.send_close_notify();
        let mut last = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut last)?;
        }
        tokio::time::timeout(HANDSHAKE, stream.write_all(&last)).await??;
        self.way = Way::Leaving(Box::new(Leaving { stream, tls, record: Vec::new() }));
        Ok(())
    }

    /// Sends a last reply and closes the connection in order.
    pub(super) async fn close(&mut self, word: &[u8]) {
        let mut rest = word;
        let farewell = std::future::poll_fn(|context| {
            while !rest.is_empty() {
                let written = std::task::ready!(self.poll_write(context, rest))?;
                rest = rest.get(written..).unwrap_or_default();
            }
            std::task::ready!(self.poll_flush(context))?;
            match &mut self.way {
                Way::Clear(stream) => Pin::new(stream).poll_shutdown(context),
                Way::Secured(stream) => Pin::new(stream).poll_shutdown(context),
                Way::Leaving(leaving) => Pin::new(&mut leaving.stream).poll_shutdown(context),
                Way::Gone => Poll::Ready(Ok(())),
            }
        });
        // A client that is gone or does not read is not waited for.
        _ = tokio::time::timeout(FAREWELL, farewell).await;
    }

    fn poll_write(&mut self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.way {
            Way::Clear(stream) => Pin::new(stream).poll_write(context, data),
            Way::Secured(stream) => Pin::new(stream).poll_write(context, data),
            Way::Leaving(leaving) => Pin::new(&mut leaving.stream).poll_write(context, data),
            Way::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.way {
            Way::Secured(stream) => Pin::new(stream).poll_flush(context),
            Way::Clear(_) | Way::Leaving(_) | Way::Gone => Poll::Ready(Ok(())),
        }
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Way::Leaving(leaving) = &mut self.way {
            let has_left = ready!(leaving.poll_read(context, room))?;
            if !has_left {
                return Poll::Ready(Ok(()));
            }
            if let Way::Leaving(leaving) = std::mem::replace(&mut self.way, Way::Gone) {
                self.way = Way::Clear(leaving.stream);
            }
            if !room.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
        match &mut self.way {
            Way::Clear(stream) => {
                if !(std::mem::take(&mut self.has_more) && read_on(stream, room)) {
                    ready!(Pin::new(&mut *stream).poll_read(context, room))?;
                    // A short read has drained the socket or has reached the urgent mark of a
                    // Synch.
                    let is_short = !room.filled().is_empty() && room.remaining() > 0;
                    if !(is_short && read_on(stream, room)) {
                        return Poll::Ready(Ok(()));
                    }
                }
                self.has_more = room.remaining() == 0;
                Poll::Ready(Ok(()))
            }
            Way::Secured(stream) => Pin::new(stream).poll_read(context, room),
            Way::Leaving(_) | Way::Gone => Poll::Ready(Ok(())),
        }
    }
}

/// Reads available data without asking the runtime. Returns whether there was any.
///
/// A read ends at the mark of urgent data (RFC 854, "The TELNET Synch signal"; tcp(7)), and the
/// runtime assumes that a short read has drained the socket. The ABOR behind the mark would then be
/// read only when another command arrives, which never happens.
fn read_on(socket: &Socket, room: &mut ReadBuf<'_>) -> bool {
    // A read of the user-space TCP does not end at the mark.
    let Some(stream) = socket.kernel() else { return false };
    let read = rustix::net::recv(stream, room.initialize_unfilled(), RecvFlags::DONTWAIT);
    // The next read reports the end of the stream or an error again.
    let count = read.map_or(0, |(count, _)| count);
    room.advance(count);
    count > 0
}

impl Leaving {
    /// Reads the rest of TLS. Returns true when TLS has ended; `room` then holds any cleartext
    /// read. Returns false with an empty `room` at the end of the stream.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<bool>> {
        loop {
            let wanted = match *self.record.as_slice() {
                [] => 1,
                [_, _, _, high, low, ..] => HEAD_LEN + usize::from(u16::from_be_bytes([high, low])),
                _ => HEAD_LEN,
            };
            if wanted > RECORD_MAX_BYTES {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
            let mut piece = vec![0; wanted - self.record.len()];
            let mut read = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(false));
            }
            if let (true, [first]) = (self.record.is_empty(), read.filled())
                && !RECORDS.contains(first)
            {
                room.put_slice(&[*first]);
                return Poll::Ready(Ok(true));
            }
            self.record.extend_from_slice(read.filled());
            if self.is_whole() && self.take_record()? {
                return Poll::Ready(Ok(true));
            }
        }
    }

    fn is_whole(&self) -> bool {
        match *self.record.as_slice() {
            [_, _, _, high, low, ref rest @ ..] => {
                rest.len() == usize::from(u16::from_be_bytes([high, low]))
            }
            _ => false,
        }
    }

    /// Passes a record to TLS. Returns whether it was the client's last.
    fn take_record(&mut self) -> io::Result<bool> {
        self.tls.read_tls(&mut self.record.as_slice())?;
        let state = self.tls.process_new_packets().map_err(io::Error::other)?;
        self.record.clear();
        if state.plaintext_bytes_to_read() > 0 {
            // A client that has received the reply to CCC sends no more commands in TLS.
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(state.peer_has_closed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::socket;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream as StdStream};
    use tokio::net::TcpStream;

    /// A control connection to which the client has sent data with `said` before any read.
    fn control(said: impl FnOnce(&mut StdStream)) -> (Control, StdStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = StdStream::connect(listener.local_addr().unwrap()).unwrap();
        let (near, _) = listener.accept().unwrap();
        socket::set_urgent_inline(&near, true).unwrap();
        said(&mut far);
        near.set_nonblocking(true).unwrap();
        (Control::new(TcpStream::from_std(near).unwrap().into()), far)
    }

    fn urgent(far: &StdStream, bytes: &[u8]) {
        rustix::net::send(far, bytes, rustix::net::SendFlags::OOB).unwrap();
    }

    async fn heard(control: &mut Control, len: usize) -> Vec<u8> {
        let scratch = RefCell::new(vec![0; READ_BYTES]);
        let mut all = Vec::new();
        while all.len() < len {
            let moved = control.turn(&[], true, &scratch).await.unwrap();
            all.extend(moved.read.unwrap());
        }
        all
    }

    #[tokio::test]
    async fn what_stands_behind_a_synch_is_read_though_nothing_follows() {
        let (mut control, _far) = control(|far| {
            urgent(far, b"\xff\xf4\xff");
            far.write_all(b"\xf2ABOR\r\n").unwrap();
        });
        assert_eq!(heard(&mut control, 10).await, b"\xff\xf4\xff\xf2ABOR\r\n");
    }

    #[tokio::test]
    async fn what_stands_behind_a_synch_is_read_to_its_end_though_it_is_long() {
        let line = [b'x'; 3 * READ_BYTES];
        let (mut control, _far) = control(|far| {
            urgent(far, b"NOOP\r\n\xff");
            far.write_all(&line).unwrap();
        });
        assert_eq!(heard(&mut control, 7 + line.len()).await.len(), 7 + line.len());
    }
}
