//! Control connection, in cleartext or in TLS.
//!
//! CCC (RFC 4217 §12.3) returns the connection to cleartext: the server sends close_notify after
//! the reply, and then reads the remaining TLS records of the client one at a time, never a byte
//! more, because cleartext follows the last record. Some clients never send close_notify, so a byte
//! that cannot start a TLS record also begins the cleartext.
//!
//! A control connection has no read buffer of its own. All sessions share one, so ten thousand idle
//! sessions use little memory.

use super::client_hello;
use super::ftp_server::{FtpServer, Shutdown};
use super::tickets::{self, TOKEN_LEN};
use crate::metered::{Metered, MeteredStream};
use carrier::TcpConnection;
use net::meter::Account;
use rustix::net::RecvFlags;
use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::coop::consume_budget;
use tokio_rustls::StartHandshake;
use tokio_rustls::rustls::{ServerConfig, ServerConnection};
use tokio_rustls::server::TlsStream;

/// Time limit of the TLS handshake.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);
/// Time limit for the last reply, and for the client to close the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of bytes per read.
const READ_BYTES: usize = 4096;
/// Length of a TLS record header, and maximum length of a record (RFC 8446 §5.2).
const RECORD_HEADER_LEN: usize = 5;
const RECORD_MAX_BYTES: usize = RECORD_HEADER_LEN + (1 << 14) + 256;
/// Content types of TLS records; no command begins with one of these bytes.
const RECORD_TYPES: std::ops::RangeInclusive<u8> = 0x14..=0x17;

/// Stream below TLS: a socket whose system calls are charged to a meter account of their own.
type MeteredSocket = MeteredStream<TcpConnection, FtpServer>;

/// Control connection.
#[derive(Debug)]
pub(super) struct ControlConnection {
    transport: Transport,
    /// Whether TLS may hold unflushed output.
    needs_flush: bool,
    /// Whether the socket may hold unread data for which the runtime would report no readiness.
    may_have_unread: bool,
}

#[derive(Debug)]
enum Transport {
    Plaintext(TcpConnection),
    Tls(Box<TlsStream<MeteredSocket>>),
    /// The server has sent close_notify, the client has not yet.
    LeavingTls(Box<LeavingTls>),
    /// Placeholder during a change between the other variants.
    Taken,
}

/// Connection that is leaving TLS.
#[derive(Debug)]
struct LeavingTls {
    stream: TcpConnection,
    tls: ServerConnection,
    /// Bytes of the record being read.
    record: Vec<u8>,
}

/// Result of [`ControlConnection::write_and_read`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct IoProgress {
    pub(super) written: usize,
    /// Received bytes: `None` if nothing was read, empty at the end of the stream.
    pub(super) read: Option<Vec<u8>>,
}

impl ControlConnection {
    pub(super) fn new(stream: TcpConnection) -> Self {
        Self { transport: Transport::Plaintext(stream), needs_flush: false, may_have_unread: false }
    }

    /// Writes from `output` and reads, if `wants_input`. Returns as soon as any bytes were written
    /// or read. Cancel safe.
    ///
    /// # Errors
    ///
    /// Returns the error of the connection or of TLS.
    pub(super) async fn write_and_read(
        &mut self,
        output: &[u8],
        wants_input: bool,
        scratch: &RefCell<Vec<u8>>,
    ) -> io::Result<IoProgress> {
        std::future::poll_fn(|context| {
            let mut progress = IoProgress::default();
            if !output.is_empty()
                && let Poll::Ready(written) = self.poll_write(context, output)
            {
                progress.written = written?;
                self.needs_flush = true;
            }
            if self.needs_flush && self.poll_flush(context)?.is_ready() {
                self.needs_flush = false;
            }
            if wants_input {
                let mut scratch = scratch.borrow_mut();
                let room = scratch.get_mut(..READ_BYTES).unwrap_or_default();
                let mut room = ReadBuf::new(room);
                if self.poll_read(context, &mut room)?.is_ready() {
                    progress.read = Some(room.filled().to_vec());
                }
            }
            if progress == IoProgress::default() {
                Poll::Pending
            } else {
                Poll::Ready(Ok(progress))
            }
        })
        .await
    }

