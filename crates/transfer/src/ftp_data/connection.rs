//! A data connection in cleartext or TLS, its sockets, and its end.
//!
//! The calls of a blocking socket wait in the thread, so a future that uses nothing else is
//! complete after one poll ([`complete`]).

use super::data_stats::DataStats;
use super::environment::{DataSocket, TransferDriver};
use super::tls_stream::DataTlsStream;
use crate::recorder::of_userspace;
use carrier::TcpConnection;
use net::meter::Account;
use rustix::net::sockopt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// Data connection. Dropping it before the end of the transfer resets it, so that the peer cannot
/// mistake a truncated file for a complete one.
#[derive(Debug)]
pub struct DataConnection<S: DataSocket> {
    transport: Transport<S>,
    /// Whether the peer has closed its half of the connection.
    has_ended: bool,
    is_over: bool,
}

#[derive(Debug)]
enum Transport<S> {
    Plaintext(S),
    Tls(Box<DataTlsStream<S>>),
}

impl<S: DataSocket> DataConnection<S> {
    /// Creates a data connection in cleartext.
    pub const fn plaintext(socket: S) -> Self {
        Self { transport: Transport::Plaintext(socket), has_ended: false, is_over: false }
    }

    /// Creates a data connection in TLS.
    pub fn secured(tls_stream: DataTlsStream<S>) -> Self {
        let transport = Transport::Tls(Box::new(tls_stream));
        Self { transport, has_ended: false, is_over: false }
    }

    /// Returns the TLS stream, or `None` in cleartext.
    pub const fn tls(&mut self) -> Option<&mut DataTlsStream<S>> {
        match &mut self.transport {
            Transport::Plaintext(_) => None,
            Transport::Tls(tls_stream) => Some(tls_stream),
        }
    }

    /// Returns the socket; with TLS, the socket below TLS.
    pub fn socket(&self) -> &S {
        match &self.transport {
            Transport::Plaintext(socket) => socket,
            Transport::Tls(tls_stream) => tls_stream.socket(),
        }
    }

    /// Returns whether the data was exchanged completely, up to an orderly end.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Stores the addresses, the state of TCP and the time spent in the TLS library.
    pub(super) fn observe(&self, stats: &mut DataStats) {
        self.socket().observe(stats);
        if let Transport::Tls(tls_stream) = &self.transport {
            stats.crypto_time = Some(tls_stream.crypto_time());
        }
    }

    /// Waits for data and passes the data to `each` in pieces. Without TLS, the data passes the
    /// buffer `room`; with TLS, several records are collected in `room`, if they fit. Reads about
    /// `limit` bytes at most. Returns the number of bytes; 0 at the end of the stream.
    pub(super) fn poll_receive<D: TransferDriver>(
        &mut self,
        context: &mut Context<'_>,
        driver: &D,
        (room, limit): (&mut [u8], usize),
        each: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        let socket = match &mut self.transport {
            Transport::Tls(tls_stream) => {
                let mut buffer = RecordBuffer { room, len: 0, each };
                let read = driver.charge(Account::Encryption, || {
                    tls_stream.poll_receive(context, limit, &mut |data| buffer.put(data))
                });
                // Data received before an error is valid.
                buffer.flush();
                return read;
            }
            Transport::Plaintext(socket) => socket,
        };
        let mut room = ReadBuf::new(room.get_mut(..limit).unwrap_or_default());
        while !self.has_ended && room.remaining() > 0 {
            let filled_before = room.filled().len();
            match Pin::new(&mut *socket).poll_read(context, &mut room) {
                Poll::Pending if filled_before == 0 => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(read) => read?,
            }
            self.has_ended = room.filled().len() == filled_before;
            if S::BLOCKS {
                // Another read would wait for more data.
                break;
            }
        }
        if !room.filled().is_empty() {
            each(room.filled());
        }
        Poll::Ready(Ok(room.filled().len()))
    }

    pub(super) async fn write_all<D: TransferDriver>(
        &mut self,
        driver: &D,
        bytes: &[u8],
    ) -> io::Result<()> {
        match &mut self.transport {
            Transport::Plaintext(socket) => socket.write_all(bytes).await,
            Transport::Tls(tls_stream) => {
                driver.charge(Account::Encryption, || tls_stream.encrypt(bytes))?;
                tls_stream.flush().await
            }
        }
    }

    /// Sends the end of the stream after all data.
    pub(super) async fn finish_sending(&mut self) -> io::Result<()> {
        match &mut self.transport {
            Transport::Plaintext(socket) => socket.shutdown().await?,
            Transport::Tls(tls_stream) => {
                tls_stream.finish().await?;
                tls_stream.receive_tickets().await;
                tls_stream.discard_received();
            }
        }
        self.is_over = true;
        Ok(())
    }

