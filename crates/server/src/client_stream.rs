//! Byte streams to a client: a kernel socket, or any other stream, such as TLS or the user-space
//! TCP.
//!
//! Both kinds implement [`ClientStream`]. A session waits for readiness, and then reads and writes
//! without blocking. A kernel socket is used directly and supports urgent data; the other streams
//! have a buffer in each direction.

use super::send_queue::{SendQueue, socket_queue_len};
use os::readiness::{self, Registered, would_block_as_pending};
use os::socket;
use rustix::net::sockopt::socket_error;
use rustix::net::{SendFlags, Shutdown};
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// Buffer size in each direction of a stream that is not a socket.
const BUFFER_LEN: usize = 16 * 1024;

/// Readiness of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ready {
    /// Data or the end of the stream can be read.
    pub(super) can_read: bool,
    /// Data can be written.
    pub(super) can_write: bool,
    /// Urgent data is ahead in the stream.
    pub(super) is_urgent: bool,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Read {
    /// Number of bytes read; 0 at the end of the stream.
    pub(super) count: usize,
    /// Whether the bytes include the last urgent byte.
    pub(super) ends_urgent: bool,
}

/// Byte stream to a client.
pub(super) trait ClientStream {
    /// Waits until data can be read, if `wants_read`, or written, if `wants_write`. If both are
    /// false and bytes accepted by [`ClientStream::write`] are unsent, waits until all of them have
    /// been passed on to the client. Always waits for urgent data, which must not stay behind input
    /// that is not read, and for the loss of the connection. Other conditions do not end the wait.
    /// Cancel safe.
    async fn ready(&mut self, wants_read: bool, wants_write: bool) -> io::Result<Ready>;

    /// Returns whether accepted bytes are still unsent. Only [`ClientStream::ready`] sends these
    /// bytes.
    fn has_unsent(&self) -> bool {
        false
    }

    /// Returns the number of accepted bytes that the client has not acknowledged.
    fn unacknowledged_len(&self) -> usize;

    /// Reads available data. Returns `None` if no data is available now.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<Option<Read>>;

    /// Accepts as many bytes as fit into the send buffer. Returns their number, or `None` if the
    /// buffer is full. The first `urgent` bytes are urgent data.
    fn write(&mut self, bytes: &[u8], urgent: Option<usize>) -> io::Result<Option<usize>>;

    /// Sends buffered data, then closes the stream for writing.
    async fn close(&mut self);
}

/// Kernel socket.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Registered<TcpStream>,
    is_urgent_ahead: bool,
    /// Whether the client has closed its half of the connection. No urgent data follows.
    is_read_closed: bool,
}

impl Socket {
    /// Wraps an accepted connection: disables Nagle's algorithm, keeps urgent data inline, and
    /// enables keepalive to detect a dead peer.
    ///
    /// # Errors
    ///
    /// Returns the error of `setsockopt(2)` or of the registration with tokio.
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        prepare(&stream)?;
        socket::set_urgent_inline(&stream, true)?;
        let interest = Interest::READABLE | Interest::WRITABLE | Interest::PRIORITY;
        let stream = readiness::register(stream, interest)?;
        Ok(Self { stream, is_urgent_ahead: false, is_read_closed: false })
    }
}

impl Socket {
    /// Returns the underlying TCP stream.
    pub(super) fn into_stream(self) -> TcpStream {
        self.stream.into_inner()
    }
}

/// Maximum number of unsent bytes that a socket accepts. Without this limit, megabytes of output
/// queued for a slow terminal would be displayed before the prompt that follows ^C.
const UNSENT_BYTES: u32 = 65_536;

/// Prepares a socket: disables Nagle's algorithm, limits unsent data, and enables keepalive to
/// detect a dead peer.
pub(super) fn prepare(stream: &impl std::os::fd::AsFd) -> io::Result<()> {
    socket::set_no_delay(stream, true)?;
    // If the kernel does not support this option, more queued output is displayed after ^C, but the
    // session works.
    _ = socket::set_unsent_limit(stream, UNSENT_BYTES);
    Ok(rustix::net::sockopt::set_socket_keepalive(stream, true)?)
}