    /// Returns the meter account to charge for I/O: encryption with TLS, system calls without TLS.
    pub(super) const fn account(&self) -> Account {
        match self.transport {
            Transport::Tls(_) | Transport::LeavingTls(_) => Account::Encryption,
            Transport::Plaintext(_) | Transport::Taken => Account::Interrupt,
        }
    }

    /// Returns whether the client has acknowledged all written data. Returns `None` if that is
    /// unknown, as with the user-space TCP.
    pub(super) fn is_acknowledged(&self) -> Option<bool> {
        if self.needs_flush {
            return Some(false);
        }
        self.socket()?.is_acknowledged()
    }

    /// Returns whether the client has closed the connection, even if earlier data has not been read
    /// yet.
    pub(super) fn has_ended(&self) -> bool {
        self.socket().is_none_or(TcpConnection::has_ended)
    }

    fn socket(&self) -> Option<&TcpConnection> {
        match &self.transport {
            Transport::Plaintext(stream) => Some(stream),
            Transport::Tls(stream) => Some(stream.get_ref().0.inner()),
            Transport::LeavingTls(leaving) => Some(&leaving.stream),
            Transport::Taken => None,
        }
    }

    /// Starts TLS with session tickets that contain `token`. If data connections must resume this
    /// TLS session and the client offers TLS 1.2, `configuration` is limited to TLS 1.2, in which a
    /// client can resume one session any number of times.
    ///
    /// # Errors
    ///
    /// Returns an error if the peer does not speak TLS, if the handshake takes longer than
    /// [`HANDSHAKE_TIMEOUT`], or if the server shuts down during the handshake.
    pub(super) async fn start_tls(
        &mut self,
        configuration: &mut Arc<ServerConfig>,
        token: &[u8; TOKEN_LEN],
        server: &Rc<FtpServer>,
    ) -> io::Result<()> {
        let Transport::Plaintext(stream) = std::mem::replace(&mut self.transport, Transport::Taken)
        else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut stream = MeteredStream::new(stream, Rc::clone(server), Account::Interrupt);
        let requires_reuse = server.settings().requires_session_reuse;
        let handshake = async {
            let hello = client_hello::read(&mut stream).await?;
            if requires_reuse && hello.offers_tls12() {
                *configuration = tickets::limited_to_tls12(configuration)?;
            }
            // A client may resume the TLS session of an earlier control connection. The new tickets
            // contain the token of this FTP session.
            let configuration = tickets::session_configuration(configuration, *token, None);
            StartHandshake::from_parts(hello.accepted, stream).into_stream(configuration).await
        };
        let handshake = server.charge_future(Account::Encryption, handshake);
        let mut shutdown = server.shutdown.subscribe();
        let stream = tokio::select! {
            stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake) => stream??,
            _ = shutdown.wait_for(|phase| *phase >= Shutdown::Draining) => {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        };
        self.transport = Transport::Tls(Box::new(stream));
        Ok(())
    }

    /// Returns the host name that the client sent in SNI when TLS began (RFC 6066 §3).
    pub(super) fn tls_name(&self) -> Option<&str> {
        match &self.transport {
            Transport::Tls(stream) => stream.get_ref().1.server_name(),
            Transport::Plaintext(_) | Transport::LeavingTls(_) | Transport::Taken => None,
        }
    }