    /// Sends the end of the stream after the peer has ended its direction.
    pub(super) async fn finish_receiving(&mut self) {
        if let Transport::Tls(tls_stream) = &mut self.transport {
            // Ignored: all data has arrived, and the peer may have closed the connection without
            // waiting for close_notify or tickets.
            _ = tls_stream.finish().await;
        }
        self.is_over = true;
    }

    /// Marks a connection whose remaining data is not needed. Dropping the connection closes it.
    pub(super) const fn stop_receiving(&mut self) {
        self.is_over = true;
    }
}

impl<S: DataSocket> Drop for DataConnection<S> {
    fn drop(&mut self) {
        if !self.is_over {
            self.socket().reset();
        }
    }
}

/// Collects the content of several TLS records: copying costs less than one write per record.
struct RecordBuffer<'a> {
    room: &'a mut [u8],
    len: usize,
    each: &'a mut dyn FnMut(&[u8]),
}

impl RecordBuffer<'_> {
    fn put(&mut self, data: &[u8]) {
        if self.room.len() - self.len < data.len() {
            self.flush();
        }
        match self.room.get_mut(self.len..self.len + data.len()) {
            Some(place) => {
                place.copy_from_slice(data);
                self.len += data.len();
            }
            None => (self.each)(data),
        }
    }

    fn flush(&mut self) {
        let filled = self.room.get(..self.len).unwrap_or_default();
        if !filled.is_empty() {
            (self.each)(filled);
        }
        self.len = 0;
    }
}

/// A TCP connection of the kernel or of the user-space host, read and written by a blocking thread.
#[derive(Debug)]
pub(crate) enum BlockingSocket {
    /// Socket of the kernel.
    Kernel(TcpStream),
    /// Stream of the user-space host.
    Userspace {
        /// The stream.
        stream: os::host::Stream,
        /// Runtime of the host.
        runtime: Handle,
        /// Notified when the transfer is cancelled.
        cancelled: Arc<Notify>,
    },
}

/// Cancels a data connection from another thread.
#[derive(Debug)]
pub(crate) enum Canceller {
    /// Socket of the kernel.
    Kernel(TcpStream),
    /// Notifies the task or thread that moves the data.
    Notify(Arc<Notify>),
}

impl Canceller {
    /// Returns the canceller of a kernel socket that the runtime no longer needs.
    pub(crate) fn of(connection: TcpConnection) -> Option<Self> {
        match connection {
            TcpConnection::Kernel(stream) => stream.into_std().ok().map(Self::Kernel),
            TcpConnection::Userspace(_) => None,
        }
    }

    pub(crate) fn cancel(&self) {
        match self {
            // A connection that has ended needs no shutdown.
            Self::Kernel(stream) => _ = stream.shutdown(Shutdown::Both),
            Self::Notify(cancelled) => cancelled.notify_one(),
        }
    }

    /// Resets the connection, so that the peer cannot mistake a truncated file for a complete file.
    /// Returns whether the reset succeeded. A reset fails while a thread is blocked in a call on
    /// the connection.
    pub(crate) fn reset(&self) -> bool {
        self.socket().is_some_and(|socket| rustix::net::connect_unspec(socket).is_ok())
    }

    /// Returns the kernel socket of the connection, if the canceller holds the socket.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Kernel(stream) => Some(stream.as_fd()),
            Self::Notify(_) => None,
        }
    }
}

impl BlockingSocket {
    /// Converts an established connection, and creates its canceller. Must be called within the
    /// runtime.
    pub(crate) fn new(connection: TcpConnection) -> io::Result<(Self, Canceller)> {
        match connection {
            TcpConnection::Kernel(stream) => {
                let stream = stream.into_std()?;
                stream.set_nonblocking(false)?;
                let canceller = Canceller::Kernel(stream.try_clone()?);
                Ok((Self::Kernel(stream), canceller))
            }
            TcpConnection::Userspace(stream) => {
                let cancelled = Arc::new(Notify::new());
                let canceller = Canceller::Notify(Arc::clone(&cancelled));
                Ok((Self::Userspace { stream, runtime: Handle::current(), cancelled }, canceller))
            }
        }
    }

    /// Shuts down the sending direction.
    fn shut_down(&mut self) -> io::Result<()> {
        match self {
            Self::Kernel(stream) => stream.shutdown(Shutdown::Write),
            Self::Userspace { stream, runtime, .. } => runtime.block_on(stream.shutdown()),
        }
    }
}

impl Read for BlockingSocket {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(stream) => stream.read(room),
            Self::Userspace { stream, runtime, cancelled } => runtime.block_on(async {
                tokio::select! {
                    () = cancelled.notified() => Err(ErrorKind::ConnectionAborted.into()),
                    read = stream.read(room) => read,
                }
            }),
        }
    }
}