impl ClientStream for Socket {
    async fn ready(&mut self, wants_read: bool, wants_write: bool) -> io::Result<Ready> {
        loop {
            let mut interest = Interest::ERROR;
            if wants_read {
                interest |= Interest::READABLE;
            }
            if wants_write {
                interest |= Interest::WRITABLE;
            }
            // The end of the stream satisfies `PRIORITY` too, and is never cleared.
            if !self.is_urgent_ahead && !self.is_read_closed {
                interest |= Interest::PRIORITY;
            }
            let ready = self.stream.ready(interest).await?.ready();
            self.is_read_closed |= ready.is_read_closed();
            let is_urgent = !self.is_urgent_ahead && ready.is_priority();
            // `read` clears the readiness at the mark, because all events until then repeat it.
            self.is_urgent_ahead |= is_urgent;
            if ready.is_error() && !wants_read {
                self.stream.clear_readiness(Interest::ERROR);
                socket_error(self.stream.get_ref())??;
            }
            let can_read =
                wants_read && (ready.is_readable() || ready.is_read_closed() || ready.is_error());
            let can_write = wants_write && ready.is_writable();
            if can_read || can_write || is_urgent {
                return Ok(Ready { can_read, can_write, is_urgent });
            }
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<Option<Read>> {
        // A read that starts at the urgent mark continues past it; a read that starts before the
        // mark stops at the mark.
        let ends_urgent = self.is_urgent_ahead
            && socket::is_at_urgent_mark(self.stream.get_ref()).unwrap_or(true);
        let capacity = bytes.len();
        let may_stop_at_mark = self.is_urgent_ahead;
        let count = self.stream.attempt_and_drain(
            Interest::READABLE,
            |stream| would_block_as_pending(rustix::io::read(stream, bytes)),
            // A short read has drained the socket, except if the read stopped at the urgent mark.
            // Later data sets readiness again.
            |count| *count > 0 && *count < capacity && !may_stop_at_mark,
        );
        let Some(count) = unless_pending_or_interrupted(count)? else { return Ok(None) };
        if ends_urgent {
            self.is_urgent_ahead = false;
            // Further urgent data would have moved the mark.
            self.stream.clear_readiness(Interest::PRIORITY);
        }
        Ok(Some(Read { count, ends_urgent }))
    }

    fn write(&mut self, bytes: &[u8], urgent: Option<usize>) -> io::Result<Option<usize>> {
        let urgent = urgent.and_then(|mark| bytes.get(..mark)).filter(|bytes| !bytes.is_empty());
        let (bytes, flags) = match urgent {
            Some(urgent) => (urgent, SendFlags::NOSIGNAL | SendFlags::OOB),
            None => (bytes, SendFlags::NOSIGNAL),
        };
        unless_pending_or_interrupted(self.stream.attempt(Interest::WRITABLE, |stream| {
            would_block_as_pending(rustix::net::send(stream, bytes, flags))
        }))
    }

    fn unacknowledged_len(&self) -> usize {
        socket_queue_len(self.stream.get_ref())
    }

    async fn close(&mut self) {
        // If the peer has already closed the connection, the shutdown fails and is not needed.
        _ = rustix::net::shutdown(self.stream.get_ref(), Shutdown::Write);
    }
}

/// Converts the result of a call on a socket. After a signal, the socket is still ready, so the
/// session calls again.
fn unless_pending_or_interrupted(outcome: Poll<io::Result<usize>>) -> io::Result<Option<usize>> {
    match outcome {
        Poll::Ready(Ok(count)) => Ok(Some(count)),
        Poll::Ready(Err(error)) if error.kind() != ErrorKind::Interrupted => Err(error),
        Poll::Ready(Err(_)) | Poll::Pending => Ok(None),
    }
}

/// Buffered stream without urgent data: TLS, or another asynchronous stream.
#[derive(Debug)]
pub(super) struct BufferedStream<S> {
    stream: S,
    incoming: Vec<u8>,
    has_ended: bool,
    outgoing: Vec<u8>,
    is_unflushed: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> BufferedStream<S> {
    pub(super) fn new(stream: S) -> Self {
        let incoming = Vec::new();
        let outgoing = Vec::new();
        Self { stream, incoming, has_ended: false, outgoing, is_unflushed: false }
    }

    /// Writes buffered data until the stream accepts no more.
    fn poll_outgoing(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outgoing.is_empty() {
            let written_bytes = match Pin::new(&mut self.stream).poll_write(context, &self.outgoing)
            {
                Poll::Ready(written) => written?,
                Poll::Pending => return Poll::Pending,
            };
            if written_bytes == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
            self.outgoing.drain(..written_bytes);
            self.is_unflushed = true;
        }
        if self.is_unflushed {
            match Pin::new(&mut self.stream).poll_flush(context) {
                Poll::Ready(flushed) => flushed?,
                Poll::Pending => return Poll::Pending,
            }
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until data or the end of the stream can be read.
    fn poll_incoming(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.has_ended || !self.incoming.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let mut room = [0; 4096];
        let mut buffer = ReadBuf::new(&mut room);
        match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
            Poll::Ready(read) => read?,
            Poll::Pending => return Poll::Pending,
        }
        self.incoming.extend_from_slice(buffer.filled());
        self.has_ended = self.incoming.is_empty();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + SendQueue + Unpin> ClientStream for BufferedStream<S> {
    async fn ready(&mut self, wants_read: bool, wants_write: bool) -> io::Result<Ready> {
        let awaits_flush = !wants_read && !wants_write && self.has_unsent();
        std::future::poll_fn(|context| {
            match self.poll_outgoing(context) {
                Poll::Ready(Ok(())) if awaits_flush => {
                    return Poll::Ready(Ok(Ready::default()));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            let can_write = self.outgoing.len() < BUFFER_LEN;
            // A read ahead also reports the loss of the connection.
            let is_readable = match self.poll_incoming(context) {
                Poll::Ready(read) => read.map(|()| true)?,
                Poll::Pending => false,
            };
            let can_read = wants_read && is_readable;
            if can_read || (wants_write && can_write) {
                return Poll::Ready(Ok(Ready { can_read, can_write, is_urgent: false }));
            }
            Poll::Pending
        })
        .await
    }

    fn has_unsent(&self) -> bool {
        self.is_unflushed || !self.outgoing.is_empty()
    }

    fn unacknowledged_len(&self) -> usize {
        self.outgoing.len() + self.stream.send_queue_len()
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<Option<Read>> {
        let count = self.incoming.len().min(bytes.len());
        for (target, byte) in bytes.iter_mut().zip(self.incoming.drain(..count)) {
            *target = byte;
        }
        let has_result = count > 0 || self.has_ended;
        Ok(has_result.then_some(Read { count, ends_urgent: false }))
    }

    fn write(&mut self, bytes: &[u8], _urgent: Option<usize>) -> io::Result<Option<usize>> {
        let count = bytes.len().min(BUFFER_LEN.saturating_sub(self.outgoing.len()));
        self.outgoing.extend_from_slice(bytes.get(..count).unwrap_or_default());
        Ok((count > 0 || bytes.is_empty()).then_some(count))
    }

    async fn close(&mut self) {
        // Errors are ignored, because the connection may already be lost.
        _ = std::future::poll_fn(|context| self.poll_outgoing(context)).await;
        _ = std::future::poll_fn(|context| Pin::new(&mut self.stream).poll_shutdown(context)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::set_socket_linger;
    use std::io::{Read as _, Write as _};
    use std::pin::pin;
    use std::time::Duration;
    use tokio::io::AsyncReadExt;

    impl SendQueue for tokio::io::DuplexStream {
        fn send_queue_len(&self) -> usize {
            0
        }
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test);
    }

    /// Returns an accepted socket and its client.
    fn socket_and_client() -> (Socket, TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        (Socket::new(accepted).unwrap(), client)
    }

    #[test]
    fn a_reset_ends_a_wait_of_a_socket_that_is_not_read() {
        run(async {
            let (mut socket, client) = socket_and_client();
            set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            drop(client);
            let error = socket.ready(false, false).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        });
    }

    #[test]
    fn urgent_data_ends_a_wait_of_a_socket_that_is_not_read_once() {
        run(async {
            let (mut socket, client) = socket_and_client();
            rustix::net::send(&client, b"xy", SendFlags::OOB).unwrap();
            let ready = socket.ready(false, false).await.unwrap();
            assert_eq!(ready, Ready { is_urgent: true, ..Ready::default() });
            assert!(is_pending(&mut socket).await);
        });
    }

    /// Returns the bytes read, and whether they include the last urgent byte.
    fn read(socket: &mut Socket) -> (Vec<u8>, bool) {
        let mut bytes = [0; 8];
        let read = socket.read(&mut bytes).unwrap().unwrap();
        (bytes[..read.count].to_vec(), read.ends_urgent)
    }

    #[test]
    fn data_that_arrives_before_the_urgent_mark_is_read_does_not_repeat_the_notice() {
        run(async {
            let (mut socket, mut client) = socket_and_client();
            rustix::net::send(&client, b"xy", SendFlags::OOB).unwrap();
            assert!(socket.ready(true, false).await.unwrap().is_urgent);
            client.write_all(b"z").unwrap();
            // The runtime receives the event of the new data, which repeats the notice.
            tokio::task::yield_now().await;
            assert_eq!(read(&mut socket), (b"x".to_vec(), false));
            assert_eq!(read(&mut socket), (b"yz".to_vec(), true));
            assert!(is_pending(&mut socket).await);
            rustix::net::send(&client, b"!", SendFlags::OOB).unwrap();
            assert!(socket.ready(false, false).await.unwrap().is_urgent);
        });
    }

    #[test]
    fn more_urgent_data_before_the_urgent_mark_is_read_moves_the_mark() {
        run(async {
            let (mut socket, client) = socket_and_client();
            rustix::net::send(&client, b"xy", SendFlags::OOB).unwrap();
            assert!(socket.ready(true, false).await.unwrap().is_urgent);
            assert_eq!(read(&mut socket), (b"x".to_vec(), false));
            rustix::net::send(&client, b"z", SendFlags::OOB).unwrap();
            tokio::task::yield_now().await;
            assert_eq!(read(&mut socket), (b"y".to_vec(), false));
            assert_eq!(read(&mut socket), (b"z".to_vec(), true));
            assert!(is_pending(&mut socket).await);
        });
    }

    #[test]
    fn a_half_close_does_not_end_a_wait_of_a_socket_that_is_not_read() {
        run(async {
            let (mut socket, client) = socket_and_client();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(socket.ready(true, false).await.unwrap().can_read);
            assert!(is_pending(&mut socket).await);
        });
    }

    async fn is_pending(socket: &mut Socket) -> bool {
        let mut ready = pin!(socket.ready(false, false));
        std::future::poll_fn(|context| Poll::Ready(ready.as_mut().poll(context).is_pending())).await
    }

    #[test]
    fn unacknowledged_output_becomes_less_when_the_client_reads() {
        run(async {
            let (mut socket, mut client) = socket_and_client();
            assert_eq!(socket.unacknowledged_len(), 0);
            assert!(socket.ready(false, true).await.unwrap().can_write);
            let mut written_len = 0;
            while let Some(count) = socket.write(&[b'x'; 16_384], None).unwrap() {
                written_len += count;
            }
            assert!(socket.unacknowledged_len() > 0);
            io::copy(&mut (&mut client).take(written_len as u64), &mut io::sink()).unwrap();
            while socket.unacknowledged_len() > 0 {
                tokio::task::yield_now().await;
            }
        });
    }

    #[test]
    fn a_prepared_socket_limits_unsent_data() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let accepted_bytes = |is_prepared: bool| {
            let mut local = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            if is_prepared {
                prepare(&local).unwrap();
            }
            local.set_nonblocking(true).unwrap();
            let write = || local.write(&[0; 16_384]).ok();
            std::iter::from_fn(write).sum::<usize>()
        };
        let limited_bytes = accepted_bytes(true);
        let default_bytes = accepted_bytes(false);
        assert!(limited_bytes < default_bytes / 2, "{limited_bytes} and {default_bytes}");
    }

    #[test]
    fn ready_sends_accepted_data_without_any_wanted_readiness() {
        run(async {
            let (local, mut remote) = tokio::io::duplex(4);
            let mut stream = BufferedStream::new(local);
            assert_eq!(stream.write(b"longer than its room", None).unwrap(), Some(20));
            assert!(stream.has_unsent());
            let mut buffer = [0; 20];
            let (ready, read) =
                tokio::join!(stream.ready(false, false), remote.read_exact(&mut buffer));
            assert_eq!((ready.unwrap(), read.unwrap()), (Ready::default(), 20));
            assert_eq!((&buffer, stream.has_unsent()), (b"longer than its room", false));
        });
    }

    #[test]
    fn unwanted_readiness_does_not_end_a_wait() {
        run(async {
            let (local, mut remote) = tokio::io::duplex(64);
            let mut stream = BufferedStream::new(local);
            tokio::io::AsyncWriteExt::write_all(&mut remote, b"typed").await.unwrap();
            let ready = stream.ready(false, true).await.unwrap();
            assert_eq!(ready, Ready { can_read: false, can_write: true, is_urgent: false });
            assert!(stream.ready(true, false).await.unwrap().can_read);
            let mut bytes = [0; 64];
            let read = stream.read(&mut bytes).unwrap();
            assert_eq!(read, Some(Read { count: 5, ends_urgent: false }));
        });
    }

    /// Stream whose connection is lost.
    struct LostStream;

    impl AsyncRead for LostStream {
        fn poll_read(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
            _buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(ErrorKind::ConnectionReset.into()))
        }
    }

    impl AsyncWrite for LostStream {
        fn poll_write(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
            _data: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl SendQueue for LostStream {
        fn send_queue_len(&self) -> usize {
            0
        }
    }

    #[test]
    fn the_loss_of_a_connection_ends_a_wait_of_a_stream_that_is_not_read() {
        run(async {
            let mut stream = BufferedStream::new(LostStream);
            let mut ready = pin!(stream.ready(false, false));
            let ready =
                std::future::poll_fn(|context| Poll::Ready(ready.as_mut().poll(context))).await;
            let Poll::Ready(Err(error)) = ready else { panic!("{ready:?}") };
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        });
    }

    #[test]
    fn a_read_at_the_end_of_a_stream_returns_zero_bytes() {
        run(async {
            let (local, remote) = tokio::io::duplex(64);
            drop(remote);
            let mut stream = BufferedStream::new(local);
            assert!(stream.ready(true, false).await.unwrap().can_read);
            let end = Some(Read { count: 0, ends_urgent: false });
            assert_eq!(stream.read(&mut [0; 8]).unwrap(), end);
        });
    }
}