    /// Ends TLS in the direction to the client; later output is cleartext.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is in cleartext already, data received in TLS was not
    /// read, or the connection fails.
    pub(super) async fn stop_tls(&mut self) -> io::Result<()> {
        let Transport::Tls(stream) = std::mem::replace(&mut self.transport, Transport::Taken)
        else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let (stream, mut tls) = stream.into_inner();
        let mut stream = stream.into_inner();
        let state = tls.process_new_packets().map_err(io::Error::other)?;
        if state.plaintext_bytes_to_read() > 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        tls.send_close_notify();
        let mut close_notify = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut close_notify)?;
        }
        tokio::time::timeout(HANDSHAKE_TIMEOUT, stream.write_all(&close_notify)).await??;
        self.transport =
            Transport::LeavingTls(Box::new(LeavingTls { stream, tls, record: Vec::new() }));
        Ok(())
    }

    /// Sends a last reply and closes the connection in order.
    pub(super) async fn close(&mut self, reply: &[u8]) {
        let mut rest = reply;
        let close_future = std::future::poll_fn(|context| {
            while !rest.is_empty() {
                let written_bytes = std::task::ready!(self.poll_write(context, rest))?;
                rest = rest.get(written_bytes..).unwrap_or_default();
            }
            std::task::ready!(self.poll_flush(context))?;
            match &mut self.transport {
                Transport::Plaintext(stream) => Pin::new(stream).poll_shutdown(context),
                Transport::Tls(stream) => Pin::new(stream).poll_shutdown(context),
                Transport::LeavingTls(leaving) => {
                    Pin::new(&mut leaving.stream).poll_shutdown(context)
                }
                Transport::Taken => Poll::Ready(Ok(())),
            }
        });
        // The time limit applies to a client that is gone or does not read.
        _ = tokio::time::timeout(CLOSE_TIMEOUT, close_future).await;
    }

    /// Reads until the client closes the connection. Dropping a connection with unread data resets
    /// it, which could discard the last reply.
    pub(super) async fn await_close(&mut self) {
        let close_future = async {
            let mut unread = [0; 512];
            loop {
                consume_budget().await;
                let mut room = ReadBuf::new(&mut unread);
                let read = std::future::poll_fn(|context| self.poll_read(context, &mut room)).await;
                if read.is_err() || room.filled().is_empty() {
                    return;
                }
            }
        };
        // The time limit applies to a client that does not close.
        _ = tokio::time::timeout(CLOSE_TIMEOUT, close_future).await;
    }

    fn poll_write(&mut self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.transport {
            Transport::Plaintext(stream) => Pin::new(stream).poll_write(context, data),
            Transport::Tls(stream) => Pin::new(stream).poll_write(context, data),
            Transport::LeavingTls(leaving) => {
                Pin::new(&mut leaving.stream).poll_write(context, data)
            }
            Transport::Taken => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Tls(stream) => Pin::new(stream).poll_flush(context),
            Transport::Plaintext(_) | Transport::LeavingTls(_) | Transport::Taken => {
                Poll::Ready(Ok(()))
            }
        }
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Transport::LeavingTls(leaving) = &mut self.transport {
            let has_left_tls = ready!(leaving.poll_read(context, room))?;
            if !has_left_tls {
                return Poll::Ready(Ok(()));
            }
            if let Transport::LeavingTls(leaving) =
                std::mem::replace(&mut self.transport, Transport::Taken)
            {
                self.transport = Transport::Plaintext(leaving.stream);
            }
            if !room.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
        match &mut self.transport {
            Transport::Plaintext(stream) => {
                if !(std::mem::take(&mut self.may_have_unread) && read_available(stream, room)) {
                    ready!(Pin::new(&mut *stream).poll_read(context, room))?;
                    // A short read has drained the socket or has reached the urgent mark of a
                    // Synch.
                    let is_short_read = !room.filled().is_empty() && room.remaining() > 0;
                    if !(is_short_read && read_available(stream, room)) {
                        return Poll::Ready(Ok(()));
                    }
                }
                self.may_have_unread = room.remaining() == 0;
                Poll::Ready(Ok(()))
            }
            Transport::Tls(stream) => Pin::new(stream).poll_read(context, room),
            Transport::LeavingTls(_) | Transport::Taken => Poll::Ready(Ok(())),
        }
    }
}

/// Reads available data without the readiness state of the runtime. Returns whether any data was
/// read.
///
/// A read ends at the mark of urgent data (RFC 854, "The TELNET Synch signal"; tcp(7)), and the
/// runtime assumes that a short read has drained the socket. The ABOR behind the mark would then be
/// read only when another command arrives, but the client sends no command while it waits for the
/// reply to ABOR.
fn read_available(socket: &TcpConnection, room: &mut ReadBuf<'_>) -> bool {
    // A read of the user-space TCP does not end at the urgent mark.
    let Some(stream) = socket.kernel() else { return false };
    let read = rustix::net::recv(stream, room.initialize_unfilled(), RecvFlags::DONTWAIT);
    // The next read reports the end of the stream or an error again.
    let count = read.map_or(0, |(count, _)| count);
    room.advance(count);
    count > 0
}

