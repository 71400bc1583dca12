//! A TCP connection as a byte stream.

use super::{Host, State, Waiting};
use net::transport::tcp::{CloseReason, ConnectionId, OpenError, State as TcpState, Status};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop;

/// An open connection. Dropping the stream closes the connection; data already written is still
/// sent. If received data was not read, this data is lost and the peer gets a reset.
#[derive(Debug)]
pub struct Stream {
    host: Host,
    id: ConnectionId,
}

impl Host {
    /// Opens a connection to `remote`.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::ConnectionRefused`], `TimedOut`, `HostUnreachable` and others like
    /// a socket of the kernel; `NetworkUnreachable` if the host has no address of the family of
    /// `remote`.
    pub async fn connect(&self, remote: SocketAddr) -> io::Result<Stream> {
        Stream::connect(self.clone(), remote).await
    }
}

impl Stream {
    /// Resets the connection (ABORT, RFC 9293 §3.9.1), so that the peer cannot mistake truncated
    /// data for complete data.
    pub fn abort(&self) {
        // An error means that the connection has already ended, so no reset is needed.
        self.host.act(|state| _ = state.layers(|layers, cx| layers.tcp.abort(self.id, cx)));
    }

    pub(super) fn of(host: Host, id: ConnectionId) -> Self {
        Self { host, id }
    }

    async fn connect(host: Host, remote: SocketAddr) -> io::Result<Self> {
        let opened = host.act(|state| {
            state.check()?;
            let local = state.source_for(remote.ip())?;
            let profile = host.profile.as_deref().copied().unwrap_or(state.profile);
            let id = state.layers(|layers, cx| layers.tcp.open(local, remote, profile, cx));
            let id = id.map_err(refusal)?;
            state.connections.insert(id, Waiting::default());
            Ok::<_, io::Error>(id)
        });
        // From here on a cancelled call drops the stream, which closes the connection.
        let stream = Self::of(host, opened?);
        poll_fn(|context| stream.poll_open(context)).await?;
        Ok(stream)
    }

    fn poll_open(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.host.shared.lock();
        state.check()?;
        let status = self.status_in(&mut state)?;
        match status.state {
            TcpState::SynSent | TcpState::SynReceived => {
                self.waiting(&mut state).opening = Some(context.waker().clone());
                Poll::Pending
            }
            TcpState::Closed => Poll::Ready(Err(failure(status.close_reason))),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Returns the state and the counters of the connection.
    ///
    /// # Errors
    ///
    /// Returns an error if the host has failed.
    pub fn status(&self) -> io::Result<Status> {
        self.status_in(&mut self.host.shared.lock())
    }

    /// Returns the local address.
    ///
    /// # Errors
    ///
    /// Returns an error if the host has failed.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.status().map(|status| status.local)
    }

    /// Returns the peer's address.
    ///
    /// # Errors
    ///
    /// Returns an error if the host has failed.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.status().map(|status| status.remote)
    }

    /// Returns the number of bytes up to the end of the urgent data, if the peer has announced
    /// urgent data not yet read (RFC 9293 §3.8.5). A read does not stop at the end of the urgent
    /// data: a caller that needs the boundary must read at most the returned number of bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the host has failed.
    pub fn bytes_to_urgent_end(&self) -> io::Result<Option<usize>> {
        self.host.act(|state| {
            state.check()?;
            let ahead = state.layers(|layers, _| layers.tcp.urgent_ahead(self.id));
            ahead.map_err(|_| io::ErrorKind::NotConnected.into())
        })
    }

    /// Waits until there is data to read, the end of the stream, or urgent data announced by the
    /// peer. With `knows_urgent`, announced urgent data does not end the wait.
    ///
    /// # Errors
    ///
    /// Returns the error with which the connection or the host has failed.
    pub fn poll_readable(&self, context: &Context<'_>, knows_urgent: bool) -> Poll<io::Result<()>> {
        self.host.act(|state| {
            let is_ready = state.layers(|layers, _| {
                layers.tcp.received(self.id).is_ok_and(|data| !data.is_empty())
                    || !knows_urgent
                        && layers.tcp.urgent_ahead(self.id).is_ok_and(|ahead| ahead.is_some())
            });
            if is_ready {
                return Poll::Ready(Ok(()));
            }
            self.poll_end(state, context)
        })
    }

    /// Waits until the peer announces urgent data, or until the connection fails. Data and the end
    /// of the stream do not end the wait. With `knows_urgent`, neither does announced urgent data.
    ///
    /// # Errors
    ///
    /// Returns the error with which the connection or the host has failed.
    pub fn poll_urgent(&self, context: &Context<'_>, knows_urgent: bool) -> Poll<io::Result<()>> {
        self.host.act(|state| {
            let is_urgent_ahead = state.layers(|layers, _| {
                layers.tcp.urgent_ahead(self.id).is_ok_and(|ahead| ahead.is_some())
            });
            if is_urgent_ahead && !knows_urgent {
                return Poll::Ready(Ok(()));
            }
            if let Poll::Ready(Err(error)) = self.poll_end(state, context) {
                return Poll::Ready(Err(error));
            }
            self.waiting(state).reading = Some(context.waker().clone());
            Poll::Pending
        })
    }

    /// Sends `data` as urgent data, together with all data queued before it. The urgent pointer
    /// points to the byte after the last byte of `data` (RFC 6093). Waits until there is space in
    /// the send buffer, and returns the number of bytes accepted.
    ///
    /// # Errors
    ///
    /// Returns the errors of a write.
    pub fn poll_write_urgent(
        &self,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(context, &[IoSlice::new(data)], true)
    }