impl Write for BlockingSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(stream) => stream.write(bytes),
            Self::Userspace { stream, runtime, cancelled } => runtime.block_on(async {
                tokio::select! {
                    () = cancelled.notified() => Err(ErrorKind::ConnectionAborted.into()),
                    written = stream.write(bytes) => written,
                }
            }),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a future that only uses blocking sockets, and that is therefore complete after one poll.
pub(crate) fn complete<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("a blocking socket is always ready"),
    }
}

/// Repeats a call that a signal has interrupted.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The calls block until they are complete and never return `Poll::Pending`.
impl AsyncRead for BlockingSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = uninterrupted(|| Read::read(&mut *self, room.initialize_unfilled()));
        Poll::Ready(read.map(|count| room.advance(count)))
    }
}

/// The calls block until they are complete and never return `Poll::Pending`.
impl AsyncWrite for BlockingSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(uninterrupted(|| Write::write(&mut *self, bytes)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shut_down())
    }
}

impl DataSocket for BlockingSocket {
    const BLOCKS: bool = true;

    fn send_alert(&mut self, alert: &[u8]) {
        // Ignored: a peer that has closed the connection needs no alert.
        _ = Write::write_all(self, alert);
    }

    fn kernel(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Kernel(stream) => Some(stream.as_fd()),
            Self::Userspace { .. } => None,
        }
    }

    async fn kernel_io<T>(
        &self,
        _: Interest,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Option<io::Result<T>> {
        let socket = self.kernel()?;
        Some(uninterrupted(|| call(socket)))
    }

    /// The reset is immediate: a duplicate of the descriptor in the [`Canceller`] would delay a
    /// reset that closing the socket sends.
    fn reset(&self) {
        match self {
            // A broken connection needs no reset.
            Self::Kernel(stream) => _ = rustix::net::connect_unspec(stream),
            Self::Userspace { stream, .. } => stream.abort(),
        }
    }

    fn observe(&self, stats: &mut DataStats) {
        match self {
            Self::Kernel(stream) => observe_kernel(stream, stats),
            Self::Userspace { stream, .. } => observe_userspace(stream, stats),
        }
    }
}

impl DataSocket for TcpConnection {
    const BLOCKS: bool = false;

    fn send_alert(&mut self, alert: &[u8]) {
        // Does not wait: a peer that no longer reads does not need the alert.
        _ = self.try_write(alert);
    }

    fn kernel(&self) -> Option<BorrowedFd<'_>> {
        Self::kernel(self).map(AsFd::as_fd)
    }

    async fn kernel_io<T>(
        &self,
        interest: Interest,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Option<io::Result<T>> {
        let stream = Self::kernel(self)?;
        Some(stream.async_io(interest, || uninterrupted(|| call(stream.as_fd()))).await)
    }

    fn reset(&self) {
        match self {
            Self::Kernel(stream) => reset_on_close(stream),
            Self::Userspace(stream) => stream.abort(),
        }
    }

    fn observe(&self, stats: &mut DataStats) {
        match self {
            Self::Kernel(stream) => observe_kernel(stream, stats),
            Self::Userspace(stream) => observe_userspace(stream, stats),
        }
    }
}

/// Sets the linger option of a connection so that closing the connection sends a reset.
pub fn reset_on_close(socket: &impl AsFd) {
    // If the option cannot be set, the connection is closed without a reset, but the reply on the
    // control connection still reports the error.
    _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

fn observe_kernel(socket: &impl AsFd, stats: &mut DataStats) {
    stats.query_tcp(socket);
    stats.query_addresses(socket);
}

fn observe_userspace(stream: &os::host::Stream, stats: &mut DataStats) {
    if let Ok(status) = stream.status() {
        let (tcp, own_stack) = of_userspace(&status);
        stats.tcp = Some(tcp);
        stats.own_stack = own_stack;
        stats.addresses = Some((status.local, status.remote));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_of_several_records_is_written_together_and_in_order() {
        let mut room = vec![0; 100];
        let mut received = Vec::new();
        let mut append = |data: &[u8]| received.push(data.to_vec());
        let mut buffer = RecordBuffer { room: &mut room, len: 0, each: &mut append };
        buffer.put(&[1; 60]);
        buffer.put(&[2; 40]);
        buffer.put(&[3; 30]);
        buffer.put(&[4; 80]);
        buffer.put(&[5; 120]);
        buffer.put(&[6; 10]);
        buffer.flush();
        buffer.flush();
        let expected = [
            [vec![1; 60], vec![2; 40]].concat(),
            vec![3; 30],
            vec![4; 80],
            vec![5; 120],
            vec![6; 10],
        ];
        assert_eq!(received, expected);
    }
}