impl LeavingTls {
    /// Reads the client's remaining TLS records. Returns true when TLS has ended; `room` then holds
    /// the cleartext that was read, if any. Returns false with an empty `room` at the end of the
    /// stream.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<bool>> {
        loop {
            let wanted_bytes = match *self.record.as_slice() {
                [] => 1,
                [_, _, _, high, low, ..] => {
                    RECORD_HEADER_LEN + usize::from(u16::from_be_bytes([high, low]))
                }
                _ => RECORD_HEADER_LEN,
            };
            if wanted_bytes > RECORD_MAX_BYTES {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
            let mut piece = vec![0; wanted_bytes - self.record.len()];
            let mut read = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(false));
            }
            if let (true, [first]) = (self.record.is_empty(), read.filled())
                && !RECORD_TYPES.contains(first)
            {
                room.put_slice(&[*first]);
                return Poll::Ready(Ok(true));
            }
            self.record.extend_from_slice(read.filled());
            if self.is_record_complete() && self.take_record()? {
                return Poll::Ready(Ok(true));
            }
        }
    }

    fn is_record_complete(&self) -> bool {
        match *self.record.as_slice() {
            [_, _, _, high, low, ref rest @ ..] => {
                rest.len() == usize::from(u16::from_be_bytes([high, low]))
            }
            _ => false,
        }
    }

    /// Passes a record to TLS. Returns whether the record was the client's last TLS record.
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
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream as StdStream};
    use std::pin::pin;
    use tokio::net::TcpStream;

    /// A control connection to which the client has sent data with `send` before any read.
    fn connected(send: impl FnOnce(&mut StdStream)) -> (ControlConnection, StdStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = StdStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        socket::set_urgent_inline(&server, true).unwrap();
        send(&mut client);
        server.set_nonblocking(true).unwrap();
        (ControlConnection::new(TcpStream::from_std(server).unwrap().into()), client)
    }

    fn urgent(client: &StdStream, bytes: &[u8]) {
        rustix::net::send(client, bytes, rustix::net::SendFlags::OOB).unwrap();
    }

    async fn receive(control: &mut ControlConnection, len: usize) -> Vec<u8> {
        let scratch = RefCell::new(vec![0; READ_BYTES]);
        let mut received_bytes = Vec::new();
        while received_bytes.len() < len {
            let progress = control.write_and_read(&[], true, &scratch).await.unwrap();
            received_bytes.extend(progress.read.unwrap());
        }
        received_bytes
    }

    #[tokio::test]
    async fn data_after_a_synch_is_read_without_further_input() {
        let (mut control, _client) = connected(|client| {
            urgent(client, b"\xff\xf4\xff");
            client.write_all(b"\xf2ABOR\r\n").unwrap();
        });
        assert_eq!(receive(&mut control, 10).await, b"\xff\xf4\xff\xf2ABOR\r\n");
    }

    #[tokio::test]
    async fn after_the_last_reply_input_is_discarded_until_the_client_closes() {
        let (mut control, mut client) = connected(|client| client.write_all(b"NOOP\r\n").unwrap());
        control.close(b"221 Goodbye\r\n").await;
        let mut waiting = pin!(control.await_close());
        for _ in 0..2 {
            assert!(
                poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await.is_pending()
            );
            tokio::task::yield_now().await;
        }
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        assert_eq!(reply, "221 Goodbye\r\n");
        drop(client);
        waiting.await;
    }

    #[tokio::test]
    async fn long_data_after_a_synch_is_read_completely() {
        let line = [b'x'; 3 * READ_BYTES];
        let (mut control, _client) = connected(|client| {
            urgent(client, b"NOOP\r\n\xff");
            client.write_all(&line).unwrap();
        });
        assert_eq!(receive(&mut control, 7 + line.len()).await.len(), 7 + line.len());
    }
}