    /// Waits for the end of the stream, or for data to read.
    fn poll_end(&self, state: &mut State, context: &Context<'_>) -> Poll<io::Result<()>> {
        state.check()?;
        let status = self.status_in(state)?;
        match status.state {
            TcpState::Closed => Poll::Ready(match status.close_reason {
                None | Some(CloseReason::Closed) => Ok(()),
                close_reason => Err(failure(close_reason)),
            }),
            // The peer has closed its side: no more data follows.
            TcpState::CloseWait | TcpState::LastAck | TcpState::Closing | TcpState::TimeWait => {
                Poll::Ready(Ok(()))
            }
            _ => {
                self.waiting(state).reading = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn status_in(&self, state: &mut State) -> io::Result<Status> {
        let status = state.layers(|layers, _| layers.tcp.status(self.id));
        status.map_err(|_| io::ErrorKind::NotConnected.into())
    }

    fn waiting<'a>(&self, state: &'a mut State) -> &'a mut Waiting {
        state.connections.entry(self.id).or_default()
    }

    fn read(&self, state: &mut State, buffer: &mut ReadBuf<'_>) -> Option<usize> {
        state.layers(|layers, _| {
            let data = layers.tcp.received(self.id).ok()?;
            let count = data.len().min(buffer.remaining());
            buffer.put_slice(data.get(..count)?);
            layers.tcp.consume(self.id, count).ok()?;
            Some(count)
        })
    }

    /// Writes as much of `data` as fits in the send buffer, without waiting, and returns the number
    /// of bytes, or [`Poll::Pending`] if there is no space now; no task is woken when there is.
    ///
    /// # Errors
    ///
    /// Returns the errors of a write.
    pub fn try_write(&self, data: &[u8]) -> Poll<io::Result<usize>> {
        self.host.act(|state| match self.write_now(state, &[IoSlice::new(data)], false)? {
            0 if !data.is_empty() => Poll::Pending,
            accepted => Poll::Ready(Ok(accepted)),
        })
    }

    /// Passes as much of `data` to TCP as fits in the send buffer, and returns the number of bytes.
    fn write_now(
        &self,
        state: &mut State,
        data: &[IoSlice<'_>],
        is_urgent: bool,
    ) -> io::Result<usize> {
        state.check()?;
        let status = self.status_in(state)?;
        if !status.state.takes_data() {
            return Err(match status.close_reason {
                None | Some(CloseReason::Closed) => io::ErrorKind::BrokenPipe.into(),
                close_reason => failure(close_reason),
            });
        }
        let mut accepted = 0;
        for part in data {
            let sent = state.layers(|layers, _| match is_urgent {
                true => layers.tcp.send_urgent(self.id, part),
                false => layers.tcp.send(self.id, part),
            });
            let sent = sent.unwrap_or(0);
            accepted += sent;
            if sent < part.len() {
                break;
            }
        }
        Ok(accepted)
    }

    fn write(
        &self,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
        is_urgent: bool,
    ) -> Poll<io::Result<usize>> {
        let budget = ready!(coop::poll_proceed(context));
        self.host.act(|state| {
            let accepted = self.write_now(state, data, is_urgent)?;
            if accepted == 0 && data.iter().any(|part| !part.is_empty()) {
                self.waiting(state).writing = Some(context.waker().clone());
                return Poll::Pending;
            }
            budget.made_progress();
            Poll::Ready(Ok(accepted))
        })
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let budget = ready!(coop::poll_proceed(context));
        // The buffer may already hold data of earlier reads.
        let previous_len = buffer.filled().len();
        self.host.act(|state| {
            while buffer.remaining() > 0 && self.read(state, buffer).is_some_and(|read| read > 0) {}
            if buffer.filled().len() > previous_len || buffer.remaining() == 0 {
                budget.made_progress();
                return Poll::Ready(Ok(()));
            }
            self.poll_end(state, context)
        })
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(context, &[IoSlice::new(data)], false)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(context, data, false)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: written data is sent at once, as far as the peer's window allows.
    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Closes the sending side; reading continues.
    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.host.act(|state| {
            state.check()?;
            let closed = state.layers(|layers, _| layers.tcp.close(self.id));
            Poll::Ready(closed.map_err(|_| io::ErrorKind::NotConnected.into()))
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.host.act(|state| {
            state.connections.remove(&self.id);
            state.layers(|layers, _| layers.tcp.release(self.id));
        });
    }
}

fn refusal(error: OpenError) -> io::Error {
    match error {
        OpenError::BadRemote => io::ErrorKind::InvalidInput.into(),
        OpenError::TooMany | OpenError::NoPort => io::ErrorKind::AddrNotAvailable.into(),
    }
}

fn failure(close_reason: Option<CloseReason>) -> io::Error {
    let kind = match close_reason {
        Some(CloseReason::Refused) => io::ErrorKind::ConnectionRefused,
        Some(CloseReason::Reset) => io::ErrorKind::ConnectionReset,
        Some(CloseReason::TimedOut) => io::ErrorKind::TimedOut,
        Some(CloseReason::Unreachable) => io::ErrorKind::HostUnreachable,
        Some(CloseReason::Aborted | CloseReason::Closed) | None => io::ErrorKind::ConnectionAborted,
    };
    kind.into()
}
